/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* Files in an isa/ folder are compiled once per instruction set (CMakeLists.txt:
 * weft_isa_sources) with WEFT_ISA = base, avx2, avx512 or exact. Their public names contain it:
 * WEFT_ISA_NAME(wefti_kernels) is wefti_kernels_avx2. Everything else in them is static. */
#define WEFT_ISA_PASTE2(name, isa) name##_##isa
#define WEFT_ISA_PASTE(name, isa) WEFT_ISA_PASTE2(name, isa)
#ifdef WEFT_ISA
#define WEFT_ISA_NAME(name) WEFT_ISA_PASTE(name, WEFT_ISA)
#endif

/* Whether base fuses nothing, so that it has the bits of exact. */
#if defined(__x86_64__) && !defined(__AVX2__) && !defined(__FMA__)
#define WEFT_BASE_IS_EXACT 1
#endif

/* Whether this compiler knows AMX. */
#if defined(__x86_64__) && defined(__linux__) && (__GNUC__ >= 11 || __clang_major__ >= 12)
#define WEFT_AMX 1
#endif

typedef enum wefti_isa { WEFTI_ISA_BASE, WEFTI_ISA_AVX2, WEFTI_ISA_AVX512 } wefti_isa;

/* The best instruction set that this processor and operating system run. */
wefti_isa wefti_isa_detect(void);

/* Whether products of bf16 may use AMX: the processor has it, besides AVX-512 BF16, and the
 * system lets this process use its registers, which is asked for here. */
bool wefti_isa_asks_amx(void);
