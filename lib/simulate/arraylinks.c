/* SPDX-License-Identifier: MIT */
/* All to all, n nodes, message k of node i to node i + k: with o_i the time when node i's
 * interface begins, b_i its time per message outwards and c_j inwards, the last byte for
 * node j arrives at
 *
 *     max over k of (o_{j-k} + (k-1) b_{j-k} + max(b_{j-k}, c_j)) + latency
 *
 * but not before j's own interface has taken n-1 messages since the first came. Where nodes send in
 * codecs of their own (replicator.node_values), c_j is of the message that comes. */
#include "simulate/arraystate.h"

#include <math.h>

/* Equality of factors that are copies of each other. */
static bool is_same(double a, double b) { return !(a < b) && !(a > b); }

/* The time of a message at an interface of the cluster's rate, by the sender's codec. */
typedef struct sizes {
    double busy_s[WEFTI_VALUE_CODECS];
    const wefti_replicator_config *config; /* NULL: all are busy_s[0] */
} sizes;

static int row_of(const wefti_array_player *e, const sizes *s, int node) {
    return s->config ? wefti_values_row(s->config, node * e->copies) : 0;
}

/* circle[j] <- max over k = 1 .. n-1 of (leaves of j-k + (k-1) b + max(b, c_j)), over the
 * nodes of a codec whose interface takes b = factor busy outwards. With places p = 0 .. 2 n - 1,
 * twice around the circle, that is the largest of leaves - p busy over the n-1 places
 * before, kept in a decreasing list. */
static void go_round(const wefti_array_player *e, double factor, const sizes *s, int r) {
    int n = e->nodes, first = 0, last = 0, *list = e->places;
    double busy = s->busy_s[r], each = factor * busy;
    for (int p = 0; p < 2 * n; p++) {
        int j = p % n;
        while (first < last && list[first] < p - (n - 1)) first++;
        if (p >= n && first < last) {
            int q = list[first];
            double g = e->leaves[q % n] + (p - 1 - q) * each;
            e->circle[j] = later(e->circle[j], g + later(each, e->own_in[j] * busy));
        }
        if (!is_same(e->own_out[j], factor) || row_of(e, s, j) != r) continue;
        double mine = e->leaves[j] - p * each;
        while (first < last &&
               e->leaves[list[last - 1] % n] - list[last - 1] * each <= mine)
            last--;
        list[last++] = p;
    }
}

/* The time that the others' messages take at a node's interface. */
static double others_s(const wefti_array_player *e, const sizes *s, int node) {
    double sum = 0;
    if (!s->config) return (e->nodes - 1) * (s->busy_s[0] * e->own_in[node]);
    for (int i = 0; i < e->nodes; i++)
        if (i != node) sum += s->busy_s[row_of(e, s, i)];
    return sum * e->own_in[node];
}

static void send(wefti_array_player *e, double *x, const sizes *s, mail out) {
    int n = e->nodes, c = e->copies, rows = s->config ? wefti_values_rows(s->config) : 1;
    double first = INFINITY, last = -INFINITY;
    double cpu_s = e->wire * (e->R - 1) * wire_of(e)->message_s;
    double latency_s = e->wire * wire_of(e)->latency_s;
    for (int node = 0; node < n; node++) {
        double at = -INFINITY;
        double out_s = (n - 1) * s->busy_s[row_of(e, s, node)] * e->own_out[node];
        for (int i = node * c; i < (node + 1) * c; i++) {
            x[i] += cpu_s;
            at = later(at, x[i]);
        }
        e->leaves[node] = wefti_interface_leave(&e->interfaces[node], at, out_s);
        e->circle[node] = -INFINITY;
        first = sooner(first, e->leaves[node]);
        last = later(last, at);
    }
    for (int k = 0; k < e->n_outs; k++)
        for (int row = 0; row < rows; row++) go_round(e, e->outs[k], s, row);
    for (int node = 0; node < n; node++) {
        double there = last, soonest = last;
        if (n > 1) {
            double begins = later(e->interfaces[node].in_free_s, first + latency_s);
            double in_s = others_s(e, s, node);
            soonest = begins +
                      (s->config ? in_s / (n - 1) : s->busy_s[0] * e->own_in[node]);
            there = later(begins + in_s, e->circle[node] + latency_s);
            e->interfaces[node].in_free_s = there;
        }
        for (int i = node * c; i < (node + 1) * c; i++) {
            out.first[i] = soonest;
            out.there[i] = there;
            out.sent[i] = last;
        }
    }
}

void wefti_array_send_to_all(wefti_array_player *e, double *x, double n_bytes, mail out) {
    sizes s = {.busy_s = {busy_s(e, n_bytes) * e->copies * e->copies}};
    send(e, x, &s, out);
}

/* Messages of owners differ by a few bytes where a bucket does not divide evenly, and by
 * whole chunks where it has few of them for each: then all wait for the owner of the most
 * bytes, whose interface receives or sends that many for every other. */
static double bytes_of_owners(const int64_t *bytes, int R) {
    const double few = 1.1;
    double sum = 0, most = 0;
    for (int i = 0; i < R; i++) {
        sum += (double)bytes[i];
        most = later(most, (double)bytes[i]);
    }
    return most > few * sum / R ? most : sum / R;
}

void wefti_array_send_lengths(wefti_array_player *e, double *x, const int64_t *lengths,
                              mail out) {
    const wefti_replicator_config *config = &e->job->replicator_config;
    sizes s = {.config = config->values_of ? config : NULL};
    for (int row = 0; row < wefti_values_rows(config); row++) {
        double n_bytes = bytes_of_owners(lengths + (int64_t)row * e->R, e->R);
        s.busy_s[row] = busy_s(e, n_bytes) * e->copies * e->copies;
    }
    send(e, x, &s, out);
}
