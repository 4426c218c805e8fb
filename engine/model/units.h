/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

/* The parameter tables that every kind of model builds, and the division of flat buffers.
 */

/* The description of one parameter by a kind. */
typedef struct wefti_param_spec {
    const char *name;   /* in a block: the part after "<prefix><block number>." */
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

/* The description of a unit by kinds with more than one type of block; see wefti_units_add. */
typedef struct wefti_unit_spec {
    wefti_unit_kind kind;
    const char *name;   /* "block"; with a number "block.3" */
    const char *prefix; /* of its parameters' names, before the number; or NULL */
    int number;         /* -1: none */
    const wefti_param_spec *params;
    int n_params;
    int borrows; /* -1: none */
} wefti_unit_spec;

/* begin allocates room for n_units units and n_params parameters; add then appends one
 * unit at a time. append adds a parameter to the last unit; its name is used unchanged. */
weft_status wefti_units_begin(weft_ctx *ctx, weft_model *model, int64_t n_units,
                              int64_t n_params) WEFT_CHECKED;
void wefti_units_add(weft_model *model, const wefti_unit_spec *spec);
void wefti_units_append(weft_model *model, const wefti_param_spec *param);

/* Elements of a unit's matrices. */
double wefti_unit_matrices(const wefti_unit *unit);

/* The unit_flop of a causal decoder; see units.c. */
double wefti_units_flop(const weft_model *model, int unit, int64_t T);

/* Divides a flat buffer into aligned parts. With base = NULL it only counts, so that the
 * same function computes the size of a buffer and the places of its parts. */
typedef struct wefti_room {
    float *base;  /* borrowed, or NULL */
    int64_t used; /* floats taken so far */
} wefti_room;

/* The next n floats (64-byte steps from base), or NULL when the room only counts. */
float *wefti_room_take(wefti_room *room, int64_t n);

/* The bucket of a distance key - query: if both directions are seen, half of the buckets
 * are for keys after the query. Of the buckets of a direction, half are for a single
 * distance each; the others cover ranges that grow logarithmically up to `most`. The
 * arithmetic is in float, as in HF. */
int64_t wefti_bucket_of(int64_t ahead, bool both, int64_t buckets, int64_t most);
