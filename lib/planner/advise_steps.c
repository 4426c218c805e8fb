/* SPDX-License-Identifier: MIT */
/* The number of steps of a method to a loss, relative to one node with the run's own optimizer.
 *
 *     log s = w (log m + g d) - the same of the run's own optimizer
 *     e^2   = w (r^2 + (h d)^2) + (1 - w) p^2
 *     w     = min(1 / (1 + max(0, log10(P / P0) - 1)), (T0 / T)^q)
 *
 * m: geometric mean of the smallest and the largest ratio that was measured with two
 * nodes; r: half of the difference of their logarithms, at least the difference between
 * seeds. d: doublings of the number of nodes, or of sites that average inside, beyond two, as
 * far as they were measured; g: growth of the logarithm per doubling, h its error. P: the run's
 * parameters, P0 those of the measured model; T: the run's steps, T0 = 200 those of the
 * measured runs. Results of a small model, or of a short run, count with weight w for a large
 * one, or a longer; for the rest a method may need up to a quarter more or fewer steps (p). So
 * leads and lags both shrink, and become less certain.
 *
 * q = 0.45: the logarithm at T steps over that at 200, same model and text, steps to the loss
 * that is 0.1 above AdamW's last one:
 *
 *     T        Muon    MuLoCo int4   DiLoCo   dadam       mean      (200 / T)^0.45
 *     1,000    0.40    0.52                               0.46      0.48
 *     5,000    0.33    0.40          0.21     0.05        0.19      0.23
 *
 * Elsewhere Muon is 1.4 times faster than AdamW at 0.1 G parameters and 1.1 times at 1.2 G,
 * each trained for 1 to 8 times its Chinchilla tokens (arXiv 2509.02046); the first weight
 * alone gives 1.41 and 1.27. Both together would shrink twice for one reason. */
#include <math.h>

#include "planner/advise.h"

/* Numbers of nodes that were measured; errors: of seeds, and of what is not known. */
enum { LEAST_NODES = 2, MOST_NODES = 8, MEASURED_STEPS = 200 };
static const double seeds = 0.05, unknown = 0.25, shrinks = 0.45;

/* Methods are chosen for models of at most two decades more parameters than the largest that
 * they were measured with; of these, others have published runs of billions. */
static const double largest = 10.8e6, most_times = 100;

bool wefti_advise_reaches(const weft_candidate *c) {
    const wefti_recipe *recipe = wefti_recipe_find(c->name);
    if (!c->learning.changes[0] || (recipe && recipe->published)) return true;
    if (c->nodes == 1) return true; /* Muon */
    return (double)c->prediction.parameters <= most_times * largest;
}

double wefti_length_weight(double steps) {
    return steps > MEASURED_STEPS ? pow(MEASURED_STEPS / steps, shrinks) : 1;
}

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
    double doublings = log2(few / LEAST_NODES);
    double half = fmax(seeds, log(l->high / l->low) / 2);
    double grown = (double)l->per_doubling_error * doublings;
    if (!l->changes[0]) return (known){0, 0};
    return (known){weight * (log(l->low * l->high) / 2 + l->per_doubling * doublings),
                   weight * (half * half + grown * grown) +
                       (1 - weight) * unknown * unknown};
}

double weft_recipe_steps(const weft_recipe *recipe, int64_t parameters, int64_t nodes,
                         double *error) {
    const weft_learning *l = &recipe->learning;
    *error = unknown;
    if (!l->measured) return 1;
    known k = known_of(l, nodes, wefti_learning_weight(parameters));
    *error = sqrt(k.square);
    return exp(k.log);
}

int64_t wefti_advise_members(const weft_candidate *c) {
    return c->sites > 1 ? c->sites : c->nodes;
}

void wefti_advise_steps(const wefti_adviser *a, weft_candidate *c) {
    c->steps = 1;
    c->steps_error = c->learning.measured ? 0 : unknown;
    if (!c->learning.measured || !c->learning.changes[0]) return;
    double weight = fmin(wefti_learning_weight(c->prediction.parameters),
                         wefti_length_weight(a->length));
    int64_t members = wefti_advise_members(c);
    known mine = known_of(&c->learning, members, weight);
    known own = {0, 0};
    if (a->own) own = known_of(&a->own->learning, members, weight);
    c->steps = exp(mine.log - own.log);
    c->steps_error = sqrt(mine.square + own.square);
}
