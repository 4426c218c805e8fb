/* SPDX-License-Identifier: MIT */
#pragma once

#include "planner/advise.h"
#include "simulate/arrayplayer.h"

/* A step as a function of the wire, for code that has no planner (the page). */

enum { WEFTI_MOST_PLANES = 32 };

/* per_Bps / rate + latencies L + rest, in seconds. */
typedef struct wefti_plane {
    double per_Bps, latencies, rest;
} wefti_plane;

/* The time of a step in one order of phases: the maximum of its planes. */
typedef struct wefti_order_planes {
    wefti_plane plane[WEFTI_MOST_PLANES];
    int n;
} wefti_order_planes;

/* The time of a step: the minimum over the orders. */
typedef struct wefti_planes {
    wefti_order_planes order[WEFTI_ARRAY_ORDERS];
    int n;
} wefti_planes;

/* Finds the planes of a candidate from predictions at many points. */
weft_status wefti_planes_find(weft_ctx *ctx, const wefti_adviser *a,
                              const weft_candidate *c, wefti_planes *out) WEFT_CHECKED;
