/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "store/address.h"
#include "store/response.h"

typedef enum wefti_verb {
    WEFTI_FETCH,
    WEFTI_PUT,
    WEFTI_REMOVE,
    WEFTI_POST,
    WEFTI_ASK, /* HEAD */
    WEFTI_LIST /* of the address' bucket, by a query */
} wefti_verb;

/* A file at an address, and one here. */
typedef struct wefti_transfer {
    const char *address, *below; /* as wefti_address_url */
    const char *path;            /* of the file here */
    const char *side; /* of a fetch: what is kept beside, SIDE.part and SIDE.from */
    int64_t most;     /* bytes that are taken; 0: as the disk has room */
    int64_t first; /* a fetch ends when so many bytes are in SIDE.part; 0: at the end */
    bool optional; /* no error if there is no such file */
    bool once;     /* is not tried again */
    bool silent;   /* says nothing of waiting */
    bool hidden;   /* says nothing of a refusal that means: not there */
    const char *query;     /* of multipart uploads; NULL: none */
    int64_t from, n_bytes; /* what is put of the file; 0, 0: all of it */
    const char *body;      /* what is sent, in place of a file */
    const char *nonce;     /* noted at the file that is written; NULL: none */
    const char *expected;  /* must be in the page of an answer that is no refusal; NULL */
    wefti_response *answer; /* [out] NULL: not wanted */
} wefti_transfer;

/* One file to or from an address, by libcurl. A fetch takes what it has not got yet: nothing if
 * the server's file is still the one that was fetched. What the network breaks is tried again for
 * a minute after the last byte that came; what a server refuses is an error at once. Waits end
 * when the context is stopped, and say each ten seconds what they wait for. *there = false: it is
 * optional, or to be removed, and not there. Of what is put the SHA-256 is sent along. */
weft_status wefti_http(weft_ctx *ctx, wefti_verb verb, const wefti_transfer *t,
                       bool *there) WEFT_CHECKED;
