/* SPDX-License-Identifier: MIT */
/* The report: what run folders say, written into one page.
 *
 *     metrics.jsonl  nodes.jsonl  plan.json  timeline.json  views.jsonl  config.yaml   of each run
 *           \            |            |             |            /
 *            one JSON object (block.c) between the two parts of page/page.html
 *
 * The page draws the data in the browser (page/page.js) and asks nothing from elsewhere.
 */
#define _GNU_SOURCE
#include <weft/report.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "record/block.h"
#include "record/page.h"

enum { MAX_CONFIG_BYTES = 4 << 20 };

struct weft_report {
    int n;
    double refresh_s;
    char **folders;            /* [n] owned */
    wefti_metrics_feed *feeds; /* [n] owned */
};

/* ---- a run folder ---- */

static weft_status read_config(weft_ctx *ctx, const char *run_folder, char **config) {
    char path[PATH_MAX];
    int64_t n;
    WEFT_TRY(wefti_file_path(ctx, run_folder, "config.yaml", path));
    if (access(path, F_OK) != 0 && errno == ENOENT) return WEFT_OK;
    return wefti_file_read(ctx, path, MAX_CONFIG_BYTES, config, &n);
}

/* On failure what was read stays in *m. */
static weft_status read_material(weft_ctx *ctx, const char *run_folder,
                                 wefti_metrics_feed *feed, wefti_material *m) {
    char path[PATH_MAX];
    bool found;
    WEFT_TRY(wefti_file_path(ctx, run_folder, "metrics.jsonl", path));
    WEFT_TRY(wefti_run_follow(ctx, path, feed, &m->run));
    WEFT_TRY(wefti_file_path(ctx, run_folder, "plan.json", path));
    WEFT_TRY(wefti_planned_read(ctx, path, &m->planned, &m->is_planned));
    WEFT_TRY(wefti_file_path(ctx, run_folder, "timeline.json", path));
    WEFT_TRY(wefti_timelines_read(ctx, path, &m->timelines, &found));
    WEFT_TRY(wefti_file_path(ctx, run_folder, "views.jsonl", path));
    WEFT_TRY(wefti_views_read(ctx, path, &m->views));
    WEFT_TRY(wefti_file_path(ctx, run_folder, "nodes.jsonl", path));
    WEFT_TRY(wefti_nodes_read(ctx, path, &m->nodes));
    return read_config(ctx, run_folder, &m->config);
}

static void drop_material(weft_ctx *ctx, wefti_material *m) {
    wefti_run_fini(ctx, &m->run);
    wefti_planned_fini(ctx, &m->planned);
    wefti_timelines_fini(ctx, &m->timelines);
    wefti_views_fini(ctx, &m->views);
    wefti_nodes_fini(ctx, &m->nodes);
    wefti_free(ctx, m->config);
}

/* ---- names ---- */

/* The last part of the folder's whole path. */
static weft_status name_run(weft_ctx *ctx, const char *folder, char **out) {
    char whole[PATH_MAX];
    if (!realpath(folder, whole))
        return wefti_fail_errno(ctx, "open the run folder", folder);
    const char *slash = strrchr(whole, '/');
    return wefti_strdup(ctx, slash ? slash + 1 : whole, out);
}

/* Runs of the same name are called by their paths. */
static const char *label_of(char *const *names, char *const *folders, int n, int i) {
    for (int k = 0; k < n; k++)
        if (k != i && wefti_is(names[i], names[k])) return folders[i];
    return names[i];
}

/* ---- the page ---- */

static weft_status put_data(weft_ctx *ctx, wefti_buffer *out, char *const *names,
                            weft_report *r) {
    wefti_block_begin(ctx, out, r->refresh_s);
    for (int i = 0; i < r->n; i++) {
        wefti_material m = {.name = label_of(names, r->folders, r->n, i)};
        weft_status status = read_material(ctx, r->folders[i], &r->feeds[i], &m);
        if (status == WEFT_OK) status = wefti_block_add(ctx, out, &m, i, r->n);
        drop_material(ctx, &m);
        WEFT_TRY(status);
    }
    wefti_block_end(ctx, out);
    return out->status;
}

static weft_status put_report(weft_ctx *ctx, wefti_buffer *out, char **names,
                              weft_report *r, bool page) {
    for (int i = 0; i < r->n; i++) WEFT_TRY(name_run(ctx, r->folders[i], &names[i]));
    if (page) wefti_buffer_put(ctx, out, wefti_page_head, (int64_t)wefti_page_head_bytes);
    WEFT_TRY(put_data(ctx, out, names, r));
    if (page) wefti_buffer_put(ctx, out, wefti_page_tail, (int64_t)wefti_page_tail_bytes);
    return out->status;
}

static weft_status make(weft_ctx *ctx, weft_report *r, bool page, char **text,
                        int64_t *n_bytes) {
    char **names;
    wefti_buffer out = {0};
    *text = NULL;
    *n_bytes = 0;
    WEFT_TRY(wefti_alloc_n(ctx, r->n, sizeof *names, "names of runs", &names));
    weft_status status = put_report(ctx, &out, names, r, page);
    for (int i = 0; i < r->n; i++) wefti_free(ctx, names[i]);
    wefti_free(ctx, names);
    if (status != WEFT_OK) wefti_buffer_fini(ctx, &out);
    *text = out.bytes;
    *n_bytes = out.n;
    return status;
}

weft_status weft_report_page(weft_ctx *ctx, weft_report *report, char **text,
                             int64_t *n_bytes) {
    return make(ctx, report, true, text, n_bytes);
}

weft_status weft_report_data(weft_ctx *ctx, weft_report *report, char **text,
                             int64_t *n_bytes) {
    return make(ctx, report, false, text, n_bytes);
}

static weft_status fill(weft_ctx *ctx, weft_report *r, const char *const *run_folders) {
    WEFT_TRY(wefti_alloc_n(ctx, r->n, sizeof *r->folders, "names of runs", &r->folders));
    WEFT_TRY(wefti_alloc_n(ctx, r->n, sizeof *r->feeds, "runs to read", &r->feeds));
    for (int i = 0; i < r->n; i++)
        WEFT_TRY(wefti_strdup(ctx, run_folders[i], &r->folders[i]));
    return WEFT_OK;
}

weft_status weft_report_create(weft_ctx *ctx, const char *const *run_folders, int n,
                               double refresh_s, weft_report **out) {
    *out = NULL;
    if (n < 1 || !run_folders)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a report needs at least one run folder");
    WEFT_TRY(wefti_alloc(ctx, sizeof **out, "a report", out));
    **out = (weft_report){.n = n, .refresh_s = refresh_s};
    weft_status status = fill(ctx, *out, run_folders);
    if (status == WEFT_OK) return WEFT_OK;
    weft_report_destroy(ctx, *out);
    *out = NULL;
    return status;
}

void weft_report_destroy(weft_ctx *ctx, weft_report *report) {
    if (!report) return;
    for (int i = 0; i < report->n; i++) {
        if (report->folders) wefti_free(ctx, report->folders[i]);
        if (report->feeds) wefti_free(ctx, report->feeds[i].rows);
    }
    WEFTI_FREE(ctx, report->folders, report->feeds, report);
}

weft_status weft_report_compare(weft_ctx *ctx, const char *const *run_folders, int n,
                                const char *out_path) {
    weft_report *report;
    char *text;
    int64_t n_bytes;
    if (!out_path)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a report needs a path for the page");
    WEFT_TRY(weft_report_create(ctx, run_folders, n, 0, &report));
    weft_status status = weft_report_page(ctx, report, &text, &n_bytes);
    weft_report_destroy(ctx, report);
    if (status == WEFT_OK) status = wefti_file_write(ctx, out_path, text, n_bytes);
    wefti_free(ctx, text);
    return status;
}

weft_status weft_report_write(weft_ctx *ctx, const char *run_folder,
                              const char *out_path) {
    char path[PATH_MAX];
    WEFT_TRY(wefti_file_path(ctx, run_folder, "report.html", path));
    return weft_report_compare(ctx, &run_folder, 1, out_path ? out_path : path);
}
