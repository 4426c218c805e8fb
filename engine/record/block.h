/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"
#include "record/history.h"
#include "record/nodes.h"
#include "record/planned.h"
#include "record/views.h"

/* What a run's folder says, as far as it is there. */
typedef struct wefti_material {
    const char *name;          /* borrowed */
    wefti_run run;             /* metrics.jsonl */
    wefti_planned planned;     /* plan.json */
    wefti_timelines timelines; /* timeline.json */
    wefti_views views;         /* views.jsonl */
    wefti_nodes nodes;         /* nodes.jsonl */
    char *config;              /* owned; config.yaml; NULL: there is none */
    bool is_planned;
} wefti_material;

/* Puts the data of n runs as one JSON object (docs/metrics.md, "The page's data"), run
 * after run, so that one run at a time is in memory. All together have about as many rows
 * as one has at most. */
/* refresh_s: how often a page asks for the data again; 0: never. */
void wefti_block_begin(weft_ctx *ctx, wefti_buffer *out, double refresh_s);
weft_status wefti_block_add(weft_ctx *ctx, wefti_buffer *out, const wefti_material *run,
                            int index, int n) WEFT_CHECKED;
void wefti_block_end(weft_ctx *ctx, wefti_buffer *out);
