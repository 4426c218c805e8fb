/* SPDX-License-Identifier: MIT */
/* `weft sample --chat`: a conversation with a model. Questions and answers form a list of
 * messages; a chat template turns it into the prompt of the next answer:
 *
 *     --prompt TEXT    one question, one answer
 *     standard input   each line is a question; the conversation grows until its end
 */
#include "sample_chat.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

weft_status sample_chat(weft_ctx *ctx, const args *a, weft_inference *inference,
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
