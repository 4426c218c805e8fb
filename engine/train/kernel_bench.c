/* SPDX-License-Identifier: MIT */
/* The kernels of one rank's step, measured where they are called. The step is that of a
 * rank without others:
 *
 *     units forward -> units backward -> norm of the gradient -> AdamW
 *
 * on generated rows, with a recorder (tensor/recorder.h) in place of the kernels. The
 * time that the step takes beyond its kernels goes into the records.
 *
 *     limit of a kernel   max(flop / peak, bytes / stream) seconds, the roofline
 *     share of the limit  the limit over the kernel's time */
#include <weft/bench.h>

#include <stdlib.h>
#include <string.h>

#include "adapter/adapted.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/stats.h"
#include "job/job.h"
#include "kernels/rate.h"
#include "tensor/recorder.h"
#include "model/model.h"

enum { MADE_VOCAB = 256, STREAM_FLOATS = 1 << 24 };

/* Memory of the step; all owned. */
typedef struct memory {
    float *params, *grads, *m, *v; /* of the whole model, unit by unit */
    float **outputs, **saved;      /* of each unit */
    float *dy, *scratch;
    int32_t *tokens, *targets;
} memory;

typedef struct bench {
    weft_ctx *ctx;
    const weft_config *config;
    wefti_job *job; /* owned */
    memory at;
    wefti_recorder *recorder; /* owned */
    int64_t n_steps, n_warmup;
    double *step_s;   /* owned, [n_steps] */
    double *kernel_s; /* owned, [WEFTI_RECORDS][n_steps]: of all calls of a step */
} bench;

static weft_status floats(bench *b, int64_t n, float **out) {
    return wefti_alloc_n(b->ctx, n, sizeof(float), "a benchmark of kernels", out);
}

static weft_status allocate_model(bench *b) {
    int64_t n = b->job->model->n_elements;
    WEFT_TRY(floats(b, n, &b->at.params));
    WEFT_TRY(floats(b, n, &b->at.grads));
    WEFT_TRY(floats(b, n, &b->at.m));
    return floats(b, n, &b->at.v);
}

static weft_status allocate_pass(bench *b) {
    const wefti_job *job = b->job;
    const weft_model *model = job->model;
    wefti_sizes sizes = wefti_job_sizes(job, job->B);
    int n = model->n_units;
    WEFT_TRY(wefti_alloc_n(b->ctx, n, sizeof(float *), "activations", &b->at.outputs));
    WEFT_TRY(wefti_alloc_n(b->ctx, n, sizeof(float *), "activations", &b->at.saved));
    for (int u = 0; u < n; u++) {
        WEFT_TRY(floats(b, sizes.output, &b->at.outputs[u]));
        WEFT_TRY(floats(b, wefti_job_saved_floats(job, u, job->B), &b->at.saved[u]));
    }
    WEFT_TRY(floats(b, sizes.output, &b->at.dy));
    WEFT_TRY(floats(b, sizes.scratch, &b->at.scratch));
    int64_t n_tokens = job->B * wefti_model_row_tokens(model, job->T);
    int64_t n_targets = job->B * wefti_model_row_targets(model, job->T);
    WEFT_TRY(wefti_alloc_n(b->ctx, n_tokens, 4, "made tokens", &b->at.tokens));
    return wefti_alloc_n(b->ctx, n_targets, 4, "made targets", &b->at.targets);
}

static weft_status allocate_figures(bench *b) {
    WEFT_TRY(wefti_alloc_n(b->ctx, 1, sizeof *b->recorder, "records", &b->recorder));
    WEFT_TRY(wefti_alloc_n(b->ctx, b->n_steps, sizeof(double), "figures", &b->step_s));
    return wefti_alloc_n(b->ctx, b->n_steps * WEFTI_RECORDS, sizeof(double), "figures",
                         &b->kernel_s);
}

static void release(bench *b) {
    memory *at = &b->at;
    for (int u = 0; b->job && u < b->job->model->n_units; u++) {
        if (at->outputs) wefti_free(b->ctx, at->outputs[u]);
        if (at->saved) wefti_free(b->ctx, at->saved[u]);
    }
    void *blocks[] = {at->params,  at->grads, at->m,       at->v,      at->outputs,
                      at->saved,   at->dy,    at->scratch, at->tokens, at->targets,
                      b->recorder, b->step_s, b->kernel_s};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        wefti_free(b->ctx, blocks[i]);
    wefti_job_destroy(b->ctx, b->job);
}

/* Fills in initial parameters, and rows that all differ. */
static void fill(bench *b) {
    const weft_model *model = b->job->model;
    int64_t start = 0, vocab = model->config.vocab;
    for (int u = 0; u < model->n_units; start += model->units[u++].n_elements)
        for (int i = 0; i < model->units[u].n_params; i++) {
            const wefti_param *p = &model->units[u].params[i];
            wefti_model_init_rows(model, 1, u, i, 0, p->rows,
                                  b->at.params + start + p->offset);
        }
    int64_t ids = model->ops->input == WEFTI_INPUT_IMAGES ? 256 : vocab;
    int64_t n_tokens = b->job->B * wefti_model_row_tokens(model, b->job->T);
    int64_t n_targets = b->job->B * wefti_model_row_targets(model, b->job->T);
    for (int64_t i = 0; i < n_tokens; i++)
        b->at.tokens[i] = (int32_t)(i * 7919 % 1000003 % ids);
    for (int64_t i = 0; i < n_targets; i++)
        b->at.targets[i] = (int32_t)(i * 6007 % 1000003 % vocab);
}

static int64_t start_of(const weft_model *model, int unit) {
    int64_t start = 0;
    for (int u = 0; u < unit; u++) start += model->units[u].n_elements;
    return start;
}

static wefti_pass pass_of(const bench *b, int u, double *loss) {
    const weft_model *model = b->job->model;
    int last = model->n_units - 1, borrowed = model->units[u].borrows;
    wefti_pass pass = {.kernels = &b->recorder->table,
                       .B = b->job->B,
                       .T = b->job->T,
                       .training = true,
                       .seed = 1,
                       .params = b->at.params + start_of(model, u),
                       .grads = b->at.grads + start_of(model, u),
                       .tokens = b->at.tokens,
                       .targets = b->at.targets,
                       .x = u > 0 ? b->at.outputs[u - 1] : NULL,
                       .y = u < last ? b->at.outputs[u] : NULL,
                       .dy = b->at.dy,
                       .saved = b->at.saved[u],
                       .scratch = b->at.scratch,
                       .grad_scale = 1.0f / (float)(b->job->B * b->job->T),
                       .loss_sum = loss,
                       .fresh = true};
    if (borrowed >= 0) {
        pass.borrowed = b->at.params + start_of(model, borrowed);
        pass.borrowed_grads = b->at.grads + start_of(model, borrowed);
    }
    return pass;
}

static void step(bench *b, int64_t number) {
    const weft_model *model = b->job->model;
    const wefti_kernels *k = &b->recorder->table;
    int64_t n = model->n_elements;
    double loss = 0, t = (double)number;
    for (int u = 0; u < model->n_units; u++)
        wefti_unit_clear(&model->units[u], k, b->at.grads + start_of(model, u));
    for (int u = 0; u < model->n_units; u++) {
        wefti_pass pass = pass_of(b, u, &loss);
        model->ops->forward(model, u, &pass);
    }
    for (int u = model->n_units - 1; u >= 0; u--) {
        wefti_pass pass = pass_of(b, u, &loss);
        model->ops->backward(model, u, &pass);
    }
    double square = k->sum_squares(n, b->at.grads);
    wefti_adam_step adam = {.lr = 1e-5f,
                            .beta1 = 0.9f,
                            .beta2 = 0.95f,
                            .eps = 1e-8f,
                            .decoupled_decay = 0.1f,
                            .correction1 = (float)(0.1 + 0.9 * (1 - 1 / t)),
                            .correction2 = (float)(0.05 + 0.95 * (1 - 1 / t)),
                            .grad_scale = square > 1 ? 0.5f : 1};
    k->adam(n, &adam, b->at.grads, b->at.params, b->at.m, b->at.v);
}

/* The records are running sums; a step's part is what the step has added. */
static void measure(bench *b) {
    double before[WEFTI_RECORDS] = {0};
    wefti_recorder_begin(b->recorder, b->job->pass_kernels);
    for (int64_t s = -b->n_warmup; s < b->n_steps; s++) {
        double begin = wefti_now_s();
        step(b, s + b->n_warmup + 1);
        double took = wefti_now_s() - begin;
        if (s >= 0) b->step_s[s] = took;
        for (int i = 0; i < b->recorder->n; i++) {
            double seconds = b->recorder->of[i].seconds;
            if (s >= 0) b->kernel_s[i * b->n_steps + s] = seconds - before[i];
            before[i] = seconds;
        }
    }
    wefti_recorder_end();
}

/* ---- figures ---- */

static weft_spread spread_of(double *x, int64_t n, double scale) {
    double median = wefti_median(x, n), least = x[0], most = x[0];
    for (int64_t i = 1; i < n; i++) {
        if (x[i] < least) least = x[i];
        if (x[i] > most) most = x[i];
    }
    return (weft_spread){median * scale, least * scale, most * scale};
}

/* Bytes per second: the best of five scalings of a block of memory that no cache
 * holds. */
static weft_status stream(bench *b, double *rate) {
    float *x = NULL;
    WEFT_TRY(floats(b, STREAM_FLOATS, &x));
    *rate = 0;
    for (int i = 0; i < 6; i++) { /* in the first one the pages are not mapped yet */
        double begin = wefti_now_s();
        b->job->kernels->scale(STREAM_FLOATS, 1.0f, x);
        double now = 8.0 * STREAM_FLOATS / (wefti_now_s() - begin);
        if (i > 0 && now > *rate) *rate = now;
    }
    wefti_free(b->ctx, x);
    return WEFT_OK;
}

static int most_first(const void *a, const void *b) {
    const weft_kernel_speed *x = a, *y = b;
    if (x->share_of_step != y->share_of_step)
        return x->share_of_step < y->share_of_step ? 1 : -1;
    return strcmp(x->name, y->name);
}

static bool is_product(const wefti_record *r) {
    return strcmp(r->kernel, "gemm") == 0 || strcmp(r->kernel, "head_loss") == 0;
}

static void summarize_kernel(bench *b, int i, weft_kernel_speeds *out) {
    const wefti_record *r = &b->recorder->of[i];
    weft_kernel_speed *k = &out->of[out->n_kernels++];
    double calls = (double)r->calls, steps = (double)(b->n_steps + b->n_warmup);
    *k = (weft_kernel_speed){.calls = (int64_t)(calls / steps + 0.5),
                             .flop = r->flop / calls,
                             .bytes = r->bytes / calls};
    strcpy(k->name, r->kernel);
    if (r->shape[0]) strcat(strcat(k->name, " "), r->shape);
    k->call_s = spread_of(b->kernel_s + i * b->n_steps, b->n_steps, steps / calls);
    double by_flop = k->flop / out->peak_flops, by_bytes = k->bytes / out->stream_Bps;
    double limit = by_flop > by_bytes ? by_flop : by_bytes;
    k->share_of_step = k->call_s.median * (double)k->calls / out->step_s.median;
    k->share_of_limit = k->call_s.median > 0 ? limit / k->call_s.median : 0;
    out->kernels_share += k->share_of_step;
    if (is_product(r)) out->products_share += k->share_of_step;
}

static weft_status summarize(bench *b, weft_kernel_speeds *out) {
    const weft_model *model = b->job->model;
    *out = (weft_kernel_speeds){
        .struct_size = sizeof(weft_kernel_speeds),
        .kernels = b->job->pass_kernels->name,
        .precision = b->job->pass_kernels == b->job->kernels ? "f32" : "bf16",
        .threads = wefti_kernels_threads(),
        .parameters = model->n_elements,
        .sequences = b->job->B,
        .positions = b->job->T,
        .peak_flops = wefti_peak_flops(b->job->pass_kernels, 0.05)};
    strncpy(out->model, model->ops->name, sizeof out->model - 1);
    WEFT_TRY(stream(b, &out->stream_Bps));
    out->step_s = spread_of(b->step_s, b->n_steps, 1);
    for (int i = 0; i < b->recorder->n; i++) summarize_kernel(b, i, out);
    qsort(out->of, (size_t)out->n_kernels, sizeof *out->of, most_first);
    return WEFT_OK;
}

static weft_status prepare(bench *b) {
    int64_t vocab = b->config->model.vocab;
    WEFT_TRY(
        wefti_job_create(b->ctx, b->config, NULL, vocab ? vocab : MADE_VOCAB, &b->job));
    WEFT_TRY(allocate_figures(b));
    WEFT_TRY(allocate_model(b));
    WEFT_TRY(allocate_pass(b));
    fill(b);
    return WEFT_OK;
}

weft_status weft_bench_kernels(weft_ctx *ctx, const weft_config *config,
                               const weft_bench_kernels_options *o,
                               weft_kernel_speeds *out) {
    WEFTI_SIZED_IN(ctx, weft_bench_kernels_options, o);
    WEFTI_SIZED_OUT(ctx, weft_kernel_speeds, out);
    if (o->steps < 0 || o->warmup < 0 || o->steps > 1000000 || o->warmup > 1000000)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%lld steps and %lld before them: expected 0 to 1000000",
                             (long long)o->steps, (long long)o->warmup);
    bench b = {.ctx = ctx,
               .config = config,
               .n_steps = o->steps ? o->steps : 10,
               .n_warmup = o->warmup};
    int before = wefti_kernels_threads();
    weft_status status = prepare(&b);
    if (status == WEFT_OK) {
        wefti_kernels_set_threads(b.job->run.threads);
        measure(&b);
        status = summarize(&b, out);
        wefti_kernels_set_threads(before);
    }
    release(&b);
    return WEFTI_SIZED_GIVE(weft_kernel_speeds, out, status);
}
