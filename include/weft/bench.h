/* SPDX-License-Identifier: MIT */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Measurements of single parts of a step on this machine; of whole steps:
 * weft_bench_train in weft/train.h. */

/* Zeros mean what is said beside them. */
typedef struct weft_bench_optimizers_options {
    const char *kernels;   /* the set of mesh.kernels; NULL or "auto" = the fastest */
    int threads;           /* 0 = all cores */
    int64_t n;             /* parameters; 0 = 16777216: far more than a cache holds */
    int64_t accumulate;    /* optimizer.accumulate; 0 = 4 */
    int64_t steps, warmup; /* rounds that count, 0 = 10; and before them that do not */
} weft_bench_optimizers_options;

/* One optimizer's step over all parameters; medians over the rounds. */
typedef struct weft_optimizer_speed {
    const char *name;       /* lives as long as the program */
    double bytes;           /* per parameter and step, read and written */
    double bandwidth_Bps;   /* of those bytes */
    double share_of_stream; /* of the same round's stream_Bps */
} weft_optimizer_speed;

enum { WEFT_BENCH_OPTIMIZERS = 16 };

typedef struct weft_optimizer_speeds {
    const char *kernels; /* the set that was used; lives as long as the program */
    int threads;
    int64_t n, accumulate;
    double scale_Bps;  /* x <- s x, bytes read and written: one array after another */
    double update_Bps; /* y <- y + x: two arrays read, one of them written */
    double stream_Bps; /* the better of the two: the rate that optimizers are held to */
    int n_optimizers;
    weft_optimizer_speed of[WEFT_BENCH_OPTIMIZERS];
} weft_optimizer_speeds;

/* Measures every optimizer against the rate at which memory can be changed in place. Each
 * round measures all of them and the memory, one after another, so that what else the
 * machine does falls on all alike. Takes 20 n bytes, freed before it returns. */
WEFT_API weft_status weft_bench_optimizers(weft_ctx *ctx,
                                           const weft_bench_optimizers_options *options,
                                           weft_optimizer_speeds *out) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
