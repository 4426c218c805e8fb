/* SPDX-License-Identifier: MIT */
/* Robust figures of noisy samples.
 *
 * Jitter: c = the compute time of rank r in a step in seconds, m_r = its median.
 *
 *     spread   of log(c / m_r): half the distance of its 16 and 84 % quantiles
 *     stall    where log(c / m_r) > 5 spread and c > 1.2 m_r; its length c - m_r
 *     drift    of log(m_r / median of all m_r): standard deviation, less what the spread
 *              alone gives to a median of n: spread sqrt(pi / 2 n) */
#include "probe/samples.h"

#include <math.h>

#include "base/memory.h"
#include "base/stats.h"

#define HALF_PI 1.5707963267948966

weft_status wefti_samples_init(weft_ctx *ctx, int ranks, int64_t n, wefti_samples *out) {
    *out = (wefti_samples){.ranks = ranks, .n = n};
    WEFT_TRY(wefti_alloc_n(ctx, ranks * n, sizeof(double), "samples", &out->of));
    weft_status status = wefti_alloc_n(ctx, ranks * n, sizeof(double), "samples",
                                       &out->spare);
    if (status != WEFT_OK) wefti_samples_fini(ctx, out);
    return status;
}

void wefti_samples_fini(weft_ctx *ctx, wefti_samples *s) {
    WEFTI_FREE(ctx, s->of, s->spare);
    *s = (wefti_samples){0};
}

/* The range [*begin, *end) of a rank's samples in that part. A single sample is in both
 * halves. */
static void range_of(const wefti_samples *s, wefti_sample_half part, int64_t *begin,
                     int64_t *end) {
    *begin = part == WEFTI_SECOND_HALF ? s->n / 2 : 0;
    *end = part == WEFTI_FIRST_HALF ? (s->n + 1) / 2 : s->n;
}

static int64_t take(wefti_samples *s, int rank, wefti_sample_half part, int64_t n) {
    int64_t begin, end;
    range_of(s, part, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        double x = s->of[rank * s->n + i];
        if (!isnan(x)) s->spare[n++] = x;
    }
    return n;
}

double wefti_samples_quantile(wefti_samples *s, wefti_sample_half part, double q) {
    int64_t n = 0;
    for (int r = 0; r < s->ranks; r++) n = take(s, r, part, n);
    return wefti_quantile(s->spare, n, q);
}

double wefti_samples_rank_median(wefti_samples *s, int rank, wefti_sample_half part) {
    int64_t n = take(s, rank, part, 0);
    return wefti_quantile(s->spare, n, 0.5);
}

/* --- a link --- */

/* A fit with a larger residual is not a straight line. */
static const double most_bent = 0.1;

/* Root of the mean squared relative error. */
static double residual_of(int n, const double *bytes, const double *seconds,
                          double latency, double slope, double least) {
    double squares = 0;
    int used = 0;
    for (int i = 0; i < n; i++) {
        if (bytes[i] < least && bytes[i] > 0) continue;
        double off = (latency + slope * bytes[i]) / seconds[i] - 1;
        squares += off * off;
        used++;
    }
    return used > 0 ? sqrt(squares / used) : 0;
}

/* Mean time of the messages of this length. */
static double mean_at(int n, const double *bytes, const double *seconds, double size) {
    double sum = 0;
    int used = 0;
    for (int i = 0; i < n; i++)
        if (bytes[i] >= size && bytes[i] <= size) sum += seconds[i], used++;
    return used > 0 ? sum / used : (double)NAN;
}

/* A link that passes a small amount at once, whatever its rate (a token bucket, buffers
 * on the path), does not give a straight line. Then the time per byte is the slope
 * between the two longest sizes, and the latency is that of the empty message. */
static bool fit_ends(int n, const double *bytes, const double *seconds,
                     wefti_link_fit *fit) {
    double longest = 0, second = 0;
    for (int i = 0; i < n; i++) longest = fmax(longest, bytes[i]);
    for (int i = 0; i < n; i++)
        if (bytes[i] < longest) second = fmax(second, bytes[i]);
    double empty_s = mean_at(n, bytes, seconds, 0);
    double rise_s = mean_at(n, bytes, seconds, longest) -
                    mean_at(n, bytes, seconds, second);
    if (!(empty_s >= 0) || second <= 0 || !(rise_s > 0)) return false;
    double slope = rise_s / (longest - second);
    if (slope * longest <= 0.2 * empty_s) return false;
    *fit = (wefti_link_fit){empty_s, 1 / slope,
                            residual_of(n, bytes, seconds, empty_s, slope, second)};
    return true;
}

/* Weights 1/t^2 make the error relative. A negative latency or time per byte becomes 0
 * and the other one is fitted alone. */
wefti_link_fit wefti_fit_link(int n, const double *bytes, const double *seconds) {
    double w = 0, x = 0, y = 0, xx = 0, xy = 0, most = 0;
    wefti_link_fit ends;
    for (int i = 0; i < n; i++) {
        double weight = 1 / (seconds[i] * seconds[i]);
        w += weight;
        x += weight * bytes[i];
        y += weight * seconds[i];
        xx += weight * bytes[i] * bytes[i];
        xy += weight * bytes[i] * seconds[i];
        if (bytes[i] > most) most = bytes[i];
    }
    double area = w * xx - x * x, slope = area > 0 ? (w * xy - x * y) / area : 0;
    double latency = slope > 0 ? (y - slope * x) / w : y / w;
    if (latency < 0) latency = 0, slope = xy / xx;
    bool seen = slope > 0 && slope * most > 0.2 * latency;
    if (!seen) slope = 0, latency = y / w;
    double line_off = residual_of(n, bytes, seconds, latency, slope, 0);
    wefti_link_fit line = {latency, seen ? 1 / slope : 0, line_off};
    bool bent = line.residual > most_bent && fit_ends(n, bytes, seconds, &ends);
    return bent && ends.residual < line.residual ? ends : line;
}

/* --- jitter --- */

/* Half the distance of the 16 and 84 % quantiles of log(c / m) over all ranks. */
static double spread_of(wefti_samples *s, wefti_sample_half part) {
    double *logs = s->spare;
    int64_t n = 0, begin, end;
    range_of(s, part, &begin, &end);
    for (int r = 0; r < s->ranks; r++) {
        double median = 0;
        int64_t m = take(s, r, part, n) - n;
        median = wefti_quantile(logs + n, m, 0.5);
        m = take(s, r, part, n) - n;
        for (int64_t i = 0; i < m; i++) logs[n + i] = log(logs[n + i] / median);
        n += m;
    }
    double high = wefti_quantile(logs, n, 0.8413447);
    return n < 3 ? 0 : (high - wefti_quantile(logs, n, 0.1586553)) / 2;
}

static void find_stalls(wefti_samples *s, wefti_sample_half part, wefti_variation *v) {
    int64_t begin, end, n = 0, stalls = 0;
    double sum = 0;
    range_of(s, part, &begin, &end);
    for (int r = 0; r < s->ranks; r++) {
        double median = wefti_samples_rank_median(s, r, part);
        for (int64_t i = begin; i < end; i++) {
            double x = s->of[r * s->n + i];
            if (isnan(x)) continue;
            n++;
            if (!(x > 1.2 * median && log(x / median) > 5 * v->spread)) continue;
            stalls++;
            sum += x - median;
        }
    }
    v->stall_share = n > 0 ? (double)stalls / (double)n : 0;
    v->stall_s = stalls > 0 ? sum / (double)stalls : 0;
}

static double drift_of(wefti_samples *s, wefti_sample_half part,
                       const wefti_variation *v) {
    double sum = 0, squares = 0;
    int ranks = 0;
    int64_t begin, end;
    range_of(s, part, &begin, &end);
    for (int r = 0; r < s->ranks; r++) {
        double median = wefti_samples_rank_median(s, r, part);
        if (isnan(median)) continue;
        double x = log(median / v->median_s);
        sum += x;
        squares += x * x;
        ranks++;
    }
    if (ranks < 2 || end == begin) return 0;
    double variance = (squares - sum * sum / ranks) / (ranks - 1);
    variance -= v->spread * v->spread * HALF_PI / (double)(end - begin);
    return variance > 0 ? sqrt(variance) : 0;
}

wefti_variation wefti_variation_of(wefti_samples *s, wefti_sample_half part) {
    wefti_variation v = {.median_s = wefti_samples_quantile(s, part, 0.5)};
    v.spread = spread_of(s, part);
    find_stalls(s, part, &v);
    v.drift = drift_of(s, part, &v);
    return v;
}
