/* SPDX-License-Identifier: MIT */
/* LLaMA (Touvron et al. 2023; grouped queries: Llama 2) and OLMo 2 (OLMo team 2024).
 * Without biases; a(.) is causal attention with rotary positions, m(.) the SwiGLU
 * feed-forward: llama:  h = x + drop(a(norm1(x)))    y = h + drop(m(norm2(h))) olmo2:  h
 * = x + drop(norm1(a(x)))    y = h + drop(norm2(m(h))) both:   loss =
 * cross-entropy(norm(x_L) W^T) olmo2, and llama with qk_norm, norm queries and keys
 * before rotating. Names and [out,in] shapes are those of Hugging Face's LlamaForCausalLM
 * and Olmo2ForCausalLM. */
#include <math.h>

#include "base/memory.h"
#include "model/decoder.h"
#include "model/describe.h"
#include "model/pieces.h"
#include "model/units.h"

enum { FFN_MULTIPLE = 64 };
enum { NORM_F }; /* the head's norm */

/* ---- description ---- */

static weft_status check_head_width(weft_ctx *ctx, const weft_model_config *c) {
    int64_t D = c->width / c->heads;
    if (D % 2 == 0) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "model.width is %lld and model.heads %lld: heads of %lld columns, "
        "expected an even number for rotary positions",
        (long long)c->width, (long long)c->heads, (long long)D);
}

/* The default width of the feed-forward: 8/3 C, so that three matrices weigh as much as
 * GPT-2's two, rounded up to a multiple of 64. */
static int64_t default_ffn(int64_t C) {
    int64_t F = (8 * C + 2) / 3;
    return (F + FFN_MULTIPLE - 1) / FFN_MULTIPLE * FFN_MULTIPLE;
}

/* norm_eps as in the Llama 2 and 3 releases, rope_theta as in LLaMA. */
static weft_status check_llama(weft_ctx *ctx, weft_model_config *c) {
    WEFT_TRY(check_head_width(ctx, c));
    if (c->tied < 0) c->tied = false;
    if (c->qk_norm < 0) c->qk_norm = false;
    if (c->ffn == 0) c->ffn = default_ffn(c->width);
    if (c->norm_eps == 0) c->norm_eps = 1e-5;
    if (c->rope_theta == 0) c->rope_theta = 10000;
    if (c->init_std == 0) c->init_std = 0.02;
    return WEFT_OK;
}

/* The numbers of the OLMo 2 paper; queries and keys are always normed. */
static weft_status check_olmo2(weft_ctx *ctx, weft_model_config *c) {
    if (c->norm_eps == 0) c->norm_eps = 1e-6;
    if (c->rope_theta == 0) c->rope_theta = 500000;
    c->qk_norm = true;
    return check_llama(ctx, c);
}

/* cos_sin[T][D] for rope: position t turns pair i by t theta^(-2i/D). */
static weft_status build_tables(weft_ctx *ctx, weft_model *model) {
    const weft_model_config *c = &model->config;
    int64_t D = c->width / c->heads;
    WEFT_TRY(wefti_alloc_n(ctx, c->context * D, sizeof(float), "the rotary table",
                           &model->tables));
    for (int64_t i = 0; i < D / 2; i++) {
        double frequency = pow(c->rope_theta, -2.0 * (double)i / (double)D);
        for (int64_t t = 0; t < c->context; t++) {
            model->tables[t * D + i] = (float)cos((double)t * frequency);
            model->tables[t * D + D / 2 + i] = (float)sin((double)t * frequency);
        }
    }
    return WEFT_OK;
}

/* Initial values: N(0, 0.02), gains 1. llama scales the branches' last products by
 * 1/sqrt(2L) as GPT-2 does; the OLMo 2 paper draws all matrices alike. */
static weft_status layout(weft_ctx *ctx, weft_model *model) {
    const weft_model_config *c = &model->config;
    int64_t C = c->width, F = c->ffn, HD = C, KD = C / c->heads * c->kv_heads;
    bool olmo2 = model->ops->post_norm;
    double std = c->init_std, last = olmo2 ? std : std / sqrt(2.0 * (double)c->layers);
    const char *norm1 = olmo2 ? "post_attention_layernorm.weight"
                              : "input_layernorm.weight";
    const char *norm2 = olmo2 ? "post_feedforward_layernorm.weight"
                              : "post_attention_layernorm.weight";
    const wefti_param_spec embed[] = {{"model.embed_tokens.weight", c->vocab, C, 0, std}};
    const wefti_param_spec block[] = {
        [WEFTI_NORM1] = {norm1, C, 0, 1, 0},
        [WEFTI_Q] = {"self_attn.q_proj.weight", HD, C, 0, std},
        [WEFTI_K] = {"self_attn.k_proj.weight", KD, C, 0, std},
        [WEFTI_V] = {"self_attn.v_proj.weight", KD, C, 0, std},
        [WEFTI_O] = {"self_attn.o_proj.weight", C, HD, 0, last},
        [WEFTI_NORM2] = {norm2, C, 0, 1, 0},
        [WEFTI_GATE] = {"mlp.gate_proj.weight", F, C, 0, std},
        [WEFTI_UP] = {"mlp.up_proj.weight", F, C, 0, std},
        [WEFTI_DOWN] = {"mlp.down_proj.weight", C, F, 0, last},
        [WEFTI_Q_NORM] = {"self_attn.q_norm.weight", HD, 0, 1, 0}, /* only with qk_norm */
        [WEFTI_K_NORM] = {"self_attn.k_norm.weight", KD, 0, 1, 0},
    };
    const wefti_param_spec head[] = {
        [NORM_F] = {"model.norm.weight", C, 0, 1, 0},
        {"lm_head.weight", c->vocab, C, 0, std}, /* only when not tied */
    };
    const wefti_model_spec spec = {embed,
                                   block,
                                   head,
                                   1,
                                   c->qk_norm ? WEFTI_DECODER_PARAMS : WEFTI_Q_NORM,
                                   c->tied ? 1 : 2,
                                   "model.layers."};
    WEFT_TRY(wefti_units_build(ctx, model, &spec));
    return build_tables(ctx, model);
}

/* ---- a block of llama ---- */

static void pre_norm_forward(const wefti_decoder_view *f) {
    float *a = f->w.a, *y = f->pass->y;
    wefti_decoder_norm(f, WEFTI_NORM1, f->pass->x, a, f->s.rstd1);
    wefti_decoder_attention(f, a, y);
    wefti_drop(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, y);
    f->k->add(f->N * f->C, f->pass->x, y, f->s.mid);
    wefti_decoder_norm(f, WEFTI_NORM2, f->s.mid, a, f->s.rstd2);
    wefti_decoder_ffn(f, a, y);
    wefti_drop(f->model, f->unit, WEFTI_DROP_SECOND, f->pass, y);
    f->k->accumulate(f->N * f->C, f->s.mid, y);
}

static void pre_norm_backward(const wefti_decoder_view *f) {
    float *a = f->w.a, *b = f->w.b, *dy = f->pass->dy;
    const float *d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_SECOND, f->pass,
                                         b);
    wefti_decoder_norm(f, WEFTI_NORM2, f->s.mid, a, f->s.rstd2);
    wefti_decoder_ffn_backward(f, a, d, b);
    wefti_decoder_norm_backward(f, WEFTI_NORM2, f->s.mid, f->s.rstd2, b, b);
    f->k->accumulate(f->N * f->C, b, dy); /* dy is now dh */
    d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, b);
    wefti_decoder_norm(f, WEFTI_NORM1, f->pass->x, a, f->s.rstd1);
    wefti_decoder_attention_backward(f, a, d, b);
    wefti_decoder_norm_backward(f, WEFTI_NORM1, f->pass->x, f->s.rstd1, b, b);
    f->k->accumulate(f->N * f->C, b, dy);
}

/* ---- a block of olmo2 ---- */

/* h[N,C] = x + drop(norm1(mid)) */
static void post_norm_middle(const wefti_decoder_view *f, float *h) {
    wefti_decoder_norm(f, WEFTI_NORM1, f->s.mid, h, f->s.rstd1);
    wefti_drop(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, h);
    f->k->accumulate(f->N * f->C, f->pass->x, h);
}

static void post_norm_forward(const wefti_decoder_view *f) {
    float *h = f->w.a, *y = f->pass->y;
    wefti_decoder_attention(f, f->pass->x, f->s.mid);
    post_norm_middle(f, h);
    wefti_decoder_ffn(f, h, f->s.out);
    wefti_decoder_norm(f, WEFTI_NORM2, f->s.out, y, f->s.rstd2);
    wefti_drop(f->model, f->unit, WEFTI_DROP_SECOND, f->pass, y);
    f->k->accumulate(f->N * f->C, h, y);
}

static void post_norm_backward(const wefti_decoder_view *f) {
    float *h = f->w.a, *b = f->w.b, *dy = f->pass->dy;
    const float *d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_SECOND, f->pass,
                                         b);
    wefti_decoder_norm_backward(f, WEFTI_NORM2, f->s.out, f->s.rstd2, d, b);
    post_norm_middle(f, h);
    wefti_decoder_ffn_backward(f, h, b, b);
    f->k->accumulate(f->N * f->C, b, dy); /* dy is now dh */
    d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, b);
    wefti_decoder_norm_backward(f, WEFTI_NORM1, f->s.mid, f->s.rstd1, d, b);
    wefti_decoder_attention_backward(f, f->pass->x, b, b);
    f->k->accumulate(f->N * f->C, b, dy);
}

/* ---- the head ---- */

static void head_forward(const wefti_decoder_view *f) {
    if (f->pass->training) return;
    wefti_decoder_norm(f, NORM_F, f->pass->x, f->w.a, f->w.rstd);
    wefti_head_loss(f->model, f->pass, f->w.a, NULL, f->w.rest);
}

static void head_backward(const wefti_decoder_view *f) {
    wefti_decoder_norm(f, NORM_F, f->pass->x, f->w.a, f->w.rstd);
    wefti_head_loss(f->model, f->pass, f->w.a, f->w.b, f->w.rest);
    wefti_decoder_norm_backward(f, NORM_F, f->pass->x, f->w.rstd, f->w.b, f->pass->dy);
}

static void logits(const weft_model *model, const wefti_pass *pass, float *out) {
    wefti_decoder_view f = wefti_decoder_frame(model, model->n_units - 1, pass);
    wefti_decoder_norm(&f, NORM_F, pass->x, f.w.a, f.w.rstd);
    wefti_head_logits(model, pass, f.w.a, out);
}

/* ---- the tables ---- */

static void forward(const weft_model *model, int unit, const wefti_pass *pass) {
    wefti_decoder_view f = wefti_decoder_frame(model, unit, pass);
    switch (model->units[unit].kind) {
    case WEFTI_EMBED: wefti_embed_forward(model, pass); break;
    case WEFTI_BLOCK:
        model->ops->post_norm ? post_norm_forward(&f) : pre_norm_forward(&f);
        break;
    case WEFTI_HEAD: head_forward(&f); break;
    }
}

static void backward(const weft_model *model, int unit, const wefti_pass *pass) {
    wefti_decoder_view f = wefti_decoder_frame(model, unit, pass);
    switch (model->units[unit].kind) {
    case WEFTI_EMBED: wefti_embed_backward(model, pass); break;
    case WEFTI_BLOCK:
        model->ops->post_norm ? post_norm_backward(&f) : pre_norm_backward(&f);
        break;
    case WEFTI_HEAD: head_backward(&f); break;
    }
}

const wefti_model_ops wefti_model_llama = {
    .name = "llama",
    .summary =
        "LLaMA: RMSNorm, rotary positions, SwiGLU, grouped queries (Touvron et al. 2023)",
    .check = check_llama,
    .layout = layout,
    .saved_floats = wefti_decoder_saved_floats,
    .scratch_floats = wefti_decoder_scratch_floats,
    .forward = forward,
    .backward = backward,
    .logits = logits,
    .flop_per_token = wefti_units_flop_per_token,
    .describe_json = wefti_describe_llama,
};

const wefti_model_ops wefti_model_olmo2 = {
    .name = "olmo2",
    .summary =
        "OLMo 2: as llama, norms after the branches and on queries and keys (2024)",
    .check = check_olmo2,
    .layout = layout,
    .saved_floats = wefti_decoder_saved_floats,
    .scratch_floats = wefti_decoder_scratch_floats,
    .forward = forward,
    .backward = backward,
    .logits = logits,
    .flop_per_token = wefti_units_flop_per_token,
    .describe_json = wefti_describe_llama,
    .post_norm = true,
};
