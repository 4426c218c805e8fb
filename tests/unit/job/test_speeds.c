/* SPDX-License-Identifier: MIT */
/* Rows of a step by measured speed. */
#include <math.h>
#include <weft/sync.h>

#include "check.h"
#include "job/speeds.h"

/* --- rows by time --- */

/* Shares are 1 / e, and change where the slowest is done a twentieth sooner, or more, at last:
 * nobody has more than twice as many at once, if its step was not longer than two periods. */
TEST(shares_follow_speed_where_it_pays) {
    static const struct {
        double row_ms[3], rows[3], next[3];
        bool changes;
    } cases[] = {
        {{1, 1, 1}, {8, 8, 8}, {8, 8, 8}, false},
        {{1, 3, 10}, {16, 14, 13}, {30, 10, 3}, true},
        {{1, 3, 10}, {14, 14, 15}, {28, 12, 3}, true},
        {{1, 1, 1}, {4, 100, 100}, {8, 98, 98}, true},
        {{10, 30, 100}, {14, 14, 15}, {28, 12, 3}, true},
        {{21.5, 60, 200},
         {14, 14, 15},
         {30, 10, 3},
         true}, /* 0.301 s: three times as many */
        {{500, 500, 500}, {4, 100, 100}, {68, 68, 68}, true},
        {{1, 1, 1.06}, {20, 20, 20}, {0}, false},  /* 21 instead of 21.2 is not */
        {{1, 1, 1.2}, {8, 8, 8}, {9, 8, 7}, true}, /* 9 instead of 9.6 is */
        {{1, 1, 1.5}, {8, 8, 8}, {9, 9, 6}, true},
        {{1, 1, 1e5}, {8, 8, 8}, {12, 11, 1}, true}, /* nobody has none */
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        wefti_speed of[3] = {{0}};
        double took_s[2];
        for (int i = 0; i < 3; i++) {
            of[i].rows = cases[k].rows[i];
            of[i].step_s = cases[k].rows[i] * cases[k].row_ms[i] / 1000;
        }
        bool changes = wefti_shares_by_speed(3, of, 2, 0.95, took_s);
        assert_int_equal(changes, cases[k].changes);
        for (int i = 0; i < 3 && changes; i++) {
            if (of[i].next != cases[k].next[i])
                fail_msg("%zu: %d has %g rows", k, i, of[i].next);
            assert_true(of[i].next * cases[k].row_ms[i] / 1000 <= took_s[1] + 1e-9);
        }
        assert_true(!changes || took_s[1] < took_s[0]);
    }
}

static double longest(const double *a, const double *b, const double *rows) {
    double most = 0;
    for (int i = 0; i < 3; i++) most = fmax(most, a[i] + b[i] * rows[i]);
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
        static const double first[] = {12, 20, 28}, before[] = {20, 12, 56};
        wefti_speed of[3] = {{0}};
        double took_s[2], least = INFINITY;
        for (int i = 0; i < 3; i++) { /* in units of 10 us, far from a period */
            of[i].rows = first[i];
            of[i].step_s = 1e-5 * (a[k][i] + b[k][i] * first[i]);
            of[i].earlier = before[i];
            of[i].earlier_s = 1e-5 * (a[k][i] + b[k][i] * before[i]);
        }
        for (int i = 1; i <= 24; i++) /* twice as many as now */
            for (int j = 1; i + j < ALL && j <= 40; j++)
                least = fmin(least, longest(a[k], b[k], (double[]){i, j, ALL - i - j}));
        bool changes = wefti_shares_by_speed(3, of, 2, 0.95, took_s);
        double next[] = {of[0].next, of[1].next, of[2].next};
        assert_true(next[0] + next[1] + next[2] == ALL);
        /* at most half of a time counts as no row's */
        bool known = true;
        for (int i = 0; i < 3; i++) known = known && a[k][i] <= b[k][i] * of[i].rows;
        double found = longest(a[k], b[k], next);
        if (known && fabs(found - least) > 1e-9)
            fail_msg("%zu: %g, least %g", k, found, least);
        assert_true(!known || fabs(found - 1e5 * took_s[1]) < 1e-9);
        assert_true(changes || took_s[1] > 0.95 * took_s[0]);
    }
}

/* Rows that hardly changed, and times that say less than nothing of them, are no two times. */
TEST(two_times_alike_say_nothing_of_a_row) {
    static const struct {
        double earlier, earlier_s, next;
    } cases[] = {{0, 0, 5},    /* 8 rows in 16, 8 in 8: 2 and 1 for a row */
                 {7, 15.5, 5}, /* seven rows are too like */
                 {4, 4, 6},    /* 3 for a row, as far as that is known */
                 {7, 1, 5},    /* seven are too like for that, too */
                 {5.5, 1, 6},  /* it became slower: no more than 4 for a row */
                 {4, 12, 4},   /* 1 for a row and 8 beside */
                 {4, 16, 4}};  /* half at least */
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        wefti_speed of[] = {{.rows = 8,
                             .step_s = 16,
                             .earlier = cases[k].earlier,
                             .earlier_s = cases[k].earlier_s},
                            {.rows = 8, .step_s = 8}};
        double took_s[2];
        wefti_shares_by_speed(2, of, 2, 0.95, took_s);
        assert_true(of[0].next == cases[k].next);
    }
}

/* Who was slow with more rows than now, at the end of its quota, is so again: 1.75 for a row more,
 * where a row takes 1. */
TEST(rows_lie_between_two_that_are_known) {
    wefti_speed of[] = {{.rows = 4, .step_s = 4, .earlier = 8, .earlier_s = 11},
                        {.rows = 12, .step_s = 12}};
    double took_s[2];
    assert_true(wefti_shares_by_speed(2, of, 2, 0.95, took_s));
    assert_true(of[0].next == 7 && of[1].next == 9 && took_s[1] == 9.25);
}

/* A step of very many rows: sums of them are exact all the same. */
TEST(all_rows_are_given) {
    wefti_speed of[] = {{.rows = 1 << 29, .step_s = 1},
                        {.rows = (1 << 29) - 1, .step_s = 3.7},
                        {.rows = 1, .step_s = 2}};
    double took_s[2];
    assert_true(wefti_shares_by_speed(3, of, 2, 0.95, took_s));
    assert_true(of[0].next + of[1].next + of[2].next == 1 << 30);
    assert_true(of[2].next == 1 && fabs(3.7 * of[1].next - of[0].next) < 8);
}

/* --- what was measured --- */

enum { R = 4 };
static double numbers[256];
static wefti_speeds *const s = (wefti_speeds *)numbers;

static void begin_with(int copies, int64_t each) {
    int64_t rows[R];
    for (int i = 0; i < copies; i++) rows[i] = each;
    assert_in_range(weft_shares_numbers(R), 1, sizeof numbers / sizeof numbers[0]);
    weft_shares_begin(copies, rows, numbers);
}

static bool step_of(double a_s, double b_s) {
    double took_s[2];
    const wefti_said said[] = {{s->of[0].rows, a_s}, {s->of[1].rows, b_s}};
    wefti_speeds_hear(s, 2, said, 0);
    return wefti_speeds_decide(s, 2, took_s);
}

static void never(int steps, double a_s, double b_s) {
    for (int i = 0; i < steps; i++) assert_false(step_of(a_s, b_s));
}

/* Three of eight steps say nothing; the first one never does. */
TEST(steps_asleep_say_nothing) {
    begin_with(2, 12);
    never(1, 1, 999);
    for (int step = 1; step < 9; step++)
        never(1, step % 3 == 0 ? 400 : 12, step == 4 ? 0 : step == 5 ? NAN : 12);
    assert_true(s->of[0].step_s == 12 && s->of[1].step_s == 12);
}

/* Nor are the rows of a step in which nobody knows how long one took, in a block of several. */
TEST(rows_without_a_time_are_no_speed) {
    double took_s[2];
    begin_with(2, 12);
    for (int step = 0; step < 25; step++) {
        const wefti_said said[] = {{12, 0.1}, {12, step % 3 == 0 ? 0 : 0.1}};
        wefti_speeds_hear(s, 2, said, 0.25);
        assert_false(wefti_speeds_decide(s, 2, took_s));
    }
    assert_true(fabs(s->of[1].step_s - 0.1) < 1e-12);
}

/* Two long steps, or so many short ones as take a second, if the next one is a third shorter; else
 * eight. */
TEST(rows_follow_lasting_speed_after_eight_steps_or_two) {
    begin_with(2, 12);
    never(9, 12, 12);
    never(7, 17, 12);
    assert_true(step_of(17, 12)); /* 14 instead of 17 */
    assert_true(s->of[0].rows == 10 && s->of[1].rows == 14);
    assert_true(s->of[0].before == 12 && s->of[0].earlier == 0); /* a fifth is not much */
    begin_with(2, 12);
    never(9, 12, 12);
    never(1, 36, 12);
    assert_true(step_of(36, 12));
    assert_true(s->of[0].rows == 6 && s->of[1].rows == 18);
    assert_true(s->of[0].earlier == 0); /* the first one may be of two speeds */
    begin_with(2, 12);
    never(9, 0.12, 0.12);
    never(1, 0.36, 0.12); /* two of three */
    assert_true(step_of(0.36, 0.12));
    begin_with(2, 12);
    never(9, 0.012, 0.012);
    never(2, 0.036, 0.012); /* three of four: a block counts for a quarter of a second */
    assert_true(step_of(0.036, 0.012));
}

/* Of what a step costs beside its rows. */
TEST(rows_follow_what_a_row_takes) {
    begin_with(2, 12);
    never(2, 4 + 32, 12);
    assert_true(step_of(4 + 32, 12));
    assert_true(s->of[0].rows == 6);
    never(8, 4 + 16, 18.5); /* 20 s are not a twentieth too long */
    assert_true(s->of[0].step_s == 20 && s->of[0].earlier_s == 36);
    assert_true(step_of(4 + 16, 12));
    assert_true(s->of[0].rows == 3 &&
                s->of[1].rows == 21); /* 4 + 8 s beside 6 + 7: half is rows' */
}

/* A change after which the slowest takes longer is taken back, at once if by a half; not so if that
 * one has fewer rows: it has become slower, and its time with more says nothing of what rows
 * cost. */
TEST(a_change_that_was_none_is_taken_back_if_it_is_to_blame) {
    for (int soon = 0; soon < 2; soon++) {
        begin_with(2, 12);
        never(2, 36, 12);
        assert_true(step_of(36, 12));
        never(soon ? 1 : 7, 18, soon ? 55 : 40);
        assert_true(step_of(18, soon ? 55 : 40));
        assert_true(s->of[0].rows == 12 && s->of[1].rows == 12 && s->patience == 2);
    }
    begin_with(2, 12);
    never(2, 36, 12);
    assert_true(step_of(36, 12));
    never(1, 90, 18);
    assert_true(step_of(90, 18));
    assert_true(s->of[0].rows == 1 && s->of[0].earlier == 0 && s->patience == 1);
    begin_with(2, 12);
    never(9, 12, 12);
    never(7, 17, 12);
    assert_true(step_of(17, 12));
    assert_true(s->of[1].rows == 14 && s->of[1].before == 12);
    never(1, 14, 56); /* 14 rows instead of 12 are not to blame for 56 s */
    assert_true(step_of(14, 56));
    assert_true(s->of[0].rows == 18 && s->of[1].rows == 6 && s->patience == 1);
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
    if (m->quota == 1) return t + work_s;
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

static void begin(int64_t all, double row_s, const double *quotas, double noise) {
    begin_with(R, all / R);
    for (int i = 0; i < R; i++)
        machines[i] = (machine){.row_s = row_s, .quota = quotas[i], .period = -1};
    played = (struct played){.noise = noise};
}

static void play_until(double t) {
    while (played.t < t) {
        double slowest = 0;
        wefti_said said[R];
        int64_t next[R];
        for (int i = 0; i < R; i++) {
            uint64_t drawn = wefti_rng_u64(1, WEFTI_STREAM_TEST, (uint64_t)played.step,
                                           (uint64_t)i);
            double noise = 1 + played.noise * ((double)(drawn >> 11) * 0x1p-52 - 1);
            double work_s = machines[i].row_s * noise * s->of[i].rows;
            said[i].rows = s->of[i].rows;
            said[i].seconds = ends(&machines[i], played.t, work_s) - played.t;
            slowest = fmax(slowest, said[i].seconds);
        }
        played.t += slowest + 0.002;
        played.step++;
        if (weft_shares_update(R, &said[0].rows, numbers, next)) played.changes++;
    }
}

/* Rows per second in the seconds to come, beside the sum of what the machines can. */
static double reaches(double seconds) {
    struct played was = played;
    double sum = 0, all = 0;
    for (int i = 0; i < R; i++) {
        sum += machines[i].quota / machines[i].row_s;
        all += s->of[i].rows;
    }
    play_until(played.t + seconds);
    return all * (double)(played.step - was.step) / (played.t - was.t) / sum;
}

/* Steps from 5 ms to 2 s long, before and after two machines have changed their quotas: rows
 * settle; what is tried later and is no better is taken back, at most once in 17 times 8 blocks of
 * a quarter of a second. */
TEST(rows_settle_within_quotas) {
    static const double row_s[] = {0.00005, 0.0002, 0.001, 0.004, 0.02};
    static const double quotas[][R] = {{0.04, 0.12, 0.4, 0.4}, {0.12, 0.04, 0.4, 0.4}};
    for (size_t k = 0; k < sizeof row_s / sizeof row_s[0]; k++) {
        begin(ALL, row_s[k], quotas[0], 0.1);
        for (int turn = 0; turn < 2; turn++) {
            for (int i = 0; i < R; i++) machines[i].quota = quotas[turn][i];
            play_until(played.t + 80);
            int64_t changes = played.changes;
            double found = reaches(340);
            changes = played.changes - changes;
            if (found < 0.85 || changes > 20)
                fail_msg("%g s, %d: %g of the sum, %lld changes", row_s[k], turn, found,
                         (long long)changes);
        }
    }
}

static const double ones[R] = {1, 1, 1, 1};

/* Where there are no quotas, nothing changes once it is known; of a machine that is half, and then
 * again twice, as fast, rows are right after 24 blocks. */
TEST(rows_of_constant_speeds_stay_and_follow_a_change) {
    static const int64_t right[2][R] = {{11, 34, 17, 34}, {9, 29, 29, 29}};
    static const struct {
        double row_s, noise, blocks_s;
    } cases[] = {{0.0001, 0.1, 7}, {0.001, 0.1, 7}, {0.02, 0.02, 24 * 1.2}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        begin(ALL, cases[k].row_s, ones, cases[k].noise);
        machines[0].row_s *= 3;
        play_until(60);
        int64_t changes = played.changes;
        play_until(600);
        assert_int_equal(played.changes, changes);
        for (int turn = 0; turn < 2; turn++) {
            machines[2].row_s *= turn ? 0.5 : 2;
            play_until(played.t + cases[k].blocks_s);
            for (int i = 0; i < R; i++)
                assert_in_range(s->of[i].rows, right[turn][i] - 1, right[turn][i] + 1);
        }
    }
}

/* Of machines that are equal but for noise, nobody ever has other rows. */
TEST(rows_of_equal_machines_stay) {
    static const double row_s[] = {0.0001, 0.001, 0.01};
    for (size_t k = 0; k < sizeof row_s / sizeof row_s[0]; k++) {
        begin(480, row_s[k], ones, 0.05);
        play_until(3600);
        assert_int_equal(played.changes, 0);
    }
}

/* Machines of speeds 1, 3, 10 and 10 change places every minute. Rows are right, to a tenth, when
 * the others have waited for the slowest a few times; what is lost then is the least where a step
 * is short. */
TEST(rows_follow_machines_that_change_every_minute) {
    static const struct {
        double step_s, after_s, of_sum;
    } cases[] = {{0.02, 8, 0.94}, {0.1, 8, 0.9}, {0.25, 12, 0.85}, {0.5, 30, 0.75}};
    static const double speeds[R] = {1, 3, 10, 10};
    enum { TURNS = 16, ROWS = 480, SUM = 24 };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        double row_s = cases[k].step_s * SUM / ROWS;
        begin(ROWS, row_s, ones, 0.02);
        for (int turn = 0; turn < TURNS; turn++) {
            for (int i = 0; i < R; i++)
                machines[i].row_s = row_s / speeds[(i + turn) % R];
            play_until(60 * turn + cases[k].after_s);
            for (int i = 0; i < R; i++) {
                double right = ROWS * speeds[(i + turn) % R] / SUM;
                if (fabs(s->of[i].rows - right) > 0.1 * right + 1)
                    fail_msg("%g s, %d: %g rows of %g", cases[k].step_s, turn,
                             s->of[i].rows, right);
            }
            play_until(60 * (turn + 1));
        }
        double found = (cases[k].step_s + 0.002) * (double)played.step / played.t;
        if (found < cases[k].of_sum) fail_msg("%g s: %g", cases[k].step_s, found);
    }
}
