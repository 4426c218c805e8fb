/* SPDX-License-Identifier: MIT */
/* A better cluster is never predicted to be slower: 200 random clusters, every preset, one
 * fact at a time made better. */
#include "check.h"

#include <math.h>
#include <stddef.h>

#include "base/rng.h"
#include "planner/advise.h"

/* A sanitizer looks at the code and not at the numbers: fewer clusters, all presets. */
enum { CLUSTERS = UNDER_SANITIZER ? 16 : 200, PLAYED = 8 };

/* Of numbers in double precision, added in another order; nothing else. */
static const double rounding = 1e-9;

static int64_t n_tried;

static const char *const kinds[] = {
    "method=hsdp",
    "method=hsdp optimizer.clip=0",
    "method=hsdp optimizer.clip=0 replicator.values=int8",
    "method=flexdemo replicator.exchange=all_gather",
    "method=flexdemo replicator.exchange=sharded",
    "method=topk",
    "method=deto-adamw",
    "method=random",
    "method=striding",
    "method=slicing",
    "method=dadam",
    "method=dadam mixer.topology=ring",
    "method=dadam mixer.topology=complete",
    "method=dadam mixer.order=atc",
    "method=accumadam",
    "method=dadam mixer.kind=choco mixer.topology=ring mixer.values=int8",
    "method=diloco mixer.outer_every=4",
    "method=muloco mixer.outer_every=4",
    "method=streaming-diloco mixer.outer_every=8",
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static weft_ctx *ctx;

static int begin(void **state) {
    return room_begin(&ctx);
}

static int end(void **state) {
    return ctx_end(ctx);
}

static double draw(int i, int what) {
    return wefti_rng_uniform(7, WEFTI_STREAM_JITTER, (uint64_t)i, (uint64_t)what);
}

static weft_config *make_run(int i, int64_t nodes) {
    static const char *const keys[] = {"data.path=none.txt", "data.length=32",
                                       "model.width=64",     "model.heads=2",
                                       "run.steps=400",      "schedule.warmup=10",
                                       "mesh.threads=1",     "mesh.min_message=0"};
    char text[64];
    weft_config *run;
    assert_ok(ctx, weft_config_create(ctx, &run));
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
        assert_ok(ctx, weft_config_set(ctx, run, keys[k]));
    snprintf(text, sizeof text, "model.layers=%d", 1 + (int)(6 * draw(i, 0)));
    assert_ok(ctx, weft_config_set(ctx, run, text));
    snprintf(text, sizeof text, "batch.tokens_per_step=%lld", (long long)nodes * 64);
    assert_ok(ctx, weft_config_set(ctx, run, text));
    assert_ok(ctx, weft_config_finish(ctx, run));
    return run;
}

static double step_of(const wefti_adviser *a, const weft_candidate *c) {
    weft_prediction p;
    assert_ok(ctx, wefti_advise_predict(ctx, a, c, 0, &p));
    assert_true(p.mean_step_s > 0);
    return p.mean_step_s; /* without spans: nothing to clear */
}

/* A fact of the cluster, made better by a factor. */
typedef struct change {
    const char *what;
    size_t at; /* of a double in weft_cluster */
    bool more;
} change;

static const change changes[] = {
    {"a faster wire", offsetof(weft_cluster, wire.bandwidth_Bps), true},
    {"less latency", offsetof(weft_cluster, wire.latency_s), false},
    {"faster nodes", offsetof(weft_cluster, rank_flops), true},
    {"less jitter", offsetof(weft_cluster, jitter.stall_s), false},
    {"a faster way out", offsetof(weft_cluster, wire.up_Bps), true},
    {"fewer losses", offsetof(weft_cluster, wire.loss), false},
    {"a steadier wire", offsetof(weft_cluster, wire.jitter_s), false},
};

enum { CHANGES = sizeof changes / sizeof changes[0] };

static weft_cluster *make_facts(int i, int64_t nodes) {
    weft_cluster *facts;
    assert_ok(ctx, weft_cluster_create(ctx, &facts));
    facts->nodes = nodes;
    facts->rank_flops = pow(10, 9 + 4 * draw(i, 2));
    facts->memory_Bps = draw(i, 3) < 0.5 ? 0 : 1e10;
    facts->jitter.spread = draw(i, 4) < 0.5 ? 0 : 0.1 * draw(i, 5);
    facts->jitter.stall_share = draw(i, 9) < 0.5 ? 0 : 0.01;
    facts->jitter.stall_s = 0.1;
    facts->wire.bandwidth_Bps = pow(10, 5 + 5 * draw(i, 6));
    facts->wire.latency_s = pow(10, -5 + 3.5 * draw(i, 7));
    if (draw(i, 10) < 0.3) facts->wire.up_Bps = facts->wire.bandwidth_Bps * draw(i, 11);
    if (draw(i, 12) < 0.2) facts->wire.loss = 0.02 * draw(i, 13);
    if (draw(i, 14) < 0.2) facts->wire.jitter_s = 0.01 * draw(i, 15);
    return facts;
}

static void try_kind(wefti_adviser *a, const weft_cluster *facts, int i,
                     const char *kind) {
    weft_candidate c = {.nodes = facts->nodes, .ranks_per_node = 1, .sites = 1};
    double more = 1.02 + 0.5 * draw(i, 8);
    snprintf(c.settings, sizeof c.settings, "mesh.nodes=%lld %s", (long long)facts->nodes,
             kind);
    a->cluster = *facts;
    double before_s = step_of(a, &c);
    for (int n = 0; n < CHANGES; n++) {
        a->cluster = *facts;
        double *fact = (double *)(void *)((char *)&a->cluster + changes[n].at);
        *fact = changes[n].more ? *fact * more : *fact / more;
        double after_s = step_of(a, &c);
        n_tried++;
        if (after_s > (1 + rounding) * before_s)
            fail_msg("cluster %d, %s: a step of %.9g s, and %.9g s with %s", i, kind,
                     before_s, after_s, changes[n].what);
    }
}

static void try_cluster(int i) {
    int64_t nodes = 2 + (int64_t)(7 * draw(i, 1));
    weft_config *run = make_run(i, nodes);
    weft_cluster *facts = make_facts(i, nodes);
    wefti_adviser a = {.ctx = ctx, .run = run, .options = {.steps = PLAYED}};
    for (int k = 0; k < KINDS; k++) try_kind(&a, facts, i, kinds[k]);
    weft_cluster_destroy(ctx, facts);
    weft_config_destroy(ctx, run);
}

static void a_better_cluster_is_not_slower(void **state) {
    for (int i = 0; i < CLUSTERS; i++) try_cluster(i);
    assert_int_equal(n_tried, (int64_t)CLUSTERS * KINDS * CHANGES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_better_cluster_is_not_slower, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
