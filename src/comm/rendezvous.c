/* SPDX-License-Identifier: MIT */
/* Whoever reaches the port can call. So a caller has a few seconds, of the callers that
 * have not shown who they are there are few at a time (the oldest of the address with the
 * most gives way), all of them are heard at the same time, nothing is allocated for them
 * beyond their handshake, and an address is complained about once a minute. */
#define _GNU_SOURCE
#include "comm/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/text.h"

enum {
    CARD_VERSION = 2,
    ADDRESS_AT = WEFTI_CARD_HOST_AT + WEFTI_CARD_HOST_BYTES,
    ADDRESS_BYTES = WEFTI_CARD_BYTES - ADDRESS_AT,
    MAX_CALLERS = 64,
    MAX_SPOKEN = 64,
    BACKLOG = 1024,
    SPARE_FILES = 64 /* what else a process keeps open */
};
static const char magic[4] = {'w', 'e', 'f', 'T'};
static const double caller_s = 5, say_after_s = 3, again_s = 0.1, quiet_s = 60,
                    name_s = 10;

/* What a card is answered with. */
enum { ANSWER_WELCOME = 1, ANSWER_OTHER_SIZE, ANSWER_TAKEN };

/* Somebody who has called and not shown yet who it is. */
typedef struct caller {
    wefti_connection stream;
    bool shaken; /* the handshake is over */
    double since_s;
    int n_card;
    unsigned char card[WEFTI_CARD_BYTES];
    char address[ADDRESS_BYTES];
} caller;

/* An address that was complained about. */
typedef struct spoken {
    double when_s;
    char address[ADDRESS_BYTES];
} spoken;

typedef struct gathering {
    weft_ctx *ctx;
    const wefti_tcp_place *place;
    const wefti_tls_context *tls;
    wefti_connection *streams;
    unsigned char *cards;
    double begin_s, until_s;
    bool told;          /* whom it waits for */
    bool local;         /* nobody from another machine can call */
    int listener, port; /* own */
    caller *callers;    /* [MAX_CALLERS] */
    int n_callers;
    spoken *spoken; /* [MAX_SPOKEN] a ring */
    int n_spoken;
} gathering;

static unsigned char *card_of(const gathering *g, int rank) {
    return g->cards + (size_t)rank * WEFTI_CARD_BYTES;
}

static weft_status complain(const gathering *g, const char *what, const char *why) {
    return weft_ctx_fail(g->ctx, WEFT_ERR_PEER, "rank %d of %d %s (%s:%d): %s",
                         g->place->rank, g->place->size, what, g->place->host,
                         g->place->port, why);
}

static weft_status complain_of_system(const gathering *g, const char *what) {
    return complain(g, what, strerror(errno));
}

/* --- cards --- */

static void write_card(const gathering *g, unsigned char *card) {
    memset(card, 0, WEFTI_CARD_BYTES);
    memcpy(card, magic, sizeof magic);
    wefti_put_u32(card + 4, CARD_VERSION);
    wefti_put_u32(card + 8, (uint32_t)g->place->size);
    wefti_put_u32(card + 12, (uint32_t)g->place->rank);
    wefti_put_u32(card + 16, (uint32_t)g->port);
    gethostname((char *)card + WEFTI_CARD_HOST_AT, WEFTI_CARD_HOST_BYTES - 1);
}

int wefti_card_port(const unsigned char *card) {
    return (int)(wefti_get_u32(card + 16) & 0xffff);
}

static bool is_card(const unsigned char *card) {
    return memcmp(card, magic, sizeof magic) == 0 &&
           wefti_get_u32(card + 4) == CARD_VERSION;
}

int wefti_card_read(unsigned char *card, int size) {
    uint32_t rank = wefti_get_u32(card + 12);
    card[ADDRESS_AT - 1] = card[WEFTI_CARD_BYTES - 1] = 0;
    wefti_text_plain((char *)card + WEFTI_CARD_HOST_AT);
    wefti_text_plain((char *)card + ADDRESS_AT);
    bool ours = is_card(card) && wefti_get_u32(card + 8) == (uint32_t)size &&
                rank < (uint32_t)size;
    return ours ? (int)rank : -1;
}

/* --- names --- */

/* NULL: *error is what getaddrinfo returned, *why its words. */
static struct addrinfo *resolve(const char *host, int port, int *error,
                                const char **why) {
    char service[16];
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    snprintf(service, sizeof service, "%d", port);
    *error = getaddrinfo(host, service, &wanted, &list);
    *why = *error == EAI_SYSTEM ? strerror(errno) : gai_strerror(*error);
    return *error == 0 ? list : NULL;
}

static bool is_loopback(const struct sockaddr *address) {
    union {
        const struct sockaddr *any;
        const struct sockaddr_in *v4;
        const struct sockaddr_in6 *v6;
    } a = {.any = address};
    if (address->sa_family == AF_INET)
        return ntohl(a.v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a.v6->sin6_addr);
}

/* Names that nobody knows yet may become known, as where containers start together. */
static weft_status find_names(gathering *g) {
    double until_s = fmin(g->until_s, g->begin_s + name_s);
    for (;;) {
        int error;
        const char *why;
        struct addrinfo *list = resolve(g->place->host, g->place->port, &error, &why);
        bool local = list != NULL;
        for (struct addrinfo *a = list; a; a = a->ai_next)
            local = local && is_loopback(a->ai_addr);
        if (list) freeaddrinfo(list);
        g->local = local;
        if (list) return WEFT_OK;
        bool later = error == EAI_AGAIN || error == EAI_SYSTEM;
        if (!later || wefti_now_s() >= until_s)
            return complain(g, "does not find the machine of rank 0", why);
        wefti_sleep_until_s(wefti_now_s() + again_s);
    }
}

/* --- the own port --- */

typedef union endpoint {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} endpoint;

/* At all addresses, of IPv6 too where there is one; or at this machine's own only. */
static int open_socket(bool here, int port, endpoint *address, socklen_t *size) {
    int no = 0, type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    *address = (endpoint){
        .v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    *size = sizeof address->v6;
    int fd = here ? -1 : socket(AF_INET6, type, 0);
    if (fd >= 0) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (fd >= 0) return fd;
    address->v4 = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(here ? INADDR_LOOPBACK : INADDR_ANY)};
    *size = sizeof address->v4;
    return socket(AF_INET, type, 0);
}

static int listen_at(bool here, int port) {
    endpoint address;
    socklen_t size;
    int yes = 1, fd = open_socket(here, port, &address, &size);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, &address.any, size) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int wefti_gather_listen(int port) { return listen_at(false, port); }

int wefti_gather_port(int fd) {
    endpoint address = {.v4 = {0}};
    socklen_t size = sizeof address;
    if (getsockname(fd, &address.any, &size) != 0) return 0;
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port
                                                  : address.v6.sin6_port);
}

/* --- callers --- */

/* Once a minute for an address. */
static void log_stranger(gathering *g, const char *address, const char *what) {
    double now_s = wefti_now_s();
    for (int i = 0; i < g->n_spoken && i < MAX_SPOKEN; i++)
        if (strcmp(g->spoken[i].address, address) == 0 &&
            now_s - g->spoken[i].when_s < quiet_s)
            return;
    spoken *s = &g->spoken[g->n_spoken++ % MAX_SPOKEN];
    s->when_s = now_s;
    memcpy(s->address, address, sizeof s->address);
    weft_ctx_log(g->ctx, WEFT_LOG_WARN, "somebody at %s called rank %d and %s", address,
                 g->place->rank, what);
}

static void drop_caller(gathering *g, int i) {
    wefti_connection_close(&g->callers[i].stream);
    g->callers[i] = g->callers[--g->n_callers];
}

static int count_from(const gathering *g, const char *address) {
    int n = 0;
    for (int i = 0; i < g->n_callers; i++)
        n += strcmp(g->callers[i].address, address) == 0;
    return n;
}

/* The oldest of the address with the most. */
static void make_room(gathering *g) {
    int worst = 0, most = 0;
    for (int i = 0; i < g->n_callers; i++) {
        int n = count_from(g, g->callers[i].address);
        bool older = g->callers[i].since_s < g->callers[worst].since_s;
        if (n > most || (n == most && older)) worst = i, most = n;
    }
    log_stranger(g, g->callers[worst].address, "did not say who it is");
    drop_caller(g, worst);
}

static void add_caller(gathering *g, int fd, const struct sockaddr *from,
                       socklen_t size) {
    if (g->n_callers == MAX_CALLERS) make_room(g);
    caller *c = &g->callers[g->n_callers];
    *c = (caller){.stream = wefti_connection_of(fd), .since_s = wefti_now_s()};
    c->shaken = !g->tls;
    if (getnameinfo(from, size, c->address, sizeof c->address, NULL, 0, NI_NUMERICHOST) !=
        0)
        c->address[0] = 0;
    if (g->tls) c->stream.tls = wefti_tls_create(g->tls, true);
    if (g->tls && !c->stream.tls)
        wefti_connection_close(&c->stream);
    else
        g->n_callers++;
}

/* All that wait; false: the process can open no more files. */
static bool accept_all(gathering *g) {
    for (;;) {
        struct sockaddr_storage from;
        union {
            struct sockaddr_storage *storage;
            struct sockaddr *any;
        } address = {.storage = &from};
        socklen_t size = sizeof from;
        int fd = accept4(g->listener, address.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) return false;
        if (fd < 0) return true; /* none, or one that has gone again */
        add_caller(g, fd, address.any, size);
    }
}

static void answer(caller *c, unsigned char code) {
    struct iovec part = {&code, 1};
    (void)wefti_connection_write(&c->stream, &part, 1);
}

/* The card is here. Whether it was one of ours, who now is connected. */
static bool admit(gathering *g, caller *c) {
    int rank = wefti_card_read(c->card, g->place->size);
    bool taken = rank >= 0 && (rank == g->place->rank || g->streams[rank].fd >= 0);
    if (rank >= 0 && !taken) {
        char *address = (char *)c->card + ADDRESS_AT;
        answer(c, ANSWER_WELCOME);
        memcpy(address, c->address, sizeof c->address);
        memcpy(card_of(g, rank), c->card, sizeof c->card);
        g->streams[rank] = c->stream;
        return true;
    }
    if (is_card(c->card)) answer(c, taken ? ANSWER_TAKEN : ANSWER_OTHER_SIZE);
    log_stranger(g, c->address,
                 taken              ? "has a number that is taken"
                 : is_card(c->card) ? "belongs to another number of ranks"
                                    : "does not speak as weft does");
    return false;
}

typedef enum verdict { VERDICT_LATER, VERDICT_ADMITTED, VERDICT_GONE } verdict;

static verdict hear_caller(gathering *g, caller *c) {
    if (!c->shaken) {
        bool refused;
        wefti_shake shake = wefti_tls_shake(c->stream.tls, &c->stream, &refused);
        if (shake == WEFTI_SHAKE_AGAIN) return VERDICT_LATER;
        if (refused) log_stranger(g, c->address, "does not have this run's key");
        if (shake == WEFTI_SHAKE_FAILED) return VERDICT_GONE;
        c->shaken = true;
    }
    struct iovec part = {c->card + c->n_card, (size_t)(WEFTI_CARD_BYTES - c->n_card)};
    c->n_card += (int)wefti_connection_read(&c->stream, &part, 1);
    if (c->n_card == WEFTI_CARD_BYTES)
        return admit(g, c) ? VERDICT_ADMITTED : VERDICT_GONE;
    if (c->stream.fd < 0) log_stranger(g, c->address, "said nothing that weft knows");
    return c->stream.fd < 0 ? VERDICT_GONE : VERDICT_LATER;
}

/* Returns how many have been admitted. */
static int hear_callers(gathering *g) {
    int n = 0;
    for (int i = g->n_callers - 1; i >= 0; i--) {
        caller *c = &g->callers[i];
        bool late = wefti_now_s() - c->since_s > caller_s;
        verdict v = late ? VERDICT_GONE : hear_caller(g, c);
        if (late) log_stranger(g, c->address, "did not say who it is");
        if (v == VERDICT_ADMITTED) c->stream = wefti_connection_of(-1);
        if (v != VERDICT_LATER) drop_caller(g, i);
        n += v == VERDICT_ADMITTED;
    }
    return n;
}

static void poll_callers(gathering *g) {
    struct pollfd all[MAX_CALLERS + 1];
    double wait_s = fmin(g->until_s - wefti_now_s(), again_s * 5);
    for (int i = 0; i < g->n_callers; i++)
        all[i] = (struct pollfd){.fd = g->callers[i].stream.fd, .events = POLLIN};
    all[g->n_callers] = (struct pollfd){.fd = g->listener, .events = POLLIN};
    if (poll(all, (nfds_t)g->n_callers + 1, (int)(fmax(wait_s, 0) * 1000) + 1) <= 0)
        return;
    for (int i = 0; i < g->n_callers; i++)
        wefti_connection_ready(&g->callers[i].stream, (unsigned short)all[i].revents);
}

/* "2, 3, 5": the ranks from `first` on that have not called. */
static void list_missing(const gathering *g, int first, char *out, size_t size) {
    size_t n = 0;
    out[0] = 0;
    for (int r = first; r < g->place->size && n + 24 < size; r++) {
        if (r == g->place->rank || g->streams[r].fd >= 0) continue;
        bool full = n + 48 > size;
        n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "",
                              full ? "..." : "");
        if (full) return;
        n += (size_t)snprintf(out + n, size - n, "%d", r);
    }
}

static void say_who_is_missing(gathering *g, int first) {
    char missing[120];
    if (g->told || wefti_now_s() - g->begin_s < say_after_s) return;
    g->told = true;
    list_missing(g, first, missing, sizeof missing);
    weft_ctx_log(g->ctx, WEFT_LOG_INFO, "rank %d of %d waits at port %d for rank %s%s",
                 g->place->rank, g->place->size, g->port, missing,
                 g->local && !g->tls ? " on this machine" : "");
}

static weft_status give_up(const gathering *g, int first) {
    char missing[120], what[200];
    list_missing(g, first, missing, sizeof missing);
    snprintf(what, sizeof what, "waits for others that do not come: rank %s", missing);
    return complain(g, what, strerror(ETIMEDOUT));
}

/* Takes calls until those from `first` on have come; strangers are sent away. */
static weft_status accept_calls(gathering *g, int first) {
    int n = g->place->size - first;
    while (n > 0) {
        if (wefti_now_s() >= g->until_s) return give_up(g, first);
        say_who_is_missing(g, first);
        poll_callers(g);
        if (!accept_all(g)) return complain_of_system(g, "can not take a call");
        n -= hear_callers(g);
    }
    while (g->n_callers > 0) drop_caller(g, g->n_callers - 1);
    return WEFT_OK;
}

/* --- calling --- */

/* Connected, or -1 with errno. */
static int connect_within(const struct addrinfo *a, double until_s) {
    int error = 0;
    socklen_t size = sizeof error;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
        error = errno;
    wefti_connection s = wefti_connection_of(fd);
    if (error == 0 && !wefti_connection_wait(&s, POLLOUT, until_s)) error = ETIMEDOUT;
    if (error == 0) (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return fd;
    close(fd);
    errno = error;
    return -1;
}

/* The first of a host's addresses that answers, or -1 with errno. */
static int call(const gathering *g, const char *host, int port) {
    int fd = -1, unknown;
    const char *why;
    struct addrinfo *list = resolve(host, port, &unknown, &why);
    errno = EHOSTUNREACH;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connect_within(a, fmin(g->until_s, wefti_now_s() + caller_s));
    int error = errno;
    if (list) freeaddrinfo(list);
    errno = error;
    return fd;
}

/* Whether the other side has the key. AGAIN: it has hung up. */
static wefti_shake shake(const gathering *g, wefti_connection *s) {
    double until_s = fmin(g->until_s, wefti_now_s() + 2 * caller_s);
    if (!g->tls) return WEFTI_SHAKE_DONE;
    s->tls = wefti_tls_create(g->tls, false);
    if (!s->tls) return WEFTI_SHAKE_AGAIN;
    for (;;) {
        bool refused;
        wefti_shake result = wefti_tls_shake(s->tls, s, &refused);
        if (result == WEFTI_SHAKE_DONE) return result;
        if (result == WEFTI_SHAKE_FAILED && refused) return result;
        if (result == WEFTI_SHAKE_FAILED) return WEFTI_SHAKE_AGAIN;
        short events = s->writable ? POLLIN : POLLIN | POLLOUT;
        if (!wefti_connection_wait(s, events, until_s)) return WEFTI_SHAKE_AGAIN;
    }
}

/* Shows the card; 0: it was not answered. */
static int introduce(const gathering *g, wefti_connection *s) {
    unsigned char code = 0;
    bool heard = wefti_connection_all(s, card_of(g, g->place->rank), WEFTI_CARD_BYTES,
                                      true, g->until_s) &&
                 wefti_connection_all(s, &code, 1, false, g->until_s);
    return heard ? code : 0;
}

static weft_status check_answer(const gathering *g, int rank, int code) {
    if (code == ANSWER_WELCOME) return WEFT_OK;
    if (code == ANSWER_TAKEN)
        return complain(g, "was sent away", "another process has the same RANK");
    if (code == ANSWER_OTHER_SIZE)
        return complain(g, "was sent away",
                        rank == 0 ? "rank 0 has another WORLD_SIZE"
                                  : "another rank has another WORLD_SIZE");
    return complain(g, "was sent away", "the other side does not speak as weft does");
}

/* One call. AGAIN: nobody answered, or hung up, errno says why. */
static weft_status try_call(gathering *g, int rank, const char *host, int port,
                            bool *again) {
    *again = true;
    int fd = call(g, host, port);
    if (fd < 0) return WEFT_OK;
    wefti_connection s = wefti_connection_of(fd);
    wefti_shake shaken = shake(g, &s);
    int code = shaken == WEFTI_SHAKE_DONE ? introduce(g, &s) : 0;
    *again = shaken == WEFTI_SHAKE_AGAIN || (shaken == WEFTI_SHAKE_DONE && code == 0);
    weft_status status = WEFT_OK;
    if (shaken == WEFTI_SHAKE_FAILED)
        status = complain(
            g, "was refused",
            "it has another key, or none; all ranks need the same mesh.key and mesh.run");
    else if (!*again)
        status = check_answer(g, rank, code);
    if (status == WEFT_OK && !*again)
        g->streams[rank] = s;
    else
        wefti_connection_close(&s);
    errno = ECONNRESET;
    return status;
}

static void say_who_is_called(gathering *g, int rank, const char *host, int port) {
    if (g->told || wefti_now_s() - g->begin_s < say_after_s) return;
    g->told = true;
    weft_ctx_log(
        g->ctx, WEFT_LOG_INFO,
        "rank %d of %d waits for rank %d at %s:%d, which does not answer yet (%s)",
        g->place->rank, g->place->size, rank, host, port, strerror(errno));
}

/* Calls until somebody answers. */
static weft_status connect_to(gathering *g, int rank, const char *host, int port) {
    for (bool again = true; again;) {
        WEFT_TRY(try_call(g, rank, host, port, &again));
        if (!again) break;
        int error = errno;
        say_who_is_called(g, rank, host, port);
        errno = error;
        if (wefti_now_s() >= g->until_s)
            return complain_of_system(g, rank == 0 ? "could not reach rank 0"
                                                   : "could not reach all others");
        wefti_sleep_until_s(wefti_now_s() + again_s);
    }
    return WEFT_OK;
}

/* Rank 0 hears all, then tells all of all. */
static weft_status be_called(gathering *g) {
    int size = g->place->size;
    WEFT_TRY(accept_calls(g, 1));
    for (int r = 1; r < size; r++) {
        wefti_connection *s = &g->streams[r];
        if (wefti_connection_all(s, g->cards, (size_t)size * WEFTI_CARD_BYTES, true,
                                 g->until_s))
            continue;
        errno = s->error;
        return complain_of_system(g, "could not tell the others of each other");
    }
    return WEFT_OK;
}

/* What rank 0 says of the others. */
static weft_status learn_of_others(gathering *g) {
    int size = g->place->size, me = g->place->rank;
    unsigned char mine[WEFTI_CARD_BYTES];
    memcpy(mine, card_of(g, me), sizeof mine);
    if (!wefti_connection_all(&g->streams[0], g->cards, (size_t)size * WEFTI_CARD_BYTES,
                              false, g->until_s)) {
        errno = g->streams[0].error;
        return complain_of_system(g, "was not told of the others");
    }
    memcpy(card_of(g, me), mine, sizeof mine);
    for (int r = 0; r < size; r++)
        if (wefti_card_read(card_of(g, r), size) != r)
            return complain(g, "was not told of the others",
                            "what came is no list of this run's ranks");
    return WEFT_OK;
}

/* The others call rank 0, and then those with lower numbers. */
static weft_status call_others(gathering *g) {
    WEFT_TRY(connect_to(g, 0, g->place->host, g->place->port));
    WEFT_TRY(learn_of_others(g));
    for (int r = 1; r < g->place->rank; r++) {
        unsigned char *card = card_of(g, r);
        WEFT_TRY(
            connect_to(g, r, (const char *)card + ADDRESS_AT, wefti_card_port(card)));
    }
    return accept_calls(g, g->place->rank + 1);
}

/* --- before the first call --- */

/* A connection to each, and what else is open. */
static weft_status raise_limit(const gathering *g) {
    struct rlimit limit;
    rlim_t needed = (rlim_t)g->place->size + MAX_CALLERS + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return WEFT_OK;
    rlim_t had = limit.rlim_cur;
    if (limit.rlim_max >= needed) {
        limit.rlim_cur = needed;
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return WEFT_OK;
    }
    return weft_ctx_fail(
        g->ctx, WEFT_ERR_CONFIG,
        "%d ranks need %lld open files in each process, but the limit is "
        "%lld (ulimit -n)",
        g->place->size, (long long)needed, (long long)had);
}

/* Bytes that cross a network are encrypted, unless somebody says that they need not be. */
static weft_status check_secrecy(const gathering *g) {
    if (g->tls || g->local || g->place->plain) return WEFT_OK;
    return weft_ctx_fail(g->ctx, WEFT_ERR_CONFIG,
                         "%s is reached over a network, but there is no key; expected "
                         "mesh.key or WEFT_KEY_FILE (weft key new > run.key, the same "
                         "file on all machines), or mesh.encrypt=off where everybody is "
                         "trusted",
                         g->place->host);
}

static weft_status gather(gathering *g) {
    const wefti_tcp_place *place = g->place;
    if (place->size == 1) return WEFT_OK;
    WEFT_TRY(raise_limit(g));
    WEFT_TRY(find_names(g));
    WEFT_TRY(check_secrecy(g));
    bool here = g->local && !g->tls && !place->plain;
    if (place->listener > 0)
        (void)fcntl(g->listener, F_SETFL, fcntl(g->listener, F_GETFL) | O_NONBLOCK);
    else
        g->listener = listen_at(here, place->rank == 0 ? place->port : 0);
    if (g->listener < 0) return complain_of_system(g, "could not listen");
    g->port = wefti_gather_port(g->listener);
    write_card(g, card_of(g, place->rank));
    wefti_text_plain((char *)card_of(g, place->rank) + WEFTI_CARD_HOST_AT);
    return place->rank == 0 ? be_called(g) : call_others(g);
}

weft_status wefti_gather(weft_ctx *ctx, const wefti_tcp_place *place,
                         const wefti_tls_context *tls, wefti_connection *streams,
                         unsigned char *cards, int *listener) {
    double now_s = wefti_now_s();
    gathering g = {.ctx = ctx,
                   .place = place,
                   .tls = tls,
                   .streams = streams,
                   .cards = cards,
                   .begin_s = now_s,
                   .until_s = now_s + place->patience_s,
                   .listener = place->listener > 0 ? place->listener : -1,
                   .callers = calloc(MAX_CALLERS, sizeof(caller)),
                   .spoken = calloc(MAX_SPOKEN, sizeof(spoken))};
    for (int r = 0; r < place->size; r++) streams[r] = wefti_connection_of(-1);
    weft_status status = g.callers && g.spoken
                             ? gather(&g)
                             : weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                                             "no memory for connections");
    while (g.n_callers > 0) drop_caller(&g, g.n_callers - 1);
    free(g.callers);
    free(g.spoken);
    *listener = g.listener;
    if (status == WEFT_OK) return WEFT_OK;
    if (g.listener >= 0) close(g.listener);
    *listener = -1;
    for (int r = 0; r < place->size; r++) wefti_connection_close(&streams[r]);
    return status;
}
