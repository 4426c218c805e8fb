/* SPDX-License-Identifier: MIT */
/* Products with the same bits on every processor of x86-64. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#define WEFT_ISA base
#include "kernels/isa/product.h"

#if defined(__x86_64__)
enum { MOST = 420 };

static void fill(float *x, int n, uint32_t seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed / 1e9f;
    }
}

static product shape(bool ta, bool tb, int64_t M, int64_t N, int64_t K) {
    return (product){.ta = ta,
                     .tb = tb,
                     .M = M,
                     .N = N,
                     .K = K,
                     .alpha = 0.7f,
                     .beta = 0.3f,
                     .lda = ta ? M : K,
                     .ldb = tb ? K : N,
                     .ldc = N};
}

/* By vectors of 4, 8 and 16 numbers; terms in several blocks, edges, both ways of factors. */
TEST(every_set_has_the_same_bits) {
    static const int64_t sizes[][3] = {
        {5, 3, 2}, {64, 48, 192}, {33, 65, 193}, {130, 17, 400}, {7, 420, 1}};
    typedef void multiply(const product *);
    multiply *const sets[] = {wefti_multiply_exact_base, wefti_multiply_exact_avx2,
                              wefti_multiply_exact_avx512};
    static float A[MOST * MOST], B[MOST * MOST], first[MOST * MOST], C[MOST * MOST];
    int n_sets = 1 + (int)wefti_isa_detect();
    fill(A, MOST * MOST, 1);
    fill(B, MOST * MOST, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int way = 0; way < 4; way++)
            for (int set = 0; set < n_sets; set++) {
                product p = shape(way & 1, way & 2, sizes[i][0], sizes[i][1],
                                  sizes[i][2]);
                size_t n_bytes = (size_t)(p.M * p.N) * sizeof *C;
                fill(C, MOST * MOST, 3);
                p.A = A, p.B = B, p.C = C;
                sets[set](&p);
                if (set == 0) memcpy(first, C, n_bytes);
                assert_memory_equal(first, C, n_bytes);
            }
}

/* A sum takes its terms in order, in blocks of 192; nothing is fused. */
TEST(a_sum_takes_its_terms_in_order) {
    static float a[MOST], b[MOST];
    float c = 0;
    fill(a, MOST, 4);
    fill(b, MOST, 5);
    product p = {.M = 1, .N = 1, .K = MOST, .alpha = 1, .lda = MOST, .ldb = 1, .ldc = 1};
    p.A = a, p.B = b, p.C = &c;
    wefti_multiply_exact_base(&p);
    volatile float sum = 0, whole = 0;
    for (int k = 0; k < MOST; k++) {
        volatile float term = a[k] * b[k];
        sum = sum + term;
        if (k % 192 < 191 && k + 1 < MOST) continue;
        whole = k < 192 ? sum : sum + whole;
        sum = 0;
    }
    assert_true(c == whole);
}

TEST(its_table_is_the_base_set_by_another_name) {
    const wefti_kernels *exact = wefti_kernels_find("exact");
#ifdef WEFT_BASE_IS_EXACT
    assert_string_equal(exact->name, "exact");
    assert_string_equal(exact->bf16->name, "exact");
    assert_ptr_equal(exact->gemm, wefti_kernels_find("base")->gemm);
    assert_ptr_equal(exact->bf16->gemm, wefti_kernels_find("base")->bf16->gemm);
#else
    assert_null(exact);
#endif
}
#endif

int main(void) {
#if defined(__x86_64__)
    return check_run(NULL, NULL);
#else
    return 0;
#endif
}
