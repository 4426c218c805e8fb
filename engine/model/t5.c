/* SPDX-License-Identifier: MIT */
/* T5 v1.1 (Raffel et al. 2020; Shazeer 2020): an encoder and a decoder stack.
 *     encoder   h = x + drop(self(n1 x)),   y = h + drop(ffn(n2 h));   after the last n(y)
 *     decoder   h = x + drop(self(n1 x)),   g = h + drop(cross(nx h, encoder)),
 *               y = g + drop(ffn(n2 g))
 *     self, cross = o(softmax(q k^T + bias) v)       ffn = wo(gelu(wi_0 x) * (wi_1 x))
 *     loss = cross-entropy(n(y_L) W^T), W the head's own, or C^-1/2 times the embedding
 * Norms are RMSNorm, scores are not divided by the root of D, and nothing has a bias
 * vector. The bias of a self-attention is a number per head and bucket of key - query.
 * There is one table per stack, which HF stores in the stack's first block; the
 * cross-attention has none.
 *
 * A row has Ts source tokens and Td target tokens, T = Ts + Td, and x holds the encoder's
 * rows of all sequences, then the decoder's:
 *
 *     x[B,T,C] = [B,Ts,C] encoder | [B,Td,C] decoder
 *
 * So the two stacks are a single list of units. A block of the encoder does not change the
 * decoder's rows. A block of the decoder passes the encoder's rows on, and its
 * cross-attention adds to their gradient in dy. Tokens below 0 pad the source and are masked
 * in attention. The tables of biases are in the embedding's unit, which all blocks borrow. */
#include <math.h>
#include <string.h>

#include "model/units.h"
#include "model/describe.h"
#include "model/families.h"
#include "model/past.h"
#include "model/pieces.h"

/* Parameters of the embedding's unit, of a block (the first nine are those of both stacks; then
 * the others of the decoder, or the norm after the last encoder block), and of the head. */
enum { SHARED, ENCODER_BIAS, DECODER_BIAS, N_EMBED };
enum { N1, Q, K, V, O, N2, WI0, WI1, WO, BOTH, NX = BOTH, XQ, XK, XV, XO, N_DECODER };
enum { LAST_NORM = BOTH, N_ENCODER_LAST };

/* The activations that one attention saves for its backward pass. */
typedef struct kept {
    float *qkv; /* self: [N,3HD] q|k|v; cross: [Nd,HD] q */
    float *kv;  /* cross: [Ns,2HD] k|v of the encoder's rows */
    float *o;   /* [N,HD] */
    float *lse; /* [B,H,T] */
} kept;

typedef struct saved {
    kept self, cross;
    float *h, *g; /* [N,C] between the branches; g of the decoder's blocks */
    float *gu;    /* [N,2F] */
    float *z;     /* [N,C] before the norm after the last encoder block */
    float *rstd1, *rstd2, *rstd3; /* [N] */
} saved;

typedef struct scratch {
    float *a, *b; /* [max(Ns,Nd),C] */
    float *rstd;  /* of the head's norm */
    float *wide;  /* [.,2F] or [.,3HD]; the head's kernel scratch */
    float *mid;   /* [.,F] or [.,HD] */
    float *enc;   /* [Ns,2HD] gradient of cross k|v */
    float *d_enc; /* [Ns,C] */
    float *bias;  /* [H] rows of biases, and their gradient */
    float *dbias;
    int32_t *n_keys; /* [B] source tokens */
    int32_t *ids;    /* [B T] of the embedding */
    float *attention;
} scratch;

/* The data of one call: the rows of one stack. */
typedef struct frame {
    const weft_model *model;
    const wefti_unit *unit;
    int u;
    bool encoder;    /* the unit's stack */
    wefti_pass pass; /* with this stack's T, x, y and dy */
    const float *ex; /* [Ns,C] encoder's rows of x; of the decoder's blocks */
    float *edy;      /* [Ns,C] their gradient */
    const wefti_kernels *k;
    int64_t N, Ns, Nd, Ts, C, F, HD;
    float eps;
    saved s;
    scratch w;
} frame;

/* ---- description ---- */

static weft_status check(weft_ctx *ctx, weft_model_config *c) {
    unsigned extras = wefti_traits_wanted(c) & ~(unsigned)WEFTI_KNOWS_HEAD_DIM;
    if (extras)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "t5 has no windows, caps, multipliers, rotary positions, "
                             "biases of its products or norms of queries");
    if (c->kv_heads != c->heads)
        return wefti_model_refuse(ctx, "kv_heads", (double)c->kv_heads,
                                  "model.heads: t5 groups no queries");
    if (c->rope_theta != 0)
        return wefti_model_refuse(ctx, "rope_theta", c->rope_theta, "0: t5 has a bias");
    if (c->decoder_layers == 0) c->decoder_layers = c->layers;
    if (c->buckets == 0) c->buckets = 32;
    if (c->distance == 0) c->distance = 128;
    if (c->buckets < 4 || c->buckets % 2 != 0)
        return wefti_model_refuse(ctx, "buckets", (double)c->buckets,
                                  "an even number from 4");
    if (c->distance <= c->buckets / 2)
        return wefti_model_refuse(ctx, "distance", (double)c->distance,
                                  "more than half of model.buckets");
    if (c->ffn == 0) c->ffn = (8 * c->width / 3 + 63) / 64 * 64;
    if (c->norm_eps == 0) c->norm_eps = 1e-6;
    if (c->init_std == 0) c->init_std = 1;
    return WEFT_OK;
}

static double root(double x) { return 1 / sqrt(x); }

/* The first nine parameters of the blocks of both stacks; `ffn` is the number of the
 * feed-forward among HF's layers of a block. */
#define BLOCK_SPECS(ffn)                                                                 \
    [N1] = {"layer.0.layer_norm.weight", C, 0, 1, 0},                                    \
    [Q] = {"layer.0.SelfAttention.q.weight", HD, C, 0, f * root((double)(C * D))},       \
    [K] = {"layer.0.SelfAttention.k.weight", HD, C, 0, f * root((double)C)},             \
    [V] = {"layer.0.SelfAttention.v.weight", HD, C, 0, f * root((double)C)},             \
    [O] = {"layer.0.SelfAttention.o.weight", C, HD, 0, f * root((double)HD)},            \
    [N2] = {"layer." ffn ".layer_norm.weight", C, 0, 1, 0},                              \
    [WI0] = {"layer." ffn ".DenseReluDense.wi_0.weight", F, C, 0, f * root((double)C)},  \
    [WI1] = {"layer." ffn ".DenseReluDense.wi_1.weight", F, C, 0, f * root((double)C)},  \
    [WO] = {"layer." ffn ".DenseReluDense.wo.weight", C, F, 0, f * root((double)F)}

static void add_blocks(weft_model *model) {
    const weft_model_config *c = &model->config;
    int64_t C = c->width, F = c->ffn, D = c->head_dim, HD = D * c->heads;
    double f = c->init_std;
    const wefti_param_spec encoder[] = {
        BLOCK_SPECS("1"),
        [LAST_NORM] = {"encoder.final_layer_norm.weight", C, 0, 1, 0},
    };
    const wefti_param_spec decoder[] = {
        BLOCK_SPECS("2"),
        [NX] = {"layer.1.layer_norm.weight", C, 0, 1, 0},
        [XQ] = {"layer.1.EncDecAttention.q.weight", HD, C, 0, f * root((double)(C * D))},
        [XK] = {"layer.1.EncDecAttention.k.weight", HD, C, 0, f * root((double)C)},
        [XV] = {"layer.1.EncDecAttention.v.weight", HD, C, 0, f * root((double)C)},
        [XO] = {"layer.1.EncDecAttention.o.weight", C, HD, 0, f * root((double)HD)},
    };
    for (int i = 0; i < (int)c->layers; i++) {
        wefti_units_add(model, &(wefti_unit_spec){WEFTI_BLOCK, "encoder",
                                                  "encoder.block.", i, encoder, BOTH, 0});
        if (i + 1 == (int)c->layers) wefti_units_append(model, &encoder[LAST_NORM]);
    }
    for (int i = 0; i < (int)c->decoder_layers; i++)
        wefti_units_add(model,
                        &(wefti_unit_spec){WEFTI_BLOCK, "decoder", "decoder.block.", i,
                                           decoder, N_DECODER, 0});
}

/* Initial values as in the T5 of Mesh TensorFlow: they replace the scaling that its scores
 * and products lack; the embedding has unit variance. A separate head gets C^-1/2, so that
 * the first losses are near log V (Hugging Face initializes it with unit variance). */
static weft_status layout(weft_ctx *ctx, weft_model *model) {
    const weft_model_config *c = &model->config;
    int64_t C = c->width, n = c->layers + c->decoder_layers;
    double f = c->init_std;
    const wefti_param_spec embed[] = {
        [SHARED] = {"shared.weight", c->vocab, C, 0, f},
        [ENCODER_BIAS] = {"encoder.block.0.layer.0.SelfAttention."
                          "relative_attention_bias.weight",
                          c->buckets, c->heads, 0, f * root((double)C)},
        [DECODER_BIAS] = {"decoder.block.0.layer.0.SelfAttention."
                          "relative_attention_bias.weight",
                          c->buckets, c->heads, 0, f * root((double)C)},
    };
    const wefti_param_spec head[] = {
        {"decoder.final_layer_norm.weight", C, 0, 1, 0},
        {"lm_head.weight", c->vocab, C, 0, f * root((double)C)}, /* only when not tied */
    };
    WEFT_TRY(wefti_units_begin(ctx, model, n + 2, N_EMBED + n * N_DECODER + 3));
    wefti_units_add(
        model, &(wefti_unit_spec){WEFTI_EMBED, "embed", NULL, -1, embed, N_EMBED, -1});
    add_blocks(model);
    wefti_units_add(model, &(wefti_unit_spec){WEFTI_HEAD, "head", NULL, -1, head,
                                              c->tied ? 1 : 2, c->tied ? 0 : -1});
    return WEFT_OK;
}

/* ---- relative positions ---- */

static int64_t bias_offset(const frame *f) {
    return f->model->units[0].params[f->encoder ? ENCODER_BIAS : DECODER_BIAS].offset;
}

/* Expands the table of the stack for the kernel: indexed by head and query - key, which is
 * from `first` to last. */
static void spread_bias(const frame *f, int64_t first, int64_t last, int64_t row,
                        float *bias) {
    const weft_model_config *c = &f->model->config;
    const float *table = f->pass.borrowed + bias_offset(f);
    memset(bias, 0, (size_t)(c->heads * row) * sizeof *bias);
    for (int64_t d = first; d <= last; d++) {
        int64_t bucket = wefti_bucket_of(-d, f->encoder, c->buckets, c->distance);
        for (int64_t h = 0; h < c->heads; h++)
            bias[h * row + d - first] = table[bucket * c->heads + h];
    }
}

/* The table's gradient += the gradient of the expanded table. */
static void gather_bias(const frame *f, int64_t T, int64_t row) {
    const weft_model_config *c = &f->model->config;
    float *table = f->pass.borrowed_grads + bias_offset(f);
    for (int64_t d = 1 - T; d < T; d++) {
        int64_t bucket = wefti_bucket_of(-d, f->encoder, c->buckets, c->distance);
        for (int64_t h = 0; h < c->heads; h++)
            table[bucket * c->heads + h] += f->w.dbias[h * row + d + T - 1];
    }
}

/* ---- buffers ---- */

static int64_t max2(int64_t a, int64_t b) { return a > b ? a : b; }

/* Source positions of rows of T; a row without room for them (a short context, when a
 * configuration is examined) is divided in halves. */
static int64_t source_of(const weft_model *model, int64_t T) {
    int64_t Ts = model->config.source;
    return Ts > 0 && Ts < T ? Ts : T / 2;
}

static void lay_kept(wefti_room *room, const weft_model *model, int64_t N, int64_t Ns,
                     kept *s) {
    const weft_model_config *c = &model->config;
    int64_t HD = c->heads * c->head_dim;
    s->qkv = wefti_room_take(room, N * HD * (Ns > 0 ? 1 : 3));
    s->kv = wefti_room_take(room, Ns * 2 * HD);
    s->o = wefti_room_take(room, N * HD);
    s->lse = wefti_room_take(room, N * c->heads);
}

static int64_t lay_saved(const weft_model *model, int u, const int64_t BT[2],
                         const wefti_kernels *kernels, float *base, saved *s) {
    int64_t B = BT[0], T = BT[1];
    const weft_model_config *c = &model->config;
    int64_t Ns = B * source_of(model, T), C = c->width;
    bool encoder = u <= c->layers;
    int64_t N = encoder ? Ns : B * T - Ns;
    wefti_room room = {base, 0};
    lay_kept(&room, model, N, 0, &s->self);
    if (!encoder) lay_kept(&room, model, N, Ns, &s->cross);
    s->h = wefti_room_take(&room, N * C);
    s->g = wefti_room_take(&room, encoder ? 0 : N * C);
    s->gu = wefti_room_take(&room, wefti_ffn_saved(kernels, C, N, 2 * c->ffn, c->ffn));
    s->z = wefti_room_take(&room, u == c->layers ? N * C : 0);
    s->rstd1 = wefti_room_take(&room, N);
    s->rstd2 = wefti_room_take(&room, N);
    s->rstd3 = wefti_room_take(&room, N);
    return room.used;
}

static int64_t saved_floats(const weft_model *model, int u, int64_t B, int64_t T,
                            const wefti_kernels *kernels) {
    saved s;
    if (model->units[u].kind != WEFTI_BLOCK) return 0;
    return lay_saved(model, u, (int64_t[]){B, T}, kernels, NULL, &s);
}

/* The self-attention of a stack's rows; the bias has no buffers yet. */
static wefti_attention_shape self_shape(const weft_model *model, int64_t B, int64_t T,
                                        bool encoder) {
    const weft_model_config *c = &model->config;
    int64_t HD = c->heads * c->head_dim;
    return (wefti_attention_shape){.B = B,
                                   .T = T,
                                   .H = c->heads,
                                   .K = c->heads,
                                   .D = c->head_dim,
                                   .ld_q = 3 * HD,
                                   .ld_kv = 3 * HD,
                                   .ld_o = HD,
                                   .scale = 1,
                                   .all = encoder,
                                   .biased = true};
}

/* Attention of the decoder's rows to the encoder's. */
static wefti_attention_shape cross_shape(const weft_model *model, int64_t B, int64_t Ts,
                                         int64_t Td) {
    wefti_attention_shape s = self_shape(model, B, Td, true);
    s.ld_q = s.ld_o;
    s.ld_kv = 2 * s.ld_o;
    s.n_rows = Ts;
    s.biased = false;
    return s;
}

static int64_t attention_floats(const weft_model *model, int64_t B, int64_t T,
                                int threads, const wefti_kernels *k) {
    int64_t Ts = source_of(model, T), Td = T - Ts;
    wefti_attention_shape encoder = self_shape(model, B, Ts, true);
    wefti_attention_shape decoder = self_shape(model, B, Td, false);
    wefti_attention_shape cross = cross_shape(model, B, Ts, Td);
    return max2(max2(k->layers->attention_scratch(&encoder, threads),
                     k->layers->attention_scratch(&decoder, threads)),
                k->layers->attention_scratch(&cross, threads));
}

/* Divides everything but the kernels' scratch, which begins at w->attention for an
 * attention and at w->wide for the head. [out] before: the floats before these two. */
static void lay_scratch(const weft_model *model, int64_t B, int64_t T, float *base,
                        scratch *w, int64_t before[2]) {
    const weft_model_config *c = &model->config;
    int64_t Ts = source_of(model, T), C = c->width, HD = c->heads * c->head_dim;
    int64_t N = B * max2(Ts, T - Ts), Ns = B * Ts;
    int64_t row = 2 * max2(Ts, T - Ts) + 64;
    wefti_room room = {base, 0};
    w->n_keys = (int32_t *)(void *)wefti_room_take(&room, B);
    w->ids = (int32_t *)(void *)wefti_room_take(&room, B * T);
    w->a = wefti_room_take(&room, N * C);
    w->b = wefti_room_take(&room, N * C);
    w->rstd = wefti_room_take(&room, N);
    before[1] = room.used;
    w->wide = wefti_room_take(&room, N * max2(2 * c->ffn, 3 * HD));
    w->mid = wefti_room_take(&room, N * max2(c->ffn, HD));
    w->enc = wefti_room_take(&room, Ns * 2 * HD);
    w->d_enc = wefti_room_take(&room, Ns * C);
    w->bias = wefti_room_take(&room, c->heads * row);
    w->dbias = wefti_room_take(&room, c->heads * row);
    before[0] = room.used;
    w->attention = wefti_room_take(&room, 0);
}

static int64_t scratch_floats(const weft_model *model, int64_t B, int64_t T, int threads,
                              const wefti_kernels *k) {
    scratch w;
    int64_t before[2];
    lay_scratch(model, B, T, NULL, &w, before);
    int64_t head = k->layers->head_scratch(B * T, model->config.vocab, threads);
    return max2(before[0] + attention_floats(model, B, T, threads, k), before[1] + head);
}

/* Number of source tokens of each sequence: those before the first padding token, at
 * least one. */
static void count_keys(const wefti_pass *pass, int64_t Ts, int32_t *n_keys) {
    for (int64_t b = 0; b < pass->B; b++) {
        const int32_t *row = pass->tokens + b * pass->T;
        int64_t n = 0;
        while (n < Ts && row[n] >= 0) n++;
        n_keys[b] = (int32_t)(n > 0 ? n : 1);
    }
}

static frame frame_of(const weft_model *model, int u, const wefti_pass *pass) {
    const weft_model_config *c = &model->config;
    int64_t before[2], Ts = source_of(model, pass->T), at;
    frame f = {.model = model,
               .unit = &model->units[u],
               .u = u,
               .encoder = u <= c->layers,
               .pass = *pass,
               .ex = pass->x,
               .edy = pass->dy,
               .k = pass->kernels,
               .Ns = pass->B * Ts,
               .Nd = pass->B * (pass->T - Ts),
               .Ts = Ts,
               .C = c->width,
               .F = c->ffn,
               .HD = c->heads * c->head_dim,
               .eps = (float)c->norm_eps};
    if (f.unit->kind == WEFTI_BLOCK)
        lay_saved(model, u, (int64_t[]){pass->B, pass->T},
                  pass->side ? NULL : pass->kernels, pass->saved, &f.s);
    lay_scratch(model, pass->B, pass->T, pass->scratch, &f.w, before);
    if (f.unit->kind == WEFTI_BLOCK) count_keys(pass, Ts, f.w.n_keys);
    f.pass.T = f.encoder ? Ts : pass->T - Ts;
    f.N = pass->B * f.pass.T;
    at = f.encoder ? 0 : f.Ns * f.C;
    if (pass->x) f.pass.x = pass->x + at;
    if (pass->y) f.pass.y = pass->y + at;
    if (pass->dy) f.pass.dy = pass->dy + at;
    return f;
}

/* ---- the branches ---- */

static const float *param(const frame *f, int i) {
    return wefti_unit_param(f->unit, &f->pass, i);
}

static float *grad(const frame *f, int i) {
    return wefti_unit_grad(f->unit, &f->pass, i);
}

/* The product of N rows with n adjacent matrices, from parameter i on. */
static wefti_linear linear(const frame *f, int64_t N, int i, int n) {
    const wefti_param *p = &f->unit->params[i];
    return (wefti_linear){.N = N,
                          .in = p->cols,
                          .out = n * p->rows,
                          .w = param(f, i),
                          .dw = grad(f, i),
                          .fresh = f->pass.fresh};
}

static void norm(const frame *f, int i, const float *x, float *y, float *rstd) {
    f->k->layers->rmsnorm_forward(f->N, f->C, f->C, f->eps, x, param(f, i), y, rstd);
}

/* dy += the norm's gradient of d; d is overwritten. */
static void norm_backward(const frame *f, int i, const float *x, const float *rstd,
                          float *d) {
    f->k->layers->rmsnorm_backward(f->N, f->C, f->C, x, param(f, i), rstd, d, d,
                                   grad(f, i));
    f->k->accumulate(f->N * f->C, d, f->pass.dy);
}

static void self_forward(const frame *f, const float *x, float *y) {
    const kept *s = &f->s.self;
    wefti_attention_shape shape = self_shape(f->model, f->pass.B, f->pass.T, f->encoder);
    wefti_linear qkv = linear(f, f->N, Q, 3), out = linear(f, f->N, O, 1);
    shape.n_keys = f->w.n_keys;
    shape.bias = f->w.bias;
    if (wefti_past_continues(&f->pass)) {
        int64_t before = f->pass.past->n[0];
        shape.bias = f->pass.past->bias;
        spread_bias(f, 0, before, before + wefti_attention_bias_row(&shape),
                    f->pass.past->bias);
    } else {
        spread_bias(f, 1 - f->pass.T, f->pass.T - 1, wefti_attention_bias_row(&shape),
                    f->w.bias);
    }
    wefti_linear_forward(f->k, &qkv, x, s->qkv);
    wefti_past_attend(&f->pass, &shape, s->qkv, s->qkv + f->HD, s->qkv + 2 * f->HD, s->o,
                      s->lse, f->w.attention);
    wefti_linear_forward(f->k, &out, s->o, y);
}

/* dx may be d. */
static void self_backward(const frame *f, const float *x, const float *d, float *dx) {
    const kept *s = &f->s.self;
    float *dqkv = f->w.wide;
    wefti_attention_shape shape = self_shape(f->model, f->pass.B, f->pass.T, f->encoder);
    wefti_linear qkv = linear(f, f->N, Q, 3), out = linear(f, f->N, O, 1);
    int64_t row = wefti_attention_bias_row(&shape);
    shape.n_keys = f->w.n_keys;
    shape.bias = f->w.bias;
    shape.dbias = f->w.dbias;
    spread_bias(f, 1 - f->pass.T, f->pass.T - 1, row, f->w.bias);
    memset(f->w.dbias, 0, (size_t)(shape.H * row) * sizeof *f->w.dbias);
    wefti_linear_backward(f->k, &out, s->o, d, f->w.mid);
    f->k->layers->attention_backward(&shape, s->qkv, s->qkv + f->HD, s->qkv + 2 * f->HD,
                                     s->o, s->lse, f->w.mid, dqkv, dqkv + f->HD,
                                     dqkv + 2 * f->HD, f->w.attention);
    gather_bias(f, f->pass.T, row);
    wefti_linear_backward(f->k, &qkv, x, dqkv, dx);
}

/* k and v of the encoder's rows, which a pass that continues has no more. */
static void cross_keys(const frame *f, wefti_attention_shape *shape) {
    const kept *s = &f->s.cross;
    wefti_linear kv = linear(f, f->Ns, XK, 2);
    const wefti_past *past = f->pass.past;
    shape->n_keys = f->w.n_keys;
    wefti_linear_forward(f->k, &kv, f->ex, s->kv);
    if (!past) return;
    memcpy(past->cross, s->kv, (size_t)(f->Ns * 2 * f->HD) * sizeof *past->cross);
    memcpy(past->n_source, f->w.n_keys, (size_t)f->pass.B * sizeof *past->n_source);
}

static void cross_forward(const frame *f, const float *x, float *y) {
    const kept *s = &f->s.cross;
    wefti_attention_shape shape = cross_shape(f->model, f->pass.B, f->Ts, f->pass.T);
    wefti_linear q = linear(f, f->N, XQ, 1), out = linear(f, f->N, XO, 1);
    const wefti_past *past = f->pass.past;
    const float *kv = s->kv;
    float *room = f->w.attention;
    if (wefti_past_continues(&f->pass)) {
        kv = past->cross, room = past->scratch;
        shape.n_rows = past->source, shape.n_keys = past->n_source;
    } else {
        cross_keys(f, &shape);
    }
    wefti_linear_forward(f->k, &q, x, s->qkv);
    f->k->layers->attention_forward(&shape, s->qkv, kv, kv + f->HD, s->o, s->lse, room);
    wefti_linear_forward(f->k, &out, s->o, y);
}

/* dx may be d. The gradient of the encoder's rows is added to, too. */
static void cross_backward(const frame *f, const float *x, const float *d, float *dx) {
    const kept *s = &f->s.cross;
    float *dq = f->w.wide, *dkv = f->w.enc;
    wefti_attention_shape shape = cross_shape(f->model, f->pass.B, f->Ts, f->pass.T);
    wefti_linear q = linear(f, f->N, XQ, 1), kv = linear(f, f->Ns, XK, 2);
    wefti_linear out = linear(f, f->N, XO, 1);
    shape.n_keys = f->w.n_keys;
    wefti_linear_backward(f->k, &out, s->o, d, f->w.mid);
    f->k->layers->attention_backward(&shape, s->qkv, s->kv, s->kv + f->HD, s->o, s->lse,
                                     f->w.mid, dq, dkv, dkv + f->HD, f->w.attention);
    wefti_linear_backward(f->k, &kv, f->ex, dkv, f->w.d_enc);
    f->k->accumulate(f->Ns * f->C, f->w.d_enc, f->edy);
    wefti_linear_backward(f->k, &q, x, dq, dx);
}

static wefti_ffn feed_forward(const frame *f) {
    return (wefti_ffn){.in = linear(f, f->N, WI0, 2),
                       .out = linear(f, f->N, WO, 1),
                       .curve = WEFTI_CURVE_GEGLU,
                       .sided = f->pass.side != NULL,
                       .saved = f->s.gu,
                       .active = f->w.mid,
                       .gradient = f->w.wide};
}

/* ---- a block ---- */

static void drop(const frame *f, wefti_drop_site site) {
    wefti_drop(f->model, f->u, site, &f->pass, f->pass.y);
}

/* The rest of a block after the last attention; `h` is the sum of that attention and its
 * input. */
static void end_forward(const frame *f, const float *h) {
    float *y = f->pass.y;
    wefti_ffn ffn = feed_forward(f);
    norm(f, N2, h, f->w.a, f->s.rstd2);
    wefti_ffn_forward(f->k, &ffn, f->w.a, y);
    drop(f, WEFTI_DROP_SECOND);
    f->k->accumulate(f->N * f->C, h, y);
}

static void block_forward(const frame *f) {
    float *y = f->pass.y;
    size_t floats = (size_t)f->C * sizeof *y;
    norm(f, N1, f->pass.x, f->w.a, f->s.rstd1);
    self_forward(f, f->w.a, y);
    drop(f, WEFTI_DROP_FIRST);
    f->k->add(f->N * f->C, f->pass.x, y, f->s.h);
    if (f->encoder) {
        end_forward(f, f->s.h);
        memcpy(y + f->N * f->C, f->pass.x + f->N * f->C, (size_t)f->Nd * floats);
    } else {
        norm(f, NX, f->s.h, f->w.a, f->s.rstd3);
        cross_forward(f, f->w.a, y);
        drop(f, WEFTI_DROP_THIRD);
        f->k->add(f->N * f->C, f->s.h, y, f->s.g);
        end_forward(f, f->s.g);
        memcpy(y - f->Ns * f->C, f->ex, (size_t)f->Ns * floats);
    }
    if (f->u != f->model->config.layers) return;
    memcpy(f->s.z, y, (size_t)f->N * floats);
    norm(f, LAST_NORM, f->s.z, y, f->s.rstd3);
}

static void end_backward(const frame *f, const float *h) {
    wefti_ffn ffn = feed_forward(f);
    const float *d = wefti_drop_gradient(f->model, f->u, WEFTI_DROP_SECOND, &f->pass,
                                         f->w.b);
    norm(f, N2, h, f->w.a, f->s.rstd2);
    wefti_ffn_backward(f->k, &ffn, f->w.a, d, f->w.b);
    norm_backward(f, N2, h, f->s.rstd2, f->w.b);
}

static void middle_backward(const frame *f) {
    const float *d = wefti_drop_gradient(f->model, f->u, WEFTI_DROP_THIRD, &f->pass,
                                         f->w.b);
    norm(f, NX, f->s.h, f->w.a, f->s.rstd3);
    cross_backward(f, f->w.a, d, f->w.b);
    norm_backward(f, NX, f->s.h, f->s.rstd3, f->w.b);
}

static void block_backward(const frame *f) {
    float *dy = f->pass.dy;
    if (f->u == f->model->config.layers)
        f->k->layers->rmsnorm_backward(f->N, f->C, f->C, f->s.z, param(f, LAST_NORM),
                                       f->s.rstd3, dy, dy, grad(f, LAST_NORM));
    end_backward(f, f->encoder ? f->s.h : f->s.g);
    if (!f->encoder) middle_backward(f);
    const float *d = wefti_drop_gradient(f->model, f->u, WEFTI_DROP_FIRST, &f->pass,
                                         f->w.b);
    norm(f, N1, f->pass.x, f->w.a, f->s.rstd1);
    self_backward(f, f->w.a, d, f->w.b);
    norm_backward(f, N1, f->pass.x, f->s.rstd1, f->w.b);
}

/* ---- the embedding ---- */

/* The tokens in the order of the rows of x; padding gets id 0, whose row is never used. */
static void order_ids(const frame *f, const wefti_pass *pass) {
    int32_t *to = f->w.ids;
    for (int stack = 0; stack < 2; stack++)
        for (int64_t b = 0; b < pass->B; b++)
            for (int64_t t = stack ? f->Ts : 0; t < (stack ? pass->T : f->Ts); t++) {
                int32_t id = pass->tokens[b * pass->T + t];
                *to++ = id < 0 ? 0 : id;
            }
}

/* Dropout of the rows of both stacks, with different masks. */
static void drop_both(const frame *f, const wefti_pass *pass, float *x) {
    wefti_pass part = *pass;
    part.T = f->Ts;
    wefti_drop(f->model, 0, WEFTI_DROP_FIRST, &part, x);
    part.T = pass->T - f->Ts;
    wefti_drop(f->model, 0, WEFTI_DROP_SECOND, &part, x + f->Ns * f->C);
}

static void embed_forward(const frame *f, const wefti_pass *pass) {
    order_ids(f, pass);
    f->k->layers->embed_forward(pass->B * pass->T, pass->T, f->C, f->w.ids,
                                param(f, SHARED), NULL, pass->y);
    drop_both(f, pass, pass->y);
}

static void embed_backward(const frame *f, const wefti_pass *pass) {
    order_ids(f, pass);
    drop_both(f, pass, pass->dy);
    f->k->layers->embed_backward(pass->B * pass->T, pass->T, f->C, f->w.ids, pass->dy,
                                 grad(f, SHARED), NULL);
}

/* ---- the head ---- */

/* n(y) in w.a, scaled if the head is the embedding. */
static void head_input(const frame *f) {
    norm(f, 0, f->pass.x, f->w.a, f->w.rstd);
    if (f->model->config.tied)
        f->k->scale(f->N * f->C, (float)root((double)f->C), f->w.a);
}

static void head_forward(const frame *f) {
    if (f->pass.training) return;
    head_input(f);
    wefti_head_loss(f->model, &f->pass, f->w.a, NULL, f->w.wide);
}

static void head_backward(const frame *f) {
    float *b = f->w.b;
    head_input(f);
    wefti_head_loss(f->model, &f->pass, f->w.a, b, f->w.wide);
    if (f->model->config.tied) f->k->scale(f->N * f->C, (float)root((double)f->C), b);
    memset(f->edy, 0, (size_t)(f->Ns * f->C) * sizeof *f->edy);
    f->k->layers->rmsnorm_backward(f->N, f->C, f->C, f->pass.x, param(f, 0), f->w.rstd, b,
                                   f->pass.dy, grad(f, 0));
}

/* ---- the table ---- */

/* Logits [B Td,V] of the decoder's rows. */
static void logits(const weft_model *model, const wefti_pass *pass, float *out) {
    frame f = frame_of(model, model->n_units - 1, pass);
    head_input(&f);
    wefti_head_logits(model, &f.pass, f.w.a, out);
}

static void forward(const weft_model *model, int u, const wefti_pass *pass) {
    frame f = frame_of(model, u, pass);
    switch (model->units[u].kind) {
    case WEFTI_EMBED: embed_forward(&f, pass); break;
    case WEFTI_BLOCK: block_forward(&f); break;
    case WEFTI_HEAD: head_forward(&f); break;
    }
}

static void backward(const weft_model *model, int u, const wefti_pass *pass) {
    frame f = frame_of(model, u, pass);
    switch (model->units[u].kind) {
    case WEFTI_EMBED: embed_backward(&f, pass); break;
    case WEFTI_BLOCK: block_backward(&f); break;
    case WEFTI_HEAD: head_backward(&f); break;
    }
}

/* The products of a block process the rows of its stack; its attention, of HD columns, processes
 * the pairs of rows. k and v of a cross-attention are computed from the encoder's rows. */
static double unit_flop(const weft_model *model, int u, int64_t T) {
    const weft_model_config *c = &model->config;
    const wefti_unit *unit = &model->units[u];
    double Ts = (double)source_of(model, T), Td = (double)T - Ts;
    double HD = (double)(c->heads * c->head_dim), C = (double)c->width;
    double all = wefti_unit_matrices(unit), encoders = 2 * HD * C;
    if (unit->kind == WEFTI_EMBED) return 0;
    if (unit->kind == WEFTI_HEAD) return 6 * (double)c->vocab * C * Td / (double)T;
    if (u <= c->layers) return (6 * all * Ts + 12 * HD * Ts * Ts) / (double)T;
    return (6 * ((all - encoders) * Td + encoders * Ts) + 12 * HD * Td * (Td + 1) / 2 +
            12 * HD * Td * Ts) /
           (double)T;
}

const wefti_model_ops wefti_model_t5 = {
    .name = "t5",
    .summary = "T5 v1.1: encoder and decoder, relative positions, gated GELU "
               "(Raffel et al. 2020)",
    .input = WEFTI_INPUT_PAIRS,
    .check = check,
    .layout = layout,
    .saved_floats = saved_floats,
    .scratch_floats = scratch_floats,
    .forward = forward,
    .backward = backward,
    .logits = logits,
    .unit_flop = unit_flop,
    .describe_json = wefti_describe_t5,
};
