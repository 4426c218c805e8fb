/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"

/* A file that only grows, whole pieces at a time: a piece is one write, and if the disk
 * is full half-way, what was written of it is taken back. One writer. */
typedef struct wefti_append {
    char *path; /* owned */
    int fd;
    int64_t n_bytes;
    int64_t room; /* bytes that may wait in memory; 0: a refused write is an error */
    wefti_buffer
        waiting; /* pieces that the disk has refused so far, each behind its length */
    int64_t n_waiting; /* their bytes */
    int64_t n_dropped; /* that found no room */
    bool refused;
    bool lacks_end; /* the newline of the last line, which the disk has refused */
    double tried_s; /* when it was refused last */
} wefti_append;

/* Opens for appending; with `fresh` it is an error (*exists = true, no message) if the
 * file is there already. On failure nothing is owned. */
weft_status wefti_append_init(weft_ctx *ctx, const char *path, bool fresh, bool *exists,
                              wefti_append *out) WEFT_CHECKED;

weft_status wefti_append_write(weft_ctx *ctx, wefti_append *file, const void *bytes,
                               int64_t n_bytes) WEFT_CHECKED;

/* From now on a write that the disk refuses is no error: the piece waits in memory, up to
 * `room` bytes of them, and goes before the next one; what finds no room is counted. A
 * warning says so, and another one when the disk takes them. */
void wefti_append_wait(wefti_append *file, int64_t room);

/* What was written so far is on the disk; an error while pieces wait. */
weft_status wefti_append_sync(weft_ctx *ctx, wefti_append *file) WEFT_CHECKED;

/* Syncs and closes; the status says whether everything reached the disk. Of pieces that
 * still wait, a warning says that they are lost. */
weft_status wefti_append_fini(weft_ctx *ctx, wefti_append *file) WEFT_CHECKED;
