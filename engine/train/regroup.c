/* SPDX-License-Identifier: MIT */
/* What is special to a run where its membership changes (lib/loop/loop.c):
 *
 * Each rank keeps its number of sequences per step, so the batch shrinks with the nodes
 * (unless elastic.batch is keep); the rows of the text are taken one after another,
 * whichever rank takes them.
 *
 * A process that joins a world that is training learns there what the job is, from the
 * first rank that knows it (terms), and gets parameters and state from all the others.
 * The first rank writes the files. */
#include "train/regroup.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "adapter/adapted.h"
#include "train/alikefiles.h"
#include "runfiles/descent.h"
#include "loop/loop.h"
#include "rank/learners.h"
#include "record/metrics.h"
#include <weft/sync.h>

/* The sites of the places, as they were when the run began. */
static wefti_elastic_setup sites_of(const wefti_prepared *p) {
    const weft_config *c = p->config;
    int W = (int)(c->mesh.nodes * c->mesh.ranks_per_node), sites = (int)c->mesh.sites;
    return (wefti_elastic_setup){
        .shards = p->job->S, .sites = sites, .per_site = W / sites};
}

/* The setup without what the ranks have to agree on first. */
static wefti_elastic_setup setup_of(const wefti_prepared *p) {
    wefti_elastic_setup setup = wefti_loop_setup(p->job, p->joins, false);
    wefti_elastic_setup sites = sites_of(p);
    setup.sites = sites.sites;
    setup.per_site = sites.per_site;
    return setup;
}

/* Whether the configuration asks for it, and the transport reports each process
 * separately. */
static bool is_wanted(const wefti_prepared *p) {
    const weft_mesh *mesh = p->bootstrap.mesh;
    return mesh && mesh->transport->ops->inquire && p->dataset &&
           strcmp(p->job->config->mesh.on_loss, "go_on") == 0;
}

const char *wefti_regroup_obstacle(const wefti_prepared *p) {
    if (!is_wanted(p)) return NULL;
    wefti_elastic_setup setup = setup_of(p);
    bool several = setup.sites > 1 && setup.per_site > setup.shards;
    if (several && p->job->config->mixer.deadline > 0)
        return "with mixer.deadline the nodes of a site may take in different messages";
    if (!wefti_elastic_fits(p->bootstrap.mesh, &setup))
        return "membership has no room for so many processes with this method";
    return NULL;
}

bool wefti_regroup_can(const wefti_prepared *p) {
    return is_wanted(p) && !wefti_regroup_obstacle(p);
}

weft_status wefti_regroup_stop(weft_ctx *ctx, const wefti_prepared *p, bool *alone) {
    const char *stop = p->config->elastic.stop;
    bool self = strcmp(stop, "self") == 0, can = wefti_regroup_can(p);
    *alone = can && (self || (p->joins && strcmp(stop, "auto") == 0));
    if (!self || can || !p->bootstrap.mesh) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "elastic.stop is self, but this run ends when a process is lost; "
        "expected auto or all");
}

/* Asked by any thread of the rank. A folder that can not be read shows nothing. */
static bool has_ended(void *user, uint64_t run, int64_t view) {
    const weft_config *c = ((const wefti_prepared *)user)->config;
    weft_ctx *ctx;
    bool ended = false;
    weft_status status = weft_ctx_create(&ctx);
    if (status == WEFT_OK)
        status = wefti_descent_ended(ctx, c->run.folder, run, view, c->run.steps, &ended);
    weft_ctx_destroy(ctx);
    return status == WEFT_OK && ended;
}

weft_status wefti_regroup_check_lease(weft_ctx *ctx, wefti_prepared *p, bool look) {
    weft_status status = wefti_lease_check(ctx, p->files.lease, look);
    if (status == WEFT_OK) return WEFT_OK;
    if (!has_ended(p, p->files.run, p->world.view)) {
        wefti_elastic_note(p->bootstrap.mesh, WEFTI_FACT_REPLACED);
        return status;
    }
    weft_ctx_clear(ctx);
    return weft_ctx_fail(ctx, status, WEFTI_ENDED_WITHOUT_IT "; its results are in %s",
                         p->config->run.folder);
}

weft_status wefti_regroup_start(weft_ctx *ctx, wefti_prepared *p) {
    wefti_bootstrap *b = &p->bootstrap;
    uint64_t config, data;
    WEFT_TRY(wefti_alike_hashes(ctx, p, &config, &data));
    if (p->joins) p->files.run = b->mesh->transport->entry->run;
    if (p->files.lease) p->files.run = wefti_lease_run(p->files.lease); /* the leader's */
    WEFT_TRY(wefti_bootstrap_tell(b, &p->files.run, sizeof p->files.run));
    wefti_elastic_setup setup = setup_of(p);
    setup.run = p->files.run;
    setup.config_hash = config;
    setup.data_hash = data;
    setup.has_ended = has_ended;
    setup.user = p;
    setup.folder = p->config->run.folder;
    void *notice;
    WEFT_TRY(wefti_alike_notice(ctx, p, &notice, &setup.notice_bytes));
    setup.notice = notice;
    weft_status status = wefti_elastic_start(ctx, b->mesh, &setup);
    wefti_free(ctx, notice);
    WEFT_TRY(status);
    return b->comm ? wefti_loop_gather(ctx, b->mesh, b->comm, b->n_messages++) : WEFT_OK;
}

/* --- what a new rank has to know --- */

/* What each rank tells the others. About the run and the batch: from the world's first
 * step on. About the rank, for the log of views: its parameters, and how many messages it
 * went on without. And how state is handed over to ranks that have none (learners.h). Sent
 * as it lies in memory, numbers of 64 bits: all ranks have one byte order (transport.h
 * carries no others). */
typedef struct terms {
    int64_t has; /* it has parameters and state: what follows is known */
    int64_t rows_per_rank, micro, first_row, rows; /* rows: its own, where they differ */
    int64_t base, pass; /* batch.micro of the first rank; of its own passes, or 0 */
    uint64_t lease_run;
    uint64_t checksum, chain; /* chain: of its views, which who has no state follows */
    int64_t n_missed;         /* -1: unknown */
    int64_t slices, given; /* as in wefti_learners_plan; given: what a rank without state
                              has */
    int64_t form;          /* its own, where that may change (job/form.h); 0: the run's */
    double momentum, loss, bytes_per_day, mean_rows;
    wefti_busy busy;
    int64_t stops;                         /* all have agreed to stop */
    int64_t step_us, state_bytes, wire_us; /* for a prediction; wire_us: all from one
                                              rank */
    wefti_fault faults[WEFTI_FAULTY_MACHINES];
} terms;

/* One entry into a world. */
typedef struct entry {
    wefti_prepared *p;
    terms c; /* this rank's, then those of the first rank that has state */
} entry;

/* Number of steps over which this rank would give its state. */
static int64_t slices_of(const wefti_prepared *p, int64_t state_bytes) {
    int64_t steps = p->job->config->mesh.join_steps;
    if (p->bare || !wefti_learners_can(p->job)) return 0;
    if (steps >= 0) return steps;
    double rate_Bps = wefti_elastic_rate(p->bootstrap.mesh);
    return wefti_learners_slices(state_bytes, rate_Bps, p->step.mean_s);
}

/* Of its last world. */
static void note_rank(const wefti_prepared *p, wefti_rank *r, int64_t step, terms *c) {
    c->first_row = wefti_rank_first_row(r, step);
    c->rows = wefti_job_rows(p->job, r->replica);
    c->state_bytes = wefti_learners_bytes(r);
    c->given = p->bare ? r->learners.given : WEFTI_LEARNERS_ALL;
    size_t n = (size_t)r->arrangement->n_elements;
    if (!p->bare) c->checksum = XXH3_64bits(r->params, n * sizeof(float));
}

/* The rest. */
static void note_run(const wefti_prepared *p, terms *c) {
    const wefti_job *job = p->job;
    double rate_Bps = wefti_elastic_rate(p->bootstrap.mesh);
    double wire_s = rate_Bps > 1 ? (double)c->state_bytes / rate_Bps : 0;
    wefti_form form;
    bool may_change = job->run.follows && !wefti_form_of(job->config, &form);
    c->rows_per_rank = job->batch.per_rank;
    c->micro = job->B;
    c->base = p->rows.base;
    c->pass = p->rows.own;
    c->lease_run = p->files.run;
    c->chain = wefti_viewlog_chain(p->views);
    c->form = may_change ? wefti_form_code(&form) : 0;
    c->momentum = may_change ? form.momentum : 0;
    c->loss = p->choice.loss;
    c->bytes_per_day = p->choice.bytes_per_day;
    c->mean_rows = p->rows.mean;
    c->busy = p->choice.busy;
    c->stops = p->world.stops;
    c->slices = slices_of(p, c->state_bytes);
    c->step_us = (int64_t)(p->step.mean_s * 1e6);
    c->wire_us = wire_s < 1e9 ? (int64_t)(wire_s * 1e6) : 0;
}

/* Passes what the terms of all say on to the log of views. */
static weft_status log_terms(weft_ctx *ctx, wefti_prepared *p,
                             const wefti_loop_cards *cards) {
    const terms *all = cards->all;
    int n = p->bootstrap.comm->size;
    int64_t *missed;
    uint64_t checksum = 0;
    WEFT_TRY(wefti_viewlog_replace(ctx, p->views, p->bootstrap.mesh, cards->has, n));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *missed, "the ranks' all_terms", &missed));
    for (int r = 0; r < n; r++) {
        missed[r] = all[r].n_missed;
        checksum += all[r].checksum;
    }
    weft_status status = wefti_viewlog_gather(ctx, p->views, &p->bootstrap, missed,
                                              checksum);
    wefti_free(ctx, missed);
    return status;
}

/* State is sent in slices if the ranks without state are the last copies of the world,
 * whole ones, and all other ranks have it; else everything is handed over between two
 * steps (slices 0). */
static wefti_learners_plan plan_of(const terms *all, int W, int S, int64_t slices) {
    wefti_learners_plan plan = {.slices = slices, .from = WEFTI_LEARNERS_ALL};
    int n = 0;
    for (int r = W - 1; r >= 0 && all[r].has != 1; r--, n++)
        if (all[r].given < plan.from) plan.from = all[r].given;
    for (int r = 0; r < W - n; r++)
        if (all[r].has != 1) plan.slices = 0;
    if (n % S != 0 || plan.from < 0 || plan.from >= WEFTI_LEARNERS_ALL) plan.slices = 0;
    plan.n = n / S;
    return plan;
}

/* *form NULL: the run's. */
static bool take_form(const terms *c, wefti_form *room, const wefti_form **form) {
    *form = c->form == 0 ? NULL : room;
    if (c->form == 0) return true;
    bool sane = wefti_form_decode(c->form, room) && c->momentum >= 0 && c->momentum < 1;
    room->momentum = c->momentum;
    return sane;
}

static bool are_sane(const terms *all, int W, int64_t T) {
    for (int r = 0; r < W; r++)
        if (all[r].rows < 0 || all[r].rows >= INT64_MAX / 4 / T / W || all[r].pass < 0)
            return false;
    return true;
}

/* Takes what the first rank that has state says. */
static weft_status take_terms(weft_ctx *ctx, wefti_prepared *p,
                              const wefti_loop_cards *cards, terms *c,
                              wefti_learners_plan *plan) {
    int W = p->bootstrap.comm->size;
    const terms *all = cards->all;
    *c = all[cards->first];
    p->world.stops = c->stops != 0;
    *plan = plan_of(all, W, p->job->S, c->slices);
    wefti_form room;
    const wefti_form *form;
    bool sane = take_form(c, &room, &form) && c->rows_per_rank >= 1 && c->micro >= 1 &&
                c->first_row >= 0 && c->slices >= 0 && are_sane(all, W, p->job->T) &&
                c->slices <= WEFTI_LEARNERS_ALL &&
                (p->job->batch.rows || c->rows_per_rank % c->micro == 0) &&
                c->rows_per_rank < INT64_MAX / 4 / p->job->T / W && c->mean_rows > 0 &&
                c->mean_rows < (double)(INT64_MAX / 4 / p->job->T / W);
    if (sane) return wefti_viewlog_follow(ctx, p->views, c->chain);
    return weft_ctx_fail(
        ctx, WEFT_ERR_WIRE,
        "rank %d says that a rank takes %lld sequences per step in parts of "
        "%lld, expected a multiple",
        cards->first, (long long)c->rows_per_rank, (long long)c->micro);
}

/* --- the new world --- */

/* How many sites are left, and with which replica each begins; *first NULL: the run has
 * no sites. */
static weft_status divide(weft_ctx *ctx, const wefti_prepared *p,
                          const wefti_regroup_batch *b, int **first, int *n) {
    wefti_elastic_setup setup = sites_of(p);
    int last = -1, S = setup.shards;
    *first = NULL;
    *n = 1;
    if (setup.sites < 2 || !b->places) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, setup.sites + 1, sizeof **first, "sites", first));
    *n = 0;
    for (int r = 0; r < b->ranks; r += S) {
        int site = wefti_elastic_site_of(&setup, b->places[r]);
        if (site != last && *n < setup.sites) (*first)[(*n)++] = r / S;
        last = site;
    }
    (*first)[*n] = b->ranks / S;
    return WEFT_OK;
}

/* The sequences of each rank of the copies that are left, with batch.shares: as many as it says, or
 * as the node's place had when the run began, or as the least had, for one beyond those; where
 * the batch is kept, all of the run's sequences in proportion to that. *rows NULL: equal. */
static weft_status share_out(weft_ctx *ctx, const wefti_prepared *p,
                             const wefti_regroup_batch *b, int64_t **rows) {
    const weft_config *c = p->config; /* of the run as it began */
    int64_t *then, *shares = NULL, all = 0, least = INT64_MAX, nodes = c->mesh.nodes;
    int S = p->job->S, n = b->ranks / S;
    *rows = NULL;
    WEFT_TRY(wefti_shares_of(ctx, c, p->job->T, &then));
    if (!then) return WEFT_OK;
    for (int64_t i = 0; i < nodes; i++) {
        all += then[i] * (c->mesh.ranks_per_node / S);
        if (then[i] < least) least = then[i];
    }
    weft_status status = wefti_alloc_n(ctx, n, sizeof **rows, "shares", rows);
    if (status == WEFT_OK)
        status = wefti_alloc_n(ctx, n, sizeof *shares, "shares", &shares);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        int64_t node = b->places[i * S] / c->mesh.ranks_per_node;
        int64_t own = node < nodes ? then[node] : least;
        (*rows)[i] = shares[i] = b->rows ? b->rows[i * S] : own;
    }
    if (status == WEFT_OK && strcmp(c->elastic.batch, "keep") == 0)
        weft_shares_divide(all, n, shares, *rows);
    WEFTI_FREE(ctx, then, shares);
    if (status == WEFT_OK) return WEFT_OK;
    wefti_free(ctx, *rows);
    *rows = NULL;
    return status;
}

/* Where the nodes of the copies that are left stood when the run began. */
static weft_status find_nodes(weft_ctx *ctx, const wefti_prepared *p,
                              const wefti_regroup_batch *b, int **nodes) {
    int S = p->job->S, n = b->ranks / S;
    *nodes = NULL;
    if (!b->places) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof **nodes, "nodes", nodes));
    for (int i = 0; i < n; i++)
        (*nodes)[i] = b->places[i * S] / (int)p->config->mesh.ranks_per_node;
    return WEFT_OK;
}

weft_status wefti_regroup_job(weft_ctx *ctx, wefti_prepared *p,
                              const wefti_regroup_batch *b) {
    const wefti_job *old = p->job;
    weft_config *config;
    wefti_job *job;
    wefti_job_parts parts;
    int sites;
    WEFT_TRY(share_out(ctx, p, b, &parts.rows));
    WEFTI_TRY_OR(divide(ctx, p, b, &parts.site_first, &sites),
                 wefti_free(ctx, parts.rows));
    WEFTI_TRY_OR(find_nodes(ctx, p, b, &parts.nodes),
                 WEFTI_FREE(ctx, parts.site_first, parts.rows));
    WEFTI_TRY_OR(weft_config_copy(ctx, old->config, &config),
                 WEFTI_FREE(ctx, parts.site_first, parts.rows, parts.nodes));
    weft_status set = weft_config_set(ctx, config, "batch.shares=equal");
    if (set == WEFT_OK && b->form) set = wefti_form_set(ctx, config, b->form);
    WEFTI_TRY_OR(set, (weft_config_destroy(ctx, config),
                       WEFTI_FREE(ctx, parts.site_first, parts.rows, parts.nodes)));
    int64_t rows = b->rows_per_rank * b->ranks;
    for (int i = 0; i < b->ranks / old->S && parts.rows; i++)
        rows = (i ? rows : 0) + parts.rows[i] * old->S;
    config->mesh.sites = sites;
    config->mesh.nodes = b->ranks /
                         old->S; /* copies on one node may be lost one by one */
    config->mesh.ranks_per_node = old->S;
    config->mesh.shards = 0;
    config->batch.tokens_per_step = rows * old->T;
    config->batch.rows_per_step = 0;
    config->batch.micro = b->micro;
    weft_status status = wefti_job_create_like(ctx, old, config, &parts, &job);
    if (status == WEFT_OK) {
        status = wefti_job_set_micros(ctx, job, b->micros);
        if (status != WEFT_OK) wefti_job_destroy(ctx, job);
    }
    if (status != WEFT_OK) {
        weft_config_destroy(ctx, config);
        return status;
    }
    wefti_model_lend(job->model, &p->base);
    job->from.step = b->first_step;
    job->from.row = b->first_row;
    job->batch.shared_step = b->first_step;
    for (int i = 0; b->before && job->batch.rows && i < job->R; i++)
        job->batch.earlier[i] = b->before[i * job->S];
    wefti_job_destroy(ctx, p->job);
    weft_config_destroy(ctx, p->own_config);
    p->job = job;
    p->own_config = config;
    return WEFT_OK;
}

/* For elastic.batch=keep, where a step keeps as many rows as the run began with: each
 * rank's share of them, rounded up to whole passes, because the mean over the ranks
 * weighs all ranks alike. The passes are those of the configuration or, if it leaves them
 * open, those of a run with this number of ranks. */
static void keep_batch(const wefti_prepared *p, wefti_regroup_batch *batch) {
    const weft_config *c = p->config; /* of the run as it began */
    int64_t rows = c->batch.rows_per_step, micro = p->rows.base;
    if (rows == 0) rows = c->batch.tokens_per_step / p->job->T;
    int64_t pass = micro > 0 ? micro : 1, unit = pass * batch->ranks;
    batch->rows_per_rank = (rows + unit - 1) / unit * pass;
    batch->micro = micro;
}

/* Scales rows [W] to as many of a rank in the mean as when the run began: what the lost took along
 * comes back with those who come, else a run that loses its fastest node often ends with few. */
static weft_status refill(weft_ctx *ctx, const wefti_prepared *p, int W, int64_t *rows) {
    int S = p->job->S, n = W / S;
    int64_t *both, all = llround(p->rows.mean * n);
    WEFT_TRY(wefti_alloc_n(ctx, 2 * (int64_t)n, sizeof *both, "shares", &both));
    for (int i = 0; i < n; i++) both[n + i] = rows[i * S];
    weft_shares_divide(all > n ? all : n, n, both + n, both);
    for (int r = 0; r < W; r++) rows[r] = both[r / S];
    wefti_free(ctx, both);
    return WEFT_OK;
}

/* Measured rows of those that have state, with the least of them for those that come. */
static weft_status measured_rows(weft_ctx *ctx, const wefti_prepared *p,
                                 const wefti_loop_cards *cards, int W, int64_t **out) {
    const terms *all = cards->all;
    int64_t least = INT64_MAX;
    WEFT_TRY(wefti_alloc_n(ctx, W, sizeof **out, "shares", out));
    for (int r = 0; r < W; r++)
        if (all[r].has == 1 && all[r].rows > 0 && all[r].rows < least)
            least = all[r].rows;
    for (int r = 0; r < W; r++)
        (*out)[r] = all[r].has == 1 && all[r].rows > 0 ? all[r].rows : least;
    if (least < INT64_MAX) return refill(ctx, p, W, *out);
    wefti_free(ctx, *out);
    *out = NULL; /* nobody says any */
    return WEFT_OK;
}

/* Of a copy of the model the smallest that one of its ranks says; *out NULL: nobody says any. */
static weft_status passes_of(weft_ctx *ctx, const wefti_loop_cards *cards, int W, int S,
                             int64_t **out) {
    const terms *all = cards->all;
    int n = 0;
    *out = NULL;
    for (int r = 0; r < W; r++) n += all[r].pass > 0;
    if (n == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, W / S, sizeof **out, "passes", out));
    for (int r = 0; r < W; r++) {
        int64_t *least = &(*out)[r / S];
        if (all[r].pass > 0 && (*least == 0 || all[r].pass < *least))
            *least = all[r].pass;
    }
    return WEFT_OK;
}

static weft_status make_job(weft_ctx *ctx, wefti_prepared *p, const wefti_loop *l,
                            const terms *c) {
    const wefti_elastic_world *w = &l->world;
    int64_t *rows = NULL, *micros;
    WEFT_TRY(passes_of(ctx, &l->cards, w->size, p->job->S, &micros));
    p->rows.base = c->base;
    p->rows.mean = c->mean_rows;
    wefti_regroup_batch batch = {.ranks = w->size,
                                 .rows_per_rank = c->rows_per_rank,
                                 .micro = c->micro,
                                 .micros = micros,
                                 .first_step = w->first_step,
                                 .first_row = c->first_row};
    if (strcmp(p->config->elastic.batch, "keep") == 0) keep_batch(p, &batch);
    int *places;
    uint64_t name;
    WEFTI_TRY_OR(wefti_alloc_n(ctx, w->size, sizeof *places, "places", &places),
                 wefti_free(ctx, micros));
    for (int r = 0; r < w->size; r++)
        wefti_elastic_who(p->bootstrap.mesh, r, &places[r], &name);
    batch.places = places;
    wefti_form form;
    take_form(c, &form, &batch.form);
    weft_status status = WEFT_OK;
    if (p->job->run.measures) status = measured_rows(ctx, p, &l->cards, w->size, &rows);
    batch.rows = rows;
    if (status == WEFT_OK) status = wefti_regroup_job(ctx, p, &batch);
    p->job->run.follows = c->form > 0;
    p->choice.loss = c->loss;
    p->choice.bytes_per_day = c->bytes_per_day;
    p->choice.busy = c->busy;
    WEFTI_FREE(ctx, places, rows, micros);
    return status;
}

/* A folder of its own may hold what this machine wrote before it was left out and joined again: an
 * earlier view is no other branch, for a number has one view, unless parts go on by themselves. */
static weft_status may_write(weft_ctx *ctx, const wefti_prepared *p, int64_t done) {
    wefti_descent_record r;
    bool split = strcmp(p->config->elastic.partition, "split") == 0;
    WEFT_TRY(wefti_descent_read(ctx, p->config->run.folder, &r));
    r.is_past = p->joins && !split && r.run == p->files.run && r.view + 1 < p->world.view;
    return wefti_descent_judge(ctx, p->config->run.folder, &r, p->views, done);
}

/* Takes the lease of the folder, if its records say that nobody went on without this
 * process: asked before, so that nothing is touched if somebody did, and again when nobody
 * else can write any more. */
static weft_status take_lease(weft_ctx *ctx, wefti_prepared *p) {
    const char *folder = p->config->run.folder;
    const wefti_lease_claim claim = {
        .folder = folder, .run = p->files.run, .view = p->world.view};
    int64_t done = p->job->from.step;
    if (p->files.lease) return WEFT_OK;
    WEFT_TRY(wefti_file_mkdirs(ctx, folder));
    WEFT_TRY(may_write(ctx, p, done));
    WEFT_TRY(wefti_lease_take(ctx, &claim, &p->files.lease));
    WEFTI_TRY_OR(may_write(ctx, p, done),
                 (wefti_lease_give_back(p->files.lease), p->files.lease = NULL));
    return WEFT_OK;
}

/* The disk refuses to let this process take over: it goes on, and asks again. Worth a word if
 * it is refused again, a second later. */
static weft_status put_off(wefti_prepared *p, bool again) {
    if (!again) p->files.n_late = 0;
    if (p->files.n_late++ == 1)
        weft_ctx_log(
            p->ctx, WEFT_LOG_WARN,
            "could not take over %s: %s; nothing is written until the disk takes "
            "it",
            p->config->run.folder, weft_ctx_message(p->ctx));
    snprintf(p->files.late_why, sizeof p->files.late_why, "%s", weft_ctx_message(p->ctx));
    weft_ctx_clear(p->ctx);
    p->files.late_s = wefti_now_s();
    return WEFT_OK;
}

/* Lines of the last steps that the file lacks: a lost first rank had not written them, or the disk
 * took none. Late, the last step has one in any case, for what is saved has a line. */
static weft_status write_recent(wefti_prepared *p, bool late) {
    const char *folder = p->config->run.folder;
    char path[PATH_MAX];
    int64_t newest, from = p->files.latest - WEFTI_RECENT;
    WEFT_TRY(wefti_file_path(p->ctx, folder, "metrics.jsonl", path));
    WEFT_TRY(wefti_metrics_newest(p->ctx, path, &newest));
    int64_t lost = 0;
    for (int64_t step = newest + 1; step <= from; step++)
        lost += wefti_journal_logs(p->config, step);
    if (late)
        weft_ctx_log(p->ctx, WEFT_LOG_WARN,
                     "took over %s late: %lld steps before step %lld have no lines",
                     folder, (long long)lost, (long long)p->files.latest);
    for (int64_t step = (from > newest ? from : newest) + 1; step <= p->files.latest;
         step++) {
        const weft_step_record *r = &p->files.recent[step % WEFTI_RECENT];
        bool logs = wefti_journal_logs(p->config, step) ||
                    (late && step == p->files.latest);
        if (r->step == step) WEFT_TRY(wefti_journal_step(p->files.journal, r, logs));
    }
    return WEFT_OK;
}

/* The first rank writes the files of the run. It takes the lease of the folder with the
 * name of the run and a later view than that of the former holder, which may be alive but
 * takes no part any more. One that may not write was left behind by the others. */
static weft_status take_now(weft_ctx *ctx, wefti_prepared *p) {
    weft_status status = take_lease(p->ctx, p);
    if (status == WEFT_OK) status = wefti_prepared_write(p->ctx, p);
    if (status == WEFT_ERR_FILE) return put_off(p, ctx != p->ctx);
    if (status == WEFT_OK) status = write_recent(p, p->files.n_late > 0);
    p->files.n_late = 0;
    if (status == WEFT_OK) return WEFT_OK;
    wefti_elastic_note(p->bootstrap.mesh, WEFTI_FACT_REPLACED);
    if (ctx != p->ctx) weft_ctx_fail(ctx, status, "%s", weft_ctx_message(p->ctx));
    return status;
}

weft_status wefti_regroup_take_over(weft_ctx *ctx, wefti_prepared *p) {
    return p->files.n_late > 0 && wefti_now_s() - p->files.late_s >= 1 ? take_now(ctx, p)
                                                                       : WEFT_OK;
}

/* A rank that had no state when the world was made may be its first rank and must lead it
 * once it has state. This happens when the ranks before it were lost and it got its state
 * from a rank later in the order. */
static weft_status take_over(wefti_loop *l) {
    wefti_prepared *p = ((entry *)l->user)->p;
    if (!wefti_bootstrap_leads(&p->bootstrap) || p->files.journal) return WEFT_OK;
    return take_now(l->ctx, p);
}

/* Who writes goes on doing so in the next world, unless another one took over meanwhile. */
static weft_status keep_lease(weft_ctx *ctx, wefti_prepared *p,
                              const wefti_elastic_world *w) {
    if (wefti_lease_renew(ctx, p->files.lease, w->number) != WEFT_OK)
        return wefti_regroup_check_lease(ctx, p, true);
    p->world.view = w->number;
    return WEFT_OK;
}

/* Predicts for a learner how long it will be one: the number of steps, each of them longer
 * by its slice, because where joining takes long the steps themselves fill the wire. */
static void predict_join(wefti_prepared *p, const terms *c,
                         const wefti_learners_plan *plan) {
    double left = (double)(WEFTI_LEARNERS_ALL - plan->from) / WEFTI_LEARNERS_ALL;
    int givers = p->job->replicas_equal ? p->job->R - plan->n : 1;
    p->world.join_s = (double)c->slices * (double)c->step_us * 1e-6 +
                      (double)c->wire_us * 1e-6 * left / (givers > 0 ? givers : 1);
    p->world.join_bytes = (int64_t)((double)c->state_bytes * left);
}

static weft_status plan_line(wefti_loop *l) {
    const entry *e = l->user;
    const wefti_viewlog_entry line = {.run = e->p->files.run,
                                      .view = l->world.number,
                                      .mesh = l->mesh,
                                      .job = e->p->job,
                                      .learners = &l->plan,
                                      .has = l->cards.has,
                                      .done = e->p->world.done};
    return wefti_viewlog_plan(l->ctx, e->p->views, &line);
}

static weft_status say(wefti_loop *l) {
    entry *e = l->user;
    WEFT_TRY(keep_lease(l->ctx, e->p, &l->world));
    note_run(e->p, &e->c);
    return wefti_viewlog_collect(l->ctx, e->p->views, l->mesh, &e->c.n_missed);
}

static weft_status hear(wefti_loop *l) {
    entry *e = l->user;
    WEFT_TRY(take_terms(l->ctx, e->p, &l->cards, &e->c, &l->plan));
    return wefti_loop_forgive(l, log_terms(l->ctx, e->p, &l->cards));
}

static weft_status make_job_of(wefti_loop *l, const wefti_job **job) {
    entry *e = l->user;
    wefti_prepared *p = e->p;
    p->files.run = e->c.lease_run;
    WEFT_TRY(make_job(l->ctx, p, l, &e->c));
    *job = p->job;
    if (l->whole) WEFT_TRY(plan_line(l));
    predict_join(p, &e->c, &l->plan);
    if (!p->bare) WEFT_TRY(take_over(l));
    return wefti_loop_look(l, p->job->config->run.folder);
}

static weft_status explain(wefti_loop *l, const void *notice, int64_t n) {
    const entry *e = l->user;
    return wefti_alike_explain(l->rank_ctx, e->p, notice, n);
}

static const wefti_loop_ops ops = {.say = say,
                                   .hear = hear,
                                   .make_job = make_job_of,
                                   .met = take_over,
                                   .explain = explain};

static wefti_loop loop_of(entry *e, weft_ctx *rank_ctx, wefti_rank **rank) {
    wefti_prepared *p = e->p;
    return (wefti_loop){
        .ops = &ops,
        .user = e,
        .ctx = p->ctx,
        .rank_ctx = rank_ctx,
        .mesh = p->bootstrap.mesh,
        .members = &p->bootstrap,
        .rank = rank,
        .bare = &p->bare,
        .cards = {.own = &e->c, .n_bytes = sizeof e->c, .shards = p->job->S}};
}

bool wefti_regroup_is_cut_off(const wefti_prepared *p, const wefti_rank *r) {
    return p->bare && !wefti_rank_is_learner(r);
}

void wefti_regroup_entry_text(const wefti_prepared *p, const wefti_rank *r, int64_t step,
                              char out[240]) {
    wefti_descent_record d;
    bool read = wefti_descent_read(p->ctx, p->config->run.folder, &d) == WEFT_OK;
    if (!read) weft_ctx_clear(p->ctx);
    bool other = read && d.has_view && d.run != p->files.run;
    snprintf(out, 240, "takes part as rank %d from step %lld on%s", r->rank,
             (long long)step,
             other ? "; run.folder holds another run here, and this process writes "
                     "nothing there, also if it is the last one"
                   : "");
}

weft_status wefti_regroup_await_entry(weft_ctx *rank_ctx, wefti_prepared *p,
                                      int64_t *step) {
    entry e = {.p = p};
    wefti_loop l = loop_of(&e, rank_ctx, NULL);
    return wefti_loop_await_entry(&l, step);
}

weft_status wefti_regroup(weft_ctx *rank_ctx, wefti_prepared *p, int64_t step,
                          wefti_rank **state, wefti_elastic_world *change) {
    entry e = {.p = p};
    wefti_loop l = loop_of(&e, rank_ctx, state);
    if (*state) note_rank(p, *state, step, &e.c);
    weft_status status = wefti_loop_enter(&l, step);
    wefti_loop_leave(&l);
    *change = l.world;
    return status;
}
