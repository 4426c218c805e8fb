/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

/* Takes over the shape and the tokenizer of model.init, and the adapter of adapter.init. Of a run
 * that goes on, its checkpoint `saved` (else NULL) says what they were: the folders may be gone. */
weft_status wefti_inherit(weft_ctx *ctx, weft_config *config,
                          const char *saved) WEFT_CHECKED;
