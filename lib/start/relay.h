/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "net/connection.h"
#include "start/callers.h"

/* A pair of which at most one side can be called (NAT). Who wants the connection asks a member
 * that both reach, the relay, first to have the other one call it, and then for a relayed
 * connection:
 *
 *     asker                        relay                            the other one
 *     card WANTED   --->           1; the card, over their connection  --->
 *                   <---  card CALLS, from the other one; 1  --->
 *     or, if nobody calls:
 *     card ASKS     --->              the card, over their connection  --->
 *                                                            <---  card COMES
 *                   <---  1                                1  --->
 *
 * Each of these connections begins as any other does: a handshake, a card, one byte of answer.
 * The card: "wefR", version, kind, place of the sender (65535: none yet), place of the other one,
 * port that the sender listens at (4 bytes each), token (8: incarnation of the one that asks; 1
 * while a run gathers), zeros, at 84 its address as the relay sees it (64).
 * After the answer 1 both sides drop the TLS layer, and the socket is as a new one between asker
 * and the other one, with a handshake of their own: the relay passes ciphertext. (A process that
 * has the run's key and lies could put itself between them: one key is one circle of trust.)
 *
 * A run that gathers needs no word to the other one: both come to rank 0 by themselves. */

enum {
    WEFTI_RELAY_JOINED = 1, /* answers */
    WEFTI_RELAY_NOBODY
};

enum {
    WEFTI_RELAY_GATHERS = 1,      /* the token of processes that gather */
    WEFTI_RELAY_NO_PLACE = 0xffff /* from: one that asks for a place */
};

typedef enum wefti_relay_kind {
    WEFTI_RELAY_WANTED = 1,
    WEFTI_RELAY_ASKS,
    WEFTI_RELAY_COMES,
    WEFTI_RELAY_CALLS
} wefti_relay_kind;

typedef struct wefti_relay_card {
    wefti_relay_kind kind;
    int from, to; /* places */
    int port;     /* that `from` listens at */
    uint64_t token;
    char address[WEFTI_CALLER_ADDRESS_BYTES]; /* of `from`, as the relay sees it */
} wefti_relay_card;

void wefti_relay_card_write(const wefti_relay_card *card, unsigned char *bytes);

/* False: this is no such card. */
bool wefti_relay_card_read(const unsigned char *bytes, wefti_relay_card *out);

/* Whether two cards are those of a pair that the relay is to join. */
bool wefti_relay_fits(const wefti_relay_card *a, const wefti_relay_card *b);

/* The asker's card is shown to a relay; the answer, 0: none. *s: the connection after JOINED,
 * without TLS, else closed. Blocks. */
int wefti_relay_ask(weft_ctx *ctx, const wefti_tls_context *tls, const char *host,
                    int port, const wefti_relay_card *card, double until_s,
                    wefti_connection *s);

/* A caller's card says that it comes because this process wanted it: takes its connection over,
 * without TLS. False: it was not wanted. */
bool wefti_relay_is_wanted(wefti_caller *caller, const wefti_relay_card *wanted,
                           wefti_connection *s);

/* Waits for such a call at `listener`. */
bool wefti_relay_await(const wefti_tls_context *tls, int listener,
                       const wefti_relay_card *wanted, double until_s,
                       wefti_connection *s);
