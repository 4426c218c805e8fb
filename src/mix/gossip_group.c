/* SPDX-License-Identifier: MIT */
/* The mean of a group of k >= 3 in two rounds. The bucket is cut into k ranges, range i =
 * [floor(n i / k), floor(n (i + 1) / k)) for the i-th member in ascending order:
 *
 *     1  to each other member i: this rank's parameters in range i
 *     2  to every other member: the mean of this rank's own range
 *
 * so 2 (k - 1)/k copies leave each member instead of k - 1. A range is added in the order
 * of the members by one rank for all: the bits are those of one round, and the same
 * everywhere.
 *
 * Message: head (wire/frame.h), then the range as f32. All of a meeting lie one behind
 * the other, each behind its head; where the own range lies, which nobody is sent, its
 * mean takes its place and is the answer. */
#include <string.h>

#include "base/clock.h"
#include "mix/gossip.h"
#include "wire/frame.h"

enum { STRIP = WEFTI_GOSSIP_STRIP };

bool wefti_gossip_in_two_rounds(const wefti_mixer_config *config,
                                const weft_neighbours *list) {
    bool weighted = weft_topology_describe(config->topology).push_sum;
    return list->mean && list->n_sources >= 3 && !weighted && config->deadline_s == 0;
}

int64_t wefti_gossip_head_bytes(const wefti_mixer_config *config, int R) {
    bool means = config->average_every > 0 || config->consensus_bound > 0;
    bool groups = weft_topology_describe(config->topology).max_sources >= 3;
    return (means || groups ? R : 1) * (int64_t)WEFTI_FRAME_BYTES;
}

/* First element of range i; i = k: the end. */
static int64_t range_at(const weft_neighbours *list, int i, int64_t n) {
    return n * i / list->n_sources;
}

static int64_t range_elements(const weft_neighbours *list, int i, int64_t n) {
    return range_at(list, i + 1, n) - range_at(list, i, n);
}

int64_t wefti_gossip_range_bytes(const weft_neighbours *list, int i, int64_t n_elements) {
    return WEFTI_FRAME_BYTES +
           range_elements(list, i, n_elements) * (int64_t)sizeof(float);
}

static wefti_frame frame_of(const wefti_mixer *m, int bucket, int64_t step, int range) {
    const wefti_gossip *self = m->self;
    int64_t n = range_elements(self->meeting.neighbours, range,
                               m->buckets[bucket].n_elements);
    return (wefti_frame){
        .step = step, .bucket = bucket, .payload_bytes = n * (int64_t)sizeof(float)};
}

/* Where the message with range i lies. */
static unsigned char *message_of(const wefti_mixer *m, int bucket, int64_t step, int i) {
    const wefti_gossip *self = m->self;
    int64_t at = range_at(self->meeting.neighbours, i, m->buckets[bucket].n_elements);
    return wefti_gossip_message(m, bucket, step) + (int64_t)i * WEFTI_FRAME_BYTES +
           at * (int64_t)sizeof(float);
}

weft_status wefti_gossip_group_send(wefti_mixer *m, int bucket, int64_t step,
                                    const float *params) {
    const wefti_gossip *self = m->self;
    const weft_neighbours *list = self->meeting.neighbours;
    int64_t n = m->buckets[bucket].n_elements,
            tag = wefti_comm_tag(step, bucket, WEFTI_GOSSIP_STAGE);
    for (int k = 1; k <= list->n_sources; k++) { /* myself last: the others wait */
        int i = (list->self + k) % list->n_sources;
        unsigned char *message = message_of(m, bucket, step, i);
        wefti_frame frame = frame_of(m, bucket, step, i);
        memcpy(message + WEFTI_FRAME_BYTES, params + range_at(list, i, n),
               (size_t)frame.payload_bytes);
        if (i == list->self) continue;
        frame.kind = WEFTI_FRAME_GROUP_PART;
        frame.sender = m->comm->rank;
        wefti_frame_encode(&frame, message);
        WEFT_TRY(wefti_comm_send(m->comm, list->sources[i], tag, message,
                                 WEFTI_FRAME_BYTES + frame.payload_bytes));
    }
    return WEFT_OK;
}

/* *values: those of a message of source i, until it is released. */
static weft_status receive(wefti_mixer *m, const wefti_frame *frame, int64_t tag,
                           const float **values) {
    const wefti_gossip *self = m->self;
    int64_t n_bytes = WEFTI_FRAME_BYTES + frame->payload_bytes;
    const void *view;
    double begin_s = wefti_now_s();
    WEFT_TRY(wefti_comm_receive(m->comm, frame->sender, tag, n_bytes, &view));
    wefti_mixer_note(m, self->sent_s[frame->step % self->n_buffers][frame->bucket],
                     begin_s);
    WEFT_TRY(wefti_frame_check(m->ctx, frame, view, n_bytes));
    *values = (const float *)((const char *)view + WEFTI_FRAME_BYTES);
    return WEFT_OK;
}

/* sources[i] <- what member i sends for this rank's range; `own` is this rank's. */
static weft_status collect_parts(wefti_mixer *m, int bucket, int64_t step,
                                 const float *own) {
    wefti_gossip *self = m->self;
    const weft_neighbours *list = self->meeting.neighbours;
    for (int i = 0; i < list->n_sources; i++) {
        wefti_frame frame = frame_of(m, bucket, step, list->self);
        frame.kind = WEFTI_FRAME_GROUP_PART;
        frame.sender = list->sources[i];
        self->sources[i] = own;
        if (i == list->self) continue;
        int64_t tag = wefti_comm_tag(step, bucket, WEFTI_GOSSIP_STAGE);
        WEFT_TRY(receive(m, &frame, tag, &self->sources[i]));
    }
    return WEFT_OK;
}

/* mean[n], one of the sources, <- the mean of all. */
static void add_up(const wefti_gossip *self, int64_t n, float *mean) {
    const weft_neighbours *list = self->meeting.neighbours;
    float sum[STRIP], share = 1.0f / (float)list->n_sources;
    for (int64_t at = 0; at < n; at += STRIP) {
        int64_t count = n - at < STRIP ? n - at : STRIP;
        memset(sum, 0, sizeof sum);
        for (int j = 0; j < list->n_sources; j++)
            for (int64_t i = 0; i < count; i++) sum[i] += self->sources[j][at + i];
        for (int64_t i = 0; i < count; i++) mean[at + i] = sum[i] * share;
    }
}

weft_status wefti_gossip_group_answer(wefti_mixer *m, int bucket, int64_t step) {
    wefti_gossip *self = m->self;
    const weft_neighbours *list = self->meeting.neighbours;
    if (self->answered[bucket] == step) return WEFT_OK;
    self->answered[bucket] = step;
    unsigned char *message = message_of(m, bucket, step, list->self);
    float *own = (float *)(void *)(message + WEFTI_FRAME_BYTES);
    wefti_frame frame = frame_of(m, bucket, step, list->self);
    WEFT_TRY(collect_parts(m, bucket, step, own));
    add_up(self, frame.payload_bytes / (int64_t)sizeof(float), own);
    for (int i = 0; i < list->n_sources; i++)
        if (i != list->self)
            wefti_comm_release(m->comm, list->sources[i],
                               wefti_comm_tag(step, bucket, WEFTI_GOSSIP_STAGE));
    frame.kind = WEFTI_FRAME_GROUP_MEAN;
    frame.sender = m->comm->rank;
    wefti_frame_encode(&frame, message);
    self->sent_s[step % self->n_buffers][bucket] = wefti_now_s();
    int first = wefti_meeting_first(list->targets, list->n_targets, m->comm->rank);
    for (int i = 0; i < list->n_targets; i++)
        WEFT_TRY(wefti_comm_send(m->comm, list->targets[(first + i) % list->n_targets],
                                 wefti_comm_tag(step, bucket, WEFTI_GROUP_STAGE), message,
                                 WEFTI_FRAME_BYTES + frame.payload_bytes));
    return WEFT_OK;
}

/* x <- x + gamma (mean - x); returns |x - mean|^2 of before. */
static double pull(int64_t n, float gamma, const float *mean, float *x) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        float off = mean[i] - x[i];
        sum += (double)(off * off);
        x[i] = gamma == 1 ? mean[i] : x[i] + gamma * off;
    }
    return sum;
}

weft_status wefti_gossip_group_mix(wefti_mixer *m, int bucket, int64_t step,
                                   float *params) {
    wefti_gossip *self = m->self;
    const weft_neighbours *list = self->meeting.neighbours;
    int64_t n = m->buckets[bucket].n_elements;
    int64_t tag = wefti_comm_tag(step, bucket, WEFTI_GROUP_STAGE);
    double distance = 0;
    WEFT_TRY(wefti_gossip_group_answer(m, bucket, step));
    for (int i = 0; i < list->n_sources; i++) {
        wefti_frame frame = frame_of(m, bucket, step, i);
        frame.kind = WEFTI_FRAME_GROUP_MEAN;
        frame.sender = list->sources[i];
        const unsigned char *own = message_of(m, bucket, step, i) + WEFTI_FRAME_BYTES;
        const float *mean = (const float *)(const void *)own;
        if (i != list->self) WEFT_TRY(receive(m, &frame, tag, &mean));
        distance += pull(range_elements(list, i, n), (float)m->config.gamma, mean,
                         params + range_at(list, i, n));
        if (i != list->self) wefti_comm_release(m->comm, list->sources[i], tag);
    }
    self->meeting.distances[bucket] = distance /
                                      wefti_meeting_variance_share(
                                          list->n_sources, list->weights, m->comm->size);
    return WEFT_OK;
}
