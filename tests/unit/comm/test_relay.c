/* SPDX-License-Identifier: MIT */
/* A member that relays: it joins two that ask for each other, passes their bytes on unchanged,
 * holds few of them, and goes on with its own messages while one of the two does not read. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdatomic.h>

#include "base/machine.h"
#include "members.h"
#include "net/connection.h"
#include "net/socket.h"
#include "start/relay.h"

static const weft_mesh_security key_a = {.struct_size = sizeof key_a, .key = "a.key"},
                                key_b = {.struct_size = sizeof key_b, .key = "b.key"};

typedef struct pair {
    member members[2];
    int port;
    wefti_tls_context *tls, *other;
} pair;

static void begin(pair *p, bool keyed) {
    write_key("a.key", 'a', 0600);
    write_key("b.key", 'b', 0600);
    p->port = free_port();
    p->tls = keyed ? context_of(&key_a) : NULL;
    p->other = context_of(&key_b);
    atomic_store(&talk_rounds, 0);
    atomic_store(&talk_over, 0);
    for (int r = 0; r < 2; r++) {
        p->members[r] = member_at(r, 2, p->port);
        p->members[r].security = keyed ? &key_a : NULL;
        p->members[r].body = keep_talking;
        p->members[r].place.spare = 2;
        start(&p->members[r]);
    }
    while (atomic_load(&talk_rounds) == 0) wefti_sleep_until_s(wefti_now_s() + 1e-3);
}

static void end(pair *p) {
    atomic_store(&talk_over, 1);
    for (int r = 0; r < 2; r++) join(&p->members[r]);
    for (int r = 0; r < 2; r++) expect(&p->members[r], WEFT_OK, "");
    wefti_tls_context_destroy(p->tls);
    wefti_tls_context_destroy(p->other);
}

typedef struct asker {
    const pair *p;
    const wefti_tls_context *tls;
    wefti_relay_card card;
    wefti_connection s;
    int answer;
    pthread_t thread;
} asker;

static void *ask_main(void *argument) {
    asker *a = argument;
    a->answer = wefti_relay_ask(NULL, a->tls, "127.0.0.1", a->p->port, &a->card,
                                wefti_now_s() + 20, &a->s);
    return NULL;
}

/* Place 2 asks for member 1, which comes: both ends, joined. */
static void join_two(const pair *p, asker *a, wefti_connection *b) {
    unsigned char bytes[WEFTI_CARD_BYTES], code = 0;
    const wefti_relay_card comes = {WEFTI_RELAY_COMES,   1, 2, 1000,
                                    WEFTI_RELAY_GATHERS, ""};
    double until_s = wefti_now_s() + 20;
    *a = (asker){.p = p, .tls = p->tls, .s = wefti_connection_of(-1)};
    a->card = (wefti_relay_card){WEFTI_RELAY_ASKS, 2, 1, 1000, WEFTI_RELAY_GATHERS, ""};
    assert_int_equal(pthread_create(&a->thread, NULL, ask_main, a), 0);
    *b = wefti_connection_of(wefti_socket_connect(NULL, "127.0.0.1", p->port, until_s));
    assert_true(b->fd >= 0);
    assert_int_equal(wefti_socket_shake(p->tls, b, until_s), WEFTI_SHAKE_DONE);
    wefti_relay_card_write(&comes, bytes);
    assert_true(wefti_connection_all(b, bytes, sizeof bytes, true, until_s));
    assert_true(wefti_connection_all(b, &code, 1, false, until_s));
    pthread_join(a->thread, NULL);
    assert_int_equal(code, WEFTI_RELAY_JOINED);
    assert_int_equal(a->answer, WEFTI_RELAY_JOINED);
    wefti_connection_bare(b);
}

static unsigned char byte_at(size_t i) { return (unsigned char)(i * 2654435761u >> 13); }

/* Writes until nothing is taken for a while; returns how many bytes were. */
static size_t fill(wefti_connection *s) {
    size_t n = 0;
    unsigned char bytes[4096];
    while (wefti_connection_wait(s, POLLOUT, wefti_now_s() + 1)) {
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = byte_at(n + i);
        struct iovec part = {bytes, sizeof bytes};
        n += wefti_connection_write(s, &part, 1);
        assert_true(n < (size_t)64 << 20);
    }
    return n;
}

TEST(bytes_pass_unchanged_and_a_slow_end_stops_nothing_else) {
    pair p;
    asker a;
    wefti_connection b;
    unsigned char bytes[4096];
    char back[4] = {'b', 'a', 'c', 'k'};
    (void)state;
    begin(&p, true);
    join_two(&p, &a, &b);
    int64_t memory = wefti_process_resident_bytes();
    size_t n = fill(&a.s), got = 0;
    if (!UNDER_SANITIZER) assert_true(wefti_process_resident_bytes() - memory < 4 << 20);
    int before = atomic_load(&talk_rounds);
    double until_s = wefti_now_s() + 20;
    while (atomic_load(&talk_rounds) < before + 100 && wefti_now_s() < until_s)
        wefti_sleep_until_s(wefti_now_s() + 1e-3);
    assert_true(atomic_load(&talk_rounds) >= before + 100);
    assert_true(wefti_connection_all(&b, back, 4, true, until_s));
    assert_true(wefti_connection_all(&a.s, bytes, 4, false, until_s));
    assert_memory_equal(bytes, back, 4);
    wefti_connection_close(&a.s); /* what it has sent arrives, and then the end */
    while (b.fd >= 0 && wefti_now_s() < until_s) {
        struct iovec part = {bytes, sizeof bytes};
        size_t now = wefti_connection_read(&b, &part, 1);
        for (size_t i = 0; i < now; i++)
            if (bytes[i] != byte_at(got + i)) fail_msg("byte %zu is another", got + i);
        got += now;
        if (b.fd >= 0 && !b.readable) (void)wefti_connection_wait(&b, POLLIN, until_s);
    }
    assert_int_equal(got, n);
    end(&p);
}

/* Who has not the key, who asks for one that is not there, and to whom nobody comes; a member that
 * is told comes, and the one that it was told of hears of it. */
TEST(who_is_joined) {
    static const int answers[] = {0, WEFTI_RELAY_NOBODY, 0, WEFTI_RELAY_JOINED};
    pair p;
    (void)state;
    begin(&p, true);
    for (int i = 0; i < 4; i++) {
        asker a = {.p = &p,
                   .tls = i == 0 ? p.other : p.tls,
                   .card = {WEFTI_RELAY_ASKS, 2, i == 1 ? 3 : 1, 1000,
                            i == 2 ? WEFTI_RELAY_GATHERS : 77, ""}};
        ask_main(&a);
        assert_int_equal(a.answer, answers[i]);
        assert_int_equal(a.s.fd >= 0, answers[i] == WEFTI_RELAY_JOINED);
        wefti_connection_close(&a.s);
    }
    end(&p);
}

TEST(plain_bytes_pass_too) {
    pair p;
    asker a;
    wefti_connection b;
    char word[5] = "hello", heard[5];
    (void)state;
    begin(&p, false);
    join_two(&p, &a, &b);
    assert_true(wefti_connection_all(&a.s, word, 5, true, wefti_now_s() + 20));
    assert_true(wefti_connection_all(&b, heard, 5, false, wefti_now_s() + 20));
    assert_memory_equal(word, heard, 5);
    wefti_connection_close(&b);
    assert_false(wefti_connection_all(&a.s, heard, 1, false, wefti_now_s() + 20));
    assert_int_equal(a.s.fd, -1);
    end(&p);
}

/* Only those whose places and tokens say so. */
TEST(only_a_pair_fits) {
    const wefti_relay_card asks = {WEFTI_RELAY_ASKS, 2, 1, 1000, 77, ""},
                           comes = {WEFTI_RELAY_COMES, 1, 2, 1000, 77, ""};
    assert_true(wefti_relay_fits(&asks, &comes));
    assert_false(wefti_relay_fits(&comes, &asks));
    wefti_relay_card other[3] = {comes, comes, comes};
    other[0].from = 3;
    other[1].to = 3;
    other[2].token = 78;
    for (int i = 0; i < 3; i++) assert_false(wefti_relay_fits(&asks, &other[i]));
}

typedef struct caller {
    const wefti_tls_context *tls;
    int port, fd;
    pthread_t thread;
} caller;

/* Has called, and goes on when the time for its call is up. */
static void *call_main(void *argument) {
    static const wefti_relay_card calls = {WEFTI_RELAY_CALLS, 1, 2, 1000, 77, ""};
    caller *c = argument;
    unsigned char bytes[WEFTI_CARD_BYTES], code;
    double until_s = wefti_now_s() + 20;
    wefti_connection s = wefti_connection_of(c->fd);
    wefti_sleep_until_s(wefti_now_s() + 0.5);
    wefti_relay_card_write(&calls, bytes);
    (void)wefti_socket_shake(c->tls, &s, until_s);
    (void)wefti_connection_all(&s, bytes, sizeof bytes, true, until_s);
    (void)wefti_connection_all(&s, &code, 1, false, until_s);
    wefti_connection_close(&s);
    return NULL;
}

TEST(who_has_called_in_time_may_be_slow) {
    const wefti_relay_card wanted = {WEFTI_RELAY_WANTED, 2, 1, 1000, 77, ""};
    wefti_connection s;
    write_key("a.key", 'a', 0600);
    wefti_tls_context *tls = context_of(&key_a);
    caller c = {.tls = tls, .port = free_port()};
    int listener = wefti_socket_listen(true, c.port);
    c.fd = wefti_socket_connect(NULL, "127.0.0.1", c.port, wefti_now_s() + 20);
    assert_int_equal(pthread_create(&c.thread, NULL, call_main, &c), 0);
    assert_true(wefti_relay_await(tls, listener, &wanted, wefti_now_s() + 0.2, &s));
    pthread_join(c.thread, NULL);
    wefti_connection_close(&s);
    close(listener);
    wefti_tls_context_destroy(tls);
}
