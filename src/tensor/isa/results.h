/* SPDX-License-Identifier: MIT */
#pragma once

/* The results of a product: sums in f32 become numbers of C,
 *
 *     c = alpha sum + beta c + bias
 *
 * in f32, or rounded to bfloat16. */

#include "tensor/isa/lanes.h"
#include "tensor/isa/product.h"

/* Stores the sums of one row. */
static inline void store_results(const product *p, const float *sums, void *c) {
    float *to = c;
    uint16_t *halves = c;
    for (int64_t i = 0; i < p->N; i += LANES) {
        int64_t n = p->N - i < LANES ? p->N - i : LANES;
        bool whole = n == LANES;
        vfloat v = (whole ? load(sums + i) : load_part(sums + i, n)) * p->alpha;
        if (!p->half_c && p->beta != 0)
            v += (whole ? load(to + i) : load_part(to + i, n)) * p->beta;
        if (p->bias) v += whole ? load(p->bias + i) : load_part(p->bias + i, n);
        if (p->half_c && whole)
            store_half(halves + i, v);
        else if (p->half_c)
            store_half_part(halves + i, v, n);
        else if (whole)
            store(to + i, v);
        else
            store_part(to + i, v, n);
    }
}
