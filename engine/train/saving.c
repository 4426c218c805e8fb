/* SPDX-License-Identifier: MIT */
/* Checkpoints of a run on a disk that may refuse them.
 *
 *     lines on the disk? -> write, with a vote of all ranks -> saved
 *                                                           -> not: warn, go on; the last: again
 *
 * The lines up to a checkpoint are on the disk before the checkpoint is, and only the process
 * that holds the folder's lease writes either. */
#include "train/saving.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/safetensors.h"
#include "store/upload.h"
#include "train/regroup.h"

enum { LAST_TRIES = 10, SHARE = 50 /* by the clock at most 1 / SHARE of the time */ };
/* Samples of a checkpoint: pieces of 256 KiB, 8 MiB of them first and 64 MiB where that takes less
 * than LEAST_S; files beside those of tensors. */
enum { PIECE = 1 << 16, FIRST_PIECES = 32, MOST_PIECES = 8 * FIRST_PIECES };
enum { SMALL_FILES = 3, SMALL_BYTES = 1 << 12, VOTES = 3 };
#define LEAST_S 0.1
static const double between_tries_s = 1;

/* Whether the first rank can write: WEFT_ERR_FILE with a sentence if not yet. */
static weft_status get_ready(wefti_rank *r, wefti_prepared *p, int64_t step) {
    char checkpoints[PATH_MAX];
    if (r->rank != 0) return WEFT_OK;
    WEFT_TRY(wefti_regroup_take_over(r->ctx, p));
    if (!p->files.journal)
        return weft_ctx_fail(r->ctx, WEFT_ERR_FILE, "%s was not taken over yet: %s",
                             p->config->run.folder, p->files.late_why);
    if (wefti_regroup_check_lease(r->ctx, p, true) != WEFT_OK) return WEFT_ERR_PEER;
    WEFT_TRY(wefti_file_path(r->ctx, p->config->run.folder, "checkpoints", checkpoints));
    WEFT_TRY(wefti_checkpoint_make_room(r->ctx, checkpoints, step)); /* for lines, too */
    weft_status status = wefti_journal_sync(p->files.journal);
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
                               .lease = p->files.lease};
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
    weft_status status = p->files.uploader
                             ? WEFT_OK
                             : wefti_uploader_create(r->ctx, config->run.upload,
                                                     config->run.folder, p->files.lease,
                                                     WEFTI_UPLOAD_LATER,
                                                     &p->files.uploader);
    if (status == WEFT_OK) wefti_uploader_push(p->ctx, p->files.uploader, step);
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
    if (r->rank == 0) p->files.n_unsaved++, p->files.unsaved_step = step;
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

/* Writes a checkpoint of as many files as one of the job's, with `rows` times `data` in one of
 * them, and says how long that took. */
static weft_status write_sample(weft_ctx *ctx, const wefti_job *job, const char *folder,
                                int64_t rows, const float *data, double *took_s) {
    char partial[PATH_MAX], path[PATH_MAX];
    double begun_s = wefti_now_s();
    WEFT_TRY(wefti_checkpoint_begin(ctx, folder, 0, partial));
    for (int i = 0; i < wefti_job_saved_files(job); i++) {
        wefti_tensor_spec spec = {
            .name = "sample", .ndim = 2, .rows = i ? 1 : rows, .cols = i ? 1 : PIECE};
        wefti_safetensors *file;
        snprintf(path, sizeof path, "%.4000s/%d.safetensors", partial, i);
        WEFT_TRY(wefti_safetensors_create(ctx, path, &spec, 1, NULL, &file));
        weft_status status = WEFT_OK;
        for (int64_t row = 0; row < spec.rows && status == WEFT_OK; row++)
            status = wefti_safetensors_write_rows(ctx, file, 0, row, 1, data);
        weft_status closed = wefti_safetensors_close(ctx, file);
        WEFT_TRY(status == WEFT_OK ? closed : status);
    }
    for (int i = 0; i < SMALL_FILES; i++) { /* configuration and tokenizer */
        snprintf(path, sizeof path, "%.4000s/%d.json", partial, i);
        WEFT_TRY(wefti_file_write(ctx, path, data, SMALL_BYTES));
    }
    WEFT_TRY(wefti_checkpoint_commit(ctx, folder, 0, "{}", 1));
    *took_s = wefti_now_s() - begun_s;
    return wefti_file_remove_tree(ctx, folder);
}

/* [out] *disk_s: until a checkpoint is on the disk, by samples: what its files take, and what
 * its bytes do. */
static weft_status disk_time(weft_ctx *ctx, const wefti_prepared *p, const char *folder,
                             const float *data, double *disk_s) {
    int64_t all = (p->summary.save_bytes / 4 + PIECE - 1) / PIECE, n = 0;
    double files_s, more_s = 0;
    WEFT_TRY(write_sample(ctx, p->job, folder, 1, data, &files_s));
    for (n = FIRST_PIECES; more_s < LEAST_S && n <= MOST_PIECES; n *= 8) {
        if (n > all) n = all;
        WEFT_TRY(write_sample(ctx, p->job, folder, n, data, &more_s));
        more_s = fmax(0, more_s - files_s);
        *disk_s = files_s + (n > 1 ? more_s * (double)all / (double)n : 0);
        if (n == all) break;
    }
    return WEFT_OK;
}

/* What the ranks say and send to each other, as far as mesh.link tells: the votes of
 * wefti_state_save, the two halves of an average, the files of machines that do not see the
 * folder. [out] *n_bytes: of one node, 0 where all share memory. */
static double wire_time_s(const wefti_prepared *p, int64_t *n_bytes) {
    const weft_config *c = p->config;
    const wefti_job *job = p->job;
    bool far = wefti_job_has_sites(job);
    double rate = far ? c->mesh.site_bandwidth_Bps : c->mesh.bandwidth_Bps;
    double latency_s = far ? c->mesh.site_latency_s : c->mesh.latency_s;
    if (job->R <= job->copies || (!p->bootstrap.mesh && rate <= 0)) return 0;
    int64_t mean = wefti_job_saved_wire_bytes(job);
    *n_bytes = mean;
    for (int replica = 0; replica < job->R; replica++)
        if (!wefti_bootstrap_sees(&p->bootstrap, replica * job->S))
            *n_bytes += wefti_job_saved_own_bytes(job);
    if (rate <= 0) return 0;
    return (VOTES + (mean > 0 ? 2 : 0)) * latency_s + (double)*n_bytes / rate;
}

weft_status wefti_saving_predict(weft_ctx *ctx, wefti_prepared *p) {
    const weft_config *config = p->config;
    weft_run_summary *s = &p->summary;
    char folder[PATH_MAX];
    float *data;
    if (s->save_bytes == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, PIECE, sizeof *data, "a sample of a checkpoint", &data));
    for (int64_t i = 0; i < PIECE; i++)
        data[i] = (float)(i * i % 65521); /* no file system compresses it much */
    snprintf(folder, sizeof folder, "%.4000s/.write-time", config->run.folder);
    weft_status status = wefti_file_remove_tree(ctx, folder); /* of a killed process */
    if (status == WEFT_OK) status = disk_time(ctx, p, folder, data, &s->save_disk_s);
    wefti_free(ctx, data);
    if (status == WEFT_ERR_FILE) { /* the disk refuses: not known */
        weft_ctx_clear(ctx);
        s->save_disk_s = 0;
        status = wefti_file_remove_tree(ctx, folder);
        if (status == WEFT_ERR_FILE) weft_ctx_clear(ctx), status = WEFT_OK;
    }
    double wire_s = wire_time_s(p, &s->save_wire_bytes);
    s->save_s = s->save_disk_s > 0 ? s->save_disk_s + wire_s : 0;
    s->save_time_s = interval_s(config, s->save_s);
    return status;
}

static void tell_cost(const wefti_rank *r, const wefti_prepared *p,
                      wefti_save_clock *clock, int64_t step) {
    double took_s = clock->took_s, every_s = interval_s(p->job->config, took_s);
    const weft_train_hooks *hooks = clock->hooks;
    char predicted[40] = "", again[120] = "", sentence[240];
    if (r->rank != 0 || clock->reported || !hooks || !hooks->on_change) return;
    clock->reported = true;
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
    int64_t n_unsaved = p->files.n_unsaved; /* of the first rank, which tells */
    WEFT_TRY(save(r, p, step, last));
    clock->since_s = wefti_now_s();
    clock->took_s = clock->since_s - begun_s;
    if (!last && p->files.n_unsaved == n_unsaved) tell_cost(r, p, clock, step);
    return WEFT_OK;
}

void wefti_saving_tell(const wefti_prepared *p) {
    if (p->files.n_unsaved == 0) return;
    weft_ctx_log(p->ctx, WEFT_LOG_WARN,
                 "%lld checkpoint%s could not be written, the last of them of step %lld",
                 (long long)p->files.n_unsaved, p->files.n_unsaved > 1 ? "s" : "",
                 (long long)p->files.unsaved_step);
}
