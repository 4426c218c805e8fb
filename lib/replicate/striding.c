/* SPDX-License-Identifier: MIT */
/* Turn t takes rows t mod s, t mod s + s, t mod s + 2 s, ... with s = round(1/rate), at
 * most `rows`: so each row is taken once in s turns, and each turn takes at least one
 * row. If s does not divide rows, the last turns of a period take one row less. */
#include "replicate/replicators.h"
#include "replicate/select.h"

static int64_t stride_of(double rate, int64_t rows) {
    return wefti_whole_within(1 / rate, 1, rows);
}

static int64_t striding_most(double rate, int64_t rows) {
    int64_t stride = stride_of(rate, rows);
    return (rows + stride - 1) / stride;
}

static int64_t striding_choose(const wefti_selection *s, uint64_t *scratch,
                               wefti_cover_range *runs) {
    (void)scratch;
    int64_t stride = stride_of(s->rate, s->rows), n = 0;
    if (stride == 1) {
        runs[0] = (wefti_cover_range){0, s->rows};
        return 1;
    }
    for (int64_t row = s->turn % stride; row < s->rows; row += stride)
        runs[n++] = (wefti_cover_range){row, 1};
    return n;
}

static int64_t striding_count(const wefti_selection *s) {
    return s->turn / stride_of(s->rate, s->rows) + 1;
}

const wefti_chooser wefti_chooser_striding = {
    .most = striding_most,
    .choose = striding_choose,
    .count = striding_count,
};

const wefti_replicator_ops wefti_replicator_striding = {
    .name = "striding",
    .chooser = &wefti_chooser_striding,
    .method = "striding",
    WEFTI_SELECT_OPS,
};
