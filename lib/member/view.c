/* SPDX-License-Identifier: MIT */
/* Views: tables of fixed size, allocated once, and queries on them.
 *
 *     chain(v) = hash(chain(v - 1), contents of v)
 *
 * so two views with the same chain have the same past. */
#include "member/view.h"

#include <string.h>

#include "base/assert.h"
#include "base/memory.h"

int wefti_view_max_departed(const wefti_member_limits *limits) {
    return limits->max_nodes * limits->window;
}

static int64_t holders_of_one(const wefti_member_limits *limits) {
    return (int64_t)limits->window * limits->rounds * limits->parts;
}

weft_status wefti_view_init(weft_ctx *ctx, const wefti_member_limits *limits,
                            wefti_view *view) {
    int max_departed = wefti_view_max_departed(limits);
    *view = (wefti_view){0};
    WEFT_TRY(wefti_alloc_n(ctx, limits->max_nodes, sizeof *view->nodes, "a view's nodes",
                           &view->nodes));
    WEFT_TRY(wefti_alloc_n(ctx, max_departed, sizeof *view->departed,
                           "a view's departed nodes", &view->departed));
    WEFT_TRY(wefti_alloc_n(ctx, max_departed * holders_of_one(limits),
                           sizeof *view->holders, "a view's cut", &view->holders));
    WEFT_TRY(wefti_alloc_n(ctx, limits->window, sizeof *view->rosters, "a view's rosters",
                           &view->rosters));
    view->max_rosters = limits->window;
    for (int k = 0; k < limits->window; k++)
        WEFT_TRY(wefti_alloc_n(ctx, limits->max_nodes, sizeof(wefti_view_node),
                               "a roster", &view->rosters[k].nodes));
    return WEFT_OK;
}

void wefti_view_fini(weft_ctx *ctx, wefti_view *view) {
    WEFTI_FREE(ctx, view->nodes, view->departed, view->holders);
    for (int k = 0; view->rosters && k < view->max_rosters; k++)
        wefti_free(ctx, view->rosters[k].nodes);
    wefti_free(ctx, view->rosters);
    *view = (wefti_view){0};
}

void wefti_view_copy(const wefti_member_limits *limits, const wefti_view *from,
                     wefti_view *to) {
    wefti_view tables = *to;
    *to = *from;
    to->nodes = tables.nodes;
    to->departed = tables.departed;
    to->holders = tables.holders;
    to->rosters = tables.rosters;
    to->max_rosters = tables.max_rosters;
    WEFTI_ASSERT(from->n_nodes <= limits->max_nodes &&
                 from->n_rosters <= to->max_rosters);
    WEFTI_ASSERT(from->n_departed <= wefti_view_max_departed(limits));
    memcpy(to->nodes, from->nodes, (size_t)from->n_nodes * sizeof *to->nodes);
    memcpy(to->departed, from->departed, (size_t)from->n_departed * sizeof *to->departed);
    memcpy(to->holders, from->holders,
           (size_t)(from->n_departed * holders_of_one(limits)) * sizeof *to->holders);
    for (int k = 0; k < from->n_rosters; k++)
        wefti_roster_copy(&from->rosters[k], &to->rosters[k]);
}

wefti_roster wefti_view_roster(const wefti_view *view) {
    return (wefti_roster){.number = view->number,
                          .first_step = view->first_step,
                          .n_nodes = view->n_nodes,
                          .nodes = view->nodes};
}

void wefti_roster_copy(const wefti_roster *from, wefti_roster *to) {
    wefti_roster tables = *to;
    *to = *from;
    to->nodes = tables.nodes;
    memcpy(to->nodes, from->nodes, (size_t)from->n_nodes * sizeof *to->nodes);
}

bool wefti_view_is_of_two(const wefti_view *view, int unit) {
    return view->n_nodes <= 2 * (unit > 1 ? unit : 1);
}

int wefti_view_find(const wefti_view *view, wefti_node_id id) {
    for (int i = 0; i < view->n_nodes; i++)
        if (wefti_node_is(view->nodes[i].id, id)) return i;
    return -1;
}

int wefti_view_find_departed(const wefti_view *view, wefti_node_id id) {
    for (int d = 0; d < view->n_departed; d++)
        if (wefti_node_is(view->departed[d].id, id)) return d;
    return -1;
}

uint16_t *wefti_view_holder(const wefti_member_limits *limits, const wefti_view *view,
                            int d, int s, int round, int part) {
    WEFTI_ASSERT(d >= 0 && d < wefti_view_max_departed(limits));
    WEFTI_ASSERT(s >= 0 && s < limits->window && round >= 0 && round < limits->rounds);
    WEFTI_ASSERT(part >= 0 && part < limits->parts);
    int64_t place = ((int64_t)d * limits->window + s) * limits->rounds + round;
    return &view->holders[place * limits->parts + part];
}

/* Mixes one number into a hash, as splitmix64 does. */
uint64_t wefti_view_mix(uint64_t hash, uint64_t x) {
    hash = (hash ^ x) + 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
    return hash ^ hash >> 31;
}

static uint64_t mix_departed(const wefti_member_limits *limits, const wefti_view *view,
                             int d, uint64_t hash) {
    const wefti_departed *gone = &view->departed[d];
    hash = wefti_view_mix(wefti_view_mix(hash, gone->id.key), gone->id.incarnation);
    hash = wefti_view_mix(hash, gone->counted);
    for (int s = 0; s < view->cut_steps; s++)
        for (int r = 0; r < limits->rounds; r++)
            for (int p = 0; p < limits->parts; p++)
                hash = wefti_view_mix(hash, *wefti_view_holder(limits, view, d, s, r, p));
    return hash;
}

static uint64_t mix_roster(const wefti_roster *r, uint64_t hash) {
    hash = wefti_view_mix(wefti_view_mix(hash, (uint64_t)r->number),
                          (uint64_t)r->first_step);
    hash = wefti_view_mix(hash, (uint64_t)r->n_nodes);
    for (int i = 0; i < r->n_nodes; i++) {
        const wefti_view_node *node = &r->nodes[i];
        hash = wefti_view_mix(hash, node->id.key);
        hash = wefti_view_mix(hash, node->id.incarnation);
        hash = wefti_view_mix(hash, (uint64_t)node->first_step);
    }
    return hash;
}

uint64_t wefti_view_hash(const wefti_member_limits *limits, const wefti_view *view) {
    wefti_roster own = wefti_view_roster(view);
    uint64_t hash = mix_roster(&own,
                               wefti_view_mix(view->parent, (uint64_t)view->cut_low));
    for (int d = 0; d < view->n_departed; d++) hash = mix_departed(limits, view, d, hash);
    for (int k = 0; k < view->n_rosters; k++) hash = mix_roster(&view->rosters[k], hash);
    return hash ? hash : 1;
}
