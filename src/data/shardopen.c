/* SPDX-License-Identifier: MIT */
/* Reading token shards: weft's own (shardlayout.h) and two formats of others,
 *   llm.c    256 int32 of header: magic, version, tokens; then uint16 or uint32 tokens
 *   nanoGPT  uint16 tokens and nothing else
 * All of a file is checked when it is opened, so that reading cannot fail. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <weft/shard_file.h>

#include "base/memory.h"
#include "data/shardlayout.h"
#include "data/syserror.h"

enum {
    LLMC_HEADER_BYTES = 1024,
    LLMC_MAGIC_16 = 20240520,
    LLMC_VERSION_16 = 1,
    LLMC_MAGIC_32 = 20240801,
    LLMC_VERSION_32 = 7
};

struct weft_shard {
    unsigned char *map; /* the whole file, mapped read-only; owned */
    int64_t n_map;
    const unsigned char *tokens; /* in the map */
    int width;
    int64_t n_tokens;
    int64_t vocab; /* ids are below this */
    uint64_t tokenizer_hash;
    const char *format;
};

static weft_status map_open_file(weft_ctx *ctx, weft_shard *s, int fd, const char *path) {
    struct stat info;
    if (fstat(fd, &info) != 0) return wefti_fail_errno(ctx, "stat", path);
    if (!S_ISREG(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is not a regular file", path);
    if (info.st_size == 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is empty, expected tokens", path);
    void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return wefti_fail_errno(ctx, "map", path);
    s->map = map;
    s->n_map = info.st_size;
    return WEFT_OK;
}

static weft_status map_file(weft_ctx *ctx, weft_shard *s, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return wefti_fail_errno(ctx, "open", path);
    weft_status status = map_open_file(ctx, s, fd, path);
    close(fd);
    return status;
}

/* Whether the file is one of ours, be it cut off or damaged in one byte of its magic. */
static bool is_ours(const weft_shard *s) {
    int n = s->n_map < WEFTI_SHARD_MAGIC_BYTES ? (int)s->n_map : WEFTI_SHARD_MAGIC_BYTES;
    int equal = 0;
    for (int i = 0; i < n; i++) equal += s->map[i] == wefti_shard_magic[i];
    return equal == n || (n == WEFTI_SHARD_MAGIC_BYTES && equal == n - 1);
}

static weft_status check_size(weft_ctx *ctx, const weft_shard *s, const char *path,
                              int64_t header_bytes, uint64_t n_tokens) {
    uint64_t have = (uint64_t)(s->n_map - header_bytes);
    uint64_t width = (uint64_t)s->width;
    if (n_tokens > 0 && n_tokens <= have / width && n_tokens * width == have)
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s says that it has %" PRIu64
                         " tokens of %d bytes, but %" PRIu64 " bytes follow its header",
                         path, n_tokens, s->width, have);
}

static weft_status check_header(weft_ctx *ctx, const char *path, const unsigned char *map,
                                wefti_shard_header *h) {
    uint64_t checksum = wefti_shard_header_decode(map, h);
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
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s was written with another tokenizer: hash %016" PRIx64
                         " with %lld ids, expected %016" PRIx64 " with %lld",
                         path, s->tokenizer_hash, (long long)s->vocab, hash,
                         (long long)weft_tokenizer_vocab(tokenizer));
}

static weft_status open_ours(weft_ctx *ctx, weft_shard *s, const char *path,
                             const weft_tokenizer *tokenizer) {
    wefti_shard_header h;
    if (s->n_map < WEFTI_SHARD_HEADER_BYTES)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s is cut off: %lld bytes, expected a header of %d", path,
                             (long long)s->n_map, WEFTI_SHARD_HEADER_BYTES);
    WEFT_TRY(check_header(ctx, path, s->map, &h));
    s->format = "weft";
    s->width = (int)h.width;
    s->tokens = s->map + WEFTI_SHARD_HEADER_BYTES;
    s->vocab = (int64_t)h.vocab;
    s->tokenizer_hash = h.tokenizer_hash;
    WEFT_TRY(check_size(ctx, s, path, WEFTI_SHARD_HEADER_BYTES, h.n_tokens));
    s->n_tokens = (int64_t)h.n_tokens;
    WEFT_TRY(check_tokenizer(ctx, s, path, tokenizer));
    uint64_t checksum = XXH3_64bits(s->tokens, (size_t)(s->n_tokens * s->width));
    if (checksum == h.payload_checksum) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "the tokens of %s are damaged: their checksum is %016" PRIx64
                         ", expected %016" PRIx64,
                         path, checksum, h.payload_checksum);
}

/* The width of an llm.c file's tokens, 0 if it is none. */
static int llmc_width(const weft_shard *s) {
    uint32_t magic = s->n_map >= 4 ? wefti_get_u32(s->map) : 0;
    return magic == LLMC_MAGIC_16 ? 2 : magic == LLMC_MAGIC_32 ? 4 : 0;
}

static weft_status open_llmc(weft_ctx *ctx, weft_shard *s, const char *path) {
    s->width = llmc_width(s);
    s->format = s->width == 2 ? "llm.c uint16" : "llm.c uint32";
    if (s->n_map < LLMC_HEADER_BYTES)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s is cut off: %lld bytes, expected a header of %d", path,
                             (long long)s->n_map, LLMC_HEADER_BYTES);
    uint32_t version = wefti_get_u32(s->map + 4);
    uint32_t expected = s->width == 2 ? LLMC_VERSION_16 : LLMC_VERSION_32;
    if (version != expected)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s is an llm.c file of version %" PRIu32
                             ", expected %" PRIu32,
                             path, version, expected);
    uint32_t n_tokens = wefti_get_u32(s->map + 8);
    s->tokens = s->map + LLMC_HEADER_BYTES;
    s->n_tokens = n_tokens;
    return check_size(ctx, s, path, LLMC_HEADER_BYTES, n_tokens);
}

static weft_status open_nanogpt(weft_ctx *ctx, weft_shard *s, const char *path) {
    if (s->n_map % 2 != 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "%s has %lld bytes, which is no known format and not a whole "
            "number of uint16",
            path, (long long)s->n_map);
    s->format = "nanogpt";
    s->width = 2;
    s->tokens = s->map;
    s->n_tokens = s->n_map / 2;
    return WEFT_OK;
}

static uint32_t load(const weft_shard *s, int64_t i) {
    return s->width == 2 ? wefti_get_u16(s->tokens + 2 * i)
                         : wefti_get_u32(s->tokens + 4 * i);
}

static weft_status check_ids(weft_ctx *ctx, const weft_shard *s, const char *path) {
    uint32_t highest = 0;
    for (int64_t i = 0; i < s->n_tokens; i++) {
        uint32_t id = load(s, i);
        highest = id > highest ? id : highest;
    }
    if (highest < (uint64_t)s->vocab) return WEFT_OK;
    int64_t i = 0;
    while (load(s, i) < (uint64_t)s->vocab) i++;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "token %lld of %s has the id %" PRIu32
                         ", expected 0 to %lld: the "
                         "file was written with another tokenizer, or holds no tokens",
                         (long long)i, path, load(s, i), (long long)s->vocab - 1);
}

static weft_status open_any(weft_ctx *ctx, weft_shard *s, const char *path,
                            const weft_tokenizer *tokenizer) {
    WEFT_TRY(map_file(ctx, s, path));
    if (is_ours(s)) {
        WEFT_TRY(open_ours(ctx, s, path, tokenizer));
    } else {
        WEFT_TRY(llmc_width(s) ? open_llmc(ctx, s, path) : open_nanogpt(ctx, s, path));
        s->vocab = tokenizer ? weft_tokenizer_vocab(tokenizer) : (int64_t)INT32_MAX + 1;
    }
    return check_ids(ctx, s, path);
}

weft_status weft_shard_open(weft_ctx *ctx, const char *path,
                            const weft_tokenizer *tokenizer, weft_shard **out) {
    *out = NULL;
    weft_shard *s;
    WEFT_TRY(wefti_alloc(ctx, sizeof *s, "a token shard", &s));
    weft_status status = open_any(ctx, s, path, tokenizer);
    if (status == WEFT_OK)
        *out = s;
    else
        weft_shard_close(ctx, s);
    return status;
}

void weft_shard_close(weft_ctx *ctx, weft_shard *s) {
    if (!s) return;
    if (s->map) munmap(s->map, (size_t)s->n_map);
    wefti_free(ctx, s);
}

int64_t weft_shard_tokens(const weft_shard *s) { return s->n_tokens; }
const char *weft_shard_format(const weft_shard *s) { return s->format; }
uint64_t weft_shard_tokenizer_hash(const weft_shard *s) { return s->tokenizer_hash; }

void weft_shard_read(const weft_shard *s, int64_t start, int64_t n, int32_t *ids) {
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)load(s, start + i);
}
