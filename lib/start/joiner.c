/* SPDX-License-Identifier: MIT */
/* The process that joins late (joiner.h draws the protocol). All of this happens before
 * the process has a mesh, so it may wait: for each answer up to a deadline; and after a
 * refusal that may be temporary, for a random time, so that several processes that come at
 * once do not collide at the same place again and again.
 *
 * What a member sends is checked before any allocation depends on it: the number of places
 * against the maximum of a transport, each rank against the number of places. */
#define _GNU_SOURCE
#include "start/joiner.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/stop.h"
#include "base/text.h"
#include "net/socket.h"
#include "start/relay.h"
#include "start/streams.h"
#include "start/vitals.h"

enum {
    LATE_VERSION = 4,
    LATE_HOST_AT = 32,
    LATE_MACHINE_AT = LATE_HOST_AT + WEFTI_CARD_HOST_BYTES,
    LATE_FREE_AT = LATE_MACHINE_AT + 8,
    LATE_OWN_AT = LATE_FREE_AT + 8,
    MAX_PLACES = 1024
};
static const char magic[4] = {'w', 'e', 'f', 'J'};
/* How often a process is asked again that answers "later" before another endpoint is tried. */
enum { PATIENT_TRIES = 8 };
static const double answer_s = 5, again_s = 0.1, say_after_s = 3;
/* How long one that may not be callable is called, and may take to call. */
static const double direct_s = 2, called_s = 1;

/* --- cards --- */

void wefti_late_card_write(const wefti_late_card *card, unsigned char *bytes) {
    memset(bytes, 0, WEFTI_CARD_BYTES);
    memcpy(bytes, magic, sizeof magic);
    wefti_put_u32(bytes + 4, LATE_VERSION);
    wefti_put_u32(bytes + 8, card->place < 0 ? UINT32_MAX : (uint32_t)card->place);
    wefti_put_u32(bytes + 12, (uint32_t)card->port);
    wefti_put_u64(bytes + 16, card->run);
    wefti_put_u64(bytes + 24, card->incarnation);
    memcpy(bytes + LATE_HOST_AT, card->host, sizeof card->host - 1);
    wefti_put_u64(bytes + LATE_MACHINE_AT, card->machine);
    wefti_put_u32(bytes + LATE_FREE_AT, card->free_ports);
    wefti_put_u32(bytes + LATE_FREE_AT + 4,
                  (uint32_t)card->first_port | (uint32_t)card->wish << 16);
    memcpy(bytes + LATE_OWN_AT, card->own, sizeof card->own - 1);
}

bool wefti_late_card_read(const unsigned char *bytes, wefti_late_card *out) {
    uint32_t place = wefti_get_u32(bytes + 8), port = wefti_get_u32(bytes + 12);
    *out = (wefti_late_card){.place = place == UINT32_MAX ? -1 : (int)(place & INT32_MAX),
                             .port = (int)(port & 0xffff),
                             .run = wefti_get_u64(bytes + 16),
                             .incarnation = wefti_get_u64(bytes + 24),
                             .machine = wefti_get_u64(bytes + LATE_MACHINE_AT),
                             .free_ports = wefti_get_u32(bytes + LATE_FREE_AT)};
    out->first_port = (int)(wefti_get_u32(bytes + LATE_FREE_AT + 4) & 0xffff);
    out->wish = bytes[LATE_FREE_AT + 6];
    memcpy(out->host, bytes + LATE_HOST_AT, sizeof out->host - 1);
    memcpy(out->own, bytes + LATE_OWN_AT, sizeof out->own - 1);
    wefti_text_plain(out->host);
    wefti_text_plain(out->own);
    return memcmp(bytes, magic, sizeof magic) == 0 &&
           wefti_get_u32(bytes + 4) == LATE_VERSION && port > 0 && port <= 0xffff &&
           (place == UINT32_MAX || place < MAX_PLACES) && out->incarnation > 1;
}

bool wefti_late_card_is_foreign(const unsigned char *bytes) {
    return memcmp(bytes, magic, sizeof magic) == 0 &&
           wefti_get_u32(bytes + 4) != LATE_VERSION;
}

void wefti_late_card_as_card(const wefti_late_card *card, unsigned char *bytes) {
    memset(bytes, 0, WEFTI_CARD_BYTES);
    wefti_put_u32(bytes + 16, (uint32_t)card->port);
    memcpy(bytes + WEFTI_CARD_HOST_AT, card->host, sizeof card->host - 1);
    wefti_put_u64(bytes + WEFTI_CARD_MACHINE_AT, card->machine);
}

bool wefti_late_head_read(const unsigned char *bytes, int max_places,
                          wefti_late_table *out) {
    uint32_t n = wefti_get_u32(bytes), place = wefti_get_u32(bytes + 4);
    uint32_t group = wefti_get_u32(bytes + 16);
    *out = (wefti_late_table){.run = wefti_get_u64(bytes + 8)};
    if (n < 1 || n > (uint32_t)max_places || place >= n || group < 1 || group > n)
        return false;
    out->n_places = (int)n;
    out->group = (int)group;
    out->place = (int)place;
    return true;
}

bool wefti_late_row_read(const unsigned char *bytes, int i, bool *seen,
                         wefti_late_table *out) {
    uint32_t rank = wefti_get_u32(bytes);
    unsigned char *card = out->cards + (size_t)i * WEFTI_CARD_BYTES;
    if (rank >= (uint32_t)out->n_places || seen[rank]) return false;
    seen[rank] = true;
    out->rank_of[i] = (int)rank;
    out->names[i] = wefti_get_u64(bytes + 4);
    memcpy(card, bytes + 12, WEFTI_CARD_BYTES);
    card[WEFTI_CARD_MACHINE_AT - 1] = card[WEFTI_CARD_BYTES - 1] = 0;
    wefti_text_plain((char *)card + WEFTI_CARD_HOST_AT);
    wefti_text_plain((char *)card + WEFTI_CARD_ADDRESS_AT);
    return true;
}

void wefti_late_table_fini(wefti_late_table *table) {
    free(table->rank_of);
    free(table->names);
    free(table->cards);
    *table = (wefti_late_table){0};
}

/* --- asking --- */

typedef struct entering {
    weft_ctx *ctx;
    const wefti_tcp_place *place;
    const wefti_tls_context *tls;
    wefti_late_card card;
    double until_s;
    const char *why; /* the last refusal that may pass */
    bool logged;     /* that it waits, and for what */
    char host[256];  /* the process that gives places; port 0: the user's endpoint */
    int port;
    char via[256];       /* and who has reported it; */
    int via_port, giver; /* its place */
    char mute[256]; /* who hung up last; port 0: nobody since the last other refusal */
    int mute_port;
    int turn;    /* which of place->endpoints is tried next */
    int n_later; /* refusals by the same process, one after another */
    bool silent; /* no machine has answered at the last call */
    bool moved;  /* the endpoint before did not answer */
    bool shut;   /* nobody who was asked has called this process */
    int listener;
    wefti_connection *streams; /* [table.n_places] */
    wefti_late_table table;
} entering;

/* "a:29500", "a, ports 29500 to 29515", "a:29500, b:29501". */
static const char *endpoints_text(const entering *e, char *out, size_t size) {
    size_t at = 0;
    const wefti_tcp_endpoint *d = e->place->endpoints;
    for (int i = 0, n; i < e->place->n_endpoints && at < size; i += n) {
        n = 1;
        while (i + n < e->place->n_endpoints && strcmp(d[i].host, d[i + n].host) == 0 &&
               d[i + n].port == d[i].port + n)
            n++;
        const char *comma = i > 0 ? ", " : "";
        int put = n > 1 ? snprintf(out + at, size - at, "%s%s, ports %d to %d", comma,
                                   d[i].host, d[i].port, d[i].port + n - 1)
                        : snprintf(out + at, size - at, "%s%s:%d", comma, d[i].host,
                                   d[i].port);
        at += put > 0 ? (size_t)put : 0;
    }
    return out;
}

/* An attempt that ends because all time is up shows nothing new. */
static void note_why(entering *e, const char *why) {
    if (!e->why || wefti_now_s() < e->until_s) e->why = why, e->mute_port = 0;
}

static weft_status refuse(const entering *e, const char *why) {
    char endpoints[400];
    const char *form = e->place->n_endpoints > 1 ? "no run at %s can be joined: %s"
                                                 : "the run at %s can not be joined: %s";
    return weft_ctx_fail(e->ctx, WEFT_ERR_PEER, form,
                         endpoints_text(e, endpoints, sizeof endpoints), why);
}

/* Shows the card on a new connection. [out] the code in the answer; 0: no answer. */
static weft_status show_card(entering *e, const char *host, int port, wefti_connection *s,
                             unsigned char *code) {
    unsigned char bytes[WEFTI_CARD_BYTES];
    bool others = e->place->n_endpoints > 1;
    *code = 0;
    s->stop = e->ctx;
    wefti_shake shaken = wefti_socket_shake(e->tls, s, e->until_s);
    if (shaken == WEFTI_SHAKE_FAILED) {
        wefti_connection_close(s);
        if (!others) return refuse(e, "it has another key, or none, or another mesh.run");
        note_why(e, "what listens there has another key, or none, or another mesh.run");
        return WEFT_OK;
    }
    double until_s = fmin(e->until_s, wefti_now_s() + answer_s);
    wefti_socket_own(s->fd, e->card.own, sizeof e->card.own);
    wefti_late_card_write(&e->card, bytes);
    bool heard = shaken == WEFTI_SHAKE_DONE &&
                 wefti_connection_all(s, bytes, sizeof bytes, true, until_s) &&
                 wefti_connection_all(s, code, 1, false, until_s);
    if (heard) return WEFT_OK;
    *code = 0;
    bool late = s->fd >= 0; /* who hangs up closes it, also before TLS has begun */
    note_why(e, late ? "it accepted the call and did not answer; it may stand still"
                     : "it hung up before it had answered");
    if (!late) e->mute_port = port;
    if (!late) snprintf(e->mute, sizeof e->mute, "%s", host);
    return WEFT_OK;
}

/* A name of several machines may be this one's, too, and lead to its own listener. */
static int call_others(const entering *e, const char *host, int port, double until_s) {
    int fd = -1, error;
    const char *unknown;
    if (port != e->card.port) return wefti_socket_connect(e->ctx, host, port, until_s);
    struct addrinfo *list = wefti_socket_resolve(host, port, &error, &unknown);
    error = EHOSTUNREACH;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        char other[WEFTI_CARD_HOST_BYTES] = "", own[WEFTI_CARD_HOST_BYTES] = "";
        wefti_socket_address(a->ai_addr, other, sizeof other);
        fd = wefti_socket_connect(e->ctx, other, port, until_s);
        error = errno;
        if (fd < 0) continue;
        wefti_socket_own(fd, own, sizeof own);
        if (strcmp(own, other) != 0) break;
        close(fd);
        fd = -1;
        error = ECONNREFUSED;
    }
    if (list) freeaddrinfo(list);
    errno = error;
    return fd;
}

/* Calls for at most `patience_s` seconds; false: nobody is reached. */
static bool call(entering *e, const char *host, int port, double patience_s,
                 wefti_connection *s) {
    double until_s = fmin(e->until_s, wefti_now_s() + patience_s);
    *s = wefti_connection_of(call_others(e, host, port, until_s));
    e->silent = s->fd < 0 && errno != ECONNREFUSED;
    if (s->fd < 0) note_why(e, strerror(errno));
    return s->fd >= 0;
}

/* Handles a code other than WELCOME. */
static weft_status judge(entering *e, unsigned char code) {
    if (code == WEFT_PLACE_NEVER)
        return refuse(e, "it takes nobody, for it ends when a process is lost");
    if (code == WEFT_PLACE_OVER)
        return refuse(e, "it has done its last step and is about to end");
    if (code == WEFT_PLACE_SHUNNED)
        return refuse(e, "what this machine computed was not finite, or not that of the "
                         "others, elastic.faults times");
    if (code == WEFTI_LATE_OTHER_VERSION)
        return refuse(e, "it runs another version of weft");
    if (code == WEFT_PLACE_FULL) note_why(e, "no place is free");
    if (code == WEFT_PLACE_LATER) note_why(e, "it is not ready for it");
    return WEFT_OK;
}

static bool read_rows(entering *e, wefti_connection *s, double until_s) {
    wefti_late_table *t = &e->table;
    unsigned char row[WEFTI_LATE_ROW_BYTES];
    size_t n = (size_t)t->n_places;
    bool *seen = calloc(n, 1);
    t->rank_of = calloc(n, sizeof *t->rank_of);
    t->names = calloc(n, sizeof *t->names);
    t->cards = calloc(n, WEFTI_CARD_BYTES);
    bool fine = seen && t->rank_of && t->names && t->cards;
    for (int i = 0; i < t->n_places && fine; i++)
        fine = wefti_connection_all(s, row, sizeof row, false, until_s) &&
               wefti_late_row_read(row, i, seen, t);
    free(seen);
    return fine;
}

/* Where to call a process of the table. The process that sent the table does not know by
 * which address others reach it, but this process has reached it at one. */
static const char *address_of(const entering *e, int i, int *port) {
    const unsigned char *card = e->table.cards + (size_t)i * WEFTI_CARD_BYTES;
    const char *address = (const char *)card + WEFTI_CARD_ADDRESS_AT;
    *port = wefti_card_port(card);
    return address[0] ? address : e->port ? e->host : e->place->endpoints[e->turn].host;
}

/* To a process that can not be called: either it calls, because a relay says so, or that one
 * relays. A busy one may hear of both at once; who comes by the relay has heard of the wish
 * before, so it calls now or can not. */
static bool meet(entering *e, wefti_relay_card wish, const char *host, int port,
                 wefti_connection *s) {
    double until_s = fmin(e->until_s, wefti_now_s() + answer_s);
    wefti_connection called;
    wish.port = e->card.port;
    wish.token = e->card.incarnation;
    wish.kind = WEFTI_RELAY_WANTED;
    bool wanted = !e->shut && wefti_relay_ask(e->ctx, e->tls, host, port, &wish, until_s,
                                              s) == WEFTI_RELAY_JOINED;
    if (wanted &&
        wefti_relay_await(e->tls, e->listener, &wish, wefti_now_s() + called_s, s))
        return true;
    wish.kind = WEFTI_RELAY_ASKS;
    bool joined = wefti_relay_ask(e->ctx, e->tls, host, port, &wish, until_s, s) ==
                  WEFTI_RELAY_JOINED;
    if (!joined || !wanted) return joined;
    e->shut = !wefti_relay_await(e->tls, e->listener, &wish, wefti_now_s() + called_s,
                                 &called);
    if (e->shut) return true;
    wefti_connection_close(s);
    *s = called;
    return true;
}

/* The next attempt asks the process that gives places. */
static void turn_to(entering *e) {
    char host[sizeof e->host];
    int port;
    const wefti_tcp_endpoint *endpoint = &e->place->endpoints[e->turn];
    snprintf(e->via, sizeof e->via, "%s", e->port ? e->host : endpoint->host);
    e->via_port = e->port ? e->port : endpoint->port;
    e->giver = e->table.place;
    snprintf(host, sizeof host, "%s", address_of(e, e->table.place, &port));
    memcpy(e->host, host, sizeof host);
    e->port = port;
    e->n_later = 0;
    note_why(e, "who gives places does not answer");
}

/* The next attempt asks at another endpoint: who refuses may be on its way in itself, or one
 * that the others have gone on without, and neither can let anybody in. A machine that does not
 * answer is not called at each of its ports. */
static void turn_away(entering *e) {
    const wefti_tcp_endpoint *d = e->place->endpoints;
    int n = e->place->n_endpoints, before = e->turn;
    bool same = e->port == 0 && e->silent;
    e->port = e->n_later = 0;
    do e->turn = (e->turn + 1) % n;
    while (same && e->turn > before && strcmp(d[e->turn].host, d[before].host) == 0);
}

/* Asks for the table of the run's processes; *again: not this time. */
static weft_status ask(entering *e, bool *again) {
    unsigned char code, head[WEFTI_LATE_HEAD_BYTES - 1];
    wefti_connection s;
    bool named = e->port == 0;
    e->card.place = -1;
    *again = true;
    const wefti_tcp_endpoint *endpoint = &e->place->endpoints[e->turn];
    const char *host = named ? endpoint->host : e->host;
    int port = named ? endpoint->port : e->port;
    code = 0;
    const wefti_relay_card wish = {.from = WEFTI_RELAY_NO_PLACE, .to = e->giver};
    if (call(e, host, port, named ? answer_s : direct_s, &s) ||
        (!named && meet(e, wish, e->via, e->via_port, &s)))
        WEFT_TRY(show_card(e, host, port, &s, &code));
    e->moved = named && code == 0;
    double until_s = fmin(e->until_s, wefti_now_s() + answer_s);
    bool fine = (code == WEFT_PLACE_WELCOME || code == WEFT_PLACE_ELSEWHERE) &&
                wefti_connection_all(&s, head, sizeof head, false, until_s) &&
                wefti_late_head_read(head, MAX_PLACES, &e->table) &&
                read_rows(e, &s, until_s);
    wefti_connection_close(&s);
    bool later = code == WEFT_PLACE_LATER && ++e->n_later < PATIENT_TRIES;
    if (fine && code == WEFT_PLACE_ELSEWHERE)
        turn_to(e);
    else if (!fine && !later)
        turn_away(e);
    *again = !fine || code == WEFT_PLACE_ELSEWHERE;
    return judge(e, code);
}

/* Whether a process of the table has to be called, and where. */
static bool is_there(const entering *e, int i, const char **host, int *port) {
    *host = address_of(e, i, port);
    return e->table.names[i] && i != e->table.place;
}

/* Connects to process i by way of any that was reached. */
static bool reach_by_others(entering *e, int i, const bool *direct) {
    int port;
    const int *rank_of = e->table.rank_of;
    const wefti_relay_card wish = {.from = e->table.place, .to = i};
    for (int j = 0; j < e->table.n_places; j++) {
        const char *relay = address_of(e, j, &port);
        if (!direct[j] || !meet(e, wish, relay, port, &e->streams[i])) continue;
        const char *host = address_of(e, i, &port);
        (void)wefti_socket_parse(host, port, &e->streams[i].peer);
        if (e->streams[i].relay.ss_family == AF_UNSPEC)
            weft_ctx_log(e->ctx, WEFT_LOG_INFO,
                         "rank %d can not call rank %d, which calls it",
                         rank_of[e->table.place], rank_of[i]);
        else
            weft_ctx_log(e->ctx, WEFT_LOG_INFO,
                         "rank %d and rank %d can not reach each other: rank %d relays",
                         rank_of[e->table.place], rank_of[i], rank_of[j]);
        return true;
    }
    return false;
}

/* Connects to every process of the table. [out] direct[n_places]: it was called. False: one of
 * them was not reached. */
static bool reach_all(entering *e, bool *direct) {
    const wefti_late_table *t = &e->table;
    const char *host;
    int port, n_far = 0;
    for (int i = 0; i < t->n_places; i++) {
        if (!is_there(e, i, &host, &port)) continue;
        direct[i] = call(e, host, port, direct_s, &e->streams[i]);
        n_far += !direct[i];
    }
    for (int i = 0; i < t->n_places && n_far > 0; i++) {
        if (!is_there(e, i, &host, &port)) continue;
        if (!direct[i] && !reach_by_others(e, i, direct)) return false;
    }
    for (int i = 0; i < t->n_places && n_far > 0; i++) { /* who waits hangs up */
        wefti_connection *s = &e->streams[i];
        if (!direct[i] || !is_there(e, i, &host, &port)) continue;
        wefti_connection_close(s);
        if (!call(e, host, port, direct_s, s)) return false;
    }
    return true;
}

/* Takes its place at each of them; *again: one of them did not accept. */
static weft_status call_all(entering *e, const bool *direct, bool *again) {
    const wefti_late_table *t = &e->table;
    const char *host;
    int port, wish = e->card.wish;
    weft_status status = WEFT_OK;
    for (int i = 0; i < t->n_places && !*again && status == WEFT_OK; i++) {
        unsigned char code;
        if (!is_there(e, i, &host, &port)) continue;
        wefti_connection *s = &e->streams[i];
        e->card.wish = direct[i] ? wish : 0;
        status = show_card(e, host, port, s, &code);
        int n = wefti_streams_welcomed(e->place->streams, code);
        *again = n == 0 || !wefti_streams_room(s, n, e->card.incarnation) ||
                 !wefti_streams_open(e->tls, s, t->place,
                                     fmin(e->until_s, wefti_now_s() + answer_s));
        if (status == WEFT_OK) status = judge(e, code);
    }
    e->card.wish = wish;
    return status;
}

/* Connects to every process of the table, to take its place; *again: not this time. */
static weft_status take_place(entering *e, bool *again) {
    const wefti_late_table *t = &e->table;
    bool *direct = calloc((size_t)t->n_places, sizeof *direct);
    if (!direct) return weft_ctx_fail(e->ctx, WEFT_ERR_MEMORY, "no memory to join");
    e->card.place = t->place;
    e->card.run = t->run;
    *again = !reach_all(e, direct);
    weft_status status = *again ? WEFT_OK : call_all(e, direct, again);
    free(direct);
    if (*again && ++e->n_later >= PATIENT_TRIES) turn_away(e);
    return status;
}

static void hang_up(entering *e) {
    for (int i = 0; e->streams && i < e->table.n_places; i++)
        wefti_connection_close(&e->streams[i]);
    free(e->streams);
    e->streams = NULL;
    wefti_late_table_fini(&e->table);
}

static weft_status try_once(entering *e, bool *again) {
    WEFT_TRY(ask(e, again));
    if (*again) return WEFT_OK;
    e->streams = calloc((size_t)e->table.n_places, sizeof *e->streams);
    if (!e->streams) return weft_ctx_fail(e->ctx, WEFT_ERR_MEMORY, "no memory to join");
    for (int i = 0; i < e->table.n_places; i++) e->streams[i] = wefti_connection_of(-1);
    return take_place(e, again);
}

/* Draws a name that no process has had, for each attempt: a process refused half-way is
 * forgotten. */
static weft_status draw(entering *e, double *share) {
    uint64_t drawn[2];
    if (!wefti_machine_random(drawn, sizeof drawn))
        return weft_ctx_fail(e->ctx, WEFT_ERR_INTERNAL, "no random numbers: %s",
                             strerror(errno));
    e->card.incarnation = drawn[0] | 2;
    *share = (double)(drawn[1] >> 11) / 9007199254740992.0; /* 2^53 */
    return WEFT_OK;
}

/* Why it is not taken in, in words. A guard (net/guard.h) hangs up on who wants to join, and
 * tells anybody how its process stands. */
static const char *why(const entering *e) {
    unsigned char answer[WEFTI_VITALS_BYTES];
    double until_s = wefti_now_s() + 1;
    if (e->mute_port == 0) return e->why ? e->why : "no answer";
    wefti_connection s = wefti_connection_of(
        wefti_socket_connect(e->ctx, e->mute, e->mute_port, until_s));
    s.stop = e->ctx;
    bool heard = s.fd >= 0 && shutdown(s.fd, SHUT_WR) == 0 &&
                 wefti_connection_all(&s, answer, sizeof answer, false, until_s);
    wefti_vital_state state = heard ? wefti_vitals_claim(answer) : WEFTI_VITAL_NONE;
    wefti_connection_close(&s);
    return state == WEFTI_VITAL_OVER    ? "the run there has ended"
           : state == WEFTI_VITAL_ENDED ? "the process that listened there has ended"
                                        : e->why;
}

/* Logs once why it waits, after a time when a user begins to wonder. */
static void say_what_it_waits_for(entering *e, double begin_s) {
    if (e->logged || wefti_now_s() - begin_s < say_after_s) return;
    e->logged = true;
    char endpoints[400];
    weft_ctx_log(e->ctx, WEFT_LOG_INFO,
                 "the run at %s does not take this process yet (%s); trying for %.0f s",
                 endpoints_text(e, endpoints, sizeof endpoints), why(e),
                 e->until_s - begin_s);
}

static weft_status enter(entering *e) {
    double begin_s = wefti_now_s();
    for (;;) {
        bool again;
        double share = 0;
        WEFT_TRY(draw(e, &share));
        WEFT_TRY(try_once(e, &again));
        if (!again) return WEFT_OK;
        hang_up(e);
        if (wefti_now_s() >= e->until_s || wefti_stop_asked(e->ctx))
            return refuse(e, why(e));
        say_what_it_waits_for(e, begin_s);
        if (e->moved && e->turn > 0) continue; /* the next endpoint, at once */
        wefti_sleep_until_s(wefti_now_s() + again_s * (0.5 + share));
    }
}

static weft_status look_at_host(const entering *e, int i, bool *local) {
    int error;
    const char *why;
    const wefti_tcp_endpoint *endpoint = &e->place->endpoints[i];
    struct addrinfo *list = wefti_socket_resolve(endpoint->host, endpoint->port, &error,
                                                 &why);
    if (!list) return refuse(e, why);
    for (struct addrinfo *a = list; a; a = a->ai_next)
        *local = *local && wefti_socket_is_loopback(a->ai_addr);
    freeaddrinfo(list);
    return WEFT_OK;
}

/* Bytes that cross a network have to be encrypted, unless the user has allowed plain bytes. */
static weft_status look_at_hosts(const entering *e, bool *local) {
    const wefti_tcp_endpoint *d = e->place->endpoints;
    *local = true;
    for (int i = 0; i < e->place->n_endpoints; i++)
        if (i == 0 || strcmp(d[i].host, d[i - 1].host) != 0)
            WEFT_TRY(look_at_host(e, i, local));
    if (e->tls || *local || e->place->plain) return WEFT_OK;
    return refuse(e,
                  "it is reached over a network, but there is no key; expected mesh.key "
                  "or WEFT_KEY_FILE, or mesh.encrypt=off where everybody is trusted");
}

/* Which ports of a run's processes nobody listens at here, not even for a dead process: if
 * a member listened there, it has ended. */
static uint32_t find_free_ports(int first, int own) {
    uint32_t free_ports = 0;
    for (int i = 0; i < WEFTI_TCP_PORTS; i++)
        if (first + i == own || wefti_socket_is_free(first + i))
            free_ports |= (uint32_t)1 << i;
    return free_ports;
}

weft_status wefti_late_enter(weft_ctx *ctx, const wefti_tcp_place *place,
                             const wefti_tls_context *tls, wefti_connection **streams,
                             wefti_late_table *table, wefti_late_card *card,
                             int *listener) {
    bool local = false;
    entering e = {.ctx = ctx,
                  .place = place,
                  .tls = tls,
                  .until_s = wefti_now_s() + place->patience_s};
    *listener = -1;
    WEFT_TRY(look_at_hosts(&e, &local));
    *listener = wefti_socket_listen_from(local && !tls && !place->plain,
                                         place->endpoints[0].port + 1,
                                         WEFTI_TCP_PORTS - 1);
    if (*listener < 0) return refuse(&e, strerror(errno));
    e.listener = *listener;
    e.card.port = wefti_socket_port(*listener);
    e.card.first_port = place->endpoints[0].port;
    e.card.free_ports = find_free_ports(e.card.first_port, e.card.port);
    gethostname(e.card.host, sizeof e.card.host - 1);
    e.card.machine = wefti_machine_number();
    e.card.wish = wefti_streams_wish(place->streams);
    weft_status status = enter(&e);
    if (status != WEFT_OK) {
        hang_up(&e);
        close(*listener);
        *listener = -1;
        return status;
    }
    for (int i = 0; i < e.table.n_places; i++) e.streams[i].stop = NULL;
    *streams = e.streams;
    *table = e.table;
    *card = e.card;
    return WEFT_OK;
}
