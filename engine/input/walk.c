/* SPDX-License-Identifier: MIT */
/* Files below a folder, in an order that depends on their names alone: the order in which a
 * file system lists them would make two machines train on different data. */
#define _GNU_SOURCE
#include "input/walk.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"

enum { DEEPEST = 64 }; /* folders within folders */

typedef struct walker {
    weft_ctx *ctx;
    bool (*wanted)(const char *name);
    wefti_walk *walk;
} walker;

static weft_status walk_folder(const walker *w, const char *path, int depth);

/* Counts a file under the end of its name. */
static void skip(wefti_walk *k, const char *name) {
    const char *dot = strrchr(name, '.');
    if (!dot || strlen(dot) >= sizeof k->skipped[0].ending) dot = "";
    int i = 0;
    while (i < WEFTI_MOST_UNWANTED - 1 && k->skipped[i].n > 0 &&
           strcmp(k->skipped[i].ending, dot) != 0)
        i++;
    if (k->skipped[i].n == 0 && i < WEFTI_MOST_UNWANTED - 1)
        memcpy(k->skipped[i].ending, dot, strlen(dot) + 1);
    k->skipped[i].n++;
    k->n_skipped++;
}

static weft_status add(const walker *w, const char *path, const char *name) {
    wefti_walk *k = w->walk;
    if (!w->wanted(name)) {
        skip(k, name);
        return WEFT_OK;
    }
    WEFT_TRY(wefti_reserve(w->ctx, &k->paths, &k->capacity, k->n, 1, sizeof *k->paths,
                           "names of files"));
    WEFT_TRY(wefti_strdup(w->ctx, path, &k->paths[k->n]));
    k->n++;
    return WEFT_OK;
}

/* A file, a link to a file, or a folder; anything else is passed over, and what is gone since
 * it was listed, such as a file that an editor keeps for a moment. */
static weft_status visit(const walker *w, const char *path, const char *name, int depth) {
    struct stat info;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? WEFT_OK : wefti_fail_errno(w->ctx, "stat", path);
    if (S_ISDIR(info.st_mode)) return walk_folder(w, path, depth + 1);
    if (S_ISLNK(info.st_mode) && (stat(path, &info) != 0 || S_ISDIR(info.st_mode)))
        return WEFT_OK;
    return S_ISREG(info.st_mode) ? add(w, path, name) : WEFT_OK;
}

static weft_status list(const walker *w, const char *path, DIR *folder, int depth) {
    char below[PATH_MAX];
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry && errno != 0) return wefti_fail_errno(w->ctx, "read", path);
        if (!entry) return WEFT_OK;
        if (entry->d_name[0] == '.') continue;
        WEFT_TRY(wefti_file_path(w->ctx, path, entry->d_name, below));
        WEFT_TRY(visit(w, below, entry->d_name, depth));
    }
}

static weft_status walk_folder(const walker *w, const char *path, int depth) {
    if (depth > DEEPEST)
        return weft_ctx_fail(w->ctx, WEFT_ERR_FILE, "%s lies more than %d folders deep",
                             path, DEEPEST);
    DIR *folder = opendir(path);
    if (!folder) return wefti_fail_errno(w->ctx, "open", path);
    weft_status status = list(w, path, folder, depth);
    closedir(folder);
    return status;
}

weft_status wefti_walk_folder(weft_ctx *ctx, const char *path,
                              bool (*wanted)(const char *), wefti_walk *walk) {
    walker w = {ctx, wanted, walk};
    WEFT_TRY(walk_folder(&w, path, 0));
    if (walk->n > 0)
        qsort(walk->paths, (size_t)walk->n, sizeof *walk->paths, wefti_by_name);
    return WEFT_OK;
}

void wefti_walk_fini(weft_ctx *ctx, wefti_walk *walk) {
    for (int64_t k = 0; k < walk->n; k++) wefti_free(ctx, walk->paths[k]);
    wefti_free(ctx, walk->paths);
    *walk = (wefti_walk){0};
}
