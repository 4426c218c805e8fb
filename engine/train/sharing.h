/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/train.h>

#include "train/prepare.h"

/* Rows of a step by measured speed (batch.shares=speed, lib/job/speeds.c). */

/* Fails where there is nothing to measure: all nodes are threads of this process. */
weft_status wefti_share_check(weft_ctx *ctx, const wefti_prepared *p) WEFT_CHECKED;

/* If the step that begins has other rows than the last, the job, this rank and the log of views get
 * them, and the first rank tells hooks->on_change; else all stays as it is. All ranks of the world
 * call it. */
weft_status wefti_share_anew(wefti_prepared *p, wefti_rank *r, int64_t step,
                             const weft_train_hooks *hooks) WEFT_CHECKED;
