/* SPDX-License-Identifier: MIT */
#include "unit/record/helpers.h"

#include <math.h>

#include "read_run.h"

static const char path[] = "room/metrics.jsonl";

TEST_IN(setup, teardown, steps_and_evaluations_are_told_apart) {
    wefti_run run;
    put_text(path,
             "{\"step\":0,\"elapsed_s\":0,\"validation_loss\":5}\n"
             "{\"step\":1,\"loss\":4,\"tokens\":100,\"wire_bytes_out\":10}\n"
             "{\"step\":2,\"loss\":null,\"tokens\":100,\"wire_bytes_out\":20}\n"
             "{\"step\":2,\"elapsed_s\":7,\"validation_loss\":3,\"bigram_loss\":6}\n"
             "{\"host\":\"a\"}\n");
    assert_ok(ctx, read_run(ctx, path, &run));
    assert_int_equal(run.steps.n, 2);
    assert_int_equal(run.evaluations.n, 2);
    assert_true(run.steps.column[WEFTI_LOSS][0] == 4);
    assert_true(isnan(run.steps.column[WEFTI_LOSS][1])); /* a loss that was not finite */
    assert_true(run.steps.column[WEFTI_WIRE_TOTAL][1] == 30);
    assert_true(run.evaluations.column[WEFTI_WIRE_TOTAL][0] == 0);
    assert_true(run.evaluations.column[WEFTI_WIRE_TOTAL][1] == 30);
    assert_true(wefti_column_last(&run.evaluations, WEFTI_VALIDATION) == 3);
    assert_true(wefti_column_last(&run.evaluations, WEFTI_BIGRAM) == 6);
    assert_true(wefti_column_sum(&run.steps, WEFTI_TOKENS) == 200);
    assert_true(wefti_column_mean(&run.steps, WEFTI_WIRE_OUT) == 15);
    assert_true(isnan(wefti_column_mean(&run.steps, WEFTI_MFU)));
    assert_true(isnan(wefti_column_sum(&run.steps, WEFTI_MFU)));
    assert_true(wefti_column_least(&run.evaluations, WEFTI_VALIDATION) == 3);
    assert_true(wefti_column_greatest(&run.evaluations, WEFTI_VALIDATION) == 5);
    assert_true(isnan(run.loss)); /* the last loss is not finite */
    wefti_run_fini(ctx, &run);
}

/* Losses 1000, 999, ... : a mean without lag is the loss itself. */
TEST_IN(setup, teardown, the_moving_mean_has_no_lag) {
    enum { N = 1000 };
    char *text;
    size_t at = 0;
    assert_ok(ctx, wefti_alloc(ctx, N * 40, "text", &text));
    for (int i = 0; i < N; i++)
        at += (size_t)snprintf(text + at, 40, "{\"step\":%d,\"loss\":%d}\n", i, N - i);
    put_text(path, text);
    wefti_free(ctx, text);
    wefti_run run;
    assert_ok(ctx, read_run(ctx, path, &run));
    assert_int_equal(run.smoothing, 21);
    for (int i = 0; i < N - 10; i++)
        assert_true(fabs(run.steps.column[WEFTI_SMOOTH][i] - (N - i)) < 1e-9);
    assert_true(fabs(run.loss - 25.5) < 1e-9); /* mean of 50 .. 1 */
    wefti_run_fini(ctx, &run);
}

/* What is drawn of a part of the rows: the mean, and how far they reach. */
TEST_IN(setup, teardown, parts_have_means_and_extremes) {
    wefti_run run;
    put_text(path,
             "{\"step\":1,\"tokens\":1,\"loss\":4,\"elapsed_s\":1,\"suspect_node\":3}\n"
             "{\"step\":2,\"tokens\":1,\"loss\":null,\"elapsed_s\":2}\n"
             "{\"step\":3,\"tokens\":1,\"loss\":9,\"elapsed_s\":4}\n"
             "{\"step\":4,\"tokens\":1,\"loss\":2,\"elapsed_s\":null}\n");
    assert_ok(ctx, read_run(ctx, path, &run));
    wefti_part p = wefti_column_part(&run.steps, WEFTI_LOSS, 0, 4);
    assert_true(p.value == 5 && p.low == 2 && p.high == 9);
    p = wefti_column_part(&run.steps, WEFTI_LOSS, 1, 2);
    assert_true(isnan(p.value) && isnan(p.low) && isnan(p.high));
    p = wefti_column_part(&run.steps, WEFTI_STEP, 0, 3);
    assert_true(p.value == 3 && p.low == 3 && p.high == 3);
    p = wefti_column_part(&run.steps, WEFTI_ELAPSED, 0, 4);
    assert_true(p.value == 4);
    p = wefti_column_part(&run.steps, WEFTI_SUSPECT, 0, 4);
    assert_true(p.value == 3);
    wefti_run_fini(ctx, &run);
}

TEST_IN(setup, teardown, shares_and_speeds_are_means_over_time) {
    wefti_run run;
    put_text(path,
             "{\"step\":1,\"tokens\":1,\"loss\":1,\"tokens_per_s\":300,\"step_s\":1,"
             "\"exchange_s\":1,\"wait_s\":0}\n"
             "{\"step\":2,\"tokens\":1,\"loss\":1,\"tokens_per_s\":100,\"step_s\":3,"
             "\"exchange_s\":3,\"wait_s\":1}\n");
    assert_ok(ctx, read_run(ctx, path, &run));
    assert_true(wefti_column_mean_over_time(&run.steps, WEFTI_TOKENS_PER_S) == 150);
    assert_true(wefti_run_hidden_share(&run) == 0.75);
    wefti_run_fini(ctx, &run);
    put_text(path, "{\"step\":1,\"tokens\":1,\"loss\":1,\"tokens_per_s\":300}\n");
    assert_ok(ctx, read_run(ctx, path, &run));
    assert_true(wefti_column_mean_over_time(&run.steps, WEFTI_TOKENS_PER_S) == 300);
    assert_true(isnan(wefti_run_hidden_share(&run)));
    wefti_run_fini(ctx, &run);
}
