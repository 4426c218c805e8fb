/* SPDX-License-Identifier: MIT */
/* AccumAdam (arXiv 2410.11998), for replicas whose own gradients are noisy because each sees a
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
#include "optim/optimizers.h"

static void accum_adam_apply(const wefti_optimizer_config *config,
                             const wefti_kernels *kernels,
                             const wefti_optimizer_step *step, const wefti_span *span,
                             const float *d, float *p, float *const *state,
                             double *moved) {
    wefti_accum_step s = wefti_moments_accum_step(config, step, span,
                                                  WEFTI_DECAY_COUPLED);
    *moved += kernels->accum_adam(span->n, &s, d + span->begin, p + span->begin,
                                  state[0] + span->begin, state[1] + span->begin,
                                  state[2] + span->begin);
}

static const char *const accum_adam_states[] = {"m", "v", "a"};

const wefti_optimizer_ops wefti_optimizer_accum_adam = {
    .name = "accum_adam",
    .keys = wefti_moments_accum_keys,
    .n_states = 3,
    .state_names = accum_adam_states,
    .traffic = wefti_moments_accum_traffic,
    .apply = accum_adam_apply,
};
