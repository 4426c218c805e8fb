/* SPDX-License-Identifier: MIT */
/* Ids between a file and the embedding. A shard is checked when it is opened and read
 * again, row by row, during the run; in the meantime the file may be shortened or
 * rewritten:
 *
 *     shortened          the missing ids are read as -1 (data/tokenfile.h)
 *     other ids          whatever the file holds now, also above the vocabulary
 *
 * An id is an index into the embedding and the logits, so an id outside the vocabulary
 * must not pass, neither in a step nor in an evaluation. Ids that were changed into other
 * ids of the vocabulary are different data, not an error. */
#include "passes/rowids.h"

static weft_status check(weft_ctx *ctx, const wefti_row_ids *rows, const int32_t *ids) {
    int64_t n = rows->n * rows->T, i = 0;
    while (i < n && ids[i] >= 0 && ids[i] < rows->vocab) i++;
    if (i == n) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_FORMAT,
        "row %lld of the data has the token %d, expected 0 to %lld: a file "
        "of the data was changed or shortened since it was opened",
        (long long)(rows->row + i / rows->T), ids[i], (long long)rows->vocab - 1);
}

weft_status wefti_row_ids_check(weft_ctx *ctx, const weft_dataset *dataset,
                                const wefti_row_ids *rows, const int32_t *tokens,
                                const int32_t *targets) {
    if (weft_dataset_rows(dataset) != WEFT_ROWS_TEXT) return WEFT_OK;
    WEFT_TRY(check(ctx, rows, tokens));
    return check(ctx, rows, targets);
}
