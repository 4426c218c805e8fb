/* SPDX-License-Identifier: MIT */
/* The parts of the phases of rank/exchange.c: work, sending and receiving rounds.
 *
 *     phase            one round (gather)            two rounds (owner)
 *     BEGIN            encode; send 0                encode; send 0
 *     COMBINE          -                             receive 0, add; send 1
 *     END              receive 0, add; decode        receive 1, decode each
 *     COMBINE_SITES    the same three between sites, with the site replicator's costs;
 *     END_SITES        its BEGIN is the end of END
 *     APPLY            mixer before; optimizer; mixer after
 *     FINISH           mixer at the end of a step
 *
 * Before these a phase may read the gradient (norm) or scale it (clipping), according to
 * the schedule. A step without an exchange (replicator.every) only encodes. The seconds
 * are those of timed.c; this file assigns them to messages. */
#include "mix/mixer.h"
#include "replicate/replicator.h"
#include "simulate/player.h"

static const wefti_timed_shard *shard_of(const wefti_player *player,
                                         const wefti_thread *t) {
    return &player->timed->shards[player->ranks[t->rank].shard];
}

static void add(wefti_thread *t, wefti_action op) {
    if (op.kind == WEFTI_ACTION_WORK && op.seconds <= 0) return;
    t->actions[t->n_actions++] = op;
}

static void work(wefti_thread *t, double seconds) {
    add(t, (wefti_action){.kind = WEFTI_ACTION_WORK, .seconds = seconds});
}

/* A replicator's bucket, in the group of `channel`. */
typedef struct exchange {
    const wefti_route_plan *route;
    const wefti_replicator_config *config;
    wefti_channel channel;
    int bucket, R;
    int64_t step;
} exchange;

static exchange exchange_of(const wefti_player *player, const wefti_thread *t, int bucket,
                            bool far) {
    const wefti_job *job = player->job;
    const wefti_sim_rank *rank = &player->ranks[t->rank];
    const wefti_timed_bucket *b = &player->timed->shards[rank->shard].buckets[bucket];
    return (exchange){.route = far ? &b->far : &b->near,
                      .config = far ? &job->site_replicator_config
                                    : &job->replicator_config,
                      .channel = far ? WEFTI_CHANNEL_FAR : WEFTI_CHANNEL_NEAR,
                      .bucket = bucket,
                      .R = far ? job->site.n : job->site.replicas,
                      .step = rank->step};
}

static wefti_action message_op(const exchange *e, wefti_action_kind kind, int round,
                               double seconds) {
    return (wefti_action){.kind = kind,
                          .channel = e->channel,
                          .bucket = e->bucket,
                          .round = round,
                          .exchange = e->step,
                          .seconds = seconds};
}

/* Receives the first round. */
static void hear(wefti_thread *t, const exchange *e) {
    wefti_round_cost cost = wefti_timed_round(e->route, 0, e->R);
    add(t, message_op(e, WEFTI_ACTION_RECEIVE, 0, cost.one_by_one ? cost.each_s : 0));
    work(t, cost.then_s + (cost.one_by_one ? 0 : (e->R - 1) * cost.each_s));
}

static void combine(wefti_thread *t, const exchange *e) {
    if (e->route->n_rounds < 2 || !wefti_replicator_is_due(e->config, e->step)) return;
    hear(t, e);
    add(t, message_op(e, WEFTI_ACTION_SEND, 1, 0));
}

/* With a delay: receives the messages of the step before. */
static void take_in(wefti_thread *t, const exchange *e) {
    exchange before = *e;
    before.step -= e->config->delay;
    if (before.step < 0 || !wefti_replicator_is_due(e->config, before.step)) return;
    if (e->route->n_rounds > 0) hear(t, &before);
    work(t, e->route->work.end_s);
}

static void begin(wefti_thread *t, const exchange *e) {
    if (e->config->delay > 0) take_in(t, e);
    work(t, e->route->work.begin_s);
    if (!wefti_replicator_is_due(e->config, e->step)) return;
    if (e->route->n_rounds > 0) add(t, message_op(e, WEFTI_ACTION_SEND, 0, 0));
}

static void end(wefti_thread *t, const exchange *e) {
    if (e->config->delay > 0) return;
    bool due = wefti_replicator_is_due(e->config, e->step);
    wefti_round_cost answers = wefti_timed_round(e->route, 1, e->R);
    bool two = due && e->route->n_rounds == 2;
    if (due && e->route->n_rounds == 1) hear(t, e);
    if (two) add(t, message_op(e, WEFTI_ACTION_RECEIVE, 1, answers.each_s));
    work(t, two ? answers.then_s : e->route->work.end_s);
}

/* --- the mixer --- */

static void count_one(void *user, int peer, int64_t n_bytes) {
    (void)peer, (void)n_bytes;
    ++*(int *)user;
}

/* Adds the messages of an act, and the work that belongs to them. */
static void mix_act(wefti_player *player, wefti_thread *t, int bucket,
                    const wefti_mixer_question *q, const wefti_mixer_act *act,
                    bool answers) {
    const wefti_sim_rank *rank = &player->ranks[t->rank];
    const wefti_work *work_of = &player->timed->shards[rank->shard].buckets[bucket].mixer;
    int others = 0;
    wefti_action op = {.kind = act->sends ? WEFTI_ACTION_SEND : WEFTI_ACTION_RECEIVE,
                       .channel = WEFTI_CHANNEL_MIXER,
                       .bucket = bucket,
                       .round = act->round,
                       .exchange = act->exchange,
                       .act = *act};
    wefti_mixer_find(player->job->mixer_config.kind)
        ->messages(&player->job->mixer_config, q, act, count_one, &others);
    if (others == 0) return;
    wefti_act_cost cost = wefti_timed_act(work_of, player->job->gossip.room != NULL, act,
                                          answers, others);
    work(t, cost.before_s);
    op.seconds = cost.each_s;
    add(t, op);
    work(t, cost.combine_s);
    work(t, cost.end_s);
}

static void mix(wefti_player *player, wefti_thread *t, int bucket,
                wefti_mixer_phase phase) {
    const wefti_sim_rank *rank = &player->ranks[t->rank];
    const wefti_mixer_config *config = &player->job->mixer_config;
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    wefti_mixer_question q = wefti_wires_question(player, rank, bucket, rank->step);
    wefti_mixer_act acts[WEFTI_MIXER_ACTS];
    int n = ops->acts(config, &q, acts);
    for (int i = 0; i < n; i++) {
        if (acts[i].phase != phase) continue;
        mix_act(player, t, bucket, &q, &acts[i], wefti_timed_answers(acts, n, i));
    }
}

void wefti_play_apply(wefti_player *player, wefti_thread *t, int bucket) {
    const wefti_sim_rank *rank = &player->ranks[t->rank];
    const wefti_timed_bucket *b = &player->timed->shards[rank->shard].buckets[bucket];
    mix(player, t, bucket, WEFTI_MIXER_BEFORE);
    work(t, b->optimizer_s);
    mix(player, t, bucket, WEFTI_MIXER_AFTER);
}

void wefti_play_finish(wefti_player *player, wefti_thread *t, int bucket) {
    mix(player, t, bucket, WEFTI_MIXER_FINISH);
}

/* --- the phases --- */

void wefti_play_fill(wefti_player *player, wefti_thread *t) {
    const wefti_timed_shard *shard = shard_of(player, t);
    const wefti_phase *phase = &shard->schedule->phases[t->phase];
    int bucket = wefti_schedule_bucket(shard->schedule, t->job);
    t->n_actions = t->at_action = 0;
    if (wefti_schedule_is_answer(shard->schedule, t->job)) {
        if (phase->kind == WEFTI_PHASE_COMBINE)
            mix(player, t, bucket, WEFTI_MIXER_ANSWER);
        return;
    }
    exchange near = exchange_of(player, t, bucket, false);
    exchange far = exchange_of(player, t, bucket, true);
    work(t, wefti_timed_gradient_s(&shard->buckets[bucket], phase));
    switch (phase->kind) {
    case WEFTI_PHASE_BEGIN: begin(t, &near); break;
    case WEFTI_PHASE_COMBINE: combine(t, &near); break;
    case WEFTI_PHASE_END:
        end(t, &near);
        if (player->job->site.n > 1) begin(t, &far);
        break;
    case WEFTI_PHASE_COMBINE_SITES: combine(t, &far); break;
    case WEFTI_PHASE_END_SITES: end(t, &far); break;
    case WEFTI_PHASE_APPLY: wefti_play_apply(player, t, bucket); break;
    case WEFTI_PHASE_FINISH: wefti_play_finish(player, t, bucket); break;
    default: break;
    }
}
