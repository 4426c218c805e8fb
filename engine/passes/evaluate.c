/* SPDX-License-Identifier: MIT */
/* Loss on held-out text. Every rank that takes part (learners do not, rank/learners.h)
 * evaluates its share of the windows, in batches of B. A batch that goes beyond the last
 * window is padded with skipped targets, because all ranks of a node must make the same
 * number of passes. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "passes/passes.h"
#include "passes/rowids.h"

/* The ranks agree whether to stop after a share of the passes, and then after so many seconds. */
enum { FIRST_LOOK = 16 };
static const double look_s = 5, long_s = 10;

static int64_t min2(int64_t a, int64_t b) { return a < b ? a : b; }

static weft_status load_rows(wefti_rank *r, int64_t row, int64_t n) {
    const wefti_job *job = r->job;
    if (n < 0) n = 0;
    const wefti_row_ids rows = {row, n, job->T, job->model->config.vocab};
    if (n > 0)
        weft_dataset_validation_batch(job->dataset, row, n, r->batch.tokens,
                                      r->batch.targets);
    WEFT_TRY(wefti_row_ids_check(r->ctx, job->dataset, &rows, r->batch.tokens,
                                 r->batch.targets));
    int64_t n_tokens = wefti_model_row_tokens(job->model, job->T);
    int64_t n_targets = wefti_model_row_targets(job->model, job->T);
    int64_t B = wefti_rank_micro(r);
    for (int64_t i = n * n_tokens; i < B * n_tokens; i++) r->batch.tokens[i] = 0;
    for (int64_t i = n * n_targets; i < B * n_targets; i++) r->batch.targets[i] = -1;
    return WEFT_OK;
}

/* Whether a rank is asked to stop, for all ranks, after pass `i` if that is *next; and the pass
 * after which they agree again: all take the same mean of their times. */
static weft_status look(wefti_rank *r, int64_t i, double begun_s, int64_t *next,
                        bool *stops) {
    const wefti_onward *o = &r->onward;
    if (i != *next) return WEFT_OK;
    bool asked = o->should_stop && !o->leaves_alone && o->should_stop(o->stop_user);
    double sums[2] = {asked, wefti_now_s() - begun_s};
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), 2, sums));
    int ranks = r->comms.control->size;
    double pass_s = fmax(sums[1] / ranks / (double)(i + 1), 1e-9);
    *stops = sums[0] > 0;
    *next += 1 + (int64_t)fmin(look_s / pass_s, 1e12);
    return WEFT_OK;
}

/* The mean loss of the parameters as they are; each rank evaluates its share of the
 * windows. No tokens: it was asked to stop. */
static weft_status mean_loss(wefti_rank *r, int64_t rows, weft_eval_record *out,
                             double *loss) {
    const wefti_job *job = r->job;
    int64_t batches = (rows + job->B - 1) / job->B;
    int64_t ranks = job->W - (int64_t)(job->R - wefti_rank_replicas(r)) * job->S;
    int64_t rounds = (batches + ranks - 1) / ranks;
    bool classes = job->model->ops->input == WEFTI_INPUT_IMAGES;
    double sums[2] = {0, 0}; /* losses, right classes */
    int64_t next = rounds / FIRST_LOOK;
    bool stops = false;
    double begun_s = wefti_now_s();
    wefti_rank_forget_gathered(r);
    for (int64_t i = 0; i < rounds && !stops; i++) {
        int64_t row = (i * ranks + r->rank) * job->B, end = row + job->B;
        for (int64_t B = wefti_rank_micro(r); row < end; row += B) {
            WEFT_TRY(load_rows(r, row, min2(min2(B, end - row), rows - row)));
            WEFT_TRY(wefti_rank_loss(r, &sums[0], classes ? &sums[1] : NULL));
        }
        if (i + 1 < rounds) WEFT_TRY(look(r, i, begun_s, &next, &stops));
    }
    if (stops) return out->tokens = 0, WEFT_OK;
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), classes ? 2 : 1,
                            sums));
    *loss = rows > 0 ? sums[0] / (double)out->tokens : 0;
    if (classes && rows > 0) out->accuracy = sums[1] / (double)out->tokens;
    return WEFT_OK;
}

static int64_t rows_of(const wefti_job *job) {
    int64_t max_tokens = job->config->run.eval_tokens; /* 0: all */
    int64_t rows = weft_dataset_validation_rows(job->dataset);
    return max_tokens > 0 ? min2(rows, (max_tokens + job->T - 1) / job->T) : rows;
}

bool wefti_evaluation_announce(const wefti_rank *r, int64_t step, double tokens_per_s,
                               const weft_train_hooks *hooks) {
    const wefti_job *job = r->job;
    char sentence[160];
    double tokens = (double)(rows_of(job) * job->T);
    double takes_s = (job->replicas_equal ? 1 : 2) * tokens / (3 * tokens_per_s);
    if (!hooks || !hooks->on_change || !(takes_s > long_s)) return false;
    snprintf(sentence, sizeof sentence,
             "evaluates after step %lld for about %.2g s (run.eval_tokens)",
             (long long)step, takes_s);
    hooks->on_change(hooks->user, sentence);
    return true;
}

weft_status wefti_rank_evaluate(wefti_rank *r, weft_eval_record *out) {
    const wefti_job *job = r->job;
    int64_t rows = rows_of(job);
    out->tokens = weft_dataset_validation_targets(job->dataset, 0, rows);
    out->local_loss = out->distance = out->accuracy = NAN;
    if (job->replicas_equal) return mean_loss(r, rows, out, &out->loss);
    WEFT_TRY(mean_loss(r, rows, out, &out->local_loss));
    if (out->tokens == 0) return WEFT_OK;
    double squares = 0;
    weft_status status = wefti_rank_average(r); /* a change of membership may interrupt
                                                   it */
    if (status == WEFT_OK) squares = wefti_rank_distance_squares(r);
    if (status == WEFT_OK) status = mean_loss(r, rows, out, &out->loss);
    wefti_rank_restore(r);
    WEFT_TRY(status);
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), 1, &squares));
    out->distance = sqrt(squares / wefti_rank_replicas(r));
    return WEFT_OK;
}
