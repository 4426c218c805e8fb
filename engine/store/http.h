/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "store/address.h"

typedef enum wefti_verb { WEFTI_FETCH, WEFTI_PUT, WEFTI_REMOVE } wefti_verb;

/* A file at an address, and one here. */
typedef struct wefti_transfer {
    const char *address, *below; /* as wefti_address_url */
    const char *path;            /* of the file here */
    const char *side; /* of a fetch: what is kept beside, SIDE.part and SIDE.from */
    int64_t most;     /* bytes that are taken; 0: as the disk has room */
    int64_t first; /* a fetch ends when so many bytes are in SIDE.part; 0: at the end */
    bool optional; /* a fetch: no error if there is no such file */
    bool silent;   /* says nothing of waiting */
    bool hidden;   /* says nothing of a refusal that means: not there */
} wefti_transfer;

/* One file to or from an address, by libcurl. A fetch takes what it has not got yet: nothing if
 * the server's file is still the one that was fetched. What the network breaks is tried again for
 * a minute after the last byte that came; what a server refuses is an error at once. Waits end
 * when the context is stopped, and say each ten seconds what they wait for. *there = false: it is
 * optional, or to be removed, and not there. */
weft_status wefti_http(weft_ctx *ctx, wefti_verb verb, const wefti_transfer *t,
                       bool *there) WEFT_CHECKED;
