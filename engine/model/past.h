/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/model.h"

/* Keys and values that are kept from pass to pass, so that each further token of a text
 * costs one position:
 *
 *     first pass    n = 0, T positions of any number: k and v are kept
 *     later ones    n > 0, T = 1: position n of each sequence sees the n before it
 *
 * Only for forward in f32. Without `past` of a pass its sequences begin at position 0. */
typedef struct wefti_past {
    int64_t rows; /* of a sequence that there is room for; every pass has n + T <= rows */
    int32_t *n;   /* [B] positions before this pass: all 0, or none; t5: all equal */
    float *kv;    /* [B,rows,2KD] this unit's k | v, rotated */
    /* t5: of the encoder's rows, which only the first pass has; it stores both. */
    int64_t source;
    int32_t *n_source; /* [B] present */
    float *cross;      /* [B,source,2KD] */
    float *bias;       /* [H,rows + 65] scratch of one query's biases */
    float *scratch;    /* wefti_past_scratch */
} wefti_past;

/* Floats that a block of the model keeps for B sequences: the bound of kept memory is this
 * times the number of blocks. */
int64_t wefti_past_floats(const weft_model *model, int64_t B, int64_t rows);

/* Floats of attention's scratch for one query that sees `rows` keys. */
int64_t wefti_past_scratch(const weft_model *model, const wefti_kernels *kernels,
                           int64_t rows);

/* Whether the pass continues sequences. */
static inline bool wefti_past_continues(const wefti_pass *pass) {
    return pass->past && pass->past->n[0] > 0;
}

/* attention_forward of the pass's own rows, whose k and v are kept if it has a past, and of
 * the rows before them. */
void wefti_past_attend(const wefti_pass *pass, const wefti_attention_shape *s,
                       const float *q, const float *k, const float *v, float *o,
                       float *lse, float *scratch);
