/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/model.h"

/* A model of which a part is trained. To everybody else it is a model like others, with
 * the same units, whose parameters are only those that are trained; what is not lies in
 * one buffer that all ranks of a process read. So messages, moments, momenta and
 * checkpoints are as small as what is trained, whatever the method.
 *
 *     whole model   W0 (frozen)     [V,C] table (frozen)   norm (trained)
 *     this model    A, B of it                             norm
 *
 * LoRA (Hu et al., arXiv 2106.09685): W = W0 + (alpha / rank) B A, with B zero at first.
 * Modules that are saved whole (PEFT's modules_to_save) begin with the base's values.
 */

/* What is trained of a model. Borrowed for the call. */
typedef struct wefti_adapting {
    int64_t rank;  /* of the adapters; 0: none, then all but `frozen` is trained */
    double scale;  /* of the product B A */
    double dropout; /* of the adapters' inputs, in training */
    const char *const *targets; /* of the adapters (patterns.h) */
    int n_targets;
    const char *const *saved; /* modules that are trained as they are beside adapters */
    int n_saved;
    const char *const *frozen; /* patterns; of these at least one */
    int n_frozen;
} wefti_adapting;

/* Takes the whole model, also on failure. A pattern that means nothing is refused, and so
 * is a model of which nothing is left to train. */
weft_status wefti_model_adapt(weft_ctx *ctx, weft_model *whole,
                              const wefti_adapting *adapting,
                              weft_model **out) WEFT_CHECKED;

/* The whole model; itself if all of it is trained. */
const weft_model *wefti_model_whole(const weft_model *model);

/* Whether what is trained are adapters. */
bool wefti_model_has_adapters(const weft_model *model);

/* Rank and scale of the adapters, and the dropout of their inputs. */
int64_t wefti_model_adapter_rank(const weft_model *model);
double wefti_model_adapter_scale(const weft_model *model);
double wefti_model_adapter_dropout(const weft_model *model);

/* The whole model's values, as they were before any training. */
typedef struct wefti_base {
    float *values;     /* its units' flat buffers one after another */
    uint64_t hash;     /* of them */
    char folder[4096]; /* where they are from; "": from nowhere */
} wefti_base;

/* Gives a model its base, borrowed for as long as it is run. */
void wefti_model_lend(weft_model *model, const wefti_base *base);
const wefti_base *wefti_model_base(const weft_model *model);

/* Whether this parameter of the whole model is frozen: not trained as it is. */
bool wefti_model_is_frozen(const weft_model *model, const wefti_param *of_whole);

/* The base's values of parameter `param` of unit u, which is trained as it is beside adapters;
 * NULL: it is none of these, or there is no base yet. */
const float *wefti_model_saved_values(const weft_model *model, int u, int param);

/* Whether it is trained as it is beside adapters. */
bool wefti_model_is_saved(const weft_model *model, const wefti_param *of_whole);

/* Whether it has an adapter. */
bool wefti_model_is_adapted(const weft_model *model, const wefti_param *of_whole);

/* The whole model's unit u with what was trained in it, as it computes: own are the
 * values of this model's unit, room is as long as the whole unit. */
void wefti_model_merge_unit(const weft_model *model, int u, const float *own,
                            const wefti_kernels *kernels, float *room);

/* Destroys all but the whole model. */
weft_model *wefti_model_release(weft_ctx *ctx, weft_model *model);
