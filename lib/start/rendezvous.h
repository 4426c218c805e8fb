/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "net/connection.h"
#include "start/tcp.h"

/* How processes find each other. Process 0 listens; the others call it, get the list of all
 * processes from it, and connect pairwise. Each connection begins with the caller's card,
 * of fixed size, and one byte of answer; if encrypted, the handshake comes before.
 *
 *     caller:  [handshake] card ->                 <- answer
 *     rank 0, when all have called:                <- cards of all */

/* "wefT", version, size, rank, port that the process listens at (4 bytes each), host name,
 * number of its machine (8 bytes; weft_mesh_machine), address at which others reach it. */
enum {
    WEFTI_CARD_BYTES = 148,
    WEFTI_CARD_HOST_AT = 20,
    WEFTI_CARD_HOST_BYTES = 56,
    WEFTI_CARD_MACHINE_AT = WEFTI_CARD_HOST_AT + WEFTI_CARD_HOST_BYTES,
    WEFTI_CARD_ADDRESS_AT = WEFTI_CARD_MACHINE_AT + 8
};

/* Connects all processes. [out] streams[size], with further sockets where both wish it, closed
 * at this process's rank and after a failure; cards[size][WEFTI_CARD_BYTES], whose host
 * names end with NUL and contain no control characters; *listener, owned by the caller, still
 * listens at the port of this process's card, or is -1. */
weft_status wefti_gather(weft_ctx *ctx, const wefti_tcp_place *place,
                         const wefti_tls_context *tls, wefti_connection *streams,
                         unsigned char *cards, int *listener) WEFT_CHECKED;

/* The port in a card; and how many sockets it wishes (streams.h), in the upper half of the
 * same number, where those that do not know of it have zero. */
int wefti_card_port(const unsigned char *card);

/* The rank in a card, which a process of a run of this size may have, or -1: not a card of
 * this run. Makes the texts of the card safe to use. */
int wefti_card_read(unsigned char *card, int size);
