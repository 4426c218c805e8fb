/* SPDX-License-Identifier: MIT */
/* Prompts and what is wanted as an answer, one example in each line of a .jsonl:
 *
 *     {"prompt": ".. ", "completion": ".."}      the completion counts, and the end token, unless
 *                                                they are the texts of a template already
 *     {"messages": [{"role", "content"}, ..]}    what an assistant says counts
 *     {"prompt": [..], "completion": [..]}       messages of which only the latter count
 *
 * A token counts in the loss if it lies behind the tokens that the text up to the answer
 * would have alone, as far as both agree: where a tokenizer joins letters across the border,
 * the joined token counts.
 *
 * Messages become one text in a chat format, which knows where each of them stands. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "text/json.h"
#include "base/memory.h"
#include "input/documents.h"
#include "data/examples.h"
#include "input/input.h"
#include "chat/format.h"
#include "token/encode.h"

/* Where the reading stands. */
typedef struct reader {
    wefti_examples *e;
    const weft_tokenizer *tokenizer;
    const weft_chat *chat;
    const char *path; /* of sentences */
    int64_t line;
    wefti_rendered text; /* of the example at hand */
} reader;

/* The ids of one example, and which of them count as targets. */
typedef struct example {
    int32_t *ids; /* owned */
    int64_t n;
    unsigned char *counts; /* [n], owned */
} example;

static void example_fini(weft_ctx *ctx, example *x) {
    WEFTI_FREE(ctx, x->ids, x->counts);
}

/* ---- one example ---- */

/* Encodes a text, in which special tokens count if a template wrote it. */
static weft_status encode(weft_ctx *ctx, const reader *r, const char *text, int64_t n,
                          bool marked, int32_t **ids, int64_t *n_ids) {
    if (marked) return wefti_encode_marked(ctx, r->tokenizer, text, n, ids, n_ids);
    return weft_tokenizer_encode(ctx, r->tokenizer, text, n, 1, ids, n_ids);
}

/* How many ids of the example are those of the first n bytes of its text. */
static weft_status ids_before(weft_ctx *ctx, const reader *r, const example *x, int64_t n,
                              bool marked, int64_t *out) {
    int32_t *ids;
    int64_t n_ids;
    *out = 0;
    if (n >= r->text.text.n) {
        *out = x->n;
        return WEFT_OK;
    }
    WEFT_TRY(encode(ctx, r, r->text.text.bytes, n, marked, &ids, &n_ids));
    while (*out < n_ids && *out < x->n && ids[*out] == x->ids[*out]) ++*out;
    wefti_free(ctx, ids);
    return WEFT_OK;
}

/* What lies in bytes [from, to) of the text counts. */
static weft_status count_span(weft_ctx *ctx, const reader *r, example *x, int64_t from,
                              int64_t to, bool marked) {
    int64_t first, last;
    WEFT_TRY(ids_before(ctx, r, x, from, marked, &first));
    WEFT_TRY(ids_before(ctx, r, x, to, marked, &last));
    for (int64_t i = first; i < last; i++) x->counts[i] = 1;
    return WEFT_OK;
}

/* Encodes r->text; room for one more id stays. */
static weft_status begin_example(weft_ctx *ctx, const reader *r, bool marked,
                                 example *x) {
    int32_t *ids;
    const wefti_buffer *text = &r->text.text;
    WEFT_TRY(encode(ctx, r, text->bytes, text->n, marked, &ids, &x->n));
    weft_status status = wefti_alloc_n(ctx, x->n + 1, sizeof *x->ids, "a prompt",
                                       &x->ids);
    if (status == WEFT_OK)
        status = wefti_alloc_n(ctx, x->n + 1, 1, "a prompt", &x->counts);
    if (status == WEFT_OK && x->n > 0) memcpy(x->ids, ids, (size_t)x->n * sizeof *ids);
    wefti_free(ctx, ids);
    return status;
}

/* Puts an example behind the others, unless nothing of it would count: a prompt that fills
 * the row alone. */
static weft_status keep(weft_ctx *ctx, reader *r, const example *x) {
    wefti_examples *e = r->e;
    int64_t most = e->n_targets + 1, n = x->n < most ? x->n : most, counted = 0;
    int64_t there = e->at ? e->n_texts + 1 : 0; /* where each begins, and the last ends */
    for (int64_t i = 1; i < n; i++) counted += x->counts[i];
    e->n_left_out += counted == 0;
    e->n_cut += counted > 0 && n < x->n;
    if (counted == 0) return WEFT_OK;
    WEFT_TRY(wefti_reserve(ctx, &e->at, &e->at_room, there, e->n_texts + 2 - there,
                           sizeof *e->at, "prompts"));
    WEFT_TRY(wefti_reserve(ctx, &e->ids, &e->ids_room, e->n_ids, n, sizeof *e->ids,
                           "the tokens of prompts"));
    WEFT_TRY(wefti_reserve(ctx, &e->counts, &e->counts_room, e->n_ids, n, 1,
                           "the tokens of prompts"));
    memcpy(e->ids + e->n_ids, x->ids, (size_t)n * sizeof *x->ids);
    memcpy(e->counts + e->n_ids, x->counts, (size_t)n);
    e->n_ids += n;
    e->n_counted += counted;
    e->at[++e->n_texts] = e->n_ids;
    e->n++;
    return WEFT_OK;
}

/* ---- texts ---- */

/* What ends an answer where no template says it: the end token, or a newline. */
static weft_status add_end(weft_ctx *ctx, const reader *r, example *x) {
    int32_t end = weft_tokenizer_end(r->tokenizer), *ids = NULL;
    int64_t n = 0;
    if (end < 0) {
        WEFT_TRY(weft_tokenizer_encode(ctx, r->tokenizer, "\n", 1, 1, &ids, &n));
        end = n > 0 ? ids[n - 1] : 0;
        wefti_free(ctx, ids);
    }
    x->ids[x->n] = end;
    x->counts[x->n++] = 1;
    return WEFT_OK;
}

static weft_status add_texts(weft_ctx *ctx, reader *r, const json_t *prompt,
                             const json_t *completion) {
    wefti_buffer *text = &r->text.text;
    example x = {.n = 0};
    bool written = r->chat && wefti_chat_is_written(r->chat);
    text->n = 0;
    wefti_buffer_text(ctx, text, json_string_value(prompt));
    int64_t n = text->n;
    wefti_buffer_text(ctx, text, json_string_value(completion));
    weft_status status = text->status;
    if (status == WEFT_OK) status = begin_example(ctx, r, written, &x);
    if (status == WEFT_OK) status = count_span(ctx, r, &x, n, text->n, written);
    if (status == WEFT_OK && !written) status = add_end(ctx, r, &x);
    if (status == WEFT_OK) status = keep(ctx, r, &x);
    example_fini(ctx, &x);
    return status;
}

/* ---- messages ---- */

static weft_status render(weft_ctx *ctx, reader *r, const json_t *messages) {
    weft_status status = wefti_chat_render(ctx, r->chat, messages, false, &r->text);
    if (status == WEFT_OK) return WEFT_OK;
    char reason[400];
    snprintf(reason, sizeof reason, "%s", weft_ctx_message(ctx));
    weft_ctx_clear(ctx);
    return weft_ctx_fail(ctx, status, "line %lld of %s: %s", (long long)r->line, r->path,
                         reason);
}

static bool is_answer(const json_t *message) {
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

/* Answers count from message `first` on. */
static weft_status add_messages(weft_ctx *ctx, reader *r, const json_t *messages,
                                size_t first) {
    example x = {.n = 0};
    const int64_t *spans;
    if (!r->chat)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "line %lld of %s has messages, which need a chat template",
                             (long long)r->line, r->path);
    WEFT_TRY(render(ctx, r, messages));
    spans = r->text.spans;
    weft_status status = begin_example(ctx, r, true, &x);
    for (size_t i = first; status == WEFT_OK && i < json_array_size(messages); i++)
        if (is_answer(json_array_get(messages, i)))
            status = count_span(ctx, r, &x, spans[2 * i], spans[2 * i + 1], true);
    if (status == WEFT_OK) status = keep(ctx, r, &x);
    example_fini(ctx, &x);
    return status;
}

static weft_status add_both(weft_ctx *ctx, reader *r, json_t *prompt,
                            json_t *completion) {
    json_t *all = json_copy(prompt);
    size_t n = json_array_size(prompt);
    weft_status status = all && json_array_extend(all, completion) == 0
                             ? add_messages(ctx, r, all, n)
                             : weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                                             "no memory for prompts");
    json_decref(all);
    return status;
}

/* ---- files ---- */

static weft_status add_object(weft_ctx *ctx, reader *r, const json_t *root) {
    json_t *messages = json_object_get(root, "messages");
    json_t *prompt = json_object_get(root, "prompt");
    json_t *completion = json_object_get(root, "completion");
    if (!messages) messages = json_object_get(root, "conversations");
    if (json_array_size(json_object_get(root, "tools")) > 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "line %lld of %s has \"tools\", which no chat template of "
                             "weft writes: make texts of the messages (docs/using.md)",
                             (long long)r->line, r->path);
    if (json_is_array(messages)) return add_messages(ctx, r, messages, 0);
    if (json_is_string(prompt) && json_is_string(completion))
        return add_texts(ctx, r, prompt, completion);
    if (json_is_array(prompt) && json_is_array(completion))
        return add_both(ctx, r, prompt, completion);
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "line %lld of %s has neither \"messages\" nor \"prompt\" and "
                         "\"completion\", both texts or both lists",
                         (long long)r->line, r->path);
}

static weft_status add_line(weft_ctx *ctx, reader *r, wefti_excerpt line) {
    char where[64];
    json_t *root;
    snprintf(where, sizeof where, ", line %lld", (long long)r->line);
    WEFT_TRY(
        wefti_json_read(ctx, r->path, where, line.bytes, line.n, WEFT_ERR_FORMAT, &root));
    weft_status status = add_object(ctx, r, root);
    json_decref(root);
    return status;
}

static weft_status read_file(weft_ctx *ctx, reader *r) {
    char *bytes;
    wefti_excerpt rest = {NULL, 0}, line;
    if (!wefti_text_is_named(r->path, ".jsonl") &&
        !wefti_text_is_named(r->path, ".ndjson"))
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "%s is not named *.jsonl, which is where prompts are read from", r->path);
    WEFT_TRY(wefti_input_read_all(ctx, r->path, &bytes, &rest.n));
    rest.bytes = bytes;
    weft_status status = WEFT_OK;
    for (r->line = 1; status == WEFT_OK && wefti_next_line(&rest, &line); r->line++)
        if (line.n > 0) status = add_line(ctx, r, line);
    wefti_free(ctx, bytes);
    return status;
}

weft_status wefti_prompts_read(weft_ctx *ctx, const char *const *paths, int n,
                               const weft_tokenizer *tokenizer, const weft_chat *chat,
                               wefti_examples *examples) {
    reader r = {.e = examples, .tokenizer = tokenizer, .chat = chat};
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        r.path = paths[i];
        status = read_file(ctx, &r);
    }
    wefti_rendered_fini(ctx, &r.text);
    WEFT_TRY(status);
    if (examples->n > 0 || examples->n_left_out == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "data.length is %lld, but all %lld examples have longer "
                         "prompts, so that nothing of their answers is left",
                         (long long)examples->n_targets, (long long)examples->n_left_out);
}
