/* SPDX-License-Identifier: MIT */
/* Greedy decoding with an encoder and decoder, a batch of texts at a time:
 *
 *     encoder rows once                         kept in `encoded`
 *     target position t = 0, 1, ...             decoder over positions 0..t, the likeliest id
 *
 * The decoder runs over its whole past in each step: Td^2 / 2 positions for each text,
 * which is little for texts as long as sentences. */
#include <string.h>

#include "base/buffer.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/sized.h"
#include "data/bleu.h"
#include "train/inference.h"

enum { BATCH = 32 };

typedef struct decoding {
    weft_inference *inf;
    int64_t B, Ts, Td;
    int32_t *sources; /* [B,Ts] */
    int32_t *ids;     /* [B,Td] chosen so far */
    int32_t *tokens;  /* [B,Ts + Td] of one step */
    int64_t *lengths; /* [B] of ids; below t + 1: the text has ended */
    float *encoded;   /* [B Ts,C] */
    float *logits;    /* [B,V] */
} decoding;

static int32_t start_id(const decoding *d) {
    return (int32_t)d->inf->model->config.vocab - 2;
}

static int32_t end_id(const decoding *d) { return start_id(d) + 1; }

static void destroy(weft_ctx *ctx, decoding *d) {
    WEFTI_FREE(ctx, d->sources, d->ids, d->tokens, d->lengths, d->encoded, d->logits);
}

static weft_status allocate(weft_ctx *ctx, decoding *d) {
    int64_t C = d->inf->model->config.width, V = d->inf->model->config.vocab;
    int64_t T = d->Ts + d->Td, B = d->B;
    WEFT_TRY(wefti_alloc_n(ctx, B * d->Ts, sizeof(int32_t), "tokens", &d->sources));
    WEFT_TRY(wefti_alloc_n(ctx, B * d->Td, sizeof(int32_t), "tokens", &d->ids));
    WEFT_TRY(wefti_alloc_n(ctx, B * T, sizeof(int32_t), "tokens", &d->tokens));
    WEFT_TRY(wefti_alloc_n(ctx, B, sizeof(int64_t), "lengths", &d->lengths));
    WEFT_TRY(wefti_alloc_n(ctx, B * d->Ts * C, sizeof(float), "encodings", &d->encoded));
    WEFT_TRY(wefti_alloc_n(ctx, B * V, sizeof(float), "logits", &d->logits));
    wefti_inference_set_source(ctx, d->inf, d->Ts);
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

/* Fills the rows of the step that chooses the id at target position t. */
static void fill_tokens(const decoding *d, int64_t t) {
    int64_t T = d->Ts + t + 1;
    for (int64_t b = 0; b < d->B; b++) {
        int32_t *row = d->tokens + b * T;
        memcpy(row, d->sources + b * d->Ts, (size_t)d->Ts * sizeof *row);
        row[d->Ts] = start_id(d);
        for (int64_t i = 0; i < t; i++)
            row[d->Ts + 1 + i] = i < d->lengths[b] ? d->ids[b * d->Td + i] : start_id(d);
    }
}

static void run_units(const decoding *d, int first, int end, int64_t T) {
    for (int u = first; u < end; u++) {
        wefti_pass pass = wefti_inference_pass(d->inf, u, d->B, T);
        pass.tokens = d->tokens;
        d->inf->model->ops->forward(d->inf->model, u, &pass);
    }
}

static void encode(const decoding *d) {
    const weft_model_config *c = &d->inf->model->config;
    int last = (int)c->layers;
    fill_tokens(d, 0);
    run_units(d, 0, last + 1, d->Ts + 1);
    memcpy(d->encoded, d->inf->x[last % 2],
           (size_t)(d->B * d->Ts * c->width) * sizeof(float));
}

/* Logits [B,V] after target position t. */
static void decode(const decoding *d, int64_t t) {
    weft_model *model = d->inf->model;
    int64_t C = model->config.width, Ns = d->B * d->Ts, rows = d->B * (t + 1);
    int last = (int)model->config.layers, head = model->n_units - 1;
    size_t row = (size_t)C * sizeof(float);
    fill_tokens(d, t);
    run_units(d, 0, 1, d->Ts + t + 1);
    float *x = d->inf->x[last % 2]; /* what the first decoder's block reads */
    if (x != d->inf->x[0]) memcpy(x + Ns * C, d->inf->x[0] + Ns * C, (size_t)rows * row);
    memcpy(x, d->encoded, (size_t)Ns * row);
    run_units(d, last + 1, head, d->Ts + t + 1);
    x = d->inf->x[(head + 1) % 2];
    for (int64_t b = 0; b < d->B; b++) /* each text's last row, side by side */
        memmove(x + (Ns + b) * C, x + (Ns + b * (t + 1) + t) * C, row);
    wefti_pass pass = wefti_inference_pass(d->inf, head, d->B, d->Ts + 1);
    wefti_model_logits(model, &pass, d->logits);
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
    encode(d);
    for (int64_t t = 0; t < d->Td; t++) {
        decode(d, t);
        if (!choose(d, t)) break;
    }
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
