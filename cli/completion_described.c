/* SPDX-License-Identifier: MIT */
/* Completion scripts for fish and zsh, which show a word's meaning beside it: one line per
 * command, flag, key and choice, from the same tables as the help.
 *
 *     fish   complete -c weft -n CONDITION -a WORD -d MEANING
 *     zsh    'WORD:MEANING' in arrays, chosen by the command; then _describe */
#include <string.h>

#include "common.h"
#include "completion.h"

enum { MOST_MEANING = 70 };

/* Prints the first sentence of a description inside quotes, and escapes what the shells
 * would interpret. In zsh ':' ends a word. */
static void put_meaning(const char *text, bool zsh) {
    for (int i = 0; text[i] && i < MOST_MEANING && strncmp(text + i, ". ", 2) != 0; i++) {
        if (text[i] == '\'')
            fputs(zsh ? "'\\''" : "\\'", stdout);
        else if (text[i] == '\\')
            fputs("\\\\", stdout);
        else
            putchar(text[i] == '\n' ? ' ' : text[i]);
    }
}

/* Kinds of a flag's argument. */
typedef enum argument { NO_ARGUMENT, A_FILE, A_FOLDER, WORDS, A_VALUE } argument;

static argument argument_of(const flag *f) {
    const weft_config_key *key = f->key ? key_of(f->key) : NULL;
    if (!f->placeholder) return NO_ARGUMENT;
    if (key && key->choices) return WORDS;
    if (strcmp(f->placeholder, "FILE") == 0) return A_FILE;
    if (strcmp(f->placeholder, "FOLDER") == 0 || strcmp(f->placeholder, "RUN") == 0)
        return A_FOLDER;
    return strchr(f->placeholder, '|') ? WORDS : A_VALUE;
}

static void put_words(const flag *f) {
    const weft_config_key *key = f->key ? key_of(f->key) : NULL;
    if (!key || !key->choices)
        for (const char *c = f->placeholder; *c; c++) putchar(*c == '|' ? ' ' : *c);
    else
        for (const weft_choice *c = key->choices; c->name; c++)
            printf("%s%s", c == key->choices ? "" : " ", c->name);
}

/* Calls `put` for each value that a key can have. */
static void each_choice(const weft_config_key *key,
                        void (*put)(const char *key, const char *value,
                                    const char *doc)) {
    if (key->type == WEFT_KEY_AUTO_BOOL) put(key->name, "auto", "");
    if (key->type == WEFT_KEY_BOOL || key->type == WEFT_KEY_AUTO_BOOL) {
        put(key->name, "true", "");
        put(key->name, "false", "");
    }
    for (const weft_choice *c = key->choices; c && c->name; c++)
        put(key->name, c->name, c->doc ? c->doc : "");
}

/* ---- fish ---- */

static void fish_flags(const command *c) {
    for (const flag *f = c->flags; f && f->name; f++) {
        printf("complete -c weft -n '__fish_seen_subcommand_from %s' ", c->name);
        if (f->name[1] == '-')
            printf("-l %s", f->name + 2);
        else
            printf("-s %s", f->name + 1);
        argument kind = argument_of(f);
        if (kind == A_FILE) fputs(" -r -F", stdout);
        if (kind == A_FOLDER) fputs(" -x -a '(__fish_complete_directories)'", stdout);
        if (kind == A_VALUE) fputs(" -x", stdout);
        if (kind == WORDS) {
            fputs(" -x -a '", stdout);
            put_words(f);
            fputs("'", stdout);
        }
        fputs(" -d '", stdout);
        put_meaning(f->doc, false);
        fputs("'\n", stdout);
    }
    const char *word;
    for (int i = 0; (word = command_word(c, i)); i++)
        printf("complete -c weft -n '__fish_seen_subcommand_from %s' -f -a %s\n", c->name,
               word);
}

static void fish_choice(const char *key, const char *value, const char *doc) {
    printf("complete -c weft -n __weft_configures -a '%s=%s' -d '", key, value);
    put_meaning(doc, false);
    fputs("'\n", stdout);
}

void completion_fish(void) {
    const weft_config_key *key;
    fputs("# fish completion for weft, printed by: weft completion fish\n"
          "function __weft_configures\n"
          "    __fish_seen_subcommand_from",
          stdout);
    for (int i = 0; commands[i]; i++)
        if (commands[i]->configures) printf(" %s", commands[i]->name);
    fputs("\nend\n", stdout);
    for (int i = 0; commands[i]; i++) {
        printf("complete -c weft -n __fish_use_subcommand -f -a %s -d '",
               commands[i]->name);
        put_meaning(commands[i]->summary, false);
        fputs("'\n", stdout);
        fish_flags(commands[i]);
    }
    for (int i = 0; (key = weft_config_key_at(i)); i++) {
        printf("complete -c weft -n __weft_configures -a '%s=' -d '", key->name);
        put_meaning(key->doc, false);
        fputs("'\n", stdout);
        each_choice(key, fish_choice);
    }
}

/* ---- zsh ---- */

/* Prints one word of an array, with ':' escaped, which would end the word. */
static void zsh_entry(const char *word, const char *meaning) {
    fputs("        '", stdout);
    for (; *word; word++) printf("%s%c", *word == ':' ? "\\" : "", *word);
    fputs(":", stdout);
    put_meaning(meaning, true);
    fputs("'\n", stdout);
}

static void zsh_choice(const char *key, const char *value, const char *doc) {
    (void)key;
    zsh_entry(value, doc);
}

/* Prints the cases for commands: their flags and words. */
static void zsh_commands(void) {
    for (int i = 0; commands[i]; i++) {
        const command *c = commands[i];
        printf("    %s)\n    flags=(\n", c->name);
        for (const flag *f = c->flags; f && f->name; f++) zsh_entry(f->name, f->doc);
        fputs("        '--help:print the help of this command'\n    )\n    words_of=(",
              stdout);
        const char *word;
        for (int k = 0; (word = command_word(c, k)); k++) printf("%s ", word);
        printf(")\n    configures=%d ;;\n", c->configures);
    }
}

/* Prints the cases for "command --flag": the possible arguments. */
static void zsh_arguments(void) {
    for (int i = 0; commands[i]; i++)
        for (const flag *f = commands[i]->flags; f && f->name; f++) {
            argument kind = argument_of(f);
            if (kind == NO_ARGUMENT) continue;
            printf("    '%s %s') ", commands[i]->name, f->name);
            if (kind == A_FILE) fputs("_files", stdout);
            if (kind == A_FOLDER) fputs("_files -/", stdout);
            if (kind == A_VALUE) fputs("_message value", stdout);
            if (kind == WORDS) {
                fputs("compadd ", stdout);
                put_words(f);
            }
            fputs("; return ;;\n", stdout);
        }
}

static void zsh_keys(void) {
    const weft_config_key *key;
    fputs("    if (( configures )) && [[ $PREFIX == *=* ]]; then\n"
          "        local key=${PREFIX%%=*}\n"
          "        compset -P '*='\n"
          "        local -a values=()\n"
          "        case $key in\n",
          stdout);
    for (int i = 0; (key = weft_config_key_at(i)); i++) {
        bool has = key->choices || key->type == WEFT_KEY_BOOL ||
                   key->type == WEFT_KEY_AUTO_BOOL;
        if (!has) continue;
        printf("        %s) values=(\n", key->name);
        each_choice(key, zsh_choice);
        fputs("        ) ;;\n", stdout);
    }
    fputs("        esac\n"
          "        if (( $#values )); then _describe value values; else _files; fi\n"
          "        return\n"
          "    fi\n"
          "    local -a keys=(\n",
          stdout);
    for (int i = 0; (key = weft_config_key_at(i)); i++) zsh_entry(key->name, key->doc);
    fputs("    )\n", stdout);
}

void completion_zsh(void) {
    fputs("#compdef weft\n"
          "# zsh completion for weft, printed by: weft completion zsh\n"
          "_weft() {\n"
          "    local -a commands_of=(\n",
          stdout);
    for (int i = 0; commands[i]; i++) zsh_entry(commands[i]->name, commands[i]->summary);
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then _describe command commands_of; return; fi\n"
          "    local -a flags=() words_of=()\n"
          "    local -i configures=0\n"
          "    case \"$words[2] $words[CURRENT-1]\" in\n",
          stdout);
    zsh_arguments();
    fputs("    esac\n    case $words[2] in\n", stdout);
    zsh_commands();
    fputs("    esac\n"
          "    if [[ $PREFIX == -* ]]; then _describe flag flags; return; fi\n",
          stdout);
    zsh_keys();
    fputs("    (( $#words_of )) && compadd -a words_of\n"
          "    (( configures )) && _describe key keys -S =\n"
          "    _files\n"
          "}\n"
          "if [[ $funcstack[1] == _weft ]]; then _weft \"$@\"; else compdef _weft weft; "
          "fi\n",
          stdout);
}
