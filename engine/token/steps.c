/* SPDX-License-Identifier: MIT */
/* Steps from text to pieces. A step that changes text writes all of it anew, piece after piece,
 * into the other buffer; a step that cuts only makes a new list of pieces. What each one does is
 * defined by what Hugging Face's tokenizers does, which tests compare (bench/tokenizers).
 *
 * Splitting: the matches of a pattern and what lies between them alternate. By the behavior
 *
 *     removed        only what lies between stays
 *     isolated       each match and each stretch between is a piece
 *     contiguous     matches that touch are one piece
 *     with previous  a match is the end of the piece before it, unless that is a match too
 *     with next      a match is the beginning of the piece after it, likewise */
#include "token/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/memory.h"
#include "text/utf8.h"

void wefti_step_fini(weft_ctx *ctx, wefti_step *step) {
    wefti_pattern_destroy(ctx, step->pattern);
    wefti_free(ctx, step->text);
    *step = (wefti_step){0};
}

/* -- pieces -- */

weft_status wefti_pieces_init(weft_ctx *ctx, wefti_pieces *p) {
    p->ctx = ctx;
    return wefti_matcher_create(ctx, &p->matcher);
}

void wefti_pieces_fini(wefti_pieces *p) {
    if (!p->ctx) return;
    wefti_matcher_destroy(p->matcher);
    wefti_buffer_fini(p->ctx, &p->text);
    wefti_buffer_fini(p->ctx, &p->next);
    WEFTI_FREE(p->ctx, p->segments, p->others);
    *p = (wefti_pieces){0};
}

weft_status wefti_pieces_put(wefti_pieces *p, wefti_textpiece segment) {
    WEFT_TRY(wefti_reserve(p->ctx, &p->segments, &p->capacity, p->n, 1,
                           sizeof *p->segments, "pieces of text"));
    p->segments[p->n++] = segment;
    return WEFT_OK;
}

/* An empty piece is none. */
weft_status wefti_pieces_make(wefti_pieces *p, wefti_textpiece segment) {
    if (segment.id == WEFTI_TEXT && segment.start == segment.end) return WEFT_OK;
    WEFT_TRY(wefti_reserve(p->ctx, &p->others, &p->others_capacity, p->n_others, 1,
                           sizeof *p->others, "pieces of text"));
    p->others[p->n_others++] = segment;
    return WEFT_OK;
}

void wefti_pieces_turn(wefti_pieces *p, bool text_too) {
    wefti_textpiece *segments = p->segments;
    int64_t capacity = p->capacity;
    p->segments = p->others;
    p->capacity = p->others_capacity;
    p->n = p->n_others;
    p->others = segments;
    p->others_capacity = capacity;
    p->n_others = 0;
    if (!text_too) return;
    wefti_buffer text = p->text;
    p->text = p->next;
    p->next = text;
    p->next.n = 0;
}

/* -- normalizing -- */

enum { GROWS_AT_ONCE = 1024, GROWS_PER_BYTE = 64 };

void wefti_pieces_allow(wefti_pieces *p, int64_t n, bool shared) {
    p->most = GROWS_AT_ONCE + GROWS_PER_BYTE * n;
    wefti_matcher_allow(p->matcher, n, shared);
}

/* Appends to the text that the step writes. */
static void put(wefti_pieces *p, const void *bytes, int64_t n) {
    if (p->next.status == WEFT_OK && n > p->most - p->next.n)
        p->next.status = weft_ctx_fail(
            p->ctx, WEFT_ERR_FORMAT,
            "the tokenizer's steps make more than %d bytes of each byte of a text",
            GROWS_PER_BYTE);
    wefti_buffer_put(p->ctx, &p->next, bytes, n);
}

static bool is_ascii(const char *text, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

/* The forms differ in two options of utf8proc. ASCII is in all forms already. */
static weft_status run_form(const wefti_step *step, wefti_pieces *p, const char *text,
                            int64_t n) {
    static const int options[] = {
        [WEFTI_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [WEFTI_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [WEFTI_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [WEFTI_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    utf8proc_uint8_t *out = NULL;
    if (is_ascii(text, n)) {
        put(p, text, n);
        return p->next.status;
    }
    utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *)text, n, &out,
                                           (utf8proc_option_t)options[step->form]);
    if (length == UTF8PROC_ERROR_NOMEM)
        return weft_ctx_fail(p->ctx, WEFT_ERR_MEMORY, "no memory to normalize %lld bytes",
                             (long long)n);
    if (length < 0)
        return weft_ctx_fail(p->ctx, WEFT_ERR_INTERNAL, "could not normalize a text: %s",
                             utf8proc_errmsg(length));
    put(p, out, length);
    free(out);
    return p->next.status;
}

static weft_status run_replace(const wefti_step *step, wefti_pieces *p, const char *text,
                               int64_t n) {
    int64_t at = 0, start, end;
    while (at < n && p->next.status == WEFT_OK) {
        WEFT_TRY(
            wefti_pattern_find(step->pattern, p->matcher, text, n, at, &start, &end));
        put(p, text + at, start - at);
        if (start < n) put(p, step->text, step->n_text);
        at = end;
    }
    return p->next.status;
}

static void run_strip(const wefti_step *step, wefti_pieces *p, wefti_textpiece *s) {
    const char *text = p->text.bytes + s->start;
    int64_t n = s->end - s->start, from = 0, to = n;
    uint32_t code;
    int length;
    while (step->left && !s->inner && from < n &&
           (length = wefti_utf8_decode(text + from, n - from, &code)) > 0 &&
           wefti_utf8_is_space(code))
        from += length;
    while (step->right && !s->inward && to > from) {
        int64_t begin = to - 1;
        while (begin > from && ((unsigned char)text[begin] & 0xC0) == 0x80) begin--;
        if (wefti_utf8_decode(text + begin, to - begin, &code) == 0 ||
            !wefti_utf8_is_space(code))
            break;
        to = begin;
    }
    if (from > 0) s->first = false;
    put(p, text + from, to - from);
}

static bool starts_with(const char *text, int64_t n, const char *with, int64_t m) {
    return n >= m && memcmp(text, with, (size_t)m) == 0;
}

static weft_status run_metaspace(const wefti_step *step, wefti_pieces *p,
                                 const wefti_textpiece *s) {
    const char *text = p->text.bytes + s->start;
    int64_t n = s->end - s->start;
    bool wanted = step->front == WEFTI_FRONT_ALWAYS ||
                  (step->front == WEFTI_FRONT_FIRST && s->first);
    bool has = n > 0 &&
               (text[0] == ' ' || starts_with(text, n, step->text, step->n_text));
    if (wanted && !has && !s->inner) put(p, step->text, step->n_text);
    for (int64_t i = 0; i < n;) {
        const char *blank = memchr(text + i, ' ', (size_t)(n - i));
        int64_t part = blank ? blank - text - i : n - i;
        put(p, text + i, part);
        if (blank) put(p, step->text, step->n_text);
        i += part + 1;
    }
    return p->next.status;
}

/* What the step makes of one piece, appended to the next text. */
static weft_status change(const wefti_step *step, wefti_pieces *p, wefti_textpiece *s) {
    const char *text = p->text.bytes + s->start;
    int64_t n = s->end - s->start;
    if (step->kind == WEFTI_STEP_FORM) return run_form(step, p, text, n);
    if (step->kind == WEFTI_STEP_REPLACE) return run_replace(step, p, text, n);
    if (step->kind == WEFTI_STEP_METASPACE) return run_metaspace(step, p, s);
    if (step->kind == WEFTI_STEP_STRIP) {
        run_strip(step, p, s);
        return p->next.status;
    }
    if (step->kind == WEFTI_STEP_PREPEND && n > 0 && !s->inner)
        put(p, step->text, step->n_text);
    if (step->kind == WEFTI_STEP_PREFIX && n > 0 && text[0] != ' ' && !s->inner)
        put(p, " ", 1);
    put(p, text, n);
    return p->next.status;
}

static weft_status run_change(const wefti_step *step, wefti_pieces *p) {
    for (int64_t k = 0; k < p->n; k++) {
        wefti_textpiece s = p->segments[k];
        int64_t start = p->next.n;
        if (s.id == WEFTI_TEXT)
            WEFT_TRY(change(step, p, &s));
        else
            put(p, p->text.bytes + s.start, s.end - s.start);
        s.start = start;
        s.end = p->next.n;
        WEFT_TRY(p->next.status);
        WEFT_TRY(wefti_pieces_make(p, s));
    }
    wefti_pieces_turn(p, true);
    return WEFT_OK;
}

/* -- cutting -- */

/* Makes a piece of [start, end); only the first of a piece begins where that began. After a
 * cut the ends of pieces are ends, for the places where long texts are cut are such. */
static weft_status cut(wefti_pieces *p, const wefti_textpiece *whole, int64_t start,
                       int64_t end) {
    wefti_textpiece s = {.start = start,
                         .end = end,
                         .id = WEFTI_TEXT,
                         .first = whole->first && start == whole->start};
    return wefti_pieces_make(p, s);
}

/* Whether a match, or a stretch between, joins the piece before it or after it. */
typedef struct joiner {
    const wefti_step *step;
    wefti_pieces *p;
    const wefti_textpiece *whole;
    int64_t start, end; /* the piece that grows; empty: none */
    bool match;         /* it is a match, or (with next) it ends in one */
} joiner;

static weft_status flush(joiner *j) {
    weft_status status = WEFT_OK;
    if (j->end > j->start) status = cut(j->p, j->whole, j->start, j->end);
    j->start = j->end;
    return status;
}

/* With previous: a match joins what is before it, unless that ends in a match. With next: a
 * match waits for what comes after it; of several that touch each is a piece but the last. */
static bool joins(const joiner *j, bool match) {
    switch (j->step->behavior) {
    case WEFTI_CONTIGUOUS: return match == j->match;
    case WEFTI_WITH_PREVIOUS: return match && !j->match;
    case WEFTI_WITH_NEXT: return !match && j->match;
    default: return false;
    }
}

static weft_status take(joiner *j, int64_t start, int64_t end, bool match) {
    match ^= j->step->invert;
    if (start == end) return WEFT_OK;
    bool grows = j->end > j->start && j->end == start && joins(j, match);
    if (!grows) {
        WEFT_TRY(flush(j));
        j->start = start;
    }
    j->end = end;
    if (match && j->step->behavior == WEFTI_REMOVED) j->start = end;
    j->match = match;
    return WEFT_OK;
}

static weft_status split(const wefti_step *step, wefti_pieces *p,
                         const wefti_textpiece *s) {
    joiner j = {.step = step, .p = p, .whole = s, .start = s->start, .end = s->start};
    const char *text = p->text.bytes + s->start;
    int64_t n = s->end - s->start, at = 0, start, end;
    while (at < n) {
        WEFT_TRY(
            wefti_pattern_find(step->pattern, p->matcher, text, n, at, &start, &end));
        WEFT_TRY(take(&j, s->start + at, s->start + start, false));
        WEFT_TRY(take(&j, s->start + start, s->start + end, true));
        at = end;
    }
    return flush(&j);
}

static weft_status run_split(const wefti_step *step, wefti_pieces *p) {
    for (int64_t k = 0; k < p->n; k++) {
        const wefti_textpiece s = p->segments[k];
        WEFT_TRY(s.id == WEFTI_TEXT ? split(step, p, &s) : wefti_pieces_make(p, s));
    }
    wefti_pieces_turn(p, false);
    return WEFT_OK;
}

weft_status wefti_step_run(const wefti_step *step, wefti_pieces *p) {
    return step->kind == WEFTI_STEP_SPLIT ? run_split(step, p) : run_change(step, p);
}
