/* SPDX-License-Identifier: MIT */
/* Configurations and clusters for tests of the runtime model. */
#pragma once

#include <math.h>

#include "configs.h"

#include <weft/predict.h>
#include <weft/simulate.h>

static inline weft_ctx *make_ctx(void) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    return ctx;
}

/* A small model; `keys` are separated by spaces. One row of 64 tokens per rank. */
static inline weft_config *make_config(weft_ctx *ctx, int nodes, int ranks,
                                       const char *keys) {
    char own[192];
    snprintf(own, sizeof own,
             "model.layers=2 model.width=64 model.heads=4 data.length=64 run.steps=1000 "
             "batch.tokens_per_step=%d mesh.nodes=%d mesh.ranks_per_node=%d",
             64 * nodes * ranks, nodes, ranks);
    return config_with(ctx, own, keys);
}

/* Facts as typed, name and value in turn, ended by NULL. */
static inline weft_cluster *make_cluster(weft_ctx *ctx, const char *const *facts) {
    weft_cluster *cluster;
    assert_int_equal(weft_cluster_create(ctx, &cluster), WEFT_OK);
    for (; *facts; facts += 2)
        if (weft_cluster_set(ctx, cluster, facts[0], facts[1]) != WEFT_OK)
            fail_msg("%s: %s", facts[0], weft_ctx_message(ctx));
    return cluster;
}

static inline void assert_near(double x, double expected, double share) {
    if (!(fabs(x - expected) <= share * fabs(expected)))
        fail_msg("%.9g, expected %.9g within %g %%", x, expected, 100 * share);
}
