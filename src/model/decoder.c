/* SPDX-License-Identifier: MIT */
/* The branches that the blocks of llama and olmo2 share:
 *
 *     attention   h + o(softmax(rope(q) rope(k)^T / sqrt(D)) v)       K <= H key heads
 *     ffn         h + down(silu(gate x) * (up x))                     SwiGLU
 *
 * forward and backward; where the norms stand is the business of llama.c. A view lays out
 * what one call works on: parameters, what is saved for the backward, scratch. */
#include "model/decoder.h"

#include <math.h>

#include "model/pieces.h"
#include "model/units.h"

/* ---- buffers ---- */

static void lay_sizes(const weft_model *model, int64_t B, int64_t T,
                      wefti_decoder_view *f) {
    const weft_model_config *c = &model->config;
    f->model = model;
    f->N = B * T;
    f->C = c->width;
    f->F = c->ffn;
    f->HD = c->width;
    f->KD = c->width / c->heads * c->kv_heads;
    f->ld = f->HD + 2 * f->KD;
    f->eps = (float)c->norm_eps;
}

static int64_t lay_saved(wefti_decoder_view *f, float *base) {
    const weft_model_config *c = &f->model->config;
    bool post_norm = f->model->ops->post_norm;
    wefti_room room = {base, 0};
    f->s.qkv = wefti_room_take(&room, f->N * f->ld);
    f->s.o = wefti_room_take(&room, f->N * f->HD);
    f->s.lse = wefti_room_take(&room, f->N * c->heads);
    f->s.gu = wefti_room_take(&room, f->N * 2 * f->F);
    f->s.mid = wefti_room_take(&room, f->N * f->C);
    f->s.out = wefti_room_take(&room, post_norm ? f->N * f->C : 0);
    f->s.rstd1 = wefti_room_take(&room, f->N);
    f->s.rstd2 = wefti_room_take(&room, f->N);
    f->s.rstd_q = wefti_room_take(&room, c->qk_norm ? f->N : 0);
    f->s.rstd_k = wefti_room_take(&room, c->qk_norm ? f->N : 0);
    return room.used;
}

typedef struct scratch_sizes {
    int64_t before;    /* up to `rest` */
    int64_t ffn;       /* the feed-forward's set */
    int64_t attention; /* the attention's set without its kernel scratch */
} scratch_sizes;

static scratch_sizes lay_scratch(wefti_decoder_view *f, float *base) {
    wefti_room room = {base, 0};
    f->w.a = wefti_room_take(&room, f->N * f->C);
    f->w.b = wefti_room_take(&room, f->N * f->C);
    f->w.rstd = wefti_room_take(&room, f->N);
    f->w.rest = wefti_room_take(&room, 0);
    wefti_room ffn = {f->w.rest, 0}, attention = {f->w.rest, 0};
    f->w.s = wefti_room_take(&ffn, f->N * f->F);
    f->w.dgu = wefti_room_take(&ffn, f->N * 2 * f->F);
    f->w.d_o = wefti_room_take(&attention, f->N * f->HD);
    f->w.dqkv = wefti_room_take(&attention, f->N * f->ld);
    f->w.qk = wefti_room_take(&attention, f->model->config.qk_norm ? f->N * f->ld : 0);
    f->w.attention = wefti_room_take(&attention, 0);
    return (scratch_sizes){room.used, ffn.used, attention.used};
}

static wefti_attention_shape attention_shape(const wefti_decoder_view *f, int64_t B,
                                             int64_t T) {
    const weft_model_config *c = &f->model->config;
    int64_t D = c->width / c->heads;
    return (wefti_attention_shape){.B = B,
                                   .T = T,
                                   .H = c->heads,
                                   .K = c->kv_heads,
                                   .D = D,
                                   .ld_q = f->ld,
                                   .ld_kv = f->ld,
                                   .ld_o = f->HD,
                                   .scale = (float)(1.0 / sqrt((double)D))};
}

int64_t wefti_decoder_saved_floats(const weft_model *model, int unit, int64_t B,
                                   int64_t T) {
    wefti_decoder_view f = {0};
    if (model->units[unit].kind != WEFTI_BLOCK) return 0;
    lay_sizes(model, B, T, &f);
    return lay_saved(&f, NULL);
}

static int64_t max2(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t wefti_decoder_scratch_floats(const weft_model *model, int64_t B, int64_t T,
                                     int threads, const wefti_kernels *kernels) {
    wefti_decoder_view f = {0};
    lay_sizes(model, B, T, &f);
    scratch_sizes sizes = lay_scratch(&f, NULL);
    wefti_attention_shape shape = attention_shape(&f, B, T);
    int64_t attention = sizes.attention + kernels->attention_scratch(&shape, threads);
    int64_t head = kernels->head_scratch(B * T, model->config.vocab, threads);
    return sizes.before + max2(max2(sizes.ffn, attention), head);
}

wefti_decoder_view wefti_decoder_frame(const weft_model *model, int unit,
                                       const wefti_pass *pass) {
    wefti_decoder_view f = {
        .pass = pass, .k = pass->kernels, .p = model->units[unit].params, .unit = unit};
    lay_sizes(model, pass->B, pass->T, &f);
    if (model->units[unit].kind == WEFTI_BLOCK) lay_saved(&f, pass->saved);
    lay_scratch(&f, pass->scratch);
    return f;
}

/* ---- parameters ---- */

static const float *param(const wefti_decoder_view *f, int i) {
    return f->pass->params + f->p[i].offset;
}

static float *grad(const wefti_decoder_view *f, int i) {
    return f->pass->grads ? f->pass->grads + f->p[i].offset : NULL;
}

/* The product with the matrices that begin at parameter i and have `out` rows together.
 */
static wefti_linear linear(const wefti_decoder_view *f, int i, int64_t out) {
    return (wefti_linear){
        .N = f->N, .in = f->p[i].cols, .out = out, .w = param(f, i), .dw = grad(f, i)};
}

void wefti_decoder_norm(const wefti_decoder_view *f, int i, const float *x, float *y,
                        float *rstd) {
    f->k->rmsnorm_forward(f->N, f->C, f->C, f->eps, x, param(f, i), y, rstd);
}

void wefti_decoder_norm_backward(const wefti_decoder_view *f, int i, const float *x,
                                 const float *rstd, const float *dy, float *dx) {
    f->k->rmsnorm_backward(f->N, f->C, f->C, x, param(f, i), rstd, dy, dx, grad(f, i));
}

/* ---- the attention branch ---- */

/* Norms (with qk_norm, into scratch) and rotates queries and keys; returns where they
 * are. */
static float *turn(const wefti_decoder_view *f) {
    const weft_model_config *c = &f->model->config;
    float *qk = f->s.qkv;
    if (c->qk_norm) {
        qk = f->w.qk;
        f->k->rmsnorm_forward(f->N, f->HD, f->ld, f->eps, f->s.qkv,
                              param(f, WEFTI_Q_NORM), qk, f->s.rstd_q);
        f->k->rmsnorm_forward(f->N, f->KD, f->ld, f->eps, f->s.qkv + f->HD,
                              param(f, WEFTI_K_NORM), qk + f->HD, f->s.rstd_k);
    }
    f->k->rope(f->pass->B, f->pass->T, c->heads + c->kv_heads, c->width / c->heads, f->ld,
               f->model->tables, false, qk);
    return qk;
}

/* The way back of turn, on dq|dk in place. */
static void turn_backward(const wefti_decoder_view *f, float *dqk) {
    const weft_model_config *c = &f->model->config;
    f->k->rope(f->pass->B, f->pass->T, c->heads + c->kv_heads, c->width / c->heads, f->ld,
               f->model->tables, true, dqk);
    if (!c->qk_norm) return;
    f->k->rmsnorm_backward(f->N, f->HD, f->ld, f->s.qkv, param(f, WEFTI_Q_NORM),
                           f->s.rstd_q, dqk, dqk, grad(f, WEFTI_Q_NORM));
    f->k->rmsnorm_backward(f->N, f->KD, f->ld, f->s.qkv + f->HD, param(f, WEFTI_K_NORM),
                           f->s.rstd_k, dqk + f->HD, dqk + f->HD, grad(f, WEFTI_K_NORM));
}

void wefti_decoder_attention(const wefti_decoder_view *f, const float *x, float *y) {
    wefti_linear qkv = linear(f, WEFTI_Q, f->ld), out = linear(f, WEFTI_O, f->C);
    wefti_attention_shape shape = attention_shape(f, f->pass->B, f->pass->T);
    wefti_linear_forward(f->k, &qkv, x, f->s.qkv);
    const float *qk = turn(f), *v = f->s.qkv + f->HD + f->KD;
    f->k->attention_forward(&shape, qk, qk + f->HD, v, f->s.o, f->s.lse, f->w.attention);
    wefti_linear_forward(f->k, &out, f->s.o, y);
}

void wefti_decoder_attention_backward(const wefti_decoder_view *f, const float *x,
                                      const float *dy, float *dx) {
    wefti_linear qkv = linear(f, WEFTI_Q, f->ld), out = linear(f, WEFTI_O, f->C);
    wefti_attention_shape shape = attention_shape(f, f->pass->B, f->pass->T);
    const float *qk = f->model->config.qk_norm ? turn(f) : f->s.qkv;
    const float *v = f->s.qkv + f->HD + f->KD;
    float *dq = f->w.dqkv;
    wefti_linear_backward(f->k, &out, f->s.o, dy, f->w.d_o);
    f->k->attention_backward(&shape, qk, qk + f->HD, v, f->s.o, f->s.lse, f->w.d_o, dq,
                             dq + f->HD, dq + f->HD + f->KD, f->w.attention);
    turn_backward(f, dq);
    wefti_linear_backward(f->k, &qkv, x, dq, dx);
}

/* ---- the feed-forward branch ---- */

void wefti_decoder_ffn(const wefti_decoder_view *f, const float *x, float *y) {
    wefti_linear gu = linear(f, WEFTI_GATE, 2 * f->F), down = linear(f, WEFTI_DOWN, f->C);
    wefti_linear_forward(f->k, &gu, x, f->s.gu);
    f->k->swiglu_forward(f->N, f->F, f->s.gu, f->w.s);
    wefti_linear_forward(f->k, &down, f->w.s, y);
}

void wefti_decoder_ffn_backward(const wefti_decoder_view *f, const float *x,
                                const float *dy, float *dx) {
    wefti_linear gu = linear(f, WEFTI_GATE, 2 * f->F), down = linear(f, WEFTI_DOWN, f->C);
    f->k->swiglu_forward(f->N, f->F, f->s.gu, f->w.s);
    wefti_linear_backward(f->k, &down, f->w.s, dy, f->w.s);
    f->k->swiglu_backward(f->N, f->F, f->s.gu, f->w.s, f->w.dgu);
    wefti_linear_backward(f->k, &gu, x, f->w.dgu, dx);
}
