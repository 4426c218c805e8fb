/* SPDX-License-Identifier: MIT */
/* What the phases of train/exchange.c consist of. */
#include "simulate/stage.h"

static void add(wefti_thread *t, wefti_op op) {
    if (op.kind == WEFTI_OP_WORK && op.seconds <= 0) return;
    t->ops[t->n_ops++] = op;
}

static void work(wefti_thread *t, double seconds) {
    add(t, (wefti_op){.kind = WEFTI_OP_WORK, .seconds = seconds});
}

/* A replicator's bucket, in the group of `channel`. */
typedef struct exchange {
    const wefti_route_plan *route;
    const wefti_replicator_config *config;
    wefti_channel channel;
    int bucket, R;
    int64_t step;
} exchange;

static exchange exchange_of(const wefti_stage *stage, const wefti_thread *t, int bucket,
                            bool far) {
    const wefti_job *job = stage->job;
    const wefti_sim_rank *rank = &stage->ranks[t->rank];
    const wefti_scene_bucket *b = &stage->scene->shards[rank->shard].buckets[bucket];
    return (exchange){.route = far ? &b->far : &b->near,
                      .config = far ? &job->site_replicator_config
                                    : &job->replicator_config,
                      .channel = far ? WEFTI_CHANNEL_FAR : WEFTI_CHANNEL_NEAR,
                      .bucket = bucket,
                      .R = far ? job->sites : job->site_replicas,
                      .step = rank->step};
}

static wefti_op message_op(const exchange *e, wefti_op_kind kind, int round,
                           double seconds) {
    return (wefti_op){.kind = kind,
                      .channel = e->channel,
                      .bucket = e->bucket,
                      .round = round,
                      .exchange = e->step,
                      .seconds = seconds};
}

static bool one_by_one(const exchange *e) {
    return wefti_replicator_find(e->config->kind)->one_by_one;
}

static void begin(wefti_thread *t, const exchange *e) {
    work(t, e->route->work.begin_s);
    if (!wefti_replicator_is_due(e->config, e->step)) return;
    if (e->route->n_rounds > 0) add(t, message_op(e, WEFTI_OP_SEND, 0, 0));
}

/* What the first round brings. */
static void hear(wefti_thread *t, const exchange *e) {
    double peer_s = e->route->work.combine_peer_s;
    bool at_once = one_by_one(e);
    add(t, message_op(e, WEFTI_OP_RECEIVE, 0, at_once ? peer_s : 0));
    work(t, e->route->work.combine_s + (at_once ? 0 : (e->R - 1) * peer_s));
}

static void combine(wefti_thread *t, const exchange *e) {
    if (e->route->n_rounds < 2 || !wefti_replicator_is_due(e->config, e->step)) return;
    hear(t, e);
    add(t, message_op(e, WEFTI_OP_SEND, 1, 0));
}

static void end(wefti_thread *t, const exchange *e) {
    bool due = wefti_replicator_is_due(e->config, e->step);
    double end_s = e->route->work.end_s;
    if (due && e->route->n_rounds == 1) hear(t, e);
    if (due && e->route->n_rounds == 2)
        add(t, message_op(e, WEFTI_OP_RECEIVE, 1, end_s / e->R));
    work(t, due && e->route->n_rounds == 2 ? end_s / e->R : end_s);
}

/* --- the mixer --- */

wefti_mixer_question wefti_phase_question(const wefti_stage *stage,
                                          const wefti_sim_rank *rank, int bucket,
                                          int64_t step) {
    const wefti_arrangement *a = stage->scene->shards[rank->shard].arrangement;
    wefti_sim_members group = wefti_stage_members(stage, rank, WEFTI_CHANNEL_MIXER);
    return (wefti_mixer_question){.bucket = &a->buckets[bucket],
                                  .number = bucket,
                                  .n_buckets = a->n_buckets,
                                  .R = group.n,
                                  .from = group.me,
                                  .step = step,
                                  .room = stage->job->room};
}

static void count_one(void *user, int peer, int64_t n_bytes) {
    (void)peer, (void)n_bytes;
    ++*(int *)user;
}

/* An act's messages, with the work beside them: what answers a round works on a share of
 * the bucket. */
static void mix_act(wefti_stage *stage, wefti_thread *t, int bucket,
                    const wefti_mixer_question *q, const wefti_mixer_act *act,
                    bool answers) {
    const wefti_sim_rank *rank = &stage->ranks[t->rank];
    wefti_work cost = stage->scene->shards[rank->shard].buckets[bucket].mixer;
    bool gossips = stage->job->room != NULL;
    int others = 0;
    wefti_op op = {.kind = act->sends ? WEFTI_OP_SEND : WEFTI_OP_RECEIVE,
                   .channel = WEFTI_CHANNEL_MIXER,
                   .bucket = bucket,
                   .round = act->round,
                   .exchange = act->exchange,
                   .act = *act};
    wefti_mixer_find(stage->job->mixer_config.kind)
        ->messages(&stage->job->mixer_config, q, act, count_one, &others);
    if (others == 0) return;
    double share = gossips && answers ? 1.0 / (others + 1) : 1;
    if (act->sends && act->round == 0) work(t, cost.begin_s);
    if (!act->sends && act->round == 0 && !gossips) op.seconds = cost.combine_peer_s;
    add(t, op);
    if (act->sends) return;
    if (act->round == 0)
        work(t, share * cost.combine_s +
                    (gossips ? share * others * cost.combine_peer_s : 0));
    if (!answers) work(t, cost.end_s);
}

static void mix(wefti_stage *stage, wefti_thread *t, int bucket, wefti_moment moment) {
    const wefti_sim_rank *rank = &stage->ranks[t->rank];
    const wefti_mixer_config *config = &stage->job->mixer_config;
    const wefti_mixer_ops *ops = wefti_mixer_find(config->kind);
    wefti_mixer_question q = wefti_phase_question(stage, rank, bucket, rank->step);
    wefti_mixer_act acts[WEFTI_MIXER_ACTS];
    int n = ops->acts(config, &q, acts);
    for (int i = 0; i < n; i++) {
        if (acts[i].moment != moment) continue;
        bool answers = !acts[i].sends && i + 1 < n && acts[i + 1].sends &&
                       acts[i + 1].round == 1;
        mix_act(stage, t, bucket, &q, &acts[i], answers);
    }
}

void wefti_phase_apply(wefti_stage *stage, wefti_thread *t, int bucket) {
    const wefti_sim_rank *rank = &stage->ranks[t->rank];
    const wefti_scene_bucket *b = &stage->scene->shards[rank->shard].buckets[bucket];
    mix(stage, t, bucket, WEFTI_MOMENT_BEFORE);
    work(t, b->optimizer_s);
    mix(stage, t, bucket, WEFTI_MOMENT_AFTER);
}

void wefti_phase_finish(wefti_stage *stage, wefti_thread *t, int bucket) {
    mix(stage, t, bucket, WEFTI_MOMENT_FINISH);
}

/* --- the phases --- */

enum { BEGIN, COMBINE, END, COMBINE_SITES, END_SITES, APPLY, FINISH };

/* Without sites two phases are left out. */
static int phase_named(const wefti_stage *stage, int phase) {
    return stage->job->sites == 1 && phase > END ? phase + 2 : phase;
}

static void begin_bucket(wefti_stage *stage, wefti_thread *t, int bucket,
                         const exchange *near) {
    const wefti_scene *scene = stage->scene;
    double norm_s = scene->shards[stage->ranks[t->rank].shard].buckets[bucket].norm_s;
    bool local_norm = scene->apply_in_exchange && !scene->clip_after_exchange;
    bool scales = !scene->apply_in_exchange && !scene->clip_after_exchange;
    work(t, local_norm ? norm_s : scales ? 2 * norm_s : 0);
    begin(t, near);
}

void wefti_phase_fill(wefti_stage *stage, wefti_thread *t, int phase, int job) {
    const wefti_scene *scene = stage->scene;
    const wefti_scene_shard *shard = &scene->shards[stage->ranks[t->rank].shard];
    int n = shard->arrangement->n_buckets, name = phase_named(stage, phase);
    t->n_ops = t->at_op = 0;
    if (job >= n) {
        if (name == COMBINE) mix(stage, t, job - n, WEFTI_MOMENT_TURN);
        return;
    }
    exchange near = exchange_of(stage, t, job, false);
    exchange far = exchange_of(stage, t, job, true);
    bool here = scene->apply_in_exchange || !scene->clip_after_exchange;
    bool agreed_norm = scene->apply_in_exchange && scene->clip_after_exchange;
    switch (name) {
    case BEGIN: begin_bucket(stage, t, job, &near); break;
    case COMBINE: combine(t, &near); break;
    case END:
        end(t, &near);
        if (stage->job->sites > 1) begin(t, &far);
        break;
    case COMBINE_SITES: combine(t, &far); break;
    case END_SITES: end(t, &far); break;
    case APPLY:
        work(t, agreed_norm ? shard->buckets[job].norm_s : 0);
        if (here) wefti_phase_apply(stage, t, job);
        break;
    case FINISH:
        if (here) wefti_phase_finish(stage, t, job);
        break;
    default: break;
    }
}
