/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/connection.h"
#include "comm/rendezvous.h"

/* How a process comes into a run that trains: it asks any member for a place, is told of all
 * that are there, and calls each of them with the place that it has got.
 *
 *     caller                                member
 *     late card, any place    --->
 *                             <---          code | places, place, run, group | each place: rank,
 *                                           name, card                             and hangs up
 *     late card, that place   --->          (to each that is there)
 *                             <---          code; then the connection is as any other
 *
 * A card is of the size of those that gather a run (rendezvous.h): "wefJ", version, place (all
 * ones: any), port that it listens at (4 bytes each), run, incarnation (8 each), host name (64).
 * Places are given by one member, one after another; the others say where that one is (code
 * ELSEWHERE, place: its). Its word is nothing that binds the others: who finds the place taken
 * refuses, and the caller begins again. A name is an incarnation; 0: nobody is there. Where `group`
 * processes share a copy of the model, so many have to come: places whose ranks are neighbours go
 * to callers of one host name. */

enum { WEFTI_LATE_ROW_BYTES = 12 + WEFTI_CARD_BYTES, WEFTI_LATE_HEAD_BYTES = 21 };

typedef struct wefti_late_card {
    int place; /* -1: any */
    int port;
    uint64_t run, incarnation;
    char host[WEFTI_CARD_HOST_BYTES];
} wefti_late_card;

void wefti_late_card_write(const wefti_late_card *card, unsigned char *bytes);

/* False: it is none. The host's name is made fit to be shown. */
bool wefti_late_card_read(const unsigned char *bytes, wefti_late_card *out);

/* The same facts as a card of those who gathered (rendezvous.h), without an address. */
void wefti_late_card_as_card(const wefti_late_card *card, unsigned char *bytes);

/* What a member tells of the run. */
typedef struct wefti_late_table {
    int n_places, place, group;
    uint64_t run;
    int *rank_of;    /* [n_places], like what follows; owned by who has read it */
    uint64_t *names; /* 0: nobody is there */
    unsigned char *cards;
} wefti_late_table;

/* The head of the table after its code; false: numbers that no run has. */
bool wefti_late_head_read(const unsigned char *bytes, int max_places,
                          wefti_late_table *out);

/* A row; false: ranks that are none, or are given twice (`seen` [n_places], all false at first). */
bool wefti_late_row_read(const unsigned char *bytes, int i, bool *seen,
                         wefti_late_table *out);

void wefti_late_table_fini(wefti_late_table *table);

/* Connects to everybody of a run. [out] streams[table->n_places], allocated, closed where nobody
 * is; *table; *card: this process's own; *listener. All owned by the caller after success. */
weft_status wefti_late_enter(weft_ctx *ctx, const wefti_tcp_place *place,
                             const wefti_tls_context *tls, wefti_connection **streams,
                             wefti_late_table *table, wefti_late_card *card,
                             int *listener) WEFT_CHECKED;
