/* SPDX-License-Identifier: MIT */
/* A candidate's prediction: for another framework in closed form (framework.c), else by
 * the runtime model (weft_predict). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/layers.h"
#include "planner/advise.h"
#include "planner/framework.h"
#include "simulate/forecast.h"

enum { FEW_RANKS = 200, FEW_NODES = 4 };
static const double day_s = 86400;

static double factor_of(double factor) { return factor > 0 ? factor : 1; }

static void scale_link(weft_link_facts *link, double ratio) {
    link->bandwidth_Bps *= ratio;
    link->up_Bps *= ratio;
}

/* Scales the wire between nodes, with what was measured of single machines and pairs. The
 * list of machines belongs to the candidate, so it may be changed. */
static weft_status scale_wire(weft_ctx *ctx, const wefti_adviser *a, double ratio,
                              weft_cluster *cluster) {
    scale_link(&cluster->wire, ratio);
    for (int64_t i = 0;
         i < cluster->n_machines && cluster->machines != a->cluster.machines; i++) {
        cluster->machines[i].bandwidth_Bps *= ratio;
        cluster->machines[i].up_Bps *= ratio;
    }
    if (cluster->n_pairs == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, cluster->n_pairs, sizeof *cluster->pairs, "links",
                           &cluster->pairs));
    for (int64_t i = 0; i < cluster->n_pairs; i++) {
        cluster->pairs[i] = a->cluster.pairs[i];
        cluster->pairs[i].bandwidth_Bps *= ratio;
    }
    return WEFT_OK;
}

bool wefti_advise_is_flat(const wefti_adviser *a, const weft_candidate *c) {
    int64_t sites = a->cluster.sites;
    return sites > 1 && c->sites <= 1 && c->nodes > a->cluster.nodes / sites;
}

static double least(double x, double most) { return x > 0 ? fmin(x, most) : x; }

/* One wire that is no better than either: its share of the link that a site's nodes use
 * together, and the longer way. */
static void flatten(const wefti_adviser *a, weft_cluster *cluster) {
    weft_link_facts *wire = &cluster->wire, *site = &cluster->site;
    double together = (double)(a->cluster.nodes / a->cluster.sites);
    double share_Bps = site->bandwidth_Bps / together, up_Bps = site->up_Bps / together;
    if (wire->up_Bps > 0 || up_Bps > 0)
        wire->up_Bps = fmin(wire->up_Bps > 0 ? wire->up_Bps : wire->bandwidth_Bps,
                            up_Bps > 0 ? up_Bps : share_Bps);
    wire->bandwidth_Bps = fmin(wire->bandwidth_Bps, share_Bps);
    wire->latency_s = fmax(wire->latency_s, site->latency_s);
    wire->loss = fmax(wire->loss, site->loss);
    wire->jitter_s = fmax(wire->jitter_s, site->jitter_s);
    wire->message_s = fmax(wire->message_s, site->message_s);
    for (int64_t i = 0; i < cluster->n_machines; i++) {
        weft_machine *m = &cluster->machines[i];
        m->bandwidth_Bps = least(m->bandwidth_Bps, wire->bandwidth_Bps);
        m->up_Bps = least(m->up_Bps, up_Bps > 0 ? up_Bps : share_Bps);
    }
    for (int64_t i = 0; i < cluster->n_pairs; i++) {
        weft_link_pair *p = &cluster->pairs[i];
        p->bandwidth_Bps = fmin(p->bandwidth_Bps, wire->bandwidth_Bps);
        p->latency_s = fmax(p->latency_s, wire->latency_s);
    }
}

/* Sets another rate of the wire (with sites: of that between them), and moves all facts to
 * the adviser's point between their ends. */
static weft_status set_rates(weft_ctx *ctx, const wefti_adviser *a,
                             const weft_candidate *c, double bandwidth_Bps,
                             weft_cluster *cluster) {
    bool sites = cluster->sites > 1;
    weft_link_facts *link = sites ? &cluster->site : &cluster->wire;
    double wire = factor_of(a->at.wire), computing = factor_of(a->at.computing);
    computing /= 1 + wefti_advise_floor(a, c);
    cluster->stream_Bps *= wire;
    if (c->nodes > 1) cluster->rest_s += a->constant_s * factor_of(a->at.constant);
    double ratio = bandwidth_Bps > 0 ? bandwidth_Bps / link->bandwidth_Bps : 1;
    /* of 6 FLOP per weight and token 2 are of its gradient */
    double trainable = a->options.trainable > 0 ? a->options.trainable : 1;
    computing *= 6 / (4 + 2 * trainable);
    if (!c->framework[0] && trainable < 1) { /* so many bytes less */
        ratio /= sites ? trainable : 1;
        wire /= trainable;
        cluster->memory_Bps /= trainable;
        cluster->matrix_share = trainable; /* of adapters at most that */
        double flows = fmax(1, (double)cluster->flows) /
                       trainable; /* their limits, too */
        cluster->flows = (int64_t)fmin(ceil(flows), 1e15);
    }
    cluster->rank_flops *= computing;
    cluster->rank_flops_bf16 *= computing;
    for (int64_t i = 0;
         i < cluster->n_machines && cluster->machines != a->cluster.machines; i++)
        cluster->machines[i].rank_flops *= computing;
    if (sites) scale_link(&cluster->site, ratio * factor_of(a->at.wire));
    if (!sites) wire *= ratio;
    bool flat = wefti_advise_is_flat(a, c);
    if (wire < 1 || wire > 1 || flat) WEFT_TRY(scale_wire(ctx, a, wire, cluster));
    if (flat) flatten(a, cluster);
    return WEFT_OK;
}

/* Whether all steps at the same place of a cycle are equal. */
static bool is_calm(const weft_cluster *c) {
    const weft_jitter *j = &c->jitter;
    return j->spread <= 0 && j->drift <= 0 && j->stall_share <= 0 && c->n_steps == 0;
}

/* Number of steps to play: fewer with more ranks, with very deep models and on calm
 * machines, but whole cycles of methods that do not exchange in every step. */
static int64_t steps_of(const wefti_adviser *a, const weft_config *config,
                        int64_t ranks) {
    enum { FEW = 2, LEAST = 10, MOST = 200, DEEP = 64 };
    int64_t n = a->work / ranks, layers = config->model.layers;
    int64_t round = wefti_job_period(config);
    if (a->options.steps > 0) return a->options.steps;
    if (n > MOST) n = MOST;
    if (layers > DEEP) n = n * DEEP / layers;
    int64_t least = layers > DEEP && is_calm(&a->cluster) ? FEW : LEAST;
    if (n < least) n = least;
    n = (n + round - 1) / round * round;
    return n < config->run.steps ? n : config->run.steps;
}

/* ---- facts ---- */

/* The place of the number of rows in a key (weft_cluster_model_key); NULL: there is none. */
static const char *rows_in(const char *key) {
    static const char word[] = " rows ";
    const char *at = strstr(key, word);
    return at ? at + strlen(word) : NULL;
}

/* Reads the rows of two keys that are otherwise equal; false if they are not. */
static bool compare_keys(const char *a, const char *b, double *rows_a, double *rows_b) {
    const char *x = rows_in(a), *y = rows_in(b);
    char *end_x, *end_y;
    if (!x || !y || x - a != y - b || strncmp(a, b, (size_t)(x - a)) != 0) return false;
    *rows_a = wefti_strtod(x, &end_x);
    *rows_b = wefti_strtod(y, &end_y);
    return strcmp(end_x, end_y) == 0 && *rows_a > 0 && *rows_b > 0;
}

/* Otherwise one candidate would be predicted from measured units and another from FLOP per
 * second, and the difference would come from the facts, not from the candidates. */
weft_status wefti_advise_facts(weft_ctx *ctx, const weft_config *config,
                               const weft_cluster *cluster, weft_cluster *out) {
    char key[sizeof cluster->model];
    double measured, wanted;
    *out = *cluster;
    if (cluster->n_units == 0) return WEFT_OK;
    WEFT_TRY(weft_cluster_model_key(ctx, config, cluster->threads, key));
    if (strcmp(key, cluster->model) == 0 ||
        !compare_keys(cluster->model, key, &measured, &wanted))
        return WEFT_OK;
    WEFT_TRY(
        wefti_alloc_n(ctx, cluster->n_units, sizeof *out->units, "units", &out->units));
    for (int64_t i = 0; i < cluster->n_units; i++) {
        out->units[i] = cluster->units[i];
        out->units[i].forward_s *= wanted / measured;
        out->units[i].backward_s *= wanted / measured;
    }
    memcpy(out->model, key, sizeof key);
    return WEFT_OK;
}

void wefti_advise_drop_facts(weft_ctx *ctx, const weft_cluster *cluster,
                             weft_cluster *facts) {
    if (facts->units != cluster->units) wefti_free(ctx, facts->units);
    if (facts->pairs != cluster->pairs) wefti_free(ctx, facts->pairs);
    if (facts->machines != cluster->machines) wefti_free(ctx, facts->machines);
}

/* The facts for a candidate's configuration; wefti_advise_drop_facts after it, also if it
 * fails. */
static weft_status take_facts(weft_ctx *ctx, const wefti_adviser *a,
                              const weft_candidate *c, const weft_config *config,
                              double bandwidth_Bps, weft_cluster *cluster) {
    int64_t ranks = c->nodes * c->ranks_per_node;
    int64_t rows = wefti_advise_tokens(a, c->nodes) / wefti_advise_length(a) / ranks;
    WEFT_TRY(wefti_advise_facts(ctx, config, &a->cluster, cluster));
    WEFT_TRY(wefti_machines_take(ctx, a, c, config, rows, cluster));
    return set_rates(ctx, a, c, bandwidth_Bps, cluster);
}

/* ---- many ranks ---- */

bool wefti_advise_is_large(const wefti_adviser *a) {
    return a->cluster.nodes * a->cluster.ranks_per_node > FEW_RANKS;
}

/* Whether the candidate may have more nodes than a run can have. */
static bool is_spread(const weft_candidate *c) {
    return c->nodes * c->ranks_per_node > FEW_RANKS && c->sites <= 1;
}

/* Says which batches all ranks can share. */
static weft_status refuse_batch(weft_ctx *ctx, const wefti_adviser *a,
                                const weft_candidate *c) {
    long long tokens = wefti_advise_tokens(a, c->nodes), T = wefti_advise_length(a);
    long long ranks = c->nodes * c->ranks_per_node, unit = ranks * T;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "batch.tokens_per_step is %lld, expected a multiple of %lld "
                         "(%lld ranks times %lld positions of a row) such as %lld",
                         tokens, unit, ranks, T,
                         tokens < unit ? unit : tokens / unit * unit);
}

/* The same run on a few nodes, each with the tokens of a node of the candidate. */
static weft_status few_nodes(weft_ctx *ctx, const wefti_adviser *a,
                             const weft_candidate *c, weft_config **out) {
    char settings[480];
    int64_t tokens = wefti_advise_tokens(a, c->nodes);
    /* the first word is mesh.nodes, which may be more than a run can have */
    snprintf(settings, sizeof settings, "%s mesh.nodes=%d batch.tokens_per_step=%lld",
             c->settings + strcspn(c->settings, " "), (int)FEW_NODES,
             (long long)(tokens / c->nodes * FEW_NODES));
    int64_t unit = c->nodes * c->ranks_per_node * wefti_advise_length(a);
    if (tokens % unit != 0) return refuse_batch(ctx, a, c);
    return wefti_advise_config(ctx, a->run, settings, false, out);
}

/* ---- other frameworks ---- */

bool wefti_advise_recomputes(const weft_candidate *c) {
    return strstr(c->settings, WEFTI_RECOMPUTE) != NULL;
}

/* One rank of another framework, as a run of its own. */
static weft_status one_rank(weft_ctx *ctx, const wefti_adviser *a,
                            const weft_candidate *c, int64_t micro, weft_config **out) {
    char settings[200];
    int64_t tokens = wefti_advise_tokens(a, c->nodes), T = wefti_advise_length(a);
    int64_t ranks = c->nodes * c->ranks_per_node;
    if (tokens % (ranks * T) != 0) return refuse_batch(ctx, a, c);
    snprintf(settings, sizeof settings,
             "mesh.nodes=1 mesh.ranks_per_node=1 mesh.shards=0 mesh.sites=1 method=hsdp "
             "batch.tokens_per_step=%lld batch.micro=%lld%s",
             (long long)(tokens / ranks), (long long)micro,
             wefti_advise_recomputes(c) ? WEFTI_RECOMPUTE : "");
    return wefti_advise_config(ctx, a->run, settings, false, out);
}

static weft_status predict_micro(weft_ctx *ctx, const wefti_adviser *a,
                                 const weft_candidate *c, double bandwidth_Bps,
                                 int64_t micro, weft_prediction *out) {
    weft_config *config;
    weft_cluster cluster;
    wefti_planned_job planned = {NULL, NULL};
    WEFT_TRY(one_rank(ctx, a, c, micro, &config));
    weft_status status = take_facts(ctx, a, c, config, bandwidth_Bps, &cluster);
    if (status == WEFT_OK)
        status = wefti_forecast_plan(ctx, config, &cluster, 0, &planned);
    if (a->options.precision != WEFT_PRECISION_F32 && cluster.rank_flops_bf16 > 0)
        cluster.rank_flops = cluster.rank_flops_bf16;
    wefti_framework_case one = {.framework = wefti_framework_find(c->framework),
                                .cluster = &cluster,
                                .job = planned.job,
                                .nodes = c->nodes,
                                .ranks_per_node = c->ranks_per_node,
                                .collective = a->options.collective,
                                .precision = a->options.precision,
                                .trainable = a->options.trainable,
                                .weight_bytes = a->options.weight_bytes,
                                .exposed = a->at.exposed};
    if (status == WEFT_OK) wefti_framework_predict(&one, out);
    wefti_forecast_drop(ctx, &planned);
    wefti_advise_drop_facts(ctx, &a->cluster, &cluster);
    weft_config_destroy(ctx, config);
    return status;
}

/* On an accelerator a rank's sequences are processed in as few passes as its memory
 * allows, unless the run sets their number. */
static weft_status predict_framework(weft_ctx *ctx, const wefti_adviser *a,
                                     const weft_candidate *c, double bandwidth_Bps,
                                     weft_prediction *out) {
    int64_t rows = wefti_advise_tokens(a, c->nodes) / (c->nodes * c->ranks_per_node) /
                   wefti_advise_length(a);
    int64_t micro = a->run->batch.micro ? wefti_advise_micro(a, rows) : rows;
    double room = wefti_machines_memory(a, c, (double)c->prediction.memory_bytes);
    for (;;) {
        WEFT_TRY(predict_micro(ctx, a, c, bandwidth_Bps, micro, out));
        bool fits = room <= 0 || (double)out->memory_bytes <= room;
        if (fits || micro <= 1 || a->run->batch.micro) return WEFT_OK;
        for (micro /= 2; rows % micro != 0;) micro--;
    }
}

/* ---- all candidates ---- */

weft_status wefti_advise_configure(weft_ctx *ctx, const wefti_adviser *a,
                                   const weft_candidate *c, weft_predict_options *options,
                                   weft_config **out) {
    *options = (weft_predict_options){.struct_size = sizeof(weft_predict_options),
                                      .seed = 1};
    if (is_spread(c)) {
        options->nodes = c->nodes;
        WEFT_TRY(few_nodes(ctx, a, c, out));
    } else {
        WEFT_TRY(wefti_advise_config(ctx, a->run, c->settings, false, out));
    }
    options->steps = steps_of(a, *out, c->nodes * c->ranks_per_node);
    return WEFT_OK;
}

/* The engine's memory, in f32, as a loop with these weights has it: model and optimizer by
 * their widths, and what the method has beside them. */
static weft_status count_memory(weft_ctx *ctx, const wefti_adviser *a,
                                const weft_candidate *c, const weft_config *config,
                                weft_prediction *out) {
    const weft_advise_options *o = &a->options;
    const wefti_framework in_node = {.shards_optimizer = true,
                                     .shards_gradients = true,
                                     .shards_parameters = true,
                                     .in_node = true},
                          whole = {.name = ""};
    wefti_planned_job planned;
    if (o->precision == WEFT_PRECISION_F32 && o->trainable <= 0) return WEFT_OK;
    int64_t nodes = is_spread(c) ? c->nodes : 0;
    WEFT_TRY(wefti_forecast_plan(ctx, config, &a->cluster, nodes, &planned));
    wefti_framework_case one = {.framework = c->shards == 1 ? &whole : &in_node,
                                .cluster = &a->cluster,
                                .job = planned.job,
                                .nodes = c->nodes,
                                .ranks_per_node = c->ranks_per_node};
    double plain = wefti_framework_memory(&one), mine = (double)out->memory_bytes;
    one.precision = o->precision;
    one.trainable = o->trainable;
    one.weight_bytes = o->weight_bytes;
    double theirs = wefti_framework_memory(&one), share = factor_of(o->trainable);
    out->memory_bytes = (int64_t)(mine < plain ? mine * theirs / plain
                                               : theirs + (mine - plain) * share);
    wefti_forecast_drop(ctx, &planned);
    return WEFT_OK;
}

/* Predicts with the wire at that rate all day. */
static weft_status predict_steadily(weft_ctx *ctx, const wefti_adviser *a,
                                    const weft_candidate *candidate, double bandwidth_Bps,
                                    weft_prediction *out) {
    weft_predict_options options = {.struct_size = sizeof options};
    weft_config *config;
    weft_cluster cluster;
    *out = (weft_prediction){.struct_size = sizeof(weft_prediction)};
    if (candidate->framework[0])
        return predict_framework(ctx, a, candidate, bandwidth_Bps, out);
    WEFT_TRY(wefti_advise_configure(ctx, a, candidate, &options, &config));
    weft_status status = take_facts(ctx, a, candidate, config, bandwidth_Bps, &cluster);
    if (status == WEFT_OK) status = weft_predict(ctx, config, &cluster, &options, out);
    if (status == WEFT_OK) status = count_memory(ctx, a, candidate, config, out);
    out->wire_bytes *= factor_of(a->options.trainable);
    wefti_advise_drop_facts(ctx, &a->cluster, &cluster);
    weft_config_destroy(ctx, config);
    return status;
}

weft_status wefti_advise_squeeze(weft_ctx *ctx, const wefti_adviser *a,
                                 const weft_candidate *c, double *bytes) {
    weft_predict_options options;
    weft_config *config;
    WEFT_TRY(wefti_advise_configure(ctx, a, c, &options, &config));
    weft_status status = wefti_machines_squeeze(ctx, a, c, config, bytes);
    weft_config_destroy(ctx, config);
    return status;
}

/* The rate of the wire in use. */
static double rate_of(const wefti_adviser *a, double bandwidth_Bps) {
    if (bandwidth_Bps > 0) return bandwidth_Bps;
    return a->cluster.sites > 1 ? a->cluster.site.bandwidth_Bps
                                : a->cluster.wire.bandwidth_Bps;
}

/* Combines the steps of quiet and of busy hours: the number of steps in a day is the sum
 * over both parts. */
static void mix_hours(const wefti_adviser *a, const weft_prediction *busy,
                      weft_prediction *quiet) {
    double share = a->options.busy_s / day_s, before_s = quiet->mean_step_s;
    double steps = share / busy->mean_step_s + (1 - share) / before_s;
    double mean_s = 1 / steps, more_s = fmax(0, mean_s - before_s);
    quiet->mean_step_s = mean_s;
    quiet->step_s.high = fmax(quiet->step_s.high, busy->step_s.high);
    if (share > 0.5) quiet->step_s.median = busy->step_s.median;
    quiet->wait_s += more_s;
    quiet->wire_s += more_s;
    quiet->exchange_s += more_s;
    quiet->hidden_share = quiet->exchange_s > 0
                              ? fmax(0, 1 - quiet->wait_s / quiet->exchange_s)
                              : 1;
    quiet->tokens_per_s *= before_s / mean_s;
    if (quiet->wire_s > quiet->compute_s) quiet->bound = WEFT_BOUND_WIRE;
}

weft_status wefti_advise_predict(weft_ctx *ctx, const wefti_adviser *a,
                                 const weft_candidate *candidate, double bandwidth_Bps,
                                 weft_prediction *out) {
    weft_prediction busy = {.struct_size = sizeof busy};
    WEFT_TRY(predict_steadily(ctx, a, candidate, bandwidth_Bps, out));
    if (a->options.busy_s <= 0 || candidate->nodes == 1) return WEFT_OK;
    double slow_Bps = a->options.busy_share * rate_of(a, bandwidth_Bps);
    WEFT_TRY(predict_steadily(ctx, a, candidate, slow_Bps, &busy));
    if (busy.mean_step_s > 0 && out->mean_step_s > 0) mix_hours(a, &busy, out);
    return WEFT_OK;
}

/* ---- one candidate at many points ---- */

weft_status wefti_advise_prepare(weft_ctx *ctx, const wefti_adviser *a,
                                 const weft_candidate *c, wefti_advised_run *out) {
    *out = (wefti_advised_run){.candidate = c};
    if (c->framework[0]) return WEFT_OK;
    WEFT_TRY(wefti_advise_configure(ctx, a, c, &out->options, &out->config));
    weft_status status = wefti_forecast_plan(ctx, out->config, &a->cluster,
                                             out->options.nodes, &out->planned);
    if (status != WEFT_OK) wefti_advise_unprepare(ctx, out);
    return status;
}

void wefti_advise_unprepare(weft_ctx *ctx, wefti_advised_run *p) {
    wefti_forecast_drop(ctx, &p->planned);
    weft_config_destroy(ctx, p->config);
    *p = (wefti_advised_run){.candidate = NULL};
}

static weft_status step_steadily(weft_ctx *ctx, const wefti_adviser *a,
                                 const wefti_advised_run *p, double bandwidth_Bps,
                                 int order, double *step_s) {
    weft_cluster cluster;
    weft_prediction whole = {.struct_size = sizeof whole};
    *step_s = INFINITY;
    if (p->candidate->framework[0] && order > 1) return WEFT_OK;
    if (p->candidate->framework[0]) {
        WEFT_TRY(predict_framework(ctx, a, p->candidate, bandwidth_Bps, &whole));
        *step_s = whole.mean_step_s;
        return WEFT_OK;
    }
    weft_status status = take_facts(ctx, a, p->candidate, p->config, bandwidth_Bps,
                                    &cluster);
    if (status == WEFT_OK)
        status = wefti_forecast_step(ctx, p->planned.job, &cluster, &p->options, order,
                                     step_s);
    wefti_advise_drop_facts(ctx, &a->cluster, &cluster);
    return status;
}

weft_status wefti_advise_step(weft_ctx *ctx, const wefti_adviser *a,
                              const wefti_advised_run *p, double bandwidth_Bps, int order,
                              double *step_s) {
    double busy_s, share = a->options.busy_s / day_s;
    WEFT_TRY(step_steadily(ctx, a, p, bandwidth_Bps, order, step_s));
    if (share <= 0 || p->candidate->nodes == 1 || !isfinite(*step_s)) return WEFT_OK;
    double slow_Bps = a->options.busy_share * rate_of(a, bandwidth_Bps);
    WEFT_TRY(step_steadily(ctx, a, p, slow_Bps, order, &busy_s));
    *step_s = 1 / (share / busy_s + (1 - share) / *step_s);
    return WEFT_OK;
}

weft_status wefti_advise_run(weft_ctx *ctx, const weft_config *run, weft_config **out) {
    char tokens[64];
    bool rows = run->batch.rows_per_step > 0;
    weft_status status = WEFT_OK;
    *out = NULL;
    if (!wefti_is(run->batch.shares, "equal"))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "batch.shares is %s, expected equal: a plan finds them "
                             "itself, with --shares by the speed of the machines",
                             run->batch.shares);
    WEFT_TRY(weft_config_copy(ctx, run, out));
    snprintf(tokens, sizeof tokens, "batch.tokens_per_step=%lld",
             (long long)(run->batch.rows_per_step * wefti_job_positions(run)));
    if (rows) status = weft_config_set(ctx, *out, "batch.rows_per_step=0");
    if (rows && status == WEFT_OK) status = weft_config_set(ctx, *out, tokens);
    if (status == WEFT_OK) status = wefti_config_undecided(ctx, *out);
    if (rows && status == WEFT_OK) status = weft_config_finish(ctx, *out);
    if (status != WEFT_OK) weft_config_destroy(ctx, *out);
    return status;
}

double wefti_advise_cost(const wefti_adviser *a, const weft_candidate *c, double step_s) {
    return c->steps * step_s * wefti_advise_failures(a, c, step_s) *
           (double)wefti_advise_tokens(a, 1) / (double)wefti_advise_tokens(a, c->nodes) /
           wefti_advise_efficiency(a, c->nodes);
}

/* A loss takes (1 + B / C) times the tokens that tiny batches would take, B tokens a batch, C
 * the critical one (McCandlish et al. 2018, arXiv 1812.06162). */
double wefti_advise_efficiency(const wefti_adviser *a, int64_t nodes) {
    double C = a->options.critical_batch;
    if (C <= 0) return 1;
    return (1 + (double)wefti_advise_tokens(a, 1) / C) /
           (1 + (double)wefti_advise_tokens(a, nodes) / C);
}
