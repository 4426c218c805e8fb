/* SPDX-License-Identifier: MIT */
/* A context of each test, beside an empty folder "room": TEST_IN(begin, end, ...). */
#pragma once

#include "check.h"

static weft_ctx *ctx;

static inline int begin(void **state) {
    (void)state;
    return room_begin(&ctx);
}

static inline int end(void **state) {
    (void)state;
    return ctx_end(ctx);
}
