/* SPDX-License-Identifier: MIT */
/* --help, from the tables of commands and keys. */
#include "help.h"

#include <string.h>

#include "common.h"

enum { WIDTH = 90, FLAG_COLUMN = 28, KEY_COLUMN = 40 };

const char *const help_exit_codes =
    "0 when all went well, 1 when something failed while running, 2 when a file, a value "
    "or an argument was wrong. Errors are one line on stderr; stdout has results only.";

const char *const help_config_layers =
    "Keys are read from a YAML file of sections (run.yaml) and given or changed as "
    "section.key=value. The value comes from the first of: the command line, the file, "
    "the method's preset, the default. Counts take k, M and G; sizes kB, MB, GB, KiB, "
    "MiB and GiB; links bit/s such as 100Mbit, times such as 10ms, 5min or 1d, shares "
    "such "
    "as 5%.";

void help_overview(FILE *out) {
    fputs("weft trains neural networks across machines.\n\nusage: weft COMMAND ...\n\n",
          out);
    for (int i = 0; commands[i]; i++)
        fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n  weft COMMAND --help   what a command does, and its flags\n"
          "  weft config --help    every key of a configuration\n"
          "  weft --version        the version\n\n",
          out);
    fputs("Exit code: ", out);
    print_wrapped(out, 11, WIDTH, help_exit_codes);
}

/* Prints a name in its column, and wrapped text beside it. */
static void print_entry(FILE *out, const char *name, int column, const char *text) {
    int n = (int)strlen(name);
    if (n + 4 > column)
        fprintf(out, "  %s\n%*s", name, column, "");
    else
        fprintf(out, "  %-*s", column - 2, name);
    print_wrapped(out, column, WIDTH, text);
}

/* Prints the names of the flags up to `last` as a list and returns the flag after it. */
static const flag *print_facts(FILE *out, const flag *f, const char *last) {
    int column = WIDTH;
    fputs("\nFacts about the machines (weft man explains each):", out);
    for (bool more = true; more; f++) {
        more = strcmp(f->name, last) != 0;
        int n = (int)(strlen(f->name) + strlen(f->placeholder)) + 3;
        if (column + n > WIDTH) fputs("\n ", out);
        column = column + n > WIDTH ? n + 1 : column + n;
        fprintf(out, " %s %s%s", f->name, f->placeholder, more ? "," : "\n");
    }
    return f;
}

static void print_flags(FILE *out, const command *c) {
    char name[80], text[400];
    const flag *f = c->facts ? print_facts(out, c->flags, c->facts) : c->flags;
    fputs("\nFlags:\n", out);
    for (; f && f->name; f++) {
        snprintf(name, sizeof name, "%s%s%s%s", f->name,
                 strcmp(f->name, "-o") == 0 ? ", --output" : "",
                 f->placeholder ? " " : "", f->placeholder ? f->placeholder : "");
        snprintf(text, sizeof text, "%s%s%s", f->doc, f->key ? "; short for " : "",
                 f->key ? f->key : "");
        print_entry(out, name, FLAG_COLUMN, text);
    }
    print_entry(out, "--help", FLAG_COLUMN, "print this");
}

static void print_examples(FILE *out, const char *examples) {
    fputs("\nExamples:\n", out);
    for (const char *at = examples; *at; at += strcspn(at, "\n"), at += *at == '\n')
        fprintf(out, "  weft %.*s\n", (int)strcspn(at, "\n"), at);
}

static void print_keys(FILE *out) {
    char name[200], text[600], values[300];
    const weft_config_key *key;
    fputs("\nConfiguration keys and their defaults:\n\n", out);
    print_wrapped(out, 0, WIDTH, help_config_layers);
    fputc('\n', out);
    for (int i = 0; (key = weft_config_key_at(i)); i++) {
        snprintf(name, sizeof name, "%s=%s", key->name, key->fallback);
        snprintf(text, sizeof text, "%s: %s", key->doc,
                 weft_config_key_values(key, values, sizeof values));
        print_entry(out, name, KEY_COLUMN, text);
    }
}

void help_command(FILE *out, const command *c) {
    fprintf(out, "weft %s: %s\n\nusage: weft %s %s\n\n", c->name, c->summary, c->name,
            c->usage);
    print_wrapped(out, 0, WIDTH, c->help);
    if (c->examples) print_examples(out, c->examples);
    print_flags(out, c);
    if (strcmp(c->name, "config") == 0)
        print_keys(out);
    else if (c->configures)
        fputs("\nkeys: weft config --help\n", out);
}
