/* SPDX-License-Identifier: MIT */
/* Which rows random, striding and slicing choose. */
#include <math.h>

#include "check.h"
#include "replicate/select.h"

enum { MAX_ROWS = 1000 };

static const wefti_chooser *const choosers[] = {
    &wefti_chooser_random, &wefti_chooser_striding, &wefti_chooser_slicing};
static const double rates[] = {1.0,   0.75,    0.5,      1.0 / 3,  0.3,  0.25,
                               0.125, 1.0 / 7, 1.0 / 16, 1.0 / 64, 0.01, 1e-6};
enum { N_RATES = sizeof rates / sizeof rates[0] };

static wefti_cover_range runs[MAX_ROWS];
static uint64_t scratch[MAX_ROWS / 64 + 1];

/* hits[row] += 1 for each chosen row; returns how many, after checking the runs' form. */
static int64_t choose(const wefti_chooser *chooser, const wefti_selection *s, int *hits) {
    int64_t n = chooser->choose(s, scratch, runs), chosen = 0;
    assert_in_range(n, 1, wefti_runs_most(chooser, s->rate, s->rows));
    for (int64_t i = 0; i < n; i++) {
        assert_true(runs[i].n >= 1 && runs[i].begin >= 0);
        if (i > 0) assert_true(runs[i].begin > runs[i - 1].begin + runs[i - 1].n);
        assert_true(runs[i].begin + runs[i].n <= s->rows);
        for (int64_t k = 0; k < runs[i].n; k++) hits[runs[i].begin + k]++;
        chosen += runs[i].n;
    }
    assert_in_range(chosen, 1, chooser->most(s->rate, s->rows));
    return chosen;
}

TEST(runs_ascend_apart_inside_the_piece_and_are_no_more_than_said) {
    static int hits[MAX_ROWS];
    for (int c = 0; c < 3; c++)
        for (int r = 0; r < N_RATES; r++)
            for (int64_t rows = 1; rows <= 140; rows++)
                for (int64_t turn = 0; turn < 9; turn++) {
                    wefti_selection s = {rates[r], rows, turn * 7, 3, 11};
                    choose(choosers[c], &s, hits);
                }
}

/* In how many turns each row comes once. */
static int64_t period(const wefti_chooser *chooser, double rate, int64_t rows) {
    int64_t share = (int64_t)floor(rate * (double)rows + 0.5);
    int64_t stride = (int64_t)floor(1 / rate + 0.5);
    if (share < 1) share = 1;
    if (chooser == &wefti_chooser_striding) return stride < rows ? stride : rows;
    return (rows + share - 1) / share;
}

TEST(striding_and_slicing_choose_every_row_once_per_period) {
    static const int64_t more_rows[] = {255, 256, 257, 768, 1000};
    for (int c = 1; c < 3; c++)
        for (int r = 0; r < N_RATES; r++)
            for (int64_t i = 1; i <= 105; i++) {
                int64_t rows = i <= 100 ? i : more_rows[i - 101];
                int64_t P = period(choosers[c], rates[r], rows);
                for (int64_t first = 0; first < 3; first++) { /* any P in a row */
                    int hits[MAX_ROWS] = {0};
                    wefti_selection s = {rates[r], rows, first * (P / 2 + 1), 0, 1};
                    for (int64_t t = 0; t < P; t++, s.turn++)
                        choose(choosers[c], &s, hits);
                    for (int64_t row = 0; row < rows; row++)
                        assert_int_equal(hits[row], 1);
                }
            }
}

TEST(striding_and_slicing_count_the_updates_of_a_row) {
    for (int c = 1; c < 3; c++)
        for (int r = 0; r < N_RATES; r++)
            for (int64_t rows = 1; rows <= 40; rows += 3) {
                int hits[MAX_ROWS] = {0};
                for (int64_t turn = 0; turn < 100; turn++) {
                    wefti_selection s = {rates[r], rows, turn, 0, 1};
                    choose(choosers[c], &s, hits);
                    int64_t count = choosers[c]->count(&s);
                    int64_t n = choosers[c]->choose(&s, scratch, runs);
                    for (int64_t i = 0; i < n; i++)
                        for (int64_t k = 0; k < runs[i].n; k++)
                            assert_int_equal(hits[runs[i].begin + k], count);
                }
            }
}

TEST(the_offset_of_striding_advances_by_one) {
    for (int64_t turn = 0; turn < 40; turn++) {
        wefti_selection s = {1.0 / 8, 50, turn, 0, 1};
        int64_t n = wefti_chooser_striding.choose(&s, scratch, runs);
        assert_int_equal(n, turn % 8 < 2 ? 7 : 6);
        for (int64_t i = 0; i < n; i++)
            assert_true(runs[i].begin == turn % 8 + 8 * i && runs[i].n == 1);
    }
}

TEST(a_window_of_slicing_begins_where_the_last_one_ended) {
    int64_t end = 0;
    for (int64_t turn = 0; turn < 40; turn++) {
        wefti_selection s = {0.1, 64, turn, 0, 1}; /* windows of 6, the last of 4 */
        assert_int_equal(wefti_chooser_slicing.choose(&s, scratch, runs), 1);
        assert_int_equal(runs[0].begin, end % 64);
        assert_int_equal(runs[0].n, turn % 11 == 10 ? 4 : 6);
        end = runs[0].begin + runs[0].n;
    }
}

TEST(random_chooses_as_many_rows_as_the_rate_says) {
    for (int r = 0; r < N_RATES; r++)
        for (int64_t rows = 1; rows < 300; rows += 7) {
            int hits[MAX_ROWS] = {0};
            wefti_selection s = {rates[r], rows, rows, 2, 5};
            int64_t k = (int64_t)floor(rates[r] * (double)rows + 0.5);
            assert_int_equal(choose(&wefti_chooser_random, &s, hits), k < 1 ? 1 : k);
            for (int64_t row = 0; row < rows; row++) assert_true(hits[row] <= 1);
        }
}

/* Each of the 10 pairs of 5 rows has probability 1/10: over 20000 turns 2000 +- 42. */
TEST(random_chooses_every_set_equally_often) {
    int seen[32] = {0}, sets = 0;
    for (int64_t turn = 0; turn < 20000; turn++) {
        wefti_selection s = {0.4, 5, turn, 1, 77};
        int hits[MAX_ROWS] = {0}, set = 0;
        assert_int_equal(choose(&wefti_chooser_random, &s, hits), 2);
        for (int i = 0; i < 5; i++) set |= hits[i] << i;
        seen[set]++;
    }
    for (int set = 0; set < 32; set++) {
        if (seen[set] == 0) continue;
        sets++;
        assert_in_range(seen[set], 2000 - 5 * 43, 2000 + 5 * 43);
    }
    assert_int_equal(sets, 10);
}

/* Some of 640 rows is missed in T turns with probability at most 640 (1 - 1/16)^T. */
TEST(random_covers_every_row_in_time) {
    int hits[MAX_ROWS] = {0};
    int64_t turns = (int64_t)(log(640 * 1e9) / -log(1 - 1.0 / 16)) + 1;
    for (int64_t turn = 0; turn < turns; turn++) {
        wefti_selection s = {1.0 / 16, 640, turn, 4, 3};
        choose(&wefti_chooser_random, &s, hits);
    }
    for (int row = 0; row < 640; row++) assert_true(hits[row] > 0);
}

/* Rows of one tensor say nothing about those of another: of 20 in 200 rows, two tensors
 * share 2 on average, with a variance of 20 * 0.1 * 0.9 * 180/199 = 1.63 per turn. */
TEST(no_selection_is_nested_in_that_of_another_tensor) {
    enum { TURNS = 500 };
    int64_t shared = 0;
    for (int64_t turn = 0; turn < TURNS; turn++) {
        int hits[3][MAX_ROWS] = {{0}}, both = 0, wider = 0;
        for (int tensor = 0; tensor < 3; tensor++) {
            wefti_selection s = {0.1, tensor == 2 ? 400 : 200, turn, tensor, 9};
            choose(&wefti_chooser_random, &s, hits[tensor]);
        }
        for (int row = 0; row < 200; row++) {
            both += hits[0][row] && hits[1][row];
            wider += hits[0][row] && hits[2][row];
        }
        assert_true(both < 20 && wider < 20);
        shared += both;
    }
    assert_true(fabs((double)shared - 2 * TURNS) < 5 * sqrt(1.63 * TURNS));
}

TEST(a_choice_depends_on_each_of_its_causes_and_on_nothing_else) {
    wefti_selection base = {0.1, 300, 5, 1, 42}, others[5];
    static uint64_t other_scratch[MAX_ROWS / 64 + 1];
    static wefti_cover_range first[MAX_ROWS];
    int64_t n = wefti_chooser_random.choose(&base, scratch, first);
    memset(other_scratch, 0xff, sizeof other_scratch);
    assert_int_equal(wefti_chooser_random.choose(&base, other_scratch, runs), n);
    assert_memory_equal(first, runs, (size_t)n * sizeof *runs);
    for (int i = 0; i < 5; i++) others[i] = base;
    others[0].rows = 301;
    others[1].turn = 6;
    others[2].tensor = 2;
    others[3].seed = 43;
    others[4].seed = 42 + (1ull << 32);
    for (int i = 0; i < 5; i++) {
        int64_t m = wefti_chooser_random.choose(&others[i], scratch, runs);
        assert_true(m != n || memcmp(first, runs, (size_t)n * sizeof *runs) != 0);
    }
}

/* 1 + Binomial(turn, k / rows) updates has a row that this turn chooses. */
TEST(random_counts_the_updates_that_are_expected) {
    enum { TURNS = 120 };
    double sum = 0, expected = 0;
    int hits[MAX_ROWS] = {0}, chosen = 0;
    for (int64_t turn = 0; turn < TURNS; turn++) {
        wefti_selection s = {0.1, 400, turn, 0, 8};
        choose(&wefti_chooser_random, &s, hits);
        int64_t n = wefti_chooser_random.choose(&s, scratch, runs);
        int64_t count = wefti_chooser_random.count(&s);
        assert_int_equal(count, 1 + (turn + 5) / 10);
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < runs[i].n; k++, chosen++) {
                sum += hits[runs[i].begin + k];
                expected += (double)count;
            }
    }
    assert_true(fabs(sum / expected - 1) < 0.03);
    wefti_selection tiny = {1e-6, 3, 7, 0, 8}, all = {1, 3, 7, 0, 8};
    assert_int_equal(wefti_chooser_random.count(&tiny), 3); /* 1 + round(7 / 3) */
    assert_int_equal(wefti_chooser_random.count(&all), 8);
}
