/* SPDX-License-Identifier: MIT */
/* Predictions against what can be said without playing: bytes, and closed forms of calm
 * machines (docs/prediction.md, "Closed forms"). */
#include "simulate/costs.h"
#include "unit/simulate/forecasts.h"

static const char *const kinds[] = {
    "method=hsdp",
    "method=hsdp optimizer.clip=0",
    "method=hsdp replicator.values=int8",
    "method=flexdemo replicator.exchange=all_gather",
    "method=flexdemo replicator.exchange=sharded replicator.values=int8",
    "method=flexdemo replicator.every=4 optimizer.clip=0",
    "method=async-demo",
    "method=async-demo optimizer.clip=1 replicator.every=3",
    "method=random",
    "replicator.kind=striding",
    "replicator.kind=slicing optimizer.clip=0",
    "method=dadam",
    "method=dadam optimizer.clip=0",
    "method=dadam mixer.topology=exponential",
    "method=dadam mixer.topology=ring mixer.order=atc",
    "method=dadam mixer.topology=complete",
    "method=dadam mixer.topology=complete mixer.order=atc optimizer.clip=0",
    "method=dadam mixer.topology=push",
    "method=dadam mixer.average_every=6",
    "method=dadam mixer.deadline=0.01",
    "method=dadam mixer.kind=choco mixer.topology=ring mixer.values=int8",
    "method=dadam mixer.kind=tracking mixer.topology=exponential",
    "method=noloco mixer.topology=exponential mixer.outer_every=4",
    "method=noloco mixer.topology=aer mixer.outer_every=4",
    "method=noloco mixer.topology=complete mixer.order=atc mixer.outer_every=3",
    "method=diloco mixer.outer_every=4",
    "method=diloco mixer.outer_every=6 mixer.fragments=2 mixer.delay=3",
    "method=diloco mixer.outer_every=5 mixer.delay=1 mixer.values=int4",
    "method=sparseloco mixer.outer_every=4 mixer.fragments=2",
    "method=signsgd",
    "method=powersgd",
    "method=hsdp mesh.overlap=false",
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const char *const facts[] = {
    "link", "1Gbit,0.2ms", "rank-flops", "20G", "memory-bandwidth", "10GB/s", NULL};

static weft_prediction predict(weft_ctx *ctx, const weft_config *config,
                               const weft_cluster *cluster,
                               const weft_predict_options *options) {
    weft_prediction p = {.struct_size = sizeof p};
    if (weft_predict(ctx, config, cluster, options, &p) != WEFT_OK)
        fail_msg("%s", weft_ctx_message(ctx));
    return p;
}

/* With the wire's incast as a probe measures it; 0: not measured. */
static weft_prediction with_incast(int nodes, int ranks, const char *keys,
                                   const char *const *typed, double incast) {
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, nodes, ranks, keys);
    weft_cluster *cluster = make_cluster(ctx, typed);
    cluster->wire.incast = incast;
    weft_prediction p = predict(ctx, config, cluster, NULL);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
    return p;
}

static weft_prediction of(int nodes, int ranks, const char *keys,
                          const char *const *typed) {
    return with_incast(nodes, ranks, keys, typed, 0);
}

/* A run that ends after a few rounds sends what train says beforehand, nothing in its last step. */
TEST(short_runs_send_what_they_send) {
    static const char *const runs[] = {
        "method=dadam optimizer.clip=0 run.steps=8",
        "method=dadam optimizer.clip=0 run.steps=9",
        "method=diloco mixer.outer_every=10 run.steps=20",
        "method=diloco mixer.outer_every=10 run.steps=50",
        "method=streaming-diloco mixer.outer_every=10 run.steps=20",
        "method=noloco mixer.outer_every=10 run.steps=30",
        "method=sparseloco mixer.outer_every=10 run.steps=30"};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        weft_prediction p = of(2, 1, runs[i], facts);
        if (fabs(p.wire_bytes / (double)p.wire_bytes_step - 1) > 0.02)
            fail_msg("%s: %.0f bytes a step, and %lld beforehand", runs[i], p.wire_bytes,
                     (long long)p.wire_bytes_step);
    }
}

/* What is counted once for layers that are alike is what their messages have, played one by one. */
TEST(alike_layers_are_counted_as_they_are_sent) {
    static const char *const runs[] = {
        "method=dadam model.layers=3", "method=dadam mixer.kind=choco model.layers=3",
        "method=diloco mixer.outer_every=4 model.layers=3",
        "method=streaming-diloco mixer.outer_every=8 model.layers=3"};
    weft_predict_options events = {
        .struct_size = sizeof events, .steps = 48, .events = true};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        weft_ctx *ctx = make_ctx();
        weft_config *config = make_config(ctx, 4, 1, runs[i]);
        weft_cluster *cluster = make_cluster(ctx, facts);
        weft_prediction p = predict(ctx, config, cluster, &events);
        assert_near(p.wire_bytes, (double)p.wire_bytes_step, 0.05);
        weft_cluster_destroy(ctx, cluster);
        weft_config_destroy(ctx, config);
        weft_ctx_destroy(ctx);
    }
}

/* Whatever the method: steps take time, parts are parts, and what the engine sends is
 * what the plan says (with several copies per node the plan counts one of them). */
static void check_kind(int nodes, int ranks, const char *keys) {
    weft_prediction p = of(nodes, ranks, keys, facts);
    /* nodes send differently where one is left over, or meets at even steps alone */
    bool alike = !strstr(keys, "deadline") && !strstr(keys, "average") &&
                 ((!strstr(keys, "dadam") && !strstr(keys, "noloco")) || nodes % 2 == 0);
    assert_true(p.step_s.low > 0 && p.step_s.low <= p.step_s.median &&
                p.step_s.median <= p.step_s.high);
    /* the first of 24 steps may be another: what it waits for left at its beginning */
    assert_true(p.mean_step_s >= 0.99 * p.step_s.low &&
                p.mean_step_s <= 1.01 * p.step_s.high);
    assert_near(p.compute_s + p.wait_s, p.mean_step_s, 0.05); /* one node's, and all */
    assert_near(p.wire_s + p.codec_s + p.late_s + 1, p.wait_s + 1, 1e-9);
    assert_true(p.hidden_share >= 0 && p.hidden_share <= 1);
    assert_true(p.memory_bytes > 0 && p.parameters > 0 && p.tokens_per_s > 0);
    if (nodes == 1) assert_true(p.wire_bytes == 0 && p.wire_bytes_step == 0);
    if (alike && nodes > 1)
        assert_near(p.wire_bytes, (double)p.wire_bytes_step, 0.05); /* ranges differ */
}

TEST(every_kind_is_predicted) {
    for (int i = 0; i < KINDS; i++) {
        check_kind(1, 1, kinds[i]);
        check_kind(2, 1, kinds[i]);
        check_kind(4, 1, kinds[i]);
        check_kind(5, 1, kinds[i]);
        check_kind(2, 2, kinds[i]);
        check_kind(4, 3, kinds[i]);
    }
}

TEST(sites_are_predicted) {
    static const char *const typed[] = {
        "link", "1Gbit,0.2ms", "site-link", "100Mbit,5ms", "rank-flops", "20G", NULL};
    weft_prediction near = of(4, 1, "method=hsdp", typed);
    weft_prediction far = of(4, 1, "method=hsdp mesh.sites=2 site_replicator.kind=full",
                             typed);
    assert_near(far.wire_bytes, (double)far.wire_bytes_step, 0.02);
    assert_true(far.mean_step_s > 2 * near.mean_step_s);
    far = of(4, 1, "method=hsdp mesh.sites=2 mixer.kind=outer mixer.outer_every=4",
             typed);
    assert_true(far.mean_step_s > near.mean_step_s);
}

/* Elements of the model: with one bucket that is one message's range times R. */
static double bytes_of_model(void) {
    return 4.0 * (double)of(1, 1, "method=hsdp", facts).parameters;
}

/* One bucket, nothing but computing and the wire: two rounds, each a latency and R-1
 * messages of a range. */
TEST(an_all_reduce_takes_two_latencies_and_its_bytes) {
    static const char *const typed[] = {"link", "100Mbit,3ms", "rank-flops", "20G", NULL};
    const char *keys = "method=hsdp optimizer.clip=0 mesh.min_message=1GB";
    double compute_s = of(1, 1, keys, typed).mean_step_s, n_bytes = bytes_of_model();
    for (int R = 2; R <= 8; R *= 2) {
        double wire_s = 2 * (0.003 + (R - 1.0) / R * n_bytes / 12.5e6);
        weft_prediction p = of(R, 1, keys, typed);
        assert_near(p.mean_step_s, compute_s + wire_s, 0.002);
        assert_near(p.wait_s, wire_s, 0.002);
        assert_near(p.wire_s, wire_s, 0.002);
        assert_true(p.bound == WEFT_BOUND_WIRE);
    }
}

/* It makes messages among more than two nodes longer, and nothing else: not between two,
 * not latency. */
TEST(a_crowd_stretches_messages_among_many) {
    static const char *const typed[] = {"link", "10Mbit,3ms", "rank-flops", "20G", NULL};
    const char *sync = "method=hsdp optimizer.clip=0 mesh.min_message=1GB";
    const char *gossip = "method=dadam mixer.topology=exponential mesh.min_message=1GB";
    double compute_s = of(1, 1, sync, typed).mean_step_s, n_bytes = bytes_of_model();
    double wire_s = 2 * (0.003 + 1.5 * 3 / 4 * n_bytes / 1.25e6);
    assert_near(with_incast(4, 1, sync, typed, 1.5).mean_step_s, compute_s + wire_s,
                0.002);
    assert_near(with_incast(4, 1, gossip, typed, 1.5).mean_step_s,
                0.003 + 1.5 * n_bytes / 1.25e6, 0.002);
    const char *const both[] = {sync, gossip};
    for (int i = 0; i < 2; i++)
        assert_near(with_incast(2, 1, both[i], typed, 1.5).mean_step_s,
                    of(2, 1, both[i], typed).mean_step_s, 1e-9);
    const char *sites = "method=hsdp mesh.sites=2 site_replicator.kind=full";
    static const char *const apart[] = {
        "link", "10Mbit,3ms", "site-link", "10Mbit,3ms", "rank-flops", "20G", NULL};
    for (int n = 4; n <= 6; n += 2) /* two or three of a site */
        assert_true((with_incast(n, 1, sites, apart, 1.5).mean_step_s >
                     1.01 * of(n, 1, sites, apart).mean_step_s) == (n == 6));
}

/* Everybody's message of everything comes through one interface, one after another. */
TEST(a_gather_takes_one_latency_and_everybodys_bytes) {
    static const char *const typed[] = {"link", "10Mbit,3ms", "rank-flops", "20G", NULL};
    const char *keys = "method=flexdemo replicator.exchange=all_gather optimizer.clip=0 "
                       "mesh.min_message=1GB";
    double compute_s = of(1, 1, keys, typed).mean_step_s;
    for (int R = 2; R <= 8; R *= 2) {
        weft_prediction p = of(R, 1, keys, typed);
        double wire_s = 0.003 + (double)p.wire_bytes_step / 1.25e6;
        assert_near(p.mean_step_s, compute_s + wire_s, 0.01);
    }
}

/* Copies to all others, each receiver's one after another: nobody waits for an interface
 * that another sender has, because each begins with whom comes after it. */
TEST(senders_to_many_do_not_meet) {
    static const char *const typed[] = {"link", "10Mbit,3ms", "rank-flops", "20G", NULL};
    const char *keys = "method=dadam mixer.kind=choco mixer.topology=complete "
                       "mesh.min_message=1GB";
    for (int R = 4; R <= 8; R += 2) {
        weft_prediction p = of(R, 1, keys, typed);
        double wire_s = 0.003 + (double)p.wire_bytes_step / 1.25e6;
        assert_near(p.mean_step_s, wire_s, 0.02);
    }
}

/* A ring of two: a copy each way in each step, under way for a whole step. */
TEST(gossip_hides_what_fits_in_a_step) {
    static const char *const slow[] = {"link", "10Mbit,3ms", "rank-flops", "1G", NULL};
    static const char *const fast[] = {"link", "1Gbit,3ms", "rank-flops", "1G", NULL};
    const char *keys = "method=dadam mixer.topology=exponential mesh.min_message=1GB";
    double compute_s = of(1, 1, keys, fast).mean_step_s, n_bytes = bytes_of_model();
    weft_prediction p = of(2, 1, keys, fast);
    assert_true(compute_s > 0.003 + n_bytes / 125e6);
    assert_near(p.mean_step_s, compute_s, 0.001);
    assert_true(p.wait_s == 0 && p.hidden_share == 1 && p.bound == WEFT_BOUND_COMPUTE);
    p = of(2, 1, keys, slow);
    assert_true(compute_s < 0.003 + n_bytes / 1.25e6);
    assert_near(p.mean_step_s, 0.003 + n_bytes / 1.25e6, 0.002);
    assert_near(p.wait_s, 0.003 + n_bytes / 1.25e6 - compute_s, 0.005);
}

/* One bucket, sent when its gradient is there and needed when the next one is: a step takes
 * the longer of computing and the wire, where flexdemo takes the sum. */
TEST(a_delayed_exchange_hides_what_fits_in_a_step) {
    static const char *const slow[] = {"link", "1Mbit,3ms", "rank-flops", "1G", NULL};
    static const char *const fast[] = {"link", "100Mbit,3ms", "rank-flops", "1G", NULL};
    const char *keys = "method=async-demo optimizer.clip=0 mesh.min_message=1GB";
    const char *sync = "method=flexdemo replicator.exchange=all_gather optimizer.clip=0 "
                       "mesh.min_message=1GB";
    for (int R = 2; R <= 6; R += 2) {
        double compute_s = of(1, 1, keys, fast).mean_step_s;
        weft_prediction p = of(R, 1, keys, fast), late = of(R, 1, sync, fast);
        double wire_s = 0.003 + (double)p.wire_bytes_step / 12.5e6;
        assert_true(compute_s > wire_s);
        assert_int_equal(p.wire_bytes_step, late.wire_bytes_step);
        assert_near(p.mean_step_s, compute_s, 0.01);
        assert_near(late.mean_step_s, compute_s + wire_s, 0.01);
        assert_true(p.wait_s < 0.01 * compute_s && p.hidden_share > 0.99);
        p = of(R, 1, keys, slow);
        wire_s = 0.003 + (double)p.wire_bytes_step / 0.125e6;
        assert_true(compute_s < wire_s);
        assert_near(p.mean_step_s, wire_s, 0.02);
    }
}

/* The ranges of a node's ranks share its interface: no faster, no slower. */
TEST(ranks_of_a_node_share_its_interface) {
    static const char *const typed[] = {"link", "10Mbit,0.1ms", "rank-flops", "20G",
                                        NULL};
    const char *keys = "method=hsdp optimizer.clip=0 mesh.min_message=1GB";
    double one = of(2, 1, keys, typed).mean_step_s - of(1, 1, keys, typed).mean_step_s;
    double two = of(2, 2, keys, typed).mean_step_s - of(1, 2, keys, typed).mean_step_s;
    assert_near(two, one, 0.02);
}

TEST(an_emulated_wire_goes_over_the_clusters) {
    static const char *const typed[] = {"link", "1Mbit,1s", "rank-flops", "20G", NULL};
    static const char *const same[] = {"link", "100Mbit,1ms", "rank-flops", "20G", NULL};
    weft_prediction emulated = of(2, 1, "method=hsdp mesh.link=100Mbit,1ms", typed);
    weft_prediction real = of(2, 1, "method=hsdp", same);
    assert_near(emulated.mean_step_s, real.mean_step_s, 0.02);
}

TEST(pace_and_stall_are_those_of_the_emulation) {
    weft_prediction p = of(1, 1, "replicator.kind=none mesh.compute_time=0.25", facts);
    assert_near(p.mean_step_s, 0.25, 0.02);
    p = of(2, 1, "method=hsdp mesh.compute_time=0.25 mesh.straggler_time=0.5", facts);
    assert_near(p.mean_step_s, 0.75, 0.03);
    /* a stop comes on top of computing that takes longer than it, too */
    static const char *const slow[] = {"link", "1Gbit,1us", "rank-flops", "20M", NULL};
    static const char *const events[] = {"", " mesh.link=1Gbit,1us"}; /* and in arrays */
    for (int i = 0; i < 2; i++) {
        char keys[160];
        snprintf(keys, sizeof keys, "method=hsdp%s", events[i]);
        double calm_s = of(2, 1, keys, slow).mean_step_s;
        snprintf(keys, sizeof keys, "method=hsdp mesh.straggler_time=0.05%s", events[i]);
        assert_true(calm_s > 0.2);
        assert_near(of(2, 1, keys, slow).mean_step_s, calm_s + 0.05, 0.003);
    }
}

TEST(a_link_that_was_measured_differs) {
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 3, 1, "method=hsdp optimizer.clip=0");
    weft_cluster *cluster = make_cluster(ctx, facts);
    cluster->nodes = 3;
    double before = predict(ctx, config, cluster, NULL).mean_step_s;
    assert_int_equal(weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_PAIRS, 1), WEFT_OK);
    cluster->pairs[0] = (weft_link_pair){0, 1, 1e6, 0.05};
    double after = predict(ctx, config, cluster, NULL).mean_step_s;
    double range_s = bytes_of_model() / 3 / 1e6;
    assert_in_range((long)(1e6 * (after - before)), (long)(1e6 * range_s),
                    (long)(1e6 * (3 * range_s + 0.2)));
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

/* With every pair measured the wire's label does not count; a faster pair is faster. */
TEST(a_measured_pair_takes_the_place_of_the_label) {
    static const char *const slow[] = {"link", "10Mbit,1ms", "rank-flops", "20G", NULL};
    static const char *const fast[] = {"link", "100Mbit,1ms", "rank-flops", "20G", NULL};
    const char *keys = "method=hsdp optimizer.clip=0";
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 2, 1, keys);
    weft_cluster *cluster = make_cluster(ctx, slow);
    cluster->nodes = 2;
    assert_int_equal(weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_PAIRS, 2), WEFT_OK);
    cluster->pairs[0] = (weft_link_pair){0, 1, 12.5e6, 1e-3};
    cluster->pairs[1] = (weft_link_pair){1, 0, 12.5e6, 1e-3};
    double pairs_s = predict(ctx, config, cluster, NULL).mean_step_s;
    assert_near(pairs_s, of(2, 1, keys, fast).mean_step_s, 0.02);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

/* Ranks of one node send to another node over one link, one after the other. */
TEST(messages_of_a_measured_pair_queue) {
    static const char *const typed[] = {"link", "1Gbit,1ms", "rank-flops", "20G", NULL};
    double step_s[2];
    for (int ranks = 1; ranks <= 2; ranks++) {
        weft_ctx *ctx = make_ctx();
        weft_config *config = make_config(
            ctx, 2, ranks, "method=hsdp optimizer.clip=0 mesh.min_message=1GB");
        weft_cluster *cluster = make_cluster(ctx, typed);
        cluster->nodes = 2;
        assert_int_equal(weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_PAIRS, 2),
                         WEFT_OK);
        cluster->pairs[0] = (weft_link_pair){0, 1, 125e3, 1e-3};
        cluster->pairs[1] = (weft_link_pair){1, 0, 125e3, 1e-3};
        step_s[ranks - 1] = predict(ctx, config, cluster, NULL).mean_step_s;
        weft_cluster_destroy(ctx, cluster);
        weft_config_destroy(ctx, config);
        weft_ctx_destroy(ctx);
    }
    assert_near(step_s[1], step_s[0], 0.02); /* shards of two: as many bytes in all */
}

/* On an emulated wire the thread that waits for a message wakes up late. */
TEST(waking_up_takes_time_on_an_emulated_wire) {
    double step_s[2];
    for (int late = 0; late < 2; late++) {
        weft_ctx *ctx = make_ctx();
        weft_config *config = make_config(
            ctx, 2, 1, "method=hsdp optimizer.clip=0 mesh.link=10Mbit,1ms");
        weft_cluster *cluster = make_cluster(ctx, facts);
        cluster->wake_s = late ? 0.05 : 0;
        step_s[late] = predict(ctx, config, cluster, NULL).mean_step_s;
        weft_cluster_destroy(ctx, cluster);
        weft_config_destroy(ctx, config);
        weft_ctx_destroy(ctx);
    }
    assert_true(step_s[1] > step_s[0] + 0.05);
}

/* Three nodes send to the two others, who would never have two messages at their interface
 * at once; but what 0 sends to 1 travels longer, by just the time that a message takes. Then
 * it gets there with what 2 sends to 1, and one of the two comes that much later. */
TEST(messages_that_meet_at_an_interface_queue) {
    static const char *const typed[] = {"link", "1Mbit,20ms", "rank-flops", "20G", NULL};
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(
        ctx, 3, 1,
        "method=flexdemo replicator.exchange=all_gather optimizer.clip=0 "
        "mesh.min_message=1GB");
    weft_cluster *cluster = make_cluster(ctx, typed);
    cluster->nodes = 3;
    weft_prediction p = predict(ctx, config, cluster, NULL);
    double before = p.mean_step_s, busy_s = (double)p.wire_bytes_step / 2 / 125e3;
    assert_int_equal(weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_PAIRS, 1), WEFT_OK);
    cluster->pairs[0] = (weft_link_pair){0, 1, 125e3, 0.02 + busy_s};
    double after = predict(ctx, config, cluster, NULL).mean_step_s;
    assert_true(busy_s > 0.02);
    if (after < before + 0.4 * busy_s || after > before + 1.1 * busy_s)
        fail_msg("%g s, before %g s, a message %g s", after, before, busy_s);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

/* One rank, one bucket, a slow memory: a step is its computing, coding, norm and optimizer,
 * whichever thread does them. */
TEST(the_norm_of_the_agreed_gradient_takes_its_time) {
    static const char *const slow[] = {"rank-flops", "20G", "memory-bandwidth", "100MB/s",
                                       NULL};
    static const char *const clips[] = {"optimizer.clip=0", "optimizer.clip=1"};
    for (int i = 0; i < 2; i++) {
        char keys[128];
        weft_ctx *ctx = make_ctx();
        snprintf(keys, sizeof keys, "method=hsdp mesh.min_message=1GB mesh.threads=1 %s",
                 clips[i]);
        weft_config *config = make_config(ctx, 1, 1, keys);
        weft_cluster *cluster = make_cluster(ctx, slow);
        wefti_job *job;
        wefti_arrangement *a;
        assert_int_equal(wefti_job_create(ctx, config, NULL, 256, &job), WEFT_OK);
        assert_int_equal(wefti_arrangement_create(ctx, job, 0, &a), WEFT_OK);
        const wefti_bucket *all = &a->buckets[0];
        wefti_work work = wefti_costs_replicator(cluster, &job->replicator_config, all,
                                                 1);
        double wanted_s = work.begin_s + work.combine_s + work.end_s +
                          wefti_costs_optimizer(cluster, job, a, 0) +
                          4 * (double)all->n_elements / 100e6;
        for (int u = 0; u < job->model->n_units; u++) {
            wefti_unit_cost cost = wefti_costs_unit(cluster, job, u);
            wanted_s += cost.forward_s + cost.backward_s;
        }
        assert_int_equal(a->n_buckets, 1);
        assert_near(predict(ctx, config, cluster, NULL).mean_step_s, wanted_s, 1e-6);
        wefti_arrangement_destroy(ctx, a);
        wefti_job_destroy(ctx, job);
        weft_cluster_destroy(ctx, cluster);
        weft_config_destroy(ctx, config);
        weft_ctx_destroy(ctx);
    }
}

TEST(measured_units_count_if_the_model_is_the_same) {
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 1, 1, "replicator.kind=none mesh.threads=1");
    weft_cluster *cluster = make_cluster(ctx, facts);
    assert_int_equal(weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_UNITS, 3), WEFT_OK);
    const weft_unit_seconds units[] = {
        {"embedding", 0.01, 0.02}, {"block", 0.1, 0.2}, {"head", 0, 0.07}};
    memcpy(cluster->units, units, sizeof units);
    assert_true(predict(ctx, config, cluster, NULL).mean_step_s < 0.1);
    assert_int_equal(weft_cluster_model_key(ctx, config, 1, cluster->model), WEFT_OK);
    weft_prediction p = predict(ctx, config, cluster, NULL);
    assert_near(p.compute_s, 0.03 + 2 * 0.3 + 0.07, 0.01);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

TEST(jitter_is_a_function_of_the_seed) {
    static const char *const typed[] = {"link",  "1Gbit,0.2ms", "rank-flops",
                                        "1G",    "jitter",      "10%",
                                        "stall", "1%,50ms",     NULL};
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 4, 1, "method=hsdp");
    weft_cluster *cluster = make_cluster(ctx, typed);
    weft_predict_options options = {
        .struct_size = sizeof options, .steps = 200, .seed = 5};
    weft_prediction a = predict(ctx, config, cluster, &options);
    weft_prediction b = predict(ctx, config, cluster, &options);
    assert_true(a.mean_step_s == b.mean_step_s && a.step_s.high == b.step_s.high);
    options.seed = 6;
    b = predict(ctx, config, cluster, &options);
    assert_true(a.mean_step_s != b.mean_step_s);
    assert_near(a.mean_step_s, b.mean_step_s, 0.1);
    assert_true(a.step_s.low < a.step_s.median && a.step_s.median < a.step_s.high);
    assert_true(a.late_s > 0);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

/* The slowest of four is what all wait for: sigma times the mean of the largest of four
 * standard normals, 1.029. */
TEST(all_wait_for_the_slowest) {
    static const char *const calm[] = {"link", "100Gbit", "rank-flops", "1G", NULL};
    static const char *const typed[] = {"link",   "100Gbit", "rank-flops", "1G",
                                        "jitter", "4%",      NULL};
    double before = of(4, 1, "method=hsdp", calm).mean_step_s;
    double after = of(4, 1, "method=hsdp", typed).mean_step_s;
    assert_near(after / before - 1, 0.04 * 1.029 + 0.04 * 0.04 / 2, 0.15);
}

TEST(a_timeline_is_a_step) {
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 2, 1, "method=flexdemo");
    weft_cluster *cluster = make_cluster(ctx, facts);
    weft_predict_options options = {.struct_size = sizeof options, .timeline = true};
    weft_prediction p = predict(ctx, config, cluster, &options);
    double ends[3] = {0};
    int lanes[3] = {0};
    assert_in_range(p.n_spans, 10, 1000);
    for (int64_t i = 0; i < p.n_spans; i++) {
        const weft_span *s = &p.spans[i];
        assert_in_range(s->lane, 0, 2);
        lanes[s->lane]++;
        bool takes_time = s->end_s > s->begin_s; /* some ops take none */
        assert_true(takes_time || (s->lane < 2 && s->end_s == s->begin_s));
        assert_true(s->begin_s > -1e-9 && s->what[0]);
        if (s->lane < 2) assert_true(s->begin_s >= ends[s->lane] - 1e-9);
        ends[s->lane] = s->end_s;
        assert_true(s->lane == 2 || s->end_s <= 1.01 * p.mean_step_s);
    }
    for (int lane = 0; lane < 3; lane++) assert_true(lanes[lane] > 0);
    weft_prediction_clear(ctx, &p);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

TEST(what_is_asked_for_is_checked) {
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 2, 1, "method=hsdp");
    weft_cluster *cluster = make_cluster(ctx, facts);
    weft_predict_options options = {.struct_size = sizeof options, .steps = -1};
    weft_prediction p = {.struct_size = sizeof p};
    assert_int_equal(weft_predict(ctx, config, cluster, &options, &p), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_ctx_message(ctx), "-1 steps to simulate"));
    weft_ctx_clear(ctx);
    cluster->rank_flops = 0;
    assert_int_equal(weft_predict(ctx, config, cluster, NULL, &p), WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_ctx_message(ctx), "nothing is known of computing"));
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

/* Each allocation fails once: an error, nothing left behind. */
TEST(without_memory_it_is_an_error) {
    weft_ctx *ctx = make_ctx();
    weft_config *config = make_config(ctx, 3, 2, "method=dadam mixer.topology=complete");
    weft_cluster *cluster = make_cluster(ctx, facts);
    weft_predict_options options = {
        .struct_size = sizeof options, .steps = 2, .timeline = true};
    int64_t held = weft_ctx_bytes_held(ctx);
    weft_status status = WEFT_ERR_MEMORY;
    for (int64_t k = 0; status != WEFT_OK; k++) {
        weft_prediction p = {.struct_size = sizeof p};
        weft_ctx_clear(ctx);
        weft_ctx_fail_allocation(ctx, k);
        status = weft_predict(ctx, config, cluster, &options, &p);
        assert_true(status == WEFT_OK || status == WEFT_ERR_MEMORY);
        if (status == WEFT_OK) weft_prediction_clear(ctx, &p);
        assert_int_equal(weft_ctx_bytes_held(ctx), held);
        assert_in_range(k, 0, 100000);
    }
    weft_ctx_fail_allocation(ctx, -1);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}
