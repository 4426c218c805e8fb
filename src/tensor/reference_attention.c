/* SPDX-License-Identifier: MIT */
/* Causal attention, one head at a time, query i sees keys 0..i, with a window the last of
 * them:
 *   s_ij = scale q_i.k_j, lse_i = log sum_j exp s_ij
 *   p_ij = exp(s_ij - lse_i), o_i = sum_j p_ij v_j
 *   dp_ij = do_i.v_j, ds_ij = p_ij (dp_ij - do_i.o_i) scale
 *   dq_i = sum_j ds_ij k_j, dk_j = sum_i ds_ij q_i, dv_j = sum_i p_ij do_i
 * With a cap s_ij is cap tanh(s_ij / cap), and ds_ij gets the slope 1 - (s_ij / cap)^2.
 * scratch: two T x T matrices of one head. */
#include "tensor/reference.h"

#include <math.h>

static double dot(int64_t n, const float *a, const float *b) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

int64_t wefti_reference_attention_scratch(const wefti_attention_shape *s, int threads) {
    (void)threads;
    return 2 * s->T * s->T;
}

/* The first key that query i sees. */
static int64_t first_key(const wefti_attention_shape *s, int64_t i) {
    return s->window > 0 && i >= s->window ? i - s->window + 1 : 0;
}

static double score_of(const wefti_attention_shape *s, const float *q, const float *k) {
    double score = (double)s->scale * dot(s->D, q, k), cap = (double)s->cap;
    return cap > 0 ? cap * tanh(score / cap) : score;
}

static void forward_row(const wefti_attention_shape *s, int64_t i, const float *q,
                        const float *k, const float *v, float *o, float *lse,
                        float *score) {
    double top = -HUGE_VAL, sum = 0;
    int64_t first = first_key(s, i);
    for (int64_t j = first; j <= i; j++) {
        score[j] = (float)score_of(s, q, k + j * s->ld_kv);
        top = fmax(top, (double)score[j]);
    }
    for (int64_t j = first; j <= i; j++) sum += exp((double)score[j] - top);
    for (int64_t d = 0; d < s->D; d++) {
        double out = 0;
        for (int64_t j = first; j <= i; j++)
            out += exp((double)score[j] - top) / sum * (double)v[j * s->ld_kv + d];
        o[d] = (float)out;
    }
    *lse = (float)(top + log(sum));
}

void wefti_reference_attention_forward(const wefti_attention_shape *s, const float *q,
                                       const float *k, const float *v, float *o,
                                       float *lse, float *scratch) {
    for (int64_t b = 0; b < s->B; b++) {
        for (int64_t h = 0; h < s->H; h++) {
            int64_t first_kv = b * s->T * s->ld_kv + h / (s->H / s->K) * s->D;
            for (int64_t i = 0; i < s->T; i++) {
                int64_t row = b * s->T + i;
                forward_row(s, i, q + row * s->ld_q + h * s->D, k + first_kv,
                            v + first_kv, o + row * s->ld_o + h * s->D,
                            lse + (b * s->H + h) * s->T + i, scratch);
            }
        }
    }
}

/* p[T,T] and ds[T,T] of one head; nothing is written above the diagonal, and zeros where
 * the window has passed. */
static void probabilities(const wefti_attention_shape *s, const float *q, const float *k,
                          const float *v, const float *o, const float *lse,
                          const float *d_o, float *p, float *ds) {
    for (int64_t i = 0; i < s->T; i++) {
        const float *qi = q + i * s->ld_q, *doi = d_o + i * s->ld_o;
        double delta = dot(s->D, doi, o + i * s->ld_o);
        int64_t first = first_key(s, i);
        for (int64_t j = 0; j < first; j++) p[i * s->T + j] = ds[i * s->T + j] = 0;
        for (int64_t j = first; j <= i; j++) {
            double score = score_of(s, qi, k + j * s->ld_kv), cap = (double)s->cap;
            double pij = exp(score - (double)lse[i]);
            double dp = dot(s->D, doi, v + j * s->ld_kv);
            double slope = cap > 0 ? 1 - score / cap * (score / cap) : 1;
            p[i * s->T + j] = (float)pij;
            ds[i * s->T + j] = (float)(pij * (dp - delta) * (double)s->scale * slope);
        }
    }
}

/* out_j (+)= sum over i >= j of a_ij x_i, for all j */
static void transposed_product(const wefti_attention_shape *s, const float *a,
                               const float *x, int64_t ld_x, bool accumulate,
                               float *out) {
    for (int64_t j = 0; j < s->T; j++) {
        for (int64_t d = 0; d < s->D; d++) {
            double sum = accumulate ? (double)out[j * s->ld_kv + d] : 0;
            for (int64_t i = j; i < s->T; i++)
                sum += (double)a[i * s->T + j] * (double)x[i * ld_x + d];
            out[j * s->ld_kv + d] = (float)sum;
        }
    }
}

/* dq_i = sum over j <= i of ds_ij k_j, for all i */
static void query_gradient(const wefti_attention_shape *s, const float *ds,
                           const float *k, float *dq) {
    for (int64_t i = 0; i < s->T; i++) {
        for (int64_t d = 0; d < s->D; d++) {
            double sum = 0;
            for (int64_t j = 0; j <= i; j++)
                sum += (double)ds[i * s->T + j] * (double)k[j * s->ld_kv + d];
            dq[i * s->ld_q + d] = (float)sum;
        }
    }
}

void wefti_reference_attention_backward(const wefti_attention_shape *s, const float *q,
                                        const float *k, const float *v, const float *o,
                                        const float *lse, const float *d_o, float *dq,
                                        float *dk, float *dv, float *scratch) {
    int64_t group = s->H / s->K;
    float *p = scratch, *ds = scratch + s->T * s->T;
    for (int64_t b = 0; b < s->B; b++) {
        for (int64_t h = 0; h < s->H; h++) {
            int64_t at_q = b * s->T * s->ld_q + h * s->D;
            int64_t at_kv = b * s->T * s->ld_kv + h / group * s->D;
            int64_t at_o = b * s->T * s->ld_o + h * s->D;
            bool later = h % group >
                         0; /* dk, dv already hold this group's earlier heads */
            probabilities(s, q + at_q, k + at_kv, v + at_kv, o + at_o,
                          lse + (b * s->H + h) * s->T, d_o + at_o, p, ds);
            query_gradient(s, ds, k + at_kv, dq + at_q);
            transposed_product(s, ds, q + at_q, s->ld_q, later, dk + at_kv);
            transposed_product(s, p, d_o + at_o, s->ld_o, later, dv + at_kv);
        }
    }
}
