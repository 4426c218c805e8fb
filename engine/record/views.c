/* SPDX-License-Identifier: MIT */
/* views.jsonl, written and read. What is read is a file that anybody may have touched: every
 * number has bounds, lists have as many items as they say at most, and a line that does not hold
 * together is left out as one that is no JSON at all.
 *
 *     {"run":"9f..","view":2,"step":31,"time":..,"stall_s":0.03,"first_row":720,
 *      "rows_per_rank":8,"micro":8,"shards":1,"threads":1,"kernels":"avx2","checksum":"..",
 *      "members":[[0,"id","host"],...],"without":[2],"lost":[[1,"host","why"]],"joined":[]}
 *     {"run":"9f..","view":1,"step":30,"rows_skipped":8,"rows_in_part":0,"complete":true,
 *      "skipped":[[channel,receiver,sender,bucket,stage],...]} */
#define _GNU_SOURCE
#include "record/views.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/bytes.h"
#include "base/file.h"
#include "text/json.h"
#include "base/memory.h"
#include "base/text.h"

enum { MAX_SKIPS = 1 << 22, MAX_PLACES = 1 << 20, MAX_PARTS = 1 << 20 };

static const int64_t max_file_bytes = (int64_t)1 << 30, max_step = (int64_t)1 << 38;

/* ---- write ---- */

static void put_head(weft_ctx *ctx, wefti_buffer *out, uint64_t run, int64_t view,
                     int64_t step) {
    wefti_buffer_print(ctx, out, "{\"run\":\"%016llx\",\"view\":%lld,\"step\":%lld",
                       (unsigned long long)run, (long long)view, (long long)step);
}

void wefti_views_put_changes(weft_ctx *ctx, wefti_buffer *out, const char *name,
                             const wefti_view_change *list, int n) {
    wefti_buffer_print(ctx, out, ",\"%s\":[", name);
    for (int i = 0; i < n; i++) {
        wefti_buffer_print(ctx, out, "%s[%d,", i ? "," : "", list[i].place);
        wefti_buffer_json(ctx, out, list[i].host);
        wefti_buffer_text(ctx, out, ",");
        wefti_buffer_json(ctx, out, list[i].why);
        wefti_buffer_text(ctx, out, "]");
    }
    wefti_buffer_text(ctx, out, "]");
}

static uint64_t mix(uint64_t chain, uint64_t number) {
    unsigned char bytes[8];
    wefti_put_u64(bytes, number);
    return XXH64(bytes, sizeof bytes, chain);
}

uint64_t wefti_views_chain(uint64_t before, const wefti_view_line *line) {
    const uint64_t head[] = {before, line->run, (uint64_t)line->view,
                             (uint64_t)line->step};
    uint64_t chain = 0;
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) chain = mix(chain, head[i]);
    for (int i = 0; i < line->n_members; i++)
        chain = mix(mix(chain, (uint64_t)line->members[i].place), line->members[i].name);
    return chain;
}

/* The places of members without state, if there are any. */
static void put_without(weft_ctx *ctx, wefti_buffer *out, const wefti_view_line *v) {
    const char *before = ",\"without\":[";
    for (int i = 0; i < v->n_members; i++) {
        if (!v->members[i].without) continue;
        wefti_buffer_print(ctx, out, "%s%d", before, v->members[i].place);
        before = ",";
    }
    if (before[1] == 0) wefti_buffer_text(ctx, out, "]");
}

/* The members' sequences, where batch.shares divides them; those of a pass, where they differ. */
static void put_rows(weft_ctx *ctx, wefti_buffer *out, const wefti_view_line *v) {
    for (int k = 0; k < 2 && v->n_members > 0; k++) {
        const char *before = k ? ",\"micros\":[" : ",\"rows\":[";
        if ((k ? v->members[0].micro : v->members[0].rows) == 0) continue;
        for (int i = 0; i < v->n_members; i++) {
            const wefti_view_member *m = &v->members[i];
            wefti_buffer_print(ctx, out, "%s%lld", i ? "," : before,
                               (long long)(k ? m->micro : m->rows));
        }
        wefti_buffer_text(ctx, out, "]");
    }
}

static void put_text(weft_ctx *ctx, wefti_buffer *out, const char *name,
                     const char *text) {
    if (!text[0]) return;
    wefti_buffer_print(ctx, out, ",\"%s\":", name);
    wefti_buffer_json(ctx, out, text);
}

void wefti_views_put_form(weft_ctx *ctx, wefti_buffer *out, const wefti_view_line *v) {
    put_text(ctx, out, "form", v->form);
    put_text(ctx, out, "name", v->name);
    put_text(ctx, out, "why", v->why);
    for (int i = 0; i < WEFTI_VIEWS_EXPECTED && v->expected[0] > 0; i++) {
        wefti_buffer_text(ctx, out, i ? "," : ",\"expected\":[");
        wefti_buffer_short(ctx, out, v->expected[i]);
    }
    if (v->expected[0] > 0) wefti_buffer_text(ctx, out, "]");
}

void wefti_views_put(weft_ctx *ctx, wefti_buffer *out, const wefti_view_line *v) {
    put_head(ctx, out, v->run, v->view, v->step);
    wefti_buffer_text(ctx, out, ",\"time\":");
    wefti_buffer_real(ctx, out, v->time_s);
    wefti_buffer_text(ctx, out, ",\"stall_s\":");
    wefti_buffer_real(ctx, out, v->stall_s);
    wefti_buffer_print(ctx, out,
                       ",\"first_row\":%lld,\"rows_per_rank\":%lld,\"micro\":%lld,"
                       "\"shards\":%d,\"threads\":%d,\"kernels\":",
                       (long long)v->first_row, (long long)v->rows_per_rank,
                       (long long)v->micro, v->shards, v->threads);
    wefti_buffer_json(ctx, out, v->kernels);
    if (v->has_checksum)
        wefti_buffer_print(ctx, out, ",\"checksum\":\"%016llx\"",
                           (unsigned long long)v->checksum);
    if (v->has_chain)
        wefti_buffer_print(ctx, out, ",\"chain\":\"%016llx\"",
                           (unsigned long long)v->chain);
    if (v->shared) wefti_buffer_text(ctx, out, ",\"shared\":true");
    wefti_views_put_form(ctx, out, v);
    if (v->learners > 0)
        wefti_buffer_print(ctx, out, ",\"learners\":%d,\"slices\":%lld,\"from\":%lld",
                           v->learners, (long long)v->slices, (long long)v->from);
    wefti_buffer_text(ctx, out, ",\"members\":[");
    for (int i = 0; i < v->n_members; i++) {
        const wefti_view_member *m = &v->members[i];
        wefti_buffer_print(ctx, out, "%s[%d,\"%016llx\",", i ? "," : "", m->place,
                           (unsigned long long)m->name);
        wefti_buffer_json(ctx, out, m->host);
        wefti_buffer_text(ctx, out, "]");
    }
    wefti_buffer_text(ctx, out, "]");
    put_without(ctx, out, v);
    put_rows(ctx, out, v);
    wefti_views_put_changes(ctx, out, "lost", v->lost, v->n_lost);
    wefti_views_put_changes(ctx, out, "joined", v->joined, v->n_joined);
    wefti_buffer_text(ctx, out, "}\n");
}

void wefti_views_put_skips(weft_ctx *ctx, wefti_buffer *out, const wefti_skip_line *s) {
    put_head(ctx, out, s->run, s->view, s->step);
    wefti_buffer_print(ctx, out,
                       ",\"rows_skipped\":%lld,\"rows_in_part\":%lld,\"complete\":%s,"
                       "\"skipped\":[",
                       (long long)s->rows_skipped, (long long)s->rows_in_part,
                       s->complete ? "true" : "false");
    for (int i = 0; i < s->n; i++) {
        const wefti_view_skip *k = &s->list[i];
        wefti_buffer_print(ctx, out, "%s[%d,%d,%d,%d,%d]", i ? "," : "", k->channel,
                           k->receiver, k->sender, k->bucket, k->stage);
    }
    wefti_buffer_text(ctx, out, "]}\n");
}

/* ---- read ---- */

/* A whole number within bounds. */
static bool whole(const json_t *object, const char *name, int64_t low, int64_t high,
                  int64_t *out) {
    const json_t *value = json_object_get(object, name);
    *out = (int64_t)json_integer_value(value);
    return json_is_integer(value) && *out >= low && *out <= high;
}

static bool small(const json_t *object, const char *name, int low, int high, int *out) {
    int64_t value;
    bool fine = whole(object, name, low, high, &value);
    *out = fine ? (int)value : 0;
    return fine;
}

/* Sixteen hexadecimal digits. */
static bool hex(const json_t *value, uint64_t *out) {
    const char *text = json_string_value(value);
    char *end;
    *out = 0;
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(text, &end, 16);
    return *end == 0;
}

/* Plain text: what a terminal or a page shows of it can do no harm. */
static void plain(const json_t *value, char *out, size_t size) {
    const char *text = json_string_value(value);
    snprintf(out, size, "%s", text ? text : "");
    wefti_text_plain(out);
}

static bool place_of(const json_t *row, size_t i, int *out) {
    const json_t *value = json_array_get(row, i);
    int64_t place = (int64_t)json_integer_value(value);
    *out = 0;
    if (!json_is_integer(value) || place < 0 || place >= MAX_PLACES) return false;
    *out = (int)place;
    return true;
}

static bool read_head(const json_t *object, uint64_t *run, int64_t *view, int64_t *step) {
    return hex(json_object_get(object, "run"), run) &&
           whole(object, "view", 1, max_step, view) &&
           whole(object, "step", 1, max_step, step);
}

static bool read_numbers(const json_t *object, wefti_view_line *v) {
    const json_t *sum = json_object_get(object, "checksum");
    const json_t *chain = json_object_get(object, "chain");
    bool fine = read_head(object, &v->run, &v->view, &v->step) &&
                whole(object, "first_row", 0, INT64_MAX / 4, &v->first_row) &&
                whole(object, "rows_per_rank", 1, 1 << 30, &v->rows_per_rank) &&
                whole(object, "micro", 1, v->rows_per_rank, &v->micro) &&
                small(object, "shards", 1, WEFTI_VIEWS_MAX_MEMBERS, &v->shards) &&
                small(object, "threads", 1, WEFTI_VIEWS_MAX_MEMBERS, &v->threads);
    if (json_object_get(object, "learners"))
        fine = fine &&
               small(object, "learners", 1, WEFTI_VIEWS_MAX_MEMBERS, &v->learners) &&
               whole(object, "slices", 1, MAX_PARTS, &v->slices) &&
               whole(object, "from", 0, MAX_PARTS - 1, &v->from);
    const json_t *time = json_object_get(object, "time");
    const json_t *stall = json_object_get(object, "stall_s");
    v->time_s = json_is_number(time) ? json_number_value(time) : (double)NAN;
    v->stall_s = json_is_number(stall) ? json_number_value(stall) : (double)NAN;
    v->has_checksum = sum && hex(sum, &v->checksum);
    v->has_chain = chain && hex(chain, &v->chain);
    v->shared = json_is_true(json_object_get(object, "shared"));
    v->apart = json_is_true(json_object_get(object, "apart"));
    plain(json_object_get(object, "kernels"), v->kernels, sizeof v->kernels);
    const json_t *form = json_object_get(object, "form");
    const json_t *name = json_object_get(object, "name");
    plain(form, v->form, sizeof v->form);
    plain(name ? name : form, v->name, sizeof v->name);
    plain(json_object_get(object, "why"), v->why, sizeof v->why);
    const json_t *expected = json_object_get(object, "expected");
    for (size_t i = 0; i < WEFTI_VIEWS_EXPECTED; i++)
        v->expected[i] = json_number_value(json_array_get(expected, i));
    fine = fine && (v->rows_per_rank % v->micro == 0 || json_object_get(object, "rows"));
    return fine && (!sum || v->has_checksum) && (!chain || v->has_chain);
}

/* An array of at least `least` items; *n of them. */
static bool list_of(const json_t *object, const char *name, size_t least, size_t most,
                    int *n, const json_t **out) {
    *out = json_object_get(object, name);
    size_t size = json_array_size(*out);
    *n = size <= most ? (int)size : 0;
    return json_is_array(*out) && size >= least && size <= most;
}

static weft_status read_members(weft_ctx *ctx, const json_t *object, wefti_view_line *v,
                                bool *fine) {
    const json_t *list;
    *fine = *fine &&
            list_of(object, "members", 1, WEFTI_VIEWS_MAX_MEMBERS, &v->n_members,
                    &list) &&
            v->n_members % v->shards == 0;
    if (!*fine) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, v->n_members, sizeof *v->members, "views", &v->members));
    for (int i = 0; i < v->n_members; i++) {
        const json_t *row = json_array_get(list, (size_t)i);
        wefti_view_member *m = &v->members[i];
        *fine = *fine && place_of(row, 0, &m->place) &&
                hex(json_array_get(row, 1), &m->name);
        plain(json_array_get(row, 2), m->host, sizeof m->host);
        for (int k = 0; k < i && *fine; k++) *fine = v->members[k].place != m->place;
    }
    return WEFT_OK;
}

/* Each of the places is a member's. */
static bool read_without(const json_t *object, wefti_view_line *v) {
    const json_t *list = json_object_get(object, "without");
    int n = (int)json_array_size(list), found = 0;
    if (!list) return true;
    if (!json_is_array(list) || n > v->n_members) return false;
    for (int i = 0; i < n; i++) {
        int place;
        if (!place_of(list, (size_t)i, &place)) return false;
        for (int k = 0; k < v->n_members; k++) {
            bool here = v->members[k].place == place && !v->members[k].without;
            v->members[k].without |= here;
            found += here;
        }
    }
    return found == n;
}

/* As many numbers as members, each from 1 to `most`. */
static bool read_each(const json_t *list, const wefti_view_line *v, int64_t most,
                      size_t offset) {
    if (!json_is_array(list) || (int)json_array_size(list) != v->n_members) return false;
    for (int i = 0; i < v->n_members; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        int64_t n = (int64_t)json_integer_value(value);
        if (!json_is_integer(value) || n < 1 || n > most) return false;
        memcpy((char *)&v->members[i] + offset, &n, sizeof n);
    }
    return true;
}

static bool read_rows(const json_t *object, wefti_view_line *v) {
    const json_t *list = json_object_get(object, "rows");
    const json_t *micros = json_object_get(object, "micros");
    if (micros && !read_each(micros, v, v->micro, offsetof(wefti_view_member, micro)))
        return false;
    if (!list) return !v->shared || v->name[0];
    return read_each(list, v, v->rows_per_rank, offsetof(wefti_view_member, rows));
}

static weft_status read_changes(weft_ctx *ctx, const json_t *object, const char *name,
                                wefti_view_change **out, int *n, bool *fine) {
    const json_t *list;
    *fine = *fine && list_of(object, name, 0, WEFTI_VIEWS_MAX_MEMBERS, n, &list);
    if (!*fine) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, *n, sizeof **out, "views", out));
    for (int i = 0; i < *n; i++) {
        const json_t *row = json_array_get(list, (size_t)i);
        *fine = *fine && place_of(row, 0, &(*out)[i].place);
        plain(json_array_get(row, 1), (*out)[i].host, sizeof(*out)[i].host);
        plain(json_array_get(row, 2), (*out)[i].why, sizeof(*out)[i].why);
    }
    return WEFT_OK;
}

static void free_view(weft_ctx *ctx, wefti_view_line *v) {
    WEFTI_FREE(ctx, v->members, v->lost, v->joined);
}

/* Adds a line of who takes part, if it holds together. */
static weft_status add_view(weft_ctx *ctx, const json_t *object, wefti_views *out,
                            bool *fine) {
    wefti_view_line v = {0};
    *fine = read_numbers(object, &v);
    weft_status status = read_members(ctx, object, &v, fine);
    *fine = *fine && read_without(object, &v) && read_rows(object, &v);
    if (status == WEFT_OK)
        status = read_changes(ctx, object, "lost", &v.lost, &v.n_lost, fine);
    if (status == WEFT_OK)
        status = read_changes(ctx, object, "joined", &v.joined, &v.n_joined, fine);
    if (status == WEFT_OK && *fine)
        status = wefti_grow(ctx, &out->views, out->n_views, out->n_views + 1,
                            sizeof *out->views, "views");
    if (status != WEFT_OK || !*fine)
        free_view(ctx, &v);
    else
        out->views[out->n_views++] = v;
    return status;
}

static bool read_skip(const json_t *row, wefti_view_skip *out) {
    int *numbers[] = {&out->channel, &out->receiver, &out->sender, &out->bucket,
                      &out->stage};
    bool fine = json_array_size(row) == 5;
    for (size_t i = 0; i < 5 && fine; i++) fine = place_of(row, i, numbers[i]);
    return fine && out->channel < 32 && out->stage < 16;
}

static weft_status add_skips(weft_ctx *ctx, const json_t *object, wefti_views *out,
                             bool *fine) {
    wefti_skip_line s = {0};
    const json_t *list;
    *fine = read_head(object, &s.run, &s.view, &s.step) &&
            whole(object, "rows_skipped", 0, INT64_MAX / 4, &s.rows_skipped) &&
            whole(object, "rows_in_part", 0, INT64_MAX / 4, &s.rows_in_part) &&
            list_of(object, "skipped", 0, MAX_SKIPS, &s.n, &list);
    s.complete = json_is_true(json_object_get(object, "complete"));
    if (!*fine) return WEFT_OK;
    weft_status status = wefti_alloc_n(ctx, s.n, sizeof *s.list, "views", &s.list);
    for (int i = 0; i < s.n && status == WEFT_OK && *fine; i++)
        *fine = read_skip(json_array_get(list, (size_t)i), &s.list[i]);
    if (status == WEFT_OK && *fine)
        status = wefti_grow(ctx, &out->skips, out->n_skips, out->n_skips + 1,
                            sizeof *out->skips, "views");
    if (status != WEFT_OK || !*fine)
        wefti_free(ctx, s.list);
    else
        out->skips[out->n_skips++] = s;
    return status;
}

/* One line; *fine: it is whole, or there is nothing in it. */
static weft_status read_line(weft_ctx *ctx, const char *text, size_t n, wefti_views *out,
                             bool *fine) {
    *fine = n == 0;
    if (*fine) return WEFT_OK;
    json_error_t error;
    json_t *object = wefti_json_load(text, (int64_t)n, JSON_REJECT_DUPLICATES, &error);
    if (!object && wefti_json_blame(&error, WEFT_ERR_FORMAT) == WEFT_ERR_MEMORY)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for reading views");
    weft_status status = WEFT_OK;
    if (json_is_object(object))
        status = json_object_get(object, "skipped") ? add_skips(ctx, object, out, fine)
                                                    : add_view(ctx, object, out, fine);
    json_decref(object);
    return status;
}

static weft_status read_lines(weft_ctx *ctx, const char *path, const char *text,
                              int64_t n, wefti_views *out) {
    int64_t number = 0, damaged = 0, first = 0;
    for (const char *at = text, *end = text + n; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        bool fine;
        WEFT_TRY(read_line(ctx, at, (size_t)((stop ? stop : end) - at), out, &fine));
        number++;
        if (!fine && stop && damaged++ == 0) first = number; /* else a crash cut it off */
        at = stop ? stop + 1 : end;
    }
    if (damaged > 0)
        weft_ctx_log(ctx, WEFT_LOG_WARN,
                     "line %lld of %s is left out, for it is damaged (%lld such lines)",
                     (long long)first, path, (long long)damaged);
    return WEFT_OK;
}

weft_status wefti_views_read(weft_ctx *ctx, const char *path, wefti_views *out) {
    char *text;
    int64_t n;
    *out = (wefti_views){0};
    if (access(path, F_OK) != 0 && errno == ENOENT) return WEFT_OK;
    WEFT_TRY(wefti_file_read(ctx, path, max_file_bytes, &text, &n));
    weft_status status = read_lines(ctx, path, text, n, out);
    wefti_free(ctx, text);
    if (status != WEFT_OK) wefti_views_fini(ctx, out);
    return status;
}

void wefti_views_fini(weft_ctx *ctx, wefti_views *views) {
    for (int64_t i = 0; i < views->n_views; i++) free_view(ctx, &views->views[i]);
    for (int64_t i = 0; i < views->n_skips; i++) wefti_free(ctx, views->skips[i].list);
    WEFTI_FREE(ctx, views->views, views->skips);
    *views = (wefti_views){0};
}

bool wefti_views_has(const wefti_views *views, uint64_t run, int64_t view, int64_t step,
                     bool skips) {
    for (int64_t i = 0; !skips && i < views->n_views; i++) {
        const wefti_view_line *v = &views->views[i];
        if (v->run == run && v->view == view && v->step == step) return true;
    }
    for (int64_t i = 0; skips && i < views->n_skips; i++) {
        const wefti_skip_line *s = &views->skips[i];
        if (s->run == run && s->view == view && s->step == step) return true;
    }
    return false;
}

weft_status wefti_views_check(weft_ctx *ctx, const wefti_views *views) {
    for (int64_t i = 1; i < views->n_views; i++)
        if (views->views[i].step < views->views[i - 1].step)
            return weft_ctx_fail(
                ctx, WEFT_ERR_FORMAT,
                "views.jsonl: a view of step %lld stands behind one of step %lld",
                (long long)views->views[i].step, (long long)views->views[i - 1].step);
    return WEFT_OK;
}
