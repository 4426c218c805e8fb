/* SPDX-License-Identifier: MIT */
/* How fast matrix products are here, in a tenth of a second. */
#include "kernels/rate.h"

#include "base/clock.h"
#include "base/memory.h"

weft_status wefti_measure_gemm(weft_ctx *ctx, const wefti_kernels *kernels, int threads,
                               double *flops) {
    enum { N = 768, TRIES = 8 };
    float *block;
    WEFT_TRY(wefti_products_check(ctx, threads));
    WEFT_TRY(wefti_alloc_n(ctx, 3 * N * N, sizeof(float), "a rate measurement", &block));
    for (int64_t i = 0; i < 2 * N * N; i++) block[i] = (float)(i % 7) - 3;
    wefti_kernels_set_threads(threads);
    double best_s = 1e30, until_s = wefti_now_s() + 0.1;
    for (int i = 0; i < TRIES || wefti_now_s() < until_s; i++) {
        double start_s = wefti_now_s();
        kernels->gemm(false, false, N, N, N, 1, block, N, block + N * N, N, 0,
                      block + 2 * N * N, N);
        double spent_s = wefti_now_s() - start_s;
        if (spent_s < best_s) best_s = spent_s;
        if (i > 0 && wefti_now_s() > until_s + 1) break; /* a slow table: enough tries */
    }
    wefti_free(ctx, block);
    *flops = 2.0 * N * N * N / best_s;
    return WEFT_OK;
}
