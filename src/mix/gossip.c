/* SPDX-License-Identifier: MIT */
/* Gossip (decentralized Adam, arXiv 2410.11998): replicas take weighted means with their
 * neighbours of the step (topology/), docs/methods.md:
 *
 *     awc   x_i(t+1) = sum_j W_ij(t) x_j(t) - eta u_i(t)     u_i: gradient at x_i(t)
 *     atc   x_i(t+1) = sum_j W_ij(t) (x_j(t) - eta u_j(t))
 *
 * awc (adapt while communicating) sends x(t+1) after the optimizer of step t and reads
 * the neighbours' x before the optimizer of step t + 1: an exchange has a whole step to
 * travel. atc (adapt then combine) sends and reads within the step. With gamma < 1 only
 * that share of the way to the mean is gone. Push-sum weights, where the topology needs
 * them: pushsum.c. The mean of three or more: gossip_group.c.
 *
 * With a deadline (SALF, arXiv 2403.18375) a meeting waits that long for its messages,
 * and the weights of those that are there are scaled to add up to one (stream.h).
 *
 * Message: head (wire/frame.h), then the bucket's parameters as f32. What is sent lies in
 * one of two buffers, so that a slow reader holds up nobody for a step; with a deadline
 * in whichever of four is free, or else nothing is sent. */
#include "mix/gossip.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "mix/mixers.h"
#include "wire/frame.h"

enum { STRIP = WEFTI_GOSSIP_STRIP };

/* --- before it is created --- */

static const char *const *gossip_states(const wefti_mixer_config *config) {
    static const char *const none[] = {NULL};
    (void)config;
    return none;
}

static int64_t whole_bytes(const wefti_bucket *bucket) {
    return WEFTI_FRAME_BYTES + bucket->n_elements * (int64_t)sizeof(float);
}

static int64_t gossip_message_bytes(const wefti_mixer_config *config,
                                    const wefti_bucket *bucket) {
    (void)config;
    return whole_bytes(bucket);
}

static int gossip_acts(const wefti_mixer_config *config, const wefti_mixer_question *q,
                       wefti_mixer_act acts[WEFTI_MIXER_ACTS]) {
    return wefti_meeting_acts(config, q, wefti_gossip_in_two_rounds, acts);
}

/* A range has its place in the list of sources; its owner adds it up and answers. */
static void gossip_messages(const wefti_mixer_config *config,
                            const wefti_mixer_question *q, const wefti_mixer_act *act,
                            wefti_mixer_visit visit, void *user) {
    const weft_neighbours *list = q->room;
    int64_t n = q->bucket->n_elements;
    wefti_meeting_foresee(config, q->from, act->exchange, q->room);
    bool two = wefti_gossip_in_two_rounds(config, list);
    bool to_targets = act->sends && !(two && act->round == 0);
    bool about_me = act->sends == (act->round == 1);
    const int *others = to_targets ? list->targets : list->sources;
    int n_others = to_targets ? list->n_targets : list->n_sources;
    int first = wefti_meeting_first(others, n_others, list->sources[list->self]);
    for (int k = 0; k < n_others; k++) {
        int i = (first + k) % n_others;
        if (!to_targets && i == list->self) continue;
        int range = about_me ? list->self : i;
        visit(user, others[i],
              two ? wefti_gossip_range_bytes(list, range, n) : whole_bytes(q->bucket));
    }
}

static int buffers_of(const wefti_mixer_config *config) {
    return config->deadline_s > 0 ? WEFTI_PATIENT_BUFFERS : WEFTI_GOSSIP_BUFFERS;
}

static int64_t room_bytes(const wefti_mixer_config *config, const wefti_bucket *bucket,
                          int R) {
    return wefti_gossip_head_bytes(config, R) +
           bucket->n_elements * (int64_t)sizeof(float);
}

static int64_t gossip_work_bytes(const wefti_mixer_config *config,
                                 const wefti_bucket *buckets, int n_buckets, int R) {
    int64_t n_bytes = 0;
    for (int b = 0; b < n_buckets; b++) n_bytes += room_bytes(config, &buckets[b], R);
    n_bytes *= buffers_of(config);
    return n_bytes + (config->deadline_s > 0 ? wefti_streams_bytes(n_buckets, R) : 0);
}

/* After a mean of all the neighbours hold the same bits, if nothing follows it and nobody
 * was late. */
static bool gossip_agrees(const wefti_mixer_config *config, int64_t step) {
    return config->combine_last && config->gamma == 1 && config->deadline_s == 0 &&
           wefti_mixer_average_is_due(config, step);
}

/* --- creation --- */

static weft_status check_knobs(weft_ctx *ctx, const wefti_mixer_config *c) {
    weft_topology_facts facts = weft_topology_describe(c->topology);
    if (c->deadline_s > 0 && facts.push_sum)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.deadline is %g s with mixer.topology %s, expected 0: "
                             "its weights are right only if every message arrives",
                             c->deadline_s, facts.kind);
    return WEFT_OK;
}

static weft_status make_buffers(wefti_mixer *m) {
    wefti_gossip *self = m->self;
    int n = m->n_buckets;
    self->n_buffers = buffers_of(&m->config);
    WEFT_TRY(wefti_alloc_n(m->ctx, n + 1, sizeof(int64_t), "offsets", &self->message_at));
    for (int b = 0; b < n; b++)
        self->message_at[b + 1] = self->message_at[b] +
                                  room_bytes(&m->config, &m->buckets[b], m->comm->size);
    for (int i = 0; i < self->n_buffers; i++) {
        WEFT_TRY(wefti_alloc_n(m->ctx, self->message_at[n], 1, "messages",
                               &self->messages[i]));
        WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(int64_t), "steps", &self->sent_step[i]));
        WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(double), "times", &self->sent_s[i]));
        for (int b = 0; b < n; b++) self->sent_step[i][b] = -1;
    }
    return WEFT_OK;
}

static weft_status gossip_send(wefti_mixer *m, int bucket, int64_t step,
                               const float *params);
static weft_status gossip_mix(wefti_mixer *m, int bucket, int64_t step, float *params);

static weft_status gossip_create(wefti_mixer *m) {
    wefti_gossip *self;
    int R = m->comm->size, n = m->n_buckets;
    WEFT_TRY(check_knobs(m->ctx, &m->config));
    WEFT_TRY(wefti_alloc(m->ctx, sizeof *self, "the gossip mixer", &self));
    m->self = self;
    self->meeting.send = gossip_send;
    self->meeting.mix = gossip_mix;
    WEFT_TRY(wefti_meeting_init(m, &self->meeting));
    WEFT_TRY(wefti_pushsum_init(m, &self->pushsum));
    if (m->config.deadline_s > 0) WEFT_TRY(wefti_streams_init(m, &self->streams));
    WEFT_TRY(make_buffers(m));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(float *), "sources", &self->sources));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(double), "weights", &self->row));
    WEFT_TRY(wefti_alloc_n(m->ctx, R, sizeof(float), "weights", &self->rounded));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(int64_t), "steps", &self->answered));
    for (int b = 0; b < n; b++) self->answered[b] = -1;
    return WEFT_OK;
}

static void gossip_destroy(wefti_mixer *m) {
    wefti_gossip *self = m->self;
    if (!self) return;
    wefti_meeting_fini(m, &self->meeting);
    wefti_pushsum_fini(m, &self->pushsum);
    wefti_streams_fini(m, &self->streams);
    for (int i = 0; i < self->n_buffers; i++) {
        wefti_free(m->ctx, self->messages[i]);
        wefti_free(m->ctx, self->sent_step[i]);
        wefti_free(m->ctx, self->sent_s[i]);
    }
    void *blocks[] = {self->message_at, self->sources,  self->row,
                      self->rounded,    self->answered, self};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        wefti_free(m->ctx, blocks[i]);
}

/* --- sending --- */

unsigned char *wefti_gossip_message(const wefti_mixer *m, int bucket, int64_t step) {
    const wefti_gossip *self = m->self;
    return self->messages[step % self->n_buffers] + self->message_at[bucket];
}

/* Waits until the place is free, and takes it. */
static weft_status take(wefti_mixer *m, int bucket, int64_t step) {
    wefti_gossip *self = m->self;
    int buffer = (int)(step % self->n_buffers);
    int64_t earlier = self->sent_step[buffer][bucket];
    for (int stage = WEFTI_GOSSIP_STAGE; stage <= WEFTI_GROUP_STAGE && earlier >= 0;
         stage++)
        WEFT_TRY(wefti_comm_await(m->comm, wefti_comm_tag(earlier, bucket, stage)));
    self->sent_step[buffer][bucket] = step;
    return WEFT_OK;
}

/* A place that is free now, or NULL. */
static unsigned char *find_free(const wefti_mixer *m, int bucket) {
    const wefti_gossip *self = m->self;
    for (int i = 0; i < self->n_buffers; i++) {
        unsigned char *message = self->messages[i] + self->message_at[bucket];
        if (!wefti_comm_holds(m->comm, message)) return message;
    }
    return NULL;
}

static wefti_frame frame_of(const wefti_mixer *m, int bucket, int64_t step, int sender) {
    return (wefti_frame){.kind = WEFTI_FRAME_GOSSIP,
                         .step = step,
                         .bucket = bucket,
                         .sender = sender,
                         .payload_bytes = whole_bytes(&m->buckets[bucket]) -
                                          WEFTI_FRAME_BYTES};
}

static weft_status send_whole(wefti_mixer *m, const wefti_frame *frame,
                              const float *params, unsigned char *message) {
    wefti_gossip *self = m->self;
    const weft_neighbours *to = self->meeting.neighbours;
    int64_t tag = wefti_comm_tag(frame->step, frame->bucket, WEFTI_GOSSIP_STAGE);
    int64_t n_bytes = WEFTI_FRAME_BYTES + frame->payload_bytes;
    memcpy(message + WEFTI_FRAME_BYTES, params, (size_t)frame->payload_bytes);
    wefti_frame_encode(frame, message);
    int first = wefti_meeting_first(to->targets, to->n_targets, m->comm->rank);
    for (int i = 0; i < to->n_targets; i++) {
        int target = to->targets[(first + i) % to->n_targets];
        if (m->config.deadline_s > 0)
            WEFT_TRY(wefti_stream_send(m, &self->streams, target, frame, message));
        else
            WEFT_TRY(wefti_comm_send(m->comm, target, tag, message, n_bytes));
    }
    return WEFT_OK;
}

/* Sends the parameters that `step` will mix. */
static weft_status gossip_send(wefti_mixer *m, int bucket, int64_t step,
                               const float *params) {
    wefti_gossip *self = m->self;
    const weft_neighbours *to = self->meeting.neighbours;
    wefti_frame frame = frame_of(m, bucket, step, m->comm->rank);
    bool waits = m->config.deadline_s == 0;
    unsigned char *message = waits ? wefti_gossip_message(m, bucket, step)
                                   : find_free(m, bucket);
    if (to->n_targets == 0 || !message) return WEFT_OK;
    if (waits) WEFT_TRY(take(m, bucket, step));
    self->sent_s[step % self->n_buffers][bucket] = wefti_now_s();
    if (wefti_gossip_in_two_rounds(&m->config, to))
        return wefti_gossip_group_send(m, bucket, step, params);
    return send_whole(m, &frame, params, message);
}

/* Before the gradients of a step are there: the second round of what was sent in the step
 * before. */
static weft_status gossip_turn(wefti_mixer *m, int bucket, int64_t step) {
    const wefti_gossip *self = m->self;
    if (m->config.combine_last) return WEFT_OK;
    wefti_meeting_look_up(m, m->comm->rank, step, self->meeting.neighbours);
    bool due = wefti_gossip_in_two_rounds(&m->config, self->meeting.neighbours);
    return due ? wefti_gossip_group_answer(m, bucket, step) : WEFT_OK;
}

/* --- mixing --- */

/* Without a deadline. *view: the message, which has to be this one. */
static weft_status receive_whole(wefti_mixer *m, const wefti_frame *frame,
                                 const void **view) {
    int64_t tag = wefti_comm_tag(frame->step, frame->bucket, WEFTI_GOSSIP_STAGE);
    int64_t n_bytes = WEFTI_FRAME_BYTES + frame->payload_bytes;
    WEFT_TRY(wefti_comm_receive(m->comm, frame->sender, tag, n_bytes, view));
    return wefti_frame_check(m->ctx, frame, *view, n_bytes);
}

/* *values: the sender's parameters, or NULL if they are not there by `moment_s`. */
static weft_status receive(wefti_mixer *m, const wefti_frame *frame, double moment_s,
                           const float **values) {
    wefti_gossip *self = m->self;
    wefti_stream_ask ask = {frame->bucket, frame->sender, frame->step, moment_s};
    const void *view;
    double begin_s = wefti_now_s();
    *values = NULL;
    if (m->config.deadline_s > 0)
        WEFT_TRY(wefti_stream_receive(m, &self->streams, &ask, &view));
    else
        WEFT_TRY(receive_whole(m, frame, &view));
    if (!view) {
        m->waited_s += wefti_now_s() - begin_s;
        return WEFT_OK;
    }
    wefti_mixer_note(m, self->sent_s[frame->step % self->n_buffers][frame->bucket],
                     begin_s);
    *values = (const float *)((const char *)view + WEFTI_FRAME_BYTES);
    return WEFT_OK;
}

static void release(wefti_mixer *m, int bucket, int64_t step, int source) {
    wefti_gossip *self = m->self;
    int64_t tag = wefti_comm_tag(step, bucket, WEFTI_GOSSIP_STAGE);
    if (m->config.deadline_s > 0)
        wefti_stream_release(m, &self->streams, bucket, source);
    else
        wefti_comm_release(m->comm, source, tag);
}

/* sources[i] <- the parameters of neighbour i, NULL if they are late; the own ones are
 * where they are. *present: how many there are. */
static weft_status collect(wefti_mixer *m, int bucket, int64_t step, const float *params,
                           int *present) {
    wefti_gossip *self = m->self;
    const weft_neighbours *from = self->meeting.neighbours;
    double moment_s = wefti_now_s() + m->config.deadline_s;
    *present = 0;
    for (int i = 0; i < from->n_sources; i++) {
        self->sources[i] = params;
        if (i != from->self) {
            wefti_frame frame = frame_of(m, bucket, step, from->sources[i]);
            WEFT_TRY(receive(m, &frame, moment_s, &self->sources[i]));
        }
        *present += self->sources[i] != NULL;
    }
    return WEFT_OK;
}

/* How a meeting's sources are added up. */
typedef struct blend {
    int n;                 /* sources */
    bool mean;             /* of all of them: add, then divide */
    const double *weights; /* adding up to one */
    const float *rounded;
} blend;

/* As planned, or with push-sum weights, or with the weights of those who are there. */
static blend choose_weights(wefti_mixer *m, int64_t step, int present) {
    wefti_gossip *self = m->self;
    const weft_neighbours *from = self->meeting.neighbours;
    blend how = {from->n_sources, from->mean, from->weights, from->weights_f32};
    double sum = 0;
    if (m->weights) how.weights = wefti_pushsum_row(m, &self->pushsum, step);
    if (!m->weights && present == from->n_sources) return how;
    for (int i = 0; i < how.n; i++) sum += self->sources[i] ? how.weights[i] : 0;
    for (int i = 0; i < how.n; i++)
        self->row[i] = self->sources[i] ? how.weights[i] / sum : 0;
    wefti_meeting_round(how.n, self->row, self->rounded);
    return (blend){how.n, false, self->row, self->rounded};
}

/* mixed[n] <- weighted mean of the sources' elements from `at` on; returns the weighted
 * sum of squared distances from it. */
static double mean_strip(const wefti_gossip *self, const blend *how, int64_t at,
                         int64_t n, float *mixed) {
    float share = 1.0f / (float)how->n, distance[STRIP] = {0};
    double sum = 0;
    memset(mixed, 0, (size_t)n * sizeof *mixed);
    for (int j = 0; j < how->n; j++) {
        if (!self->sources[j]) continue;
        const float *x = self->sources[j] + at;
        float weight = how->mean ? 1 : how->rounded[j];
        for (int64_t i = 0; i < n; i++) mixed[i] += weight * x[i];
    }
    for (int64_t i = 0; i < n && how->mean; i++) mixed[i] *= share;
    for (int j = 0; j < how->n; j++) {
        if (!self->sources[j]) continue;
        const float *x = self->sources[j] + at;
        float weight = how->mean ? share : how->rounded[j];
        for (int64_t i = 0; i < n; i++)
            distance[i] += weight * (x[i] - mixed[i]) * (x[i] - mixed[i]);
    }
    for (int64_t i = 0; i < n; i++) sum += (double)distance[i];
    return sum;
}

/* params <- their way to the weighted mean; returns the weighted sum of squares. Push-sum
 * weights have gamma in them. */
static double blend_bucket(wefti_mixer *m, const blend *how, int64_t n, float *params) {
    float mixed[STRIP], gamma = m->weights ? 1 : (float)m->config.gamma;
    double distance = 0;
    for (int64_t at = 0; at < n; at += STRIP) {
        int64_t count = n - at < STRIP ? n - at : STRIP;
        distance += mean_strip(m->self, how, at, count, mixed);
        if (gamma == 1)
            memcpy(params + at, mixed, (size_t)count * sizeof *mixed);
        else
            for (int64_t i = 0; i < count; i++)
                params[at + i] += gamma * (mixed[i] - params[at + i]);
    }
    return distance;
}

static weft_status gossip_mix(wefti_mixer *m, int bucket, int64_t step, float *params) {
    wefti_gossip *self = m->self;
    const weft_neighbours *from = self->meeting.neighbours;
    int present;
    if (m->config.deadline_s > 0)
        WEFT_TRY(wefti_streams_catch_up(m, &self->streams, bucket, step));
    if (wefti_gossip_in_two_rounds(&m->config, from))
        return wefti_gossip_group_mix(m, bucket, step, params);
    WEFT_TRY(collect(m, bucket, step, params, &present));
    blend how = choose_weights(m, step, present);
    if (present == 1) return WEFT_OK;
    double distance = blend_bucket(m, &how, m->buckets[bucket].n_elements, params);
    for (int i = 0; i < from->n_sources; i++)
        if (i != from->self && self->sources[i])
            release(m, bucket, step, from->sources[i]);
    self->meeting.distances[bucket] = distance / wefti_meeting_variance_share(
                                                     how.n, how.weights, m->comm->size);
    return WEFT_OK;
}

const wefti_mixer_ops wefti_mixer_gossip = {
    .name = "gossip",
    .summary = "weighted means with the neighbours of the step, a step in flight",
    .states = gossip_states,
    .acts = gossip_acts,
    .messages = gossip_messages,
    .message_bytes = gossip_message_bytes,
    .work_bytes = gossip_work_bytes,
    .create = gossip_create,
    .prime = wefti_meeting_prime,
    .turn = gossip_turn,
    .before = wefti_meeting_before,
    .after = wefti_meeting_after,
    .finish = wefti_meeting_finish,
    .distance = wefti_meeting_distance,
    .agrees = gossip_agrees,
    .destroy = gossip_destroy,
};
