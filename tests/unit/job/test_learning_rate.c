/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "check.h"
#include "config/layers.h"
#include "job/learning_rate.h"

static weft_ctx *ctx;
static weft_config *config;

static int setup(void **state) {
    if (weft_ctx_create(&ctx) != WEFT_OK) return 1;
    return weft_config_create(ctx, &config) == WEFT_OK ? 0 : 1;
}

static int teardown(void **state) {
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
    return 0;
}

static void use(const char *kind, const char *final) {
    char assignment[64];
    snprintf(assignment, sizeof assignment, "schedule.kind=%s", kind);
    assert_ok(ctx, weft_config_set(ctx, config, assignment));
    snprintf(assignment, sizeof assignment, "schedule.final=%s", final);
    assert_ok(ctx, weft_config_set(ctx, config, assignment));
    assert_ok(ctx, weft_config_set(ctx, config, "schedule.warmup=10"));
    assert_ok(ctx, weft_config_set(ctx, config, "run.steps=111"));
    assert_ok(ctx, weft_config_set(ctx, config, "optimizer.lr=2"));
    assert_ok(ctx, wefti_config_settle(ctx, config));
}

static void close_to(double a, double b) { assert_true(fabs(a - b) < 1e-12); }

TEST(warmup_is_linear_and_ends_at_the_peak) {
    static const char *const kinds[] = {"cosine", "linear", "inverse_sqrt", "constant"};
    for (int i = 0; i < 4; i++) {
        use(kinds[i], "0.1");
        for (int step = 0; step < 10; step++)
            close_to(wefti_learning_rate(config, step), 2.0 * (step + 1) / 10);
    }
}

TEST(each_kind_follows_its_formula) {
    use("cosine", "0.1");
    close_to(wefti_learning_rate(config, 10), 2);
    close_to(wefti_learning_rate(config, 60), 2 * (0.1 + 0.9 * 0.5));
    close_to(wefti_learning_rate(config, 110), 0.2);
    use("linear", "0");
    close_to(wefti_learning_rate(config, 60), 1);
    close_to(wefti_learning_rate(config, 110), 0);
    use("inverse_sqrt", "0");
    close_to(wefti_learning_rate(config, 39), 2 * sqrt(10.0 / 40));
    use("constant", "0");
    close_to(wefti_learning_rate(config, 110), 2);
}

TEST(a_run_of_warmup_alone_does_not_divide_by_zero) {
    use("cosine", "0.1");
    assert_ok(ctx, weft_config_set(ctx, config, "run.steps=11"));
    assert_ok(ctx, weft_config_finish(ctx, config));
    close_to(wefti_learning_rate(config, 10), 0.2);
}

int main(void) { return check_run(setup, teardown); }
