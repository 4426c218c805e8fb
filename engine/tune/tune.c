/* SPDX-License-Identifier: MIT */
/* A search over keys: combines the space, the halving and the journal.
 *
 * The journal is FOLDER/journal.tsv. It begins with a description of the search,
 *
 *     # weft tune 1, trials 12, seeds 3, budget 300, eta 3, rungs 3, configuration 9c21...
 *     # optimizer.lr=1e-4..1e-2
 *
 * and then has a line for each reported job: trial, rung, seed, steps, loss (with enough
 * digits to read back the same number; "nan" if the job failed), seconds. A last line
 * without a newline was being written when the program died, and is ignored. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/text.h"
#include "record/append.h"
#include "tune/halving.h"
#include "tune/space.h"

enum { MOST_TRIALS = 10000, MOST_JOURNAL = 1 << 26 };

struct weft_tune {
    weft_ctx *ctx; /* borrowed */
    wefti_space space;
    wefti_halving halving;
    char (*values)[WEFTI_SPACE_TEXT]; /* [trial][key] */
    wefti_buffer head;                /* the journal's first lines */
    wefti_append journal;
    bool is_open;
    weft_tune_look *looks; /* [trials] that weft_tune_place returned last */
};

/* --- the space of the search --- */

static weft_status check_sizes(weft_ctx *ctx, const weft_tune_setup *s) {
    if (s->n_keys < 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "there is no key to search over, expected at least one such "
                             "as --key optimizer.lr=1e-4..1e-2");
    if (s->n_trials < 0 || s->n_trials > MOST_TRIALS || s->n_seeds < 1 ||
        s->n_seeds > WEFTI_SEEDS || s->budget < 1 || s->eta < 2 || s->n_rungs < 0 ||
        s->n_rungs > WEFTI_RUNGS)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%d trials, %d seeds, %lld steps, eta %d and %d rungs, "
                             "expected 1 to %d, 1 to %d, 1 and more, 2 and more, 0 to %d",
                             s->n_trials, s->n_seeds, (long long)s->budget, s->eta,
                             s->n_rungs, (int)MOST_TRIALS, (int)WEFTI_SEEDS,
                             (int)WEFTI_RUNGS);
    return WEFT_OK;
}

static weft_status count_trials(weft_tune *t, int asked) {
    int64_t grid = wefti_space_grid(&t->space);
    if (asked == 0 && grid == 0)
        return weft_ctx_fail(t->ctx, WEFT_ERR_CONFIG,
                             "a key has a range, expected a number of trials");
    if ((grid > 0 && asked > grid) || (asked == 0 && grid > MOST_TRIALS))
        return weft_ctx_fail(
            t->ctx, WEFT_ERR_CONFIG,
            "%lld trials of a grid of %lld points, expected at most the grid and %d",
            (long long)(asked ? asked : grid), (long long)grid, (int)MOST_TRIALS);
    t->halving.n_trials = asked ? asked : (int)grid;
    return WEFT_OK;
}

static weft_status read_space(weft_tune *t, const weft_tune_setup *s, weft_config *base) {
    weft_config *scratch;
    WEFT_TRY(weft_config_copy(t->ctx, base, &scratch));
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->n_keys && status == WEFT_OK; i++)
        status = wefti_space_add(t->ctx, &t->space, s->keys[i], scratch);
    weft_config_destroy(t->ctx, scratch);
    return status;
}

static weft_status list_values(weft_tune *t) {
    int n = t->halving.n_trials, n_axes = t->space.n_axes;
    WEFT_TRY(wefti_alloc_n(t->ctx, (int64_t)n * n_axes, sizeof *t->values, "trials",
                           &t->values));
    for (int i = 0; i < n; i++)
        for (int a = 0; a < n_axes; a++)
            wefti_space_value(&t->space, i, a, t->values[i * n_axes + a]);
    return WEFT_OK;
}

/* Checks that a run can have these values together. */
static weft_status try_trial(weft_tune *t, int trial, const weft_config *base) {
    weft_config *config;
    WEFT_TRY(weft_config_copy(t->ctx, base, &config));
    weft_status status = weft_tune_set(t, trial, config);
    if (status == WEFT_OK) status = weft_config_finish(t->ctx, config);
    weft_config_destroy(t->ctx, config);
    return status;
}

/* The first step at which trials can be compared. During the warm-up the trial with the
 * largest learning rate is ahead, however it ends; so the first comparison comes after as
 * many steps behind the warm-up as it has. */
static int64_t first_fair(const weft_config *base) { return 2 * base->schedule.warmup; }

static void say_rungs(const weft_tune *t, const weft_config *base, int most) {
    const wefti_halving *h = &t->halving;
    if (h->n_rungs > 1 && h->steps[0] < first_fair(base))
        weft_ctx_log(t->ctx, WEFT_LOG_WARN,
                     "trials are first compared after %lld steps, less than twice "
                     "schedule.warmup (%lld): large learning rates look better than they "
                     "are",
                     (long long)h->steps[0], (long long)base->schedule.warmup);
    else if (h->n_rungs == 1 && most > 1)
        weft_ctx_log(t->ctx, WEFT_LOG_WARN,
                     "no trial stops early: 1/%d of %lld steps is less than twice "
                     "schedule.warmup (%lld)",
                     h->eta, (long long)h->steps[0], (long long)base->schedule.warmup);
}

static weft_status make_halving(weft_tune *t, const weft_tune_setup *s,
                                const weft_config *base) {
    wefti_halving *h = &t->halving;
    int most = wefti_halving_rungs(h->n_trials, s->eta, s->budget, 0);
    h->n_seeds = s->n_seeds;
    h->eta = s->eta;
    h->n_rungs = s->n_rungs ? s->n_rungs
                            : wefti_halving_rungs(h->n_trials, s->eta, s->budget,
                                                  first_fair(base));
    WEFT_TRY(wefti_alloc_n(t->ctx, h->n_trials, sizeof *h->trials, "trials", &h->trials));
    wefti_halving_init(h, s->budget);
    for (int k = 1; k < h->n_rungs; k++)
        if (h->steps[k] <= h->steps[k - 1])
            return weft_ctx_fail(t->ctx, WEFT_ERR_CONFIG,
                                 "%lld steps do not divide into %d rungs, each of %d "
                                 "times the steps of the one before",
                                 (long long)s->budget, h->n_rungs, s->eta);
    say_rungs(t, base, most);
    return WEFT_OK;
}

/* --- the journal --- */

static weft_status describe(weft_tune *t, const weft_tune_setup *s, weft_config *base) {
    const wefti_halving *h = &t->halving;
    const char *text;
    WEFT_TRY(weft_config_text(t->ctx, base, WEFT_CONFIG_BARE, &text));
    wefti_buffer_print(t->ctx, &t->head,
                       "# weft tune 1, trials %d, seeds %d, budget %lld, eta %d, rungs "
                       "%d, configuration %016" PRIx64 "\n",
                       h->n_trials, h->n_seeds, (long long)s->budget, h->eta, h->n_rungs,
                       (uint64_t)XXH3_64bits(text, strlen(text)));
    for (int i = 0; i < s->n_keys; i++)
        wefti_buffer_print(t->ctx, &t->head, "# %s\n", s->keys[i]);
    return t->head.status;
}

/* Parses the line of a job; false: the line is invalid. */
static bool parse(const char *line, weft_tune_job *job, double *loss, double *seconds) {
    char word[40];
    long long steps;
    int end = 0;
    if (sscanf(line, "%d\t%d\t%d\t%lld\t%39s\t%lf%n", &job->trial, &job->rung, &job->seed,
               &steps, word, seconds, &end) != 6 ||
        line[end])
        return false;
    job->steps = steps;
    char *rest;
    *loss = strtod(word, &rest);
    return !*rest && isfinite(*seconds) && *seconds >= 0;
}

static weft_status replay(weft_tune *t, const char *path, char *text) {
    int number = t->space.n_axes + 1;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        weft_tune_job job = {.struct_size = sizeof job};
        double loss, seconds;
        number++;
        *end = '\0';
        if (!parse(line, &job, &loss, &seconds) ||
            !wefti_halving_takes(&t->halving, &job))
            return weft_ctx_fail(t->ctx, WEFT_ERR_FORMAT,
                                 "%s:%d: found '%.60s', expected trial, rung, seed, "
                                 "steps, loss and seconds of a job that can have been "
                                 "next",
                                 path, number, wefti_text_plain(line));
        wefti_halving_restore(&t->halving, &job);
        wefti_halving_report(&t->halving, &job, loss, seconds);
    }
    return WEFT_OK;
}

/* Whether a file is empty or has only a part of the first lines: its search died while it
 * wrote them. */
static bool is_unbegun(const weft_tune *t, const char *text, int64_t n_bytes) {
    return n_bytes < t->head.n && memcmp(text, t->head.bytes, (size_t)n_bytes) == 0;
}

static weft_status take_text(weft_tune *t, const char *path, char *text,
                             int64_t n_bytes) {
    size_t n_head = (size_t)t->head.n;
    if (is_unbegun(t, text, n_bytes)) return WEFT_OK;
    if (n_bytes >= t->head.n && strlen(text) == (size_t)n_bytes &&
        memcmp(text, t->head.bytes, n_head) == 0)
        return replay(t, path, text + n_head);
    return weft_ctx_fail(t->ctx, WEFT_ERR_CONFIG,
                         "%s is the journal of another search: it begins '%.160s', "
                         "expected '%.160s'; use another folder",
                         path, wefti_text_plain(text), wefti_text_plain(t->head.bytes));
}

/* Reads the lines of the journal, and truncates the file before an incomplete last line. */
static weft_status read_journal(weft_tune *t, const char *path, bool *fresh) {
    char *text;
    int64_t n_bytes;
    *fresh = access(path, F_OK) != 0;
    if (*fresh) return WEFT_OK;
    WEFT_TRY(wefti_file_read(t->ctx, path, MOST_JOURNAL, &text, &n_bytes));
    const char *last = strrchr(text, '\n');
    off_t whole = last ? last + 1 - text : 0;
    *fresh = is_unbegun(t, text, n_bytes);
    weft_status status = take_text(t, path, text, n_bytes);
    wefti_free(t->ctx, text);
    if (status != WEFT_OK) return status;
    if (truncate(path, *fresh ? 0 : whole) == 0) return WEFT_OK;
    return weft_ctx_fail(t->ctx, WEFT_ERR_FILE, "could not shorten %s", path);
}

static weft_status open_journal(weft_tune *t, const char *folder) {
    char path[4096];
    bool exists, fresh;
    if (snprintf(path, sizeof path, "%s/journal.tsv", folder) >= (int)sizeof path)
        return weft_ctx_fail(t->ctx, WEFT_ERR_FILE, "the folder's name is too long");
    WEFT_TRY(wefti_file_mkdirs(t->ctx, folder));
    WEFT_TRY(read_journal(t, path, &fresh));
    WEFT_TRY(wefti_append_init(t->ctx, path, false, &exists, &t->journal));
    t->is_open = true;
    if (!fresh) return WEFT_OK;
    return wefti_append_write(t->ctx, &t->journal, t->head.bytes, t->head.n);
}

/* --- creation --- */

static weft_status build(weft_tune *t, const weft_tune_setup *s, weft_config *base) {
    WEFT_TRY(check_sizes(t->ctx, s));
    WEFT_TRY(read_space(t, s, base));
    WEFT_TRY(count_trials(t, s->n_trials));
    WEFT_TRY(list_values(t));
    WEFT_TRY(make_halving(t, s, base));
    WEFT_TRY(wefti_alloc_n(t->ctx, t->halving.n_trials, sizeof *t->looks, "trials",
                           &t->looks));
    for (int i = 0; i < t->halving.n_trials; i++) WEFT_TRY(try_trial(t, i, base));
    WEFT_TRY(describe(t, s, base));
    return open_journal(t, s->folder);
}

weft_status weft_tune_create(weft_ctx *ctx, const weft_tune_setup *setup,
                             weft_config *base, weft_tune **out) {
    weft_tune *t;
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_tune_setup, setup);
    WEFT_TRY(wefti_alloc(ctx, sizeof *t, "the search", &t));
    t->ctx = ctx;
    WEFTI_TRY_OR(build(t, setup, base), weft_tune_destroy(t));
    *out = t;
    return WEFT_OK;
}

void weft_tune_destroy(weft_tune *t) {
    if (!t) return;
    weft_status closed = t->is_open ? wefti_append_fini(t->ctx, &t->journal) : WEFT_OK;
    (void)closed; /* every report has synced */
    wefti_buffer_fini(t->ctx, &t->head);
    WEFTI_FREE(t->ctx, t->values, t->halving.trials, t->looks, t);
}

/* --- the search --- */

weft_status weft_tune_next(weft_tune *t, weft_tune_job *job, bool *any) {
    weft_ctx *ctx = t->ctx;
    *any = false;
    WEFTI_SIZED_OUT(ctx, weft_tune_job, job);
    *any = wefti_halving_next(&t->halving, job);
    return WEFTI_SIZED_GIVE(weft_tune_job, job, WEFT_OK);
}

weft_status weft_tune_report(weft_tune *t, const weft_tune_job *job, double loss,
                             double seconds) {
    weft_ctx *ctx = t->ctx;
    WEFTI_SIZED_IN(ctx, weft_tune_job, job);
    wefti_buffer line = {0};
    wefti_buffer_print(t->ctx, &line, "%d\t%d\t%d\t%lld\t", job->trial, job->rung,
                       job->seed, (long long)job->steps);
    if (isfinite(loss))
        wefti_buffer_real(t->ctx, &line, loss);
    else
        wefti_buffer_text(t->ctx, &line, "nan");
    wefti_buffer_text(t->ctx, &line, "\t");
    wefti_buffer_short(t->ctx, &line, seconds);
    wefti_buffer_text(t->ctx, &line, "\n");
    weft_status status = line.status;
    if (status == WEFT_OK)
        status = wefti_append_write(t->ctx, &t->journal, line.bytes, line.n);
    wefti_buffer_fini(t->ctx, &line);
    WEFT_TRY(status);
    WEFT_TRY(wefti_append_sync(t->ctx, &t->journal));
    wefti_halving_report(&t->halving, job, loss, seconds);
    return WEFT_OK;
}

/* --- looking at trials --- */

int weft_tune_trials(const weft_tune *t) { return t->halving.n_trials; }

int weft_tune_keys(const weft_tune *t) { return t->space.n_axes; }

const char *weft_tune_key(const weft_tune *t, int key) {
    return t->space.axes[key].key->name;
}

const char *weft_tune_value(const weft_tune *t, int trial, int key) {
    return t->values[trial * t->space.n_axes + key];
}

static weft_tune_look look_at(const weft_tune *t, int trial) {
    const wefti_halving *h = &t->halving;
    const wefti_trial *tried = &h->trials[trial];
    int rung = wefti_halving_ended(h, trial);
    weft_tune_look look = {.trial = trial, .trained_s = tried->trained_s};
    if (rung < 0) return look;
    look.steps = h->steps[rung];
    look.loss = tried->score[rung];
    look.n_seeds = wefti_halving_jobs(h, rung);
    look.spread = rung == tried->rung ? tried->spread : 0;
    return look;
}

/* Order of trials: by rung, then loss, then number; failed trials come last. */
static bool is_before(const weft_tune *t, int a, int b) {
    weft_tune_look x = look_at(t, a), y = look_at(t, b);
    bool well = x.steps > 0 && isfinite(x.loss), also = y.steps > 0 && isfinite(y.loss);
    if (well != also) return well;
    if (x.steps != y.steps) return x.steps > y.steps;
    if (well && x.loss != y.loss) return x.loss < y.loss;
    return a < b;
}

const weft_tune_look *weft_tune_place(weft_tune *t, int place) {
    static const weft_tune_look none = {.trial = -1};
    int n = t->halving.n_trials;
    for (int i = 0; i < n; i++) {
        int before = 0;
        for (int j = 0; j < n; j++) before += j != i && is_before(t, j, i);
        if (before != place) continue;
        t->looks[i] = look_at(t, i);
        return &t->looks[i];
    }
    return &none;
}

/* --- the result --- */

weft_status weft_tune_set(weft_tune *t, int trial, weft_config *config) {
    char assignment[160];
    for (int a = 0; a < t->space.n_axes; a++) {
        snprintf(assignment, sizeof assignment, "%s=%s", weft_tune_key(t, a),
                 weft_tune_value(t, trial, a));
        WEFT_TRY(weft_config_set(t->ctx, config, assignment));
    }
    return WEFT_OK;
}

/* Writes the keys of one section together, under its name, at the place of the first of them. */
static void put_section(weft_tune *t, wefti_buffer *out, int trial, int first) {
    const char *name = weft_tune_key(t, first), *dot = strchr(name, '.');
    int n = dot ? (int)(dot - name) + 1 : 0;
    for (int a = 0; a < first && n; a++)
        if (strncmp(weft_tune_key(t, a), name, (size_t)n) == 0) return;
    if (n) wefti_buffer_print(t->ctx, out, "%.*s:\n", n - 1, name);
    for (int a = first; a < t->space.n_axes; a++) {
        const char *key = weft_tune_key(t, a);
        bool beside = n ? strncmp(key, name, (size_t)n) == 0 : a == first;
        if (beside)
            wefti_buffer_print(t->ctx, out, "%s%s: %s\n", n ? "  " : "", key + n,
                               weft_tune_value(t, trial, a));
    }
}

weft_status weft_tune_write(weft_tune *t, const char *path) {
    weft_tune_look best = *weft_tune_place(t, 0);
    if (best.steps == 0 || !isfinite(best.loss))
        return weft_ctx_fail(t->ctx, WEFT_ERR_NUMERIC,
                             "no trial ended well, expected one for %s", path);
    wefti_buffer out = {0};
    wefti_buffer_print(t->ctx, &out, "# weft tune: trial %d of %d, validation loss ",
                       best.trial, t->halving.n_trials);
    wefti_buffer_short(t->ctx, &out, best.loss);
    wefti_buffer_print(t->ctx, &out, " after %lld steps, mean of %d\n",
                       (long long)best.steps, best.n_seeds);
    for (int a = 0; a < t->space.n_axes; a++) put_section(t, &out, best.trial, a);
    weft_status status = out.status;
    if (status == WEFT_OK) status = wefti_file_write(t->ctx, path, out.bytes, out.n);
    wefti_buffer_fini(t->ctx, &out);
    return status;
}
