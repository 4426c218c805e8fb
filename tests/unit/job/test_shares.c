/* SPDX-License-Identifier: MIT */
/* batch.shares: whole parts of a step's sequences. */
#include <math.h>

#include "check.h"
#include "job/job.h"

static void divides(int64_t all, int n, const int64_t *shares, const int64_t *expected) {
    int64_t parts[4];
    wefti_shares_divide(all, n, shares, parts);
    for (int i = 0; i < n; i++) assert_int_equal(parts[i], expected[i]);
}

#define LIST(...) ((const int64_t[]){__VA_ARGS__})

TEST(parts_are_whole_and_add_up) {
    divides(32, 2, LIST(3, 1), LIST(24, 8));
    divides(32, 2, LIST(1, 1), LIST(16, 16));
    divides(10, 3, LIST(1, 1, 1), LIST(4, 3, 3)); /* as soon: the first one */
    divides(10, 3, LIST(5, 2, 2), LIST(6, 2, 2));
    divides(8, 3, LIST(1, 1, 3), LIST(2, 1, 5));
    divides(1 << 30, 2, LIST(1000000, 1), LIST((1 << 30) - 1073, 1073));
    divides(40, 4, LIST(1, 3, 10, 10),
            LIST(1, 5, 17, 17)); /* 1.7, with 2 of the first 2 */
}

/* Of n rows where an optimizer step has 6, in 8 steps; and in which of them (bits). */
TEST(optimizer_steps_are_by_rows_and_apart) {
    static const struct {
        int64_t rows, steps, longest;
        unsigned in;
    } cases[] = {{1, 1, 8, 0x80}, {2, 3, 3, 0xa4}, {3, 4, 2, 0xaa}, {5, 7, 2, 0xfe},
                 {6, 8, 1, 0xff}, {8, 8, 1, 0xff}, {9, 16, 1, 0xff}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        int64_t rows = cases[k].rows, longest = 0, sum = 0, all = 0;
        unsigned in = 0;
        wefti_job job = {.batch.rows = &rows,
                         .run = {.inner_rows = 6},
                         .replicator_config = {.kind = "none"},
                         .mixer_config = {.kind = "outer", .outer_every = 8}};
        assert_int_equal(wefti_shares_steps(rows, 6, 8), cases[k].steps);
        for (int64_t step = 16; step < 24; step++) {
            bool last;
            int64_t n = wefti_job_gathers(&job, 0, step, &last);
            if (n > longest) longest = n;
            if (last)
                in |= 1u << (step - 16), sum += n, all += wefti_job_inner_steps(&job, 0);
        }
        assert_int_equal(in, cases[k].in);
        assert_int_equal(sum, 8);
        assert_int_equal(all, cases[k].steps);
        assert_int_equal(longest, cases[k].longest);
    }
}

TEST(nobody_has_nothing) {
    divides(4, 3, LIST(1000, 1, 1), LIST(2, 1, 1));
    divides(3, 3, LIST(1, 1000, 1), LIST(1, 1, 1));
}

/* Shares are 1 / e, and change where the slowest is done a twentieth sooner, or more, at last:
 * nobody has more than twice as many at once. */
TEST(shares_follow_speed_where_it_pays) {
    static const struct {
        double row_s[3];
        int64_t rows[3], next[3];
        bool changes;
    } cases[] = {{{1, 1, 1}, {8, 8, 8}, {8, 8, 8}, false},
                 {{1, 3, 10}, {16, 14, 13}, {30, 10, 3}, true},
                 {{1, 3, 10}, {14, 14, 15}, {28, 12, 3}, true},
                 {{1, 1, 1}, {4, 100, 100}, {8, 98, 98}, true},
                 {{1, 1, 1.06}, {20, 20, 20}, {0}, false}, /* 21 instead of 21.2 is not */
                 {{1, 1, 1.2}, {8, 8, 8}, {9, 8, 7}, true}, /* 9 instead of 9.6 is */
                 {{1, 1, 1.5}, {8, 8, 8}, {9, 9, 6}, true},
                 {{1, 1, 1e5}, {8, 8, 8}, {12, 11, 1}, true}, /* nobody has none */
                 {{1, 0, 1}, {8, 8, 8}, {0}, false},          /* not known yet */
                 {{1, NAN, 1}, {8, 8, 8}, {0}, false},
                 {{1, INFINITY, 1}, {8, 8, 8}, {0}, false},
                 {{1, 1, -1}, {8, 8, 8}, {0}, false}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        wefti_taken taken[3] = {0};
        int64_t next[3] = {0};
        double took_s[2];
        for (int i = 0; i < 3; i++) {
            taken[i].rows = cases[k].rows[i];
            taken[i].step_s = (double)cases[k].rows[i] * cases[k].row_s[i];
        }
        bool changes = wefti_shares_by_speed(3, taken, next, took_s);
        assert_int_equal(changes, cases[k].changes);
        for (int i = 0; i < 3 && changes; i++) {
            assert_int_equal(next[i], cases[k].next[i]);
            assert_true((double)next[i] * cases[k].row_s[i] <= took_s[1] + 1e-9);
        }
        assert_true(!changes || took_s[1] < took_s[0]);
    }
}

static double longest(int n, const double *a, const double *b, const int64_t *rows) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, a[i] + b[i] * (double)rows[i]);
    return most;
}

/* What a step costs whatever its rows is known once rows have changed: then no way to divide them
 * is done sooner. Against all of them. */
TEST(what_a_step_costs_without_rows_is_no_speed) {
    static const double a[][3] = {{0, 0, 0},  {6, 1, 0}, {0, 9, 2},
                                  {30, 1, 1}, {4, 4, 4}, {9, 0, 0}};
    static const double b[][3] = {{1, 3, 10}, {10, 3, 1},  {1, 1, 1},
                                  {4, 1, 2},  {1, 1.5, 2}, {0.9, 1, 7}};
    enum { ALL = 60 };
    for (size_t k = 0; k < sizeof a / sizeof a[0]; k++) {
        wefti_taken taken[3] = {0};
        int64_t next[3];
        double took_s[2], least = INFINITY;
        for (int i = 0; i < 3; i++) {
            int64_t first[] = {12, 20, 28}, before[] = {20, 12, 28};
            taken[i].rows = first[i];
            taken[i].step_s = a[k][i] + b[k][i] * (double)first[i];
            taken[i].earlier_rows = before[i];
            taken[i].earlier_s = a[k][i] + b[k][i] * (double)before[i];
        }
        taken[2].earlier_rows = 56; /* of another time of a run */
        taken[2].earlier_s = a[k][2] + b[k][2] * 56;
        for (int64_t i = 1; i <= 24; i++) /* twice as many as now */
            for (int64_t j = 1; i + j < ALL && j <= 40; j++)
                least = fmin(least, longest(3, a[k], b[k], LIST(i, j, ALL - i - j)));
        bool changes = wefti_shares_by_speed(3, taken, next, took_s);
        assert_int_equal(next[0] + next[1] + next[2], ALL);
        /* at most half of a time counts as no row's */
        bool known = true;
        for (int i = 0; i < 3; i++)
            known = known && a[k][i] <= b[k][i] * (double)taken[i].rows;
        double found = longest(3, a[k], b[k], next);
        if (known && fabs(found - least) > 1e-9)
            fail_msg("%zu: %g, least %g", k, found, least);
        assert_true(!known || fabs(found - took_s[1]) < 1e-9);
        assert_true(changes || took_s[1] > 0.95 * took_s[0]);
    }
}

/* Rows that hardly changed, and times that say less than nothing of them, are no two times. */
TEST(two_times_alike_say_nothing_of_a_row) {
    static const struct {
        int64_t earlier_rows;
        double earlier_s;
        int64_t next;
    } cases[] = {{0, 0, 5},    /* 8 rows in 16, 8 in 8: 2 and 1 for a row */
                 {7, 15.5, 5}, /* seven rows are too like */
                 {4, 4, 5},    /* it became slower: no more than 2 for a row */
                 {4, 12, 4},   /* 1 for a row and 8 beside */
                 {4, 16, 4}};  /* half at least */
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const wefti_taken taken[] = {{8, 16, cases[k].earlier_rows, cases[k].earlier_s},
                                     {8, 8, 0, 0}};
        int64_t next[2];
        double took_s[2];
        wefti_shares_by_speed(2, taken, next, took_s);
        assert_int_equal(next[0], cases[k].next);
    }
}

/* A step of very many rows: sums of them are exact all the same. */
TEST(all_rows_are_given) {
    const wefti_taken taken[] = {
        {1 << 29, 1, 0, 0}, {(1 << 29) - 1, 3.7, 0, 0}, {1, 2, 0, 0}};
    int64_t next[3];
    double took_s[2];
    assert_true(wefti_shares_by_speed(3, taken, next, took_s));
    assert_int_equal(next[0] + next[1] + next[2], 1 << 30);
    assert_true(next[2] == 1 && fabs(3.7 * (double)next[1] - (double)next[0]) < 8);
}

/* Fragments are sent in different steps, so each has other rows behind it when shares change. */
TEST(what_is_sent_weighs_the_rows_since_it_was_sent_last) {
    static int64_t rows[4] = {6, 6, 6, 6}, before[4], next[4] = {1, 3, 10, 10};
    wefti_job job = {.R = 4,
                     .S = 1,
                     .W = 4,
                     .batch.per_step = 24,
                     .batch.rows = rows,
                     .batch.earlier = before};
    job.B = 1;
    job.replicator_config.kind = "none";
    job.mixer_config = (wefti_mixer_config){
        .kind = "outer", .outer_every = 8, .fragments = 4};
    wefti_job_share(&job, 0, rows);
    wefti_job_share(&job, 16, next);
    for (int64_t step = 16; step < 40; step++) {
        double sum = 0;
        for (int i = 0; i < 4; i++) {
            double behind = 0; /* in the eight steps up to this one */
            for (int64_t t = step - 7; t <= step; t++)
                behind += t < 16 ? 6 : (double)next[i];
            double weight = wefti_job_weight_sent(&job, i, step);
            assert_true(fabs(weight - behind * 4 / (8 * 24)) < 1e-15);
            sum += weight;
        }
        assert_true(fabs(sum - 4) <
                    1e-15); /* so a mean that began before is one of all rows */
    }
    job.replicator_config.kind = "demo"; /* in each step, of that step's rows */
    assert_true(wefti_job_weight_sent(&job, 2, 16) == wefti_job_weight(&job, 2));
}

int main(void) { return check_run(NULL, NULL); }
