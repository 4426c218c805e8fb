/* SPDX-License-Identifier: MIT */
/* What a process keeps of the lines of views, for a folder that it may have to write. */
#include "check.h"
#include "runfiles/viewlog.h"

enum { MEMBERS = 200, MANY = 4000 };

static weft_ctx *ctx;
static wefti_viewlog *log_;
static wefti_view_member members[MEMBERS];

static int setup(void **state) {
    for (int i = 0; i < MEMBERS; i++)
        members[i] = (wefti_view_member){i, (uint64_t)i + 1, "a machine", false, 0, 0};
    return room_begin(&ctx) || wefti_viewlog_create(ctx, &log_) != WEFT_OK;
}

static int teardown(void **state) {
    assert_ok(ctx, wefti_viewlog_close(ctx, log_));
    return ctx_end(ctx);
}

static void add_views(int from, int to) {
    for (int i = from; i <= to; i++) {
        wefti_view_line line = {.run = 0xab,
                                .view = i,
                                .step = i,
                                .rows_per_rank = 2,
                                .micro = 1,
                                .shards = 1,
                                .threads = 1,
                                .n_members = MEMBERS,
                                .members = members};
        assert_ok(ctx, wefti_viewlog_put(ctx, log_, &line));
    }
}

TEST_IN(setup, teardown, a_year_of_views_takes_no_more_memory_than_a_day) {
    add_views(1, MANY);
    assert_in_range(weft_ctx_bytes_held(ctx), 1 << 20, 40 << 20);
}

/* All lines from one on, as a chain, and the last one. */
TEST_IN(setup, teardown, a_new_writer_has_the_last_lines) {
    wefti_views views;
    add_views(1, MANY);
    assert_ok(ctx, wefti_viewlog_open(ctx, log_, "room", MANY));
    add_views(MANY + 1, MANY + 10);
    assert_ok(ctx, wefti_views_read(ctx, "room/views.jsonl", &views));
    assert_in_range(views.n_views, 1000, MANY - 1);
    for (int i = 1; i < views.n_views; i++) {
        const wefti_view_line *line = &views.views[i];
        assert_int_equal(line->view, line[-1].view + 1);
        assert_true(line->chain == wefti_views_chain(line[-1].chain, line));
    }
    assert_int_equal(views.views[views.n_views - 1].view, MANY + 10);
    wefti_views_fini(ctx, &views);
}

static void put_three(const char *path) {
    wefti_buffer out = {0};
    for (int i = 1; i <= 3; i++) {
        wefti_view_line line = {.run = 0xab,
                                .view = i,
                                .step = 20 * i,
                                .has_chain = true,
                                .chain = (uint64_t)i,
                                .rows_per_rank = 2,
                                .micro = 1,
                                .shards = 1,
                                .threads = 1,
                                .n_members = 1,
                                .members = members};
        wefti_views_put(ctx, &out, &line);
    }
    assert_ok(ctx, wefti_file_write(ctx, path, out.bytes, out.n));
    wefti_buffer_fini(ctx, &out);
}

/* What was in a view of steps that are done again is no part of this run's chain. */
TEST_IN(setup, teardown, views_of_steps_that_are_done_again_are_dropped) {
    static const int64_t done[][2] = {{60, 3}, {59, 2}, {40, 2}, {39, 1}, {0, 0}};
    for (size_t i = 0; i < sizeof done / sizeof done[0]; i++) {
        wefti_viewlog *log;
        wefti_views views;
        put_three("room/views.jsonl");
        assert_ok(ctx, wefti_viewlog_create(ctx, &log));
        assert_ok(ctx, wefti_viewlog_open(ctx, log, "room", done[i][0]));
        assert_ok(ctx, wefti_views_read(ctx, "room/views.jsonl", &views));
        assert_int_equal(views.n_views, done[i][1]);
        if (views.n_views > 0)
            assert_true(wefti_viewlog_chain(log) == views.views[views.n_views - 1].chain);
        wefti_views_fini(ctx, &views);
        assert_ok(ctx, wefti_viewlog_close(ctx, log));
    }
}

/* The others made the views between while this machine was left out. */
TEST_IN(setup, teardown, the_first_line_behind_a_gap_says_so) {
    static const bool apart[] = {false, true, false};
    wefti_views views;
    put_three("room/views.jsonl");
    assert_ok(ctx, wefti_viewlog_follow(ctx, log_, 0xf00));
    assert_ok(ctx, wefti_viewlog_open(ctx, log_, "room", 20));
    add_views(90, 91);
    assert_ok(ctx, wefti_views_read(ctx, "room/views.jsonl", &views));
    assert_int_equal(views.n_views, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(views.views[i].apart, apart[i]);
    assert_int_equal(views.views[1].step, 90);
    wefti_views_fini(ctx, &views);
}
