/* SPDX-License-Identifier: MIT */
/* The learning rate of a step; the law is in learning_rate.h. */
#include "train/learning_rate.h"

#include <math.h>
#include <string.h>

double wefti_learning_rate(const weft_config *config, int64_t step) {
    double lr = config->optimizer.lr, final = config->schedule.final;
    int64_t warmup = config->schedule.warmup, rest = config->run.steps - warmup;
    if (step < warmup) return lr * (double)(step + 1) / (double)warmup;
    double x = rest > 1 ? (double)(step - warmup) / (double)(rest - 1) : 1;
    if (x > 1) x = 1;
    const char *kind = config->schedule.kind;
    if (strcmp(kind, "cosine") == 0)
        return lr * (final + (1 - final) * 0.5 * (1 + cos(3.14159265358979323846 * x)));
    if (strcmp(kind, "linear") == 0) return lr * (1 - (1 - final) * x);
    if (strcmp(kind, "inverse_sqrt") == 0)
        return lr * sqrt((double)(warmup > 1 ? warmup : 1) / (double)(step + 1));
    return lr;
}
