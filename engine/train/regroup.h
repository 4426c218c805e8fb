/* SPDX-License-Identifier: MIT */
#pragma once

#include "job/form.h"
#include "loop/loop.h"
#include "train/prepare.h"

/* A run whose processes change while it trains (loop/loop.h). */

/* Whether the run can continue without a node that is lost: this needs weft's own
 * transport, no mixer.deadline between sites of several nodes, and no more processes than
 * membership has room for (202 with gossip, places for joiners included). */
bool wefti_regroup_can(const wefti_prepared *p);

/* Why the loss of a process ends this run although the configuration lets it continue and
 * its transport could; NULL: the run continues, or the configuration does not ask for
 * it. */
const char *wefti_regroup_obstacle(const wefti_prepared *p);

/* What a signal at this process ends (elastic.stop): *alone: its copy of the model leaves, and the
 * others continue; else the run of all. */
weft_status wefti_regroup_stop(weft_ctx *ctx, const wefti_prepared *p,
                               bool *alone) WEFT_CHECKED;

/* The first rank, before it writes: fails if another process has taken over the folder
 * (wefti_lease_check); membership then knows that the others went on
 * without this process, or have ended, as the sentence then says. */
weft_status wefti_regroup_check_lease(weft_ctx *ctx, wefti_prepared *p,
                                      bool look) WEFT_CHECKED;

/* Starts membership: from here on the run continues without lost nodes. Collective. */
weft_status wefti_regroup_start(weft_ctx *ctx, wefti_prepared *p) WEFT_CHECKED;

/* What a process says that has come. Where its folder holds another run it would write nothing
 * there, as the last one, too. */
void wefti_regroup_entry_text(const wefti_prepared *p, const wefti_rank *r, int64_t step,
                              char out[240]);

/* wefti_loop_await_entry, and wefti_loop_enter: afterwards prepared has the world's job, *state is
 * this rank in it, and *change says what happened. */
weft_status wefti_regroup_await_entry(weft_ctx *rank_ctx, wefti_prepared *p,
                                      int64_t *step) WEFT_CHECKED;
weft_status wefti_regroup(weft_ctx *rank_ctx, wefti_prepared *p, int64_t step,
                          wefti_rank **state, wefti_elastic_world *change) WEFT_CHECKED;

/* The first rank takes over the run folder, if it has not yet: a disk that refuses it is no
 * reason to end (files.n_late), and is asked again by the next call, at most once a second. Fails
 * if the others went on without this process; `ctx` says so. */
weft_status wefti_regroup_take_over(weft_ctx *ctx, wefti_prepared *p) WEFT_CHECKED;

/* --- for replays --- */

/* A world's batch, whose job takes the place of p->job from a first step and row on. */
typedef struct wefti_regroup_batch {
    int ranks;
    int64_t rows_per_rank, micro, first_step, first_row;
    const int
        *places; /* [ranks] in the mesh, from which sites, shares and codecs follow; NULL:
                          there are none */
    const int64_t *rows; /* [ranks] of each rank, where they were measured; or NULL */
    const int64_t
        *before; /* [ranks] rows that the same ranks had until then; NULL: as `rows` */
    const wefti_form *form; /* of what crosses the wire; NULL: as it is */
    const int64_t *micros;  /* [ranks / S] of passes (wefti_job_set_micros); or NULL */
} wefti_regroup_batch;

weft_status wefti_regroup_job(weft_ctx *ctx, wefti_prepared *p,
                              const wefti_regroup_batch *batch) WEFT_CHECKED;

/* Whether this rank has neither all of its state nor the place of a learner: a change of
 * membership interrupted the handover. The next world begins with it again; this rank does
 * not take part in a step of this one. */
bool wefti_regroup_is_cut_off(const wefti_prepared *p, const wefti_rank *r);
