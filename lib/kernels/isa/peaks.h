/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The loops of the instruction sets (peak.c): `rounds` rounds of independent multiply-adds in
 * registers, with the instructions for bf16 if requested and available. Returns their FLOP. */
double wefti_peak_base(int64_t rounds, bool bf16);
#if defined(__x86_64__)
double wefti_peak_avx2(int64_t rounds, bool bf16);
double wefti_peak_avx512(int64_t rounds, bool bf16);
double wefti_peak_amx(int64_t rounds, bool bf16);
#elif defined(__aarch64__)
double wefti_peak_exact(int64_t rounds, bool bf16);
#endif
