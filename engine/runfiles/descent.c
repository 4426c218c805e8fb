/* SPDX-License-Identifier: MIT */
/* The folder is a witness.
 *
 *     last view of views.jsonl    none of this process's own    it went on without this process
 *     newest line, checkpoint     beyond what one's members     the same, if the line of the
 *                                 can be apart                  view is not there
 *     an earlier view of a run    what this machine wrote before it was left out and came again:
 *     that it has joined          may write, behind a gap
 *     else                        this process may write, and cut what it does again
 *
 * A writer that is lost may have written a few steps more than any other has done: a step ends
 * when all messages are there, with gossip up to 18 steps after it began. */
#define _GNU_SOURCE
#include "runfiles/descent.h"

#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "record/metrics.h"

enum { MOST_APART = 32 }; /* steps; membership's longest window is 18 */

static weft_status read_view(weft_ctx *ctx, const char *folder,
                             wefti_descent_record *out) {
    char path[PATH_MAX];
    wefti_views views;
    WEFT_TRY(wefti_file_path(ctx, folder, "views.jsonl", path));
    WEFT_TRY(wefti_views_read(ctx, path, &views));
    out->has_view = views.n_views > 0;
    for (int64_t i = 0; i < views.n_views; i++)
        if (views.views[i].apart || (i == 0 && views.views[i].view > 1))
            out->came_step = views.views[i].step;
    if (out->has_view) {
        const wefti_view_line *last = &views.views[views.n_views - 1];
        out->run = last->run;
        out->chain = last->chain;
        out->view = last->view;
        out->view_step = last->step;
    }
    wefti_views_fini(ctx, &views);
    return WEFT_OK;
}

weft_status wefti_descent_read(weft_ctx *ctx, const char *folder,
                               wefti_descent_record *out) {
    char path[PATH_MAX], newest[PATH_MAX];
    *out = (wefti_descent_record){.checkpoint = -1};
    WEFT_TRY(read_view(ctx, folder, out));
    WEFT_TRY(wefti_file_path(ctx, folder, "metrics.jsonl", path));
    WEFT_TRY(wefti_metrics_newest(ctx, path, &out->step));
    WEFT_TRY(wefti_file_path(ctx, folder, "checkpoints", path));
    return wefti_checkpoint_latest(ctx, path, &out->checkpoint, newest);
}

static int64_t newest_of(const wefti_descent_record *r) {
    int64_t newest = r->step > r->checkpoint ? r->step : r->checkpoint;
    return r->view_step - 1 > newest ? r->view_step - 1 : newest;
}

weft_status wefti_descent_judge(weft_ctx *ctx, const char *folder,
                                const wefti_descent_record *r, const wefti_viewlog *views,
                                int64_t steps_done) {
    bool own = !r->has_view || r->is_past || wefti_viewlog_knows(views, r->chain);
    int64_t newest = newest_of(r);
    if (own && newest <= steps_done + MOST_APART) return WEFT_OK;
    if (own)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s holds step %lld, expected at most %lld from members of "
                             "this process, which has done step %lld: the others went on "
                             "without it, and it writes nothing there",
                             folder, (long long)newest,
                             (long long)steps_done + MOST_APART, (long long)steps_done);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s holds step %lld of view %lld of run %016llx, from which "
                         "this process does not descend: it has done step %lld in "
                         "another view, was left behind or joined another run, and "
                         "writes nothing there",
                         folder, (long long)newest, (long long)r->view,
                         (unsigned long long)r->run, (long long)steps_done);
}

weft_status wefti_descent_check(weft_ctx *ctx, const char *folder,
                                const wefti_viewlog *views, int64_t steps_done) {
    wefti_descent_record record;
    WEFT_TRY(wefti_descent_read(ctx, folder, &record));
    return wefti_descent_judge(ctx, folder, &record, views, steps_done);
}

weft_status wefti_descent_ended(weft_ctx *ctx, const char *folder, uint64_t run,
                                int64_t view, int64_t steps, bool *ended) {
    char lease[PATH_MAX];
    wefti_descent_record r;
    *ended = false;
    WEFT_TRY(wefti_file_path(ctx, folder, "lease", lease));
    WEFT_TRY(wefti_descent_read(ctx, folder, &r));
    bool left = r.view > view && r.checkpoint >= r.step && access(lease, F_OK) != 0;
    *ended = r.has_view && r.run == run && (r.checkpoint >= steps || left);
    return WEFT_OK;
}

/* ---- a folder by itself ---- */

/* Each view's line follows from the one before it, or from one between that another machine has. */
static weft_status check_chain(weft_ctx *ctx, const wefti_views *views) {
    for (int64_t i = 1; i < views->n_views; i++) {
        const wefti_view_line *before = &views->views[i - 1], *line = &views->views[i];
        if (!line->has_chain || line->chain == wefti_views_chain(before->chain, line) ||
            (line->apart && line->run == before->run && line->view > before->view + 1))
            continue;
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "views.jsonl: the view of step %lld does not follow from "
                             "the one before it, of step %lld",
                             (long long)line->step, (long long)before->step);
    }
    return WEFT_OK;
}

static weft_status check_views(weft_ctx *ctx, const char *folder) {
    char path[PATH_MAX];
    wefti_views views;
    WEFT_TRY(wefti_file_path(ctx, folder, "views.jsonl", path));
    WEFT_TRY(wefti_views_read(ctx, path, &views));
    weft_status status = check_chain(ctx, &views);
    wefti_views_fini(ctx, &views);
    return status;
}

/* No line stands behind one of a later step. */
static weft_status check_order(weft_ctx *ctx, const char *folder) {
    static const char *const names[] = {"step"};
    char path[PATH_MAX];
    double *steps, last = 0;
    int64_t n;
    WEFT_TRY(wefti_file_path(ctx, folder, "metrics.jsonl", path));
    WEFT_TRY(wefti_metrics_read(ctx, path, names, 1, &steps, &n));
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < n && status == WEFT_OK; i++) {
        if (steps[i] < last)
            status = weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                   "metrics.jsonl: a line of step %.0f stands behind one "
                                   "of step %.0f",
                                   steps[i], last);
        if (steps[i] > last) last = steps[i];
    }
    wefti_free(ctx, steps);
    return status;
}

weft_status wefti_descent_agree(weft_ctx *ctx, const char *folder, int64_t log_every,
                                int64_t *came_step) {
    char path[PATH_MAX];
    wefti_descent_record r;
    int64_t lines;
    *came_step = 0;
    WEFT_TRY(wefti_descent_read(ctx, folder, &r));
    *came_step = r.came_step;
    WEFT_TRY(wefti_file_path(ctx, folder, "nodes.jsonl",
                             path)); /* has a line of each checkpoint */
    WEFT_TRY(wefti_metrics_newest(ctx, path, &lines));
    if (r.step > lines) lines = r.step;
    if (r.checkpoint > lines && r.checkpoint >= r.view_step)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "there is a checkpoint of step %lld, and metrics.jsonl ends "
                             "with step %lld",
                             (long long)r.checkpoint, (long long)lines);
    int64_t needed = (lines > r.came_step ? lines : r.came_step) + log_every + MOST_APART;
    if (r.view_step - 1 > needed)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "views.jsonl has a view of step %lld, and metrics.jsonl ends with step %lld",
            (long long)r.view_step, (long long)lines);
    WEFT_TRY(check_views(ctx, folder));
    return check_order(ctx, folder);
}
