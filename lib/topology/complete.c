/* SPDX-License-Identifier: MIT */
/* W = 1/n everywhere: the mean of all members in every step, the baseline of Lian et al. 2017. */
#include "topology/topology.h"

static weft_status complete_create(weft_ctx *ctx, weft_topology *t,
                                   const weft_topology_config *config) {
    (void)ctx, (void)config;
    t->facts.exact = true;
    t->facts.max_sources = t->facts.members;
    t->facts.max_targets = t->facts.members - 1;
    return WEFT_OK;
}

static void complete_neighbours(const weft_topology *t, int member, int64_t step,
                                weft_neighbours *out) {
    (void)step;
    wefti_hear_all(out, member, 0, wefti_topology_members(t));
}

const wefti_topology_ops wefti_topology_complete = {
    .name = "complete",
    .create = complete_create,
    .neighbours = complete_neighbours,
};
