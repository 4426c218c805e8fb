/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Files of one ending, which were not wanted. */
typedef struct wefti_unwanted {
    char ending[12]; /* with its dot; "": the name has none */
    int64_t n;
} wefti_unwanted;

enum { WEFTI_MOST_UNWANTED = 6 };

/* Files below a folder. Zeroed memory is an empty list. */
typedef struct wefti_walk {
    char **paths; /* [n], each owned: the folder's path, '/', what lies below it */
    int64_t n, capacity;
    int64_t n_skipped;                           /* files that `wanted` did not want */
    wefti_unwanted skipped[WEFTI_MOST_UNWANTED]; /* of them; the last one has the rest */
} wefti_walk;

/* Finds the files whose names are wanted, in folders within folders too, in the order of
 * their paths' bytes. Names that begin with a dot are passed over, and so are links to
 * folders, which may lead in circles. */
weft_status wefti_walk_folder(weft_ctx *ctx, const char *path,
                              bool (*wanted)(const char *),
                              wefti_walk *walk) WEFT_CHECKED;
void wefti_walk_fini(weft_ctx *ctx, wefti_walk *walk);
