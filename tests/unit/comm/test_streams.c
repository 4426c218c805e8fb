/* SPDX-License-Identifier: MIT */
/* Several sockets between two processes: how many, what arrives in whichever order the sockets
 * deliver, what is refused, and that one lost socket is a lost process. */
#define _GNU_SOURCE
#include "start/streams.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "check.h"
#include "members.h"
#include "net/socket.h"
#include "net/window.h"
#include "start/rendezvous.h"

enum { RANKS = 3, SOCKETS = 4, MESSAGES = 6, LONGEST = 5 * 1024 * 1024 + 17, TOKEN = 77 };

/* -- how many -- */

TEST(one_is_enough_on_a_short_wire_and_eight_fill_a_long_one) {
    const double window = 0.7 * (4 << 20);
    assert_int_equal(wefti_window_streams(30e-6, window, 1), 1);
    assert_int_equal(wefti_window_streams(1.9e-3, window, 1), 1);
    assert_int_equal(wefti_window_streams(1.9e-3, 1e5, 1), 1);
    assert_int_equal(wefti_window_streams(22e-3, window, 1), 1); /* it carries 1 Gbit/s */
    assert_int_equal(wefti_window_streams(25e-3, window, 1), 4);
    assert_int_equal(wefti_window_streams(100e-3, window, 1), 9);
    assert_int_equal(wefti_window_streams(100e-3, 16 * window, 1), 1);
    assert_int_equal(wefti_window_streams(100e-3, window, 4),
                     4); /* all pairs share the wire */
    assert_int_equal(wefti_window_streams(100e-3, window, 15), 1);
    assert_int_equal(wefti_window_streams(10, window, 100), 1);
}

TEST(both_sides_have_a_say) {
    const wefti_connection none = {.fd = -1}; /* no round trip: a short wire */
    assert_int_equal(wefti_streams_wish(1), 0);
    assert_int_equal(wefti_streams_agree(0, 0, &none, 1),
                     1); /* an older version called */
    assert_int_equal(wefti_streams_agree(4, 0, &none, 1), 1);
    assert_int_equal(wefti_streams_agree(1, wefti_streams_wish(4), &none, 1), 1);
    assert_int_equal(wefti_streams_agree(0, wefti_streams_wish(0), &none, 1), 1);
    assert_int_equal(wefti_streams_agree(0, wefti_streams_wish(4), &none, 1), 4);
    assert_int_equal(wefti_streams_agree(5, wefti_streams_wish(0), &none, 1), 5);
    assert_int_equal(wefti_streams_agree(5, wefti_streams_wish(4), &none, 1), 4);
    assert_int_equal(wefti_streams_agree(0, 254, &none, 1), WEFTI_STREAMS);
    assert_int_equal(wefti_streams_welcomed(0, 1), 1);
    assert_int_equal(wefti_streams_welcomed(3, WEFTI_STREAMS_WELCOME + 3), 3);
    assert_int_equal(wefti_streams_welcomed(3, WEFTI_STREAMS_WELCOME + 4), 0);
    assert_int_equal(wefti_streams_welcomed(0, 2), 0);
}

/* Cubic takes every lost packet for a full line: at 0.1 % a socket has 16 Mbit/s over 100 ms. */
TEST(a_long_wire_is_paced_by_bbr_where_the_kernel_has_it) {
    char name[16] = "";
    socklen_t size = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM, 0), spare = socket(AF_INET, SOCK_STREAM, 0);
    bool has = setsockopt(spare, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3) == 0;
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4), 0);
    wefti_socket_pace(fd);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
    assert_string_equal(name, has ? "bbr" : "reno");
    close(fd);
    close(spare);
}

/* -- what arrives -- */

static unsigned char byte_of(int sender, int64_t tag, int64_t i) {
    return (unsigned char)(sender * 31 + tag * 7 + i * 13 + (i >> 8) + (i >> 16));
}

static int64_t length_of(int k) { return k % 2 ? 4096 : LONGEST - k; }

static weft_status check_all(member *m) {
    for (int peer = 0; peer < RANKS; peer++)
        for (int k = 0; k < MESSAGES && peer != m->comm->rank; k++) {
            const void *view;
            WEFT_TRY(wefti_comm_receive(m->comm, peer, k, length_of(k), &view));
            const unsigned char *bytes = view;
            for (int64_t i = 0; i < length_of(k); i++)
                if (bytes[i] != byte_of(peer, k, i))
                    return weft_ctx_fail(m->ctx, WEFT_ERR_WIRE, "message %d, byte %lld",
                                         k, (long long)i);
            wefti_comm_release(m->comm, peer, k);
        }
    return WEFT_OK;
}

static weft_status exchange_all(member *m) {
    unsigned char *data[MESSAGES];
    weft_transport *t = m->mesh->transport;
    weft_status status = WEFT_OK;
    for (int peer = 0; peer < RANKS; peer++)
        if (peer != t->rank && t->ops->paths(t, peer) != m->place.streams - 1)
            return weft_ctx_fail(m->ctx, WEFT_ERR_PEER, "paths");
    for (int k = 0; k < MESSAGES; k++) {
        data[k] = malloc((size_t)length_of(k));
        for (int64_t i = 0; i < length_of(k); i++)
            data[k][i] = byte_of(m->comm->rank, k, i);
        if (status == WEFT_OK)
            status = wefti_comm_send_all(m->comm, k, data[k], length_of(k));
    }
    if (status == WEFT_OK) status = check_all(m);
    for (int k = 0; k < MESSAGES && status == WEFT_OK; k++)
        status = wefti_comm_await(m->comm, k);
    wefti_comm_settle(m->comm);
    for (int k = 0; k < MESSAGES; k++) free(data[k]);
    return status;
}

static void exchange_over(int sockets, const weft_mesh_security *security) {
    member members[RANKS];
    int port = free_port();
    for (int r = RANKS - 1; r >= 0; r--) {
        members[r] = member_at(r, RANKS, port);
        members[r].place.streams = sockets;
        members[r].security = security;
        members[r].body = exchange_all;
        start(&members[r]);
    }
    for (int r = 0; r < RANKS; r++) join(&members[r]);
    for (int r = 0; r < RANKS; r++) expect(&members[r], WEFT_OK, "");
}

TEST(messages_arrive_whole_over_any_number_of_sockets) {
    exchange_over(1, NULL);
    exchange_over(2, NULL);
    exchange_over(SOCKETS, NULL);
    exchange_over(WEFTI_STREAMS, NULL);
}

TEST(encrypted_messages_arrive_whole) {
    static const weft_mesh_security key = {.struct_size = sizeof key, .key = "a.key"};
    write_key("a.key", 'a', 0600);
    exchange_over(SOCKETS, &key);
}

/* -- rank 1 of 2 is driven by hand -- */

typedef struct pair {
    member zero;
    int fds[SOCKETS];
} pair;

static void give(int fd, const void *bytes, size_t n) {
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), (int)n);
}

static int answer_to(int fd, const unsigned char *card) {
    unsigned char answer = 0;
    give(fd, card, WEFTI_CARD_BYTES);
    return recv(fd, &answer, 1, MSG_WAITALL) == 1 ? answer : 0;
}

/* Shows the card of a further socket. */
static int further(int port, int number, int rank, uint64_t token, int *fd) {
    unsigned char bytes[WEFTI_CARD_BYTES];
    const wefti_stream_card card = {number, rank, token};
    wefti_stream_card_write(&card, bytes);
    *fd = dial(port);
    return answer_to(*fd, bytes);
}

static void give_frame(int fd, uint32_t lane, const void *bytes, uint32_t n) {
    unsigned char head[8];
    wefti_put_u32(head, lane);
    wefti_put_u32(head + 4, n);
    give(fd, head, sizeof head);
    if (bytes) give(fd, bytes, n);
}

static void greet(int fd) {
    const char *words = wefti_mesh_greeting();
    unsigned char hello[WEFTI_ENVELOPE_BYTES + 64] = {0};
    wefti_envelope envelope = {WEFTI_ENVELOPE_HELLO, 0, 1, (int64_t)strlen(words)};
    wefti_envelope_encode(&envelope, hello);
    memcpy(hello + WEFTI_ENVELOPE_BYTES, words, strlen(words));
    give_frame(fd, 0, hello, WEFTI_ENVELOPE_BYTES + (uint32_t)strlen(words));
}

static void announce(int fd, int64_t n_bytes) {
    unsigned char bytes[WEFTI_ENVELOPE_BYTES];
    wefti_envelope envelope = {WEFTI_ENVELOPE_LONG, 0, 1, n_bytes};
    wefti_envelope_encode(&envelope, bytes);
    give_frame(fd, 0, bytes, sizeof bytes);
}

/* Without it the other one waits until its farewell is too late. */
static void say_bye(int fd) {
    unsigned char bytes[WEFTI_ENVELOPE_BYTES];
    wefti_envelope envelope = {WEFTI_ENVELOPE_BYE, 0, 0, 0};
    wefti_envelope_encode(&envelope, bytes);
    give_frame(fd, 0, bytes, sizeof bytes);
}

/* Connects as rank 1 with a card that wishes SOCKETS. */
static void begin(pair *p, weft_status (*body)(member *)) {
    unsigned char card[WEFTI_CARD_BYTES] = "wefT", cards[2 * WEFTI_CARD_BYTES];
    int port = free_port(), stranger;
    p->zero = member_at(0, 2, port);
    p->zero.body = body;
    p->zero.silence_s = 0;
    p->zero.place.streams = SOCKETS;
    start(&p->zero);
    p->fds[0] = dial(port);
    wefti_put_u32(card + 4, 4);
    wefti_put_u32(card + 8, 2);
    wefti_put_u32(card + 12, 1);
    wefti_put_u32(card + 16, SOCKETS << 16);
    wefti_put_u64(card + WEFTI_CARD_ADDRESS_AT + 8, TOKEN);
    assert_int_equal(answer_to(p->fds[0], card), WEFTI_STREAMS_WELCOME + SOCKETS);
    assert_int_equal(further(port, 1, 1, TOKEN + 1, &stranger), 0); /* another token */
    close(stranger);
    assert_int_equal(further(port, SOCKETS, 1, TOKEN, &stranger), 0); /* one too many */
    close(stranger);
    assert_int_equal(further(port, 1, 0, TOKEN, &stranger), 0); /* another rank */
    close(stranger);
    for (int i = 1; i < SOCKETS; i++)
        assert_int_equal(further(port, i, 1, TOKEN, &p->fds[i]), 1);
    assert_int_equal(recv(p->fds[0], cards, sizeof cards, MSG_WAITALL),
                     (int)sizeof cards);
    greet(p->fds[0]);
}

static void end(pair *p, weft_status status, const char *words) {
    for (int i = 0; i < SOCKETS; i++) close(p->fds[i]);
    join(&p->zero);
    expect(&p->zero, status, words);
}

/* Its failure does not wait for the end of the sockets. */
static void fails(pair *p, weft_status status, const char *words) {
    join(&p->zero);
    for (int i = 0; i < SOCKETS; i++) close(p->fds[i]);
    expect(&p->zero, status, words);
}

enum { PIECE = 3000, PIECES = 3 };

static weft_status expect_pieces(member *m) {
    const void *view;
    WEFT_TRY(wefti_comm_receive(m->comm, 1, 1, PIECES * PIECE, &view));
    const unsigned char *bytes = view;
    for (int i = 0; i < PIECES * PIECE; i++)
        if (bytes[i] != byte_of(1, 1, i))
            return weft_ctx_fail(m->ctx, WEFT_ERR_WIRE, "byte %d", i);
    return weft_ctx_fail(m->ctx, WEFT_ERR_PEER, "all came");
}

/* The last body comes first, and before its head; two share a socket. */
TEST(bodies_may_come_in_any_order) {
    static const uint32_t by[2][PIECES] = {{3, 1, 2}, {2, 2, 1}};
    for (int turn = 0; turn < 2; turn++) {
        unsigned char data[PIECES * PIECE];
        pair p;
        for (int i = 0; i < PIECES * PIECE; i++) data[i] = byte_of(1, 1, i);
        begin(&p, expect_pieces);
        give(p.fds[by[turn][2]], data + 2 * PIECE, PIECE);
        wefti_sleep_until_s(wefti_now_s() + 0.1);
        announce(p.fds[0], PIECES * PIECE);
        for (int i = 0; i < PIECES; i++)
            give_frame(p.fds[0], 1 | by[turn][i] << 16, NULL, PIECE);
        wefti_sleep_until_s(wefti_now_s() + 0.1);
        if (turn == 0) give(p.fds[1], data + PIECE, PIECE);
        wefti_sleep_until_s(wefti_now_s() + 0.1);
        give(p.fds[by[turn][0]], data, PIECE);
        if (turn == 1) give(p.fds[2], data + PIECE, PIECE);
        wefti_sleep_until_s(wefti_now_s() + 0.3); /* the end would be a failure, too */
        say_bye(p.fds[0]);
        end(&p, WEFT_ERR_PEER, "all came");
    }
}

static weft_status wait_for_ever(member *m) {
    const void *view;
    return wefti_comm_receive(m->comm, 1, 1, PIECES * PIECE, &view);
}

TEST(wrong_numbers_are_refused) {
    static const struct {
        uint32_t lane, n;
        const char *words;
    } wrong[] = {
        {1 | 4 << 16, 8, "sent 8 bytes of lane 1 by socket 4, expected pieces by one of"},
        {1 | 0xffffu << 16, 8, "by socket 65535, expected pieces by one of the 3 after"},
        {0 | 1 << 16, 8, "sent 8 bytes of lane 0 by socket 1, expected pieces"},
        {1 | 1 << 16, 0, "sent 0 bytes of lane 1 by socket 1, expected pieces"},
        {2 | 1 << 16, 8, "no message of weft came from host"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pair p;
        begin(&p, wait_for_ever);
        announce(p.fds[0], PIECES * PIECE);
        give_frame(p.fds[0], wrong[i].lane, NULL, wrong[i].n);
        fails(&p, WEFT_ERR_PEER, wrong[i].words);
    }
}

/* Of the progress thread, which may write them meanwhile: one too old would do as well. */
__attribute__((no_sanitize("thread"))) static int flights_of(const pair *p) {
    return p->zero.mesh->wire.n_flights;
}

/* Heads without bodies: they are not all taken in, and what is there takes no memory. */
TEST(heads_alone_hold_up_nobody) {
    pair p;
    begin(&p, wait_for_ever);
    announce(p.fds[0], (int64_t)1 << 40);
    for (int i = 0; i < 200; i++) give_frame(p.fds[0], 1 | 1 << 16, NULL, 1 << 20);
    wefti_sleep_until_s(wefti_now_s() + 0.2);
    assert_true(flights_of(&p) <= 1 + 2 * SOCKETS);
    end(&p, WEFT_ERR_PEER, "rank 1 (host ) has closed its connection");
}

/* Whichever ends, and however; the first one stays open. */
TEST(a_lost_socket_is_a_lost_process) {
    const struct linger at_once = {1, 0};
    for (int turn = 0; turn < 3; turn++) {
        pair p;
        begin(&p, wait_for_ever);
        announce(p.fds[0], PIECES * PIECE);
        give_frame(p.fds[0], 1 | 1 << 16, NULL, PIECE);
        wefti_sleep_until_s(wefti_now_s() + 0.1);
        int which = turn == 0 ? 1 : 2; /* the one that a body is awaited from, or not */
        if (turn == 2)
            setsockopt(p.fds[which], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(p.fds[which]);
        p.fds[which] = -1;
        join(&p.zero);
        expect(&p.zero, WEFT_ERR_PEER, "rank 1 (host ) has closed its connection");
        for (int i = 0; i < SOCKETS; i++) close(p.fds[i]);
    }
}
