/* SPDX-License-Identifier: MIT */
/* Finds which of the compiled instruction sets can be used here: the processor must
 * support it and the operating system must save its registers. The compiler's builtin
 * checks both. The lists match the compile options in CMakeLists.txt. */
#define _GNU_SOURCE /* syscall */
#include "kernels/isa.h"

#ifdef WEFT_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

#ifdef WEFT_AMX
/* Linux saves the registers of AMX, 8 KB of a thread, only for processes that asked for them
 * (Documentation/arch/x86/xstate.rst); virtual machines may refuse. */
static bool may_use_tiles(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

bool wefti_isa_asks_amx(void) {
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, AMX = AMX_BF16 | AMX_TILE };
    unsigned a, b, c, d;
    if (wefti_isa_detect() < WEFTI_ISA_AVX512 || !__builtin_cpu_supports("avx512bf16"))
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & AMX) != AMX) return false;
    return may_use_tiles();
}
#else
bool wefti_isa_asks_amx(void) { return false; }
#endif
