/* SPDX-License-Identifier: MIT */
/* The head of a token shard, 64 bytes, little-endian (docs/file-formats.md): encoded and
 * checked here for both the reader and the writer. */
#include "data/shardlayout.h"

#include <string.h>
#include <xxhash.h>

enum { CHECKED_BYTES = 56 };

static void store64(unsigned char *p, uint64_t x) {
    wefti_store32(p, (uint32_t)x);
    wefti_store32(p + 4, (uint32_t)(x >> 32));
}

static uint64_t load64(const unsigned char *p) {
    return wefti_load32(p) | (uint64_t)wefti_load32(p + 4) << 32;
}

void wefti_shard_header_encode(const wefti_shard_header *header,
                               unsigned char out[WEFTI_SHARD_HEADER_BYTES]) {
    memcpy(out, wefti_shard_magic, WEFTI_SHARD_MAGIC_BYTES);
    wefti_store32(out + 8, header->version);
    wefti_store32(out + 12, header->width);
    store64(out + 16, header->n_tokens);
    store64(out + 24, header->vocab);
    store64(out + 32, header->tokenizer_hash);
    store64(out + 40, header->payload_checksum);
    store64(out + 48, header->reserved);
    store64(out + CHECKED_BYTES, XXH3_64bits(out, CHECKED_BYTES));
}

uint64_t wefti_shard_header_decode(const unsigned char bytes[WEFTI_SHARD_HEADER_BYTES],
                                   wefti_shard_header *header) {
    header->version = wefti_load32(bytes + 8);
    header->width = wefti_load32(bytes + 12);
    header->n_tokens = load64(bytes + 16);
    header->vocab = load64(bytes + 24);
    header->tokenizer_hash = load64(bytes + 32);
    header->payload_checksum = load64(bytes + 40);
    header->reserved = load64(bytes + 48);
    header->header_checksum = load64(bytes + CHECKED_BYTES);
    return XXH3_64bits(bytes, CHECKED_BYTES);
}
