/* SPDX-License-Identifier: MIT */
#ifndef WEFT_INFERENCE_H
#define WEFT_INFERENCE_H

#include <weft/chat.h>
#include <weft/ctx.h>
#include <weft/dataset.h>
#include <weft/model.h>
#include <weft/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A trained model, ready to be used: parameters in memory, one process, no gradients. */
typedef struct weft_inference weft_inference;

/** Opens a run folder (its newest complete checkpoint, every byte verified) or any folder
 * with model.safetensors and config.json under Hugging Face names, and tokenizer.json
 * (without it the vocabulary must be the 256 bytes). [out] *out owned by the caller.
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_inference_open(weft_ctx *ctx, const char *path,
                                         weft_inference **out) WEFT_CHECKED;
/** The same for an adapter in PEFT's format, on the model in folder `base` instead of the
 * model that the adapter names (NULL: that one). The merged model is then in memory.
 * Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_inference_open_on(weft_ctx *ctx, const char *path,
                                            const char *base,
                                            weft_inference **out) WEFT_CHECKED;
WEFT_API void weft_inference_close(weft_ctx *ctx, weft_inference *inference);

/** Borrowed until close. */
WEFT_API const weft_model_config *weft_inference_model(const weft_inference *inference);
WEFT_API const weft_tokenizer *weft_inference_tokenizer(const weft_inference *inference);
/** Writes model.safetensors, config.json and tokenizer.json into a folder, which is created
 * if needed. A folder that already holds a model is rejected. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_inference_save(weft_ctx *ctx, const weft_inference *inference,
                                         const char *folder) WEFT_CHECKED;
/** "auto", the chat template of the folder that the model was read from, or a format by its
 * name (weft/chat.h). [out] *out owned by the caller. Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_inference_chat(weft_ctx *ctx, const weft_inference *inference,
                                         const char *name, weft_chat **out) WEFT_CHECKED;
/** What kind of rows the model takes. */
WEFT_API weft_rows weft_inference_rows(const weft_inference *inference);

/** How much is drawn, and how; zeroed: greedy, nothing. */
typedef struct weft_sample_options {
    size_t struct_size;
    int64_t n_tokens;
    double temperature; /* 0 = always the most likely token */
    int64_t top_k;      /* 0 = all tokens */
    uint64_t seed;
    bool marks;       /* special tokens in the prompt are recognized, because a chat
                         template wrote it */
    const char *stop; /* text whose first token ends the sample, as the tokenizer's end
                         token does (weft_chat_answer_end); NULL: none */
} weft_sample_options;

/** Receives the bytes of each sampled token; returns false to stop. */
typedef bool (*weft_sample_sink)(void *user, const char *bytes, int64_t n_bytes);

/** Continues a prompt (at least one token), token by token: a pure function of prompt,
 * options and parameters. The model sees only the last `context` tokens. Keys and values are
 * kept: 8 bytes for each layer, each of its key heads' columns and each token, up to
 * `context`. A token costs a pass over one position; if the text is longer than the context,
 * over `context` positions, for each token then has another position than before.
 * Errors: FORMAT. */
WEFT_API weft_status weft_inference_sample(weft_ctx *ctx, weft_inference *inference,
                                           const char *prompt, int64_t n_bytes,
                                           const weft_sample_options *options,
                                           weft_sample_sink sink,
                                           void *user) WEFT_CHECKED;

/** Mean loss in nats per token over the first max_tokens (0 = all) validation tokens of a
 * dataset of the model's rows, whose T is at most the model's context. Errors: FILE, FORMAT. */
WEFT_API weft_status weft_inference_evaluate(weft_ctx *ctx, weft_inference *inference,
                                             const weft_dataset *dataset, int64_t T,
                                             int64_t max_tokens, double *loss,
                                             int64_t *n_tokens) WEFT_CHECKED;
/** Translates n texts (UTF-8, each ends in NUL) with a model of pairs. Always takes the most
 * likely token, until the end token or `target_length` tokens. At most `source_length`
 * tokens of a source are used, its end token included. sink gets the translations in order,
 * and returns false to stop. Errors: FORMAT. */
typedef struct weft_translate_options {
    size_t struct_size;
    int64_t source_length, target_length;
} weft_translate_options;
typedef bool (*weft_translation_sink)(void *user, int64_t i, const char *text);
WEFT_API weft_status weft_inference_translate(weft_ctx *ctx, weft_inference *inference,
                                              const char *const *sources, int64_t n,
                                              const weft_translate_options *options,
                                              weft_translation_sink sink,
                                              void *user) WEFT_CHECKED;

/** BLEU of n translations, 0 to 100, each with one reference: as sacrebleu counts it by
 * default (tokenization 13a, exponential smoothing). */
WEFT_API weft_status weft_bleu(weft_ctx *ctx, const char *const *translations,
                               const char *const *references, int64_t n,
                               double *score) WEFT_CHECKED;

/** For images: the share of correct classes in the last evaluation; else NAN. */
WEFT_API double weft_inference_accuracy(const weft_inference *inference);

#ifdef __cplusplus
}
#endif
#endif
