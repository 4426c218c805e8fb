/* SPDX-License-Identifier: MIT */
#pragma once

/* Shared by the two implementations of attention in bf16, by AVX-512 BF16 and by AMX. */
#include "tensor/isa/attention.h"
#include "kernels/isa/bf16.h"

#if defined(__AVX512F__)

/* attention_bf16.c: for every D */
extern const attention_way WEFT_ISA_NAME(wefti_attention_pairs);

/* exp(x) for x <= 0, or slightly above: 2^n times a polynomial of the remainder, with
 * relative error 1e-7. Below 2^-149 the result is 0; a NaN remains a NaN. */
NATIVE_INLINE vfloat exp_of(vfloat y) {
    __m512 t = (__m512)(y * 0x1.715476p0f); /* log2 e */
    __m512 x = _mm512_max_ps(_mm512_set1_ps(-200), t);
    __m512 n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vfloat r = (vfloat)_mm512_sub_ps(x, n);
    vfloat p = r * 0x1.5bba0ep-10f + 0x1.3cea88p-7f;
    p = p * r + 0x1.c6b752p-5f;
    p = p * r + 0x1.ebf9bcp-3f;
    p = p * r + 0x1.62e42ap-1f;
    p = p * r + 1.0f;
    return (vfloat)_mm512_scalef_ps((__m512)p, n);
}

/* Two rows of 16 numbers become 16 pairs. */
NATIVE_INLINE void store_pairs(uint32_t *to, vfloat low, vfloat high) {
    __m512bh both = _mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
    __m512i bits;
    memcpy(&bits, &both, sizeof bits);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(pair_order(), bits));
}

/* 16 numbers become 8 pairs. */
NATIVE_INLINE void store_row(uint32_t *to, vfloat v) {
    __m256bh row = _mm512_cvtneps_pbh((__m512)v);
    memcpy(to, &row, sizeof row);
}

/* Values that the gradients of the queries first + lane need besides their scores. */
typedef struct slopes {
    int64_t first, rows, past; /* past: keys that all lanes see */
    vfloat lse, delta;         /* delta: do.o */
} slopes;

/* p and ds of a key, from its score and dp. */
NATIVE_INLINE vfloat slope_of(const head *h, const slopes *at, int64_t key, vfloat score,
                              vfloat dp, vfloat *p) {
    const vint lane = {LANES_COUNT};
    if (key >= at->past) score = causal(score, key, at->first);
    vfloat e = exp_of(score - at->lse), change = dp - at->delta;
    if (h->dbias) {
        float *bias = h->dbias + at->first - key;
        store(bias, load(bias) + pick(lane < (int32_t)at->rows, e * change, splat(0)));
    }
    vfloat ds = e * (change * h->s->scale);
    if (h->s->cap > 0) ds *= cap_slope(score, h->s->cap);
    *p = e;
    return ds;
}
#endif
