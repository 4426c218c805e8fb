/* SPDX-License-Identifier: MIT */
/* SparseLoCo (arXiv 2508.15706): DiLoCo whose changes are sent sparsely, and without
 * outer momentum, because what is not sent stays and acts as one. theta_i: replica i's
 * parameters; s: the same on all replicas. Every H steps, for each bucket:
 *
 *     e_i <- b e_i + s - theta_i
 *     q_i <- the k largest of each run of c numbers of e_i, in 2 bits each (wire/bins.h)
 *     e_i <- e_i - q_i
 *     s <- s - eta (1/R) sum_i q_i                      in rank order
 *     theta_i <- merge theta_i + (1 - merge) s
 *
 * b is mixer.feedback, 1 - config.forget. Fragments take turns as in outerschedule.h.
 *
 * Message of a bucket of n numbers, to all: head (wire/frame.h) | the places of the
 * numbers of each block of runs (wire/section.h), beginning with a new byte | all
 * numbers, by bins. */
#include <string.h>

#include "base/memory.h"
#include "compress/selection.h"
#include "mix/mixer.h"
#include "mix/outerschedule.h"
#include "wire/bins.h"

enum { START, ERROR };

typedef struct sparse_outer {
    wefti_section cut;      /* of one run; sections of buckets differ from it in length
                               alone */
    wefti_binomials *table; /* owned, like what follows; NULL unless places need it */
    int32_t *places;        /* [numbers of the largest message], like values */
    float *values;
    float *run;     /* [c] */
    uint32_t *keys; /* [c] */
    float *mean;    /* [elements of the largest bucket] */
} sparse_outer;

static const char *const *sparse_states(const wefti_mixer_config *config) {
    static const char *const names[] = {"start", "error", NULL};
    (void)config;
    return names;
}

/* The section of one run; only places are coded with it. */
static wefti_section section_of_run(const wefti_mixer_config *config,
                                    const wefti_binomials *table) {
    return wefti_section_sparse(1, config->topk, config->chunk, WEFTI_VALUES_F32,
                                WEFTI_INDICES_AUTO, table);
}

/* The section of a bucket of n numbers: as many runs as that takes. */
static wefti_section section_of(const wefti_section *run, int64_t n) {
    return wefti_section_of_chunks(run, (n + run->elements - 1) / run->elements);
}

static int64_t payload_bytes(const wefti_section *s) {
    int64_t last = s->n_blocks - 1;
    return last * wefti_section_index_bytes(s, 0) + wefti_section_index_bytes(s, last) +
           wefti_bins_bytes(s->n_values);
}

static int64_t message_of(const wefti_section *s) {
    return WEFTI_FRAME_BYTES + payload_bytes(s);
}

/* --- before creation --- */

static int sparse_acts(const wefti_mixer_config *config, const wefti_mixer_question *q,
                       wefti_mixer_act acts[WEFTI_MIXER_ACTS]) {
    wefti_outer_part part = {q->number, q->n_buckets};
    if (q->step < 0 || wefti_outer_start(config, part, q->step) != q->step) return 0;
    acts[0] = (wefti_mixer_act){WEFTI_MIXER_AFTER, true, q->step, 0};
    acts[1] = (wefti_mixer_act){WEFTI_MIXER_FINISH, false, q->step, 0};
    return 2;
}

static void sparse_messages(const wefti_mixer_config *config,
                            const wefti_mixer_question *q, const wefti_mixer_act *act,
                            wefti_mixer_visit visit, void *user) {
    wefti_section run = section_of_run(config, NULL);
    wefti_section s = section_of(&run, q->bucket->n_elements);
    for (int k = act->sends ? 1 : 0; k < q->R; k++) {
        int peer = act->sends ? (q->from + k) % q->R : k;
        if (peer != q->from) visit(user, peer, message_of(&s));
    }
}

static int64_t largest_bucket(const wefti_bucket *buckets, int n_buckets) {
    int64_t n = 1;
    for (int b = 0; b < n_buckets; b++)
        if (buckets[b].n_elements > n) n = buckets[b].n_elements;
    return n;
}

static int64_t sparse_work_bytes(const wefti_mixer_config *config,
                                 const wefti_bucket *buckets, int n_buckets, int R) {
    int64_t n = largest_bucket(buckets, n_buckets);
    wefti_section run = section_of_run(config, NULL), s = section_of(&run, n);
    int64_t n_bytes = wefti_alloc_n_cost(1, sizeof(sparse_outer)) +
                      2 * wefti_alloc_n_cost(s.n_values, 4) +
                      2 * wefti_alloc_n_cost(config->chunk, 4) +
                      wefti_alloc_n_cost(n, sizeof(float));
    (void)R;
    return n_bytes + (wefti_section_table_bytes(&s) > 0
                          ? wefti_alloc_n_cost(wefti_section_table_bytes(&s), 1)
                          : 0);
}

static bool sparse_agrees(const wefti_mixer_config *config, int64_t step) {
    return config->fragments == 1 && config->merge == 0 &&
           wefti_outer_start(config, (wefti_outer_part){0, 1}, step) == step;
}

/* --- functions for the driver --- */

static int64_t bytes(const void *mixer, const wefti_round *round, int sender,
                     int member) {
    const wefti_mixer *m = mixer;
    (void)sender;
    const sparse_outer *self = m->self;
    wefti_section s = section_of(&self->cut, m->buckets[round->bucket].n_elements);
    (void)member;
    return message_of(&s);
}

/* Chooses the k largest of every run of e[n]; the last run is filled up with zeros. */
static void choose(const sparse_outer *self, const wefti_section *s, int64_t n,
                   const float *e) {
    for (int64_t i = 0; i < s->n_chunks; i++) {
        int64_t at = i * s->elements, here = n - at < s->elements ? n - at : s->elements;
        memset(self->run, 0, (size_t)s->elements * sizeof *e);
        memcpy(self->run, e + at, (size_t)here * sizeof *e);
        wefti_topk(s->elements, self->run, s->k, self->places + i * s->k,
                   self->values + i * s->k, self->keys);
    }
}

/* Adds to x, at the chosen places, `share` times the chosen values. */
static void add_chosen(const sparse_outer *self, const wefti_section *s, int64_t n,
                       float share, float *x) {
    for (int64_t i = 0; i < s->n_values; i++) {
        int64_t at = i / s->k * s->elements + self->places[i];
        if (at < n) x[at] += share * self->values[i];
    }
}

/* What the caller has chosen and coded, and the places in the wire's own form. */
static weft_status encode_held(const wefti_mixer *m, int bucket, const wefti_section *s,
                               unsigned char *out) {
    const wefti_held_parcel *parcel;
    WEFT_TRY(wefti_mixer_handed(m, bucket, 0, &parcel));
    for (int64_t i = 0; i < s->n_values; i++) {
        int64_t before = i % s->k ? parcel->places[i - 1] : -1;
        if (parcel->places[i] <= before || parcel->places[i] >= s->elements)
            return weft_ctx_fail(m->ctx, WEFT_ERR_ARGUMENT,
                                 "number %lld of bucket %d has place %d; expected one "
                                 "above %lld and below %lld",
                                 (long long)i, bucket, (int)parcel->places[i],
                                 (long long)before, (long long)s->elements);
    }
    for (int64_t b = 0; b < s->n_blocks; b++) {
        wefti_section_encode_indices(s, b, parcel->places + b * s->block_values, out);
        out += wefti_section_index_bytes(s, b);
    }
    memcpy(out, parcel->bytes, (size_t)parcel->n_bytes);
    return WEFT_OK;
}

static weft_status encode(void *mixer, const wefti_round *round, int member,
                          unsigned char *out) {
    const wefti_mixer *m = mixer;
    const sparse_outer *self = m->self;
    int64_t n = m->buckets[round->bucket].n_elements;
    float keep = (float)(1 - m->config.forget);
    wefti_section s = section_of(&self->cut, n);
    (void)member;
    if (m->config.held) return encode_held(m, round->bucket, &s, out);
    float *e = wefti_mixer_state(m, ERROR, round->bucket);
    const float *start = wefti_mixer_state(m, START, round->bucket);
    float weight = wefti_comm_weight(m->comm);
    for (int64_t i = 0; i < n; i++)
        e[i] = keep * e[i] + weight * (start[i] - round->from[i]);
    choose(self, &s, n, e);
    for (int64_t b = 0; b < s.n_blocks; b++) {
        wefti_section_encode_indices(&s, b, self->places + b * s.block_values, out);
        out += wefti_section_index_bytes(&s, b);
    }
    wefti_bins_encode(s.n_values, self->values, out);
    add_chosen(self, &s, n, -1, e);
    return WEFT_OK;
}

static weft_status add(void *mixer, const wefti_round *round, int member,
                       const unsigned char *in) {
    const wefti_mixer *m = mixer;
    const sparse_outer *self = m->self;
    int64_t n = m->buckets[round->bucket].n_elements;
    wefti_section s = section_of(&self->cut, n);
    if (round->counted == 0) memset(self->mean, 0, (size_t)n * sizeof *self->mean);
    for (int64_t b = 0; b < s.n_blocks; b++) {
        WEFT_TRY(wefti_section_decode_indices(m->ctx, &s, b, in,
                                              self->places + b * s.block_values));
        in += wefti_section_index_bytes(&s, b);
    }
    WEFT_TRY(wefti_bins_decode(m->ctx, s.n_values, in, self->values));
    (void)member;
    add_chosen(self, &s, n, 1, self->mean);
    return WEFT_OK;
}

/* The mean goes to where the bucket's parameters would be: the caller has them elsewhere. */
static void deliver_mean(wefti_mixer *m, const wefti_round *round, float share) {
    const sparse_outer *self = m->self;
    int64_t n = m->buckets[round->bucket].n_elements;
    for (int64_t i = 0; i < n; i++) round->x[i] = share * self->mean[i];
    wefti_mixer_deliver(m,
                        &(wefti_held_parcel){.kind = WEFTI_HELD_MEAN,
                                             .bucket = round->bucket,
                                             .exchange = round->step,
                                             .n_bytes = n * (int64_t)sizeof(float),
                                             .bytes = (const unsigned char *)round->x});
}

static weft_status finish(void *mixer, const wefti_round *round, unsigned char *answer) {
    wefti_mixer *m = mixer;
    const sparse_outer *self = m->self;
    if (m->config.held) {
        deliver_mean(m, round, 1.0f / (float)round->weight);
        return WEFT_OK;
    }
    float *s = wefti_mixer_state(m, START, round->bucket), *theta = round->x;
    float eta = (float)m->config.outer_lr, stays = (float)m->config.merge;
    float share = 1.0f / (float)round->weight;
    (void)answer;
    for (int64_t i = 0; i < m->buckets[round->bucket].n_elements; i++) {
        s[i] -= eta * (share * self->mean[i]);
        theta[i] = stays == 0 ? s[i] : stays * theta[i] + (1 - stays) * s[i];
    }
    return WEFT_OK;
}

static const wefti_driver_ops driver_ops = {
    .bytes = bytes, .encode = encode, .add = add, .finish = finish};

static wefti_driver_setup sparse_driver(const wefti_mixer_config *config) {
    (void)config;
    return (wefti_driver_setup){.ops = &driver_ops, .n_buffers = 1};
}

static void sparse_room(const wefti_mixer_config *config, const wefti_bucket *bucket,
                        int R, int64_t room[WEFTI_DRIVER_ROUNDS]) {
    wefti_section run = section_of_run(config, NULL);
    wefti_section s = section_of(&run, bucket->n_elements);
    (void)R;
    room[0] = message_of(&s);
    room[1] = 0;
}

/* --- creation --- */

static weft_status check_knobs(weft_ctx *ctx, const wefti_mixer_config *c) {
    WEFT_TRY(wefti_outer_check(ctx, c));
    if (c->delay != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.delay is %lld with mixer.kind sparse_outer, expected "
                             "0: its messages are applied in the step that sends them",
                             (long long)c->delay);
    if (c->chunk < 2 || c->topk < 1 || c->topk > c->chunk)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.compression_chunk is %lld and mixer.compression_topk "
                             "%lld, expected 2 or more, and 1 to as many",
                             (long long)c->chunk, (long long)c->topk);
    return WEFT_OK;
}

static weft_status sparse_create(wefti_mixer *m) {
    sparse_outer *self;
    weft_ctx *ctx = m->ctx;
    int64_t n = largest_bucket(m->buckets, m->n_buckets), c = m->config.chunk;
    WEFT_TRY(check_knobs(ctx, &m->config));
    WEFT_TRY(wefti_alloc(ctx, sizeof *self, "the sparse outer mixer", &self));
    m->self = self;
    self->cut = section_of_run(&m->config, NULL);
    if (wefti_section_table_bytes(&self->cut) > 0)
        WEFT_TRY(
            wefti_binomials_create(ctx, m->config.chunk, m->config.topk, &self->table));
    self->cut.binomials = self->table;
    wefti_section s = section_of(&self->cut, n);
    WEFT_TRY(wefti_alloc_n(ctx, s.n_values, sizeof(int32_t), "places", &self->places));
    WEFT_TRY(wefti_alloc_n(ctx, s.n_values, sizeof(float), "numbers", &self->values));
    WEFT_TRY(wefti_alloc_n(ctx, c, sizeof(float), "a run", &self->run));
    WEFT_TRY(wefti_alloc_n(ctx, c, sizeof(uint32_t), "a run", &self->keys));
    return wefti_alloc_n(ctx, n, sizeof(float), "the mean change", &self->mean);
}

static void sparse_destroy(wefti_mixer *m) {
    sparse_outer *self = m->self;
    if (!self) return;
    wefti_binomials_destroy(m->ctx, self->table);
    WEFTI_FREE(m->ctx, self->places, self->values, self->run, self->keys, self->mean,
               self);
}

/* --- the phases --- */

static bool is_due(const wefti_mixer *m, int bucket, int64_t step) {
    wefti_outer_part part = {bucket, m->n_buckets};
    return wefti_outer_start(&m->config, part, step) == step;
}

static wefti_round round_of(const wefti_mixer *m, int bucket, int64_t step) {
    return (wefti_round){.shape = WEFTI_SHAPE_ALL,
                         .step = step,
                         .bucket = bucket,
                         .kinds = {WEFTI_FRAME_SPARSE_CHANGE},
                         .party = wefti_party_all(m->comm)};
}

static weft_status sparse_prime(wefti_mixer *m, int bucket, int64_t step,
                                const float *params) {
    size_t n_bytes = (size_t)m->buckets[bucket].n_elements * sizeof *params;
    if (step == 0 && !m->config.held)
        memcpy(wefti_mixer_state(m, START, bucket), params, n_bytes);
    return WEFT_OK;
}

static weft_status sparse_after(wefti_mixer *m, int bucket, int64_t step, float *params) {
    wefti_round round = round_of(m, bucket, step);
    round.from = params;
    return is_due(m, bucket, step) ? wefti_driver_send(m->driver, &round) : WEFT_OK;
}

static weft_status sparse_finish(wefti_mixer *m, int bucket, int64_t step,
                                 float *params) {
    wefti_round round = round_of(m, bucket, step);
    round.x = params;
    return is_due(m, bucket, step) ? wefti_driver_receive(m->driver, &round) : WEFT_OK;
}

static void sparse_parcels(wefti_mixer *m, int bucket, int64_t step, bool prime) {
    const sparse_outer *self = m->self;
    wefti_section s = section_of(&self->cut, m->buckets[bucket].n_elements);
    if (prime || !is_due(m, bucket, step)) return;
    wefti_mixer_expect(m, &(wefti_held_parcel){.bucket = bucket,
                                               .exchange = step,
                                               .n_bytes = wefti_bins_bytes(s.n_values),
                                               .n_places = s.n_values});
}

static int64_t sparse_period(const wefti_mixer_config *config) {
    return config->outer_every;
}

static wefti_touched sparse_touched(int R) {
    (void)R;
    return (wefti_touched){.begin = 48, .combine_peer = 1, .end = 24};
}

static const char *const sparse_keys[] = {
    "outer_every", "outer_lr",         "fragments",         "merge",
    "feedback",    "compression_topk", "compression_chunk", NULL};

const wefti_mixer_ops wefti_mixer_sparse_outer = {
    .name = "sparse_outer",
    .keys = sparse_keys,
    .period = sparse_period,
    .touched = sparse_touched,
    .states = sparse_states,
    .acts = sparse_acts,
    .messages = sparse_messages,
    .message_bytes = wefti_mixer_uncoded_bytes,
    .driver = sparse_driver,
    .room = sparse_room,
    .work_bytes = sparse_work_bytes,
    .create = sparse_create,
    .parcels = sparse_parcels,
    .prime = sparse_prime,
    .after = sparse_after,
    .finish = sparse_finish,
    .agrees = sparse_agrees,
    .destroy = sparse_destroy,
};
