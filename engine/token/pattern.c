/* SPDX-License-Identifier: MIT */
/* Expressions of tokenizer.json through PCRE2. They were written for Oniguruma; where the two
 * differ, the text is rewritten before it is compiled:
 *
 *     \s \S    the property White_Space, written out (PCRE2's has U+180E too)
 *     \w \W    letters, marks, decimal digits, connectors (PCRE2's lacks marks)
 *     \h, &&, [[:..:]] and \S or \W inside of a class    refused: they mean something else
 *
 * Work is bounded, in PCRE2's count of steps; a step may look at as many characters as the
 * expression has, so that it costs 1 + n / LONG. From each place a search may take as many
 * steps as all places of the text together may take (ALL), but LEAST at least. If that is too
 * little, places are tried one by one, each with 8 times as many steps until it is decided, and
 * the text pays for them: it has WORK_AT_ONCE, and WORK_PER_BYTE for each byte. An expression
 * that goes back and forth without end is an error and not a standstill; what ends has the same
 * matches as without bounds. */
#define PCRE2_CODE_UNIT_WIDTH 8
#define _GNU_SOURCE
#include "token/pipeline.h"

#include <string.h>

#include "base/buffer.h"
#include "token/pcrememory.h"

#define SPACES "\\p{Z}\\x{09}-\\x{0D}\\x{85}"
#define WORD "\\p{L}\\p{M}\\p{Nd}\\p{Pc}"

enum {
    ALL = 400000000,
    LEAST = 512,
    MOST = 50000000,
    FIRST_TRY = 16,
    LONG = 128,
    WORK_AT_ONCE = 20000000,
    WORK_PER_BYTE = 100
};

struct wefti_pattern {
    char *literal; /* owned; or NULL and: */
    int64_t n_literal;
    pcre_memory memory;
    pcre2_general_context *general;
    pcre2_code *code;
    int64_t cost; /* of a step */
};

struct wefti_matcher {
    pcre_memory memory;
    pcre2_general_context *general;
    pcre2_match_context *limits;
    pcre2_match_data *match;
    int64_t place; /* steps from each place */
    int64_t left;  /* steps that may still be paid */
};

/* -- rewriting -- */

/* What an escape becomes outside and inside of a class; NULL: it is refused there. */
typedef struct escape {
    char letter;
    const char *outside, *inside;
} escape;

static const escape escapes[] = {{'s', "[" SPACES "]", SPACES},
                                 {'S', "[^" SPACES "]", NULL},
                                 {'w', "[" WORD "]", WORD},
                                 {'W', "[^" WORD "]", NULL},
                                 {'h', NULL, NULL},
                                 {'H', NULL, NULL}};

static weft_status refuse(weft_ctx *ctx, const char *what, const char *at) {
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "the expression has '%.2s'%s, which is not known here", at,
                         what);
}

static weft_status put_escape(weft_ctx *ctx, const char *at, bool in_class,
                              wefti_buffer *out) {
    for (size_t k = 0; k < sizeof escapes / sizeof *escapes; k++) {
        if (at[1] != escapes[k].letter) continue;
        const char *text = in_class ? escapes[k].inside : escapes[k].outside;
        if (!text) return refuse(ctx, in_class ? " in a class" : "", at);
        wefti_buffer_text(ctx, out, text);
        return out->status;
    }
    wefti_buffer_put(ctx, out, at, 2);
    return out->status;
}

/* Ruby's {n,m}+ repeats, PCRE2's holds on to what it has: parted by a group, but nobody
 * writes it; classes within classes and their intersections are refused. */
static weft_status rewrite(weft_ctx *ctx, const char *text, wefti_buffer *out) {
    bool in_class = false;
    for (const char *at = text; *at;) {
        if (*at == '\\' && at[1]) {
            WEFT_TRY(put_escape(ctx, at, in_class, out));
            at += 2;
            continue;
        }
        if (in_class && (*at == '[' || (*at == '&' && at[1] == '&')))
            return refuse(ctx, " in a class", at);
        if (*at == '[') {
            in_class = true;
            int64_t n = at[1] == '^' ? 2 : 1;
            if (at[n] == ']') return refuse(ctx, " as a class", at);
            wefti_buffer_put(ctx, out, at, n);
            at += n;
            continue;
        }
        if (*at == ']') in_class = false;
        wefti_buffer_put(ctx, out, at++, 1);
    }
    return out->status;
}

/* -- compiling -- */

static weft_status compile(weft_ctx *ctx, wefti_pattern *p, const char *text) {
    p->memory.ctx = ctx;
    p->general = pcre2_general_context_create(pcre_malloc, pcre_free, &p->memory);
    if (!p->general) return WEFT_ERR_MEMORY;
    pcre2_compile_context *how = pcre2_compile_context_create(p->general);
    if (!how) return WEFT_ERR_MEMORY;
    int code = 0;
    PCRE2_SIZE where;
    p->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code,
                            &where, how);
    pcre2_compile_context_free(how);
    if (!p->code)
        return fail_pcre(&p->memory, WEFT_ERR_FORMAT, code, "compile its expression");
    /* without just-in-time code PCRE2 interprets: slower, the same */
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
    return p->memory.failed ? WEFT_ERR_MEMORY : WEFT_OK;
}

static weft_status fill(weft_ctx *ctx, wefti_pattern *p, const char *text, int64_t n,
                        bool regex) {
    wefti_buffer rewritten = {0};
    if (!regex) {
        p->n_literal = n;
        WEFT_TRY(wefti_alloc_n(ctx, n + 1, 1, "a text to look for", &p->literal));
        memcpy(p->literal, text, (size_t)n);
        return WEFT_OK;
    }
    p->cost = 1 + n / LONG;
    weft_status status = rewrite(ctx, text, &rewritten);
    if (status == WEFT_OK)
        status = compile(ctx, p, rewritten.bytes ? rewritten.bytes : "");
    wefti_buffer_fini(ctx, &rewritten);
    return status;
}

weft_status wefti_pattern_create(weft_ctx *ctx, const char *text, int64_t n, bool regex,
                                 wefti_pattern **out) {
    wefti_pattern *p;
    *out = NULL;
    if (n == 0 || (regex && memchr(text, 0, (size_t)n)))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "an expression or text is empty");
    WEFT_TRY(wefti_alloc(ctx, sizeof *p, "an expression", &p));
    weft_status status = fill(ctx, p, text, n, regex);
    if (status == WEFT_OK)
        *out = p;
    else
        wefti_pattern_destroy(ctx, p);
    return status;
}

void wefti_pattern_destroy(weft_ctx *ctx, wefti_pattern *p) {
    if (!p) return;
    p->memory.ctx = ctx;
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->general);
    wefti_free(ctx, p->literal);
    wefti_free(ctx, p);
}

/* -- matching -- */

weft_status wefti_matcher_create(weft_ctx *ctx, wefti_matcher **out) {
    wefti_matcher *m;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *m, "room to match", &m));
    m->memory.ctx = ctx;
    m->general = pcre2_general_context_create(pcre_malloc, pcre_free, &m->memory);
    if (m->general) {
        m->limits = pcre2_match_context_create(m->general);
        m->match = pcre2_match_data_create(1, m->general);
    }
    if (m->limits && m->match) {
        wefti_matcher_allow(m, 0, false);
        *out = m;
        return WEFT_OK;
    }
    wefti_matcher_destroy(m);
    return WEFT_ERR_MEMORY;
}

void wefti_matcher_destroy(wefti_matcher *m) {
    if (!m) return;
    pcre2_match_data_free(m->match);
    pcre2_match_context_free(m->limits);
    pcre2_general_context_free(m->general);
    wefti_free(m->memory.ctx, m);
}

void wefti_matcher_allow(wefti_matcher *m, int64_t n, bool shared) {
    m->left = (shared ? m->left : WORK_AT_ONCE) + WORK_PER_BYTE * n;
    m->place = shared ? LEAST : ALL / (n + 1);
    if (m->place < LEAST) m->place = LEAST;
    if (m->place > MOST) m->place = MOST;
}

/* A search that takes at most `limit` steps from each place. */
static int attempt(const wefti_pattern *p, wefti_matcher *m, const char *text, int64_t n,
                   int64_t from, uint32_t options, int64_t limit) {
    options |= PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    pcre2_set_match_limit(m->limits, (uint32_t)limit);
    int rc = pcre2_match(p->code, (PCRE2_SPTR)text, (size_t)n, (size_t)from, options,
                         m->match, m->limits);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(p->code, (PCRE2_SPTR)text, (size_t)n, (size_t)from,
                       options | PCRE2_NO_JIT, m->match, m->limits);
}

/* The same search place by place, paid by the text. */
static int search(const wefti_pattern *p, wefti_matcher *m, const char *text, int64_t n,
                  int64_t from) {
    int rc = PCRE2_ERROR_NOMATCH;
    for (int64_t at = from; at < n && rc == PCRE2_ERROR_NOMATCH;) {
        rc = PCRE2_ERROR_MATCHLIMIT;
        for (int64_t limit = FIRST_TRY; rc == PCRE2_ERROR_MATCHLIMIT; limit *= 8) {
            if (m->left < limit * p->cost) return rc;
            m->left -= limit * p->cost;
            rc = attempt(p, m, text, n, at, PCRE2_ANCHORED, limit);
        }
        do at++;
        while (at < n && ((unsigned char)text[at] & 0xC0) == 0x80);
    }
    return rc;
}

static weft_status find_regex(const wefti_pattern *p, wefti_matcher *m, const char *text,
                              int64_t n, int64_t from, int64_t *start, int64_t *end) {
    int rc = attempt(p, m, text, n, from, 0, 1 + m->place / p->cost);
    if (rc == PCRE2_ERROR_MATCHLIMIT) rc = search(p, m, text, n, from);
    *start = *end = n;
    if (rc == PCRE2_ERROR_NOMATCH) return WEFT_OK;
    if (rc == PCRE2_ERROR_MATCHLIMIT)
        return weft_ctx_fail(m->memory.ctx, WEFT_ERR_FORMAT,
                             "an expression of the tokenizer goes back and forth over a "
                             "text for more than %d steps and %d for each byte",
                             WORK_AT_ONCE, WORK_PER_BYTE);
    if (rc < 0)
        return fail_pcre(&m->memory, WEFT_ERR_FORMAT, rc,
                         "match an expression of the tokenizer");
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->match);
    if (span[1] <= span[0]) return WEFT_OK; /* \K may do that */
    *start = (int64_t)span[0];
    *end = (int64_t)span[1];
    return WEFT_OK;
}

weft_status wefti_pattern_find(const wefti_pattern *p, wefti_matcher *m, const char *text,
                               int64_t n, int64_t from, int64_t *start, int64_t *end) {
    if (!p->literal) return find_regex(p, m, text, n, from, start, end);
    const char *found = memmem(text + from, (size_t)(n - from), p->literal,
                               (size_t)p->n_literal);
    *start = found ? found - text : n;
    *end = found ? *start + p->n_literal : n;
    return WEFT_OK;
}
