/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/model.h>

#include "job/modelshape.h"
#include "tensor/layer_kernels.h"

/* The row of the tensor that contains row `row` of a parameter. [out] n: number of rows,
 * at most `most`, that are consecutive there too. */
int64_t wefti_place_row(const wefti_place *place, int64_t row, int64_t most, int64_t *n);

/* Dropout of the inputs of adapters in training (adapted.c): a product with a matrix W
 * that has an adapter is x W^T + drop(x) D^T, with the adapter's product in D instead of
 * in W. Both flat buffers have the unit's layout. */
typedef struct wefti_side {
    const float *products; /* D where there is an adapter, 0 elsewhere */
    const bool *has;       /* [params of the unit] an adapter */
    float rate;            /* of dropping */
    float *room;           /* as long as the largest input of a product */
} wefti_side;

/* The arguments of one call of forward or backward. Pointers are borrowed for the call. In
 * training the head's forward does nothing: its backward computes loss and gradients together.
 * Otherwise its forward computes the loss. Backward gets the pass of the preceding forward,
 * with the same x; it does not change params, x and saved (forward over the same pass fills
 * saved with the same bits again). saved and scratch start at multiples of 64 bytes. */
struct wefti_pass {
    const wefti_kernels *kernels;
    int64_t B, T;        /* T <= config.context */
    bool training;       /* dropout on; the head's loss is left to backward */
    uint64_t seed, step; /* of dropout: step counts micro-batches */
    uint64_t row;        /* global index of the first sequence: same masks on any mesh */
    const float *params; /* the unit's flat buffer, gathered */
    const float *borrowed;  /* the borrowed unit's flat buffer, or NULL */
    float *grads;           /* the unit's gradients, ADDED to */
    float *borrowed_grads;  /* the borrowed unit's, ADDED to */
    const int32_t *tokens;  /* [B, tokens of a row]; < 0 pads a source */
    const int32_t *targets; /* [B, targets of a row]; < 0 is skipped */
    const float *x;         /* [B,T,C] input of the unit (NULL for the embedding) */
    float *y;               /* [B,T,C] output (NULL for the head) */
    float *dy;              /* backward: [B,T,C] gradient of y on entry, of x on return.
                               (head: only return; embedding: only entry) */
    const struct wefti_past *past; /* keys and values of positions before; or NULL */
    float *saved;                  /* unit's saved activations, saved_floats() long */
    float *scratch;                /* scratch_floats() long, shared by all units */
    float grad_scale;              /* multiplies the summed loss before differentiation */
    double *loss_sum;              /* head: sum of the tokens' losses is ADDED */
    const wefti_side *side;        /* NULL: nothing is dropped before an adapter */
    bool frozen_table; /* backward of the head: no gradient of its token matrix */
    double *hits; /* forward of an image's head: right classes are ADDED; may be NULL */
    bool
        fresh; /* backward: gradients of parameters that are `stored` are STORED by the first
                     backward that has some, and were not cleared; for models without
                     adapters */
};

/* Clears of a unit's gradients what a backward with pass.fresh adds to. */
void wefti_unit_clear(const wefti_unit *unit, const wefti_kernels *kernels, float *grads);

/* Logits [B*T,V] of rows x [B,T,C] of the head's input: final norm and product with the
 * token matrix. It reads kernels, B, T, params, borrowed, x and scratch of pass. Sampling
 * needs one row: B = T = 1 and x = the last position. */
void wefti_model_logits(const weft_model *model, const wefti_pass *pass, float *logits);

/* The table of kinds, NULL-terminated. */
extern const wefti_model_ops *const wefti_model_registry[];
extern const wefti_model_ops wefti_model_gpt2, wefti_model_llama, wefti_model_mistral,
    wefti_model_qwen2, wefti_model_qwen3, wefti_model_olmo2, wefti_model_olmo3,
    wefti_model_gemma, wefti_model_seed_oss, wefti_model_gemma2, wefti_model_gemma3,
    wefti_model_phi3, wefti_model_neox, wefti_model_opt, wefti_model_smollm3,
    wefti_model_starcoder2, wefti_model_ernie, wefti_model_helium, wefti_model_granite,
    wefti_model_olmo, wefti_model_arcee, wefti_model_t5, wefti_model_vit;

/* The kind of that name, or NULL. */
const wefti_model_ops *wefti_model_find(const char *kind);
