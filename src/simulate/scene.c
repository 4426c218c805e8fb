/* SPDX-License-Identifier: MIT */
/* The acts follow src/train/step.c and passes.c line by line. Neighbouring runs of
 * computing are one act: doing (w1, f1) and then (w2, f2), each max(t + w, f), is doing
 * (w1 + w2, max(f1 + w2, f2)). */
#include "simulate/scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* What is in the places for units in flight (train/rank.h). */
typedef struct script {
    wefti_scene *scene;
    wefti_scene_shard *shard;
    int gathered[WEFTI_PLACES];
    int64_t micro;
    bool in_detail;
} script;

static weft_status add(script *s, wefti_act act) {
    wefti_scene_shard *shard = s->shard;
    wefti_act *last = shard->n_acts ? &shard->acts[shard->n_acts - 1] : NULL;
    bool joins = act.kind == WEFTI_ACT_RUN && last && last->kind == WEFTI_ACT_RUN;
    if (joins && !s->in_detail) {
        double moved = last->floor_s < 0 ? -1 : last->floor_s + act.work_s;
        last->work_s += act.work_s;
        last->floor_s = fmax(moved, act.floor_s);
        return WEFT_OK;
    }
    if (shard->n_acts == shard->room) {
        int room = 2 * shard->room + 64;
        WEFT_TRY(wefti_grow(s->scene->ctx, &shard->acts, shard->n_acts, room, sizeof act,
                            "a step's acts"));
        shard->room = room;
    }
    shard->acts[shard->n_acts++] = act;
    return WEFT_OK;
}

static weft_status run(script *s, const char *what, int index, double work_s,
                       double floor_s) {
    return add(s, (wefti_act){WEFTI_ACT_RUN, index, work_s, floor_s, what});
}

static weft_status plain(script *s, wefti_act_kind kind, int index) {
    return add(s, (wefti_act){kind, index, 0, -1, ""});
}

/* S-1 shards over the node's own link, and copying the unit once more. */
static double meeting_s(const script *s, int u, double bytes_per_element) {
    const wefti_scene *scene = s->scene;
    const wefti_scene_link *link = &scene->links[WEFTI_LINK_LOCAL];
    double full = 4 * (double)scene->job->model->units[u].n_elements;
    double moved = full * (scene->job->S - 1) / scene->job->S * link->stretch;
    double wire_s = link->bandwidth_Bps > 0 ? moved / link->bandwidth_Bps : 0;
    return link->latency_s + wire_s + (scene->job->S - 1) * 2 * link->message_s +
           wefti_costs_touch(scene->cluster, bytes_per_element / 4 * full);
}

static weft_status gather(script *s, int u) {
    const wefti_job *job = s->scene->job;
    if (job->S == 1 || u < 0) return WEFT_OK;
    int place = wefti_job_own_place(job, u) ? 1 : 0;
    if (s->gathered[place] == u) return WEFT_OK;
    s->gathered[place] = u;
    return add(s, (wefti_act){WEFTI_ACT_MEET, u, meeting_s(s, u, 8), -1, "gather"});
}

static weft_status prepare_unit(script *s, int u) {
    WEFT_TRY(gather(s, u));
    return gather(s, s->scene->job->model->units[u].borrows);
}

/* Moment of the step before which the backward pass of unit u does not end
 * (wefti_rank_pace); stalls are added when it is played. */
static double pace_s(const script *s, int u) {
    const wefti_job *job = s->scene->job;
    double left = 0, pace = job->config->mesh.compute_time;
    if (pace <= 0) return job->config->mesh.straggler_time > 0 ? 0 : -1;
    for (int v = 0; v < u; v++) left += (double)job->model->units[v].n_elements;
    double share = 1 - 2.0 / 3 * left / (double)job->model->n_elements;
    return pace * ((double)s->micro + share) / (double)job->n_micro;
}

static weft_status submit(script *s, int job) {
    WEFT_TRY(plain(s, WEFTI_ACT_SUBMIT, job));
    if (s->scene->job->config->mesh.overlap) return WEFT_OK;
    return plain(s, WEFTI_ACT_WAIT, 0);
}

static weft_status finish_unit(script *s, int u) {
    const wefti_scene *scene = s->scene;
    const wefti_arrangement *a = s->shard->arrangement;
    if (scene->job->S > 1)
        WEFT_TRY(
            add(s, (wefti_act){WEFTI_ACT_MEET, u, meeting_s(s, u, 20), -1, "reduce"}));
    int b = a->bucket_of[u];
    bool complete = s->micro == scene->job->n_micro - 1 && a->bucket_last_unit[b] == u;
    bool at_once = scene->apply_in_exchange || scene->clip_after_exchange;
    return complete && at_once ? submit(s, b) : WEFT_OK;
}

static weft_status micro_batch(script *s) {
    const wefti_scene *scene = s->scene;
    int n = scene->job->model->n_units;
    for (int u = 0; u < n - 1; u++) {
        WEFT_TRY(prepare_unit(s, u));
        WEFT_TRY(run(s, "forward", u,
                     wefti_costs_unit(scene->cluster, scene->job, u).forward_s, -1));
    }
    for (int u = n - 1; u >= 0; u--) {
        wefti_unit_cost cost = wefti_costs_unit(scene->cluster, scene->job, u);
        double head_s = u == n - 1 ? cost.forward_s : 0; /* its backward does both */
        WEFT_TRY(prepare_unit(s, u));
        WEFT_TRY(run(s, "backward", u, head_s + cost.backward_s, pace_s(s, u)));
        WEFT_TRY(finish_unit(s, u));
    }
    return WEFT_OK;
}

/* Ranks of a replica add up a few numbers. */
static weft_status sum_up(script *s) {
    const wefti_scene_link *link = &s->scene->links[WEFTI_LINK_LOCAL];
    if (s->scene->job->S == 1) return WEFT_OK;
    return add(s, (wefti_act){WEFTI_ACT_MEET, -1, link->latency_s + 2 * link->message_s,
                              -1, "sum"});
}

static weft_status norm(script *s) {
    double work_s = 0;
    for (int b = 0; b < s->shard->arrangement->n_buckets; b++)
        work_s += s->shard->buckets[b].norm_s;
    WEFT_TRY(run(s, "norm", -1, work_s, -1));
    return sum_up(s);
}

static weft_status clip(script *s) {
    const wefti_scene *scene = s->scene;
    int n = s->shard->arrangement->n_buckets;
    if (scene->apply_in_exchange) return WEFT_OK;
    if (!scene->clip_after_exchange) {
        WEFT_TRY(norm(s));
        for (int b = 0; b < n; b++) WEFT_TRY(submit(s, b));
        return WEFT_OK;
    }
    WEFT_TRY(plain(s, WEFTI_ACT_WAIT, 0));
    WEFT_TRY(norm(s));
    for (int b = 0; b < n; b++) WEFT_TRY(plain(s, WEFTI_ACT_APPLY, b));
    for (int b = 0; b < n && !scene->job->replicas_equal; b++)
        WEFT_TRY(plain(s, WEFTI_ACT_FINISH, b));
    return WEFT_OK;
}

static weft_status write_script(script *s) {
    const wefti_job *job = s->scene->job;
    int n = s->shard->arrangement->n_buckets;
    const wefti_mixer_ops *mixer = wefti_mixer_find(job->mixer_config.kind);
    for (int i = 0; i < WEFTI_PLACES; i++) s->gathered[i] = -1;
    for (int b = 0; b < n && mixer->turn; b++)
        WEFT_TRY(plain(s, WEFTI_ACT_SUBMIT, n + b));
    for (s->micro = 0; s->micro < job->n_micro; s->micro++) WEFT_TRY(micro_batch(s));
    WEFT_TRY(plain(s, WEFTI_ACT_VOTE, 0));
    WEFT_TRY(clip(s));
    WEFT_TRY(plain(s, WEFTI_ACT_WAIT, 0));
    WEFT_TRY(run(s, "rest", -1, s->scene->cluster->rest_s, -1));
    WEFT_TRY(sum_up(s));
    WEFT_TRY(plain(s, WEFTI_ACT_SETTLE, 0));
    return plain(s, WEFTI_ACT_COUNT, 0);
}

/* --- buckets --- */

static weft_status plan_route(wefti_scene *scene, const wefti_replicator_config *config,
                              const wefti_bucket *bucket, int R, wefti_route_plan *out) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    wefti_replicator_config taken = *config;
    out->n_rounds = ops->rounds(config, bucket, R);
    taken.route = out->n_rounds == 1 ? WEFTI_ROUTE_GATHER : WEFTI_ROUTE_OWNER;
    out->work = wefti_costs_replicator(scene->cluster, &taken, bucket, R);
    for (int round = 0; round < out->n_rounds; round++) {
        WEFT_TRY(wefti_alloc_n(scene->ctx, R, sizeof(int64_t), "messages",
                               &out->bytes[round]));
        for (int owner = 0; owner < R; owner++)
            out->bytes[round][owner] = ops->round_bytes(config, bucket, R, round, owner);
    }
    return WEFT_OK;
}

static weft_status plan_bucket(wefti_scene *scene, const wefti_arrangement *a, int b,
                               wefti_scene_bucket *out) {
    const wefti_job *job = scene->job;
    const wefti_bucket *bucket = &a->buckets[b];
    out->mixer = wefti_costs_mixer(scene->cluster, job, bucket);
    out->optimizer_s = wefti_costs_optimizer(scene->cluster, job, a, b);
    out->norm_s = wefti_costs_touch(scene->cluster, 4 * (double)bucket->n_elements);
    WEFT_TRY(plan_route(scene, &job->replicator_config, bucket, job->site_replicas,
                        &out->near));
    if (job->sites == 1) return WEFT_OK;
    return plan_route(scene, &job->site_replicator_config, bucket, job->sites, &out->far);
}

static weft_status plan_shard(wefti_scene *scene, int s, bool in_detail) {
    wefti_scene_shard *shard = &scene->shards[s];
    script lines = {.scene = scene, .shard = shard, .in_detail = in_detail};
    WEFT_TRY(wefti_arrangement_create(scene->ctx, scene->job, s, &shard->arrangement));
    int n = shard->arrangement->n_buckets;
    WEFT_TRY(
        wefti_alloc_n(scene->ctx, n, sizeof *shard->buckets, "buckets", &shard->buckets));
    for (int b = 0; b < n; b++)
        WEFT_TRY(plan_bucket(scene, shard->arrangement, b, &shard->buckets[b]));
    return write_script(&lines);
}

/* --- links --- */

/* joined: how many interfaces there are; among more than two, messages from several meet
 * at one. */
static wefti_scene_link link_of(const weft_link_facts *facts, int joined) {
    double incast = joined > 2 && facts->incast > 0 ? facts->incast : 1;
    return (wefti_scene_link){facts->bandwidth_Bps, facts->latency_s, facts->message_s,
                              facts->bytes_per_message, (1 + facts->overhead) * incast};
}

static weft_status plan_pairs(wefti_scene *scene) {
    const weft_cluster *c = scene->cluster;
    int64_t n = scene->job->R / scene->job->copies;
    if (c->n_pairs == 0 || scene->emulated) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(scene->ctx, n * n, sizeof(double), "links",
                           &scene->pair_bandwidth_Bps));
    WEFT_TRY(wefti_alloc_n(scene->ctx, n * n, sizeof(double), "links",
                           &scene->pair_latency_s));
    for (int64_t i = 0; i < c->n_pairs; i++) {
        const weft_link_pair *p = &c->pairs[i];
        if (p->from >= n || p->to >= n) continue;
        scene->pair_bandwidth_Bps[p->from * n + p->to] = p->bandwidth_Bps;
        scene->pair_latency_s[p->from * n + p->to] = p->latency_s;
    }
    return WEFT_OK;
}

static void plan_links(wefti_scene *scene) {
    const weft_config *config = scene->job->config;
    const weft_cluster *c = scene->cluster;
    int sites = scene->job->sites, nodes = scene->job->R / scene->job->copies;
    scene->links[WEFTI_LINK_LOCAL] = link_of(&c->local, 1);
    scene->links[WEFTI_LINK_WIRE] = link_of(&c->wire, nodes / sites);
    scene->links[WEFTI_LINK_SITE] = link_of(
        c->site.bandwidth_Bps > 0 ? &c->site : &c->wire, sites);
    scene->emulated = config->mesh.bandwidth_Bps > 0;
    if (!scene->emulated) return;
    double message_s = c->local.message_s;
    scene->links[WEFTI_LINK_WIRE] = (wefti_scene_link){
        config->mesh.bandwidth_Bps, config->mesh.latency_s, message_s, 0, 1};
    scene->links[WEFTI_LINK_SITE] = (wefti_scene_link){
        config->mesh.site_bandwidth_Bps, config->mesh.site_latency_s, message_s, 0, 1};
}

/* --- the whole --- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static weft_status find_median(wefti_scene *scene) {
    const weft_cluster *c = scene->cluster;
    double *sorted;
    if (c->n_steps == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(scene->ctx, c->n_steps, sizeof *sorted, "steps", &sorted));
    memcpy(sorted, c->step_s, (size_t)c->n_steps * sizeof *sorted);
    qsort(sorted, (size_t)c->n_steps, sizeof *sorted, ascending);
    scene->mean_s = (sorted[(c->n_steps - 1) / 2] + sorted[c->n_steps / 2]) / 2;
    wefti_free(scene->ctx, sorted);
    return WEFT_OK;
}

/* Computing that takes no time would be a silent mistake. */
static weft_status check_known(const wefti_scene *scene) {
    const weft_cluster *c = scene->cluster;
    if (c->rank_flops > 0 || scene->job->loop_s > 0 ||
        scene->job->config->mesh.compute_time > 0 || wefti_costs_measured(c, scene->job))
        return WEFT_OK;
    return weft_ctx_fail(
        scene->ctx, WEFT_ERR_CONFIG,
        "nothing is known of computing: the cluster has no rank_flops%s, "
        "and mesh.compute_time is 0",
        c->n_units > 0 ? ", its units are of another model or batch" : "");
}

static weft_status fill(wefti_scene *scene, bool in_detail) {
    const wefti_job *job = scene->job;
    WEFT_TRY(check_known(scene));
    scene->apply_in_exchange = job->config->optimizer.clip == 0;
    scene->clip_after_exchange =
        wefti_replicator_find(job->replicator_config.kind)->keeps_norm &&
        (job->sites == 1 ||
         wefti_replicator_find(job->site_replicator_config.kind)->keeps_norm);
    scene->n_phases = (job->sites > 1 ? 6 : 4) + (job->replicas_equal ? 0 : 1);
    plan_links(scene);
    WEFT_TRY(plan_pairs(scene));
    WEFT_TRY(find_median(scene));
    WEFT_TRY(wefti_alloc_n(scene->ctx, job->S, sizeof *scene->shards, "shards",
                           &scene->shards));
    for (int s = 0; s < job->S; s++) WEFT_TRY(plan_shard(scene, s, in_detail));
    double pass_s = 0;
    for (int u = 0; u < job->model->n_units; u++) {
        wefti_unit_cost cost = wefti_costs_unit(scene->cluster, job, u);
        pass_s += cost.forward_s + cost.backward_s;
    }
    scene->compute_s = (double)job->n_micro * pass_s;
    scene->paced_s = fmax(scene->compute_s, job->config->mesh.compute_time);
    return WEFT_OK;
}

weft_status wefti_scene_create(weft_ctx *ctx, const weft_cluster *cluster,
                               const wefti_job *job, bool in_detail, wefti_scene **out) {
    *out = NULL;
    wefti_scene *scene;
    WEFT_TRY(wefti_alloc(ctx, sizeof *scene, "a prediction", &scene));
    scene->ctx = ctx;
    scene->cluster = cluster;
    scene->job = job;
    weft_status status = fill(scene, in_detail);
    if (status != WEFT_OK) {
        wefti_scene_destroy(ctx, scene);
        return status;
    }
    *out = scene;
    return WEFT_OK;
}

static void free_shard(weft_ctx *ctx, wefti_scene_shard *shard) {
    int n = shard->arrangement ? shard->arrangement->n_buckets : 0;
    for (int b = 0; b < n && shard->buckets; b++)
        for (int round = 0; round < 2; round++) {
            wefti_free(ctx, shard->buckets[b].near.bytes[round]);
            wefti_free(ctx, shard->buckets[b].far.bytes[round]);
        }
    wefti_free(ctx, shard->buckets);
    wefti_free(ctx, shard->acts);
    wefti_arrangement_destroy(ctx, shard->arrangement);
}

void wefti_scene_destroy(weft_ctx *ctx, wefti_scene *scene) {
    if (!scene) return;
    for (int s = 0; scene->shards && s < scene->job->S; s++)
        free_shard(ctx, &scene->shards[s]);
    wefti_free(ctx, scene->shards);
    wefti_free(ctx, scene->pair_bandwidth_Bps);
    wefti_free(ctx, scene->pair_latency_s);
    wefti_free(ctx, scene);
}
