/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_LOCAL_H
#define WEFTI_LOCAL_H

#include "comm/comm.h"

/* The local engine: R nodes x S ranks as threads of one process, with an emulated wire
 * between nodes. rank = node * S + local. */
typedef struct wefti_world wefti_world;

/* The emulated wire. Each node has one full-duplex interface, shared by its ranks: a
 * message of n bytes occupies the sender's outgoing and the receiver's incoming side for
 * n/bandwidth seconds each (cut-through), first come first served, and arrives latency_s
 * later. bandwidth_Bps = 0: no emulation, memory speed. */
typedef struct wefti_wire_model {
    double bandwidth_Bps;
    double latency_s;
} wefti_wire_model;

typedef enum wefti_group {
    WEFTI_GROUP_WORLD,  /* all ranks */
    WEFTI_GROUP_SHARD,  /* the ranks of this node */
    WEFTI_GROUP_REPLICA /* the ranks with this local index, one per node */
} wefti_group;

weft_status wefti_world_create(weft_ctx *ctx, int nodes, int ranks_per_node,
                               wefti_wire_model wire, wefti_world **out) WEFT_CHECKED;
/* All communicators must be destroyed first. */
void wefti_world_destroy(weft_ctx *ctx, wefti_world *world);

/* One rank's view of a group. `channel` separates communicators over the same group
 * (0..7). `ctx` is borrowed, owns the memory and gets the error sentences. Not
 * collective. */
weft_status wefti_world_join(weft_ctx *ctx, wefti_world *world, int rank,
                             wefti_group group, int channel,
                             wefti_comm **out) WEFT_CHECKED;

/* Wakes every waiting rank with WEFT_ERR_PEER; the first caller's sentence is kept. */
void wefti_world_poison(wefti_world *world, int rank, weft_status status,
                        const char *text);

/* The first failure: its rank, or -1 if there is none. [out] text: at least 1024 bytes.
 */
int wefti_world_failure(wefti_world *world, weft_status *status, char *text);

#endif
