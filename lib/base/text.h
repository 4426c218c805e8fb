/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weft/quantity.h>

/* Whether two texts are the same. */
static inline bool wefti_is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* The unit in which a quantity is computed: "s", "B/s"; "": none. */
const char *wefti_quantity_base(weft_quantity unit);

/* Numbers with a decimal point in every locale: a program that embeds weft may have set one
 * with a decimal comma. The first is strtod. The second replaces the decimal mark in a text
 * that printf wrote, in place, and returns it; the text may contain only numbers and names. */
double wefti_strtod(const char *text, char **end);
char *wefti_with_point(char *text);

/* Edit distance (insert, delete, substitute, swap of neighbours), at most 64 letters. */
int wefti_edit_distance(const char *a, const char *b);

/* The candidate nearest to `word`, or NULL if none is near enough to be a likely typo. */
const char *wefti_nearest(const char *word, const char *const *candidates, size_t n);

/* Makes a text from outside safe to print: control characters become '?'. Works in place
 * and returns the text. */
char *wefti_text_plain(char *text);

/* Takes what lets its owner in (a signature, a token, a key) out of the queries of all addresses
 * in a text: "https://host/a?v=2&sig=x" becomes "https://host/a?v=2&...". Works in place and
 * returns the text. */
char *wefti_text_hide(char *text);

/* "3.4 MB", "120 B": writes into out (at least 24 bytes) and returns it. */
const char *wefti_format_bytes(double n_bytes, char *out, size_t out_size);

/* Whether n bytes are white space of a line. */
bool wefti_is_blank(const char *text, int64_t n);

/* Whether a NULL-terminated list holds a name; an empty list may be NULL. */
bool wefti_named(const char *const *list, const char *name);
