/* SPDX-License-Identifier: MIT */
/* `weft eval`: loss, perplexity and bits per byte of a checkpoint on a text. */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include <weft/inference.h>

#include "common.h"

enum { USUAL_LENGTH = 1024 };

static const flag flags[] = {
    {"--data", "FILE",
     "text or token shard to evaluate on; otherwise the run's own validation text", NULL},
    {"--tokens", "N",
     "at most this many tokens; 0 = all (default: as many as the run evaluated)", NULL},
    {"--length", "T",
     "tokens in one sequence (default: the run's data.length; with --data the model's "
     "context, at most 1024)",
     NULL},
    {"--json", NULL, "one JSON object instead of text", NULL},
    {NULL, NULL, NULL, NULL}};

extern const command command_eval;

/* What a run was trained on says which text it did not see. */
static weft_status open_run_data(weft_ctx *ctx, const char *run,
                                 const weft_tokenizer *tokenizer, weft_dataset **dataset,
                                 int64_t *T, int64_t *max_tokens) {
    char path[4096];
    weft_config *config;
    struct stat info;
    snprintf(path, sizeof path, "%s/config.yaml", run);
    if (stat(path, &info) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s is not a run folder (no config.yaml); give --data FILE",
                             run);
    WEFT_TRY(weft_config_create(ctx, &config));
    weft_ctx_set_sink(ctx, NULL, NULL); /* warnings were given when it was trained */
    weft_status status = weft_config_load(ctx, config, path);
    if (status == WEFT_OK) status = weft_config_finish(ctx, config);
    if (status == WEFT_OK) {
        if (*T == 0) *T = config->data.length;
        if (*max_tokens < 0) *max_tokens = config->run.eval_tokens;
        weft_dataset_config wanted = {
            .paths = config->data.path.items,
            .n_paths = config->data.path.n,
            .weights = config->data.weights.n ? config->data.weights.items : NULL,
            .validation_paths = config->data.validation_path.items,
            .n_validation_paths = config->data.validation_path.n,
            .validation = config->data.validation,
            .T = *T,
            .seed = (uint64_t)config->run.seed,
            .threads = 2,
            .field = config->data.field,
            .column = config->data.column,
        };
        status = weft_dataset_open(ctx, &wanted, tokenizer, dataset);
    }
    weft_config_destroy(ctx, config);
    return status;
}

static weft_status open_data(weft_ctx *ctx, const args *a,
                             const weft_inference *inference, weft_dataset **dataset,
                             int64_t *T, int64_t *max_tokens) {
    const weft_tokenizer *tokenizer = weft_inference_tokenizer(inference);
    const char *file = args_value(a, "--data");
    if (!file)
        return open_run_data(ctx, a->operands[0], tokenizer, dataset, T, max_tokens);
    int64_t context = weft_inference_model(inference)->context;
    if (*T == 0) *T = context < USUAL_LENGTH ? context : USUAL_LENGTH;
    weft_dataset_config wanted = {.paths = &file,
                                  .n_paths = 1,
                                  .validation_paths = &file,
                                  .n_validation_paths = 1,
                                  .T = *T,
                                  .threads = 2};
    return weft_dataset_open(ctx, &wanted, tokenizer, dataset);
}

static weft_status evaluate(weft_ctx *ctx, const args *a, int64_t T, int64_t max_tokens) {
    weft_inference *inference;
    weft_dataset *dataset = NULL;
    int64_t n_tokens = 0;
    double loss = 0;
    WEFT_TRY(weft_inference_open(ctx, a->operands[0], &inference));
    weft_status status = open_data(ctx, a, inference, &dataset, &T, &max_tokens);
    if (status == WEFT_OK)
        status = weft_inference_evaluate(ctx, inference, dataset, T, max_tokens, &loss,
                                         &n_tokens);
    if (status == WEFT_OK) {
        double bits = loss / log(2) / weft_dataset_bytes_per_token(dataset);
        const char *format =
            args_has(a, "--json")
                ? "{\"loss\": %.9g, \"perplexity\": %.9g, \"bits_per_byte\": %.9g, "
                  "\"tokens\": %lld}\n"
                : "loss %.4f nats per token, perplexity %.3f, %.4f bits per byte, %lld "
                  "tokens\n";
        printf(format, loss, exp(loss), bits, (long long)n_tokens);
    }
    weft_dataset_close(ctx, dataset);
    weft_inference_close(ctx, inference);
    return status;
}

static int run(int argc, char **argv) {
    args a;
    long long max_tokens = -1; /* as many as the run evaluates */
    long long length = 0;
    int code = args_parse(&command_eval, argc, argv, &a);
    if (code == CODE_OK) code = args_expect(&a, 1, 1);
    if (code == CODE_OK) code = args_int(&a, "--tokens", 0, 1000000000000ll, &max_tokens);
    if (code == CODE_OK) code = args_int(&a, "--length", 1, 1 << 24, &length);
    if (code != CODE_OK) return code;
    weft_ctx *ctx = program_context();
    if (!ctx) return CODE_USAGE;
    weft_status status = evaluate(ctx, &a, length, max_tokens);
    code = status == WEFT_OK ? CODE_OK : program_fail(ctx, status);
    weft_ctx_destroy(ctx);
    return code;
}

const command command_eval = {
    .name = "eval",
    .summary = "measure a trained model's loss on text",
    .usage = "RUN [--data FILE]",
    .help =
        "RUN is a run folder (its newest complete checkpoint is verified and used) or "
        "any "
        "folder in Hugging Face layout: config.json, model.safetensors or several files "
        "with "
        "their index, tokenizer.json. Prints the mean "
        "cross-entropy per token, its exponential, and bits per byte of text.",
    .flags = flags,
    .run = run,
};
