/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "check.h"
#include "compress/chunks.h"
#include "compress/spectrum.h"
#include "reference/reference.h"

enum { C = 16, N = 3 };

TEST(basis_is_orthonormal) {
    static float basis[64 * 64];
    wefti_dct_basis(64, basis);
    for (int a = 0; a < 64; a++) {
        for (int b = 0; b < 64; b++) {
            double dot = 0;
            for (int i = 0; i < 64; i++)
                dot += (double)basis[a * 64 + i] * (double)basis[b * 64 + i];
            assert_true(fabs(dot - (a == b)) < 64 * 6e-8); /* c rounded products */
        }
    }
}

TEST(inverse_undoes_forward_in_one_and_two_dimensions) {
    float basis[C * C], x[N * C * C], y[N * C * C], z[N * C * C], scratch[N * C * C];
    const wefti_kernels *kernels = &wefti_kernels_reference;
    wefti_dct_basis(C, basis);
    fill_normal(1, N * C * C, x);
    wefti_dct_vectors(kernels, C, basis, N * C, false, x, y);
    wefti_dct_vectors(kernels, C, basis, N * C, true, y, z);
    for (int i = 0; i < N * C * C; i++) assert_true(fabsf(z[i] - x[i]) < 1e-5f);
    wefti_dct_blocks(kernels, C, basis, N, false, x, y, scratch);
    wefti_dct_blocks(kernels, C, basis, N, true, y, z, scratch);
    for (int i = 0; i < N * C * C; i++) assert_true(fabsf(z[i] - x[i]) < 1e-5f);
}

TEST(forward_is_the_definition) {
    float basis[C * C], x[C], y[C];
    wefti_dct_basis(C, basis);
    fill_normal(2, C, x);
    wefti_dct_vectors(&wefti_kernels_reference, C, basis, 1, false, x, y);
    for (int f = 0; f < C; f++) {
        double sum = 0;
        for (int i = 0; i < C; i++)
            sum += (double)x[i] * cos(acos(-1.0) / C * (i + 0.5) * f);
        sum *= sqrt((f ? 2.0 : 1.0) / C);
        assert_true(fabs(sum - (double)y[f]) < 1e-5);
    }
}

TEST(a_constant_block_has_one_coefficient) {
    float basis[C * C], x[C * C], y[C * C], scratch[C * C];
    wefti_dct_basis(C, basis);
    for (int i = 0; i < C * C; i++) x[i] = 1;
    wefti_dct_blocks(&wefti_kernels_reference, C, basis, 1, false, x, y, scratch);
    assert_true(fabsf(y[0] - C) < 1e-4f);
    for (int i = 1; i < C * C; i++) assert_true(fabsf(y[i]) < 1e-4f);
}

TEST(chunks_cover_a_ragged_matrix_once) {
    static const int64_t shapes[][2] = {{1, 1},  {5, 7},  {4, 4}, {9, 1},
                                        {1, 13}, {17, 3}, {8, 12}};
    for (int dims = 1; dims <= 2; dims++) {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            int64_t rows = shapes[i][0], cols = shapes[i][1];
            wefti_chunks s = wefti_chunks_make(dims, 4, 2, rows, cols);
            float tensor[128], x[1024], back[128];
            for (int64_t j = 0; j < rows * cols; j++)
                tensor[j] = (float)(j + 1), back[j] = 0;
            assert_true(s.n * s.elements <= 1024);
            wefti_chunks_load(&s, 0, s.n, tensor, x);
            double sum = 0;
            for (int64_t j = 0; j < s.n * s.elements; j++) sum += (double)x[j];
            double all = (double)(rows * cols);
            assert_true(sum == all * (all + 1) / 2); /* padding is zero, nothing twice */
            wefti_chunks_store(&s, 0, s.n, x, back);
            assert_memory_equal(back, tensor, (size_t)(rows * cols) * sizeof(float));
        }
    }
}
