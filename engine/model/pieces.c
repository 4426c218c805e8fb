/* SPDX-License-Identifier: MIT */
/* Building blocks of the units of several models: linear maps in both layouts, dropout,
 * embedding, head and loss, each as a pair of forward and backward.
 *
 *     [in,out]: y = x W     [out,in]: y = x W^T     with a side: + drop(x) D or D^T
 *     loss = mean over N of -log softmax(y)[target]
 *
 * A product may be of several matrices that read the same x (q, k and v), one behind the other in
 * its outputs. Of the side each has a mask of its own, as if it were a product alone. */
#include "model/pieces.h"

#include <string.h>

#include "model/past.h"

/* Outputs [at, at + n) of a product; of its side the matrix i has them. */
typedef struct part {
    int i;
    int64_t at, n;
} part;

static const part before_the_first = {.i = -1};

static part whole(const wefti_linear *l) { return (part){.n = l->out}; }

/* The next matrix with an adapter; false behind the last. */
static bool next_part(const wefti_linear *l, part *p) {
    const wefti_linear_side *side = &l->side;
    if (!side->w) return false;
    do {
        p->i++;
        p->at += p->n;
        if (p->at >= l->out) return false;
        const wefti_param *matrix = &side->matrices[p->i];
        p->n = matrix->cols_are_outputs ? matrix->cols : matrix->rows;
    } while (!side->has[p->i]);
    return true;
}

/* Where the part begins in an array with the layout of the matrix. */
static int64_t begin(const wefti_linear *l, part p) {
    return l->in_out ? p.at : p.at * l->in;
}

static void drop_side(const wefti_kernels *k, const wefti_linear *l, part p, float *x) {
    const wefti_linear_side *side = &l->side;
    k->layers->dropout(l->N * l->in, side->rate, side->seed, side->step + (uint64_t)p.i,
                       side->first, x);
}

/* The input of a part's side product, with that part's dropout. */
static const float *dropped(const wefti_kernels *k, const wefti_linear *l, part p,
                            const float *x) {
    memcpy(l->side.room, x, (size_t)(l->N * l->in) * sizeof *x);
    drop_side(k, l, p, l->side.room);
    return l->side.room;
}

/* y = x W + b of rounded factors. */
static void mixed_product(const wefti_kernels *k, const wefti_linear *l, const void *x,
                          void *y) {
    bool adds = l->plus && l->in <= WEFTI_MIXED_TERMS;
    k->layers->gemm_mixed(&(wefti_mixed){.tb = !l->in_out,
                                         .M = l->N,
                                         .N = l->out,
                                         .K = l->in,
                                         .A = x,
                                         .lda = l->in,
                                         .half_a = l->half_x,
                                         .B = l->w,
                                         .ldb = l->in_out ? l->out : l->in,
                                         .C = y,
                                         .ldc = l->out,
                                         .half_c = l->half_y,
                                         .bias = l->b,
                                         .plus = adds ? l->plus : NULL,
                                         .slopes = l->slopes,
                                         .curve = l->curve});
    if (l->plus && !adds) k->accumulate(l->N * l->out, l->plus, y);
}

/* dx = dy W^T */
static void mixed_backward(const wefti_kernels *k, const wefti_linear *l, const void *dy,
                           void *dx) {
    k->layers->gemm_mixed(&(wefti_mixed){.tb = l->in_out,
                                         .M = l->N,
                                         .N = l->in,
                                         .K = l->out,
                                         .A = dy,
                                         .lda = l->out,
                                         .half_a = l->half_y,
                                         .B = l->w,
                                         .ldb = l->in_out ? l->out : l->in,
                                         .C = dx,
                                         .ldc = l->in,
                                         .half_c = l->half_x,
                                         .times = l->times});
}

static void mixed_gradient(const wefti_kernels *k, const wefti_linear *l, const void *x,
                           const void *dy) {
    wefti_mixed p = {.ta = true,
                     .M = l->in,
                     .N = l->out,
                     .K = l->N,
                     .A = x,
                     .lda = l->in,
                     .half_a = l->half_x,
                     .B = dy,
                     .ldb = l->out,
                     .half_b = l->half_y,
                     .C = l->dw,
                     .ldc = l->out,
                     .beta = l->fresh ? 0 : 1};
    if (!l->in_out) {
        p.M = l->out, p.A = dy, p.lda = l->out, p.half_a = l->half_y;
        p.N = l->in, p.B = x, p.ldb = l->in, p.half_b = l->half_x, p.ldc = l->in;
    }
    k->layers->gemm_mixed(&p);
}

/* y = beta y + x W */
static void product(const wefti_kernels *k, const wefti_linear *l, part p, const float *x,
                    const float *w, float beta, float *y) {
    k->gemm(false, !l->in_out, l->N, p.n, l->in, 1.0f, x, l->in, w + begin(l, p),
            l->in_out ? l->out : l->in, beta, y + p.at, l->out);
}

/* dx = dy W^T */
static void product_backward(const wefti_kernels *k, const wefti_linear *l, part p,
                             const float *dy, const float *w, float *dx) {
    k->gemm(false, l->in_out, l->N, l->in, p.n, 1.0f, dy + p.at, l->out, w + begin(l, p),
            l->in_out ? l->out : l->in, 0.0f, dx, l->in);
}

/* [in,out]: dW += x^T dy     [out,in]: dW += dy^T x     (= if it is fresh) */
static void matrix_gradient(const wefti_kernels *k, const wefti_linear *l, part p,
                            const float *x, const float *dy) {
    float *dw = l->dw + begin(l, p), beta = l->fresh ? 0 : 1;
    if (l->in_out)
        k->gemm(true, false, l->in, p.n, l->N, 1.0f, x, l->in, dy + p.at, l->out, beta,
                dw, l->out);
    else
        k->gemm(true, false, p.n, l->in, l->N, 1.0f, dy + p.at, l->out, x, l->in, beta,
                dw, l->in);
}

void wefti_linear_forward(const wefti_kernels *k, const wefti_linear *l, const void *x,
                          void *y) {
    if (k->layers->gemm_mixed && !l->side.w) {
        mixed_product(k, l, x, y);
        return;
    }
    product(k, l, whole(l), x, l->w, 0.0f, y);
    for (part p = before_the_first; next_part(l, &p);)
        product(k, l, p, dropped(k, l, p, x), l->side.w, 1.0f, y);
    if (l->b) k->bias_add(l->N, l->out, l->b, y);
    if (l->plus) k->accumulate(l->N * l->out, l->plus, y);
}

/* dW as above, dx = dy W^T or dy W. With a side: dD of drop(x) instead of dW, and
 * dx += drop(dy D). */
void wefti_linear_backward(const wefti_kernels *k, const wefti_linear *l, const void *x,
                           const void *dy, void *dx) {
    if (k->layers->gemm_mixed && !l->side.w) {
        mixed_gradient(k, l, x, dy);
        if (l->b)
            (l->half_y ? k->bias_grad_half(l->N, l->out, dy, l->db)
                       : k->bias_grad(l->N, l->out, dy, l->db));
        mixed_backward(k, l, dy, dx);
        return;
    }
    if (!l->side.w) matrix_gradient(k, l, whole(l), x, dy);
    for (part p = before_the_first; next_part(l, &p);)
        matrix_gradient(k, l, p, dropped(k, l, p, x), dy);
    if (l->b) k->bias_grad(l->N, l->out, dy, l->db);
    product_backward(k, l, whole(l), dy, l->w, dx); /* from here on x may be gone */
    for (part p = before_the_first; next_part(l, &p);) {
        product_backward(k, l, p, dy, l->side.w, l->side.room);
        drop_side(k, l, p, l->side.room);
        k->accumulate(l->N * l->in, l->side.room, dx);
    }
}

/* Every (step, parameter) has a number of its own, with a seed that no other dropout uses. */
wefti_linear_side wefti_side_of(const weft_model *model, int unit, const wefti_pass *pass,
                                int param, int64_t out) {
    const wefti_param *p = &model->units[unit].params[param];
    bool any = false;
    if (!pass->side) return (wefti_linear_side){0};
    int64_t in = p->cols_are_outputs ? p->rows : p->cols, covered = 0;
    for (int i = 0; covered < out; i++) {
        any |= pass->side->has[param + i];
        covered += p[i].cols_are_outputs ? p[i].cols : p[i].rows;
    }
    if (!any) return (wefti_linear_side){0};
    return (wefti_linear_side){.w = pass->side->products + p->offset,
                               .matrices = p,
                               .has = pass->side->has + param,
                               .rate = pass->side->rate,
                               .seed = pass->seed ^ (uint64_t)1 << 62,
                               .step = pass->step * (uint64_t)model->n_params +
                                       (uint64_t)(p - model->params),
                               .first = pass->row * (uint64_t)(pass->T * in),
                               .room = pass->side->room};
}

static bool drops(const weft_model *model, const wefti_pass *pass) {
    return pass->training && model->config.dropout > 0;
}

/* Every (step, unit, site) has a number of its own; rows are counted through the global batch.
 */
static void mask(const weft_model *model, int unit, wefti_drop_site site,
                 const wefti_pass *pass, float *x) {
    uint64_t sites = (uint64_t)model->n_units * WEFTI_DROP_THIRD;
    uint64_t place = (uint64_t)unit * WEFTI_DROP_THIRD + (uint64_t)site;
    uint64_t seed = pass->seed;
    if (site == WEFTI_DROP_THIRD) { /* which few kinds have: it has a seed of its own */
        place -= WEFTI_DROP_THIRD;
        seed ^= (uint64_t)1 << 63;
    }
    int64_t row_floats = pass->T * model->config.width;
    pass->kernels->layers->dropout(pass->B * row_floats, (float)model->config.dropout,
                                   seed, pass->step * sites + place,
                                   pass->row * (uint64_t)row_floats, x);
}

const float *wefti_residual(const weft_model *model, const wefti_pass *pass,
                            const float *x) {
    return drops(model, pass) ? NULL : x;
}

void wefti_drop_and_add(const weft_model *model, int unit, wefti_drop_site site,
                        const wefti_pass *pass, const float *x, float *y) {
    if (!drops(model, pass)) return;
    mask(model, unit, site, pass, y);
    pass->kernels->accumulate(pass->B * pass->T * model->config.width, x, y);
}

void wefti_drop(const weft_model *model, int unit, wefti_drop_site site,
                const wefti_pass *pass, float *x) {
    if (drops(model, pass)) mask(model, unit, site, pass, x);
}

const float *wefti_drop_gradient(const weft_model *model, int unit, wefti_drop_site site,
                                 const wefti_pass *pass, float *copy) {
    if (!drops(model, pass)) return pass->dy;
    size_t n = (size_t)(pass->B * pass->T * model->config.width);
    memcpy(copy, pass->dy, n * sizeof *copy);
    mask(model, unit, site, pass, copy);
    return copy;
}

/* The row of position 0 in the table of positions or its gradient; NULL without one. */
static float *positions(const weft_model *model, float *params) {
    const wefti_unit *unit = &model->units[0];
    if (unit->n_params < 2) return NULL;
    return params + unit->params[1].offset + model->first_position * unit->params[1].cols;
}

void wefti_embed_forward(const weft_model *model, const wefti_pass *pass) {
    int64_t N = pass->B * pass->T, C = model->config.width;
    const float *pos = positions(model, (float *)(uintptr_t)pass->params);
    if (pos && wefti_past_continues(pass))
        for (int64_t b = 0; b < N; b++) /* T = 1 */
            pass->kernels->layers->embed_forward(1, 1, C, pass->tokens + b, pass->params,
                                                 pos + pass->past->n[b] * C,
                                                 pass->y + b * C);
    else
        pass->kernels->layers->embed_forward(N, pass->T, C, pass->tokens, pass->params,
                                             pos, pass->y);
    if (model->embed_scale > 0) pass->kernels->scale(N * C, model->embed_scale, pass->y);
    wefti_drop(model, 0, WEFTI_DROP_FIRST, pass, pass->y);
}

void wefti_embed_backward(const weft_model *model, const wefti_pass *pass) {
    int64_t N = pass->B * pass->T, C = model->config.width;
    float *dpos = positions(model, pass->grads);
    wefti_drop(model, 0, WEFTI_DROP_FIRST, pass, pass->dy);
    if (model->embed_scale > 0) pass->kernels->scale(N * C, model->embed_scale, pass->dy);
    pass->kernels->layers->embed_backward(N, pass->T, C, pass->tokens, pass->dy,
                                          pass->grads, dpos);
}

/* Offset of the token matrix in the head's own buffer. */
static int64_t own_matrix(const weft_model *model) {
    const wefti_unit *head = &model->units[model->n_units - 1];
    return head->params[head->n_params - 1].offset;
}

static const float *token_matrix(const weft_model *model, const wefti_pass *pass) {
    return model->config.tied ? pass->borrowed : pass->params + own_matrix(model);
}

void wefti_head_loss(const weft_model *model, const wefti_pass *pass, const float *xn,
                     float *dxn, float *scratch) {
    float *dw = NULL;
    if (dxn && !pass->frozen_table)
        dw = model->config.tied ? pass->borrowed_grads : pass->grads + own_matrix(model);
    pass->kernels->layers->head_loss(
        pass->B * pass->T, model->config.width, model->config.vocab, xn,
        token_matrix(model, pass), pass->targets, (float)model->config.logit_cap,
        pass->grad_scale, pass->loss_sum, dxn, dw, pass->fresh, scratch);
}

void wefti_head_logits(const weft_model *model, const wefti_pass *pass, const float *xn,
                       float *logits) {
    int64_t C = model->config.width, V = model->config.vocab;
    pass->kernels->gemm(false, true, pass->B * pass->T, V, C, 1.0f, xn, C,
                        token_matrix(model, pass), C, 0.0f, logits, V);
    float cap = (float)model->config.logit_cap;
    if (cap > 0) pass->kernels->layers->cap_logits(pass->B * pass->T * V, cap, logits);
}
