/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/chat.h>

#include "chat/template.h"

/* Renders a list of messages, and of tools where there are such (NULL: none). With marks of
 * the template's own, where it has them. */
weft_status wefti_chat_render(weft_ctx *ctx, const weft_chat *chat, json_t *messages,
                              json_t *tools, bool asks, wefti_rendered *out) WEFT_CHECKED;

/* Whether the template marks itself what an assistant said. */
bool wefti_chat_marks(const weft_chat *chat);
