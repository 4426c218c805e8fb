/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "checkpoint/folder.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

/* ---- small checkpoints ---- */

static const char layout[] = "{\"nodes\":2,\"tensors\":[\"a\",\"b\"],\"x\":0.25}";
static const char *const sample_names[] = {"model.safetensors", "optimizer/rank-0.bin",
                                           "config.json"};
static const char *const sample_texts[] = {"weights of the model, some bytes", "momentum",
                                           "{}"};

static void put_below(const char *folder, const char *name, const char *text) {
    char path[PATH_MAX + 300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    put_text(path, text);
}

static void begin_sample(const char *checkpoints, int64_t step, char *path) {
    char below[PATH_MAX + 300];
    assert_ok(ctx, wefti_checkpoint_begin(ctx, checkpoints, step, path));
    snprintf(below, sizeof below, "%s/optimizer", path);
    assert_ok(ctx, wefti_file_mkdirs(ctx, below));
    for (int i = 0; i < 3; i++) put_below(path, sample_names[i], sample_texts[i]);
}

static void make_sample(const char *checkpoints, int64_t step, int64_t keep) {
    char path[PATH_MAX];
    begin_sample(checkpoints, step, path);
    assert_ok(ctx, wefti_checkpoint_commit(ctx, checkpoints, step, layout, keep));
}

static const char *fresh(const char *name) {
    assert_ok(ctx, wefti_file_remove_tree(ctx, name));
    return name;
}

static weft_status verify(const char *path) {
    char *json;
    weft_status status = wefti_checkpoint_verify(ctx, path, &json);
    if (status != WEFT_OK) assert_null(json);
    wefti_free(ctx, json);
    return status;
}

static bool exists(const char *path) { return access(path, F_OK) == 0; }

static int64_t latest_step(const char *checkpoints) {
    char path[PATH_MAX];
    int64_t step;
    assert_ok(ctx, wefti_checkpoint_latest(ctx, checkpoints, &step, path));
    assert_true((step < 0) == (path[0] == '\0'));
    return step;
}

/* ---- the good way ---- */

TEST(a_committed_checkpoint_verifies_and_returns_its_layout) {
    const char *c = fresh("good/nested");
    char path[PATH_MAX], *json;
    int64_t step;
    begin_sample(c, 12, path);
    assert_string_equal(path, "good/nested/step-00000012.partial");
    assert_int_equal(latest_step(c), -1);
    assert_ok(ctx, wefti_checkpoint_commit(ctx, c, 12, layout, 0));
    assert_false(exists(path));
    assert_ok(ctx, wefti_checkpoint_latest(ctx, c, &step, path));
    assert_int_equal(step, 12);
    assert_string_equal(path, "good/nested/step-00000012");
    assert_ok(ctx, wefti_checkpoint_verify(ctx, path, &json));
    assert_string_equal(json, layout);
    wefti_free(ctx, json);
}

TEST(an_empty_checkpoint_is_one) {
    const char *c = fresh("empty");
    char path[PATH_MAX];
    assert_ok(ctx, wefti_checkpoint_begin(ctx, c, 0, path));
    assert_ok(ctx, wefti_checkpoint_commit(ctx, c, 0, "{}", 0));
    assert_int_equal(latest_step(c), 0);
    assert_ok(ctx, verify("empty/step-00000000"));
}

TEST(begin_empties_an_older_partial_folder) {
    const char *c = fresh("again");
    char path[PATH_MAX];
    begin_sample(c, 5, path);
    assert_ok(ctx, wefti_checkpoint_begin(ctx, c, 5, path));
    assert_false(exists("again/step-00000005.partial/config.json"));
    assert_true(exists("again/step-00000005.partial"));
}

TEST(a_newer_checkpoint_of_the_same_step_replaces_it) {
    const char *c = fresh("same");
    char path[PATH_MAX], *json;
    make_sample(c, 7, 3);
    assert_ok(ctx, wefti_checkpoint_begin(ctx, c, 7, path));
    put_below(path, "other", "x");
    assert_ok(ctx, wefti_checkpoint_commit(ctx, c, 7, "{\"second\":true}", 3));
    assert_ok(ctx, wefti_checkpoint_verify(ctx, "same/step-00000007", &json));
    assert_string_equal(json, "{\"second\":true}");
    wefti_free(ctx, json);
    assert_true(exists("same/step-00000007/other"));
    assert_false(exists("same/step-00000007.old"));
}

TEST(only_the_last_k_are_kept) {
    const char *c = fresh("keep");
    for (int64_t step = 10; step <= 50; step += 10) make_sample(c, step, 2);
    assert_false(exists("keep/step-00000030"));
    assert_true(exists("keep/step-00000040"));
    assert_true(exists("keep/step-00000050"));
    make_sample(c, 60, 0);
    make_sample(c, 70, -1);
    assert_true(exists("keep/step-00000040"));
    make_sample(c, 80, 1);
    assert_int_equal(latest_step(c), 80);
    assert_false(exists("keep/step-00000070"));
    assert_false(exists("keep/step-00000040"));
}

TEST(the_checkpoint_just_made_is_never_removed) {
    const char *c = fresh("back");
    make_sample(c, 100, 0);
    make_sample(c, 150, 0);
    make_sample(c, 60, 2); /* a run that went back to step 50 */
    assert_true(exists("back/step-00000060"));
    assert_false(exists("back/step-00000100"));
    assert_true(exists("back/step-00000150"));
}

TEST(leftovers_of_crashes_are_ignored_then_removed_for_their_room) {
    const char *c = fresh("left");
    char path[PATH_MAX];
    make_sample(c, 1, 0);
    begin_sample(c, 2, path);
    assert_ok(ctx, wefti_file_mkdirs(ctx, "left/step-00000000.removed/x"));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "left/step-00000004.partial/x"));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "left/step-00000002.partial-11/x"));
    assert_ok(ctx, wefti_file_mkdirs(ctx, "left/step-00000003.partial-4/x"));
    assert_int_equal(latest_step(c), 1);
    begin_sample(c, 3, path);
    assert_false(exists("left/step-00000002.partial-11"));
    assert_true(exists("left/step-00000003.partial-4")); /* who saves with this one */
    assert_false(exists("left/step-00000002.partial"));
    assert_false(exists("left/step-00000000.removed"));
    assert_true(exists("left/step-00000004.partial")); /* a later writer's */
    assert_ok(ctx, wefti_checkpoint_commit(ctx, c, 3, "{}", 5));
    assert_true(exists("left/step-00000001"));
    assert_int_equal(latest_step(c), 3);
}

TEST(a_part_removes_those_of_earlier_steps_and_nothing_of_the_writer) {
    const char *c = fresh("parts");
    char path[PATH_MAX];
    make_sample(c, 1, 0);
    begin_sample(c, 6, path);
    assert_ok(ctx, wefti_file_mkdirs(ctx, "parts/step-00000004.removed/x"));
    assert_ok(ctx, wefti_checkpoint_begin_part(ctx, c, 5, 2, path));
    assert_string_equal(path, "parts/step-00000005.partial-2");
    assert_ok(ctx, wefti_checkpoint_begin_part(ctx, c, 6, 0, path));
    assert_ok(ctx, wefti_checkpoint_begin_part(ctx, c, 6, 3, path));
    assert_false(exists("parts/step-00000005.partial-2"));
    assert_true(exists("parts/step-00000006.partial-0"));
    assert_true(exists("parts/step-00000006.partial"));
    assert_true(exists("parts/step-00000004.removed"));
    assert_true(exists("parts/step-00000001"));
}

/* Of a process that was away and wrote more than those who went on. */
TEST(a_later_part_is_no_old_checkpoint) {
    const char *c = fresh("later");
    char path[PATH_MAX];
    assert_ok(ctx, wefti_checkpoint_begin_part(ctx, c, 9, 2, path));
    make_sample(c, 1, 1);
    make_sample(c, 2, 1);
    assert_true(exists("later/step-00000009.partial-2"));
    assert_true(exists("later/step-00000002"));
    assert_false(exists("later/step-00000001"));
}

TEST(a_crash_between_the_two_renames_loses_nothing) {
    const char *c = fresh("swap");
    char path[PATH_MAX];
    int64_t step;
    make_sample(c, 4, 0);
    assert_int_equal(rename("swap/step-00000004", "swap/step-00000004.old"), 0);
    assert_ok(ctx, wefti_checkpoint_latest(ctx, c, &step, path));
    assert_int_equal(step, 4);
    assert_string_equal(path, "swap/step-00000004.old");
    assert_ok(ctx, verify(path));
    make_sample(c, 4, 0);
    assert_ok(ctx, wefti_checkpoint_latest(ctx, c, &step, path));
    assert_string_equal(path, "swap/step-00000004");
    assert_false(exists("swap/step-00000004.old"));
}

TEST(only_names_of_checkpoints_count) {
    static const char *const others[] = {"step-1",
                                         "step-000000009",
                                         "step-00000009x",
                                         "Step-00000009",
                                         "step-",
                                         "step-0000000-9",
                                         "step-00000009.OLD",
                                         "step-99999999999999999999",
                                         "step-00000009.old.old"};
    const char *c = fresh("names");
    assert_int_equal(latest_step(c), -1);
    make_sample(c, 8, 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "names/%s", others[i]);
        assert_ok(ctx, wefti_file_mkdirs(ctx, path));
        put_below(path, "index.json", "{}");
    }
    assert_ok(ctx, wefti_file_mkdirs(ctx, "names/step-00000010")); /* no index */
    assert_int_equal(latest_step(c), 8);
    make_sample(c, 123456789012, 0);
    assert_int_equal(latest_step(c), 123456789012);
    assert_ok(ctx, verify("names/step-123456789012"));
}

/* ---- damage ---- */

static void read_sample(const char *path, char **data, int64_t *n) {
    assert_ok(ctx, wefti_file_read(ctx, path, 1 << 20, data, n));
}

static const char *const damaged_names[] = {"model.safetensors", "optimizer/rank-0.bin",
                                            "config.json", "index.json"};

TEST(every_flipped_byte_of_every_file_is_found_and_named) {
    static const int masks[] = {0x01, 0x20, 0x80, 0xff};
    make_sample(fresh("flip"), 3, 0);
    for (int f = 0; f < 4; f++) {
        char path[PATH_MAX], *data;
        int64_t n;
        snprintf(path, sizeof path, "flip/step-00000003/%s", damaged_names[f]);
        read_sample(path, &data, &n);
        assert_true(n > 0);
        for (int64_t i = 0; i < n * 4; i++) {
            data[i / 4] = (char)(data[i / 4] ^ masks[i % 4]);
            put_bytes(path, data, n);
            assert_fails(ctx, verify("flip/step-00000003"), WEFT_ERR_FORMAT,
                         damaged_names[f]);
            data[i / 4] = (char)(data[i / 4] ^ masks[i % 4]);
        }
        put_bytes(path, data, n);
        assert_ok(ctx, verify("flip/step-00000003"));
        wefti_free(ctx, data);
    }
}

TEST(every_cut_and_every_longer_file_is_found_and_named) {
    make_sample(fresh("cut"), 3, 0);
    for (int f = 0; f < 4; f++) {
        char path[PATH_MAX], *data;
        int64_t n;
        snprintf(path, sizeof path, "cut/step-00000003/%s", damaged_names[f]);
        read_sample(path, &data, &n);
        for (int64_t cut = 0; cut < n; cut++) {
            put_bytes(path, data, cut);
            assert_fails(ctx, verify("cut/step-00000003"), WEFT_ERR_FORMAT,
                         damaged_names[f]);
        }
        data[n] = '\n'; /* the NUL after the bytes read */
        put_bytes(path, data, n + 1);
        assert_fails(ctx, verify("cut/step-00000003"), WEFT_ERR_FORMAT, damaged_names[f]);
        put_bytes(path, data, n);
        wefti_free(ctx, data);
    }
    assert_ok(ctx, verify("cut/step-00000003"));
}

TEST(missing_and_extra_files_are_named) {
    make_sample(fresh("count"), 3, 0);
    const char *c = "count/step-00000003";
    for (int f = 0; f < 3; f++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", c, damaged_names[f]);
        assert_int_equal(rename(path, "count/aside"), 0);
        assert_fails(ctx, verify(c), WEFT_ERR_FORMAT, damaged_names[f]);
        assert_int_equal(rename("count/aside", path), 0);
    }
    put_below(c, "zebra", "");
    assert_fails(ctx, verify(c), WEFT_ERR_CONFIG, "zebra");
    remove("count/step-00000003/zebra");
    put_below(c, "optimizer/aaa", "x");
    assert_fails(ctx, verify(c), WEFT_ERR_CONFIG, "optimizer/aaa");
    remove("count/step-00000003/optimizer/aaa");
    assert_int_equal(symlink("config.json", "count/step-00000003/link"), 0);
    assert_fails(ctx, verify(c), WEFT_ERR_FORMAT, "link is neither a file nor a folder");
    remove("count/step-00000003/link");
    assert_ok(ctx, verify(c));
    remove("count/step-00000003/index.json");
    assert_fails(ctx, verify(c), WEFT_ERR_FILE, "index.json");
    assert_fails(ctx, verify("count/absent"), WEFT_ERR_FILE, "count/absent/index.json");
}

TEST(a_checkpoint_under_another_steps_name_is_refused) {
    make_sample(fresh("moved"), 3, 0);
    assert_int_equal(rename("moved/step-00000003", "moved/step-00000004"), 0);
    assert_fails(ctx, verify("moved/step-00000004"), WEFT_ERR_FORMAT, "holds step 3");
    assert_int_equal(rename("moved/step-00000004", "moved/best"), 0);
    assert_ok(ctx, verify("moved/best"));
}

/* ---- the newest whole one ---- */

static int64_t find_before(const char *checkpoints, bool set_aside, int64_t before) {
    char path[PATH_MAX], expected[PATH_MAX], *json;
    int64_t step;
    assert_ok(ctx, wefti_checkpoint_find_whole(ctx, checkpoints, set_aside, before, &step,
                                               path, &json));
    if (step < 0) {
        assert_null(json);
        return -1;
    }
    assert_string_equal(json, layout);
    wefti_free(ctx, json);
    snprintf(expected, sizeof expected, "%s/step-%08lld", checkpoints, (long long)step);
    assert_memory_equal(path, expected, strlen(expected));
    assert_ok(ctx, verify(path));
    return step;
}

static int64_t find_whole(const char *checkpoints, bool set_aside) {
    return find_before(checkpoints, set_aside, INT64_MAX);
}

static char warned[8192];

static void hear(void *user, weft_log_level level, const char *line) {
    (void)user;
    if (level == WEFT_LOG_WARN) strncat(warned, line, sizeof warned - strlen(warned) - 1);
}

/* Every file of the newest checkpoint, cut to every length and removed. */
TEST(whatever_is_cut_the_newest_whole_one_is_found) {
    const char *c = fresh("whole");
    assert_int_equal(find_whole(c, true), -1);
    make_sample(c, 3, 0);
    weft_ctx_set_sink(ctx, hear, NULL);
    for (int f = 0; f < 4; f++) {
        make_sample(c, 4, 0);
        char path[PATH_MAX], *data;
        int64_t n;
        snprintf(path, sizeof path, "whole/step-00000004/%s", damaged_names[f]);
        read_sample(path, &data, &n);
        for (int64_t cut = -1; cut < n; cut++) {
            warned[0] = '\0';
            if (cut >= 0) put_bytes(path, data, cut);
            if (cut < 0) remove(path);
            assert_int_equal(find_whole(c, false), 3);
            assert_non_null(strstr(warned, "a damaged checkpoint is passed over: "));
            assert_non_null(strstr(warned, damaged_names[f]));
        }
        put_bytes(path, data, n);
        assert_int_equal(find_whole(c, false), 4);
        assert_int_equal(find_before(c, false, 5), 4);
        assert_int_equal(find_before(c, false, 4), 3);
        wefti_free(ctx, data);
    }
    weft_ctx_set_sink(ctx, NULL, NULL);
}

TEST(a_damaged_one_is_set_aside_by_the_writer_and_removed_later) {
    const char *c = fresh("aside");
    for (int64_t step = 1; step <= 4; step++) make_sample(c, step, 0);
    put_below("aside/step-00000004", "config.json", "[]");
    remove("aside/step-00000003/index.json");
    assert_int_equal(find_whole(c, false), 2);
    assert_true(exists("aside/step-00000004"));
    assert_int_equal(find_whole(c, true), 2);
    assert_false(exists("aside/step-00000004"));
    assert_false(exists("aside/step-00000003"));
    assert_true(exists("aside/step-00000004.damaged"));
    assert_int_equal(latest_step(c), 2);
    make_sample(c, 3, 2); /* two whole ones are kept, the damaged ones do not count */
    assert_true(exists("aside/step-00000002"));
    assert_false(exists("aside/step-00000001"));
    assert_false(exists("aside/step-00000003.damaged"));
    assert_true(exists("aside/step-00000004.damaged"));
    make_sample(c, 4, 2);
    assert_false(exists("aside/step-00000004.damaged"));
    assert_int_equal(find_whole(c, true), 4);
}

TEST(an_older_one_under_replacement_is_found_too) {
    const char *c = fresh("older");
    make_sample(c, 4, 0);
    assert_int_equal(rename("older/step-00000004", "older/step-00000004.old"), 0);
    make_sample("older/new", 4, 0);
    assert_int_equal(rename("older/new/step-00000004", "older/step-00000004"), 0);
    char path[PATH_MAX];
    int64_t step;
    assert_ok(ctx, wefti_checkpoint_latest(ctx, c, &step, path));
    assert_string_equal(path, "older/step-00000004"); /* of both the newer one */
    put_below("older/step-00000004", "config.json", "[]");
    assert_int_equal(find_whole(c, true), 4);
    assert_false(exists("older/step-00000004"));
}

TEST(what_is_no_damage_is_not_passed_over) {
    const char *c = fresh("none");
    char path[PATH_MAX], *json;
    int64_t step;
    make_sample(c, 1, 0);
    make_sample(c, 2, 0);
    put_below("none/step-00000002", "notes", "mine"); /* not weft's: nothing is removed */
    assert_fails(ctx,
                 wefti_checkpoint_find_whole(ctx, c, true, INT64_MAX, &step, path, &json),
                 WEFT_ERR_CONFIG, "notes");
    assert_null(json);
    assert_true(exists("none/step-00000002/notes"));
    remove("none/step-00000002/notes");
    put_below("none/step-00000002", "config.json", "");
    put_below("none/step-00000001", "config.json", "");
    assert_fails(ctx,
                 wefti_checkpoint_find_whole(ctx, c, true, INT64_MAX, &step, path, &json),
                 WEFT_ERR_FORMAT,
                 "no checkpoint in none is whole: none/step-00000002/config.json");
    assert_true(exists("none/step-00000002")); /* all damaged: nothing is touched */
}

/* ---- refusals ---- */

TEST(impossible_commits_are_refused_and_publish_nothing) {
    const char *c = fresh("refuse");
    char path[PATH_MAX];
    assert_fails(ctx, wefti_checkpoint_begin(ctx, c, -1, path), WEFT_ERR_ARGUMENT,
                 "step -1");
    assert_fails(ctx, wefti_checkpoint_commit(ctx, c, 1, layout, 0), WEFT_ERR_FILE,
                 "step-00000001.partial");
    begin_sample(c, 1, path);
    static const char *const bad[] = {"", "{", "[]", "7", "{\"a\":1,\"a\":2}", "{} x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(ctx, wefti_checkpoint_commit(ctx, c, 1, bad[i], 0),
                     WEFT_ERR_ARGUMENT, "layout");
    assert_int_equal(mkfifo("refuse/step-00000001.partial/fifo", 0600), 0);
    assert_fails(ctx, wefti_checkpoint_commit(ctx, c, 1, layout, 0), WEFT_ERR_FORMAT,
                 "fifo");
    remove("refuse/step-00000001.partial/fifo");
    put_below(path, "\xff\xfe", "");
    assert_fails(ctx, wefti_checkpoint_commit(ctx, c, 1, layout, 0), WEFT_ERR_FORMAT,
                 "UTF-8");
    remove("refuse/step-00000001.partial/\xff\xfe");
    assert_int_equal(latest_step(c), -1);
    assert_ok(ctx, wefti_checkpoint_commit(ctx, c, 1, layout, 0));
    assert_int_equal(latest_step(c), 1);
}

TEST(a_file_in_the_place_of_the_folder_is_an_error) {
    char path[PATH_MAX];
    int64_t step;
    fresh("occupied");
    assert_ok(ctx, wefti_file_write(ctx, "occupied", "x", 1));
    assert_fails(ctx, wefti_checkpoint_begin(ctx, "occupied", 1, path), WEFT_ERR_FILE,
                 "not a folder");
    assert_fails(ctx, wefti_checkpoint_latest(ctx, "occupied", &step, path),
                 WEFT_ERR_FILE, "occupied");
}

TEST(paths_too_long_are_an_error) {
    char path[PATH_MAX], name[PATH_MAX];
    int64_t step;
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_fails(ctx, wefti_checkpoint_begin(ctx, name, 1, path), WEFT_ERR_FILE,
                 "path too long");
    assert_fails(ctx, wefti_checkpoint_latest(ctx, name, &step, path), WEFT_ERR_FILE,
                 "aaa");
    assert_fails(ctx, verify(name), WEFT_ERR_FILE, "path too long");
}

TEST(a_full_disk_publishes_nothing_half_written) {
    const char *c = fresh("full");
    char path[PATH_MAX];
    struct rlimit before, small;
    make_sample(c, 1, 0);
    begin_sample(c, 2, path);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100; /* the index is longer */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    weft_status status = wefti_checkpoint_commit(ctx, c, 2, layout, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_fails(ctx, status, WEFT_ERR_FILE, "step-00000002.partial/index.json");
    assert_false(exists("full/step-00000002"));
    assert_false(exists("full/step-00000002.partial/index.json"));
    assert_int_equal(latest_step(c), 1);
    assert_ok(ctx, verify("full/step-00000001"));
    assert_ok(ctx, wefti_checkpoint_commit(ctx, c, 2, layout, 1)); /* with room again */
    assert_ok(ctx, verify("full/step-00000002"));
}

static void count_warnings(void *user, weft_log_level level, const char *line) {
    if (level == WEFT_LOG_WARN && strstr(line, "an old checkpoint stays")) ++*(int *)user;
}

/* A tree whose paths are longer than the system takes can not be removed by path. */
static void make_unremovable(const char *folder) {
    char name[201];
    int here = open(".", O_RDONLY | O_DIRECTORY);
    assert_true(here >= 0);
    memset(name, 'd', 200);
    name[200] = '\0';
    assert_int_equal(chdir(folder), 0);
    for (int i = 0; i < 25; i++) {
        assert_int_equal(mkdir(name, 0777), 0);
        assert_int_equal(chdir(name), 0);
    }
    assert_int_equal(fchdir(here), 0);
    close(here);
}

TEST(an_old_checkpoint_that_can_not_be_removed_is_a_warning) {
    assert_int_equal(system("rm -rf stuck"), 0);
    int warnings = 0;
    make_sample("stuck", 1, 0);
    make_unremovable("stuck/step-00000001");
    weft_ctx_set_sink(ctx, count_warnings, &warnings);
    make_sample("stuck", 2, 1);
    weft_ctx_set_sink(ctx, NULL, NULL);
    assert_int_equal(warnings, 1);
    assert_string_equal(weft_ctx_message(ctx), "");
    assert_int_equal(latest_step("stuck"), 2);
    assert_ok(ctx, verify("stuck/step-00000002"));
    assert_int_equal(system("rm -rf stuck"), 0);
}

/* ---- memory ---- */

/* The older checkpoint is there whatever has failed. */
static void begin_second(void *path) {
    assert_true(latest_step("memory") >= 1);
    begin_sample("memory", 2, path);
}

static weft_status commit_find_verify(void *user) {
    char path[PATH_MAX], *json;
    int64_t step;
    (void)user;
    WEFT_TRY(wefti_checkpoint_commit(ctx, "memory", 2, layout, 1));
    WEFT_TRY(wefti_checkpoint_latest(ctx, "memory", &step, path));
    if (step != 2) return WEFT_ERR_INTERNAL;
    WEFT_TRY(wefti_checkpoint_verify(ctx, path, &json));
    wefti_free(ctx, json);
    return WEFT_OK;
}

TEST(every_allocation_failure_is_clean) {
    char path[PATH_MAX];
    make_sample(fresh("memory"), 1, 0);
    assert_true(fail_each_allocation(ctx, begin_second, commit_find_verify, path) > 15);
}

int main(void) { return check_run(setup, teardown); }
