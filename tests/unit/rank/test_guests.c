/* SPDX-License-Identifier: MIT */
/* In how many steps a guest gets its state, and what the others do without it meanwhile. What
 * travels is looked at on real runs (cli/guests). */
#include "rank/guests.h"

#include <math.h>

#include "check.h"

static const double rate_Bps = 12.5e6, step_s = 0.5; /* 100 Mbit/s */

/* n bytes take n / rate, of which a slice may take a quarter of a step. */
static void a_slice_takes_a_quarter_of_a_step(void **state) {
    for (int64_t n = 4000000; n < 5000000000; n += n / 3) {
        int64_t slices = wefti_guests_slices(n, rate_Bps, step_s);
        double slice_s = (double)n / rate_Bps / (double)slices;
        assert_in_range(slices, 2, 4096);
        if (slices < 4096 && slice_s > 0.25 * step_s)
            fail_msg("%lld bytes: a slice takes %g s", (long long)n, slice_s);
        if (slices > 2 && slice_s * (double)slices / (double)(slices - 1) < 0.25 * step_s)
            fail_msg("%lld bytes: %lld slices are too many", (long long)n,
                     (long long)slices);
    }
}

/* A tenth of a second of waiting is cheaper than many steps with a guest. */
static void what_is_little_comes_at_once(void **state) {
    int64_t tenth = (int64_t)(0.1 * rate_Bps);
    assert_int_equal(wefti_guests_slices(0, rate_Bps, step_s), 0);
    assert_int_equal(wefti_guests_slices(tenth, rate_Bps, 1e-3), 0);
    assert_in_range(wefti_guests_slices(tenth + 2, rate_Bps, 1e-3), 2, 4096);
    assert_int_equal(wefti_guests_slices(2 * tenth, rate_Bps, 60), 0); /* one slice */
}

/* Nobody knows how fast the links are, or how long a step takes: all wait. */
static void what_is_not_known_is_not_guessed(void **state) {
    assert_int_equal(wefti_guests_slices(1 << 30, 0, step_s), 0);
    assert_int_equal(wefti_guests_slices(1 << 30, rate_Bps, 0), 0);
    assert_int_equal(wefti_guests_slices(1 << 30, (double)NAN, step_s), 0);
    assert_int_equal(wefti_guests_slices(1 << 30, rate_Bps, (double)NAN), 0);
    assert_int_equal(wefti_guests_slices(INT64_MAX, 1, 1e-9), 4096);
}

/* Of 5 copies of 2 ranks the last 2 are guests: what all come together for is done by the others,
 * whose messages are numbered as if the guests had not counted differently. */
static void guests_stand_by_while_the_others_come_together(void **state) {
    wefti_comm control = {.size = 10}, replica = {.size = 5}, sites = {.size = 5};
    wefti_job job = {.R = 5, .S = 2};
    wefti_rank r = {.job = &job,
                    .comms = {.control = &control, .replica = &replica, .sites = &sites},
                    .guests = {.n = 2, .open = true},
                    .n_control_messages = 7};
    assert_int_equal(wefti_rank_replicas(&r), 3);
    wefti_guests_set_aside(&r, 40, true);
    int64_t members = r.n_control_messages;
    assert_int_equal(control.size, 6);
    assert_int_equal(replica.size, 3);
    assert_int_equal(sites.size, 3);
    r.n_control_messages += 100; /* a guest would have counted none */
    wefti_guests_set_aside(&r, 40, false);
    assert_int_equal(control.size, 10);
    assert_int_equal(replica.size, 5);
    assert_int_equal(sites.size, 5);
    assert_true(r.n_control_messages > members + 100);
    assert_int_equal(r.n_control_messages, r.n_replica_messages);
    int64_t after = r.n_control_messages;
    wefti_guests_set_aside(&r, 41, true);
    assert_true(r.n_control_messages > after);
    wefti_guests_set_aside(&r, 41, false);
}

static void without_guests_all_come_together(void **state) {
    wefti_comm control = {.size = 10}, replica = {.size = 5}, sites = {.size = 5};
    wefti_job job = {.R = 5, .S = 2};
    wefti_rank r = {.job = &job,
                    .comms = {.control = &control, .replica = &replica, .sites = &sites},
                    .guests = {.n = 2, .open = false}, /* they take part by now */
                    .n_control_messages = 7};
    wefti_guests_set_aside(&r, 40, true);
    assert_int_equal(wefti_rank_replicas(&r), 5);
    assert_int_equal(control.size, 10);
    assert_int_equal(r.n_control_messages, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_takes_a_quarter_of_a_step),
        cmocka_unit_test(what_is_little_comes_at_once),
        cmocka_unit_test(what_is_not_known_is_not_guessed),
        cmocka_unit_test(guests_stand_by_while_the_others_come_together),
        cmocka_unit_test(without_guests_all_come_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
