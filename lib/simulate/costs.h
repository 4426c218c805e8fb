/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/cluster.h>

#include "job/job.h"

/* The time of the parts of a step on one rank, without waiting for others: measured if
 * the cluster has it, else estimated (docs/prediction.md, "What work takes"). */

/* Of one bucket, on the exchange thread. */
typedef struct wefti_work {
    double begin_s, combine_s, combine_peer_s, end_s;
} wefti_work;

/* Seconds of unit u, one micro-batch; recomputation is in backward. */
typedef struct wefti_unit_cost {
    double forward_s, backward_s;
    double launching; /* share of both that does not depend on the compute rate */
} wefti_unit_cost;

/* Whether the cluster's units were measured with this job's model and batch; if not,
 * every unit gets its share of the model's FLOP. */
bool wefti_costs_measured(const weft_cluster *cluster, const wefti_job *job);

wefti_unit_cost wefti_costs_unit(const weft_cluster *cluster, const wefti_job *job,
                                 int unit);

/* R: of the replication group. */
wefti_work wefti_costs_replicator(const weft_cluster *cluster,
                                  const wefti_replicator_config *config,
                                  const wefti_bucket *bucket, int R);

/* combine_peer_s: for each other member that is received from. */
wefti_work wefti_costs_mixer(const weft_cluster *cluster, const wefti_job *job,
                             const wefti_bucket *bucket);

double wefti_costs_optimizer(const weft_cluster *cluster, const wefti_job *job,
                             const wefti_arrangement *a, int bucket);

/* Seconds to read and write n_bytes. */
double wefti_costs_touch(const weft_cluster *cluster, double n_bytes);

/* "gpt2 6x384 ...": identifies the job for which a measurement of units is valid. Returns
 * out. */
char *wefti_costs_key(const wefti_job *job, char *out, size_t size);
