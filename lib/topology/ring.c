/* SPDX-License-Identifier: MIT */
/* One peer per step on a ring, whose pairs are weft's own order: step t pairs (t, t+1), (t+2,
 * t+3), ... mod n. With n even these are (0,1)(2,3).. and (1,2)..(n-1,0) alternately. With n
 * odd one member has no partner, a different one in each of n steps, so that every link of the
 * ring is used equally. */
#include "topology/topology.h"

static weft_status ring_create(weft_ctx *ctx, weft_topology *t,
                               const weft_topology_config *config) {
    (void)ctx, (void)config;
    int64_t n = t->facts.members;
    t->facts.period = n <= 2 ? 1 : n % 2 == 0 ? 2 : n;
    t->facts.exact = n <= 2 || n == 4; /* with 4 members the pairs of two steps give the
                                          exact mean */
    t->facts.max_sources = n < 2 ? 1 : 2;
    t->facts.max_targets = n < 2 ? 0 : 1;
    return WEFT_OK;
}

static void ring_neighbours(const weft_topology *t, int member, int64_t step,
                            weft_neighbours *out) {
    int n = wefti_topology_members(t);
    int place = (member + n - (int)step) % n; /* counted from the first pair */
    int partner = place % 2 == 1 ? member - 1 : place + 1 == n ? member : member + 1;
    wefti_pair(out, member, (partner + n) % n);
}

const wefti_topology_ops wefti_topology_ring = {
    .name = "ring",
    .create = ring_create,
    .neighbours = ring_neighbours,
};
