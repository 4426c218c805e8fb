/* SPDX-License-Identifier: MIT */
/* Agreed rows of a momentum (FlexDeMo arXiv 2502.06728; docs/methods.md section 3):
 *
 *     m <- beta m + lr g                     or beta m + (1 - beta) g
 *     q <- m[rows of this turn]
 *     m[rows] <- m[rows] - alpha code(q)
 *     d[rows] <- mean of code(q) over all R ranks, or its sign; 0 elsewhere
 *
 * The rows of all pieces of a bucket, one after another, are one vector for the
 * all-reduce (collectives/all_reduce.h). Their number may differ from turn to turn, but
 * not the vector's length: the rest at its end is 0. What coding the mean loses, its
 * owner puts back into m: m[rows] <- m[rows] + alpha R (mean - code(mean)); so nothing is
 * lost. */
#include "replicate/select.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "collectives/all_reduce.h"
#include "wire/values.h"

/* The rows that a piece's last turn chose, as elements of the piece. */
typedef struct chosen {
    wefti_cover_range *runs; /* borrowed from selector.runs */
    int64_t n_runs;
} chosen;

typedef struct part {
    float *vector; /* [length] */
    int64_t length;
    chosen *pieces; /* [n_pieces] borrowed from selector.chosen */
} part;

typedef struct selector {
    const wefti_chooser *chooser;
    wefti_all_reduce *allreduce;
    part *parts;    /* [n_buckets] */
    chosen *chosen; /* of all buckets' pieces */
    wefti_cover_range *runs;
    uint64_t *scratch; /* a bit per row of the largest piece */
} selector;

int64_t wefti_whole_within(double x, int64_t low, int64_t high) {
    double whole = floor(x + 0.5);
    if (whole < (double)low) return low;
    return whole > (double)high ? high : (int64_t)whole;
}

int64_t wefti_runs_most(const wefti_chooser *chooser, double rate, int64_t rows) {
    int64_t most = chooser->most(rate, rows), apart = (rows + 1) / 2;
    return most < apart ? most : apart;
}

static wefti_coding coding_of(const wefti_replicator_config *config) {
    return (wefti_coding){.values = config->values,
                          .sign = config->sign,
                          .stochastic = config->stochastic,
                          .seed = config->seed,
                          .threads = config->threads,
                          .robust = config->robust};
}

static const wefti_chooser *chooser_of(const wefti_replicator_config *config) {
    return wefti_replicator_find(config->kind)->chooser;
}

/* Elements that a bucket's vector has room for. */
static int64_t vector_length(const wefti_replicator_config *config,
                             const wefti_bucket *bucket) {
    const wefti_chooser *chooser = chooser_of(config);
    int64_t n = 0;
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *piece = &bucket->pieces[i];
        n += chooser->most(config->compression_rate, piece->rows) * piece->cols;
    }
    return n;
}

int64_t wefti_select_round_bytes(const wefti_replicator_config *config,
                                 const wefti_bucket *bucket, int R, int round,
                                 int owner) {
    wefti_coding coding = coding_of(config);
    int64_t n = vector_length(config, bucket);
    return wefti_all_reduce_round_bytes(&coding, n, R, round, owner);
}

/* Numbers of the things to allocate. */
typedef struct sizes {
    int64_t n_pieces, n_runs, most_rows;
} sizes;

static sizes count_sizes(const wefti_replicator_config *config,
                         const wefti_bucket *buckets, int n_buckets) {
    const wefti_chooser *chooser = chooser_of(config);
    sizes s = {0, 0, 0};
    for (int b = 0; b < n_buckets; b++) {
        for (int i = 0; i < buckets[b].n_pieces; i++) {
            int64_t rows = buckets[b].pieces[i].rows;
            s.n_pieces++;
            s.n_runs += wefti_runs_most(chooser, config->compression_rate, rows);
            if (rows > s.most_rows) s.most_rows = rows;
        }
    }
    return s;
}

static int64_t scratch_words(const sizes *s) { return (s->most_rows + 63) / 64; }

int64_t wefti_select_work_bytes(const wefti_replicator_config *config,
                                const wefti_bucket *buckets, int n_buckets, int R) {
    wefti_coding coding = coding_of(config);
    sizes s = count_sizes(config, buckets, n_buckets);
    int64_t n_bytes = wefti_alloc_n_cost(s.n_pieces, sizeof(chosen)) +
                      wefti_alloc_n_cost(s.n_runs, sizeof(wefti_cover_range)) +
                      wefti_alloc_n_cost(scratch_words(&s), sizeof(uint64_t)) +
                      wefti_all_reduce_room_bytes(&coding, R);
    for (int b = 0; b < n_buckets; b++) {
        int64_t n = vector_length(config, &buckets[b]);
        n_bytes += wefti_alloc_n_cost(n, sizeof(float)) +
                   wefti_all_reduce_work_bytes(&coding, n, R);
    }
    return n_bytes;
}

static weft_status check_knobs(weft_ctx *ctx, const wefti_replicator_config *config) {
    if (!(config->compression_rate > 0 && config->compression_rate <= 1))
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "replicator.compression_rate is %g with %s, expected above 0 and at most 1",
            config->compression_rate, config->kind);
    return wefti_replicator_check_alpha(ctx, config);
}

static weft_status create_allreduce(wefti_replicator *r, selector *self) {
    wefti_all_reduce_setup setup = {.ctx = r->ctx,
                                    .kernels = r->kernels,
                                    .comm = r->comm,
                                    .coding = coding_of(&r->config),
                                    .n_vectors = r->n_buckets};
    return wefti_all_reduce_create(&setup, &self->allreduce);
}

/* Gives each piece the place of its runs. */
static void share_out_runs(wefti_replicator *r, selector *self) {
    wefti_cover_range *runs = self->runs;
    chosen *next = self->chosen;
    for (int b = 0; b < r->n_buckets; b++) {
        self->parts[b].pieces = next;
        for (int i = 0; i < r->buckets[b].n_pieces; i++) {
            (next++)->runs = runs;
            runs += wefti_runs_most(self->chooser, r->config.compression_rate,
                                    r->buckets[b].pieces[i].rows);
        }
    }
}

weft_status wefti_select_create(wefti_replicator *r) {
    WEFT_TRY(check_knobs(r->ctx, &r->config));
    selector *self;
    WEFT_TRY(wefti_alloc(r->ctx, sizeof *self, "a replicator", &self));
    r->self = self;
    self->chooser = chooser_of(&r->config);
    sizes s = count_sizes(&r->config, r->buckets, r->n_buckets);
    WEFT_TRY(wefti_alloc_n(r->ctx, s.n_pieces, sizeof(chosen), "runs", &self->chosen));
    WEFT_TRY(
        wefti_alloc_n(r->ctx, s.n_runs, sizeof(wefti_cover_range), "runs", &self->runs));
    WEFT_TRY(wefti_alloc_n(r->ctx, scratch_words(&s), sizeof(uint64_t), "a bit per row",
                           &self->scratch));
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_buckets, sizeof(part), "runs", &self->parts));
    share_out_runs(r, self);
    WEFT_TRY(create_allreduce(r, self));
    for (int b = 0; b < r->n_buckets; b++) {
        part *p = &self->parts[b];
        p->length = vector_length(&r->config, &r->buckets[b]);
        WEFT_TRY(wefti_alloc_n(r->ctx, p->length, sizeof(float), "the rows to send",
                               &p->vector));
        WEFT_TRY(wefti_all_reduce_open(self->allreduce, b, p->length));
    }
    return WEFT_OK;
}

void wefti_select_destroy(wefti_replicator *r) {
    selector *self = r->self;
    if (!self) return;
    for (int b = 0; self->parts && b < r->n_buckets; b++)
        wefti_free(r->ctx, self->parts[b].vector);
    wefti_all_reduce_destroy(self->allreduce);
    WEFTI_FREE(r->ctx, self->parts, self->chosen, self->runs, self->scratch, self);
}

static wefti_selection selection_of(const wefti_replicator_config *config,
                                    const wefti_piece *piece, int64_t step) {
    return (wefti_selection){.rate = config->compression_rate,
                             .rows = piece->rows,
                             .turn = step / config->every,
                             .tensor = piece->tensor,
                             .seed = config->seed};
}

/* Chooses the runs of each piece of the bucket, and turns rows into elements. */
static void choose(const wefti_replicator *r, int bucket, int64_t step) {
    selector *self = r->self;
    for (int i = 0; i < r->buckets[bucket].n_pieces; i++) {
        const wefti_piece *piece = &r->buckets[bucket].pieces[i];
        chosen *c = &self->parts[bucket].pieces[i];
        wefti_selection s = selection_of(&r->config, piece, step);
        c->n_runs = self->chooser->choose(&s, self->scratch, c->runs);
        for (int64_t k = 0; k < c->n_runs; k++) {
            c->runs[k].begin *= piece->cols;
            c->runs[k].n *= piece->cols;
        }
    }
}

/* An operation between n elements of the bucket and the same elements of the vector. */
typedef void (*between)(int64_t n, float factor, float *whole, float *vector);

static void copy_in(int64_t n, float factor, float *whole, float *vector) {
    (void)factor;
    memcpy(vector, whole, (size_t)n * sizeof(float));
}

static void copy_out(int64_t n, float factor, float *whole, float *vector) {
    (void)factor;
    memcpy(whole, vector, (size_t)n * sizeof(float));
}

static void add_out(int64_t n, float factor, float *whole, float *vector) {
    float *restrict y = whole;
    const float *restrict x = vector;
    for (int64_t i = 0; i < n; i++) y[i] += factor * x[i];
}

/* One operation on what is chosen of a bucket. */
typedef struct errand {
    between act;
    float factor;
    float *whole;       /* the bucket's */
    wefti_range within; /* elements of the vector to which it is limited */
} errand;

/* Runs the errand on the part of a run inside `within`; `at`: where the run lies in the
 * vector. */
static void act_on(const errand *e, float *whole, float *vector, int64_t at, int64_t n) {
    int64_t begin = at > e->within.begin ? at : e->within.begin;
    int64_t end = at + n, limit = e->within.begin + e->within.n;
    if (end > limit) end = limit;
    if (begin < end) e->act(end - begin, e->factor, whole + (begin - at), vector + begin);
}

/* Runs the errand on all runs of a bucket; returns the number of elements chosen. */
static int64_t walk(const wefti_replicator *r, int bucket, const errand *e) {
    const selector *self = r->self;
    const part *p = &self->parts[bucket];
    int64_t at = 0;
    for (int i = 0; i < r->buckets[bucket].n_pieces; i++) {
        float *whole = e->whole + r->buckets[bucket].pieces[i].offset;
        const chosen *c = &p->pieces[i];
        for (int64_t k = 0; k < c->n_runs; at += c->runs[k].n, k++)
            act_on(e, whole + c->runs[k].begin, p->vector, at, c->runs[k].n);
    }
    return at;
}

weft_status wefti_select_begin(wefti_replicator *r, int bucket, int64_t step,
                               float *grad) {
    selector *self = r->self;
    part *p = &self->parts[bucket];
    wefti_replicator_accumulate(r, bucket, grad);
    choose(r, bucket, step);
    errand e = {.act = copy_in,
                .whole = wefti_replicator_state(r, 0, bucket),
                .within = {0, p->length}};
    int64_t n = walk(r, bucket, &e);
    memset(p->vector + n, 0, (size_t)(p->length - n) * sizeof(float));
    WEFT_TRY(wefti_all_reduce_begin(self->allreduce, bucket, step, p->vector, NULL));
    e.act = add_out;
    e.factor = -(float)r->config.alpha;
    walk(r, bucket, &e);
    return WEFT_OK;
}

weft_status wefti_select_combine(wefti_replicator *r, int bucket, int64_t step,
                                 float *grad) {
    (void)grad;
    selector *self = r->self;
    errand put_back = {.act = add_out,
                       .factor = (float)r->config.alpha,
                       .whole = wefti_replicator_state(r, 0, bucket)};
    WEFT_TRY(wefti_all_reduce_combine(self->allreduce, bucket, step,
                                      self->parts[bucket].vector, &put_back.within));
    if (put_back.within.n > 0) walk(r, bucket, &put_back);
    return WEFT_OK;
}

weft_status wefti_select_end(wefti_replicator *r, int bucket, int64_t step, float *grad) {
    selector *self = r->self;
    part *p = &self->parts[bucket];
    memset(grad, 0, (size_t)r->buckets[bucket].n_elements * sizeof(float));
    WEFT_TRY(wefti_all_reduce_end(self->allreduce, bucket, step, p->vector));
    errand e = {.act = copy_out, .whole = grad, .within = {0, p->length}};
    walk(r, bucket, &e);
    return WEFT_OK;
}

/* --- predictions --- */

const char *const wefti_select_keys[] = {
    "compression_rate", "compression_decay", "momentum_style", "alpha", "sign",
    "values",           "rounding",          "every",          NULL};
const char *const wefti_select_knobs[] = {"compression_rate", NULL};

void wefti_select_label(const wefti_replicator_config *config, char *out, size_t size) {
    snprintf(out, size, "1/%.4g ", 1 / config->compression_rate);
}

wefti_content wefti_select_content(const wefti_replicator_config *config,
                                   const wefti_bucket *bucket) {
    double n = (double)vector_length(config, bucket);
    int bits = wefti_value_ops_of(config->values)->bits;
    return (wefti_content){n, 0, n * (config->sign ? log2(3) : bits)};
}

wefti_touched wefti_select_touched(const wefti_replicator_config *config, int R) {
    double k = config->compression_rate;
    bool coded = config->values != WEFTI_VALUES_F32;
    return (wefti_touched){.begin = 12 + (coded ? 100 : 16) * k,
                           .combine = (coded ? 60 : 8) * k / R,
                           .combine_peer = (coded ? 60 : 12) * k / R,
                           .end = 4 + (coded ? 60 : 16) * k};
}

double wefti_select_floor(const wefti_replicator_config *config, double n, double values,
                          int R) {
    (void)config, (void)R;
    return 12 * n + 4 * values;
}

wefti_cover wefti_select_cover(const wefti_replicator *r, int bucket, int piece,
                               int64_t step) {
    const selector *self = r->self;
    const chosen *c = &self->parts[bucket].pieces[piece];
    wefti_selection s = selection_of(&r->config, &r->buckets[bucket].pieces[piece], step);
    return (wefti_cover){
        .runs = c->runs, .n_runs = c->n_runs, .count = self->chooser->count(&s)};
}
