/* SPDX-License-Identifier: MIT */
/* A rank whose gradients the caller computes: it has the job, arrangement and exchange of
 * a run's rank, around a model that is tensors alone.
 *
 *     rest --open--> opened --ready--> handed over --step-----------------> rest
 *                                                  \-agree--> agreed --mix-/
 *
 * weft_sync_complete (sync_parts.c) does the first half of step and agree before them.
 *
 * Opening, which the first ready or step does by itself, submits the mixer's answers. It
 * is done this late so that the exchange thread has nothing to do between two steps:
 * states can be read and parameters averaged there. The ranks agree to skip a step before
 * they open it. */
#include "base/sized.h"
#include "comm/worker.h"
#include "loop/sync.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "mesh/elastic.h"
#include "config/layers.h"
#include "step/schedule.h"

static weft_status make_world(weft_sync *s) {
    const wefti_job *job = s->job;
    if (job->S != 1 && !s->setup.sharded)
        return weft_ctx_fail(s->ctx, WEFT_ERR_CONFIG,
                             "mesh.shards is %d: every process holds all parameters of a "
                             "program's own model; set mesh.shards=1",
                             job->S);
    if (!s->mesh && job->W > 1)
        return weft_ctx_fail(s->ctx, WEFT_ERR_CONFIG,
                             "mesh.nodes x mesh.ranks_per_node is %d, but there is no "
                             "mesh: this process is alone",
                             job->W);
    if (s->mesh && s->mesh->elastic) return wefti_sync_refuse_mesh(s);
    if (s->mesh) wefti_mesh_watch(s->mesh, s->config->mesh.timeout, NULL, NULL);
    s->joins = s->bare = s->mesh && s->mesh->transport->entry;
    return wefti_rank_world(s->ctx, job, s->joins ? NULL : s->mesh, &s->world);
}

/* Puts the caller's block in place of one that was just allocated. */
static weft_status borrow(weft_sync *s, float **block) {
    size_t n_bytes = (size_t)s->rank->arrangement->n_elements * sizeof(float);
    void *taken = s->setup.take(s->setup.user, n_bytes);
    if (!taken)
        return weft_ctx_fail(s->ctx, WEFT_ERR_MEMORY,
                             "the program has no memory of %lld bytes for tensors",
                             (long long)n_bytes);
    wefti_free(s->ctx, *block);
    *block = memset(taken, 0, n_bytes);
    return WEFT_OK;
}

static weft_status borrow_both(weft_sync *s) {
    if (!s->setup.take) return WEFT_OK;
    WEFT_TRY(borrow(s, &s->rank->params));
    weft_status status = borrow(s, &s->rank->grads);
    s->borrowed = status == WEFT_OK;
    if (!s->borrowed) wefti_sync_give_back(s, &s->rank->params);
    return status;
}

static weft_status make_rank(weft_sync *s) {
    wefti_comms comms;
    int rank = s->joins ? s->mesh->rank % s->job->S : s->world->first_here;
    s->job->as.outside = s->setup.outside;
    if (s->setup.outside && !wefti_config_given(s->config, "optimizer.clip"))
        s->job->optimizer.clip = 0; /* the default is of weft's own optimizers */
    s->elastic = wefti_sync_can_go_on(s);
    if (s->mesh && !s->joins && !s->elastic)
        WEFT_TRY(wefti_mesh_begin_round(s->ctx, s->mesh, &s->view.round));
    weft_status joined = wefti_comms_join(s->ctx, s->world, rank, &comms);
    if (s->mesh) wefti_mesh_end_joins(s->mesh);
    WEFT_TRY(joined);
    WEFT_TRY(wefti_rank_create(s->ctx, s->job, rank, &comms, &s->rank));
    WEFT_TRY(borrow_both(s));
    if (!s->setup.compressed || s->rank->schedule->clip != WEFTI_CLIP_LOCAL)
        return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_CONFIG,
                         "optimizer.clip is %g, but the program compresses: clip "
                         "before the gradients are taken, or after the nodes agreed",
                         s->config->optimizer.clip);
}

/* Keys that have an effect in weft's own loop alone: what they must be here, and why. A process
 * that joins gets everything between two steps, because from then on its tensors are the
 * caller's to use. */
static weft_status check_keys(const weft_sync *s) {
    const weft_config *c = s->config;
    bool directs = s->setup.outside && wefti_mixer_find(c->mixer.kind)->direct;
    char delay[24], join_steps[24];
    snprintf(delay, sizeof delay, "%lld", (long long)c->replicator.delay);
    snprintf(join_steps, sizeof join_steps, "%lld", (long long)c->mesh.join_steps);
    const struct {
        bool refused;
        const char *key, *value, *why;
    } rules[] = {
        {c->replicator.delay > 0, "replicator.delay", delay,
         ", expected 0 where a program has a model of its own: its steps end with what "
         "they sent"},
        {c->mesh.join_steps > 0, "mesh.join_steps", join_steps,
         ", but in a program's own loop state is handed over between two steps; expected "
         "0 or -1"},
        {c->run.upload[0], "run.upload", c->run.upload,
         ", but checkpoints are the program's own; expected an empty one"},
        {!wefti_is(c->elastic.stop, "auto"), "elastic.stop", c->elastic.stop,
         ", but signals are the program's own; expected auto"},
        {directs, "mixer.kind", c->mixer.kind,
         ", but it directs weft's optimizer, and the program's steps here; expected "
         "gossip, or weft's optimizer"},
        {c->run.audit, "run.audit", "true",
         ", but weft audit cannot compute a program's own model again; expected false"},
        {!wefti_is(c->elastic.batch, "shrink"), "elastic.batch", c->elastic.batch,
         ", but the program draws the rows; expected shrink, and a loop that takes more "
         "rows when processes are lost"}};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (rules[i].refused)
            return weft_ctx_fail(s->ctx, WEFT_ERR_CONFIG, "%s is %s%s", rules[i].key,
                                 rules[i].value, rules[i].why);
    return WEFT_OK;
}

static weft_status check_folder(const weft_sync *s) {
    char path[PATH_MAX];
    if (!s->text.folder) return WEFT_OK;
    if (!s->setup.elastic)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "setup.folder is %s, but without setup.elastic nobody looks "
                             "into it; expected both",
                             s->text.folder);
    WEFT_TRY(wefti_file_path(s->ctx, s->text.folder, ".", path));
    if (access(path, W_OK) == 0) return WEFT_OK;
    return wefti_fail_errno(s->ctx, "write into", s->text.folder);
}

static weft_status build(weft_sync *s) {
    WEFT_TRY(wefti_sync_make_job(s, s->config, NULL, &s->job));
    WEFT_TRY(check_keys(s));
    WEFT_TRY(check_folder(s));
    WEFT_TRY(wefti_sync_check_uneven(s));
    WEFT_TRY(wefti_sync_open_window(s));
    WEFT_TRY(make_world(s));
    WEFT_TRY(make_rank(s));
    WEFT_TRY(wefti_alloc_n(s->ctx, s->setup.n_tensors, sizeof *s->now.ready, "tensors",
                           &s->now.ready));
    WEFT_TRY(wefti_sync_count_anew(s));
    if (s->mesh) wefti_mesh_count_round(s->mesh, s->view.round);
    return WEFT_OK;
}

weft_status weft_sync_create_from(weft_ctx *ctx, const weft_sync_setup *setup,
                                  weft_sync **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_sync_setup, setup);
    weft_sync_tensor *tensors;
    weft_sync *s;
    WEFT_TRY(wefti_sized_list_in(ctx, &wefti_sized_weft_sync_tensor, setup->tensors,
                                 setup->n_tensors, &tensors));
    setup_own.tensors = tensors;
    WEFTI_TRY_OR(wefti_alloc(ctx, sizeof *s, "a model's exchange", &s),
                 wefti_free(ctx, tensors));
    s->ctx = ctx;
    s->setup = *setup;
    s->mesh = setup->mesh;
    s->config = setup->config;
    s->rate = s->now.mark = NAN;
    s->view.round = s->view.was = -1;
    s->process = (int64_t)getpid();
    weft_status status = setup->alike ? wefti_strdup(ctx, setup->alike, &s->text.alike)
                                      : WEFT_OK;
    if (status == WEFT_OK && setup->folder)
        status = wefti_strdup(ctx, setup->folder, &s->text.folder);
    if (status == WEFT_OK && setup->decided)
        status = wefti_strdup(ctx, setup->decided, &s->text.decided);
    if (status == WEFT_OK) status = build(s);
    wefti_free(ctx, tensors);
    if (status != WEFT_OK) {
        weft_sync_destroy(s);
        return status;
    }
    *out = s;
    return WEFT_OK;
}

weft_status weft_sync_create(weft_ctx *ctx, weft_mesh *mesh, const weft_config *config,
                             const weft_sync_tensor *tensors, int n_tensors,
                             weft_sync **out) {
    weft_sync_setup setup = {.struct_size = sizeof setup,
                             .mesh = mesh,
                             .config = config,
                             .tensors = tensors,
                             .n_tensors = n_tensors};
    return weft_sync_create_from(ctx, &setup, out);
}

void weft_sync_destroy(weft_sync *s) {
    if (!s || s->process != (int64_t)getpid()) return; /* a fork has no exchange thread */
    weft_ctx *ctx = s->ctx;
    wefti_sync_part(s);
    if (s->rank)
        wefti_worker_destroy(ctx, s->rank->exchange.worker); /* the thread reads the
                                                                arrays */
    if (s->rank) s->rank->exchange.worker = NULL;
    if (s->borrowed && s->rank) {
        wefti_sync_give_back(s, &s->rank->params);
        wefti_sync_give_back(s, &s->rank->grads);
    }
    wefti_rank_destroy(s->rank);
    if (s->mesh) wefti_mesh_end_round(s->mesh, s->view.round);
    wefti_world_destroy(ctx, s->world);
    wefti_sync_end_replan(s);
    wefti_job_destroy(ctx, s->job);
    weft_config_destroy(ctx, s->own_config);
    WEFTI_FREE(ctx, s->now.ready, s->text.alike, s->text.folder, s->text.decided,
               s->now.missing, s->now.offers, s->rows.reports, s->rows.window,
               s->average.aside, s);
}

static float *at(weft_sync *s, float *flat, int i) {
    return i >= 0 && i < s->setup.n_tensors ? flat + s->rank->arrangement->unit_offset[i]
                                            : NULL;
}

float *weft_sync_parameters(weft_sync *s, int i) {
    return s->rank ? at(s, s->rank->params, i) : NULL;
}

int64_t weft_sync_steps(const weft_sync *s) { return s->step; }

float *weft_sync_gradients(weft_sync *s, int i) {
    return s->rank ? at(s, s->rank->grads, i) : NULL;
}

static size_t flat_bytes(const weft_sync *s) {
    return (size_t)s->rank->arrangement->n_elements * sizeof(float);
}

static void forget_gradients(weft_sync *s) {
    if (!s->setup.writes) memset(s->rank->grads, 0, flat_bytes(s));
}

/* --- the beginning --- */

/* A hash of the rows that this rank has of each tensor. */
static uint64_t rows_here(const weft_sync *s) {
    uint64_t sum = 0;
    for (int u = 0; u < s->setup.n_tensors; u++) {
        int64_t rows = s->job->model->params[u].rows;
        sum = XXH3_64bits_withSeed(&rows, sizeof rows, sum);
    }
    return sum;
}

/* Compares the hash of each rank with that of the same shard in the first copy. */
static weft_status compare_rows(weft_sync *s) {
    wefti_comm *all = s->rank->comms.control;
    uint64_t own = rows_here(s), *sums;
    WEFT_TRY(wefti_alloc_n(s->ctx, all->size, sizeof *sums, "checksums", &sums));
    weft_status status = wefti_comm_all_gather(all, wefti_rank_control_tag(s->rank), &own,
                                               sizeof own, sums);
    for (int r = 0; r < all->size && status == WEFT_OK; r++)
        if (sums[r] != sums[r % s->job->S])
            status = weft_ctx_fail(
                s->ctx, WEFT_ERR_ARGUMENT,
                "rank %d has other rows of the tensors than rank %d; expected all "
                "copies to be cut alike",
                r, r % s->job->S);
    wefti_free(s->ctx, sums);
    return status;
}

/* Sends the first copy's parameters to all others, shard by shard. */
static weft_status spread(weft_sync *s) {
    wefti_rank *r = s->rank;
    wefti_comm *all = r->comms.control;
    int64_t tag = wefti_rank_control_tag(r), n_bytes = (int64_t)flat_bytes(s);
    if (n_bytes == 0) return WEFT_OK;
    if (r->replica == 0) {
        for (int peer = r->local + s->job->S; peer < all->size; peer += s->job->S)
            WEFT_TRY(wefti_comm_send(all, peer, tag, r->params, n_bytes));
        return wefti_comm_await(all, tag);
    }
    const void *view;
    WEFT_TRY(wefti_comm_receive(all, r->local, tag, n_bytes, &view));
    memcpy(r->params, view, (size_t)n_bytes);
    wefti_comm_release(all, r->local, tag);
    return WEFT_OK;
}

/* A process that is given up on its way in leaves membership, so that it may join again. */
static weft_status come(weft_sync *s) {
    weft_status status = wefti_sync_join(s);
    if (status == WEFT_ERR_PEER)
        wefti_world_poison(&s->mesh->world, s->mesh->rank, status,
                           weft_ctx_message(s->ctx));
    return status;
}

weft_status weft_sync_begin(weft_sync *s) {
    if (s->begun)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "the first step has begun already");
    if (s->joins) {
        WEFT_TRY(come(s));
    } else {
        WEFT_TRY(wefti_sync_compare(s));
        if (s->setup.sharded) WEFT_TRY(compare_rows(s));
        double since_s = wefti_now_s();
        WEFT_TRY(spread(s));
        WEFT_TRY(wefti_sync_note_spread(s, since_s));
    }
    memset(s->rank->grads, 0, flat_bytes(s));
    s->begun = true;
    s->ended_s = wefti_now_s();
    if (s->joins) return WEFT_OK;
    s->view.was = s->rank->replica;
    return wefti_sync_unsay(s, s->job->R, NULL);
}

/* --- a step --- */

/* This process's numbers are wrong: all hear it at once. */
weft_status wefti_sync_told(weft_sync *s, weft_status status) {
    if (status != WEFT_ERR_NUMERIC || !s->mesh) return status;
    wefti_elastic_note(s->mesh, WEFTI_FACT_WRONG);
    wefti_world_poison(s->world, s->mesh->rank, status, weft_ctx_message(s->ctx));
    return status;
}

weft_status wefti_sync_check_step(weft_sync *s) {
    WEFT_TRY(wefti_process_check(s->ctx, s->process, "the model's exchange"));
    WEFT_TRY(wefti_sync_check_whole(s));
    if (!s->begun)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "a step without weft_sync_begin before it");
    if (s->average.held)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "a step with averaged parameters; weft_sync_restore first");
    if (s->now.agreed)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "weft_sync_agree without weft_sync_mix after it");
    if (s->setup.endless || s->step < s->config->run.steps) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "a step after the last one: run.steps is %lld",
                         (long long)s->config->run.steps);
}

weft_status weft_sync_open(weft_sync *s) {
    WEFT_TRY(wefti_sync_check_step(s));
    if (s->now.opened) return WEFT_OK;
    double asked_s = wefti_now_s();
    WEFT_TRY(wefti_sync_start_membership(s));
    WEFT_TRY(wefti_sync_meet(s));
    WEFT_TRY(wefti_sync_follow(s));
    WEFT_TRY(wefti_sync_change_form(s));
    s->rank->mixer->n_incoming = 0; /* of the last step; in this one the mixer answers */
    if (!s->primed) WEFT_TRY(wefti_rank_prime(s->rank));
    s->rank->mixer->n_outgoing = 0;
    s->primed = s->now.opened = true;
    double opening_s = wefti_now_s() - asked_s;
    WEFT_TRY(wefti_rank_open(s->rank, s->step));
    if (s->job->run.follows) /* forward passes compute, too */
        s->rank->now.begun_s = s->ended_s + opening_s;
    if (!isnan(s->rate)) s->rank->now.lr = (float)s->rate;
    s->ended_s += wefti_now_s() - asked_s;
    return WEFT_OK;
}

static weft_status check_not_handed_over(weft_sync *s, const char *what) {
    if (!s->now.handed_over && !s->now.agreed && !s->now.completed) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "%s is set while gradients of step %lld are exchanged; set it "
                         "before the first is ready",
                         what, (long long)s->step + 1);
}

double wefti_sync_rate(const weft_sync *s) {
    bool averages = !wefti_is(s->job->replicator_config.kind, "none");
    return averages && !isnan(s->rate) ? (double)(float)s->rate : 0; /* as it is used */
}

weft_status weft_sync_set_rate(weft_sync *s, double lr) {
    if (!isfinite(lr))
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "the learning rate is %g, expected a number", lr);
    WEFT_TRY(check_not_handed_over(s, "the learning rate"));
    s->rate = lr;
    if (s->now.opened && s->rank) s->rank->now.lr = (float)lr;
    return WEFT_OK;
}

weft_status weft_sync_mark(weft_sync *s, double mark) {
    WEFT_TRY(check_not_handed_over(s, "a mark of the parameters"));
    s->now.mark = mark;
    return WEFT_OK;
}

weft_status weft_sync_set_tensor(weft_sync *s, int i, double lr_scale,
                                 double weight_decay) {
    if (i < 0 || i >= s->setup.n_tensors || !isfinite(lr_scale) ||
        !isfinite(weight_decay))
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "tensor %d has rate factor %g and weight decay %g; expected "
                             "one of 0 to %d, and numbers",
                             i, lr_scale, weight_decay, s->setup.n_tensors - 1);
    WEFT_TRY(check_not_handed_over(s, "a tensor's rate"));
    wefti_optimizer_rule *rule = &s->job->optimizer.rules[i];
    rule->lr = lr_scale;
    rule->config.weight_decay = weight_decay;
    return WEFT_OK;
}

/* Whether a bucket is exchanged as soon as it is complete. */
static bool exchanges_early(const weft_sync *s) {
    return !s->setup.skips && s->rank->schedule->at_once;
}

static weft_status hand_over(weft_sync *s, int b) {
    WEFTI_ASSERT(s->now.opened && s->now.missing[b] == 0); /* not yet handed over */
    s->now.handed_over = true;
    return wefti_rank_submit(s->rank, b);
}

weft_status weft_sync_ready(weft_sync *s, int i) {
    if (s->now.completed)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "tensor %d is ready after weft_sync_complete; end the step "
                             "first",
                             i);
    WEFT_TRY(s->setup.skips ? wefti_sync_check_step(s) : weft_sync_open(s));
    if (i < 0 || i >= s->setup.n_tensors || s->now.ready[i])
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_ARGUMENT,
            "tensor %d is ready, expected one of 0 to %d that is not yet", i,
            s->setup.n_tensors - 1);
    WEFT_TRY(wefti_sync_check_weighed(s));
    WEFT_TRY(wefti_sync_check_offered(s, i));
    s->now.ready[i] = true;
    int b = s->rank->arrangement->bucket_of[i];
    WEFTI_ASSERT(s->now.missing[b] > 0);
    if (--s->now.missing[b] > 0) return WEFT_OK;
    wefti_sync_weigh_bucket(s, b);
    return exchanges_early(s) ? wefti_sync_told(s, hand_over(s, b)) : WEFT_OK;
}

weft_status weft_sync_skip(weft_sync *s) {
    if (!s->setup.skips)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "a step can be skipped only where weft_sync_setup.skips is "
                             "set");
    if (s->now.completed)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "weft_sync_skip after weft_sync_complete: step %lld is "
                             "exchanged already",
                             (long long)s->step + 1);
    WEFT_TRY(wefti_sync_check_step(s));
    s->now.skip = true;
    return WEFT_OK;
}

/* Whether any rank skips the step. */
static weft_status agree_to_skip(weft_sync *s, bool *skipped) {
    double wants = s->now.skip ? 1 : 0;
    *skipped = false;
    if (!s->setup.skips) return WEFT_OK;
    WEFT_TRY(wefti_comm_sum(s->rank->comms.control, wefti_rank_control_tag(s->rank), 1,
                            &wants));
    s->now.skip = false;
    *skipped = wants > 0;
    if (!*skipped) return WEFT_OK;
    wefti_sync_expect_all(s);
    forget_gradients(s);
    return WEFT_OK;
}

weft_status wefti_sync_close(weft_sync *s, double loss, bool *skipped) {
    WEFT_TRY(wefti_sync_check_step(s));
    *skipped = s->now.passed;
    if (s->now.completed) {
        s->now.completed = s->now.passed = false;
        return WEFT_OK;
    }
    WEFT_TRY(agree_to_skip(s, skipped));
    if (*skipped) return WEFT_OK;
    s->now.named = 0;
    WEFT_TRY(weft_sync_open(s));
    wefti_rank *r = s->rank; /* opening may make another one */
    for (int i = s->setup.n_tensors - 1; i >= 0; i--)
        if (!s->now.ready[i]) WEFT_TRY(weft_sync_ready(s, i));
    bool waited = s->setup.skips && r->schedule->at_once;
    for (int b = 0; b < r->arrangement->n_buckets && waited; b++)
        WEFT_TRY(hand_over(s, b));
    r->now.status.loss_sum = loss;
    r->now.status.rate = wefti_sync_rate(s);
    if (s->job->replicas_equal) r->last.distance = s->now.mark; /* which have none */
    s->now.mark = NAN;
    wefti_sync_foresee(s);
    return wefti_rank_close(r);
}

/* Waits for the exchange, and ends the step. */
static weft_status finish_step(weft_sync *s, weft_sync_report *report) {
    wefti_rank *r = s->rank;
    wefti_tally tally;
    WEFTI_ASSERT(s->begun && s->now.opened && !s->now.completed);
    WEFT_TRY(wefti_rank_settle(r, &tally));
    WEFT_TRY(wefti_sync_read_status(s, s->step - s->job->lag.status, report));
    if (s->setup.uneven) report->loss = s->rows.loss, report->loss_step = s->counted;
    if (s->elastic) wefti_elastic_finish(s->mesh, s->step, s->counted - 1);
    report->step = ++s->step;
    report->processes = s->job->W;
    report->lr = (double)r->now.lr;
    report->wire_bytes_out = (int64_t)tally.wire_out;
    report->local_bytes_out = (int64_t)tally.local_out;
    report->exchange_s = tally.exchange_s;
    report->wait_s = tally.wait_s;
    s->now.opened = s->now.handed_over = s->now.agreed = s->view.anew = false;
    s->average.n_ended = 0;
    s->average.missed = false;
    double slower_s = fmax(0, r->last.computed_s -
                                  r->now.status.computed_s); /* than this one */
    wefti_sync_note_step(s, r->last.computed_s, fmax(0, tally.wait_s - slower_s),
                         tally.wire_out);
    wefti_sync_expect_all(s);
    forget_gradients(s);
    s->view.was = r->replica;
    s->ended_s = wefti_now_s();
    return wefti_sync_unsay(s, s->job->R, NULL);
}

static weft_status check_optimizer(weft_sync *s, bool outside, const char *instead) {
    if (s->setup.outside == outside) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT, "the optimizer is %s: call %s",
                         outside ? "weft's" : "the program's", instead);
}

static weft_status step(weft_sync *s, double loss, weft_sync_report *report) {
    *report = (weft_sync_report){
        .struct_size = sizeof(weft_sync_report), .loss = NAN, .step = s->step};
    WEFT_TRY(check_optimizer(s, false, "weft_sync_agree and weft_sync_mix"));
    WEFT_TRY(wefti_sync_close(s, loss, &report->skipped));
    return report->skipped ? WEFT_OK : finish_step(s, report);
}

weft_status weft_sync_step(weft_sync *s, double loss, weft_sync_report *report) {
    weft_ctx *ctx = s->ctx;
    WEFTI_SIZED_OUT(ctx, weft_sync_report, report);
    return WEFTI_SIZED_GIVE(weft_sync_report, report,
                            wefti_sync_told(s, step(s, loss, report)));
}

/* Does the mixer's part before the optimizer, when the direction of all buckets is
 * there. */
static weft_status await_direction(weft_sync *s) {
    wefti_rank *r = s->rank;
    const wefti_arrangement *a = r->arrangement;
    WEFTI_ASSERT(s->now.agreed && s->now.named >= 0 && s->now.named <= a->n_buckets);
    WEFT_TRY(wefti_worker_wait(r->exchange.worker, r->exchange.last_ticket,
                               &r->now.tally.wait_s));
    for (int b = s->now.named; b < a->n_buckets; b++)
        WEFT_TRY(
            wefti_mixer_before(r->mixer, b, r->step, r->params + a->bucket_offset[b]));
    return WEFT_OK;
}

bool wefti_sync_moves(const weft_sync *s) {
    const wefti_replicator *last = s->rank->site_replicator ? s->rank->site_replicator
                                                            : s->rank->replicator;
    return wefti_replicator_is_due(&last->config, s->step);
}

static weft_status agree(weft_sync *s, double loss, bool *moves) {
    bool skipped;
    *moves = false;
    WEFT_TRY(check_optimizer(s, true, "weft_sync_step"));
    WEFT_TRY(wefti_sync_close(s, loss, &skipped));
    s->now.agreed = true;
    s->now.skip = skipped; /* kept until weft_sync_mix */
    if (skipped) return WEFT_OK;
    WEFT_TRY(await_direction(s));
    *moves = wefti_sync_moves(s);
    return WEFT_OK;
}

weft_status weft_sync_agree(weft_sync *s, double loss, bool *moves) {
    return wefti_sync_told(s, agree(s, loss, moves));
}

/* What the program's optimizer has made of the parameters. */
static weft_status check_parameters(weft_sync *s) {
    wefti_rank *r = s->rank;
    const wefti_arrangement *a = r->arrangement;
    if (s->job->replicas_equal || s->job->mixer_config.held) return WEFT_OK;
    for (int b = 0; b < a->n_buckets; b++) {
        const float *x = r->params + a->bucket_offset[b];
        double squares = s->job->kernels->sum_squares(a->buckets[b].n_elements, x);
        WEFT_TRY(wefti_rank_check_finite(r, b, x, squares));
    }
    return WEFT_OK;
}

bool weft_sync_mixes(const weft_sync *s) {
    const wefti_mixer *m = s->rank ? s->rank->mixer : NULL;
    wefti_mixer_act acts[WEFTI_MIXER_ACTS];
    if (!m || !m->ops->messages) return false;
    int n = m->ops->period ? 0 : 1; /* with none it acts in every step */
    for (int b = 0; b < m->n_buckets && n == 0; b++) {
        wefti_mixer_question q = {.bucket = &s->rank->arrangement->buckets[b],
                                  .number = b,
                                  .n_buckets = m->n_buckets,
                                  .R = m->comm->size,
                                  .from = m->comm->rank,
                                  .step = s->step,
                                  .room = s->job->gossip.room};
        n = m->ops->acts(&m->config, &q, acts);
    }
    return n > 0;
}

static weft_status mix(weft_sync *s, weft_sync_report *report) {
    wefti_rank *r = s->rank;
    const wefti_arrangement *a = r->arrangement;
    *report = (weft_sync_report){
        .struct_size = sizeof(weft_sync_report), .loss = NAN, .step = s->step};
    if (!s->now.agreed)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "weft_sync_mix without weft_sync_agree before it");
    report->skipped = s->now.skip;
    s->now.skip = false;
    if (report->skipped) {
        s->now.agreed = false;
        return WEFT_OK;
    }
    WEFTI_ASSERT(s->setup.outside && s->now.opened);
    WEFT_TRY(check_parameters(s));
    double waited_s = r->mixer->times.waited_s;
    r->mixer->n_incoming = 0;
    for (int b = 0; b < a->n_buckets; b++)
        WEFT_TRY(
            wefti_mixer_after(r->mixer, b, r->step, r->params + a->bucket_offset[b]));
    for (int b = 0; b < a->n_buckets; b++)
        WEFT_TRY(
            wefti_mixer_finish(r->mixer, b, r->step, r->params + a->bucket_offset[b]));
    r->mixer->n_outgoing = 0; /* what was handed over is the caller's again */
    r->now.tally.wait_s += r->mixer->times.waited_s - waited_s;
    return finish_step(s, report);
}

weft_status weft_sync_mix(weft_sync *s, weft_sync_report *report) {
    weft_ctx *ctx = s->ctx;
    WEFTI_SIZED_OUT(ctx, weft_sync_report, report);
    return WEFTI_SIZED_GIVE(weft_sync_report, report, wefti_sync_told(s, mix(s, report)));
}

/* --- between steps --- */

weft_status wefti_sync_check_rest(weft_sync *s, const char *what) {
    WEFT_TRY(wefti_process_check(s->ctx, s->process, "the model's exchange"));
    WEFT_TRY(wefti_sync_check_whole(s));
    if (s->begun && !s->now.opened && !s->now.completed && !s->now.agreed &&
        !s->average.held)
        return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_ARGUMENT, "%s is possible between two steps only: %s", what,
        !s->begun         ? "weft_sync_begin has not been called"
        : s->average.held ? "parameters are averaged; weft_sync_restore first"
                          : "gradients of the next step are there already");
}

weft_status weft_sync_average(weft_sync *s) {
    weft_sync_report report = {.struct_size = sizeof report};
    WEFT_TRY(wefti_sync_check_rest(s, "an average"));
    if (!s->setup.endless && s->step == s->config->run.steps)
        WEFT_TRY(wefti_sync_read_status(s, s->step - 1, &report));
    if (s->job->replicas_equal) return WEFT_OK;
    s->average.held = true;
    return wefti_sync_average_all(s);
}

weft_status weft_sync_restore(weft_sync *s) {
    if (!s->average.held) return WEFT_OK;
    WEFT_TRY(wefti_sync_check_whole(s));
    wefti_rank_restore(s->rank);
    forget_gradients(s);
    s->average.held = false;
    return WEFT_OK;
}
