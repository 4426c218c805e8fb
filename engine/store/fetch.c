/* SPDX-License-Identifier: MIT */
/* The cache, H being a hash of the address:
 *
 *     H/NAME       the copy             H.whole   as old as the last time that the server was asked
 *     H.NAME.from  what it is a copy of H.lock    held by who fetches
 *     H.NAME.part  its beginning
 *
 * of a file; H-model for the files of a model, in the same way.
 *
 * A run at an address is a folder as upload.c writes it:
 *
 *     config.yaml, metrics.jsonl, ...   step-00000100/index.json and the files that it lists
 *     latest                            step-00000100
 *
 * Files of checkpoints are compared with the hashes of index.json; names must be names. */
#define _GNU_SOURCE
#include "store/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/stop.h"
#include "base/text.h"
#include "checkpoint/folder.h"
#include "checkpoint/index.h"
#include "store/http.h"
#include "text/json.h"

enum { FRESH_S = 60, LATEST_BYTES = 64, JSON_BYTES = 64 << 20 };
static const double say_every_s = 10;

const char *const wefti_records[] = {
    "config.yaml", "metrics.jsonl", "nodes.jsonl",  "views.jsonl",
    "plan.json",   "decision.json", "cluster.yaml", NULL};

/* A place in the cache. */
typedef struct copy {
    weft_ctx *ctx;
    const char *address;
    char base[PATH_MAX]; /* CACHE/H */
    int lock;
} copy;

/* --- the cache --- */

static weft_status find_place(copy *c, const char *of) {
    const char *const ways[][2] = {{getenv("WEFT_CACHE"), ""},
                                   {getenv("XDG_CACHE_HOME"), "/weft"},
                                   {getenv("HOME"), "/.cache/weft"}};
    char hash[WEFTI_HASH_TEXT], key[WEFTI_URL_BYTES];
    wefti_address_key(c->address, key);
    wefti_hash_text(key, strlen(key), hash);
    for (int i = 0; i < 3; i++) {
        if (!ways[i][0] || !ways[i][0][0]) continue;
        snprintf(c->base, PATH_MAX, "%.3900s%s/%.16s%s", ways[i][0], ways[i][1], hash,
                 of);
        return wefti_file_mkdirs(c->ctx, c->base);
    }
    return weft_ctx_fail(c->ctx, WEFT_ERR_CONFIG,
                         "there is no place for what is fetched: WEFT_CACHE, "
                         "XDG_CACHE_HOME and HOME are not set");
}

static const char *beside(const copy *c, const char *end, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%.3980s.%.90s", c->base, end);
    return path;
}

/* One process fetches, the others wait for it. `of`: what the address is of, "" or "-model". */
static weft_status open_copy(weft_ctx *ctx, const char *address, const char *of,
                             copy *c) {
    char path[PATH_MAX];
    double said_s = wefti_now_s();
    *c = (copy){.ctx = ctx, .address = address, .lock = -1};
    WEFT_TRY(find_place(c, of));
    c->lock = open(beside(c, "lock", path), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (c->lock < 0) return wefti_fail_errno(ctx, "open", path);
    while (flock(c->lock, LOCK_EX | LOCK_NB) != 0) {
        if (wefti_stop_asked(ctx) || (errno != EWOULDBLOCK && errno != EINTR)) {
            close(c->lock);
            return wefti_fail_errno(ctx, "lock", path);
        }
        if (wefti_now_s() > said_s + say_every_s) {
            said_s = wefti_now_s();
            weft_ctx_log(ctx, WEFT_LOG_INFO, "waits for another process that fetches %s",
                         address);
        }
        wefti_sleep_until_s(wefti_now_s() + 0.1);
    }
    return WEFT_OK;
}

/* Whether a file is not older than a minute, and has so many bytes. */
static bool is_recent(const char *path, int64_t least) {
    struct stat info;
    return stat(path, &info) == 0 && info.st_size >= least &&
           llabs((long long)(time(NULL) - info.st_mtime)) < FRESH_S;
}

/* Where a signature is missing nobody can be asked: the copy is what was read last. */
static bool is_fresh(const copy *c) {
    char path[PATH_MAX];
    return is_recent(beside(c, "whole", path), 0) ||
           (wefti_address_lacks(c->address) && access(path, F_OK) == 0);
}

static weft_status close_copy(copy *c, weft_status status, bool whole) {
    char path[PATH_MAX];
    if (status == WEFT_OK && whole)
        status = wefti_file_write(c->ctx, beside(c, "whole", path), "", 0);
    close(c->lock);
    return status;
}

static bool is_plain(const char *name) {
    return name && name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) < 80;
}

static weft_status check_plain(const copy *c, const char *name) {
    if (is_plain(name)) return WEFT_OK;
    return weft_ctx_fail(c->ctx, WEFT_ERR_FORMAT,
                         "%s names a file '%.80s', expected a plain name", c->address,
                         name ? name : "");
}

/* Brings the file `below` as FOLDER/name. */
static weft_status bring(copy *c, const char *folder, const char *name, wefti_transfer t,
                         bool *there) {
    char path[PATH_MAX], side[PATH_MAX];
    WEFT_TRY(check_plain(c, name));
    WEFT_TRY(wefti_file_path(c->ctx, folder, name, path));
    t.address = c->address;
    t.path = path;
    t.side = beside(c, name, side);
    WEFT_TRY(wefti_http(c->ctx, WEFTI_FETCH, &t, there));
    if (!*there) unlink(path);
    return WEFT_OK;
}

weft_status wefti_fetch_file(weft_ctx *ctx, const char *name, char path[PATH_MAX]) {
    char file[NAME_MAX + 1];
    copy c;
    bool there;
    snprintf(path, PATH_MAX, "%.4090s", name);
    if (!wefti_address_is(name)) return WEFT_OK;
    wefti_address_name(name, file);
    WEFT_TRY(open_copy(ctx, name, "", &c));
    weft_status status = wefti_file_path(ctx, c.base, file, path);
    if (status == WEFT_OK && !(is_fresh(&c) && access(path, F_OK) == 0))
        status = bring(&c, c.base, file, (wefti_transfer){.below = ""}, &there);
    return close_copy(&c, status, true);
}

/* The beginning of the copy, or of what there is of it. */
static weft_status read_head(const copy *c, const char *path, char *head, int64_t most,
                             int64_t *n) {
    FILE *file = fopen(path, "rb");
    if (!file) return wefti_fail_errno(c->ctx, "open", path);
    *n = (int64_t)fread(head, 1, (size_t)most, file);
    fclose(file);
    return WEFT_OK;
}

weft_status wefti_fetch_head(weft_ctx *ctx, const char *address, char *head, int64_t most,
                             int64_t *n) {
    char file[NAME_MAX + 1], part_name[NAME_MAX + 8], path[PATH_MAX], part[PATH_MAX];
    copy c;
    bool there = true;
    *n = -1;
    wefti_address_name(address, file);
    WEFT_TRY(open_copy(ctx, address, "", &c));
    snprintf(part_name, sizeof part_name, "%.80s.part", file);
    beside(&c, part_name, part);
    weft_status status = wefti_file_path(ctx, c.base, file, path);
    bool asked = is_recent(part, most) || (is_fresh(&c) && access(path, F_OK) == 0);
    const wefti_transfer t = {
        .below = "", .first = most, .optional = true, .hidden = true};
    if (status == WEFT_OK && !asked) status = bring(&c, c.base, file, t, &there);
    bool whole = access(part, F_OK) != 0;
    if (status == WEFT_OK && there)
        status = read_head(&c, whole ? path : part, head, most, n);
    return close_copy(&c, status, there && whole && !asked);
}

/* A small file, as text; NULL: it is not there. */
static weft_status read_text(copy *c, const char *name, int64_t most, char **text,
                             int64_t *n) {
    const wefti_transfer t = {.below = name, .most = most, .optional = true};
    char folder[PATH_MAX], path[PATH_MAX];
    bool there;
    *text = NULL;
    WEFT_TRY(wefti_file_mkdirs(c->ctx, beside(c, "texts", folder)));
    WEFT_TRY(bring(c, folder, name, t, &there));
    WEFT_TRY(wefti_file_path(c->ctx, folder, name, path));
    return there ? wefti_file_read(c->ctx, path, most, text, n) : WEFT_OK;
}

/* --- checkpoints --- */

weft_status wefti_fetch_step(weft_ctx *ctx, const char *address, int64_t *step) {
    char *text, *rest = NULL;
    int64_t n;
    copy c;
    *step = -1;
    WEFT_TRY(open_copy(ctx, address, "", &c));
    WEFT_TRY(close_copy(&c, read_text(&c, "latest", LATEST_BYTES, &text, &n), false));
    if (!text) return WEFT_OK;
    if (strncmp(text, "step-", 5) == 0 && strspn(text + 5, "0123456789") == 8)
        *step = strtoll(text + 5, &rest, 10);
    bool fine = rest && wefti_is(rest, "\n");
    wefti_free(ctx, text);
    return fine ? WEFT_OK
                : weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                "%s/latest is damaged, expected step- and eight digits",
                                address);
}

/* The files of a checkpoint; none: there is no index.json. */
static weft_status read_index(copy *c, wefti_listing *files) {
    char *text, *layout;
    int64_t n, step;
    *files = (wefti_listing){0};
    WEFT_TRY(read_text(c, "index.json", JSON_BYTES, &text, &n));
    if (!text) return WEFT_OK;
    weft_status status = wefti_index_decode(c->ctx, c->address, text, n, &step, &layout,
                                            files);
    wefti_free(c->ctx, text);
    if (status != WEFT_OK) return status;
    wefti_free(c->ctx, layout);
    status = wefti_checkpoint_check_step(c->ctx, c->address, step);
    if (status != WEFT_OK) wefti_listing_fini(c->ctx, files);
    return status;
}

/* What belongs to a run and not to its model. */
static bool is_state(const char *name) {
    return strncmp(name, "optimizer", 9) == 0 || strncmp(name, "replica-", 8) == 0;
}

/* Fetches the listed files that the folder does not have with these bytes. */
static weft_status bring_listed(copy *c, const char *folder, const wefti_listing *files,
                                bool all) {
    char path[PATH_MAX];
    bool there;
    for (int64_t i = 0; i < files->n; i++) {
        const wefti_listed_file *want = &files->files[i];
        wefti_listed_file have = *want;
        if (!all && is_state(want->name)) continue;
        WEFT_TRY(check_plain(c, want->name));
        bool whole = wefti_listing_hash(c->ctx, folder, false, &have) == WEFT_OK &&
                     wefti_is(have.hash, want->hash);
        if (whole) continue;
        weft_ctx_clear(c->ctx);
        WEFT_TRY(wefti_file_path(c->ctx, folder, want->name, path));
        unlink(path); /* the server's may be the same as before */
        const wefti_transfer t = {.below = want->name,
                                  .most = want->n_bytes > 0 ? want->n_bytes : 1};
        WEFT_TRY(bring(c, folder, want->name, t, &there));
        WEFT_TRY(wefti_listing_hash(c->ctx, folder, false, &have));
        if (!wefti_is(have.hash, want->hash))
            return weft_ctx_fail(c->ctx, WEFT_ERR_FORMAT,
                                 "%s/%s has not the bytes that index.json lists",
                                 c->address, want->name);
    }
    return WEFT_OK;
}

/* --- models of other programs --- */

static weft_status bring_shards(copy *c) {
    static const char name[] = "model.safetensors.index.json";
    const wefti_transfer t = {.below = name, .most = JSON_BYTES};
    char path[PATH_MAX], *text;
    const char *tensor, *last = "";
    json_t *index, *value;
    int64_t n;
    bool there;
    WEFT_TRY(bring(c, c->base, name, t, &there));
    WEFT_TRY(wefti_file_path(c->ctx, c->base, name, path));
    WEFT_TRY(wefti_file_read(c->ctx, path, JSON_BYTES, &text, &n));
    weft_status status = wefti_json_read(c->ctx, "", path, text, n, WEFT_ERR_FORMAT,
                                         &index);
    wefti_free(c->ctx, text);
    json_object_foreach(json_object_get(index, "weight_map"), tensor, value) {
        const char *shard = json_string_value(value);
        if (status != WEFT_OK || (shard && wefti_is(shard, last))) continue;
        status = bring(c, c->base, shard, (wefti_transfer){.below = shard}, &there);
        last = shard;
    }
    json_decref(index);
    return status;
}

static weft_status bring_model(copy *c) {
    static const char *const small[] = {"config.json", "tokenizer.json",
                                        "tokenizer_config.json", "chat_template.jinja"};
    const wefti_transfer whole = {.below = "model.safetensors", .optional = true};
    bool there = false;
    for (int i = 0; i < 4; i++) {
        const wefti_transfer t = {
            .below = small[i], .optional = i > 0, .most = JSON_BYTES};
        WEFT_TRY(bring(c, c->base, small[i], t, &there));
    }
    WEFT_TRY(bring(c, c->base, whole.below, whole, &there));
    return there ? WEFT_OK : bring_shards(c);
}

static void name_step(const char *address, int64_t step, char out[WEFTI_URL_BYTES]) {
    char name[32];
    snprintf(name, sizeof name, "step-%08lld", (long long)step);
    (void)wefti_address_below(address, name, out); /* `latest` below it was fetched */
}

weft_status wefti_fetch_model(weft_ctx *ctx, const char *name, char path[PATH_MAX]) {
    char newest[WEFTI_URL_BYTES];
    int64_t step;
    wefti_listing listed;
    copy c;
    if (!wefti_address_is(name)) return wefti_fetch_file(ctx, name, path);
    WEFT_TRY(open_copy(ctx, name, "-model", &c));
    snprintf(path, PATH_MAX, "%s", c.base);
    bool fresh = is_fresh(&c);
    WEFT_TRY(close_copy(&c, WEFT_OK, false));
    if (fresh) return WEFT_OK;
    WEFT_TRY(wefti_fetch_step(ctx, name, &step));
    name_step(name, step, newest);
    WEFT_TRY(open_copy(ctx, step >= 0 ? newest : name, "-model", &c));
    snprintf(path, PATH_MAX, "%s", c.base);
    if (is_fresh(&c)) return close_copy(&c, WEFT_OK, false);
    weft_status status = read_index(&c, &listed);
    if (status == WEFT_OK && listed.n == 0 && step >= 0)
        status = weft_ctx_fail(ctx, WEFT_ERR_FILE,
                               "%s has no index.json: it is being written; try again",
                               newest);
    if (status == WEFT_OK)
        status = listed.n > 0 ? bring_listed(&c, c.base, &listed, false)
                              : bring_model(&c);
    wefti_listing_fini(ctx, &listed);
    return close_copy(&c, status, true);
}

weft_status wefti_fetch_part(weft_ctx *ctx, const char *address, const char *name,
                             char path[PATH_MAX], bool *there) {
    const wefti_transfer t = {.below = name, .optional = true, .most = JSON_BYTES};
    char newest[WEFTI_URL_BYTES];
    int64_t step;
    copy c;
    *there = true;
    WEFT_TRY(wefti_fetch_step(ctx, address, &step));
    name_step(address, step, newest);
    WEFT_TRY(open_copy(ctx, step >= 0 ? newest : address, "-model", &c));
    weft_status status = wefti_file_path(ctx, c.base, name, path);
    if (status == WEFT_OK && !(is_fresh(&c) && access(path, F_OK) == 0))
        status = bring(&c, c.base, name, t, there);
    return close_copy(&c, status, false);
}

/* --- runs --- */

/* Into step-N.partial, which is step-N when all of it is there. */
static weft_status bring_checkpoint(copy *c, const char *folder) {
    char partial[PATH_MAX], *layout;
    const wefti_transfer index = {.below = "index.json", .most = JSON_BYTES};
    wefti_listing files;
    bool there;
    snprintf(partial, sizeof partial, "%.4000s.partial", folder);
    WEFT_TRY(wefti_file_mkdirs(c->ctx, partial));
    WEFT_TRY(read_index(c, &files));
    weft_status status = bring_listed(c, partial, &files, true);
    wefti_listing_fini(c->ctx, &files);
    WEFT_TRY(status);
    WEFT_TRY(bring(c, partial, index.below, index, &there));
    WEFTI_TRY_OR(wefti_checkpoint_verify(c->ctx, partial, &layout),
                 (void)!wefti_file_remove_tree(c->ctx, partial));
    wefti_free(c->ctx, layout);
    WEFT_TRY(wefti_file_remove_tree(c->ctx, folder));
    if (rename(partial, folder) != 0) return wefti_fail_errno(c->ctx, "rename", partial);
    return wefti_file_sync_parent(c->ctx, folder);
}

static weft_status bring_records(copy *c, const char *folder) {
    char path[PATH_MAX];
    bool there;
    for (const char *const *name = wefti_records; *name; name++) {
        WEFT_TRY(wefti_file_path(c->ctx, folder, *name, path));
        if (wefti_is(*name, "config.yaml") && access(path, F_OK) == 0) continue;
        const wefti_transfer t = {.below = *name, .optional = true};
        WEFT_TRY(bring(c, folder, *name, t, &there));
    }
    return WEFT_OK;
}

weft_status wefti_fetch_run(weft_ctx *ctx, const char *address, const char *folder,
                            int64_t newest) {
    char from[WEFTI_URL_BYTES], to[PATH_MAX];
    int64_t step;
    copy c;
    WEFT_TRY(wefti_fetch_step(ctx, address, &step));
    if (step <= newest) return WEFT_OK;
    name_step(address, step, from);
    snprintf(to, sizeof to, "%.4000s/checkpoints/step-%08lld", folder, (long long)step);
    weft_ctx_log(ctx, WEFT_LOG_INFO, "fetches %s", from);
    WEFT_TRY(open_copy(ctx, address, "",
                       &c)); /* first, for they reach beyond the checkpoint */
    WEFT_TRY(close_copy(&c, bring_records(&c, folder), false));
    WEFT_TRY(open_copy(ctx, from, "", &c));
    return close_copy(&c, bring_checkpoint(&c, to), false);
}
