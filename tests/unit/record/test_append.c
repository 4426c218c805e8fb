/* SPDX-License-Identifier: MIT */
#include "unit/record/helpers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "record/append.h"

TEST_IN(setup, teardown, pieces_are_appended) {
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

TEST_IN(setup, teardown, a_fresh_file_must_not_be_there) {
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

TEST_IN(setup, teardown, a_piece_that_does_not_fit_is_taken_back) {
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

/* The kernel calls it before the write fails: another process has taken over. */
static void take_over(int signal) {
    (void)signal;
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    int fd = open("room/a", O_WRONLY);
    bool fine = setrlimit(RLIMIT_FSIZE, &limit) == 0 && ftruncate(fd, 5) == 0 &&
                pwrite(fd, "abcdefgh", 8, 5) == 8;
    close(fd);
    if (!fine) _exit(3);
}

TEST_IN(setup, teardown, lines_of_another_writer_are_not_taken_back) {
    struct rlimit small = {8, RLIM_INFINITY};
    wefti_append file;
    bool exists;
    signal(SIGXFSZ, take_over);
    assert_ok(ctx, wefti_append_init(ctx, "room/a", false, &exists, &file));
    assert_ok(ctx, wefti_append_write(ctx, &file, "12345", 5));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_fails(ctx, wefti_append_write(ctx, &file, "67890", 5), WEFT_ERR_FILE,
                 "could not write room/a");
    assert_contents(ctx, "room/a", "12345abcdefgh");
    assert_ok(ctx, wefti_append_fini(ctx, &file));
}

static char heard[2000];

static void hear(void *user, weft_log_level level, const char *line) {
    (void)user, (void)level;
    strncat(heard, line, sizeof heard - strlen(heard) - 2);
    strcat(heard, "\n");
}

/* From now on files end at n bytes. */
static void limit_files(rlim_t n) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* What the disk refuses waits, in order, as far as there is room, and goes before what comes
 * then. Two warnings say so. */
TEST_IN(setup, teardown, refused_pieces_wait_for_the_disk) {
    wefti_append file;
    bool exists;
    signal(SIGXFSZ, SIG_IGN);
    heard[0] = '\0';
    weft_ctx_set_sink(ctx, hear, NULL);
    assert_ok(ctx, wefti_append_init(ctx, "room/a", false, &exists, &file));
    wefti_append_wait(&file, 10);
    assert_ok(ctx, wefti_append_write(ctx, &file, "one ", 4));
    limit_files(6);
    for (int i = 0; i < 4; i++) /* two of them fit into 10 bytes */
        assert_ok(ctx, wefti_append_write(ctx, &file, "two ", 4));
    assert_contents(ctx, "room/a", "one ");
    assert_fails(ctx, wefti_append_sync(ctx, &file), WEFT_ERR_FILE,
                 "could not write room/a");
    limit_files(9); /* one that was there to be read is not taken back for the next one */
    assert_fails(ctx, wefti_append_sync(ctx, &file), WEFT_ERR_FILE,
                 "could not write room/a");
    assert_contents(ctx, "room/a", "one two ");
    limit_files(RLIM_INFINITY);
    assert_ok(ctx, wefti_append_sync(ctx, &file));
    assert_ok(ctx, wefti_append_write(ctx, &file, "three", 5));
    assert_contents(ctx, "room/a", "one two two three");
    assert_ok(ctx, wefti_append_fini(ctx, &file));
    assert_string_equal(
        heard,
        "could not write room/a: File too large; its lines wait in memory, up to 0 MB of "
        "them, until it can be written\n"
        "room/a is written again; 2 of its lines found no room in memory and are lost\n");
}

/* A reader takes a last line without its end for a line. */
TEST_IN(setup, teardown, a_line_that_can_be_read_is_not_taken_back) {
    wefti_append file;
    bool exists;
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(ctx, wefti_append_init(ctx, "room/a", false, &exists, &file));
    wefti_append_wait(&file, 10);
    limit_files(3);
    assert_ok(ctx, wefti_append_write(ctx, &file, "one\n", 4));
    assert_contents(ctx, "room/a", "one");
    assert_fails(ctx, wefti_append_sync(ctx, &file), WEFT_ERR_FILE,
                 "could not write room/a");
    assert_ok(ctx, wefti_append_write(ctx, &file, "two\n", 4));
    limit_files(7);
    assert_ok(ctx, wefti_append_write(ctx, &file, "six\n", 4)); /* too soon: it waits */
    assert_fails(ctx, wefti_append_sync(ctx, &file), WEFT_ERR_FILE,
                 "could not write room/a");
    assert_contents(ctx, "room/a", "one\ntwo");
    limit_files(RLIM_INFINITY);
    assert_ok(ctx, wefti_append_fini(ctx, &file));
    assert_contents(ctx, "room/a", "one\ntwo\nsix\n");
}

TEST_IN(setup, teardown, what_still_waits_at_the_end_is_said_to_be_lost) {
    wefti_append file;
    bool exists;
    signal(SIGXFSZ, SIG_IGN);
    heard[0] = '\0';
    weft_ctx_set_sink(ctx, hear, NULL);
    for (int late = 0; late < 2; late++) {
        assert_ok(ctx, wefti_append_init(ctx, "room/a", false, &exists, &file));
        wefti_append_wait(&file, 10);
        limit_files(2);
        assert_ok(ctx, wefti_append_write(ctx, &file, "one ", 4));
        if (late) limit_files(RLIM_INFINITY);
        assert_ok(ctx, wefti_append_fini(ctx, &file));
        limit_files(RLIM_INFINITY);
        assert_contents(ctx, "room/a", late ? "one " : "");
    }
    assert_non_null(strstr(heard, "the end of room/a is lost"));
}

TEST_IN(setup, teardown, a_folder_is_refused) {
    wefti_append file;
    bool exists;
    assert_fails(ctx, wefti_append_init(ctx, "room", false, &exists, &file),
                 WEFT_ERR_FILE, "room");
    assert_fails(ctx, wefti_append_init(ctx, "/dev/null", false, &exists, &file),
                 WEFT_ERR_FILE, "not a regular file");
}
