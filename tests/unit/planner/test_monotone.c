/* SPDX-License-Identifier: MIT */
/* A better cluster is never predicted to be slower: 200 random clusters, every preset, one
 * fact at a time made better. Besides the step, the time to a goal: with failures, whose nodes
 * go on or go back, with busy hours of a day, and with machines that differ. */
#include "room.h"

#include <math.h>

#include "planner/advise.h"
#include "unit/planner/randomruns.h"

/* A sanitizer looks at the code and not at the numbers: fewer clusters, all presets. */
enum { CLUSTERS = UNDER_SANITIZER ? 16 : 200, PLAYED = 8 };

/* Of numbers in double precision, added in another order; nothing else. */
static const double rounding = 1e-9;

static int64_t n_tried, n_costs_tried, n_machines_tried;

static const char *const kinds[] = {
    "method=hsdp",
    "method=hsdp optimizer.clip=0",
    "method=hsdp optimizer.clip=0 replicator.values=int8",
    "method=flexdemo replicator.exchange=all_gather",
    "method=flexdemo replicator.exchange=sharded",
    "method=topk",
    "method=deto-adamw",
    "method=random",
    "method=striding",
    "method=slicing",
    "method=dadam",
    "method=dadam mixer.topology=ring",
    "method=dadam mixer.topology=complete",
    "method=dadam mixer.order=atc",
    "method=accumadam",
    "method=dadam mixer.kind=choco mixer.topology=ring mixer.values=int8",
    "method=diloco mixer.outer_every=4",
    "method=muloco mixer.outer_every=4",
    "method=streaming-diloco mixer.outer_every=8",
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static double step_of(const wefti_adviser *a, const weft_candidate *c) {
    weft_prediction p = {.struct_size = sizeof p};
    assert_ok(ctx, wefti_advise_predict(ctx, a, c, 0, &p));
    assert_true(p.mean_step_s > 0);
    return p.mean_step_s; /* without spans: nothing to clear */
}

static const change changes[] = {
    {"a faster wire", offsetof(weft_cluster, wire.bandwidth_Bps), true},
    {"less latency", offsetof(weft_cluster, wire.latency_s), false},
    {"faster nodes", offsetof(weft_cluster, rank_flops), true},
    {"less jitter", offsetof(weft_cluster, jitter.stall_s), false},
    {"a faster way out", offsetof(weft_cluster, wire.up_Bps), true},
    {"fewer losses", offsetof(weft_cluster, wire.loss), false},
    {"a steadier wire", offsetof(weft_cluster, wire.jitter_s), false},
};

enum { CHANGES = sizeof changes / sizeof changes[0] };

static weft_cluster *make_facts(int i, int64_t nodes) {
    weft_cluster *facts;
    assert_ok(ctx, weft_cluster_create(ctx, &facts));
    facts->nodes = nodes;
    facts->rank_flops = pow(10, 9 + 4 * draw(i, 2));
    facts->memory_Bps = draw(i, 3) < 0.5 ? 0 : 1e10;
    facts->jitter.spread = draw(i, 4) < 0.5 ? 0 : 0.1 * draw(i, 5);
    facts->jitter.stall_share = draw(i, 9) < 0.5 ? 0 : 0.01;
    facts->jitter.stall_s = 0.1;
    facts->wire.bandwidth_Bps = pow(10, 5 + 5 * draw(i, 6));
    facts->wire.latency_s = pow(10, -5 + 3.5 * draw(i, 7));
    if (draw(i, 10) < 0.3) facts->wire.up_Bps = facts->wire.bandwidth_Bps * draw(i, 11);
    if (draw(i, 12) < 0.2) facts->wire.loss = 0.02 * draw(i, 13);
    if (draw(i, 14) < 0.2) facts->wire.jitter_s = 0.01 * draw(i, 15);
    return facts;
}

static void try_kind(wefti_adviser *a, const weft_cluster *facts, int i,
                     const char *kind) {
    weft_candidate c = {
        .nodes = facts->nodes, .ranks_per_node = 1, .sites = 1, .steps = 1};
    double more = 1.02 + 0.5 * draw(i, 8);
    snprintf(c.settings, sizeof c.settings, "mesh.nodes=%lld %s", (long long)facts->nodes,
             kind);
    a->cluster = *facts;
    double before_s = step_of(a, &c);
    for (int n = 0; n < CHANGES; n++) {
        a->cluster = *facts;
        double *fact = (double *)(void *)((char *)&a->cluster + changes[n].at);
        *fact = changes[n].more ? *fact * more : *fact / more;
        double after_s = step_of(a, &c);
        n_tried++;
        if (after_s > (1 + rounding) * before_s)
            fail_msg("cluster %d, %s: a step of %.9g s, and %.9g s with %s", i, kind,
                     before_s, after_s, changes[n].what);
    }
}

/* ---- the time to a goal ---- */

/* What may get better of it: a fact of the cluster, or an option. */
typedef struct trouble {
    const char *what;
    size_t at; /* of a double in weft_cluster, or in weft_advise_options */
    bool option, more;
} trouble;

#define OPTION(words, member, is_more)                                                   \
    { words, offsetof(weft_advise_options, member), true, is_more }
#define FACT(words, member, is_more)                                                     \
    { words, offsetof(weft_cluster, member), false, is_more }
static const trouble troubles[] = {
    OPTION("rarer failures", failure_s, true),
    OPTION("shorter restarts", restart_s, false),
    OPTION("shorter saving", save_s, false),
    OPTION("fewer busy hours", busy_s, false),
    OPTION("more of the wire in them", busy_share, true),
    FACT("a faster wire", wire.bandwidth_Bps, true),
    FACT("less latency", wire.latency_s, false),
    FACT("faster nodes", rank_flops, true),
    FACT("shorter stalls", jitter.stall_s,
         false),                                 /* not spread and drift: with less of */
    FACT("a faster way out", wire.up_Bps, true), /* them the fast nodes are slower */
    FACT("fewer losses", wire.loss, false),
    FACT("sooner launched layers", launch_s, false),
};
enum { TROUBLES = sizeof troubles / sizeof troubles[0] };

/* Seconds for the tokens of a step, with all that comes in between. */
static double cost_of(wefti_adviser *a, const weft_candidate *named) {
    weft_candidate c = *named;
    assert_ok(ctx, wefti_advise_predict(ctx, a, &c, 0, &c.prediction));
    double cost_s = wefti_advise_cost(a, &c, c.prediction.mean_step_s);
    assert_true(isfinite(cost_s) && cost_s > 0);
    return cost_s;
}

static void draw_options(int i, weft_advise_options *o) {
    *o = (weft_advise_options){.struct_size = sizeof(weft_advise_options),
                               .steps = PLAYED,
                               .roll_back = draw(i, 40) < 0.5};
    if (draw(i, 41) < 0.8) o->failure_s = pow(10, 3 + 5 * draw(i, 42));
    o->restart_s = 600 * draw(i, 43);
    o->save_s = draw(i, 44) < 0.3 ? 0 : 60 * draw(i, 45);
    if (draw(i, 46) < 0.5) o->busy_s = 80000 * draw(i, 47);
    o->busy_share = 0.02 + 0.9 * draw(i, 48);
}

/* One machine slower, with a slower interface and a slower way out. */
static void differ(int i, weft_cluster *facts) {
    if (draw(i, 50) < 0.5) return;
    assert_ok(ctx, weft_cluster_resize(ctx, facts, WEFT_CLUSTER_MACHINES, 1));
    facts->machines[0] = (weft_machine){
        .node = (int64_t)((double)facts->nodes * draw(i, 51)),
        .rank_flops = facts->rank_flops * (0.3 + 0.7 * draw(i, 52)),
        .bandwidth_Bps = facts->wire.bandwidth_Bps * (0.2 + 0.8 * draw(i, 53))};
}

/* busy_share is at most 1, as the program takes it. */
static void better(const trouble *t, void *in, double more) {
    double *fact = (double *)(void *)((char *)in + t->at);
    *fact = t->more ? *fact * more : *fact / more;
    if (t->option && t->at == offsetof(weft_advise_options, busy_share))
        *fact = fmin(*fact, 1);
}

static void try_costs(int i, wefti_adviser *a, const weft_cluster *facts,
                      const char *framework) {
    const char *kind = kinds[i % KINDS];
    weft_candidate c = {
        .nodes = facts->nodes, .ranks_per_node = 1, .sites = 1, .steps = 1};
    weft_advise_options options = {.struct_size = sizeof options};
    double more = 1.02 + 2 * draw(i, 49);
    snprintf(c.settings, sizeof c.settings, "mesh.nodes=%lld %s", (long long)facts->nodes,
             kind);
    snprintf(c.framework, sizeof c.framework, "%s", framework);
    draw_options(i, &options);
    a->options = options;
    a->cluster = *facts;
    double before_s = cost_of(a, &c);
    for (int n = 0; n < TROUBLES; n++) {
        a->options = options;
        a->cluster = *facts;
        better(&troubles[n], troubles[n].option ? (void *)&a->options : &a->cluster,
               more);
        double after_s = cost_of(a, &c);
        n_costs_tried++;
        if (after_s > (1 + rounding) * before_s)
            fail_msg("cluster %d, %s %s: %.9g s to a goal, and %.9g s with %s", i, kind,
                     framework, before_s, after_s, troubles[n].what);
    }
    if (facts->n_machines == 0) return;
    weft_machine faster = facts->machines[0];
    faster.rank_flops *= more;
    faster.bandwidth_Bps *= more;
    a->options = options;
    a->cluster = *facts;
    a->cluster.machines = &faster;
    n_machines_tried++;
    assert_true(cost_of(a, &c) <= (1 + rounding) * before_s);
}

/* Each cluster with one of the presets in turn, every third one with another framework besides;
 * a random number of steps between checkpoints. */
TEST_IN(begin, end, a_goal_is_not_further_with_less_trouble) {
    static const char *const frameworks[] = {"ddp", "fsdp", "zero1", "ddp-after"};
    for (int i = 0; i < CLUSTERS; i++) {
        int64_t nodes = 2 + (int64_t)(7 * draw(i, 1));
        weft_config *run = make_run(i, nodes, 6);
        weft_cluster *facts = make_facts(i, nodes);
        facts->jitter.drift = 0.1 * draw(i, 54);
        if (draw(i, 55) < 0.5) run->run.save_every = 1 + (int64_t)(500 * draw(i, 56));
        if (draw(i, 57) < 0.5) facts->launch_s = 1e-3 * draw(i, 58);
        differ(i, facts);
        wefti_adviser a = {.ctx = ctx, .run = run};
        try_costs(i, &a, facts, "");
        if (i % 3 == 0) try_costs(i, &a, facts, frameworks[i / 3 % 4]);
        weft_cluster_destroy(ctx, facts);
        weft_config_destroy(ctx, run);
    }
    assert_int_equal(n_costs_tried, (int64_t)(CLUSTERS + (CLUSTERS + 2) / 3) * TROUBLES);
    assert_true(n_machines_tried > 0);
}

static void try_cluster(int i) {
    int64_t nodes = 2 + (int64_t)(7 * draw(i, 1));
    weft_config *run = make_run(i, nodes, 6);
    weft_cluster *facts = make_facts(i, nodes);
    wefti_adviser a = {.ctx = ctx, .run = run, .options = {.steps = PLAYED}};
    for (int k = 0; k < KINDS; k++) try_kind(&a, facts, i, kinds[k]);
    weft_cluster_destroy(ctx, facts);
    weft_config_destroy(ctx, run);
}

TEST_IN(begin, end, a_better_cluster_is_not_slower) {
    for (int i = 0; i < CLUSTERS; i++) try_cluster(i);
    assert_int_equal(n_tried, (int64_t)CLUSTERS * KINDS * CHANGES);
}
