/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/prepare.h"

/* Opens the run's rows into p->dataset, with the chat template that they need into p->chat,
 * after the tokenizer; measures the bigram baseline where there is one. */
weft_status wefti_rundata_open(weft_ctx *ctx, weft_config *config,
                               wefti_prepared *p) WEFT_CHECKED;
