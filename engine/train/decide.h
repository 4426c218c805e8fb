/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/cluster.h>

#include "train/prepare.h"

/* What was decided for a run with method=auto. */
typedef struct wefti_decision {
    int64_t nodes, ranks_per_node;
    char keep[16];       /* decide.keep */
    char settings[320];  /* keys, separated by blanks, that replace method=auto */
    char sentence[1200]; /* what was taken, and why; or why nothing was */
} wefti_decision;

/* How a run begins. */
typedef struct wefti_start {
    /* Of the checkpoint that it continues, whose state every method must be able to go on with. */
    const wefti_saved_layout *saved; /* or NULL */
    double most_Bps;                 /* that a node may send in these hours; 0: any */
} wefti_start;

/* Replaces method=auto of a run that is being prepared and knows its tokenizer: all processes
 * measure, the leader decides and writes decision.json and cluster.yaml, and all set the same
 * keys. A run that is resumed takes the keys from there; a process that joins gets them by a
 * member. Other runs are left alone. Collective, except where one joins. */
weft_status wefti_decide(weft_ctx *ctx, weft_config *config,
                         wefti_prepared *p) WEFT_CHECKED;

/* With mesh.compute_time the cluster computes as slowly as the run will: what was measured is how
 * fast this machine is. *times: how much slower; 1: as it was. */
weft_status wefti_decide_pace(weft_ctx *ctx, const weft_config *run,
                              weft_cluster *cluster, double *times) WEFT_CHECKED;

/* The decision by itself, from what was measured; the same cluster gives the same one. `run`: with
 * method=auto, finished. [out] *text owned by the caller (wefti_free): the reasons, for `weft plan
 * RUN`. */
weft_status wefti_decide_on(weft_ctx *ctx, const weft_config *run,
                            const weft_cluster *cluster, const wefti_start *start,
                            wefti_decision *out, char **text) WEFT_CHECKED;

/* decision.json of a run's folder. *found: there is one. reasons: NULL: "". */
weft_status wefti_decision_write(weft_ctx *ctx, const char *folder,
                                 const wefti_decision *d,
                                 const char *reasons) WEFT_CHECKED;
weft_status wefti_decision_read(weft_ctx *ctx, const char *folder, wefti_decision *out,
                                bool *found) WEFT_CHECKED;
