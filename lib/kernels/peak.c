/* SPDX-License-Identifier: MIT */
/* Measures the peak of a table: the loop of its instruction set (isa/peak.c), on all
 * threads at once.
 *
 *     rounds double until a run takes `seconds`; flops = threads * flop of a run / time */
#include "kernels/peak.h"

#include <string.h>

#include "base/clock.h"
#include "kernels/isa.h"
#include "kernels/isa/peaks.h"

typedef double loop(int64_t rounds, bool bf16);

static loop *loop_of(const char *name) {
#ifdef WEFT_AMX
    if (strcmp(name, "amx") == 0) return wefti_peak_amx;
#endif
#if defined(__x86_64__)
    if (strcmp(name, "avx512") == 0) return wefti_peak_avx512;
    if (strcmp(name, "avx2") == 0) return wefti_peak_avx2;
#endif
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
