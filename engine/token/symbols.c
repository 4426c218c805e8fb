/* SPDX-License-Identifier: MIT */
/* Piece -> symbols. A character is its token; without one, the tokens of its bytes (<0x00> ..
 * <0xFF>) if all of those are there; else the unknown token, one for each or one for several in
 * a row; else nothing. An unknown token waits until a character with a token comes, also behind
 * bytes: so does Hugging Face's library. */
#include "token/symbols.h"

#include "base/utf8.h"

typedef struct symbols {
    const weft_tokenizer *t;
    int32_t *ids;
    int64_t n;
    bool waiting; /* an unknown token is */
} symbols;

static void flush(symbols *s) {
    if (s->waiting) s->ids[s->n++] = s->t->pipeline->unknown;
    s->waiting = false;
}

static bool put_bytes(symbols *s, const char *text, int length) {
    for (int i = 0; i < length; i++)
        if (s->t->byte_ids[(unsigned char)text[i]] < 0) return false;
    for (int i = 0; i < length; i++)
        s->ids[s->n++] = s->t->byte_ids[(unsigned char)text[i]];
    return true;
}

static void put(symbols *s, const char *text, int length) {
    const wefti_pipeline *p = s->t->pipeline;
    int32_t id = p->chars ? wefti_vocab_find(s->t, text, length)
                          : s->t->byte_ids[(unsigned char)text[0]];
    if (id >= 0) {
        flush(s);
        s->ids[s->n++] = id;
        return;
    }
    if (p->chars && p->fallback && put_bytes(s, text, length)) return;
    if (p->unknown < 0) return;
    if (!p->fuse_unknown) flush(s);
    s->waiting = true;
}

int64_t wefti_symbols(const weft_tokenizer *t, const char *piece, int64_t n,
                      int32_t *ids) {
    symbols s = {.t = t, .ids = ids};
    uint32_t code;
    for (int64_t at = 0; at < n;) {
        int length = t->pipeline->chars ? wefti_utf8_decode(piece + at, n - at, &code)
                                        : 1;
        if (length == 0) length = 1; /* cannot be: pieces are well-formed */
        put(&s, piece + at, length);
        at += length;
    }
    flush(&s);
    return s.n;
}
