/* SPDX-License-Identifier: MIT */
/* The witness: callers (callers.h limits what strangers can do), a table of votes
 * (member/votes.h), and the file that preserves it across restarts.
 *
 *     card -> judge -> NEW: a line at the file's end, synced -> give -> answer
 *                      else: answer
 *
 * The file is text: "weft-witness 1", then a line "run view chain claim" for each vote, in
 * the order in which votes were given. An incomplete last line was never answered, and is
 * cut off. Any other invalid line means that the file was changed, and the witness does not
 * start: a vote that it does not know could be given twice. The file is locked while it is
 * in use. */
#define _GNU_SOURCE
#include "base/sized.h"
#include "start/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "start/callers.h"
#include "net/socket.h"

enum { WITNESS_VERSION = 1, HOST_AT = 44, MAX_RANK = 1 << 20, LINE_BYTES = 96 };
static const char magic[4] = {'w', 'e', 'f', 'W'};
static const char head_line[] = "weft-witness 1\n";
static const double look_s = 0.5; /* how often silent callers are checked */

struct weft_witness {
    weft_ctx *ctx; /* borrowed: for the log */
    wefti_tls_context *tls;
    int listener, file;
    int64_t file_bytes;
    char *path; /* owned */
    wefti_votes votes;
    wefti_callers callers;
};

/* --- cards --- */

void wefti_witness_card_write(const wefti_witness_card *card, unsigned char *bytes) {
    memset(bytes, 0, WEFTI_CARD_BYTES);
    memcpy(bytes, magic, sizeof magic);
    wefti_put_u32(bytes + 4, WITNESS_VERSION);
    wefti_put_u64(bytes + 8, card->vote.run);
    wefti_put_u64(bytes + 16, (uint64_t)card->vote.view);
    wefti_put_u64(bytes + 24, card->vote.chain);
    wefti_put_u64(bytes + 32, card->vote.claim);
    wefti_put_u32(bytes + 40, (uint32_t)card->rank);
    memcpy(bytes + HOST_AT, card->host, sizeof card->host - 1);
}

bool wefti_witness_card_read(const unsigned char *bytes, wefti_witness_card *out) {
    uint64_t view = wefti_get_u64(bytes + 16);
    uint32_t rank = wefti_get_u32(bytes + 40);
    *out = (wefti_witness_card){.vote = {.run = wefti_get_u64(bytes + 8),
                                         .view = (int64_t)(view & INT64_MAX),
                                         .chain = wefti_get_u64(bytes + 24),
                                         .claim = wefti_get_u64(bytes + 32)},
                                .rank = (int)(rank & INT32_MAX)};
    memcpy(out->host, bytes + HOST_AT, sizeof out->host - 1);
    wefti_text_plain(out->host);
    return memcmp(bytes, magic, sizeof magic) == 0 &&
           wefti_get_u32(bytes + 4) == WITNESS_VERSION && view <= INT64_MAX &&
           rank < MAX_RANK;
}

/* --- the file --- */

static weft_status fail_file(weft_ctx *ctx, const char *verb, const char *path) {
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not %s the witness's votes %s: %s",
                         verb, path, strerror(errno));
}

/* Parses a whole line; false: it is not a vote. */
static bool read_line(const char *line, wefti_vote *out) {
    int n = 0;
    char form[LINE_BYTES];
    *out = (wefti_vote){0};
    if (sscanf(line, "%" SCNx64 " %" SCNd64 " %" SCNx64 " %" SCNx64 "%n", &out->run,
               &out->view, &out->chain, &out->claim, &n) != 4)
        return false;
    snprintf(form, sizeof form,
             "%016" PRIx64 " %" PRId64 " %016" PRIx64 " %016" PRIx64 "\n", out->run,
             out->view, out->chain, out->claim);
    return strcmp(form, line) == 0 && out->view > 0 && out->claim != 0;
}

/* Reads the lines after the first one. */
static weft_status read_votes(weft_ctx *ctx, weft_witness *w, FILE *in) {
    char line[LINE_BYTES];
    for (int number = 2; fgets(line, sizeof line, in); number++) {
        wefti_vote vote;
        bool whole = strchr(line, '\n') != NULL;
        if (!whole && feof(in)) return WEFT_OK; /* it was never answered */
        if (!whole || !read_line(line, &vote))
            return weft_ctx_fail(
                ctx, WEFT_ERR_FORMAT,
                "%s: line %d is not a vote, expected run, view, chain and "
                "claim as weft witness writes them",
                w->path, number);
        if (wefti_votes_judge(&w->votes, &vote) != WEFTI_VOTE_NEW)
            return weft_ctx_fail(
                ctx, WEFT_ERR_FORMAT,
                "%s: line %d gives a vote that was given before, or is one "
                "run more than %d",
                w->path, number, (int)WEFTI_VOTES_RUNS);
        wefti_votes_give(&w->votes, &vote);
        w->file_bytes += (int64_t)strlen(line);
    }
    return ferror(in) ? fail_file(ctx, "read", w->path) : WEFT_OK;
}

/* Appends text permanently, or nothing. */
static bool append(weft_witness *w, const char *text) {
    size_t n = strlen(text);
    ssize_t got = pwrite(w->file, text, n, (off_t)w->file_bytes);
    if (got == (ssize_t)n && wefti_file_flush(w->file)) {
        w->file_bytes += (int64_t)n;
        return true;
    }
    int error = got >= 0 && got < (ssize_t)n ? ENOSPC : errno;
    (void)!ftruncate(w->file, (off_t)w->file_bytes);
    errno = error;
    return false;
}

static weft_status begin_file(weft_ctx *ctx, weft_witness *w) {
    if (!append(w, head_line)) return fail_file(ctx, "begin", w->path);
    return wefti_file_sync_parent(ctx, w->path); /* its name has to last, too */
}

static weft_status read_file(weft_ctx *ctx, weft_witness *w) {
    char first[sizeof head_line + 1] = "";
    int copy = dup(w->file);
    FILE *in = copy < 0 ? NULL : fdopen(copy, "r");
    if (!in) return fail_file(ctx, "read", w->path);
    bool has_head = fgets(first, sizeof first, in) != NULL;
    weft_status status = WEFT_OK;
    if (has_head && strcmp(first, head_line) == 0) {
        w->file_bytes = (int64_t)strlen(head_line);
        status = read_votes(ctx, w, in);
    } else if (has_head && strncmp(first, head_line, strlen(first)) != 0) {
        status = weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "%s is no file of a witness's votes, expected \"%.*s\" in its "
            "first line",
            w->path, (int)strlen(head_line) - 1, head_line);
    }
    (void)fclose(in);
    return status;
}

static weft_status open_file(weft_ctx *ctx, weft_witness *w) {
    struct stat info;
    w->file = open(w->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (w->file < 0 || fstat(w->file, &info) != 0) return fail_file(ctx, "open", w->path);
    if (!S_ISREG(info.st_mode))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "the witness's votes %s are not in a file", w->path);
    if (flock(w->file, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? weft_ctx_fail(
                         ctx, WEFT_ERR_FILE,
                         "another witness uses the votes %s; expected a file for "
                         "each",
                         w->path)
                   : fail_file(ctx, "lock", w->path);
    WEFT_TRY(read_file(ctx, w));
    if (ftruncate(w->file, (off_t)w->file_bytes) != 0)
        return fail_file(ctx, "mend", w->path);
    return w->file_bytes == 0 ? begin_file(ctx, w) : WEFT_OK;
}

/* --- answers --- */

static wefti_witness_answer give(weft_witness *w, const wefti_witness_card *card) {
    char line[LINE_BYTES];
    const wefti_vote *v = &card->vote;
    snprintf(line, sizeof line,
             "%016" PRIx64 " %" PRId64 " %016" PRIx64 " %016" PRIx64 "\n", v->run,
             v->view, v->chain, v->claim);
    if (!append(w, line)) {
        weft_ctx_log(
            w->ctx, WEFT_LOG_WARN,
            "a vote could not be written to %s (%s), and was not given to rank %d "
            "(host %s)",
            w->path, strerror(errno), card->rank, card->host);
        return WEFTI_WITNESS_CAN_NOT;
    }
    wefti_votes_give(&w->votes, v);
    weft_ctx_log(w->ctx, WEFT_LOG_INFO,
                 "run %016" PRIx64 " is cut: the vote of its view %" PRId64
                 " is given to rank %d (host %s) and those whom it hears",
                 v->run, v->view, card->rank, card->host);
    return WEFTI_WITNESS_GIVES;
}

static wefti_witness_answer answer_to(weft_witness *w, const wefti_witness_card *card) {
    if (card->vote.claim == 0) return WEFTI_WITNESS_IS_HERE;
    if (card->vote.view == 0) return WEFTI_WITNESS_REFUSES;
    switch (wefti_votes_judge(&w->votes, &card->vote)) {
    case WEFTI_VOTE_NEW: return give(w, card);
    case WEFTI_VOTE_GIVEN: return WEFTI_WITNESS_GIVES;
    case WEFTI_VOTE_FULL: return WEFTI_WITNESS_CAN_NOT;
    default: break;
    }
    weft_ctx_log(
        w->ctx, WEFT_LOG_INFO,
        "run %016" PRIx64 ": the vote of its view %" PRId64
        " is not given to rank %d (host %s): others have it, or have gone on since",
        card->vote.run, card->vote.view, card->rank, card->host);
    return WEFTI_WITNESS_REFUSES;
}

static wefti_caller_fate admit(void *user, wefti_caller *caller) {
    weft_witness *w = user;
    wefti_witness_card card;
    if (!wefti_witness_card_read(caller->card, &card)) {
        wefti_callers_complain(&w->callers, caller->address,
                               "sent nothing that weft knows");
        return WEFTI_CALLER_GONE;
    }
    unsigned char answer = (unsigned char)answer_to(w, &card);
    wefti_callers_answer(&w->callers, caller, &answer, 1);
    return WEFTI_CALLER_WAITS; /* until the answer is sent */
}

/* --- the witness --- */

static void wait_for_callers(weft_witness *w, double seconds) {
    struct pollfd all[WEFTI_MAX_CALLERS + 1];
    wefti_callers *c = &w->callers;
    for (int i = 0; i < c->n; i++)
        all[i] = (struct pollfd){.fd = c->list[i].stream.fd, .events = POLLIN};
    all[c->n] = (struct pollfd){.fd = w->listener, .events = POLLIN};
    if (poll(all, (nfds_t)c->n + 1, (int)ceil(fmax(seconds, 0) * 1000)) <= 0) return;
    for (int i = 0; i < c->n; i++)
        wefti_connection_ready(&c->list[i].stream, (unsigned short)all[i].revents);
}

weft_status weft_witness_serve(weft_ctx *ctx, weft_witness *w, double seconds) {
    double until_s = wefti_now_s() + seconds;
    for (double now_s = wefti_now_s(); now_s < until_s; now_s = wefti_now_s()) {
        wait_for_callers(w, fmin(until_s - now_s, look_s));
        if (!wefti_callers_accept(&w->callers))
            return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                                 "the witness can not take a call: %s", strerror(errno));
        (void)wefti_callers_hear(&w->callers);
    }
    return WEFT_OK;
}

static weft_status listen_at(weft_ctx *ctx, weft_witness *w, int port, bool plain) {
    w->listener = wefti_socket_listen(!w->tls && !plain, port);
    if (w->listener >= 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_PEER, "the witness can not listen at port %d: %s",
                         port, strerror(errno));
}

static weft_status open_all(weft_ctx *ctx, weft_witness *w,
                            const weft_witness_setup *setup) {
    int port = setup->port ? setup->port : WEFT_WITNESS_PORT;
    size_t n = strlen(setup->votes) + 1;
    WEFT_TRY(wefti_alloc(ctx, n, "the votes' file", &w->path));
    memcpy(w->path, setup->votes, n);
    WEFT_TRY(wefti_votes_init(ctx, &w->votes));
    WEFT_TRY(wefti_tls_context_create(ctx, setup->security, &w->tls));
    WEFT_TRY(open_file(ctx, w));
    WEFT_TRY(listen_at(ctx, w, port, setup->security && setup->security->plain));
    w->callers = (wefti_callers){.ctx = ctx,
                                 .tls = w->tls,
                                 .listener = w->listener,
                                 .name = "the witness",
                                 .admit = admit,
                                 .user = w};
    if (wefti_callers_init(&w->callers)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for the witness's callers");
}

weft_status weft_witness_open(weft_ctx *ctx, const weft_witness_setup *setup,
                              weft_witness **out) {
    weft_witness *w;
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_witness_setup, setup);
    WEFTI_SIZED_PART(ctx, weft_mesh_security, setup, security);
    if (!setup->votes || setup->port < 0 || setup->port > 65535)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "a witness at port %d, expected a port up to 65535 and a file "
            "for its votes",
            setup->port);
    WEFT_TRY(wefti_alloc(ctx, sizeof *w, "a witness", &w));
    w->ctx = ctx;
    w->listener = w->file = -1;
    WEFTI_TRY_OR(open_all(ctx, w, setup), weft_witness_close(w));
    *out = w;
    return WEFT_OK;
}

int weft_witness_runs(const weft_witness *w) { return w->votes.n; }

void weft_witness_close(weft_witness *w) {
    if (!w) return;
    weft_ctx *ctx = w->ctx;
    wefti_callers_fini(&w->callers);
    wefti_tls_context_destroy(w->tls);
    if (w->listener >= 0) close(w->listener);
    if (w->file >= 0) close(w->file);
    wefti_votes_fini(ctx, &w->votes);
    WEFTI_FREE(ctx, w->path, w);
}
