/* SPDX-License-Identifier: MIT */
#include "unit/record/helpers.h"

#include <signal.h>
#include <sys/resource.h>

#include "record/append.h"

static void pieces_are_appended(void **state) {
    wefti_append file;
    bool exists;
    put_text("room/a", "old ");
    assert_ok(ctx, wefti_append_init(ctx, "room/a", false, &exists, &file));
    assert_ok(ctx, wefti_append_write(ctx, &file, "one ", 4));
    assert_ok(ctx, wefti_append_write(ctx, &file, "", 0));
    assert_ok(ctx, wefti_append_write(ctx, &file, "two", 3));
    assert_contents(ctx, "room/a", "old one two");
    assert_ok(ctx, wefti_append_fini(ctx, &file));
}

static void a_fresh_file_must_not_be_there(void **state) {
    wefti_append file;
    bool exists;
    assert_ok(ctx, wefti_append_init(ctx, "room/a", true, &exists, &file));
    assert_false(exists);
    assert_ok(ctx, wefti_append_fini(ctx, &file));
    assert_int_equal(wefti_append_init(ctx, "room/a", true, &exists, &file),
                     WEFT_ERR_FILE);
    assert_true(exists);
    assert_string_equal(weft_ctx_message(ctx), "");
    assert_fails(ctx, wefti_append_init(ctx, "room/none/a", true, &exists, &file),
                 WEFT_ERR_FILE, "room/none/a");
    assert_false(exists);
}

static void a_piece_that_does_not_fit_is_taken_back(void **state) {
    struct rlimit before, small;
    wefti_append file;
    bool exists;
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(ctx, wefti_append_init(ctx, "room/a", false, &exists, &file));
    assert_ok(ctx, wefti_append_write(ctx, &file, "12345", 5));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 8;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    weft_status status = wefti_append_write(ctx, &file, "67890", 5);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_fails(ctx, status, WEFT_ERR_FILE, "could not write room/a");
    assert_contents(ctx, "room/a", "12345");
    assert_ok(ctx, wefti_append_fini(ctx, &file));
}

static void a_folder_is_refused(void **state) {
    wefti_append file;
    bool exists;
    assert_fails(ctx, wefti_append_init(ctx, "room", false, &exists, &file),
                 WEFT_ERR_FILE, "room");
    assert_fails(ctx, wefti_append_init(ctx, "/dev/null", false, &exists, &file),
                 WEFT_ERR_FILE, "not a regular file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        claim(pieces_are_appended),
        claim(a_fresh_file_must_not_be_there),
        claim(a_piece_that_does_not_fit_is_taken_back),
        claim(a_folder_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
