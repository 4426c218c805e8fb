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
        members[i] = (wefti_view_member){i, (uint64_t)i + 1, "a machine", false, 0};
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

static void a_year_of_views_takes_no_more_memory_than_a_day(void **state) {
    add_views(1, MANY);
    assert_in_range(weft_ctx_bytes_held(ctx), 1 << 20, 40 << 20);
}

/* All lines from one on, as a chain, and the last one. */
static void a_new_writer_has_the_last_lines(void **state) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_year_of_views_takes_no_more_memory_than_a_day,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_writer_has_the_last_lines, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
