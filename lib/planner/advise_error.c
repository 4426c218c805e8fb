/* SPDX-License-Identifier: MIT */
/* The error of a time to a loss: from the shares of the step, each with the error of its
 * facts, and from the number of steps (advise_steps.c), combined as independent errors,
 *
 *     error^2 = model^2 + sum over computing, wire, coding of (share x error)^2 + steps^2
 *
 * Two candidates on the same machines share the errors of the facts, so only the difference
 * of their shares matters: the compute rate of a rank does not affect which of two methods
 * is faster if both compute all the time. The error of the model concerns the exchange.
 *
 *     apart^2 = sum over both of (model x share exchanged)^2 + steps^2
 *               + sum over computing, wire, coding of (difference of shares x error)^2
 *
 * and the time that failures add: with a checkpoint every tau seconds, N nodes, a mean
 * time M between failures of one and D until a lost one is given up (elastic.silence),
 *
 *     back to the checkpoint    1 + save / tau + N/M (tau / 2 + restart)
 *     the others continue       1 + save / tau + N/M (D + restart / N)
 *
 * relative to the time without failures. If the run does not set how often it saves, tau
 * = sqrt(2 save M / N) in the first case (Young 1974); in the second the run saves only
 * at the end. A node that is being restarted counts as one missing node of N; the effect
 * of the smaller batch on learning is not counted. */
#include <math.h>
#include <string.h>

#include "planner/advise.h"

/* Errors of the model: 95 % of the runs are within 5 % (docs/prediction.md). The closed
 * forms of other frameworks have been compared with fewer runs. */
static const double model = 0.05, closed_form = 0.15;

static const double by_origin[] = {
    [WEFT_KNOWN_TYPED] = 0.30, [WEFT_KNOWN_SHEET] = 0.20, [WEFT_KNOWN_MEASURED] = 0.03};
static const double coding_measured = 0.05, coding_estimated = 0.5;

static weft_known computing_of(const wefti_adviser *a) {
    bool measured = a->cluster.n_units > 0 || a->cluster.n_steps > 0;
    return measured ? WEFT_KNOWN_MEASURED : a->options.computing;
}

static weft_known wire_of(const wefti_adviser *a) {
    return a->cluster.wire.residual > 0 ? WEFT_KNOWN_MEASURED : a->options.wire;
}

double wefti_advise_error(const wefti_adviser *a, const weft_candidate *c) {
    const weft_prediction *p = &c->prediction;
    double all = p->mean_step_s;
    if (!(all > 0)) return 0;
    double coding = a->cluster.n_codecs > 0 ? coding_measured : coding_estimated;
    double own = c->framework[0] ? closed_form : model;
    double parts[] = {own, fmax(0, all - p->wait_s) / all * by_origin[computing_of(a)],
                      (p->wire_s + p->late_s) / all * by_origin[wire_of(a)],
                      p->codec_s / all * coding};
    double sum = c->steps_error * c->steps_error;
    for (int i = 0; i < 4; i++) sum += parts[i] * parts[i];
    return sqrt(sum);
}

enum { COMPUTING, WIRE, CODING, PARTS };

/* Shares of a cost on some wire: computing and coding take the same time on every wire. */
static void shares_of(const weft_candidate *c, double cost_s, double out[PARTS]) {
    const weft_prediction *p = &c->prediction;
    double each = p->mean_step_s > 0 ? c->cost_s / p->mean_step_s / cost_s : 0;
    out[COMPUTING] = fmin(1, fmax(0, p->mean_step_s - p->wait_s) * each);
    out[CODING] = fmin(1 - out[COMPUTING], p->codec_s * each);
    out[WIRE] = 1 - out[COMPUTING] - out[CODING];
}

static double square(double x) { return x * x; }

double wefti_advise_apart(const wefti_adviser *a, const weft_candidate *x, double x_s,
                          const weft_candidate *y, double y_s) {
    double mine[PARTS], other[PARTS];
    double coding = a->cluster.n_codecs > 0 ? coding_measured : coding_estimated;
    const double facts[PARTS] = {by_origin[computing_of(a)], by_origin[wire_of(a)],
                                 coding};
    bool alike = strcmp(x->name, y->name) == 0; /* they also learn alike */
    double sum = alike ? square(x->steps_error - y->steps_error)
                       : square(x->steps_error) + square(y->steps_error);
    shares_of(x, x_s, mine);
    shares_of(y, y_s, other);
    for (int i = 0; i < PARTS; i++) sum += square((mine[i] - other[i]) * facts[i]);
    sum += square((x->framework[0] ? closed_form : model) * (1 - mine[COMPUTING]));
    sum += square((y->framework[0] ? closed_form : model) * (1 - other[COMPUTING]));
    return sqrt(sum);
}

/* Other frameworks return to the last checkpoint; so do methods whose replicas differ. */
bool wefti_advise_goes_on(const wefti_adviser *a, const weft_candidate *c) {
    return c->prediction.goes_on && !a->options.roll_back && !c->framework[0];
}

double wefti_advise_failures(const wefti_adviser *a, const weft_candidate *c,
                             double step_s) {
    const weft_advise_options *o = &a->options;
    double every = (double)a->run->run.save_every * step_s;
    if (o->failure_s <= 0) return 1;
    double often = (double)c->nodes / o->failure_s;
    if (wefti_advise_goes_on(a, c)) {
        double given_up_s = a->run->elastic.silence;
        double saving = every > 0 ? o->save_s / every : 0;
        return 1 + saving + often * (given_up_s + o->restart_s / (double)c->nodes);
    }
    if (every <= 0) every = sqrt(2 * fmax(o->save_s, 1) / often);
    return 1 + o->save_s / every + often * (every / 2 + o->restart_s);
}
