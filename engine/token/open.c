/* SPDX-License-Identifier: MIT */
/* The tokenizer that a name stands for (config/named.h). */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include <weft/tokenizer.h>

#include "base/text.h"
#include "config/named.h"

weft_status weft_tokenizer_open(weft_ctx *ctx, const char *name, weft_tokenizer **out) {
    if (wefti_is(name, "bytes")) return weft_tokenizer_create_bytes(ctx, out);
    *out = NULL;
    if (wefti_tokenizer_names_ids(name))
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "the tokenizer 'ids' is of runs on shards: it knows no text");
    struct stat info;
    char path[PATH_MAX];
    if (stat(name, &info) != 0 || !S_ISDIR(info.st_mode))
        return weft_tokenizer_load(ctx, name, out);
    if (snprintf(path, sizeof path, "%s/tokenizer.json", name) < (int)sizeof path)
        return weft_tokenizer_load(ctx, path, out);
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", name);
}
