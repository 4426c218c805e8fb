/* SPDX-License-Identifier: MIT */
/* The optimizers' kernels: the reference by hand, the fast tables against the reference,
 * and what must not depend on the number of threads. */
#include "helpers.h"
#include "reference/reference.h"

static const wefti_kernels *const ref = &wefti_kernels_reference;

/* Below, at and beside the lanes of a vector, a segment and a run of the fast tables; the
 * last one is large enough for three threads. */
enum { LARGEST = 70001 };
static const int64_t lengths[] = {1, 3, 15, 16, 17, 64, 1000, LARGEST};
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

/* -- the reference, in numbers that are exact in f32 -- */

TEST(adam_by_hand_with_decoupled_decay) {
    wefti_adam_step s = {.lr = 0.5f,
                         .beta1 = 0.75f,
                         .beta2 = 0.5f,
                         .decoupled_decay = 0.25f,
                         .correction1 = 0.25f,
                         .correction2 = 0.5f,
                         .grad_scale = 2};
    float g[] = {3, -4}, p[] = {8, 8}, m[2] = {0}, v[2] = {0};
    double moved = ref->adam(2, &s, g, p, m, v);
    assert_true(moved == 1.5 * 1.5 + 0.5 * 0.5);
    assert_true(p[0] == 8 * 0.875f - 0.5f && p[1] == 8 * 0.875f + 0.5f);
    assert_true(m[0] == 1.5f && v[0] == 18 && m[1] == -2 && v[1] == 32);
}

TEST(adam_by_hand_with_coupled_decay) {
    wefti_adam_step s = {.lr = 0.5f,
                         .beta1 = 0.75f,
                         .beta2 = 0.5f,
                         .coupled_decay = 0.25f,
                         .correction1 = 0.25f,
                         .correction2 = 0.5f,
                         .grad_scale = 2};
    float g[] = {3, -1}, p[] = {8, 8}, m[2] = {0}, v[2] = {0}; /* g' = 8 and 0 */
    s.eps = 8;
    double moved = ref->adam(2, &s, g, p, m, v);
    assert_true(moved == 0.25 * 0.25); /* 0.5 * 8 / (8 + 8) */
    assert_true(p[0] == 7.75f && p[1] == 8);
    assert_true(m[0] == 2 && v[0] == 32 && m[1] == 0 && v[1] == 0);
}

static const wefti_adam_step plain = {.lr = 0.5f,
                                      .beta1 = 0.5f,
                                      .beta2 = 0.75f,
                                      .correction1 = 0.5f,
                                      .correction2 = 0.25f,
                                      .grad_scale = 2};

TEST(a_period_of_two_by_hand) {
    wefti_accum_step s = {.adam = plain, .share = 0.5f, .opens = true};
    float g = 4, p = 8, m = 0, v = 0, a = NAN; /* what a held does not count */
    double moved = ref->accum_adam(1, &s, &g, &p, &m, &v, &a);
    assert_true(moved == 0.25 && p == 7.5f); /* g' = 8, m' = 4, v' = 16 */
    assert_true(a == 4 && m == 0 && v == 0);
    s.opens = false, s.closes = true, s.adam.coupled_decay = 1;
    g = 0; /* g' = p = 7.5 */
    moved = ref->accum_adam(1, &s, &g, &p, &m, &v, &a);
    assert_true(moved == 0.25 && p == 7);
    assert_true(m == 0.5f * 0.5f * 7.75f && v == 0.75f * 0.25f * 7.75f * 7.75f && a == 0);
}

TEST(a_step_inside_a_period_by_hand) {
    wefti_accum_step s = {.adam = plain, .share = 0.25f};
    float g = 2, p = 8, m = 2, v = 12, a = 3; /* g' = 4, m' = 4, v' = 16 */
    double moved = ref->accum_adam(1, &s, &g, &p, &m, &v, &a);
    assert_true(moved == 0.25 && p == 7.5f && m == 2 && v == 12 && a == 4);
}

TEST(a_period_of_one_by_hand) {
    wefti_accum_step s = {.adam = plain, .share = 1, .opens = true, .closes = true};
    s.adam.decoupled_decay = 0.25f;
    float g = 2, p = 8, m = 2, v = 12, a = NAN; /* m' = 4, v' = 16 */
    double moved = ref->accum_adam(1, &s, &g, &p, &m, &v, &a);
    assert_true(moved == 1.5 * 1.5 && p == 6.5f); /* 0.5 (0.25 * 8 + 8/8) */
    assert_true(m == 2 && v == 12 && isnan(a));
}

TEST(sgd_by_hand) {
    float d[] = {4, -2}, p[] = {2, 8};
    double moved = ref->sgd(2, 0.25f, 0.5f, 1.0f, d, p);
    assert_true(p[0] == 1.0f && p[1] == 6.25f);
    assert_true(moved == 1 + 1.75 * 1.75);
}

/* -- the fast tables -- */

enum { G, P, M, V, A, ARRAYS };

static float *noise[ARRAYS]; /* [LARGEST] */

/* Gradient, parameters, moments and accumulated gradient of a step somewhere in a run. */
static int make_noise(void **state) {
    static const double spread[ARRAYS] = {1, 1, 0.1, 0.1, 0.5};
    for (int i = 0; i < ARRAYS; i++)
        noise[i] = new_noise(LARGEST, 1 + (uint64_t)i, spread[i]);
    for (int64_t i = 0; i < LARGEST; i++) noise[V][i] = fabsf(noise[V][i]) + 1e-3f;
    return 0;
}

static int free_noise(void **state) {
    for (int i = 0; i < ARRAYS; i++) free(noise[i]);
    return 0;
}

static void new_arrays(int64_t n, float *x[ARRAYS]) {
    for (int i = 0; i < ARRAYS; i++) x[i] = new_copy(n, noise[i]);
}

static void free_arrays(float *x[ARRAYS]) {
    for (int i = 0; i < ARRAYS; i++) free(x[i]);
}

static const wefti_adam_step both_decays = {.lr = 0.01f,
                                            .beta1 = 0.9f,
                                            .beta2 = 0.95f,
                                            .eps = 1e-8f,
                                            .coupled_decay = 0.3f,
                                            .decoupled_decay = 0.1f,
                                            .correction1 = 0.271f,
                                            .correction2 = 0.142625f,
                                            .grad_scale = 0.7f};

/* The four places of a step in its period, and Adam. */
enum { INSIDE, OPENS, CLOSES, SINGLE, ADAM, SGD, KINDS };

static double step(const wefti_kernels *kernels, int kind, int64_t n, float *x[ARRAYS]) {
    wefti_accum_step s = {.adam = both_decays,
                          .share = kind == SINGLE ? 1 : 0.25f,
                          .opens = kind == OPENS || kind == SINGLE,
                          .closes = kind == CLOSES || kind == SINGLE};
    if (kind == SGD) return kernels->sgd(n, 0.1f, 0.5f, 0.2f, x[G], x[P]);
    if (kind == ADAM) return kernels->adam(n, &s.adam, x[G], x[P], x[M], x[V]);
    return kernels->accum_adam(n, &s, x[G], x[P], x[M], x[V], x[A]);
}

/* A step is wrong by some roundings of itself (the square root and quotient of rounded
 * moments), a parameter by one rounding more. */
static void check_step(const wefti_kernels *fast, int kind, int64_t n) {
    static const char *const names[ARRAYS] = {"g", "p", "m", "v", "a"};
    float *want[ARRAYS], *got[ARRAYS];
    new_arrays(n, want), new_arrays(n, got);
    double moved = step(ref, kind, n, want), moved2 = step(fast, kind, n, got);
    for (int i = 0; i < ARRAYS; i++)
        assert_close(n, got[i], want[i], 2 * rounding, names[i]);
    assert_true(fabs(moved2 - moved) <= 64 * rounding * moved);
    free_arrays(want), free_arrays(got);
}

static void check_steps(const wefti_kernels *fast) {
    for (int i = 0; i < N_LENGTHS; i++)
        for (int kind = 0; kind < KINDS; kind++) check_step(fast, kind, lengths[i]);
}

TEST(every_step_follows_the_reference) { each_table(check_steps); }

/* What is not to be read may be anything, what is not to be written stays. */
static void check_hands_off(const wefti_kernels *fast) {
    enum { N = 1000 };
    for (int kind = 0; kind < KINDS; kind++) {
        float *before[ARRAYS], *x[ARRAYS];
        new_arrays(N, before), new_arrays(N, x);
        bool reads_a = kind == INSIDE || kind == CLOSES;
        for (int i = 0; i < N && !reads_a; i++) x[A][i] = before[A][i] = NAN;
        step(fast, kind, N, x);
        assert_memory_equal(x[G], before[G], N * sizeof(float));
        if (kind == INSIDE || kind == OPENS || kind == SGD) {
            assert_memory_equal(x[M], before[M], N * sizeof(float));
            assert_memory_equal(x[V], before[V], N * sizeof(float));
        }
        if (kind == SINGLE || kind == ADAM || kind == SGD)
            assert_memory_equal(x[A], before[A], N * sizeof(float));
        for (int i = 0; i < N; i++) {
            assert_true(isfinite(x[P][i]) && isfinite(x[M][i]) && isfinite(x[V][i]));
            assert_true(kind != CLOSES || x[A][i] == 0);
            assert_true(kind != OPENS || isfinite(x[A][i]));
        }
        free_arrays(before), free_arrays(x);
    }
}

TEST(a_step_leaves_alone_what_is_not_its_own) {
    each_table(check_hands_off);
    check_hands_off(ref);
}

TEST(nothing_depends_on_the_thread_count) {
    enum { N = LARGEST };
    for (const char *const *name = test_kernels_names(); *name != NULL; name++) {
        for (int kind = 0; kind < KINDS; kind++) {
            float *one[ARRAYS], *three[ARRAYS];
            new_arrays(N, one), new_arrays(N, three);
            wefti_kernels_set_threads(1);
            double moved = step(test_kernels_find(*name), kind, N, one);
            wefti_kernels_set_threads(3);
            assert_true(moved == step(test_kernels_find(*name), kind, N, three));
            for (int i = 0; i < ARRAYS; i++)
                assert_memory_equal(one[i], three[i], N * sizeof(float));
            free_arrays(one), free_arrays(three);
        }
    }
    wefti_kernels_set_threads(1);
}

int main(void) { return check_run(make_noise, free_noise); }
