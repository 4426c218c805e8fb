/* SPDX-License-Identifier: MIT */
/* A folder of checkpoints. The names show the state:
 *
 *   step-N.partial   being written
 *   step-N.partial-R   the same by replica R, whose machine does not see the writer's folder
 *   step-N           complete
 *   step-N.old       complete; a newer step-N is about to take its place
 *   step-N.damaged   was complete, and a resumed run found it changed
 *   step-N.removed   being removed
 *
 * Each change of state is one rename of one folder, so after a crash every folder is in
 * one of these states. A folder becomes complete only after everything in it is synced. */
#define _GNU_SOURCE
#include "checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/index.h"

enum { MAX_INDEX_BYTES = 64 << 20 };

typedef enum state { COMPLETE, OLD, PARTIAL, DAMAGED, REMOVED, PART, N_STATES } state;

static const char *const endings[N_STATES] = {"",         ".old",     ".partial",
                                              ".damaged", ".removed", ".partial-"};

enum { NAME_BYTES = 80 };

static void name_of(int64_t step, state in_state, int64_t part, char name[NAME_BYTES]) {
    int n = snprintf(name, NAME_BYTES, "step-%08lld%s", (long long)step,
                     endings[in_state]);
    if (in_state == PART)
        snprintf(name + n, NAME_BYTES - (size_t)n, "%lld", (long long)part);
}

/* [out] path: PATH_MAX. */
static weft_status path_of(weft_ctx *ctx, const char *checkpoints, int64_t step,
                           state in_state, char *path) {
    char name[NAME_BYTES];
    name_of(step, in_state, 0, name);
    return wefti_file_path(ctx, checkpoints, name, path);
}

static weft_status rename_folder(weft_ctx *ctx, const char *from, const char *to) {
    if (rename(from, to) != 0) return wefti_fail_errno(ctx, "rename", from);
    return wefti_file_sync_parent(ctx, to);
}

/* ---- scanning ---- */

typedef struct found {
    int64_t step, part; /* part: the replica that wrote a PART */
    state state;
    bool changed;  /* its bytes are not those that its index lists */
    char why[256]; /* what is wrong with it; "" */
} found;

typedef struct found_list {
    found *items; /* owned; sorted by step, then state */
    int64_t n, capacity;
} found_list;

/* Whether it is exactly a name that path_of makes. */
static bool parse_name(const char *name, found *out) {
    char again[NAME_BYTES];
    if (strncmp(name, "step-", 5) != 0) return false;
    size_t n_digits = strspn(name + 5, "0123456789");
    if (n_digits > 18) return false;
    out->step = (int64_t)strtoll(name + 5, NULL, 10);
    const char *dash = strchr(name + 5, '-');
    out->part = dash ? (int64_t)strtoll(dash + 1, NULL, 10) : 0;
    for (int s = 0; s < N_STATES; s++) {
        out->state = (state)s;
        name_of(out->step, out->state, out->part, again);
        if (wefti_is(name, again)) return true;
    }
    return false;
}

/* Whether the checkpoint has its index, as complete ones do. */
static bool has_index(const char *checkpoints, const char *name) {
    char path[PATH_MAX];
    struct stat info;
    int n = snprintf(path, sizeof path, "%s/%s/index.json", checkpoints, name);
    return n < (int)sizeof path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static weft_status add_found(weft_ctx *ctx, found_list *list, found item) {
    WEFT_TRY(wefti_reserve(ctx, &list->items, &list->capacity, list->n, 1,
                           sizeof *list->items, "a list of checkpoints"));
    list->items[list->n++] = item;
    return WEFT_OK;
}

static weft_status scan_entries(weft_ctx *ctx, const char *checkpoints, DIR *folder,
                                bool damaged_too, found_list *list) {
    for (;;) {
        found item = {0};
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry && errno) return wefti_fail_errno(ctx, "list", checkpoints);
        if (!entry) return WEFT_OK;
        if (!parse_name(entry->d_name, &item)) continue;
        bool complete = item.state == COMPLETE || item.state == OLD;
        if (complete && !damaged_too && !has_index(checkpoints, entry->d_name)) continue;
        WEFT_TRY(add_found(ctx, list, item));
    }
}

static int compare_found(const void *left, const void *right) {
    const found *a = left, *b = right;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    return (a->state > b->state) - (a->state < b->state);
}

/* Lists the checkpoints of a folder; a missing folder has none. `damaged_too`: also those
 * without an index. */
static weft_status scan(weft_ctx *ctx, const char *checkpoints, bool damaged_too,
                        found_list *list) {
    *list = (found_list){0};
    DIR *folder = opendir(checkpoints);
    if (!folder && errno == ENOENT) return WEFT_OK;
    if (!folder && errno == ENOTDIR)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%.*s is a file, expected the folder of a run or a model",
                             (int)(strrchr(checkpoints, '/') - checkpoints), checkpoints);
    if (!folder) return wefti_fail_errno(ctx, "open folder", checkpoints);
    weft_status status = scan_entries(ctx, checkpoints, folder, damaged_too, list);
    closedir(folder);
    if (status != WEFT_OK) {
        wefti_free(ctx, list->items);
        *list = (found_list){0};
    } else if (list->n) {
        qsort(list->items, (size_t)list->n, sizeof *list->items, compare_found);
    }
    return status;
}

/* ---- begin, latest ---- */

static weft_status check_step(weft_ctx *ctx, int64_t step) {
    if (step >= 0 && step < 1000000000000000000) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "a checkpoint of step %lld, expected 0 to 1e18",
                         (long long)step);
}

weft_status wefti_checkpoint_part(weft_ctx *ctx, const char *checkpoints, int64_t step,
                                  int replica, char *path) {
    char name[NAME_BYTES];
    name_of(step, PART, replica, name);
    return wefti_file_path(ctx, checkpoints, name, path);
}

/* All members save the same step, so nobody who takes part writes an earlier part any more. */
static bool is_left(const found *item, int64_t step, bool parts_only) {
    if (item->state == PART) return item->step < step;
    return !parts_only && (item->state == PARTIAL || item->state == REMOVED) &&
           item->step <= step;
}

static weft_status clear_left(weft_ctx *ctx, const char *checkpoints, int64_t step,
                              bool parts_only) {
    char name[NAME_BYTES], path[PATH_MAX];
    found_list list;
    WEFT_TRY(scan(ctx, checkpoints, false, &list));
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < list.n && status == WEFT_OK; i++) {
        found item = list.items[i];
        if (!is_left(&item, step, parts_only)) continue;
        name_of(item.step, item.state, item.part, name);
        status = wefti_file_path(ctx, checkpoints, name, path);
        if (status == WEFT_OK) status = wefti_file_remove_tree(ctx, path);
        if (status != WEFT_ERR_FILE || item.step == step) continue;
        weft_ctx_clear(ctx); /* it stays, and there may be room all the same */
        status = WEFT_OK;
    }
    wefti_free(ctx, list.items);
    return status;
}

weft_status wefti_checkpoint_make_room(weft_ctx *ctx, const char *checkpoints,
                                       int64_t step) {
    return clear_left(ctx, checkpoints, step, false);
}

weft_status wefti_checkpoint_begin_part(weft_ctx *ctx, const char *checkpoints,
                                        int64_t step, int replica, char *path) {
    WEFT_TRY(wefti_checkpoint_part(ctx, checkpoints, step, replica, path));
    WEFT_TRY(clear_left(ctx, checkpoints, step, true));
    return wefti_file_mkdirs(ctx, path);
}

weft_status wefti_checkpoint_begin(weft_ctx *ctx, const char *checkpoints, int64_t step,
                                   char *path) {
    WEFT_TRY(check_step(ctx, step));
    WEFT_TRY(path_of(ctx, checkpoints, step, PARTIAL, path));
    WEFT_TRY(wefti_file_mkdirs(ctx, checkpoints));
    WEFT_TRY(wefti_file_sync_parent(ctx, checkpoints));
    WEFT_TRY(wefti_checkpoint_make_room(ctx, checkpoints, step));
    return wefti_file_mkdirs(ctx, path);
}

weft_status wefti_checkpoint_latest(weft_ctx *ctx, const char *checkpoints, int64_t *step,
                                    char *path) {
    found_list list;
    found best = {.step = -1};
    *step = -1;
    path[0] = '\0';
    WEFT_TRY(scan(ctx, checkpoints, false, &list));
    for (int64_t i = 0; i < list.n; i++) {
        found item = list.items[i]; /* step-N comes before step-N.old and wins */
        if (item.state <= OLD && item.step > best.step) best = item;
    }
    wefti_free(ctx, list.items);
    if (best.step < 0) return WEFT_OK;
    WEFT_TRY(path_of(ctx, checkpoints, best.step, best.state, path));
    *step = best.step;
    return WEFT_OK;
}

/* ---- commit ---- */

/* Flushes the entries of every folder between the file and the checkpoint's folder. */
static weft_status sync_folders(weft_ctx *ctx, const char *folder, const char *name) {
    char path[PATH_MAX];
    WEFT_TRY(wefti_file_path(ctx, folder, name, path));
    for (size_t end = strlen(path); end > strlen(folder); end--) {
        if (path[end] && path[end] != '/') continue;
        path[end] = '\0';
        WEFT_TRY(wefti_file_sync_parent(ctx, path));
    }
    return WEFT_OK;
}

static weft_status write_index(weft_ctx *ctx, const char *folder, int64_t step,
                               const char *layout_json, const wefti_listing *listing) {
    char path[PATH_MAX], *text;
    int64_t n_text;
    WEFT_TRY(wefti_file_path(ctx, folder, "index.json", path));
    WEFT_TRY(wefti_index_encode(ctx, step, layout_json, listing, &text, &n_text));
    weft_status status = wefti_file_write(ctx, path, text, n_text);
    wefti_free(ctx, text);
    return status;
}

static weft_status seal(weft_ctx *ctx, const char *folder, int64_t step,
                        const char *layout_json) {
    wefti_listing listing;
    WEFT_TRY(wefti_listing_scan(ctx, folder, &listing));
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < listing.n && status == WEFT_OK; i++) {
        status = wefti_listing_hash(ctx, folder, true, &listing.files[i]);
        if (status == WEFT_OK) status = sync_folders(ctx, folder, listing.files[i].name);
    }
    if (status == WEFT_OK) status = write_index(ctx, folder, step, layout_json, &listing);
    wefti_listing_fini(ctx, &listing);
    return status;
}

static weft_status publish(weft_ctx *ctx, const char *checkpoints, int64_t step,
                           const char *partial) {
    char complete[PATH_MAX], old[PATH_MAX];
    struct stat info;
    WEFT_TRY(path_of(ctx, checkpoints, step, COMPLETE, complete));
    WEFT_TRY(path_of(ctx, checkpoints, step, OLD, old));
    if (lstat(complete, &info) == 0) {
        WEFT_TRY(wefti_file_remove_tree(ctx, old));
        WEFT_TRY(rename_folder(ctx, complete, old));
    }
    return rename_folder(ctx, partial, complete);
}

static weft_status remove_one(weft_ctx *ctx, const char *checkpoints, found item) {
    char from[PATH_MAX], to[PATH_MAX];
    WEFT_TRY(path_of(ctx, checkpoints, item.step, item.state, from));
    WEFT_TRY(path_of(ctx, checkpoints, item.step, REMOVED, to));
    if (item.state != REMOVED) {
        WEFT_TRY(wefti_file_remove_tree(ctx, to));
        WEFT_TRY(rename_folder(ctx, from, to));
    }
    return wefti_file_remove_tree(ctx, to);
}

/* Whether this folder is to be removed, after `step` was just committed, if `n_newer`
 * complete checkpoints of other steps are newer. */
static bool is_surplus(const found_list *list, int64_t i, int64_t step, int64_t keep,
                       int64_t n_newer) {
    found item = list->items[i];
    if (item.state == PART) return false; /* clear_left removes it */
    if (item.state == REMOVED) return true;
    if (item.state == PARTIAL || item.state == DAMAGED) return item.step <= step;
    bool replaced = item.state == OLD && i > 0 && list->items[i - 1].step == item.step;
    if (replaced) return true;
    return item.step != step && keep > 0 && n_newer >= keep - 1;
}

static weft_status prune(weft_ctx *ctx, const char *checkpoints, int64_t step,
                         int64_t keep) {
    found_list list;
    WEFT_TRY(scan(ctx, checkpoints, false, &list));
    weft_status status = WEFT_OK;
    int64_t n_newer = 0;
    for (int64_t i = list.n - 1; i >= 0 && status == WEFT_OK; i--) {
        if (is_surplus(&list, i, step, keep, n_newer))
            status = remove_one(ctx, checkpoints, list.items[i]);
        else if (list.items[i].state <= OLD && list.items[i].step != step)
            n_newer++;
    }
    wefti_free(ctx, list.items);
    return status;
}

/* Removes old checkpoints. The new one is already on the disk, so a failure here must not
 * stop the run. */
static weft_status prune_or_warn(weft_ctx *ctx, const char *checkpoints, int64_t step,
                                 int64_t keep) {
    bool had_message = weft_ctx_message(ctx)[0] != '\0';
    weft_status status = prune(ctx, checkpoints, step, keep);
    if (status != WEFT_ERR_FILE) return status;
    weft_ctx_log(ctx, WEFT_LOG_WARN, "an old checkpoint stays: %s",
                 had_message ? checkpoints : weft_ctx_message(ctx));
    if (!had_message) weft_ctx_clear(ctx);
    return WEFT_OK;
}

weft_status wefti_checkpoint_commit(weft_ctx *ctx, const char *checkpoints, int64_t step,
                                    const char *layout_json, int64_t keep) {
    char partial[PATH_MAX];
    WEFT_TRY(check_step(ctx, step));
    WEFT_TRY(path_of(ctx, checkpoints, step, PARTIAL, partial));
    WEFT_TRY(seal(ctx, partial, step, layout_json));
    WEFT_TRY(publish(ctx, checkpoints, step, partial));
    return prune_or_warn(ctx, checkpoints, step, keep);
}

/* ---- verify ---- */

static weft_status compare_names(weft_ctx *ctx, const char *path,
                                 const wefti_listing *expected,
                                 const wefti_listing *present) {
    for (int64_t i = 0;; i++) {
        const char *want = i < expected->n ? expected->files[i].name : NULL;
        const char *have = i < present->n ? present->files[i].name : NULL;
        if (!want && !have) return WEFT_OK;
        int order = !want ? 1 : !have ? -1 : strcmp(want, have);
        if (order < 0)
            return weft_ctx_fail(
                ctx, WEFT_ERR_FORMAT,
                "%s is not complete: its index.json lists %s, which is not there", path,
                want);
        if (order > 0)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, /* not a file of weft */
                                 "%s has a file that its index.json does not list: %s",
                                 path, have);
    }
}

static weft_status compare_hash(weft_ctx *ctx, const char *path,
                                const wefti_listed_file *expected,
                                wefti_listed_file *present) {
    WEFT_TRY(wefti_listing_hash(ctx, path, false, present));
    if (present->n_bytes != expected->n_bytes)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s/%s is damaged: it has %lld bytes, expected %lld", path,
                             present->name, (long long)present->n_bytes,
                             (long long)expected->n_bytes);
    if (!wefti_is(present->hash, expected->hash))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s/%s is damaged: its hash is %s, expected %s", path,
                             present->name, present->hash, expected->hash);
    return WEFT_OK;
}

static weft_status compare_files(weft_ctx *ctx, const char *path,
                                 const wefti_listing *expected) {
    wefti_listing present;
    WEFT_TRY(wefti_listing_scan(ctx, path, &present));
    weft_status status = compare_names(ctx, path, expected, &present);
    for (int64_t i = 0; i < expected->n && status == WEFT_OK; i++)
        status = compare_hash(ctx, path, &expected->files[i], &present.files[i]);
    wefti_listing_fini(ctx, &present);
    return status;
}

static weft_status read_index(weft_ctx *ctx, const char *path, int64_t *step,
                              char **layout_json, wefti_listing *listing) {
    char where[PATH_MAX], *text;
    int64_t n_text;
    WEFT_TRY(wefti_file_path(ctx, path, "index.json", where));
    WEFT_TRY(wefti_file_read(ctx, where, MAX_INDEX_BYTES, &text, &n_text));
    weft_status status = wefti_index_decode(ctx, where, text, n_text, step, layout_json,
                                            listing);
    wefti_free(ctx, text);
    return status;
}

weft_status wefti_checkpoint_check_step(weft_ctx *ctx, const char *path, int64_t step) {
    const char *slash = strrchr(path, '/');
    found item;
    if (!parse_name(slash ? slash + 1 : path, &item) || item.step == step) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s holds step %lld, as its index.json says", path,
                         (long long)step);
}

weft_status wefti_checkpoint_verify(weft_ctx *ctx, const char *path, char **layout_json) {
    wefti_listing listing;
    int64_t step = -1;
    *layout_json = NULL;
    WEFT_TRY(read_index(ctx, path, &step, layout_json, &listing));
    weft_status status = wefti_checkpoint_check_step(ctx, path, step);
    if (status == WEFT_OK) status = compare_files(ctx, path, &listing);
    wefti_listing_fini(ctx, &listing);
    if (status != WEFT_OK) {
        wefti_free(ctx, *layout_json);
        *layout_json = NULL;
    }
    return status;
}

/* ---- the newest intact checkpoint ---- */

static bool lacks_index(const char *path) {
    char index[PATH_MAX + 16];
    struct stat info;
    snprintf(index, sizeof index, "%s/index.json", path);
    return stat(index, &info) != 0 && errno == ENOENT;
}

/* Newest first; step-N before its step-N.old. */
static int compare_newest(const void *left, const void *right) {
    const found *a = left, *b = right;
    if (a->step != b->step) return a->step > b->step ? -1 : 1;
    return (a->state > b->state) - (a->state < b->state);
}

/* Damage is recorded in the item and is not a failure. */
static weft_status try_found(weft_ctx *ctx, const char *path, found *item,
                             char **layout_json) {
    weft_status status = wefti_checkpoint_verify(ctx, path, layout_json);
    item->changed = status == WEFT_ERR_FORMAT || (status != WEFT_OK && lacks_index(path));
    if (status != WEFT_ERR_FORMAT && status != WEFT_ERR_FILE) return status;
    snprintf(item->why, sizeof item->why, "%s", weft_ctx_message(ctx));
    weft_ctx_clear(ctx);
    return WEFT_OK;
}

static weft_status set_damaged_aside(weft_ctx *ctx, const char *checkpoints,
                                     const found *item) {
    char from[PATH_MAX], to[PATH_MAX];
    WEFT_TRY(path_of(ctx, checkpoints, item->step, item->state, from));
    WEFT_TRY(path_of(ctx, checkpoints, item->step, DAMAGED, to));
    WEFT_TRY(wefti_file_remove_tree(ctx, to));
    return rename_folder(ctx, from, to);
}

static weft_status find_whole(weft_ctx *ctx, const char *checkpoints, found_list *list,
                              char *path, char **layout_json) {
    const found *newest = NULL;
    int64_t i = 0;
    for (; i < list->n; i++) {
        found *item = &list->items[i];
        if (item->state > OLD) continue;
        WEFT_TRY(path_of(ctx, checkpoints, item->step, item->state, path));
        WEFT_TRY(try_found(ctx, path, item, layout_json));
        if (*layout_json) break;
        if (!newest) newest = item;
    }
    list->n = *layout_json ? i + 1 : 0; /* the intact one is the last */
    if (*layout_json || !newest) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "no checkpoint in %s is whole: %s",
                         checkpoints, newest->why);
}

/* Warns of the damaged checkpoints that are newer than the intact one. */
static weft_status pass_over(weft_ctx *ctx, const char *checkpoints, bool set_aside,
                             const found_list *list) {
    for (int64_t i = 0; i < list->n; i++) {
        const found *item = &list->items[i];
        if (item->why[0])
            weft_ctx_log(ctx, WEFT_LOG_WARN, "a damaged checkpoint is passed over: %s",
                         item->why);
        if (item->changed && set_aside)
            WEFT_TRY(set_damaged_aside(ctx, checkpoints, item));
    }
    return WEFT_OK;
}

weft_status wefti_checkpoint_find_whole(weft_ctx *ctx, const char *checkpoints,
                                        bool set_aside, int64_t before, int64_t *step,
                                        char *path, char **layout_json) {
    found_list list;
    *step = -1;
    *layout_json = NULL;
    path[0] = '\0';
    WEFT_TRY(scan(ctx, checkpoints, true, &list));
    int64_t n = 0;
    for (int64_t i = 0; i < list.n; i++)
        if (list.items[i].step < before) list.items[n++] = list.items[i];
    list.n = n;
    if (list.n) qsort(list.items, (size_t)list.n, sizeof *list.items, compare_newest);
    weft_status status = find_whole(ctx, checkpoints, &list, path, layout_json);
    if (status == WEFT_OK) status = pass_over(ctx, checkpoints, set_aside, &list);
    if (status == WEFT_OK && *layout_json) *step = list.items[list.n - 1].step;
    wefti_free(ctx, list.items);
    if (status == WEFT_OK) return WEFT_OK;
    wefti_free(ctx, *layout_json);
    *layout_json = NULL;
    return status;
}
