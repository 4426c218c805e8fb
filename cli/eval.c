/* SPDX-License-Identifier: MIT */
/* `weft eval`: loss, perplexity and bits per byte of a checkpoint on a text. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/inference.h>

#include "common.h"

enum { USUAL_LENGTH = 1024, USUAL_PAIR = 128 };

static const flag flags[] = {
    {"--data", "FILE",
     "text or token shard to evaluate on (default: the run's own validation text)", NULL},
    {"--tokens", "N",
     "at most this many tokens; 0 = all (default: as many as the run evaluated)", NULL},
    {"--length", "T",
     "tokens in one sequence (default: the run's data.length; with --data the model's "
     "context, at most 1024)",
     NULL},
    {"--prompts", NULL, "FILE is a .jsonl of prompts; only the answers count", NULL},
    {"--template", "NAME",
     "with --prompts: the format of conversations (chatml, llama3, ...)", NULL},
    {"--base", "FOLDER", "for an adapter: its base model, if not the one that it names",
     NULL},
    {"--json", NULL, "one JSON object instead of text", NULL},
    {NULL, NULL, NULL, NULL}};

/* Opens the chat template for prompts. A folder without a template is accepted as long as
 * no prompt consists of messages. */
static weft_status open_chat(weft_ctx *ctx, const weft_inference *inference,
                             const char *name, weft_chat **out) {
    bool written = strcmp(name, "text") == 0; /* whatever template the folder has */
    weft_status status = weft_inference_chat(ctx, inference, written ? name : "auto",
                                             out);
    if (status != WEFT_ERR_CONFIG) return status;
    weft_ctx_clear(ctx);
    return strcmp(name, "auto") == 0 ? WEFT_OK
                                     : weft_inference_chat(ctx, inference, name, out);
}

/* Opens the validation text of a run. The run's training data decides which text it has
 * not seen. */
static weft_status open_run_data(weft_ctx *ctx, const char *run,
                                 const weft_inference *inference, weft_dataset **dataset,
                                 int64_t *T, int64_t *max_tokens) {
    const weft_tokenizer *tokenizer = weft_inference_tokenizer(inference);
    const weft_model_config *model = weft_inference_model(inference);
    char path[4096];
    weft_config *config;
    struct stat info;
    snprintf(path, sizeof path, "%s/config.yaml", run);
    if (stat(path, &info) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s is not a run folder (no config.yaml); give --data FILE",
                             run);
    WEFT_TRY(weft_config_create(ctx, &config));
    weft_ctx_set_sink(ctx, NULL, NULL); /* the run printed its warnings when it was
                                           trained */
    weft_chat *chat = NULL;
    weft_status status = weft_config_load(ctx, config, path);
    if (status == WEFT_OK) status = weft_config_finish(ctx, config);
    bool prompts = status == WEFT_OK && strcmp(config->data.rows, "prompts") == 0;
    if (prompts) status = open_chat(ctx, inference, config->data.chat_template, &chat);
    if (status == WEFT_OK) {
        if (*T == 0) *T = config->data.length;
        if (*max_tokens < 0) *max_tokens = config->run.eval_tokens;
        weft_dataset_config wanted = {
            .struct_size = sizeof wanted,
            .paths = config->data.path.items,
            .n_paths = config->data.path.n,
            .weights = config->data.weights.n ? config->data.weights.items : NULL,
            .validation_paths = config->data.validation_path.items,
            .n_validation_paths = config->data.validation_path.n,
            .validation = config->data.validation,
            .rows = prompts ? WEFT_ROWS_PROMPTS : weft_inference_rows(inference),
            .chat = chat,
            .T = *T,
            .source_length = config->data.source_length ? config->data.source_length : *T,
            .vocab = model->vocab,
            .image = model->image,
            .channels = model->channels,
            .seed = (uint64_t)config->run.seed,
            .threads = 2,
            .field = config->data.field,
            .column = config->data.column,
        };
        status = weft_dataset_open(ctx, &wanted, tokenizer, dataset);
    }
    weft_chat_destroy(ctx, chat);
    weft_config_destroy(ctx, config);
    return status;
}

static weft_status open_data(weft_ctx *ctx, const args *a,
                             const weft_inference *inference, weft_dataset **dataset,
                             int64_t *T, int64_t *max_tokens) {
    const weft_tokenizer *tokenizer = weft_inference_tokenizer(inference);
    const char *file = args_value(a, "--data");
    if (!file)
        return open_run_data(ctx, a->operands[0], inference, dataset, T, max_tokens);
    if (strcmp(file, "-") == 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "--data is '-', but its text is read twice, expected a file");
    const weft_model_config *model = weft_inference_model(inference);
    weft_rows rows = weft_inference_rows(inference);
    int64_t usual = rows == WEFT_ROWS_PAIRS ? USUAL_PAIR : USUAL_LENGTH;
    if (*T == 0) *T = model->context < usual ? model->context : usual;
    weft_dataset_config wanted = {.struct_size = sizeof wanted,
                                  .paths = &file,
                                  .n_paths = 1,
                                  .validation_paths = &file,
                                  .n_validation_paths = 1,
                                  .rows = rows,
                                  .T = *T,
                                  .source_length = *T,
                                  .vocab = model->vocab,
                                  .image = model->image,
                                  .channels = model->channels,
                                  .threads = 2};
    if (!args_has(a, "--prompts"))
        return weft_dataset_open(ctx, &wanted, tokenizer, dataset);
    weft_chat *chat = NULL;
    const char *name = args_value(a, "--template");
    wanted.rows = WEFT_ROWS_PROMPTS;
    WEFT_TRY(name ? weft_inference_chat(ctx, inference, name, &chat)
                  : open_chat(ctx, inference, "auto", &chat));
    wanted.chat = chat;
    weft_status status = weft_dataset_open(ctx, &wanted, tokenizer, dataset);
    weft_chat_destroy(ctx, chat);
    return status;
}

/* Prints the loss of a text also per byte, and the share of correct classes, where these
 * exist. */
static void print_loss(bool json, double loss, int64_t n, double bytes_per_token,
                       double accuracy) {
    char more[80] = "";
    if (!isnan(bytes_per_token))
        snprintf(more, sizeof more,
                 json ? "\"bits_per_byte\": %.9g, " : "%.4f bits per byte, ",
                 loss / log(2) / bytes_per_token);
    if (!isnan(accuracy))
        snprintf(more, sizeof more, json ? "\"accuracy\": %.9g, " : "accuracy %.4f, ",
                 accuracy);
    printf(json ? "{\"loss\": %.9g, \"perplexity\": %.9g, %s\"tokens\": %lld}\n"
                : "loss %.4f nats per token, perplexity %.3f, %s%lld tokens\n",
           loss, exp(loss), more, (long long)n);
}

static weft_status evaluate(weft_ctx *ctx, const args *a, int64_t T, int64_t max_tokens) {
    weft_inference *inference;
    weft_dataset *dataset = NULL;
    int64_t n_tokens = 0;
    double loss = 0;
    WEFT_TRY(
        weft_inference_open_on(ctx, a->operands[0], args_value(a, "--base"), &inference));
    weft_status status = open_data(ctx, a, inference, &dataset, &T, &max_tokens);
    if (status == WEFT_OK)
        status = weft_inference_evaluate(ctx, inference, dataset, T, max_tokens, &loss,
                                         &n_tokens);
    if (status == WEFT_OK)
        print_loss(args_has(a, "--json"), loss, n_tokens,
                   weft_dataset_bytes_per_token(dataset),
                   weft_inference_accuracy(inference));
    weft_dataset_close(ctx, dataset);
    weft_inference_close(ctx, inference);
    return status;
}

static int run(weft_ctx *ctx, args *a) {
    long long max_tokens = -1; /* as many as the run evaluates */
    long long length = 0;
    int code = args_int(a, "--tokens", 0, 1000000000000ll, &max_tokens);
    if (code == CODE_OK) code = args_int(a, "--length", 1, 1 << 24, &length);
    if (code != CODE_OK) return code;
    return program_code(ctx, evaluate(ctx, a, length, max_tokens));
}

const command command_eval = {
    .name = "eval",
    .summary = "measure a trained model's loss on text",
    .usage = "RUN [--data FILE]",
    .help = "RUN is a run folder (its newest complete checkpoint is verified and used) "
            "or any folder in Hugging Face layout: config.json, model.safetensors or "
            "several files with their index, tokenizer.json. Prints the mean "
            "cross-entropy per token, its exponential, and bits per byte of text.",
    .flags = flags,
    .least = 1,
    .most = 1,
    .run = run,
};
