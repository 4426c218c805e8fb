/* SPDX-License-Identifier: MIT */
#include "unit/record/page_check.h"

#include <math.h>
#include <unistd.h>

#include "base/rng.h"
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

static char *checked_page(const char *path) {
    char *page = read_text(ctx, path, NULL);
    check_page(page);
    return page;
}

static void assert_has(const char *page, const char *words) {
    if (!strstr(page, words)) fail_msg("the page lacks '%s'", words);
}

static void a_page_has_its_numbers_charts_and_config(void **state) {
    (void)state;
    make_run("room/flexdemo", 200, 2e6);
    put_text("room/flexdemo/config.yaml", "method: flexdemo # a <b> & \"c\"\n");
    assert_ok(ctx, weft_report_write(ctx, "room/flexdemo", NULL));
    char *page = checked_page("room/flexdemo/report.html");
    assert_has(page, "<h1>flexdemo</h1>");
    assert_has(
        page, "200 steps in 50 s. The validation loss is 3.125 nats per token, below the "
              "5.500 of a bigram model.");
    static const char *const tiles[] = {
        "<span>Validation loss</span><b>3.125</b><small>best 3.125<",
        "<span>Tokens</span><b>200k</b><small>4000 per second<",
        "<span>Time of a step</span><b>250 ms</b><small>40% of peak<",
        "<span>Wire per step</span><b>2 MB</b><small>400 MB in all<",
        "<span>Exchange hidden</span><b>75%</b><small>25 ms exposed<",
        "<span>Memory of a rank</span><b>5 MB</b>",
        "compute 200 ms<",
        "exposed wait 25 ms<",
        "exchange hidden behind compute 75 ms<"};
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++)
        assert_has(page, tiles[i]);
    assert_int_equal(count_of(page, "<figure>"), 8);
    assert_int_equal(count_of(page, "<circle"), 3 * 5);
    assert_null(strstr(page, "no data"));
    assert_has(page, "<pre>method: flexdemo # a &lt;b&gt; &amp; &quot;c&quot;\n</pre>");
    wefti_free(ctx, page);
}

static void a_run_without_a_network_has_no_chart_over_bytes(void **state) {
    (void)state;
    make_run("room/alone", 20, 0);
    assert_ok(ctx, weft_report_write(ctx, "room/alone", "room/page.html"));
    char *page = checked_page("room/page.html");
    assert_null(strstr(page, "Loss over bytes"));
    assert_null(strstr(page, "Configuration"));
    assert_int_equal(access("room/alone/report.html", F_OK), -1);
    wefti_free(ctx, page);
}

static void a_run_that_has_just_begun_has_a_page(void **state) {
    (void)state;
    static const char *const begun[] = {
        "", "{\"step\":0,\"validation_loss\":5.0}\n", "{\"step\":1,\"loss\":4.5}\n",
        "{\"step\":1,\"loss\":nul", "{\"step\":1,\"loss\":null,\"tokens\":5}\n"};
    for (int i = 0; i < 5; i++) {
        put_text("room/metrics.jsonl", begun[i]);
        assert_ok(ctx, weft_report_write(ctx, "room", NULL));
        wefti_free(ctx, checked_page("room/report.html"));
    }
}

static void names_are_escaped(void **state) {
    (void)state;
    make_run("room/<script>alert(1)<\\script>&\"'", 3, 1);
    assert_ok(ctx, weft_report_write(ctx, "room/<script>alert(1)<\\script>&\"'",
                                     "room/p.html"));
    char *page = checked_page("room/p.html");
    assert_has(page, "<h1>&lt;script&gt;alert(1)&lt;\\script&gt;&amp;&quot;&#39;</h1>");
    wefti_free(ctx, page);
    static const char *const folders[] = {"room/<script>alert(1)<\\script>&\"'"};
    assert_ok(ctx, weft_report_compare(ctx, folders, 1, "room/c.html"));
    wefti_free(ctx, checked_page("room/c.html"));
}

static void wild_numbers_do_not_break_the_page(void **state) {
    (void)state;
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
        wefti_free(ctx, checked_page("room/report.html"));
        static const char *const folders[] = {"room", "./room"};
        assert_ok(ctx, weft_report_compare(ctx, folders, 2, "room/c.html"));
        wefti_free(ctx, checked_page("room/c.html"));
    }
}

static void runs_are_laid_over_each_other_with_a_legend(void **state) {
    (void)state;
    static const char *const folders[] = {"room/full", "room/demo", "room/other/demo"};
    make_run(folders[0], 150, 4e8);
    make_run(folders[1], 150, 1e6);
    make_run(folders[2], 30, 1e6);
    assert_ok(ctx, weft_report_compare(ctx, folders, 3, "room/compare.html"));
    char *page = checked_page("room/compare.html");
    assert_int_equal(count_of(page, "<figure>"), 4);
    assert_int_equal(count_of(page, "<tr>"), 4);
    assert_int_equal(count_of(page, "</i>full<"), 4); /* the table and three legends */
    assert_int_equal(count_of(page, "</i>room/demo<"), 4);
    assert_int_equal(count_of(page, "</i>room/other/demo<"), 4);
    assert_has(page, "<td>3.125</td>");
    assert_has(page, "<td>400 MB</td><td>60 GB</td>");
    wefti_free(ctx, page);
}

static void no_run_of_a_comparison_is_cut_away(void **state) {
    (void)state;
    static const char *const folders[] = {"room/long", "room/short"};
    make_run(folders[0], 300, 1e6);
    assert_ok(ctx, wefti_file_mkdirs(ctx, folders[1]));
    put_text("room/short/metrics.jsonl", "{\"step\":1,\"loss\":7.9}\n"
                                         "{\"step\":2,\"loss\":7.8}\n");
    assert_ok(ctx, weft_report_compare(ctx, folders, 2, "room/c.html"));
    char *page = checked_page("room/c.html");
    assert_has(page, ">7</text>");
    wefti_free(ctx, page);
    assert_ok(ctx, weft_report_compare(ctx, folders, 1, "room/c.html"));
    page = checked_page("room/c.html");
    assert_has(page, "cut off at the top");
    assert_null(strstr(page, ">7</text>"));
    wefti_free(ctx, page);
}

static void what_is_missing_is_named(void **state) {
    (void)state;
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
    assert_fails(ctx, weft_report_write(ctx, "room/a", NULL), WEFT_ERR_FORMAT, "line 1");
    assert_int_equal(access("room/a/report.html", F_OK), -1);
}

static const char *const folders[] = {"room/a", "room/b"};

static weft_status report_and_compare(void *user) {
    (void)user;
    WEFT_TRY(weft_report_write(ctx, folders[0], NULL));
    return weft_report_compare(ctx, folders, 2, "room/c.html");
}

static void every_allocation_failure_is_clean(void **state) {
    (void)state;
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

static void a_planned_run_shows_both(void **state) {
    (void)state;
    make_run("room/planned", 200, 2e6);
    put_text("room/planned/plan.json", plan_text);
    put_text("room/planned/timeline.json",
             "{\"timeline\": [{\"lane\": \"compute\", \"index\": 3, \"what\": "
             "\"backward\", \"begin_s\": 0, \"end_s\": 0.15}]}");
    assert_ok(ctx, weft_report_write(ctx, "room/planned", NULL));
    char *page = checked_page("room/planned/report.html");
    static const char *const words[] = {
        "<tr><td>time of a step (median)</td><td>200 ms</td><td>250 ms</td><td>+25 "
        "%</td></tr>",
        "<tr><td>time of a step (mean)</td><td>250 ms</td><td>250 ms</td><td>0 "
        "%</td></tr>",
        "<tr><td>exchange hidden</td><td>50 %</td><td>75 %</td><td></td></tr>",
        "<tr><td>sent per step and node</td><td>2 MB</td><td>2 MB</td><td>0 %</td></tr>",
        "Time of a step",
        "One step in time",
        "computing, measured",
        "computing, predicted",
        "exchange thread, predicted",
        "<title>backward 3: 150 ms</title>",
        "<title>&lt;b&gt; 0: 150 ms</title>",
        "step, predicted"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_has(page, words[i]);
    assert_null(strstr(page, "exchange thread, measured"));
    wefti_free(ctx, page);
}

static void a_run_without_a_plan_shows_none(void **state) {
    (void)state;
    make_run("room/plain", 60, 2e6);
    assert_ok(ctx, weft_report_write(ctx, "room/plain", NULL));
    char *page = checked_page("room/plain/report.html");
    assert_null(strstr(page, "predicted"));
    assert_null(strstr(page, "One step in time"));
    assert_null(strstr(page, "Distance of the replicas"));
    wefti_free(ctx, page);
}

static void a_broken_plan_is_an_error(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"{", "room/broken/plan.json: not a JSON object"},
        {"{\"version\": 1}", "room/broken/plan.json has no prediction"},
        {"{\"prediction\": {}, \"timeline\": [{\"lane\": \"compute\", \"what\": "
         "\"x\", \"begin_s\": 2, \"end_s\": 1}]}",
         "item 0 of the timeline is not a stretch of time"},
        {"{\"prediction\": {}, \"timeline\": [{\"lane\": \"sea\", \"what\": \"x\", "
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

int main(void) {
    const struct CMUnitTest tests[] = {
        claim(a_page_has_its_numbers_charts_and_config),
        claim(a_run_without_a_network_has_no_chart_over_bytes),
        claim(a_run_that_has_just_begun_has_a_page),
        claim(a_planned_run_shows_both),
        claim(a_run_without_a_plan_shows_none),
        claim(a_broken_plan_is_an_error),
        claim(names_are_escaped),
        claim(wild_numbers_do_not_break_the_page),
        claim(runs_are_laid_over_each_other_with_a_legend),
        claim(no_run_of_a_comparison_is_cut_away),
        claim(what_is_missing_is_named),
        claim(every_allocation_failure_is_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
