/* SPDX-License-Identifier: MIT */
#pragma once

#include <errno.h>
#include <string.h>

#include <weft/ctx.h>

/* Fails with "could not <verb> <path>: " and what the system says. */
static inline weft_status wefti_fail_errno(weft_ctx *ctx, const char *verb,
                                           const char *path) {
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not %s %s: %s", verb, path,
                         strerror(errno));
}
