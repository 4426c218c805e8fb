/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Losses of metrics.jsonl beside those of a run that is played again (replay.c). */

/* Steps at the end of a view whose lines another than its first rank may write; members are less
 * apart (runfiles/descent.c). */
enum { WEFTI_RECENT = 32 };

/* A step as one rank has played it. */
typedef struct wefti_played_step {
    int64_t step;       /* counted from 1; 0: none */
    double loss, share; /* of the ranks whose rows counted */
} wefti_played_step;

typedef struct wefti_losses {
    double *rows; /* owned: lines of metrics.jsonl */
    int64_t n_rows, next_row;
    int64_t n_equal; /* lines with the loss that was played */
    int64_t open
        [WEFTI_RECENT]; /* [n_open] lines of this view that rank 0 has not played so */
    int n_open, n_ranks;
    wefti_played_step *played; /* owned: [n_ranks][WEFTI_RECENT], rings */
    int64_t wrong_step;        /* the first whose loss differs; 0: none */
    char wrong[200];           /* it as a sentence */
} wefti_losses;

weft_status wefti_losses_read(weft_ctx *ctx, const char *path,
                              wefti_losses *out) WEFT_CHECKED;
void wefti_losses_fini(weft_ctx *ctx, wefti_losses *l);

/* The newest step after `last` that has a line, up to `most`; else `last`. */
int64_t wefti_losses_newest(const wefti_losses *l, int64_t last, int64_t most);

/* A view begins, with so many ranks. */
weft_status wefti_losses_begin(weft_ctx *ctx, wefti_losses *l, int n_ranks) WEFT_CHECKED;

/* A rank has played a step of a view that ends with `end`. Each rank's thread calls it for itself,
 * in the order of the steps; that of rank 0 compares. */
void wefti_losses_played(wefti_losses *l, int rank, const wefti_played_step *step,
                         int64_t end);

/* The view has ended, and its ranks. Compares its last lines, which another than its first rank may
 * have written; logs a warning where nobody who is played has heard those whose rows count. */
void wefti_losses_end(weft_ctx *ctx, wefti_losses *l);
