/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* Exit codes of the program. */
enum { CODE_OK = 0, CODE_FAILED = 1, CODE_USAGE = 2 };

/* A flag of a command; tables of flags end with a NULL name. */
typedef struct flag {
    const char *name;        /* "--nodes" */
    const char *placeholder; /* of its argument, "N"; NULL: the flag takes no argument.
                                FILE, FOLDER, RUN and alternatives "a|b" control the shell
                                completion */
    const char *doc;
    const char *key; /* the configuration key that the flag sets, or NULL */
} flag;

/* A subcommand: one constant at the end of its own file and one line in registry.c. The
 * help, the man page and the completion scripts are generated from it. */
typedef struct command {
    const char *name;
    const char *summary;  /* one line, no full stop */
    const char *usage;    /* what follows "weft NAME" */
    const char *help;     /* paragraphs separated by empty lines; wrapped when printed */
    const char *examples; /* up to five lines, each what follows "weft "; or NULL */
    const flag *flags;    /* or NULL */
    const char *facts; /* the last of the flags that --help lists by name only; or NULL */
    const char *const *words; /* possible values of the first operand, NULL-terminated; or
                              NULL */
    const char *words_key; /* or: the values are the choices of this configuration key */
    bool configures;       /* takes [run.yaml] [key=value ...] */
    /* argv[0] is the command's name; returns the exit code. */
    int (*run)(int argc, char **argv);
} command;

/* All commands in the order of the help, NULL-terminated. */
extern const command *const commands[];

/* The command of that name, or NULL. */
const command *command_find(const char *name);
