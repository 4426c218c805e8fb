/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/cluster.h>

/* The cost of messages on a kind of link. */
typedef struct wefti_link_time {
    double bandwidth_Bps, latency_s, message_s, bytes_per_message;
    double
        stretch; /* factor of a message's bytes: protocol overhead, incast and losses */
    double up;   /* time of a message at the sender's interface, relative to that at the
                       receiver's; 1: rates are the same */
    double limit_Bps,
        pair_Bps; /* what losses and windows leave of any interface's rate, and
                                   of that from one to another; 0: no limit */
} wefti_link_time;

/* Who sends over a link at the same time. */
typedef struct wefti_link_use {
    int64_t joined;    /* interfaces */
    int64_t flows;     /* streams from one interface to another */
    int64_t streams;   /* mesh.streams: sockets of each of them; other programs have 1 */
    double stream_Bps; /* of one socket, where that was measured */
    int64_t peers; /* processes to which a process has sockets; 0: the other interfaces */
} wefti_link_use;

wefti_link_time wefti_link_of(const weft_link_facts *facts, wefti_link_use use);

/* The times of machine `node` relative to those of the other machines: of computing, and
 * of its interface outwards and inwards. 1 where nothing is given. */
typedef struct wefti_machine_times {
    double compute, out, in;
} wefti_machine_times;

wefti_machine_times wefti_machine_of(const weft_cluster *c, const wefti_link_time *wire,
                                     const weft_machine *machine);
