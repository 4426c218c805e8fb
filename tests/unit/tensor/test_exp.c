/* SPDX-License-Identifier: MIT */
/* Exponential and logarithm of the fast tables against libm. Its own header is compiled
 * here without any instruction-set flag; what each table makes of it shows in silu(g) =
 * g/(1 + exp(-g)), which for very negative g is g exp(g). */
#include "helpers.h"

#include "kernels/isa/lanes.h"

static float exp_of(float x) {
    float out[LANES];
    store(out, exp_lanes(splat(x)));
    return out[LANES - 1];
}

static float falling(float x) {
    float out[LANES];
    store(out, exp_falling(splat(x)));
    return out[0];
}

static float log_of(float x) {
    float out[LANES];
    store(out, log_lanes(splat(x)));
    return out[0];
}

TEST(exp_is_within_two_units_in_the_last_place) {
    for (double x = -87.3; x < 87.3; x += 0.00037) {
        double want = exp((double)(float)x), got = (double)exp_of((float)x);
        if (!(fabs(got - want) <= 4 * rounding * want))
            fail_msg("exp(%.9g) is %.9g, wanted %.9g", x, got, want);
        if (x <= 0 && x >= -87) assert_true((double)falling((float)x) == got);
    }
    assert_true(exp_of(0.0f) == 1.0f && exp_of(-0.0f) == 1.0f && isnan(exp_of(NAN)));
}

TEST(falling_exp_ends_in_exact_zeros) {
    assert_true(falling(-87.0f) > 0 && falling(0.0f) == 1.0f);
    assert_true(falling(-87.01f) == 0 && falling(-3e38f) == 0 && falling(-INFINITY) == 0);
    assert_true(isnan(falling(NAN)));
}

TEST(log_is_within_two_units_of_the_larger_of_itself_and_one) {
    for (double x = 0x1p-126; x < 3e38; x *= 1.00037) {
        double want = log((double)(float)x), got = (double)log_of((float)x);
        double unit = 2 * rounding * (fabs(want) > 1 ? fabs(want) : 1);
        if (!(fabs(got - want) <= 2 * unit))
            fail_msg("log(%.9g) is %.9g, wanted %.9g", x, got, want);
    }
    assert_true(log_of(1.0f) == 0.0f);
}

static void check_silu_tail(const wefti_kernels *fast) {
    enum { F = 40000 };
    float *gu = new_floats(2 * F), *y = new_floats(F);
    for (int i = 0; i < F; i++) {
        gu[i] = (float)(-80 + 100.0 * i / F); /* [-80, 20) */
        gu[F + i] = 1;
    }
    fast->layers->swiglu_forward(1, F, gu, y);
    for (int i = 0; i < F; i++) {
        double g = (double)gu[i], want = g / (1 + exp(-g));
        /* 2 ulp of exp, one rounding each of sum, quotient, two products */
        if (!(fabs((double)y[i] - want) <= 8 * rounding * fabs(want)))
            fail_msg("%s: silu(%.9g) is %.9g, wanted %.9g", fast->name, g, (double)y[i],
                     want);
    }
    free(gu), free(y);
}

TEST(every_table_keeps_the_relative_precision_of_silu) { each_table(check_silu_tail); }

TEST(parts_of_vectors_touch_only_their_floats) {
    float from[LANES], to[LANES];
    for (int i = 0; i < LANES; i++) from[i] = to[i] = (float)(i + 1);
    for (int n = 0; n < LANES; n++) {
        vfloat v = load_part(from, n);
        for (int i = 0; i < LANES; i++) assert_true(v[i] == (i < n ? from[i] : 0));
        store_part(to, v * 2.0f, n);
        for (int i = n; i < LANES; i++) assert_true(to[i] == from[i]);
        if (n > 0) assert_true(to[n - 1] == 2 * from[n - 1]);
    }
    assert_true(lane_sum(load(from)) == LANES * (LANES + 1) / 2);
    assert_true(lane_max(load(from)) == LANES);
    from[0] = 100;
    assert_true(lane_max(load(from)) == 100);
}
