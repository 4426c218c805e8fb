/* SPDX-License-Identifier: MIT */
/* What a step on several nodes has beside its share of one node's computing, where nobody has
 * measured it:
 *
 *     time of computing  x  1 + phi (p T1 / (p1 T) - 1) + sigma m(N)
 *
 * phi: the part of one node's passes that does not depend on their tokens. T1 / T: tokens of
 * one node alone over those of a node now, p1 and p the passes of both: a node with half of
 * the tokens and one pass starts as often as one with all of them. sigma: how much a node's
 * step varies; all wait for the slowest, so m(N) is the mean of the largest of N normals.
 * Published pairs, the wire out of the way (bench/published):
 *
 *     phi      0.03, 0 to 0.08    BERT base on V100, 32 and 48 sequences, 64 and 96: 0.022, 0.032
 *     sigma    0.02, 0 to 0.09    sigma m of ResNet-50 over RDMA on 2, 4, 8 machines: 0.003,
 *                                 0.007, 0.019; of Llama 8B and MPT on 2 to 16 times the nodes:
 *                                 0.016 to 0.028. m(2) = 0.56, m(4) = 1.03, m(8) = 1.42
 *
 * A step that was measured on n nodes has its part, so only what grows from n to N has ends.
 * A second batch size that is measured replaces phi (launch), jitter replaces sigma, measured
 * units or steps both. No pair has more than eight times fewer tokens, so nothing is added
 * beyond. */
#include <math.h>

#include "planner/advise.h"
#include "planner/framework.h"

static const double fixed = 0.03, fixed_most = 0.08, varies = 0.02, varies_most = 0.09;
static const double most_times = 8;

static bool divides(const wefti_adviser *a) { return a->cluster.launch_s > 0; }

static bool waits(const wefti_adviser *a) {
    const weft_jitter *j = &a->cluster.jitter;
    return j->spread > 0 || j->drift > 0 || j->stall_share > 0;
}

bool wefti_advise_has_floor(const wefti_adviser *a) {
    return a->cluster.n_units == 0 && a->cluster.n_steps == 0 &&
           (!divides(a) || !waits(a));
}

/* Passes of a rank with so many tokens. */
static double passes_of(const wefti_adviser *a, double tokens) {
    int64_t rows = (int64_t)(tokens / (double)wefti_advise_length(a));
    int64_t micro = rows > 0 ? wefti_advise_micro(a, rows) : 0;
    return micro > 0 ? fmax(1, (double)rows / (double)micro) : 1;
}

static double at_end(double factor, double middle, double most) {
    return factor > 1 ? most : factor > 0 && factor < 1 ? 0 : middle;
}

/* On that many nodes, at an end of both shares. */
static double floor_on(const wefti_adviser *a, double nodes, double S, double factor) {
    double one = (double)wefti_advise_tokens(a, 1) / S;
    double mine = (double)wefti_advise_tokens(a, (int64_t)nodes) / nodes / S;
    double times = one / mine * passes_of(a, mine) / passes_of(a, one);
    double extra = fmin(fmax(times, 1), most_times) - 1;
    return (divides(a) ? 0 : at_end(factor, fixed, fixed_most) * extra) +
           (waits(a) ? 0 : at_end(factor, varies, varies_most) * wefti_largest_of(nodes));
}

double wefti_advise_floor(const wefti_adviser *a, const weft_candidate *c) {
    if (c->nodes < 2 || !wefti_advise_has_floor(a)) return 0;
    double S = (double)c->ranks_per_node, N = (double)c->nodes;
    double measured = (double)a->measured_nodes, here = a->at.floor;
    if (measured < 2) return floor_on(a, N, S, here);
    return fmax(0, floor_on(a, measured, S, 1) + floor_on(a, N, S, here) -
                       floor_on(a, measured, S, here));
}
