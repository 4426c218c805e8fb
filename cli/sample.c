/* SPDX-License-Identifier: MIT */
/* `weft sample`: text that continues a prompt, byte by byte as it is made. */
#include <stdio.h>
#include <string.h>

#include <weft/inference.h>

#include "common.h"

static const flag flags[] = {
    {"--prompt", "TEXT", "what the model continues (default: a new line)", NULL},
    {"--tokens", "N", "tokens to write (default 200)", NULL},
    {"--temperature", "X", "0 = always the likeliest token, 1 = as learned (default 0.8)",
     NULL},
    {"--top-k", "K", "choose among the K likeliest tokens; 0 = all (default 40)", NULL},
    {"--seed", "S", "another seed, another text (default 1)", NULL},
    {"--base", "FOLDER", "of an adapter: its base model, if not the one it names", NULL},
    {NULL, NULL, NULL, NULL}};

extern const command command_sample;

/* What the model continues, written before its first byte; NULL: written. */
static void write_prompt(const char **prompt) {
    if (*prompt) fputs(*prompt, stdout);
    *prompt = NULL;
}

static bool write_bytes(void *user, const char *bytes, int64_t n_bytes) {
    write_prompt(user);
    size_t n = (size_t)n_bytes;
    return fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0;
}

static weft_status sample(weft_ctx *ctx, const args *a, const char *prompt,
                          const weft_sample_options *options) {
    weft_inference *inference;
    WEFT_TRY(weft_inference_open_on(ctx, a->operands[0], args_value(a, "--base"),
                                    &inference));
    int64_t n_bytes = (int64_t)strlen(prompt);
    weft_status status = weft_inference_sample(ctx, inference, prompt, n_bytes, options,
                                               write_bytes, &prompt);
    weft_inference_close(ctx, inference);
    if (status != WEFT_OK) return status;
    write_prompt(&prompt); /* the model had nothing to add */
    putchar('\n');
    return WEFT_OK;
}

static int run(int argc, char **argv) {
    args a;
    long long n_tokens = 200, top_k = 40, seed = 1;
    double temperature = 0.8;
    int code = args_parse(&command_sample, argc, argv, &a);
    if (code == CODE_OK) code = args_expect(&a, 1, 1);
    if (code == CODE_OK) code = args_int(&a, "--tokens", 1, 1000000, &n_tokens);
    if (code == CODE_OK) code = args_int(&a, "--top-k", 0, 1000000, &top_k);
    if (code == CODE_OK) code = args_int(&a, "--seed", 0, 1ll << 62, &seed);
    if (code == CODE_OK) code = args_number(&a, "--temperature", 0, 100, &temperature);
    if (code != CODE_OK) return code;
    weft_ctx *ctx = program_context();
    if (!ctx) return CODE_USAGE;
    const char *prompt = args_value(&a, "--prompt");
    weft_sample_options options = {n_tokens, temperature, top_k, (uint64_t)seed};
    weft_status status = sample(ctx, &a, prompt ? prompt : "\n", &options);
    code = status == WEFT_OK ? CODE_OK : program_fail(ctx, status);
    weft_ctx_destroy(ctx);
    return code;
}

const command command_sample = {
    .name = "sample",
    .summary = "write text with a trained model",
    .usage = "RUN [--prompt TEXT] [--tokens N]",
    .help = "RUN is a run folder or any folder with model.safetensors, config.json and "
            "tokenizer.json. The same prompt, seed and model give the same text.",
    .flags = flags,
    .run = run,
};
