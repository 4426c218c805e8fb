/* SPDX-License-Identifier: MIT */
#include "checkpoint/json.h"

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
    *out = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*out)) return WEFT_OK;
    const char *why = *out ? "expected an object" : error.text;
    if (!*out && wefti_json_blame(blame) == WEFT_ERR_MEMORY)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for %s%s", what, where);
    json_decref(*out);
    *out = NULL;
    return weft_ctx_fail(ctx, blame, "%s%s is not a JSON object: %s", what, where, why);
}
