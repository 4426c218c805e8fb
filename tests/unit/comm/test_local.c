/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/worker.h"
#include "ranks.h"

static const wefti_wire_model no_wire = {0, 0};

static weft_status gather_and_sum(rank_env *env) {
    int W = env->control->size, mine[2] = {env->rank, 100 + env->rank},
        all[MOST_RANKS][2];
    for (int round = 0; round < 20; round++) {
        WEFT_TRY(wefti_comm_all_gather(env->control, round, mine, sizeof mine, all));
        for (int r = 0; r < W; r++)
            if (all[r][0] != r || all[r][1] != 100 + r) return WEFT_ERR_INTERNAL;
        double values[2] = {1, env->rank};
        WEFT_TRY(wefti_comm_sum(env->control, 1000 + round, 2, values));
        if (values[0] != W || values[1] != W * (W - 1) / 2) return WEFT_ERR_INTERNAL;
        WEFT_TRY(wefti_comm_barrier(env->control, 2000 + round));
    }
    return WEFT_OK;
}

TEST(collectives_agree_on_every_mesh) {
    static const int meshes[][2] = {{1, 1}, {1, 2}, {2, 1}, {2, 2},  {3, 1},
                                    {1, 4}, {7, 1}, {4, 2}, {65, 1}, {65, 2}};
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++)
        run_ranks(meshes[i][0], meshes[i][1], no_wire, gather_and_sum, NULL, NULL);
}

static weft_status check_groups(rank_env *env) {
    int members[8], S = env->shard->size, node = env->rank / S, local = env->rank % S;
    WEFT_TRY(wefti_comm_all_gather(env->shard, 0, &env->rank, sizeof(int), members));
    for (int s = 0; s < S; s++)
        if (members[s] != node * S + s) return WEFT_ERR_INTERNAL;
    WEFT_TRY(wefti_comm_all_gather(env->replica, 0, &env->rank, sizeof(int), members));
    for (int n = 0; n < env->replica->size; n++)
        if (members[n] != n * S + local) return WEFT_ERR_INTERNAL;
    return WEFT_OK;
}

TEST(groups_are_rows_and_columns_of_the_mesh) {
    run_ranks(3, 2, no_wire, check_groups, NULL, NULL);
}

/* Between sites of 3, 1 and 2 copies, each of two ranks: each rank of another site hears one rank
 * of this one, of its own shard; with k of them lost the next. */
TEST(each_rank_hears_one_rank_of_each_other_site) {
    static const int first[] = {0, 3, 4, 6};
    const wefti_world_shape shape = {.replicas = 6,
                                     .shards = 2,
                                     .replicas_per_node = 1,
                                     .sites = 3,
                                     .site_first = first};
    for (int rank = 0; rank < 12; rank++) {
        wefti_members m = wefti_world_members(&shape, rank, WEFTI_GROUP_SITES);
        wefti_members near = wefti_world_members(&shape, rank, WEFTI_GROUP_REPLICA);
        int mine = wefti_world_site_of(&shape, rank), place = rank / 2 - first[mine];
        assert_int_equal(m.size, 3);
        assert_int_equal(m.rank, mine);
        assert_int_equal(wefti_members_at(&m, mine), rank);
        assert_int_equal(near.size, first[mine + 1] - first[mine]);
        assert_int_equal(near.rank, place);
        for (int site = 0; site < 3; site++) {
            int n = wefti_members_replicas(&m, site), seen = 0;
            assert_int_equal(wefti_members_at(&m, site),
                             (first[site] + place % n) * 2 + rank % 2);
            for (int k = 0; k < n; k++) {
                int r = wefti_members_speaker(&m, site, place, k);
                assert_int_equal(wefti_world_site_of(&shape, r), site);
                assert_int_equal(r % 2, rank % 2);
                seen |= 1 << (r / 2 - first[site]);
            }
            assert_int_equal(seen, (1 << n) - 1);
        }
    }
}

/* Where all sites have as many, each hears the one at its own place. */
TEST(alike_sites_meet_place_by_place) {
    const wefti_world_shape shape = {
        .replicas = 6, .shards = 2, .replicas_per_node = 1, .sites = 3};
    for (int rank = 0; rank < 12; rank++) {
        wefti_members m = wefti_world_members(&shape, rank, WEFTI_GROUP_SITES);
        for (int site = 0; site < 3; site++)
            assert_int_equal(wefti_members_at(&m, site), site * 4 + rank % 4);
    }
}

TEST(worlds_of_uneven_sites_are_checked) {
    static const int right[] = {0, 1, 3}, empty[] = {0, 0, 3}, short_by_one[] = {0, 1, 2};
    const struct {
        const int *first;
        weft_status status;
    } cases[] = {
        {right, WEFT_OK}, {empty, WEFT_ERR_ARGUMENT}, {short_by_one, WEFT_ERR_ARGUMENT}};
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_world *world = NULL;
        const wefti_world_shape shape = {.replicas = 3,
                                         .shards = 1,
                                         .replicas_per_node = 1,
                                         .sites = 2,
                                         .site_first = cases[i].first};
        assert_int_equal(wefti_local_create(ctx, &shape, &world), cases[i].status);
        wefti_world_destroy(ctx, world);
    }
    weft_ctx_destroy(ctx);
}

static weft_status count_bytes(rank_env *env) {
    char block[100] = {0}, all[600];
    wefti_traffic traffic;
    WEFT_TRY(wefti_comm_all_gather(env->control, 0, block, sizeof block, all));
    WEFT_TRY(wefti_comm_barrier(env->control, 1));
    wefti_comm_traffic(env->control, &traffic);
    bool right = traffic.bytes_out[WEFTI_LINK_LOCAL] == 100 &&
                 traffic.bytes_out[WEFTI_LINK_WIRE] == 400 &&
                 traffic.bytes_in[WEFTI_LINK_LOCAL] == 100 &&
                 traffic.bytes_in[WEFTI_LINK_WIRE] == 400;
    return right ? WEFT_OK : WEFT_ERR_INTERNAL;
}

TEST(bytes_are_counted_by_link_class) {
    run_ranks(3, 2, no_wire, count_bytes, NULL, NULL);
}

/* A sender that is ahead by one exchange: its second message must not be taken for the first. */
static weft_status send_twice(rank_env *env) {
    static const int64_t first[2] = {1, 2}, second = 3;
    int next = (env->rank + 1) % env->control->size;
    int before = (env->rank + env->control->size - 1) % env->control->size;
    const void *view;
    WEFT_TRY(wefti_comm_send(env->control, next, 7, first, sizeof first));
    WEFT_TRY(wefti_comm_send(env->control, next, 7, &second, sizeof second));
    WEFT_TRY(wefti_comm_barrier(env->control, 8)); /* both are here */
    WEFT_TRY(wefti_comm_receive(env->control, before, 7, sizeof first, &view));
    WEFT_TRY(memcmp(view, first, sizeof first) == 0 ? WEFT_OK : WEFT_ERR_INTERNAL);
    wefti_comm_release(env->control, before, 7);
    WEFT_TRY(wefti_comm_receive(env->control, before, 7, sizeof second, &view));
    WEFT_TRY(memcmp(view, &second, sizeof second) == 0 ? WEFT_OK : WEFT_ERR_INTERNAL);
    wefti_comm_release(env->control, before, 7);
    return wefti_comm_await(env->control, 7);
}

TEST(the_oldest_message_of_a_tag_comes_first) {
    weft_status statuses[6];
    run_ranks(3, 2, no_wire, send_twice, NULL, statuses);
    for (int r = 0; r < 6; r++) assert_int_equal(statuses[r], WEFT_OK);
}

static weft_status fail_on_rank_two(rank_env *env) {
    const void *view;
    if (env->rank == 2) return weft_ctx_fail(env->ctx, WEFT_ERR_NUMERIC, "planted");
    return wefti_comm_receive(env->control, 2, 5, 8, &view);
}

TEST(a_failed_rank_wakes_all_others) {
    weft_status statuses[4];
    run_ranks(2, 2, no_wire, fail_on_rank_two, NULL, statuses);
    for (int r = 0; r < 4; r++)
        assert_int_equal(statuses[r], r == 2 ? WEFT_ERR_NUMERIC : WEFT_ERR_PEER);
}

static weft_status send_wrong_length(rank_env *env) {
    const void *view;
    char data[8] = {0};
    if (env->rank == 0) {
        WEFT_TRY(wefti_comm_send(env->control, 1, 0, data, 8));
        return wefti_comm_await(env->control, 0);
    }
    weft_status status = wefti_comm_receive(env->control, 0, 0, 7, &view);
    weft_ctx_clear(env->ctx);
    return status == WEFT_ERR_WIRE ? WEFT_OK : WEFT_ERR_INTERNAL;
}

TEST(a_message_of_another_length_is_refused) {
    run_ranks(2, 1, no_wire, send_wrong_length, NULL, NULL);
}

/* 1 MB/s and 20 ms: two ranks of a node share the interface, so the later of two 20 kB
 * messages cannot be there before 20 + 40 ms. Only the lower bound is asserted. */
static weft_status time_the_wire(rank_env *env) {
    static const char block[20000];
    const void *view;
    WEFT_TRY(wefti_comm_barrier(env->control, 0));
    double start_s = wefti_now_s();
    if (env->rank < 2) {
        WEFT_TRY(wefti_comm_send(env->replica, 1, 1, block, sizeof block));
        WEFT_TRY(wefti_comm_await(env->replica, 1));
    } else {
        WEFT_TRY(wefti_comm_receive(env->replica, 0, 1, sizeof block, &view));
        wefti_comm_release(env->replica, 0, 1);
    }
    double *span = env->user;
    span[0] = start_s;
    span[1] = wefti_now_s();
    return WEFT_OK;
}

TEST(the_wire_never_delivers_early) {
    double span[4][2]; /* start and end of each rank */
    void *users[] = {span[0], span[1], span[2], span[3]};
    run_ranks(2, 2, (wefti_wire_model){1e6, 0.02}, time_the_wire, users, NULL);
    double start = span[0][0] < span[1][0] ? span[0][0] : span[1][0];
    double end = span[0][1] > span[1][1] ? span[0][1] : span[1][1];
    assert_true(end - start >= 0.06);
    for (int r = 0; r < 2; r++) assert_true(span[r][1] - span[r][0] >= 0.04);
}

/* A wire that takes 1000 s: what is under way is not there, a deadline long past or one
 * just ahead; what is inside the node is. */
static weft_status ask_in_time(rank_env *env) {
    static const char block[8];
    const void *view = block;
    int other = 1 - env->replica->rank, mate = 1 - env->shard->rank;
    WEFT_TRY(wefti_comm_send(env->replica, other, 1, block, sizeof block));
    WEFT_TRY(wefti_comm_send(env->shard, mate, 1, block, sizeof block));
    double deadline_s = wefti_now_s() + 0.002;
    WEFT_TRY(wefti_comm_receive_by(env->replica, other, 1, 8, deadline_s, &view));
    if (view || wefti_now_s() < deadline_s) return WEFT_ERR_INTERNAL;
    view = &env;
    WEFT_TRY(wefti_comm_receive_by(env->replica, other, 2, 8, 0, &view));
    if (view) return WEFT_ERR_INTERNAL;
    deadline_s = wefti_now_s() + 1000;
    WEFT_TRY(wefti_comm_receive_by(env->shard, mate, 1, 8, deadline_s, &view));
    if (view != block || wefti_now_s() >= deadline_s) return WEFT_ERR_INTERNAL;
    wefti_comm_release(env->shard, mate, 1);
    return wefti_comm_await(env->shard, 1);
}

/* Rank 0 sends 100 kB to 1 and then as much to 2: the second leaves after 0.1 s. What
 * rank 1 sends to 2 at once does not wait for it. */
static weft_status pass_on_the_wire(rank_env *env) {
    static const char data[100000];
    double *arrived = env->user, start_s = wefti_now_s();
    const void *view;
    wefti_comm *all = env->control;
    if (env->rank == 0) arrived[2] = start_s;
    if (env->rank == 0) WEFT_TRY(wefti_comm_send(all, 1, 1, data, sizeof data));
    if (env->rank == 0) WEFT_TRY(wefti_comm_send(all, 2, 1, data, sizeof data));
    if (env->rank == 1) wefti_sleep_until_s(start_s + 0.03);
    if (env->rank == 1) WEFT_TRY(wefti_comm_send(all, 2, 3, data, 20000));
    if (env->rank == 1) arrived[3] = wefti_now_s();
    for (int k = 0; k < 2 && env->rank == 2; k++) {
        int64_t tag = k == 0 ? 3 : 1, n_bytes = k == 0 ? 20000 : (int64_t)sizeof data;
        WEFT_TRY(wefti_comm_receive(all, 1 - k, tag, n_bytes, &view));
        arrived[k] = all->arrival_s;
        wefti_comm_release(all, 1 - k, tag);
    }
    if (env->rank == 1) {
        WEFT_TRY(wefti_comm_receive(all, 0, 1, sizeof data, &view));
        wefti_comm_release(all, 0, 1);
    }
    return wefti_comm_barrier(all, 4);
}

TEST(on_the_wire_whoever_comes_first_goes_first) {
    double arrived[4]; /* and when rank 0 began, when rank 1 had sent */
    void *users[] = {arrived, arrived, arrived};
    do { /* again if rank 1 was too late to come first, on a busy machine */
        run_ranks(3, 1, (wefti_wire_model){1e6, 0}, pass_on_the_wire, users, NULL);
    } while (arrived[3] >= arrived[2] + 0.1);
    assert_true(arrived[0] < arrived[1]);
    assert_true(arrived[1] - arrived[2] >= 0.199);
}

/* Two nodes send 100 kB to a third at 1 MB/s, about at once or not: its interface has the
 * later one for 0.1 s after the earlier one is there. */
static weft_status meet_at_an_interface(rank_env *env) {
    static const char data[100000];
    double *arrived = env->user;
    const void *view;
    wefti_comm *all = env->control;
    WEFT_TRY(wefti_comm_barrier(all, 0));
    if (env->rank < 2) WEFT_TRY(wefti_comm_send(all, 2, 1, data, sizeof data));
    for (int k = 0; k < 2 && env->rank == 2; k++) {
        WEFT_TRY(wefti_comm_receive(all, k, 1, sizeof data, &view));
        arrived[k] = all->arrival_s;
        wefti_comm_release(all, k, 1);
    }
    return wefti_comm_barrier(all, 2);
}

TEST(a_receivers_interface_takes_one_message_after_the_other) {
    double arrived[2];
    void *users[] = {arrived, arrived, arrived};
    run_ranks(3, 1, (wefti_wire_model){1e6, 0.001}, meet_at_an_interface, users, NULL);
    assert_true(fabs(arrived[0] - arrived[1]) >= 0.1 - 1e-6);
}

TEST(a_deadline_ends_a_wait_and_leaves_the_message) {
    run_ranks(2, 2, (wefti_wire_model){0, 1000}, ask_in_time, NULL, NULL);
}

static weft_status take_the_second_time(rank_env *env) {
    static const char block[8];
    const void *view;
    if (env->rank == 0) {
        WEFT_TRY(wefti_comm_barrier(env->control, 0));
        WEFT_TRY(wefti_comm_send(env->control, 1, 7, block, 8));
        return wefti_comm_await(env->control, 7);
    }
    WEFT_TRY(wefti_comm_receive_by(env->control, 0, 7, 8, 0, &view));
    if (view) return WEFT_ERR_INTERNAL;
    WEFT_TRY(wefti_comm_barrier(env->control, 0));
    WEFT_TRY(wefti_comm_receive_by(env->control, 0, 7, 8, (double)INFINITY, &view));
    if (view != block) return WEFT_ERR_INTERNAL;
    wefti_comm_release(env->control, 0, 7);
    return WEFT_OK;
}

TEST(what_was_not_there_is_received_later) {
    run_ranks(2, 1, no_wire, take_the_second_time, NULL, NULL);
}

static weft_status fail_while_others_wait_in_time(rank_env *env) {
    const void *view;
    if (env->rank == 2) return weft_ctx_fail(env->ctx, WEFT_ERR_NUMERIC, "planted");
    return wefti_comm_receive_by(env->control, 2, 5, 8, wefti_now_s() + 1000, &view);
}

TEST(a_failed_rank_wakes_those_with_a_deadline_too) {
    weft_status statuses[4];
    run_ranks(2, 2, no_wire, fail_while_others_wait_in_time, NULL, statuses);
    for (int r = 0; r < 4; r++)
        assert_int_equal(statuses[r], r == 2 ? WEFT_ERR_NUMERIC : WEFT_ERR_PEER);
}

typedef struct log {
    int64_t begun[16], ended[16];
    int n_begun, n_ended;
    int64_t fail_at;
    wefti_order order;
} job_log;

static weft_status log_phase(void *user, int phase, int64_t item) {
    job_log *log = user;
    if (phase == 0) {
        log->begun[log->n_begun++] = item;
        return WEFT_OK;
    }
    log->ended[log->n_ended++] = item;
    return item == log->fail_at ? WEFT_ERR_NUMERIC : WEFT_OK;
}

static weft_status create_worker(weft_ctx *ctx, job_log *log, wefti_worker **out) {
    wefti_worker_config config = {
        .capacity = 4, .n_phases = 2, .order = log->order, .run = log_phase, .user = log};
    return wefti_worker_create(ctx, &config, out);
}

static void check_order(wefti_order order) {
    weft_ctx *ctx;
    wefti_worker *worker;
    job_log log = {.fail_at = -1, .order = order};
    double waited_s = 0;
    int64_t ticket = 0;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, create_worker(ctx, &log, &worker));
    assert_ok(ctx, wefti_worker_wait(worker, 0, &waited_s));
    for (int i = 0; i < 10; i++) ticket = wefti_worker_submit(worker, i * i);
    assert_ok(ctx, wefti_worker_wait(worker, ticket, &waited_s));
    assert_int_equal(log.n_begun, 10);
    assert_int_equal(log.n_ended, 10);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(log.begun[i], i * i);
        assert_int_equal(log.ended[i], i * i);
    }
    wefti_worker_destroy(ctx, worker);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

TEST(jobs_begin_and_end_in_order) {
    check_order(WEFTI_ORDER_BY_PHASE);
    check_order(WEFTI_ORDER_BY_JOB);
}

TEST(a_failed_job_is_reported_and_later_ones_are_skipped) {
    weft_ctx *ctx;
    wefti_worker *worker;
    job_log log = {.fail_at = 2};
    double waited_s = 0;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, create_worker(ctx, &log, &worker));
    for (int i = 0; i < 3; i++) {
        weft_status status = wefti_worker_wait(worker, wefti_worker_submit(worker, i),
                                               &waited_s);
        assert_int_equal(status, i == 2 ? WEFT_ERR_NUMERIC : WEFT_OK);
    }
    int64_t ticket = wefti_worker_submit(worker, 3);
    assert_int_equal(wefti_worker_wait(worker, ticket, &waited_s), WEFT_ERR_NUMERIC);
    assert_int_equal(log.n_begun, 3);
    wefti_worker_destroy(ctx, worker);
    weft_ctx_destroy(ctx);
}
