/* SPDX-License-Identifier: MIT */
/* Emulated slowness. A sleep never ends early, so only that is judged. */
#include "base/clock.h"
#include "check.h"
#include "rank/rank.h"

static const double stop_s = 0.02, long_ago_s = 100;

/* One rank, so the one that is drawn; it has computed since long ago. */
static double slept(wefti_rank *r) {
    double from_s = wefti_now_s();
    wefti_rank_pace(r, 0.5);
    return wefti_now_s() - from_s;
}

TEST(a_straggler_stops_however_long_it_has_computed) {
    weft_config config = {.mesh = {.compute_time = 0.001, .straggler_time = stop_s}};
    wefti_job job = {.config = &config, .W = 1};
    wefti_rank r = {.job = &job, .now.begun_s = wefti_now_s() - long_ago_s};
    for (int step = 0; step < 2; step++) {
        r.now.stopped_s = 0;
        assert_true(slept(&r) >= stop_s);
        assert_true(r.now.stopped_s == stop_s); /* once in a step */
        slept(&r);
        assert_true(r.now.stopped_s == stop_s);
    }
    config.mesh.compute_time = 0;
    r.now.stopped_s = 0;
    assert_true(slept(&r) >= stop_s);
}

TEST(nobody_stops_without_the_key) {
    weft_config config = {.mesh = {.compute_time = 0.001}};
    wefti_job job = {.config = &config, .W = 1};
    wefti_rank r = {.job = &job, .now.begun_s = wefti_now_s() - long_ago_s};
    slept(&r);
    assert_true(r.now.stopped_s == 0);
}
