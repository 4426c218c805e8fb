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

/* An expression; released also where it could not be compiled. */
typedef struct pcre_expression {
    pcre_memory memory;
    pcre2_general_context *general;
    pcre2_code *code;
} pcre_expression;

/* `what` failed with the code: with this status, or as there was no memory. */
static inline weft_status fail_pcre(const pcre_memory *memory, weft_status status,
                                    int code, const char *what) {
    PCRE2_UCHAR text[120] = "";
    if (memory->failed) return WEFT_ERR_MEMORY;
    pcre2_get_error_message(code, text, sizeof text);
    return weft_ctx_fail(memory->ctx, status, "could not %s: %s", what,
                         (const char *)text);
}

/* status: what an expression that PCRE2 does not take is. */
static inline weft_status pcre_compile(weft_ctx *ctx, pcre_expression *e,
                                       const char *text, uint32_t options,
                                       weft_status status, const char *what) {
    int code = 0;
    PCRE2_SIZE where;
    e->memory.ctx = ctx;
    e->general = pcre2_general_context_create(pcre_malloc, pcre_free, &e->memory);
    if (!e->general) return WEFT_ERR_MEMORY;
    pcre2_compile_context *how = pcre2_compile_context_create(e->general);
    if (!how) return WEFT_ERR_MEMORY;
    e->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | options, &code, &where, how);
    pcre2_compile_context_free(how);
    if (!e->code) return fail_pcre(&e->memory, status, code, what);
    /* without just-in-time code PCRE2 interprets: slower, the same */
    (void)pcre2_jit_compile(e->code, PCRE2_JIT_COMPLETE);
    return e->memory.failed ? WEFT_ERR_MEMORY : WEFT_OK;
}

static inline void pcre_release(weft_ctx *ctx, pcre_expression *e) {
    e->memory.ctx = ctx;
    pcre2_code_free(e->code);
    pcre2_general_context_free(e->general);
}

/* What a thread needs to match. */
typedef struct pcre_matching {
    pcre_memory memory;
    pcre2_general_context *general;
    pcre2_match_context *limits;
    pcre2_match_data *match;
} pcre_matching;

/* Closed also after a failure. */
static inline weft_status pcre_open(weft_ctx *ctx, pcre_matching *m) {
    m->memory.ctx = ctx;
    m->general = pcre2_general_context_create(pcre_malloc, pcre_free, &m->memory);
    if (!m->general) return WEFT_ERR_MEMORY;
    m->limits = pcre2_match_context_create(m->general);
    m->match = pcre2_match_data_create(1, m->general);
    return m->limits && m->match ? WEFT_OK : WEFT_ERR_MEMORY;
}

static inline void pcre_close(pcre_matching *m) {
    pcre2_match_data_free(m->match);
    pcre2_match_context_free(m->limits);
    pcre2_general_context_free(m->general);
}

/* Matches valid UTF-8; what is too deep for just-in-time code is interpreted. */
static inline int pcre_match(const pcre2_code *code, const pcre_matching *m,
                             const char *text, int64_t n, int64_t from,
                             uint32_t options) {
    options |= PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(code, (PCRE2_SPTR)text, (size_t)n, (size_t)from, options,
                         m->match, m->limits);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(code, (PCRE2_SPTR)text, (size_t)n, (size_t)from,
                       options | PCRE2_NO_JIT, m->match, m->limits);
}
