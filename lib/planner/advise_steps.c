/* SPDX-License-Identifier: MIT */
/* The number of steps of a method to a loss, relative to one node with the run's own optimizer.
 *
 *     log s = w log m + |w| g d - the same of the run's own optimizer
 *     e^2   = |w| (r^2 + (h d)^2) + (1 - |w|) p^2 + (o log10(T / nearest measured))^2
 *     w     = v(T), its size at most 1 / (1 + max(0, log10(P / P0) - 1)), of which it is the
 *             product where v(T) > 1
 *
 * m: geometric mean of the smallest and the largest ratio that was measured with two
 * nodes; r: half of the difference of their logarithms, at least the difference between
 * seeds. d: doublings of the number of nodes, or of sites that average inside, beyond two, as
 * far as they were measured; g: growth of the logarithm per doubling, h its error. P: the run's
 * parameters, P0 those of the measured model; T: the run's steps. Results of a small model, or of
 * a short run, count with weight w for a large one, or a longer; for the rest a method may need up
 * to a quarter more or fewer steps (p). So leads and lags both shrink, and become less certain.
 *
 * v(T), the weight of the length: 1 up to the 200 steps of m; at each length of wefti_longer
 * (advise_recipes.c) the mean of log(ratio) / log(m) of the recipe's rows and of what is expected
 * without them, which counts as q = (0.1 / log m / 0.3)^2 rows: a row's error over how methods
 * differ. Below 0 where a lead has become a lag, or a lag a lead. Expected is v at the length
 * before, times the fall of the mean of all rows, each with the weight 1 / (1 + q); where that is a
 * mean of few, or not above 0, the power of T that led to the length before goes on, so what is
 * expected never changes sides. Rows of a recipe of the same method count for it if their m is
 * within 10 %. Between lengths v is a straight line over log T, beyond the last one that power.
 * Outside of the measured lengths w in the error stays, and o per decade is added to it. Where T is
 * not known, log s is the middle between both ends of the measured lengths, and e the larger one:
 * the length is the same for all methods, so it tells none of them apart.
 *
 * Elsewhere Muon is 1.4 times faster than AdamW at 0.1 G parameters and 1.1 times at 1.2 G,
 * each trained for 1 to 8 times its Chinchilla tokens (arXiv 2509.02046); the first weight
 * alone gives 1.41 and 1.27. Both together would shrink twice for one reason. */
#include <math.h>

#include "base/text.h"
#include "planner/advise.h"

/* Numbers of nodes that were measured; errors: of seeds, and of what is not known. */
enum { LEAST_NODES = 2, MOST_NODES = 8 };

/* So many rows are no mean of all methods. */
enum { FEW = 5 };

static const double seeds = 0.05, unknown = 0.25, outside = 0.1;

/* How far texts are apart in the logarithm of one method's ratio, and methods in the share of
 * it that is left: two rows of one method and length (bench/results), all rows at 1,000 steps. */
static const double texts = 0.1, methods = 0.3;

/* Steps of the shortest measured runs. */
static const double shortest = 200;

bool weft_recipe_reaches(const weft_recipe *recipe, int64_t parameters) {
    const double most_times = 100;
    return (double)parameters <= most_times * (double)recipe->largest;
}

bool wefti_advise_reaches(const weft_candidate *c) {
    const wefti_recipe *recipe = wefti_recipe_find(c->name);
    if (!c->learning.changes[0] || !recipe) return true; /* Muon on one node */
    return weft_recipe_reaches(recipe, c->prediction.parameters);
}

/* Logarithm of the ratio in the shortest of them. */
static double log_short(const weft_learning *l) { return log(l->low * l->high) / 2; }

/* The next longer measured runs than those of so many steps; 0: none. */
static double next_length(double steps) {
    double next = 0;
    for (const wefti_longer_run *r = wefti_longer; r->name; r++)
        if (r->steps > steps && (next == 0 || r->steps < next)) next = r->steps;
    return next;
}

static bool is_alike(const wefti_recipe *a, const wefti_recipe *b) {
    return a && wefti_is(a->method, b->method) &&
           fabs(log_short(&a->learning) - log_short(&b->learning)) < log(1.1);
}

/* Share of the logarithm that is left in a longer run. */
static double left_of(const wefti_longer_run *r) {
    return log(r->ratio) / log_short(&wefti_recipe_find(r->name)->learning);
}

/* Square of a row's error over that of how methods differ. */
static double doubt_of(const wefti_recipe *recipe) {
    return pow(texts / log_short(&recipe->learning) / methods, 2);
}

/* Share that is left at a measured length, mean of all rows; 0: these are too few. */
static double all_left(double steps) {
    double sum = 0, weight = 0, n = 0;
    for (const wefti_longer_run *r = wefti_longer; r->name; r++) {
        double sure = 1 / (1 + doubt_of(wefti_recipe_find(r->name)));
        if (r->steps == steps) sum += sure * left_of(r), weight += sure, n++;
    }
    return n > FEW ? sum / weight : 0;
}

/* The share of a recipe, or NULL: of its rows, and of what is expected without them. */
static double own_left(const wefti_recipe *recipe, double steps, double expected) {
    double sum = 0, n = 0, doubt;
    for (const wefti_longer_run *r = wefti_longer; r->name; r++)
        if (r->steps == steps && is_alike(recipe, wefti_recipe_find(r->name)))
            sum += left_of(r), n++;
    if (n == 0) return expected;
    doubt = doubt_of(recipe);
    return (sum + doubt * expected) / (n + doubt);
}

double wefti_length_weight(const wefti_recipe *recipe, double steps) {
    double low = shortest, high, all = 1, left = 1, power = 0;
    if (steps <= shortest) return 1;
    for (; (high = next_length(low)) > 0; low = high) {
        double span = log(high / low), mean = all_left(high), then;
        if (mean > 0) power = log(mean / all) / span;
        then = own_left(recipe, high, left * exp(power * span));
        if (steps <= high) return left + (then - left) * log(steps / low) / span;
        left = then, all *= exp(power * span);
    }
    return left * exp(power * log(steps / low));
}

/* Steps of the longest measured runs. */
static double longest(void) {
    double most = shortest;
    for (double next; (next = next_length(most)) > 0;) most = next;
    return most;
}

/* Error of a length that was not measured. */
static double length_error(double steps) {
    return outside * fmax(0, log10(fmax(shortest / steps, steps / longest())));
}

double wefti_learning_weight(int64_t parameters) {
    double decades = log10((double)parameters / WEFTI_LEARNING_PARAMETERS);
    return decades > 1 ? 1 / decades : 1;
}

/* Logarithm of a ratio, and the square of its error. */
typedef struct known {
    double log, square;
} known;

/* What results of a small model and of a short run are taken over to; `steps` 0: not known. */
typedef struct scale {
    int64_t parameters;
    double steps;
} scale;

/* The share of a recipe's logarithm that counts in such a run. */
static double weight_of(const wefti_recipe *recipe, const scale *run) {
    double size = wefti_learning_weight(run->parameters),
           length = wefti_length_weight(recipe, run->steps);
    return length > 1 ? size * length : copysign(fmin(size, fabs(length)), length);
}

static known known_at(const wefti_recipe *recipe, const weft_learning *l, int64_t nodes,
                      const scale *run) {
    double few = fmin(fmax((double)nodes, LEAST_NODES), MOST_NODES);
    double doublings = log2(few / LEAST_NODES), longer = length_error(run->steps);
    scale near = {run->parameters, fmin(run->steps, longest())};
    double weight = weight_of(recipe, run),
           sure = fmin(fabs(weight_of(recipe, &near)), 1);
    double half = fmax(seeds, log(l->high / l->low) / 2);
    double grown = (double)l->per_doubling_error * doublings;
    if (!l->changes[0]) return (known){0, 0};
    return (known){weight * log_short(l) + fabs(weight) * l->per_doubling * doublings,
                   sure * (half * half + grown * grown) + (1 - sure) * unknown * unknown +
                       longer * longer};
}

static known known_of(const wefti_recipe *recipe, const weft_learning *l, int64_t nodes,
                      const scale *run) {
    if (run->steps > 0) return known_at(recipe, l, nodes, run);
    known low = known_at(recipe, l, nodes, &(scale){run->parameters, shortest}),
          high = known_at(recipe, l, nodes, &(scale){run->parameters, longest()});
    return (known){(low.log + high.log) / 2, fmax(low.square, high.square)};
}

double weft_recipe_steps(const weft_recipe *recipe, int64_t parameters, int64_t nodes,
                         double steps, double *error) {
    const weft_learning *l = &recipe->learning;
    *error = unknown;
    if (!l->measured) return 1;
    known k = known_of(recipe, l, nodes, &(scale){parameters, steps});
    *error = sqrt(k.square);
    return exp(k.log);
}

/* Nodes that learn by themselves between two exchanges: nodes, or sites. */
static int64_t members_of(const weft_candidate *c) {
    return c->sites > 1 ? c->sites : c->nodes;
}

void wefti_advise_steps(const wefti_adviser *a, weft_candidate *c) {
    c->steps = 1;
    c->steps_error = c->learning.measured ? 0 : unknown;
    if (!c->learning.measured || !c->learning.changes[0]) return;
    scale run = {c->prediction.parameters, a->length};
    int64_t members = members_of(c);
    known mine = known_of(wefti_advise_recipe(c), &c->learning, members, &run);
    known own = {0, 0};
    if (a->own) own = known_of(a->own, &a->own->learning, members, &run);
    c->steps = exp(mine.log - own.log);
    c->steps_error = sqrt(mine.square + own.square);
}
