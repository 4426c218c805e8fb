/* SPDX-License-Identifier: MIT */
/* Writes a JSON value as text. The JSON library delivers its text piece by piece, and the
 * pieces go into a growing buffer, so that this memory is counted like all other and
 * tests can make it fail. The library's own json_dumps silently drops a name for which
 * its buffer cannot grow, so no other file may call it. `flags` control escapes and the
 * format of numbers, as in json_dumps. */
#include "base/jsontext.h"

#include "base/buffer.h"

typedef struct output {
    weft_ctx *ctx;
    wefti_buffer text;
} output;

static int put(const char *bytes, size_t n, void *user) {
    output *o = user;
    wefti_buffer_put(o->ctx, &o->text, bytes, (int64_t)n);
    return o->text.status == WEFT_OK ? 0 : -1;
}

weft_status wefti_json_text(weft_ctx *ctx, const json_t *value, size_t flags, char **text,
                            int64_t *n_bytes) {
    output o = {.ctx = ctx};
    *text = NULL;
    *n_bytes = 0;
    /* the library continues after a name that could not be stored, and reports success */
    if (!value || json_dump_callback(value, put, &o, flags) != 0 ||
        o.text.status != WEFT_OK) {
        wefti_buffer_fini(ctx, &o.text);
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                             "could not allocate memory for JSON text");
    }
    *text = o.text.bytes;
    *n_bytes = o.text.n;
    return WEFT_OK;
}
