/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/tokenizer.h>

#include "input/documents.h"

/* How texts become ids. */
typedef struct wefti_encoding {
    const weft_tokenizer *tokenizer; /* borrowed */
    wefti_fields fields;
    int threads;         /* below 1: one */
    int64_t chunk_bytes; /* text in memory at a time; 0: chosen */
    bool ends;  /* the end token, or a newline if the tokenizer has none, follows the last
                  document of a file as it follows the others */
    bool quiet; /* a look: another reading says how many documents there are */
} wefti_encoding;

/* Takes the next ids of a file. */
typedef weft_status (*wefti_id_sink)(weft_ctx *ctx, void *user, const int32_t *ids,
                                     int64_t n_ids);

/* Says that a file is text where the tokenizer is ids. */
weft_status wefti_fail_text_for_ids(weft_ctx *ctx, const char *path);

/* Encodes a file of any size in chunks, cut at safe places, so that the ids are those of
 * the whole text. Memory: a few chunks, or a few times the longest stretch that has no
 * safe place, if that is longer. A file without text is refused. */
weft_status wefti_encode_file(weft_ctx *ctx, const wefti_encoding *how, const char *path,
                              wefti_id_sink sink, void *user) WEFT_CHECKED;
