/* SPDX-License-Identifier: MIT */
/* Chat templates: which format one is, and the tokens that it is given.
 *
 *     chat_template.jinja                         the template, or else
 *     tokenizer_config.json    chat_template      a text, or [{name, template}]: "default"
 *                              bos_token ...      texts, or {"content": text}
 *     special_tokens_map.json  bos_token ...      where the former does not say them
 *
 * A template is a program in Jinja, which is not run: one that weft has written is known by its
 * bytes, any other is kept, and named by who uses it (format.c). */
#define _GNU_SOURCE
#include "chat/format.h"

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
    const wefti_format *format; /* NULL: not known */
    bool written;               /* what comes is the text of a template already */
    char *source;        /* owned, like all below: the template in Jinja; or NULL */
    char *where;         /* it was; NULL: in no file */
    char *settings_text; /* tokenizer_config.json as it came; NULL: there was none */
    json_t *settings;    /* the same, read */
    json_t *tokens;      /* bos_token and its likes, as texts */
};

const char *weft_chat_name(int i, const char **summary) {
#define WEFTI_KIND(name, what) {#name, what},
    static const char *const all[][2] = {
#include "config/chats.def"
    };
#undef WEFTI_KIND
    if (i < 0 || i >= (int)(sizeof all / sizeof all[0])) return NULL;
    if (summary) *summary = all[i][1];
    return all[i][0];
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

/* Takes a template; one of weft's own is known. */
static weft_status take(weft_ctx *ctx, weft_chat *chat, const char *text,
                        const char *where) {
    for (const wefti_format *f = wefti_formats; f->name; f++)
        if (wefti_is(f->jinja, text)) chat->format = f;
    WEFT_TRY(wefti_strdup(ctx, text, &chat->source));
    return where ? wefti_strdup(ctx, where, &chat->where) : WEFT_OK;
}

static weft_status take_file(weft_ctx *ctx, weft_chat *chat, const char *path) {
    char *text;
    int64_t n;
    WEFT_TRY(wefti_file_read(ctx, path, MAX_BYTES, &text, &n));
    weft_status status = take(ctx, chat, text, path);
    wefti_free(ctx, text);
    return status;
}

static weft_status open_in_folder(weft_ctx *ctx, weft_chat *chat, const char *folder) {
    char path[PATH_MAX];
    bool there;
    WEFT_TRY(path_in(ctx, folder, "chat_template.jinja", path, &there));
    if (there) return take_file(ctx, chat, path);
    const char *held = template_of(chat->settings);
    WEFT_TRY(path_in(ctx, folder, "tokenizer_config.json", path, &there));
    if (held) return take(ctx, chat, held, path);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s has no chat template; name one: data.chat_template=chatml",
                         folder);
}

/* Texts are written; the template of the folder is kept, if there is one. */
static weft_status open_written(weft_ctx *ctx, weft_chat *chat, const char *folder) {
    chat->written = true;
    weft_status status = folder ? open_in_folder(ctx, chat, folder) : WEFT_OK;
    chat->format = NULL;
    if (status != WEFT_ERR_CONFIG) return status;
    weft_ctx_clear(ctx);
    return WEFT_OK;
}

static weft_status open_named(weft_ctx *ctx, weft_chat *chat, const char *name) {
    for (const wefti_format *f = wefti_formats; f->name; f++) {
        if (!wefti_is(f->name, name)) continue;
        WEFT_TRY(name_token(ctx, chat, "bos_token", f->bos));
        WEFT_TRY(name_token(ctx, chat, "eos_token", f->eos));
        return take(ctx, chat, f->jinja, NULL);
    }
#define WEFTI_KIND(format, what) #format ", "
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "there is no chat template \"%s\", expected "
#include "config/chats.def"
                         "or text",
                         name);
#undef WEFTI_KIND
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
                             "data.chat_template=chatml");
    if (wefti_is(name, "text")) return open_written(ctx, chat, folder);
    return automatic ? open_in_folder(ctx, chat, folder) : open_named(ctx, chat, name);
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
    WEFTI_FREE(ctx, chat->source, chat->where, chat->settings_text);
    json_decref(chat->settings);
    json_decref(chat->tokens);
    wefti_free(ctx, chat);
}

/* ---- rendering ---- */

bool wefti_chat_is_written(const weft_chat *chat) { return chat->written; }

/* A template of somebody else's: says which format it seems to be. */
static weft_status refuse_own(weft_ctx *ctx, const weft_chat *chat) {
    const char *seems = NULL;
    if (chat->written)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "the chat template is text, which has no messages: name a "
                             "format, or make texts of the messages (docs/using.md)");
    for (const wefti_format *f = wefti_formats; f->name; f++)
        if (strstr(chat->source, f->mark) && (!seems || !strcmp(f->name, "qwen")))
            seems = f->name;
    if (seems)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s has a template in Jinja, which weft does not run; it "
                             "looks like %s: name that (data.chat_template, --template), "
                             "or make texts of the messages (docs/using.md)",
                             chat->where, seems);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s has a template in Jinja, which weft does not run: name the "
                         "format that the model knows (data.chat_template, --template), "
                         "or make texts of the messages (docs/using.md)",
                         chat->where);
}

weft_status wefti_chat_render(weft_ctx *ctx, const weft_chat *chat,
                              const json_t *messages, bool asks, wefti_rendered *out) {
    if (!chat->format) return refuse_own(ctx, chat);
    return wefti_format_write(ctx, chat->format, chat->tokens, messages, asks, out);
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
    weft_status status = wefti_chat_render(ctx, chat, list, asks, &out);
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
    return chat->source ? save_text(ctx, folder, "chat_template.jinja", chat->source)
                        : WEFT_OK;
}
