/* SPDX-License-Identifier: MIT */
/* Both ends of what is plausible, and the three answers. */
#include "room.h"

#include <math.h>

#include <weft/plan.h>

#include "planner/advise.h"

/* ---- the ends of the facts ---- */

TEST(each_fact_has_the_ends_of_its_origin) {
    enum {
        TYPED = WEFT_KNOWN_TYPED,
        SHEET = WEFT_KNOWN_SHEET,
        MEASURED = WEFT_KNOWN_MEASURED
    };
    static const struct {
        int wire, computing;
        double latency_s, residual, wire_low, computing_low, computing_high;
        int64_t sites, n_units;
        double slow[2], fast[2]; /* slow wire and fast ranks first */
    } cases[] = {
        {TYPED, TYPED, 50e-6, 0, 0, 0, 0, 1, 0, {0.2, 1.3}, {1, 1 / 1.3}},
        {TYPED,
         TYPED,
         0,
         0,
         0,
         0,
         0,
         1,
         0,
         {0.2, 1.3},
         {1, 1 / 1.3}}, /* not named: TCP */
        {TYPED, TYPED, 5e-6, 0, 0, 0, 0, 1, 0, {1 / 1.5, 1.3}, {1, 1 / 1.3}},
        {TYPED, TYPED, 5e-6, 0, 0, 0, 0, 2, 0, {0.2, 1.3}, {1, 1 / 1.3}}, /* cities */
        {TYPED, TYPED, 5e-6, 0, 0.2, 0, 0, 1, 0, {0.2, 1.3}, {1, 1 / 1.3}},
        {TYPED, TYPED, 50e-6, 0, 1 / 1.5, 0, 0, 1, 0, {1 / 1.5, 1.3}, {1, 1 / 1.3}},
        {TYPED, SHEET, 50e-6, 0, 0, 0, 0, 1, 0, {0.2, 1.24}, {1, 1 / 1.24}},
        {TYPED, SHEET, 50e-6, 0, 0, 0.5, 1.5, 1, 0, {0.2, 1.5}, {1, 0.5}},
        {TYPED, MEASURED, 50e-6, 0, 0, 0, 0, 1, 0, {0.2, 1}, {1, 1}},
        {TYPED, TYPED, 50e-6, 0, 0, 0, 0, 1, 3, {0.2, 1}, {1, 1}}, /* a probe's units */
        {MEASURED, MEASURED, 50e-6, 0, 0, 0, 0, 1, 0, {1 / 1.05, 1}, {1.05, 1}},
        {TYPED, MEASURED, 50e-6, 0.25, 0, 0, 0, 1, 0, {0.8, 1}, {1.25, 1}},
        {SHEET, MEASURED, 50e-6, 0, 0, 0, 0, 1, 0, {0.5, 1}, {2, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_point found[2];
        wefti_adviser a = {.cluster = {.sites = cases[i].sites,
                                       .n_units = cases[i].n_units,
                                       .wire = {.latency_s = cases[i].latency_s,
                                                .residual = cases[i].residual}},
                           .options = {.wire = (weft_known)cases[i].wire,
                                       .computing = (weft_known)cases[i].computing,
                                       .wire_low = cases[i].wire_low,
                                       .computing_low = cases[i].computing_low,
                                       .computing_high = cases[i].computing_high}};
        wefti_advise_ends(&a, found);
        bool right = fabs(found[0].wire - cases[i].slow[0]) < 1e-12 &&
                     fabs(found[1].wire - cases[i].fast[0]) < 1e-12 &&
                     fabs(found[0].computing - cases[i].slow[1]) < 1e-12 &&
                     fabs(found[1].computing - cases[i].fast[1]) < 1e-12;
        if (!right)
            fail_msg("case %zu: wire %g to %g, ranks %g to %g", i, found[0].wire,
                     found[1].wire, found[0].computing, found[1].computing);
    }
}

/* "--wire tcp" beside steps that gave the rate: a fifth of that is no end. */
TEST(a_wire_that_steps_measured_has_no_label) {
    weft_inference_of_facts steps = {.wire_Bps = 1e9};
    weft_advice advice = {.inferred = &steps};
    wefti_adviser a = {.cluster = {.sites = 1, .wire = {.latency_s = 50e-6}},
                       .options = {.wire = WEFT_KNOWN_MEASURED,
                                   .computing = WEFT_KNOWN_MEASURED,
                                   .wire_low = WEFT_TCP_LOW},
                       .advice = &advice};
    wefti_point found[2];
    wefti_advise_ends(&a, found);
    assert_true(fabs(found[0].wire - 1 / 1.05) < 1e-12);
    steps.wire_Bps = 0; /* they said nothing about the wire */
    wefti_advise_ends(&a, found);
    assert_true(fabs(found[0].wire - WEFT_TCP_LOW) < 1e-12);
}

/* ---- the answer, from outlooks that are given ---- */

typedef struct question {
    const char *rows; /* of each: cost, worth (n m y), speed-up at the slow end, marks */
    int64_t choice;   /* by rank */
    int64_t chosen, headline;
    char worth;
    const char *what;
} question;

/* Marks: 1 or 3 nodes (else 2); u: no room, q: learning not measured, f: far from where it was, o:
 * learns otherwise than one machine, h: half of its gain is the optimizer's. */
static int64_t read_rows(const char *text, weft_candidate *all, weft_outlook *outlooks) {
    static const weft_worth worths[] = {
        ['n'] = WEFT_WORTH_NO, ['m'] = WEFT_WORTH_MEASURE, ['y'] = WEFT_WORTH_YES};
    int64_t n = 0;
    int at = 0;
    double cost_s, low;
    char worth, marks[8];
    for (;
         sscanf(text, " %lf%c%lf,%7[13uqfoh-]%n", &cost_s, &worth, &low, marks, &at) == 4;
         text += at, n++) {
        bool otherwise = strpbrk(marks, "of");
        double gain = (strchr(marks, 'h') ? 0.5 : 1) / cost_s;
        all[n] = (weft_candidate){
            .name = "flexdemo",
            .nodes = strchr(marks, '1')   ? 1
                     : strchr(marks, '3') ? 3
                                          : 2,
            .usable = !strchr(marks, 'u'),
            .cost_s = cost_s,
            .speedup = 1 / cost_s,
            .learning = {otherwise ? "x" : "", !strchr(marks, 'q'), 0, 1, 1, 0, ""},
            .prediction = {.parameters = strchr(marks, 'f') ? (int64_t)1e12 : 1}};
        outlooks[n] = (weft_outlook){
            .low = low, .alone = gain, .worth = worths[(int)worth]};
    }
    assert_int_equal(text[0], 0);
    return n;
}

static void check_all(const question *q, size_t n) {
    static const char letters[] = {
        [WEFT_WORTH_NO] = 'n', [WEFT_WORTH_MEASURE] = 'm', [WEFT_WORTH_YES] = 'y'};
    for (; n-- > 0; q++) {
        weft_candidate all[4];
        weft_outlook outlooks[4];
        weft_advice a = {.candidates = all, .outlooks = outlooks, .choice = q->choice};
        a.n_candidates = read_rows(q->rows, all, outlooks);
        wefti_advise_decide(&a);
        if (a.choice != q->chosen || a.headline != q->headline ||
            letters[a.worth] != q->worth)
            fail_msg("%s: row %lld, '%c' of row %lld; expected %lld, '%c' of %lld",
                     q->what, (long long)a.choice, letters[a.worth],
                     (long long)a.headline, (long long)q->chosen, q->worth,
                     (long long)q->headline);
    }
}

/* One node is chosen: the answer is about the row of several nodes that says most, and of these
 * the one that gains most. */
TEST(an_answer_is_about_what_says_most) {
    static const question asked[] = {
        {"1n1,1", 0, 0, -1, 'n', "one node only"},
        {"1n1,1 1.2n1,- 1.1n1,-", 0, 0, 2, 'n', "both no, the second gains more"},
        {"1n1,1 1.1n1,- 1.2n1,-", 0, 0, 1, 'n', "both no, the first gains more"},
        {"1n1,1 1.1n1,h 1.2n1,-", 0, 0, 2, 'n', "by its own gain, not by cost"},
        {"1n1,1 1.2n1,- 1.2n1,-", 0, 0, 1, 'n', "the first of equals"},
        {"1n1,1 1.2m1,- 1.1n1,-", 0, 0, 1, 'm', "measure before no"},
        {"1n1,1 1.1n1,- 1.2m1,-", 0, 0, 2, 'm', "no behind measure"},
        {"1n1,1 .95y1,- .90m1,-", 0, 0, 1, 'y', "yes before measure"},
        {"1n1,1 .90m1,- .95y1,-", 0, 0, 2, 'y', "measure behind yes"},
        {"1n1,1 1.2n1,- 1.1n1,u", 0, 0, 1, 'n', "no room"},
        {"1n1,1 1.2n1,- 1.1n1,q", 0, 0, 1, 'n', "learning not measured"},
        {"1n1,1 1.2n1,- 1.1n1,f", 0, 0, 1, 'n', "learning measured with small models"},
        {"1n1,1 1.2n1,- 1.1n1,1", 0, 0, 1, 'n', "one node of another optimizer"},
        {"1n1,1 .90y1,- .95n1,-", 2, 2, 2, 'n', "the choice is on several nodes"},
        {"1n1,1u .90n1,-", 1, 1, 1, 'y', "one node has no room"},
        {"1n1,1 .9y1,-", -1, -1, 1, 'y', "no choice, and it pays"},
        {"1n1,1 1.2n1,-", -1, -1, 1, 'n', "no choice"}};
    check_all(asked, sizeof asked / sizeof asked[0]);
}

/* The choice, row 3, may not pay: the fastest one that does is taken. */
TEST(what_pays_comes_before_what_may_pay) {
    static const question asked[] = {
        {"1n1,1 .6m1,- .7n1,- .5m1,-", 3, 3, 3, 'm', "nothing pays"},
        {"1n1,1 .7y1,- .6y1,- .5m1,-", 3, 2, 2, 'y', "the second is faster"},
        {"1n1,1 .6y1,- .7y1,- .5m1,-", 3, 1, 1, 'y', "the first is faster"},
        {"1n1,1 1.y1,- 1.1y1,- .5m1,-", 3, 3, 3, 'm', "as slow as one node"},
        {"1n1,1 .6y1,q .7y1,- .5m1,-", 3, 2, 2, 'y', "not measured"},
        {"1n1,1 .65n1,1 .7y1,- .5m1,-", 3, 3, 3, 'm', "slower than one node of Muon"},
        {".65n1,1 1n1,1 .7y1,- .5m1,-", 3, 3, 3, 'm', "the faster of the two"},
        {"1n1,1 .65n1,1u .7y1,- .5m1,-", 3, 2, 2, 'y', "which has no room"},
        {"1n1,1 .6y1,- .7y1,- .5n1,-", 3, 3, 3, 'n', "the choice says no"}};
    check_all(asked, sizeof asked / sizeof asked[0]);
}

/* The choice pays: one of at most 5 % more than the least that is 5 % faster at its slow end takes
 * its place. */
TEST(the_surer_of_level_rows_is_taken) {
    static const question asked[] = {
        {"1n1,1 .52y1.7,- .5y1.5,-", 2, 1, 1, 'y', "surer"},
        {"1n1,1 .52y1.06,- .5y1,-", 2, 1, 1, 'y', "by 6 %"},
        {"1n1,1 .52y1.04,- .5y1,-", 2, 2, 2, 'y', "by 4 %"},
        {"1n1,1 .53y1.7,- .5y1.5,-", 2, 2, 2, 'y', "6 % dearer"},
        {"1n1,1 .525y1.7,- .51y1.5,- .49y1.4,-", 2, 2, 2, 'y',
         "7 % dearer than the least"},
        {"1n1,1 .6y1.1,- .6y1.3,- .5m1,-", 3, 2, 2, 'y', "as dear as a choice not level"},
        {"1n1,1 .52m1.7,- .5y1.5,-", 2, 2, 2, 'y', "may not pay"},
        {"1n1,1 .52y1.7,q .5y1.5,-", 2, 2, 2, 'y', "not measured"},
        {"1n1,1 .52y1.7,3 .5y1.5,-", 2, 2, 2, 'y', "more nodes"},
        {"1n1,1 .52y1.7,- .5y1.5,3", 2, 1, 1, 'y', "fewer nodes"},
        {"1n1,1 .52y1.7,o .5y1.5,-", 2, 2, 2, 'y', "learns otherwise"},
        {"1n1,1 .52y1.7,o .5y1.5,o", 2, 1, 1, 'y', "both do"},
        {"1n1,1 .52y2,- .5y1.5,- .505y1.7,-", 2, 1, 1, 'y', "the faster in the middle"},
        {"1n1,1 .505y1.7,- .5y1.5,- .52y2,-", 2, 3, 3, 'y', "turned round"},
        {"1n1,1 .513y1.8,- .5y1.5,- .525y1.81,-", 2, 1, 1, 'y',
         "not by the slow end alone"},
        {"1n1,1 .97y1.7,- .96y1.1,-", 0, 0, 2, 'y', "one node is the choice"},
        {".5n1,1 .5y1.7,- .49m.9,-", 2, 2, 2, 'm', "neither pays by less time"}};
    check_all(asked, sizeof asked / sizeof asked[0]);
}

/* ---- a plan ---- */

typedef struct scene {
    weft_config *run;
    weft_cluster *cluster;
    weft_advice *advice;
} scene;

/* `parameters` 0: a small model of one bucket. */
static scene ask_of(double parameters, const char *nodes, const char *link,
                    const char *flops, weft_advise_options options) {
    static const char *const keys[] = {"data.path=none.txt",
                                       "data.length=32",
                                       "model.layers=2",
                                       "model.width=64",
                                       "model.heads=2",
                                       "run.steps=400",
                                       "batch.tokens_per_step=2048",
                                       "mesh.threads=1",
                                       "mesh.min_message=0"};
    scene s = {NULL, NULL, NULL};
    options.struct_size = sizeof options;
    options.steps = 12;
    assert_ok(ctx, weft_config_create(ctx, &s.run));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_ok(ctx, weft_config_set(ctx, s.run, keys[i]));
    assert_ok(ctx, weft_config_finish(ctx, s.run));
    if (parameters > 0) {
        weft_shape *shape;
        assert_ok(ctx, weft_shape_of_size(ctx, parameters, 6, &shape));
        assert_ok(ctx, weft_shape_apply(ctx, shape, s.run));
        weft_free(ctx, shape);
    }
    assert_ok(ctx, weft_cluster_create(ctx, &s.cluster));
    assert_ok(ctx, weft_cluster_set(ctx, s.cluster, "nodes", nodes));
    assert_ok(ctx, weft_cluster_set(ctx, s.cluster, "link", link));
    assert_ok(ctx, weft_cluster_set(ctx, s.cluster, "node-flops", flops));
    assert_ok(ctx, weft_advise(ctx, s.run, s.cluster, &options, &s.advice));
    return s;
}

static scene ask(const char *nodes, const char *link, const char *flops,
                 weft_advise_options options) {
    return ask_of(0, nodes, link, flops, options);
}

static void drop(scene *s) {
    weft_advice_destroy(ctx, s->advice);
    weft_cluster_destroy(ctx, s->cluster);
    weft_config_destroy(ctx, s->run);
}

static int64_t find(const weft_advice *a, const char *name, int64_t nodes) {
    for (int64_t i = 0; i < a->n_candidates; i++)
        if (strcmp(a->candidates[i].name, name) == 0 && a->candidates[i].nodes == nodes)
            return i;
    fail_msg("there is no candidate '%s' on %lld nodes", name, (long long)nodes);
    return -1;
}

TEST_IN(begin, end, a_range_has_the_prediction_in_it) {
    scene s = ask("4", "100Mbit,1ms", "20G", (weft_advise_options){.steps = 12});
    const weft_advice *a = s.advice;
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_outlook *o = &a->outlooks[i];
        const weft_candidate *c = &a->candidates[i], *peer = &a->candidates[o->peer];
        assert_true(o->low <= c->speedup && c->speedup <= o->high);
        assert_true(o->alone_low <= o->alone && o->alone <= o->alone_high);
        assert_true(fabs(o->alone - peer->cost_s / c->cost_s) < 1e-9 * o->alone);
        assert_true(fabs(o->alone * o->optimizer - c->speedup) < 1e-9 * c->speedup);
        if (i != a->baseline && c->nodes > 1) assert_true(o->low < 0.96 * o->high);
    }
    const weft_outlook *one = &a->outlooks[a->baseline];
    assert_true(one->low == 1 && one->high == 1 && one->alone == 1);
    drop(&s);
}

/* What computes as one node does is at most as many times faster as there are nodes, whatever the
 * model's error is. */
TEST_IN(begin, end, no_error_makes_two_nodes_three) {
    scene s = ask("2", "400Gbit,1us", "20G", (weft_advise_options){.frameworks = "ddp"});
    int64_t n = 0;
    for (int64_t i = 0; i < s.advice->n_candidates; i++) {
        const weft_candidate *c = &s.advice->candidates[i];
        if (c->learning.changes[0] || c->nodes == 1) continue;
        assert_true(s.advice->outlooks[i].high > 1.9);
        assert_true(s.advice->outlooks[i].high <= 2 * (1 + 1e-9));
        assert_true(s.advice->outlooks[i].alone_high <= 2 * (1 + 1e-9));
        n++;
    }
    assert_true(n >= 2);
    drop(&s);
}

/* What the second machine gives is told from what Muon gives on one. */
TEST_IN(begin, end, a_peer_has_the_same_optimizer) {
    static const struct {
        const char *name;
        int64_t nodes;
        bool muon;
    } cases[] = {{"full sync", 2, false}, {"full sync, muon", 2, true},
                 {"muon int4", 2, true},  {"choco int8 muon", 2, true},
                 {"muloco", 2, true},     {"muloco int4", 2, true},
                 {"flexdemo", 2, false},  {"diloco H=50", 2, false},
                 {"one node", 1, false},  {"one node, muon", 1, true}};
    scene s = ask("2", "100Mbit,1ms", "20G", (weft_advise_options){.steps = 12});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t at = find(s.advice, cases[i].name, cases[i].nodes);
        int64_t peer = cases[i].muon ? find(s.advice, "one node, muon", 1)
                                     : s.advice->baseline;
        if (s.advice->outlooks[at].peer != peer) fail_msg("%s", cases[i].name);
    }
    const weft_outlook *o = &s.advice->outlooks[find(s.advice, "muloco", 2)];
    assert_true(o->alone <
                0.7 * s.advice->candidates[find(s.advice, "muloco", 2)].speedup);
    drop(&s);
}

/* The label's wire alone turns the answer: no, measure first, yes. */
TEST_IN(begin, end, there_are_three_answers) {
    static const struct {
        const char *link;
        weft_known wire;
        weft_worth worth;
        int doubt; /* -1: any */
    } cases[] = {{"1Mbit,1ms", WEFT_KNOWN_TYPED, WEFT_WORTH_NO, -1},
                 {"200Mbit,50us", WEFT_KNOWN_TYPED, WEFT_WORTH_MEASURE, WEFT_DOUBT_WIRE},
                 {"200Mbit,50us", WEFT_KNOWN_MEASURED, WEFT_WORTH_YES, -1},
                 {"10Gbit,50us", WEFT_KNOWN_TYPED, WEFT_WORTH_YES, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        scene s = ask("2", cases[i].link, "20G",
                      (weft_advise_options){.same_only = true,
                                            .computing = WEFT_KNOWN_MEASURED,
                                            .wire = cases[i].wire});
        const weft_advice *a = s.advice;
        const weft_outlook *o = &a->outlooks[a->headline];
        if (a->worth != cases[i].worth)
            fail_msg("%s: answer %d, expected %d; %.3g to %.3g", cases[i].link, a->worth,
                     cases[i].worth, o->alone_low, o->alone_high);
        if (cases[i].doubt >= 0) assert_int_equal(o->doubt, cases[i].doubt);
        assert_int_equal(o->worth, o->alone_high <= 1.02 ? WEFT_WORTH_NO
                                   : o->alone_low <= 1   ? WEFT_WORTH_MEASURE
                                                         : WEFT_WORTH_YES);
        const char *first = a->worth == WEFT_WORTH_NO        ? "Stay on one node"
                            : a->worth == WEFT_WORTH_MEASURE ? "Measure first: "
                                                             : "Take ";
        assert_int_equal(strncmp(a->answer, first, strlen(first)), 0);
        bool decides = strstr(a->next, "--allreduce \"2 nodes: ") != NULL;
        assert_int_equal(decides, a->worth == WEFT_WORTH_MEASURE);
        drop(&s);
    }
}

/* Nobody is told to measure where a method that is level pays at every rate. */
TEST_IN(begin, end, what_surely_pays_is_taken) {
    static const char *const links[] = {"20Mbit,1ms", "50Mbit,1ms", "100Mbit,1ms",
                                        "200Mbit,1ms", "400Mbit,1ms"};
    int taken = 0;
    for (size_t k = 0; k < sizeof links / sizeof links[0]; k++) {
        weft_advise_options o = {.steps = 12, .computing = WEFT_KNOWN_MEASURED};
        scene s = ask("2", links[k], "20G", o);
        const weft_advice *a = s.advice;
        const weft_candidate *about = &a->candidates[a->headline];
        wefti_adviser adviser = {.cluster = *s.cluster, .options = o};
        assert_int_equal(a->worth, a->outlooks[a->headline].worth);
        for (int64_t i = 0; i < a->n_candidates; i++) {
            const weft_candidate *c = &a->candidates[i];
            if (!c->usable || !c->learning.measured || c->nodes == 1) continue;
            double more = log(c->cost_s / about->cost_s),
                   apart = wefti_advise_apart(&adviser, c, c->cost_s, about,
                                              about->cost_s);
            weft_worth worth = a->outlooks[i].worth;
            if (a->worth == WEFT_WORTH_MEASURE && worth == WEFT_WORTH_YES &&
                more <= apart)
                fail_msg("%s: %s pays, %s is level", links[k], c->name, about->name);
            taken += a->worth == WEFT_WORTH_YES && worth == WEFT_WORTH_MEASURE &&
                     more < 0;
        }
        drop(&s);
    }
    assert_true(taken > 0); /* before faster ones that may not pay */
}

/* Of two that are equally fast by the wire's label, the one that needs less of the wire is taken;
 * where the wire was measured, the faster one. */
TEST_IN(begin, end, of_equals_the_surer_is_taken) {
    for (int known = 0; known < 2; known++) {
        scene s = ask_of(1.2e8, "4", "10Gbit,50us", "2T",
                         (weft_advise_options){.wire = known ? WEFT_KNOWN_MEASURED
                                                             : WEFT_KNOWN_TYPED});
        const weft_advice *a = s.advice;
        const weft_candidate *taken = &a->candidates[a->choice],
                             *fast = &a->candidates[a->rival];
        double surer = a->outlooks[a->choice].low / a->outlooks[a->rival].low;
        assert_int_equal(a->worth, WEFT_WORTH_YES);
        assert_int_equal(a->choice, a->headline);
        assert_int_equal(taken == fast, known);
        if (!known) assert_true(taken->cost_s < 1.052 * fast->cost_s && surer > 1.5);
        drop(&s);
    }
}

/* Nothing is faster than its label: a step that waits for the wire all the time is hardly
 * faster at the fast end, and five times slower at the slow one. */
TEST_IN(begin, end, a_label_is_one_sided) {
    scene s = ask("2", "1Mbit,1ms", "20G",
                  (weft_advise_options){.computing = WEFT_KNOWN_MEASURED});
    int64_t i = find(s.advice, "full sync", 2);
    const weft_outlook *o = &s.advice->outlooks[i];
    double speedup = s.advice->candidates[i].speedup;
    assert_true(o->high < 1.06 * speedup);
    assert_true(o->low < speedup / 4.5 && o->low > speedup / 5.5);
    drop(&s);
}

/* What was measured itself is known better than what follows from it. */
TEST_IN(begin, end, a_measured_run_is_known) {
    weft_measurement m = {.struct_size = sizeof m};
    assert_ok(ctx, weft_measurement_parse(ctx, "2 nodes, ddp: 1 s", &m));
    weft_advise_options o = {.computing = WEFT_KNOWN_MEASURED,
                             .wire = WEFT_KNOWN_MEASURED,
                             .frameworks = "ddp",
                             .same_only = true};
    double wide[2][2];
    for (int with = 0; with < 2; with++) {
        o.measured = with ? &m : NULL, o.n_measured = with;
        scene s = ask("4", "100Mbit,50us", "20G", o);
        for (int k = 0; k < 2; k++) {
            const weft_outlook *out = &s.advice->outlooks[find(s.advice, "ddp", 2 << k)];
            wide[with][k] = log(out->alone_high / out->alone_low);
        }
        drop(&s);
    }
    assert_true(wide[1][0] < wide[1][1] && wide[1][1] < wide[0][1]);
    assert_true(wide[1][0] < wide[0][0] - 0.1);
}

/* Steps that contradict each other leave something of each: its range has the step in it, and the
 * range on other numbers of nodes as much. */
TEST_IN(begin, end, a_measured_step_is_in_its_range) {
    for (int longer = 0; longer < 2; longer++) {
        weft_measurement m = {.struct_size = sizeof m};
        assert_ok(ctx, weft_measurement_parse(ctx, "2 nodes, ddp: 1 s", &m));
        m.predicted_s = longer ? 0.75 : 1.4;
        scene s = ask("4", "100Mbit,50us", "20G",
                      (weft_advise_options){.computing = WEFT_KNOWN_MEASURED,
                                            .wire = WEFT_KNOWN_MEASURED,
                                            .measured = &m,
                                            .n_measured = 1,
                                            .frameworks = "ddp",
                                            .same_only = true});
        for (const char *nodes = "24"; *nodes; nodes++) {
            const weft_outlook *o =
                &s.advice->outlooks[find(s.advice, "ddp", *nodes - '0')];
            double real = o->alone * m.predicted_s / m.seconds;
            assert_true(o->alone_low <= real && real <= o->alone_high);
        }
        drop(&s);
    }
}

/* DDP hides all that fits, or nothing: a wire that carries what it should tells that by the
 * slow end, a TCP label's fifth has it in it, and a step of DDP on two nodes says which. */
TEST_IN(begin, end, nothing_may_hide_at_the_slow_end) {
    weft_measurement m = {.struct_size = sizeof m};
    double ratio[4];
    assert_ok(ctx, weft_measurement_parse(ctx, "2 nodes, ddp: 1 s", &m));
    for (int i = 0; i < 4; i++) {
        scene s = ask_of(
            4e7, "2", i == 1 ? "1Gbit,50us" : "1Gbit,5us", "20G",
            (weft_advise_options){.same_only = true,
                                  .computing = WEFT_KNOWN_MEASURED,
                                  .wire = i == 2 ? WEFT_KNOWN_MEASURED : WEFT_KNOWN_TYPED,
                                  .measured = i == 3 ? &m : NULL,
                                  .n_measured = i == 3,
                                  .frameworks = "ddp ddp-after"});
        int64_t hidden = find(s.advice, "ddp", 2), after = find(s.advice, "ddp-after", 2);
        assert_true(s.advice->candidates[hidden].prediction.hidden_share > 0.2);
        ratio[i] = s.advice->outlooks[hidden].alone_low /
                   s.advice->outlooks[after].alone_low;
        drop(&s);
    }
    assert_true(fabs(ratio[0] - 1) < 1e-9 && fabs(ratio[2] - 1) < 1e-9);
    assert_true(ratio[1] > 1.01 && ratio[3] > 1.01);
}

/* A latency below 10 us makes a wire RDMA, which is surer, so it promises no less. */
TEST_IN(begin, end, no_tcp_is_surer_than_rdma) {
    static const char *const links[] = {"1Gbit,10.1us", "1Gbit,9.9us"};
    double low[2];
    for (int i = 0; i < 2; i++) {
        scene s = ask_of(4e7, "2", links[i], "1G",
                         (weft_advise_options){.same_only = true,
                                               .computing = WEFT_KNOWN_MEASURED,
                                               .frameworks = "ddp"});
        low[i] = s.advice->outlooks[find(s.advice, "ddp", 2)].alone_low;
        drop(&s);
    }
    assert_true(low[0] > 1 && low[0] <= low[1] && low[1] < 2);
}
