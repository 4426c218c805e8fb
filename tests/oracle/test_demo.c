/* SPDX-License-Identifier: MIT */
/* demo against its definition in double (docs/methods.md section 3): chunks, DCT, the k
 * largest, error feedback and means are computed a second time, plainly, for 100 steps
 * of every rank.
 *
 * Of two coefficients that are equal to rounding either may be the larger in f32. So
 * which were sent is read from the messages, and no other than the k largest may be
 * there, to rounding; then the oracle goes on with the same ones. Its values, momentum
 * and directions are its own (of coded values, what was sent is within a step of the
 * code).
 *
 * Rounding: with u = 2^-24, x the largest 2-norm of a chunk so far, and errors of a
 * product of n numbers as they add up at random, a transform is off by
 * 2 sqrt(n) u x per axis, four standard deviations of u/sqrt(3) each; a step has two of
 * them and a few single roundings. The momentum keeps beta of an error: after many
 * steps 1/(1 - beta) steps' worth. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ranks.h"
#include "wrapped.h"
#include "replicate/replicator.h"
#include "wire/frame.h"
#include "wire/section.h"

enum { STEPS = UNDER_SANITIZER ? 20 : 100, MAX_N = 4096, MAX_CHUNK = 4096, MAX_R = 3 };

static const wefti_piece small_pieces[] = {
    {37, 1, 0, false, 0}, {11, 13, 37, true, 1}, {3, 1, 180, false, 2}};
static const wefti_bucket small_bucket = {3, small_pieces, 183};
static const wefti_piece large_pieces[] = {{100, 1, 0, false, 0}, {50, 60, 100, true, 1}};
static const wefti_bucket large_bucket = {2, large_pieces, 3100};

typedef struct record {
    float g[MAX_N], m[MAX_N], d[MAX_N]; /* m, d: after the step */
    unsigned char *message;             /* borrowed from the run */
} record;

typedef struct run {
    wefti_replicator_config config;
    const wefti_bucket *bucket;
    int R;
    int64_t message_bytes;
    record *records;         /* [R][STEPS] */
    unsigned char *messages; /* [R][STEPS][message_bytes] */
    /* the oracle's */
    double m[MAX_R][MAX_N];
    double largest; /* 2-norm of a chunk */
    int64_t signs, near_zero;
} run;

/* -- the library's side -- */

typedef struct spy {
    wrapped on;
    unsigned char *copy;
    int64_t n_bytes;
} spy;

static weft_status spy_send(wefti_comm *comm, int peer, int64_t tag, const void *data,
                            int64_t n_bytes) {
    spy *self = (spy *)comm;
    if (n_bytes != self->n_bytes) return WEFT_ERR_INTERNAL;
    memcpy(self->copy, data, (size_t)n_bytes);
    return wefti_comm_send(self->on.inner, peer, tag, data, n_bytes);
}

static const wefti_comm_ops spying = {.name = "spying", .send = spy_send, PASSED_ON};

static float lr_of(int step) { return 0.25f + 0.01f * (float)(step % 7); }

static weft_status take_steps(run *it, int rank, wefti_replicator *r, spy *ear) {
    size_t n_bytes = (size_t)it->bucket->n_elements * sizeof(float);
    for (int step = 0; step < STEPS; step++) {
        record *now = &it->records[rank * STEPS + step];
        now->message = it->messages + (rank * STEPS + step) * it->message_bytes;
        ear->copy = now->message;
        fill_normal((uint64_t)(1000 * rank + step), it->bucket->n_elements, now->g);
        memcpy(now->d, now->g, n_bytes);
        WEFT_TRY(wefti_replicator_begin(r, 0, step, lr_of(step), now->d));
        WEFT_TRY(wefti_replicator_combine(r, 0, step, now->d));
        WEFT_TRY(wefti_replicator_end(r, 0, step, now->d));
        memcpy(now->m, wefti_replicator_state(r, 0, 0), n_bytes);
        if (it->config.delay > 0 && step > 0) memcpy(now[-1].d, now->d, n_bytes);
    }
    WEFT_TRY(wefti_replicator_settle(r));
    if (it->config.delay > 0)
        memcpy(it->records[rank * STEPS + STEPS - 1].d, wefti_replicator_state(r, 1, 0),
               n_bytes);
    return WEFT_OK;
}

static weft_status run_rank(rank_env *env) {
    run *it = env->user;
    spy ear = {.on = {*env->replica, env->replica}, .n_bytes = it->message_bytes};
    wefti_replicator *r;
    ear.on.head.ops = &spying;
    WEFT_TRY(wefti_replicator_create(env->ctx, &it->config, wefti_kernels_find(NULL),
                                     &ear.on.head, it->bucket, 1, &r));
    weft_status status = take_steps(it, env->rank, r, &ear);
    if (status == WEFT_OK) status = wefti_comm_barrier(env->control, -1);
    wefti_replicator_destroy(r);
    return status;
}

/* -- chunks, plainly -- */

typedef struct chunk {
    const wefti_piece *piece;
    int c, elements, k;
    bool square;
    int number; /* in its piece */
} chunk;

static bool is_dense(const run *it, const wefti_piece *piece) {
    return piece->rows * piece->cols < it->config.dense_below;
}

static chunk first_chunk(const run *it, const wefti_piece *piece) {
    chunk s = {.piece = piece, .c = (int)it->config.compression_chunk};
    s.square = it->config.compression_dims == 2 && piece->cols > 1;
    s.elements = s.square ? s.c * s.c : s.c;
    s.k = (int)it->config.compression_topk;
    if (it->config.compression_dims == 2 && !s.square)
        s.k = s.k / s.c > 0 ? s.k / s.c : 1;
    return s;
}

static int count_chunks(const chunk *s) {
    int rows = (int)s->piece->rows, cols = (int)s->piece->cols;
    if (!s->square) return (rows * cols + s->c - 1) / s->c;
    return ((rows + s->c - 1) / s->c) * ((cols + s->c - 1) / s->c);
}

/* Place in the bucket of element e of a chunk; -1: padding. */
static int place_of(const chunk *s, int e) {
    int rows = (int)s->piece->rows, cols = (int)s->piece->cols;
    int offset = (int)s->piece->offset;
    if (!s->square) {
        int i = s->number * s->c + e;
        return i < rows * cols ? offset + i : -1;
    }
    int across = (cols + s->c - 1) / s->c;
    int row = s->number / across * s->c + e / s->c;
    int col = s->number % across * s->c + e % s->c;
    return row < rows && col < cols ? offset + row * cols + col : -1;
}

static double basis[64][64];

static void fill_basis(int c) {
    for (int f = 0; f < c; f++)
        for (int i = 0; i < c; i++)
            basis[f][i] = sqrt((f ? 2.0 : 1.0) / c) *
                          cos(acos(-1.0) * (2 * i + 1) * f / (2.0 * c));
}

/* Along one axis: x[j * stride] for j < c. */
static void transform_line(int c, int stride, bool inverse, double *x) {
    double out[64];
    for (int a = 0; a < c; a++) {
        out[a] = 0;
        for (int b = 0; b < c; b++)
            out[a] += (inverse ? basis[b][a] : basis[a][b]) * x[b * stride];
    }
    for (int a = 0; a < c; a++) x[a * stride] = out[a];
}

static void transform(const chunk *s, bool inverse, double *x) {
    for (int line = 0; line < s->elements / s->c; line++)
        transform_line(s->c, 1, inverse, x + line * s->c);
    for (int col = 0; s->square && col < s->c; col++)
        transform_line(s->c, s->c, inverse, x + col);
}

/* -- a step of the oracle -- */

/* What may be off, of a coefficient or an element, after many steps. */
static double tolerance(const run *it) {
    double n = (double)it->config.compression_chunk, u = ldexp(1, -24);
    double steps = 1 / (1 - it->config.compression_decay);
    double transforms = 2 * it->config.compression_dims;
    return (transforms * 2 * sqrt(n) + 4) * u * it->largest * steps;
}

/* A chunk's coefficients as one rank sent them. */
typedef struct sent {
    int32_t index[MAX_CHUNK];
    double value[MAX_CHUNK];
    bool counts[MAX_CHUNK]; /* a rank that sends 0 is no sender */
} sent;

/* No coefficient that stayed is larger than one that was sent. */
static void check_choice(const run *it, const chunk *s, const int32_t *index,
                         const double *spectrum) {
    static bool chosen[MAX_CHUNK];
    double smallest = INFINITY, tol = tolerance(it);
    memset(chosen, 0, sizeof chosen);
    for (int j = 0; j < s->k; j++) {
        assert_in_range(index[j], j ? index[j - 1] + 1 : 0, s->elements - 1);
        chosen[index[j]] = true;
        smallest = fmin(smallest, fabs(spectrum[index[j]]));
    }
    for (int f = 0; f < s->elements; f++)
        if (!chosen[f]) assert_true(fabs(spectrum[f]) <= smallest + 2 * tol);
}

/* m <- beta m + gain g, the chunk's spectrum, and what leaves it. */
static void send_chunk(run *it, int rank, int step, const chunk *s, const int32_t *index,
                       const float *value, double code_step, sent *out) {
    static double x[MAX_CHUNK], q[MAX_CHUNK];
    const record *now = &it->records[rank * STEPS + step];
    double beta = it->config.compression_decay, norm = 0;
    double gain = it->config.ema ? 1 - beta : (double)lr_of(step);
    for (int e = 0; e < s->elements; e++) {
        int at = place_of(s, e);
        x[e] = 0;
        if (at >= 0)
            x[e] = it->m[rank][at] = beta * it->m[rank][at] + gain * (double)now->g[at];
        norm += x[e] * x[e];
    }
    it->largest = fmax(it->largest, sqrt(norm));
    transform(s, false, x);
    check_choice(it, s, index, x);
    memset(q, 0, (size_t)s->elements * sizeof *q);
    for (int j = 0; j < s->k; j++) {
        double error = fabs((double)value[j] - x[index[j]]);
        assert_true(error <= tolerance(it) + code_step);
        bool coded = it->config.values != WEFTI_VALUES_F32;
        out->index[j] = index[j];
        out->counts[j] = value[j] != 0;
        out->value[j] = q[index[j]] = coded ? (double)value[j] : x[index[j]];
    }
    transform(s, true, q);
    for (int e = 0; e < s->elements; e++)
        if (place_of(s, e) >= 0) it->m[rank][place_of(s, e)] -= it->config.alpha * q[e];
}

static void check_direction(run *it, float d, double expected) {
    double tol = 2 * tolerance(it);
    if (!it->config.sign) {
        assert_true(fabs((double)d - expected) <= tol);
        return;
    }
    it->signs++;
    it->near_zero += fabs(expected) <= tol;
    if (fabs(expected) > tol) assert_true((double)d == (expected > 0 ? 1 : -1));
    if (expected != 0) assert_true(d == 1 || d == -1);
}

static void combine_chunk(run *it, int step, const chunk *s, const sent *all) {
    static double q[MAX_CHUNK];
    static int senders[MAX_CHUNK];
    memset(q, 0, sizeof q);
    memset(senders, 0, sizeof senders);
    for (int rank = 0; rank < it->R; rank++) {
        for (int j = 0; j < s->k; j++) {
            q[all[rank].index[j]] += all[rank].value[j];
            senders[all[rank].index[j]] += all[rank].counts[j];
        }
    }
    for (int f = 0; f < s->elements; f++)
        if (senders[f] > 0) q[f] /= senders[f];
    transform(s, true, q);
    for (int e = 0; e < s->elements; e++)
        if (place_of(s, e) >= 0)
            check_direction(it, it->records[step].d[place_of(s, e)], q[e]);
}

/* The values of a block differ from their codes by half a step at most; the scale is the
 * largest magnitude / 127 rounded up to 8 bits. */
static double code_step(const run *it, int64_t n, const float *values) {
    double largest = 0;
    if (it->config.values == WEFTI_VALUES_F32) return 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)values[i]));
    return 0.5 * largest / 127 * (1 + ldexp(1, -6));
}

/* Decodes block b of every rank's section, and follows. */
static void check_block(run *it, weft_ctx *ctx, int step, const wefti_section *section,
                        int64_t b, int64_t at, chunk s) {
    static int32_t index[MAX_R][MAX_CHUNK];
    static float value[MAX_R][MAX_CHUNK];
    static sent all[MAX_R];
    int first = (int)(b * section->block_chunks);
    int n = (int)wefti_section_block_chunks(section, b);
    for (int rank = 0; rank < it->R; rank++)
        assert_ok(ctx, wefti_section_decode(ctx, section, b,
                                            it->records[rank * STEPS + step].message + at,
                                            index[rank], value[rank]));
    for (int i = 0; i < n; i++) {
        s.number = first + i;
        for (int rank = 0; rank < it->R; rank++)
            send_chunk(it, rank, step, &s, index[rank] + i * s.k, value[rank] + i * s.k,
                       code_step(it, (int64_t)n * s.k, value[rank]), &all[rank]);
        combine_chunk(it, step, &s, all);
    }
}

/* A dense piece, f32: all of it is sent by everybody. */
static void check_dense(run *it, int step, const wefti_piece *piece) {
    double beta = it->config.compression_decay;
    double gain = it->config.ema ? 1 - beta : (double)lr_of(step);
    for (int i = 0; i < piece->rows * piece->cols; i++) {
        int at = (int)piece->offset + i;
        double mean = 0;
        for (int rank = 0; rank < it->R; rank++) {
            double *m = &it->m[rank][at];
            *m = beta * *m + gain * (double)it->records[rank * STEPS + step].g[at];
            it->largest = fmax(it->largest, fabs(*m));
            mean += *m / it->R;
            *m -= it->config.alpha * *m;
        }
        check_direction(it, it->records[step].d[at], mean);
    }
}

static void check_step(run *it, weft_ctx *ctx, int step) {
    int64_t at = WEFTI_FRAME_BYTES;
    for (int i = 0; i < it->bucket->n_pieces; i++) {
        const wefti_piece *piece = &it->bucket->pieces[i];
        chunk s = first_chunk(it, piece);
        if (is_dense(it, piece)) {
            wefti_section dense = wefti_section_dense(piece->rows * piece->cols,
                                                      it->config.values);
            check_dense(it, step, piece);
            at += wefti_section_bytes(&dense, 0, dense.n_blocks);
            continue;
        }
        wefti_section section = wefti_section_sparse(count_chunks(&s), s.k, s.elements,
                                                     it->config.values,
                                                     it->config.indices, NULL);
        for (int64_t b = 0; b < section.n_blocks; b++) {
            check_block(it, ctx, step, &section, b, at, s);
            at += wefti_section_bytes(&section, b, 1);
        }
    }
    assert_int_equal(at, it->message_bytes);
    for (int rank = 0; rank < it->R; rank++) {
        const record *now = &it->records[rank * STEPS + step];
        for (int j = 0; j < it->bucket->n_elements; j++)
            assert_true(fabs((double)now->m[j] - it->m[rank][j]) <= tolerance(it));
    }
}

static void follows_in_a_run(const wefti_replicator_config *config,
                             const wefti_bucket *bucket, int R) {
    static run it;
    weft_ctx *ctx;
    void *users[] = {&it, &it, &it};
    assert_int_equal(ctx_begin(&ctx), 0);
    it = (run){.config = *config, .bucket = bucket, .R = R};
    it.message_bytes = wefti_replicator_wire_bytes(config, bucket, R, 0, 1);
    fill_basis((int)config->compression_chunk);
    assert_ok(ctx, wefti_alloc_n(ctx, R * STEPS, sizeof(record), "records", &it.records));
    assert_ok(ctx, wefti_alloc_n(ctx, R * STEPS * it.message_bytes, 1, "messages",
                                 &it.messages));
    run_ranks(R, 1, (wefti_wire_model){0, 0}, run_rank, users, NULL);
    for (int step = 0; step < STEPS; step++) check_step(&it, ctx, step);
    assert_true(it.near_zero <= it.signs / 50);
    wefti_free(ctx, it.records);
    wefti_free(ctx, it.messages);
    assert_int_equal(ctx_end(ctx), 0);
}

static wefti_replicator_config knobs(int dims, int64_t c, int64_t k, bool sign) {
    return (wefti_replicator_config){.kind = "demo",
                                     .compression_topk = k,
                                     .compression_chunk = c,
                                     .compression_decay = 0.9,
                                     .compression_dims = dims,
                                     .sign = sign,
                                     .alpha = 1,
                                     .route = WEFTI_ROUTE_GATHER,
                                     .indices = WEFTI_INDICES_FIXED,
                                     .dense_below = 4,
                                     .every = 1,
                                     .threads = 1};
}

TEST(vectors_follow_the_definition_at_every_k) {
    for (int64_t k = 1; k <= 8; k++) {
        for (int form = 0; form < 4; form++) {
            wefti_replicator_config config = knobs(1, 8, k, form % 2);
            follows_in_a_run(&config, &small_bucket, 2 + form / 2);
        }
    }
}

TEST(matrices_follow_the_definition_at_every_k) {
    static const int64_t ks[] = {1, 2, 5, 8, 17, 32, 63, 64};
    for (int i = 0; i < 8; i++) {
        for (int form = 0; form < 4; form++) {
            wefti_replicator_config config = knobs(2, 8, ks[i], form % 2);
            follows_in_a_run(&config, &small_bucket, 2 + form / 2);
        }
    }
}

TEST(chunks_of_64_and_of_odd_lengths_follow_the_definition) {
    static const int64_t cases[][3] = {{1, 64, 4}, {1, 64, 64}, {2, 64, 32},
                                       {1, 10, 3}, {2, 6, 7},   {1, 16, 15}};
    for (int i = 0; i < 6; i++) {
        bool is_large = cases[i][1] == 64;
        wefti_replicator_config config = knobs((int)cases[i][0], cases[i][1], cases[i][2],
                                               i == 2);
        follows_in_a_run(&config, is_large ? &large_bucket : &small_bucket, 2 + i % 2);
    }
}

TEST(means_parts_and_codes_follow_the_definition) {
    for (int form = 0; form < 8; form++) {
        wefti_replicator_config config = knobs(1 + form % 2, 8, 5, form == 6);
        config.ema = form / 2 % 2;
        config.alpha = form / 4 ? 0.2 : 1;
        config.values = form == 0 || form == 7 ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32;
        config.dense_below = config.values == WEFTI_VALUES_F32 ? 4 : 0;
        follows_in_a_run(&config, &small_bucket, 3);
    }
}

/* What a step applies is what the step before it sent. */
TEST(a_delayed_direction_follows_the_definition_a_step_later) {
    for (int form = 0; form < 4; form++) {
        wefti_replicator_config config = knobs(1 + form / 2, 8, 5, form % 2);
        config.delay = 1;
        follows_in_a_run(&config, &small_bucket, 2 + form / 2);
    }
}
