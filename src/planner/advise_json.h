/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include <weft/plan.h>

/* Pieces of JSON; whatever fails for want of memory sets *ok to false. */

/* Takes the value. */
void wefti_json_put(json_t *object, const char *name, json_t *value, bool *ok);

/* Null if it is not finite. */
json_t *wefti_json_real(double value);

/* A text; letters that are not whole become question marks. */
json_t *wefti_json_words(const char *words);

/* All of a prediction but its spans. */
json_t *wefti_json_prediction(const weft_prediction *p, bool *ok);

/* "compute", "wire", "waiting", "codec". */
const char *wefti_bound_name(weft_bound bound);

/* Takes the value. [out] *text owned by the caller (wefti_free). */
weft_status wefti_json_dumped(weft_ctx *ctx, json_t *value, bool ok, size_t flags,
                              char **text) WEFT_CHECKED;
