/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/tokenizer.h>

enum { WEFTI_ENCODE_PART_BYTES = 1 << 20, WEFTI_ENCODE_MAX_THREADS = 256 };

/* Documents one after another in one buffer. */
typedef struct wefti_texts {
    const char *text; /* [n_bytes] */
    int64_t n_bytes;
    const int64_t
        *ends; /* [n_ends], ascending: a document ends there; what follows the last
                          * one is the beginning of another */
    int64_t n_ends;
    int32_t end_id; /* follows each end; -1: nothing does */
    bool
        continued; /* the first document began before the buffer, which begins at a safe cut */
    bool open; /* the last one goes on behind it, which ends at a safe cut */
    bool
        marks; /* special tokens in the text are such: only where its writer may say so */
} wefti_texts;

/* Encodes in parts of about part_bytes, cut at safe places; the result depends neither on
 * that nor on the number of threads (below 1: one). [out] *ids owned by the caller
 * (wefti_free). */
weft_status wefti_encode_texts(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                               const wefti_texts *texts, int threads, int64_t part_bytes,
                               int32_t **ids, int64_t *n_ids) WEFT_CHECKED;

/* The same for one text. */
weft_status wefti_encode(weft_ctx *ctx, const weft_tokenizer *tokenizer, const char *text,
                         int64_t n_bytes, int threads, int64_t part_bytes, int32_t **ids,
                         int64_t *n_ids) WEFT_CHECKED;

/* A text in which special tokens count, such as a chat template writes: one part. */
weft_status wefti_encode_marked(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                                const char *text, int64_t n_bytes, int32_t **ids,
                                int64_t *n_ids) WEFT_CHECKED;

/* Up to where a text whose end has not come yet can be encoded: the last safe place before
 * n_bytes; 0: more must come first. The text begins at a document's beginning or at a safe
 * place. */
int64_t wefti_encode_ready(const weft_tokenizer *tokenizer, const char *text,
                           int64_t n_bytes);

/* -- ids.c -- */

/* The tokenizer of data that is ids without a text: its texts are the ids in decimal digits,
 * a blank between two. */
weft_status wefti_tokenizer_create_ids(weft_ctx *ctx, int64_t vocab,
                                       weft_tokenizer **out) WEFT_CHECKED;

/* Whether a tokenizer is one of these, also when it was loaded from a checkpoint. */
bool wefti_tokenizer_is_ids(const weft_tokenizer *tokenizer);

/* Refuses a text that is not a list of ids, of which encoding would leave out what is none. */
weft_status wefti_ids_check(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                            const char *text, int64_t n_bytes) WEFT_CHECKED;
