/* SPDX-License-Identifier: MIT */
/* Newton-Schulz iteration with an odd polynomial of degree 5. With X = U S V^T each iteration
 *
 *     A <- X X^T      B <- b A + c A A      X <- a X + B X
 *
 * maps every singular value s to a s + b s^3 + c s^5 and does not change U and V. A tall
 * matrix is transposed first, so that A is the smaller square. First X is divided by its
 * Frobenius norm: then no singular value is above 1.
 *
 * quintic: Jordan's coefficients, also those of torch.optim.Muon, maximize the slope at
 * 0; singular values from 0.003 to 1 end between 0.68 and 1.14. polar: the Polar Express
 * of Amsel et al., a different polynomial in each iteration; the norm has a safety margin
 * of 2 % and 1e-6. */
#include "optim/orthogonal.h"

#include <math.h>
#include <string.h>

enum { TURNS = 5 };

static const float quintic[] = {3.4445f, -4.7750f, 2.0315f};
static const float polar[TURNS][3] = {
    {8.156554524902461f, -22.48329292557795f, 15.878769915207462f},
    {4.042929935166739f, -2.808917465908714f, 0.5000178451051316f},
    {3.8916678022926607f, -2.772484153217685f, 0.5060648178503393f},
    {3.285753657755655f, -2.3681294933425376f, 0.46449024233003106f},
    {2.3465413258596377f, -1.7097828382687081f, 0.42323551169305323f}};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t wefti_orthogonal_scratch(int64_t rows, int64_t cols) {
    int64_t m = least(rows, cols);
    return 2 * m * m + 2 * rows * cols;
}

/* A: m m n products, the square m m m, B X m m n; two FLOP each. */
double wefti_orthogonal_flop(int64_t rows, int64_t cols) {
    if (rows == 0 || cols == 0) return 0;
    double m = (double)least(rows, cols), n = (double)rows * (double)cols / m;
    return TURNS * (4 * m * m * n + 2 * m * m * m);
}

/* out [cols, rows] <- x [rows, cols] transposed, times s. */
static void transpose(int64_t rows, int64_t cols, float s, const float *x, float *out) {
    enum { TILE = 32 };
    for (int64_t i = 0; i < rows; i += TILE)
        for (int64_t j = 0; j < cols; j += TILE)
            for (int64_t r = i; r < rows && r < i + TILE; r++)
                for (int64_t c = j; c < cols && c < j + TILE; c++)
                    out[c * rows + r] = s * x[r * cols + c];
}

/* y <- a x + (b A + c A A) x, all of [m, n]; A and B are room for squares. */
static void turn(const wefti_kernels *k, const float abc[3], int64_t m, int64_t n,
                 const float *x, float *y, float *A, float *B) {
    k->gemm(false, true, m, m, n, 1, x, n, x, n, 0, A, m);
    memcpy(B, A, (size_t)(m * m) * sizeof *B);
    k->gemm(false, false, m, m, m, abc[2], A, m, A, m, abc[1], B, m);
    memcpy(y, x, (size_t)(m * n) * sizeof *y);
    k->gemm(false, false, m, n, m, 1, B, m, x, n, abc[0], y, n);
}

void wefti_orthogonalize(const wefti_kernels *kernels, wefti_polynomial polynomial,
                         int64_t rows, int64_t cols, float *x, float *scratch) {
    int64_t m = least(rows, cols), all = rows * cols, n = all > 0 ? all / m : 0;
    float *A = scratch, *B = A + m * m, *y = B + m * m, *z = y + all;
    bool is_tall = rows > cols, best = polynomial == WEFTI_POLYNOMIAL_POLAR;
    if (all == 0) return;
    double norm = sqrt(kernels->sum_squares(all, x));
    float s = (float)(1 / (best ? 1.02 * norm + 1e-6 : norm + 1e-7));
    if (is_tall)
        transpose(rows, cols, s, x, y);
    else
        for (int64_t i = 0; i < all; i++) y[i] = s * x[i];
    for (int t = 0; t < TURNS; t++) {
        turn(kernels, best ? polar[t] : quintic, m, n, y, z, A, B);
        float *next = z;
        z = y;
        y = next;
    }
    if (is_tall)
        transpose(cols, rows, 1, y, x);
    else
        memcpy(x, y, (size_t)all * sizeof *x);
}
