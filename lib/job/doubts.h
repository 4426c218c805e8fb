/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

/* Warns of a rate that is four times off the method's own. For who begins a run. */
void wefti_job_doubt(weft_ctx *ctx, const weft_config *config);
