/* SPDX-License-Identifier: MIT */
/* What a step on several nodes has beside its share of one node's computing, where nobody has
 * measured it:
 *
 *     time of computing  x  1 + phi (p T1 / (p1 T) - 1) + omega
 *
 * phi: the part of one node's passes that does not depend on their tokens. T1 / T: tokens of
 * one node alone over those of a node now, p1 and p the passes of both: a node with half of
 * the tokens and one pass starts as often as one with all of them. omega: all wait for the
 * slowest, every step. Published pairs, the wire out of the way (bench/published):
 *
 *     phi    0.03, 0 to 0.08    BERT base on V100, 32 and 48 sequences, 64 and 96: 0.022, 0.032
 *     omega  0.02, 0 to 0.05    ResNet-50 over RDMA on 2, 4, 8 machines: 0.003, 0.007, 0.019;
 *                               Llama 8B and MPT on 2 to 16 times the nodes: 0.016 to 0.028
 *
 * A second batch size that is measured replaces phi (launch), jitter replaces omega, measured
 * units or steps both. No pair has more than eight times fewer tokens, so nothing is added
 * beyond. */
#include <math.h>

#include "planner/advise.h"

static const double fixed = 0.03, fixed_most = 0.08, late = 0.02, late_most = 0.05;
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

double wefti_advise_floor(const wefti_adviser *a, const weft_candidate *c) {
    if (c->nodes < 2 || !wefti_advise_has_floor(a)) return 0;
    double S = (double)c->ranks_per_node, one = (double)wefti_advise_tokens(a, 1) / S;
    double mine = (double)wefti_advise_tokens(a, c->nodes) / (double)c->nodes / S;
    double times = one / mine * passes_of(a, mine) / passes_of(a, one);
    double extra = fmin(fmax(times, 1), most_times) - 1;
    return (divides(a) ? 0 : at_end(a->at.floor, fixed, fixed_most) * extra) +
           (waits(a) ? 0 : at_end(a->at.floor, late, late_most));
}
