/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/inference.h>

#include "common.h"

/* Generates the assistant's answer to --prompt, or to each line of standard input. */
weft_status sample_chat(weft_ctx *ctx, const args *a, weft_inference *inference,
                        const weft_sample_options *options) WEFT_CHECKED;
