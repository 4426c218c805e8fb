/* SPDX-License-Identifier: MIT */
/* AdamW (Loshchilov & Hutter 2019):
 *
 *     m <- b1 m + (1-b1) g        v <- b2 v + (1-b2) g^2
 *     p <- (1 - lr lambda) p - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
 */
#include "optim/moments.h"
#include "optim/optimizers.h"

static void adamw_apply(const wefti_optimizer_config *config,
                        const wefti_kernels *kernels, const wefti_optimizer_step *step,
                        const wefti_span *span, const float *d, float *p,
                        float *const *state, double *moved) {
    wefti_adam_step s = wefti_moments_step(config, step, span, WEFTI_DECAY_DECOUPLED,
                                           step->count);
    *moved += kernels->adam(span->n, &s, d + span->begin, p + span->begin,
                            state[0] + span->begin, state[1] + span->begin);
}

static const char *const adamw_states[] = {"m", "v"};

const wefti_optimizer_ops wefti_optimizer_adamw = {
    .name = "adamw",
    .keys = wefti_moments_keys,
    .n_states = 2,
    .state_names = adamw_states,
    .traffic = wefti_moments_traffic,
    .apply = adamw_apply,
};
