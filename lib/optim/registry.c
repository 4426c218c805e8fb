/* SPDX-License-Identifier: MIT */
/* The table of functions of each kind that optimizers.def names, in its order. */
#include <string.h>

#include "optim/optimizer.h"

#define WEFTI_KIND(name, summary) &wefti_optimizer_##name,
const wefti_optimizer_ops *const wefti_optimizer_registry[] = {
#include "optim/optimizers.def"
    NULL,
};
#undef WEFTI_KIND

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
