/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/prepare.h"

/* Opens the run's rows into p->dataset, and the chat template that they need into
 * p->chat. Called after the tokenizer is open. Measures the bigram baseline where there
 * is one. */
weft_status wefti_rundata_open(weft_ctx *ctx, weft_config *config,
                               wefti_prepared *p) WEFT_CHECKED;
