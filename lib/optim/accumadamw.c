/* SPDX-License-Identifier: MIT */
/* accum_adam (accumadam.c) with decoupled weight decay: p <- (1 - lr lambda) p first, and
 * the gradient as it is. With K = 1 this is AdamW. */
#include "optim/moments.h"
#include "optim/optimizers.h"

static void accum_adamw_apply(const wefti_optimizer_config *config,
                              const wefti_kernels *kernels,
                              const wefti_optimizer_step *step, const wefti_span *span,
                              const float *d, float *p, float *const *state,
                              double *moved) {
    wefti_accum_step s = wefti_moments_accum_step(config, step, span,
                                                  WEFTI_DECAY_DECOUPLED);
    *moved += kernels->accum_adam(span->n, &s, d + span->begin, p + span->begin,
                                  state[0] + span->begin, state[1] + span->begin,
                                  state[2] + span->begin);
}

static const char *const accum_adamw_states[] = {"m", "v", "a"};

const wefti_optimizer_ops wefti_optimizer_accum_adamw = {
    .name = "accum_adamw",
    .keys = wefti_moments_accum_keys,
    .n_states = 3,
    .state_names = accum_adamw_states,
    .traffic = wefti_moments_accum_traffic,
    .apply = accum_adamw_apply,
};
