/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/witness.h>

#include "start/rendezvous.h"
#include "member/votes.h"

/* The protocol between a process of a run and the witness, over a connection that is closed
 * afterwards:
 *
 *     caller:  [handshake] card (WEFTI_CARD_BYTES)    ->        <- one byte
 *
 *     card     "wefW", version u32, run u64, view u64, chain u64, claim u64, rank u32, host[64]
 *
 * Claim 0 asks whether the witness is there. */
typedef struct wefti_witness_card {
    wefti_vote vote;
    int rank; /* of the caller, and its host: for the log */
    char host[64];
} wefti_witness_card;

typedef enum wefti_witness_answer {
    WEFTI_WITNESS_SILENT, /* there was no answer */
    WEFTI_WITNESS_GIVES,
    WEFTI_WITNESS_REFUSES, /* another half has the vote, or the view is an old one */
    WEFTI_WITNESS_IS_HERE,
    WEFTI_WITNESS_CAN_NOT /* it could not store the vote, or has no room */
} wefti_witness_answer;

void wefti_witness_card_write(const wefti_witness_card *card, unsigned char *bytes);

/* False: this is not a card for a witness. Control characters in the host name become '?'. */
bool wefti_witness_card_read(const unsigned char *bytes, wefti_witness_card *out);
