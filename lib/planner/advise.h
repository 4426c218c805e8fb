/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/plan.h>

#include "simulate/forecast.h"

typedef weft_recipe wefti_recipe;

/* Ends with a NULL name. */
extern const wefti_recipe wefti_recipes[];

/* A method in a longer run than those of the recipes: steps to a loss over AdamW's, on two
 * nodes. A row without a name ends the list. */
typedef struct wefti_longer_run {
    const char *name; /* of the recipe */
    double steps, ratio;
    const char *source;
} wefti_longer_run;

extern const wefti_longer_run wefti_longer[];

/* The recipe's settings between sites, where all gradients of a site are averaged inside it
 * and a site is one member. Such candidates have a name of their own, unless all average. */
#define WEFTI_BETWEEN "sites "
void wefti_recipe_between(const wefti_recipe *recipe, char *out, size_t size);

/* The recipe of a candidate's name, or NULL. */
const wefti_recipe *wefti_recipe_find(const char *name);

/* That of a candidate, whose name on one node is not the recipe's; or NULL. */
const wefti_recipe *wefti_advise_recipe(const weft_candidate *c);

/* Where between the ends of the facts a prediction is made: factors of the rates, of the
 * constant of a step on several nodes (wefti_adviser.constant_s) and of the floor; 0: 1.
 * `exposed`: other frameworks hide nothing of an exchange. */
typedef struct wefti_point {
    double wire, computing, constant, floor;
    bool exposed;
} wefti_point;

/* State that the parts of the advice share while it is made. */
typedef struct wefti_adviser {
    weft_ctx *ctx;          /* the caller's: owns the advice */
    const weft_config *run; /* finished */
    weft_cluster cluster;   /* arrays borrowed; with the wire in use */
    weft_advise_options options;
    weft_advice *advice;
    int64_t room, left_out_room;
    int64_t work; /* rank-steps to play for a prediction */
    weft_machine
        *machines; /* [cluster.nodes] owned, the fastest first; NULL: all alike */
    const wefti_recipe
        *own; /* full synchronization with the run's own optimizer, if that is
                                one of the recipes and not the first one; or NULL */
    wefti_point at;
    double constant_s; /* of every step on several nodes, beyond what the model counts */
    int64_t
        measured_nodes; /* the most of a step on several nodes that has been explained */
    double length;      /* steps of the run; 0: not known */
    char others[128];   /* frameworks that are tried */
} wefti_adviser;

/* The run with these assignments applied to its keys; keys of the method are kept only if
 * the method is unchanged. `emulated`: keeps the run's emulation of links and slowness,
 * else removes it. [out] *out finished, owned by the caller. */
weft_status wefti_advise_config(weft_ctx *ctx, const weft_config *run,
                                const char *settings, bool emulated,
                                weft_config **out) WEFT_CHECKED;

/* Lists, predicts and ranks the candidates: what all the rest is about. The adviser has a
 * context, a run and an empty advice; wefti_machines_drop afterwards. */
weft_status wefti_advise_candidates(wefti_adviser *a,
                                    const weft_cluster *cluster) WEFT_CHECKED;

/* Where one node has no room: sets precision, recomputing and sharding that have it
 * (advise_fit.c). The bytes that ranks need as sharded as can be, with `ranks` of them. */
weft_status wefti_advise_fit(wefti_adviser *a) WEFT_CHECKED;
const char *wefti_precision_name(weft_precision precision);

/* Adds a candidate; and what follows from its prediction: room, costs, steps. */
weft_status wefti_advise_add(wefti_adviser *a, const weft_candidate *c) WEFT_CHECKED;
void wefti_advise_judge(const wefti_adviser *a, weft_candidate *c);

/* Whether the user gave this key of the run. */
bool wefti_advise_given(const wefti_adviser *a, const char *key);

/* Finds the recipe with whose optimizer the run averages all gradients: a->own. */
weft_status wefti_advise_own(wefti_adviser *a) WEFT_CHECKED;

/* The run with its batch in tokens, if it is given in rows (batch.rows_per_step); [out]
 * *out owned by the caller (weft_config_destroy). */
weft_status wefti_advise_run(weft_ctx *ctx, const weft_config *run,
                             weft_config **out) WEFT_CHECKED;

/* Positions of a row: of both parts, where the model has an encoder and a decoder. */
int64_t wefti_advise_length(const wefti_adviser *a);

/* Tokens of a step on `nodes` nodes; and the micro-batch for `rows` sequences of a rank:
 * their greatest divisor that is not larger than the run's batch.micro. */
int64_t wefti_advise_tokens(const wefti_adviser *a, int64_t nodes);
int64_t wefti_advise_micro(const wefti_adviser *a, int64_t rows);

/* Seconds for as many tokens as a step of one node has, if a step takes step_s. */
double wefti_advise_cost(const wefti_adviser *a, const weft_candidate *c, double step_s);

/* Behind the settings of a candidate that has room only with recomputed activations. */
#define WEFTI_RECOMPUTE " model.recompute=true"
bool wefti_advise_recomputes(const weft_candidate *c);

/* Whether the cluster has so many ranks that fewer variants are tried. */
bool wefti_advise_is_large(const wefti_adviser *a);

/* The share by which computing takes longer on several nodes, for what never divides and
 * for the slowest of them (advise_floor.c); and whether it is assumed at all. */
double wefti_advise_floor(const wefti_adviser *a, const weft_candidate *c);
bool wefti_advise_has_floor(const wefti_adviser *a);

/* Predicts a candidate with a wire of that rate; 0: the cluster's. Nothing in it is
 * owned. Everything is done in `ctx`. */
weft_status wefti_advise_predict(weft_ctx *ctx, const wefti_adviser *a,
                                 const weft_candidate *candidate, double bandwidth_Bps,
                                 weft_prediction *out) WEFT_CHECKED;

/* A candidate whose step is predicted at many points: its run is prepared once. The facts
 * of the adviser's cluster may change between two calls, its nodes and threads may not. */
typedef struct wefti_advised_run {
    const weft_candidate *candidate; /* borrowed */
    weft_config *config;             /* owned, as all below */
    wefti_planned_job planned;
    weft_predict_options options;
} wefti_advised_run;

weft_status wefti_advise_prepare(weft_ctx *ctx, const wefti_adviser *a,
                                 const weft_candidate *candidate,
                                 wefti_advised_run *out) WEFT_CHECKED;
void wefti_advise_unprepare(weft_ctx *ctx, wefti_advised_run *prepared);

/* The mean step of a prepared candidate, with a wire of that rate (0: the cluster's), in
 * an order of phases (wefti_forecast_step). */
weft_status wefti_advise_step(weft_ctx *ctx, const wefti_adviser *a,
                              const wefti_advised_run *prepared, double bandwidth_Bps,
                              int order, double *step_s) WEFT_CHECKED;

/* The candidate's configuration, and how it is predicted; *out owned by the caller. */
weft_status wefti_advise_configure(weft_ctx *ctx, const wefti_adviser *a,
                                   const weft_candidate *c, weft_predict_options *options,
                                   weft_config **out) WEFT_CHECKED;

/* wefti_machines_squeeze of its configuration. */
weft_status wefti_advise_squeeze(weft_ctx *ctx, const wefti_adviser *a,
                                 const weft_candidate *c, double *bytes) WEFT_CHECKED;

/* Sorts the machines, the fastest first; wefti_machines_drop frees the result. */
weft_status wefti_machines_sort(wefti_adviser *a) WEFT_CHECKED;
void wefti_machines_drop(wefti_adviser *a);

/* The slower way of a machine's interface. */
double wefti_machines_wire(const weft_link_facts *wire, const weft_machine *m);
double wefti_machines_way_out(const weft_link_facts *wire, const weft_machine *m);

/* A candidate's machines, [nodes] of the caller, numbered from 0: the fastest first, or as a run
 * does, in the order of the cluster's. */
void wefti_machines_number(const wefti_adviser *a, const weft_candidate *c, bool as_run,
                           weft_machine *out);

/* Gives `cluster` the machines of a candidate, numbered from 0. If the options say so,
 * they share the sequences (`rows` per rank) according to their speed. Freed by
 * wefti_advise_drop_facts. */
weft_status wefti_machines_take(weft_ctx *ctx, const wefti_adviser *a,
                                const weft_candidate *c, const weft_config *config,
                                int64_t rows, weft_cluster *cluster) WEFT_CHECKED;

/* Machines that differ: the sequences of a step by speed, of each of the cluster's nodes, 0 of
 * those that the candidate has not; NULL: they are alike. `config`: the candidate's; NULL: all have
 * room. [out] *rows for wefti_free. */
weft_status wefti_machines_shares(weft_ctx *ctx, const wefti_adviser *a,
                                  const weft_candidate *c, const weft_config *config,
                                  int64_t **rows) WEFT_CHECKED;

/* Where some machines have room for a candidate and others would by computing activations twice or
 * with smaller passes, as weft train finds it by itself: what ranks of those need. [out] *bytes
 * unchanged: it is not so. */
weft_status wefti_machines_squeeze(weft_ctx *ctx, const wefti_adviser *a,
                                   const weft_candidate *c, const weft_config *config,
                                   double *bytes) WEFT_CHECKED;

/* The slowest machine of a candidate that does so; node -1: none. */
typedef struct wefti_tight {
    int64_t node;
    double needs, has, slower; /* bytes of the others' ranks, of its own; times as long */
    bool twice, smaller, less; /* less: smaller passes alone would do */
} wefti_tight;

weft_status wefti_machines_tight(weft_ctx *ctx, const wefti_adviser *a,
                                 const weft_candidate *c, const weft_config *config,
                                 wefti_tight *out) WEFT_CHECKED;

/* Adds candidates whose nodes behind narrow ways out send in a codec of their own, where that pays;
 * recode finds the nodes again after the number of a candidate's has changed. */
weft_status wefti_advise_code_all(wefti_adviser *a) WEFT_CHECKED;
weft_status wefti_advise_recode(weft_ctx *ctx, const wefti_adviser *a,
                                weft_candidate *c) WEFT_CHECKED;

/* The least memory of a rank among the machines that a candidate takes if each needs `bytes`;
 * 0: not known. */
double wefti_machines_memory(const wefti_adviser *a, const weft_candidate *c,
                             double bytes);
bool wefti_machines_have_room(const wefti_adviser *a, const weft_candidate *c);

/* Sets advice->ranks by the options; the ranks of all machines of a candidate. */
weft_status wefti_advise_ranks(wefti_adviser *a) WEFT_CHECKED;
int64_t wefti_advice_ranks(const weft_advice *advice, const weft_candidate *c);

/* What a run on them needs at most; 0: not known. */
double wefti_advice_watt_hours(const weft_advice *advice, const weft_candidate *c);

/* The effect of a token on learning in the batch of `nodes` nodes, relative to that in
 * the batch of one node. */
double wefti_advise_efficiency(const wefti_adviser *a, int64_t nodes);

/* The cluster with measured units for the micro-batch of this configuration, in proportion
 * to its rows. wefti_advise_drop_facts frees the part that is not shared with `cluster`. */
weft_status wefti_advise_facts(weft_ctx *ctx, const weft_config *config,
                               const weft_cluster *cluster,
                               weft_cluster *out) WEFT_CHECKED;
void wefti_advise_drop_facts(weft_ctx *ctx, const weft_cluster *cluster,
                             weft_cluster *facts);

/* Runs tasks 0 to n - 1, several at the same time, each with a context of its own that
 * writes no log. The adviser's context gets the message of the first failure. */
typedef weft_status (*wefti_task)(weft_ctx *ctx, void *user, int64_t i);
weft_status wefti_advise_each(wefti_adviser *a, int64_t n, wefti_task task,
                              void *user) WEFT_CHECKED;

/* Parameters of the model on which the learning in the recipes was measured; the weight
 * of these results for a model of `parameters` parameters, 1: full; and the candidate's
 * `steps` and `steps_error` that follow (advise_steps.c). */
#define WEFTI_LEARNING_PARAMETERS 0.26e6
double wefti_learning_weight(int64_t parameters);
/* Of results of 200 steps, for a longer run; `recipe` NULL: the mean of all. */
double wefti_length_weight(const wefti_recipe *recipe, double steps);
void wefti_advise_steps(const wefti_adviser *a, weft_candidate *c);

/* Whether a candidate's learning was measured near enough to its size to be chosen. */
bool wefti_advise_reaches(const weft_candidate *c);

/* The most nodes that can share the batch; all of them if none can. */
int64_t wefti_advise_most_nodes(const wefti_adviser *a);

/* Whether the nodes of several sites are alike to a candidate: each is a member. */
bool wefti_advise_is_flat(const wefti_adviser *a, const weft_candidate *c);

/* Sorts the candidates and finds baseline, fastest and full. */
weft_status wefti_advise_rank(wefti_adviser *a) WEFT_CHECKED;

/* A smaller difference of logarithms of costs counts as none. */
#define WEFTI_NEARLY 0.05

/* The choice among n candidates with their costs on some wire; and the candidate with the
 * least expected cost; -1: there is none. */
int64_t wefti_advise_choose(const weft_candidate *candidates, const double *cost_s,
                            int64_t n);
int64_t wefti_advise_least(const weft_candidate *candidates, const double *cost_s,
                           int64_t n);

/* The most that a choice may cost: as level as that is. */
double wefti_advise_limit(const weft_advice *advice);

/* Curves, break-even rates and ranges of the best of each method; with options.rows only the
 * ranges of which the answer tells, and the rate of "measure first" when that is the answer. */
weft_status wefti_advise_curves(wefti_adviser *a) WEFT_CHECKED;
weft_status wefti_advise_break_even(wefti_adviser *a) WEFT_CHECKED;

/* The error of a prediction; the error of the difference of two candidates' costs; and
 * the factor by which failures lengthen a run. */
double wefti_advise_error(const wefti_adviser *a, const weft_candidate *c);
double wefti_advise_apart(const wefti_adviser *a, const weft_candidate *x, double x_s,
                          const weft_candidate *y, double y_s);
double wefti_advise_failures(const wefti_adviser *a, const weft_candidate *c,
                             double step_s);

/* Whether the others continue without a node that fails. */
bool wefti_advise_goes_on(const wefti_adviser *a, const weft_candidate *c);

/* The slow and the fast end of the facts (advise_ends.c); whether the wire is taken as RDMA;
 * whether a candidate's optimizer is Muon in place of the run's. */
void wefti_advise_ends(const wefti_adviser *a, wefti_point out[2]);
bool wefti_advise_is_rdma(const wefti_adviser *a);
bool wefti_advise_has_muon(const wefti_adviser *a, const weft_candidate *c);

/* Finds the outlooks, and decides by them: headline and worth; the choice may change. */
weft_status wefti_advise_outlook(wefti_adviser *a) WEFT_CHECKED;
void wefti_advise_decide(weft_advice *advice);

/* Writes the answer; and the paragraphs. */
weft_status wefti_advise_answer(wefti_adviser *a) WEFT_CHECKED;
weft_status wefti_advise_words(wefti_adviser *a) WEFT_CHECKED;

/* "100 Mbit/s", "25 Gbit/s": writes to out and returns it. */
const char *wefti_rate_text(double bandwidth_Bps, char *out, size_t out_size);

/* "1.23 s", "45 ms". */
const char *wefti_seconds_text(double seconds, char *out, size_t out_size);
