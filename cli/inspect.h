/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>
#include <weft/tokenizer.h>

/* Checks a token shard, prints a summary of it and its first n_tokens tokens. If a
 * tokenizer is given, the tokens are also printed as text. */
weft_status inspect_shard(weft_ctx *ctx, const char *path,
                          const weft_tokenizer *tokenizer, int64_t n_tokens) WEFT_CHECKED;

/* Prints a summary of a tokenizer.json. */
weft_status inspect_tokenizer(weft_ctx *ctx, const char *path) WEFT_CHECKED;
