/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "check.h"
#include "optim/moments.h"

static const wefti_optimizer_config halves = {
    .beta1 = 0.5, .beta2 = 0.25, .eps = 1e-8, .weight_decay = 0.1, .accumulate = 4};
static const wefti_span decaying = {0, 1, true}, staying = {0, 1, false};

static wefti_accum_step accum(int64_t count, int64_t K) {
    wefti_optimizer_config config = halves;
    wefti_optimizer_step step = {count, 0.01f, 1};
    config.accumulate = K;
    return wefti_moments_accum_step(&config, &step, &decaying, WEFTI_DECAY_COUPLED);
}

TEST(a_period_opens_after_every_k_steps_and_closes_at_them) {
    for (int64_t K = 1; K <= 5; K++) {
        for (int64_t count = 1; count <= 3 * K; count++) {
            wefti_accum_step s = accum(count, K);
            assert_true(s.opens == ((count - 1) % K == 0));
            assert_true(s.closes == (count % K == 0));
            assert_true(s.share == (float)(1 / (double)K));
        }
    }
}

/* 1 - 2^-k names k */
TEST(corrections_count_periods) {
    static const int period[] = {1, 1, 1, 1, 2, 2, 2, 2, 3};
    for (int i = 0; i < 9; i++) {
        wefti_accum_step s = accum(i + 1, 4);
        assert_true(s.adam.correction1 == 1 - ldexpf(1, -period[i]));
        assert_true(s.adam.correction2 == 1 - ldexpf(1, -2 * period[i]));
        assert_true(accum(i + 1, 1).adam.correction1 == 1 - ldexpf(1, -(i + 1)));
    }
    assert_true(accum(INT64_C(8000000000), 8).closes);
    assert_true(accum(INT64_C(8000000001), 8).opens);
}

/* What a moment takes in and what it is divided by in its first step cancel exactly. */
TEST(corrections_are_of_the_betas_that_the_kernels_use) {
    static const double betas[] = {0.9, 0.95, 0.98, 0.999, 0.9999};
    for (int i = 0; i < 5; i++) {
        wefti_optimizer_config config = {.beta1 = betas[i], .beta2 = betas[i]};
        wefti_optimizer_step step = {1, 0.01f, 1};
        wefti_adam_step s = wefti_moments_step(&config, &step, &decaying,
                                               WEFTI_DECAY_COUPLED, 1);
        assert_true(s.correction1 == 1 - s.beta1 && s.correction2 == 1 - s.beta2);
    }
}

TEST(decay_is_coupled_or_decoupled_or_not_there) {
    wefti_optimizer_step step = {1, 0.01f, 0.5f};
    wefti_adam_step s = wefti_moments_step(&halves, &step, &decaying, WEFTI_DECAY_COUPLED,
                                           1);
    assert_true(s.coupled_decay == 0.1f && s.decoupled_decay == 0);
    s = wefti_moments_step(&halves, &step, &decaying, WEFTI_DECAY_DECOUPLED, 1);
    assert_true(s.coupled_decay == 0 && s.decoupled_decay == 0.1f);
    for (int decay = 0; decay < 2; decay++) {
        s = wefti_moments_step(&halves, &step, &staying, (wefti_decay)decay, 1);
        assert_true(s.coupled_decay == 0 && s.decoupled_decay == 0);
    }
    assert_true(s.lr == 0.01f && s.grad_scale == 0.5f && s.eps == 1e-8f);
}

TEST(an_automatic_period_is_half_the_replicas) {
    static const int64_t replicas[] = {1, 2, 3, 4, 8, 16}, half[] = {1, 1, 1, 2, 4, 8};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(wefti_optimizer_period(0, replicas[i]), half[i]);
        assert_int_equal(wefti_optimizer_period(5, replicas[i]), 5);
    }
}
