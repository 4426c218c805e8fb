/* SPDX-License-Identifier: MIT */
/* Message head: see frame.h. No field of a peer's head is used before it has been
 * compared. */
#include "wire/frame.h"

#include <string.h>

#include <xxhash.h>

#include "wire/bits.h"

static const unsigned char magic[4] = {'W', 'E', 'F', 'T'};

static uint64_t checksum(const unsigned char *message, int64_t payload_bytes) {
    unsigned char seals[16];
    const unsigned char *payload = message + WEFTI_FRAME_BYTES;
    wefti_put_u64(seals, XXH3_64bits(message, 32));
    wefti_put_u64(seals + 8, XXH3_64bits(payload, (size_t)payload_bytes));
    return XXH3_64bits(seals, sizeof seals);
}

static void encode_fields(const wefti_frame *frame, unsigned char *head) {
    memcpy(head, magic, sizeof magic);
    head[4] = WEFTI_FRAME_VERSION;
    head[5] = (unsigned char)frame->kind;
    head[6] = head[7] = 0;
    wefti_put_u64(head + 8, (uint64_t)frame->step);
    wefti_put_u32(head + 16, (uint32_t)frame->bucket);
    wefti_put_u32(head + 20, (uint32_t)frame->sender);
    wefti_put_u64(head + 24, (uint64_t)frame->payload_bytes);
}

void wefti_frame_encode(const wefti_frame *frame, unsigned char *message) {
    encode_fields(frame, message);
    wefti_put_u64(message + 32, checksum(message, frame->payload_bytes));
}

/* The field that byte `offset` of the head belongs to. */
static const char *field_at(int offset) {
    if (offset < 4) return "magic";
    if (offset < 5) return "version";
    if (offset < 6) return "kind";
    if (offset < 8) return "reserved bytes";
    if (offset < 16) return "step";
    if (offset < 20) return "bucket";
    if (offset < 24) return "sender";
    return "length";
}

weft_status wefti_frame_check(weft_ctx *ctx, const wefti_frame *expected,
                              const unsigned char *message, int64_t n_bytes) {
    if (n_bytes != WEFTI_FRAME_BYTES + expected->payload_bytes)
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                             "message of %lld bytes from rank %d, expected %lld",
                             (long long)n_bytes, expected->sender,
                             (long long)(WEFTI_FRAME_BYTES + expected->payload_bytes));
    unsigned char head[32];
    encode_fields(expected, head);
    for (int i = 0; i < 32; i++)
        if (message[i] != head[i])
            return weft_ctx_fail(
                ctx, WEFT_ERR_WIRE,
                "wrong %s in the message of rank %d for step %lld, bucket %d",
                field_at(i), expected->sender, (long long)expected->step,
                expected->bucket);
    if (wefti_get_u64(message + 32) != checksum(message, expected->payload_bytes))
        return weft_ctx_fail(
            ctx, WEFT_ERR_WIRE,
            "wrong checksum in the message of rank %d for step %lld, bucket %d",
            expected->sender, (long long)expected->step, expected->bucket);
    return WEFT_OK;
}
