/* SPDX-License-Identifier: MIT */
/* What all members of a large group send each other is posted. Whoever has posted waits for
 * nobody here, so most tests need no threads. */
#include "comm/posts.h"

#include "base/clock.h"
#include "ranks.h"

enum { MANY = 33, LEAST = 32, BYTES = 8 };

/* A group of n copies of two shards each, and this shard's members. */
typedef struct group {
    weft_ctx *ctx;
    wefti_world *world;
    int n;
    wefti_comm *comms[MANY];
} group;

static void create(group *g, int n, wefti_wire_model wire) {
    const wefti_world_shape shape = {
        .replicas = n, .shards = 2, .replicas_per_node = 1, .sites = 1, .wire = wire};
    g->n = n;
    assert_int_equal(weft_ctx_create(&g->ctx), WEFT_OK);
    assert_ok(g->ctx, wefti_local_create(g->ctx, &shape, &g->world));
    for (int r = 0; r < n; r++)
        assert_ok(g->ctx, wefti_world_join(g->ctx, g->world, 2 * r + 1,
                                           WEFTI_GROUP_REPLICA, 0, &g->comms[r]));
}

static void destroy(group *g) {
    for (int r = 0; r < g->n; r++) wefti_comm_destroy(g->comms[r]);
    wefti_world_destroy(g->ctx, g->world);
    assert_int_equal(weft_ctx_bytes_held(g->ctx), 0);
    weft_ctx_destroy(g->ctx);
}

TEST(large_groups_without_a_wire_post) {
    const struct {
        int n;
        wefti_wire_model wire;
        bool posts;
    } cases[] = {{LEAST, {0, 0}, true},
                 {LEAST - 1, {0, 0}, false},
                 {LEAST, {1e9, 0}, false},
                 {LEAST, {0, 1e-3}, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        group g;
        create(&g, cases[i].n, cases[i].wire);
        assert_int_equal(g.comms[1]->poster != NULL, cases[i].posts);
        for (int64_t tag = -3; tag < 3; tag++) {
            assert_false(wefti_comm_is_posted(tag));
            assert_int_equal(wefti_comm_is_posted(wefti_comm_posted(g.comms[1], tag)),
                             cases[i].posts);
        }
        destroy(&g);
    }
}

static bool sends(int from, int to, int64_t tag) {
    return from != to && from % 5 > 0 && (from + to + tag) % 3 > 0;
}

static int64_t word(int from, int to, int64_t tag) {
    return from * 1000 + to + tag * 1000000;
}

static void send_words(wefti_comm *comm, int64_t tag, int64_t words[MANY]) {
    for (int to = 0; to < comm->size; to++) {
        words[to] = word(comm->rank, to, tag);
        if (sends(comm->rank, to, tag))
            assert_ok(comm->ctx, wefti_comm_send(comm, to, wefti_comm_posted(comm, tag),
                                                 &words[to], BYTES));
    }
    assert_ok(comm->ctx, wefti_comm_publish(comm, wefti_comm_posted(comm, tag)));
}

/* What was sent as `sent`, since tags may be used again. */
static int64_t receive_words(wefti_comm *comm, int64_t tag, int64_t sent) {
    const void *view;
    int64_t n = 0;
    tag = wefti_comm_posted(comm, tag);
    for (int from = 0; from < comm->size; from++) {
        if (!sends(from, comm->rank, sent)) continue;
        assert_ok(comm->ctx, wefti_comm_receive(comm, from, tag, BYTES, &view));
        assert_int_equal(*(const int64_t *)view, word(from, comm->rank, sent));
        n++;
    }
    for (int from = 0; from < comm->size; from++)
        if (sends(from, comm->rank, sent)) wefti_comm_release(comm, from, tag);
    return n;
}

/* Some to some, some to none; of several tags, some negative, received in another order. */
TEST(each_gets_the_pieces_for_it) {
    static int64_t words[6][MANY][MANY];
    wefti_traffic traffic;
    int64_t in = 0, out = 0, held = 0;
    group g;
    create(&g, MANY, (wefti_wire_model){0, 0});
    for (int round = 0; round < 3; round++) {
        for (int64_t tag = -3; tag < 3; tag++)
            for (int r = 0; r < MANY; r++) send_words(g.comms[r], tag, words[tag + 3][r]);
        for (int64_t tag = 2; tag >= -3; tag--)
            for (int r = 0; r < MANY; r++) in += receive_words(g.comms[r], tag, tag);
        for (int64_t tag = -3; tag < 3; tag++)
            for (int r = 0; r < MANY; r++)
                assert_ok(g.ctx, wefti_comm_await(g.comms[r], tag));
        if (round == 0) held = weft_ctx_bytes_held(g.ctx);
        assert_int_equal(weft_ctx_bytes_held(g.ctx), held);
    }
    assert_true(in > 0);
    for (int r = 0; r < MANY; r++) {
        wefti_comm_traffic(g.comms[r], &traffic);
        in -= traffic.bytes_in[WEFTI_LINK_WIRE] / BYTES;
        out += traffic.bytes_out[WEFTI_LINK_WIRE] - traffic.bytes_in[WEFTI_LINK_WIRE];
        assert_int_equal(traffic.bytes_out[WEFTI_LINK_LOCAL], 0);
    }
    assert_int_equal(in, 0);
    assert_int_equal(out, 0);
    destroy(&g);
}

/* The exchanges of two models: some ranks are done with the first when others begin it. */
TEST(the_oldest_round_of_a_tag_comes_first) {
    static int64_t first[MANY][MANY], second[MANY][MANY];
    group g;
    create(&g, MANY, (wefti_wire_model){0, 0});
    for (int r = 0; r < MANY; r++) send_words(g.comms[r], 1, first[r]);
    for (int r = 0; r < MANY; r++)
        for (int to = 0; to < MANY; to++) second[r][to] = word(r, to, 4);
    for (int r = 0; r < MANY / 2; r++) receive_words(g.comms[r], 1, 1);
    for (int r = 0; r < MANY; r++) {
        int64_t tag = wefti_comm_posted(g.comms[r], 1);
        for (int to = 0; to < MANY; to++)
            if (sends(r, to, 4))
                assert_ok(g.ctx,
                          wefti_comm_send(g.comms[r], to, tag, &second[r][to], BYTES));
        assert_ok(g.ctx, wefti_comm_publish(g.comms[r], tag));
    }
    for (int r = 0; r < MANY / 2; r++) receive_words(g.comms[r], 1, 4);
    for (int r = MANY / 2; r < MANY; r++) receive_words(g.comms[r], 1, 1);
    for (int r = MANY / 2; r < MANY; r++) receive_words(g.comms[r], 1, 4);
    for (int r = 0; r < MANY; r++) assert_ok(g.ctx, wefti_comm_await(g.comms[r], 1));
    destroy(&g);
}

TEST(a_piece_of_another_length_is_refused) {
    static int64_t words[MANY][MANY];
    const void *view;
    group g;
    create(&g, MANY, (wefti_wire_model){0, 0});
    for (int r = 0; r < MANY; r++) send_words(g.comms[r], 0, words[r]);
    int64_t tag = wefti_comm_posted(g.comms[0], 0);
    assert_int_equal(wefti_comm_receive(g.comms[0], 1, tag, BYTES - 1, &view),
                     WEFT_ERR_WIRE);
    assert_string_equal(weft_ctx_message(g.ctx),
                        "a message of 8 bytes from rank 3, expected 7");
    destroy(&g);
}

static weft_status post_all(void *user) {
    static int64_t words[MANY];
    wefti_comm *comm = user;
    int64_t tag = wefti_comm_posted(comm, comm->rank);
    for (int to = 1; to < MANY; to++)
        WEFT_TRY(wefti_comm_send(comm, to, tag, &words[to], BYTES));
    return wefti_comm_publish(comm, tag);
}

TEST(no_memory_for_a_round_is_a_clean_error) {
    group g;
    create(&g, MANY, (wefti_wire_model){0, 0});
    for (int k = 0; k < 3; k++) {
        weft_ctx_fail_allocation(g.ctx, k);
        assert_int_equal(post_all(g.comms[0]), WEFT_ERR_MEMORY);
    }
    weft_ctx_fail_allocation(g.ctx, -1);
    assert_ok(g.ctx, post_all(g.comms[0]));
    destroy(&g);
}

/* A rank that reads late: the senders' await ends only then, and they write then. */
static weft_status write_after_await(rank_env *env) {
    wefti_comm *comm = env->control;
    int64_t mine, tag;
    const void *view;
    for (int step = 0; step < 5; step++) {
        mine = word(env->rank, 0, step);
        tag = wefti_comm_posted(comm, 2 * step);
        WEFT_TRY(wefti_comm_send_all(comm, tag, &mine, sizeof mine));
        if (env->rank == step) wefti_sleep_until_s(wefti_now_s() + 0.01);
        for (int r = 0; r < comm->size; r++) {
            if (r == env->rank) continue;
            WEFT_TRY(wefti_comm_receive(comm, r, tag, sizeof mine, &view));
            if (*(const int64_t *)view != word(r, 0, step)) return WEFT_ERR_INTERNAL;
            wefti_comm_release(comm, r, tag);
        }
        WEFT_TRY(wefti_comm_await(comm, 2 * step));
        mine = -1;
        WEFT_TRY(wefti_comm_barrier(comm, 2 * step + 1));
    }
    return WEFT_OK;
}

TEST(nothing_posted_changes_before_it_is_released) {
    run_ranks(65, 1, (wefti_wire_model){0, 0}, write_after_await, NULL, NULL);
}

/* Rank 2 fails when all others wait: some for its post, or, in the second case, for it to
 * release theirs. */
static weft_status fail_on_rank_two(rank_env *env) {
    wefti_comm *comm = env->control;
    int64_t mine = 0, tag = wefti_comm_posted(comm, 0);
    const void *view;
    bool posts = env->user || env->rank != 2;
    if (posts) WEFT_TRY(wefti_comm_send_all(comm, tag, &mine, sizeof mine));
    if (env->rank == 2) {
        wefti_sleep_until_s(wefti_now_s() + 0.01);
        return weft_ctx_fail(env->ctx, WEFT_ERR_NUMERIC, "planted");
    }
    for (int r = 0; r < comm->size; r++) {
        if (r == env->rank) continue;
        WEFT_TRY(wefti_comm_receive(comm, r, tag, sizeof mine, &view));
        wefti_comm_release(comm, r, tag);
    }
    return wefti_comm_await(comm, tag);
}

TEST(a_failed_rank_wakes_all_that_post) {
    weft_status statuses[MANY];
    void *users[MANY] = {NULL};
    for (int posts = 0; posts < 2; posts++) {
        for (int r = 0; r < MANY; r++) users[r] = posts ? statuses : NULL;
        run_ranks(MANY, 1, (wefti_wire_model){0, 0}, fail_on_rank_two, users, statuses);
        for (int r = 0; r < MANY; r++)
            assert_int_equal(statuses[r], r == 2 ? WEFT_ERR_NUMERIC : WEFT_ERR_PEER);
    }
}
