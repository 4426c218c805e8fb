/* SPDX-License-Identifier: MIT */
/* A small model with everything around it that a step needs, and the check of its
 * gradients against central differences.
 *
 * The derivative of a loss L along a direction d is taken from four points,
 *     D = (8 (L(h) - L(-h)) - (L(2h) - L(-2h))) / 12h = L' + O(h^4),
 * and compared with <gradient, d>, for d = random signs (any wrong component shows) and
 * for d = the gradient's own signs (a wrong size shows). L is a sum in double of terms
 * that kernels computed in float. */
#pragma once

#include "check.h"

#include <float.h>
#include <math.h>

#include "adapter/adapted.h"
#include "base/memory.h"
#include "base/rng.h"
#include "model/model.h"
#include "reference/reference.h"

/* h of the differences: the largest power of two at which truncation, the fourth power of
 * h, is below the rounding error, which grows with 1/h. */
#define NET_STEP 0x1p-10
/* Truncation relative to the gradient along the direction. Over the models below, halving
 * h from 2^-8 to 2^-9 to 2^-10 took the largest error from 1.6e-2 to 1.4e-3 to 1.7e-4, as
 * a fourth power does; this is six times the last. */
#define NET_TRUNCATION 1e-3
/* The sum of the formula's absolute coefficients, times h. */
#define NET_AMPLIFICATION 1.5
/* Roundings that a term of L carries, in units of FLT_EPSILON of the term. Kernels of the
 * reference table sum in double and round their output once, to half a unit; some ten of
 * them in a chain give sqrt(10)/2 units. Terms round independently, so the error of L is
 * this times the root of the terms' sum of squares. */
#define NET_ROUNDINGS 2.0
/* A wrong part of a gradient this large, relative to the gradient, must be seen. */
#define NET_VISIBLE 0.02

typedef struct net {
    weft_ctx *ctx;
    weft_model *model;
    const wefti_kernels *kernels;
    int64_t B, T, N, C;
    bool training;
    uint64_t seed, step, row;
    float grad_scale;
    float *params, *grads; /* the units' flat buffers one after another */
    int64_t *starts;       /* of each unit in them */
    float *x;              /* [n_units][N,C] input of each unit */
    float **saved;         /* of each unit */
    float
        *scratch; /* saved and scratch are followed by NET_FENCE floats NET_FENCE_MARK */
    int64_t scratch_floats;
    float *dy, *weights; /* [N,C]; weights of y in a unit's loss */
    int32_t *tokens, *targets;
    int64_t n_tokens, n_targets;
    double loss, terms; /* of the last loss: value, root of the terms' sum of squares */
    bool vanishing;     /* some gradients are zero: nothing of them can be seen */
    const char *flat;   /* parameters with this in their names have none; or NULL */
} net;

enum { NET_OTHER = 1000 }; /* seeds of what is not a parameter */

static inline void *net_alloc(net *n, int64_t count, size_t item) {
    void *block;
    assert_int_equal(wefti_alloc_n(n->ctx, count, item, "a test", &block), WEFT_OK);
    return block;
}

#define NET_FENCE_MARK 1234.5f
enum { NET_FENCE = 64 };

/* A buffer with a fence behind it, which net_close looks at. */
static inline float *net_fenced(net *n, int64_t count) {
    float *block = net_alloc(n, count + NET_FENCE, sizeof *block);
    for (int i = 0; i < NET_FENCE; i++) block[count + i] = NET_FENCE_MARK;
    return block;
}

static inline void net_assert_fence(const float *block, int64_t count) {
    for (int i = 0; i < NET_FENCE; i++) assert_true(block[count + i] == NET_FENCE_MARK);
}

static inline int64_t net_saved_floats(const net *n, int u) {
    return n->model->ops->saved_floats(n->model, u, n->B, n->T, n->kernels);
}

static inline void net_fill(uint64_t seed, float mean, float std, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = mean +
                 std * (float)wefti_rng_normal(seed, WEFTI_STREAM_TEST, 0, (uint64_t)i);
}

static inline float *net_x(const net *n, int unit) { return n->x + unit * n->N * n->C; }

/* Gains and biases get noise, so that no gradient is right by symmetry. */
static inline void net_init_params(net *n) {
    for (int u = 0; u < n->model->n_units; u++) {
        const wefti_unit *unit = &n->model->units[u];
        for (int i = 0; i < unit->n_params; i++) {
            const wefti_param *p = &unit->params[i];
            float *values = n->params + n->starts[u] + p->offset;
            wefti_model_init_rows(n->model, 3, u, i, 0, p->rows, values);
            if (p->ndim == 1)
                net_fill((uint64_t)(p - n->model->params), p->init_mean, 0.1f, p->rows,
                         values);
        }
    }
}

static inline void net_buffers(net *n) {
    int U = n->model->n_units;
    n->params = net_alloc(n, n->model->n_elements, sizeof(float));
    n->grads = net_alloc(n, n->model->n_elements, sizeof(float));
    n->starts = net_alloc(n, U, sizeof *n->starts);
    n->saved = net_alloc(n, U, sizeof *n->saved);
    n->x = net_alloc(n, U * n->N * n->C, sizeof(float));
    n->dy = net_alloc(n, n->N * n->C, sizeof(float));
    n->weights = net_alloc(n, n->N * n->C, sizeof(float));
    n->n_tokens = n->B * wefti_model_row_tokens(n->model, n->T);
    n->n_targets = n->B * wefti_model_row_targets(n->model, n->T);
    n->tokens = net_alloc(n, n->n_tokens, sizeof(int32_t));
    n->targets = net_alloc(n, n->n_targets, sizeof(int32_t));
    n->scratch_floats = n->model->ops->scratch_floats(
        n->model, n->B, n->T, wefti_kernels_threads(), n->kernels);
    n->scratch = net_fenced(n, n->scratch_floats);
    for (int u = 0; u < U; u++) {
        n->saved[u] = net_fenced(n, net_saved_floats(n, u));
        if (u > 0) n->starts[u] = n->starts[u - 1] + n->model->units[u - 1].n_elements;
    }
}

/* Around a model that is there already, which is taken; n->ctx is its context. */
static inline void net_open_around(net *n, weft_ctx *ctx, weft_model *model,
                                   const wefti_kernels *kernels, int64_t B, int64_t T) {
    const weft_model_config *config = &model->config;
    *n = (net){.kernels = kernels,
               .B = B,
               .T = T,
               .N = B * T,
               .training = true,
               .seed = 11,
               .step = 5,
               .row = 7,
               .grad_scale = 0.5f,
               .C = config->width};
    n->ctx = ctx;
    n->model = model;
    net_buffers(n);
    net_init_params(n);
    net_fill(NET_OTHER, 0, 1, n->model->n_units * n->N * n->C, n->x);
    net_fill(NET_OTHER + 1, 0, 1, n->N * n->C, n->weights);
    uint64_t V = (uint64_t)config->vocab;
    uint64_t ids = n->model->ops->input == WEFTI_INPUT_IMAGES ? 256 : V;
    for (int64_t i = 0; i < n->n_tokens; i++)
        n->tokens[i] = (int32_t)(wefti_rng_u64(1, WEFTI_STREAM_TEST, 1, (uint64_t)i) %
                                 ids);
    for (int64_t i = 0; i < n->n_targets; i++)
        n->targets[i] = (int32_t)(wefti_rng_u64(1, WEFTI_STREAM_TEST, 2, (uint64_t)i) %
                                  V);
    if (n->n_targets > 2) n->targets[2] = -1;
}

static inline void net_open_with(net *n, const wefti_kernels *kernels,
                                 const weft_model_config *config, int64_t B, int64_t T) {
    weft_ctx *ctx;
    weft_model *model;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_int_equal(weft_model_create(ctx, config, &model), WEFT_OK);
    net_open_around(n, ctx, model, kernels, B, T);
}

static inline void net_open(net *n, const weft_model_config *config, int64_t B,
                            int64_t T) {
    net_open_with(n, &wefti_kernels_reference, config, B, T);
}

static inline void net_close(net *n) {
    net_assert_fence(n->scratch, n->scratch_floats);
    for (int u = 0; u < n->model->n_units; u++) {
        net_assert_fence(n->saved[u], net_saved_floats(n, u));
        wefti_free(n->ctx, n->saved[u]);
    }
    void *blocks[] = {n->params, n->grads,   n->starts, n->saved,   n->x,
                      n->dy,     n->weights, n->tokens, n->targets, n->scratch};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        wefti_free(n->ctx, blocks[i]);
    weft_model_destroy(n->ctx, n->model);
    assert_int_equal(weft_ctx_bytes_held(n->ctx), 0);
    weft_ctx_destroy(n->ctx);
}

static inline wefti_pass net_pass(net *n, int u) {
    const wefti_unit *unit = &n->model->units[u];
    bool head = unit->kind == WEFTI_HEAD, embed = unit->kind == WEFTI_EMBED;
    wefti_pass pass = {.kernels = n->kernels,
                       .B = n->B,
                       .T = n->T,
                       .training = n->training,
                       .seed = n->seed,
                       .step = n->step,
                       .row = n->row,
                       .params = n->params + n->starts[u],
                       .grads = n->grads + n->starts[u],
                       .tokens = n->tokens,
                       .targets = n->targets,
                       .x = embed ? NULL : net_x(n, u),
                       .y = head ? NULL : net_x(n, u + 1),
                       .dy = n->dy,
                       .saved = n->saved[u],
                       .scratch = n->scratch,
                       .grad_scale = n->grad_scale,
                       .loss_sum = &n->loss};
    if (unit->borrows >= 0) {
        pass.borrowed = n->params + n->starts[unit->borrows];
        pass.borrowed_grads = n->grads + n->starts[unit->borrows];
    }
    return pass;
}

static inline void net_forward(net *n, int u) {
    wefti_pass pass = net_pass(n, u);
    n->model->ops->forward(n->model, u, &pass);
}

static inline void net_backward(net *n, int u) {
    wefti_pass pass = net_pass(n, u);
    n->model->ops->backward(n->model, u, &pass);
}

static inline void net_zero_grads(net *n) {
    memset(n->grads, 0, (size_t)n->model->n_elements * sizeof *n->grads);
}

/* Gradients as before a backward that stores those of hidden matrices: these are poison. */
static inline void net_spoil_grads(net *n) {
    for (int u = 0; u < n->model->n_units; u++) {
        const wefti_unit *unit = &n->model->units[u];
        float *grads = n->grads + n->starts[u];
        for (int64_t i = 0; i < unit->n_elements; i++) grads[i] = NAN;
        wefti_unit_clear(unit, n->kernels, grads);
    }
}

/* The head's loss without its backward, times grad_scale. */
static inline double net_head_loss(net *n) {
    int u = n->model->n_units - 1;
    wefti_pass pass = net_pass(n, u);
    pass.training = false;
    n->loss = 0;
    n->model->ops->forward(n->model, u, &pass);
    n->terms = (double)n->grad_scale * n->loss / sqrt((double)n->N);
    return (double)n->grad_scale * n->loss;
}

/* The loss of one unit: the head's, or the weighted sum of the unit's output. */
static inline double net_unit_loss(net *n, int u) {
    if (n->model->units[u].kind == WEFTI_HEAD) return net_head_loss(n);
    double sum = 0, squares = 0;
    net_forward(n, u);
    const float *y = net_x(n, u + 1);
    for (int64_t i = 0; i < n->N * n->C; i++) {
        double term = (double)n->weights[i] * (double)y[i];
        sum += term;
        squares += term * term;
    }
    n->terms = sqrt(squares);
    return sum;
}

/* Gradients of net_unit_loss: of the parameters in grads, of the input in dy. */
static inline void net_unit_gradient(net *n, int u) {
    memcpy(n->dy, n->weights, (size_t)(n->N * n->C) * sizeof *n->dy);
    net_zero_grads(n);
    net_forward(n, u);
    net_backward(n, u);
}

/* The loss of the whole model; `u` is not used. */
static inline double net_model_loss(net *n, int u) {
    (void)u;
    for (int v = 0; v < n->model->n_units - 1; v++) net_forward(n, v);
    return net_head_loss(n);
}

/* Into gradients that are not cleared first, where the model can. */
static inline void net_model_gradient(net *n) {
    bool fresh = !n->model->adapted;
    net_zero_grads(n);
    if (fresh) net_spoil_grads(n);
    n->loss = 0;
    for (int u = 0; u < n->model->n_units; u++) net_forward(n, u);
    for (int u = n->model->n_units - 1; u >= 0; u--) {
        wefti_pass pass = net_pass(n, u);
        pass.fresh = fresh;
        n->model->ops->backward(n->model, u, &pass);
    }
}

typedef double (*net_loss_function)(net *n, int u);

/* One gradient under test: g[count] of loss(n, unit) with respect to at[count]. */
typedef struct net_check {
    const char *name;
    net_loss_function loss;
    int unit;
    float *at;
    const float *g;
    int64_t count;
} net_check;

static inline double net_loss_at(net *n, const net_check *c, const float *base,
                                 const signed char *d, double h) {
    for (int64_t i = 0; i < c->count; i++) c->at[i] = (float)((double)base[i] + h * d[i]);
    double loss = c->loss(n, c->unit);
    memcpy(c->at, base, (size_t)c->count * sizeof *base);
    return loss;
}

static inline double net_difference(net *n, const net_check *c, const signed char *d) {
    double h = NET_STEP;
    float *base = net_alloc(n, c->count, sizeof *base);
    memcpy(base, c->at, (size_t)c->count * sizeof *base);
    double near = net_loss_at(n, c, base, d, h) - net_loss_at(n, c, base, d, -h);
    double far = net_loss_at(n, c, base, d, 2 * h) - net_loss_at(n, c, base, d, -2 * h);
    wefti_free(n->ctx, base);
    return (8 * near - far) / (12 * h);
}

/* Fills d with the gradient's signs (k = 0) or random ones. */
static inline void net_direction(const net_check *c, int k, signed char *d) {
    for (int64_t i = 0; i < c->count; i++) {
        bool up = wefti_rng_u64(9, WEFTI_STREAM_TEST, (uint64_t)k, (uint64_t)i) & 1;
        if (k == 0) up = c->g[i] > 0;
        d[i] = up ? 1 : -1;
    }
}

/* How far <gradient, d> is from the difference, in units of what it may be: at most 1
 * when the gradient is right. *visible: the tolerance over the 1-norm, how small an error
 * can be seen. */
static inline double net_error(net *n, const net_check *c, int k, double *visible) {
    signed char *d = net_alloc(n, c->count, sizeof *d);
    double along = 0, norm1 = 0, norm2 = 0;
    net_direction(c, k, d);
    for (int64_t i = 0; i < c->count; i++) {
        along += (double)c->g[i] * d[i];
        norm1 += fabs((double)c->g[i]);
        norm2 += (double)c->g[i] * (double)c->g[i];
    }
    double difference = net_difference(n, c, d);
    wefti_free(n->ctx, d);
    double size = k == 0 ? norm1 : sqrt(norm2);
    double tolerance = NET_TRUNCATION * size + NET_AMPLIFICATION / NET_STEP *
                                                   NET_ROUNDINGS * (double)FLT_EPSILON *
                                                   n->terms;
    *visible = tolerance / size;
    return fabs(along - difference) / tolerance;
}

enum { NET_DIRECTIONS = 4 };

/* Asserts that c->g is the gradient, and that one of the other sign would have been
 * refused. */
static inline void net_assert_gradient(net *n, const net_check *c) {
    bool vanishing = n->vanishing || (n->flat && strstr(c->name, n->flat));
    for (int k = 0; k < NET_DIRECTIONS; k++) {
        double visible, error = net_error(n, c, k, &visible);
        if (!(error <= 1))
            fail_msg("%s: direction %d is wrong by %g tolerances", c->name, k, error);
        if (k == 0 && !vanishing && !(visible < NET_VISIBLE))
            fail_msg("%s: the check sees no error under %g of the gradient", c->name,
                     visible);
    }
    if (vanishing) return;
    float *wrong = net_alloc(n, c->count, sizeof *wrong);
    for (int64_t i = 0; i < c->count; i++) wrong[i] = -c->g[i];
    net_check flipped = *c;
    flipped.g = wrong;
    double visible;
    assert_true(net_error(n, &flipped, 0, &visible) > 1);
    wefti_free(n->ctx, wrong);
}

/* A copy of grads, which a loss function does not touch but the next gradient does. */
/* Numbers in [-1, 1] that a script in another language makes too (make_huggingface.py,
 * make_rows.py). */
static inline double net_formula(int number, int64_t i) {
    return (double)((i * i * 31 + i * 7919 + number * 104729) % 2003 - 1001) / 1001;
}

/* Parameters by that formula, each with its number in the model. */
static inline void net_fill_params(net *n) {
    for (int u = 0; u < n->model->n_units; u++)
        for (int k = 0; k < n->model->units[u].n_params; k++) {
            const wefti_param *p = &n->model->units[u].params[k];
            int number = (int)(p - n->model->params);
            float *values = n->params + n->starts[u] + p->offset;
            for (int64_t i = 0; i < p->rows * p->cols; i++) {
                double v = net_formula(number, i);
                values[i] = (float)(p->ndim == 2 ? 0.35 * v
                                                 : (double)p->init_mean + 0.1 * v);
            }
        }
}

static inline float *net_copy(net *n, const float *from, int64_t count) {
    float *copy = net_alloc(n, count, sizeof *copy);
    memcpy(copy, from, (size_t)count * sizeof *copy);
    return copy;
}

/* Parameter i of unit u, with respect to `loss` of `loss_unit`. */
static inline void net_assert_param(net *n, net_loss_function loss, int loss_unit, int u,
                                    int i, const float *grads) {
    const wefti_param *p = &n->model->units[u].params[i];
    int64_t at = n->starts[u] + p->offset;
    net_check c = {p->name,        loss,       loss_unit,
                   n->params + at, grads + at, p->rows * p->cols};
    net_assert_gradient(n, &c);
}

/* Parameters of the embedding that other units read and it does not: tables of biases. */
static inline bool net_is_lent_only(const net *n, int i) {
    return n->model->ops->input == WEFTI_INPUT_PAIRS && i > 0;
}

/* Every unit alone: gradient of its input and of each of its parameters. */
static inline void net_assert_units(net *n) {
    for (int u = 0; u < n->model->n_units; u++) {
        net_unit_gradient(n, u);
        float *grads = net_copy(n, n->grads, n->model->n_elements);
        float *dx = net_copy(n, n->dy, n->N * n->C);
        net_check input = {
            n->model->units[u].name, net_unit_loss, u, net_x(n, u), dx, n->N * n->C};
        if (n->model->units[u].kind != WEFTI_EMBED) net_assert_gradient(n, &input);
        for (int i = 0; i < n->model->units[u].n_params; i++)
            if (u > 0 || !net_is_lent_only(n, i))
                net_assert_param(n, net_unit_loss, u, u, i, grads);
        if (n->model->units[u].borrows == 0 && n->model->units[u].kind == WEFTI_HEAD)
            net_assert_param(n, net_unit_loss, u, 0, 0, grads);
        wefti_free(n->ctx, grads);
        wefti_free(n->ctx, dx);
    }
}

/* The whole model: gradient of the loss of each parameter. */
static inline void net_assert_model(net *n) {
    net_model_gradient(n);
    float *grads = net_copy(n, n->grads, n->model->n_elements);
    for (int u = 0; u < n->model->n_units; u++)
        for (int i = 0; i < n->model->units[u].n_params; i++)
            net_assert_param(n, net_model_loss, 0, u, i, grads);
    wefti_free(n->ctx, grads);
}

/* Norm of the unit's gradient; adds its projection to *projection. */
static inline double measure(const net *n, int u, double *projection) {
    double squares = 0;
    for (int k = 0; k < n->model->units[u].n_params; k++) {
        const wefti_param *p = &n->model->units[u].params[k];
        const float *g = n->grads + n->starts[u] + p->offset;
        for (int64_t i = 0; i < p->rows * p->cols; i++) {
            squares += (double)g[i] * (double)g[i];
            *projection += net_formula((int)(p - n->model->params), i + 1) * (double)g[i];
        }
    }
    return sqrt(squares);
}
