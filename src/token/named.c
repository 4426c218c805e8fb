/* SPDX-License-Identifier: MIT */
/* What data.tokenizer may name:
 *
 *     bytes   256 ids, nothing to read or to train
 *     bpe     trained on the text of the run
 *     ids     data.vocab ids that stand for no text (ids.h)
 *     else    the path of a tokenizer.json, or of a folder that holds one */
#include "token/named.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/text.h"

enum { BYTE_IDS = 256 };

static const char *const trained[] = {"vocab", "split", NULL},
                         *const sized[] = {"vocab", NULL}, *const fixed[] = {NULL};

bool wefti_tokenizer_is_trained(const char *name) { return wefti_is(name, "bpe"); }

bool wefti_tokenizer_names_ids(const char *name) { return wefti_is(name, "ids"); }

bool wefti_tokenizer_is_file(const char *name) {
    return !wefti_is(name, "bytes") && !wefti_tokenizer_is_trained(name) &&
           !wefti_tokenizer_names_ids(name);
}

int64_t wefti_tokenizer_ids(const char *name, int64_t vocab) {
    return wefti_is(name, "bytes") ? BYTE_IDS : vocab;
}

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

const char *const *wefti_tokenizer_keys(const char *name) {
    if (wefti_tokenizer_is_file(name)) return NULL;
    if (wefti_tokenizer_names_ids(name)) return sized;
    return wefti_tokenizer_is_trained(name) ? trained : fixed;
}
