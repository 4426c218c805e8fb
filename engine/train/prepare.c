/* SPDX-License-Identifier: MIT */
/* Everything that is done once, before any rank runs:
 *
 *     configuration -> run folder -> tokenizer -> text -> job -> prediction of bytes and
 *     memory -> an error, or the folder is written
 *
 * With several processes, the first one looks into the folder and tells the others; what
 * every process reads for itself (configuration, tokenizer, text) is compared. */
#define _GNU_SOURCE
#include "train/prepare.h"

#include "job/learning_rate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/text.h"
#include "checkpoint/folder.h"
#include "config/layers.h"
#include "data/source.h"
#include "kernels/rate.h"
#include "record/append.h"
#include "runfiles/inherit.h"
#include "token/encode.h"
#include "config/named.h"
#include "train/alikefiles.h"
#include "train/decide.h"
#include "mesh/elastic.h"
#include "runfiles/descent.h"
#include "passes/initial.h"
#include "passes/passes.h"
#include "store/fetch.h"
#include "store/upload.h"

enum { BENCH_VOCAB = 256 };

static bool exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

static bool has_bytes(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && info.st_size > 0;
}

/* Whether the steps of an earlier run would be lost: the folder has metrics or a
 * checkpoint. */
static weft_status find_run(weft_ctx *ctx, const weft_config *config, bool *found) {
    char path[PATH_MAX], newest[PATH_MAX];
    int64_t step;
    WEFT_TRY(wefti_file_path(ctx, config->run.folder, "metrics.jsonl", path));
    *found = has_bytes(path);
    WEFT_TRY(wefti_file_path(ctx, config->run.folder, "checkpoints", path));
    WEFT_TRY(wefti_checkpoint_latest(ctx, path, &step, newest));
    *found |= step >= 0;
    return WEFT_OK;
}

/* A run that is resumed may have its newest checkpoint at run.upload. */
static weft_status fetch_newest(weft_ctx *ctx, const weft_config *config) {
    char path[PATH_MAX], newest[PATH_MAX], *layout;
    int64_t step;
    if (!config->run.upload[0]) return WEFT_OK;
    WEFT_TRY(wefti_file_path(ctx, config->run.folder, "checkpoints", path));
    weft_status status = wefti_checkpoint_find_whole(ctx, path, true, INT64_MAX, &step,
                                                     newest, &layout);
    wefti_free(ctx, layout);
    if (status == WEFT_ERR_FORMAT)
        weft_ctx_clear(ctx); /* all are damaged: any is newer */
    if (status != WEFT_OK && status != WEFT_ERR_FORMAT) return status;
    return wefti_fetch_run(ctx, config->run.upload, config->run.folder, step);
}

/* The lines of a run that ended before its first checkpoint: it begins anew, and loses none. */
static weft_status set_aside(weft_ctx *ctx, const char *folder) {
    static const char *const files[] = {"metrics.jsonl", "nodes.jsonl", "views.jsonl"};
    char name[32], aside[PATH_MAX], from[PATH_MAX], to[PATH_MAX];
    for (int k = 1;; k++) {
        snprintf(name, sizeof name, "before-%d", k);
        WEFT_TRY(wefti_file_path(ctx, folder, name, aside));
        if (!exists(aside)) break;
    }
    WEFT_TRY(wefti_file_mkdirs(ctx, aside));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        WEFT_TRY(wefti_file_path(ctx, folder, files[i], from));
        WEFT_TRY(wefti_file_path(ctx, aside, files[i], to));
        if (exists(from) && rename(from, to) != 0)
            return wefti_fail_errno(ctx, "rename", from);
    }
    weft_ctx_log(ctx, WEFT_LOG_WARN,
                 "%s has steps of a run and no checkpoint to resume from: the run begins "
                 "anew with step 1, and what was written is in %s",
                 folder, aside);
    return WEFT_OK;
}

/* A new run needs a folder without a run; a resumed run finds its newest checkpoint. */
static weft_status look_into_folder(weft_ctx *ctx, const weft_config *config, bool resume,
                                    wefti_prepared *p) {
    bool found = false;
    const wefti_lease_claim claim = {.folder = config->run.folder};
    WEFT_TRY(wefti_file_mkdirs(ctx, config->run.folder));
    WEFT_TRY(wefti_lease_take(ctx, &claim, &p->files.lease));
    if (!resume) WEFT_TRY(find_run(ctx, config, &found));
    if (found)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "%s holds a run already; continue it with --resume or name another "
            "run.folder",
            config->run.folder);
    if (!resume) return WEFT_OK;
    WEFT_TRY(fetch_newest(ctx, config));
    WEFT_TRY(wefti_state_find(ctx, config->run.folder, true, INT64_MAX, &p->saved,
                              p->saved_path));
    if (p->saved.step < 0) WEFT_TRY(find_run(ctx, config, &found));
    return found ? set_aside(ctx, config->run.folder) : WEFT_OK;
}

/* The leader looks into the folder; a machine that does not see it gets a copy of the
 * checkpoint. */
static weft_status open_folder(weft_ctx *ctx, const weft_config *config, bool resume,
                               wefti_prepared *p) {
    char brought[PATH_MAX];
    wefti_bootstrap *c = &p->bootstrap;
    p->saved.step = -1;
    if (wefti_bootstrap_leads(c)) WEFT_TRY(look_into_folder(ctx, config, resume, p));
    WEFT_TRY(wefti_bootstrap_look(ctx, c, config->run.folder, true));
    WEFT_TRY(wefti_bootstrap_tell(c, &p->saved, sizeof p->saved));
    WEFT_TRY(wefti_bootstrap_tell(c, p->saved_path, sizeof p->saved_path));
    if (p->saved.step < 0) return WEFT_OK;
    WEFT_TRY(wefti_file_path(ctx, config->run.folder, "brought", brought));
    WEFT_TRY(wefti_bootstrap_copy_folder(ctx, c, p->saved_path, brought));
    if (!wefti_bootstrap_sees(c, wefti_bootstrap_rank(c)))
        memcpy(p->saved_path, brought, sizeof brought);
    return WEFT_OK;
}

/* Learns merges from the texts of the run, which are read a second time as its data. */
weft_status wefti_prepare_bpe(weft_ctx *ctx, const weft_config *config,
                              weft_tokenizer **out) {
    const weft_shard_texts texts = {.struct_size = sizeof texts,
                                    .paths = (const char *const *)config->data.path.items,
                                    .n_paths = config->data.path.n,
                                    .field = config->data.field,
                                    .column = config->data.column};
    for (int i = 0; i < texts.n_paths; i++)
        WEFT_TRY(wefti_source_twice(ctx, texts.paths[i]));
    return weft_tokenizer_train_texts(ctx, &texts, config->data.vocab, config->data.split,
                                      out, NULL);
}

/* Checked before anything is read, so that the first thing missing is the first one
 * reported. */
static weft_status check_paths(weft_ctx *ctx, const weft_config *config) {
    if (config->data.path.n > 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "data.path names no text; give data.path=my.txt");
}

static weft_status open_named(weft_ctx *ctx, const weft_config *config,
                              weft_tokenizer **out) {
    const char *name = config->data.tokenizer;
    if (!wefti_tokenizer_names_ids(name)) return weft_tokenizer_open(ctx, name, out);
    return wefti_tokenizer_create_ids(ctx, config->data.vocab, out);
}

/* A resumed run keeps the tokenizer that it was started with; a request for another one
 * is refused. */
static weft_status resume_tokenizer(weft_ctx *ctx, const weft_config *config,
                                    const char *path, wefti_prepared *p) {
    weft_tokenizer *wanted = NULL;
    const char *name = config->data.tokenizer;
    bool wished = wefti_config_given(config, "data.tokenizer") || !config->model.init[0];
    bool gone = strchr(name, '/') && !exists(name); /* for example with the model beside
                                                       it */
    WEFT_TRY(weft_tokenizer_load(ctx, path, &p->tokenizer));
    if (!wished || gone || wefti_tokenizer_is_trained(name)) return WEFT_OK;
    WEFT_TRY(open_named(ctx, config, &wanted));
    bool same = weft_tokenizer_hash(wanted) == weft_tokenizer_hash(p->tokenizer);
    weft_tokenizer_destroy(ctx, wanted);
    if (same) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "data.tokenizer is %s, but the run was begun with another tokenizer "
        "(%s)",
        name, path);
}

static weft_status open_tokenizer(weft_ctx *ctx, const weft_config *config,
                                  wefti_prepared *p) {
    char path[PATH_MAX];
    const char *name = config->data.tokenizer;
    if (p->saved.step >= 0) {
        if (snprintf(path, sizeof path, "%.4000s/tokenizer.json", p->saved_path) > 0 &&
            exists(path))
            return resume_tokenizer(ctx, config, path, p);
    }
    if (wefti_tokenizer_is_trained(name))
        return wefti_prepare_bpe(ctx, config, &p->tokenizer);
    return open_named(ctx, config, &p->tokenizer);
}

enum { MEASURED_STEPS = 1024 }; /* over which a prediction is averaged */

/* Where a node has several copies of the model, the bytes that its other copies send are
 * added to what the first one counts in each step; their arrangements are kept for
 * this. */
static weft_status keep_arrangement(weft_ctx *ctx, wefti_prepared *p, int s,
                                    wefti_arrangement *a) {
    if (p->job->copies > 1 && !p->shards)
        WEFT_TRY(wefti_alloc_n(ctx, p->job->S, sizeof *p->shards, "shards", &p->shards));
    if (p->shards)
        p->shards[s] = a;
    else
        wefti_arrangement_destroy(ctx, a);
    return WEFT_OK;
}

/* Predicted payload bytes per step that the first node's ranks send to other nodes,
 * the mean over the steps to come. */
static weft_status predict_wire(weft_ctx *ctx, wefti_prepared *p, int64_t *n_bytes,
                                wefti_footprint *footprint) {
    const wefti_job *job = p->job;
    int64_t steps = job->config->run.steps - job->from.step;
    if (steps > MEASURED_STEPS) steps = MEASURED_STEPS;
    *n_bytes = 0;
    *footprint = (wefti_footprint){0};
    for (int s = 0; s < job->S; s++) {
        wefti_arrangement *a;
        WEFT_TRY(wefti_arrangement_create(ctx, job, s, &a));
        *n_bytes += wefti_job_node_bytes(job, a, false, job->from.step, steps);
        wefti_footprint own = wefti_job_footprint(job, a);
        if (own.total > footprint->total) *footprint = own;
        if (p->dataset) p->summary.save_bytes += wefti_job_saved_bytes(job, a);
        WEFT_TRY(keep_arrangement(ctx, p, s, a));
    }
    if (steps > 0) *n_bytes /= steps;
    return WEFT_OK;
}

static const char *plural(int64_t n) { return n > 1 ? "s" : ""; }

static void describe_method(const wefti_job *job, char *out, size_t size) {
    const weft_config *c = job->config;
    int n = snprintf(out, size, "%s: %s", c->method, c->replicator.kind);
    if (job->site.n > 1)
        n += snprintf(out + n, size - (size_t)n, ", %s between sites",
                      c->site_replicator.kind);
    n += snprintf(out + n, size - (size_t)n, " + %s", c->optimizer.kind);
    if (!job->replicas_equal) snprintf(out + n, size - (size_t)n, " + %s", c->mixer.kind);
}

static void describe_mesh(const wefti_job *job, const char *wire, char *out,
                          size_t size) {
    const weft_config *c = job->config;
    int ranks = job->copies * job->S;
    int n = snprintf(out, size, "%lld node%s x %d rank%s x %d thread%s, wire %s",
                     (long long)c->mesh.nodes, plural(c->mesh.nodes), ranks,
                     plural(ranks), job->run.threads, plural(job->run.threads), wire);
    if (job->copies > 1)
        n += snprintf(out + n, size - (size_t)n, ", %d copies of the model per node",
                      job->copies);
    if (job->site.n > 1)
        snprintf(out + n, size - (size_t)n, ", %d sites, wire %s", job->site.n,
                 c->mesh.site_link);
}

/* Where nodes have different numbers of sequences, or passes. */
static void describe_shares(const wefti_job *job, char *out, size_t size) {
    size_t n = (size_t)snprintf(
        out, size, "%lld tokens per step = %lld sequences of %lld, per rank ",
        (long long)(job->batch.per_step * job->T), (long long)job->batch.per_step,
        (long long)job->T);
    for (int i = 0; i < job->R && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld", i ? ", " : "",
                              (long long)wefti_job_rows(job, i));
    for (int i = 0; i < (job->batch.micros ? job->R : 1) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%lld",
                              i ? ", " : " in passes of at most ",
                              (long long)wefti_job_micro(job, i));
}

/* Adds where the ranks run: "ranks 0-1 on alpha, 2-3 on beta". */
static void describe_hosts(weft_mesh *mesh, char *out, size_t size) {
    size_t n = strlen(out);
    int last = 0, ranks = weft_mesh_look(mesh)->size;
    for (int r = 0; r < ranks && n + 1 < size; r = last + 1) {
        const char *host = weft_mesh_host_of(mesh, r);
        for (last = r; last + 1 < ranks; last++)
            if (!wefti_mesh_same_host(mesh, last + 1, r)) break;
        const char *lead = r ? "," : last > r ? "; ranks" : "; rank";
        if (last > r)
            snprintf(out + n, size - n, "%s %d-%d on %s", lead, r, last, host);
        else
            snprintf(out + n, size - n, "%s %d on %s", lead, r, host);
        n += strlen(out + n);
    }
}

static void describe(wefti_prepared *p) {
    const wefti_job *job = p->job;
    const weft_config *config = job->config;
    const weft_model_config *model = &job->model->config;
    char(*text)[512] = p->texts;
    size_t n = sizeof text[0];
    double all = (double)wefti_model_whole(job->model)->n_elements / 1e6;
    double trained = (double)job->model->n_elements / 1e6;
    int n_written = snprintf(text[0], n, "%s, %lld layers x %lld, %.4g M parameters",
                             model->kind, (long long)model->layers,
                             (long long)model->width, all);
    if (job->model->adapted)
        snprintf(text[0] + n_written, n - (size_t)n_written, ", %.4g M %s", trained,
                 wefti_model_has_adapters(job->model) ? "of adapters are trained"
                                                      : "of them are trained");
    if (p->dataset && weft_dataset_rows(p->dataset) != WEFT_ROWS_TEXT)
        weft_dataset_describe(p->dataset, text[1], n);
    else if (p->dataset)
        snprintf(text[1], n,
                 "%lld training tokens, %lld x %lld for validation, %s tokenizer of %lld",
                 (long long)weft_dataset_train_tokens(p->dataset),
                 (long long)weft_dataset_validation_rows(p->dataset), (long long)job->T,
                 weft_tokenizer_kind(p->tokenizer),
                 (long long)weft_tokenizer_vocab(p->tokenizer));
    else
        snprintf(text[1], n, "made tokens, vocabulary %lld", (long long)model->vocab);
    describe_method(job, text[2], n);
    weft_mesh *mesh = p->bootstrap.mesh;
    describe_mesh(job, mesh ? weft_mesh_look(mesh)->version : config->mesh.link, text[3],
                  n);
    if (mesh) describe_hosts(mesh, text[3], n);
    snprintf(text[4], n,
             "%lld tokens per step = %lld sequences of %lld, %lld x %lld per rank",
             (long long)(job->batch.per_step * job->T), (long long)job->batch.per_step,
             (long long)job->T, (long long)job->batch.n_micro, (long long)job->B);
    if (job->batch.rows || job->batch.micros) describe_shares(job, text[4], n);
    bool bf16 = job->pass_kernels != job->kernels;
    snprintf(text[5], n, "%s%s%s", job->pass_kernels->name, bf16 ? " bf16" : "",
             bf16 && !job->kernels->multiplies_bf16() ? " (by f32 instructions)" : "");
    p->summary.folder = config->run.folder;
    p->summary.model = text[0];
    p->summary.data = text[1];
    p->summary.method = text[2];
    p->summary.mesh = text[3];
    p->summary.batch = text[4];
    p->summary.kernels = text[5];
    p->summary.parameters = job->model->n_elements;
    p->summary.first_step = job->from.step;
    if (p->dataset && job->model->ops->input == WEFTI_INPUT_TEXT)
        p->summary.train_tokens = weft_dataset_train_tokens(p->dataset);
}

/* Where each rank is a process: the rank's share of the machine's cores, or the cores
 * that it is bound to. */
static void choose_threads(wefti_prepared *p) {
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    int mine = wefti_machine_cores();
    int ranks = weft_mesh_look(p->bootstrap.mesh)->ranks_here;
    if (p->job->config->mesh.threads > 0) return;
    p->job->run.threads = mine < all ? mine : (int)(all / ranks);
    if (p->job->run.threads < 1) p->job->run.threads = 1;
}

static weft_status make_plan(weft_ctx *ctx, const weft_config *config,
                             wefti_prepared *p) {
    int64_t vocab = p->tokenizer          ? weft_tokenizer_vocab(p->tokenizer)
                    : config->model.vocab ? wefti_job_vocab(config)
                                          : 0;
    if (p->dataset && wefti_job_input(config) == WEFTI_INPUT_IMAGES)
        vocab = weft_dataset_classes(p->dataset);
    WEFT_TRY(
        wefti_job_create(ctx, config, p->dataset, vocab ? vocab : BENCH_VOCAB, &p->job));
    p->job->run.follows = p->choice.follows;
    p->rows.mean = (double)p->job->batch.per_step / p->job->W;
    if (p->saved.step >= 0) {
        p->job->from.step = p->saved.step;
        p->job->from.row = p->saved.rows;
    }
    int threads = wefti_machine_cores();
    if (p->bootstrap.mesh) {
        choose_threads(p);
        threads = p->job->run.threads;
    }
    int64_t before = wefti_process_resident_bytes();
    WEFT_TRY(
        wefti_measure_gemm(ctx, p->job->pass_kernels, threads, &p->summary.gemm_flops));
    WEFT_TRY(wefti_bootstrap_sum(&p->bootstrap, &p->summary.gemm_flops));
    p->library_bytes = (wefti_process_resident_bytes() - before) / threads;
    wefti_footprint footprint;
    WEFT_TRY(predict_wire(ctx, p, &p->summary.wire_bytes_per_step, &footprint));
    WEFT_TRY(wefti_passroom_take(ctx, p, &footprint));
    WEFT_TRY(wefti_frozen_load(ctx, p->job, p->saved.step >= 0 ? p->saved_path : NULL,
                               p->dataset != NULL, &p->base));
    if (p->base.values && p->bootstrap.comm)
        WEFT_TRY(wefti_bootstrap_same(ctx, &p->bootstrap, p->base.hash,
                                      "the model that is trained in part (model.init)"));
    describe(p);
    return WEFT_OK;
}

/* The configuration, and below it what no key says: how large the model is. */
static weft_status write_config(weft_ctx *ctx, const wefti_prepared *p,
                                const char *path) {
    char line[64];
    wefti_append file;
    bool exists;
    WEFT_TRY(weft_config_write(ctx, p->config, path));
    WEFT_TRY(wefti_append_init(ctx, path, false, &exists, &file));
    int n = snprintf(line, sizeof line, "# %lld parameters\n",
                     (long long)p->summary.parameters);
    weft_status status = wefti_append_write(ctx, &file, line, n);
    weft_status closed = wefti_append_fini(ctx, &file);
    return status != WEFT_OK ? status : closed;
}

weft_status wefti_prepared_write(weft_ctx *ctx, wefti_prepared *p) {
    char path[PATH_MAX];
    weft_config *config = p->config;
    WEFT_TRY(wefti_file_path(ctx, config->run.folder, "config.yaml", path));
    if (p->world.view == 0 || !exists(path)) WEFT_TRY(write_config(ctx, p, path));
    WEFT_TRY(wefti_viewlog_open(ctx, p->views, config->run.folder, p->job->from.step));
    return wefti_journal_open(ctx, config, p->job->from.step, &p->elapsed_s,
                              &p->files.journal);
}

/* What the leader alone has read in the folder. */
typedef struct origin {
    double elapsed_s;
    bool
        follows; /* the folder had views, and `chain` is that of the last one that is left */
    uint64_t chain;
} origin;

/* A process that does not see the leader's folder would write into its own, if the leader was
 * lost. What is in it may not be this run's: better a warning now. */
static weft_status warn_of_other_run(weft_ctx *ctx, wefti_prepared *p) {
    wefti_bootstrap *b = &p->bootstrap;
    const char *folder = p->config->run.folder;
    double others = 0;
    if (!wefti_bootstrap_sees(b, wefti_bootstrap_rank(b)))
        others = wefti_descent_check(ctx, folder, p->views, p->job->from.step) != WEFT_OK;
    if (others > 0) weft_ctx_clear(ctx);
    WEFT_TRY(wefti_bootstrap_sum(b, &others));
    if (others == 0 || !wefti_bootstrap_leads(b)) return WEFT_OK;
    weft_ctx_log(
        ctx, WEFT_LOG_WARN,
        "%.0f of the processes do not see %s here, and have another run in their "
        "folder of that name: if this process is lost, they do not write in its "
        "place",
        others, folder);
    return WEFT_OK;
}

/* Only who writes the run folder copies it, and it alone speaks. */
static weft_status warn_of_upload(weft_ctx *ctx, wefti_prepared *p) {
    bool own = p->config->run.upload[0] != '\0';
    double given = own;
    WEFT_TRY(wefti_bootstrap_sum(&p->bootstrap, &given));
    if (given > 0 && !own && wefti_bootstrap_leads(&p->bootstrap))
        weft_ctx_log(ctx, WEFT_LOG_WARN,
                     "run.upload is set in %.0f of the processes, but not in this one, "
                     "which writes the run folder: nothing is copied",
                     given);
    return WEFT_OK;
}

/* Texts may be added to, so another one is no error. */
static void warn_of_other_data(weft_ctx *ctx, const wefti_prepared *p) {
    uint64_t was = p->saved.data;
    if (was == 0 || was == weft_dataset_hash(p->dataset)) return;
    weft_ctx_log(ctx, WEFT_LOG_WARN,
                 "%s was trained on other data than data.path and data.validation_path "
                 "name now, or on another form of it (text, shard): losses are of other "
                 "rows, and some that were used come again",
                 p->saved_path);
}

/* All processes go on from what the leader has left in the folder. */
static weft_status tell_origin(weft_ctx *ctx, wefti_prepared *p) {
    origin o = {.elapsed_s = p->elapsed_s, .chain = wefti_viewlog_chain(p->views)};
    o.follows = wefti_viewlog_knows(p->views, o.chain);
    WEFT_TRY(wefti_bootstrap_tell(&p->bootstrap, &o, sizeof o));
    p->elapsed_s = o.elapsed_s;
    if (o.follows) WEFT_TRY(wefti_viewlog_follow(ctx, p->views, o.chain));
    WEFT_TRY(warn_of_upload(ctx, p));
    return warn_of_other_run(ctx, p);
}

static weft_status adopt(weft_ctx *ctx, weft_config *config, const wefti_prepared *p) {
    return wefti_inherit(ctx, config, p->saved.step >= 0 ? p->saved_path : NULL);
}

/* Before anything is written: checks that the tensors in the model folder fit this run's
 * model. */
static weft_status check_initial(weft_ctx *ctx, const wefti_prepared *p) {
    const char *init = p->job->config->model.init;
    const char *adapter = p->job->config->adapter.init;
    char folder[PATH_MAX];
    wefti_weights *weights;
    if (!init[0] || p->saved.step >= 0) return WEFT_OK;
    if (wefti_model_has_adapters(p->job->model)) { /* the base was checked when it was
                                                      read */
        if (!adapter[0]) return WEFT_OK;
        WEFT_TRY(wefti_initial_open(ctx, adapter, p->job->model, &weights));
        return wefti_weights_close(ctx, weights);
    }
    WEFT_TRY(wefti_state_locate(ctx, init, folder));
    WEFT_TRY(wefti_initial_open(ctx, folder, p->job->model, &weights));
    return wefti_weights_close(ctx, weights);
}

static weft_status prepare(weft_ctx *ctx, weft_config *config, wefti_prepare_as as,
                           wefti_prepared *p) {
    WEFT_TRY(wefti_viewlog_create(ctx, &p->views));
    WEFT_TRY(check_paths(ctx, config));
    WEFT_TRY(open_folder(ctx, config, as == WEFTI_PREPARE_RESUMED, p));
    WEFT_TRY(adopt(ctx, config, p));
    WEFT_TRY(open_tokenizer(ctx, config, p));
    WEFT_TRY(wefti_rundata_open(ctx, config, p));
    WEFT_TRY(wefti_alike_check(ctx, p));
    WEFT_TRY(wefti_decide(ctx, config, p));
    bool leads = wefti_bootstrap_leads(&p->bootstrap);
    if (leads) wefti_job_doubt(ctx, config);
    if (leads) warn_of_other_data(ctx, p);
    WEFT_TRY(make_plan(ctx, p->own_config ? p->own_config : config, p));
    if (p->saved.step >= 0)
        WEFT_TRY(wefti_state_check(ctx, p->job, &p->saved, p->saved_path));
    WEFT_TRY(check_initial(ctx, p));
    bool writes = leads && p->job->from.step < config->run.steps;
    if (writes) WEFT_TRY(wefti_prepared_write(ctx, p));
    bool resumed = leads && p->saved.step >= 0;
    if ((writes || resumed) && config->run.upload[0])
        WEFT_TRY(wefti_uploader_create(ctx, config->run.upload, config->run.folder,
                                       p->files.lease, p->saved.step,
                                       &p->files.uploader));
    return tell_origin(ctx, p);
}

static weft_status prepare_bench(weft_ctx *ctx, weft_config *config, wefti_prepare_as as,
                                 wefti_prepared *p) {
    (void)as;
    p->saved.step = -1;
    p->bigram_loss = NAN;
    WEFT_TRY(adopt(ctx, config, p));
    WEFT_TRY(wefti_alike_check(ctx, p));
    return make_plan(ctx, config, p);
}

/* A process that joins does not look into the run folder: what is there belongs to the
 * others. */
static weft_status prepare_joiner(weft_ctx *ctx, weft_config *config, wefti_prepare_as as,
                                  wefti_prepared *p) {
    (void)as;
    p->joins = p->bare = true;
    WEFT_TRY(wefti_viewlog_create(ctx, &p->views));
    p->saved.step = -1;
    WEFT_TRY(check_paths(ctx, config));
    WEFT_TRY(adopt(ctx, config, p));
    WEFT_TRY(open_tokenizer(ctx, config, p));
    WEFT_TRY(wefti_rundata_open(ctx, config, p));
    WEFT_TRY(wefti_decide(ctx, config, p));
    return make_plan(ctx, config, p);
}

/* The folder belongs to an earlier run: it is only read. */
static weft_status prepare_replay(weft_ctx *ctx, weft_config *config, wefti_prepare_as as,
                                  wefti_prepared *p) {
    (void)as;
    WEFT_TRY(check_paths(ctx, config));
    WEFT_TRY(wefti_state_find(ctx, config->run.folder, false, INT64_MAX, &p->saved,
                              p->saved_path));
    WEFT_TRY(adopt(ctx, config, p));
    WEFT_TRY(open_tokenizer(ctx, config, p));
    WEFT_TRY(wefti_rundata_open(ctx, config, p));
    return make_plan(ctx, config, p);
}

weft_status wefti_prepare(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                          wefti_prepare_as as, wefti_prepared **out) {
    static weft_status (*const prepare_as[])(weft_ctx *, weft_config *, wefti_prepare_as,
                                             wefti_prepared *) = {
        [WEFTI_PREPARE_RUN] = prepare,
        [WEFTI_PREPARE_RESUMED] = prepare,
        [WEFTI_PREPARE_BENCH] = prepare_bench,
        [WEFTI_PREPARE_JOINER] = prepare_joiner,
        [WEFTI_PREPARE_REPLAY] = prepare_replay};
    *out = NULL;
    wefti_prepared *p;
    WEFT_TRY(wefti_alloc(ctx, sizeof *p, "the run", &p));
    p->ctx = ctx;
    p->config = config;
    weft_status status = WEFT_OK;
    if (as == WEFTI_PREPARE_JOINER) /* a joiner sends nothing before it is a member */
        p->bootstrap.mesh = mesh;
    else
        status = wefti_bootstrap_join(ctx, mesh, &p->bootstrap);
    if (status == WEFT_OK) status = prepare_as[as](ctx, config, as, p);
    if (status == WEFT_OK) {
        *out = p;
        return WEFT_OK;
    }
    weft_status closed = wefti_prepared_destroy(ctx, p);
    (void)closed; /* the first failure is the one to report */
    return status;
}

weft_status wefti_load_initial(wefti_rank *r, const char *path) {
    char folder[PATH_MAX];
    WEFT_TRY(wefti_state_locate(r->ctx, path, folder));
    return wefti_state_load_model(r, folder);
}

weft_status wefti_prepared_fill(const wefti_prepared *p, wefti_rank *r) {
    const char *init = p->job->config->model.init;
    wefti_rank_init_params(r);
    if (p->saved.step >= 0) return wefti_state_load(r, &p->saved, p->saved_path);
    if (wefti_model_has_adapters(p->job->model)) {
        init = p->job->config->adapter.init;
        if (init[0]) WEFT_TRY(wefti_state_load_model(r, init));
    } else if (init[0]) {
        WEFT_TRY(wefti_load_initial(r, init));
    }
    return init[0] ? wefti_rank_compare_initial(r) : WEFT_OK;
}

weft_status wefti_prepared_destroy(weft_ctx *ctx, wefti_prepared *p) {
    if (!p) return WEFT_OK;
    wefti_elastic_ask_no_more(p->bootstrap.mesh);
    weft_status status = wefti_journal_close(p->files.journal);
    weft_status closed = wefti_viewlog_close(ctx, p->views);
    if (status == WEFT_OK) status = closed;
    weft_status uploaded = wefti_uploader_end(ctx, p->files.uploader);
    if (status == WEFT_OK) status = uploaded;
    wefti_lease_give_back(p->files.lease);
    wefti_bootstrap_leave(ctx, &p->bootstrap);
    for (int s = 0; p->shards && s < p->job->S; s++)
        wefti_arrangement_destroy(ctx, p->shards[s]);
    wefti_free(ctx, p->shards);
    wefti_job_destroy(ctx, p->job);
    weft_config_destroy(ctx, p->own_config);
    weft_dataset_close(ctx, p->dataset);
    weft_tokenizer_destroy(ctx, p->tokenizer);
    weft_chat_destroy(ctx, p->chat);
    wefti_free(ctx, p->base.values);
    wefti_free(ctx, p);
    return status;
}
