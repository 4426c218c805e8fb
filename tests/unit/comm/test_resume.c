/* SPDX-License-Identifier: MIT */
/* A connection goes on by another socket: no byte is lost or comes twice, and only who knows the
 * secret of the first one may do that. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "members.h"
#include "net/connection.h"
#include "net/resend.h"
#include "start/tcpstate.h"

enum { BYTES = 300000 };

static unsigned char byte_at(int64_t i) { return (unsigned char)(i * 7 + (i >> 8)); }

/* Adds bytes [end, end + n) of the stream, in two parts. */
static void add(wefti_resend *k, size_t n) {
    unsigned char *bytes = malloc(n);
    for (size_t i = 0; i < n; i++) bytes[i] = byte_at(k->end + (int64_t)i);
    struct iovec parts[2] = {{bytes, n / 3}, {bytes + n / 3, n - n / 3 + 5}};
    wefti_resend_add(k, parts, 2, n);
    free(bytes);
}

static void check_rest(const wefti_resend *k) {
    struct iovec rest[2];
    int64_t at = k->again;
    for (int i = 0, n = wefti_resend_rest(k, rest); i < n; i++)
        for (size_t j = 0; j < rest[i].iov_len; j++, at++)
            assert_int_equal(((unsigned char *)rest[i].iov_base)[j], byte_at(at));
    assert_int_equal(at, k->end);
}

TEST(what_was_not_confirmed_is_kept) {
    wefti_resend *k = wefti_resend_create();
    for (int i = 0; i < 50; i++) {
        add(k, 1 + (size_t)(i * 977) % 20000);
        int64_t confirmed = k->end - (k->end - k->begin) / 3;
        wefti_resend_confirm(k, (uint32_t)confirmed);
        assert_int_equal(k->begin, confirmed);
        assert_true(wefti_resend_rewind(k, k->begin));
        check_rest(k);
        k->again = k->end;
    }
    assert_true(k->room <= 128 << 10);
    int64_t begin = k->begin;
    wefti_resend_confirm(k, (uint32_t)(k->end + 1)); /* more than was sent */
    wefti_resend_confirm(k, (uint32_t)(begin - 1));
    assert_int_equal(k->begin, begin);
    assert_false(wefti_resend_rewind(k, begin - 1));
    assert_false(wefti_resend_rewind(k, k->end + 1));
    assert_true(wefti_resend_rewind(k, k->end));
    wefti_resend_destroy(k);
}

TEST(too_much_is_not_kept) {
    wefti_resend *k = wefti_resend_create();
    for (int i = 0; i < 65; i++) add(k, 1 << 20);
    assert_true(k->lost);
    assert_null(k->ring);
    assert_false(wefti_resend_rewind(k, k->end));
    wefti_resend_destroy(k);
}

/* -- one stream over two sockets -- */

static size_t take(wefti_connection *s, int64_t at, size_t most) {
    unsigned char bytes[5000];
    struct iovec part = {bytes, most < sizeof bytes ? most : sizeof bytes};
    wefti_connection_ready(s, POLLIN);
    size_t n = wefti_connection_read(s, &part, 1);
    for (size_t i = 0; i < n; i++) assert_int_equal(bytes[i], byte_at(at + (int64_t)i));
    return n;
}

/* The receiver has told of `told` bytes of those it has read when the first socket breaks. */
static void break_after(int64_t n, int64_t told) {
    unsigned char *all = malloc(BYTES);
    int first[2], second[2];
    for (int64_t i = 0; i < BYTES; i++) all[i] = byte_at(i);
    make_ends(first);
    make_ends(second);
    wefti_connection out = wefti_connection_of(first[0]),
                     in = wefti_connection_of(first[1]);
    out.kept = wefti_resend_create();
    int64_t sent = 0;
    for (bool broken = false; in.n_read < BYTES;) {
        struct iovec part = {all + sent, (size_t)(BYTES - sent)};
        wefti_connection_ready(&out, POLLOUT);
        sent += (int64_t)wefti_connection_write(&out, &part, 1);
        while (in.n_read < BYTES && take(&in, in.n_read, broken ? 5000 : 997) > 0 &&
               (broken || in.n_read < n)) {
        }
        if (broken || in.n_read < n) continue;
        broken = true;
        int64_t n_read = in.n_read;
        wefti_resend *kept = out.kept;
        assert_true(sent > n_read);
        assert_true(wefti_resend_rewind(kept, told));
        wefti_connection_close(&out);
        wefti_connection_close(&in);
        out = wefti_connection_of(second[0]);
        out.kept = kept;
        in = wefti_connection_of(second[1]);
        in.n_read = n_read;
        in.n_skip = n_read - told;
    }
    assert_int_equal(sent, BYTES);
    wefti_resend_destroy(out.kept);
    wefti_connection_close(&out);
    wefti_connection_close(&in);
    free(all);
}

TEST(no_byte_is_lost_or_comes_twice) {
    break_after(997, 997);
    break_after(50000, 20000);
    break_after(150000, 149000);
}

/* -- who may -- */

TEST(a_proof_is_of_one_secret_and_one_text) {
    unsigned char a[WEFTI_SECRET_BYTES] = "a", b[WEFTI_SECRET_BYTES] = "b",
                  proof[WEFTI_SECRET_BYTES];
    assert_true(wefti_tls_prove(NULL, a, "text", 4, proof));
    assert_true(wefti_tls_proves(NULL, a, "text", 4, proof));
    assert_false(wefti_tls_proves(NULL, b, "text", 4, proof));
    assert_false(wefti_tls_proves(NULL, a, "texT", 4, proof));
    assert_false(wefti_tls_proves(NULL, a, "text", 3, proof));
}

/* Both ends of a TLS connection over a pair of sockets. */
static void shake(const wefti_tls_context *tls, wefti_connection *ends) {
    int fds[2];
    make_ends(fds);
    bool done[2] = {false, false}, refused;
    for (int i = 0; i < 2; i++) {
        ends[i] = wefti_connection_of(fds[i]);
        ends[i].tls = wefti_tls_create(tls, i == 1);
    }
    while (!done[0] || !done[1])
        for (int i = 0; i < 2; i++) {
            wefti_connection_ready(&ends[i], POLLIN | POLLOUT);
            wefti_shake shaken = done[i]
                                     ? WEFTI_SHAKE_DONE
                                     : wefti_tls_shake(ends[i].tls, &ends[i], &refused);
            assert_int_not_equal(shaken, WEFTI_SHAKE_FAILED);
            done[i] = shaken == WEFTI_SHAKE_DONE;
        }
}

TEST(a_proof_is_of_one_connection) {
    const weft_mesh_security key = {.struct_size = sizeof key, .key = "a.key"};
    write_key("a.key", 'a', 0600);
    wefti_tls_context *tls = context_of(&key);
    wefti_connection one[2], two[2];
    unsigned char secret[2][WEFTI_SECRET_BYTES], proof[WEFTI_SECRET_BYTES];
    shake(tls, one);
    shake(tls, two);
    for (int i = 0; i < 2; i++) assert_true(wefti_tls_secret(one[i].tls, secret[i]));
    assert_memory_equal(secret[0], secret[1], sizeof secret[0]);
    assert_true(wefti_tls_prove(two[0].tls, secret[0], "text", 4, proof));
    assert_true(wefti_tls_proves(two[1].tls, secret[1], "text", 4, proof));
    assert_false(wefti_tls_proves(one[1].tls, secret[1], "text", 4, proof));
    assert_true(wefti_tls_secret(two[0].tls, secret[0]));
    assert_memory_not_equal(secret[0], secret[1], sizeof secret[0]);
    for (int i = 0; i < 2; i++) {
        wefti_connection_close(&one[i]);
        wefti_connection_close(&two[i]);
    }
    wefti_tls_context_destroy(tls);
}

/* -- what is sent again is what was sent -- */

static void connect_ends(const wefti_tls_context *tls, wefti_connection *ends) {
    int fds[2], room = 4096;
    if (tls) shake(tls, ends);
    if (!tls) make_ends(fds);
    for (int i = 0; i < 2 && !tls; i++) ends[i] = wefti_connection_of(fds[i]);
    assert_int_equal(setsockopt(ends[0].fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room),
                     0);
    ends[0].ahead = 1 << 20;
}

/* Memory that was sent gets other contents at once, and every seventh turn the socket breaks, in
 * the middle of records and of what is sent again, too. The receiver has told of all that it has
 * read, or of half of what it had not told. */
static void send_and_break(const wefti_tls_context *tls) {
    static unsigned char source[40000];
    wefti_connection ends[2];
    wefti_resend *kept = wefti_resend_create();
    connect_ends(tls, ends);
    ends[0].kept = kept;
    int64_t sent = 0, n_again = 0;
    for (int turn = 0; ends[1].n_read < BYTES; turn++) {
        size_t n = BYTES - sent < (int64_t)sizeof source ? (size_t)(BYTES - sent)
                                                         : sizeof source;
        for (size_t i = 0; i < n; i++) source[i] = byte_at(sent + (int64_t)i);
        struct iovec parts[2] = {{source, n / 3}, {source + n / 3, n - n / 3}};
        wefti_connection_ready(&ends[0], POLLOUT);
        size_t now = wefti_connection_write(&ends[0], parts, 2);
        memset(source, 0xee, now);
        sent += (int64_t)now;
        for (int k = turn % 3; k > 0 && ends[1].n_read < BYTES; k--)
            (void)take(&ends[1], ends[1].n_read, 3000);
        int64_t n_read = ends[1].n_read, told = n_read;
        if (turn % 14 == 6) told = kept->begin + (n_read - kept->begin) / 2;
        if (turn % 7 != 6) wefti_resend_confirm(kept, (uint32_t)(n_read - n_read % 5000));
        if (turn % 7 != 6) continue;
        assert_true(wefti_resend_rewind(kept, told));
        n_again += kept->end - told;
        for (int i = 0; i < 2; i++) wefti_connection_close(&ends[i]);
        connect_ends(tls, ends);
        ends[0].kept = kept;
        ends[1].n_read = n_read;
        ends[1].n_skip = n_read - told;
    }
    assert_int_equal(sent, BYTES);
    assert_true(n_again > BYTES / 10);
    wefti_resend_destroy(kept);
    for (int i = 0; i < 2; i++) wefti_connection_close(&ends[i]);
}

TEST(what_is_overwritten_once_it_was_sent_comes_as_it_was) {
    const weft_mesh_security key = {.struct_size = sizeof key, .key = "a.key"};
    write_key("a.key", 'a', 0600);
    wefti_tls_context *tls = context_of(&key);
    send_and_break(NULL);
    send_and_break(tls);
    wefti_tls_context_destroy(tls);
}

/* A process of three, which is connected to rank 2; a caller; and the card that it shows. */
typedef struct scene {
    tcp_transport t;
    connection peers[3];
    unsigned char cards[3 * WEFTI_CARD_BYTES];
    wefti_caller caller;
    wefti_resume_card card;
    int other_end, old_end;
} scene;

static void begin_scene(scene *s) {
    int first[2], second[2];
    memset(s, 0, sizeof *s);
    make_ends(first);
    make_ends(second);
    s->t.head.size = 3;
    s->t.head.rank = 1;
    s->t.peers = s->peers;
    s->t.cards = s->cards;
    assert_true(wefti_readiness_init(&s->t.readiness));
    for (int i = 0; i < 3; i++) s->peers[i].stream = wefti_connection_of(-1);
    connection *c = &s->peers[2];
    c->stream = wefti_connection_of(first[0]);
    c->stream.token = 99;
    wefti_tcp_make_lasting(&(tcp_transport){.resumes = true}, c);
    assert_non_null(c->stream.kept);
    add(c->stream.kept, 1000);
    wefti_resend_confirm(c->stream.kept, 300);
    c->stream.n_read = 77;
    s->old_end = first[1];
    s->other_end = second[1];
    s->caller.stream = wefti_connection_of(second[0]);
    assert_true(wefti_tcp_watch(&s->t, WEFTI_WATCH_NEW, second[0], NULL));
    s->card = (wefti_resume_card){.from = 2, .to = 1, .n_read = 500};
}

static wefti_caller_fate show(scene *s, const unsigned char *secret) {
    wefti_resume_card_write(&s->card, s->caller.card);
    assert_true(wefti_tls_prove(NULL, secret, s->caller.card, WEFTI_RESUME_SAID_BYTES,
                                s->card.proof));
    wefti_caller_fate fate = wefti_tcp_admit_resume(&s->t, &s->caller, &s->card);
    if (fate == WEFTI_CALLER_GONE) assert_int_equal(s->peers[2].resumed_s, 0);
    return fate;
}

static void end_scene(scene *s) {
    connection *c = &s->peers[2];
    bool taken = c->stream.fd == s->caller.stream.fd;
    wefti_connection_close(&c->stream);
    wefti_tcp_end_lasting(c);
    if (!taken) wefti_connection_close(&s->caller.stream);
    close(s->old_end);
    close(s->other_end);
    wefti_readiness_fini(&s->t.readiness);
}

TEST(who_knows_the_secret_goes_on) {
    unsigned char answer[WEFTI_RESUMED_BYTES];
    int64_t n_read, again;
    scene s;
    begin_scene(&s);
    assert_int_equal(show(&s, s.peers[2].secret), WEFTI_CALLER_TAKEN);
    assert_int_equal(recv(s.other_end, answer, sizeof answer, 0), (int)sizeof answer);
    assert_true(wefti_resumed_read(answer, &n_read, &again));
    assert_int_equal(n_read, 77);
    assert_int_equal(again, 500);
    assert_true(wefti_tls_proves(NULL, s.peers[2].secret, answer,
                                 WEFTI_RESUMED_SAID_BYTES,
                                 answer + WEFTI_RESUMED_SAID_BYTES));
    assert_true(wefti_connection_owes(&s.peers[2].stream));
    check_rest(s.peers[2].stream.kept);
    assert_int_equal(recv(s.old_end, answer, 1, 0), 0); /* the old one is closed */
    end_scene(&s);
}

/* Who ends now would take with it what the old socket had taken. */
TEST(nothing_is_sent_while_anything_comes_again) {
    scene s;
    begin_scene(&s);
    connection *c = &s.peers[2];
    const outgoing last = {.n_bytes = 8, .n_sent = 8, .to = c},
                   more = {.n_bytes = 8, .to = c};
    assert_true(wefti_tcp_is_sent(&last));
    assert_false(wefti_tcp_is_sent(&more));
    assert_int_equal(show(&s, c->secret), WEFTI_CALLER_TAKEN);
    assert_false(wefti_tcp_is_sent(&last));
    (void)wefti_connection_write(&c->stream, NULL, 0);
    assert_true(wefti_tcp_is_sent(&last));
    wefti_connection_close(&c->stream); /* and nothing has come by it */
    s.caller.stream.fd = -1;
    assert_false(wefti_tcp_is_sent(&last));
    c->reported = true;
    assert_true(wefti_tcp_is_sent(&last));
    end_scene(&s);
}

/* Who called has read more since: what was confirmed is not there any more, and not needed. */
TEST(what_was_confirmed_since_does_not_come_again) {
    unsigned char answer[WEFTI_RESUMED_BYTES];
    int64_t n_read, again;
    scene s;
    begin_scene(&s);
    s.card.n_read = 200;
    assert_int_equal(show(&s, s.peers[2].secret), WEFTI_CALLER_TAKEN);
    assert_int_equal(recv(s.other_end, answer, sizeof answer, 0), (int)sizeof answer);
    assert_true(wefti_resumed_read(answer, &n_read, &again));
    assert_int_equal(again, 300);
    end_scene(&s);
}

TEST(nobody_else_does) {
    const unsigned char foreign[WEFTI_SECRET_BYTES] = "foreign";
    enum {
        FOREIGN,
        OTHER_PLACE,
        NOT_HERE,
        NO_SUCH_SOCKET,
        NEVER_SENT,
        ENDED,
        GIVEN_UP,
        GONE,
        N
    };
    for (int lie = 0; lie < N; lie++) {
        scene s;
        begin_scene(&s);
        if (lie == OTHER_PLACE) s.card.from = 0; /* of which there is no connection */
        if (lie == NOT_HERE) s.card.to = 0;
        if (lie == NO_SUCH_SOCKET) s.card.number = 1;
        if (lie == NEVER_SENT) s.card.n_read = 1001;
        if (lie == ENDED) s.peers[2].reported = true;
        if (lie == GIVEN_UP) s.peers[2].quits = true;
        if (lie == GONE) shutdown(s.other_end, SHUT_WR);
        assert_int_equal(show(&s, lie == FOREIGN ? foreign : s.peers[2].secret),
                         WEFTI_CALLER_GONE);
        end_scene(&s);
    }
}

/* Both have called: the lower-numbered one's call counts, on both sides. */
TEST(of_two_calls_one_counts) {
    for (int lower = 0; lower < 2; lower++) {
        scene s;
        begin_scene(&s);
        s.t.head.rank = s.card.to = lower ? 1
                                          : 2; /* this one's number; the other one's: */
        s.card.from = lower ? 2 : 0;
        if (!lower) {
            s.peers[0] = s.peers[2];
            s.peers[2] = (connection){.stream = {.fd = -1}};
        }
        connection *c = &s.peers[s.card.from];
        c->recall = calloc(1, sizeof *c->recall);
        c->recall->s = wefti_connection_of(-1);
        c->recall->stage = WEFTI_RECALL_WAITS;
        wefti_caller_fate fate = show(&s, c->secret);
        assert_int_equal(fate, lower ? WEFTI_CALLER_GONE : WEFTI_CALLER_TAKEN);
        assert_int_equal(c->recall != NULL, lower);
        if (!lower) s.peers[2] = s.peers[0];
        end_scene(&s);
    }
}
