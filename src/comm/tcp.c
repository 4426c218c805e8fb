/* SPDX-License-Identifier: MIT */
/* On a connection go frames: lane (4 bytes, little-endian), length (4), bytes. At its
 * beginning each side says who it is in a card (below). */
#define _GNU_SOURCE
#include "comm/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

/* magic "wefT", version, size, rank, port that it listens at (4 bytes each), host name,
 * address as others reach it */
enum { CARD_BYTES = 148, HOST_AT = 20, HOST_BYTES = 64, ADDRESS_AT = 84 };
enum { CARD_VERSION = 1, HEAD_BYTES = 8, MAX_SIZE = 1024 };
static const char magic[4] = {'w', 'e', 'f', 'T'};

/* A message going out. */
typedef struct outgoing {
    struct outgoing *next;
    unsigned char head[HEAD_BYTES];
    const unsigned char *data;
    int64_t n_bytes, n_sent; /* with the head */
    unsigned char *own;      /* a copy of the rest of data, once that was withdrawn */
} outgoing;

typedef struct connection {
    int fd;    /* -1: closed */
    bool told; /* that it is closed */
    outgoing *first, *last;
    unsigned char head[HEAD_BYTES];
    int n_head;
    bool announced;      /* the head was told by probe */
    unsigned char *into; /* where the bytes go, once they are received */
    int n_bytes, n_got;
} connection;

typedef struct tcp_transport {
    weft_transport head;
    connection *peers; /* [size] */
    outgoing *spare;
    unsigned char *cards; /* [size][CARD_BYTES] */
    const char **hosts;   /* [size] into cards */
    char text[256];
} tcp_transport;

static bool fail(tcp_transport *t, int peer, const char *what) {
    snprintf(t->text, sizeof t->text, "%s host %s: %s", what, t->hosts[peer],
             strerror(errno));
    return false;
}

static void shut(connection *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

static bool is_lost(int error) {
    return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT ||
           error == EHOSTUNREACH || error == ENETUNREACH;
}

static bool is_later(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* --- messages --- */

/* Sends what the socket takes. What is left when it is closed is thrown away: that it is
 * closed is told by probe. */
static bool push(tcp_transport *t, int peer) {
    connection *c = &t->peers[peer];
    while (c->first && c->fd >= 0) {
        outgoing *o = c->first;
        bool in_head = o->n_sent < HEAD_BYTES;
        const unsigned char *from = in_head ? o->head + o->n_sent
                                            : o->data + o->n_sent - HEAD_BYTES;
        int64_t left = (in_head ? HEAD_BYTES : o->n_bytes) - o->n_sent;
        int more = in_head && o->n_bytes > HEAD_BYTES ? MSG_MORE : 0;
        ssize_t n = left > 0 ? send(c->fd, from, (size_t)left, MSG_NOSIGNAL | more) : 0;
        if (n < 0 && is_later(errno)) return true;
        if (n < 0 && is_lost(errno))
            shut(c);
        else if (n < 0)
            return fail(t, peer, "could not send to");
        else
            o->n_sent += n;
        if (o->n_sent == o->n_bytes) c->first = o->next;
    }
    for (; c->first; c->first = c->first->next) c->first->n_sent = c->first->n_bytes;
    return true;
}

/* Reads up to n bytes; *n_read is 0 if there are none now, or never more. */
static bool pull(tcp_transport *t, int peer, void *into, int n, int *n_read) {
    connection *c = &t->peers[peer];
    *n_read = 0;
    if (c->fd < 0) return true;
    ssize_t got = recv(c->fd, into, (size_t)n, 0);
    if (got > 0) {
        *n_read = (int)got;
        return true;
    }
    if (got < 0 && is_later(errno)) return true;
    if (got < 0 && !is_lost(errno)) return fail(t, peer, "could not receive from");
    shut(c);
    return true;
}

static bool tcp_send(weft_transport *head, int peer, int lane, const void *data,
                     int n_bytes, void **request) {
    tcp_transport *t = (tcp_transport *)head;
    connection *c = &t->peers[peer];
    outgoing *o = t->spare;
    if (o)
        t->spare = o->next;
    else
        o = malloc(sizeof *o);
    *request = o;
    errno = ENOMEM;
    if (!o) return fail(t, peer, "could not send to");
    *o = (outgoing){.data = data, .n_bytes = HEAD_BYTES + (int64_t)n_bytes};
    wefti_put_u32(o->head, (uint32_t)lane);
    wefti_put_u32(o->head + 4, (uint32_t)n_bytes);
    if (c->first)
        c->last->next = o;
    else
        c->first = o;
    c->last = o;
    return push(t, peer);
}

/* A request is an outgoing message, or the connection that receives one. */
static bool tcp_test(weft_transport *head, void *request, bool *done) {
    tcp_transport *t = (tcp_transport *)head;
    for (int p = 0; p < head->size; p++) {
        connection *c = &t->peers[p];
        if (request != c) continue;
        int n = 0;
        if (c->n_got < c->n_bytes &&
            !pull(t, p, c->into + c->n_got, c->n_bytes - c->n_got, &n))
            return false;
        c->n_got += n;
        *done = c->n_got == c->n_bytes;
        if (*done) c->into = NULL, c->n_head = 0, c->announced = false;
        return true;
    }
    outgoing *o = request;
    for (int p = 0; p < head->size && o->n_sent < o->n_bytes; p++)
        if (t->peers[p].first && !push(t, p)) return false;
    *done = o->n_sent == o->n_bytes;
    if (*done) {
        free(o->own);
        o->own = NULL;
        o->next = t->spare;
        t->spare = o;
    }
    return true;
}

static void tcp_withdraw(weft_transport *head, void *request) {
    tcp_transport *t = (tcp_transport *)head;
    outgoing *o = request;
    int64_t from = o->n_sent > HEAD_BYTES ? o->n_sent - HEAD_BYTES : 0;
    int64_t left = o->n_bytes - HEAD_BYTES - from;
    if (o->own || left <= 0) return;
    o->own = malloc((size_t)(from + left));
    if (o->own) memcpy(o->own + from, o->data + from, (size_t)left);
    o->data = o->own;
    for (int p = 0; p < head->size && !o->own; p++)
        for (const outgoing *q = t->peers[p].first; q; q = q->next)
            if (q == o) shut(&t->peers[p]);
}

static void free_outgoing(outgoing *o) {
    while (o) {
        outgoing *next = o->next;
        free(o->own);
        free(o);
        o = next;
    }
}

/* Whether a head has come from this process, or the end. */
static bool look(tcp_transport *t, int peer, weft_transport_found *found) {
    connection *c = &t->peers[peer];
    int n;
    if (peer == t->head.rank || c->announced) return true;
    if (!pull(t, peer, c->head + c->n_head, HEAD_BYTES - c->n_head, &n)) return false;
    c->n_head += n;
    if (c->fd < 0 && c->n_head < HEAD_BYTES) {
        if (!c->told) *found = (weft_transport_found){.closed = true, .peer = peer};
        c->told = true;
        return true;
    }
    if (c->n_head < HEAD_BYTES) return true;
    uint32_t lane = wefti_get_u32(c->head), length = wefti_get_u32(c->head + 4);
    errno = EPROTO;
    if (lane > 1 || length > WEFT_TRANSPORT_BYTES)
        return fail(t, peer, "no message of weft came from");
    c->announced = true;
    *found = (weft_transport_found){
        .any = true, .peer = peer, .lane = (int)lane, .n_bytes = (int)length};
    return true;
}

static bool tcp_probe(weft_transport *head, weft_transport_found *found, void **message) {
    tcp_transport *t = (tcp_transport *)head;
    *found = (weft_transport_found){0};
    for (int p = 0; p < head->size; p++) {
        if (!look(t, p, found)) return false;
        if (!found->any && !found->closed) continue;
        *message = &t->peers[p];
        return true;
    }
    return true;
}

static bool tcp_receive(weft_transport *head, void *message, void *data, int n_bytes,
                        void **request) {
    connection *c = message;
    (void)head;
    c->into = data;
    c->n_bytes = n_bytes;
    c->n_got = 0;
    *request = c;
    return true;
}

static void tcp_say(const weft_transport *head, char *text, int size) {
    snprintf(text, (size_t)size, "%s", ((const tcp_transport *)head)->text);
}

static bool tcp_finish(weft_transport *head, bool failed) {
    tcp_transport *t = (tcp_transport *)head;
    (void)failed;
    for (int p = 0; p < head->size && t->peers; p++) {
        shut(&t->peers[p]);
        free_outgoing(t->peers[p].first);
    }
    free_outgoing(t->spare);
    free(t->peers);
    free(t->cards);
    free(t->hosts);
    free(t);
    return true;
}

/* --- gathering --- */

typedef struct gathering {
    weft_ctx *ctx;
    tcp_transport *t;
    const wefti_tcp_place *place;
    double until_s;
    int listener, port; /* own */
} gathering;

static weft_status complain(const gathering *g, const char *what) {
    return weft_ctx_fail(g->ctx, WEFT_ERR_PEER, "rank %d of %d %s (%s:%d): %s",
                         g->place->rank, g->place->size, what, g->place->host,
                         g->place->port, strerror(errno));
}

static bool wait_ready(int fd, short events, double until_s) {
    struct pollfd one = {.fd = fd, .events = events};
    double left_s = until_s - wefti_now_s();
    return left_s > 0 && poll(&one, 1, (int)(left_s * 1000) + 1) > 0;
}

/* All n bytes, either way, within the time; sockets block no longer than that. */
static bool all_bytes(int fd, void *data, size_t n, bool out, double until_s) {
    for (size_t done = 0; done < n;) {
        if (!wait_ready(fd, out ? POLLOUT : POLLIN, until_s)) {
            errno = ETIMEDOUT;
            return false;
        }
        char *at = (char *)data + done;
        ssize_t got = out ? send(fd, at, n - done, MSG_NOSIGNAL)
                          : recv(fd, at, n - done, 0);
        if (got == 0) errno = ECONNRESET;
        if (got == 0 || (got < 0 && errno != EINTR)) return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* At all addresses, of IPv6 too where there is one; port 0: any. */
static bool listen_at(gathering *g, int port) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    socklen_t size = sizeof address.v6;
    int no = 0, yes = 1;
    g->listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (g->listener >= 0) {
        setsockopt(g->listener, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    } else {
        address.v4 = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_port = htons((uint16_t)port)};
        size = sizeof address.v4;
        g->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    if (g->listener < 0) return false;
    setsockopt(g->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(g->listener, &address.any, size) != 0 ||
        listen(g->listener, MAX_SIZE) != 0 ||
        getsockname(g->listener, &address.any, &size) != 0)
        return false;
    g->port = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port
                                                     : address.v6.sin6_port);
    return true;
}

/* Calls until somebody answers. */
static int call(const gathering *g, const char *host, int port) {
    char service[16];
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *list;
    snprintf(service, sizeof service, "%d", port);
    do {
        int fd = -1;
        if (getaddrinfo(host, service, &wanted, &list) == 0) {
            for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
                fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) == 0) continue;
                int error = errno;
                close(fd);
                errno = error;
                fd = -1;
            }
            freeaddrinfo(list);
        } else {
            errno = EHOSTUNREACH;
        }
        if (fd >= 0) return fd;
        wefti_sleep_until_s(wefti_now_s() + 0.1);
    } while (wefti_now_s() < g->until_s);
    return -1;
}

static void write_card(const gathering *g, unsigned char *card) {
    memset(card, 0, CARD_BYTES);
    memcpy(card, magic, sizeof magic);
    wefti_put_u32(card + 4, CARD_VERSION);
    wefti_put_u32(card + 8, (uint32_t)g->place->size);
    wefti_put_u32(card + 12, (uint32_t)g->place->rank);
    wefti_put_u32(card + 16, (uint32_t)g->port);
    gethostname((char *)card + HOST_AT, HOST_BYTES - 1);
}

/* The rank of who called, or -1: not one of ours. */
static int read_card(const gathering *g, unsigned char *card) {
    bool fine = memcmp(card, magic, sizeof magic) == 0 &&
                wefti_get_u32(card + 4) == CARD_VERSION &&
                wefti_get_u32(card + 8) == (uint32_t)g->place->size;
    uint32_t rank = wefti_get_u32(card + 12);
    card[HOST_AT + HOST_BYTES - 1] = card[CARD_BYTES - 1] = 0;
    bool fits = fine && rank < (uint32_t)g->place->size &&
                rank != (uint32_t)g->place->rank;
    return fits && g->t->peers[rank].fd < 0 ? (int)rank : -1;
}

/* Takes calls until n ranks have come; strangers are sent away. */
static weft_status accept_calls(gathering *g, int n) {
    while (n > 0) {
        unsigned char card[CARD_BYTES];
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        errno = ETIMEDOUT;
        if (!wait_ready(g->listener, POLLIN, g->until_s))
            return complain(g, "waits for others that do not come");
        int fd = accept4(g->listener, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);
        if (fd < 0) continue;
        double soon_s = wefti_now_s() + 2;
        int rank = all_bytes(fd, card, sizeof card, false, soon_s) ? read_card(g, card)
                                                                   : -1;
        if (rank < 0) {
            close(fd);
            continue;
        }
        char *address = (char *)card + ADDRESS_AT;
        getnameinfo((struct sockaddr *)&from, size, address, CARD_BYTES - ADDRESS_AT,
                    NULL, 0, NI_NUMERICHOST);
        memcpy(g->t->cards + (size_t)rank * CARD_BYTES, card, sizeof card);
        g->t->peers[rank].fd = fd;
        n--;
    }
    return WEFT_OK;
}

static unsigned char *card_of(const gathering *g, int rank) {
    return g->t->cards + (size_t)rank * CARD_BYTES;
}

static weft_status connect_to(gathering *g, int rank, const char *host, int port) {
    int fd = call(g, host, port);
    if (fd < 0)
        return complain(g, rank == 0 ? "could not reach rank 0"
                                     : "could not reach all others");
    g->t->peers[rank].fd = fd;
    if (all_bytes(fd, card_of(g, g->place->rank), CARD_BYTES, true, g->until_s))
        return WEFT_OK;
    return complain(g, "could not introduce itself");
}

/* Rank 0 hears all, then tells all of all. */
static weft_status be_called(gathering *g) {
    int size = g->place->size;
    WEFT_TRY(accept_calls(g, size - 1));
    for (int r = 1; r < size; r++)
        if (!all_bytes(g->t->peers[r].fd, g->t->cards, (size_t)size * CARD_BYTES, true,
                       g->until_s))
            return complain(g, "could not tell the others of each other");
    return WEFT_OK;
}

/* The others call rank 0, and then those with lower numbers. */
static weft_status call_others(gathering *g) {
    int size = g->place->size, me = g->place->rank;
    unsigned char mine[CARD_BYTES];
    WEFT_TRY(connect_to(g, 0, g->place->host, g->place->port));
    memcpy(mine, card_of(g, me), sizeof mine);
    if (!all_bytes(g->t->peers[0].fd, g->t->cards, (size_t)size * CARD_BYTES, false,
                   g->until_s))
        return complain(g, "was not told of the others");
    memcpy(card_of(g, me), mine, sizeof mine);
    for (int r = 1; r < me; r++) {
        unsigned char *card = card_of(g, r);
        card[HOST_AT + HOST_BYTES - 1] = card[CARD_BYTES - 1] = 0;
        int port = (int)(wefti_get_u32(card + 16) & 0xffff);
        WEFT_TRY(connect_to(g, r, (const char *)card + ADDRESS_AT, port));
    }
    return accept_calls(g, size - 1 - me);
}

static weft_status gather(gathering *g) {
    const wefti_tcp_place *place = g->place;
    bool listens = g->listener >= 0;
    if (listens) g->port = place->port;
    if (!listens && !listen_at(g, place->rank == 0 ? place->port : 0))
        return complain(g, "could not listen");
    write_card(g, card_of(g, place->rank));
    WEFT_TRY(place->rank == 0 ? be_called(g) : call_others(g));
    for (int r = 0; r < place->size; r++) {
        int yes = 1, unsent = WEFT_TRANSPORT_UNSENT_BYTES, fd = g->t->peers[r].fd;
        if (r == place->rank) continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
        if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
            return complain(g, "could not prepare a connection");
    }
    return WEFT_OK;
}

static weft_status open_at(weft_ctx *ctx, const wefti_tcp_place *place, int listener,
                           weft_transport **out) {
    static const weft_transport_ops ops = {
        .name = "tcp",
        .send = tcp_send,
        .probe = tcp_probe,
        .receive = tcp_receive,
        .test = tcp_test,
        .withdraw = tcp_withdraw,
        .say = tcp_say,
        .finish = tcp_finish,
    };
    *out = NULL;
    size_t size = (size_t)place->size;
    if (place->size < 1 || place->size > MAX_SIZE || place->rank < 0 ||
        place->rank >= place->size || place->port < 1 || place->port > 65535)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "rank %d of %d at port %d: expected at most %d ranks, counted "
            "from 0, and a port from 1 to 65535",
            place->rank, place->size, place->port, (int)MAX_SIZE);
    tcp_transport *t = calloc(1, sizeof *t);
    if (!t) return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for connections");
    t->head = (weft_transport){
        .ops = &ops, .rank = place->rank, .size = place->size, .version = "TCP"};
    t->peers = calloc(size, sizeof *t->peers);
    t->cards = calloc(size, CARD_BYTES);
    t->hosts = calloc(size, sizeof *t->hosts);
    if (!t->peers || !t->cards || !t->hosts) {
        t->head.size = 0;
        (void)tcp_finish(&t->head, true);
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for connections");
    }
    for (size_t r = 0; r < size; r++) {
        t->peers[r].fd = -1;
        t->hosts[r] = (const char *)t->cards + r * CARD_BYTES + HOST_AT;
    }
    t->head.host = t->hosts;
    gathering g = {.ctx = ctx,
                   .t = t,
                   .place = place,
                   .until_s = wefti_now_s() + place->patience_s,
                   .listener = listener};
    weft_status status = gather(&g);
    if (g.listener >= 0 && g.listener != listener) close(g.listener);
    if (status != WEFT_OK) {
        (void)tcp_finish(&t->head, true);
        return status;
    }
    *out = &t->head;
    return WEFT_OK;
}

weft_status wefti_tcp_open(weft_ctx *ctx, const wefti_tcp_place *place,
                           weft_transport **out) {
    int listener = place->listener > 0 ? place->listener : -1;
    weft_status status = open_at(ctx, place, listener, out);
    if (listener >= 0) close(listener);
    return status;
}

weft_status wefti_tcp_listen(weft_ctx *ctx, int *listener, int *port) {
    gathering g = {.listener = -1};
    bool listens = listen_at(&g, 0);
    int error = errno;
    *listener = listens ? g.listener : -1;
    *port = g.port;
    if (listens) return WEFT_OK;
    if (g.listener >= 0) close(g.listener);
    return weft_ctx_fail(ctx, WEFT_ERR_PEER, "could not listen at any port: %s",
                         strerror(error));
}
