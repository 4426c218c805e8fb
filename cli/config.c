/* SPDX-License-Identifier: MIT */
/* `weft config`: every key with its value and where the value comes from. */
#include <string.h>
#include <stdio.h>

#include <weft/train.h>

#include "common.h"
#include "operands.h"
#include "help.h"

/* docs/configuration.md, from the table of keys. */

static const char *const opening = "<!-- Printed by `weft config --markdown`; change "
                                   "lib/config/schema.c instead. -->\n\n"
                                   "# Configuration\n\n";

static const char *const example =
    "\n```yaml\n"
    "method: hsdp\n"
    "data:\n"
    "  path: [texts/a.txt, texts/b.txt]\n"
    "mesh:\n"
    "  nodes: 2\n"
    "  link: 100Mbit,10ms\n"
    "```\n\n"
    "    weft train run.yaml optimizer.lr=3e-4 data.path=texts/c.txt\n\n";

static const char *const rules =
    "A list is `[a, b]` in a file and `a,b` on the command line; one value is a list of "
    "one. Truth values are true or false, yes or no, on or off. Errors name the line, of "
    "anchors, aliases, tags and a second document, too. `weft config run.yaml "
    "--origins` shows where each value came from. Below, the default stands in "
    "brackets, then unit and bounds. Numbers are not negative unless it says "
    "otherwise, and whole if their default is: `3`, not `3.0`.";

static bool is_in(const weft_config_key *key, const char *section) {
    size_t n = strlen(section);
    return strncmp(key->name, section, n) == 0 && key->name[n] == '.';
}

static bool is_number(const weft_config_key *key) {
    return key->type == WEFT_KEY_INT || key->type == WEFT_KEY_NUMBER ||
           key->type == WEFT_KEY_NUMBERS;
}

/* Larger bounds only keep memory within limits. */
static const double most_shown = 1024;

/* Prints what the default does not show: unit, type, bounds. */
static void put_values(FILE *out, const weft_config_key *key) {
    if (key->unit[0]) fprintf(out, " %s", key->unit);
    if (key->type == WEFT_KEY_BYTES) fputs(", a size", out);
    if (key->type == WEFT_KEY_LINK) fputs(" or RATE,LATENCY", out);
    if (key->type == WEFT_KEY_TEXTS || key->type == WEFT_KEY_NUMBERS) fputs(" list", out);
    if (key->type == WEFT_KEY_AUTO_BOOL) fputs(", true, false", out);
    if (!is_number(key)) return;
    bool has_max = key->max <= most_shown;
    const char *below = key->max_excluded ? "< " : "";
    if (key->min != 0 && has_max)
        fprintf(out, ", %.7g..%s%.7g", key->min, below, key->max);
    else if (has_max)
        fprintf(out, ", %s %.7g", key->max_excluded ? "<" : "<=", key->max);
    else if (key->min != 0)
        fprintf(out, ", >= %.7g", key->min);
}

/* The first key with these choices: where they are explained. */
static const weft_config_key *first_with(const weft_choice *choices) {
    const weft_config_key *key;
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        if (key->choices == choices) return key;
    return NULL;
}

static void put_choices(FILE *out, const weft_config_key *key) {
    if (!key->choices) return;
    const weft_config_key *first = first_with(key->choices);
    if (first != key) {
        fprintf(out, "  - as `%s`\n", first->name);
        return;
    }
    for (const weft_choice *c = key->choices; c->name; c++)
        fprintf(out, "  - `%s`: %s\n", c->name, c->doc);
}

static void put_key(FILE *out, const weft_config_key *key) {
    fprintf(out, "- `%s` (", key->name);
    bool adds_point = key->type == WEFT_KEY_NUMBER && !strpbrk(key->fallback, ".e");
    fprintf(out, key->fallback[0] ? "`%s%s`" : "empty", key->fallback,
            adds_point ? ".0" : "");
    put_values(out, key);
    fprintf(out, "): %s\n", key->doc);
    put_choices(out, key);
}

/* A key of another section with the same name, default and meaning, or NULL. */
static const weft_config_key *twin_of(const weft_config_key *key, const char *section) {
    const char *tail = strchr(key->name, '.');
    const weft_config_key *other;
    for (int i = 0; tail && (other = weft_config_key_at(i)); i++)
        if (is_in(other, section) && strcmp(strchr(other->name, '.'), tail) == 0)
            return strcmp(other->doc, key->doc) == 0 &&
                           strcmp(other->fallback, key->fallback) == 0
                       ? other
                       : NULL;
    return NULL;
}

static void put_section(FILE *out, const char *section, const char *doc) {
    const weft_config_key *key;
    const char *like = strcmp(section, "site_replicator") == 0 ? "replicator" : NULL;
    fprintf(out, "\n## %s\n\n%s\n\n", section, doc);
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        if (is_in(key, section) && !(like && twin_of(key, like))) put_key(out, key);
    if (like) fprintf(out, "\nAll other keys are those of `%s`.\n", like);
}

static void put_methods(FILE *out) {
    const char *name, *value;
    const weft_config_key *method = key_of("method");
    fputs("\n## method\n\nA method is a preset of other keys. What you set yourself goes "
          "over it.\n\n",
          out);
    for (const weft_choice *c = method->choices; c->name; c++) {
        fprintf(out, "- `%s`: %s", c->name, c->doc);
        for (int j = 0; (name = weft_config_method_key(c->name, j, &value)); j++)
            fprintf(out, "%s`%s=%s`", j > 0 ? ", " : "; ", name, value);
        fputs("\n", out);
    }
}

/* Prints docs/configuration.md from the table of keys. */
static void print_markdown(FILE *out) {
    const char *name, *doc;
    fputs(opening, out);
    print_wrapped(out, 0, 90, help_config_layers);
    fputs(example, out);
    print_wrapped(out, 0, 90, rules);
    put_methods(out);
    for (int i = 0; (name = weft_config_section(i, &doc)); i++)
        put_section(out, name, doc);
}

static const flag flags[] = {
    {"--origins", NULL, "print after each value where it came from", NULL},
    {"--comments", NULL, "print after each value what it means", NULL},
    {"--json", NULL, "print an object of sections instead of YAML", NULL},
    {"--keys", NULL, "print one line for each key: name, default, values, meaning", NULL},
    {"--markdown", NULL, "print docs/configuration.md", NULL},
    RUN_FLAGS,
    {NULL, NULL, NULL, NULL}};

enum { FORMS_OF_RUNS = 3, FORMS = 5 }; /* the first flags, each instead of the others */

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

/* Without data.path the model may be that of another program, whose width nobody knows, and its
 * rate that of a wide one (config/check.c). The run of this program has a model of weft's own: the
 * default width is set for as long as the rate is looked up, and keeps its origin. */
static weft_status finish(weft_ctx *ctx, weft_config *config) {
    char text[64];
    weft_config_origin origin = weft_config_origin_of(config, key_of("model.width"));
    if (config->data.path.n > 0 || origin != WEFT_ORIGIN_DEFAULT)
        return weft_config_finish(ctx, config);
    snprintf(text, sizeof text, "model.width=%lld", (long long)config->model.width);
    WEFT_TRY(weft_config_set(ctx, config, text));
    WEFT_TRY(weft_config_finish(ctx, config));
    return weft_config_reset(ctx, config, "model.width");
}

static weft_status print_resolved(weft_ctx *ctx, const args *a) {
    weft_config *config;
    const char *text;
    weft_config_notes notes = args_has(a, "--origins")    ? WEFT_CONFIG_ORIGINS
                              : args_has(a, "--comments") ? WEFT_CONFIG_DOCS
                                                          : WEFT_CONFIG_BARE;
    bool json = args_has(a, "--json");
    WEFT_TRY(weft_config_create(ctx, &config));
    weft_status status = operands_read(ctx, a, config);
    if (status == WEFT_OK) status = finish(ctx, config);
    if (status == WEFT_OK) status = operands_look(ctx, a, config);
    if (status == WEFT_OK) status = weft_config_adopt(ctx, config);
    if (status == WEFT_OK && !json) status = weft_config_text(ctx, config, notes, &text);
    if (status == WEFT_OK && json)
        print_config_json(config);
    else if (status == WEFT_OK)
        fputs(text, stdout);
    weft_config_destroy(ctx, config);
    return status;
}

/* Of the flags that say what is printed, [out] *form is the one that is given; --keys and
 * --markdown are of no configuration. */
static int find_form(const args *a, const char **form) {
    *form = NULL;
    for (int i = 0; i < FORMS; i++) {
        if (!a->values[i]) continue;
        if (*form)
            return usage_error("%s and %s are two forms, expected one of them", *form,
                               flags[i].name);
        *form = flags[i].name;
        if (i < FORMS_OF_RUNS) continue;
        if (a->n_given > 1) return usage_error("%s goes with no other flag", *form);
        int code = args_expect(a, 0, 0);
        if (code != CODE_OK) return code;
    }
    return CODE_OK;
}

static int run(weft_ctx *ctx, args *a) {
    const char *form;
    int code = find_form(a, &form);
    if (code != CODE_OK) return code;
    if (args_has(a, "--keys"))
        print_keys();
    else if (args_has(a, "--markdown"))
        print_markdown(stdout);
    else
        return program_code(ctx, print_resolved(ctx, a));
    return CODE_OK;
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
