/* SPDX-License-Identifier: MIT */
/* weft's own transport over loopback, plain and encrypted: what arrives, what is refused,
 * and what strangers at the port can not do. */
#define _GNU_SOURCE

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "check.h"
#include "net/connection.h"
#include "net/socket.h"
#include "start/rendezvous.h"
#include "net/tls.h"
#include "members.h"

enum { RANKS = 3, LONGEST = 3 * 1024 * 1024 + 17 };

static void run(const weft_mesh_security *security, weft_status (*body)(member *),
                member *members) {
    int port = free_port();
    for (int r = RANKS - 1; r >= 0; r--) {
        members[r] = member_at(r, RANKS, port);
        members[r].security = security;
        members[r].body = body;
        start(&members[r]);
    }
    for (int r = 0; r < RANKS; r++) join(&members[r]);
}

/* -- what arrives -- */

static unsigned char byte_of(int sender, int64_t tag, int64_t i) {
    return (unsigned char)(sender * 31 + tag * 7 + i * 13 + (i >> 8));
}

static const int64_t lengths[] = {0, 1, 4096, 4097, 60 * 1024 + 1, LONGEST};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static weft_status receive_all(member *m) {
    for (int k = LENGTHS - 1; k >= 0; k--) {
        for (int peer = 0; peer < RANKS; peer++) {
            const unsigned char *bytes;
            const void *view;
            if (peer == m->comm->rank) continue;
            WEFT_TRY(wefti_comm_receive(m->comm, peer, k, lengths[k], &view));
            bytes = view;
            for (int64_t i = 0; i < lengths[k]; i++)
                if (bytes[i] != byte_of(peer, k, i))
                    return weft_ctx_fail(m->ctx, WEFT_ERR_WIRE, "length %d, byte %d", k,
                                         (int)i);
            wefti_comm_release(m->comm, peer, k);
        }
    }
    return WEFT_OK;
}

static weft_status exchange_all(member *m) {
    unsigned char *data[LENGTHS];
    weft_status status = WEFT_OK;
    for (int k = 0; k < LENGTHS; k++) {
        data[k] = malloc((size_t)lengths[k] + 1);
        for (int64_t i = 0; i < lengths[k]; i++)
            data[k][i] = byte_of(m->comm->rank, k, i);
        if (status == WEFT_OK)
            status = wefti_comm_send_all(m->comm, k, data[k], lengths[k]);
    }
    if (status == WEFT_OK) status = receive_all(m);
    for (int k = 0; k < LENGTHS && status == WEFT_OK; k++)
        status = wefti_comm_await(m->comm, k);
    wefti_comm_settle(m->comm);
    for (int k = 0; k < LENGTHS; k++) free(data[k]);
    return status;
}

TEST(messages_arrive_whole) {
    member members[RANKS];
    run(NULL, exchange_all, members);
    for (int r = 0; r < RANKS; r++) expect(&members[r], WEFT_OK, "");
}

/* -- keys -- */

static const weft_mesh_security key_a = {.struct_size = sizeof key_a, .key = "a.key"},
                                key_b = {.key = "b.key"};

TEST(encrypted_messages_arrive_whole) {
    member members[RANKS];
    write_key("a.key", 'a', 0600);
    run(&key_a, exchange_all, members);
    for (int r = 0; r < RANKS; r++) expect(&members[r], WEFT_OK, "");
}

TEST(keys_are_files_of_the_owner_alone) {
    unsigned char key[WEFTI_KEY_BYTES];
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    write_key("a.key", 'A', 0600);
    assert_int_equal(wefti_key_read(ctx, "a.key", key), WEFT_OK);
    for (int i = 0; i < WEFTI_KEY_BYTES; i++) assert_int_equal(key[i], 0xaa);
    write_key("a.key", 'a', 0640);
    assert_int_equal(wefti_key_read(ctx, "a.key", key), WEFT_ERR_FILE);
    assert_non_null(strstr(weft_ctx_message(ctx), "chmod 600 a.key"));
    weft_ctx_clear(ctx);
    write_key("a.key", 'g', 0600);
    assert_int_equal(wefti_key_read(ctx, "a.key", key), WEFT_ERR_FORMAT);
    weft_ctx_clear(ctx);
    assert_int_equal(wefti_key_read(ctx, "no.key", key), WEFT_ERR_FILE);
    weft_ctx_clear(ctx);
    assert_int_equal(wefti_key_read(ctx, "/", key), WEFT_ERR_FILE);
    weft_ctx_clear(ctx);
    write_key("a.key", '0', 0600);
    assert_int_equal(wefti_key_read(ctx, "a.key", key), WEFT_ERR_FORMAT);
    assert_non_null(strstr(weft_ctx_message(ctx), "is all zeros"));
    weft_ctx_clear(ctx);
    assert_int_equal(truncate("a.key", 10), 0);
    assert_int_equal(wefti_key_read(ctx, "a.key", key), WEFT_ERR_FORMAT);
    assert_int_equal(ctx_end(ctx), 0);
}

/* Rank 0 with one key, or none, rank 1 with another: only rank 1 gives up. */
static void refuse(const weft_mesh_security *theirs, const weft_mesh_security *mine,
                   const char *words) {
    int port = free_port();
    member zero = member_at(0, 2, port), one = member_at(1, 2, port);
    zero.security = theirs;
    one.security = mine;
    zero.place.patience_s = one.place.patience_s = 1.5;
    start(&zero);
    start(&one);
    join(&one);
    join(&zero);
    expect(&one, WEFT_ERR_PEER, words);
    expect(&zero, WEFT_ERR_PEER, "waits for others that do not come: rank 1");
    assert_in_range(zero.n_lines, 0, 1); /* at most once a minute for an address */
}

TEST(another_key_is_refused) {
    write_key("a.key", 'a', 0600);
    write_key("b.key", 'b', 0600);
    refuse(&key_a, &key_b, "it has another key, or none");
    refuse(NULL, &key_a, "rank 1 of 2 ");
    refuse(&key_a, NULL, "could not reach rank 0");
}

/* The right key does not open another run. */
TEST(another_run_is_refused) {
    static const weft_mesh_security one_run = {.struct_size = sizeof one_run,
                                               .key = "a.key",
                                               .run = "one"},
                                    other_run = {.key = "a.key", .run = "other"};
    member members[RANKS];
    write_key("a.key", 'a', 0600);
    refuse(&one_run, &other_run, "all ranks need the same mesh.key and mesh.run");
    refuse(&one_run, &key_a, "all ranks need the same mesh.key and mesh.run");
    run(&other_run, exchange_all, members);
    for (int r = 0; r < RANKS; r++) expect(&members[r], WEFT_OK, "");
}

/* Two ends in this process, and what is between them. */
typedef struct ends {
    wefti_connection a, b; /* b answers */
} ends;

static void connect_ends(const wefti_tls_context *context, ends *e) {
    int fds[2];
    bool refused;
    make_ends(fds);
    e->a = wefti_connection_of(fds[0]);
    e->b = wefti_connection_of(fds[1]);
    e->a.tls = wefti_tls_create(context, false);
    e->b.tls = wefti_tls_create(context, true);
    wefti_shake a = WEFTI_SHAKE_AGAIN, b = WEFTI_SHAKE_AGAIN;
    for (int i = 0; i < 20 && (a != WEFTI_SHAKE_DONE || b != WEFTI_SHAKE_DONE); i++) {
        wefti_connection_ready(&e->a, POLLIN | POLLOUT);
        wefti_connection_ready(&e->b, POLLIN | POLLOUT);
        if (a != WEFTI_SHAKE_DONE) a = wefti_tls_shake(e->a.tls, &e->a, &refused);
        if (b != WEFTI_SHAKE_DONE) b = wefti_tls_shake(e->b.tls, &e->b, &refused);
    }
    assert_int_equal(a, WEFTI_SHAKE_DONE);
    assert_int_equal(b, WEFTI_SHAKE_DONE);
}

/* n bytes each way, in pieces of many lengths, through sockets that are full now and then. */
static void pump(ends *e, int64_t n) {
    static unsigned char out[2][70000], in[70000];
    wefti_connection *ways[2][2] = {{&e->a, &e->b}, {&e->b, &e->a}};
    int64_t sent[2] = {0, 0}, got[2] = {0, 0};
    for (int64_t round = 0; got[0] < n || got[1] < n; round++) {
        assert_true(round < 1000000);
        for (int w = 0; w < 2; w++) {
            wefti_connection *from = ways[w][0], *to = ways[w][1];
            wefti_connection_ready(from, POLLOUT);
            wefti_connection_ready(to, POLLIN);
            int64_t length = 1 + sent[w] * 7919 %
                                     69999; /* a function of what is sent, so that */
            if (length > n - sent[w])
                length = n - sent[w]; /* a piece is repeated as it was */
            for (int64_t i = 0; i < length; i++) out[w][i] = byte_of(w, 5, sent[w] + i);
            size_t head = length < 12 ? (size_t)length : 12, rest = (size_t)length - head;
            struct iovec parts[3] = {{out[w], head}, {NULL, 0}, {out[w] + head, rest}};
            if (length > 0) sent[w] += (int64_t)wefti_connection_write(from, parts, 3);
            struct iovec part = {in, sizeof in};
            int64_t came = (int64_t)wefti_connection_read(to, &part, 1);
            for (int64_t i = 0; i < came; i++)
                if (in[i] != byte_of(w, 5, got[w] + i))
                    fail_msg("byte %lld", (long long)i);
            got[w] += came;
        }
    }
    assert_int_equal(got[0], n);
    assert_int_equal(got[1], n);
}

/* After three records each; and not after so few where millions are allowed. */
TEST(keys_are_replaced_while_bytes_are_under_way) {
    enum { BYTES = 4000000 };
    static const int limits[] = {3, 1 << 23, 3};
    static const size_t ahead[] = {0, 50000, 50000};
    write_key("a.key", 'a', 0600);
    for (int k = 0; k < 3; k++) {
        wefti_tls_context *context = context_of(&key_a);
        ends e;
        wefti_tls_set_key_records(context, limits[k]);
        connect_ends(context, &e);
        e.a.ahead = e.b.ahead = ahead[k];
        pump(&e, BYTES);
        int least = BYTES / (16 << 10) / limits[k];
        assert_true(wefti_tls_key_updates(e.a.tls) >= least);
        assert_true(wefti_tls_key_updates(e.b.tls) >= least);
        if (k == 1) assert_int_equal(wefti_tls_key_updates(e.a.tls), 0);
        wefti_connection_close(&e.a);
        wefti_connection_close(&e.b);
        wefti_tls_context_destroy(context);
    }
}

/* Bytes that are encrypted although the socket has no room for them: nothing can overtake
 * them, so on a slow wire they are one record. */
TEST(one_record_waits_for_a_slow_wire) {
    enum { RECORD = 16 << 10, BYTES = 1 << 20 };
    static const size_t ahead[] = {0, 100000}, least[] = {1, 7}, most[] = {1, 8};
    static unsigned char data[BYTES];
    write_key("a.key", 'a', 0600);
    for (int k = 0; k < 2; k++) {
        wefti_tls_context *context = context_of(&key_a);
        struct iovec part = {data, BYTES};
        ends e;
        wefti_tls_set_key_records(context, 1);
        connect_ends(context, &e);
        e.a.ahead = ahead[k];
        size_t done = wefti_connection_write(&e.a, &part, 1);
        assert_false(e.a.writable);
        size_t waiting = (size_t)wefti_tls_key_updates(e.a.tls) - done / RECORD;
        assert_in_range(waiting, least[k], most[k]);
        wefti_connection_close(&e.a);
        wefti_connection_close(&e.b);
        wefti_tls_context_destroy(context);
    }
}

TEST(a_network_without_a_key_is_refused) {
    member one = member_at(1, 2, free_port());
    one.place.host = "192.0.2.1"; /* for documentation: nobody has it */
    start(&one);
    join(&one);
    expect(&one, WEFT_ERR_CONFIG,
           "192.0.2.1 is reached over a network, but there is no "
           "key; expected mesh.key");
}

/* -- who calls -- */

TEST(an_unknown_machine_is_said_at_once) {
    member one = member_at(1, 2, free_port());
    one.place.host = "no such name";
    start(&one);
    join(&one);
    expect(&one, WEFT_ERR_PEER, "does not find the machine of rank 0 (no such name:");
}

TEST(the_same_rank_twice_is_refused) {
    int port = free_port();
    member zero = member_at(0, 3, port), one = member_at(1, 3, port), twin = one,
           other = member_at(1, 2, port);
    zero.place.patience_s = 2;
    start(&zero);
    start(&one);
    wefti_sleep_until_s(wefti_now_s() + 0.5);
    start(&twin);
    start(&other);
    join(&twin);
    join(&other);
    join(&zero);
    join(&one);
    expect(&twin, WEFT_ERR_PEER, "another process has the same RANK");
    expect(&other, WEFT_ERR_PEER, "rank 0 has another WORLD_SIZE");
    expect(&zero, WEFT_ERR_PEER, "do not come: rank 2");
}

/* What a process of the version before says and hears. */
TEST(another_version_is_refused_with_a_sentence) {
    int port = free_port();
    unsigned char card[WEFTI_CARD_BYTES] = "wefT", answer = 0;
    member zero = member_at(0, 2, port), one = member_at(1, 2, port);
    zero.place.patience_s = one.place.patience_s = 2;
    wefti_put_u32(card + 4, 2);
    wefti_put_u32(card + 8, 2);
    wefti_put_u32(card + 12, 1);
    start(&zero);
    int fd = dial(port);
    assert_int_equal(send(fd, card, sizeof card, MSG_NOSIGNAL), (int)sizeof card);
    assert_int_equal(recv(fd, &answer, 1, 0), 1);
    assert_int_equal(answer, 4); /* another version */
    assert_int_equal(recv(fd, &answer, 1, 0), 0);
    close(fd);
    join(&zero);
    expect(&zero, WEFT_ERR_PEER, "do not come: rank 1");
    assert_int_equal(zero.n_lines, 1);
    /* Rank 0 of that version hangs up. */
    int listener = wefti_socket_listen(true, port);
    assert_true(listener >= 0);
    start(&one);
    for (double end_s = wefti_now_s() + 3; wefti_now_s() < end_s;) {
        fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            wefti_sleep_until_s(wefti_now_s() + 0.01);
            continue;
        }
        (void)fcntl(fd, F_SETFL, 0);
        (void)recv(fd, card, sizeof card, MSG_WAITALL);
        close(fd);
    }
    join(&one);
    expect(&one, WEFT_ERR_PEER, "as another version of weft does");
    close(listener);
}

/* Silent ones, chatty ones and some that go at once: the others find each other. */
static void with_strangers(const weft_mesh_security *security) {
    enum { STRANGERS = 300 };
    int port = free_port(), fds[STRANGERS];
    member members[2] = {member_at(0, 2, port), member_at(1, 2, port)};
    members[0].security = members[1].security = security;
    members[0].place.patience_s = members[1].place.patience_s = 10;
    start(&members[0]);
    for (int i = 0; i < STRANGERS; i++) {
        char noise[200];
        memset(noise, i, sizeof noise);
        fds[i] = dial(port);
        if (i % 3 == 1) (void)!send(fds[i], noise, sizeof noise, MSG_NOSIGNAL);
        if (i % 3 == 2) close(fds[i]);
    }
    start(&members[1]);
    for (int r = 0; r < 2; r++) join(&members[r]);
    for (int i = 0; i < STRANGERS; i++)
        if (i % 3 != 2) close(fds[i]);
    for (int r = 0; r < 2; r++) expect(&members[r], WEFT_OK, "");
    assert_int_equal(members[0].n_lines, 1);
}

TEST(strangers_hold_up_nobody) {
    with_strangers(NULL);
    write_key("a.key", 'a', 0600);
    with_strangers(&key_a);
}

static void nothing(int signal) { (void)signal; }

TEST(a_signal_does_not_end_the_gathering) {
    int port = free_port();
    member members[2] = {member_at(0, 2, port), member_at(1, 2, port)};
    struct sigaction action = {.sa_handler = nothing}, before;
    sigaction(SIGUSR1, &action, &before);
    start(&members[0]);
    for (int i = 0; i < 20; i++) {
        wefti_sleep_until_s(wefti_now_s() + 0.01);
        pthread_kill(members[0].thread, SIGUSR1);
    }
    start(&members[1]);
    for (int r = 0; r < 2; r++) join(&members[r]);
    for (int r = 0; r < 2; r++) expect(&members[r], WEFT_OK, "");
    sigaction(SIGUSR1, &before, NULL);
}

TEST(too_few_files_are_said) {
    struct rlimit limit, low;
    member zero = member_at(0, 1000, free_port());
    getrlimit(RLIMIT_NOFILE, &limit);
    low = (struct rlimit){400, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    zero.place.patience_s = 0.1;
    start(&zero);
    join(&zero);
    getrlimit(RLIMIT_NOFILE, &low);
    if (limit.rlim_max >= 1128) assert_int_equal(low.rlim_cur, 1128);
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* -- rank 1 of 2 is driven by hand -- */

/* Connects and greets as rank 1. */
static int be_rank_1(int port) {
    unsigned char card[WEFTI_CARD_BYTES] = "wefT", cards[2 * WEFTI_CARD_BYTES], answer;
    const char *words = wefti_mesh_greeting();
    unsigned char hello[8 + WEFTI_ENVELOPE_BYTES + 64] = {0};
    wefti_envelope envelope = {WEFTI_ENVELOPE_HELLO, 0, 1, (int64_t)strlen(words)};
    int n = WEFTI_ENVELOPE_BYTES + (int)strlen(words), fd = dial(port);
    wefti_put_u32(card + 4, 4);
    wefti_put_u32(card + 8, 2);
    wefti_put_u32(card + 12, 1);
    memcpy(card + WEFTI_CARD_HOST_AT, "else\033where", 11);
    assert_int_equal(send(fd, card, sizeof card, 0), (int)sizeof card);
    assert_int_equal(recv(fd, &answer, 1, MSG_WAITALL), 1);
    assert_int_equal(answer, 1);
    assert_int_equal(recv(fd, cards, sizeof cards, MSG_WAITALL), (int)sizeof cards);
    wefti_put_u32(hello + 4, (uint32_t)n);
    wefti_envelope_encode(&envelope, hello + 8);
    memcpy(hello + 8 + WEFTI_ENVELOPE_BYTES, words, strlen(words));
    assert_int_equal(send(fd, hello, (size_t)n + 8, 0), n + 8);
    return fd;
}

static weft_status wait_for_one(member *m) {
    const void *view;
    return wefti_comm_receive(m->comm, 1, 1, 8, &view);
}

/* Rank 1 sends these bytes and hangs up; nobody is missed by silence. */
static void hang_up_after(const void *bytes, size_t n, const char *words) {
    int port = free_port();
    member zero = member_at(0, 2, port);
    zero.body = wait_for_one;
    zero.silence_s = 0;
    start(&zero);
    int fd = be_rank_1(port);
    assert_int_equal(send(fd, bytes, n, 0), (int)n);
    wefti_sleep_until_s(wefti_now_s() + 0.1);
    close(fd);
    join(&zero);
    expect(&zero, WEFT_ERR_PEER, words);
}

TEST(an_end_is_noticed_wherever_it_comes) {
    unsigned char bytes[8 + WEFTI_ENVELOPE_BYTES + 8 + 50] = {0};
    wefti_envelope envelope = {WEFTI_ENVELOPE_LONG, 0, 1, 100};
    const char *words = "rank 1 (host else?where) has closed its connection";
    wefti_put_u32(bytes + 4, WEFTI_ENVELOPE_BYTES);
    wefti_envelope_encode(&envelope, bytes + 8);
    wefti_put_u32(bytes + 8 + WEFTI_ENVELOPE_BYTES, 1);
    wefti_put_u32(bytes + 12 + WEFTI_ENVELOPE_BYTES, 100);
    hang_up_after(bytes, 3, words);                        /* in a head */
    hang_up_after(bytes, 8 + 10, words);                   /* in an envelope */
    hang_up_after(bytes, 8 + WEFTI_ENVELOPE_BYTES, words); /* before a piece */
    hang_up_after(bytes, sizeof bytes, words);             /* in a piece */
}

TEST(frames_that_are_none_are_refused) {
    unsigned char bytes[8] = {0};
    wefti_put_u32(bytes + 4, WEFT_TRANSPORT_BYTES + 1);
    hang_up_after(bytes, sizeof bytes, "no message of weft came from host else?where");
    wefti_put_u32(bytes, 2);
    wefti_put_u32(bytes + 4, 1);
    hang_up_after(bytes, sizeof bytes, "no message of weft came from host else?where");
}
