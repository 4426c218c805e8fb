/* SPDX-License-Identifier: MIT */
#ifndef WEFT_TOKENIZER_H
#define WEFT_TOKENIZER_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Text <-> token ids. Kinds: "bytes" (256 ids) and "bpe" (byte-pair encoding, Sennrich et
 * al. 2016), saved and loaded as Hugging Face tokenizer.json: byte-level as GPT-2 and Llama
 * 3, and the variants of Llama 2, Mistral, Gemma, Qwen and related models
 * (docs/file-formats.md). Splitting rules for training: "gpt2" and "llama3". A tokenizer is
 * read-only after creation: threads may share it. */
typedef struct weft_tokenizer weft_tokenizer;

/** Opens what data.tokenizer may name: "bytes", or the path of a tokenizer.json or of a
 * folder that contains one. Errors: FILE, FORMAT. */
WEFT_API weft_status weft_tokenizer_open(weft_ctx *ctx, const char *name,
                                         weft_tokenizer **out) WEFT_CHECKED;
WEFT_API weft_status weft_tokenizer_create_bytes(weft_ctx *ctx,
                                                 weft_tokenizer **out) WEFT_CHECKED;

/** Trains byte-level BPE on text: merges of the most frequent pair (ties: the lower
 * pair of ids) until `vocab` ids exist or no pair occurs twice (then there are fewer).
 * The first 256 ids are the bytes in GPT-2's order; with vocab >= 257 the last id is
 * the special token <|endoftext|>. 256 <= vocab <= 2^24; split_rule: "gpt2" or
 * "llama3". Errors: FORMAT. */
WEFT_API weft_status weft_tokenizer_train(weft_ctx *ctx, const char *text,
                                          int64_t n_bytes, int64_t vocab,
                                          const char *split_rule,
                                          weft_tokenizer **out) WEFT_CHECKED;

/** Reads a tokenizer.json of BPE; unknown parts are rejected by name. Special tokens in
 * plain text are not recognized (docs/file-formats.md), other added tokens are.
 * Errors: FILE, FORMAT. */
WEFT_API weft_status weft_tokenizer_load(weft_ctx *ctx, const char *path,
                                         weft_tokenizer **out) WEFT_CHECKED;
WEFT_API weft_status weft_tokenizer_save(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                                         const char *path) WEFT_CHECKED;
WEFT_API void weft_tokenizer_destroy(weft_ctx *ctx, weft_tokenizer *tokenizer);

/** Number of ids; the kind, static. */
WEFT_API int64_t weft_tokenizer_vocab(const weft_tokenizer *tokenizer);
WEFT_API const char *weft_tokenizer_kind(const weft_tokenizer *tokenizer);
/** Id of <|endoftext|>, else of <|end_of_text|>, </s>, <eos>, else -1. */
WEFT_API int32_t weft_tokenizer_end(const weft_tokenizer *tokenizer);
/** 64-bit hash of everything that decides the mapping; stored in token shards. */
WEFT_API uint64_t weft_tokenizer_hash(const weft_tokenizer *tokenizer);

/** Encodes text. [out] *ids owned by the caller (weft_free). Any bytes are accepted
 * (invalid UTF-8 is encoded byte by byte). `threads` encode pieces in parallel, cut at
 * places where the splitting rule always splits; the result does not depend on
 * `threads`. Errors: FORMAT. */
WEFT_API weft_status weft_tokenizer_encode(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                                           const char *text, int64_t n_bytes, int threads,
                                           int32_t **ids, int64_t *n_ids) WEFT_CHECKED;

/** Bytes of one id (borrowed from the tokenizer); NULL for an id outside the
 * vocabulary, and for one that a loaded vocabulary skips. */
WEFT_API const char *weft_tokenizer_bytes(const weft_tokenizer *tokenizer, int32_t id,
                                          int64_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
