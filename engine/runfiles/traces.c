/* SPDX-License-Identifier: MIT */
/* Timelines of all ranks on one clock.
 *
 * Each machine's monotonic clock has its own origin. The first rank asks every other one
 * for the time, a few times, and uses the quickest answer (Mills, RFC 5905):
 *
 *     first rank   t0 asks ........................ t3 has the answer
 *     other rank        t1 is asked ... t2 answers
 *
 *     their clock - ours = ((t1 - t0) + (t2 - t3)) / 2     within ((t3 - t0) - (t2 - t1)) / 2
 *
 * A difference that is smaller than its error counts as none: processes of one machine
 * have one clock. Then a rank sends a head (how many lines, when its step began, its
 * host) and its lines; all ranks together send at most MOST_LINES, each its earliest
 * ones. Numbers travel as little-endian 64 bits, names as fixed text. */
#define _GNU_SOURCE
#include "runfiles/traces.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "wire/bits.h"

enum {
    ROUNDS = 4,
    HOST_BYTES = 64,
    NAME_BYTES = 16,
    HEAD_BYTES = 2 * 8 + 8 + HOST_BYTES, /* lines of both threads, begin, host */
    LINE_BYTES = NAME_BYTES + 3 * 8,     /* name, index, begin, end */
    MOST_LINES = 100000
};

typedef struct peer_clock {
    double ahead_s, error_s; /* how far another rank's clock is ahead; error bound */
} peer_clock;

/* ---- one clock ---- */

static void learn_clock(peer_clock *clock, double asked_s, double answered_s,
                        const unsigned char *answer) {
    double t1 = wefti_get_f64(answer), t2 = wefti_get_f64(answer + 8);
    double error_s = ((answered_s - asked_s) - (t2 - t1)) / 2;
    if (!(error_s >= 0 && error_s < clock->error_s)) return; /* or not a number */
    clock->error_s = error_s;
    clock->ahead_s = ((t1 - asked_s) + (t2 - answered_s)) / 2;
    if (fabs(clock->ahead_s) <= error_s) clock->ahead_s = 0;
}

/* Asks all others once. asked_s[size]: room for the times of asking. */
static weft_status ask_once(wefti_rank *r, double *asked_s, peer_clock *clocks) {
    wefti_comm *comm = r->comms.control;
    int64_t tag = wefti_rank_control_tag(r);
    unsigned char question[8] = {0};
    for (int peer = 1; peer < comm->size; peer++) {
        asked_s[peer] = wefti_now_s();
        WEFT_TRY(wefti_comm_send(comm, peer, tag, question, sizeof question));
    }
    for (int peer = 1; peer < comm->size; peer++) {
        const void *answer;
        WEFT_TRY(wefti_comm_receive(comm, peer, tag, 16, &answer));
        learn_clock(&clocks[peer], asked_s[peer], comm->arrival_s, answer);
        wefti_comm_release(comm, peer, tag);
    }
    return wefti_comm_await(comm, tag);
}

static weft_status answer_once(wefti_rank *r) {
    wefti_comm *comm = r->comms.control;
    int64_t tag = wefti_rank_control_tag(r);
    unsigned char answer[16];
    const void *question;
    WEFT_TRY(wefti_comm_receive(comm, 0, tag, 8, &question));
    wefti_put_f64(answer, comm->arrival_s);
    wefti_comm_release(comm, 0, tag);
    wefti_put_f64(answer + 8, wefti_now_s());
    WEFT_TRY(wefti_comm_send(comm, 0, tag, answer, sizeof answer));
    return wefti_comm_await(comm, tag);
}

/* ---- what a rank sends ---- */

/* Most lines of a thread that a rank may send. */
static int most_lines(const wefti_rank *r) {
    int share = MOST_LINES / WEFTI_TIMELINE_THREADS / r->comms.control->size;
    return share > 1 ? share : 1;
}

static int lines_of(const wefti_rank *r, int thread) {
    int n = r->timeline->n[thread], most = most_lines(r);
    return n < most ? n : most;
}

static void pack_lines(const wefti_rank *r, int thread, unsigned char *out) {
    for (int i = 0; i < lines_of(r, thread); i++, out += LINE_BYTES) {
        const wefti_timeline_line *line = &r->timeline->lines[thread][i];
        snprintf((char *)out, NAME_BYTES, "%s", line->what);
        wefti_put_u64(out + NAME_BYTES, (uint64_t)line->index);
        wefti_put_f64(out + NAME_BYTES + 8, line->begin_s);
        wefti_put_f64(out + NAME_BYTES + 16, line->end_s);
    }
}

static void pack_head(const wefti_rank *r, unsigned char *head) {
    char host[HOST_BYTES] = "";
    memset(head, 0, HEAD_BYTES);
    for (int t = 0; t < WEFTI_TIMELINE_THREADS; t++)
        wefti_put_u64(head + 8 * t, (uint64_t)lines_of(r, t));
    wefti_put_f64(head + 16, r->timeline->begun_s);
    if (gethostname(host, sizeof host - 1) == 0) memcpy(head + 24, host, sizeof host);
}

static weft_status tell(wefti_rank *r) {
    wefti_comm *comm = r->comms.control;
    unsigned char head[HEAD_BYTES], *lines;
    int n = lines_of(r, 0) + lines_of(r, 1);
    for (int i = 0; i < ROUNDS; i++) WEFT_TRY(answer_once(r));
    int64_t head_tag = wefti_rank_control_tag(r), tag = wefti_rank_control_tag(r);
    WEFT_TRY(wefti_alloc_n(r->ctx, n + 1, LINE_BYTES, "a timeline to send", &lines));
    pack_head(r, head);
    pack_lines(r, WEFTI_TIMELINE_COMPUTE, lines);
    pack_lines(r, WEFTI_TIMELINE_EXCHANGE, lines + (size_t)lines_of(r, 0) * LINE_BYTES);
    weft_status status = wefti_comm_send(comm, 0, head_tag, head, HEAD_BYTES);
    if (status == WEFT_OK)
        status = wefti_comm_send(comm, 0, tag, lines, (int64_t)n * LINE_BYTES + 1);
    if (status == WEFT_OK) status = wefti_comm_await(comm, head_tag);
    if (status == WEFT_OK) status = wefti_comm_await(comm, tag);
    if (status != WEFT_OK) wefti_comm_settle(comm);
    wefti_free(r->ctx, lines);
    return status;
}

/* ---- what the first rank writes ---- */

static void put_line(weft_ctx *ctx, wefti_buffer *out, int thread, bool first,
                     const wefti_timeline_line *line) {
    static const char *const lanes[WEFTI_TIMELINE_THREADS] = {"compute", "exchange"};
    wefti_buffer_print(ctx, out, "%s\n  {\"lane\": \"%s\", \"index\": %d, \"what\": ",
                       first ? "" : ",", lanes[thread], line->index);
    wefti_buffer_json(ctx, out, line->what);
    wefti_buffer_text(ctx, out, ", \"begin_s\": ");
    wefti_buffer_real(ctx, out, line->begin_s);
    wefti_buffer_text(ctx, out, ", \"end_s\": ");
    wefti_buffer_real(ctx, out, line->end_s);
    wefti_buffer_text(ctx, out, "}");
}

static void put_mine(weft_ctx *ctx, wefti_buffer *out, const wefti_timeline *timeline) {
    bool first = true;
    for (int t = 0; t < WEFTI_TIMELINE_THREADS; t++)
        for (int i = 0; i < timeline->n[t]; i++, first = false)
            put_line(ctx, out, t, first, &timeline->lines[t][i]);
}

/* Puts the lines of another rank as they came; a line without valid times is left out. */
static void put_theirs(weft_ctx *ctx, wefti_buffer *out, const unsigned char *bytes,
                       const int64_t n[WEFTI_TIMELINE_THREADS]) {
    bool first = true;
    for (int t = 0; t < WEFTI_TIMELINE_THREADS; t++)
        for (int64_t i = 0; i < n[t]; i++, bytes += LINE_BYTES) {
            char name[NAME_BYTES];
            memcpy(name, bytes, NAME_BYTES);
            name[NAME_BYTES - 1] = '\0';
            wefti_timeline_line line = {
                .what = name,
                .index = (int)(int64_t)wefti_get_u64(bytes + NAME_BYTES),
                .begin_s = wefti_get_f64(bytes + NAME_BYTES + 8),
                .end_s = wefti_get_f64(bytes + NAME_BYTES + 16)};
            if (!(fabs(line.begin_s) < 1e9 && line.end_s < 1e9 &&
                  line.end_s >= line.begin_s))
                continue;
            put_line(ctx, out, t, first, &line);
            first = false;
        }
}

static void put_place(wefti_rank *r, wefti_buffer *out, int rank, const char *host) {
    wefti_buffer_print(r->ctx, out, "\"rank\": %d, \"node\": %d, \"host\": ", rank,
                       rank / (r->job->S * r->job->copies));
    wefti_buffer_json(r->ctx, out, host);
}

/* Receives the head and the lines of a rank and puts them. */
static weft_status take(wefti_rank *r, int peer, const int64_t tags[2],
                        const peer_clock *clock, wefti_buffer *out) {
    wefti_comm *comm = r->comms.control;
    const void *view;
    unsigned char head[HEAD_BYTES];
    char host[HOST_BYTES];
    WEFT_TRY(wefti_comm_receive(comm, peer, tags[0], HEAD_BYTES, &view));
    memcpy(head, view, HEAD_BYTES);
    wefti_comm_release(comm, peer, tags[0]);
    int64_t n[] = {(int64_t)wefti_get_u64(head), (int64_t)wefti_get_u64(head + 8)};
    double shift_s = wefti_get_f64(head + 16) - clock->ahead_s - r->timeline->begun_s;
    int most = most_lines(r);
    if (n[0] < 0 || n[1] < 0 || n[0] > most || n[1] > most || !(fabs(shift_s) < 1e9))
        return weft_ctx_fail(r->ctx, WEFT_ERR_WIRE,
                             "rank %d tells of %lld and %lld lines of its timeline, "
                             "begun %g s after ours; expected 0 to %d of each",
                             peer, (long long)n[0], (long long)n[1], shift_s, most);
    memcpy(host, head + 24, HOST_BYTES);
    host[HOST_BYTES - 1] = '\0';
    wefti_buffer_text(r->ctx, out, peer == 1 ? "\n {" : ",\n {");
    put_place(r, out, peer, host);
    wefti_buffer_text(r->ctx, out, ", \"begun_s\": ");
    wefti_buffer_real(r->ctx, out, shift_s);
    wefti_buffer_text(r->ctx, out, ", \"clock_error_s\": ");
    wefti_buffer_real(r->ctx, out, clock->error_s);
    wefti_buffer_text(r->ctx, out, ", \"timeline\": [");
    WEFT_TRY(
        wefti_comm_receive(comm, peer, tags[1], (n[0] + n[1]) * LINE_BYTES + 1, &view));
    put_theirs(r->ctx, out, view, n);
    wefti_comm_release(comm, peer, tags[1]);
    wefti_buffer_text(r->ctx, out, "]}");
    return out->status;
}

static weft_status collect(wefti_rank *r, double *asked_s, peer_clock *clocks,
                           wefti_buffer *out) {
    char host[HOST_BYTES] = "";
    int size = r->comms.control->size;
    for (int i = 0; i < size; i++) clocks[i].error_s = INFINITY;
    for (int i = 0; i < ROUNDS; i++) WEFT_TRY(ask_once(r, asked_s, clocks));
    const int64_t head_tag = wefti_rank_control_tag(r), tag = wefti_rank_control_tag(r);
    const int64_t tags[] = {head_tag, tag};
    wefti_buffer_print(r->ctx, out, "{\"version\": 1, \"step\": %lld, ",
                       (long long)r->timeline->step + 1);
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    put_place(r, out, 0, host);
    wefti_buffer_text(r->ctx, out, ", \"timeline\": [");
    put_mine(r->ctx, out, r->timeline);
    wefti_buffer_text(r->ctx, out, "],\n \"others\": [");
    for (int peer = 1; peer < size; peer++)
        WEFT_TRY(take(r, peer, tags, &clocks[peer], out));
    wefti_buffer_text(r->ctx, out, "]}\n");
    return out->status;
}

static weft_status write_file(wefti_rank *r, const char *folder, wefti_buffer *out) {
    char path[PATH_MAX];
    WEFT_TRY(wefti_file_path(r->ctx, folder, "timeline.json", path));
    if (wefti_file_write(r->ctx, path, out->bytes, out->n) == WEFT_OK) return WEFT_OK;
    weft_ctx_log(r->ctx, WEFT_LOG_WARN, "%s", weft_ctx_message(r->ctx));
    weft_ctx_clear(r->ctx);
    return WEFT_OK;
}

static weft_status lead(wefti_rank *r, const char *folder) {
    peer_clock *clocks;
    double *asked_s = NULL;
    wefti_buffer out = {0};
    int size = r->comms.control->size;
    WEFT_TRY(wefti_alloc_n(r->ctx, size, sizeof *clocks, "clocks of ranks", &clocks));
    weft_status status = wefti_alloc_n(r->ctx, size, sizeof *asked_s, "clocks of ranks",
                                       &asked_s);
    if (status == WEFT_OK) status = collect(r, asked_s, clocks, &out);
    if (status == WEFT_OK) status = write_file(r, folder, &out);
    wefti_buffer_fini(r->ctx, &out);
    WEFTI_FREE(r->ctx, asked_s, clocks);
    return status;
}

weft_status wefti_traces_write(wefti_rank *r, const char *folder) {
    wefti_timeline *timeline = r->timeline;
    if (!timeline || !timeline->kept || timeline->written) return WEFT_OK;
    timeline->written = true;
    return r->rank == 0 ? lead(r, folder) : tell(r);
}
