/* SPDX-License-Identifier: MIT */
/* Gossip with a deadline. Who is late is arranged with barriers, so nothing depends on
 * how fast anybody is. */
#include "gossipers.h"
#include "mix/gossip_rounds.h"
#include "reference/reference.h"

static wefti_mixer_config knobs(bool combine_last, double deadline_s) {
    return (wefti_mixer_config){.kind = "gossip",
                                .seed = 5,
                                .steps = STEPS,
                                .combine_last = combine_last,
                                .gamma = 1,
                                .deadline_s = deadline_s};
}

/* Groups then take their means in one round: that changes no bit either. */
TEST(a_deadline_that_nobody_misses_changes_no_bit) {
    static float whole[MAX_R][STEPS + 1][N];
    static const char *const kinds[] = {"aer", "complete", "exponential"};
    for (int k = 0; k < 3; k++)
        for (int last = 0; last < 2; last++) {
            for (int run = 0; run < 2; run++) {
                set_out(5, 1, kinds[k], knobs(last, run == 0 ? 0 : 3600), false);
                go(5, 0, STEPS);
                for (int r = 0; r < 5 && run == 0; r++)
                    memcpy(whole[r], trials[r].x, sizeof whole[r]);
            }
            for (int r = 0; r < 5; r++) {
                assert_int_equal(trials[r].late, 0);
                assert_memory_equal(whole[r], trials[r].x, sizeof whole[r]);
            }
            bytes_are_as_predicted(5);
        }
}

static weft_status meet_all_at(rank_env *env, int64_t place) {
    return wefti_comm_barrier(env->control, 100 + place);
}

/* In the first step the last rank sends when the others have mixed; afterwards all send
 * before anybody mixes. */
static weft_status one_is_late(rank_env *env, wefti_mixer *m, weft_neighbours *room) {
    trial *t = env->user;
    (void)room;
    bool late = env->rank == m->comm->size - 1;
    float *x = t->x[STEPS];
    memcpy(x, t->x[0], sizeof t->x[0]);
    WEFT_TRY(prime(t, m, x));
    if (!late) WEFT_TRY(adapt(t, m, 0, x));
    WEFT_TRY(meet_all_at(env, 0));
    if (!late) WEFT_TRY(finish(m, 0, x));
    WEFT_TRY(meet_all_at(env, 1));
    if (late) WEFT_TRY(adapt(t, m, 0, x));
    if (late) WEFT_TRY(finish(m, 0, x));
    memcpy(t->x[1], x, sizeof t->x[1]);
    t->distance[0] = m->ops->distance(m);
    for (int64_t step = 1; step < 4; step++) {
        WEFT_TRY(meet_all_at(env, 2 * step));
        WEFT_TRY(adapt(t, m, step, x));
        WEFT_TRY(meet_all_at(env, 2 * step + 1));
        WEFT_TRY(finish(m, step, x));
        memcpy(t->x[step + 1], x, sizeof t->x[1]);
    }
    wefti_traffic traffic;
    wefti_comm_traffic(env->control, &traffic);
    t->bytes_out[0] = traffic.bytes_out[WEFTI_LINK_WIRE];
    t->bytes_out[1] = traffic.bytes_in[WEFTI_LINK_WIRE];
    keep(t, m);
    return meet_all_at(env, 8);
}

static weft_status meet_late(rank_env *env) { return with_mixer(env, NULL, one_is_late); }

static void run_with(int R, const char *kind, weft_status (*body)(rank_env *env)) {
    void *users[MAX_R];
    set_out(R, 1, kind, knobs(true, 1e-4), false);
    for (int r = 0; r < R; r++) users[r] = &trials[r];
    run_ranks(R, 1, (wefti_wire_model){0, 0}, body, users, NULL);
}

/* Mean over the first n of x[t] - u_t. */
static double mean_of_first(int n, int64_t t, int e) {
    double mean = 0;
    for (int r = 0; r < n; r++) {
        float u[N];
        draw(&trials[r], r, t, u);
        mean += ((double)trials[r].x[t][e] - (double)u[e]) / n;
    }
    return mean;
}

TEST(who_is_late_is_left_out_and_the_weights_of_the_others_are_one) {
    for (int R = 3; R <= 5; R++) {
        run_with(R, "complete", meet_late);
        for (int e = 0; e < N; e++)
            for (int r = 0; r < R; r++) {
                double expected = mean_of_first(r == R - 1 ? R : R - 1, 0, e);
                assert_true(fabs((double)trials[r].x[1][e] - expected) < 0x1p-20);
                for (int64_t t = 1; t < 4; t++)
                    assert_true(fabs((double)trials[r].x[t + 1][e] -
                                     mean_of_first(R, t, e)) < 0x1p-20);
            }
        for (int r = 0; r < R; r++)
            assert_int_equal(trials[r].late, r == R - 1 ? 0 : N_BUCKETS);
    }
}

/* What came late was received in a later step. */
TEST(every_buffer_comes_back_to_its_sender) {
    int64_t out = 0, in = 0;
    run_with(4, "complete", meet_late);
    for (int r = 0; r < 4; r++) {
        out += trials[r].bytes_out[0];
        in += trials[r].bytes_out[1];
    }
    assert_true(out > 0 && in == out);
}

/* With the only partner late nothing is mixed and nothing is known. */
TEST(who_is_alone_stays_where_it_is) {
    run_with(2, "complete", meet_late);
    float u[N];
    draw(&trials[0], 0, 0, u);
    for (int e = 0; e < N; e++)
        assert_true(trials[0].x[1][e] == trials[0].x[0][e] - u[e]);
    assert_true(isnan(trials[0].distance[0]));
    assert_true(!isnan(trials[1].distance[0]));
}

/* The last rank begins when all others have come to their end. */
static weft_status one_begins_at_the_end(rank_env *env, wefti_mixer *m,
                                         weft_neighbours *room) {
    trial *t = env->user;
    (void)room;
    bool last = env->rank == m->comm->size - 1;
    float *x = t->x[STEPS];
    memcpy(x, t->x[0], sizeof t->x[0]);
    WEFT_TRY(prime(t, m, x));
    if (last) WEFT_TRY(meet_all_at(env, 0));
    for (int64_t step = 0; step < STEPS; step++) {
        WEFT_TRY(adapt(t, m, step, x));
        WEFT_TRY(finish(m, step, x));
    }
    if (!last) WEFT_TRY(meet_all_at(env, 0));
    keep(t, m);
    t->bytes_out[0] = sent(env);
    return meet_all_at(env, 1);
}

static weft_status meet_behind(rank_env *env) {
    return with_mixer(env, NULL, one_begins_at_the_end);
}

/* All that it could have told is late, and of what it is told there are as many messages
 * as there are buffers. */
TEST(nobody_waits_for_who_does_not_come) {
    static const char *const kinds[] = {"complete", "torus"};
    for (int k = 0; k < 2; k++) {
        run_with(2, kinds[k], meet_behind);
        assert_int_equal(trials[0].late, STEPS * N_BUCKETS);
        assert_int_equal(trials[1].late, (STEPS - 4) * N_BUCKETS);
        assert_int_equal(trials[0].bytes_out[0], 4 * (N * 4 + N_BUCKETS * 40));
        run_with(4, kinds[k], meet_behind);
        for (int r = 0; r < 4; r++)
            for (int e = 0; e < N; e++) assert_true(isfinite(trials[r].x[STEPS][e]));
    }
}

TEST(what_cannot_be_is_refused_in_a_sentence) {
    static const struct {
        const char *kind, *topology, *words;
        double bound, deadline_s;
    } cases[] = {
        {"gossip", "push", "right only if every message arrives", 0, 1},
        {"choco", "ring", "expected 0", 1, 0},
        {"choco", "ring", "expected 0", 0, 1},
    };
    weft_ctx *ctx;
    wefti_comm lonely = {.size = 4};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int i = 0; i < 3; i++) {
        weft_topology *topology;
        wefti_mixer *m;
        weft_topology_config wanted = {.struct_size = sizeof wanted,
                                       .kind = cases[i].topology,
                                       .nodes = 4,
                                       .ranks = 1};
        wefti_mixer_config c = {.kind = cases[i].kind,
                                .gamma = 1,
                                .partners = 2,
                                .consensus_bound = cases[i].bound,
                                .deadline_s = cases[i].deadline_s};
        assert_ok(ctx, weft_topology_create(ctx, &wanted, &topology));
        c.topology = c.everybody = topology;
        weft_status status = wefti_mixer_create(ctx, &c, &wefti_kernels_reference,
                                                &lonely, buckets, N_BUCKETS, &m);
        assert_fails(ctx, status, WEFT_ERR_CONFIG, cases[i].words);
        weft_topology_destroy(ctx, topology);
    }
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

/* Who alone has a weight is late: the others stay where they are. */
TEST(of_those_without_weight_each_keeps_its_own) {
    static const double last[MAX_R] = {0, 0, 1};
    void *users[MAX_R];
    set_out(3, 1, "complete", knobs(true, 1e-4), false);
    for (int r = 0; r < 3; r++) trials[r].weights = last, users[r] = &trials[r];
    run_ranks(3, 1, (wefti_wire_model){0, 0}, meet_late, users, NULL);
    for (int r = 0; r < 2; r++) {
        float u[N];
        draw(&trials[r], r, 0, u);
        for (int e = 0; e < N; e++)
            assert_true(trials[r].x[1][e] == trials[r].x[0][e] - u[e]);
    }
}

/* Whatever the weights: else a replica among equal ones would move. Each but the largest is the
 * nearest multiple of 2^-24; of the largest the rest, at most half a unit for each other one. */
TEST(rounded_weights_add_up_to_exactly_one) {
    const double unit = 0x1p-24;
    for (int n = 1; n <= 33; n++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            double weights[33], sum = 0, rounded_sum = 0;
            float drawn[33], rounded[33];
            int largest = 0;
            fill_normal(seed * 100 + (uint64_t)n, n, drawn);
            for (int i = 0; i < n; i++) sum += fabs((double)drawn[i]);
            for (int i = 0; i < n; i++) weights[i] = fabs((double)drawn[i]) / sum;
            for (int i = 0; i < n; i++)
                if (weights[i] > weights[largest]) largest = i;
            wefti_gossip_round(n, weights, rounded);
            for (int i = 0; i < n; i++) {
                double off = fabs((double)rounded[i] - weights[i]);
                assert_true(off <= unit / 2 * (i == largest ? n : 1));
                rounded_sum += (double)rounded[i];
            }
            assert_true(rounded_sum == 1); /* exact: sums of multiples of 2^-24 below 2 */
        }
}
