/* SPDX-License-Identifier: MIT */
/* ViT (Dosovitskiy et al. 2021), the classifier of images:
 *     x0[0] = class + pos[0],  x0[1 + p] = Wp patch_p + bp + pos[1 + p]
 *     blocks as a decoder's with norms before the branches, LayerNorm, GELU by the error
 *     function and biases, but each position sees all
 *     loss = cross-entropy(Wc LN(x_L)[0] + bc)
 * An image of I x I pixels in Ch channels is cut into (I/P)^2 patches, row by row; a
 * patch is [Ch,P,P], so Wp is a row of HF's convolution. A row's tokens are its pixels
 * [Ch,I,I], bytes that become 2 v / 255 - 1; it has one target, its class. The head reads
 * only the class position, so it and its gradient use B rows of x. */
#include <string.h>

#include "model/decoder.h"
#include "model/describe.h"
#include "model/pieces.h"
#include "model/units.h"

enum { CLASS, POSITIONS, PATCH_W, PATCH_B, N_EMBED };
enum { NORM_W, NORM_B, HEAD_W, HEAD_B, N_HEAD };

static const wefti_traits vit = {
    .model_type = "vit",
    .architecture = "ViTForImageClassification",
    .activation = WEFTI_CURVE_GELU_ERF,
    .layer_norm = true,
    .always_bias = true,
    .always_mlp_bias = true,
    .sees_all = true,
    .norm_eps = 1e-12,
    .json_norm_eps = 1e-12,
    .block_prefix = "vit.encoder.layer.",
    .names = {[WEFTI_NORM1] = "layernorm_before",
              [WEFTI_Q] = "attention.attention.query",
              [WEFTI_K] = "attention.attention.key",
              [WEFTI_V] = "attention.attention.value",
              [WEFTI_O] = "attention.output.dense",
              [WEFTI_NORM2] = "layernorm_after",
              [WEFTI_UP] = "intermediate.dense",
              [WEFTI_DOWN] = "output.dense"},
};

/* The sizes of a call, and its scratch. */
typedef struct frame {
    const weft_model *model;
    const wefti_pass *pass;
    const wefti_kernels *k;
    const wefti_unit *unit;
    int64_t B, T, C, V, P, I, Ch; /* P: pixels along a patch */
    int64_t patches, values;      /* of an image; of a patch */
    float *cut;                   /* [B patches, values] */
    float *flat;                  /* [B patches, C] */
    float *x, *xn, *dxn, *dx; /* [B,C] the class rows; normalized, with a 1: [B,C+1] */
    float *w, *dw;            /* [V,C+1] the head's matrix with its bias as the last
                                     column */
    float *mean, *rstd;       /* [B] */
    float *logits;            /* [B,V] */
    float *rest;              /* kernel scratch */
} frame;

/* ---- description ---- */

static weft_status check(weft_ctx *ctx, weft_model_config *c) {
    if (c->image < 1 || c->patch < 1 || c->image % c->patch != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "model.image is %lld and model.patch %lld, expected a "
                             "multiple of the patch",
                             (long long)c->image, (long long)c->patch);
    if (c->tied || c->kv_heads != c->heads)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "model.tied or model.kv_heads is set, but a vit has neither "
                             "a tied head nor grouped queries");
    if (c->channels == 0) c->channels = 3;
    WEFT_TRY(wefti_families_check(ctx, &vit, c));
    c->context = wefti_model_positions(c, 0);
    return WEFT_OK;
}

static weft_status layout(weft_ctx *ctx, weft_model *model) {
    const weft_model_config *c = &model->config;
    int64_t C = c->width;
    double std = c->init_std;
    wefti_block_specs block;
    const wefti_param_spec embed[] = {
        [CLASS] = {"vit.embeddings.cls_token", 1, C, 0, std},
        [POSITIONS] = {"vit.embeddings.position_embeddings", c->context, C, 0, std},
        [PATCH_W] = {"vit.embeddings.patch_embeddings.projection.weight", C,
                     c->channels * c->patch * c->patch, 0, std},
        [PATCH_B] = {"vit.embeddings.patch_embeddings.projection.bias", C, 0, 0, 0},
    };
    const wefti_param_spec head[] = {
        [NORM_W] = {"vit.layernorm.weight", C, 0, 1, 0},
        [NORM_B] = {"vit.layernorm.bias", C, 0, 0, 0},
        [HEAD_W] = {"classifier.weight", c->vocab, C, 0, std},
        [HEAD_B] = {"classifier.bias", c->vocab, 0, 0, 0},
    };
    wefti_families_block(model, &block);
    const wefti_model_spec spec = {embed,  block.specs,     head, N_EMBED, block.n,
                                   N_HEAD, vit.block_prefix};
    WEFT_TRY(wefti_units_build(ctx, model, &spec));
    wefti_place *place = &model->params[CLASS].file;
    place->shape = (wefti_dims){3, {1, 1, C}};
    place = &model->params[POSITIONS].file;
    place->shape = (wefti_dims){3, {1, c->context, C}};
    place = &model->params[PATCH_W].file;
    place->shape = (wefti_dims){4, {C, c->channels, c->patch, c->patch}};
    return WEFT_OK;
}

/* ---- buffers ---- */

/* Divides the scratch of the embedding, or of the head; returns the number of floats
 * before the kernels' scratch. */
static int64_t lay(frame *f, bool head, float *base) {
    int64_t B = f->B, C = f->C, V = f->V;
    wefti_room room = {base, 0};
    f->cut = wefti_room_take(&room, head ? 0 : B * f->patches * f->values);
    f->flat = wefti_room_take(&room, head ? 0 : B * f->patches * C);
    f->x = wefti_room_take(&room, head ? B * C : 0);
    f->dx = wefti_room_take(&room, head ? B * C : 0);
    f->xn = wefti_room_take(&room, head ? B * (C + 1) : 0);
    f->dxn = wefti_room_take(&room, head ? B * (C + 1) : 0);
    f->w = wefti_room_take(&room, head ? V * (C + 1) : 0);
    f->dw = wefti_room_take(&room, head ? V * (C + 1) : 0);
    f->mean = wefti_room_take(&room, head ? B : 0);
    f->rstd = wefti_room_take(&room, head ? B : 0);
    f->logits = wefti_room_take(&room, head ? B * V : 0);
    f->rest = wefti_room_take(&room, 0);
    return room.used;
}

static frame sizes_of(const weft_model *model, int64_t B, int64_t T) {
    const weft_model_config *c = &model->config;
    int64_t side = c->image / c->patch;
    return (frame){.model = model,
                   .B = B,
                   .T = T,
                   .C = c->width,
                   .V = c->vocab,
                   .P = c->patch,
                   .I = c->image,
                   .Ch = c->channels,
                   .patches = side * side,
                   .values = c->channels * c->patch * c->patch};
}

static int64_t scratch_floats(const weft_model *model, int64_t B, int64_t T, int threads,
                              const wefti_kernels *kernels) {
    frame f = sizes_of(model, B, T);
    int64_t most = wefti_decoder_scratch_floats(model, B, T, threads, kernels);
    int64_t embed = lay(&f, false, NULL), head = lay(&f, true, NULL);
    head += kernels->layers->head_scratch(B, model->config.vocab, threads);
    if (embed > most) most = embed;
    return head > most ? head : most;
}

static frame frame_of(const weft_model *model, int u, const wefti_pass *pass) {
    frame f = sizes_of(model, pass->B, pass->T);
    f.pass = pass;
    f.k = pass->kernels;
    f.unit = &model->units[u];
    lay(&f, f.unit->kind == WEFTI_HEAD, pass->scratch);
    return f;
}

static const float *param(const frame *f, int i) {
    return wefti_unit_param(f->unit, f->pass, i);
}

static float *grad(const frame *f, int i) { return wefti_unit_grad(f->unit, f->pass, i); }

/* ---- the embedding ---- */

/* Copies one patch of an image whose pixels are [Ch,I,I]. */
static void cut_patch(const frame *f, const int32_t *pixels, int64_t patch, float *out) {
    int64_t side = f->I / f->P, y0 = patch / side * f->P, x0 = patch % side * f->P;
    for (int64_t c = 0; c < f->Ch; c++)
        for (int64_t y = y0; y < y0 + f->P; y++)
            for (int64_t x = x0; x < x0 + f->P; x++)
                *out++ = (float)pixels[(c * f->I + y) * f->I + x] * (2.0f / 255) - 1;
}

static void cut_patches(const frame *f) {
    int64_t pixels = f->Ch * f->I * f->I;
    for (int64_t b = 0; b < f->B; b++)
        for (int64_t p = 0; p < f->patches; p++)
            cut_patch(f, f->pass->tokens + b * pixels, p,
                      f->cut + (b * f->patches + p) * f->values);
}

static void embed_forward(const frame *f) {
    size_t row = (size_t)f->C * sizeof(float), rows = (size_t)f->patches * row;
    wefti_linear patches = {.N = f->B * f->patches,
                            .in = f->values,
                            .out = f->C,
                            .w = param(f, PATCH_W),
                            .b = param(f, PATCH_B)};
    float *y = f->pass->y;
    cut_patches(f);
    wefti_linear_forward(f->k, &patches, f->cut, f->flat);
    for (int64_t b = 0; b < f->B; b++, y += f->T * f->C) {
        memcpy(y, param(f, CLASS), row);
        memcpy(y + f->C, f->flat + b * f->patches * f->C, rows);
        f->k->accumulate(f->T * f->C, param(f, POSITIONS), y);
    }
    wefti_drop(f->model, 0, WEFTI_DROP_FIRST, f->pass, f->pass->y);
}

static void embed_backward(const frame *f) {
    size_t rows = (size_t)(f->patches * f->C) * sizeof(float);
    const float *dy = f->pass->dy;
    int64_t N = f->B * f->patches;
    wefti_drop(f->model, 0, WEFTI_DROP_FIRST, f->pass, f->pass->dy);
    cut_patches(f);
    for (int64_t b = 0; b < f->B; b++, dy += f->T * f->C) {
        f->k->accumulate(f->C, dy, grad(f, CLASS));
        f->k->accumulate(f->T * f->C, dy, grad(f, POSITIONS));
        memcpy(f->flat + b * f->patches * f->C, dy + f->C, rows);
    }
    f->k->gemm(true, false, f->C, f->values, N, 1, f->flat, f->C, f->cut, f->values, 1,
               grad(f, PATCH_W), f->values);
    f->k->bias_grad(N, f->C, f->flat, grad(f, PATCH_B));
}

/* ---- the head ---- */

/* Prepares the class rows, normalized and followed by a 1, and the head's matrix followed
 * by its bias. */
static void head_input(const frame *f) {
    int64_t C = f->C;
    size_t row = (size_t)C * sizeof(float);
    float *normed = f->dx; /* free until the gradient is computed */
    for (int64_t b = 0; b < f->B; b++)
        memcpy(f->x + b * C, f->pass->x + b * f->T * C, row);
    f->k->layers->layernorm_forward(f->B, C, (float)f->model->config.norm_eps, f->x,
                                    param(f, NORM_W), param(f, NORM_B), normed, f->mean,
                                    f->rstd);
    for (int64_t b = 0; b < f->B; b++) {
        memcpy(f->xn + b * (C + 1), normed + b * C, row);
        f->xn[b * (C + 1) + C] = 1;
    }
    for (int64_t v = 0; v < f->V; v++) {
        memcpy(f->w + v * (C + 1), param(f, HEAD_W) + v * C, row);
        f->w[v * (C + 1) + C] = param(f, HEAD_B)[v];
    }
}

static void head_logits(const frame *f, float *out) {
    int64_t in = f->C + 1;
    f->k->gemm(false, true, f->B, f->V, in, 1, f->xn, in, f->w, in, 0, out, f->V);
}

/* The number of images whose class has the largest logit; of equal logits the first one
 * counts. */
static double count_hits(const frame *f) {
    double hits = 0;
    head_logits(f, f->logits);
    for (int64_t b = 0; b < f->B; b++) {
        const float *row = f->logits + b * f->V;
        int64_t best = 0;
        for (int64_t v = 1; v < f->V; v++)
            if (row[v] > row[best]) best = v;
        hits += best == f->pass->targets[b];
    }
    return hits;
}

static void head_loss(const frame *f, float *dxn) {
    f->k->layers->head_loss(f->B, f->C + 1, f->V, f->xn, f->w, f->pass->targets, 0,
                            f->pass->grad_scale, f->pass->loss_sum, dxn,
                            dxn ? f->dw : NULL, true, f->rest);
}

static void head_forward(const frame *f) {
    if (f->pass->training) return;
    head_input(f);
    head_loss(f, NULL);
    if (f->pass->hits) *f->pass->hits += count_hits(f);
}

/* Adds the gradient of the joined matrix and bias to the gradients of the two. */
static void split_gradient(const frame *f) {
    for (int64_t v = 0; v < f->V; v++) {
        f->k->accumulate(f->C, f->dw + v * (f->C + 1), grad(f, HEAD_W) + v * f->C);
        grad(f, HEAD_B)[v] += f->dw[v * (f->C + 1) + f->C];
    }
}

static void head_backward(const frame *f) {
    int64_t C = f->C;
    size_t row = (size_t)C * sizeof(float);
    float *dy = f->pass->dy, *d = f->xn; /* d [B,C]: xn is no longer needed */
    head_input(f);
    head_loss(f, f->dxn);
    split_gradient(f);
    for (int64_t b = 0; b < f->B; b++) memcpy(d + b * C, f->dxn + b * (C + 1), row);
    memset(f->dx, 0, (size_t)f->B * row);
    f->k->layers->layernorm_backward(f->B, C, f->x, param(f, NORM_W), f->mean, f->rstd, d,
                                     f->dx, grad(f, NORM_W), grad(f, NORM_B));
    memset(dy, 0, (size_t)(f->B * f->T) * row);
    for (int64_t b = 0; b < f->B; b++) memcpy(dy + b * f->T * C, f->dx + b * C, row);
}

/* ---- the table ---- */

static void logits(const weft_model *model, const wefti_pass *pass, float *out) {
    frame f = frame_of(model, model->n_units - 1, pass);
    head_input(&f);
    head_logits(&f, out);
}

static void forward(const weft_model *model, int u, const wefti_pass *pass) {
    frame f = frame_of(model, u, pass);
    switch (model->units[u].kind) {
    case WEFTI_EMBED: embed_forward(&f); break;
    case WEFTI_BLOCK: wefti_decoder_forward(model, u, pass); break;
    case WEFTI_HEAD: head_forward(&f); break;
    }
}

static void backward(const weft_model *model, int u, const wefti_pass *pass) {
    frame f = frame_of(model, u, pass);
    switch (model->units[u].kind) {
    case WEFTI_EMBED: embed_backward(&f); break;
    case WEFTI_BLOCK: wefti_decoder_backward(model, u, pass); break;
    case WEFTI_HEAD: head_backward(&f); break;
    }
}

/* The product of the patches computes no gradient of its input; the head uses one position. */
static double unit_flop(const weft_model *model, int u, int64_t T) {
    const weft_model_config *c = &model->config;
    double C = (double)c->width, all = 6 * wefti_unit_matrices(&model->units[u]);
    frame f = sizes_of(model, 1, T);
    if (u == 0) return 4 * C * (double)f.values * (double)f.patches / (double)T;
    if (u == model->n_units - 1) return all / (double)T;
    return all + 12 * C * (double)T;
}

const wefti_model_ops wefti_model_vit = {
    .name = "vit",
    .summary = "ViT: classes of images, patches, class token, GELU "
               "(Dosovitskiy et al. 2021)",
    .input = WEFTI_INPUT_IMAGES,
    .check = check,
    .layout = layout,
    .saved_floats = wefti_decoder_saved_floats,
    .scratch_floats = scratch_floats,
    .forward = forward,
    .backward = backward,
    .logits = logits,
    .unit_flop = unit_flop,
    .describe_json = wefti_describe_vit,
    .traits = &vit,
};
