/* SPDX-License-Identifier: MIT */
/* Alternating exponential ring (arXiv 2410.11998), for any number N of nodes.
 *
 * Its rounds are those of fold.c: for N = 2^k the pairs (j, j + 2^i), as published, which
 * produce the exact mean. A round has two steps. Each pair spends one of them on A, the
 * mean inside each node, and the other on B, which mixes the two nodes. With the pairs
 * counted over all rounds, the even ones do A first and the odd ones B first, so that in
 * each step about half of the pairs use the wire. Both orders have the same result: both
 * nodes uniform inside, and mixed. */
#include "base/memory.h"
#include "topology/topology.h"

typedef struct aer {
    wefti_fold fold;
    bool *crosses_first; /* [rounds * N] owned: B before A */
} aer;

/* Decides the order of A and B for each pair, with the pairs counted by rounds and then
 * by their lower node. */
static void take_turns(aer *a) {
    bool odd = false;
    for (int round = 0; round < a->fold.rounds; round++) {
        bool *first = a->crosses_first + (int64_t)round * a->fold.N;
        for (int node = 0; node < a->fold.N; node++) {
            int partner = wefti_fold_meet(&a->fold, node, round).partner;
            if (partner < node) continue;
            first[node] = first[partner] = odd;
            odd = !odd;
        }
    }
}

static weft_status aer_create(weft_ctx *ctx, weft_topology *t,
                              const weft_topology_config *config) {
    aer *a;
    int64_t N = config->nodes, L = config->ranks;
    WEFT_TRY(wefti_alloc(ctx, sizeof *a, "the topology", &a));
    t->self = a;
    a->fold = wefti_fold_make((int)N);
    t->facts.period = N > 1 ? 2 * a->fold.rounds : 1;
    t->facts.exact = true;
    t->facts.max_sources = N > 1 ? 2 * L : L;
    t->facts.max_targets = t->facts.max_sources - 1;
    WEFT_TRY(wefti_alloc_n(ctx, a->fold.rounds * N, sizeof(bool),
                           "the turns of node pairs", &a->crosses_first));
    take_turns(a);
    return WEFT_OK;
}

static void aer_neighbours(const weft_topology *t, int member, int64_t step,
                           weft_neighbours *out) {
    const aer *a = t->self;
    int node = wefti_topology_node(t, member), round = (int)(step / 2);
    wefti_fold_pair met = {-1, 0.5};
    if (a->fold.rounds > 0) {
        bool first = a->crosses_first[(int64_t)round * a->fold.N + node];
        if (first == (step % 2 == 0)) met = wefti_fold_meet(&a->fold, node, round);
    }
    wefti_pair_nodes(t, member, met, out);
}

static void aer_destroy(weft_ctx *ctx, weft_topology *t) {
    aer *a = t->self;
    if (a) wefti_free(ctx, a->crosses_first);
    wefti_free(ctx, a);
}

const wefti_topology_ops wefti_topology_aer = {
    .name = "aer",
    .create = aer_create,
    .neighbours = aer_neighbours,
    .destroy = aer_destroy,
};
