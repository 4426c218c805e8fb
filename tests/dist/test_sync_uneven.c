/* SPDX-License-Identifier: MIT */
/* A program's own loop whose rows differ by process and step (weft_sync_weigh). */
#include "loops.h"

static const char *const all_meet[] = {"method=dadam", "mixer.topology=complete", NULL};
static const char *const late[] = {"method=dadam", "mixer.topology=complete",
                                   "mixer.order=atc", "optimizer.clip=0", NULL};
static const char *const stream[] = {"method=diloco", "mixer.outer_every=4",
                                     "mixer.fragments=2", NULL};
static const char *const delayed[] = {"method=streaming-diloco", "mixer.outer_every=4",
                                      "mixer.fragments=2", "mixer.delay=2", NULL};
static const char *const *const weighing[] = {demo,     diloco, ddp,    drawn,  ring,
                                              all_meet, late,   stream, delayed};

/* Equal rows have the bits of a loop that does not weigh; others have theirs again after a stop,
 * also between two outer steps. */
TEST(test_uneven) {
    loop a[RANKS], b[RANKS];
    for (size_t m = 0; m < sizeof weighing / sizeof weighing[0]; m++) {
        loop l = {.keys = weighing[m], .steps = 8, .skip_at = -1, .rates = {0.05, 0.02}};
        run_loop(3, &l, a);
        l.uneven = 1;
        run_loop(3, &l, b);
        assert_same(3, a, b);
        l.uneven = 2;
        run_loop(3, &l, a);
        assert_fine(3, a);
        assert_true(memcmp(a[0].params, b[0].params, sizeof a[0].params) != 0);
        l.stop_after = 4;
        run_loop(3, &l, b);
        assert_same(3, a, b);
    }
}

/* What has no place for weights, and rows that are not said before gradients. */
TEST(test_uneven_refused) {
    static const char *const votes[] = {"method=signsgd", NULL};
    static const char *const bound[] = {"method=dadam", "mixer.consensus_bound=0.1",
                                        NULL};
    static const char *const outer[] = {"method=noloco", NULL};
    static const char *const push[] = {"method=dadam", "mixer.topology=push", NULL};
    static const char *const later[] = {"method=async-demo", NULL};
    static const char *const robust[] = {"method=ddp", "mesh.robust=clip", NULL};
    static const struct {
        const char *const *keys;
        const char *words;
    } cases[] = {
        {choco, "with a mixer that keeps its partners"},
        {bound, "with mixer.consensus_bound"},
        {outer, "with outer steps among neighbours"},
        {push, "with mixer.topology push of 3 nodes, in which one hears another"},
        {votes, "with replicator.kind signsgd, which gives each node one vote"},
        {robust, "with mesh.robust"},
        {later, "replicator.delay is 1, expected 0 where a program has a model"},
        {ddp, "with setup.skips"},
        {ddp, "before weft_sync_weigh"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        loop a[RANKS],
            l = {.keys = cases[i].keys, .steps = 2, .skip_at = -1, .uneven = 3};
        l.skips = strstr(cases[i].words, "skips") != NULL;
        run_loop(3, &l, a);
        assert_int_not_equal(a[0].status, WEFT_OK);
        if (!strstr(a[0].text, cases[i].words)) fail_msg("%zu: %s", i, a[0].text);
    }
}

/* Rows are whole numbers, said once in a step; of none the loss and the gradient may be
 * anything. */
TEST(test_rows) {
    weft_sync_report report = {.struct_size = sizeof report};
    double weight;
    alone a = begin_alone(
        "method=ddp",
        &(weft_sync_setup){.struct_size = sizeof(weft_sync_setup), .uneven = true});
    assert_ok(a.ctx, weft_sync_begin(a.s));
    expect(&a, weft_sync_weigh(a.s, 1, 1.5, &weight), "a step has 1.5 rows");
    expect(&a, weft_sync_weigh(a.s, 1, -1, &weight), "a step has -1 rows");
    expect(&a, weft_sync_weigh(a.s, 1, NAN, &weight), "rows, expected a whole number");
    expect(&a, weft_sync_ready(a.s, 0), "before weft_sync_weigh");
    for (int i = 0; i < TENSORS; i++) weft_sync_gradients(a.s, i)[0] = NAN;
    assert_ok(a.ctx, weft_sync_weigh(a.s, NAN, 0, &weight));
    expect(&a, weft_sync_weigh(a.s, 1, 1, &weight), "for the second time in step 1");
    assert_ok(a.ctx, weft_sync_step(a.s, NAN, &report));
    assert_true(isnan(report.loss) && weft_sync_parameters(a.s, 1)[0] == 0);
    assert_ok(a.ctx, weft_sync_weigh(a.s, 3, 5, &weight));
    assert_ok(a.ctx, weft_sync_step(a.s, 0, &report));
    assert_true(report.loss == 3 && report.loss_step == 2 && weight == 1);
    end_alone(&a);
    a = begin_alone("method=ddp",
                    &(weft_sync_setup){.struct_size = sizeof(weft_sync_setup)});
    assert_ok(a.ctx, weft_sync_begin(a.s));
    expect(&a, weft_sync_weigh(a.s, 1, 1, &weight), "without weft_sync_setup.uneven");
    end_alone(&a);
}
