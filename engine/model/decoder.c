/* SPDX-License-Identifier: MIT */
/* The branches of decoder blocks, forward and backward:
 *
 *     attention   o(softmax(rope(q) rope(k)^T / sqrt(D)) v)       K <= H key heads
 *     ffn         down(silu(gate x) * (up x)), or down(gelu(up x)), down(relu(up x)^2)
 *     norm        RMSNorm, its gain perhaps 1 + the parameter; or LayerNorm, perhaps without
 *
 * The places of the norms are in blocks.c. */
#include "model/decoder.h"

#include <math.h>
#include <string.h>

#include "model/past.h"
#include "model/pieces.h"
#include "model/rotary.h"
#include "model/units.h"

/* ---- buffers ---- */

static void lay_sizes(const weft_model *model, int64_t B, int64_t T,
                      wefti_decoder_view *f) {
    const weft_model_config *c = &model->config;
    f->model = model;
    f->traits = model->ops->traits;
    f->N = B * T;
    f->C = c->width;
    f->F = c->ffn;
    f->D = c->head_dim;
    f->HD = c->head_dim * c->heads;
    f->KD = c->head_dim * c->kv_heads;
    f->ld = f->HD + 2 * f->KD;
    f->gu = wefti_curve_is_gated(f->traits->activation) ? 2 * f->F : f->F;
    f->eps = (float)c->norm_eps;
}

static int64_t lay_saved(wefti_decoder_view *f, const wefti_kernels *kernels,
                         float *base) {
    const weft_model_config *c = &f->model->config;
    wefti_norm_place place = f->traits->place;
    bool both = place == WEFTI_NORM_BOTH, after = both || place == WEFTI_NORM_AFTER;
    int64_t stats = f->traits->layer_norm ? 2 * f->N : f->N;
    int64_t each = f->traits->head_qk_norm ? f->D : 0; /* columns of a norm of q */
    wefti_room room = {base, 0};
    f->s.qkv = wefti_room_take(&room, f->N * f->ld);
    f->s.o = wefti_room_take(&room, f->N * f->HD);
    f->s.lse = wefti_room_take(&room, f->N * c->heads);
    f->s.gu = wefti_room_take(&room, wefti_ffn_saved(kernels, f->C, f->N, f->gu, f->F));
    f->s.mid = wefti_room_take(&room, place == WEFTI_NORM_PARALLEL ? 0 : f->N * f->C);
    f->s.out = wefti_room_take(&room, after ? f->N * f->C : 0);
    f->s.stats1 = wefti_room_take(&room, stats);
    f->s.stats2 = wefti_room_take(&room, stats);
    f->s.rstd_q = wefti_room_take(&room, c->qk_norm ? f->N * (each ? c->heads : 1) : 0);
    f->s.rstd_k = wefti_room_take(&room,
                                  c->qk_norm ? f->N * (each ? c->kv_heads : 1) : 0);
    f->s.out1 = wefti_room_take(&room, both ? f->N * f->C : 0);
    f->s.post1 = wefti_room_take(&room, both ? stats : 0);
    f->s.post2 = wefti_room_take(&room, both ? stats : 0);
    return room.used;
}

typedef struct scratch_sizes {
    int64_t before;    /* up to `rest` */
    int64_t ffn;       /* the feed-forward's set */
    int64_t attention; /* the attention's set without its kernel scratch */
} scratch_sizes;

static int64_t max2(int64_t a, int64_t b) { return a > b ? a : b; }

static scratch_sizes lay_scratch(wefti_decoder_view *f, float *base) {
    const wefti_traits *t = f->traits;
    int64_t NC = f->N * f->C;
    wefti_room room = {base, 0};
    f->w.a = wefti_room_take(&room, NC);
    f->w.b = wefti_room_take(&room, NC);
    f->w.stats = wefti_room_take(&room, t->layer_norm ? 2 * f->N : f->N);
    f->w.c = wefti_room_take(&room, t->place == WEFTI_NORM_PARALLEL ? NC : 0);
    f->w.n = wefti_room_take(&room, t->layer_norm ? NC : 0);
    f->w.gain = wefti_room_take(&room, wefti_traits_bare_norms(t) ? 4 * f->C
                                       : t->gain_plus_one         ? max2(f->C, f->D)
                                                                  : 0);
    f->w.rest = wefti_room_take(&room, 0);
    wefti_room ffn = {f->w.rest, 0}, attention = {f->w.rest, 0};
    f->w.s = wefti_room_take(&ffn, f->N * f->F);
    f->w.dgu = wefti_room_take(&ffn, f->N * f->gu);
    f->w.d_o = wefti_room_take(&attention, f->N * f->HD);
    f->w.dqkv = wefti_room_take(&attention, f->N * f->ld);
    f->w.qk = wefti_room_take(&attention, f->model->config.qk_norm ? f->N * f->ld : 0);
    f->w.attention = wefti_room_take(&attention, 0);
    return (scratch_sizes){room.used, ffn.used, attention.used};
}

/* Whether the block of that unit has a sliding window. */
static bool has_window(const weft_model *model, int unit) {
    const weft_model_config *c = &model->config;
    if (c->window <= 0) return false;
    return c->window_period == 0 || unit % c->window_period != 0; /* blocks from 1 */
}

static wefti_attention_shape attention_shape(const wefti_decoder_view *f, int64_t B,
                                             int64_t T) {
    const weft_model_config *c = &f->model->config;
    double divisor = c->query_scale > 0 ? c->query_scale : (double)f->D;
    return (wefti_attention_shape){
        .B = B,
        .T = T,
        .H = c->heads,
        .K = c->kv_heads,
        .D = f->D,
        .ld_q = f->ld,
        .ld_kv = f->ld,
        .ld_o = f->HD,
        .scale = (float)(c->attention_multiplier > 0 ? c->attention_multiplier
                                                     : 1.0 / sqrt(divisor)),
        .window = has_window(f->model, f->unit) ? c->window : 0,
        .cap = (float)c->attention_cap,
        .all = f->traits->sees_all};
}

int64_t wefti_decoder_saved_floats(const weft_model *model, int unit, int64_t B,
                                   int64_t T, const wefti_kernels *kernels) {
    wefti_decoder_view f = {0};
    if (model->units[unit].kind != WEFTI_BLOCK) return 0;
    lay_sizes(model, B, T, &f);
    return lay_saved(&f, kernels, NULL);
}

int64_t wefti_decoder_scratch_floats(const weft_model *model, int64_t B, int64_t T,
                                     int threads, const wefti_kernels *kernels) {
    wefti_decoder_view f = {0};
    lay_sizes(model, B, T, &f);
    scratch_sizes sizes = lay_scratch(&f, NULL);
    wefti_attention_shape shape = attention_shape(&f, B, T);
    int64_t attention = sizes.attention +
                        kernels->layers->attention_scratch(&shape, threads);
    int64_t head = kernels->layers->head_scratch(B * T, model->config.vocab, threads);
    return sizes.before + max2(max2(sizes.ffn, attention), head);
}

wefti_decoder_view wefti_decoder_frame(const weft_model *model, int unit,
                                       const wefti_pass *pass) {
    wefti_decoder_view f = {
        .pass = pass, .k = pass->kernels, .p = model->units[unit].params, .unit = unit};
    lay_sizes(model, pass->B, pass->T, &f);
    if (model->units[unit].kind == WEFTI_BLOCK)
        lay_saved(&f, pass->side ? NULL : pass->kernels, pass->saved);
    lay_scratch(&f, pass->scratch);
    return f;
}

/* ---- parameters ---- */

/* Offset of a role's parameter in the unit's buffer; -1: there is none. */
static int64_t offset(const wefti_decoder_view *f, wefti_role role) {
    if (role == WEFTI_HEAD_NORM)
        return wefti_traits_bare_norms(f->traits) ? -1 : f->p[0].offset;
    int i = f->model->roles[role];
    return i < 0 ? -1 : f->p[i].offset;
}

static const float *param(const wefti_decoder_view *f, wefti_role role) {
    int64_t at = offset(f, role);
    return at < 0 ? NULL : f->pass->params + at;
}

static float *grad(const wefti_decoder_view *f, wefti_role role) {
    int64_t at = offset(f, role);
    return at < 0 || !f->pass->grads ? NULL : f->pass->grads + at;
}

/* The product with adjacent matrices, the first of which has the given role; together
 * they have `out` rows. */
static wefti_linear linear(const wefti_decoder_view *f, wefti_role role, wefti_role bias,
                           int64_t out) {
    int i = f->model->roles[role];
    return (wefti_linear){.N = f->N,
                          .in = f->p[i].cols,
                          .out = out,
                          .w = param(f, role),
                          .b = param(f, bias),
                          .dw = grad(f, role),
                          .db = grad(f, bias),
                          .fresh = f->pass->fresh,
                          .side = wefti_side_of(f->model, f->unit, f->pass, i, out)};
}

/* ---- norms ---- */

/* The gain of a norm over n columns. One without parameters has gains of 1, behind them biases of
 * 0 and room for both gradients: [4][C]. */
static const float *gain(const wefti_decoder_view *f, wefti_role role, int64_t n) {
    const float *g = param(f, role);
    if (!g) {
        memset(f->w.gain, 0, (size_t)(4 * n) * sizeof *g);
        for (int64_t i = 0; i < n; i++) f->w.gain[i] = 1;
        return f->w.gain;
    }
    if (!f->traits->gain_plus_one) return g;
    for (int64_t i = 0; i < n; i++) f->w.gain[i] = 1 + g[i];
    return f->w.gain;
}

static const float *norm_bias(const wefti_decoder_view *f, wefti_role role,
                              float **dbias) {
    if (wefti_traits_bare_norms(f->traits)) {
        *dbias = f->w.gain + 3 * f->C;
        return f->w.gain + f->C;
    }
    wefti_role bias = role == WEFTI_NORM1 ? WEFTI_NORM1_BIAS : WEFTI_NORM2_BIAS;
    int64_t at = role == WEFTI_HEAD_NORM ? f->p[1].offset : offset(f, bias);
    *dbias = f->pass->grads ? f->pass->grads + at : NULL;
    return f->pass->params + at;
}

void wefti_decoder_norm(const wefti_decoder_view *f, wefti_role role, const float *x,
                        float *y, float *stats) {
    float *unused;
    const float *g = gain(f, role, f->C);
    if (f->traits->layer_norm)
        f->k->layers->layernorm_forward(f->N, f->C, f->eps, x, g,
                                        norm_bias(f, role, &unused), y, stats,
                                        stats + f->N);
    else
        f->k->layers->rmsnorm_forward(f->N, f->C, f->C, f->eps, x, g, y, stats);
}

void wefti_decoder_norm_backward(const wefti_decoder_view *f, wefti_role role,
                                 const float *x, const float *stats, const float *dy,
                                 float *dx) {
    const float *g = gain(f, role, f->C);
    size_t n_bytes = (size_t)(f->N * f->C) * sizeof *dx;
    float *dbias;
    if (!f->traits->layer_norm) {
        f->k->layers->rmsnorm_backward(f->N, f->C, f->C, x, g, stats, dy, dx,
                                       grad(f, role));
        return;
    }
    norm_bias(f, role, &dbias);
    memset(f->w.n, 0, n_bytes);
    f->k->layers->layernorm_backward(
        f->N, f->C, x, g, stats, stats + f->N, dy, f->w.n,
        wefti_traits_bare_norms(f->traits) ? f->w.gain + 2 * f->C : grad(f, role), dbias);
    memcpy(dx, f->w.n, n_bytes);
}

/* ---- the attention branch ---- */

/* Applies the norms of queries or keys to `heads` heads from column `at` of the rows of
 * qkv: to each head, or to all heads together. */
static void qk_norm(const wefti_decoder_view *f, wefti_role role, int64_t heads,
                    int64_t at, float *rstd) {
    bool each = f->traits->head_qk_norm;
    int64_t columns = each ? f->D : heads * f->D, norms = each ? heads : 1;
    const float *g = gain(f, role, columns);
    for (int64_t h = 0; h < norms; h++)
        f->k->layers->rmsnorm_forward(f->N, columns, f->ld, f->eps,
                                      f->s.qkv + at + h * columns, g,
                                      f->w.qk + at + h * columns, rstd + h * f->N);
}

static void qk_norm_backward(const wefti_decoder_view *f, wefti_role role, int64_t heads,
                             int64_t at, const float *rstd, float *dqk) {
    bool each = f->traits->head_qk_norm;
    int64_t columns = each ? f->D : heads * f->D, norms = each ? heads : 1;
    const float *g = gain(f, role, columns);
    for (int64_t h = 0; h < norms; h++)
        f->k->layers->rmsnorm_backward(f->N, columns, f->ld, f->s.qkv + at + h * columns,
                                       g, rstd + h * f->N, dqk + at + h * columns,
                                       dqk + at + h * columns, grad(f, role));
}

/* Rotates `heads` heads of R columns, from the position on that each sequence has. */
static void rotate_heads(const wefti_decoder_view *f, int64_t heads, int64_t R,
                         const float *table, bool back, float *qk) {
    int64_t B = f->pass->B, T = f->pass->T;
    if (!wefti_past_continues(f->pass)) {
        f->k->layers->rope(B, T, heads, R, f->ld, table, back, qk);
        return;
    }
    for (int64_t b = 0; b < B; b++)
        f->k->layers->rope(1, T, heads, R, f->ld, table + f->pass->past->n[b] * R, back,
                           qk + b * T * f->ld);
}

/* Rotates queries and keys, or their first columns. */
static void rotate(const wefti_decoder_view *f, bool back, float *qk) {
    const weft_model_config *c = &f->model->config;
    int64_t heads = c->heads + c->kv_heads, R = wefti_rotary_columns(c);
    if (!f->traits->rotary) return; /* and has no tables */
    if (c->rope_period > 0 && f->unit % c->rope_period == 0) return;
    bool local = c->rope_local_theta > 0 && has_window(f->model, f->unit);
    const float *table = f->model->tables + (local ? c->context * R : 0);
    if (R == f->D) rotate_heads(f, heads, R, table, back, qk);
    for (int64_t h = 0; R < f->D && h < heads; h++)
        rotate_heads(f, 1, R, table, back, qk + h * f->D);
}

/* Normalizes (with qk_norm, into scratch) and rotates queries and keys; returns the
 * buffer that contains them. */
static float *turn(const wefti_decoder_view *f) {
    const weft_model_config *c = &f->model->config;
    float *qk = f->s.qkv;
    if (c->qk_norm) {
        qk = f->w.qk;
        qk_norm(f, WEFTI_Q_NORM, c->heads, 0, f->s.rstd_q);
        qk_norm(f, WEFTI_K_NORM, c->kv_heads, f->HD, f->s.rstd_k);
    }
    rotate(f, false, qk);
    return qk;
}

/* The backward pass of turn, on dq|dk in place. */
static void turn_backward(const wefti_decoder_view *f, float *dqk) {
    const weft_model_config *c = &f->model->config;
    rotate(f, true, dqk);
    if (!c->qk_norm) return;
    qk_norm_backward(f, WEFTI_Q_NORM, c->heads, 0, f->s.rstd_q, dqk);
    qk_norm_backward(f, WEFTI_K_NORM, c->kv_heads, f->HD, f->s.rstd_k, dqk);
}

void wefti_decoder_attention(const wefti_decoder_view *f, const float *x, float *y) {
    wefti_linear qkv = linear(f, WEFTI_Q, WEFTI_Q_BIAS, f->ld);
    wefti_linear out = linear(f, WEFTI_O, WEFTI_O_BIAS, f->C);
    wefti_attention_shape shape = attention_shape(f, f->pass->B, f->pass->T);
    wefti_linear_forward(f->k, &qkv, x, f->s.qkv);
    const float *qk = turn(f), *v = f->s.qkv + f->HD + f->KD;
    wefti_past_attend(f->pass, &shape, qk, qk + f->HD, v, f->s.o, f->s.lse,
                      f->w.attention);
    wefti_linear_forward(f->k, &out, f->s.o, y);
}

void wefti_decoder_attention_backward(const wefti_decoder_view *f, const float *x,
                                      const float *dy, float *dx) {
    wefti_linear qkv = linear(f, WEFTI_Q, WEFTI_Q_BIAS, f->ld);
    wefti_linear out = linear(f, WEFTI_O, WEFTI_O_BIAS, f->C);
    wefti_attention_shape shape = attention_shape(f, f->pass->B, f->pass->T);
    const float *qk = f->model->config.qk_norm ? turn(f) : f->s.qkv;
    const float *v = f->s.qkv + f->HD + f->KD;
    float *dq = f->w.dqkv;
    wefti_linear_backward(f->k, &out, f->s.o, dy, f->w.d_o);
    f->k->layers->attention_backward(&shape, qk, qk + f->HD, v, f->s.o, f->s.lse,
                                     f->w.d_o, dq, dq + f->HD, dq + f->HD + f->KD,
                                     f->w.attention);
    turn_backward(f, dq);
    wefti_linear_backward(f->k, &qkv, x, dq, dx);
}

/* ---- the feed-forward branch ---- */

/* The product into s.gu: gate and up, or only up. */
static wefti_linear inner(const wefti_decoder_view *f) {
    bool gated = wefti_curve_is_gated(f->traits->activation);
    return linear(f, gated ? WEFTI_GATE : WEFTI_UP,
                  gated ? WEFTI_GATE_BIAS : WEFTI_UP_BIAS, f->gu);
}

static wefti_ffn feed_forward(const wefti_decoder_view *f) {
    return (wefti_ffn){.in = inner(f),
                       .out = linear(f, WEFTI_DOWN, WEFTI_DOWN_BIAS, f->C),
                       .curve = f->traits->activation,
                       .sided = f->pass->side != NULL,
                       .saved = f->s.gu,
                       .active = f->w.s,
                       .gradient = f->w.dgu};
}

void wefti_decoder_ffn(const wefti_decoder_view *f, const float *x, float *y) {
    wefti_ffn ffn = feed_forward(f);
    wefti_ffn_forward(f->k, &ffn, x, y);
}

void wefti_decoder_ffn_backward(const wefti_decoder_view *f, const float *x,
                                const float *dy, float *dx) {
    wefti_ffn ffn = feed_forward(f);
    wefti_ffn_backward(f->k, &ffn, x, dy, dx);
}
