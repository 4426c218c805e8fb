/* SPDX-License-Identifier: MIT */
/* A whole run: prepare -> start one thread per rank -> each rank's loop -> results.
 *
 *     rank's loop:  step(t); settle -> record(t); [save]; [evaluate];
 *                   until the last step or stop
 *
 * The first failure of a rank is the failure of the run (rank/rank_threads.h). */
#define _GNU_SOURCE
#include <weft/train.h>

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/stop.h"
#include "mesh/mesh.h"
#include "passes/passes.h"
#include "runfiles/nodefacts.h"
#include "step/schedule.h"
#include "train/auditing.h"
#include "train/following.h"
#include "rank/rank_threads.h"
#include "train/regroup.h"
#include "train/saving.h"
#include "train/sharing.h"
#include "runfiles/traces.h"

/* What all rank threads share. */
typedef struct training {
    weft_ctx *ctx; /* the caller's, which owns the mesh */
    wefti_prepared *prepared;
    const weft_train_hooks *hooks;
    weft_train_result *result; /* written by rank 0 */
    wefti_world *world;
    double start_s, exchange_s, wait_s; /* the last two: summed over steps by rank 0 */
    bool leaves_alone; /* who is asked to stop leaves, and the others continue */
} training;

typedef struct rank_thread {
    training *run;
    wefti_slot *slot;
    weft_step_record pending[WEFTI_MAX_LAG + 1]; /* steps whose status is not read yet */
    int64_t counted;                             /* the first of them */
    bool stop_agreed, stopping, leaves, announced; /* the last: a long evaluation */
    int64_t evaluated;                             /* steps done at the last evaluation */
    int64_t gathered; /* steps done when a gossiping run's world changed last: a rank
                          that mixed with the lost one and a rank that did not may differ
                          then */
    weft_mesh *mesh;  /* or NULL */
    wefti_node_meter meter;
    bool entered;  /* in a world in which no step has begun yet */
    int64_t paced; /* the first step of this job, which began at paced_s */
    double paced_s;
    wefti_save_clock clock;
} rank_thread;

/* All ranks keep a timeline of the same step, when everything is warm. */
static weft_status keep_timeline(rank_thread *t) {
    enum { WARM = 20 };
    const wefti_job *job = t->run->prepared->job;
    int64_t step = job->from.step + WARM, last = job->config->run.steps - 1;
    const wefti_schedule *s = t->slot->state->schedule;
    int64_t n_lines = s->n_ops + 2 * (int64_t)s->n_phases * s->n_buckets;
    if (!t->run->prepared->dataset) return WEFT_OK;
    return wefti_timeline_create(t->slot->ctx, step < last ? step : last, n_lines,
                                 &t->slot->state->timeline);
}

static void give_hooks(rank_thread *t) {
    if (!t->run->hooks || !t->slot->first_here) return;
    t->slot->state->onward.should_stop = t->run->hooks->should_stop;
    t->slot->state->onward.stop_user = t->run->hooks->user;
    t->slot->state->onward.leaves_alone = t->run->leaves_alone;
}

static weft_status build_rank(rank_thread *t) {
    const wefti_job *job = t->run->prepared->job;
    wefti_slot *slot = t->slot;
    wefti_comms comms;
    WEFT_TRY(wefti_comms_join(slot->ctx, t->run->world, slot->rank, &comms));
    WEFT_TRY(wefti_rank_create(slot->ctx, job, slot->rank, &comms, &slot->state));
    give_hooks(t);
    WEFT_TRY(keep_timeline(t));
    WEFT_TRY(wefti_prepared_fill(t->run->prepared, t->slot->state));
    wefti_node_meter_begin(&t->meter, t->slot->state);
    return wefti_rank_prime(t->slot->state);
}

static double hidden_share(double exchange_s, double wait_s) {
    return exchange_s > 0 ? fmax(0, 1 - wait_s / exchange_s) : 1;
}

/* Bytes that the other copies on the first node send in a step, as their methods predict:
 * all copies send as much, and no message tells the first one what they counted. */
static int64_t bytes_of_other_copies(const rank_thread *t, int64_t step) {
    const wefti_prepared *p = t->run->prepared;
    int64_t n_bytes = 0;
    for (int s = 0; p->shards && s < p->job->S; s++)
        n_bytes += wefti_job_node_bytes(p->job, p->shards[s], true, step, 1);
    return n_bytes;
}

/* Whether this is the first rank of those that take part. */
static bool leads(const rank_thread *t) { return t->slot->state->rank == 0; }

/* The record of the step just done, without what the ranks' status will add. */
static weft_step_record make_record(const rank_thread *t, const wefti_tally *tally,
                                    double step_s) {
    const wefti_rank *r = t->slot->state;
    const wefti_job *job = t->run->prepared->job;
    int64_t step = r->step + 1;
    int64_t others = leads(t) ? bytes_of_other_copies(t, step - 1) : 0;
    int64_t tokens = (wefti_rank_first_row(r, step) - wefti_rank_first_row(r, step - 1)) *
                     job->T;
    weft_step_record record = {
        .step = step,
        .steps = job->config->run.steps,
        .loss = NAN,
        .consensus_distance = NAN,
        .lr = r->now.lr,
        .grad_norm = sqrt(tally->grad_squares),
        .update_norm = sqrt(tally->moved),
        .tokens = tokens,
        .tokens_per_s = (double)tokens / step_s,
        .memory_bytes = wefti_process_peak_bytes(),
        .memory_rank_bytes = weft_ctx_bytes_held(t->slot->ctx),
        .wire_bytes_out = (int64_t)tally->wire_out + others,
        .wire_bytes_in = (int64_t)tally->wire_in + others, /* copies are equal */
        .local_bytes_out = (int64_t)tally->local_out,
        .local_bytes_in = (int64_t)tally->local_in,
        .relayed_bytes = r->last.relayed,
        .mean_of_all = -1,
        .late = -1,
        .suspect_node = r->audit.suspect,
        .exchange_s = tally->exchange_s / job->S,
        .wait_s = tally->wait_s / job->S,
        .hidden_share = hidden_share(tally->exchange_s, tally->wait_s),
        .step_s = step_s,
        .elapsed_s = wefti_now_s() - t->run->start_s,
        .allocations = weft_ctx_allocations(t->slot->ctx) +
                       weft_ctx_allocations(t->run->ctx),
    };
    record.mfu = record.tokens_per_s * weft_model_flop_per_token(job->model, job->T) /
                 t->run->prepared->summary.gemm_flops;
    record.compute_s = step_s - record.wait_s;
    if (r->mixer->control)
        record.mean_of_all = wefti_mixer_averages_all(r->mixer, r->step);
    if (job->mixer_config.deadline_s > 0 && r->mixer->ops->distance)
        record.late = (int64_t)tally->late;
    record.left_s = (wefti_now_s() - t->paced_s) / (double)(step - job->from.step) *
                    (double)(record.steps - step);
    wefti_following_tell(t->run->prepared, &record);
    return record;
}

/* Only the first rank writes the run folder, and checks whether it still may. */
static weft_status check_lease(const rank_thread *t, bool look) {
    wefti_prepared *p = t->run->prepared;
    if (!leads(t)) return WEFT_OK;
    WEFT_TRY(wefti_regroup_take_over(t->slot->ctx, p));
    return wefti_regroup_check_lease(t->slot->ctx, p, look);
}

static weft_status tell_step(rank_thread *t, weft_step_record record,
                             const wefti_step_status *agreed) {
    training *run = t->run;
    wefti_prepared *p = run->prepared;
    if (!t->slot->first_here) return WEFT_OK;
    const wefti_job *job = p->job;
    run->result->steps = record.step;
    record.loss = agreed->loss_sum / (agreed->rows * (double)job->T);
    record.consensus_distance = wefti_rank_consensus(t->slot->state, agreed);
    record.behind_s = t->slot->state->last.computed_s - t->slot->state->last.own_s;
    record.slowest_rank = t->slot->state->last.slowest;
    if (t->mesh && t->mesh->elastic)
        record.ranks = job->W, record.participation = agreed->counted / job->W;
    bool logged = wefti_journal_logs(job->config, record.step);
    wefti_audit_record(t->slot->state, &record);
    if (leads(t)) {
        run->result->loss = record.loss;
        run->result->wire_bytes += record.wire_bytes_out;
        run->exchange_s += record.exchange_s;
        run->wait_s += record.wait_s;
        if (run->hooks && run->hooks->on_step)
            run->hooks->on_step(run->hooks->user, &record);
        if (logged) WEFT_TRY(check_lease(t, false)); /* may write lines up to latest */
    }
    p->files.recent[record.step % WEFTI_RECENT] = record;
    p->files.recent[record.step % WEFTI_RECENT].sent = NULL; /* the rank's memory */
    p->files.latest = record.step;
    if (!leads(t) || !p->files.journal) return WEFT_OK;
    return wefti_journal_step(p->files.journal, &record, logged);
}

static weft_status evaluate(rank_thread *t, int64_t step, bool last) {
    training *run = t->run;
    weft_eval_record record = {.step = step};
    double rate = t->pending[(step - 1) % (WEFTI_MAX_LAG + 1)].tokens_per_s;
    if (leads(t) && !t->announced)
        t->announced = wefti_evaluation_announce(t->slot->state, step, rate, run->hooks);
    WEFT_TRY(wefti_rank_evaluate(t->slot->state, &record));
    if (!leads(t) || record.tokens == 0 || step == t->evaluated) return WEFT_OK;
    t->evaluated = step; /* the same step may be evaluated again */
    record.elapsed_s = wefti_now_s() - run->start_s;
    if (last) run->result->validation_loss = record.loss;
    if (run->hooks && run->hooks->on_evaluation)
        run->hooks->on_evaluation(run->hooks->user, &record);
    double bigram = last ? run->prepared->bigram_loss : NAN;
    wefti_journal *journal = run->prepared->files.journal;
    WEFT_TRY(check_lease(t, false));
    return journal ? wefti_journal_evaluation(journal, &record, bigram) : WEFT_OK;
}

/* Consensus control: the status of a step decides about a gossip round a fixed number of
 * steps later, however early the status is read. The first status of a resumed run
 * decides nothing: the checkpoint has that decision. */
static void control(rank_thread *t, int64_t step, const wefti_step_status *agreed) {
    if (step > t->run->prepared->job->from.step)
        wefti_rank_control(t->slot->state, step, agreed);
}

/* Reads the statuses up to `step` that have not been read yet. */
static weft_status read_status(rank_thread *t, int64_t step) {
    for (; t->counted <= step; t->counted++) {
        wefti_step_status agreed;
        WEFT_TRY(wefti_rank_read_status(t->slot->state, t->counted, &agreed));
        WEFT_TRY(tell_step(t, t->pending[t->counted % (WEFTI_MAX_LAG + 1)], &agreed));
        control(t, t->counted, &agreed);
        bool all = agreed.stop > 0 || (agreed.asked > 0 && agreed.asked == agreed.heard);
        t->stop_agreed |= all;
        t->leaves |= !all && agreed.leaves > 0;
        if (agreed.save > 0 && t->counted >= t->clock.due) /* asked after the last one */
            t->clock.due = t->counted + 1 + t->run->prepared->job->lag.status;
    }
    return WEFT_OK;
}

static bool is_due(int64_t every, int64_t done) { return every > 0 && done % every == 0; }

static bool save_is_due(const rank_thread *t, int64_t done) {
    int64_t every = t->run->prepared->job->config->run.save_every;
    return is_due(every, done) || done == t->clock.due;
}

/* Whether all ranks meet after `done` steps. */
static bool is_pause(const rank_thread *t, int64_t done) {
    const weft_config *c = t->run->prepared->job->config;
    return t->stop_agreed || done == c->run.steps || is_due(c->run.eval_every, done) ||
           save_is_due(t, done) || is_due(c->run.compare_every, done);
}

/* A line of nodes.jsonl covers the steps between two pauses. */
static weft_status tell_nodes(rank_thread *t, int64_t done) {
    training *run = t->run;
    int ranks_here = t->mesh ? 1 : run->prepared->job->W, n;
    wefti_node *nodes;
    WEFT_TRY(wefti_nodefacts_gather(t->slot->state, &t->meter, ranks_here, &nodes, &n));
    weft_status status = WEFT_OK;
    if (leads(t) && run->prepared->files.journal)
        status = wefti_journal_nodes(run->prepared->files.journal, done,
                                     wefti_now_s() - run->start_s, nodes, n);
    wefti_free(t->slot->ctx, nodes);
    return status;
}

/* What comes after step number `done`: a checkpoint first, for an evaluation may take long. */
static weft_status after_step(rank_thread *t, int64_t done, bool stopping) {
    wefti_prepared *p = t->run->prepared;
    const weft_config *config = p->job->config;
    bool last = done == config->run.steps, ends = last || stopping;
    bool saves = ends || save_is_due(t, done);
    if (saves) WEFT_TRY(wefti_replicator_settle(t->slot->state->replicator));
    if (!p->dataset) return WEFT_OK;
    WEFT_TRY(check_lease(t, true));
    WEFT_TRY(tell_nodes(t, done));
    WEFT_TRY(wefti_traces_write(t->slot->state, config->run.folder));
    bool compare_due = is_due(config->run.compare_every, done) ||
                       (config->run.compare_every > 0 && ends);
    if (compare_due && done != t->gathered)
        WEFT_TRY(wefti_rank_compare(t->slot->state, done - 1));
    if (saves) WEFT_TRY(wefti_saving_save(t->slot->state, p, &t->clock, done, ends));
    bool eval_due = is_due(config->run.eval_every, done) && !stopping;
    return last || eval_due ? evaluate(t, done, last) : WEFT_OK;
}

/* Ends all steps up to `done`: nothing that was sent in them is needed any more. With
 * replicator.delay, in a run that may lose processes, all ranks take in the messages of
 * the last step here, because messages in flight belong to the world in which they were
 * sent. */
static weft_status close_steps(rank_thread *t, int64_t done) {
    WEFT_TRY(read_status(t, done));
    bool elastic = t->mesh && t->mesh->elastic && t->slot->state;
    if (elastic) WEFT_TRY(wefti_replicator_settle(t->slot->state->replicator));
    wefti_elastic_finish(t->mesh, done, done);
    return WEFT_OK;
}

/* The first rank asks for a checkpoint when the clock says so. A request is for one world: a
 * process that comes has not heard of it. */
static void ask_to_save(rank_thread *t) {
    wefti_rank *r = t->slot->state;
    r->says.save = leads(t) && t->run->prepared->dataset &&
                   wefti_saving_is_late(&t->clock, t->run->prepared->job->config);
    if (r->says.save) t->clock.since_s = wefti_now_s();
}

/* One step, up to reading the status that is due. The next one begins where this one has settled,
 * so that waiting for the status, which is all that some ranks wait for, is in one of them. */
static weft_status do_step(rank_thread *t, int64_t step, double *start_s) {
    wefti_tally tally;
    ask_to_save(t);
    if (t->paced != t->run->prepared->job->from.step) t->paced_s = wefti_now_s();
    t->paced = t->run->prepared->job->from.step;
    WEFT_TRY(wefti_learners_step(t->slot->state, t->mesh, step));
    WEFT_TRY(wefti_rank_step(t->slot->state, step));
    WEFT_TRY(wefti_rank_settle(t->slot->state, &tally));
    double settled_s = wefti_now_s();
    weft_step_record record = make_record(t, &tally, settled_s - *start_s);
    t->pending[step % (WEFTI_MAX_LAG + 1)] = record;
    *start_s = settled_s;
    double begun_s = wefti_timeline_now(t->slot->state->timeline);
    WEFT_TRY(read_status(t, step - t->run->prepared->job->lag.status));
    wefti_rank_end(t->slot->state, begun_s);
    int64_t taken_in = step - t->run->prepared->job->replicator_config.delay;
    wefti_elastic_finish(t->mesh, step,
                         t->counted <= taken_in ? t->counted - 1 : taken_in);
    return WEFT_OK;
}

static void tell_change(const rank_thread *t, const char *sentence) {
    const weft_train_hooks *hooks = t->run->hooks;
    if (hooks && hooks->on_change) hooks->on_change(hooks->user, sentence);
}

/* Says in the process that has come that it has its state. */
static void tell_entry(const rank_thread *t, int64_t done) {
    char sentence[240];
    wefti_regroup_entry_text(t->run->prepared, t->slot->state, done + 1, sentence);
    tell_change(t, sentence);
}

/* Learners take part from here on, if they have received everything. */
static weft_status admit(rank_thread *t, int64_t done) {
    bool ends;
    wefti_rank *r = t->slot->state;
    bool learner = wefti_rank_is_learner(r);
    weft_status status = wefti_learners_end(r, done, &ends);
    if (status != WEFT_OK && !wefti_elastic_interrupted(t->slot->ctx, t->mesh, status))
        return status;
    if (!ends || !learner) return WEFT_OK;
    t->run->prepared->bare = false;
    tell_entry(t, done);
    return WEFT_OK;
}

/* Learners wait until the others have done what all ranks meet for. No step begins before
 * that, so that a change of membership in the meantime finds all ranks between the same
 * two steps. */
static weft_status come_together(rank_thread *t, int64_t done) {
    wefti_rank *r = t->slot->state;
    bool learner = wefti_rank_is_learner(r), open = r->learners.open;
    wefti_learners_set_aside(r, done, true);
    weft_status status = learner ? WEFT_OK : after_step(t, done, t->stopping);
    wefti_learners_set_aside(r, done, false);
    if (status != WEFT_OK || !open) return status;
    t->run->prepared->bootstrap.n_messages =
        r->onward.n_control_messages; /* tags for files */
    return wefti_comm_barrier(r->comms.control, wefti_rank_control_tag(r));
}

/* Lets all ranks meet after `done` steps, if a pause is due. *whole: nothing of it failed
 * because membership changed. */
static weft_status pause(rank_thread *t, int64_t done, bool *whole) {
    *whole = true;
    if (!is_pause(t, done)) return WEFT_OK;
    WEFT_TRY(close_steps(t, done - 1));
    t->stopping = t->stop_agreed && done < t->run->prepared->job->config->run.steps;
    if (t->stopping || done >= t->run->prepared->job->config->run.steps)
        wefti_elastic_note(t->mesh, WEFTI_FACT_OVER);
    weft_status status = admit(t, done);
    if (status == WEFT_OK) status = come_together(t, done);
    *whole = status == WEFT_OK;
    if (!wefti_elastic_interrupted(t->slot->ctx, t->mesh, status)) return status;
    weft_ctx_clear(t->run->ctx);
    return WEFT_OK;
}

/* Reports what a process that joins has to wait for. */
static void tell_learner(const rank_thread *t) {
    const wefti_prepared *p = t->run->prepared;
    const wefti_learners *g = &t->slot->state->learners;
    char sentence[200];
    int givers = p->job->replicas_equal ? p->job->R - g->n : 1;
    snprintf(sentence, sizeof sentence,
             "joins in about %.1f s: %.1f MB of state from %d process%s, in %lld steps",
             p->world.join_s, (double)p->world.join_bytes * 1e-6, givers,
             givers > 1 ? "es" : "", (long long)g->slices);
    tell_change(t, sentence);
}

/* Continues from the pause before `step` on, after `done` steps: all were interrupted in it. */
static weft_status regroup(rank_thread *t, int64_t step, int64_t done, bool *whole) {
    training *run = t->run;
    wefti_elastic_world world;
    char sentence[1200];
    static const char *const words[] = {"node goes", "nodes go"};
    WEFT_TRY(close_steps(t, step - 1)); /* while the old world exists */
    t->gathered = t->run->prepared->job->mixer_config.topology ? done : -1;
    bool comes = run->prepared->bare;
    run->prepared->world.done = done;
    run->prepared->world.stops = t->stop_agreed;
    WEFT_TRY(wefti_regroup(t->slot->ctx, run->prepared, step, &t->slot->state, &world));
    t->stop_agreed = run->prepared->world.stops;
    give_hooks(t);
    t->entered = true;
    t->clock.due = -1;
    wefti_node_meter_begin(&t->meter, t->slot->state);
    wefti_loop_tell(&world, run->prepared->job->R, words, sentence);
    if (leads(t)) tell_change(t, sentence);
    if (wefti_rank_is_learner(t->slot->state)) tell_learner(t);
    if (comes && !run->prepared->bare) tell_entry(t, step);
    *whole = false;
    if (wefti_regroup_is_cut_off(run->prepared, t->slot->state)) return WEFT_OK;
    return pause(t, done, whole);
}

/* The others have begun a step with this rank, which was interrupted while its state came
 * to it: what it would send is not of the run. */
static weft_status refuse_step(const rank_thread *t) {
    wefti_elastic_note(t->mesh, WEFTI_FACT_REPLACED); /* it joins again */
    return weft_ctx_fail(
        t->slot->ctx, WEFT_ERR_PEER,
        "rank %d (host %s) has lost a process that was giving it parameters and state",
        t->mesh->rank, weft_mesh_host_of(t->mesh, t->mesh->rank));
}

/* The first step of a world has begun: no other world can take its place any more. */
static weft_status log_view(rank_thread *t) {
    if (!t->entered) return WEFT_OK;
    t->entered = false;
    if (wefti_regroup_is_cut_off(t->run->prepared, t->slot->state)) return refuse_step(t);
    wefti_elastic_forget_missed(t->mesh);
    WEFT_TRY(check_lease(t, true));
    return wefti_viewlog_write(t->run->prepared->ctx, t->run->prepared->views);
}

/* Steps in which nothing is computed, until one in which all ranks say that they have
 * done their last pause: no rank leaves while another may need it to repeat that
 * pause. */
static weft_status leave_together(rank_thread *t, int64_t done, bool whole) {
    bool all = false;
    for (int64_t step = done; !all;) {
        bool changed;
        wefti_step_status agreed;
        WEFT_TRY(wefti_elastic_begin(t->slot->ctx, t->mesh, step, &changed));
        if (changed) {
            WEFT_TRY(regroup(t, step, done, &whole));
            continue;
        }
        WEFT_TRY(log_view(t));
        t->slot->state->now.status = (wefti_step_status){.stop = whole ? 0 : 1};
        WEFT_TRY(wefti_rank_send_status(t->slot->state, step));
        WEFT_TRY(wefti_rank_read_status(t->slot->state, step, &agreed));
        wefti_elastic_finish(t->mesh, step, step);
        t->counted = ++step;
        all = agreed.stop == 0;
    }
    return WEFT_OK;
}

/* Notes how long a step takes, for the log of views and for processes that may join. */
static void note_time(rank_thread *t, double step_s) {
    wefti_prepared *p = t->run->prepared;
    wefti_viewlog_step(p->views, step_s);
    p->step.took_s = step_s;
    p->step.mean_s += p->step.mean_s > 0 ? (step_s - p->step.mean_s) / 8 : step_s;
}

/* Asked to stop, as the others are not: they continue without this copy of the model, whose ranks
 * leave when all know it. What fails from here on is the end of one of them. */
static weft_status leave(rank_thread *t, int64_t done) {
    wefti_rank *r = t->slot->state;
    t->run->result->left = t->run->result->stopped = true;
    t->run->result->steps = done;
    WEFT_TRY(wefti_comm_barrier(r->comms.shard, r->now.n_shard_messages++));
    return weft_ctx_fail(t->slot->ctx, WEFT_ERR_PEER,
                         "it was asked to stop after step %lld", (long long)done);
}

/* From one pause to the next; a step begins when the one before has settled. */
static weft_status rank_loop(rank_thread *t, int64_t step, bool whole) {
    int64_t steps = t->run->prepared->job->config->run.steps;
    bool changed;
    double start_s = wefti_now_s();
    while (step < steps && !t->stopping) {
        if (t->leaves && !t->stop_agreed) return leave(t, step);
        WEFT_TRY(admit(t, step));
        WEFT_TRY(wefti_follow_meet(t->run->prepared, t->slot->state, step));
        WEFT_TRY(wefti_elastic_begin(t->slot->ctx, t->mesh, step, &changed));
        if (changed) {
            WEFT_TRY(regroup(t, step, step, &whole));
            continue;
        }
        WEFT_TRY(log_view(t));
        WEFT_TRY(wefti_share_anew(t->run->prepared, t->slot->state, step, t->run->hooks));
        WEFT_TRY(wefti_follow(t->run->prepared, &t->slot->state, step, t->run->hooks));
        double begun_s = start_s;
        WEFT_TRY(do_step(t, step++, &start_s));
        if (t->slot->first_here) note_time(t, start_s - begun_s);
        if (!is_pause(t, step)) continue;
        WEFT_TRY(pause(t, step, &whole));
        start_s = wefti_now_s();
    }
    if (t->mesh && t->mesh->elastic) WEFT_TRY(leave_together(t, step, whole));
    if (t->slot->first_here) t->run->result->stopped = t->stopping;
    if (t->slot->first_here)
        t->run->result->steps = step; /* it may have done none itself */
    if (leads(t)) wefti_saving_tell(t->run->prepared);
    if (leads(t)) t->run->result->leads = true;
    return WEFT_OK;
}

/* A process that joins builds its rank in its first world. */
static weft_status enter(rank_thread *t, int64_t *step, bool *whole) {
    WEFT_TRY(wefti_regroup_await_entry(t->slot->ctx, t->run->prepared, step));
    t->counted = *step;
    return regroup(t, *step, *step, whole);
}

static weft_status train_rank(rank_thread *t) {
    int64_t step = t->run->prepared->job->from.step;
    bool whole = true;
    t->counted = step;
    WEFT_TRY(t->run->prepared->joins ? enter(t, &step, &whole) : build_rank(t));
    return rank_loop(t, step, whole);
}

/* What fails in things that all ranks share says so in their context. */
static weft_status rank_main(wefti_slot *slot) {
    training *run = slot->user;
    rank_thread t = {.run = run,
                     .slot = slot,
                     .mesh = run->prepared->bootstrap.mesh,
                     .clock = {wefti_now_s(), .due = -1, .hooks = run->hooks},
                     .paced = -1};
    weft_status status = train_rank(&t);
    if (status == WEFT_ERR_NUMERIC) status = wefti_wrong_end(slot->ctx, t.mesh);
    if (status != WEFT_OK && !weft_ctx_message(slot->ctx)[0])
        weft_ctx_fail(slot->ctx, status, "%s", weft_ctx_message(t.run->ctx));
    return status;
}

/* The world of this process. A process that joins learns how the ranks are arranged when
 * it is a member. */
static weft_status find_world(weft_ctx *ctx, training *run) {
    const wefti_prepared *p = run->prepared;
    weft_mesh *mesh = p->bootstrap.mesh;
    if (!p->joins) return wefti_rank_world(ctx, p->job, mesh, &run->world);
    run->world = &mesh->world;
    return WEFT_OK;
}

/* A process beyond the places that the run began with would be a second copy in a site of
 * one, where nothing keeps the two copies equal. */
static bool has_single_sites(const wefti_job *job) {
    return job->site.n > 1 && job->site.replicas == 1;
}

static weft_status refuse_entry(weft_ctx *ctx, const wefti_job *job) {
    if (has_single_sites(job))
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "this run can not be joined: its %d sites are one copy of the "
            "model each, expected several in each, or one site",
            job->site.n);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "this run can not be joined: expected weft's own transport, "
                         "mesh.on_loss=go_on and no mixer.deadline between sites");
}

/* Logs the view with which a run begins or is resumed. */
static weft_status log_start(weft_ctx *ctx, wefti_prepared *p) {
    if (!p->files.run && p->files.lease) p->files.run = wefti_lease_run(p->files.lease);
    const wefti_viewlog_entry entry = {.run = p->files.run,
                                       .view = 1,
                                       .mesh = p->bootstrap.mesh,
                                       .job = p->job,
                                       .done = p->job->config->run.steps};
    p->world.view = entry.view;
    WEFT_TRY(wefti_viewlog_plan(ctx, p->views, &entry));
    return wefti_viewlog_write(ctx, p->views);
}

/* Said by the first rank before the first step, so that the user knows it before a
 * process is lost. */
static void tell_obstacle(weft_ctx *ctx, const wefti_prepared *p) {
    const char *why = wefti_regroup_obstacle(p);
    if (why)
        weft_ctx_log(ctx, WEFT_LOG_INFO,
                     "if a process is lost this run ends, whatever mesh.on_loss says: "
                     "%s; resume it from its checkpoint then",
                     why);
}

static weft_status run_prepared(weft_ctx *ctx, training *run) {
    bool joins = run->prepared->joins;
    bool leads = wefti_bootstrap_leads(&run->prepared->bootstrap) && !joins;
    bool elastic = wefti_regroup_can(run->prepared);
    if (leads) tell_obstacle(ctx, run->prepared);
    if (leads) WEFT_TRY(wefti_saving_predict(ctx, run->prepared));
    if (joins && (!elastic || has_single_sites(run->prepared->job)))
        return refuse_entry(ctx, run->prepared->job);
    WEFT_TRY(wefti_regroup_stop(ctx, run->prepared, &run->leaves_alone));
    WEFT_TRY(wefti_share_check(ctx, run->prepared));
    WEFT_TRY(find_world(ctx, run));
    if (elastic) WEFT_TRY(wefti_regroup_start(ctx, run->prepared));
    if (!joins) WEFT_TRY(log_start(ctx, run->prepared));
    if (leads && run->hooks && run->hooks->on_start)
        run->hooks->on_start(run->hooks->user, &run->prepared->summary);
    run->start_s = wefti_now_s() - run->prepared->elapsed_s;
    weft_status status = wefti_rank_threads_run(
        ctx, run->world, run->prepared->job->run.threads, rank_main, run);
    wefti_world_destroy(ctx, run->world);
    weft_train_result *result = run->result;
    result->elapsed_s = wefti_now_s() - run->start_s;
    result->memory_bytes = wefti_process_peak_bytes();
    result->memory_predicted_bytes = run->prepared->summary.memory_bytes;
    result->hidden_share = hidden_share(run->exchange_s, run->wait_s);
    return status;
}

/* Clears the result; what waits for other ranks, or for a pipe with text, asks should_stop. */
static training begin(weft_ctx *ctx, weft_mesh *mesh, const weft_config *config,
                      const weft_train_hooks *hooks, weft_train_result *result) {
    *result = (weft_train_result){
        .struct_size = sizeof *result, .validation_loss = NAN, .bigram_loss = NAN};
    if (hooks) wefti_stop_watch(ctx, hooks->should_stop, hooks->user);
    if (mesh)
        wefti_mesh_watch(mesh, config->mesh.timeout, hooks ? hooks->should_stop : NULL,
                         hooks ? hooks->user : NULL);
    return (training){.ctx = ctx, .hooks = hooks, .result = result};
}

static weft_status train_prepared(weft_ctx *ctx, training *run) {
    run->result->bigram_loss = run->prepared->bigram_loss;
    run->result->bytes_per_token = weft_dataset_bytes_per_token(run->prepared->dataset);
    run->result->steps = run->prepared->job->from.step;
    bool done = run->result->steps >= run->prepared->config->run.steps;
    return done ? WEFT_OK : run_prepared(ctx, run);
}

static weft_status train(weft_ctx *ctx, weft_mesh *mesh, weft_config *config, bool resume,
                         const weft_train_hooks *hooks, weft_train_result *result) {
    training run = begin(ctx, mesh, config, hooks, result);
    wefti_prepare_as as = resume ? WEFTI_PREPARE_RESUMED : WEFTI_PREPARE_RUN;
    if (mesh && mesh->transport->entry) as = WEFTI_PREPARE_JOINER;
    weft_status status = wefti_prepare(ctx, mesh, config, as, &run.prepared);
    wefti_stop_watch(ctx, NULL, NULL); /* from here on the ranks ask */
    if (status != WEFT_OK) return mesh ? weft_mesh_fail(ctx, mesh, status) : status;
    status = train_prepared(ctx, &run);
    bool fine = status == WEFT_OK, held = wefti_lease_is_held(run.prepared->files.lease);
    weft_status noted = WEFT_OK;
    if (held) noted = wefti_journal_end(run.prepared->files.journal, fine);
    wefti_following_end(run.prepared);
    weft_status closed = wefti_prepared_destroy(ctx, run.prepared);
    if (status != WEFT_OK && result->left) weft_ctx_clear(ctx);
    if (status != WEFT_OK) return result->left ? WEFT_OK : status;
    return noted == WEFT_OK ? closed : noted;
}

weft_status weft_train(weft_ctx *ctx, weft_mesh *mesh, weft_config *config, bool resume,
                       const weft_train_hooks *hooks, weft_train_result *result) {
    WEFTI_SIZED_IN(ctx, weft_train_hooks, hooks);
    WEFTI_SIZED_OUT(ctx, weft_train_result, result);
    return WEFTI_SIZED_GIVE(weft_train_result, result,
                            train(ctx, mesh, config, resume, hooks, result));
}

static weft_status bench(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                         const weft_train_hooks *hooks, weft_train_result *result) {
    training run = begin(ctx, mesh, config, hooks, result);
    weft_status status = wefti_prepare(ctx, mesh, config, WEFTI_PREPARE_BENCH,
                                       &run.prepared);
    wefti_stop_watch(ctx, NULL, NULL);
    if (status != WEFT_OK) return mesh ? weft_mesh_fail(ctx, mesh, status) : status;
    status = run_prepared(ctx, &run);
    weft_status closed = wefti_prepared_destroy(ctx, run.prepared);
    return status == WEFT_OK ? closed : status;
}

weft_status weft_bench_train(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                             const weft_train_hooks *hooks, weft_train_result *result) {
    WEFTI_SIZED_IN(ctx, weft_train_hooks, hooks);
    WEFTI_SIZED_OUT(ctx, weft_train_result, result);
    return WEFTI_SIZED_GIVE(weft_train_result, result,
                            bench(ctx, mesh, config, hooks, result));
}
