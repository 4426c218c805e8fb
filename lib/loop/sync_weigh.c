/* SPDX-License-Identifier: MIT */
/* Rows that differ by process and step (weft_sync_setup.uneven). Before any gradient of a step
 * leaves, each rank tells its loss l_i, its rows n_i, and its rows m_i of the last K steps, K of a
 * mixer's period (8 of gossip): in the step's status, in place of what gossip and
 * batch.shares=speed tell. With N the sum of n over the R copies that are heard,
 *
 *     w_i = n_i R / N    direction = (sum of w_i g_i) / (sum of w_i)    loss = sum of n_i l_i / N
 *
 * where gradients are exchanged; where a mixer alone sends, m is in the place of n in w_i: of each
 * fragment the rows since it was last sent. Means divide by the weights of the step in which they
 * end, which have the same sum; of who is not heard any more, by its last one. So a mean over
 * copies is the mean over all rows (job/shares.c), and equal rows have the bits of a sync that does
 * not weigh. If nobody has a row, all weights are 1. */
#include <math.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "loop/sync.h"

static const double most_rows = 0x1p53; /* a double counts up to here */

typedef struct gather {
    weft_sync *s;
    double rows, loss, behind; /* sums; behind: of the weights of those that are heard */
    int copies, wrong,
        unlike; /* a rank whose numbers are none, or not its copy's; or -1 */
    wefti_alikes rates;
} gather;

static double since(const weft_sync *s) {
    double rows = 0;
    for (int i = 0; i < s->rows.n_window; i++) rows += s->rows.window[i];
    return rows;
}

static void take(void *user, int peer, const void *bytes) {
    gather *h = user;
    wefti_rank *r = h->s->rank;
    const wefti_step_status theirs = wefti_rank_status_of(bytes);
    wefti_rates_note(r, h->s->step, peer, &theirs, &h->rates);
    double rows = theirs.told_rows, since = theirs.told_since;
    double *weight = &r->shares.weights[peer / r->job->S];
    wefti_sync_report *copy = &h->s->rows.reports[peer / r->job->S];
    double behind = wefti_is(r->job->replicator_config.kind, "none") ? since : rows;
    if (!(rows >= 0 && rows <= since && since <= most_rows)) {
        h->wrong = peer;
        return;
    }
    copy->rows = rows;
    if (theirs.told_s > copy->seconds && isfinite(theirs.told_s))
        copy->seconds = theirs.told_s;
    h->loss += rows * theirs.loss_sum;
    h->rows += rows;
    if (peer % r->job->S > 0) {
        if (*weight != behind) h->unlike = peer;
        return;
    }
    *weight = behind;
    h->behind += behind;
    h->copies++;
}

static weft_status check_heard(weft_sync *s, const gather *h) {
    const wefti_step_status agreed = {.rates = h->rates};
    WEFT_TRY(wefti_status_check(s->ctx, &agreed, s->step));
    if (h->wrong >= 0)
        return weft_ctx_fail(s->ctx, WEFT_ERR_WIRE,
                             "what rank %d says of its rows is no number of rows",
                             h->wrong);
    if (h->unlike < 0) return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_ARGUMENT,
        "rank %d has other rows than the ranks that share its copy of the model; "
        "expected equal ones, because their mean is plain",
        h->unlike);
}

static weft_status exchange_rows(weft_sync *s, double loss, double rows, gather *h) {
    wefti_rank *r = s->rank;
    r->now.status.loss_sum = rows > 0 ? loss : 0; /* of no rows it may be anything */
    r->now.status.told_s = s->rows.took_s;
    r->now.status.told_rows = rows;
    r->now.status.told_since = since(s);
    r->now.status.rate = wefti_sync_rate(s);
    r->says.is_sent = true;
    WEFT_TRY(wefti_rank_check_loss(r));
    WEFT_TRY(wefti_rank_send_status(r, s->step));
    int R = r->job->R;
    if (!r->shares.weights)
        WEFT_TRY(wefti_alloc_n(s->ctx, 2 * (int64_t)R, sizeof *r->shares.weights, "rows",
                               &r->shares.weights));
    for (int i = 0; i < R; i++)
        r->shares.weights[R + i] = r->shares.weights[i], r->shares.weights[i] = -1;
    WEFT_TRY(wefti_rank_hear_status(r, s->step, take, h));
    s->counted = s->step + 1;
    return check_heard(s, h);
}

/* Nothing of the step before is under way any more, so the exchange thread reads none of this. */
static void set_weights(weft_sync *s, const gather *h) {
    wefti_rank *r = s->rank;
    bool mixes = wefti_is(r->job->replicator_config.kind, "none");
    bool lasts = r->job->mixer_config.delay > 0; /* what was sent in earlier steps;
                                                    replicator.delay is refused */
    double all = h->copies, *now = r->shares.weights, *last = now + r->job->R;
    for (int i = 0; i < r->job->R && lasts; i++)
        if (now[i] < 0) all += 1 - fmax(0, last[i]); /* the sum of all stays */
    for (int i = 0; i < r->job->R; i++)
        if (now[i] < 0)
            now[i] = lasts ? fmax(0, last[i]) : 0;
        else
            now[i] = h->behind > 0 ? now[i] * fmax(0, all) / h->behind : 1;
    if (mixes)
        r->comms.sites->weights = r->shares.weights;
    else
        r->comms.replica->weights = r->shares.weights;
    r->shares.weight = mixes ? 1 : r->shares.weights[r->replica];
}

static weft_status weigh(weft_sync *s, double loss, double rows, double *weight) {
    gather h = {.s = s, .wrong = -1, .unlike = -1};
    if (!s->setup.uneven)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "weft_sync_weigh without weft_sync_setup.uneven");
    WEFT_TRY(wefti_sync_open_window(s));
    if (!(rows >= 0 && rows <= most_rows - since(s) && rows == floor(rows)))
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "a step has %g rows, expected a whole number from 0 on",
                             rows);
    s->rows.took_s = wefti_now_s() - s->ended_s;
    WEFT_TRY(weft_sync_open(s));
    if (s->rank->says.is_sent)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "weft_sync_weigh for the second time in step %lld",
                             (long long)s->step + 1);
    s->rows.window[s->step % s->rows.n_window] = rows;
    WEFT_TRY(exchange_rows(s, loss, rows, &h));
    set_weights(s, &h);
    *weight = s->rank->shares.weights[s->rank->replica];
    if (rows == 0) s->rank->shares.weight = 0;
    if (rows == 0 && s->setup.compressed) *weight = 0;
    s->rows.loss = h.rows > 0 ? h.loss / h.rows : (double)NAN;
    return WEFT_OK;
}

weft_status weft_sync_weigh(weft_sync *s, double loss, double rows, double *weight) {
    *weight = 1;
    return wefti_sync_told(s, weigh(s, loss, rows, weight));
}

int weft_sync_reported(const weft_sync *s, int copy, double *rows, double *seconds) {
    *rows = *seconds = -1;
    if (copy < 0 || copy >= s->rows.n_reports) return -2;
    *rows = s->rows.reports[copy].rows;
    *seconds = s->rows.reports[copy].seconds;
    return s->rows.reports[copy].was;
}
