/* SPDX-License-Identifier: MIT */
/* GPT-2 (Radford et al. 2019): learned positions, LayerNorm before each branch, GELU.
 *     x0 = wte[token] + wpe[t]
 *     h  = x + drop(attention(LN1(x) Wqkv + bqkv) Wp + bp)
 *     y  = h + drop(gelu(LN2(h) W1 + b1) W2 + b2)
 *     loss = cross-entropy(LNf(x_L) wte^T)
 * Names and shapes are those of Hugging Face's GPT2LMHeadModel: the blocks' matrices are
 * [in,out] (Conv1D), so nothing is transposed when saving. Saved for backward: q|k|v, the
 * attention's output and lse, h, what the feed-forward saves, and the norms' statistics;
 * the norms' outputs and, in f32, GELU are computed again. Where the kernels take it q|k|v, the
 * attention's output, those of the norms and their gradients, which only these kernels and
 * products read, are in bfloat16. */
#include <math.h>

#include "model/describe.h"
#include "model/families.h"
#include "model/past.h"
#include "model/pieces.h"
#include "model/units.h"

enum {
    LN1_W,
    LN1_B,
    QKV_W,
    QKV_B,
    PROJ_W,
    PROJ_B,
    LN2_W,
    LN2_B,
    FC_W,
    FC_B,
    OUT_W,
    OUT_B,
    N_BLOCK
};
enum { LNF_W, LNF_B };

typedef struct saved {
    float *qkv;                           /* [N,3C] q|k|v */
    float *o;                             /* [N,C] attention's output */
    float *lse;                           /* [B,H,T] */
    float *h;                             /* [N,C] between the branches */
    float *f;                             /* see wefti_ffn_saved */
    float *mean1, *rstd1, *mean2, *rstd2; /* [N] */
} saved;

typedef struct scratch {
    float *a, *b;       /* [N,C] */
    float *mean, *rstd; /* [N] of the head's norm */
    float *wide;        /* [N,max(F,3C)]; the head's kernel scratch begins here too */
    float *attention;   /* kernel scratch */
} scratch;

/* The data of one call. */
typedef struct frame {
    const weft_model *model;
    const wefti_pass *pass;
    const wefti_kernels *k;
    const wefti_param *p;
    int unit;
    int64_t N, C, F;
    float eps;
    saved s;
    scratch w;
} frame;

/* ---- description ---- */

static weft_status check(weft_ctx *ctx, weft_model_config *c) {
    if (c->kv_heads != c->heads)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "model.kv_heads is %lld, expected model.heads (%lld): gpt2 "
                             "has no grouped queries",
                             (long long)c->kv_heads, (long long)c->heads);
    unsigned extras = wefti_traits_wanted(c) & ~(unsigned)WEFTI_KNOWS_QK_NORM;
    if (extras || c->head_dim * c->heads != c->width)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "gpt2 has no windows, caps, multipliers, rotary "
                             "positions, optional biases and heads but of width / "
                             "heads columns");
    if (c->qk_norm)
        return wefti_model_refuse(ctx, "qk_norm", 1,
                                  "0: gpt2 has no norm of queries and keys");
    if (c->rope_theta != 0)
        return wefti_model_refuse(ctx, "rope_theta", c->rope_theta,
                                  "0: gpt2 has learned positions");
    if (c->ffn == 0) c->ffn = 4 * c->width;
    if (c->norm_eps == 0) c->norm_eps = 1e-5;
    if (c->init_std == 0) c->init_std = 0.02;
    return WEFT_OK;
}

/* Initial values: N(0, 0.02), the residual branches' last products scaled by 1/sqrt(2L)
 * (section 2.3 of the GPT-2 paper), biases 0, gains 1. Positions get the same 0.02 as
 * Hugging Face's GPT2PreTrainedModel gives them (OpenAI's released code has 0.01). */
static weft_status layout(weft_ctx *ctx, weft_model *model) {
    const weft_model_config *c = &model->config;
    int64_t V = c->vocab, C = c->width, F = c->ffn;
    double std = c->init_std, residual = std / sqrt(2.0 * (double)c->layers);
    const wefti_param_spec embed[] = {
        {"transformer.wte.weight", V, C, 0, std},
        {"transformer.wpe.weight", c->context, C, 0, std},
    };
    const wefti_param_spec block[] = {
        [LN1_W] = {"ln_1.weight", C, 0, 1, 0},
        [LN1_B] = {"ln_1.bias", C, 0, 0, 0},
        [QKV_W] = {"attn.c_attn.weight", C, 3 * C, 0, std},
        [QKV_B] = {"attn.c_attn.bias", 3 * C, 0, 0, 0},
        [PROJ_W] = {"attn.c_proj.weight", C, C, 0, residual},
        [PROJ_B] = {"attn.c_proj.bias", C, 0, 0, 0},
        [LN2_W] = {"ln_2.weight", C, 0, 1, 0},
        [LN2_B] = {"ln_2.bias", C, 0, 0, 0},
        [FC_W] = {"mlp.c_fc.weight", C, F, 0, std},
        [FC_B] = {"mlp.c_fc.bias", F, 0, 0, 0},
        [OUT_W] = {"mlp.c_proj.weight", F, C, 0, residual},
        [OUT_B] = {"mlp.c_proj.bias", C, 0, 0, 0},
    };
    const wefti_param_spec head[] = {
        [LNF_W] = {"transformer.ln_f.weight", C, 0, 1, 0},
        [LNF_B] = {"transformer.ln_f.bias", C, 0, 0, 0},
        {"lm_head.weight", V, C, 0, std}, /* only when not tied */
    };
    const wefti_model_spec spec = {embed,           block,           head, 2, N_BLOCK,
                                   c->tied ? 2 : 3, "transformer.h."};
    WEFT_TRY(wefti_units_build(ctx, model, &spec));
    for (int u = 1; u <= c->layers; u++) {
        wefti_param *p = model->params + (model->units[u].params - model->params);
        for (int i = 0; i < N_BLOCK; i++) p[i].cols_are_outputs = p[i].hidden;
        p[QKV_W].parts = 3;
    }
    return WEFT_OK;
}

/* ---- buffers ---- */

/* Without kernels, with sides, everything is f32. */
static wefti_attention_shape attention_shape(const weft_model *model, int64_t B,
                                             int64_t T, const wefti_kernels *kernels) {
    int64_t C = model->config.width, H = model->config.heads;
    wefti_attention_shape s = {.B = B,
                               .T = T,
                               .H = H,
                               .K = H,
                               .D = C / H,
                               .ld_q = 3 * C,
                               .ld_kv = 3 * C,
                               .ld_o = C,
                               .scale = (float)(1.0 / sqrt((double)(C / H)))};
    s.half = kernels && kernels->layers->attention_halves &&
             kernels->layers->attention_halves(&s) && C <= WEFTI_MIXED_TERMS;
    return s;
}

static int64_t lay_saved(const weft_model *model, int64_t B, int64_t T,
                         const wefti_kernels *kernels, float *base, saved *s) {
    int64_t N = B * T, C = model->config.width;
    wefti_room room = {base, 0};
    bool half = attention_shape(model, B, T, kernels).half;
    s->qkv = wefti_room_take(&room, half ? (N * 3 * C + 1) / 2 : N * 3 * C);
    s->o = wefti_room_take(&room, half ? (N * C + 1) / 2 : N * C);
    s->lse = wefti_room_take(&room, N * model->config.heads);
    s->h = wefti_room_take(&room, N * C);
    s->f = wefti_room_take(
        &room, wefti_ffn_saved(kernels, C, N, model->config.ffn, model->config.ffn));
    s->mean1 = wefti_room_take(&room, N);
    s->rstd1 = wefti_room_take(&room, N);
    s->mean2 = wefti_room_take(&room, N);
    s->rstd2 = wefti_room_take(&room, N);
    return room.used;
}

static int64_t saved_floats(const weft_model *model, int unit, int64_t B, int64_t T,
                            const wefti_kernels *kernels) {
    saved s;
    if (model->units[unit].kind != WEFTI_BLOCK) return 0;
    return lay_saved(model, B, T, kernels, NULL, &s);
}

/* Divides the scratch; returns the number of floats before `wide`, and places `attention`
 * after it. */
static int64_t lay_scratch(const weft_model *model, int64_t B, int64_t T, float *base,
                           scratch *w, int64_t *wide_floats) {
    int64_t N = B * T, C = model->config.width, F = model->config.ffn;
    wefti_room room = {base, 0};
    w->a = wefti_room_take(&room, N * C);
    w->b = wefti_room_take(&room, N * C);
    w->mean = wefti_room_take(&room, N);
    w->rstd = wefti_room_take(&room, N);
    int64_t before = room.used;
    w->wide = wefti_room_take(&room, N * (F > 3 * C ? F : 3 * C));
    *wide_floats = room.used - before;
    w->attention = wefti_room_take(&room, 0);
    return before;
}

static int64_t scratch_floats(const weft_model *model, int64_t B, int64_t T, int threads,
                              const wefti_kernels *kernels) {
    scratch w;
    int64_t wide;
    int64_t before = lay_scratch(model, B, T, NULL, &w, &wide);
    wefti_attention_shape shape = attention_shape(model, B, T, kernels);
    int64_t block = wide + kernels->layers->attention_scratch(&shape, threads);
    int64_t head = kernels->layers->head_scratch(B * T, model->config.vocab, threads);
    return before + (block > head ? block : head);
}

static frame frame_of(const weft_model *model, int unit, const wefti_pass *pass) {
    int64_t wide;
    frame f = {.model = model,
               .pass = pass,
               .k = pass->kernels,
               .p = model->units[unit].params,
               .unit = unit,
               .N = pass->B * pass->T,
               .C = model->config.width,
               .F = model->config.ffn,
               .eps = (float)model->config.norm_eps};
    if (model->units[unit].kind == WEFTI_BLOCK)
        lay_saved(model, pass->B, pass->T, pass->side ? NULL : f.k, pass->saved, &f.s);
    lay_scratch(model, pass->B, pass->T, pass->scratch, &f.w, &wide);
    return f;
}

static const float *param(const frame *f, int i) {
    return wefti_unit_param(&f->model->units[f->unit], f->pass, i);
}

static float *grad(const frame *f, int i) {
    return wefti_unit_grad(&f->model->units[f->unit], f->pass, i);
}

/* The product whose matrix is parameter i and whose bias is the one after it. */
static wefti_linear linear(const frame *f, int i) {
    return (wefti_linear){
        .N = f->N,
        .in = f->p[i].rows,
        .out = f->p[i].cols,
        .in_out = true,
        .w = param(f, i),
        .b = param(f, i + 1),
        .dw = grad(f, i),
        .db = grad(f, i + 1),
        .fresh = f->pass->fresh,
        .side = wefti_side_of(f->model, f->unit, f->pass, i, f->p[i].cols)};
}

static void norm(const frame *f, int i, const float *x, float *y, float *mean,
                 float *rstd) {
    f->k->layers->layernorm_forward(f->N, f->C, f->eps, x, param(f, i), param(f, i + 1),
                                    y, mean, rstd);
}

/* ---- a block ---- */

static wefti_attention_shape attention_of(const frame *f) {
    return attention_shape(f->model, f->pass->B, f->pass->T, f->pass->side ? NULL : f->k);
}

static wefti_ffn feed_forward(const frame *f) {
    wefti_ffn ffn = {.in = linear(f, FC_W),
                     .out = linear(f, OUT_W),
                     .curve = WEFTI_CURVE_GELU,
                     .sided = f->pass->side != NULL,
                     .saved = f->s.f,
                     .active = f->w.wide,
                     .gradient = f->w.wide};
    ffn.in.half_x = attention_of(f).half;
    return ffn;
}

/* A norm of the block: its output, and dy, are bfloat16 where attention is. */
static void block_norm(const frame *f, int i, const float *x, float *mean, float *rstd) {
    if (attention_of(f).half)
        f->k->layers->layernorm_forward_half(f->N, f->C, f->eps, x, param(f, i),
                                             param(f, i + 1), (uint16_t *)(void *)f->w.a,
                                             mean, rstd);
    else
        norm(f, i, x, f->w.a, mean, rstd);
}

static void block_norm_backward(const frame *f, int i, const float *x, const float *mean,
                                const float *rstd) {
    float *dx = f->pass->dy, *dgain = grad(f, i), *dbias = grad(f, i + 1);
    if (attention_of(f).half)
        f->k->layers->layernorm_backward_half(f->N, f->C, x, param(f, i), mean, rstd,
                                              (uint16_t *)(void *)f->w.b, dx, dgain,
                                              dbias);
    else
        f->k->layers->layernorm_backward(f->N, f->C, x, param(f, i), mean, rstd, f->w.b,
                                         dx, dgain, dbias);
}

/* q, k or v (i = 0, 1, 2) of rows q|k|v. */
static float *part_of(const frame *f, bool half, float *qkv, int64_t i) {
    return (float *)(void *)((char *)qkv + i * f->C * (half ? 2 : 4));
}

static void block_forward(const frame *f) {
    const wefti_kernels *k = f->k;
    const saved *s = &f->s;
    wefti_linear qkv = linear(f, QKV_W), proj = linear(f, PROJ_W);
    wefti_ffn ffn = feed_forward(f);
    wefti_attention_shape shape = attention_of(f);
    bool half = qkv.half_x = qkv.half_y = proj.half_x = shape.half;
    proj.plus = wefti_residual(f->model, f->pass, f->pass->x);
    ffn.out.plus = wefti_residual(f->model, f->pass, s->h);

    block_norm(f, LN1_W, f->pass->x, s->mean1, s->rstd1);
    wefti_linear_forward(k, &qkv, f->w.a, s->qkv);
    wefti_past_attend(f->pass, &shape, s->qkv, part_of(f, half, s->qkv, 1),
                      part_of(f, half, s->qkv, 2), s->o, s->lse, f->w.attention);
    wefti_linear_forward(k, &proj, s->o, s->h);
    wefti_drop_and_add(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, f->pass->x, s->h);

    block_norm(f, LN2_W, s->h, s->mean2, s->rstd2);
    wefti_ffn_forward(k, &ffn, f->w.a, f->pass->y);
    wefti_drop_and_add(f->model, f->unit, WEFTI_DROP_SECOND, f->pass, s->h, f->pass->y);
}

/* Converts dy to dh. */
static void ffn_backward(const frame *f) {
    const wefti_kernels *k = f->k;
    const saved *s = &f->s;
    float *a = f->w.a, *b = f->w.b;
    wefti_ffn ffn = feed_forward(f);
    const float *d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_SECOND, f->pass,
                                         b);
    block_norm(f, LN2_W, s->h, s->mean2, s->rstd2);
    wefti_ffn_backward(k, &ffn, a, d, b);
    block_norm_backward(f, LN2_W, s->h, s->mean2, s->rstd2);
}

/* Converts dy, which contains dh, to dx. */
static void attention_backward(const frame *f) {
    const wefti_kernels *k = f->k;
    const saved *s = &f->s;
    float *a = f->w.a, *b = f->w.b, *dqkv = f->w.wide;
    wefti_linear qkv = linear(f, QKV_W), proj = linear(f, PROJ_W);
    wefti_attention_shape shape = attention_of(f);
    bool half = qkv.half_x = qkv.half_y = proj.half_x = shape.half;
    const float *d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, a);
    wefti_linear_backward(k, &proj, s->o, d, b);
    k->layers->attention_backward(&shape, s->qkv, part_of(f, half, s->qkv, 1),
                                  part_of(f, half, s->qkv, 2), s->o, s->lse, b, dqkv,
                                  part_of(f, half, dqkv, 1), part_of(f, half, dqkv, 2),
                                  f->w.attention);
    block_norm(f, LN1_W, f->pass->x, s->mean1, s->rstd1);
    wefti_linear_backward(k, &qkv, a, dqkv, b);
    block_norm_backward(f, LN1_W, f->pass->x, s->mean1, s->rstd1);
}

/* ---- the head ---- */

static void head_forward(const frame *f) {
    if (f->pass->training) return;
    norm(f, LNF_W, f->pass->x, f->w.a, f->w.mean, f->w.rstd);
    wefti_head_loss(f->model, f->pass, f->w.a, NULL, f->w.wide);
}

static void head_backward(const frame *f) {
    norm(f, LNF_W, f->pass->x, f->w.a, f->w.mean, f->w.rstd);
    wefti_head_loss(f->model, f->pass, f->w.a, f->w.b, f->w.wide);
    f->k->clear(f->N * f->C, f->pass->dy);
    f->k->layers->layernorm_backward(f->N, f->C, f->pass->x, param(f, LNF_W), f->w.mean,
                                     f->w.rstd, f->w.b, f->pass->dy, grad(f, LNF_W),
                                     grad(f, LNF_B));
}

static void logits(const weft_model *model, const wefti_pass *pass, float *out) {
    frame f = frame_of(model, model->n_units - 1, pass);
    norm(&f, LNF_W, pass->x, f.w.a, f.w.mean, f.w.rstd);
    wefti_head_logits(model, pass, f.w.a, out);
}

/* ---- the table ---- */

static void forward(const weft_model *model, int unit, const wefti_pass *pass) {
    frame f = frame_of(model, unit, pass);
    switch (model->units[unit].kind) {
    case WEFTI_EMBED: wefti_embed_forward(model, pass); break;
    case WEFTI_BLOCK: block_forward(&f); break;
    case WEFTI_HEAD: head_forward(&f); break;
    }
}

static void backward(const weft_model *model, int unit, const wefti_pass *pass) {
    frame f = frame_of(model, unit, pass);
    switch (model->units[unit].kind) {
    case WEFTI_EMBED: wefti_embed_backward(model, pass); break;
    case WEFTI_BLOCK:
        ffn_backward(&f);
        attention_backward(&f);
        break;
    case WEFTI_HEAD: head_backward(&f); break;
    }
}

const wefti_model_ops wefti_model_gpt2 = {
    .name = "gpt2",
    .summary = "GPT-2: LayerNorm, learned positions, GELU (Radford et al. 2019)",
    .check = check,
    .layout = layout,
    .saved_floats = saved_floats,
    .scratch_floats = scratch_floats,
    .forward = forward,
    .backward = backward,
    .logits = logits,
    .unit_flop = wefti_units_flop,
    .describe_json = wefti_describe_gpt2,
    .tied = true,
};
