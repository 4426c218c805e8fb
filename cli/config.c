/* SPDX-License-Identifier: MIT */
/* `weft config`: every key with its value and where the value comes from. */
#include <string.h>

#include "common.h"
#include "markdown.h"
#include "operands.h"

static const flag flags[] = {
    {"--origins", NULL, "print after each value where it came from", NULL},
    {"--comments", NULL, "print after each value what it means", NULL},
    {"--json", NULL, "print an object of sections instead of YAML", NULL},
    {"--keys", NULL, "print one line for each key: name, default, values, meaning", NULL},
    {"--markdown", NULL, "print docs/configuration.md", NULL},
    RUN_FLAGS,
    {NULL, NULL, NULL, NULL}};

static void print_keys(void) {
    const weft_config_key *key;
    char values[300];
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        printf("%s\t%s\t%s\t%s\n", key->name, key->fallback,
               weft_config_key_values(key, values, sizeof values), key->doc);
}

/* Whatever weft_config holds at a key. */
static json_t *json_of(const weft_config *config, const weft_config_key *key) {
    const void *place = (const char *)config + key->offset;
    const weft_texts *texts = place;
    const weft_numbers *numbers = place;
    json_t *list;
    switch (key->type) {
    case WEFT_KEY_INT:
    case WEFT_KEY_BYTES: return json_integer(*(const int64_t *)place);
    case WEFT_KEY_NUMBER: return json_real(*(const double *)place);
    case WEFT_KEY_BOOL: return json_boolean(*(const bool *)place);
    case WEFT_KEY_AUTO_BOOL:
        if (*(const int *)place < 0) return json_string("auto");
        return json_boolean(*(const int *)place);
    case WEFT_KEY_TEXT:
    case WEFT_KEY_CHOICE:
    case WEFT_KEY_LINK: return json_string(*(const char *const *)place);
    case WEFT_KEY_TEXTS:
        list = json_array();
        for (int i = 0; i < texts->n; i++)
            json_array_append_new(list, json_string(texts->items[i]));
        return list;
    case WEFT_KEY_NUMBERS:
        list = json_array();
        for (int i = 0; i < numbers->n; i++)
            json_array_append_new(list, json_real(numbers->items[i]));
        return list;
    }
    return json_null();
}

static int print_config_json(const weft_config *config) {
    const weft_config_key *key;
    json_t *all = json_object();
    for (int i = 0; (key = weft_config_key_at(i)); i++) {
        char section[64];
        const char *dot = strchr(key->name, '.');
        snprintf(section, sizeof section, "%.*s", dot ? (int)(dot - key->name) : 0,
                 key->name);
        if (dot && !json_object_get(all, section))
            json_object_set_new(all, section, json_object());
        json_object_set_new(dot ? json_object_get(all, section) : all,
                            dot ? dot + 1 : key->name, json_of(config, key));
    }
    return say_json(all);
}

static weft_status print_resolved(weft_ctx *ctx, const args *a) {
    weft_config *config;
    const char *text;
    weft_config_notes notes = args_has(a, "--origins")    ? WEFT_CONFIG_ORIGINS
                              : args_has(a, "--comments") ? WEFT_CONFIG_DOCS
                                                          : WEFT_CONFIG_BARE;
    WEFT_TRY(config_of_args(ctx, a, &config));
    bool json = args_has(a, "--json");
    weft_status status = json ? WEFT_OK : weft_config_text(ctx, config, notes, &text);
    if (json)
        print_config_json(config);
    else if (status == WEFT_OK)
        fputs(text, stdout);
    weft_config_destroy(ctx, config);
    return status;
}

static int run(weft_ctx *ctx, args *a) {
    if (args_has(a, "--keys") || args_has(a, "--markdown")) {
        int code = args_expect(a, 0, 0);
        if (code == CODE_OK && args_has(a, "--keys")) print_keys();
        if (code == CODE_OK && args_has(a, "--markdown")) print_markdown(stdout);
        return code;
    }
    return program_code(ctx, print_resolved(ctx, a));
}

const command command_config = {
    .name = "config",
    .summary = "print the configuration that a run would have",
    .usage = "[run.yaml] [section.key=value ...] [flags]",
    .help =
        "Reads the file and the overrides, applies the method's preset and the defaults, "
        "checks everything, and prints all keys as YAML that can be run again.",
    .examples = "config\n"
                "config run.yaml --comments\n"
                "config run.yaml --origins\n"
                "config method=flexdemo optimizer.lr=3e-4 > run.yaml\n"
                "config --keys",
    .flags = flags,
    .configures = true,
    .run = run,
};
