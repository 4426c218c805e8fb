/* SPDX-License-Identifier: MIT */
/* The kernels use beta rounded to f32, so the corrections 1 - beta^t use the rounded
 * value too. Then a constant gradient moves a parameter by lr in every step; otherwise
 * that would be off by 1e-5 for beta = 0.999. */
#include "optim/moments.h"

#include <math.h>

wefti_adam_step wefti_moments_step(const wefti_optimizer_config *config,
                                   const wefti_optimizer_step *step,
                                   const wefti_span *span, wefti_decay decay, int64_t t) {
    float beta1 = (float)config->beta1, beta2 = (float)config->beta2;
    float lambda = span->decays ? (float)config->weight_decay : 0;
    return (wefti_adam_step){
        .lr = step->lr,
        .beta1 = beta1,
        .beta2 = beta2,
        .eps = (float)config->eps,
        .coupled_decay = decay == WEFTI_DECAY_COUPLED ? lambda : 0,
        .decoupled_decay = decay == WEFTI_DECAY_DECOUPLED ? lambda : 0,
        .correction1 = (float)(1 - pow((double)beta1, (double)t)),
        .correction2 = (float)(1 - pow((double)beta2, (double)t)),
        .grad_scale = step->grad_scale,
    };
}

wefti_accum_step wefti_moments_accum_step(const wefti_optimizer_config *config,
                                          const wefti_optimizer_step *step,
                                          const wefti_span *span, wefti_decay decay) {
    int64_t K = config->accumulate, done = step->count - 1;
    return (wefti_accum_step){
        .adam = wefti_moments_step(config, step, span, decay, done / K + 1),
        .share = (float)(1 / (double)K),
        .opens = done % K == 0,
        .closes = step->count % K == 0,
    };
}

double wefti_moments_traffic(const wefti_optimizer_config *config) {
    (void)config;
    return 28;
}
