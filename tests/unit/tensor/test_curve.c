/* SPDX-License-Identifier: MIT */
/* Activations and gradients of biases in bfloat16, of every table against the reference. */
#include "helpers.h"
#include "reference/reference.h"

static const wefti_kernels *const ref = &wefti_kernels_reference;

static const wefti_curve gates[] = {WEFTI_CURVE_SWIGLU, WEFTI_CURVE_GEGLU};
static const wefti_curve curves[] = {WEFTI_CURVE_GELU, WEFTI_CURVE_GELU_ERF,
                                     WEFTI_CURVE_RELU, WEFTI_CURVE_RELU2};

/* Two numbers that differ in their last bits of f32 may round to neighbours, 2^-7 apart. */
static void assert_near(int64_t n, const uint16_t *got, const uint16_t *want,
                        const char *what) {
    float *g = new_widened(n, got), *w = new_widened(n, want);
    assert_close(n, g, w, 0x1p-7, what);
    free(g), free(w);
}

static void check_gate(const wefti_kernels *fast, wefti_curve curve, int64_t N,
                       int64_t F) {
    float *noise = new_noise(N * 2 * F, 1, 6), *slope = new_noise(N * F, 2, 2);
    uint16_t *x = new_halves(N * 2 * F, noise), *dy = new_halves(N * F, slope);
    uint16_t *want = new_halves(N * 2 * F, noise), *got = new_halves(N * 2 * F, noise);
    ref->layers->gate_forward(curve, N, F, x, want),
        fast->layers->gate_forward(curve, N, F, x, got);
    assert_near(N * F, got, want, "gate_forward");
    ref->layers->gate_backward(curve, N, F, x, dy, want);
    fast->layers->gate_backward(curve, N, F, x, dy, got);
    assert_near(N * 2 * F, got, want, "gate_backward");
    free(noise), free(slope), free(x), free(dy), free(want), free(got);
}

static void check_gates(const wefti_kernels *fast) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 17}, {17, 3}, {16, 32}, {131, 401}};
    for (int i = 0; i < 5; i++)
        for (int c = 0; c < 2; c++)
            check_gate(fast, gates[c], shapes[i][0], shapes[i][1]);
}

TEST(gates_in_bfloat16_follow_the_reference) { each_table(check_gates); }

/* The curve and its slope at n numbers, as results of a product with 1. */
static void curve_at(const wefti_kernels *k, wefti_curve curve, int64_t n, const float *x,
                     uint16_t *y, uint16_t *slopes) {
    const float one = 1;
    k->bf16->layers->gemm_mixed(&(wefti_mixed){.M = n,
                                               .N = 1,
                                               .K = 1,
                                               .A = x,
                                               .lda = 1,
                                               .B = &one,
                                               .ldb = 1,
                                               .C = y,
                                               .ldc = 1,
                                               .half_c = true,
                                               .slopes = slopes,
                                               .curve = curve});
}

/* What the curves are, in double. */
static double exact_curve(wefti_curve curve, double x, double *slope) {
    if (curve == WEFTI_CURVE_RELU) return *slope = x > 0, x > 0 ? x : 0;
    if (curve == WEFTI_CURVE_RELU2) return *slope = x > 0 ? 2 * x : 0, x > 0 ? x * x : 0;
    if (curve == WEFTI_CURVE_GELU_ERF) {
        double s = erfc(-x * sqrt(0.5)) / 2;
        return *slope = s + x * exp(-x * x / 2) / sqrt(2 * acos(-1.0)), x * s;
    }
    double u = 2 * sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x),
           s = 1 / (1 + exp(-u));
    double du = 2 * sqrt(2 / acos(-1.0)) * (1 + 3 * 0.044715 * x * x),
           rest = 1 / (1 + exp(u));
    return *slope = s + x * s * rest * du, x * s;
}

/* Half of the last of 8 bits, and what is left of the quick exponential's 2.6e-6 and of the error
 * function's 0.8e-7. */
static void check_points(const wefti_kernels *fast) {
    enum { MOST = 4001 };
    float x[MOST];
    uint16_t y[MOST], slopes[MOST];
    for (int i = 0; i < MOST; i++)
        x[i] = wefti_f32_of_bf16(wefti_bf16((float)(i - 2000) / 200));
    for (int c = 0; c < 4; c++) {
        curve_at(fast, curves[c], MOST, x, y, slopes);
        for (int i = 0; i < MOST; i++) {
            double slope, want = exact_curve(curves[c], (double)x[i], &slope);
            double apart = (double)wefti_f32_of_bf16(y[i]) - want;
            assert_true(fabs(apart) <= 0x1p-8 * fabs(want) + 4e-6);
            apart = (double)wefti_f32_of_bf16(slopes[i]) - slope;
            assert_true(fabs(apart) <= 0x1p-8 * fabs(slope) + 4e-6);
        }
    }
}

TEST(curves_and_slopes_are_rounded_once) { each_table(check_points); }

static void check_extremes(const wefti_kernels *fast) {
    const float far[] = {0x1p100f, -0x1p100f, 0x1p10f, -0x1p10f, 0, NAN};
    uint16_t y[6], slopes[6];
    for (int c = 0; c < 3; c++) { /* a square has no such limits */
        curve_at(fast, curves[c], 6, far, y, slopes);
        for (int i = 0; i < 4; i++) { /* what should be 0 is below 1e-36 of x */
            float v = wefti_f32_of_bf16(y[i]), d = wefti_f32_of_bf16(slopes[i]);
            assert_true(i % 2 ? fabsf(v) <= 1e-36f * fabsf(far[i]) : v == far[i]);
            assert_true(i % 2 ? fabsf(d) < 1e-33f : d == 1);
        }
        assert_true(wefti_f32_of_bf16(y[4]) == 0);
        if (curves[c] == WEFTI_CURVE_GELU) assert_true(isnan(wefti_f32_of_bf16(y[5])));
    }
}

TEST(curves_of_extremes_are_their_limits) { each_table(check_extremes); }

static void check_bias(const wefti_kernels *fast) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 17}, {17, 3}, {16, 32}, {131, 401}};
    for (int i = 0; i < 5; i++) {
        int64_t N = shapes[i][0], C = shapes[i][1];
        float *noise = new_noise(N * C, 1, 1), *b = new_noise(C, 2, 1),
              *b2 = new_copy(C, b);
        uint16_t *dy = new_halves(N * C, noise);
        ref->bias_grad_half(N, C, dy, b), fast->bias_grad_half(N, C, dy, b2);
        assert_close(C, b2, b, rounding * (double)N, "bias_grad_half");
        free(noise), free(b), free(b2), free(dy);
    }
}

TEST(gradients_of_biases_follow_the_reference) { each_table(check_bias); }
