/* SPDX-License-Identifier: MIT */
/* The head of a message between processes, little-endian: kind, group, tag and length.
 * Nothing in it is trusted before it is checked. */
#include "comm/envelope.h"

#include <string.h>

#include "base/bytes.h"

static const char magic[4] = {'w', 'e', 'f', 'M'};

enum { VERSION = 3 };

void wefti_envelope_encode(const wefti_envelope *envelope, unsigned char *out) {
    memcpy(out, magic, sizeof magic);
    out[4] = VERSION;
    out[5] = (unsigned char)envelope->kind;
    wefti_put_u32(out + 6, (uint32_t)envelope->n_bytes);
    wefti_put_u16(out + 10, (uint32_t)(envelope->n_bytes >> 32));
    wefti_put_u32(out + 12, (uint32_t)envelope->channel);
    wefti_put_u64(out + 16, (uint64_t)envelope->tag);
}

bool wefti_envelope_decode(const unsigned char *bytes, int64_t n_arrived,
                           wefti_envelope *out) {
    *out = (wefti_envelope){0};
    if (n_arrived < WEFTI_ENVELOPE_BYTES || memcmp(bytes, magic, sizeof magic) != 0 ||
        bytes[4] != VERSION)
        return false;
    uint32_t channel = wefti_get_u32(bytes + 12);
    out->kind = (wefti_envelope_kind)bytes[5];
    out->channel = (int)(channel & INT32_MAX);
    out->tag = (int64_t)wefti_get_u64(bytes + 16);
    out->n_bytes = (int64_t)wefti_get_u32(bytes + 6) | (int64_t)wefti_get_u16(bytes + 10)
                                                           << 32;
    if (bytes[5] < WEFTI_ENVELOPE_HELLO || bytes[5] > WEFTI_ENVELOPE_BYE) return false;
    if (channel > INT32_MAX) return false;
    if (out->kind == WEFTI_ENVELOPE_LONG) return n_arrived == WEFTI_ENVELOPE_BYTES;
    return out->n_bytes == n_arrived - WEFTI_ENVELOPE_BYTES;
}
