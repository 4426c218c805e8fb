/* SPDX-License-Identifier: MIT */
/* Measures the step of an optimizer of whole matrices on those of one gpt2 layer of width C,
 * against its floor:
 *
 *     floor = 20 bytes per parameter at the memory's rate     d, p and m read; p and m written
 *           + products' FLOP at the processor's highest rate
 *
 * A step cannot take less on this machine, whatever the products are made of. */
#include "optim/matrices.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/stats.h"
#include "kernels/rate.h"

enum { MATRICES = 4, ARRAYS = 3, BYTES = 20 };

typedef struct layer {
    weft_ctx *ctx;
    const wefti_kernels *kernels;
    wefti_optimizer_rule rule;
    const wefti_optimizer_rule *rules[MATRICES];
    wefti_matrix matrices[MATRICES];
    wefti_matrix_list list;
    wefti_matrices *work; /* owned, like the next two */
    float *x[ARRAYS];     /* direction, parameters, momentum */
    double *seconds;
    int64_t n;
} layer;

/* Queries, keys and values; their product; both of the feed-forward. */
static void lay_out(layer *l, int64_t C) {
    const wefti_matrix shapes[MATRICES] = {{.rows = C, .cols = 3 * C, .parts = 3},
                                           {.rows = C, .cols = C, .parts = 1},
                                           {.rows = C, .cols = 4 * C, .parts = 1},
                                           {.rows = 4 * C, .cols = C, .parts = 1}};
    for (int i = 0; i < MATRICES; i++) {
        l->matrices[i] = shapes[i];
        l->matrices[i].n_rows = shapes[i].rows;
        l->matrices[i].offset = l->n;
        l->matrices[i].cols_are_outputs = true;
        l->rules[i] = &l->rule;
        l->n += shapes[i].rows * shapes[i].cols;
    }
    l->list = (wefti_matrix_list){MATRICES, l->matrices, l->rules};
}

static weft_status allocate(layer *l, int64_t rounds) {
    WEFT_TRY(wefti_alloc_n(l->ctx, rounds, sizeof(double), "figures", &l->seconds));
    for (int i = 0; i < ARRAYS; i++)
        WEFT_TRY(wefti_alloc_n(l->ctx, l->n, sizeof(float), "parameters", &l->x[i]));
    for (int64_t i = 0; i < l->n; i++) {
        l->x[0][i] = (float)(i % 251) / 251.0f - 0.4f;
        l->x[1][i] = 1;
    }
    return wefti_matrices_create(l->ctx, l->kernels, NULL, &l->list, 1, &l->work);
}

static weft_status measure(layer *l, int64_t rounds, int64_t warmup) {
    for (int64_t r = -warmup; r < rounds; r++) {
        wefti_matrices_step step = {.number = r + warmup,
                                    .step = {r + warmup + 1, 1e-4f, 1},
                                    .d = l->x[0],
                                    .p = l->x[1],
                                    .state = l->x[2]};
        double moved = 0, begin = wefti_now_s();
        WEFT_TRY(wefti_matrices_apply(l->work, 0, &step, &moved));
        if (r >= 0) l->seconds[r] = wefti_now_s() - begin;
    }
    return WEFT_OK;
}

static const wefti_optimizer_ops *first_of_matrices(void) {
    int i = 0;
    while (!wefti_optimizer_registry[i]->matrix) i++;
    return wefti_optimizer_registry[i];
}

weft_status wefti_measure_matrices(weft_ctx *ctx, const wefti_kernels *kernels,
                                   const weft_bench_optimizers_options *o,
                                   double stream_Bps, weft_matrix_speed *out) {
    int64_t rounds = o->steps ? o->steps : 10;
    layer l = {.ctx = ctx,
               .kernels = kernels,
               .rule = {first_of_matrices(),
                        {.momentum = 0.95, .nesterov = true, .rows = 1, .whole_every = 1},
                        1}};
    lay_out(&l, o->width);
    weft_status status = allocate(&l, rounds);
    if (status == WEFT_OK) status = measure(&l, rounds, o->warmup);
    if (status == WEFT_OK) {
        double flop = wefti_matrices_flop(&l.list, 1, 0);
        double peak = wefti_peak_flops(kernels, 0.05);
        double step_s = wefti_median(l.seconds, rounds);
        double floor_s = BYTES * (double)l.n / stream_Bps + flop / peak;
        *out = (weft_matrix_speed){.name = l.rule.ops->name,
                                   .width = o->width,
                                   .n = l.n,
                                   .flop = flop,
                                   .step_s = step_s,
                                   .peak_flops = peak,
                                   .share_of_floor = floor_s / step_s};
    }
    wefti_matrices_destroy(l.work);
    for (int i = 0; i < ARRAYS; i++) wefti_free(ctx, l.x[i]);
    wefti_free(ctx, l.seconds);
    return status;
}
