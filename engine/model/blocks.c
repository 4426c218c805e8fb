/* SPDX-License-Identifier: MIT */
/* The blocks of a decoder, with the norms in the places of each family; a(.) is
 * attention, m(.) the feed-forward, n and p norms:
 *
 *     before      h = x + drop(a(n1 x))       y = h + drop(m(n2 h))        llama
 *     after       h = x + drop(n1 a(x))       y = h + drop(n2 m(h))        olmo2
 *     both        h = x + drop(p1 a(n1 x))    y = h + drop(p2 m(n2 h))     gemma2
 *     parallel    y = x + drop(a(n1 x)) + drop(m(n2 x))                    gpt_neox
 *
 *     loss = cross-entropy(norm(x_L) W^T)
 *
 * With multipliers (granite) drop(b) is r drop(b) in blocks of the first kind, and the logits are
 * norm(x_L) / s W^T. */
#include <string.h>

#include "model/decoder.h"
#include "model/pieces.h"

/* ---- norms before the branches, or on both sides of them (`posts`) ---- */

/* What a branch adds to x. */
static void end_branch(const wefti_decoder_view *f, wefti_drop_site site, float *y) {
    float r = (float)f->model->config.residual_multiplier;
    wefti_drop(f->model, f->unit, site, f->pass, y);
    if (r > 0) f->k->scale(f->N * f->C, r, y);
}

/* Its gradient before that: pass->dy itself, or `copy`. */
static const float *branch_gradient(const wefti_decoder_view *f, wefti_drop_site site,
                                    float *copy) {
    float r = (float)f->model->config.residual_multiplier;
    const float *d = wefti_drop_gradient(f->model, f->unit, site, f->pass, copy);
    if (r <= 0) return d;
    if (d != copy) memcpy(copy, d, (size_t)(f->N * f->C) * sizeof *copy);
    f->k->scale(f->N * f->C, r, copy);
    return copy;
}

static void pre_norm_forward(const wefti_decoder_view *f) {
    bool posts = f->model->ops->traits->place == WEFTI_NORM_BOTH;
    float *a = f->w.a, *y = f->pass->y;
    wefti_decoder_norm(f, WEFTI_NORM1, f->pass->x, a, f->s.stats1);
    wefti_decoder_attention(f, a, posts ? f->s.out1 : y);
    if (posts) wefti_decoder_norm(f, WEFTI_POST1, f->s.out1, y, f->s.post1);
    end_branch(f, WEFTI_DROP_FIRST, y);
    f->k->add(f->N * f->C, f->pass->x, y, f->s.mid);
    wefti_decoder_norm(f, WEFTI_NORM2, f->s.mid, a, f->s.stats2);
    wefti_decoder_ffn(f, a, posts ? f->s.out : y);
    if (posts) wefti_decoder_norm(f, WEFTI_POST2, f->s.out, y, f->s.post2);
    end_branch(f, WEFTI_DROP_SECOND, y);
    f->k->accumulate(f->N * f->C, f->s.mid, y);
}

static void pre_norm_backward(const wefti_decoder_view *f) {
    bool posts = f->model->ops->traits->place == WEFTI_NORM_BOTH;
    float *a = f->w.a, *b = f->w.b, *dy = f->pass->dy;
    const float *d = branch_gradient(f, WEFTI_DROP_SECOND, b);
    if (posts) wefti_decoder_norm_backward(f, WEFTI_POST2, f->s.out, f->s.post2, d, b);
    wefti_decoder_norm(f, WEFTI_NORM2, f->s.mid, a, f->s.stats2);
    wefti_decoder_ffn_backward(f, a, posts ? b : d, b);
    wefti_decoder_norm_backward(f, WEFTI_NORM2, f->s.mid, f->s.stats2, b, b);
    f->k->accumulate(f->N * f->C, b, dy); /* dy is now dh */
    d = branch_gradient(f, WEFTI_DROP_FIRST, b);
    if (posts) wefti_decoder_norm_backward(f, WEFTI_POST1, f->s.out1, f->s.post1, d, b);
    wefti_decoder_norm(f, WEFTI_NORM1, f->pass->x, a, f->s.stats1);
    wefti_decoder_attention_backward(f, a, posts ? b : d, b);
    wefti_decoder_norm_backward(f, WEFTI_NORM1, f->pass->x, f->s.stats1, b, b);
    f->k->accumulate(f->N * f->C, b, dy);
}

/* ---- norms after the branches ---- */

/* h[N,C] = x + drop(norm1(mid)) */
static void post_norm_middle(const wefti_decoder_view *f, float *h) {
    wefti_decoder_norm(f, WEFTI_NORM1, f->s.mid, h, f->s.stats1);
    wefti_drop(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, h);
    f->k->accumulate(f->N * f->C, f->pass->x, h);
}

static void post_norm_forward(const wefti_decoder_view *f) {
    float *h = f->w.a, *y = f->pass->y;
    wefti_decoder_attention(f, f->pass->x, f->s.mid);
    post_norm_middle(f, h);
    wefti_decoder_ffn(f, h, f->s.out);
    wefti_decoder_norm(f, WEFTI_NORM2, f->s.out, y, f->s.stats2);
    wefti_drop(f->model, f->unit, WEFTI_DROP_SECOND, f->pass, y);
    f->k->accumulate(f->N * f->C, h, y);
}

static void post_norm_backward(const wefti_decoder_view *f) {
    float *h = f->w.a, *b = f->w.b, *dy = f->pass->dy;
    const float *d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_SECOND, f->pass,
                                         b);
    wefti_decoder_norm_backward(f, WEFTI_NORM2, f->s.out, f->s.stats2, d, b);
    post_norm_middle(f, h);
    wefti_decoder_ffn_backward(f, h, b, b);
    f->k->accumulate(f->N * f->C, b, dy); /* dy is now dh */
    d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, b);
    wefti_decoder_norm_backward(f, WEFTI_NORM1, f->s.mid, f->s.stats1, d, b);
    wefti_decoder_attention_backward(f, f->pass->x, b, b);
    f->k->accumulate(f->N * f->C, b, dy);
}

/* ---- parallel branches ---- */

static void parallel_forward(const wefti_decoder_view *f) {
    float *a = f->w.a, *b = f->w.b, *y = f->pass->y;
    wefti_decoder_norm(f, WEFTI_NORM1, f->pass->x, a, f->s.stats1);
    wefti_decoder_attention(f, a, y);
    wefti_drop(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, y);
    wefti_decoder_norm(f, WEFTI_NORM2, f->pass->x, a, f->s.stats2);
    wefti_decoder_ffn(f, a, b);
    wefti_drop(f->model, f->unit, WEFTI_DROP_SECOND, f->pass, b);
    f->k->accumulate(f->N * f->C, b, y);
    f->k->accumulate(f->N * f->C, f->pass->x, y);
}

static void parallel_backward(const wefti_decoder_view *f) {
    float *a = f->w.a, *b = f->w.b, *c = f->w.c, *dy = f->pass->dy;
    const float *d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_SECOND, f->pass,
                                         b);
    wefti_decoder_norm(f, WEFTI_NORM2, f->pass->x, a, f->s.stats2);
    wefti_decoder_ffn_backward(f, a, d, b);
    wefti_decoder_norm_backward(f, WEFTI_NORM2, f->pass->x, f->s.stats2, b, b);
    d = wefti_drop_gradient(f->model, f->unit, WEFTI_DROP_FIRST, f->pass, c);
    wefti_decoder_norm(f, WEFTI_NORM1, f->pass->x, a, f->s.stats1);
    wefti_decoder_attention_backward(f, a, d, c);
    wefti_decoder_norm_backward(f, WEFTI_NORM1, f->pass->x, f->s.stats1, c, c);
    f->k->accumulate(f->N * f->C, b, dy);
    f->k->accumulate(f->N * f->C, c, dy);
}

/* ---- the head ---- */

/* In place: what follows of the divisor of the logits. */
static void divide(const wefti_decoder_view *f, float *x) {
    double s = f->model->config.logits_scaling;
    if (s > 0) f->k->scale(f->N * f->C, (float)(1 / s), x);
}

static void head_norm(const wefti_decoder_view *f) {
    wefti_decoder_norm(f, WEFTI_HEAD_NORM, f->pass->x, f->w.a, f->w.stats);
    divide(f, f->w.a);
}

static void head_forward(const wefti_decoder_view *f) {
    if (f->pass->training) return;
    head_norm(f);
    wefti_head_loss(f->model, f->pass, f->w.a, NULL, f->w.rest);
}

static void head_backward(const wefti_decoder_view *f) {
    head_norm(f);
    wefti_head_loss(f->model, f->pass, f->w.a, f->w.b, f->w.rest);
    divide(f, f->w.b);
    wefti_decoder_norm_backward(f, WEFTI_HEAD_NORM, f->pass->x, f->w.stats, f->w.b,
                                f->pass->dy);
}

void wefti_decoder_logits(const weft_model *model, const wefti_pass *pass, float *out) {
    wefti_decoder_view f = wefti_decoder_frame(model, model->n_units - 1, pass);
    head_norm(&f);
    wefti_head_logits(model, pass, f.w.a, out);
}

/* ---- entry points ---- */

static const struct {
    void (*forward)(const wefti_decoder_view *f);
    void (*backward)(const wefti_decoder_view *f);
} blocks[] = {
    [WEFTI_NORM_BEFORE] = {pre_norm_forward, pre_norm_backward},
    [WEFTI_NORM_AFTER] = {post_norm_forward, post_norm_backward},
    [WEFTI_NORM_BOTH] = {pre_norm_forward, pre_norm_backward},
    [WEFTI_NORM_PARALLEL] = {parallel_forward, parallel_backward},
};

void wefti_decoder_forward(const weft_model *model, int unit, const wefti_pass *pass) {
    wefti_decoder_view f = wefti_decoder_frame(model, unit, pass);
    switch (model->units[unit].kind) {
    case WEFTI_EMBED: wefti_embed_forward(model, pass); break;
    case WEFTI_BLOCK: blocks[model->ops->traits->place].forward(&f); break;
    case WEFTI_HEAD: head_forward(&f); break;
    }
}

void wefti_decoder_backward(const weft_model *model, int unit, const wefti_pass *pass) {
    wefti_decoder_view f = wefti_decoder_frame(model, unit, pass);
    switch (model->units[unit].kind) {
    case WEFTI_EMBED: wefti_embed_backward(model, pass); break;
    case WEFTI_BLOCK: blocks[model->ops->traits->place].backward(&f); break;
    case WEFTI_HEAD: head_backward(&f); break;
    }
}
