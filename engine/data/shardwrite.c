/* SPDX-License-Identifier: MIT */
/* Writing a token shard: the tokens stream to a file aside, the header goes in last,
 * then the file is synced and renamed. A full disk or a crash leaves nothing under the
 * final name. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <weft/shard_file.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "data/shardlayout.h"
#include "data/source.h"
#include "data/textfile.h"

/* Merges settle long before LEARNT_BYTES of text. */
enum { BUFFER_BYTES = 1 << 16, LEARNT_BYTES = 256 << 20 };

struct weft_shard_writer {
    XXH3_state_t checksum;
    unsigned char buffer[BUFFER_BYTES];
    int64_t n_buffer,
        n_payload; /* bytes in the buffer; bytes in the file after the header */
    wefti_shard_header header;
    int fd;       /* -1: not open */
    bool pending; /* the file aside is there */
    char path[PATH_MAX], aside[PATH_MAX];
};

static weft_status open_aside(weft_ctx *ctx, weft_shard_writer *w, const char *path) {
    int n = snprintf(w->path, sizeof w->path, "%s", path);
    int m = snprintf(w->aside, sizeof w->aside, "%s.tmp%ld", path, (long)getpid());
    if (n >= (int)sizeof w->path || m >= (int)sizeof w->aside)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", path);
    w->fd = open(w->aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    w->pending = w->fd >= 0;
    return w->pending ? WEFT_OK : wefti_fail_errno(ctx, "create", w->aside);
}

weft_status weft_shard_writer_create(weft_ctx *ctx, const char *path,
                                     const weft_tokenizer *tokenizer,
                                     weft_shard_writer **out) {
    *out = NULL;
    weft_shard_writer *w;
    WEFT_TRY(wefti_alloc(ctx, sizeof *w, "a shard writer", &w));
    w->fd = -1;
    XXH3_64bits_reset(&w->checksum);
    uint64_t vocab = (uint64_t)weft_tokenizer_vocab(tokenizer);
    w->header = (wefti_shard_header){.version = WEFTI_SHARD_VERSION,
                                     .width = vocab <= WEFTI_SHARD_VOCAB_16 ? 2 : 4,
                                     .vocab = vocab,
                                     .tokenizer_hash = weft_tokenizer_hash(tokenizer)};
    weft_status status = open_aside(ctx, w, path);
    if (status == WEFT_OK)
        *out = w;
    else
        weft_shard_writer_destroy(ctx, w);
    return status;
}

static weft_status flush(weft_ctx *ctx, weft_shard_writer *w) {
    XXH3_64bits_update(&w->checksum, w->buffer, (size_t)w->n_buffer);
    WEFT_TRY(wefti_file_pwrite(ctx, w->fd, w->aside, w->buffer, w->n_buffer,
                               WEFTI_SHARD_HEADER_BYTES + w->n_payload));
    w->n_payload += w->n_buffer;
    w->n_buffer = 0;
    return WEFT_OK;
}

weft_status weft_shard_writer_append(weft_ctx *ctx, weft_shard_writer *w,
                                     const int32_t *ids, int64_t n_ids) {
    for (int64_t i = 0; i < n_ids; i++) {
        if (ids[i] < 0 || (uint64_t)ids[i] >= w->header.vocab)
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                 "token %lld of %s has the id %d, expected 0 to %lld",
                                 (long long)w->header.n_tokens, w->path, ids[i],
                                 (long long)w->header.vocab - 1);
        if (w->n_buffer == BUFFER_BYTES) WEFT_TRY(flush(ctx, w));
        unsigned char *to = w->buffer + w->n_buffer;
        if (w->header.width == 2)
            wefti_put_u16(to, (uint32_t)ids[i]);
        else
            wefti_put_u32(to, (uint32_t)ids[i]);
        w->n_buffer += w->header.width;
        w->header.n_tokens++;
    }
    return WEFT_OK;
}

weft_status weft_shard_writer_commit(weft_ctx *ctx, weft_shard_writer *w) {
    unsigned char bytes[WEFTI_SHARD_HEADER_BYTES];
    if (w->header.n_tokens == 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "no tokens to write to %s", w->path);
    WEFT_TRY(flush(ctx, w));
    w->header.payload_checksum = XXH3_64bits_digest(&w->checksum);
    wefti_shard_header_encode(&w->header, bytes);
    WEFT_TRY(wefti_file_pwrite(ctx, w->fd, w->aside, bytes, sizeof bytes, 0));
    if (fsync(w->fd) != 0) return wefti_fail_errno(ctx, "sync", w->aside);
    int rc = close(w->fd);
    w->fd = -1;
    if (rc != 0) return wefti_fail_errno(ctx, "close", w->aside);
    if (rename(w->aside, w->path) != 0) return wefti_fail_errno(ctx, "rename", w->aside);
    w->pending = false;
    return wefti_file_sync_parent(ctx, w->path);
}

void weft_shard_writer_destroy(weft_ctx *ctx, weft_shard_writer *w) {
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->pending) unlink(w->aside);
    wefti_free(ctx, w);
}

static weft_status append(weft_ctx *ctx, void *user, const int32_t *ids, int64_t n_ids) {
    return weft_shard_writer_append(ctx, user, ids, n_ids);
}

static weft_status encode_paths(weft_ctx *ctx, const weft_shard_texts *texts,
                                const weft_tokenizer *tokenizer, weft_shard_writer *w) {
    wefti_encoding how = {.tokenizer = tokenizer,
                          .fields = {texts->field, texts->column},
                          .threads = texts->threads};
    wefti_walk list = {0};
    weft_status status = WEFT_OK;
    for (int k = 0; k < texts->n_paths && status == WEFT_OK; k++)
        status = wefti_source_files(ctx, texts->paths[k], &list);
    how.ends = list.n > 1;
    for (int64_t k = 0; k < list.n && status == WEFT_OK; k++) {
        const char *path = list.paths[k];
        how.ends = how.ends || wefti_text_layout_of(path) != WEFTI_TEXT_PLAIN;
        status = wefti_encode_file(ctx, &how, path, append, w);
    }
    wefti_walk_fini(ctx, &list);
    return status;
}

weft_status weft_shard_encode_texts(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                                    const weft_shard_texts *texts, const char *out_path,
                                    int64_t *n_tokens) {
    weft_shard_writer *w;
    WEFTI_SIZED_IN(ctx, weft_shard_texts, texts);
    WEFT_TRY(weft_shard_writer_create(ctx, out_path, tokenizer, &w));
    weft_status status = encode_paths(ctx, texts, tokenizer, w);
    if (status == WEFT_OK) status = weft_shard_writer_commit(ctx, w);
    if (status == WEFT_OK && n_tokens) *n_tokens = (int64_t)w->header.n_tokens;
    weft_shard_writer_destroy(ctx, w);
    return status;
}

weft_status weft_shard_encode_text(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                                   const char *in_path, const char *out_path, int threads,
                                   int64_t *n_tokens) {
    weft_shard_texts texts = {
        .struct_size = sizeof texts, .paths = &in_path, .n_paths = 1, .threads = threads};
    return weft_shard_encode_texts(ctx, tokenizer, &texts, out_path, n_tokens);
}

weft_status weft_tokenizer_train_texts(weft_ctx *ctx, const weft_shard_texts *texts,
                                       int64_t vocab, const char *split,
                                       weft_tokenizer **out, int64_t *n_bytes) {
    WEFTI_SIZED_IN(ctx, weft_shard_texts, texts);
    wefti_fields fields = {texts->field, texts->column};
    wefti_buffer text = {0};
    weft_status status = WEFT_OK;
    for (int i = 0; i < texts->n_paths && status == WEFT_OK; i++)
        status = wefti_source_text(ctx, texts->paths[i], &fields, LEARNT_BYTES, &text);
    if (status == WEFT_OK)
        status = weft_tokenizer_train(ctx, text.bytes ? text.bytes : "", text.n, vocab,
                                      split, out);
    if (n_bytes) *n_bytes = text.n;
    wefti_buffer_fini(ctx, &text);
    return status;
}
