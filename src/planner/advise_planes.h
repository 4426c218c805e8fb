/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_ADVISE_PLANES_H
#define WEFTI_ADVISE_PLANES_H

#include "planner/advise.h"

/* A step as a function of the cluster, for whoever has no planner at hand. */

enum { WEFTI_MOST_PLANES = 64 };

/* compute C + per_Bps / rate + latencies L + rest, in seconds; C is 1 for the computing that
 * was planned with. */
typedef struct wefti_plane {
    double compute, per_Bps, latencies, rest;
} wefti_plane;

/* A step takes the largest of its planes. */
typedef struct wefti_planes {
    wefti_plane plane[WEFTI_MOST_PLANES];
    int n;
} wefti_planes;

/* The planes of a candidate, by what is predicted for many rates and latencies. */
weft_status wefti_planes_find(weft_ctx *ctx, const wefti_adviser *a,
                              const weft_candidate *c, wefti_planes *out) WEFT_CHECKED;

/* The step that they say. */
double wefti_planes_step(const wefti_planes *planes, double compute, double bandwidth_Bps,
                         double latency_s);

#endif
