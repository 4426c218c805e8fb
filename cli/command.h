/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include <weft/ctx.h>

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

/* A subcommand: one constant at the end of its own file and one word in COMMANDS. The
 * help, the man page and the completion scripts are generated from it. */
struct args;

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
    int least, most;       /* operands; if it configures, as many as there are */
    int (*run)(weft_ctx *ctx, struct args *a); /* returns the exit code */
} command;

/* Every command, in the order of the help. */
/* clang-format off */
#define COMMANDS(DO) \
    DO(plan) DO(simulate) DO(probe) DO(doctor) DO(train) DO(up) DO(join) DO(tune) DO(report) \
    DO(watch) DO(verify) DO(audit) DO(eval) DO(sample) DO(translate) DO(merge) DO(bench) DO(data) \
    DO(config) DO(list) DO(topology) DO(key) DO(witness) DO(man) DO(completion)
/* clang-format on */
#define DECLARED(name) extern const command command_##name;
COMMANDS(DECLARED)
#undef DECLARED

/* Runs a command with its arguments; argv[0] is its name. Returns the exit code. */
int command_run(const command *c, int argc, char **argv);

/* All of them, NULL-terminated. */
extern const command *const commands[];

/* The command of that name, or NULL. */
const command *command_find(const char *name);
