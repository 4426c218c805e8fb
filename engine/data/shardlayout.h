/* SPDX-License-Identifier: MIT */
/* The bytes of a token shard, docs/file-formats.md: 64 bytes of header, then the tokens.
 *   0 magic[8]  8 version u32  12 width u32  16 tokens u64  24 vocab u64
 *   32 tokenizer hash u64  40 XXH3-64 of the tokens u64  48 reserved u64 = 0
 *   56 XXH3-64 of bytes 0..55 u64                              all little endian */
#pragma once

#include <stdint.h>

#include <weft/ctx.h>

#include "base/bytes.h"

enum {
    WEFTI_SHARD_MAGIC_BYTES = 8,
    WEFTI_SHARD_HEADER_BYTES = 64,
    WEFTI_SHARD_VERSION = 1,
    WEFTI_SHARD_VOCAB_16 = 65536 /* largest vocabulary of two-byte tokens */
};

/* Not text, so that a transfer that rewrites line ends is noticed. */
static const unsigned char wefti_shard_magic[WEFTI_SHARD_MAGIC_BYTES] = {
    0x89, 'w', 'e', 'f', 't', 'T', 'K', '\n'};

typedef struct wefti_shard_header {
    uint32_t version, width;
    uint64_t n_tokens, vocab, tokenizer_hash, payload_checksum, reserved, header_checksum;
} wefti_shard_header;

/* Computes the header's checksum, too. */
void wefti_shard_header_encode(const wefti_shard_header *header,
                               unsigned char out[WEFTI_SHARD_HEADER_BYTES]);

/* XXH3-64 of a shard's ids as they stand in its file, whatever its format. */
struct weft_shard;
uint64_t wefti_shard_checksum(const struct weft_shard *shard);

/* Refuses what weft_shard_open refuses for its head or its first ids. */
struct weft_tokenizer;
weft_status wefti_shard_look(weft_ctx *ctx, const char *path,
                             const struct weft_tokenizer *tokenizer) WEFT_CHECKED;
