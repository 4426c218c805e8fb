/* SPDX-License-Identifier: MIT */
/* Random small runs, and facts of clusters that get better, for tests of monotone plans. */
#pragma once

#include <stddef.h>

#include "base/rng.h"
#include "room.h"

static inline double draw(int i, int what) {
    return wefti_rng_uniform(7, WEFTI_STREAM_JITTER, (uint64_t)i, (uint64_t)what);
}

/* Run i: so many nodes' tokens, a model of 1 to most_layers layers. */
static inline weft_config *make_run(int i, int64_t nodes, int most_layers) {
    static const char *const keys[] = {"data.path=none.txt", "data.length=32",
                                       "model.width=64",     "model.heads=2",
                                       "run.steps=400",      "schedule.warmup=10",
                                       "mesh.threads=1",     "mesh.min_message=0"};
    char text[64];
    weft_config *run;
    assert_ok(ctx, weft_config_create(ctx, &run));
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
        assert_ok(ctx, weft_config_set(ctx, run, keys[k]));
    snprintf(text, sizeof text, "model.layers=%d", 1 + (int)(most_layers * draw(i, 0)));
    assert_ok(ctx, weft_config_set(ctx, run, text));
    snprintf(text, sizeof text, "batch.tokens_per_step=%lld", (long long)nodes * 64);
    assert_ok(ctx, weft_config_set(ctx, run, text));
    assert_ok(ctx, weft_config_finish(ctx, run));
    return run;
}

/* A fact of the cluster, made better by a factor. */
typedef struct change {
    const char *what;
    size_t at; /* of a double in weft_cluster */
    bool more;
} change;
