/* SPDX-License-Identifier: MIT */
/* Gradients into, and parameters out of, a sync in the caller's number type: f32, bf16 or f16
 * (base/half.h).
 *
 *     gradient[k] <- gradient[k] + scale * given[k]      in f32
 *     taken[k]    <- parameter[k], rounded to the type */
#include <string.h>

#include "base/half.h"
#include "loop/sync.h"

static weft_status check(weft_sync *s, int i, weft_type type) {
    WEFT_TRY(wefti_sync_check_whole(s));
    if (i >= 0 && i < s->setup.n_tensors && type >= WEFT_F32 && type <= WEFT_F16)
        return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "tensor %d of number type %d; expected one of 0 to %d, and "
                         "WEFT_F32, WEFT_BF16 or WEFT_F16",
                         i, (int)type, s->setup.n_tensors - 1);
}

static int64_t elements(const weft_sync *s, int i) {
    return s->job->model->units[i].n_elements;
}

weft_status weft_sync_give(weft_sync *s, int i, const void *from, weft_type type,
                           double scale) {
    WEFT_TRY(check(s, i, type));
    WEFT_TRY(wefti_sync_check_step(s));
    float *to = weft_sync_gradients(s, i), factor = (float)scale;
    const float *whole = from;
    const uint16_t *half = from;
    if (s->now.ready[i])
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "more is given to the gradient of tensor %d, which is ready",
                             i);
    for (int64_t k = 0; k < elements(s, i); k++) {
        float x = type == WEFT_F32    ? whole[k]
                  : type == WEFT_BF16 ? wefti_f32_of_bf16(half[k])
                                      : wefti_f32_of_f16(half[k]);
        to[k] += factor * x;
    }
    return WEFT_OK;
}

weft_status weft_sync_take(weft_sync *s, int i, void *to, weft_type type) {
    WEFT_TRY(check(s, i, type));
    /* the exchange thread may be writing */
    if (s->now.ready[i] && !wefti_sync_ended(s, i))
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_ARGUMENT,
            "parameters of tensor %d are taken while its step is applied; "
            "expected before weft_sync_ready, or once the step has ended "
            "or weft_sync_wait_any has named it",
            i);
    const float *from = weft_sync_parameters(s, i);
    uint16_t *half = to;
    if (type == WEFT_F32) memcpy(to, from, (size_t)elements(s, i) * sizeof *from);
    for (int64_t k = 0; k < elements(s, i) && type != WEFT_F32; k++)
        half[k] = type == WEFT_BF16 ? wefti_bf16(from[k]) : wefti_f16(from[k]);
    return WEFT_OK;
}
