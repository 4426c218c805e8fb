/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include <weft/ctx.h>

/* What takes long before a run's first step (a pipe that nobody writes to) asks now and then
 * whether it is still wanted.
 *
 *     the one who waits    wefti_stop_asked(ctx)
 *     the one who began    wefti_stop_watch(ctx, asked, user), and NULL when that is over
 *
 * Set it while no other thread uses the context. */
void wefti_stop_watch(weft_ctx *ctx, bool (*asked)(void *user), void *user);

/* Whether the caller wants an end; false if nobody watches. */
bool wefti_stop_asked(const weft_ctx *ctx);
