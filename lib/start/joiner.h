/* SPDX-License-Identifier: MIT */
#pragma once

#include "net/connection.h"
#include "start/rendezvous.h"

/* How a process joins a run that trains: it asks any member for a place, gets a list of all
 * processes, and calls each of them with the place that it was given.
 *
 *     caller                                member
 *     late card, any place    --->
 *                             <---          code | places, place, run, group | each place: rank,
 *                                           name, card                             and hangs up
 *     late card, that place   --->          (to each that is there)
 *                             <---          code; then the connection is as any other
 *
 * A card has the size of those that gather a run (rendezvous.h): "wefJ", version, place
 * (all ones: any), port that the caller listens at (4 bytes each), run, incarnation (8
 * each), host name (56), number of its machine (8), and which of the ports that processes
 * of a run listen at are free where it runs (4; bit i: the endpoint's port + i), the base (2),
 * how many sockets it wishes (2), and the address that it calls from (40): behind a router it
 * is another one than the member sees.
 * One member gives places, one after
 * another; the others say where that member is (code ELSEWHERE, place: its place). Its
 * decision does not bind the others: a process that finds the place taken refuses, and the
 * caller begins again. A name is an incarnation; 0: the place is empty. If `group` processes
 * share a copy of the model, that many have to come: places whose ranks are neighbours go to
 * callers of one machine. */

/* A member's answer to the late card of another version; its other answers are those of
 * ext/transport.h. */
enum { WEFTI_LATE_OTHER_VERSION = 7, WEFTI_LATE_OWN_BYTES = 40 };

enum { WEFTI_LATE_ROW_BYTES = 12 + WEFTI_CARD_BYTES, WEFTI_LATE_HEAD_BYTES = 21 };

typedef struct wefti_late_card {
    int place; /* -1: any */
    int port;
    uint64_t run, incarnation, machine;
    int first_port;      /* ports first_port + i, of which those in the bit mask */
    uint32_t free_ports; /* are free where it runs, or its own */
    int wish;            /* of sockets (streams.h) */
    char host[WEFTI_CARD_HOST_BYTES];
    char own
        [WEFTI_LATE_OWN_BYTES]; /* the address that it calls from, as it sees it itself */
} wefti_late_card;

void wefti_late_card_write(const wefti_late_card *card, unsigned char *bytes);

/* False: this is not a late card. Control characters in the host name become '?'. */
bool wefti_late_card_read(const unsigned char *bytes, wefti_late_card *out);

/* Whether this is a late card of another version of weft. */
bool wefti_late_card_is_foreign(const unsigned char *bytes);

/* Writes the same facts as a card of the gathering (rendezvous.h), without an address. */
void wefti_late_card_as_card(const wefti_late_card *card, unsigned char *bytes);

/* A member's description of the run. */
typedef struct wefti_late_table {
    int n_places, place, group;
    uint64_t run;
    int *rank_of;    /* [n_places], like the next two; owned by the reader */
    uint64_t *names; /* 0: the place is empty */
    unsigned char *cards;
} wefti_late_table;

/* The head of the table after its code; false: impossible numbers. */
bool wefti_late_head_read(const unsigned char *bytes, int max_places,
                          wefti_late_table *out);

/* A row of the table; false: an invalid rank, or one that was given before (`seen`
 * [n_places], all false at first). */
bool wefti_late_row_read(const unsigned char *bytes, int i, bool *seen,
                         wefti_late_table *out);

void wefti_late_table_fini(wefti_late_table *table);

/* Connects to every process of a run. [out] streams[table->n_places], allocated, closed at
 * empty places; *table; *card: this process's own; *listener. All owned by the caller after
 * success. */
weft_status wefti_late_enter(weft_ctx *ctx, const wefti_tcp_place *place,
                             const wefti_tls_context *tls, wefti_connection **streams,
                             wefti_late_table *table, wefti_late_card *card,
                             int *listener) WEFT_CHECKED;
