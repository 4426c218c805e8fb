/* SPDX-License-Identifier: MIT */
/* From one world to the next, between two steps:
 *
 *     old rank -> its arrays -> new job (fewer nodes, a smaller batch) -> new rank <- arrays
 *
 * Each rank goes on with as many sequences per step as before, so the batch shrinks with
 * the nodes; the rows of the text are taken one after another, whoever takes them.
 *
 * Mixers begin as in a run that is resumed at that step: what gossip sends ahead of a step and
 * outer exchanges that are under way are sent again, among those who are left. Copies of
 * partners' parameters (choco) do not come along, since partners are others now: each pair
 * begins from the mean of all replicas, which both know. */
#include "train/regroup.h"

#include <string.h>

#include "base/memory.h"

bool wefti_regroup_can(const wefti_prepared *p) {
    const wefti_job *job = p->job;
    const weft_mesh *mesh = p->bootstrap.mesh;
    return mesh && mesh->transport->ops->redial && p->on_text && job->R > 1 &&
           job->sites == 1 && job->copies == 1 && job->mixer_config.deadline_s == 0 &&
           strcmp(job->config->mesh.on_loss, "go_on") == 0;
}

weft_status wefti_regroup_start(weft_ctx *ctx, wefti_prepared *p) {
    wefti_bootstrap *b = &p->bootstrap;
    wefti_elastic_setup setup = {.shards = p->job->S,
                                 .units = p->job->model->n_units,
                                 .first_step = p->job->first_step,
                                 .lag = p->job->vote_lag,
                                 .delay = p->job->mixer_config.delay,
                                 .meets = p->job->topology != NULL};
    WEFT_TRY(wefti_elastic_start(ctx, b->mesh, &setup));
    return wefti_comm_barrier(b->comm, b->n_messages++);
}

/* --- what a rank takes along --- */

enum { STATES = WEFTI_OPTIMIZER_STATES + WEFTI_REPLICATOR_STATES + WEFTI_MIXER_STATES };

typedef struct luggage {
    float *params, *state[STATES];
    int n; /* most states of either rank */
} luggage;

static void swap(float **a, float **b) {
    float *c = *a;
    *a = *b;
    *b = c;
}

/* Exchanges the arrays of a rank for those of the luggage: parameters and all state, each
 * as long as the parameters, in backward order of the units whatever the buckets are. */
static void exchange(wefti_rank *r, luggage *l) {
    int n = 0;
    swap(&l->params, &r->params);
    for (int i = 0; i < r->job->most_states->n_states; i++)
        swap(&l->state[n++], &r->state[i]);
    for (int i = 0; i < r->replicator->n_states; i++)
        swap(&l->state[n++], &r->replicator->state[i]);
    bool keeps = r->mixer->ops->keeps_partners; /* there are more or fewer of them now */
    for (int i = 0; i < r->mixer->n_states && !keeps; i++)
        swap(&l->state[n++], &r->mixer->state[i]);
    if (n > l->n) l->n = n;
}

static void leave(weft_ctx *ctx, luggage *l) {
    wefti_free(ctx, l->params);
    for (int i = 0; i < l->n; i++) wefti_free(ctx, l->state[i]);
}

/* --- the new world --- */

static weft_status make_job(weft_ctx *ctx, wefti_prepared *p,
                            const wefti_elastic_world *w) {
    const wefti_job *old = p->job;
    weft_config *config;
    wefti_job *job;
    WEFT_TRY(weft_config_copy(ctx, old->config, &config));
    config->mesh.nodes = w->size / old->S;
    config->batch.tokens_per_step = old->rows_per_rank * old->T * w->size;
    config->batch.micro = old->B;
    weft_status status = wefti_job_create(ctx, config, p->dataset,
                                          old->model->config.vocab, &job);
    if (status != WEFT_OK) {
        weft_config_destroy(ctx, config);
        return status;
    }
    job->threads = old->threads;
    job->first_step = w->first_step;
    job->first_row = old->first_row +
                     (w->first_step - old->first_step) * old->rows_per_step;
    wefti_job_destroy(ctx, p->job);
    weft_config_destroy(ctx, p->own_config);
    p->job = job;
    p->own_config = config;
    return WEFT_OK;
}

/* The first rank writes what the run leaves behind. */
static weft_status take_over(weft_ctx *ctx, wefti_prepared *p) {
    if (!wefti_bootstrap_leads(&p->bootstrap) || p->journal) return WEFT_OK;
    return wefti_prepared_write(ctx, p);
}

static weft_status make_world(weft_ctx *ctx, wefti_prepared *p, int64_t step,
                              wefti_elastic_world *w) {
    weft_mesh *mesh = p->bootstrap.mesh;
    wefti_world *world;
    wefti_bootstrap_leave(ctx, &p->bootstrap);
    WEFT_TRY(wefti_elastic_enter(ctx, mesh, w));
    if (w->first_step != step)
        return weft_ctx_fail(ctx, WEFT_ERR_INTERNAL,
                             "the new world begins with step %lld, but this rank is at "
                             "step %lld",
                             (long long)w->first_step, (long long)step);
    WEFT_TRY(make_job(ctx, p, w));
    WEFT_TRY(wefti_rank_world(ctx, p->job, mesh, &world));
    WEFT_TRY(wefti_bootstrap_join(ctx, mesh, &p->bootstrap));
    WEFT_TRY(take_over(ctx, p));
    weft_status status = wefti_bootstrap_look(ctx, &p->bootstrap,
                                              p->job->config->run.folder);
    if (status != WEFT_OK && wefti_elastic_interrupted(ctx, mesh)) return WEFT_OK;
    return status;
}

/* What each pair of partners knows of each other: the mean of all. Interrupted, the world that
 * comes next begins with it again. */
static weft_status meet_anew(wefti_rank *r) {
    size_t n_bytes = (size_t)r->arrangement->n_elements * sizeof(float);
    if (!r->mixer->ops->keeps_partners) return WEFT_OK;
    weft_status status = wefti_rank_average(r);
    for (int i = 0; i < r->mixer->n_states && status == WEFT_OK; i++)
        memcpy(r->mixer->state[i], r->params, n_bytes);
    wefti_rank_restore(r);
    return status;
}

static weft_status make_rank(weft_ctx *ctx, const wefti_prepared *p,
                             const wefti_elastic_world *w, luggage *l,
                             wefti_rank **state) {
    wefti_comms comms;
    weft_mesh *mesh = p->bootstrap.mesh;
    WEFT_TRY(wefti_comms_join(ctx, &mesh->world, mesh->rank, &comms));
    WEFT_TRY(wefti_rank_create(ctx, p->job, w->rank, &comms, state));
    exchange(*state, l);
    weft_status status = meet_anew(*state);
    if (status != WEFT_OK && !wefti_elastic_interrupted(ctx, mesh)) return status;
    return wefti_rank_prime(*state);
}

weft_status wefti_regroup(weft_ctx *ctx, weft_ctx *rank_ctx, wefti_prepared *p,
                          int64_t step, wefti_rank **state, wefti_elastic_world *change) {
    luggage l = {0};
    exchange(*state, &l);
    wefti_rank_destroy(*state);
    *state = NULL;
    weft_status status = make_world(ctx, p, step, change);
    if (status != WEFT_OK)
        weft_ctx_fail(rank_ctx, status, "%s", weft_ctx_message(ctx));
    else
        status = make_rank(rank_ctx, p, change, &l, state);
    leave(rank_ctx, &l);
    return status;
}
