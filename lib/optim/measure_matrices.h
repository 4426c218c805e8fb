/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/bench.h>

#include "kernels/kernels.h"

/* The registry's first optimizer of whole matrices, with the threads that are set; o->width > 0.
 * `stream_Bps`: the memory's rate. */
weft_status wefti_measure_matrices(weft_ctx *ctx, const wefti_kernels *kernels,
                                   const weft_bench_optimizers_options *o,
                                   double stream_Bps,
                                   weft_matrix_speed *out) WEFT_CHECKED;
