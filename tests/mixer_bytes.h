/* SPDX-License-Identifier: MIT */
/* What a mixer says that it will send, added up from its acts and their messages, beside what
 * the backend counted. */
#pragma once

#include "mix/mixer.h"
#include "ranks.h"

typedef struct message_bytes {
    int to; /* -1: everybody */
    int64_t n_bytes;
} message_bytes;

static inline void add_message_bytes(void *user, int peer, int64_t n_bytes) {
    message_bytes *sum = user;
    if (sum->to < 0 || peer == sum->to) sum->n_bytes += n_bytes;
}

/* Payload bytes that rank q->from sends to a rank, or (-1) to all, for this bucket in this
 * step. */
static inline int64_t mixer_bytes(const wefti_mixer_config *config,
                                  const wefti_mixer_question *q, int to) {
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    wefti_mixer_act acts[WEFTI_MIXER_ACTS];
    message_bytes sum = {to, 0};
    int n = ops->acts(config, q, acts);
    for (int i = 0; i < n; i++)
        if (acts[i].sends) ops->messages(config, q, &acts[i], add_message_bytes, &sum);
    return sum.n_bytes;
}

/* The same for all buckets of a mixer. */
static inline int64_t predict(const wefti_mixer *m, weft_neighbours *room, int64_t step) {
    int64_t n_bytes = 0;
    wefti_mixer_question q = {.n_buckets = m->n_buckets,
                              .R = m->comm->size,
                              .from = m->comm->rank,
                              .step = step,
                              .room = room};
    for (q.number = 0; q.number < m->n_buckets; q.number++) {
        q.bucket = &m->buckets[q.number];
        n_bytes += mixer_bytes(&m->config, &q, -1);
    }
    return n_bytes;
}

/* Bytes that this rank sent so far. */
static inline int64_t sent(const rank_env *env) {
    wefti_traffic traffic;
    wefti_comm_traffic(env->control, &traffic);
    return traffic.bytes_out[WEFTI_LINK_WIRE];
}
