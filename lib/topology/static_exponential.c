/* SPDX-License-Identifier: MIT */
/* The exponential graph (Ying et al. arXiv 2110.13363): in every step every member hears the
 * members at distances 1, 2, 4, ... < n before it, all with weight 1/(d+1), d = ceil(log2 n).
 * The matrix is circulant, so columns add up to one as rows do. For n <= 3 this is the
 * complete graph. */
#include "topology/topology.h"

static weft_status static_exponential_create(weft_ctx *ctx, weft_topology *t,
                                             const weft_topology_config *config) {
    (void)ctx, (void)config;
    int64_t n = t->facts.members, d = wefti_log2_up(n);
    t->facts.directed = n > 3;
    t->facts.exact = n <= 3;
    t->facts.max_sources = d + 1;
    t->facts.max_targets = d;
    return WEFT_OK;
}

static void static_exponential_neighbours(const weft_topology *t, int member,
                                          int64_t step, weft_neighbours *out) {
    (void)step;
    int n = wefti_topology_members(t), d = wefti_log2_up(n);
    out->group = n <= 3;
    wefti_hear(out, member, 1.0 / (d + 1));
    for (int i = 0; i < d; i++) {
        int offset = 1 << i;
        wefti_hear(out, (member + n - offset) % n, 1.0 / (d + 1));
        wefti_reach(out, (member + offset) % n);
    }
}

const wefti_topology_ops wefti_topology_static_exponential = {
    .name = "static_exponential",
    .create = static_exponential_create,
    .neighbours = static_exponential_neighbours,
};
