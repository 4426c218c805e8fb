/* SPDX-License-Identifier: MIT */
#ifndef CLI_MARKDOWN_H
#define CLI_MARKDOWN_H

#include <stdio.h>

/* Prints docs/configuration.md from the table of keys. */
void print_markdown(FILE *out);

#endif
