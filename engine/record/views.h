/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"

/* views.jsonl: who took part in a run, and what did not count. Two kinds of lines, one JSON
 * object each (docs/file-formats.md):
 *
 *     view      the members from a step on, who left and who came and why, how long the others
 *               stood still, and all that a replay needs to know of the batch
 *     skipped   of one step of the view before: messages of lost ranks that counted nowhere
 *
 * "step" counts from 1: of a view its first one. A resumed run drops the lines of steps that it
 * does again, as it does with metrics.jsonl.
 *
 * A view names the views before it by its chain, a hash of the chain of the line before and of
 * itself: a process descends from a view if its own views went through that chain. */

enum { WEFTI_VIEWS_MAX_MEMBERS = 4096, WEFTI_VIEWS_TEXT = 200 };

/* What was expected of a change of form: seconds of a step before it, and with it; times as fast
 * as staying, and its range; the rate of the wire. */
enum { WEFTI_EXPECT_WAS, WEFTI_EXPECT_STEP, WEFTI_EXPECT_GAIN, WEFTI_VIEWS_EXPECTED = 6 };

typedef struct wefti_view_member {
    int place;     /* number in the mesh; 0, 1, ... in a run of one process */
    uint64_t name; /* at that place: who comes to it later has another one */
    char host[64];
    bool without;  /* it has no state when the view begins, and gets it from the others */
    int64_t rows;  /* with batch.shares: its sequences per step; 0: not known */
    int64_t micro; /* of a pass, where nodes differ in that; 0: not known */
} wefti_view_member;

/* Somebody who left or came. */
typedef struct wefti_view_change {
    int place;
    char host[64];
    char why[WEFTI_VIEWS_TEXT]; /* empty for who came */
} wefti_view_change;

typedef struct wefti_view_line {
    uint64_t run; /* of this start */
    int64_t view; /* number in it, from 1; not each number has a line, or a step */
    int64_t step;
    double time_s;  /* since 1970 */
    double stall_s; /* of the change, beyond calm steps; NAN: nothing changed */
    int64_t first_row, rows_per_rank, micro;
    int shards, threads;
    char kernels[32];
    bool has_checksum, has_chain; /* chain: older files have none, which counts as 0 */
    uint64_t chain;
    bool
        shared; /* the same members: from here on they have other rows, or another form */
    char form[64]; /* of what crosses the wire, where that may change; "": not known */
    char name[64]; /* the same as users know it (job/form.h); of older lines the form */
    char why[400]; /* it, or rows, change; "": not known */
    double expected[WEFTI_VIEWS_EXPECTED]; /* of that change; zeros: not known */
    bool apart;   /* views before it are in another machine's folder */
    int learners; /* copies of the model, the last ones, that have no state yet */
    int64_t slices,
        from; /* in which it comes to them, and from where on (rank/learners.h) */
    uint64_t
        checksum; /* of the parameters of all who were there, before the first step */
    int n_members, n_lost, n_joined;
    wefti_view_member *members; /* by rank */
    wefti_view_change *lost, *joined;
} wefti_view_line;

/* Whether another form of what crosses the wire begins with it. */
static inline bool wefti_view_changes_form(const wefti_view_line *v) {
    return v->name[0] && v->why[0];
}

/* One message that did not count: channel, receiver and sender (places), bucket, stage. */
typedef struct wefti_view_skip {
    int channel, receiver, sender, bucket, stage;
} wefti_view_skip;

typedef struct wefti_skip_line {
    uint64_t run;
    int64_t view; /* that the step belonged to */
    int64_t step;
    int64_t rows_skipped; /* that counted in nothing */
    int64_t rows_in_part; /* that counted in some tensors only */
    bool complete;        /* else more did not count, and nobody knows what */
    int n;
    wefti_view_skip *list;
} wefti_skip_line;

/* All of a file, in its order: skipped lines stand before the view that follows their own. */
typedef struct wefti_views {
    wefti_view_line *views; /* [n_views] owned, with what they point to */
    int64_t n_views;
    wefti_skip_line *skips; /* [n_skips] owned */
    int64_t n_skips;
} wefti_views;

/* The chain of a line behind one with the chain `before` (0: it is the first). */
uint64_t wefti_views_chain(uint64_t before, const wefti_view_line *line);

/* What stands in place of the first character of a line where views before it are in another
 * machine's folder. */
#define WEFTI_VIEWS_APART "{\"apart\":true,"

/* A line with its newline. */
void wefti_views_put(weft_ctx *ctx, wefti_buffer *out, const wefti_view_line *line);

/* ,"form":...,"name":...,"why":...,"expected":[...], as far as there is any. */
void wefti_views_put_form(weft_ctx *ctx, wefti_buffer *out, const wefti_view_line *v);

/* ,"name":[[place,host,why],...] of those who left or came. */
void wefti_views_put_changes(weft_ctx *ctx, wefti_buffer *out, const char *name,
                             const wefti_view_change *list, int n);

void wefti_views_put_skips(weft_ctx *ctx, wefti_buffer *out, const wefti_skip_line *line);

/* Reads <path>; no file: no views. Lines that are damaged, or contradict themselves, are left out
 * with a warning. On failure nothing is owned. */
weft_status wefti_views_read(weft_ctx *ctx, const char *path,
                             wefti_views *out) WEFT_CHECKED;
void wefti_views_fini(weft_ctx *ctx, wefti_views *views);

/* Whether the file's text has a line of this view (skips: of a step's skipped messages). */
bool wefti_views_has(const wefti_views *views, uint64_t run, int64_t view, int64_t step,
                     bool skips);

/* Fails if a view begins before one that stands in front of it. */
weft_status wefti_views_check(weft_ctx *ctx, const wefti_views *views) WEFT_CHECKED;
