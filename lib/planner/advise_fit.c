/* SPDX-License-Identifier: MIT */
/* What has room, where one node with the run's facts has none. In this order:
 *
 *     one node, and DiLoCo on all     f32   bf16   bf16, activations recomputed
 *     one node alone                  the same
 *     all shards over all ranks       f32 and bf16   + recomputed   bf16   moments in 8 bits
 *
 * The last is fsdp, which is tried beside the others wherever the first rung has no room, so that
 * more memory does not take it away. A given precision stays. Which of the candidates
 * recompute is seen from each of them (advise.c).
 * Where nothing has room, so many ranks would, each with a share s / W of what is shared and
 * all of the rest r:
 *
 *     m(W) = s / W + r      from m at two numbers of ranks;  W = s / (room - r)
 *
 * and if r alone is too much, only what divides a layer does: tensor parallelism. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/layers.h"
#include "planner/advise.h"

const char *wefti_precision_name(weft_precision precision) {
    static const char *const names[] = {"f32", "f32 and bf16", "bf16",
                                        "bf16 with moments in 8 bits"};
    return names[precision];
}

/* What is asked of a precision: room for one node, for a method with states of its own on
 * several, for all shards over all ranks. */
typedef enum ask { ONE, METHOD, SHARDED } ask;

static weft_candidate asked(const wefti_adviser *a, int64_t nodes, ask what) {
    weft_candidate c = {
        .nodes = nodes, .ranks_per_node = a->cluster.ranks_per_node, .sites = 1};
    if (what == SHARDED) snprintf(c.framework, sizeof c.framework, "fsdp");
    return c;
}

static bool have_room(const wefti_adviser *a, int64_t nodes, ask what, double bytes) {
    weft_candidate c = asked(a, nodes, what);
    return bytes <= wefti_machines_memory(a, &c, bytes);
}

/* What a rank needs; 0 where the configuration is refused, which the candidates tell. */
static weft_status memory_of(wefti_adviser *a, int64_t nodes, ask what, bool recompute,
                             double *bytes) {
    enum { FEW = 2 };
    weft_prediction p = {.struct_size = sizeof p};
    wefti_adviser quick = *a;
    weft_candidate c = asked(a, nodes, what);
    snprintf(c.settings, sizeof c.settings,
             "mesh.nodes=%lld mesh.ranks_per_node=%lld mesh.shards=0 mesh.sites=1 "
             "mesh.keep_whole=false method=%s%s",
             (long long)nodes, (long long)c.ranks_per_node,
             what == METHOD ? "diloco" : "hsdp", recompute ? WEFTI_RECOMPUTE : "");
    quick.options.steps = FEW;
    weft_status status = wefti_advise_predict(a->ctx, &quick, &c, 0, &p);
    *bytes = (double)p.memory_bytes;
    if (status == WEFT_OK && !recompute && what != SHARDED &&
        *bytes > wefti_machines_memory(a, &c, *bytes))
        status = wefti_advise_squeeze(a->ctx, &quick, &c, bytes);
    if (status != WEFT_ERR_CONFIG) return status;
    weft_ctx_clear(a->ctx);
    *bytes = 0;
    return WEFT_OK;
}

typedef struct rung {
    weft_precision precision;
    bool recompute;
} rung;

/* From what costs nothing to what costs most; of a given precision, the same twice. */
static int rungs_of(weft_precision given, ask what, rung out[4]) {
    static const rung nodes[] = {{WEFT_PRECISION_F32, false},
                                 {WEFT_PRECISION_BF16, false},
                                 {WEFT_PRECISION_BF16, true}},
                      ranks[] = {{WEFT_PRECISION_MIXED, false},
                                 {WEFT_PRECISION_MIXED, true},
                                 {WEFT_PRECISION_BF16, true},
                                 {WEFT_PRECISION_BF16_8BIT, true}};
    out[0] = (rung){given, false};
    out[1] = (rung){given, true};
    if (given != WEFT_PRECISION_F32) return 2;
    memcpy(out, what == SHARDED ? ranks : nodes,
           what == SHARDED ? sizeof ranks : sizeof nodes);
    return what == SHARDED ? 4 : 3;
}

/* The first rung that has room for it, of which 0 costs nothing; -1: none, and the last one
 * stays set. */
static weft_status climb(wefti_adviser *a, weft_precision given, ask what, int *found) {
    int64_t nodes = what == ONE ? 1 : wefti_advise_most_nodes(a);
    double bytes = 0, one = 0;
    rung rungs[4];
    int n = rungs_of(given, what, rungs);
    *found = -1;
    for (int i = 0; i < n && *found < 0; i++) {
        bool again = rungs[i].recompute && !wefti_config_given(a->run, "model.recompute");
        a->options.precision = rungs[i].precision;
        WEFT_TRY(memory_of(a, nodes, what, again, &bytes));
        if (what == METHOD) WEFT_TRY(memory_of(a, 1, ONE, again, &one));
        if (have_room(a, nodes, what, bytes) && have_room(a, 1, ONE, one)) *found = i;
    }
    return WEFT_OK;
}

static weft_status count_ranks(wefti_adviser *a, int64_t nodes) {
    weft_candidate c = asked(a, nodes, SHARDED);
    double all, one, room = wefti_machines_memory(a, &c, 0);
    double W = (double)(nodes * a->cluster.ranks_per_node);
    double S = (double)a->cluster.ranks_per_node;
    bool again = !wefti_config_given(a->run, "model.recompute");
    WEFT_TRY(memory_of(a, nodes, SHARDED, again, &all));
    WEFT_TRY(memory_of(a, 1, SHARDED, again, &one));
    double shared = nodes > 1 ? (one - all) / (1 / S - 1 / W) : all * W;
    double rest = fmax(0, all - shared / W);
    a->advice->ranks_needed = rest < room ? ceil(shared / (room - rest))
                                          : (double)INFINITY;
    return WEFT_OK;
}

weft_status wefti_advise_fit(wefti_adviser *a) {
    weft_precision given = a->options.precision;
    bool more = strstr(a->others, "fsdp") != NULL;
    int method, found;
    if (wefti_machines_memory(a, &(weft_candidate){.nodes = 1}, 0) <= 0) return WEFT_OK;
    WEFT_TRY(climb(a, given, METHOD, &method));
    found = method;
    if (found < 0) WEFT_TRY(climb(a, given, ONE, &found));
    if (found < 0) WEFT_TRY(climb(a, given, SHARDED, &found));
    size_t used = strlen(a->others);
    if (!more && method != 0)
        snprintf(a->others + used, sizeof a->others - used, "%sfsdp", used ? " " : "");
    if (found < 0) WEFT_TRY(count_ranks(a, wefti_advise_most_nodes(a)));
    a->advice->found_fit = a->options.precision != given || found < 0;
    return WEFT_OK;
}
