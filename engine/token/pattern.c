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
    pcre_expression regex;
    int64_t cost; /* of a step */
};

struct wefti_matcher {
    weft_ctx *ctx;
    pcre_matching room;
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
        status = pcre_compile(ctx, &p->regex, rewritten.bytes ? rewritten.bytes : "",
                              PCRE2_NEVER_BACKSLASH_C, WEFT_ERR_FORMAT,
                              "compile its expression");
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
    pcre_release(ctx, &p->regex);
    wefti_free(ctx, p->literal);
    wefti_free(ctx, p);
}

/* -- matching -- */

weft_status wefti_matcher_create(weft_ctx *ctx, wefti_matcher **out) {
    wefti_matcher *m;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *m, "room to match", &m));
    m->ctx = ctx;
    wefti_matcher_allow(m, 0, false);
    weft_status status = pcre_open(ctx, &m->room);
    if (status == WEFT_OK)
        *out = m;
    else
        wefti_matcher_destroy(m);
    return status;
}

void wefti_matcher_destroy(wefti_matcher *m) {
    if (!m) return;
    pcre_close(&m->room);
    wefti_free(m->ctx, m);
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
    pcre2_set_match_limit(m->room.limits, (uint32_t)limit);
    return pcre_match(p->regex.code, &m->room, text, n, from, options | PCRE2_NOTEMPTY);
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
        return weft_ctx_fail(m->ctx, WEFT_ERR_FORMAT,
                             "an expression of the tokenizer goes back and forth over a "
                             "text for more than %d steps and %d for each byte",
                             WORK_AT_ONCE, WORK_PER_BYTE);
    if (rc < 0)
        return fail_pcre(&m->room.memory, WEFT_ERR_FORMAT, rc,
                         "match an expression of the tokenizer");
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->room.match);
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
