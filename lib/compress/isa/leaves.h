/* SPDX-License-Identifier: MIT */
#pragma once

/* The transforms of up to 16 terms of which cosine.c is built, in registers, in place:
 * two_n is C2(n), four_n C4(n), back_n the transpose of C2(n). */

#include "compress/isa/more.h"

/* cos and sin of turn i of C4(n) lie at [n + 2i] and [n + 2i + 1]; [0] is cos(pi/4). */
typedef struct turns {
    const float *own;   /* of the branch whose coefficients are not scaled yet */
    const float *plain; /* without the scale */
    bool is_scaled;
} turns;

FLAT turns inner(turns t) { return (turns){t.plain, t.plain, false}; }

FLAT void split_sums(int n, const vfloat *x, vfloat *s, vfloat *d) {
    for (int i = 0; i < n / 2; i++) {
        s[i] = x[i] + x[n - 1 - i];
        d[i] = x[i] - x[n - 1 - i];
    }
}

FLAT void merge_sums(int n, const vfloat *s, const vfloat *d, vfloat *x) {
    for (int i = 0; i < n / 2; i++) {
        x[i] = s[i] + d[i];
        x[n - 1 - i] = s[i] - d[i];
    }
}

FLAT void split_turns(int n, const float *angles, const vfloat *x, vfloat *u, vfloat *w) {
    for (int i = 0; i < n / 2; i++) {
        vfloat a = x[i], b = x[n - 1 - i];
        float cosine = angles[n + 2 * i], sine = angles[n + 2 * i + 1];
        u[i] = a * cosine + b * sine;
        w[i] = i % 2 ? a * sine - b * cosine : b * cosine - a * sine;
    }
}

FLAT void merge_turns(int n, const vfloat *u, const vfloat *w, vfloat *x) {
    x[0] = u[0];
    x[n - 1] = -w[0];
    for (int k = 1; k < n / 2; k++) {
        x[2 * k] = u[k] + w[n / 2 - k];
        x[2 * k - 1] = u[k] - w[n / 2 - k];
    }
}

FLAT void interleave_terms(int n, const vfloat *even, const vfloat *odd, vfloat *x) {
    for (int i = 0; i < n / 2; i++) {
        x[2 * i] = even[i];
        x[2 * i + 1] = odd[i];
    }
}

FLAT void part_terms(int n, const vfloat *x, vfloat *even, vfloat *odd) {
    for (int i = 0; i < n / 2; i++) {
        even[i] = x[2 * i];
        odd[i] = x[2 * i + 1];
    }
}

FLAT void four_1(turns t, vfloat *x) { x[0] *= t.own[0]; }

FLAT void two_1(turns t, vfloat *x) {
    if (t.is_scaled) four_1(t, x);
}

#define back_1 two_1

/* The transforms of n terms from those of half as many. */
#define TRANSFORMS(n, half)                                                              \
    FLAT void two_##n(turns t, vfloat *x) {                                              \
        vfloat s[half], d[half];                                                         \
        split_sums(n, x, s, d);                                                          \
        two_##half(t, s);                                                                \
        four_##half(t, d);                                                               \
        interleave_terms(n, s, d, x);                                                    \
    }                                                                                    \
    FLAT void four_##n(turns t, vfloat *x) {                                             \
        vfloat u[half], w[half];                                                         \
        split_turns(n, t.own, x, u, w);                                                  \
        two_##half(inner(t), u);                                                         \
        two_##half(inner(t), w);                                                         \
        merge_turns(n, u, w, x);                                                         \
    }                                                                                    \
    FLAT void back_##n(turns t, vfloat *x) {                                             \
        vfloat s[half], d[half];                                                         \
        part_terms(n, x, s, d);                                                          \
        back_##half(t, s);                                                               \
        four_##half(t, d);                                                               \
        merge_sums(n, s, d, x);                                                          \
    }

TRANSFORMS(2, 1)
TRANSFORMS(4, 2)
TRANSFORMS(8, 4)
TRANSFORMS(16, 8)
