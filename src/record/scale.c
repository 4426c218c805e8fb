/* SPDX-License-Identifier: MIT */
#include "record/scale.h"

#include <math.h>

bool wefti_drawable(double x, double y) {
    return fabs(x) <= 1e100 && fabs(y) <= 1e100; /* false for NAN */
}

/* ---- units ---- */

typedef struct unit_row {
    double from; /* smallest number written so */
    wefti_scale scale;
} unit_row;

#define MICRO "\xc2\xb5"
#define TIMES_TEN "\xc3\x97 10"
#define TO_THE_6 "\xe2\x81\xb6"
#define TO_THE_MINUS_3 "\xe2\x81\xbb\xc2\xb3"
#define TO_THE_MINUS_6 "\xe2\x81\xbb" TO_THE_6

static const unit_row counts[] = {{1e12, {1e12, "T", ""}},
                                  {1e9, {1e9, "G", ""}},
                                  {1e6, {1e6, "M", ""}},
                                  {1e4, {1e3, "k", ""}},
                                  {0, {1, "", ""}}};
static const unit_row times[] = {{7200, {3600, "", "h"}},
                                 {180, {60, "", "min"}},
                                 {1, {1, "", "s"}},
                                 {1e-3, {1e-3, "", "ms"}},
                                 {0, {1e-6, "", MICRO "s"}}};
static const unit_row bytes[] = {{1e12, {1e12, "", "TB"}},
                                 {1e9, {1e9, "", "GB"}},
                                 {1e6, {1e6, "", "MB"}},
                                 {1e3, {1e3, "", "kB"}},
                                 {0, {1, "", "B"}}};
static const unit_row plains[] = {{1e6, {1e6, "", TIMES_TEN TO_THE_6}},
                                  {1e-2, {1, "", ""}},
                                  {1e-5, {1e-3, "", TIMES_TEN TO_THE_MINUS_3}},
                                  {0, {1e-6, "", TIMES_TEN TO_THE_MINUS_6}}};

wefti_scale wefti_scale_for(wefti_axis axis, double largest) {
    const unit_row *row = plains;
    if (axis == WEFTI_AXIS_COUNT) row = counts;
    if (axis == WEFTI_AXIS_TIME) row = times;
    if (axis == WEFTI_AXIS_BYTES) row = bytes;
    if (largest == 0 && axis != WEFTI_AXIS_BYTES) largest = 1;
    while (row->from > 0 && !(largest >= row->from)) row++;
    return row->scale;
}

void wefti_put_short(weft_ctx *ctx, wefti_buffer *out, double value, wefti_axis kind) {
    wefti_scale s = wefti_scale_for(kind, fabs(value));
    double shown = value / s.factor + 0.0, size = fabs(shown); /* + 0.0: no minus zero */
    if (!isfinite(shown)) {
        wefti_buffer_text(ctx, out, "\xe2\x80\x93"); /* a dash */
        return;
    }
    int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    bool whole = fabs(shown - rint(shown)) <= 1e-9 * size; /* but for rounding */
    if (kind != WEFTI_AXIS_PLAIN && whole) decimals = 0;
    if (kind == WEFTI_AXIS_PLAIN && size < 9.9995) decimals = 3;
    wefti_buffer_fixed(ctx, out, shown, decimals);
    wefti_buffer_text(ctx, out, s.suffix);
    if (s.unit[0]) wefti_buffer_print(ctx, out, " %s", s.unit);
}

/* ---- ticks ---- */

wefti_ticks wefti_nice_ticks(double low, double high) {
    double rough = (high - low) / 5, power = pow(10, floor(log10(rough)));
    double digit = rough / power; /* in [1, 10) */
    double nice = digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10;
    wefti_ticks t = {.step = nice * power};
    double slack = 1e-9 *
                   (high - low); /* a tick on the border counts in spite of rounding */
    t.first = ceil((low - slack) / t.step) * t.step;
    while (t.n < 12 && t.first + t.n * t.step <= high + slack) t.n++;
    double exponent = floor(log10(t.step * 1.000001));
    t.decimals = exponent >= 0 ? 0 : exponent < -9 ? 9 : (int)-exponent;
    return t;
}

/* ---- points ---- */

/* Appends index i unless it is there already. */
static int push(int64_t *picked, int n, int64_t i) {
    if (i < 0 || (n > 0 && picked[n - 1] >= i)) return n;
    picked[n] = i;
    return n + 1;
}

int wefti_thin(const double *x, const double *y, int64_t n, int64_t *picked) {
    enum { STRETCHES = WEFTI_MAX_POINTS / 2 };
    int n_picked = 0;
    int64_t stretches = n <= WEFTI_MAX_POINTS ? n : STRETCHES;
    for (int64_t s = 0; s < stretches; s++) {
        int64_t begin = (int64_t)((double)n * (double)s / (double)stretches);
        int64_t end = (int64_t)((double)n * (double)(s + 1) / (double)stretches);
        int64_t least = -1, greatest = -1;
        for (int64_t i = begin; i < end && i < n; i++) {
            if (!wefti_drawable(x[i], y[i])) continue;
            if (least < 0 || y[i] < y[least]) least = i;
            if (greatest < 0 || y[i] > y[greatest]) greatest = i;
        }
        n_picked = push(picked, n_picked, least < greatest ? least : greatest);
        n_picked = push(picked, n_picked, least < greatest ? greatest : least);
    }
    return n_picked;
}
