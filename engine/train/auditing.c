/* SPDX-License-Identifier: MIT */
/* Whose messages were not those that its state and its rows give (auditing.h). */
#include "train/auditing.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/assert.h"
#include "base/memory.h"
#include "record/metrics.h"

enum { DIGITS = 2 * WEFTI_SENT_BYTES };

void wefti_audit_record(const wefti_rank *r, weft_step_record *record) {
    int64_t step = record->step - r->job->lag.audit;
    if (!r->audit.digests || step <= r->job->from.step) return;
    record->sent = r->audit.digests;
    record->n_sent = r->job->W;
    record->sent_step = step;
}

typedef struct reading {
    weft_ctx *ctx;
    const char *path;
    wefti_audit *audit;
} reading;

static weft_status add_line(void *user, const json_t *object) {
    reading *in = user;
    wefti_audit *a = in->audit;
    const json_t *step = json_object_get(object, "sent_step"),
                 *sent = json_object_get(object, "sent");
    if (!step && !sent) return WEFT_OK;
    int64_t last = a->n > 0 ? a->lines[a->n - 1].step : 0;
    size_t n = json_string_length(sent);
    bool fine = json_is_integer(step) && json_integer_value(step) > last && n > 0 &&
                n % DIGITS == 0 &&
                strspn(json_string_value(sent), "0123456789abcdef") == n;
    if (!fine)
        return weft_ctx_fail(
            in->ctx, WEFT_ERR_FORMAT,
            "%s: \"sent_step\" and \"sent\" after step %lld are not a later "
            "step and %d hexadecimal digits for each rank",
            in->path, (long long)last, DIGITS);
    if (a->n == a->capacity) {
        int64_t more = a->capacity ? 2 * a->capacity : 64;
        WEFT_TRY(wefti_grow(in->ctx, &a->lines, a->capacity, more, sizeof *a->lines,
                            "digests of messages"));
        a->capacity = more;
    }
    wefti_audit_line *line = &a->lines[a->n];
    line->step = json_integer_value(step);
    WEFT_TRY(
        wefti_alloc_n(in->ctx, (int64_t)n + 1, 1, "digests of messages", &line->sent));
    memcpy(line->sent, json_string_value(sent), n + 1);
    a->n++;
    return WEFT_OK;
}

weft_status wefti_audit_read(weft_ctx *ctx, const char *path, wefti_audit *audit) {
    reading in = {ctx, path, audit};
    *audit = (wefti_audit){.node = -1};
    return wefti_metrics_each(ctx, path, add_line, &in);
}

void wefti_audit_end(weft_ctx *ctx, wefti_audit *audit, weft_replay_result *result) {
    result->digests = audit->compared;
    result->wrong_step = audit->step;
    result->wrong_node = audit->node;
    for (int64_t i = 0; i < audit->n; i++) wefti_free(ctx, audit->lines[i].sent);
    wefti_free(ctx, audit->lines);
    *audit = (wefti_audit){.node = -1};
}

weft_status wefti_audit_check(weft_ctx *ctx, const wefti_audit *audit, const char *path,
                              int64_t step) {
    bool known = step == 0;
    if (audit->n == 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "%s has no digests of what the ranks sent; expected those of a "
            "run with run.audit=true",
            path);
    for (int64_t i = 0; i < audit->n; i++) known |= audit->lines[i].step == step;
    if (known) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "%s has no digests of step %lld; it has those of %lld steps from %lld to %lld",
        path, (long long)step, (long long)audit->n, (long long)audit->lines[0].step,
        (long long)audit->lines[audit->n - 1].step);
}

static int64_t begin_at(wefti_views *views, const wefti_saved_layout *saved,
                        int64_t step) {
    int64_t i = views->n_views - 1, rows = 0;
    while (i >= 0 && views->views[i].step > step) i--;
    if (i < 0 || saved->step < 0) return -1;
    wefti_view_line *v = &views->views[i];
    int64_t done = saved->step + 1 - v->step;
    bool starts = v->view == 1 &&
                  !v->shared; /* else its state began by a rule, or hand-over */
    if (done < 0 || (done == 0 && !starts) || v->learners > 0 ||
        v->n_members / v->shards != saved->replicas)
        return -1;
    for (int r = 0; r < v->n_members; r++)
        rows += v->members[r].rows > 0 ? v->members[r].rows : v->rows_per_rank;
    v->step += done;
    v->first_row += done * rows;
    return i;
}

int64_t wefti_audit_begin(wefti_views *views, wefti_saved_layout *saved, int64_t step) {
    int64_t at = begin_at(views, saved, step);
    if (at < 0) saved->step = -1;
    return at;
}

static bool differs(const wefti_audit_line *line, const wefti_rank *r, int rank,
                    int round) {
    char here[17];
    snprintf(here, sizeof here, "%016llx",
             (unsigned long long)r->audit.digests[rank * WEFTI_SENT_ROUNDS + round]);
    return memcmp(here, line->sent + rank * DIGITS + round * 16, 16) != 0;
}

/* Appends the nodes whose messages of a round differ: the first few of them. */
static int name_nodes(wefti_audit *a, const wefti_audit_line *line, const wefti_rank *r,
                      const wefti_view_line *view, int round, char *out, size_t size) {
    int n = 0, ranks = r->job->copies * r->job->S, before = -1;
    size_t used = 0;
    out[0] = '\0';
    for (int rank = 0; rank < r->job->W; rank++) {
        int node = rank / ranks;
        if (node == before || !differs(line, r, rank, round)) continue;
        before = node;
        if (n++ == 0) a->node = node;
        int wrote = snprintf(out + used, size - used, "%s%d (%s)", n > 1 ? ", " : "",
                             node, view->members[rank].host);
        if (wrote > 0 && (size_t)wrote < size - used) used += (size_t)wrote;
    }
    return n;
}

weft_status wefti_audit_compare(wefti_audit *a, const wefti_rank *r, int64_t step,
                                const wefti_view_line *view) {
    while (a->next < a->n && a->lines[a->next].step < step) a->next++;
    if (a->next == a->n || a->lines[a->next].step != step) return WEFT_OK;
    const wefti_audit_line *line = &a->lines[a->next++];
    WEFTI_ASSERT(view->n_members == r->job->W);
    if (strlen(line->sent) != (size_t)r->job->W * DIGITS)
        return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                             "metrics.jsonl has digests of %lld ranks for step %lld, "
                             "views.jsonl says that there were %d",
                             (long long)strlen(line->sent) / DIGITS, (long long)step,
                             r->job->W);
    char nodes[400];
    bool gap = step > a->known + 1;
    a->compared += r->job->W;
    for (int round = 0; round < WEFTI_SENT_ROUNDS; round++) {
        int n = name_nodes(a, line, r, view, round, nodes, sizeof nodes);
        if (n == 0) continue;
        a->step = step;
        if (gap) a->node = -1;
        return weft_ctx_fail(
            r->ctx, WEFT_ERR_NUMERIC,
            "step %lld: what node%s %s sent%s is not what %s state and rows give; %s",
            (long long)step, n > 1 ? "s" : "", nodes, round > 0 ? " in answer" : "",
            n > 1 ? "their" : "its",
            gap ? "steps before it have no digests, and one of them may be the first "
                  "that "
                  "is wrong, so this names nobody"
                : "until then all was right");
    }
    if (!gap) a->known = step;
    return WEFT_OK;
}
