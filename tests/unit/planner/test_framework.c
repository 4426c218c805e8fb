/* SPDX-License-Identifier: MIT */
/* Other frameworks' steps against arithmetic by hand, and a user's own measurements. */
#include "configs.h"

#include <math.h>

#include "planner/advise.h"
#include "planner/framework.h"
#include "simulate/costs.h"
#include "simulate/forecast.h"

static weft_ctx *ctx;
static weft_config *run;
static weft_cluster *cluster;
static wefti_planned_job planned;
static wefti_job *job;

static int begin(void **state) {
    if (room_begin(&ctx) != 0) return -1;
    run = config_with(ctx, PLANNED_RUN,
                      "model.layers=4 run.steps=400 schedule.warmup=10 "
                      "batch.tokens_per_step=256 batch.micro=8 model.vocab=512");
    assert_ok(ctx, weft_cluster_create(ctx, &cluster));
    cluster->rank_flops = 1e10;
    cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e8, .latency_s = 1e-3};
    cluster->local = (weft_link_facts){.bandwidth_Bps = 1e10, .latency_s = 1e-6};
    assert_ok(ctx, wefti_forecast_plan(ctx, run, cluster, 0, &planned));
    job = planned.job;
    return 0;
}

static int end(void **state) {
    wefti_forecast_drop(ctx, &planned);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, run);
    return ctx_end(ctx);
}

static wefti_framework_case of(const char *name, int64_t nodes, int64_t ranks) {
    return (wefti_framework_case){.framework = wefti_framework_find(name),
                                  .cluster = cluster,
                                  .job = job,
                                  .nodes = nodes,
                                  .ranks_per_node = ranks,
                                  .collective = WEFT_COLLECTIVE_RING};
}

static double step_of(const wefti_framework_case *c) {
    weft_prediction p = {.struct_size = sizeof p};
    wefti_framework_predict(c, &p);
    return p.mean_step_s;
}

static double computing(void) {
    double sum = 0;
    for (int u = 0; u < job->model->n_units; u++) {
        wefti_unit_cost cost = wefti_costs_unit(cluster, job, u);
        sum += cost.forward_s + cost.backward_s;
    }
    return sum;
}

static void is_near(double x, double y) {
    if (!(fabs(x - y) <= 1e-9 * fabs(y))) fail_msg("%.12g, expected %.12g", x, y);
}

TEST_IN(begin, end, collectives_take_what_their_formulas_say) {
    double n = 1e7, b = 1e8, L = 1e-3, in = 1e10, l = 1e-6;
    wefti_framework_case c = of("ddp", 4, 2);
    is_near(wefti_framework_all_reduce(&c, n),
            2 * 7.0 / 8 * n / b + 2 * 7.0 / 8 * (4 * L + 4 * l));
    c.collective = WEFT_COLLECTIVE_TREE;
    is_near(wefti_framework_all_reduce(&c, n), 2 * n / b + 2 * (2 * L + l));
    c.collective = WEFT_COLLECTIVE_HIERARCHICAL;
    is_near(wefti_framework_all_reduce(&c, n),
            2 * 0.5 * (n / in + 2 * l) + 2 * 0.75 * (n / b + 4 * L));
    c.collective = WEFT_COLLECTIVE_AUTO; /* levels would be faster, but nobody asked */
    is_near(wefti_framework_all_reduce(&c, n),
            2 * 7.0 / 8 * n / b + 2 * 7.0 / 8 * (4 * L + 4 * l));
    c = of("ddp", 1, 1);
    assert_true(wefti_framework_all_reduce(&c, n) == 0);
}

/* Out of an interface: by levels a node sends a sum once, through a ring what its ranks carry. */
TEST_IN(begin, end, bytes_are_what_their_formulas_say) {
    static const struct {
        const char *name;
        weft_collective kind;
        double times; /* all parameters in f32 */
    } cases[] = {{"ddp", WEFT_COLLECTIVE_RING, 2 * 7.0 / 8},
                 {"ddp", WEFT_COLLECTIVE_HIERARCHICAL, 2 * 3.0 / 4},
                 {"ddp", WEFT_COLLECTIVE_TREE, 2 * 3.0 / 4},
                 {"zero1", WEFT_COLLECTIVE_RING, 3 * 7.0 / 8},
                 {"zero1", WEFT_COLLECTIVE_HIERARCHICAL, 3 * 3.0 / 4},
                 {"fsdp", WEFT_COLLECTIVE_HIERARCHICAL, 3 * 3.0 / 4},
                 {"fsdp", WEFT_COLLECTIVE_TREE, 3 * 7.0 / 8}, /* no trees of gathers */
                 {"hsdp", WEFT_COLLECTIVE_RING, 2 * 3.0 / 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_framework_case c = of(cases[i].name, 4, 2);
        weft_prediction p = {.struct_size = sizeof p};
        c.collective = cases[i].kind;
        wefti_framework_predict(&c, &p);
        double passes = cases[i].name[0] == 'f' ? (double)job->batch.n_micro : 1;
        is_near(p.wire_bytes,
                cases[i].times * passes * 4 * (double)job->model->n_elements);
    }
}

TEST_IN(begin, end, one_rank_only_computes) {
    static const char *const names[] = {"ddp",   "ddp-after", "zero1",
                                        "zero2", "fsdp",      "hsdp"};
    for (int i = 0; i < 6; i++) {
        wefti_framework_case c = of(names[i], 1, 1);
        is_near(step_of(&c), computing());
    }
}

/* The model is less than a bucket, so its all-reduce comes when everything is computed. */
TEST_IN(begin, end, ddp_reduces_what_is_left_after_the_backward_pass) {
    wefti_framework_case c = of("ddp", 2, 1);
    double n = 4 * (double)job->model->n_elements;
    is_near(step_of(&c), computing() + wefti_framework_all_reduce(&c, n));
    c = of("zero1", 2, 1);
    is_near(step_of(&c), computing() + 1.5 * wefti_framework_all_reduce(&c, n));
}

/* gloo: two gathers of each unit take three quarters of an all-reduce each (a half, and half
 * of that again with two ranks), a reduce-scatter is one, and all of it is waited for. */
TEST_IN(begin, end, sharded_over_gloo_hides_nothing) {
    wefti_framework_case c = of("fsdp", 2, 1);
    c.collective = WEFT_COLLECTIVE_GLOO;
    double sum = computing();
    for (int u = 0; u < job->model->n_units; u++)
        sum += 2.5 * wefti_framework_all_reduce(
                         &c, 4 * (double)job->model->units[u].n_elements);
    is_near(step_of(&c), sum);
    weft_prediction gloo = {.struct_size = sizeof gloo},
                    other = {.struct_size = sizeof other};
    wefti_framework_predict(&c, &gloo);
    c.collective = WEFT_COLLECTIVE_RING;
    wefti_framework_predict(&c, &other);
    is_near(gloo.wire_bytes, 4.0 / 3 * other.wire_bytes);
    assert_true(other.mean_step_s < gloo.mean_step_s);
}

/* Each byte that a rank sends takes the processor, and DDP's computing loses as much. */
TEST_IN(begin, end, what_a_byte_takes_the_processor_is_in_the_step) {
    wefti_framework_case c = of("ddp", 2, 1);
    double n = 4 * (double)job->model->n_elements, cpu_s = 3e-9;
    double before_s = wefti_framework_all_reduce(&c, n);
    cluster->collective_cpu_s = cpu_s;
    is_near(wefti_framework_all_reduce(&c, n), before_s + n * cpu_s);
    is_near(step_of(&c), computing() + before_s + n * cpu_s);
    cluster->wire = (weft_link_facts){.bandwidth_Bps = 1e15};
    assert_true(step_of(&c) >= computing() + n * cpu_s);
    cluster->collective_cpu_s = 0;
}

/* It is taken where model.precision asks for it and somebody has measured it. */
TEST_IN(begin, end, bf16_has_a_rate_of_its_own) {
    double f32_s = computing();
    cluster->rank_flops_bf16 = 2 * cluster->rank_flops;
    is_near(computing(), f32_s);
    wefti_forecast_drop(ctx, &planned);
    assert_ok(ctx, weft_config_set(ctx, run, "model.precision=bf16"));
    assert_ok(ctx, weft_config_finish(ctx, run));
    assert_ok(ctx, wefti_forecast_plan(ctx, run, cluster, 0, &planned));
    job = planned.job;
    is_near(computing(), f32_s / 2);
    cluster->rank_flops_bf16 = 0;
    is_near(computing(), f32_s);
}

/* A model of more than a bucket: DDP hides what it has reduced before the last unit's
 * backward, and what is reduced as one hides nothing. */
TEST_IN(begin, end, reducing_afterwards_hides_nothing) {
    wefti_forecast_drop(ctx, &planned);
    assert_ok(ctx, weft_config_set(ctx, run, "model.width=640"));
    assert_ok(ctx, weft_config_finish(ctx, run));
    assert_ok(ctx, wefti_forecast_plan(ctx, run, cluster, 0, &planned));
    job = planned.job;
    wefti_framework_case hidden = of("ddp", 4, 2), after = of("ddp-after", 4, 2);
    double n = 4 * (double)job->model->n_elements;
    assert_true(n > 2 * 25 * 1024 * 1024);
    is_near(step_of(&after), computing() + wefti_framework_all_reduce(&after, n));
    weft_prediction p = {.struct_size = sizeof p}, q = {.struct_size = sizeof q};
    cluster->rank_flops = 1e9;
    wefti_framework_predict(&hidden, &p);
    wefti_framework_predict(&after, &q);
    assert_true(p.mean_step_s < 0.999 * q.mean_step_s);
    assert_true(p.wire_bytes == q.wire_bytes && p.memory_bytes == q.memory_bytes);
    assert_true(q.hidden_share < 1e-9);
}

TEST_IN(begin, end, gathers_hide_behind_computing) {
    cluster->wire.latency_s = 0;
    wefti_framework_case c = of("fsdp", 2, 1);
    double n = 4 * (double)job->model->n_elements, moved = 1.5 * n / 1e8;
    weft_prediction p = {.struct_size = sizeof p};
    cluster->rank_flops = 1e14; /* nothing to hide behind */
    wefti_framework_predict(&c, &p);
    assert_true(p.mean_step_s >= moved && p.mean_step_s < 1.01 * moved + computing());
    assert_true(p.hidden_share < 0.01);
    cluster->rank_flops = 1e9; /* all but the first unit and the last */
    wefti_framework_predict(&c, &p);
    assert_true(p.mean_step_s < computing() + 0.5 * moved);
    assert_true(p.mean_step_s > computing());
    assert_true(p.hidden_share > 0.5);
}

TEST_IN(begin, end, sharding_saves_memory_and_precision_halves_it) {
    static const char *const names[] = {"ddp", "zero1", "zero2"};
    double P = (double)job->model->n_elements, bytes[3];
    weft_prediction p = {.struct_size = sizeof p};
    for (int i = 0; i < 3; i++) {
        wefti_framework_case c = of(names[i], 4, 2);
        wefti_framework_predict(&c, &p);
        bytes[i] = (double)p.memory_bytes;
    }
    assert_true(fabs(bytes[0] - bytes[1] - 8 * P * 7 / 8) < 2);
    assert_true(fabs(bytes[1] - bytes[2] - 4 * P * 7 / 8) < 2);
    wefti_framework_case c = of("ddp", 4, 2);
    c.precision = WEFT_PRECISION_BF16;
    wefti_framework_predict(&c, &p);
    assert_true(fabs((double)p.memory_bytes / bytes[0] - 0.5) < 1e-6);
    assert_true(fabs(p.wire_bytes - 2 * 7.0 / 8 * 2 * P) < 1);
}

static double draw(int i, int what) {
    double x = sin(12.9898 * i + 78.233 * what) * 43758.5453;
    return x - floor(x);
}

/* Sums and maxima of what grows with the facts. */
TEST_IN(begin, end, a_better_cluster_is_never_slower) {
    static const char *const names[] = {"ddp",   "ddp-after", "zero1",
                                        "zero2", "fsdp",      "hsdp"};
    for (int i = 0; i < 200; i++) {
        wefti_framework_case c = of(names[i % 6], 1 + (int64_t)(40 * draw(i, 1)),
                                    1 + (int64_t)(8 * draw(i, 2)));
        c.collective = (weft_collective)(5 * draw(i, 3));
        cluster->collective_cpu_s = draw(i, 9) < 0.5 ? 0 : 1e-8 * draw(i, 10);
        cluster->wire.bandwidth_Bps = pow(10, 6 + 4 * draw(i, 4));
        cluster->wire.latency_s = pow(10, -6 + 4 * draw(i, 5));
        cluster->rank_flops = pow(10, 9 + 5 * draw(i, 6));
        cluster->jitter.spread = 0.1 * draw(i, 7);
        double before = step_of(&c), more = 1 + draw(i, 8);
        cluster->wire.bandwidth_Bps *= more;
        assert_true(step_of(&c) <= before * (1 + 1e-12));
        cluster->wire.bandwidth_Bps /= more;
        cluster->wire.latency_s /= more;
        assert_true(step_of(&c) <= before * (1 + 1e-12));
        cluster->wire.latency_s *= more;
        cluster->collective_cpu_s /= more;
        assert_true(step_of(&c) <= before * (1 + 1e-12));
        cluster->rank_flops *= more;
        assert_true(step_of(&c) <= before * (1 + 1e-12));
    }
    cluster->collective_cpu_s = 0;
}

/* ---- anchors ---- */

static weft_measurement parsed(const char *text) {
    weft_measurement m = {.struct_size = sizeof m};
    assert_ok(ctx, weft_measurement_parse(ctx, text, &m));
    return m;
}

TEST_IN(begin, end, measurements_are_read_as_people_write_them) {
    weft_measurement m = parsed("2 nodes x 4, ddp, 64k tokens: 4.1 s");
    assert_true(m.nodes == 2 && m.ranks_per_node == 4 && m.tokens == 64e3);
    assert_true(m.seconds == 4.1);
    assert_string_equal(m.method, "ddp");
    m = parsed("1 node: 0.52 s");
    assert_true(m.nodes == 1 && m.seconds == 0.52 && !m.method[0] && m.tokens == 0);
    m = parsed("4 nodes,flexdemo int8:12k tokens/s");
    assert_true(m.nodes == 4 && m.tokens_per_s == 12e3);
    assert_string_equal(m.method, "flexdemo int8");
}

/* Facts that were taken away come back from the steps that were predicted with them. */
TEST_IN(begin, end, anchors_bring_back_the_facts) {
    weft_inference_of_facts found = {.struct_size = sizeof found};
    cluster->nodes = 2;
    cluster->rank_flops = 3e10;
    cluster->launch_s = 2e-4;
    cluster->wire.bandwidth_Bps = 2e8;
    wefti_adviser a = {
        .ctx = ctx, .run = run, .cluster = *cluster, .options = {.steps = 16}};
    weft_candidate two = {
        .nodes = 2, .ranks_per_node = 1, .sites = 1, .framework = "ddp"};
    weft_candidate one = {.nodes = 1, .ranks_per_node = 1, .sites = 1};
    weft_prediction p = {.struct_size = sizeof p}, q = {.struct_size = sizeof q};
    const char *mesh = "mesh.nodes=1 mesh.ranks_per_node=1 mesh.sites=1 method=hsdp";
    snprintf(one.settings, sizeof one.settings, "%s", mesh);
    assert_ok(ctx, wefti_advise_predict(ctx, &a, &two, 0, &p));
    assert_ok(ctx, wefti_advise_predict(ctx, &a, &one, 0, &q));
    weft_measurement m[] = {
        {.struct_size = sizeof m[0], .nodes = 1, .seconds = q.mean_step_s},
        {.struct_size = sizeof m[0],
         .nodes = 2,
         .method = "ddp",
         .seconds = p.mean_step_s}};
    cluster->rank_flops = 0;
    cluster->wire.bandwidth_Bps = 3.125e9;
    double launch = cluster->launch_s;
    assert_ok(ctx, weft_cluster_anchor(ctx, run, NULL, m, 2, cluster, &found));
    assert_true(fabs(cluster->rank_flops / 3e10 - 1) < 1e-3);
    /* the wire, if all that is missing is the wire's; half of it may be a constant */
    double all_wire = found.all_wire > 0 ? found.all_wire : 1;
    assert_true(fabs(cluster->wire.bandwidth_Bps * all_wire / 2e8 - 1) < 0.02);
    assert_true(cluster->launch_s == launch);
    assert_true(fabs(m[1].predicted_s / p.mean_step_s - 1) < 1e-3);
    assert_non_null(strstr(found.text, "your wire carries "));
}

/* Two nodes that take as long as one with as many tokens for each, or by a few per cent less,
 * say nothing of the wire: its rate stays, and it is said. */
TEST_IN(begin, end, a_wire_that_does_not_show_stays_as_it_was) {
    weft_inference_of_facts found = {.struct_size = sizeof found};
    cluster->nodes = 2;
    cluster->rank_flops = 0;
    cluster->wire.bandwidth_Bps = 3.125e9;
    cluster->wire.latency_s = 0;
    double tokens = (double)run->batch.tokens_per_step;
    weft_measurement m[] = {{.struct_size = sizeof m[0], .nodes = 1, .seconds = 10},
                            {.struct_size = sizeof m[0],
                             .nodes = 2,
                             .method = "ddp",
                             .seconds = 10,
                             .tokens = 2 * tokens}};
    for (int i = 0; i < 3; i++, m[1].seconds *= 0.96) {
        assert_ok(ctx, weft_cluster_anchor(ctx, run, NULL, m, 2, cluster, &found));
        assert_true(cluster->wire.bandwidth_Bps == 3.125e9);
        assert_true(found.wire_Bps == 0);
        assert_non_null(
            strstr(found.text, "the wire does not show in these steps, and stays"));
    }
    cluster->wire.bandwidth_Bps = 1e4;
    m[1].seconds = 10;
    assert_ok(ctx, weft_cluster_anchor(ctx, run, NULL, m, 2, cluster, &found));
    assert_non_null(strstr(found.text, "shorter than it would allow as given"));
    cluster->wire.bandwidth_Bps = 3.125e9;
    m[1].seconds = 10.5;
    assert_ok(ctx, weft_cluster_anchor(ctx, run, NULL, m, 2, cluster, &found));
    assert_true(found.wire_Bps > 0 && cluster->wire.bandwidth_Bps == found.wire_Bps);
}

/* A step on two nodes alone: computing comes back with the wire as given, and it is said what
 * one node would take. The same step predicts more nodes as the facts would. */
TEST_IN(begin, end, two_nodes_alone_tell_computing_behind_the_wire) {
    weft_inference_of_facts found = {.struct_size = sizeof found};
    cluster->nodes = 2;
    cluster->rank_flops = 3e10;
    wefti_adviser a = {
        .ctx = ctx, .run = run, .cluster = *cluster, .options = {.steps = 16}};
    weft_candidate two = {
        .nodes = 2, .ranks_per_node = 1, .sites = 1, .framework = "ddp"};
    weft_prediction p = {.struct_size = sizeof p};
    assert_ok(ctx, wefti_advise_predict(ctx, &a, &two, 0, &p));
    weft_measurement m = {
        .struct_size = sizeof m, .nodes = 2, .method = "ddp", .seconds = p.mean_step_s};
    double wire_Bps = cluster->wire.bandwidth_Bps;
    cluster->rank_flops = 0;
    assert_ok(ctx, weft_cluster_anchor(ctx, run, NULL, &m, 1, cluster, &found));
    assert_true(fabs(cluster->rank_flops / 3e10 - 1) < 1e-3);
    assert_true(cluster->wire.bandwidth_Bps == wire_Bps && found.wire_Bps == 0);
    assert_true(found.computing == WEFT_KNOWN_TYPED && found.wire == WEFT_KNOWN_TYPED);
    assert_non_null(strstr(found.text, "and one node alone takes "));
    assert_true(fabs(m.predicted_s / p.mean_step_s - 1) < 1e-3);
    /* a shorter step than the wire alone has no such answer */
    m.seconds = p.mean_step_s / 1e4;
    cluster->rank_flops = 0;
    weft_ctx_clear(ctx);
    assert_int_not_equal(weft_cluster_anchor(ctx, run, NULL, &m, 1, cluster, &found),
                         WEFT_OK);
    assert_non_null(strstr(weft_ctx_message(ctx), "exchanging alone takes longer"));
}

/* With a data sheet: within a twentieth and the whole of its peak it is as without one; slower or
 * faster than that the wire is what differs from its label. */
TEST_IN(begin, end, a_data_sheet_tells_a_slow_wire_from_slow_computing) {
    weft_inference_of_facts found = {.struct_size = sizeof found};
    const double sheet = 3e10, peak = 1e11;
    cluster->nodes = 2;
    weft_candidate two = {
        .nodes = 2, .ranks_per_node = 1, .sites = 1, .framework = "ddp"};
    weft_advise_options options = {
        .struct_size = sizeof options, .computing = WEFT_KNOWN_SHEET, .peak_flops = peak};
    static const double carried[] = {1, 0.01};
    for (int i = 0; i < 2; i++) {
        weft_prediction p = {.struct_size = sizeof p};
        double label_Bps = cluster->wire.bandwidth_Bps;
        wefti_adviser a = {
            .ctx = ctx, .run = run, .cluster = *cluster, .options = {.steps = 16}};
        a.cluster.rank_flops = i ? sheet : 0.2 * peak;
        a.cluster.wire.bandwidth_Bps *= carried[i];
        assert_ok(ctx, wefti_advise_predict(ctx, &a, &two, 0, &p));
        weft_measurement m = {.struct_size = sizeof m,
                              .nodes = 2,
                              .method = "ddp",
                              .seconds = p.mean_step_s};
        cluster->rank_flops = sheet;
        assert_ok(ctx, weft_cluster_anchor(ctx, run, &options, &m, 1, cluster, &found));
        assert_true(fabs(cluster->rank_flops / a.cluster.rank_flops - 1) < 1e-3);
        assert_true(fabs(cluster->wire.bandwidth_Bps / a.cluster.wire.bandwidth_Bps - 1) <
                    0.01);
        assert_true(found.computing == (i ? WEFT_KNOWN_SHEET : WEFT_KNOWN_TYPED));
        assert_true(!strstr(found.text, "less than a twentieth of its peak") == !i);
        cluster->wire.bandwidth_Bps = label_Bps;
    }
}

/* Tokens that people round are taken for whole sequences, others are refused. */
TEST_IN(begin, end, rounded_tokens_are_whole_sequences) {
    weft_inference_of_facts found = {.struct_size = sizeof found};
    weft_measurement m = {.struct_size = sizeof m,
                          .nodes = 1,
                          .seconds = 1,
                          .tokens = 250}; /* 8 of 32 are 256 */
    assert_ok(ctx, weft_cluster_anchor(ctx, run, NULL, &m, 1, cluster, &found));
    double flops = found.rank_flops;
    m.tokens = 256;
    assert_ok(ctx, weft_cluster_anchor(ctx, run, NULL, &m, 1, cluster, &found));
    assert_true(found.rank_flops == flops);
    m.tokens = 80;
    weft_ctx_clear(ctx);
    assert_int_not_equal(weft_cluster_anchor(ctx, run, NULL, &m, 1, cluster, &found),
                         WEFT_OK);
    assert_non_null(strstr(weft_ctx_message(ctx), "is 80, expected a multiple of"));
}

static void refuses(const char *text, const char *sentence) {
    weft_measurement m = {.struct_size = sizeof m};
    weft_ctx_clear(ctx);
    assert_int_not_equal(weft_measurement_parse(ctx, text, &m), WEFT_OK);
    if (!strstr(weft_ctx_message(ctx), sentence))
        fail_msg("'%s', expected '%s'", weft_ctx_message(ctx), sentence);
}

TEST_IN(begin, end, what_is_no_measurement_is_refused) {
    weft_inference_of_facts found = {.struct_size = sizeof found};
    refuses("", "there is no colon before a time");
    refuses("2 nodes 4.1 s", "there is no colon");
    refuses("2 nodes: fast", "behind the colon is no time");
    refuses("2 nodes: 0 s", "behind the colon is no time");
    refuses("2 nodes: -1 s", "behind the colon is no time");
    refuses("2 nodes, horovod: 1 s", "'horovod' is no number of nodes, tokens or method");
    refuses("2.5 nodes: 1 s", "is no number of nodes");
    refuses("2 nodes x: 1 s", "is no number of nodes");
    refuses("2 apples: 1 s", "is no number of nodes");
    weft_measurement only = {.struct_size = sizeof only, .nodes = 2, .seconds = 1},
                     fast[] = {{.struct_size = sizeof only, .nodes = 1, .seconds = 1},
                               {.struct_size = sizeof only,
                                .nodes = 2,
                                .seconds = 1e-6,
                                .text = "x"}};
    cluster->nodes = 2;
    cluster->rank_flops = cluster->wire.bandwidth_Bps = 0;
    weft_ctx_clear(ctx);
    assert_int_not_equal(weft_cluster_anchor(ctx, run, NULL, &only, 1, cluster, &found),
                         WEFT_OK);
    assert_non_null(strstr(weft_ctx_message(ctx), "--measured says nothing of one node"));
    weft_ctx_clear(ctx);
    assert_int_not_equal(weft_cluster_anchor(ctx, run, NULL, fast, 2, cluster, &found),
                         WEFT_OK);
    assert_non_null(strstr(weft_ctx_message(ctx), "is less than computing and latency"));
}

/* As nvidia-smi and others print them; what is another machine is not taken for a known one. */
TEST_IN(begin, end, accelerators_are_known_as_drivers_print_them) {
    static const struct {
        const char *typed, *name;
    } cases[] = {{"NVIDIA A100-SXM4-40GB", "A100"},
                 {"A100-40GB", "A100"},
                 {"NVIDIA A100-SXM4-80GB", "A100-80GB"},
                 {"NVIDIA H100 80GB HBM3", "H100"},
                 {"Tesla V100-SXM2-32GB", "V100-32GB"},
                 {"NVIDIA GeForce RTX 4090", "RTX4090"},
                 {"NVIDIA RTX 6000 Ada Generation", "RTX6000-Ada"},
                 {"Apple M2 Max", "M2-Max"},
                 {"NVIDIA RTX A6000", "A6000"},
                 {"NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"},
                 {"NVIDIA A100-PCIE-40GB", "A100-PCIe"},
                 {"NVIDIA H100 NVL", "H100-NVL"},
                 {"4090", "RTX4090"},
                 {"GeForce 3090 Ti", "RTX3090-Ti"},
                 {"3060 12GB", "RTX3060"},
                 {"NVIDIA GeForce RTX 3060 Laptop GPU", NULL},
                 {"A100-20GB", NULL},
                 {"40GB", NULL},
                 {"", NULL}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const weft_accelerator *a = weft_accelerator_find(cases[i].typed);
        if (!a != !cases[i].name || (a && strcmp(a->name, cases[i].name) != 0))
            fail_msg("'%s' is %s, expected %s", cases[i].typed, a ? a->name : "none",
                     cases[i].name ? cases[i].name : "none");
    }
}

TEST_IN(begin, end, accelerators_are_known_by_name) {
    for (int i = 0; weft_accelerator_at(i); i++) {
        const weft_accelerator *a = weft_accelerator_at(i);
        assert_ok(ctx, weft_cluster_accelerate(ctx, cluster, a->name));
        assert_true(cluster->rank_flops > a->low * a->peak_flops &&
                    cluster->rank_flops < a->high * a->peak_flops);
        assert_true(a->source[0] && a->low > 0 && a->high < 1);
    }
    assert_null(weft_accelerator_at(-1));
    static const char *const more[] = {
        "m1 pro",      "M2-Pro",    "M3 Pro", "M3-Ultra", "rtx 4070 ti super",
        "RTX 3060 Ti", "H100 PCIe", "A40"};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        assert_non_null(weft_accelerator_find(more[i]));
    assert_true(weft_accelerator_find("M1 Pro")->peak_flops <
                weft_accelerator_find("M1 Max")->peak_flops);
    weft_ctx_clear(ctx);
    assert_int_not_equal(weft_cluster_accelerate(ctx, cluster, "abacus"), WEFT_OK);
    assert_non_null(
        strstr(weft_ctx_message(ctx), "accelerator is 'abacus', expected one of"));
    assert_non_null(
        strstr(weft_ctx_message(ctx), "M4-Max; of others say --node-flops ('here'"));
}

TEST_IN(begin, end, an_effort_is_a_share_of_the_data_sheet) {
    static const double bad[] = {0, -0.1, 1.001, 38, NAN, INFINITY};
    assert_ok(ctx, weft_cluster_effort(ctx, cluster, "A100", 1));
    assert_true(cluster->rank_flops == 312e12 && cluster->memory_bytes == 40e9);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_ctx_clear(ctx);
        assert_int_not_equal(weft_cluster_effort(ctx, cluster, "A100", bad[i]), WEFT_OK);
        assert_non_null(strstr(weft_ctx_message(ctx), "expected a share"));
    }
    assert_true(cluster->rank_flops == 312e12);
}

/* What is launched does not grow with the batch. */
TEST_IN(begin, end, launching_is_there_in_every_pass) {
    double before = computing();
    cluster->launch_s = 1e-3;
    is_near(computing() - before, 3e-3 * job->model->n_units);
}
