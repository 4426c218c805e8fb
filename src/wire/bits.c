/* SPDX-License-Identifier: MIT */
/* Fixed-width packing: number i occupies bits [i w, (i + 1) w) of a little-endian stream.
 */
#include "wire/bits.h"

int wefti_bits_for(int64_t n) {
    int bits = 0;
    while ((1ll << bits) < n) bits++;
    return bits;
}

int64_t wefti_packed_bytes(int64_t count, int width) { return (count * width + 7) / 8; }

void wefti_bits_pack(int64_t count, int width, const int32_t *numbers,
                     unsigned char *out) {
    uint64_t pending = 0;
    int n_pending = 0;
    for (int64_t i = 0; i < count; i++) {
        pending |= (uint64_t)(uint32_t)numbers[i] << n_pending;
        n_pending += width;
        for (; n_pending >= 8; n_pending -= 8, pending >>= 8)
            *out++ = (unsigned char)pending;
    }
    if (n_pending > 0) *out = (unsigned char)pending;
}

void wefti_bits_unpack(int64_t count, int width, const unsigned char *packed,
                       int32_t *numbers) {
    uint64_t pending = 0;
    int n_pending = 0;
    uint32_t mask = (uint32_t)((1ull << width) - 1);
    for (int64_t i = 0; i < count; i++) {
        for (; n_pending < width; n_pending += 8)
            pending |= (uint64_t)*packed++ << n_pending;
        numbers[i] = (int32_t)((uint32_t)pending & mask);
        pending >>= width;
        n_pending -= width;
    }
}
