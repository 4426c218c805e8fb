/* SPDX-License-Identifier: MIT */
/* Three-valued signs in two bits: see signs.h. */
#include "compress/signs.h"

#include <math.h>
#include <string.h>

#include "compress/spectrum.h"

static const float sign_of_code[] = {0, 1, -1, NAN};

static unsigned code_of(float x) {
    unsigned code = (unsigned)(x >= WEFTI_STILL) | (unsigned)(x <= -WEFTI_STILL) << 1;
    return isfinite(x) ? code : 3;
}

int64_t wefti_signs_bytes(int64_t n) { return (n + 3) / 4; }

void wefti_signs_encode(int64_t n, const float *x, unsigned char *out) {
    for (int64_t i = 0; i < n / 4; i++, x += 4)
        out[i] = (unsigned char)(code_of(x[0]) | code_of(x[1]) << 2 | code_of(x[2]) << 4 |
                                 code_of(x[3]) << 6);
    unsigned last = 0;
    for (int64_t i = 0; i < n % 4; i++) last |= code_of(x[i]) << (2 * i);
    if (n % 4) out[n / 4] = (unsigned char)last;
}

weft_status wefti_signs_decode(weft_ctx *ctx, int64_t n, const unsigned char *in,
                               float *x) {
    for (int64_t i = 0; i < n; i++) x[i] = sign_of_code[in[i >> 2] >> (2 * (i & 3)) & 3];
    if (n % 4 == 0 || in[n / 4] >> (2 * (n % 4)) == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                         "the last of %lld signs is followed by bits that are not zero",
                         (long long)n);
}

/* A number's bits to those of its sign. */
static uint32_t sign_bits(uint32_t x) {
    uint32_t size = x & 0x7fffffff, one = 0x3f800000 | (x & 0x80000000);
    uint32_t sign = size >= WEFTI_STILL_BITS ? one : 0;
    return size >= 0x7f800000 ? 0x7fc00000 : sign;
}

/* In blocks of known size and of integers, so that the compiler takes vectors. (Where memcpy is a
 * call, it reads a block in other pieces than it was written in, and waits: full_of in
 * wire/section.c.) */
void wefti_signs_of(int64_t n, const float *x, float *signs) {
    enum { BLOCK = 32 };
    uint32_t bits[BLOCK];
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        memcpy(bits, x + i, sizeof bits);
        for (int j = 0; j < BLOCK; j++) bits[j] = sign_bits(bits[j]);
        memcpy(signs + i, bits, sizeof bits);
    }
    for (; i < n; i++) {
        memcpy(bits, x + i, sizeof *bits);
        *bits = sign_bits(*bits);
        memcpy(signs + i, bits, sizeof *bits);
    }
}
