/* SPDX-License-Identifier: MIT */
/* Attention of one new position to those that were kept (Pope et al. 2022). The query is
 * the only one of its sequence, so nothing is masked: a window only moves the first key. */
#include "model/past.h"

#include <string.h>

int64_t wefti_past_floats(const weft_model *model, int64_t B, int64_t rows) {
    return B * rows * 2 * model->config.kv_heads * model->config.head_dim;
}

int64_t wefti_past_scratch(const weft_model *model, const wefti_kernels *kernels,
                           int64_t rows) {
    const weft_model_config *c = &model->config;
    wefti_attention_shape s = {.B = 1,
                               .T = 1,
                               .H = c->heads,
                               .K = c->kv_heads,
                               .D = c->head_dim,
                               .all = true,
                               .n_rows = rows,
                               .biased = true};
    return kernels->layers->attention_scratch(&s, wefti_kernels_threads());
}

static void keep(const wefti_pass *pass, const wefti_attention_shape *s, const float *k,
                 const float *v) {
    const wefti_past *past = pass->past;
    int64_t KD = s->K * s->D;
    size_t n_bytes = (size_t)KD * sizeof(float);
    for (int64_t b = 0; b < s->B; b++) {
        float *to = past->kv + (b * past->rows + past->n[b]) * 2 * KD;
        for (int64_t t = b * s->T; t < (b + 1) * s->T; t++, to += 2 * KD) {
            memcpy(to, k + t * s->ld_kv, n_bytes);
            memcpy(to + KD, v + t * s->ld_kv, n_bytes);
        }
    }
}

/* The query of sequence b. */
static void attend_one(const wefti_pass *pass, const wefti_attention_shape *s, int64_t b,
                       const float *q, float *o, float *lse) {
    const wefti_past *past = pass->past;
    int64_t keys = past->n[b] + 1, KD = s->K * s->D;
    int64_t first = s->window > 0 && keys > s->window ? keys - s->window : 0;
    const float *k = past->kv + (b * past->rows + first) * 2 * KD;
    wefti_attention_shape one = *s;
    one.B = 1, one.window = 0, one.ld_kv = 2 * KD;
    one.all = true, one.n_rows = keys - first, one.n_keys = NULL;
    pass->kernels->layers->attention_forward(
        &one, q + b * s->ld_q, k, k + KD, o + b * s->ld_o, lse + b * s->H, past->scratch);
}

void wefti_past_attend(const wefti_pass *pass, const wefti_attention_shape *s,
                       const float *q, const float *k, const float *v, float *o,
                       float *lse, float *scratch) {
    if (pass->past) keep(pass, s, k, v);
    if (wefti_past_continues(pass))
        for (int64_t b = 0; b < s->B; b++) attend_one(pass, s, b, q, o, lse);
    else
        pass->kernels->layers->attention_forward(s, q, k, v, o, lse, scratch);
}
