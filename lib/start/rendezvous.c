/* SPDX-License-Identifier: MIT */
/* How a run's processes gather. All others call process 0, which sends the list of all to
 * each of them; then they call each other, the one with the higher number the one with the
 * lower. The limits of callers.h apply to all callers. Processes that join while the run
 * trains are handled by tcp.c. */
#define _GNU_SOURCE
#include "start/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/stop.h"
#include "base/text.h"
#include "start/callers.h"
#include "start/relay.h"
#include "start/streams.h"
#include "net/socket.h"

enum {
    CARD_VERSION = 4,
    ADDRESS_AT = WEFTI_CARD_ADDRESS_AT,
    TOKEN_AT = ADDRESS_AT + 8, /* of a caller, whose address is empty */
    SPARE_FILES = 64           /* other files that a process keeps open */
};
static const char magic[4] = {'w', 'e', 'f', 'T'};
static const double say_after_s = 3, again_s = 0.1, name_s = 10;
/* How long one that may not be callable is called; one that is missing may be late; a slot. */
static const double direct_s = 2, late_s = 1, slot_s = 0.5;

/* The answers to a card. */
enum { ANSWER_WELCOME = 1, ANSWER_OTHER_SIZE, ANSWER_TAKEN, ANSWER_OTHER_VERSION };

typedef struct gathering {
    weft_ctx *ctx;
    const wefti_tcp_place *place;
    const wefti_tls_context *tls;
    wefti_connection *streams;
    unsigned char *cards;
    double begin_s, until_s;
    bool logged;      /* which ranks are missing */
    const char *mute; /* how one that was called hung up without an answer, or NULL */
    bool local;       /* other machines can not call */
    int n_due;        /* further sockets that will call */
    int slot;         /* of time: who is missing is called in each */
    bool shut;        /* nobody who was asked has called this process */
    wefti_relay_card wanted; /* a rank that can not be called shall call, as this says; */
    wefti_connection brought; /* it has */
    int listener, port;       /* this process's */
    wefti_callers callers;
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

/* Whether it has waited long enough, or is asked to stop. */
static bool is_over(const gathering *g) {
    return wefti_now_s() >= g->until_s || wefti_stop_asked(g->ctx);
}

static int card_wish(const unsigned char *card) { return card[18]; }

/* --- cards --- */

static void write_card(const gathering *g, unsigned char *card) {
    memset(card, 0, WEFTI_CARD_BYTES);
    memcpy(card, magic, sizeof magic);
    wefti_put_u32(card + 4, CARD_VERSION);
    wefti_put_u32(card + 8, (uint32_t)g->place->size);
    wefti_put_u32(card + 12, (uint32_t)g->place->rank);
    wefti_put_u32(card + 16, (uint32_t)g->port |
                                 (uint32_t)wefti_streams_wish(g->place->streams) << 16);
    gethostname((char *)card + WEFTI_CARD_HOST_AT, WEFTI_CARD_HOST_BYTES - 1);
    wefti_put_u64(card + WEFTI_CARD_MACHINE_AT, wefti_machine_number());
    uint64_t token = 0;
    for (int i = 0; i < 1000 && token == 0; i++) /* 0: it has none */
        if (!wefti_machine_random(&token, sizeof token)) token = 0;
    wefti_put_u64(card + TOKEN_AT, token);
}

int wefti_card_port(const unsigned char *card) {
    return (int)(wefti_get_u32(card + 16) & 0xffff);
}

/* Of this version of weft or another one. */
static bool is_any_card(const unsigned char *card) {
    return memcmp(card, magic, sizeof magic) == 0;
}

static bool is_card(const unsigned char *card) {
    return is_any_card(card) && wefti_get_u32(card + 4) == CARD_VERSION;
}

int wefti_card_read(unsigned char *card, int size) {
    uint32_t rank = wefti_get_u32(card + 12);
    card[WEFTI_CARD_MACHINE_AT - 1] = card[WEFTI_CARD_BYTES - 1] = 0;
    wefti_text_plain((char *)card + WEFTI_CARD_HOST_AT);
    wefti_text_plain((char *)card + ADDRESS_AT);
    bool ours = is_card(card) && wefti_get_u32(card + 8) == (uint32_t)size &&
                rank < (uint32_t)size;
    return ours ? (int)rank : -1;
}

/* --- names --- */

/* A name that is unknown may become known soon, for example where containers start
 * together. */
static weft_status find_names(gathering *g) {
    double until_s = fmin(g->until_s, g->begin_s + name_s);
    for (;;) {
        int error;
        const char *why;
        struct addrinfo *list = wefti_socket_resolve(g->place->host, g->place->port,
                                                     &error, &why);
        bool local = list != NULL;
        for (struct addrinfo *a = list; a; a = a->ai_next)
            local = local && wefti_socket_is_loopback(a->ai_addr);
        if (list) freeaddrinfo(list);
        g->local = local;
        if (list) return WEFT_OK;
        bool later = error == EAI_AGAIN || error == EAI_SYSTEM;
        if (!later || wefti_now_s() >= until_s || is_over(g))
            return complain(g, "does not find the machine of rank 0", why);
        wefti_sleep_until_s(wefti_now_s() + again_s);
    }
}

/* --- callers --- */

static void answer(wefti_caller *c, unsigned char code) {
    struct iovec part = {&code, 1};
    (void)wefti_connection_write(&c->stream, &part, 1);
}

/* A further socket of a rank that has called. */
static wefti_caller_fate admit_stream(gathering *g, wefti_caller *c,
                                      const wefti_stream_card *card) {
    if (card->rank < g->place->size &&
        wefti_streams_take(&g->streams[card->rank], card, &c->stream)) {
        g->n_due--;
        return WEFTI_CALLER_TAKEN;
    }
    wefti_callers_complain(&g->callers, c->address, "names a socket that it has not");
    return WEFTI_CALLER_GONE;
}

/* A card has arrived. TAKEN: the caller is a rank of this run and is now connected. */
static wefti_caller_fate admit(void *user, wefti_caller *c) {
    gathering *g = user;
    wefti_stream_card stream;
    wefti_relay_card relayed;
    if (wefti_stream_card_read(c->card, &stream)) return admit_stream(g, c, &stream);
    if (wefti_relay_card_read(c->card,
                              &relayed)) /* it calls again if it comes too early */
        return wefti_relay_is_wanted(c, &g->wanted, &g->brought) ? WEFTI_CALLER_TAKEN
                                                                 : WEFTI_CALLER_GONE;
    int rank = wefti_card_read(c->card, g->place->size);
    bool taken = rank >= 0 && (rank == g->place->rank || g->streams[rank].fd >= 0);
    if (rank >= 0 && !taken) {
        char *address = (char *)c->card + ADDRESS_AT;
        int n = wefti_streams_agree(g->place->streams, card_wish(c->card), &c->stream,
                                    g->place->size - 1);
        if (!wefti_streams_room(&c->stream, n, wefti_get_u64(c->card + TOKEN_AT))) n = 1;
        answer(c, (unsigned char)(n > 1 ? WEFTI_STREAMS_WELCOME + n : ANSWER_WELCOME));
        g->n_due += n - 1;
        memcpy(address, c->address, sizeof c->address);
        memcpy(card_of(g, rank), c->card, sizeof c->card);
        g->streams[rank] = c->stream;
        return WEFTI_CALLER_TAKEN;
    }
    bool any = is_any_card(c->card), card = is_card(c->card);
    if (any)
        answer(c, taken ? ANSWER_TAKEN : card ? ANSWER_OTHER_SIZE : ANSWER_OTHER_VERSION);
    const char *what = taken  ? "has a number that is taken"
                       : card ? "belongs to another number of ranks"
                       : any  ? "runs another version of weft"
                              : "does not speak as weft does";
    wefti_callers_complain(&g->callers, c->address, what);
    return WEFTI_CALLER_GONE;
}

/* Waits a moment for calls, and serves them. */
static weft_status take_calls(gathering *g) {
    double wait_s = fmin(g->until_s - wefti_now_s(), again_s * 2);
    g->callers.listener = g->listener;
    wefti_callers_poll(&g->callers, (int)(fmax(wait_s, 0) * 1000) + 1);
    if (!wefti_callers_accept(&g->callers))
        return complain_of_system(g, "can not take a call");
    (void)wefti_callers_hear(&g->callers);
    return WEFT_OK;
}

/* "2, 3, 5": the ranks from `first` on that have not called yet. */
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
    if (g->logged || wefti_now_s() - g->begin_s < say_after_s) return;
    g->logged = true;
    list_missing(g, first, missing, sizeof missing);
    int n = 0;
    for (int r = first; r < g->place->size; r++) n += g->streams[r].fd < 0;
    weft_ctx_log(g->ctx, WEFT_LOG_INFO, "waiting for %d of %d at %s:%d: rank %s%s", n,
                 g->place->size, g->place->rank > 0 ? "port" : g->place->host, g->port,
                 missing, g->local && !g->tls ? " on this machine" : "");
}

static weft_status give_up(const gathering *g, int first) {
    char missing[120], what[200];
    list_missing(g, first, missing, sizeof missing);
    snprintf(what, sizeof what, "waits for others that do not come: rank %s", missing);
    return complain(g, what, strerror(ETIMEDOUT));
}

/* Calls a rank that is missing, or has rank 0 join the two: it has asked for one of them. */
static void call_late(gathering *g, int rank, bool direct) {
    unsigned char bytes[WEFTI_CARD_BYTES];
    struct sockaddr_storage to, relay = g->streams[0].peer;
    const char *address = (const char *)card_of(g, rank) + ADDRESS_AT;
    const wefti_relay_card card = {direct ? WEFTI_RELAY_CALLS : WEFTI_RELAY_COMES,
                                   g->place->rank,
                                   rank,
                                   g->port,
                                   WEFTI_RELAY_GATHERS,
                                   ""};
    if (!wefti_socket_parse(address, wefti_card_port(card_of(g, rank)), &to)) return;
    wefti_relay_card_write(&card, bytes);
    (void)wefti_callers_call(&g->callers, direct ? &to : &relay, &to, bytes);
}

/* How many ranks from `first` on have not called yet. Those that are late may not be
 * able to: they are called, and met at the relay in every second slot. */
static int count_missing(gathering *g, int first, double since_s) {
    int n = 0, slot = (int)((wefti_now_s() - since_s) / slot_s);
    bool due = g->place->rank > 0 && slot != g->slot && slot * slot_s >= late_s;
    g->slot = slot;
    for (int r = first; r < g->place->size; r++) {
        if (g->streams[r].fd >= 0) continue;
        n++;
        if (due) call_late(g, r, true);
        if (due && slot % 2) call_late(g, r, false);
    }
    return n;
}

/* Accepts calls until all ranks from `first` on have called; strangers are rejected. */
static weft_status accept_calls(gathering *g, int first) {
    double since_s = wefti_now_s();
    while (count_missing(g, first, since_s) > 0 || g->n_due > 0) {
        if (is_over(g)) return give_up(g, first);
        say_who_is_missing(g, first);
        WEFT_TRY(take_calls(g));
    }
    return WEFT_OK;
}

/* --- calling --- */

/* Shows the card; returns the answer, 0: there was none. */
static int introduce(const gathering *g, wefti_connection *s) {
    unsigned char code = 0;
    bool heard = wefti_connection_all(s, card_of(g, g->place->rank), WEFTI_CARD_BYTES,
                                      true, g->until_s) &&
                 wefti_connection_all(s, &code, 1, false, g->until_s);
    return heard ? code : 0;
}

/* The callee has agreed to this many sockets. */
static weft_status open_streams(const gathering *g, int n, wefti_connection *s) {
    uint64_t token = wefti_get_u64(card_of(g, g->place->rank) + TOKEN_AT);
    if (wefti_streams_room(s, n, token) &&
        wefti_streams_open(g->tls, s, g->place->rank, g->until_s))
        return WEFT_OK;
    char what[64];
    snprintf(what, sizeof what, "could not open all %d sockets to another rank", n);
    errno = ETIMEDOUT;
    return complain_of_system(g, what);
}

static weft_status check_answer(const gathering *g, int rank, int code,
                                wefti_connection *s) {
    int n = wefti_streams_welcomed(g->place->streams, code);
    if (n > 0) return open_streams(g, n, s);
    if (code == ANSWER_TAKEN)
        return complain(g, "was sent away", "another process has the same RANK");
    if (code == ANSWER_OTHER_SIZE)
        return complain(g, "was sent away",
                        rank == 0 ? "rank 0 has another WORLD_SIZE"
                                  : "another rank has another WORLD_SIZE");
    if (code == ANSWER_OTHER_VERSION)
        return complain(g, "was sent away",
                        "the other side runs another version of weft");
    return complain(g, "was sent away", "the other side does not speak as weft does");
}

/* The handshake and the card, on a new connection. AGAIN: no answer, or the other side hung
 * up; errno says why. */
static weft_status begin_with(gathering *g, int rank, wefti_connection s, bool *again) {
    s.stop = g->ctx;
    wefti_shake shaken = wefti_socket_shake(g->tls, &s, g->until_s);
    int code = shaken == WEFTI_SHAKE_DONE ? introduce(g, &s) : 0;
    bool mute = shaken == WEFTI_SHAKE_DONE && code == 0;
    *again = shaken == WEFTI_SHAKE_AGAIN || mute;
    if (mute)
        g->mute = "it hangs up without an answer, as another version of weft does, or "
                  "one with a key";
    if (shaken == WEFTI_SHAKE_AGAIN && s.fd < 0)
        g->mute = "it hangs up in the handshake, as one without a key does";
    weft_status status = WEFT_OK;
    if (shaken == WEFTI_SHAKE_FAILED)
        status = complain(
            g, "was refused",
            "it has another key, or none; all ranks need the same mesh.key and mesh.run");
    else if (!*again)
        status = check_answer(g, rank, code, &s);
    if (status == WEFT_OK && !*again)
        g->streams[rank] = s;
    else
        wefti_connection_close(&s);
    errno = ECONNRESET;
    return status;
}

/* Serves calls for so long, or until the rank that is wanted has called: in `brought`. */
static weft_status await_wanted(gathering *g, double patience_s) {
    double until_s = fmin(g->until_s, wefti_now_s() + patience_s);
    while (!g->shut && g->brought.fd < 0 && wefti_now_s() < until_s && !is_over(g))
        WEFT_TRY(take_calls(g));
    return WEFT_OK;
}

/* [out] *s: a connection to the rank that is wanted, *relayed: by way of rank 0. A process that
 * comes by that way has called before, if it can: its call may wait here. */
static weft_status find_way(gathering *g, wefti_connection *s, bool *relayed) {
    wefti_relay_card asks = g->wanted;
    asks.kind = WEFTI_RELAY_ASKS;
    weft_status status = await_wanted(g, 2 * late_s);
    if (status == WEFT_OK && g->brought.fd < 0 &&
        wefti_relay_ask(g->ctx, g->tls, g->place->host, g->place->port, &asks, g->until_s,
                        s) == WEFTI_RELAY_JOINED)
        status = await_wanted(g, late_s);
    *relayed = status == WEFT_OK && g->brought.fd < 0;
    if (*relayed) return WEFT_OK;
    wefti_connection_close(s);
    if (status != WEFT_OK) wefti_connection_close(&g->brought);
    *s = g->brought;
    return status;
}

/* A rank that can not be called: either it calls, or rank 0 relays. */
static weft_status meet(gathering *g, int rank, bool *again) {
    unsigned char *card = card_of(g, g->place->rank), wish = card[18];
    wefti_connection s = wefti_connection_of(-1);
    bool relayed;
    g->wanted = (wefti_relay_card){
        WEFTI_RELAY_WANTED, g->place->rank, rank, g->port, WEFTI_RELAY_GATHERS, ""};
    g->brought = wefti_connection_of(-1);
    weft_status found = find_way(g, &s, &relayed);
    g->wanted.token = 0; /* not any more */
    g->brought = wefti_connection_of(-1);
    WEFT_TRY(found);
    *again = s.fd < 0;
    g->shut = g->shut || (relayed && !*again);
    errno = EHOSTUNREACH;
    if (*again) return WEFT_OK;
    (void)wefti_socket_parse((const char *)card_of(g, rank) + ADDRESS_AT,
                             wefti_card_port(card_of(g, rank)), &s.peer);
    card[18] = 0; /* one socket */
    weft_status status = begin_with(g, rank, s, again);
    card[18] = wish;
    if (status == WEFT_OK && !*again)
        weft_ctx_log(g->ctx, WEFT_LOG_INFO,
                     relayed
                         ? "rank %d and rank %d can not reach each other: rank 0 relays"
                         : "rank %d can not call rank %d, which calls it",
                     g->place->rank, rank);
    return status;
}

/* One call, as begin_with. Every rank reaches rank 0. */
static weft_status try_call(gathering *g, int rank, const char *host, int port,
                            bool *again) {
    *again = true;
    double until_s = fmin(g->until_s, wefti_now_s() + direct_s);
    int fd = wefti_socket_connect(g->ctx, host, port, rank > 0 ? until_s : g->until_s);
    if (fd < 0) return rank > 0 ? meet(g, rank, again) : WEFT_OK;
    return begin_with(g, rank, wefti_connection_of(fd), again);
}

static void say_who_is_called(gathering *g, int rank, const char *host, int port) {
    if (g->logged || wefti_now_s() - g->begin_s < say_after_s) return;
    g->logged = true;
    weft_ctx_log(
        g->ctx, WEFT_LOG_INFO,
        "rank %d of %d waits for rank %d at %s:%d, which does not answer yet (%s)",
        g->place->rank, g->place->size, rank, host, port,
        g->mute ? g->mute : strerror(errno));
}

/* Calls until there is an answer. */
static weft_status connect_to(gathering *g, int rank, const char *host, int port) {
    g->mute = NULL;
    for (bool again = true; again;) {
        WEFT_TRY(try_call(g, rank, host, port, &again));
        if (!again) break;
        int error = errno;
        say_who_is_called(g, rank, host, port);
        errno = error;
        const char *what = rank == 0 ? "could not reach rank 0"
                                     : "could not reach all others";
        if (is_over(g)) return complain(g, what, g->mute ? g->mute : strerror(error));
        wefti_sleep_until_s(wefti_now_s() + again_s);
    }
    return WEFT_OK;
}

/* Rank 0 waits for the calls of all, then sends the list of all to all. */
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

/* Receives the list of all ranks from rank 0. */
static weft_status learn_of_others(gathering *g) {
    int size = g->place->size, me = g->place->rank;
    unsigned char mine[WEFTI_CARD_BYTES];
    memcpy(mine, card_of(g, me), sizeof mine);
    double say_s = fmax(g->begin_s + say_after_s, wefti_now_s() + again_s);
    if (!g->logged && !wefti_connection_wait(&g->streams[0], POLLIN, say_s))
        weft_ctx_log(g->ctx, WEFT_LOG_INFO,
                     "rank %d of %d has reached rank 0 at %s:%d, which waits for others",
                     me, size, g->place->host, g->place->port);
    if (!wefti_connection_all(&g->streams[0], g->cards, (size_t)size * WEFTI_CARD_BYTES,
                              false, g->until_s)) {
        errno = g->streams[0].error;
        return complain_of_system(g, "got no list of the others");
    }
    memcpy(card_of(g, me), mine, sizeof mine);
    for (int r = 0; r < size; r++)
        if (wefti_card_read(card_of(g, r), size) != r)
            return complain(g, "got no list of the others",
                            "what came is no list of this run's ranks");
    return WEFT_OK;
}

/* The other ranks call rank 0, and then the ranks with lower numbers. */
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

/* One connection to each rank, and the other open files. */
static weft_status raise_limit(const gathering *g) {
    struct rlimit limit;
    rlim_t needed = (rlim_t)g->place->size + (rlim_t)g->place->spare + WEFTI_MAX_CALLERS +
                    SPARE_FILES;
    if (g->place->streams > 1) needed += (rlim_t)(g->place->size * g->place->streams);
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

/* Bytes that cross a network have to be encrypted, unless the user has allowed plain bytes. */
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
    bool alone = place->size == 1;
    if (alone && place->spare == 0) return WEFT_OK;
    WEFT_TRY(raise_limit(g));
    if (alone)
        g->local = true; /* it calls no process; without a key only this machine may */
    if (!alone) WEFT_TRY(find_names(g));
    WEFT_TRY(check_secrecy(g));
    bool here = g->local && !g->tls && !place->plain;
    if (place->listener > 0)
        (void)fcntl(g->listener, F_SETFL, fcntl(g->listener, F_GETFL) | O_NONBLOCK);
    else
        g->listener = place->rank == 0   ? wefti_socket_listen(here, place->port)
                      : place->spare > 0 ? wefti_socket_listen_from(here, place->port + 1,
                                                                    WEFTI_TCP_PORTS - 1)
                                         : wefti_socket_listen(here, 0);
    if (g->listener < 0) return complain_of_system(g, "could not listen");
    g->port = wefti_socket_port(g->listener);
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
                   .brought = wefti_connection_of(-1),
                   .callers = {.ctx = ctx, .tls = tls, .rank = place->rank}};
    g.callers.admit = admit;
    g.callers.user = &g;
    for (int r = 0; r < place->size; r++) streams[r] = wefti_connection_of(-1);
    weft_status status = wefti_callers_init(&g.callers)
                             ? gather(&g)
                             : weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                                             "no memory for connections");
    wefti_callers_fini(&g.callers);
    *listener = g.listener;
    for (int r = 0; r < place->size; r++) streams[r].stop = NULL;
    if (status == WEFT_OK) return WEFT_OK;
    if (g.listener >= 0) close(g.listener);
    *listener = -1;
    for (int r = 0; r < place->size; r++) wefti_connection_close(&streams[r]);
    return status;
}
