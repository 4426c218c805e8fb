/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/inference.h>

#include "common.h"

/* Answers --prompt, or each line of standard input, as an assistant does. */
weft_status sample_chat(weft_ctx *ctx, const args *a, weft_inference *inference,
                        const weft_sample_options *options) WEFT_CHECKED;
