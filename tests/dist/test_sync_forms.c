/* SPDX-License-Identifier: MIT */
/* What crosses the wire changes while a program's own loop goes on: in all processes before the
 * same step, around the same tensors, and nothing of a gradient is lost. */
#include "loops.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "loop/sync.h"

enum { STEPS = 12, CODED = 2, COARSE = 5, BACK = 8 };

static weft_status ask(loop *l, weft_sync *s, int rank, int64_t t) {
    (void)l;
    const char *form = t == CODED    ? "full int8"
                       : t == COARSE ? "full int4"
                       : t == BACK   ? "full f32"
                                     : NULL;
    return form && rank == 0 ? weft_sync_ask_form(s, form) : WEFT_OK;
}

/* The form of each step is the one that was asked for in the step before. */
static weft_status ask_and_look(loop *l, weft_sync *s, int rank, int64_t t) {
    static const char *const names[] = {"full sync", "full sync int8", "full sync int4",
                                        "full sync"};
    char form[64];
    int at = (t > CODED + 1) + (t > COARSE + 1) + (t > BACK + 1);
    assert_string_equal(weft_sync_form(s, form, sizeof form), names[at]);
    return ask(l, s, rank, t);
}

TEST(nothing_is_lost_and_all_change_before_one_step) {
    loop a[RANKS], b[RANKS];
    for (int way = 0; way < 4; way++) {
        loop l = {.keys = plain,
                  .steps = STEPS,
                  .skip_at = -1,
                  .rates = {0.05, 0.05},
                  .flat = true,
                  .outside = way & 1,
                  .own_memory = way & 2,
                  .early = way & 2};
        run_loop(3, &l, a);
        l.hooks.between = ask_and_look;
        run_loop(3, &l, b);
        assert_fine(3, a);
        assert_fine(3, b);
        for (int r = 1; r < 3; r++)
            assert_memory_equal(b[r].params, b[0].params, sizeof b[0].params);
        double most = 0;
        for (int k = 0; k < MOST; k++)
            most = fmax(most, fabs((double)a[0].params[k] - (double)b[0].params[k]));
        assert_true(most < 1e-5);
    }
}

/* -- outer steps -- */

enum { EVERY = 4, LEAVES = 7, AGAIN = 11, LONG = 16, MOMENTS = 3 };
static const char *const apart[] = {"method=diloco",
                                    "optimizer.kind=sgd",
                                    "optimizer.weight_decay=0",
                                    "optimizer.clip=0",
                                    "mixer.outer_every=4",
                                    "mixer.outer_lr=1",
                                    "mixer.outer_momentum=0",
                                    NULL};

/* Left right after one, for averages in each step; then begun again. */
static weft_status leave_and_return(loop *l, weft_sync *s, int rank, int64_t t) {
    char form[64];
    bool alike = t > LEAVES + 1 && t <= AGAIN + 1;
    assert_string_equal(weft_sync_form(s, form, sizeof form),
                        alike ? "full sync" : "diloco H=4");
    for (int k = 0; t == 0 && k < MOMENTS; k++)
        l->moments[k] = (float)(8 * k + (1 << rank));
    l->n_moments = MOMENTS;
    for (int k = 0; t == LEAVES + 2 && l->meets && k < MOMENTS; k++)
        assert_true(fabsf(l->moments[k] - (float)(8 * k) - 7.0f / 3) < 1e-5f);
    if (rank != 0) return WEFT_OK;
    if (t == LEAVES - 1)
        assert_fails(l->ctx, weft_sync_ask_form(s, "full f32"), WEFT_ERR_ARGUMENT,
                     "outer steps are left right after one");
    if (t == LEAVES) return weft_sync_ask_form(s, "full f32");
    return t == AGAIN ? weft_sync_ask_form(s, "outer f32 4 0") : WEFT_OK;
}

TEST(outer_steps_are_left_and_begun_and_nothing_is_lost) {
    loop a[RANKS], b[RANKS];
    for (int way = 0; way < 4; way++) {
        loop l = {.keys = plain,
                  .steps = LONG,
                  .skip_at = -1,
                  .rates = {0.05, 0.05},
                  .flat = true,
                  .outside = way & 1,
                  .meets = way & 1,
                  .own_memory = way & 2,
                  .early = way & 2};
        run_loop(3, &l, a);
        l.keys = apart;
        l.hooks.between = leave_and_return;
        run_loop(3, &l, b);
        assert_fine(3, a);
        assert_fine(3, b);
        double most = 0;
        for (int r = 0; r < 3; r++)
            for (int k = 0; k < MOST; k++)
                most = fmax(most, fabs((double)a[0].params[k] - (double)b[r].params[k]));
        assert_true(most < 1e-5);
    }
}

static wefti_comm_ops watched_ops[RANKS];
static atomic_int n_mixed; /* messages of a mixer among those of replicas */

static weft_status send_watched(wefti_comm *comm, int peer, int64_t tag, const void *data,
                                int64_t n_bytes) {
    n_mixed += tag % 16 >= WEFTI_MIXER_STAGE;
    return watched_ops[0].send(comm, peer, tag, data, n_bytes);
}

static weft_status watch_and_leave(loop *l, weft_sync *s, int rank, int64_t t) {
    static wefti_comm_ops ops[RANKS];
    wefti_comm *replica = s->rank->comms.replica;
    if (t == 0) {
        watched_ops[rank] = ops[rank] = *replica->ops;
        ops[rank].send = send_watched;
        replica->ops = &ops[rank];
    }
    return leave_and_return(l, s, rank, t);
}

/* If a rank is lost in the step that follows, which of its messages somebody has is told by step,
 * bucket and round alone. */
TEST(the_mean_of_moments_is_not_among_the_messages_of_the_step) {
    loop a[RANKS];
    loop l = {.keys = apart,
              .steps = LONG,
              .skip_at = -1,
              .rates = {0.05, 0.05},
              .outside = true,
              .meets = true,
              .hooks = {.between = watch_and_leave}};
    n_mixed = 0;
    run_loop(3, &l, a);
    assert_fine(3, a);
    assert_int_equal(n_mixed, 0);
}

static const weft_sync_limits any = {.struct_size = sizeof any, .loss = 10};

static weft_status plans(loop *l, weft_sync *s) {
    const char *why;
    WEFT_TRY(weft_sync_replan(s, &any, &why));
    assert_null(why);
    return WEFT_OK;
}

/* Where one optimizer has other states than the others they have no mean: all stay as they are, and
 * the first one asks no more, however slow the wire becomes. */
static weft_status differ(loop *l, weft_sync *s, int rank, int64_t t) {
    char form[64];
    l->n_moments = rank == 1 ? MOMENTS - 1 : MOMENTS;
    assert_string_equal(weft_sync_form(s, form, sizeof form), "diloco H=4");
    if (t == LEAVES && rank == 0) WEFT_TRY(weft_sync_ask_form(s, "full f32"));
    for (int i = 1; t == LEAVES + 2 && i <= 10 * EVERY; i++) {
        s->step = LONG + i;
        wefti_sync_note_step(s, 0.1, i % EVERY == 0 ? 9 : 0, 0);
    }
    if (t == LEAVES + 2) assert_int_equal(s->rank->says.form, 0);
    s->step = t;
    return WEFT_OK;
}

TEST(states_that_differ_leave_all_as_it_is) {
    loop a[RANKS];
    loop l = {.keys = apart,
              .steps = LONG,
              .skip_at = -1,
              .rates = {0.05, 0.05},
              .outside = true,
              .meets = true,
              .hooks = {.prepare = plans, .between = differ}};
    run_loop(3, &l, a);
    assert_fine(3, a);
}

/* -- the plan -- */

static const char cluster[] = "nodes: 3\nranks_per_node: 1\nrank_flops: 1e9\n"
                              "wire: {bandwidth: 10Gbit, latency: 20us}\n";

static weft_status may_change(loop *l, weft_sync *s) {
    const char *why;
    bool first = l->number == 0;
    const weft_sync_limits limits = {.struct_size = sizeof limits,
                                     .cluster_path = first ? "room/cluster.yaml" : NULL,
                                     .loss = 10,
                                     .steps = 20};
    WEFT_TRY(weft_sync_replan(s, &limits, &why));
    assert_null(why);
    return WEFT_OK;
}

/* The wire falls: steps that were 0.1 s of computing are told to take 20 times as long. */
static weft_status tell(loop *l, weft_sync *s, int rank, int64_t t) {
    const char *change = weft_sync_form_change(s, NULL);
    char form[64];
    if (t == 0)
        for (int i = 0; i < 40; i++) wefti_sync_note_step(s, 0.1, i < 16 ? 1e-4 : 2, 0);
    if (t == 0) assert_int_equal(s->rank->says.form > 0, rank == 0);
    if (t != 2) return WEFT_OK;
    assert_non_null(change);
    assert_non_null(strstr(change, "from step 2 on full sync int"));
    if (rank == 0) assert_non_null(strstr(change, " instead of full sync: a step takes"));
    weft_sync_form(s, form, sizeof form);
    assert_int_equal(strncmp(form, "full sync int", 13), 0);
    return WEFT_OK;
}

TEST(a_slow_wire_gets_codes_and_says_why) {
    loop a[RANKS];
    weft_ctx *ctx;
    loop l = {.keys = plain,
              .steps = 3,
              .skip_at = -1,
              .rates = {0.05, 0.05},
              .hooks = {.prepare = may_change, .between = tell}};
    assert_int_equal(room_begin(&ctx), 0);
    assert_ok(ctx, wefti_file_write(ctx, "room/cluster.yaml", cluster, strlen(cluster)));
    run_loop(3, &l, a);
    assert_fine(3, a);
    assert_int_equal(ctx_end(ctx), 0);
}

static double may_wait_s;
static int64_t ago;       /* steps since the parameters came */
static double compiles_s; /* in the first step */

static weft_status waits(loop *l, weft_sync *s) {
    const char *why;
    const weft_sync_limits limits = {
        .struct_size = sizeof limits, .loss = 10, .measure_s = may_wait_s};
    (void)l;
    WEFT_TRY(weft_sync_replan(s, &limits, &why));
    assert_null(why);
    return WEFT_OK;
}

/* As if the parameters had been on their way for a minute. */
static weft_status look_early(loop *l, weft_sync *s, int rank, int64_t t) {
    char form[64];
    (void)l, (void)rank;
    s->step -= ago;
    if (t == 0) WEFT_TRY(wefti_sync_note_spread(s, wefti_now_s() - 60));
    s->step += ago;
    if (t == 0) s->ended_s -= compiles_s;
    bool changed = strcmp(weft_sync_form(s, form, sizeof form), "full sync") != 0;
    bool early = may_wait_s < 1e4 && ago < 4;
    assert_int_equal(changed, early && t > 1); /* step t + 1 is not open yet */
    return WEFT_OK;
}

TEST(one_exchange_of_everything_is_enough_where_four_take_too_long) {
    static const struct {
        double may_wait_s;
        int64_t ago;
        double compiles_s;
    } cases[] = {{10, 0, 0}, {10, 3, 0}, {10, 4, 0}, {1e4, 0, 0}, {10, 0, 500}};
    loop a[RANKS];
    for (int i = 0; i < 5; i++) {
        loop l = {.keys = plain,
                  .steps = 4,
                  .skip_at = -1,
                  .rates = {0.05, 0.05},
                  .hooks = {.prepare = waits, .between = look_early}};
        may_wait_s = cases[i].may_wait_s;
        ago = cases[i].ago;
        compiles_s = cases[i].compiles_s;
        run_loop(3, &l, a);
        assert_fine(3, a);
    }
}

static wefti_comm_ops slow_ops;
static weft_status (*send)(wefti_comm *comm, int peer, int64_t tag, const void *data,
                           int64_t n_bytes);

static weft_status send_slowly(wefti_comm *comm, int peer, int64_t tag, const void *data,
                               int64_t n_bytes) {
    if (n_bytes > 64) wefti_sleep_until_s(wefti_now_s() + 0.5);
    return send(comm, peer, tag, data, n_bytes);
}

static weft_status hears_alone(loop *l, weft_sync *s, int rank, int64_t t) {
    const char *why = weft_sync_alone(s);
    (void)l, (void)rank;
    if (t == 0) WEFT_TRY(wefti_sync_note_spread(s, wefti_now_s() - 60));
    if (t == 0) s->ended_s -= compiles_s;
    bool told = why && strstr(why, "one process alone is expected to be ") &&
                strstr(why, " times as fast as all 3 with ");
    assert_int_equal(why != NULL, t == (compiles_s > 0 ? 2 : 1));
    assert_true(!why || told);
    return WEFT_OK;
}

/* After a first step that may compile by what the second one computes. */
TEST(all_say_once_that_one_alone_is_faster) {
    loop a[RANKS];
    for (int i = 0; i < 2; i++) {
        loop l = {.keys = plain,
                  .steps = 6,
                  .skip_at = -1,
                  .rates = {0.05, 0.05},
                  .hooks = {.prepare = waits, .between = hears_alone}};
        may_wait_s = 10;
        compiles_s = i == 0 ? 0 : 500;
        run_loop(3, &l, a);
        assert_fine(3, a);
    }
}

/* The way out of rank 1 is slow: it has little to send until the first step. */
static weft_status waits_for_one(loop *l, weft_sync *s) {
    if (l->number == 1) {
        wefti_comm *all = s->rank->comms.control;
        slow_ops = *all->ops;
        send = slow_ops.send;
        slow_ops.send = send_slowly;
        all->ops = &slow_ops;
    }
    return waits(l, s);
}

static weft_status is_early(loop *l, weft_sync *s, int rank, int64_t t) {
    char form[64];
    (void)l, (void)rank;
    bool changed = strcmp(weft_sync_form(s, form, sizeof form), "full sync") != 0;
    assert_int_equal(changed, t > 1); /* step t + 1 is not open yet */
    return WEFT_OK;
}

TEST(the_slowest_way_out_is_known_before_the_first_step) {
    loop a[RANKS];
    loop l = {.keys = plain,
              .steps = 4,
              .skip_at = -1,
              .rates = {0.05, 0.05},
              .hooks = {.prepare = waits_for_one, .between = is_early}};
    may_wait_s = 0.5;
    run_loop(3, &l, a);
    assert_fine(3, a);
}

/* -- refused -- */

static const char *expected;

static weft_status stays(loop *l, weft_sync *s) {
    const char *why;
    WEFT_TRY(weft_sync_replan(s, &any, &why));
    assert_non_null(why);
    assert_non_null(strstr(why, expected));
    return WEFT_OK;
}

static weft_status first_alone(loop *l, weft_sync *s) {
    return l->number == 0 ? plans(l, s) : WEFT_OK;
}

TEST(all_may_change_or_none) {
    loop a[RANKS];
    loop l = {.keys = plain,
              .steps = 2,
              .skip_at = -1,
              .rates = {0.05, 0.05},
              .hooks = {.prepare = first_alone}};
    run_loop(2, &l, a);
    for (int r = 0; r < 2; r++)
        if (a[r].status == WEFT_OK ||
            !strstr(a[r].text, "weft_sync_replan is 1 on rank 0 and 0 on rank 1"))
            fail_msg("rank %d: %s", r, a[r].text);
}

static weft_status ask_wrongly(loop *l, weft_sync *s, int rank, int64_t t) {
    if (t > 0) return WEFT_OK;
    assert_fails(l->ctx, weft_sync_ask_form(s, "full f64"), WEFT_ERR_ARGUMENT,
                 "the form 'full f64' is asked for, but it is none of");
    assert_fails(l->ctx, weft_sync_ask_form(s, "outer f32 50 0.4"), WEFT_ERR_ARGUMENT,
                 "have no mean, to leave it by");
    assert_fails(l->ctx, weft_sync_ask_form(s, rank == 0 ? "full f32" : "full int8"),
                 WEFT_ERR_ARGUMENT,
                 rank == 0 ? "nothing would change" : "the first process asks, for all");
    return WEFT_OK;
}

TEST(what_does_not_change_is_said) {
    static const char *const gossip[] = {"method=dadam", "mixer.topology=ring", NULL};
    static const struct {
        const char *const *keys, *why;
        bool skips;
        bool outside;
    } cases[] = {{apart, "states of the program's optimizer have no mean", false, true},
                 {gossip, "only averaging all gradients and outer steps", false, false},
                 {plain, "steps may be skipped", true, false}};
    loop a[RANKS];
    for (int i = 0; i < 3; i++) {
        loop l = {.keys = cases[i].keys,
                  .steps = 2,
                  .skip_at = -1,
                  .rates = {0.05, 0.05},
                  .skips = cases[i].skips,
                  .outside = cases[i].outside,
                  .hooks = {.prepare = stays}};
        expected = cases[i].why;
        run_loop(2, &l, a);
        assert_fine(2, a);
    }
    loop l = {.keys = plain,
              .steps = 2,
              .skip_at = -1,
              .rates = {0.05, 0.05},
              .outside = true,
              .hooks = {.between = ask_wrongly}};
    run_loop(2, &l, a);
    assert_fine(2, a);
}
