/* SPDX-License-Identifier: MIT */
/* The order of what costs the same, what two of one name are apart, and recomputing. */
#include "configs.h"
#include "room.h"

#include <math.h>

#include <weft/plan.h>

#include "planner/advise.h"

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
TEST_IN(begin, end, of_equal_costs_fewer_bytes_come_first) {
    static const struct {
        double a_s, b_s, a_bytes, b_bytes;
        bool a_measured, a_usable, a_first, a_far;
    } cases[] = {
        {0.50, 0.50, 1, 2, true, true, true, false},
        {0.50, 0.50, 2, 1, true, true, false, false},
        {0.5001, 0.50, 1, 2, true, true, true, false}, /* less than half a per cent */
        {0.52, 0.50, 1, 2, true, true, false, false},
        {0.50, 0.50, 1, 1, true, true, true, false}, /* by their keys */
        {0.40, 0.50, 1, 2, false, true, false, false},
        {0.40, 0.50, 1, 2, true, true, false, true}, /* measured with small models */
        {0.40, 0.50, 1, 2, true, false, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_candidate all[] = {made("b", 2, cases[i].b_s, cases[i].b_bytes),
                                made("one node", 1, 1, 0),
                                made("a", 2, cases[i].a_s, cases[i].a_bytes)};
        all[2].learning.measured = cases[i].a_measured;
        all[2].usable = cases[i].a_usable;
        if (cases[i].a_far) all[2].learning.changes = "steps are others";
        if (cases[i].a_far) snprintf(all[2].name, sizeof all[2].name, "flexdemo");
        all[2].prediction.parameters = 2000000000;
        weft_advice advice = {.candidates = all, .n_candidates = 3};
        wefti_adviser a = {.ctx = ctx, .advice = &advice};
        assert_ok(ctx, wefti_advise_rank(&a));
        int64_t at_a = 0, at_b = 0;
        for (int64_t k = 0; k < 3; k++) {
            if (strcmp(all[k].settings, "a") == 0) at_a = k;
            if (strcmp(all[k].settings, "b") == 0) at_b = k;
        }
        if ((at_a < at_b) != cases[i].a_first) fail_msg("case %zu", i);
    }
}

/* Two of one name learn alike: only the difference of their errors counts. */
TEST(one_name_learns_alike) {
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

/* Of candidates that no fact tells apart: what learns as one node does, then fewer nodes, then
 * less time. */
TEST(of_level_costs_fewer_nodes_are_chosen) {
    static const struct {
        const char *a_changes, *b_changes;
        int64_t a_nodes, b_nodes;
        double a_s, b_s;
        int64_t chosen;
    } cases[] = {{"x", "x", 4, 2, 0.500, 0.505, 1}, {"x", "x", 2, 4, 0.505, 0.500, 0},
                 {"x", "x", 2, 2, 0.505, 0.500, 1}, {"", "x", 4, 2, 0.505, 0.500, 0},
                 {"x", "", 2, 4, 0.500, 0.505, 1},  {"x", "x", 4, 2, 0.300, 0.505, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_candidate all[] = {made("a", cases[i].a_nodes, cases[i].a_s, 1),
                                made("a", cases[i].b_nodes, cases[i].b_s, 1)};
        double cost_s[] = {cases[i].a_s, cases[i].b_s};
        all[0].learning.changes = cases[i].a_changes;
        all[1].learning.changes = cases[i].b_changes;
        if (wefti_advise_choose(all, cost_s, 2) != cases[i].chosen)
            fail_msg("case %zu", i);
    }
}

/* What is level, and what can be chosen at all: row 1 is twice as dear in the first cases, and the
 * limit is 5 % above the least of what can be chosen. */
TEST(what_can_not_be_chosen_is_no_measure) {
    static const struct {
        double a_s;
        bool unusable, unmeasured, far;
        int64_t chosen;
        double least_s;
    } cases[] = {
        {0.50, false, false, false, 0, 0.50}, {0.50, true, false, false, 1, 1},
        {0.50, false, true, false, 1, 1},     {0.50, false, false, true, 1, 1},
        {0.96, false, false, false, 1, 0.96}, {0.94, false, false, false, 0, 0.94}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_candidate all[] = {made("a", 4, cases[i].a_s, 1), made("b", 2, 1, 1)};
        double cost_s[] = {cases[i].a_s, 1};
        weft_advice advice = {.candidates = all, .n_candidates = 2};
        all[0].learning.changes = all[1].learning.changes = "x";
        all[0].usable = !cases[i].unusable;
        all[0].learning.measured = !cases[i].unmeasured;
        if (cases[i].far) all[0].prediction.parameters = (int64_t)1e12;
        if (cases[i].far) snprintf(all[0].name, sizeof all[0].name, "flexdemo");
        int64_t chosen = wefti_advise_choose(all, cost_s, 2);
        double limit_s = wefti_advise_limit(&advice);
        if (chosen != cases[i].chosen)
            fail_msg("case %zu: row %lld", i, (long long)chosen);
        if (fabs(log(limit_s / cases[i].least_s) - 0.05) > 1e-9)
            fail_msg("case %zu: at most %g s", i, limit_s);
    }
}

/* The baseline learns as one machine; the fastest has room, whatever is known of its learning;
 * full synchronization is on several nodes, has room and learns as one machine. The first of
 * equals. */
TEST_IN(begin, end, each_place_has_its_row) {
    static const struct {
        const char *name, *changes;
        int64_t nodes;
        double cost_s;
        bool unusable, unmeasured;
    } rows[] = {{"one, muon", "x", 1, 0.9, false, false},
                {"one", "", 1, 1, false, false},
                {"one, slower", "", 1, 1.2, false, false},
                {"full, no room", "", 2, 0.3, true, false},
                {"full", "", 2, 1.1, false, false},
                {"full, later", "", 4, 1.15, false, false},
                {"far", "x", 2, 0.5, false, false},
                {"unknown", "x", 2, 0.4, false, true},
                {"unknown, later", "x", 2, 0.4, false, true}};
    enum { N = sizeof rows / sizeof rows[0], TURNED = 1, NO_ROOM = 2 };
    for (int k = 0; k < 4; k++) {
        weft_candidate all[N];
        weft_advice advice = {.candidates = all, .n_candidates = N};
        wefti_adviser a = {.ctx = ctx, .advice = &advice};
        for (int i = 0; i < N; i++) {
            int from = k & TURNED ? N - 1 - i : i;
            bool full = rows[from].nodes > 1 && !rows[from].changes[0];
            double share = full && !(k & TURNED) ? 0.7
                                                 : 1; /* before or behind one node */
            all[i] = made(rows[from].name, rows[from].nodes, share * rows[from].cost_s,
                          1);
            all[i].learning.changes = rows[from].changes;
            all[i].learning.measured = !rows[from].unmeasured;
            all[i].usable = !rows[from].unusable && !(full && k & NO_ROOM);
        }
        assert_ok(ctx, wefti_advise_rank(&a));
        assert_string_equal(all[advice.baseline].name, "one");
        assert_string_equal(all[advice.fastest].name, "unknown");
        assert_int_equal(advice.full < 0, (k & NO_ROOM) != 0);
        if (advice.full < 0) continue;
        assert_string_equal(all[advice.full].name, "full");
        assert_true(fabs(all[advice.full].speedup * all[advice.full].cost_s - 1) < 1e-12);
    }
}

/* A step of computing alone is known as well as computing is: measured in a probe (units or steps)
 * to 3 %, typed to 30 %; the model adds 5 %, a closed form of another framework 15 %. */
TEST(errors_follow_where_facts_are_from) {
    static const struct {
        int64_t n_units, n_steps;
        const char *framework;
        double computing, own;
    } cases[] = {{0, 0, "", 0.30, 0.05},
                 {1, 0, "", 0.03, 0.05},
                 {0, 1, "", 0.03, 0.05},
                 {0, 1, "ddp", 0.03, 0.15}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_adviser a = {
            .cluster = {.n_units = cases[i].n_units, .n_steps = cases[i].n_steps},
            .options = {.computing = WEFT_KNOWN_TYPED}};
        weft_candidate c = made("a", 1, 1, 0), waits = made("b", 2, 1, 0);
        snprintf(c.framework, sizeof c.framework, "%s", cases[i].framework);
        snprintf(waits.framework, sizeof waits.framework, "%s", cases[i].framework);
        double error = wefti_advise_error(&a, &c);
        double expected = hypot(cases[i].computing, cases[i].own);
        if (fabs(error - expected) > 1e-9) fail_msg("case %zu: %g", i, error);
        /* beside one whose step is waiting alone: its own error is what remains */
        waits.prediction.wait_s = 1;
        a.options.wire = a.options.computing = WEFT_KNOWN_MEASURED;
        double apart = wefti_advise_apart(&a, &waits, 1, &c, 1);
        double facts = hypot(0.03, 0.03);
        if (fabs(apart - hypot(facts, cases[i].own)) > 1e-9)
            fail_msg("case %zu: %g apart", i, apart);
    }
    for (int probed = 0; probed <= 1;
         probed++) { /* a wire with the residual of a probe */
        wefti_adviser a = {.cluster = {.n_units = 1, .n_codecs = 1},
                           .options = {.wire = WEFT_KNOWN_TYPED}};
        weft_candidate c = made("a", 2, 1, 0);
        a.cluster.wire.residual = probed ? 0.01 : 0;
        c.prediction.wait_s = c.prediction.wire_s = 1;
        double error = wefti_advise_error(&a, &c);
        assert_float_equal(error, hypot(0.05, probed ? 0.03 : 0.30), 1e-9);
    }
}

/* Activations that are computed again cost another forward pass: 4 instead of 3 of a block. */
TEST_IN(begin, end, recomputing_costs_a_forward_pass) {
    double step_s[2];
    for (int again = 0; again < 2; again++) {
        weft_prediction p = {.struct_size = sizeof p};
        weft_candidate c = {.nodes = 1, .ranks_per_node = 1, .sites = 1};
        weft_config *run = config_with(
            ctx,
            PLANNED_RUN "model.layers=8 model.vocab=64 batch.tokens_per_step=2048 "
                        "optimizer.clip=0",
            again ? "model.recompute=true" : "model.recompute=false");
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
