/* SPDX-License-Identifier: MIT */
#ifndef WEFT_CHAT_H
#define WEFT_CHAT_H

#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How a conversation is written as one text for a model: in one of the formats that models
 * are trained with, byte for byte as transformers' apply_chat_template writes it. A model's own
 * template is a program in Jinja, which is kept and saved but not run: who uses the model names
 * its format. */
typedef struct weft_chat weft_chat;

/** name: one of weft_chat_name; "text": there are no messages, prompts are texts of a template
 * already (weft/dataset.h); or "auto": the template in `folder` (or next to the file
 * `folder`), which can be rendered if weft has written it, else only saved. The texts of the
 * begin and end tokens are those of `folder`'s tokenizer_config.json, if there is one.
 * [out] *out owned by the caller; NULL on failure. folder may be NULL.
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_chat_open(weft_ctx *ctx, const char *name, const char *folder,
                                    weft_chat **out) WEFT_CHECKED;
WEFT_API void weft_chat_destroy(weft_ctx *ctx, weft_chat *chat); /* NULL is accepted */

/** The i-th format and a summary of it; NULL past the last. */
WEFT_API const char *weft_chat_name(int i, const char **summary);

/** messages: a JSON list of {"role": ..., "content": ...}. `asks`: appends the text that
 * begins an answer (add_generation_prompt). [out] *text ends in NUL, owned by the caller
 * (weft_free). Errors: CONFIG, FORMAT. */
WEFT_API weft_status weft_chat_render(weft_ctx *ctx, const weft_chat *chat,
                                      const char *messages, bool asks,
                                      char **text) WEFT_CHECKED;

/** The text that the template writes after an answer, such as "<|im_end|>\n": its first token
 * ends a sampled answer. [out] *text owned by the caller (weft_free). Errors: CONFIG, FORMAT. */
WEFT_API weft_status weft_chat_answer_end(weft_ctx *ctx, const weft_chat *chat,
                                          char **text) WEFT_CHECKED;

/** Writes chat_template.jinja, tokenizer_config.json (the one that was read, else a new
 * one) and special_tokens_map.json into a folder, from which transformers and
 * weft_chat_open read them. Errors: FILE. */
WEFT_API weft_status weft_chat_save(weft_ctx *ctx, const weft_chat *chat,
                                    const char *folder) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
