/* SPDX-License-Identifier: MIT */
/* The step of a candidate as a function: the minimum, over orders of phases, of the
 * maximum of some planes.
 *
 *     T(1/b, L) = min over orders of  max over k of  beta_k / b + gamma_k L + delta_k
 *
 * In a fixed order (simulate/arrayorder.c) the time of a step consists of sums and maxima
 * of the times of computing, bytes and latencies. So each inner T is convex in the time
 * of a byte 1/b and in the latency L, and where it is smooth its tangent is one of the
 * planes: beta is the number of bytes on the step's longest path, gamma the number of
 * latencies, and delta the part that does not depend on the wire. A tangent is nowhere
 * above T, so planes err only to one side: between the points where they were computed
 * they give slightly too small values.
 *
 * The points cover the range of the sliders: first the planned point, then Halton's
 * sequence (bases 2 and 3, so that any number of points is spread evenly over the
 * logarithms). At each point T is played. Where the present planes are too small by more
 * than `near`, the tangents of those orders are added, by finite differences. The search
 * ends when many points in a row added nothing, or after the last point. Another batch is
 * another function, because the number of micro-batches changes with it. One node alone
 * has one plane without a wire. */
#include "advice/planes.h"

#include <math.h>

enum { POINTS = 96, FEW_POINTS = 32, AGREE = 20, FEW_AGREE = 10, MANY_RANKS = 16 };

/* Ranges of the sliders. */
static const double least_Bps = 125e3, rate_decades = 5;
static const double least_s = 1e-6, latency_decades = 6;

/* Finite differences change a fact by the share `apart`; `near` is the tolerance. */
static const double apart = 1e-3, near = 0.01;

typedef struct point {
    double rate_Bps, latency_s;
} point;

typedef struct sampler {
    weft_ctx *ctx;
    wefti_adviser a; /* a copy whose facts are changed */
    wefti_advised_run prepared;
    wefti_planes *out;
} sampler;

static weft_link_facts *link_of(sampler *s) {
    return s->a.cluster.sites > 1 ? &s->a.cluster.site : &s->a.cluster.wire;
}

static weft_status step_at(sampler *s, point x, int order, double *step_s) {
    link_of(s)->latency_s = x.latency_s;
    return wefti_advise_step(s->ctx, &s->a, &s->prepared, x.rate_Bps, order, step_s);
}

static double largest(const wefti_order_planes *o, point x) {
    double step_s = 0;
    for (int i = 0; i < o->n; i++) {
        const wefti_plane *p = &o->plane[i];
        step_s = fmax(step_s,
                      p->per_Bps / x.rate_Bps + p->latencies * x.latency_s + p->rest);
    }
    return step_s;
}

/* Adds the tangent of an order at a point; it goes through the point. A negative slope is
 * a rounding error: a step never gets shorter when a fact gets worse. */
static weft_status touch(sampler *s, int order, point x, double here_s) {
    wefti_order_planes *o = &s->out->order[order - 1];
    double slower_s = here_s, later_s = here_s, more = 1 + apart;
    point slower = x, later = x;
    slower.rate_Bps /= more;
    later.latency_s *= more;
    if (s->prepared.candidate->nodes > 1) {
        WEFT_TRY(step_at(s, slower, order, &slower_s));
        WEFT_TRY(step_at(s, later, order, &later_s));
    }
    wefti_plane p = {.per_Bps = fmax(0, slower_s - here_s) / apart * x.rate_Bps,
                     .latencies = fmax(0, later_s - here_s) / (apart * x.latency_s)};
    p.rest = here_s - p.per_Bps / x.rate_Bps - p.latencies * x.latency_s;
    o->plane[o->n++] = p;
    return WEFT_OK;
}

/* Adds a tangent if an order's planes are too small for a step that is the minimum of all
 * orders. */
static weft_status learn(sampler *s, int order, point x, double step_s) {
    double here_s;
    wefti_order_planes *o = &s->out->order[order - 1];
    if (o->n == WEFTI_MOST_PLANES || largest(o, x) >= (1 - near) * step_s) return WEFT_OK;
    WEFT_TRY(step_at(s, x, order, &here_s));
    if (!isfinite(here_s)) return WEFT_OK;
    if (s->out->n < order) s->out->n = order;
    return touch(s, order, x, here_s);
}

/* The step according to the planes. */
static double planes_step(const wefti_planes *planes, double bandwidth_Bps,
                          double latency_s) {
    double least_step_s = INFINITY;
    point x = {bandwidth_Bps, latency_s};
    for (int i = 0; i < planes->n; i++)
        least_step_s = fmin(least_step_s, largest(&planes->order[i], x));
    return planes->n > 0 ? least_step_s : 0;
}

/* Visits a point; *taught: the planes were too small here. */
static weft_status visit(sampler *s, point x, bool *taught) {
    double step_s;
    WEFT_TRY(step_at(s, x, 0, &step_s));
    double said_s = planes_step(s->out, x.rate_Bps, x.latency_s);
    *taught = s->out->n == 0 || said_s < (1 - near) * step_s;
    int last = s->out->n > 0 ? s->out->n : WEFTI_ARRAY_ORDERS;
    for (int order = 1; *taught && order <= last; order++)
        WEFT_TRY(learn(s, order, x, step_s));
    return WEFT_OK;
}

/* The i-th Halton number in this base: the digits of i after the point, in reverse order. */
static double halton(int base, int i) {
    double sum = 0, digit = 1.0 / base;
    for (; i > 0; i /= base, digit /= base) sum += digit * (i % base);
    return sum;
}

static point point_of(int i) {
    return (point){least_Bps * pow(10, rate_decades * halton(2, i)),
                   least_s * pow(10, latency_decades * halton(3, i))};
}

static weft_status sample(sampler *s) {
    const weft_candidate *c = s->prepared.candidate;
    bool many = c->nodes * c->ranks_per_node > MANY_RANKS, taught;
    point here = {link_of(s)->bandwidth_Bps, link_of(s)->latency_s};
    int last = many ? FEW_POINTS : POINTS, agree = many ? FEW_AGREE : AGREE;
    if (here.rate_Bps <= 0) here.rate_Bps = 1e9;
    if (here.latency_s <= 0) here.latency_s = least_s;
    WEFT_TRY(visit(s, here, &taught));
    for (int i = 1, agreed = 0; i < last && agreed < agree && c->nodes > 1; i++) {
        WEFT_TRY(visit(s, point_of(i), &taught));
        agreed = taught ? 0 : agreed + 1;
    }
    return WEFT_OK;
}

weft_status wefti_planes_find(weft_ctx *ctx, const wefti_adviser *a,
                              const weft_candidate *c, wefti_planes *out) {
    sampler s = {.ctx = ctx, .a = *a, .out = out};
    *out = (wefti_planes){.n = 0};
    WEFT_TRY(wefti_advise_prepare(ctx, a, c, &s.prepared));
    weft_status status = sample(&s);
    wefti_advise_unprepare(ctx, &s.prepared);
    return status;
}
