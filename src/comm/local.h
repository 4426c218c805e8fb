/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_LOCAL_H
#define WEFTI_LOCAL_H

#include "comm/world.h"

/* The local backend: the ranks as threads of one process, with an emulated wire between
 * nodes. Each node has one full-duplex interface, shared by its ranks: a message of n
 * bytes occupies the sender's outgoing and the receiver's incoming side for n/bandwidth
 * seconds each (cut-through), first come first served, and arrives latency_s later.
 * bandwidth_Bps = 0: no emulation, memory speed. */
weft_status wefti_local_create(weft_ctx *ctx, const wefti_world_shape *shape,
                               wefti_world **out) WEFT_CHECKED;

#endif
