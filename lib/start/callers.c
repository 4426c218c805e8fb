/* SPDX-License-Identifier: MIT */
/* Callers at a listening socket, from accept up to their card (callers.h says which limits
 * apply to them). The list has no holes: the last entry replaces one that is removed. So
 * places change, and a caller that has to be found again has a number of its own. */
#define _GNU_SOURCE
#include "start/callers.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/socket.h"
#include "net/guard.h"

/* How many calls of a flood are accepted at a time: this thread carries a run's messages,
 * too. */
enum { MAX_SPOKEN = 64, TAKEN_AT_ONCE = 16 };
static const double caller_s = 5, quiet_s = 60;

/* An address about which a complaint was logged. */
typedef struct wefti_spoken {
    double when_s;
    char address[WEFTI_CALLER_ADDRESS_BYTES];
} spoken;

bool wefti_callers_init(wefti_callers *all) {
    all->n = all->n_spoken = 0;
    all->list = calloc(WEFTI_MAX_CALLERS, sizeof *all->list);
    all->spoken = calloc(MAX_SPOKEN, sizeof *all->spoken);
    return all->list && all->spoken;
}

static void drop(wefti_callers *all, int i) {
    wefti_connection_close(&all->list[i].stream);
    free(all->list[i].out);
    all->list[i] = all->list[--all->n];
}

void wefti_callers_fini(wefti_callers *all) {
    while (all->n > 0) drop(all, all->n - 1);
    free(all->list);
    free(all->spoken);
    all->list = NULL;
    all->spoken = NULL;
}

void wefti_callers_complain(wefti_callers *all, const char *address, const char *what) {
    double now_s = wefti_now_s();
    if (!all->ctx) return;
    for (int i = 0; i < all->n_spoken && i < MAX_SPOKEN; i++)
        if (strcmp(all->spoken[i].address, address) == 0 &&
            now_s - all->spoken[i].when_s < quiet_s)
            return;
    spoken *s = &all->spoken[all->n_spoken % MAX_SPOKEN];
    if (all->n_spoken >= MAX_SPOKEN && now_s - s->when_s < quiet_s)
        return; /* many addresses may belong to one stranger */
    all->n_spoken++;
    s->when_s = now_s;
    memcpy(s->address, address, sizeof s->address);
    char whom[32];
    snprintf(whom, sizeof whom, "rank %d", all->rank);
    weft_ctx_log(all->ctx, WEFT_LOG_WARN, "somebody at %s called %s and %s", address,
                 all->name ? all->name : whom, what);
}

static int count_from(const wefti_callers *all, const char *address) {
    int n = 0;
    for (int i = 0; i < all->n; i++) n += strcmp(all->list[i].address, address) == 0;
    return n;
}

/* Drops the oldest caller of the address with the most callers. */
static void make_room(wefti_callers *all) {
    int worst = 0, most = 0;
    for (int i = 0; i < all->n; i++) {
        int n = count_from(all, all->list[i].address);
        bool older = all->list[i].since_s < all->list[worst].since_s;
        if (n > most || (n == most && older)) worst = i, most = n;
    }
    wefti_callers_complain(all, all->list[worst].address, "did not say who it is");
    drop(all, worst);
}

static void add(wefti_callers *all, int fd, const struct sockaddr *from, bool answers) {
    if (all->n == WEFTI_MAX_CALLERS) make_room(all);
    wefti_caller *c = &all->list[all->n];
    *c = (wefti_caller){.stream = wefti_connection_of(fd),
                        .since_s = wefti_now_s(),
                        .number = ++all->n_called};
    c->shaken = !all->tls;
    wefti_socket_address(from, c->address, sizeof c->address);
    if (all->tls) c->stream.tls = wefti_tls_create(all->tls, answers);
    if (c->stream.tls && !answers) wefti_tls_read_exactly(c->stream.tls);
    if (all->tls && !c->stream.tls)
        wefti_connection_close(&c->stream);
    else
        all->n++;
}

bool wefti_callers_call(wefti_callers *all, const struct sockaddr_storage *to,
                        const struct sockaddr_storage *whose, const unsigned char *card) {
    for (int i = 0; i < all->n; i++)
        if (all->list[i].outward &&
            memcmp(all->list[i].card, card, WEFTI_CARD_BYTES) == 0)
            return false;
    int fd = wefti_socket_begin(to);
    if (fd < 0) return false;
    int n = all->n == WEFTI_MAX_CALLERS ? all->n - 1 : all->n;
    union {
        const struct sockaddr_storage *storage;
        const struct sockaddr *any;
    } address = {.storage = whose};
    add(all, fd, address.any, false);
    if (all->n == n) return false;
    wefti_caller *c = &all->list[n];
    c->outward = c->spoke = true;
    c->stream.peer = *whose;
    if (to != whose) c->stream.relay = *to;
    memcpy(c->card, card, sizeof c->card);
    return true;
}

void wefti_callers_poll(wefti_callers *all, int most_ms) {
    struct pollfd fds[WEFTI_MAX_CALLERS + 1];
    for (int i = 0; i < all->n; i++) {
        const wefti_connection *s = &all->list[i].stream;
        fds[i] = (struct pollfd){.fd = s->fd,
                                 .events = s->writable ? POLLIN : POLLIN | POLLOUT};
    }
    fds[all->n] = (struct pollfd){.fd = all->listener, .events = POLLIN};
    if (poll(fds, (nfds_t)all->n + 1, most_ms) <= 0) return;
    for (int i = 0; i < all->n; i++)
        wefti_connection_ready(&all->list[i].stream, (unsigned short)fds[i].revents);
}

bool wefti_callers_accept(wefti_callers *all) {
    all->more = false;
    for (int n = 0; n < TAKEN_AT_ONCE; n++) {
        struct sockaddr_storage from;
        union {
            struct sockaddr_storage *storage;
            struct sockaddr *any;
        } address = {.storage = &from};
        socklen_t size = sizeof from;
        int fd = wefti_socket_accept(all->listener, address.any, &size);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) return false;
        if (fd < 0) return true; /* none waits, or the caller has hung up */
        add(all, fd, address.any, true);
    }
    all->more = true;
    return true;
}

/* Continues the handshake as far as possible. WAITS: it is done, or needs more bytes. */
static wefti_caller_fate shake(wefti_callers *all, wefti_caller *c) {
    bool refused;
    if (c->shaken) return WEFTI_CALLER_WAITS;
    wefti_shake result = wefti_tls_shake(c->stream.tls, &c->stream, &refused);
    c->shaken = result == WEFTI_SHAKE_DONE;
    if (result != WEFTI_SHAKE_FAILED) return WEFTI_CALLER_WAITS;
    if (refused) wefti_callers_complain(all, c->address, "does not have this run's key");
    return WEFTI_CALLER_GONE;
}

static wefti_caller_fate send_answer(wefti_caller *c) {
    struct iovec part = {c->out + c->n_sent, c->n_out - c->n_sent};
    c->n_sent += wefti_connection_write(&c->stream, &part, 1);
    bool over = c->n_sent == c->n_out || c->stream.fd < 0;
    return over ? WEFTI_CALLER_GONE : WEFTI_CALLER_WAITS;
}

/* Before its first byte. It may inquire (guard.h) instead. */
static wefti_caller_fate wait_for_word(const wefti_callers *all, wefti_caller *c) {
    unsigned char q[WEFTI_GUARD_QUESTION];
    ssize_t n = recv(c->stream.fd, q, sizeof q, MSG_PEEK | MSG_DONTWAIT);
    c->spoke = n > 0 && q[0] != WEFTI_GUARD_ASKS;
    bool asks = n == 0 || (n == (ssize_t)sizeof q && !c->spoke);
    if (asks && n > 0) n = recv(c->stream.fd, q, sizeof q, MSG_DONTWAIT);
    if (asks && all->n_words > 0)
        (void)send(c->stream.fd, all->words, (size_t)all->n_words,
                   MSG_NOSIGNAL | MSG_DONTWAIT);
    bool waits = !asks && (n > 0 || errno == EAGAIN || errno == EINTR);
    return waits ? WEFTI_CALLER_WAITS : WEFTI_CALLER_GONE;
}

/* Shows the card to one that was called, and reads the answer: then it is as one that calls. */
static wefti_caller_fate show_card(wefti_callers *all, wefti_caller *c) {
    unsigned char code = 0;
    struct iovec part = {c->card + c->n_card, (size_t)(WEFTI_CARD_BYTES - c->n_card)};
    if (part.iov_len > 0) c->n_card += (int)wefti_connection_write(&c->stream, &part, 1);
    part = (struct iovec){&code, 1};
    if (c->n_card == WEFTI_CARD_BYTES) (void)wefti_connection_read(&c->stream, &part, 1);
    if (code == 0 && c->stream.fd >= 0) return WEFTI_CALLER_WAITS;
    if (code != 1 || c->stream.fd < 0) return WEFTI_CALLER_GONE;
    wefti_connection_bare(&c->stream);
    if (all->tls && !(c->stream.tls = wefti_tls_create(all->tls, true)))
        return WEFTI_CALLER_GONE;
    c->outward = c->spoke = c->reported = false;
    c->shaken = !all->tls;
    c->n_card = 0;
    c->since_s = wefti_now_s();
    return WEFTI_CALLER_WAITS;
}

static wefti_caller_fate hear(wefti_callers *all, wefti_caller *c) {
    if (!c->spoke) {
        wefti_caller_fate word = wait_for_word(all, c);
        if (!c->spoke) return word;
    }
    wefti_caller_fate fate = shake(all, c);
    if (!c->shaken || fate == WEFTI_CALLER_GONE) return fate;
    if (c->out) return send_answer(c);
    if (c->outward) fate = show_card(all, c);
    if (c->outward || fate == WEFTI_CALLER_GONE) return fate;
    if (!c->spoke) return hear(all, c);
    if (c->n_card == WEFTI_CARD_BYTES)
        return WEFTI_CALLER_WAITS; /* for the answer to its card */
    struct iovec part = {c->card + c->n_card, (size_t)(WEFTI_CARD_BYTES - c->n_card)};
    c->n_card += (int)wefti_connection_read(&c->stream, &part, 1);
    if (c->n_card == WEFTI_CARD_BYTES) return all->admit(all->user, c);
    if (c->stream.fd >= 0) return WEFTI_CALLER_WAITS;
    wefti_callers_complain(all, c->address, "sent nothing that weft knows");
    return WEFTI_CALLER_GONE;
}

int wefti_callers_hear(wefti_callers *all) {
    int n = 0;
    for (int i = all->n - 1; i >= 0; i--) {
        wefti_caller *c = &all->list[i];
        bool late = wefti_now_s() - c->since_s > caller_s;
        wefti_caller_fate fate = late ? WEFTI_CALLER_GONE : hear(all, c);
        if (late) wefti_callers_complain(all, c->address, "did not say who it is");
        if (fate == WEFTI_CALLER_TAKEN) c->stream = wefti_connection_of(-1);
        if (fate != WEFTI_CALLER_WAITS) drop(all, i);
        n += fate == WEFTI_CALLER_TAKEN;
    }
    return n;
}

wefti_caller *wefti_callers_find(wefti_callers *all, unsigned number) {
    for (int i = 0; i < all->n; i++)
        if (all->list[i].number == number) return &all->list[i];
    return NULL;
}

wefti_connection wefti_callers_take(wefti_callers *all, wefti_caller *caller) {
    wefti_connection stream = caller->stream;
    caller->stream = wefti_connection_of(-1);
    drop(all, (int)(caller - all->list));
    return stream;
}

void wefti_callers_answer(wefti_callers *all, wefti_caller *caller, const void *bytes,
                          size_t n) {
    (void)all;
    caller->out = malloc(n);
    if (!caller->out) {
        wefti_connection_close(&caller->stream);
        return;
    }
    memcpy(caller->out, bytes, n);
    caller->n_out = n;
    (void)send_answer(caller);
}
