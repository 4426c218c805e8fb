/* SPDX-License-Identifier: MIT */
/* Which failure a JSON library's null means: damage, or no memory.
 *
 * Without memory, the library may call a good text an invalid one, and by then there may be
 * memory again. So a text that was not taken is read once more, and if it fails again, the
 * library is given a text that is good for sure. */
#include "base/json.h"

json_t *wefti_json_load(const char *text, int64_t n, size_t flags, json_error_t *error) {
    json_t *value = json_loadb(text, (size_t)n, flags, error);
    return value ? value : json_loadb(text, (size_t)n, flags, error);
}

weft_status wefti_json_blame(weft_status blame) {
    static const char good[] = "{\"a\":[\"b\",1,0.5,{}]}";
    json_t *probe = json_loadb(good, sizeof good - 1, 0, NULL);
    if (!probe) return WEFT_ERR_MEMORY;
    json_decref(probe);
    return blame;
}

/* A text that is read, and what a failure says of it. */
typedef struct source {
    const char *what, *where, *text;
    int64_t n;
    weft_status blame;
} source;

static weft_status read_with(weft_ctx *ctx, const source *s, size_t flags, json_t **out) {
    const char *what = s->what, *where = s->where;
    weft_status blame = s->blame;
    json_error_t error;
    json_t *value = wefti_json_load(s->text, s->n, flags, &error);
    *out = json_is_object(value) ? value : NULL;
    if (*out) return WEFT_OK;
    if (value) {
        json_decref(value);
        return weft_ctx_fail(ctx, blame, "%s%s: not a JSON object", what, where);
    }
    if (wefti_json_blame(blame) == WEFT_ERR_MEMORY)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for %s%s", what, where);
    return weft_ctx_fail(ctx, blame, "%s%s: not a JSON object: line %d, column %d: %s",
                         what, where, error.line, error.column, error.text);
}

weft_status wefti_json_read(weft_ctx *ctx, const char *what, const char *where,
                            const char *text, int64_t n, weft_status blame,
                            json_t **out) {
    const source s = {what, where, text, n, blame};
    return read_with(ctx, &s, JSON_REJECT_DUPLICATES, out);
}

weft_status wefti_json_read_loosely(weft_ctx *ctx, const char *where, const char *text,
                                    int64_t n, json_t **out) {
    const source s = {"", where, text, n, WEFT_ERR_FORMAT};
    return read_with(ctx, &s, JSON_DECODE_INT_AS_REAL, out);
}
