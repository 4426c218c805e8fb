/* SPDX-License-Identifier: MIT */
#ifndef WEFT_INVITE_H
#define WEFT_INVITE_H

#include <weft/config.h>
#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An invitation, which other machines accept with a short code (docs/launching.md). Both sides
 * prove to each other that they have the code, without saying it; then the run gives its key,
 * its configuration and its files. Needs a library that was built with libsodium. */
typedef struct weft_invite weft_invite;

/** Invitations listen at the first free one of 16 ports from here on; they are found at
 * this one. */
enum { WEFT_INVITE_PORT = 29520, WEFT_INVITE_CODE_BYTES = 16 };

/** What an invitation gives away, and at which port. */
typedef struct weft_invite_setup {
    size_t struct_size;
    int port;            /* 0: the first free one from WEFT_INVITE_PORT on */
    int run_port;        /* at which the run listens for processes that join */
    const char *key;     /* file of the run's key */
    weft_config *config; /* of the run, finished; not needed after weft_invite_open */
    int64_t most_bytes;  /* texts and models of together more bytes are not given */
} weft_invite_setup;

/** Opens an invitation with a code of its own, which a thread serves. Three wrong codes close it.
 * The context's sink hears who comes. [out] *out owned by the caller. Not collective.
 * Errors: CONFIG, FILE, FORMAT, PEER. */
WEFT_API weft_status weft_invite_open(weft_ctx *ctx, const weft_invite_setup *setup,
                                      weft_invite **out) WEFT_CHECKED;

/** Lives as long as the invitation. */
WEFT_API const char *weft_invite_code(const weft_invite *invitation);
WEFT_API int weft_invite_port(const weft_invite *invitation);
/** This machine's address on the way to others (of IPv6 in brackets), else its name: by which other
 * networks find it. */
WEFT_API const char *weft_invite_host(const weft_invite *invitation);

/** Waits until its thread has ended. NULL is accepted. */
WEFT_API void weft_invite_close(weft_invite *invitation);

/** By what a newcomer finds an invitation, and where it puts what it is given. */
typedef struct weft_invite_request {
    size_t struct_size;
    const char *code;
    const char *host; /* HOST or HOST:PORT; NULL: the run is looked for on this network */
    const char *folder; /* which is made, and must not exist: run.yaml, here.yaml, run.key
                           and the run's files come into it */
    double patience;    /* seconds to look for the run; 0: 10 */
    int64_t most_bytes; /* texts and models of together more bytes are not taken */
    const weft_config
        *own; /* paths that exist and are named here are not taken; or NULL */
} weft_invite_request;

/** Gets what a process needs to take part: it trains with the configuration of
 * `folder`/run.yaml and, over it, `folder`/here.yaml. [out] `where`: what weft_mesh_enter takes
 * as host. After a failure there is no folder. Not collective. Errors: FILE, PEER. */
WEFT_API weft_status weft_invite_accept(weft_ctx *ctx, const weft_invite_request *request,
                                        char *where, size_t size) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
