/* SPDX-License-Identifier: MIT */
/* `weft sample`: writes text that continues a prompt, byte by byte as it is generated;
 * with --chat (sample_chat.c) the answers of a conversation. */
#include <stdio.h>
#include <string.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include <weft/inference.h>

#include "common.h"

/* `weft sample --chat`: a conversation with a model. Questions and answers form a list of
 * messages; a chat template turns it into the prompt of the next answer:
 *
 *     --prompt TEXT    one question, one answer
 *     standard input   each line is a question; the conversation grows until its end
 */

/* A conversation, and the answer that is being written. */
typedef struct talk {
    weft_ctx *ctx;
    weft_inference *inference;
    const weft_chat *chat;
    const weft_sample_options *options;
    json_t *messages; /* owned */
    char *answer;     /* [n], owned */
    size_t n, room;
    bool failed; /* no memory for the answer */
} talk;

static weft_status no_memory(weft_ctx *ctx) {
    return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for a conversation");
}

/* Adds a message to the conversation. A text that is not valid UTF-8 is added as an empty
 * message. */
static weft_status say(talk *t, const char *role, const char *text, size_t n) {
    json_t *content = json_stringn(text, n);
    if (!content) content = json_string("");
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    if (message && json_array_append_new(t->messages, message) == 0) return WEFT_OK;
    return no_memory(t->ctx);
}

static bool take_bytes(void *user, const char *bytes, int64_t n_bytes) {
    talk *t = user;
    size_t n = (size_t)n_bytes;
    if (t->n + n > t->room) {
        size_t room = 2 * (t->n + n) + 256;
        char *more = realloc(t->answer, room);
        t->failed |= !more;
        if (!more) return false;
        t->answer = more;
        t->room = room;
    }
    if (n > 0) memcpy(t->answer + t->n, bytes, n);
    t->n += n;
    return fwrite(bytes, 1, n, stdout) == n && fflush(stdout) == 0;
}

/* Generates the model's next answer, writes it as it is generated, and adds it to the
 * conversation. */
static weft_status answer(talk *t) {
    char *messages = json_dumps(t->messages, 0), *prompt = NULL;
    t->n = 0;
    /* without memory for a name, the library omits it and reports no error */
    if (messages && strlen(messages) != json_dumpb(t->messages, NULL, 0, 0)) {
        free(messages);
        messages = NULL;
    }
    weft_status status = messages
                             ? weft_chat_render(t->ctx, t->chat, messages, true, &prompt)
                             : no_memory(t->ctx);
    free(messages);
    if (status == WEFT_OK)
        status = weft_inference_sample(t->ctx, t->inference, prompt,
                                       (int64_t)strlen(prompt), t->options, take_bytes,
                                       t);
    weft_free(t->ctx, prompt);
    if (status == WEFT_OK && t->failed) status = no_memory(t->ctx);
    if (status == WEFT_OK) putchar('\n');
    return status == WEFT_OK ? say(t, "assistant", t->answer ? t->answer : "", t->n)
                             : status;
}

/* Answers questions from standard input until it ends. */
static weft_status answer_lines(talk *t) {
    char *line = NULL;
    size_t room = 0;
    weft_status status = WEFT_OK;
    bool asks = isatty(STDIN_FILENO);
    while (status == WEFT_OK) {
        if (asks) fputs("> ", stdout);
        fflush(stdout);
        ssize_t n = getline(&line, &room, stdin);
        if (n < 0) break;
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) n--;
        status = say(t, "user", line, (size_t)n);
        if (status == WEFT_OK) status = answer(t);
    }
    free(line);
    return status;
}

static weft_status run_talk(talk *t, const char *system, const char *prompt) {
    t->messages = json_array();
    if (!t->messages) return no_memory(t->ctx);
    if (system) WEFT_TRY(say(t, "system", system, strlen(system)));
    if (!prompt) return answer_lines(t);
    WEFT_TRY(say(t, "user", prompt, strlen(prompt)));
    return answer(t);
}

/* Generates the assistant's answer to --prompt, or to each line of standard input. */
static weft_status sample_chat(weft_ctx *ctx, const args *a, weft_inference *inference,
                               const weft_sample_options *options) {
    weft_chat *chat;
    char *stop = NULL;
    const char *name = args_value(a, "--template");
    WEFT_TRY(weft_inference_chat(ctx, inference, name ? name : "auto", &chat));
    weft_status status = weft_chat_answer_end(ctx, chat, &stop);
    weft_sample_options all = *options;
    all.marks = true;
    all.stop = stop;
    talk t = {.ctx = ctx, .inference = inference, .chat = chat, .options = &all};
    if (status == WEFT_OK)
        status = run_talk(&t, args_value(a, "--system"), args_value(a, "--prompt"));
    json_decref(t.messages);
    free(t.answer);
    weft_free(ctx, stop);
    weft_chat_destroy(ctx, chat);
    return status;
}

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
    if (code == CODE_OK)
        code = args_quantity(a, "--temperature", WEFT_UNIT_NUMBER, (interval){0, 100},
                             &temperature);
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
