/* SPDX-License-Identifier: MIT */
/* metrics.jsonl: one JSON object per line, appended, synced with each checkpoint; reading leaves
 * out lines that are damaged, and a resumed run drops the lines behind its checkpoint. */
#define _GNU_SOURCE
#include "record/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "text/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "record/append.h"
#include "base/buffer.h"

enum {
    LINE_BYTES = 4096, /* room for a line that is reserved */
    TAIL_BYTES = 1 << 18
};

static const int64_t max_file_bytes = (int64_t)2 << 30;

/* ---- lines ---- */

typedef struct lines {
    const char *path;
    char *data; /* owned */
    int64_t n_bytes, next, number;
    int64_t n_damaged, first_damaged; /* lines that are no JSON object, the last one cut
                                         off by a crash not counted */
    char why[160];
} lines;

typedef struct line {
    int64_t begin, n_bytes; /* without the newline */
    json_t *object;         /* owned; NULL: an empty or a damaged line */
    bool has_end;           /* a newline follows */
} line;

/* The next line; the caller has checked that there is one. */
static weft_status next_line(weft_ctx *ctx, lines *in, line *out) {
    json_error_t error;
    char *begin = in->data + in->next;
    char *end = memchr(begin, '\n', (size_t)(in->n_bytes - in->next));
    *out = (line){.begin = in->next, .has_end = end != NULL};
    out->n_bytes = end ? end - begin : in->n_bytes - in->next;
    in->next += out->n_bytes + (end != NULL);
    in->number++;
    if (wefti_is_blank(begin, out->n_bytes)) return WEFT_OK;
    out->object = wefti_json_load(begin, out->n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(out->object)) return WEFT_OK;
    /* for want of memory a good last line would pass for one that was cut off */
    bool memory = out->object ||
                  wefti_json_blame(&error, WEFT_ERR_FORMAT) == WEFT_ERR_FORMAT;
    const char *why = out->object ? "expected an object" : error.text;
    json_decref(out->object);
    out->object = NULL;
    if (!memory)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for reading %s", in->path);
    if (!out->has_end || in->n_damaged++ > 0) return WEFT_OK;
    in->first_damaged = in->number;
    snprintf(in->why, sizeof in->why, "%s", why);
    wefti_text_plain(in->why);
    return WEFT_OK;
}

static void warn_of_damage(weft_ctx *ctx, const lines *in) {
    char others[64] = "";
    if (in->n_damaged == 0) return;
    if (in->n_damaged > 1)
        snprintf(others, sizeof others, "; nor are %lld others",
                 (long long)in->n_damaged - 1);
    weft_ctx_log(ctx, WEFT_LOG_WARN,
                 "line %lld of %s is left out, for it is not a JSON object (%s)%s",
                 (long long)in->first_damaged, in->path, in->why, others);
}

static double number_of(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* ---- write ---- */

struct wefti_metrics {
    wefti_append file;
    wefti_buffer text;
};

/* Moves the lines to keep to the front of the data. */
static weft_status keep_earlier(weft_ctx *ctx, lines *in, int64_t first_step,
                                int64_t *n_kept) {
    *n_kept = 0;
    while (in->next < in->n_bytes) {
        line now;
        WEFT_TRY(next_line(ctx, in, &now));
        bool keep = now.object && !(number_of(now.object, "step") >= (double)first_step);
        json_decref(now.object);
        if (!keep) continue;
        memmove(in->data + *n_kept, in->data + now.begin, (size_t)now.n_bytes);
        *n_kept += now.n_bytes;
        in->data[(*n_kept)++] =
            '\n'; /* the data has a NUL to spare after its last byte */
    }
    return WEFT_OK;
}

static weft_status drop_later_lines(weft_ctx *ctx, const char *path, int64_t first_step) {
    lines in = {.path = path};
    int64_t n_kept;
    if (access(path, F_OK) != 0 && errno == ENOENT) return WEFT_OK;
    if (first_step <= 0) return wefti_file_write(ctx, path, "", 0);
    WEFT_TRY(wefti_file_read(ctx, path, max_file_bytes, &in.data, &in.n_bytes));
    weft_status status = keep_earlier(ctx, &in, first_step, &n_kept);
    if (status == WEFT_OK) status = wefti_file_write(ctx, path, in.data, n_kept);
    if (status == WEFT_OK) warn_of_damage(ctx, &in);
    wefti_free(ctx, in.data);
    return status;
}

weft_status wefti_metrics_open(weft_ctx *ctx, const char *path, int64_t first_step,
                               wefti_metrics **out) {
    bool exists;
    wefti_metrics *m;
    *out = NULL;
    WEFT_TRY(drop_later_lines(ctx, path, first_step));
    WEFT_TRY(wefti_alloc(ctx, sizeof *m, "the metrics file", &m));
    wefti_buffer_reserve(ctx, &m->text, LINE_BYTES);
    weft_status status = m->text.status;
    if (status == WEFT_OK)
        status = wefti_append_init(ctx, path, false, &exists, &m->file);
    if (status == WEFT_OK) {
        wefti_append_wait(&m->file, WEFTI_METRICS_ROOM);
        *out = m;
        return WEFT_OK;
    }
    wefti_buffer_fini(ctx, &m->text);
    wefti_free(ctx, m);
    return status;
}

static void put_value(weft_ctx *ctx, wefti_buffer *text, const wefti_metric *metric) {
    if (metric->kind == WEFTI_METRIC_INT)
        wefti_buffer_print(ctx, text, "%lld", (long long)metric->integer);
    else if (metric->kind == WEFTI_METRIC_REAL)
        wefti_buffer_real(ctx, text, metric->real);
    else if (metric->text)
        wefti_buffer_json(ctx, text, metric->text);
    else
        wefti_buffer_text(ctx, text, "null");
}

static weft_status check_names(weft_ctx *ctx, const wefti_metric *row, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (wefti_is(row[i].name, row[k].name))
                return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                     "two metrics of a line are '%s'", row[i].name);
    return WEFT_OK;
}

weft_status wefti_metrics_write(weft_ctx *ctx, wefti_metrics *metrics,
                                const wefti_metric *row, int n) {
    wefti_buffer *text = &metrics->text;
    WEFT_TRY(check_names(ctx, row, n));
    text->n = 0;
    text->status = WEFT_OK;
    wefti_buffer_text(ctx, text, "{");
    for (int i = 0; i < n; i++) {
        if (i) wefti_buffer_text(ctx, text, ",");
        wefti_buffer_json(ctx, text, row[i].name);
        wefti_buffer_text(ctx, text, ":");
        put_value(ctx, text, &row[i]);
    }
    wefti_buffer_text(ctx, text, "}\n");
    WEFT_TRY(text->status);
    return wefti_append_write(ctx, &metrics->file, text->bytes, text->n);
}

weft_status wefti_metrics_sync(weft_ctx *ctx, wefti_metrics *metrics) {
    return wefti_append_sync(ctx, &metrics->file);
}

weft_status wefti_metrics_close(weft_ctx *ctx, wefti_metrics *metrics) {
    if (!metrics) return WEFT_OK;
    weft_status status = wefti_append_fini(ctx, &metrics->file);
    wefti_buffer_fini(ctx, &metrics->text);
    wefti_free(ctx, metrics);
    return status;
}

/* ---- read ---- */

static weft_status add_row(weft_ctx *ctx, wefti_metrics_feed *t, const json_t *object,
                           const char *const *names, int n_names) {
    if (t->n == t->capacity) {
        int64_t more = t->capacity ? 2 * t->capacity : 64;
        WEFT_TRY(wefti_grow(ctx, &t->rows, t->capacity * n_names, more * n_names,
                            sizeof *t->rows, "a table of metrics"));
        t->capacity = more;
    }
    double *row = t->rows + t->n++ * n_names;
    for (int i = 0; i < n_names; i++) row[i] = number_of(object, names[i]);
    return WEFT_OK;
}

static weft_status read_rows(weft_ctx *ctx, lines *in, const char *const *names,
                             int n_names, wefti_metrics_feed *t) {
    while (in->next < in->n_bytes) {
        line now;
        WEFT_TRY(next_line(ctx, in, &now));
        weft_status status = WEFT_OK;
        if (now.object) status = add_row(ctx, t, now.object, names, n_names);
        json_decref(now.object);
        WEFT_TRY(status);
        if (!now.has_end) continue;
        t->settled = t->n;
        t->n_lines = in->number;
        t->n_read += now.n_bytes + 1;
    }
    return WEFT_OK;
}

/* Bytes of the file's part that was read, by which it is known again. */
static int64_t known_bytes(const wefti_metrics_feed *feed) {
    int64_t most = (int64_t)sizeof feed->end;
    return feed->n_read < most ? feed->n_read : most;
}

static weft_status read_from(weft_ctx *ctx, lines *in, wefti_metrics_feed *feed) {
    int64_t n = known_bytes(feed);
    WEFT_TRY(wefti_file_read_from(ctx, in->path, feed->n_read - n, max_file_bytes,
                                  &in->data, &in->n_bytes));
    in->next = n;
    in->number = feed->n_lines;
    if (in->n_bytes >= n && memcmp(in->data, feed->end, (size_t)n) == 0) return WEFT_OK;
    WEFTI_FREE(ctx, in->data); /* another file */
    feed->n_read = feed->n_lines = feed->settled = in->next = in->number = 0;
    return wefti_file_read(ctx, in->path, max_file_bytes, &in->data, &in->n_bytes);
}

weft_status wefti_metrics_follow(weft_ctx *ctx, const char *path,
                                 const char *const *names, int n_names,
                                 wefti_metrics_feed *feed) {
    lines in = {.path = path};
    weft_status status = read_from(ctx, &in, feed);
    int64_t from = feed->n_read - in.next; /* of the file, where the data begins */
    feed->n = feed->settled;
    if (status == WEFT_OK) status = read_rows(ctx, &in, names, n_names, feed);
    if (status == WEFT_OK) {
        int64_t n = known_bytes(feed);
        memcpy(feed->end, in.data + (feed->n_read - from) - n, (size_t)n);
        warn_of_damage(ctx, &in);
        if (!feed->rows) status = wefti_alloc(ctx, 0, "a table of metrics", &feed->rows);
    }
    wefti_free(ctx, in.data);
    if (status != WEFT_OK) { /* half of what is new: begun anew the next time */
        wefti_free(ctx, feed->rows);
        *feed = (wefti_metrics_feed){0};
    }
    return status;
}

weft_status wefti_metrics_read(weft_ctx *ctx, const char *path, const char *const *names,
                               int n_names, double **rows, int64_t *n_rows) {
    wefti_metrics_feed feed = {0};
    weft_status status = wefti_metrics_follow(ctx, path, names, n_names, &feed);
    *rows = feed.rows;
    *n_rows = feed.n;
    return status;
}

typedef weft_status (*taker)(void *user, const json_t *object);

/* Calls `take` for each object of the lines that were read, and frees them. */
static weft_status take_each(weft_ctx *ctx, lines *in, taker take, void *user) {
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && in->next < in->n_bytes) {
        line now;
        status = next_line(ctx, in, &now);
        if (status != WEFT_OK) break;
        if (now.object) status = take(user, now.object);
        json_decref(now.object);
    }
    wefti_free(ctx, in->data);
    return status;
}

static weft_status take_newest(void *user, const json_t *object) {
    int64_t *step = user;
    double number = number_of(object, "step");
    if (number > (double)*step && number < 1e18) *step = (int64_t)number;
    return WEFT_OK;
}

weft_status wefti_metrics_newest(weft_ctx *ctx, const char *path, int64_t *step) {
    lines in = {.path = path};
    int64_t from;
    *step = 0;
    WEFT_TRY(wefti_file_tail(ctx, path, TAIL_BYTES, &in.data, &in.n_bytes, &from));
    return take_each(ctx, &in, take_newest, step);
}

weft_status wefti_metrics_each(weft_ctx *ctx, const char *path, taker take, void *user) {
    lines in = {.path = path};
    WEFT_TRY(wefti_file_read(ctx, path, max_file_bytes, &in.data, &in.n_bytes));
    return take_each(ctx, &in, take, user);
}

static weft_status count_line(void *user, const json_t *object) {
    (void)object;
    ++*(int64_t *)user;
    return WEFT_OK;
}

weft_status wefti_metrics_check(weft_ctx *ctx, const char *path, int64_t *n_lines) {
    lines in = {.path = path};
    *n_lines = 0;
    WEFT_TRY(wefti_file_read(ctx, path, max_file_bytes, &in.data, &in.n_bytes));
    WEFT_TRY(take_each(ctx, &in, count_line, n_lines));
    if (in.n_damaged == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "line %lld is not a JSON object (%s); %lld such lines",
                         (long long)in.first_damaged, in.why, (long long)in.n_damaged);
}
