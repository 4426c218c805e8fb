/* SPDX-License-Identifier: MIT */
/* Which steps tell how fast nodes compute, and before which ones rows may change. */
#include "check.h"

#include "rank/rank.h"
#include <weft/sync.h>

static double numbers[64];
static weft_config config = {.mesh.compute_time = 1};
static wefti_said said[2];
static int64_t rows[2], before[2], next[2];
static wefti_job job = {.R = 2,
                        .B = 1,
                        .S = 1,
                        .batch.rows = rows,
                        .batch.earlier = before,
                        .config = &config};
static wefti_rank r = {
    .job = &job,
    .shares = {.speeds = (wefti_speeds *)numbers, .said = said, .next = next}};

static void begin(const char *replicator) {
    for (int i = 0; i < 2; i++) rows[i] = before[i] = 12;
    assert_in_range(weft_shares_numbers(2), 1, sizeof numbers / sizeof numbers[0]);
    weft_shares_begin(2, rows, numbers);
    job.batch.shared_step = 0;
    job.replicator_config.kind = replicator;
}

static bool step_of(int64_t step, double a_s, double b_s) {
    double took_s[2];
    wefti_rank_note_speed(&r, 0, a_s);
    wefti_rank_note_speed(&r, 0, a_s / 2); /* of its ranks the slowest */
    wefti_rank_note_speed(&r, 1, b_s);
    wefti_rank_end_speeds(&r, step);
    return wefti_rank_follows_speed(&r, step + 1, took_s);
}

/* Those that are read when rows have changed are of the rows before. */
TEST(only_steps_with_the_rows_of_now_count) {
    begin("demo");
    for (int64_t step = 0; step < 2; step++) assert_false(step_of(step, 36, 12));
    assert_true(step_of(2, 36, 12));
    assert_true(next[0] == 6 && next[1] == 18);
    wefti_job_share(&job, 11, next);
    for (int64_t step = 3; step < 11; step++) assert_false(step_of(step, 500, 1));
    for (int64_t step = 11; step < 29; step++) assert_false(step_of(step, 18, 18));
    assert_true(r.shares.speeds->of[0].step_s == 18 && rows[0] == 6);
}

/* A mixer's rows change at most once in as many steps as its period has. */
TEST(a_mixers_rows_change_once_in_its_period) {
    begin("none");
    job.mixer_config = (wefti_mixer_config){.kind = "outer", .outer_every = 6};
    for (int64_t step = 0; step < 2; step++) assert_false(step_of(step, 36, 12));
    assert_true(step_of(2, 36, 12));
    wefti_job_share(&job, 3, next);
    for (int64_t step = 3; step < 8; step++) assert_false(step_of(step, 90, 18));
    assert_true(step_of(8, 90, 18));
}
