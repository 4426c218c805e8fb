/* SPDX-License-Identifier: MIT */
/* views.jsonl: what is written is read back, and nothing that a file says is believed. */
#include <stdio.h>
#include <string.h>

#include "helpers.h"
#include "record/views.h"

static const char path[] = "views.jsonl";

static void write_views(const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static wefti_views read_views(const char *text) {
    wefti_views views;
    write_views(text);
    assert_int_equal(wefti_views_read(ctx, path, &views), WEFT_OK);
    return views;
}

static const char good[] =
    "{\"run\":\"00000000000000ab\",\"view\":2,\"step\":31,\"time\":5.5,\"stall_s\":null,"
    "\"first_row\":720,\"rows_per_rank\":8,\"micro\":4,\"shards\":1,\"threads\":1,"
    "\"kernels\":\"base\",\"members\":[[0,\"0000000000000001\",\"a\"],"
    "[2,\"0000000000000007\",\"c\"]],\"lost\":[[1,\"b\",\"why\"]],\"joined\":[]}\n";

TEST_IN(setup, teardown, a_line_is_read_back_as_it_was_written) {
    wefti_view_member members[] = {{0, 1, "a", false, 3, 2},
                                   {5, UINT64_MAX, "host \"b\"", true, 1, 1}};
    wefti_view_change lost[] = {{3, "c", "its connection ended"}};
    wefti_view_skip skipped[] = {{16, 0, 3, 7, 1}, {0, 5, 3, 0, 0}};
    wefti_view_line line = {.run = 0xabcdef0123456789u,
                            .view = 3,
                            .step = 12,
                            .time_s = 1.25,
                            .stall_s = 0.5,
                            .first_row = 99,
                            .rows_per_rank = 6,
                            .micro = 2,
                            .shards = 1,
                            .threads = 4,
                            .kernels = "avx2",
                            .has_checksum = true,
                            .checksum = 1,
                            .has_chain = true,
                            .chain = 5,
                            .form = "outer int8 50 0.4",
                            .name = "diloco H=50 int8",
                            .why = "the wire",
                            .expected = {0.5, 0.25, 1.5, 1.25, 2, 625000},
                            .n_members = 2,
                            .n_lost = 1,
                            .members = members,
                            .lost = lost};
    wefti_skip_line skips = {.run = line.run,
                             .view = 2,
                             .step = 11,
                             .rows_skipped = 6,
                             .complete = true,
                             .n = 2,
                             .list = skipped};
    wefti_buffer out = {0};
    wefti_views_put_skips(ctx, &out, &skips);
    wefti_views_put(ctx, &out, &line);
    assert_int_equal(out.status, WEFT_OK);
    wefti_views views = read_views(out.bytes);
    wefti_buffer_fini(ctx, &out);
    assert_int_equal(views.n_views, 1);
    assert_int_equal(views.n_skips, 1);
    const wefti_view_line *v = &views.views[0];
    assert_true(v->run == line.run && v->view == 3 && v->step == 12);
    assert_true(v->stall_s == 0.5 && v->first_row == 99 && v->rows_per_rank == 6);
    assert_true(v->has_checksum && v->checksum == 1);
    assert_true(v->has_chain && v->chain == 5);
    assert_string_equal(v->form, line.form);
    assert_string_equal(v->name, line.name);
    assert_string_equal(v->why, line.why);
    assert_memory_equal(v->expected, line.expected, sizeof line.expected);
    assert_int_equal(v->n_members, 2);
    assert_true(v->members[1].place == 5 && v->members[1].name == UINT64_MAX);
    assert_true(v->members[1].without && !v->members[0].without);
    assert_true(v->members[0].rows == 3 && v->members[1].rows == 1);
    assert_true(v->members[0].micro == 2 && v->members[1].micro == 1);
    assert_string_equal(v->members[1].host, "host \"b\"");
    assert_string_equal(v->lost[0].why, "its connection ended");
    assert_memory_equal(views.skips[0].list, skipped, sizeof skipped);
    assert_true(views.skips[0].complete && views.skips[0].rows_skipped == 6);
    assert_true(wefti_views_has(&views, line.run, 3, 12, false));
    assert_true(wefti_views_has(&views, line.run, 2, 11, true));
    assert_false(wefti_views_has(&views, line.run, 2, 11, false));
    assert_false(wefti_views_has(&views, line.run + 1, 3, 12, false));
    wefti_views_fini(ctx, &views);
}

/* What watch and the page show: of folders without names the form, of programs a name alone. */
TEST_IN(setup, teardown, a_form_has_a_name_in_old_lines_too) {
    static const char *const lines[][3] = {
        {"\"form\":\"outer f32 50 0.4\"", "outer f32 50 0.4", "outer f32 50 0.4"},
        {"\"name\":\"diloco H=50\"", "", "diloco H=50"}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[4096];
        snprintf(text, sizeof text, "%.*s,\"shared\":true,\"why\":\"a\",%s}\n",
                 (int)strlen(good) - 2, good, lines[i][0]);
        wefti_views views = read_views(text);
        assert_int_equal(views.n_views, 1);
        assert_string_equal(views.views[0].form, lines[i][1]);
        assert_string_equal(views.views[0].name, lines[i][2]);
        assert_true(wefti_view_changes_form(&views.views[0]));
        wefti_views_fini(ctx, &views);
    }
}

/* Each word of the good line in turn becomes something that it must not be. */
TEST_IN(setup, teardown, lines_that_do_not_hold_together_are_left_out) {
    static const char *const changes[][2] = {
        {"\"00000000000000ab\"", "\"ab\""},
        {"\"00000000000000ab\"", "\"00000000000000AX\""},
        {"\"view\":2", "\"view\":0"},
        {"\"step\":31", "\"step\":0"},
        {"\"step\":31", "\"step\":1e300"},
        {"\"first_row\":720", "\"first_row\":-1"},
        {"\"rows_per_rank\":8", "\"rows_per_rank\":99999999999"},
        {"\"micro\":4", "\"micro\":3"},
        {"\"shards\":1", "\"shards\":3"},
        {"\"threads\":1", "\"threads\":0"},
        {"[2,", "[0,"}, /* two at a place */
        {"[2,", "[-2,"},
        {"[2,", "[9999999999,"},
        {"[2,", "[\"2\","},
        {"\"members\":[", "\"member\":["},
        {"\"lost\":[[1,", "\"lost\":[[null,"},
        {"\"joined\":[]", "\"joined\":{}"},
        {"\"joined\":[]", "\"joined\":[],\"without\":2"},
        {"\"joined\":[]", "\"joined\":[],\"without\":[1]"}, /* no member */
        {"\"joined\":[]", "\"joined\":[],\"without\":[2,2]"},
        {"\"joined\":[]", "\"joined\":[],\"without\":[\"2\"]"},
        {"\"joined\":[]", "\"joined\":[],\"shared\":true"}, /* without rows */
        {"\"joined\":[]", "\"joined\":[],\"rows\":[8]"},
        {"\"joined\":[]", "\"joined\":[],\"rows\":[8,9]"}, /* more than the most */
        {"\"joined\":[]", "\"joined\":[],\"rows\":[0,8]"},
        {"\"joined\":[]", "\"joined\":[],\"rows\":[8,\"8\"]"},
        {"\"joined\":[]", "\"joined\":[],\"micros\":[4]"},
        {"\"joined\":[]", "\"joined\":[],\"micros\":[4,5]"}, /* more than the most */
        {"\"joined\":[]", "\"joined\":[],\"micros\":[0,4]"},
        {"\"time\"", "\"run\""},
        {"}\n", "\n"},
    };
    wefti_views views = read_views(good);
    assert_int_equal(views.n_views, 1);
    wefti_views_fini(ctx, &views);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char text[4096];
        const char *at = strstr(good, changes[i][0]);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s%s", (int)(at - good), good, changes[i][1],
                 at + strlen(changes[i][0]), good);
        views = read_views(text);
        if (views.n_views != 1) fail_msg("%s was read", changes[i][1]);
        wefti_views_fini(ctx, &views);
    }
}

TEST_IN(setup, teardown, skipped_messages_have_bounds) {
    static const char *const lists[] = {"[[32,0,1,0,0]]",
                                        "[[16,0,1,0,16]]",
                                        "[[16,0,1,0]]",
                                        "[[16,0,-1,0,0]]",
                                        "[7]",
                                        "{}"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"run\":\"00000000000000ab\",\"view\":1,\"step\":3,\"rows_skipped\":0,"
                 "\"rows_in_part\":0,\"complete\":true,\"skipped\":%s}\n",
                 lists[i]);
        wefti_views views = read_views(text);
        if (views.n_skips != 0) fail_msg("%s was read", lists[i]);
        wefti_views_fini(ctx, &views);
    }
}

TEST_IN(setup, teardown, no_file_and_a_torn_last_line_are_fine) {
    char text[4096];
    wefti_views views;
    remove(path);
    assert_int_equal(wefti_views_read(ctx, path, &views), WEFT_OK);
    assert_int_equal(views.n_views + views.n_skips, 0);
    snprintf(text, sizeof text, "%s{\"run\":\"00", good);
    views = read_views(text);
    assert_int_equal(views.n_views, 1);
    wefti_views_fini(ctx, &views);
}
