/* SPDX-License-Identifier: MIT */
/* What a run changes to, from facts alone. */
#include "configs.h"

#include <math.h>
#include <weft/predict.h>

#include "planner/replan.h"

static weft_ctx *ctx;
static weft_config *run;
static weft_cluster *cluster;

static const wefti_form full = {false, WEFTI_VALUES_F32, 0, 0},
                        outer = {true, WEFTI_VALUES_F32, 50, 0.4};

static weft_cluster *known_of(const char *nodes, const char *link) {
    weft_cluster *c;
    assert_ok(ctx, weft_cluster_create(ctx, &c));
    assert_ok(ctx, weft_cluster_set(ctx, c, "nodes", nodes));
    assert_ok(ctx, weft_cluster_set(ctx, c, "node-flops", "20G"));
    assert_ok(ctx, weft_cluster_set(ctx, c, "link", link));
    return c;
}

static int begin(void **state) {
    room_begin(&ctx);
    run = config_with(ctx, PLANNED_RUN,
                      "model.vocab=256 run.steps=2000 batch.tokens_per_step=2048 "
                      "schedule.warmup=10 mesh.nodes=2 method=hsdp");
    cluster = known_of("2", "1Gbit,1ms");
    return 0;
}

static int end(void **state) {
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, run);
    return ctx_end(ctx);
}

/* The run in this form, on a wire where a step takes as long as is predicted. */
static wefti_situation standing(const wefti_form *now, const char *link) {
    weft_prediction found = {.struct_size = sizeof found};
    assert_ok(ctx, weft_cluster_set(ctx, cluster, "link", link));
    assert_ok(ctx, wefti_form_set(ctx, run, now));
    assert_ok(ctx, weft_predict(ctx, run, cluster, NULL, &found));
    wefti_situation s = {.config = run,
                         .cluster = cluster,
                         .now = *now,
                         .steps_left = 1000,
                         .parameters = found.parameters,
                         .step_s = found.mean_step_s,
                         .loss = 10};
    weft_prediction_clear(ctx, &found);
    return s;
}

static wefti_outlook plan(const wefti_situation *s) {
    wefti_outlook out;
    assert_ok(ctx, wefti_plan_forms(ctx, s, &out));
    assert_true(out.low <= out.gain && out.gain <= out.high);
    return out;
}

static int64_t found_memory(const wefti_situation *s, const wefti_form *form) {
    weft_prediction found = {.struct_size = sizeof found};
    assert_ok(ctx, wefti_form_set(ctx, run, form));
    assert_ok(ctx, weft_predict(ctx, run, cluster, NULL, &found));
    assert_ok(ctx, wefti_form_set(ctx, run, &s->now));
    int64_t n_bytes = found.memory_bytes;
    weft_prediction_clear(ctx, &found);
    return n_bytes;
}

TEST_IN(begin, end, a_wire_that_carries_all_is_left_alone) {
    wefti_situation s = standing(&full, "25Gbit,10us");
    wefti_outlook best = plan(&s);
    assert_true(wefti_form_same(&best.form, &full) && best.gain == 1);
}

TEST_IN(begin, end, a_slow_wire_gets_less_and_a_fast_one_all) {
    wefti_situation s = standing(&full, "2Mbit,5ms");
    wefti_outlook best = plan(&s);
    assert_true(best.form.outer && best.gain > 3 && best.low > 1);
    assert_true(best.step_s < s.step_s / 3);
    s = standing(&outer, "2Mbit,5ms");
    best = plan(&s);
    assert_true(wefti_form_same(&best.form, &outer));
    s = standing(&outer, "25Gbit,10us");
    s.step_s *= 2; /* so that there is enough to gain */
    best = plan(&s);
    assert_true(wefti_form_same(&best.form, &full));
}

/* What is faster by less than a prediction may be off stays as it is. */
TEST_IN(begin, end, a_gain_below_the_errors_is_not_taken) {
    int small = 0;
    for (int rate = 5; rate <= 640; rate += rate / 5) { /* Mbit/s */
        int n;
        char link[32];
        double step_s, most = 0;
        snprintf(link, sizeof link, "%dMbit,1ms", rate);
        const wefti_form *forms = wefti_forms(&n);
        wefti_situation s = standing(&full, link);
        s.averages = true;
        for (int k = 0; k < n; k++) {
            assert_ok(ctx, wefti_form_predict(ctx, &s, &forms[k], &step_s));
            double gain = s.step_s / (step_s * wefti_form_steps(&s, &forms[k]));
            if (!forms[k].outer && gain > most) most = gain;
        }
        wefti_outlook best = plan(&s);
        if (most > 1.03 && most < 1.2) assert_true(best.gain == 1 && ++small > 0);
        if (most > 1.4) assert_true(best.gain > 1);
    }
    assert_true(small > 0);
}

/* Where each node's moments are the program's, outer steps are not tried. */
TEST_IN(begin, end, only_averages_are_tried_where_no_other_can_be_left) {
    wefti_situation s = standing(&full, "2Mbit,5ms");
    s.averages = true;
    wefti_outlook best = plan(&s);
    assert_true(!best.form.outer && best.form.values == WEFTI_VALUES_INT4);
}

/* What has to pay in a few steps does not. */
TEST_IN(begin, end, a_change_pays_before_the_end_or_is_not_made) {
    wefti_situation s = standing(&full, "2Mbit,5ms");
    s.steps_left = 2;
    wefti_outlook best = plan(&s);
    assert_true(wefti_form_same(&best.form, &full));
    s = standing(&outer, "25Gbit,10us");
    s.step_s *= 2;
    s.steps_left = 100;
    s.state_bytes = 1e15;
    best = plan(&s);
    assert_true(best.form.outer);
}

TEST_IN(begin, end, the_loss_that_may_be_lost_is_a_bound) {
    wefti_situation s = standing(&full, "2Mbit,5ms");
    s.loss = 0;
    wefti_outlook best = plan(&s);
    assert_true(wefti_form_same(&best.form, &full));
    s.loss = 0.1;
    best = plan(&s);
    assert_true(best.form.every == 10); /* 50 would need more steps */
}

/* Neither what it holds nor what is kept meanwhile. */
TEST_IN(begin, end, a_form_that_does_not_fit_is_not_taken) {
    wefti_situation s = standing(&full, "2Mbit,5ms");
    s.state_bytes = 8e6;
    assert_true(plan(&s).form.outer);
    double most = (double)found_memory(&s, &outer) + 8e6 + 4 * (double)s.parameters;
    cluster->memory_bytes = most;
    assert_true(plan(&s).form.outer);
    cluster->memory_bytes = most - 1;
    assert_false(plan(&s).form.outer);
    cluster->memory_bytes = 0;
    run->mesh.memory_limit = (int64_t)most - 1;
    assert_false(plan(&s).form.outer);
}

/* The least of what all machines have, of one of them, and of what the run may take; 0: not known.
 * The form that a run has needs no more room. */
TEST_IN(begin, end, the_least_room_counts) {
    enum { NONE, LITTLE, MUCH };
    static const struct {
        int all, one, limit;
        bool fits;
    } cases[] = {{NONE, NONE, NONE, true},    {MUCH, NONE, NONE, true},
                 {LITTLE, NONE, NONE, false}, {MUCH, LITTLE, NONE, false},
                 {LITTLE, MUCH, NONE, false}, {NONE, LITTLE, NONE, false},
                 {MUCH, NONE, LITTLE, false}, {LITTLE, NONE, MUCH, false},
                 {NONE, NONE, LITTLE, false}, {MUCH, MUCH, MUCH, true}};
    wefti_situation s = standing(&full, "2Mbit,5ms");
    double need = (double)found_memory(&s, &outer) + 4 * (double)s.parameters;
    const double rooms[] = {0, need - 1, need};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double outer_s, now_s;
        int64_t limit = (int64_t)rooms[cases[i].limit];
        assert_ok(ctx, weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_MACHINES, 1));
        cluster->machines[0] = (weft_machine){.memory_bytes = rooms[cases[i].one]};
        cluster->memory_bytes = rooms[cases[i].all];
        run->mesh.memory_limit = limit;
        assert_ok(ctx, wefti_form_predict(ctx, &s, &outer, &outer_s));
        assert_ok(ctx, wefti_form_predict(ctx, &s, &full, &now_s));
        if (isfinite(outer_s) != cases[i].fits || !isfinite(now_s))
            fail_msg("case %zu: %g, %g", i, outer_s, now_s);
    }
}

/* One rate stands for the wire, which the steps may tell to be another one. */
TEST_IN(begin, end, pairs_and_ways_out_are_not_told_apart) {
    wefti_replan *replan;
    weft_cluster *own;
    assert_ok(ctx, weft_cluster_create(ctx, &own));
    assert_ok(ctx, weft_cluster_resize(ctx, own, WEFT_CLUSTER_PAIRS, 2));
    own->wire = (weft_link_facts){.bandwidth_Bps = 1e8, .up_Bps = 1e6};
    assert_ok(ctx, wefti_replan_create(ctx, own, 0, &replan));
    assert_true(own->n_pairs == 0 && own->wire.up_Bps == 0);
    wefti_replan_destroy(ctx, replan);
}

/* What was measured of a form counts beside what is predicted of it. */
TEST_IN(begin, end, a_form_that_was_slower_than_predicted_is_not_taken_again) {
    wefti_situation s = standing(&full, "2Mbit,5ms");
    s.bias[true] = 100;
    assert_false(plan(&s).form.outer);
}

TEST_IN(begin, end, the_step_tells_the_wire) {
    static const char *const links[] = {"2Mbit,1ms", "20Mbit,1ms"};
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        double Bps;
        wefti_situation s = standing(&full, links[i]);
        double then = cluster->wire.bandwidth_Bps;
        cluster->wire.bandwidth_Bps = 1e9; /* as it was believed to be */
        assert_ok(ctx, wefti_wire_of_step(ctx, &s, &Bps));
        assert_true(Bps > 0.9 * then && Bps < 1.1 * then);
        assert_true(cluster->wire.bandwidth_Bps == 1e9);
    }
}

/* What a step waits for other ranks is not the wire's: with it as slow as half a step more. */
TEST_IN(begin, end, waits_of_ranks_are_not_of_the_wire) {
    double Bps, slow_Bps;
    wefti_situation s = standing(&outer, "1Gbit,1ms");
    double waited_s = s.step_s / 2;
    s.step_s += waited_s;
    assert_ok(ctx, wefti_wire_of_step(ctx, &s, &slow_Bps));
    s.idle_s = waited_s;
    assert_ok(ctx, wefti_wire_of_step(ctx, &s, &Bps));
    assert_true(slow_Bps > 0 && slow_Bps < 1.25e8 / 10);
    assert_true(Bps > 1.25e8 * 0.9 && Bps < 1.25e8 * 1.1);
}

static wefti_replan_step no_step(const wefti_situation *s) {
    wefti_replan_step step = {.config = run, .world = run, .steps_left = 1500};
    step.loop = s->loop, step.now = s->now, step.parameters = s->parameters;
    return step;
}

/* What it wants that begins with step 501, in the form in which the others train, on this wire;
 * `measured`: what it was before the first step, NULL: it does not know. */
static wefti_replan_wish of_a_late_one(const wefti_form *now, const char *link,
                                       const char *measured) {
    wefti_replan *replan;
    wefti_situation s = standing(now, link);
    weft_cluster *then = measured ? known_of("2", measured) : NULL;
    assert_ok(ctx, wefti_replan_create(ctx, then, 10, &replan));
    wefti_replan_step step = no_step(&s);
    assert_ok(ctx, wefti_computing_predict(ctx, &s, &step.computing_s));
    for (step.step = 501; step.step <= 1000; step.step++) {
        bool waits = !now->outer || step.step % now->every == 0;
        step.steps_left = 2000 - step.step;
        step.wait_s = waits ? s.step_s - step.computing_s : 0;
        if (now->outer) step.wait_s *= (double)now->every;
        assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
    }
    wefti_replan_wish wish = *wefti_replan_wish_of(replan);
    wefti_replan_changed(replan, now); /* another one than it wants */
    assert_int_equal(wefti_replan_wish_of(replan)->wants, wish.wants);
    wefti_replan_changed(replan, &wish.form);
    assert_false(wefti_replan_wish_of(replan)->wants);
    wefti_replan_destroy(ctx, replan);
    return wish;
}

/* Who has seen nothing of the steps before believes the steps, and not what was measured then. */
TEST_IN(begin, end, who_takes_over_finds_the_wire) {
    static const char *const measured[] = {NULL, "25Gbit,10us", "2Mbit,1ms"};
    for (int i = 0; i < 3; i++) {
        wefti_replan_wish slow = of_a_late_one(&full, "2Mbit,1ms", measured[i]),
                          still = of_a_late_one(&outer, "2Mbit,1ms", measured[i]);
        assert_true(slow.wants && slow.form.outer);
        assert_null(strstr(slow.why, "were expected")); /* by nobody */
        assert_true(slow.Bps > 0.9 * 2.5e5 && slow.Bps < 1.1 * 2.5e5);
        assert_false(still.wants);
        assert_true(still.Bps > 0.8 * 2.5e5 && still.Bps < 1.2 * 2.5e5);
        assert_false(of_a_late_one(&full, "25Gbit,10us", measured[i]).wants);
    }
}

/* Steps of this form on this wire, from `step` on. */
static void go(wefti_replan *replan, wefti_replan_step *step, const wefti_form *now,
               const char *link, int64_t steps) {
    wefti_situation s = standing(now, link);
    double wait_s = s.step_s - step->computing_s;
    step->now = *now;
    for (int64_t i = 0; i < steps; i++) {
        bool waits = !now->outer || ++step->step % now->every == 0;
        if (!now->outer) step->step++;
        step->steps_left = 1500 - step->step;
        step->wait_s = waits ? wait_s * (double)(now->outer ? now->every : 1) : 0;
        assert_ok(ctx, wefti_replan_add(ctx, replan, step));
    }
}

/* Nothing was measured before the first step: four are enough, and 16 more are seen after them. */
TEST_IN(begin, end, the_first_steps_of_a_run_tell_the_wire) {
    for (int later = 0; later < 2; later++) {
        wefti_replan *replan;
        wefti_situation s = standing(&full, "2Mbit,1ms");
        wefti_replan_step step = no_step(&s);
        assert_ok(ctx, wefti_computing_predict(ctx, &s, &step.computing_s));
        assert_ok(ctx, wefti_replan_create(ctx, NULL, 10, &replan));
        go(replan, &step, &full, later ? "25Gbit,10us" : "2Mbit,1ms", 3);
        assert_false(wefti_replan_wish_of(replan)->wants);
        go(replan, &step, &full, later ? "25Gbit,10us" : "2Mbit,1ms", 1);
        assert_int_equal(wefti_replan_wish_of(replan)->wants, !later);
        go(replan, &step, &full, "2Mbit,1ms", 15);
        assert_int_equal(wefti_replan_wish_of(replan)->wants, !later);
        go(replan, &step, &full, "2Mbit,1ms", 1);
        assert_true(wefti_replan_wish_of(replan)->wants);
        assert_true(wefti_replan_wish_of(replan)->form.outer);
        wefti_replan_destroy(ctx, replan);
    }
}

/* The run's model as a program's own tensor. */
static weft_loop_facts own_loop(weft_sync_tensor *tensor, int64_t parameters) {
    *tensor = (weft_sync_tensor){.struct_size = sizeof *tensor,
                                 .name = "all",
                                 .rows = parameters / 64,
                                 .cols = 64};
    return (weft_loop_facts){
        .struct_size = sizeof(weft_loop_facts), .tensors = tensor, .n_tensors = 1};
}

/* Steps that would wait longer than may be waited for them are not: the first one's exchange is
 * the only one of everything. Where the wire carries them, the four tell it as if nothing had been
 * asked: so it is also where they compute that long, or wait a little less. */
TEST_IN(begin, end, a_wire_too_slow_for_the_first_steps_is_not_measured_by_them) {
    static const struct {
        const char *link;
        double computing_s, most; /* of what four steps wait */
        bool early;
    } cases[] = {{"2Mbit,1ms", 0.1, 0.9, true},
                 {"2Mbit,1ms", 1, 1.1, false},
                 {"2Mbit,1ms", 100, 0.9, false},
                 {"25Gbit,10us", 0.1, 1.1, false},
                 {"25Gbit,10us", 0.1, 0.9, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_replan *replan;
        double step_s;
        weft_sync_tensor tensor;
        wefti_situation s = standing(&full, cases[i].link);
        weft_loop_facts loop = own_loop(&tensor, s.parameters);
        double Bps = cluster->wire.bandwidth_Bps;
        s.loop = &loop;
        wefti_replan_step step = no_step(&s);
        step.computing_s = cases[i].computing_s;
        loop.step_s = step.computing_s;
        assert_ok(ctx, wefti_form_predict(ctx, &s, &full, &step_s));
        step.measure_s = cases[i].most * 4 * (step_s - step.computing_s);
        assert_ok(ctx, wefti_replan_create(ctx, NULL, 10, &replan));
        assert_ok(ctx, wefti_replan_foresee(ctx, replan, &step, 0));
        assert_false(wefti_replan_wish_of(replan)->wants);
        assert_ok(ctx, wefti_replan_foresee(ctx, replan, &step, Bps));
        const wefti_replan_wish *wish = wefti_replan_wish_of(replan);
        assert_int_equal(wish->wants, cases[i].early);
        assert_int_equal(wefti_replan_asks(replan, &full, 1) > 0, cases[i].early);
        step.measure_s = 0;
        for (int k = 1; k <= 4 && !cases[i].early; k++) {
            step.step = k;
            step.wait_s = 100 * step.computing_s;
            assert_false(wish->wants);
            assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
        }
        assert_true(wish->wants);
        const char *words = cases[i].early ? "a step would take" : "a step takes";
        assert_non_null(strstr(wish->why, words));
        if (cases[i].early) { /* and something else was slow */
            assert_true(wish->form.outer);
            step.now = wish->form;
            wefti_replan_changed(replan, &step.now);
            step.wait_s = 1e-4;
            for (step.step = 2; step.step <= 250; step.step++)
                assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
            assert_true(wish->Bps > 100 * Bps);
        }
        wefti_replan_destroy(ctx, replan);
    }
}

/* A first step may compile: what it computes is no price. Where that is longer than its exchange
 * the wire alone tells that codes are faster; the second step tells the rest, and nothing stays of
 * it if steps compute that long, or if the wire carries all of them. */
TEST_IN(begin, end, what_a_first_step_computes_is_no_price) {
    static const struct {
        const char *link;
        double first_s, then_s, most; /* computing, waits; relative to an exchange */
        int outer, coded, back;       /* after the first step; after the second */
    } cases[] = {
        {"2Mbit,1ms", 50, 0.01, 1, 0, 1, 0},  {"2Mbit,1ms", 50, 50, 1, 0, 1, 1},
        {"2Mbit,1ms", 1.1, 0.01, 1, 0, 1, 0}, {"2Mbit,1ms", 1.1, 1.1, 1, 0, 1, 0},
        {"2Mbit,1ms", 0.5, 0.5, 1, 1, 0, 0},  {"2Mbit,1ms", 0.5, 0.5, 3.5, 0, 0, 0},
        {"25Gbit,10us", 50, 50, 1, 0, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_replan *replan;
        double exchange_s;
        weft_sync_tensor tensors[2];
        wefti_situation s = standing(&full, "2Mbit,1ms");
        weft_loop_facts loop = own_loop(tensors, s.parameters / 2);
        tensors[1] = tensors[0], loop.n_tensors = 2;
        s.loop = &loop;
        loop.step_s = 1e-3;
        assert_ok(ctx, wefti_form_predict(ctx, &s, &full, &exchange_s));
        standing(&full, cases[i].link);
        double Bps = cluster->wire.bandwidth_Bps;
        wefti_replan_step step = no_step(&s);
        step.computing_s = cases[i].first_s * exchange_s;
        step.measure_s = cases[i].most * exchange_s;
        step.first = true;
        assert_ok(ctx, wefti_replan_create(ctx, NULL, 10, &replan));
        const wefti_replan_wish *wish = wefti_replan_wish_of(replan);
        assert_ok(ctx, wefti_replan_foresee(ctx, replan, &step, Bps));
        assert_int_equal(wish->wants, cases[i].outer || cases[i].coded);
        if (wish->wants) {
            assert_int_equal(wish->form.outer, cases[i].outer);
            step.now = wish->form;
            wefti_replan_changed(replan, &step.now);
        }
        step.first = false, step.step = 1;
        step.computing_s = cases[i].then_s * exchange_s;
        assert_ok(ctx, wefti_replan_foresee(ctx, replan, &step, Bps));
        assert_int_equal(wish->wants, cases[i].coded);
        if (cases[i].coded) assert_int_equal(wish->form.outer, !cases[i].back);
        if (cases[i].back) {
            assert_true(wefti_form_same(&wish->form, &full));
            assert_non_null(strstr(wish->why, "full sync instead of full sync int"));
            step.now = full;
            wefti_replan_changed(replan, &full);
        }
        /* four steps tell, as if nothing had been */
        step.computing_s = exchange_s / 99, step.wait_s = exchange_s, step.measure_s = 0;
        for (step.step = 2; step.step <= 5 && cases[i].back; step.step++) {
            assert_false(wish->wants);
            assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
        }
        assert_int_equal(wish->wants, cases[i].coded);
        wefti_replan_destroy(ctx, replan);
    }
}

/* By the best form that there is, and by more than predictions are off. */
TEST_IN(begin, end, one_alone_is_faster_where_all_wait_longer_than_it_computes_for_them) {
    int n[2] = {0};
    for (double computing_s = 1e-3; computing_s < 10; computing_s *= 1.3) {
        wefti_replan *replan;
        weft_sync_tensor tensor;
        wefti_situation s = standing(&full, "2Mbit,1ms");
        weft_loop_facts loop = own_loop(&tensor, s.parameters);
        s.loop = &loop;
        wefti_replan_step step = no_step(&s);
        step.steps_left = s.steps_left;
        step.computing_s = computing_s;
        step.measure_s = 1e-3;
        assert_ok(ctx, wefti_replan_create(ctx, NULL, 10, &replan));
        const wefti_replan_wish *wish = wefti_replan_wish_of(replan);
        assert_ok(ctx,
                  wefti_replan_foresee(ctx, replan, &step, cluster->wire.bandwidth_Bps));
        double steps = wefti_form_steps(&s, &wish->form);
        double times = wish->outlook.step_s * steps / (2 * computing_s);
        if (!wish->wants) assert_true(wish->alone == 0);
        if (wish->wants) {
            assert_true(fabs(wish->alone - (times > 1.2 ? times : 0)) < 1e-9 * times);
            n[wish->alone > 0]++;
        }
        wefti_replan_destroy(ctx, replan);
    }
    assert_true(n[0] > 0 && n[1] > 0);
}

/* Steps that wait long tell a wire of which nothing is known sooner: two, or as many as have
 * waited measure_s if all were as short as the shortest, in a run's first steps and in later ones.
 * Where the wire was measured all 16 count. */
TEST_IN(begin, end, long_waits_tell_a_wire_sooner) {
    static const struct {
        int first, known;
        double wait_s[3], measure_s; /* first, second, later waits */
        int after;
    } cases[] = {{1, 0, {9, 9, 9}, 10, 2},     {1, 0, {9, 9, 9}, 20, 3},
                 {1, 0, {30, 30, 30}, 10, 2},  {1, 0, {9, 9, 9}, 0, 4},
                 {1, 0, {1, 90, 9}, 10, 4},    {501, 0, {9, 9, 9}, 10, 2},
                 {501, 0, {90, 1, 9}, 10, 11}, {501, 0, {9, 9, 9}, 0, 16},
                 {1, 1, {9, 9, 9}, 10, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_replan *replan;
        wefti_situation s = standing(&full, "2Mbit,1ms");
        wefti_replan_step step = no_step(&s);
        step.measure_s = cases[i].measure_s;
        assert_ok(ctx, wefti_computing_predict(ctx, &s, &step.computing_s));
        weft_cluster *known = cases[i].known ? known_of("2", "2Mbit,1ms") : NULL;
        assert_ok(ctx, wefti_replan_create(ctx, known, 10, &replan));
        int n = 0;
        while (!wefti_replan_wish_of(replan)->wants && n < 20) {
            step.step = cases[i].first + n;
            step.wait_s = cases[i].wait_s[n < 2 ? n : 2];
            assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
            n++;
        }
        if (n != cases[i].after) fail_msg("case %zu: after %d steps", i, n);
        wefti_replan_destroy(ctx, replan);
    }
}

/* So do those behind a drift: four show it, two tell the wire; without measure_s eight. */
TEST_IN(begin, end, long_waits_tell_a_wire_that_fell_sooner) {
    const char *fast = "10Gbit,50us";
    for (int soon = 0; soon < 2; soon++) {
        wefti_replan *replan;
        wefti_situation s = standing(&full, fast);
        assert_ok(ctx, wefti_replan_create(ctx, known_of("2", fast), 10, &replan));
        wefti_replan_step step = no_step(&s);
        step.measure_s = soon ? 10 : 0;
        assert_ok(ctx, wefti_computing_predict(ctx, &s, &step.computing_s));
        while (!wefti_replan_wish_of(replan)->wants && step.step < 40) {
            step.wait_s = step.step++ < 16 ? s.step_s - step.computing_s : 9;
            assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
        }
        assert_int_equal(step.step, 16 + 4 + (soon ? 2 : 8));
        wefti_replan_destroy(ctx, replan);
    }
}

/* The wire falls, and is there again before the first outer step: nothing of the form that was
 * begun meanwhile has been measured. With a wire that stays slow it stays. */
TEST_IN(begin, end, a_wire_that_comes_back_is_seen) {
    static const char fast[] = "10Gbit,50us", slow[] = "1Mbit,50us";
    assert_ok(ctx, weft_config_set(ctx, run, "mesh.nodes=8"));
    assert_ok(ctx, weft_config_finish(ctx, run));
    assert_ok(ctx, weft_cluster_set(ctx, cluster, "nodes", "8"));
    for (int back = 0; back < 2; back++) {
        wefti_replan *replan;
        wefti_situation s = standing(&full, fast);
        assert_ok(ctx, wefti_replan_create(ctx, known_of("8", fast), 10, &replan));
        wefti_replan_step step = no_step(&s);
        assert_ok(ctx, wefti_computing_predict(ctx, &s, &step.computing_s));
        const wefti_replan_wish *wish = wefti_replan_wish_of(replan);
        go(replan, &step, &full, fast, 50);
        assert_false(wish->wants);
        go(replan, &step, &full, slow, 50);
        assert_true(wish->wants && wish->form.outer && wish->form.every == 50);
        wefti_replan_changed(replan, &wish->form);
        go(replan, &step, &outer, back ? fast : slow, 300);
        assert_int_equal(wish->wants, back);
        if (back) assert_true(wefti_form_same(&wish->form, &full));
        wefti_replan_destroy(ctx, replan);
    }
}

/* --- a limit of what is sent --- */

static double sends_Bps(const wefti_situation *s, const wefti_form *form) {
    weft_prediction found = {.struct_size = sizeof found};
    assert_ok(ctx, wefti_form_set(ctx, run, form));
    assert_ok(ctx, weft_predict(ctx, run, cluster, NULL, &found));
    assert_ok(ctx, wefti_form_set(ctx, run, &s->now));
    double Bps = found.wire_bytes / found.mean_step_s;
    weft_prediction_clear(ctx, &found);
    return Bps;
}

/* A form that sends too much is left though others are slower; the fastest that sends less is
 * taken, or what sends least. */
TEST_IN(begin, end, a_form_that_sends_too_much_is_left) {
    static const wefti_form coded = {false, WEFTI_VALUES_INT8, 0, 0};
    wefti_situation s = standing(&full, "25Gbit,10us");
    double all = sends_Bps(&s, &full), less = sends_Bps(&s, &coded);
    assert_true(less < all / 2);
    wefti_outlook best;
    s.most_Bps = 1.01 * all;
    best = plan(&s);
    assert_true(wefti_form_same(&best.form, &full));
    s.most_Bps = 0.99 * all;
    best = plan(&s);
    assert_false(wefti_form_same(&best.form, &full));
    assert_true(best.Bps <= s.most_Bps && best.gain < 1.05);
    s.most_Bps = 1;
    assert_int_equal(plan(&s).form.every, 50);
    s = standing(&outer, "25Gbit,10us"); /* where it would go back, but for the limit */
    s.step_s *= 2;
    best = plan(&s);
    assert_true(wefti_form_same(&best.form, &full));
    s.most_Bps = 1.01 * sends_Bps(&s, &outer);
    best = plan(&s);
    assert_true(wefti_form_same(&best.form, &outer));
}

/* What is left of a day is a number of bytes, for a run that ends in that day. */
TEST_IN(begin, end, a_run_that_ends_sooner_may_send_faster) {
    int n = 0;
    for (int rate = 5; rate <= 640; rate += rate / 5) { /* Mbit/s */
        char link[32];
        snprintf(link, sizeof link, "%dMbit,1ms", rate);
        wefti_situation s = standing(&full, link);
        wefti_outlook best = plan(&s);
        double left = (double)s.steps_left;
        wefti_budget budget = {.per_day = 1.01 * best.Bps * best.step_s * left};
        if (best.gain == 1 || best.form.every == outer.every) continue;
        s.most_Bps = wefti_budget_Bps(&budget, s.step_s * left, 0);
        s.budget = &budget;
        wefti_outlook limited = plan(&s);
        assert_true(wefti_form_same(&limited.form, &best.form));
        budget.per_day /= 1.02;
        assert_true(plan(&s).gain < best.gain && ++n > 0);
    }
    assert_true(n > 0);
}

/* Of a machine and a wire that are as was measured; and a step on them. */
static wefti_replan *begin_calm(const wefti_situation *s, const wefti_budget *budget,
                                wefti_replan_step *step) {
    wefti_replan *replan;
    assert_ok(ctx, wefti_replan_create(ctx, known_of("2", "25Gbit,10us"), 10, &replan));
    *step = no_step(s);
    assert_ok(ctx, wefti_computing_predict(ctx, s, &step->computing_s));
    step->wait_s = s->step_s - step->computing_s;
    step->steps_left = 2000;
    step->budget = budget;
    return replan;
}

/* Steps on a calm wire: at first within the limit; then more is sent than was planned. */
TEST_IN(begin, end, who_has_sent_too_much_sends_less) {
    wefti_situation s = standing(&full, "25Gbit,10us");
    double bytes = sends_Bps(&s, &full) * s.step_s, look_again_s = 600;
    wefti_budget budget = {.per_day = 4 * 2000 * bytes};
    wefti_replan_step step;
    wefti_replan *replan = begin_calm(&s, &budget, &step);
    int64_t steps = (int64_t)(2 * look_again_s / s.step_s) + 100;
    for (int much = 0; much < 2; much++) {
        for (int64_t i = 0; i < steps; i++) {
            step.step++;
            wefti_budget_add(&budget, s.step_s, 0);
            assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
        }
        const wefti_replan_wish *wish = wefti_replan_wish_of(replan);
        assert_int_equal(wish->wants, much);
        if (much) assert_non_null(strstr(wish->why, " may be sent until the run ends"));
        wefti_budget_add(&budget, 1, 3.5 * 2000 * bytes);
    }
    wefti_replan_destroy(ctx, replan);
}

/* The step in which they begin or end plans again, and no other one. What no form keeps is said. */
TEST_IN(begin, end, busy_hours_change_the_form) {
    for (int kept = 0; kept < 2; kept++) {
        wefti_situation s = standing(&full, "25Gbit,10us");
        wefti_budget budget = {.busy = {64800, 84600, 1}};
        if (kept) budget.busy.Bps = sends_Bps(&s, &full) / 10;
        wefti_replan_step step;
        wefti_replan *replan = begin_calm(&s, &budget, &step);
        const wefti_replan_wish *wish = wefti_replan_wish_of(replan);
        step.day_s = 64800 - 200;
        for (int64_t i = 1; i <= 201; i++, step.day_s++) {
            assert_false(wish->wants);
            step.step = i;
            assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
        }
        assert_true(wish->wants && wish->form.outer);
        assert_non_null(strstr(wish->why, " may be sent in these busy hours"));
        bool least = strstr(wish->why, "hours, and this form sends least, ") != NULL;
        assert_int_equal(least, !kept);
        step.day_s = 84600, step.step++;
        assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
        assert_false(wish->wants); /* all that was wanted was for them */
        wefti_replan_destroy(ctx, replan);
    }
}

static void count_least(void *user, weft_log_level level, const char *line) {
    const char *words =
        "method=auto stays with diloco H=50: 8 bit/s may be sent in these "
        "busy hours, and this form sends least, ";
    *(int *)user += level == WEFT_LOG_WARN && strstr(line, words) == line;
}

/* Whoever sends least already, and more than may be sent, is told so once each time. */
TEST_IN(begin, end, a_limit_that_nothing_keeps_is_said) {
    int told = 0;
    wefti_situation s = standing(&outer, "25Gbit,10us");
    wefti_budget budget = {.busy = {64800, 84600, 1}};
    wefti_replan_step step;
    wefti_replan *replan = begin_calm(&s, &budget, &step);
    weft_ctx_set_sink(ctx, count_least, &told);
    for (int64_t i = 1; i <= 1000; i++) {
        step.step = i, step.day_s = i % 500 < 250 ? 0 : 64800;
        assert_ok(ctx, wefti_replan_add(ctx, replan, &step));
    }
    weft_ctx_set_sink(ctx, NULL, NULL);
    assert_int_equal(told, 2);
    wefti_replan_destroy(ctx, replan);
}
