/* SPDX-License-Identifier: MIT */
/* A safetensors file: 8 bytes of little-endian header length, the header (see
 * safetensors_header.c), then the data. Numbers are little-endian on every machine.
 *
 *     | u64 n | n bytes of JSON | tensor 0: rows ... | tensor 1: rows ... |
 *
 *     row r of a tensor begins at   8 + n + tensor.begin + r cols (bytes of a number)
 *
 * Writers fill their rows with pwrite and never touch another writer's bytes, so all
 * ranks write one file at the same time without synchronization. Only F32 is written; F16
 * and BF16 are widened when they are read. A header longer than the file, or longer than
 * any realistic one, is refused before memory for it is allocated. */
#define _GNU_SOURCE
#include "checkpoint/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/half.h"
#include "base/memory.h"
#include "checkpoint/safetensors_header.h"
#include "text/sniff.h"

enum { CHUNK = 8192 }; /* numbers converted at a time */

struct wefti_safetensors {
    char *path; /* owned */
    int fd;
    bool writable;
    int64_t data_begin; /* offset of the data in the file, in bytes */
    wefti_safetensors_header header;
};

static void destroy(weft_ctx *ctx, wefti_safetensors *file) {
    if (file->fd >= 0) close(file->fd);
    wefti_safetensors_header_fini(ctx, &file->header);
    WEFTI_FREE(ctx, file->path, file);
}

static weft_status create_shell(weft_ctx *ctx, const char *path, bool writable,
                                wefti_safetensors **out) {
    WEFT_TRY(wefti_alloc(ctx, sizeof **out, "an open safetensors file", out));
    (*out)->fd = -1;
    (*out)->writable = writable;
    weft_status status = wefti_strdup(ctx, path, &(*out)->path);
    if (status != WEFT_OK) {
        destroy(ctx, *out);
        *out = NULL;
    }
    return status;
}

/* ---- create ---- */

static weft_status reserve(weft_ctx *ctx, int fd, const char *path, int64_t n_bytes) {
    int error;
    do error = posix_fallocate(fd, 0, n_bytes);
    while (error == EINTR);
    bool cannot = error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
    if (cannot) error = ftruncate(fd, n_bytes) == 0 ? 0 : errno;
    if (error == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not reserve %lld bytes for %s: %s",
                         (long long)n_bytes, path, strerror(error));
}

static weft_status write_new(weft_ctx *ctx, wefti_safetensors *file, const char *text,
                             int64_t n_text) {
    unsigned char prefix[WEFTI_SAFETENSORS_PREFIX];
    for (int i = 0; i < WEFTI_SAFETENSORS_PREFIX; i++)
        prefix[i] = (unsigned char)((uint64_t)n_text >> (8 * i));
    file->data_begin = WEFTI_SAFETENSORS_PREFIX + n_text;
    int64_t n_bytes = file->data_begin + file->header.data_bytes;
    file->fd = open(file->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK,
                    0666);
    if (file->fd < 0) return wefti_fail_errno(ctx, "create", file->path);
    weft_status status = reserve(ctx, file->fd, file->path, n_bytes);
    if (status == WEFT_OK)
        status = wefti_file_pwrite(ctx, file->fd, file->path, prefix, sizeof prefix, 0);
    if (status == WEFT_OK)
        status = wefti_file_pwrite(ctx, file->fd, file->path, text, n_text,
                                   sizeof prefix);
    if (status != WEFT_OK) unlink(file->path);
    return status;
}

weft_status wefti_safetensors_create(weft_ctx *ctx, const char *path,
                                     const wefti_tensor_spec *specs, int n,
                                     const char *const *metadata,
                                     wefti_safetensors **out) {
    char *text;
    int64_t n_text, data_bytes;
    wefti_safetensors *file;
    *out = NULL;
    WEFT_TRY(create_shell(ctx, path, true, &file));
    weft_status status = wefti_safetensors_header_encode(ctx, path, specs, n, metadata,
                                                         &text, &n_text, &data_bytes);
    if (status == WEFT_OK)
        status = wefti_safetensors_header_decode(ctx, path, text, n_text, data_bytes,
                                                 &file->header);
    if (status == WEFT_OK) status = write_new(ctx, file, text, n_text);
    wefti_free(ctx, text);
    if (status == WEFT_OK)
        *out = file;
    else
        destroy(ctx, file);
    return status;
}

/* ---- open ---- */

static weft_status read_bytes(weft_ctx *ctx, const wefti_safetensors *file, void *data,
                              int64_t n_bytes, int64_t offset) {
    char *bytes = data;
    while (n_bytes > 0) {
        ssize_t got = pread(file->fd, bytes, (size_t)n_bytes, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return wefti_fail_errno(ctx, "read", file->path);
        if (got == 0)
            return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                 "%s ends at byte %lld, expected %lld more", file->path,
                                 (long long)offset, (long long)n_bytes);
        bytes += got;
        offset += got;
        n_bytes -= got;
    }
    return WEFT_OK;
}

static weft_status open_regular(weft_ctx *ctx, wefti_safetensors *file,
                                int64_t *n_bytes) {
    int access = file->writable ? O_RDWR : O_RDONLY;
    struct stat info;
    file->fd = open(file->path, access | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0) return wefti_fail_errno(ctx, "open", file->path);
    if (fstat(file->fd, &info) != 0) return wefti_fail_errno(ctx, "stat", file->path);
    if (!S_ISREG(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is not a regular file", file->path);
    *n_bytes = info.st_size;
    return WEFT_OK;
}

/* Names a file that has no header at all, such as a page that was fetched in its place. */
static weft_status refuse_other(weft_ctx *ctx, const wefti_safetensors *file,
                                int64_t n_bytes) {
    char head[512] = "";
    int64_t n = n_bytes < (int64_t)sizeof head ? n_bytes : (int64_t)sizeof head;
    WEFT_TRY(read_bytes(ctx, file, head, n, 0));
    const char *found = head[WEFTI_SAFETENSORS_PREFIX] == '{' ? NULL
                                                              : wefti_sniff_mark(head, n);
    if (!found) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s is %s, expected a safetensors file of weights", file->path,
                         found);
}

static weft_status read_length(weft_ctx *ctx, const wefti_safetensors *file,
                               int64_t n_bytes, int64_t *n_text) {
    unsigned char prefix[WEFTI_SAFETENSORS_PREFIX];
    if (n_bytes < WEFTI_SAFETENSORS_PREFIX)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s has %lld bytes, a safetensors file has at least 10",
                             file->path, (long long)n_bytes);
    WEFT_TRY(read_bytes(ctx, file, prefix, sizeof prefix, 0));
    uint64_t length = wefti_get_u64(prefix);
    uint64_t room = (uint64_t)n_bytes - WEFTI_SAFETENSORS_PREFIX;
    if (length > room || length > WEFTI_SAFETENSORS_MAX_HEADER) {
        WEFT_TRY(refuse_other(ctx, file, n_bytes));
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s says that its header has %llu bytes, expected at most "
                             "%llu: not a safetensors file, or cut off",
                             file->path, (unsigned long long)length,
                             (unsigned long long)(room < WEFTI_SAFETENSORS_MAX_HEADER
                                                      ? room
                                                      : WEFTI_SAFETENSORS_MAX_HEADER));
    }
    *n_text = (int64_t)length;
    return WEFT_OK;
}

static weft_status open_and_check(weft_ctx *ctx, wefti_safetensors *file) {
    int64_t n_bytes = 0, n_text = 0;
    char *text;
    WEFT_TRY(open_regular(ctx, file, &n_bytes));
    WEFT_TRY(read_length(ctx, file, n_bytes, &n_text));
    file->data_begin = WEFTI_SAFETENSORS_PREFIX + n_text;
    WEFT_TRY(wefti_alloc(ctx, (size_t)n_text + 1, "a safetensors header", &text));
    weft_status status = read_bytes(ctx, file, text, n_text, WEFTI_SAFETENSORS_PREFIX);
    if (status == WEFT_OK)
        status = wefti_safetensors_header_decode(
            ctx, file->path, text, n_text, n_bytes - file->data_begin, &file->header);
    wefti_free(ctx, text);
    return status;
}

weft_status wefti_safetensors_open(weft_ctx *ctx, const char *path, bool writable,
                                   wefti_safetensors **out) {
    wefti_safetensors *file;
    *out = NULL;
    WEFT_TRY(create_shell(ctx, path, writable, &file));
    WEFTI_TRY_OR(open_and_check(ctx, file), destroy(ctx, file));
    *out = file;
    return WEFT_OK;
}

/* ---- look ---- */

int wefti_safetensors_count(const wefti_safetensors *file) { return file->header.n; }

const wefti_tensor_spec *wefti_safetensors_spec(const wefti_safetensors *file,
                                                int index) {
    if (index < 0 || index >= file->header.n) return NULL;
    return &file->header.tensors[index].spec;
}

int wefti_safetensors_find(const wefti_safetensors *file, const char *name) {
    int low = 0, high = file->header.n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(file->header.by_name[middle]->name, name);
        if (order == 0) return (int)(file->header.by_name[middle] - file->header.tensors);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* ---- rows ---- */

static void decode_half(const unsigned char *bytes, int64_t n, bool brain, float *out) {
    for (int64_t i = 0; i < n; i++, bytes += 2) {
        uint32_t half = wefti_get_u16(bytes);
        out[i] = brain ? wefti_f32_of_bf16(half) : wefti_f32_of_f16(half);
    }
}

/* Checks that these rows exist and have a type that can be converted to f32. */
static weft_status check_rows(weft_ctx *ctx, const wefti_safetensors *file, int index,
                              int64_t row_begin, int64_t n_rows) {
    if (index < 0 || index >= file->header.n)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%s has %d tensors, tensor %d was asked for", file->path,
                             file->header.n, index);
    const wefti_safetensors_tensor *t = &file->header.tensors[index];
    if (t->dtype == WEFTI_DTYPE_OTHER)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "tensor '%s' of %s has the dtype %s, expected F32, F16 or BF16", t->name,
            file->path, t->dtype_name);
    if (t->spec.ndim < 1 || t->spec.ndim > 4)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "tensor '%s' of %s has %d dimensions, expected 1 to 4",
                             t->name, file->path, t->spec.ndim);
    if (row_begin < 0 || n_rows < 0 || row_begin > t->spec.rows - n_rows)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "%lld rows from row %lld of tensor '%s' of %s were asked for, it has %lld",
            (long long)n_rows, (long long)row_begin, t->name, file->path,
            (long long)t->spec.rows);
    return WEFT_OK;
}

weft_status wefti_safetensors_write_rows(weft_ctx *ctx, wefti_safetensors *file,
                                         int index, int64_t row_begin, int64_t n_rows,
                                         const float *data) {
    unsigned char bytes[4 * CHUNK];
    WEFT_TRY(check_rows(ctx, file, index, row_begin, n_rows));
    const wefti_safetensors_tensor *t = &file->header.tensors[index];
    if (!file->writable || t->dtype != WEFTI_DTYPE_F32)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "tensor '%s' (%s) of %s can not be written", t->name,
                             t->dtype_name, file->path);
    int64_t left = n_rows * t->spec.cols;
    int64_t offset = file->data_begin + t->begin + 4 * row_begin * t->spec.cols;
    while (left > 0) {
        int64_t n = left < CHUNK ? left : CHUNK;
        wefti_put_floats(n, data, bytes);
        WEFT_TRY(wefti_file_pwrite(ctx, file->fd, file->path, bytes, 4 * n, offset));
        data += n;
        offset += 4 * n;
        left -= n;
    }
    return WEFT_OK;
}

weft_status wefti_safetensors_read_rows(weft_ctx *ctx, const wefti_safetensors *file,
                                        int index, int64_t row_begin, int64_t n_rows,
                                        float *data) {
    unsigned char bytes[4 * CHUNK];
    WEFT_TRY(check_rows(ctx, file, index, row_begin, n_rows));
    const wefti_safetensors_tensor *t = &file->header.tensors[index];
    int64_t item = t->dtype == WEFTI_DTYPE_F32 ? 4 : 2;
    int64_t left = n_rows * t->spec.cols;
    int64_t offset = file->data_begin + t->begin + item * row_begin * t->spec.cols;
    while (left > 0) {
        int64_t n = left < CHUNK ? left : CHUNK;
        WEFT_TRY(read_bytes(ctx, file, bytes, item * n, offset));
        if (item == 4)
            wefti_get_floats(n, bytes, data);
        else
            decode_half(bytes, n, t->dtype == WEFTI_DTYPE_BF16, data);
        data += n;
        offset += item * n;
        left -= n;
    }
    return WEFT_OK;
}

weft_status wefti_safetensors_close(weft_ctx *ctx, wefti_safetensors *file) {
    weft_status status = WEFT_OK;
    if (!file) return WEFT_OK;
    if (file->writable && fsync(file->fd) != 0)
        status = wefti_fail_errno(ctx, "sync", file->path);
    int rc = close(file->fd);
    if (rc != 0 && file->writable && status == WEFT_OK)
        status = wefti_fail_errno(ctx, "close", file->path);
    file->fd = -1;
    destroy(ctx, file);
    return status;
}
