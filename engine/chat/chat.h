/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/chat.h>

#include "chat/format.h"

/* Whether prompts are the texts of a template already. */
bool wefti_chat_is_written(const weft_chat *chat);

/* Writes a list of messages as text (format.h). Fails for a template that is not known. */
weft_status wefti_chat_render(weft_ctx *ctx, const weft_chat *chat,
                              const json_t *messages, bool asks,
                              wefti_rendered *out) WEFT_CHECKED;
