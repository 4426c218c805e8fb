/* SPDX-License-Identifier: MIT */
/* Text file -> ids, chunk by chunk. The buffer holds what was read and not yet encoded: the
 * rest of a document, whole documents, the beginning of another. When it is full, all of it
 * up to its last safe place or last end is encoded, and what follows moves to the front.
 * Many short documents are so encoded at once, on all threads. */
#include "data/textfile.h"

#include <string.h>

#include "base/memory.h"
#include "token/encode.h"

enum { CHUNK_BYTES_PER_THREAD = 4 << 20 };

typedef struct encoder {
    weft_ctx *ctx;
    const wefti_encoding *how;
    int threads;
    wefti_id_sink sink;
    void *user;
    char *buffer; /* [capacity], owned */
    int64_t n, capacity;
    int64_t *ends; /* [n_ends] where documents in the buffer end; owned */
    int64_t n_ends, ends_capacity;
    bool continued;   /* the buffer begins inside of a document */
    int64_t document; /* bytes of the current document so far */
    int64_t done;     /* bytes of text taken in all */
    bool at_end;      /* all is read */
    bool ended;       /* the next text is another document's */
    int64_t n_ended;  /* documents before the last one */
    char last;        /* the last byte of the current document */
} encoder;

/* How much of the full buffer can be encoded now; 0: it must grow first. */
static int64_t ready(const encoder *e) {
    int64_t begin = e->n_ends > 0 ? e->ends[e->n_ends - 1] : 0;
    return begin + wefti_encode_ready(e->how->tokenizer, e->buffer + begin, e->n - begin);
}

/* Encodes the first n bytes; all ends in the buffer are among them. */
static weft_status pass_on(encoder *e, int64_t n) {
    int32_t *ids;
    int64_t n_ids;
    wefti_texts texts = {.text = e->buffer,
                         .n_bytes = n,
                         .ends = e->ends,
                         .n_ends = e->n_ends,
                         .end_id = weft_tokenizer_end(e->how->tokenizer),
                         .continued = e->continued,
                         .open = !e->at_end};
    WEFT_TRY(wefti_encode_texts(e->ctx, e->how->tokenizer, &texts, e->threads,
                                WEFTI_ENCODE_PART_BYTES, &ids, &n_ids));
    weft_status status = n_ids > 0 ? e->sink(e->ctx, e->user, ids, n_ids) : WEFT_OK;
    wefti_free(e->ctx, ids);
    e->continued = e->n_ends > 0 ? n > e->ends[e->n_ends - 1] : e->continued || n > 0;
    e->n -= n;
    e->n_ends = 0;
    memmove(e->buffer, e->buffer + n, (size_t)e->n);
    return status;
}

static weft_status make_room(encoder *e) {
    int64_t n = ready(e);
    if (n > 0) return pass_on(e, n);
    int64_t more = 2 * e->capacity;
    WEFT_TRY(wefti_grow(e->ctx, &e->buffer, e->n, more, 1, "a chunk of text"));
    e->capacity = more;
    return WEFT_OK;
}

static weft_status append(encoder *e, const char *text, int64_t n) {
    while (n > 0) {
        if (e->n == e->capacity) WEFT_TRY(make_room(e));
        int64_t part = e->capacity - e->n < n ? e->capacity - e->n : n;
        memcpy(e->buffer + e->n, text, (size_t)part);
        e->n += part;
        text += part;
        n -= part;
    }
    return WEFT_OK;
}

/* The end of a document: its place is kept, or a newline put where ids have no other sign
 * of it. An empty document is none. */
static weft_status end_document(encoder *e) {
    int64_t n = e->document;
    e->document = 0;
    e->ended = false;
    if (n == 0) return WEFT_OK;
    e->n_ended++;
    if (weft_tokenizer_end(e->how->tokenizer) < 0 && e->last != '\n')
        WEFT_TRY(append(e, "\n", 1));
    WEFT_TRY(wefti_reserve(e->ctx, &e->ends, &e->ends_capacity, e->n_ends, 1,
                           sizeof *e->ends, "ends of documents"));
    e->ends[e->n_ends++] = e->n;
    return WEFT_OK;
}

static weft_status take(weft_ctx *ctx, void *user, const char *text, int64_t n,
                        bool ends) {
    encoder *e = user;
    (void)ctx;
    if (e->ended && n > 0) WEFT_TRY(end_document(e));
    WEFT_TRY(append(e, text, n));
    e->document += n;
    e->done += n;
    if (n > 0) e->last = text[n - 1];
    e->ended |= ends;
    return WEFT_OK;
}

static weft_status encode_all(encoder *e, const char *path) {
    int64_t chunk = e->how->chunk_bytes;
    if (chunk <= 0) chunk = (int64_t)CHUNK_BYTES_PER_THREAD * e->threads;
    WEFT_TRY(wefti_alloc_n(e->ctx, chunk, 1, "a chunk of text", &e->buffer));
    e->capacity = chunk;
    WEFT_TRY(wefti_documents_read(e->ctx, path, &e->how->fields, take, e));
    if (e->done == 0) return wefti_documents_fail_empty(e->ctx, path);
    if (!e->how->ends && !e->how->quiet && e->n_ended > 0)
        weft_ctx_log(e->ctx, WEFT_LOG_INFO, "%s: <|endoftext|> ends %lld documents", path,
                     (long long)e->n_ended);
    if (e->how->ends) WEFT_TRY(end_document(e));
    e->at_end = true;
    return pass_on(e, e->n);
}

weft_status wefti_fail_text_for_ids(weft_ctx *ctx, const char *path) {
    return weft_ctx_fail(
        ctx, WEFT_ERR_FORMAT,
        "%s is text, expected token ids in a shard (.bin): the tokenizer is ids", path);
}

weft_status wefti_encode_file(weft_ctx *ctx, const wefti_encoding *how, const char *path,
                              wefti_id_sink sink, void *user) {
    encoder e = {.ctx = ctx, .how = how, .sink = sink, .user = user};
    e.threads = how->threads < 1 ? 1 : how->threads;
    if (e.threads > WEFTI_ENCODE_MAX_THREADS) e.threads = WEFTI_ENCODE_MAX_THREADS;
    if (wefti_tokenizer_is_ids(how->tokenizer)) return wefti_fail_text_for_ids(ctx, path);
    weft_status status = encode_all(&e, path);
    WEFTI_FREE(ctx, e.buffer, e.ends);
    return status;
}
