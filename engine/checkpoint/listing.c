/* SPDX-License-Identifier: MIT */
/* The files of a checkpoint folder and their hashes (XXH3-128, seed 0, canonical
 * big-endian hex: the number that `xxhsum -H2` prints).
 *
 * Names are relative to the folder and sorted, so that two listings can be compared line
 * by line on any machine. Links and devices do not belong in a checkpoint. They are
 * refused when listing, and again when opening, because a name may refer to something
 * else by then. If the caller asks for it, hashed files are synced, so that an index
 * describes bytes that are on disk. */
#define _GNU_SOURCE
#include "checkpoint/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

enum { MAX_DEPTH = 16, READ_BYTES = 256 << 10 };

/* ---- names ---- */

weft_status wefti_listing_add(weft_ctx *ctx, wefti_listing *listing, const char *name) {
    WEFT_TRY(wefti_reserve(ctx, &listing->files, &listing->capacity, listing->n, 1,
                           sizeof *listing->files, "a list of files"));
    WEFT_TRY(wefti_strdup(ctx, name, &listing->files[listing->n].name));
    listing->n++;
    return WEFT_OK;
}

void wefti_listing_fini(weft_ctx *ctx, wefti_listing *listing) {
    for (int64_t i = 0; i < listing->n; i++) wefti_free(ctx, listing->files[i].name);
    wefti_free(ctx, listing->files);
    *listing = (wefti_listing){0};
}

typedef struct walk {
    weft_ctx *ctx;
    const char *root;
    wefti_listing *listing;
} walk;

static weft_status scan_folder(const walk *w, const char *below, int depth);

/* `name` is relative to the root. */
static weft_status scan_entry(const walk *w, const char *name, int depth) {
    char path[PATH_MAX];
    struct stat info;
    WEFT_TRY(wefti_file_path(w->ctx, w->root, name, path));
    if (lstat(path, &info) != 0) return wefti_fail_errno(w->ctx, "stat", path);
    if (S_ISDIR(info.st_mode)) return scan_folder(w, name, depth + 1);
    if (!S_ISREG(info.st_mode))
        return weft_ctx_fail(
            w->ctx, WEFT_ERR_FORMAT,
            "%s is neither a file nor a folder: it does not belong into a checkpoint",
            path);
    if (wefti_is(name, "index.json")) return WEFT_OK;
    return wefti_listing_add(w->ctx, w->listing, name);
}

static weft_status scan_entries(const walk *w, DIR *folder, const char *below,
                                int depth) {
    for (;;) {
        char name[PATH_MAX];
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry && errno) return wefti_fail_errno(w->ctx, "list", w->root);
        if (!entry) return WEFT_OK;
        if (wefti_is(entry->d_name, ".") || wefti_is(entry->d_name, "..")) continue;
        int n = snprintf(name, sizeof name, "%s%s%s", below, below[0] ? "/" : "",
                         entry->d_name);
        if (n >= (int)sizeof name)
            return weft_ctx_fail(w->ctx, WEFT_ERR_FILE, "path too long: %s/%s", below,
                                 entry->d_name);
        WEFT_TRY(scan_entry(w, name, depth));
    }
}

static weft_status scan_folder(const walk *w, const char *below, int depth) {
    char path[PATH_MAX];
    WEFT_TRY(wefti_file_path(w->ctx, w->root, below, path));
    if (depth > MAX_DEPTH)
        return weft_ctx_fail(w->ctx, WEFT_ERR_FORMAT, "%s lies more than %d folders deep",
                             path, MAX_DEPTH);
    DIR *folder = opendir(path);
    if (!folder) return wefti_fail_errno(w->ctx, "open folder", path);
    weft_status status = scan_entries(w, folder, below, depth);
    closedir(folder);
    return status;
}

static int compare_names(const void *left, const void *right) {
    const wefti_listed_file *a = left, *b = right;
    return strcmp(a->name, b->name);
}

weft_status wefti_listing_scan(weft_ctx *ctx, const char *folder, wefti_listing *out) {
    walk w = {ctx, folder, out};
    *out = (wefti_listing){0};
    WEFTI_TRY_OR(scan_folder(&w, "", 0), wefti_listing_fini(ctx, out));
    if (out->n) qsort(out->files, (size_t)out->n, sizeof *out->files, compare_names);
    return WEFT_OK;
}

/* ---- hashes ---- */

static void hash_to_text(XXH128_hash_t hash, char out[WEFTI_HASH_TEXT]) {
    snprintf(out, WEFTI_HASH_TEXT, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

void wefti_hash_text(const void *data, size_t n_bytes, char out[WEFTI_HASH_TEXT]) {
    hash_to_text(XXH3_128bits(data, n_bytes), out);
}

/* Counts and hashes the bytes of a file, in blocks, since a file may be larger than memory. */
static weft_status hash_open_file(weft_ctx *ctx, int fd, const char *path,
                                  XXH3_state_t *hasher, wefti_listed_file *file) {
    char *buffer;
    weft_status status = WEFT_OK;
    WEFT_TRY(wefti_alloc(ctx, READ_BYTES, "hashing a file", &buffer));
    XXH3_128bits_reset(hasher);
    file->n_bytes = 0;
    for (;;) {
        ssize_t got = read(fd, buffer, READ_BYTES);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) status = wefti_fail_errno(ctx, "read", path);
        if (got <= 0) break;
        XXH3_128bits_update(hasher, buffer, (size_t)got);
        file->n_bytes += got;
    }
    hash_to_text(XXH3_128bits_digest(hasher), file->hash);
    wefti_free(ctx, buffer);
    return status;
}

/* Opens a regular file, without following links or waiting for the other end of a pipe. */
static weft_status open_regular(weft_ctx *ctx, const char *path, int *fd) {
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (*fd < 0) return wefti_fail_errno(ctx, "open", path);
    if (fstat(*fd, &info) == 0 && S_ISREG(info.st_mode)) return WEFT_OK;
    close(*fd);
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is not a regular file", path);
}

weft_status wefti_listing_hash(weft_ctx *ctx, const char *folder, bool sync,
                               wefti_listed_file *file) {
    char path[PATH_MAX];
    int fd;
    WEFT_TRY(wefti_file_path(ctx, folder, file->name, path));
    WEFT_TRY(open_regular(ctx, path, &fd));
    XXH3_state_t *hasher = XXH3_createState();
    weft_status status = hasher ? hash_open_file(ctx, fd, path, hasher, file)
                                : weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                                                "no memory for hashing %s", path);
    XXH3_freeState(hasher);
    if (status == WEFT_OK && sync && fsync(fd) != 0)
        status = wefti_fail_errno(ctx, "sync", path);
    close(fd);
    return status;
}
