/* SPDX-License-Identifier: MIT */
#include "wire/sparse.h"

#include <string.h>

#include "wire/bits.h"

static int64_t index_bytes(const wefti_sparse *s) {
    return wefti_packed_bytes(s->n_chunks * s->k, wefti_bits_for(s->elements));
}

int64_t wefti_sparse_bytes(const wefti_sparse *s) {
    return index_bytes(s) + s->n_chunks * s->k * (int64_t)sizeof(float);
}

static int64_t index_offset(const wefti_sparse *s, int64_t first) {
    return first * s->k * wefti_bits_for(s->elements) / 8;
}

static void put_values(int64_t n, const float *values, unsigned char *out) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        wefti_put_u32(out + 4 * i, bits);
    }
}

static void get_values(int64_t n, const unsigned char *in, float *values) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = wefti_get_u32(in + 4 * i);
        memcpy(&values[i], &bits, sizeof bits);
    }
}

void wefti_sparse_encode(const wefti_sparse *s, int64_t first, int64_t n,
                         const int32_t *indices, const float *values,
                         unsigned char *section) {
    int width = wefti_bits_for(s->elements);
    wefti_bits_pack(n * s->k, width, indices, section + index_offset(s, first));
    put_values(n * s->k, values, section + index_bytes(s) + first * s->k * 4);
}

weft_status wefti_sparse_decode(weft_ctx *ctx, const wefti_sparse *s, int64_t first,
                                int64_t n, const unsigned char *section, int32_t *indices,
                                float *values) {
    int width = wefti_bits_for(s->elements);
    wefti_bits_unpack(n * s->k, width, section + index_offset(s, first), indices);
    get_values(n * s->k, section + index_bytes(s) + first * s->k * 4, values);
    for (int64_t i = 0; i < n * s->k; i++) {
        bool ascending = i % s->k == 0 || indices[i] > indices[i - 1];
        if (!ascending || indices[i] >= s->elements)
            return weft_ctx_fail(
                ctx, WEFT_ERR_WIRE,
                "coefficient index %d in chunk %lld, expected ascending and "
                "below %lld",
                (int)indices[i], (long long)(first + i / s->k), (long long)s->elements);
    }
    return WEFT_OK;
}
