/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "args.h"

/* weft bench kernels, and weft bench replicators: measure and print; return the exit code. */
int bench_kernels(weft_ctx *ctx, const args *a, long long steps, long long warmup);
int bench_replicators(weft_ctx *ctx, const args *a, long long steps, long long warmup);
