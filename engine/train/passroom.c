/* SPDX-License-Identifier: MIT */
/* Passes that have room. Processes may differ in batch.micro and model.recompute, and one whose
 * memory does not hold what it was to take makes room by itself, of what its command line leaves
 * open. The first of these that fits:
 *
 *     activations computed twice    no bit is different, the backward takes half as long again
 *     smaller passes                its own gradient is rounded differently
 *     both
 *
 * All know the passes of all. They stand in views.jsonl where they differ from the run's, and a
 * run that is resumed keeps them. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/schema.h"
#include "record/views.h"
#include "train/prepare.h"

/* --- the memory of this process --- */

typedef struct room {
    int ranks; /* of this process */
    bool limited;
    int64_t here, have, beside; /* have < 0: not known; beside: what ranks share */
} room;

static room room_of(const wefti_prepared *p) {
    const wefti_job *job = p->job;
    int64_t limit = job->config->mesh.memory_limit;
    room m = {.ranks = p->bootstrap.mesh ? 1 : job->W, .limited = limit > 0};
    m.here = wefti_process_resident_bytes();
    m.have = wefti_machine_available_bytes();
    if (m.limited) m.have = limit > m.here ? limit - m.here : 0;
    m.beside = p->library_bytes * m.ranks * job->run.threads + wefti_frozen_bytes(job);
    return m;
}

static int64_t wanted(const room *m, int64_t rank) { return rank * m->ranks + m->beside; }

static bool fits(const room *m, int64_t rank) {
    return m->have < 0 || wanted(m, rank) <= m->have;
}

static weft_status refuse(weft_ctx *ctx, const room *m, const wefti_footprint *f) {
    char a[32], b[32], c[32], d[32], e[32];
    return weft_ctx_fail(
        ctx, WEFT_ERR_MEMORY,
        "the run needs %s (%d rank%s x %s: %s parameters, gradients and state, %s "
        "activations), but %s is free%s; use fewer layers or width, batch.micro=1 or "
        "model.recompute=true",
        wefti_format_bytes((double)wanted(m, f->total), a, sizeof a), m->ranks,
        m->ranks > 1 ? "s" : "", wefti_format_bytes((double)f->total, b, sizeof b),
        wefti_format_bytes((double)(f->total - f->activations - f->batch), c, sizeof c),
        wefti_format_bytes((double)f->activations, d, sizeof d),
        wefti_format_bytes((double)m->have, e, sizeof e),
        m->limited ? " under mesh.memory_limit" : "");
}

/* --- what it changes --- */

static bool is_commanded(const weft_config *c, const char *name) {
    return weft_config_origin_of(c, wefti_config_key_find(name)) == WEFT_ORIGIN_COMMAND;
}

/* What a process tells the others: sequences of a pass by its configuration and by its room, and
 * batch.micro; where its room decided (needs > 0), what it changed. */
typedef struct passes {
    int64_t B, own, base;
    int64_t before, twice, needs, have, limited;
} passes;

/* who: "this process", or another one. */
static void say(weft_ctx *ctx, const char *who, const passes *x) {
    char a[32], b[32], less[100] = "";
    if (x->own < x->before)
        snprintf(less, sizeof less, "takes %lld sequences per pass instead of %lld%s",
                 (long long)x->own, (long long)x->before, x->twice ? " and " : "");
    weft_ctx_log(ctx, WEFT_LOG_WARN, "the run needs %s, but %s is free%s: %s %s%s",
                 wefti_format_bytes((double)x->needs, a, sizeof a),
                 wefti_format_bytes((double)x->have, b, sizeof b),
                 x->limited ? " under mesh.memory_limit" : "", who, less,
                 x->twice ? "computes activations twice (model.recompute)" : "");
}

/* The first way that fits; false: none. */
static bool squeeze(wefti_job *job, const room *m, int64_t *own, wefti_footprint *f) {
    const weft_config *c = job->config;
    int may = is_commanded(c, "batch.micro") ? 0 : WEFTI_SMALLER, way = 1;
    if (!job->run.recomputes && !is_commanded(c, "model.recompute")) may |= WEFTI_TWICE;
    while (way < WEFTI_WAYS &&
           ((way & ~may) || !fits(m, wefti_footprint_way(job, f, *own, way))))
        way++;
    if (way == WEFTI_WAYS) return false;
    if (way & WEFTI_TWICE) job->run.recomputes = true;
    do {
        if (way & WEFTI_SMALLER) *own = wefti_job_less(job, *own);
        wefti_footprint_pass(job, *own, f);
    } while (!fits(m, f->total));
    return true;
}

static weft_status make_room(weft_ctx *ctx, wefti_prepared *p, passes *mine,
                             wefti_footprint *f) {
    wefti_job *job = p->job;
    const room m = room_of(p);
    int64_t peak = wefti_process_peak_bytes();
    wefti_footprint_pass(job, mine->own, f);
    if (!fits(&m, f->total)) {
        const wefti_footprint all = *f;
        mine->before = mine->own;
        mine->needs = wanted(&m, f->total);
        mine->have = m.have;
        mine->limited = m.limited;
        if (!squeeze(job, &m, &mine->own, f)) return refuse(ctx, &m, &all);
        mine->twice = job->run.recomputes && !job->config->model.recompute;
    }
    p->summary.memory_rank_bytes = f->total;
    p->summary.memory_bytes = m.here + wanted(&m, f->total);
    if (peak > p->summary.memory_bytes) /* while the text was read */
        p->summary.memory_bytes = peak;
    return WEFT_OK;
}

/* --- all processes --- */

/* The passes of all ranks in the view that the leader's folder has for the next step; zeros: they
 * were the run's. */
static weft_status read_passes(weft_ctx *ctx, const wefti_prepared *p, int64_t *all) {
    char path[PATH_MAX];
    wefti_views views;
    const wefti_view_line *last = NULL;
    WEFT_TRY(wefti_file_path(ctx, p->config->run.folder, "views.jsonl", path));
    WEFT_TRY(wefti_views_read(ctx, path, &views));
    for (int64_t i = 0; i < views.n_views; i++)
        if (views.views[i].step <= p->saved.step + 1) last = &views.views[i];
    for (int r = 0; r < p->job->W && last && last->n_members == p->job->W; r++)
        all[r] = last->members[r].micro;
    wefti_views_fini(ctx, &views);
    return WEFT_OK;
}

/* The leader alone speaks. */
static void tell(weft_ctx *ctx, const wefti_prepared *p, const passes *all) {
    const wefti_bootstrap *b = &p->bootstrap;
    for (int r = 0; r < (b->comm ? p->job->W : 1); r++) {
        char who[120] = "this process";
        if (r > 0)
            snprintf(who, sizeof who, "rank %d on %.80s", r,
                     weft_mesh_host_of(b->mesh, r));
        if (all[r].needs > 0) say(ctx, who, &all[r]);
    }
}

/* Takes what all say, which comes from outside. [out] own: passes of each rank. */
static weft_status hear(weft_ctx *ctx, wefti_prepared *p, const passes *all,
                        int64_t *own) {
    wefti_job *job = p->job;
    for (int r = 0; r < job->W; r++) {
        int64_t B = all[r].B > all[r].own ? all[r].B : all[r].own;
        if (all[r].own < 1 || B > job->batch.per_rank || all[r].base < 0)
            return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                                 "rank %d says that it takes %lld sequences per pass, "
                                 "expected 1 to %lld",
                                 r, (long long)all[r].own,
                                 (long long)job->batch.per_rank);
        if (B > job->B) job->B = B;
        if (p->bootstrap.comm || own[r] == 0 || own[r] > all[r].own) own[r] = all[r].own;
    }
    p->rows.base = all[0].base;
    if (wefti_bootstrap_leads(&p->bootstrap)) tell(ctx, p, all);
    return WEFT_OK;
}

static weft_status gather(weft_ctx *ctx, wefti_prepared *p, const passes *mine,
                          int64_t *own) {
    wefti_bootstrap *b = &p->bootstrap;
    passes *all;
    WEFT_TRY(wefti_alloc_n(ctx, p->job->W, sizeof *all, "passes", &all));
    weft_status status = WEFT_OK;
    for (int r = 0; r < p->job->W; r++) all[r] = *mine;
    if (b->comm)
        status = wefti_comm_all_gather(b->comm, b->n_messages++, mine, sizeof *mine, all);
    if (status == WEFT_OK) status = hear(ctx, p, all, own);
    wefti_free(ctx, all);
    return status;
}

static weft_status agree(weft_ctx *ctx, wefti_prepared *p, const passes *mine,
                         int64_t *own) {
    wefti_job *job = p->job;
    WEFT_TRY(gather(ctx, p, mine, own));
    for (int r = 0; r < job->W; r++) /* of a copy of the model the least */
        if (r % job->S == 0 || own[r] < own[r / job->S]) own[r / job->S] = own[r];
    job->batch.n_micro = (job->batch.per_rank + job->B - 1) / job->B;
    WEFT_TRY(wefti_job_set_micros(ctx, job, own));
    p->rows.own = job->batch.micros ? mine->own : 0;
    return WEFT_OK;
}

static weft_status take(weft_ctx *ctx, wefti_prepared *p, wefti_footprint *f,
                        int64_t *own) {
    const wefti_job *job = p->job;
    const weft_config *c = job->config;
    wefti_bootstrap *b = &p->bootstrap;
    int me = wefti_bootstrap_rank(b);
    passes mine = {.B = job->B, .own = job->B, .base = c->batch.micro};
    if (p->views && p->saved.step >= 0) {
        if (wefti_bootstrap_leads(b)) WEFT_TRY(read_passes(ctx, p, own));
        WEFT_TRY(wefti_bootstrap_tell(b, own, job->W * (int64_t)sizeof *own));
    }
    if (is_commanded(c, "batch.micro")) memset(own, 0, (size_t)job->W * sizeof *own);
    if (own[me] > 0) mine.own = own[me];
    for (int r = 0; r < job->W && !b->comm; r++) /* all are here */
        if (own[r] > mine.own) mine.own = own[r];
    WEFT_TRY(make_room(ctx, p, &mine, f));
    if (!p->joins) return agree(ctx, p, &mine, own);
    if (mine.needs > 0) say(ctx, "this process", &mine);
    p->rows.own = c->batch.micro > 0 || mine.own < job->B ? mine.own : 0;
    return WEFT_OK;
}

weft_status wefti_passroom_take(weft_ctx *ctx, wefti_prepared *p, wefti_footprint *f) {
    int64_t *own;
    WEFT_TRY(wefti_alloc_n(ctx, p->job->W, sizeof *own, "passes", &own));
    weft_status status = take(ctx, p, f, own);
    wefti_free(ctx, own);
    return status;
}
