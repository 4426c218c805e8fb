/* SPDX-License-Identifier: MIT */
/* Replicators measured against the rate at which memory is copied. The nodes take turns
 * on one thread (which has helpers), phase by phase:
 *
 *     copy the gradients of all nodes                      timed: the copy
 *     begin of all buckets on node 0; on nodes 1, 2, ...   timed on node 0
 *     combine likewise; end likewise                       timed on node 0
 *
 * Whatever a phase waits for was sent by the phase before, so no node ever waits. The
 * transform alone takes the same steps on node 0, and nothing is sent.
 *
 * Parameters are laid out as in GPT-2 of width 384: the tables, then blocks, each a
 * bucket, until there are n of them. */
#include <stdio.h>
#include <string.h>

#include <weft/bench.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/sized.h"
#include "base/stats.h"
#include "comm/local.h"
#include "compress/spectrum.h"
#include "kernels/isa/team.h"
#include "replicate/gauge.h"
#include "replicate/variants.h"

/* Demo's work on one node's gradient, over all buckets, without coding or
 * sending: what `weft bench replicators` shows as the transform's own cost. Chunks are
 * worked on in batches that stay in cache. */

/* Chunks that stay in cache together. */
typedef struct batch {
    wefti_chunks chunks; /* of the tensor */
    int64_t offset;      /* of the tensor, in all buckets */
    int64_t first, n;    /* chunks */
    int64_t list;        /* where its coefficients lie */
} batch;

struct wefti_transform {
    weft_ctx *ctx; /* borrowed */
    wefti_transform_config config;
    wefti_spectrum *spectrum; /* owned, like what follows */
    batch *batches;
    int64_t *first_of; /* [n_buckets + 1] batch */
    int32_t *indices;
    float *values, *m;
    int64_t n_batches, n_values, n_elements;
};

bool wefti_transform_at(int i, wefti_transform_config *out) {
    static const wefti_transform_config list[] = {{.dims = 1, .c = 64, .k = 4},
                                                  {.dims = 2, .c = 64, .k = 32}};
    int n = sizeof list / sizeof list[0];
    if (i < n) *out = list[i];
    return i < n;
}

char *wefti_transform_name(const wefti_transform_config *config, char *out, size_t size) {
    long long k = config->k, c = config->c;
    if (config->dims == 2)
        snprintf(out, size, "transform %lld/%lldx%lld", k, c, c);
    else
        snprintf(out, size, "transform %lld/%lld", k, c);
    return out;
}

/* Counts the batches of all buckets and, when there is room for them, lists them. */
static void cut(wefti_transform *t, const wefti_bucket *buckets, int n_buckets) {
    const wefti_transform_config *config = &t->config;
    t->n_batches = t->n_values = t->n_elements = 0;
    for (int b = 0; b < n_buckets; b++) {
        if (t->first_of) t->first_of[b] = t->n_batches;
        for (int i = 0; i < buckets[b].n_pieces; i++) {
            const wefti_piece *piece = &buckets[b].pieces[i];
            wefti_chunks s = wefti_chunks_make(config->dims, config->c, config->k,
                                               piece->rows, piece->cols);
            int64_t most = wefti_spectrum_batch(&s);
            for (int64_t at = 0; at < s.n; at += most, t->n_batches++) {
                int64_t n = s.n - at < most ? s.n - at : most;
                if (t->batches)
                    t->batches[t->n_batches] = (batch){s, piece->offset, at, n,
                                                       t->n_values};
                t->n_values += n * s.k;
            }
        }
        t->n_elements += buckets[b].n_elements;
    }
    if (t->first_of) t->first_of[n_buckets] = t->n_batches;
}

static weft_status make(wefti_transform *t, const wefti_bucket *buckets, int n_buckets) {
    const wefti_transform_config *c = &t->config;
    weft_ctx *ctx = t->ctx;
    cut(t, buckets, n_buckets);
    WEFT_TRY(
        wefti_spectrum_create(ctx, c->kernels, c->dims, c->c, c->threads, &t->spectrum));
    WEFT_TRY(wefti_alloc_n(ctx, t->n_batches, sizeof(batch), "batches", &t->batches));
    WEFT_TRY(wefti_alloc_n(ctx, n_buckets + 1, sizeof(int64_t), "buckets", &t->first_of));
    WEFT_TRY(wefti_alloc_n(ctx, t->n_values, sizeof(int32_t), "places", &t->indices));
    WEFT_TRY(wefti_alloc_n(ctx, t->n_values, sizeof(float), "coefficients", &t->values));
    WEFT_TRY(wefti_alloc_n(ctx, t->n_elements, sizeof(float), "the momentum", &t->m));
    cut(t, buckets, n_buckets);
    return WEFT_OK;
}

weft_status wefti_transform_create(weft_ctx *ctx, const wefti_transform_config *config,
                                   const wefti_bucket *buckets, int n_buckets,
                                   wefti_transform **out) {
    *out = NULL;
    wefti_transform *t;
    WEFT_TRY(wefti_alloc(ctx, sizeof *t, "a transform", &t));
    *t = (wefti_transform){.ctx = ctx, .config = *config};
    weft_status status = make(t, buckets, n_buckets);
    if (status == WEFT_OK)
        *out = t;
    else
        wefti_transform_destroy(t);
    return status;
}

void wefti_transform_destroy(wefti_transform *t) {
    if (!t) return;
    wefti_spectrum_destroy(t->ctx, t->spectrum);
    WEFTI_FREE(t->ctx, t->batches, t->first_of, t->indices, t->values, t->m, t);
}

int64_t wefti_transform_values(const wefti_transform *t) { return t->n_values; }

void wefti_transform_begin(wefti_transform *t, int bucket, const float *x) {
    const wefti_momentum momentum = {.decay = 0.999f, .gain = 1};
#pragma omp parallel for num_threads(t->config.threads)                                  \
    schedule(dynamic) if (t->config.threads > 1)
    for (int64_t i = t->first_of[bucket]; i < t->first_of[bucket + 1]; i++) {
        const batch *b = &t->batches[i];
        int thread = team_rank();
        float *m = t->m + b->offset;
        int32_t *indices = t->indices + b->list;
        float *values = t->values + b->list;
        wefti_spectrum_select(t->spectrum, thread, &b->chunks, b->first, b->n, &momentum,
                              x + b->offset, m, indices, values);
        wefti_spectrum_subtract(t->spectrum, thread, &b->chunks, b->first, b->n, 1,
                                indices, values, m);
    }
}

void wefti_transform_end(wefti_transform *t, int bucket, float *x) {
#pragma omp parallel for num_threads(t->config.threads)                                  \
    schedule(dynamic) if (t->config.threads > 1)
    for (int64_t i = t->first_of[bucket]; i < t->first_of[bucket + 1]; i++) {
        const batch *b = &t->batches[i];
        const int32_t *indices = t->indices + b->list;
        const float *values = t->values + b->list;
        wefti_spectrum_combine(t->spectrum, team_rank(), &b->chunks, b->first, b->n, 1,
                               &indices, &values, WEFTI_DIRECTION_SIGN, x + b->offset);
    }
}

enum { COPY, BEGIN, COMBINE, END, REST, STEP, BANDWIDTH, SHARE, FIGURES };
enum { COPY_BLOCK = 16384 };

typedef struct node {
    wefti_comm *comm; /* owned, like all of it */
    wefti_replicator *replicator;
    float *fresh, *grad; /* [n] the gradient, and what becomes of it in a step */
} node;

typedef struct wefti_gauge {
    weft_ctx *ctx;
    const wefti_kernels *kernels;
    const char *only;
    int R, threads, n_buckets;
    int64_t n, n_rounds, n_warmup, n_copies, n_measured; /* n_measured: at most */
    wefti_bucket *buckets;                               /* owned, like what follows */
    wefti_piece *pieces;
    wefti_world *world;
    node *nodes;     /* [R] */
    double *figures; /* [FIGURES][n_rounds] of one replicator */
    double *copies;  /* [n_copies] of all replicators; room for n_measured n_rounds */
} bench;

/* --- the parameters --- */

typedef struct extent {
    int64_t rows, cols;
} extent;

static extent extent_at(int64_t i) {
    static const extent block[] = {{384, 1},    {384, 1},  {384, 1152}, {1152, 1},
                                   {384, 384},  {384, 1},  {384, 1},    {384, 1},
                                   {384, 1536}, {1536, 1}, {1536, 384}, {384, 1}};
    return i < 2 ? (extent){256, 384} : block[(i - 2) % 12];
}

/* The tables' bucket is the first one. */
static int64_t bucket_of(int64_t i) { return i < 2 ? 0 : 1 + (i - 2) / 12; }

/* The i-th tensor, or the rows of it that are left, or the elements that are left. */
static wefti_piece piece_at(int64_t i, int64_t left) {
    extent s = extent_at(i);
    if (s.rows * s.cols > left) s.rows = left / s.cols;
    if (s.rows == 0) s = (extent){left, 1};
    return (wefti_piece){s.rows, s.cols, 0, s.cols > 1, (int)i};
}

static void fill_buckets(bench *b) {
    int64_t left = b->n;
    for (int64_t i = 0; left > 0; i++) {
        wefti_bucket *bucket = &b->buckets[bucket_of(i)];
        wefti_piece *piece = &b->pieces[i];
        *piece = piece_at(i, left);
        piece->offset = bucket->n_elements;
        if (!bucket->pieces) bucket->pieces = piece;
        bucket->n_pieces++;
        bucket->n_elements += piece->rows * piece->cols;
        left -= piece->rows * piece->cols;
    }
}

static weft_status lay_out(bench *b) {
    int64_t n_pieces = 0;
    for (int64_t left = b->n; left > 0; n_pieces++) {
        wefti_piece piece = piece_at(n_pieces, left);
        left -= piece.rows * piece.cols;
    }
    b->n_buckets = (int)bucket_of(n_pieces - 1) + 1;
    WEFT_TRY(wefti_alloc_n(b->ctx, n_pieces, sizeof(wefti_piece), "pieces", &b->pieces));
    WEFT_TRY(wefti_alloc_n(b->ctx, b->n_buckets, sizeof(wefti_bucket), "buckets",
                           &b->buckets));
    fill_buckets(b);
    return WEFT_OK;
}

/* --- the nodes --- */

static void fill_gradient(const bench *b, int rank, float *g) {
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < b->n; i++)
        g[i] = (float)wefti_rng_normal((uint64_t)rank, WEFTI_STREAM_TEST, 0, (uint64_t)i);
}

static weft_status create_nodes(bench *b) {
    wefti_world_shape shape = {
        .replicas = b->R, .shards = 1, .replicas_per_node = 1, .sites = 1};
    WEFT_TRY(wefti_local_create(b->ctx, &shape, &b->world));
    WEFT_TRY(wefti_alloc_n(b->ctx, b->R, sizeof(node), "nodes", &b->nodes));
    for (int r = 0; r < b->R; r++) {
        node *me = &b->nodes[r];
        WEFT_TRY(
            wefti_world_join(b->ctx, b->world, r, WEFTI_GROUP_REPLICA, 0, &me->comm));
        WEFT_TRY(wefti_alloc_n(b->ctx, b->n, sizeof(float), "a gradient", &me->fresh));
        WEFT_TRY(wefti_alloc_n(b->ctx, b->n, sizeof(float), "a direction", &me->grad));
        fill_gradient(b, r, me->fresh);
    }
    return WEFT_OK;
}

static void destroy_replicators(bench *b) {
    for (int r = 0; r < b->R; r++) {
        wefti_replicator_destroy(b->nodes[r].replicator);
        b->nodes[r].replicator = NULL;
    }
}

static void destroy_nodes(bench *b) {
    for (int r = 0; b->nodes && r < b->R; r++) {
        wefti_comm_destroy(b->nodes[r].comm);
        WEFTI_FREE(b->ctx, b->nodes[r].fresh, b->nodes[r].grad);
    }
    wefti_free(b->ctx, b->nodes);
    wefti_world_destroy(b->ctx, b->world);
}

/* --- a step --- */

static void copy(const bench *b, const float *from, float *to) {
    int64_t n = b->n;
#pragma omp parallel for num_threads(b->threads) schedule(static)
    for (int64_t i = 0; i < n; i += COPY_BLOCK) {
        int64_t left = n - i, m = left < COPY_BLOCK ? left : COPY_BLOCK;
        memcpy(to + i, from + i, (size_t)m * sizeof(float));
    }
}

typedef weft_status (*phase)(wefti_replicator *r, int bucket, int64_t step, float *grad);

static weft_status begin(wefti_replicator *r, int bucket, int64_t step, float *grad) {
    return wefti_replicator_begin(r, bucket, step, 1e-3f, grad);
}

/* Does a phase on all nodes; adds the seconds of the first node. */
static weft_status pass(bench *b, phase act, int64_t step, double *seconds) {
    for (int rank = 0; rank < b->R; rank++) {
        node *me = &b->nodes[rank];
        double start_s = wefti_now_s();
        for (int i = 0; i < b->n_buckets; i++)
            WEFT_TRY(
                act(me->replicator, i, step, me->grad + me->replicator->bucket_at[i]));
        if (rank == 0) *seconds += wefti_now_s() - start_s;
    }
    return WEFT_OK;
}

/* Restores the gradients of all nodes; returns the seconds. */
static double renew(const bench *b) {
    double start_s = wefti_now_s();
    for (int rank = 0; rank < b->R; rank++)
        copy(b, b->nodes[rank].fresh, b->nodes[rank].grad);
    return wefti_now_s() - start_s;
}

/* [out] seconds of COPY and of the phases. */
static weft_status take_step(bench *b, int64_t step, double seconds[FIGURES]) {
    seconds[BEGIN] = seconds[COMBINE] = seconds[END] = 0;
    seconds[COPY] = renew(b);
    WEFT_TRY(pass(b, begin, step, &seconds[BEGIN]));
    WEFT_TRY(pass(b, wefti_replicator_combine, step, &seconds[COMBINE]));
    return pass(b, wefti_replicator_end, step, &seconds[END]);
}

/* Turns seconds into figures. */
static void note(bench *b, int64_t round, double bytes, const double seconds[FIGURES]) {
    double n = (double)b->n, rest_s = seconds[COMBINE] + seconds[END];
    double step_s = seconds[BEGIN] + rest_s;
    double copy_Bps = 8.0 * b->R * n / seconds[COPY], Bps = bytes * n / step_s;
    double of[FIGURES] = {[COPY] = copy_Bps,
                          [BEGIN] = seconds[BEGIN] / n * 1e9,
                          [COMBINE] = seconds[COMBINE] / n * 1e9,
                          [END] = seconds[END] / n * 1e9,
                          [REST] = rest_s / n * 1e9,
                          [STEP] = step_s / n * 1e9,
                          [BANDWIDTH] = Bps,
                          [SHARE] = Bps / copy_Bps};
    for (int i = 0; i < FIGURES; i++) b->figures[i * b->n_rounds + round] = of[i];
    b->copies[b->n_copies++] = copy_Bps;
}

/* Sorts the n values. */
static weft_spread spread_of(double *values, int64_t n) {
    double middle = wefti_median(values, n);
    return (weft_spread){middle, values[0], values[n - 1]};
}

/* --- a replicator --- */

static weft_status create_replicators(bench *b, const wefti_replicator_config *config) {
    for (int r = 0; r < b->R; r++)
        WEFT_TRY(wefti_replicator_create(b->ctx, config, b->kernels, b->nodes[r].comm,
                                         b->buckets, b->n_buckets,
                                         &b->nodes[r].replicator));
    return WEFT_OK;
}

static weft_status take_steps(bench *b, double bytes) {
    for (int64_t step = 0; step < b->n_warmup + b->n_rounds; step++) {
        double seconds[FIGURES];
        WEFT_TRY(take_step(b, step, seconds));
        if (step >= b->n_warmup) note(b, step - b->n_warmup, bytes, seconds);
    }
    return WEFT_OK;
}

static void describe(const bench *b, const wefti_replicator_config *config,
                     const wefti_variant_work *work, weft_replicator_speed *out) {
    double n = (double)b->n;
    *out = (weft_replicator_speed){.bytes = work->floor_bytes / n,
                                   .sent = work->values / n,
                                   .wire_bits = work->wire_bits / n,
                                   .bound_bits = work->bound_bits / n};
    wefti_variant_name(config, out->name, sizeof out->name);
    wefti_variant_keys(config, out->keys, sizeof out->keys);
}

static void summarize(const bench *b, weft_replicator_speed *out) {
    weft_spread *const spreads[FIGURES] = {[BEGIN] = &out->begin_ns,
                                           [REST] = &out->rest_ns,
                                           [STEP] = &out->step_ns,
                                           [BANDWIDTH] = &out->bandwidth_Bps,
                                           [SHARE] = &out->share_of_copy};
    for (int i = 0; i < FIGURES; i++)
        if (spreads[i])
            *spreads[i] = spread_of(b->figures + i * b->n_rounds, b->n_rounds);
}

/* Fills b->figures. bytes: what a step has to move, per parameter. */
static weft_status take_measure(bench *b, const wefti_replicator_config *config,
                                double bytes) {
    weft_status status = create_replicators(b, config);
    if (status == WEFT_OK) status = take_steps(b, bytes);
    destroy_replicators(b);
    return status;
}

static weft_status measure(bench *b, wefti_replicator_config *config,
                           weft_replicator_speed *out) {
    wefti_variant_load load = {b->buckets, b->n_buckets, b->R};
    wefti_variant_work work = wefti_variant_work_of(config, &load);
    config->threads = b->threads;
    describe(b, config, &work, out);
    WEFT_TRY(take_measure(b, config, out->bytes));
    summarize(b, out);
    return WEFT_OK;
}

/* --- the transform alone --- */

static void take_transform_step(bench *b, wefti_transform *t, double seconds[FIGURES]) {
    float *x = b->nodes[0].grad;
    seconds[COPY] = renew(b);
    double start_s = wefti_now_s();
    for (int i = 0; i < b->n_buckets; i++) wefti_transform_begin(t, i, x);
    double middle_s = wefti_now_s();
    for (int i = 0; i < b->n_buckets; i++) wefti_transform_end(t, i, x);
    seconds[BEGIN] = middle_s - start_s;
    seconds[COMBINE] = 0;
    seconds[END] = wefti_now_s() - middle_s;
}

static weft_status measure_transform(bench *b, const wefti_transform_config *config,
                                     weft_replicator_speed *out) {
    wefti_transform *t;
    WEFT_TRY(wefti_transform_create(b->ctx, config, b->buckets, b->n_buckets, &t));
    *out = (weft_replicator_speed){
        .bytes = 16, .sent = (double)wefti_transform_values(t) / (double)b->n};
    wefti_transform_name(config, out->name, sizeof out->name);
    for (int64_t step = 0; step < b->n_warmup + b->n_rounds; step++) {
        double seconds[FIGURES];
        take_transform_step(b, t, seconds);
        if (step >= b->n_warmup) note(b, step - b->n_warmup, out->bytes, seconds);
    }
    summarize(b, out);
    wefti_transform_destroy(t);
    return WEFT_OK;
}

static weft_status measure_transforms(bench *b, weft_replicator_speeds *out) {
    wefti_transform_config config;
    char name[64];
    for (int i = 0; wefti_transform_at(i, &config); i++) {
        wefti_transform_name(&config, name, sizeof name);
        config.kernels = b->kernels;
        config.threads = b->threads;
        if (b->only && !strstr(name, b->only)) continue;
        if (out->n_replicators == WEFT_BENCH_REPLICATORS) break;
        WEFT_TRY(measure_transform(b, &config, &out->of[out->n_replicators++]));
    }
    return WEFT_OK;
}

static weft_status measure_all(bench *b, weft_replicator_speeds *out) {
    wefti_replicator_config config;
    char name[64];
    WEFT_TRY(measure_transforms(b, out));
    for (int i = 0; wefti_variant_at(i, &config); i++) {
        wefti_variant_name(&config, name, sizeof name);
        if (b->only && !strstr(name, b->only)) continue;
        if (out->n_replicators == WEFT_BENCH_REPLICATORS) break;
        WEFT_TRY(measure(b, &config, &out->of[out->n_replicators++]));
    }
    if (out->n_replicators == 0)
        return weft_ctx_fail(b->ctx, WEFT_ERR_ARGUMENT,
                             "no replicator that is measured has '%s' in its name",
                             b->only);
    out->copy_Bps = spread_of(b->copies, b->n_copies);
    return WEFT_OK;
}

/* --- all of it --- */

static weft_status check_sizes(weft_ctx *ctx, const weft_bench_replicators_options *o) {
    if (o->threads < 0 || o->nodes < 0 || o->n < 0 || o->steps < 0 || o->warmup < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "threads %d, nodes %d, parameters %lld, steps %lld, warm-up "
                             "%lld: expected no negative number",
                             o->threads, o->nodes, (long long)o->n, (long long)o->steps,
                             (long long)o->warmup);
    if (o->nodes <= WEFT_BENCH_NODES && o->n <= (int64_t)1 << 40 && o->steps <= 1000000 &&
        o->warmup <= 1000000)
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "nodes %d, parameters %lld, steps %lld, warm-up %lld: expected "
                         "at most %d nodes, 2^40 parameters, 1000000 steps",
                         o->nodes, (long long)o->n, (long long)o->steps,
                         (long long)o->warmup, WEFT_BENCH_NODES);
}

static weft_status find_kernels(bench *b, const char *name) {
    bool fastest = !name || strcmp(name, "auto") == 0;
    b->kernels = wefti_kernels_find(fastest ? NULL : name);
    if (b->kernels) return WEFT_OK;
    return weft_ctx_fail(b->ctx, WEFT_ERR_ARGUMENT,
                         "kernels '%s' are unknown or do not run on this processor",
                         name);
}

static weft_status create(bench *b) {
    WEFT_TRY(lay_out(b));
    WEFT_TRY(wefti_alloc_n(b->ctx, FIGURES * b->n_rounds, sizeof(double), "figures",
                           &b->figures));
    WEFT_TRY(wefti_alloc_n(b->ctx, b->n_measured * b->n_rounds, sizeof(double), "figures",
                           &b->copies));
    return create_nodes(b);
}

static void clear(bench *b) {
    destroy_nodes(b);
    WEFTI_FREE(b->ctx, b->buckets, b->pieces, b->figures, b->copies);
}

static weft_status run(bench *b, weft_replicator_speeds *out) {
    int before = wefti_kernels_threads();
    wefti_kernels_set_threads(b->threads);
    b->threads = wefti_kernels_threads();
    *out = (weft_replicator_speeds){.struct_size = sizeof(weft_replicator_speeds),
                                    .kernels = b->kernels->name,
                                    .threads = b->threads,
                                    .nodes = b->R,
                                    .n = b->n};
    weft_status status = create(b);
    if (status == WEFT_OK) status = measure_all(b, out);
    wefti_kernels_set_threads(before);
    clear(b);
    return status;
}

weft_status weft_bench_replicators(weft_ctx *ctx, const weft_bench_replicators_options *o,
                                   weft_replicator_speeds *out) {
    WEFTI_SIZED_IN(ctx, weft_bench_replicators_options, o);
    WEFTI_SIZED_OUT(ctx, weft_replicator_speeds, out);
    WEFT_TRY(check_sizes(ctx, o));
    bench b = {.ctx = ctx,
               .only = o->only,
               .R = o->nodes ? o->nodes : 2,
               .threads = o->threads ? o->threads : wefti_machine_cores(),
               .n = o->n ? o->n : 10844160,
               .n_rounds = o->steps ? o->steps : 10,
               .n_warmup = o->warmup,
               .n_measured = WEFT_BENCH_REPLICATORS};
    WEFT_TRY(find_kernels(&b, o->kernels));
    return WEFTI_SIZED_GIVE(weft_replicator_speeds, out, run(&b, out));
}

/* --- one by one --- */

weft_status wefti_gauge_create(weft_ctx *ctx, const wefti_gauge_config *config,
                               wefti_gauge **out) {
    *out = NULL;
    wefti_gauge *g;
    WEFT_TRY(wefti_alloc(ctx, sizeof *g, "a gauge", &g));
    *g = (wefti_gauge){.ctx = ctx,
                       .kernels = config->kernels,
                       .R = config->R,
                       .threads = config->threads,
                       .n = config->n,
                       .n_rounds = config->n_rounds,
                       .n_warmup = config->n_warmup,
                       .n_measured = 1};
    WEFTI_TRY_OR(create(g), wefti_gauge_destroy(g));
    *out = g;
    return WEFT_OK;
}

void wefti_gauge_destroy(wefti_gauge *g) {
    if (!g) return;
    clear(g);
    wefti_free(g->ctx, g);
}

weft_status wefti_gauge_measure(wefti_gauge *g, const wefti_replicator_config *config,
                                wefti_gauge_seconds *out) {
    wefti_replicator_config own = *config;
    own.threads = g->threads;
    g->n_copies = 0;
    WEFT_TRY(take_measure(g, &own, 0));
    double *const seconds[] = {&out->begin_s, &out->combine_s, &out->end_s};
    for (int i = 0; i < 3; i++) {
        double *figures = g->figures + (BEGIN + i) * g->n_rounds;
        *seconds[i] = spread_of(figures, g->n_rounds).median * 1e-9;
    }
    return WEFT_OK;
}
