/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* The head of every coded message (docs/wire-format.md): 40 bytes, little endian.
 *
 *     offset size
 *          0    4  magic "WEFT"
 *          4    1  version, 1
 *          5    1  kind of message
 *          6    2  zero
 *          8    8  optimizer step
 *         16    4  bucket
 *         20    4  rank of the sender in its replication group
 *         24    8  payload bytes
 *         32    8  XXH3-64 of (XXH3-64 of bytes 0..31, XXH3-64 of the payload)
 */
enum { WEFTI_FRAME_BYTES = 40, WEFTI_FRAME_VERSION = 1 };

typedef enum wefti_frame_kind {
    WEFTI_FRAME_NONE = 0,        /* no head: numbers as they lie in memory */
    WEFTI_FRAME_DEMO = 1,        /* coefficients, coded */
    WEFTI_FRAME_DEMO_ANSWER = 2, /* an owner's answer: the direction of its range */
    WEFTI_FRAME_TOPK = 3,        /* numbers and their places, coded; 5 was of 0.1.0 */
    WEFTI_FRAME_MAJORITY = 6, /* signs, five in a byte, for the rank that counts them */
    WEFTI_FRAME_MAJORITY_ANSWER = 7, /* its answer: the signs of their sums */
    WEFTI_FRAME_PART = 8,    /* all-reduce: coded numbers for the rank that adds them */
    WEFTI_FRAME_MEAN = 9,    /* its answer: their coded mean */
    WEFTI_FRAME_SIGNS = 10,  /* its answer: the signs of their mean */
    WEFTI_FRAME_FACTOR = 11, /* matrices times thin ones, and small tensors whole */
    WEFTI_FRAME_FACTOR_ANSWER = 12, /* transposed matrices times the columns agreed on */
    WEFTI_FRAME_GOSSIP = 16,        /* parameters, for a weighted mean */
    WEFTI_FRAME_CHOCO = 17,      /* coded change of what neighbours hold of the sender */
    WEFTI_FRAME_GROUP_PART = 18, /* parameters for the member of a group that adds them */
    WEFTI_FRAME_GROUP_MEAN = 19, /* its answer: their mean */
    WEFTI_FRAME_SPARSE_CHANGE = 20 /* the largest changes of parameters, in 2 bits each */
} wefti_frame_kind;

typedef struct wefti_frame {
    wefti_frame_kind kind;
    int64_t step;
    int bucket;
    int sender;
    int64_t payload_bytes;
} wefti_frame;

/* Writes the head in front of a payload that already lies at message + WEFTI_FRAME_BYTES.
 */
void wefti_frame_encode(const wefti_frame *frame, unsigned char *message);

/* Checks that message (n_bytes long) is exactly the frame that is expected: every field
 * and the checksum. WEFT_ERR_WIRE names the first field that differs. */
weft_status wefti_frame_check(weft_ctx *ctx, const wefti_frame *expected,
                              const unsigned char *message, int64_t n_bytes) WEFT_CHECKED;
