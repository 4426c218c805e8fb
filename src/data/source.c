/* SPDX-License-Identifier: MIT */
/* A source is one path of data.path as a sequence of tokens, whatever it is on disk:
 *
 *     text file   encoded once when opened              4 bytes per token in memory
 *     token shard mapped, never read whole              0
 *     folder      all shards in it, in order of name    0
 *
 * Token `at` lies in the file whose range holds it; a read may span several files. */
#define _GNU_SOURCE
#include "data/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "token/encode.h"
#include "data/shardlayout.h"
#include "data/syserror.h"

typedef struct name_list {
    char **names; /* [n], each owned */
    int64_t n, capacity;
} name_list;

static bool ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* Whether the file begins as a shard of weft's; a file that cannot be read does not. */
static bool begins_as_shard(const char *path) {
    unsigned char bytes[WEFTI_SHARD_MAGIC_BYTES];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t got = read(fd, bytes, sizeof bytes);
    close(fd);
    return got == (ssize_t)sizeof bytes &&
           memcmp(bytes, wefti_shard_magic, sizeof bytes) == 0;
}

/* Takes the next ids of a text that is being encoded. */
static weft_status keep_ids(weft_ctx *ctx, void *user, const int32_t *ids,
                            int64_t n_ids) {
    wefti_token_file *f = user;
    int64_t need = f->n_tokens + n_ids;
    size_t width = (size_t)f->width;
    if (need > f->capacity) {
        int64_t more = need + need / 2;
        WEFT_TRY(
            wefti_grow(ctx, &f->room, f->n_tokens, more, width, "the tokens of a text"));
        f->capacity = more;
    }
    unsigned char *to = f->room + (size_t)f->n_tokens * width;
    for (int64_t i = 0; i < n_ids; i++, to += width) {
        if (f->width == 2)
            wefti_put_u16(to, (uint32_t)ids[i]);
        else
            wefti_put_u32(to, (uint32_t)ids[i]);
    }
    f->n_tokens = need;
    return WEFT_OK;
}

static weft_status open_text(weft_ctx *ctx, wefti_token_file *f, const char *path,
                             const weft_tokenizer *tokenizer, int threads) {
    f->width = weft_tokenizer_vocab(tokenizer) <= WEFTI_SHARD_VOCAB_16 ? 2 : 4;
    WEFT_TRY(wefti_encode_file(ctx, tokenizer, path, threads, 0, keep_ids, f));
    WEFT_TRY(wefti_grow(ctx, &f->room, f->n_tokens, f->n_tokens, (size_t)f->width,
                        "the tokens of a text"));
    f->capacity = f->n_tokens;
    return WEFT_OK;
}

static weft_status add_file(weft_ctx *ctx, wefti_source *s, const char *path,
                            const weft_tokenizer *tokenizer, int threads) {
    struct stat info;
    if (stat(path, &info) != 0) return wefti_fail_errno(ctx, "open", path);
    if (!S_ISREG(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is not a regular file", path);
    WEFT_TRY(wefti_reserve(ctx, &s->files, &s->files_capacity, s->n_files, 1,
                           sizeof *s->files, "data files"));
    wefti_token_file *f = &s->files[s->n_files++];
    f->start = s->n_tokens;
    if (ends_in(path, ".bin") || begins_as_shard(path)) {
        WEFT_TRY(weft_shard_open(ctx, path, tokenizer, &f->shard));
        f->n_tokens = weft_shard_tokens(f->shard);
    } else {
        WEFT_TRY(open_text(ctx, f, path, tokenizer, threads));
    }
    s->n_tokens += f->n_tokens;
    return WEFT_OK;
}

static void names_fini(weft_ctx *ctx, name_list *list) {
    for (int64_t k = 0; k < list->n; k++) wefti_free(ctx, list->names[k]);
    wefti_free(ctx, list->names);
}

static weft_status add_name(weft_ctx *ctx, name_list *list, const char *name) {
    WEFT_TRY(wefti_reserve(ctx, &list->names, &list->capacity, list->n, 1,
                           sizeof *list->names, "names of files"));
    WEFT_TRY(wefti_strdup(ctx, name, &list->names[list->n]));
    list->n++;
    return WEFT_OK;
}

static weft_status list_folder(weft_ctx *ctx, const char *path, DIR *folder,
                               name_list *list) {
    weft_status status = WEFT_OK;
    while (status == WEFT_OK) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry && errno != 0) return wefti_fail_errno(ctx, "read", path);
        if (!entry) break;
        if (entry->d_name[0] == '.') continue;
        if (ends_in(entry->d_name, ".bin") || ends_in(entry->d_name, ".txt"))
            status = add_name(ctx, list, entry->d_name);
    }
    return status;
}

static int by_name(const void *a, const void *b) {
    char *x, *y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return strcmp(x, y);
}

static weft_status add_files(weft_ctx *ctx, wefti_source *s, name_list *list,
                             const weft_tokenizer *tokenizer, int threads) {
    char path[PATH_MAX];
    if (list->n == 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "the folder %s has no *.bin or *.txt",
                             s->path);
    qsort(list->names, (size_t)list->n, sizeof *list->names, by_name);
    for (int64_t k = 0; k < list->n; k++) {
        int n = snprintf(path, sizeof path, "%s/%s", s->path, list->names[k]);
        if (n >= (int)sizeof path)
            return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", s->path);
        WEFT_TRY(add_file(ctx, s, path, tokenizer, threads));
    }
    return WEFT_OK;
}

static weft_status open_folder(weft_ctx *ctx, wefti_source *s,
                               const weft_tokenizer *tokenizer, int threads) {
    name_list list = {0};
    DIR *folder = opendir(s->path);
    if (!folder) return wefti_fail_errno(ctx, "open", s->path);
    weft_status status = list_folder(ctx, s->path, folder, &list);
    closedir(folder);
    if (status == WEFT_OK) status = add_files(ctx, s, &list, tokenizer, threads);
    names_fini(ctx, &list);
    return status;
}

weft_status wefti_source_open(weft_ctx *ctx, wefti_source *s, const char *path,
                              const weft_tokenizer *tokenizer, int threads) {
    struct stat info;
    WEFT_TRY(wefti_strdup(ctx, path, &s->path));
    s->folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (s->folder) return open_folder(ctx, s, tokenizer, threads);
    return add_file(ctx, s, path, tokenizer, threads);
}

void wefti_source_close(weft_ctx *ctx, wefti_source *s) {
    for (int64_t k = 0; k < s->n_files; k++) {
        weft_shard_close(ctx, s->files[k].shard);
        wefti_free(ctx, s->files[k].room);
    }
    wefti_free(ctx, s->files);
    wefti_free(ctx, s->path);
    *s = (wefti_source){0};
}

static void read_file(const wefti_token_file *f, int64_t start, int64_t n, int32_t *ids) {
    if (f->shard) {
        weft_shard_read(f->shard, start, n, ids);
        return;
    }
    const unsigned char *from = f->room + start * f->width;
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(f->width == 2 ? wefti_get_u16(from + 2 * i)
                                         : wefti_get_u32(from + 4 * i));
}

/* The file that holds token `at`. */
static int64_t file_of(const wefti_source *s, int64_t at) {
    int64_t low = 0, high = s->n_files;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (s->files[middle].start <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void wefti_source_read(const wefti_source *s, int64_t start, int64_t n, int32_t *ids) {
    for (int64_t k = file_of(s, start); n > 0; k++) {
        const wefti_token_file *f = &s->files[k];
        int64_t offset = start - f->start, part = f->n_tokens - offset;
        if (part > n) part = n;
        read_file(f, offset, part, ids);
        start += part;
        ids += part;
        n -= part;
    }
}

const char *wefti_source_kind(const wefti_source *s, char *out, size_t out_size) {
    if (s->folder)
        snprintf(out, out_size, "%lld files", (long long)s->n_files);
    else
        snprintf(out, out_size, "%s",
                 s->files[0].shard ? weft_shard_format(s->files[0].shard) : "text");
    return out;
}
