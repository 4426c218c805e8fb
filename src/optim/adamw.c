/* SPDX-License-Identifier: MIT */
/* AdamW (Loshchilov & Hutter 2019):
 *
 *     m <- b1 m + (1-b1) g        v <- b2 v + (1-b2) g^2
 *     p <- (1 - lr lambda) p - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
 */
#include <math.h>

#include "optim/optimizers.h"

static void adamw_apply(const wefti_optimizer_config *config,
                        const wefti_kernels *kernels, const wefti_optimizer_step *step,
                        const wefti_span *span, const float *d, float *p,
                        float *const *state, double *moved) {
    wefti_adamw_step s = {
        .lr = step->lr,
        .beta1 = (float)config->beta1,
        .beta2 = (float)config->beta2,
        .eps = (float)config->eps,
        .decay = span->decays ? (float)config->weight_decay : 0,
        .correction1 = (float)(1 - pow(config->beta1, (double)step->count)),
        .correction2 = (float)(1 - pow(config->beta2, (double)step->count)),
        .grad_scale = step->grad_scale,
    };
    *moved += kernels->adamw(span->n, &s, d + span->begin, p + span->begin,
                             state[0] + span->begin, state[1] + span->begin);
}

static const char *const adamw_states[] = {"m", "v"};

const wefti_optimizer_ops wefti_optimizer_adamw = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay; two state arrays",
    .n_states = 2,
    .state_names = adamw_states,
    .apply = adamw_apply,
};
