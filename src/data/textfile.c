/* SPDX-License-Identifier: MIT */
/* Text file -> ids, chunk by chunk. The buffer holds what was read and not yet
 * encoded; all of it up to its last safe place is encoded, the rest moves to the
 * front. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "token/encode.h"
#include "data/syserror.h"
#include "token/vocab.h"

enum { CHUNK_BYTES_PER_THREAD = 4 << 20 };

typedef struct reader {
    weft_ctx *ctx;
    const weft_tokenizer *t;
    const char *path;
    int fd, threads;
    char *buffer; /* [capacity], owned */
    int64_t n, capacity;
    int64_t done; /* bytes encoded */
    bool at_end;
} reader;

static weft_status open_text(reader *r) {
    r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0) return wefti_fail_errno(r->ctx, "open", r->path);
    struct stat info;
    if (fstat(r->fd, &info) != 0) return wefti_fail_errno(r->ctx, "stat", r->path);
    if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
        return weft_ctx_fail(r->ctx, WEFT_ERR_FILE, "%s is not a regular file", r->path);
    return WEFT_OK;
}

static weft_status fill(reader *r) {
    while (!r->at_end && r->n < r->capacity) {
        ssize_t got = read(r->fd, r->buffer + r->n, (size_t)(r->capacity - r->n));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return wefti_fail_errno(r->ctx, "read", r->path);
        r->at_end = got == 0;
        r->n += got;
    }
    return WEFT_OK;
}

/* How much of the full buffer can be encoded now; 0: it must grow first. */
static int64_t ready(const reader *r) {
    if (r->at_end || r->t->rule == WEFTI_RULE_NONE) return r->n;
    int64_t cut = wefti_safe_cut_before(r->buffer, r->n, r->n);
    return cut < 0 ? 0 : cut;
}

static weft_status grow_buffer(reader *r) {
    int64_t more = 2 * r->capacity;
    WEFT_TRY(wefti_grow(r->ctx, &r->buffer, r->n, more, 1, "a chunk of text"));
    r->capacity = more;
    return WEFT_OK;
}

static weft_status pass_on(reader *r, int64_t n, wefti_id_sink sink, void *user) {
    int32_t *ids;
    int64_t n_ids;
    WEFT_TRY(wefti_encode(r->ctx, r->t, r->buffer, n, r->threads, WEFTI_ENCODE_PART_BYTES,
                          &ids, &n_ids));
    weft_status status = sink(r->ctx, user, ids, n_ids);
    wefti_free(r->ctx, ids);
    r->n -= n;
    r->done += n;
    memmove(r->buffer, r->buffer + n, (size_t)r->n);
    return status;
}

static weft_status encode_all(reader *r, int64_t chunk_bytes, wefti_id_sink sink,
                              void *user) {
    WEFT_TRY(open_text(r));
    WEFT_TRY(wefti_alloc_n(r->ctx, chunk_bytes, 1, "a chunk of text", &r->buffer));
    r->capacity = chunk_bytes;
    while (!r->at_end || r->n > 0) {
        WEFT_TRY(fill(r));
        int64_t n = ready(r);
        if (n > 0)
            WEFT_TRY(pass_on(r, n, sink, user));
        else if (!r->at_end)
            WEFT_TRY(grow_buffer(r));
    }
    if (r->done > 0) return WEFT_OK;
    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s is empty, expected text", r->path);
}

weft_status wefti_encode_file(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                              const char *path, int threads, int64_t chunk_bytes,
                              wefti_id_sink sink, void *user) {
    reader r = {.ctx = ctx, .t = tokenizer, .path = path, .fd = -1, .threads = threads};
    if (threads < 1) threads = 1;
    if (threads > WEFTI_ENCODE_MAX_THREADS) threads = WEFTI_ENCODE_MAX_THREADS;
    if (chunk_bytes <= 0) chunk_bytes = (int64_t)CHUNK_BYTES_PER_THREAD * threads;
    weft_status status = encode_all(&r, chunk_bytes, sink, user);
    if (r.fd >= 0) close(r.fd);
    wefti_free(ctx, r.buffer);
    return status;
}
