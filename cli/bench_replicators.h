/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "args.h"

/* weft bench replicators: measures and prints; returns the exit code. */
int bench_replicators(weft_ctx *ctx, const args *a, long long steps, long long warmup);
