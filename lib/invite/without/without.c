/* SPDX-License-Identifier: MIT */
/* Invitations of a library that was built without libsodium. */
#include <weft/invite.h>

#include "base/sized.h"

static weft_status refuse(weft_ctx *ctx) {
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "this weft was built without libsodium, which weft up and weft "
                         "join need: install libsodium-dev and build again, or copy the "
                         "run's key and use weft train --join");
}

weft_status weft_invite_open(weft_ctx *ctx, const weft_invite_setup *setup,
                             weft_invite **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_invite_setup, setup);
    return refuse(ctx);
}

weft_status weft_invite_accept(weft_ctx *ctx, const weft_invite_request *request,
                               char *where, size_t size) {
    (void)where, (void)size;
    WEFTI_SIZED_IN(ctx, weft_invite_request, request);
    return refuse(ctx);
}

const char *weft_invite_code(const weft_invite *invitation) {
    (void)invitation;
    return "";
}

int weft_invite_port(const weft_invite *invitation) {
    (void)invitation;
    return 0;
}

const char *weft_invite_host(const weft_invite *invitation) {
    (void)invitation;
    return "";
}

void weft_invite_close(weft_invite *invitation) { (void)invitation; }
