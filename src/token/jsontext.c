/* SPDX-License-Identifier: MIT */
/* A string as JSON text: quotes, backslashes and control characters escaped, bytes that are
 * not UTF-8 passed to the library's own check. */
#include "token/jsontext.h"

#include <string.h>

#include "base/memory.h"

typedef struct output {
    weft_ctx *ctx;
    char *bytes; /* [capacity], owned */
    int64_t n, capacity;
    weft_status status;
} output;

static int put(const char *bytes, size_t n, void *user) {
    output *o = user;
    int64_t need = o->n + (int64_t)n + 1;
    if (need > o->capacity) {
        o->status = wefti_grow(o->ctx, &o->bytes, o->n, 2 * need, 1, "JSON text");
        if (o->status != WEFT_OK) return -1;
        o->capacity = 2 * need;
    }
    memcpy(o->bytes + o->n, bytes, n);
    o->n += (int64_t)n;
    o->bytes[o->n] = '\0';
    return 0;
}

weft_status wefti_json_text(weft_ctx *ctx, const json_t *value, size_t flags, char **text,
                            int64_t *n_bytes) {
    output o = {.ctx = ctx, .status = WEFT_OK};
    *text = NULL;
    *n_bytes = 0;
    if (!value || json_dump_callback(value, put, &o, flags) != 0) {
        wefti_free(ctx, o.bytes);
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                             "could not allocate memory for JSON text");
    }
    *text = o.bytes;
    *n_bytes = o.n;
    return o.status;
}
