/* SPDX-License-Identifier: MIT */
/* The tables of this build, and which of them this processor runs. */
#include "kernels/isa.h"
#include "kernels/kernels.h"

#include <stddef.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

extern const wefti_kernels wefti_kernels_base;
#if defined(__x86_64__)
extern const wefti_kernels wefti_kernels_avx2, wefti_kernels_avx512;
#endif
#if defined(WEFT_BASE_IS_EXACT) || defined(__aarch64__)
#define WEFT_EXACT 1
extern const wefti_kernels wefti_kernels_exact;
#endif
#ifdef WEFT_AMX
extern const wefti_kernels wefti_kernels_amx;
#endif

typedef struct table_entry {
    const char *name;
    const wefti_kernels *table;
    wefti_isa needs;
    bool needs_amx;
} table_entry;

/* Fastest first. */
static const table_entry tables[] = {
#ifdef WEFT_AMX
    {"amx", &wefti_kernels_amx, WEFTI_ISA_AVX512, true},
#endif
#if defined(__x86_64__)
    {"avx512", &wefti_kernels_avx512, WEFTI_ISA_AVX512, false},
    {"avx2", &wefti_kernels_avx2, WEFTI_ISA_AVX2, false},
#endif
    {"base", &wefti_kernels_base, WEFTI_ISA_BASE, false},
#ifdef WEFT_EXACT
    {"exact", &wefti_kernels_exact, WEFTI_ISA_BASE, false},
#endif
};
static const size_t n_tables = sizeof tables / sizeof tables[0];

const wefti_kernels *wefti_kernels_find(const char *name) {
    wefti_isa here = wefti_isa_detect();
    for (size_t i = 0; i < n_tables; i++) {
        if (tables[i].needs > here) continue;
        if (name != NULL && strcmp(name, tables[i].name) != 0) continue;
        if (!tables[i].needs_amx || wefti_isa_asks_amx()) return tables[i].table;
    }
    return NULL;
}

/* Each instruction set runs the tables of those before it: a tail of one list. */
const char *const *wefti_kernels_names(void) {
    static const char *const names[] = {"amx", "avx512", "avx2", "base", NULL};
    if (wefti_isa_asks_amx()) return names;
    return names + 1 + (WEFTI_ISA_AVX512 - wefti_isa_detect());
}

void wefti_kernels_set_threads(int threads) {
#ifdef _OPENMP
    omp_set_num_threads(threads > 0 ? threads : 1);
#else
    (void)threads;
#endif
}

void wefti_kernels_end_threads(void) {
#ifdef _OPENMP
    omp_pause_resource(omp_pause_soft, omp_get_initial_device());
#endif
}

int wefti_kernels_threads(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}
