/* SPDX-License-Identifier: MIT */
/* Encoding of a text in which special tokens count. A tokenizer with a pipeline looks for them
 * with its other added tokens; for GPT-2's and Llama 3's kind the text is cut at them here,
 * at each place at the longest, and what lies between is encoded as ever. */
#include <string.h>

#include "base/memory.h"
#include "token/encode.h"
#include "token/vocab.h"

/* Ids that grow at the end. */
typedef struct id_list {
    int32_t *ids; /* owned */
    int64_t n, room;
} id_list;

static weft_status append(weft_ctx *ctx, id_list *list, const int32_t *ids, int64_t n) {
    WEFT_TRY(wefti_reserve(ctx, &list->ids, &list->room, list->n, n, sizeof *ids,
                           "token ids"));
    if (n > 0) memcpy(list->ids + list->n, ids, (size_t)n * sizeof *ids);
    list->n += n;
    return WEFT_OK;
}

static weft_status collect(weft_ctx *ctx, const weft_tokenizer *t, wefti_added_set *set) {
    for (int64_t id = 0; id < t->vocab; id++) {
        const wefti_token *token = &t->tokens[id];
        wefti_added mark = {.id = (int32_t)id};
        if (!(token->flags & WEFTI_TOKEN_SPECIAL)) continue;
        WEFT_TRY(
            wefti_added_put(ctx, set, &mark, t->text + token->offset, token->n_bytes));
    }
    wefti_added_sort(set);
    return WEFT_OK;
}

static weft_status append_text(weft_ctx *ctx, const weft_tokenizer *t, const char *text,
                               int64_t n, id_list *out) {
    int32_t *ids;
    int64_t n_ids;
    if (n == 0) return WEFT_OK;
    WEFT_TRY(weft_tokenizer_encode(ctx, t, text, n, 1, &ids, &n_ids));
    weft_status status = append(ctx, out, ids, n_ids);
    wefti_free(ctx, ids);
    return status;
}

static weft_status cut(weft_ctx *ctx, const weft_tokenizer *t, const wefti_added_set *set,
                       const char *text, int64_t n, id_list *out) {
    int64_t done = 0;
    for (int64_t at = 0; at < n;) {
        const wefti_added *mark = wefti_added_match(set, text + at, n - at);
        if (!mark) {
            at++;
            continue;
        }
        WEFT_TRY(append_text(ctx, t, text + done, at - done, out));
        WEFT_TRY(append(ctx, out, &mark->id, 1));
        done = at += mark->n_text;
    }
    return append_text(ctx, t, text + done, n - done, out);
}

weft_status wefti_encode_marked(weft_ctx *ctx, const weft_tokenizer *t, const char *text,
                                int64_t n_bytes, int32_t **ids, int64_t *n_ids) {
    wefti_added_set set = {0};
    id_list out = {.n = 0};
    *ids = NULL;
    *n_ids = 0;
    if (t->pipeline) {
        wefti_texts texts = {
            .text = text, .n_bytes = n_bytes, .end_id = -1, .marks = true};
        return wefti_encode_texts(ctx, t, &texts, 1, INT64_MAX, ids, n_ids);
    }
    weft_status status = collect(ctx, t, &set);
    if (status == WEFT_OK) status = cut(ctx, t, &set, text, n_bytes, &out);
    wefti_added_fini(ctx, &set);
    if (status != WEFT_OK) {
        wefti_free(ctx, out.ids);
        return status;
    }
    *ids = out.ids;
    *n_ids = out.n;
    return WEFT_OK;
}
