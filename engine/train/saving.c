/* SPDX-License-Identifier: MIT */
/* Checkpoints of a run on a disk that may refuse them.
 *
 *     lines on the disk? -> write, with a vote of all ranks -> saved
 *                                                           -> not: warn, go on; the last: again
 *
 * The lines up to a checkpoint are on the disk before the checkpoint is, and only the process
 * that holds the folder's lease writes either. */
#include "train/saving.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "store/upload.h"
#include "train/regroup.h"

enum { LAST_TRIES = 10, SHARE = 50 /* by the clock at most 1 / SHARE of the time */ };
enum { SAMPLE_FLOATS = 2 << 20 /* 8 MiB */ };
static const double between_tries_s = 1;

/* Whether the first rank can write: WEFT_ERR_FILE with a sentence if not yet. */
static weft_status get_ready(wefti_rank *r, wefti_prepared *p, int64_t step) {
    char checkpoints[PATH_MAX];
    if (r->rank != 0) return WEFT_OK;
    WEFT_TRY(wefti_regroup_take_over(r->ctx, p));
    if (!p->journal)
        return weft_ctx_fail(r->ctx, WEFT_ERR_FILE, "%s was not taken over yet",
                             p->config->run.folder);
    if (wefti_regroup_check_lease(r->ctx, p, true) != WEFT_OK) return WEFT_ERR_PEER;
    WEFT_TRY(wefti_file_path(r->ctx, p->config->run.folder, "checkpoints", checkpoints));
    WEFT_TRY(wefti_checkpoint_make_room(r->ctx, checkpoints, step)); /* for lines, too */
    weft_status status = wefti_journal_sync(p->journal);
    if (status == WEFT_OK) return WEFT_OK;
    weft_ctx_fail(r->ctx, status, "%s", weft_ctx_message(p->ctx));
    weft_ctx_clear(p->ctx);
    return status;
}

static weft_status try_once(wefti_rank *r, wefti_prepared *p, int64_t step, bool *saved) {
    const wefti_saving what = {.folder = p->job->config->run.folder,
                               .wording = {p->tokenizer, p->chat},
                               .step = step,
                               .ready = get_ready(r, p, step),
                               .lease = p->lease};
    weft_status status = wefti_state_save(r, &p->bootstrap, &what, saved);
    if (status != WEFT_OK && r->rank == 0)
        (void)!wefti_regroup_check_lease(r->ctx, p, true);
    return status;
}

static void warn(const wefti_rank *r, const wefti_prepared *p, int64_t step, bool last) {
    const char *why = weft_ctx_message(r->ctx);
    if (r->rank != 0) return;
    weft_ctx_log(p->ctx, WEFT_LOG_WARN,
                 "the checkpoint of step %lld is not written: %s; %s", (long long)step,
                 why[0] ? why : "another rank could not write its part",
                 last ? "it is tried again" : "the run goes on without it");
}

/* A rank whose disk refuses the last checkpoint to the end leaves with an error. The others
 * meet, which fails without it; where membership lets them go on they save once more. */
static weft_status give_up(wefti_rank *r, int64_t step, const char *why) {
    if (!why[0]) return wefti_comm_barrier(r->comms.control, wefti_rank_control_tag(r));
    return weft_ctx_fail(r->ctx, WEFT_ERR_FILE,
                         "the last checkpoint, of step %lld, could not be written: %s",
                         (long long)step, why);
}

/* Who took the folder over has no uploader yet. */
static void upload(wefti_rank *r, wefti_prepared *p, int64_t step) {
    const weft_config *config = p->config;
    if (r->rank != 0 || !config->run.upload[0]) return;
    weft_status status = p->uploader ? WEFT_OK
                                     : wefti_uploader_create(r->ctx, config->run.upload,
                                                             config->run.folder, p->lease,
                                                             false, false, &p->uploader);
    if (status == WEFT_OK) wefti_uploader_push(p->ctx, p->uploader, step);
    if (status == WEFT_OK) return;
    weft_ctx_log(p->ctx, WEFT_LOG_WARN, "the checkpoint of step %lld is not uploaded: %s",
                 (long long)step, weft_ctx_message(r->ctx));
    weft_ctx_clear(r->ctx);
}

static weft_status save(wefti_rank *r, wefti_prepared *p, int64_t step, bool last) {
    char why[600];
    bool saved;
    for (int i = 0; i < (last ? LAST_TRIES : 1); i++) {
        if (i > 0) wefti_sleep_until_s(wefti_now_s() + between_tries_s);
        WEFT_TRY(try_once(r, p, step, &saved));
        if (saved) return upload(r, p, step), WEFT_OK;
        if (i == 0) warn(r, p, step, last);
        snprintf(why, sizeof why, "%s", weft_ctx_message(r->ctx));
        weft_ctx_clear(r->ctx);
    }
    if (last) return give_up(r, step, why);
    if (r->rank == 0) p->n_unsaved++, p->unsaved_step = step;
    return WEFT_OK;
}

/* Between two checkpoints by the clock that take so long. */
static double interval_s(const weft_config *config, double took_s) {
    return config->run.save_time > 0 ? fmax(config->run.save_time, SHARE * took_s) : 0;
}

bool wefti_saving_is_late(const wefti_save_clock *clock, const weft_config *config) {
    double least_s = interval_s(config, clock->took_s);
    return least_s > 0 && wefti_now_s() - clock->since_s >= least_s;
}

/* Seconds until n bytes and the end of a file are on the folder's disk; 0: it refuses. The file
 * has no name, so that nothing stays of it. */
static double write_time_s(weft_ctx *ctx, const char *folder, int64_t n,
                           const float *data) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.4000s/.write-time", folder);
    unlink(path); /* of a process that was killed just here */
    double begun_s = wefti_now_s();
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return 0;
    unlink(path);
    bool fine = wefti_file_pwrite(ctx, fd, path, data, n, 0) == WEFT_OK && fsync(fd) == 0;
    close(fd);
    weft_ctx_clear(ctx);
    return fine ? wefti_now_s() - begun_s : 0;
}

weft_status wefti_saving_predict(weft_ctx *ctx, wefti_prepared *p) {
    const weft_config *config = p->config;
    weft_run_summary *s = &p->summary;
    int64_t n = s->save_bytes < SAMPLE_FLOATS * 4 ? s->save_bytes / 4 : SAMPLE_FLOATS;
    float *data;
    if (n == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *data, "a sample of a checkpoint", &data));
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(i * i % 65521); /* no file system compresses it much */
    double once_s = write_time_s(ctx, config->run.folder, 1, data);
    double sample_s = write_time_s(ctx, config->run.folder, n * 4, data);
    wefti_free(ctx, data);
    int files = 3 + p->job->R;
    if (once_s > 0 && sample_s > 0)
        s->save_s = files * once_s +
                    fmax(0, sample_s - once_s) * (double)s->save_bytes / (double)(n * 4);
    s->save_time_s = interval_s(config, s->save_s);
    return WEFT_OK;
}

static void tell_cost(const wefti_rank *r, const wefti_prepared *p,
                      wefti_save_clock *clock, int64_t step) {
    double took_s = clock->took_s, every_s = interval_s(p->job->config, took_s);
    const weft_train_hooks *hooks = clock->hooks;
    char predicted[40] = "", again[120] = "", sentence[240];
    if (r->rank != 0 || clock->told || !hooks || !hooks->on_change) return;
    clock->told = true;
    if (p->summary.save_s > 0)
        snprintf(predicted, sizeof predicted, " (%.2g s predicted)", p->summary.save_s);
    if (clock->due == step)
        snprintf(again, sizeof again,
                 ", %.2g %% of the time; again every %.3g s (run.save_time%s)",
                 100 * took_s / every_s, every_s,
                 every_s > p->job->config->run.save_time ? ", and not above 2 %" : "");
    snprintf(sentence, sizeof sentence, "saved after step %lld in %.2g s%s%s",
             (long long)step, took_s, predicted, again);
    hooks->on_change(hooks->user, sentence);
}

weft_status wefti_saving_save(wefti_rank *r, wefti_prepared *p, wefti_save_clock *clock,
                              int64_t step, bool last) {
    double begun_s = wefti_now_s();
    int64_t n_unsaved = p->n_unsaved; /* of the first rank, which tells */
    WEFT_TRY(save(r, p, step, last));
    clock->since_s = wefti_now_s();
    clock->took_s = clock->since_s - begun_s;
    if (!last && p->n_unsaved == n_unsaved) tell_cost(r, p, clock, step);
    return WEFT_OK;
}

void wefti_saving_tell(const wefti_prepared *p) {
    if (p->n_unsaved == 0) return;
    weft_ctx_log(p->ctx, WEFT_LOG_WARN,
                 "%lld checkpoint%s could not be written, the last of them of step %lld",
                 (long long)p->n_unsaved, p->n_unsaved > 1 ? "s" : "",
                 (long long)p->unsaved_step);
}
