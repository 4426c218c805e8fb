/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/plan.h>

#include "job/job.h"

/* What a framework shards, and how it reduces. */
typedef struct wefti_framework {
    const char *name;
    const char *doc;
    bool shards_optimizer, shards_gradients, shards_parameters;
    bool in_node; /* shards inside a node, whole gradients between nodes */
    bool after;   /* gradients are reduced as one when the backward pass is done */
} wefti_framework;

/* The framework of that name, or NULL. */
const wefti_framework *wefti_framework_find(const char *name);

/* The names of all frameworks, "ddp, zero1 or fsdp"; returns out. */
const char *wefti_framework_names(char *out, size_t size);

/* The case to predict: all ranks are alike, `job` is one of them (its own batch, one node). */
typedef struct wefti_framework_case {
    const wefti_framework *framework;
    const weft_cluster *cluster;
    const wefti_job *job;
    int64_t nodes, ranks_per_node;
    weft_collective collective;
    weft_precision precision;
    double trainable, weight_bytes; /* as in weft_advise_options */
    bool exposed; /* whole gradients are reduced as one behind the backward pass, whatever
                     the framework does */
} wefti_framework_case;

/* Bytes of memory of a rank. */
double wefti_framework_memory(const wefti_framework_case *c);

void wefti_framework_predict(const wefti_framework_case *c, weft_prediction *out);

/* Seconds of an all-reduce of n_bytes among all ranks of the case. */
double wefti_framework_all_reduce(const wefti_framework_case *c, double n_bytes);

/* Mean, over many steps, of the largest of n normal numbers. */
double wefti_largest_of(double n);
