/* SPDX-License-Identifier: MIT */
/* Matrix products of every table against the reference, whole buffers compared, so that
 * what lies between rows must stay as it was. */
#include "check.h"
#include "helpers.h"
#include "reference/reference.h"

#include <pthread.h>
#include <sys/mman.h>

static const wefti_kernels *const ref = &wefti_kernels_reference;

typedef struct size {
    int64_t M, N, K;
} size;

/* Terms are at most 1 in absolute value: K roundings of the running sum, which stays
 * below K/3 on average; alpha and beta add a few. */
static double product_tolerance(int64_t K) { return rounding * (4 + (double)K); }

static void check_product_of(const wefti_kernels *fast, const wefti_kernels *law, size s,
                             bool ta, bool tb, float alpha, float beta, int64_t gap) {
    int64_t lda = (ta ? s.M : s.K) + gap, ldb = (tb ? s.K : s.N) + gap, ldc = s.N + gap;
    int64_t n_c = s.M * ldc;
    float *A = new_noise((ta ? s.K : s.M) * lda, 1, 1),
          *B = new_noise((tb ? s.N : s.K) * ldb, 2, 1);
    float *want = new_noise(n_c, 3, 1), *got = new_copy(n_c, want),
          *again = new_copy(n_c, want);
    law->gemm(ta, tb, s.M, s.N, s.K, alpha, A, lda, B, ldb, beta, want, ldc);
    fast->gemm(ta, tb, s.M, s.N, s.K, alpha, A, lda, B, ldb, beta, got, ldc);
    fast->gemm(ta, tb, s.M, s.N, s.K, alpha, A, lda, B, ldb, beta, again, ldc);
    assert_close(n_c, got, want, product_tolerance(s.K), "gemm");
    assert_memory_equal(got, again, (size_t)n_c * sizeof *got);
    free(A), free(B), free(want), free(got), free(again);
}

/* And the products of rounded numbers: both sides round to the same bits. */
static void check_product(const wefti_kernels *fast, size s, bool ta, bool tb,
                          float alpha, float beta, int64_t gap) {
    check_product_of(fast, ref, s, ta, tb, alpha, beta, gap);
    check_product_of(fast->bf16, ref->bf16, s, ta, tb, alpha, beta, gap);
}

static void check_small_products(const wefti_kernels *fast) {
    static const size sizes[] = {{1, 1, 1},   {3, 17, 5},  {17, 3, 33}, {64, 65, 1},
                                 {1, 70, 40}, {2, 37, 45}, {4, 66, 91}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int form = 0; form < 4; form++) {
            check_product(fast, sizes[i], form & 1, form & 2, 1, 0, 0);
            check_product(fast, sizes[i], form & 1, form & 2, 0.5f, 1, 7);
            check_product(fast, sizes[i], form & 1, form & 2, -1, 0.25f, 3);
        }
    }
}

TEST(small_products_follow_the_reference) { each_table(check_small_products); }

/* Over 10^6 multiplications, so that threads divide rows, columns or both. */
static void check_divided_products(const wefti_kernels *fast) {
    static const size sizes[] = {{401, 33, 130},  {37, 300, 131},  {129, 129, 129},
                                 {1, 1100, 1000}, {9, 500, 390},   {130, 7, 390},
                                 {141, 790, 21},  {1060, 1030, 9}, {45, 690, 555},
                                 {33, 70, 768},   {150, 1050, 500}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i += 1 + 2 * UNDER_SANITIZER)
        for (int form = 0; form < 4; form++)
            check_product(fast, sizes[i], form & 1, form & 2, 1, 1, 2);
}

TEST(products_divided_among_threads_follow_the_reference) {
    each_table(check_divided_products);
}

TEST(many_threads_cut_a_grid_of_tiles) {
    wefti_kernels_set_threads(12);
    check_product(test_kernels_find(NULL), (size){130, 120, 90}, false, true, 1, 0, 1);
    wefti_kernels_set_threads(1);
}

TEST(beta_zero_ignores_what_was_there) {
    float a[] = {2}, b[] = {3}, c[] = {NAN};
    for (const char *const *name = test_kernels_names(); *name != NULL; name++) {
        c[0] = NAN;
        test_kernels_find(*name)->gemm(false, false, 1, 1, 1, 1, a, 1, b, 1, 0, c, 1);
        assert_true(c[0] == 6);
    }
}

/* A product of which A, B and C are bfloat16 or not, in the bits of `form`. */
static void check_mixed_form(const wefti_kernels *fast, size s, int form, float beta) {
    bool ta = form & 1, tb = form & 2, half_c = form & 16;
    const int64_t gap = 3;
    int64_t lda = (ta ? s.M : s.K) + gap, ldb = (tb ? s.K : s.N) + gap, ldc = s.N + gap;
    int64_t n_a = (ta ? s.K : s.M) * lda, n_b = (tb ? s.N : s.K) * ldb, n_c = s.M * ldc;
    float *A = new_noise(n_a, 1, 1), *B = new_noise(n_b, 2, 1), *C = new_noise(n_c, 3, 1);
    float *bias = new_noise(s.N, 4, 1);
    uint16_t *a = new_halves(n_a, A), *b = new_halves(n_b, B), *c = new_halves(n_c, C);
    uint16_t *d = new_halves(n_c, C);
    float *want = new_copy(n_c, C), *got = new_copy(n_c, C);
    wefti_mixed p = {.ta = ta,
                     .tb = tb,
                     .M = s.M,
                     .N = s.N,
                     .K = s.K,
                     .lda = lda,
                     .ldb = ldb,
                     .ldc = ldc,
                     .half_a = form & 4,
                     .half_b = form & 8,
                     .half_c = half_c};
    p.A = p.half_a ? (void *)a : A, p.B = p.half_b ? (void *)b : B;
    p.beta = half_c ? 0 : beta, p.bias = beta == 0 || ta ? bias : NULL;
    p.C = half_c ? (void *)c : want;
    ref->bf16->layers->gemm_mixed(&p);
    p.C = half_c ? (void *)d : got;
    fast->bf16->layers->gemm_mixed(&p);
    if (half_c) { /* a sum that differs in its last bits may round to the neighbour */
        free(want), free(got);
        want = new_widened(n_c, c), got = new_widened(n_c, d);
    }
    assert_close(n_c, got, want, product_tolerance(s.K) + (half_c ? 0x1p-7 : 0),
                 "gemm_mixed");
    free(A), free(B), free(C), free(bias), free(a), free(b), free(c), free(d);
    free(want), free(got);
}

static void check_mixed(const wefti_kernels *fast) {
    static const size sizes[] = {{1, 1, 1},     {17, 3, 33},   {33, 40, 100},
                                 {35, 17, 770}, {2, 690, 300}, {3, 40, 1100},
                                 {19, 97, 2}};
    assert_null(fast->layers->gemm_mixed);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int form = 0; form < 32; form++) {
            check_mixed_form(fast, sizes[i], form, 0);
            if (form < 4) check_mixed_form(fast, sizes[i], form, 1);
        }
}

TEST(products_of_numbers_in_bfloat16_follow_the_reference) { each_table(check_mixed); }

enum { SUMS, SUMS_PLUS, SUMS_TIMES, CURVES };

/* What a product stores in place of its sums has the bits of a pass over the sums in f32. */
static void check_results_of(const wefti_kernels *fast, size s, int what) {
    int64_t ldc = s.N + 3, n = s.M * ldc;
    float *A = new_noise(s.M * s.K, 1, 1), *B = new_noise(s.N * s.K, 2, 1);
    float *plus = new_noise(n, 3, 1), *bias = new_noise(s.N, 4, 1),
          *sums = new_copy(n, plus);
    float *got = new_copy(n, plus);
    uint16_t *half = new_halves(n, plus), *slopes = new_halves(n, plus);
    uint16_t *times = new_halves(n, plus);
    wefti_mixed p = {.tb = true,
                     .M = s.M,
                     .N = s.N,
                     .K = s.K,
                     .A = A,
                     .lda = s.K,
                     .B = B,
                     .ldb = s.K,
                     .C = got,
                     .ldc = ldc,
                     .bias = bias};
    float *zero = new_floats(n);
    p.C = sums, p.plus = zero; /* the same order of sums as with the others */
    fast->bf16->layers->gemm_mixed(&p);
    p.plus = what == SUMS_PLUS ? plus : NULL, p.half_c = what != SUMS_PLUS;
    p.times = what == SUMS_TIMES ? times : NULL,
    p.slopes = what == CURVES ? slopes : NULL;
    p.curve = WEFTI_CURVE_RELU, p.C = p.half_c ? (void *)half : got;
    fast->bf16->layers->gemm_mixed(&p);
    for (int64_t i = 0; i < n; i++) {
        if (i % ldc >= s.N) { /* between the rows nothing is stored */
            assert_true(got[i] == plus[i] && half[i] == times[i] &&
                        slopes[i] == times[i]);
            continue;
        }
        float factor = wefti_f32_of_bf16(times[i]), slope = sums[i] > 0 ? 1 : 0;
        float want = what == SUMS_TIMES ? sums[i] * factor
                     : what == CURVES   ? (sums[i] > 0 ? sums[i] : 0)
                                        : sums[i];
        if (what == SUMS_PLUS)
            assert_true(got[i] == sums[i] + plus[i]);
        else
            assert_true(half[i] == wefti_bf16(want));
        if (what == CURVES) assert_true(slopes[i] == wefti_bf16(slope));
    }
    free(A), free(B), free(plus), free(bias), free(sums), free(got), free(zero);
    free(half), free(slopes), free(times);
}

static void check_results(const wefti_kernels *fast) {
    static const size sizes[] = {
        {1, 1, 1}, {17, 3, 33}, {70, 690, 9}, {35, 17, 770}, {5, 400, 1500}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int what = SUMS; what <= CURVES; what++)
            check_results_of(fast, sizes[i], what);
}

TEST(results_of_products_go_on_to_what_follows) { each_table(check_results); }

/* Widened factors give the same bits as those in bfloat16, and so does another patch of C. */
TEST(stored_factors_are_those_that_products_round) {
    enum { M = 150, N = 530, K = 700 };
    float *A = new_noise(M * K, 1, 1), *B = new_noise(N * K, 2, 1);
    uint16_t *a = new_halves(M * K, A), *b = new_halves(N * K, B);
    float *plain = new_floats(M * N), *stored = new_floats(M * N);
    uint16_t *whole = new_halves(M * N, plain), *row = new_halves(N, plain);
    for (const char *const *name = test_kernels_names(); *name != NULL; name++) {
        const wefti_kernels *bf16 = test_kernels_find(*name)->bf16;
        wefti_mixed p = {.tb = true,
                         .M = M,
                         .N = N,
                         .K = K,
                         .A = a,
                         .lda = K,
                         .B = b,
                         .ldb = K,
                         .C = stored,
                         .ldc = N,
                         .half_a = true,
                         .half_b = true};
        wefti_kernels_set_threads(3);
        bf16->gemm(false, true, M, N, K, 1, A, K, B, K, 0, plain, N);
        bf16->layers->gemm_mixed(&p);
        assert_memory_equal(plain, stored, M * N * sizeof *plain);
        p.half_c = true, p.C = whole;
        bf16->layers->gemm_mixed(&p);
        wefti_kernels_set_threads(1);
        p.M = 1, p.N = N - 7, p.C = row;
        for (int64_t m = 0; m < M; m += 29) {
            p.A = a + m * K;
            bf16->layers->gemm_mixed(&p);
            assert_memory_equal(row, whole + m * N, (N - 7) * sizeof *row);
        }
    }
    free(A), free(B), free(a), free(b), free(plain), free(stored), free(whole), free(row);
}

/* Large gradients of matrices may be stored past the cache: the same bits, and nothing beside
 * them, however C begins and ends. */
static void check_large_gradient(size s, int64_t ldc, int64_t at) {
    float *A = new_noise(s.K * s.M, 1, 1), *B = new_noise(s.K * s.N, 2, 1);
    size_t bytes = (size_t)((s.M * ldc + at + 64) / 16 * 64);
    float *got = aligned_alloc(64, bytes), *want = aligned_alloc(64, bytes);
    assert_true(got && want);
    for (const char *const *name = test_kernels_names(); *name != NULL; name++) {
        const wefti_kernels *bf16 = test_kernels_find(*name)->bf16;
        wefti_mixed p = {.ta = true,
                         .M = s.M,
                         .N = s.N,
                         .K = s.K,
                         .A = A,
                         .lda = s.M,
                         .B = B,
                         .ldb = s.N,
                         .C = got + at,
                         .ldc = ldc};
        memset(got, 1, bytes), memset(want, 1, bytes);
        bf16->gemm(true, false, s.M, s.N, s.K, 1, A, s.M, B, s.N, 0, want + at, ldc);
        bf16->layers->gemm_mixed(&p);
        assert_memory_equal(got, want, bytes);
    }
    free(A), free(B), free(got), free(want);
}

TEST(large_gradients_have_the_bits_of_other_products) {
    for (int threads = 1; threads <= 3; threads++) {
        wefti_kernels_set_threads(threads);
        check_large_gradient((size){515, 528, 37}, 528, 0);
        check_large_gradient((size){515, 528, 37}, 544, 16);
        check_large_gradient((size){515, 528, 37}, 528, 3);
        check_large_gradient((size){515, 525, 37}, 525, 0);
        check_large_gradient((size){300, 1072, 513}, 1072, 0);
    }
    wefti_kernels_set_threads(1);
}

/* One product tells what an operand was rounded to: 1 x is its bfloat16. */
static float rounded(const wefti_kernels *kernels, bool left, float x) {
    float one = 1, c = NAN;
    kernels->bf16->gemm(false, false, 1, 1, 1, 1, left ? &x : &one, 1, left ? &one : &x,
                        1, 0, &c, 1);
    return c;
}

TEST(factors_become_the_nearest_bfloat16) {
    static const float cases[][2] = {{0x1.01p0f, 0x1p0f},
                                     {0x1.03p0f, 0x1.04p0f}, /* halfway: to even */
                                     {0x1.010002p0f, 0x1.02p0f},
                                     {-0x1.03p0f, -0x1.04p0f},
                                     {0x1.fep5f, 0x1.fep5f},
                                     {0x1.ffp5f, 0x1p6f},
                                     {3, 3},
                                     {0, 0},
                                     {0x1.fffffep127f, INFINITY},
                                     {-INFINITY, -INFINITY},
                                     {0x1.02p-126f, 0x1.02p-126f}};
    for (const char *const *name = test_kernels_names(); *name != NULL; name++) {
        const wefti_kernels *kernels = test_kernels_find(*name);
        bool reference = strcmp(*name, "reference") == 0;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            for (int left = 0; left < 2; left++)
                assert_true(rounded(kernels, left, cases[i][0]) == cases[i][1]);
        if (reference) continue;
        assert_true(isnan(rounded(kernels, true, NAN)));
        float nan_low_bits; /* its bits above bfloat16's say infinity */
        memcpy(&nan_low_bits, &(uint32_t){0x7f800001}, sizeof nan_low_bits);
        assert_true(isnan(rounded(kernels, false, nan_low_bits)));
    }
}

/* The sum of an element is the same whoever computes it and beside whatever. */
static void check_sums_of(int64_t M, int64_t N, int64_t K) {
    float *A = new_noise(M * K, 1, 1), *B = new_noise(N * K, 2, 1);
    float *whole = new_floats(M * N), *row = new_floats(N);
    for (const char *const *name = test_kernels_names(); *name != NULL; name++) {
        if (strcmp(*name, "reference") == 0) continue;
        const wefti_kernels *bf16 = test_kernels_find(*name)->bf16;
        wefti_kernels_set_threads(3);
        bf16->gemm(false, true, M, N, K, 1, A, K, B, K, 0, whole, N);
        wefti_kernels_set_threads(1);
        for (int64_t m = 0; m < M; m += 29) {
            bf16->gemm(false, true, 1, N - 7, K, 1, A + m * K, K, B, K, 0, row, N);
            assert_memory_equal(row, whole + m * N, (size_t)(N - 7) * sizeof *row);
        }
    }
    free(A), free(B), free(whole), free(row);
}

TEST(sums_of_rounded_numbers_depend_on_their_terms_alone) {
    check_sums_of(150, 530, 1211);
    check_sums_of(150, 730, 700); /* in one block of terms */
}

/* What one rank computes, with as many OpenMP threads as its number. */
typedef struct rank_work {
    pthread_t thread;
    int threads;
    float *A, *B, *C;
} rank_work;

enum { RANK_N = 150 };

static void *rank_main(void *work_) {
    rank_work *w = work_;
    const wefti_kernels *fast = test_kernels_find(NULL);
    wefti_kernels_set_threads(w->threads);
    for (int i = 0; i < 20; i++)
        fast->gemm(false, true, RANK_N, RANK_N, RANK_N, 1, w->A, RANK_N, w->B, RANK_N,
                   i == 0 ? 0 : 0.5f, w->C, RANK_N);
    return NULL;
}

TEST(ranks_that_are_threads_do_not_disturb_each_other) {
    enum { RANKS = 4, SQUARE = RANK_N * RANK_N };
    float *A = new_noise(SQUARE, 1, 1), *B = new_noise(SQUARE, 2, 1);
    rank_work together[RANKS], alone[RANKS];
    for (int r = 0; r < RANKS; r++) {
        together[r] = alone[r] = (rank_work){.threads = 1 + r % 3, .A = A, .B = B};
        together[r].C = new_floats(SQUARE), alone[r].C = new_floats(SQUARE);
    }
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(
            pthread_create(&together[r].thread, NULL, rank_main, &together[r]), 0);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_join(together[r].thread, NULL), 0);
    for (int r = 0; r < RANKS; r++) {
        rank_main(&alone[r]);
        assert_memory_equal(together[r].C, alone[r].C, SQUARE * sizeof(float));
        free(together[r].C), free(alone[r].C);
    }
    wefti_kernels_set_threads(1);
    free(A), free(B);
}

/* A stride beyond 2^31: the address space is reserved, only a few pages are touched. */
TEST(strides_beyond_an_int_are_cut_into_rows) {
    const int64_t far = (int64_t)1 << 31;
    const size_t n_bytes = (size_t)(2 * far + 4) * sizeof(float);
    float *x = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | 0x20 /* MAP_ANONYMOUS */ | 0x4000 /* MAP_NORESERVE */,
                    -1, 0);
    if (x == MAP_FAILED) skip();
    for (int i = 0; i < 3; i++) {
        x[i * far] = (float)(i + 1);
        x[i * far + 1] = (float)(10 * (i + 1));
    }
    const float b[] = {1, 2, 3, 4, 5, 6};
    float c[9];
    const wefti_kernels *fast = test_kernels_find(NULL);
    fast->gemm(false, false, 3, 1, 2, 1, x, far, b, 1, 0, c, 1); /* rows of A */
    assert_true(c[0] == 21 && c[1] == 42 && c[2] == 63);
    fast->gemm(true, false, 2, 2, 3, 1, x, far, b, 2, 0, c, 2); /* terms of A^T B */
    assert_true(c[0] == 22 && c[1] == 28 && c[2] == 220 && c[3] == 280);
    fast->gemm(false, true, 1, 3, 2, 1, b, 2, x, far, 0, c, 3); /* rows of B^T */
    assert_true(c[0] == 21 && c[1] == 42 && c[2] == 63);
    fast->gemm(false, false, 3, 2, 1, 1, b, 1, b, 2, 1, x, far); /* rows of C */
    assert_true(x[0] == 2 && x[1] == 12 && x[2 * far] == 6 && x[2 * far + 1] == 36);
    assert_int_equal(munmap(x, n_bytes), 0);
}
