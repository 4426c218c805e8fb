/* SPDX-License-Identifier: MIT */
/* In how many steps a guest gets its state, and when all wait for the rest of it. What travels is
 * looked at on real runs (cli/guests). */
#include "train/guests.h"

#include <math.h>

#include "check.h"

static const double rate_Bps = 12.5e6, step_s = 0.5; /* 100 Mbit/s */

/* n bytes take n / rate, of which a slice may take a quarter of a step. */
static void a_slice_takes_a_quarter_of_a_step(void **state) {
    for (int64_t n = 4000000; n < 5000000000; n += n / 3) {
        int64_t slices = wefti_guests_slices(n, rate_Bps, step_s);
        double slice_s = (double)n / rate_Bps / (double)slices;
        assert_in_range(slices, 2, 4096);
        if (slices < 4096 && slice_s > 0.25 * step_s)
            fail_msg("%lld bytes: a slice takes %g s", (long long)n, slice_s);
        if (slices > 2 && slice_s * (double)slices / (double)(slices - 1) < 0.25 * step_s)
            fail_msg("%lld bytes: %lld slices are too many", (long long)n,
                     (long long)slices);
    }
}

/* A tenth of a second of waiting is cheaper than many steps with a guest. */
static void what_is_little_comes_at_once(void **state) {
    int64_t tenth = (int64_t)(0.1 * rate_Bps);
    assert_int_equal(wefti_guests_slices(0, rate_Bps, step_s), 0);
    assert_int_equal(wefti_guests_slices(tenth, rate_Bps, 1e-3), 0);
    assert_in_range(wefti_guests_slices(tenth + 2, rate_Bps, 1e-3), 2, 4096);
    assert_int_equal(wefti_guests_slices(2 * tenth, rate_Bps, 60), 0); /* one slice */
}

/* Nobody knows how fast the links are, or how long a step takes: all wait. */
static void what_is_not_known_is_not_guessed(void **state) {
    assert_int_equal(wefti_guests_slices(1 << 30, 0, step_s), 0);
    assert_int_equal(wefti_guests_slices(1 << 30, rate_Bps, 0), 0);
    assert_int_equal(wefti_guests_slices(1 << 30, (double)NAN, step_s), 0);
    assert_int_equal(wefti_guests_slices(1 << 30, rate_Bps, (double)NAN), 0);
    assert_int_equal(wefti_guests_slices(INT64_MAX, 1, 1e-9), 4096);
}

static void an_evaluation_a_checkpoint_and_the_end_need_everybody(void **state) {
    weft_ctx *ctx;
    weft_config *config;
    assert_int_equal(ctx_begin(&ctx), 0);
    assert_ok(ctx, weft_config_create(ctx, &config));
    config->run.steps = 25;
    config->run.eval_every = 4;
    config->run.save_every = 6;
    for (int64_t done = 1; done <= 25; done++) {
        bool must = done % 4 == 0 || done % 6 == 0 || done == 25;
        if (wefti_guests_must_hurry(config, done) != must)
            fail_msg("after %lld steps", (long long)done);
    }
    config->run.eval_every = config->run.save_every = 0;
    for (int64_t done = 1; done < 25; done++)
        assert_false(wefti_guests_must_hurry(config, done));
    assert_true(wefti_guests_must_hurry(config, 25));
    weft_config_destroy(ctx, config);
    assert_int_equal(ctx_end(ctx), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_takes_a_quarter_of_a_step),
        cmocka_unit_test(what_is_little_comes_at_once),
        cmocka_unit_test(what_is_not_known_is_not_guessed),
        cmocka_unit_test(an_evaluation_a_checkpoint_and_the_end_need_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
