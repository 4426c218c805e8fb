/* SPDX-License-Identifier: MIT */
/* What all ranks of a process tell each other: by a board, with the bytes, counts and skips that
 * messages to each would have. */
#include <string.h>

#include "base/clock.h"
#include "comm/local.h"
#include "ranks.h"

enum { ROUNDS = 40, OPEN = 8, BYTES = 16 };

static const wefti_wire_model no_wire = {0, 0};

typedef struct heard {
    int n, last; /* ranks, in ascending order */
    int64_t tag;
    bool wrong;
} heard;

static void fill(unsigned char bytes[BYTES], int rank, int64_t tag) {
    for (int i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(rank * 31 + tag * 7 + i);
}

static void take(void *user, int rank, const void *bytes) {
    heard *h = user;
    unsigned char wanted[BYTES];
    fill(wanted, rank, h->tag);
    h->wrong |= rank <= h->last || memcmp(bytes, wanted, BYTES) != 0;
    h->last = rank;
    h->n++;
}

static weft_status tell(rank_env *env, int64_t tag) {
    unsigned char mine[BYTES]; /* a board copies them */
    fill(mine, env->rank, tag);
    return wefti_comm_allgather_begin(env->control, tag, mine, BYTES);
}

static weft_status hear(rank_env *env, int64_t tag, int wanted) {
    unsigned char mine[BYTES];
    heard h = {.last = -1, .tag = tag};
    fill(mine, env->rank, tag);
    const wefti_allgather gathered = {mine, BYTES, take, &h};
    WEFT_TRY(wefti_comm_allgather_end(env->control, tag, &gathered));
    return h.wrong || h.n != wanted ? WEFT_ERR_INTERNAL : WEFT_OK;
}

/* Each rank hears a round some rounds later, as a gossiping run reads its status. */
static weft_status tell_and_hear(rank_env *env) {
    int W = env->control->size;
    wefti_traffic traffic;
    WEFT_TRY(wefti_comm_reserve_allgather(env->control, 2 * OPEN + 2, BYTES));
    for (int64_t tag = 0; tag < ROUNDS; tag++) {
        WEFT_TRY(tell(env, tag));
        if (tag >= OPEN) WEFT_TRY(hear(env, tag - OPEN, W));
    }
    for (int64_t tag = ROUNDS - OPEN; tag < ROUNDS; tag++) WEFT_TRY(hear(env, tag, W));
    wefti_comm_traffic(env->control, &traffic);
    int64_t near = env->shard->size - 1, far = W - env->shard->size;
    bool counted = traffic.bytes_out[WEFTI_LINK_LOCAL] == near * ROUNDS * BYTES &&
                   traffic.bytes_in[WEFTI_LINK_LOCAL] == near * ROUNDS * BYTES &&
                   traffic.bytes_out[WEFTI_LINK_WIRE] == far * ROUNDS * BYTES &&
                   traffic.bytes_in[WEFTI_LINK_WIRE] == far * ROUNDS * BYTES;
    return counted ? WEFT_OK : WEFT_ERR_INTERNAL;
}

TEST(all_hear_all_in_rank_order_and_bytes_are_counted) {
    run_ranks(1, 1, no_wire, tell_and_hear, NULL, NULL);
    run_ranks(3, 2, no_wire, tell_and_hear, NULL, NULL);
    run_ranks(24, 1, no_wire, tell_and_hear, NULL, NULL);
}

/* The wire's latency, and its rate: all that a rank tells leaves one after another. */
static weft_status hear_late(rank_env *env) {
    WEFT_TRY(wefti_comm_reserve_allgather(env->control, 1, BYTES));
    double begun_s = wefti_now_s();
    WEFT_TRY(
        wefti_comm_barrier(env->control, -1)); /* nobody tells before all have begun */
    WEFT_TRY(tell(env, 0));
    WEFT_TRY(hear(env, 0, env->control->size));
    return wefti_now_s() - begun_s >= 0.02 + 2 * BYTES / 1e3 ? WEFT_OK
                                                             : WEFT_ERR_INTERNAL;
}

TEST(it_takes_as_long_as_the_wire) {
    const wefti_wire_model wire = {.bandwidth_Bps = 1e3, .latency_s = 0.02};
    run_ranks(3, 1, wire, hear_late, NULL, NULL);
}

static weft_status one_fails(rank_env *env) {
    WEFT_TRY(wefti_comm_reserve_allgather(env->control, 1, BYTES));
    if (env->rank == 1)
        return weft_ctx_fail(env->ctx, WEFT_ERR_NUMERIC, "rank 1 tells nothing");
    WEFT_TRY(tell(env, 0));
    return hear(env, 0, 3) == WEFT_ERR_PEER ? WEFT_OK : WEFT_ERR_INTERNAL;
}

TEST(a_rank_that_fails_ends_the_wait) {
    weft_status found[3];
    run_ranks(3, 1, no_wire, one_fails, NULL, found);
    assert_int_equal(found[0], WEFT_OK);
    assert_int_equal(found[1], WEFT_ERR_NUMERIC);
    assert_int_equal(found[2], WEFT_OK);
}

static weft_status two_rounds_at_once(rank_env *env) {
    WEFT_TRY(wefti_comm_reserve_allgather(env->control, 1, BYTES));
    WEFT_TRY(tell(env, 0));
    return tell(env, 1);
}

TEST(a_round_too_many_is_an_error) {
    weft_status found[1];
    run_ranks(1, 1, no_wire, two_rounds_at_once, NULL, found);
    assert_int_equal(found[0], WEFT_ERR_INTERNAL);
}

/* In a replay rank 2 does without what rank 0 told in round 1. */
static weft_status skip_one(rank_env *env) {
    static const wefti_missed list[] = {{1, WEFTI_GROUP_WORLD * 8, 2, 0, 1}};
    if (env->rank == 0) wefti_local_skip(env->world, list, 1);
    WEFT_TRY(wefti_comm_barrier(env->control, -1));
    WEFT_TRY(wefti_comm_reserve_allgather(env->control, 2, BYTES));
    for (int64_t tag = 0; tag < 2; tag++) {
        WEFT_TRY(tell(env, tag));
        WEFT_TRY(hear(env, tag, tag == 1 && env->rank == 2 ? 2 : 3));
    }
    return WEFT_OK;
}

TEST(what_did_not_count_is_left_out) { run_ranks(3, 1, no_wire, skip_one, NULL, NULL); }
