/* SPDX-License-Identifier: MIT */
/* The rules of robust.h. trim moves the b least numbers to the first rows and the b greatest
 * to the last ones, number by number, by exchanges of neighbouring rows: 2 b (n - 1) of
 * them, each over a strip that lies in cache. */
#include "collectives/robust.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"

wefti_robust wefti_robust_named(const char *name) {
    if (wefti_is(name, "clip")) return WEFTI_ROBUST_CLIP;
    return wefti_is(name, "trim") ? WEFTI_ROBUST_TRIM : WEFTI_ROBUST_OFF;
}

double wefti_robust_squares(int64_t n, const float *x) {
    enum { LANES = 8 };
    double lanes[LANES] = {0}, sum = 0;
    int64_t whole = n / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += (double)x[i + k] * (double)x[i + k];
    for (int64_t i = whole; i < n; i++) lanes[i - whole] += (double)x[i] * (double)x[i];
    for (int k = 0; k < LANES; k++) sum += lanes[k];
    return sum;
}

static int by_size(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Of an even number the lower one, so that half of the members being wrong is not
 * enough. */
static double median_of(int n, double *sizes) {
    qsort(sizes, (size_t)n, sizeof *sizes, by_size);
    return sizes[(n - 1) / 2];
}

/* How many numbers trim leaves out at each end. */
static int trimmed_of(int n) {
    int most = (n - 1) / 2, b = n / 4 > 1 ? n / 4 : 1;
    return b < most ? b : most;
}

double wefti_robust_factors(wefti_robust rule, const wefti_robust_members *m) {
    double divisor = 0;
    int left = 0;
    for (int i = 0; i < m->n; i++) {
        double w = m->weights[i];
        bool counts = isfinite(m->squares[i]) && w > 0;
        m->factors[i] = counts ? (float)(1 / w) : 0;
        if (!counts) continue;
        m->sizes[left++] = sqrt(m->squares[i]) / w;
        divisor += w;
    }
    if (left == 0) return 1;
    if (rule == WEFTI_ROBUST_TRIM) return left - 2 * trimmed_of(left);
    double median = median_of(left, m->sizes);
    for (int i = 0; i < m->n; i++) {
        if (m->factors[i] == 0) continue;
        double size = sqrt(m->squares[i]) / m->weights[i];
        m->factors[i] = size > median ? (float)(median / size) : 1;
    }
    return divisor;
}

/* low[j] <- the smaller one, high[j] <- the greater one. */
static void exchange(int64_t n, float *low, float *high) {
    float *restrict a = low, *restrict b = high;
    for (int64_t j = 0; j < n; j++) {
        float x = a[j], y = b[j];
        a[j] = y < x ? y : x;
        b[j] = y < x ? x : y;
    }
}

void wefti_robust_sum(wefti_robust rule, int n_rows, float *const *rows, int64_t n,
                      float *sum) {
    int b = rule == WEFTI_ROBUST_TRIM && n_rows > 0 ? trimmed_of(n_rows) : 0;
    for (int pass = 0; pass < b; pass++) {
        int last = n_rows - 1 - pass;
        for (int i = pass; i < last; i++) exchange(n, rows[i], rows[i + 1]);
        for (int i = last - 1; i > pass; i--) exchange(n, rows[i - 1], rows[i]);
    }
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int i = b; i < n_rows - b; i++)
        for (int64_t j = 0; j < n; j++) sum[j] += rows[i][j];
}

/* --- who is too large again and again --- */

static void end_exchange(wefti_robust_watch *watch) {
    int n = 0;
    for (int i = 0; i < watch->n; i++)
        if (watch->seen[i].present && isfinite(watch->seen[i].squares))
            watch->sizes[n++] = sqrt(watch->seen[i].squares);
    double median = n > 0 ? median_of(n, watch->sizes) : 0;
    for (int i = 0; i < watch->n; i++) {
        wefti_robust_seen *s = &watch->seen[i];
        double size = sqrt(s->squares);
        bool far = !(size <= WEFTI_ROBUST_FAR * median);
        if (!s->present) continue;
        if (far) s->times = median > 0 ? size / median : INFINITY;
        s->history = (s->history << 1 | far) & ((1u << WEFTI_ROBUST_EXCHANGES) - 1);
        s->present = false;
        s->squares = 0;
    }
}

void wefti_robust_note(wefti_robust_watch *watch, int64_t step, int member,
                       double squares) {
    WEFTI_ASSERT(member >= 0 && member < watch->n);
    if (watch->step >= 0 && watch->step != step) end_exchange(watch);
    watch->step = step;
    watch->seen[member].present = true;
    watch->seen[member].squares += squares;
}

int wefti_robust_suspect(wefti_robust_watch *watch, double *times, int *exchanges) {
    if (watch->step >= 0) end_exchange(watch);
    watch->step = -1;
    for (int i = 0; i < watch->n; i++) {
        wefti_robust_seen *s = &watch->seen[i];
        *exchanges = __builtin_popcount(s->history);
        *times = s->times;
        if (s->named || *exchanges <= WEFTI_ROBUST_EXCHANGES / 2) continue;
        s->named = true;
        return i;
    }
    return -1;
}
