/* SPDX-License-Identifier: MIT */
/* TFRecord framing, all little-endian:
 *
 *   u64 length | u32 masked CRC-32C of the length | the bytes | u32 masked CRC of them
 *   masked(c) = (c rotated right by 15 bits) + 0xa282ead8
 *
 * The bytes are one protobuf `Event` (tensorflow/core/util/event.proto):
 *
 *   1 double wall_time, 2 int64 step, 3 string file_version, 5 Summary, 7 SessionLog
 *   Summary: repeated 1 Value { 1 string tag, 2 float simple_value, 8 TensorProto tensor,
 *                               9 SummaryMetadata }
 *   SummaryMetadata: 1 PluginData { 1 string plugin_name, 2 bytes content }
 *   TensorProto: 1 dtype (7: text), 2 shape { 2 dim { 1 size } }, 8 repeated bytes string_val
 *   SessionLog: 1 status
 *
 * What a run was set to goes to two of TensorBoard's plugins (plugins/hparams/plugin_data.proto):
 *
 *   "_hparams_/session_start_info", content { 3 { 1 repeated { 1 key, 2 Value }, 5 time } }
 *   "_hparams_/session_end_info",   content { 4 { 1 status (1 success, 2 failure), 2 time } }
 *   a text under its tag, plugin "text", as a tensor of one text
 *
 * where Value (google.protobuf.Value) is 2 a number, 3 a text or 4 true or false.
 *
 * CRC-32C: Castagnoli, reflected polynomial 0x82f63b78 (RFC 3720, B.4). */
#define _GNU_SOURCE
#include "record/tfevents.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "record/append.h"
#include "base/buffer.h"

/* Keys and values of protobuf fields. A varint of 64 bits takes at most ten bytes. */

/* Writing of protobuf messages (https://protobuf.dev/programming-guides/encoding), as far as
 * event files need it: a message is its fields one after another, a field is a key and a value.
 * Failures are kept in the buffer's status. */

typedef enum wefti_wire_type {
    WEFTI_VARINT = 0,
    WEFTI_FIXED64 = 1,
    WEFTI_BYTES = 2,
    WEFTI_FIXED32 = 5
} wefti_wire_type;

/* A whole number of n_bytes bytes, the least significant one first. */
static void put_little(weft_ctx *ctx, wefti_buffer *out, uint64_t value, int n_bytes) {
    unsigned char bytes[8];
    for (int i = 0; i < n_bytes; i++) bytes[i] = (unsigned char)(value >> (8 * i));
    wefti_buffer_put(ctx, out, bytes, n_bytes);
}

static void put_varint(weft_ctx *ctx, wefti_buffer *out, uint64_t value) {
    unsigned char bytes[10];
    int n = 0;
    for (; value >= 128; value >>= 7) bytes[n++] = (unsigned char)(value | 128);
    bytes[n++] = (unsigned char)value;
    wefti_buffer_put(ctx, out, bytes, n);
}

/* field << 3 | type. */
static void put_field(weft_ctx *ctx, wefti_buffer *out, int field, wefti_wire_type type) {
    put_varint(ctx, out, (uint64_t)field << 3 | (uint64_t)type);
}

/* Whole fields: text, bytes or an inner message; a double; a whole number. */
static void put_bytes(weft_ctx *ctx, wefti_buffer *out, int field, const void *bytes,
                      int64_t n_bytes) {
    put_field(ctx, out, field, WEFTI_BYTES);
    put_varint(ctx, out, (uint64_t)n_bytes);
    if (n_bytes > 0) wefti_buffer_put(ctx, out, bytes, n_bytes);
}

static void put_string(weft_ctx *ctx, wefti_buffer *out, int field, const char *text) {
    put_bytes(ctx, out, field, text, (int64_t)strlen(text));
}

static void put_double(weft_ctx *ctx, wefti_buffer *out, int field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_field(ctx, out, field, WEFTI_FIXED64);
    put_little(ctx, out, bits, 8);
}

static void put_int(weft_ctx *ctx, wefti_buffer *out, int field, uint64_t value) {
    put_field(ctx, out, field, WEFTI_VARINT);
    put_varint(ctx, out, value);
}

enum {
    MESSAGE_BYTES = 4096,
    MAX_FILES = 1000,
    SESSION_START = 1,
    ROOM = 16 << 20 /* bytes that may wait for the disk */
};

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

/* ---- events ---- */

static void begin_event(weft_ctx *ctx, wefti_tfevents *e, int64_t step, double unix_s) {
    e->event.n = 0;
    e->event.status = WEFT_OK;
    put_double(ctx, &e->event, 1, unix_s);
    put_int(ctx, &e->event, 2, (uint64_t)step);
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
    put_string(ctx, value, 1, scalar->tag);
    put_field(ctx, value, 2, WEFTI_FIXED32);
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

/* ---- what the run was set to ---- */

/* An event of one Value: its tag, what else it has (a tensor; NULL: nothing), and for which
 * plugin it is, with that plugin's content. */
static weft_status write_value(weft_ctx *ctx, wefti_tfevents *e, double unix_s,
                               const char *tag, const wefti_buffer *tensor,
                               const char *plugin, const wefti_buffer *content) {
    wefti_buffer data = {0}, metadata = {0}, *value = &e->value;
    put_string(ctx, &data, 1, plugin);
    if (content) put_bytes(ctx, &data, 2, content->bytes, content->n);
    put_bytes(ctx, &metadata, 1, data.bytes, data.n);
    value->n = e->summary.n = 0;
    value->status = e->summary.status = WEFT_OK;
    put_string(ctx, value, 1, tag);
    if (tensor) put_bytes(ctx, value, 8, tensor->bytes, tensor->n);
    put_bytes(ctx, value, 9, metadata.bytes, metadata.n);
    put_bytes(ctx, &e->summary, 1, value->bytes, value->n);
    begin_event(ctx, e, 0, unix_s);
    put_bytes(ctx, &e->event, 5, e->summary.bytes, e->summary.n);
    const weft_status all[] = {data.status, metadata.status, value->status,
                               e->summary.status};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 4 && status == WEFT_OK; i++) status = all[i];
    if (status == WEFT_OK) status = write_record(ctx, e);
    wefti_buffer_fini(ctx, &data);
    wefti_buffer_fini(ctx, &metadata);
    return status;
}

/* One entry of the map of settings: {1 name, 2 Value}. */
static void put_setting(weft_ctx *ctx, wefti_buffer *out, const wefti_setting *s) {
    wefti_buffer value = {0}, entry = {0};
    if (s->text)
        put_string(ctx, &value, 3, s->text);
    else if (s->is_truth)
        put_int(ctx, &value, 4, s->number != 0);
    else
        put_double(ctx, &value, 2, s->number);
    put_string(ctx, &entry, 1, s->name);
    put_bytes(ctx, &entry, 2, value.bytes, value.n);
    put_bytes(ctx, out, 1, entry.bytes, entry.n);
    if (out->status == WEFT_OK)
        out->status = value.status != WEFT_OK ? value.status : entry.status;
    wefti_buffer_fini(ctx, &value);
    wefti_buffer_fini(ctx, &entry);
}

/* Content of the plugin: `field` of HParamsPluginData is the message `inner`. */
static weft_status write_session(weft_ctx *ctx, wefti_tfevents *e, double unix_s,
                                 const char *tag, int field, const wefti_buffer *inner) {
    wefti_buffer content = {0};
    put_bytes(ctx, &content, field, inner->bytes, inner->n);
    weft_status status = inner->status != WEFT_OK ? inner->status : content.status;
    if (status == WEFT_OK)
        status = write_value(ctx, e, unix_s, tag, NULL, "hparams", &content);
    wefti_buffer_fini(ctx, &content);
    return status;
}

weft_status wefti_tfevents_settings(weft_ctx *ctx, wefti_tfevents *e, double unix_s,
                                    const wefti_setting *settings, int n) {
    wefti_buffer start = {0};
    for (int i = 0; i < n; i++) put_setting(ctx, &start, &settings[i]);
    put_double(ctx, &start, 5, unix_s);
    weft_status status = write_session(ctx, e, unix_s, "_hparams_/session_start_info", 3,
                                       &start);
    wefti_buffer_fini(ctx, &start);
    return status;
}

weft_status wefti_tfevents_end(weft_ctx *ctx, wefti_tfevents *e, double unix_s,
                               bool success) {
    enum { SUCCESS = 1, FAILURE = 2 };
    wefti_buffer end = {0};
    put_int(ctx, &end, 1, success ? SUCCESS : FAILURE);
    put_double(ctx, &end, 2, unix_s);
    weft_status status = write_session(ctx, e, unix_s, "_hparams_/session_end_info", 4,
                                       &end);
    wefti_buffer_fini(ctx, &end);
    return status;
}

weft_status wefti_tfevents_text(weft_ctx *ctx, wefti_tfevents *e, double unix_s,
                                const char *tag, const char *text) {
    enum { DT_STRING = 7 };
    static const unsigned char one_text[] = {0x12, 2, 0x08, 1}; /* dim { size: 1 } */
    wefti_buffer tensor = {0};
    put_int(ctx, &tensor, 1, DT_STRING);
    put_bytes(ctx, &tensor, 2, one_text, sizeof one_text);
    put_string(ctx, &tensor, 8, text);
    weft_status status = tensor.status;
    if (status == WEFT_OK)
        status = write_value(ctx, e, unix_s, tag, &tensor, "text", NULL);
    wefti_buffer_fini(ctx, &tensor);
    return status;
}

/* ---- the file ---- */

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
    static const unsigned char session_log[] = {1 << 3 | WEFTI_VARINT, SESSION_START};
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
            wefti_append_wait(&e->file, ROOM);
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
