/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "comm/connection.h"
#include "comm/tcp.h"

/* How processes find each other. Process 0 listens; the others call it, learn of each
 * other there, and connect pairwise. Each connection begins with the caller's card, of
 * fixed size, and one byte of answer; encrypted, the handshake comes before.
 *
 *     caller:  [handshake] card ->                 <- answer
 *     rank 0, when all have called:                <- cards of all
 */

/* "wefT", version, size, rank, port that it listens at (4 bytes each), host name, address
 * as others reach it. */
enum { WEFTI_CARD_BYTES = 148, WEFTI_CARD_HOST_AT = 20, WEFTI_CARD_HOST_BYTES = 64 };

/* Connects all. [out] streams[size], closed at the own rank and after a failure;
 * cards[size][WEFTI_CARD_BYTES], whose host names end and hold no control characters;
 * *listener, owned by the caller, still listens at the port of the own card, or is -1. */
weft_status wefti_gather(weft_ctx *ctx, const wefti_tcp_place *place,
                         const wefti_tls_context *tls, wefti_connection *streams,
                         unsigned char *cards, int *listener) WEFT_CHECKED;

/* The port in a card. */
int wefti_card_port(const unsigned char *card);

/* The rank in a card that a process of this size may have, or -1: it is not one of ours.
 * Its texts are made fit to be used. */
int wefti_card_read(unsigned char *card, int size);
