/* SPDX-License-Identifier: MIT */
/* The keys of a run that begins from a checkpoint, taken from the checkpoint's
 * config.json: nothing has to be repeated by hand, and no key that changes what the
 * parameters compute may be contradicted. Each of these keys then counts as set by
 * "model.init". */
#define _GNU_SOURCE
#include "runfiles/adopt.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "config/layers.h"
#include "job/job.h"
#include "model/fields.h"

enum { MAX_CONFIG_BYTES = 1 << 20, BYTES = 256 };

static weft_status path_in(weft_ctx *ctx, const char *folder, const char *name,
                           char *path, bool *there) {
    struct stat info;
    *there = false;
    WEFT_TRY(wefti_file_path(ctx, folder, name, path));
    *there = stat(path, &info) == 0;
    return WEFT_OK;
}

/* Fills in what a kind completes. The context is short, so that no long table is made. */
static weft_status complete(weft_ctx *ctx, weft_model_config *config) {
    weft_model_config wanted = *config;
    weft_model *model;
    if (wanted.context > 1) wanted.context = 1;
    WEFT_TRY(weft_model_create(ctx, &wanted, &model));
    wanted = model->config;
    wanted.context = config->context;
    *config = wanted;
    weft_model_destroy(ctx, model);
    return WEFT_OK;
}

weft_status wefti_adopt_read(weft_ctx *ctx, const char *folder, weft_model_config *out) {
    char path[PATH_MAX], *json;
    int64_t n_bytes;
    bool there;
    WEFT_TRY(path_in(ctx, folder, "config.json", path, &there));
    if (!there)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s has no config.json, which says what the model is",
                             folder);
    WEFT_TRY(wefti_file_read(ctx, path, MAX_CONFIG_BYTES, &json, &n_bytes));
    weft_status status = weft_model_config_from_json(ctx, json, n_bytes, path, out);
    wefti_free(ctx, json);
    if (status == WEFT_OK) status = complete(ctx, out);
    return status;
}

/* Whether a key is given with a value of its own: not 0 or auto, which mean "as usual". */
static bool chosen(const weft_config *config, const wefti_field *field) {
    char name[64];
    int64_t whole;
    int flag;
    double number;
    snprintf(name, sizeof name, "model.%s", field->name);
    const weft_config_key *key = wefti_config_key_find(name);
    if (!wefti_config_given(config, name)) return false;
    const char *at = (const char *)config + key->offset;
    switch (field->type) {
    case WEFTI_FIELD_INT: return memcpy(&whole, at, sizeof whole), whole != 0;
    case WEFTI_FIELD_NUMBER: return memcpy(&number, at, sizeof number), number != 0;
    case WEFTI_FIELD_FLAG: return memcpy(&flag, at, sizeof flag), flag >= 0;
    case WEFTI_FIELD_TEXT:
    case WEFTI_FIELD_WORD: break;
    }
    return true;
}

static weft_status take_field(weft_ctx *ctx, weft_config *config, const char *folder,
                              const wefti_field *field, const weft_model_config *saved) {
    char name[64], text[256], given[256];
    snprintf(name, sizeof name, "model.%s", field->name);
    wefti_field_text(field, saved, text, sizeof text);
    if (!chosen(config, field)) return wefti_config_suggest(ctx, config, name, text);
    weft_model_config run = wefti_job_model_config(config, saved->vocab);
    if (field->free || wefti_field_same(field, &run, saved)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s is %s, but the model in %s has %s; leave the key out", name,
                         wefti_field_text(field, &run, given, sizeof given), folder,
                         text[0] ? text : "none");
}

/* Refuses a folder that has its tokenizer in another form than tokenizer.json. */
static weft_status refuse_other_tokenizer(weft_ctx *ctx, const char *folder) {
    static const char *const names[] = {"tokenizer.model", "spiece.model", "vocab.json",
                                        "vocab.txt", "sentencepiece.bpe.model"};
    char path[PATH_MAX];
    bool there = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        WEFT_TRY(path_in(ctx, folder, names[i], path, &there));
        if (!there) continue;
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "%s has %s but no tokenizer.json, expected that; transformers writes it: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
            folder, names[i]);
    }
    return WEFT_OK;
}

weft_status wefti_adopt_bytes(weft_ctx *ctx, const char *folder, int64_t vocab) {
    WEFT_TRY(refuse_other_tokenizer(ctx, folder));
    if (vocab == BYTES) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s has no tokenizer.json, and its model has %lld ids: without "
                         "one it would be %d, the bytes; put it there, or "
                         "set data.tokenizer",
                         folder, (long long)vocab, BYTES);
}

weft_status wefti_adopt_tokenizer(weft_ctx *ctx, weft_config *config,
                                  const char *folder) {
    weft_model_config saved = {.struct_size = sizeof saved};
    char path[PATH_MAX];
    bool there;
    WEFT_TRY(path_in(ctx, folder, "tokenizer.json", path, &there));
    if (there) return wefti_config_suggest(ctx, config, "data.tokenizer", path);
    if (wefti_config_given(config, "data.tokenizer")) return WEFT_OK;
    WEFT_TRY(wefti_adopt_read(ctx, folder, &saved));
    if (saved.image > 0) return WEFT_OK; /* no texts */
    return wefti_adopt_bytes(ctx, folder, saved.vocab);
}

weft_status wefti_adopt_model(weft_ctx *ctx, weft_config *config, const char *folder) {
    weft_model_config saved = {.struct_size = sizeof saved};
    char text[32];
    WEFT_TRY(wefti_adopt_read(ctx, folder, &saved));
    for (const wefti_field *field = wefti_model_fields; field->name; field++)
        WEFT_TRY(take_field(ctx, config, folder, field, &saved));
    if (config->data.length <= saved.context) return WEFT_OK;
    snprintf(text, sizeof text, "%lld", (long long)saved.context);
    return wefti_config_suggest(ctx, config, "data.length", text);
}
