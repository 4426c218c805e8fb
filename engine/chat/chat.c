/* SPDX-License-Identifier: MIT */
/* Chat templates: where they are found, and what they are given.
 *
 *     chat_template.jinja                         the template, or else
 *     tokenizer_config.json    chat_template      a text, or [{name, template}]: "default"
 *                              bos_token ...      texts, or {"content": text}
 *     special_tokens_map.json  bos_token ...      where the former does not say them
 *
 * The named ones are short templates of weft's own for the formats that models are trained
 * with; tests compare all of them with what transformers writes. */
#define _GNU_SOURCE
#include "chat/chat.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "text/json.h"
#include "base/memory.h"
#include "base/text.h"

enum { MAX_BYTES = 16 << 20 };

struct weft_chat {
    wefti_template *parsed; /* owned, like all of it */
    char *source;           /* the template's text */
    char *settings_text;    /* tokenizer_config.json as it came; NULL: there was none */
    json_t *settings;       /* the same, read */
    json_t *tokens;         /* bos_token and its likes, as texts */
};

typedef struct named_chat {
    const char *name, *summary, *begin, *end, *source;
} named_chat;

/* A system message stands before the first user's one where a format has no place of its
 * own for it. */
#define JOIN_SYSTEM                                                                      \
    "{%- set system = messages[0].content if messages and messages[0].role == 'system' " \
    "else none -%}"                                                                      \
    "{%- for m in messages if m.role != 'system' -%}"                                    \
    "{%- set content = m.content -%}"

static const named_chat named[] = {
    {"chatml", "<|im_start|>role, text, <|im_end|>: Qwen, SmolLM, Yi and many more", "",
     "<|im_end|>",
     "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + "
     "'<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama2", "[INST] text [/INST] with <<SYS>>: Llama 2 chat", "<s>", "</s>",
     JOIN_SYSTEM
     "{%- if system is not none and loop.first -%}"
     "{%- set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m.content -%}"
     "{%- endif -%}"
     "{%- if m.role == 'user' -%}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' "
     "}}"
     "{%- else -%}{{ ' ' + content.strip() + ' ' + eos_token }}{%- endif -%}"
     "{%- endfor -%}"},
    {"llama3", "<|start_header_id|>role<|end_header_id|>, <|eot_id|>: Llama 3",
     "<|begin_of_text|>", "<|eot_id|>",
     "{{ bos_token }}{% for m in messages %}"
     "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + "
     "'<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"mistral", "[INST] text [/INST], the beginning once: Mistral, Mixtral", "<s>",
     "</s>",
     "{{ bos_token }}" JOIN_SYSTEM "{%- if system is not none and loop.first -%}"
     "{%- set content = system + '\\n\\n' + m.content -%}{%- endif -%}"
     "{%- if m.role == 'user' -%}{{ ' [INST] ' + content + ' [/INST]' }}"
     "{%- else -%}{{ ' ' + content + eos_token }}{%- endif -%}"
     "{%- endfor -%}"},
    {"gemma", "<start_of_turn>user, text, <end_of_turn>: Gemma 1 to 3", "<bos>",
     "<end_of_turn>",
     "{{ bos_token }}" JOIN_SYSTEM "{%- if system is not none and loop.first -%}"
     "{%- set content = system + '\\n\\n' + m.content -%}{%- endif -%}"
     "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + "
     "content | trim + '<end_of_turn>\\n' }}"
     "{%- endfor -%}"
     "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"},
    {"phi3", "<|user|>, text, <|end|>: Phi-3", "", "<|end|>",
     "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
    {"qwen", "chatml with a system message if none is given: Qwen 2 and 2.5", "",
     "<|im_end|>",
     "{% for m in messages %}{% if loop.first and m.role != 'system' %}"
     "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}"
     "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
};
enum { N_NAMED = sizeof named / sizeof named[0] };

const char *weft_chat_name(int i, const char **summary) {
    if (i < 0 || i >= N_NAMED) return NULL;
    if (summary) *summary = named[i].summary;
    return named[i].name;
}

static weft_status no_memory(weft_ctx *ctx) {
    return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for a chat template");
}

/* ---- the tokens' texts ---- */

/* Takes the texts of special tokens that are not known yet. */
static weft_status take_tokens(weft_ctx *ctx, weft_chat *chat, const json_t *from) {
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token",
                                       "pad_token", "sep_token", "mask_token",
                                       "cls_token"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *token = json_object_get(from, keys[i]);
        if (json_is_object(token)) token = json_object_get(token, "content");
        if (!json_is_string(token) || json_object_get(chat->tokens, keys[i])) continue;
        if (json_object_set(chat->tokens, keys[i], token) != 0) return no_memory(ctx);
    }
    return WEFT_OK;
}

static weft_status name_token(weft_ctx *ctx, weft_chat *chat, const char *key,
                              const char *text) {
    if (!text[0] || json_object_get(chat->tokens, key)) return WEFT_OK;
    if (json_object_set_new(chat->tokens, key, json_string(text)) != 0)
        return no_memory(ctx);
    return WEFT_OK;
}

/* ---- files ---- */

static bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The path of a file in a folder, or beside the file that `folder` is. */
static weft_status path_in(weft_ctx *ctx, const char *folder, const char *name,
                           char path[PATH_MAX], bool *there) {
    struct stat info;
    const char *slash = strrchr(folder, '/');
    int n = (int)strlen(folder);
    if (!is_folder(folder)) n = slash ? (int)(slash - folder) : 0;
    const char *root = n > 0 ? "" : folder[0] == '/' ? "" : "."; /* "/name", "./name" */
    if (snprintf(path, PATH_MAX, "%s%.*s/%s", root, n, folder, name) >= PATH_MAX)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s/%s", folder, name);
    *there = stat(path, &info) == 0;
    return WEFT_OK;
}

/* Reads a JSON file of the folder; *out and *text are NULL if it is not there. Such files have
 * whole numbers that no machine has: model_max_length is 10^30 where nobody set it. */
static weft_status read_object(weft_ctx *ctx, const char *folder, const char *name,
                               char **text, json_t **out) {
    char path[PATH_MAX];
    int64_t n;
    bool there = false;
    *out = NULL;
    *text = NULL;
    WEFT_TRY(path_in(ctx, folder, name, path, &there));
    if (!there) return WEFT_OK;
    WEFT_TRY(wefti_file_read(ctx, path, MAX_BYTES, text, &n));
    return wefti_json_read_loosely(ctx, path, *text, n, out);
}

static weft_status read_settings(weft_ctx *ctx, weft_chat *chat, const char *folder) {
    json_t *map;
    char *text;
    WEFT_TRY(read_object(ctx, folder, "tokenizer_config.json", &chat->settings_text,
                         &chat->settings));
    WEFT_TRY(take_tokens(ctx, chat, chat->settings));
    weft_status status = read_object(ctx, folder, "special_tokens_map.json", &text, &map);
    wefti_free(ctx, text);
    if (status == WEFT_OK) status = take_tokens(ctx, chat, map);
    json_decref(map);
    return status;
}

/* The template that the settings hold; NULL: none. Borrowed. */
static const char *template_of(const json_t *settings) {
    const json_t *held = json_object_get(settings, "chat_template");
    for (size_t i = 0; json_is_array(held) && i < json_array_size(held); i++) {
        const json_t *one = json_array_get(held, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && wefti_is(name, "default"))
            return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(held);
}

/* ---- opening ---- */

static weft_status parse(weft_ctx *ctx, weft_chat *chat, const char *text, int64_t n,
                         const char *where) {
    WEFT_TRY(wefti_template_parse(ctx, text, n, where, &chat->parsed));
    return wefti_strdup(ctx, text, &chat->source);
}

static weft_status parse_file(weft_ctx *ctx, weft_chat *chat, const char *path) {
    char *text;
    int64_t n;
    WEFT_TRY(wefti_file_read(ctx, path, MAX_BYTES, &text, &n));
    weft_status status = parse(ctx, chat, text, n, path);
    wefti_free(ctx, text);
    return status;
}

static weft_status open_in_folder(weft_ctx *ctx, weft_chat *chat, const char *folder) {
    char path[PATH_MAX];
    bool there;
    WEFT_TRY(path_in(ctx, folder, "chat_template.jinja", path, &there));
    if (there) return parse_file(ctx, chat, path);
    const char *held = template_of(chat->settings);
    WEFT_TRY(path_in(ctx, folder, "tokenizer_config.json", path, &there));
    if (held) return parse(ctx, chat, held, (int64_t)strlen(held), path);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s has no chat template; name one: data.chat_template=chatml, "
                         "or the path of a file",
                         folder);
}

static weft_status open_named(weft_ctx *ctx, weft_chat *chat, const named_chat *row) {
    WEFT_TRY(name_token(ctx, chat, "bos_token", row->begin));
    WEFT_TRY(name_token(ctx, chat, "eos_token", row->end));
    return parse(ctx, chat, row->source, (int64_t)strlen(row->source), row->name);
}

static weft_status open_all(weft_ctx *ctx, weft_chat *chat, const char *name,
                            const char *folder) {
    bool automatic = wefti_is(name, "auto");
    chat->tokens = json_object();
    if (!chat->tokens) return no_memory(ctx);
    if (folder) WEFT_TRY(read_settings(ctx, chat, folder));
    if (automatic && !folder)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "no folder has a chat template; name one: "
                             "data.chat_template=chatml, or the path of a file");
    if (automatic) return open_in_folder(ctx, chat, folder);
    for (int i = 0; i < N_NAMED; i++)
        if (wefti_is(named[i].name, name)) return open_named(ctx, chat, &named[i]);
    if (!is_folder(name)) return parse_file(ctx, chat, name);
    if (!chat->settings) WEFT_TRY(read_settings(ctx, chat, name));
    return open_in_folder(ctx, chat, name);
}

weft_status weft_chat_open(weft_ctx *ctx, const char *name, const char *folder,
                           weft_chat **out) {
    weft_chat *chat;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *chat, "a chat template", &chat));
    WEFTI_TRY_OR(open_all(ctx, chat, name, folder), weft_chat_destroy(ctx, chat));
    *out = chat;
    return WEFT_OK;
}

void weft_chat_destroy(weft_ctx *ctx, weft_chat *chat) {
    if (!chat) return;
    wefti_template_destroy(ctx, chat->parsed);
    wefti_free(ctx, chat->source);
    wefti_free(ctx, chat->settings_text);
    json_decref(chat->settings);
    json_decref(chat->tokens);
    wefti_free(ctx, chat);
}

/* ---- rendering ---- */

bool wefti_chat_marks(const weft_chat *chat) {
    return wefti_template_marks(chat->parsed);
}

weft_status wefti_chat_render(weft_ctx *ctx, const weft_chat *chat, json_t *messages,
                              json_t *tools, bool asks, wefti_rendered *out) {
    json_t *names = json_copy(chat->tokens);
    json_t *values = json_pack("{s:O, s:O?, s:n, s:b}", "messages", messages, "tools",
                               tools, "documents", "add_generation_prompt", (int)asks);
    weft_status status = WEFT_OK;
    if (!names || !values || json_object_update(names, values) != 0)
        status = no_memory(ctx);
    json_decref(values);
    if (status == WEFT_OK) status = wefti_template_render(ctx, chat->parsed, names, out);
    json_decref(names);
    return status;
}

static weft_status read_messages(weft_ctx *ctx, const char *text, json_t **out) {
    json_error_t error;
    *out = wefti_json_load(text, (int64_t)strlen(text), JSON_REJECT_DUPLICATES, &error);
    if (json_is_array(*out)) return WEFT_OK;
    json_decref(*out);
    *out = NULL;
    weft_status blame = wefti_json_blame(&error, WEFT_ERR_FORMAT);
    return blame == WEFT_ERR_MEMORY
               ? no_memory(ctx)
               : weft_ctx_fail(ctx, blame, "the messages are no list in JSON: %s",
                               error.text);
}

weft_status weft_chat_render(weft_ctx *ctx, const weft_chat *chat, const char *messages,
                             bool asks, char **text) {
    wefti_rendered out = {0};
    json_t *list;
    *text = NULL;
    WEFT_TRY(read_messages(ctx, messages, &list));
    weft_status status = wefti_chat_render(ctx, chat, list, NULL, asks, &out);
    json_decref(list);
    if (status == WEFT_OK) {
        *text = out.text.bytes;
        out.text.bytes = NULL;
    }
    wefti_rendered_fini(ctx, &out);
    return status;
}

weft_status weft_chat_answer_end(weft_ctx *ctx, const weft_chat *chat, char **text) {
    static const char answer[] = "weft";
    char *all;
    WEFT_TRY(weft_chat_render(ctx, chat,
                              "[{\"role\": \"user\", \"content\": \"a\"}, "
                              "{\"role\": \"assistant\", \"content\": \"weft\"}]",
                              false, &all));
    const char *last = NULL;
    for (const char *s = all; (s = strstr(s, answer)); s++) last = s;
    weft_status status = wefti_strdup(ctx, last ? last + strlen(answer) : "", text);
    wefti_free(ctx, all);
    return status;
}

/* ---- saving ---- */

static weft_status save_text(weft_ctx *ctx, const char *folder, const char *name,
                             const char *text) {
    char path[PATH_MAX];
    bool there;
    WEFT_TRY(path_in(ctx, folder, name, path, &there));
    return wefti_file_write(ctx, path, text, (int64_t)strlen(text));
}

static weft_status save_object(weft_ctx *ctx, const char *folder, const char *name,
                               json_t *object) {
    char path[PATH_MAX];
    bool there;
    WEFT_TRY(path_in(ctx, folder, name, path, &there));
    return wefti_json_write(ctx, path, json_incref(object));
}

/* Settings where none came: what a tokenizer is to transformers, and its tokens. */
static weft_status save_settings(weft_ctx *ctx, const weft_chat *chat,
                                 const char *folder) {
    static const char name[] = "tokenizer_config.json";
    if (chat->settings_text) return save_text(ctx, folder, name, chat->settings_text);
    json_t *made = json_copy(chat->tokens);
    weft_status status = made ? WEFT_OK : no_memory(ctx);
    if (status == WEFT_OK &&
        json_object_set_new(made, "tokenizer_class",
                            json_string("PreTrainedTokenizerFast")) != 0)
        status = no_memory(ctx);
    if (status == WEFT_OK) status = save_object(ctx, folder, name, made);
    json_decref(made);
    return status;
}

weft_status weft_chat_save(weft_ctx *ctx, const weft_chat *chat, const char *folder) {
    WEFT_TRY(save_settings(ctx, chat, folder));
    WEFT_TRY(save_object(ctx, folder, "special_tokens_map.json", chat->tokens));
    return save_text(ctx, folder, "chat_template.jinja", chat->source);
}
