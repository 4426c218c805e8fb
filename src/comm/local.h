/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_LOCAL_H
#define WEFTI_LOCAL_H

#include "comm/comm.h"

/* The local engine: R replicas x S shards as threads of one process, with an emulated
 * wire between nodes. rank = replica * S + shard; neighbouring replicas share a node,
 * neighbouring nodes a site. */
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
    WEFTI_GROUP_WORLD,   /* all ranks */
    WEFTI_GROUP_SHARD,   /* the ranks that share one copy of the model */
    WEFTI_GROUP_REPLICA, /* the ranks with this shard, one per replica of this site */
    WEFTI_GROUP_SITES    /* the ranks with this shard at this place in its site, one per
                            site; with one site: as WEFTI_GROUP_REPLICA */
} wefti_group;

/* How ranks lie: replicas_per_node divides replicas, sites divides the nodes. A site has
 * one interface to all other sites, shared by its nodes, which obeys site_wire. */
typedef struct wefti_world_shape {
    int replicas, shards, replicas_per_node, sites;
    wefti_wire_model wire, site_wire;
} wefti_world_shape;

weft_status wefti_world_create(weft_ctx *ctx, const wefti_world_shape *shape,
                               wefti_world **out) WEFT_CHECKED;
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
