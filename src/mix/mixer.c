/* SPDX-License-Identifier: MIT */
/* The front of all mixers: creation, state arrays, dispatch. */
#include "mix/mixer.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

const wefti_mixer_ops *wefti_mixer_find(const char *kind) {
    for (int i = 0; wefti_mixer_registry[i]; i++)
        if (strcmp(wefti_mixer_registry[i]->name, kind) == 0)
            return wefti_mixer_registry[i];
    return NULL;
}

int64_t wefti_mixer_period(const wefti_mixer_config *config) {
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    return ops->period ? ops->period(config) : 1;
}

typedef struct total {
    int peer;
    int64_t n_bytes;
} total;

static void add_message(void *user, int peer, int64_t n_bytes) {
    total *t = user;
    if (peer == t->peer) t->n_bytes += n_bytes;
}

int64_t wefti_mixer_wire_bytes(const wefti_mixer_config *config,
                               const wefti_mixer_question *q) {
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    wefti_mixer_act acts[WEFTI_MIXER_ACTS];
    total sent = {q->to, 0};
    int n = ops->acts(config, q, acts);
    for (int i = 0; i < n; i++)
        if (acts[i].sends) ops->messages(config, q, &acts[i], add_message, &sent);
    return sent.n_bytes;
}

static weft_status make_known(wefti_mixer *m) {
    const wefti_mixer_config *c = &m->config;
    if (!c->topology) return WEFT_OK;
    weft_topology_facts facts = weft_topology_describe(c->topology);
    int n_control = c->consensus_bound > 0 ? WEFTI_CONTROL_STEPS : 0;
    m->n_known = n_control + (facts.push_sum ? (int)facts.members : 0);
    if (m->n_known == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(m->ctx, m->n_known, sizeof(double), "mixer state", &m->known));
    if (n_control > 0) m->control = m->known;
    if (facts.push_sum) m->weights = m->known + n_control;
    for (int i = n_control; i < m->n_known; i++) m->known[i] = 1;
    return WEFT_OK;
}

static weft_status fill(wefti_mixer *m) {
    int64_t n = 0;
    WEFT_TRY(make_known(m));
    WEFT_TRY(wefti_alloc_n(m->ctx, m->n_buckets, sizeof(int64_t), "mixer state",
                           &m->bucket_at));
    for (int b = 0; b < m->n_buckets; b++) {
        m->bucket_at[b] = n;
        n += m->buckets[b].n_elements;
    }
    for (const char *const *name = m->ops->states(&m->config); *name;
         name++, m->n_states++)
        WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(float), "mixer state",
                               &m->state[m->n_states]));
    return m->ops->create(m);
}

weft_status wefti_mixer_create(weft_ctx *ctx, const wefti_mixer_config *config,
                               const wefti_kernels *kernels, wefti_comm *comm,
                               const wefti_bucket *buckets, int n_buckets,
                               wefti_mixer **out) {
    *out = NULL;
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    if (!ops)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown mixer '%s'", config->kind);
    wefti_mixer *m;
    WEFT_TRY(wefti_alloc(ctx, sizeof *m, "the mixer", &m));
    *m = (wefti_mixer){.ops = ops,
                       .ctx = ctx,
                       .kernels = kernels,
                       .comm = comm,
                       .config = *config,
                       .n_buckets = n_buckets,
                       .buckets = buckets};
    weft_status status = fill(m);
    if (status != WEFT_OK) {
        wefti_mixer_destroy(m);
        return status;
    }
    *out = m;
    return WEFT_OK;
}

void wefti_mixer_destroy(wefti_mixer *m) {
    if (!m) return;
    m->ops->destroy(m);
    for (int i = 0; i < m->n_states; i++) wefti_free(m->ctx, m->state[i]);
    wefti_free(m->ctx, m->known);
    wefti_free(m->ctx, m->bucket_at);
    wefti_free(m->ctx, m);
}

weft_status wefti_mixer_prime(wefti_mixer *m, int bucket, int64_t step,
                              const float *params) {
    return m->ops->prime(m, bucket, step, params);
}

weft_status wefti_mixer_answer(wefti_mixer *m, int bucket, int64_t step) {
    return m->ops->answer ? m->ops->answer(m, bucket, step) : WEFT_OK;
}

weft_status wefti_mixer_before(wefti_mixer *m, int bucket, int64_t step, float *params) {
    return m->ops->before(m, bucket, step, params);
}

weft_status wefti_mixer_after(wefti_mixer *m, int bucket, int64_t step, float *params) {
    return m->ops->after(m, bucket, step, params);
}

weft_status wefti_mixer_finish(wefti_mixer *m, int bucket, int64_t step, float *params) {
    return m->ops->finish(m, bucket, step, params);
}

void wefti_mixer_average_all(wefti_mixer *m, int64_t step, bool all) {
    if (m->control) m->control[step % WEFTI_CONTROL_STEPS] = all ? 1 : 0;
}

bool wefti_mixer_average_is_due(const wefti_mixer_config *config, int64_t step) {
    return config->average_every > 0 && (step + 1) % config->average_every == 0;
}

double wefti_mixer_gamma(const wefti_mixer_config *c, int64_t step) {
    int64_t first = (int64_t)(c->gamma_start * (double)c->steps);
    if (c->gamma_power == 0 || step <= first) return c->gamma;
    double from = c->rate(c->rate_user, first), to = c->rate(c->rate_user, step);
    return to < from ? c->gamma * pow(to / from, c->gamma_power) : c->gamma;
}

bool wefti_mixer_averages_all(const wefti_mixer *m, int64_t step) {
    bool decided = m->control && m->control[step % WEFTI_CONTROL_STEPS] > 0;
    return decided || wefti_mixer_average_is_due(&m->config, step);
}

float *wefti_mixer_state(const wefti_mixer *m, int i, int bucket) {
    return m->state[i] + m->bucket_at[bucket];
}
