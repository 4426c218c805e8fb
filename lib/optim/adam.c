/* SPDX-License-Identifier: MIT */
/* Adam (Kingma & Ba 2015), with weight decay as an L2 penalty, coupled into the gradient (adam), or
 * apart from it (adamw; Loshchilov & Hutter 2019):
 *
 *     adam:  g <- g + lambda p            adamw:  p <- (1 - lr lambda) p
 *     m <- b1 m + (1-b1) g        v <- b2 v + (1-b2) g^2
 *     p <- p - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
 *
 * accum_adam, and accum_adamw in the same way:
 * AccumAdam (arXiv 2410.11998), for replicas whose own gradients are noisy because each sees a
 * small batch: every step updates the parameters, but the moments are updated only with the
 * mean gradient of K steps. With M = b1 m and V = b2 v stored, step s from 1 and k = ceil(s/K):
 *
 *     g <- g + lambda p,  a <- a + g/K
 *     p <- p - lr (m' / (1-b1^k)) / (sqrt(v' / (1-b2^k)) + eps),
 *          m' = M + (1-b1) g,  v' = V + (1-b2) g^2
 *     if K divides s:  M <- b1 (M + (1-b1) a),  V <- b2 (V + (1-b2) a^2),  a <- 0
 *
 * With K = 1 a is g, so M = b1 m' and V = b2 v', which is Adam. The state a is then not used.
 *
 * Bytes per parameter: g, p, M, V, a are read and p, a written, 28; the last step of a
 * period also writes M and V. So the mean is 28 + 8/K, and 28 for K = 1, as for Adam. */
#include "optim/moments.h"
#include "optim/optimizer.h"

static const char *const states[] = {"m", "v", "a"};
static const char *const keys[] = {"beta1", "beta2", "eps", NULL};
static const char *const accum_keys[] = {"beta1", "beta2", "eps", "accumulate", NULL};

static double accum_traffic(const wefti_optimizer_config *config) {
    return config->accumulate == 1 ? 28 : 28 + 8 / (double)config->accumulate;
}

#define ADAM(kind, decay)                                                                \
    static void kind##_apply(                                                            \
        const wefti_optimizer_config *config, const wefti_kernels *kernels,              \
        const wefti_optimizer_step *step, const wefti_span *span, const float *d,        \
        float *p, float *const *state, double *moved) {                                  \
        wefti_adam_step s = wefti_moments_step(config, step, span, decay, step->count);  \
        int64_t at = span->begin;                                                        \
        *moved += kernels->adam(span->n, &s, d + at, p + at, state[0] + at,              \
                                state[1] + at);                                          \
    }                                                                                    \
    const wefti_optimizer_ops wefti_optimizer_##kind = {                                 \
        .name = #kind,                                                                   \
        .keys = keys,                                                                    \
        .n_states = 2,                                                                   \
        .state_names = states,                                                           \
        .traffic = wefti_moments_traffic,                                                \
        .apply = kind##_apply};

#define ACCUM_ADAM(kind, decay)                                                          \
    static void kind##_apply(                                                            \
        const wefti_optimizer_config *config, const wefti_kernels *kernels,              \
        const wefti_optimizer_step *step, const wefti_span *span, const float *d,        \
        float *p, float *const *state, double *moved) {                                  \
        wefti_accum_step s = wefti_moments_accum_step(config, step, span, decay);        \
        int64_t at = span->begin;                                                        \
        *moved += kernels->accum_adam(span->n, &s, d + at, p + at, state[0] + at,        \
                                      state[1] + at, state[2] + at);                     \
    }                                                                                    \
    const wefti_optimizer_ops wefti_optimizer_##kind = {.name = #kind,                   \
                                                        .keys = accum_keys,              \
                                                        .n_states = 3,                   \
                                                        .state_names = states,           \
                                                        .traffic = accum_traffic,        \
                                                        .apply = kind##_apply};

ADAM(adam, WEFTI_DECAY_COUPLED)
ADAM(adamw, WEFTI_DECAY_DECOUPLED)
ACCUM_ADAM(accum_adam, WEFTI_DECAY_COUPLED)
ACCUM_ADAM(accum_adamw, WEFTI_DECAY_DECOUPLED)
