/* SPDX-License-Identifier: MIT */
/* Pairs of nodes that prefer cheap links, from a table of costs: weft's own. Two schedules are
 * made: the rounds of fold.c with the nodes assigned to places so that the links are cheap,
 * which end with the exact mean; and greedy rounds, which can avoid expensive links but leave
 * a tenth of the disagreement. Two periods of the greedy schedule leave a hundredth; it is
 * chosen if they take less time than one period of the other. The choice uses only whole
 * numbers and sums in a fixed order, so that every machine finds the same schedule. */
#include "base/memory.h"
#include "topology/topology.h"
#include "topology/rounds.h"

enum { MAX_NODES = 256 };

static weft_status check_nodes(weft_ctx *ctx, const weft_topology *t) {
    long long N = t->facts.nodes;
    if (N > MAX_NODES)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "found %lld nodes, expected at most %d for a measured topology", N,
            MAX_NODES);
    if (!t->cost_s && N > 1)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "a measured topology needs the links between its %lld nodes, found none", N);
    return WEFT_OK;
}

/* Leaves the better schedule in *rounds. */
static weft_status decide(weft_ctx *ctx, weft_topology *t, wefti_rounds *rounds) {
    wefti_rounds greedy;
    int N = (int)t->facts.nodes;
    WEFT_TRY(wefti_relabelled_rounds(ctx, N, t->cost_s, rounds));
    WEFT_TRY(wefti_greedy_rounds(ctx, N, t->cost_s, &greedy));
    t->facts.exact = rounds->seconds <= 2 * greedy.seconds;
    wefti_rounds_fini(ctx, t->facts.exact ? &greedy : rounds);
    if (!t->facts.exact) *rounds = greedy;
    t->facts.period = rounds->n;
    return WEFT_OK;
}

static weft_status measured_create(weft_ctx *ctx, weft_topology *t,
                                   const weft_topology_config *config) {
    (void)config;
    int64_t L = t->facts.ranks;
    wefti_rounds *rounds;
    WEFT_TRY(check_nodes(ctx, t));
    WEFT_TRY(wefti_alloc(ctx, sizeof *rounds, "the topology", &rounds));
    t->self = rounds;
    t->facts.max_sources = t->facts.nodes > 1 ? 2 * L : L;
    t->facts.max_targets = t->facts.max_sources - 1;
    t->facts.exact = true; /* with a single node */
    return t->facts.nodes > 1 ? decide(ctx, t, rounds) : WEFT_OK;
}

static void measured_neighbours(const weft_topology *t, int member, int64_t step,
                                weft_neighbours *out) {
    const wefti_rounds *rounds = t->self;
    wefti_fold_pair met = {-1, 0.5};
    if (rounds->n > 0)
        met = rounds->pairs[step * rounds->N + wefti_topology_node(t, member)];
    wefti_pair_nodes(t, member, met, out);
}

static void measured_destroy(weft_ctx *ctx, weft_topology *t) {
    if (t->self) wefti_rounds_fini(ctx, t->self);
    wefti_free(ctx, t->self);
}

static const char *const measured_keys[] = {"links", NULL};

const wefti_topology_ops wefti_topology_measured = {
    .name = "measured",
    .keys = measured_keys,
    .create = measured_create,
    .neighbours = measured_neighbours,
    .destroy = measured_destroy,
};
