/* SPDX-License-Identifier: MIT */
/* Turn t takes window t mod ceil(rows / w) of w = round(rate rows) rows, at least 1; the
 * last window of a period ends with the tensor. So each row is taken once in a period. */
#include "replicate/replicators.h"
#include "replicate/select.h"

static int64_t slicing_most(double rate, int64_t rows) {
    return wefti_whole_within(rate * (double)rows, 1, rows);
}

static int64_t period_of(const wefti_selection *s) {
    int64_t window = slicing_most(s->rate, s->rows);
    return (s->rows + window - 1) / window;
}

static int64_t slicing_choose(const wefti_selection *s, uint64_t *scratch,
                              wefti_cover_range *runs) {
    (void)scratch;
    int64_t window = slicing_most(s->rate, s->rows);
    int64_t begin = s->turn % period_of(s) * window;
    runs[0] = (wefti_cover_range){begin,
                                  s->rows - begin < window ? s->rows - begin : window};
    return 1;
}

static int64_t slicing_count(const wefti_selection *s) {
    return s->turn / period_of(s) + 1;
}

const wefti_chooser wefti_chooser_slicing = {
    .most = slicing_most,
    .choose = slicing_choose,
    .count = slicing_count,
};

const wefti_replicator_ops wefti_replicator_slicing = {
    .name = "slicing",
    .chooser = &wefti_chooser_slicing,
    .method = "slicing",
    WEFTI_SELECT_OPS,
};
