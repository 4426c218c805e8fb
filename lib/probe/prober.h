/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/probe.h>

#include "probe/samples.h"
#include "rank/rank.h"

/* The work of every rank of a mesh while it is probed. Each rank has a wefti_rank of a calm
 * run (wefti_probe_calm_config) and calls wefti_probe_rank; a backend has to do nothing else.
 *
 * All ranks make the same measurements in the same order, agree on their number, and
 * gather all samples. All compute the same results from them, and rank 0 records these. */

typedef struct wefti_probe_setup {
    const wefti_job *job; /* of the run as configured; borrowed, read-only */
    double seconds;       /* approximate limit for the whole probe */
    int machine_ranks;    /* ranks that share the memory of a machine */
    bool sockets;         /* ranks are processes that are connected by network sockets */
    weft_ctx *owner;      /* of the result; borrowed, used by rank 0's thread alone */
} wefti_probe_setup;

/* [out] *out: the same model, batch and optimizer, but without exchange, clipping and
 * emulated slowness; owned by the caller (weft_config_destroy). */
weft_status wefti_probe_calm_config(weft_ctx *ctx, const weft_config *config,
                                    weft_config **out) WEFT_CHECKED;

/* Collective over all ranks. Fills the result on rank 0, whose cluster exists already;
 * other ranks pass NULL. hooks: for on_part, or NULL. */
weft_status wefti_probe_rank(wefti_rank *r, const wefti_probe_setup *setup,
                             const weft_probe_options *hooks,
                             weft_probe_result *result) WEFT_CHECKED;

/* --- internal --- */

typedef struct wefti_prober {
    wefti_rank *rank; /* borrowed, like what follows */
    const wefti_probe_setup *setup;
    const weft_probe_options *hooks;
    weft_probe_result *result; /* NULL on all ranks but 0 */
    weft_ctx *ctx;
    wefti_comm *comm; /* all ranks */
} wefti_prober;

/* Replaces x by the largest x of all ranks. Collective. */
weft_status wefti_prober_agree(wefti_prober *p, double *x) WEFT_CHECKED;

/* The number of rounds of round_s that fit into `seconds` on the slowest rank, an even
 * number within [least, most]. Collective. */
weft_status wefti_prober_rounds(wefti_prober *p, double round_s, double seconds,
                                int64_t least, int64_t most,
                                int64_t *rounds) WEFT_CHECKED;

/* For measurements on one thread of a rank: the number of turns that the ranks of a
 * machine take, so that each active rank has a core. */
int wefti_prober_turns(const wefti_prober *p);

/* Calls act(user) on this rank in its turn. Collective. */
weft_status wefti_prober_in_turn(wefti_prober *p, weft_status (*act)(void *user),
                                 void *user) WEFT_CHECKED;

/* A barrier: all ranks leave it at about the same time. Collective. */
weft_status wefti_prober_meet(wefti_prober *p) WEFT_CHECKED;

/* Gathers the samples of all ranks: mine [n] -> out. [out] out owned by the caller
 * (wefti_samples_fini), also after a failure. Collective. */
weft_status wefti_prober_gather(wefti_prober *p, const double *mine, int64_t n,
                                wefti_samples *out) WEFT_CHECKED;

/* Records a figure on rank 0; other ranks do nothing. */
weft_status wefti_prober_note(wefti_prober *p,
                              const weft_probe_figure *figure) WEFT_CHECKED;
/* Records the medians of samples as a figure. */
weft_status wefti_prober_note_samples(wefti_prober *p, const char *name, const char *unit,
                                      wefti_samples *s) WEFT_CHECKED;

/* Appends an item to a list of the cluster, on rank 0. */
weft_status wefti_prober_append(wefti_prober *p, weft_cluster_list list,
                                const void *item) WEFT_CHECKED;

/* The parts, each with the seconds that it may take. Collective. */
weft_status wefti_probe_rates(wefti_prober *p, double seconds) WEFT_CHECKED;
weft_status wefti_probe_steps(wefti_prober *p, double seconds) WEFT_CHECKED;
weft_status wefti_probe_optimizers(wefti_prober *p, double seconds) WEFT_CHECKED;
weft_status wefti_probe_codecs(wefti_prober *p, double seconds) WEFT_CHECKED;
weft_status wefti_probe_links(wefti_prober *p, double seconds) WEFT_CHECKED;
weft_status wefti_probe_collectives(wefti_prober *p, double seconds) WEFT_CHECKED;

/* A part of wefti_probe_codecs: the mixers' work on one thread of every rank. Collective. */
weft_status wefti_probe_mixers(wefti_prober *p, double seconds) WEFT_CHECKED;
