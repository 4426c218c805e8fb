/* SPDX-License-Identifier: MIT */
/* A model that another program computes: named tensors, each of which is a unit; it
 * cannot be run. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "job/modelshape.h"

static int64_t no_floats(const weft_model *model, int unit, int64_t B, int64_t T,
                         const wefti_kernels *kernels) {
    (void)model, (void)unit, (void)B, (void)T, (void)kernels;
    return 0;
}

static int64_t no_scratch(const weft_model *model, int64_t B, int64_t T, int threads,
                          const wefti_kernels *kernels) {
    (void)model, (void)B, (void)T, (void)threads, (void)kernels;
    return 0;
}

static double no_flop(const weft_model *model, int unit, int64_t T) {
    (void)model, (void)unit, (void)T;
    return 0;
}

static const wefti_model_ops ops = {
    .name = "foreign",
    .summary = "tensors of a program that uses weft",
    .saved_floats = no_floats,
    .scratch_floats = no_scratch,
    .unit_flop = no_flop,
};

static weft_status check_tensor(weft_ctx *ctx, const wefti_foreign_tensor *t, int i) {
    enum { MAX_NAME = sizeof(((wefti_param *)0)->name) - 1 };
    if (!t->name || !t->name[0] || strlen(t->name) > MAX_NAME)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "tensor %d has no name of 1 to %d bytes", i, (int)MAX_NAME);
    bool fits = t->rows >= 0 && t->cols > 0 && t->rows <= ((int64_t)1 << 40) / t->cols;
    if (fits) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_ARGUMENT,
        "tensor '%s' is %lld x %lld, expected no negative number of rows, at "
        "least 1 column and at most 2^40 elements",
        t->name, (long long)t->rows, (long long)t->cols);
}

/* Whether a matrix is a hidden one: all are, unless their name shows that they are a
 * table or a head. */
static bool is_hidden(const wefti_foreign_tensor *t) {
    static const char *const words[] = {"embed", "wte", "wpe", "head"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(t->name, words[i])) return false;
    return t->cols > 1 && t->rows > 1;
}

static void fill(weft_model *model, const wefti_foreign_tensor *tensors) {
    for (int i = 0; i < model->n_units; i++) {
        const wefti_foreign_tensor *t = &tensors[i];
        wefti_param *param = &model->params[i];
        *param = (wefti_param){.ndim = t->cols > 1 ? 2 : 1,
                               .rows = t->rows,
                               .cols = t->cols,
                               .decays = t->decays,
                               .hidden = is_hidden(t),
                               .parts = 1};
        snprintf(param->name, sizeof param->name, "%s", t->name);
        wefti_unit *unit = &model->units[i];
        *unit = (wefti_unit){.kind = WEFTI_BLOCK,
                             .n_params = 1,
                             .params = param,
                             .n_elements = t->rows * t->cols,
                             .borrows = -1};
        snprintf(unit->name, sizeof unit->name, "%.31s", t->name);
        model->n_elements += unit->n_elements;
    }
}

weft_status wefti_model_foreign(weft_ctx *ctx, const wefti_foreign_tensor *tensors, int n,
                                weft_model **out) {
    *out = NULL;
    weft_model *model;
    if (n < 1)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "there are no tensors, expected at least one that is trained");
    for (int i = 0; i < n; i++) WEFT_TRY(check_tensor(ctx, &tensors[i], i));
    WEFT_TRY(wefti_alloc(ctx, sizeof *model, "a model's description", &model));
    model->ops = &ops;
    model->config.kind = ops.name;
    model->n_units = model->n_params = n;
    weft_status status = wefti_alloc_n(ctx, n, sizeof(wefti_unit), "units",
                                       &model->units);
    if (status == WEFT_OK)
        status = wefti_alloc_n(ctx, n, sizeof(wefti_param), "tensors", &model->params);
    if (status != WEFT_OK) {
        weft_model_destroy(ctx, model);
        return status;
    }
    fill(model, tensors);
    *out = model;
    return WEFT_OK;
}
