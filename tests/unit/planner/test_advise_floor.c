/* SPDX-License-Identifier: MIT */
/* What never divides, and a wire and a constant from two measured steps. */
#include "configs.h"
#include "room.h"

#include <math.h>

#include <weft/plan.h>

#include "planner/advise.h"
#include "planner/framework.h"

static weft_config *make_run(const char *micro) {
    return config_with(
        ctx, PLANNED_RUN "run.steps=400 batch.tokens_per_step=2048 mesh.min_message=0",
        micro);
}

/* 64 sequences of 32 tokens. */
TEST_IN(begin, end, what_never_divides_is_added) {
    static const struct {
        const char *micro;
        int64_t nodes;
        double launch_s, spread;
        int64_t n_units, n_steps;
        bool per_rank;
        double at, fixed, varies;
    } cases[] = {
        {"batch.micro=0", 1, 0, 0, 0, 0, false, 0, 0,
         0}, /* that one is what is compared with */
        {"batch.micro=0", 2, 0, 0, 0, 0, false, 0, 0.03, 0.02},
        {"batch.micro=0", 4, 0, 0, 0, 0, false, 0, 3 * 0.03, 0.02},
        {"batch.micro=0", 64, 0, 0, 0, 0, false, 0, 7 * 0.03,
         0.02},                                               /* nothing beyond 8 */
        {"batch.micro=0", 4, 0, 0, 0, 0, true, 0, 0, 0.02},   /* as many tokens each */
        {"batch.micro=16", 2, 0, 0, 0, 0, false, 0, 0, 0.02}, /* half of the passes */
        {"batch.micro=32", 4, 0, 0, 0, 0, false, 0, 0.03,
         0.02}, /* 2 passes, then 1 of half */
        {"batch.micro=0", 4, 1e-3, 0, 0, 0, false, 0, 0, 0.02}, /* a second batch size */
        {"batch.micro=0", 4, 0, 0.05, 0, 0, false, 0, 3 * 0.03, 0},
        {"batch.micro=0", 4, 1e-3, 0.05, 0, 0, false, 0, 0, 0},
        {"batch.micro=0", 4, 0, 0, 3, 0, false, 0, 0, 0}, /* a probe's units */
        {"batch.micro=0", 4, 0, 0, 0, 9, false, 0, 0, 0},
        {"batch.micro=0", 4, 0, 0, 0, 0, false, 2, 3 * 0.08, 0.09}, /* the slow end */
        {"batch.micro=0", 4, 0, 0, 0, 0, false, 0.5, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_config *run = make_run(cases[i].micro);
        weft_candidate c = {.nodes = cases[i].nodes, .ranks_per_node = 1};
        wefti_adviser a = {.run = run,
                           .at = {.floor = cases[i].at},
                           .options = {.batch_per_rank = cases[i].per_rank},
                           .cluster = {.launch_s = cases[i].launch_s,
                                       .jitter = {.spread = cases[i].spread},
                                       .n_units = cases[i].n_units,
                                       .n_steps = cases[i].n_steps}};
        double extra = wefti_advise_floor(&a, &c);
        double expected = cases[i].fixed +
                          cases[i].varies * wefti_largest_of((double)c.nodes);
        if (fabs(extra - expected) > 1e-12)
            fail_msg("case %zu: %g, expected %g", i, extra, expected);
        weft_config_destroy(ctx, run);
    }
}

/* Of 2, 4 and 16 machines one is late by these many spreads (order statistics of normals). */
TEST(the_slowest_of_more_is_later) {
    assert_true(fabs(wefti_largest_of(2) - 0.5642) < 1e-4);
    assert_true(fabs(wefti_largest_of(4) - 1.0294) < 1e-4);
    assert_true(fabs(wefti_largest_of(16) - 1.7660) < 1e-4);
}

/* A step on 4 nodes has its part: there both ends are as measured, and on more nodes what is
 * beyond lies between them. */
TEST_IN(begin, end, a_measured_step_leaves_what_grows) {
    weft_config *run = make_run("batch.micro=0");
    double at[3] = {0.5, 1, 2}, f[3];
    for (int64_t nodes = 2; nodes <= 8; nodes *= 2) {
        weft_candidate c = {.nodes = nodes, .ranks_per_node = 1};
        for (int i = 0; i < 3; i++) {
            wefti_adviser a = {.run = run,
                               .at = {.floor = at[i]},
                               .measured_nodes = 4,
                               .options = {.batch_per_rank = true}};
            f[i] = wefti_advise_floor(&a, &c);
            assert_true(f[i] >= 0);
        }
        double more = wefti_largest_of((double)nodes) - wefti_largest_of(4);
        assert_true(fabs(f[1] - 0.02 * wefti_largest_of((double)nodes)) < 1e-12);
        assert_true(fabs(f[0] - 0.02 * wefti_largest_of(4)) < 1e-12);
        if (nodes >= 4) assert_true(fabs(f[2] - f[0] - 0.09 * more) < 1e-12);
    }
    weft_config_destroy(ctx, run);
}

/* ---- two anchors ---- */

typedef struct scene {
    weft_config *run;
    weft_cluster *cluster;
    weft_inference_of_facts found;
    weft_advice *advice;
} scene;

static scene ask(const char *one, const char *two, const char *link, weft_known wire) {
    weft_measurement m[2] = {{.struct_size = sizeof m[0]}, {.struct_size = sizeof m[0]}};
    scene s = {.run = make_run("batch.micro=0"), .found.struct_size = sizeof s.found};
    int n = one ? 2 : 1;
    assert_ok(ctx, weft_cluster_create(ctx, &s.cluster));
    assert_ok(ctx, weft_cluster_set(ctx, s.cluster, "nodes", "4"));
    if (link) assert_ok(ctx, weft_cluster_set(ctx, s.cluster, "link", link));
    assert_ok(ctx, weft_measurement_parse(ctx, two, &m[n - 1]));
    if (one) assert_ok(ctx, weft_measurement_parse(ctx, one, &m[0]));
    weft_advise_options o = {.struct_size = sizeof o,
                             .steps = 12,
                             .same_only = true,
                             .frameworks = "ddp",
                             .wire = wire,
                             .measured = m,
                             .n_measured = n,
                             .inferred = &s.found};
    assert_ok(ctx, weft_cluster_anchor(ctx, s.run, &o, m, n, s.cluster, &s.found));
    for (int i = 0; i < n; i++)
        assert_true(fabs(m[i].predicted_s / m[i].seconds - 1) < 0.01);
    o.computing = s.found.computing, o.wire = s.found.wire;
    assert_ok(ctx, weft_advise(ctx, s.run, s.cluster, &o, &s.advice));
    return s;
}

static void drop(scene *s) {
    weft_advice_destroy(ctx, s->advice);
    weft_cluster_destroy(ctx, s->cluster);
    weft_config_destroy(ctx, s->run);
}

/* ddp on so many nodes: step and both ends, from the ends of its speed-up. */
static void step_of(const scene *s, int64_t nodes, double out[3]) {
    const weft_advice *a = s->advice;
    double one_s = a->candidates[a->baseline].prediction.mean_step_s;
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *c = &a->candidates[i];
        if (strcmp(c->framework, "ddp") != 0 || c->nodes != nodes) continue;
        out[0] = c->prediction.mean_step_s;
        out[1] = one_s / a->outlooks[i].alone_high;
        out[2] = one_s / a->outlooks[i].alone_low;
        return;
    }
    fail_msg("no ddp on %lld nodes", (long long)nodes);
}

/* A step that takes longer than the label says: half of that is the wire's, half a constant,
 * and the ends are all of one. */
TEST_IN(begin, end, two_anchors_fit_a_wire_and_a_constant) {
    double two[3], four[3];
    scene s = ask("1 node: 100 ms", "2 nodes, ddp: 90 ms", "1Gbit,50us",
                  WEFT_KNOWN_TYPED);
    const weft_inference_of_facts *f = &s.found;
    assert_true(f->constant_s > 5e-3 && f->constant_s < 40e-3);
    assert_true(f->wire_Bps < 125e6 && f->all_wire < 1 && f->no_wire > 1);
    assert_true(fabs(f->no_wire * f->wire_Bps / 125e6 - 1) < 1e-6);
    assert_true(f->all_constant == 2);
    assert_non_null(strstr(f->text, "a step on several nodes takes "));
    assert_null(strstr(f->text, "number of streams"));
    step_of(&s, 2, two);
    step_of(&s, 4, four);
    assert_true(fabs(two[0] / 90e-3 - 1) < 0.01);
    assert_true(two[2] / two[1] < 1.06); /* both ends pass through what was measured */
    assert_true(four[1] < four[0] && four[0] < four[2]);
    assert_true(four[2] / four[1] > 1.1);
    drop(&s);
}

/* So long an excess is no constant. */
TEST_IN(begin, end, a_long_excess_is_the_wires) {
    scene s = ask("1 node: 100 ms", "2 nodes, ddp: 400 ms", "1Gbit,50us",
                  WEFT_KNOWN_TYPED);
    assert_true(s.found.constant_s == 0 && s.found.wire_Bps < 0.1 * 125e6);
    assert_non_null(strstr(s.found.text, "number of streams"));
    drop(&s);
}

/* A wire that an exchange has measured leaves only the constant. */
TEST_IN(begin, end, a_measured_wire_leaves_a_constant) {
    scene s = ask("1 node: 100 ms", "2 nodes, ddp: 90 ms", "1Gbit,50us",
                  WEFT_KNOWN_MEASURED);
    assert_true(s.found.wire_Bps == 0 && s.cluster->wire.bandwidth_Bps == 125e6);
    assert_true(s.found.constant_s > 20e-3 && s.found.all_constant == 0);
    drop(&s);
}

/* Nothing on one node: a slower wire goes with faster ranks, so that the step is as long. */
TEST_IN(begin, end, ranks_and_wire_move_together) {
    double two[3];
    scene s = ask(NULL, "2 nodes, ddp: 90 ms", "1Gbit,50us", WEFT_KNOWN_TYPED);
    assert_true(s.found.fast_wire >= WEFT_TCP_LOW && s.found.fast_wire < 1);
    assert_true(s.found.fast_flops > 1 && s.found.fast_flops < 4.01);
    step_of(&s, 2, two);
    assert_true(fabs(two[0] / 90e-3 - 1) < 0.01);
    wefti_point ends[2];
    s.advice->inferred->all_constant = 0;
    wefti_adviser a = {.advice = s.advice, .options = {.computing = WEFT_KNOWN_TYPED}};
    wefti_advise_ends(&a, ends);
    assert_true(ends[0].wire == s.found.fast_wire && ends[1].wire == 1);
    assert_true(ends[0].computing == s.found.fast_flops && ends[1].computing == 1);
    drop(&s);
}
