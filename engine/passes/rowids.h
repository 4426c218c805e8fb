/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/dataset.h>

/* Which rows the ids come from, and which ids a model takes. */
typedef struct wefti_row_ids {
    int64_t row;   /* the number of the first row */
    int64_t n;     /* rows */
    int64_t T;     /* ids of a row */
    int64_t vocab; /* ids lie below it */
} wefti_row_ids;

/* Refuses an id that the model has no row for, among the tokens and targets of windows of
 * a text. Rows of other kinds have been in memory since they were checked, and are not
 * checked again. */
weft_status wefti_row_ids_check(weft_ctx *ctx, const weft_dataset *dataset,
                                const wefti_row_ids *rows, const int32_t *tokens,
                                const int32_t *targets) WEFT_CHECKED;
