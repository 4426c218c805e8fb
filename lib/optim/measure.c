/* SPDX-License-Identifier: MIT */
/* Measures optimizers relative to the rate of the memory. A round consists of two streams,
 * then `accumulate` steps (a whole period) of every optimizer, all on the same arrays. */
#include <weft/bench.h>

#include <string.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/stats.h"
#include "optim/matrices.h"
#include "optim/optimizer.h"

enum { STREAMS = 2, ROWS = STREAMS + WEFT_BENCH_OPTIMIZERS, ARRAYS = 5 };

typedef struct bench {
    weft_ctx *ctx;
    const wefti_kernels *kernels;
    wefti_optimizer_config config;
    int64_t n, n_rounds, n_warmup;
    float *x[ARRAYS]; /* direction, parameters, states; owned */
    double *rate;     /* [ROWS][n_rounds] bytes per second, streams first; owned */
} bench;

static double scale_rate(const bench *b) {
    double begin = wefti_now_s();
    for (int i = 0; i < ARRAYS; i++) b->kernels->scale(b->n, 1.0f, b->x[i]);
    return 8.0 * ARRAYS * (double)b->n / (wefti_now_s() - begin);
}

/* The last array is the mean gradient, which the optimizers do not read at the beginning
 * of a period. So only that array may be changed here. */
static double update_rate(const bench *b) {
    double begin = wefti_now_s();
    for (int i = 0; i < ARRAYS - 1; i++)
        b->kernels->accumulate(b->n, b->x[i], b->x[ARRAYS - 1]);
    return 12.0 * (ARRAYS - 1) * (double)b->n / (wefti_now_s() - begin);
}

static double optimizer_rate(const bench *b, const wefti_optimizer_ops *ops,
                             int64_t round) {
    int64_t K = b->config.accumulate;
    wefti_span all = {0, b->n, true};
    double moved = 0, begin = wefti_now_s();
    for (int64_t i = 0; i < K; i++) {
        wefti_optimizer_step step = {round * K + i + 1, 1e-4f, 1};
        ops->apply(&b->config, b->kernels, &step, &all, b->x[0], b->x[1], &b->x[2],
                   &moved);
    }
    double bytes = ops->traffic(&b->config) * (double)(K * b->n);
    return bytes / (wefti_now_s() - begin);
}

static void measure(bench *b, int n_optimizers) {
    for (int64_t round = -b->n_warmup; round < b->n_rounds; round++) {
        double rate[ROWS] = {scale_rate(b), update_rate(b)};
        for (int i = 0; i < n_optimizers; i++)
            rate[STREAMS + i] = optimizer_rate(b, wefti_optimizer_registry[i],
                                               round + b->n_warmup);
        for (int i = 0; i < ROWS && round >= 0; i++)
            b->rate[i * b->n_rounds + round] = rate[i];
    }
}

/* Computes the medians of each optimizer, and its share of the faster stream of the round. */
static void summarize(bench *b, weft_optimizer_speeds *out) {
    int64_t n = b->n_rounds;
    double *scale = b->rate, *update = b->rate + n, *spare = b->rate + (ROWS - 1) * n;
    for (int i = 0; i < out->n_optimizers; i++) {
        const wefti_optimizer_ops *ops = wefti_optimizer_registry[i];
        double *rate = b->rate + (STREAMS + i) * n;
        for (int64_t r = 0; r < n; r++)
            spare[r] = rate[r] / (scale[r] > update[r] ? scale[r] : update[r]);
        double share = wefti_median(spare, n);
        out->of[i] = (weft_optimizer_speed){ops->name, ops->traffic(&b->config),
                                            wefti_median(rate, n), share};
    }
    for (int64_t r = 0; r < n; r++)
        spare[r] = scale[r] > update[r] ? scale[r] : update[r];
    out->stream_Bps = wefti_median(spare, n);
    out->scale_Bps = wefti_median(scale, n);
    out->update_Bps = wefti_median(update, n);
}

static weft_status allocate(bench *b) {
    WEFT_TRY(
        wefti_alloc_n(b->ctx, ROWS * b->n_rounds, sizeof(double), "figures", &b->rate));
    for (int i = 0; i < ARRAYS; i++)
        WEFT_TRY(wefti_alloc_n(b->ctx, b->n, sizeof(float), "parameters", &b->x[i]));
    for (int64_t i = 0; i < b->n; i++) {
        b->x[0][i] = (float)(i % 251) / 251.0f - 0.4f;
        b->x[1][i] = 1;
    }
    return WEFT_OK;
}

static weft_status check(weft_ctx *ctx, const weft_bench_optimizers_options *o) {
    if (o->threads < 0 || o->n < 0 || o->accumulate < 0 || o->steps < 0 || o->warmup < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "threads %d, parameters %lld, accumulate %lld, steps %lld, "
                             "warm-up %lld: expected no negative number",
                             o->threads, (long long)o->n, (long long)o->accumulate,
                             (long long)o->steps, (long long)o->warmup);
    if (o->width < 0 || o->width > 65536)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "width %lld: expected 0 to 65536",
                             (long long)o->width);
    if (o->n > INT64_MAX / 64 || o->steps > 1000000 || o->accumulate > 1000000)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%lld parameters, %lld steps, accumulate %lld: expected at "
                             "most 1000000 steps and accumulate, and fewer parameters",
                             (long long)o->n, (long long)o->steps,
                             (long long)o->accumulate);
    return WEFT_OK;
}

/* Whether an optimizer updates each element separately. The others are last in the registry. */
static bool is_measured(int i) {
    return wefti_optimizer_registry[i] && !wefti_optimizer_registry[i]->matrix;
}

static void release(bench *b) {
    for (int i = 0; i < ARRAYS; i++) wefti_free(b->ctx, b->x[i]);
    wefti_free(b->ctx, b->rate);
    *b = (bench){.ctx = b->ctx, .kernels = b->kernels};
}

static weft_status run(bench *b, const weft_bench_optimizers_options *o,
                       weft_optimizer_speeds *out) {
    weft_status status = WEFT_OK;
    int before = wefti_kernels_threads();
    wefti_kernels_set_threads(o->threads ? o->threads : wefti_machine_cores());
    *out = (weft_optimizer_speeds){.struct_size = sizeof(weft_optimizer_speeds),
                                   .kernels = b->kernels->name,
                                   .threads = wefti_kernels_threads(),
                                   .n = b->n,
                                   .accumulate = b->config.accumulate};
    while (out->n_optimizers < WEFT_BENCH_OPTIMIZERS - 1 &&
           is_measured(out->n_optimizers))
        out->n_optimizers++;
    measure(b, out->n_optimizers);
    summarize(b, out);
    release(b);
    if (o->width)
        status = wefti_measure_matrices(b->ctx, b->kernels, o, out->stream_Bps,
                                        &out->matrices);
    wefti_kernels_set_threads(before);
    return status;
}

weft_status weft_bench_optimizers(weft_ctx *ctx, const weft_bench_optimizers_options *o,
                                  weft_optimizer_speeds *out) {
    WEFTI_SIZED_IN(ctx, weft_bench_optimizers_options, o);
    WEFTI_SIZED_OUT(ctx, weft_optimizer_speeds, out);
    WEFT_TRY(check(ctx, o));
    bool fastest = !o->kernels || strcmp(o->kernels, "auto") == 0;
    bench b = {.ctx = ctx,
               .kernels = wefti_kernels_find(fastest ? NULL : o->kernels),
               .config = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1},
               .n = o->n ? o->n : 16777216,
               .n_rounds = o->steps ? o->steps : 10,
               .n_warmup = o->warmup};
    b.config.accumulate = o->accumulate ? o->accumulate : 4;
    if (!b.kernels)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "kernels '%s' are unknown or do not run on this processor",
                             o->kernels);
    weft_status status = allocate(&b);
    if (status == WEFT_OK) status = run(&b, o, out);
    release(&b);
    return WEFTI_SIZED_GIVE(weft_optimizer_speeds, out, status);
}
