/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_ENCODE_H
#define WEFTI_ENCODE_H

#include <weft/tokenizer.h>

enum { WEFTI_ENCODE_PART_BYTES = 1 << 20, WEFTI_ENCODE_MAX_THREADS = 256 };

/* weft_tokenizer_encode in parts of about part_bytes, cut at safe places; the result
 * depends neither on that nor on the number of threads (below 1: one). */
weft_status wefti_encode(weft_ctx *ctx, const weft_tokenizer *tokenizer, const char *text,
                         int64_t n_bytes, int threads, int64_t part_bytes, int32_t **ids,
                         int64_t *n_ids) WEFT_CHECKED;

/* Takes the next ids of a file. */
typedef weft_status (*wefti_id_sink)(weft_ctx *ctx, void *user, const int32_t *ids,
                                     int64_t n_ids);

/* Encodes a text file of any size in chunks of about chunk_bytes (0: chosen), cut at
 * safe places, so that the ids are those of the whole text. Memory: a few chunks, or a
 * few times the longest stretch that has no safe place, if that is longer. */
weft_status wefti_encode_file(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                              const char *path, int threads, int64_t chunk_bytes,
                              wefti_id_sink sink, void *user) WEFT_CHECKED;

#endif
