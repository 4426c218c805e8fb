/* SPDX-License-Identifier: MIT */
#include "train/diary.h"

#include <limits.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "record/buffer.h"

enum { MOST_LINES = 20000 };

weft_status wefti_diary_create(weft_ctx *ctx, int64_t step, int64_t n_lines,
                               wefti_diary **out) {
    wefti_diary *diary;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *diary, "the diary", &diary));
    diary->step = step;
    diary->room = n_lines < MOST_LINES ? (int)n_lines : MOST_LINES;
    weft_status status = WEFT_OK;
    for (int i = 0; i < WEFTI_DIARY_THREADS && status == WEFT_OK; i++)
        status = wefti_alloc_n(ctx, diary->room, sizeof *diary->lines[i], "the diary",
                               &diary->lines[i]);
    if (status != WEFT_OK) {
        wefti_diary_destroy(ctx, diary);
        return status;
    }
    *out = diary;
    return WEFT_OK;
}

void wefti_diary_destroy(weft_ctx *ctx, wefti_diary *diary) {
    if (!diary) return;
    for (int i = 0; i < WEFTI_DIARY_THREADS; i++) wefti_free(ctx, diary->lines[i]);
    wefti_free(ctx, diary);
}

void wefti_diary_open(wefti_diary *diary, int64_t step, double now_s) {
    if (!diary || step != diary->step) return;
    diary->open = true;
    diary->begun_s = now_s;
}

void wefti_diary_close(wefti_diary *diary) {
    if (!diary || !diary->open) return;
    diary->open = false;
    diary->kept = true;
}

double wefti_diary_now(const wefti_diary *diary) {
    return diary && diary->open ? wefti_now_s() : 0;
}

void wefti_diary_put(wefti_diary *diary, int thread, int index, const char *what,
                     double begin_s) {
    if (!diary || !diary->open || diary->n[thread] == diary->room) return;
    diary->lines[thread][diary->n[thread]++] = (wefti_diary_line){
        what, index, begin_s - diary->begun_s, wefti_now_s() - diary->begun_s};
}

/* ---- timeline.json ---- */

static void put_line(weft_ctx *ctx, wefti_buffer *out, const char *lane,
                     const wefti_diary_line *line, bool first) {
    wefti_buffer_print(ctx, out,
                       "%s\n  {\"lane\": \"%s\", \"index\": %d, \"what\": \"%s\", "
                       "\"begin_s\": ",
                       first ? "" : ",", lane, line->index, line->what);
    wefti_buffer_real(ctx, out, line->begin_s);
    wefti_buffer_text(ctx, out, ", \"end_s\": ");
    wefti_buffer_real(ctx, out, line->end_s);
    wefti_buffer_text(ctx, out, "}");
}

static void put_all(weft_ctx *ctx, wefti_buffer *out, const wefti_diary *diary) {
    static const char *const lanes[WEFTI_DIARY_THREADS] = {"compute", "exchange"};
    bool first = true;
    wefti_buffer_print(ctx, out, "{\"version\": 1, \"step\": %lld, \"timeline\": [",
                       (long long)diary->step + 1);
    for (int t = 0; t < WEFTI_DIARY_THREADS; t++)
        for (int i = 0; i < diary->n[t]; i++) {
            put_line(ctx, out, lanes[t], &diary->lines[t][i], first);
            first = false;
        }
    wefti_buffer_text(ctx, out, "]}\n");
}

weft_status wefti_diary_write(weft_ctx *ctx, wefti_diary *diary, const char *folder) {
    char path[PATH_MAX];
    wefti_buffer out = {0};
    if (!diary || !diary->kept || diary->written) return WEFT_OK;
    if (snprintf(path, sizeof path, "%s/timeline.json", folder) >= PATH_MAX)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s/timeline.json",
                             folder);
    put_all(ctx, &out, diary);
    weft_status status = out.status;
    if (status == WEFT_OK) status = wefti_file_write(ctx, path, out.bytes, out.n);
    wefti_buffer_fini(ctx, &out);
    diary->written = status == WEFT_OK;
    return status;
}
