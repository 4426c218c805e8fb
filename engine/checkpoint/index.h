/* SPDX-License-Identifier: MIT */
#pragma once

#include "checkpoint/listing.h"

/* index.json: the files of a checkpoint, and a hash of the index itself. docs/file-formats.md */

/* Builds the text. [out] *text owned by the caller (wefti_free). */
weft_status wefti_index_encode(weft_ctx *ctx, int64_t step, const char *layout_json,
                               const wefti_listing *listing, char **text,
                               int64_t *n_text) WEFT_CHECKED;

/* Checks and reads the text; `where` is named in errors. [out] *layout_json owned by the
 * caller (wefti_free). On failure nothing is owned. */
weft_status wefti_index_decode(weft_ctx *ctx, const char *where, const char *text,
                               int64_t n_text, int64_t *step, char **layout_json,
                               wefti_listing *listing) WEFT_CHECKED;
