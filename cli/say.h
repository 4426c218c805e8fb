/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdio.h>

#include <weft/ctx.h>

/* A text from a file's name or contents, fit for a terminal: control characters, those of
 * eight bits too, become '?'. Writes into out, cut to out_size, and returns it. */
const char *plain_text(const char *text, char *out, size_t out_size);

/* Says "weft: sentence" on stderr, without control characters, and returns CODE_USAGE. */
int usage_error(const char *format, ...) WEFT_PRINTF(1, 2);

/* The likeliest of n words for a misspelt one, or NULL. */
const char *nearest_word(const char *word, const char *const *words, int n);

/* Prints text wrapped at `width` columns: the cursor is at column `indent`, following
 * lines start there. Ends with a newline. */
void print_wrapped(FILE *out, int indent, int width, const char *text);
