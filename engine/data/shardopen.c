/* SPDX-License-Identifier: MIT */
/* Reading token shards: weft's own (shardlayout.h) and two formats of others,
 *   llm.c    256 int32 of header: magic, version, tokens; then uint16 or uint32 tokens
 *   nanoGPT  uint16 tokens and nothing else
 * All of a file is checked when it is opened. What was changed in place since then gives ids
 * outside of the vocabulary (tokenfile.h) or other ids inside of it, never a fault. */
#define _GNU_SOURCE

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <weft/shard_file.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/memory.h"
#include "text/sniff.h"
#include "data/shardlayout.h"
#include "data/tokenfile.h"
#include "token/encode.h"

enum {
    CHECKED_BYTES = 56, /* of the head; their checksum follows */
    LLMC_HEADER_BYTES = 1024,
    LLMC_MAGIC_16 = 20240520,
    LLMC_VERSION_16 = 1,
    LLMC_MAGIC_32 = 20240801,
    LLMC_VERSION_32 = 7,
    BLOCK_BYTES = 1 << 14 /* read at a time */
};

struct weft_shard {
    wefti_token_place place;
    unsigned char head[LLMC_HEADER_BYTES]; /* the first n_head bytes of the file */
    int64_t n_head, n_file;
    int64_t n_tokens;
    int64_t vocab; /* ids are below this */
    uint64_t tokenizer_hash, checksum;
    const char *format;
};

static weft_status open_file(weft_ctx *ctx, weft_shard *s, const char *path) {
    struct stat info;
    WEFT_TRY(wefti_tokens_open(ctx, &s->place, path));
    if (stat(path, &info) != 0) return wefti_fail_errno(ctx, "stat", path);
    if (!S_ISREG(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is not a regular file", path);
    if (info.st_size == 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is empty, expected tokens", path);
    s->n_file = info.st_size;
    s->n_head = wefti_tokens_bytes(&s->place, 0, s->head, sizeof s->head);
    return WEFT_OK;
}

/* Whether the file is one of ours, be it cut off or damaged in one byte of its magic. */
static bool is_ours(const weft_shard *s) {
    int n = s->n_head < WEFTI_SHARD_MAGIC_BYTES ? (int)s->n_head
                                                : WEFTI_SHARD_MAGIC_BYTES;
    int equal = 0;
    for (int i = 0; i < n; i++) equal += s->head[i] == wefti_shard_magic[i];
    return equal == n || (n == WEFTI_SHARD_MAGIC_BYTES && equal == n - 1);
}

static weft_status check_size(weft_ctx *ctx, const weft_shard *s, const char *path,
                              int64_t header_bytes, uint64_t n_tokens) {
    uint64_t have = (uint64_t)(s->n_file - header_bytes);
    uint64_t width = (uint64_t)s->place.width;
    if (n_tokens > 0 && n_tokens <= have / width && n_tokens * width == have)
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s says that it has %" PRIu64
                         " tokens of %d bytes, but %" PRIu64 " bytes follow its header",
                         path, n_tokens, s->place.width, have);
}

/* Returns what the header's checksum should be. */
static uint64_t header_decode(const unsigned char bytes[WEFTI_SHARD_HEADER_BYTES],
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

static weft_status check_header(weft_ctx *ctx, const char *path, const unsigned char *map,
                                wefti_shard_header *h) {
    uint64_t checksum = header_decode(map, h);
    if (memcmp(map, wefti_shard_magic, WEFTI_SHARD_MAGIC_BYTES) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "the first bytes of %s are damaged",
                             path);
    if (h->version != WEFTI_SHARD_VERSION)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s is a token shard of version %" PRIu32 ", expected %d",
                             path, h->version, WEFTI_SHARD_VERSION);
    if (h->header_checksum != checksum)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "the header of %s is damaged: its checksum is %016" PRIx64
                             ", expected %016" PRIx64,
                             path, checksum, h->header_checksum);
    if ((h->width != 2 && h->width != 4) || h->reserved != 0 || h->vocab < 1 ||
        h->vocab > INT32_MAX)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "the header of %s makes no sense: width %" PRIu32
                             ", vocabulary %" PRIu64 ", reserved %" PRIu64,
                             path, h->width, h->vocab, h->reserved);
    return WEFT_OK;
}

static weft_status check_tokenizer(weft_ctx *ctx, const weft_shard *s, const char *path,
                                   const weft_tokenizer *tokenizer) {
    if (!tokenizer) return WEFT_OK;
    uint64_t hash = weft_tokenizer_hash(tokenizer);
    if (s->tokenizer_hash == hash && s->vocab == weft_tokenizer_vocab(tokenizer))
        return WEFT_OK;
    if (s->vocab <= weft_tokenizer_vocab(tokenizer) && wefti_tokenizer_is_ids(tokenizer))
        return WEFT_OK; /* whatever they stood for */
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s was written with another tokenizer: hash %016" PRIx64
                         " with %lld ids, expected %016" PRIx64 " with %lld",
                         path, s->tokenizer_hash, (long long)s->vocab, hash,
                         (long long)weft_tokenizer_vocab(tokenizer));
}

static weft_status open_ours(weft_ctx *ctx, weft_shard *s, const char *path,
                             const weft_tokenizer *tokenizer) {
    wefti_shard_header h;
    if (s->n_head < WEFTI_SHARD_HEADER_BYTES)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s is cut off: %lld bytes, expected a header of %d", path,
                             (long long)s->n_file, WEFTI_SHARD_HEADER_BYTES);
    WEFT_TRY(check_header(ctx, path, s->head, &h));
    s->format = "weft";
    s->place.width = (int)h.width;
    s->place.offset = WEFTI_SHARD_HEADER_BYTES;
    s->vocab = (int64_t)h.vocab;
    s->tokenizer_hash = h.tokenizer_hash;
    WEFT_TRY(check_size(ctx, s, path, WEFTI_SHARD_HEADER_BYTES, h.n_tokens));
    s->n_tokens = (int64_t)h.n_tokens;
    WEFT_TRY(check_tokenizer(ctx, s, path, tokenizer));
    s->checksum = h.payload_checksum;
    return WEFT_OK;
}

/* The width of an llm.c file's tokens, 0 if it is none. */
static int llmc_width(const weft_shard *s) {
    uint32_t magic = s->n_head >= 4 ? wefti_get_u32(s->head) : 0;
    return magic == LLMC_MAGIC_16 ? 2 : magic == LLMC_MAGIC_32 ? 4 : 0;
}

static weft_status open_llmc(weft_ctx *ctx, weft_shard *s, const char *path) {
    s->place.width = llmc_width(s);
    s->format = s->place.width == 2 ? "llm.c uint16" : "llm.c uint32";
    if (s->n_head < LLMC_HEADER_BYTES)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s is cut off: %lld bytes, expected a header of %d", path,
                             (long long)s->n_file, LLMC_HEADER_BYTES);
    uint32_t version = wefti_get_u32(s->head + 4);
    uint32_t expected = s->place.width == 2 ? LLMC_VERSION_16 : LLMC_VERSION_32;
    if (version != expected)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s is an llm.c file of version %" PRIu32
                             ", expected %" PRIu32,
                             path, version, expected);
    uint32_t n_tokens = wefti_get_u32(s->head + 8);
    s->place.offset = LLMC_HEADER_BYTES;
    s->n_tokens = n_tokens;
    return check_size(ctx, s, path, LLMC_HEADER_BYTES, n_tokens);
}

static weft_status open_nanogpt(weft_ctx *ctx, weft_shard *s, const char *path) {
    const char *found = wefti_sniff_mark((const char *)s->head, s->n_head);
    if (found)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is %s, expected token ids", path,
                             found);
    if (s->n_file % 2 != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s has %lld bytes, which is no known format and not a "
                             "whole number of uint16",
                             path, (long long)s->n_file);
    s->format = "nanogpt";
    s->place.width = 2;
    s->n_tokens = s->n_file / 2;
    return WEFT_OK;
}

static weft_status fail_id(weft_ctx *ctx, const weft_shard *s, const char *path,
                           int64_t place, int32_t id) {
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "token %lld of %s has the id %" PRIu32
                         ", expected 0 to %lld: the "
                         "file was written with another tokenizer, or holds no tokens",
                         (long long)place, path, (uint32_t)id, (long long)s->vocab - 1);
}

/* The first id that is none in ids[n]; n if there is none. */
static int64_t find_wrong(const weft_shard *s, const int32_t *ids, int64_t n) {
    int64_t i = 0;
    while (i < n && ids[i] >= 0 && ids[i] < s->vocab) i++;
    return i;
}

/* Reads all of the file once: every id, and the checksum over all of them. A wrong id is
 * reported after a wrong checksum, of which it may be the consequence. */
static weft_status check_tokens(weft_ctx *ctx, weft_shard *s, const char *path,
                                XXH3_state_t *state) {
    unsigned char block[BLOCK_BYTES];
    int32_t ids[BLOCK_BYTES / 2], wrong_id = 0;
    int64_t wrong = -1, most = BLOCK_BYTES / s->place.width;
    XXH3_64bits_reset(state);
    for (int64_t at = 0; at < s->n_tokens; at += most) {
        int64_t n = s->n_tokens - at < most ? s->n_tokens - at : most;
        int64_t n_bytes = n * s->place.width;
        off_t from = s->place.offset + at * s->place.width;
        if (wefti_tokens_bytes(&s->place, from, block, n_bytes) != n_bytes)
            return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                                 "%s became shorter while it was read", path);
        XXH3_64bits_update(state, block, (size_t)n_bytes);
        wefti_tokens_decode(block, s->place.width, n, ids);
        int64_t i = find_wrong(s, ids, n);
        if (i < n && wrong < 0) wrong = at + i, wrong_id = ids[i];
    }
    uint64_t found = XXH3_64bits_digest(state), expected = s->checksum;
    s->checksum = found;
    if (is_ours(s) && found != expected)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "the tokens of %s are damaged: their checksum is %016" PRIx64
                             ", expected %016" PRIx64,
                             path, found, expected);
    return wrong < 0 ? WEFT_OK : fail_id(ctx, s, path, wrong, wrong_id);
}

static weft_status read_head(weft_ctx *ctx, weft_shard *s, const char *path,
                             const weft_tokenizer *tokenizer) {
    WEFT_TRY(open_file(ctx, s, path));
    if (is_ours(s)) {
        WEFT_TRY(open_ours(ctx, s, path, tokenizer));
    } else {
        WEFT_TRY(llmc_width(s) ? open_llmc(ctx, s, path) : open_nanogpt(ctx, s, path));
        s->vocab = tokenizer ? weft_tokenizer_vocab(tokenizer) : (int64_t)INT32_MAX + 1;
    }
    return WEFT_OK;
}

static weft_status open_any(weft_ctx *ctx, weft_shard *s, const char *path,
                            const weft_tokenizer *tokenizer) {
    XXH3_state_t state;
    WEFT_TRY(read_head(ctx, s, path, tokenizer));
    return check_tokens(ctx, s, path, &state);
}

weft_status wefti_shard_look(weft_ctx *ctx, const char *path,
                             const weft_tokenizer *tokenizer) {
    int32_t ids[BLOCK_BYTES / 2];
    weft_shard s = {.place = {.fd = -1}};
    weft_status status = read_head(ctx, &s, path, tokenizer);
    int64_t n = s.n_tokens < BLOCK_BYTES / 2 ? s.n_tokens : BLOCK_BYTES / 2;
    if (status == WEFT_OK) {
        wefti_tokens_read(&s.place, 0, n, ids);
        int64_t i = find_wrong(&s, ids, n);
        if (i < n) status = fail_id(ctx, &s, path, i, ids[i]);
    }
    wefti_tokens_close(ctx, &s.place);
    return status;
}

weft_status weft_shard_open(weft_ctx *ctx, const char *path,
                            const weft_tokenizer *tokenizer, weft_shard **out) {
    *out = NULL;
    weft_shard *s;
    WEFT_TRY(wefti_alloc(ctx, sizeof *s, "a token shard", &s));
    s->place.fd = -1;
    WEFTI_TRY_OR(open_any(ctx, s, path, tokenizer), weft_shard_close(ctx, s));
    *out = s;
    return WEFT_OK;
}

void weft_shard_close(weft_ctx *ctx, weft_shard *s) {
    if (!s) return;
    wefti_tokens_close(ctx, &s->place);
    wefti_free(ctx, s);
}

int64_t weft_shard_tokens(const weft_shard *s) { return s->n_tokens; }
const char *weft_shard_format(const weft_shard *s) { return s->format; }
uint64_t weft_shard_tokenizer_hash(const weft_shard *s) { return s->tokenizer_hash; }

void weft_shard_read(const weft_shard *s, int64_t start, int64_t n, int32_t *ids) {
    wefti_tokens_read(&s->place, start, n, ids);
}

uint64_t wefti_shard_checksum(const weft_shard *s) { return s->checksum; }

/* The head of a token shard, 64 bytes, little-endian (docs/file-formats.md): encoded and
 * checked here for both the reader and the writer. */
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
