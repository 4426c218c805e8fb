/* SPDX-License-Identifier: MIT */
/* Methods: named rows of the three choices, replicator, optimizer and mixer.
 *
 *     gradient --[replicator]--> agreed direction --[optimizer]--> parameters --[mixer]--> ...
 *
 *     hsdp       full                 adamw       none
 *     flexdemo   demo                 sgd         none
 *     dadam      none                 adamw       gossip
 *     diloco     none                 adamw       outer
 *
 * A method is only the keys that it sets. Keys that the user sets explicitly override it,
 * and no code tests a method's name. Papers: FlexDeMo arXiv 2502.06728, DeMo 2411.19870.
 *
 * A learning rate that nobody names falls with the model's width:
 *
 *     lr = rate * min(1, 115.2 / width)      rate: the row's, or 16e-3 of muon
 *     lr = 5.6e-3 * min(1, 82.3 / width)     adam, adamw, accum_adam, accum_adamw
 *
 * From width 768 on Adam's is within a third of most rates published for the sizes of GPT-3
 * (arXiv 2005.14165, table 2.1; 6e-4 at 768). The rates and the fall were measured at
 * widths 96 and 224 (bench/results/methods-compared.md, equal-steps.md). Pretrained weights
 * (model.init) should change little: there the width counts as 768 at least.
 *
 * The interval between outer steps is at most max(min(30, run.steps / 4), run.steps / 32): 30 is
 * what DiLoCo's scaling laws (arXiv 2503.09799) and MuLoCo (2505.23725) were measured with.
 *
 * A run of n = run.steps / outer_every outer steps has at most their momentum
 *
 *     mu = max(0, 1 - 1.15 / cbrt(n))
 *
 * measured with n from 5 to 50 (bench/results/equal-steps.md, "Outer momentum by the run's
 * length"). */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/schema.h"

#define WEFTI_METHOD(name, summary, ...) {name, summary},
const weft_choice wefti_methods[] = {
#include "config/methods.def"
    {NULL, NULL}};
#undef WEFTI_METHOD

enum { MOST_KEYS = 10 };

#define WEFTI_METHOD(name, summary, ...) {name, {__VA_ARGS__}},
static const struct {
    const char *name;
    struct {
        const char *key, *value;
    } sets[MOST_KEYS + 1];
} presets[] = {
#include "config/methods.def"
};
#undef WEFTI_METHOD

/* Outer steps of a run, at least; fewer, if their interval is not longer than 30 steps. */
enum { OUTER_STEPS = 32, FEW_OUTER_STEPS = 4, SHORT_INTERVAL = 30 };
enum { FULL_WIDTH = 768 };
static const double narrow_width = 115.2, muon_rate = 16e-3;
static const double adam_width = 82.3, adam_rate = 5.6e-3;
static const double momentum_fall = 1.15;

/* The rate of a narrow model, and the width up to which it is so; 0: there is none. */
static double narrow_rate(const weft_config *c, double *up_to) {
    const char *name, *value;
    *up_to = narrow_width;
    for (int j = 0; (name = weft_config_method_key(c->method, j, &value)); j++)
        if (wefti_is(name, "optimizer.lr")) return wefti_strtod(value, NULL);
    if (wefti_is(c->optimizer.kind, "sgd")) return 0; /* the direction's scale decides */
    if (wefti_is(c->optimizer.kind, "muon")) return muon_rate;
    *up_to = adam_width;
    return adam_rate;
}

const char *wefti_method_rate(const weft_config *c, char *out, size_t out_size) {
    double width = (double)c->model.width, up_to, rate = narrow_rate(c, &up_to);
    if (c->model.init[0] && width < FULL_WIDTH) width = FULL_WIDTH;
    if (rate == 0) return NULL;
    snprintf(out, out_size, "%.2g", rate * fmin(1, up_to / width));
    return wefti_with_point(out);
}

const char *wefti_method_interval(const weft_config *c, char *out, size_t out_size) {
    int64_t H = c->run.steps / FEW_OUTER_STEPS;
    if (H > SHORT_INTERVAL) H = SHORT_INTERVAL;
    if (H < c->run.steps / OUTER_STEPS) H = c->run.steps / OUTER_STEPS;
    if (H < c->mixer.fragments) H = c->mixer.fragments;
    if (H < c->mixer.delay + 1) H = c->mixer.delay + 1;
    if (H >= c->mixer.outer_every) return NULL;
    snprintf(out, out_size, "%lld", (long long)H);
    return out;
}

const char *wefti_method_momentum(const weft_config *c, char *out, size_t out_size) {
    double outer_steps = (double)c->run.steps / (double)c->mixer.outer_every;
    double mu = fmax(0, 1 - momentum_fall / cbrt(outer_steps));
    if (mu >= c->mixer.outer_momentum) return NULL;
    snprintf(out, out_size, "%.2g", mu);
    return out;
}

const wefti_method_need wefti_method_needs[] = {
    {"ddp", "mesh.ranks_per_node", 1, "hsdp shards the model inside a node"},
    {"fsdp", "mesh.nodes", 1, "hsdp goes over several nodes"},
    {NULL, NULL, 0, NULL}};

bool wefti_method_is_plain(const char *method) {
    const char *key, *value;
    for (int j = 0; (key = weft_config_method_key(method, j, &value)); j++) {
        if (strncmp(key, "mixer.", strlen("mixer.")) == 0) return false;
        if (wefti_is(key, "replicator.kind") && !wefti_is(value, "full")) return false;
    }
    return true;
}

const char *weft_config_method_key(const char *method, int j, const char **value) {
    size_t i = 0, n = sizeof presets / sizeof *presets;
    while (i < n && !wefti_is(presets[i].name, method)) i++;
    if (i == n || j < 0 || j > MOST_KEYS || !presets[i].sets[j].key) return NULL;
    *value = presets[i].sets[j].value;
    return presets[i].sets[j].key;
}
