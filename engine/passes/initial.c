/* SPDX-License-Identifier: MIT */
/* The parameters of a model folder under Hugging Face names.
 *
 *     "transformer.h.0.ln_1.weight"    as the whole language model's class writes it
 *     "h.0.ln_1.weight"                as the class without a head writes it
 *
 * Both are read. A tensor that no parameter takes is refused, because a model that leaves
 * out a part of what it was trained with computes something else. Exceptions are causal
 * masks and tables of rotary frequencies, which older files contain, and the second copy
 * of a tied embedding, if it really is one. */
#include "passes/initial.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "adapter/adapted.h"

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* A separate head has one of two names (wefti_param_adapter_name). Returns the tensor
 * with the other name, or -1. */
static int find_head(const wefti_weights *w, const char *name) {
    static const char *const heads[] = {"lm_head.weight", "embed_out.weight"};
    char other[sizeof((wefti_place *)NULL)->name];
    for (int i = 0; i < 2; i++) {
        if (!ends_with(name, heads[i])) continue;
        snprintf(other, sizeof other, "%.*s%s", (int)(strlen(name) - strlen(heads[i])),
                 name, heads[1 - i]);
        return wefti_weights_find(w, other);
    }
    return -1;
}

/* The tensor with that name, or with that name without its first part, or a head under
 * its other name; -1: none of them. */
static int find(const wefti_weights *w, const char *name) {
    int index = wefti_weights_find(w, name);
    const char *dot = strchr(name, '.');
    if (index < 0 && dot) index = wefti_weights_find(w, dot + 1);
    return index < 0 ? find_head(w, name) : index;
}

/* Whether this may be a second copy of the embedding, which the model's head shares. */
static bool is_second_copy(const weft_model *model, const wefti_tensor_spec *spec) {
    bool head = strcmp(spec->name, "lm_head.weight") == 0 ||
                strcmp(spec->name, "embed_out.weight") == 0;
    return head && model->config.tied && spec->rows == model->config.vocab &&
           spec->cols == model->config.width;
}

/* Checks that it is a copy: ROWS rows spread over the two must be equal. A head that was
 * trained separately differs in all of its rows. */
static weft_status check_copy(weft_ctx *ctx, const wefti_weights *w,
                              const weft_model *model, int index) {
    enum { ROWS = 256 };
    int64_t V = model->config.vocab, C = model->config.width;
    int table = find(w, model->units[0].params[0].file.name);
    float *rows;
    WEFT_TRY(wefti_alloc_n(ctx, 2 * C, sizeof *rows, "rows of embeddings", &rows));
    weft_status status = WEFT_OK;
    for (int64_t k = 0; k < ROWS && status == WEFT_OK; k++) {
        int64_t row = k * V / ROWS;
        status = wefti_weights_read_rows(ctx, w, table, row, 1, rows);
        if (status == WEFT_OK)
            status = wefti_weights_read_rows(ctx, w, index, row, 1, rows + C);
        if (status == WEFT_OK && memcmp(rows, rows + C, (size_t)C * sizeof *rows) != 0)
            status = weft_ctx_fail(
                ctx, WEFT_ERR_FORMAT,
                "%s: row %lld of '%s' is not that of the embedding, but config.json says "
                "that the two are one (tie_word_embeddings)",
                wefti_weights_path(w), (long long)row,
                wefti_weights_spec(w, index)->name);
    }
    wefti_free(ctx, rows);
    return status;
}

/* Whether a model computes the same without this tensor. */
static bool is_spare(const wefti_tensor_spec *spec) {
    if (ends_with(spec->name, "rotary_emb.inv_freq")) return true;
    if (ends_with(spec->name, "masked_bias")) return spec->rows == 1 && spec->cols == 1;
    bool mask = ends_with(spec->name, "attn.bias") ||
                ends_with(spec->name, "attention.bias");
    return mask && spec->ndim == 4 && spec->rows == 1;
}

static weft_status check_param(weft_ctx *ctx, const wefti_weights *w,
                               const wefti_param *param, bool *taken) {
    const wefti_place *file = &param->file;
    int index = find(w, file->name);
    if (index < 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_FORMAT,
            "%s has no tensor '%s' of %lld x %lld, which its config.json asks for",
            wefti_weights_path(w), file->name, (long long)file->rows,
            (long long)param->cols);
    const wefti_tensor_spec *spec = wefti_weights_spec(w, index);
    taken[index] = true;
    if (spec->rows == file->rows && spec->cols == param->cols) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_FORMAT, "%s: '%s' is %lld x %lld, expected %lld x %lld",
        wefti_weights_path(w), spec->name, (long long)spec->rows, (long long)spec->cols,
        (long long)file->rows, (long long)param->cols);
}

static weft_status check_all(weft_ctx *ctx, const wefti_weights *w,
                             const weft_model *model, bool *taken) {
    for (int i = 0; i < model->n_params; i++)
        WEFT_TRY(check_param(ctx, w, &model->params[i], taken));
    for (int i = 0; i < wefti_weights_count(w); i++) {
        const wefti_tensor_spec *spec = wefti_weights_spec(w, i);
        if (taken[i] || is_spare(spec)) continue;
        if (is_second_copy(model, spec)) {
            WEFT_TRY(check_copy(ctx, w, model, i));
            continue;
        }
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s has a tensor '%.200s' of %lld x %lld, for which a %s of "
                             "%lld layers as in its config.json has no place",
                             wefti_weights_path(w), spec->name, (long long)spec->rows,
                             (long long)spec->cols, model->config.kind,
                             (long long)model->config.layers);
    }
    return WEFT_OK;
}

weft_status wefti_initial_absent(weft_ctx *ctx, const char *folder) {
    char path[PATH_MAX];
    if (wefti_file_there(folder, "pytorch_model.bin", path) ||
        wefti_file_there(folder, "pytorch_model.bin.index.json", path))
        return weft_ctx_fail(
            ctx, WEFT_ERR_FILE,
            "%s has its weights in pytorch_model.bin, expected safetensors; python -c "
            "\"from transformers import AutoModelForCausalLM as m; p = '%s'; "
            "m.from_pretrained(p, torch_dtype='auto').save_pretrained(p)\" writes them",
            folder, folder);
    return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                         "%s holds no complete checkpoint (checkpoints/step-*) and no "
                         "model.safetensors or model.safetensors.index.json",
                         folder);
}

weft_status wefti_initial_open(weft_ctx *ctx, const char *folder, const weft_model *model,
                               wefti_weights **out) {
    wefti_weights *w;
    bool *taken = NULL, adapters = wefti_model_has_adapters(model);
    *out = NULL;
    if (adapters) WEFT_TRY(wefti_weights_open_adapter(ctx, folder, &w));
    if (!adapters) WEFT_TRY(wefti_weights_open(ctx, folder, &w));
    const weft_model *stored = adapters ? model : wefti_model_whole(model);
    weft_status status = wefti_alloc_n(ctx, wefti_weights_count(w), sizeof *taken,
                                       "a list of tensors", &taken);
    if (status == WEFT_OK) status = check_all(ctx, w, stored, taken);
    wefti_free(ctx, taken);
    if (status == WEFT_OK) {
        *out = w;
        return WEFT_OK;
    }
    weft_status closed = wefti_weights_close(ctx, w);
    (void)closed; /* the first failure is the one to report */
    return status;
}

weft_status wefti_initial_read(weft_ctx *ctx, const wefti_weights *w,
                               const wefti_param *param, int64_t row_begin,
                               int64_t n_rows, float *out) {
    const wefti_place *file = &param->file;
    int index = find(w, file->name);
    for (int64_t row = row_begin, n; row < row_begin + n_rows; row += n) {
        int64_t at = wefti_place_row(file, row, row_begin + n_rows - row, &n);
        WEFT_TRY(wefti_weights_read_rows(ctx, w, index, at, n,
                                         out + (row - row_begin) * param->cols));
    }
    return WEFT_OK;
}
