/* SPDX-License-Identifier: MIT */
/* A grid of a x b = n members that wraps around in both directions; a is the largest divisor
 * of n with a <= b, so with n prime it is a ring. Along a side of length 1 a member has no
 * neighbours, along a side of 2 one, along a longer one two. All members have the same number
 * d of neighbours, so every weight is 1/(d+1) (Metropolis: Xiao & Boyd 2004) and the matrix is
 * symmetric. 1 x 2 and 1 x 3 are complete. */
#include "topology/topology.h"

static int sides(int n, int *b) {
    int a = 1;
    for (int k = 1; k <= n / k; k++)
        if (n % k == 0) a = k;
    *b = n / a;
    return a;
}

static int degree(int side) { return side > 2 ? 2 : side - 1; }

static weft_status torus_create(weft_ctx *ctx, weft_topology *t,
                                const weft_topology_config *config) {
    (void)ctx, (void)config;
    int b, n = wefti_topology_members(t), a = sides(n, &b);
    t->facts.exact = n <= 3;
    t->facts.max_targets = degree(a) + degree(b);
    t->facts.max_sources = t->facts.max_targets + 1;
    return WEFT_OK;
}

/* Adds the neighbours along one side; `at` is the member's place on it, `stride` the
 * difference of the member numbers of two adjacent places. */
static void hear_along(int side, int at, int stride, int member, double weight,
                       weft_neighbours *out) {
    for (int k = 0; k < degree(side); k++) {
        int other = (at + (k == 0 ? 1 : side - 1)) % side;
        wefti_hear(out, member + (other - at) * stride, weight);
        wefti_reach(out, member + (other - at) * stride);
    }
}

static void torus_neighbours(const weft_topology *t, int member, int64_t step,
                             weft_neighbours *out) {
    (void)step;
    int b, n = wefti_topology_members(t), a = sides(n, &b);
    double weight = 1.0 / (degree(a) + degree(b) + 1);
    out->group = n <= 3;
    wefti_hear(out, member, weight);
    hear_along(a, member / b, b, member, weight, out);
    hear_along(b, member % b, 1, member, weight, out);
}

const wefti_topology_ops wefti_topology_torus = {
    .name = "torus",
    .create = torus_create,
    .neighbours = torus_neighbours,
};
