/* SPDX-License-Identifier: MIT */
/* Gradients into, and parameters out of, a sync in the caller's number type.
 *
 *     f32   sign 1, exponent 8, fraction 23
 *     bf16  sign 1, exponent 8, fraction 7    the upper half of an f32
 *     f16   sign 1, exponent 5, fraction 10   IEEE half
 *
 * Down to 16 bits the nearest is taken, of two the even one; not-a-numbers stay such. */
#include <math.h>
#include <string.h>

#include "train/sync.h"

static float as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t as_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float from_bf16(uint16_t h) { return as_float((uint32_t)h << 16); }

static uint16_t to_bf16(float x) {
    uint32_t bits = as_bits(x);
    if (isnan(x)) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, fraction = h & 0x3ff;
    uint32_t exponent = h >> 10 & 31;
    if (exponent == 31) return as_float(sign | 0x7f800000 | fraction << 13);
    if (exponent > 0) return as_float(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}

static uint16_t to_f16(float x) {
    uint32_t bits = as_bits(x), sign = bits >> 16 & 0x8000;
    float size = fabsf(x);
    if (isnan(x)) return (uint16_t)(sign | 0x7e00);
    if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14f) /* multiples of 2^-24; what rounds up to 2^-14 carries over */
        return (uint16_t)(sign | (uint32_t)nearbyintf(size * 0x1p24f));
    uint32_t positive = (bits & 0x7fffffff) - (112u << 23);
    return (uint16_t)(sign | (positive + 0xfff + (positive >> 13 & 1)) >> 13);
}

static weft_status check(weft_sync *s, int i, weft_type type) {
    if (i >= 0 && i < s->n_tensors && type >= WEFT_F32 && type <= WEFT_F16)
        return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "tensor %d of number type %d; expected one of 0 to %d, and "
                         "WEFT_F32, WEFT_BF16 or WEFT_F16",
                         i, (int)type, s->n_tensors - 1);
}

static int64_t elements(const weft_sync *s, int i) {
    return s->job->model->units[i].n_elements;
}

weft_status weft_sync_give(weft_sync *s, int i, const void *from, weft_type type,
                           double scale) {
    WEFT_TRY(check(s, i, type));
    float *to = weft_sync_gradients(s, i), factor = (float)scale;
    const float *whole = from;
    const uint16_t *half = from;
    if (s->ready[i])
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "more is given to the gradient of tensor %d, which is ready",
                             i);
    for (int64_t k = 0; k < elements(s, i); k++) {
        float x = type == WEFT_F32    ? whole[k]
                  : type == WEFT_BF16 ? from_bf16(half[k])
                                      : from_f16(half[k]);
        to[k] += factor * x;
    }
    return WEFT_OK;
}

weft_status weft_sync_take(weft_sync *s, int i, void *to, weft_type type) {
    WEFT_TRY(check(s, i, type));
    const float *from = weft_sync_parameters(s, i);
    uint16_t *half = to;
    if (type == WEFT_F32) memcpy(to, from, (size_t)elements(s, i) * sizeof *from);
    for (int64_t k = 0; k < elements(s, i) && type != WEFT_F32; k++)
        half[k] = type == WEFT_BF16 ? to_bf16(from[k]) : to_f16(from[k]);
    return WEFT_OK;
}
