/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include <weft/ctx.h>

/* Cancellation of work that takes long before a run's first step (such as reading a pipe
 * that is never written to): it asks at intervals whether it should stop.
 *
 *     the long work    wefti_stop_asked(ctx)
 *     its caller       wefti_stop_watch(ctx, asked, user), and NULL when the work is over
 *
 * Set it while no other thread uses the context. */
void wefti_stop_watch(weft_ctx *ctx, bool (*asked)(void *user), void *user);

/* Whether the caller wants to stop, by that function or by weft_ctx_stop. */
bool wefti_stop_asked(const weft_ctx *ctx);

/* Warnings that a context gives once, however many files or configurations they are about. */
typedef enum wefti_warning {
    WEFTI_WARNING_ENCODING = 1,
    WEFTI_WARNING_LEFT_OUT = 2,
    WEFTI_WARNING_WARMUP = 4
} wefti_warning;

void wefti_ctx_warn_once(weft_ctx *ctx, wefti_warning what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
