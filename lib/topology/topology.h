/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include <weft/topology.h>

/* Rounds of disjoint pairs after which N nodes have their exact mean, for any N. */

/* The partner of a node in a round. Both set x <- (1 - weight) x + weight x_partner. */
typedef struct wefti_fold_pair {
    int partner; /* -1: none */
    double weight;
} wefti_fold_pair;

typedef struct wefti_fold {
    int N, k, m, p1; /* N = 2^k m, m odd, p1 = floor(log2 m) */
    int rounds;      /* 0 for one node */
} wefti_fold;

wefti_fold wefti_fold_make(int N);

/* The partner of `node` in round 0..rounds-1. The same call for the partner returns
 * `node`, with the same weight. */
wefti_fold_pair wefti_fold_meet(const wefti_fold *fold, int node, int round);

/* A kind of schedule: a constant table at the end of its own file and a line in
 * topologies.def. */
typedef struct wefti_topology_ops {
    const char *name;
    const char *const *keys; /* keys of the section mixer that only this kind reads; NULL:
                                none */
    /* Checks the conditions of the kind and fills in t->facts (period, directed, exact,
     * max_...) and t->self. On failure destroy is called. */
    weft_status (*create)(weft_ctx *ctx, weft_topology *t,
                          const weft_topology_config *config);
    /* Lists sources with their weights and targets, in any order, with the functions
     * below; 0 <= step, < period if there is one. */
    void (*neighbours)(const weft_topology *t, int member, int64_t step,
                       weft_neighbours *out);
    void (*destroy)(weft_ctx *ctx,
                    weft_topology *t); /* destroys t->self; NULL: nothing to do */
} wefti_topology_ops;

struct weft_topology {
    const wefti_topology_ops *ops;
    weft_topology_facts facts;
    uint64_t seed;
    int64_t copy_bytes;
    double *cost_s; /* [nodes * nodes] owned: seconds for one copy over the link between
                       two nodes, in the more expensive direction; INFINITY: not listed.
                       NULL without links */
    void *self;     /* the kind's own data, owned */
};

extern const wefti_topology_ops *const wefti_topology_registry[]; /* NULL-terminated */
extern const char *const wefti_topology_summaries[];              /* in the same order */

static inline int wefti_topology_members(const weft_topology *t) {
    return (int)t->facts.members;
}

static inline int wefti_topology_node(const weft_topology *t, int member) {
    return member / (int)t->facts.ranks;
}

/* ---- functions for kinds to fill in neighbours ---- */

/* Adds a source with its weight. */
void wefti_hear(weft_neighbours *out, int source, double weight);

/* Adds a target, which hears the member. */
void wefti_reach(weft_neighbours *out, int target);

/* The member and its partner take their mean. With partner -1 or the member itself
 * nothing is mixed.
 */
void wefti_pair(weft_neighbours *out, int member, int partner);

/* The member's node takes the mean of its members; if it has a partner node, it then
 * takes (1 - weight) of its own mean and `weight` of the partner's. */
void wefti_pair_nodes(const weft_topology *t, int member, wefti_fold_pair met,
                      weft_neighbours *out);

/* All members first..first+n-1 take their mean. */
void wefti_hear_all(weft_neighbours *out, int member, int first, int n);

/* Smallest k with 2^k >= n, and largest with 2^k <= n. n >= 1. */
int wefti_log2_up(int64_t n);
int wefti_log2_down(int64_t n);

/* The second largest singular value of a doubly stochastic matrix M[n][n]: the largest of
 * M - 1 1^T / n. `work` has 2 n n numbers. Accurate to about 1e-12, absolutely. */
double wefti_second_singular_value(int64_t n, const double *M, double *work);

/* All topologies, as tables of functions; each is defined at the end of its own file. */
#define WEFTI_KIND(name, summary) extern const wefti_topology_ops wefti_topology_##name;
#include "topology/topologies.def"
#undef WEFTI_KIND
