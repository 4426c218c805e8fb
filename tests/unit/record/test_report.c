/* SPDX-License-Identifier: MIT */
/* The page that is written: its frame, and the JSON block that the browser draws. What
 * the browser makes of it is judged in tests/cli/test_report.sh. */
#include "unit/record/helpers.h"

#include <math.h>
#include <unistd.h>

#include <jansson.h>

#include "base/rng.h"
#include "base/buffer.h"
#include "record/metrics.h"
#include <weft/report.h>

static void write_step(wefti_metrics *m, int64_t step, double wire) {
    double s = (double)step;
    const wefti_metric row[] = {
        {.name = "step", .kind = WEFTI_METRIC_INT, .integer = step},
        {.name = "loss", .kind = WEFTI_METRIC_REAL, .real = 3 + 7 * exp(-s / 30)},
        {.name = "lr", .kind = WEFTI_METRIC_REAL, .real = 6e-4},
        {.name = "grad_norm", .kind = WEFTI_METRIC_REAL, .real = 1},
        {.name = "tokens", .kind = WEFTI_METRIC_INT, .integer = 1000},
        {.name = "tokens_per_s", .kind = WEFTI_METRIC_REAL, .real = 4000},
        {.name = "mfu", .kind = WEFTI_METRIC_REAL, .real = 0.4},
        {.name = "memory_bytes", .kind = WEFTI_METRIC_INT, .integer = 5000000},
        {.name = "wire_bytes_out", .kind = WEFTI_METRIC_REAL, .real = wire},
        {.name = "wire_bytes_in", .kind = WEFTI_METRIC_REAL, .real = wire},
        {.name = "compute_s", .kind = WEFTI_METRIC_REAL, .real = 0.2},
        {.name = "exchange_s", .kind = WEFTI_METRIC_REAL, .real = 0.1},
        {.name = "wait_s", .kind = WEFTI_METRIC_REAL, .real = 0.025},
        {.name = "hidden_share", .kind = WEFTI_METRIC_REAL, .real = 0.75},
        {.name = "step_s", .kind = WEFTI_METRIC_REAL, .real = 0.25},
        {.name = "elapsed_s", .kind = WEFTI_METRIC_REAL, .real = 0.25 * s},
    };
    assert_ok(ctx, wefti_metrics_write(ctx, m, row, sizeof row / sizeof row[0]));
}

static void write_evaluation(wefti_metrics *m, int64_t step, double loss, double bigram) {
    const wefti_metric row[] = {
        {.name = "step", .kind = WEFTI_METRIC_INT, .integer = step},
        {.name = "elapsed_s", .kind = WEFTI_METRIC_REAL, .real = 0.25 * (double)step},
        {.name = "validation_loss", .kind = WEFTI_METRIC_REAL, .real = loss},
        {.name = "bigram_loss", .kind = WEFTI_METRIC_REAL, .real = bigram},
    };
    assert_ok(ctx, wefti_metrics_write(ctx, m, row, isnan(bigram) ? 3 : 4));
}

static void make_run(const char *folder, int64_t n_steps, double wire) {
    char path[200];
    wefti_metrics *m;
    assert_ok(ctx, wefti_file_mkdirs(ctx, folder));
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    assert_ok(ctx, wefti_metrics_open(ctx, path, 0, &m));
    for (int64_t step = 1; step <= n_steps; step++) {
        write_step(m, step, wire);
        if (step % 50 == 0) write_evaluation(m, step, 4.125, NAN);
    }
    write_evaluation(m, n_steps, 3.125, 5.5);
    assert_ok(ctx, wefti_metrics_close(ctx, m));
}

/* The data of a page; the caller gives it back with json_decref. The page is whole: what
 * begins the block and what ends it is there once. */
static json_t *data_of(const char *path) {
    static const char begin[] = "<script type=\"application/json\" id=\"data\">";
    char *page = NULL;
    int64_t n;
    assert_ok(ctx, wefti_file_read(ctx, path, 64 << 20, &page, &n));
    assert_int_equal(count_of(page, begin), 1);
    char *block = strstr(page, begin) + strlen(begin);
    assert_int_equal(count_of(block, "</script>"), 2); /* this block, and the program */
    *strchr(block, '<') = '\0';                        /* no '<' inside of the block */
    json_error_t error;
    json_t *data = json_loads(block, JSON_REJECT_DUPLICATES, &error);
    if (!data) fail_msg("the block is not JSON: %s at %d", error.text, error.position);
    wefti_free(ctx, page);
    return data;
}

static const json_t *run_of(const json_t *data, size_t i) {
    return json_array_get(json_object_get(data, "runs"), i);
}

/* The number at "a.b" of a run; NAN: null or nothing. */
static double number_at(const json_t *run, const char *table, const char *name) {
    const json_t *value = json_object_get(json_object_get(run, table), name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const json_t *column_at(const json_t *run, const char *table, const char *name) {
    return json_object_get(json_object_get(run, table), name);
}

static const char *text_of(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

/* All columns of both tables have one length each. */
static void check_tables(const json_t *run) {
    static const char *const tables[] = {"steps", "evaluations"};
    for (int t = 0; t < 2; t++) {
        json_t *table = json_object_get(run, tables[t]), *column;
        const char *name;
        size_t n = SIZE_MAX;
        assert_true(json_is_object(table));
        json_object_foreach(table, name, column) {
            if (json_is_object(column)) continue; /* low and high */
            if (n == SIZE_MAX) n = json_array_size(column);
            if (json_array_size(column) != n)
                fail_msg("%s.%s has %zu numbers", tables[t], name,
                         json_array_size(column));
        }
    }
}

TEST_IN(setup, teardown, the_page_has_the_numbers_of_its_run) {
    static const char config[] = "method: flexdemo # a <b> & \"c\"\n";
    static const struct {
        const char *name;
        double value;
    } rows[] = {{"steps", 200},
                {"elapsed_s", 50},
                {"validation_loss", 3.125},
                {"tokens", 200000},
                {"tokens_per_s", 4000},
                {"best_validation_loss", 3.125},
                {"bigram_loss", 5.5},
                {"mfu", 0.4},
                {"memory_bytes", 5e6},
                {"step_s", 0.25},
                {"median_step_s", 0.25},
                {"compute_s", 0.2},
                {"exchange_s", 0.1},
                {"wait_s", 0.025},
                {"hidden_share", 0.75},
                {"wire_bytes_out", 2e6},
                {"wire_bytes_in", 2e6},
                {"wire_total", 4e8},
                {"steps_without_loss", 0}};
    make_run("room/flexdemo", 200, 2e6);
    put_text("room/flexdemo/config.yaml", config);
    assert_ok(ctx, weft_report_write(ctx, "room/flexdemo", NULL));
    json_t *data = data_of("room/flexdemo/report.html");
    const json_t *run = run_of(data, 0);
    assert_string_equal(text_of(run, "name"), "flexdemo");
    assert_string_equal(text_of(run, "config"), config);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!(fabs(number_at(run, "summary", rows[i].name) / rows[i].value - 1) < 1e-6) &&
            number_at(run, "summary", rows[i].name) != rows[i].value)
            fail_msg("%s is %g", rows[i].name, number_at(run, "summary", rows[i].name));
    check_tables(run);
    assert_int_equal(json_array_size(column_at(run, "steps", "loss")), 200);
    assert_int_equal(json_array_size(column_at(run, "evaluations", "validation_loss")),
                     5);
    assert_null(
        column_at(run, "steps", "consensus_distance")); /* says nothing: left out */
    assert_true(json_is_null(json_object_get(run, "prediction")));
    assert_int_equal(json_array_size(json_object_get(run, "timelines")), 0);
    json_decref(data);
}

TEST_IN(setup, teardown, a_run_alone_is_written_where_it_is_told) {
    make_run("room/alone", 20, 0);
    assert_ok(ctx, weft_report_write(ctx, "room/alone", "room/page.html"));
    json_t *data = data_of("room/page.html");
    assert_true(number_at(run_of(data, 0), "summary", "wire_total") == 0);
    assert_true(json_is_null(json_object_get(run_of(data, 0), "config")));
    assert_int_equal(access("room/alone/report.html", F_OK), -1);
    json_decref(data);
}

/* The frame of the page asks nothing from elsewhere. */
TEST_IN(setup, teardown, the_page_needs_no_network) {
    static const char *const foreign[] = {
        "src=", "href=", "@import", "XMLHttp", "eval(", "innerHTML", "document.write"};
    make_run("room/a", 3, 0);
    assert_ok(ctx, weft_report_write(ctx, "room/a", NULL));
    char *page = read_text(ctx, "room/a/report.html", NULL);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (strstr(page, foreign[i])) fail_msg("the page has %s", foreign[i]);
    assert_non_null(strstr(page, "default-src 'none'"));
    /* it asks for its own data again only if it is told to, and for nothing else */
    assert_non_null(strstr(page, "\"refresh_s\":0,"));
    for (const char *at = page; (at = strstr(at, "fetch(")); at++)
        assert_memory_equal(at, "fetch('data.json'", strlen("fetch('data.json'"));
    assert_null(strstr(page, "{{"));
    wefti_free(ctx, page);
}

TEST_IN(setup, teardown, a_run_that_has_just_begun_has_a_page) {
    static const char *const begun[] = {
        "", "{\"step\":0,\"validation_loss\":5.0}\n", "{\"step\":1,\"loss\":4.5}\n",
        "{\"step\":1,\"loss\":nul", "{\"step\":1,\"loss\":null,\"tokens\":5}\n"};
    for (int i = 0; i < 5; i++) {
        put_text("room/metrics.jsonl", begun[i]);
        assert_ok(ctx, weft_report_write(ctx, "room", NULL));
        json_decref(data_of("room/report.html"));
    }
}

TEST_IN(setup, teardown, no_text_leaves_its_block) {
    static const char name[] = "<!--<script>alert(1)<\\script>&\"'\x01\xff";
    static const char wild[] =
        "a: \"</script><img src=x onerror=alert(1)>\"\n# \xe2\x80\xa8 \x02\n";
    char folder[100], path[140];
    snprintf(folder, sizeof folder, "room/%s", name);
    snprintf(path, sizeof path, "%s/config.yaml", folder);
    make_run(folder, 3, 1);
    put_text(path, wild);
    snprintf(path, sizeof path, "%s/timeline.json", folder);
    put_text(path,
             "{\"timeline\": [{\"lane\": \"</script>\", \"what\": \"<!--<script>\", "
             "\"begin_s\": 0, \"end_s\": 1}]}");
    assert_ok(ctx, weft_report_write(ctx, folder, "room/p.html"));
    json_t *data = data_of("room/p.html");
    assert_string_equal(text_of(run_of(data, 0), "name"),
                        "<!--<script>alert(1)<\\script>&\"'\x01\xef\xbf\xbd");
    assert_string_equal(text_of(run_of(data, 0), "config"), wild);
    json_decref(data);
}

TEST_IN(setup, teardown, a_loss_that_is_not_finite_is_null_and_counted) {
    put_text("room/metrics.jsonl", "{\"step\":1,\"loss\":4.5,\"tokens\":5}\n"
                                   "{\"step\":2,\"loss\":null,\"tokens\":5}\n"
                                   "{\"step\":3,\"loss\":4.25,\"tokens\":5}\n");
    assert_ok(ctx, weft_report_write(ctx, "room", NULL));
    json_t *data = data_of("room/report.html");
    const json_t *loss = column_at(run_of(data, 0), "steps", "loss");
    assert_true(json_number_value(json_array_get(loss, 0)) == 4.5);
    assert_true(json_is_null(json_array_get(loss, 1)));
    assert_true(number_at(run_of(data, 0), "summary", "steps_without_loss") == 1);
    json_decref(data);
}

TEST_IN(setup, teardown, wild_numbers_do_not_break_the_page) {
    static const char *const names[] = {"step",
                                        "loss",
                                        "lr",
                                        "tokens",
                                        "tokens_per_s",
                                        "wire_bytes_out",
                                        "wire_bytes_in",
                                        "compute_s",
                                        "exchange_s",
                                        "wait_s",
                                        "hidden_share",
                                        "step_s",
                                        "elapsed_s",
                                        "validation_loss",
                                        "bigram_loss",
                                        "mfu",
                                        "memory_bytes",
                                        "grad_norm"};
    static const char *const values[] = {
        "0",     "-1",    "1e308", "-1e308", "1e-308", "null", "3",
        "\"x\"", "1e100", "true",  "-0.0",   "[]",     "1e99", "123456789012345678"};
    for (uint64_t trial = 0; trial < 25; trial++) {
        char text[20000] = "";
        for (uint64_t line = 0; line < 12; line++) {
            strcat(text, "{\"x\":0");
            for (uint64_t k = 0; k < 18; k++) {
                uint64_t r = wefti_rng_u64(6, WEFTI_STREAM_TEST, trial * 12 + line, k);
                if (r % 3 == 0) continue;
                snprintf(text + strlen(text), 100, ",\"%s\":%s", names[k],
                         values[r / 3 % 14]);
            }
            strcat(text, "}\n");
        }
        put_text("room/metrics.jsonl", text);
        assert_ok(ctx, weft_report_write(ctx, "room", NULL));
        json_decref(data_of("room/report.html"));
        static const char *const folders[] = {"room", "./room"};
        assert_ok(ctx, weft_report_compare(ctx, folders, 2, "room/c.html"));
        json_decref(data_of("room/c.html"));
    }
}

TEST_IN(setup, teardown, runs_of_one_name_are_called_by_their_paths) {
    static const char *const folders[] = {"room/full", "room/demo", "room/other/demo"};
    make_run(folders[0], 150, 4e8);
    make_run(folders[1], 150, 1e6);
    make_run(folders[2], 30, 1e6);
    assert_ok(ctx, weft_report_compare(ctx, folders, 3, "room/compare.html"));
    json_t *data = data_of("room/compare.html");
    assert_int_equal(json_array_size(json_object_get(data, "runs")), 3);
    assert_string_equal(text_of(run_of(data, 0), "name"), "full");
    assert_string_equal(text_of(run_of(data, 1), "name"), "room/demo");
    assert_string_equal(text_of(run_of(data, 2), "name"), "room/other/demo");
    assert_true(number_at(run_of(data, 0), "summary", "wire_total") == 6e10);
    assert_true(number_at(run_of(data, 2), "summary", "steps") == 30);
    json_decref(data);
}

/* A run of n steps with one loss far above the others; the greatest loss in the block. */
TEST_IN(setup, teardown, a_long_run_is_thinned_but_keeps_its_spikes) {
    enum { N = 100000, SPIKE = 70123 };
    wefti_buffer text = {0};
    for (int i = 1; i <= N; i++)
        wefti_buffer_print(ctx, &text,
                           "{\"step\":%d,\"loss\":%d.5,\"tokens\":7,\"step_s\":0.%03d,"
                           "\"elapsed_s\":%d}\n",
                           i, i == SPIKE ? 99 : 3 + i % 2, 100 + i % 7, i);
    put_text("room/metrics.jsonl", text.bytes);
    wefti_buffer_fini(ctx, &text);
    assert_ok(ctx, weft_report_write(ctx, "room", NULL));
    int64_t n_bytes;
    wefti_free(ctx, read_text(ctx, "room/report.html", &n_bytes));
    assert_in_range(n_bytes, 1, 3000000);
    json_t *data = data_of("room/report.html");
    const json_t *run = run_of(data, 0), *loss = column_at(run, "steps", "loss"), *value;
    const json_t *step = column_at(run, "steps", "step");
    const json_t *steps = json_object_get(run, "steps");
    const json_t *low = json_object_get(json_object_get(steps, "low"), "loss");
    const json_t *high = json_object_get(json_object_get(steps, "high"), "loss");
    double greatest = 0;
    size_t i, n = json_array_size(loss);
    json_array_foreach(high, i, value) {
        greatest = fmax(greatest, json_number_value(value));
        assert_true(json_number_value(json_array_get(low, i)) == 3.5);
    }
    check_tables(run);
    assert_true(greatest == 99.5); /* while the row is a mean */
    assert_true(fabs(json_number_value(json_array_get(loss, 0)) - 4) < 0.02);
    assert_in_range(n, 1000, 10000);
    assert_true(json_array_size(high) == n && json_array_size(low) == n);
    assert_null(json_object_get(json_object_get(steps, "low"), "elapsed_s"));
    assert_true(json_number_value(json_array_get(step, json_array_size(step) - 1)) == N);
    assert_true(number_at(run, "summary", "steps") == N); /* of all rows */
    assert_true(number_at(run, "summary", "tokens") == 7.0 * N);
    json_decref(data);
}

TEST_IN(setup, teardown, what_is_missing_is_named) {
    static const char *const folders[] = {"room/absent"};
    assert_fails(ctx, weft_report_write(ctx, "room/absent", NULL), WEFT_ERR_FILE,
                 "room/absent");
    assert_fails(ctx, weft_report_write(ctx, "room", NULL), WEFT_ERR_FILE,
                 "room/metrics.jsonl");
    assert_fails(ctx, weft_report_compare(ctx, folders, 1, "room/c.html"), WEFT_ERR_FILE,
                 "absent");
    assert_fails(ctx, weft_report_compare(ctx, folders, 0, "room/c.html"),
                 WEFT_ERR_ARGUMENT, "one");
    assert_fails(ctx, weft_report_compare(ctx, folders, 1, NULL), WEFT_ERR_ARGUMENT,
                 "path");
    make_run("room/a", 3, 1);
    assert_fails(ctx, weft_report_write(ctx, "room/a", "room/none/r.html"), WEFT_ERR_FILE,
                 "room/none");
    put_text("room/a/metrics.jsonl", "x\n");
    assert_ok(ctx,
              weft_report_write(ctx, "room/a", NULL)); /* damaged lines are left out */
    assert_int_equal(access("room/a/report.html", F_OK), 0);
}

static const char *const folders[] = {"room/a", "room/b"};

static weft_status report_and_compare(void *user) {
    (void)user;
    WEFT_TRY(weft_report_write(ctx, folders[0], NULL));
    return weft_report_compare(ctx, folders, 2, "room/c.html");
}

TEST_IN(setup, teardown, every_allocation_failure_is_clean) {
    make_run(folders[0], 100, 1e6);
    make_run(folders[1], 10, 1e6);
    put_text("room/a/config.yaml", "a: b\n");
    assert_true(fail_each_allocation(ctx, NULL, report_and_compare, NULL) > 20);
}

static const char plan_text[] =
    "{\"version\": 1, \"prediction\": {\"step_s\": {\"low\": 0.2, \"median\": 0.2, "
    "\"high\": 0.3}, \"mean_step_s\": 0.25, \"compute_s\": 0.1, \"exchange_s\": 0.2, "
    "\"wait_s\": 0.1, "
    "\"wait_wire_s\": 0.06, \"wait_codec_s\": 0.02, \"wait_late_s\": 0.01, "
    "\"hidden_share\": 0.5, \"tokens_per_s\": 5000, \"wire_bytes\": 2e6}, "
    "\"timeline\": [{\"lane\": \"compute\", \"index\": 3, \"what\": \"backward\", "
    "\"begin_s\": 0, \"end_s\": 0.1}, {\"lane\": \"exchange\", \"index\": 0, "
    "\"what\": \"<b>\", \"begin_s\": 0.05, \"end_s\": 0.2}]}";

static void assert_span(const json_t *run, size_t timeline, size_t i, const char *lane,
                        const char *what, double end_s) {
    const json_t *t = json_array_get(json_object_get(run, "timelines"), timeline);
    const json_t *span = json_array_get(json_object_get(t, "spans"), i);
    assert_string_equal(json_string_value(json_array_get(span, 0)), lane);
    assert_string_equal(json_string_value(json_array_get(span, 1)), what);
    assert_true(json_number_value(json_array_get(span, 4)) == end_s);
}

TEST_IN(setup, teardown, a_planned_run_has_both) {
    make_run("room/planned", 200, 2e6);
    put_text("room/planned/plan.json", plan_text);
    put_text(
        "room/planned/timeline.json",
        "{\"step\": 21, \"timeline\": [{\"lane\": \"compute\", \"index\": 3, \"what\": "
        "\"backward\", \"begin_s\": 0, \"end_s\": 0.15}]}");
    assert_ok(ctx, weft_report_write(ctx, "room/planned", NULL));
    json_t *data = data_of("room/planned/report.html");
    const json_t *run = run_of(data, 0), *timelines = json_object_get(run, "timelines");
    assert_true(number_at(run, "prediction", "median_step_s") == 0.2);
    assert_true(number_at(run, "prediction", "high_step_s") == 0.3);
    assert_true(number_at(run, "prediction", "hidden_share") == 0.5);
    assert_true(number_at(run, "prediction", "wire_bytes_out") == 2e6);
    assert_int_equal(json_array_size(timelines), 2);
    assert_string_equal(text_of(json_array_get(timelines, 0), "kind"), "measured");
    assert_string_equal(text_of(json_array_get(timelines, 1), "kind"), "predicted");
    assert_span(run, 0, 0, "compute", "backward", 0.15);
    assert_span(run, 1, 0, "compute", "backward", 0.1);
    assert_span(run, 1, 1, "exchange", "<b>", 0.2);
    assert_true(
        json_number_value(json_object_get(json_array_get(timelines, 0), "step")) == 21);
    json_decref(data);
}

TEST_IN(setup, teardown, a_broken_plan_is_an_error) {
    static const struct {
        const char *text, *words;
    } cases[] = {{"{", "room/broken/plan.json: not a JSON object"},
                 {"{\"version\": 1}", "room/broken/plan.json has no prediction"},
                 {"{\"prediction\": {}, \"timeline\": [{\"lane\": \"compute\", \"what\": "
                  "\"x\", \"begin_s\": 2, \"end_s\": 1}]}",
                  "item 0 of the timeline is not a stretch of time"},
                 {"{\"prediction\": {}, \"timeline\": [{\"what\": \"x\", "
                  "\"begin_s\": 0, \"end_s\": 1}]}",
                  "item 0 of the timeline is not a stretch of time"}};
    make_run("room/broken", 20, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_ctx_clear(ctx);
        put_text("room/broken/plan.json", cases[i].text);
        assert_int_equal(weft_report_write(ctx, "room/broken", NULL), WEFT_ERR_FORMAT);
        assert_non_null(strstr(weft_ctx_message(ctx), cases[i].words));
    }
}
