/* SPDX-License-Identifier: MIT */
/* The exponential of the fast tables against libm. Its own header is compiled here without
 * any instruction-set flag; what each table makes of it shows in silu(g) = g/(1 + exp(-g)),
 * which for very negative g is g exp(g). */
#include "helpers.h"

#include "tensor/isa/lanes.h"

static float exp_of(float x) {
    float out[LANES];
    store(out, exp_lanes(splat(x)));
    return out[LANES - 1];
}

static void exp_is_within_two_units_in_the_last_place(void **state) {
    (void)state;
    const double end = 88.7; /* exp(88.72) is the largest float */
    for (double x = -87.3; x < end; x += 0.00037) {
        double want = exp((double)(float)x), got = (double)exp_of((float)x);
        if (!(fabs(got - want) <= 4 * rounding * want))
            fail_msg("exp(%.9g) is %.9g, wanted %.9g", x, got, want);
    }
}

static void exp_fades_through_the_denormal_numbers(void **state) {
    (void)state;
    const double smallest = 0x1p-149;
    for (double x = -104; x < -87; x += 0.0037) {
        double want = exp((double)(float)x), got = (double)exp_of((float)x);
        assert_true(fabs(got - want) <= smallest + 4 * rounding * want);
    }
}

static void exp_of_extremes_is_zero_one_infinite_or_nan(void **state) {
    (void)state;
    assert_true(exp_of(0.0f) == 1.0f && exp_of(-0.0f) == 1.0f);
    assert_true(exp_of(-105.0f) == 0.0f && exp_of(-3e38f) == 0.0f);
    assert_true(exp_of(-INFINITY) == 0.0f);
    assert_true(isfinite(exp_of(88.72f)));
    assert_true(exp_of(88.73f) == INFINITY && exp_of(3e38f) == INFINITY);
    assert_true(exp_of(INFINITY) == INFINITY && isnan(exp_of(NAN)));
}

static void check_silu_tail(const wefti_kernels *fast) {
    enum { F = 40000 };
    float *gu = new_floats(2 * F), *y = new_floats(F);
    for (int i = 0; i < F; i++) {
        gu[i] = (float)(-80 + 100.0 * i / F); /* [-80, 20) */
        gu[F + i] = 1;
    }
    fast->swiglu_forward(1, F, gu, y);
    for (int i = 0; i < F; i++) {
        double g = (double)gu[i], want = g / (1 + exp(-g));
        /* 2 ulp of exp, one rounding each of sum, quotient, two products */
        if (!(fabs((double)y[i] - want) <= 8 * rounding * fabs(want)))
            fail_msg("%s: silu(%.9g) is %.9g, wanted %.9g", fast->name, g, (double)y[i], want);
    }
    free(gu), free(y);
}

static void every_table_keeps_the_relative_precision_of_silu(void **state) {
    (void)state;
    each_table(check_silu_tail);
}

static void parts_of_vectors_touch_only_their_floats(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_units_in_the_last_place),
        cmocka_unit_test(exp_fades_through_the_denormal_numbers),
        cmocka_unit_test(exp_of_extremes_is_zero_one_infinite_or_nan),
        cmocka_unit_test(every_table_keeps_the_relative_precision_of_silu),
        cmocka_unit_test(parts_of_vectors_touch_only_their_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
