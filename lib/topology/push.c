/* SPDX-License-Identifier: MIT */
/* Push-sum (Kempe, Dobra & Gehrke 2003): in every step every member sends to one other and keeps
 * half of its value. The receiver depends only on (seed, step, member); all others are equally
 * likely:
 *
 *     W_jj = 1/2      W_ij = 1/2 if j sends to i
 *
 * Columns add up to one. Rows do not: a member sends to one other, but receives from
 * none, one or several. So plain averaging would pull all members towards those that
 * happen to be heard often; push-sum weights (weft/topology.h: push_sum) correct that.
 * With two members each hears the other, and W is the mean. */
#include "base/rng.h"
#include "topology/topology.h"

static weft_status push_create(weft_ctx *ctx, weft_topology *t,
                               const weft_topology_config *config) {
    (void)ctx, (void)config;
    int64_t n = t->facts.members;
    t->facts.period = n <= 2 ? 1 : 0;
    t->facts.exact = n <= 2;
    t->facts.directed = t->facts.push_sum = n > 2;
    t->facts.max_sources = n;
    t->facts.max_targets = n < 2 ? 0 : 1;
    return WEFT_OK;
}

static int draw_target(const weft_topology *t, int64_t step, int member) {
    uint64_t n = (uint64_t)t->facts.members;
    uint64_t draw = wefti_rng_u64(t->seed, WEFTI_STREAM_PUSH, (uint64_t)step,
                                  (uint64_t)member);
    uint64_t distance = 1 + ((draw >> 32) * (n - 1) >> 32); /* 1..n-1 */
    return (int)(((uint64_t)member + distance) % n);
}

static void push_neighbours(const weft_topology *t, int member, int64_t step,
                            weft_neighbours *out) {
    int n = wefti_topology_members(t);
    out->group = n <= 2;
    wefti_hear(out, member, n == 1 ? 1 : 0.5);
    for (int j = 0; j < n; j++)
        if (j != member && draw_target(t, step, j) == member) wefti_hear(out, j, 0.5);
    if (n > 1) wefti_reach(out, draw_target(t, step, member));
}

const wefti_topology_ops wefti_topology_push = {
    .name = "push",
    .create = push_create,
    .neighbours = push_neighbours,
};
