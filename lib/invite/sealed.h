/* SPDX-License-Identifier: MIT */
#pragma once

#include <sodium.h>
#include <stdbool.h>

#include "invite/cpace.h"
#include "invite/meeting.h"

/* What is sent under the key of an exchange: libsodium's secretstream, one for each direction,
 * in pieces of
 *
 *     length of what follows (4 bytes) | text, encrypted and authenticated (+ 17)
 *
 * A piece that was changed, left out, repeated or moved is not opened; the last one is marked. */
enum {
    WEFTI_PIECE_BYTES = 64 << 10, /* of text, at most */
    WEFTI_SEAL_BYTES = crypto_secretstream_xchacha20poly1305_ABYTES,
    WEFTI_SEALED_HEAD = crypto_secretstream_xchacha20poly1305_HEADERBYTES,
    WEFTI_SEALED_MOST = 4 + WEFTI_PIECE_BYTES + WEFTI_SEAL_BYTES,
    WEFTI_PROOF_BYTES = WEFTI_CPACE_TAG + WEFTI_SEALED_HEAD + WEFTI_WISH_BYTES +
                        WEFTI_SEAL_BYTES,
    WEFTI_GREETING_BYTES = WEFTI_RULING_BYTES + WEFTI_CPACE_TAG + WEFTI_SEALED_HEAD
};

typedef crypto_secretstream_xchacha20poly1305_state wefti_sealed;

/* One exchange as one side sees it. */
typedef struct wefti_exchange {
    bool answers; /* the host */
    unsigned char session[WEFTI_SESSION_BYTES], y[WEFTI_CPACE_SCALAR];
    wefti_cpace_message newcomer, host;
    unsigned char tag[WEFTI_CPACE_TAG],
        expected[WEFTI_CPACE_TAG]; /* this side's, the other's */
    unsigned char sends[crypto_secretstream_xchacha20poly1305_KEYBYTES],
        receives[crypto_secretstream_xchacha20poly1305_KEYBYTES];
} wefti_exchange;

/* Makes this side's share; `session` is NULL for the newcomer, who makes it. */
bool wefti_exchange_begin(wefti_exchange *e, const wefti_code *code,
                          const unsigned char *session);

/* Makes the tags and the keys, when both shares are there. False: theirs is not one. */
bool wefti_exchange_meet(wefti_exchange *e);

/* Whether the other side has the same code. */
bool wefti_exchange_proves(const wefti_exchange *e, const unsigned char *tag);
void wefti_exchange_fini(wefti_exchange *e);

/* [out] `out`: n + WEFTI_SEAL_BYTES bytes. */
void wefti_seal(wefti_sealed *s, const void *text, size_t n, bool last,
                unsigned char *out);

/* The same behind its length; returns how many bytes there are in `out`. */
size_t wefti_seal_piece(wefti_sealed *s, const void *text, size_t n, bool last,
                        unsigned char *out);

/* False: it is not the next piece. `n` is the length of what was sealed. */
bool wefti_unseal(wefti_sealed *s, const unsigned char *in, size_t n, void *text,
                  bool *last);

/* The length of a text whose piece begins with these four bytes; -1: no piece. */
int wefti_piece_length(const unsigned char *head);
