/* SPDX-License-Identifier: MIT */
/* A step of a candidate as the largest of some planes.
 *
 *     T(C, 1/b, L) = max over k of  alpha_k C + beta_k / b + gamma_k L + delta_k
 *
 * Played steps are made of sums and maxima of what computing, bytes and latencies take, so T
 * is convex in the factor C of computing, in the time of a byte 1/b and in the latency L, and
 * wherever it is smooth its tangent is one of the planes: alpha says how much computing lies
 * on the step's longest way, beta how many bytes, gamma how many latencies, and delta is what
 * no slider moves (coding, optimizing). The tangents are taken at a grid of rates and
 * latencies, by differences; the largest of them is exact there and a little too small
 * between; where they say it already, none is taken. Where a rank begins to wait too soon T is
 * not convex, and a tangent is too large beside it: by some per cent, at few points. One node
 * alone has one plane without a wire. */
#include "planner/advise_planes.h"

#include <math.h>

enum { N_RATES = 11, FEW_RATES = 6, N_LATENCIES = 3, MANY_RANKS = 16 };
static const double least_Bps = 125e3, decades = 5;
static const double latencies_s[N_LATENCIES] = {1e-5, 3e-3, 1e-1};

/* Differences are taken over this share of a fact; where the planes so far are as near as the
 * other, there is nothing to be learned. */
static const double apart = 1e-3, near = 2e-3;

typedef struct sampler {
    weft_ctx *ctx;
    wefti_adviser a; /* a copy whose facts are changed */
    const weft_candidate *candidate;
    wefti_planes *out;
} sampler;

static weft_link_facts *link_of(sampler *s) {
    return s->a.cluster.sites > 1 ? &s->a.cluster.site : &s->a.cluster.wire;
}

static weft_status step_at(sampler *s, double compute, double rate_Bps, double latency_s,
                           double *step_s) {
    weft_prediction p;
    s->a.compute = compute;
    link_of(s)->latency_s = latency_s;
    WEFT_TRY(wefti_advise_predict(s->ctx, &s->a, s->candidate, rate_Bps, &p));
    *step_s = p.mean_step_s;
    return WEFT_OK;
}

/* The tangent at a point. A negative slope is rounding, or a rank that begins to wait too
 * soon: no fact makes a step shorter when it gets worse. The plane goes through the point. */
static weft_status touch(sampler *s, double rate_Bps, double latency_s) {
    double here_s, compute_s, slower_s, later_s, more = 1 + apart;
    bool wire = s->candidate->nodes > 1;
    WEFT_TRY(step_at(s, 1, rate_Bps, latency_s, &here_s));
    double known_s = wefti_planes_step(s->out, 1, rate_Bps, latency_s);
    if (fabs(known_s - here_s) <= near * here_s || s->out->n == WEFTI_MOST_PLANES)
        return WEFT_OK;
    WEFT_TRY(step_at(s, more, rate_Bps, latency_s, &compute_s));
    slower_s = later_s = here_s;
    if (wire) WEFT_TRY(step_at(s, 1, rate_Bps / more, latency_s, &slower_s));
    if (wire) WEFT_TRY(step_at(s, 1, rate_Bps, latency_s * more, &later_s));
    wefti_plane p = {.compute = fmax(0, compute_s - here_s) / apart,
                     .per_Bps = fmax(0, slower_s - here_s) / apart * rate_Bps,
                     .latencies = fmax(0, later_s - here_s) / (apart * latency_s)};
    p.rest = here_s - p.compute - p.per_Bps / rate_Bps - p.latencies * latency_s;
    s->out->plane[s->out->n++] = p;
    return WEFT_OK;
}

weft_status wefti_planes_find(weft_ctx *ctx, const wefti_adviser *a,
                              const weft_candidate *c, wefti_planes *out) {
    sampler s = {.ctx = ctx, .a = *a, .candidate = c, .out = out};
    double rate_Bps = link_of(&s)->bandwidth_Bps, latency_s = link_of(&s)->latency_s;
    int64_t ranks = c->nodes * c->ranks_per_node;
    int n = ranks > MANY_RANKS ? FEW_RATES : N_RATES;
    out->n = 0;
    if (latency_s <= 0) latency_s = latencies_s[0];
    if (c->nodes == 1) return touch(&s, rate_Bps > 0 ? rate_Bps : 1e9, latency_s);
    WEFT_TRY(touch(&s, rate_Bps, latency_s));
    for (int i = 0; i < n; i++) {
        double at_Bps = least_Bps * pow(10, decades * i / (n - 1));
        WEFT_TRY(touch(&s, at_Bps, latency_s));
        for (int k = 0; k < N_LATENCIES && (ranks <= MANY_RANKS || i % 2 == 0); k++)
            WEFT_TRY(touch(&s, at_Bps, latencies_s[k]));
    }
    return WEFT_OK;
}

double wefti_planes_step(const wefti_planes *planes, double compute, double bandwidth_Bps,
                         double latency_s) {
    double step_s = 0;
    for (int i = 0; i < planes->n; i++) {
        const wefti_plane *p = &planes->plane[i];
        step_s = fmax(step_s, p->compute * compute + p->per_Bps / bandwidth_Bps +
                                  p->latencies * latency_s + p->rest);
    }
    return step_s;
}
