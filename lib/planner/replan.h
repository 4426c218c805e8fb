/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/cluster.h>
#include <weft/predict.h>

#include "config/value.h"
#include "job/form.h"

/* Planning again while a run goes on (docs/planning.md): whether another form of what crosses the
 * wire (job/form.h) would end it sooner. `weft train` and a program's own loop give it their steps
 * and get the form that they should have. Of one thread; no clock, no files. */

/* --- the plan by itself --- */

/* What is known where a form is chosen. */
typedef struct wefti_situation {
    const weft_config *config; /* of the run, in the form that it has */
    weft_cluster *cluster;     /* its wire as it is now */
    weft_loop_facts *loop;     /* of a program's own tensors; NULL: the config's model */
    bool averages; /* only forms in which all gradients are averaged are tried */
    wefti_form now;
    int64_t steps_left, parameters;
    double step_s;      /* as it is measured now */
    double idle_s;      /* of that: what a step waits in every form, as ranks differ */
    double loss;        /* share of steps more that may be taken */
    double state_bytes; /* of the optimizer's states, which outer steps leave apart */
    double bias[2];     /* measured over predicted, of averaging and of outer forms */
    double most_Bps;    /* that a node may send from now on; 0: no limit */
    const struct wefti_budget
        *budget;  /* NULL: that is no matter of how long the rest takes */
    double day_s; /* as in wefti_replan_step */
} wefti_situation;

typedef struct wefti_outlook {
    wefti_form form;
    double step_s, gain, low,
        high; /* times as fast for the rest of the run, and its range */
    double
        Bps; /* that a node sends; 0 of the form that the run has, where that is no matter */
    bool exceeds; /* it sends more than may be sent, and of all forms least */
} wefti_outlook;

/* The best of all forms that send no more than may be sent; the one that the run has if no other is
 * sure to be faster, by what the change costs and the ranges of step and learning. If that one
 * sends more, the fastest that does not; if all do, the one that sends least. */
weft_status wefti_plan_forms(weft_ctx *ctx, const wefti_situation *s,
                             wefti_outlook *out) WEFT_CHECKED;

/* The forms that are tried; the steps that one needs, relative to averaging everything in f32. */
const wefti_form *wefti_forms(int *n);
double wefti_form_steps(const wefti_situation *s, const wefti_form *form);

/* The computing in a step that is predicted of the config's model. */
weft_status wefti_computing_predict(weft_ctx *ctx, const wefti_situation *s,
                                    double *computing_s) WEFT_CHECKED;

/* The mean step that is predicted in a form; INFINITY: it does not fit into memory beside what is
 * kept while it changes. */
weft_status wefti_form_predict(weft_ctx *ctx, const wefti_situation *s,
                               const wefti_form *form, double *step_s) WEFT_CHECKED;

/* The rate of the wire at which a step of this form takes so long; 0: at any. */
weft_status wefti_wire_of_step(weft_ctx *ctx, const wefti_situation *s,
                               double *out) WEFT_CHECKED;

/* --- a limit of what is sent --- */

/* What a node has sent in the last 24 hours, by the hour. */
typedef struct wefti_budget {
    double per_day; /* bytes that may be sent in any 24 hours; 0: no limit */
    double sent[25],
        in_s; /* of this hour, in_s of which have passed, and of those before it */
    wefti_busy busy;
} wefti_budget;

void wefti_budget_add(wefti_budget *b, double seconds, double bytes);

/* The rate that may be kept for left_s seconds: at no time within them have more than per_day bytes
 * been sent in 24 hours; in busy hours (day_s: seconds of this day) at most theirs. 0: no limit;
 * else at least 1. */
double wefti_budget_Bps(const wefti_budget *b, double left_s, double day_s);

bool wefti_budget_is_busy(const wefti_budget *b, double day_s);

/* --- steps -> form --- */

typedef struct wefti_replan wefti_replan;

/* Takes the cluster, as it was measured first, also on failure; NULL: nothing was. A process that
 * begins with a later step than the run, or has missed many, learns computing and wire from its
 * first steps (docs/planning.md). loss: as in wefti_situation. */
weft_status wefti_replan_create(weft_ctx *ctx, weft_cluster *cluster, double loss,
                                wefti_replan **out) WEFT_CHECKED;
void wefti_replan_destroy(weft_ctx *ctx, wefti_replan *r);

/* A step that has ended, or is computed. */
typedef struct wefti_replan_step {
    const weft_config *config;
    const void *world;     /* another one than before: what is usual is learned anew */
    weft_loop_facts *loop; /* as in wefti_situation; its step_s is set here */
    bool averages;         /* likewise */
    wefti_form now;
    int64_t step, steps_left, parameters; /* step: how many have ended */
    double state_bytes;
    double computing_s, wait_s; /* of the slowest rank; what the step took beyond that */
    double
        measure_s; /* that steps may wait until they have measured the wire; 0: any time */
    const wefti_budget *budget; /* NULL: no limit of what is sent */
    double day_s;               /* of this day, in local time */
    bool first; /* since the process began: it may compute longer than later ones */
} wefti_replan_step;

/* When it fails no plan could be made; nothing is wanted then. */
weft_status wefti_replan_add(weft_ctx *ctx, wefti_replan *r,
                             const wefti_replan_step *step) WEFT_CHECKED;

/* In one of the first steps of a run with a loop of its own, before its exchange is waited for,
 * where nothing was measured but the rate of the slowest way out: plans on that, if the steps that
 * would measure would wait longer than measure_s. Else, and if nothing better is found, it is as if
 * it had not been called. wait_s of the step is not read.
 *
 * A first step may compile: what it computes is the most that others do. Where it computes longer
 * than it exchanges the wire alone can tell that codes are faster, which one step later can be
 * left, and which cost little if computing hides the wire; all else is decided in the next step. */
weft_status wefti_replan_foresee(weft_ctx *ctx, wefti_replan *r,
                                 const wefti_replan_step *step, double Bps) WEFT_CHECKED;

/* What the run should change to. */
typedef struct wefti_replan_wish {
    bool wants;
    wefti_form form;
    char why[400];
    double was_s, Bps;     /* of a step before it; of the wire */
    wefti_outlook outlook; /* of the form */
    double
        alone; /* times as fast one node by itself is, surely; 0: it is not (loops only) */
} wefti_replan_wish;

/* What was expected of a change: seconds of a step before it and with it; times as fast, and its
 * range; the rate of the wire. NULL: zeros. */
enum { WEFTI_REPLAN_EXPECTED = 6 };
void wefti_replan_expected(const wefti_replan_wish *wish,
                           double out[WEFTI_REPLAN_EXPECTED]);

const wefti_replan_wish *wefti_replan_wish_of(const wefti_replan *r);

/* What to ask for now, so that it begins before step `step`, on the way to what is wanted: a code
 * of job/form.h; 0: nothing. */
int64_t wefti_replan_asks(const wefti_replan *r, const wefti_form *now, int64_t step);

/* The run has this form now. */
void wefti_replan_changed(wefti_replan *r, const wefti_form *now);
