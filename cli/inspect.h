/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>
#include <weft/tokenizer.h>

/* Checks a token shard and prints what it holds and its first n_tokens tokens, as text
 * too if a tokenizer is given. */
weft_status inspect_shard(weft_ctx *ctx, const char *path,
                          const weft_tokenizer *tokenizer, int64_t n_tokens) WEFT_CHECKED;

/* Prints what a tokenizer.json is. */
weft_status inspect_tokenizer(weft_ctx *ctx, const char *path) WEFT_CHECKED;
