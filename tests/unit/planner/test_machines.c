/* SPDX-License-Identifier: MIT */
/* Machines that differ, wires that are not what their label says, batches beyond the critical
 * one and failures, against arithmetic by hand. */
#include "configs.h"

#include <math.h>

#include "base/text.h"
#include "net/window.h"
#include "planner/advise.h"
#include "simulate/links.h"

static weft_ctx *ctx;
static weft_config *run;
static weft_cluster *cluster;
static wefti_adviser a;
static const char *method;

static int begin(void **state) {
    if (room_begin(&ctx) != 0) return -1;
    run = config_with(
        ctx, PLANNED_RUN,
        "run.steps=400 schedule.warmup=10 batch.tokens_per_step=2304 mesh.min_message=0");
    assert_ok(ctx, weft_cluster_create(ctx, &cluster));
    method = "method=hsdp optimizer.clip=0";
    cluster->nodes = 3;
    cluster->rank_flops = 1e10;
    cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e12};
    /* at the end of the floor where it adds nothing (advise_floor.c) */
    a = (wefti_adviser){
        .ctx = ctx, .run = run, .options = {.steps = 16}, .at = {.floor = 0.5}};
    return 0;
}

static int end(void **state) {
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, run);
    return ctx_end(ctx);
}

static void is_near(double x, double y, double share) {
    if (!(fabs(x - y) <= share * fabs(y))) fail_msg("%.12g, expected %.12g", x, y);
}

/* A prediction of full synchronization on so many of the cluster's nodes. */
static weft_prediction predict(int64_t nodes, const char *framework) {
    weft_candidate c = {.nodes = nodes, .ranks_per_node = 1, .sites = 1};
    weft_prediction p = {.struct_size = sizeof p};
    snprintf(c.framework, sizeof c.framework, "%s", framework);
    snprintf(c.settings, sizeof c.settings, "mesh.nodes=%lld %s", (long long)nodes,
             method);
    a.cluster = *cluster;
    assert_ok(ctx, wefti_machines_sort(&a));
    assert_ok(ctx, wefti_advise_predict(ctx, &a, &c, 0, &p));
    wefti_machines_drop(&a);
    assert_true(p.mean_step_s > 0);
    return p; /* without spans: nothing to clear */
}

static double step_of(int64_t nodes) { return predict(nodes, "").mean_step_s; }

static void have(int64_t n, const weft_machine *machines) {
    assert_ok(ctx, weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_MACHINES, n));
    if (n > 0) memcpy(cluster->machines, machines, (size_t)n * sizeof *machines);
}

/* ---- machines ---- */

TEST_IN(begin, end, the_slowest_machine_decides_and_the_fastest_are_taken) {
    double alike_s[] = {0, step_of(1), step_of(2), step_of(3)}, ddp_s[4];
    for (int n = 2; n <= 3; n++) ddp_s[n] = predict(n, "ddp").mean_step_s;
    have(2, (weft_machine[]){{.node = 0, .rank_flops = 2.5e9},
                             {.node = 2, .rank_flops = 2e10}});
    is_near(step_of(1), alike_s[1] / 2, 1e-6); /* node 2 alone */
    is_near(step_of(2), alike_s[2], 1e-3);     /* and node 1, as all */
    is_near(step_of(3), alike_s[3] * 4, 1e-3);
    is_near(predict(2, "ddp").mean_step_s, ddp_s[2], 1e-3);
    is_near(predict(3, "ddp").mean_step_s, 4 * ddp_s[3], 1e-3);
}

TEST_IN(begin, end, a_machine_that_is_as_all_changes_no_bit) {
    cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e7, .latency_s = 1e-3};
    double before_s = step_of(3);
    have(1, (weft_machine[]){{.node = 1}});
    assert_true(step_of(3) == before_s);
    have(1, (weft_machine[]){
                {.node = 1, .rank_flops = 1e10, .bandwidth_Bps = 1e7, .up_Bps = 1e7}});
    assert_true(step_of(3) == before_s);
}

/* A step with these codecs and a way out so slow that nothing else counts. */
static double step_with(const char *route, const char *values, double up_Bps) {
    static char keys[200];
    snprintf(keys, sizeof keys,
             "method=flexdemo optimizer.clip=0 replicator.exchange=%s %s", route, values);
    method = keys;
    have(up_Bps > 0, (weft_machine[]){{.node = 2, .up_Bps = up_Bps}});
    return step_of(3);
}

/* The last node is the one whose way out is slow: its int4 is worth what int4 of all is, that of
 * another one nothing, and of equal ways the others bound the step still. */
TEST_IN(begin, end, fewer_bits_pay_behind_a_slow_way_out) {
    static const char *const routes[] = {"all_gather", "sharded"};
    static const char last[] = "replicator.node_values=2=int4",
                      first[] = "replicator.node_values=0=int4",
                      all[] = "replicator.values=int4";
    for (int i = 0; i < 2; i++) {
        cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e8};
        double f32_s = step_with(routes[i], "", 1e4);
        assert_true(step_with(routes[i], last, 1e4) < 0.8 * f32_s);
        is_near(step_with(routes[i], last, 1e4), step_with(routes[i], all, 1e4), 0.02);
        is_near(step_with(routes[i], first, 1e4), f32_s, 0.02);
        double before_s = INFINITY;
        for (double up_Bps = 1e4; up_Bps < 2e8; up_Bps *= 4) {
            double step_s = step_with(routes[i], last, up_Bps);
            assert_true(step_s <= before_s * (1 + 1e-9));
            before_s = step_s;
        }
        cluster->wire.bandwidth_Bps = 1e4;
        f32_s = step_with(routes[i], "", 0);
        assert_true(step_with(routes[i], last, 0) <= f32_s);
        is_near(step_with("all_gather", last, 0), step_with("all_gather", "", 0), 0.02);
    }
}

/* What comes to a node is as long as those who send it say. */
TEST_IN(begin, end, fewer_bits_of_the_others_pay_behind_a_slow_way_in) {
    static const weft_machine slow[] = {{.node = 2, .bandwidth_Bps = 1e4, .up_Bps = 1e8}};
    static const char *const keys[] = {"", " replicator.node_values=2=int4",
                                       " replicator.node_values=0=int4,1=int4",
                                       " replicator.values=int4"};
    double s[4];
    char words[160];
    cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e8};
    have(1, slow);
    for (int i = 0; i < 4; i++) {
        snprintf(words, sizeof words,
                 "method=flexdemo optimizer.clip=0 replicator.exchange=all_gather%s",
                 keys[i]);
        method = words;
        s[i] = step_of(3);
    }
    is_near(s[1], s[0], 0.02);
    is_near(s[2], s[3], 0.02);
    assert_true(s[2] < 0.8 * s[0]);
}

/* ---- codecs behind narrow ways out, as a plan finds them ---- */

static bool is_coded(const weft_candidate *c) {
    return strstr(c->settings, "node_values");
}

/* Whether a plan has rows with these codecs of nodes ("": none), all of which pay. */
static void plans(const char *values, int64_t n, const weft_machine *machines) {
    weft_advise_options options = {.struct_size = sizeof options, .steps = 8};
    weft_advice *advice;
    int64_t found = 0;
    have(n, machines);
    assert_ok(ctx, weft_advise(ctx, run, cluster, &options, &advice));
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        const weft_candidate *c = &advice->candidates[i];
        if (!is_coded(c) || c->nodes < 3) continue;
        if (!strstr(c->settings, values) || !values[0])
            fail_msg("%s, expected %s", c->settings, values);
        assert_true(wefti_advise_recipe(c) && c->learning.measured);
        found++;
        for (int64_t k = 0; k < advice->n_candidates; k++) {
            const weft_candidate *other = &advice->candidates[k];
            if (k == i || other->nodes != c->nodes || !wefti_is(other->method, c->method))
                continue;
            assert_true(!is_coded(other) && c->cost_s < other->cost_s / 1.01);
        }
    }
    assert_true(found > 0 || !values[0]);
    weft_advice_destroy(ctx, advice);
}

TEST_IN(begin, end, the_narrow_way_out_sends_fewer_bits_where_that_pays) {
    cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e7};
    plans("node_values=1=", 1, (weft_machine[]){{.node = 1, .up_Bps = 1e4}});
    plans("node_values=2=", 2,
          (weft_machine[]){{.node = 0, .rank_flops = 5e9}, {.node = 2, .up_Bps = 1e4}});
    plans(",2=", 2,
          (weft_machine[]){{.node = 0, .up_Bps = 2e4}, {.node = 2, .up_Bps = 1e4}});
    plans("", 0, NULL);
    cluster->wire.bandwidth_Bps = 1e4; /* narrow, as nearly all are */
    plans("", 1, (weft_machine[]){{.node = 1, .up_Bps = 5e3}});
    cluster->wire.bandwidth_Bps = 1e12; /* nobody waits for the wire */
    plans("", 1, (weft_machine[]){{.node = 1, .up_Bps = 1e11}});
}

/* 24 sequences on rates 2, 1 and 1/4: whole ones, so that none takes longer than it must. */
TEST_IN(begin, end, sequences_go_by_speed) {
    double each_s = step_of(1) / 72; /* of one sequence at the rate of all */
    have(2, (weft_machine[]){{.node = 0, .rank_flops = 2.5e9},
                             {.node = 2, .rank_flops = 2e10}});
    a.options.shares = true;
    double least_s = 72 / 3.25 * each_s, found_s = step_of(3);
    /* 44 + 22 + 5 are whole parts of 72 by speed; the one that is left goes to the fastest */
    is_near(found_s, 45 / 2.0 * each_s, 2e-3);
    assert_true(found_s >= least_s);
    is_near(predict(3, "ddp").mean_step_s, found_s, 0.01);
}

static double least_memory(int64_t nodes, double bytes) {
    return wefti_machines_memory(&a, &(weft_candidate){.nodes = nodes}, bytes);
}

TEST_IN(begin, end, the_least_memory_counts) {
    cluster->memory_bytes = 1e9;
    have(2, (weft_machine[]){{.node = 0, .rank_flops = 1e9, .memory_bytes = 5e8},
                             {.node = 2, .memory_bytes = 4e9}});
    a.cluster = *cluster;
    assert_ok(ctx, wefti_machines_sort(&a));
    assert_true(least_memory(2, 0) == 1e9);
    assert_true(least_memory(3, 0) == 5e8);
    assert_true(least_memory(2, 8e8) == 1e9); /* without node 0 */
    assert_true(least_memory(3, 8e8) == 5e8); /* two have it, not three */
    wefti_machines_drop(&a);
    assert_true(least_memory(3, 0) == 1e9);
}

/* Of machines with 4 and 2 ranks each rank has as much: of what a node's ranks share those of the
 * second hold twice as much, of what all six share 8/6, of whole copies the same. */
TEST_IN(begin, end, fewer_ranks_hold_more_of_what_is_shared) {
    static const struct {
        const char *framework;
        int64_t shards;
        double counts;
    } cases[] = {{"", 0, 2. / 4}, {"hsdp", 0, 2. / 4}, {"fsdp", 0, 6. / 8},
                 {"", 1, 1},      {"ddp", 1, 1},       {"zero1", 1, 1}};
    weft_advice advice = {.n_ranks = 2, .ranks = (int64_t[]){4, 2}};
    cluster->memory_bytes = 24e9;
    cluster->nodes = 2;
    cluster->ranks_per_node = 4;
    have(1, (weft_machine[]){{.node = 0, .rank_flops = 5e9}});
    a.cluster = *cluster;
    a.options.ranks = (int64_t[]){2, 4};
    a.advice = &advice;
    assert_ok(ctx, wefti_machines_sort(&a));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_candidate c = {.nodes = 2, .ranks_per_node = 4, .shards = cases[i].shards};
        snprintf(c.framework, sizeof c.framework, "%s", cases[i].framework);
        is_near(wefti_machines_memory(&a, &c, 0), cases[i].counts * 24e9, 1e-12);
        c.nodes = 1; /* the one with four */
        is_near(wefti_machines_memory(&a, &c, 0), 24e9, 1e-12);
    }
    wefti_machines_drop(&a);
}

/* The order in which machines are taken: computing, then the slower way of the wire, then number;
 * and rows by speed, of which everybody has one. */
TEST_IN(begin, end, machines_are_taken_in_one_order) {
    static const struct {
        int n;
        weft_machine machines[3];
        int64_t order[3], rows[3]; /* of 4 sequences; by number */
    } cases[] = {
        {1, {{.node = 1}}, {0, 1, 2}, {2, 1, 1}},
        {1, {{.node = 0, .bandwidth_Bps = 1e6}}, {1, 2, 0}, {1, 2, 1}},
        {1, {{.node = 1, .up_Bps = 1e6}}, {0, 2, 1}, {2, 1, 1}},
        {1, {{.node = 2, .rank_flops = 2e10}}, {2, 0, 1}, {1, 1, 2}},
        {2,
         {{.node = 0, .rank_flops = 1e3}, {.node = 1, .rank_flops = 1e3}},
         {2, 0, 1},
         {1, 1, 2}},
    };
    assert_ok(ctx, weft_config_set(ctx, run, "batch.tokens_per_step=128"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const weft_candidate c = {.nodes = 3, .ranks_per_node = 1, .sites = 1};
        int64_t *rows;
        have(cases[i].n, cases[i].machines);
        a.cluster = *cluster;
        assert_ok(ctx, wefti_machines_sort(&a));
        assert_ok(ctx, wefti_machines_shares(ctx, &a, &c, NULL, &rows));
        for (int k = 0; k < 3; k++) {
            assert_int_equal(a.machines[k].node, cases[i].order[k]);
            assert_int_equal(rows[k], cases[i].rows[k]);
        }
        wefti_free(ctx, rows);
        wefti_machines_drop(&a);
    }
}

/* What is not known of a machine's memory keeps nobody away from it. */
TEST_IN(begin, end, memory_that_is_not_known_is_enough) {
    have(1, (weft_machine[]){{.node = 0, .rank_flops = 2e10, .memory_bytes = 1e8}});
    a.cluster = *cluster;
    assert_ok(ctx, wefti_machines_sort(&a));
    assert_true(least_memory(1, 0) == 1e8);
    assert_true(least_memory(1, 5e8) == 0); /* node 1 */
    const weft_candidate c = {.nodes = 1,
                              .ranks_per_node = 1,
                              .sites = 1,
                              .prediction = {.memory_bytes = 500000000}};
    int64_t *rows;
    assert_ok(ctx, wefti_machines_shares(ctx, &a, &c, NULL, &rows));
    assert_true(rows[0] == 0 && rows[1] > 0);
    wefti_free(ctx, rows);
    assert_true(least_memory(3, 5e8) == 0); /* all: none is left out */
    wefti_machines_drop(&a);
}

/* ---- little memory ---- */

/* Three nodes with more keys; needed: what a rank takes. */
static weft_prediction with(const char *more) {
    weft_candidate c = {.nodes = 3, .ranks_per_node = 1, .sites = 1};
    weft_prediction p = {.struct_size = sizeof p};
    snprintf(c.settings, sizeof c.settings, "mesh.nodes=3 %s %s", method, more);
    a.cluster = *cluster;
    assert_ok(ctx, wefti_advise_predict(ctx, &a, &c, 0, &p));
    return p;
}

static double needed(const char *more) { return (double)with(more).memory_bytes; }

/* The third of three equal machines has less memory: in the order of weft train it computes twice,
 * makes smaller passes, both, or is left out, and all wait as if all did so. */
TEST_IN(begin, end, a_machine_of_little_memory_makes_room_as_weft_train_does) {
    double plain = needed(""), twice = needed("model.recompute=true"),
           less = needed("batch.micro=1"),
           least = needed("batch.micro=1 model.recompute=true");
    assert_true(plain > twice && twice > less && less > least);
    const struct {
        double has, needs;
        bool twice, smaller;
        const char *as;
    } cases[] = {{plain, 0, false, false, ""},
                 {twice, twice, true, false, "model.recompute=true"},
                 {less, less, false, true, "batch.micro=1"},
                 {least, least, true, true, "batch.micro=1 model.recompute=true"},
                 {least - 1, 0, false, false, ""}};
    cluster->launch_s = 1e-4;
    assert_true(with("batch.micro=1").mean_step_s > 1.1 * with("").mean_step_s);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_candidate c = {.nodes = 3, .ranks_per_node = 1, .sites = 1};
        weft_prediction p = {.struct_size = sizeof p};
        wefti_tight t;
        weft_config *config;
        weft_predict_options options;
        double bytes = 0, as_s = with(cases[i].as).mean_step_s;
        have(1, (weft_machine[]){{.node = 2, .memory_bytes = cases[i].has}});
        cluster->memory_bytes = 2 * plain;
        a.cluster = *cluster;
        snprintf(c.settings, sizeof c.settings, "mesh.nodes=3 %s", method);
        assert_ok(ctx, wefti_machines_sort(&a));
        c.prediction.memory_bytes = (int64_t)plain;
        if (i > 0) assert_ok(ctx, wefti_advise_squeeze(ctx, &a, &c, &bytes));
        assert_true(bytes == cases[i].needs);
        if (bytes > 0) c.prediction.memory_bytes = (int64_t)bytes;
        assert_ok(ctx, wefti_advise_configure(ctx, &a, &c, &options, &config));
        assert_ok(ctx, wefti_machines_tight(ctx, &a, &c, config, &t));
        weft_config_destroy(ctx, config);
        assert_int_equal(t.node, bytes > 0 ? 2 : -1);
        assert_true(t.twice == cases[i].twice && t.smaller == cases[i].smaller);
        assert_ok(ctx, wefti_advise_predict(ctx, &a, &c, 0, &p));
        wefti_machines_drop(&a);
        have(0, NULL);
        is_near(p.mean_step_s, as_s, 0.01);
        if (t.twice && !t.smaller) assert_true(t.slower > 1.2 && t.slower < 1.34);
    }
}

/* ---- wires ---- */

/* Among two that send each other as much, the slower of the two ways is what counts. */
TEST_IN(begin, end, the_way_out_is_apart_from_the_way_in) {
    cluster->nodes = 2;
    cluster->rank_flops = 1e14;
    cluster->wire.bandwidth_Bps = 1e7;
    double wide_s = step_of(2), ddp_s = predict(2, "ddp").mean_step_s;
    cluster->wire.up_Bps = 1e7;
    assert_true(step_of(2) == wide_s);
    cluster->wire.up_Bps = 1e6;
    double narrow_s = step_of(2), narrow_ddp_s = predict(2, "ddp").mean_step_s;
    is_near(narrow_s, 10 * wide_s, 0.02);
    is_near(narrow_ddp_s, 10 * ddp_s, 0.01);
    cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e6, .up_Bps = 1e7};
    is_near(step_of(2), narrow_s, 0.02);
    cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e7};
    have(1, (weft_machine[]){{.node = 1, .up_Bps = 1e6}});
    is_near(step_of(2), narrow_s, 0.02);
    is_near(predict(2, "ddp").mean_step_s, narrow_ddp_s, 0.01);
}

TEST_IN(begin, end, losses_and_delays_follow_their_formulas) {
    weft_link_facts f = {.bandwidth_Bps = 1e8, .latency_s = 0.01, .overhead = 0.1};
    wefti_link_use four = {.joined = 4}, two = {.joined = 2};
    wefti_link_time plain = wefti_link_of(&f, four);
    assert_true(plain.bandwidth_Bps == 1e8 && plain.latency_s == 0.01 && plain.up == 1);
    f.loss = 0.0001;
    f.jitter_s = 0.006;
    four.flows = 2;
    wefti_link_time poor = wefti_link_of(&f, four);
    is_near(poor.bandwidth_Bps, 2 * 1.22 * 1448 / (0.02 * 0.01), 1e-9);
    is_near(poor.stretch, 1.1 / 0.9999, 1e-9);
    is_near(poor.latency_s, 0.01 + 0.006 * (1 + 1 / 2.0 + 1 / 3.0), 1e-9);
    f.latency_s = 0; /* a loss is made good at once */
    assert_true(wefti_link_of(&f, two).bandwidth_Bps == 1e8);
}

/* Each socket to each of the others has a window under way; shards have sockets of their own. */
TEST_IN(begin, end, a_long_wire_carries_its_windows_in_a_round_trip) {
    weft_link_facts f = {.bandwidth_Bps = 1e9, .latency_s = 0.05};
    wefti_link_use one = {.joined = 2, .streams = 1}, use = one;
    double window_Bps = wefti_window_bytes(0) / 0.1;
    is_near(wefti_link_of(&f, one).bandwidth_Bps, window_Bps, 1e-9);
    use.joined = 4;
    is_near(wefti_link_of(&f, use).bandwidth_Bps, 3 * window_Bps, 1e-9);
    is_near(wefti_link_of(&f, use).pair_Bps, window_Bps, 1e-9);
    use.joined = use.flows = 2;
    is_near(wefti_link_of(&f, use).bandwidth_Bps, 2 * window_Bps, 1e-9);
    use = (wefti_link_use){.joined = 2, .streams = 5}; /* one of them carries the heads */
    is_near(wefti_link_of(&f, use).bandwidth_Bps, 4 * window_Bps, 1e-9);
    use.streams =
        0; /* what opens them by itself aims at 1 Gbit/s, for all pairs together */
    is_near(wefti_link_of(&f, use).bandwidth_Bps, 1.25e8, 1e-9);
    use.joined = 5, use.peers = 4;
    is_near(wefti_link_of(&f, use).pair_Bps, 1.25e8 / 4, 1e-9);
    f.bandwidth_Bps = 1e6;
    assert_true(wefti_link_of(&f, one).bandwidth_Bps == 1e6);
    f = (weft_link_facts){.bandwidth_Bps = 1e11, .latency_s = 5e-6}; /* no socket */
    assert_true(wefti_link_of(&f, one).bandwidth_Bps == 1e11);
    f = (weft_link_facts){.bandwidth_Bps = 1e9, .latency_s = 0.05, .residual = 0.01};
    assert_true(wefti_link_of(&f, one).bandwidth_Bps == 1e9); /* measured */
}

/* mesh.streams is read; a machine with an interface of its own is bound as all are; and a message
 * to one of several takes what its pair carries. */
TEST_IN(begin, end, windows_bound_a_step) {
    cluster->rank_flops = 1e15;
    cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e9, .latency_s = 0.05};
    double window_Bps = wefti_window_bytes(0) / 0.1, auto_s = step_of(2);
    assert_ok(ctx, weft_config_set(ctx, run, "mesh.streams=1"));
    weft_prediction one = predict(2, "");
    double longer_s = one.wire_bytes * (1 / window_Bps - 8e-9); /* latencies hide some */
    assert_true(one.mean_step_s - auto_s > 0.6 * longer_s);
    assert_true(one.mean_step_s - auto_s < 1.01 * longer_s);
    have(2, (weft_machine[]){{.node = 0, .bandwidth_Bps = 2e9},
                             {.node = 1, .bandwidth_Bps = 2e9}});
    is_near(step_of(2), one.mean_step_s, 1e-6);
    have(0, NULL);
    cluster->nodes = 8; /* a neighbour at a time, of seven */
    method = "method=dadam mixer.topology=aer";
    weft_prediction pairs = predict(8, "");
    assert_ok(ctx, weft_config_set(ctx, run, "mesh.streams=8"));
    double wider_s = predict(8, "").mean_step_s;
    assert_true(pairs.mean_step_s - wider_s > 0.5 * pairs.wire_bytes / window_Bps);
}

/* Wire-bound steps take as much longer as the wire carries less. */
TEST_IN(begin, end, busy_hours_count_by_the_steps_of_a_day) {
    cluster->rank_flops = 1e14;
    cluster->wire.bandwidth_Bps = 1e7;
    double quiet_s = step_of(3);
    cluster->wire.bandwidth_Bps = 2.5e6;
    double slow_s = step_of(3);
    cluster->wire.bandwidth_Bps = 1e7;
    a.options.busy_s = 6 * 3600;
    a.options.busy_share = 0.25;
    is_near(step_of(3), 1 / (0.25 / slow_s + 0.75 / quiet_s), 1e-9);
    a.options.busy_s = 86400;
    is_near(step_of(3), slow_s, 1e-9);
    a.options.busy_s = 6 * 3600;
    double one_s = step_of(1);
    a.options.busy_s = 0;
    assert_true(step_of(1) == one_s);
}

/* ---- learning and failures ---- */

TEST_IN(begin, end, large_batches_teach_less_by_the_token) {
    assert_true(wefti_advise_efficiency(&a, 8) == 1);
    a.options.critical_batch = 2304;
    assert_true(wefti_advise_efficiency(&a, 8) == 1); /* one batch for all */
    a.options.batch_per_rank = true;
    is_near(wefti_advise_efficiency(&a, 3), 2.0 / 4, 1e-12);
    weft_candidate c = {.nodes = 3, .steps = 1};
    is_near(wefti_advise_cost(&a, &c, 6), 6 / 3.0 * 2, 1e-12);
}

TEST_IN(begin, end, equal_replicas_go_on_and_others_go_back) {
    weft_candidate c = {.nodes = 4, .prediction = {.mean_step_s = 1, .goes_on = true}};
    a.options.failure_s = 1e6;
    a.options.restart_s = 800;
    a.options.save_s = 10;
    double tau_s = sqrt(2 * 10 * 1e6 / 4), often = 4 / 1e6;
    double back = 1 + 10 / tau_s + often * (tau_s / 2 + 800);
    is_near(wefti_advise_failures(&a, &c, c.prediction.mean_step_s),
            1 + often * (run->elastic.silence + 200), 1e-12);
    a.options.roll_back = true;
    is_near(wefti_advise_failures(&a, &c, c.prediction.mean_step_s), back, 1e-12);
    a.options.roll_back = false;
    snprintf(c.framework, sizeof c.framework, "ddp");
    is_near(wefti_advise_failures(&a, &c, c.prediction.mean_step_s), back, 1e-12);
    assert_true(predict(3, "").goes_on && !predict(1, "").goes_on);
}
