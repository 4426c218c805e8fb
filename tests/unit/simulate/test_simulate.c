/* SPDX-License-Identifier: MIT */
/* Long runs against the event model where both can be had, and against arithmetic where
 * machines fail. */
#include "unit/simulate/forecasts.h"

static const char *const calm[] = {
    "link", "1Gbit,0.2ms", "rank-flops", "1G", "memory-bandwidth", "10GB/s", NULL};
static const char *const rough[] = {
    "link", "1Gbit,0.2ms", "rank-flops", "1G",    "memory-bandwidth", "10GB/s", "jitter",
    "10%",  "drift",       "5%",         "stall", "1%,20ms",          NULL};

/* Messages are most of a step. */
static const char *const thin[] = {
    "link", "20Mbit,0.2ms", "rank-flops", "100G", "memory-bandwidth", "10GB/s", NULL};

/* What codecs and mixers compute is most of a step. */
static const char *const slow_memory[] = {
    "link", "10Gbit,0.2ms", "rank-flops", "100G", "memory-bandwidth", "50MB/s", NULL};

static weft_simulation simulate(weft_ctx *ctx, const weft_config *config,
                                const weft_cluster *cluster,
                                const weft_simulate_options *options) {
    weft_simulation x = {.struct_size = sizeof x};
    if (weft_simulate(ctx, config, cluster, options, &x) != WEFT_OK)
        fail_msg("%s", weft_ctx_message(ctx));
    return x;
}

static void check_parts(const weft_simulation *x) {
    const weft_lost_time *l = &x->lost;
    double sum = x->compute_s + l->codec_s + l->wire_s + l->slow_s + l->waiting_s +
                 l->saving_s + l->repeated_s + l->restart_s;
    assert_true(l->codec_s > -1e-9 && l->wire_s > -1e-9 && l->slow_s >= 0 &&
                l->waiting_s >= 0);
    assert_near(sum, x->elapsed_s, 0.02);
}

static void check_agreement(const char *keys, int nodes, const char *const *typed,
                            double share) {
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, nodes, 1, keys);
    weft_cluster *cluster = make_cluster(ctx, typed);
    weft_simulate_options options = {
        .struct_size = sizeof options, .steps = 240, .seed = 3};
    weft_predict_options events = {
        .struct_size = sizeof events, .steps = 240, .seed = 3, .events = true};
    weft_prediction p = {.struct_size = sizeof p};
    weft_simulation x = simulate(ctx, config, cluster, &options);
    if (weft_predict(ctx, config, cluster, &events, &p) != WEFT_OK)
        fail_msg("%s: %s", keys, weft_ctx_message(ctx));
    if (!(fabs(x.mean_step_s / p.mean_step_s - 1) <= share))
        fail_msg("%s, %d nodes: %.6g s in arrays, %.6g s by events", keys, nodes,
                 x.mean_step_s, p.mean_step_s);
    assert_near(x.wire_bytes_step, (double)p.wire_bytes_step, 0.02);
    check_parts(&x);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

static const char *const kinds[] = {
    "method=hsdp",
    "method=hsdp optimizer.clip=0 replicator.values=int8",
    "method=flexdemo replicator.exchange=all_gather",
    "method=flexdemo replicator.exchange=sharded optimizer.clip=0",
    "method=async-demo",
    "method=random",
    "method=dadam",
    "method=dadam optimizer.clip=0 mixer.topology=exponential",
    "method=dadam mixer.topology=complete",
    "method=dadam mixer.order=atc",
    "method=dadam mixer.average_every=6",
    "method=dadam mixer.kind=choco mixer.topology=ring mixer.values=int8",
    "method=noloco mixer.outer_every=4",
    "method=noloco mixer.topology=aer mixer.order=atc mixer.outer_every=3",
    "method=diloco mixer.outer_every=4",
    "method=diloco mixer.outer_every=6 mixer.fragments=2 mixer.delay=3",
    "method=sparseloco mixer.outer_every=4",
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Sums in place of single messages: 3 % of a step. */
TEST(arrays_agree_with_events) {
    for (int i = 0; i < KINDS; i++) {
        check_agreement(kinds[i], 2, calm, 0.03);
        check_agreement(kinds[i], 6, calm, 0.03);
        check_agreement(kinds[i], 16, calm, 0.03);
    }
}

/* With messages that overtake each other at times: 3 %. */
TEST(they_do_with_jitter) {
    for (int i = 0; i < KINDS; i++) check_agreement(kinds[i], 4, rough, 0.03);
}

TEST(they_do_where_exchanges_compute_long) {
    for (int i = 0; i < KINDS; i++) check_agreement(kinds[i], 4, slow_memory, 0.03);
}

/* Owners of a bucket with few chunks have one more or one less, and all wait for the one with most.
 * The program's order of phases takes up to 6 % more than the best of three. */
TEST(they_do_where_the_wire_rules) {
    for (int i = 0; i < KINDS; i++) {
        check_agreement(kinds[i], 4, thin, 0.06);
        check_agreement(kinds[i], 16, thin, 0.06);
    }
    check_agreement("method=flexdemo replicator.exchange=sharded", 32, thin, 0.06);
}

/* With one machine of its own, or NULL. */
static weft_simulation run_with(const char *keys, int nodes,
                                const weft_simulate_options *options,
                                const weft_machine *machine) {
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 4, 1, keys);
    weft_cluster *cluster = make_cluster(ctx, calm);
    weft_simulate_options o = *options;
    o.nodes = nodes;
    if (machine) {
        assert_int_equal(weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_MACHINES, 1),
                         WEFT_OK);
        cluster->machines[0] = *machine;
    }
    weft_simulation x = simulate(ctx, config, cluster, &o);
    check_parts(&x);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
    return x;
}

static weft_simulation run(const char *keys, int nodes,
                           const weft_simulate_options *options) {
    return run_with(keys, nodes, options, NULL);
}

TEST(it_goes_beyond_what_a_run_can_have) {
    weft_simulate_options options = {.struct_size = sizeof options, .steps = 20};
    weft_simulation x = run("method=dadam", 3000, &options);
    assert_int_equal(x.nodes, 3000);
    assert_near(x.tokens, 20.0 * 3000 * 64, 1e-9);
    assert_near(x.tokens_per_s, x.tokens / x.elapsed_s, 1e-9);
    x = run("method=hsdp", 3000, &options);
    assert_true(x.step_s.median > 0);
}

TEST(slow_nodes_hold_up_those_who_wait) {
    weft_simulate_options options = {.struct_size = sizeof options, .steps = 60};
    double plain = run("method=hsdp", 64, &options).mean_step_s;
    options.slow_nodes = 0.05;
    options.slow_factor = 3;
    weft_simulation x = run("method=hsdp", 64, &options);
    assert_true(x.mean_step_s > 2 * plain && x.lost.waiting_s > x.lost.slow_s);
    options = (weft_simulate_options){.struct_size = sizeof(weft_simulate_options),
                                      .steps = 60,
                                      .slow_links = 0.05,
                                      .slow_link_factor = 50};
    x = run("method=hsdp", 64, &options);
    assert_true(x.mean_step_s > 1.2 * plain && x.lost.waiting_s == 0);
}

/* Checkpoints every n steps of d s, failures every m s: half an interval is repeated on
 * average, for as many failures as there is time. */
TEST(failures_cost_restarts_and_half_an_interval) {
    weft_simulate_options options = {.struct_size = sizeof options, .steps = 20000};
    double d = run("method=hsdp", 8, &options).mean_step_s;
    options.save_every = 50;
    options.save_s = d;
    options.restart_s = 7 * d;
    options.failure_s = 500 * d * 8;
    options.roll_back = true;
    weft_simulation x = run("method=hsdp", 8, &options);
    assert_near(x.lost.saving_s, 400 * d, 0.1);
    assert_true(x.lost.saving_s >= 400 * d * (1 - 1e-9));
    assert_near(x.lost.restart_s, (double)x.failures * 7 * d, 1e-9);
    assert_near((double)x.failures, x.elapsed_s / (500 * d), 0.4);
    assert_near(x.lost.repeated_s, (double)x.failures * 25.5 * d, 0.4);
}

/* The others go on: a failure costs until the node is given up (elastic.silence), and its part of
 * the work until it is back; nothing is repeated, whether replicas are equal or differ. Where
 * a run ends with a node all go back. */
TEST(the_others_go_on_without_a_node) {
    weft_simulate_options options = {
        .struct_size = sizeof options, .steps = 2000, .save_every = 50};
    double d = run("method=hsdp", 8, &options).mean_step_s, each_s = 3 + d;
    options.restart_s = 8 * d;
    options.failure_s = 200 * d * 8;
    weft_simulation x = run("method=hsdp elastic.silence=3", 8, &options);
    assert_true(x.failures > 3 && x.lost.repeated_s == 0);
    assert_near(x.lost.restart_s, (double)x.failures * each_s, 1e-9);
    assert_near(x.elapsed_s, 2000 * d + (double)x.failures * each_s, 1e-6);
    assert_true(run("method=hsdp mesh.on_loss=end", 8, &options).lost.repeated_s > 0);
    assert_true(run("method=dadam", 8, &options).lost.repeated_s == 0);
}

/* A slow machine holds up all, and is told as slowness, not as computing. */
TEST(single_machines_are_played) {
    weft_simulate_options options = {.struct_size = sizeof options, .steps = 40};
    double alike_s = run("method=hsdp", 4, &options).mean_step_s;
    weft_simulation x = run_with("method=hsdp", 4, &options,
                                 &(weft_machine){.node = 3, .rank_flops = 1e8});
    assert_true(x.mean_step_s > 1.5 * alike_s);
    assert_near(x.calm_step_s, alike_s, 0.05);
    assert_true(x.lost.slow_s + x.lost.waiting_s > 0.3 * x.elapsed_s);
}

TEST(what_cannot_be_is_refused) {
    static const struct {
        const char *keys;
        weft_simulate_options options;
        weft_status status;
        const char *sentence;
    } cases[] = {
        {"method=hsdp", {.nodes = 70000}, WEFT_ERR_ARGUMENT, "70000 nodes"},
        {"method=hsdp", {.steps = -1}, WEFT_ERR_ARGUMENT, "-1 steps"},
        {"method=hsdp", {.slow_nodes = 2}, WEFT_ERR_ARGUMENT, "a share of 2"},
        {"method=hsdp",
         {.slow_links = 0.1, .slow_link_factor = 0.5},
         WEFT_ERR_ARGUMENT,
         "a factor of 0.5"},
        {"method=hsdp", {.restart_s = -1}, WEFT_ERR_ARGUMENT, "no negative number"},
        {"method=dadam mixer.deadline=0.1", {0}, WEFT_ERR_CONFIG, "mixer.deadline"},
        {"method=hsdp mesh.sites=2 site_replicator.kind=full",
         {0},
         WEFT_ERR_CONFIG,
         "mesh.sites is 2"},
        {"method=hsdp",
         {.steps = 100, .failure_s = 1e-6, .roll_back = true},
         WEFT_ERR_CONFIG,
         "does not get beyond step 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_ctx *ctx = make_ctx();
        weft_config *config = make_config(ctx, 4, 1, cases[i].keys);
        weft_cluster *cluster = make_cluster(ctx, calm);
        weft_simulation x = {.struct_size = sizeof x};
        weft_simulate_options options = cases[i].options;
        options.struct_size = sizeof options;
        assert_int_equal(weft_simulate(ctx, config, cluster, &options, &x),
                         cases[i].status);
        if (!strstr(weft_ctx_message(ctx), cases[i].sentence))
            fail_msg("'%s' does not say '%s'", weft_ctx_message(ctx), cases[i].sentence);
        weft_cluster_destroy(ctx, cluster);
        weft_config_destroy(ctx, config);
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
        weft_ctx_destroy(ctx);
    }
}

TEST(without_memory_it_is_an_error) {
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 4, 1, "method=dadam");
    weft_cluster *cluster = make_cluster(ctx, rough);
    weft_simulate_options options = {
        .struct_size = sizeof options, .steps = 3, .slow_nodes = 0.5};
    weft_status status = WEFT_ERR_MEMORY;
    for (int64_t k = 0; status != WEFT_OK; k++) {
        weft_simulation x = {.struct_size = sizeof x};
        weft_ctx_clear(ctx);
        int64_t held = weft_ctx_bytes_held(ctx);
        weft_ctx_fail_allocation(ctx, k);
        status = weft_simulate(ctx, config, cluster, &options, &x);
        assert_true(status == WEFT_OK || status == WEFT_ERR_MEMORY);
        assert_int_equal(weft_ctx_bytes_held(ctx), held);
        assert_in_range(k, 0, 100000);
    }
    weft_ctx_fail_allocation(ctx, -1);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}
