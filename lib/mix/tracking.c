/* SPDX-License-Identifier: MIT */
/* Gossip with gradient tracking (DIGing, arXiv 1607.03218; DeTAG, arXiv 2006.08085), for nodes
 * whose data differ. Beside parameters x, neighbours mix y, along which the optimizer steps:
 *
 *     y_i(t) = sum_j W_ij y_j(t-1) + g_i(t) - g_i(t-1)     y_i(-1) = g_i(-1) = 0
 *
 * so sum_i y_i(t) = sum_i g_i(t), and each y_i comes close to the mean gradient. y_j(t-1) leaves
 * with the x_j that the optimizer has made of it, so W is that of x_j's gossip round.
 *
 * This is two gossip mixers in one: x of bucket b is its bucket b, y is its bucket B + b of 2 B.
 * Payload: as of gossip, once for x, then for y. */
#include <string.h>

#include "base/memory.h"
#include "mix/gossip_rounds.h"

enum { TRACKED, GRADIENT }; /* y(t-1), g(t-1) */

typedef struct tracking {
    wefti_bucket *buckets; /* [2 B] owned */
    wefti_mixer *gossip;   /* owned; of x and y */
} tracking;

static wefti_mixer_config of_gossip(const wefti_mixer_config *config) {
    wefti_mixer_config c = *config;
    c.kind = wefti_mixer_gossip.name;
    return c;
}

static const char *const *tracking_states(const wefti_mixer_config *config) {
    static const char *const names[] = {"tracked", "gradient", NULL};
    (void)config;
    return names;
}

typedef struct visitor {
    wefti_mixer_visit visit;
    void *user;
} visitor;

static void visit_both(void *user, int peer, int64_t n_bytes) {
    const visitor *v = user;
    v->visit(v->user, peer, 2 * n_bytes); /* x and y */
}

static void tracking_messages(const wefti_mixer_config *config,
                              const wefti_mixer_question *q, const wefti_mixer_act *act,
                              wefti_mixer_visit visit, void *user) {
    visitor v = {visit, user};
    wefti_gossip_messages(config, q, act, visit_both, &v);
}

static wefti_touched tracking_touched(int R) {
    wefti_touched once = wefti_mixer_gossip.touched(R);
    return (wefti_touched){.begin = 2 * once.begin,
                           .combine_peer = 2 * once.combine_peer,
                           .end = 2 * once.end + 20};
}

static int64_t tracking_work_bytes(const wefti_mixer_config *config,
                                   const wefti_bucket *buckets, int n_buckets, int R) {
    wefti_mixer_config c = of_gossip(config);
    return 2 * wefti_mixer_work_bytes(&c, buckets, n_buckets, R);
}

static weft_status check_topology(weft_ctx *ctx, const wefti_mixer_config *config) {
    const weft_topology_facts *facts = weft_topology_describe(config->topology);
    if (!facts->push_sum) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "mixer.topology is %s with mixer.kind tracking, expected one that "
        "needs no push-sum weights: gradients are tracked without them",
        facts->kind);
}

static weft_status tracking_create(wefti_mixer *m) {
    const wefti_mixer_config c = of_gossip(&m->config);
    int n = m->n_buckets;
    tracking *self;
    WEFT_TRY(check_topology(m->ctx, &c));
    WEFT_TRY(wefti_alloc(m->ctx, sizeof *self, "the tracking mixer", &self));
    m->self = self;
    WEFT_TRY(
        wefti_alloc_n(m->ctx, 2 * n, sizeof *self->buckets, "buckets", &self->buckets));
    memcpy(self->buckets, m->buckets, (size_t)n * sizeof *self->buckets);
    memcpy(self->buckets + n, m->buckets, (size_t)n * sizeof *self->buckets);
    return wefti_mixer_create(m->ctx, &c, m->kernels, m->comm, self->buckets, 2 * n,
                              &self->gossip);
}

static void tracking_destroy(wefti_mixer *m) {
    tracking *self = m->self;
    if (!self) return;
    wefti_mixer_destroy(self->gossip);
    WEFTI_FREE(m->ctx, self->buckets, self);
}

/* --- the phases --- */

typedef weft_status (*phase)(wefti_mixer *m, int bucket, int64_t step, float *params);

/* The phase of gossip for x, then for y. */
static weft_status both(wefti_mixer *m, phase act, int bucket, int64_t step,
                        float *params) {
    const tracking *self = m->self;
    WEFT_TRY(act(self->gossip, bucket, step, params));
    WEFT_TRY(act(self->gossip, m->n_buckets + bucket, step,
                 wefti_mixer_state(m, TRACKED, bucket)));
    m->times = self->gossip->times;
    return WEFT_OK;
}

static weft_status tracking_prime(wefti_mixer *m, int bucket, int64_t step,
                                  const float *params) {
    const tracking *self = m->self;
    WEFT_TRY(wefti_mixer_prime(self->gossip, bucket, step, params));
    return wefti_mixer_prime(self->gossip, m->n_buckets + bucket, step,
                             wefti_mixer_state(m, TRACKED, bucket));
}

static weft_status tracking_answer(wefti_mixer *m, int bucket, int64_t step) {
    const tracking *self = m->self;
    WEFT_TRY(wefti_mixer_answer(self->gossip, bucket, step));
    return wefti_mixer_answer(self->gossip, m->n_buckets + bucket, step);
}

static weft_status tracking_before(wefti_mixer *m, int bucket, int64_t step,
                                   float *params) {
    return both(m, wefti_mixer_before, bucket, step, params);
}

static weft_status tracking_direct(wefti_mixer *m, int bucket, int64_t step,
                                   float *gradient) {
    float *y = wefti_mixer_state(m, TRACKED, bucket);
    float *before = wefti_mixer_state(m, GRADIENT, bucket);
    int64_t mixed = step - m->config.combine_last; /* the last round of y */
    if (wefti_gossip_is_learner(m, m->comm->rank, mixed)) {
        /* It sent nothing: the others' hold nothing of it, so it begins anew. */
        size_t n_bytes = (size_t)m->buckets[bucket].n_elements * sizeof *y;
        memset(y, 0, n_bytes);
        memset(before, 0, n_bytes);
    }
    for (int64_t i = 0; i < m->buckets[bucket].n_elements; i++) {
        float g = gradient[i];
        y[i] += g - before[i];
        before[i] = g;
        gradient[i] = y[i];
    }
    return WEFT_OK;
}

static weft_status tracking_after(wefti_mixer *m, int bucket, int64_t step,
                                  float *params) {
    return both(m, wefti_mixer_after, bucket, step, params);
}

static weft_status tracking_finish(wefti_mixer *m, int bucket, int64_t step,
                                   float *params) {
    return both(m, wefti_mixer_finish, bucket, step, params);
}

static double tracking_distance(const wefti_mixer *m) {
    const tracking *self = m->self;
    const wefti_gossip *gossip = self->gossip->self;
    double sum = 0;
    for (int b = 0; b < m->n_buckets; b++) sum += gossip->distances[b];
    return sum;
}

static int64_t tracking_message_bytes(const wefti_mixer_config *config,
                                      const wefti_bucket *bucket) {
    return 2 * wefti_gossip_message_bytes(config, bucket);
}

static const char *const tracking_keys[] = {"topology", "links",         "order",
                                            "gamma",    "average_every", NULL};

const wefti_mixer_ops wefti_mixer_tracking = {
    .name = "tracking",
    .keys = tracking_keys,
    .meets = true,
    .touched = tracking_touched,
    .states = tracking_states,
    .acts = wefti_gossip_acts,
    .two_rounds = wefti_gossip_in_two_rounds,
    .messages = tracking_messages,
    .message_bytes = tracking_message_bytes,
    .work_bytes = tracking_work_bytes,
    .create = tracking_create,
    .prime = tracking_prime,
    .answer = tracking_answer,
    .before = tracking_before,
    .direct = tracking_direct,
    .after = tracking_after,
    .finish = tracking_finish,
    .distance = tracking_distance,
    .agrees = wefti_gossip_agrees,
    .destroy = tracking_destroy,
};
