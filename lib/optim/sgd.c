/* SPDX-License-Identifier: MIT */
/* p <- (1 - lr lambda) p - lr d. With the demo replicator d is a sign, as in DeMo (arXiv
 * 2411.19870). The decay is apart from the gradient (Loshchilov & Hutter 2019). */
#include "optim/optimizer.h"

static void sgd_apply(const wefti_optimizer_config *config, const wefti_kernels *kernels,
                      const wefti_optimizer_step *step, const wefti_span *span,
                      const float *d, float *p, float *const *state, double *moved) {
    (void)state;
    float decay = span->decays ? (float)config->weight_decay : 0;
    *moved += kernels->sgd(span->n, step->lr, step->grad_scale, decay, d + span->begin,
                           p + span->begin);
}

/* The direction is read, parameters are read and written. */
static double sgd_traffic(const wefti_optimizer_config *config) {
    (void)config;
    return 12;
}

static const char *const sgd_keys[] = {NULL};

const wefti_optimizer_ops wefti_optimizer_sgd = {
    .name = "sgd",
    .keys = sgd_keys,
    .n_states = 0,
    .traffic = sgd_traffic,
    .apply = sgd_apply,
};
