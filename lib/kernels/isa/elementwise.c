/* SPDX-License-Identifier: MIT */
/* Sums, scalings and biases. They are limited by memory, so each is one pass with the
 * widest loads. bias_grad divides the columns, sum_squares a fixed number of segments:
 * both have the same order of additions for any thread count. */
#include "kernels/isa/lanes.h"
#include "kernels/isa/parts.h"
#include "kernels/isa/team.h"

static void add_slice(int64_t n, const float *a, const float *b, float *y) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(y + i, load(a + i) + load(b + i));
    for (; i < n; i++) y[i] = a[i] + b[i];
}

static void scale_slice(int64_t n, float s, float *y) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(y + i, load(y + i) * s);
    for (; i < n; i++) y[i] *= s;
}

/* A team of one costs ten times as much as the sum of a few numbers, which of many ranks each
 * adds for each. */
void WEFT_ISA_NAME(wefti_add)(int64_t n, const float *a, const float *b, float *y) {
    if (team_size(n) == 1) {
        add_slice(n, a, b, y);
        return;
    }
    TEAM_SLICES(n, n, LANES, s,
                add_slice(s.end - s.begin, a + s.begin, b + s.begin, y + s.begin));
}

void WEFT_ISA_NAME(wefti_accumulate)(int64_t n, const float *a, float *y) {
    WEFT_ISA_NAME(wefti_add)(n, a, y, y);
}

void WEFT_ISA_NAME(wefti_scale)(int64_t n, float s, float *y) {
    TEAM_SLICES(n, n, LANES, part, scale_slice(part.end - part.begin, s, y + part.begin));
}

/* Stores past the cache, where a core writes twice as fast as through it. */
static void clear_slice(int64_t n, float *y) {
#if defined(__AVX512F__)
    enum { LEAST = 1 << 14 }; /* less may stay in the cache */
    int64_t before = (int64_t)(-(uintptr_t)y / sizeof *y % LANES), i = before;
    if (n >= LEAST) {
        memset(y, 0, (size_t)before * sizeof *y);
        for (; i + LANES <= n; i += LANES) _mm512_stream_ps(y + i, _mm512_setzero_ps());
        _mm_sfence();
        y += i, n -= i;
    }
#endif
    memset(y, 0, (size_t)n * sizeof *y);
}

void WEFT_ISA_NAME(wefti_clear)(int64_t n, float *y) {
    TEAM_SLICES(n, n, LANES, part, clear_slice(part.end - part.begin, y + part.begin));
}

void WEFT_ISA_NAME(wefti_bias_add)(int64_t N, int64_t C, const float *b, float *y) {
    TEAM_ROWS(N * C, N, n, add_slice(C, b, y + n * C, y + n * C));
}

/* Adds `rows` rows of dy to columns c of db; few rows at a time keep db in registers. */
static void bias_grad_rows(int64_t rows, int64_t C, span c, const float *dy, float *db) {
    int64_t i = c.begin;
    for (; i + LANES <= c.end; i += LANES) {
        vfloat sum = load(dy + i);
        for (int64_t n = 1; n < rows; n++) sum += load(dy + n * C + i);
        store(db + i, load(db + i) + sum);
    }
    for (; i < c.end; i++) {
        float sum = dy[i];
        for (int64_t n = 1; n < rows; n++) sum += dy[n * C + i];
        db[i] += sum;
    }
}

void WEFT_ISA_NAME(wefti_bias_grad)(int64_t N, int64_t C, const float *dy, float *db) {
    enum { ROWS = 16 };
    int t = team_size(N * C);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int i = 0; i < t; i++) {
        span columns = team_slice(C, 16, i, t);
        int64_t n = 0;
        for (; n + ROWS <= N; n += ROWS) bias_grad_rows(ROWS, C, columns, dy + n * C, db);
        if (n < N) bias_grad_rows(N - n, C, columns, dy + n * C, db);
    }
}

/* The same of rows in bfloat16. */
static void bias_grad_half_rows(int64_t rows, int64_t C, span c, const uint16_t *dy,
                                float *db) {
    int64_t i = c.begin;
    for (; i < c.end; i += LANES) {
        int64_t n = c.end - i < LANES ? c.end - i : LANES;
        bool whole = n == LANES;
        vfloat sum = whole ? load_half(dy + i) : load_half_part(dy + i, n);
        for (int64_t r = 1; r < rows; r++) {
            const uint16_t *row = dy + r * C + i;
            sum += whole ? load_half(row) : load_half_part(row, n);
        }
        store_part(db + i, load_part(db + i, n) + sum, n);
    }
}

void WEFT_ISA_NAME(wefti_bias_grad_half)(int64_t N, int64_t C, const uint16_t *dy,
                                         float *db) {
    enum { ROWS = 16 };
    int t = team_size(N * C);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int i = 0; i < t; i++) {
        span columns = team_slice(C, 32, i, t);
        for (int64_t n = 0; n < N; n += ROWS)
            bias_grad_half_rows(N - n < ROWS ? N - n : ROWS, C, columns, dy + n * C, db);
    }
}

static inline vdouble load_double(const float *p) {
    vfloat_half v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, vdouble);
}

static double sum_squares_slice(int64_t n, const float *x) {
    enum { WIDTH = LANES / 2, CHAINS = 4 };
    vdouble sum[CHAINS] = {{0}};
    double total = 0;
    int64_t i = 0;
    for (; i + CHAINS * WIDTH <= n; i += CHAINS * WIDTH) {
        for (int c = 0; c < CHAINS; c++) {
            vdouble v = load_double(x + i + c * WIDTH);
            sum[c] += v * v;
        }
    }
    for (; i < n; i++) total += (double)x[i] * (double)x[i];
    vdouble all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int lane = 0; lane < WIDTH; lane++) total += all[lane];
    return total;
}

double WEFT_ISA_NAME(wefti_sum_squares)(int64_t n, const float *x) {
    enum { SEGMENTS = 64 };
    double part[SEGMENTS], total = 0;
    int t = team_size(n);
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int i = 0; i < SEGMENTS; i++) {
        span s = team_slice(n, 64, i, SEGMENTS);
        part[i] = sum_squares_slice(s.end - s.begin, x + s.begin);
    }
    for (int i = 0; i < SEGMENTS; i++) total += part[i];
    return total;
}
