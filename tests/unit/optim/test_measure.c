/* SPDX-License-Identifier: MIT */
/* What weft_bench_optimizers promises beside its times. */
#include <math.h>

#include <weft/bench.h>

#include "check.h"
#include "optim/optimizer.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

static const weft_bench_optimizers_options small = {.struct_size = sizeof small,
                                                    .kernels = "base",
                                                    .threads = 2,
                                                    .n = 20000,
                                                    .accumulate = 3,
                                                    .steps = 3,
                                                    .warmup = 1};

TEST_IN(setup, teardown, every_optimizer_is_measured) {
    weft_optimizer_speeds s = {.struct_size = sizeof s};
    wefti_kernels_set_threads(1);
    assert_ok(ctx, weft_bench_optimizers(ctx, &small, &s));
    assert_int_equal(wefti_kernels_threads(), 1);
    assert_string_equal(s.kernels, "base");
    assert_true(s.n == 20000 && s.accumulate == 3);
    assert_true(s.stream_Bps >= s.scale_Bps && s.stream_Bps >= s.update_Bps);
    assert_true(s.scale_Bps > 0 && s.update_Bps > 0 && isfinite(s.stream_Bps));
    int n = 0;
    for (; wefti_optimizer_registry[n] && !wefti_optimizer_registry[n]->matrix; n++) {
        assert_string_equal(s.of[n].name, wefti_optimizer_registry[n]->name);
        assert_true(s.of[n].bandwidth_Bps > 0 && isfinite(s.of[n].bandwidth_Bps));
        assert_true(s.of[n].share_of_stream > 0 && isfinite(s.of[n].share_of_stream));
    }
    assert_int_equal(s.n_optimizers, n);
    assert_true(s.matrices.n == 0);
}

/* A layer of width C: 12 C C parameters, and at least the FLOP of B X. */
TEST_IN(setup, teardown, whole_matrices_are_measured_where_a_width_is_given) {
    weft_optimizer_speeds s = {.struct_size = sizeof s};
    weft_bench_optimizers_options o = small;
    o.width = 24;
    assert_ok(ctx, weft_bench_optimizers(ctx, &o, &s));
    assert_true(s.matrices.width == 24 && s.matrices.n == 12 * 24 * 24);
    assert_true(s.matrices.flop > 5 * 2 * 12 * 24.0 * 24 * 24);
    assert_true(s.matrices.step_s > 0 && isfinite(s.matrices.share_of_floor));
    assert_true(s.matrices.share_of_floor > 0 && s.matrices.peak_flops > 0);
}

TEST_IN(setup, teardown, bytes_are_those_of_the_period) {
    weft_optimizer_speeds s = {.struct_size = sizeof s};
    weft_bench_optimizers_options o = small;
    o.n = 100;
    static const struct {
        const char *name;
        int64_t K;
        double bytes;
    } cases[] = {{"sgd", 4, 12},        {"adam", 4, 28},       {"adamw", 4, 28},
                 {"accum_adam", 1, 28}, {"accum_adam", 4, 30}, {"accum_adamw", 8, 29}};
    for (int c = 0; c < 6; c++) {
        o.accumulate = cases[c].K;
        assert_ok(ctx, weft_bench_optimizers(ctx, &o, &s));
        int found = 0;
        for (int i = 0; i < s.n_optimizers; i++) {
            if (strcmp(s.of[i].name, cases[c].name) != 0) continue;
            assert_true(s.of[i].bytes == cases[c].bytes);
            found++;
        }
        assert_int_equal(found, 1);
    }
}

static void refused(weft_bench_optimizers_options o, const char *words) {
    weft_optimizer_speeds s = {.struct_size = sizeof s};
    assert_fails(ctx, weft_bench_optimizers(ctx, &o, &s), WEFT_ERR_ARGUMENT, words);
}

TEST_IN(setup, teardown, senseless_options_are_refused) {
    weft_bench_optimizers_options o = small;
    refused((o.kernels = "fast", o), "kernels 'fast' are unknown");
    o = small, refused((o.threads = -1, o), "threads -1");
    o = small, refused((o.n = -1, o), "parameters -1");
    o = small, refused((o.accumulate = -1, o), "accumulate -1");
    o = small, refused((o.steps = INT64_MAX, o), "at most 1000000 steps");
    o = small, refused((o.n = INT64_MAX, o), "fewer parameters");
    o = small, refused((o.width = 65537, o), "width 65537");
    o = small, refused((o.width = -1, o), "width -1");
}

static weft_status measure(void *speeds) {
    weft_bench_optimizers_options o = small;
    o.width = 8;
    return weft_bench_optimizers(ctx, &o, speeds);
}

TEST_IN(setup, teardown, every_failed_allocation_is_clean) {
    weft_optimizer_speeds s = {.struct_size = sizeof s};
    assert_true(fail_each_allocation(ctx, NULL, measure, &s) > 2);
}
