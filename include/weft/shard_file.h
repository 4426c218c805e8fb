/* SPDX-License-Identifier: MIT */
#ifndef WEFT_SHARD_FILE_H
#define WEFT_SHARD_FILE_H

#include <weft/ctx.h>
#include <weft/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Files of token ids (docs/file-formats.md). weft's own format contains the hash of its
 * tokenizer and checksums over every byte. Two foreign formats can be read, which contain
 * neither: raw uint16 as nanoGPT writes it, and llm.c's .bin (magic 20240520 version 1:
 * uint16; magic 20240801 version 7: uint32). */

/** A shard that is open for reading. It is read-only, so threads may share it. If the file
 * is truncated while it is open, the ids of the missing part are read as -1. */
typedef struct weft_shard weft_shard;

/** Opens a shard and reads all of it once to check the size, the checksums, and every id
 * against the vocabulary. With a tokenizer, a shard in weft's format must have been written
 * with that tokenizer. With NULL the vocabulary is the one that the file names; if it names
 * none, any id below 2^31 is allowed. Nothing stays open after a failure. `tokenizer` is
 * not kept. Errors: FILE, FORMAT. */
WEFT_API weft_status weft_shard_open(weft_ctx *ctx, const char *path,
                                     const weft_tokenizer *tokenizer,
                                     weft_shard **out) WEFT_CHECKED;
WEFT_API void weft_shard_close(weft_ctx *ctx, weft_shard *shard);

/** Number of tokens. */
WEFT_API int64_t weft_shard_tokens(const weft_shard *shard);

/** "weft", "nanogpt", "llm.c uint16" or "llm.c uint32". */
WEFT_API const char *weft_shard_format(const weft_shard *shard);

/** Hash of the tokenizer that wrote the shard; 0 where the format has none. */
WEFT_API uint64_t weft_shard_tokenizer_hash(const weft_shard *shard);

/** Copies tokens [start, start + n) to ids[n]; the range lies inside the shard. */
WEFT_API void weft_shard_read(const weft_shard *shard, int64_t start, int64_t n,
                              int32_t *ids);

/** A shard that is being written under a temporary name: nothing exists under the final name
 * before the commit. */
typedef struct weft_shard_writer weft_shard_writer;

/** Begins a shard of weft's format: two bytes per token if the vocabulary allows, else
 * four. Errors: FILE. */
WEFT_API weft_status weft_shard_writer_create(weft_ctx *ctx, const char *path,
                                              const weft_tokenizer *tokenizer,
                                              weft_shard_writer **out) WEFT_CHECKED;

/** Appends ids[n_ids]. An id outside the vocabulary is rejected. After a failure the writer
 * can only be destroyed. Errors: FILE. */
WEFT_API weft_status weft_shard_writer_append(weft_ctx *ctx, weft_shard_writer *writer,
                                              const int32_t *ids,
                                              int64_t n_ids) WEFT_CHECKED;

/** Writes the header, syncs, and renames the file to its final name. A shard without tokens
 * is rejected. Errors: FILE. */
WEFT_API weft_status weft_shard_writer_commit(weft_ctx *ctx,
                                              weft_shard_writer *writer) WEFT_CHECKED;

/** Frees the writer, and removes a file that was not committed. NULL is accepted. */
WEFT_API void weft_shard_writer_destroy(weft_ctx *ctx, weft_shard_writer *writer);

/** Encodes a text file of any size into a shard, in chunks. The memory used does not grow
 * with the file, only with the longest stretch of text that has no safe place to cut
 * (docs/file-formats.md). The shard does not depend on `threads`. [out] *n_tokens: how many
 * were written; may be NULL. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_shard_encode_text(weft_ctx *ctx,
                                            const weft_tokenizer *tokenizer,
                                            const char *in_path, const char *out_path,
                                            int threads, int64_t *n_tokens) WEFT_CHECKED;

/** Texts that are encoded into one shard, in this order. */
typedef struct weft_shard_texts {
    size_t struct_size;
    const char *const *paths; /* files, folders of texts, or "-", standard input */
    int n_paths;
    const char *field;  /* of .jsonl: field with the text; NULL: "text" */
    const char *column; /* of .csv and .tsv: column with the text; the same */
    int threads;        /* below 1: one */
} weft_shard_texts;

/** Encodes texts of any size and kind that training reads (dataset.h). Documents are
 * separated by the tokenizer's end token, or by a newline if it has none.
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_shard_encode_texts(weft_ctx *ctx,
                                             const weft_tokenizer *tokenizer,
                                             const weft_shard_texts *texts,
                                             const char *out_path,
                                             int64_t *n_tokens) WEFT_CHECKED;

/** Trains byte-level BPE (weft_tokenizer_train) on texts of any kind that training reads, at
 * most on their first 256 MiB; shards among them are skipped. [out] *n_bytes: how many
 * bytes of text were used; may be NULL. The caller owns *out. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_tokenizer_train_texts(weft_ctx *ctx,
                                                const weft_shard_texts *texts,
                                                int64_t vocab, const char *split,
                                                weft_tokenizer **out,
                                                int64_t *n_bytes) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
