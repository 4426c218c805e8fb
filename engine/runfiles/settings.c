/* SPDX-License-Identifier: MIT */
/* The keys of a configuration as settings. A number is compared with the parsed default
 * of its key, so "1k" and 1000 are the same; a list that is not empty becomes a text, its
 * items separated by commas. run.folder and run.prometheus say where a run is stored, not
 * what it is, and are left out. */
#include "runfiles/settings.h"

#include <string.h>

#include "base/clock.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/schema.h"
#include "config/value.h"

/* Appends the items of a list to the buffer; a number as it would be typed. */
static void put_items(weft_ctx *ctx, wefti_buffer *out, const weft_config_key *key,
                      const char *place) {
    weft_texts texts = {0};
    weft_numbers numbers = {0};
    char word[40];
    bool of_texts = key->type == WEFT_KEY_TEXTS;
    if (of_texts)
        memcpy(&texts, place, sizeof texts);
    else
        memcpy(&numbers, place, sizeof numbers);
    for (int i = 0; i < (of_texts ? texts.n : numbers.n); i++) {
        if (i > 0) wefti_buffer_text(ctx, out, ", ");
        if (!of_texts) wefti_number_text(numbers.items[i], word, sizeof word);
        wefti_buffer_text(ctx, out, of_texts ? texts.items[i] : word);
    }
}

/* Whether the key differs from its default. *out: its value. A list's text is appended to
 * `lists`, and its place is given as an offset, because the buffer may still move. */
static bool is_chosen(weft_ctx *ctx, const weft_config *config,
                      const weft_config_key *key, wefti_buffer *lists,
                      wefti_setting *out) {
    wefti_value fallback = {0}, v = wefti_value_at(key, config);
    bool real = key->type == WEFT_KEY_NUMBER;
    *out = (wefti_setting){.name = key->name,
                           .text = v.text,
                           .number = real ? v.number : (double)v.integer,
                           .is_truth = key->type == WEFT_KEY_BOOL};
    if (v.text) return !wefti_is(v.text, key->fallback);
    if (!wefti_key_is_list(key)) {
        (void)wefti_value_parse(key, key->fallback, &fallback);
        return out->number != (real ? fallback.number : (double)fallback.integer);
    }
    int64_t begin = lists->n;
    put_items(ctx, lists, key, (const char *)config + key->offset);
    bool any = lists->n > begin;
    if (any) wefti_buffer_put(ctx, lists, "", 1);
    out->number = (double)begin;
    return any;
}

static bool says_where(const char *name) {
    return wefti_is(name, "run.folder") || wefti_is(name, "run.prometheus");
}

static weft_status write_keys(weft_ctx *ctx, const weft_config *config,
                              wefti_tfevents *events, wefti_setting *settings,
                              wefti_buffer *lists) {
    int n = 0;
    for (int i = 0; weft_config_key_at(i); i++) {
        const weft_config_key *key = weft_config_key_at(i);
        if (!says_where(key->name) && is_chosen(ctx, config, key, lists, &settings[n]))
            n++;
    }
    WEFT_TRY(lists->status);
    for (int i = 0; i < n; i++) { /* now the buffer does not move */
        const weft_config_key *key = wefti_config_key_find(settings[i].name);
        if (wefti_key_is_list(key))
            settings[i].text = lists->bytes + (int64_t)settings[i].number;
    }
    return wefti_tfevents_settings(ctx, events, wefti_unix_now_s(), settings, n);
}

/* Markdown shows a text that is indented by four as it is. */
static weft_status write_text(weft_ctx *ctx, const weft_config *config,
                              wefti_tfevents *events) {
    weft_config *copy;
    const char *text;
    wefti_buffer out = {0};
    WEFT_TRY(weft_config_copy(ctx, config, &copy));
    weft_status status = weft_config_text(ctx, copy, WEFT_CONFIG_BARE, &text);
    for (const char *line = text; status == WEFT_OK && *line;) {
        size_t n = strcspn(line, "\n");
        wefti_buffer_text(ctx, &out, "    ");
        wefti_buffer_put(ctx, &out, line, (int64_t)n + (line[n] == '\n'));
        line += n + (line[n] == '\n');
        status = out.status;
    }
    if (status == WEFT_OK) {
        wefti_buffer_put(ctx, &out, "", 1);
        status = out.status;
    }
    if (status == WEFT_OK)
        status = wefti_tfevents_text(ctx, events, wefti_unix_now_s(), "config",
                                     out.bytes);
    wefti_buffer_fini(ctx, &out);
    weft_config_destroy(ctx, copy);
    return status;
}

weft_status wefti_settings_write(weft_ctx *ctx, const weft_config *config,
                                 wefti_tfevents *events) {
    wefti_setting *settings;
    wefti_buffer lists = {0};
    WEFT_TRY(wefti_alloc_n(ctx, WEFTI_MAX_KEYS, sizeof *settings, "settings", &settings));
    weft_status status = write_keys(ctx, config, events, settings, &lists);
    wefti_buffer_fini(ctx, &lists);
    wefti_free(ctx, settings);
    return status == WEFT_OK ? write_text(ctx, config, events) : status;
}
