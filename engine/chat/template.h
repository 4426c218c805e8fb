/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include <weft/ctx.h>

#include "base/buffer.h"

/* A template of Jinja, as far as chat templates use it and as transformers sets it up
 * (trim_blocks, lstrip_blocks, loop controls, {% generation %}). What is not known is refused
 * with its line, so that no text is made that another program would make otherwise. */
typedef struct wefti_template wefti_template;

/* `where` names the template in sentences; it is copied. */
weft_status wefti_template_parse(weft_ctx *ctx, const char *text, int64_t n,
                                 const char *where, wefti_template **out) WEFT_CHECKED;
void wefti_template_destroy(weft_ctx *ctx, wefti_template *t); /* NULL is accepted */

/* What came out. Zeroed memory is empty. */
typedef struct wefti_rendered {
    wefti_buffer text;
    int64_t *spans; /* [2 n_spans]: begin and end in text of what stood between
                     * {% generation %} and {% endgeneration %}; owned */
    int64_t n_spans, room;
} wefti_rendered;
void wefti_rendered_fini(weft_ctx *ctx, wefti_rendered *rendered);

/* Whether it has {% generation %}: it marks itself what an assistant said. */
bool wefti_template_marks(const wefti_template *t);

/* Renders with the object `names` as its variables, into *out, which is emptied first. */
weft_status wefti_template_render(weft_ctx *ctx, const wefti_template *t,
                                  const json_t *names, wefti_rendered *out) WEFT_CHECKED;
