/* SPDX-License-Identifier: MIT */
/* DCT-II and its inverse of LANES vectors side by side: term t of all of them at x + t*ldx.
 *
 * A power of two: C2(n), the unscaled DCT-II, is C2(n/2) of x_i + x_(n-1-i) for the even
 * coefficients and C4(n/2), a DCT-IV, of x_i - x_(n-1-i) for the odd ones. C4(n) turns
 * each pair (x_i, x_(n-1-i)) by the angle pi (2i+1)/4n into (u_i, w_i) and, of U = C2(n/2)
 * u and W = C2(n/2) (-1)^i w, is X_(2k) = U_k + W_(n/2-k), X_(2k-1) = U_k - W_(n/2-k)
 * (Wang 1984; Plonka & Tasche 2005). Only turns and sums of two: the error stays at a few
 * roundings of the vector's norm. The factors of the orthonormal transform are in the
 * turns that each coefficient passes first. The inverse is the transposed graph; C4 is its
 * own transpose. Up to 16 terms live in registers.
 *
 * Any other length: products with the basis. */
#include "compress/isa/steps.h"
#define ASKPER (SPECTRUM_BESIDE/2)

/* cos and sin of turn i of C4(n) lie at [n + 2i] and [n + 2i + 1]; [0] is cos(pi/4). */
typedef struct turns {
    const float *own;   /* of the branch whose coefficients are not scaled yet */
    const float *plain; /* without the scale */
    bool is_scaled;
    const float *ask; int64_t stride;
} turns;

FLAT turns inner(turns t) { return (turns){t.plain, t.plain, false,t.ask,t.stride}; }

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

/* two_n: C2(n) in place; four_n: C4(n); back_n: the transpose of C2(n). */
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

/* Terms of LANES vectors in memory: term i at p + i * ld. */
typedef struct terms {
    float *p;
    int64_t ld;
} terms;
typedef struct source {
    const float *p;
    int64_t ld;
} source;

FLAT vfloat get(source x, int64_t i) { return load(x.p + i * x.ld); }
FLAT void put(terms x, int64_t i, vfloat v) { store(x.p + i * x.ld, v); }
FLAT void get_all(int n, source x, vfloat *v) {
    for (int i = 0; i < n; i++) v[i] = get(x, i);
}
FLAT void put_all(int n, terms x, const vfloat *v) {
    for (int i = 0; i < n; i++) put(x, i, v[i]);
}

/* Transforms of n = 8 or 16 terms in memory; all of x is read before out is written. The
 * compiler sees n and whether the constant term is scaled. */
FLAT void two_terms(int n, turns t, source x, terms out) {
    vfloat v[16];
    get_all(n, x, v);
    n == 8 ? two_8(t, v) : two_16(t, v);
    put_all(n, out, v);
}

FLAT void four_terms(int n, turns t, source x, terms out) {
    vfloat v[16];
    get_all(n, x, v);
    n == 8 ? four_8(t, v) : four_16(t, v);
    put_all(n, out, v);
}

FLAT void back_terms(int n, turns t, source x, terms out) {
    vfloat v[16];
    get_all(n, x, v);
    n == 8 ? back_8(t, v) : back_16(t, v);
    put_all(n, out, v);
}

static void two_terms_8(turns t, source x, terms out) {
    two_terms(8, (turns){t.own, t.plain, true,t.ask,t.stride}, x, out);
}
static void two_terms_16(turns t, source x, terms out) {
    two_terms(16, (turns){t.own, t.plain, true,t.ask,t.stride}, x, out);
}
static void plain_terms_8(turns t, source x, terms out) {
    two_terms(8, inner(t), x, out);
}
static void plain_terms_16(turns t, source x, terms out) {
    two_terms(16, inner(t), x, out);
}
static void four_terms_8(turns t, source x, terms out) { four_terms(8, t, x, out); }
static void four_terms_16(turns t, source x, terms out) { four_terms(16, t, x, out); }

/* Lengths of at least 32 in memory: two stages at once, then quarters. x may be out: it is
 * read whole before. `temp` has room for 4n vectors. */
static void two(int64_t n, turns t, source x, terms out, float *temp);

/* The odd coefficients (of n) from U and W, packed. */
FLAT void merge_terms(int64_t n, const float *u, const float *w, terms out) {
    int64_t half = n / 2;
    put(out, 0, load(u));
    put(out, n - 1, -load(w));
    for (int64_t k = 1; k < half; k++) {
        vfloat a = load(u + k * LANES), b = load(w + (half - k) * LANES);
        put(out, 2 * k, a + b);
        put(out, 2 * k - 1, a - b);
    }
}

static void four(int64_t n, turns t, source x, terms out, float *temp) {
    if (n == 8)
        four_terms_8(t, x, out);
    else if (n == 16)
        four_terms_16(t, x, out);
    if (n <= 16) return;
    int64_t half = n / 2;
    float *u = temp, *w = temp + half * LANES;
    for (int64_t i = 0; i < half; i++) {
        vfloat a = get(x, i), b = get(x, n - 1 - i);
        float cosine = t.own[n + 2 * i], sine = t.own[n + 2 * i + 1];
        store(u + i * LANES, a * cosine + b * sine);
        store(w + i * LANES, i % 2 ? a * sine - b * cosine : b * cosine - a * sine);
    }
    two(half, inner(t), (source){u, LANES}, (terms){u, LANES}, temp + n * LANES);
    two(half, inner(t), (source){w, LANES}, (terms){w, LANES}, temp + n * LANES);
    merge_terms(n, u, w, out);
}

/* The sums' sums, the sums' differences, and the turned differences; a quarter each. */
FLAT void split_quarter(int64_t n, int64_t i, float sign, turns t, source x, float *to) {
    int64_t half = n / 2, next = n / 4 * LANES;
    vfloat a = get(x, i), b = get(x, n - 1 - i), c = get(x, half - 1 - i),
           d = get(x, half + i);
    vfloat s = a + b, r = c + d, p = a - b, q = c - d;
    float cosine = t.own[half + 2 * i], sine = t.own[half + 2 * i + 1];
    to += i * LANES;
    store(to, s + r);
    store(to + next, s - r);
    store(to + 2 * next, p * cosine + q * sine);
    store(to + 3 * next, (q * cosine - p * sine) * sign);
}

FLAT void two_long(int64_t n, turns t, source x, terms out, float *temp) {
    int64_t quarter = n / 4, next = quarter * LANES;
    const float *ask = t.ask;
    for (int64_t i = 0; i < quarter; i += 2) {
        if (n == 64) { const float*at = ask + (i/2/ASKPER)*t.stride + (i/2%ASKPER)*128; for (int q = 0; q < 128; q += 16) __builtin_prefetch(at + q, 0, 3); }
        split_quarter(n, i, 1, t, x, temp);
        split_quarter(n, i + 1, -1, t, x, temp);
    }
    float *more = temp + n * LANES, *u = temp + 2 * next, *w = u + next;
    terms even = {out.p, 4 * out.ld}, middle = {out.p + 2 * out.ld, 4 * out.ld};
    two(quarter, t, (source){temp, LANES}, even, more);
    four(quarter, t, (source){temp + next, LANES}, middle, more);
    two(quarter, inner(t), (source){u, LANES}, (terms){u, LANES}, more);
    two(quarter, inner(t), (source){w, LANES}, (terms){w, LANES}, more);
    merge_terms(n / 2, u, w, (terms){out.p + out.ld, 2 * out.ld});
}
static void two(int64_t n, turns t, source x, terms out, float *temp) {
    if (n == 8)
        t.is_scaled ? two_terms_8(t, x, out) : plain_terms_8(t, x, out);
    else if (n == 16)
        t.is_scaled ? two_terms_16(t, x, out) : plain_terms_16(t, x, out);
    else if (n == 64)
        two_long(64, t, x, out, temp);
    else
        two_long(n, t, x, out, temp);
}

static void back_terms_8(turns t, source x, terms out) {
    back_terms(8, (turns){t.own, t.plain, true,t.ask,t.stride}, x, out);
}
static void back_terms_16(turns t, source x, terms out) {
    back_terms(16, (turns){t.own, t.plain, true,t.ask,t.stride}, x, out);
}
static void back_plain_8(turns t, source x, terms out) {
    back_terms(8, inner(t), x, out);
}
static void back_plain_16(turns t, source x, terms out) {
    back_terms(16, inner(t), x, out);
}

/* The transpose of merge_terms. */
static void part_odd(int64_t n, source x, float *u, float *w) {
    int64_t half = n / 2;
    store(u, get(x, 0));
    store(w, -get(x, n - 1));
    for (int64_t k = 1; k < half; k++) {
        vfloat a = get(x, 2 * k), b = get(x, 2 * k - 1);
        store(u + k * LANES, a + b);
        store(w + (half - k) * LANES, a - b);
    }
}

/* The transpose of split_quarter. */
FLAT void merge_quarter(int64_t n, int64_t i, float sign, turns t, const float *from,
                        terms out) {
    int64_t half = n / 2, next = n / 4 * LANES;
    from += i * LANES;
    vfloat a = load(from), b = load(from + next), u = load(from + 2 * next),
           w = load(from + 3 * next) * sign;
    float cosine = t.own[half + 2 * i], sine = t.own[half + 2 * i + 1];
    vfloat s = a + b, r = a - b, p = u * cosine - w * sine, q = u * sine + w * cosine;
    put(out, i, s + p);
    put(out, n - 1 - i, s - p);
    put(out, half - 1 - i, r + q);
    put(out, half + i, r - q);
}

static void back(int64_t n, turns t, source x, terms out, float *temp) {
    if (n == 8)
        t.is_scaled ? back_terms_8(t, x, out) : back_plain_8(t, x, out);
    else if (n == 16)
        t.is_scaled ? back_terms_16(t, x, out) : back_plain_16(t, x, out);
    if (n <= 16) return;
    int64_t quarter = n / 4, next = quarter * LANES;
    const float *ask = t.ask;
    float *more = temp + n * LANES, *u = temp + 2 * next, *w = u + next;
    source even = {x.p, 4 * x.ld}, middle = {x.p + 2 * x.ld, 4 * x.ld};
    part_odd(n / 2, (source){x.p + x.ld, 2 * x.ld}, u, w);
    back(quarter, t, even, (terms){temp, LANES}, more);
    four(quarter, t, middle, (terms){temp + next, LANES}, more);
    back(quarter, inner(t), (source){u, LANES}, (terms){u, LANES}, more);
    back(quarter, inner(t), (source){w, LANES}, (terms){w, LANES}, more);
    for (int64_t i = 0; i < quarter; i += 2) {
        if (n == 64) { const float*at = ask + (i/2/ASKPER)*t.stride + (i/2%ASKPER)*128; for (int q = 0; q < 128; q += 16) __builtin_prefetch(at + q, 0, 3); }
        merge_quarter(n, i, 1, t, temp, out);
        merge_quarter(n, i + 1, -1, t, temp, out);
    }
}

/* Two or four terms stand alone: nothing longer is cut into them. */
static void short_terms(int64_t n, bool is_back, turns t, source x, terms out) {
    vfloat v[4];
    for (int i = 0; i < 4; i++) v[i] = i < n ? get(x, i) : splat(0);
    if (n == 4)
        is_back ? back_4(t, v) : two_4(t, v);
    else
        is_back ? back_2(t, v) : two_2(t, v);
    put_all((int)n, out, v);
}

/* out_j = sum_t of factor(j, t) x_t, with factor(j, t) at f[j * ldj + t * ldt]: eight j at
 * a time, so that eight sums are on their way at once. */
static void product(int64_t c, const float *f, int64_t ldj, int64_t ldt, const float *x,
                    int64_t ldx, terms out) {
    for (int64_t j = 0; j < c; j += 8) {
        int64_t rows = c - j < 8 ? c - j : 8;
        const float *from[8];
        vfloat sum[8];
        for (int64_t i = 0; i < 8; i++) {
            from[i] = f + (j + (i < rows ? i : 0)) * ldj;
            sum[i] = (vfloat){0};
        }
        for (int64_t t = 0; t < c; t++) {
            vfloat v = load(x + t * ldx);
            for (int i = 0; i < 8; i++) sum[i] += v * from[i][t * ldt];
        }
        for (int64_t i = 0; i < rows; i++) put(out, j + i, sum[i]);
    }
}

void WEFT_ISA_NAME(wefti_cosine_forward)(const wefti_spectrum *p, const float *x,
                                         int64_t ldx, float *out, int64_t ldo,
                                         float *temp, const float *ask, int64_t stride) {
    turns t = {p->turns_scaled, p->turns, true, ask, stride};
    source from = {x, ldx};
    terms to = {out, ldo};
    if (!p->is_fast)
        product(p->c, p->basis, p->ld, 1, x, ldx, to);
    else if (p->c < 8)
        short_terms(p->c, false, t, from, to);
    else
        two(p->c, t, from, to, temp);
}

void WEFT_ISA_NAME(wefti_cosine_inverse)(const wefti_spectrum *p, const float *x,
                                         int64_t ldx, float *out, int64_t ldo,
                                         float *temp, const float *ask, int64_t stride) {
    turns t = {p->turns_scaled, p->turns, true, ask, stride};
    source from = {x, ldx};
    terms to = {out, ldo};
    if (!p->is_fast)
        product(p->c, p->basis, 1, p->ld, x, ldx, to);
    else if (p->c < 8)
        short_terms(p->c, true, t, from, to);
    else
        back(p->c, t, from, to, temp);
}
