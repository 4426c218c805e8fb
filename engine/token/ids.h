/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/tokenizer.h>

/* The tokenizer of data that is ids without a text: its texts are the ids in decimal digits,
 * a blank between two. */
weft_status wefti_tokenizer_create_ids(weft_ctx *ctx, int64_t vocab,
                                       weft_tokenizer **out) WEFT_CHECKED;

/* Whether a tokenizer is one of these, also when it was loaded from a checkpoint. */
bool wefti_tokenizer_is_ids(const weft_tokenizer *tokenizer);

/* Refuses a text that is not a list of ids, of which encoding would leave out what is none. */
weft_status wefti_ids_check(weft_ctx *ctx, const weft_tokenizer *tokenizer,
                            const char *text, int64_t n_bytes) WEFT_CHECKED;
