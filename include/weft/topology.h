/* SPDX-License-Identifier: MIT */
#ifndef WEFT_TOPOLOGY_H
#define WEFT_TOPOLOGY_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Which members mix with each other in each step, when copies of a model are pulled
 * together:
 *
 *     x_i(t+1) = sum_j W_ij(t) x_j(t)
 *
 * Members are numbered 0..n-1, n = nodes * ranks, member = node * ranks + local. Every W(t)
 * has nonnegative entries and columns that add up to one, so the mean over the members is
 * preserved. Rows add up to one as well, except for kinds that need push-sum weights
 * (weft_topology_facts). docs/topologies.md says what each kind is for. Nothing here
 * communicates: a schedule is a pure function of its configuration, the same on every rank.
 * No function is collective. */
typedef struct weft_topology weft_topology;

/** One direction of a link between two nodes, as measured. */
typedef struct weft_link {
    int64_t from, to; /* nodes */
    double latency_s;
    double bandwidth_Bps;
} weft_link;

/** The links of one step; items owned by who made them. */
typedef struct weft_links {
    size_t struct_size;
    weft_link *items; /* owned by the holder of the struct (weft_free) */
    int64_t n;
} weft_links;

/** Reads the list `links:` of a YAML file and ignores its other sections. An entry is {from:
 * 0, to: 1, latency: 10ms, bandwidth: 100Mbit}. Errors start with "path:line: ". [out] *out
 * empty on failure. Errors: FILE, FORMAT. */
WEFT_API weft_status weft_links_load(weft_ctx *ctx, const char *path,
                                     weft_links *out) WEFT_CHECKED;

/** The largest number of members of a topology, and the largest that weft_topology_analyse
 * takes. */
enum { WEFT_TOPOLOGY_MEMBERS = 65536, WEFT_TOPOLOGY_ANALYSED = 512 };

/** A kind of topology and its numbers. */
typedef struct weft_topology_config {
    size_t struct_size;
    const char *kind;
    int64_t nodes;          /* N >= 1 */
    int64_t ranks;          /* L >= 1, members per node that each hold a whole copy */
    uint64_t seed;          /* of `matching` and `push` */
    int64_t copy_bytes;     /* B, bytes of one copy: costs of links and of a step */
    const weft_link *links; /* [n_links]; `measured` needs them. Where two nodes have */
    int64_t n_links;        /* both directions, the slower one counts */
} weft_topology_config;

/** Creates a schedule. The configuration and its links are not kept. [out] *out owned by
 * the caller (weft_topology_destroy), NULL on failure. Read-only afterwards: threads may
 * share it. */
WEFT_API weft_status weft_topology_create(weft_ctx *ctx,
                                          const weft_topology_config *config,
                                          weft_topology **out) WEFT_CHECKED;
WEFT_API void weft_topology_destroy(weft_ctx *ctx, weft_topology *topology);

/** Name and one-line summary of the i-th kind, or NULL past the last. */
WEFT_API const char *weft_topology_kind(int i, const char **summary);

/** What a topology is and how fast it mixes. */
typedef struct weft_topology_facts {
    const char *kind; /* static */
    int64_t nodes, ranks, members;
    int64_t period;      /* steps after which the schedule repeats; 0: never */
    bool directed;       /* in some step a member sends to one that does not send to it */
    bool push_sum;       /* rows of W(t) need not add up to one. Then w_i x_i is mixed,
                            with weights w(t+1) = W(t) w(t), w(0) = 1: x_i <- (sum_j W_ij
                            w_j x_j) / (sum_j W_ij w_j). This preserves sum_i w_i x_i and
                            brings all x_i to the same value (push-sum, Kempe, Dobra,
                            Gehrke 2003) */
    bool exact;          /* after one period every member has the mean of all members */
    int64_t max_sources; /* most members that send to one in a step, itself included */
    int64_t max_targets; /* most members that one member sends to */
} weft_topology_facts;

/** Lives as long as the topology. */
WEFT_API const weft_topology_facts *weft_topology_describe(const weft_topology *topology);

/** What one member does in one step. Members are in ascending order in both lists, so that
 * sums taken in this order are the same on all members. */
typedef struct weft_neighbours {
    int n_sources; /* members that it receives from, itself included */
    int self;      /* its own index in sources */
    int n_targets; /* members that it sends to, without itself */
    bool group;    /* all its sources have exactly these same sources */
    bool mean;     /* a group whose weights are all 1/n_sources: compute (x_0 + x_1 + ...)
                      / n_sources, then every member has the same bits */
    int *sources;  /* [n_sources] */
    double *weights;    /* [n_sources] row of W(t) */
    float *weights_f32; /* the same in multiples of 2^-24. Every column (and without
                           push_sum every row) adds up to exactly one, so that rounding
                           does not change the mean */
    int *targets;       /* [n_targets] */
} weft_neighbours;

/** Allocates space for the neighbours of any member of a topology. [out] *out owned by the
 * caller (weft_neighbours_destroy), NULL on failure. */
WEFT_API weft_status weft_neighbours_create(weft_ctx *ctx, const weft_topology *topology,
                                            weft_neighbours **out) WEFT_CHECKED;
WEFT_API void weft_neighbours_destroy(weft_ctx *ctx, weft_neighbours *neighbours);

/** Writes the members that `member` (0..members-1) mixes with in `step` (0, 1, ...) to *out.
 * Allocates nothing; takes time in proportion to the lists, for `matching` O(members). */
WEFT_API void weft_topology_neighbours(const weft_topology *topology, int64_t member,
                                       int64_t step, weft_neighbours *out);

/** One step as text: groups that average as [01][23], or with numbers of two digits [0 1][2
 * 3]; a group of two nodes whose own weight differs from the other's as [02]@0.667, where
 * the number is the other node's weight; other links as 0-1 or, in one direction, 0>1.
 * [out] *text owned by the caller (weft_free). */
WEFT_API weft_status weft_topology_notation(weft_ctx *ctx, const weft_topology *topology,
                                            int64_t step, char **text) WEFT_CHECKED;

/** What a schedule does to a disagreement, and what it costs. The disagreement of members
 * that started independently is their root mean square distance from their mean, relative
 * to its value at the start. With push_sum it is that of the weighted x_i. */
typedef struct weft_topology_analysis {
    size_t struct_size;
    int64_t steps;           /* analysed: one period, or a sample if it never repeats */
    double stochastic_error; /* largest deviation of a column's sum from 1 or, without
                                push_sum, of a row's sum */
    double gap_mean;         /* 1 - s2 of the mean of W(t) over the steps, where s2 is the
                          second largest singular value; NAN with push_sum */
    double gap_period; /* 1 - s2 of the product of W(t) over a period; NAN without one */
    double left;       /* disagreement after those steps */
    int64_t exact_steps; /* steps after which it is exactly zero; -1: never */
    int64_t steps_1e6;   /* steps after which it is at most 1e-6; -1: not known */
    bool estimated;      /* steps_1e6 is computed from gap_period */
    /** Bytes at a node's interface in a step, for copies of copy_bytes: maximum, and mean
     * over nodes and steps. In a group of k members each owns a k-th of the copy, which all
     * send to it and it sends to all: 2/k copies for each member in another node. Where
     * there is no group, each member sends its copy to each target. Traffic inside a node is
     * not counted. */
    double out_max, out_mean, in_max, in_mean;
    /** The slowest link that a step uses, in seconds for one copy: maximum, and mean over
     * steps. NAN without links. */
    double link_max_s, link_mean_s;
    int64_t unlisted; /* pairs of nodes that the schedule uses without a listed link */
} weft_topology_analysis;

/** Computes those figures from the matrices, in double. At most WEFT_TOPOLOGY_ANALYSED
 * members. */
WEFT_API weft_status weft_topology_analyse(weft_ctx *ctx, const weft_topology *topology,
                                           weft_topology_analysis *out) WEFT_CHECKED;

/** Draws the first steps of the schedule, at most 12, as a self-contained SVG file: the
 * old file or the whole new one, never a part. At most WEFT_TOPOLOGY_ANALYSED members.
 * Errors: FILE. */
WEFT_API weft_status weft_topology_draw(weft_ctx *ctx, const weft_topology *topology,
                                        const char *path) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
