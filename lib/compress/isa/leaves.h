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

FLAT void two_2(turns t, vfloat *x) {
    vfloat s[1], d[1];
    split_sums(2, x, s, d);
    two_1(t, s);
    four_1(t, d);
    interleave_terms(2, s, d, x);
}

FLAT void four_2(turns t, vfloat *x) {
    vfloat u[1], w[1];
    split_turns(2, t.own, x, u, w);
    merge_turns(2, u, w, x);
}

FLAT void back_2(turns t, vfloat *x) {
    vfloat s[1], d[1];
    part_terms(2, x, s, d);
    two_1(t, s);
    four_1(t, d);
    merge_sums(2, s, d, x);
}

FLAT void two_4(turns t, vfloat *x) {
    vfloat s[2], d[2];
    split_sums(4, x, s, d);
    two_2(t, s);
    four_2(t, d);
    interleave_terms(4, s, d, x);
}

FLAT void four_4(turns t, vfloat *x) {
    vfloat u[2], w[2];
    split_turns(4, t.own, x, u, w);
    two_2(inner(t), u);
    two_2(inner(t), w);
    merge_turns(4, u, w, x);
}

FLAT void back_4(turns t, vfloat *x) {
    vfloat s[2], d[2];
    part_terms(4, x, s, d);
    back_2(t, s);
    four_2(t, d);
    merge_sums(4, s, d, x);
}

FLAT void two_8(turns t, vfloat *x) {
    vfloat s[4], d[4];
    split_sums(8, x, s, d);
    two_4(t, s);
    four_4(t, d);
    interleave_terms(8, s, d, x);
}

FLAT void four_8(turns t, vfloat *x) {
    vfloat u[4], w[4];
    split_turns(8, t.own, x, u, w);
    two_4(inner(t), u);
    two_4(inner(t), w);
    merge_turns(8, u, w, x);
}

FLAT void back_8(turns t, vfloat *x) {
    vfloat s[4], d[4];
    part_terms(8, x, s, d);
    back_4(t, s);
    four_4(t, d);
    merge_sums(8, s, d, x);
}

FLAT void two_16(turns t, vfloat *x) {
    vfloat s[8], d[8];
    split_sums(16, x, s, d);
    two_8(t, s);
    four_8(t, d);
    interleave_terms(16, s, d, x);
}

FLAT void four_16(turns t, vfloat *x) {
    vfloat u[8], w[8];
    split_turns(16, t.own, x, u, w);
    two_8(inner(t), u);
    two_8(inner(t), w);
    merge_turns(16, u, w, x);
}

FLAT void back_16(turns t, vfloat *x) {
    vfloat s[8], d[8];
    part_terms(16, x, s, d);
    back_8(t, s);
    four_8(t, d);
    merge_sums(16, s, d, x);
}
