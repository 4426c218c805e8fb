/* SPDX-License-Identifier: MIT */
/* Processes that join while the run trains, as seen by a member's progress thread. It must
 * not wait: callers are served as far as their sockets are ready, and each answer is sent
 * as far as the socket accepts it.
 *
 *     listener -> callers (callers.h) -> card -> probe: asks -> the mesh decides -> place
 *
 *     asks for any place     the table of all places goes back, and the caller hangs up
 *     asks for this place    one byte goes back, and the connection is this peer's */
#define _GNU_SOURCE
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "net/socket.h"
#include "start/joiner.h"
#include "start/relay.h"
#include "start/tcpstate.h"

/* How often silent callers are checked: their time may be up. */
static const double callers_every_s = 0.5;

/* A further socket of one that has come. */
static wefti_caller_fate admit_stream(tcp_transport *t, wefti_caller *caller,
                                      const wefti_stream_card *card) {
    unsigned char code = WEFT_PLACE_WELCOME;
    struct iovec part = {&code, 1};
    connection *pair = card->rank < t->head.size ? &t->peers[card->rank] : NULL;
    bool fits = pair && pair->stream.fd >= 0 && card->number <= pair->n_more &&
                card->token == pair->stream.token;
    connection *c = fits ? wefti_tcp_socket(pair, card->number) : NULL;
    if (!c || c->met || wefti_connection_write(&caller->stream, &part, 1) != 1) {
        wefti_callers_complain(&t->callers, caller->address,
                               "names a socket that it has not");
        return WEFTI_CALLER_GONE;
    }
    wefti_tcp_attach(t, c, caller->stream, WEFTI_WATCH_AGAIN);
    return WEFTI_CALLER_TAKEN;
}

/* A card has arrived: probe reports it, and the caller waits for the answer. */
wefti_caller_fate wefti_tcp_admit(void *transport, wefti_caller *caller) {
    wefti_late_card card;
    wefti_stream_card stream;
    if (wefti_late_card_read(caller->card, &card)) return WEFTI_CALLER_WAITS;
    tcp_transport *t = transport;
    if (wefti_stream_card_read(caller->card, &stream))
        return admit_stream(t, caller, &stream);
    wefti_resume_card resumed;
    if (wefti_resume_card_read(caller->card, &resumed))
        return wefti_tcp_admit_resume(t, caller, &resumed);
    wefti_relay_card relayed;
    if (wefti_relay_card_read(caller->card, &relayed))
        return wefti_tcp_admit_relay(t, caller, &relayed);
    const unsigned char code = WEFTI_LATE_OTHER_VERSION;
    if (!wefti_late_card_is_foreign(caller->card)) return WEFTI_CALLER_GONE;
    wefti_callers_complain(&t->callers, caller->address, "runs another version of weft");
    wefti_callers_answer(&t->callers, caller, &code, 1);
    return WEFTI_CALLER_WAITS;
}

/* Serves all callers, because one of them or a new one is ready, or because the time of
 * some may be up. */
static void hear_callers(tcp_transport *t) {
    double now_s = wefti_now_s();
    bool due = t->callers.n > 0 && now_s - t->heard_s > callers_every_s;
    if (!t->called && !due) return;
    t->called = false;
    t->heard_s = now_s;
    int before = t->callers.n;
    for (int i = 0; i < before; i++)
        wefti_connection_ready(&t->callers.list[i].stream, POLLIN | POLLOUT);
    (void)wefti_callers_accept(&t->callers); /* callers for which there is no file call
                                                again */
    t->called = t->callers.more;
    wefti_tcp_watch_callers(t, before < t->callers.n ? before : t->callers.n);
    (void)wefti_callers_hear(&t->callers);
    wefti_tcp_join_callers(t);
}

/* "10.0.0.1" of "10.0.0.1:29500". */
static bool is_address_of(const connection *c, const char *caller) {
    char own[WEFTI_CALLER_ADDRESS_BYTES];
    wefti_socket_address((const struct sockaddr *)&c->address, own, sizeof own);
    return own[0] && strcmp(own, caller) == 0;
}

/* The processes whose place the caller could have taken: they listened on its machine, at a
 * port that is free there. Behind a router there may be several machines of one name. */
static int find_replaced(tcp_transport *t, const wefti_caller *caller,
                         const wefti_late_card *card) {
    int n = 0;
    if (strcmp(card->own, caller->address) != 0) return 0;
    for (int p = 0; p < t->head.size && t->replaced; p++) {
        const unsigned char *own = t->cards + (size_t)p * WEFTI_CARD_BYTES;
        int i = wefti_card_port(own) - card->first_port;
        bool same = p != t->head.rank && is_address_of(&t->peers[p], caller->address) &&
                    strcmp(t->hosts[p], card->host) == 0;
        if (same && i >= 0 && i < WEFTI_TCP_PORTS && card->free_ports >> i & 1)
            t->replaced[n++] = p;
    }
    return n;
}

/* Whether a caller has shown a card that was not reported yet. */
bool wefti_tcp_look_at_callers(tcp_transport *t, weft_transport_found *found) {
    hear_callers(t);
    for (int i = 0; i < t->callers.n; i++) {
        wefti_caller *c = &t->callers.list[i];
        wefti_late_card card;
        if (c->reported || c->n_card < WEFTI_CARD_BYTES) continue;
        c->reported = true;
        if (!wefti_late_card_read(c->card, &card)) continue;
        *found = (weft_transport_found){.asks = true,
                                        .peer = (int)c->number,
                                        .place = card.place,
                                        .run = card.run,
                                        .incarnation = card.incarnation,
                                        .machine = card.machine,
                                        .n_replaced = find_replaced(t, c, &card),
                                        .replaced = t->replaced};
        memcpy(found->host, card.host, sizeof card.host);
        return true;
    }
    return false;
}

/* Sends the table of joiner.h. */
static void send_table(tcp_transport *t, wefti_caller *caller,
                       const weft_transport_place *place) {
    size_t n = (size_t)t->head.size;
    unsigned char *bytes = calloc(1, WEFTI_LATE_HEAD_BYTES + n * WEFTI_LATE_ROW_BYTES);
    unsigned char *row = bytes + WEFTI_LATE_HEAD_BYTES;
    if (!bytes) {
        wefti_connection_close(&caller->stream);
        return;
    }
    bytes[0] = (unsigned char)place->code;
    wefti_put_u32(bytes + 1, (uint32_t)n);
    wefti_put_u32(bytes + 5, (uint32_t)place->place);
    wefti_put_u64(bytes + 9, place->run);
    wefti_put_u32(bytes + 17, (uint32_t)place->group);
    for (size_t p = 0; p < n; p++, row += WEFTI_LATE_ROW_BYTES) {
        wefti_put_u32(row, (uint32_t)place->rank_of[p]);
        wefti_put_u64(row + 4, place->names[p]);
        memcpy(row + 12, t->cards + p * WEFTI_CARD_BYTES, WEFTI_CARD_BYTES);
        wefti_socket_address((const struct sockaddr *)&t->peers[p].address,
                             (char *)row + 12 + WEFTI_CARD_ADDRESS_AT,
                             WEFTI_CALLER_ADDRESS_BYTES);
    }
    wefti_callers_answer(&t->callers, caller, bytes,
                         WEFTI_LATE_HEAD_BYTES + n * WEFTI_LATE_ROW_BYTES);
    free(bytes);
}

/* The caller is peer `place` from now on. */
static bool attach(tcp_transport *t, wefti_caller *caller, int place) {
    unsigned char code = WEFT_PLACE_WELCOME;
    struct iovec part = {&code, 1};
    wefti_late_card card;
    unsigned char *own = t->cards + (size_t)place * WEFTI_CARD_BYTES;
    bool fine = wefti_late_card_read(caller->card, &card);
    int n_peers = 1, n = 1;
    for (int p = 0; p < t->head.size; p++) n_peers += t->peers[p].stream.fd >= 0;
    if (fine) n = wefti_streams_agree(t->streams, card.wish, &caller->stream, n_peers);
    if (n > 1) code = (unsigned char)(WEFTI_STREAMS_WELCOME + n);
    fine = fine && wefti_streams_room(&caller->stream, n, card.incarnation) &&
           wefti_connection_write(&caller->stream, &part, 1) == 1;
    wefti_connection stream = wefti_callers_take(&t->callers, caller);
    if (!fine || t->peers[place].stream.fd >= 0) {
        wefti_connection_close(&stream);
        return false;
    }
    wefti_late_card_as_card(&card, own);
    wefti_tcp_begin(t, place, stream);
    return wefti_tcp_watch(t, WEFTI_WATCH_AGAIN, stream.fd, &t->peers[place]);
}

bool wefti_tcp_give_place(weft_transport *head, int caller,
                          const weft_transport_place *place) {
    tcp_transport *t = (tcp_transport *)head;
    unsigned char code = (unsigned char)place->code;
    wefti_late_card card;
    wefti_caller *c = wefti_callers_find(&t->callers, (unsigned)caller);
    if (!c) return false; /* it has hung up */
    bool fits = wefti_late_card_read(c->card, &card);
    if (fits && place->code == WEFT_PLACE_WELCOME && card.place >= 0)
        return attach(t, c, place->place);
    if (fits &&
        (place->code == WEFT_PLACE_WELCOME || place->code == WEFT_PLACE_ELSEWHERE))
        send_table(t, c, place);
    else
        wefti_callers_answer(&t->callers, c, &code, 1);
    t->called = true;
    return false;
}
