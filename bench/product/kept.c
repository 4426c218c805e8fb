/* SPDX-License-Identifier: MIT */
/* What has to hold for the folders of runs, looked at from outside:
 *
 *     views.jsonl is one chain; no line goes whose view has trained on
 *     metrics.jsonl keeps the lines of steps that all have done, and lacks none
 *     checkpoints  the newest one never gets older; what was reported as saved is there
 *     at the end   weft verify's rules, and a replay gets the same bits
 *
 * A loss of power takes what was not synced, which a checkpoint is. */
#include <weft/train.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "checkpoint/folder.h"
#include "record/metrics.h"
#include "record/views.h"
#include "runfiles/descent.h"
#include "world.h"

typedef struct seen_view {
    int64_t view, step;
    uint64_t run, chain;
} seen_view;

typedef struct kept {
    seen_view *views;
    int64_t n_views, newest, checkpoint;
    int64_t saved; /* reported */
    int64_t ended; /* with this step, the run that wrote here; 0: not yet */
    bool filled;   /* the disk was full: who died then had lines that it did not take */
} kept;
static kept all[MAX_HOSTS + 1];

void kept_saved(int h, int64_t step) {
    kept *k = &all[disk_of(h)];
    if (step > k->saved) k->saved = step;
}

void kept_ended(int h, int64_t step) { all[disk_of(h)].ended = step; }

void kept_full(int h) { all[disk_of(h)].filled = true; }

void kept_power(int h) {
    kept *k = &all[h];
    k->n_views = k->newest = 0;
    if (k->checkpoint > k->saved) k->checkpoint = k->saved;
}

static bool is_same(const seen_view *a, const wefti_view_line *b) {
    return a->view == b->view && a->step == b->step && a->run == b->run;
}

/* Whether the view has trained, for all, from the line's step on. */
static bool has_trained(const seen_view *v) {
    for (int64_t t = v->step; t <= all_steps; t++)
        if (committed_view(t) == v->view) return true;
    return false;
}

static void look_at_views(kept *k, int at, const wefti_views *now) {
    int64_t same = 0;
    for (int64_t i = 1; i < now->n_views; i++)
        if (!now->views[i].apart &&
            now->views[i].chain !=
                wefti_views_chain(now->views[i - 1].chain, &now->views[i]))
            fail_world(
                "disk %d: the view of step %lld does not follow from the one before", at,
                (long long)now->views[i].step);
    while (same < k->n_views && same < now->n_views &&
           is_same(&k->views[same], &now->views[same]))
        same++;
    for (int64_t i = same; i < k->n_views; i++)
        if (has_trained(&k->views[i]))
            fail_world(
                "disk %d: the line of view %lld, which begins with step %lld, is gone",
                at, (long long)k->views[i].view, (long long)k->views[i].step);
    k->views = realloc(k->views, (size_t)(now->n_views + 1) * sizeof *k->views);
    k->n_views = now->n_views;
    for (int64_t i = 0; i < now->n_views; i++) {
        const wefti_view_line *v = &now->views[i];
        k->views[i] = (seen_view){v->view, v->step, v->run, v->chain};
    }
}

static void look_at_steps(kept *k, int at, int64_t newest, int64_t checkpoint) {
    int64_t all_have = newest_commit(), before = k->newest;
    if (before > all_have) before = all_have;
    if (newest < before)
        fail_world(
            "disk %d: metrics.jsonl ends with step %lld and had step %lld, which all "
            "have done",
            at, (long long)newest, (long long)before);
    if (checkpoint < k->checkpoint)
        fail_world("disk %d: the newest checkpoint is of step %lld, and was of step %lld",
                   at, (long long)checkpoint, (long long)k->checkpoint);
    if (checkpoint < k->saved)
        fail_world(
            "disk %d: step %lld was reported as saved, the newest one is of step %lld",
            at, (long long)k->saved, (long long)checkpoint);
    k->newest = newest;
    k->checkpoint = checkpoint;
}

static weft_status look(weft_ctx *ctx, int at, const char *folder) {
    char path[PATH_MAX], newest_path[PATH_MAX];
    int64_t newest, checkpoint;
    wefti_views views;
    snprintf(path, sizeof path, "%s/views.jsonl", folder);
    WEFT_TRY(wefti_views_read(ctx, path, &views));
    look_at_views(&all[at], at, &views);
    wefti_views_fini(ctx, &views);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    WEFT_TRY(wefti_metrics_newest(ctx, path, &newest));
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    WEFT_TRY(wefti_checkpoint_latest(ctx, path, &checkpoint, newest_path));
    look_at_steps(&all[at], at, newest, checkpoint < 0 ? 0 : checkpoint);
    return WEFT_OK;
}

/* No step has two lines; and in a common folder no line is missing, whoever wrote and died. */
static weft_status judge_lines(weft_ctx *ctx, int at, const char *folder) {
    static const char *const names[] = {"step", "loss"};
    char path[PATH_MAX];
    double *rows, last = 0;
    int64_t n;
    bool whole = the_plan.shared && !all[at].filled;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    WEFT_TRY(wefti_metrics_read(ctx, path, names, 2, &rows, &n));
    for (int64_t i = 0; i < n; i++) {
        double step = rows[2 * i];
        if (isnan(rows[2 * i + 1])) continue; /* of an evaluation */
        if (step <= last || (whole && step > last + run_log_every()))
            fail_world("disk %d: the line of step %.0f stands behind that of step %.0f",
                       at, step, last);
        last = step;
    }
    wefti_free(ctx, rows);
    return WEFT_OK;
}

/* Where a run has ended, its folder tells one story, and it is the one that was. */
static weft_status judge(weft_ctx *ctx, int at, const char *folder) {
    weft_replay_result played = {.struct_size = sizeof played};
    int64_t came;
    if (all[at].ended == 0) return WEFT_OK;
    WEFT_TRY(wefti_descent_agree(ctx, folder, run_log_every(), &came));
    WEFT_TRY(judge_lines(ctx, at, folder));
    if (all[at].checkpoint != all[at].ended)
        fail_world("disk %d: the run ends with step %lld, its checkpoint is of step %lld",
                   at, (long long)all[at].ended, (long long)all[at].checkpoint);
    weft_status status = weft_replay(ctx, folder, NULL, &played);
    const char *why = weft_ctx_message(ctx);
    bool told = !the_plan.shared && strstr(why, "members see different folders");
    return told ? WEFT_OK : status;
}

static void each(weft_status (*what)(weft_ctx *, int, const char *)) {
    char folder[32];
    struct stat info;
    for (int h = 0; h <= MAX_HOSTS && !w.failure[0]; h++) {
        weft_ctx *ctx;
        snprintf(folder, sizeof folder, "disk.%d/run", h);
        if (stat(folder, &info) != 0 || weft_ctx_create(&ctx) != WEFT_OK) continue;
        if (what(ctx, h, folder) != WEFT_OK)
            fail_world("disk %d: %s", h, weft_ctx_message(ctx));
        weft_ctx_destroy(ctx);
    }
}

void kept_look(void) {
    if (the_plan.train) each(look);
}

void kept_judge(void) {
    kept_look();
    if (the_plan.train) each(judge);
}
