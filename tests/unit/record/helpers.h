/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdlib.h>

#include "check.h"

/* The context of the test at hand. */
static weft_ctx *ctx;

/* Every test begins in an empty folder "room" and ends without a byte held. */
static int setup(void **state) { return room_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

static inline int count_of(const char *text, const char *part) {
    int n = 0;
    while ((text = strstr(text, part))) {
        text += strlen(part);
        n++;
    }
    return n;
}
