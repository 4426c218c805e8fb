/* SPDX-License-Identifier: MIT */
/* What follows from a tokenizer.json's vocabulary and merges once all of it is read: the tokens
 * of bytes, the unknown token, whether words stand apart, and what ids show.
 *
 * What an id shows: an added token its own text; of a vocabulary of bytes the bytes of its name;
 * of one of characters its name with blanks for U+2581 (or what the file writes for a blank),
 * and <0x0A> the byte 0A if the file falls back to bytes. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "token/loader.h"

static int32_t find_name(const weft_tokenizer *t, int byte) {
    char name[8];
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    return wefti_vocab_find(t, name, (int64_t)strlen(name));
}

/* Byte tokens count only all together, as the fallback wants them one by one; -1: none. */
static void find_bytes(weft_tokenizer *t) {
    const wefti_pipeline *p = t->pipeline;
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        t->byte_ids[byte] = !p->chars     ? wefti_vocab_find(t, &c, 1)
                            : p->fallback ? find_name(t, byte)
                                          : -1;
    }
}

static weft_status find_unknown(const wefti_loader *l) {
    const json_t *value = wefti_loader_get(l->model, "unk_token");
    wefti_pipeline *p = l->t->pipeline;
    const char *name = json_string_value(value);
    if (!value) return WEFT_OK;
    if (!name) return wefti_loader_refuse(l, "unk_token", "no text", "a token");
    for (int64_t id = 0; id < l->t->vocab; id++) {
        const wefti_token *token = &l->t->tokens[id];
        if ((token->flags & WEFTI_TOKEN_EXISTS) &&
            (size_t)token->n_bytes == strlen(name) &&
            memcmp(l->t->text + token->offset, name, strlen(name)) == 0)
            p->unknown = (int32_t)id;
    }
    if (p->unknown >= 0) return WEFT_OK;
    return wefti_loader_refuse(l, "unk_token", name, "a token of the vocabulary");
}

static bool ends_in_blank(const weft_tokenizer *t, int32_t id, const char *blank) {
    const wefti_token *token = &t->tokens[id];
    int64_t m = (int64_t)strlen(blank);
    return token->n_bytes >= m &&
           memcmp(t->text + token->offset + token->n_bytes - m, blank, (size_t)m) == 0;
}

static bool starts_in_blank(const weft_tokenizer *t, int32_t id, const char *blank) {
    const wefti_token *token = &t->tokens[id];
    int64_t m = (int64_t)strlen(blank);
    return token->n_bytes >= m && memcmp(t->text + token->offset, blank, (size_t)m) == 0;
}

/* Whether no merge joins something that is no blank with a blank behind it. */
static bool stand_apart(const weft_tokenizer *t) {
    const char *blank = t->pipeline->blank;
    if (!blank || !t->pipeline->chars || t->ignore_merges) return false;
    if (wefti_vocab_find(t, blank, (int64_t)strlen(blank)) < 0) return false;
    for (int64_t rank = 0; rank < t->merges.n; rank++) {
        int32_t left = (int32_t)(t->merges.keys[rank] >> 32);
        int32_t right = (int32_t)(t->merges.keys[rank] & UINT32_MAX);
        if (starts_in_blank(t, right, blank) && !ends_in_blank(t, left, blank))
            return false;
    }
    return true;
}

/* -- what ids show -- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that a name of the fallback means, or -1. */
static int byte_of(const char *name, int64_t n) {
    if (n != 6 || memcmp(name, "<0x", 3) != 0 || name[5] != '>') return -1;
    int high = hex_digit(name[3]), low = hex_digit(name[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* Writes what a name of characters shows to out, which has room for the name. */
static int64_t show_name(const wefti_pipeline *p, const char *name, int64_t n,
                         char *out) {
    int byte = p->fallback ? byte_of(name, n) : -1;
    int64_t m = p->blank ? (int64_t)strlen(p->blank) : 0, length = 0;
    if (byte >= 0) {
        out[0] = (char)byte;
        return 1;
    }
    for (int64_t at = 0; at < n;) {
        bool blank = m > 0 && n - at >= m && memcmp(name + at, p->blank, (size_t)m) == 0;
        out[length++] = blank ? ' ' : name[at];
        at += blank ? m : 1;
    }
    return length;
}

static weft_status show_names(const wefti_loader *l) {
    weft_tokenizer *t = l->t;
    int64_t at = 0;
    WEFT_TRY(wefti_alloc_n(l->ctx, t->vocab, sizeof *t->shown, "the tokens", &t->shown));
    WEFT_TRY(
        wefti_alloc_n(l->ctx, t->n_text + 1, 1, "the tokens' bytes", &t->shown_text));
    for (int64_t id = 0; id < t->vocab; id++) {
        const wefti_token *token = &t->tokens[id];
        bool plain = !t->pipeline->chars || !(token->flags & WEFTI_TOKEN_MODEL) ||
                     (token->flags & WEFTI_TOKEN_SPECIAL);
        const char *name = t->text + token->offset;
        t->shown[id] = (wefti_token){.offset = at, .flags = token->flags};
        if (plain) memcpy(t->shown_text + at, name, (size_t)token->n_bytes);
        t->shown[id].n_bytes = plain
                                   ? token->n_bytes
                                   : (int32_t)show_name(t->pipeline, name, token->n_bytes,
                                                        t->shown_text + at);
        at += t->shown[id].n_bytes;
    }
    return WEFT_OK;
}

weft_status wefti_loader_finish(wefti_loader *l) {
    wefti_pipeline *p = l->t->pipeline;
    find_bytes(l->t);
    WEFT_TRY(find_unknown(l));
    WEFT_TRY(wefti_loader_added(l));
    p->apart = stand_apart(l->t);
    if (p->cuts == WEFTI_CUTS_BLANK && !p->apart) p->cuts = WEFTI_CUTS_NONE;
    return show_names(l);
}
