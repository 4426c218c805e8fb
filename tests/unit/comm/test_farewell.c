/* SPDX-License-Identifier: MIT */
/* Who waits for a message of a member that has failed and said its farewell: the events in each
 * of their orders, by a clock that the test sets, and once in a mesh without a thread of its
 * own, so that nothing comes at a time of its own. */

#include "check.h"
#include "mesh/elastic.h"
#include "ranks.h"

static wefti_elastic goes_on = {.setup = {.policy = {.silence_s = 1}}};

TEST(without_a_farewell_nothing_ends) {
    double until_s = 0;
    assert_false(wefti_farewell_ends_wait(false, &goes_on, 1e9, &until_s));
    assert_false(wefti_farewell_ends_wait(false, NULL, 1e9, &until_s));
    assert_true(until_s == 0); /* the patience has not begun */
}

TEST(where_a_loss_ends_the_run_a_farewell_ends_the_wait) {
    double until_s = 0;
    assert_true(wefti_farewell_ends_wait(true, NULL, 5, &until_s));
}

/* The farewell is heard first, the view comes later: up to then the wait goes on. */
TEST(where_others_go_on_the_view_has_time_to_come) {
    double until_s = 0, patience = wefti_farewell_patience_s(&goes_on);
    assert_true(patience == 20);
    assert_false(wefti_farewell_ends_wait(false, &goes_on, 100, &until_s));
    assert_false(wefti_farewell_ends_wait(true, &goes_on, 200, &until_s));
    assert_true(until_s == 200 + patience);
    assert_false(wefti_farewell_ends_wait(true, &goes_on, 200.9, &until_s));
    assert_true(until_s == 200 + patience); /* looking again gives no new patience */
    assert_false(wefti_farewell_ends_wait(true, &goes_on, 199.9 + patience, &until_s));
    assert_true(wefti_farewell_ends_wait(true, &goes_on, 200 + patience, &until_s));
}

/* A member fails and the network is cut: who is alone hears of no view before it is mended. */
TEST(who_hears_too_few_waits_for_the_view_for_as_long_as_that_lasts) {
    double until_s = 0, patience = wefti_farewell_patience_s(&goes_on);
    assert_false(wefti_farewell_ends_wait(true, &goes_on, 100, &until_s));
    goes_on.machine.was_paused = true;
    assert_false(wefti_farewell_ends_wait(true, &goes_on, 101, &until_s));
    assert_false(wefti_farewell_ends_wait(true, &goes_on, 600, &until_s));
    goes_on.machine.was_paused = false;
    assert_false(wefti_farewell_ends_wait(true, &goes_on, 599.9 + patience, &until_s));
    assert_true(wefti_farewell_ends_wait(true, &goes_on, 600 + patience, &until_s));
}

/* A mesh of two whose progress thread never runs; this process is rank 1. */
typedef struct still {
    weft_mesh mesh;
    wefti_elastic elastic;
    wefti_peer peers[2];
    wefti_elastic_place at[2];
    int ranks[2];
    wefti_comm *comm;
    weft_ctx *ctx;
} still;

static void begin(still *s) {
    const wefti_world_shape shape = {
        .replicas = 2, .shards = 1, .replicas_per_node = 1, .sites = 1};
    *s = (still){.ranks = {0, 1}};
    assert_int_equal(weft_ctx_create(&s->ctx), WEFT_OK);
    assert_int_equal(wefti_world_init(s->ctx, &s->mesh.world, &wefti_remote_ops, &shape),
                     WEFT_OK);
    s->mesh.world.first_here = s->mesh.rank = 1;
    s->mesh.world.n_here = 1;
    s->mesh.peers = s->peers;
    assert_int_equal(pthread_mutex_init(&s->mesh.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&s->mesh.changed, NULL), 0);
    s->elastic = (wefti_elastic){.at = s->at,
                                 .world.ranks = s->ranks,
                                 .world.n_ranks = 2,
                                 .size = 2,
                                 .world.me = 1,
                                 .view.number = 1};
    s->elastic.setup.shards = 1;
    s->elastic.world.entered = 1;
    s->mesh.elastic = &s->elastic;
    assert_int_equal(
        wefti_world_join(s->ctx, &s->mesh.world, 1, WEFTI_GROUP_WORLD, 0, &s->comm),
        WEFT_OK);
}

static void end(still *s) {
    wefti_comm_destroy(s->comm);
    pthread_cond_destroy(&s->mesh.changed);
    pthread_mutex_destroy(&s->mesh.lock);
    pthread_mutex_destroy(&s->mesh.world.failure_lock);
    assert_int_equal(weft_ctx_bytes_held(s->ctx), 0);
    weft_ctx_destroy(s->ctx);
}

/* Farewell and view are both here: it is the view that says what follows. */
TEST(a_view_ends_the_wait_as_a_loss) {
    still s;
    const void *view;
    begin(&s);
    s.peers[0].gone = true;
    s.at[0].departed = true;
    assert_int_equal(wefti_comm_receive(s.comm, 0, 7, 8, &view), WEFT_ERR_PEER);
    assert_non_null(strstr(weft_ctx_message(s.ctx), "the membership has changed"));
    end(&s);
}

/* The farewell is here, the view is not: a wait with a deadline ends at it, with no message and
 * no fault. */
TEST(a_farewell_alone_is_no_fault_yet) {
    still s;
    const void *view = &s;
    begin(&s);
    s.peers[0].gone = true;
    assert_int_equal(wefti_comm_receive_by(s.comm, 0, 7, 8, 0, &view), WEFT_OK);
    assert_null(view);
    end(&s);
}

/* A message that came before the farewell counts, whatever came after it. */
TEST(a_message_that_is_here_is_taken) {
    still s;
    const void *view;
    static unsigned char data[8];
    wefti_arrival arrival = {.sender = 0, .tag = 7, .n_bytes = sizeof data, .data = data};
    begin(&s);
    arrival.channel = WEFTI_GROUP_WORLD * 8;
    s.mesh.incoming.posted = &arrival;
    s.peers[0].gone = true;
    assert_int_equal(wefti_comm_receive(s.comm, 0, 7, sizeof data, &view), WEFT_OK);
    assert_ptr_equal(view, data);
    end(&s);
}
