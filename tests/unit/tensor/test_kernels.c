/* SPDX-License-Identifier: MIT */
/* Elementwise kernels, norms and activations of every table against the reference. Sizes
 * lie below, at and beside the lanes of a vector; the last of each list is large enough
 * for three threads. Buffers are compared whole, so gaps must stay as they were. */
#include "helpers.h"
#include "reference/reference.h"

static const wefti_kernels *const ref = &wefti_kernels_reference;

static const int64_t lengths[] = {1, 3, 15, 16, 17, 64, 1000, 70001};
static const struct {
    int64_t N, C;
} shapes[] = {{1, 1}, {3, 17}, {17, 3}, {16, 32}, {131, 401}};
enum {
    N_LENGTHS = sizeof lengths / sizeof lengths[0],
    N_SHAPES = sizeof shapes / sizeof shapes[0]
};

static void check_elementwise(const wefti_kernels *fast, int64_t n) {
    float *a = new_noise(n, 1, 2), *b = new_noise(n, 2, 2);
    float *want = new_noise(n, 3, 2), *got = new_copy(n, want);
    ref->accumulate(n, a, want), fast->accumulate(n, a, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    ref->scale(n, 0.3f, want), fast->scale(n, 0.3f, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    assert_close(1, &(float){(float)fast->sum_squares(n, got)},
                 &(float){(float)ref->sum_squares(n, want)}, 2 * rounding, "sum_squares");
    assert_true(fast->sum_squares(n, got) == fast->sum_squares(n, got));
    ref->add(n, a, b, want), fast->add(n, a, b, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    ref->clear(n, want), fast->clear(n, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    free(a), free(b), free(want), free(got);
}

static void check_bias(const wefti_kernels *fast, int64_t N, int64_t C) {
    float *y = new_noise(N * C, 1, 1), *y2 = new_copy(N * C, y);
    float *b = new_noise(C, 2, 1), *b2 = new_copy(C, b);
    ref->bias_add(N, C, b, y), fast->bias_add(N, C, b, y2);
    assert_memory_equal(y2, y, (size_t)(N * C) * sizeof *y);
    ref->bias_grad(N, C, y, b), fast->bias_grad(N, C, y, b2);
    assert_close(C, b2, b, rounding * (double)N, "bias_grad"); /* N roundings of a sum */
    free(y), free(y2), free(b), free(b2);
}

static void check_sums(const wefti_kernels *fast) {
    for (int i = 0; i < N_LENGTHS; i++) check_elementwise(fast, lengths[i]);
    for (int i = 0; i < N_SHAPES; i++) check_bias(fast, shapes[i].N, shapes[i].C);
}

TEST(sums_and_biases_follow_the_reference) { each_table(check_sums); }

/* Dividing a sum among the threads must not change it. */
TEST(sums_do_not_depend_on_the_thread_count) {
    enum { N = 100003 };
    const wefti_kernels *fast = test_kernels_find(NULL);
    float *x = new_noise(N, 1, 1), *db[2] = {new_floats(101), new_floats(101)};
    double sum[2];
    for (int i = 0; i < 2; i++) {
        wefti_kernels_set_threads(1 + 2 * i);
        sum[i] = fast->sum_squares(N, x);
        fast->bias_grad(N / 101, 101, x, db[i]);
    }
    assert_true(sum[0] == sum[1]);
    assert_memory_equal(db[0], db[1], 101 * sizeof(float));
    wefti_kernels_set_threads(1);
    free(x), free(db[0]), free(db[1]);
}

/* Sums of C terms of rounded products, and for the parameters' gradients of N. */
static void check_layernorm(const wefti_kernels *fast, int64_t N, int64_t C,
                            float offset) {
    float *x = new_noise(N * C, 1, 1), *gain = new_noise(C, 2, 1),
          *bias = new_noise(C, 3, 1);
    float *dy = new_noise(N * C, 4, 1), *y[2], *mean[2], *rstd[2], *dx[2], *dgain[2],
          *dbias[2];
    for (int64_t i = 0; i < N * C; i++) x[i] += offset;
    const wefti_kernels *kernels[2] = {ref, fast};
    for (int i = 0; i < 2; i++) {
        y[i] = new_floats(N * C), mean[i] = new_floats(N), rstd[i] = new_floats(N);
        dx[i] = new_noise(N * C, 5, 1), dgain[i] = new_noise(C, 6, 1),
        dbias[i] = new_noise(C, 7, 1);
        kernels[i]->layers->layernorm_forward(N, C, 1e-2f, x, gain, bias, y[i], mean[i],
                                              rstd[i]);
        kernels[i]->layers->layernorm_backward(N, C, x, gain, mean[0], rstd[0], dy, dx[i],
                                               dgain[i], dbias[i]);
    }
    /* the centre is known to a rounding of the offset, and rstd is at most 10 */
    double row = 32 * rounding * (10 + 10 * fabs((double)offset));
    assert_close(N, mean[1], mean[0], 4 * rounding, "mean");
    assert_close(N, rstd[1], rstd[0], row, "rstd");
    assert_close(N * C, y[1], y[0], row, "layernorm");
    assert_close(N * C, dx[1], dx[0], 10 * row, "dx"); /* once more times rstd */
    assert_close(C, dgain[1], dgain[0], row * (double)N, "dgain");
    assert_close(C, dbias[1], dbias[0], rounding * (double)N, "dbias");
    float *all[] = {x,        gain,     bias,     dy,      y[0],  y[1],
                    mean[0],  mean[1],  rstd[0],  rstd[1], dx[0], dx[1],
                    dgain[0], dgain[1], dbias[0], dbias[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

/* y and dy in bfloat16: y is that of f32 rounded, and the gradients are those of f32 with dy
 * widened, but for what compilers contract at the end of a row. */
static void check_half_layernorm(const wefti_kernels *fast, int64_t N, int64_t C) {
    float *x = new_noise(N * C, 1, 1), *gain = new_noise(C, 2, 1),
          *bias = new_noise(C, 3, 1);
    float *noise = new_noise(N * C, 4, 1), *y = new_floats(N * C),
          *stats = new_floats(4 * N);
    uint16_t *dy = new_halves(N * C, noise), *half = new_halves(N * C, noise);
    float *wide = new_widened(N * C, dy), *dx[2], *grads[2];
    fast->layers->layernorm_forward(N, C, 1e-2f, x, gain, bias, y, stats, stats + N);
    fast->layers->layernorm_forward_half(N, C, 1e-2f, x, gain, bias, half, stats + 2 * N,
                                         stats + 3 * N);
    assert_memory_equal(stats, stats + 2 * N, (size_t)(2 * N) * sizeof *stats);
    for (int64_t i = 0; i < N * C; i++) assert_true(half[i] == wefti_bf16(y[i]));
    for (int i = 0; i < 2; i++)
        dx[i] = new_noise(N * C, 5, 1), grads[i] = new_noise(2 * C, 6, 1);
    fast->layers->layernorm_backward(N, C, x, gain, stats, stats + N, wide, dx[0],
                                     grads[0], grads[0] + C);
    fast->layers->layernorm_backward_half(N, C, x, gain, stats, stats + N, dy, dx[1],
                                          grads[1], grads[1] + C);
    assert_close(N * C, dx[1], dx[0], 320 * rounding, "dx of a half");
    assert_close(2 * C, grads[1], grads[0], rounding * (double)N,
                 "gain and bias of a half");
    float *all[] = {x,    gain,  bias,  noise,    y,       stats,
                    wide, dx[0], dx[1], grads[0], grads[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
    free(dy), free(half);
}

/* The sums for the parameters have one order, however many threads there are and however few
 * columns fit into the kernel's room. */
static void check_order_of_layernorm(int64_t N, int64_t C) {
    float *x = new_noise(N * C, 1, 1), *gain = new_noise(C, 2, 1),
          *dy = new_noise(N * C, 3, 1);
    float *stats = new_noise(2 * N, 4, 1), *before = new_noise(2 * C, 6, 1), *dx[2],
          *grads[2];
    float *law = new_noise(N * C, 5, 1), *sums = new_noise(2 * C, 6, 1);
    ref->layers->layernorm_backward(N, C, x, gain, stats, stats + N, dy, law, sums,
                                    sums + C);
    for (const char *const *name = test_kernels_names(); *name != NULL; name++) {
        const wefti_kernels *fast = test_kernels_find(*name);
        for (int i = 0; i < 2; i++) {
            wefti_kernels_set_threads(1 + 2 * i);
            dx[i] = new_noise(N * C, 5, 1), grads[i] = new_noise(2 * C, 6, 1);
            fast->layers->layernorm_backward(N, C, x, gain, stats, stats + N, dy, dx[i],
                                             grads[i], grads[i] + C);
        }
        assert_memory_equal(dx[0], dx[1], (size_t)(N * C) * sizeof(float));
        assert_memory_equal(grads[0], grads[1], (size_t)(2 * C) * sizeof(float));
        assert_close(N * C, dx[0], law, rounding * (double)C, "dx");
        assert_close(2 * C, grads[0], sums, rounding * (double)N, "gain and bias");
        for (int64_t c = 0; strcmp(*name, "reference") != 0 && c < C; c += C / 3 + 1) {
            float sum = 0, all = before[C + c];
            for (int64_t n = 0; n < N; n++) {
                sum += dy[n * C + c];
                if (n % 16 < 15 && n < N - 1) continue;
                all += sum, sum = 0;
            }
            assert_true(all == grads[0][C + c]);
        }
        for (int i = 0; i < 2; i++) free(dx[i]), free(grads[i]);
    }
    wefti_kernels_set_threads(1);
    free(x), free(gain), free(dy), free(stats), free(before);
    free(law), free(sums);
}

TEST(gradients_of_norms_have_one_order) {
    check_order_of_layernorm(2100, 37);
    check_order_of_layernorm(130, 1500);
    check_order_of_layernorm(37, 33000);
}

static void check_rmsnorm(const wefti_kernels *fast, int64_t N, int64_t C, int64_t gap) {
    int64_t ld = C + gap, n = N * ld;
    float *x = new_noise(n, 1, 1), *gain = new_noise(C, 2, 1), *dy[2], *y[2], *rstd[2],
          *dgain[2];
    const wefti_kernels *kernels[2] = {ref, fast};
    for (int i = 0; i < 2; i++) {
        y[i] = new_copy(n, x), rstd[i] = new_floats(N), dgain[i] = new_noise(C, 3, 1);
        dy[i] = new_noise(n, 4, 1);
        kernels[i]->layers->rmsnorm_forward(N, C, ld, 1e-2f, y[i], gain, y[i],
                                            rstd[i]); /* in place */
        kernels[i]->layers->rmsnorm_backward(N, C, ld, x, gain, rstd[0], dy[i], dy[i],
                                             dgain[i]);
    }
    double row = 32 * rounding * 10; /* rstd is at most 10 */
    assert_close(N, rstd[1], rstd[0], row, "rstd");
    assert_close(n, y[1], y[0], row, "rmsnorm");
    assert_close(n, dy[1], dy[0], 10 * row, "dx");
    assert_close(C, dgain[1], dgain[0], row * (double)N, "dgain");
    float *all[] = {x,    gain,    dy[0],   dy[1],    y[0],
                    y[1], rstd[0], rstd[1], dgain[0], dgain[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static void check_norms(const wefti_kernels *fast) {
    for (int i = 0; i < N_SHAPES; i++) {
        check_layernorm(fast, shapes[i].N, shapes[i].C, 0);
        check_layernorm(fast, shapes[i].N, shapes[i].C, 100);
        check_half_layernorm(fast, shapes[i].N, shapes[i].C);
        check_rmsnorm(fast, shapes[i].N, shapes[i].C, 0);
        check_rmsnorm(fast, shapes[i].N, shapes[i].C, 9);
    }
}

TEST(norms_follow_the_reference) { each_table(check_norms); }

/* The exponent is wrong by its own rounding, at most 8 in the range of the noise that
 * counts: beyond it the value or its complement vanishes. */
static const double activation_tolerance = 16 * 0x1p-24;

static void check_gelu(const wefti_kernels *fast, int64_t n) {
    float *x = new_noise(n, 1, 12), *dy = new_noise(n, 2, 1);
    float *want = new_floats(n), *got = new_copy(n, x), *dx = new_copy(n, dy);
    ref->layers->gelu_forward(n, x, want), fast->layers->gelu_forward(n, got, got);
    assert_close(n, got, want, activation_tolerance, "gelu");
    ref->layers->gelu_backward(n, x, dy, want), fast->layers->gelu_backward(n, x, dx, dx);
    assert_close(n, dx, want, activation_tolerance, "gelu_backward");
    free(x), free(dy), free(want), free(got), free(dx);
}

static void check_swiglu(const wefti_kernels *fast, int64_t N, int64_t F) {
    float *gu = new_noise(2 * N * F, 1, 12), *dy = new_noise(N * F, 2, 1);
    float *want = new_floats(2 * N * F), *got = new_floats(2 * N * F);
    ref->layers->swiglu_forward(N, F, gu, want),
        fast->layers->swiglu_forward(N, F, gu, got);
    assert_close(N * F, got, want, activation_tolerance, "swiglu");
    ref->layers->swiglu_backward(N, F, gu, dy, want),
        fast->layers->swiglu_backward(N, F, gu, dy, gu);
    assert_close(2 * N * F, gu, want, 12 * activation_tolerance, "swiglu_backward");
    free(gu), free(dy), free(want), free(got);
}

static void check_others(const wefti_kernels *fast, int64_t n) {
    float *x = new_noise(n, 1, 6), *dy = new_noise(n, 2, 2);
    float *want = new_floats(n), *got = new_floats(n);
    ref->layers->gelu_erf_forward(n, x, want), fast->layers->gelu_erf_forward(n, x, got);
    assert_close(n, got, want, activation_tolerance, "gelu_erf");
    ref->layers->gelu_erf_backward(n, x, dy, want),
        fast->layers->gelu_erf_backward(n, x, dy, got);
    assert_close(n, got, want, activation_tolerance, "gelu_erf_backward");
    ref->layers->relu_forward(n, x, want), fast->layers->relu_forward(n, x, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    ref->layers->relu_backward(n, x, dy, want),
        fast->layers->relu_backward(n, x, dy, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    ref->layers->relu2_forward(n, x, want), fast->layers->relu2_forward(n, x, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    ref->layers->relu2_backward(n, x, dy, want),
        fast->layers->relu2_backward(n, x, dy, got);
    assert_memory_equal(got, want, (size_t)n * sizeof *got);
    free(x), free(dy), free(want), free(got);
}

static void check_geglu(const wefti_kernels *fast, int64_t N, int64_t F) {
    float *gu = new_noise(N * 2 * F, 1, 3), *dy = new_noise(N * F, 2, 2);
    float *want = new_floats(N * 2 * F), *got = new_floats(N * 2 * F);
    ref->layers->geglu_forward(N, F, gu, want),
        fast->layers->geglu_forward(N, F, gu, got);
    assert_close(N * F, got, want, 4 * activation_tolerance, "geglu");
    ref->layers->geglu_backward(N, F, gu, dy, want),
        fast->layers->geglu_backward(N, F, gu, dy, gu);
    assert_close(2 * N * F, gu, want, 12 * activation_tolerance, "geglu_backward");
    free(gu), free(dy), free(want), free(got);
}

static void check_activations(const wefti_kernels *fast) {
    for (int i = 0; i < N_LENGTHS; i++) check_others(fast, lengths[i]);
    for (int i = 0; i < N_SHAPES; i++) check_geglu(fast, shapes[i].N, shapes[i].C);
    for (int i = 0; i < N_LENGTHS; i++) check_gelu(fast, lengths[i]);
    for (int i = 0; i < N_SHAPES; i++) check_swiglu(fast, shapes[i].N, shapes[i].C);
}

TEST(activations_follow_the_reference) { each_table(check_activations); }

static void check_activation_extremes(const wefti_kernels *fast) {
    float x[] = {1e30f, -1e30f, 1e3f, -1e3f, 0}, ones[] = {1, 1, 1, 1, 1}, y[5], dx[5];
    fast->layers->gelu_forward(5, x, y);
    fast->layers->gelu_backward(5, x, ones, dx);
    for (int i = 0; i < 5; i++) { /* what should be 0 is below 1e-36 of x */
        assert_true(x[i] > 0 ? y[i] == x[i] : fabsf(y[i]) <= 1e-36f * fabsf(x[i]));
        assert_true(i == 4     ? dx[i] == 0.5f
                    : x[i] > 0 ? dx[i] == 1
                               : fabsf(dx[i]) < 1e-33f);
    }
    float gu[] = {1e3f, -1e3f, 2, 2}, dy[] = {1, 1}, dgu[4];
    fast->layers->swiglu_forward(1, 2, gu, y);
    fast->layers->swiglu_backward(1, 2, gu, dy, dgu);
    assert_true(y[0] == 2e3f && fabsf(y[1]) < 1e-33f);
    assert_true(dgu[0] == 2 && fabsf(dgu[1]) < 1e-33f);
    assert_true(dgu[2] == 1e3f && fabsf(dgu[3]) < 1e-33f);
}

TEST(activations_of_extremes_are_their_limits) { each_table(check_activation_extremes); }

static void check_rope(const wefti_kernels *fast, int64_t B, int64_t T, int64_t n_heads,
                       int64_t D) {
    int64_t ld = n_heads * D + 3, n = B * T * ld;
    float *cos_sin = new_noise(T * D, 1, 1), *want = new_noise(n, 2, 1),
          *got = new_copy(n, want);
    for (int inverse = 0; inverse < 2; inverse++) {
        ref->layers->rope(B, T, n_heads, D, ld, cos_sin, inverse, want);
        fast->layers->rope(B, T, n_heads, D, ld, cos_sin, inverse, got);
        assert_close(n, got, want, 4 * (inverse + 1) * rounding, "rope");
    }
    free(cos_sin), free(want), free(got);
}

static void check_ropes(const wefti_kernels *fast) {
    check_rope(fast, 1, 1, 1, 2);
    check_rope(fast, 2, 3, 2, 6);
    check_rope(fast, 2, 17, 3, 34);
    check_rope(fast, 3, 50, 8, 64);
}

TEST(rotations_follow_the_reference) { each_table(check_ropes); }

static void check_dropout(const wefti_kernels *fast) {
    static const float rates[] = {0, 1e-4f, 0.1f, 0.7f};
    static const uint64_t firsts[] = {0, 1, 62, 1ull << 40};
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < N_LENGTHS; k++) {
            int64_t n = lengths[k];
            float *want = new_noise(n, 1, 1), *got = new_copy(n, want);
            ref->layers->dropout(n, rates[i], 0x123456789abcdefull, 5, firsts[i], want);
            fast->layers->dropout(n, rates[i], 0x123456789abcdefull, 5, firsts[i], got);
            assert_memory_equal(got, want, (size_t)n * sizeof *got);
            free(want), free(got);
        }
    }
}

TEST(dropout_is_the_reference_bit_for_bit) { each_table(check_dropout); }

static int64_t open_normals(const wefti_kernels *fast, uint64_t first, int64_t n,
                            float mean) {
    wefti_rng_run run = {0x123456789abcdefull, 7, 5, first, n};
    float *want = new_noise(n, 1, 1), *got = new_copy(n, want);
    int64_t open = 0;
    ref->layers->normals(&run, mean, 0.02f, want);
    fast->layers->normals(&run, mean, 0.02f, got);
    for (int64_t i = 0; i < n; i++) {
        if (isnan(got[i]))
            open++;
        else
            assert_memory_equal(&got[i], &want[i], sizeof *got);
    }
    free(want), free(got);
    return open;
}

/* Whole blocks, from within a block and from within a pair; and places that are so close to the
 * middle of two numbers of f32 that the kernels' own doubles lie on the other side. */
static void check_normals(const wefti_kernels *fast) {
    static const uint64_t firsts[] = {0, 1, 254, (1ull << 40) + 3};
    static const uint64_t close[] = {4171988,   9466940,   68382768, 80725954,
                                     133783126, 303139237, 371588553};
    enum { N = 1 << 17 };
    int64_t open = 0;
    for (int i = 0; i < 4; i++)
        open += open_normals(fast, firsts[i], N - i, i % 2 ? 0.5f : 0);
    assert_true(open < 4 * N / 10000);
    for (size_t i = 0; i < sizeof close / sizeof *close; i++)
        assert_int_equal(open_normals(fast, close[i], 1, 0), 1);
}

TEST(normals_are_the_reference_bit_for_bit_or_say_that_they_cannot_tell) {
    each_table(check_normals);
}
