/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include <weft/chat.h>

#include "base/buffer.h"

/* How a conversation is written. A text has {role}, {text} and {system} of a message, and the
 * tokens {bos} and {eos}. */
typedef struct wefti_format {
    const char *name;
    const char *bos, *eos; /* where the model's folder does not say them */
    const char *first;     /* before all messages */
    const char *lead;      /* and, if the first one is no system message, this; or NULL */
    const char *answer;    /* a message of the assistant */
    const char *other;     /* a message of the user; and of other roles, if `roles` */
    bool roles;            /* else other roles are written as the assistant's */
    const char
        *joined;       /* what the first text becomes after a system message, which has no
                              place of its own; NULL: it has one */
    const char *asks;  /* where an answer begins; the beginning of `answer` */
    bool trims;        /* white space around texts is left out */
    const char *mark;  /* by which a template of this format is known */
    const char *jinja; /* the same for transformers */
} wefti_format;

extern const wefti_format wefti_formats[]; /* ends without a name */

/* What came out. Zeroed memory is empty. */
typedef struct wefti_rendered {
    wefti_buffer text;
    int64_t *spans; /* [2 n_spans] owned: of each message, where what it says and its end
                     * stand in text */
    int64_t n_spans, room;
} wefti_rendered;
void wefti_rendered_fini(weft_ctx *ctx, wefti_rendered *rendered);

/* Writes a list of messages into *out, which is emptied first. `asks`: and the beginning of an
 * answer. tokens: an object of the model's. */
weft_status wefti_format_write(weft_ctx *ctx, const wefti_format *format,
                               const json_t *tokens, const json_t *messages, bool asks,
                               wefti_rendered *out) WEFT_CHECKED;

/* Whether prompts are the texts of a template already. */
bool wefti_chat_is_written(const weft_chat *chat);

/* Writes a list of messages as text. Fails for a template that is not known. */
weft_status wefti_chat_render(weft_ctx *ctx, const weft_chat *chat,
                              const json_t *messages, bool asks,
                              wefti_rendered *out) WEFT_CHECKED;
