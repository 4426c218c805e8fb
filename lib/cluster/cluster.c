/* SPDX-License-Identifier: MIT */
/* Facts about machines and links: creating (facts that a data sheet does not have are
 * "unknown"), copying, destroying. Reading, writing and setting facts: clusterread.c,
 * clusterwrite.c, clusterset.c, by the table in facts.c.
 *
 * A cluster comes from a file that a probe wrote, from a command line, or from both:
 * later values override earlier ones. Its lists (units, codecs, optimizers, pairs, steps)
 * are separate arrays; each is owned, and grows only through weft_cluster_resize. */
#include <weft/cluster.h>

#include "base/memory.h"
#include "cluster/facts.h"

weft_status weft_cluster_create(weft_ctx *ctx, weft_cluster **out) {
    *out = NULL;
    wefti_cluster *c;
    WEFT_TRY(wefti_alloc(ctx, sizeof *c, "the cluster", &c));
    c->facts.nodes = c->facts.ranks_per_node = c->facts.sites = c->facts.threads = 1;
    c->facts.flows = 1;
    *out = &c->facts;
    return WEFT_OK;
}

void weft_cluster_destroy(weft_ctx *ctx, weft_cluster *c) {
    if (!c) return;
    for (int i = 0; i < WEFT_CLUSTER_LISTS; i++)
        wefti_free(ctx, *wefti_facts_of(c, (weft_cluster_list)i).items);
    wefti_free(ctx, c);
}

/* A wire with less than one byte per second counts as none. */
static const double least_Bps = 1;

void wefti_cluster_slow(weft_cluster *c, double ratio) {
    c->rank_flops /= ratio;
    c->rank_flops_bf16 /= ratio;
    for (int64_t i = 0; i < c->n_machines; i++) c->machines[i].rank_flops /= ratio;
    for (int64_t i = 0; i < c->n_units; i++) {
        c->units[i].forward_s *= ratio;
        c->units[i].backward_s *= ratio;
    }
}

weft_status wefti_cluster_check_sites(weft_ctx *ctx, const weft_cluster *c) {
    if (c->nodes % c->sites == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "nodes is %lld and sites is %lld, expected as many nodes in "
                         "each site, such as %lld nodes",
                         (long long)c->nodes, (long long)c->sites,
                         (long long)((c->nodes / c->sites + 1) * c->sites));
}

weft_status wefti_cluster_check_wires(weft_ctx *ctx, const weft_cluster *c,
                                      int64_t nodes) {
    if (nodes > 1 && c->wire.bandwidth_Bps < least_Bps)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the wire between the %lld nodes is not known, expected "
                             "link, as in --link 1Gbit,50us",
                             (long long)nodes);
    if (c->sites > 1 && nodes > 1 && c->site.bandwidth_Bps < least_Bps)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "the wire between the %lld sites is not known, expected "
                             "site-link, as in --site-link 1Gbit,10ms",
                             (long long)c->sites);
    return WEFT_OK;
}

int64_t weft_cluster_nodes(const weft_cluster *c) { return c->nodes; }

weft_status weft_cluster_resize(weft_ctx *ctx, weft_cluster *c, weft_cluster_list list,
                                int64_t n) {
    if ((int)list < 0 || list >= WEFT_CLUSTER_LISTS || n < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%lld items for list %d, expected 0 or more, and list 0 to "
                             "%d",
                             (long long)n, (int)list, (int)WEFT_CLUSTER_LISTS - 1);
    wefti_fact_items items = wefti_facts_of(c, list);
    if (n > *items.n)
        WEFT_TRY(wefti_grow(ctx, items.items, *items.n, n, items.size, "the cluster"));
    *items.n = n;
    return WEFT_OK;
}
