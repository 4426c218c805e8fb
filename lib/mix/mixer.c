/* SPDX-License-Identifier: MIT */
/* The front of all mixers: creation, state arrays, the driver, dispatch.
 *
 *     a mixer has         m->driver                          its memory
 *     driver, room        made here, with room for all       counted here, plus work_bytes
 *     a collective        NULL; its own in `create`          work_bytes
 *     neither             NULL; nothing is exchanged         none */
#include "mix/mixer.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory.h"
#include "mix/meetings.h"

#define WEFTI_KIND(name, summary) &wefti_mixer_##name,
const wefti_mixer_ops *const wefti_mixer_registry[] = {
#include "mix/mixers.def"
    NULL,
};
#undef WEFTI_KIND

const wefti_mixer_ops *wefti_mixer_find(const char *kind) {
    for (int i = 0; wefti_mixer_registry[i]; i++) /* a job's is the name itself */
        if (wefti_mixer_registry[i]->name == kind) return wefti_mixer_registry[i];
    for (int i = 0; wefti_mixer_registry[i]; i++)
        if (strcmp(wefti_mixer_registry[i]->name, kind) == 0)
            return wefti_mixer_registry[i];
    return NULL;
}

int64_t wefti_mixer_period(const wefti_mixer_config *config) {
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    return ops->period ? ops->period(config) : 1;
}

int64_t wefti_mixer_round(const wefti_mixer_config *config, int64_t step) {
    int64_t H = wefti_mixer_period(config), at = step + config->combine_last;
    return at % H == 0 ? at / H - config->combine_last : -1;
}

static weft_status make_known(wefti_mixer *m) {
    const wefti_mixer_config *c = &m->config;
    if (!c->topology) return WEFT_OK;
    weft_topology_facts facts = *weft_topology_describe(c->topology);
    int n_control = c->consensus_bound > 0 ? WEFTI_CONTROL_STEPS : 0;
    int n_pairs = m->ops->keeps_partners ? WEFTI_PAIRS_KNOWN : 0;
    m->n_known = n_control + n_pairs + (facts.push_sum ? (int)facts.members : 0);
    if (m->n_known == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(m->ctx, m->n_known, sizeof(double), "mixer state", &m->known));
    if (n_control > 0) m->control = m->known;
    if (n_pairs > 0) m->pairs = m->known + n_control;
    if (n_pairs > 0) wefti_pairs_init(m, -1);
    if (!facts.push_sum) return WEFT_OK;
    m->weights = m->known + n_control + n_pairs;
    for (int i = 0; i < facts.members; i++) m->weights[i] = 1;
    return WEFT_OK;
}

bool wefti_mixer_has_met(const wefti_mixer *m) {
    if (!m->pairs) return true;
    double members = (double)weft_topology_describe(m->config.topology)->members;
    return m->pairs[WEFTI_PAIRS_MEMBERS] == members;
}

static int64_t elements(const wefti_mixer *m) {
    int last = m->n_buckets - 1;
    return m->bucket_at[last] + m->buckets[last].n_elements;
}

void wefti_mixer_meet_anew(wefti_mixer *m, int64_t step) {
    if (!m->pairs && !m->ops->direct) return;
    for (int i = 0; i < m->n_states; i++)
        memset(m->state[i], 0, (size_t)elements(m) * sizeof(float));
    if (m->pairs) wefti_pairs_init(m, step);
}

/* Makes the driver, with room for every bucket's messages. */
static weft_status open_driver(wefti_mixer *m) {
    wefti_driver_setup setup = m->ops->driver(&m->config);
    int64_t room[WEFTI_DRIVER_ROUNDS];
    setup.ctx = m->ctx;
    setup.comm = m->comm;
    setup.self = m;
    setup.times = &m->times;
    setup.stage = WEFTI_MIXER_STAGE;
    setup.n_buckets = m->n_buckets;
    setup.steps = m->config.steps;
    WEFT_TRY(wefti_driver_create(&setup, &m->driver));
    for (int b = 0; b < m->n_buckets; b++) {
        m->ops->room(&m->config, &m->buckets[b], m->comm->size, room);
        WEFT_TRY(wefti_driver_open(m->driver, b, room));
    }
    return WEFT_OK;
}

int64_t wefti_mixer_work_bytes(const wefti_mixer_config *config,
                               const wefti_bucket *buckets, int n_buckets, int R) {
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    int64_t room[WEFTI_DRIVER_ROUNDS], n_bytes = 0;
    if (ops->work_bytes) n_bytes = ops->work_bytes(config, buckets, n_buckets, R);
    if (!ops->driver) return n_bytes;
    wefti_driver_setup setup = ops->driver(config);
    for (int b = 0; b < n_buckets; b++) {
        if (b == 0 || !wefti_bucket_is_like(&buckets[b - 1], &buckets[b]))
            ops->room(config, &buckets[b], R, room);
        n_bytes += wefti_driver_bucket_bytes(room, setup.n_buffers);
    }
    bool patient = setup.deadline_s > 0;
    return n_bytes + wefti_driver_bytes(n_buckets, setup.n_buffers, patient, R);
}

static weft_status make_parcels(wefti_mixer *m) {
    int each = m->config.partners > 2 ? m->config.partners : 2;
    if (!m->ops->parcels)
        return weft_ctx_fail(m->ctx, WEFT_ERR_CONFIG,
                             "mixer.kind %s has nothing that a program could hold and "
                             "code; expected outer, sparse_outer or choco",
                             m->config.kind);
    WEFT_TRY(wefti_alloc_n(m->ctx, (int64_t)m->n_buckets * each, sizeof *m->outgoing,
                           "parcels", &m->outgoing));
    return wefti_alloc_n(m->ctx, (int64_t)m->n_buckets * each, sizeof *m->incoming,
                         "parcels", &m->incoming);
}

weft_status wefti_mixer_make_states(wefti_mixer *m) {
    for (const char *const *name = m->ops->states(&m->config); *name;
         name++, m->n_states++)
        WEFT_TRY(wefti_alloc_n(m->ctx, elements(m), sizeof(float), "mixer state",
                               &m->state[m->n_states]));
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
    WEFT_TRY(m->config.held ? make_parcels(m) : wefti_mixer_make_states(m));
    if (m->ops->create) WEFT_TRY(m->ops->create(m)); /* also checks the knobs */
    return m->ops->driver ? open_driver(m) : WEFT_OK;
}

weft_status wefti_mixer_create(weft_ctx *ctx, const wefti_mixer_config *config,
                               const wefti_kernels *kernels, wefti_comm *comm,
                               const wefti_bucket *buckets, int n_buckets,
                               wefti_mixer **out) {
    *out = NULL;
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    if (!ops)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown mixer '%s'", config->kind);
    const wefti_mixer like = {
        .ctx = ctx, .kernels = kernels, .comm = comm, .config = *config};
    return wefti_mixer_create_of(ops, &like, buckets, n_buckets, out);
}

weft_status wefti_mixer_create_of(const wefti_mixer_ops *ops, const wefti_mixer *like,
                                  const wefti_bucket *buckets, int n_buckets,
                                  wefti_mixer **out) {
    wefti_mixer *m;
    *out = NULL;
    WEFT_TRY(wefti_alloc(like->ctx, sizeof *m, "the mixer", &m));
    *m = (wefti_mixer){.ops = ops,
                       .ctx = like->ctx,
                       .kernels = like->kernels,
                       .comm = like->comm,
                       .config = like->config,
                       .n_buckets = n_buckets,
                       .buckets = buckets};
    WEFTI_TRY_OR(fill(m), wefti_mixer_destroy(m));
    *out = m;
    return WEFT_OK;
}

void wefti_mixer_destroy(wefti_mixer *m) {
    if (!m) return;
    if (m->ops->destroy) m->ops->destroy(m);
    wefti_driver_destroy(m->driver);
    for (int i = 0; i < m->n_states; i++) wefti_free(m->ctx, m->state[i]);
    WEFTI_FREE(m->ctx, m->known, m->bucket_at, m->outgoing, m->incoming, m);
}

weft_status wefti_mixer_prime(wefti_mixer *m, int bucket, int64_t step,
                              const float *params) {
    return m->ops->prime ? m->ops->prime(m, bucket, step, params) : WEFT_OK;
}

weft_status wefti_mixer_answer(wefti_mixer *m, int bucket, int64_t step) {
    WEFTI_ASSERT(bucket >= 0 && bucket < m->n_buckets && step >= 0);
    return m->ops->answer ? m->ops->answer(m, bucket, step) : WEFT_OK;
}

weft_status wefti_mixer_before(wefti_mixer *m, int bucket, int64_t step, float *params) {
    WEFTI_ASSERT(bucket >= 0 && bucket < m->n_buckets && step >= 0);
    return m->ops->before ? m->ops->before(m, bucket, step, params) : WEFT_OK;
}

weft_status wefti_mixer_direct(wefti_mixer *m, int bucket, int64_t step,
                               float *gradient) {
    WEFTI_ASSERT(bucket >= 0 && bucket < m->n_buckets && step >= 0);
    return m->ops->direct ? m->ops->direct(m, bucket, step, gradient) : WEFT_OK;
}

weft_status wefti_mixer_after(wefti_mixer *m, int bucket, int64_t step, float *params) {
    WEFTI_ASSERT(bucket >= 0 && bucket < m->n_buckets && step >= 0);
    return m->ops->after ? m->ops->after(m, bucket, step, params) : WEFT_OK;
}

weft_status wefti_mixer_finish(wefti_mixer *m, int bucket, int64_t step, float *params) {
    WEFTI_ASSERT(bucket >= 0 && bucket < m->n_buckets && step >= 0);
    return m->ops->finish ? m->ops->finish(m, bucket, step, params) : WEFT_OK;
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

const char *const *wefti_mixer_no_states(const wefti_mixer_config *config) {
    static const char *const none[] = {NULL};
    (void)config;
    return none;
}

int64_t wefti_mixer_uncoded_bytes(const wefti_mixer_config *config,
                                  const wefti_bucket *bucket) {
    (void)config;
    return bucket->n_elements * (int64_t)sizeof(float);
}

float *wefti_mixer_state(const wefti_mixer *m, int i, int bucket) {
    WEFTI_ASSERT(i >= 0 && i < m->n_states && bucket >= 0 && bucket < m->n_buckets);
    return m->state[i] + m->bucket_at[bucket];
}
