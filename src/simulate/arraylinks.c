/* SPDX-License-Identifier: MIT */
/* All to all, n nodes, message k of node i to node i + k: with o_i when node i's
 * interface begins and b what a message takes it, the last byte for node j comes at
 *
 *     max over k of (o_{j-k} + (k-1) b) + latency + b
 *
 * but not before j's own interface has taken n-1 messages since the first came. */
#include "simulate/arraystate.h"

#include <math.h>

/* circle[j] <- max over k = 1 .. n-1 of (leaves of j-k + (k-1) busy), of nodes whose
 * links are slower by `factor`. With places p = 0 .. 2 n - 1, twice round, that is the
 * largest of leaves - p busy over the n-1 places before, kept in a falling list. */
static void go_round(const wefti_array_player *e, double factor, double busy) {
    int n = e->nodes, first = 0, last = 0, *list = e->places;
    double each = factor * busy;
    for (int p = 0; p < 2 * n; p++) {
        int j = p % n;
        while (first < last && list[first] < p - (n - 1)) first++;
        if (p >= n && first < last) {
            int q = list[first];
            double g = e->leaves[q % n] + (p - 1 - q) * each;
            if (g > e->circle[j]) e->circle[j] = g;
        }
        if (slowness(e, j) != factor) continue;
        double mine = e->leaves[j] - p * each;
        while (first < last &&
               e->leaves[list[last - 1] % n] - list[last - 1] * each <= mine)
            last--;
        list[last++] = p;
    }
}

void wefti_array_send_to_all(wefti_array_player *e, double *x, double n_bytes, mail out) {
    int n = e->nodes, c = e->copies;
    double busy = busy_s(e, n_bytes) * c * c, first = INFINITY, last = -INFINITY;
    double cpu_s = e->wire * (e->R - 1) * wire_of(e)->message_s;
    double latency_s = e->wire * wire_of(e)->latency_s;
    for (int node = 0; node < n; node++) {
        double at = -INFINITY, out_s = (n - 1) * busy * slowness(e, node);
        for (int i = node * c; i < (node + 1) * c; i++) {
            x[i] += cpu_s;
            at = later(at, x[i]);
        }
        e->leaves[node] = wefti_interface_leave(&e->interfaces[node], at, out_s);
        e->circle[node] = -INFINITY;
        first = sooner(first, e->leaves[node]);
        last = later(last, at);
    }
    go_round(e, 1, busy);
    if (e->weather.slower_links) go_round(e, e->weather.slow_link, busy);
    for (int node = 0; node < n; node++) {
        double own = busy * slowness(e, node), there = last, soonest = last;
        if (n > 1) {
            double begins = later(e->interfaces[node].in_free_s, first + latency_s);
            soonest = begins + own;
            there = later(begins + (n - 1) * own, e->circle[node] + latency_s + own);
            e->interfaces[node].in_free_s = there;
        }
        for (int i = node * c; i < (node + 1) * c; i++) {
            out.first[i] = soonest;
            out.there[i] = there;
            out.sent[i] = last;
        }
    }
}
