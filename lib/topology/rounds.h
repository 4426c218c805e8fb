/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "topology/topology.h"

/* A schedule of pairs of nodes, for the topology `measured`, and two ways to make one
 * from costs. cost_s[N][N] is symmetric, INFINITY where there is no link. */
typedef struct wefti_rounds {
    int N;
    int64_t n;              /* rounds */
    wefti_fold_pair *pairs; /* [n * N] owned */
    double seconds;         /* of all rounds; a round takes as long as its slowest link */
} wefti_rounds;

void wefti_rounds_fini(weft_ctx *ctx, wefti_rounds *rounds);

/* Appends a round in which `partners[N]` (-1: none) take their means. */
weft_status wefti_rounds_add(weft_ctx *ctx, const double *cost_s, const int *partners,
                             wefti_rounds *rounds) WEFT_CHECKED;

/* The most valuable links first (greedy.c): after all rounds a tenth of the disagreement
 * is left, or 4 N rounds are done. Fails if the links do not connect all nodes. */
weft_status wefti_greedy_rounds(weft_ctx *ctx, int N, const double *cost_s,
                                wefti_rounds *out) WEFT_CHECKED;

/* The rounds of fold.c, with nodes in those places that make them cheap (relabel.c).
 * out->seconds is INFINITY if they need a link that does not exist. */
weft_status wefti_relabelled_rounds(weft_ctx *ctx, int N, const double *cost_s,
                                    wefti_rounds *out) WEFT_CHECKED;
