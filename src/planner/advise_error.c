/* SPDX-License-Identifier: MIT */
/* How far a prediction may be off: shares of the step, each with the error of the facts that
 * it is made of, added as independent errors are,
 *
 *     error^2 = model^2 + sum over computing, wire, coding of (share x error)^2
 *
 * and what failures add: with a checkpoint every tau seconds, N nodes, a mean time M
 * between failures of one and D until a lost one is given up (elastic.silence),
 *
 *     back to the checkpoint    1 + save / tau + N/M (tau / 2 + restart)
 *     the others go on          1 + save / tau + N/M (D + restart / N)
 *
 * of the time without. If the run does not say how often it saves, tau = sqrt(2 save M / N)
 * in the first (Young 1974); in the second nothing is saved but at the end. A node that is
 * being restarted is missing as one of N; what the smaller batch meanwhile does to the
 * learning is not counted. */
#include <math.h>

#include "planner/advise.h"

/* The model beside runs: 95 % of them within 5 % (docs/prediction.md). Closed forms of other
 * frameworks have been held against less. */
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
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += parts[i] * parts[i];
    return sqrt(sum);
}

/* Others' frameworks go back; so do methods whose replicas differ. */
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
