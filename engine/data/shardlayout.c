/* SPDX-License-Identifier: MIT */
/* The head of a token shard, 64 bytes, little-endian (docs/file-formats.md): encoded and
 * checked here for both the reader and the writer. */
#include "data/shardlayout.h"

#include <string.h>
#include <xxhash.h>

enum { CHECKED_BYTES = 56 };

void wefti_shard_header_encode(const wefti_shard_header *header,
                               unsigned char out[WEFTI_SHARD_HEADER_BYTES]) {
    memcpy(out, wefti_shard_magic, WEFTI_SHARD_MAGIC_BYTES);
    wefti_put_u32(out + 8, header->version);
    wefti_put_u32(out + 12, header->width);
    wefti_put_u64(out + 16, header->n_tokens);
    wefti_put_u64(out + 24, header->vocab);
    wefti_put_u64(out + 32, header->tokenizer_hash);
    wefti_put_u64(out + 40, header->payload_checksum);
    wefti_put_u64(out + 48, header->reserved);
    wefti_put_u64(out + CHECKED_BYTES, XXH3_64bits(out, CHECKED_BYTES));
}

uint64_t wefti_shard_header_decode(const unsigned char bytes[WEFTI_SHARD_HEADER_BYTES],
                                   wefti_shard_header *header) {
    header->version = wefti_get_u32(bytes + 8);
    header->width = wefti_get_u32(bytes + 12);
    header->n_tokens = wefti_get_u64(bytes + 16);
    header->vocab = wefti_get_u64(bytes + 24);
    header->tokenizer_hash = wefti_get_u64(bytes + 32);
    header->payload_checksum = wefti_get_u64(bytes + 40);
    header->reserved = wefti_get_u64(bytes + 48);
    header->header_checksum = wefti_get_u64(bytes + CHECKED_BYTES);
    return XXH3_64bits(bytes, CHECKED_BYTES);
}
