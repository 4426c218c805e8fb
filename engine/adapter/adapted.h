/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/model.h"

/* A model that is trained in part. For the rest of the library it is an ordinary model
 * with the same units, whose parameters are only the trained ones. The frozen ones are in
 * a single buffer that all ranks of a process read. So messages, moments, momenta and
 * checkpoints have the size of the trained part, with every method.
 *
 *     whole model   W0 (frozen)     [V,C] table (frozen)   norm (trained)
 *     this model    A, B of it                             norm
 *
 * LoRA (Hu et al., arXiv 2106.09685): W = W0 + (alpha / rank) B A, with B zero at first.
 * Modules that are trained in full (PEFT's modules_to_save) start with the base's values.
 */

/* Which part of a model is trained. Borrowed for the call. */
typedef struct wefti_adapting {
    int64_t
        rank; /* of the adapters; 0: no adapters, everything but `frozen` is trained */
    double scale;               /* of the product B A */
    double dropout;             /* of the adapters' inputs, in training */
    const char *const *targets; /* of the adapters (patterns.h) */
    int n_targets;
    const char *const *saved; /* modules that are trained in full beside adapters */
    int n_saved;
    const char *const *frozen; /* patterns of frozen parameters */
    int n_frozen;
} wefti_adapting;

/* Takes ownership of the whole model, also on failure. Fails if a pattern matches
 * nothing, or if no parameter remains to be trained. */
weft_status wefti_model_adapt(weft_ctx *ctx, weft_model *whole,
                              const wefti_adapting *adapting,
                              weft_model **out) WEFT_CHECKED;

/* The whole model; the model itself if all of it is trained. */
const weft_model *wefti_model_whole(const weft_model *model);

/* Whether the trained parameters are adapters. */
bool wefti_model_has_adapters(const weft_model *model);

/* Rank and scale of the adapters, and the dropout of their inputs. */
int64_t wefti_model_adapter_rank(const weft_model *model);
double wefti_model_adapter_scale(const weft_model *model);
double wefti_model_adapter_dropout(const weft_model *model);

/* The whole model's values, as they were before any training. */
typedef struct wefti_base {
    float *values;     /* its units' flat buffers one after another */
    uint64_t hash;     /* of them */
    char folder[4096]; /* where they come from; "": from no folder */
} wefti_base;

/* Gives a model its base, which must exist as long as the model is used. */
void wefti_model_lend(weft_model *model, const wefti_base *base);
const wefti_base *wefti_model_base(const weft_model *model);

/* Whether this parameter of the whole model is frozen: not trained in full. */
bool wefti_model_is_frozen(const weft_model *model, const wefti_param *of_whole);

/* The base's values of parameter `param` of unit u, which is trained in full beside
 * adapters; NULL: it is not such a parameter, or there is no base yet. */
const float *wefti_model_saved_values(const weft_model *model, int u, int param);

/* Whether the parameter is trained in full beside adapters. */
bool wefti_model_is_saved(const weft_model *model, const wefti_param *of_whole);

/* Whether the parameter has an adapter. */
bool wefti_model_is_adapted(const weft_model *model, const wefti_param *of_whole);

/* Computes the parameters of the whole model's unit u, including the trained ones. own:
 * the values of this model's unit; room has the size of the whole unit. */
void wefti_model_merge_unit(const weft_model *model, int u, const float *own,
                            const wefti_kernels *kernels, float *room);

/* Destroys everything but the whole model, which it returns. */
weft_model *wefti_model_release(weft_ctx *ctx, weft_model *model);

/* Initial values of rows [row_begin, row_begin + n_rows) of a parameter: a pure function
 * of (seed, the parameter's number in the model, row, column), so any sharding gives the
 * same model. */
void wefti_model_init_rows(const weft_model *model, uint64_t seed, int unit, int param,
                           int64_t row_begin, int64_t n_rows, float *out);
