/* SPDX-License-Identifier: MIT */
/* How fast matrix products are here, in a tenth of a second; and the peak of a table, by the loop
 * of its instruction set (isa/peak.c) on all threads at once:
 *
 *     rounds double until a run takes `seconds`; flops = threads * flop of a run / time */
#include "kernels/rate.h"

#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "kernels/isa.h"
#include "kernels/isa/peaks.h"

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

typedef double loop(int64_t rounds, bool bf16);

static loop *loop_of(const char *name) {
#ifdef WEFT_AMX
    if (strcmp(name, "amx") == 0) return wefti_peak_amx;
#endif
#if defined(__x86_64__)
    if (strcmp(name, "avx512") == 0) return wefti_peak_avx512;
    if (strcmp(name, "avx2") == 0) return wefti_peak_avx2;
#endif
    (void)name;
    return wefti_peak_base;
}

/* One run: FLOP of all threads and the seconds that it took. */
static double run(loop *once, int64_t rounds, bool bf16, double *seconds) {
    double flop = 0, begin = wefti_now_s();
    int t = wefti_kernels_threads();
#pragma omp parallel for num_threads(t) schedule(static) reduction(+ : flop) if (t > 1)
    for (int i = 0; i < t; i++) flop += once(rounds, bf16);
    *seconds = wefti_now_s() - begin;
    return flop;
}

double wefti_peak_flops(const wefti_kernels *table, double seconds) {
    loop *once = loop_of(table->name);
    bool bf16 = table->bf16 == table;
    double took = 0, flop = 0;
    for (int64_t rounds = 1 << 12; took < seconds && rounds < (int64_t)1 << 40;
         rounds *= 2)
        flop = run(once, rounds, bf16, &took);
    return took > 0 ? flop / took : 0;
}
