/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_UNITS_H
#define WEFTI_UNITS_H

#include "model/model.h"

/* The parameter tables that every kind of model builds, and the cutting of flat buffers.
 */

/* One parameter as a kind writes it down. */
typedef struct wefti_param_spec {
    const char *name;   /* in a block: what follows "<prefix><block number>." */
    int64_t rows, cols; /* cols = 0: a vector */
    double init_mean, init_std;
} wefti_param_spec;

/* The parameters of the three kinds of unit; borrowed for the call. */
typedef struct wefti_model_spec {
    const wefti_param_spec *embed, *block, *head;
    int n_embed, n_block, n_head;
    const char *block_prefix; /* "transformer.h." */
} wefti_model_spec;

/* Fills the units and parameter tables of `model`: embedding, config.layers blocks, head.
 * A tied head borrows unit 0, whose first parameter must be the token table [V,C]. */
weft_status wefti_units_build(weft_ctx *ctx, weft_model *model,
                              const wefti_model_spec *spec) WEFT_CHECKED;

/* FLOP of forward + backward for one token of a causal decoder at length T; see units.c.
 */
double wefti_units_flop_per_token(const weft_model *model, int64_t T);

/* Cuts a flat buffer into aligned pieces. With base = NULL it only counts, so that the
 * same function says how large a buffer must be and where its pieces lie. */
typedef struct wefti_room {
    float *base;  /* borrowed, or NULL */
    int64_t used; /* floats taken so far */
} wefti_room;

/* The next n floats (64-byte steps from base), or NULL when the room only counts. */
float *wefti_room_take(wefti_room *room, int64_t n);

#endif
