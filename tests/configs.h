/* SPDX-License-Identifier: MIT */
/* Configurations from words "model.layers=2 model.width=64". */
#pragma once

#include "check.h"

#include <weft/config.h>

/* A small run on a text that nobody reads. */
#define PLANNED_RUN                                                                      \
    "data.path=none.txt data.length=32 model.layers=2 model.width=64 model.heads=2 "     \
    "mesh.threads=1 "

static inline void set_keys(weft_ctx *owner, weft_config *config, const char *words) {
    char word[160];
    for (int n = 0; sscanf(words, " %159s%n", word, &n) == 1; words += n)
        if (weft_config_set(owner, config, word) != WEFT_OK)
            fail_msg("%s: %s", word, weft_ctx_message(owner));
}

/* Finished, with `more` over the first words; owned by the caller. */
static inline weft_config *config_with(weft_ctx *owner, const char *words,
                                       const char *more) {
    weft_config *config;
    assert_ok(owner, weft_config_create(owner, &config));
    set_keys(owner, config, words);
    set_keys(owner, config, more);
    if (weft_config_finish(owner, config) != WEFT_OK)
        fail_msg("%s %s: %s", words, more, weft_ctx_message(owner));
    return config;
}
