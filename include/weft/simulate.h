/* SPDX-License-Identifier: MIT */
#ifndef WEFT_SIMULATE_H
#define WEFT_SIMULATE_H

#include <weft/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Long runs on many nodes: steps as in weft_predict, but of all nodes together in arrays
 * instead of event by event (docs/prediction.md, section 6), and what happens to such
 * runs: slow machines, slow links, failures. */

/* Zeros mean what is said beside them. */
typedef struct weft_simulate_options {
    int64_t nodes; /* 0 = mesh.nodes; may be more than a run can have. Tokens per step
                      grow with them */
    int64_t steps; /* 0 = run.steps */
    uint64_t seed;
    double slow_nodes;       /* share of the nodes that compute slower by */
    double slow_factor;      /* this factor, 1 or more; 0 = 2 */
    double slow_links;       /* share of the nodes whose interface is slower by */
    double slow_link_factor; /* this factor, 1 or more; 0 = 2 */
    double failure_s;        /* mean time between failures of one node; 0 = none fails */
    double restart_s; /* from a failure until all go on from the checkpoint, or until the
                         node that failed is back with those that went on */
    bool roll_back;   /* to the checkpoint, also where the others could go on */
    int64_t save_every; /* steps; 0 = run.save_every, 0 there: no checkpoint */
    double save_s;      /* that all stand still for one */
    double busy_s;     /* of each day, from its beginning, which is the run's; 0 = none */
    double busy_share; /* of its rate that the wire carries then; above 0, at most 1 */
} weft_simulate_options;

/* Seconds of the run that would not have been spent without the cause; in all they are
 * what the run took beyond computing on equal machines. */
typedef struct weft_lost_time {
    double codec_s;   /* coding and optimizing, not hidden */
    double wire_s;    /* links, not hidden, and slower links */
    double slow_s;    /* the mean node is slower than calm: jitter, stalls, slow nodes */
    double waiting_s; /* for nodes that are later than the mean */
    double saving_s, repeated_s, restart_s; /* checkpoints, steps lost, starting again */
} weft_lost_time;

typedef struct weft_simulation {
    int64_t nodes, steps, failures;
    double elapsed_s; /* of the whole run */
    double compute_s; /* of it: calm computing, no exchange */
    weft_lost_time lost;
    weft_quantiles step_s; /* over nodes and steps, without failures */
    double mean_step_s, calm_step_s;
    double tokens, tokens_per_s; /* by elapsed_s */
    double wire_bytes_step;      /* out of one node, the mean */
    double ahead_s;              /* of the first node over the last one in the end */
} weft_simulation;

/* config: finished. One site; every replicator and mixer but gossip with a deadline.
 * WEFT_ERR_CONFIG names what is not simulated. */
WEFT_API weft_status weft_simulate(weft_ctx *ctx, const weft_config *config,
                                   const weft_cluster *cluster,
                                   const weft_simulate_options *options,
                                   weft_simulation *out) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
