/* SPDX-License-Identifier: MIT */
/* The public functions: they check the configuration, convert links to costs, and call the kind.
 *
 *     member = node * ranks + rank                nodes * ranks members in all
 *     cost   = latency + copy_bytes / bandwidth   of two nodes: the dearer direction
 *
 * A kind fills in the facts (period, largest numbers of neighbours) when it is created.
 * The neighbours then depend only on (member, step) (neighbours.c). */
#include "base/sized.h"
#include "topology/topology.h"

#include <math.h>

#include "base/memory.h"
#include "base/text.h"

#define WEFTI_KIND(name, summary) &wefti_topology_##name,
const wefti_topology_ops *const wefti_topology_registry[] = {
#include "topology/topologies.def"
    NULL,
};
#undef WEFTI_KIND

#define WEFTI_KIND(name, summary) summary,
const char *const wefti_topology_summaries[] = {
#include "topology/topologies.def"
};
#undef WEFTI_KIND

enum { MAX_KINDS = 32 };

const char *weft_topology_kind(int i, const char **summary) {
    int n = 0;
    while (wefti_topology_registry[n]) n++;
    if (i < 0 || i >= n) return NULL;
    *summary = wefti_topology_summaries[i];
    return wefti_topology_registry[i]->name;
}

static weft_status find_kind(weft_ctx *ctx, const char *kind,
                             const wefti_topology_ops **out) {
    const char *names[MAX_KINDS];
    size_t n = 0;
    for (; wefti_topology_registry[n] && n < MAX_KINDS; n++) {
        names[n] = wefti_topology_registry[n]->name;
        *out = wefti_topology_registry[n];
        if (wefti_is(names[n], kind)) return WEFT_OK;
    }
    const char *guess = wefti_nearest(kind, names, n);
    if (guess)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "unknown topology '%.60s' (did you mean '%s'?)", kind,
                             guess);
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "unknown topology '%.60s', see weft list topologies", kind);
}

static weft_status check(weft_ctx *ctx, const weft_topology_config *c) {
    if (c->nodes < 1 || c->ranks < 1)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "found %lld nodes with %lld ranks each, expected at least 1 of both",
            (long long)c->nodes, (long long)c->ranks);
    if (c->nodes > WEFT_TOPOLOGY_MEMBERS || c->ranks > WEFT_TOPOLOGY_MEMBERS / c->nodes)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "found %lld nodes with %lld ranks each, expected at most %d members in all",
            (long long)c->nodes, (long long)c->ranks, WEFT_TOPOLOGY_MEMBERS);
    if (c->copy_bytes < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a copy has %lld bytes, expected 0 or more",
                             (long long)c->copy_bytes);
    return WEFT_OK;
}

/* ---- costs ---- */

static weft_status check_link(weft_ctx *ctx, const weft_link *link, int64_t N) {
    if (link->from < 0 || link->to < 0 || link->from >= N || link->to >= N)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "a link goes from node %lld to node %lld, expected nodes from 0 to %lld",
            (long long)link->from, (long long)link->to, (long long)N - 1);
    if (link->from == link->to)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a link goes from node %lld to itself",
                             (long long)link->from);
    if (!(link->latency_s >= 0 && isfinite(link->latency_s)) ||
        !(link->bandwidth_Bps > 0))
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "the link from node %lld to node %lld has a latency of %g s and %g bytes per "
            "second, expected 0 or more and more than 0",
            (long long)link->from, (long long)link->to, link->latency_s,
            link->bandwidth_Bps);
    return WEFT_OK;
}

/* The cost of a pair is that of the more expensive direction. If only one direction is
 * listed, it counts for both. */
static weft_status take_links(weft_ctx *ctx, weft_topology *t,
                              const weft_topology_config *c) {
    int64_t N = c->nodes;
    if (c->n_links == 0) return WEFT_OK;
    for (int64_t i = 0; i < c->n_links; i++) WEFT_TRY(check_link(ctx, &c->links[i], N));
    WEFT_TRY(wefti_alloc_n(ctx, N * N, sizeof(double), "the costs of links", &t->cost_s));
    for (int64_t i = 0; i < N * N; i++) t->cost_s[i] = INFINITY;
    for (int64_t i = 0; i < c->n_links; i++) {
        const weft_link *link = &c->links[i];
        double cost = link->latency_s + (double)c->copy_bytes / link->bandwidth_Bps;
        double *there = &t->cost_s[link->from * N + link->to],
               *back = &t->cost_s[link->to * N + link->from];
        if (isinf(*there) || *there < cost) *there = *back = cost;
    }
    return WEFT_OK;
}

/* ---- the object ---- */

static weft_status fill(weft_ctx *ctx, weft_topology *t, const weft_topology_config *c) {
    t->seed = c->seed;
    t->copy_bytes = c->copy_bytes;
    t->facts = (weft_topology_facts){.kind = t->ops->name,
                                     .nodes = c->nodes,
                                     .ranks = c->ranks,
                                     .members = c->nodes * c->ranks,
                                     .period = 1};
    WEFT_TRY(take_links(ctx, t, c));
    return t->ops->create(ctx, t, c);
}

weft_status weft_topology_create(weft_ctx *ctx, const weft_topology_config *config,
                                 weft_topology **out) {
    const wefti_topology_ops *ops = NULL;
    weft_topology *t;
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_topology_config, config);
    WEFT_TRY(find_kind(ctx, config->kind, &ops));
    WEFT_TRY(check(ctx, config));
    WEFT_TRY(wefti_alloc(ctx, sizeof *t, "the topology", &t));
    t->ops = ops;
    WEFTI_TRY_OR(fill(ctx, t, config), weft_topology_destroy(ctx, t));
    *out = t;
    return WEFT_OK;
}

void weft_topology_destroy(weft_ctx *ctx, weft_topology *t) {
    if (!t) return;
    if (t->ops->destroy) t->ops->destroy(ctx, t);
    WEFTI_FREE(ctx, t->cost_s, t);
}

const weft_topology_facts *weft_topology_describe(const weft_topology *t) {
    return &t->facts;
}
