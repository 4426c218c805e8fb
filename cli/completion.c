/* SPDX-License-Identifier: MIT */
/* Prints a completion script for bash. The words come from the tables of commands and
 * keys; the logic is fixed. Bash cuts "key=value" into three words at the '='; the script
 * puts the key back together. */
#include <string.h>

#include "common.h"
#include "completion.h"

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

static void put_choice_words(const weft_config_key *key) {
    if (key->type == WEFT_KEY_BOOL) fputs("true false", stdout);
    if (key->type == WEFT_KEY_AUTO_BOOL) fputs("auto true false", stdout);
    for (const weft_choice *c = key->choices; c && c->name; c++) printf("%s ", c->name);
}

static void put_choices(void) {
    const weft_config_key *key;
    fputs("_weft_choices() {\n    case $1 in\n", stdout);
    for (int i = 0; (key = weft_config_key_at(i)); i++) {
        bool has = key->choices || key->type == WEFT_KEY_BOOL ||
                   key->type == WEFT_KEY_AUTO_BOOL;
        if (!has) continue;
        printf("    %s) echo \"", key->name);
        put_choice_words(key);
        fputs("\" ;;\n", stdout);
    }
    fputs("    esac\n}\n", stdout);
}

static bool is_path(const char *placeholder) {
    return strcmp(placeholder, "FILE") == 0 || strcmp(placeholder, "FOLDER") == 0 ||
           strcmp(placeholder, "RUN") == 0;
}

/* Prints "a|b" as separate words. */
static void put_alternatives(const char *text) {
    for (; *text; text++) putchar(*text == '|' ? ' ' : *text);
}

/* Prints the possible arguments of each flag: the choices of its key, its alternatives,
 * FILE, FOLDER, RUN, or VALUE for all others. */
static void put_arguments(void) {
    fputs("_weft_argument() {\n    case $1 in\n", stdout);
    for (int i = 0; commands[i]; i++) {
        for (const flag *f = commands[i]->flags; f && f->name; f++) {
            const weft_config_key *key = f->key ? key_of(f->key) : NULL;
            if (!f->placeholder) continue;
            printf("    \"%s %s\") echo \"", commands[i]->name, f->name);
            if (key && key->choices)
                put_choice_words(key);
            else if (is_path(f->placeholder))
                fputs(f->placeholder, stdout);
            else if (strchr(f->placeholder, '|'))
                put_alternatives(f->placeholder);
            else
                fputs("VALUE", stdout);
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
