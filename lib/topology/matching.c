/* SPDX-License-Identifier: MIT */
/* A random matching in every step (after the pairs of Boyd et al. 2006), which depends only on
 * (seed, step); all matchings are equally likely. Each member draws a 64-bit key. In the order
 * of the keys the first and the second member are a pair, the third and the fourth, and so on;
 * with n odd the last one has no partner. The partner has the next lower or the next higher
 * key, so one pass over the members finds it without memory. Equal keys: the lower member
 * first. */
#include "base/rng.h"
#include "topology/topology.h"

static weft_status matching_create(weft_ctx *ctx, weft_topology *t,
                                   const weft_topology_config *config) {
    (void)ctx, (void)config;
    int64_t n = t->facts.members;
    t->facts.period = n <= 2 ? 1 : 0;
    t->facts.exact = n <= 2;
    t->facts.max_sources = n < 2 ? 1 : 2;
    t->facts.max_targets = n < 2 ? 0 : 1;
    return WEFT_OK;
}

typedef struct ticket {
    uint64_t key;
    int member; /* -1: none */
} ticket;

static bool is_before(ticket a, ticket b) {
    return a.key < b.key || (a.key == b.key && a.member < b.member);
}

static ticket draw(const weft_topology *t, int64_t step, int member) {
    uint64_t key = wefti_rng_u64(t->seed, WEFTI_STREAM_MATCHING, (uint64_t)step,
                                 (uint64_t)member);
    return (ticket){key, member};
}

static void matching_neighbours(const weft_topology *t, int member, int64_t step,
                                weft_neighbours *out) {
    ticket mine = draw(t, step, member), below = {0, -1}, above = {0, -1};
    int64_t n_below = 0;
    for (int j = 0; j < wefti_topology_members(t); j++) {
        if (j == member) continue;
        ticket other = draw(t, step, j);
        if (is_before(other, mine)) {
            n_below++;
            if (below.member < 0 || is_before(below, other)) below = other;
        } else if (above.member < 0 || is_before(other, above)) {
            above = other;
        }
    }
    wefti_pair(out, member, n_below % 2 == 1 ? below.member : above.member);
}

const wefti_topology_ops wefti_topology_matching = {
    .name = "matching",
    .create = matching_create,
    .neighbours = matching_neighbours,
};
