/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>
#include <weft/ctx.h>

/* Writes a JSON value as text. A NULL value counts as lack of memory. [out] *text owned
 * by the caller (wefti_free), with a NUL after its *n_bytes bytes. */
weft_status wefti_json_text(weft_ctx *ctx, const json_t *value, size_t flags, char **text,
                            int64_t *n_bytes) WEFT_CHECKED;
