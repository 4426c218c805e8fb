/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include <weft/ctx.h>

/* Reads a JSON object; a key that comes twice is refused. "<what><where>" is named in the
 * error, which has the status `blame` if the text is to blame. [out] *out owned by the
 * caller (json_decref); NULL on failure. */
weft_status wefti_json_read(weft_ctx *ctx, const char *what, const char *where,
                            const char *text, int64_t n, weft_status blame,
                            json_t **out) WEFT_CHECKED;

/* The same of a file whose whole numbers may be larger than any that is computed with: all
 * numbers are taken as fractions. */
weft_status wefti_json_read_loosely(weft_ctx *ctx, const char *where, const char *text,
                                    int64_t n, json_t **out) WEFT_CHECKED;

/* json_loadb, but what is lost for want of memory fails, and a single failure of an allocation is
 * made good. `error` may be NULL. */
json_t *wefti_json_load(const char *text, int64_t n, size_t flags, json_error_t *error);

/* Why did a call of the JSON library fail: WEFT_ERR_MEMORY if it has no memory, `blame`
 * otherwise. The library itself tells only sometimes; `error` may be NULL. */
weft_status wefti_json_blame(const json_error_t *error, weft_status blame);
