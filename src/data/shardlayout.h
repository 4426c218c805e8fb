/* SPDX-License-Identifier: MIT */
/* The bytes of a token shard, docs/file-formats.md: 64 bytes of header, then the tokens.
 *   0 magic[8]  8 version u32  12 width u32  16 tokens u64  24 vocab u64
 *   32 tokenizer hash u64  40 XXH3-64 of the tokens u64  48 reserved u64 = 0
 *   56 XXH3-64 of bytes 0..55 u64                              all little endian */
#ifndef WEFTI_SHARDLAYOUT_H
#define WEFTI_SHARDLAYOUT_H

#include <stdint.h>

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

/* Inverses of each other, except that encode computes the header's checksum and decode
 * tells what it should be. */
void wefti_shard_header_encode(const wefti_shard_header *header,
                               unsigned char out[WEFTI_SHARD_HEADER_BYTES]);
uint64_t wefti_shard_header_decode(const unsigned char bytes[WEFTI_SHARD_HEADER_BYTES],
                                   wefti_shard_header *header);

/* Little-endian numbers in memory; compilers make one load or store of each. */
static inline uint32_t wefti_load16(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static inline uint32_t wefti_load32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}
static inline void wefti_store16(unsigned char *p, uint32_t x) {
    p[0] = (unsigned char)x;
    p[1] = (unsigned char)(x >> 8);
}
static inline void wefti_store32(unsigned char *p, uint32_t x) {
    wefti_store16(p, x);
    wefti_store16(p + 2, x >> 16);
}

#endif
