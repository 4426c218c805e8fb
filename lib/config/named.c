/* SPDX-License-Identifier: MIT */
/* What data.tokenizer may name:
 *
 *     bytes   256 ids, nothing to read or to train
 *     bpe     trained on the text of the run
 *     ids     data.vocab ids that stand for no text (token/ids.h)
 *     else    the path of a tokenizer.json, or of a folder that holds one */
#include "config/named.h"

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

const char *const *wefti_tokenizer_keys(const char *name) {
    if (wefti_tokenizer_is_file(name)) return NULL;
    if (wefti_tokenizer_names_ids(name)) return sized;
    return wefti_tokenizer_is_trained(name) ? trained : fixed;
}
