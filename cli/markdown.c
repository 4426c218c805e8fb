/* SPDX-License-Identifier: MIT */
/* docs/configuration.md, from the table of keys. */
#include "markdown.h"

#include <string.h>

#include "common.h"
#include "help.h"

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
    "A list is written `[a, b]` in a file and `a,b` on the command line; one value is a "
    "list of "
    "one. Truth values are true or false, yes or no, on or off. A key given twice, an "
    "unknown "
    "key, a wrong unit, anchors, aliases, tags and a second document are errors that "
    "name the "
    "line. `weft config run.yaml --origins` shows every value and where it came from.";

/* Prints text for a table cell. */
static void put_cell(FILE *out, const char *text) {
    fputs(" ", out);
    for (; *text; text++) {
        if (*text == '|') fputc('\\', out);
        fputc(*text, out);
    }
    fputs(" |", out);
}

static void put_key(FILE *out, const weft_config_key *key) {
    char values[300], code[120];
    snprintf(code, sizeof code, "`%s`", key->name);
    fputs("|", out);
    put_cell(out, code);
    snprintf(code, sizeof code, key->fallback[0] ? "`%s`" : "%s", key->fallback);
    put_cell(out, code);
    put_cell(out, weft_config_key_values(key, values, sizeof values));
    put_cell(out, key->doc);
    fputc('\n', out);
}

static void put_choices(FILE *out, const weft_config_key *key) {
    fprintf(out, "\n`%s`:\n\n", key->name);
    for (const weft_choice *c = key->choices; c->name; c++)
        fprintf(out, "- `%s`: %s\n", c->name, c->doc);
}

static bool is_in(const weft_config_key *key, const char *section) {
    size_t n = strlen(section);
    return strncmp(key->name, section, n) == 0 && key->name[n] == '.';
}

static void put_section(FILE *out, const char *section, const char *doc) {
    const weft_config_key *key;
    fprintf(out,
            "\n## %s\n\n%s\n\n| key | default | values | meaning |\n|---|---|---|---|\n",
            section, doc);
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        if (is_in(key, section)) put_key(out, key);
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        if (is_in(key, section) && key->choices) put_choices(out, key);
}

static void put_methods(FILE *out) {
    const char *name, *value;
    const weft_config_key *method = key_of("method");
    fputs("\n## method\n\nA method is a name for values of other keys. What you set "
          "yourself "
          "goes over them.\n\n| method | meaning | sets |\n|---|---|---|\n",
          out);
    for (const weft_choice *c = method->choices; c->name; c++) {
        fprintf(out, "| `%s` | %s | ", c->name, c->doc);
        for (int j = 0; (name = weft_config_method_key(c->name, j, &value)); j++)
            fprintf(out, "%s`%s=%s`", j > 0 ? ", " : "", name, value);
        fputs(" |\n", out);
    }
}

void print_markdown(FILE *out) {
    const char *name, *doc;
    fputs(opening, out);
    print_wrapped(out, 0, 90, help_config_layers);
    fputs(example, out);
    print_wrapped(out, 0, 90, rules);
    put_methods(out);
    for (int i = 0; (name = weft_config_section(i, &doc)); i++)
        put_section(out, name, doc);
}
