/* SPDX-License-Identifier: MIT */
/* What is known of how fast others compute. */
#include "check.h"
#include <math.h>

#include "rank/rank.h"

enum { R = 4 };

static double last_s[(R + 1) * WEFTI_SPEED_BLOCKS], step_s[R];
static wefti_speed_sum block[R + 1];
static weft_config config;
static wefti_taken taken[R];
static int64_t rows[R], before[R], next[R];
static wefti_job job = {
    .B = 1, .S = 1, .batch.rows = rows, .batch.earlier = before, .config = &config};
static wefti_rank r;

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < R; i++) rows[i] = before[i] = 12, taken[i] = (wefti_taken){0};
    memset(last_s, 0, sizeof last_s);
    memset(block, 0, sizeof block);
    job.R = 2;
    job.batch.shared_step = 0;
    job.replicator_config.kind = "demo";
    r = (wefti_rank){.job = &job,
                     .shares.speeds = {.block = block,
                                       .last_s = last_s,
                                       .step_s = step_s,
                                       .taken = taken,
                                       .next = next}};
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

/* A change that was none is taken back; then a machine is slower, and its time with few rows
 * says nothing of what they cost. */
static void what_was_measured_at_another_speed_is_forgotten(void **state) {
    for (int64_t step = 0; step < 8; step++) step_of(step, 36, 12);
    assert_true(step_of(8, 36, 12));
    memcpy(rows, next, sizeof rows);
    for (int64_t step = 9; step < 16; step++) assert_false(step_of(step, 300, 12));
    assert_true(step_of(16, 300, 12));
    memcpy(rows, next, sizeof rows);
    assert_true(rows[0] == 12 && taken[0].earlier_rows == 6 && taken[0].earlier_s == 300);
    for (int64_t step = 17; step < 24; step++) assert_false(step_of(step, 60, 12));
    assert_true(step_of(24, 60, 12));
    assert_true(next[0] == 4 && next[1] == 20);
}

/* A machine that may use `quota` of each tenth of a second, as cgroups give it. */
enum { ALL = 96 };
static const double period_s = 0.1;
typedef struct machine {
    double row_s, quota, left_s;
    int64_t period;
} machine;

/* When it has computed for `work_s`, begun at t. */
static double ends(machine *m, double t, double work_s) {
    for (;;) {
        int64_t period = (int64_t)(t / period_s);
        if (period != m->period) m->period = period, m->left_s = m->quota * period_s;
        double end = (double)(period + 1) * period_s, can = fmin(m->left_s, end - t);
        if (work_s <= can) {
            m->left_s -= work_s;
            return t + work_s;
        }
        work_s -= can;
        m->left_s -= can;
        t = end + 1e-9;
    }
}

/* Who waits for the slowest in each step, 2 ms of which are no computing. */
static machine machines[R];
static struct played {
    double t;
    double noise;
    int64_t step, changes;
} played;

static void begin(double row_s, const double *quotas, double noise) {
    set_up(NULL);
    job.R = R;
    for (int i = 0; i < R; i++) {
        rows[i] = before[i] = ALL / R;
        machines[i] = (machine){.row_s = row_s, .quota = quotas[i], .period = -1};
    }
    played = (struct played){.noise = noise};
}

static void play_until(double t) {
    while (played.t < t) {
        double slowest = 0, took_s[2];
        for (int i = 0; i < R; i++) {
            uint64_t drawn = wefti_rng_u64(1, WEFTI_STREAM_TEST, (uint64_t)played.step,
                                           (uint64_t)i);
            double noise = 1 + played.noise * ((double)(drawn >> 11) * 0x1p-52 - 1);
            double took = ends(&machines[i], played.t,
                               machines[i].row_s * noise * (double)rows[i]) -
                          played.t;
            slowest = fmax(slowest, took);
            wefti_speeds_note(&r, i, took);
        }
        played.t += slowest + 0.002;
        wefti_speeds_end(&r, played.step++);
        if (!wefti_speeds_decide(&r, played.step, took_s)) continue;
        wefti_job_share(&job, played.step, next);
        played.changes++;
    }
}

/* Rows per second in the seconds to come, beside the sum of what the machines can. */
static double reaches(double seconds) {
    struct played was = played;
    double sum = 0;
    for (int i = 0; i < R; i++) sum += machines[i].quota / machines[i].row_s;
    play_until(played.t + seconds);
    return ALL * (double)(played.step - was.step) / (played.t - was.t) / sum;
}

/* Steps from 5 ms to 2 s long, before and after two machines have changed their quotas: rows
 * settle; what is tried later and is no better is taken back, at most once in 17 times 8 blocks of
 * a quarter of a second. */
static void rows_settle_within_quotas(void **state) {
    static const double row_s[] = {0.00005, 0.0002, 0.001, 0.004, 0.02};
    static const double quotas[][R] = {{0.04, 0.12, 0.4, 0.4}, {0.12, 0.04, 0.4, 0.4}};
    for (size_t k = 0; k < sizeof row_s / sizeof row_s[0]; k++) {
        begin(row_s[k], quotas[0], 0.1);
        for (int turn = 0; turn < 2; turn++) {
            for (int i = 0; i < R; i++) machines[i].quota = quotas[turn][i];
            play_until(played.t + 80);
            int64_t changes = played.changes;
            double found = reaches(340);
            changes = played.changes - changes;
            if (found < 0.75 || changes > 20)
                fail_msg("%g s, %d: %g of the sum, %lld changes", row_s[k], turn, found,
                         (long long)changes);
        }
    }
}

/* Where there are no quotas, nothing changes once it is known; of a machine that is half, and then
 * again twice, as fast, rows are right after 24 blocks. */
static void rows_of_constant_speeds_stay_and_follow_a_change(void **state) {
    static const double ones[R] = {1, 1, 1, 1};
    static const int64_t right[2][R] = {{11, 34, 17, 34}, {9, 29, 29, 29}};
    static const struct {
        double row_s, noise, blocks_s;
    } cases[] = {{0.0001, 0.1, 7}, {0.001, 0.1, 7}, {0.02, 0.02, 24 * 1.2}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        begin(cases[k].row_s, ones, cases[k].noise);
        machines[0].row_s *= 3;
        play_until(60);
        int64_t changes = played.changes;
        play_until(600);
        assert_int_equal(played.changes, changes);
        for (int turn = 0; turn < 2; turn++) {
            machines[2].row_s *= turn ? 0.5 : 2;
            play_until(played.t + cases[k].blocks_s);
            for (int i = 0; i < R; i++)
                assert_in_range(rows[i], right[turn][i] - 1, right[turn][i] + 1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(steps_asleep_say_nothing, set_up),
        cmocka_unit_test_setup(rows_follow_lasting_speed_every_eight_steps, set_up),
        cmocka_unit_test_setup(only_steps_with_the_rows_of_now_count, set_up),
        cmocka_unit_test_setup(a_mixers_rows_change_between_its_periods, set_up),
        cmocka_unit_test_setup(what_was_measured_at_another_speed_is_forgotten, set_up),
        cmocka_unit_test_setup(rows_settle_within_quotas, set_up),
        cmocka_unit_test_setup(rows_of_constant_speeds_stay_and_follow_a_change, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
