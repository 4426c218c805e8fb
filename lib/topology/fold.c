/* SPDX-License-Identifier: MIT */
/* The exact mean by steps of pairs, for every N = 2^k m, m odd.
 *
 * Rounds 0..k-1 pair node j with j XOR 2^i and take means. Then 2^k neighbouring nodes
 * agree, and there are m such blocks. The nodes with the same place in their blocks then
 * do the following among themselves. Write m = 2^p1 + 2^p2 + ... with falling exponents
 * and cut the blocks into groups of these sizes, in order.
 *   - p1 rounds: each group takes its own mean by XOR pairs. Now each group is uniform.
 *   - Round p1 + g, g = 0, 1, ...: group g (P blocks, all at a) crosses with all later
 *     blocks (Q < P of them, mean b), one partner each; both move towards the other by
 *     w = P/(P+Q). The later blocks then have the mean (1-w) b + w a = (P a + Q b)/(P+Q),
 *     that of both sides together; the sum is kept, so group g has it too. Each later
 *     group is still uniform, because all its blocks moved alike, so the next one can
 *     cross. The last group is uniform and at the mean: done.
 *   - After its crossing group g takes its own mean again, while later groups cross.
 * The first group is the last to finish, in round 2 p1. So there are k rounds for m = 1,
 * else k + 2 p1 + 1, and every matrix is symmetric and doubly stochastic. Weights of 1/2
 * alone would not do: products of such means have entries c/2^s, never 1/3. (Finite time
 * for every n by unequal weights: arXiv 2305.11420.) */
#include <math.h>

#include "base/memory.h"
#include "topology/rounds.h"
#include "topology/topology.h"

/* `size` blocks from `start` on. */
typedef struct block_group {
    int start, size, index;
} block_group;

/* The group that contains `block`, or the group with the given index if that comes first. */
static block_group find_group(int m, int block, int index) {
    block_group g = {0, 1 << wefti_log2_down(m), 0};
    while (block >= g.start + g.size && g.index < index) {
        g.start += g.size;
        g.size = 1 << wefti_log2_down(m - g.start);
        g.index++;
    }
    return g;
}

static wefti_fold_pair meet_by_bit(int block, int bit, int size) {
    return (wefti_fold_pair){1 << bit < size ? block ^ (1 << bit) : -1, 0.5};
}

/* The pair of `block` when group g crosses with all later blocks; `block` is in one of
 * the two. */
static wefti_fold_pair cross(int m, block_group g, int block) {
    int later = m - g.start - g.size, partner = -1;
    if (block >= g.start + g.size)
        partner = block - g.size;
    else if (block - g.start < later)
        partner = block + g.size;
    return (wefti_fold_pair){partner, (double)g.size / (g.size + later)};
}

/* The pair of a block among the m blocks, in round r of 2 p1 + 1. Groups before the one
 * that crosses have already crossed. */
static wefti_fold_pair meet_blocks(int m, int p1, int block, int r) {
    int crossing = r - p1;
    if (crossing < 0) return meet_by_bit(block, r, find_group(m, block, m).size);
    block_group g = find_group(m, block, crossing);
    if (g.index == crossing) return cross(m, g, block);
    return meet_by_bit(block, crossing - g.index - 1, g.size);
}

wefti_fold wefti_fold_make(int N) {
    wefti_fold f = {.N = N, .m = N};
    for (; f.m % 2 == 0; f.m /= 2) f.k++;
    f.p1 = wefti_log2_down(f.m);
    f.rounds = f.k + (f.m > 1 ? 2 * f.p1 + 1 : 0);
    return f;
}

wefti_fold_pair wefti_fold_meet(const wefti_fold *f, int node, int round) {
    if (round < f->k) return (wefti_fold_pair){node ^ (1 << round), 0.5};
    wefti_fold_pair met = meet_blocks(f->m, f->p1, node >> f->k, round - f->k);
    int place = node & ((1 << f->k) - 1);
    if (met.partner >= 0) met.partner = (met.partner << f->k) + place;
    return met;
}

/* Pairs of nodes, round by round: the form in which the topology `measured` stores its
 * period. */

void wefti_rounds_fini(weft_ctx *ctx, wefti_rounds *rounds) {
    wefti_free(ctx, rounds->pairs);
    *rounds = (wefti_rounds){.N = rounds->N};
}

weft_status wefti_rounds_add(weft_ctx *ctx, const double *cost_s, const int *partners,
                             wefti_rounds *rounds) {
    int N = rounds->N;
    int64_t n = rounds->n * N;
    double slowest_s = 0;
    WEFT_TRY(wefti_grow(ctx, &rounds->pairs, n, n + N, sizeof(wefti_fold_pair),
                        "the schedule"));
    for (int node = 0; node < N; node++) {
        rounds->pairs[n + node] = (wefti_fold_pair){partners[node], 0.5};
        if (partners[node] >= 0)
            slowest_s = fmax(slowest_s, cost_s[(int64_t)node * N + partners[node]]);
    }
    rounds->n++;
    rounds->seconds += slowest_s;
    return WEFT_OK;
}
