/* SPDX-License-Identifier: MIT */
/* `weft verify`: which parts of a run folder can be trusted.
 *
 *     config.yaml           read as a run would
 *     metrics.jsonl         every line
 *     nodes.jsonl           every line
 *     views.jsonl           every line
 *     plan.json, timeline.json
 *     records               views, lines and checkpoints do not contradict each other
 *     checkpoints/step-N    every byte against index.json; what crashes left is named */
#define _GNU_SOURCE
#include <weft/verify.h>

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/config.h>
#include <weft/report.h>

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "record/metrics.h"
#include "record/planned.h"
#include "runfiles/descent.h"
#include "runfiles/journal.h"

enum { SENTENCE = 1024 };

typedef struct verifier {
    weft_ctx *ctx;
    const char *folder;
    weft_verify_sink sink;
    void *user;
    int n_parts, n_damaged;
    int64_t log_every; /* as configured; 0: not known */
    bool no_memory;    /* to read a part: its state is unknown */
} verifier;

static void tell(verifier *v, const char *name, bool whole, const char *sentence) {
    v->n_parts++;
    v->n_damaged += !whole;
    if (v->sink) v->sink(v->user, &(weft_verify_item){name, whole, sentence});
}

/* Reports the outcome of reading a part: `good` describes a good one. A part for which
 * there was no memory is not called damaged. */
static void tell_status(verifier *v, const char *name, weft_status status,
                        const char *good) {
    char sentence[SENTENCE];
    v->no_memory |= status == WEFT_ERR_MEMORY;
    if (v->no_memory) return; /* the message stays, and ends the check */
    snprintf(sentence, sizeof sentence, "%s",
             status == WEFT_OK ? good : weft_ctx_message(v->ctx));
    weft_ctx_clear(v->ctx); /* the next part has its own message */
    tell(v, name, status == WEFT_OK, sentence);
}

/* Joins the path; false: there is no such file. */
static bool present(const verifier *v, const char *name, char *path) {
    struct stat info;
    return snprintf(path, PATH_MAX, "%s/%s", v->folder, name) < PATH_MAX &&
           stat(path, &info) == 0;
}

/* Whether a run could begin with the file at `path`. */
static weft_status read_config(weft_ctx *ctx, const char *path, int64_t *log_every) {
    weft_config *config;
    WEFT_TRY(weft_config_create(ctx, &config));
    weft_status status = weft_config_load(ctx, config, path);
    if (status == WEFT_OK) status = weft_config_finish(ctx, config);
    if (status == WEFT_OK) *log_every = wefti_journal_every(config);
    weft_config_destroy(ctx, config);
    return status;
}

/* Uses a context that logs nowhere: warnings that a run gave are no news about its
 * folder. */
static void verify_config(verifier *v) {
    char path[PATH_MAX];
    weft_ctx *quiet;
    if (!present(v, "config.yaml", path)) return;
    weft_status status = weft_ctx_create(&quiet);
    if (status == WEFT_OK) status = read_config(quiet, path, &v->log_every);
    if (status != WEFT_OK)
        status = weft_ctx_fail(v->ctx, status, "%s",
                               quiet ? weft_ctx_message(quiet) : "no memory");
    weft_ctx_destroy(quiet);
    tell_status(v, "config.yaml", status, "reads as a run would read it");
}

static void verify_lines(verifier *v, const char *name) {
    char path[PATH_MAX], good[64];
    int64_t n;
    if (!present(v, name, path)) return;
    weft_status status = wefti_metrics_check(v->ctx, path, &n);
    snprintf(good, sizeof good, "%lld line%s", (long long)n, n == 1 ? "" : "s");
    tell_status(v, name, status, good);
}

/* Only where the lines by themselves are in order, so that a damaged one is named once. */
static void verify_records(verifier *v) {
    char path[PATH_MAX], good[128] = "views, lines and checkpoints agree";
    int64_t came;
    if (v->n_damaged > 0 || v->log_every == 0 || v->no_memory) return;
    if (!present(v, "metrics.jsonl", path)) return;
    weft_status status = wefti_descent_agree(v->ctx, v->folder, v->log_every, &came);
    size_t n = strlen(good);
    if (came > 0)
        snprintf(good + n, sizeof good - n,
                 "; the run came here with step %lld, from another folder",
                 (long long)came);
    tell_status(v, "records", status, good);
}

static void verify_plan(verifier *v) {
    char path[PATH_MAX];
    wefti_planned planned = {0};
    wefti_timelines timelines = {0};
    bool found;
    if (present(v, "plan.json", path)) {
        weft_status status = wefti_planned_read(v->ctx, path, &planned, &found);
        tell_status(v, "plan.json", status, "a prediction");
        wefti_planned_fini(v->ctx, &planned);
    }
    if (present(v, "timeline.json", path)) {
        weft_status status = wefti_timelines_read(v->ctx, path, &timelines, &found);
        tell_status(v, "timeline.json", status, "a step's timeline");
        wefti_timelines_fini(v->ctx, &timelines);
    }
}

/* What a name in the folder `checkpoints` means: NULL for a checkpoint, else what was
 * left behind. */
static const char *remains(const char *name) {
    const char *dot = strchr(name, '.');
    if (!dot) return NULL;
    if (strncmp(dot, ".partial", 8) == 0) return "a crash left it; it was never complete";
    if (strcmp(dot, ".removed") == 0) return "a crash left it while it was removed";
    if (strcmp(dot, ".old") == 0) return NULL;
    return strcmp(dot, ".damaged") == 0 ? "set aside as damaged by a resumed run"
                                        : "not a checkpoint's name";
}

static void verify_checkpoint(verifier *v, const char *checkpoints, const char *name) {
    char path[PATH_MAX], label[PATH_MAX];
    char *layout = NULL;
    const char *rest = remains(name);
    snprintf(label, sizeof label, "checkpoints/%s", name);
    if (rest) {
        tell(v, label, strstr(name, ".damaged") == NULL, rest);
        return;
    }
    if (snprintf(path, sizeof path, "%s/%s", checkpoints, name) >= (int)sizeof path) {
        tell(v, label, false, "its path is too long");
        return;
    }
    weft_status status = wefti_checkpoint_verify(v->ctx, path, &layout);
    tell_status(v, label, status, "every byte as it was written");
    wefti_free(v->ctx, layout);
}

static int is_step(const struct dirent *entry) {
    return strncmp(entry->d_name, "step-", 5) == 0;
}

static weft_status verify_checkpoints(verifier *v) {
    char path[PATH_MAX];
    struct dirent **names;
    if (!present(v, "checkpoints", path)) return WEFT_OK;
    int n = scandir(path, &names, is_step, alphasort);
    if (n < 0) return wefti_fail_errno(v->ctx, "list", path);
    for (int i = 0; i < n; i++) {
        verify_checkpoint(v, path, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return WEFT_OK;
}

weft_status weft_verify_run(weft_ctx *ctx, const char *run_folder, weft_verify_sink sink,
                            void *user, int *n_damaged) {
    verifier v = {.ctx = ctx, .folder = run_folder, .sink = sink, .user = user};
    *n_damaged = 0;
    WEFT_TRY(weft_run_look(ctx, run_folder));
    verify_config(&v);
    verify_lines(&v, "metrics.jsonl");
    verify_lines(&v, "nodes.jsonl");
    verify_lines(&v, "views.jsonl");
    verify_records(&v);
    verify_plan(&v);
    WEFT_TRY(verify_checkpoints(&v));
    *n_damaged = v.n_damaged;
    if (v.no_memory) return WEFT_ERR_MEMORY;
    if (v.n_parts > 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s is not a run folder: no config.yaml, metrics.jsonl or "
                         "checkpoints in it",
                         run_folder);
}
