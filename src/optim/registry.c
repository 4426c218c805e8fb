/* SPDX-License-Identifier: MIT */
/* The optimizers, in the order in which `weft list` shows them. A new kind is one line here. */
#include <string.h>

#include "optim/optimizers.h"

const wefti_optimizer_ops *const wefti_optimizer_registry[] = {
    &wefti_optimizer_adamw,
    &wefti_optimizer_adam,
    &wefti_optimizer_accum_adamw,
    &wefti_optimizer_accum_adam,
    &wefti_optimizer_sgd,
    &wefti_optimizer_muon,
    NULL,
};

const wefti_optimizer_ops *wefti_optimizer_find(const char *kind) {
    for (int i = 0; wefti_optimizer_registry[i]; i++)
        if (strcmp(wefti_optimizer_registry[i]->name, kind) == 0)
            return wefti_optimizer_registry[i];
    return NULL;
}

int64_t wefti_optimizer_period(int64_t accumulate, int64_t replicas) {
    if (accumulate > 0) return accumulate;
    return replicas > 2 ? replicas / 2 : 1;
}
