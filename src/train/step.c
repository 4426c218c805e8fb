/* SPDX-License-Identifier: MIT */
/* One optimizer step of one rank:
 *
 *     for each micro-batch:  tokens -> forward -> loss -> backward -> gradient shards
 *     each bucket, as soon as its gradient is complete, on the exchange thread:
 *                            replicate -> optimize -> mix
 *     vote:                  loss, stop, failure; travels while the exchange does
 *     settle:                wait for the exchange, before the next step reads a
 * parameter votes:                 counted then too, or with gossip some steps later
 *
 * Clipping needs a norm of the whole gradient. A replicator that keeps norms (full)
 * exchanges at once and is clipped and optimized when all buckets are back; any other
 * (demo) is clipped first, so its exchange starts after the backward pass.
 */
#include "train/rank.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "train/learning_rate.h"
#include "wire/bits.h"

int64_t wefti_rank_control_tag(wefti_rank *r) { return -1 - r->n_control_messages++; }

static double bucket_squares(wefti_rank *r, int b) {
    const wefti_arrangement *a = r->arrangement;
    return r->job->kernels->sum_squares(a->buckets[b].n_elements,
                                        r->grads + a->bucket_offset[b]);
}

/* Squared norm of the node's gradient as it lies in the shards now. */
static weft_status node_squares(wefti_rank *r, double *squares) {
    *squares = 0;
    for (int b = 0; b < r->arrangement->n_buckets; b++)
        *squares += r->squares[b] = bucket_squares(r, b);
    return wefti_comm_sum(r->comms.shard, r->n_shard_messages++, 1, squares);
}

static void set_scale(wefti_rank *r, double squares) {
    double norm = sqrt(squares), bound = r->job->config->optimizer.clip;
    r->grad_scale = norm > bound ? (float)(bound / norm) : 1;
}

static weft_status clip_and_apply(wefti_rank *r) {
    double squares;
    WEFT_TRY(wefti_worker_wait(r->worker, r->last_ticket, &r->tally.wait_s));
    WEFT_TRY(node_squares(r, &squares));
    set_scale(r, squares);
    int n = r->arrangement->n_buckets;
    double waited_s = r->mixer->waited_s;
    for (int b = 0; b < n; b++) {
        double begun_s = wefti_timeline_now(r->timeline);
        WEFT_TRY(wefti_exchange_apply(r, b));
        wefti_timeline_put(r->timeline, WEFTI_TIMELINE_COMPUTE, b, "apply", begun_s);
    }
    for (int b = 0; b < n; b++)
        WEFT_TRY(wefti_mixer_finish(r->mixer, b, r->step,
                                    r->params + r->arrangement->bucket_offset[b]));
    r->tally.wait_s += r->mixer->waited_s - waited_s;
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

static unsigned char *ballot_of(wefti_rank *r, int64_t step) {
    return r->ballots[step % WEFTI_BALLOTS];
}

/* Sends this rank's vote to all; wefti_rank_count_votes reads it. The distance is that of
 * the step before: this step's mixing is not done. */
static weft_status cast_vote(wefti_rank *r) {
    unsigned char *ballot = ballot_of(r, r->step);
    r->vote.stop = r->should_stop && r->should_stop(r->stop_user) ? 1 : 0;
    r->vote.failed = isfinite(r->vote.loss_sum) ? 0 : 1;
    r->vote.met = isnan(r->distance) ? 0 : 1;
    r->vote.distance = r->vote.met > 0 ? r->distance : 0;
    put_f64(ballot, r->vote.loss_sum);
    put_f64(ballot + 8, r->vote.stop);
    put_f64(ballot + 16, r->vote.failed);
    put_f64(ballot + 24, r->vote.distance);
    put_f64(ballot + 32, r->vote.met);
    return wefti_comm_send_all(r->comms.control, r->step, ballot, WEFTI_VOTE_BYTES);
}

/* Rows of the text, or made tokens where there is none (benchmarks). */
static void load_rows(wefti_rank *r, int64_t row) {
    const wefti_job *job = r->job;
    if (job->dataset) {
        weft_dataset_train_rows(job->dataset, row, job->B, r->tokens, r->targets);
        return;
    }
    uint64_t vocab = (uint64_t)job->model->config.vocab;
    for (int64_t i = 0; i < job->B * job->T; i++) {
        uint64_t pair[2];
        wefti_rng_pair((uint64_t)row, WEFTI_STREAM_TEST, 0, (uint64_t)i, pair);
        r->tokens[i] = (int32_t)(pair[0] % vocab);
        r->targets[i] = (int32_t)(pair[1] % vocab);
    }
}

void wefti_rank_pace(const wefti_rank *r, double share) {
    const weft_config *config = r->job->config;
    uint64_t W = (uint64_t)r->job->W, step = (uint64_t)r->step;
    double due_s = r->begun_s + share * config->mesh.compute_time;
    if (config->mesh.straggler_time > 0 &&
        wefti_rng_u64((uint64_t)config->run.seed, WEFTI_STREAM_STALL, step, 0) % W ==
            (uint64_t)r->rank)
        due_s += config->mesh.straggler_time;
    if (due_s > r->begun_s) wefti_sleep_until_s(due_s);
}

static weft_status micro_batch(wefti_rank *r, int64_t micro) {
    const wefti_job *job = r->job;
    int64_t row = job->first_row + (r->step - job->first_step) * job->rows_per_step +
                  r->rank * job->rows_per_rank + micro * job->B;
    load_rows(r, row);
    WEFT_TRY(wefti_rank_forward(r, true, row));
    return wefti_rank_backward(r, row, micro);
}

weft_status wefti_rank_open(wefti_rank *r, int64_t step) {
    r->step = step;
    r->lr = (float)wefti_learning_rate(r->job->config, step);
    r->grad_scale = 1;
    r->vote = (wefti_vote){0};
    r->tally = (wefti_tally){0};
    int64_t earlier = step - WEFTI_BALLOTS;
    if (earlier >= r->job->first_step)
        WEFT_TRY(wefti_comm_await(r->comms.control, earlier));
    wefti_comm_traffic(r->comms.control, &r->traffic_before);
    wefti_rank_forget_gathered(r);
    wefti_comm_note(r->comms.control, step, "");
    r->begun_s = wefti_now_s();
    wefti_timeline_open(r->timeline, step, r->begun_s);
    wefti_exchange_turn(r);
    return WEFT_OK;
}

weft_status wefti_rank_close(wefti_rank *r) {
    WEFT_TRY(cast_vote(r));
    if (r->apply_in_exchange || r->outside) return WEFT_OK;
    return r->clip_after_exchange ? clip_and_apply(r) : clip_and_submit(r);
}

weft_status wefti_rank_step(wefti_rank *r, int64_t step) {
    WEFT_TRY(wefti_rank_open(r, step));
    for (int64_t m = 0; m < r->job->n_micro; m++) WEFT_TRY(micro_batch(r, m));
    return wefti_rank_close(r);
}

weft_status wefti_rank_count_votes(wefti_rank *r, int64_t step, wefti_vote *agreed) {
    *agreed = (wefti_vote){0};
    for (int peer = 0; peer < r->comms.control->size; peer++) {
        const void *view = ballot_of(r, step);
        bool mine = peer == r->comms.control->rank;
        if (!mine)
            WEFT_TRY(wefti_comm_receive(r->comms.control, peer, step, WEFTI_VOTE_BYTES,
                                        &view));
        const unsigned char *ballot = view;
        agreed->loss_sum += get_f64(ballot);
        agreed->stop += get_f64(ballot + 8);
        agreed->failed += get_f64(ballot + 16);
        agreed->distance += get_f64(ballot + 24);
        agreed->met += get_f64(ballot + 32);
        if (!mine) wefti_comm_release(r->comms.control, peer, step);
    }
    return WEFT_OK;
}

double wefti_rank_consensus(const wefti_rank *r, const wefti_vote *agreed) {
    return agreed->met > 0 ? sqrt(agreed->distance * r->job->S / agreed->met)
                           : (double)NAN;
}

void wefti_rank_control(wefti_rank *r, int64_t step, const wefti_vote *agreed) {
    _Static_assert(WEFTI_CONTROL_STEPS >= WEFTI_MAX_LAG + 4, "all open decisions fit");
    double bound = r->job->mixer_config.consensus_bound;
    bool all = wefti_rank_consensus(r, agreed) > bound;
    wefti_mixer_average_all(r->mixer, step + 2 + r->job->vote_lag, all);
}

weft_status wefti_rank_control_early(wefti_rank *r, int64_t step) {
    double met = isnan(r->distance) ? 0 : 1, sums[2] = {met > 0 ? r->distance : 0, met};
    if (!r->mixer->control) return WEFT_OK;
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), 2, sums));
    wefti_vote agreed = {.distance = sums[0], .met = sums[1]};
    wefti_rank_control(r, step, &agreed);
    return WEFT_OK;
}

static weft_status take_tally(wefti_rank *r, wefti_tally *tally) {
    for (int b = 0; b < r->arrangement->n_buckets; b++) {
        r->tally.grad_squares += r->squares[b];
        r->tally.moved += r->moved[b];
    }
    double busy_s = wefti_worker_busy_s(r->worker) + r->mixer->exchange_s;
    r->tally.exchange_s = busy_s - r->busy_before_s;
    r->busy_before_s = busy_s;
    r->tally.late = (double)(r->mixer->late - r->late_before);
    r->late_before = r->mixer->late;
    wefti_traffic now, *before = &r->traffic_before;
    wefti_comm_traffic(r->comms.control, &now);
    for (int link = 0; link < WEFTI_LINK_CLASSES; link++) {
        double out = (double)(now.bytes_out[link] - before->bytes_out[link]);
        double in = (double)(now.bytes_in[link] - before->bytes_in[link]);
        bool local = link == WEFTI_LINK_LOCAL;
        *(local ? &r->tally.local_out : &r->tally.wire_out) += out;
        *(local ? &r->tally.local_in : &r->tally.wire_in) += in;
    }
    *tally = r->tally;
    double sums[sizeof *tally / sizeof(double)];
    _Static_assert(sizeof sums == sizeof *tally, "a tally is doubles only");
    memcpy(sums, tally, sizeof sums);
    WEFT_TRY(wefti_comm_sum(r->comms.shard, r->n_shard_messages++,
                            (int)(sizeof sums / sizeof *sums), sums));
    memcpy(tally, sums, sizeof sums);
    return WEFT_OK;
}

weft_status wefti_rank_settle(wefti_rank *r, wefti_tally *tally) {
    WEFT_TRY(wefti_worker_wait(r->worker, r->last_ticket, &r->tally.wait_s));
    wefti_timeline_close(r->timeline);
    if (r->mixer->ops->distance) r->distance = r->mixer->ops->distance(r->mixer);
    return take_tally(r, tally);
}
