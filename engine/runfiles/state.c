/* SPDX-License-Identifier: MIT */
/* Saving and loading everything that a run continues from (docs/file-formats.md).
 *
 *     a file of tensors = blocks, one per (tensor, rank); each rank writes the rows it holds
 *         model.safetensors             parameters; the mean where the replicas differ
 *         adapter_model.safetensors     instead, where adapters alone are trained
 *         optimizer*, replica-*         moments and momenta, of one owner or of each replica
 *     partial folder -> every rank writes -> barrier -> rename: complete, or not there
 *
 * Loading reads the same blocks by name and rows. Where the state is the same on every
 * replica, a run on another mesh can read them, too. */
#define _GNU_SOURCE
#include "runfiles/state.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "mix/mixer.h"
#include "rank/carried.h"
#include "shard/layout.h"
#include "text/json.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/runfolder.h"
#include "checkpoint/safetensors.h"
#include "runfiles/adopt.h"
#include "adapter/adapted.h"
#include "model/fields.h"
#include "token/vocab.h"
#include "runfiles/adapterfile.h"
#include "passes/initial.h"
#include "store/address.h"
#include "store/fetch.h"

enum {
    MAX_ARRAYS = 1 + WEFTI_OPTIMIZER_STATES + 2 * WEFTI_REPLICATOR_STATES +
                 WEFTI_MIXER_STATES
};

/* A file that holds the model's tensors once per prefix, and which of this rank's flat
 * buffers fill it. */
typedef struct tensor_file {
    char path[PATH_MAX];
    int n;
    char prefix[MAX_ARRAYS][64];
    float *flat[MAX_ARRAYS];
} tensor_file;

static void add_array(tensor_file *file, const char *owner, const char *name,
                      float *flat) {
    snprintf(file->prefix[file->n], sizeof file->prefix[0], "%s%s%s", owner, name,
             owner[0] || name[0] ? "." : "");
    file->flat[file->n++] = flat;
}

/* The files of a checkpoint: each function names one and says which flat buffers fill it. */
static weft_status name_model_file(wefti_rank *r, const char *folder, tensor_file *file) {
    file->n = 0;
    add_array(file, "", "", r->params);
    bool adapters = wefti_model_has_adapters(r->job->model);
    return wefti_file_path(r->ctx, folder,
                           adapters ? "adapter_model.safetensors" : "model.safetensors",
                           file->path);
}

static void add_optimizer(wefti_rank *r, const char *owner, tensor_file *file) {
    const wefti_optimizer_ops *ops = r->job->optimizer.most_states;
    for (int i = 0; i < ops->n_states; i++)
        add_array(file, owner, ops->state_names[i], r->optimizer.state[i]);
}

/* Empty if every replica has its own state. */
static weft_status name_optimizer_file(wefti_rank *r, const char *folder,
                                       tensor_file *file) {
    file->n = 0;
    if (r->job->replicas_equal) add_optimizer(r, "", file);
    return wefti_file_path(r->ctx, folder, "optimizer.safetensors", file->path);
}

static void add_replicator(const wefti_replicator *replicator, const char *owner,
                           tensor_file *file) {
    const char *const *names = replicator->ops->states(&replicator->config);
    for (int i = 0; i < replicator->n_states; i++)
        add_array(file, owner, names[i], replicator->state[i]);
}

/* The file of what differs between replicas. */
static weft_status name_replica_file(wefti_rank *r, const char *folder, int replica,
                                     tensor_file *file) {
    char name[64];
    file->n = 0;
    if (!r->job->replicas_equal) {
        add_array(file, "", "parameters", r->params);
        add_optimizer(r, "optimizer.", file);
    }
    add_replicator(r->replicator, "replicator.", file);
    if (r->site_replicator) add_replicator(r->site_replicator, "site_replicator.", file);
    const char *const *names = r->mixer->ops->states(&r->mixer->config);
    for (int i = 0; i < r->mixer->n_states; i++)
        add_array(file, "mixer.", names[i], r->mixer->state[i]);
    snprintf(name, sizeof name, "replica-%05d.safetensors", replica);
    return wefti_file_path(r->ctx, folder, name, file->path);
}

/* Whether an earlier parameter belongs to the same tensor; such parameters are
 * neighbours. */
static bool is_listed(const weft_model *model, int p) {
    enum { MOST = 4 };
    const char *name = model->params[p].file.name;
    for (int q = p - 1; q >= 0 && q >= p - MOST; q--)
        if (strcmp(model->params[q].file.name, name) == 0) return true;
    return false;
}

/* Lists the tensors of a file, each once even if several parameters are rows of it;
 * returns their number. */
static int fill_specs(const weft_model *model, const tensor_file *file,
                      wefti_tensor_spec *specs, char (*names)[160]) {
    int k = 0;
    for (int i = 0; i < file->n; i++) {
        for (int p = 0; p < model->n_params; p++) {
            const wefti_param *param = &model->params[p];
            if (is_listed(model, p)) continue;
            snprintf(names[k], sizeof names[k], "%s%s", file->prefix[i],
                     param->file.name);
            const wefti_dims *shape = &param->file.shape;
            specs[k] = (wefti_tensor_spec){
                names[k],
                shape->n ? shape->n : param->ndim,
                param->file.rows,
                param->cols,
                {shape->dims[0], shape->dims[1], shape->dims[2], shape->dims[3]}};
            k++;
        }
    }
    return k;
}

/* Writes the header and gives the file its full size; rows come later, from every
 * rank. */
static weft_status create_file_of(wefti_rank *r, const weft_model *model,
                                  const tensor_file *file) {
    static const char *const metadata[] = {"format", "pt", NULL};
    if (file->n == 0) return WEFT_OK;
    int n = file->n * model->n_params;
    wefti_tensor_spec *specs = NULL;
    char(*names)[160] = NULL;
    wefti_safetensors *handle = NULL;
    weft_status status = wefti_alloc_n(r->ctx, n, sizeof *specs, "a tensor list", &specs);
    if (status == WEFT_OK)
        status = wefti_alloc_n(r->ctx, n, sizeof *names, "a tensor list", &names);
    if (status == WEFT_OK) n = fill_specs(model, file, specs, names);
    if (status == WEFT_OK)
        status = wefti_safetensors_create(r->ctx, file->path, specs, n, metadata,
                                          &handle);
    if (status == WEFT_OK) status = wefti_safetensors_close(r->ctx, handle);
    WEFTI_FREE(r->ctx, specs, names);
    return status;
}

static weft_status create_file(wefti_rank *r, const tensor_file *file) {
    return create_file_of(r, r->job->model, file);
}

/* The model that a checkpoint holds: the whole one, even if only a part is trained; or
 * the adapters alone. */
static const weft_model *written_model(const wefti_rank *r) {
    const weft_model *model = r->job->model;
    return wefti_model_has_adapters(model) ? model : wefti_model_whole(model);
}

/* This rank's block of tensor t of unit u in buffer i of the file. */
static float *block_data(wefti_rank *r, const tensor_file *file, int i, int u,
                         const wefti_block *block) {
    return file->flat[i] + r->arrangement->unit_offset[u] + block->shard_offset;
}

/* Called for each run of rows that this rank holds: n rows of tensor `index` of the file
 * from `row` on. */
typedef weft_status (*block_visit)(wefti_rank *r, wefti_safetensors *handle, int index,
                                   int64_t row, int64_t n, float *data);

/* Visits the rows of a block as they lie in the file. A tensor of the file may hold
 * several of ours side by side (a fused tensor), so a block can be several runs of rows
 * there. */
static weft_status visit_runs(wefti_rank *r, wefti_safetensors *handle, int index,
                              const wefti_param *param, const wefti_block *block,
                              float *data, block_visit visit) {
    int64_t end = block->row_begin + block->n_rows;
    for (int64_t row = block->row_begin, n; row < end; row += n) {
        int64_t at = wefti_place_row(&param->file, row, end - row, &n);
        WEFT_TRY(visit(r, handle, index, at, n, data));
        data += n * param->cols;
    }
    return WEFT_OK;
}

/* Visits all blocks of this rank in a file, by name and shape: it may be another model's. */
static weft_status for_blocks(wefti_rank *r, const tensor_file *file,
                              wefti_safetensors *handle, block_visit visit) {
    const weft_model *model = r->job->model;
    char name[160];
    for (int i = 0; i < file->n; i++) {
        for (int u = 0; u < model->n_units; u++) {
            for (int t = 0; t < model->units[u].n_params; t++) {
                const wefti_param *param = &model->units[u].params[t];
                wefti_block block = wefti_layout_block(&r->arrangement->layouts[u],
                                                       r->local, t);
                snprintf(name, sizeof name, "%s%s", file->prefix[i], param->file.name);
                int index = wefti_safetensors_find(handle, name);
                if (index < 0)
                    return weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s has no tensor '%s'",
                                         file->path, name);
                const wefti_tensor_spec *spec = wefti_safetensors_spec(handle, index);
                if (spec->rows != param->file.rows || spec->cols != param->cols)
                    return weft_ctx_fail(
                        r->ctx, WEFT_ERR_FORMAT,
                        "%s: '%s' is %lld x %lld, expected %lld x %lld", file->path, name,
                        (long long)spec->rows, (long long)spec->cols,
                        (long long)param->file.rows, (long long)param->cols);
                WEFT_TRY(visit_runs(r, handle, index, param, &block,
                                    block_data(r, file, i, u, &block), visit));
            }
        }
    }
    return WEFT_OK;
}

static weft_status write_block(wefti_rank *r, wefti_safetensors *handle, int index,
                               int64_t row, int64_t n, float *data) {
    return wefti_safetensors_write_rows(r->ctx, handle, index, row, n, data);
}

static weft_status read_block(wefti_rank *r, wefti_safetensors *handle, int index,
                              int64_t row, int64_t n, float *data) {
    return wefti_safetensors_read_rows(r->ctx, handle, index, row, n, data);
}

/* Opens the file and visits this rank's blocks. */
static weft_status with_file(wefti_rank *r, const tensor_file *file, bool writable,
                             block_visit visit) {
    if (file->n == 0) return WEFT_OK;
    wefti_safetensors *handle;
    WEFT_TRY(wefti_safetensors_open(r->ctx, file->path, writable, &handle));
    weft_status status = for_blocks(r, file, handle, visit);
    weft_status closed = wefti_safetensors_close(r->ctx, handle);
    return status == WEFT_OK ? closed : status;
}

/* The leader creates all files before any rank writes rows. */
static weft_status create_files(wefti_rank *r, const char *partial,
                                const wefti_wording *wording) {
    tensor_file file;
    char path[PATH_MAX], *json;
    WEFT_TRY(name_model_file(r, partial, &file));
    WEFT_TRY(create_file_of(r, written_model(r), &file));
    WEFT_TRY(name_optimizer_file(r, partial, &file));
    WEFT_TRY(create_file(r, &file));
    for (int replica = 0; replica < wefti_rank_replicas(r); replica++) {
        WEFT_TRY(name_replica_file(r, partial, replica, &file));
        WEFT_TRY(create_file(r, &file));
    }
    WEFT_TRY(wefti_file_path(r->ctx, partial, "tokenizer.json", path));
    WEFT_TRY(weft_tokenizer_save(r->ctx, wording->tokenizer, path));
    WEFT_TRY(wording->chat ? weft_chat_save(r->ctx, wording->chat, partial)
                           : wefti_settings_save(r->ctx, wording->tokenizer, partial));
    if (wefti_model_has_adapters(r->job->model)) /* a config.json means a whole model */
        return wefti_adapter_write(r->ctx, r->job->model, partial);
    WEFT_TRY(r->job->model->ops->describe_json(r->ctx, r->job->model, &json));
    weft_status status = wefti_file_path(r->ctx, partial, "config.json", path);
    if (status == WEFT_OK)
        status = wefti_file_write(r->ctx, path, json, (int64_t)strlen(json));
    wefti_free(r->ctx, json);
    return status;
}

weft_status wefti_state_write_param(weft_ctx *ctx, wefti_safetensors *file,
                                    const wefti_param *param, const float *data) {
    int index = wefti_safetensors_find(file, param->file.name);
    for (int64_t row = 0, n; row < param->rows; row += n, data += n * param->cols) {
        int64_t at = wefti_place_row(&param->file, row, param->rows - row, &n);
        WEFT_TRY(wefti_safetensors_write_rows(ctx, file, index, at, n, data));
    }
    return WEFT_OK;
}

/* Writes the frozen parameters, unchanged, beside the trained ones, so that a checkpoint
 * is a whole model. */
static weft_status write_frozen(wefti_rank *r, const tensor_file *file) {
    const weft_model *model = r->job->model, *whole = wefti_model_whole(model);
    wefti_safetensors *handle;
    if (r->rank != 0 || whole == model || wefti_model_has_adapters(model)) return WEFT_OK;
    const float *at = wefti_model_base(model)->values;
    WEFT_TRY(wefti_safetensors_open(r->ctx, file->path, true, &handle));
    weft_status status = WEFT_OK;
    for (int u = 0; u < whole->n_units; at += whole->units[u++].n_elements)
        for (int p = 0; p < whole->units[u].n_params && status == WEFT_OK; p++) {
            const wefti_param *param = &whole->units[u].params[p];
            if (wefti_model_is_frozen(model, param))
                status = wefti_state_write_param(r->ctx, handle, param,
                                                 at + param->offset);
        }
    weft_status closed = wefti_safetensors_close(r->ctx, handle);
    return status == WEFT_OK ? closed : status;
}

static weft_status write_model(wefti_rank *r, const char *partial) {
    tensor_file file;
    WEFT_TRY(name_model_file(r, partial, &file));
    weft_status status = r->job->replicas_equal ? WEFT_OK : wefti_rank_average(r);
    if (status == WEFT_OK && r->replica == 0)
        status = with_file(r, &file, true, write_block);
    if (!r->job->replicas_equal) wefti_rank_restore(r);
    if (status == WEFT_OK) status = write_frozen(r, &file);
    return status;
}

/* The first replica writes what is equal on all replicas; each replica writes what is its
 * own. */
static weft_status write_blocks(wefti_rank *r, const char *partial) {
    tensor_file file;
    WEFT_TRY(write_model(r, partial));
    if (r->replica == 0) {
        WEFT_TRY(name_optimizer_file(r, partial, &file));
        WEFT_TRY(with_file(r, &file, true, write_block));
    }
    WEFT_TRY(name_replica_file(r, partial, r->replica, &file));
    return with_file(r, &file, true, write_block);
}

/* Adds the numbers that the mixer's ranks have in common, if there are any. False: no
 * memory. */
static bool pack_known(const wefti_rank *r, json_t *layout) {
    const wefti_mixer *m = r->mixer;
    bool weighted = m->weights &&
                    r->learners.open; /* learners' weights are the last ones */
    int n = m->n_known - (weighted ? r->learners.n : 0);
    if (n == 0) return true;
    json_t *known = json_array();
    bool fine = known != NULL;
    for (int i = 0; i < n && fine; i++)
        fine = json_array_append_new(known, json_real(m->known[i])) == 0;
    return json_object_set_new(layout, "mixer_known", known) == 0 && fine;
}

static bool pack_hash(json_t *layout, const char *key, uint64_t hash) {
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_object_set_new(layout, key, json_string(text)) == 0;
}

/* Adds hashes of what is not saved: the base of adapters, the data. False: no memory. */
static bool pack_hashes(const wefti_job *job, json_t *layout) {
    const weft_dataset *data = job->dataset;
    return (!wefti_model_has_adapters(job->model) ||
            pack_hash(layout, "base", wefti_model_base(job->model)->hash)) &&
           (!data || pack_hash(layout, "data", weft_dataset_hash(data)));
}

/* Completes a checkpoint with what a run continues from besides the tensors: its place in the data,
 * and mesh and method, so that a resumed run can say what it cannot take over. */
static weft_status commit(wefti_rank *r, const char *checkpoints, int64_t step) {
    const wefti_job *job = r->job;
    int64_t rows = wefti_rank_first_row(r, step);
    json_t *layout = json_pack(
        "{s:I, s:I, s:i, s:i, s:s, s:s, s:s, s:s, s:I, s:I}", "step", (json_int_t)step,
        "rows", (json_int_t)rows, "replicas", wefti_rank_replicas(r), "shards", job->S,
        "optimizer", job->optimizer.ops->name, "replicator", job->replicator_config.kind,
        "site_replicator", job->site_replicator_config.kind, "mixer",
        job->mixer_config.kind, "seed", (json_int_t)job->config->run.seed, "parameters",
        (json_int_t)job->model->n_elements);
    bool fine = layout && pack_known(r, layout) && pack_hashes(job, layout);
    char *text;
    int64_t n_bytes;
    weft_status status = wefti_json_text(r->ctx, fine ? layout : NULL, JSON_COMPACT,
                                         &text, &n_bytes);
    json_decref(layout);
    if (status == WEFT_OK)
        status = wefti_checkpoint_commit(r->ctx, checkpoints, step, text,
                                         job->config->run.keep);
    wefti_free(r->ctx, text);
    return status;
}

/* Replicas that do not see the leader's folder write into a folder of their own. */
static weft_status create_away(wefti_rank *r, const wefti_bootstrap *bootstrap,
                               const char *checkpoints, const wefti_saving *what) {
    char partial[PATH_MAX];
    tensor_file file;
    if (wefti_bootstrap_sees(bootstrap, r->rank)) return WEFT_OK;
    WEFT_TRY(wefti_checkpoint_begin_part(r->ctx, checkpoints, what->step, r->replica,
                                         partial));
    if (r->local != 0) return WEFT_OK;
    WEFT_TRY(name_replica_file(r, partial, r->replica, &file));
    return create_file(r, &file);
}

/* Sends all files of such replicas to the leader, whatever a disk refuses. */
static weft_status bring_home(wefti_rank *r, wefti_bootstrap *bootstrap,
                              const char *partial) {
    tensor_file file;
    weft_status all = WEFT_OK;
    for (int replica = 0; replica < wefti_rank_replicas(r); replica++) {
        int from = replica * r->job->S;
        if (wefti_bootstrap_sees(bootstrap, from)) continue;
        WEFT_TRY(name_replica_file(r, partial, replica, &file));
        if (file.n == 0) continue;
        weft_status status = wefti_bootstrap_send_file(r->ctx, bootstrap, from, 0,
                                                       file.path);
        if (status != WEFT_OK && status != WEFT_ERR_FILE) return status;
        if (all == WEFT_OK) all = status;
    }
    bool away = !wefti_bootstrap_sees(bootstrap, r->rank) && r->local == 0;
    return all == WEFT_OK && away ? wefti_file_remove_tree(r->ctx, partial) : all;
}

/* All ranks learn whether a disk has refused something on any of them. */
static weft_status vote(wefti_rank *r, weft_status mine, bool *fine) {
    if (mine != WEFT_OK && mine != WEFT_ERR_FILE) return mine;
    double refused = mine != WEFT_OK;
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), 1, &refused));
    *fine = refused == 0;
    return WEFT_OK;
}

static weft_status begin(wefti_rank *r, const char *checkpoints, char *partial,
                         const wefti_saving *what) {
    WEFT_TRY(what->ready);
    if (r->rank != 0) return WEFT_OK;
    WEFT_TRY(wefti_checkpoint_begin(r->ctx, checkpoints, what->step, partial));
    return create_files(r, partial, &what->wording);
}

/* The lease is looked at again: who slept in between has lost the folder. */
static weft_status complete(wefti_rank *r, const char *checkpoints,
                            const wefti_saving *what) {
    if (r->rank != 0) return WEFT_OK;
    if (wefti_lease_check(r->ctx, what->lease, true) != WEFT_OK) return WEFT_ERR_PEER;
    return commit(r, checkpoints, what->step);
}

/* Nothing of it takes room. */
static void drop(wefti_rank *r, const wefti_bootstrap *bootstrap, const char *partial) {
    bool away = !wefti_bootstrap_sees(bootstrap, r->rank) && r->local == 0;
    if (r->rank != 0 && !away) return;
    weft_status dropped = wefti_file_remove_tree(r->ctx, partial);
    (void)dropped; /* the next try begins with it */
}

weft_status wefti_state_save(wefti_rank *r, wefti_bootstrap *bootstrap,
                             const wefti_saving *what, bool *saved) {
    char checkpoints[PATH_MAX], partial[PATH_MAX];
    *saved = false;
    WEFT_TRY(wefti_rank_control_early(r, what->step));
    WEFT_TRY(wefti_file_path(r->ctx, what->folder, "checkpoints", checkpoints));
    snprintf(partial, sizeof partial, "%.4000s/step-%08lld.partial", checkpoints,
             (long long)what->step);
    if (!wefti_bootstrap_sees(bootstrap,
                              r->rank)) /* its folder may still be the leader's */
        WEFT_TRY(
            wefti_checkpoint_part(r->ctx, checkpoints, what->step, r->replica, partial));
    weft_status mine = begin(r, checkpoints, partial, what);
    if (mine == WEFT_OK) mine = create_away(r, bootstrap, checkpoints, what);
    WEFT_TRY(vote(r, mine, saved));
    if (*saved) WEFT_TRY(vote(r, write_blocks(r, partial), saved));
    if (*saved) {
        mine = bring_home(r, bootstrap, partial);
        if (mine == WEFT_OK) mine = complete(r, checkpoints, what);
        WEFT_TRY(vote(r, mine, saved));
    }
    if (!*saved) drop(r, bootstrap, partial);
    return WEFT_OK;
}

/* False: there is something other than numbers of 0 or more. */
static bool unpack_more(const json_t *layout, wefti_saved_layout *saved) {
    const json_t *known = json_object_get(layout, "mixer_known");
    const char *data = json_string_value(json_object_get(layout, "data"));
    size_t n = json_array_size(known);
    saved->data = data ? strtoull(data, NULL, 16) : 0;
    if (!known) return true;
    if (!json_is_array(known) || n > WEFTI_MAX_KNOWN) return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *number = json_array_get(known, i);
        saved->known[i] = json_number_value(number);
        if (!json_is_number(number) || !(saved->known[i] >= 0)) return false;
    }
    saved->n_known = (int)n;
    return true;
}

static weft_status parse_layout(weft_ctx *ctx, const char *text, const char *path,
                                wefti_saved_layout *saved) {
    json_int_t step, rows, replicas, seed, parameters;
    const char *optimizer, *replicator, *site_replicator, *mixer;
    json_t *layout;
    WEFT_TRY(wefti_json_read(ctx, path, "/index.json: layout", text,
                             (int64_t)strlen(text), WEFT_ERR_FORMAT, &layout));
    int bad = json_unpack(layout, "{s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s}", "step",
                          &step, "rows", &rows, "seed", &seed, "parameters", &parameters,
                          "replicas", &replicas, "optimizer", &optimizer, "replicator",
                          &replicator, "site_replicator", &site_replicator, "mixer",
                          &mixer);
    bad = bad || !unpack_more(layout, saved);
    if (!bad) {
        saved->step = step;
        saved->rows = rows;
        saved->replicas = replicas;
        saved->seed = seed;
        saved->parameters = parameters;
        snprintf(saved->optimizer, sizeof saved->optimizer, "%s", optimizer);
        snprintf(saved->replicator, sizeof saved->replicator, "%s", replicator);
        snprintf(saved->site_replicator, sizeof saved->site_replicator, "%s",
                 site_replicator);
        snprintf(saved->mixer, sizeof saved->mixer, "%s", mixer);
    }
    json_decref(layout);
    if (bad || step < 0 || rows < 0 || replicas < 1)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "%s/index.json has no usable layout (step, rows, replicas, seed, parameters, "
            "optimizer, replicator, site_replicator, mixer, mixer_known)",
            path);
    return WEFT_OK;
}

weft_status wefti_state_find(weft_ctx *ctx, const char *folder, bool writer,
                             int64_t before, wefti_saved_layout *saved, char *path) {
    char checkpoints[PATH_MAX], *layout;
    *saved = (wefti_saved_layout){.step = -1};
    WEFT_TRY(wefti_file_path(ctx, folder, "checkpoints", checkpoints));
    WEFT_TRY(wefti_checkpoint_find_whole(ctx, checkpoints, writer, before, &saved->step,
                                         path, &layout));
    if (saved->step < 0) return WEFT_OK;
    weft_status status = parse_layout(ctx, layout, path, saved);
    wefti_free(ctx, layout);
    return status;
}

/* Adds array i of one saved replica to this rank's array, through the gradient buffer. */
static weft_status add_saved(wefti_rank *r, const tensor_file *all, int i, float factor) {
    const wefti_kernels *kernels = r->job->kernels;
    int64_t n = r->arrangement->n_elements;
    tensor_file one = *all;
    one.n = 1;
    one.flat[0] = r->grads;
    memcpy(one.prefix[0], all->prefix[i], sizeof one.prefix[0]);
    WEFT_TRY(with_file(r, &one, false, read_block));
    kernels->scale(n, factor, r->grads);
    kernels->accumulate(n, r->grads, all->flat[i]);
    return WEFT_OK;
}

/* Leaves out what a mixer keeps of partners, which comes last: they are other ones now. */
static void leave_partners(const wefti_rank *r, tensor_file *file) {
    if (r->mixer->ops->keeps_partners) file->n -= r->mixer->n_states;
}

/* If another number of replicas was saved, each one starts with their mean. */
static weft_status load_mean(wefti_rank *r, int64_t replicas, const char *path) {
    tensor_file file;
    WEFT_TRY(name_replica_file(r, path, 0, &file));
    leave_partners(r, &file);
    for (int i = 0; i < file.n; i++)
        memset(file.flat[i], 0, (size_t)r->arrangement->n_elements * sizeof(float));
    for (int replica = 0; replica < replicas; replica++) {
        WEFT_TRY(name_replica_file(r, path, replica, &file));
        leave_partners(r, &file);
        for (int i = 0; i < file.n; i++)
            WEFT_TRY(add_saved(r, &file, i, 1.0f / (float)replicas));
    }
    return WEFT_OK;
}

static weft_status load_known(wefti_mixer *m, const wefti_saved_layout *saved,
                              const char *path) {
    if (saved->n_known != m->n_known) return WEFT_OK;
    for (int i = 0; i < m->n_known; i++) {
        bool weight = m->weights && m->known + i >= m->weights;
        if (weight && !(saved->known[i] > 0))
            return weft_ctx_fail(m->ctx, WEFT_ERR_FORMAT,
                                 "%s/index.json: number %d of mixer_known is %g, "
                                 "expected a weight above 0",
                                 path, i, saved->known[i]);
        m->known[i] = saved->known[i];
    }
    return WEFT_OK;
}

static weft_status load_replica(wefti_rank *r, const wefti_saved_layout *saved,
                                const char *path) {
    tensor_file file;
    if (saved->replicas != wefti_rank_replicas(r)) {
        wefti_mixer_meet_anew(r->mixer, saved->step);
        return load_mean(r, saved->replicas, path);
    }
    WEFT_TRY(load_known(r->mixer, saved, path));
    WEFT_TRY(name_replica_file(r, path, r->replica, &file));
    if (!wefti_mixer_has_met(r->mixer)) { /* saved while learners were there */
        wefti_mixer_meet_anew(r->mixer, saved->step);
        leave_partners(r, &file);
    }
    return with_file(r, &file, false, read_block);
}

static weft_status read_params(wefti_rank *r, const wefti_weights *weights) {
    const weft_model *model = r->job->model;
    for (int u = 0; u < model->n_units; u++) {
        for (int t = 0; t < model->units[u].n_params; t++) {
            wefti_block block = wefti_layout_block(&r->arrangement->layouts[u], r->local,
                                                   t);
            float *out = r->params + r->arrangement->unit_offset[u] + block.shard_offset;
            WEFT_TRY(wefti_initial_read(r->ctx, weights, &model->units[u].params[t],
                                        block.row_begin, block.n_rows, out));
        }
    }
    return WEFT_OK;
}

weft_status wefti_state_load_model(wefti_rank *r, const char *path) {
    wefti_weights *weights;
    WEFT_TRY(wefti_initial_open(r->ctx, path, r->job->model, &weights));
    weft_status status = read_params(r, weights);
    weft_status closed = wefti_weights_close(r->ctx, weights);
    return status == WEFT_OK ? closed : status;
}

/* Models with the same number of parameters may still compute different things. */
static weft_status check_model(weft_ctx *ctx, const weft_model_config *wanted,
                               const char *folder) {
    char was[64], is[64];
    weft_model_config saved = {.struct_size = sizeof saved};
    WEFT_TRY(wefti_adopt_read(ctx, folder, &saved));
    const wefti_field *field = wefti_model_differs(&saved, wanted);
    if (!field) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s has a model with model.%s %s, this run one with %s", folder,
                         field->name, wefti_field_text(field, &saved, was, sizeof was),
                         wefti_field_text(field, wanted, is, sizeof is));
}

weft_status wefti_state_check(weft_ctx *ctx, const wefti_job *job,
                              const wefti_saved_layout *saved, const char *path) {
    const char *pairs[][3] = {
        {"replicator", saved->replicator, job->replicator_config.kind},
        {"site_replicator", saved->site_replicator, job->site_replicator_config.kind},
        {"optimizer", saved->optimizer, job->optimizer.ops->name},
        {"mixer", saved->mixer, job->mixer_config.kind}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (strcmp(pairs[i][1], pairs[i][2]) != 0)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "%s was trained with %s %s, this run has %s", path,
                                 pairs[i][0], pairs[i][1], pairs[i][2]);
    int64_t parameters = job->model->n_elements, seed = job->config->run.seed;
    if (saved->parameters != parameters || saved->seed != seed)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "%s has %lld parameters and seed %lld, this run %lld and %lld", path,
            (long long)saved->parameters, (long long)saved->seed, (long long)parameters,
            (long long)seed);
    if (wefti_model_has_adapters(job->model))
        return wefti_adapter_check_base(ctx, path, wefti_model_base(job->model));
    return check_model(ctx, &job->model->config, path);
}

weft_status wefti_state_load(wefti_rank *r, const wefti_saved_layout *saved,
                             const char *path) {
    tensor_file file;
    WEFT_TRY(wefti_state_load_model(r, path));
    WEFT_TRY(name_optimizer_file(r, path, &file));
    WEFT_TRY(with_file(r, &file, false, read_block));
    return load_replica(r, saved, path);
}

weft_status wefti_state_locate(weft_ctx *ctx, const char *name, char *folder) {
    wefti_saved_layout saved;
    char path[PATH_MAX];
    WEFT_TRY(wefti_fetch_model(ctx, name, path));
    if (wefti_weights_here(path) || wefti_adapter_here(path)) {
        char *layout, index[PATH_MAX];
        snprintf(folder, PATH_MAX, "%s", path);
        if (!wefti_file_there(path, "index.json", index)) return WEFT_OK;
        WEFT_TRY(wefti_checkpoint_verify(ctx, path, &layout));
        wefti_free(ctx, layout);
        return WEFT_OK;
    }
    if (strstr(path, "://")) return wefti_fail_address(ctx, path, "a folder");
    if (access(path, F_OK) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "there is no folder %s", path);
    WEFT_TRY(wefti_state_find(ctx, path, false, INT64_MAX, &saved, folder));
    if (saved.step >= 0) return WEFT_OK;
    if (weft_folder_look(path) == WEFT_FOLDER_OTHER) WEFT_TRY(weft_run_look(ctx, path));
    return wefti_initial_absent(ctx, path);
}
