/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "net/connection.h"
#include "start/tcp.h"

/* Several sockets between two processes: one can not hold more bytes under way than the
 * kernel's send buffer has room for, which is too few on a long wire.
 *
 *     caller                                                 called
 *     card, with a wish and a token  --->
 *                                    <---  welcome, or WEFTI_STREAMS_WELCOME + how many in all
 *     on each further socket: [handshake] "wefS", version, number of the socket, rank (or
 *     place) of the caller (4 bytes each), token (8), zeros
 *                                    <---  welcome
 *
 * The first socket carries what one alone would; only the bodies of pieces go by the others,
 * and each one's head, on the first, names its socket. So the order of messages is that of
 * the first socket, however the others are delayed. A process that does not know of this
 * shows a wish of zero, and gets one socket and the same bytes as ever. */

enum {
    WEFTI_STREAMS = 16, /* of a pair at most */
    WEFTI_STREAMS_AUTO = 255,
    WEFTI_STREAMS_WELCOME = 32
};

/* What a process with this setting (mesh.streams; 0: by the wire) wishes, for its card. */
int wefti_streams_wish(int setting);

/* How many sockets a pair has: `own` is the called process's setting, `wish` the caller's
 * wish, s the first socket, and n_peers the pairs that share the wire. */
int wefti_streams_agree(int own, int wish, const wefti_connection *s, int n_peers);

/* How many sockets an answer to a card stands for; 0: it is no welcome, or for more than this
 * setting allows. */
int wefti_streams_welcomed(int setting, int answer);

typedef struct wefti_stream_card {
    int number; /* 1 .. WEFTI_STREAMS - 1 */
    int rank;
    uint64_t token;
} wefti_stream_card;

void wefti_stream_card_write(const wefti_stream_card *card, unsigned char *bytes);
bool wefti_stream_card_read(const unsigned char *bytes, wefti_stream_card *out);

/* A connection goes on by another socket, from another address for example:
 *
 *     [handshake] "wefC", version, number of the socket, place of the caller and of the called
 *     (4 bytes each), bytes that the caller has read (8), proof (32)   --->
 *       <---   welcome, bytes that the called has read, byte from which on it sends again
 *              (8 each), proof (32)
 *
 * The proofs show that both ends are those of the first connection (wefti_tls_prove). */
enum { WEFTI_RESUME_SAID_BYTES = 28, WEFTI_RESUMED_SAID_BYTES = 17 };
enum { WEFTI_RESUMED_BYTES = WEFTI_RESUMED_SAID_BYTES + WEFTI_SECRET_BYTES };

typedef struct wefti_resume_card {
    int number, from, to;
    int64_t n_read;
    unsigned char proof[WEFTI_SECRET_BYTES];
} wefti_resume_card;

void wefti_resume_card_write(const wefti_resume_card *card, unsigned char *bytes);
bool wefti_resume_card_read(const unsigned char *bytes, wefti_resume_card *out);

/* The answer; false: it is no welcome, or has impossible numbers. */
void wefti_resumed_write(int64_t n_read, int64_t again, unsigned char *bytes);
bool wefti_resumed_read(const unsigned char *bytes, int64_t *n_read, int64_t *again);

/* Room for n - 1 further sockets, closed, in `first`; false: no memory. */
bool wefti_streams_room(wefti_connection *first, int n, uint64_t token);

/* Opens them to where `first` leads, all at the same time; rank: this process's, or its place.
 * False: until_s has passed. */
bool wefti_streams_open(const wefti_tls_context *tls, wefti_connection *first, int rank,
                        double until_s);

/* One of them has called: it is welcomed and taken over; false: it belongs to no pair. */
bool wefti_streams_take(wefti_connection *first, const wefti_stream_card *card,
                        wefti_connection *s);
