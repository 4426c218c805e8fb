/* SPDX-License-Identifier: MIT */
#ifndef CLI_BENCH_KERNELS_H
#define CLI_BENCH_KERNELS_H

#include <weft/ctx.h>

#include "args.h"

/* weft bench kernels: measures and prints; returns the exit code. */
int bench_kernels(weft_ctx *ctx, const args *a, long long steps, long long warmup);

#endif
