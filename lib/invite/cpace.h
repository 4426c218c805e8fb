/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* CPace (draft-irtf-cfrg-cpace) over ristretto255 with SHA-512: two sides that have the same
 * password get the same key; who guesses gets one guess for each exchange, and who listens
 * none. The group, its map and the hash are libsodium's.
 *
 *     g   = map(H(lv(DSI, PRS, zeros, CI, sid)))         Y = y g,  y random
 *     ISK = H(lv(DSI "_ISK", sid, K) lv(Ya, ADa) lv(Yb, ADb))      K = ya Yb = yb Ya
 *     Tag = HMAC(H("CPaceMac" sid ISK), lv(Y, AD))       of the message that its side sent */
enum {
    WEFTI_CPACE_POINT = 32,
    WEFTI_CPACE_SCALAR = 32,
    WEFTI_CPACE_KEY = 64,
    WEFTI_CPACE_TAG = 64
};

typedef struct wefti_cpace_text {
    const void *data;
    size_t n;
} wefti_cpace_text;

/* What both sides put in. */
typedef struct wefti_cpace_input {
    wefti_cpace_text password, parties, session; /* PRS, CI, sid */
} wefti_cpace_input;

/* What one side sends. */
typedef struct wefti_cpace_message {
    unsigned char share[WEFTI_CPACE_POINT]; /* Y */
    wefti_cpace_text associated;            /* AD */
} wefti_cpace_message;

void wefti_cpace_generator(const wefti_cpace_input *input,
                           unsigned char g[WEFTI_CPACE_POINT]);
void wefti_cpace_scalar(unsigned char y[WEFTI_CPACE_SCALAR]);

/* False: the scalar is a multiple of the group's order. */
bool wefti_cpace_share(const wefti_cpace_input *input,
                       const unsigned char y[WEFTI_CPACE_SCALAR],
                       unsigned char share[WEFTI_CPACE_POINT]);

/* The secret point K of the two shares. False: `theirs` is no element of the group, or the
 * neutral one. */
bool wefti_cpace_secret(const unsigned char y[WEFTI_CPACE_SCALAR],
                        const unsigned char theirs[WEFTI_CPACE_POINT],
                        unsigned char k[WEFTI_CPACE_POINT]);

/* a: who calls; b: who answers. */
void wefti_cpace_key(wefti_cpace_text session, const unsigned char k[WEFTI_CPACE_POINT],
                     const wefti_cpace_message *a, const wefti_cpace_message *b,
                     unsigned char isk[WEFTI_CPACE_KEY]);

void wefti_cpace_tag(wefti_cpace_text session, const unsigned char isk[WEFTI_CPACE_KEY],
                     const wefti_cpace_message *sent, unsigned char tag[WEFTI_CPACE_TAG]);
