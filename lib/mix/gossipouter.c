/* SPDX-License-Identifier: MIT */
/* DiLoCo whose outer steps are agreed with neighbours, without a collective (after NoLoCo, arXiv
 * 2506.10911, and GASLoC, 2606.11081). theta_i: replica i's parameters; s_i: what they were after
 * its last outer step; v_i: its velocity. Every H steps, for each bucket:
 *
 *     v_i <- mu v_i + theta_i - s_i
 *     y_i <- s_i + eta (theta_i - s_i + mu v_i)         an outer step along its own change
 *     s_i <- sum_j W_ij y_j                             theta_i <- s_i
 *
 * So the mean over the replicas makes the steps of `outer` with delay 0, whatever W is. In NoLoCo
 * and GASLoC the velocity takes in the way to the neighbours, too, and with a large mu replicas
 * part on some topologies (bench/results/equal-steps.md).
 *
 * y lies in the place of the parameters: this is gossip of y in rounds that are H steps apart.
 * Payload: as of gossip. */
#include <string.h>

#include "base/memory.h"
#include "mix/gossip_rounds.h"

enum { START, VELOCITY };

typedef struct gossip_outer {
    wefti_mixer *gossip; /* owned; of y */
} gossip_outer;

/* --- before creation --- */

static const char *const *states(const wefti_mixer_config *config) {
    static const char *const names[] = {"start", "velocity", NULL};
    (void)config;
    return names;
}

static int64_t period(const wefti_mixer_config *config) { return config->outer_every; }

static int64_t work_bytes(const wefti_mixer_config *config, const wefti_bucket *buckets,
                          int n_buckets, int R) {
    wefti_mixer_config c = *config;
    c.kind = wefti_mixer_gossip.name;
    return wefti_mixer_work_bytes(&c, buckets, n_buckets, R);
}

static wefti_touched touched(int R) {
    wefti_touched t = wefti_mixer_gossip.touched(R);
    t.begin += 20;
    t.end += 8;
    return t;
}

/* Velocities differ, and most means are of some. */
static bool agrees(const wefti_mixer_config *config, int64_t step) {
    (void)config, (void)step;
    return false;
}

/* --- creation --- */

static weft_status create(wefti_mixer *m) {
    gossip_outer *self;
    WEFT_TRY(wefti_alloc(m->ctx, sizeof *self, "the gossip_outer mixer", &self));
    m->self = self;
    WEFT_TRY(wefti_mixer_create_of(&wefti_mixer_gossip, m, m->buckets, m->n_buckets,
                                   &self->gossip));
    self->gossip->weights = m->weights; /* which a checkpoint keeps */
    return WEFT_OK;
}

static void destroy(wefti_mixer *m) {
    gossip_outer *self = m->self;
    if (!self) return;
    wefti_mixer_destroy(self->gossip);
    wefti_free(m->ctx, self);
}

/* --- the phases --- */

static wefti_mixer *gossip_of(const wefti_mixer *m) {
    const gossip_outer *self = m->self;
    return self->gossip;
}

/* params <- y */
static void outer_step(const wefti_mixer *m, int bucket, float *params) {
    const float *s = wefti_mixer_state(m, START, bucket);
    float *v = wefti_mixer_state(m, VELOCITY, bucket);
    float mu = (float)m->config.outer_momentum, eta = (float)m->config.outer_lr;
    for (int64_t i = 0; i < m->buckets[bucket].n_elements; i++) {
        float d = params[i] - s[i];
        v[i] = mu * v[i] + d;
        params[i] = s[i] + eta * (d + mu * v[i]);
    }
}

/* s <- params, if these have been mixed in this step. */
static void begin(const wefti_mixer *m, int bucket, int64_t step, const float *params) {
    size_t n_bytes = (size_t)m->buckets[bucket].n_elements * sizeof *params;
    if (wefti_mixer_round(&m->config, step) >= 0)
        memcpy(wefti_mixer_state(m, START, bucket), params, n_bytes);
}

static weft_status prime(wefti_mixer *m, int bucket, int64_t step, const float *params) {
    size_t n_bytes = (size_t)m->buckets[bucket].n_elements * sizeof *params;
    if (step == 0) memcpy(wefti_mixer_state(m, START, bucket), params, n_bytes);
    return wefti_mixer_prime(gossip_of(m), bucket, step, params);
}

static weft_status answer(wefti_mixer *m, int bucket, int64_t step) {
    return wefti_mixer_answer(gossip_of(m), bucket, step);
}

static weft_status before(wefti_mixer *m, int bucket, int64_t step, float *params) {
    WEFT_TRY(wefti_mixer_before(gossip_of(m), bucket, step, params));
    if (!m->config.combine_last) begin(m, bucket, step, params);
    return WEFT_OK;
}

static weft_status after(wefti_mixer *m, int bucket, int64_t step, float *params) {
    if (wefti_gossip_sent_in(&m->config, step) >= 0) outer_step(m, bucket, params);
    return wefti_mixer_after(gossip_of(m), bucket, step, params);
}

static weft_status finish(wefti_mixer *m, int bucket, int64_t step, float *params) {
    WEFT_TRY(wefti_mixer_finish(gossip_of(m), bucket, step, params));
    if (m->config.combine_last) begin(m, bucket, step, params);
    m->times = gossip_of(m)->times;
    return WEFT_OK;
}

static double distance(const wefti_mixer *m) {
    return wefti_gossip_distance(gossip_of(m));
}

static const char *const keys[] = {"topology",    "links",    "order",          "gamma",
                                   "outer_every", "outer_lr", "outer_momentum", NULL};

const wefti_mixer_ops wefti_mixer_gossip_outer = {
    .name = "gossip_outer",
    .keys = keys,
    .meets = true,
    .period = period,
    .touched = touched,
    .states = states,
    .acts = wefti_gossip_acts,
    .two_rounds = wefti_gossip_in_two_rounds,
    .messages = wefti_gossip_messages,
    .message_bytes = wefti_gossip_message_bytes,
    .work_bytes = work_bytes,
    .create = create,
    .prime = prime,
    .answer = answer,
    .before = before,
    .after = after,
    .finish = finish,
    .distance = distance,
    .agrees = agrees,
    .destroy = destroy,
};
