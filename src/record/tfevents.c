/* SPDX-License-Identifier: MIT */
/* TFRecord framing, all little-endian:
 *
 *   u64 length | u32 masked CRC-32C of the length | the bytes | u32 masked CRC of them
 *   masked(c) = (c rotated right by 15 bits) + 0xa282ead8
 *
 * The bytes are one protobuf `Event` (tensorflow/core/util/event.proto):
 *
 *   1 double wall_time, 2 int64 step, 3 string file_version, 5 Summary, 7 SessionLog
 *   Summary: repeated 1 Value { 1 string tag, 2 float simple_value }
 *   SessionLog: 1 status
 *
 * CRC-32C: Castagnoli, reflected polynomial 0x82f63b78 (RFC 3720, B.4). */
#define _GNU_SOURCE
#include "record/tfevents.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "record/append.h"
#include "base/buffer.h"

enum { MESSAGE_BYTES = 4096, MAX_FILES = 1000, SESSION_START = 1 };

struct wefti_tfevents {
    wefti_append file;
    wefti_buffer event, record; /* the message; the message in its frame */
    wefti_buffer value;         /* one Value, or all of a Summary */
    wefti_buffer summary;
    uint32_t crc_table[256];
};

/* ---- framing ---- */

static void fill_crc_table(uint32_t table[256]) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
        table[i] = c;
    }
}

static uint32_t masked_crc(const uint32_t table[256], const char *bytes, int64_t n) {
    uint32_t c = 0xffffffffu;
    for (int64_t i = 0; i < n; i++)
        c = table[(c ^ (unsigned char)bytes[i]) & 255] ^ c >> 8;
    c = ~c;
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

static void put_little(weft_ctx *ctx, wefti_buffer *out, uint64_t value, int n_bytes) {
    unsigned char bytes[8];
    for (int i = 0; i < n_bytes; i++) bytes[i] = (unsigned char)(value >> (8 * i));
    wefti_buffer_put(ctx, out, bytes, n_bytes);
}

static weft_status write_record(weft_ctx *ctx, wefti_tfevents *e) {
    wefti_buffer *record = &e->record;
    WEFT_TRY(e->event.status);
    record->n = 0;
    record->status = WEFT_OK;
    put_little(ctx, record, (uint64_t)e->event.n, 8);
    WEFT_TRY(record->status);
    put_little(ctx, record, masked_crc(e->crc_table, record->bytes, 8), 4);
    wefti_buffer_put(ctx, record, e->event.bytes, e->event.n);
    put_little(ctx, record, masked_crc(e->crc_table, e->event.bytes, e->event.n), 4);
    WEFT_TRY(record->status);
    return wefti_append_write(ctx, &e->file, record->bytes, record->n);
}

/* ---- protobuf ---- */

typedef enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 } wire_type;

static void put_varint(weft_ctx *ctx, wefti_buffer *out, uint64_t value) {
    unsigned char bytes[10];
    int n = 0;
    for (; value >= 128; value >>= 7) bytes[n++] = (unsigned char)(value | 128);
    bytes[n++] = (unsigned char)value;
    wefti_buffer_put(ctx, out, bytes, n);
}

static void put_key(weft_ctx *ctx, wefti_buffer *out, int field, wire_type type) {
    put_varint(ctx, out, (uint64_t)field << 3 | (uint64_t)type);
}

static void put_bytes(weft_ctx *ctx, wefti_buffer *out, int field, const void *bytes,
                      int64_t n_bytes) {
    put_key(ctx, out, field, BYTES);
    put_varint(ctx, out, (uint64_t)n_bytes);
    wefti_buffer_put(ctx, out, bytes, n_bytes);
}

static void begin_event(weft_ctx *ctx, wefti_tfevents *e, int64_t step, double unix_s) {
    uint64_t bits;
    memcpy(&bits, &unix_s, sizeof bits);
    e->event.n = 0;
    e->event.status = WEFT_OK;
    put_key(ctx, &e->event, 1, FIXED64);
    put_little(ctx, &e->event, bits, 8);
    put_key(ctx, &e->event, 2, VARINT);
    put_varint(ctx, &e->event, (uint64_t)step);
}

static float to_single(double value) {
    if (isfinite(value) && fabs(value) > FLT_MAX) return value > 0 ? INFINITY : -INFINITY;
    return (float)value;
}

static void put_scalar(weft_ctx *ctx, wefti_buffer *value, const wefti_scalar *scalar) {
    float single = to_single(scalar->value);
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    value->n = 0;
    put_bytes(ctx, value, 1, scalar->tag, (int64_t)strlen(scalar->tag));
    put_key(ctx, value, 2, FIXED32);
    put_little(ctx, value, bits, 4);
}

weft_status wefti_tfevents_write(weft_ctx *ctx, wefti_tfevents *events, int64_t step,
                                 double unix_s, const wefti_scalar *scalars, int n) {
    wefti_buffer *value = &events->value, *summary = &events->summary;
    summary->n = 0;
    summary->status = value->status = WEFT_OK;
    for (int i = 0; i < n; i++) {
        put_scalar(ctx, value, &scalars[i]);
        put_bytes(ctx, summary, 1, value->bytes, value->n);
        WEFT_TRY(value->status);
        WEFT_TRY(summary->status);
    }
    begin_event(ctx, events, step, unix_s);
    put_bytes(ctx, &events->event, 5, summary->bytes, summary->n);
    return write_record(ctx, events);
}

/* ---- the file ---- */

double wefti_unix_now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *wefti_tfevents_path(const wefti_tfevents *events) {
    return events->file.path;
}

/* The first name of its kind that is not taken. */
static weft_status create_file(weft_ctx *ctx, const char *folder, double unix_s,
                               wefti_append *file) {
    char host[256] = "host", path[PATH_MAX];
    bool exists = true;
    if (gethostname(host, sizeof host - 1) != 0) strcpy(host, "host");
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '_';
    for (int k = 0; k < MAX_FILES; k++) {
        int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%010lld.%s.%ld.%d",
                         folder, (long long)unix_s, host, (long)getpid(), k);
        if (n >= (int)sizeof path)
            return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", folder);
        weft_status status = wefti_append_init(ctx, path, true, &exists, file);
        if (!exists) return status;
    }
    return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                         "%s is there already, and so are %d before it", path,
                         MAX_FILES - 1);
}

static weft_status write_head(weft_ctx *ctx, wefti_tfevents *e, int64_t first_step,
                              double unix_s) {
    static const char version[] = "brain.Event:2";
    static const unsigned char session_log[] = {1 << 3 | VARINT, SESSION_START};
    begin_event(ctx, e, 0, unix_s);
    put_bytes(ctx, &e->event, 3, version, sizeof version - 1);
    WEFT_TRY(write_record(ctx, e));
    if (first_step <= 0) return WEFT_OK;
    begin_event(ctx, e, first_step, unix_s);
    put_bytes(ctx, &e->event, 7, session_log, sizeof session_log);
    return write_record(ctx, e);
}

static weft_status reserve_all(weft_ctx *ctx, wefti_tfevents *e) {
    wefti_buffer *all[] = {&e->event, &e->record, &e->value, &e->summary};
    for (int i = 0; i < 4; i++) {
        wefti_buffer_reserve(ctx, all[i], MESSAGE_BYTES);
        WEFT_TRY(all[i]->status);
    }
    return WEFT_OK;
}

static void release(weft_ctx *ctx, wefti_tfevents *e) {
    wefti_buffer_fini(ctx, &e->event);
    wefti_buffer_fini(ctx, &e->record);
    wefti_buffer_fini(ctx, &e->value);
    wefti_buffer_fini(ctx, &e->summary);
    wefti_free(ctx, e);
}

weft_status wefti_tfevents_create(weft_ctx *ctx, const char *folder, int64_t first_step,
                                  double unix_s, wefti_tfevents **out) {
    wefti_tfevents *e;
    *out = NULL;
    if (!(unix_s >= 0 && unix_s < 1e15))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the clock says %g seconds since 1970", unix_s);
    WEFT_TRY(wefti_alloc(ctx, sizeof *e, "the event file", &e));
    e->file.fd = -1;
    fill_crc_table(e->crc_table);
    weft_status status = reserve_all(ctx, e);
    if (status == WEFT_OK) status = create_file(ctx, folder, unix_s, &e->file);
    if (status == WEFT_OK) {
        status = write_head(ctx, e, first_step, unix_s);
        if (status == WEFT_OK) {
            *out = e;
            return WEFT_OK;
        }
        unlink(e->file.path);
        weft_status closed = wefti_append_fini(ctx, &e->file);
        (void)closed; /* the first failure counts */
    }
    release(ctx, e);
    return status;
}

weft_status wefti_tfevents_close(weft_ctx *ctx, wefti_tfevents *events) {
    if (!events) return WEFT_OK;
    weft_status status = wefti_append_fini(ctx, &events->file);
    release(ctx, events);
    return status;
}
