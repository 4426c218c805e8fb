/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdio.h>

#include "command.h"

/* Prints the output of `weft --help`. */
void help_overview(FILE *out);

/* Prints the output of `weft COMMAND --help`: the command's own text, examples and
 * flags in at most 60 lines. That of `weft config` goes on with every key, its values and
 * its default. */
void help_command(FILE *out, const command *c);

/* Texts at the end of the overview and of the man page. */
extern const char *const help_exit_codes;
extern const char *const help_config_layers;
