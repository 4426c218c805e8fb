/* SPDX-License-Identifier: MIT */
/* From step t on the nodes have other rows. It is agreed on by what all have read
 * (lib/job/speeds.c), and stands in views.jsonl as a line of the same view, so that a replay
 * follows it. A step has as many rows as before: which ones it takes does not change. */
#include "train/sharing.h"
#include "rank/rank.h"

#include <stdio.h>

weft_status wefti_share_check(weft_ctx *ctx, const wefti_prepared *p) {
    if (!p->job->run.measures || p->bootstrap.mesh || p->job->R == 1) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "batch.shares is speed, but all nodes are threads of this process; "
        "expected a process for each rank, as on several machines, or equal");
}

enum { TEXT = 400 };

/* Of each node, as far as there is room behind n characters: its sequences, or its optimizer steps
 * in `every` steps. */
static int list(const wefti_job *job, int64_t every, char out[TEXT], int n) {
    for (int i = 0; i < job->R && n + 24 < TEXT; i++)
        n += snprintf(out + n, (size_t)(TEXT - n), "%s%lld", i ? ", " : " ",
                      (long long)(every ? wefti_shares_steps(job->batch.rows[i],
                                                             job->run.inner_rows, every)
                                        : job->batch.rows[i]));
    return n;
}

static void write(const wefti_job *job, int64_t step, const double took_s[2],
                  char out[TEXT]) {
    int64_t every = wefti_job_sends_every(job);
    int n = snprintf(out, TEXT,
                     "from step %lld on the slowest computes for %.3g s instead of %.3g: "
                     "sequences of each rank by node are",
                     (long long)step + 1, took_s[1], took_s[0]);
    n = list(job, 0, out, n);
    if (job->run.inner_rows == 0 || n + 80 > TEXT) return;
    n += snprintf(out + n, (size_t)(TEXT - n), "; optimizer steps in %lld steps",
                  (long long)every);
    list(job, every, out, n);
}

weft_status wefti_share_anew(wefti_prepared *p, wefti_rank *r, int64_t step,
                             const weft_train_hooks *hooks) {
    weft_mesh *mesh = p->bootstrap.mesh;
    double took_s[2];
    if (!p->job->run.measures || !mesh || !wefti_rank_follows_speed(r, step, took_s))
        return WEFT_OK;
    int64_t first_row = wefti_rank_first_row(r, step);
    wefti_job_share(p->job, step, r->shares.next);
    WEFT_TRY(wefti_rank_reshare(r));
    char text[TEXT];
    write(p->job, step, took_s, text);
    if (r->rank == 0 && hooks && hooks->on_change) hooks->on_change(hooks->user, text);
    wefti_job begins = *p->job; /* as the line's */
    begins.from.step = step;
    begins.from.row = first_row;
    if (begins.B > begins.batch.per_rank)
        begins.B = begins.batch.per_rank; /* of a pass */
    const wefti_viewlog_entry line = {
        .mesh = mesh,
        .job = &begins,
        .shared = true,
        .why = p->job->run.follows ? NULL : text, /* that is the form's */
        .done = begins.config->run.steps};
    WEFT_TRY(wefti_viewlog_plan(r->ctx, p->views, &line));
    return wefti_viewlog_write(r->ctx, p->views);
}
