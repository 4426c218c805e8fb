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
#include <math.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "record/page.h"
#include <weft/version.h>
#include "base/buffer.h"
#include "record/history.h"
#include "record/nodes.h"
#include "record/planned.h"
#include "record/views.h"

/* The data of the page as one JSON object:
 *
 *     {version, program, refresh_s,
 *      runs: [{name, config, smoothing,
 *              steps:       {column: [numbers], low: {column: [numbers]}, high: the same},
 *              evaluations: {column: [numbers]},
 *              summary:     {name: number},      of all rows
 *              prediction:  {name: number} or null,
 *              timelines:   [{kind, step,
 *                             spans: [[lane, what, index, begin_s, end_s]]}],
 *              nodes:       [{node, host, ranks, cores, step: [numbers], cpu_cores: ...}],
 *              views:       [{step, ranks, stall_s, rows_skipped, rows_in_part, begins,
 *                             lost: [[place, host, why]], joined: the same,
 *                             form, name, why, expected: as in views.jsonl}]}]}
 *
 * Columns of one table have one length, and null where nothing is known; a column that
 * says nothing at all is left out. Of a long run a row is a part of it: its means, and in `low`
 * and `high` the least and the greatest; its summary is of all rows. */

/* What a run's folder says, as far as it is there. */
typedef struct wefti_material {
    const char *name;          /* borrowed */
    wefti_run run;             /* metrics.jsonl */
    wefti_planned planned;     /* plan.json */
    wefti_timelines timelines; /* timeline.json */
    wefti_views views;         /* views.jsonl */
    wefti_nodes nodes;         /* nodes.jsonl */
    char *config;              /* owned; config.yaml; NULL: there is none */
    bool is_planned;
} wefti_material;

/* Puts the data of n runs as one JSON object (docs/metrics.md, "The page's data"), run
 * after run, so that one run at a time is in memory. All together have about as many rows
 * as one has at most. */

enum { MAX_ROWS = 2400, MIN_ROWS = 240 }; /* of all runs together; of each */
enum { MAX_POINTS = 240 };                /* of a node */

typedef struct named {
    const char *name;
    double value;
} named;

static void put_key(weft_ctx *ctx, wefti_buffer *out, const char *name, bool first) {
    if (!first) wefti_buffer_text(ctx, out, ",");
    wefti_buffer_json(ctx, out, name);
    wefti_buffer_text(ctx, out, ":");
}

static void put_numbers(weft_ctx *ctx, wefti_buffer *out, const named *values, int n) {
    wefti_buffer_text(ctx, out, "{");
    for (int i = 0; i < n; i++) {
        put_key(ctx, out, values[i].name, i == 0);
        wefti_buffer_short(ctx, out, values[i].value);
    }
    wefti_buffer_text(ctx, out, "}");
}

/* ---- tables ---- */

typedef enum { VALUE, LOW, HIGH } which;

/* Of `parts` parts of the rows, each a number. */
static void put_column(weft_ctx *ctx, wefti_buffer *out, const wefti_rows *rows,
                       wefti_column c, int64_t parts, which what) {
    for (int64_t i = 0; i < parts; i++) {
        wefti_part p = wefti_column_part(rows, c, rows->n * i / parts,
                                         rows->n * (i + 1) / parts);
        wefti_buffer_text(ctx, out, i ? "," : "[");
        wefti_buffer_short(ctx, out,
                           what == VALUE ? p.value
                           : what == LOW ? p.low
                                         : p.high);
    }
    wefti_buffer_text(ctx, out, parts ? "]" : "[]");
}

/* Those that vary within the parts; of what is VALUE all that say something. */
static bool is_put(const wefti_rows *rows, wefti_column c, int64_t parts, which what) {
    if (isnan(wefti_column_last(rows, c))) return false;
    for (int64_t i = 0; i < parts && what != VALUE; i++) {
        wefti_part p = wefti_column_part(rows, c, rows->n * i / parts,
                                         rows->n * (i + 1) / parts);
        if (p.low < p.high) return true;
    }
    return what == VALUE;
}

static void put_columns(weft_ctx *ctx, wefti_buffer *out, const wefti_rows *rows,
                        int64_t parts, which what) {
    bool first = true;
    for (int c = 0; c < WEFTI_N_COLUMNS; c++) {
        if (!is_put(rows, (wefti_column)c, parts, what)) continue;
        put_key(ctx, out, wefti_column_name((wefti_column)c), first);
        put_column(ctx, out, rows, (wefti_column)c, parts, what);
        first = false;
    }
}

static void put_rows(weft_ctx *ctx, wefti_buffer *out, const wefti_rows *rows,
                     int64_t limit) {
    int64_t parts = rows->n > limit ? limit : rows->n;
    wefti_buffer_text(ctx, out, "{");
    put_columns(ctx, out, rows, parts, VALUE);
    if (parts < rows->n) {
        wefti_buffer_text(ctx, out, ",\"low\":{");
        put_columns(ctx, out, rows, parts, LOW);
        wefti_buffer_text(ctx, out, "},\"high\":{");
        put_columns(ctx, out, rows, parts, HIGH);
        wefti_buffer_text(ctx, out, "}");
    }
    wefti_buffer_text(ctx, out, "}");
}

/* ---- numbers of the whole run ---- */

/* Steps whose loss was not a finite number, or not known. */
static int64_t steps_without_loss(const wefti_rows *steps) {
    int64_t n = 0;
    for (int64_t i = 0; i < steps->n; i++) n += isnan(steps->column[WEFTI_LOSS][i]);
    return n;
}

/* That the lines stand for. */
static double steps_of(const wefti_rows *steps) {
    double n = 0;
    for (int64_t i = 0; i < steps->n; i++)
        n += steps->column[WEFTI_STEPS][i] >= 1 ? steps->column[WEFTI_STEPS][i] : 1;
    return n;
}

/* Seconds since the run began, with an evaluation behind the last step. */
static double elapsed_of(const wefti_run *run) {
    return fmax(wefti_column_last(&run->steps, WEFTI_ELAPSED),
                wefti_column_last(&run->evaluations, WEFTI_ELAPSED));
}

/* Seconds from a step to the next, evaluations between them too, since the last change of who
 * takes part; NAN: too few steps. */
static double pace_of(const wefti_run *run, const wefti_views *views) {
    const double *step = run->steps.column[WEFTI_STEP],
                 *at_s = run->steps.column[WEFTI_ELAPSED];
    double since = views->n_views > 1 ? (double)views->views[views->n_views - 1].step : 0;
    int64_t from = 0, n = run->steps.n;
    while (from < n && step[from] < since) from++;
    return from + 1 < n ? (elapsed_of(run) - at_s[from]) / (step[n - 1] - step[from])
                        : NAN;
}

static void put_summary(weft_ctx *ctx, wefti_buffer *out, const wefti_material *m) {
    const wefti_run *run = &m->run;
    const wefti_rows *s = &run->steps, *e = &run->evaluations;
    double sent = wefti_column_total(s, WEFTI_WIRE_OUT);
    const named values[] = {
        {"steps", steps_of(s)},
        {"elapsed_s", elapsed_of(run)},
        {"pace_s", pace_of(run, &m->views)},
        {"loss", run->loss},
        {"steps_without_loss", (double)steps_without_loss(s)},
        {"validation_loss", wefti_column_last(e, WEFTI_VALIDATION)},
        {"best_validation_loss", wefti_column_least(e, WEFTI_VALIDATION)},
        {"bigram_loss", wefti_column_last(e, WEFTI_BIGRAM)},
        {"tokens", wefti_column_total(s, WEFTI_TOKENS)},
        {"tokens_per_s", wefti_column_mean_over_time(s, WEFTI_TOKENS_PER_S)},
        {"mfu", wefti_column_mean_over_time(s, WEFTI_MFU)},
        {"memory_bytes", wefti_column_greatest(s, WEFTI_MEMORY)},
        {"memory_rank_bytes", wefti_column_greatest(s, WEFTI_MEMORY_RANK)},
        {"grad_norm", wefti_column_last(s, WEFTI_GRAD_NORM)},
        {"step_s", wefti_column_mean(s, WEFTI_STEP_S)},
        {"median_step_s", run->step_s},
        {"compute_s", wefti_column_mean(s, WEFTI_COMPUTE)},
        {"exchange_s", wefti_column_mean(s, WEFTI_EXCHANGE)},
        {"wait_s", wefti_column_mean(s, WEFTI_WAIT)},
        {"hidden_share", sent == 0 ? NAN : wefti_run_hidden_share(run)},
        {"wire_bytes_out", wefti_column_mean(s, WEFTI_WIRE_OUT)},
        {"wire_bytes_in", wefti_column_mean(s, WEFTI_WIRE_IN)},
        {"local_bytes_out", wefti_column_mean(s, WEFTI_LOCAL_OUT)},
        {"wire_total", sent},
        {"participation", wefti_column_mean(s, WEFTI_PARTICIPATION)},
        {"suspect_node", wefti_column_greatest(s, WEFTI_SUSPECT)}};
    put_numbers(ctx, out, values, sizeof values / sizeof values[0]);
}

static void put_prediction(weft_ctx *ctx, wefti_buffer *out, const wefti_planned *p) {
    named values[WEFTI_N_PLANNED];
    for (int i = 0; i < WEFTI_N_PLANNED; i++)
        values[i] = (named){wefti_planned_names[i], p->value[i]};
    put_numbers(ctx, out, values, WEFTI_N_PLANNED);
}

/* ---- timelines ---- */

enum { RANKS_SHOWN = 8 }; /* of a larger run the first: a page is to be read */

/* Times are on the first rank's clock: when a rank began after it is seen. */
static void put_timeline(weft_ctx *ctx, wefti_buffer *out,
                         const wefti_planned_timeline *t, const char *kind) {
    wefti_buffer_print(ctx, out,
                       "{\"kind\":\"%s\",\"rank\":%d,\"node\":%d,\"step\":", kind,
                       t->rank, t->node);
    wefti_buffer_short(ctx, out, t->step);
    wefti_buffer_text(ctx, out, ",\"spans\":[");
    for (int64_t i = 0; i < t->n; i++) {
        const wefti_stretch *s = &t->items[i];
        wefti_buffer_text(ctx, out, i ? ",[" : "[");
        wefti_buffer_json(ctx, out, s->lane);
        wefti_buffer_text(ctx, out, ",");
        wefti_buffer_json(ctx, out, s->what);
        wefti_buffer_print(ctx, out, ",%d,", s->index);
        wefti_buffer_short(ctx, out, s->begin_s + t->begun_s);
        wefti_buffer_text(ctx, out, ",");
        wefti_buffer_short(ctx, out, s->end_s + t->begun_s);
        wefti_buffer_text(ctx, out, "]");
    }
    wefti_buffer_text(ctx, out, "]}");
}

static void put_timelines(weft_ctx *ctx, wefti_buffer *out, const wefti_material *m) {
    bool any = false;
    for (int r = 0; r < m->timelines.n && r < RANKS_SHOWN; r++) {
        if (m->timelines.ranks[r].n == 0) continue;
        if (any) wefti_buffer_text(ctx, out, ",");
        put_timeline(ctx, out, &m->timelines.ranks[r], "measured");
        any = true;
    }
    if (any && m->planned.timeline.n) wefti_buffer_text(ctx, out, ",");
    if (m->planned.timeline.n) put_timeline(ctx, out, &m->planned.timeline, "predicted");
}

/* ---- who took part ---- */

/* Rows of lost ranks that did not count, from what was skipped between two views. */
static void put_uncounted(weft_ctx *ctx, wefti_buffer *out, const wefti_views *views,
                          const wefti_view_line *before) {
    int64_t skipped = 0, in_part = 0;
    for (int64_t i = 0; i < views->n_skips && before; i++) {
        const wefti_skip_line *s = &views->skips[i];
        if (s->run != before->run || s->view != before->view) continue;
        skipped += s->rows_skipped;
        in_part += s->rows_in_part;
    }
    wefti_buffer_print(ctx, out, ",\"rows_skipped\":%lld,\"rows_in_part\":%lld",
                       (long long)skipped, (long long)in_part);
}

static void put_views(weft_ctx *ctx, wefti_buffer *out, const wefti_views *views) {
    put_key(ctx, out, "views", false);
    wefti_buffer_text(ctx, out, "[");
    for (int64_t i = 0; i < views->n_views; i++) {
        const wefti_view_line *v = &views->views[i];
        wefti_buffer_print(ctx, out,
                           "%s{\"step\":%lld,\"ranks\":%d,\"stall_s\":", i ? "," : "",
                           (long long)v->step, v->n_members);
        wefti_buffer_short(ctx, out, v->stall_s);
        put_uncounted(ctx, out, views, i ? v - 1 : NULL);
        wefti_buffer_print(ctx, out, ",\"begins\":%s",
                           v->view == 1 && !v->shared ? "true" : "false");
        wefti_views_put_changes(ctx, out, "lost", v->lost, v->n_lost);
        wefti_views_put_changes(ctx, out, "joined", v->joined, v->n_joined);
        wefti_views_put_form(ctx, out, v);
        wefti_buffer_text(ctx, out, "}");
    }
    wefti_buffer_text(ctx, out, "]");
}

/* ---- the whole ---- */

static void put_run(weft_ctx *ctx, wefti_buffer *out, const wefti_material *m,
                    int64_t limit) {
    put_key(ctx, out, "name", true);
    wefti_buffer_json(ctx, out, m->name);
    put_key(ctx, out, "smoothing", false);
    wefti_buffer_print(ctx, out, "%lld", (long long)m->run.smoothing);
    put_key(ctx, out, "summary", false);
    put_summary(ctx, out, m);
    put_key(ctx, out, "prediction", false);
    if (m->is_planned)
        put_prediction(ctx, out, &m->planned);
    else
        wefti_buffer_text(ctx, out, "null");
    put_key(ctx, out, "config", false);
    if (m->config)
        wefti_buffer_json(ctx, out, m->config);
    else
        wefti_buffer_text(ctx, out, "null");
    put_key(ctx, out, "timelines", false);
    wefti_buffer_text(ctx, out, "[");
    put_timelines(ctx, out, m);
    wefti_buffer_text(ctx, out, "]");
    put_views(ctx, out, &m->views);
    put_key(ctx, out, "nodes", false);
    wefti_nodes_put(ctx, out, &m->nodes, MAX_POINTS);
    put_key(ctx, out, "steps", false);
    put_rows(ctx, out, &m->run.steps, limit);
    put_key(ctx, out, "evaluations", false);
    put_rows(ctx, out, &m->run.evaluations, limit);
}

/* refresh_s: how often a page asks for the data again; 0: never. */
static void block_begin(weft_ctx *ctx, wefti_buffer *out, double refresh_s) {
    wefti_buffer_text(
        ctx, out, "{\"version\":1,\"program\":\"weft " WEFT_VERSION "\",\"refresh_s\":");
    wefti_buffer_short(ctx, out, refresh_s);
    wefti_buffer_text(ctx, out, ",\"runs\":[");
}

static weft_status block_add(weft_ctx *ctx, wefti_buffer *out, const wefti_material *run,
                             int index, int n) {
    wefti_buffer_text(ctx, out, index ? ",\n{" : "\n{");
    put_run(ctx, out, run, MAX_ROWS / n > MIN_ROWS ? MAX_ROWS / n : MIN_ROWS);
    wefti_buffer_text(ctx, out, "}");
    return out->status;
}

static void block_end(weft_ctx *ctx, wefti_buffer *out) {
    wefti_buffer_text(ctx, out, "]}");
}

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
    WEFT_TRY(weft_run_look(ctx, folder));
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
    block_begin(ctx, out, r->refresh_s);
    for (int i = 0; i < r->n; i++) {
        wefti_material m = {.name = label_of(names, r->folders, r->n, i)};
        weft_status status = read_material(ctx, r->folders[i], &r->feeds[i], &m);
        if (status == WEFT_OK) status = block_add(ctx, out, &m, i, r->n);
        drop_material(ctx, &m);
        WEFT_TRY(status);
    }
    block_end(ctx, out);
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
