/* SPDX-License-Identifier: MIT */
/* What is known of how fast others compute. */
#include "check.h"
#include "rank/rank.h"

enum { R = 2 };

static double last_s[R * WEFTI_SPEED_STEPS], step_s[R];
static wefti_taken taken[R];
static int64_t rows[R], before[R], next[R];
static wefti_job job = {.R = R, .S = 1, .batch.rows = rows, .batch.earlier = before};
static wefti_rank r;

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < R; i++) rows[i] = before[i] = 12, taken[i] = (wefti_taken){0};
    for (int i = 0; i < R * WEFTI_SPEED_STEPS; i++) last_s[i] = 0;
    job.batch.shared_step = 0;
    job.replicator_config.kind = "demo";
    r = (wefti_rank){
        .job = &job,
        .shares.speeds = {
            .last_s = last_s, .step_s = step_s, .taken = taken, .next = next}};
    return 0;
}

static bool step_of(int64_t step, double a_s, double b_s) {
    double took_s[2];
    wefti_speeds_note(&r, 0, a_s);
    wefti_speeds_note(&r, 1, b_s);
    wefti_speeds_end(&r, step);
    return wefti_speeds_decide(&r, step + 1, took_s);
}

/* Three of eight steps say nothing; the first one never does. */
static void steps_asleep_say_nothing(void **state) {
    assert_false(step_of(0, 1, 999));
    for (int64_t step = 1; step < 9; step++)
        assert_false(step_of(step, step % 3 == 0 ? 400 : 12, step == 4 ? 0 : 12));
    assert_true(taken[0].step_s == 12 && taken[1].step_s == 12);
}

static void rows_follow_lasting_speed_every_eight_steps(void **state) {
    for (int64_t step = 0; step < 16; step++)
        assert_false(step_of(step, step < 9 ? 12 : 36, 12));
    assert_true(step_of(16, 36, 12));
    assert_true(next[0] == 6 && next[1] == 18);
    assert_true(taken[0].earlier_rows == 12 && taken[0].earlier_s == 36);
}

/* Of steps that are read when rows have changed; and of what a step costs beside its rows. */
static void only_steps_with_the_rows_of_now_count(void **state) {
    for (int64_t step = 0; step < 8; step++) step_of(step, 4 + 32, 12);
    assert_true(step_of(8, 4 + 32, 12));
    before[0] = before[1] = 12;
    for (int i = 0; i < R; i++) rows[i] = next[i];
    assert_true(rows[0] == 6);
    job.batch.shared_step = 17;
    for (int64_t step = 9; step < 17; step++) assert_false(step_of(step, 500, 1));
    for (int64_t step = 17; step < 24; step++) assert_false(step_of(step, 4 + 16, 18.5));
    assert_false(step_of(24, 4 + 16, 18.5)); /* 20 s are not a twentieth too long */
    assert_true(taken[0].step_s == 20 && taken[0].earlier_s == 36);
    for (int64_t step = 25; step < 32; step++) step_of(step, 4 + 16, 12);
    assert_true(step_of(32, 4 + 16, 12));
    assert_true(next[0] == 3 && next[1] == 21); /* 4 + 8 s beside 6 + 7: half is rows' */
}

/* A mixer's rows change at most once in its period, after its first fragment. */
static void a_mixers_rows_change_between_its_periods(void **state) {
    job.replicator_config.kind = "none";
    job.mixer_config = (wefti_mixer_config){.kind = "outer", .outer_every = 6};
    for (int64_t step = 0; step < 11; step++) assert_false(step_of(step, 36, 12));
    assert_true(step_of(11, 36, 12));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(steps_asleep_say_nothing, set_up),
        cmocka_unit_test_setup(rows_follow_lasting_speed_every_eight_steps, set_up),
        cmocka_unit_test_setup(only_steps_with_the_rows_of_now_count, set_up),
        cmocka_unit_test_setup(a_mixers_rows_change_between_its_periods, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
