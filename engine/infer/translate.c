/* SPDX-License-Identifier: MIT */
/* Greedy decoding with an encoder and decoder, a batch of texts at a time:
 *
 *     encoder rows, and target position 0     one pass
 *     target position t = 1, 2, ...           a pass over this position of each text
 *
 * The decoder's keys and values, and those of the encoder's rows, are kept (model/past.h);
 * the likeliest id at a position is the token of the next one. */
#include <string.h>

#include "base/buffer.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/sized.h"
#include "data/bleu.h"
#include "infer/inference.h"

enum { BATCH = 32 };

typedef struct decoding {
    weft_inference *inf;
    int64_t B, Ts, Td;
    int32_t *sources; /* [B,Ts] */
    int32_t *ids;     /* [B,Td] chosen so far */
    int32_t *tokens;  /* [B,Ts + 1] of the first pass, [B] of the others */
    int64_t *lengths; /* [B] of ids; below t + 1: the text has ended */
    float *logits;    /* [B,V] */
} decoding;

static int32_t start_id(const decoding *d) {
    return (int32_t)d->inf->model->config.vocab - 2;
}

static int32_t end_id(const decoding *d) { return start_id(d) + 1; }

static void destroy(weft_ctx *ctx, decoding *d) {
    WEFTI_FREE(ctx, d->sources, d->ids, d->tokens, d->lengths, d->logits);
}

static weft_status allocate(weft_ctx *ctx, decoding *d) {
    int64_t V = d->inf->model->config.vocab, T = d->Ts + 1, B = d->B;
    WEFT_TRY(wefti_alloc_n(ctx, B * d->Ts, sizeof(int32_t), "tokens", &d->sources));
    WEFT_TRY(wefti_alloc_n(ctx, B * d->Td, sizeof(int32_t), "tokens", &d->ids));
    WEFT_TRY(wefti_alloc_n(ctx, B * T, sizeof(int32_t), "tokens", &d->tokens));
    WEFT_TRY(wefti_alloc_n(ctx, B, sizeof(int64_t), "lengths", &d->lengths));
    WEFT_TRY(wefti_alloc_n(ctx, B * V, sizeof(float), "logits", &d->logits));
    wefti_inference_set_source(ctx, d->inf, d->Ts);
    WEFT_TRY(wefti_inference_keep(ctx, d->inf, B, d->Td));
    return wefti_inference_reserve(ctx, d->inf, B, T);
}

/* A source is encoded as in training: cut to length, end id, padding. */
static weft_status encode_source(weft_ctx *ctx, const decoding *d, const char *text,
                                 int32_t *out) {
    int32_t *ids;
    int64_t n, i = 0;
    WEFT_TRY(weft_tokenizer_encode(ctx, d->inf->tokenizer, text, (int64_t)strlen(text), 1,
                                   &ids, &n));
    for (; i < n && i < d->Ts - 1; i++) out[i] = ids[i];
    out[i++] = end_id(d);
    for (; i < d->Ts; i++) out[i] = -1;
    wefti_free(ctx, ids);
    return WEFT_OK;
}

/* The units from `first` to `end`, of T positions of each text; decoders keep. */
static void run_units(const decoding *d, int first, int end, int64_t T) {
    for (int u = first; u < end; u++) {
        wefti_pass pass = wefti_inference_pass(d->inf, u, d->B, T);
        wefti_past past = wefti_inference_past(d->inf, u);
        pass.past = u >= d->inf->first_kept ? &past : NULL;
        pass.tokens = d->tokens;
        d->inf->model->ops->forward(d->inf->model, u, &pass);
    }
}

/* The rest of a pass of T positions whose first `done` units ran: logits [B,V]. */
static void finish(const decoding *d, int done, int64_t T) {
    weft_model *model = d->inf->model;
    int head = model->n_units - 1;
    run_units(d, done, head, T);
    wefti_pass pass = wefti_inference_pass(d->inf, head, d->B, T);
    wefti_model_logits(model, &pass, d->logits);
    for (int64_t b = 0; b < d->B; b++) d->inf->past.n[b]++;
}

/* Both stacks, for the id at target position 0. */
static void begin(const decoding *d) {
    for (int64_t b = 0; b < d->B; b++) {
        int32_t *row = d->tokens + b * (d->Ts + 1);
        memcpy(row, d->sources + b * d->Ts, (size_t)d->Ts * sizeof *row);
        row[d->Ts] = start_id(d);
        d->inf->past.n[b] = 0;
    }
    finish(d, 0, d->Ts + 1);
}

/* The decoder, for the id at target position t > 0. */
static void proceed(const decoding *d, int64_t t) {
    int first = d->inf->first_kept;
    for (int64_t b = 0; b < d->B; b++) {
        bool on = t - 1 < d->lengths[b];
        d->tokens[b] = on ? d->ids[b * d->Td + t - 1] : start_id(d);
    }
    run_units(d, 0, 1, 1);
    if (first % 2 == 0) /* the decoder's first block reads the other buffer */
        memcpy(d->inf->x[1], d->inf->x[0],
               (size_t)(d->B * d->inf->model->config.width) * sizeof(float));
    finish(d, first, 1);
}

/* The likeliest id except the padding id; of equal ones the first. */
static int32_t likeliest(const decoding *d, int64_t b) {
    int64_t V = d->inf->model->config.vocab, best = end_id(d);
    const float *row = d->logits + b * V;
    for (int64_t v = 0; v < V; v++)
        if (v != start_id(d) && (row[v] > row[best] || (row[v] == row[best] && v < best)))
            best = v;
    return (int32_t)best;
}

/* Takes the ids at position t; returns whether any text continues. */
static bool choose(const decoding *d, int64_t t) {
    bool on = false;
    for (int64_t b = 0; b < d->B; b++) {
        if (d->lengths[b] < t) continue;
        int32_t id = likeliest(d, b);
        if (id == end_id(d)) continue;
        d->ids[b * d->Td + t] = id;
        d->lengths[b] = t + 1;
        on = true;
    }
    return on;
}

static weft_status tell(weft_ctx *ctx, const decoding *d, int64_t first, int64_t n,
                        weft_translation_sink sink, void *user, bool *on) {
    weft_status status = WEFT_OK;
    for (int64_t b = 0; b < n && *on && status == WEFT_OK; b++) {
        wefti_buffer text = {0};
        wefti_buffer_text(ctx, &text, "");
        for (int64_t i = 0; i < d->lengths[b]; i++) {
            int64_t n_bytes;
            const char *bytes = weft_tokenizer_bytes(d->inf->tokenizer,
                                                     d->ids[b * d->Td + i], &n_bytes);
            if (bytes) wefti_buffer_put(ctx, &text, bytes, n_bytes);
        }
        status = text.status;
        if (status == WEFT_OK) *on = sink(user, first + b, text.bytes);
        wefti_buffer_fini(ctx, &text);
    }
    return status;
}

/* The rows after the last text repeat it. */
static weft_status translate_batch(weft_ctx *ctx, decoding *d, const char *const *sources,
                                   int64_t n) {
    for (int64_t b = 0; b < d->B; b++) {
        d->lengths[b] = 0;
        WEFT_TRY(
            encode_source(ctx, d, sources[b < n ? b : n - 1], d->sources + b * d->Ts));
    }
    begin(d);
    for (int64_t t = 0; choose(d, t) && t + 1 < d->Td; t++) proceed(d, t + 1);
    return WEFT_OK;
}

static weft_status translate(weft_ctx *ctx, decoding *d, const char *const *sources,
                             int64_t n, weft_translation_sink sink, void *user) {
    bool on = true;
    for (int64_t first = 0; first < n && on; first += d->B) {
        int64_t here = n - first < d->B ? n - first : d->B;
        WEFT_TRY(translate_batch(ctx, d, sources + first, here));
        WEFT_TRY(tell(ctx, d, first, here, sink, user, &on));
    }
    return WEFT_OK;
}

weft_status weft_inference_translate(weft_ctx *ctx, weft_inference *inf,
                                     const char *const *sources, int64_t n,
                                     const weft_translate_options *options,
                                     weft_translation_sink sink, void *user) {
    enum { MOST = 1 << 16 };
    WEFTI_SIZED_IN(ctx, weft_translate_options, options);
    decoding d = {.inf = inf,
                  .B = n < BATCH ? n : BATCH,
                  .Ts = options->source_length,
                  .Td = options->target_length};
    if (weft_inference_rows(inf) != WEFT_ROWS_PAIRS)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the model is a %s, which does not translate texts",
                             inf->model->config.kind);
    if (d.Ts < 1 || d.Td < 1 || d.Ts > MOST || d.Td > MOST)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "sources of %lld and targets of %lld tokens, expected 1 to %d",
            (long long)d.Ts, (long long)d.Td, MOST);
    if (n < 1) return WEFT_OK;
    wefti_kernels_set_threads(wefti_machine_cores());
    weft_status status = allocate(ctx, &d);
    if (status == WEFT_OK) status = translate(ctx, &d, sources, n, sink, user);
    destroy(ctx, &d);
    return status;
}

weft_status weft_bleu(weft_ctx *ctx, const char *const *translations,
                      const char *const *references, int64_t n, double *score) {
    wefti_bleu bleu = {0};
    for (int64_t i = 0; i < n; i++)
        WEFT_TRY(wefti_bleu_add(ctx, &bleu, translations[i], references[i]));
    *score = wefti_bleu_score(&bleu);
    return WEFT_OK;
}
