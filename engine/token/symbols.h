/* SPDX-License-Identifier: MIT */
#pragma once

#include "token/vocab.h"

/* The symbols of a piece that merging starts from, for a tokenizer with a pipeline: bytes, or
 * characters, or the bytes of characters that have no token. At most n of them, into ids;
 * returns how many. */
int64_t wefti_symbols(const weft_tokenizer *t, const char *piece, int64_t n,
                      int32_t *ids);
