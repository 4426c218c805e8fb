/* SPDX-License-Identifier: MIT */
/* The threads of all ranks, message by message. A rank is two threads with a clock each:
 *
 *     compute     runs the ops of the schedule in order: submits buckets to the other thread,
 *                 synchronizes with the ranks of its replica, sends its status, waits
 *     exchange    runs the phases of the buckets in the schedule's order; a phase is a few
 *                 actions: work, send, receive (phases.c)
 *
 * A thread runs until its clock has advanced or it has to wait; then the earliest event is next:
 *
 *     agenda -> event -> a thread continues      (whom < 2 W; stale if its mark differs)
 *                     -> a message's head is at the receiver's interface   (whom = 2 W)
 *
 *     state            what ends it
 *     WAITS_MESSAGE    the message is posted and has arrived, or its deadline (give_up)
 *     WAITS_ROOM       the last reader of a mixer's buffer is done
 *     WAITS_JOB        the compute thread submits
 *     WAITS_JOBS       the exchange thread has ended all that was submitted
 *     WAITS_SHARD      the last rank of the replica comes
 *     WAITS_STATUS     the last rank of all has sent its status (with many ranks: tell_many)
 *
 * Time never decreases: an event is not earlier than the one before it, so an interface can
 * be booked when the event happens. Jitter depends on (seed, step, rank), never on the order
 * of events. The order of events at the same time is drawn at random, too (playtime.c). */
#include "mix/mixer.h"
#include "simulate/player.h"

#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "simulate/timed.h"

#define SLICE_S 3e-3 /* of a thread on a busy machine */

/* The compute thread has waited for the exchange thread. Splits the wait by what the
 * exchange thread did. */
static void split_wait(wefti_sim_rank *rank, double begin_s, double end_s) {
    double parts[WEFTI_CLASSES] = {0}, known_s = 0;
    for (int i = 0; i < rank->n_segments; i++) {
        const wefti_segment *s = &rank->segments[i];
        double shared_s = fmin(end_s, s->end_s) - fmax(begin_s, s->begin_s);
        double share = shared_s / (s->end_s - s->begin_s);
        for (int k = 0; k < WEFTI_CLASSES && shared_s > 0; k++)
            parts[k] += share * s->parts_s[k];
    }
    for (int i = 0; i < WEFTI_CLASSES; i++) known_s += parts[i];
    rank->tally.wait_s += end_s - begin_s;
    rank->tally.wire_s += parts[WEFTI_CLASS_WIRE];
    rank->tally.late_s += parts[WEFTI_CLASS_LATE];
    rank->tally.codec_s += parts[WEFTI_CLASS_CODEC] + fmax(0, end_s - begin_s - known_s);
}

/* --- a step begins and ends --- */

static const wefti_timed_shard *shard_of(const wefti_player *player,
                                         const wefti_sim_rank *rank) {
    return &player->timed->shards[rank->shard];
}

/* How late a rank wakes up in a part of its step: exponential, or the median in a calm play. */
static double draw_wake(const wefti_player *player, const wefti_thread *t) {
    double wake_s = player->timed->cluster->wake_s;
    uint64_t parts = 4096, index = 4 * (uint64_t)player->W + parts * (uint64_t)t->rank +
                                   (uint64_t)t->at % parts;
    if (player->play->calm || wake_s <= 0) return wake_s;
    double u = wefti_rng_uniform(player->play->seed, WEFTI_STREAM_JITTER,
                                 (uint64_t)player->ranks[t->rank].step, index);
    return -wake_s / log(2) * log(1 - u);
}

/* Draws the random delays of a rank in its step. mesh.straggler_time delays one rank of
 * all, drawn from run.seed as in the run itself, also in a calm play. The rest is the
 * cluster's jitter: the factor of this step, the drift that a rank keeps, and a stop at
 * the beginning, which comes with stall_share and is exponential with the mean stall. */
static void draw_step(wefti_player *player, int r) {
    wefti_sim_rank *rank = &player->ranks[r];
    uint64_t seed = player->play->seed;
    bool struck = wefti_jitter_straggler(player->job, rank->step) == r;
    rank->factor = 1;
    rank->halt_s = 0;
    rank->stall_s = struck ? player->job->config->mesh.straggler_time : 0;
    rank->stalled_s = 0;
    if (player->play->calm) return;
    rank->factor *= rank->drift * wefti_jitter_factor(player->timed, seed, rank->step, r);
    rank->halt_s = wefti_jitter_halt(player->timed, seed, rank->step, r);
}

/* The step of rank 0 that is shown is the last one. */
static void begin_step(wefti_player *player, wefti_thread *t) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    rank->begun_s = t->now_s;
    rank->n_segments = 0;
    rank->tally = (wefti_played){0};
    t->at = 0;
    t->op_begun_s = t->now_s;
    t->n_actions = t->at_action = 0;
    draw_step(player, t->rank);
    if (t->rank != 0) return;
    player->shows = rank->step == player->play->steps - 1 && player->play->span_room > 0;
    player->shown_s = t->now_s;
}

/* After play->max_messages the play stops after the step of the most advanced rank, so that a
 * large job takes no more time than a small one; its quantiles are computed from fewer steps. */
static void limit_steps(wefti_player *player) {
    wefti_play *play = player->play;
    int64_t furthest = 0;
    if (play->max_messages <= 0 || player->n_messages < play->max_messages) return;
    for (int r = 0; r < player->W; r++)
        if (player->ranks[r].step > furthest) furthest = player->ranks[r].step;
    if (furthest < play->warmup) furthest = play->warmup;
    if (furthest + 1 < player->last_step) player->last_step = furthest + 1;
}

/* The end of a step for this rank. The time of the exchange thread is computed as a
 * difference, because its phases do not end together with steps. */
static void settle(wefti_player *player, wefti_thread *t) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    const wefti_play *play = player->play;
    double spent_s = rank->busy_s + rank->exchange_s;
    rank->tally.step_s = t->now_s - rank->settled_s;
    rank->tally.exchange_s = spent_s - rank->counted_s;
    rank->counted_s = spent_s;
    rank->settled_s = t->now_s;
    player->n_settled++;
    if (rank->step >= play->warmup)
        play->played[(rank->step - play->warmup) * player->W + t->rank] = rank->tally;
    limit_steps(player);
}

/* --- the exchange thread (comm/worker.c) --- */

/* The same function as the worker's decides which phase is next, so play and run agree. */
static void choose(wefti_player *player, wefti_thread *t) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    const wefti_schedule *s = shard_of(player, rank)->schedule;
    t->phase = wefti_order_next(s->order, s->n_phases, rank->submitted, rank->done);
    t->state = t->phase < 0 ? WEFTI_WAITS_JOB : WEFTI_RUNS;
    if (t->phase < 0) return;
    t->job = rank->jobs[rank->done[t->phase] % rank->capacity];
    t->begun_s = t->now_s;
    t->at_peer = -1;
    wefti_play_fill(player, t);
}

static bool all_ended(const wefti_player *player, const wefti_sim_rank *rank) {
    return rank->done[shard_of(player, rank)->schedule->n_phases - 1] == rank->submitted;
}

static void show_phase(wefti_player *player, const wefti_thread *t) {
    const wefti_schedule *s = shard_of(player, &player->ranks[t->rank])->schedule;
    const char *name = wefti_schedule_phase_name(s, t->phase, t->job);
    if (t->rank == 0 && name)
        wefti_play_show(player, 1, wefti_schedule_bucket(s, t->job), name, t->begun_s,
                        t->now_s);
}

/* A phase has ended. If it was the last one of all that was submitted, and the compute
 * thread waits for that, the compute thread continues at the later of both clocks. */
static weft_status end_phase(wefti_player *player, wefti_thread *t) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    wefti_thread *computing = &player->threads[t->rank];
    rank->busy_s += t->now_s - t->begun_s;
    show_phase(player, t);
    rank->done[t->phase]++;
    t->phase = -1;
    if (computing->state != WEFTI_WAITS_JOBS || !all_ended(player, rank)) return WEFT_OK;
    computing->now_s = fmax(computing->now_s, t->now_s);
    split_wait(rank, computing->begun_s, computing->now_s);
    return wefti_play_go_on(player, computing);
}

/* Hands a job over; an exchange thread without work begins at the compute thread's time. */
static weft_status submit(wefti_player *player, wefti_thread *t, int job) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    wefti_thread *other = &player->threads[player->W + t->rank];
    rank->jobs[rank->submitted++ % rank->capacity] = job;
    if (other->state != WEFTI_WAITS_JOB) return WEFT_OK;
    other->now_s = t->now_s;
    return wefti_play_go_on(player, other);
}

/* --- the compute thread --- */

/* The ranks of a replica synchronize: the last rank wakes all others, at its own time,
 * and each then takes work_s for the operation (gather, reduce-scatter, a sum). */
static weft_status meet(wefti_player *player, wefti_thread *t, double work_s) {
    int replica = player->ranks[t->rank].replica, S = player->S;
    double *latest_s = &player->joined[replica].latest_s;
    *latest_s = fmax(player->joined[replica].n ? *latest_s : 0, t->now_s);
    t->state = WEFTI_WAITS_SHARD;
    if (++player->joined[replica].n < S) return WEFT_OK;
    player->joined[replica].n = 0;
    for (int s = 0; s < S; s++) {
        wefti_thread *other = &player->threads[replica * S + s];
        other->now_s = *latest_s + work_s;
        WEFT_TRY(wefti_play_go_on(player, other));
    }
    return WEFT_OK;
}

/* Computing: slower by this step's factor; the first part includes the stop; not finished
 * before the part's floor, if the configuration sets a minimum time. The first part with a
 * floor includes mesh.straggler_time. A sleep ends late. */
static weft_status compute(wefti_player *player, wefti_thread *t,
                           const wefti_timed_op *part) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    t->now_s += wefti_timed_work(part, rank->own) * rank->factor + rank->halt_s;
    rank->halt_s = 0;
    if (part->floor_s >= 0) {
        double until_s = rank->begun_s + part->floor_s + rank->stalled_s;
        if (rank->stall_s > 0) until_s = fmax(until_s, t->now_s) + rank->stall_s;
        rank->stalled_s += rank->stall_s;
        rank->stall_s = 0;
        if (until_s > t->now_s) t->now_s = until_s + draw_wake(player, t);
    }
    return wefti_play_at(player, t, t->now_s);
}

static wefti_action status_action(wefti_action_kind kind, int64_t step) {
    return (wefti_action){
        .kind = kind, .channel = WEFTI_CHANNEL_STATUS, .exchange = step};
}

/* --- status of many ranks (WEFTI_FEW_RANKS) --- */

/* Seconds that a rank's status to all others takes its interface, and its processor. */
static double status_wire_s(const wefti_player *player) {
    const wefti_link_time *link = &player->timed->links[WEFTI_LINK_WIRE];
    int far = player->W - player->job->copies * player->S;
    return link->bandwidth_Bps > 0
               ? far * wefti_link_bytes(link, wefti_job_status_bytes(player->job)) /
                     link->bandwidth_Bps
               : 0;
}

static double status_cpu_s(const wefti_player *player) {
    return (player->W - 1) * player->timed->links[WEFTI_LINK_WIRE].message_s;
}

/* When the last status of a step is everywhere; the ranks of a node share its interface. */
static double status_there_s(const wefti_player *player, int64_t step) {
    int sharing = player->job->copies * player->S;
    return player->status[step % WEFTI_STATUS_SLOTS].last_s +
           player->timed->links[WEFTI_LINK_WIRE].latency_s +
           sharing * status_wire_s(player);
}

static weft_status read_status(wefti_player *player, wefti_thread *t, int64_t step) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    double there_s = status_there_s(player, step);
    rank->tally.status_s += fmax(0, there_s - t->now_s);
    t->now_s = fmax(t->now_s, there_s) + status_cpu_s(player);
    return wefti_play_go_on(player, t);
}

static bool is_awaited(const wefti_player *player, const wefti_thread *t, int64_t step) {
    return t->state == WEFTI_WAITS_STATUS &&
           player->ranks[t->rank].step - player->job->lag.status == step;
}

/* Sends a rank's status to all others as a single booking of its interface, since n^2
 * messages would dominate the play. The last rank that sends its status wakes the ranks
 * that already wait for it. */
static weft_status tell_many(wefti_player *player, wefti_thread *t) {
    const wefti_sim_rank *rank = &player->ranks[t->rank];
    int64_t step = rank->step;
    int at = (int)(step % WEFTI_STATUS_SLOTS);
    wefti_interface *node = &player->nodes[rank->node];
    double sent_s = t->now_s += status_cpu_s(player);
    node->out_free_s = fmax(node->out_free_s, sent_s) + status_wire_s(player);
    player->n_messages += player->W / 8;
    if (rank->step >= player->play->warmup)
        player->play->wire_bytes += (double)wefti_job_status_bytes(player->job) *
                                    (player->W - player->job->copies * player->S);
    if (player->status[at].n == player->W) player->status[at].n = 0;
    double *last_s = &player->status[at].last_s;
    *last_s = player->status[at].n++ == 0 ? sent_s : fmax(*last_s, sent_s);
    for (int r = 0; r < player->W && player->status[at].n == player->W; r++)
        if (is_awaited(player, &player->threads[r], step))
            WEFT_TRY(read_status(player, &player->threads[r], step));
    return WEFT_OK;
}

/* --- the ops --- */

static weft_status await_status(wefti_player *player, wefti_thread *t, int64_t step) {
    if (player->status[step % WEFTI_STATUS_SLOTS].n == player->W)
        return read_status(player, t, step);
    t->state = WEFTI_WAITS_STATUS;
    return WEFT_OK;
}

static weft_status read_op(wefti_player *player, wefti_thread *t, const wefti_op *op) {
    int64_t step = player->ranks[t->rank].step - player->job->lag.status;
    (void)op;
    if (step < 0) return WEFT_OK;
    if (player->W > WEFTI_FEW_RANKS) return await_status(player, t, step);
    t->actions[t->n_actions++] = status_action(WEFTI_ACTION_RECEIVE, step);
    return WEFT_OK;
}

static weft_status status_op(wefti_player *player, wefti_thread *t, const wefti_op *op) {
    wefti_action status = status_action(WEFTI_ACTION_SEND, player->ranks[t->rank].step);
    (void)op;
    if (player->W > WEFTI_FEW_RANKS) return tell_many(player, t);
    return wefti_wires_send(player, t, &status);
}

/* Waits for the exchange thread, unless it is idle. */
static weft_status wait_op(wefti_player *player, wefti_thread *t, const wefti_op *op) {
    (void)op;
    if (all_ended(player, &player->ranks[t->rank])) return WEFT_OK;
    t->state = WEFTI_WAITS_JOBS;
    t->begun_s = t->now_s;
    return WEFT_OK;
}

static weft_status answer_op(wefti_player *player, wefti_thread *t, const wefti_op *op) {
    const wefti_timed_shard *shard = shard_of(player, &player->ranks[t->rank]);
    return submit(player, t, shard->schedule->n_buckets + op->index);
}

static weft_status submit_op(wefti_player *player, wefti_thread *t, const wefti_op *op) {
    return submit(player, t, op->index);
}

static weft_status apply_op(wefti_player *player, wefti_thread *t, const wefti_op *op) {
    wefti_play_apply(player, t, op->index);
    return WEFT_OK;
}

static weft_status finish_op(wefti_player *player, wefti_thread *t, const wefti_op *op) {
    wefti_play_finish(player, t, op->index);
    return WEFT_OK;
}

static weft_status settle_op(wefti_player *player, wefti_thread *t, const wefti_op *op) {
    (void)op;
    settle(player, t);
    return WEFT_OK;
}

static weft_status load_op(wefti_player *player, wefti_thread *t, const wefti_op *op) {
    (void)player, (void)t, (void)op;
    return WEFT_OK;
}

/* NULL: ops that only compute or synchronize. */
static weft_status (*const act[WEFTI_OP_KINDS])(wefti_player *player, wefti_thread *t,
                                                const wefti_op *op) = {
    [WEFTI_OP_ANSWER] = answer_op, [WEFTI_OP_LOAD] = load_op,
    [WEFTI_OP_SUBMIT] = submit_op, [WEFTI_OP_STATUS] = status_op,
    [WEFTI_OP_WAIT] = wait_op,     [WEFTI_OP_APPLY] = apply_op,
    [WEFTI_OP_FINISH] = finish_op, [WEFTI_OP_SETTLE] = settle_op,
    [WEFTI_OP_READ] = read_op,
};

/* The part before number t->at has ended. */
static void show_op(wefti_player *player, wefti_thread *t,
                    const wefti_timed_shard *shard) {
    const wefti_timed_op *part = t->at > 0 ? &shard->ops[t->at - 1] : NULL;
    if (t->rank > 0 || !part || !part->ends) return;
    wefti_play_show(player, 0, part->op.index, wefti_op_name(part->op.kind),
                    t->op_begun_s, t->now_s);
    t->op_begun_s = t->now_s;
}

/* Begins the next part; *moved: the thread has an event to come, or waits for one. */
static weft_status next_part(wefti_player *player, wefti_thread *t, bool *moved) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    const wefti_timed_shard *shard = shard_of(player, rank);
    show_op(player, t, shard);
    if (t->at == shard->n_ops) {
        rank->step++;
        if (rank->step >= player->last_step) {
            t->state = WEFTI_WAITS_JOB;
            return WEFT_OK;
        }
        begin_step(player, t);
    }
    const wefti_timed_op *part = &shard->ops[t->at++];
    t->n_actions = t->at_action = 0;
    t->at_peer = -1;
    *moved = true;
    if (part->timing == WEFTI_TIMING_COMPUTE) return compute(player, t, part);
    if (part->timing == WEFTI_TIMING_MEET) return meet(player, t, part->work_s);
    int64_t mark = t->mark;
    WEFT_TRY(act[part->op.kind](player, t, &part->op));
    *moved = t->mark != mark;
    return WEFT_OK;
}

/* --- both threads --- */

/* On an emulated wire the ranks share a machine with fewer cores than threads. A compute
 * thread that mixes and sends bucket after bucket is not interrupted in between. */
static bool runs_on(const wefti_player *player, const wefti_thread *t, double end_s) {
    return player->timed->emulated && !t->exchanges && end_s - t->resumed_s < SLICE_S;
}

/* Runs an action; *moved: the clock has advanced, or the thread waits. */
static weft_status run_action(wefti_player *player, wefti_thread *t, bool *moved) {
    const wefti_action *action = &t->actions[t->at_action];
    bool done = true;
    if (action->kind == WEFTI_ACTION_SEND) {
        *moved = !wefti_wires_have_room(player, t, action);
        if (*moved) return WEFT_OK;
        t->at_action++;
        t->piece++;
        return wefti_wires_send(player, t, action);
    }
    *moved = true;
    if (action->kind == WEFTI_ACTION_WORK) {
        double end_s = t->now_s + action->seconds;
        wefti_play_note(player, t, WEFTI_CLASS_CODEC, t->now_s, end_s);
        t->now_s = end_s;
        *moved = !runs_on(player, t, end_s);
    } else {
        WEFT_TRY(wefti_wires_receive(player, t, action, &done));
    }
    if (!done) return WEFT_OK;
    t->at_action++;
    t->piece++;
    return *moved ? wefti_play_at(player, t, t->now_s) : WEFT_OK;
}

/* Runs a thread until its clock has moved (an event is in the agenda) or it waits. */
static weft_status run(wefti_player *player, wefti_thread *t) {
    t->resumed_s = t->now_s;
    while (t->state == WEFTI_RUNS) {
        if (t->at_action < t->n_actions) {
            bool moved;
            WEFT_TRY(run_action(player, t, &moved));
            if (moved) return WEFT_OK;
        } else if (t->exchanges) {
            if (t->phase >= 0) WEFT_TRY(end_phase(player, t));
            choose(player, t);
        } else {
            bool moved = false;
            WEFT_TRY(next_part(player, t, &moved));
            if (moved) return WEFT_OK;
        }
    }
    return WEFT_OK;
}

/* The deadline of a receive has passed: the thread continues without the message. */
static weft_status give_up(wefti_player *player, wefti_thread *t) {
    wefti_play_note(player, t, WEFTI_CLASS_LATE, t->now_s, t->until_s);
    t->now_s = fmax(t->now_s, t->until_s);
    t->at_peer++;
    return wefti_wires_wake(player, t);
}

/* Plays all events in their order. Every rank must settle every step; otherwise the model
 * is wrong, and the play fails instead of predicting. */
static weft_status play_out(wefti_player *player) {
    wefti_event event;
    while (wefti_agenda_next(&player->agenda, &event)) {
        if (event.whom == WEFTI_THREADS * player->W) {
            WEFT_TRY(wefti_wires_land(player, event.mark, event.when_s));
            continue;
        }
        wefti_thread *t = &player->threads[event.whom];
        if (event.mark != t->mark) continue;
        if (t->state == WEFTI_WAITS_MESSAGE)
            WEFT_TRY(give_up(player, t));
        else
            WEFT_TRY(run(player, t));
    }
    if (player->n_settled == player->last_step * player->W) return WEFT_OK;
    return weft_ctx_fail(player->ctx, WEFT_ERR_INTERNAL,
                         "the runtime model came to a stop after %lld of %lld steps",
                         (long long)(player->n_settled / player->W),
                         (long long)player->last_step);
}

/* --- before the first step --- */

/* The factor of computing time on this node, relative to the cluster's value. */
static double own_factor(const wefti_player *player, int node) {
    const weft_cluster *c = player->timed->cluster;
    double part = wefti_timed_part(player->timed, node);
    const wefti_link_time *wire = &player->timed->links[WEFTI_LINK_WIRE];
    for (int64_t i = 0; i < c->n_machines; i++)
        if (c->machines[i].node == node)
            return part * wefti_machine_of(c, wire, &c->machines[i]).compute;
    return part;
}

static weft_status create_rank(wefti_player *player, int r) {
    const wefti_job *job = player->job;
    wefti_sim_rank *rank = &player->ranks[r];
    weft_ctx *ctx = player->ctx;
    *rank = (wefti_sim_rank){
        .replica = r / player->S, .shard = r % player->S, .drift = 1};
    rank->node = rank->replica / job->copies;
    rank->site = rank->replica / job->site.replicas;
    rank->own = own_factor(player, rank->node);
    int n = player->timed->shards[rank->shard].arrangement->n_buckets;
    rank->capacity = 2 * n;
    rank->room = 64 * n + 64;
    if (!player->play->calm)
        rank->drift = wefti_jitter_drift(player->timed, player->play->seed, r);
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n, sizeof(int), "jobs", &rank->jobs));
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n, sizeof(double), "buffers", &rank->sent_s));
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n, sizeof(double), "buffers", &rank->read_s));
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n, sizeof(int), "buffers", &rank->unread));
    return wefti_alloc_n(ctx, rank->room, sizeof(wefti_segment), "a step's parts",
                         &rank->segments);
}

/* Compute threads begin at once; exchange threads have nothing to do yet. */
static weft_status create_thread(wefti_player *player, int i) {
    wefti_thread *t = &player->threads[i];
    *t = (wefti_thread){.rank = i % player->W,
                        .exchanges = i >= player->W,
                        .phase = -1,
                        .at_peer = -1,
                        .state = i >= player->W ? WEFTI_WAITS_JOB : WEFTI_RUNS};
    return wefti_alloc_n(player->ctx, player->W, sizeof(int), "peers", &t->peers);
}

/* Posts the messages that were sent before the first step. */
static weft_status prime(wefti_player *player, int r) {
    wefti_sim_rank *rank = &player->ranks[r];
    wefti_thread *t = &player->threads[r];
    const wefti_mixer_config *config = &player->job->mixer_config;
    int n = player->timed->shards[rank->shard].arrangement->n_buckets;
    wefti_mixer_act acts[WEFTI_MIXER_ACTS];
    for (int b = 0; b < n; b++) {
        wefti_mixer_question q = wefti_wires_question(player, rank, b, -1);
        int n_acts = wefti_mixer_find(config->kind)->acts(config, &q, acts);
        for (int i = 0; i < n_acts; i++) {
            wefti_action op = {.kind = WEFTI_ACTION_SEND,
                               .channel = WEFTI_CHANNEL_MIXER,
                               .bucket = b,
                               .round = acts[i].round,
                               .exchange = acts[i].exchange,
                               .act = acts[i]};
            if (acts[i].sends) WEFT_TRY(wefti_wires_send(player, t, &op));
        }
    }
    return WEFT_OK;
}

/* Allocates everything before the first event, except for messages in flight, whose table
 * grows (wires.c). */
static weft_status allocate(wefti_player *player) {
    weft_ctx *ctx = player->ctx;
    int nodes = player->R / player->job->copies;
    WEFT_TRY(
        wefti_alloc_n(ctx, player->W, sizeof *player->ranks, "ranks", &player->ranks));
    WEFT_TRY(wefti_alloc_n(ctx, WEFTI_THREADS * player->W, sizeof *player->threads,
                           "threads", &player->threads));
    WEFT_TRY(wefti_alloc_n(ctx, nodes, sizeof(wefti_interface), "nodes", &player->nodes));
    WEFT_TRY(wefti_alloc_n(ctx, player->job->site.n, sizeof(wefti_interface), "sites",
                           &player->sites));
    WEFT_TRY(wefti_alloc_n(ctx, player->R, sizeof *player->joined, "replicas",
                           &player->joined));
    if (player->timed->pair_bandwidth_Bps)
        WEFT_TRY(wefti_alloc_n(ctx, (int64_t)nodes * nodes, sizeof(double), "links",
                               &player->pair_free_s));
    for (int r = 0; r < player->W; r++) WEFT_TRY(create_rank(player, r));
    for (int i = 0; i < WEFTI_THREADS * player->W; i++)
        WEFT_TRY(create_thread(player, i));
    return wefti_event_queue_init(ctx, &player->posts);
}

/* Ranks do not begin at the same time. Equal ranks that did would stay synchronized for
 * ever, unlike real machines: two ranks that exchange messages may settle into a state in
 * which one waits a latency behind the other, or not, depending on how they began. */
static double draw_begin(const wefti_player *player, int r) {
    const double share = 0.05; /* of a step, mean */
    int first = r / player->S * player->S;
    if (player->play->calm) return 0;
    return share * player->timed->paced_s * wefti_jitter_begin(player->play->seed, first);
}

static weft_status begin(wefti_player *player) {
    WEFT_TRY(allocate(player));
    for (int r = 0; r < player->W; r++) WEFT_TRY(prime(player, r));
    for (int r = 0; r < player->W; r++) {
        wefti_thread *t = &player->threads[r];
        t->now_s = draw_begin(player, r);
        begin_step(player, t);
        WEFT_TRY(wefti_play_at(player, t, t->now_s));
    }
    return WEFT_OK;
}

static void free_player(wefti_player *player) {
    weft_ctx *ctx = player->ctx;
    for (int r = 0; r < player->W && player->ranks; r++) {
        wefti_sim_rank *rank = &player->ranks[r];
        void *blocks[] = {rank->jobs, rank->sent_s, rank->read_s, rank->unread,
                          rank->segments};
        for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
            wefti_free(ctx, blocks[i]);
    }
    for (int i = 0; i < WEFTI_THREADS * player->W && player->threads; i++)
        wefti_free(ctx, player->threads[i].peers);
    WEFTI_FREE(ctx, player->ranks, player->threads, player->nodes, player->sites,
               player->joined, player->pair_free_s, player->flights);
    wefti_event_queue_fini(&player->posts);
    wefti_agenda_fini(&player->agenda);
}

weft_status wefti_event_player_run(const wefti_timed *timed, wefti_play *play) {
    const wefti_job *job = timed->job;
    wefti_player player = {.ctx = timed->ctx,
                           .shape = wefti_job_shape(job),
                           .timed = timed,
                           .job = job,
                           .play = play,
                           .W = job->W,
                           .S = job->S,
                           .R = job->R,
                           .free_flight = -1,
                           .last_step = play->steps,
                           .agenda = {.ctx = timed->ctx}};
    play->done = 0;
    play->wire_bytes = 0;
    play->n_spans = 0;
    weft_status status = begin(&player);
    if (status == WEFT_OK) status = play_out(&player);
    play->done = player.last_step - play->warmup;
    free_player(&player);
    return status;
}
