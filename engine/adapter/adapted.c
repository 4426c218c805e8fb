/* SPDX-License-Identifier: MIT */
/* The parameters of a model that is trained in part, and how the parameters of the whole
 * model are computed from them before a unit runs:
 *
 *     forward    W = W0 + s B A          into scratch; the whole model's own forward with W
 *     backward   the whole model's own backward gives dW;
 *                dB += s dW A^T          dA += s B^T dW
 *
 * Up to rounding that is LoRA's gradient, for every architecture, also with fused tensors.
 * It costs 2 r products for each element of W, which is little compared with the 6 N of a
 * pass over N tokens. With dropout the inputs of adapters differ from those of W0, so there
 * is no single W. Then the pass has W0 and separate products (wefti_side), in training only,
 *
 *     forward    y = x W0^T + drop(x) D^T    D = s B A       two products instead of one
 *     backward   dD = dy^T drop(x), from which dA and dB as above; dx = dy W0 + drop(dy D)
 *
 * A parameter that is trained in full replaces that of the base, and its gradient is dW.
 * A unit that is trained completely, or not at all, is used without a copy. No backward
 * pass is computed below the lowest unit with a trained parameter, and no gradient of a
 * frozen token matrix. */
#include "adapter/adapted.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "adapter/patterns.h"
#include "model/units.h"

typedef enum trained { NOTHING, A_PART, ALL } trained;

/* How a parameter of the whole model is computed: numbers of parameters in the unit of
 * this model, or -1. */
typedef struct source {
    int own;  /* it is trained in full */
    int a, b; /* it has an adapter */
} source;

struct wefti_adapted {
    weft_model *whole;      /* owned */
    wefti_model_ops ops;    /* those of the whole model, except passes and sizes */
    const wefti_base *base; /* borrowed */
    int64_t *unit_at;       /* [units] where each unit begins in base->values */
    trained *trained;       /* [units] which part of a unit is trained */
    source *sources;        /* [params of the whole model] */
    bool *has;              /* [params of the whole model] an adapter */
    int64_t rank;
    int64_t widest; /* input of a product with an adapter */
    double scale;
    double dropout; /* of the adapters' inputs */
    int lowest;     /* unit with something to train */
};

/* ---- what is trained ---- */

static bool any(bool matches(const char *, const wefti_param *), const char *const *list,
                int n, const wefti_param *param) {
    for (int i = 0; i < n; i++)
        if (matches(list[i], param)) return true;
    return false;
}

/* The number of the first parameter in the unit of an adapter for the same tensor as
 * `param` (one tensor of a file can be several parameters here); -1: none yet. */
static int shared_adapter(const wefti_adapted *ad, const wefti_unit *whole,
                          const wefti_param *param) {
    for (const wefti_param *p = whole->params; p < param; p++) {
        const source *from = &ad->sources[p - ad->whole->params];
        if (from->a >= 0 && strcmp(p->file.name, param->file.name) == 0) return from->a;
    }
    return -1;
}

static wefti_param *append(weft_model *model, wefti_unit *unit, const wefti_param *like) {
    wefti_param *p = &model->params[model->n_params++];
    *p = *like;
    p->offset = unit->n_elements;
    unit->n_elements += p->rows * p->cols;
    unit->n_params++;
    return p;
}

static void append_factor(weft_model *model, wefti_unit *unit, const char *module,
                          char letter, const wefti_param *factor) {
    wefti_param *p = append(model, unit, factor);
    snprintf(p->name, sizeof p->name, "base_model.model.%.50s.lora_%c.weight", module,
             letter);
    p->file = (wefti_place){.rows = p->rows, .run = p->rows, .stride = p->rows};
    memcpy(p->file.name, p->name, sizeof p->name);
}

/* Adds an adapter. A is initialized as in PEFT, but normal instead of uniform: variance 1
 * / (3 inputs); B is zero. */
static weft_status append_adapter(weft_ctx *ctx, weft_model *model, wefti_unit *unit,
                                  const wefti_param *param) {
    char module[WEFTI_MODULE_NAME];
    int64_t r = model->adapted->rank, out = param->file.rows, in = param->cols;
    if (param->cols_are_outputs) out = param->cols, in = param->file.rows;
    wefti_param_module(param, module);
    if (strlen(module) > 50 || param->file.shape.n != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "adapter.targets means '%s', which can not have an adapter",
                             module);
    if (r > in || r > out)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "adapter.rank is %lld, but '%s' is %lld x %lld",
                             (long long)r, module, (long long)out, (long long)in);
    append_factor(model, unit, module, 'A',
                  &(wefti_param){.ndim = 2,
                                 .rows = r,
                                 .cols = in,
                                 .decays = true,
                                 .hidden = true,
                                 .parts = 1,
                                 .init_std = (float)sqrt(1 / (3 * (double)in))});
    append_factor(model, unit, module, 'B',
                  &(wefti_param){.ndim = 2,
                                 .rows = out,
                                 .cols = r,
                                 .decays = true,
                                 .hidden = true,
                                 .parts = 1});
    return WEFT_OK;
}

/* Adds a parameter that is trained in full, with PEFT's name. A table that two units read
 * is two tensors in PEFT, one of which is trained. */
static weft_status append_saved(weft_ctx *ctx, weft_model *model, wefti_unit *unit, int u,
                                const wefti_param *param) {
    static const char before[] = "base_model.model.";
    const char *name = wefti_param_adapter_name(param);
    const weft_model *whole = model->adapted->whole;
    bool is_table = param->ndim == 2 && !param->hidden;
    if (whole->units[u].lent && is_table)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "adapter.save means '%s', which the head shares, expected "
                             "modules with parameters of their own",
                             param->file.name);
    if (sizeof before + strlen(name) > sizeof param->file.name)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "adapter.save means '%s', whose name is too long",
                             param->file.name);
    if (model->adapted->dropout > 0 && param->hidden)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "adapter.save means '%s', a matrix of a block, beside "
                             "adapter.dropout %g, which drops inputs of adapters alone; "
                             "expected one of the two",
                             param->file.name, model->adapted->dropout);
    wefti_param *p = append(model, unit, param);
    snprintf(p->file.name, sizeof p->file.name, "%s%.*s", before,
             (int)(sizeof p->file.name - sizeof before), name);
    return WEFT_OK;
}

static weft_status add_source(weft_ctx *ctx, weft_model *model, wefti_unit *unit, int u,
                              const wefti_param *param, const wefti_adapting *what) {
    wefti_adapted *ad = model->adapted;
    source *from = &ad->sources[param - ad->whole->params];
    *from = (source){-1, -1, -1};
    if (what->rank == 0) {
        if (any(wefti_param_is_in, what->frozen, what->n_frozen, param)) return WEFT_OK;
        from->own = unit->n_params;
        append(model, unit, param);
        return WEFT_OK;
    }
    if (any(wefti_param_is_of_module, what->saved, what->n_saved, param)) {
        from->own = unit->n_params;
        return append_saved(ctx, model, unit, u, param);
    }
    if (!any(wefti_param_is_target, what->targets, what->n_targets, param))
        return WEFT_OK;
    int shared = shared_adapter(ad, &ad->whole->units[u], param);
    from->a = shared >= 0 ? shared : unit->n_params;
    from->b = from->a + 1;
    int64_t in = param->cols_are_outputs ? param->rows : param->cols;
    if (in > ad->widest) ad->widest = in;
    ad->has[param - ad->whole->params] = true;
    return shared >= 0 ? WEFT_OK : append_adapter(ctx, model, unit, param);
}

static weft_status add_unit(weft_ctx *ctx, weft_model *model, int u,
                            const wefti_adapting *what) {
    wefti_adapted *ad = model->adapted;
    const wefti_unit *whole = &ad->whole->units[u];
    wefti_unit *unit = &model->units[model->n_units++];
    *unit = *whole;
    unit->params = &model->params[model->n_params];
    unit->n_params = 0;
    unit->n_elements = 0;
    int own = 0;
    for (int i = 0; i < whole->n_params; i++) {
        WEFT_TRY(add_source(ctx, model, unit, u, &whole->params[i], what));
        own += ad->sources[&whole->params[i] - ad->whole->params].own >= 0;
    }
    ad->trained[u] = unit->n_params == 0      ? NOTHING
                     : own == whole->n_params ? ALL
                                              : A_PART;
    if (unit->n_params > 0 && ad->lowest < 0) ad->lowest = u;
    if (u > 0) ad->unit_at[u] = ad->unit_at[u - 1] + ad->whole->units[u - 1].n_elements;
    model->n_elements += unit->n_elements;
    return WEFT_OK;
}

/* Refuses dropout of adapters for models that do not support it: only the products of
 * decoders of text do. */
static weft_status check_dropout(weft_ctx *ctx, const weft_model *whole, double dropout) {
    if (whole->ops->input == WEFTI_INPUT_TEXT) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "adapter.dropout is %g, expected 0: a %s trains its adapters "
                         "without it",
                         dropout, whole->ops->name);
}

static weft_status check_saved(weft_ctx *ctx, const weft_model *whole,
                               const wefti_adapting *what) {
    for (int i = 0; i < what->n_saved; i++) {
        bool found = false;
        for (int p = 0; p < whole->n_params && !found; p++)
            found = wefti_param_is_of_module(what->saved[i], &whole->params[p]);
        if (!found)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "adapter.save has '%s', which no module is",
                                 what->saved[i]);
    }
    return WEFT_OK;
}

/* Refuses a pattern that matches nothing: a typing error. */
static weft_status check_patterns(weft_ctx *ctx, const weft_model *whole,
                                  const wefti_adapting *what) {
    bool adapters = what->rank > 0;
    const char *const *list = adapters ? what->targets : what->frozen;
    for (int i = 0; i < (adapters ? what->n_targets : what->n_frozen); i++) {
        bool found = false;
        for (int p = 0; p < whole->n_params && !found; p++)
            found = adapters ? wefti_param_is_target(list[i], &whole->params[p])
                             : wefti_param_is_in(list[i], &whole->params[p]);
        if (!found)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s has '%s', which no %s is",
                                 adapters ? "adapter.targets" : "model.frozen", list[i],
                                 adapters ? "matrix of a block" : "tensor");
    }
    return WEFT_OK;
}

/* ---- the whole unit ---- */

/* The rows of a product with an adapter: rows [row, row + n) of the parameter are rows
 * `at` of its tensor in files, which B's rows follow. */
typedef struct run {
    int64_t row, at, n;
} run;

static bool next_run(const wefti_param *param, run *r) {
    r->row += r->n;
    if (r->row >= param->rows) return false;
    r->at = wefti_place_row(&param->file, r->row, param->rows - r->row, &r->n);
    return true;
}

/* w[rows,cols] += s B A, or s A^T B^T where the columns are outputs. */
static void add_product(const wefti_adapted *ad, const wefti_kernels *k,
                        const wefti_param *param, const float *a, const float *b,
                        float *w) {
    int64_t r = ad->rank, cols = param->cols;
    float s = (float)ad->scale;
    if (param->cols_are_outputs) {
        k->gemm(true, true, param->rows, cols, r, s, a, param->rows, b, r, 1, w, cols);
        return;
    }
    for (run at = {0, 0, 0}; next_run(param, &at);)
        k->gemm(false, false, at.n, cols, r, s, b + at.at * r, r, a, cols, 1,
                w + at.row * cols, cols);
}

/* da += s B^T dw, db += s dw A^T; the same of dw^T where the columns are outputs. */
static void add_gradients(const wefti_adapted *ad, const wefti_kernels *k,
                          const wefti_param *param, const float *dw, const float *a,
                          const float *b, float *da, float *db) {
    int64_t r = ad->rank, rows = param->rows, cols = param->cols;
    float s = (float)ad->scale;
    if (param->cols_are_outputs) {
        k->gemm(true, true, r, rows, cols, s, b, r, dw, cols, 1, da, rows);
        k->gemm(true, true, cols, r, rows, s, dw, cols, a, rows, 1, db, r);
        return;
    }
    for (run at = {0, 0, 0}; next_run(param, &at);) {
        const float *part = dw + at.row * cols;
        k->gemm(true, false, r, cols, at.n, s, b + at.at * r, r, part, cols, 1, da, cols);
        k->gemm(false, true, at.n, r, cols, s, part, cols, a, cols, 1, db + at.at * r, r);
    }
}

static const source *source_of(const wefti_adapted *ad, const wefti_param *param) {
    return &ad->sources[param - ad->whole->params];
}

static size_t bytes_of(const wefti_param *param) {
    return (size_t)(param->rows * param->cols) * sizeof(float);
}

/* Adds the products of a unit's adapters to `products`, which may be the unit itself. */
static void merge(const weft_model *model, int u, const float *own,
                  const wefti_kernels *kernels, float *room, float *products) {
    const wefti_adapted *ad = model->adapted;
    const wefti_unit *whole = &ad->whole->units[u], *unit = &model->units[u];
    memcpy(room, ad->base->values + ad->unit_at[u],
           (size_t)whole->n_elements * sizeof *room);
    for (int i = 0; i < whole->n_params; i++) {
        const wefti_param *param = &whole->params[i];
        const source *from = source_of(ad, param);
        if (from->own >= 0)
            memcpy(room + param->offset, own + unit->params[from->own].offset,
                   bytes_of(param));
        if (from->a >= 0)
            add_product(ad, kernels, param, own + unit->params[from->a].offset,
                        own + unit->params[from->b].offset, products + param->offset);
    }
}

void wefti_model_merge_unit(const weft_model *model, int u, const float *own,
                            const wefti_kernels *kernels, float *room) {
    merge(model, u, own, kernels, room, room);
}

/* The parameters with which the unit computes: existing ones, or computed in `room`. */
static const float *compose(const weft_model *model, int u, const float *own,
                            const wefti_kernels *kernels, float *room) {
    const wefti_adapted *ad = model->adapted;
    if (ad->trained[u] == ALL) return own;
    if (ad->trained[u] == NOTHING) return ad->base->values + ad->unit_at[u];
    wefti_model_merge_unit(model, u, own, kernels, room);
    return room;
}

/* The backward pass of compose: converts the gradient of the whole unit to that of the
 * trained parameters. */
static void take_gradient(const weft_model *model, int u, const float *own,
                          const wefti_kernels *kernels, const float *whole_grads,
                          float *grads) {
    const wefti_adapted *ad = model->adapted;
    const wefti_unit *whole = &ad->whole->units[u], *unit = &model->units[u];
    if (ad->trained[u] != A_PART) return;
    for (int i = 0; i < whole->n_params; i++) {
        const wefti_param *param = &whole->params[i], *mine = unit->params;
        const source *from = source_of(ad, param);
        const float *dw = whole_grads + param->offset;
        if (from->own >= 0)
            kernels->accumulate(param->rows * param->cols, dw,
                                grads + mine[from->own].offset);
        if (from->a >= 0)
            add_gradients(ad, kernels, param, dw, own + mine[from->a].offset,
                          own + mine[from->b].offset, grads + mine[from->a].offset,
                          grads + mine[from->b].offset);
    }
}

/* ---- rooms ---- */

/* Whether the head computes no gradient of its token matrix. Only for models of texts: in
 * others the borrowed unit contains more than that matrix. */
static bool table_is_frozen(const weft_model *model) {
    const wefti_adapted *ad = model->adapted;
    const weft_model *whole = ad->whole;
    if (whole->ops->input != WEFTI_INPUT_TEXT) return false;
    return ad->trained[whole->config.tied ? 0 : whole->n_units - 1] == NOTHING;
}

/* Floats of a unit's gradient that a backward pass writes only as an intermediate result. */
static int64_t gradient_floats(const weft_model *model, int u) {
    const wefti_adapted *ad = model->adapted;
    const wefti_unit *unit = &ad->whole->units[u];
    if (ad->trained[u] == ALL || u < ad->lowest) return 0;
    bool head = u == ad->whole->n_units - 1 && !ad->whole->config.tied;
    if (head && table_is_frozen(model)) return unit->params[unit->n_params - 1].offset;
    return unit->n_elements;
}

typedef struct rooms {
    float *unit, *lent; /* parameters that the unit computes with */
    float *products;    /* of the unit's adapters, where their inputs are dropped */
    float *dropped;     /* such an input */
    float *grads, *lent_grads; /* [grads_floats], [lent_floats] */
    int64_t lent_floats;
    float *scratch; /* the whole model's */
} rooms;

/* For B rows of T positions. */
static int64_t lay_rooms(const weft_model *model, int64_t B, int64_t T, float *base,
                         rooms *r) {
    const wefti_adapted *ad = model->adapted;
    const weft_model *whole = ad->whole;
    int64_t unit = 0, lent = 0, grads = 0;
    r->lent_floats = 0;
    for (int u = 0; u < whole->n_units; u++) {
        int64_t n = ad->trained[u] == A_PART ? whole->units[u].n_elements : 0;
        int64_t g = gradient_floats(model, u);
        bool is_lent = whole->units[u].lent;
        if (n > unit) unit = n;
        if (is_lent && n > lent) lent = n;
        if (g > grads) grads = g;
        if (!is_lent || ad->trained[u] == ALL || table_is_frozen(model)) continue;
        if (whole->units[u].n_elements > r->lent_floats)
            r->lent_floats = whole->units[u].n_elements;
    }
    wefti_room room = {base, 0};
    r->unit = wefti_room_take(&room, unit);
    r->lent = wefti_room_take(&room, lent);
    r->products = wefti_room_take(&room, ad->dropout > 0 ? unit : 0);
    r->dropped = wefti_room_take(&room, ad->dropout > 0 ? B * T * ad->widest : 0);
    r->grads = wefti_room_take(&room, grads);
    r->lent_grads = wefti_room_take(&room, r->lent_floats);
    r->scratch = wefti_room_take(&room, 0);
    return room.used;
}

/* ---- of the ops table ---- */

/* Passes with sides keep all in f32. */
static int64_t saved_floats(const weft_model *model, int u, int64_t B, int64_t T,
                            const wefti_kernels *kernels) {
    const weft_model *whole = model->adapted->whole;
    bool sided = model->adapted->dropout > 0;
    return whole->ops->saved_floats(whole, u, B, T, sided ? NULL : kernels);
}

static int64_t scratch_floats(const weft_model *model, int64_t B, int64_t T, int threads,
                              const wefti_kernels *kernels) {
    const weft_model *whole = model->adapted->whole;
    rooms r;
    return lay_rooms(model, B, T, NULL, &r) +
           whole->ops->scratch_floats(whole, B, T, threads, kernels);
}

/* Composes a unit with dropout of the adapters' inputs: the adapters' products are separate. */
static void compose_apart(const weft_model *model, int u, const wefti_pass *pass,
                          const rooms *r, wefti_pass *inner, wefti_side *side) {
    const wefti_adapted *ad = model->adapted;
    const wefti_unit *whole = &ad->whole->units[u];
    memset(r->products, 0, (size_t)whole->n_elements * sizeof *r->products);
    merge(model, u, pass->params, pass->kernels, r->unit, r->products);
    *side = (wefti_side){.products = r->products,
                         .has = ad->has + (whole->params - ad->whole->params),
                         .rate = (float)ad->dropout,
                         .room = r->dropped};
    inner->params = r->unit;
    inner->side = side;
}

/* The pass for the whole model; [out] r, side: the buffers that it uses. */
static wefti_pass inner_pass(const weft_model *model, int u, const wefti_pass *pass,
                             rooms *r, wefti_side *side) {
    const wefti_adapted *ad = model->adapted;
    int borrowed = model->units[u].borrows;
    wefti_pass inner = *pass;
    lay_rooms(model, pass->B, pass->T, pass->scratch, r);
    inner.scratch = r->scratch;
    if (pass->training && ad->dropout > 0 && ad->trained[u] == A_PART)
        compose_apart(model, u, pass, r, &inner, side);
    else
        inner.params = compose(model, u, pass->params, pass->kernels, r->unit);
    if (borrowed >= 0)
        inner.borrowed = compose(model, borrowed, pass->borrowed, pass->kernels, r->lent);
    return inner;
}

static void forward(const weft_model *model, int u, const wefti_pass *pass) {
    const weft_model *whole = model->adapted->whole;
    rooms r;
    wefti_side side;
    wefti_pass inner = inner_pass(model, u, pass, &r, &side);
    whole->ops->forward(whole, u, &inner);
}

static float *clear(float *at, int64_t n) {
    memset(at, 0, (size_t)n * sizeof *at);
    return at;
}

static void backward(const weft_model *model, int u, const wefti_pass *pass) {
    const wefti_adapted *ad = model->adapted;
    const weft_model *whole = ad->whole;
    int borrowed = model->units[u].borrows;
    rooms r;
    wefti_side side;
    if (u < ad->lowest) return;
    wefti_pass inner = inner_pass(model, u, pass, &r, &side);
    inner.frozen_table = table_is_frozen(model);
    if (ad->trained[u] != ALL) inner.grads = clear(r.grads, gradient_floats(model, u));
    bool lends = borrowed >= 0 && ad->trained[borrowed] != ALL;
    if (lends) inner.borrowed_grads = clear(r.lent_grads, r.lent_floats);
    whole->ops->backward(whole, u, &inner);
    take_gradient(model, u, pass->params, pass->kernels, inner.grads, pass->grads);
    if (lends)
        take_gradient(model, borrowed, pass->borrowed, pass->kernels,
                      inner.borrowed_grads, pass->borrowed_grads);
}

static void logits(const weft_model *model, const wefti_pass *pass, float *out) {
    const weft_model *whole = model->adapted->whole;
    rooms r;
    wefti_side side;
    wefti_pass inner = inner_pass(model, whole->n_units - 1, pass, &r, &side);
    whole->ops->logits(whole, &inner, out);
}

/* FLOP of the second products of adapters with dropout, forward and backward. */
static double side_flop(const wefti_adapted *ad, int u) {
    const wefti_unit *whole = &ad->whole->units[u];
    double elements = 0;
    if (ad->dropout == 0) return 0;
    for (int i = 0; i < whole->n_params; i++)
        if (ad->has[&whole->params[i] - ad->whole->params])
            elements += (double)(whole->params[i].rows * whole->params[i].cols);
    return 4 * elements;
}

/* Forward and backward are one third and two thirds; the head's gradient of its matrix is
 * one. */
static double unit_flop(const weft_model *model, int u, int64_t T) {
    const wefti_adapted *ad = model->adapted;
    double flop = ad->whole->ops->unit_flop(ad->whole, u, T) + side_flop(ad, u);
    if (u < ad->lowest) return flop / 3;
    bool spares = u == ad->whole->n_units - 1 && table_is_frozen(model);
    return spares ? flop * 2 / 3 : flop;
}

static weft_status describe_json(weft_ctx *ctx, const weft_model *model, char **json) {
    const weft_model *whole = model->adapted->whole;
    return whole->ops->describe_json(ctx, whole, json);
}

/* ---- making one ---- */

/* Of weft_model_destroy. */
static void fini(weft_ctx *ctx, weft_model *model) {
    wefti_adapted *ad = model->adapted;
    weft_model_destroy(ctx, ad->whole);
    WEFTI_FREE(ctx, ad->unit_at, ad->trained, ad->sources, ad->has, ad);
}

static weft_status allocate(weft_ctx *ctx, weft_model *model, weft_model *whole) {
    wefti_adapted *ad;
    WEFTI_TRY_OR(wefti_alloc(ctx, sizeof *ad, "an adapted model", &ad),
                 weft_model_destroy(ctx, whole));
    model->adapted = ad;
    model->fini = fini;
    ad->whole = whole;
    ad->lowest = -1;
    int n = whole->n_units;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *ad->unit_at, "units", &ad->unit_at));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *ad->trained, "units", &ad->trained));
    WEFT_TRY(wefti_alloc_n(ctx, whole->n_params, sizeof *ad->sources,
                           "the parameter table", &ad->sources));
    WEFT_TRY(wefti_alloc_n(ctx, whole->n_params, sizeof *ad->has, "the parameter table",
                           &ad->has));
    WEFT_TRY(
        wefti_alloc_n(ctx, n, sizeof *model->units, "the model's units", &model->units));
    return wefti_alloc_n(ctx, 2 * (int64_t)whole->n_params + 1, sizeof *model->params,
                         "the parameter table", &model->params);
}

static void take_ops(weft_model *model) {
    wefti_adapted *ad = model->adapted;
    ad->ops = *ad->whole->ops;
    ad->ops.saved_floats = saved_floats;
    ad->ops.scratch_floats = scratch_floats;
    ad->ops.forward = forward;
    ad->ops.backward = backward;
    ad->ops.logits = logits;
    ad->ops.unit_flop = unit_flop;
    ad->ops.describe_json = describe_json;
    model->ops = &ad->ops;
    model->config = ad->whole->config;
}

static weft_status build(weft_ctx *ctx, weft_model *model, const wefti_adapting *what) {
    const weft_model *whole = model->adapted->whole;
    model->adapted->rank = what->rank;
    model->adapted->scale = what->scale;
    model->adapted->dropout = what->dropout;
    take_ops(model);
    if (what->dropout > 0) WEFT_TRY(check_dropout(ctx, whole, what->dropout));
    WEFT_TRY(check_patterns(ctx, whole, what));
    if (what->rank > 0) WEFT_TRY(check_saved(ctx, whole, what));
    for (int u = 0; u < whole->n_units; u++) WEFT_TRY(add_unit(ctx, model, u, what));
    if (model->n_elements > 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "model.frozen means every tensor: nothing is left to train");
}

weft_status wefti_model_adapt(weft_ctx *ctx, weft_model *whole,
                              const wefti_adapting *adapting, weft_model **out) {
    *out = NULL;
    weft_model *model;
    weft_status status = wefti_alloc(ctx, sizeof *model, "a model's description", &model);
    if (status != WEFT_OK) {
        weft_model_destroy(ctx, whole);
        return status;
    }
    status = allocate(ctx, model, whole);
    if (status == WEFT_OK) status = build(ctx, model, adapting);
    if (status != WEFT_OK) {
        weft_model_destroy(ctx, model);
        return status;
    }
    *out = model;
    return WEFT_OK;
}

const weft_model *wefti_model_whole(const weft_model *model) {
    return model->adapted ? model->adapted->whole : model;
}

bool wefti_model_has_adapters(const weft_model *model) {
    return model->adapted && model->adapted->rank > 0;
}

int64_t wefti_model_adapter_rank(const weft_model *model) { return model->adapted->rank; }

double wefti_model_adapter_scale(const weft_model *model) {
    return model->adapted->scale;
}

double wefti_model_adapter_dropout(const weft_model *model) {
    return model->adapted->dropout;
}

void wefti_model_lend(weft_model *model, const wefti_base *base) {
    if (model->adapted) model->adapted->base = base;
}

const wefti_base *wefti_model_base(const weft_model *model) {
    return model->adapted->base;
}

bool wefti_model_is_adapted(const weft_model *model, const wefti_param *of_whole) {
    return model->adapted && source_of(model->adapted, of_whole)->a >= 0;
}

bool wefti_model_is_saved(const weft_model *model, const wefti_param *of_whole) {
    return wefti_model_has_adapters(model) &&
           source_of(model->adapted, of_whole)->own >= 0;
}

const float *wefti_model_saved_values(const weft_model *model, int u, int param) {
    const wefti_adapted *ad = model->adapted;
    if (!wefti_model_has_adapters(model) || !ad->base || !ad->base->values) return NULL;
    const wefti_unit *whole = &ad->whole->units[u];
    for (int i = 0; i < whole->n_params; i++)
        if (source_of(ad, &whole->params[i])->own == param)
            return ad->base->values + ad->unit_at[u] + whole->params[i].offset;
    return NULL;
}

bool wefti_model_is_frozen(const weft_model *model, const wefti_param *of_whole) {
    return model->adapted && source_of(model->adapted, of_whole)->own < 0;
}

weft_model *wefti_model_release(weft_ctx *ctx, weft_model *model) {
    weft_model *whole = model->adapted->whole;
    model->adapted->whole = NULL;
    weft_model_destroy(ctx, model);
    return whole;
}
