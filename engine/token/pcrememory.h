/* SPDX-License-Identifier: MIT */
#pragma once

/* Lets PCRE2 allocate through the context of the moment. */
#include <pcre2.h>

#include "base/memory.h"

typedef struct pcre_memory {
    weft_ctx *ctx;
    bool failed;
} pcre_memory;

static inline void *pcre_malloc(size_t n_bytes, void *user) {
    pcre_memory *memory = user;
    void *block;
    if (wefti_alloc(memory->ctx, n_bytes, "an expression", &block) != WEFT_OK)
        memory->failed = true;
    return block;
}

static inline void pcre_free(void *block, void *user) {
    wefti_free(((pcre_memory *)user)->ctx, block);
}

/* `what` failed with the code: with this status, or as there was no memory. */
static inline weft_status fail_pcre(const pcre_memory *memory, weft_status status,
                                    int code, const char *what) {
    PCRE2_UCHAR text[120] = "";
    if (memory->failed) return WEFT_ERR_MEMORY;
    pcre2_get_error_message(code, text, sizeof text);
    return weft_ctx_fail(memory->ctx, status, "could not %s: %s", what,
                         (const char *)text);
}
