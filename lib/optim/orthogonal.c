/* SPDX-License-Identifier: MIT */
/* Newton-Schulz iteration with an odd polynomial of degree 5. With X = U S V^T each iteration
 *
 *     A <- X X^T      B <- b A + c A A      X <- a X + B X
 *
 * maps every singular value s to a s + b s^3 + c s^5 and does not change U and V. A tall
 * matrix is transposed first, so that A is the smaller square. First X is divided by its
 * Frobenius norm: then no singular value is above 1. A and A A = A A^T are symmetric:
 * only the strips of rows up to the diagonal are computed, the rest is mirrored.
 *
 * quintic: Jordan's coefficients, also those of torch.optim.Muon, maximize the slope at
 * 0; singular values from 0.003 to 1 end between 0.68 and 1.14. polar: the Polar Express
 * of Amsel et al., a different polynomial in each iteration; the norm has a safety margin
 * of 2 % and 1e-6. The table of kernels says whether products round their factors to bf16;
 * X, A and B stay in f32. */
#include "optim/orthogonal.h"

#include <math.h>
#include <string.h>

enum { TURNS = 5, STRIPS = 8, LEAST_STRIP = 96 };

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

/* Rows of a strip of a symmetric product of m rows: small ones would cost the product's
 * rate more than the half that they save. */
static int64_t strip_of(int64_t m) {
    int64_t rows = (m + STRIPS - 1) / STRIPS;
    return rows < LEAST_STRIP ? LEAST_STRIP : rows;
}

/* A: s n products, the square s m, B X m m n, where s counts the elements of the strips of
 * m x m; two FLOP each. */
double wefti_orthogonal_flop(int64_t rows, int64_t cols) {
    if (rows == 0 || cols == 0) return 0;
    int64_t m = least(rows, cols), strip = strip_of(m);
    double n = (double)rows * (double)cols / (double)m, s = 0, w = (double)m;
    for (int64_t i = 0; i < m; i += strip) {
        int64_t end = least(i + strip, m);
        s += (double)(end - i) * (double)end;
    }
    return TURNS * 2 * (s * n + s * w + w * w * n);
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

/* S [m, m] <- alpha X X^T + beta S for X [m, n], where S is symmetric. */
static void square(const wefti_kernels *k, int64_t m, int64_t n, float alpha,
                   const float *x, float beta, float *S) {
    enum { TILE = 32 };
    int64_t strip = strip_of(m);
    for (int64_t i = 0; i < m; i += strip) {
        int64_t end = least(i + strip, m);
        k->gemm(false, true, end - i, end, n, alpha, x + i * n, n, x, n, beta, S + i * m,
                m);
    }
    for (int64_t i = 0; i < m && strip < m; i += TILE)
        for (int64_t j = i; j < m; j += TILE)
            for (int64_t r = i; r < m && r < i + TILE; r++)
                for (int64_t c = j > r ? j : r + 1; c < m && c < j + TILE; c++)
                    S[r * m + c] = S[c * m + r];
}

/* y <- a x + (b A + c A A) x, all of [m, n]; A and B are room for squares. */
static void turn(const wefti_kernels *k, const float abc[3], int64_t m, int64_t n,
                 const float *x, float *y, float *A, float *B) {
    square(k, m, n, 1, x, 0, A);
    memcpy(B, A, (size_t)(m * m) * sizeof *B);
    square(k, m, m, abc[2], A, abc[1], B);
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
