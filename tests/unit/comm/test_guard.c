/* SPDX-License-Identifier: MIT */
/* A guard speaks for a process that has died, and only then. */
#define _GNU_SOURCE
#include "net/guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "base/memory.h"
#include "net/socket.h"
#include "start/tcp.h"
#include "start/vitals.h"

static void keep_state(wefti_guard *g, bool over) {
    const wefti_vitals v = {.state = over ? WEFTI_VITAL_OVER : WEFTI_VITAL_ENDED};
    unsigned char bytes[WEFTI_VITALS_BYTES];
    wefti_vitals_write(&v, 1, bytes);
    wefti_guard_keep(g, bytes, sizeof bytes, 1);
}

/* A child that keeps `words`, then waits to be killed ('k'; 't': two may ask; 'v', 'o': it says
 * that it, or its run, has ended), or ends as `how` says: 'd' or 'e', or becomes another program:
 * 'x'. [out] the port of its listener. */
static pid_t start(char how, int *port, int *alive) {
    int to[2];
    assert_int_equal(pipe(to), 0);
    pid_t child = fork();
    if (child == 0) {
        int fd = wefti_socket_listen(true, 0);
        wefti_guard *g = wefti_guard_start(fd, wefti_socket_port(fd));
        if (!g) _exit(2);
        wefti_guard_keep(g, "first", 5, 1);
        wefti_guard_keep(g, "words", 5, how == 't' ? 2 : 1);
        if (how == 'o' || how == 'v') keep_state(g, how == 'o');
        if (how == 'd' || how == 'e') wefti_guard_end(g, how == 'e');
        int p = wefti_socket_port(fd);
        if (write(to[1], &p, sizeof p) != sizeof p) _exit(3);
        if (how == 'e') close(fd);
        if (how == 'd') _exit(0);
        if (how == 'x') execl("/bin/sleep", "sleep", "60", (char *)NULL);
        for (;;) pause();
    }
    close(to[1]);
    ssize_t n = read(to[0], port, sizeof *port);
    *alive = n == sizeof *port;
    close(to[0]);
    return child;
}

static void end(pid_t child) {
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static int call(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
    close(fd);
    return -1;
}

/* What comes back within `ms`; 0: it hung up, -1: nothing and no end, -2: refused. */
static ssize_t ask(int port, const char *says, char *out, size_t size, int ms) {
    int fd = call(port);
    if (fd < 0) return -2;
    size_t n_said = says && !says[0] ? WEFTI_GUARD_QUESTION : says ? strlen(says) : 0;
    if (n_said && write(fd, says, n_said) < 0) return -2;
    if (!says || !says[0]) shutdown(fd, SHUT_WR);
    struct pollfd one = {.fd = fd, .events = POLLIN};
    bool came = poll(&one, 1, ms) == 1;
    ssize_t n = came ? recv(fd, out, size, 0) : -1;
    close(fd);
    return came && n < 0 ? 0 : n;
}

TEST(who_inquires_after_a_kill_gets_the_last_words) {
    int port, alive;
    char text[64];
    pid_t child = start('k', &port, &alive);
    if (!alive) skip();
    assert_int_equal(ask(port, NULL, text, sizeof text, 200), -1); /* it lives */
    end(child);
    assert_int_equal(ask(port, "GET", text, sizeof text, 5000), 0); /* is hung up on */
    assert_int_equal(ask(port, NULL, text, sizeof text, 5000), 5);
    assert_memory_equal(text, "words", 5);
}

static const char by_one[] = {WEFTI_GUARD_ASKS, 4, 1},
                  by_two[] = {WEFTI_GUARD_ASKS, 5, 1};

static void expect_end(int port) {
    char text[64];
    for (int i = 0; i < 600 && ask(port, NULL, text, sizeof text, 1000) != -2; i++)
        usleep(50000);
    assert_int_equal(ask(port, NULL, text, sizeof text, 1000), -2);
}

TEST(the_guard_ends_when_all_have_asked) {
    int port, alive;
    char text[64];
    pid_t child = start('k', &port, &alive);
    if (!alive) skip();
    end(child);
    assert_int_equal(ask(port, by_one, text, sizeof text, 5000), 5);
    expect_end(port);
}

/* A member that calls again, and who is no member, are not those that still have to ask. */
TEST(who_asks_twice_is_one) {
    int port, alive;
    char text[64];
    pid_t child = start('t', &port, &alive);
    if (!alive) skip();
    end(child);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(port, i < 2 ? by_one : NULL, text, sizeof text, 5000), 5);
        usleep(700000); /* it ends half a second after its last answer */
    }
    assert_int_equal(ask(port, by_two, text, sizeof text, 5000), 5);
    expect_end(port);
}

TEST(who_joins_at_the_port_of_a_guard_hears_why_not) {
    for (int over = 0; over <= 1; over++) {
        int port, alive;
        char text[64];
        wefti_tcp_place place = {.patience_s = 1};
        wefti_tcp_endpoint *endpoints;
        weft_transport *transport;
        weft_ctx *ctx;
        pid_t child = start(over ? 'o' : 'v', &port, &alive);
        if (!alive) skip();
        end(child);
        assert_int_equal(ctx_begin(&ctx), 0);
        snprintf(text, sizeof text, "127.0.0.1:%d", port);
        assert_ok(ctx,
                  wefti_tcp_endpoints(ctx, text, 1, 1, &endpoints, &place.n_endpoints));
        place.endpoints = endpoints;
        assert_int_equal(wefti_tcp_enter(ctx, &place, NULL, &transport), WEFT_ERR_PEER);
        assert_non_null(strstr(weft_ctx_message(ctx),
                               over ? "the run there has ended"
                                    : "the process that listened there has ended"));
        weft_ctx_clear(ctx);
        wefti_free(ctx, endpoints);
        assert_int_equal(ctx_end(ctx), 0);
    }
}

/* Whose call is slow gives up and calls again: the answer that it did not take does not count. */
TEST(who_hangs_up_before_the_answer_may_ask_again) {
    int port, alive;
    char text[64];
    pid_t child = start('k', &port, &alive);
    if (!alive) skip();
    end(child);
    close(call(port));
    usleep(1200000); /* the guard ends half a second after its last answer */
    assert_int_equal(ask(port, NULL, text, sizeof text, 5000), 5);
}

TEST(after_an_orderly_end_nobody_speaks) {
    int port, alive;
    char text[64];
    pid_t child = start('d', &port, &alive);
    if (!alive) skip();
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (int i = 0; i < 600 && ask(port, NULL, text, sizeof text, 1000) != -2; i++)
        usleep(50000);
    assert_int_equal(ask(port, NULL, text, sizeof text, 1000), -2);
}

TEST(a_process_whose_part_has_ended_is_spoken_for_while_it_lives) {
    int port, alive;
    char text[64];
    pid_t child = start('e', &port, &alive);
    if (!alive) skip();
    assert_int_equal(ask(port, NULL, text, sizeof text, 5000), 5);
    end(child);
}

/* As weft train does that comes back; a new process may have the port at once. */
TEST(a_process_that_becomes_another_program_is_spoken_for) {
    int port, alive, fd = -1;
    char text[64];
    pid_t child = start('x', &port, &alive);
    if (!alive) skip();
    assert_int_equal(ask(port, NULL, text, sizeof text, 5000), 5);
    for (int i = 0; i < 600 && fd < 0; i++) {
        fd = wefti_socket_listen(true, port);
        usleep(1000);
    }
    assert_true(fd >= 0);
    close(fd);
    end(child);
}

TEST(a_new_process_gets_the_port_of_a_dead_one_and_not_of_a_living) {
    int port, alive;
    char text[64];
    pid_t child = start('k', &port, &alive);
    if (!alive) skip();
    assert_int_equal(wefti_socket_listen(true, port), -1);
    assert_false(wefti_socket_is_free(port));
    end(child);
    for (int i = 0; i < 600 && ask(port, "x", text, sizeof text, 5000) != 0; i++)
        usleep(1000);                         /* until the guard has noticed */
    assert_false(wefti_socket_is_free(port)); /* which asks nobody to go */
    int fd = wefti_socket_listen(true, port);
    assert_true(fd >= 0);
    close(fd);
}

TEST(a_port_that_a_process_without_a_guard_has_is_said_to_be_in_use) {
    int first = wefti_socket_listen(true, 0);
    assert_int_equal(wefti_socket_listen(true, wefti_socket_port(first)), -1);
    assert_int_equal(errno, EADDRINUSE);
    close(first);
}

static const wefti_vitals example = {
    .state = WEFTI_VITAL_ENDED,
    .id = {3, 0x1122334455667788},
    .view = 70000000000,
    .record = {70000000001, {0xfedcba9876543210, 4}, 70000000000, {2, 9}, 77}};

TEST(vitals_come_back_as_they_were_said) {
    unsigned char bytes[WEFTI_VITALS_BYTES];
    wefti_vitals v;
    wefti_vitals_write(&example, 77, bytes);
    assert_true(wefti_vitals_read(bytes, (int)sizeof bytes, 77, &v));
    assert_int_equal(v.state, example.state);
    assert_true(wefti_node_is(v.id, example.id));
    assert_true(v.view == example.view &&
                v.record.promised_view == example.record.promised_view &&
                wefti_ballot_is(v.record.promised, example.record.promised) &&
                v.record.accepted_view == example.record.accepted_view &&
                v.record.chain == example.record.chain);
}

TEST(changed_or_foreign_vitals_are_not_believed) {
    unsigned char bytes[WEFTI_VITALS_BYTES];
    wefti_vitals v;
    wefti_vitals_write(&example, 77, bytes);
    assert_false(wefti_vitals_read(bytes, (int)sizeof bytes, 78, &v));
    assert_false(wefti_vitals_read(bytes, (int)sizeof bytes - 1, 77, &v));
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 4;
        assert_false(wefti_vitals_read(bytes, (int)sizeof bytes, 77, &v));
        bytes[i] ^= 4;
    }
    wefti_vitals odd = example;
    odd.state = (wefti_vital_state)9;
    wefti_vitals_write(&odd, 77, bytes);
    assert_false(wefti_vitals_read(bytes, (int)sizeof bytes, 77, &v));
}
