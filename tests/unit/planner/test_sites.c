/* SPDX-License-Identifier: MIT */
/* Several sites: with a better link, machine or memory the best of all candidates is never
 * slower to a loss. */
#include "room.h"

#include <math.h>

#include "base/memory.h"
#include "planner/advise.h"
#include "unit/planner/randomruns.h"

enum { SITED = UNDER_SANITIZER ? 3 : 30, PLAYED = 4 };

/* Of numbers in double precision, added in another order. */
static const double rounding = 1e-9;

static weft_cluster *make_facts(int i, int64_t sites, int64_t nodes) {
    weft_cluster *facts;
    assert_ok(ctx, weft_cluster_create(ctx, &facts));
    facts->nodes = nodes;
    facts->sites = sites;
    facts->rank_flops = pow(10, 9 + 4 * draw(i, 2));
    facts->memory_Bps = 1e10;
    facts->memory_bytes = pow(10, 5.5 + 2 * draw(i, 6));
    facts->wire.bandwidth_Bps = pow(10, 5 + 5 * draw(i, 3));
    facts->wire.latency_s = pow(10, -5 + 3 * draw(i, 4));
    facts->site = facts->wire;
    facts->site.bandwidth_Bps *= 0.02 + 0.98 * draw(i, 7);
    facts->site.latency_s *= 1 + 20 * draw(i, 8);
    return facts;
}

static const change sited[] = {
    {"a faster wire", offsetof(weft_cluster, wire.bandwidth_Bps), true},
    {"less latency", offsetof(weft_cluster, wire.latency_s), false},
    {"a faster wire between sites", offsetof(weft_cluster, site.bandwidth_Bps), true},
    {"less latency between sites", offsetof(weft_cluster, site.latency_s), false},
    {"faster nodes", offsetof(weft_cluster, rank_flops), true},
    {"more memory", offsetof(weft_cluster, memory_bytes), true},
    {"faster memory", offsetof(weft_cluster, memory_Bps), true},
};
enum { SITED_CHANGES = sizeof sited / sizeof sited[0] };

/* The least time to a loss of all that fit and whose learning is known; `fit`: the plan finds what
 * has room. */
static double best_in(const weft_config *run, const weft_cluster *facts, char *name,
                      bool fit) {
    weft_advice advice = {.n_candidates = 0};
    wefti_adviser a = {.ctx = ctx,
                       .run = run,
                       .options = {.steps = PLAYED, .find_fit = fit},
                       .advice = &advice};
    double best = INFINITY;
    assert_ok(ctx, wefti_advise_candidates(&a, facts));
    for (int64_t i = 0; i < advice.n_candidates; i++) {
        const weft_candidate *c = &advice.candidates[i];
        if (!c->usable || !c->learning.measured || c->cost_s >= best) continue;
        best = c->cost_s;
        snprintf(name, 64, "%s on %lld", c->name, (long long)c->nodes);
    }
    wefti_machines_drop(&a);
    wefti_free(ctx, advice.candidates);
    wefti_free(ctx, advice.left_out);
    return best;
}

static double best_of(const weft_config *run, const weft_cluster *facts, char *name) {
    return best_in(run, facts, name, false);
}

static void try_sites(int i) {
    int64_t sites = 2 + (int64_t)(2 * draw(i, 9));
    int64_t nodes = sites * (1 + (int64_t)(3 * draw(i, 10)));
    weft_config *run = make_run(i, nodes, 2);
    weft_cluster *facts = make_facts(i, sites, nodes);
    char before[64] = "", after[64] = "";
    double least = best_of(run, facts, before);
    for (int n = 0; n < SITED_CHANGES; n++) {
        double *fact = (double *)(void *)((char *)facts + sited[n].at), was = *fact;
        double more = 1.02 + draw(i, 11);
        *fact = sited[n].more ? was * more : was / more;
        double now = best_of(run, facts, after);
        if (now > (1 + rounding) * least)
            fail_msg("cluster %d: %.9g s to a loss by %s, and %.9g s by %s with %s", i,
                     least, before, now, after, sited[n].what);
        *fact = was;
    }
    weft_cluster_destroy(ctx, facts);
    weft_config_destroy(ctx, run);
}

TEST_IN(begin, end, the_best_of_several_sites_is_not_slower_either) {
    for (int i = 0; i < SITED; i++) try_sites(i);
}

/* A link between sites that does not bind is no link: whoever describes one site as two of half
 * its size hears of nothing slower. */
TEST_IN(begin, end, sites_without_a_slower_link_are_one_site) {
    for (int k = 0; k <= SITED / 3; k++) {
        int i = k < SITED / 3 ? k : 19; /* whose best is full synchronization */
        int64_t nodes = 2 * (1 + (int64_t)(3 * draw(i, 10)));
        weft_config *run = make_run(i, nodes, 2);
        weft_cluster *facts = make_facts(i, 2, nodes);
        char one[64] = "", two[64] = "";
        facts->site = facts->wire;
        facts->site.bandwidth_Bps *= (double)nodes / 2;
        double as_two = best_of(run, facts, two);
        facts->sites = 1;
        double as_one = best_of(run, facts, one);
        if (as_two > (1 + rounding) * as_one)
            fail_msg("cluster %d of %lld nodes: %.9g s to a loss by %s, as two sites "
                     "%.9g s by %s",
                     i, (long long)nodes, as_one, one, as_two, two);
        weft_cluster_destroy(ctx, facts);
        weft_config_destroy(ctx, run);
    }
}

/* Where the plan looks for what has room: what needs no recomputing does not make others unusable
 * that need it, a wider precision that has room for one node not those that need a narrower one,
 * and fsdp, once tried, is not left out with more memory. */
TEST_IN(begin, end, more_memory_is_not_slower) {
    static const struct {
        int i;
        int64_t sites, nodes, ranks, batch;
    } cases[] = {{46, 2, 4, 1, 8}, {110, 1, 5, 2, 10}, {27, 2, 2, 1, 2},
                 {74, 2, 4, 1, 4}, {114, 1, 2, 2, 4},  {148, 2, 4, 1, 4},
                 {244, 1, 2, 1, 2}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        int i = cases[k].i;
        weft_config *run = make_run(i, cases[k].batch, 2);
        weft_cluster *facts = make_facts(i, cases[k].sites, cases[k].nodes);
        char before[64] = "", after[64] = "";
        facts->ranks_per_node = cases[k].ranks;
        facts->local.bandwidth_Bps = pow(10, 8 + 3 * draw(i, 21));
        double least = best_in(run, facts, before, true);
        facts->memory_bytes *= 1.02 + draw(i, 11);
        double now = best_in(run, facts, after, true);
        if (now > (1 + rounding) * least)
            fail_msg("cluster %d: %.9g s to a loss by %s, and %.9g s by %s with more "
                     "memory",
                     i, least, before, now, after);
        weft_cluster_destroy(ctx, facts);
        weft_config_destroy(ctx, run);
    }
}

/* A machine of little memory that gets the fastest one does not take another's place. */
TEST_IN(begin, end, a_faster_machine_is_not_slower) {
    enum { CLUSTERS = UNDER_SANITIZER ? 2 : 8 };
    int64_t usable = 0;
    for (int i = 0; i < CLUSTERS; i++) {
        weft_config *run = make_run(i, 4, 2);
        weft_cluster *facts = make_facts(i, 1, 4);
        char before[64] = "", after[64] = "";
        facts->memory_bytes = 3e6;
        assert_ok(ctx, weft_cluster_resize(ctx, facts, WEFT_CLUSTER_MACHINES, 1));
        facts->machines[0] = (weft_machine){
            .node = 3, .rank_flops = 0.9 * facts->rank_flops, .memory_bytes = 1e5};
        double least = best_in(run, facts, before, false);
        facts->machines[0].rank_flops *= 2;
        double now = best_in(run, facts, after, false);
        usable += isfinite(least);
        if (now > (1 + rounding) * least)
            fail_msg("cluster %d: %.9g s to a loss by %s, and %.9g s by %s with a faster "
                     "machine",
                     i, least, before, now, after);
        weft_cluster_destroy(ctx, facts);
        weft_config_destroy(ctx, run);
    }
    assert_int_equal(usable, CLUSTERS);
}
