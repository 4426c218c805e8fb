/* SPDX-License-Identifier: MIT */
/* The probe: preparation, one thread for each rank of this process
 * (rank/rank_threads.h), results.
 */
#define _GNU_SOURCE
#include <weft/probe.h>

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <weft/predict.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/sized.h"
#include "config/layers.h"
#include "mesh/mesh.h"
#include "probe/prober.h"
#include "probe/trial.h"
#include "rank/alike.h"
#include "rank/rank_threads.h"

enum { LEAST_SECONDS = 1, MOST_SECONDS = 7200 };

typedef struct probe {
    weft_ctx *ctx; /* the caller's, which owns the world and the result */
    weft_mesh *mesh;
    wefti_probe_trial trial; /* owned */
    const weft_probe_options *options;
    wefti_probe_setup setup;
    weft_config *config, *calm_config; /* owned: copies, with the number of threads */
    wefti_job *job, *calm;             /* owned */
    wefti_world *world;
    weft_probe_result *result;
} probe;

/* --- before --- */

/* The same comparison as that of a loop which begins (loop/sync_alike.c). */
static weft_status compare(const probe *p, const weft_config *config) {
    const char *text;
    wefti_buffer own = {0};
    weft_config *copy;
    if (!p->mesh || !p->options->alike) return WEFT_OK;
    WEFT_TRY(weft_config_copy(p->ctx, config, &copy));
    weft_status status = wefti_config_shared(p->ctx, copy, true, &text);
    if (status == WEFT_OK) {
        wefti_buffer_text(p->ctx, &own, p->options->alike);
        wefti_buffer_text(p->ctx, &own, text);
        status = own.status;
    }
    weft_config_destroy(p->ctx, copy);
    if (status == WEFT_OK) status = wefti_alike_among(p->ctx, p->mesh, own.bytes);
    wefti_buffer_fini(p->ctx, &own);
    return status;
}

/* Prepares as a run does, which checks memory, batch, and that all ranks have the same
 * configuration, and determines the number of threads of a rank. */
static weft_status make_plans(probe *p, weft_config *config) {
    WEFT_TRY(wefti_probe_trials_here.begin(p->ctx, p->mesh, config, &p->trial));
    WEFT_TRY(weft_config_copy(p->ctx, config, &p->config));
    p->config->mesh.threads = p->trial.threads;
    p->config->run.audit = false; /* what is sent here is of no step */
    WEFT_TRY(wefti_probe_calm_config(p->ctx, p->config, &p->calm_config));
    WEFT_TRY(wefti_probe_trials_here.job(p->ctx, p->config, &p->job));
    WEFT_TRY(wefti_probe_trials_here.job(p->ctx, p->calm_config, &p->calm));
    p->setup.job = p->job;
    p->setup.owner = p->ctx;
    p->setup.machine_ranks = p->mesh ? weft_mesh_look(p->mesh)->ranks_here : p->job->W;
    p->setup.sockets = p->mesh && weft_mesh_look(p->mesh)->size > 1 &&
                       p->mesh->transport && p->mesh->transport->streams;
    return WEFT_OK;
}

/* Fills in the description: what was measured, where and when. */
static weft_status describe(const probe *p, weft_cluster *c) {
    time_t now = time(NULL);
    struct tm utc;
    const char *backend = p->mesh ? weft_mesh_look(p->mesh)->version : "local";
    snprintf(c->source, sizeof c->source, "probe");
    snprintf(c->backend, sizeof c->backend, "%.*s", (int)sizeof c->backend - 1, backend);
    if (gmtime_r(&now, &utc))
        strftime(c->date, sizeof c->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (gethostname(c->host, sizeof c->host - 1) != 0) c->host[0] = '\0';
    int64_t free_bytes = wefti_machine_available_bytes();
    c->nodes = p->config->mesh.nodes;
    c->ranks_per_node = p->config->mesh.ranks_per_node;
    c->sites = p->config->mesh.sites;
    c->threads = p->job->run.threads;
    c->memory_bytes = free_bytes > 0 ? (double)(free_bytes / p->setup.machine_ranks) : 0;
    if (!wefti_probe_trials_here.init) return WEFT_OK; /* no model was timed */
    return weft_cluster_model_key(p->ctx, p->config, p->job->run.threads, c->model);
}

/* --- the ranks --- */

static weft_status measure(wefti_slot *slot) {
    const probe *p = slot->user;
    wefti_comms comms;
    WEFT_TRY(wefti_comms_join(slot->ctx, p->world, slot->rank, &comms));
    WEFT_TRY(wefti_rank_create(slot->ctx, p->calm, slot->rank, &comms, &slot->state));
    if (wefti_probe_trials_here.init) wefti_probe_trials_here.init(slot->state);
    bool first = slot->rank == 0;
    return wefti_probe_rank(slot->state, &p->setup, p->options, first ? p->result : NULL);
}

static weft_status create_world(probe *p) {
    const weft_config *config = p->config;
    if (p->mesh) wefti_mesh_watch(p->mesh, config->mesh.timeout, NULL, NULL);
    return wefti_rank_world(p->ctx, p->job, p->mesh, &p->world);
}

static weft_status run(probe *p, weft_config *config) {
    WEFT_TRY(wefti_config_undecided(p->ctx, config));
    WEFT_TRY(compare(p, config));
    WEFT_TRY(make_plans(p, config));
    if (p->trial.leads) {
        WEFT_TRY(weft_cluster_create(p->ctx, &p->result->cluster));
        WEFT_TRY(describe(p, p->result->cluster));
    }
    WEFT_TRY(create_world(p));
    return wefti_rank_threads_run(p->ctx, p->world, p->calm->run.threads, measure, p);
}

weft_status weft_probe(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                       const weft_probe_options *options, weft_probe_result *out) {
    WEFTI_SIZED_IN(ctx, weft_probe_options, options);
    WEFTI_SIZED_OUT(ctx, weft_probe_result, out);
    probe p = {.ctx = ctx, .mesh = mesh, .options = options, .result = out};
    *out = (weft_probe_result){.struct_size = sizeof *out};
    double seconds = p.options->seconds > 0 ? p.options->seconds : 60;
    if (!(seconds >= LEAST_SECONDS && seconds <= MOST_SECONDS))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%g seconds to measure in, expected %d to %d", seconds,
                             (int)LEAST_SECONDS, (int)MOST_SECONDS);
    p.setup.seconds = seconds;
    double start_s = wefti_now_s();
    weft_status status = run(&p, config);
    wefti_world_destroy(ctx, p.world);
    wefti_job_destroy(ctx, p.job);
    wefti_job_destroy(ctx, p.calm);
    weft_config_destroy(ctx, p.config);
    weft_config_destroy(ctx, p.calm_config);
    weft_status closed = wefti_probe_trials_here.end(ctx, &p.trial);
    out->elapsed_s = wefti_now_s() - start_s;
    if (status == WEFT_OK) status = closed;
    if (status != WEFT_OK) weft_probe_clear(ctx, out);
    (void)WEFTI_SIZED_GIVE(weft_probe_result, out, status);
    return status != WEFT_OK && mesh ? weft_mesh_fail(ctx, mesh, status) : status;
}

void weft_probe_clear(weft_ctx *ctx, weft_probe_result *result) {
    weft_cluster_destroy(ctx, result->cluster);
    wefti_free(ctx, result->figures);
    wefti_sized_clear(result);
}
