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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "record/block.h"
#include "record/page.h"

enum { MAX_CONFIG_BYTES = 4 << 20 };

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
                                 wefti_material *m) {
    char path[PATH_MAX];
    bool found;
    WEFT_TRY(wefti_file_path(ctx, run_folder, "metrics.jsonl", path));
    WEFT_TRY(wefti_run_read(ctx, path, &m->run));
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
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not open the run folder %s: %s",
                             folder, strerror(errno));
    const char *slash = strrchr(whole, '/');
    return wefti_strdup(ctx, slash ? slash + 1 : whole, out);
}

/* Runs of the same name are called by their paths. */
static const char *label_of(char *const *names, const char *const *folders, int n,
                            int i) {
    for (int k = 0; k < n; k++)
        if (k != i && wefti_is(names[i], names[k])) return folders[i];
    return names[i];
}

/* ---- the page ---- */

static weft_status put_data(weft_ctx *ctx, wefti_buffer *out, char *const *names,
                            const char *const *folders, int n, double refresh_s) {
    wefti_block_begin(ctx, out, refresh_s);
    for (int i = 0; i < n; i++) {
        wefti_material m = {.name = label_of(names, folders, n, i)};
        weft_status status = read_material(ctx, folders[i], &m);
        if (status == WEFT_OK) status = wefti_block_add(ctx, out, &m, i, n);
        drop_material(ctx, &m);
        WEFT_TRY(status);
    }
    wefti_block_end(ctx, out);
    return out->status;
}

static weft_status put_report(weft_ctx *ctx, wefti_buffer *out, char **names,
                              const char *const *folders, int n, double refresh_s,
                              bool page) {
    for (int i = 0; i < n; i++) WEFT_TRY(name_run(ctx, folders[i], &names[i]));
    if (page) wefti_buffer_put(ctx, out, wefti_page_head, (int64_t)wefti_page_head_bytes);
    WEFT_TRY(put_data(ctx, out, names, folders, n, refresh_s));
    if (page) wefti_buffer_put(ctx, out, wefti_page_tail, (int64_t)wefti_page_tail_bytes);
    return out->status;
}

static weft_status make(weft_ctx *ctx, const char *const *run_folders, int n,
                        double refresh_s, bool page, wefti_buffer *out) {
    char **names;
    if (n < 1 || !run_folders)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a report needs at least one run folder");
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *names, "names of runs", &names));
    weft_status status = put_report(ctx, out, names, run_folders, n, refresh_s, page);
    for (int i = 0; i < n; i++) wefti_free(ctx, names[i]);
    wefti_free(ctx, names);
    if (status != WEFT_OK) wefti_buffer_fini(ctx, out);
    return status;
}

static weft_status make_text(weft_ctx *ctx, const char *const *run_folders, int n,
                             double refresh_s, bool page, char **text, int64_t *n_bytes) {
    wefti_buffer out = {0};
    WEFT_TRY(make(ctx, run_folders, n, refresh_s, page, &out));
    *text = out.bytes;
    *n_bytes = out.n;
    return WEFT_OK;
}

weft_status weft_report_page(weft_ctx *ctx, const char *const *run_folders, int n,
                             double refresh_s, char **text, int64_t *n_bytes) {
    return make_text(ctx, run_folders, n, refresh_s, true, text, n_bytes);
}

weft_status weft_report_data(weft_ctx *ctx, const char *const *run_folders, int n,
                             double refresh_s, char **text, int64_t *n_bytes) {
    return make_text(ctx, run_folders, n, refresh_s, false, text, n_bytes);
}

weft_status weft_report_compare(weft_ctx *ctx, const char *const *run_folders, int n,
                                const char *out_path) {
    wefti_buffer out = {0};
    if (!out_path)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a report needs a path for the page");
    WEFT_TRY(make(ctx, run_folders, n, 0, true, &out));
    weft_status status = wefti_file_write(ctx, out_path, out.bytes, out.n);
    wefti_buffer_fini(ctx, &out);
    return status;
}

weft_status weft_report_write(weft_ctx *ctx, const char *run_folder,
                              const char *out_path) {
    char path[PATH_MAX];
    WEFT_TRY(wefti_file_path(ctx, run_folder, "report.html", path));
    return weft_report_compare(ctx, &run_folder, 1, out_path ? out_path : path);
}
