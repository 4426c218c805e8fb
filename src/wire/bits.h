/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_BITS_H
#define WEFTI_BITS_H

#include <stdint.h>

/* Little-endian numbers and fixed-width bit packing. */

static inline void wefti_put_u32(unsigned char *p, uint32_t x) {
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(x >> (8 * i));
}

static inline void wefti_put_u64(unsigned char *p, uint64_t x) {
    for (int i = 0; i < 8; i++) p[i] = (unsigned char)(x >> (8 * i));
}

static inline uint32_t wefti_get_u32(const unsigned char *p) {
    uint32_t x = 0;
    for (int i = 0; i < 4; i++) x |= (uint32_t)p[i] << (8 * i);
    return x;
}

static inline uint64_t wefti_get_u64(const unsigned char *p) {
    uint64_t x = 0;
    for (int i = 0; i < 8; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}

/* Bits that hold every index below n (n >= 1); 0 for n = 1. */
int wefti_bits_for(int64_t n);

/* Bytes of `count` numbers of `width` bits. */
int64_t wefti_packed_bytes(int64_t count, int width);

/* Packs numbers of 0..24 bits, lowest bit first; unused bits of the last byte are zero.
 */
void wefti_bits_pack(int64_t count, int width, const int32_t *numbers,
                     unsigned char *out);
void wefti_bits_unpack(int64_t count, int width, const unsigned char *packed,
                       int32_t *numbers);

#endif
