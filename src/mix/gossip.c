/* SPDX-License-Identifier: MIT */
/* Gossip (decentralized Adam, arXiv 2410.11998): replicas take weighted means with their
 * neighbours of the step (topology/), docs/methods.md:
 *
 *     awc   x_i(t+1) = sum_j W_ij(t) x_j(t) - eta u_i(t)    u_i from the gradient at
 * x_i(t) atc   x_i(t+1) = sum_j W_ij(t) (x_j(t) - eta u_j(t))
 *
 * awc (adapt while communicating) sends x(t+1) after the optimizer of step t and reads
 * the neighbours' x before the optimizer of step t + 1: an exchange has a whole step to
 * travel. atc (adapt then combine) sends and reads within the step. With gamma < 1 only
 * that share of the way to the mean is gone.
 *
 * Message: head (wire/frame.h), then the bucket's parameters as f32. What is sent lies in
 * one of two buffers, so that a slow reader holds up nobody for a step. */
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "mix/meeting.h"
#include "mix/mixers.h"
#include "wire/frame.h"

enum { BUFFERS = 2, STRIP = 1024 };

typedef struct gossip {
    wefti_meeting meeting;
    unsigned char *messages[BUFFERS]; /* all buckets' messages one after another */
    int64_t *message_at;              /* [n_buckets] where they begin there */
    int64_t *sent_step[BUFFERS];      /* [n_buckets] whose message lies there, or -1 */
    double *sent_s[BUFFERS];          /* [n_buckets] and when it was sent */
    const float **sources;            /* [members] parameters of one bucket */
} gossip;

static const char *const *gossip_states(const wefti_mixer_config *config) {
    static const char *const none[] = {NULL};
    (void)config;
    return none;
}

static int64_t message_bytes(const wefti_mixer_config *config,
                             const wefti_bucket *bucket) {
    (void)config;
    return WEFTI_FRAME_BYTES + bucket->n_elements * (int64_t)sizeof(float);
}

static int64_t gossip_wire_bytes(const wefti_mixer_config *config,
                                 const wefti_mixer_question *q) {
    return wefti_meeting_of(config, q) >= 0 ? message_bytes(config, q->bucket) : 0;
}

static int64_t all_messages(const wefti_mixer_config *config, const wefti_bucket *buckets,
                            int n_buckets) {
    int64_t n_bytes = 0;
    for (int b = 0; b < n_buckets; b++) n_bytes += message_bytes(config, &buckets[b]);
    return n_bytes;
}

static int64_t gossip_work_bytes(const wefti_mixer_config *config,
                                 const wefti_bucket *buckets, int n_buckets, int R) {
    (void)R;
    return BUFFERS * all_messages(config, buckets, n_buckets);
}

static wefti_frame frame_of(const wefti_mixer *m, int bucket, int64_t step, int sender) {
    int64_t n = m->buckets[bucket].n_elements;
    return (wefti_frame){.kind = WEFTI_FRAME_GOSSIP,
                         .step = step,
                         .bucket = bucket,
                         .sender = sender,
                         .payload_bytes = n * (int64_t)sizeof(float)};
}

/* Sends the parameters that `step` will mix. */
static weft_status gossip_send(wefti_mixer *m, int bucket, int64_t step,
                               const float *params) {
    gossip *self = m->self;
    int buffer = (int)(step % BUFFERS);
    if (self->meeting.neighbours->n_targets == 0) return WEFT_OK;
    int64_t earlier = self->sent_step[buffer][bucket],
            tag = wefti_comm_tag(step, bucket, 8);
    if (earlier >= 0)
        WEFT_TRY(wefti_comm_await(m->comm, wefti_comm_tag(earlier, bucket, 8)));
    unsigned char *message = self->messages[buffer] + self->message_at[bucket];
    wefti_frame frame = frame_of(m, bucket, step, m->comm->rank);
    memcpy(message + WEFTI_FRAME_BYTES, params, (size_t)frame.payload_bytes);
    wefti_frame_encode(&frame, message);
    self->sent_step[buffer][bucket] = step;
    self->sent_s[buffer][bucket] = wefti_now_s();
    int64_t n_bytes = WEFTI_FRAME_BYTES + frame.payload_bytes;
    for (int i = 0; i < self->meeting.neighbours->n_targets; i++)
        WEFT_TRY(wefti_comm_send(m->comm, self->meeting.neighbours->targets[i], tag,
                                 message, n_bytes));
    return WEFT_OK;
}

/* sources[i] <- the parameters of neighbour i; the own ones are where they are. */
static weft_status collect(wefti_mixer *m, int bucket, int64_t step,
                           const float *params) {
    gossip *self = m->self;
    const weft_neighbours *n = self->meeting.neighbours;
    int64_t tag = wefti_comm_tag(step, bucket, 8);
    for (int i = 0; i < n->n_sources; i++) {
        const void *view;
        self->sources[i] = params;
        if (i == n->self) continue;
        wefti_frame frame = frame_of(m, bucket, step, n->sources[i]);
        int64_t n_bytes = WEFTI_FRAME_BYTES + frame.payload_bytes;
        double begin_s = wefti_now_s();
        WEFT_TRY(wefti_comm_receive(m->comm, n->sources[i], tag, n_bytes, &view));
        wefti_mixer_note(m, self->sent_s[step % BUFFERS][bucket], begin_s);
        WEFT_TRY(wefti_frame_check(m->ctx, &frame, view, n_bytes));
        self->sources[i] = (const float *)((const char *)view + WEFTI_FRAME_BYTES);
    }
    return WEFT_OK;
}

/* mixed[n] <- weighted mean of the sources' elements from `at` on; returns the weighted
 * sum of squared distances from it. */
static double mean_strip(const gossip *self, int64_t at, int64_t n, float *mixed) {
    const weft_neighbours *from = self->meeting.neighbours;
    float share = 1.0f / (float)from->n_sources, distance[STRIP] = {0};
    double sum = 0;
    memset(mixed, 0, (size_t)n * sizeof *mixed);
    for (int j = 0; j < from->n_sources; j++) {
        const float *x = self->sources[j] + at;
        float weight = from->mean ? 1 : from->weights_f32[j];
        for (int64_t i = 0; i < n; i++) mixed[i] += weight * x[i];
    }
    for (int64_t i = 0; i < n && from->mean; i++) mixed[i] *= share;
    for (int j = 0; j < from->n_sources; j++) {
        const float *x = self->sources[j] + at;
        float weight = from->mean ? share : from->weights_f32[j];
        for (int64_t i = 0; i < n; i++)
            distance[i] += weight * (x[i] - mixed[i]) * (x[i] - mixed[i]);
    }
    for (int64_t i = 0; i < n; i++) sum += (double)distance[i];
    return sum;
}

/* How much smaller than the distance over all R members the neighbours' weighted variance
 * is on average, if deviations are independent: (1 - sum of w^2) R / (R - 1). */
static double variance_share(const weft_neighbours *from, int R) {
    double squares = 0;
    for (int j = 0; j < from->n_sources; j++)
        squares += from->weights[j] * from->weights[j];
    return R > 1 ? (1 - squares) * R / (R - 1) : 0;
}

static weft_status gossip_mix(wefti_mixer *m, int bucket, int64_t step, float *params) {
    gossip *self = m->self;
    float mixed[STRIP], gamma = (float)m->config.gamma;
    double distance = 0;
    const weft_neighbours *from = self->meeting.neighbours;
    WEFT_TRY(collect(m, bucket, step, params));
    int64_t n = m->buckets[bucket].n_elements;
    for (int64_t at = 0; at < n; at += STRIP) {
        int64_t count = n - at < STRIP ? n - at : STRIP;
        distance += mean_strip(self, at, count, mixed);
        if (gamma == 1)
            memcpy(params + at, mixed, (size_t)count * sizeof *mixed);
        else
            for (int64_t i = 0; i < count; i++)
                params[at + i] += gamma * (mixed[i] - params[at + i]);
    }
    for (int i = 0; i < from->n_sources; i++)
        if (i != from->self)
            wefti_comm_release(m->comm, from->sources[i],
                               wefti_comm_tag(step, bucket, 8));
    self->meeting.distances[bucket] = distance / variance_share(from, m->comm->size);
    return WEFT_OK;
}

static weft_status gossip_create(wefti_mixer *m) {
    gossip *self;
    int n = m->n_buckets;
    WEFT_TRY(wefti_alloc(m->ctx, sizeof *self, "the gossip mixer", &self));
    m->self = self;
    const wefti_mixer_config *c = &m->config;
    self->meeting.send = gossip_send;
    self->meeting.mix = gossip_mix;
    WEFT_TRY(wefti_meeting_init(m, &self->meeting));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, m->comm->size, sizeof(float *), "sources", &self->sources));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(int64_t), "offsets", &self->message_at));
    for (int b = 1; b < n; b++)
        self->message_at[b] = self->message_at[b - 1] +
                              message_bytes(c, &m->buckets[b - 1]);
    for (int i = 0; i < BUFFERS; i++) {
        WEFT_TRY(wefti_alloc_n(m->ctx, all_messages(c, m->buckets, n), 1, "messages",
                               &self->messages[i]));
        WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(int64_t), "steps", &self->sent_step[i]));
        WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(double), "times", &self->sent_s[i]));
        for (int b = 0; b < n; b++) self->sent_step[i][b] = -1;
    }
    return WEFT_OK;
}

/* After a mean of all the neighbours hold the same bits, if nothing follows it. */
static bool gossip_agrees(const wefti_mixer_config *config, int64_t step) {
    bool all = config->average_every > 0 && (step + 1) % config->average_every == 0;
    return config->combine_last && config->gamma == 1 && all;
}

static void gossip_destroy(wefti_mixer *m) {
    gossip *self = m->self;
    if (!self) return;
    wefti_meeting_fini(m, &self->meeting);
    for (int i = 0; i < BUFFERS; i++) {
        wefti_free(m->ctx, self->messages[i]);
        wefti_free(m->ctx, self->sent_step[i]);
        wefti_free(m->ctx, self->sent_s[i]);
    }
    wefti_free(m->ctx, self->message_at);
    wefti_free(m->ctx, self->sources);
    wefti_free(m->ctx, self);
}

const wefti_mixer_ops wefti_mixer_gossip = {
    .name = "gossip",
    .summary = "weighted means with the neighbours of the step, a step in flight",
    .states = gossip_states,
    .wire_bytes = gossip_wire_bytes,
    .message_bytes = message_bytes,
    .work_bytes = gossip_work_bytes,
    .create = gossip_create,
    .prime = wefti_meeting_prime,
    .before = wefti_meeting_before,
    .after = wefti_meeting_after,
    .finish = wefti_meeting_finish,
    .distance = wefti_meeting_distance,
    .agrees = gossip_agrees,
    .destroy = gossip_destroy,
};
