/* SPDX-License-Identifier: MIT */
/* In how many steps a learner gets its state, and what the others do without it meanwhile. What
 * travels is looked at on real runs (cli/learners). */
#include "rank/learners.h"

#include <math.h>

#include <xxhash.h>

#include "check.h"

static const double rate_Bps = 12.5e6, step_s = 0.5; /* 100 Mbit/s */

/* n bytes take n / rate, of which a slice may take a quarter of a step. */
TEST(a_slice_takes_a_quarter_of_a_step) {
    for (int64_t n = 4000000; n < 5000000000; n += n / 3) {
        int64_t slices = wefti_learners_slices(n, rate_Bps, step_s);
        double slice_s = (double)n / rate_Bps / (double)slices;
        assert_in_range(slices, 2, 4096);
        if (slices < 4096 && slice_s > 0.25 * step_s)
            fail_msg("%lld bytes: a slice takes %g s", (long long)n, slice_s);
        if (slices > 2 && slice_s * (double)slices / (double)(slices - 1) < 0.25 * step_s)
            fail_msg("%lld bytes: %lld slices are too many", (long long)n,
                     (long long)slices);
    }
}

/* A tenth of a second of waiting is cheaper than many steps with a learner. */
TEST(what_is_little_comes_at_once) {
    int64_t tenth = (int64_t)(0.1 * rate_Bps);
    assert_int_equal(wefti_learners_slices(0, rate_Bps, step_s), 0);
    assert_int_equal(wefti_learners_slices(tenth, rate_Bps, 1e-3), 0);
    assert_in_range(wefti_learners_slices(tenth + 2, rate_Bps, 1e-3), 2, 4096);
    assert_int_equal(wefti_learners_slices(2 * tenth, rate_Bps, 60), 0); /* one slice */
}

/* Nobody knows how fast the links are, or how long a step takes: all wait. */
TEST(what_is_not_known_is_not_guessed) {
    assert_int_equal(wefti_learners_slices(1 << 30, 0, step_s), 0);
    assert_int_equal(wefti_learners_slices(1 << 30, rate_Bps, 0), 0);
    assert_int_equal(wefti_learners_slices(1 << 30, (double)NAN, step_s), 0);
    assert_int_equal(wefti_learners_slices(1 << 30, rate_Bps, (double)NAN), 0);
    assert_int_equal(wefti_learners_slices(INT64_MAX, 1, 1e-9), 4096);
}

/* Of 5 copies of 2 ranks the last 2 are learners: what all come together for is done by the others,
 * whose messages are numbered as if the learners had not counted differently. */
TEST(learners_stand_by_while_the_others_come_together) {
    wefti_comm control = {.size = 10}, replica = {.size = 5}, sites = {.size = 5};
    wefti_job job = {.R = 5, .S = 2};
    wefti_rank r = {.job = &job,
                    .comms = {.control = &control, .replica = &replica, .sites = &sites},
                    .learners = {.n = 2, .open = true},
                    .onward = {.n_control_messages = 7}};
    assert_int_equal(wefti_rank_replicas(&r), 3);
    wefti_learners_set_aside(&r, 40, true);
    int64_t members = r.onward.n_control_messages;
    assert_int_equal(control.size, 6);
    assert_int_equal(replica.size, 3);
    assert_int_equal(sites.size, 3);
    r.onward.n_control_messages += 100; /* a learner would have counted none */
    wefti_learners_set_aside(&r, 40, false);
    assert_int_equal(control.size, 10);
    assert_int_equal(replica.size, 5);
    assert_int_equal(sites.size, 5);
    assert_true(r.onward.n_control_messages > members + 100);
    assert_int_equal(r.onward.n_control_messages, r.onward.n_replica_messages);
    int64_t after = r.onward.n_control_messages;
    wefti_learners_set_aside(&r, 41, true);
    assert_true(r.onward.n_control_messages > after);
    wefti_learners_set_aside(&r, 41, false);
}

TEST(without_learners_all_come_together) {
    wefti_comm control = {.size = 10}, replica = {.size = 5}, sites = {.size = 5};
    wefti_job job = {.R = 5, .S = 2};
    wefti_rank r = {.job = &job,
                    .comms = {.control = &control, .replica = &replica, .sites = &sites},
                    .learners = {.n = 2, .open = false}, /* they take part by now */
                    .onward = {.n_control_messages = 7}};
    wefti_learners_set_aside(&r, 40, true);
    assert_int_equal(wefti_rank_replicas(&r), 5);
    assert_int_equal(control.size, 10);
    assert_int_equal(r.onward.n_control_messages, 7);
}

/* ---- what the others say that they have ---- */

typedef struct saying {
    wefti_comm comm; /* first */
    uint64_t sums[8];
} saying;

static weft_status say_nothing(wefti_comm *comm, int peer, int64_t tag, const void *data,
                               int64_t n_bytes) {
    return WEFT_OK;
}

static weft_status hear_sum(wefti_comm *comm, int peer, int64_t tag, int64_t n_bytes,
                            const void **view) {
    *view = &((saying *)comm)->sums[peer];
    return WEFT_OK;
}

static void let_go(wefti_comm *comm, int peer, int64_t tag) {}
static weft_status await_nothing(wefti_comm *comm, int64_t tag) { return WEFT_OK; }

/* Of 3 members and a learner, one copy of the model in two shards; this is rank `me`. A member may
 * give a wrong state, or say another sum than that of what it gave. */
TEST(the_sum_of_most_members_is_believed) {
    enum { GOOD, LIE, OWN };
    static const struct {
        const char *what;
        int me, said[3]; /* by the members */
        bool passes;
    } cases[] = {
        {"all are right", 6, {OWN, OWN, OWN}, true},
        {"the first lies about what it has", 6, {LIE, OWN, OWN}, true},
        {"the last does", 6, {OWN, OWN, LIE}, true},
        {"the first has given a wrong state", 6, {OWN, GOOD, GOOD}, false},
        {"the last has", 6, {GOOD, GOOD, OWN}, false},
        {"nobody has what came", 6, {GOOD, GOOD, GOOD}, false},
        {"a member, beside a liar", 2, {LIE, OWN, OWN}, true},
        {"a member that has another state", 2, {GOOD, OWN, GOOD}, false},
    };
    static const wefti_comm_ops ops = {.name = "sums",
                                       .send = say_nothing,
                                       .receive = hear_sum,
                                       .release = let_go,
                                       .await = await_nothing};
    weft_ctx *ctx;
    float params[3] = {1, 2, 3};
    uint64_t own = XXH3_64bits(params, sizeof params);
    assert_int_equal(ctx_begin(&ctx), 0);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        saying said = {{.ops = &ops, .ctx = ctx, .rank = cases[k].me, .size = 8}, {0}};
        for (int i = 0; i < 3; i++) /* those of the other shard are others */
            said.sums[2 * i] = own + (uint64_t)(cases[k].said[i] == GOOD) +
                               2 * (uint64_t)(cases[k].said[i] == LIE);
        wefti_job job = {.R = 4, .S = 2, .replicas_equal = true};
        wefti_arrangement arrangement = {.n_elements = 3};
        wefti_rank r = {.ctx = ctx,
                        .job = &job,
                        .rank = cases[k].me,
                        .params = params,
                        .arrangement = &arrangement,
                        .comms = {.control = &said.comm},
                        .learners = {.n = 1, .open = true, .until = 5}};
        bool ends;
        weft_status status = wefti_learners_end(&r, 5, &ends);
        assert_true(ends);
        if (status != (cases[k].passes ? WEFT_OK : WEFT_ERR_NUMERIC))
            fail_msg("%s: %s", cases[k].what, weft_ctx_message(ctx));
        weft_ctx_clear(ctx);
    }
    assert_int_equal(ctx_end(ctx), 0);
}
