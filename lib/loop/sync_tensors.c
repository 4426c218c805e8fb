/* SPDX-License-Identifier: MIT */
/* What both the first world of a sync and its later ones (sync_regroup.c) are made with:
 * the job of the caller's tensors, the blocks in which they lie, and the counts of a
 * step.
 *
 *     tensor i is unit i of a model without passes; units are grouped into buckets, and bucket b is
 *     handed over when missing[b], the number of its tensors that are not ready, has reached 0 */
#include <string.h>

#include "base/memory.h"
#include "loop/sync.h"

/* Tensor i as the caller described it or, when a job is made again, as the old job has
 * it. */
static wefti_foreign_tensor spec_of(const weft_sync *s, int i) {
    if (s->job) {
        const wefti_param *p = &s->job->model->params[i];
        return (wefti_foreign_tensor){p->name, p->rows, p->cols, p->decays};
    }
    const weft_sync_tensor *t = &s->setup.tensors[i];
    bool lies = t->rows == 1 && !s->setup.sharded; /* a vector is a column */
    int64_t rows = t->rows < 1 && !s->setup.sharded ? -1 : t->rows; /* -1 is refused */
    return (wefti_foreign_tensor){t->name, lies ? t->cols : rows, lies ? 1 : t->cols,
                                  t->decays};
}

weft_status wefti_sync_make_job(weft_sync *s, const weft_config *config, int *nodes,
                                wefti_job **out) {
    wefti_foreign_tensor *specs;
    weft_model *model = NULL;
    int n = s->setup.n_tensors;
    WEFTI_TRY_OR(wefti_alloc_n(s->ctx, n > 0 ? n : 0, sizeof *specs, "tensors", &specs),
                 wefti_free(s->ctx, nodes));
    for (int i = 0; i < n; i++) specs[i] = spec_of(s, i);
    weft_status status = wefti_model_foreign(s->ctx, specs, n, &model);
    wefti_free(s->ctx, specs);
    WEFTI_TRY_OR(status, wefti_free(s->ctx, nodes));
    WEFT_TRY(wefti_job_create_for(s->ctx, config, model, nodes, out));
    (*out)->run.weighs = s->setup.uneven;
    if (s->setup.endless) (*out)->mixer_config.steps = INT64_MAX / 4;
    return WEFT_OK;
}

weft_status wefti_sync_renew_job(weft_sync *s, weft_config *config, int *nodes,
                                 int64_t first_step) {
    wefti_job *old = s->job, *job = NULL;
    WEFTI_TRY_OR(wefti_sync_make_job(s, config, nodes, &job),
                 weft_config_destroy(s->ctx, config));
    for (int i = 0; i < s->setup.n_tensors; i++) {
        const wefti_optimizer_rule *was = &old->optimizer.rules[i];
        job->optimizer.rules[i].lr = was->lr;
        job->optimizer.rules[i].config.weight_decay = was->config.weight_decay;
    }
    job->as.outside = old->as.outside;
    job->optimizer.clip = old->optimizer.clip;
    job->run.follows = old->run.follows;
    job->from.step = first_step;
    wefti_job_destroy(s->ctx, old);
    weft_config_destroy(s->ctx, s->own_config);
    s->job = job;
    s->own_config = config;
    return WEFT_OK;
}

void wefti_sync_give_back(weft_sync *s, float **block) {
    if (*block && s->setup.give) s->setup.give(s->setup.user, *block);
    *block = NULL;
}

void wefti_sync_free_block(weft_sync *s, float **block) {
    if (s->borrowed)
        wefti_sync_give_back(s, block);
    else
        wefti_free(s->ctx, *block);
    *block = NULL;
}

void wefti_sync_expect_all(weft_sync *s) {
    const wefti_arrangement *a = s->rank->arrangement;
    memset(s->now.ready, 0, (size_t)s->setup.n_tensors * sizeof *s->now.ready);
    if (s->now.offers)
        memset(s->now.offers, 0, (size_t)s->setup.n_tensors * sizeof *s->now.offers);
    memset(s->now.missing, 0, (size_t)a->n_buckets * sizeof *s->now.missing);
    for (int u = 0; u < a->n_units; u++) s->now.missing[a->bucket_of[u]]++;
}

weft_status wefti_sync_count_anew(weft_sync *s) {
    wefti_free(s->ctx, s->now.missing);
    s->now.missing = NULL;
    WEFT_TRY(wefti_alloc_n(s->ctx, s->rank->arrangement->n_buckets,
                           sizeof *s->now.missing, "buckets", &s->now.missing));
    wefti_sync_expect_all(s);
    if (!s->setup.compressed) return WEFT_OK;
    wefti_free(s->ctx, s->now.offers);
    s->now.offers = NULL;
    return wefti_sync_prepare_offers(s);
}

weft_status wefti_sync_check_whole(weft_sync *s) {
    if (s->rank) return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_ARGUMENT,
        "the exchange has failed before, when others were lost; expected "
        "nothing but weft_sync_destroy");
}

weft_status wefti_sync_read_status(weft_sync *s, int64_t last, weft_sync_report *report) {
    for (; s->counted <= last; s->counted++) {
        wefti_step_status agreed;
        WEFT_TRY(wefti_rank_read_status(s->rank, s->counted, &agreed));
        WEFT_TRY(wefti_status_check(s->ctx, &agreed, s->counted));
        wefti_rank_control(s->rank, s->counted, &agreed);
        report->loss = agreed.loss_sum / s->job->W;
        report->loss_step = s->counted + 1;
    }
    return WEFT_OK;
}
