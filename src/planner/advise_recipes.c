/* SPDX-License-Identifier: MIT */
/* The methods that a plan tries, and what is known of their learning. The distances are
 * those of docs/results.md, "All replicators and DiLoCo at equal steps" (2 and 4 nodes)
 * and "Gossip at equal steps" (4 and 8 nodes): validation loss less that of full
 * synchronization, the least and the greatest over two texts and two numbers of nodes,
 * means of three seeds, each method at its best learning rate; a model of 0.26 M
 * parameters after 200 steps. Those of COMPARED are docs/methods-compared.md's, less AdamW
 * at equal steps: the least and the greatest over its texts and numbers of nodes, a model of
 * as many parameters after as many steps, outer methods with H = 20. Below zero: ahead. What
 * was tried on one text alone is not known: texts differ by more than methods do. */
#include <string.h>

#include "planner/advise.h"

#define REPLICATORS "docs/results.md, All replicators and DiLoCo at equal steps"
#define GOSSIP "docs/results.md, Gossip at equal steps"
#define COMPARED "docs/methods-compared.md"
#define SAME                                                                             \
    { "", true, 0, 0, "the same sum in another order" }
#define MEASURED(changes, low, high, source)                                             \
    { changes, true, low, high, source }
#define UNKNOWN(changes)                                                                 \
    { changes, false, 0, 0, "" }

#define SIGNS "the nodes agree on a part of a momentum, and step along its sign"
#define PARTS "the nodes agree on some rows of a momentum, and step along their sign"
#define LARGEST "the nodes agree on the largest numbers of a momentum, and step along them"
#define DRIFT "each node steps by itself and mixes its parameters with neighbours"
#define CODED "each node steps by itself and mixes coded differences with neighbours"
#define OUTER "the nodes train apart and come together now and then"

const wefti_recipe wefti_recipes[] = {
    {"full sync", "hsdp", "method=hsdp", 2, 0, true, SAME},
    {"flexdemo", "flexdemo", "method=flexdemo", 2, 0, false,
     MEASURED(SIGNS, 0.048, 0.181, REPLICATORS)},
    {"flexdemo int8", "flexdemo", "method=flexdemo replicator.values=int8", 2, 0, true,
     MEASURED(SIGNS, 0.050, 0.173, REPLICATORS)},
    {"flexdemo int8 all_gather", "flexdemo",
     "method=flexdemo replicator.values=int8 replicator.exchange=all_gather", 3, 0, false,
     MEASURED(SIGNS, 0.050, 0.173, REPLICATORS)},
    {"flexdemo int8 sharded", "flexdemo",
     "method=flexdemo replicator.values=int8 replicator.exchange=sharded", 3, 0, false,
     MEASURED(SIGNS, 0.050, 0.173, REPLICATORS)},
    {"flexdemo 1/32 f32", "flexdemo", "method=flexdemo replicator.compression_topk=2", 2,
     0, false, MEASURED(SIGNS, 0.068, 0.155, REPLICATORS)},
    {"flexdemo sign", "flexdemo", "method=flexdemo replicator.values=sign", 2, 0, false,
     MEASURED(SIGNS, 0.314, 0.734, REPLICATORS)},
    {"random 1/4", "random", "method=random replicator.compression_rate=0.25", 2, 0,
     false, MEASURED(PARTS, 0.015, 0.123, REPLICATORS)},
    {"random 1/16", "random", "method=random replicator.compression_rate=0.0625", 2, 0,
     false, MEASURED(PARTS, 0.204, 0.334, REPLICATORS)},
    {"striding 1/16", "striding", "method=striding replicator.compression_rate=0.0625", 2,
     0, false, MEASURED(PARTS, 0.390, 0.489, REPLICATORS)},
    {"slicing 1/16", "slicing", "method=slicing replicator.compression_rate=0.0625", 2, 0,
     false, UNKNOWN(PARTS)},
    {"topk", "topk", "method=topk", 2, 0, false,
     MEASURED(LARGEST, 0.024, 0.100, COMPARED)},
    {"powersgd", "powersgd", "method=powersgd", 2, 0, false,
     UNKNOWN("AdamW on two thin factors of each change")},
    {"signsgd", "signsgd", "method=signsgd", 2, 0, false,
     UNKNOWN("the nodes vote on the sign of each number")},
    {"async demo", "async-demo", "method=async-demo", 2, 0, false,
     UNKNOWN("flexdemo's step, taken one step later")},
    {"deto-adamw", "deto-adamw", "method=deto-adamw", 2, 0, false,
     MEASURED("AdamW on a part of a momentum that the nodes agree on", 0.336, 0.633,
              REPLICATORS)},
    {"dadam aer", "dadam", "method=dadam mixer.topology=aer", 2, 0, true,
     MEASURED(DRIFT, 0.036, 0.178, GOSSIP)},
    {"dadam ring", "dadam", "method=dadam mixer.topology=ring", 3, 0, false,
     MEASURED(DRIFT, 0.026, 0.167, GOSSIP)},
    {"dadam exponential", "dadam", "method=dadam mixer.topology=exponential", 3, 0, false,
     MEASURED(DRIFT, 0.030, 0.164, GOSSIP)},
    {"dadam complete", "dadam", "method=dadam mixer.topology=complete", 3, 0, false,
     MEASURED(DRIFT, 0.024, 0.153, GOSSIP)},
    {"dadam matching", "dadam", "method=dadam mixer.topology=matching", 3, 0, false,
     UNKNOWN(DRIFT)},
    {"choco aer int8", "dadam",
     "method=dadam mixer.kind=choco mixer.topology=aer mixer.values=int8", 2, 0, false,
     MEASURED(CODED, 0.036, 0.179, GOSSIP)},
    {"choco aer int4", "dadam",
     "method=dadam mixer.kind=choco mixer.topology=aer mixer.values=int4", 2, 0, false,
     MEASURED(CODED, 0.042, 0.170, GOSSIP)},
    {"choco aer sign", "dadam",
     "method=dadam mixer.kind=choco mixer.topology=aer mixer.values=sign", 2, 0, false,
     MEASURED(CODED, 0.070, 0.199, GOSSIP)},
    {"accumadam aer", "accumadam", "method=accumadam mixer.topology=aer", 2, 0, false,
     MEASURED(DRIFT, 0.070, 0.240, GOSSIP)},
    {"diloco H=50", "diloco", "method=diloco mixer.outer_every=50", 2, 50, true,
     MEASURED(OUTER, 0.073, 0.250, REPLICATORS)},
    {"diloco H=500", "diloco", "method=diloco mixer.outer_every=500", 2, 500, false,
     UNKNOWN(OUTER)},
    {"streaming-diloco", "streaming-diloco", "method=streaming-diloco", 2, 100, false,
     UNKNOWN("the nodes train apart and bring parts together in turns, a little late")},
    {"muloco", "muloco", "method=muloco", 2, 30, true,
     MEASURED("the nodes train apart with Muon and come together now and then", -0.563,
              -0.079, COMPARED)},
    {"sparseloco", "sparseloco", "method=sparseloco", 2, 30, false,
     MEASURED("the nodes train apart and bring their largest changes together", 0.206,
              0.253, COMPARED)},
    {NULL, NULL, NULL, 0, 0, false, UNKNOWN("")}};

/* Full synchronization among the nodes of a site, something thriftier between sites. */
const wefti_recipe wefti_site_recipes[] = {
    {"full sync", "hsdp", "method=hsdp site_replicator.kind=full", 2, 0, true, SAME},
    {"sites flexdemo int8", "flexdemo",
     "method=hsdp site_replicator.kind=demo site_replicator.values=int8 "
     "optimizer.kind=sgd optimizer.lr=2e-3 optimizer.weight_decay=0 optimizer.clip=0",
     2, 0, true, UNKNOWN("the sites agree on a part of a momentum")},
    {"sites dadam aer", "dadam",
     "method=hsdp replicator.kind=full mixer.kind=gossip mixer.topology=aer", 2, 0, true,
     UNKNOWN("each site steps by itself and mixes its parameters with others")},
    {"sites choco int8", "dadam",
     "method=hsdp mixer.kind=choco mixer.topology=aer mixer.values=int8", 2, 0, false,
     UNKNOWN("each site steps by itself and mixes coded differences")},
    {"sites diloco H=50", "diloco", "method=hsdp mixer.kind=outer mixer.outer_every=50",
     2, 50, true, UNKNOWN("the sites train apart and come together now and then")},
    {NULL, NULL, NULL, 0, 0, false, UNKNOWN("")}};

static const wefti_recipe *find_in(const wefti_recipe *recipes, const char *name) {
    for (; recipes->name; recipes++)
        if (strcmp(recipes->name, name) == 0) return recipes;
    return NULL;
}

const wefti_recipe *wefti_recipe_find(const char *name) {
    const wefti_recipe *found = find_in(wefti_recipes, name);
    return found ? found : find_in(wefti_site_recipes, name);
}
