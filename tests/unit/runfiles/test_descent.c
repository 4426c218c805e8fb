/* SPDX-License-Identifier: MIT */
/* Who may write a run folder: a process descends from the folder's last view, or it was left
 * behind. Chains of views, and what contradicts itself in a folder. */
#include "check.h"
#include "runfiles/descent.h"

static weft_ctx *ctx;
static wefti_viewlog *views;

static int setup(void **state) {
    return room_begin(&ctx) || wefti_viewlog_create(ctx, &views) != WEFT_OK;
}

static int teardown(void **state) {
    assert_ok(ctx, wefti_viewlog_close(ctx, views));
    return ctx_end(ctx);
}

static wefti_view_member three[] = {
    {0, 1, "a", false, 0, 0}, {1, 1, "b", false, 0, 0}, {2, 1, "c", false, 0, 0}};

/* View `number` of members `first` to `last` from `step` on, behind one with `before`. */
static wefti_view_line line_of(uint64_t before, int64_t number, int64_t step, int first,
                               int last) {
    wefti_view_line line = {.run = 0xab,
                            .view = number,
                            .step = step,
                            .rows_per_rank = 2,
                            .micro = 1,
                            .shards = 1,
                            .threads = 1,
                            .has_chain = true,
                            .n_members = last - first + 1,
                            .members = three + first};
    line.chain = wefti_views_chain(before, &line);
    return line;
}

static void put(const char *path, const wefti_view_line *lines, int n) {
    wefti_buffer out = {0};
    for (int i = 0; i < n; i++) {
        wefti_buffer one = {0};
        wefti_views_put(ctx, &one, &lines[i]);
        if (lines[i].apart) wefti_buffer_text(ctx, &out, WEFTI_VIEWS_APART);
        wefti_buffer_put(ctx, &out, one.bytes + lines[i].apart, one.n - lines[i].apart);
        wefti_buffer_fini(ctx, &one);
    }
    assert_int_equal(out.status, WEFT_OK);
    assert_ok(ctx, wefti_file_write(ctx, path, out.bytes, out.n));
    wefti_buffer_fini(ctx, &out);
}

static void put_steps(const char *path, int from, int to) {
    wefti_buffer out = {0};
    for (int i = from; i <= to; i++)
        wefti_buffer_print(ctx, &out, "{\"step\":%d,\"loss\":1}\n", i);
    assert_ok(ctx, wefti_file_write(ctx, path, out.bytes, out.n));
    wefti_buffer_fini(ctx, &out);
}

/* As far as the folder is concerned: a name and an index. */
static void put_checkpoint(int step) {
    char path[64];
    snprintf(path, sizeof path, "room/checkpoints/step-%08d", step);
    assert_ok(ctx, wefti_file_mkdirs(ctx, path));
    strcat(path, "/index.json");
    assert_ok(ctx, wefti_file_write(ctx, path, "{}", 2));
}

static void may_write(int64_t done) {
    assert_ok(ctx, wefti_descent_check(ctx, "room", views, done));
}

static void is_left_behind(int64_t done, const char *words) {
    assert_fails(ctx, wefti_descent_check(ctx, "room", views, done), WEFT_ERR_CONFIG,
                 words);
}

TEST_IN(setup, teardown, a_folder_without_a_run_is_for_anybody) {
    may_write(0);
    may_write(500);
}

/* The last view is one of this process's own: it may write, and do the last steps again that the
 * lost writer had done. */
TEST_IN(setup, teardown, a_member_of_the_last_view_may_write) {
    wefti_view_line lines[] = {line_of(0, 1, 1, 0, 2), line_of(0, 2, 20, 1, 2)};
    lines[1] = line_of(lines[0].chain, 2, 20, 1, 2);
    put("room/views.jsonl", lines, 2);
    put_steps("room/metrics.jsonl", 1, 24);
    put_checkpoint(20);
    assert_ok(ctx, wefti_viewlog_follow(ctx, views, lines[0].chain));
    is_left_behind(
        19, "holds step 24 of view 2 of run 00000000000000ab, from which this process "
            "does not descend");
    assert_ok(ctx, wefti_viewlog_follow(ctx, views, lines[1].chain));
    may_write(22);
    may_write(100);
}

/* A view with the same number has other members: each of two parts calls its own the second. */
TEST_IN(setup, teardown, another_view_of_the_same_number_is_another) {
    wefti_view_line first = line_of(0, 1, 1, 0, 2);
    wefti_view_line theirs = line_of(first.chain, 2, 20, 0, 1);
    wefti_view_line mine = line_of(first.chain, 2, 20, 2, 2);
    assert_ok(ctx, wefti_viewlog_follow(ctx, views, first.chain));
    assert_ok(ctx, wefti_viewlog_follow(ctx, views, mine.chain));
    put("room/views.jsonl", &first, 1);
    may_write(19);
    const wefti_view_line lines[] = {first, theirs};
    put("room/views.jsonl", lines, 2);
    is_left_behind(500, "does not descend");
}

/* Its members of today made the views between in another machine's folder. */
TEST_IN(setup, teardown,
        what_this_machine_wrote_before_it_was_left_out_may_be_continued) {
    wefti_view_line lines[] = {line_of(0, 1, 1, 0, 2), line_of(0xf00, 4, 90, 1, 2)};
    wefti_descent_record r;
    put("room/views.jsonl", lines, 1);
    put_steps("room/metrics.jsonl", 1, 24);
    assert_ok(ctx, wefti_viewlog_follow(ctx, views, lines[1].chain));
    is_left_behind(89, "does not descend");
    assert_ok(ctx, wefti_descent_read(ctx, "room", &r));
    r.is_past = true;
    assert_ok(ctx, wefti_descent_judge(ctx, "room", &r, views, 89));
    assert_int_equal(wefti_descent_judge(ctx, "room", &r, views, -10), WEFT_ERR_CONFIG);
    weft_ctx_clear(ctx);
}

static void has_ended(uint64_t run, int64_t view, int64_t steps, bool expected) {
    bool ended;
    assert_ok(ctx, wefti_descent_ended(ctx, "room", run, view, steps, &ended));
    assert_int_equal(ended, expected);
}

TEST_IN(setup, teardown, an_end_in_order_is_seen_in_the_folder) {
    wefti_view_line lines[] = {line_of(0, 1, 1, 0, 2), line_of(0, 2, 20, 1, 2)};
    has_ended(0xab, 1, 30, false);
    put("room/views.jsonl", lines, 2);
    put_steps("room/metrics.jsonl", 1, 30);
    has_ended(0xab, 1, 30, false); /* the last step is not saved */
    put_checkpoint(30);
    has_ended(0xab, 1, 30, true);
    has_ended(0xab, 2, 30, true);
    has_ended(0xcd, 1, 30, false); /* another run */
    has_ended(0xab, 1, 40, true);  /* they were told to stop */
    has_ended(0xab, 2, 40, false); /* who wrote this has ended, and others may go on */
    put_steps("room/metrics.jsonl", 1, 31);
    has_ended(0xab, 1, 40, false); /* they did not save */
    put_steps("room/metrics.jsonl", 1, 30);
    assert_ok(ctx, wefti_file_write(ctx, "room/lease", "x", 1));
    has_ended(0xab, 1, 40, false); /* somebody writes */
    has_ended(0xab, 1, 30, true);
}

/* A later start of the same run, from a checkpoint of this process's own past. */
TEST_IN(setup, teardown, a_run_that_was_resumed_is_another) {
    wefti_view_line lines[2] = {line_of(0, 1, 1, 0, 2)};
    lines[1] = lines[0];
    lines[1].run = 0xcd;
    lines[1].step = 21;
    lines[1].chain = wefti_views_chain(lines[0].chain, &lines[1]);
    assert_ok(ctx, wefti_viewlog_follow(ctx, views, lines[0].chain));
    put("room/views.jsonl", lines, 2);
    is_left_behind(22, "of view 1 of run 00000000000000cd");
}

/* The same members can not be so far ahead: the line of the view with which they went on is
 * missing. */
TEST_IN(setup, teardown, members_are_not_far_ahead) {
    wefti_view_line first = line_of(0, 1, 1, 0, 2);
    put("room/views.jsonl", &first, 1);
    assert_ok(ctx, wefti_viewlog_follow(ctx, views, first.chain));
    put_steps("room/metrics.jsonl", 1, 54);
    may_write(22);
    is_left_behind(21, "holds step 54, expected at most 53");
    put_checkpoint(60);
    is_left_behind(22, "holds step 60");
    may_write(28);
}

/* A view's line is written before its first step: the steps before it have been done. */
TEST_IN(setup, teardown, a_view_without_lines_of_its_steps_counts) {
    wefti_view_line lines[] = {line_of(0, 1, 1, 0, 2), line_of(0, 2, 60, 0, 2)};
    lines[1] = line_of(lines[0].chain, 2, 60, 0, 2);
    put("room/views.jsonl", lines, 2);
    put_steps("room/metrics.jsonl", 1, 24);
    assert_ok(ctx, wefti_viewlog_follow(ctx, views, lines[0].chain));
    assert_ok(ctx, wefti_viewlog_follow(ctx, views, lines[1].chain));
    is_left_behind(26, "holds step 59, expected at most 58");
    may_write(27);
}

/* Files of older versions have no chain. */
TEST_IN(setup, teardown, a_resumed_run_follows_lines_without_a_chain) {
    wefti_view_line line = line_of(0, 1, 1, 0, 2);
    line.has_chain = false;
    put("room/views.jsonl", &line, 1);
    is_left_behind(0, "does not descend");
    assert_ok(ctx, wefti_viewlog_open(ctx, views, "room", 10));
    assert_true(wefti_viewlog_knows(views, 0));
    may_write(10);
}

static void disagrees(const char *words) {
    int64_t came;
    assert_fails(ctx, wefti_descent_agree(ctx, "room", 1, &came), WEFT_ERR_FORMAT, words);
}

/* The run came with this step, from another folder. */
static void agrees(int64_t log_every, int64_t expected) {
    int64_t came;
    assert_ok(ctx, wefti_descent_agree(ctx, "room", log_every, &came));
    assert_int_equal(came, expected);
}

/* What one run has written agrees; what a second one cut or wrote between does not. */
TEST_IN(setup, teardown, a_folder_that_two_have_written_contradicts_itself) {
    wefti_view_line lines[] = {line_of(0, 1, 1, 0, 2), line_of(0, 2, 22, 0, 1),
                               line_of(0, 3, 90, 0, 0)};
    lines[1].chain = wefti_views_chain(lines[0].chain, &lines[1]);
    lines[2].chain = wefti_views_chain(lines[1].chain, &lines[2]);
    put("room/views.jsonl", lines, 3);
    put_steps("room/metrics.jsonl", 1, 150);
    put_checkpoint(150);
    agrees(1, 0);
    put_steps("room/metrics.jsonl", 1, 22);
    disagrees("a checkpoint of step 150, and metrics.jsonl ends with step 22");
    put_steps("room/nodes.jsonl", 150, 150); /* few lines of steps were asked for */
    agrees(1, 0);
    assert_ok(ctx, wefti_file_remove_tree(ctx, "room/nodes.jsonl"));
    assert_ok(ctx, wefti_file_remove_tree(ctx, "room/checkpoints"));
    disagrees("a view of step 90, and metrics.jsonl ends with step 22");
    agrees(100, 0);
    put_steps("room/metrics.jsonl", 1, 150);
    lines[1] = lines[2];
    put("room/views.jsonl", lines, 2);
    disagrees("the view of step 90 does not follow from the one before it, of step 1");
    put("room/views.jsonl", lines, 1);
    assert_ok(ctx, wefti_file_write(ctx, "room/metrics.jsonl",
                                    "{\"step\":9}\n{\"step\":8}\n", 22));
    disagrees("a line of step 8 stands behind one of step 9");
}

/* Who joined a run and then writes it in a folder of its own, or goes on in one behind what it
 * wrote before it was left out: the views and lines between are another machine's. */
TEST_IN(setup, teardown, a_run_may_come_from_another_folder) {
    wefti_view_line lines[] = {line_of(0xf00, 4, 90, 1, 2), line_of(0, 5, 200, 2, 2)};
    lines[1] = line_of(lines[0].chain, 5, 200, 2, 2);
    put("room/views.jsonl", lines, 1);
    put_steps("room/metrics.jsonl", 1, 0);
    agrees(1, 90);
    put("room/views.jsonl", lines, 2);
    disagrees("a view of step 200, and metrics.jsonl ends with step 0");
    put_steps("room/metrics.jsonl", 90, 199);
    agrees(1, 90);
    put_steps("room/metrics.jsonl", 90, 299);
    lines[1] = line_of(0xbad, 7, 300, 2, 2);
    put("room/views.jsonl", lines, 2);
    disagrees("the view of step 300 does not follow from the one before it, of step 90");
    lines[1].apart = true;
    put("room/views.jsonl", lines, 2);
    agrees(1, 300);
    lines[1].view = 5; /* the next one: nothing can be between */
    put("room/views.jsonl", lines, 2);
    disagrees("the view of step 300 does not follow");
    lines[1].view = 7;
    lines[1].run = 0xcd;
    put("room/views.jsonl", lines, 2);
    disagrees("the view of step 300 does not follow");
}
