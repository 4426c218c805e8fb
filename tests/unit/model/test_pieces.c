/* SPDX-License-Identifier: MIT */

#include "check.h"

#include <float.h>
#include <math.h>

#include "base/rng.h"
#include "model/pieces.h"
#include "reference/reference.h"

enum { N = 3, IN = 4, OUT = 5 };

static float random_at(uint64_t step, int i) {
    return (float)wefti_rng_normal(2, WEFTI_STREAM_TEST, step, (uint64_t)i);
}

static void fill(uint64_t step, int n, float *out) {
    for (int i = 0; i < n; i++) out[i] = random_at(step, i);
}

/* Sums of at most five products of numbers below 4, in float. */
static void assert_near(float a, double b) {
    assert_true(fabs((double)a - b) <= 5 * 16 * (double)FLT_EPSILON);
}

static float weight(const wefti_linear *l, int in, int out) {
    return l->in_out ? l->w[in * OUT + out] : l->w[out * IN + in];
}

static float weight_gradient(const wefti_linear *l, int in, int out) {
    return l->in_out ? l->dw[in * OUT + out] : l->dw[out * IN + in];
}

static void assert_linear(bool in_out, bool biased) {
    float x[N * IN], w[IN * OUT], b[OUT], y[N * OUT], dx[N * IN], dw[IN * OUT], db[OUT];
    float dy[N * OUT];
    wefti_linear l = {.N = N,
                      .in = IN,
                      .out = OUT,
                      .in_out = in_out,
                      .w = w,
                      .b = biased ? b : NULL,
                      .dw = dw,
                      .db = db};
    fill(0, N * IN, x);
    fill(1, IN * OUT, w);
    fill(2, OUT, b);
    fill(3, N * OUT, dy);
    for (int i = 0; i < IN * OUT; i++) dw[i] = 1; /* added to */
    for (int i = 0; i < OUT; i++) db[i] = 1;
    wefti_linear_forward(&wefti_kernels_reference, &l, x, y);
    wefti_linear_backward(&wefti_kernels_reference, &l, x, dy, dx);
    for (int n = 0; n < N; n++) {
        for (int o = 0; o < OUT; o++) {
            double sum = biased ? (double)b[o] : 0;
            for (int i = 0; i < IN; i++)
                sum += (double)x[n * IN + i] * (double)weight(&l, i, o);
            assert_near(y[n * OUT + o], sum);
        }
        for (int i = 0; i < IN; i++) {
            double sum = 0;
            for (int o = 0; o < OUT; o++)
                sum += (double)dy[n * OUT + o] * (double)weight(&l, i, o);
            assert_near(dx[n * IN + i], sum);
        }
    }
    for (int o = 0; o < OUT; o++) {
        double sum_b = 1;
        for (int n = 0; n < N; n++) sum_b += (double)dy[n * OUT + o];
        assert_near(db[o], biased ? sum_b : 1);
        for (int i = 0; i < IN; i++) {
            double sum = 1;
            for (int n = 0; n < N; n++)
                sum += (double)x[n * IN + i] * (double)dy[n * OUT + o];
            assert_near(weight_gradient(&l, i, o), sum);
        }
    }
}

TEST(linear_multiplies_by_either_layout) {
    assert_linear(true, true);
    assert_linear(true, false);
    assert_linear(false, true);
    assert_linear(false, false);
}

TEST(linear_gradient_may_take_the_place_of_x) {
    float x[N * IN], w[IN * OUT], dy[N * OUT], dx[N * IN], dw[2][IN * OUT] = {{0}};
    wefti_linear l = {.N = N, .in = IN, .out = OUT, .w = w, .dw = dw[0]};
    fill(0, N * IN, x);
    fill(1, IN * OUT, w);
    fill(3, N * OUT, dy);
    wefti_linear_backward(&wefti_kernels_reference, &l, x, dy, dx);
    l.dw = dw[1];
    wefti_linear_backward(&wefti_kernels_reference, &l, x, dy, x);
    assert_memory_equal(x, dx, sizeof x);
    assert_memory_equal(dw[0], dw[1], sizeof dw[0]);
}

enum { B = 2, T = 8, C = 16, FLOATS = B * T * C };

/* The masks of ones, at one place of one pass. */
static void mask(int unit, wefti_drop_site site, uint64_t step, float *x) {
    weft_model model = {.n_units = 3, .config = {.width = C, .dropout = 0.5}};
    wefti_pass pass = {.kernels = &wefti_kernels_reference,
                       .B = B,
                       .T = T,
                       .training = true,
                       .seed = 1,
                       .step = step};
    for (int i = 0; i < FLOATS; i++) x[i] = 1;
    wefti_drop(&model, unit, site, &pass, x);
}

TEST(every_place_of_every_step_has_a_mask_of_its_own) {
    enum { PLACES = 3 * WEFTI_DROP_SITES * 2 };
    float masks[PLACES][FLOATS];
    int n = 0;
    for (uint64_t step = 0; step < 2; step++)
        for (int unit = 0; unit < 3; unit++)
            for (int site = 0; site < WEFTI_DROP_SITES; site++)
                mask(unit, (wefti_drop_site)site, step, masks[n++]);
    for (int i = 0; i < PLACES; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(masks[i], masks[j], sizeof masks[i]);
}

TEST(a_gradient_meets_the_mask_of_its_forward) {
    float y[FLOATS], dy[FLOATS], copy[FLOATS];
    weft_model model = {.n_units = 3, .config = {.width = C, .dropout = 0.5}};
    wefti_pass pass = {.kernels = &wefti_kernels_reference,
                       .B = B,
                       .T = T,
                       .training = true,
                       .seed = 1,
                       .step = 4,
                       .row = 9,
                       .dy = dy};
    for (int i = 0; i < FLOATS; i++) y[i] = dy[i] = 1;
    wefti_drop(&model, 1, WEFTI_DROP_SECOND, &pass, y);
    const float *d = wefti_drop_gradient(&model, 1, WEFTI_DROP_SECOND, &pass, copy);
    assert_ptr_equal(d, copy);
    assert_memory_equal(d, y, sizeof y);
    int zeros = 0;
    for (int i = 0; i < FLOATS; i++) {
        zeros += y[i] == 0;
        assert_true(dy[i] == 1);
    }
    assert_true(zeros > 0 && zeros < FLOATS);
}

TEST(without_dropout_a_gradient_is_not_copied) {
    float dy[FLOATS] = {0}, copy[FLOATS];
    weft_model model = {.n_units = 3, .config = {.width = C}};
    wefti_pass pass = {
        .kernels = &wefti_kernels_reference, .B = B, .T = T, .training = true, .dy = dy};
    assert_ptr_equal(wefti_drop_gradient(&model, 1, WEFTI_DROP_FIRST, &pass, copy), dy);
    model.config.dropout = 0.5;
    pass.training = false;
    assert_ptr_equal(wefti_drop_gradient(&model, 1, WEFTI_DROP_FIRST, &pass, copy), dy);
}

/* x as matrix number i of a side reads it. */
static void drop_as(const wefti_linear_side *side, int i, const float *x, float *out) {
    memcpy(out, x, N * IN * sizeof *x);
    wefti_kernels_reference.layers->dropout(N * IN, side->rate, side->seed,
                                            side->step + (uint64_t)i, side->first, out);
}

/* Of the matrices with rows 0 and 1, 2, 3 and 4 the second has no adapter. Each other one is a
 * product of its own with a mask of its own: y = drop_i(x) D_i^T, dD_i = dy_i^T drop_i(x),
 * dx = sum over i of drop_i(dy_i D_i). */
TEST(matrices_beside_each_other_have_masks_of_their_own) {
    static const wefti_param matrices[] = {
        {.rows = 2, .cols = IN}, {.rows = 1, .cols = IN}, {.rows = 2, .cols = IN}};
    static const bool has[] = {true, false, true};
    static const int begins[] = {0, 2, 3, OUT};
    float x[N * IN], zero[IN * OUT] = {0}, d[IN * OUT], y[N * OUT], dy[N * OUT];
    float dx[N * IN], dw[IN * OUT] = {0}, room[N * IN], seen[3][N * IN], kept[3][N * IN];
    float ones[N * IN];
    wefti_linear_side side = {.w = d,
                              .matrices = matrices,
                              .has = has,
                              .rate = 0.5f,
                              .seed = 7,
                              .step = 30,
                              .first = 12,
                              .room = room};
    wefti_linear l = {.N = N, .in = IN, .out = OUT, .w = zero, .dw = dw, .side = side};
    fill(0, N * IN, x);
    fill(1, IN * OUT, d);
    fill(3, N * OUT, dy);
    for (int i = 0; i < N * IN; i++) ones[i] = 1;
    for (int i = 0; i < 3; i++) {
        drop_as(&side, i, x, seen[i]);
        drop_as(&side, i, ones, kept[i]);
    }
    assert_memory_not_equal(kept[0], kept[2], sizeof ones);
    wefti_linear_forward(&wefti_kernels_reference, &l, x, y);
    wefti_linear_backward(&wefti_kernels_reference, &l, x, dy, dx);
    double back[N * IN] = {0};
    for (int m = 0; m < 3; m++)
        for (int o = begins[m]; o < begins[m + 1]; o++) {
            double gradient[IN] = {0};
            for (int n = 0; n < N; n++) {
                double sum = 0, from = (double)dy[n * OUT + o];
                for (int i = 0; i < IN && has[m]; i++) {
                    double input = (double)seen[m][n * IN + i],
                           product = (double)d[o * IN + i];
                    sum += input * product;
                    gradient[i] += input * from;
                    back[n * IN + i] += (double)kept[m][n * IN + i] * from * product;
                }
                assert_near(y[n * OUT + o], sum);
            }
            for (int i = 0; i < IN; i++) assert_near(dw[o * IN + i], gradient[i]);
        }
    for (int i = 0; i < N * IN; i++) assert_near(dx[i], back[i]);
}

/* What is added to y is added once, whether or not the product has a kernel that adds it: with few
 * terms, with more than a mixed product takes, and in f32. */
TEST(what_a_branch_is_added_to_is_added_once) {
    static const int64_t terms[] = {7, WEFTI_MIXED_TERMS, WEFTI_MIXED_TERMS + 1};
    float plus[2 * 3], with[2 * 3], without[2 * 3];
    fill(2, 2 * 3, plus);
    for (int i = 0; i < 3; i++) {
        int n = (int)terms[i] * 3;
        float *x = calloc((size_t)terms[i] * 2, sizeof *x);
        float *w = calloc((size_t)terms[i] * 3, sizeof *w);
        fill(0, n / 3 * 2, x);
        fill(1, n, w);
        wefti_linear l = {.N = 2, .in = terms[i], .out = 3, .w = w};
        for (int half = 0; half < 2; half++) {
            const wefti_kernels *fast = test_kernels_find(NULL),
                                *k = half ? fast->bf16 : fast;
            l.plus = NULL;
            wefti_linear_forward(k, &l, x, without);
            l.plus = plus;
            wefti_linear_forward(k, &l, x, with);
            for (int j = 0; j < 2 * 3; j++)
                assert_true(fabsf(with[j] - without[j] - plus[j]) <=
                            4 * FLT_EPSILON * (fabsf(without[j]) + fabsf(plus[j])));
        }
        free(x), free(w);
    }
}
