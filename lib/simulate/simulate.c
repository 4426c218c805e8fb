/* SPDX-License-Identifier: MIT */
/* A long run on many machines, and what its time is spent on. Four runs in arrays
 * separate the causes:
 *
 *     bare      no links, no coding        computing only
 *     coding    no links                   + time of codecs and optimizers
 *     calm      machines all alike         + time of the wire
 *     all       jitter, slow nodes, links  + time of waiting for each other
 *
 * so each difference is one cause, and the differences add up to the whole. Failures are
 * then applied to the steps of the last run, as a Poisson process of all nodes together: a
 * failure sends the run back to its last checkpoint, and costs the restart and the repeated
 * steps. This needs no further simulation: the lengths of the steps are played once.
 *
 * A wire that is slower for some hours of each day is slower for the steps that begin in
 * them, by the clock of the mean node without failures. The additional time of such a
 * step on calm machines is attributed to the wire. */
#include <weft/simulate.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/sized.h"
#include "simulate/arrayplayer.h"
#include "simulate/forecast.h"

enum { WARMUP = 4, CALM_STEPS = 64, WATCHED = 64, MOST_NODES = 65536, ENDLESS = 1 << 30 };
enum { MOST_STEPS = 10000000, MOST_FAILURES = 1000000 };
static const double day_s = 86400;
enum { DRAW_NODE = 1, DRAW_LINK, DRAW_FAILURE };

typedef struct simulation {
    weft_ctx *ctx;
    const weft_simulate_options *options;
    weft_cluster cluster;      /* without pairs; its lists are borrowed */
    wefti_planned_job planned; /* owned, like what follows */
    wefti_job *job;            /* of it */
    wefti_timed *timed;
    wefti_partner_lists *partners;
    float *slower, *slower_links; /* [nodes] */
    int64_t steps;
    double *lengths; /* [steps] of the mean node */
    double *watched; /* [steps][n_watched] of some */
    int n_watched;
    double mean_compute_s, ahead_s;
    int64_t n_busy; /* steps in the busy hours */
} simulation;

/* --- options --- */

static weft_status check_share(weft_ctx *ctx, const char *what, double share,
                               double factor) {
    if (share >= 0 && share <= 1 && (factor == 0 || (factor >= 1 && factor <= 1e6)))
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "a share of %g of the %s slower by a factor of %g, expected a "
                         "share from 0 to 1 and a factor from 1 to 1e6",
                         share, what, factor);
}

static weft_status check_options(weft_ctx *ctx, const weft_simulate_options *o) {
    WEFT_TRY(check_share(ctx, "nodes", o->slow_nodes, o->slow_factor));
    WEFT_TRY(check_share(ctx, "links", o->slow_links, o->slow_link_factor));
    if (o->nodes < 0 || o->nodes > MOST_NODES || o->steps < 0 || o->steps > MOST_STEPS)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%lld nodes and %lld steps, expected at most %d and %d",
                             (long long)o->nodes, (long long)o->steps, (int)MOST_NODES,
                             (int)MOST_STEPS);
    bool times = o->failure_s >= 0 && o->restart_s >= 0 && o->save_s >= 0 &&
                 isfinite(o->failure_s + o->restart_s + o->save_s);
    bool busy = o->busy_s > 0;
    if (busy && !(o->busy_s <= day_s && o->busy_share > 0 && o->busy_share <= 1))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "busy for %g s of a day with %g of the wire's rate, "
                             "expected at most %g s and a share above 0, at most 1",
                             o->busy_s, o->busy_share, day_s);
    if (times && o->save_every >= 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "failures every %g s, restarts of %g s, checkpoints of %g s "
                         "every %lld steps: expected no negative number",
                         o->failure_s, o->restart_s, o->save_s, (long long)o->save_every);
}

static weft_status check_config(weft_ctx *ctx, const weft_config *c) {
    if (c->mesh.sites > 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mesh.sites is %lld, expected 1: long runs between sites "
                             "are not simulated, weft_predict takes them",
                             (long long)c->mesh.sites);
    if (c->mixer.deadline > 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.deadline is %g s, expected 0: long runs that leave "
                             "late neighbours out are not simulated",
                             c->mixer.deadline);
    return WEFT_OK;
}

/* Draws the nodes or links that are slower: each with probability `share`, depending only
 * on the seed. */
static weft_status draw_slow(simulation *s, double share, int what, double factor,
                             float **out) {
    int64_t n = s->planned.config->mesh.nodes;
    if (share == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(s->ctx, n, sizeof **out, "the nodes", out));
    for (int64_t i = 0; i < n; i++) {
        double u = wefti_rng_uniform(s->options->seed, WEFTI_STREAM_JITTER,
                                     UINT64_MAX - 1, 4 * (uint64_t)i + (uint64_t)what);
        (*out)[i] = u < share ? (float)factor : 1;
    }
    return WEFT_OK;
}

static double factor_or_two(double factor) { return factor > 0 ? factor : 2; }

static weft_status prepare(simulation *s, const weft_config *config,
                           const weft_cluster *cluster) {
    const weft_simulate_options *o = s->options;
    WEFT_TRY(check_config(s->ctx, config));
    s->steps = o->steps ? o->steps : config->run.steps;
    s->cluster = *cluster;
    s->cluster.n_pairs = 0;
    WEFT_TRY(wefti_forecast_plan(s->ctx, config, cluster,
                                 o->nodes > 0 ? o->nodes : config->mesh.nodes,
                                 &s->planned));
    s->job = s->planned.job;
    s->job->mixer_config.steps = ENDLESS;
    WEFT_TRY(draw_slow(s, o->slow_nodes, DRAW_NODE, factor_or_two(o->slow_factor),
                       &s->slower));
    WEFT_TRY(draw_slow(s, o->slow_links, DRAW_LINK, factor_or_two(o->slow_link_factor),
                       &s->slower_links));
    WEFT_TRY(wefti_partner_lists_create(s->ctx, s->job, &s->partners));
    return wefti_timed_create(s->ctx, &s->cluster, s->job, false, &s->timed);
}

/* --- runs --- */

/* Plays a step. The part that can fail comes first. */
static weft_status take_step(simulation *s, wefti_array_player *e, int64_t step) {
    const wefti_partner_list *list;
    WEFT_TRY(wefti_partner_lists_look_up(s->partners, s->job, step, &list));
    WEFT_TRY(wefti_partner_lists_look_up(s->partners, s->job, step + 1, &list));
    wefti_array_player_step(e);
    return WEFT_OK;
}

static double mean_of(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum / n;
}

/* Mean length of a step on machines that are all alike. */
static weft_status run_calm(simulation *s, const wefti_weather *weather, double *out) {
    wefti_array_player *e;
    int64_t cycle = wefti_forecast_cycle(s->job), warmup = WARMUP + s->job->lag.status;
    int64_t n = (CALM_STEPS + cycle - 1) / cycle * cycle;
    double begin_s = 0;
    WEFT_TRY(wefti_array_player_create(s->timed, s->partners, weather, &e));
    weft_status status = WEFT_OK;
    for (int64_t t = 0; t < warmup + n && status == WEFT_OK; t++) {
        status = take_step(s, e, t);
        if (t == warmup - 1) begin_s = mean_of(wefti_array_player_settled(e), s->job->R);
    }
    *out = (mean_of(wefti_array_player_settled(e), s->job->R) - begin_s) / (double)n;
    wefti_array_player_destroy(e);
    return status;
}

/* Finds the fastest order of phases, and its time. */
static weft_status choose_order(simulation *s, wefti_weather *weather, double *out) {
    int orders[WEFTI_ARRAY_ORDERS];
    int n = wefti_array_orders(s->timed->shards[0].arrangement->n_buckets, orders);
    int best = orders[0];
    *out = INFINITY;
    for (int i = 0; i < n; i++) {
        double step_s;
        weather->ahead = orders[i];
        WEFT_TRY(run_calm(s, weather, &step_s));
        if (step_s >= *out) continue;
        *out = step_s;
        best = orders[i];
    }
    weather->ahead = best;
    return WEFT_OK;
}

static double spread_of(const double *x, int n) {
    double low = x[0], high = x[0];
    for (int i = 1; i < n; i++) {
        low = fmin(low, x[i]);
        high = fmax(high, x[i]);
    }
    return high - low;
}

/* Records the steps of some replicas, spread evenly among all. */
static void watch(simulation *s, const double *settled, double *before, int64_t step) {
    int R = s->job->R;
    for (int k = 0; k < s->n_watched; k++) {
        int i = (int)((int64_t)k * R / s->n_watched);
        if (step >= 0) s->watched[step * s->n_watched + k] = settled[i] - before[k];
        before[k] = settled[i];
    }
}

/* Sets the rate of the wire for a step that begins at now_s: busy hours or not. */
static void set_hours(simulation *s, wefti_array_player *e, double now_s) {
    const weft_simulate_options *o = s->options;
    bool busy = o->busy_s > 0 && fmod(now_s, day_s) < o->busy_s;
    wefti_array_player_slow_wire(e, busy ? 1 / o->busy_share : 1);
    s->n_busy += busy;
}

static weft_status run_all(simulation *s, const wefti_weather *weather) {
    wefti_array_player *e;
    double before[WATCHED], last_s = 0, begun_s = 0, sum_s = 0;
    int64_t warmup = WARMUP + s->job->lag.status;
    WEFT_TRY(wefti_array_player_create(s->timed, s->partners, weather, &e));
    weft_status status = WEFT_OK;
    const double *settled = wefti_array_player_settled(e);
    for (int64_t t = -warmup; t < s->steps && status == WEFT_OK; t++) {
        if (t == 0) begun_s = last_s;
        if (t >= 0) set_hours(s, e, last_s - begun_s);
        status = take_step(s, e, t + warmup);
        double now_s = mean_of(settled, s->job->R);
        watch(s, settled, before, t);
        if (t >= 0) {
            s->lengths[t] = now_s - last_s;
            sum_s += wefti_array_player_compute_s(e);
        }
        last_s = now_s;
    }
    s->mean_compute_s = sum_s / (double)s->steps;
    s->ahead_s = spread_of(settled, s->job->R);
    wefti_array_player_destroy(e);
    return status;
}

/* --- failures --- */

/* Seconds up to the next failure of any node: exponential, failure_s is one node's mean. */
static double draw_gap(const simulation *s, int64_t number) {
    double u = wefti_rng_uniform(s->options->seed, WEFTI_STREAM_JITTER, UINT64_MAX - 2,
                                 4 * (uint64_t)number + DRAW_FAILURE);
    if (s->options->failure_s <= 0) return INFINITY;
    return -log(1 - u) * s->options->failure_s / (double)s->planned.config->mesh.nodes;
}

/* Whether the others continue after a failure. It then costs them the time until the node
 * is given up, and the node's share of the work until it returns; failures are assumed to
 * be far apart. */
static bool goes_on(const simulation *s) {
    const wefti_job *job = s->job;
    return !s->options->roll_back && job->R > 1 && job->site.n == 1 &&
           strcmp(job->config->mesh.on_loss, "go_on") == 0;
}

static void strike_one(simulation *s, weft_simulation *out) {
    const weft_simulate_options *o = s->options;
    int64_t every = o->save_every ? o->save_every : s->planned.config->run.save_every;
    double now_s = 0, strikes_s = draw_gap(s, 0);
    double each_s = s->planned.config->elastic.silence + o->restart_s / s->job->R;
    for (int64_t t = 0; t < s->steps; t++) {
        bool saves = every > 0 && (t + 1) % every == 0;
        now_s += s->lengths[t] + (saves ? o->save_s : 0);
        out->lost.saving_s += saves ? o->save_s : 0;
        for (; now_s > strikes_s && out->failures < MOST_FAILURES; now_s += each_s) {
            strikes_s += each_s + draw_gap(s, ++out->failures);
            out->lost.restart_s += each_s;
        }
    }
    out->elapsed_s = now_s;
}

/* Applies the failures to the run: a failure of any node sends all nodes back to the
 * checkpoint. */
static weft_status strike(simulation *s, weft_simulation *out) {
    const weft_simulate_options *o = s->options;
    if (goes_on(s)) {
        strike_one(s, out);
        return WEFT_OK;
    }
    int64_t every = o->save_every ? o->save_every : s->planned.config->run.save_every,
            saved = 0;
    double now_s = 0, since_s = 0, strikes_s = draw_gap(s, 0);
    for (int64_t t = 0; t < s->steps;) {
        bool saves = every > 0 && (t + 1) % every == 0;
        double length_s = s->lengths[t] + (saves ? o->save_s : 0);
        if (now_s + length_s > strikes_s) {
            out->lost.repeated_s += since_s + strikes_s - now_s;
            out->lost.restart_s += o->restart_s;
            now_s = strikes_s + o->restart_s;
            strikes_s = now_s + draw_gap(s, ++out->failures);
            since_s = 0;
            t = saved;
            if (out->failures < MOST_FAILURES) continue;
            return weft_ctx_fail(s->ctx, WEFT_ERR_CONFIG,
                                 "the run does not get beyond step %lld in %d failures, "
                                 "expected checkpoints closer to each other than "
                                 "failures of %lld nodes",
                                 (long long)t, (int)MOST_FAILURES,
                                 (long long)s->planned.config->mesh.nodes);
        }
        now_s += length_s;
        since_s += length_s;
        t++;
        if (!saves) continue;
        out->lost.saving_s += o->save_s;
        saved = t;
        since_s = 0;
    }
    out->elapsed_s = now_s;
    return WEFT_OK;
}

/* --- figures --- */

static weft_status run_both(simulation *s, weft_simulation *out) {
    const weft_simulate_options *o = s->options;
    wefti_weather bare = {.alike = true, .no_wire = true, .no_work = true};
    wefti_weather coding = {.alike = true, .no_wire = true};
    wefti_weather calm = {
        .alike = true, .seed = o->seed, .slower_links = s->slower_links};
    double bare_s, coding_s, calm_s, busy_s, n = (double)s->steps, sum_s = 0;
    WEFT_TRY(choose_order(s, &calm, &calm_s));
    bare.ahead = coding.ahead = calm.ahead;
    wefti_weather all = calm;
    all.alike = false;
    all.jitter = true;
    all.slower = s->slower;
    wefti_weather busy = calm;
    busy.slower_wire = o->busy_s > 0 ? 1 / o->busy_share : 1;
    WEFT_TRY(run_calm(s, &busy, &busy_s));
    WEFT_TRY(run_calm(s, &bare, &bare_s));
    WEFT_TRY(run_calm(s, &coding, &coding_s));
    WEFT_TRY(run_all(s, &all));
    for (int64_t t = 0; t < s->steps; t++) sum_s += s->lengths[t];
    /* Machines that vary can settle into a faster steady state than equal ones; then the
     * variation costs nothing. */
    calm_s = fmin(calm_s, sum_s / n);
    coding_s = fmin(coding_s, calm_s);
    bare_s = fmin(bare_s, coding_s);
    double nominal_s = fmin(bare_s, s->timed->paced_s + s->cluster.rest_s);
    out->compute_s = n * bare_s;
    out->calm_step_s = calm_s;
    out->mean_step_s = sum_s / n;
    out->lost.codec_s = n * (coding_s - bare_s);
    out->lost.wire_s = n * (calm_s - coding_s);
    double hours_s = (double)s->n_busy * fmax(0, busy_s - calm_s);
    hours_s = fmin(hours_s, fmax(0, sum_s - n * calm_s));
    out->lost.wire_s += hours_s;
    double uneven_s = fmax(0, sum_s - n * calm_s - hours_s);
    out->lost.slow_s = fmin(uneven_s, fmax(0, n * (s->mean_compute_s - nominal_s)));
    out->lost.waiting_s = uneven_s - out->lost.slow_s;
    return WEFT_OK;
}

static weft_status simulate(simulation *s, weft_simulation *out) {
    const wefti_job *job = s->job;
    s->n_watched = job->R < WATCHED ? job->R : WATCHED;
    WEFT_TRY(wefti_alloc_n(s->ctx, s->steps, sizeof(double), "steps", &s->lengths));
    WEFT_TRY(wefti_alloc_n(s->ctx, s->steps * s->n_watched, sizeof(double), "steps",
                           &s->watched));
    WEFT_TRY(run_both(s, out));
    WEFT_TRY(strike(s, out));
    out->wire_bytes_step = wefti_forecast_bytes(s->timed);
    out->step_s = wefti_forecast_quantiles(s->watched, s->steps * s->n_watched);
    out->nodes = s->planned.config->mesh.nodes;
    out->steps = s->steps;
    out->ahead_s = s->ahead_s;
    out->tokens = (double)(job->batch.per_step * job->T) * (double)s->steps;
    out->tokens_per_s = out->elapsed_s > 0 ? out->tokens / out->elapsed_s : 0;
    return WEFT_OK;
}

weft_status weft_simulate(weft_ctx *ctx, const weft_config *config,
                          const weft_cluster *cluster,
                          const weft_simulate_options *options, weft_simulation *out) {
    WEFTI_SIZED_IN(ctx, weft_simulate_options, options);
    WEFTI_SIZED_OUT(ctx, weft_simulation, out);
    simulation s = {.ctx = ctx, .options = options};
    *out = (weft_simulation){.struct_size = sizeof(weft_simulation)};
    WEFT_TRY(check_options(ctx, options));
    weft_status status = prepare(&s, config, cluster);
    if (status == WEFT_OK) status = simulate(&s, out);
    wefti_timed_destroy(ctx, s.timed);
    wefti_partner_lists_destroy(ctx, s.partners);
    wefti_forecast_drop(ctx, &s.planned);
    WEFTI_FREE(ctx, s.slower, s.slower_links, s.lengths, s.watched);
    return WEFTI_SIZED_GIVE(weft_simulation, out, status);
}
