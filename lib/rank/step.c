/* SPDX-License-Identifier: MIT */
/* One step of one rank: the ops of its schedule (step/schedule.c draws them), each done
 * by the function that `act` has for it.
 *
 *     open    the mixer's answers
 *     passes  micro-batches: tokens -> forward -> loss -> backward -> gradient shards;
 *             complete buckets go to the exchange thread
 *     close   status; clipping
 *     settle  wait for the exchange, before the next step reads a parameter
 *
 * The ranks' status (loss, stop, distance) is sent while the exchange runs. It is read
 * when the step has settled or, with gossip, some steps later. */
#include "comm/worker.h"
#include "mix/mixer.h"
#include "rank/rank.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "job/form.h"
#include "job/learning_rate.h"
#include "replicate/replicator.h"
#include "step/schedule.h"
#include "wire/bits.h"

/* Number of tags of the shard group that are reserved for a step and what follows it. */
enum { SHARD_TAGS = 1 << 20 };
/* What a rank says beyond that is no time of a step. */
static const double MOST_STEP_S = 1e6;

int64_t wefti_rank_control_tag(wefti_rank *r) {
    return -1 - r->onward.n_control_messages++;
}

static double bucket_squares(wefti_rank *r, int b) {
    const wefti_arrangement *a = r->arrangement;
    return r->job->kernels->sum_squares(a->buckets[b].n_elements,
                                        r->grads + a->bucket_offset[b]);
}

/* Squared norm of the node's gradient as it is in the shards now. */
static weft_status node_squares(wefti_rank *r, double *squares) {
    *squares = 0;
    for (int b = 0; b < r->arrangement->n_buckets; b++) {
        *squares += r->exchange.squares[b] = bucket_squares(r, b);
        WEFT_TRY(wefti_rank_check_finite(
            r, b, r->grads + r->arrangement->bucket_offset[b], r->exchange.squares[b]));
    }
    return wefti_comm_sum(r->comms.shard, r->now.n_shard_messages++, 1, squares);
}

static void set_scale(wefti_rank *r, double squares) {
    double norm = sqrt(squares), bound = r->job->optimizer.clip;
    if (r->schedule->clip == WEFTI_CLIP_LOCAL) bound *= r->shares.weight;
    r->now.grad_scale = norm > bound ? (float)(bound / norm) : 1;
}

static weft_status norm_op(wefti_rank *r, const wefti_op *op) {
    double squares;
    (void)op;
    WEFT_TRY(node_squares(r, &squares));
    set_scale(r, squares);
    bool agreed = r->schedule->clip == WEFTI_CLIP_AGREED; /* else the exchange scales */
    if (r->job->as.outside && agreed &&
        r->now.grad_scale < 1) /* the caller's optimizer knows of no scale */
        r->job->kernels->scale(r->arrangement->n_elements, r->now.grad_scale, r->grads);
    return WEFT_OK;
}

/* The optimizer alone: nothing is exchanged, and the next pass begins another gradient. */
static weft_status inner_op(wefti_rank *r, const wefti_op *op) {
    (void)op;
    r->now.grad_scale = 1;
    if (r->schedule->clip != WEFTI_CLIP_NONE) WEFT_TRY(norm_op(r, op));
    for (int b = 0; b < r->arrangement->n_buckets; b++)
        WEFT_TRY(wefti_exchange_optimize(r, b));
    r->now.grad_scale = 1;
    wefti_rank_forget_gathered(r);
    return WEFT_OK;
}

static weft_status apply_op(wefti_rank *r, const wefti_op *op) {
    double waited_s = r->mixer->times.waited_s;
    WEFT_TRY(wefti_exchange_apply(r, op->index));
    r->now.tally.wait_s += r->mixer->times.waited_s - waited_s;
    return WEFT_OK;
}

static weft_status finish_op(wefti_rank *r, const wefti_op *op) {
    WEFTI_ASSERT(op->index >= 0 && op->index < r->schedule->n_buckets);
    double waited_s = r->mixer->times.waited_s;
    WEFT_TRY(wefti_mixer_finish(r->mixer, op->index, r->step,
                                r->params + r->arrangement->bucket_offset[op->index]));
    r->now.tally.wait_s += r->mixer->times.waited_s - waited_s;
    return WEFT_OK;
}

static weft_status answer_op(wefti_rank *r, const wefti_op *op) {
    WEFTI_ASSERT(op->index >= 0 && op->index < r->schedule->n_buckets);
    r->exchange.last_ticket = wefti_worker_submit(r->exchange.worker,
                                                  r->schedule->n_buckets + op->index);
    return WEFT_OK;
}

static void pay(const wefti_rank *r, int b) {
    int64_t from = r->arrangement->bucket_offset[b];
    int64_t to = from + r->arrangement->buckets[b].n_elements;
    for (int64_t i = from; i < to; i++) r->grads[i] += r->carried.owed[i];
}

static weft_status submit_op(wefti_rank *r, const wefti_op *op) {
    WEFTI_ASSERT(op->index >= 0 && op->index < r->schedule->n_buckets);
    if (r->carried.owed) pay(r, op->index);
    r->exchange.last_ticket = wefti_worker_submit(r->exchange.worker, op->index);
    r->exchange.tickets[op->index] = r->exchange.last_ticket;
    return WEFT_OK;
}

static weft_status wait_op(wefti_rank *r, const wefti_op *op) {
    (void)op;
    return wefti_worker_wait(r->exchange.worker, r->exchange.last_ticket,
                             &r->now.tally.wait_s);
}

weft_status wefti_rank_submit(wefti_rank *r, int b) {
    const wefti_op op = {.kind = WEFTI_OP_SUBMIT, .index = b};
    WEFT_TRY(submit_op(r, &op));
    return r->schedule->overlaps ? WEFT_OK : wait_op(r, &op);
}

static unsigned char *sent_of(wefti_rank *r, int64_t step) {
    WEFTI_ASSERT(step >= 0);
    return r->says.sent[step % WEFTI_STATUS_SLOTS];
}

/* What is sent: 1 asks to stop, 2 to save, 4 says that the rank leaves; 8 times a form. */
enum { STOP = 1, SAVE = 2, LEAVE = 4, FORM = 8 };

static int64_t asks_of(const wefti_step_status *status) {
    const int64_t all = FORM * WEFTI_FORM_CODES * WEFTI_ALONE_CODES - 1;
    return status->stop >= 0 && status->stop <= (double)all ? (int64_t)status->stop : 0;
}

wefti_step_status wefti_rank_status_of(const void *bytes) {
    const unsigned char *from = bytes;
    return (wefti_step_status){.loss_sum = wefti_get_f64(from),
                               .stop = wefti_get_f64(from + 8),
                               .distance = wefti_get_f64(from + 16),
                               .computed_s = wefti_get_f64(from + 24),
                               .rate = wefti_get_f64(from + 32)};
}

/* A NAN from a peer is like nothing, so that it backs neither side. */
static void count(wefti_alikes *v, int rank, bool first, double theirs, double within) {
    bool alike = theirs == v->own || fabs(theirs - v->own) <= within;
    v->alike += alike;
    v->first |= alike && first;
    if (!alike && v->others++ == 0) v->other = rank, v->theirs = theirs;
}

void wefti_rates_note(const wefti_rank *r, int64_t step, int rank,
                      const wefti_step_status *theirs, wefti_alikes *rates) {
    rates->own = wefti_get_f64(r->says.sent[step % WEFTI_STATUS_SLOTS] + 32);
    count(rates, rank, rank == 0, theirs->rate, 0);
}

static bool in_minority(const wefti_alikes *v) {
    return v->alike < v->others || (v->alike == v->others && v->others > 0 && !v->first);
}

/* Of those who hold the same parameters: a mark is in units of their norm, and processors
 * round differently. */
static void note_mark(const wefti_rank *r, int64_t step, int rank, double mark,
                      wefti_alikes *marks) {
    int S = r->job->S;
    if (!r->job->replicas_equal || rank % S != r->rank % S) return;
    marks->own = wefti_get_f64(r->says.sent[step % WEFTI_STATUS_SLOTS] + 16);
    if (isnan(marks->own)) return; /* none in this step */
    count(marks, rank, rank < S, mark, 1e-3);
}

weft_status wefti_status_check(weft_ctx *ctx, const wefti_step_status *agreed,
                               int64_t step) {
    const wefti_alikes *rates = &agreed->rates, *marks = &agreed->marks;
    if (in_minority(rates))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the learning rate was %.7g in step %lld, that of rank %d "
                             "%.7g; expected the same on all ranks: a schedule that "
                             "follows a loss needs one that all ranks have alike",
                             rates->own, (long long)step + 1, rates->other,
                             rates->theirs);
    if (in_minority(marks))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "parameters when step %lld began were not those of rank %d; "
                             "expected weights that are loaded before the optimizer is "
                             "made, or by all",
                             (long long)step + 1, marks->other);
    return WEFT_OK;
}

weft_status wefti_rank_send_status(wefti_rank *r, int64_t step) {
    unsigned char *bytes = sent_of(r, step);
    wefti_put_f64(bytes, r->now.status.loss_sum);
    wefti_put_f64(bytes + 8, r->now.status.stop + SAVE * r->now.status.save +
                                 (double)(FORM * r->says.form));
    wefti_put_f64(bytes + 16, r->now.status.distance);
    wefti_put_f64(bytes + 24, r->now.status.computed_s);
    wefti_put_f64(bytes + 32, r->now.status.rate);
    if (r->job->lag.audit > 0)
        wefti_sent_tell(&r->audit.sent, step, bytes + WEFTI_STATUS_BYTES);
    return wefti_comm_allgather_begin(r->comms.control, step, bytes,
                                      wefti_job_status_bytes(r->job));
}

double wefti_rank_computed_s(const wefti_rank *r) {
    double paced_s = r->now.paced_s > 0 ? r->now.paced_s + r->now.stopped_s : 0;
    if (paced_s > 0 && r->job->run.measures) return paced_s;
    return fmax(paced_s, wefti_now_s() - r->now.begun_s - r->now.tally.wait_s);
}

/* The distance is that of the step before, because this step's mixing is not done yet. */
static weft_status status_op(wefti_rank *r, const wefti_op *op) {
    (void)op;
    if (r->says.is_sent) return WEFT_OK;
    const wefti_onward *o = &r->onward;
    bool asked = o->should_stop && o->should_stop(o->stop_user);
    r->now.status.stop = asked ? (o->leaves_alone ? LEAVE : STOP) : 0;
    r->now.status.save = r->says.save;
    r->now.status.distance = r->last.distance;
    r->now.status.computed_s = wefti_rank_computed_s(r);
    WEFT_TRY(wefti_rank_check_loss(r));
    return wefti_rank_send_status(r, r->step);
}

/* Whether a rank of the world took part in a step, or was a learner. */
static bool takes_part(const wefti_rank *r, int rank, int64_t step) {
    const wefti_learners *g = &r->learners;
    return step >= g->until || rank / r->job->S < r->job->R - g->n;
}

typedef struct reading {
    wefti_rank *rank;
    int64_t step;
    wefti_step_status *agreed;
    int heard,
        asked; /* the last copy of which a rank was heard, was asked to end; or -1 */
} reading;

static void add_status(void *user, int peer, const void *bytes) {
    reading *to = user;
    const wefti_step_status theirs = wefti_rank_status_of(bytes);
    wefti_step_status *agreed = to->agreed;
    int64_t asks = asks_of(&theirs);
    int S = to->rank->job->S, copy = peer / S;
    uint64_t *digests = to->rank->audit.digests;
    for (int k = 0; digests && k < WEFTI_SENT_ROUNDS; k++)
        digests[peer * WEFTI_SENT_ROUNDS + k] = wefti_get_u64(
            (const unsigned char *)bytes + WEFTI_STATUS_BYTES + 8 * k);
    agreed->stop += (asks & STOP) != 0;
    if ((asks & (STOP | LEAVE)) && to->asked != copy) agreed->asked++, to->asked = copy;
    if (to->heard != copy) agreed->heard++, to->heard = copy;
    agreed->leaves += (asks & LEAVE) && copy == to->rank->rank / S;
    if (peer == 0) agreed->save = (asks & SAVE) != 0;
    if (peer == 0) to->rank->last.form = asks / FORM;
    if (!takes_part(to->rank, peer, to->step)) return;
    wefti_rank_note_speed(to->rank, peer, theirs.computed_s);
    if (theirs.computed_s > to->rank->last.computed_s && theirs.computed_s <= MOST_STEP_S)
        to->rank->last.computed_s = theirs.computed_s, to->rank->last.slowest = peer;
    if (peer == to->rank->rank) to->rank->last.own_s = theirs.computed_s;
    wefti_rates_note(to->rank, to->step, peer, &theirs, &agreed->rates);
    note_mark(to->rank, to->step, peer, theirs.mark, &agreed->marks);
    agreed->counted++;
    agreed->rows += (double)wefti_job_rows(to->rank->job, copy);
    agreed->loss_sum += theirs.loss_sum;
    if (isnan(theirs.distance)) return;
    agreed->distance += theirs.distance;
    agreed->met++;
}

weft_status wefti_rank_hear_status(wefti_rank *r, int64_t step,
                                   void (*take)(void *user, int rank, const void *bytes),
                                   void *user) {
    const wefti_allgather gather = {sent_of(r, step), wefti_job_status_bytes(r->job),
                                    take, user};
    return wefti_comm_allgather_end(r->comms.control, step, &gather);
}

weft_status wefti_rank_read_status(wefti_rank *r, int64_t step,
                                   wefti_step_status *agreed) {
    reading to = {r, step, agreed, -1, -1};
    *agreed = (wefti_step_status){0};
    r->last.form = 0;
    r->last.computed_s = r->last.own_s = r->last.slowest = 0;
    if (r->audit.digests) /* of those whose status does not count: none */
        memset(r->audit.digests, 0, (size_t)r->job->W * WEFTI_SENT_BYTES);
    WEFT_TRY(wefti_rank_hear_status(r, step, add_status, &to));
    wefti_rank_end_speeds(r, step);
    return WEFT_OK;
}

double wefti_rank_consensus(const wefti_rank *r, const wefti_step_status *agreed) {
    return agreed->met > 0 ? sqrt(agreed->distance * r->job->S / agreed->met)
                           : (double)NAN;
}

void wefti_rank_control(wefti_rank *r, int64_t step, const wefti_step_status *agreed) {
    _Static_assert(WEFTI_CONTROL_STEPS >= WEFTI_MAX_LAG + 4, "all open decisions fit");
    double bound = r->job->mixer_config.consensus_bound;
    bool all = wefti_rank_consensus(r, agreed) > bound;
    wefti_mixer_average_all(r->mixer, step + 2 + r->job->lag.status, all);
}

weft_status wefti_rank_control_early(wefti_rank *r, int64_t step) {
    double met = isnan(r->last.distance) ? 0 : 1,
           sums[2] = {met > 0 ? r->last.distance : 0, met};
    if (!r->mixer->control) return WEFT_OK;
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), 2, sums));
    const wefti_step_status agreed = {.distance = sums[0], .met = sums[1]};
    wefti_rank_control(r, step, &agreed);
    return WEFT_OK;
}

static void count_exchange(wefti_rank *r) {
    bool agreed = wefti_replicator_find(r->job->replicator_config.kind)->keeps_norm;
    double weight = agreed ? 1 : r->shares.weight; /* in this rank's gradient */
    for (int b = 0; b < r->arrangement->n_buckets; b++) {
        if (weight > 0)
            r->now.tally.grad_squares += r->exchange.squares[b] / (weight * weight);
        r->now.tally.moved += r->exchange.moved[b];
    }
    double busy_s = wefti_worker_busy_s(r->exchange.worker) + r->mixer->times.exchange_s +
                    r->replicator->times.exchange_s;
    r->now.tally.exchange_s = busy_s - r->last.busy_before_s;
    r->last.busy_before_s = busy_s;
    r->now.tally.late = (double)(r->mixer->times.late - r->last.late_before);
    r->last.late_before = r->mixer->times.late;
}

static void count_traffic(wefti_rank *r) {
    wefti_traffic now, *before = &r->onward.traffic;
    wefti_comm_traffic(r->comms.control, &now);
    r->last.relayed = now.relayed - before->relayed;
    for (int link = 0; link < WEFTI_LINK_CLASSES; link++) {
        double out = (double)(now.bytes_out[link] - before->bytes_out[link]);
        double in = (double)(now.bytes_in[link] - before->bytes_in[link]);
        bool local = link == WEFTI_LINK_LOCAL;
        *(local ? &r->now.tally.local_out : &r->now.tally.wire_out) += out;
        *(local ? &r->now.tally.local_in : &r->now.tally.wire_in) += in;
    }
}

/* Names, once, a node whose numbers are too large again and again. */
static void name_suspect(wefti_rank *r) {
    double times;
    int exchanges, member;
    while ((member = wefti_robust_suspect(&r->audit.watch, &times, &exchanges)) >= 0) {
        r->audit.suspect = member / r->job->copies;
        if (r->rank > 0) continue;
        weft_ctx_log(
            r->ctx, WEFT_LOG_WARN,
            "node %d sends too much again and again, at step %lld %.3g times the "
            "median of the nodes, in %d of the last %d exchanges; mesh.robust "
            "limits what that does",
            r->audit.suspect, (long long)r->step + 1, times, exchanges,
            (int)WEFTI_ROBUST_EXCHANGES);
    }
}

/* Sums up what the step cost, over all ranks of the replica. */
static weft_status settle_op(wefti_rank *r, const wefti_op *op) {
    (void)op;
    wefti_free(r->ctx, r->carried.owed);
    r->carried.owed = NULL;
    if (r->mixer->ops->distance) r->last.distance = r->mixer->ops->distance(r->mixer);
    count_exchange(r);
    count_traffic(r);
    if (r->audit.watch.n > 0) name_suspect(r);
    double sums[sizeof r->now.tally / sizeof(double)];
    _Static_assert(sizeof sums == sizeof r->now.tally, "a tally is doubles only");
    memcpy(sums, &r->now.tally, sizeof sums);
    WEFT_TRY(wefti_comm_sum(r->comms.shard, r->now.n_shard_messages++,
                            (int)(sizeof sums / sizeof *sums), sums));
    memcpy(&r->now.tally, sums, sizeof sums);
    return WEFT_OK;
}

/* --- the step --- */

static weft_status load_op(wefti_rank *r, const wefti_op *op) {
    return wefti_passes_here.load(r, op);
}

static weft_status gather_op(wefti_rank *r, const wefti_op *op) {
    return wefti_passes_here.gather(r, op);
}

static weft_status forward_op(wefti_rank *r, const wefti_op *op) {
    return wefti_passes_here.forward(r, op);
}

static weft_status backward_op(wefti_rank *r, const wefti_op *op) {
    return wefti_passes_here.backward(r, op);
}

static weft_status reduce_op(wefti_rank *r, const wefti_op *op) {
    return wefti_passes_here.reduce(r, op);
}

/* The function for each op. READ has none: the caller, which keeps the records, reads the
 * status between wefti_rank_settle and wefti_rank_end. */
static weft_status (*const act[WEFTI_OP_KINDS])(wefti_rank *r, const wefti_op *op) = {
    [WEFTI_OP_ANSWER] = answer_op,     [WEFTI_OP_LOAD] = load_op,
    [WEFTI_OP_GATHER] = gather_op,     [WEFTI_OP_FORWARD] = forward_op,
    [WEFTI_OP_BACKWARD] = backward_op, [WEFTI_OP_REDUCE] = reduce_op,
    [WEFTI_OP_SUBMIT] = submit_op,     [WEFTI_OP_STATUS] = status_op,
    [WEFTI_OP_INNER] = inner_op,       [WEFTI_OP_WAIT] = wait_op,
    [WEFTI_OP_NORM] = norm_op,         [WEFTI_OP_APPLY] = apply_op,
    [WEFTI_OP_FINISH] = finish_op,     [WEFTI_OP_SETTLE] = settle_op,
};

/* A learner submits its buckets like all other ranks, because it adds up their messages and
 * answers them, but it computes nothing. */
static bool is_left_out(const wefti_rank *r, const wefti_op *op) {
    bool computes = op->kind == WEFTI_OP_LOAD || op->kind == WEFTI_OP_GATHER ||
                    op->kind == WEFTI_OP_FORWARD || op->kind == WEFTI_OP_BACKWARD ||
                    op->kind == WEFTI_OP_REDUCE || op->kind == WEFTI_OP_INNER;
    return computes && wefti_rank_is_learner(r);
}

/* Runs ops number `from` to `to` - 1. */
static weft_status run_ops(wefti_rank *r, int from, int to) {
    for (int i = from; i < to; i++) {
        const wefti_op *op = &r->schedule->ops[i];
        if (is_left_out(r, op)) continue;
        double begun_s = wefti_timeline_now(r->timeline);
        WEFT_TRY(act[op->kind](r, op));
        wefti_timeline_put(r->timeline, WEFTI_TIMELINE_COMPUTE, op->index,
                           wefti_op_name(op->kind), begun_s);
    }
    return WEFT_OK;
}

/* Whether this step's gradient is part of a later one's (batch.shares=steps). */
static void gather(wefti_rank *r, int64_t step) {
    bool last;
    r->shares.weight = wefti_job_gathers(r->job, r->replica, step, &last);
    r->replicator->gathers = !last && !wefti_rank_is_learner(r);
}

weft_status wefti_rank_open(wefti_rank *r, int64_t step) {
    r->step = step;
    if (r->job->run.measures && r->shares.weights) wefti_rank_weigh(r, step);
    if (r->job->run.inner_rows > 0) gather(r, step);
    r->now.lr = (float)wefti_learning_rate(r->job->config, step);
    r->now.grad_scale = 1;
    r->now.status = (wefti_step_status){0};
    r->says.is_sent = false;
    atomic_store(&r->now.lost_loss, false);
    r->now.tally = (wefti_tally){0};
    memset(r->exchange.tickets, 0,
           (size_t)r->schedule->n_buckets * sizeof *r->exchange.tickets);
    int64_t earlier = step - WEFTI_STATUS_SLOTS;
    if (earlier >= r->job->from.step)
        WEFT_TRY(wefti_comm_await(r->comms.control, earlier));
    wefti_comm_traffic(r->comms.control, &r->onward.traffic);
    wefti_rank_forget_gathered(r);
    r->now.n_shard_messages = (step + 1) *
                              SHARD_TAGS; /* whatever some ranks left out between steps */
    wefti_comm_note(r->comms.control, step, "");
    r->now.begun_s = wefti_now_s();
    r->now.stopped_s = 0;
    wefti_timeline_open(r->timeline, step, r->now.begun_s);
    return run_ops(r, 0, r->schedule->passes_at);
}

weft_status wefti_rank_close(wefti_rank *r) {
    return run_ops(r, r->schedule->close_at, r->schedule->settle_at);
}

weft_status wefti_rank_step(wefti_rank *r, int64_t step) {
    WEFT_TRY(wefti_rank_open(r, step));
    WEFT_TRY(run_ops(r, r->schedule->passes_at, r->schedule->close_at));
    return wefti_rank_close(r);
}

weft_status wefti_rank_settle(wefti_rank *r, wefti_tally *tally) {
    WEFT_TRY(run_ops(r, r->schedule->settle_at, r->schedule->read_at));
    *tally = r->now.tally;
    return WEFT_OK;
}

void wefti_rank_end(wefti_rank *r, double begun_s) {
    wefti_timeline_put(r->timeline, WEFTI_TIMELINE_COMPUTE, 0,
                       wefti_op_name(WEFTI_OP_READ), begun_s);
    wefti_timeline_close(r->timeline);
}
