/* SPDX-License-Identifier: MIT */
/* Which failure a JSON library's null means: damage, or no memory. */
#include "base/json.h"

/* Without memory, the library may call a good text an invalid one. So after a failure it
 * is given a text that is good for sure. */
weft_status wefti_json_blame(weft_status blame) {
    static const char good[] = "{\"a\":[\"b\",1,0.5,{}]}";
    json_t *probe = json_loadb(good, sizeof good - 1, 0, NULL);
    if (!probe) return WEFT_ERR_MEMORY;
    json_decref(probe);
    return blame;
}

weft_status wefti_json_read(weft_ctx *ctx, const char *what, const char *where,
                            const char *text, int64_t n, weft_status blame,
                            json_t **out) {
    json_error_t error;
    json_t *value = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &error);
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
