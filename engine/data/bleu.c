/* SPDX-License-Identifier: MIT */
/* BLEU of a corpus (Papineni et al. 2002), as WMT counts it:
 *
 *     BLEU = 100 exp(min(0, 1 - r / c)) (p_1 p_2 p_3 p_4)^(1/4)
 *
 * p_n = matches / n-grams of all translations together, where an n-gram matches at most as
 * often as it is in the reference; r and c are the words of references and translations.
 * The k-th p_n without a match counts as 1 / (2^k n-grams) (NIST's smoothing).
 *
 * Words are those of mteval's tokenization 13a: an entity is its character, each symbol is
 * a word, a period or comma is one unless digits stand on both sides, and so is a dash
 * behind a digit. Letters of other scripts than ASCII are letters. */
#include "data/bleu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/utf8.h"

/* A text that is rewritten: room for the longest that a rule can make of it. */
typedef struct line {
    char *bytes; /* owned */
    int64_t n;
} line;

typedef struct word {
    const char *at;
    int64_t n;
} word;

/* An n-gram: so many words from here. */
typedef struct gram {
    const word *at;
    int n;
} gram;

/* ---- tokenization ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_point(char c) { return c == '.' || c == ','; }

/* Symbols that stand alone wherever they are: not the point, comma, apostrophe and dash. */
static bool is_symbol(char c) {
    unsigned char u = (unsigned char)c;
    return (u >= '{' && u <= '~') || (u >= '[' && u <= '`') || (u >= ' ' && u <= '&') ||
           (u >= '(' && u <= '+') || (u >= ':' && u <= '@') || u == '/';
}

/* Replaces every `from` by `to`, which is not longer. */
static void replace(line *l, const char *from, const char *to) {
    int64_t n = (int64_t)strlen(from), m = (int64_t)strlen(to), out = 0;
    for (int64_t i = 0; i < l->n;) {
        if (l->n - i >= n && memcmp(l->bytes + i, from, (size_t)n) == 0) {
            memcpy(l->bytes + out, to, (size_t)m);
            out += m;
            i += n;
        } else {
            l->bytes[out++] = l->bytes[i++];
        }
    }
    l->n = out;
}

static void put(char *out, int64_t *n, const char *text) {
    while (*text) out[(*n)++] = *text++;
}

/* The rules below read `from` and write into out; each returns the new length. A pair of
 * characters that a rule has taken is not looked at again by it, as in a substitution. */
static int64_t part_symbols(const char *from, int64_t n, char *out) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        char mark[] = {' ', from[i], ' ', 0}, plain[] = {from[i], 0};
        put(out, &m, is_symbol(from[i]) ? mark : plain);
    }
    return m;
}

/* A mark behind a digit, or behind what is none. */
static int64_t part_marks(const char *from, int64_t n, char *out, bool digit,
                          const char *marks) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        out[m++] = from[i];
        if (is_digit(from[i]) != digit || i + 1 == n || !from[i + 1] ||
            !strchr(marks, from[i + 1]))
            continue;
        char mark[] = {' ', from[++i], ' ', 0};
        put(out, &m, mark);
    }
    return m;
}

/* A point before what is no digit. */
static int64_t part_before(const char *from, int64_t n, char *out) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!is_point(from[i]) || i + 1 == n || is_digit(from[i + 1])) {
            out[m++] = from[i];
            continue;
        }
        char mark[] = {' ', from[i], ' ', from[i + 1], 0};
        put(out, &m, mark);
        i++;
    }
    return m;
}

/* The bytes of the white space that begins here, ASCII's separators included; 0: none does. */
static int space_at(const char *text, int64_t n) {
    uint32_t code;
    int n_bytes = wefti_utf8_decode(text, n, &code);
    bool space = n_bytes && (wefti_utf8_is_space(code) || (code >= 28 && code <= 31));
    return space ? n_bytes : 0;
}

/* Cuts a text at its white space; words NULL: counts. */
static int64_t cut_words(const char *text, int64_t n, word *words) {
    int64_t count = 0;
    for (int64_t i = 0; i < n;) {
        int space = space_at(text + i, n - i);
        if (space > 0) {
            i += space;
            continue;
        }
        int64_t first = i;
        while (i < n && space_at(text + i, n - i) == 0) i++;
        if (words) words[count] = (word){text + first, i - first};
        count++;
    }
    return count;
}

enum { GROWTH = 3 }; /* what a rule makes of a character at most */

/* What the rules make of a text: *out, owned by the caller. */
static weft_status rewrite(weft_ctx *ctx, const char *text, line *out) {
    int64_t n = (int64_t)strlen(text) + 2, most = n;
    char *room;
    for (int rule = 0; rule < 2; rule++) most *= GROWTH; /* at most two act on a place */
    WEFT_TRY(wefti_alloc_n(ctx, most, 1, "a text", &out->bytes));
    weft_status status = wefti_alloc_n(ctx, most, 1, "a text", &room);
    if (status != WEFT_OK) return status;
    memcpy(out->bytes + 1, text, (size_t)(n - 2));
    out->bytes[0] = out->bytes[n - 1] = ' ';
    out->n = n;
    replace(out, "<skipped>", "");
    replace(out, "-\n", "");
    replace(out, "\n", " ");
    replace(out, "&quot;", "\"");
    replace(out, "&amp;", "&");
    replace(out, "&lt;", "<");
    replace(out, "&gt;", ">");
    n = part_symbols(out->bytes, out->n, room);
    n = part_marks(room, n, out->bytes, false, ".,");
    n = part_before(out->bytes, n, room);
    out->n = part_marks(room, n, out->bytes, true, "-");
    wefti_free(ctx, room);
    return WEFT_OK;
}

/* ---- counting ---- */

static int compare_words(const word *a, const word *b) {
    int64_t n = a->n < b->n ? a->n : b->n;
    int order = memcmp(a->at, b->at, (size_t)n);
    if (order != 0) return order;
    return a->n < b->n ? -1 : a->n > b->n;
}

static int compare_grams(const void *a, const void *b) {
    const gram *x = a, *y = b;
    for (int i = 0; i < x->n; i++) {
        int order = compare_words(&x->at[i], &y->at[i]);
        if (order != 0) return order;
    }
    return 0;
}

/* The n-grams of n_words words in order; returns how many. */
static int64_t sort_grams(const word *words, int64_t n_words, int n, gram *grams) {
    int64_t count = n_words >= n ? n_words - n + 1 : 0;
    for (int64_t i = 0; i < count; i++) grams[i] = (gram){words + i, n};
    if (count > 0) qsort(grams, (size_t)count, sizeof *grams, compare_grams);
    return count;
}

/* Of two lists in order, how many items they share, each as often as in both. */
static int64_t count_shared(const gram *a, int64_t n, const gram *b, int64_t m) {
    int64_t shared = 0;
    for (int64_t i = 0, j = 0; i < n && j < m;) {
        int order = compare_grams(&a[i], &b[j]);
        shared += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    return shared;
}

static weft_status count(weft_ctx *ctx, wefti_bleu *bleu, const line *a, const line *b) {
    int64_t n = cut_words(a->bytes, a->n, NULL), m = cut_words(b->bytes, b->n, NULL);
    word *words;
    gram *grams;
    WEFT_TRY(wefti_alloc_n(ctx, n + m, sizeof *words, "words", &words));
    weft_status status = wefti_alloc_n(ctx, n + m, sizeof *grams, "n-grams", &grams);
    if (status == WEFT_OK) {
        cut_words(a->bytes, a->n, words);
        cut_words(b->bytes, b->n, words + n);
        for (int order = 1; order <= WEFTI_BLEU_ORDERS; order++) {
            int64_t mine = sort_grams(words, n, order, grams);
            int64_t theirs = sort_grams(words + n, m, order, grams + mine);
            bleu->total[order - 1] += mine;
            bleu->matches[order - 1] += count_shared(grams, mine, grams + mine, theirs);
        }
        bleu->words += n;
        bleu->reference_words += m;
    }
    WEFTI_FREE(ctx, grams, words);
    return status;
}

weft_status wefti_bleu_add(weft_ctx *ctx, wefti_bleu *bleu, const char *translation,
                           const char *reference) {
    line a = {0}, b = {0};
    weft_status status = rewrite(ctx, translation, &a);
    if (status == WEFT_OK) status = rewrite(ctx, reference, &b);
    if (status == WEFT_OK) status = count(ctx, bleu, &a, &b);
    WEFTI_FREE(ctx, a.bytes, b.bytes);
    return status;
}

double wefti_bleu_score(const wefti_bleu *bleu) {
    double logs = 0, halves = 1;
    for (int i = 0; i < WEFTI_BLEU_ORDERS; i++) {
        if (bleu->matches[0] == 0 || bleu->total[i] == 0) return 0;
        double total = (double)bleu->total[i], matches = (double)bleu->matches[i];
        if (bleu->matches[i] == 0) matches = 1 / (halves *= 2);
        logs += log(100 * matches / total);
    }
    double r = (double)bleu->reference_words, c = (double)bleu->words;
    return (c < r ? exp(1 - r / c) : 1) * exp(logs / WEFTI_BLEU_ORDERS);
}
