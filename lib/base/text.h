/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether two texts are the same. */
static inline bool wefti_is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* The units a quantity may carry. */
typedef enum wefti_quantity {
    WEFTI_UNIT_COUNT, /* plain, or k M G (powers of 1000) */
    WEFTI_UNIT_BYTES, /* B kB MB GB TB KiB MiB GiB, also in small letters */
    WEFTI_UNIT_TIME,  /* s ms us ns min h d */
    WEFTI_UNIT_RATE, /* bit/s: bit kbit Mbit Gbit Tbit in any case, optional "/s"; MB/s GB/s, MBps
                         GBps; result in byte/s */
    WEFTI_UNIT_WORK, /* FLOP/s: M G T P, optional "FLOP/s" */
    WEFTI_UNIT_SHARE /* plain, or % */
} wefti_quantity;

/* Parses "100Mbit", "10ms", "4MB", "1e-3". Returns false unless the whole text is a
 * number with a known unit. A time needs its unit unless it is 0. */
bool wefti_parse_quantity(const char *text, wefti_quantity unit, double *out);

/* What was probably meant by a text that is no such quantity: "5min" for "5m". False: nothing. */
bool wefti_guess_quantity(const char *text, wefti_quantity unit, char *out, size_t size);

/* Numbers with a decimal point in every locale: a program that embeds weft may have set one
 * with a decimal comma. The first is strtod. The second replaces the decimal mark in a text
 * that printf wrote, in place, and returns it; the text may contain only numbers and names. */
double wefti_strtod(const char *text, char **end);
char *wefti_with_point(char *text);

/* Parses a whole decimal number, with optional k M G for powers of 1000. */
bool wefti_parse_int(const char *text, int64_t *out);

/* Edit distance (insert, delete, substitute, swap of neighbours), at most 64 letters. */
int wefti_edit_distance(const char *a, const char *b);

/* The candidate nearest to `word`, or NULL if none is near enough to be a likely typo. */
const char *wefti_nearest(const char *word, const char *const *candidates, size_t n);

/* Makes a text from outside safe to print: control characters become '?'. Works in place
 * and returns the text. */
char *wefti_text_plain(char *text);

/* "3.4 MB", "120 B": writes into out (at least 24 bytes) and returns it. */
const char *wefti_format_bytes(double n_bytes, char *out, size_t out_size);

/* Whether n bytes are white space of a line. */
bool wefti_is_blank(const char *text, int64_t n);

/* Whether a NULL-terminated list holds a name; an empty list may be NULL. */
bool wefti_named(const char *const *list, const char *name);
