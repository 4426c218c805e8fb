/* SPDX-License-Identifier: MIT */
/* Prints weft(1) in roff with the man macros, from the tables of commands and keys. */
#include <string.h>

#include <weft/version.h>

#include "common.h"
#include "help.h"

/* Prints text, escaped so that roff reads no requests or escapes in it. */
static void put_n(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool line_start = i == 0 || text[i - 1] == '\n';
        if (line_start && text[i] == '.') fputs("\\&", stdout);
        if (text[i] == '\\')
            fputs("\\e", stdout);
        else if (text[i] == '-')
            fputs("\\-", stdout);
        else if (text[i] == '\'')
            fputs("\\(aq", stdout);
        else
            fputc(text[i], stdout);
    }
}

static void put(const char *text) { put_n(text, strlen(text)); }

/* Prints text in which an empty line becomes a paragraph break. */
static void put_paragraphs(const char *text) {
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t n = end ? (size_t)(end - text) : strlen(text);
        put_n(text, n);
        fputs(end ? "\n.PP\n" : "\n", stdout);
        text += n + (end ? 2 : 0);
    }
}

static void put_entry(const char *bold, const char *italic, const char *text) {
    fputs(".TP\n\\fB", stdout);
    put(bold);
    fputs("\\fR", stdout);
    if (italic && italic[0]) {
        fputs(" \\fI", stdout);
        put(italic);
        fputs("\\fR", stdout);
    }
    fputc('\n', stdout);
    put(text);
    fputc('\n', stdout);
}

static void put_command(const command *c) {
    char text[400];
    printf(".SS \"weft %s\"\n\\fBweft %s\\fR \\fI", c->name, c->name);
    put(c->usage);
    fputs("\\fR\n.PP\n", stdout);
    put_paragraphs(c->help);
    for (const flag *f = c->flags; f && f->name; f++) {
        snprintf(text, sizeof text, "%s%s%s", f->doc, f->key ? "; short for " : "",
                 f->key ? f->key : "");
        put_entry(f->name, f->placeholder, text);
    }
}

static void put_keys(void) {
    char text[600], values[300], fallback[120];
    const weft_config_key *key;
    for (int i = 0; (key = weft_config_key_at(i)); i++) {
        snprintf(fallback, sizeof fallback, "(%s)", key->fallback);
        snprintf(text, sizeof text, "%s: %s", key->doc,
                 weft_config_key_values(key, values, sizeof values));
        put_entry(key->name, key->fallback[0] ? fallback : NULL, text);
    }
}

static int run(weft_ctx *ctx, args *a) {
    (void)ctx, (void)a;
    printf(".TH WEFT 1 \"\" \"weft %s\" \"User Commands\"\n", WEFT_VERSION);
    fputs(".SH NAME\nweft \\- train neural networks across machines\n"
          ".SH SYNOPSIS\n.B weft\n.I COMMAND\n.RI [ run.yaml ]\n.RI [ section.key=value "
          "\\ ...]\n"
          ".RI [ flags ]\n.SH DESCRIPTION\n",
          stdout);
    put("weft trains language models on several ranks and nodes joined by an ordinary "
        "network, and says what crossed the wire and what it cost.\n");
    fputs(".SH COMMANDS\n", stdout);
    for (int i = 0; commands[i]; i++) put_command(commands[i]);
    fputs(".SH CONFIGURATION\n", stdout);
    put(help_config_layers);
    fputs("\nDefaults are in parentheses.\n", stdout);
    put_keys();
    fputs(".SH \"EXIT STATUS\"\n", stdout);
    put(help_exit_codes);
    fputc('\n', stdout);
    return CODE_OK;
}

const command command_man = {
    .name = "man",
    .summary = "print the manual page weft(1)",
    .usage = "",
    .help = "Prints the page in roff: weft man | man -l -",
    .least = 0,
    .most = 0,
    .run = run,
};
