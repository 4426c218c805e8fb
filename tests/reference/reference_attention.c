/* SPDX-License-Identifier: MIT */
/* Attention, one head at a time; causal: query i sees keys 0..i, with a window only the
 * last of these; else all keys that are present:
 *   s_ij = scale q_i.k_j + bias_(i-j), lse_i = log sum_j exp s_ij
 *   p_ij = exp(s_ij - lse_i), o_i = sum_j p_ij v_j
 *   dp_ij = do_i.v_j, ds_ij = p_ij (dp_ij - do_i.o_i) scale
 *   dq_i = sum_j ds_ij k_j, dk_j = sum_i ds_ij q_i, dv_j = sum_i p_ij do_i
 * With a cap s_ij is cap tanh(s_ij / cap), and ds_ij gets the slope 1 - (s_ij / cap)^2.
 * The bias's gradient is the sum over i - j of p_ij (dp_ij - do_i.o_i).
 * In the bf16 table the factors of all products but do_i.o_i are rounded: q, k, v, do, ds, p of
 * the backward, and of the forward exp(s_ij - max_j s_ij), before it is divided by its sum.
 * scratch: two T x Tk matrices of one head. */
#include "reference/reference_layers.h"

#include <math.h>
#include <stddef.h>

/* The rounding of a factor before a product. */
typedef double rounding(double x);

static double exact(double x) { return x; }

static double to_bf16(double x) { return (double)wefti_reference_bf16((float)x); }

static double dot(rounding *factor, int64_t n, const float *a, const float *b) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += factor((double)a[i]) * factor((double)b[i]);
    return sum;
}

int64_t wefti_reference_attention_scratch(const wefti_attention_shape *s, int threads) {
    (void)threads;
    return 2 * s->T * wefti_attention_rows(s);
}

/* The end of the keys that query i of sequence b sees (exclusive). */
static int64_t end_key(const wefti_attention_shape *s, int64_t b, int64_t i) {
    if (!s->all) return i + 1;
    return s->n_keys ? s->n_keys[b] : wefti_attention_rows(s);
}

/* The bias of head h, as a pointer p such that p[i - j] is the bias of query i and key j;
 * NULL without one. */
static const float *bias_of(const wefti_attention_shape *s, int64_t h) {
    if (!s->bias) return NULL;
    return s->bias + h * wefti_attention_bias_row(s) + wefti_attention_rows(s) - 1;
}

/* The first key that query i sees. */
static int64_t first_key(const wefti_attention_shape *s, int64_t i) {
    return s->window > 0 && i >= s->window ? i - s->window + 1 : 0;
}

static double score_of(const wefti_attention_shape *s, rounding *factor, const float *q,
                       const float *k) {
    double score = (double)s->scale * dot(factor, s->D, q, k), cap = (double)s->cap;
    return cap > 0 ? cap * tanh(score / cap) : score;
}

/* One query of one head. */
typedef struct row {
    rounding *factor;
    int64_t b, h, i;
} row;

static double biased_score(const wefti_attention_shape *s, const row *r, int64_t j,
                           const float *q, const float *k) {
    const float *bias = bias_of(s, r->h);
    double score = score_of(s, r->factor, q, k + j * s->ld_kv);
    return bias ? score + (double)bias[r->i - j] : score;
}

static void forward_row(const wefti_attention_shape *s, const row *r, const float *q,
                        const float *k, const float *v, float *o, float *lse,
                        float *score) {
    double top = -HUGE_VAL, sum = 0;
    int64_t first = first_key(s, r->i), end = end_key(s, r->b, r->i);
    for (int64_t j = first; j < end; j++) {
        score[j] = (float)biased_score(s, r, j, q, k);
        top = fmax(top, (double)score[j]);
    }
    for (int64_t j = first; j < end; j++) sum += exp((double)score[j] - top);
    for (int64_t d = 0; d < s->D; d++) {
        double out = 0;
        for (int64_t j = first; j < end; j++)
            out += r->factor(exp((double)score[j] - top)) / sum *
                   r->factor((double)v[j * s->ld_kv + d]);
        o[d] = (float)out;
    }
    *lse = (float)(top + log(sum));
}

static void forward(rounding *factor, const wefti_attention_shape *s, const float *q,
                    const float *k, const float *v, float *o, float *lse,
                    float *scratch) {
    for (int64_t b = 0; b < s->B; b++) {
        for (int64_t h = 0; h < s->H; h++) {
            int64_t at_kv = b * wefti_attention_rows(s) * s->ld_kv +
                            h / (s->H / s->K) * s->D;
            for (int64_t i = 0; i < s->T; i++) {
                int64_t at = b * s->T + i;
                row r = {factor, b, h, i};
                forward_row(s, &r, q + at * s->ld_q + h * s->D, k + at_kv, v + at_kv,
                            o + at * s->ld_o + h * s->D, lse + (b * s->H + h) * s->T + i,
                            scratch);
            }
        }
    }
}

/* Computes p_ij and ds_ij of a row, zeros where a key is not seen, and the gradient of
 * the bias. */
static void probabilities(const wefti_attention_shape *s, const row *r, const float *q,
                          const float *k, const float *v, const float *o, double lse,
                          const float *d_o, float *p, float *ds) {
    int64_t Tk = wefti_attention_rows(s), first = first_key(s, r->i);
    int64_t end = end_key(s, r->b, r->i);
    float *dbias = s->dbias ? s->dbias + r->h * wefti_attention_bias_row(s) + Tk - 1
                            : NULL;
    double delta = dot(exact, s->D, d_o, o), cap = (double)s->cap;
    for (int64_t j = 0; j < Tk; j++) p[j] = ds[j] = 0;
    for (int64_t j = first; j < end; j++) {
        double pij = exp(biased_score(s, r, j, q, k) - lse);
        double score = score_of(s, r->factor, q, k + j * s->ld_kv);
        double slope = cap > 0 ? 1 - score / cap * (score / cap) : 1;
        double dp = dot(r->factor, s->D, d_o, v + j * s->ld_kv);
        p[j] = (float)r->factor(pij);
        ds[j] = (float)r->factor(pij * (dp - delta) * (double)s->scale * slope);
        if (dbias) dbias[r->i - j] += (float)(pij * (dp - delta));
    }
}

/* out_j (+)= sum over i of a_ij x_i, for all j */
static void transposed_product(rounding *factor, const wefti_attention_shape *s,
                               const float *a, const float *x, int64_t ld_x,
                               bool accumulate, float *out) {
    int64_t Tk = wefti_attention_rows(s);
    for (int64_t j = 0; j < Tk; j++) {
        for (int64_t d = 0; d < s->D; d++) {
            double sum = accumulate ? (double)out[j * s->ld_kv + d] : 0;
            for (int64_t i = 0; i < s->T; i++)
                sum += (double)a[i * Tk + j] * factor((double)x[i * ld_x + d]);
            out[j * s->ld_kv + d] = (float)sum;
        }
    }
}

/* dq_i = sum over j of ds_ij k_j, for all i */
static void query_gradient(rounding *factor, const wefti_attention_shape *s,
                           const float *ds, const float *k, float *dq) {
    int64_t Tk = wefti_attention_rows(s);
    for (int64_t i = 0; i < s->T; i++) {
        for (int64_t d = 0; d < s->D; d++) {
            double sum = 0;
            for (int64_t j = 0; j < Tk; j++)
                sum += (double)ds[i * Tk + j] * factor((double)k[j * s->ld_kv + d]);
            dq[i * s->ld_q + d] = (float)sum;
        }
    }
}

static void backward(rounding *factor, const wefti_attention_shape *s, const float *q,
                     const float *k, const float *v, const float *o, const float *lse,
                     const float *d_o, float *dq, float *dk, float *dv, float *scratch) {
    int64_t group = s->H / s->K, Tk = wefti_attention_rows(s);
    float *p = scratch, *ds = scratch + s->T * Tk;
    for (int64_t b = 0; b < s->B; b++) {
        for (int64_t h = 0; h < s->H; h++) {
            int64_t at_q = b * s->T * s->ld_q + h * s->D;
            int64_t at_kv = b * Tk * s->ld_kv + h / group * s->D;
            int64_t at_o = b * s->T * s->ld_o + h * s->D;
            bool later = h % group > 0; /* dk, dv hold this group's earlier heads */
            for (int64_t i = 0; i < s->T; i++) {
                row r = {factor, b, h, i};
                probabilities(s, &r, q + at_q + i * s->ld_q, k + at_kv, v + at_kv,
                              o + at_o + i * s->ld_o,
                              (double)lse[(b * s->H + h) * s->T + i],
                              d_o + at_o + i * s->ld_o, p + i * Tk, ds + i * Tk);
            }
            query_gradient(factor, s, ds, k + at_kv, dq + at_q);
            transposed_product(factor, s, ds, q + at_q, s->ld_q, later, dk + at_kv);
            transposed_product(factor, s, p, d_o + at_o, s->ld_o, later, dv + at_kv);
        }
    }
}

void wefti_reference_attention_forward(const wefti_attention_shape *s, const float *q,
                                       const float *k, const float *v, float *o,
                                       float *lse, float *scratch) {
    forward(exact, s, q, k, v, o, lse, scratch);
}

void wefti_reference_attention_forward_bf16(const wefti_attention_shape *s,
                                            const float *q, const float *k,
                                            const float *v, float *o, float *lse,
                                            float *scratch) {
    forward(to_bf16, s, q, k, v, o, lse, scratch);
}

void wefti_reference_attention_backward(const wefti_attention_shape *s, const float *q,
                                        const float *k, const float *v, const float *o,
                                        const float *lse, const float *d_o, float *dq,
                                        float *dk, float *dv, float *scratch) {
    backward(exact, s, q, k, v, o, lse, d_o, dq, dk, dv, scratch);
}

void wefti_reference_attention_backward_bf16(const wefti_attention_shape *s,
                                             const float *q, const float *k,
                                             const float *v, const float *o,
                                             const float *lse, const float *d_o,
                                             float *dq, float *dk, float *dv,
                                             float *scratch) {
    backward(to_bf16, s, q, k, v, o, lse, d_o, dq, dk, dv, scratch);
}
