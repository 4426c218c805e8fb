/* SPDX-License-Identifier: MIT */
/* Muon (Jordan et al. 2024; torch.optim.Muon has the same formulas) for hidden matrices,
 * and AdamW for all else:
 *
 *     m <- b m + (1-b) g          u <- nesterov ? (1-b) g + b m : m
 *     O <- the nearest orthogonal matrix to u (optim/orthogonal.h)
 *     p <- (1 - lr lambda) p - lr s O
 *
 * s, for a product of fan_in inputs and fan_out outputs and O of a rows and c columns:
 *
 *     match_rms_adamw   0.2 sqrt(max(a, c))            O's elements as large as AdamW's steps
 *     original          sqrt(max(1, fan_out/fan_in))
 *     spectral          sqrt(fan_out/fan_in)
 *
 * Two cheaper forms. With a share `rows` below 1 (Dion2, arXiv 2512.16928) the momentum
 * is a sum, and of each rank's rows only the largest by their L1 norm are orthogonalized
 * and updated; the momentum of only these rows decays afterwards:
 *
 *     m <- m + g      u <- m[chosen]      m[chosen] <- b m[chosen]
 *
 * With whole_every = P (MuonBP) each rank orthogonalizes its own rows as if they were the
 * matrix; only in every P-th step the whole matrix is orthogonalized. Both forms can be
 * combined. */
#include <math.h>
#include <string.h>

#include "optim/moments.h"
#include "optim/optimizer.h"
#include "optim/orthogonal.h"

/* Updates everything but hidden matrices, with AdamW. */
static void muon_apply(const wefti_optimizer_config *config, const wefti_kernels *kernels,
                       const wefti_optimizer_step *step, const wefti_span *span,
                       const float *d, float *p, float *const *state, double *moved) {
    wefti_optimizer_adamw.apply(config, kernels, step, span, d, p, state, moved);
}

static int64_t muon_count(const wefti_optimizer_config *config, int64_t n_rows) {
    return (int64_t)ceil(config->rows * (double)n_rows);
}

static bool muon_is_whole(const wefti_optimizer_config *config, int64_t count) {
    return (count - 1) % config->whole_every == 0;
}

/* All rows take part: u <- the momentum, updated with the direction. */
static void take_all(const wefti_optimizer_config *config, float grad_scale,
                     const float *d, float *m, wefti_turned *t) {
    float b = (float)config->momentum, gain = (1 - b) * grad_scale;
    int64_t n = t->n * t->matrix->cols;
    for (int64_t i = 0; i < n; i++) {
        m[i] = b * m[i] + gain * d[i];
        t->u[i] = config->nesterov ? gain * d[i] + b * m[i] : m[i];
    }
    for (int64_t r = 0; r < t->n; r++) t->rows[r] = (int32_t)r;
}

/* rows <- the indices of the n largest of n_rows sizes, ascending; of equal ones the
 * first. A row is chosen if fewer than n rows rank before it. */
static void choose(int64_t n_rows, const double *sizes, int64_t n, int32_t *rows) {
    int64_t found = 0;
    for (int64_t r = 0; r < n_rows && found < n; r++) {
        int64_t before = 0;
        for (int64_t i = 0; i < n_rows && before < n; i++)
            before += sizes[i] > sizes[r] || (i < r && sizes[i] >= sizes[r]);
        if (before < n) rows[found++] = (int32_t)r;
    }
}

static void take_some(const wefti_optimizer_config *config, float grad_scale,
                      const float *d, float *m, double *sizes, wefti_turned *t) {
    int64_t cols = t->matrix->cols;
    float b = (float)config->momentum;
    for (int64_t r = 0; r < t->matrix->n_rows; r++) {
        sizes[r] = 0;
        for (int64_t i = r * cols; i < (r + 1) * cols; i++) {
            m[i] += grad_scale * d[i];
            sizes[r] += fabs((double)m[i]);
        }
        if (isnan(sizes[r])) sizes[r] = INFINITY;
    }
    choose(t->matrix->n_rows, sizes, t->n, t->rows);
    for (int64_t k = 0; k < t->n; k++) {
        float *row = m + t->rows[k] * cols;
        memcpy(t->u + k * cols, row, (size_t)cols * sizeof *row);
        for (int64_t i = 0; i < cols; i++) row[i] *= b;
    }
}

static void muon_take(const wefti_optimizer_config *config, float grad_scale,
                      const float *d, float *state, double *sizes, wefti_turned *t) {
    d += t->matrix->offset;
    state += t->matrix->offset;
    if (config->rows < 1)
        take_some(config, grad_scale, d, state, sizes, t);
    else
        take_all(config, grad_scale, d, state, t);
}

static void muon_turn(const wefti_optimizer_config *config, const wefti_kernels *kernels,
                      int64_t rows, int64_t cols, float *u, float *scratch) {
    wefti_orthogonalize(kernels, config->polynomial, rows, cols, u, scratch);
}

static double scale_of(const wefti_optimizer_config *config, const wefti_turned *t) {
    const wefti_matrix *m = t->matrix;
    double rows = (double)m->rows, cols = (double)m->cols / m->parts;
    double ratio = m->cols_are_outputs ? cols / rows : rows / cols;
    switch (config->adjust) {
    case WEFTI_ADJUST_ORIGINAL: return sqrt(fmax(1, ratio));
    case WEFTI_ADJUST_SPECTRAL: return sqrt(ratio);
    case WEFTI_ADJUST_MATCH_RMS: break;
    }
    return 0.2 * sqrt(fmax((double)t->n_all, cols));
}

static void muon_step(const wefti_optimizer_config *config, float lr,
                      const wefti_turned *t, float *p, double *moved) {
    int64_t cols = t->matrix->cols, k = 0;
    float decay = lr * (float)config->weight_decay;
    float s = (float)((double)lr * scale_of(config, t));
    double sum = 0;
    p += t->matrix->offset;
    for (int64_t r = 0; r < t->matrix->n_rows; r++) {
        bool moves = k < t->n && t->rows[k] == r;
        const float *u = t->u + k * cols;
        for (int64_t i = r * cols; i < (r + 1) * cols; i++) {
            float change = decay * p[i];
            if (moves) change += s * *u++;
            p[i] -= change;
            sum += (double)change * (double)change;
        }
        k += moves;
    }
    *moved += sum;
}

static const wefti_matrix_ops matrix = {.count = muon_count,
                                        .is_whole = muon_is_whole,
                                        .take = muon_take,
                                        .turn = muon_turn,
                                        .apply = muon_step};

static const char *const muon_states[] = {"m", "v"};

static const char *const muon_keys[] = {"beta1",       "beta2",      "eps",    "momentum",
                                        "nesterov",    "polynomial", "adjust", "rows",
                                        "whole_every", NULL};

const wefti_optimizer_ops wefti_optimizer_muon = {
    .name = "muon",
    .keys = muon_keys,
    .n_states = 2,
    .state_names = muon_states,
    .traffic = wefti_moments_traffic,
    .apply = muon_apply,
    .matrix = &matrix,
};
