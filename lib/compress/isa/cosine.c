/* SPDX-License-Identifier: MIT */
/* DCT-II and its inverse of LANES vectors side by side: term t of all of them at x +
 * t*ldx.
 *
 * A power of two: C2(n), the unscaled DCT-II, is C2(n/2) of x_i + x_(n-1-i) for the even
 * coefficients and C4(n/2), a DCT-IV, of x_i - x_(n-1-i) for the odd ones. C4(n) turns
 * each pair (x_i, x_(n-1-i)) by the angle pi (2i+1)/4n into (u_i, w_i). With U = C2(n/2)
 * u and W = C2(n/2) (-1)^i w, its coefficients are X_(2k) = U_k + W_(n/2-k) and X_(2k-1)
 * = U_k - W_(n/2-k) (Wang 1984; Plonka & Tasche 2005). There are only turns and sums of
 * two numbers, so the error stays at a few roundings of the vector's norm. The factors of
 * the orthonormal transform are in the turns that each coefficient passes first. The
 * inverse is the transposed graph; C4 is its own transpose. Up to 16 terms are kept in
 * registers.
 *
 * Any other length: products with the basis. */
#include "compress/isa/leaves.h"
#include "compress/isa/steps.h"

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
#define IN_MEMORY(kind)                                                                  \
    FLAT void kind##_terms(int n, turns t, source x, terms out) {                        \
        vfloat v[16];                                                                    \
        get_all(n, x, v);                                                                \
        n == 8 ? kind##_8(t, v) : kind##_16(t, v);                                       \
        put_all(n, out, v);                                                              \
    }
IN_MEMORY(two)
IN_MEMORY(four)
IN_MEMORY(back)

#define SCALED ((turns){t.own, t.plain, true})
#define ALONE(name, kind, n, turns_)                                                     \
    static void name(turns t, source x, terms out) { kind##_terms(n, turns_, x, out); }
ALONE(two_terms_8, two, 8, SCALED)
ALONE(two_terms_16, two, 16, SCALED)
ALONE(plain_terms_8, two, 8, inner(t))
ALONE(plain_terms_16, two, 16, inner(t))
ALONE(four_terms_8, four, 8, t)
ALONE(four_terms_16, four, 16, t)
ALONE(back_terms_8, back, 8, SCALED)
ALONE(back_terms_16, back, 16, SCALED)
ALONE(back_plain_8, back, 8, inner(t))
ALONE(back_plain_16, back, 16, inner(t))

/* Lengths of at least 32, in memory: two stages at once, then quarters. x may be out,
 * because all of x is read first. `temp` has room for 4n vectors. */
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

/* The same for n = 32 from U and w: W = C2(16) w stays in registers. */
static void merge_terms_32(turns t, const float *u, const float *w, terms out) {
    vfloat v[16];
    get_all(16, (source){w, LANES}, v);
    two_16(inner(t), v);
    put(out, 0, load(u));
    put(out, 31, -v[0]);
    UNROLL
    for (int k = 1; k < 16; k++) {
        vfloat a = load(u + k * LANES);
        put(out, 2 * k, a + v[16 - k]);
        put(out, 2 * k - 1, a - v[16 - k]);
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

/* Sums of the sums, differences of the sums, and the turned differences; a quarter
 * each. */
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
    for (int64_t i = 0; i < quarter; i += 2) {
        split_quarter(n, i, 1, t, x, temp);
        split_quarter(n, i + 1, -1, t, x, temp);
    }
    float *more = temp + n * LANES, *u = temp + 2 * next, *w = u + next;
    terms even = {out.p, 4 * out.ld}, middle = {out.p + 2 * out.ld, 4 * out.ld};
    two(quarter, t, (source){temp, LANES}, even, more);
    four(quarter, t, (source){temp + next, LANES}, middle, more);
    two(quarter, inner(t), (source){u, LANES}, (terms){u, LANES}, more);
    terms odd = {out.p + out.ld, 2 * out.ld};
    if (n == 64) {
        merge_terms_32(t, u, w, odd);
        return;
    }
    two(quarter, inner(t), (source){w, LANES}, (terms){w, LANES}, more);
    merge_terms(n / 2, u, w, odd);
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

/* The same for n = 32, and the transposed C2(16) of both in registers. */
static void part_odd_32(turns t, source x, float *u, float *w) {
    vfloat v[16];
    v[0] = get(x, 0);
    UNROLL
    for (int k = 1; k < 16; k++) v[k] = get(x, 2 * k) + get(x, 2 * k - 1);
    back_16(inner(t), v);
    put_all(16, (terms){u, LANES}, v);
    v[0] = -get(x, 31);
    UNROLL
    for (int k = 1; k < 16; k++) v[16 - k] = get(x, 2 * k) - get(x, 2 * k - 1);
    back_16(inner(t), v);
    put_all(16, (terms){w, LANES}, v);
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

static void back(int64_t n, turns t, source x, terms out, float *temp);

FLAT void back_long(int64_t n, turns t, source x, terms out, float *temp) {
    int64_t quarter = n / 4, next = quarter * LANES;
    float *more = temp + n * LANES, *u = temp + 2 * next, *w = u + next;
    source even = {x.p, 4 * x.ld}, middle = {x.p + 2 * x.ld, 4 * x.ld},
           odd = {x.p + x.ld, 2 * x.ld};
    back(quarter, t, even, (terms){temp, LANES}, more);
    four(quarter, t, middle, (terms){temp + next, LANES}, more);
    if (n == 64) {
        part_odd_32(t, odd, u, w);
    } else {
        part_odd(n / 2, odd, u, w);
        back(quarter, inner(t), (source){u, LANES}, (terms){u, LANES}, more);
        back(quarter, inner(t), (source){w, LANES}, (terms){w, LANES}, more);
    }
    for (int64_t i = 0; i < quarter; i += 2) {
        merge_quarter(n, i, 1, t, temp, out);
        merge_quarter(n, i + 1, -1, t, temp, out);
    }
}

static void back(int64_t n, turns t, source x, terms out, float *temp) {
    if (n == 8)
        t.is_scaled ? back_terms_8(t, x, out) : back_plain_8(t, x, out);
    else if (n == 16)
        t.is_scaled ? back_terms_16(t, x, out) : back_plain_16(t, x, out);
    else if (n == 64)
        back_long(64, t, x, out, temp);
    else
        back_long(n, t, x, out, temp);
}

/* Two or four terms are transformed only alone: no longer length is divided into them. */
static void short_terms(int64_t n, bool is_back, turns t, source x, terms out) {
    vfloat v[4];
    for (int i = 0; i < 4; i++) v[i] = i < n ? get(x, i) : splat(0);
    if (n == 4)
        is_back ? back_4(t, v) : two_4(t, v);
    else
        is_back ? back_2(t, v) : two_2(t, v);
    put_all((int)n, out, v);
}

/* out_j = sum_t of factor(j, t) x_t, with factor(j, t) at f[j * ldj + t * ldt]: eight j
 * at a time, so that eight sums are in progress at once. */
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
                                         float *temp) {
    turns t = {p->turns_scaled, p->turns, true};
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
                                         float *temp) {
    turns t = {p->turns_scaled, p->turns, true};
    source from = {x, ldx};
    terms to = {out, ldo};
    if (!p->is_fast)
        product(p->c, p->basis, 1, p->ld, x, ldx, to);
    else if (p->c < 8)
        short_terms(p->c, true, t, from, to);
    else
        back(p->c, t, from, to, temp);
}
