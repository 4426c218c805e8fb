/* SPDX-License-Identifier: MIT */
/* Two bits and a table per run: see bins.h. With mean u and standard deviation s of the
 * run, the bin of x is floor((x - u) / (1.5 s) + 2.5), at least 0 and at most 3. */
#include "wire/bins.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "wire/bits.h"

enum { BINS = 4, TABLE_BYTES = 2 * BINS, NAN_ENTRY = 0x7fc0 };

static int64_t run_bytes(int64_t n) { return TABLE_BYTES + (n + 3) / 4; }

int64_t wefti_bins_bytes(int64_t n) {
    int64_t rest = n % WEFTI_BINS_RUN;
    return n / WEFTI_BINS_RUN * run_bytes(WEFTI_BINS_RUN) + (rest ? run_bytes(rest) : 0);
}

/* The bf16 nearest to a finite number, ties to the even one; a number that would become
 * infinite becomes the largest. */
static uint32_t entry_of(double x) {
    uint32_t bits = wefti_bf16((float)x);
    return (bits & 0x7fff) < 0x7f80 ? bits : (bits & 0x8000) | 0x7f7f;
}

static int bin_of(double x, double mean, double width) {
    double place = width > 0 ? floor((x - mean) / width + 2.5) : 2;
    return place < 0 ? 0 : place > BINS - 1 ? BINS - 1 : (int)place;
}

/* False if not all are finite. */
static bool measure(int64_t n, const float *x, double *mean, double *width) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *width = 1.5 * sqrt(squares / (double)n);
    return isfinite(*width);
}

static void encode_run(int64_t n, float *x, unsigned char *out) {
    double mean, width, sums[BINS] = {0};
    int64_t counts[BINS] = {0};
    uint32_t table[BINS] = {NAN_ENTRY, NAN_ENTRY, NAN_ENTRY, NAN_ENTRY};
    bool finite = measure(n, x, &mean, &width);
    memset(out, 0, (size_t)run_bytes(n));
    for (int64_t i = 0; i < n && finite; i++) {
        int bin = bin_of((double)x[i], mean, width);
        sums[bin] += (double)x[i];
        counts[bin]++;
        out[TABLE_BYTES + i / 4] |= (unsigned char)(bin << 2 * (i % 4));
    }
    for (int b = 0; b < BINS; b++) {
        if (finite) table[b] = counts[b] ? entry_of(sums[b] / (double)counts[b]) : 0;
        wefti_put_u16(out + 2 * b, table[b]);
    }
    for (int64_t i = 0; i < n; i++)
        x[i] = wefti_f32_of_bf16(table[out[TABLE_BYTES + i / 4] >> 2 * (i % 4) & 3]);
}

void wefti_bins_encode(int64_t n, float *x, unsigned char *out) {
    for (; n > 0; n -= WEFTI_BINS_RUN) {
        int64_t run = n < WEFTI_BINS_RUN ? n : WEFTI_BINS_RUN;
        encode_run(run, x, out);
        x += run;
        out += run_bytes(run);
    }
}

/* What is wrong with a run, or NULL. */
static const char *decode_run(int64_t n, const unsigned char *in, float *x) {
    uint32_t table[BINS];
    int not_finite = 0, nan = 0, any = 0;
    for (int b = 0; b < BINS; b++) {
        table[b] = wefti_get_u16(in + 2 * b);
        not_finite += (table[b] & 0x7f80) == 0x7f80;
        nan += table[b] == NAN_ENTRY;
    }
    if (not_finite > 0 && nan < BINS) return "a table that is not finite";
    for (int64_t i = 0; i < n; i++) {
        int bin = in[TABLE_BYTES + i / 4] >> 2 * (i % 4) & 3;
        any |= bin;
        x[i] = wefti_f32_of_bf16(table[bin]);
    }
    if (nan > 0 && any) return "bins beside a table of NaN";
    bool spare = n % 4 != 0 && in[TABLE_BYTES + n / 4] >> 2 * (n % 4) != 0;
    return spare ? "bits that are not zero behind the last number" : NULL;
}

weft_status wefti_bins_decode(weft_ctx *ctx, int64_t n, const unsigned char *in,
                              float *x) {
    for (int64_t at = 0; at < n; at += WEFTI_BINS_RUN) {
        int64_t run = n - at < WEFTI_BINS_RUN ? n - at : WEFTI_BINS_RUN;
        const char *fault = decode_run(run, in, x + at);
        if (fault)
            return weft_ctx_fail(ctx, WEFT_ERR_WIRE, "the run from number %lld on has %s",
                                 (long long)at, fault);
        in += run_bytes(run);
    }
    return WEFT_OK;
}
