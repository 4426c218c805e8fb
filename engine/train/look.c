/* SPDX-License-Identifier: MIT */
/* What lies at a path or an address that a command line names, by its beginning, before
 * anything is made of it. What text is, is decided where texts are read (input/documents.h); of
 * an address only the beginning is fetched:
 *
 *     text or ids                     data
 *     a page, or nothing              a model, if config.json is below it; else an error */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/train.h>

#include "base/file.h"
#include "base/text.h"
#include "data/shardlayout.h"
#include "data/source.h"
#include "input/documents.h"
#include "job/job.h"
#include "model/model.h"
#include "runfiles/adopt.h"
#include "store/address.h"
#include "store/fetch.h"
#include "text/sniff.h"

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
    if (wefti_fetch_description(ctx, address, path, &there) == WEFT_OK) return there;
    weft_ctx_clear(ctx);
    return false;
}

weft_status weft_address_look(weft_ctx *ctx, const char *address, char *config,
                              size_t config_size) {
    char head[HEAD_BYTES], path[PATH_MAX];
    const char *found = NULL;
    int64_t n;
    config[0] = '\0';
    if (!wefti_address_is(address))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s is an address that is not known, expected https://, "
                             "http://, s3:// or a file",
                             address);
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

/* Whether the rows are of images, or the model that says so is not known yet. */
static bool takes_images(weft_ctx *ctx, const weft_config *config) {
    weft_model_config model = {.struct_size = sizeof model};
    if (wefti_job_input(config) == WEFTI_INPUT_IMAGES) return true;
    if (!config->model.init[0]) return false;
    if (wefti_adopt_read(ctx, config->model.init, &model) == WEFT_OK)
        return wefti_model_find(model.kind)->input == WEFTI_INPUT_IMAGES;
    weft_ctx_clear(ctx);
    return true;
}

static weft_status look_at_file(weft_ctx *ctx, const char *path) {
    char head[HEAD_BYTES];
    if (!wefti_source_is_shard(path)) return wefti_documents_look(ctx, path);
    FILE *file = fopen(path, "rb");
    if (!file) return wefti_fail_errno(ctx, "open", path);
    int64_t n = (int64_t)fread(head, 1, sizeof head, file);
    fclose(file);
    const char *found = what_else(path, head, n);
    if (!found) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is %s, expected token ids", path,
                         found);
}

weft_status weft_data_look(weft_ctx *ctx, const weft_config *config, const char *path,
                           bool *is_text) {
    struct stat info;
    wefti_walk files = {0};
    *is_text = false;
    if (wefti_is(path, "-") || wefti_address_is(path)) return WEFT_OK;
    if (stat(path, &info) != 0) return wefti_fail_errno(ctx, "open", path);
    if (S_ISFIFO(info.st_mode) || takes_images(ctx, config)) return WEFT_OK;
    if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is not a regular file or a pipe",
                             path);
    weft_status status = wefti_source_files(ctx, path, &files);
    for (int64_t k = 0; k < files.n && status == WEFT_OK; k++)
        status = look_at_file(ctx, files.paths[k]);
    wefti_walk_fini(ctx, &files);
    *is_text = S_ISREG(info.st_mode) && !wefti_source_is_shard(path);
    return status;
}
