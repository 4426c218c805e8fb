/* SPDX-License-Identifier: MIT */
/* batch.shares: whole parts of a step's sequences. */
#include <math.h>
#include <weft/sync.h>

#include "check.h"
#include "job/job.h"

static void divides(int64_t all, int n, const int64_t *shares, const int64_t *expected) {
    int64_t parts[4];
    weft_shares_divide(all, n, shares, parts);
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
        int64_t rows = cases[k].rows, longest = 0, all = 0;
        double sum = 0;
        unsigned in = 0;
        wefti_job job = {.batch.rows = &rows,
                         .run = {.inner_rows = 6},
                         .replicator_config = {.kind = "none"},
                         .mixer_config = {.kind = "outer", .outer_every = 8}};
        assert_int_equal(wefti_shares_steps(rows, 6, 8), cases[k].steps);
        for (int64_t step = 16; step < 24; step++) {
            bool last;
            double weight = wefti_job_gathers(&job, 0, step, &last);
            longest = (int64_t)fmax((double)longest, round(1 / weight));
            sum += weight;
            if (last) in |= 1u << (step - 16), all += wefti_job_inner_steps(&job, 0);
        }
        assert_int_equal(in, cases[k].in);
        assert_true(fabs(sum - __builtin_popcount(in)) < 1e-12);
        assert_int_equal(all, cases[k].steps);
        assert_int_equal(longest, cases[k].longest);
    }
}

/* Rows may change in the middle of what is gathered: it counts once all the same, and the steps
 * that are left have as many optimizer steps as so many steps of these rows. */
TEST(gradients_count_once_where_rows_change_meanwhile) {
    for (int64_t was = 1; was < 10; was++)
        for (int64_t now = 1; now < 10; now++)
            for (int64_t at = 16; at < 24; at++) {
                int64_t rows = now, before = was;
                double open = 0;
                int made = 0;
                wefti_job job = {.batch = {.rows = &before, .earlier = &before},
                                 .run = {.inner_rows = 6},
                                 .replicator_config = {.kind = "none"},
                                 .mixer_config = {.kind = "outer", .outer_every = 8}};
                for (int64_t step = 16; step < 24; step++) {
                    bool last;
                    if (step == at)
                        job.batch.rows = &rows, job.batch.shared_step = at, made = 0;
                    open += wefti_job_gathers(&job, 0, step, &last);
                    assert_true(open < 1 + 1e-12 && last == (open > 1 - 1e-12));
                    if (last) open = 0, made++;
                }
                int64_t n = wefti_shares_steps(now, 6, now == was ? 8 : 24 - at);
                assert_true(open == 0);
                if (now < 6 && now != was) assert_int_equal(made, n);
            }
}

TEST(nobody_has_nothing) {
    divides(4, 3, LIST(1000, 1, 1), LIST(2, 1, 1));
    divides(3, 3, LIST(1, 1000, 1), LIST(1, 1, 1));
}

/* Fragments are sent in different steps, so each has other rows behind it when shares change. */
static void weighs_when_shared_in(int64_t at) {
    int64_t rows[4] = {6, 6, 6, 6}, before[4], next[4] = {1, 3, 10, 10};
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
    wefti_job_share(&job, at, next);
    for (int64_t step = at; step < at + 24; step++) {
        assert_true(wefti_job_may_share(&job, step) == (step >= at + 8));
        double sum = 0;
        for (int i = 0; i < 4; i++) {
            double behind = 0; /* in the eight steps up to this one */
            for (int64_t t = step - 7; t <= step; t++)
                behind += t < at ? 6 : (double)next[i];
            double weight = wefti_job_weight_sent(&job, i, step);
            assert_true(fabs(weight - behind * 4 / (8 * 24)) < 1e-15);
            sum += weight;
        }
        assert_true(fabs(sum - 4) <
                    1e-15); /* so a mean that began before is one of all rows */
    }
    job.replicator_config.kind = "demo"; /* in each step, of that step's rows */
    assert_true(wefti_job_weight_sent(&job, 2, at) == wefti_job_weight(&job, 2));
    assert_true(wefti_job_may_share(&job, at + 1));
}

TEST(what_is_sent_weighs_the_rows_since_it_was_sent_last) {
    for (int64_t at = 16; at < 24; at++) weighs_when_shared_in(at);
}
