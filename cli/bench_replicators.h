/* SPDX-License-Identifier: MIT */
#ifndef CLI_BENCH_REPLICATORS_H
#define CLI_BENCH_REPLICATORS_H

#include <weft/ctx.h>

#include "args.h"

/* weft bench replicators: measures and prints; returns the exit code. */
int bench_replicators(weft_ctx *ctx, const args *a, long long steps, long long warmup);

#endif
