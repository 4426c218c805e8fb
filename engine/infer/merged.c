/* SPDX-License-Identifier: MIT */
/* An adapter and its base as one model in memory, and a model in memory as a folder:
 *
 *     base folder --> W0 \
 *                         W0 + s B A --> used, or written under Hugging Face names
 *     adapter -----> A, B /                                                          */
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/safetensors.h"
#include "token/vocab.h"
#include "runfiles/adapterfile.h"
#include "runfiles/frozen.h"
#include "infer/inference.h"
#include "passes/initial.h"
#include "runfiles/state.h"

static weft_status read_facts(weft_ctx *ctx, const char *folder,
                              wefti_adapter_facts *facts) {
    char *modules;
    int n;
    WEFT_TRY(wefti_adapter_open(ctx, folder, facts, &modules, &n));
    wefti_free(ctx, modules);
    return WEFT_OK;
}

weft_status wefti_merge_locate(weft_ctx *ctx, const char *folder, const char *base,
                               char *found) {
    wefti_adapter_facts facts = {0};
    if (!base) {
        WEFT_TRY(read_facts(ctx, folder, &facts));
        base = facts.base;
    }
    if (!base[0])
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s/adapter_config.json names no base model "
                             "(base_model_name_or_path); say which it is with --base",
                             folder);
    weft_status status = wefti_state_locate(ctx, base, found);
    if (status != WEFT_ERR_FILE) return status;
    weft_ctx_clear(ctx); /* a longer message follows */
    return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                         "the adapter in %s is of the model '%.200s', which is not a "
                         "folder with a model here; say where it is with --base",
                         folder, base);
}

/* ---- reading ---- */

/* The adapters' values, unit by unit in one buffer. */
static weft_status read_adapters(weft_ctx *ctx, const weft_model *model,
                                 const char *folder, float *at) {
    wefti_weights *weights;
    WEFT_TRY(wefti_initial_open(ctx, folder, model, &weights));
    weft_status status = WEFT_OK;
    for (int u = 0; u < model->n_units; at += model->units[u++].n_elements)
        for (int p = 0; p < model->units[u].n_params && status == WEFT_OK; p++) {
            const wefti_param *param = &model->units[u].params[p];
            status = wefti_initial_read(ctx, weights, param, 0, param->rows,
                                        at + param->offset);
        }
    weft_status closed = wefti_weights_close(ctx, weights);
    return status == WEFT_OK ? closed : status;
}

static weft_status merge_units(weft_ctx *ctx, weft_inference *inf, const float *own) {
    const weft_model *model = inf->model, *whole = wefti_model_whole(model);
    WEFT_TRY(
        wefti_alloc_n(ctx, whole->n_units, sizeof(float *), "parameters", &inf->params));
    for (int u = 0; u < whole->n_units; own += model->units[u++].n_elements) {
        WEFT_TRY(wefti_alloc_n(ctx, whole->units[u].n_elements, sizeof(float),
                               "parameters", &inf->params[u]));
        wefti_model_merge_unit(model, u, own, inf->kernels, inf->params[u]);
    }
    return WEFT_OK;
}

static weft_status merge(weft_ctx *ctx, weft_inference *inf, const char *folder,
                         const char *from, wefti_base *base, float **own) {
    const weft_model *whole = wefti_model_whole(inf->model);
    WEFT_TRY(wefti_alloc_n(ctx, whole->n_elements, sizeof(float), "parameters",
                           &base->values));
    WEFT_TRY(wefti_frozen_read(ctx, whole, from, base));
    WEFT_TRY(wefti_adapter_check_base(ctx, folder, base));
    wefti_model_lend(inf->model, base);
    WEFT_TRY(wefti_alloc_n(ctx, inf->model->n_elements, sizeof(float), "adapters", own));
    WEFT_TRY(read_adapters(ctx, inf->model, folder, *own));
    return merge_units(ctx, inf, *own);
}

weft_status wefti_merge_read(weft_ctx *ctx, weft_inference *inf, const char *folder,
                             const char *base) {
    wefti_base room = {0};
    float *own = NULL;
    WEFT_TRY(wefti_adapter_put_on(ctx, folder, &inf->model));
    weft_status status = merge(ctx, inf, folder, base, &room, &own);
    WEFTI_FREE(ctx, room.values, own);
    inf->model = wefti_model_release(ctx, inf->model);
    return status;
}

/* ---- writing ---- */

static bool is_first(const weft_model *model, int p) {
    for (int q = 0; q < p; q++)
        if (strcmp(model->params[q].file.name, model->params[p].file.name) == 0)
            return false;
    return true;
}

/* Lists the tensors of the model's file; one tensor may hold the rows of several
 * parameters. */
static int fill_specs(const weft_model *model, wefti_tensor_spec *specs) {
    int n = 0;
    for (int p = 0; p < model->n_params; p++) {
        const wefti_param *param = &model->params[p];
        const wefti_dims *shape = &param->file.shape;
        if (!is_first(model, p)) continue;
        specs[n] = (wefti_tensor_spec){.name = param->file.name,
                                       .ndim = shape->n ? shape->n : param->ndim,
                                       .rows = param->file.rows,
                                       .cols = param->cols};
        memcpy(specs[n++].dims, shape->dims, sizeof shape->dims);
    }
    return n;
}

static weft_status write_tensors(weft_ctx *ctx, const weft_inference *inf,
                                 const char *path) {
    static const char *const metadata[] = {"format", "pt", NULL};
    const weft_model *model = inf->model;
    wefti_tensor_spec *specs;
    wefti_safetensors *file = NULL;
    WEFT_TRY(wefti_alloc_n(ctx, model->n_params, sizeof *specs, "a tensor list", &specs));
    int n = fill_specs(model, specs);
    weft_status status = wefti_safetensors_create(ctx, path, specs, n, metadata, &file);
    wefti_free(ctx, specs);
    for (int u = 0; u < model->n_units && status == WEFT_OK; u++)
        for (int p = 0; p < model->units[u].n_params && status == WEFT_OK; p++) {
            const wefti_param *param = &model->units[u].params[p];
            status = wefti_state_write_param(ctx, file, param,
                                             inf->params[u] + param->offset);
        }
    weft_status closed = wefti_safetensors_close(ctx, file);
    return status == WEFT_OK ? closed : status;
}

/* Copies the chat template of the folder that the model came from, if there is one. */
static weft_status save_chat(weft_ctx *ctx, const weft_inference *inf,
                             const char *folder) {
    weft_chat *chat;
    weft_status status = weft_chat_open(ctx, "auto", inf->folder, &chat);
    if (status == WEFT_ERR_CONFIG || status == WEFT_ERR_FORMAT) {
        weft_ctx_clear(ctx);
        return wefti_settings_save(ctx, inf->tokenizer, folder);
    }
    if (status == WEFT_OK) status = weft_chat_save(ctx, chat, folder);
    weft_chat_destroy(ctx, chat);
    return status;
}

weft_status weft_inference_save(weft_ctx *ctx, const weft_inference *inf,
                                const char *folder) {
    char path[PATH_MAX], *json;
    if (wefti_weights_here(folder))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s holds a model already; name another folder", folder);
    WEFT_TRY(wefti_file_mkdirs(ctx, folder));
    WEFT_TRY(wefti_file_path(ctx, folder, "tokenizer.json", path));
    WEFT_TRY(weft_tokenizer_save(ctx, inf->tokenizer, path));
    WEFT_TRY(save_chat(ctx, inf, folder));
    WEFT_TRY(wefti_file_path(ctx, folder, "config.json", path));
    WEFT_TRY(inf->model->ops->describe_json(ctx, inf->model, &json));
    weft_status status = wefti_file_write(ctx, path, json, (int64_t)strlen(json));
    wefti_free(ctx, json);
    if (status == WEFT_OK)
        status = wefti_file_path(ctx, folder, "model.safetensors", path);
    return status == WEFT_OK ? write_tensors(ctx, inf, path) : status;
}
