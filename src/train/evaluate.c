/* SPDX-License-Identifier: MIT */
/* Loss on held-out text: every rank takes its share of the windows, in batches of B; a
 * batch beyond the last window is padded with skipped targets, because all ranks of a
 * node have to make the same number of passes. */
#include <math.h>

#include "train/rank.h"

static int64_t min2(int64_t a, int64_t b) { return a < b ? a : b; }

static void load_rows(wefti_rank *r, int64_t row, int64_t n) {
    const wefti_job *job = r->job;
    if (n > 0) weft_dataset_validation_batch(job->dataset, row, n, r->tokens, r->targets);
    for (int64_t i = (n > 0 ? n : 0) * job->T; i < job->B * job->T; i++) {
        r->tokens[i] = 0;
        r->targets[i] = -1;
    }
}

/* Of the parameters as they are: each rank takes its share of the windows. */
static weft_status mean_loss(wefti_rank *r, int64_t rows, double *loss) {
    const wefti_job *job = r->job;
    int64_t batches = (rows + job->B - 1) / job->B;
    int64_t rounds = (batches + job->W - 1) / job->W;
    double sum = 0;
    wefti_rank_forget_gathered(r);
    for (int64_t i = 0; i < rounds; i++) {
        int64_t row = (i * job->W + r->rank) * job->B;
        load_rows(r, row, min2(job->B, rows - row));
        WEFT_TRY(wefti_rank_loss(r, &sum));
    }
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), 1, &sum));
    *loss = rows > 0 ? sum / (double)(rows * job->T) : 0;
    return WEFT_OK;
}

weft_status wefti_rank_evaluate(wefti_rank *r, int64_t max_tokens,
                                weft_eval_record *out) {
    const wefti_job *job = r->job;
    int64_t rows = weft_dataset_validation_rows(job->dataset);
    if (max_tokens > 0) rows = min2(rows, (max_tokens + job->T - 1) / job->T);
    out->tokens = rows * job->T;
    out->local_loss = out->distance = NAN;
    if (job->replicas_equal) return mean_loss(r, rows, &out->loss);
    WEFT_TRY(mean_loss(r, rows, &out->local_loss));
    double squares = 0;
    weft_status status = wefti_rank_average(r); /* which membership may interrupt */
    if (status == WEFT_OK) squares = wefti_rank_distance_squares(r);
    if (status == WEFT_OK) status = mean_loss(r, rows, &out->loss);
    wefti_rank_restore(r);
    WEFT_TRY(status);
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), 1, &squares));
    out->distance = sqrt(squares / job->R);
    return WEFT_OK;
}
