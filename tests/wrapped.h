/* SPDX-License-Identifier: MIT */
/* A communicator around another one, to which it passes on what it is asked. A test's own struct
 * begins with a `wrapped`, and has a `send` of its own. */
#pragma once

#include "comm/comm.h"

typedef struct wrapped {
    wefti_comm head;
    wefti_comm *inner;
} wrapped;

static inline wefti_comm *inner_of(wefti_comm *comm) { return ((wrapped *)comm)->inner; }

static inline weft_status pass_receive(wefti_comm *comm, int peer, int64_t tag,
                                       int64_t n_bytes, const void **view) {
    return wefti_comm_receive(inner_of(comm), peer, tag, n_bytes, view);
}

static inline void pass_release(wefti_comm *comm, int peer, int64_t tag) {
    wefti_comm_release(inner_of(comm), peer, tag);
}

static inline weft_status pass_await(wefti_comm *comm, int64_t tag) {
    return wefti_comm_await(inner_of(comm), tag);
}

/* All but `send`. */
#define PASSED_ON .receive = pass_receive, .release = pass_release, .await = pass_await
