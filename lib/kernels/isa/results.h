/* SPDX-License-Identifier: MIT */
#pragma once

/* The results of a product: sums in f32 become numbers of C,
 *
 *     r = alpha sum + beta c + bias     c = r + plus, or r times, or curve(r) beside its slope
 *
 * in f32, or rounded to bfloat16. */

#include "kernels/isa/product.h"
#include "kernels/isa/quick.h"

/* A file may say how it rounds whole vectors, and for which processor it compiles. */
#ifndef RESULTS_INLINE
#define RESULTS_INLINE static inline
#define RESULTS_HALF store_half
#endif

/* The first n <= LANES numbers from number i of an array on; the lanes beyond are 0. */
RESULTS_INLINE vfloat load_some(const float *x, int64_t i, int64_t n) {
    return n == LANES ? load(x + i) : load_part(x + i, n);
}

RESULTS_INLINE void store_some(uint16_t *y, int64_t i, vfloat v, int64_t n) {
    if (n == LANES)
        RESULTS_HALF(y + i, v);
    else
        store_half_part(y + i, v, n);
}

/* The results of n numbers of a row from column i on, which is number `at` of C. */
RESULTS_INLINE vfloat result_of(const product *p, const float *sums, int64_t i,
                                int64_t at, int64_t n) {
    vfloat v = load_some(sums, i, n) * p->alpha;
    if (p->beta != 0) v += load_some(p->C, at, n) * p->beta;
    if (p->bias) v += load_some(p->bias, i, n);
    return v;
}

RESULTS_INLINE int64_t lanes_left(const product *p, int64_t i) {
    return p->N - i < LANES ? p->N - i : LANES;
}

RESULTS_INLINE void store_curve(const product *p, curve_point (*curve)(vfloat x),
                                const float *sums, int64_t at) {
    for (int64_t i = 0; i < p->N; i += LANES) {
        int64_t n = lanes_left(p, i);
        curve_point point = curve(result_of(p, sums, i, at + i, n));
        store_some(p->C, at + i, point.y, n);
        store_some(p->slopes, at + i, point.slope, n);
    }
}

RESULTS_INLINE void store_times(const product *p, const float *sums, int64_t at) {
    for (int64_t i = 0; i < p->N; i += LANES) {
        int64_t n = lanes_left(p, i);
        const uint16_t *times = p->times + at + i;
        vfloat by = n == LANES ? load_half(times) : load_half_part(times, n);
        store_some(p->C, at + i, result_of(p, sums, i, at + i, n) * by, n);
    }
}

RESULTS_INLINE void store_halves(const product *p, const float *sums, int64_t at) {
    for (int64_t i = 0; i < p->N; i += LANES) {
        int64_t n = lanes_left(p, i);
        store_some(p->C, at + i, result_of(p, sums, i, at + i, n), n);
    }
}

RESULTS_INLINE void store_floats(const product *p, const float *sums, int64_t at) {
    float *c = p->C;
    for (int64_t i = 0; i < p->N; i += LANES) {
        int64_t n = lanes_left(p, i);
        vfloat v = result_of(p, sums, i, at + i, n);
        if (p->plus) v += load_some(p->plus, at + i, n);
        if (n == LANES)
            store(c + at + i, v);
        else
            store_part(c + at + i, v, n);
    }
}

/* Stores the sums of one row. */
RESULTS_INLINE void store_results(const product *p, int64_t row, const float *sums) {
    int64_t at = row * p->ldc;
    if (!p->half_c) {
        store_floats(p, sums, at);
    } else if (p->times) {
        store_times(p, sums, at);
    } else if (!p->slopes) {
        store_halves(p, sums, at);
    } else {
        switch (p->curve) {
        case WEFTI_CURVE_GELU_ERF: store_curve(p, gelu_erf_point, sums, at); break;
        case WEFTI_CURVE_RELU: store_curve(p, relu_point, sums, at); break;
        case WEFTI_CURVE_RELU2: store_curve(p, relu2_point, sums, at); break;
        default: store_curve(p, gelu_point, sums, at); break;
        }
    }
}
