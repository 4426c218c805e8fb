/* SPDX-License-Identifier: MIT */
/* One-peer exponential graph (Ying et al. arXiv 2110.13363), period ceil(log2 n). n a
 * power of two: step i pairs j with j XOR 2^i; after all bits everyone has the mean. Any
 * other n: in step i member j receives from j - 2^i mod n and sends to j + 2^i mod n, W =
 * (I + P)/2 with a permutation P. Columns and rows add up to one, but no number of steps
 * gives the mean exactly (entries of a product are k/2^steps, never 1/n). */
#include "topology/topology.h"

static bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

static weft_status exponential_create(weft_ctx *ctx, weft_topology *t,
                                      const weft_topology_config *config) {
    (void)ctx, (void)config;
    int64_t n = t->facts.members;
    t->facts.period = n == 1 ? 1 : wefti_log2_up(n);
    t->facts.directed = !is_power_of_two(n);
    t->facts.exact = is_power_of_two(n);
    t->facts.max_sources = n == 1 ? 1 : 2;
    t->facts.max_targets = n == 1 ? 0 : 1;
    return WEFT_OK;
}

static void exponential_neighbours(const weft_topology *t, int member, int64_t step,
                                   weft_neighbours *out) {
    int n = wefti_topology_members(t), offset = 1 << step;
    if (!t->facts.directed) {
        wefti_pair(out, member, n == 1 ? -1 : member ^ offset);
        return;
    }
    wefti_hear(out, member, 0.5);
    wefti_hear(out, (member + n - offset) % n, 0.5);
    wefti_reach(out, (member + offset) % n);
}

const wefti_topology_ops wefti_topology_exponential = {
    .name = "exponential",
    .create = exponential_create,
    .neighbours = exponential_neighbours,
};
