/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

enum { WEFTI_MIXING_CYCLE = 10000 }; /* so that 0.7 and 0.15 are exact */

/* Which source a row draws from. Rows come in cycles of WEFTI_MIXING_CYCLE; in each,
 * source s has exactly slots[s] rows, in an order shuffled by the seed and the same in
 * every cycle. So the source of row r and how many rows it had before are a table and
 * a multiplication. Zeroed memory is an empty one. */
typedef struct wefti_mixing {
    int32_t *source;  /* [cycle] owned */
    int32_t *earlier; /* [cycle] slots of the same source before this one; owned */
    int32_t *slots;   /* [n] owned */
} wefti_mixing;

/* Shares are the weights rounded to whole slots (largest remainders), at least one each.
 * weights: [n], positive and finite; n <= WEFTI_MIXING_CYCLE. */
weft_status wefti_mixing_init(weft_ctx *ctx, wefti_mixing *mixing, const double *weights,
                              int n, uint64_t seed) WEFT_CHECKED;
void wefti_mixing_fini(weft_ctx *ctx, wefti_mixing *mixing);

/* The source of row `row`, and how many rows before it have the same source. O(1). */
static inline int wefti_mixing_draw(const wefti_mixing *mixing, int64_t row,
                                    int64_t *earlier) {
    int64_t slot = row % WEFTI_MIXING_CYCLE;
    int source = mixing->source[slot];
    *earlier = row / WEFTI_MIXING_CYCLE * mixing->slots[source] + mixing->earlier[slot];
    return source;
}
