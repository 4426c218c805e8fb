/* SPDX-License-Identifier: MIT */
/* Bytes of a text, unpacked if they are packed. What a file is follows from its first bytes,
 * not from its name:
 *
 *     1F 8B           gzip, one member after another   zlib
 *     28 B5 2F FD     zstd, one frame after another    libzstd
 *     else            as they are
 *
 * The first bytes that come out of it are held back and looked at, so that a picture or a
 * program is refused before anything is made of it. A packed file that ends in the middle is
 * an error: half a text must not pass for a whole one. */
#define _GNU_SOURCE
#include "input/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "store/fetch.h"
#include "text/sniff.h"
#include "base/stop.h"
#include "base/text.h"
#include "text/utf8.h"

enum { RAW_BYTES = 1 << 16, HEAD_BYTES = 1 << 14 };

typedef enum packing { PLAIN, GZIP, ZSTD } packing;

struct wefti_input {
    const char *path; /* borrowed */
    int fd;
    packing packing;
    bool raw_ended;          /* the file has no more bytes */
    bool open_frame;         /* in a packed stream whose end has not come yet */
    int64_t raw_at, raw_n;   /* unread part of raw */
    int64_t head_at, head_n; /* unread part of head */
    z_stream gzip;
    bool gzip_begun;
    ZSTD_DStream *zstd; /* owned */
    unsigned char raw[RAW_BYTES];
    char head[HEAD_BYTES]; /* first unpacked bytes, held back to be looked at */
};

static weft_status open_file(weft_ctx *ctx, wefti_input *in) {
    char path[PATH_MAX];
    struct stat info;
    bool standard = wefti_is(in->path, "-");
    WEFT_TRY(wefti_fetch_file(ctx, in->path, path));
    in->fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                      : open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (in->fd < 0 && strstr(in->path, "://"))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s is an address that is not known, expected https://, "
                             "http://, s3:// or a file",
                             in->path);
    if (in->fd < 0)
        return wefti_fail_errno(ctx, "open", standard ? "standard input" : in->path);
    if (fstat(in->fd, &info) != 0) return wefti_fail_errno(ctx, "stat", in->path);
    if (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode))
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s is not a regular file or a pipe",
                         standard ? "standard input" : in->path);
}

/* Waits until there is something to read, for as long as that is wanted: a pipe may have no
 * writer for ever. A file is always ready. */
static weft_status await(weft_ctx *ctx, const wefti_input *in) {
    enum { LOOK_MS = 100 };
    struct pollfd fd = {.fd = in->fd, .events = POLLIN};
    int ready = 0;
    while (ready == 0 || (ready < 0 && errno == EINTR)) {
        if (wefti_stop_asked(ctx))
            return weft_ctx_fail(
                ctx, WEFT_ERR_FILE,
                "stopped while %s was read, before the first step; nothing is saved",
                wefti_is(in->path, "-") ? "standard input" : in->path);
        ready = poll(&fd, 1, LOOK_MS);
    }
    return WEFT_OK; /* what is wrong with it the read says */
}

/* Reads more of the file behind what is unread in raw, until at least `least` bytes are
 * there or the file ends. */
static weft_status fill_raw(weft_ctx *ctx, wefti_input *in, int64_t least) {
    if (in->raw_at > 0) {
        memmove(in->raw, in->raw + in->raw_at, (size_t)in->raw_n);
        in->raw_at = 0;
    }
    while (!in->raw_ended && in->raw_n < least) {
        WEFT_TRY(await(ctx, in));
        ssize_t got = read(in->fd, in->raw + in->raw_n, (size_t)(RAW_BYTES - in->raw_n));
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return wefti_fail_errno(ctx, "read", in->path);
        in->raw_ended = got == 0;
        in->raw_n += got;
    }
    return WEFT_OK;
}

static weft_status find_packing(weft_ctx *ctx, wefti_input *in) {
    static const unsigned char gzip[] = {0x1F, 0x8B}, zstd[] = {0x28, 0xB5, 0x2F, 0xFD};
    WEFT_TRY(fill_raw(ctx, in, 4));
    if (in->raw_n >= 2 && memcmp(in->raw, gzip, sizeof gzip) == 0) {
        in->packing = GZIP;
        if (inflateInit2(&in->gzip, 15 + 16) != Z_OK)
            return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory to unpack %s",
                                 in->path);
        in->gzip_begun = true;
    } else if (in->raw_n >= 4 && memcmp(in->raw, zstd, sizeof zstd) == 0) {
        in->packing = ZSTD;
        in->zstd = ZSTD_createDStream();
        if (!in->zstd)
            return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory to unpack %s",
                                 in->path);
    }
    return WEFT_OK;
}

static weft_status fail_packed(weft_ctx *ctx, const wefti_input *in, const char *fault) {
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s: the %s data %s", in->path,
                         in->packing == GZIP ? "gzip" : "zstd", fault);
}

static weft_status read_plain(weft_ctx *ctx, wefti_input *in, char *out, int64_t capacity,
                              int64_t *n) {
    WEFT_TRY(fill_raw(ctx, in, 1));
    *n = in->raw_n < capacity ? in->raw_n : capacity;
    memcpy(out, in->raw + in->raw_at, (size_t)*n);
    in->raw_at += *n;
    in->raw_n -= *n;
    return WEFT_OK;
}

/* One call of zlib: some raw bytes in, *n bytes out (maybe none). */
static weft_status step_gzip(weft_ctx *ctx, wefti_input *in, char *out, int64_t capacity,
                             int64_t *n) {
    z_stream *z = &in->gzip;
    if (!in->open_frame) /* the next member; at the first it changes nothing */
        (void)inflateReset(z);
    in->open_frame = true;
    z->next_in = in->raw + in->raw_at;
    z->avail_in = (unsigned)in->raw_n;
    z->next_out = (unsigned char *)out;
    z->avail_out = capacity < 1 << 30 ? (unsigned)capacity : 1u << 30;
    unsigned room = z->avail_out;
    int rc = inflate(z, Z_NO_FLUSH);
    in->raw_at += in->raw_n - (int64_t)z->avail_in;
    in->raw_n = (int64_t)z->avail_in;
    *n = (int64_t)(room - z->avail_out);
    if (rc == Z_STREAM_END) in->open_frame = false;
    if (rc == Z_MEM_ERROR)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory to unpack %s", in->path);
    if (rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR) return WEFT_OK;
    return fail_packed(ctx, in, "is damaged");
}

static weft_status step_zstd(weft_ctx *ctx, wefti_input *in, char *out, int64_t capacity,
                             int64_t *n) {
    ZSTD_inBuffer from = {in->raw + in->raw_at, (size_t)in->raw_n, 0};
    ZSTD_outBuffer to = {out, (size_t)capacity, 0};
    size_t rc = ZSTD_decompressStream(in->zstd, &to, &from);
    if (ZSTD_isError(rc)) return fail_packed(ctx, in, "is damaged");
    in->open_frame = rc != 0;
    in->raw_at += (int64_t)from.pos;
    in->raw_n -= (int64_t)from.pos;
    *n = (int64_t)to.pos;
    return WEFT_OK;
}

/* What follows the last gzip member is padding if it is zeros; else it is read as a
 * member, and found to be none. */
static bool only_padding(const wefti_input *in) {
    if (in->packing != GZIP || in->open_frame) return false;
    for (int64_t i = 0; i < in->raw_n; i++)
        if (in->raw[in->raw_at + i] != 0) return false;
    return true;
}

static weft_status read_packed(weft_ctx *ctx, wefti_input *in, char *out,
                               int64_t capacity, int64_t *n) {
    *n = 0;
    while (*n == 0) {
        WEFT_TRY(fill_raw(ctx, in, 1));
        int64_t before = in->raw_n;
        if (!in->open_frame && in->raw_n > 0 && only_padding(in)) {
            in->raw_n = 0;
            continue;
        }
        if (in->raw_n == 0 && !in->open_frame) return WEFT_OK;
        WEFT_TRY(
            (in->packing == GZIP ? step_gzip : step_zstd)(ctx, in, out, capacity, n));
        if (*n == 0 && in->raw_ended && before == in->raw_n && in->open_frame)
            return fail_packed(ctx, in, "ends in the middle");
    }
    return WEFT_OK;
}

static weft_status read_any(weft_ctx *ctx, wefti_input *in, char *out, int64_t capacity,
                            int64_t *n) {
    return (in->packing == PLAIN ? read_plain : read_packed)(ctx, in, out, capacity, n);
}

/* Says once, for all files, that one is in an old encoding. A character may be cut where the
 * beginning ends. */
static void warn_of_encoding(weft_ctx *ctx, const wefti_input *in) {
    enum { CUT = 3 };
    int64_t valid = wefti_utf8_valid(in->head, in->head_n);
    if (valid == in->head_n || (in->head_n == HEAD_BYTES && valid >= HEAD_BYTES - CUT))
        return;
    wefti_ctx_warn_once(ctx, WEFTI_WARNING_ENCODING,
                        "%s is not UTF-8 from byte %lld on (0x%02x): its bytes are taken "
                        "as they are; convert it, as by iconv -f LATIN1 -t UTF-8",
                        in->path, (long long)valid + 1, (unsigned char)in->head[valid]);
}

/* Holds back the beginning and looks at it. A pipe that gives a few bytes at a time is
 * waited for: the beginning is the same whatever the writer's pace. */
static weft_status look(weft_ctx *ctx, wefti_input *in) {
    int64_t n = 1;
    while (n > 0 && in->head_n < HEAD_BYTES) {
        WEFT_TRY(read_any(ctx, in, in->head + in->head_n, HEAD_BYTES - in->head_n, &n));
        in->head_n += n;
    }
    const char *found = wefti_sniff(in->head, in->head_n);
    if (!found) {
        warn_of_encoding(ctx, in);
        return WEFT_OK;
    }
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s is %s, expected text in UTF-8%s",
                         in->path, found, in->packing == PLAIN ? "" : " when unpacked");
}

weft_status wefti_input_open(weft_ctx *ctx, const char *path, wefti_input **out) {
    wefti_input *in;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *in, "a text to read", &in));
    in->path = path;
    in->fd = -1;
    weft_status status = open_file(ctx, in);
    if (status == WEFT_OK) status = find_packing(ctx, in);
    if (status == WEFT_OK) status = look(ctx, in);
    if (status == WEFT_OK)
        *out = in;
    else
        wefti_input_close(ctx, in);
    return status;
}

const char *wefti_input_head(const wefti_input *in, int64_t *n) {
    *n = in->head_n;
    return in->head;
}

weft_status wefti_input_read(weft_ctx *ctx, wefti_input *in, char *out, int64_t capacity,
                             int64_t *n) {
    if (in->head_n == 0) return read_any(ctx, in, out, capacity, n);
    *n = in->head_n < capacity ? in->head_n : capacity;
    memcpy(out, in->head + in->head_at, (size_t)*n);
    in->head_at += *n;
    in->head_n -= *n;
    return WEFT_OK;
}

void wefti_input_close(weft_ctx *ctx, wefti_input *in) {
    if (!in) return;
    if (in->fd >= 0) close(in->fd);
    if (in->gzip_begun) inflateEnd(&in->gzip);
    ZSTD_freeDStream(in->zstd);
    wefti_free(ctx, in);
}

weft_status wefti_input_read_all(weft_ctx *ctx, const char *path, char **bytes,
                                 int64_t *n) {
    enum { PIECE_BYTES = 1 << 18 };
    wefti_input *in;
    wefti_buffer all = {0};
    int64_t got = 1;
    *bytes = NULL;
    *n = 0;
    WEFT_TRY(wefti_input_open(ctx, path, &in));
    weft_status status = WEFT_OK;
    while (got > 0 && status == WEFT_OK) {
        wefti_buffer_reserve(ctx, &all, PIECE_BYTES);
        status = all.status;
        if (status == WEFT_OK)
            status = wefti_input_read(ctx, in, all.bytes + all.n, PIECE_BYTES, &got);
        if (status == WEFT_OK) all.n += got;
    }
    wefti_input_close(ctx, in);
    if (status != WEFT_OK) {
        wefti_buffer_fini(ctx, &all);
        return status;
    }
    *bytes = all.bytes;
    *n = all.n;
    return WEFT_OK;
}
