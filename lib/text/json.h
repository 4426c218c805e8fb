/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include <weft/ctx.h>

/* Reads a JSON object; a duplicate key is refused. The error message names
 * "<what><where>"; its status is `blame` if the text is invalid. [out] *out owned by the
 * caller (json_decref); NULL on failure. */
weft_status wefti_json_read(weft_ctx *ctx, const char *what, const char *where,
                            const char *text, int64_t n, weft_status blame,
                            json_t **out) WEFT_CHECKED;

/* The same for a file whose whole numbers may be too large for 64 bits: all numbers are
 * read as doubles. */
weft_status wefti_json_read_loosely(weft_ctx *ctx, const char *where, const char *text,
                                    int64_t n, json_t **out) WEFT_CHECKED;

/* As json_loadb, but fails if anything is lost for lack of memory, and recovers from a
 * single failed allocation. `error` may be NULL. */
json_t *wefti_json_load(const char *text, int64_t n, size_t flags, json_error_t *error);

/* Why a call of the JSON library failed: WEFT_ERR_MEMORY if there is no memory, `blame`
 * otherwise. The library itself does not always report it. `error` may be NULL. */
weft_status wefti_json_blame(const json_error_t *error, weft_status blame);

/* Writes a JSON value as text. A NULL value counts as lack of memory. [out] *text owned
 * by the caller (wefti_free), with a NUL after its *n_bytes bytes. */
weft_status wefti_json_text(weft_ctx *ctx, const json_t *value, size_t flags, char **text,
                            int64_t *n_bytes) WEFT_CHECKED;

/* Writes a file with `value`, indented, and frees the value. */
weft_status wefti_json_write(weft_ctx *ctx, const char *path, json_t *value) WEFT_CHECKED;
