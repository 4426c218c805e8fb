/* SPDX-License-Identifier: MIT */
/* Ranks as threads: a wait for others that lasts is told, for a message, for one that is to be
 * taken and for what all tell all. Who is waited for goes on when it has been said. */
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "ranks.h"

enum { BYTES = 8 };

static const char block[BYTES];

typedef struct told {
    atomic_int n;
    char line[128];
} told;

static void hear(void *user, weft_log_level level, const char *line) {
    told *t = user;
    if (level == WEFT_LOG_WAIT && atomic_load(&t->n) == 0)
        snprintf(t->line, sizeof t->line, "%s", line);
    if (level == WEFT_LOG_WAIT) atomic_fetch_add(&t->n, 1);
}

static void take(void *user, int rank, const void *bytes) {
    (void)user, (void)rank, (void)bytes;
}

static void await_line(told *t) {
    while (atomic_load(&t->n) == 0) wefti_sleep_until_s(wefti_now_s() + 0.001);
}

/* Rank 1 makes rank 0 wait, until that says so. */
static weft_status let_wait(rank_env *env, int way, told *t) {
    const void *view;
    wefti_comm *all = env->control;
    const wefti_allgather gather = {block, BYTES, take, NULL};
    if (env->rank == 1) await_line(t);
    if (way == 0 && env->rank == 1) WEFT_TRY(wefti_comm_send(all, 0, 7, block, BYTES));
    if (way == 1 && env->rank == 0) WEFT_TRY(wefti_comm_send(all, 1, 7, block, BYTES));
    if (way < 2 && env->rank == (way == 0 ? 1 : 0)) return wefti_comm_await(all, 7);
    if (way < 2) {
        WEFT_TRY(wefti_comm_receive(all, 1 - env->rank, 7, BYTES, &view));
        wefti_comm_release(all, 1 - env->rank, 7);
        return WEFT_OK;
    }
    WEFT_TRY(wefti_comm_reserve_allgather(all, 2, BYTES));
    WEFT_TRY(wefti_comm_allgather_begin(all, 9, block, BYTES));
    return wefti_comm_allgather_end(all, 9, &gather);
}

static const char *const ends[] = {" s for rank 1, in this process",
                                   " s for others, in this process",
                                   " s for others, in this process"};

static weft_status wait_each_way(rank_env *env) {
    told *t = env->user;
    atomic_store(&env->world->say_after_s, 0.05);
    for (int way = 0; way < 3; way++) {
        WEFT_TRY(wefti_comm_barrier(env->control, 100 + way));
        if (env->rank == 0) weft_ctx_set_sink(env->ctx, hear, &t[way]);
        WEFT_TRY(let_wait(env, way, &t[way]));
        weft_ctx_set_sink(env->ctx, NULL, NULL);
    }
    return WEFT_OK;
}

TEST(a_thread_that_waits_for_another_says_for_whom) {
    static told tolds[3];
    void *users[2] = {tolds, tolds};
    run_ranks(2, 1, (wefti_wire_model){0, 0}, wait_each_way, users, NULL);
    for (int way = 0; way < 3; way++) {
        const char *line = tolds[way].line;
        assert_ptr_equal(strstr(line, "rank 0 has waited "), line);
        assert_string_equal(strstr(line, " s for "), ends[way]);
    }
}

/* Ranks 1 to 3 wait for rank 0. */
static weft_status wait_together(rank_env *env) {
    told *t = env->user;
    const void *view;
    atomic_store(&env->world->say_after_s, 0.2);
    WEFT_TRY(wefti_comm_barrier(env->control, 1));
    if (env->rank > 0) {
        weft_ctx_set_sink(env->ctx, hear, t);
        WEFT_TRY(wefti_comm_receive(env->control, 0, 7, BYTES, &view));
        wefti_comm_release(env->control, 0, 7);
        return WEFT_OK;
    }
    while (atomic_load(&t->n) < 2) wefti_sleep_until_s(wefti_now_s() + 0.001);
    for (int r = 1; r < env->control->size; r++)
        WEFT_TRY(wefti_comm_send(env->control, r, 7, block, BYTES));
    return wefti_comm_await(env->control, 7);
}

TEST(one_line_is_said_for_all_threads_that_wait) {
    static told t;
    void *users[4] = {&t, &t, &t, &t};
    double since_s = wefti_now_s();
    run_ranks(4, 1, (wefti_wire_model){0, 0}, wait_together, users, NULL);
    assert_true(wefti_now_s() - since_s >= 0.4); /* the second line is of twice as long */
}

static const char ends_of_five[] = " s for rank 5, in this process";

/* Where many post in place of sending; rank 5 comes last. */
static weft_status post_late(rank_env *env) {
    told *t = env->user;
    atomic_store(&env->world->say_after_s, 0.2);
    WEFT_TRY(wefti_comm_barrier(env->control, 1));
    assert_non_null(env->control->poster);
    if (env->rank == 5) await_line(t);
    weft_ctx_set_sink(env->ctx, env->rank == 5 ? NULL : hear, t);
    return wefti_comm_barrier(env->control, 2);
}

TEST(who_waits_for_a_post_says_for_whom) {
    static told t;
    void *users[40];
    for (int r = 0; r < 40; r++) users[r] = &t;
    run_ranks(40, 1, (wefti_wire_model){0, 0}, post_late, users, NULL);
    assert_string_equal(strstr(t.line, " s for "), ends_of_five);
}
