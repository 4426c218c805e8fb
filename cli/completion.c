/* SPDX-License-Identifier: MIT */
/* Prints a completion script for bash. The words come from the tables of commands and
 * keys; the logic is fixed. Bash cuts "key=value" into three words at the '='; the script
 * puts the key back together. */
#include <string.h>

#include "common.h"

/* Completion scripts for fish and zsh, which show a word's meaning beside it: one line per
 * command, flag, key and choice, from the same tables as the help.
 *
 *     fish   complete -c weft -n CONDITION -a WORD -d MEANING
 *     zsh    'WORD:MEANING' in arrays, chosen by the command; then _describe */

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

static void put_described(const flag *f) {
    const weft_config_key *key = f->key ? key_of(f->key) : NULL;
    if (!key || !key->choices)
        for (const char *c = f->placeholder; *c; c++) putchar(*c == '|' ? ' ' : *c);
    else
        for (const weft_choice *c = key->choices; c->name; c++)
            printf("%s%s", c == key->choices ? "" : " ", c->name);
}

static bool has_choices(const weft_config_key *key) {
    return key->choices || key->type == WEFT_KEY_BOOL || key->type == WEFT_KEY_AUTO_BOOL;
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
            put_described(f);
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

/* Print completion scripts for the shells that show a description beside each word. */
static void completion_fish(void) {
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
                put_described(f);
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
        if (!has_choices(key)) continue;
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

static void completion_zsh(void) {
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

static const char *const shells[] = {"bash", "fish", "zsh", NULL};

static const char *const logic =
    "_weft() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} before=\"\" key=\"\" words=\"\" "
    "name=${COMP_WORDS[1]}\n"
    "    COMPREPLY=()\n"
    "    if (( COMP_CWORD > 1 )); then before=${COMP_WORDS[COMP_CWORD-1]}; fi\n"
    "    if (( COMP_CWORD > 2 )) && [[ $cur == \"=\" ]]; then key=$before cur=\"\"\n"
    "    elif (( COMP_CWORD > 3 )) && [[ $before == \"=\" ]]; then\n"
    "        key=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    if (( COMP_CWORD == 1 )); then\n"
    "        words=\"$_weft_commands --help --version\"\n"
    "    elif [[ -n $key ]]; then\n"
    "        words=$(_weft_choices \"$key\")\n"
    "        if [[ -z $words ]]; then\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "            return\n"
    "        fi\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        words=\"$(_weft_flags \"$name\") --help\"\n"
    "    elif [[ $before == -* && -n $(_weft_argument \"$name $before\") ]]; then\n"
    "        words=$(_weft_argument \"$name $before\")\n"
    "        case $words in\n"
    "        FILE|FOLDER|RUN)\n"
    "            local kind=-f\n"
    "            if [[ $words != FILE ]]; then kind=-d; fi\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            mapfile -t COMPREPLY < <(compgen \"$kind\" -- \"$cur\")\n"
    "            return ;;\n"
    "        VALUE) return ;;\n"
    "        esac\n"
    "    else\n"
    "        words=$(_weft_words \"$name\")\n"
    "        if [[ \" $_weft_configuring \" == *\" $name \"* ]]; then\n"
    "            words+=\" $_weft_keys\"\n"
    "        fi\n"
    "    fi\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    if (( COMP_CWORD > 1 )) && [[ -z $key && $cur != -* && $before != -* ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        local -a files\n"
    "        mapfile -t files < <(compgen -f -- \"$cur\")\n"
    "        COMPREPLY+=(\"${files[@]}\")\n"
    "    fi\n"
    "    if (( ${#COMPREPLY[@]} == 1 )) && [[ ${COMPREPLY[0]} == *= ]]; then\n"
    "        compopt -o nospace 2>/dev/null\n"
    "    fi\n"
    "}\n"
    "complete -F _weft weft\n";

static void put_commands(void) {
    fputs("_weft_commands=\"", stdout);
    for (int i = 0; commands[i]; i++) printf("%s%s", i > 0 ? " " : "", commands[i]->name);
    fputs("\"\n_weft_configuring=\"", stdout);
    for (int i = 0; commands[i]; i++)
        if (commands[i]->configures) printf("%s ", commands[i]->name);
    fputs("\"\n", stdout);
}

static void put_keys(void) {
    const weft_config_key *key;
    fputs("_weft_keys=\"", stdout);
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        printf("%s%s=", i > 0 ? " " : "", key->name);
    fputs("\"\n", stdout);
}

static void put_flags(void) {
    fputs("_weft_flags() {\n    case $1 in\n", stdout);
    for (int i = 0; commands[i]; i++) {
        printf("    %s) echo \"", commands[i]->name);
        for (const flag *f = commands[i]->flags; f && f->name; f++)
            printf("%s ", f->name);
        fputs("\" ;;\n", stdout);
    }
    fputs("    esac\n}\n", stdout);
}

static void put_value(const char *key, const char *value, const char *doc) {
    (void)key, (void)doc;
    printf("%s ", value);
}

static void put_choices(void) {
    const weft_config_key *key;
    fputs("_weft_choices() {\n    case $1 in\n", stdout);
    for (int i = 0; (key = weft_config_key_at(i)); i++) {
        if (!has_choices(key)) continue;
        printf("    %s) echo \"", key->name);
        each_choice(key, put_value);
        fputs("\" ;;\n", stdout);
    }
    fputs("    esac\n}\n", stdout);
}

/* Prints the possible arguments of each flag: words, FILE, FOLDER, RUN, or VALUE. */
static void put_arguments(void) {
    fputs("_weft_argument() {\n    case $1 in\n", stdout);
    for (int i = 0; commands[i]; i++) {
        for (const flag *f = commands[i]->flags; f && f->name; f++) {
            argument kind = argument_of(f);
            if (kind == NO_ARGUMENT) continue;
            printf("    \"%s %s\") echo \"", commands[i]->name, f->name);
            if (kind == WORDS)
                put_described(f);
            else
                fputs(kind == A_VALUE ? "VALUE" : f->placeholder, stdout);
            fputs("\" ;;\n", stdout);
        }
    }
    fputs("    esac\n}\n", stdout);
}

static void put_words(void) {
    fputs("_weft_words() {\n    case $1 in\n    help) echo \"$_weft_commands\" ;;\n",
          stdout);
    for (int i = 0; commands[i]; i++) {
        const char *word = command_word(commands[i], 0);
        if (!word) continue;
        printf("    %s) echo \"", commands[i]->name);
        for (int j = 0; (word = command_word(commands[i], j)); j++) printf("%s ", word);
        fputs("\" ;;\n", stdout);
    }
    fputs("    esac\n}\n", stdout);
}

static void print_bash(void) {
    fputs("# bash completion for weft, printed by: weft completion bash\n", stdout);
    put_commands();
    put_keys();
    put_flags();
    put_choices();
    put_arguments();
    put_words();
    fputs(logic, stdout);
}

static int run(weft_ctx *ctx, args *a) {
    (void)ctx;
    if (strcmp(a->operands[0], "bash") == 0)
        print_bash();
    else if (strcmp(a->operands[0], "fish") == 0)
        completion_fish();
    else if (strcmp(a->operands[0], "zsh") == 0)
        completion_zsh();
    else
        return usage_error("no completion for '%s', expected bash, fish or zsh",
                           a->operands[0]);
    return CODE_OK;
}

const command command_completion = {
    .name = "completion",
    .summary = "print a completion script for the shell",
    .usage = "bash|fish|zsh",
    .help =
        "Completes commands, flags, configuration keys, their choices and files. For "
        "this shell: source <(weft completion bash), the same with zsh, or weft "
        "completion fish | source. For good: save it as "
        "~/.local/share/bash-completion/completions/weft, as "
        "~/.config/fish/completions/weft.fish, or as _weft in a folder of zsh's fpath.",
    .words = shells,
    .least = 1,
    .most = 1,
    .run = run,
};
