/* SPDX-License-Identifier: MIT */
/* The methods that a plan tries, and what is known of their learning: the number of steps to a
 * loss, relative to full synchronization with AdamW, each with its best learning rate; the
 * minimum and the maximum over texts and models:
 *
 *   COMPARED  bench/results/methods-compared.md, two nodes, three texts, 200 steps, models of
 *             0.26 and 2.5 M parameters: steps to the loss that is 0.1 above AdamW's last one, or
 *             to the method's own last one where it does not come so far (bench/methods-compared
 *             --steps bench/results/methods-compared.csv
 *             bench/results/methods-compared-medium.csv)
 *   REPLICATORS, GOSSIP  bench/results/equal-steps.md: as many times the steps as AdamW would
 *             have needed fewer to be as far behind its last loss; variants that lay as near to a
 *             method above as seeds do have its numbers, choco sign a sixth more than int8
 *   NEIGHBOURS  bench/results/equal-steps.md: with 2 nodes noloco is DiLoCo; with 8 it is a tenth
 *             further behind AdamW
 *
 * With more nodes and the same total batch, methods that do not average all gradients in each step
 * need more steps. Growth of the logarithm for each doubling from 2 to 8 nodes, mean over three
 * texts, each at its own best rate (--steps), and half of its range, at least 0.05; methods that
 * were not run with 8 nodes have that of their kin, and 0.1. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "planner/advise.h"

#define REPLICATORS                                                                      \
    "bench/results/equal-steps.md, All replicators and DiLoCo at equal steps"
#define GOSSIP "bench/results/equal-steps.md, Gossip at equal steps"
#define NEIGHBOURS "bench/results/equal-steps.md, Outer steps among neighbours"
#define COMPARED "bench/results/methods-compared.md"
/* Parameters of the largest model. A route has that of its method, and what is coded in more bits,
 * or not at all, that of fewer. Others have published runs of billions: with Muon (arXiv
 * 2505.02222), DiLoCo's laws (2503.09799), MuLoCo's paper (2505.23725). */
#define LARGE 10.8e6f
#define MEDIUM 2.5e6f
#define SMALL 0.26e6f
#define PUBLISHED INFINITY
#define SAME {"", true, 0, 1, 1, 0, "the same sum in another order"}, false, INFINITY
/* The first averages all gradients in each step, with Muon; the others do not. */
#define AVERAGED(changes, low, high, largest, source)                                    \
    {changes, true, 0, low, high, 0, source}, true, largest
#define MEASURED(changes, low, high, growth, error, largest, source)                     \
    {changes, true, (float)(error), low, high, growth, source}, false, largest
#define WITH_MUON(changes, low, high, growth, error, largest, source)                    \
    {changes, true, (float)(error), low, high, growth, source}, true, largest
#define UNKNOWN(changes) {changes, false, 0, 1, 1, 0, ""}, false, 0

#define MUON "Muon steps in place of AdamW"
#define SIGNS "the nodes agree on a part of a momentum, and step along its sign"
#define PARTS "the nodes agree on some rows of a momentum, and step along their sign"
#define LARGEST                                                                          \
    "the nodes agree on the largest numbers of a momentum, and step along them"
#define DRIFT "each node steps by itself and mixes its parameters with neighbours"
#define CODED "each node steps by itself and mixes coded differences with neighbours"
#define OUTER "the nodes train apart and come together now and then"

const wefti_recipe wefti_recipes[] = {
    {"full sync", "hsdp", "method=hsdp", 2, 0, true, SAME},
    {"full sync, muon", "muon", "method=hsdp optimizer.kind=muon", 2, 0, true,
     AVERAGED(MUON, 0.38, 0.45, PUBLISHED, COMPARED)},
    {"muon int8", "muon", "method=hsdp optimizer.kind=muon replicator.values=int8", 2, 0,
     false, AVERAGED(MUON, 0.39, 0.46, MEDIUM, COMPARED)},
    {"muon int4", "muon", "method=hsdp optimizer.kind=muon replicator.values=int4", 2, 0,
     false, AVERAGED(MUON, 0.46, 0.52, MEDIUM, COMPARED)},
    {"flexdemo", "flexdemo", "method=flexdemo", 2, 0, false,
     MEASURED(SIGNS, 1.11, 1.90, 0.06, 0.05, LARGE, COMPARED)},
    {"flexdemo int8", "flexdemo", "method=flexdemo replicator.values=int8", 2, 0, true,
     MEASURED(SIGNS, 1.16, 2.09, 0.06, 0.05, MEDIUM, COMPARED)},
    {"flexdemo int8 all_gather", "flexdemo",
     "method=flexdemo replicator.values=int8 replicator.exchange=all_gather", 3, 0, false,
     MEASURED(SIGNS, 1.16, 2.09, 0.06, 0.05, MEDIUM, COMPARED)},
    {"flexdemo int8 sharded", "flexdemo",
     "method=flexdemo replicator.values=int8 replicator.exchange=sharded", 3, 0, false,
     MEASURED(SIGNS, 1.16, 2.09, 0.06, 0.05, MEDIUM, COMPARED)},
    {"flexdemo 1/32 f32", "flexdemo", "method=flexdemo replicator.compression_topk=2", 2,
     0, false, MEASURED(SIGNS, 1.11, 1.90, 0.06, 0.05, SMALL, REPLICATORS)},
    {"flexdemo sign", "flexdemo", "method=flexdemo replicator.values=sign", 2, 0, false,
     MEASURED(SIGNS, 2.67, 9.59, 0.18, 0.15, MEDIUM, COMPARED)},
    {"random 1/4", "random", "method=random replicator.compression_rate=0.25", 2, 0,
     false, MEASURED(PARTS, 1.06, 2.09, 0.01, 0.05, SMALL, REPLICATORS)},
    {"random 1/16", "random", "method=random replicator.compression_rate=0.0625", 2, 0,
     false, MEASURED(PARTS, 2.18, 2.87, 0.00, 0.05, MEDIUM, COMPARED)},
    {"striding 1/16", "striding", "method=striding replicator.compression_rate=0.0625", 2,
     0, false, MEASURED(PARTS, 4.16, 5.41, 0.01, 0.1, SMALL, REPLICATORS)},
    {"slicing 1/16", "slicing", "method=slicing replicator.compression_rate=0.0625", 2, 0,
     false, UNKNOWN(PARTS)},
    {"topk", "topk", "method=topk", 2, 0, false,
     MEASURED(LARGEST, 1.15, 1.92, 0.00, 0.05, MEDIUM, COMPARED)},
    {"powersgd", "powersgd", "method=powersgd", 2, 0, false,
     MEASURED("AdamW on two thin factors of each change", 3.23, 4.36, 0.05, 0.1, SMALL,
              COMPARED)},
    {"signsgd", "signsgd", "method=signsgd", 2, 0, false,
     MEASURED("the nodes vote on the sign of each number", 3.64, 4.73, 0.05, 0.1, SMALL,
              COMPARED)},
    {"async demo", "async-demo", "method=async-demo", 2, 0, false,
     MEASURED("flexdemo's step, taken one step later", 2.76, 4.00, 0.02, 0.10, MEDIUM,
              COMPARED)},
    {"deto-adamw", "deto-adamw", "method=deto-adamw", 2, 0, false,
     MEASURED("AdamW on a part of a momentum that the nodes agree on", 5.17, 10.00, 0.05,
              0.1, SMALL, COMPARED)},
    {"dadam aer", "dadam", "method=dadam mixer.topology=aer", 2, 0, true,
     MEASURED(DRIFT, 1.04, 1.43, 0.19, 0.07, LARGE, COMPARED)},
    {"dadam ring", "dadam", "method=dadam mixer.topology=ring", 3, 0, false,
     MEASURED(DRIFT, 1.04, 1.43, 0.19, 0.07, SMALL, GOSSIP)},
    {"dadam exponential", "dadam", "method=dadam mixer.topology=exponential", 3, 0, false,
     MEASURED(DRIFT, 1.04, 1.43, 0.19, 0.07, SMALL, GOSSIP)},
    {"dadam complete", "dadam", "method=dadam mixer.topology=complete", 3, 0, false,
     MEASURED(DRIFT, 1.04, 1.43, 0.19, 0.07, SMALL, GOSSIP)},
    {"dadam matching", "dadam", "method=dadam mixer.topology=matching", 3, 0, false,
     UNKNOWN(DRIFT)},
    {"choco aer int8", "dadam",
     "method=dadam mixer.kind=choco mixer.topology=aer mixer.values=int8", 2, 0, false,
     MEASURED(CODED, 1.04, 1.42, 0.20, 0.08, LARGE, COMPARED)},
    {"choco aer int4", "dadam",
     "method=dadam mixer.kind=choco mixer.topology=aer mixer.values=int4", 2, 0, false,
     MEASURED(CODED, 1.04, 1.42, 0.20, 0.08, SMALL, GOSSIP)},
    {"choco aer sign", "dadam",
     "method=dadam mixer.kind=choco mixer.topology=aer mixer.values=sign", 2, 0, false,
     MEASURED(CODED, 1.21, 1.66, 0.20, 0.08, SMALL, GOSSIP)},
    {"dadam muon", "dadam", "method=dadam mixer.topology=aer optimizer.kind=muon", 2, 0,
     true, WITH_MUON(DRIFT ", with Muon", 0.42, 0.47, 0.25, 0.1, MEDIUM, COMPARED)},
    {"choco int8 muon", "dadam",
     "method=dadam mixer.kind=choco mixer.topology=aer mixer.values=int8 "
     "optimizer.kind=muon",
     2, 0, true, WITH_MUON(CODED ", with Muon", 0.43, 0.47, 0.25, 0.1, MEDIUM, COMPARED)},
    {"accumadam aer", "accumadam", "method=accumadam mixer.topology=aer", 2, 0, false,
     MEASURED(DRIFT, 1.02, 1.34, 0.34, 0.09, MEDIUM, COMPARED)},
    {"diloco H=50", "diloco", "method=diloco mixer.outer_every=50", 2, 50, true,
     MEASURED(OUTER, 1.09, 1.59, 0.23, 0.11, PUBLISHED, COMPARED)},
    {"streaming-diloco", "streaming-diloco", "method=streaming-diloco", 2, 100, false,
     MEASURED("the nodes train apart and bring parts together in turns, a little late",
              1.17, 1.54, 0.21, 0.10, PUBLISHED, COMPARED)},
    {"noloco H=50", "diloco", "method=noloco mixer.outer_every=50", 3, 50, false,
     MEASURED("the nodes train apart and take means with one other now and then", 1.09,
              1.59, 0.27, 0.15, SMALL, NEIGHBOURS)},
    {"muloco", "muloco", "method=muloco", 2, 30, true,
     WITH_MUON("the nodes train apart with Muon and come together now and then", 0.48,
               0.58, 0.25, 0.05, PUBLISHED, COMPARED)},
    {"muloco int4", "muloco", "method=muloco mixer.values=int4", 2, 30, false,
     WITH_MUON("the nodes train apart with Muon and exchange coded changes now and then",
               0.48, 0.58, 0.31, 0.13, PUBLISHED, COMPARED)},
    {"sparseloco", "sparseloco", "method=sparseloco", 2, 30, false,
     MEASURED("the nodes train apart and bring their largest changes together", 3.14,
              3.95, 0.00, 0.08, MEDIUM, COMPARED)},
    {NULL, NULL, NULL, 0, 0, false, UNKNOWN("")}};

/* Longer runs with two nodes: steps to the loss that is 0.1 above AdamW's last one, over
 * AdamW's; of 20,000 steps also to the last one of a method that ends behind AdamW. */
#define LONGER "bench/results/equal-steps.md, Longer runs"
#define THOUSAND "bench/results/equal-steps.md, Steps to a loss in runs of 1,000"
#define UNSEEN "bench/results/equal-steps.md, Presets on an unseen text"
#define DEVICE "bench/results/device.md, Learning over 5,000 steps"
#define LENGTH "bench/results/equal-steps.md, Loss by length: 20,000 steps"

const wefti_longer_run wefti_longer[] = {{"full sync, muon", 1000, 0.70, LONGER},
                                         {"muloco int4", 1000, 0.72, LONGER},
                                         {"full sync, muon", 1000, 0.625, THOUSAND},
                                         {"muloco int4", 1000, 0.717, THOUSAND},
                                         {"flexdemo", 1000, 1.054, THOUSAND},
                                         {"flexdemo int8", 1000, 1.000, THOUSAND},
                                         {"dadam aer", 1000, 1.131, THOUSAND},
                                         {"diloco H=50", 1000, 1.260, THOUSAND},
                                         {"topk", 1000, 1.165, THOUSAND},
                                         {"topk", 1000, 1.059, UNSEEN},
                                         {"signsgd", 1000, 1.043, UNSEEN},
                                         {"signsgd", 1000, 1.177, UNSEEN},
                                         {"powersgd", 1000, 1.625, UNSEEN},
                                         {"random 1/16", 1000, 2.212, UNSEEN},
                                         {"random 1/16", 1000, 2.555, UNSEEN},
                                         {"sparseloco", 1000, 3.985, UNSEEN},
                                         {"async demo", 1000, 2.621, UNSEEN},
                                         {"async demo", 1000, 2.716, UNSEEN},
                                         {"flexdemo", 1000, 0.990, UNSEEN},
                                         {"dadam aer", 1000, 1.064, UNSEEN},
                                         {"diloco H=50", 1000, 1.063, UNSEEN},
                                         {"muloco int4", 1000, 0.620, UNSEEN},
                                         {"full sync, muon", 5000, 0.745, LONGER},
                                         {"muloco int4", 5000, 0.776, LONGER},
                                         {"diloco H=50", 5000, 1.06, LONGER},
                                         {"dadam aer", 5000, 1.008, LONGER},
                                         {"flexdemo", 5000, 0.918, LONGER},
                                         {"full sync, muon", 5000, 0.882, LONGER},
                                         {"muloco int4", 5000, 0.736, LONGER},
                                         {"diloco H=50", 5000, 0.933, LONGER},
                                         {"dadam aer", 5000, 0.798, LONGER},
                                         {"flexdemo", 5000, 0.942, LONGER},
                                         {"full sync, muon", 5000, 0.930, LONGER},
                                         {"muloco int4", 5000, 0.936, LONGER},
                                         {"diloco H=50", 5000, 1.116, LONGER},
                                         {"dadam aer", 5000, 1.114, LONGER},
                                         {"flexdemo", 5000, 1.110, LONGER},
                                         {"full sync, muon", 5000, 0.746, DEVICE},
                                         {"muloco int4", 5000, 0.905, DEVICE},
                                         {"diloco H=50", 5000, 1.31, DEVICE},
                                         {"flexdemo", 5000, 0.986, DEVICE},
                                         {"full sync, muon", 20000, 1.03, LENGTH},
                                         {"muloco int4", 20000, 1.05, LENGTH},
                                         {"muloco int4", 20000, 1.04, LENGTH},
                                         {"flexdemo", 20000, 0.85, LENGTH},
                                         {"flexdemo", 20000, 1.17, LENGTH},
                                         {NULL, 0, 0, NULL}};

/* Appends one setting; between sites is what the nodes of one would do. */
static void put_setting(const char *key, size_t n_key, const char *value, char *out,
                        size_t size) {
    static const char near[] = "replicator.";
    size_t used = strlen(out);
    bool far = strncmp(key, near, sizeof near - 1) == 0;
    snprintf(out + used, size - used, " %s%.*s=%.*s", far ? "site_" : "", (int)n_key, key,
             (int)strcspn(value, " "), value);
}

void wefti_recipe_between(const wefti_recipe *recipe, char *out, size_t size) {
    const char *key, *value, *word = recipe->settings;
    char method[32] = "";
    sscanf(word, "method=%31s", method);
    snprintf(out, size, "method=%s replicator.kind=full", method);
    for (int j = 0; (key = weft_config_method_key(method, j, &value)); j++)
        if (strncmp(key, "replicator.", strlen("replicator.")) == 0 &&
            !wefti_is(value, "none"))
            put_setting(key, strlen(key), value, out, size);
    for (word += strcspn(word, " "); *word; word += strcspn(word, " ")) {
        word += strspn(word, " ");
        size_t n_key = strcspn(word, "=");
        if (*word) put_setting(word, n_key, word + n_key + 1, out, size);
    }
}

const weft_recipe *weft_recipe_at(int i) {
    int n = (int)(sizeof wefti_recipes / sizeof *wefti_recipes) - 1;
    return i >= 0 && i < n ? &wefti_recipes[i] : NULL;
}

const wefti_recipe *wefti_recipe_find(const char *name) {
    const wefti_recipe *r = wefti_recipes;
    size_t before = sizeof WEFTI_BETWEEN - 1, word = strcspn(name, " ");
    bool coded = name[word] && memchr(name, '=', word); /* "1=int4 flexdemo" */
    if (strncmp(name, WEFTI_BETWEEN, before) == 0) name += before;
    if (coded) name += word + 1;
    while (r->name && strcmp(r->name, name) != 0) r++;
    return r->name ? r : NULL;
}

const wefti_recipe *wefti_advise_recipe(const weft_candidate *c) {
    const wefti_recipe *found = wefti_recipe_find(c->name);
    for (const wefti_recipe *r = wefti_recipes; r->name && !found && c->nodes == 1; r++)
        if (r->muon && c->learning.changes == r->learning.changes) found = r;
    return found;
}

bool wefti_advise_has_muon(const wefti_adviser *a, const weft_candidate *c) {
    const wefti_recipe *recipe = wefti_advise_recipe(c);
    if (!recipe) recipe = a->own;
    return recipe && recipe->muon;
}
