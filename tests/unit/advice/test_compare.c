/* SPDX-License-Identifier: MIT */
#include "configs.h"
#include "room.h"

#include <math.h>

#include <weft/plan.h>

#include "record/planned.h"

/* Two nodes on a wire that takes longer than the backward pass: there is something to
 * wait for. */
static weft_watch *make_watch(void) {
    weft_config *run = config_with(
        ctx, PLANNED_RUN,
        "run.steps=100 batch.tokens_per_step=2048 "
        "schedule.warmup=1 mesh.nodes=2 mesh.link=100Mbit,1ms");
    weft_cluster *cluster;
    weft_watch *watch;
    assert_ok(ctx, weft_cluster_create(ctx, &cluster));
    assert_ok(ctx, weft_cluster_set(ctx, cluster, "nodes", "2"));
    assert_ok(ctx, weft_cluster_set(ctx, cluster, "rank-flops", "10G"));
    assert_ok(ctx, weft_watch_create(ctx, run, cluster, &watch));
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, run);
    assert_true(weft_watch_prediction(watch)->wait_s > 0);
    return watch;
}

/* n steps as predicted, but with computing and waiting that much longer; how often
 * something was said, the last of it in `sentence`. */
static int take(weft_watch *watch, int n, double more_compute, double more_wait,
                char sentence[400]) {
    const weft_prediction *p = weft_watch_prediction(watch);
    double calm = p->step_s.median - p->wait_s; /* as train writes it */
    int said = 0;
    for (int i = 0; i < n; i++) {
        weft_step_record r = {.compute_s = more_compute * calm,
                              .wait_s = more_wait * p->wait_s};
        r.step_s = r.compute_s + r.wait_s;
        said += weft_watch_step(watch, &r, sentence, 400);
    }
    return said;
}

/* On a machine that is busy now and then both causes would be said in turns for ever. */
TEST_IN(begin, end, a_cause_that_comes_and_goes_is_said_more_and_more_rarely) {
    char sentence[400] = "";
    weft_watch *watch = make_watch();
    int said = take(watch, 2, 1, 1, sentence), later = 0; /* two that do not count */
    for (int i = 0; i < 100; i++) {
        int now = take(watch, 20, 2, 1, sentence) + take(watch, 20, 1, 4, sentence);
        said += now;
        if (i >= 50) later += now;
        if (i == 0) assert_int_equal(now, 2); /* each at once */
    }
    assert_int_equal(later, 2);
    assert_in_range(said, 6, 14);
    weft_watch_destroy(ctx, watch);
}

TEST_IN(begin, end, a_run_as_predicted_says_nothing) {
    char sentence[400] = "";
    weft_watch *watch = make_watch();
    assert_true(isnan(weft_watch_look(watch)->measured_s));
    assert_true(isnan(weft_watch_ratio(watch)));
    assert_int_equal(take(watch, 80, 1, 1, sentence), 0);
    assert_true(fabs(weft_watch_ratio(watch) - 1) < 1e-9);
    assert_int_equal(take(watch, 80, 1.1, 1.1, sentence), 0); /* within 20 % */
    assert_string_equal(sentence, "");
    weft_watch_destroy(ctx, watch);
}

static void expect_cause(double more_compute, double more_wait, const char *words) {
    char sentence[400] = "";
    weft_watch *watch = make_watch();
    assert_int_equal(take(watch, 21, more_compute, more_wait, sentence), 0);
    assert_int_equal(take(watch, 1, more_compute, more_wait, sentence), 1);
    if (!strstr(sentence, words)) fail_msg("'%s' lacks '%s'", sentence, words);
    assert_int_equal(take(watch, 60, more_compute, more_wait, sentence), 0); /* once */
    weft_watch_destroy(ctx, watch);
}

/* 40 steps in which rank 1 computes behind_s longer than the first rank, which waits for it, and
 * the wire wait_s longer. */
static void expect_behind(double behind_s, double wait_s, const char *words) {
    char sentence[400] = "";
    weft_watch *watch = make_watch();
    const weft_prediction *p = weft_watch_prediction(watch);
    for (int i = 0; i < 40; i++) {
        bool stalls = i % 2 == 1; /* in every second step */
        weft_step_record r = {.compute_s = p->step_s.median - p->wait_s,
                              .wait_s = p->wait_s + wait_s + (stalls ? behind_s : 0),
                              .behind_s = stalls ? behind_s : 0,
                              .slowest_rank = stalls};
        r.step_s = r.compute_s + r.wait_s;
        (void)weft_watch_step(watch, &r, sentence, sizeof sentence);
    }
    if (!strstr(sentence, words)) fail_msg("'%s' lacks '%s'", sentence, words);
    weft_watch_destroy(ctx, watch);
}

TEST_IN(begin, end, waiting_for_a_slow_machine_is_not_waiting_for_the_wire) {
    double step_s = 1; /* above that of the plan */
    expect_behind(step_s, 0, ": computing is slower on rank 1 (waiting ");
    expect_behind(step_s, step_s / 8, ": computing is slower on rank 1 (waiting ");
    expect_behind(step_s / 8, step_s, "waiting is longer, for the wire");
}

TEST_IN(begin, end, the_cause_is_what_parts_most) {
    expect_cause(3, 1, "computing is slower");
    expect_cause(1, 3, "waiting is longer, for the wire");
    expect_cause(0.2, 0.9, "computing is faster");
    expect_cause(1, 0, "waiting is shorter");
}

/* The first two steps touch memory for the first time. */
TEST_IN(begin, end, the_first_steps_do_not_count) {
    char sentence[400] = "";
    weft_watch *watch = make_watch();
    assert_int_equal(take(watch, 2, 100, 100, sentence), 0);
    assert_int_equal(take(watch, 40, 1, 1, sentence), 0);
    assert_true(fabs(weft_watch_look(watch)->measured_s /
                         weft_watch_prediction(watch)->step_s.median -
                     1) < 1e-9);
    weft_watch_destroy(ctx, watch);
}

TEST_IN(begin, end, steps_that_are_held_up_are_stragglers) {
    char sentence[400] = "";
    int said = 0;
    weft_watch *watch = make_watch();
    for (int i = 0; i < 44; i++) said += take(watch, 1, 1, i % 6 ? 1 : 8, sentence);
    assert_int_equal(said, 1);
    assert_non_null(strstr(sentence, "some steps are held up"));
    weft_watch_destroy(ctx, watch);
}

/* More steps than the run was to have are no harm. */
TEST_IN(begin, end, there_is_no_end_of_steps) {
    char sentence[400];
    weft_watch *watch = make_watch();
    assert_int_equal(take(watch, 500, 1, 1, sentence), 0);
    assert_true(weft_watch_look(watch)->measured_s > 0);
    weft_watch_destroy(ctx, watch);
}

/* n steps in a form, with an outer step of 550 ms behind nine of 50 ms. */
static void take_form(weft_watch *watch, int n, const char *form, double planned_s) {
    char sentence[400];
    for (int i = 0; i < n; i++) {
        weft_step_record r = {.form = form, .planned_s = planned_s};
        r.step_s = r.compute_s = i % 10 == 9 ? 0.55 : 0.05;
        assert_false(weft_watch_step(watch, &r, sentence, sizeof sentence));
    }
}

TEST_IN(begin, end, a_form_that_a_run_changes_to_has_a_plan_of_its_own) {
    char sentence[400] = "";
    weft_watch *watch = make_watch();
    assert_int_equal(take(watch, 40, 1, 1, sentence), 0);
    take_form(watch, 6, "outer f32 10 0.4", 0.1); /* two do not count */
    assert_true(isnan(weft_watch_ratio(watch)));
    take_form(watch, 46, "outer f32 10 0.4", 0.1);
    assert_true(fabs(weft_watch_ratio(watch) - 0.9) < 1e-9); /* 4 of 50 are outer ones */
    take_form(watch, 50, "outer f32 10 0.5", 0.1); /* another momentum is no change */
    assert_true(fabs(weft_watch_ratio(watch) - 0.95) < 1e-9);
    weft_watch_outcome o = *weft_watch_look(watch);
    assert_true(o.mean && o.planned_s == 0.1 && fabs(o.measured_s / 0.1 - 0.95) < 1e-9);
    take_form(watch, 40, "full int8", 0); /* a new first process does not know it */
    assert_true(isnan(weft_watch_ratio(watch)) &&
                isnan(weft_watch_look(watch)->planned_s));
    weft_watch_destroy(ctx, watch);
}

/* A run that is resumed, say. */
TEST_IN(begin, end, a_run_that_begins_in_another_form_has_no_plan) {
    weft_watch *watch = make_watch();
    take_form(watch, 40, "outer f32 10 0.4", 0);
    assert_true(isnan(weft_watch_ratio(watch)));
    weft_watch_destroy(ctx, watch);
    watch = make_watch();
    take_form(watch, 19, "full f32", 0);
    assert_true(weft_watch_ratio(watch) > 0);
    weft_watch_destroy(ctx, watch);
}

static double planned(const wefti_planned *f, const char *name) {
    for (int i = 0; i < WEFTI_N_PLANNED; i++)
        if (strcmp(wefti_planned_names[i], name) == 0) return f->value[i];
    fail_msg("%s", name);
    return 0;
}

TEST_IN(begin, end, what_is_written_the_report_reads) {
    wefti_planned f;
    bool found;
    weft_watch *watch = make_watch();
    const weft_prediction *p = weft_watch_prediction(watch);
    assert_ok(ctx, weft_watch_write(ctx, watch, "room"));
    assert_ok(ctx, wefti_planned_read(ctx, "room/plan.json", &f, &found));
    assert_true(found);
    assert_true(fabs(planned(&f, "median_step_s") / p->step_s.median - 1) < 1e-6);
    assert_true(fabs(planned(&f, "wait_s") / p->wait_s - 1) < 1e-6);
    assert_true(fabs(planned(&f, "wire_bytes_out") / p->wire_bytes - 1) < 1e-6);
    assert_true(f.timeline.n > 8);
    assert_int_equal(f.timeline.n, p->n_spans);
    for (int64_t i = 0; i < f.timeline.n; i++)
        assert_true(f.timeline.items[i].end_s >= f.timeline.items[i].begin_s);
    wefti_planned_fini(ctx, &f);
    weft_watch_destroy(ctx, watch);
}

TEST_IN(begin, end, a_folder_that_is_not_there_is_an_error) {
    weft_watch *watch = make_watch();
    assert_int_equal(weft_watch_write(ctx, watch, "room/none"), WEFT_ERR_FILE);
    assert_non_null(strstr(weft_ctx_message(ctx), "room/none/plan.json"));
    weft_watch_destroy(ctx, watch);
}
