/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "start/rendezvous.h"

/* What a newcomer and a host say before they trust each other. All numbers are of four bytes,
 * little endian, but where it says so.
 *
 *     newcomer, to everybody        "wefQ", version, channel, nonce (8), 0, 0 (8)      UDP
 *     host                          "wefA", version, channel, nonce (8), port, id (8)
 *     newcomer                      a card: "wefU", version, channel, sid (16), Ya (32)   TCP
 *     host                          "wefU", version, verdict, tries left, Yb (32)
 *     newcomer                      Ta (64), head (24), its wish, sealed (16 + 17)
 *     host                          "wefU", version, verdict, tries left, Tb (64), head (24)
 *                                   and sealed pieces (sealed.h)
 *
 * The newcomer proves first that it has the code, so a guess has to be made before anything is
 * learnt from the host. A code is "NN-AAAA-AAAA": a channel, which is public, and 40 random bits
 * in base32 of digits and capital letters without I, L, O, U. */
enum {
    WEFTI_MEETING_VERSION = 1,
    WEFTI_CHANNELS = 100,
    WEFTI_CODE_RANDOM_BYTES = 5,
    WEFTI_CODE_SECRET_BYTES = 8,
    WEFTI_CODE_BYTES = 16,
    WEFTI_CALL_BYTES = 32, /* both UDP messages */
    WEFTI_SESSION_BYTES = 16,
    WEFTI_RULING_BYTES = 16,
    WEFTI_WISH_BYTES = 16
};

typedef enum wefti_ruling {
    WEFTI_RULING_GO,
    WEFTI_RULING_WRONG,   /* another code */
    WEFTI_RULING_CLOSED,  /* after three wrong codes */
    WEFTI_RULING_BUSY,    /* as many come at the moment as it serves */
    WEFTI_RULING_VERSION, /* it speaks another version */
    WEFTI_RULING_CHANNEL, /* the code is not of this invitation */
    WEFTI_RULINGS
} wefti_ruling;

typedef struct wefti_code {
    int channel;
    char secret[WEFTI_CODE_SECRET_BYTES + 1];
} wefti_code;

/* Reads a code as people type it: small letters, missing dashes, O for 0, I and L for 1. */
bool wefti_code_read(const char *text, wefti_code *out);
void wefti_code_make(int channel, const unsigned char random[WEFTI_CODE_RANDOM_BYTES],
                     wefti_code *out);
void wefti_code_text(const wefti_code *code, char out[WEFTI_CODE_BYTES]);

typedef struct wefti_call {
    bool answers;
    int version, channel;
    uint64_t nonce;
    int port; /* of an answer, and a random number of the invitation */
    uint64_t id;
} wefti_call;

/* To whom calls go by IPv6: whoever listens at the same link, as no router passes them on. With
 * the scope of a site the kernel calls from an address that is good there, if it has one, not
 * from the link's. */
#define WEFTI_CALL_GROUP "ff15::7765:6674"

void wefti_call_write(const wefti_call *call, unsigned char *bytes);

/* False: something else. The numbers of another version than this one are not looked at. */
bool wefti_call_read(const unsigned char *bytes, size_t n, wefti_call *out);

typedef struct wefti_hello {
    int version, channel;
    unsigned char session[WEFTI_SESSION_BYTES], share[32];
} wefti_hello;

void wefti_hello_write(const wefti_hello *hello, unsigned char card[WEFTI_CARD_BYTES]);
bool wefti_hello_read(const unsigned char card[WEFTI_CARD_BYTES], wefti_hello *out);

typedef struct wefti_judgement {
    int version;
    wefti_ruling verdict;
    int tries; /* that are left before the invitation closes */
} wefti_judgement;

void wefti_judgement_write(const wefti_judgement *j, unsigned char *bytes);
bool wefti_judgement_read(const unsigned char *bytes, wefti_judgement *out);

/* What the newcomer wants: `keys` has a bit for each of the kinds of files (bundle.h). */
typedef struct wefti_wish {
    unsigned keys;
    int64_t most_bytes;
} wefti_wish;

void wefti_wish_write(const wefti_wish *wish, unsigned char *bytes);
bool wefti_wish_read(const unsigned char *bytes, wefti_wish *out);
