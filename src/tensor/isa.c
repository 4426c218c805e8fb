/* SPDX-License-Identifier: MIT */
/* Finds which of the compiled instruction sets can be used here: the processor must
 * support it and the operating system must save its registers. The compiler's builtin
 * checks both. The lists match the compile options in CMakeLists.txt. */
#include "tensor/isa.h"

#include <stdbool.h>

#if defined(__x86_64__)
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

wefti_isa wefti_isa_detect(void) {
    __builtin_cpu_init();
    if (!has_avx2()) return WEFTI_ISA_BASE;
    return has_avx512() ? WEFTI_ISA_AVX512 : WEFTI_ISA_AVX2;
}
#else
wefti_isa wefti_isa_detect(void) { return WEFTI_ISA_BASE; }
#endif
