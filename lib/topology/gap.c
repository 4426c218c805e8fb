/* SPDX-License-Identifier: MIT */
/* Largest eigenvalue of A = D^T D, D = M - 1 1^T / n, by repeated squaring: with
 * B_0 = A, f_k = |B_k| (Frobenius) and B_{k+1} = (B_k / f_k)^2,
 *     log lambda = sum_k log f_k / 2^k,
 * which is the power method with 2^k steps after k squarings. It needs no starting
 * vector, which might miss the eigenvector, and it works with equal eigenvalues. When f_k
 * no longer changes, the rest of the sum is a geometric series. */
#include "topology/gap.h"

#include <math.h>

enum { MAX_SQUARINGS = 44 };

/* C = A A for a symmetric A. */
static void square(int64_t n, const double *A, double *C) {
    for (int64_t i = 0; i < n * n; i++) C[i] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            double a = A[i * n + k];
            for (int64_t j = 0; a != 0 && j < n; j++) C[i * n + j] += a * A[k * n + j];
        }
}

static double norm(int64_t n, const double *A) {
    double sum = 0;
    for (int64_t i = 0; i < n * n; i++) sum += A[i] * A[i];
    return sqrt(sum);
}

/* A = D^T D. */
static void normal_matrix(int64_t n, const double *M, double *A) {
    double mean = 1.0 / (double)n;
    for (int64_t i = 0; i < n * n; i++) A[i] = 0;
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < n; i++) {
            double d = M[k * n + i] - mean;
            for (int64_t j = 0; j < n; j++) A[i * n + j] += d * (M[k * n + j] - mean);
        }
}

double wefti_second_singular_value(int64_t n, const double *M, double *work) {
    double *A = work, *C = work + n * n, log_lambda = 0, share = 1, f = 0;
    normal_matrix(n, M, A);
    for (int k = 0; k < MAX_SQUARINGS; k++, share /= 2) {
        double before = f;
        f = norm(n, A);
        if (f < 1e-26) return 0; /* only the rounding of an exact mean */
        log_lambda += share * log(f);
        if (k > 0 && fabs(f - before) < 1e-14) {
            log_lambda += share * log(f); /* f no longer changes: 1/2 + 1/4 + ... */
            break;
        }
        for (int64_t i = 0; i < n * n; i++) A[i] /= f;
        square(n, A, C);
        double *kept = A;
        A = C;
        C = kept;
    }
    return exp(log_lambda / 2);
}
