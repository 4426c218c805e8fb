/* SPDX-License-Identifier: MIT */
/* Files that survive a crash: a file is written under a temporary name, synced and
 * renamed, and its folder is synced. So a reader finds either the old content or the new.
 * Every error message names the path and the system's reason. */
#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

weft_status wefti_fail_errno(weft_ctx *ctx, const char *verb, const char *path) {
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not %s %s: %s", verb, path,
                         strerror(errno));
}

static weft_status read_all(weft_ctx *ctx, int fd, const char *path, char *data,
                            int64_t n) {
    int64_t done = 0;
    while (done < n) {
        ssize_t got = read(fd, data + done, (size_t)(n - done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return wefti_fail_errno(ctx, "read", path);
        if (got == 0)
            return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s shrank while it was read", path);
        done += got;
    }
    return WEFT_OK;
}

weft_status wefti_file_path(weft_ctx *ctx, const char *folder, const char *name,
                            char path[PATH_MAX]) {
    if (snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s/%s", folder, name);
}

bool wefti_file_there(const char *folder, const char *name, char path[PATH_MAX]) {
    struct stat info;
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return n < PATH_MAX && stat(path, &info) == 0;
}

int wefti_by_name(const void *a, const void *b) {
    char *x, *y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return strcmp(x, y);
}

weft_status wefti_file_read(weft_ctx *ctx, const char *path, int64_t max_bytes,
                            char **data, int64_t *n_bytes) {
    return wefti_file_read_from(ctx, path, 0, max_bytes, data, n_bytes);
}

weft_status wefti_file_read_from(weft_ctx *ctx, const char *path, int64_t from,
                                 int64_t max_bytes, char **data, int64_t *n_bytes) {
    *data = NULL;
    *n_bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block us */
    if (fd < 0) return wefti_fail_errno(ctx, "open", path);
    struct stat info;
    weft_status status = WEFT_OK;
    if (fstat(fd, &info) != 0)
        status = wefti_fail_errno(ctx, "stat", path);
    else if (!S_ISREG(info.st_mode))
        status = weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is not a regular file", path);
    else if (info.st_size - from > max_bytes)
        status = weft_ctx_fail(ctx, WEFT_ERR_FILE,
                               "%s has %lld bytes, expected at most %lld", path,
                               (long long)info.st_size, (long long)max_bytes);
    int64_t n = status == WEFT_OK && info.st_size > from ? info.st_size - from : 0;
    if (status == WEFT_OK) status = wefti_alloc(ctx, (size_t)n + 1, path, data);
    if (n > 0 && status == WEFT_OK && from > 0 && lseek(fd, from, SEEK_SET) < 0)
        status = wefti_fail_errno(ctx, "read", path);
    if (status == WEFT_OK) status = read_all(ctx, fd, path, *data, n);
    close(fd);
    if (status != WEFT_OK) {
        wefti_free(ctx, *data);
        *data = NULL;
        return status;
    }
    *n_bytes = n;
    return WEFT_OK;
}

weft_status wefti_file_tail(weft_ctx *ctx, const char *path, int64_t most, char **data,
                            int64_t *n_bytes, int64_t *from) {
    struct stat info;
    *data = NULL;
    *n_bytes = *from = 0;
    if (stat(path, &info) != 0)
        return errno == ENOENT ? WEFT_OK : wefti_fail_errno(ctx, "stat", path);
    if (info.st_size > most) *from = info.st_size - most;
    return wefti_file_read_from(ctx, path, *from, INT64_MAX, data, n_bytes);
}

weft_status wefti_file_pwrite(weft_ctx *ctx, int fd, const char *path, const void *data,
                              int64_t n_bytes, int64_t offset) {
    const char *bytes = data;
    while (n_bytes > 0) {
        ssize_t put = pwrite(fd, bytes, (size_t)n_bytes, offset);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return wefti_fail_errno(ctx, "write", path);
        bytes += put;
        offset += put;
        n_bytes -= put;
    }
    return WEFT_OK;
}

bool wefti_file_flush(int fd) {
#ifdef __APPLE__ /* where fsync leaves bytes in the disk's cache */
    return fcntl(fd, F_FULLFSYNC) == 0;
#else
    return fdatasync(fd) == 0;
#endif
}

weft_status wefti_file_sync_parent(weft_ctx *ctx, const char *path) {
    char parent[PATH_MAX];
    if (snprintf(parent, sizeof parent, "%s", path) >= (int)sizeof parent)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", path);
    char *slash = strrchr(parent, '/');
    if (!slash)
        strcpy(parent, ".");
    else
        slash[slash == parent] = '\0';
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return wefti_fail_errno(ctx, "open", parent);
    int error = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    errno = error;
    /* EINVAL: the file system cannot sync folders */
    return error == 0 || error == EINVAL ? WEFT_OK
                                         : wefti_fail_errno(ctx, "sync", parent);
}

/* Whether the path is a device or a pipe (/dev/null, /dev/full). Those are written to
 * directly: a file renamed over one would replace it for all processes. */
static bool is_special(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

static weft_status write_special(weft_ctx *ctx, const char *path, const char *bytes,
                                 int64_t n_bytes) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return wefti_fail_errno(ctx, "open", path);
    weft_status status = WEFT_OK;
    while (n_bytes > 0 && status == WEFT_OK) {
        ssize_t put = write(fd, bytes, (size_t)n_bytes);
        if (put < 0 && errno != EINTR) status = wefti_fail_errno(ctx, "write", path);
        if (put > 0) bytes += put, n_bytes -= put;
    }
    if (close(fd) != 0 && status == WEFT_OK)
        status = wefti_fail_errno(ctx, "write", path);
    return status;
}

weft_status wefti_file_write(weft_ctx *ctx, const char *path, const void *data,
                             int64_t n_bytes) {
    char aside[PATH_MAX];
    if (is_special(path)) return write_special(ctx, path, data, n_bytes);
    if (snprintf(aside, sizeof aside, "%s.tmp%ld", path, (long)getpid()) >=
        (int)sizeof aside)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", path);
    int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return wefti_fail_errno(ctx, "create", path);
    weft_status status = wefti_file_pwrite(ctx, fd, path, data, n_bytes, 0);
    if (status == WEFT_OK && fsync(fd) != 0)
        status = wefti_fail_errno(ctx, "write", path);
    if (close(fd) != 0 && status == WEFT_OK)
        status = wefti_fail_errno(ctx, "write", path);
    if (status == WEFT_OK && rename(aside, path) != 0)
        status = wefti_fail_errno(ctx, "write", path);
    if (status != WEFT_OK) {
        unlink(aside);
        return status;
    }
    return wefti_file_sync_parent(ctx, path);
}

weft_status wefti_file_mkdirs(weft_ctx *ctx, const char *path) {
    char part[PATH_MAX];
    if (!path[0] || snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "not a usable folder name: '%s'", path);
    for (char *p = part + 1;; p++) {
        if (*p != '/' && *p) continue;
        char kept = *p;
        *p = '\0';
        if (mkdir(part, 0777) == 0)
            WEFT_TRY(wefti_file_sync_parent(ctx, part));
        else if (errno != EEXIST)
            return wefti_fail_errno(ctx, "create", part);
        if (!kept) break;
        *p = kept;
    }
    struct stat info;
    if (stat(path, &info) != 0) return wefti_fail_errno(ctx, "stat", path);
    if (!S_ISDIR(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s is there already and is not a folder", path);
    return WEFT_OK;
}

static int remove_entry(const char *path, const struct stat *info, int type,
                        struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    return remove(path);
}

weft_status wefti_file_remove_tree(weft_ctx *ctx, const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0 && errno == ENOENT) return WEFT_OK;
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        return wefti_fail_errno(ctx, "remove", path);
    return WEFT_OK;
}
