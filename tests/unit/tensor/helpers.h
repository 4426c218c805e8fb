/* SPDX-License-Identifier: MIT */
#pragma once

#include <math.h>

#include "check.h"

#include "base/half.h"
#include "base/rng.h"
#include "tensor/layer_kernels.h"
#include "reference/reference.h"

/* n floats; free with free(). */
static inline float *new_floats(int64_t n) {
    float *x = calloc((size_t)n + 1, sizeof *x);
    assert_non_null(x);
    return x;
}

/* n floats of uniform noise in [-scale, scale), a function of the seed. */
static inline float *new_noise(int64_t n, uint64_t seed, double scale) {
    float *x = new_floats(n);
    for (int64_t i = 0; i < n; i++) {
        double u = wefti_rng_uniform(seed, WEFTI_STREAM_TEST, 0, (uint64_t)i);
        x[i] = (float)(scale * (2 * u - 1));
    }
    return x;
}

static inline float *new_copy(int64_t n, const float *from) {
    float *x = new_floats(n);
    memcpy(x, from, (size_t)n * sizeof *x);
    return x;
}

/* The numbers of x as bfloat16 in memory, in room for n floats. */
static inline uint16_t *new_halves(int64_t n, const float *x) {
    uint16_t *half = calloc((size_t)n + 1, sizeof *half);
    assert_non_null(half);
    for (int64_t i = 0; i < n; i++) half[i] = wefti_bf16(x[i]);
    return half;
}

/* n numbers of bfloat16 as floats. */
static inline float *new_widened(int64_t n, const uint16_t *half) {
    float *x = new_floats(n);
    for (int64_t i = 0; i < n; i++) x[i] = wefti_f32_of_bf16(half[i]);
    return x;
}

/* Each of n floats within tolerance * max(1, |wanted|) of the wanted one. */
static inline void assert_close(int64_t n, const float *got, const float *want,
                                double tolerance, const char *what) {
    for (int64_t i = 0; i < n; i++) {
        double g = (double)got[i], w = (double)want[i];
        double allowed = tolerance * (fabs(w) > 1 ? fabs(w) : 1);
        if (!(fabs(g - w) <= allowed))
            fail_msg("%s: element %lld is %.9g, wanted %.9g", what, (long long)i, g, w);
    }
}

/* Runs `check` for every runnable table but the reference, with 1, 2 and 3 threads. */
static inline void each_table(void (*check)(const wefti_kernels *fast)) {
    for (const char *const *name = test_kernels_names(); *name != NULL; name++) {
        if (strcmp(*name, "reference") == 0) continue;
        for (int threads = 1; threads <= 3; threads++) {
            wefti_kernels_set_threads(threads);
            check(test_kernels_find(*name));
        }
    }
    wefti_kernels_set_threads(1);
}

/* 2^-24: the relative error of one rounding. */
static const double rounding = 0x1p-24;
