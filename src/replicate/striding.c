/* SPDX-License-Identifier: MIT */
/* Turn t takes rows t mod s, t mod s + s, t mod s + 2 s, ... with s = round(1/rate), at
 * most `rows`: so each row comes once in s turns, and each turn has one at least. If s
 * does not divide rows, the last turns of a period have one row less. */
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

static int64_t striding_round_bytes(const wefti_replicator_config *config,
                                    const wefti_bucket *bucket, int R, int round,
                                    int owner) {
    return wefti_select_round_bytes(&wefti_chooser_striding, config, bucket, R, round,
                                    owner);
}

static int64_t striding_work_bytes(const wefti_replicator_config *config,
                                   const wefti_bucket *buckets, int n_buckets, int R) {
    return wefti_select_work_bytes(&wefti_chooser_striding, config, buckets, n_buckets,
                                   R);
}

static weft_status striding_create(wefti_replicator *r) {
    return wefti_select_create(&wefti_chooser_striding, r);
}

const wefti_replicator_ops wefti_replicator_striding = {
    .name = "striding",
    .summary = "every n-th row of a local momentum, each in its turn",
    .states = wefti_select_states,
    .rounds = wefti_select_rounds,
    .round_bytes = striding_round_bytes,
    .one_by_one = true,
    .work_bytes = striding_work_bytes,
    .create = striding_create,
    .begin = wefti_select_begin,
    .combine = wefti_select_combine,
    .end = wefti_select_end,
    .cover = wefti_select_cover,
    .destroy = wefti_select_destroy,
};
