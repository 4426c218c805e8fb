/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/dataset.h>

/* Where rows of ids come from and what a model takes of them. */
typedef struct wefti_row_ids {
    int64_t row;   /* the number of the first row */
    int64_t n;     /* rows */
    int64_t T;     /* ids of a row */
    int64_t vocab; /* ids lie below it */
} wefti_row_ids;

/* Refuses an id that the model has no row for, among the tokens and targets of windows of a
 * text. Rows of other kinds lie in memory since they were checked: nothing is looked at. */
weft_status wefti_row_ids_check(weft_ctx *ctx, const weft_dataset *dataset,
                                const wefti_row_ids *rows, const int32_t *tokens,
                                const int32_t *targets) WEFT_CHECKED;
