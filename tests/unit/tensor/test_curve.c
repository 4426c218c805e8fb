/* SPDX-License-Identifier: MIT */
/* Activations and gradients of biases in bfloat16, of every table against the reference. */
#include "helpers.h"

static const wefti_kernels *const ref = &wefti_kernels_reference;

static const wefti_curve curves[] = {WEFTI_CURVE_SWIGLU, WEFTI_CURVE_GEGLU,
                                     WEFTI_CURVE_GELU, WEFTI_CURVE_GELU_ERF,
                                     WEFTI_CURVE_RELU};
enum { N_CURVES = sizeof curves / sizeof curves[0] };

static bool is_gated(wefti_curve curve) {
    return curve == WEFTI_CURVE_SWIGLU || curve == WEFTI_CURVE_GEGLU;
}

/* Two numbers that differ in their last bits of f32 may round to neighbours, 2^-7 apart. */
static void assert_near(int64_t n, const uint16_t *got, const uint16_t *want,
                        const char *what) {
    float *g = new_widened(n, got), *w = new_widened(n, want);
    assert_close(n, g, w, 0x1p-7, what);
    free(g), free(w);
}

static void check_curve(const wefti_kernels *fast, wefti_curve curve, int64_t N, int64_t F) {
    int64_t wide = is_gated(curve) ? 2 * F : F;
    float *noise = new_noise(N * wide, 1, 6), *slope = new_noise(N * F, 2, 2);
    uint16_t *x = new_halves(N * wide, noise), *dy = new_halves(N * F, slope);
    uint16_t *want = new_halves(N * wide, noise), *got = new_halves(N * wide, noise);
    ref->curve_forward(curve, N, F, x, want), fast->curve_forward(curve, N, F, x, got);
    assert_near(N * F, got, want, "curve_forward");
    ref->curve_backward(curve, N, F, x, dy, want);
    fast->curve_backward(curve, N, F, x, dy, got);
    assert_near(N * wide, got, want, "curve_backward");
    if (!is_gated(curve)) {
        fast->curve_backward(curve, N, F, x, dy, dy);
        assert_memory_equal(dy, got, (size_t)(N * F) * sizeof *dy);
    }
    free(noise), free(slope), free(x), free(dy), free(want), free(got);
}

static void check_curves(const wefti_kernels *fast) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 17}, {17, 3}, {16, 32}, {131, 401}};
    for (int i = 0; i < 5; i++)
        for (int c = 0; c < N_CURVES; c++)
            check_curve(fast, curves[c], shapes[i][0], shapes[i][1]);
}

static void curves_in_bfloat16_follow_the_reference(void **state) {
    each_table(check_curves);
}

static void check_extremes(const wefti_kernels *fast) {
    const float far[] = {0x1p100f, -0x1p100f, 0x1p10f, -0x1p10f, 0, NAN};
    uint16_t *x = new_halves(6, far), y[6], dx[6], ones[6];
    for (int i = 0; i < 6; i++) ones[i] = wefti_bf16(1);
    for (int c = 2; c < N_CURVES; c++) {
        fast->curve_forward(curves[c], 1, 6, x, y);
        fast->curve_backward(curves[c], 1, 6, x, ones, dx);
        for (int i = 0; i < 4; i++) { /* what should be 0 is below 1e-36 of x */
            float v = wefti_f32_of_bf16(y[i]), d = wefti_f32_of_bf16(dx[i]);
            assert_true(i % 2 ? fabsf(v) <= 1e-36f * fabsf(far[i]) : v == far[i]);
            assert_true(i % 2 ? fabsf(d) < 1e-33f : d == 1);
        }
        assert_true(wefti_f32_of_bf16(y[4]) == 0);
        if (curves[c] == WEFTI_CURVE_GELU) assert_true(isnan(wefti_f32_of_bf16(y[5])));
    }
    free(x);
}

static void curves_of_extremes_are_their_limits(void **state) { each_table(check_extremes); }

static void check_bias(const wefti_kernels *fast) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 17}, {17, 3}, {16, 32}, {131, 401}};
    for (int i = 0; i < 5; i++) {
        int64_t N = shapes[i][0], C = shapes[i][1];
        float *noise = new_noise(N * C, 1, 1), *b = new_noise(C, 2, 1), *b2 = new_copy(C, b);
        uint16_t *dy = new_halves(N * C, noise);
        ref->bias_grad_half(N, C, dy, b), fast->bias_grad_half(N, C, dy, b2);
        assert_close(C, b2, b, rounding * (double)N, "bias_grad_half");
        free(noise), free(b), free(b2), free(dy);
    }
}

static void gradients_of_biases_follow_the_reference(void **state) { each_table(check_bias); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curves_in_bfloat16_follow_the_reference),
        cmocka_unit_test(curves_of_extremes_are_their_limits),
        cmocka_unit_test(gradients_of_biases_follow_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
