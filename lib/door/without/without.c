/* SPDX-License-Identifier: MIT */
/* Doors of a library that was built without libsodium. */
#include <weft/door.h>

#include "base/sized.h"

static weft_status refuse(weft_ctx *ctx) {
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "this weft was built without libsodium, which weft up and weft "
                         "join need: install libsodium-dev and build again, or copy the "
                         "run's key and use weft train --join");
}

weft_status weft_door_open(weft_ctx *ctx, const weft_door_setup *setup, weft_door **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_door_setup, setup);
    return refuse(ctx);
}

weft_status weft_door_enter(weft_ctx *ctx, const weft_door_visit *visit, char *where,
                            size_t size) {
    (void)where, (void)size;
    WEFTI_SIZED_IN(ctx, weft_door_visit, visit);
    return refuse(ctx);
}

const char *weft_door_code(const weft_door *door) {
    (void)door;
    return "";
}

int weft_door_port(const weft_door *door) {
    (void)door;
    return 0;
}

void weft_door_close(weft_door *door) { (void)door; }
