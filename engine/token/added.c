/* SPDX-License-Identifier: MIT */
/* Added tokens in text. A special token in text is not one: who wrote "<|endoftext|>" into a
 * web page must not end a document by it; unless the text is one of a chat template, which writes
 * them on purpose. It is still searched for with the others, because
 * the search of Hugging Face's library goes on behind it. */
#include "token/pipeline.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/memory.h"
#include "text/utf8.h"

enum { LONGEST = 4096 }; /* each place of a text may look at as many bytes */

weft_status wefti_added_put(weft_ctx *ctx, wefti_added_set *set, const wefti_added *token,
                            const char *text, int64_t n) {
    if (n == 0) return WEFT_OK;
    if (n > LONGEST)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "an added token of the tokenizer has %lld bytes, expected at most %d",
            (long long)n, LONGEST);
    WEFT_TRY(wefti_reserve(ctx, &set->tokens, &set->capacity, set->n, 1,
                           sizeof *set->tokens, "added tokens"));
    wefti_added *t = &set->tokens[set->n];
    *t = *token;
    t->n_text = n;
    WEFT_TRY(wefti_alloc_n(ctx, n, 1, "an added token", &t->text));
    memcpy(t->text, text, (size_t)n);
    set->n++;
    return WEFT_OK;
}

void wefti_added_fini(weft_ctx *ctx, wefti_added_set *set) {
    for (int64_t k = 0; k < set->n; k++) wefti_free(ctx, set->tokens[k].text);
    wefti_free(ctx, set->tokens);
    *set = (wefti_added_set){0};
}

/* < 0 or > 0: where a token comes before or behind a text of n bytes; 0: the text begins with
 * it. */
static int compare(const wefti_added *t, const char *text, int64_t n) {
    int order = memcmp(t->text, text, (size_t)(t->n_text < n ? t->n_text : n));
    return order ? order : t->n_text > n;
}

/* By bytes, what begins alike behind it; of the same bytes the lower id last. */
static int by_search(const void *a, const void *b) {
    const wefti_added *x = a, *y = b;
    int order = compare(x, y->text, y->n_text);
    if (order) return order;
    if (x->n_text != y->n_text) return -1;
    return (x->id < y->id) - (x->id > y->id);
}

/* The longest token that a token begins with, and one of those that this one begins with: by
 * both, the longest of at most some length is found in a number of steps that is the logarithm
 * of theirs (Myers, "An applicative random-access stack", 1983). */
static void link_token(wefti_added *tokens, int32_t at) {
    wefti_added *t = &tokens[at];
    int32_t up = at - 1;
    while (up >= 0 && compare(&tokens[up], t->text, t->n_text) != 0) up = tokens[up].up;
    t->up = t->far = up;
    if (up < 0) return;
    t->depth = tokens[up].depth + 1;
    int32_t far = tokens[up].far, further = far < 0 ? -1 : tokens[far].far;
    if (further >= 0 &&
        tokens[up].depth - tokens[far].depth == tokens[far].depth - tokens[further].depth)
        t->far = further;
}

void wefti_added_sort(wefti_added_set *set) {
    int64_t k = 0;
    if (set->n > 0) qsort(set->tokens, (size_t)set->n, sizeof *set->tokens, by_search);
    for (int32_t i = 0; i < (int32_t)set->n; i++) link_token(set->tokens, i);
    for (int b = 0; b < 257; b++) {
        while (k < set->n && (unsigned char)set->tokens[k].text[0] < b) k++;
        set->first[b] = k;
    }
}

/* How many bytes a token and a text have in common at their beginnings. */
static int64_t common(const wefti_added *t, const char *text, int64_t n) {
    int64_t i = 0;
    while (i < n && i < t->n_text && t->text[i] == text[i]) i++;
    return i;
}

/* All tokens that the text begins with are beginnings of the last token that does not come
 * behind the text: one of [low, high). */
static const wefti_added *longest(const wefti_added_set *set, int64_t low, int64_t high,
                                  const char *text, int64_t n) {
    const int64_t first = low;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (compare(&set->tokens[middle], text, n) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    int32_t at = (int32_t)low - 1;
    if (at < first) return NULL;
    int64_t alike = common(&set->tokens[at], text, n);
    while (at >= 0 && set->tokens[at].n_text > alike) {
        int32_t far = set->tokens[at].far;
        at = far >= 0 && set->tokens[far].n_text > alike ? far : set->tokens[at].up;
    }
    return at < 0 ? NULL : &set->tokens[at];
}

/* For nearly all places of a text no token begins with their byte. */
static inline const wefti_added *match(const wefti_added_set *set, const char *text,
                                       int64_t n) {
    unsigned char b = (unsigned char)text[0];
    int64_t low = set->first[b], high = set->first[b + 1];
    return low == high ? NULL : longest(set, low, high, text, n);
}

const wefti_added *wefti_added_match(const wefti_added_set *set, const char *text,
                                     int64_t n) {
    return match(set, text, n);
}

static bool is_word(uint32_t code) {
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
    }
}

/* Length of the character that ends at text[n), and its code. */
static int last_character(const char *text, int64_t n, uint32_t *code) {
    int length = 1;
    while (length < n && length < 4 && ((unsigned char)text[n - length] & 0xC0) == 0x80)
        length++;
    return n > 0 ? wefti_utf8_decode(text + n - length, length, code) : 0;
}

static bool stands_alone(const char *text, int64_t n, int64_t start, int64_t end) {
    uint32_t code;
    if (last_character(text, start, &code) > 0 && is_word(code)) return false;
    return wefti_utf8_decode(text + end, n - end, &code) == 0 || !is_word(code);
}

static int64_t strip_left(const char *text, int64_t start) {
    uint32_t code;
    int length;
    while ((length = last_character(text, start, &code)) > 0 && wefti_utf8_is_space(code))
        start -= length;
    return start;
}

static int64_t strip_right(const char *text, int64_t n, int64_t end) {
    uint32_t code;
    int length;
    while ((length = wefti_utf8_decode(text + end, n - end, &code)) > 0 &&
           wefti_utf8_is_space(code))
        end += length;
    return end;
}

/* A piece of what is no token. */
static weft_status put_text(wefti_pieces *p, const wefti_textpiece *s, int64_t start,
                            int64_t end) {
    wefti_textpiece piece = {.start = s->start + start,
                             .end = s->start + end,
                             .id = WEFTI_TEXT,
                             .first = s->first && start == 0,
                             .inner = s->inner && start == 0,
                             .inward = s->inward && s->start + end == s->end};
    return wefti_pieces_make(p, piece);
}

static weft_status find(const wefti_added_set *set, wefti_pieces *p,
                        const wefti_textpiece *s) {
    const char *text = p->text.bytes + s->start;
    int64_t n = s->end - s->start, done = 0;
    for (int64_t at = 0; at < n;) {
        const wefti_added *t = match(set, text + at, n - at);
        int64_t start = at, end = t ? at + t->n_text : at + 1;
        at = end;
        bool text_only = t && t->special && !p->marks;
        if (!t || text_only || (t->single_word && !stands_alone(text, n, start, end)))
            continue;
        if (t->lstrip) start = strip_left(text, start);
        if (start < done) start = done;
        if (t->rstrip) end = strip_right(text, n, end);
        if (done < start) WEFT_TRY(put_text(p, s, done, start));
        WEFT_TRY(wefti_pieces_make(p, (wefti_textpiece){.start = s->start + start,
                                                        .end = s->start + end,
                                                        .id = t->id}));
        done = end;
    }
    return done < n ? put_text(p, s, done, n) : WEFT_OK;
}

weft_status wefti_added_find(const wefti_added_set *set, wefti_pieces *p) {
    if (set->n == 0) return WEFT_OK;
    for (int64_t k = 0; k < p->n; k++) {
        const wefti_textpiece s = p->segments[k];
        WEFT_TRY(s.id == WEFTI_TEXT ? find(set, p, &s) : wefti_pieces_make(p, s));
    }
    wefti_pieces_turn(p, false);
    return WEFT_OK;
}
