/* SPDX-License-Identifier: MIT */
/* A step in time, two micro-batches of embedding, blocks 0 and 1, and head, three
 * buckets:
 *
 *     compute   | answer | load 0: forward E 0 1, backward H 1 0 E
 *               |        | load 1: forward E 0 1, backward H 1 0 E | status | wait | settle
 *                                            submit  b0    b1    b2              ^
 *                                                     |     |     |              |
 *     exchange                                      begin b0    begin b2         |
 *                                                         begin b1  combine b0 ... end b2
 *                                                                   apply b0  ... finish b2
 *
 * Before a unit's forward and backward pass its parameters are gathered from the ranks of
 * the replica, unless they are already there; after its backward pass the gradient is
 * reduced to these ranks. A bucket goes to the exchange thread when its last unit is done
 * in the last micro-batch. There it passes the phases of the list below, each phase in
 * the order of the buckets; `order` says which phase is next. Everything follows from the
 * job:
 *
 *     clip   replicator       norm           buckets are submitted   applied by
 *     0      keeps norms      in apply       at once                 exchange thread
 *     0      any other        in begin       at once                 exchange thread
 *     > 0    keeps norms      when all       at once                 compute thread
 *                             are back
 *     > 0    any other        after the      after the norm          exchange thread
 *                             last backward
 *
 * Clipping needs the norm of the whole gradient before any rank makes its step. Where the
 * direction has the gradient's norm (full), the agreed gradient is clipped; otherwise
 * each replica clips its own gradient before it sends any of it.
 *
 * A gradient that is sent is read in begin in any case, unless its norm is known already:
 * what is not finite is not sent (rank/finite.c). */
#include "step/schedule.h"

#include "base/assert.h"
#include "base/memory.h"
#include "mix/mixer.h"
#include "replicate/replicator.h"

const char *wefti_op_name(wefti_op_kind kind) {
    static const char *const names[WEFTI_OP_KINDS] = {[WEFTI_OP_ANSWER] = "submit answer",
                                                      [WEFTI_OP_LOAD] = "load",
                                                      [WEFTI_OP_GATHER] = "gather",
                                                      [WEFTI_OP_FORWARD] = "forward",
                                                      [WEFTI_OP_BACKWARD] = "backward",
                                                      [WEFTI_OP_REDUCE] = "reduce",
                                                      [WEFTI_OP_SUBMIT] = "submit",
                                                      [WEFTI_OP_INNER] = "inner step",
                                                      [WEFTI_OP_STATUS] = "status",
                                                      [WEFTI_OP_WAIT] = "wait",
                                                      [WEFTI_OP_NORM] = "norm",
                                                      [WEFTI_OP_APPLY] = "apply",
                                                      [WEFTI_OP_FINISH] = "finish",
                                                      [WEFTI_OP_SETTLE] = "settle",
                                                      [WEFTI_OP_READ] = "read status"};
    return names[kind];
}

const char *wefti_schedule_phase_name(const wefti_schedule *s, int phase, int64_t item) {
    static const char *const names[WEFTI_PHASE_KINDS] = {
        [WEFTI_PHASE_BEGIN] = "begin",
        [WEFTI_PHASE_COMBINE] = "combine",
        [WEFTI_PHASE_END] = "end",
        [WEFTI_PHASE_COMBINE_SITES] = "combine sites",
        [WEFTI_PHASE_END_SITES] = "end sites",
        [WEFTI_PHASE_APPLY] = "apply",
        [WEFTI_PHASE_FINISH] = "finish"};
    WEFTI_ASSERT(phase >= 0 && phase < s->n_phases);
    wefti_phase_kind kind = s->phases[phase].kind;
    if (!wefti_schedule_is_answer(s, item)) return names[kind];
    return kind == WEFTI_PHASE_COMBINE ? "answer" : NULL;
}

/* --- the exchange thread --- */

static bool keeps_norm(const wefti_replicator_config *config) {
    return wefti_replicator_find(config->kind)->keeps_norm;
}

static bool agreed_keeps_norm(const wefti_job *job) {
    return keeps_norm(&job->replicator_config) &&
           (!wefti_job_has_sites(job) || keeps_norm(&job->site_replicator_config));
}

static void resolve_clip(const wefti_job *job, wefti_schedule *s) {
    if (job->optimizer.clip > 0)
        s->clip = agreed_keeps_norm(job) ? WEFTI_CLIP_AGREED : WEFTI_CLIP_LOCAL;
    s->at_once = s->clip != WEFTI_CLIP_LOCAL;
    s->overlaps = job->config->mesh.overlap;
}

static wefti_phase *add_phase(wefti_schedule *s, wefti_phase_kind kind,
                              wefti_group group) {
    WEFTI_ASSERT(s->n_phases < WEFTI_MAX_PHASES);
    wefti_phase *phase = &s->phases[s->n_phases++];
    *phase = (wefti_phase){.kind = kind, .group = group};
    return phase;
}

/* Whether any of a gradient leaves the replica. Its norm then shows first that all of it is
 * finite. */
static bool sends(const wefti_job *job) {
    const wefti_replicator_ops *ops = wefti_replicator_find(job->replicator_config.kind);
    return job->R > 1 && (ops->begin || ops->encode);
}

static void list_phases(const wefti_job *job, wefti_schedule *s) {
    bool norm_of_agreed = agreed_keeps_norm(job), unclipped = s->clip == WEFTI_CLIP_NONE;
    wefti_phase *begin = add_phase(s, WEFTI_PHASE_BEGIN, WEFTI_GROUP_REPLICA);
    begin->scales = s->clip == WEFTI_CLIP_LOCAL;
    bool noted = unclipped && !norm_of_agreed && !job->as.outside;
    begin->measures = !begin->scales && (noted || sends(job));
    add_phase(s, WEFTI_PHASE_COMBINE, WEFTI_GROUP_REPLICA);
    add_phase(s, WEFTI_PHASE_END, WEFTI_GROUP_REPLICA);
    if (wefti_job_has_sites(job)) {
        add_phase(s, WEFTI_PHASE_COMBINE_SITES, WEFTI_GROUP_SITES);
        add_phase(s, WEFTI_PHASE_END_SITES, WEFTI_GROUP_SITES);
    }
    /* With one exchange, two consecutive phases wait for other ranks; with sites, four
     * do, and then only the oldest bucket may continue (comm/worker.h). */
    /* Where sites meet, or the ranks of a replica exchange in apply, the oldest bucket
     * goes first: docs/architecture.md, section 5. */
    bool by_job = wefti_job_has_sites(job) || (job->optimizer.n_whole > 0 && job->S > 1);
    s->order = by_job ? WEFTI_ORDER_BY_JOB : WEFTI_ORDER_BY_PHASE;
    if (job->as.outside) return;              /* the rest is the caller's */
    if (s->clip == WEFTI_CLIP_AGREED) return; /* ... the compute thread's */
    wefti_phase *apply = add_phase(s, WEFTI_PHASE_APPLY, WEFTI_GROUP_SITES);
    apply->measures = unclipped && norm_of_agreed;
    if (!job->replicas_equal) add_phase(s, WEFTI_PHASE_FINISH, WEFTI_GROUP_SITES);
}

/* --- the compute thread --- */

typedef struct writer {
    weft_ctx *ctx;
    const wefti_job *job;
    const wefti_arrangement *a;
    int64_t n_micro, per_inner; /* passes: all; of an optimizer step */
    wefti_schedule *s;
    int gathered[WEFTI_PLACES]; /* unit whose parameters are there; -1: none */
} writer;

static weft_status add(writer *w, wefti_op op) {
    wefti_schedule *s = w->s;
    if (s->n_ops == s->room) {
        int room = 2 * s->room + 64;
        WEFT_TRY(wefti_grow(w->ctx, &s->ops, s->n_ops, room, sizeof op, "a step's ops"));
        s->room = room;
    }
    s->ops[s->n_ops++] = op;
    return WEFT_OK;
}

static weft_status put(writer *w, wefti_op_kind kind, int index) {
    WEFTI_ASSERT(index >= 0);
    return add(w, (wefti_op){.kind = kind, .index = index});
}

static weft_status each_bucket(writer *w, wefti_op_kind kind) {
    for (int b = 0; b < w->a->n_buckets; b++) WEFT_TRY(put(w, kind, b));
    return WEFT_OK;
}

static weft_status submit(writer *w, int bucket) {
    WEFTI_ASSERT(bucket >= 0 && bucket < w->a->n_buckets);
    WEFT_TRY(put(w, WEFTI_OP_SUBMIT, bucket));
    return w->s->overlaps ? WEFT_OK : put(w, WEFTI_OP_WAIT, 0);
}

static bool is_gathered(const wefti_schedule *s, int u) {
    for (int i = 0; i < s->n_ops; i++)
        if (s->ops[i].kind == WEFTI_OP_GATHER && s->ops[i].index == u) return true;
    return false;
}

static weft_status gather(writer *w, int u) {
    WEFTI_ASSERT(u < w->job->model->n_units);
    if (w->job->S == 1 || u < 0) return WEFT_OK;
    int place = wefti_job_own_place(w->job, u) ? 1 : 0;
    if (w->gathered[place] == u || (w->job->run.keeps_whole && is_gathered(w->s, u)))
        return WEFT_OK;
    w->gathered[place] = u;
    return put(w, WEFTI_OP_GATHER, u);
}

/* Gathers a unit, and the unit whose table it borrows (a tied head). */
static weft_status gather_for(writer *w, int u) {
    WEFT_TRY(gather(w, u));
    return gather(w, w->job->model->units[u].borrows);
}

/* Share of the step's computing that is done after unit u: a third of a micro-batch is
 * its forward pass; in the backward pass the share grows with the parameters that it has
 * passed. */
static double share_after(const writer *w, int64_t micro, int u) {
    const weft_model *model = w->job->model;
    int64_t left = 0;
    for (int v = 0; v < u; v++) left += model->units[v].n_elements;
    double share = 1 - 2.0 / 3 * (double)left / (double)model->n_elements;
    return ((double)micro + share) / (double)w->n_micro;
}

static weft_status backward(writer *w, int64_t micro, int u) {
    int b = w->a->bucket_of[u];
    bool complete = micro == w->n_micro - 1 && w->a->bucket_last_unit[b] == u;
    WEFT_TRY(gather_for(w, u));
    WEFT_TRY(add(w, (wefti_op){WEFTI_OP_BACKWARD, u, share_after(w, micro, u)}));
    if (w->job->S > 1) WEFT_TRY(put(w, WEFTI_OP_REDUCE, u));
    return complete && w->s->at_once ? submit(w, b) : WEFT_OK;
}

static weft_status micro_batch(writer *w, int64_t micro) {
    int n = w->job->model->n_units;
    WEFT_TRY(put(w, WEFTI_OP_LOAD, (int)micro));
    for (int u = 0; u < n - 1; u++) {
        WEFT_TRY(gather_for(w, u));
        WEFT_TRY(put(w, WEFTI_OP_FORWARD, u));
    }
    for (int u = n - 1; u >= 0; u--) WEFT_TRY(backward(w, micro, u));
    bool inner = (micro + 1) % w->per_inner == 0 && micro + 1 < w->n_micro;
    return inner ? put(w, WEFTI_OP_INNER, (int)micro) : WEFT_OK;
}

/* What the compute thread still has to do when the gradient is complete. */
static weft_status clip(writer *w) {
    if (w->s->clip == WEFTI_CLIP_NONE) return WEFT_OK;
    if (w->s->clip == WEFTI_CLIP_AGREED) WEFT_TRY(put(w, WEFTI_OP_WAIT, 0));
    WEFT_TRY(put(w, WEFTI_OP_NORM, 0));
    if (w->s->clip == WEFTI_CLIP_AGREED) {
        if (w->job->as.outside) return WEFT_OK; /* the rest is the caller's */
        WEFT_TRY(each_bucket(w, WEFTI_OP_APPLY));
        return w->job->replicas_equal ? WEFT_OK : each_bucket(w, WEFTI_OP_FINISH);
    }
    for (int b = 0; b < w->a->n_buckets; b++) WEFT_TRY(submit(w, b));
    return WEFT_OK;
}

static weft_status list_ops(writer *w) {
    bool answers = wefti_mixer_find(w->job->mixer_config.kind)->answer;
    if (answers) WEFT_TRY(each_bucket(w, WEFTI_OP_ANSWER));
    w->s->passes_at = w->s->n_ops;
    for (int64_t m = 0; m < w->n_micro; m++) WEFT_TRY(micro_batch(w, m));
    w->s->close_at = w->s->n_ops;
    WEFT_TRY(put(w, WEFTI_OP_STATUS, 0));
    WEFT_TRY(clip(w));
    w->s->settle_at = w->s->n_ops;
    WEFT_TRY(put(w, WEFTI_OP_WAIT, 0));
    WEFT_TRY(put(w, WEFTI_OP_SETTLE, 0));
    w->s->read_at = w->s->n_ops;
    return put(w, WEFTI_OP_READ, 0);
}

/* --- the whole --- */

weft_status wefti_schedule_create(weft_ctx *ctx, const wefti_job *job,
                                  const wefti_arrangement *arrangement, int replica,
                                  wefti_schedule **out) {
    wefti_schedule *s;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *s, "the schedule", &s));
    writer w = {.ctx = ctx, .job = job, .a = arrangement, .s = s};
    w.n_micro = replica < 0 ? job->batch.n_micro : wefti_job_passes(job, replica);
    w.per_inner = replica < 0 ? w.n_micro
                              : w.n_micro / wefti_job_inner_steps(job, replica);
    for (int i = 0; i < WEFTI_PLACES; i++) w.gathered[i] = -1;
    s->n_buckets = arrangement->n_buckets;
    resolve_clip(job, s);
    list_phases(job, s);
    WEFTI_TRY_OR(list_ops(&w), wefti_schedule_destroy(ctx, s));
    WEFTI_ASSERT(s->passes_at <= s->close_at && s->close_at < s->settle_at);
    WEFTI_ASSERT(s->settle_at < s->read_at && s->read_at == s->n_ops - 1);
    *out = s;
    return WEFT_OK;
}

void wefti_schedule_destroy(weft_ctx *ctx, wefti_schedule *s) {
    if (!s) return;
    WEFTI_FREE(ctx, s->ops, s);
}
