/* SPDX-License-Identifier: MIT */
/* What lies at a path or an address that a command line names, by its beginning, before
 * anything is made of it. What text is, is decided where texts are read (input/documents.h); of
 * an address only the beginning is fetched:
 *
 *     text or ids                     data
 *     a page, or nothing              a model, if config.json is below it; else an error */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/train.h>

#include "base/file.h"
#include "base/text.h"
#include "config/layers.h"
#include "config/named.h"
#include "data/shardlayout.h"
#include "data/windows.h"
#include "input/documents.h"
#include "job/job.h"
#include "runfiles/adopt.h"
#include "runfiles/inherit.h"
#include "store/address.h"
#include "store/fetch.h"
#include "text/sniff.h"
#include "token/encode.h"
#include "train/prepare.h"

enum { HEAD_BYTES = 1 << 14 };

/* What the beginning says that is neither text nor token ids; NULL: it may be one of them. */
static const char *what_else(const char *name, const char *head, int64_t n) {
    bool ours = n >= WEFTI_SHARD_MAGIC_BYTES &&
                memcmp(head, wefti_shard_magic, WEFTI_SHARD_MAGIC_BYTES) == 0;
    bool packed = n >= 4 && (memcmp(head, "\x1F\x8B", 2) == 0 ||
                             memcmp(head, "\x28\xB5\x2F\xFD", 4) == 0);
    if (ours || packed) return NULL;
    if (wefti_text_is_named(name, ".bin")) return wefti_sniff_mark(head, n);
    const char *found = wefti_sniff(head, n);
    bool plain = wefti_text_layout_of(name) == WEFTI_TEXT_PLAIN;
    return found || !plain ? found : wefti_sniff_json(head, n);
}

/* What goes wrong on the way to a description means that there is none. */
static bool has_description(weft_ctx *ctx, const char *address, char path[PATH_MAX]) {
    bool there;
    if (wefti_fetch_part(ctx, address, "config.json", path, &there) == WEFT_OK)
        return there;
    weft_ctx_clear(ctx);
    return false;
}

weft_status weft_address_check(weft_ctx *ctx, const char *text) {
    const char *secret = wefti_secret_in(text);
    return secret ? weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s", secret) : WEFT_OK;
}

char *weft_address_hide(char *text) { return wefti_text_hide(text); }

weft_status weft_address_look(weft_ctx *ctx, const char *address, char *config,
                              size_t config_size) {
    char head[HEAD_BYTES], path[PATH_MAX];
    const char *found = NULL;
    int64_t n;
    config[0] = '\0';
    if (!wefti_address_is(address)) return wefti_fail_address(ctx, address, "a file");
    WEFT_TRY(wefti_fetch_head(ctx, address, head, sizeof head, &n));
    if (n >= 0) found = what_else(address, head, n);
    if (n >= 0 && !found) return WEFT_OK;
    if (!wefti_text_layout_known(address) && has_description(ctx, address, path)) {
        snprintf(config, config_size, "%s", path);
        return WEFT_OK;
    }
    if (n < 0)
        return wefti_fetch_file(ctx, address, path); /* says what the server says */
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s is %s, expected text in UTF-8, token ids or the folder of "
                         "a model",
                         address, found);
}

/* Of an address config.json alone is fetched, for a short text tokenizer.json, too. */
weft_status weft_config_adopt(weft_ctx *ctx, weft_config *config) {
    char path[PATH_MAX], *end;
    if (!wefti_address_is(config->model.init)) return wefti_inherit(ctx, config, NULL);
    WEFT_TRY(weft_address_look(ctx, config->model.init, path, sizeof path));
    end = strrchr(path, '/');
    if (!end)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is data, expected a model",
                             config->model.init);
    *end = '\0';
    return wefti_adopt_model(ctx, config, path);
}

/* How the files of a path are read. */
typedef struct reading {
    weft_config *config; /* owned: with what model.init brings */
    bool texts;          /* false: images, or the model that says so is not known yet */
    wefti_fields fields;
    bool windows;              /* false: rows have fields of their own */
    weft_tokenizer *tokenizer; /* owned; NULL: not opened, or not known yet */
} reading;

/* Lets data.tokenizer name that of a model at an address, as wefti_inherit does of a folder. */
static weft_status fetch_tokenizer(weft_ctx *ctx, weft_config *config) {
    const char *model = config->model.init;
    char path[PATH_MAX];
    bool there;
    if (!wefti_address_is(model) || wefti_config_given(config, "data.tokenizer"))
        return WEFT_OK;
    WEFT_TRY(wefti_fetch_part(ctx, model, "tokenizer.json", path, &there));
    return there ? wefti_config_suggest(ctx, config, "data.tokenizer", path)
                 : wefti_adopt_bytes(ctx, model, config->model.vocab);
}

static weft_status open_tokenizer(weft_ctx *ctx, reading *out) {
    if (!out->windows || out->tokenizer) return WEFT_OK;
    WEFT_TRY(fetch_tokenizer(ctx, out->config));
    const char *name = out->config->data.tokenizer;
    if (wefti_tokenizer_is_trained(name)) return WEFT_OK;
    if (wefti_tokenizer_names_ids(name))
        return wefti_tokenizer_create_ids(ctx, out->config->data.vocab, &out->tokenizer);
    return weft_tokenizer_open(ctx, name, &out->tokenizer);
}

/* Of a model that cannot be taken over nothing is known yet: who takes it over says why. */
static weft_status find_reading(weft_ctx *ctx, const weft_config *config, reading *out) {
    weft_config *own;
    *out = (reading){0};
    WEFT_TRY(weft_config_copy(ctx, config, &own));
    *out = (reading){.config = own, .fields = {own->data.field, own->data.column}};
    if (weft_config_adopt(ctx, own) != WEFT_OK) return weft_ctx_clear(ctx), WEFT_OK;
    wefti_input input = wefti_job_input(own);
    out->texts = input != WEFTI_INPUT_IMAGES;
    out->windows = input == WEFTI_INPUT_TEXT && wefti_is(own->data.rows, "windows");
    return WEFT_OK;
}

static void forget_reading(weft_ctx *ctx, reading *how) {
    weft_tokenizer_destroy(ctx, how->tokenizer);
    weft_config_destroy(ctx, how->config);
}

static weft_status look_at_file(weft_ctx *ctx, reading *how, const char *path) {
    char head[HEAD_BYTES];
    bool shard = wefti_source_is_shard(path);
    if (!shard && how->windows && wefti_tokenizer_names_ids(how->config->data.tokenizer))
        return wefti_fail_text_for_ids(ctx, path);
    if (!shard)
        return wefti_documents_look(ctx, path, how->windows ? &how->fields : NULL);
    FILE *file = fopen(path, "rb");
    if (!file) return wefti_fail_errno(ctx, "open", path);
    int64_t n = (int64_t)fread(head, 1, sizeof head, file);
    fclose(file);
    const char *found = what_else(path, head, n);
    if (!found) WEFT_TRY(open_tokenizer(ctx, how));
    if (!found) return wefti_shard_look(ctx, path, how->tokenizer);
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is %s, expected token ids", path,
                         found);
}

static bool names(const weft_texts *paths, const char *path) {
    for (int i = 0; i < paths->n; i++)
        if (wefti_is(paths->items[i], path)) return true;
    return false;
}

/* Where a tokenizer learns from addresses or pipes, too, it is learned by the run alone. */
static bool lies_here(const weft_texts *paths) {
    struct stat info;
    for (int i = 0; i < paths->n; i++)
        if (stat(paths->items[i], &info) != 0 || S_ISFIFO(info.st_mode)) return false;
    return true;
}

/* Refuses what is too short for a window, as the run cuts it. Only what may be is encoded. */
static weft_status look_at_length(weft_ctx *ctx, reading *how, const char *path,
                                  int64_t n_bytes) {
    enum { TOKEN_BYTES = 32 }; /* more than a token has in the mean of any text */
    const weft_config *c = how->config;
    bool validates = !names(&c->data.path, path) && names(&c->data.validation_path, path);
    double share = validates ? 1 : c->data.validation_path.n > 0 ? 0 : c->data.validation;
    double least = share > 0 && share < 1 ? fmin(share, 1 - share) : 1;
    double most_bytes = TOKEN_BYTES * (double)(c->data.length + 1) / least;
    wefti_id_limit limit = {.bytes_left = INT64_MAX};
    wefti_source source = {0};
    int64_t cut;
    if (!how->windows || (double)n_bytes > most_bytes) return WEFT_OK;
    WEFT_TRY(open_tokenizer(ctx, how));
    if (!how->tokenizer && lies_here(&c->data.path))
        WEFT_TRY(wefti_prepare_bpe(ctx, c, &how->tokenizer));
    if (!how->tokenizer) return WEFT_OK;
    wefti_source_wish wish = {.encoding = {.tokenizer = how->tokenizer,
                                           .fields = how->fields,
                                           .threads = 1,
                                           .quiet = true},
                              .limit = &limit};
    weft_status status = wefti_source_open(ctx, &source, path, &wish);
    if (status == WEFT_OK)
        status = wefti_source_cut(ctx, &source, c->data.length, share, &cut);
    wefti_source_close(ctx, &source);
    return status;
}

static weft_status look_at_all(weft_ctx *ctx, reading *how, const char *path) {
    wefti_walk files = {0};
    int64_t n_bytes = 0;
    struct stat info;
    weft_status status = wefti_source_files(ctx, path, &files);
    for (int64_t k = 0; k < files.n && status == WEFT_OK; k++) {
        status = look_at_file(ctx, how, files.paths[k]);
        if (stat(files.paths[k], &info) == 0) n_bytes += info.st_size;
    }
    wefti_walk_fini(ctx, &files);
    return status == WEFT_OK ? look_at_length(ctx, how, path, n_bytes) : status;
}

weft_status weft_data_look(weft_ctx *ctx, const weft_config *config, const char *path,
                           bool *is_text) {
    struct stat info;
    reading how;
    *is_text = false;
    if (wefti_is(path, "-") || wefti_address_is(path)) return WEFT_OK;
    if (stat(path, &info) != 0) return wefti_fail_errno(ctx, "open", path);
    if (S_ISFIFO(info.st_mode)) return WEFT_OK;
    weft_status status = find_reading(ctx, config, &how);
    if (status == WEFT_OK && how.texts)
        status = S_ISDIR(info.st_mode) || S_ISREG(info.st_mode)
                     ? look_at_all(ctx, &how, path)
                     : weft_ctx_fail(ctx, WEFT_ERR_FILE,
                                     "%s is not a regular file or a pipe", path);
    bool looked = how.texts;
    forget_reading(ctx, &how);
    *is_text = looked && S_ISREG(info.st_mode) && !wefti_source_is_shard(path);
    return status;
}
