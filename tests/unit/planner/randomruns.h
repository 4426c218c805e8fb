/* SPDX-License-Identifier: MIT */
/* Random small runs, and facts of clusters that get better, for tests of monotone plans. */
#pragma once

#include <stddef.h>

#include "base/rng.h"
#include "configs.h"
#include "room.h"

static inline double draw(int i, int what) {
    return wefti_rng_uniform(7, WEFTI_STREAM_JITTER, (uint64_t)i, (uint64_t)what);
}

/* Run i: so many nodes' tokens, a model of 1 to most_layers layers. */
static inline weft_config *make_run(int i, int64_t nodes, int most_layers) {
    char more[96];
    snprintf(more, sizeof more, "model.layers=%d batch.tokens_per_step=%lld",
             1 + (int)(most_layers * draw(i, 0)), (long long)nodes * 64);
    return config_with(
        ctx, PLANNED_RUN "run.steps=400 schedule.warmup=10 mesh.min_message=0", more);
}

/* A fact of the cluster, made better by a factor. */
typedef struct change {
    const char *what;
    size_t at; /* of a double in weft_cluster */
    bool more;
} change;
