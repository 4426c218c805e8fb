/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/quantity.h>

#include "command.h"

enum { MAX_FLAGS = 64, MAX_GIVEN = 128 };

/* A parsed command line. All strings are borrowed from argv. */
typedef struct args {
    const command *command;
    const char
        *values[MAX_FLAGS]; /* of the command's flags; NULL: not given, "": no value */
    struct {
        int flag;
        const char *value;
    } given[MAX_GIVEN]; /* in the order of the command line; repeated flags are kept */
    int n_given;
    char **operands; /* the arguments that are not flags, in order */
    int n_operands;
} args;

/* Parses a command line: "--flag value" or "--flag=value"; --output is -o; "--" ends the
 * flags. Moves the operands to the front of argv. Returns CODE_OK, or CODE_USAGE after saying
 * what is wrong. */
int args_parse(const command *c, int argc, char **argv, args *out);

/* The value of a flag ("" for one without argument), or NULL if it was not given. */
const char *args_value(const args *a, const char *name);
bool args_has(const args *a, const char *name);
bool args_knows(const args *a,
                const char *name); /* whether the command has such a flag */

/* The k-th value of a flag that may be given several times, or NULL past the last. */
const char *args_nth(const args *a, const char *name, int k);

/* Reads the value of a flag as a whole number in [min, max], such as 12 or 64k. *out is
 * unchanged if the flag was not given. Returns CODE_OK, or CODE_USAGE after saying what is
 * wrong. */
int args_int(const args *a, const char *name, long long min, long long max,
             long long *out);

/* The same of plain digits, which name a port or a row and count nothing. */
int args_plain(const args *a, const char *name, long long min, long long max,
               long long *out);

/* Bounds of a quantity in its own unit; from 1e15 on there is none. */
typedef struct interval {
    double low, high;
} interval;

/* The same for a quantity with its unit. */
int args_quantity(const args *a, const char *name, weft_quantity unit, interval within,
                  double *out);

/* Refuses fewer operands than `min`, and more than `max`; the message names the first
 * excess one.
 */
int args_expect(const args *a, int min, int max);
