/* SPDX-License-Identifier: MIT */
/* Loss on held-out text. Every rank that takes part (learners do not, rank/learners.h)
 * evaluates its share of the windows, in batches of B. A batch that goes beyond the last
 * window is padded with skipped targets, because all ranks of a node must make the same
 * number of passes. */
#include <math.h>

#include "passes/passes.h"
#include "passes/rowids.h"

static int64_t min2(int64_t a, int64_t b) { return a < b ? a : b; }

static weft_status load_rows(wefti_rank *r, int64_t row, int64_t n) {
    const wefti_job *job = r->job;
    if (n < 0) n = 0;
    const wefti_row_ids rows = {row, n, job->T, job->model->config.vocab};
    if (n > 0) weft_dataset_validation_batch(job->dataset, row, n, r->tokens, r->targets);
    WEFT_TRY(wefti_row_ids_check(r->ctx, job->dataset, &rows, r->tokens, r->targets));
    int64_t n_tokens = wefti_model_row_tokens(job->model, job->T);
    int64_t n_targets = wefti_model_row_targets(job->model, job->T);
    for (int64_t i = n * n_tokens; i < job->B * n_tokens; i++) r->tokens[i] = 0;
    for (int64_t i = n * n_targets; i < job->B * n_targets; i++) r->targets[i] = -1;
    return WEFT_OK;
}

/* The mean loss of the parameters as they are; each rank evaluates its share of the
 * windows. */
static weft_status mean_loss(wefti_rank *r, int64_t rows, weft_eval_record *out,
                             double *loss) {
    const wefti_job *job = r->job;
    int64_t batches = (rows + job->B - 1) / job->B;
    int64_t ranks = job->W - (int64_t)(job->R - wefti_rank_replicas(r)) * job->S;
    int64_t rounds = (batches + ranks - 1) / ranks;
    bool classes = job->model->ops->input == WEFTI_INPUT_IMAGES;
    double sums[2] = {0, 0}; /* losses, right classes */
    wefti_rank_forget_gathered(r);
    for (int64_t i = 0; i < rounds; i++) {
        int64_t row = (i * ranks + r->rank) * job->B;
        WEFT_TRY(load_rows(r, row, min2(job->B, rows - row)));
        WEFT_TRY(wefti_rank_loss(r, &sums[0], classes ? &sums[1] : NULL));
    }
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), classes ? 2 : 1,
                            sums));
    *loss = rows > 0 ? sums[0] / (double)out->tokens : 0;
    if (classes && rows > 0) out->accuracy = sums[1] / (double)out->tokens;
    return WEFT_OK;
}

weft_status wefti_rank_evaluate(wefti_rank *r, int64_t max_tokens,
                                weft_eval_record *out) {
    const wefti_job *job = r->job;
    int64_t rows = weft_dataset_validation_rows(job->dataset);
    if (max_tokens > 0) rows = min2(rows, (max_tokens + job->T - 1) / job->T);
    out->tokens = weft_dataset_validation_targets(job->dataset, 0, rows);
    out->local_loss = out->distance = out->accuracy = NAN;
    if (job->replicas_equal) return mean_loss(r, rows, out, &out->loss);
    WEFT_TRY(mean_loss(r, rows, out, &out->local_loss));
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
