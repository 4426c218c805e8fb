/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdio.h>

#include <weft/ctx.h>

/* Makes a text from a file's name or contents safe for a terminal: control characters,
 * also those of eight bits, become '?', and takes signatures out of addresses. Writes it to
 * out, truncated to out_size, and returns out. */
const char *plain_text(const char *text, char *out, size_t out_size);

/* Prints "weft: " and the message on stderr, without control characters, and returns
 * CODE_USAGE. */
int usage_error(const char *format, ...) WEFT_PRINTF(1, 2);

/* The one of n words that a misspelt word most likely means, or NULL. */
const char *nearest_word(const char *word, const char *const *words, int n);

/* Prints text wrapped at `width` columns. The cursor must be at column `indent`; the
 * following lines start there. Ends with a newline. */
void print_wrapped(FILE *out, int indent, int width, const char *text);
