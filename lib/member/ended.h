/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* <folder>/ended-RUN: this start of the run has ended in order, with the members of a view. The
 * last of them write it, all of them the same. */
weft_status wefti_ended_write(weft_ctx *ctx, const char *folder, uint64_t run,
                              int64_t view) WEFT_CHECKED;

/* Whether it is there, of a later view. A folder that can not be read shows nothing. */
bool wefti_ended_after(const char *folder, uint64_t run, int64_t view);
