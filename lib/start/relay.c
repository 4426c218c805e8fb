/* SPDX-License-Identifier: MIT */
/* The card of a relayed connection, and the side that asks for one (relay.h draws it). It has
 * no mesh yet, so it may wait. tcp_relay.c has the other two sides. */
#define _GNU_SOURCE
#include "start/relay.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/text.h"
#include "net/socket.h"

enum { VERSION = 1, MAX_PLACES = 1024, TURN_MS = 50 };
static const char magic[4] = {'w', 'e', 'f', 'R'};
static const double answer_s = 5;

void wefti_relay_card_write(const wefti_relay_card *card, unsigned char *bytes) {
    memset(bytes, 0, WEFTI_CARD_BYTES);
    memcpy(bytes, magic, sizeof magic);
    wefti_put_u32(bytes + 4, VERSION);
    wefti_put_u32(bytes + 8, (uint32_t)card->kind);
    wefti_put_u32(bytes + 12, (uint32_t)card->from);
    wefti_put_u32(bytes + 16, (uint32_t)card->to);
    wefti_put_u32(bytes + 20, (uint32_t)card->port);
    wefti_put_u64(bytes + 24, card->token);
    memcpy(bytes + WEFTI_CARD_ADDRESS_AT, card->address, sizeof card->address - 1);
}

bool wefti_relay_card_read(const unsigned char *bytes, wefti_relay_card *out) {
    uint32_t kind = wefti_get_u32(bytes + 8), from = wefti_get_u32(bytes + 12),
             to = wefti_get_u32(bytes + 16), port = wefti_get_u32(bytes + 20);
    memset(out, 0, sizeof *out);
    if (memcmp(bytes, magic, sizeof magic) != 0 || wefti_get_u32(bytes + 4) != VERSION ||
        kind < WEFTI_RELAY_WANTED || kind > WEFTI_RELAY_CALLS ||
        (from >= MAX_PLACES && from != WEFTI_RELAY_NO_PLACE) ||
        (to >= MAX_PLACES && to != WEFTI_RELAY_NO_PLACE) || from == to || port < 1 ||
        port > 0xffff)
        return false;
    *out = (wefti_relay_card){.kind = (wefti_relay_kind)kind,
                              .from = (int)from,
                              .to = (int)to,
                              .port = (int)port,
                              .token = wefti_get_u64(bytes + 24)};
    memcpy(out->address, bytes + WEFTI_CARD_ADDRESS_AT, sizeof out->address - 1);
    wefti_text_plain(out->address);
    return out->token != 0;
}

bool wefti_relay_fits(const wefti_relay_card *a, const wefti_relay_card *b) {
    return a->kind == WEFTI_RELAY_ASKS && b->kind == WEFTI_RELAY_COMES &&
           a->from == b->to && a->to == b->from && a->token == b->token;
}

int wefti_relay_ask(weft_ctx *ctx, const wefti_tls_context *tls, const char *host,
                    int port, const wefti_relay_card *card, double until_s,
                    wefti_connection *s) {
    unsigned char bytes[WEFTI_CARD_BYTES], answer = 0;
    until_s = fmin(until_s, wefti_now_s() + answer_s);
    *s = wefti_connection_of(wefti_socket_connect(ctx, host, port, until_s));
    s->stop = ctx;
    wefti_relay_card_write(card, bytes);
    bool heard = s->fd >= 0 && wefti_socket_shake(tls, s, until_s) == WEFTI_SHAKE_DONE &&
                 wefti_connection_all(s, bytes, sizeof bytes, true, until_s) &&
                 wefti_connection_all(s, &answer, 1, false, until_s);
    s->relay = s->peer;
    if (heard && answer == WEFTI_RELAY_JOINED && card->kind == WEFTI_RELAY_ASKS)
        wefti_connection_bare(s);
    else
        wefti_connection_close(s);
    return heard ? answer : 0;
}

bool wefti_relay_is_wanted(wefti_caller *caller, const wefti_relay_card *wanted,
                           wefti_connection *s) {
    wefti_relay_card card;
    unsigned char code = WEFTI_RELAY_JOINED;
    struct iovec part = {&code, 1};
    if (!wefti_relay_card_read(caller->card, &card) || s->fd >= 0 ||
        card.kind != WEFTI_RELAY_CALLS || card.from != wanted->to ||
        card.to != wanted->from || card.token != wanted->token ||
        wefti_connection_write(&caller->stream, &part, 1) != 1)
        return false;
    wefti_connection_bare(&caller->stream);
    *s = caller->stream;
    return true;
}

typedef struct awaiting {
    const wefti_relay_card *wanted;
    wefti_connection *s;
} awaiting;

static wefti_caller_fate admit(void *user, wefti_caller *caller) {
    const awaiting *a = user;
    return wefti_relay_is_wanted(caller, a->wanted, a->s) ? WEFTI_CALLER_TAKEN
                                                          : WEFTI_CALLER_GONE;
}

bool wefti_relay_await(const wefti_tls_context *tls, int listener,
                       const wefti_relay_card *wanted, double until_s,
                       wefti_connection *s) {
    awaiting a = {wanted, s};
    wefti_callers callers = {
        .tls = tls, .listener = listener, .admit = admit, .user = &a};
    *s = wefti_connection_of(-1);
    bool fine = wefti_callers_init(&callers);
    while (fine && s->fd < 0 &&
           (wefti_now_s() < until_s ||
            (callers.n > 0 && wefti_now_s() < until_s + answer_s))) {
        wefti_callers_poll(&callers, TURN_MS);
        fine = wefti_callers_accept(&callers);
        (void)wefti_callers_hear(&callers);
    }
    wefti_callers_fini(&callers);
    return s->fd >= 0;
}
