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
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/schema.h"

const weft_choice wefti_methods[] = {
    {"none", "no preset: only the keys count"},
    {"auto", "weft train measures machines and wires, and takes what fits (decide.*)"},
    {"ddp",
     "data parallel: one rank per node with the whole model, gradients averaged in full"},
    {"fsdp", "sharded data parallel on one node: each rank holds a slice of the model"},
    {"hsdp", "hybrid: sharded inside a node, gradients averaged in full between nodes"},
    {"flexdemo",
     "hybrid: sharded inside a node, few DCT coefficients of a momentum between nodes"},
    {"async-demo", "flexdemo, applied one step later: a whole step hides the exchange"},
    {"topk",
     "hybrid, with the largest numbers of a momentum: flexdemo without a transform"},
    {"signsgd", "the majority of the signs of momenta, 1.6 bits per number (signum)"},
    {"powersgd", "two low-rank factors of each matrix's change, as AdamW's gradient"},
    {"random", "hybrid, with rows of the momentum drawn at random in each step"},
    {"striding", "hybrid, with every n-th row of the momentum, shifted in each step"},
    {"slicing", "hybrid, with a moving window of rows of the momentum"},
    {"deto-adamw", "flexdemo's coefficients, without signs, as AdamW's gradient"},
    {"dadam", "decentralized AdamW: weights mixed with neighbours during a whole step"},
    {"accumadam", "dadam with AccumAdamW, whose moments are updated every few steps"},
    {"diloco", "AdamW on each node; at intervals, an outer step along the mean change"},
    {"streaming-diloco",
     "diloco in parts exchanged in turn while inner steps are computed"},
    {"muloco", "diloco with Muon on each node: the one to try first on a slow wire"},
    {"sparseloco",
     "diloco that sends only the largest changes, in 2 bits each: the fewest bytes"},
    {NULL, NULL}};

/* Common to the methods that send a part of the momentum. Where each row moves only in a
 * few of the steps, the learning rate is larger. */
#define DECOUPLED(method, kind, lr)                                                      \
    {method, "replicator.kind", kind}, {method, "replicator.sign", "true"},              \
        {method, "optimizer.kind", "sgd"}, {method, "optimizer.lr", lr},                 \
        {method, "optimizer.weight_decay", "0"}, {                                       \
        method, "optimizer.clip", "0"                                                    \
    }

static const struct {
    const char *method, *key, *value;
} settings[] = {{"ddp", "replicator.kind", "full"},
                {"ddp", "optimizer.kind", "adamw"},
                {"fsdp", "replicator.kind", "full"},
                {"fsdp", "optimizer.kind", "adamw"},
                {"hsdp", "replicator.kind", "full"},
                {"hsdp", "optimizer.kind", "adamw"},
                DECOUPLED("flexdemo", "demo", "4e-3"),
                DECOUPLED("async-demo", "demo", "1.4e-3"),
                {"async-demo", "replicator.delay", "1"},
                DECOUPLED("topk", "topk", "8e-3"),
                {"signsgd", "replicator.kind", "signsgd"},
                {"signsgd", "optimizer.kind", "sgd"},
                {"signsgd", "optimizer.lr", "1e-3"},
                {"signsgd", "optimizer.weight_decay", "0"},
                {"signsgd", "optimizer.clip", "0"},
                {"signsgd", "replicator.compression_decay", "0.9"},
                {"powersgd", "replicator.kind", "powersgd"},
                {"powersgd", "replicator.compression_decay", "1"},
                {"powersgd", "optimizer.kind", "adamw"},
                {"powersgd", "optimizer.clip", "0"},
                DECOUPLED("random", "random", "8e-3"),
                DECOUPLED("striding", "striding", "8e-3"),
                DECOUPLED("slicing", "slicing", "8e-3"),
                {"deto-adamw", "replicator.kind", "demo"},
                {"deto-adamw", "replicator.sign", "false"},
                {"deto-adamw", "optimizer.kind", "adamw"},
                {"deto-adamw", "optimizer.clip", "0"},
                {"dadam", "replicator.kind", "none"},
                {"dadam", "optimizer.kind", "adamw"},
                {"dadam", "mixer.kind", "gossip"},
                {"accumadam", "replicator.kind", "none"},
                {"accumadam", "optimizer.kind", "accum_adamw"},
                {"accumadam", "optimizer.beta2", "0.98"},
                {"accumadam", "mixer.kind", "gossip"},
                {"diloco", "replicator.kind", "none"},
                {"diloco", "optimizer.kind", "adamw"},
                {"diloco", "mixer.kind", "outer"},
                {"diloco", "mixer.outer_every", "500"},
                {"diloco", "mixer.outer_momentum", "0.9"},
                {"streaming-diloco", "replicator.kind", "none"},
                {"streaming-diloco", "optimizer.kind", "adamw"},
                {"streaming-diloco", "mixer.kind", "outer"},
                {"streaming-diloco", "mixer.outer_every", "100"},
                {"streaming-diloco", "mixer.outer_momentum", "0.9"},
                {"streaming-diloco", "mixer.fragments", "4"},
                {"streaming-diloco", "mixer.delay", "5"},
                {"streaming-diloco", "mixer.merge", "0.5"},
                {"streaming-diloco", "mixer.values", "int4"},
                {"muloco", "replicator.kind", "none"},
                {"muloco", "optimizer.kind", "muon"},
                {"muloco", "mixer.kind", "outer"},
                {"muloco", "mixer.outer_every", "30"},
                {"muloco", "mixer.outer_momentum", "0.4"},
                {"sparseloco", "replicator.kind", "none"},
                {"sparseloco", "optimizer.kind", "adamw"},
                {"sparseloco", "mixer.kind", "sparse_outer"},
                {"sparseloco", "mixer.outer_every", "30"},
                {"sparseloco", "mixer.outer_lr", "1"},
                {"sparseloco", "mixer.feedback", "0.95"},
                {NULL, NULL, NULL}};

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
        if (wefti_is(name, "optimizer.lr")) return strtod(value, NULL);
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
    return out;
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
    for (int i = 0; settings[i].method; i++) {
        if (!wefti_is(settings[i].method, method) || j-- > 0) continue;
        *value = settings[i].value;
        return settings[i].key;
    }
    return NULL;
}
