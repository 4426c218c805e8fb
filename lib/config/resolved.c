/* SPDX-License-Identifier: MIT */
/* Writes a configuration as YAML text that reads back to the same values: one "key:
 * value" per line, with texts in quotes where YAML could read them as something else, and without
 * the signatures of addresses. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "text/utf8.h"
#include "config/layers.h"
#include "config/schema.h"
#include "config/value.h"

typedef struct text {
    weft_ctx *ctx;
    wefti_buffer *out; /* keeps the first failure */
} text;

static void put(text *t, const char *words) { wefti_buffer_text(t->ctx, t->out, words); }

/* Whether a YAML reader could read the word as a boolean or as null. */
static bool is_reserved(const char *words) {
    static const char *const reserved[] = {"true", "false", "yes", "no", "on",
                                           "off",  "null",  "y",   "n"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strcasecmp(words, reserved[i]) == 0) return true;
    return false;
}

/* Whether a text needs no quotes for any reader: a name or a path of letters, digits and
 * a few other characters.
 */
static bool is_plain(const char *words) {
    bool path = words[0] == '/' || !strncmp(words, "./", 2) || !strncmp(words, "../", 3);
    if ((!isalpha((unsigned char)words[0]) && !path) || is_reserved(words)) return false;
    for (; *words; words++)
        if (!isalnum((unsigned char)*words) && !strchr("/._-+@%=~", *words)) return false;
    return true;
}

static bool is_printable(uint32_t code) {
    bool break_or_mark = code == 0x2028 || code == 0x2029 || code == 0xfeff;
    if (code < 0x80) return code >= 0x20 && code < 0x7f;
    return code > 0xa0 && !break_or_mark && (code & 0xfffe) != 0xfffe;
}

static void put_text(text *t, const char *words) {
    if (is_plain(words)) {
        put(t, words);
        return;
    }
    put(t, "\"");
    for (int n; *words; words += n) {
        uint32_t code = 0;
        n = wefti_utf8_decode(words, (int64_t)strlen(words), &code);
        if (n == 0) n = 1; /* never happens, since a value is valid UTF-8 */
        if (code == '"' || code == '\\')
            wefti_buffer_print(t->ctx, t->out, "\\%c", (char)code);
        else if (is_printable(code))
            wefti_buffer_put(t->ctx, t->out, words, n);
        else
            wefti_buffer_print(t->ctx, t->out,
                               code > 0xffff ? "\\U%08" PRIX32 : "\\u%04" PRIX32, code);
    }
    put(t, "\"");
}

static void put_number(text *t, double number) {
    char digits[40];
    wefti_number_text(number, digits, sizeof digits);
    put(t, digits);
}

static void put_size(text *t, int64_t n_bytes) {
    static const char *const names[] = {"", "kB", "MB", "GB"};
    int k = 0;
    while (k < 3 && n_bytes != 0 && n_bytes % 1000 == 0) n_bytes /= 1000, k++;
    wefti_buffer_print(t->ctx, t->out, "%" PRId64 "%s", n_bytes, names[k]);
}

static void put_list(text *t, const weft_config_key *key, const void *place) {
    weft_texts texts = {0};
    weft_numbers numbers = {0};
    bool of_texts = key->type == WEFT_KEY_TEXTS;
    if (of_texts)
        memcpy(&texts, place, sizeof texts);
    else
        memcpy(&numbers, place, sizeof numbers);
    put(t, "[");
    for (int i = 0; i < (of_texts ? texts.n : numbers.n); i++) {
        if (i > 0) put(t, ", ");
        if (of_texts)
            put_text(t, texts.items[i]);
        else
            put_number(t, numbers.items[i]);
    }
    put(t, "]");
}

static void put_value(text *t, const weft_config_key *key, const weft_config *values) {
    wefti_value v = wefti_value_at(key, values);
    switch (key->type) {
    case WEFT_KEY_INT: wefti_buffer_print(t->ctx, t->out, "%" PRId64, v.integer); break;
    case WEFT_KEY_BYTES: put_size(t, v.integer); break;
    case WEFT_KEY_NUMBER: put_number(t, v.number); break;
    case WEFT_KEY_BOOL:
    case WEFT_KEY_AUTO_BOOL:
        put(t, v.integer < 0 ? "auto" : v.integer ? "true" : "false");
        break;
    case WEFT_KEY_TEXT:
    case WEFT_KEY_CHOICE:
    case WEFT_KEY_LINK: put_text(t, v.text); break;
    case WEFT_KEY_TEXTS:
    case WEFT_KEY_NUMBERS: put_list(t, key, (const char *)values + key->offset); break;
    }
}

/* Appends the text of an origin, without characters that could end a comment. */
static void put_origin(text *t, const wefti_config *config, const weft_config_key *key) {
    char shown[256];
    const wefti_origin *origin = &config->origins[wefti_config_key_index(key)];
    switch (origin->layer) {
    case WEFT_ORIGIN_DEFAULT: put(t, "default"); break;
    case WEFT_ORIGIN_METHOD:
        wefti_buffer_print(t->ctx, t->out, "method %s", config->values.method);
        break;
    case WEFT_ORIGIN_MODEL: put(t, "model.init"); break;
    case WEFT_ORIGIN_FILE:
        wefti_buffer_print(t->ctx, t->out, "%s:%d",
                           wefti_shown(origin->path, shown, sizeof shown), origin->line);
        break;
    case WEFT_ORIGIN_COMMAND: put(t, "override"); break;
    }
}

static void put_note(text *t, const wefti_config *config, const weft_config_key *key,
                     weft_config_notes notes, int64_t line_start) {
    enum { COLUMN = 34 };
    if (notes == WEFT_CONFIG_BARE) return;
    int64_t used = t->out->n - line_start;
    wefti_buffer_print(t->ctx, t->out, "%*s# ",
                       used < COLUMN - 2 ? (int)(COLUMN - used) : 2, "");
    if (notes == WEFT_CONFIG_ORIGINS)
        put_origin(t, config, key);
    else
        put(t, key->doc);
}

static void put_key(text *t, const wefti_config *config, const weft_config_key *key,
                    weft_config_notes notes) {
    const char *dot = strchr(key->name, '.');
    int64_t line_start = t->out->n;
    wefti_buffer_print(t->ctx, t->out, "%s%s: ", dot ? "  " : "",
                       dot ? dot + 1 : key->name);
    put_value(t, key, &config->values);
    put_note(t, config, key, notes, line_start);
    put(t, "\n");
}

static void put_all(text *t, const wefti_config *config, weft_config_notes notes) {
    const char *section = "";
    for (const weft_config_key *key = wefti_config_keys; key->name; key++) {
        const char *dot = strchr(key->name, '.');
        size_t n = dot ? (size_t)(dot - key->name) : 0;
        if (n && (strlen(section) < n || strncmp(section, key->name, n + 1) != 0)) {
            section = key->name;
            wefti_buffer_print(t->ctx, t->out, "%.*s:\n", (int)n, section);
        }
        put_key(t, config, key, notes);
    }
}

/* Hands the text over to the configuration, which owns it from then on. */
static weft_status keep(weft_ctx *ctx, wefti_config *config, wefti_buffer *out,
                        const char **words) {
    *words = NULL;
    if (out->status != WEFT_OK) {
        weft_status status = out->status;
        wefti_buffer_fini(ctx, out);
        return status;
    }
    wefti_free(ctx, config->text);
    config->text = out->bytes;
    *words = out->bytes;
    return WEFT_OK;
}

weft_status weft_config_text(weft_ctx *ctx, weft_config *values, weft_config_notes notes,
                             const char **words) {
    wefti_config *config = wefti_config_of(values);
    wefti_buffer out = {0};
    text t = {ctx, &out};
    put_all(&t, config, notes);
    if (out.status == WEFT_OK) wefti_text_hide(out.bytes);
    return keep(ctx, config, &out, words);
}

weft_status wefti_config_shared(weft_ctx *ctx, weft_config *values, bool sized,
                                const char **words) {
    wefti_config *config = wefti_config_of(values);
    wefti_buffer out = {0};
    text t = {ctx, &out};
    for (const weft_config_key *key = wefti_config_keys; key->name; key++) {
        bool of_size = wefti_is(key->name, "mesh.nodes") ||
                       wefti_is(key->name, "mesh.ranks_per_node");
        if (wefti_config_key_is_own(key) || (of_size && !sized)) continue;
        wefti_buffer_print(ctx, &out, "%s: ", key->name);
        put_value(&t, key, values);
        put(&t, "\n");
    }
    return keep(ctx, config, &out, words);
}

weft_status weft_config_write(weft_ctx *ctx, weft_config *values, const char *path) {
    const char *words;
    wefti_buffer out = {0};
    WEFT_TRY(weft_config_text(ctx, values, WEFT_CONFIG_BARE, &words));
    wefti_config_put_folder(ctx, &out);
    wefti_buffer_text(ctx, &out, words);
    weft_status status = out.status;
    if (status == WEFT_OK) status = wefti_file_write(ctx, path, out.bytes, out.n);
    wefti_buffer_fini(ctx, &out);
    return status;
}
