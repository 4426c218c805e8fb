/* SPDX-License-Identifier: MIT */
/* Predictions in arrays: the requested number of steps, of all replicas at once, also for
 * jobs of more nodes than a run can have. The tokens of a step grow with the nodes, so that
 * each node computes as before; the bytes per node follow from the method (job/traffic.c). */
#include <math.h>

#include "base/memory.h"
#include "base/stats.h"
#include "mix/mixer.h"
#include "simulate/arrayplayer.h"
#include "simulate/forecast.h"
#include "simulate/player.h"

/* Shared by predictions with events, with arrays, and of long runs: the number of steps
 * after which a method's exchanges repeat, and quantiles. */

enum { MOST_STEPS = 4096 };

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

int64_t wefti_forecast_cycle(const wefti_job *job) {
    const wefti_mixer_config *m = &job->mixer_config;
    const weft_topology *met = job->gossip.topology;
    int64_t rounds = met ? weft_topology_describe(met)->period : 1;
    int64_t period = rounds * wefti_mixer_period(m); /* a round in each */
    int64_t parts[] = {job->replicator_config.every,
                       job->site.n > 1 ? job->site_replicator_config.every : 1,
                       wefti_mixer_period(m), period > 0 ? period : 1,
                       met && m->average_every > 0 ? m->average_every : 1};
    int64_t cycle = 1;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int64_t more = parts[i] / gcd(cycle, parts[i]);
        if (more > MOST_STEPS / cycle) return MOST_STEPS;
        cycle *= more;
    }
    return cycle;
}

weft_quantiles wefti_forecast_quantiles(double *values, int64_t n) {
    return (weft_quantiles){wefti_quantile(values, n, 0.05),
                            wefti_quantile(values, n, 0.5),
                            wefti_quantile(values, n, 0.95)};
}

enum { MOST_NODES = 65536, PARTNER_RANKS = 1024 };

weft_status wefti_forecast_spread(weft_ctx *ctx, weft_config *config, int64_t nodes) {
    int64_t each = config->batch.tokens_per_step / config->mesh.nodes;
    if (nodes < 1 || nodes > MOST_NODES)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "%lld nodes, expected 1 to %d",
                             (long long)nodes, (int)MOST_NODES);
    if (wefti_mixer_find(config->mixer.kind)->keeps_partners &&
        nodes * config->mesh.ranks_per_node > PARTNER_RANKS)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mixer.kind is %s on %lld nodes, expected at most %d ranks",
                             config->mixer.kind, (long long)nodes, (int)PARTNER_RANKS);
    config->mesh.nodes = nodes;
    config->batch.tokens_per_step = each * nodes;
    return WEFT_OK;
}

/* Counts the bytes in a cycle of the steady state, or in the whole run if it ends before:
 * its last step sends nothing, since no later step would read it. */
double wefti_forecast_bytes(const wefti_timed *timed) {
    const wefti_job *job = timed->job;
    int64_t n = wefti_forecast_cycle(job), first = 4 * n, all = 0;
    int64_t run = job->config->run.steps;
    if (first + n >= run) first = 0, n = run;
    for (int shard = 0; shard < job->S; shard++)
        for (int copy = 0; copy < job->copies; copy++)
            all += wefti_job_wire_bytes(job, timed->shards[shard].arrangement, copy,
                                        first, n);
    return (double)all / (double)n;
}

/* Steps played, from the first one on. */
typedef struct record {
    wefti_played sum;
    double *lengths; /* [n][R] owned */
    int64_t n;
} record;

static void add(wefti_played *sum, const wefti_played *one) {
    sum->step_s += one->step_s;
    sum->exchange_s += one->exchange_s;
    sum->wait_s += one->wait_s;
    sum->codec_s += one->codec_s;
    sum->wire_s += one->wire_s;
    sum->late_s += one->late_s;
    sum->status_s += one->status_s;
}

static weft_status take_step(const wefti_timed *timed, wefti_partner_lists *partners,
                             wefti_array_player *e, int64_t step) {
    const wefti_partner_list *list; /* the look-up may fail, the step cannot */
    WEFT_TRY(wefti_partner_lists_look_up(partners, timed->job, step, &list));
    WEFT_TRY(wefti_partner_lists_look_up(partners, timed->job, step + 1, &list));
    wefti_array_player_step(e);
    return WEFT_OK;
}

/* Ends early when the steps have taken limit_s: then this order is not the fastest. */
static weft_status play_steps(const wefti_timed *timed, wefti_partner_lists *partners,
                              const wefti_weather *weather, double limit_s, record *out) {
    wefti_array_player *e;
    int R = timed->job->R;
    out->sum = (wefti_played){0};
    WEFT_TRY(wefti_array_player_create(timed, partners, weather, &e));
    const double *settled = wefti_array_player_settled(e);
    weft_status status = WEFT_OK;
    for (int64_t t = 0; t < out->n && status == WEFT_OK; t++) {
        if (out->sum.step_s >= limit_s) break;
        double *lengths = out->lengths + t * R;
        for (int i = 0; i < R; i++) lengths[i] = -settled[i];
        status = take_step(timed, partners, e, t);
        for (int i = 0; i < R; i++) lengths[i] += settled[i];
        wefti_played one = wefti_array_player_played(e);
        add(&out->sum, &one);
    }
    wefti_array_player_destroy(e);
    return status;
}

static void take(const wefti_timed *timed, const record *r, bool mean_only,
                 weft_prediction *out) {
    const wefti_played *s = &r->sum;
    double each = 1 / (double)r->n;
    out->mean_step_s = each * s->step_s;
    out->exchange_s = each * s->exchange_s;
    out->wait_s = each * s->wait_s;
    out->wire_s = each * s->wire_s;
    out->late_s = each * s->late_s;
    /* the rest, as with events */
    out->codec_s = fmax(0, out->wait_s - out->wire_s - out->late_s);
    out->vote_s = each * s->status_s;
    out->compute_s = out->mean_step_s - out->wait_s;
    if (mean_only) return;
    out->step_s = wefti_forecast_quantiles(r->lengths, r->n * timed->job->R);
    out->wire_bytes = wefti_forecast_bytes(timed);
}

/* Nothing waits for anything: no other order can be faster. */
static bool only_computes(const record *r) {
    return r->sum.wait_s + r->sum.status_s <= 0;
}

/* The orders that this job can be played in. */
static int orders_of(const wefti_timed *timed, int out[WEFTI_ARRAY_ORDERS]) {
    int n = wefti_array_orders(timed->shards[0].arrangement->n_buckets, out);
    return timed->job->R == 1 ? 1 : n;
}

/* *best <- the steps in the fastest order; *other is room for one more record. */
static weft_status play_orders(const wefti_timed *timed, wefti_partner_lists *partners,
                               wefti_weather *weather, record *best, record *other) {
    int orders[WEFTI_ARRAY_ORDERS], n = orders_of(timed, orders);
    WEFT_TRY(play_steps(timed, partners, weather, INFINITY, best));
    for (int i = 1; i < n && !only_computes(best); i++) {
        weather->ahead = orders[i];
        WEFT_TRY(play_steps(timed, partners, weather, best->sum.step_s, other));
        if (other->sum.step_s >= best->sum.step_s) continue;
        record less = *other;
        *other = *best;
        *best = less;
    }
    return WEFT_OK;
}

weft_status wefti_forecast_arrays(const wefti_timed *timed, const wefti_play *play,
                                  weft_prediction *out) {
    wefti_weather weather = {
        .jitter = !play->calm, .seed = play->seed, .primed = play->warmup > 0};
    record best = {.n = play->steps - play->warmup}, other = best;
    wefti_partner_lists *partners;
    weft_ctx *ctx = timed->ctx;
    int64_t n = best.n * timed->job->R;
    int orders[WEFTI_ARRAY_ORDERS];
    if (play->order > orders_of(timed, orders)) {
        out->mean_step_s = INFINITY;
        return WEFT_OK;
    }
    if (play->order > 0) weather.ahead = orders[play->order - 1];
    WEFT_TRY(wefti_partner_lists_create(ctx, timed->job, &partners));
    weft_status status = wefti_alloc_n(ctx, n, sizeof(double), "steps", &best.lengths);
    if (status == WEFT_OK)
        status = wefti_alloc_n(ctx, n, sizeof(double), "steps", &other.lengths);
    if (status == WEFT_OK && play->order > 0)
        status = play_steps(timed, partners, &weather, INFINITY, &best);
    else if (status == WEFT_OK)
        status = play_orders(timed, partners, &weather, &best, &other);
    if (status == WEFT_OK) take(timed, &best, play->mean_only, out);
    WEFTI_FREE(ctx, best.lengths, other.lengths);
    wefti_partner_lists_destroy(ctx, partners);
    return status;
}
