/* SPDX-License-Identifier: MIT */
/* The order of what costs the same, what two of one name are apart, and recomputing. */
#include "check.h"

#include <math.h>

#include <weft/plan.h>

#include "planner/advise.h"

static weft_ctx *ctx;

static int begin(void **state) { return room_begin(&ctx); }

static int end(void **state) { return ctx_end(ctx); }

static weft_candidate made(const char *name, int64_t nodes, double cost_s, double bytes) {
    weft_candidate c = {.usable = true,
                        .nodes = nodes,
                        .cost_s = cost_s,
                        .prediction = {.mean_step_s = cost_s, .wire_bytes = bytes},
                        .learning = {"", true, 0, 1, 1, 0, ""}};
    snprintf(c.name, sizeof c.name, "%s", name);
    snprintf(c.settings, sizeof c.settings, "%s", name);
    return c;
}

/* One node costs 1; which of a and b comes first. */
static void of_equal_costs_fewer_bytes_come_first(void **state) {
    static const struct {
        double a_s, b_s, a_bytes, b_bytes;
        bool a_measured, a_usable, a_first;
    } cases[] = {{0.50, 0.50, 1, 2, true, true, true},
                 {0.50, 0.50, 2, 1, true, true, false},
                 {0.5001, 0.50, 1, 2, true, true, true}, /* less than half a per cent */
                 {0.52, 0.50, 1, 2, true, true, false},
                 {0.50, 0.50, 1, 1, true, true, true}, /* by their keys */
                 {0.40, 0.50, 1, 2, false, true, false},
                 {0.40, 0.50, 1, 2, true, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_candidate all[] = {made("b", 2, cases[i].b_s, cases[i].b_bytes),
                                made("one node", 1, 1, 0),
                                made("a", 2, cases[i].a_s, cases[i].a_bytes)};
        all[2].learning.measured = cases[i].a_measured;
        all[2].usable = cases[i].a_usable;
        weft_advice advice = {.candidates = all, .n_candidates = 3};
        wefti_adviser a = {.ctx = ctx, .advice = &advice};
        assert_ok(ctx, wefti_advise_rank(&a));
        int64_t at_a = 0, at_b = 0;
        for (int64_t k = 0; k < 3; k++) {
            if (strcmp(all[k].name, "a") == 0) at_a = k;
            if (strcmp(all[k].name, "b") == 0) at_b = k;
        }
        if ((at_a < at_b) != cases[i].a_first) fail_msg("case %zu", i);
    }
}

/* Two of one name learn alike: only the difference of their errors counts. */
static void one_name_learns_alike(void **state) {
    static const struct {
        const char *x, *y;
        double x_error, y_error, apart;
    } cases[] = {{"a", "a", 0.3, 0.3, 0},
                 {"a", "a", 0.3, 0.2, 0.1},
                 {"a", "b", 0.3, 0.4, 0.5},
                 {"a", "b", 0, 0.2, 0.2}};
    wefti_adviser a = {
        .options = {.computing = WEFT_KNOWN_MEASURED, .wire = WEFT_KNOWN_MEASURED}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_candidate x = made(cases[i].x, 2, 1, 1), y = made(cases[i].y, 4, 1, 1);
        x.steps_error = cases[i].x_error, y.steps_error = cases[i].y_error;
        double apart = wefti_advise_apart(&a, &x, 1, &y, 1);
        if (fabs(apart - cases[i].apart) > 1e-9)
            fail_msg("case %zu: %g, expected %g", i, apart, cases[i].apart);
    }
}

/* Activations that are computed again cost another forward pass: 4 instead of 3 of a block. */
static void recomputing_costs_a_forward_pass(void **state) {
    static const char *const keys[] = {"data.path=none.txt",
                                       "data.length=32",
                                       "model.layers=8",
                                       "model.width=64",
                                       "model.heads=2",
                                       "model.vocab=64",
                                       "batch.tokens_per_step=2048",
                                       "mesh.threads=1",
                                       "optimizer.clip=0"};
    double step_s[2];
    for (int again = 0; again < 2; again++) {
        weft_config *run;
        weft_prediction p = {.struct_size = sizeof p};
        weft_candidate c = {.nodes = 1, .ranks_per_node = 1, .sites = 1};
        assert_ok(ctx, weft_config_create(ctx, &run));
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            assert_ok(ctx, weft_config_set(ctx, run, keys[i]));
        assert_ok(ctx, weft_config_set(ctx, run,
                                       again ? "model.recompute=true"
                                             : "model.recompute=false"));
        assert_ok(ctx, weft_config_finish(ctx, run));
        wefti_adviser a = {
            .ctx = ctx,
            .run = run,
            .options = {.steps = 4},
            .cluster = {.nodes = 1, .ranks_per_node = 1, .sites = 1, .rank_flops = 1e10}};
        snprintf(c.settings, sizeof c.settings, "mesh.nodes=1 method=hsdp");
        assert_ok(ctx, wefti_advise_predict(ctx, &a, &c, 0, &p));
        step_s[again] = p.mean_step_s;
        weft_config_destroy(ctx, run);
    }
    double times = step_s[1] / step_s[0];
    if (!(times > 1.3 && times < 4.0 / 3 + 1e-9)) fail_msg("%g times as long", times);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(of_equal_costs_fewer_bytes_come_first, begin,
                                        end),
        cmocka_unit_test(one_name_learns_alike),
        cmocka_unit_test_setup_teardown(recomputing_costs_a_forward_pass, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
