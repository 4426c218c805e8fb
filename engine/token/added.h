/* SPDX-License-Identifier: MIT */
#pragma once

#include "token/steps.h"

/* A token that is looked for in text before anything else is done with it. */
typedef struct wefti_added {
    char *text; /* [n_text], what is looked for; owned */
    int64_t n_text;
    int32_t id;
    bool special;           /* takes part in the search, and is then left as text */
    bool single_word;       /* only where no letter, digit or mark touches it */
    bool lstrip, rstrip;    /* takes the white space at its left, its right */
    int32_t up, far, depth; /* of the sorted set: see added.c */
} wefti_added;

/* Zeroed memory is an empty set. */
typedef struct wefti_added_set {
    wefti_added *tokens; /* [n], owned; after the sorting by bytes */
    int64_t n, capacity;
    int64_t first[257]; /* tokens [first[b], first[b + 1]) begin with the byte b */
} wefti_added_set;

/* Appends a token; text is copied. An empty text is none. */
weft_status wefti_added_put(weft_ctx *ctx, wefti_added_set *set, const wefti_added *token,
                            const char *text, int64_t n) WEFT_CHECKED;
void wefti_added_sort(wefti_added_set *set);
void wefti_added_fini(weft_ctx *ctx, wefti_added_set *set);

/* The longest token of a sorted set that the text begins with, or NULL. n > 0. */
const wefti_added *wefti_added_match(const wefti_added_set *set, const char *text,
                                     int64_t n);

/* Cuts the pieces of text where tokens of the set stand: of those that begin at a place the
 * longest, from left to right. */
weft_status wefti_added_find(const wefti_added_set *set,
                             wefti_pieces *pieces) WEFT_CHECKED;
