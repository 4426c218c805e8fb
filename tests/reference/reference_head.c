/* SPDX-License-Identifier: MIT */
/* Embedding and its transpose; head and cross-entropy:
 *   l_v = x.w_v (capped: cap tanh(x.w_v / cap))
 *   loss = log sum_v exp l_v - l_target, g_v = softmax(l)_v - [v = target]
 *   dx = grad_scale sum_v g_v w_v, dw_v += grad_scale g_v x
 * scratch: the logits of one row. In the bf16 table the factors of all three products, x, w
 * and grad_scale g, are rounded first. */
#include "reference/reference_layers.h"

#include <math.h>

void wefti_reference_embed_forward(int64_t N, int64_t T, int64_t C, const int32_t *token,
                                   const float *table, const float *pos, float *y) {
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++)
            y[n * C + c] = table[token[n] * C + c] + (pos ? pos[n % T * C + c] : 0.0f);
}

void wefti_reference_embed_backward(int64_t N, int64_t T, int64_t C, const int32_t *token,
                                    const float *dy, float *dtable, float *dpos) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t c = 0; c < C; c++) {
            dtable[token[n] * C + c] += dy[n * C + c];
            if (dpos) dpos[n % T * C + c] += dy[n * C + c];
        }
    }
}

int64_t wefti_reference_head_scratch(int64_t N, int64_t V, int threads) {
    (void)N, (void)threads;
    return V;
}

typedef float rounding(float x);

static float as_it_is(float x) { return x; }

/* The loss of one row; logit[V] becomes softmax minus the target's one-hot. */
static double row_loss(rounding *r, int64_t C, int64_t V, const float *x, const float *w,
                       int32_t target, float cap, float *logit) {
    double top = -HUGE_VAL, sum = 0, limit = (double)cap;
    for (int64_t v = 0; v < V; v++) {
        double l = 0;
        for (int64_t c = 0; c < C; c++) l += (double)r(x[c]) * (double)r(w[v * C + c]);
        logit[v] = (float)(limit > 0 ? limit * tanh(l / limit) : l);
        top = fmax(top, (double)logit[v]);
    }
    for (int64_t v = 0; v < V; v++) sum += exp((double)logit[v] - top);
    double loss = log(sum) + top - (double)logit[target];
    for (int64_t v = 0; v < V; v++) {
        double l = (double)logit[v], g = exp(l - top) / sum - (v == target ? 1.0 : 0.0);
        logit[v] = (float)(limit > 0 ? g * (1 - l / limit * (l / limit)) : g);
    }
    return loss;
}

static void row_gradient(rounding *r, int64_t C, int64_t V, const float *x,
                         const float *w, float grad_scale, const float *g, float *dx,
                         float *dw) {
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t v = 0; v < V; v++)
            sum += (double)r(grad_scale * g[v]) * (double)r(w[v * C + c]);
        dx[c] = (float)sum;
    }
    for (int64_t v = 0; v < V && dw; v++)
        for (int64_t c = 0; c < C; c++) dw[v * C + c] += r(grad_scale * g[v]) * r(x[c]);
}

static void head_loss(rounding *r, int64_t N, int64_t C, int64_t V, const float *x,
                      const float *w, const int32_t *target, float cap, float grad_scale,
                      double *loss_sum, float *dx, float *dw, bool fresh,
                      float *scratch) {
    for (int64_t i = 0; i < V * C && dw && fresh; i++) dw[i] = 0;
    for (int64_t n = 0; n < N; n++, x += C) {
        if (target[n] >= 0) {
            *loss_sum += row_loss(r, C, V, x, w, target[n], cap, scratch);
            if (dx) row_gradient(r, C, V, x, w, grad_scale, scratch, dx + n * C, dw);
        } else if (dx) {
            for (int64_t c = 0; c < C; c++) dx[n * C + c] = 0;
        }
    }
}

void wefti_reference_head_loss(int64_t N, int64_t C, int64_t V, const float *x,
                               const float *w, const int32_t *target, float cap,
                               float grad_scale, double *loss_sum, float *dx, float *dw,
                               bool fresh, float *scratch) {
    head_loss(as_it_is, N, C, V, x, w, target, cap, grad_scale, loss_sum, dx, dw, fresh,
              scratch);
}

void wefti_reference_head_loss_bf16(int64_t N, int64_t C, int64_t V, const float *x,
                                    const float *w, const int32_t *target, float cap,
                                    float grad_scale, double *loss_sum, float *dx,
                                    float *dw, bool fresh, float *scratch) {
    head_loss(wefti_reference_bf16, N, C, V, x, w, target, cap, grad_scale, loss_sum, dx,
              dw, fresh, scratch);
}

void wefti_reference_cap_logits(int64_t n, float cap, float *logit) {
    double limit = (double)cap;
    for (int64_t i = 0; i < n; i++)
        logit[i] = (float)(limit * tanh((double)logit[i] / limit));
}
