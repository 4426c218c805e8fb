/* SPDX-License-Identifier: MIT */
/* A model's tensors in one file or several. The index of several files is a JSON object:
 *
 *     {"metadata": {...}, "weight_map": {"<tensor>": "<file beside the index>", ...}}
 *
 * Each tensor must be in the file that the map names, and in no other. Files that the map
 * does not name are ignored. */
#define _GNU_SOURCE
#include "checkpoint/weights.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "text/json.h"
#include "base/memory.h"
#include "base/text.h"

enum { MAX_FILES = 4096, MAX_INDEX = 64 << 20 };
static const char one_name[] = "model.safetensors";
static const char index_name[] = "model.safetensors.index.json";
static const char adapter_name[] = "adapter_model.safetensors";

/* A tensor and its number over all files. */
typedef struct named {
    const char *name; /* borrowed from the file */
    int index;
} named;

struct wefti_weights {
    char path[PATH_MAX]; /* path of the single file, or of the index */
    const char *one;     /* name of the single file */
    int n;
    json_t *numbers;             /* file name -> its number; owned */
    named *by_name;              /* all tensors, sorted by name; owned */
    char (*names)[NAME_MAX + 1]; /* [MAX_FILES], owned; names of several files */
    wefti_safetensors **files;   /* [n], owned */
    int *first;                  /* [n + 1], owned: number of a file's first tensor */
};

bool wefti_weights_here(const char *folder) {
    char path[PATH_MAX];
    return wefti_file_there(folder, one_name, path) ||
           wefti_file_there(folder, index_name, path);
}

/* ---- the index ---- */

/* The number of the file with that name, which is added if it is new. */
static weft_status file_named(weft_ctx *ctx, wefti_weights *w, const char *name,
                              int *number) {
    const json_t *known = json_object_get(w->numbers, name);
    *number = known ? (int)json_integer_value(known) : w->n;
    if (known) return WEFT_OK;
    if (w->n == MAX_FILES)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s names more than %d files", w->path,
                             (int)MAX_FILES);
    if (json_object_set_new(w->numbers, name, json_integer(w->n)) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for a list of files");
    snprintf(w->names[w->n++], sizeof w->names[0], "%s", name);
    return WEFT_OK;
}

static weft_status list_files(weft_ctx *ctx, wefti_weights *w, const json_t *map) {
    const char *tensor;
    json_t *value;
    int number;
    w->numbers = json_object();
    if (!json_is_object(map) || json_object_size(map) == 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s has no weight_map of tensors and files", w->path);
    WEFT_TRY(
        wefti_alloc_n(ctx, MAX_FILES, sizeof *w->names, "a list of files", &w->names));
    json_object_foreach((json_t *)(uintptr_t)map, tensor, value) {
        const char *name = json_string_value(value);
        bool plain = name && name[0] && name[0] != '.' && !strchr(name, '/') &&
                     strlen(name) <= NAME_MAX;
        if (!plain)
            return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                 "%s: the file of tensor '%.80s' is not the name of a "
                                 "file beside the index",
                                 w->path, tensor);
        WEFT_TRY(file_named(ctx, w, name, &number));
    }
    return WEFT_OK;
}

/* Checks that every tensor is in the file that the map says, and that the files contain
 * no other tensors. */
static weft_status check_map(weft_ctx *ctx, wefti_weights *w, const json_t *map) {
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, value) {
        int file;
        WEFT_TRY(file_named(ctx, w, json_string_value(value), &file));
        if (wefti_safetensors_find(w->files[file], tensor) < 0)
            return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                 "%s says that %s holds tensor '%.80s', but it does not",
                                 w->path, w->names[file], tensor);
    }
    int listed = (int)json_object_size(map), there = wefti_weights_count(w);
    if (listed == there) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s lists %d tensors, but its %d files hold %d", w->path, listed,
                         w->n, there);
}

/* ---- open ---- */

static int by_name(const void *left, const void *right) {
    const named *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static weft_status sort_names(weft_ctx *ctx, wefti_weights *w) {
    int count = w->first[w->n], k = 0;
    WEFT_TRY(
        wefti_alloc_n(ctx, count, sizeof *w->by_name, "tensors by name", &w->by_name));
    for (int i = 0; i < w->n; i++)
        for (int t = 0; t < wefti_safetensors_count(w->files[i]); t++, k++)
            w->by_name[k] = (named){wefti_safetensors_spec(w->files[i], t)->name, k};
    qsort(w->by_name, (size_t)count, sizeof *w->by_name, by_name);
    return WEFT_OK;
}

static weft_status open_files(weft_ctx *ctx, const char *folder, wefti_weights *w) {
    char path[PATH_MAX];
    WEFT_TRY(wefti_alloc_n(ctx, w->n, sizeof *w->files, "files of tensors", &w->files));
    WEFT_TRY(
        wefti_alloc_n(ctx, w->n + 1, sizeof *w->first, "files of tensors", &w->first));
    for (int i = 0; i < w->n; i++) {
        const char *name = w->names ? w->names[i] : w->one;
        if (!wefti_file_there(folder, name, path))
            return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s names %s, which is not there",
                                 w->path, name);
        WEFT_TRY(wefti_safetensors_open(ctx, path, false, &w->files[i]));
        w->first[i + 1] = w->first[i] + wefti_safetensors_count(w->files[i]);
    }
    return sort_names(ctx, w);
}

static weft_status open_listed(weft_ctx *ctx, const char *folder, wefti_weights *w) {
    char *text;
    int64_t n_bytes;
    json_t *root;
    WEFT_TRY(wefti_file_read(ctx, w->path, MAX_INDEX, &text, &n_bytes));
    weft_status status = wefti_json_read(ctx, "", w->path, text, n_bytes, WEFT_ERR_FORMAT,
                                         &root);
    wefti_free(ctx, text);
    WEFT_TRY(status);
    const json_t *map = json_object_get(root, "weight_map");
    status = list_files(ctx, w, map);
    if (status == WEFT_OK) status = open_files(ctx, folder, w);
    if (status == WEFT_OK) status = check_map(ctx, w, map);
    json_decref(root);
    return status;
}

static weft_status open_any(weft_ctx *ctx, const char *folder, wefti_weights *w) {
    if (wefti_file_there(folder, w->one, w->path)) {
        w->n = 1;
        return open_files(ctx, folder, w);
    }
    if (w->one != one_name)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s holds no %s", folder, w->one);
    if (wefti_file_there(folder, index_name, w->path)) return open_listed(ctx, folder, w);
    if (wefti_file_there(folder, adapter_name, w->path))
        return weft_ctx_fail(
            ctx, WEFT_ERR_FILE,
            "%s holds an adapter and no whole model; weft merge makes one of it", folder);
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s holds no %s and no %s", folder, one_name,
                         index_name);
}

static weft_status open_one(weft_ctx *ctx, const char *folder, const char *one,
                            wefti_weights **out) {
    wefti_weights *w;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *w, "a model's files", &w));
    w->one = one;
    weft_status status = open_any(ctx, folder, w);
    if (status == WEFT_OK) {
        *out = w;
        return WEFT_OK;
    }
    weft_status closed = wefti_weights_close(ctx, w);
    (void)closed; /* the first failure is reported */
    return status;
}

weft_status wefti_weights_open(weft_ctx *ctx, const char *folder, wefti_weights **out) {
    return open_one(ctx, folder, one_name, out);
}

weft_status wefti_weights_open_adapter(weft_ctx *ctx, const char *folder,
                                       wefti_weights **out) {
    return open_one(ctx, folder, adapter_name, out);
}

weft_status wefti_weights_close(weft_ctx *ctx, wefti_weights *w) {
    weft_status status = WEFT_OK;
    if (!w) return WEFT_OK;
    for (int i = 0; w->files && i < w->n; i++) {
        weft_status closed = wefti_safetensors_close(ctx, w->files[i]);
        if (status == WEFT_OK) status = closed;
    }
    json_decref(w->numbers);
    WEFTI_FREE(ctx, w->files, w->first, w->names, w->by_name, w);
    return status;
}

/* ---- look and read ---- */

int wefti_weights_count(const wefti_weights *w) { return w->first[w->n]; }

int wefti_weights_find(const wefti_weights *w, const char *name) {
    int low = 0, high = wefti_weights_count(w);
    while (low < high) { /* of tensors with one name the first */
        int middle = low + (high - low) / 2;
        if (strcmp(w->by_name[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < wefti_weights_count(w) && wefti_is(w->by_name[low].name, name);
    return found ? w->by_name[low].index : -1;
}

/* The file of a tensor; *index becomes the tensor's number in that file. */
static const wefti_safetensors *file_of(const wefti_weights *w, int *index) {
    int low = 0, high = w->n - 1; /* the last file that begins at or before it */
    while (low < high) {
        int middle = high - (high - low) / 2;
        if (w->first[middle] <= *index)
            low = middle;
        else
            high = middle - 1;
    }
    *index -= w->first[low];
    return w->files[low];
}

const wefti_tensor_spec *wefti_weights_spec(const wefti_weights *w, int index) {
    if (index < 0 || index >= wefti_weights_count(w)) return NULL;
    const wefti_safetensors *file = file_of(w, &index);
    return wefti_safetensors_spec(file, index);
}

const char *wefti_weights_path(const wefti_weights *w) { return w->path; }

weft_status wefti_weights_read_rows(weft_ctx *ctx, const wefti_weights *w, int index,
                                    int64_t row_begin, int64_t n_rows, float *data) {
    const wefti_safetensors *file = file_of(w, &index);
    return wefti_safetensors_read_rows(ctx, file, index, row_begin, n_rows, data);
}
