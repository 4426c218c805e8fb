/* SPDX-License-Identifier: MIT */
/* A better cluster is never predicted to be slower: 200 random clusters, full
 * synchronization, one fact at a time made better. Lengths of steps come from the arrays,
 * whose order does not follow chance; by events alone some clusters get slower. */
#include "check.h"

#include <math.h>

#include "base/rng.h"
#include "planner/advise.h"

enum { CLUSTERS = 200, PLAYED = 12 };
static const double allowed = 1 + 1e-9; /* rounding */

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

static void check(int i, const char *what, double before_s, double after_s) {
    if (after_s > allowed * before_s)
        fail_msg("cluster %d: a step of %.6g s, and %.6g s with %s", i, before_s, after_s,
                 what);
}

static void try_cluster(int i) {
    int64_t nodes = 2 + (int64_t)(7 * draw(i, 1));
    weft_config *run = make_run(i, nodes);
    wefti_adviser a = {.ctx = ctx, .run = run, .options = {.steps = PLAYED}};
    weft_candidate c = {.nodes = nodes, .ranks_per_node = 1};
    snprintf(c.settings, sizeof c.settings, "mesh.nodes=%lld method=hsdp",
             (long long)nodes);
    weft_cluster *facts;
    assert_ok(ctx, weft_cluster_create(ctx, &facts));
    facts->nodes = nodes;
    facts->rank_flops = pow(10, 9 + 4 * draw(i, 2));
    facts->memory_Bps = draw(i, 3) < 0.5 ? 0 : 1e10;
    facts->jitter.spread = draw(i, 4) < 0.5 ? 0 : 0.1 * draw(i, 5);
    facts->wire.bandwidth_Bps = pow(10, 5 + 5 * draw(i, 6));
    facts->wire.latency_s = pow(10, -5 + 3.5 * draw(i, 7));
    a.cluster = *facts;
    double more = 1.02 + 0.5 * draw(i, 8), before_s = step_of(&a, &c);
    a.cluster.wire.bandwidth_Bps *= more;
    check(i, "a faster wire", before_s, step_of(&a, &c));
    a.cluster = *facts;
    a.cluster.wire.latency_s /= more;
    check(i, "less latency", before_s, step_of(&a, &c));
    a.cluster = *facts;
    a.cluster.rank_flops *= more;
    check(i, "faster nodes", before_s, step_of(&a, &c));
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
