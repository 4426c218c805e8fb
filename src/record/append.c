/* SPDX-License-Identifier: MIT */
/* A file that only grows: a write is all there, whatever a signal interrupts, or nothing of it
 * is: after an error the file is cut back to where it ended. What is there already is kept, or
 * refused where a fresh file was asked for; pipes and devices are no files to append to. */
#include "record/append.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

static weft_status fail_errno(weft_ctx *ctx, const char *verb, const char *path,
                              int error) {
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not %s %s: %s", verb, path,
                         strerror(error));
}

static weft_status check_regular(weft_ctx *ctx, wefti_append *file) {
    struct stat info;
    if (fstat(file->fd, &info) != 0) return fail_errno(ctx, "stat", file->path, errno);
    if (!S_ISREG(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is not a regular file", file->path);
    file->n_bytes = info.st_size;
    return WEFT_OK;
}

weft_status wefti_append_init(weft_ctx *ctx, const char *path, bool fresh, bool *exists,
                              wefti_append *out) {
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK |
                (fresh ? O_EXCL : 0);
    *out = (wefti_append){.fd = -1};
    *exists = false;
    WEFT_TRY(wefti_strdup(ctx, path, &out->path));
    weft_status status = WEFT_OK;
    out->fd = open(path, flags, 0666);
    *exists = out->fd < 0 && fresh && errno == EEXIST;
    if (*exists)
        status = WEFT_ERR_FILE;
    else if (out->fd < 0)
        status = fail_errno(ctx, "open", path, errno);
    else
        status = check_regular(ctx, out);
    if (status == WEFT_OK) return WEFT_OK;
    if (out->fd >= 0) close(out->fd);
    wefti_free(ctx, out->path);
    *out = (wefti_append){.fd = -1};
    return status;
}

weft_status wefti_append_write(weft_ctx *ctx, wefti_append *file, const void *bytes,
                               int64_t n_bytes) {
    const char *at = bytes;
    int64_t left = n_bytes;
    while (left > 0) {
        ssize_t put = write(file->fd, at, (size_t)left);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            int error = errno;
            (void)!ftruncate(file->fd, file->n_bytes);
            return fail_errno(ctx, "write", file->path, error);
        }
        at += put;
        left -= put;
    }
    file->n_bytes += n_bytes;
    return WEFT_OK;
}

weft_status wefti_append_sync(weft_ctx *ctx, wefti_append *file) {
    if (fsync(file->fd) == 0) return WEFT_OK;
    return fail_errno(ctx, "sync", file->path, errno);
}

weft_status wefti_append_fini(weft_ctx *ctx, wefti_append *file) {
    weft_status status = wefti_append_sync(ctx, file);
    if (close(file->fd) != 0 && status == WEFT_OK)
        status = fail_errno(ctx, "close", file->path, errno);
    wefti_free(ctx, file->path);
    *file = (wefti_append){.fd = -1};
    return status;
}
