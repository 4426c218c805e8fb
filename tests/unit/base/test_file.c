/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "check.h"

static weft_ctx *ctx;

static int setup(void **state) { return room_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

static void assert_file_error(weft_status got, const char *words) {
    assert_fails(ctx, got, WEFT_ERR_FILE, words);
}

static int count_entries(const char *folder) {
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2; /* without . and .. */
}

TEST_IN(setup, teardown, a_written_file_is_read_back) {
    assert_ok(ctx, wefti_file_write(ctx, "room/a", "first", 5));
    assert_contents(ctx, "room/a", "first");
    assert_ok(ctx, wefti_file_write(ctx, "room/a", "", 0));
    assert_contents(ctx, "room/a", "");
    assert_int_equal(count_entries("room"), 1);
}

TEST_IN(setup, teardown, reading_respects_the_limit) {
    char *data = (char *)ctx;
    int64_t n = 7;
    assert_ok(ctx, wefti_file_write(ctx, "room/a", "12345", 5));
    assert_ok(ctx, wefti_file_read(ctx, "room/a", 5, &data, &n));
    wefti_free(ctx, data);
    assert_file_error(wefti_file_read(ctx, "room/a", 4, &data, &n),
                      "5 bytes, expected at most 4");
    assert_null(data);
    assert_int_equal(n, 0);
}

TEST_IN(setup, teardown, only_regular_files_are_read_and_nothing_blocks) {
    char *data;
    int64_t n;
    assert_int_equal(mkfifo("room/fifo", 0600), 0);
    assert_file_error(wefti_file_read(ctx, "room/fifo", 100, &data, &n),
                      "not a regular file");
    assert_file_error(wefti_file_read(ctx, "room", 100, &data, &n), "not a regular file");
    assert_file_error(wefti_file_read(ctx, "/dev/zero", 100, &data, &n),
                      "not a regular file");
    assert_file_error(wefti_file_read(ctx, "room/absent", 100, &data, &n),
                      "could not open room/absent");
    assert_file_error(wefti_file_read(ctx, "", 100, &data, &n), "could not open");
}

TEST_IN(setup, teardown, a_failed_write_leaves_the_old_file_and_nothing_else) {
    struct rlimit before, small;
    char big[4096] = {0};
    assert_ok(ctx, wefti_file_write(ctx, "room/a", "old", 3));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    weft_status status = wefti_file_write(ctx, "room/a", big, sizeof big);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_file_error(status, "could not write room/a");
    assert_contents(ctx, "room/a", "old");
    assert_int_equal(count_entries("room"), 1);
}

TEST_IN(setup, teardown, a_write_onto_a_folder_or_into_none_is_an_error) {
    assert_ok(ctx, wefti_file_mkdirs(ctx, "room/folder"));
    assert_file_error(wefti_file_write(ctx, "room/folder", "x", 1), "room/folder");
    assert_file_error(wefti_file_write(ctx, "room/absent/a", "x", 1), "room/absent/a");
    assert_int_equal(count_entries("room"), 1);
}

TEST_IN(setup, teardown, pwrite_puts_bytes_at_their_offset) {
    int fd = open("room/p", O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_ok(ctx, wefti_file_pwrite(ctx, fd, "room/p", "world", 5, 6));
    assert_ok(ctx, wefti_file_pwrite(ctx, fd, "room/p", "hello ", 6, 0));
    assert_ok(ctx, wefti_file_pwrite(ctx, fd, "room/p", NULL, 0, 100));
    close(fd);
    assert_contents(ctx, "room/p", "hello world");
    fd = open("room/p", O_RDONLY);
    assert_file_error(wefti_file_pwrite(ctx, fd, "room/p", "x", 1, 0),
                      "could not write room/p");
    close(fd);
}

TEST_IN(setup, teardown, mkdirs_makes_parents_and_accepts_what_is_there) {
    struct stat info;
    assert_ok(ctx, wefti_file_mkdirs(ctx, "room/a//b/c/"));
    assert_int_equal(stat("room/a/b/c", &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "room/a/b/c"));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "room/a/../a/d"));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "/"));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "."));
}

TEST_IN(setup, teardown, mkdirs_names_what_is_in_the_way) {
    char path[PATH_MAX + 10];
    assert_ok(ctx, wefti_file_write(ctx, "room/file", "x", 1));
    assert_file_error(wefti_file_mkdirs(ctx, "room/file"), "room/file is there already");
    assert_file_error(wefti_file_mkdirs(ctx, "room/file/below"), "room/file/below");
    assert_file_error(wefti_file_mkdirs(ctx, ""), "not a usable folder name");
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_file_error(wefti_file_mkdirs(ctx, path), "not a usable folder name");
}

TEST_IN(setup, teardown, remove_tree_removes_all_below_and_follows_no_link) {
    assert_ok(ctx, wefti_file_mkdirs(ctx, "room/keep"));
    assert_ok(ctx, wefti_file_write(ctx, "room/keep/a", "x", 1));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "room/tree/deep/er"));
    assert_ok(ctx, wefti_file_write(ctx, "room/tree/deep/b", "x", 1));
    assert_int_equal(symlink("../keep", "room/tree/link"), 0);
    assert_int_equal(symlink("nowhere", "room/tree/broken"), 0);
    assert_ok(ctx, wefti_file_remove_tree(ctx, "room/tree"));
    assert_int_equal(count_entries("room"), 1);
    assert_contents(ctx, "room/keep/a", "x");
    assert_ok(ctx, wefti_file_remove_tree(ctx, "room/tree"));
    assert_ok(ctx, wefti_file_remove_tree(ctx, "room/keep/a"));
    assert_int_equal(count_entries("room/keep"), 0);
}

TEST_IN(setup, teardown, the_parent_of_any_path_is_synced) {
    assert_ok(ctx, wefti_file_sync_parent(ctx, "room"));
    assert_ok(ctx, wefti_file_sync_parent(ctx, "room/a"));
    assert_ok(ctx, wefti_file_sync_parent(ctx, "/room"));
    assert_file_error(wefti_file_sync_parent(ctx, "room/absent/a"),
                      "could not open room/absent");
}

TEST_IN(setup, teardown, a_failed_allocation_is_reported_and_closes_the_file) {
    char *data;
    int64_t n;
    assert_ok(ctx, wefti_file_write(ctx, "room/a", "12345", 5));
    int lowest = dup(0);
    close(lowest);
    weft_ctx_fail_allocation(ctx, 0);
    assert_int_equal(wefti_file_read(ctx, "room/a", 100, &data, &n), WEFT_ERR_MEMORY);
    assert_null(data);
    int again = dup(0);
    close(again);
    assert_int_equal(again, lowest);
}
