/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include <weft/plan.h>

/* Building JSON; a failure for lack of memory sets *ok to false. */

/* Takes the value. */
void wefti_json_put(json_t *object, const char *name, json_t *value, bool *ok);

/* Null if it is not finite. */
json_t *wefti_json_real(double value);

/* A text; if it is not valid UTF-8, every byte that is not ASCII becomes a question mark. */
json_t *wefti_json_words(const char *words);

/* A prediction without its spans. */
json_t *wefti_json_prediction(const weft_prediction *p, bool *ok);

/* Takes the value. [out] *text owned by the caller (wefti_free). */
weft_status wefti_json_dumped(weft_ctx *ctx, json_t *value, bool ok, size_t flags,
                              char **text) WEFT_CHECKED;
