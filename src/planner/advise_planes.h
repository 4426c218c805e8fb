/* SPDX-License-Identifier: MIT */
#pragma once

#include "planner/advise.h"
#include "simulate/arrayplayer.h"

/* A step as a function of the wire, for whoever has no planner at hand. */

enum { WEFTI_MOST_PLANES = 32 };

/* per_Bps / rate + latencies L + rest, in seconds. */
typedef struct wefti_plane {
    double per_Bps, latencies, rest;
} wefti_plane;

/* In one order of phases a step takes the largest of its planes. */
typedef struct wefti_order_planes {
    wefti_plane plane[WEFTI_MOST_PLANES];
    int n;
} wefti_order_planes;

/* And it takes the least over the orders. */
typedef struct wefti_planes {
    wefti_order_planes order[WEFTI_ARRAY_ORDERS];
    int n;
} wefti_planes;

/* The planes of a candidate, by what is predicted at many points. */
weft_status wefti_planes_find(weft_ctx *ctx, const wefti_adviser *a,
                              const weft_candidate *c, wefti_planes *out) WEFT_CHECKED;

/* The step that they say. */
double wefti_planes_step(const wefti_planes *planes, double bandwidth_Bps,
                         double latency_s);
