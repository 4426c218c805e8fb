/* SPDX-License-Identifier: MIT */
/* The mesh of processes over a transport that is a few queues in this process. */
#include "mesh/mesh.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "hub.h"

enum { LONGEST = 300 * 1024 + 17 };

typedef struct member {
    hub *hub;
    int number;
    weft_ctx *ctx;
    weft_mesh *mesh;
    wefti_comm *comm;
    weft_status (*body)(struct member *m);
    weft_status status;
    bool clean, speaks;
    char text[1024];
    pthread_t thread;
} member;

static weft_status live(member *m) {
    WEFT_TRY(weft_mesh_create(m->ctx, hub_member(m->hub, m->number), &m->mesh));
    wefti_mesh_watch(m->mesh, 1.0, NULL, NULL);
    WEFT_TRY(wefti_world_join(m->ctx, &m->mesh->world, m->mesh->rank, WEFTI_GROUP_WORLD,
                              0, &m->comm));
    return m->body(m);
}

static void *member_main(void *argument) {
    member *m = argument;
    m->status = live(m);
    wefti_comm_destroy(m->comm);
    if (m->mesh && m->status != WEFT_OK)
        m->status = weft_mesh_fail(m->ctx, m->mesh, m->status);
    m->speaks = m->mesh && weft_mesh_speaks(m->mesh);
    snprintf(m->text, sizeof m->text, "%s", weft_ctx_message(m->ctx));
    m->clean = weft_mesh_close(m->mesh);
    return NULL;
}

static void start(hub *h, int first, weft_status (*body)(member *), member *members) {
    for (int r = first; r < h->size; r++) {
        members[r] = (member){.hub = h, .number = r, .body = body};
        assert_int_equal(weft_ctx_create(&members[r].ctx), WEFT_OK);
        assert_int_equal(
            pthread_create(&members[r].thread, NULL, member_main, &members[r]), 0);
    }
}

static void join(hub *h, int first, member *members) {
    for (int r = first; r < h->size; r++) {
        pthread_join(members[r].thread, NULL);
        assert_int_equal(ctx_end(members[r].ctx), 0);
    }
}

static void run(int size, weft_status (*body)(member *), member *members, hub *h) {
    hub_begin(h, size, NULL);
    start(h, 0, body, members);
    join(h, 0, members);
    hub_end(h);
}

static unsigned char byte_of(int sender, int64_t tag, int64_t i) {
    return (unsigned char)(sender * 31 + tag * 7 + i * 13 + (i >> 8));
}

static const int64_t lengths[] = {0, 1, 4096, 4097, 60 * 1024, 60 * 1024 + 1, LONGEST};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

/* Everybody sends a message of every length to everybody, all at once, and receives them
 * in another order. */
static weft_status exchange_all(member *m) {
    unsigned char *data[LENGTHS];
    int n = m->comm->size, me = m->comm->rank;
    double begun_s = wefti_now_s();
    for (int k = 0; k < LENGTHS; k++) {
        data[k] = malloc((size_t)lengths[k] + 1);
        for (int64_t i = 0; i < lengths[k]; i++) data[k][i] = byte_of(me, k, i);
        WEFT_TRY(wefti_comm_send_all(m->comm, k, data[k], lengths[k]));
    }
    for (int k = LENGTHS - 1; k >= 0; k--) {
        for (int peer = 0; peer < n; peer++) {
            const void *view;
            if (peer == me) continue;
            WEFT_TRY(wefti_comm_receive(m->comm, peer, k, lengths[k], &view));
            for (int64_t i = 0; i < lengths[k]; i++)
                if (((const unsigned char *)view)[i] != byte_of(peer, k, i))
                    return weft_ctx_fail(m->ctx, WEFT_ERR_WIRE, "length %d, byte %d", k,
                                         (int)i);
            wefti_comm_release(m->comm, peer, k);
        }
    }
    for (int k = 0; k < LENGTHS; k++) {
        WEFT_TRY(wefti_comm_await(m->comm, k));
        if (wefti_comm_holds(m->comm, data[k]) && lengths[k] > WEFTI_SHORT_BYTES)
            return weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "still held");
        free(data[k]);
    }
    wefti_traffic traffic;
    int64_t all = 0;
    for (int k = 0; k < LENGTHS; k++) all += lengths[k] * (n - 1);
    wefti_comm_traffic(m->comm, &traffic);
    bool counted = traffic.bytes_out[WEFTI_LINK_WIRE] == all &&
                   traffic.bytes_in[WEFTI_LINK_WIRE] == all;
    bool came = weft_mesh_look(m->mesh)->quiet_s <= wefti_now_s() - begun_s;
    return counted && came && weft_mesh_look(m->mesh)->awaited < 0
               ? WEFT_OK
               : weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "miscounted");
}

TEST(messages_of_every_length_arrive_whole_and_are_counted) {
    member members[4];
    hub h;
    run(4, exchange_all, members, &h);
    for (int r = 0; r < 4; r++) {
        if (members[r].status != WEFT_OK) fail_msg("rank %d: %s", r, members[r].text);
        assert_true(members[r].clean);
    }
    assert_int_equal(h.finished, 4);
    assert_int_equal(h.finished_badly, 0);
}

/* Two messages of one tag, of a sender that is ahead by one exchange: the second must not be
 * taken for the first, nor be released in its place. */
static weft_status send_twice(member *m) {
    static const int64_t first[2] = {1, 2}, second = 3;
    int me = m->comm->rank, n = m->comm->size;
    const void *view;
    WEFT_TRY(wefti_comm_send_all(m->comm, 7, first, sizeof first));
    WEFT_TRY(wefti_comm_send_all(m->comm, 7, &second, sizeof second));
    WEFT_TRY(wefti_comm_barrier(m->comm, 8)); /* both are here */
    for (int peer = 0; peer < n; peer++) {
        if (peer == me) continue;
        WEFT_TRY(wefti_comm_receive(m->comm, peer, 7, sizeof first, &view));
        WEFT_TRY(memcmp(view, first, sizeof first) == 0 ? WEFT_OK : WEFT_ERR_INTERNAL);
        wefti_comm_release(m->comm, peer, 7);
        WEFT_TRY(wefti_comm_receive(m->comm, peer, 7, sizeof second, &view));
        WEFT_TRY(memcmp(view, &second, sizeof second) == 0 ? WEFT_OK : WEFT_ERR_INTERNAL);
        wefti_comm_release(m->comm, peer, 7);
    }
    return wefti_comm_await(m->comm, 7);
}

TEST(the_oldest_message_of_a_tag_comes_first) {
    member members[3];
    hub h;
    run(3, send_twice, members, &h);
    for (int r = 0; r < 3; r++)
        if (members[r].status != WEFT_OK) fail_msg("rank %d: %s", r, members[r].text);
}

static weft_status gather_and_add(member *m) {
    int64_t mine = 100 + m->comm->rank, all[4];
    double sum[2] = {m->comm->rank + 0.5, 1};
    WEFT_TRY(wefti_comm_all_gather(m->comm, 1, &mine, sizeof mine, all));
    for (int r = 0; r < 4; r++)
        if (all[r] != 100 + r) return weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "gather");
    WEFT_TRY(wefti_comm_sum(m->comm, 2, 2, sum));
    if (sum[0] != 8 || sum[1] != 4)
        return weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "sum");
    return wefti_comm_barrier(m->comm, 3);
}

TEST(small_collectives_work_on_it) {
    member members[4];
    hub h;
    run(4, gather_and_add, members, &h);
    for (int r = 0; r < 4; r++) assert_int_equal(members[r].status, WEFT_OK);
}

static weft_status expect_other_length(member *m) {
    const void *view;
    int64_t twelve[2] = {0, 0};
    if (m->comm->rank == 0) return wefti_comm_send(m->comm, 1, 5, twelve, 12);
    return wefti_comm_receive(m->comm, 0, 5, 13, &view);
}

TEST(a_message_of_another_length_is_refused) {
    member members[2];
    hub h;
    run(2, expect_other_length, members, &h);
    assert_int_equal(members[1].status, WEFT_ERR_WIRE);
    assert_non_null(
        strstr(members[1].text, "a message of 12 bytes from rank 0, expected 13"));
}

/* -- to other machines: rank 0 sends something long to 1, then to 2 -- */

enum { LONG_AWAY = 20 * 60 * 1024 };

static bool in_one_round; /* both messages have one tag */

static int64_t tag_to(int rank) { return in_one_round ? 1 : rank; }

static weft_status send_to_both(member *m) {
    static unsigned char data[LONG_AWAY];
    const void *view;
    if (m->comm->rank > 0) {
        WEFT_TRY(wefti_comm_receive_by(m->comm, 0, tag_to(m->comm->rank), LONG_AWAY,
                                       wefti_now_s() + 5, &view));
        if (m->comm->rank == 2) atomic_store(&m->hub->stuck, 0);
        return view ? WEFT_OK : weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "nothing came");
    }
    atomic_store(&m->hub->held, in_one_round); /* both are there before a piece is done */
    for (int r = 1; r < 3; r++)
        WEFT_TRY(wefti_comm_send(m->comm, r, tag_to(r), data, LONG_AWAY));
    atomic_store(&m->hub->held, 0);
    WEFT_TRY(wefti_comm_await(m->comm, tag_to(1)));
    return wefti_comm_await(m->comm, tag_to(2));
}

static void send_away(int stuck, hub *h) {
    static const char *const hosts[] = {"a", "b", "c"};
    member members[3];
    hub_begin(h, 3, hosts);
    atomic_store(&h->stuck, stuck);
    start(h, 0, send_to_both, members);
    join(h, 0, members);
    for (int r = 0; r < 3; r++) assert_int_equal(members[r].status, WEFT_OK);
    hub_end(h);
}

TEST(messages_to_other_machines_leave_in_order) {
    hub h;
    send_away(0, &h);
    assert_in_range(h.n_sent, 40, HUB_LOG); /* pieces; on a busy machine shorter ones */
    for (int i = 1; i < h.n_sent; i++) assert_true(h.sent_to[i] >= h.sent_to[i - 1]);
}

/* Each of the two has a fair part of the first half: who sends to many in one round waits for all
 * of them, and whose receiver is slow should not let its own wire stand still. */
TEST(messages_of_one_round_leave_side_by_side) {
    hub h;
    int n[3] = {0};
    in_one_round = true;
    send_away(0, &h);
    in_one_round = false;
    assert_in_range(h.n_sent, 40, HUB_LOG);
    for (int i = 0; i < h.n_sent / 2; i++) n[h.sent_to[i]]++;
    for (int r = 1; r < 3; r++) assert_in_range(n[r], h.n_sent / 8, h.n_sent / 2);
}

/* What goes to rank 1 is not done before rank 2 has all of its own. */
TEST(a_rank_that_takes_in_nothing_holds_up_nobody_else) {
    hub h;
    send_away(1, &h);
    assert_true(h.sent_to[h.n_sent - 1] == 1);
}

static weft_status wait_until_past(member *m) {
    const void *view = m;
    WEFT_TRY(wefti_comm_receive_by(m->comm, 1 - m->comm->rank, 9, 4, wefti_now_s() + 0.02,
                                   &view));
    return view ? weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "something came") : WEFT_OK;
}

TEST(nobody_waits_beyond_a_deadline) {
    member members[2];
    hub h;
    run(2, wait_until_past, members, &h);
    for (int r = 0; r < 2; r++) assert_int_equal(members[r].status, WEFT_OK);
}

/* Rank 2 fails; the others wait for what it never sends. */
static weft_status fail_on_two(member *m) {
    const void *view;
    if (m->comm->rank == 2)
        return weft_ctx_fail(m->ctx, WEFT_ERR_FILE, "could not open a file of rank 2");
    return wefti_comm_receive(m->comm, 2, 1, 8, &view);
}

TEST(a_failure_reaches_everybody_with_its_sentence) {
    member members[4];
    hub h;
    run(4, fail_on_two, members, &h);
    for (int r = 0; r < 4; r++) {
        assert_int_equal(members[r].status, WEFT_ERR_FILE);
        assert_string_equal(members[r].text,
                            "rank 2 (host here): could not open a file of rank 2");
        assert_int_equal(members[r].speaks, r == 0);
    }
    /* The others do not wait for the farewell of who failed. */
    assert_true(members[2].clean);
}

/* Its progress thread finds the failure and the end of the mesh at the same time: the sentence
 * goes before the farewell, after which nobody listens. */
static weft_status fail_and_leave(member *m) {
    const void *view;
    if (m->comm->rank != 2)
        return wefti_comm_receive_by(m->comm, 2, 1, 8, wefti_now_s() + 10, &view);
    atomic_store(&m->hub->paused, 2);
    while (atomic_load(&m->hub->paused)) sched_yield();
    return weft_ctx_fail(m->ctx, WEFT_ERR_FILE, "could not open a file of rank 2");
}

TEST(a_failure_is_heard_before_the_farewell) {
    member members[3];
    hub h;
    run(3, fail_and_leave, members, &h);
    for (int r = 0; r < 3; r++)
        assert_string_equal(members[r].text,
                            "rank 2 (host here): could not open a file of rank 2");
}

/* -- member 0 of the hub is driven by hand -- */

static void greet(hub *h, int to, const char *text) {
    unsigned char bytes[256];
    wefti_envelope hello = {WEFTI_ENVELOPE_HELLO, 0, 1, (int64_t)strlen(text)};
    wefti_envelope_encode(&hello, bytes);
    memcpy(bytes + WEFTI_ENVELOPE_BYTES, text, strlen(text));
    hub_put(h, 0, to, 0, bytes, WEFTI_ENVELOPE_BYTES + (int)strlen(text));
}

static weft_status wait_for_zero(member *m) {
    const void *view;
    return wefti_comm_receive(m->comm, 0, 1, 8, &view);
}

static void by_hand(const char *greeting, const void *bytes, int n_bytes, int lane,
                    int times, const char *expected) {
    member members[3];
    hub h;
    hub_begin(&h, 3, NULL);
    start(&h, 1, wait_for_zero, members);
    for (int r = 1; r < 3; r++) greet(&h, r, greeting);
    for (int k = 0; k < times; k++) hub_put(&h, 0, 1, lane, bytes, n_bytes);
    join(&h, 1, members);
    for (int r = 1; r < 3; r++) {
        assert_int_equal(members[r].status, WEFT_ERR_PEER);
        if (!strstr(members[r].text, expected))
            fail_msg("rank %d: '%s', expected '%s'", r, members[r].text, expected);
        bool gone = strncmp(members[r].text, "rank 0 ", 7) == 0;
        assert_int_equal(members[r].speaks, gone && r == 1);
        assert_false(members[r].clean);
    }
    assert_int_equal(h.finished_badly, 2);
    hub_end(&h);
}

TEST(a_rank_that_says_nothing_is_given_up) {
    by_hand(wefti_mesh_greeting(), NULL, 0, 0, 0,
            "rank 0 (host here) has given no sign of life for 1.");
}

TEST(another_version_is_refused) {
    by_hand("weft 99, envelope 1", NULL, 0, 0, 0,
            "runs \"weft 99, envelope 1\", this is");
}

TEST(bytes_that_are_no_message_end_it) {
    static const char garbage[] = "this is not an envelope, but it is long enough";
    static const char long_garbage[50000];
    unsigned char head[WEFTI_ENVELOPE_BYTES + 8] = {0};
    wefti_envelope long_one = {WEFTI_ENVELOPE_LONG, 0, 1, 1 << 20};
    wefti_envelope cut = {WEFTI_ENVELOPE_SHORT, 0, 1, 100};
    const char *greeting = wefti_mesh_greeting();
    const char *words = "rank 0 (host here) sent bytes that are no message of weft";
    by_hand(greeting, garbage, sizeof garbage, 0, 1, words);
    by_hand(greeting, garbage, 3, 0, 1, words);
    by_hand(greeting, garbage, sizeof garbage, 1, 1, words); /* a piece of nothing */
    by_hand(greeting, long_garbage, sizeof long_garbage, 0, 1, words);
    wefti_envelope_encode(&long_one, head);
    by_hand(greeting, head, WEFTI_ENVELOPE_BYTES, 0, 2, words); /* two at once */
    wefti_envelope_encode(&cut, head);
    by_hand(greeting, head, sizeof head, 0, 1, words);
    long_one.n_bytes = (int64_t)1 << 60;
    wefti_envelope_encode(&long_one, head);
    by_hand(greeting, head, WEFTI_ENVELOPE_BYTES, 0, 1, words);
}

/* What a peer says will come takes no memory before it comes. */
static weft_status wait_and_weigh(member *m) {
    weft_status status = wait_for_zero(m);
    int64_t held = weft_ctx_bytes_held(m->mesh->ctx);
    if (held > 4 << 20) fail_msg("%lld bytes are held", (long long)held);
    return status;
}

TEST(a_long_message_that_is_only_announced_takes_no_memory) {
    unsigned char head[WEFTI_ENVELOPE_BYTES];
    wefti_envelope huge = {WEFTI_ENVELOPE_LONG, 0, 1, (int64_t)1 << 36};
    member members[2];
    hub h;
    wefti_envelope_encode(&huge, head);
    hub_begin(&h, 2, NULL);
    start(&h, 1, wait_and_weigh, members);
    greet(&h, 1, wefti_mesh_greeting());
    hub_put(&h, 0, 1, 0, head, sizeof head);
    join(&h, 1, members);
    assert_non_null(strstr(members[1].text, "has given no sign of life"));
    hub_end(&h);
}

TEST(half_a_message_holds_up_nobody) {
    unsigned char head[WEFTI_ENVELOPE_BYTES];
    wefti_envelope bye = {WEFTI_ENVELOPE_BYE, 0, 0, 0};
    member members[3];
    hub h;
    wefti_envelope_encode(&bye, head);
    hub_begin(&h, 3, NULL);
    start(&h, 1, wait_for_zero, members);
    for (int r = 1; r < 3; r++) greet(&h, r, wefti_mesh_greeting());
    hub_put_half(&h, 0, 1, head, sizeof head);
    join(&h, 1, members);
    for (int r = 1; r < 3; r++)
        assert_non_null(strstr(members[r].text, "rank 0 (host here) "));
    hub_end(&h);
}

TEST(who_waits_for_a_rank_that_has_left_is_told) {
    unsigned char head[WEFTI_ENVELOPE_BYTES];
    wefti_envelope bye = {WEFTI_ENVELOPE_BYE, 0, 0, 0};
    member members[2];
    hub h;
    wefti_envelope_encode(&bye, head);
    hub_begin(&h, 2, NULL);
    start(&h, 1, wait_for_zero, members);
    greet(&h, 1, wefti_mesh_greeting());
    hub_put(&h, 0, 1, 0, head, sizeof head);
    join(&h, 1, members);
    assert_non_null(strstr(members[1].text, "rank 0 (host here) has left, but rank 1 "
                                            "still waits for a message from it"));
    hub_end(&h);
}

static weft_status leave_at_once(member *m) {
    (void)m;
    return WEFT_OK;
}

/* Rank 0 never says its farewell; only ranks 1 and 2 hear of it before theirs. */
TEST(a_farewell_is_not_waited_for_without_end) {
    member members[5];
    hub h;
    hub_begin(&h, 5, NULL);
    start(&h, 1, leave_at_once, members);
    for (int r = 1; r < 5; r++) greet(&h, r, wefti_mesh_greeting());
    join(&h, 1, members);
    for (int r = 1; r < 5; r++) assert_false(members[r].clean);
    hub_end(&h);
}

TEST(texts_of_others_are_shown_without_control_characters) {
    by_hand("weft \033[2J\302\233 9\n", NULL, 0, 0, 0, "runs \"weft ?[2J?? 9?\", this");
}

/* -- slow signs of life -- */

static atomic_int end_is_wanted;

static bool is_end_wanted(void *user) {
    (void)user;
    return atomic_load(&end_is_wanted) != 0;
}

static weft_status wait_slowly(member *m) {
    wefti_mesh_watch(m->mesh, 30, is_end_wanted, NULL);
    return wait_for_zero(m);
}

/* Four signs, 0.9 s apart; after the second somebody wants the end. */
TEST(a_rank_on_a_slow_wire_is_missed_later) {
    unsigned char bytes[WEFTI_ENVELOPE_BYTES + 8] = {0};
    wefti_envelope alive = {WEFTI_ENVELOPE_ALIVE, 0, 1, 0},
                   last = {WEFTI_ENVELOPE_SHORT, 0, 1, 8},
                   bye = {WEFTI_ENVELOPE_BYE, 0, 0, 0};
    member members[2];
    hub h;
    hub_begin(&h, 2, NULL);
    atomic_store(&end_is_wanted, 0);
    start(&h, 1, wait_slowly, members);
    greet(&h, 1, wefti_mesh_greeting());
    wefti_envelope_encode(&alive, bytes);
    for (int k = 0; k < 4; k++) {
        wefti_sleep_until_s(wefti_now_s() + 0.9);
        hub_put(&h, 0, 1, 0, bytes, WEFTI_ENVELOPE_BYTES);
        wefti_sleep_until_s(wefti_now_s() + 0.05);
        if (k == 1) atomic_store(&end_is_wanted, 1);
    }
    wefti_envelope_encode(&last, bytes);
    hub_put(&h, 0, 1, 0, bytes, sizeof bytes);
    wefti_envelope_encode(&bye, bytes);
    hub_put(&h, 0, 1, 0, bytes, WEFTI_ENVELOPE_BYTES);
    join(&h, 1, members);
    assert_int_equal(members[1].status, WEFT_OK);
    hub_end(&h);
}

/* -- memory of the sender -- */

/* What was sent from memory that is free again is not read: here it is overwritten. */
static weft_status fail_while_sending(member *m) {
    const void *view;
    if (m->comm->rank == 2)
        return weft_ctx_fail(m->ctx, WEFT_ERR_FILE, "could not open a file of rank 2");
    unsigned char *data = calloc(LONG_AWAY, 1);
    if (m->comm->rank == 0) WEFT_TRY(wefti_comm_send(m->comm, 1, 1, data, LONG_AWAY));
    weft_status status = wefti_comm_receive(m->comm, 2, 1, 8, &view);
    memset(data, 7, LONG_AWAY);
    wefti_sleep_until_s(wefti_now_s() + 0.2);
    free(data);
    return status;
}

TEST(after_a_failure_memory_is_the_senders_again) {
    member members[3];
    hub h;
    hub_begin(&h, 3, NULL);
    atomic_store(&h.stuck, 1);
    start(&h, 0, fail_while_sending, members);
    wefti_sleep_until_s(wefti_now_s() + 0.3);
    atomic_store(&h.stuck, 0);
    join(&h, 0, members);
    assert_int_equal(atomic_load(&h.changed), 0);
    hub_end(&h);
}

/* Nobody has failed: it waits until everything has left. */
static weft_status settle_before_the_end(member *m) {
    static unsigned char data[LONG_AWAY];
    if (m->comm->rank != 0) return WEFT_OK;
    WEFT_TRY(wefti_comm_send(m->comm, 1, 1, data, LONG_AWAY));
    wefti_comm_settle(m->comm);
    memset(data, 7, sizeof data);
    return WEFT_OK;
}

TEST(settling_waits_for_what_is_under_way) {
    member members[2];
    hub h;
    run(2, settle_before_the_end, members, &h);
    assert_int_equal(atomic_load(&h.changed), 0);
    assert_true(members[0].clean);
}

/* -- the transport itself -- */

static weft_status break_at_zero(member *m) {
    const void *view;
    if (m->comm->rank == 0) atomic_store(&m->hub->broken, 1);
    return wefti_comm_receive_by(m->comm, 1 - m->comm->rank, 1, 8, wefti_now_s() + 2,
                                 &view);
}

TEST(rank_0_says_that_its_transport_has_failed) {
    member members[2];
    hub h;
    run(2, break_at_zero, members, &h);
    assert_true(members[0].speaks);
    assert_non_null(strstr(members[0].text, "hub 1 on host here: the hub broke"));
}

static bool finish_nothing(weft_transport *t, bool failed) {
    (void)t;
    return failed;
}

TEST(more_processes_than_fit_are_refused) {
    static const weft_transport_ops ops = {
        .struct_size = sizeof ops, .name = "many", .finish = finish_nothing};
    weft_transport many = {.ops = &ops, .size = WEFTI_MAX_RANKS + 1};
    weft_ctx *ctx;
    weft_mesh *mesh;
    assert_int_equal(ctx_begin(&ctx), 0);
    assert_int_equal(weft_mesh_create(ctx, &many, &mesh), WEFT_ERR_CONFIG);
    assert_null(mesh);
    assert_non_null(strstr(weft_ctx_message(ctx), "4097 processes"));
    assert_int_equal(ctx_end(ctx), 0);
}

/* -- ranks and hosts -- */

static weft_status look(member *m) {
    weft_mesh_facts f = *weft_mesh_look(m->mesh);
    /* members 0 and 2 run on one host, 1 and 3 on the other */
    static const int rank_of[] = {0, 2, 1, 3};
    bool right = f.rank == rank_of[m->number] && f.size == 4 && f.hosts == 2 &&
                 f.ranks_here == 2 && f.even &&
                 strcmp(f.host, m->number % 2 ? "beta" : "alpha") == 0;
    if (!right) return weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "rank %d", f.rank);
    for (int r = 0; r < 4; r++)
        if (strcmp(weft_mesh_host_of(m->mesh, r), r < 2 ? "alpha" : "beta") != 0)
            return weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "host of rank %d", r);
    return gather_and_add(m);
}

TEST(ranks_are_numbered_host_by_host) {
    static const char *const hosts[] = {"alpha", "beta", "alpha", "beta"};
    member members[4];
    hub h;
    hub_begin(&h, 4, hosts);
    start(&h, 0, look, members);
    join(&h, 0, members);
    for (int r = 0; r < 4; r++)
        if (members[r].status != WEFT_OK) fail_msg("member %d: %s", r, members[r].text);
    hub_end(&h);
}

/* Members 0 and 2 run on one machine, 1 and 3 on another one of the same name. */
static weft_status look_at_namesakes(member *m) {
    weft_mesh_facts f = *weft_mesh_look(m->mesh);
    static const int rank_of[] = {0, 2, 1, 3};
    if (f.rank != rank_of[m->number] || f.hosts != 2 || f.ranks_here != 2 || !f.even)
        return weft_ctx_fail(m->ctx, WEFT_ERR_INTERNAL, "rank %d of %d hosts", f.rank,
                             f.hosts);
    return gather_and_add(m);
}

TEST(two_machines_of_one_name_are_two_hosts) {
    static const char *const hosts[] = {"debian", "debian", "debian", "debian"};
    member members[4];
    hub h;
    hub_begin(&h, 4, hosts);
    for (int r = 0; r < 4; r++) h.machines[r] = r % 2 ? 77 : 76;
    start(&h, 0, look_at_namesakes, members);
    join(&h, 0, members);
    for (int r = 0; r < 4; r++)
        if (members[r].status != WEFT_OK) fail_msg("member %d: %s", r, members[r].text);
    hub_end(&h);
}

TEST(envelopes_come_back_and_damage_is_seen) {
    unsigned char bytes[WEFTI_ENVELOPE_BYTES + 5] = {0};
    wefti_envelope out, in = {WEFTI_ENVELOPE_SHORT, 23, -4, 5};
    wefti_envelope_encode(&in, bytes);
    assert_true(wefti_envelope_decode(bytes, sizeof bytes, &out));
    assert_int_equal(out.kind, in.kind);
    assert_int_equal(out.channel, 23);
    assert_int_equal(out.tag, -4);
    assert_int_equal(out.n_bytes, 5);
    for (int64_t n = 0; n < (int64_t)sizeof bytes; n++)
        assert_false(wefti_envelope_decode(bytes, n, &out));
    for (int i = 0; i < 6; i++) {
        bytes[i] ^= 0x40;
        assert_false(wefti_envelope_decode(bytes, sizeof bytes, &out));
        bytes[i] ^= 0x40;
    }
}
