/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_BESIDE_H
#define WEFTI_BESIDE_H

#include "record/buffer.h"
#include "record/planned.h"
#include "record/history.h"

/* What was predicted beside what was measured. */

/* A table of both. */
void wefti_beside_table(weft_ctx *ctx, wefti_buffer *out, const wefti_run *run,
                        const wefti_planned *forecast);

/* The time of each step, and where the predicted ones lie. */
void wefti_beside_chart(weft_ctx *ctx, wefti_buffer *out, const wefti_run *run,
                        const wefti_planned *forecast);

/* Where the time of a step goes; `forecast` may be NULL. */
void wefti_beside_budget(weft_ctx *ctx, wefti_buffer *out, const wefti_run *run,
                         const wefti_planned *forecast);

#endif
