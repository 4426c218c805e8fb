/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/cluster.h>
#include <weft/config.h>

#include "args.h"

/* The model to plan for, which need not be one that weft can train. */

/* clang-format off */
#define SHAPE_FLAGS                                                                      \
    {"--hf", "FILE", "the model: a Hugging Face config.json, or its folder", NULL},      \
    {"--parameters", "N", "number of parameters of the model, such as 63M", NULL},           \
    {"--layers", "N", "number of layers (default 12)", NULL},                           \
    {"--flop-per-token", "FLOP", "forward and backward, such as 400M", NULL}
/* clang-format on */

typedef struct shape {
    char note[256];    /* what of the file was interpreted differently; "" = nothing */
    double flop_share; /* FLOP of a token over those of the run's model */
    double
        parameters; /* of the model that --hf or --parameters names; 0: the run's own */
} shape;

/* Puts the model that the flags name, or model.init, into the run (finished). */
weft_status shape_of_args(weft_ctx *ctx, const args *a, weft_config *run,
                          shape *out) WEFT_CHECKED;

/* Sets the batch of a named model, if none was given: what people take on so many ranks for a model
 * of that size; with `each`, the part of one node. */
void assume_batch(const shape *s, weft_config *run, const weft_cluster *c, bool each);

/* Parameters of adapters of that rank on all matrices of the blocks, as a share of all. */
weft_status lora_share(weft_ctx *ctx, const weft_config *run, double rank,
                       double *out) WEFT_CHECKED;
