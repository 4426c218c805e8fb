/* SPDX-License-Identifier: MIT */
/* From one world to the next, or from one form of exchange to another: the arrays that a rank
 * keeps.
 * In another form, whose arrays have no place for it,
 *
 *     error of a replicator    is added to this rank's next gradient (wefti_rank.carried.owed)
 *     error of outer           is taken from the node's own parameters, so that its next change,
 *                              which is sent in full, has it
 *     start of outer           is what the parameters are
 *     velocity                 begins at zero, and ends: each change in it has moved the parameters
 *
 * Parameters and the optimizer's states stay; behind outer steps, where each node has states of its
 * own, all nodes take their mean if all gradients are averaged from then on. */
#include "rank/carried.h"

#include <string.h>

#include "base/assert.h"
#include "base/memory.h"
#include "collectives/all_reduce.h"
#include "mix/mixer.h"
#include "replicate/replicator.h"

int wefti_rank_arrays(wefti_rank *r, float **out[WEFTI_RANK_ARRAYS]) {
    wefti_replicator *replicators[] = {r->replicator, r->site_replicator};
    int n = 0, n_mixer = r->mixer->ops->keeps_partners ? 0 : r->mixer->n_states;
    out[n++] = &r->params;
    for (int i = 0; i < r->job->optimizer.most_states->n_states; i++)
        out[n++] = &r->optimizer.state[i];
    for (int k = 0; k < 2 && replicators[k]; k++)
        for (int i = 0; i < replicators[k]->n_states; i++)
            out[n++] = &replicators[k]->state[i];
    for (int i = 0; i < n_mixer; i++) out[n++] = &r->mixer->state[i];
    WEFTI_ASSERT(n <= WEFTI_RANK_ARRAYS);
    return n;
}

void wefti_carried_swap(wefti_carried *l, wefti_rank *r) {
    float **arrays[WEFTI_RANK_ARRAYS];
    int n = wefti_rank_arrays(r, arrays);
    WEFTI_ASSERT(l->n <= WEFTI_RANK_ARRAYS);
    for (int i = 0; i < (l->n == 1 ? 1 : n); i++) {
        float *kept = l->array[i];
        l->array[i] = *arrays[i];
        *arrays[i] = kept;
    }
    if (n > l->n) l->n = n;
}

void wefti_carried_fini(weft_ctx *ctx, wefti_carried *l) {
    for (int i = 0; i < l->n; i++) wefti_free(ctx, l->array[i]);
}

/* --- another form --- */

static int put_roles(wefti_array_role *out, int n, int owner, const char *const *names,
                     int n_names) {
    for (int i = 0; i < n_names; i++) {
        out[n].owner = owner;
        out[n++].name = names ? names[i] : NULL;
    }
    return n;
}

void wefti_rank_roles(const wefti_rank *r, wefti_array_role out[WEFTI_RANK_ARRAYS]) {
    const wefti_replicator *a = r->replicator;
    const wefti_mixer *m = r->mixer;
    WEFTI_ASSERT(!r->site_replicator && !m->ops->keeps_partners);
    int n = put_roles(out, 0, WEFTI_OF_RANK, NULL, 1);
    n = put_roles(out, n, WEFTI_OF_OPTIMIZER, NULL,
                  r->job->optimizer.most_states->n_states);
    n = put_roles(out, n, WEFTI_OF_REPLICATOR, a->ops->states(&a->config), a->n_states);
    put_roles(out, n, WEFTI_OF_MIXER, m->ops->states(&m->config), m->n_states);
}

static bool is_same(const wefti_array_role *a, const wefti_array_role *b) {
    if (a->owner != b->owner) return false;
    return !a->name || strcmp(a->name, b->name) == 0;
}

static bool is_named(const wefti_array_role *role, int owner, const char *name) {
    return role->owner == owner && role->name && strcmp(role->name, name) == 0;
}

/* What no array of the new form has a place for. */
static void settle(wefti_rank *r, const wefti_array_role *role, float **array) {
    if (is_named(role, WEFTI_OF_REPLICATOR, "error")) {
        r->carried.owed = *array;
        *array = NULL;
    } else if (is_named(role, WEFTI_OF_MIXER, "error")) {
        WEFTI_ASSERT(r->mixer->n_states > 0); /* wefti_form_refusal */
        for (int64_t i = 0; i < r->arrangement->n_elements; i++)
            r->params[i] -= (*array)[i];
    }
}

/* Those that its own optimizer steps with. */
static int n_moments(const wefti_rank *r) {
    return r->job->as.outside ? 0 : r->job->optimizer.most_states->n_states;
}

/* n arrays, each as long. */
typedef struct states {
    float **x;
    int n;
    int64_t n_elements;
} states;

/* Between two steps: the mean of each array over all nodes, in f32. */
static weft_status average(wefti_all_reduce *a, int64_t step, const states *s) {
    int n = s->n;
    float **x = s->x;
    wefti_range none;
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = wefti_all_reduce_open(a, i, s->n_elements);
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = wefti_all_reduce_begin(a, i, step, x[i], NULL);
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = wefti_all_reduce_combine(a, i, step, x[i], &none);
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = wefti_all_reduce_end(a, i, step, x[i]);
    return status;
}

/* *has: they are the mean, also where somebody was lost since then. `step`, whose own exchange is
 * among replicas, comes after it: the messages of a lost rank are told apart by step, channel,
 * bucket and round (mesh/elastic_pieces.c). */
static weft_status average_all(wefti_rank *r, int64_t step, const states *s, bool *has) {
    int n = s->n;
    wefti_all_reduce_setup setup = {.ctx = r->ctx,
                                    .kernels = r->job->kernels,
                                    .comm = r->comms.sites,
                                    .coding = {.values = WEFTI_VALUES_F32, .threads = 1},
                                    .stage = WEFTI_MIXER_STAGE,
                                    .n_vectors = n};
    wefti_all_reduce *a;
    *has = n == 0;
    if (n == 0) return WEFT_OK;
    WEFT_TRY(wefti_all_reduce_create(&setup, &a));
    wefti_sent *sent = setup.comm->sent; /* no step's messages: a meeting may be undone */
    setup.comm->sent = NULL;
    weft_status status = average(a, step, s);
    setup.comm->sent = sent;
    *has = status == WEFT_OK;
    if (*has) /* others may still read what is in it */
        status = wefti_comm_barrier(r->comms.control, wefti_rank_control_tag(r));
    wefti_comm_settle(r->comms.control);
    wefti_all_reduce_destroy(a);
    return status;
}

weft_status wefti_rank_meet(wefti_rank *r, int64_t step) {
    for (int i = 0; i < n_moments(r); i++) {
        if (!r->carried.mean[i])
            WEFT_TRY(wefti_alloc_n(r->ctx, r->arrangement->n_elements, sizeof(float),
                                   "the mean of states", &r->carried.mean[i]));
        memcpy(r->carried.mean[i], r->optimizer.state[i],
               (size_t)r->arrangement->n_elements * sizeof(float));
    }
    const states all = {r->carried.mean, n_moments(r), r->arrangement->n_elements};
    return average_all(r, step, &all, &r->carried.has_mean);
}

weft_status wefti_rank_meet_outside(wefti_rank *r, int64_t step, float *x, int64_t n) {
    const states all = {&x, n > 0, n};
    return average_all(r, step, &all, &r->carried.has_mean);
}

/* *apart: the nodes had states of their own. */
static void take_arrays(wefti_rank *r, const wefti_array_role *roles, float **arrays,
                        int n, bool *apart) {
    wefti_array_role own[WEFTI_RANK_ARRAYS];
    float **at[WEFTI_RANK_ARRAYS];
    bool filled[WEFTI_RANK_ARRAYS] = {false};
    WEFTI_ASSERT(n >= 0 && n <= WEFTI_RANK_ARRAYS);
    int n_own = wefti_rank_arrays(r, at);
    wefti_rank_roles(r, own);
    for (int i = 0; i < n; i++) {
        int k = 0;
        *apart = *apart || is_named(&roles[i], WEFTI_OF_MIXER, "start");
        while (k < n_own && (filled[k] || !is_same(&roles[i], &own[k]))) k++;
        if (k == n_own) {
            settle(r, &roles[i], &arrays[i]);
            continue;
        }
        float *new = *at[k];
        *at[k] = arrays[i];
        arrays[i] = new;
        filled[k] = true;
    }
    for (int k = 0; k < n_own; k++)
        if (!filled[k] && is_named(&own[k], WEFTI_OF_MIXER, "start"))
            memcpy(*at[k], r->params, (size_t)r->arrangement->n_elements * sizeof(float));
}

weft_status wefti_rank_adopt(wefti_rank *r, const wefti_array_role *roles, float **arrays,
                             int n) {
    bool apart = false, has;
    take_arrays(r, roles, arrays, n, &apart);
    if (!apart || !r->job->replicas_equal) return WEFT_OK;
    const states all = {r->optimizer.state, n_moments(r), r->arrangement->n_elements};
    return average_all(r, r->job->from.step, &all, &has);
}

void wefti_rank_depart(wefti_rank **r, wefti_passage *out) {
    wefti_rank *old = *r;
    WEFTI_ASSERT(!old->learners.open && !old->carried.owed);
    *out = (wefti_passage){
        .ctx = old->ctx, .rank = old->rank, .comms = old->comms, .onward = old->onward};
    wefti_rank_roles(old, out->roles);
    out->averaged = old->carried.has_mean;
    for (int i = 0; old->carried.has_mean && i < n_moments(old); i++) {
        float *apart = old->optimizer.state[i];
        old->optimizer.state[i] = old->carried.mean[i];
        old->carried.mean[i] = apart;
    }
    wefti_carried_swap(&out->arrays, old);
    wefti_comm_settle(old->comms.control);
    old->comms = (wefti_comms){0}; /* they go on, and so do their tags */
    wefti_rank_destroy(old);
    *r = NULL;
}

static weft_status take_place(wefti_passage *d, wefti_rank *r) {
    WEFTI_ASSERT(r->onward.n_control_messages == 0); /* nothing was sent with its tags */
    r->onward = d->onward;
    bool apart = false;
    if (d->averaged)
        take_arrays(r, d->roles, d->arrays.array, d->arrays.n, &apart);
    else
        WEFT_TRY(wefti_rank_adopt(r, d->roles, d->arrays.array, d->arrays.n));
    return wefti_rank_prime(r);
}

weft_status wefti_rank_arrive(wefti_passage *d, const wefti_job *job, wefti_rank **r,
                              float **params) {
    weft_status status = WEFT_OK;
    *r = NULL;
    if (job)
        status = wefti_rank_create(d->ctx, job, d->rank, &d->comms, r);
    else
        wefti_comms_destroy(&d->comms);
    if (status == WEFT_OK && job) status = take_place(d, *r);
    if (params) *params = *r ? NULL : d->arrays.array[0];
    if (params && *params) d->arrays.array[0] = NULL;
    wefti_carried_fini(d->ctx, &d->arrays);
    return status;
}
