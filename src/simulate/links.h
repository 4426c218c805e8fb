/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/cluster.h>

/* A kind of link as messages find it. */
typedef struct wefti_link_time {
    double bandwidth_Bps, latency_s, message_s, bytes_per_message;
    double
        stretch; /* of a message's bytes: what the protocol adds, the incast and losses */
    double up;   /* times as long as a message takes the receiver's interface, that it
                       takes the sender's; 1: rates are the same */
} wefti_link_time;

/* Among `joined` interfaces, over `flows` streams at once. */
wefti_link_time wefti_link_of(const weft_link_facts *facts, int64_t joined,
                              int64_t flows);

/* How machine `node` differs from what the cluster says of all, in times of the others':
 * computing, and its interface outwards and inwards. 1 where nothing is said. */
typedef struct wefti_machine_times {
    double compute, out, in;
} wefti_machine_times;

wefti_machine_times wefti_machine_of(const weft_cluster *c, const wefti_link_time *wire,
                                     const weft_machine *machine);
