/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"

/* nodes.jsonl: what each node's machine did, one JSON object per node whenever all ranks come
 * together (an evaluation, a checkpoint, a comparison of the replicas, the end), of the time
 * since they did before:
 *
 *     step, elapsed_s, node (number), host, ranks, cores (that its processes may use)
 *     pass_rows       sequences per pass of its ranks; recomputes: 1: computed twice
 *     cpu_cores       cores that the ranks' processes kept busy
 *     busy_share      of all cores of the machine, by whatever ran there
 *     memory_bytes    resident, of all its processes; rank_bytes: of its largest rank
 *     net_out, net_in    bytes per second through the machine's network interfaces
 *     wire_out, wire_in  bytes per second of weft's own payload to and from other nodes
 *     relayed         bytes per second that passed between two others (docs/launching.md)
 *
 * What a machine does not tell is null. */

typedef struct wefti_node {
    int64_t step;
    double elapsed_s;
    int node, ranks, cores;
    int pass_rows, recomputes;
    char host[64];
    double cpu_cores, busy_share;
    double memory_bytes, rank_bytes;
    double net_out, net_in, wire_out, wire_in, relayed;
} wefti_node;

enum { WEFTI_NODE_FIGURES = 9 }; /* the doubles from cpu_cores on, in this order */

/* Their names in the file. */
extern const char *const wefti_node_names[WEFTI_NODE_FIGURES];
double *wefti_node_figure(wefti_node *node, int i);

/* The lines of a file in its order, the newest few MB of it. */
typedef struct wefti_nodes {
    wefti_node *lines; /* [n] owned */
    int64_t n, room;
} wefti_nodes;

/* Reads <path>; no file: no nodes. Lines that are no such object are left out with a warning.
 * On failure nothing is owned. */
weft_status wefti_nodes_read(weft_ctx *ctx, const char *path,
                             wefti_nodes *out) WEFT_CHECKED;
void wefti_nodes_fini(weft_ctx *ctx, wefti_nodes *nodes);

/* [{"node","host","ranks","cores","step":[..],"cpu_cores":[..],...}] of each node, for the page:
 * columns of at most `most` rows, evenly picked, the newest among them. */
void wefti_nodes_put(weft_ctx *ctx, wefti_buffer *out, const wefti_nodes *nodes,
                     int64_t most);
