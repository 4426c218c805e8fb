/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* A regular expression or a plain text to look for, read-only: threads share it. */
typedef struct wefti_pattern wefti_pattern;

/* Compiles what stands in a tokenizer.json, in the dialect of Oniguruma as far as both
 * dialects know it; an expression that would mean something else here is refused
 * (WEFT_ERR_FORMAT, with a sentence that does not name the file). */
weft_status wefti_pattern_create(weft_ctx *ctx, const char *text, int64_t n, bool regex,
                                 wefti_pattern **out) WEFT_CHECKED;
void wefti_pattern_destroy(weft_ctx *ctx, wefti_pattern *pattern);

/* One thread's working memory for matching. */
typedef struct wefti_matcher wefti_matcher;
weft_status wefti_matcher_create(weft_ctx *ctx, wefti_matcher **out) WEFT_CHECKED;
void wefti_matcher_destroy(wefti_matcher *matcher);

/* Allows work for a text of n bytes: instead of what is left of that for texts before it, or
 * (shared) beside it. */
void wefti_matcher_allow(wefti_matcher *matcher, int64_t n, bool shared);

/* The first match that begins at or after `from` and is not empty: [out] *start and *end,
 * both n if there is none. The text is well-formed UTF-8. Too
 * much work for the text is an error. */
weft_status wefti_pattern_find(const wefti_pattern *pattern, wefti_matcher *matcher,
                               const char *text, int64_t n, int64_t from, int64_t *start,
                               int64_t *end) WEFT_CHECKED;
