/* SPDX-License-Identifier: MIT */
/* The threads of all replicas at once: what a step consists of, operation by operation, each
 * on an array of one clock per replica.
 *
 *     event player    the next thread runs, messages are posted and booked one by one
 *     array player    all replicas run the same op; then the next op          (this file)
 *
 *     clock[i]        the compute thread of replica i
 *     exchange[i]     its exchange thread
 *     mail            when the first and the last message of a bucket's round are at i
 *
 * There is one order of phases for all, which does not depend on the clocks
 * (arrayorder.c). Therefore a faster wire or node never makes a prediction worse, which
 * can happen in the event player. n replicas cost O(n) for a round of all to all
 * (arraylinks.c), not O(n^2).
 *
 *     left out     sites, measured pairs of nodes, deadlines, late wake-ups of an emulated wire:
 *                  for these predict.c uses the event player
 *     the same     schedule, costs of parts (timed.c), draws of jitter
 *
 * Waiting is split when it happens: idle is the part of a phase in which a replica waited
 * for messages; late is the part of idle before the last of them was sent. */
#include "mix/mixer.h"
#include "replicate/replicator.h"
#include "simulate/arraystate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "simulate/timed.h"

/* Accounts that replica i, at time x, waits waited_s for a message that was sent at `sent`. */
static void wait_for(const wefti_array_player *e, int i, double x, double waited_s,
                     double sent) {
    if (waited_s <= 0) return;
    e->idle[i] += waited_s;
    if (sent > x) e->late[i] += sooner(sent - x, waited_s);
}

/* --- the replicator's phases --- */

/* x <- the time after receiving the messages of n others: work for each message, which is
 * hidden behind waiting if it is done one by one, and work after all of them. */
static void receive(const wefti_array_player *e, double *x, mail in,
                    wefti_round_cost cost) {
    double cpu_s = e->wire * wire_of(e)->message_s * (e->R - 1);
    double all_s = e->work * cost.each_s * (e->R - 1) + cpu_s;
    double last_s = cost.one_by_one && e->R > 1 ? e->work * cost.each_s : all_s;
    for (int i = 0; i < e->R; i++) {
        double there = later(in.first[i] + all_s, in.there[i] + last_s);
        wait_for(e, i, x[i], there - x[i] - all_s, in.sent[i]);
        x[i] = later(x[i] + all_s, there) + e->work * cost.then_s;
    }
}

static void add_work(const wefti_array_player *e, double *x, double seconds) {
    double all_s = e->work * seconds;
    if (all_s <= 0) return;
    for (int i = 0; i < e->R; i++) x[i] += all_s;
}

static const wefti_route_plan *route_of(const wefti_array_player *e, int b) {
    return &e->shard->buckets[b].near;
}

static bool is_due(const wefti_array_player *e) {
    return wefti_replicator_is_due(&e->job->replicator_config, e->step);
}

/* A round of the replicator: each replica sends to all others. */
static void send_round(wefti_array_player *e, double *x, int b, int round) {
    wefti_array_send_lengths(e, x, route_of(e, b)->bytes[round],
                             mail_of(e, false, round, b));
}

/* The phases of a replicator's bucket, as phases.c has them for one thread: encode and
 * send; with two rounds combine the received messages and answer; receive the answers, or
 * all messages. */
static void hear(wefti_array_player *e, int b) {
    wefti_round_cost cost = wefti_timed_round(route_of(e, b), 0, e->R);
    receive(e, e->exchange, mail_of(e, false, 0, b), cost);
}

/* With a delay: receives the messages of the step before. */
static void take_in(wefti_array_player *e, int b) {
    const wefti_replicator_config *config = &e->job->replicator_config;
    int64_t before = e->step - config->delay;
    if (before < 0 && !e->weather.primed) return;
    if (!wefti_replicator_is_due(config, before)) return;
    if (route_of(e, b)->n_rounds > 0) hear(e, b);
    add_work(e, e->exchange, route_of(e, b)->work.end_s);
}

static bool is_delayed(const wefti_array_player *e) {
    return e->job->replicator_config.delay > 0;
}

static void begin(wefti_array_player *e, int b, double first_s) {
    const wefti_timed_bucket *bucket = &e->shard->buckets[b];
    if (is_delayed(e)) take_in(e, b);
    add_work(e, e->exchange, first_s + bucket->near.work.begin_s);
    if (is_due(e) && bucket->near.n_rounds > 0) send_round(e, e->exchange, b, 0);
}

static void combine(wefti_array_player *e, int b) {
    if (!is_due(e) || route_of(e, b)->n_rounds < 2) return;
    hear(e, b);
    send_round(e, e->exchange, b, 1);
}

static void end(wefti_array_player *e, int b) {
    if (is_delayed(e)) return;
    const wefti_route_plan *route = route_of(e, b);
    if (is_due(e) && route->n_rounds == 2) {
        receive(e, e->exchange, mail_of(e, false, 1, b),
                wefti_timed_round(route, 1, e->R));
        return;
    }
    if (is_due(e) && route->n_rounds == 1) hear(e, b);
    add_work(e, e->exchange, route->work.end_s);
}

/* --- mixers with neighbours --- */

typedef struct gossip_round {
    const wefti_partner_list *job;
    int bucket;
    double whole_bytes;
    wefti_work work;
} gossip_round;

/* The senders and receivers in the gossip round of a step, and the costs of the mixer's
 * parts. */
static gossip_round gossip_about(wefti_array_player *e, int b, int64_t step) {
    const wefti_job *job = e->job;
    const wefti_bucket *bucket = &e->shard->arrangement->buckets[b];
    gossip_round m = {
        .bucket = b,
        .whole_bytes = (double)e->mixer->message_bytes(&job->mixer_config, bucket),
        .work = e->shard->buckets[b].mixer};
    /* it was looked up before, so this cannot fail */
    if (wefti_partner_lists_look_up(e->partners, job, step, &m.job) != WEFT_OK)
        m.job = &e->partners->everybody;
    return m;
}

static int n_heard(const wefti_partner_list *job, int i) {
    return job->first[i + 1] - job->first[i];
}

/* Bytes of a message of replica i: of a group's range, or all. */
static double bytes_of(const gossip_round *m, int i) {
    return m->job->two[i] ? m->whole_bytes / (n_heard(m->job, i) + 1) : m->whole_bytes;
}

/* leaves <- the time when the first message of each replica leaves; advances the sender's
 * clock. */
static void leave(wefti_array_player *e, double *x, const gossip_round *m, int round) {
    double cpu_s = e->wire * wire_of(e)->message_s;
    for (int node = 0; node < e->nodes; node++) {
        wefti_interface *wire = &e->interfaces[node];
        for (int i = node * e->copies; i < (node + 1) * e->copies; i++) {
            int n = round == 0 || m->job->two[i] ? m->job->n_sent[i] : 0;
            if (n > 0 && round == 0) x[i] += e->work * m->work.begin_s;
            double busy = busy_s(e, bytes_of(m, i)) * e->own_out[node];
            double all_s = later(m->job->n_wire[i] * busy, pair_s(e, bytes_of(m, i)));
            double ready_s = x[i] + cpu_s;
            bool waits = m->job->n_wire[i] > 0;
            e->leaves[i] = waits ? later(ready_s, wire->out_free_s) : ready_s;
            if (n > 0 && waits) wefti_interface_leave(wire, ready_s, all_s);
            x[i] += n * cpu_s;
        }
    }
}

/* The time when replica i has all messages, which are received in the order of arrival;
 * *sent: when the last of them left. */
static double all_there(const wefti_array_player *e, const gossip_round *m, int i,
                        int round, double *sent) {
    enum { FEW = 64 };
    double heads[FEW], last = 0, slowest = 0; /* when the slowest sender has sent it */
    const wefti_partner_list *job = m->job;
    int n = 0, node = i / e->copies;
    for (int k = job->first[i]; k < job->first[i + 1] && n < FEW; k++) {
        const wefti_heard *h = &job->heard[k];
        int from = h->source / e->copies;
        double busy = busy_s(e, bytes_of(m, h->source)) * e->own_out[from];
        double head = e->leaves[h->source];
        if (round == 1 && !job->two[h->source]) continue;
        last = later(last, head);
        if (from == node) continue;
        head += h->place * busy + e->wire * wire_of(e)->latency_s;
        slowest = later(slowest, head + later(busy, pair_s(e, bytes_of(m, h->source))));
        int at = n++;
        for (; at > 0 && heads[at - 1] > head; at--) heads[at] = heads[at - 1];
        heads[at] = head;
    }
    double busy = busy_s(e, bytes_of(m, i)) * e->own_in[node];
    *sent = last;
    for (int k = 0; k < n; k++)
        last = wefti_interface_arrive(&e->interfaces[node], heads[k], busy);
    return later(last, slowest);
}

static void send_gossip(wefti_array_player *e, double *x, const gossip_round *m,
                        int round) {
    mail out = mail_of(e, true, round, m->bucket);
    if (m->job->all) {
        if (round == 0) add_work(e, x, m->work.begin_s);
        wefti_array_send_to_all(e, x, m->whole_bytes / e->R, out);
        return;
    }
    leave(e, x, m, round);
    for (int i = 0; i < e->R; i++)
        if (n_heard(m->job, i) > 0 && (round == 0 || m->job->two[i]))
            out.there[i] = all_there(e, m, i, round, &out.sent[i]);
}

/* Seconds of work after the messages of a round that a replica receives from n others. */
static double heard_s(const gossip_round *m, int round, bool answers, int n) {
    wefti_mixer_act act = {.round = round};
    wefti_act_cost cost = wefti_timed_act(&m->work, true, &act, answers, n);
    return cost.combine_s + cost.end_s;
}

/* Replica i takes in what `others` have sent in a round. */
static void take_round(const wefti_array_player *e, double *x, const gossip_round *m,
                       int i, int others, bool answers) {
    bool two = m->job->all || m->job->two[i];
    int round = two && !answers ? 1 : 0;
    double work_s = heard_s(m, round, answers, others);
    mail in = mail_of(e, true, round, m->bucket);
    wait_for(e, i, x[i], in.there[i] - x[i], in.sent[i]);
    x[i] = later(x[i], in.there[i]) + e->work * work_s +
           e->wire * others * wire_of(e)->message_s;
}

/* The second round, if there is one. */
static void answer(wefti_array_player *e, double *x, const gossip_round *m) {
    bool any = m->job->all;
    for (int i = 0; i < e->R; i++) {
        bool two = m->job->all || m->job->two[i];
        any |= two;
        if (two)
            take_round(e, x, m, i, m->job->all ? e->R - 1 : n_heard(m->job, i), true);
    }
    if (any) send_gossip(e, x, m, 1);
}

static void mix(const wefti_array_player *e, double *x, const gossip_round *m) {
    for (int i = 0; i < e->R; i++) {
        int others = m->job->all ? e->R - 1 : n_heard(m->job, i);
        if (others > 0) take_round(e, x, m, i, others, false);
    }
}

/* --- mixers of all --- */

static void add_bytes(void *user, int peer, int64_t n_bytes) {
    (void)peer;
    *(double *)user += (double)n_bytes;
}

/* An act of a mixer without neighbours: each replica sends to all, as in an all-reduce. */
static void act_of_all(wefti_array_player *e, double *x, const wefti_mixer_question *q,
                       const wefti_mixer_act *act, bool answers) {
    const wefti_mixer_config *config = &e->job->mixer_config;
    wefti_act_cost cost = wefti_timed_act(&e->shard->buckets[q->number].mixer, false, act,
                                          answers, e->R - 1);
    mail box = mail_of(e, true, act->round, q->number);
    double bytes = 0;
    e->mixer->messages(config, q, act, add_bytes, &bytes);
    if (act->sends) {
        add_work(e, x, cost.before_s);
        wefti_array_send_to_all(e, x, bytes / (e->R > 1 ? e->R - 1 : 1), box);
    } else {
        receive(e, x, box,
                (wefti_round_cost){cost.each_s, cost.combine_s + cost.end_s, true});
    }
}

/* The acts of such a mixer that belong to this phase of the step. */
static void act_for_all(wefti_array_player *e, double *x, int b,
                        wefti_mixer_phase phase) {
    const wefti_mixer_config *config = &e->job->mixer_config;
    wefti_mixer_act acts[WEFTI_MIXER_ACTS];
    wefti_mixer_question q = {.bucket = &e->shard->arrangement->buckets[b],
                              .number = b,
                              .n_buckets = e->n_buckets,
                              .R = e->R,
                              .step = e->step};
    int n = e->mixer->acts(config, &q, acts);
    for (int i = 0; i < n && e->R > 1; i++)
        if (acts[i].phase == phase)
            act_of_all(e, x, &q, &acts[i], wefti_timed_answers(acts, n, i));
}

/* The acts of the mixer for a bucket in a phase of the step. Adapt-while-communicating mixes
 * what was sent after the previous step; adapt-then-combine mixes what has just been sent. */
static void mixer_acts(wefti_array_player *e, double *x, int b, wefti_mixer_phase phase) {
    bool last = e->job->mixer_config.combine_last;
    if (e->R == 1 || e->job->replicas_equal) return;
    if (!e->job->gossip.topology) {
        act_for_all(e, x, b, phase);
        return;
    }
    gossip_round now = gossip_about(e, b, e->step);
    gossip_round next = last ? now : gossip_about(e, b, e->step + 1);
    if (phase == WEFTI_MIXER_AFTER) send_gossip(e, x, &next, 0);
    if (phase == (last ? WEFTI_MIXER_FINISH : WEFTI_MIXER_ANSWER)) answer(e, x, &now);
    if (phase == (last ? WEFTI_MIXER_FINISH : WEFTI_MIXER_BEFORE)) mix(e, x, &now);
}

/* The optimizer, with the mixer's acts before and after it. */
static void apply(wefti_array_player *e, double *x, int b) {
    mixer_acts(e, x, b, WEFTI_MIXER_BEFORE);
    add_work(e, x, e->shard->buckets[b].optimizer_s);
    mixer_acts(e, x, b, WEFTI_MIXER_AFTER);
}

/* --- the exchange thread --- */

/* One phase of one bucket, for all replicas. */
static void run_phase(wefti_array_player *e, int number, int item) {
    const wefti_schedule *s = e->shard->schedule;
    const wefti_phase *phase = &s->phases[number];
    int b = wefti_schedule_bucket(s, item);
    if (wefti_schedule_is_answer(s, item)) {
        if (phase->kind == WEFTI_PHASE_COMBINE)
            mixer_acts(e, e->exchange, b, WEFTI_MIXER_ANSWER);
        return;
    }
    double first_s = wefti_timed_gradient_s(&e->shard->buckets[b], phase);
    switch (phase->kind) {
    case WEFTI_PHASE_BEGIN: begin(e, b, first_s); break;
    case WEFTI_PHASE_COMBINE: combine(e, b); break;
    case WEFTI_PHASE_END: end(e, b); break;
    case WEFTI_PHASE_APPLY:
        add_work(e, e->exchange, first_s);
        apply(e, e->exchange, b);
        break;
    case WEFTI_PHASE_FINISH: mixer_acts(e, e->exchange, b, WEFTI_MIXER_FINISH); break;
    default: break; /* between sites: not summed */
    }
}

/* Begins to add up the waits of the replicas, from the times x on. */
static void begin_account(wefti_array_player *e, const double *x) {
    memcpy(e->began, x, (size_t)e->R * sizeof *x);
    memset(e->idle, 0, (size_t)e->R * sizeof *x);
    memset(e->late, 0, (size_t)e->R * sizeof *x);
}

/* Accounts the part of a phase in which the compute thread waits, too; the parts of the
 * phase are assumed to be spread evenly over it. */
static void account(wefti_array_player *e) {
    for (int i = 0; i < e->R; i++) {
        double spent_s = e->exchange[i] - e->began[i];
        double shared_s = e->exchange[i] - later(e->began[i], e->clock[i]);
        e->sums.exchange_s += spent_s;
        if (shared_s <= 0) continue;
        double share = shared_s / spent_s;
        e->sums.late_s += share * e->late[i];
        e->sums.wire_s += share * (e->idle[i] - e->late[i]);
        e->sums.codec_s += share * (spent_s - e->idle[i]);
    }
}

/* Runs the phases of all that has been submitted. */
static void exchange_all(wefti_array_player *e) {
    for (int p; (p = wefti_array_next_phase(e)) >= 0; e->done[p]++) {
        const double *ready = row(e->ready, e, (int)e->done[0]);
        for (int i = 0; i < e->R && p == 0; i++)
            e->exchange[i] = later(e->exchange[i], ready[i]);
        begin_account(e, e->exchange);
        run_phase(e, p, e->jobs[e->done[p]]);
        account(e);
    }
    for (int i = 0; i < e->R && e->n_jobs > 0; i++) {
        e->sums.wait_s += later(0, e->exchange[i] - e->clock[i]);
        e->clock[i] = later(e->clock[i], e->exchange[i]);
    }
}

/* Runs a phase on the compute thread. */
static void exchange_here(wefti_array_player *e, const wefti_op *op) {
    begin_account(e, e->clock);
    if (op->kind == WEFTI_OP_APPLY)
        apply(e, e->clock, op->index);
    else
        mixer_acts(e, e->clock, op->index, WEFTI_MIXER_FINISH);
    for (int i = 0; i < e->R; i++) {
        e->sums.exchange_s += e->idle[i];
        e->sums.wait_s += e->idle[i];
        e->sums.late_s += e->late[i];
        e->sums.wire_s += e->idle[i] - e->late[i];
    }
}

/* --- the compute thread --- */

/* Draws the factors of a step. A replica is as slow as its slowest rank. */
static void draw_step(wefti_array_player *e) {
    uint64_t seed = e->weather.seed;
    for (int i = 0; i < e->R; i++) {
        int node = i / e->copies;
        double slow = e->weather.slower ? (double)e->weather.slower[node] : 1;
        double factor = 0, halt_s = 0;
        for (int s = 0; s < e->S && e->weather.jitter; s++) {
            int rank = i * e->S + s;
            double drawn = wefti_jitter_factor(e->timed, seed, e->step, rank);
            factor = later(factor, e->drift[i] * drawn);
            halt_s = later(halt_s, wefti_jitter_halt(e->timed, seed, e->step, rank));
        }
        e->factor[i] = slow * (e->weather.jitter ? factor : 1);
        e->halt[i] = halt_s;
        e->begun[i] = e->clock[i];
    }
    e->stalled_s = 0;
}

/* The replica that mesh.straggler_time strikes in this step; -1: none. */
static int stalled(const wefti_array_player *e) {
    if (e->job->config->mesh.straggler_time <= 0 || !e->weather.jitter) return -1;
    return wefti_jitter_straggler(e->job, e->step) / e->S;
}

/* Runs a part that computes: slower by the replica's factor, with this step's stop in the
 * first part, and not finished before the part's floor. */
static void compute(wefti_array_player *e, const wefti_timed_op *part) {
    bool floored = part->floor_s >= 0;
    int struck = floored ? stalled(e) : -1;
    double stall_s = e->job->config->mesh.straggler_time - e->stalled_s, sum = 0;
    for (int i = 0; i < e->R; i++) {
        double before = e->clock[i];
        double own_s = wefti_timed_work(part, e->own_compute[i / e->copies]);
        e->clock[i] += own_s * e->factor[i] + e->halt[i];
        e->halt[i] = 0;
        if (floored)
            e->clock[i] = later(e->clock[i], e->begun[i] + part->floor_s +
                                                 (i == struck ? e->stalled_s : 0)) +
                          (i == struck ? stall_s : 0);
        sum += e->clock[i] - before;
    }
    if (struck >= 0) e->stalled_s += stall_s;
    e->compute_s += sum;
}

/* Hands a bucket over to the exchange threads; `ready` is the time at which each replica did so.
 * The exchange threads begin at the first one of a step; until then they have nothing to do. */
static void submit(wefti_array_player *e, int job) {
    memcpy(row(e->ready, e, e->n_jobs), e->clock, (size_t)e->R * sizeof *e->clock);
    if (e->n_jobs == 0) memcpy(e->exchange, e->clock, (size_t)e->R * sizeof *e->clock);
    e->jobs[e->n_jobs++] = job;
}

/* Sends one status message to and from every other rank, after the pending work of the
 * interfaces; computes when the last one has arrived everywhere. */
static void send_status(wefti_array_player *e) {
    const wefti_link_time *link = wire_of(e);
    int per_node = e->copies * e->S, others = e->job->W - 1;
    double cpu_s = e->wire * others * link->message_s, last = 0;
    double each_s = busy_s(e, wefti_job_status_bytes(e->job)) / e->S;
    double wire_s = each_s * per_node * (e->job->W - per_node) * e->outs[0], there = 0;
    for (int node = 0; node < e->nodes; node++) {
        const wefti_interface *wire = &e->interfaces[node]; /* too short to be booked */
        for (int i = node * e->copies; i < (node + 1) * e->copies; i++)
            last = later(last, e->clock[i] += cpu_s);
        if (wire_s <= 0) continue;
        last = later(last, wire->out_free_s);
        there = later(there, wire->in_free_s);
    }
    last += e->wire * link->latency_s;
    e->status_s[e->step % WEFTI_ARRAY_STATUS_SLOTS] = later(last, there) + wire_s;
}

/* Reads the status of lag.status steps ago: all wait until the last message of it has
 * arrived. */
static void read_status(wefti_array_player *e) {
    int64_t step = e->step - e->job->lag.status;
    if (step < 0 || e->job->W == 1) return;
    double there = e->status_s[step % WEFTI_ARRAY_STATUS_SLOTS];
    double cpu_s = e->wire * (e->job->W - 1) * wire_of(e)->message_s;
    for (int i = 0; i < e->R; i++) {
        e->sums.status_s += later(0, there - e->clock[i]);
        e->clock[i] = later(e->clock[i], there) + cpu_s;
    }
}

/* Runs ops that neither compute nor synchronize. */
static void act(wefti_array_player *e, const wefti_op *op) {
    switch (op->kind) {
    case WEFTI_OP_ANSWER: submit(e, e->n_buckets + op->index); break;
    case WEFTI_OP_SUBMIT: submit(e, op->index); break;
    case WEFTI_OP_WAIT: exchange_all(e); break;
    case WEFTI_OP_STATUS: send_status(e); break;
    case WEFTI_OP_APPLY:
    case WEFTI_OP_FINISH: exchange_here(e, op); break;
    case WEFTI_OP_SETTLE:
        for (int i = 0; i < e->R; i++) e->sums.step_s += e->clock[i] - e->settled[i];
        memcpy(e->settled, e->clock, (size_t)e->R * sizeof *e->clock);
        break;
    case WEFTI_OP_READ: read_status(e); break;
    default: break;
    }
}

static void perform(wefti_array_player *e, const wefti_timed_op *part) {
    switch (part->timing) {
    case WEFTI_TIMING_COMPUTE: compute(e, part); break;
    case WEFTI_TIMING_MEET: add_work(e, e->clock, part->work_s); break;
    case WEFTI_TIMING_ACT: act(e, &part->op); break;
    }
}

void wefti_array_player_step(wefti_array_player *e) {
    e->compute_s = 0;
    e->sums = (wefti_played){0};
    e->n_jobs = 0;
    memset(e->done, 0, sizeof e->done);
    draw_step(e);
    for (int i = 0; i < e->shard->n_ops; i++) perform(e, &e->shard->ops[i]);
    e->step++;
}

const double *wefti_array_player_settled(const wefti_array_player *e) {
    return e->settled;
}

wefti_played wefti_array_player_played(const wefti_array_player *e) {
    wefti_played mean = e->sums;
    double *parts[] = {&mean.step_s, &mean.exchange_s, &mean.wait_s,  &mean.codec_s,
                       &mean.wire_s, &mean.late_s,     &mean.status_s};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) *parts[i] /= e->R;
    return mean;
}

double wefti_array_player_compute_s(const wefti_array_player *e) {
    return e->compute_s / e->R;
}

/* --- creation --- */

static weft_status numbers(wefti_array_player *e, int64_t n, double **out) {
    return wefti_alloc_n(e->ctx, n, sizeof(double), "the nodes", out);
}

static weft_status allocate(wefti_array_player *e) {
    double **of_replicas[] = {&e->clock,  &e->exchange, &e->begun, &e->settled,
                              &e->factor, &e->halt,     &e->drift, &e->leaves,
                              &e->began,  &e->idle,     &e->late};
    int64_t n = (int64_t)e->n_buckets * e->R;
    for (size_t i = 0; i < sizeof of_replicas / sizeof of_replicas[0]; i++)
        WEFT_TRY(numbers(e, e->R, of_replicas[i]));
    double **of_nodes[] = {&e->circle, &e->own_compute, &e->own_out, &e->own_in,
                           &e->outs};
    for (size_t i = 0; i < sizeof of_nodes / sizeof of_nodes[0]; i++)
        WEFT_TRY(numbers(e, e->nodes, of_nodes[i]));
    WEFT_TRY(wefti_alloc_n(e->ctx, e->nodes, sizeof *e->interfaces, "the nodes",
                           &e->interfaces));
    for (int i = 0; i < 2 * WEFTI_ARRAY_ROUNDS; i++) {
        WEFT_TRY(
            numbers(e, n, &e->arrived[i / WEFTI_ARRAY_ROUNDS][i % WEFTI_ARRAY_ROUNDS]));
        WEFT_TRY(numbers(e, n, &e->sent[i / WEFTI_ARRAY_ROUNDS][i % WEFTI_ARRAY_ROUNDS]));
        WEFT_TRY(
            numbers(e, n, &e->first[i / WEFTI_ARRAY_ROUNDS][i % WEFTI_ARRAY_ROUNDS]));
    }
    WEFT_TRY(numbers(e, 2 * n, &e->ready));
    WEFT_TRY(wefti_alloc_n(e->ctx, 2 * e->nodes, sizeof(int), "places", &e->places));
    return wefti_alloc_n(e->ctx, 2 * e->n_buckets, sizeof(int), "jobs", &e->jobs);
}

static int by_falling(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Determines how each node differs from the others, and the different times of sending,
 * the slowest first. */
static void tell_apart(wefti_array_player *e) {
    const weft_cluster *c = e->timed->cluster;
    for (int i = 0; i < e->nodes; i++) {
        e->own_compute[i] = wefti_timed_part(e->timed, i);
        e->own_in[i] = 1;
        e->own_out[i] = wire_of(e)->up;
    }
    for (int64_t k = 0; k < c->n_machines && !e->weather.alike; k++) {
        const weft_machine *m = &c->machines[k];
        if (m->node >= e->nodes) continue;
        wefti_machine_times t = wefti_machine_of(c, wire_of(e), m);
        e->own_compute[m->node] *= t.compute;
        if (e->nodes > 1) e->own_out[m->node] = t.out, e->own_in[m->node] = t.in;
    }
    for (int i = 0; i < e->nodes && e->weather.slower_links; i++) {
        e->own_in[i] *= (double)e->weather.slower_links[i];
        e->own_out[i] *= (double)e->weather.slower_links[i];
    }
    memcpy(e->outs, e->own_out, (size_t)e->nodes * sizeof *e->outs);
    qsort(e->outs, (size_t)e->nodes, sizeof *e->outs, by_falling);
    for (int i = 0; i < e->nodes; i++)
        if (e->n_outs == 0 || e->outs[i] < e->outs[e->n_outs - 1])
            e->outs[e->n_outs++] = e->outs[i];
}

void wefti_array_player_slow_wire(wefti_array_player *e, double times) {
    e->wire_times = e->nodes > 1 ? times : 1;
}

static void draw_drift(wefti_array_player *e) {
    for (int i = 0; i < e->R; i++)
        e->drift[i] = e->weather.jitter ? wefti_jitter_drift(e->timed, e->weather.seed, i)
                                        : 1;
}

/* The messages that the first step waits for are sent at time 0, as if there had been a step
 * before. So all steps have the same length and need no warm-up. With a warm-up the length
 * of a run would be a difference of two times, which can grow although both get smaller. */
static weft_status prime(wefti_array_player *e) {
    const wefti_partner_list *first;
    bool gossips = e->job->gossip.topology && !e->job->replicas_equal;
    bool sends_ahead = gossips && !e->job->mixer_config.combine_last;
    if (!e->weather.primed || e->R == 1) return WEFT_OK;
    WEFT_TRY(wefti_partner_lists_look_up(e->partners, e->job, 0, &first));
    for (int b = 0; b < e->n_buckets; b++) {
        gossip_round now = gossip_about(e, b, 0);
        if (is_delayed(e) && route_of(e, b)->n_rounds > 0)
            send_round(e, e->exchange, b, 0);
        if (sends_ahead) send_gossip(e, e->exchange, &now, 0);
    }
    memset(e->exchange, 0, (size_t)e->R * sizeof *e->exchange);
    return WEFT_OK;
}

weft_status wefti_array_player_create(const wefti_timed *timed,
                                      wefti_partner_lists *partners,
                                      const wefti_weather *weather,
                                      wefti_array_player **out) {
    const wefti_job *job = timed->job;
    wefti_array_player *e;
    *out = NULL;
    WEFT_TRY(wefti_alloc(timed->ctx, sizeof *e, "the nodes", &e));
    *e = (wefti_array_player){.ctx = timed->ctx,
                              .timed = timed,
                              .job = job,
                              .mixer = wefti_mixer_find(job->mixer_config.kind),
                              .partners = partners,
                              .weather = *weather,
                              .shard = &timed->shards[0],
                              .R = job->R,
                              .nodes = job->R / job->copies,
                              .copies = job->copies,
                              .S = job->S,
                              .n_buckets = timed->shards[0].arrangement->n_buckets,
                              .wire = weather->no_wire ? 0 : 1,
                              .work = weather->no_work ? 0 : 1};
    weft_status status = allocate(e);
    if (status == WEFT_OK) {
        tell_apart(e);
        wefti_array_player_slow_wire(e,
                                     weather->slower_wire > 0 ? weather->slower_wire : 1);
        draw_drift(e);
        status = prime(e);
    }
    if (status == WEFT_OK)
        *out = e;
    else
        wefti_array_player_destroy(e);
    return status;
}

void wefti_array_player_destroy(wefti_array_player *e) {
    if (!e) return;
    void *blocks[] = {e->clock,  e->exchange,   e->begun,   e->settled, e->factor,
                      e->halt,   e->drift,      e->leaves,  e->began,   e->idle,
                      e->late,   e->interfaces, e->circle,  e->ready,   e->jobs,
                      e->places, e->outs,       e->own_out, e->own_in,  e->own_compute};
    for (int i = 0; i < 2 * WEFTI_ARRAY_ROUNDS; i++) {
        wefti_free(e->ctx, e->arrived[i / WEFTI_ARRAY_ROUNDS][i % WEFTI_ARRAY_ROUNDS]);
        wefti_free(e->ctx, e->sent[i / WEFTI_ARRAY_ROUNDS][i % WEFTI_ARRAY_ROUNDS]);
        wefti_free(e->ctx, e->first[i / WEFTI_ARRAY_ROUNDS][i % WEFTI_ARRAY_ROUNDS]);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        wefti_free(e->ctx, blocks[i]);
    wefti_free(e->ctx, e);
}
