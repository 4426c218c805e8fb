/* SPDX-License-Identifier: MIT */
/* DCT-II (Ahmed, Natarajan, Rao 1974) by matrix products: 2 c FLOP per element and axis.
 */
#include "compress/dct.h"

#include <math.h>

void wefti_dct_basis(int64_t c, float *basis) {
    const double pi = 3.14159265358979323846;
    for (int64_t f = 0; f < c; f++) {
        double s = sqrt((f ? 2.0 : 1.0) / (double)c);
        for (int64_t i = 0; i < c; i++)
            basis[f * c + i] =
                (float)(s * cos(pi * (double)((2 * i + 1) * f) / (double)(2 * c)));
    }
}

void wefti_dct_vectors(const wefti_kernels *kernels, int64_t c, const float *basis,
                       int64_t n, bool inverse, const float *x, float *out) {
    kernels->gemm(false, !inverse, n, c, c, 1, x, c, basis, c, 0, out, c);
}

void wefti_dct_blocks(const wefti_kernels *kernels, int64_t c, const float *basis,
                      int64_t n, bool inverse, const float *x, float *out,
                      float *scratch) {
    kernels->gemm(false, !inverse, n * c, c, c, 1, x, c, basis, c, 0, scratch, c);
    for (int64_t b = 0; b < n; b++) {
        const float *rows = scratch + b * c * c;
        kernels->gemm(inverse, false, c, c, c, 1, basis, c, rows, c, 0, out + b * c * c,
                      c);
    }
}
