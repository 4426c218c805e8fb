/* SPDX-License-Identifier: MIT */
/* Computes the time of messages from the facts about a wire.
 *
 *     rate      b' = min(b, k 1.22 m / (2 L sqrt(p)))         m = 1448 bytes a packet
 *               and at most k (n-1) W / 2 L                   W: window of a socket; in place
 *                                                             of W / 2 L its rate, if measured
 *     bytes     n' = n (1 + overhead) incast / (1 - p)        p: share of packets lost
 *     latency   L' = L + J (1 + 1/2 + ... + 1/(n-1))          J: mean delay beyond L
 *
 * A lost packet is sent again, and halves the rate of its stream: the first line is the mean
 * rate of a stream with congestion control like Reno's (Mathis, Semke, Mahdavi, Ott, "The
 * macroscopic behavior of the TCP congestion avoidance algorithm", 1997). Congestion control
 * that does not treat loss as congestion is faster, so this estimate is conservative. The
 * last line is the mean of the last of n - 1 delays, each exponential with the mean J,
 * because an exchange waits for the last of its messages. All of it grows with p, L and J.
 *
 * k: the sockets from one interface to another that count (net/window.h). Nothing below 10 us
 * is a socket, and what was measured crossed one already. */
#include "simulate/links.h"

#include <math.h>

#include "net/window.h"

enum { PACKET_BYTES = 1448 };
static const double rdma_latency_s = 10e-6;
static const double of_reno = 1.22;

/* The limit that losses put on a rate; 0: no limit. */
static double loss_limit_Bps(const weft_link_facts *facts, double sockets) {
    if (facts->loss <= 0 || facts->latency_s <= 0) return 0;
    return sockets * of_reno * PACKET_BYTES / (2 * facts->latency_s * sqrt(facts->loss));
}

/* The rate from one interface to another; 0: no limit. */
static double window_limit_Bps(const weft_link_facts *facts, double sockets,
                               double stream_Bps) {
    if (stream_Bps > 0) return sockets * stream_Bps;
    if (facts->latency_s < rdma_latency_s || facts->residual > 0) return 0;
    return sockets * wefti_window_bytes(0) / (2 * facts->latency_s);
}

static double sockets_of(const weft_link_facts *facts, wefti_link_use use) {
    double peers = (double)(use.peers > 0 ? use.peers : use.joined - 1);
    return fmax(1, (double)use.flows) *
           wefti_window_filled(use.streams, 2 * facts->latency_s, peers);
}

static double least(double rate_Bps, double limit_Bps) {
    if (limit_Bps <= 0) return rate_Bps;
    return rate_Bps > 0 ? fmin(rate_Bps, limit_Bps) : limit_Bps;
}

static double last_of(int64_t n) {
    double sum = 0;
    for (int64_t k = 1; k <= n && k <= 1000000; k++) sum += 1 / (double)k;
    return sum;
}

wefti_link_time wefti_link_of(const weft_link_facts *facts, wefti_link_use use) {
    double incast = use.joined > 2 && facts->incast > 0 ? facts->incast : 1;
    double sockets = sockets_of(facts, use), loss = fmin(facts->loss, 0.99);
    double pair_Bps = window_limit_Bps(facts, sockets, use.stream_Bps);
    double limit_Bps = least(pair_Bps * fmax(1, (double)(use.joined - 1)),
                             loss_limit_Bps(facts, sockets));
    double in_Bps = facts->bandwidth_Bps > 0 ? facts->bandwidth_Bps : facts->up_Bps;
    double out_Bps = facts->up_Bps > 0 ? facts->up_Bps : in_Bps;
    in_Bps = least(in_Bps, limit_Bps);
    out_Bps = least(out_Bps, limit_Bps);
    return (wefti_link_time){.bandwidth_Bps = in_Bps,
                             .latency_s = facts->latency_s +
                                          facts->jitter_s * last_of(use.joined - 1),
                             .message_s = facts->message_s,
                             .bytes_per_message = facts->bytes_per_message,
                             .stretch = (1 + facts->overhead) * incast / (1 - loss),
                             .up = out_Bps > 0 ? in_Bps / out_Bps : 1,
                             .limit_Bps = limit_Bps,
                             .pair_Bps = pair_Bps};
}

static double times(double wire_Bps, double own_Bps) {
    return wire_Bps > 0 && own_Bps > 0 ? wire_Bps / own_Bps : 1;
}

wefti_machine_times wefti_machine_of(const weft_cluster *c, const wefti_link_time *wire,
                                     const weft_machine *machine) {
    wefti_machine_times t = {1, wire->up, 1};
    if (machine->rank_flops > 0 && c->rank_flops > 0)
        t.compute = c->rank_flops / machine->rank_flops;
    double wire_Bps = wire->bandwidth_Bps, limit_Bps = wire->limit_Bps;
    if (machine->bandwidth_Bps > 0) {
        t.in = times(wire_Bps, least(machine->bandwidth_Bps, limit_Bps));
        t.out = t.in; /* the rate is that of both directions, if no other is given */
    }
    if (machine->up_Bps > 0) t.out = times(wire_Bps, least(machine->up_Bps, limit_Bps));
    return t;
}
