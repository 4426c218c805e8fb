/* SPDX-License-Identifier: MIT */
/* Text -> pieces, as a tokenizer.json says:
 *
 *     added tokens that stand in the text as it is        are tokens
 *     normalizers, over what is between them
 *     added tokens that stand in the normalized text      are tokens
 *     pre-tokenizers, over what is between them           pieces: no merge crosses their ends
 *
 * Bytes that are not UTF-8 part a text as tokens do.
 *
 * A text without pre-tokenizer is one piece, however long. If no merge joins something with a
 * blank behind it (none does in vocabularies whose words begin with their blank), a word and
 * what comes before it never meet, so that the text may as well be cut before each blank: the
 * ids are the same, words can be remembered, and long texts cut. */
#define _GNU_SOURCE
#include "token/pipeline.h"

#include <string.h>

#include "base/memory.h"
#include "text/utf8.h"

enum { MOST_STEPS = 256 };

weft_status wefti_pipeline_add(weft_ctx *ctx, wefti_pipeline *p, wefti_step **step) {
    if (p->n_steps == MOST_STEPS)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "a tokenizer has more than %d steps from text to pieces",
                             MOST_STEPS);
    WEFT_TRY(wefti_reserve(ctx, &p->steps, &p->capacity, p->n_steps, 1, sizeof *p->steps,
                           "steps of a tokenizer"));
    *step = &p->steps[p->n_steps++];
    **step = (wefti_step){0};
    return WEFT_OK;
}

void wefti_pipeline_destroy(weft_ctx *ctx, wefti_pipeline *p) {
    if (!p) return;
    for (int64_t k = 0; k < p->n_steps; k++) wefti_step_fini(ctx, &p->steps[k]);
    wefti_free(ctx, p->steps);
    wefti_added_fini(ctx, &p->plain);
    wefti_added_fini(ctx, &p->normalized);
    WEFTI_FREE(ctx, p->blank, p->source, p);
}

/* Length of the bytes at the start of text that are not UTF-8. */
static int64_t broken(const char *text, int64_t n) {
    uint32_t code;
    int64_t i = 0;
    while (i < n && wefti_utf8_decode(text + i, n - i, &code) == 0) i++;
    return i;
}

/* The text in stretches of UTF-8 and of other bytes. */
static weft_status start(wefti_pieces *pieces, const char *text, int64_t n, bool begins,
                         bool ends) {
    pieces->n = 0;
    pieces->text.n = 0;
    wefti_buffer_put(pieces->ctx, &pieces->text, text, n);
    WEFT_TRY(pieces->text.status);
    for (int64_t at = 0; at < n;) {
        int64_t valid = wefti_utf8_valid(text + at, n - at);
        int64_t length = valid ? valid : broken(text + at, n - at);
        wefti_textpiece s = {.start = at,
                             .end = at + length,
                             .id = valid ? WEFTI_TEXT : WEFTI_BYTES,
                             .first = at == 0 && begins,
                             .inner = at > 0 || !begins,
                             .inward = at + length < n || !ends};
        WEFT_TRY(wefti_pieces_put(pieces, s));
        at += length;
    }
    return WEFT_OK;
}

static weft_status normalize(const wefti_pipeline *p, wefti_pieces *pieces) {
    for (int64_t k = 0; k < p->n_normalizers; k++)
        WEFT_TRY(wefti_step_run(&p->steps[k], pieces));
    return WEFT_OK;
}

/* Cuts pieces before each blank that follows something else. */
static weft_status part_words(const wefti_pipeline *p, wefti_pieces *pieces) {
    int64_t m = (int64_t)strlen(p->blank);
    for (int64_t k = 0; k < pieces->n; k++) {
        wefti_textpiece s = pieces->segments[k];
        const char *text = pieces->text.bytes;
        for (int64_t at = s.start; s.id == WEFTI_TEXT && at < s.end;) {
            const char *found = memmem(text + at, (size_t)(s.end - at), p->blank,
                                       (size_t)m);
            int64_t place = found ? found - text : s.end;
            if (found && place > at && place > s.start) {
                WEFT_TRY(wefti_pieces_make(
                    pieces,
                    (wefti_textpiece){.start = s.start, .end = place, .id = s.id}));
                s.start = place;
            }
            at = place + m;
        }
        WEFT_TRY(wefti_pieces_make(pieces, s));
    }
    wefti_pieces_turn(pieces, false);
    return WEFT_OK;
}

weft_status wefti_pipeline_run(const wefti_pipeline *p, wefti_pieces *pieces,
                               const char *text, int64_t n, bool begins, bool ends) {
    wefti_pieces_allow(pieces, n, false);
    WEFT_TRY(start(pieces, text, n, begins, ends));
    WEFT_TRY(wefti_added_find(&p->plain, pieces));
    WEFT_TRY(normalize(p, pieces));
    WEFT_TRY(wefti_added_find(&p->normalized, pieces));
    for (int64_t k = p->n_normalizers; k < p->n_steps; k++)
        WEFT_TRY(wefti_step_run(&p->steps[k], pieces));
    return p->apart ? part_words(p, pieces) : WEFT_OK;
}

weft_status wefti_pipeline_normalize(const wefti_pipeline *p, wefti_pieces *pieces,
                                     const char *text, int64_t n) {
    wefti_pieces_allow(pieces, n, true);
    WEFT_TRY(start(pieces, text, n, true, true));
    return normalize(p, pieces);
}

/* -- cuts -- */

static bool is_safe(const wefti_pipeline *p, char before, char after) {
    bool word = (before >= 'a' && before <= 'z') || (before >= 'A' && before <= 'Z') ||
                (before >= '0' && before <= '9');
    if (after == ' ') return word;
    return word && p->cuts == WEFTI_CUTS_SPACE && after >= '\t' && after <= '\r';
}

int64_t wefti_pipeline_cut_after(const wefti_pipeline *p, const char *text, int64_t n,
                                 int64_t from) {
    if (p->cuts == WEFTI_CUTS_NONE) return -1;
    for (int64_t at = from > 1 ? from : 1; at < n; at++)
        if (is_safe(p, text[at - 1], text[at])) return at;
    return -1;
}

int64_t wefti_pipeline_cut_before(const wefti_pipeline *p, const char *text, int64_t n,
                                  int64_t from) {
    if (p->cuts == WEFTI_CUTS_NONE) return -1;
    for (int64_t at = from < n - 1 ? from : n - 1; at >= 1; at--)
        if (is_safe(p, text[at - 1], text[at])) return at;
    return -1;
}
