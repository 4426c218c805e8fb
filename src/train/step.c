/* SPDX-License-Identifier: MIT */
/* One optimizer step of one rank:
 *
 *     for each micro-batch:  tokens -> forward -> loss -> backward -> gradient shards
 *     each bucket, as soon as its gradient is complete, on the exchange thread:
 *                            replicate -> optimize
 *     vote:                  loss, stop, failure; travels while the exchange does
 *     settle:                wait for both, before the next step reads a parameter
 *
 * Clipping needs a norm of the whole gradient. A replicator that keeps norms (full)
 * exchanges at once and is clipped and optimized when all buckets are back; any other
 * (demo) is clipped first, so its exchange starts after the backward pass.
 */
#include "train/rank.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "train/schedule.h"
#include "wire/bits.h"

int64_t wefti_rank_control_tag(wefti_rank *r) { return -1 - r->n_control_messages++; }

static double bucket_squares(wefti_rank *r, int b) {
    const wefti_arrangement *a = r->arrangement;
    return r->plan->kernels->sum_squares(a->buckets[b].n_elements,
                                         r->grads + a->bucket_offset[b]);
}

/* Squared norm of the node's gradient as it lies in the shards now. */
static weft_status node_squares(wefti_rank *r, double *squares) {
    *squares = 0;
    for (int b = 0; b < r->arrangement->n_buckets; b++)
        *squares += r->squares[b] = bucket_squares(r, b);
    return wefti_comm_sum(r->shard, r->n_shard_messages++, 1, squares);
}

static void set_scale(wefti_rank *r, double squares) {
    double norm = sqrt(squares), bound = r->plan->config->optimizer.clip;
    r->grad_scale = norm > bound ? (float)(bound / norm) : 1;
}

static weft_status clip_and_apply(wefti_rank *r) {
    double squares;
    WEFT_TRY(wefti_worker_wait(r->worker, r->last_ticket, &r->tally.wait_s));
    WEFT_TRY(node_squares(r, &squares));
    set_scale(r, squares);
    for (int b = 0; b < r->arrangement->n_buckets; b++) wefti_exchange_apply(r, b);
    return WEFT_OK;
}

static weft_status clip_and_submit(wefti_rank *r) {
    double squares;
    WEFT_TRY(node_squares(r, &squares));
    set_scale(r, squares);
    for (int b = 0; b < r->arrangement->n_buckets; b++) WEFT_TRY(wefti_rank_submit(r, b));
    return WEFT_OK;
}

static void put_f64(unsigned char *p, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    wefti_put_u64(p, bits);
}

static double get_f64(const unsigned char *p) {
    uint64_t bits = wefti_get_u64(p);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Sends this rank's vote to all; it is read in settle. */
static weft_status cast_vote(wefti_rank *r) {
    r->vote.stop = r->should_stop && r->should_stop(r->stop_user) ? 1 : 0;
    r->vote.failed = isfinite(r->vote.loss_sum) ? 0 : 1;
    put_f64(r->ballot, r->vote.loss_sum);
    put_f64(r->ballot + 8, r->vote.stop);
    put_f64(r->ballot + 16, r->vote.failed);
    return wefti_comm_send_all(r->control, r->step, r->ballot, sizeof r->ballot);
}

/* Rows of the text, or made tokens where there is none (benchmarks). */
static void load_rows(wefti_rank *r, int64_t row) {
    const wefti_plan *plan = r->plan;
    if (plan->dataset) {
        weft_dataset_train_rows(plan->dataset, row, plan->B, r->tokens, r->targets);
        return;
    }
    uint64_t vocab = (uint64_t)plan->model->config.vocab;
    for (int64_t i = 0; i < plan->B * plan->T; i++) {
        uint64_t pair[2];
        wefti_rng_pair((uint64_t)row, WEFTI_STREAM_TEST, 0, (uint64_t)i, pair);
        r->tokens[i] = (int32_t)(pair[0] % vocab);
        r->targets[i] = (int32_t)(pair[1] % vocab);
    }
}

static weft_status micro_batch(wefti_rank *r, int64_t micro) {
    const wefti_plan *plan = r->plan;
    int64_t row = plan->first_row + (r->step - plan->first_step) * plan->rows_per_step +
                  r->rank * plan->rows_per_rank + micro * plan->B;
    load_rows(r, row);
    WEFT_TRY(wefti_rank_forward(r, true, row));
    return wefti_rank_backward(r, row, micro);
}

weft_status wefti_rank_step(wefti_rank *r, int64_t step) {
    r->step = step;
    r->lr = (float)wefti_schedule_lr(r->plan->config, step);
    r->grad_scale = 1;
    r->vote = (wefti_vote){0};
    r->tally = (wefti_tally){0};
    wefti_rank_forget_gathered(r);
    for (int64_t m = 0; m < r->plan->n_micro; m++) WEFT_TRY(micro_batch(r, m));
    WEFT_TRY(cast_vote(r));
    if (r->apply_in_exchange) return WEFT_OK;
    return r->clip_after_exchange ? clip_and_apply(r) : clip_and_submit(r);
}

static weft_status count_votes(wefti_rank *r, wefti_vote *agreed) {
    *agreed = (wefti_vote){0};
    for (int peer = 0; peer < r->control->size; peer++) {
        const void *view = r->ballot;
        bool mine = peer == r->control->rank;
        if (!mine)
            WEFT_TRY(
                wefti_comm_receive(r->control, peer, r->step, sizeof r->ballot, &view));
        const unsigned char *ballot = view;
        agreed->loss_sum += get_f64(ballot);
        agreed->stop += get_f64(ballot + 8);
        agreed->failed += get_f64(ballot + 16);
        if (!mine) wefti_comm_release(r->control, peer, r->step);
    }
    return wefti_comm_await(r->control, r->step);
}

static weft_status take_tally(wefti_rank *r, wefti_tally *tally) {
    for (int b = 0; b < r->arrangement->n_buckets; b++) {
        r->tally.grad_squares += r->squares[b];
        r->tally.moved += r->moved[b];
    }
    double busy_s = wefti_worker_busy_s(r->worker);
    r->tally.exchange_s = busy_s - r->busy_before_s;
    r->busy_before_s = busy_s;
    wefti_traffic now, *before = &r->traffic_before;
    wefti_comm_traffic(r->control, &now);
    r->tally.wire_out = (double)(now.bytes_out[WEFTI_LINK_WIRE] -
                                 before->bytes_out[WEFTI_LINK_WIRE]);
    r->tally.wire_in = (double)(now.bytes_in[WEFTI_LINK_WIRE] -
                                before->bytes_in[WEFTI_LINK_WIRE]);
    r->tally.local_out = (double)(now.bytes_out[WEFTI_LINK_LOCAL] -
                                  before->bytes_out[WEFTI_LINK_LOCAL]);
    r->tally.local_in = (double)(now.bytes_in[WEFTI_LINK_LOCAL] -
                                 before->bytes_in[WEFTI_LINK_LOCAL]);
    r->traffic_before = now;
    *tally = r->tally;
    double sums[sizeof *tally / sizeof(double)];
    _Static_assert(sizeof sums == sizeof *tally, "a tally is doubles only");
    memcpy(sums, tally, sizeof sums);
    WEFT_TRY(wefti_comm_sum(r->shard, r->n_shard_messages++,
                            (int)(sizeof sums / sizeof *sums), sums));
    memcpy(tally, sums, sizeof sums);
    return WEFT_OK;
}

weft_status wefti_rank_settle(wefti_rank *r, wefti_vote *agreed, wefti_tally *tally) {
    WEFT_TRY(wefti_worker_wait(r->worker, r->last_ticket, &r->tally.wait_s));
    WEFT_TRY(count_votes(r, agreed));
    return take_tally(r, tally);
}
