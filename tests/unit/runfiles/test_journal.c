/* SPDX-License-Identifier: MIT */
/* How many lines a long run writes, and that no step is lost in them. */
#include "runfiles/journal.h"

#include <math.h>

#include <weft/config.h>

#include "check.h"
#include "read_run.h"

static weft_ctx *ctx;
static weft_config *config;

static int setup(void **state) {
    if (room_begin(&ctx) || weft_config_create(ctx, &config) != WEFT_OK) return 1;
    assert_ok(ctx, weft_config_set(ctx, config, "run.folder=room"));
    assert_ok(ctx, weft_config_set(ctx, config, "run.tensorboard=false"));
    return 0;
}

static int teardown(void **state) {
    weft_config_destroy(ctx, config);
    return ctx_end(ctx);
}

static int64_t every(int64_t steps, int64_t asked) {
    config->run.steps = steps;
    config->run.log_every = asked;
    return wefti_journal_every(config);
}

TEST_IN(setup, teardown, a_run_writes_at_most_20000_lines) {
    assert_int_equal(every(1, 0), 1);
    assert_int_equal(every(20000, 0), 1);
    assert_int_equal(every(20001, 0), 2);
    assert_int_equal(every(1000000, 0), 50);
    for (int64_t steps = 1; steps < (int64_t)1 << 40; steps += steps / 3 + 1)
        assert_true(steps / every(steps, 0) <= 20000);
    assert_int_equal(every(1000000, 1), 1); /* who asks for more gets more */
    assert_int_equal(every(100, 7), 7);
}

/* Step i of 10 has the loss i and takes i seconds, and sends 10 i bytes. */
static void write_steps(int64_t log_every) {
    wefti_journal *journal;
    double elapsed_s;
    int64_t n = every(10, log_every);
    assert_ok(ctx, wefti_journal_open(ctx, config, 0, &elapsed_s, &journal));
    for (int i = 1; i <= 10; i++) {
        const weft_step_record r = {.step = i,
                                    .steps = 10,
                                    .loss = i,
                                    .tokens = 100,
                                    .tokens_per_s = 100.0 / i,
                                    .mfu = 1.0 / i,
                                    .consensus_distance = NAN,
                                    .mean_of_all = -1,
                                    .late = -1,
                                    .ranks = 4,
                                    .participation = i == 3 ? 0.5 : 1,
                                    .wire_bytes_out = 10 * i,
                                    .exchange_s = 1,
                                    .wait_s = i > 5,
                                    .step_s = i,
                                    .elapsed_s = i * (i + 1) / 2};
        assert_ok(ctx, wefti_journal_step(journal, &r, i % n == 0 || i == 10));
    }
    assert_ok(ctx, wefti_journal_close(journal));
}

/* Lines of the steps 4, 8 and 10: what they say are means of 4, 4 and 2 steps. */
TEST_IN(setup, teardown, skipped_steps_are_in_the_means) {
    wefti_run all, some;
    write_steps(1);
    assert_ok(ctx, read_run(ctx, "room/metrics.jsonl", &all));
    write_steps(4);
    assert_ok(ctx, read_run(ctx, "room/metrics.jsonl", &some));
    assert_int_equal(all.steps.n, 10);
    assert_int_equal(some.steps.n, 3);
    assert_true(isnan(all.steps.column[WEFTI_STEPS][0]));
    assert_true(some.steps.column[WEFTI_STEPS][1] == 4);
    assert_true(some.steps.column[WEFTI_LOSS][1] ==
                8); /* of the step itself: a replay has it */
    assert_true(some.steps.column[WEFTI_STEP_S][1] == 6.5);
    assert_true(some.steps.column[WEFTI_WAIT][1] == 0.75);
    assert_true(some.steps.column[WEFTI_TOKENS_PER_S][1] == 400 / 26.0);
    assert_true(all.steps.column[WEFTI_PARTICIPATION][2] == 0.5);
    assert_true(some.steps.column[WEFTI_PARTICIPATION][0] == 0.875);
    assert_true(some.steps.column[WEFTI_PARTICIPATION][2] == 1);
    static const wefti_column sums[] = {WEFTI_WIRE_OUT, WEFTI_TOKENS, WEFTI_STEP_S,
                                        WEFTI_EXCHANGE, WEFTI_WAIT};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        assert_true(wefti_column_total(&some.steps, sums[i]) ==
                    wefti_column_total(&all.steps, sums[i]));
    assert_true(some.steps.column[WEFTI_WIRE_TOTAL][2] == 550);
    assert_true(fabs(wefti_column_mean_over_time(&some.steps, WEFTI_TOKENS_PER_S) -
                     wefti_column_mean_over_time(&all.steps, WEFTI_TOKENS_PER_S)) <
                1e-12);
    wefti_run_fini(ctx, &all);
    wefti_run_fini(ctx, &some);
}

/* What crosses the wire is in each line, why it changed in the first one that has it. */
TEST_IN(setup, teardown, a_line_says_what_crosses_the_wire) {
    static const struct {
        const char *form, *why, *line;
    } steps[] = {{"full f32", NULL, "\"form\":\"full f32\"}"},
                 {"outer f32 50 0.4", "a", "\"gain\":2,\"why\":\"a\"}"},
                 {"outer f32 50 0.4", "a", "\"form\":\"outer f32 50 0.4\",\"gain\":2}"},
                 {"full f32", "b", "\"gain\":2,\"why\":\"b\"}"},
                 {NULL, NULL, "\"elapsed_s\":0,\"late\":0,\"suspect_node\":0}"}};
    wefti_journal *journal;
    double elapsed_s;
    char line[2048];
    every(10, 1);
    assert_ok(ctx, wefti_journal_open(ctx, config, 0, &elapsed_s, &journal));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const weft_step_record r = {.step = (int64_t)i + 1,
                                    .consensus_distance = NAN,
                                    .mean_of_all = -1,
                                    .form = steps[i].form,
                                    .why = steps[i].why,
                                    .gain = steps[i].why ? 2 : 0};
        assert_ok(ctx, wefti_journal_step(journal, &r, true));
    }
    assert_ok(ctx, wefti_journal_close(journal));
    FILE *f = fopen("room/metrics.jsonl", "r");
    assert_non_null(f);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_non_null(fgets(line, sizeof line, f));
        if (!strstr(line, steps[i].line)) fail_msg("line %zu is %s", i, line);
    }
    fclose(f);
}
