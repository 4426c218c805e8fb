/* SPDX-License-Identifier: MIT */
/* A thread runs until its clock has moved or it has to wait; then the earliest event is
 * next. What happens at the same moment happens in an order drawn by chance, as on a
 * machine. */
#include "simulate/eventplayer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "simulate/stage.h"

#define SLICE_S 3e-3 /* of a thread on a busy machine */

/* --- time --- */

static weft_status schedule(wefti_stage *stage, wefti_thread *t, double when_s) {
    uint64_t order = wefti_rng_u64(stage->play->seed, WEFTI_STREAM_JITTER, UINT64_MAX,
                                   stage->n_draws++);
    t->mark++;
    return wefti_agenda_add(
        &stage->agenda,
        (wefti_event){when_s, (uint32_t)order, (int32_t)(t - stage->threads), t->mark});
}

static weft_status go_on(wefti_stage *stage, wefti_thread *t) {
    t->state = WEFTI_RUNS;
    return schedule(stage, t, t->now_s);
}

weft_status wefti_stage_alarm(wefti_stage *stage, wefti_thread *t) {
    if (isinf(t->moment_s)) return WEFT_OK;
    return schedule(stage, t, fmax(t->now_s, t->moment_s));
}

void wefti_stage_show(wefti_stage *stage, int lane, int index, const char *what,
                      double begin_s, double end_s) {
    wefti_play *play = stage->play;
    if (!stage->shows || play->n_spans == play->span_room || end_s <= begin_s) return;
    weft_span *span = &play->spans[play->n_spans++];
    *span = (weft_span){lane, index, "", begin_s - stage->shown_s,
                        end_s - stage->shown_s};
    snprintf(span->what, sizeof span->what, "%s", what);
}

static void add_segment(wefti_sim_rank *rank, int64_t piece, wefti_class class,
                        double begin_s, double end_s) {
    wefti_segment *last = rank->segments + (rank->n_segments ? rank->n_segments - 1 : 0);
    bool goes_on = rank->n_segments > 0 && last->piece == piece;
    if (!goes_on && rank->n_segments == rank->room) return;
    if (!goes_on) {
        last = &rank->segments[rank->n_segments++];
        *last = (wefti_segment){.begin_s = begin_s, .piece = piece};
    }
    last->end_s = end_s;
    last->parts_s[class] += end_s - begin_s;
}

void wefti_stage_note(wefti_stage *stage, wefti_thread *t, wefti_class class,
                      double begin_s, double end_s) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    double spent_s = end_s - begin_s;
    if (spent_s <= 0) return;
    bool counts = t->n_ops > 0 && t->ops[t->at_op].channel == WEFTI_CHANNEL_VOTE;
    if (t->exchanges) {
        add_segment(rank, t->piece, class, begin_s, end_s);
        return;
    }
    if (counts) {
        rank->tally.vote_s += class == WEFTI_CLASS_CODEC ? 0 : spent_s;
        return;
    }
    if (class == WEFTI_CLASS_CODEC) return;
    rank->tally.wait_s += spent_s;
    *(class == WEFTI_CLASS_WIRE ? &rank->tally.wire_s : &rank->tally.late_s) += spent_s;
}

/* The compute thread has waited for the exchange thread: for what? */
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

static double uniform(const wefti_stage *stage, int rank, int64_t step, int what) {
    return wefti_rng_uniform(stage->play->seed, WEFTI_STREAM_JITTER, (uint64_t)step,
                             4 * (uint64_t)rank + (uint64_t)what);
}

static double normal(const wefti_stage *stage, int rank, int64_t step, int what) {
    return wefti_rng_normal(stage->play->seed, WEFTI_STREAM_JITTER, (uint64_t)step,
                            4 * (uint64_t)rank + (uint64_t)what);
}

enum { DRAW_FACTOR, DRAW_STALL, DRAW_LENGTH, ENOUGH_STEPS = 16 };

/* How late a rank is back from sleeping in an act of its step: exponential, or the median
 * when it is calm. */
static double draw_wake(const wefti_stage *stage, const wefti_thread *t) {
    double wake_s = stage->scene->cluster->wake_s;
    uint64_t acts = 4096, index = 4 * (uint64_t)stage->W + acts * (uint64_t)t->rank +
                                  (uint64_t)t->at_act % acts;
    if (stage->play->calm || wake_s <= 0) return wake_s;
    double u = wefti_rng_uniform(stage->play->seed, WEFTI_STREAM_JITTER,
                                 (uint64_t)stage->ranks[t->rank].step, index);
    return -wake_s / log(2) * log(1 - u);
}

static double draw_factor(const wefti_stage *stage, int r, int64_t step) {
    const weft_cluster *c = stage->scene->cluster;
    if (c->n_steps >= ENOUGH_STEPS && stage->scene->mean_s > 0) {
        double at = uniform(stage, r, step, DRAW_FACTOR) * (double)c->n_steps;
        return c->step_s[(int64_t)at] / stage->scene->mean_s;
    }
    return exp(c->jitter.spread * normal(stage, r, step, DRAW_FACTOR));
}

static void draw_step(wefti_stage *stage, int r) {
    wefti_sim_rank *rank = &stage->ranks[r];
    const weft_jitter *jitter = &stage->scene->cluster->jitter;
    const weft_config *config = stage->job->config;
    uint64_t chosen = wefti_rng_u64((uint64_t)config->run.seed, WEFTI_STREAM_STALL,
                                    (uint64_t)rank->step, 0);
    rank->factor = 1;
    rank->halt_s = 0;
    rank->stall_s = chosen % (uint64_t)stage->W == (uint64_t)r
                        ? config->mesh.straggler_time
                        : 0;
    if (stage->play->calm) return;
    rank->factor = rank->drift * draw_factor(stage, r, rank->step);
    if (uniform(stage, r, rank->step, DRAW_STALL) < jitter->stall_share)
        rank->halt_s = -jitter->stall_s *
                       log(1 - uniform(stage, r, rank->step, DRAW_LENGTH));
}

static void begin_step(wefti_stage *stage, wefti_thread *t) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    rank->begun_s = t->now_s;
    rank->n_segments = 0;
    rank->tally = (wefti_played){0};
    t->at_act = 0;
    t->n_ops = t->at_op = 0;
    draw_step(stage, t->rank);
    if (t->rank != 0) return;
    stage->shows = rank->step == stage->play->steps - 1 && stage->play->span_room > 0;
    stage->shown_s = t->now_s;
}

static void limit_steps(wefti_stage *stage) {
    wefti_play *play = stage->play;
    int64_t furthest = 0;
    if (play->max_messages <= 0 || stage->n_messages < play->max_messages) return;
    for (int r = 0; r < stage->W; r++)
        if (stage->ranks[r].step > furthest) furthest = stage->ranks[r].step;
    if (furthest < play->warmup) furthest = play->warmup;
    if (furthest + 1 < stage->last_step) stage->last_step = furthest + 1;
}

static void settle(wefti_stage *stage, wefti_thread *t) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    const wefti_play *play = stage->play;
    double spent_s = rank->busy_s + rank->exchange_s;
    rank->tally.step_s = t->now_s - rank->settled_s;
    rank->tally.exchange_s = spent_s - rank->counted_s;
    rank->counted_s = spent_s;
    rank->settled_s = t->now_s;
    stage->n_settled++;
    if (rank->step >= play->warmup)
        play->played[(rank->step - play->warmup) * stage->W + t->rank] = rank->tally;
    limit_steps(stage);
}

/* --- the exchange thread (comm/worker.c) --- */

static int next_phase(const wefti_stage *stage, const wefti_sim_rank *rank) {
    int n = stage->scene->n_phases;
    if (rank->done[0] < rank->submitted) return 0;
    for (int p = 1; p < n; p++) {
        bool has_job = rank->done[p] < rank->done[p - 1];
        bool oldest = rank->done[p] == rank->done[n - 1];
        if (has_job && (oldest || stage->job->sites == 1)) return p;
    }
    return -1;
}

static void choose(wefti_stage *stage, wefti_thread *t) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    t->phase = next_phase(stage, rank);
    t->state = t->phase < 0 ? WEFTI_WAITS_JOB : WEFTI_RUNS;
    if (t->phase < 0) return;
    t->job = rank->jobs[rank->done[t->phase] % rank->capacity];
    t->begun_s = t->now_s;
    t->at_peer = -1;
    wefti_phase_fill(stage, t, t->phase, t->job);
}

static bool all_ended(const wefti_stage *stage, const wefti_sim_rank *rank) {
    return rank->done[stage->scene->n_phases - 1] == rank->submitted;
}

static void show_phase(wefti_stage *stage, const wefti_thread *t) {
    static const char *const names[2][7] = {
        {"begin", "combine", "end", "apply", "finish", "", ""},
        {"begin", "combine", "end", "combine sites", "end sites", "apply", "finish"}};
    const wefti_sim_rank *rank = &stage->ranks[t->rank];
    int n = stage->scene->shards[rank->shard].arrangement->n_buckets;
    if (t->rank > 0) return;
    wefti_stage_show(stage, 1, t->job % n,
                     t->job >= n ? "turn" : names[stage->job->sites > 1][t->phase],
                     t->begun_s, t->now_s);
}

static weft_status end_phase(wefti_stage *stage, wefti_thread *t) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    wefti_thread *computing = &stage->threads[t->rank];
    rank->busy_s += t->now_s - t->begun_s;
    show_phase(stage, t);
    rank->done[t->phase]++;
    t->phase = -1;
    if (computing->state != WEFTI_WAITS_JOBS || !all_ended(stage, rank)) return WEFT_OK;
    computing->now_s = fmax(computing->now_s, t->now_s);
    split_wait(rank, computing->begun_s, computing->now_s);
    return go_on(stage, computing);
}

static weft_status submit(wefti_stage *stage, wefti_thread *t, int job) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    wefti_thread *other = &stage->threads[stage->W + t->rank];
    rank->jobs[rank->submitted++ % rank->capacity] = job;
    if (other->state != WEFTI_WAITS_JOB) return WEFT_OK;
    other->now_s = t->now_s;
    return go_on(stage, other);
}

/* --- the compute thread --- */

static weft_status meet(wefti_stage *stage, wefti_thread *t, double work_s) {
    int replica = stage->ranks[t->rank].replica, S = stage->S;
    double *latest_s = &stage->meetings[replica].latest_s;
    *latest_s = fmax(stage->meetings[replica].n ? *latest_s : 0, t->now_s);
    t->state = WEFTI_WAITS_SHARD;
    if (++stage->meetings[replica].n < S) return WEFT_OK;
    stage->meetings[replica].n = 0;
    for (int s = 0; s < S; s++) {
        wefti_thread *other = &stage->threads[replica * S + s];
        other->now_s = *latest_s + work_s;
        WEFT_TRY(go_on(stage, other));
    }
    return WEFT_OK;
}

static weft_status compute(wefti_stage *stage, wefti_thread *t, const wefti_act *act) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    double begin_s = t->now_s;
    t->now_s += act->work_s * rank->factor + rank->halt_s;
    rank->halt_s = 0;
    double until_s = rank->begun_s + act->floor_s + rank->stall_s;
    if (act->floor_s >= 0 && until_s > t->now_s) t->now_s = until_s + draw_wake(stage, t);
    if (t->rank == 0)
        wefti_stage_show(stage, 0, act->index, act->what, begin_s, t->now_s);
    return schedule(stage, t, t->now_s);
}

static wefti_op vote_op(wefti_op_kind kind, int64_t step) {
    return (wefti_op){.kind = kind, .channel = WEFTI_CHANNEL_VOTE, .exchange = step};
}

/* --- votes of many (WEFTI_FEW_VOTERS) --- */

/* Seconds that a rank's votes to all others take its interface, and its processor. */
static double votes_wire_s(const wefti_stage *stage) {
    const wefti_scene_link *link = &stage->scene->links[WEFTI_LINK_WIRE];
    double all = WEFTI_VOTE_BYTES * link->stretch + link->bytes_per_message;
    int far = stage->W - stage->job->copies * stage->S;
    return link->bandwidth_Bps > 0 ? far * all / link->bandwidth_Bps : 0;
}

static double votes_cpu_s(const wefti_stage *stage) {
    return (stage->W - 1) * stage->scene->links[WEFTI_LINK_WIRE].message_s;
}

/* When the last vote of a step is everywhere; the ranks of a node share its interface. */
static double votes_there_s(const wefti_stage *stage, int64_t step) {
    int sharing = stage->job->copies * stage->S;
    return stage->votes[step % WEFTI_BALLOTS].last_s +
           stage->scene->links[WEFTI_LINK_WIRE].latency_s + sharing * votes_wire_s(stage);
}

static weft_status read_votes(wefti_stage *stage, wefti_thread *t, int64_t step) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    double there_s = votes_there_s(stage, step);
    rank->tally.vote_s += fmax(0, there_s - t->now_s);
    t->now_s = fmax(t->now_s, there_s) + votes_cpu_s(stage);
    return go_on(stage, t);
}

static bool is_awaited(const wefti_stage *stage, const wefti_thread *t, int64_t step) {
    return t->state == WEFTI_WAITS_VOTES &&
           stage->ranks[t->rank].step - stage->job->vote_lag == step;
}

static weft_status cast_vote(wefti_stage *stage, wefti_thread *t) {
    const wefti_sim_rank *rank = &stage->ranks[t->rank];
    int64_t step = rank->step;
    int at = (int)(step % WEFTI_BALLOTS);
    wefti_interface *node = &stage->nodes[rank->node];
    double sent_s = t->now_s += votes_cpu_s(stage);
    node->out_free_s = fmax(node->out_free_s, sent_s) + votes_wire_s(stage);
    stage->n_messages += stage->W / 8;
    if (rank->step >= stage->play->warmup)
        stage->play->wire_bytes += (double)WEFTI_VOTE_BYTES *
                                   (stage->W - stage->job->copies * stage->S);
    if (stage->votes[at].n == stage->W) stage->votes[at].n = 0;
    double *last_s = &stage->votes[at].last_s;
    *last_s = stage->votes[at].n++ == 0 ? sent_s : fmax(*last_s, sent_s);
    for (int r = 0; r < stage->W && stage->votes[at].n == stage->W; r++)
        if (is_awaited(stage, &stage->threads[r], step))
            WEFT_TRY(read_votes(stage, &stage->threads[r], step));
    return WEFT_OK;
}

/* *waits: until the others have voted, or until the votes are there. */
static weft_status await_votes(wefti_stage *stage, wefti_thread *t, bool *waits) {
    int64_t step = stage->ranks[t->rank].step - stage->job->vote_lag;
    *waits = step >= 0;
    if (step < 0) return WEFT_OK;
    if (stage->votes[step % WEFTI_BALLOTS].n == stage->W)
        return read_votes(stage, t, step);
    t->state = WEFTI_WAITS_VOTES;
    return WEFT_OK;
}

/* Reads votes; afterwards comes the next step. */
static void count_votes(wefti_stage *stage, wefti_thread *t) {
    int64_t step = stage->ranks[t->rank].step - stage->job->vote_lag;
    t->n_ops = t->at_op = 0;
    t->at_peer = -1;
    if (step >= 0) t->ops[t->n_ops++] = vote_op(WEFTI_OP_RECEIVE, step);
}

/* Waits for the exchange thread, unless it is idle. */
static void wait_jobs(wefti_stage *stage, wefti_thread *t) {
    if (all_ended(stage, &stage->ranks[t->rank])) return;
    t->state = WEFTI_WAITS_JOBS;
    t->begun_s = t->now_s;
}

/* *moved: its clock has, or it waits for ranks that may be there now. */
static weft_status next_act(wefti_stage *stage, wefti_thread *t, bool *moved) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    const wefti_scene_shard *shard = &stage->scene->shards[rank->shard];
    if (t->at_act == shard->n_acts) {
        rank->step++;
        if (rank->step >= stage->last_step) {
            t->state = WEFTI_WAITS_JOB;
            return WEFT_OK;
        }
        begin_step(stage, t);
    }
    const wefti_act *act = &shard->acts[t->at_act++];
    wefti_op vote = vote_op(WEFTI_OP_SEND, rank->step);
    bool many = stage->W > WEFTI_FEW_VOTERS;
    t->n_ops = t->at_op = 0;
    t->at_peer = -1;
    *moved = act->kind == WEFTI_ACT_RUN || act->kind == WEFTI_ACT_MEET;
    switch (act->kind) {
    case WEFTI_ACT_RUN: return compute(stage, t, act);
    case WEFTI_ACT_SUBMIT: return submit(stage, t, act->index);
    case WEFTI_ACT_WAIT: wait_jobs(stage, t); break;
    case WEFTI_ACT_MEET: return meet(stage, t, act->work_s);
    case WEFTI_ACT_VOTE:
        return many ? cast_vote(stage, t) : wefti_wires_send(stage, t, &vote);
    case WEFTI_ACT_APPLY: wefti_phase_apply(stage, t, act->index); break;
    case WEFTI_ACT_FINISH: wefti_phase_finish(stage, t, act->index); break;
    case WEFTI_ACT_SETTLE: settle(stage, t); break;
    case WEFTI_ACT_COUNT:
        if (many) return await_votes(stage, t, moved);
        count_votes(stage, t);
        break;
    }
    return WEFT_OK;
}

/* --- either --- */

/* A mixer sends from one of two buffers: what was sent from it has to have been read. */
static bool has_room(wefti_stage *stage, wefti_thread *t, const wefti_op *op) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    int buffer = 2 * op->bucket + (int)(op->exchange & 1);
    bool shared = op->channel == WEFTI_CHANNEL_MIXER && op->round == 0 &&
                  stage->job->mixer_config.deadline_s == 0;
    if (!shared) return true;
    if (rank->unread[buffer] > 0) {
        t->state = WEFTI_WAITS_ROOM;
        t->key = (uint64_t)buffer;
        return false;
    }
    if (rank->read_s[buffer] > t->now_s) {
        wefti_stage_note(stage, t, WEFTI_CLASS_LATE, t->now_s, rank->read_s[buffer]);
        t->now_s = rank->read_s[buffer];
    }
    return true;
}

/* On an emulated wire the ranks share a machine with fewer cores than threads: who mixes
 * and sends bucket after bucket is not interrupted in between. */
static bool runs_on(const wefti_stage *stage, const wefti_thread *t, double end_s) {
    return stage->scene->emulated && !t->exchanges && end_s - t->resumed_s < SLICE_S;
}

/* *moved: its clock has, or it waits. */
static weft_status run_op(wefti_stage *stage, wefti_thread *t, bool *moved) {
    const wefti_op *op = &t->ops[t->at_op];
    bool done = true;
    if (op->kind == WEFTI_OP_SEND) {
        *moved = !has_room(stage, t, op);
        if (*moved) return WEFT_OK;
        t->at_op++;
        t->piece++;
        return wefti_wires_send(stage, t, op);
    }
    *moved = true;
    if (op->kind == WEFTI_OP_WORK) {
        double end_s = t->now_s + op->seconds;
        wefti_stage_note(stage, t, WEFTI_CLASS_CODEC, t->now_s, end_s);
        t->now_s = end_s;
        *moved = !runs_on(stage, t, end_s);
    } else {
        WEFT_TRY(wefti_wires_receive(stage, t, op, &done));
    }
    if (!done) return WEFT_OK;
    t->at_op++;
    t->piece++;
    return *moved ? schedule(stage, t, t->now_s) : WEFT_OK;
}

static weft_status run(wefti_stage *stage, wefti_thread *t) {
    t->resumed_s = t->now_s;
    while (t->state == WEFTI_RUNS) {
        if (t->at_op < t->n_ops) {
            bool moved;
            WEFT_TRY(run_op(stage, t, &moved));
            if (moved) return WEFT_OK;
        } else if (t->exchanges) {
            if (t->phase >= 0) WEFT_TRY(end_phase(stage, t));
            choose(stage, t);
        } else {
            bool moved = false;
            WEFT_TRY(next_act(stage, t, &moved));
            if (moved) return WEFT_OK;
        }
    }
    return WEFT_OK;
}

weft_status wefti_stage_wake(wefti_stage *stage, wefti_thread *t) {
    bool done;
    bool receives = t->state == WEFTI_WAITS_MESSAGE;
    t->state = WEFTI_RUNS;
    t->mark++;
    if (!receives) {
        const wefti_sim_rank *rank = &stage->ranks[t->rank];
        double read_s = rank->read_s[t->key];
        if (read_s > t->now_s) {
            wefti_stage_note(stage, t, WEFTI_CLASS_LATE, t->now_s, read_s);
            t->now_s = read_s;
        }
        return schedule(stage, t, t->now_s);
    }
    WEFT_TRY(wefti_wires_receive(stage, t, &t->ops[t->at_op], &done));
    if (!done) return WEFT_OK;
    t->at_op++;
    t->piece++;
    return schedule(stage, t, t->now_s);
}

/* The deadline of a receive: on without the message. */
static weft_status give_up(wefti_stage *stage, wefti_thread *t) {
    wefti_stage_note(stage, t, WEFTI_CLASS_LATE, t->now_s, t->moment_s);
    t->now_s = fmax(t->now_s, t->moment_s);
    t->at_peer++;
    return wefti_stage_wake(stage, t);
}

static weft_status play_out(wefti_stage *stage) {
    wefti_event event;
    while (wefti_agenda_next(&stage->agenda, &event)) {
        if (event.whom == WEFTI_THREADS * stage->W) {
            WEFT_TRY(wefti_wires_land(stage, event.mark, event.when_s));
            continue;
        }
        wefti_thread *t = &stage->threads[event.whom];
        if (event.mark != t->mark) continue;
        if (t->state == WEFTI_WAITS_MESSAGE)
            WEFT_TRY(give_up(stage, t));
        else
            WEFT_TRY(run(stage, t));
    }
    if (stage->n_settled == stage->last_step * stage->W) return WEFT_OK;
    return weft_ctx_fail(stage->ctx, WEFT_ERR_INTERNAL,
                         "the runtime model came to a stop after %lld of %lld steps",
                         (long long)(stage->n_settled / stage->W),
                         (long long)stage->last_step);
}

/* --- before the first step --- */

static weft_status create_rank(wefti_stage *stage, int r) {
    const wefti_job *job = stage->job;
    wefti_sim_rank *rank = &stage->ranks[r];
    weft_ctx *ctx = stage->ctx;
    *rank = (wefti_sim_rank){.replica = r / stage->S, .shard = r % stage->S, .drift = 1};
    rank->node = rank->replica / job->copies;
    rank->site = rank->replica / job->site_replicas;
    int n = stage->scene->shards[rank->shard].arrangement->n_buckets;
    rank->capacity = 2 * n;
    rank->room = 64 * n + 64;
    if (!stage->play->calm)
        rank->drift = exp(stage->scene->cluster->jitter.drift *
                          normal(stage, r, INT64_MAX, DRAW_FACTOR));
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n, sizeof(int), "jobs", &rank->jobs));
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n, sizeof(double), "buffers", &rank->sent_s));
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n, sizeof(double), "buffers", &rank->read_s));
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n, sizeof(int), "buffers", &rank->unread));
    return wefti_alloc_n(ctx, rank->room, sizeof(wefti_segment), "a step's parts",
                         &rank->segments);
}

static weft_status create_thread(wefti_stage *stage, int i) {
    wefti_thread *t = &stage->threads[i];
    *t = (wefti_thread){.rank = i % stage->W,
                        .exchanges = i >= stage->W,
                        .phase = -1,
                        .at_peer = -1,
                        .state = i >= stage->W ? WEFTI_WAITS_JOB : WEFTI_RUNS};
    return wefti_alloc_n(stage->ctx, stage->W, sizeof(int), "peers", &t->peers);
}

/* What was sent before the first step. */
static weft_status prime(wefti_stage *stage, int r) {
    wefti_sim_rank *rank = &stage->ranks[r];
    wefti_thread *t = &stage->threads[r];
    const wefti_mixer_config *config = &stage->job->mixer_config;
    int n = stage->scene->shards[rank->shard].arrangement->n_buckets;
    wefti_mixer_act acts[WEFTI_MIXER_ACTS];
    for (int b = 0; b < n; b++) {
        wefti_mixer_question q = wefti_phase_question(stage, rank, b, -1);
        int n_acts = wefti_mixer_find(config->kind)->acts(config, &q, acts);
        for (int i = 0; i < n_acts; i++) {
            wefti_op op = {.kind = WEFTI_OP_SEND,
                           .channel = WEFTI_CHANNEL_MIXER,
                           .bucket = b,
                           .round = acts[i].round,
                           .exchange = acts[i].exchange,
                           .act = acts[i]};
            if (acts[i].sends) WEFT_TRY(wefti_wires_send(stage, t, &op));
        }
    }
    return WEFT_OK;
}

static weft_status allocate(wefti_stage *stage) {
    weft_ctx *ctx = stage->ctx;
    int nodes = stage->R / stage->job->copies;
    WEFT_TRY(wefti_alloc_n(ctx, stage->W, sizeof *stage->ranks, "ranks", &stage->ranks));
    WEFT_TRY(wefti_alloc_n(ctx, WEFTI_THREADS * stage->W, sizeof *stage->threads,
                           "threads", &stage->threads));
    WEFT_TRY(wefti_alloc_n(ctx, nodes, sizeof(wefti_interface), "nodes", &stage->nodes));
    WEFT_TRY(wefti_alloc_n(ctx, stage->job->sites, sizeof(wefti_interface), "sites",
                           &stage->sites));
    WEFT_TRY(wefti_alloc_n(ctx, stage->R, sizeof *stage->meetings, "replicas",
                           &stage->meetings));
    if (stage->scene->pair_bandwidth_Bps)
        WEFT_TRY(wefti_alloc_n(ctx, (int64_t)nodes * nodes, sizeof(double), "links",
                               &stage->pair_free_s));
    for (int r = 0; r < stage->W; r++) WEFT_TRY(create_rank(stage, r));
    for (int i = 0; i < WEFTI_THREADS * stage->W; i++) WEFT_TRY(create_thread(stage, i));
    return wefti_event_queue_init(ctx, &stage->board);
}

/* Ranks do not begin together. Equal ones that did would stay in step for ever, which
 * machines do not: two that hear of each other by turns settle into one waiting a latency
 * behind the other, or not, by how they began. */
static double draw_begin(const wefti_stage *stage, int r) {
    const double share = 0.05; /* of a step, mean */
    int first = r / stage->S * stage->S;
    if (stage->play->calm) return 0;
    return -share * stage->scene->paced_s *
           log(1 - uniform(stage, first, INT64_MAX, DRAW_LENGTH));
}

static weft_status begin(wefti_stage *stage) {
    WEFT_TRY(allocate(stage));
    for (int r = 0; r < stage->W; r++) WEFT_TRY(prime(stage, r));
    for (int r = 0; r < stage->W; r++) {
        wefti_thread *t = &stage->threads[r];
        t->now_s = draw_begin(stage, r);
        begin_step(stage, t);
        WEFT_TRY(schedule(stage, t, t->now_s));
    }
    return WEFT_OK;
}

static void free_stage(wefti_stage *stage) {
    weft_ctx *ctx = stage->ctx;
    for (int r = 0; r < stage->W && stage->ranks; r++) {
        wefti_sim_rank *rank = &stage->ranks[r];
        void *blocks[] = {rank->jobs, rank->sent_s, rank->read_s, rank->unread,
                          rank->segments};
        for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
            wefti_free(ctx, blocks[i]);
    }
    for (int i = 0; i < WEFTI_THREADS * stage->W && stage->threads; i++)
        wefti_free(ctx, stage->threads[i].peers);
    void *blocks[] = {stage->ranks,    stage->threads,     stage->nodes,  stage->sites,
                      stage->meetings, stage->pair_free_s, stage->flights};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        wefti_free(ctx, blocks[i]);
    wefti_event_queue_fini(&stage->board);
    wefti_agenda_fini(&stage->agenda);
}

weft_status wefti_event_player_run(const wefti_scene *scene, wefti_play *play) {
    const wefti_job *job = scene->job;
    wefti_stage stage = {.ctx = scene->ctx,
                         .scene = scene,
                         .job = job,
                         .play = play,
                         .W = job->W,
                         .S = job->S,
                         .R = job->R,
                         .free_flight = -1,
                         .last_step = play->steps,
                         .agenda = {.ctx = scene->ctx}};
    play->done = 0;
    play->wire_bytes = 0;
    play->n_spans = 0;
    weft_status status = begin(&stage);
    if (status == WEFT_OK) status = play_out(&stage);
    play->done = stage.last_step - play->warmup;
    free_stage(&stage);
    return status;
}
