/* SPDX-License-Identifier: MIT */
/* From played steps to a prediction: plays as many whole cycles of the method as the
 * quantiles need, then computes means, quantiles, and what limits the step.
 *
 *     configuration -> copy -> job -> timed schedule -> player -> steps -> figures
 *
 *     array player     one site, no measured pairs, no emulated wire, no deadline
 *     event player     everything else, or where events are asked for
 *
 * A method's cycle is the number of steps after which the messages repeat; with an incomplete
 * cycle a mean would depend on where it was cut. A run shorter than that is played
 * completely, from its first step, because then its beginning is a significant part. Warm-up
 * steps before the first measured one let the exchange threads reach a steady state. */
#include <weft/predict.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/sized.h"
#include "cluster/facts.h"
#include "simulate/player.h"
#include "simulate/forecast.h"

enum { WIRE_STEPS = 1024, MANY_REPLICAS = 256 };

/* Copies the configuration, so that changes do not affect the caller's. */
static weft_status copy_config(weft_ctx *ctx, const weft_config *config,
                               const weft_cluster *cluster, wefti_planned_job *out) {
    *out = (wefti_planned_job){NULL, NULL};
    WEFT_TRY(weft_config_copy(ctx, config, &out->config));
    if (out->config->mesh.threads == 0) out->config->mesh.threads = cluster->threads;
    return WEFT_OK;
}

weft_status wefti_forecast_plan(weft_ctx *ctx, const weft_config *config,
                                const weft_cluster *cluster, int64_t nodes,
                                wefti_planned_job *out) {
    WEFT_TRY(copy_config(ctx, config, cluster, out));
    if (nodes != 0) WEFT_TRY(wefti_forecast_spread(ctx, out->config, nodes));
    return wefti_job_describe(ctx, out->config, &out->job);
}

void wefti_forecast_drop(weft_ctx *ctx, wefti_planned_job *planned) {
    wefti_job_destroy(ctx, planned->job);
    weft_config_destroy(ctx, planned->config);
    *planned = (wefti_planned_job){NULL, NULL};
}

weft_status weft_cluster_model_key(weft_ctx *ctx, const weft_config *config,
                                   int64_t threads, char *out) {
    weft_cluster cluster = {.threads = threads};
    wefti_planned_job planned;
    weft_status status = wefti_forecast_plan(ctx, config, &cluster, 0, &planned);
    if (status == WEFT_OK) wefti_costs_key(planned.job, out, sizeof cluster.model);
    wefti_forecast_drop(ctx, &planned);
    return status;
}

/* Computes bytes and memory, as train prints them before the run. */
static weft_status count_bytes(weft_ctx *ctx, const wefti_job *job,
                               weft_prediction *out) {
    int64_t steps = job->config->run.steps, all = 0;
    int64_t most = job->R > MANY_REPLICAS ? wefti_forecast_cycle(job) : WIRE_STEPS;
    if (steps > most) steps = most;
    for (int s = 0; s < job->S; s++) {
        wefti_arrangement *a;
        WEFT_TRY(wefti_arrangement_create(ctx, job, s, &a));
        all += wefti_job_node_bytes(job, a, false, 0, steps);
        wefti_footprint f = wefti_job_footprint(job, a);
        if (f.total > out->memory_bytes) out->memory_bytes = f.total;
        wefti_arrangement_destroy(ctx, a);
    }
    out->wire_bytes_step = steps > 0 ? all / steps : 0;
    out->parameters = job->model->n_elements;
    return WEFT_OK;
}

/* --- how many steps --- */

enum { WARMUP = 3, FEW_STEPS = 24, MANY_STEPS = 400, MOST_REPLICA_STEPS = 200000 };
enum { MOST_MESSAGES = 500000, ENDLESS = 1 << 30 };

/* Without jitter all cycles are equal, so a few of them are enough. */
static bool is_calm(const weft_cluster *c, const weft_config *config) {
    const weft_jitter *j = &c->jitter;
    return j->spread == 0 && j->drift == 0 && j->stall_share == 0 && c->n_steps == 0 &&
           config->mesh.straggler_time == 0;
}

/* The number of steps: as many whole cycles as the quantiles need, but not more steps
 * than the run has. */
static int64_t steps_of(const wefti_job *job, const weft_cluster *cluster,
                        const weft_predict_options *options) {
    int64_t wanted = is_calm(cluster, job->config) ? FEW_STEPS : MANY_STEPS;
    int64_t cycle = wefti_forecast_cycle(job), run = job->config->run.steps;
    if (options && options->steps > 0) return options->steps;
    if (wanted > MOST_REPLICA_STEPS / job->R) wanted = MOST_REPLICA_STEPS / job->R;
    if (wanted < FEW_STEPS) wanted = FEW_STEPS;
    int64_t n = (wanted + cycle - 1) / cycle * cycle;
    if (n < run) return n;
    return run;
}

/* --- from steps to figures --- */

/* Means over steps of the ranks of the first replica, as train records them; the lengths
 * of steps are those of all ranks. */
static weft_status summarize(weft_ctx *ctx, const wefti_job *job, const wefti_play *play,
                             weft_prediction *out) {
    double *lengths, first = 1.0 / (double)(play->done * job->S);
    int64_t n = play->done * job->W;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *lengths, "steps", &lengths));
    for (int64_t i = 0; i < n; i++) {
        const wefti_played *p = &play->played[i];
        lengths[i] = p->step_s;
        out->mean_step_s += p->step_s / (double)n;
        if (i % job->W >= job->S) continue;
        out->exchange_s += first * p->exchange_s;
        out->wait_s += first * p->wait_s;
        out->wire_s += first * p->wire_s;
        out->codec_s += first * p->codec_s;
        out->late_s += first * p->late_s;
        out->vote_s += first * p->status_s;
        out->compute_s += first * (p->step_s - p->wait_s);
    }
    out->step_s = wefti_forecast_quantiles(lengths, n);
    wefti_free(ctx, lengths);
    double nodes = (double)job->R / job->copies;
    out->wire_bytes = play->wire_bytes / ((double)play->done * nodes);
    return WEFT_OK;
}

/* The limit of a step is the longest of computing, the wire, coding, and waiting for
 * others. The player splits the waits of the compute thread among these. */
static void conclude(const wefti_job *job, weft_prediction *out) {
    double s = out->mean_step_s, late_s = out->late_s + out->vote_s;
    double compute_s = s - out->wait_s - out->vote_s;
    out->hidden_share = out->exchange_s > 0 ? 1 - out->wait_s / out->exchange_s : 1;
    if (out->hidden_share < 0) out->hidden_share = 0;
    out->tokens_per_s = s > 0 ? (double)(job->batch.per_step * job->T) / s : 0;
    out->bound = WEFT_BOUND_COMPUTE;
    if (compute_s >= out->wire_s && compute_s >= out->codec_s && compute_s >= late_s)
        return;
    out->bound = WEFT_BOUND_WIRE;
    if (out->codec_s > out->wire_s) out->bound = WEFT_BOUND_CODEC;
    if (late_s > out->wire_s && late_s > out->codec_s) out->bound = WEFT_BOUND_WAITING;
}

/* --- playing --- */

/* Whether the array player is sufficient; for its limits see arrayplayer.c. */
static bool arrays_do(const wefti_timed *timed, const weft_predict_options *options) {
    const wefti_job *job = timed->job;
    bool asked = !options || !options->events;
    return asked && job->site.n == 1 && !timed->emulated &&
           timed->cluster->n_pairs == 0 && job->mixer_config.deadline_s <= 0;
}

/* Refuses different rates of the two directions of a wire, which the event player does
 * not support. */
static weft_status check_wires(const wefti_timed *timed) {
    const weft_cluster *c = timed->cluster;
    bool apart = c->wire.up_Bps > 0 || c->site.up_Bps > 0;
    for (int64_t i = 0; i < c->n_machines; i++)
        apart |= c->machines[i].bandwidth_Bps > 0 || c->machines[i].up_Bps > 0;
    if (!apart || timed->emulated) return WEFT_OK;
    return weft_ctx_fail(
        timed->ctx, WEFT_ERR_CONFIG,
        "rates of an interface of its own, or outwards, are predicted for "
        "one site, without links of pairs and mixer.deadline, found "
        "%d sites, %lld links and a deadline of %g s",
        timed->job->site.n, (long long)c->n_pairs, timed->job->mixer_config.deadline_s);
}

/* Plays with the event player. */
static weft_status play_events(const wefti_timed *timed, wefti_play *play,
                               weft_prediction *out) {
    weft_ctx *ctx = timed->ctx;
    int64_t n = play->steps - play->warmup;
    WEFT_TRY(check_wires(timed));
    WEFT_TRY(wefti_alloc_n(ctx, n * timed->job->W, sizeof *play->played, "steps",
                           &play->played));
    weft_status status = wefti_event_player_run(timed, play);
    if (status == WEFT_OK) status = summarize(ctx, timed->job, play, out);
    wefti_free(ctx, play->played);
    return status;
}

/* Plays the steps; a run that is shorter than these is played completely. `like` has the
 * order of phases and the requested results. */
static weft_status play_steps(weft_ctx *ctx, wefti_job *job, const weft_cluster *cluster,
                              const weft_predict_options *options, wefti_play like,
                              weft_prediction *out) {
    int64_t n = steps_of(job, cluster, options);
    bool whole = n == job->config->run.steps;
    int64_t warmup = whole ? 0 : WARMUP + job->lag.status;
    if (!whole) job->mixer_config.steps = ENDLESS;
    wefti_play play = {.steps = n + warmup,
                       .warmup = warmup,
                       .seed = options ? options->seed : 0,
                       .calm = is_calm(cluster, job->config),
                       .order = like.order,
                       .mean_only = like.mean_only};
    if (!options || options->steps == 0) play.max_messages = MOST_MESSAGES;
    wefti_timed *timed;
    WEFT_TRY(wefti_timed_create(ctx, cluster, job, false, &timed));
    weft_status status = WEFT_OK;
    if (arrays_do(timed, options))
        status = wefti_forecast_arrays(timed, &play, out);
    else if (play.order > 1) /* the program's own order is the only one */
        out->mean_step_s = INFINITY;
    else
        status = play_events(timed, &play, out);
    wefti_timed_destroy(ctx, timed);
    return status;
}

weft_status wefti_forecast_step(weft_ctx *ctx, wefti_job *job,
                                const weft_cluster *cluster,
                                const weft_predict_options *options, int order,
                                double *step_s) {
    weft_prediction p = {.struct_size = sizeof p, .hidden_share = 1};
    wefti_play like = {.order = order, .mean_only = true};
    weft_status status = play_steps(ctx, job, cluster, options, like, &p);
    *step_s = p.mean_step_s;
    return status;
}

/* Draws the timeline of the last of a few steps, unit by unit. */
static weft_status draw_timeline(weft_ctx *ctx, wefti_job *job,
                                 const weft_cluster *cluster,
                                 const weft_predict_options *options,
                                 weft_prediction *out) {
    enum { SPANS = 8192, STEPS = 4 };
    wefti_play play = {.steps = STEPS,
                       .warmup = STEPS - 1,
                       .seed = options->seed,
                       .calm = true,
                       .span_room = SPANS};
    wefti_timed *timed;
    job->mixer_config.steps = ENDLESS;
    WEFT_TRY(wefti_timed_create(ctx, cluster, job, true, &timed));
    weft_status status = wefti_alloc_n(ctx, job->W, sizeof *play.played, "steps",
                                       &play.played);
    if (status == WEFT_OK)
        status = wefti_alloc_n(ctx, SPANS, sizeof *play.spans, "spans", &play.spans);
    if (status == WEFT_OK) status = wefti_event_player_run(timed, &play);
    out->spans = play.spans;
    out->n_spans = play.n_spans;
    wefti_free(ctx, play.played);
    wefti_timed_destroy(ctx, timed);
    return status;
}

static weft_status check_options(weft_ctx *ctx, const wefti_job *job,
                                 const weft_predict_options *options) {
    int64_t steps = options ? options->steps : 0;
    if (steps < 0 || steps > 10000000 / job->W)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%lld steps to simulate with %d ranks, expected 0 to %d",
                             (long long)steps, job->W, 10000000 / job->W);
    return WEFT_OK;
}

static weft_status predict_job(weft_ctx *ctx, wefti_job *job, const weft_cluster *cluster,
                               const weft_predict_options *options,
                               weft_prediction *out) {
    weft_status status = count_bytes(ctx, job, out);
    if (status == WEFT_OK) status = check_options(ctx, job, options);
    if (status == WEFT_OK)
        status = play_steps(ctx, job, cluster, options, (wefti_play){.order = 0}, out);
    if (status == WEFT_OK) conclude(job, out);
    bool late = job->site.n > 1 && job->mixer_config.deadline_s > 0;
    out->goes_on = job->R > 1 && !late && strcmp(job->config->mesh.on_loss, "go_on") == 0;
    if (status == WEFT_OK && options && options->timeline)
        status = draw_timeline(ctx, job, cluster, options, out);
    if (status != WEFT_OK) weft_prediction_clear(ctx, out);
    return status;
}

weft_status weft_predict(weft_ctx *ctx, const weft_config *config,
                         const weft_cluster *cluster, const weft_predict_options *options,
                         weft_prediction *out) {
    wefti_planned_job planned;
    WEFTI_SIZED_IN(ctx, weft_predict_options, options);
    WEFTI_SIZED_OUT(ctx, weft_prediction, out);
    *out = (weft_prediction){.struct_size = sizeof *out, .hidden_share = 1};
    weft_status status = wefti_forecast_plan(ctx, config, cluster, options->nodes,
                                             &planned);
    if (status == WEFT_OK) status = predict_job(ctx, planned.job, cluster, options, out);
    wefti_forecast_drop(ctx, &planned);
    return WEFTI_SIZED_GIVE(weft_prediction, out, status);
}

/* The job of a loop in another program, which shards nothing and gives its own compute time. */
static weft_status loop_job(weft_ctx *ctx, const weft_loop_facts *loop,
                            wefti_planned_job *planned) {
    wefti_foreign_tensor *specs;
    weft_model *model = NULL;
    int n = loop->n_tensors;
    WEFT_TRY(wefti_alloc_n(ctx, n > 0 ? n : 0, sizeof *specs, "tensors", &specs));
    for (int i = 0; i < n; i++) {
        const weft_sync_tensor *t = &loop->tensors[i];
        bool lies = t->rows == 1; /* a vector is a column */
        specs[i] = (wefti_foreign_tensor){t->name, lies ? t->cols : t->rows,
                                          lies ? 1 : t->cols, t->decays};
    }
    weft_status status = wefti_model_foreign(ctx, specs, n, &model);
    wefti_free(ctx, specs);
    WEFT_TRY(status);
    planned->config->mesh.shards = 1;
    WEFT_TRY(wefti_job_create_for(ctx, planned->config, model, NULL, &planned->job));
    planned->job->batch.n_micro = 1;
    planned->job->as.loop_s = loop->step_s;
    return WEFT_OK;
}

weft_status weft_predict_loop(weft_ctx *ctx, const weft_config *config,
                              const weft_cluster *cluster, const weft_loop_facts *loop,
                              weft_prediction *out) {
    wefti_planned_job planned;
    WEFTI_SIZED_IN(ctx, weft_loop_facts, loop);
    WEFTI_SIZED_OUT(ctx, weft_prediction, out);
    if (!(loop->step_s > 0 && loop->step_s < 1e6))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a step's computing takes %g s, expected a time above 0",
                             loop->step_s);
    if (config->mesh.bandwidth_Bps <= 0) /* else the wire is emulated, and known */
        WEFT_TRY(wefti_cluster_check_wires(ctx, cluster, config->mesh.nodes));
    weft_sync_tensor *tensors;
    WEFT_TRY(wefti_sized_list_in(ctx, &wefti_sized_weft_sync_tensor, loop->tensors,
                                 loop->n_tensors, &tensors));
    loop_own.tensors = tensors;
    *out = (weft_prediction){.struct_size = sizeof *out, .hidden_share = 1};
    weft_status status = copy_config(ctx, config, cluster, &planned);
    if (status == WEFT_OK) status = loop_job(ctx, loop, &planned);
    if (status == WEFT_OK) status = predict_job(ctx, planned.job, cluster, NULL, out);
    wefti_forecast_drop(ctx, &planned);
    wefti_free(ctx, tensors);
    return WEFTI_SIZED_GIVE(weft_prediction, out, status);
}

void weft_prediction_clear(weft_ctx *ctx, weft_prediction *p) {
    wefti_free(ctx, p->spans);
    wefti_sized_clear(p);
}
