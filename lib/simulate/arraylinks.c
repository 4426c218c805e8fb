/* SPDX-License-Identifier: MIT */
/* All to all, n nodes, message k of node i to node i + k: with o_i the time when node i's
 * interface begins, b_i its time per message outwards and c_j inwards, the last byte for
 * node j arrives at
 *
 *     max over k of (o_{j-k} + (k-1) b_{j-k} + max(b_{j-k}, c_j)) + latency
 *
 * but not before j's own interface has taken n-1 messages since the first came. */
#include "simulate/arraystate.h"

#include <math.h>

/* Equality of factors that are copies of each other. */
static bool is_same(double a, double b) { return !(a < b) && !(a > b); }

/* circle[j] <- max over k = 1 .. n-1 of (leaves of j-k + (k-1) b + max(b, c_j)), over the
 * nodes whose interface takes b = factor busy outwards. With places p = 0 .. 2 n - 1,
 * twice around the circle, that is the largest of leaves - p busy over the n-1 places
 * before, kept in a decreasing list. */
static void go_round(const wefti_array_player *e, double factor, double busy) {
    int n = e->nodes, first = 0, last = 0, *list = e->places;
    double each = factor * busy;
    for (int p = 0; p < 2 * n; p++) {
        int j = p % n;
        while (first < last && list[first] < p - (n - 1)) first++;
        if (p >= n && first < last) {
            int q = list[first];
            double g = e->leaves[q % n] + (p - 1 - q) * each;
            e->circle[j] = later(e->circle[j], g + later(each, e->own_in[j] * busy));
        }
        if (!is_same(e->own_out[j], factor)) continue;
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
        double at = -INFINITY, out_s = (n - 1) * busy * e->own_out[node];
        for (int i = node * c; i < (node + 1) * c; i++) {
            x[i] += cpu_s;
            at = later(at, x[i]);
        }
        e->leaves[node] = wefti_interface_leave(&e->interfaces[node], at, out_s);
        e->circle[node] = -INFINITY;
        first = sooner(first, e->leaves[node]);
        last = later(last, at);
    }
    for (int k = 0; k < e->n_outs; k++) go_round(e, e->outs[k], busy);
    for (int node = 0; node < n; node++) {
        double own = busy * e->own_in[node], there = last, soonest = last;
        if (n > 1) {
            double begins = later(e->interfaces[node].in_free_s, first + latency_s);
            soonest = begins + own;
            there = later(begins + (n - 1) * own, e->circle[node] + latency_s);
            e->interfaces[node].in_free_s = there;
        }
        for (int i = node * c; i < (node + 1) * c; i++) {
            out.first[i] = soonest;
            out.there[i] = there;
            out.sent[i] = last;
        }
    }
}
