/* SPDX-License-Identifier: MIT */
/* `weft sample`: writes text that continues a prompt, byte by byte as it is generated;
 * with --chat (sample_chat.c) the answers of a conversation. */
#include <stdio.h>
#include <string.h>

#include <weft/inference.h>

#include "common.h"
#include "sample_chat.h"

static const flag flags[] = {
    {"--prompt", "TEXT", "what the model continues (default: a new line)", NULL},
    {"--tokens", "N", "tokens to write (default 200)", NULL},
    {"--temperature", "X",
     "0 = always the most likely token, 1 = as learned (default 0.8)", NULL},
    {"--top-k", "K", "choose among the K likeliest tokens; 0 = all (default 40)", NULL},
    {"--seed", "S", "seed; another one gives another text (default 1)", NULL},
    {"--chat", NULL,
     "--prompt is a question, or each line of standard input is one; only answers are "
     "written",
     NULL},
    {"--system", "TEXT", "with --chat: instructions for the model, before the question",
     NULL},
    {"--template", "NAME",
     "with --chat: the format of the conversation (chatml, llama3, ...; default: that of "
     "the run)",
     NULL},
    {"--base", "FOLDER", "for an adapter: its base model, if not the one that it names",
     NULL},
    {NULL, NULL, NULL, NULL}};

/* Writes the prompt before the model's first byte, once: *prompt becomes NULL. */
static void write_prompt(const char **prompt) {
    if (*prompt) fputs(*prompt, stdout);
    *prompt = NULL;
}

static bool write_bytes(void *user, const char *bytes, int64_t n_bytes) {
    write_prompt(user);
    size_t n = (size_t)n_bytes;
    return fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0;
}

static weft_status sample_text(weft_ctx *ctx, weft_inference *inference,
                               const char *prompt, const weft_sample_options *options) {
    int64_t n_bytes = (int64_t)strlen(prompt);
    weft_status status = weft_inference_sample(ctx, inference, prompt, n_bytes, options,
                                               write_bytes, &prompt);
    if (status != WEFT_OK) return status;
    write_prompt(&prompt); /* the model generated nothing */
    putchar('\n');
    return WEFT_OK;
}

static weft_status sample(weft_ctx *ctx, const args *a,
                          const weft_sample_options *options) {
    weft_inference *inference;
    const char *prompt = args_value(a, "--prompt");
    WEFT_TRY(
        weft_inference_open_on(ctx, a->operands[0], args_value(a, "--base"), &inference));
    weft_status status = args_has(a, "--chat")
                             ? sample_chat(ctx, a, inference, options)
                             : sample_text(ctx, inference, prompt ? prompt : "\n",
                                           options);
    weft_inference_close(ctx, inference);
    return status;
}

static int run(weft_ctx *ctx, args *a) {
    long long n_tokens = 200, top_k = 40, seed = 1;
    double temperature = 0.8;
    int code = args_int(a, "--tokens", 1, 1000000, &n_tokens);
    if (code == CODE_OK) code = args_int(a, "--top-k", 0, 1000000, &top_k);
    if (code == CODE_OK) code = args_int(a, "--seed", 0, 1ll << 62, &seed);
    if (code == CODE_OK) code = args_number(a, "--temperature", 0, 100, &temperature);
    bool alone = !args_has(a, "--chat") &&
                 (args_value(a, "--system") || args_value(a, "--template"));
    if (code == CODE_OK && alone)
        code = usage_error(
            "--system and --template belong to --chat, which is not given");
    if (code != CODE_OK) return code;
    weft_sample_options options = {.struct_size = sizeof options,
                                   .n_tokens = n_tokens,
                                   .temperature = temperature,
                                   .top_k = top_k,
                                   .seed = (uint64_t)seed};
    return program_code(ctx, sample(ctx, a, &options));
}

const command command_sample = {
    .name = "sample",
    .summary = "write text with a trained model",
    .usage = "RUN [--chat] [--prompt TEXT] [--tokens N]",
    .help = "RUN is a run folder or any folder with model.safetensors, config.json and "
            "tokenizer.json. The same prompt, seed and model give the same text.",
    .flags = flags,
    .least = 1,
    .most = 1,
    .run = run,
};
