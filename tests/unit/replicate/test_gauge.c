/* SPDX-License-Identifier: MIT */
/* What weft_bench_replicators promises beside its times. */
#include <math.h>

#include <weft/bench.h>

#include "base/rng.h"
#include "check.h"
#include "comm/local.h"
#include "replicate/gauge.h"
#include "replicate/variants.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

static const weft_bench_replicators_options small = {.struct_size = sizeof small,
                                                     .kernels = "base",
                                                     .threads = 1,
                                                     .nodes = 3,
                                                     .n = 20000,
                                                     .steps = 3,
                                                     .warmup = 1};

static void assert_spread(const weft_spread *s) {
    assert_true(s->min > 0 && s->min <= s->median && s->median <= s->max);
    assert_true(isfinite(s->max));
}

/* Come first. */
static int n_transforms(const weft_replicator_speeds *s) {
    wefti_transform_config config;
    char text[64];
    int n = 0;
    for (; wefti_transform_at(n, &config); n++) {
        const weft_replicator_speed *r = &s->of[n];
        assert_string_equal(r->name, wefti_transform_name(&config, text, sizeof text));
        assert_spread(&r->step_ns);
        assert_true(r->keys[0] == 0 && r->wire_bits == 0 && r->bytes == 16);
        assert_true(r->sent > 0 && r->sent < 0.2);
    }
    return n;
}

/* The directions of three steps, bit for bit: 130 x 200 leaves ragged ends. */
static void compare_with_demo(const wefti_transform_config *config, wefti_comm *comm) {
    enum { ROWS = 130, COLS = 200, N = ROWS * COLS, STEPS = 3 };
    static float g[N], d[N], expected[N];
    wefti_piece piece = {.rows = ROWS, .cols = COLS, .decays = true};
    wefti_bucket bucket = {.n_pieces = 1, .pieces = &piece, .n_elements = N};
    wefti_replicator_config demo = {.kind = "demo",
                                    .compression_topk = config->k,
                                    .compression_chunk = config->c,
                                    .compression_dims = config->dims,
                                    .compression_decay = 0.999,
                                    .sign = true,
                                    .alpha = 1,
                                    .every = 1,
                                    .threads = 1};
    wefti_transform *t;
    wefti_replicator *r;
    assert_ok(ctx, wefti_transform_create(ctx, config, &bucket, 1, &t));
    assert_ok(ctx,
              wefti_replicator_create(ctx, &demo, config->kernels, comm, &bucket, 1, &r));
    for (int64_t step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++)
            g[i] = (float)wefti_rng_normal(7, WEFTI_STREAM_TEST, (uint64_t)step,
                                           (uint64_t)i);
        memcpy(d, g, sizeof g);
        memcpy(expected, g, sizeof g);
        wefti_transform_begin(t, 0, d);
        wefti_transform_end(t, 0, d);
        assert_ok(ctx, wefti_replicator_begin(r, 0, step, 1, expected));
        assert_ok(ctx, wefti_replicator_combine(r, 0, step, expected));
        assert_ok(ctx, wefti_replicator_end(r, 0, step, expected));
        assert_memory_equal(d, expected, sizeof d);
    }
    wefti_replicator_destroy(r);
    wefti_transform_destroy(t);
}

TEST_IN(setup, teardown, a_transform_is_demo_without_coding) {
    wefti_world_shape shape = {
        .replicas = 1, .shards = 1, .replicas_per_node = 1, .sites = 1};
    wefti_world *world;
    wefti_comm *comm;
    wefti_transform_config config;
    assert_ok(ctx, wefti_local_create(ctx, &shape, &world));
    assert_ok(ctx, wefti_world_join(ctx, world, 0, WEFTI_GROUP_REPLICA, 0, &comm));
    for (int i = 0; wefti_transform_at(i, &config); i++) {
        config.kernels = wefti_kernels_find(NULL);
        config.threads = 1;
        compare_with_demo(&config, comm);
    }
    wefti_comm_destroy(comm);
    wefti_world_destroy(ctx, world);
}

TEST_IN(setup, teardown, every_replicator_of_the_list_is_measured) {
    weft_replicator_speeds s = {.struct_size = sizeof s};
    wefti_replicator_config config;
    char text[320];
    assert_ok(ctx, weft_bench_replicators(ctx, &small, &s));
    assert_string_equal(s.kernels, "base");
    assert_true(s.n == 20000 && s.nodes == 3);
    assert_spread(&s.copy_Bps);
    int n = 0, before = n_transforms(&s);
    for (; wefti_variant_at(n, &config); n++) {
        const weft_replicator_speed *r = &s.of[before + n];
        assert_string_equal(r->name, wefti_variant_name(&config, text, sizeof text));
        assert_string_equal(r->keys, wefti_variant_keys(&config, text, sizeof text));
        assert_spread(&r->step_ns);
        assert_spread(&r->begin_ns);
        assert_spread(&r->rest_ns);
        assert_spread(&r->bandwidth_Bps);
        assert_spread(&r->share_of_copy);
        assert_true(r->step_ns.min * 1.000001 >= r->begin_ns.min + r->rest_ns.min);
        assert_true(r->bandwidth_Bps.max <= r->bytes / r->step_ns.min * 1e9 * 1.000001);
        assert_true(r->bound_bits > 0 && r->bound_bits <= r->wire_bits);
        assert_true(r->sent > 0 && r->sent <= 1);
    }
    assert_int_equal(s.n_replicators, before + n);
}

/* The first 98304 are one tensor of 256 x 384: 96 blocks of 105 bytes and a head. */
TEST_IN(setup, teardown, bits_are_those_of_the_message) {
    weft_replicator_speeds s = {.struct_size = sizeof s};
    weft_bench_replicators_options o = small;
    o.n = 98304;
    o.nodes = 2;
    o.only = "demo 4/64 int8 all_gather";
    assert_ok(ctx, weft_bench_replicators(ctx, &o, &s));
    assert_int_equal(s.n_replicators, 1);
    double bound = (4 * 8 + log2(64.0 * 63 * 62 * 61 / 24)) / 64;
    assert_true(fabs(s.of[0].wire_bits - 8.0 * (40 + 96 * 105) / 98304) < 1e-12);
    assert_true(fabs(s.of[0].bound_bits - bound) < 1e-9);
    assert_true(s.of[0].sent == 1.0 / 16 && s.of[0].bytes == 16);
}

TEST_IN(setup, teardown, threads_are_as_wanted_and_then_as_before) {
    weft_replicator_speeds s = {.struct_size = sizeof s};
    weft_bench_replicators_options o = small;
    wefti_kernels_set_threads(2);
    int two = wefti_kernels_threads(); /* 1 without OpenMP */
    wefti_kernels_set_threads(1);
    o.threads = 2;
    o.only = "8/64";
    assert_ok(ctx, weft_bench_replicators(ctx, &o, &s));
    assert_true(s.threads == two && s.n_replicators > 1);
    assert_int_equal(wefti_kernels_threads(), 1);
}

/* In full every parameter costs the same, so these were as many as wanted. */
TEST_IN(setup, teardown, any_number_of_parameters_is_laid_out) {
    static const int64_t numbers[] = {1, 383, 384 * 3 + 5, 196608 + 768 + 384 * 1152 + 7};
    weft_replicator_speeds s = {.struct_size = sizeof s};
    weft_bench_replicators_options o = small;
    o.nodes = 2;
    o.steps = 1;
    o.only = "full f32";
    for (int i = 0; i < 4; i++) {
        o.n = numbers[i];
        assert_ok(ctx, weft_bench_replicators(ctx, &o, &s));
        assert_true(s.n == numbers[i] && s.of[0].sent == 1);
        assert_true(fabs(s.of[0].wire_bits - 32) < 1e-9);
    }
}

TEST_IN(setup, teardown, a_lone_node_sends_nothing_and_works) {
    weft_replicator_speeds s = {.struct_size = sizeof s};
    weft_bench_replicators_options o = small;
    o.nodes = 1;
    o.only = "demo";
    assert_ok(ctx, weft_bench_replicators(ctx, &o, &s));
    assert_true(s.n_replicators > 4 && s.nodes == 1);
    for (int i = 0; i < s.n_replicators; i++) {
        assert_int_equal(strncmp(s.of[i].name, "demo ", 5), 0);
        assert_true(s.of[i].wire_bits == 0 && s.of[i].step_ns.min > 0);
    }
}

static void refused(weft_bench_replicators_options o, const char *words) {
    weft_replicator_speeds s = {.struct_size = sizeof s};
    assert_fails(ctx, weft_bench_replicators(ctx, &o, &s), WEFT_ERR_ARGUMENT, words);
}

TEST_IN(setup, teardown, senseless_options_are_refused) {
    weft_bench_replicators_options o = small;
    refused((o.kernels = "fast", o), "kernels 'fast' are unknown");
    o = small, refused((o.threads = -1, o), "threads -1");
    o = small, refused((o.nodes = -1, o), "nodes -1");
    o = small, refused((o.nodes = 65, o), "at most 64 nodes");
    o = small, refused((o.n = INT64_MAX, o), "2^40 parameters");
    o = small, refused((o.steps = INT64_MAX, o), "1000000 steps");
    o = small, refused((o.warmup = INT64_MAX, o), "1000000 steps");
    o = small,
    refused((o.only = "demos", o), "no replicator that is measured has 'demos'");
}

static weft_status measure(void *speeds) {
    weft_bench_replicators_options o = small;
    o.n = 3000;
    o.nodes = 2;
    o.only = "int8 sharded";
    return weft_bench_replicators(ctx, &o, speeds);
}

TEST_IN(setup, teardown, every_failed_allocation_is_clean) {
    weft_replicator_speeds s = {.struct_size = sizeof s};
    assert_true(fail_each_allocation(ctx, NULL, measure, &s) > 20);
}
