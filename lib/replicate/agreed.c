/* SPDX-License-Identifier: MIT */
/* Three ways to choose rows that all nodes know by arithmetic (FlexDeMo, arXiv 2502.06728): no
 * index is sent.
 *
 * striding: turn t takes rows t mod s, t mod s + s, t mod s + 2 s, ... with s = round(1/rate), at
 * most `rows`: so each row is taken once in s turns, and each turn takes at least one
 * row. If s does not divide rows, the last turns of a period take one row less. */
#include <string.h>

#include "base/rng.h"
#include "replicate/replicator.h"
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

/* slicing: turn t takes window t mod ceil(rows / w) of w = round(rate rows) rows, at least 1; the
 * last window of a period ends with the tensor. So each row is taken once in a period. */

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

/* random: each turn takes k = round(rate rows) rows, at least 1, drawn again without replacement,
 * for each tensor separately. Floyd's sampling (Bentley & Floyd, CACM 30(9), 1987): for j
 * from rows - k to rows - 1 draw t from 0..j; mark t, or j if t is marked already. It
 * needs one number per row, and the marks are the rows in ascending order. */

static int64_t random_most(double rate, int64_t rows) {
    return wefti_whole_within(rate * (double)rows, 1, rows);
}

/* floor(a b / 2^64): a number below b that is uniform if a is. */
static uint64_t scaled(uint64_t a, uint64_t b) {
    uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
    uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
    uint64_t other = a_low * b_high + (uint32_t)middle;
    return a_high * b_high + (middle >> 32) + (other >> 32);
}

static bool is_marked(const uint64_t *marks, uint64_t i) {
    return marks[i / 64] >> (i % 64) & 1;
}

static void mark_rows(const wefti_selection *s, int64_t k, uint64_t *marks) {
    uint64_t key = wefti_rng_u64(s->seed, WEFTI_STREAM_SELECT, (uint64_t)s->turn,
                                 (uint64_t)s->tensor);
    uint64_t rows = (uint64_t)s->rows, pair[2];
    memset(marks, 0, (rows + 63) / 64 * sizeof(uint64_t));
    for (uint64_t i = 0; i < (uint64_t)k; i++) {
        uint64_t j = rows - (uint64_t)k + i;
        if (i % 2 == 0) wefti_rng_pair(key, WEFTI_STREAM_SELECT, rows, i / 2, pair);
        uint64_t t = scaled(pair[i % 2], j + 1);
        if (is_marked(marks, t)) t = j;
        marks[t / 64] |= 1ull << (t % 64);
    }
}

/* The first marked (or unmarked) row at or after i; `rows` if there is none. Bits after
 * the last row are not marked. */
static int64_t next_row(const uint64_t *marks, int64_t rows, int64_t i, bool marked) {
    uint64_t flip = marked ? 0 : ~0ull;
    while (i < rows) {
        uint64_t word = (marks[i / 64] ^ flip) >> (i % 64);
        if (word) return i + __builtin_ctzll(word);
        i = (i / 64 + 1) * 64;
    }
    return rows;
}

static int64_t random_choose(const wefti_selection *s, uint64_t *scratch,
                             wefti_cover_range *runs) {
    int64_t n = 0, end = 0;
    mark_rows(s, random_most(s->rate, s->rows), scratch);
    while (true) {
        int64_t begin = next_row(scratch, s->rows, end, true);
        if (begin == s->rows) return n;
        end = next_row(scratch, s->rows, begin, false);
        runs[n++] = (wefti_cover_range){begin, end - begin};
    }
}

/* The expected number: this turn for certain, each earlier one with probability
 * k/rows. */
static int64_t random_count(const wefti_selection *s) {
    double share = (double)random_most(s->rate, s->rows) / (double)s->rows;
    return 1 + wefti_whole_within(share * (double)s->turn, 0, s->turn);
}

const wefti_chooser wefti_chooser_random = {
    .most = random_most,
    .choose = random_choose,
    .count = random_count,
};

const wefti_replicator_ops wefti_replicator_random = {
    .name = "random",
    .chooser = &wefti_chooser_random,
    .method = "random",
    WEFTI_SELECT_OPS,
};
