/* SPDX-License-Identifier: MIT */
/* The lists of a member's neighbours. A kind fills them in any order; they are sorted here.
 *
 * Weights in f32 are multiples of 2^-24; every sum of such weights up to one is exact. The
 * weights of the neighbours are rounded to multiples, and the member's own weight is the
 * rest up to 1. Equal weights round equally. So where the weights in double are symmetric
 * or the same for every member, columns add up to exactly one, as rows do. In kinds that
 * need push-sum weights rows have other sums; their weights are multiples already. */
#include <math.h>

#include "base/memory.h"
#include "topology/topology.h"

int wefti_log2_down(int64_t n) {
    int k = 0;
    while (n >> (k + 1)) k++;
    return k;
}

int wefti_log2_up(int64_t n) { return n <= 1 ? 0 : 1 + wefti_log2_down(n - 1); }

/* ---- filling ---- */

void wefti_hear(weft_neighbours *out, int source, double weight) {
    out->sources[out->n_sources] = source;
    out->weights[out->n_sources++] = weight;
}

void wefti_reach(weft_neighbours *out, int target) {
    out->targets[out->n_targets++] = target;
}

void wefti_pair(weft_neighbours *out, int member, int partner) {
    bool alone = partner < 0 || partner == member;
    out->group = true;
    wefti_hear(out, member, alone ? 1 : 0.5);
    if (alone) return;
    wefti_hear(out, partner, 0.5);
    wefti_reach(out, partner);
}

void wefti_hear_all(weft_neighbours *out, int member, int first, int n) {
    out->group = true;
    for (int j = first; j < first + n; j++) {
        wefti_hear(out, j, 1.0 / n);
        if (j != member) wefti_reach(out, j);
    }
}

void wefti_pair_nodes(const weft_topology *t, int member, wefti_fold_pair met,
                      weft_neighbours *out) {
    int L = (int)t->facts.ranks, node = member / L;
    if (met.partner < 0) {
        wefti_hear_all(out, member, node * L, L);
        return;
    }
    out->group = true;
    for (int half = 0; half < 2;
         half++) { /* the lower node first, so that the list is sorted */
        int at = (half == 0) == (node < met.partner) ? node : met.partner;
        for (int j = at * L; j < (at + 1) * L; j++) {
            wefti_hear(out, j, (at == node ? 1 - met.weight : met.weight) / L);
            if (j != member) wefti_reach(out, j);
        }
    }
}

/* ---- putting in order ---- */

static void sort_sources(weft_neighbours *out) {
    for (int i = 1; i < out->n_sources; i++) {
        int source = out->sources[i], j = i;
        double weight = out->weights[i];
        for (; j > 0 && out->sources[j - 1] > source; j--) {
            out->sources[j] = out->sources[j - 1];
            out->weights[j] = out->weights[j - 1];
        }
        out->sources[j] = source;
        out->weights[j] = weight;
    }
}

static void sort_targets(weft_neighbours *out) {
    for (int i = 1; i < out->n_targets; i++) {
        int target = out->targets[i], j = i;
        for (; j > 0 && out->targets[j - 1] > target; j--)
            out->targets[j] = out->targets[j - 1];
        out->targets[j] = target;
    }
}

static void round_weights(const weft_topology *t, weft_neighbours *out) {
    const double one = 16777216; /* 2^24 */
    double left = one;
    for (int j = 0; j < out->n_sources; j++) {
        double units = nearbyint(out->weights[j] * one);
        out->weights_f32[j] = (float)(units / one);
        if (j == out->self) continue;
        left -= units;
    }
    if (!t->facts.push_sum) out->weights_f32[out->self] = (float)(left / one);
}

void weft_topology_neighbours(const weft_topology *t, int64_t member, int64_t step,
                              weft_neighbours *out) {
    if (t->facts.period > 0) step %= t->facts.period;
    out->n_sources = out->n_targets = out->self = 0;
    out->group = false;
    t->ops->neighbours(t, (int)member, step, out);
    sort_sources(out);
    sort_targets(out);
    while (out->sources[out->self] != member) out->self++;
    out->mean = out->group;
    for (int j = 1; j < out->n_sources; j++)
        out->mean = out->mean && out->weights[j] == out->weights[0];
    round_weights(t, out);
}

/* ---- room ---- */

weft_status weft_neighbours_create(weft_ctx *ctx, const weft_topology *t,
                                   weft_neighbours **out) {
    *out = NULL;
    size_t sources = (size_t)t->facts.max_sources, targets = (size_t)t->facts.max_targets;
    size_t per_source = sizeof(double) + sizeof(float) + sizeof(int);
    weft_neighbours *n;
    WEFT_TRY(wefti_alloc(ctx, sizeof *n + sources * per_source + targets * sizeof(int),
                         "the neighbours of a member", &n));
    n->weights = (double *)(void *)(n + 1);
    n->weights_f32 = (float *)(void *)(n->weights + sources);
    n->sources = (int *)(void *)(n->weights_f32 + sources);
    n->targets = n->sources + sources;
    *out = n;
    return WEFT_OK;
}

void weft_neighbours_destroy(weft_ctx *ctx, weft_neighbours *neighbours) {
    wefti_free(ctx, neighbours);
}
