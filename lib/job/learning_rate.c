/* SPDX-License-Identifier: MIT */
/* The learning rate of a step: a line up to the peak, then the curve of a kind. The law is
 * in learning_rate.h; a new kind is one row here and one in the table of choices. */
#include "job/learning_rate.h"

#include <math.h>

#include "base/text.h"

/* Where a step is: x from 0 to 1 over the steps after the warm-up. */
typedef struct place {
    double x, final;
    int64_t step, warmup;
} place;

static double cosine(const place *p) {
    return p->final + (1 - p->final) * 0.5 * (1 + cos(3.14159265358979323846 * p->x));
}

static double linear(const place *p) { return 1 - (1 - p->final) * p->x; }

static double inverse_sqrt(const place *p) {
    return sqrt((double)(p->warmup > 1 ? p->warmup : 1) / (double)(p->step + 1));
}

static double constant(const place *p) {
    (void)p;
    return 1;
}

static const char *const ends[] = {"final", NULL}, *const has_no_end[] = {NULL};

static const struct curve {
    const char *kind;
    double (*share)(const place *p);
    const char *const *keys;
} curves[] = {{"cosine", cosine, ends},
              {"linear", linear, ends},
              {"inverse_sqrt", inverse_sqrt, has_no_end},
              {"constant", constant, has_no_end}};
enum { N_CURVES = sizeof curves / sizeof curves[0] };

static const struct curve *find(const char *kind) {
    for (int i = 0; i < N_CURVES; i++)
        if (wefti_is(curves[i].kind, kind)) return &curves[i];
    return NULL;
}

const char *const *wefti_learning_rate_keys(const char *kind) {
    const struct curve *curve = find(kind);
    return curve ? curve->keys : NULL;
}

double wefti_learning_rate(const weft_config *config, int64_t step) {
    double lr = config->optimizer.lr;
    int64_t warmup = config->schedule.warmup, rest = config->run.steps - warmup;
    if (step < warmup) return lr * (double)(step + 1) / (double)warmup;
    place p = {1, config->schedule.final, step, warmup};
    if (rest > 1) p.x = (double)(step - warmup) / (double)(rest - 1);
    if (p.x > 1) p.x = 1;
    return lr * find(config->schedule.kind)->share(&p);
}
