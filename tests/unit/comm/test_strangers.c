/* SPDX-License-Identifier: MIT */
/* Strangers at a port of weft, of ten kinds, many at a time: while a run gathers and while it
 * trains. Nobody is held up by them, the log gets a line a minute at most, and memory stays as it
 * is. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "base/machine.h"
#include "start/callers.h"
#include "net/connection.h"
#include "start/joiner.h"
#include "start/rendezvous.h"
#include "members.h"

static const weft_mesh_security key_b = {.struct_size = sizeof key_b, .key = "b.key"};

typedef enum lie {
    LIE_SILENT,
    LIE_NOISE,
    LIE_GONE,
    LIE_HUGE,   /* a record that says that it is as long as can be */
    LIE_REPLAY, /* the first message of a member, heard on the way */
    LIE_KEY,
    LIE_RUN,
    LIE_RANK,    /* the right key, and the number of rank 0 */
    LIE_SIZE,    /* the right key, and a number that no rank has */
    LIE_GARBAGE, /* the right key, then noise */
    LIES
} lie;

typedef struct liar {
    int port;
    wefti_tls_context *contexts[3]; /* right, other key, other run */
    unsigned char hello[1024];
    ssize_t n_hello;
} liar;

/* What a member says first. */
static void listen_in(liar *l) {
    int fds[2];
    bool refused;
    make_ends(fds);
    wefti_connection s = wefti_connection_of(fds[0]);
    s.tls = wefti_tls_create(l->contexts[0], false);
    assert_int_equal(wefti_tls_shake(s.tls, &s, &refused), WEFTI_SHAKE_AGAIN);
    l->n_hello = read(fds[1], l->hello, sizeof l->hello);
    assert_true(l->n_hello > 100);
    wefti_connection_close(&s);
    close(fds[1]);
}

static void write_false_card(lie kind, unsigned char *card) {
    memset(card, kind == LIE_GARBAGE ? 0xff : 0, WEFTI_CARD_BYTES);
    if (kind == LIE_GARBAGE) return;
    memcpy(card, "wefT", 4);
    wefti_put_u32(card + 4, 4);
    wefti_put_u32(card + 8, 2);
    wefti_put_u32(card + 12, kind == LIE_RANK ? 0 : 0xfffffff0u);
}

/* A handshake up to its end, or to a refusal; then a card that is false. */
static void lie_inside(const liar *l, lie kind, wefti_connection *s) {
    int which = kind == LIE_KEY ? 1 : kind == LIE_RUN ? 2 : 0;
    unsigned char card[WEFTI_CARD_BYTES], answer;
    bool refused;
    double until_s = wefti_now_s() + 5;
    (void)fcntl(s->fd, F_SETFL, O_NONBLOCK);
    s->tls = wefti_tls_create(l->contexts[which], false);
    for (;;) {
        wefti_shake shake = wefti_tls_shake(s->tls, s, &refused);
        if (shake == WEFTI_SHAKE_FAILED || wefti_now_s() > until_s) return;
        if (shake == WEFTI_SHAKE_DONE) break;
        (void)wefti_connection_wait(s, s->writable ? POLLIN : POLLIN | POLLOUT, until_s);
    }
    if (which > 0) fail_msg("a stranger of kind %d was let in", (int)kind);
    write_false_card(kind, card);
    if (!wefti_connection_all(s, card, sizeof card, true, until_s)) return;
    if (!wefti_connection_all(s, &answer, 1, false, until_s)) return;
    if (answer == 1) fail_msg("a card of kind %d was taken", (int)kind);
}

static void tell_lie(const liar *l, lie kind, wefti_connection *s) {
    static const unsigned char huge[] = {0x16, 3,    1,    0xff, 0xff, 1,
                                         0xff, 0xff, 0xff, 3,    3};
    unsigned char noise[64];
    memset(noise, (int)kind * 37 + 1, sizeof noise);
    *s = wefti_connection_of(dial(l->port));
    if (kind == LIE_GONE) wefti_connection_close(s);
    if (kind == LIE_NOISE) (void)!send(s->fd, noise, sizeof noise, MSG_NOSIGNAL);
    if (kind == LIE_HUGE) (void)!send(s->fd, huge, sizeof huge, MSG_NOSIGNAL);
    if (kind == LIE_REPLAY)
        (void)!send(s->fd, l->hello, (size_t)l->n_hello, MSG_NOSIGNAL);
    if (kind >= LIE_KEY) lie_inside(l, kind, s);
}

/* The next one of the strangers, in the place of one who called OPEN calls ago: kinds in turn, what
 * costs a handshake now and then. */
enum { OPEN = 100, HANDSHAKES = 5 };

typedef struct crowd {
    liar liar;
    wefti_connection open_ones[OPEN];
    int n;
} crowd;

static const weft_mesh_security right_run = {.struct_size = sizeof right_run,
                                             .key = "a.key",
                                             .run = "one"},
                                other_run = {.key = "a.key", .run = "two"};

static void gather_crowd(crowd *c, int port) {
    write_key("a.key", 'a', 0600);
    write_key("b.key", 'b', 0600);
    c->n = 0;
    c->liar.port = port;
    c->liar.contexts[0] = context_of(&right_run);
    c->liar.contexts[1] = context_of(&key_b);
    c->liar.contexts[2] = context_of(&other_run);
    listen_in(&c->liar);
    for (int i = 0; i < OPEN; i++) c->open_ones[i] = wefti_connection_of(-1);
}

static void one_more(crowd *c) {
    int i = c->n++, k = i / LIES;
    lie kind = (lie)(i % LIES);
    if (kind >= LIE_KEY && k % HANDSHAKES != 0) kind = (lie)(k % LIE_KEY);
    wefti_connection_close(&c->open_ones[i % OPEN]);
    tell_lie(&c->liar, kind, &c->open_ones[i % OPEN]);
}

static void send_home(crowd *c) {
    for (int i = 0; i < OPEN; i++) wefti_connection_close(&c->open_ones[i]);
    for (int k = 0; k < 3; k++) wefti_tls_context_destroy(c->liar.contexts[k]);
}

/* Rank 1 comes at the end and is let in at once. */
TEST(ten_thousand_strangers_hold_up_nobody) {
    const int strangers = UNDER_SANITIZER ? 2000 : 10000;
    static crowd c;
    int port = free_port();
    member members[2] = {member_at(0, 2, port), member_at(1, 2, port)};
    int64_t after_some = 0;
    gather_crowd(&c, port);
    for (int r = 0; r < 2; r++) members[r].security = &right_run;
    members[0].place.patience_s = 300;
    double flood_s = wefti_now_s();
    start(&members[0]);
    while (c.n < strangers) {
        one_more(&c);
        if (c.n == strangers / 10) after_some = wefti_process_resident_bytes();
    }
    int64_t more = wefti_process_resident_bytes() - after_some;
    double begun_s = wefti_now_s();
    start(&members[1]);
    for (int r = 0; r < 2; r++) join(&members[r]);
    double took_s = wefti_now_s() - begun_s;
    send_home(&c);
    for (int r = 0; r < 2; r++) expect(&members[r], WEFT_OK, "");
    assert_in_range(members[0].n_lines, 1, 1 + (int)((wefti_now_s() - flood_s) / 60));
    if (!UNDER_SANITIZER) assert_true(more < 2 << 20);
    if (took_s > 6)
        fail_msg("rank 1 waited %.1f s", took_s); /* a caller has five seconds */
}

/* -- while a run trains -- */

/* A card that asks for a place, by the right key: what is it answered with? 0: nothing. */
static unsigned char ask_for_a_place(const liar *l) {
    wefti_late_card card = {.place = -1, .port = 1, .incarnation = 77};
    unsigned char bytes[WEFTI_CARD_BYTES], answer = 0;
    wefti_connection s = wefti_connection_of(dial(l->port));
    bool refused, done = false;
    double until_s = wefti_now_s() + 5;
    (void)fcntl(s.fd, F_SETFL, O_NONBLOCK);
    s.tls = wefti_tls_create(l->contexts[0], false);
    while (!done && s.fd >= 0 && wefti_now_s() < until_s) {
        done = wefti_tls_shake(s.tls, &s, &refused) == WEFTI_SHAKE_DONE;
        if (!done)
            (void)wefti_connection_wait(&s, s.writable ? POLLIN : POLLIN | POLLOUT,
                                        until_s);
    }
    wefti_late_card_write(&card, bytes);
    if (!done || !wefti_connection_all(&s, bytes, sizeof bytes, true, until_s) ||
        !wefti_connection_all(&s, &answer, 1, false, until_s))
        answer = 0;
    wefti_connection_close(&s);
    return answer;
}

/* The two go on talking all the time, and who has the key is answered in the middle of the crowd:
 * there is no place before they train, but an answer. Of memory 64 handshakes that are under way
 * are the most: it grows for some hundred calls, and then no more. */
TEST(strangers_at_a_run_that_trains_hold_up_nobody) {
    const int strangers = UNDER_SANITIZER ? 300 : 1500;
    static crowd c;
    int port = free_port(), before;
    member members[2] = {member_at(0, 2, port), member_at(1, 2, port)};
    int64_t after_some = 0;
    gather_crowd(&c, port);
    for (int r = 0; r < 2; r++) {
        members[r].security = &right_run;
        members[r].body = keep_talking;
        members[r].place.spare = 2;
        start(&members[r]);
    }
    while (atomic_load(&talk_rounds) == 0) wefti_sleep_until_s(wefti_now_s() + 1e-3);
    while (c.n < strangers) {
        before = atomic_load(&talk_rounds);
        for (int k = 0; k < 50; k++) one_more(&c);
        while (atomic_load(&talk_rounds) < before + 2)
            wefti_sleep_until_s(wefti_now_s() + 1e-3);
        if (c.n == strangers / 3 * 2) after_some = wefti_process_resident_bytes();
    }
    int64_t more = wefti_process_resident_bytes() - after_some;
    unsigned char answer = ask_for_a_place(&c.liar);
    atomic_store(&talk_over, 1);
    for (int r = 0; r < 2; r++) join(&members[r]);
    send_home(&c);
    for (int r = 0; r < 2; r++) expect(&members[r], WEFT_OK, "");
    for (int r = 0; r < 2; r++) assert_in_range(members[r].n_lines, 0, 1);
    assert_int_equal(answer, WEFT_PLACE_LATER);
    if (!UNDER_SANITIZER) assert_true(more < 2 << 20);
}

/* Complaints about many addresses do not fill the log either. */
TEST(a_log_gets_so_many_lines_a_minute_whoever_calls) {
    member one = {0};
    wefti_callers callers = {.rank = 0, .listener = -1};
    assert_int_equal(ctx_begin(&one.ctx), 0);
    weft_ctx_set_sink(one.ctx, count_line, &one);
    callers.ctx = one.ctx;
    assert_true(wefti_callers_init(&callers));
    for (int i = 0; i < 1000; i++) {
        char address[WEFTI_CALLER_ADDRESS_BYTES] = "";
        snprintf(address, sizeof address, "192.0.2.%d", i);
        wefti_callers_complain(&callers, address, "is nobody");
    }
    assert_int_equal(one.n_lines, 64);
    wefti_callers_fini(&callers);
    assert_int_equal(ctx_end(one.ctx), 0);
}
