/* SPDX-License-Identifier: MIT */
/* A file that only grows: a write is all there, whatever a signal interrupts, or nothing of it
 * is: after an error the file is cut back to where it ended. What is there already is kept, or
 * refused where a fresh file was asked for; pipes and devices are no files to append to.
 * What a run tells of itself waits in memory while the disk refuses it. */
#include "record/append.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

static const double between_tries_s = 0.2;

static weft_status check_regular(weft_ctx *ctx, wefti_append *file) {
    struct stat info;
    if (fstat(file->fd, &info) != 0) return wefti_fail_errno(ctx, "stat", file->path);
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
        status = wefti_fail_errno(ctx, "open", path);
    else
        status = check_regular(ctx, out);
    if (status == WEFT_OK) return WEFT_OK;
    if (out->fd >= 0) close(out->fd);
    wefti_free(ctx, out->path);
    *out = (wefti_append){.fd = -1};
    return status;
}

/* Takes back the first bytes of a piece. Where more is there, another process has taken over the
 * file while this one slept: it has cut the piece off, and what stands there is its own. */
static void take_back(const wefti_append *file, int64_t n_bytes) {
    struct stat info;
    bool own = fstat(file->fd, &info) == 0 && info.st_size == file->n_bytes + n_bytes;
    if (own) (void)!ftruncate(file->fd, file->n_bytes);
}

/* Returns 0, or the error; [out] left: how many of the bytes are not in the file. */
static int put_bytes(const wefti_append *file, const char *bytes, int64_t n_bytes,
                     int64_t *left) {
    *left = n_bytes;
    while (*left > 0) {
        ssize_t put = write(file->fd, bytes + n_bytes - *left, (size_t)*left);
        if (put >= 0)
            *left -= put;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

/* Returns 0, or the error after which nothing of the piece is in the file. A line of which only
 * the end was refused can be read, and may have been: it stays, and the end goes before the next
 * piece. If another process has taken over, that makes a blank line. */
static int write_piece(wefti_append *file, const char *bytes, int64_t n_bytes) {
    int64_t left;
    if (file->lacks_end) {
        int error = put_bytes(file, "\n", 1, &left);
        if (error != 0) return error;
        file->n_bytes++;
    }
    int error = put_bytes(file, bytes, n_bytes, &left);
    file->lacks_end = file->room > 0 && left == 1 && bytes[n_bytes - 1] == '\n';
    if (file->lacks_end) error = 0;
    if (error == 0)
        file->n_bytes += n_bytes - left;
    else
        take_back(file, n_bytes - left);
    return error;
}

/* --- what waits --- */

void wefti_append_wait(wefti_append *file, int64_t room) { file->room = room; }

static void tell_lost(const wefti_append *file, char *out, size_t size) {
    snprintf(out, size, "none of its lines was lost");
    if (file->n_dropped > 0)
        snprintf(out, size, "%lld of its lines found no room in memory and are lost",
                 (long long)file->n_dropped);
}

/* Writes what waits, a piece at a time: none that somebody has read is taken back, because the
 * next one does not fit. Returns 0, or the error. */
static int catch_up(weft_ctx *ctx, wefti_append *file) {
    wefti_buffer *waiting = &file->waiting;
    char lost[100];
    int64_t at = 0, n_bytes;
    int error = 0;
    while (at < waiting->n) {
        memcpy(&n_bytes, waiting->bytes + at, sizeof n_bytes);
        error = write_piece(file, waiting->bytes + at + sizeof n_bytes, n_bytes);
        if (error != 0) break;
        at += (int64_t)sizeof n_bytes + n_bytes;
        file->n_waiting -= n_bytes;
    }
    if (error != 0) {
        waiting->n -= at;
        memmove(waiting->bytes, waiting->bytes + at, (size_t)waiting->n);
        return error;
    }
    wefti_buffer_fini(ctx, waiting);
    tell_lost(file, lost, sizeof lost);
    weft_ctx_log(ctx, WEFT_LOG_WARN, "%s is written again; %s", file->path, lost);
    file->refused = false;
    file->n_dropped = 0;
    return 0;
}

/* The disk is not asked with every line. */
static bool is_due(const wefti_append *file) {
    return wefti_now_s() - file->tried_s >= between_tries_s;
}

static void put_aside(weft_ctx *ctx, wefti_append *file, const void *bytes,
                      int64_t n_bytes, int error) {
    wefti_buffer *waiting = &file->waiting;
    if (!file->refused)
        weft_ctx_log(ctx, WEFT_LOG_WARN,
                     "could not write %s: %s; its lines wait in memory, up to %lld MB of "
                     "them, until it can be written",
                     file->path, strerror(error), (long long)file->room >> 20);
    if (error != EAGAIN) file->tried_s = wefti_now_s();
    file->refused = true;
    bool fits = file->n_waiting + n_bytes <= file->room;
    if (fits) wefti_buffer_reserve(ctx, waiting, (int64_t)sizeof n_bytes + n_bytes);
    if (waiting->status == WEFT_OK && fits) {
        wefti_buffer_put(ctx, waiting, &n_bytes, sizeof n_bytes);
        wefti_buffer_put(ctx, waiting, bytes, n_bytes);
        file->n_waiting += n_bytes;
        return;
    }
    file->n_dropped++;
    if (waiting->status == WEFT_OK) return;
    waiting->status = WEFT_OK; /* what it has stays */
    weft_ctx_clear(ctx);
}

weft_status wefti_append_write(weft_ctx *ctx, wefti_append *file, const void *bytes,
                               int64_t n_bytes) {
    int error = 0;
    if (file->refused) error = is_due(file) ? catch_up(ctx, file) : EAGAIN;
    if (error == 0) error = write_piece(file, bytes, n_bytes);
    if (error == 0) return WEFT_OK;
    errno = error;
    if (file->room == 0) return wefti_fail_errno(ctx, "write", file->path);
    put_aside(ctx, file, bytes, n_bytes, error);
    return WEFT_OK;
}

weft_status wefti_append_sync(weft_ctx *ctx, wefti_append *file) {
    int error = file->refused ? catch_up(ctx, file) : write_piece(file, "", 0);
    errno = error;
    if (error != 0) return wefti_fail_errno(ctx, "write", file->path);
    if (fsync(file->fd) == 0) return WEFT_OK;
    return wefti_fail_errno(ctx, "sync", file->path);
}

weft_status wefti_append_fini(weft_ctx *ctx, wefti_append *file) {
    weft_status status = WEFT_OK;
    if (file->refused && catch_up(ctx, file) != 0)
        weft_ctx_log(ctx, WEFT_LOG_WARN,
                     "the end of %s is lost: the disk did not take it any more",
                     file->path);
    else
        status = wefti_append_sync(ctx, file);
    if (close(file->fd) != 0 && status == WEFT_OK)
        status = wefti_fail_errno(ctx, "close", file->path);
    wefti_buffer_fini(ctx, &file->waiting);
    wefti_free(ctx, file->path);
    *file = (wefti_append){.fd = -1};
    return status;
}
