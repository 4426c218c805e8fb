/* SPDX-License-Identifier: MIT */
/* Conversations as text, in the formats that models are trained with. tests/unit/chat compares
 * them with what transformers makes of the same formats in Jinja. */
#include "chat/format.h"

#include <string.h>

#include "base/memory.h"
#include "text/utf8.h"

/* In Jinja: a system message stands before the first other one. */
#define JOIN_SYSTEM                                                                      \
    "{%- set system = messages[0].content if messages and messages[0].role == 'system' " \
    "else none -%}"                                                                      \
    "{%- for m in messages if m.role != 'system' -%}"                                    \
    "{%- set content = m.content -%}"

#define CHATML(default)                                                                  \
    "{% for m in messages %}" default "{{ '<|im_start|>' + m.role + '\\n' + m.content "  \
                                      "+ '<|im_end|>\\n' }}{% endfor %}"                 \
                                      "{% if add_generation_prompt %}{{ "                \
                                      "'<|im_start|>assistant\\n' }}{% endif %}"

const wefti_format wefti_formats[] = {
    {.name = "chatml",
     .bos = "",
     .eos = "<|im_end|>",
     .first = "",
     .answer = "<|im_start|>assistant\n{text}<|im_end|>\n",
     .other = "<|im_start|>{role}\n{text}<|im_end|>\n",
     .roles = true,
     .asks = "<|im_start|>assistant\n",
     .mark = "<|im_start|>",
     .jinja = CHATML("")},
    {.name = "llama2",
     .bos = "<s>",
     .eos = "</s>",
     .first = "",
     .answer = " {text} {eos}",
     .other = "{bos}[INST] {text} [/INST]",
     .joined = "<<SYS>>\n{system}\n<</SYS>>\n\n{text}",
     .asks = "",
     .trims = true,
     .mark = "<<SYS>>",
     .jinja = JOIN_SYSTEM
     "{%- if system is not none and loop.first -%}"
     "{%- set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m.content -%}"
     "{%- endif -%}"
     "{%- if m.role == 'user' -%}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' "
     "}}"
     "{%- else -%}{{ ' ' + content.strip() + ' ' + eos_token }}{%- endif -%}"
     "{%- endfor -%}"},
    {.name = "llama3",
     .bos = "<|begin_of_text|>",
     .eos = "<|eot_id|>",
     .first = "{bos}",
     .answer = "<|start_header_id|>assistant<|end_header_id|>\n\n{text}<|eot_id|>",
     .other = "<|start_header_id|>{role}<|end_header_id|>\n\n{text}<|eot_id|>",
     .roles = true,
     .asks = "<|start_header_id|>assistant<|end_header_id|>\n\n",
     .trims = true,
     .mark = "<|start_header_id|>",
     .jinja = "{{ bos_token }}{% for m in messages %}"
              "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content "
              "| trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
              "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {.name = "mistral",
     .bos = "<s>",
     .eos = "</s>",
     .first = "{bos}",
     .answer = " {text}{eos}",
     .other = " [INST] {text} [/INST]",
     .joined = "{system}\n\n{text}",
     .asks = "",
     .mark = "[INST]",
     .jinja = "{{ bos_token }}" JOIN_SYSTEM "{%- if system is not none and loop.first -%}"
              "{%- set content = system + '\\n\\n' + m.content -%}{%- endif -%}"
              "{%- if m.role == 'user' -%}{{ ' [INST] ' + content + ' [/INST]' }}"
              "{%- else -%}{{ ' ' + content + eos_token }}{%- endif -%}"
              "{%- endfor -%}"},
    {.name = "gemma",
     .bos = "<bos>",
     .eos = "<end_of_turn>",
     .first = "{bos}",
     .answer = "<start_of_turn>model\n{text}<end_of_turn>\n",
     .other = "<start_of_turn>{role}\n{text}<end_of_turn>\n",
     .roles = true,
     .joined = "{system}\n\n{text}",
     .asks = "<start_of_turn>model\n",
     .trims = true,
     .mark = "<start_of_turn>",
     .jinja =
         "{{ bos_token }}" JOIN_SYSTEM "{%- if system is not none and loop.first -%}"
         "{%- set content = system + '\\n\\n' + m.content -%}{%- endif -%}"
         "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' "
         "+ "
         "content | trim + '<end_of_turn>\\n' }}"
         "{%- endfor -%}"
         "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"},
    {.name = "phi3",
     .bos = "",
     .eos = "<|end|>",
     .first = "",
     .answer = "<|assistant|>\n{text}<|end|>\n",
     .other = "<|{role}|>\n{text}<|end|>\n",
     .roles = true,
     .asks = "<|assistant|>\n",
     .mark = "<|end|>",
     .jinja = "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + "
              "'<|end|>\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
    {.name = "qwen",
     .bos = "",
     .eos = "<|im_end|>",
     .first = "",
     .lead = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n",
     .answer = "<|im_start|>assistant\n{text}<|im_end|>\n",
     .other = "<|im_start|>{role}\n{text}<|im_end|>\n",
     .roles = true,
     .asks = "<|im_start|>assistant\n",
     .mark = "You are Qwen",
     .jinja = CHATML(
         "{% if loop.first and m.role != 'system' %}"
         "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' "
         "}}{% endif %}")},
    {.name = NULL}};

/* What stands for the names in a text. */
typedef struct values {
    const char *role, *text, *system, *bos, *eos;
    int64_t text_n;
} values;

static void put_value(weft_ctx *ctx, wefti_buffer *out, const char *name, size_t n,
                      const values *v) {
    const char *const names[] = {"role", "system", "bos", "eos"};
    const char *const texts[] = {v->role, v->system, v->bos, v->eos};
    if (n == 4 && memcmp(name, "text", n) == 0)
        wefti_buffer_put(ctx, out, v->text, v->text_n);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0)
            wefti_buffer_text(ctx, out, texts[i]);
}

static void expand(weft_ctx *ctx, wefti_buffer *out, const char *pattern,
                   const values *v) {
    for (const char *at = pattern; *at;) {
        size_t n = strcspn(at, "{");
        wefti_buffer_put(ctx, out, at, (int64_t)n);
        at += n;
        if (!*at) return;
        n = strcspn(at, "}");
        put_value(ctx, out, at + 1, n - 1, v);
        at += n + 1;
    }
}

/* Leaves out white space around v->text. */
static void trim(values *v) {
    uint32_t code;
    int64_t n;
    while ((n = wefti_utf8_decode(v->text, v->text_n, &code)) > 0 &&
           wefti_utf8_is_space(code)) {
        v->text += n;
        v->text_n -= n;
    }
    for (int64_t last; (last = v->text_n) > 0; v->text_n = last) {
        do last--;
        while (last > 0 && ((unsigned char)v->text[last] & 0xc0) == 0x80);
        if (wefti_utf8_decode(v->text + last, v->text_n - last, &code) <= 0 ||
            !wefti_utf8_is_space(code))
            return;
    }
}

static const char *token_of(const json_t *tokens, const char *key, const char *usual) {
    const char *held = json_string_value(json_object_get(tokens, key));
    return held ? held : usual;
}

static weft_status read_message(weft_ctx *ctx, const wefti_format *format,
                                const json_t *messages, size_t i, values *v) {
    const json_t *message = json_array_get(messages, i);
    const json_t *text = json_object_get(message, "content");
    v->role = json_string_value(json_object_get(message, "role"));
    v->text = json_string_value(text);
    v->text_n = (int64_t)json_string_length(text);
    if (v->role && v->text) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s: message %zu has no \"role\" and \"content\" that are texts",
                         format->name, i + 1);
}

static weft_status add_span(weft_ctx *ctx, wefti_rendered *out, int64_t from) {
    WEFT_TRY(wefti_reserve(ctx, &out->spans, &out->room, 2 * out->n_spans, 2,
                           sizeof *out->spans, "a conversation"));
    out->spans[2 * out->n_spans] = from;
    out->spans[2 * out->n_spans++ + 1] = out->text.n;
    return WEFT_OK;
}

/* Writes one message; `joins`: with v->system before it. */
static weft_status write_message(weft_ctx *ctx, const wefti_format *format, values *v,
                                 bool joins, wefti_rendered *out) {
    bool user = strcmp(v->role, "user") == 0, answers = strcmp(v->role, "assistant") == 0;
    wefti_buffer both = {0};
    if (joins) {
        expand(ctx, &both, format->joined, v);
        v->text = both.n > 0 ? both.bytes : "";
        v->text_n = both.n;
    }
    if (format->trims) trim(v);
    int64_t from = out->text.n, asks = answers ? (int64_t)strlen(format->asks) : 0;
    bool as_answer = answers || !(user || format->roles);
    expand(ctx, &out->text, as_answer ? format->answer : format->other, v);
    weft_status status = both.status;
    if (status == WEFT_OK) status = out->text.status;
    if (status == WEFT_OK) status = add_span(ctx, out, from + asks);
    wefti_buffer_fini(ctx, &both);
    return status;
}

weft_status wefti_format_write(weft_ctx *ctx, const wefti_format *format,
                               const json_t *tokens, const json_t *messages, bool asks,
                               wefti_rendered *out) {
    size_t n = json_array_size(messages);
    bool joins = false;
    values v = {.system = "",
                .bos = token_of(tokens, "bos_token", format->bos),
                .eos = token_of(tokens, "eos_token", format->eos)};
    out->text.n = out->n_spans = 0;
    wefti_buffer_text(ctx, &out->text, ""); /* so that no messages are an empty text */
    expand(ctx, &out->text, format->first, &v);
    for (size_t i = 0; i < n; i++) {
        WEFT_TRY(read_message(ctx, format, messages, i, &v));
        bool system = strcmp(v.role, "system") == 0;
        if (i == 0 && !system && format->lead)
            wefti_buffer_text(ctx, &out->text, format->lead);
        if (system && format->joined) { /* only the first message has a place */
            if (i == 0) v.system = v.text;
            joins |= i == 0;
            WEFT_TRY(add_span(ctx, out, out->text.n));
            continue;
        }
        WEFT_TRY(write_message(ctx, format, &v, joins, out));
        joins = false;
    }
    if (asks) wefti_buffer_text(ctx, &out->text, format->asks);
    return out->text.status;
}

void wefti_rendered_fini(weft_ctx *ctx, wefti_rendered *rendered) {
    wefti_buffer_fini(ctx, &rendered->text);
    wefti_free(ctx, rendered->spans);
    *rendered = (wefti_rendered){.n_spans = 0};
}
