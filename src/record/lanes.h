/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_LANES_H
#define WEFTI_LANES_H

#include "record/buffer.h"
#include "record/planned.h"

/* Writes a <figure> of one step: what each thread, and the wire, did when. Predicted and
 * measured lie below each other on one scale; either may be empty, not both. */
void wefti_lanes_write(weft_ctx *ctx, wefti_buffer *out, const wefti_timeline *predicted,
                       const wefti_timeline *measured);

#endif
