/* SPDX-License-Identifier: MIT */
/* How many steps a method takes to a loss, over those of one node with the run's own optimizer.
 *
 *     log s = w (log m + g d) - the same of the run's own optimizer
 *     e^2   = w (r^2 + (h d)^2) + (1 - w) p^2
 *     w     = 1 / (1 + max(0, log10(P / P0) - 1))
 *
 * m: geometric mean of the least and the greatest ratio that was measured with two nodes, r half
 * of what their logarithms differ by, at least what seeds make. d: doublings of the number of
 * nodes beyond two, as far as they were measured; g what the logarithm grows by in each, h how far
 * that may be off. P: the run's parameters, P0 those of the model that was measured. What a small
 * model says of a large one counts by w, and for the rest a method may need a quarter more steps or
 * fewer (p), whichever it is: so a lead shrinks as a lag does, and both get less certain. */
#include <math.h>

#include "planner/advise.h"

/* Nodes that were measured; seeds; of a doubling; of what nothing is known of. */
enum { LEAST_NODES = 2, MOST_NODES = 8 };
static const double seeds = 0.05, per_doubling_error = 0.1, unknown = 0.25;

double wefti_learning_weight(int64_t parameters) {
    double decades = log10((double)parameters / WEFTI_LEARNING_PARAMETERS);
    return decades > 1 ? 1 / decades : 1;
}

/* Logarithm of a ratio, and the square of its error. */
typedef struct known {
    double log, square;
} known;

static known known_of(const weft_learning *l, int64_t nodes, double weight) {
    double few = fmin(fmax((double)nodes, LEAST_NODES), MOST_NODES);
    double doublings = l->per_doubling > 0 ? log2(few / LEAST_NODES) : 0;
    double half = fmax(seeds, log(l->high / l->low) / 2);
    double grown = per_doubling_error * doublings;
    if (!l->changes[0]) return (known){0, 0};
    return (known){weight * (log(l->low * l->high) / 2 + l->per_doubling * doublings),
                   weight * (half * half + grown * grown) +
                       (1 - weight) * unknown * unknown};
}

void wefti_advise_steps(const wefti_adviser *a, weft_candidate *c) {
    c->steps = 1;
    c->steps_error = c->learning.measured ? 0 : unknown;
    if (!c->learning.measured || !c->learning.changes[0]) return;
    double weight = wefti_learning_weight(c->prediction.parameters);
    known mine = known_of(&c->learning, c->nodes, weight);
    known own = {0, 0};
    if (a->own) own = known_of(&a->own->learning, c->nodes, weight);
    c->steps = exp(mine.log - own.log);
    c->steps_error = sqrt(mine.square + own.square);
}
