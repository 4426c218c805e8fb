/* SPDX-License-Identifier: MIT */
#pragma once

#include "record/nodes.h"
#include "rank/rank.h"

/* The counters of a rank's process and machine at the last measurement, and its time. All
 * zero: not measured yet. */
typedef struct wefti_node_meter {
    bool begun;
    double at_s, cpu_s, busy_s, all_s; /* clock; of the process; of all cores: busy,
                                          total */
    double net_out, net_in;            /* bytes of the machine's interfaces so far */
    int64_t wire_out, wire_in;         /* payload of this rank so far */
    int64_t relayed;                   /* bytes passed on between two others so far */
} wefti_node_meter;

/* Begins to measure. */
void wefti_node_meter_begin(wefti_node_meter *meter, wefti_rank *r);

/* Every rank sends the first one what was measured since the last call. [out] on the
 * first rank *nodes [*n], owned by the caller (wefti_free), without step and time; NULL
 * and 0 elsewhere. Collective over all ranks, between steps. */
weft_status wefti_nodefacts_gather(wefti_rank *r, wefti_node_meter *meter, int ranks_here,
                                   wefti_node **nodes, int *n) WEFT_CHECKED;
