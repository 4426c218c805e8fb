/* SPDX-License-Identifier: MIT */
/* The links of a mesh whose wire is emulated, and one pair of whose nodes is slower than
 * that. */

#include "base/clock.h"
#include "base/memory.h"
#include "probe/prober.h"
#include "ranks.h"

enum { NODES = 5, SLOW_A = 1, SLOW_B = 3 };

/* A communicator whose messages between the two slow nodes leave later. */
typedef struct slow_comm {
    wefti_comm head;
    wefti_comm *inner; /* borrowed */
} slow_comm;

static const double extra_s = 0.012;

static wefti_comm *inner_of(wefti_comm *c) { return ((slow_comm *)c)->inner; }

static weft_status slow_send(wefti_comm *c, int peer, int64_t tag, const void *data,
                             int64_t n_bytes) {
    bool slow = (c->rank == SLOW_A && peer == SLOW_B) ||
                (c->rank == SLOW_B && peer == SLOW_A);
    if (slow) wefti_sleep_until_s(wefti_now_s() + extra_s);
    return wefti_comm_send(inner_of(c), peer, tag, data, n_bytes);
}

static weft_status slow_receive(wefti_comm *c, int peer, int64_t tag, int64_t n_bytes,
                                const void **view) {
    return wefti_comm_receive(inner_of(c), peer, tag, n_bytes, view);
}

static void slow_release(wefti_comm *c, int peer, int64_t tag) {
    wefti_comm_release(inner_of(c), peer, tag);
}

static weft_status slow_await(wefti_comm *c, int64_t tag) {
    return wefti_comm_await(inner_of(c), tag);
}

static const wefti_comm_ops slow_ops = {.name = "slow",
                                        .send = slow_send,
                                        .receive = slow_receive,
                                        .release = slow_release,
                                        .await = slow_await};

static weft_cluster *cluster;

static weft_status body(rank_env *env) {
    bool slow = *(bool *)env->user;
    wefti_job job = {
        .R = NODES, .S = 1, .W = NODES, .copies = 1, .site.n = 1, .site.replicas = NODES};
    slow_comm comm = {
        {.ops = &slow_ops, .ctx = env->ctx, .rank = env->rank, .size = NODES},
        env->control};
    wefti_rank rank = {.job = &job, .ctx = env->ctx, .rank = env->rank};
    wefti_probe_setup setup = {
        .job = &job, .seconds = 2, .machine_ranks = NODES, .owner = env->ctx};
    weft_probe_result result = {.struct_size = sizeof result,
                                .cluster = env->rank == 0 ? cluster : NULL};
    wefti_prober p = {.rank = &rank,
                      .setup = &setup,
                      .result = env->rank == 0 ? &result : NULL,
                      .ctx = env->ctx,
                      .comm = slow ? &comm.head : env->control};
    weft_status status = wefti_probe_links(&p, setup.seconds);
    wefti_free(env->ctx, result.figures);
    return status;
}

enum { MOST = 8 };

/* What was found; asserted on the test's own thread. */
static struct {
    int64_t n_pairs;
    weft_link_pair pairs[MOST];
    weft_link_facts wire;
} found;

/* The cluster's lists come from rank 0's context, so it is freed by its thread. */
static weft_status probe_and_look(rank_env *env) {
    if (env->rank == 0) WEFT_TRY(weft_cluster_create(env->ctx, &cluster));
    weft_status status = body(env);
    if (env->rank != 0) return status;
    found.n_pairs = cluster->n_pairs;
    for (int64_t i = 0; i < cluster->n_pairs && i < MOST; i++)
        found.pairs[i] = cluster->pairs[i];
    found.wire = cluster->wire;
    weft_cluster_destroy(env->ctx, cluster);
    return status;
}

static void probe(bool slow) {
    void *users[NODES];
    for (int r = 0; r < NODES; r++) users[r] = &slow;
    run_ranks(NODES, 1, (wefti_wire_model){12.5e6, 0.010}, probe_and_look, users, NULL);
    assert_true(found.wire.latency_s > 0.0099 && found.wire.latency_s < 0.030);
}

TEST(a_slow_pair_is_listed_both_ways) {
    probe(true);
    assert_int_equal(found.n_pairs, 2);
    for (int i = 0; i < 2; i++) {
        const weft_link_pair *pair = &found.pairs[i];
        assert_int_equal(pair->from, i == 0 ? SLOW_A : SLOW_B);
        assert_int_equal(pair->to, i == 0 ? SLOW_B : SLOW_A);
        assert_true(pair->latency_s > 0.0219 && pair->latency_s < 0.066);
        assert_true(pair->bandwidth_Bps > 1e6);
    }
}

TEST(equal_pairs_are_not_listed) {
    probe(false);
    assert_int_equal(found.n_pairs, 0);
}
