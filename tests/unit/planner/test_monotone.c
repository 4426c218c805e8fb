/* SPDX-License-Identifier: MIT */
/* A better cluster is never predicted to be slower: 200 random clusters, every preset, one
 * fact at a time made better. */
#include "check.h"

#include <math.h>
#include <stddef.h>

#include "base/rng.h"
#include "planner/advise.h"

/* A sanitizer looks at the code and not at the numbers: fewer clusters, all presets. */
enum { CLUSTERS = UNDER_SANITIZER ? 16 : 200, PLAYED = 12 };

/* Where coding takes long, an exchange thread that is sooner may begin to wait for one bucket
 * before the next is there, and so begin that one later, as it does on real machines: steps
 * get longer by what a message's coding takes. Elsewhere rounding is all. */
static const double rounding = 1e-9, waits_too_soon = 0.01;

typedef struct kind {
    const char *settings;
    bool codes;
} kind;

static const kind kinds[] = {
    {"method=hsdp", false},
    {"method=hsdp optimizer.clip=0", false},
    {"method=hsdp optimizer.clip=0 replicator.values=int8", true},
    {"method=flexdemo replicator.exchange=all_gather", true},
    {"method=flexdemo replicator.exchange=sharded", true},
    {"method=topk", true},
    {"method=deto-adamw", true},
    {"method=random", false},
    {"method=striding", false},
    {"method=slicing", false},
    {"method=dadam", false},
    {"method=dadam mixer.topology=ring", false},
    {"method=dadam mixer.topology=complete", false},
    {"method=dadam mixer.order=atc", false},
    {"method=accumadam", false},
    {"method=dadam mixer.kind=choco mixer.topology=ring mixer.values=int8", false},
    {"method=diloco mixer.outer_every=4", false},
    {"method=muloco mixer.outer_every=4", false},
    {"method=streaming-diloco mixer.outer_every=8", false},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static weft_ctx *ctx;

static int begin(void **state) {
    (void)state;
    return room_begin(&ctx);
}

static int end(void **state) {
    (void)state;
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
    weft_prediction_clear(ctx, &p);
    return p.mean_step_s;
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
};

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
    return facts;
}

static void try_kind(wefti_adviser *a, const weft_cluster *facts, int i, const kind *k) {
    weft_candidate c = {.nodes = facts->nodes, .ranks_per_node = 1, .sites = 1};
    double more = 1.02 + 0.5 * draw(i, 8),
           limit = 1 + (k->codes ? waits_too_soon : rounding);
    snprintf(c.settings, sizeof c.settings, "mesh.nodes=%lld %s", (long long)facts->nodes,
             k->settings);
    a->cluster = *facts;
    double before_s = step_of(a, &c);
    for (size_t n = 0; n < sizeof changes / sizeof changes[0]; n++) {
        a->cluster = *facts;
        double *fact = (double *)(void *)((char *)&a->cluster + changes[n].at);
        *fact = changes[n].more ? *fact * more : *fact / more;
        double after_s = step_of(a, &c);
        if (after_s > limit * before_s)
            fail_msg("cluster %d, %s: a step of %.9g s, and %.9g s with %s", i,
                     k->settings, before_s, after_s, changes[n].what);
    }
}

static void try_cluster(int i) {
    int64_t nodes = 2 + (int64_t)(7 * draw(i, 1));
    weft_config *run = make_run(i, nodes);
    weft_cluster *facts = make_facts(i, nodes);
    wefti_adviser a = {.ctx = ctx, .run = run, .options = {.steps = PLAYED}};
    for (int k = 0; k < KINDS; k++) try_kind(&a, facts, i, &kinds[k]);
    weft_cluster_destroy(ctx, facts);
    weft_config_destroy(ctx, run);
}

static void a_better_cluster_is_not_slower(void **state) {
    (void)state;
    for (int i = 0; i < CLUSTERS; i++) try_cluster(i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_better_cluster_is_not_slower, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
