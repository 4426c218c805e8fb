/* SPDX-License-Identifier: MIT */
#ifndef WEFT_SIMULATE_H
#define WEFT_SIMULATE_H

#include <weft/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Long runs on many nodes, and what slows them down: slow machines, slow links, failures.
 * Steps are modelled as in weft_predict, but for all nodes together in arrays instead of
 * event by event (docs/prediction.md, "Long runs on many nodes"). */

/** The comment at a field says what a zero means. */
typedef struct weft_simulate_options {
    size_t struct_size;
    int64_t nodes; /* 0 = mesh.nodes; may be more than a run can have. Tokens per step
                      grow with the nodes */
    int64_t steps; /* 0 = run.steps */
    uint64_t seed;
    double slow_nodes;       /* share of the nodes that compute slower, by */
    double slow_factor;      /* this factor, 1 or more; 0 = 2 */
    double slow_links;       /* share of the nodes with a slower interface, by */
    double slow_link_factor; /* this factor, 1 or more; 0 = 2 */
    double failure_s;        /* mean time between failures of one node; 0 = none fails */
    double restart_s;   /* from a failure until all nodes continue from the checkpoint, or
                         until the failed node has joined those that continued */
    bool roll_back;     /* return to the checkpoint, even if the others could continue */
    int64_t save_every; /* steps; 0 = run.save_every, 0 there: no checkpoint */
    double save_s;      /* time that all nodes stop for a checkpoint */
    double busy_s;      /* of each day, from its beginning (day 1 begins with the run);
                          0 = none */
    double busy_share;  /* share of its rate that the wire then carries; above 0, <= 1 */
} weft_simulate_options;

/** Seconds of the run that would not have been spent without each cause; their sum is what
 * the run took beyond computing on equal machines. */
typedef struct weft_lost_time {
    double codec_s;   /* coding and optimizing, not hidden */
    double wire_s;    /* links, not hidden, and slower links */
    double slow_s;    /* by which the mean node is slower than a calm one: jitter, stalls,
                         slow nodes */
    double waiting_s; /* for nodes that are later than the mean */
    double saving_s, repeated_s, restart_s; /* checkpoints, repeated steps, restarts */
} weft_lost_time;

/** A long run, played with its failures; times in seconds. */
typedef struct weft_simulation {
    size_t struct_size;
    int64_t nodes, steps, failures;
    double elapsed_s; /* of the whole run */
    double compute_s; /* the part for computing without jitter and exchange */
    weft_lost_time lost;
    weft_quantiles step_s; /* over nodes and steps, without failures */
    double mean_step_s, calm_step_s;
    double tokens, tokens_per_s; /* by elapsed_s */
    double wire_bytes_step;      /* out of one node, the mean */
    double ahead_s;              /* of the first node before the last one at the end */
} weft_simulation;

/** config: finished. Simulates one site, with every replicator and mixer except gossip with
 * a deadline. WEFT_ERR_CONFIG: the message names what can not be simulated.
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_simulate(weft_ctx *ctx, const weft_config *config,
                                   const weft_cluster *cluster,
                                   const weft_simulate_options *options,
                                   weft_simulation *out) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
