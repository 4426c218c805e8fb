/* SPDX-License-Identifier: MIT */
/* A line per view, written when its first step begins. Before that the view may still be
 * replaced by the next one without a step. Then it leaves no line, unless a rank that had no
 * state got it there from the others: that is part of what the run computes.
 *
 *     collect   each rank, between two worlds    messages that did not count here
 *     replace   the next terms are there      the line of a world without steps, or none
 *     gather    all ranks                        these messages of all, without duplicates
 *     plan      the world is known               its line, not written yet
 *     write     the first step begins            lines of skipped messages, then of the view
 *     open      a new first rank                 lines kept here that the file lacks
 *
 * What was gathered for a world without a line stays in the list, because the rank that it
 * came from may be lost since then.
 *
 * The stall of a change is the time by which its last two steps exceeded a calm one, plus
 * all the time since they ended. */
#define _GNU_SOURCE
#include "runfiles/viewlog.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/stats.h"
#include "job/form.h"
#include "rank/learners.h"
#include "record/append.h"
#include "record/metrics.h"

enum { CALM_STEPS = 16, EVENT_STEPS = 2, MAX_MISSED = 1 << 20 };

/* Half of what is kept is dropped when it is more: what a lost writer had not written is much
 * less (WEFTI_METRICS_ROOM). */
enum { KEPT_BYTES = 16 << 20 };

/* Where a line lies in `text`, and what it is. */
typedef struct kept_line {
    int64_t begin, n_bytes;
    uint64_t run;
    int64_t view, step;
    bool skips;
} kept_line;

struct wefti_viewlog {
    wefti_buffer text; /* the last lines that were made in this process */
    kept_line *lines;  /* [n_lines] */
    int64_t n_lines;
    wefti_append file;
    bool is_open;
    bool is_apart;        /* the file lacks views between its last line and the next */
    wefti_view_line last; /* members owned; n_members 0: no line yet */
    wefti_view_line next; /* planned; members owned; n_members 0: none */
    int n_buckets, next_buckets; /* of their worlds */
    /* several nodes in each, and each node has rows of its own */
    bool has_sites, next_has_sites;
    weft_mesh *next_mesh; /* borrowed */
    wefti_missed *missed; /* [n_missed] since the last line's view began */
    int64_t n_missed;
    bool complete, has_checksum;
    uint64_t checksum;
    uint64_t chain;  /* of the last line */
    uint64_t *known; /* [n_known] owned: chains of the own views */
    int64_t n_known;
    double took_s[CALM_STEPS]; /* ring of the last steps */
    int64_t n_steps;
    double ended_s; /* when the last step ended */
};

weft_status wefti_viewlog_create(weft_ctx *ctx, wefti_viewlog **out) {
    WEFT_TRY(wefti_alloc(ctx, sizeof **out, "the log of views", out));
    (*out)->complete = true;
    return WEFT_OK;
}

weft_status wefti_viewlog_close(weft_ctx *ctx, wefti_viewlog *log) {
    if (!log) return WEFT_OK;
    weft_status status = log->is_open ? wefti_append_fini(ctx, &log->file) : WEFT_OK;
    wefti_buffer_fini(ctx, &log->text);
    WEFTI_FREE(ctx, log->lines, log->last.members, log->next.members, log->missed,
               log->known, log);
    return status;
}

/* --- the chain --- */

uint64_t wefti_viewlog_chain(const wefti_viewlog *log) { return log->chain; }

bool wefti_viewlog_knows(const wefti_viewlog *log, uint64_t chain) {
    for (int64_t i = log->n_known - 1; i >= 0; i--)
        if (log->known[i] == chain) return true;
    return false;
}

static weft_status know(weft_ctx *ctx, wefti_viewlog *log, uint64_t chain) {
    if (wefti_viewlog_knows(log, chain)) return WEFT_OK;
    WEFT_TRY(wefti_grow(ctx, &log->known, log->n_known, log->n_known + 1,
                        sizeof *log->known, "the log of views"));
    log->known[log->n_known++] = chain;
    return WEFT_OK;
}

weft_status wefti_viewlog_follow(weft_ctx *ctx, wefti_viewlog *log, uint64_t chain) {
    log->chain = chain;
    return know(ctx, log, chain);
}

void wefti_viewlog_step(wefti_viewlog *log, double step_s) {
    if (!log) return;
    log->took_s[log->n_steps++ % CALM_STEPS] = step_s;
    log->ended_s = wefti_now_s();
}

/* NAN if too few steps were taken. */
static double stall_of(const wefti_viewlog *log) {
    double calm[CALM_STEPS], stall_s = wefti_now_s() - log->ended_s;
    int64_t n = log->n_steps < CALM_STEPS ? log->n_steps : CALM_STEPS;
    int n_calm = 0;
    for (int64_t i = EVENT_STEPS; i < n; i++)
        calm[n_calm++] = log->took_s[(log->n_steps - 1 - i) % CALM_STEPS];
    if (n_calm == 0) return NAN;
    double median_s = wefti_median(calm, n_calm);
    for (int64_t i = 0; i < EVENT_STEPS; i++) {
        double over_s = log->took_s[(log->n_steps - 1 - i) % CALM_STEPS] - median_s;
        if (over_s > 0) stall_s += over_s;
    }
    return stall_s;
}

/* --- the file --- */

static weft_status append(weft_ctx *ctx, wefti_viewlog *log, const kept_line *line) {
    static const char mark[] = WEFTI_VIEWS_APART;
    bool apart = log->is_apart && !line->skips;
    log->is_apart = log->is_apart && !apart;
    if (apart) WEFT_TRY(wefti_append_write(ctx, &log->file, mark, sizeof mark - 1));
    return wefti_append_write(ctx, &log->file, log->text.bytes + line->begin + apart,
                              line->n_bytes - apart);
}

/* A disk that refuses the lines is no reason to stand still: they wait. */
static weft_status sync_if_can(weft_ctx *ctx, wefti_viewlog *log) {
    weft_status status = wefti_append_sync(ctx, &log->file);
    if (status != WEFT_ERR_FILE) return status;
    weft_ctx_clear(ctx);
    return WEFT_OK;
}

/* Appends the lines of this run that the file lacks; a run that begins follows the last
 * line. */
static weft_status complete(weft_ctx *ctx, wefti_viewlog *log, const char *path) {
    wefti_views views;
    WEFT_TRY(wefti_views_read(ctx, path, &views));
    weft_status status = WEFT_OK;
    if (log->n_known == 0 && views.n_views > 0)
        status = wefti_viewlog_follow(ctx, log, views.views[views.n_views - 1].chain);
    log->is_apart = views.n_views > 0 &&
                    !wefti_viewlog_knows(log, views.views[views.n_views - 1].chain);
    for (int64_t i = 0; i < log->n_lines && status == WEFT_OK; i++) {
        const kept_line *line = &log->lines[i];
        if (!wefti_views_has(&views, line->run, line->view, line->step, line->skips))
            status = append(ctx, log, line);
    }
    wefti_views_fini(ctx, &views);
    return status == WEFT_OK ? sync_if_can(ctx, log) : status;
}

weft_status wefti_viewlog_open(weft_ctx *ctx, wefti_viewlog *log, const char *folder,
                               int64_t steps_done) {
    char path[PATH_MAX];
    bool exists;
    wefti_metrics *older;
    if (!log || log->is_open) return WEFT_OK;
    if (snprintf(path, sizeof path, "%s/views.jsonl", folder) >= PATH_MAX)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", folder);
    WEFT_TRY(wefti_metrics_open(ctx, path, steps_done > 0 ? steps_done + 1 : 0, &older));
    WEFT_TRY(wefti_metrics_close(ctx, older)); /* this drops later lines */
    WEFT_TRY(wefti_append_init(ctx, path, false, &exists, &log->file));
    log->is_open = true;
    wefti_append_wait(&log->file, WEFTI_METRICS_ROOM);
    return complete(ctx, log, path);
}

/* --- what did not count --- */

static int64_t step_of(const wefti_missed *m) {
    return m->channel == WEFTI_GROUP_WORLD * 8 ? m->tag : m->tag >> 24;
}

static wefti_view_skip skip_of(const wefti_missed *m) {
    bool status = m->channel == WEFTI_GROUP_WORLD * 8;
    return (wefti_view_skip){m->channel, m->receiver, m->sender,
                             status ? 0 : (int)(m->tag >> 4 & ((1 << 20) - 1)),
                             status ? 0 : (int)(m->tag & 15)};
}

static int compare(const void *a, const void *b) {
    const wefti_missed *x = a, *y = b;
    int64_t pairs[][2] = {{step_of(x), step_of(y)},
                          {x->channel, y->channel},
                          {x->tag, y->tag},
                          {x->receiver, y->receiver},
                          {x->sender, y->sender}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i][0] != pairs[i][1]) return pairs[i][0] < pairs[i][1] ? -1 : 1;
    return 0;
}

/* Keeps those of n messages that are settled, each once, in order. Returns their
 * number. */
static int64_t tidy(wefti_missed *list, int64_t n) {
    int64_t kept = 0, once = 0;
    for (int64_t i = 0; i < n; i++)
        if (list[i].settled == 1) list[kept++] = list[i];
    qsort(list, (size_t)kept, sizeof *list, compare);
    for (int64_t i = 0; i < kept; i++)
        if (once == 0 || compare(&list[once - 1], &list[i]) != 0) list[once++] = list[i];
    return once;
}

weft_status wefti_viewlog_collect(weft_ctx *ctx, wefti_viewlog *log, weft_mesh *mesh,
                                  int64_t *n) {
    wefti_missed *mine;
    int count;
    WEFT_TRY(wefti_elastic_missed(ctx, mesh, &mine, &count));
    int64_t more = count > 0 ? count : 0;
    weft_status status = wefti_grow(ctx, &log->missed, log->n_missed,
                                    log->n_missed + more, sizeof *mine,
                                    "messages that do not count");
    if (status == WEFT_OK && more > 0)
        memcpy(log->missed + log->n_missed, mine, (size_t)more * sizeof *mine);
    wefti_free(ctx, mine);
    WEFT_TRY(status);
    log->n_missed = tidy(log->missed, log->n_missed + more);
    log->complete = log->complete && count >= 0;
    *n = log->complete ? log->n_missed : -1;
    return WEFT_OK;
}

/* Gathers the lists of all ranks, padded to the length of the longest; padding is not
 * settled. */
static weft_status gather_lists(weft_ctx *ctx, wefti_viewlog *log, wefti_bootstrap *b,
                                int64_t longest) {
    int64_t n = longest * b->comm->size, own = log->n_missed;
    wefti_missed *all, *mine;
    WEFT_TRY(
        wefti_alloc_n(ctx, longest, sizeof *mine, "messages that do not count", &mine));
    WEFTI_TRY_OR(wefti_alloc_n(ctx, n, sizeof *all, "messages that do not count", &all),
                 wefti_free(ctx, mine));
    if (own > longest) own = longest; /* the list is known to be incomplete */
    if (own > 0) memcpy(mine, log->missed, (size_t)own * sizeof *mine);
    weft_status status = wefti_comm_all_gather(b->comm, b->n_messages++, mine,
                                               longest * (int64_t)sizeof *mine, all);
    wefti_free(ctx, mine);
    if (status != WEFT_OK) {
        wefti_free(ctx, all);
        return status;
    }
    wefti_free(ctx, log->missed);
    log->missed = all;
    log->n_missed = tidy(all, n);
    return WEFT_OK;
}

weft_status wefti_viewlog_gather(weft_ctx *ctx, wefti_viewlog *log, wefti_bootstrap *b,
                                 const int64_t *n_missed, uint64_t checksum) {
    int64_t longest = 0;
    log->has_checksum = true;
    log->checksum = checksum;
    for (int r = 0; r < b->comm->size; r++) {
        if (n_missed[r] > longest) longest = n_missed[r];
        if (n_missed[r] < 0) log->complete = false;
    }
    if (longest > MAX_MISSED)
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                             "a rank says that it did without %lld messages, expected at "
                             "most %d",
                             (long long)longest, (int)MAX_MISSED);
    return longest > 0 ? gather_lists(ctx, log, b, longest) : WEFT_OK;
}

/* --- lines --- */

/* Drops the older half of the text. */
static void drop_old(wefti_viewlog *log) {
    int64_t from = 0, n = 0;
    while (from < log->n_lines && log->lines[from].begin < log->text.n / 2) from++;
    int64_t begin = from < log->n_lines ? log->lines[from].begin : log->text.n;
    log->text.n -= begin;
    memmove(log->text.bytes, log->text.bytes + begin, (size_t)log->text.n);
    for (; from < log->n_lines; from++, n++) {
        log->lines[n] = log->lines[from];
        log->lines[n].begin -= begin;
    }
    log->n_lines = n;
}

/* Keeps the text from `begin` on as a line, and writes it if this process has the file
 * open. */
static weft_status keep(weft_ctx *ctx, wefti_viewlog *log, const kept_line *line) {
    WEFT_TRY(log->text.status);
    WEFT_TRY(wefti_grow(ctx, &log->lines, log->n_lines, log->n_lines + 1,
                        sizeof *log->lines, "the log of views"));
    kept_line *last = &log->lines[log->n_lines++];
    *last = *line;
    last->n_bytes = log->text.n - line->begin;
    weft_status status = log->is_open ? append(ctx, log, last) : WEFT_OK;
    if (log->text.n > KEPT_BYTES) drop_old(log);
    return status;
}

/* How many buckets that `sender` sent in a step no rank received in full. */
static int buckets_missed(const wefti_viewlog *log, const wefti_missed *list, int64_t n,
                          int sender) {
    int count = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t bucket = list[i].tag >> 4;
        bool first = list[i].channel != WEFTI_GROUP_WORLD * 8 && list[i].tag % 2 == 0;
        if (log->has_sites) first = first && list[i].channel == WEFTI_GROUP_REPLICA * 8;
        if (list[i].sender != sender || !first || bucket == last) continue;
        last = bucket;
        count++;
    }
    return count;
}

/* Counts the rows of the lost ranks in a step: all rows of a rank, or rows that are
 * missing for some tensors only. */
static void count_rows(const wefti_viewlog *log, const wefti_missed *list, int64_t n,
                       wefti_skip_line *line) {
    for (int i = 0; i < log->last.n_members; i++) {
        int missed = buckets_missed(log, list, n, log->last.members[i].place);
        int64_t rows = log->last.members[i].rows;
        if (rows == 0) rows = log->last.rows_per_rank;
        if (missed >= log->n_buckets)
            line->rows_skipped += rows;
        else if (missed > 0)
            line->rows_in_part += rows;
    }
}

/* The line of one step. */
static weft_status put_skips(weft_ctx *ctx, wefti_viewlog *log, const wefti_missed *list,
                             int64_t n, int64_t step) {
    wefti_skip_line line = {.run = log->last.run,
                            .view = log->last.view,
                            .step = step + 1,
                            .complete = log->complete,
                            .n = (int)n};
    kept_line place = {.begin = log->text.n,
                       .run = line.run,
                       .view = line.view,
                       .step = line.step,
                       .skips = true};
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *line.list, "the log of views", &line.list));
    for (int64_t i = 0; i < n; i++) line.list[i] = skip_of(&list[i]);
    count_rows(log, list, n, &line);
    wefti_views_put_skips(ctx, &log->text, &line);
    wefti_free(ctx, line.list);
    return keep(ctx, log, &place);
}

static weft_status put_all_skips(weft_ctx *ctx, wefti_viewlog *log, int64_t step) {
    const wefti_missed *list = log->missed;
    if (log->last.n_members == 0) return WEFT_OK; /* a joiner's first view */
    for (int64_t i = 0, n; i < log->n_missed; i += n) {
        for (n = 1; i + n < log->n_missed; n++)
            if (step_of(&list[i + n]) != step_of(&list[i])) break;
        WEFT_TRY(put_skips(ctx, log, list + i, n, step_of(&list[i])));
    }
    if (log->complete) return WEFT_OK;
    return put_skips(ctx, log, list, 0, step - 1);
}

static bool is_member(const wefti_view_line *line, const wefti_view_member *who) {
    for (int i = 0; i < line->n_members; i++)
        if (line->members[i].place == who->place && line->members[i].name == who->name)
            return true;
    return false;
}

/* Members of `from` that are not in `without`; with a mesh (not NULL) also why they
 * left. */
static weft_status differ(weft_ctx *ctx, weft_mesh *mesh, const wefti_view_line *from,
                          const wefti_view_line *without, wefti_view_change **out,
                          int *n) {
    *n = 0;
    WEFT_TRY(wefti_alloc_n(ctx, from->n_members, sizeof **out, "the log of views", out));
    for (int i = 0; i < from->n_members; i++) {
        const wefti_view_member *m = &from->members[i];
        if (is_member(without, m)) continue;
        wefti_view_change *change = &(*out)[(*n)++];
        change->place = m->place;
        memcpy(change->host, m->host, sizeof change->host);
        if (mesh && mesh->elastic)
            wefti_elastic_why(mesh, m->place, change->why, sizeof change->why);
    }
    return WEFT_OK;
}

static weft_status name_members(weft_ctx *ctx, const wefti_viewlog_entry *e,
                                wefti_view_line *line) {
    line->n_members = e->job->W;
    WEFT_TRY(wefti_alloc_n(ctx, line->n_members, sizeof *line->members,
                           "the log of views", &line->members));
    for (int r = 0; r < line->n_members; r++) {
        wefti_view_member *m = &line->members[r];
        m->place = r;
        int64_t own = wefti_job_micro(e->job, r / e->job->S);
        if (e->job->batch.rows) m->rows = wefti_job_rows(e->job, r / e->job->S);
        if (e->job->batch.micros) m->micro = own < line->micro ? own : line->micro;
        if (!e->mesh) {
            gethostname(m->host, sizeof m->host - 1);
            continue;
        }
        if (e->mesh->elastic) wefti_elastic_who(e->mesh, r, &m->place, &m->name);
        snprintf(m->host, sizeof m->host, "%s", weft_mesh_host_of(e->mesh, m->place));
    }
    return WEFT_OK;
}

static wefti_view_line line_of(const wefti_viewlog *log, const wefti_viewlog_entry *e) {
    const wefti_job *job = e->job;
    wefti_view_line line = {
        .run = e->run,
        .view = e->view,
        .step = (job->from.step < e->done ? job->from.step : e->done) + 1,
        .first_row = job->from.row,
        .rows_per_rank = job->batch.per_rank,
        .micro = job->B,
        .shards = job->S,
        .threads = job->run.threads,
        .shared = e->shared,
        .has_checksum = log->has_checksum,
        .checksum = log->checksum};
    wefti_form form;
    if (e->shared) line.run = log->last.run, line.view = log->last.view;
    snprintf(line.kernels, sizeof line.kernels, "%s", job->pass_kernels->name);
    if (job->run.follows && !wefti_form_of(job->config, &form)) {
        wefti_form_write(&form, line.form);
        wefti_form_name(&form, line.name);
    }
    if (e->why) snprintf(line.why, sizeof line.why, "%s", e->why);
    if (e->expected) memcpy(line.expected, e->expected, sizeof line.expected);
    if (e->learners && e->learners->n > 0 && e->learners->slices > 0) {
        line.learners = e->learners->n;
        line.slices = e->learners->slices;
        line.from = e->learners->from;
    }
    return line;
}

static weft_status count_buckets(weft_ctx *ctx, const wefti_job *job, int *n) {
    wefti_arrangement *a;
    WEFT_TRY(wefti_arrangement_create(ctx, job, 0, &a));
    *n = a->n_buckets;
    wefti_arrangement_destroy(ctx, a);
    return WEFT_OK;
}

weft_status wefti_viewlog_plan(weft_ctx *ctx, wefti_viewlog *log,
                               const wefti_viewlog_entry *entry) {
    if (!log) return WEFT_OK;
    wefti_free(ctx, log->next.members);
    log->next = (wefti_view_line){0};
    wefti_view_line line = line_of(log, entry);
    WEFT_TRY(count_buckets(ctx, entry->job, &log->next_buckets));
    weft_status status = name_members(ctx, entry, &line);
    if (status != WEFT_OK) {
        wefti_free(ctx, line.members);
        return status;
    }
    for (int r = 0; r < line.n_members && entry->has; r++)
        line.members[r].without = !entry->has[r];
    WEFTI_TRY_OR(know(ctx, log, wefti_views_chain(log->chain, &line)),
                 wefti_free(ctx, line.members));
    log->next_has_sites = wefti_job_has_sites(entry->job) &&
                          entry->job->site.replicas > 1;
    log->next_mesh = entry->mesh;
    log->next = line;
    return WEFT_OK;
}

weft_status wefti_viewlog_put(weft_ctx *ctx, wefti_viewlog *log, wefti_view_line *line) {
    kept_line place = {.run = line->run, .view = line->view, .step = line->step};
    if (log->last.n_members > 0 && !line->shared) {
        WEFT_TRY(
            differ(ctx, log->next_mesh, &log->last, line, &line->lost, &line->n_lost));
        WEFT_TRY(differ(ctx, NULL, line, &log->last, &line->joined, &line->n_joined));
    }
    place.begin = log->text.n;
    line->has_chain = true;
    line->chain = wefti_views_chain(log->chain, line);
    WEFT_TRY(wefti_viewlog_follow(ctx, log, line->chain));
    wefti_views_put(ctx, &log->text, line);
    return keep(ctx, log, &place);
}

/* Writes the planned line. A world without steps has no stall of its own: the next line's
 * goes up to the next step. */
static weft_status put_next(weft_ctx *ctx, wefti_viewlog *log, bool has_steps) {
    wefti_view_line *line = &log->next;
    if (line->n_members == 0) return WEFT_OK;
    line->time_s = wefti_unix_now_s();
    bool stalls = has_steps && log->last.n_members > 0 && !line->shared;
    line->stall_s = stalls ? stall_of(log) : NAN;
    WEFT_TRY(put_all_skips(ctx, log, line->step - 1));
    weft_status status = wefti_viewlog_put(ctx, log, line);
    WEFTI_FREE(ctx, line->lost, line->joined);
    line->lost = line->joined = NULL;
    WEFT_TRY(status);
    wefti_free(ctx, log->last.members);
    log->last = *line;
    *line = (wefti_view_line){0};
    log->n_missed = 0;
    log->complete = true;
    log->has_checksum = false;
    log->has_sites = log->next_has_sites;
    log->n_buckets = log->next_buckets;
    return log->is_open ? sync_if_can(ctx, log) : WEFT_OK;
}

weft_status wefti_viewlog_write(weft_ctx *ctx, wefti_viewlog *log) {
    return log ? put_next(ctx, log, true) : WEFT_OK;
}

weft_status wefti_viewlog_replace(weft_ctx *ctx, wefti_viewlog *log, weft_mesh *mesh,
                                  const bool *has, int n) {
    const wefti_view_line *line = &log->next;
    bool gave = false;
    for (int r = 0; r < n; r++) {
        wefti_view_member who = {0};
        wefti_elastic_who(mesh, r, &who.place, &who.name);
        for (int i = 0; i < line->n_members && has[r]; i++)
            gave = gave ||
                   (line->members[i].without && line->members[i].place == who.place &&
                    line->members[i].name == who.name);
    }
    if (gave) {
        wefti_elastic_forget_missed(mesh); /* they belong before this line */
        return put_next(ctx, log, false);
    }
    wefti_free(ctx, log->next.members);
    log->next = (wefti_view_line){0};
    return WEFT_OK;
}
