/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdio.h>

/* Prints docs/configuration.md from the table of keys. */
void print_markdown(FILE *out);
