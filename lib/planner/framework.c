/* SPDX-License-Identifier: MIT */
/* A step of other frameworks, in closed form: two clocks, of computing t and of the
 * exchange e, advance through the units of the model.
 *
 *     ddp, zero1    last micro-batch: after a unit's backward, whenever 25 MB are ready,
 *                   e <- max(e, t) + all-reduce(bucket)
 *     ddp-after     e <- t + all-reduce(all gradients), nothing hides it
 *     zero1         after the optimizer: + all-gather(parameters), nothing hides it
 *     fsdp          before a unit: t <- max(t, gathered), and the next unit's gather begins
 *                   when this one's computing does; after its backward:
 *                   e <- max(e, t) + reduce-scatter(unit)
 *     hsdp          the same inside the node by its own link, and an all-reduce of the
 *                   gradients between nodes
 *     step          max(t, e) + optimizer
 *
 * Collectives of n bytes among N nodes of S ranks, W = N S; wire b, L a hop; in a node
 * b', L'. A ring enters and leaves each interface once:
 *
 *     ring          2 (W-1)/W n / min(b, b') + 2 (W-1)/W (N L + (W-N) L')
 *     tree          2 n / min(b, b') + 2 (log2(N) L + (S-1) L')
 *     hierarchical  2 (S-1)/S (n/b' + S L') + 2 (N-1)/N (n/b + N L)
 *
 * gloo, PyTorch's library for CPUs, as measured over real links (docs/prediction.md): an
 * all-reduce is the ring; a reduce-scatter is an all-reduce of which a part is kept; a gather
 * sends half messages and idles for one of them, so its time is multiplied by 1 + 1/(2 (W-1)). A
 * sharded framework waits for each of them at once (CPUs have no streams), so nothing is hidden.
 *
 * In addition each byte that a rank sends occupies a processor for c seconds,
 * sequentially; the hidden part of that time is lost for computing.
 *
 * All ranks wait for the slowest in every step: the compute time is multiplied by 1 +
 * spread E[max of W normals]. Everything is a sum or a maximum of terms that are
 * monotonic in the facts, so a better cluster is never slower. */
#include "planner/framework.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "simulate/costs.h"
#include "simulate/links.h"

static const double bucket_bytes = 25 * 1024.0 * 1024.0; /* DDP's bucket_cap_mb */

/* shards: optimizer, gradients, parameters; in_node; after */
static const wefti_framework frameworks[] = {
    {"ddp", "whole copies, gradients all-reduced", 0, 0, 0, 0, 0},
    {"ddp-after", "the same in one piece after the backward pass", 0, 0, 0, 0, 1},
    {"zero1", "the optimizer's state sharded over all", 1, 0, 0, 0, 0},
    {"zero2", "and the gradients", 1, 1, 0, 0, 0},
    {"fsdp", "and the parameters, over all ranks", 1, 1, 1, 0, 0},
    {"hsdp", "shards inside a node, gradients all-reduced between nodes", 1, 1, 1, 1, 0},
};
enum { N_FRAMEWORKS = sizeof frameworks / sizeof frameworks[0] };

const wefti_framework *wefti_framework_find(const char *name) {
    if (strcasecmp(name, "fsdp-all") == 0) name = "fsdp";
    for (int i = 0; i < N_FRAMEWORKS; i++)
        if (strcasecmp(frameworks[i].name, name) == 0) return &frameworks[i];
    return NULL;
}

const char *wefti_framework_names(char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < N_FRAMEWORKS && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s",
                                 i == 0                  ? ""
                                 : i == N_FRAMEWORKS - 1 ? " or "
                                                         : ", ",
                                 frameworks[i].name);
    return out;
}

const char *weft_framework_find(const char *name) {
    const wefti_framework *f = wefti_framework_find(name);
    return f ? f->name : NULL;
}

const char *weft_framework_name(int i, const char **doc) {
    if (i < 0 || i >= N_FRAMEWORKS) return NULL;
    if (doc) *doc = frameworks[i].doc;
    return frameworks[i].name;
}

/* ---- collectives ---- */

typedef struct group {
    double nodes, ranks;            /* of each node */
    double wire_s, local_s;         /* per byte */
    double wire_hop_s, local_hop_s; /* latency, including processor time */
    double cpu_s;                   /* of a byte */
    bool gloo;
} group;

/* In a ring and in a tree a rank sends and receives at the same time, so the slower
 * direction determines the time, and of several machines the slowest. */
static double per_byte(const weft_cluster *f, const weft_link_facts *facts,
                       int64_t joined, bool wire) {
    const wefti_link_use use = {.joined = joined,
                                .flows = wire ? f->flows : 1,
                                .streams = 1,
                                .stream_Bps = wire ? f->stream_Bps : 0};
    wefti_link_time link = wefti_link_of(facts, use);
    double slowest = fmax(1, link.up);
    for (int64_t i = 0; i < f->n_machines && wire; i++) {
        wefti_machine_times t = wefti_machine_of(f, &link, &f->machines[i]);
        slowest = fmax(slowest, fmax(t.out, t.in));
    }
    /* incast is only for many senders to one receiver */
    double incast = joined > 2 && facts->incast > 0 ? facts->incast : 1;
    return link.bandwidth_Bps > 0 ? slowest * link.stretch / incast / link.bandwidth_Bps
                                  : 0;
}

/* Every rank waits for the slowest machine. */
static double slowest_machine(const weft_cluster *f) {
    double slowest = f->n_machines > 0 ? 0 : 1;
    const wefti_link_time wire = {.up = 1}; /* of the machines only computing is asked */
    for (int64_t i = 0; i < f->n_machines; i++)
        slowest = fmax(slowest, wefti_machine_of(f, &wire, &f->machines[i]).compute);
    return slowest;
}

static group group_of(const wefti_framework_case *c) {
    const weft_cluster *f = c->cluster;
    const weft_link_facts *wire = f->sites > 1 && c->nodes > f->nodes / f->sites
                                      ? &f->site
                                      : &f->wire;
    group g = {.nodes = (double)c->nodes,
               .ranks = (double)c->ranks_per_node,
               .wire_s = per_byte(f, wire, c->nodes, true),
               .local_s = per_byte(f, &f->local, c->ranks_per_node, false),
               .wire_hop_s = wire->latency_s + wire->jitter_s + 2 * wire->message_s,
               .local_hop_s = f->local.latency_s + 2 * f->local.message_s,
               .cpu_s = f->collective_cpu_s,
               .gloo = c->collective == WEFT_COLLECTIVE_GLOO};
    if (g.local_s <= 0 && f->memory_Bps > 0) g.local_s = 1 / f->memory_Bps;
    return g;
}

static group inside(group g) {
    g.nodes = 1;
    return g;
}

static group between(group g) {
    g.ranks = 1;
    return g;
}

/* Half an all-reduce: an all-gather, or a reduce-scatter, of n bytes in all. */
static double ring_half_s(const group *g, double n) {
    double W = g->nodes * g->ranks, share = (W - 1) / W;
    double slowest = g->nodes > 1 ? g->wire_s : 0;
    if (g->ranks > 1) slowest = fmax(slowest, g->local_s);
    double hops_s = g->nodes > 1
                        ? g->nodes * g->wire_hop_s + (W - g->nodes) * g->local_hop_s
                        : W * g->local_hop_s;
    return W > 1 ? share * (n * (slowest + g->cpu_s) + hops_s) : 0;
}

static double hierarchical_half_s(group g, double n) {
    double N = g.nodes, S = g.ranks;
    double local_s = g.local_s + g.cpu_s, wire_s = g.wire_s + g.cpu_s;
    double in_s = S > 1 ? (S - 1) / S * (n * local_s + S * g.local_hop_s) : 0;
    double out_s = N > 1 ? (N - 1) / N * (n * wire_s + N * g.wire_hop_s) : 0;
    return in_s + out_s;
}

static double tree_s(const group *g, double n) {
    double slowest = fmax(g->nodes > 1 ? g->wire_s : 0, g->ranks > 1 ? g->local_s : 0);
    double hops_s = ceil(log2(g->nodes)) * g->wire_hop_s +
                    (g->ranks - 1) * g->local_hop_s;
    return g->nodes * g->ranks > 1 ? 2 * (n * (slowest + g->cpu_s) + hops_s) : 0;
}

/* By default: a ring or a tree, as libraries choose on common wires. The hierarchical form
 * must be requested: published clusters take the time of a ring (docs/prediction.md). */
static double all_reduce_s(const group *g, weft_collective kind, double n) {
    double ring_s = 2 * ring_half_s(g, n), levels_s = 2 * hierarchical_half_s(*g, n);
    if (kind == WEFT_COLLECTIVE_RING || g->gloo) return ring_s;
    if (kind == WEFT_COLLECTIVE_TREE) return tree_s(g, n);
    if (kind == WEFT_COLLECTIVE_HIERARCHICAL) return levels_s;
    return fmin(ring_s, tree_s(g, n));
}

/* There are no trees of gathers. */
static double gather_s(const group *g, weft_collective kind, double n) {
    double ring_s = ring_half_s(g, n), levels_s = hierarchical_half_s(*g, n);
    double W = g->nodes * g->ranks;
    if (g->gloo && W > 1) return ring_s * (1 + 1 / (2 * (W - 1)));
    return kind == WEFT_COLLECTIVE_HIERARCHICAL ? levels_s : ring_s;
}

static double scatter_s(const group *g, weft_collective kind, double n) {
    return g->gloo ? all_reduce_s(g, kind, n) : gather_s(g, kind, n);
}

double wefti_framework_all_reduce(const wefti_framework_case *c, double n_bytes) {
    group g = group_of(c);
    return all_reduce_s(&g, c->collective, n_bytes);
}

/* ---- bytes of an element ---- */

typedef struct widths {
    double parameter, gradient, moments, sent_parameter, sent_gradient, activation;
} widths;

/* Mixed: weights, gradients and moments in f32, products in bf16; sharded parameters are
 * sent in bf16, whole gradients in f32. */
static widths widths_by_precision(const wefti_framework_case *c) {
    bool shards = c->framework->shards_parameters;
    switch (c->precision) {
    case WEFT_PRECISION_MIXED:
        return (widths){4, 4, 8, shards ? 2 : 4, shards ? 2 : 4, 2};
    case WEFT_PRECISION_BF16: return (widths){2, 2, 4, 2, 2, 2};
    case WEFT_PRECISION_BF16_8BIT: return (widths){2, 2, 2, 2, 2, 2};
    case WEFT_PRECISION_F32: break;
    }
    return (widths){4, 4, 8, 4, 4, 4};
}

/* What does not learn has no gradient and no moments, and nobody sends it but to those who
 * have a shard of it. */
static widths widths_of(const wefti_framework_case *c) {
    widths w = widths_by_precision(c);
    double t = c->trainable > 0 ? c->trainable : 1;
    w.gradient *= t, w.moments *= t, w.sent_gradient *= t;
    if (!c->framework->shards_parameters) w.sent_parameter *= t;
    if (c->weight_bytes > 0) w.parameter = c->weight_bytes;
    if (c->weight_bytes > 0 && c->framework->shards_parameters)
        w.sent_parameter = c->weight_bytes;
    return w;
}

/* ---- a step ---- */

typedef struct walk {
    const wefti_framework_case *c;
    widths w;
    group all, in, out;
    double slow, own; /* factors of the calm compute time: jitter, slowest machine */
    double t, e;      /* clocks: computing, exchange */
    double wire_e;    /* hsdp: of the exchange between nodes */
    double computed, exchanged; /* in all */
    double pending;             /* bytes of DDP's open bucket */
} walk;

static double elements(const walk *k, int u) {
    return (double)k->c->job->model->units[u].n_elements;
}

static void compute(walk *k, double seconds) {
    k->t += seconds * k->slow;
    k->computed += seconds * k->slow;
}

/* A pass through a unit. Launching takes the same time on a slow machine. */
static void compute_unit(walk *k, int u, bool backward) {
    wefti_unit_cost cost = wefti_costs_unit(k->c->cluster, k->c->job, u);
    double seconds = backward ? cost.backward_s : cost.forward_s;
    compute(k, seconds + (k->own - 1) * (1 - cost.launching) * seconds);
}

static void exchange(walk *k, double ready, double seconds) {
    k->e = fmax(k->e, ready) + seconds;
    k->exchanged += seconds;
}

/* Computing continues when the exchange is done. */
static void wait_here(walk *k) {
    if (k->all.gloo) k->t = fmax(k->t, fmax(k->e, k->wire_e));
}

static double unit_gather_s(const walk *k, int u) {
    const group *g = k->c->framework->in_node ? &k->in : &k->all;
    return gather_s(g, k->c->collective, elements(k, u) * k->w.sent_parameter);
}

static void reduce_unit(walk *k, int u, bool last) {
    double n = elements(k, u) * k->w.sent_gradient;
    const group *g = k->c->framework->in_node ? &k->in : &k->all;
    exchange(k, k->t, scatter_s(g, k->c->collective, n));
    if (k->c->framework->in_node && last) {
        double seconds = all_reduce_s(&k->out, k->c->collective, n);
        k->wire_e = fmax(k->wire_e, k->e) + seconds;
        k->exchanged += seconds;
    }
    wait_here(k);
}

/* Passes through the units in order; the next one is gathered meanwhile. */
static void sharded_pass(walk *k, bool backward, bool last) {
    int n = k->c->job->model->n_units, first = backward ? n - 1 : 0;
    exchange(k, k->t, unit_gather_s(k, first));
    double gathered = k->e;
    for (int i = 0; i < n; i++) {
        int u = backward ? n - 1 - i : i, next = backward ? u - 1 : u + 1;
        k->t = fmax(k->t, gathered);
        if (i + 1 < n) {
            exchange(k, k->t, unit_gather_s(k, next));
            gathered = k->e;
            wait_here(k);
        }
        compute_unit(k, u, backward);
        if (backward) reduce_unit(k, u, last);
    }
}

static void flush(walk *k) {
    bool half = k->c->framework->shards_gradients;
    if (k->pending <= 0) return;
    exchange(k, k->t,
             half ? scatter_s(&k->all, k->c->collective, k->pending)
                  : all_reduce_s(&k->all, k->c->collective, k->pending));
    k->pending = 0;
}

static void whole_pass(walk *k, bool last) {
    const wefti_job *job = k->c->job;
    bool after = k->c->framework->after || k->c->exposed;
    for (int u = 0; u < job->model->n_units; u++) compute_unit(k, u, false);
    for (int u = job->model->n_units - 1; u >= 0; u--) {
        double left = elements(k, u) * k->w.sent_gradient;
        compute_unit(k, u, true);
        for (; last && left > 0; left -= bucket_bytes) {
            k->pending += fmin(left, bucket_bytes);
            if (k->pending >= bucket_bytes && !after) flush(k);
        }
    }
    if (last) flush(k);
}

double wefti_largest_of(double n) {
    const double from = -8, to = 10, h = 0.01;
    double sum = 0, before = 0;
    for (double x = from; x < to; x += h) {
        double now = pow(0.5 * erfc(-x / sqrt(2)), n);
        sum += (x - h / 2) * (now - before);
        before = now;
    }
    return sum;
}

static double slowness(const wefti_framework_case *c) {
    const weft_jitter *j = &c->cluster->jitter;
    double W = (double)(c->nodes * c->ranks_per_node),
           spread = hypot(j->spread, j->drift);
    return spread > 0 ? exp(spread * wefti_largest_of(W)) : 1;
}

/* All ranks wait for one that stalls. */
static double stalls_s(const wefti_framework_case *c) {
    const weft_jitter *j = &c->cluster->jitter;
    double W = (double)(c->nodes * c->ranks_per_node);
    return (1 - pow(1 - j->stall_share, W)) * j->stall_s;
}

static double optimizer_s(const walk *k) {
    double W = k->all.nodes * k->all.ranks;
    double share = !k->c->framework->shards_optimizer ? 1
                   : k->c->framework->in_node         ? 1 / k->all.ranks
                                                      : 1 / W;
    const weft_cluster *f = k->c->cluster;
    const wefti_job *job = k->c->job;
    double n = (double)job->model->n_elements * share;
    if (k->c->trainable > 0) n *= k->c->trainable;
    for (int64_t i = 0; i < f->n_optimizers; i++)
        if (strcmp(f->optimizers[i].name, job->optimizer.ops->name) == 0)
            return n * f->optimizers[i].step_s;
    return wefti_costs_touch(f, n * job->optimizer.ops->traffic(&job->optimizer.config));
}

/* The compute time that is lost to a simultaneous exchange: whole gradients, twice
 * through the ring. */
static double hidden_work_s(const walk *k) {
    double W = k->all.nodes * k->all.ranks, P = (double)k->c->job->model->n_elements;
    bool beside = !k->c->framework->shards_parameters && !k->c->framework->after;
    return beside ? 2 * (W - 1) / W * P * k->w.sent_gradient * k->all.cpu_s : 0;
}

static double memory_of(const walk *k) {
    const wefti_framework *f = k->c->framework;
    const wefti_job *job = k->c->job;
    double W = k->all.nodes * k->all.ranks, P = (double)job->model->n_elements;
    double share = 1 / (f->in_node ? k->all.ranks : W), largest = 0, kept = 0;
    for (int u = 0; u < job->model->n_units; u++) {
        largest = fmax(largest, elements(k, u));
        double saved = (double)wefti_job_saved_floats(job, u, job->B);
        kept = job->run.recomputes ? fmax(kept, saved) : kept + saved;
    }
    wefti_sizes sizes = wefti_job_sizes(job, job->B);
    double bytes = P * (k->w.parameter * (f->shards_parameters ? share : 1) +
                        k->w.gradient * (f->shards_gradients ? share : 1) +
                        k->w.moments * (f->shards_optimizer ? share : 1));
    if (f->shards_parameters) bytes += 3 * largest * k->w.sent_parameter;
    bytes += k->w.activation * (kept + (double)(sizes.output * job->model->n_units));
    return bytes;
}

static walk begin(const wefti_framework_case *c) {
    walk k = {.c = c,
              .w = widths_of(c),
              .all = group_of(c),
              .slow = slowness(c),
              .own = slowest_machine(c->cluster)};
    k.in = inside(k.all);
    k.out = between(k.all);
    return k;
}

double wefti_framework_memory(const wefti_framework_case *c) {
    walk k = begin(c);
    return memory_of(&k);
}

/* Counts the bytes out of an interface: in the hierarchical form a node sends its sum
 * once; in a tree the N-1 edges between nodes carry everything in both directions. */
static void count_wire(const walk *k, weft_prediction *out) {
    const wefti_framework *f = k->c->framework;
    weft_collective kind = k->c->collective;
    double N = k->all.nodes, P = (double)k->c->job->model->n_elements;
    bool levels = kind == WEFT_COLLECTIVE_HIERARCHICAL ||
                  (kind == WEFT_COLLECTIVE_TREE && !f->shards_optimizer);
    double W = levels ? N : N * k->all.ranks;
    double passes = (double)k->c->job->batch.n_micro, bytes = 0,
           rounds = k->all.gloo ? 2 : 1;
    if (N > 1 && f->in_node)
        bytes = 2 * (N - 1) / N * P * k->w.sent_gradient;
    else if (N > 1 && f->shards_parameters)
        bytes = (W - 1) / W * P * passes *
                (2 * k->w.sent_parameter + rounds * k->w.sent_gradient);
    else if (N > 1)
        bytes = 2 * (W - 1) / W * P * k->w.sent_gradient +
                (f->shards_optimizer && !f->shards_gradients
                     ? (W - 1) / W * P * k->w.sent_parameter
                     : 0);
    out->wire_bytes = bytes;
    out->wire_bytes_step = (int64_t)bytes;
}

static void conclude(const walk *k, weft_prediction *out) {
    const wefti_job *job = k->c->job;
    double calm_s = k->computed / k->slow, late_s = k->computed - calm_s;
    double step_s = out->mean_step_s;
    out->exchange_s = k->exchanged;
    out->wait_s = fmax(0, step_s - k->computed);
    out->wire_s = out->wait_s;
    out->compute_s = step_s - out->wait_s;
    out->hidden_share = k->exchanged > 0 ? fmax(0, 1 - out->wait_s / k->exchanged) : 1;
    out->bound = out->wire_s > calm_s ? WEFT_BOUND_WIRE : WEFT_BOUND_COMPUTE;
    if (late_s > calm_s && late_s > out->wire_s) out->bound = WEFT_BOUND_WAITING;
    double spread = hypot(k->c->cluster->jitter.spread, k->c->cluster->jitter.drift);
    out->step_s = (weft_quantiles){step_s - 0.8 * spread * calm_s, step_s,
                                   step_s + 1.2 * spread * calm_s};
    double W = k->all.nodes * k->all.ranks;
    out->tokens_per_s = step_s > 0 ? (double)(job->batch.per_rank * job->T) * W / step_s
                                   : 0;
    out->parameters = job->model->n_elements;
}

void wefti_framework_predict(const wefti_framework_case *c, weft_prediction *out) {
    walk k = begin(c);
    *out = (weft_prediction){.struct_size = sizeof(weft_prediction), .hidden_share = 1};
    for (int64_t m = 0; m < c->job->batch.n_micro; m++) {
        bool last = m == c->job->batch.n_micro - 1;
        if (c->framework->shards_parameters) {
            sharded_pass(&k, false, last);
            sharded_pass(&k, true, last);
        } else {
            whole_pass(&k, last);
        }
    }
    k.t += hidden_work_s(&k);
    out->mean_step_s = fmax(fmax(k.t, k.e), k.wire_e) + optimizer_s(&k) +
                       c->cluster->rest_s + stalls_s(c);
    k.computed += optimizer_s(&k) + c->cluster->rest_s;
    if (c->framework->shards_optimizer && !c->framework->shards_parameters) {
        double all = (double)c->job->model->n_elements * k.w.sent_parameter;
        double seconds = gather_s(&k.all, c->collective, all);
        out->mean_step_s += seconds;
        k.exchanged += seconds;
    }
    out->memory_bytes = (int64_t)memory_of(&k);
    count_wire(&k, out);
    conclude(&k, out);
}
