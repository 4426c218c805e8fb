/* SPDX-License-Identifier: MIT */
/* The reference kernels against their definitions: each backward against central
 * differences of its forward, and what is stored, added and left alone. */
#include "helpers.h"
#include "reference/reference.h"

static const wefti_kernels *const ref = &wefti_kernels_reference;

/* A scalar function of the floats that `check_gradient` moves. */
typedef double (*loss_fn)(void *problem);

/* Five-point differences with h = 1/32: truncation h^4/30 = 3e-8 of the fifth derivative;
 * each of the at most 64 outputs that an input moves is rounded to 2^-24, which the
 * formula multiplies by 1.5/h = 48: 64 * 48 * 6e-8 = 1.9e-4 at most. */
static const double gradient_tolerance = 2e-4;

static void check_gradient(loss_fn loss, void *problem, int64_t n, float *x,
                           const float *grad) {
    static const double weight[] = {1.0 / 12, -8.0 / 12, 0, 8.0 / 12, -1.0 / 12};
    const float h = 1.0f / 32;
    for (int64_t i = 0; i < n; i++) {
        float old = x[i];
        double slope = 0;
        for (int k = -2; k <= 2; k++) {
            if (k == 0) continue;
            x[i] = old + (float)k * h;
            slope += weight[k + 2] * loss(problem) / (double)h;
        }
        x[i] = old;
        double scale = 1 + fabs(slope);
        if (fabs(slope - (double)grad[i]) > gradient_tolerance * scale)
            fail_msg("element %d: slope %g, gradient %g", (int)i, slope, (double)grad[i]);
    }
}

static double weighted(int64_t n, const float *weight, const float *y) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)weight[i] * (double)y[i];
    return sum;
}

/* Everything that the small problems below need; each uses what it names. */
typedef struct problem {
    int64_t N, C, ld;
    float *x, *gain, *bias, *y, *mean, *rstd, *dy;
} problem;

static problem make_problem(int64_t N, int64_t C, int64_t ld) {
    problem p = {.N = N, .C = C, .ld = ld};
    p.x = new_noise(N * ld, 1, 1.5);
    p.gain = new_noise(C, 2, 1);
    p.bias = new_noise(C, 3, 1);
    p.dy = new_noise(N * ld, 4, 1);
    p.y = new_floats(N * ld);
    p.mean = new_floats(N);
    p.rstd = new_floats(N);
    return p;
}

static void free_problem(problem *p) {
    float *all[] = {p->x, p->gain, p->bias, p->dy, p->y, p->mean, p->rstd};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

static double layernorm_loss(void *problem_) {
    problem *p = problem_;
    ref->layers->layernorm_forward(p->N, p->C, 0.5f, p->x, p->gain, p->bias, p->y,
                                   p->mean, p->rstd);
    return weighted(p->N * p->C, p->dy, p->y);
}

TEST(layernorm_backward_is_the_slope_of_forward) {
    problem p = make_problem(3, 5, 5);
    float *dx = new_floats(15), *dgain = new_floats(5), *dbias = new_floats(5);
    layernorm_loss(&p);
    ref->layers->layernorm_backward(3, 5, p.x, p.gain, p.mean, p.rstd, p.dy, dx, dgain,
                                    dbias);
    check_gradient(layernorm_loss, &p, 15, p.x, dx);
    check_gradient(layernorm_loss, &p, 5, p.gain, dgain);
    check_gradient(layernorm_loss, &p, 5, p.bias, dbias);
    layernorm_loss(&p);
    float once = dx[7];
    ref->layers->layernorm_backward(3, 5, p.x, p.gain, p.mean, p.rstd, p.dy, dx, dgain,
                                    dbias);
    assert_float_equal(dx[7], 2 * once, 1e-6f); /* added, not stored */
    free(dx), free(dgain), free(dbias), free_problem(&p);
}

static double rmsnorm_loss(void *problem_) {
    problem *p = problem_;
    ref->layers->rmsnorm_forward(p->N, p->C, p->ld, 0.5f, p->x, p->gain, p->y, p->rstd);
    return weighted(p->N * p->ld, p->dy, p->y);
}

TEST(rmsnorm_backward_is_the_slope_of_forward) {
    problem p = make_problem(3, 5, 8);
    float *dx = new_noise(24, 9, 1), *dgain = new_floats(5), outside = dx[5];
    rmsnorm_loss(&p);
    ref->layers->rmsnorm_backward(3, 5, 8, p.x, p.gain, p.rstd, p.dy, dx, dgain);
    assert_true(dx[5] == outside); /* only C columns of each row are written */
    for (int n = 0; n < 3; n++)
        for (int c = 5; c < 8; c++) dx[n * 8 + c] = 0;
    check_gradient(rmsnorm_loss, &p, 24, p.x, dx);
    check_gradient(rmsnorm_loss, &p, 5, p.gain, dgain);
    free(dx), free(dgain), free_problem(&p);
}

static double gelu_loss(void *problem_) {
    problem *p = problem_;
    ref->layers->gelu_forward(p->N * p->C, p->x, p->y);
    return weighted(p->N * p->C, p->dy, p->y);
}

static double swiglu_loss(void *problem_) {
    problem *p = problem_;
    ref->layers->swiglu_forward(p->N, p->C / 2, p->x, p->y);
    return weighted(p->N * p->C / 2, p->dy, p->y);
}

TEST(activation_backwards_are_the_slopes_of_forward) {
    problem p = make_problem(6, 6, 6);
    float *dx = new_floats(36);
    ref->layers->gelu_backward(36, p.x, p.dy, dx);
    check_gradient(gelu_loss, &p, 36, p.x, dx);
    ref->layers->swiglu_backward(6, 3, p.x, p.dy, dx);
    check_gradient(swiglu_loss, &p, 36, p.x, dx);
    free(dx), free_problem(&p);
}

typedef struct attention_problem {
    wefti_attention_shape s;
    float *q, *k, *v, *o, *lse, *dy, *scratch;
} attention_problem;

static double attention_loss(void *problem_) {
    attention_problem *p = problem_;
    ref->layers->attention_forward(&p->s, p->q, p->k, p->v, p->o, p->lse, p->scratch);
    return weighted(p->s.B * p->s.T * p->s.ld_o, p->dy, p->o);
}

TEST(attention_backward_is_the_slope_of_forward) {
    wefti_attention_shape s = {.B = 2,
                               .T = 5,
                               .H = 4,
                               .K = 2,
                               .D = 3,
                               .ld_q = 13,
                               .ld_kv = 7,
                               .ld_o = 12,
                               .scale = 0.6f};
    int64_t n = s.B * s.T, n_q = n * s.ld_q, n_kv = n * s.ld_kv;
    attention_problem p = {.s = s};
    p.q = new_noise(n_q, 1, 1), p.k = new_noise(n_kv, 2, 1), p.v = new_noise(n_kv, 3, 1);
    p.o = new_floats(n * s.ld_o), p.lse = new_floats(s.B * s.H * s.T);
    p.dy = new_noise(n * s.ld_o, 4, 1);
    p.scratch = new_floats(ref->layers->attention_scratch(&s, 1));
    float *dq = new_floats(n_q), *dk = new_floats(n_kv), *dv = new_floats(n_kv);
    attention_loss(&p);
    ref->layers->attention_backward(&s, p.q, p.k, p.v, p.o, p.lse, p.dy, dq, dk, dv,
                                    p.scratch);
    check_gradient(attention_loss, &p, n_q, p.q, dq);
    check_gradient(attention_loss, &p, n_kv, p.k, dk);
    check_gradient(attention_loss, &p, n_kv, p.v, dv);
    float *all[] = {p.q, p.k, p.v, p.o, p.lse, p.dy, p.scratch, dq, dk, dv};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

TEST(attention_of_the_first_position_is_its_value) {
    wefti_attention_shape s = {.B = 1,
                               .T = 1,
                               .H = 1,
                               .K = 1,
                               .D = 2,
                               .ld_q = 2,
                               .ld_kv = 2,
                               .ld_o = 2,
                               .scale = 0.5f};
    float q[] = {1, 2}, k[] = {3, 4}, v[] = {5, 6}, o[2], lse[1], scratch[2];
    ref->layers->attention_forward(&s, q, k, v, o, lse, scratch);
    assert_true(o[0] == 5 && o[1] == 6);
    assert_true(lse[0] == 5.5f); /* 0.5 (3 + 8) */
}

typedef struct head_problem {
    int64_t N, C, V;
    float *x, *w, *scratch;
    int32_t target[4];
} head_problem;

static double head_loss(void *problem_) {
    head_problem *p = problem_;
    double loss = 0;
    ref->layers->head_loss(p->N, p->C, p->V, p->x, p->w, p->target, 0, 1, &loss, NULL,
                           NULL, false, p->scratch);
    return 3 * loss;
}

TEST(head_gradients_are_the_slope_of_the_loss) {
    head_problem p = {.N = 4, .C = 3, .V = 6, .target = {5, -1, 0, 2}};
    p.x = new_noise(12, 1, 1), p.w = new_noise(18, 2, 1);
    p.scratch = new_floats(ref->layers->head_scratch(4, 6, 1));
    float *dx = new_noise(12, 3, 1), *dw = new_floats(18);
    double loss = 10;
    ref->layers->head_loss(4, 3, 6, p.x, p.w, p.target, 0, 3, &loss, dx, dw, false,
                           p.scratch);
    assert_true(fabs(3 * (loss - 10) - head_loss(&p)) < 1e-12);
    check_gradient(head_loss, &p, 12, p.x, dx);
    check_gradient(head_loss, &p, 18, p.w, dw);
    free(p.x), free(p.w), free(p.scratch), free(dx), free(dw);
}

TEST(head_loss_of_equal_logits_is_log_of_the_vocabulary) {
    float x[] = {0, 1e4f}, w[] = {1, 1, 1, 1, 1, 1}, scratch[3];
    int32_t target[] = {1};
    double loss = 0;
    ref->layers->head_loss(1, 2, 3, x, w, target, 0, 1, &loss, NULL, NULL, false,
                           scratch);
    assert_true(fabs(loss - log(3)) <
                1e-11); /* log(sum) + 1e4 - 1e4: 1e4 * 2^-52 * few */
}

TEST(rope_inverse_undoes_rope) {
    enum { B = 2, T = 3, HEADS = 2, D = 4, LD = 9 };
    float cos_sin[T * D], *x = new_noise(B * T * LD, 1, 1),
                          *old = new_copy(B * T * LD, x);
    for (int t = 0; t < T; t++) {
        for (int i = 0; i < D / 2; i++) {
            cos_sin[t * D + i] = (float)cos(t * pow(0.1, i));
            cos_sin[t * D + D / 2 + i] = (float)sin(t * pow(0.1, i));
        }
    }
    ref->layers->rope(B, T, HEADS, D, LD, cos_sin, false, x);
    float a = old[LD], b = old[LD + 2], c = cos_sin[D], s = cos_sin[D + 2];
    assert_float_equal(x[LD], a * c - b * s, 1e-6f);
    assert_float_equal(x[LD + 2], b * c + a * s, 1e-6f);
    ref->layers->rope(B, T, HEADS, D, LD, cos_sin, true, x);
    for (int i = 0; i < B * T * LD; i++) assert_float_equal(x[i], old[i], 1e-6f);
    free(x), free(old);
}

TEST(dropout_keeps_its_share_and_depends_on_index_only) {
    enum { N = 20000 };
    float *x = new_floats(N), *part = new_floats(N);
    int64_t kept = 0;
    for (int i = 0; i < N; i++) x[i] = part[i] = 1;
    ref->layers->dropout(N, 0.25f, 7, 3, 0, x);
    for (int i = 0; i < N; i++) {
        assert_true(x[i] == 0 || fabsf(x[i] - 4.0f / 3) < 1e-6f);
        kept += x[i] != 0;
    }
    assert_true(llabs(kept - 15000) < 5 * 62); /* five of sqrt(N 0.25 0.75) */
    ref->layers->dropout(100, 0.25f, 7, 3, 333, part);
    assert_memory_equal(part, x + 333, 100 * sizeof *x);
    free(x), free(part);
}

TEST(gemm_follows_its_definition) {
    float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 2, 1, 0, 3}, c[4], nan = (float)NAN;
    for (int i = 0; i < 4; i++) c[i] = nan;                   /* beta = 0 ignores it */
    ref->gemm(false, false, 2, 2, 3, 2, a, 3, b, 2, 0, c, 2); /* a 2x3, b 3x2 */
    assert_true(c[0] == 10 && c[1] == 22 && c[2] == 28 && c[3] == 46);
    ref->gemm(true, true, 2, 2, 2, 1, a, 3, b, 3, -1, c,
              2); /* a^T 3x2 cut, b^T 3x2 cut */
    assert_true(c[0] == 1 - 10 && c[1] == 1 - 22 && c[2] == 2 - 28 && c[3] == 2 - 46);
}
