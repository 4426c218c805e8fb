/* SPDX-License-Identifier: MIT */
/* Fixed-width packing: number i occupies bits [i w, (i + 1) w) of a little-endian stream.
 */
#include "wire/bits.h"

int wefti_bits_for(int64_t n) { return wefti_bit_length((uint64_t)n - 1); }

int64_t wefti_packed_bytes(int64_t count, int width) { return (count * width + 7) / 8; }

void wefti_bits_pack(int64_t count, int width, const int32_t *numbers,
                     unsigned char *out) {
    uint64_t pending = 0;
    int n_pending = 0;
    for (int64_t i = 0; i < count; i++) {
        pending |= (uint64_t)(uint32_t)numbers[i] << n_pending;
        n_pending += width;
        if (n_pending >= 32) {
            wefti_put_u32(out, (uint32_t)pending);
            out += 4;
            pending >>= 32;
            n_pending -= 32;
        }
    }
    for (; n_pending > 0; n_pending -= 8, pending >>= 8) *out++ = (unsigned char)pending;
}

void wefti_bits_unpack(int64_t count, int width, const unsigned char *packed,
                       int32_t *numbers) {
    int64_t n_bytes = wefti_packed_bytes(count, width), at = 0, i = 0;
    uint32_t mask = (uint32_t)((1ull << width) - 1);
    for (; i < count && at / 8 + 8 <= n_bytes; i++, at += width)
        numbers[i] = (int32_t)(wefti_get_u64(packed + at / 8) >> (at & 7) & mask);
    wefti_bit_reader rest = {packed, n_bytes, at};
    for (; i < count; i++) numbers[i] = (int32_t)wefti_bits_read(&rest, width);
}
