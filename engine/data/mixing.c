/* SPDX-License-Identifier: MIT */
/* Weights -> slots of a cycle of N rows. Source s is due q_s = N w_s / sum(w) slots;
 * it gets floor(q_s), and the slots left over go to the largest remainders, ties to
 * the lower source. A source that would get none takes one from the source that has
 * most. */
#include "data/mixing.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"

static const int32_t CYCLE = WEFTI_MIXING_CYCLE;

static int largest_remainder(const double *remainders, int n) {
    int best = 0;
    for (int s = 1; s < n; s++)
        if (remainders[s] > remainders[best]) best = s;
    return best;
}

static int most_slots(const int32_t *slots, int n) {
    int best = 0;
    for (int s = 1; s < n; s++)
        if (slots[s] > slots[best]) best = s;
    return best;
}

/* remainders: [n], working memory. */
static void apportion(const double *weights, int n, double *remainders, int32_t *slots) {
    double largest = 0, sum = 0; /* scaled, so that no sum of weights overflows */
    for (int s = 0; s < n; s++) largest = fmax(largest, weights[s]);
    for (int s = 0; s < n; s++) sum += weights[s] / largest;
    int32_t left = CYCLE;
    for (int s = 0; s < n; s++) {
        double due = CYCLE * (weights[s] / largest / sum);
        /* a share that is whole but for rounding is whole */
        if (fabs(due - nearbyint(due)) < 1e-9 * CYCLE) due = nearbyint(due);
        slots[s] = (int32_t)due;
        remainders[s] = due - slots[s];
        left -= slots[s];
    }
    for (; left > 0; left--) {
        int s = largest_remainder(remainders, n);
        slots[s]++;
        remainders[s] = -1;
    }
    for (int s = 0; s < n; s++) {
        if (slots[s] > 0) continue;
        slots[most_slots(slots, n)]--;
        slots[s]++;
    }
}

/* Lays the slots out source by source, then shuffles them. `counts`: [n], zeroed. */
static void shuffle(wefti_mixing *m, int n, int32_t *counts, uint64_t seed) {
    int32_t at = 0;
    for (int s = 0; s < n; s++) {
        for (int32_t k = 0; k < m->slots[s]; k++, at++) {
            int64_t to = wefti_rng_permute(seed, WEFTI_STREAM_MIX, 0, CYCLE, at);
            m->source[to] = s;
        }
    }
    for (at = 0; at < CYCLE; at++) m->earlier[at] = counts[m->source[at]]++;
}

weft_status wefti_mixing_init(weft_ctx *ctx, wefti_mixing *m, const double *weights,
                              int n, uint64_t seed) {
    double *remainders;
    int32_t *counts;
    WEFT_TRY(wefti_alloc_n(ctx, CYCLE, sizeof *m->source, "mixing", &m->source));
    WEFT_TRY(wefti_alloc_n(ctx, CYCLE, sizeof *m->earlier, "mixing", &m->earlier));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *m->slots, "mixing", &m->slots));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *remainders, "mixing", &remainders));
    apportion(weights, n, remainders, m->slots);
    wefti_free(ctx, remainders);
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *counts, "mixing", &counts));
    shuffle(m, n, counts, seed);
    wefti_free(ctx, counts);
    return WEFT_OK;
}

void wefti_mixing_fini(weft_ctx *ctx, wefti_mixing *m) {
    WEFTI_FREE(ctx, m->source, m->earlier, m->slots);
    *m = (wefti_mixing){0};
}
