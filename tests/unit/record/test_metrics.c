/* SPDX-License-Identifier: MIT */
#include "unit/record/helpers.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "record/metrics.h"

static const char path[] = "room/metrics.jsonl";

static weft_status write_step(wefti_metrics *m, int64_t step, double loss) {
    const wefti_metric row[] = {
        {.name = "step", .kind = WEFTI_METRIC_INT, .integer = step},
        {.name = "loss", .kind = WEFTI_METRIC_REAL, .real = loss},
    };
    return wefti_metrics_write(ctx, m, row, 2);
}

static void write_steps(int64_t first, int64_t end) {
    wefti_metrics *m;
    assert_ok(ctx, wefti_metrics_open(ctx, path, first, &m));
    for (int64_t step = first; step < end; step++)
        assert_ok(ctx, write_step(m, step, (double)step / 4));
    assert_ok(ctx, wefti_metrics_close(ctx, m));
}

TEST_IN(setup, teardown, a_line_is_an_object_of_the_given_values) {
    wefti_metrics *m;
    const wefti_metric row[] = {
        {.name = "step", .kind = WEFTI_METRIC_INT, .integer = INT64_MIN},
        {.name = "loss", .kind = WEFTI_METRIC_REAL, .real = 3.25},
        {.name = "bad", .kind = WEFTI_METRIC_REAL, .real = NAN},
        {.name = "worse", .kind = WEFTI_METRIC_REAL, .real = -INFINITY},
        {.name = "host \"a\"", .kind = WEFTI_METRIC_TEXT, .text = "x\ny\xff"},
        {.name = "none", .kind = WEFTI_METRIC_TEXT},
    };
    assert_ok(ctx, wefti_metrics_open(ctx, path, 0, &m));
    assert_ok(ctx, wefti_metrics_write(ctx, m, row, 6));
    assert_ok(ctx, wefti_metrics_write(ctx, m, row, 0));
    assert_contents(ctx, path,
                    "{\"step\":-9223372036854775808,\"loss\":3.25,\"bad\":null,"
                    "\"worse\":null,\"host \\\"a\\\"\":\"x\\u000ay\xef\xbf\xbd\","
                    "\"none\":null}\n{}\n");
    assert_ok(ctx, wefti_metrics_close(ctx, m));
}

TEST_IN(setup, teardown, a_line_is_there_as_soon_as_it_is_written) {
    wefti_metrics *m;
    assert_ok(ctx, wefti_metrics_open(ctx, path, 0, &m));
    assert_ok(ctx, write_step(m, 1, 0.5));
    assert_contents(ctx, path, "{\"step\":1,\"loss\":0.5}\n");
    assert_ok(ctx, wefti_metrics_close(ctx, m));
}

TEST_IN(setup, teardown, two_metrics_of_one_name_are_refused) {
    wefti_metrics *m;
    const wefti_metric row[] = {{.name = "a"}, {.name = "b"}, {.name = "a"}};
    assert_ok(ctx, wefti_metrics_open(ctx, path, 0, &m));
    assert_fails(ctx, wefti_metrics_write(ctx, m, row, 3), WEFT_ERR_ARGUMENT, "'a'");
    assert_contents(ctx, path, "");
    assert_ok(ctx, wefti_metrics_close(ctx, m));
}

TEST_IN(setup, teardown, writing_allocates_nothing) {
    wefti_metrics *m;
    assert_ok(ctx, wefti_metrics_open(ctx, path, 0, &m));
    int64_t before = weft_ctx_allocations(ctx);
    for (int64_t step = 0; step < 100; step++) assert_ok(ctx, write_step(m, step, 1e-3));
    assert_int_equal(weft_ctx_allocations(ctx), before);
    assert_ok(ctx, wefti_metrics_close(ctx, m));
}

/* Steps of the file in order, as "0 1 2". */
static void assert_steps(const char *expected) {
    static const char *const names[] = {"step"};
    double *rows;
    int64_t n;
    char text[1000] = "";
    assert_ok(ctx, wefti_metrics_read(ctx, path, names, 1, &rows, &n));
    for (int64_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? " %g" : "%g",
                 rows[i]);
    assert_string_equal(text, expected);
    wefti_free(ctx, rows);
}

TEST_IN(setup, teardown, a_resumed_run_has_each_step_once) {
    write_steps(0, 6);
    assert_steps("0 1 2 3 4 5");
    write_steps(4, 8);
    assert_steps("0 1 2 3 4 5 6 7");
    write_steps(8, 9);
    assert_steps("0 1 2 3 4 5 6 7 8");
    write_steps(100, 100);
    assert_steps("0 1 2 3 4 5 6 7 8");
    write_steps(0, 2);
    assert_steps("0 1");
}

/* A writer that slept still has the file open: what it writes then is not in the file that has
 * the name, whether lines were dropped or not. */
TEST_IN(setup, teardown, a_former_writer_reaches_nobody) {
    for (int first = 3; first >= 2; first--) {
        wefti_metrics *sleeper;
        const wefti_metric row = {.name = "step", .kind = WEFTI_METRIC_INT, .integer = 9};
        write_steps(0, 3);
        assert_ok(ctx, wefti_metrics_open(ctx, path, 3, &sleeper));
        write_steps(first, 4);
        assert_ok(ctx, wefti_metrics_write(ctx, sleeper, &row, 1));
        assert_ok(ctx, wefti_metrics_close(ctx, sleeper));
        assert_steps("0 1 2 3");
    }
}

TEST_IN(setup, teardown, the_newest_step_is_that_of_the_last_lines) {
    int64_t step;
    assert_ok(ctx, wefti_metrics_newest(ctx, "room/none.jsonl", &step));
    assert_int_equal(step, 0);
    put_text(path, "{\"step\":7}\n{\"step\":6}\nnonsense\n{\"note\":\"a\"}\n{\"step\":8");
    assert_ok(ctx, wefti_metrics_newest(ctx, path, &step));
    assert_int_equal(step, 7);
    write_steps(0, 20000); /* more than is read */
    assert_ok(ctx, wefti_metrics_newest(ctx, path, &step));
    assert_int_equal(step, 19999);
}

TEST_IN(setup, teardown, lines_without_a_step_are_kept) {
    put_text(path, "{\"note\":\"a\"}\n{\"step\":5.0}\n{\"step\":\"9\"}\n{\"step\":4}\n");
    write_steps(5, 6);
    assert_contents(ctx, path,
                    "{\"note\":\"a\"}\n{\"step\":\"9\"}\n{\"step\":4}\n"
                    "{\"step\":5,\"loss\":1.25}\n");
}

TEST_IN(setup, teardown, a_line_cut_anywhere_is_dropped_and_the_rest_kept) {
    static const char text[] = "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":0.25}\n";
    static const size_t first = 22;
    for (size_t cut = 0; cut < sizeof text; cut++) {
        char torn[sizeof text];
        snprintf(torn, cut + 1, "%s", text);
        bool has_first = cut >= first - 1, has_second = cut >= sizeof text - 2;
        put_text(path, torn);
        assert_steps(has_second ? "1 2" : has_first ? "1" : "");
        write_steps(7, 8);
        assert_steps(has_second ? "1 2 7" : has_first ? "1 7" : "7");
    }
}

TEST_IN(setup, teardown, empty_lines_are_left_out) {
    put_text(path, "\n{\"step\":1}\r\n  \n{\"step\":2}");
    assert_steps("1 2");
    write_steps(3, 4);
    assert_contents(ctx, path,
                    "{\"step\":1}\r\n{\"step\":2}\n{\"step\":3,\"loss\":0.75}\n");
}

static char warned[1024];

static void hear(void *user, weft_log_level level, const char *line) {
    (void)user;
    if (level == WEFT_LOG_WARN) snprintf(warned, sizeof warned, "%s", line);
}

TEST_IN(setup, teardown, damaged_lines_are_left_out_with_their_number) {
    static const char *const bad[] = {"x",
                                      "[]",
                                      "7",
                                      "{\"step\":1",
                                      "{\"step\":1}{}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":nan}",
                                      "{\"a\":1e999}",
                                      "\xff"};
    static const char *const names[] = {"step"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[200];
        wefti_metrics *m;
        double *rows;
        int64_t n;
        snprintf(text, sizeof text, "{\"step\":0}\n%s\n{\"step\":2}\n", bad[i]);
        put_text(path, text);
        weft_ctx_set_sink(ctx, hear, NULL);
        warned[0] = '\0';
        assert_ok(ctx, wefti_metrics_read(ctx, path, names, 1, &rows, &n));
        assert_non_null(strstr(warned, "line 2 of room/"));
        assert_int_equal(n, 2);
        assert_true(rows[0] == 0 && rows[1] == 2);
        wefti_free(ctx, rows);
        assert_contents(ctx, path, text);
        warned[0] = '\0';
        assert_ok(ctx, wefti_metrics_open(ctx, path, 5, &m));
        assert_non_null(strstr(warned, "line 2 of room/"));
        assert_ok(ctx, wefti_metrics_close(ctx, m));
        assert_contents(ctx, path, "{\"step\":0}\n{\"step\":2}\n");
        weft_ctx_set_sink(ctx, NULL, NULL);
    }
    wefti_metrics *m;
    assert_ok(ctx, wefti_metrics_open(ctx, path, 0, &m)); /* a new run does not mind */
    assert_ok(ctx, wefti_metrics_close(ctx, m));
    assert_contents(ctx, path, "");
}

/* A run of 40 steps with a byte changed, a stretch zeroed or the file cut at each offset:
 * it goes on behind step 20, and the lines that are whole are there. */
TEST_IN(setup, teardown, no_damage_stops_a_resumed_run) {
    static const char *const names[] = {"step"};
    char whole[4096] = "", text[4096];
    for (int step = 1; step <= 40; step++)
        snprintf(whole + strlen(whole), 64, "{\"step\":%d,\"loss\":0.5}\n", step);
    int length = (int)strlen(whole);
    for (int at = 0; at < 3 * length; at += 11) {
        wefti_metrics *m;
        double *rows;
        int64_t n_rows, n = length;
        memcpy(text, whole, sizeof text);
        if (at % 3 == 0) text[at / 3] ^= 0x15;
        if (at % 3 == 1) memset(text + at / 3, 0, at / 3 + 40 > length ? 1 : 40);
        if (at % 3 == 2) n = at / 3;
        put_bytes(path, text, n);
        assert_ok(ctx, wefti_metrics_open(ctx, path, 21, &m));
        const wefti_metric row = {.name = "step", .integer = 21};
        assert_ok(ctx, wefti_metrics_write(ctx, m, &row, 1));
        assert_ok(ctx, wefti_metrics_sync(ctx, m));
        assert_ok(ctx, wefti_metrics_read(ctx, path, names, 1, &rows, &n_rows));
        assert_ok(ctx, wefti_metrics_close(ctx, m));
        if (at % 3 < 2) assert_in_range(n_rows, 18, 22);
        assert_true(n_rows >= 1 && rows[n_rows - 1] == 21);
        wefti_free(ctx, rows);
    }
}

TEST_IN(setup, teardown, numbers_are_read_by_name) {
    static const char *const names[] = {"loss", "step", "absent"};
    double *rows;
    int64_t n;
    put_text(path, "{\"step\":1,\"loss\":0.5,\"host\":\"a\"}\n"
                   "{\"loss\":null,\"step\":9007199254740993}\n{}\n"
                   "{\"loss\":true,\"step\":[1]}\n{\"loss\":-1e-3}\n");
    assert_ok(ctx, wefti_metrics_read(ctx, path, names, 3, &rows, &n));
    assert_int_equal(n, 5);
    assert_true(rows[0] == 0.5 && rows[1] == 1);
    assert_true(isnan(rows[3]) && rows[4] == 9007199254740992.0);
    for (int i = 6; i < 12; i++) assert_true(isnan(rows[i]));
    assert_true(rows[12] == -1e-3 && isnan(rows[13]));
    for (int i = 0; i < 5; i++) assert_true(isnan(rows[3 * i + 2]));
    wefti_free(ctx, rows);
}

TEST_IN(setup, teardown, a_file_without_lines_has_no_rows) {
    static const char *const names[] = {"loss"};
    double *rows;
    int64_t n;
    put_text(path, "");
    assert_ok(ctx, wefti_metrics_read(ctx, path, names, 1, &rows, &n));
    assert_int_equal(n, 0);
    assert_non_null(rows);
    wefti_free(ctx, rows);
    assert_fails(ctx, wefti_metrics_read(ctx, "room/absent", names, 1, &rows, &n),
                 WEFT_ERR_FILE, "room/absent");
}

static void append(const char *text) {
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) >= 0 && fclose(f) == 0, true);
}

/* What has been read is not read again: a change of an old line is not seen. */
TEST_IN(setup, teardown, only_what_is_new_is_read) {
    static const char *const names[] = {"step"};
    wefti_metrics_feed feed = {0};
    char text[8192] = "";
    for (int i = 1; i <= 100; i++)
        snprintf(text + strlen(text), 40, "{\"step\":%d,\"loss\":1.25}\n", i);
    put_text(path, text);
    assert_ok(ctx, wefti_metrics_follow(ctx, path, names, 1, &feed));
    assert_int_equal(feed.n, 100);
    text[8] = '9'; /* {"step":9 .. as a line that was there before */
    put_text(path, text);
    append("{\"step\":101}\n{\"step\":102}");
    assert_ok(ctx, wefti_metrics_follow(ctx, path, names, 1, &feed));
    assert_int_equal(feed.n, 102);
    assert_true(feed.rows[0] == 1 && feed.rows[100] == 101 && feed.rows[101] == 102);
    append("3}\n{\"step\":"); /* the line goes on: it is no {"step":102} */
    assert_ok(ctx, wefti_metrics_follow(ctx, path, names, 1, &feed));
    assert_int_equal(feed.n, 101);
    wefti_free(ctx, feed.rows);
}

TEST_IN(setup, teardown, another_file_is_read_anew) {
    static const char *const names[] = {"step"};
    static const char *const texts[] = {"{\"step\":1}\n{\"step\":2}\n", "{\"step\":7}\n",
                                        "", "{\"step\":3}\n{\"step\":4}\nx\n",
                                        "{\"step\":5}\n{\"step\":6}\nx\n{\"step\":8}\n"};
    static const int n[] = {2, 1, 0, 2, 3}, first[] = {1, 7, 0, 3, 5};
    wefti_metrics_feed feed = {0};
    for (int i = 0; i < 5; i++) {
        put_text(path, texts[i]);
        assert_ok(ctx, wefti_metrics_follow(ctx, path, names, 1, &feed));
        assert_int_equal(feed.n, n[i]);
        assert_true(n[i] == 0 || feed.rows[0] == first[i]);
    }
    unlink(path);
    assert_fails(ctx, wefti_metrics_follow(ctx, path, names, 1, &feed), WEFT_ERR_FILE,
                 path);
    put_text(path, texts[0]);
    assert_ok(ctx, wefti_metrics_follow(ctx, path, names, 1, &feed));
    assert_int_equal(feed.n, 2);
    wefti_free(ctx, feed.rows);
}

TEST_IN(setup, teardown, places_that_can_not_be_written_are_an_error) {
    wefti_metrics *m;
    assert_fails(ctx, wefti_metrics_open(ctx, "room/absent/m", 0, &m), WEFT_ERR_FILE,
                 "room/absent/m");
    assert_fails(ctx, wefti_metrics_open(ctx, "room", 3, &m), WEFT_ERR_FILE, "room");
    assert_null(m);
    assert_int_equal(mkfifo("room/fifo", 0600), 0);
    assert_fails(ctx, wefti_metrics_open(ctx, "room/fifo", 3, &m), WEFT_ERR_FILE,
                 "regular");
    assert_ok(ctx, wefti_metrics_close(ctx, NULL));
}

TEST_IN(setup, teardown, a_full_disk_leaves_whole_lines) {
    struct rlimit before, small;
    wefti_metrics *m;
    char note[300];
    memset(note, 'n', sizeof note - 1);
    note[sizeof note - 1] = '\0';
    const wefti_metric big = {.name = "note", .kind = WEFTI_METRIC_TEXT, .text = note};
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(ctx, wefti_metrics_open(ctx, path, 0, &m));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100;
    assert_ok(ctx, write_step(m, 1, 0.5));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    weft_status status = wefti_metrics_write(ctx, m, &big,
                                             1); /* 78 bytes of it would fit */
    weft_status again = write_step(m, 2, 0.5), synced = wefti_metrics_sync(ctx, m);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, WEFT_OK); /* both wait */
    assert_int_equal(again, WEFT_OK);
    assert_fails(ctx, synced, WEFT_ERR_FILE, "could not write room/metrics.jsonl");
    assert_contents(ctx, path, "{\"step\":1,\"loss\":0.5}\n");
    assert_ok(ctx, wefti_metrics_close(ctx, m));
    char whole[400];
    snprintf(whole, sizeof whole,
             "{\"step\":1,\"loss\":0.5}\n{\"note\":\"%s\"}\n{\"step\":2,\"loss\":0.5}\n",
             note);
    assert_contents(ctx, path, whole);
}

static void write_hundred(void *user) {
    (void)user;
    write_steps(0, 100);
}

static weft_status resume_and_read(void *user) {
    (void)user;
    static const char *const names[] = {"loss"};
    wefti_metrics *m;
    double *rows;
    int64_t n;
    WEFT_TRY(wefti_metrics_open(ctx, path, 3, &m));
    weft_status status = write_step(m, 3, 0.5);
    weft_status closed = wefti_metrics_close(ctx, m);
    if (status == WEFT_OK) status = closed;
    if (status == WEFT_OK) status = wefti_metrics_read(ctx, path, names, 1, &rows, &n);
    if (status == WEFT_OK) wefti_free(ctx, rows);
    return status;
}

TEST_IN(setup, teardown, every_allocation_failure_is_clean) {
    assert_true(fail_each_allocation(ctx, write_hundred, resume_and_read, NULL) >= 5);
}
