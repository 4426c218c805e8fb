/* SPDX-License-Identifier: MIT */
/* Machines that differ. A candidate with n nodes has the n fastest ones,
 *
 *     machines of the file, and the others  ->  sorted by decreasing compute rate, then rate
 *     of the interface  ->  the first n of them, numbered from 0
 *
 * of those that have room for it, where these are enough: a fast machine with little memory does
 * not keep two others from a model that fits them.
 *
 * Every rank has the same number of sequences, so the slowest machine determines the
 * step, unless they are distributed by speed: then machine i, of rate v_i, gets u_i of
 * all U sequences, at least one, such that max u_i / v_i is minimal. The players support
 * only equal shares, so a machine with another share is passed to them with the rate
 *
 *     v_i (U / n) / u_i
 *
 * with which the equal share U / n takes the same time.
 *
 * A machine without room for what the others take makes room as weft train does: activations
 * computed twice, smaller passes, or both (engine/train/passroom.c). Twice costs it a third of its
 * rate, each pass more its starts (`launch`), where these are known. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory.h"
#include "base/text.h"
#include "planner/advise.h"
#include "planner/framework.h"
#include "replicate/replicator.h"
#include "simulate/forecast.h"

/* ---- sorting ---- */

/* A machine and the rates by which it is sorted. */
typedef struct ranked {
    weft_machine machine;
    double flops, wire_Bps;
} ranked;

static int falling(double x, double y) { return (x < y) - (x > y); }

static int by_falling_speed(const void *x, const void *y) {
    const ranked *a = x, *b = y;
    int order = falling(a->flops, b->flops);
    if (order == 0) order = falling(a->wire_Bps, b->wire_Bps);
    if (order != 0) return order;
    return (a->machine.node > b->machine.node) - (a->machine.node < b->machine.node);
}

double wefti_machines_way_out(const weft_link_facts *wire, const weft_machine *m) {
    return m->up_Bps > 0          ? m->up_Bps
           : m->bandwidth_Bps > 0 ? m->bandwidth_Bps
           : wire->up_Bps > 0     ? wire->up_Bps
                                  : wire->bandwidth_Bps;
}

double wefti_machines_wire(const weft_link_facts *wire, const weft_machine *m) {
    double in_Bps = m->bandwidth_Bps > 0 ? m->bandwidth_Bps : wire->bandwidth_Bps;
    return fmin(in_Bps, wefti_machines_way_out(wire, m));
}

/* Computing and memory that are not given for a machine are those of all machines. For its
 * interface nothing is filled in: 0 means "as the others", also when other rates are tried. */
static ranked rank_machine(const weft_cluster *c, const weft_machine *given) {
    weft_machine m = *given;
    if (m.rank_flops <= 0) m.rank_flops = c->rank_flops;
    if (m.memory_bytes <= 0) m.memory_bytes = c->memory_bytes;
    return (ranked){m, m.rank_flops, wefti_machines_wire(&c->wire, &m)};
}

static int by_falling_number(const void *x, const void *y) {
    const int64_t *a = x, *b = y;
    return (*a < *b) - (*a > *b);
}

/* Those with fewer ranks are slower and have less memory, so this is the order of the machines. */
weft_status wefti_advise_ranks(wefti_adviser *a) {
    weft_advice *advice = a->advice;
    int64_t n = a->options.ranks ? a->cluster.nodes : 0;
    if (n == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(a->ctx, n, sizeof *advice->ranks, "ranks", &advice->ranks));
    memcpy(advice->ranks, a->options.ranks, (size_t)n * sizeof *advice->ranks);
    qsort(advice->ranks, (size_t)n, sizeof *advice->ranks, by_falling_number);
    advice->n_ranks = n;
    return WEFT_OK;
}

int64_t wefti_advice_ranks(const weft_advice *advice, const weft_candidate *c) {
    int64_t all = 0;
    if (advice->n_ranks < c->nodes) return c->nodes * c->ranks_per_node;
    for (int64_t i = 0; i < c->nodes; i++) all += advice->ranks[i];
    return all;
}

double wefti_advice_watt_hours(const weft_advice *advice, const weft_candidate *c) {
    double whole = (double)wefti_advice_ranks(advice, c) / (double)c->ranks_per_node;
    return advice->node_watts * whole * c->hours;
}

weft_status wefti_machines_sort(wefti_adviser *a) {
    const weft_cluster *c = &a->cluster;
    ranked *all;
    if (c->n_machines == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(a->ctx, c->nodes, sizeof *all, "machines", &all));
    for (int64_t i = 0; i < c->nodes; i++)
        all[i] = rank_machine(c, &(weft_machine){.node = i});
    for (int64_t i = 0; i < c->n_machines; i++)
        if (c->machines[i].node < c->nodes)
            all[c->machines[i].node] = rank_machine(c, &c->machines[i]);
    qsort(all, (size_t)c->nodes, sizeof *all, by_falling_speed);
    weft_status status = wefti_alloc_n(a->ctx, c->nodes, sizeof *a->machines, "machines",
                                       &a->machines);
    for (int64_t i = 0; i < c->nodes && status == WEFT_OK; i++)
        a->machines[i] = all[i].machine;
    wefti_free(a->ctx, all);
    return status;
}

void wefti_machines_drop(wefti_adviser *a) {
    wefti_free(a->ctx, a->machines);
    a->machines = NULL;
}

/* ---- which ones ---- */

static bool has_memory(const weft_machine *m, double bytes) {
    return m->memory_bytes <= 0 || bytes <= m->memory_bytes; /* 0: not known */
}

/* Machine i as a candidate is predicted on it, each with as many ranks as the one with most: fewer
 * real ranks hold more each of what those of a node, or all, share; of whole copies as much. */
static weft_machine seen_by(const wefti_adviser *a, const weft_candidate *c, int64_t i) {
    weft_machine m = a->machines[i];
    if (!a->options.ranks || c->shards == 1) return m;
    const wefti_framework *f = wefti_framework_find(c->framework);
    double S = (double)a->cluster.ranks_per_node, n = (double)c->nodes;
    m.memory_bytes *= f && !f->in_node
                          ? (double)wefti_advice_ranks(a->advice, c) / (n * S)
                          : (double)a->options.ranks[m.node] / S;
    return m;
}

/* Whether a candidate has enough machines with room for `bytes`. */
static bool are_enough(const wefti_adviser *a, const weft_candidate *c, double bytes) {
    int64_t n = 0;
    for (int64_t i = 0; i < a->cluster.nodes; i++) {
        weft_machine m = seen_by(a, c, i);
        n += has_memory(&m, bytes);
    }
    return n >= c->nodes;
}

/* The machines of a candidate, [nodes] of the caller. */
static void pick(const wefti_adviser *a, const weft_candidate *c, double bytes,
                 weft_machine *out) {
    bool some = are_enough(a, c, bytes);
    for (int64_t n = 0, i = 0; n < c->nodes; i++) {
        out[n] = seen_by(a, c, i);
        n += !some || has_memory(&out[n], bytes);
    }
}

static int by_number(const void *x, const void *y) {
    const weft_machine *a = x, *b = y;
    return (a->node > b->node) - (a->node < b->node);
}

void wefti_machines_number(const wefti_adviser *a, const weft_candidate *c, bool as_run,
                           weft_machine *out) {
    pick(a, c, (double)c->prediction.memory_bytes, out);
    if (as_run) qsort(out, (size_t)c->nodes, sizeof *out, by_number);
    for (int64_t i = 0; i < c->nodes; i++) out[i].node = i;
}

double wefti_machines_memory(const wefti_adviser *a, const weft_candidate *c,
                             double bytes) {
    double least = a->cluster.memory_bytes;
    bool some = a->machines && are_enough(a, c, bytes);
    for (int64_t n = 0, i = 0; a->machines && n < c->nodes; i++) {
        weft_machine m = seen_by(a, c, i);
        if (some && !has_memory(&m, bytes)) continue;
        if (n++ == 0 || m.memory_bytes < least) least = m.memory_bytes;
    }
    return least;
}

bool wefti_machines_have_room(const wefti_adviser *a, const weft_candidate *c) {
    double room = wefti_machines_memory(a, c, (double)c->prediction.memory_bytes);
    return room <= 0 || (double)c->prediction.memory_bytes <= room;
}

/* ---- little memory ---- */

/* What a rank takes in each way of making room; passes of B of its rows, the time of a pass's
 * starts over that of computing a step, times the rate of a machine; twice takes so many times as
 * long. bytes[0] 0: not predicted. */
typedef struct needs {
    double bytes[WEFTI_WAYS], start, slower;
    int64_t B, rows;
} needs;

static weft_status count_needs(weft_ctx *ctx, const wefti_job *job, double launch_s,
                               needs *out) {
    double all = 0, again = 0;
    for (int s = 0; s < job->S; s++) {
        wefti_arrangement *of;
        WEFT_TRY(wefti_arrangement_create(ctx, job, s, &of));
        const wefti_footprint f = wefti_job_footprint(job, of);
        wefti_arrangement_destroy(ctx, of);
        for (int way = 0; way < WEFTI_WAYS; way++)
            out->bytes[way] = fmax(out->bytes[way],
                                   (double)wefti_footprint_way(job, &f, job->B, way));
    }
    for (int u = 0; u < job->model->n_units; u++) {
        double flop = job->model->ops->unit_flop(job->model, u, job->T);
        all += flop;
        again += u < job->model->n_units - 1 ? flop / 3 : 0;
    }
    out->slower = job->run.recomputes ? 1 : 1 + again / all;
    out->B = job->B;
    out->rows = job->batch.per_rank;
    out->start = 3 * launch_s * job->model->n_units /
                 (all * (double)(job->batch.per_rank * job->T));
    return WEFT_OK;
}

static weft_status needs_of(weft_ctx *ctx, const wefti_adviser *a,
                            const weft_candidate *c, const weft_config *config,
                            needs *out) {
    wefti_planned_job planned;
    *out = (needs){.slower = 1};
    if (!a->machines || a->cluster.rank_flops <= 0 || c->framework[0] ||
        a->options.precision != WEFT_PRECISION_F32 || a->options.trainable > 0)
        return WEFT_OK;
    weft_status status = wefti_forecast_plan(ctx, config, &a->cluster, 0, &planned);
    if (status == WEFT_OK)
        status = count_needs(ctx, planned.job, a->cluster.launch_s, out);
    wefti_forecast_drop(ctx, &planned);
    return status;
}

/* How a machine makes room; WEFTI_WAYS: it has not even enough for the last way. */
static int way_of(const weft_machine *m, const needs *n) {
    int way = 0;
    while (way < WEFTI_WAYS && !has_memory(m, n->bytes[way])) way++;
    return way;
}

/* How many times as long a machine computes that makes room so. */
static double slower(const weft_machine *m, const needs *n, int way) {
    double times = way & WEFTI_TWICE ? n->slower : 1;
    int64_t B = n->B;
    WEFTI_ASSERT(way < WEFTI_WAYS);
    double each = (n->bytes[way & WEFTI_TWICE] - n->bytes[way]) / fmax(1, (double)B - 1);
    if (!(way & WEFTI_SMALLER)) return times;
    do { /* as weft train does */
        for (B = (B + 1) / 2; n->rows % B != 0;) B--;
    } while (B > 1 && !has_memory(m, n->bytes[way] + each * (double)(B - 1)));
    int64_t more = (n->rows + B - 1) / B - (n->rows + n->B - 1) / n->B;
    return times * (1 + n->start * m->rank_flops * (double)more);
}

weft_status wefti_machines_squeeze(weft_ctx *ctx, const wefti_adviser *a,
                                   const weft_candidate *c, const weft_config *config,
                                   double *bytes) {
    needs n;
    bool roomy = false;
    WEFT_TRY(needs_of(ctx, a, c, config, &n));
    for (int64_t i = 0; i < a->cluster.nodes && n.bytes[0] > 0; i++) {
        weft_machine m = seen_by(a, c, i);
        roomy = roomy || has_memory(&m, n.bytes[0]);
    }
    for (int way = WEFTI_WAYS - 1; way > 0 && roomy; way--) /* the first one stays */
        if (wefti_machines_memory(a, c, n.bytes[way]) >= n.bytes[way])
            *bytes = n.bytes[way];
    return WEFT_OK;
}

/* Slows those that make room; machines of one memory are not asked. */
static weft_status slow_down(weft_ctx *ctx, const wefti_adviser *a,
                             const weft_candidate *c, const weft_config *config,
                             weft_machine *own) {
    needs n;
    bool differ = false;
    for (int64_t i = 1; i < c->nodes; i++)
        differ = differ || own[i].memory_bytes != own[0].memory_bytes;
    if (!differ || !config || c->prediction.memory_bytes == 0) return WEFT_OK;
    WEFT_TRY(needs_of(ctx, a, c, config, &n));
    for (int64_t i = 0; i < c->nodes && n.bytes[0] > 0; i++)
        if (way_of(&own[i], &n) < WEFTI_WAYS)
            own[i].rank_flops /= slower(&own[i], &n, way_of(&own[i], &n));
    return WEFT_OK;
}

weft_status wefti_machines_tight(weft_ctx *ctx, const wefti_adviser *a,
                                 const weft_candidate *c, const weft_config *config,
                                 wefti_tight *out) {
    needs n;
    weft_machine *own;
    *out = (wefti_tight){.node = -1};
    WEFT_TRY(needs_of(ctx, a, c, config, &n));
    WEFT_TRY(wefti_alloc_n(ctx, c->nodes, sizeof *own, "machines", &own));
    pick(a, c, (double)c->prediction.memory_bytes, own);
    for (int64_t i = 0; i < c->nodes && n.bytes[0] > 0; i++) {
        int way = way_of(&own[i], &n);
        if (way == 0 || way == WEFTI_WAYS) continue;
        double longer = slower(&own[i], &n, way);
        *out = (wefti_tight){.node = own[i].node,
                             .needs = n.bytes[0],
                             .has = own[i].memory_bytes,
                             .slower = longer,
                             .twice = way & WEFTI_TWICE,
                             .smaller = way & WEFTI_SMALLER,
                             .less = has_memory(&own[i], n.bytes[WEFTI_SMALLER]) &&
                                     slower(&own[i], &n, WEFTI_SMALLER) < longer};
    }
    wefti_free(ctx, own);
    return WEFT_OK;
}

/* ---- shares ---- */

/* With more machines than this, shares need not be whole numbers. */
enum { MOST_SHARED = 1024 };

/* The machine for which one more sequence (or, with `less`, one less) helps most. */
static int64_t next_share(const weft_machine *m, const double *share, int64_t n,
                          bool less) {
    int64_t best = -1;
    double best_s = 0;
    for (int64_t i = 0; i < n; i++) {
        double seconds = (share[i] + (less ? 0 : 1)) / m[i].rank_flops;
        if (less && share[i] <= 1) continue;
        if (best >= 0 && (less ? seconds <= best_s : seconds >= best_s)) continue;
        best = i;
        best_s = seconds;
    }
    return best;
}

static void share_out(const weft_machine *m, int64_t n, double all, double *share) {
    double speed = 0, given = 0;
    for (int64_t i = 0; i < n; i++) speed += m[i].rank_flops;
    for (int64_t i = 0; i < n; i++) {
        share[i] = all * m[i].rank_flops / speed;
        if (n <= MOST_SHARED) share[i] = fmax(1, floor(share[i]));
        given += share[i];
    }
    for (; n <= MOST_SHARED && given + 0.5 < all; given++)
        share[next_share(m, share, n, false)]++;
    for (; n <= MOST_SHARED && given > all + 0.5; given--)
        share[next_share(m, share, n, true)]--;
}

static weft_status share_by_speed(weft_ctx *ctx, int64_t rows, weft_cluster *c) {
    double *share, n = (double)c->n_machines;
    WEFT_TRY(wefti_alloc_n(ctx, c->n_machines, sizeof *share, "shares", &share));
    share_out(c->machines, c->n_machines, n * (double)rows, share);
    for (int64_t i = 0; i < c->n_machines; i++)
        c->machines[i].rank_flops *= (double)rows / share[i];
    wefti_free(ctx, share);
    return WEFT_OK;
}

weft_status wefti_machines_shares(weft_ctx *ctx, const wefti_adviser *a,
                                  const weft_candidate *c, const weft_config *config,
                                  int64_t **rows) {
    int64_t nodes = c->nodes;
    int64_t all = wefti_advise_tokens(a, nodes) / wefti_advise_length(a) /
                  a->cluster.ranks_per_node;
    double *share = NULL;
    weft_machine *mine = NULL;
    *rows = NULL;
    if (!a->machines || a->cluster.rank_flops <= 0 || all < nodes) return WEFT_OK;
    weft_status status = wefti_alloc_n(ctx, nodes, sizeof *share, "shares", &share);
    if (status == WEFT_OK)
        status = wefti_alloc_n(ctx, nodes, sizeof *mine, "machines", &mine);
    if (status == WEFT_OK)
        status = wefti_alloc_n(ctx, a->cluster.nodes, sizeof **rows, "shares", rows);
    if (status == WEFT_OK) {
        pick(a, c, (double)c->prediction.memory_bytes, mine);
        status = slow_down(ctx, a, c, config, mine);
    }
    if (status == WEFT_OK) share_out(mine, nodes, (double)all, share);
    for (int64_t i = 0; i < nodes && status == WEFT_OK; i++)
        (*rows)[mine[i].node] = llround(share[i]);
    wefti_free(ctx, share);
    wefti_free(ctx, mine);
    return status;
}

weft_status wefti_machines_take(weft_ctx *ctx, const wefti_adviser *a,
                                const weft_candidate *c, const weft_config *config,
                                int64_t rows, weft_cluster *cluster) {
    weft_machine *own;
    int64_t nodes = c->nodes;
    if (!a->machines) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, nodes, sizeof *own, "machines", &own));
    wefti_machines_number(a, c, config->node_values[0], own);
    cluster->machines = own;
    cluster->n_machines = nodes;
    WEFT_TRY(slow_down(ctx, a, c, config, own));
    bool shared = a->options.shares && rows > 0;
    if (shared && a->cluster.rank_flops > 0) WEFT_TRY(share_by_speed(ctx, rows, cluster));
    return WEFT_OK;
}
