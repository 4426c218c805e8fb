/* SPDX-License-Identifier: MIT */
#ifndef WEFT_BENCH_H
#define WEFT_BENCH_H

#include <weft/config.h>
#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Measurements of single parts of a step on this machine. weft_bench_train in weft/train.h
 * measures whole steps. */

/** The comment at a field says what a zero means. */
typedef struct weft_bench_optimizers_options {
    size_t struct_size;
    const char *kernels;   /* the set of mesh.kernels; NULL or "auto" = the fastest */
    int threads;           /* 0 = all cores */
    int64_t n;             /* parameters; 0 = 16777216: far more than a cache holds */
    int64_t accumulate;    /* optimizer.accumulate; 0 = 4 */
    int64_t steps, warmup; /* rounds measured, 0 = 10; rounds before them that are not */
    int64_t
        width; /* of the gpt2 layer whose hidden matrices an optimizer of whole matrices
                      updates, at most 65536; 0 = it is not measured */
} weft_bench_optimizers_options;

/** One optimizer's step over all parameters; medians over the rounds. */
typedef struct weft_optimizer_speed {
    const char *name;       /* lives as long as the program */
    double bytes;           /* per parameter and step, read and written */
    double bandwidth_Bps;   /* of those bytes */
    double share_of_stream; /* of the same round's stream_Bps */
} weft_optimizer_speed;

/** The step of an optimizer of whole matrices on those of one gpt2 layer; the median over the
 * rounds. Its floor: 20 bytes per parameter at stream_Bps and the products' FLOP at
 * peak_flops. */
typedef struct weft_matrix_speed {
    const char *name; /* lives as long as the program */
    int64_t width, n; /* of the layer, its parameters; 0: not measured */
    double flop;      /* of a step's products */
    double step_s;
    double peak_flops;     /* multiplies and adds in registers, with the same threads */
    double share_of_floor; /* the floor's time over step_s */
} weft_matrix_speed;

enum { WEFT_BENCH_OPTIMIZERS = 16 };

/** What every optimizer takes on this processor. */
typedef struct weft_optimizer_speeds {
    size_t struct_size;
    const char *kernels; /* the set that was used; lives as long as the program */
    int threads;
    int64_t n, accumulate;
    double scale_Bps;  /* x <- s x, bytes read and written: one array after another */
    double update_Bps; /* y <- y + x: two arrays read, one of them written */
    double stream_Bps; /* the better of the two: the rate that optimizers are compared
                          with */
    int n_optimizers;
    weft_optimizer_speed of[WEFT_BENCH_OPTIMIZERS];
    weft_matrix_speed matrices;
} weft_optimizer_speeds;

/** Measures every optimizer against the rate at which memory can be changed in place. Each
 * round measures all optimizers and the memory one after another, so that other activity of
 * the machine affects all of them alike. Takes 20 n bytes, freed before it returns, then
 * about 400 width^2. Errors: PEER, WIRE. */
WEFT_API weft_status weft_bench_optimizers(weft_ctx *ctx,
                                           const weft_bench_optimizers_options *options,
                                           weft_optimizer_speeds *out) WEFT_CHECKED;

/** The comment at a field says what a zero means. */
typedef struct weft_bench_replicators_options {
    size_t struct_size;
    const char *kernels;   /* the set of mesh.kernels; NULL or "auto" = the fastest */
    int threads;           /* of a node; 0 = all cores */
    int nodes;             /* 0 = 2; at most WEFT_BENCH_NODES */
    int64_t n;             /* parameters; 0 = 10844160: GPT-2, 6 layers x 384, 256 ids */
    int64_t steps, warmup; /* rounds measured, 0 = 10; rounds before them that are not */
    const char *only;      /* measure those whose name contains this; NULL = all */
} weft_bench_replicators_options;

enum { WEFT_BENCH_REPLICATORS = 32, WEFT_BENCH_NODES = 64 };

/** Over the rounds. */
typedef struct weft_spread {
    double median, min, max; /* in the unit of what is spread */
} weft_spread;

/** One replicator with its settings, or demo's transform alone, without coding and sending.
 * Everything is per parameter, for one node. */
typedef struct weft_replicator_speed {
    char name[64];             /* "demo 4/64 int8 all_gather" */
    char keys[320];            /* as they would be typed, separated by spaces; empty: the
                                  transform alone, which no run trains with */
    weft_spread begin_ns;      /* coding and sending; none of the times contains
                                  waiting */
    weft_spread rest_ns;       /* receiving, combining, decoding */
    weft_spread step_ns;       /* both */
    double bytes;              /* that a step has to read and write in memory */
    weft_spread bandwidth_Bps; /* of those bytes */
    weft_spread share_of_copy; /* of the same round's copy_Bps */
    double sent;               /* numbers that the node sends */
    double wire_bits;          /* sent to all others */
    double bound_bits;         /* the same by the entropy bound */
} weft_replicator_speed;

/** What every replicator takes on this processor. */
typedef struct weft_replicator_speeds {
    size_t struct_size;
    const char *kernels; /* the set that was used; lives as long as the program */
    int threads, nodes;
    int64_t n;
    weft_spread copy_Bps; /* y <- x, bytes read and written */
    int n_replicators;
    weft_replicator_speed of[WEFT_BENCH_REPLICATORS];
} weft_replicator_speeds;

/** Measures the work of replicators on one of several nodes. The other nodes' part is done
 * between the phases of this node and is not counted, so the node never waits, and has all
 * threads to itself. Each step is preceded by a copy of the gradients, with which it is
 * compared. Takes about 12 n bytes for each node, freed before it returns.
 * docs/prediction.md says what each figure means. Errors: CONFIG, PEER, WIRE. */
WEFT_API weft_status weft_bench_replicators(weft_ctx *ctx,
                                            const weft_bench_replicators_options *options,
                                            weft_replicator_speeds *out) WEFT_CHECKED;

/** The comment at a field says what a zero means. */
typedef struct weft_bench_kernels_options {
    size_t struct_size;
    int64_t steps, warmup; /* steps measured, 0 = 10; steps before them that are not */
} weft_bench_kernels_options;

/** A kernel as a model's step calls it; matrix products of each shape are listed separately. */
typedef struct weft_kernel_speed {
    char name[96];        /* "layernorm_forward", "gemm [1024,768] x [768,2304]" */
    int64_t calls;        /* in a step */
    double flop, bytes;   /* of a call: by the definition; each array counted once
                             (f32) */
    weft_spread call_s;   /* time of a call: mean within a step, spread over the steps */
    double share_of_step; /* of all calls in the time of the median step */
    double
        share_of_limit; /* of the rate that peak_flops and stream_Bps allow; may exceed 1
                           if the data is in the cache */
} weft_kernel_speed;

enum { WEFT_BENCH_KERNELS = 96 };

/** Rates of the matrix products and kernels of this processor. */
typedef struct weft_kernel_speeds {
    size_t struct_size;
    const char *kernels; /* the set that was used; lives as long as the program */
    const char *precision;
    char model[32]; /* its kind */
    int threads;
    int64_t parameters, sequences, positions; /* of the model, and of a micro-batch */
    double peak_flops; /* multiply-adds in registers, with the products' instructions */
    double stream_Bps; /* x <- s x over memory that no cache holds */
    weft_spread step_s;
    double products_share,
        kernels_share; /* of the step: gemm and head_loss; all kernels */
    int n_kernels;     /* sorted: the largest share of the step first */
    weft_kernel_speed of[WEFT_BENCH_KERNELS];
} weft_kernel_speeds;

/** Measures each kernel inside the steps of a single rank: forward, backward, the norm of
 * the gradient and AdamW over one micro-batch of generated rows, with the model,
 * mesh.threads, mesh.kernels and model.precision of `config`. Kernels that the step does
 * not call are left out. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_bench_kernels(weft_ctx *ctx, const weft_config *config,
                                        const weft_bench_kernels_options *options,
                                        weft_kernel_speeds *out) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
