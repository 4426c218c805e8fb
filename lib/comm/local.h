/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/missed.h"
#include "comm/world.h"

/* The local backend: the ranks are threads of one process, with an emulated wire between
 * nodes. Each node has one full-duplex interface, shared by its ranks: a message of n bytes
 * occupies the sender's outgoing and the receiver's incoming side for n/bandwidth seconds
 * each (cut-through), first come first served, and arrives latency_s later. bandwidth_Bps =
 * 0: no emulation, memory speed. */
weft_status wefti_local_create(weft_ctx *ctx, const wefti_world_shape *shape,
                               wefti_world **out) WEFT_CHECKED;

/* For the replay of a run: the pieces of steps that did not count in it, by their ranks in
 * this world (wefti_comm_receive_piece). The list is borrowed while the world lives, and
 * must be set before the ranks begin. */
void wefti_local_skip(wefti_world *world, const wefti_missed *list, int n);

/* Whether a message of `peer` to this rank, or this rank's own part of a sum, did not
 * count. False if the ranks are not threads. */
bool wefti_local_skips(const wefti_comm *comm, int peer, int64_t tag);
