/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdio.h>

#include "command.h"

/* What `weft --help` says. */
void help_overview(FILE *out);

/* What `weft COMMAND --help` says: the command's own words, its flags, and for a command
 * that configures every key with type, unit and default. */
void help_command(FILE *out, const command *c);

/* The words at the end of the overview and of the man page. */
extern const char *const help_exit_codes;
extern const char *const help_config_layers;
