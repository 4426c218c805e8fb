/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "args.h"

/* weft bench kernels: measures and prints; returns the exit code. */
int bench_kernels(weft_ctx *ctx, const args *a, long long steps, long long warmup);
