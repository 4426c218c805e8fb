/* SPDX-License-Identifier: MIT */
/* method=auto: which method follows from what the processes measure before the first step.
 *
 *     all        the probe: this model's computing on each process, the wire of each pair
 *     leader     the plan on that cluster -> keys and a sentence -> all
 *     all        the keys take the place of method=auto, as if they had been typed
 *
 * Machines that are there cost nothing, so unlike weft plan a decision takes several nodes as soon
 * as they are expected to be faster than one; among those, what is level learns as one machine
 * does. The leader writes cluster.yaml, and decision.json. */
#define _GNU_SOURCE
#include "train/decide.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/plan.h>
#include <weft/predict.h>
#include <weft/probe.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "cluster/facts.h"
#include "config/layers.h"
#include "job/form.h"
#include "mesh/elastic.h"
#include "rank/alike.h"
#include "planner/advise.h"
#include "planner/replan.h"

enum { OBSTACLE = 128 };

typedef struct standing {
    bool known;         /* it has several nodes, fits, and its learning is measured */
    bool changes;       /* a run with it may change while it goes on (job/form.h) */
    char why[OBSTACLE]; /* not all nodes train with it; "": they could */
} standing;

/* What one decision is about; all borrowed. */
typedef struct ruling {
    weft_ctx *ctx;
    const weft_config *run; /* with method=auto */
    const weft_advice *a;
    wefti_start start;
    standing *of;   /* each candidate */
    int64_t taken;  /* a candidate; -1: none */
    int64_t passed; /* one that may be faster, and could not change; -1: none */
    double alone;   /* the fastest on one node, relative to the plan's baseline */
} ruling;

/* ---- a limit of what is sent ---- */

static double steps_in_a_day(const weft_candidate *c) {
    return 86400 / c->prediction.mean_step_s;
}

/* Whether the run ends within a day. */
static bool is_short(const ruling *r, const weft_candidate *c) {
    return (double)r->run->run.steps < steps_in_a_day(c);
}

/* Bytes that a node sends in a day, or in a shorter run. */
static double day_of(const ruling *r, const weft_candidate *c) {
    return c->prediction.wire_bytes * fmin(steps_in_a_day(c), (double)r->run->run.steps);
}

/* Bytes that a node sends in a second. */
static double rate_of(const weft_candidate *c) {
    return c->prediction.wire_bytes / c->prediction.mean_step_s;
}

static bool keeps(const ruling *r, const weft_candidate *c) {
    return !(r->start.most_Bps > 0) || rate_of(c) <= r->start.most_Bps;
}

static bool is_within(const ruling *r, const weft_candidate *c) {
    double most = (double)r->run->decide.bytes_per_day;
    return most <= 0 || c->nodes == 1 || day_of(r, c) <= most;
}

/* Whether candidate i trains on several nodes, and learns as well as is asked. */
static bool is_fit(const ruling *r, int64_t i) {
    return r->of[i].known && r->a->candidates[i].steps <= 1 + r->run->decide.loss;
}

static bool goes_on(const wefti_saved_layout *saved, const weft_config *c) {
    return wefti_is(c->replicator.kind, saved->replicator) &&
           wefti_is(c->site_replicator.kind, saved->site_replicator) &&
           wefti_is(c->optimizer.kind, saved->optimizer) &&
           wefti_is(c->mixer.kind, saved->mixer);
}

/* A run with all nodes and candidate i, from the checkpoint if there is one. */
static weft_status look_at(ruling *r, int64_t i) {
    const weft_candidate *one = &r->a->candidates[i];
    standing *out = &r->of[i];
    char sent[32], *why = out->why;
    wefti_form form;
    weft_config *c;
    *out = (standing){.known = one->nodes > 1 && one->usable && one->learning.measured};
    if (!out->known)
        snprintf(why, OBSTACLE, "%s",
                 !one->usable     ? one->problem
                 : one->nodes < 2 ? "it has one node"
                                  : "nobody has measured how it learns");
    else if (!is_fit(r, i))
        snprintf(why, OBSTACLE, "it needs %.3g %% more steps", 100 * (one->steps - 1));
    else if (!is_within(r, one))
        snprintf(why, OBSTACLE, "it would send %s in %s",
                 wefti_format_bytes(day_of(r, one), sent, sizeof sent),
                 is_short(r, one) ? "this run" : "a day");
    if (!one->usable) return WEFT_OK;
    WEFT_TRY(weft_advice_config(r->ctx, r->run, r->a, i, &c));
    out->changes = !wefti_form_of(c, &form);
    if (!why[0] && r->run->decide.busy[0] && !out->changes)
        snprintf(why, OBSTACLE, "it could not change in busy hours");
    if (!why[0] && r->start.saved && !goes_on(r->start.saved, c))
        snprintf(why, OBSTACLE, "it does not go on with the checkpoint's state");
    weft_config_destroy(r->ctx, c);
    return WEFT_OK;
}

static bool is_open(const ruling *r, int64_t i) { return !r->of[i].why[0]; }

/* Whether candidate i could be in place of the one that is taken. One node always is an answer. */
static bool could_be(const ruling *r, int64_t i) {
    const weft_candidate *c = &r->a->candidates[i];
    return c->nodes == 1 ? c->usable : is_open(r, i) && keeps(r, c);
}

/* ---- the sentence ---- */

/* "48 ms a step, 1.7 times": in at least 64 bytes. */
static const char *worth_text(const ruling *r, int64_t i, char *out) {
    const weft_candidate *c = &r->a->candidates[i];
    char step[24];
    snprintf(out, 64, "%s a step, %.2g times",
             wefti_seconds_text(c->prediction.mean_step_s, step, sizeof step),
             c->speedup / r->alone);
    return out;
}

/* The two next best, of other methods. */
static void put_next(const ruling *r, wefti_buffer *out) {
    const weft_candidate *all = r->a->candidates, *last = &all[r->taken];
    char worth[64];
    for (int64_t i = 0, n = 0; i < r->a->n_candidates && n < 2; i++) {
        const weft_candidate *c = &all[i];
        if (!could_be(r, i) || i == r->passed ||
            wefti_is(c->method, all[r->taken].method) ||
            wefti_is(c->method, last->method))
            continue;
        wefti_buffer_print(r->ctx, out, "%s %s (%s)", n++ ? " and" : "; next", c->name,
                           worth_text(r, i, worth));
        last = c;
    }
}

/* The rate of the wire below which one node is faster than all that could be taken; 0: none. */
static double find_alone(const ruling *r) {
    const weft_candidate *all = r->a->candidates;
    double Bps = INFINITY;
    for (int64_t i = 0; i < r->a->n_candidates; i++)
        if (could_be(r, i) && all[i].curve >= 0) Bps = fmin(Bps, all[i].break_even_Bps);
    return isfinite(Bps) ? Bps : 0;
}

static double far(const ruling *r, double Bps) {
    return fabs(log(Bps / r->a->wire.bandwidth_Bps));
}

/* The rate nearest to the wire's beyond which candidate i is faster than the one that is taken, on
 * a straight line between two planned rates; 0: none. */
static double find_turn(const ruling *r, int64_t i) {
    const weft_advice *a = r->a;
    const double *mine = a->speedups + a->candidates[r->taken].curve * a->n_bandwidths;
    const double *other = a->speedups + a->candidates[i].curve * a->n_bandwidths;
    double found = 0;
    for (int64_t k = 0; k + 1 < a->n_bandwidths; k++) {
        double low = log(a->bandwidths[k]), high = log(a->bandwidths[k + 1]);
        double lead = log(mine[k] / other[k]), next = log(mine[k + 1] / other[k + 1]);
        double turn = exp(low + (high - low) * lead / (lead - next));
        bool below = turn < a->wire.bandwidth_Bps;
        if ((below ? lead < 0 && next > 0 : lead > 0 && next < 0) &&
            (found == 0 || far(r, turn) < far(r, found)))
            found = turn;
    }
    return found;
}

/* At which rate of the wire another answer would follow. What could not change would not. */
static void put_turns(const ruling *r, wefti_buffer *out) {
    const weft_candidate *all = r->a->candidates;
    const char *before = "; it would be";
    char rate[32];
    double alone_Bps = find_alone(r), nearest = 0;
    int64_t next = -1;
    bool stays = r->of[r->taken].changes && wefti_is(r->run->decide.keep, "optimizer") &&
                 !r->start.saved;
    if (alone_Bps > 0) {
        wefti_buffer_print(r->ctx, out, "%s one process alone below %s", before,
                           wefti_rate_text(alone_Bps, rate, sizeof rate));
        before = ",";
    }
    for (int64_t i = 0; i < r->a->n_candidates && all[r->taken].curve >= 0; i++) {
        if (!could_be(r, i) || all[i].curve < 0 || (stays && !r->of[i].changes)) continue;
        double turn = find_turn(r, i);
        if (turn > 0 && (next < 0 || far(r, turn) < far(r, nearest)))
            next = i, nearest = turn;
    }
    if (next >= 0)
        wefti_buffer_print(r->ctx, out, "%s %s %s about %s", before, all[next].name,
                           nearest > r->a->wire.bandwidth_Bps ? "above" : "below",
                           wefti_rate_text(nearest, rate, sizeof rate));
}

static void put_sentence(const ruling *r, wefti_buffer *out) {
    const weft_candidate *c = &r->a->candidates[r->taken];
    const weft_outlook *o = &r->a->outlooks[r->taken];
    const weft_link_facts *wire = &r->a->wire;
    char worth[64], range[64] = "", rate[32], latency[32];
    if (o->high > o->low)
        snprintf(range, sizeof range, " (%.2g to %.2g)", o->low / r->alone,
                 o->high / r->alone);
    wefti_buffer_print(
        r->ctx, out,
        "method=auto takes %s: %s as fast as one process%s expected on a wire "
        "of %s and %s",
        c->name, worth_text(r, r->taken, worth), range,
        wefti_rate_text(wire->bandwidth_Bps, rate, sizeof rate),
        wefti_seconds_text(wire->latency_s, latency, sizeof latency));
    if (r->passed >= 0)
        wefti_buffer_print(r->ctx, out,
                           "; %s (%s) is not surely faster, and could not change "
                           "during the run",
                           r->a->candidates[r->passed].name,
                           worth_text(r, r->passed, worth));
    if (r->start.most_Bps > 0)
        wefti_buffer_print(r->ctx, out, "; %s may be sent in these busy hours",
                           wefti_rate_text(r->start.most_Bps, rate, sizeof rate));
    if (!keeps(r, c))
        wefti_buffer_print(r->ctx, out, ", and this sends least, %s",
                           wefti_rate_text(rate_of(c), rate, sizeof rate));
    put_next(r, out);
    put_turns(r, out);
}

/* All that was planned, a line each, and what was left out. */
static void put_reasons(const ruling *r, wefti_buffer *out) {
    char line[160], step[24], sent[32];
    snprintf(line, sizeof line, "  %-26s %5s %9s %7s %12s %10s\n", "method", "nodes",
             "step", "faster", "range", "sent/step");
    wefti_buffer_text(r->ctx, out, line);
    for (int64_t i = 0; i < r->a->n_candidates; i++) {
        const weft_candidate *c = &r->a->candidates[i];
        const weft_outlook *o = &r->a->outlooks[i];
        char range[32] = "-";
        if (o->high > o->low)
            snprintf(range, sizeof range, "%.2g..%.2g", o->low, o->high);
        snprintf(line, sizeof line, "%c %-26s %5lld %9s %6.2gx %12s %10s\n",
                 i == r->taken ? '*' : ' ', c->name, (long long)c->nodes,
                 wefti_seconds_text(c->prediction.mean_step_s, step, sizeof step),
                 c->speedup, range,
                 wefti_format_bytes(c->prediction.wire_bytes, sent, sizeof sent));
        wefti_buffer_text(r->ctx, out, line);
    }
    for (int64_t i = 0; i < r->a->n_candidates; i++) {
        const weft_candidate *c = &r->a->candidates[i];
        if (!is_open(r, i) && c->nodes > 1)
            wefti_buffer_print(r->ctx, out, "  left out: %s: %s\n", c->name,
                               r->of[i].why);
    }
    for (int64_t i = 0; i < r->a->n_left_out; i++)
        wefti_buffer_print(r->ctx, out, "  left out: %s: %s\n", r->a->left_out[i].what,
                           r->a->left_out[i].why);
}

/* ---- the decision ---- */

/* In place of what could not change the best that can, unless it is surely slower
 * (docs/methods.md, section 12). */
static void prefer_changing(ruling *r) {
    const weft_candidate *all = r->a->candidates, *best = &all[r->taken];
    int64_t i = 0;
    if (!wefti_is(r->run->decide.keep, "optimizer") || r->start.saved) return;
    if (r->of[r->taken].changes) return;
    while (i < r->a->n_candidates && !(is_open(r, i) && r->of[i].changes)) i++;
    if (i == r->a->n_candidates) return;
    bool slower = log(best->speedup / all[i].speedup) > hypot(best->error, all[i].error);
    bool alone = all[i].speedup <= r->alone &&
                 !wefti_is(r->run->decide.alone, "together");
    if (slower || alone) return;
    r->passed = r->taken;
    r->taken = i;
}

/* In busy hours the fastest that sends no more than may be sent, or what sends least. They end, so
 * one process alone is no answer. */
static void prefer_least(ruling *r) {
    const weft_candidate *all = r->a->candidates;
    for (int64_t i = 0; i < r->a->n_candidates && !keeps(r, &all[r->taken]); i++)
        if (is_open(r, i) && rate_of(&all[i]) < rate_of(&all[r->taken])) r->taken = i;
}

static weft_status refuse_all(const ruling *r) {
    const weft_advice *a = r->a;
    const weft_candidate *least = NULL; /* of those that send too much */
    char most[32], sent[32];
    if (r->start.saved)
        return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                             "method=auto tries nothing that goes on with a checkpoint "
                             "of replicator %s, optimizer %s and mixer %s; expected the "
                             "name of its method",
                             r->start.saved->replicator, r->start.saved->optimizer,
                             r->start.saved->mixer);
    for (int64_t i = 0; i < a->n_candidates; i++)
        if (is_fit(r, i) && !is_within(r, &a->candidates[i]) &&
            (!least || day_of(r, &a->candidates[i]) < day_of(r, least)))
            least = &a->candidates[i];
    if (least)
        return weft_ctx_fail(
            r->ctx, WEFT_ERR_CONFIG,
            "decide.bytes_per_day is %s, and of all on %lld nodes %s sends least, %s; "
            "expected more, or one process alone",
            wefti_format_bytes((double)r->run->decide.bytes_per_day, most, sizeof most),
            (long long)r->run->mesh.nodes, least->name,
            wefti_format_bytes(day_of(r, least), sent, sizeof sent));
    return weft_ctx_fail(
        r->ctx, WEFT_ERR_CONFIG, "method=auto has no method for %lld nodes: %s",
        (long long)r->run->mesh.nodes,
        a->n_left_out > 0 ? a->left_out[0].why : "none fits into the memory");
}

/* One process alone: also what would be faster, were it not for the run's own limits. */
static weft_status refuse_slower(const ruling *r, int64_t first) {
    const weft_candidate *all = r->a->candidates;
    char worth[64], left[2 * OBSTACLE] = "";
    for (int64_t i = 0; i < r->a->n_candidates && !left[0]; i++) {
        if (!r->of[i].known || is_open(r, i) || all[i].speedup <= r->alone) continue;
        snprintf(left, sizeof left, "; %s (%s) is left out: %s", all[i].name,
                 worth_text(r, i, worth), r->of[i].why);
    }
    return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                         "one process alone is expected to be faster: of all on %lld "
                         "nodes the best is %s, %s as fast%s; start one process, or set "
                         "decide.alone=together",
                         (long long)r->run->mesh.nodes, all[first].name,
                         worth_text(r, first, worth), left);
}

static weft_status choose(ruling *r) {
    int64_t first = 0;
    while (first < r->a->n_candidates && !is_open(r, first)) first++;
    if (first == r->a->n_candidates) return refuse_all(r);
    bool any = r->start.saved || wefti_is(r->run->decide.alone, "together");
    int64_t best = r->a->together;
    if (best >= 0 && !is_open(r, best))
        best = r->a->candidates[first].speedup > r->alone ? first : -1;
    r->taken = best >= 0 && !r->start.saved ? best : any ? first : -1;
    if (r->taken < 0) return refuse_slower(r, first);
    prefer_changing(r);
    prefer_least(r);
    return WEFT_OK;
}

static weft_status rule(ruling *r, wefti_decision *out, char **text) {
    wefti_buffer sentence = {0}, reasons = {0};
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < r->a->n_candidates && status == WEFT_OK; i++)
        status = look_at(r, i);
    if (status == WEFT_OK) status = choose(r);
    if (status == WEFT_OK) {
        put_sentence(r, &sentence);
        snprintf(out->settings, sizeof out->settings, "%s",
                 r->a->candidates[r->taken].settings);
    }
    put_reasons(r, &reasons);
    *text = reasons.bytes;
    snprintf(out->sentence, sizeof out->sentence, "%s",
             sentence.bytes ? sentence.bytes : weft_ctx_message(r->ctx));
    wefti_buffer_fini(r->ctx, &sentence);
    if (status == WEFT_OK) status = sentence.status;
    return status == WEFT_OK ? reasons.status : status;
}

weft_status wefti_decide_on(weft_ctx *ctx, const weft_config *run,
                            const weft_cluster *cluster, const wefti_start *start,
                            wefti_decision *out, char **text) {
    const weft_advise_options options = {.struct_size = sizeof options,
                                         .all_nodes = true,
                                         .computing = WEFT_KNOWN_MEASURED,
                                         .wire = WEFT_KNOWN_MEASURED};
    weft_advice *advice;
    *text = NULL;
    *out = (wefti_decision){.nodes = run->mesh.nodes,
                            .ranks_per_node = run->mesh.ranks_per_node};
    snprintf(out->keep, sizeof out->keep, "%s", run->decide.keep);
    WEFT_TRY(weft_advise(ctx, run, cluster, &options, &advice));
    ruling r = {.ctx = ctx,
                .run = run,
                .a = advice,
                .start = *start,
                .taken = -1,
                .passed = -1,
                .alone = 1};
    for (int64_t i = 0; i < advice->n_candidates; i++)
        if (advice->candidates[i].nodes == 1 && advice->candidates[i].usable)
            r.alone = fmax(r.alone, advice->candidates[i].speedup);
    weft_status status = wefti_alloc_n(ctx, advice->n_candidates, sizeof *r.of,
                                       "what each candidate could be", &r.of);
    if (status == WEFT_OK) status = rule(&r, out, text);
    wefti_free(ctx, r.of);
    weft_advice_destroy(ctx, advice);
    return status;
}

/* ---- a run ---- */

/* Sets the keys of a decision. What the mesh is, the mesh says. */
static weft_status apply(weft_ctx *ctx, weft_config *config, const char *settings) {
    static const char *const sizes[] = {
        "mesh.nodes=", "mesh.ranks_per_node=", "mesh.sites="};
    char word[128];
    WEFT_TRY(wefti_config_undecided(ctx, config));
    for (int n = 0; sscanf(settings, " %127s%n", word, &n) == 1; settings += n) {
        bool size = false;
        for (int i = 0; i < 3; i++)
            size |= strncmp(word, sizes[i], strlen(sizes[i])) == 0;
        if (!size) WEFT_TRY(weft_config_set(ctx, config, word));
    }
    return weft_config_finish(ctx, config);
}

/* The run without its text: the model has as many ids as the tokenizer. */
static weft_status without_text(weft_ctx *ctx, const weft_config *config,
                                const wefti_prepared *p, weft_config **out) {
    char vocab[48];
    bool text = wefti_job_input(config) == WEFTI_INPUT_TEXT;
    WEFT_TRY(weft_config_copy(ctx, config, out));
    if (!text || config->model.vocab > 0) return WEFT_OK;
    snprintf(vocab, sizeof vocab, "model.vocab=%lld",
             (long long)weft_tokenizer_vocab(p->tokenizer));
    weft_status status = weft_config_set(ctx, *out, vocab);
    if (status != WEFT_OK) weft_config_destroy(ctx, *out);
    return status;
}

weft_status wefti_decide_pace(weft_ctx *ctx, const weft_config *run,
                              weft_cluster *cluster, double *times) {
    double pace_s = run->mesh.compute_time;
    weft_prediction found = {.struct_size = sizeof found};
    weft_config *c;
    *times = 1;
    if (pace_s <= 0) return WEFT_OK;
    WEFT_TRY(weft_config_copy(ctx, run, &c));
    c->mesh.compute_time = 0;
    weft_status status = wefti_config_undecided(ctx, c);
    if (status == WEFT_OK) status = weft_config_set(ctx, c, "method=hsdp");
    if (status == WEFT_OK) status = weft_config_finish(ctx, c);
    if (status == WEFT_OK) status = weft_predict(ctx, c, cluster, NULL, &found);
    if (status == WEFT_OK && found.compute_s > 0)
        *times = fmax(1, pace_s / found.compute_s);
    weft_prediction_clear(ctx, &found);
    weft_config_destroy(ctx, c);
    wefti_cluster_slow(cluster, *times);
    return status;
}

/* By the leader, from what the probe has found. */
static weft_status decide_on_probe(weft_ctx *ctx, const weft_config *run,
                                   const wefti_prepared *p, weft_cluster *found,
                                   wefti_decision *out) {
    char path[PATH_MAX], *reasons;
    const char *folder = p->config->run.folder;
    double times;
    WEFT_TRY(wefti_decide_pace(ctx, run, found, &times));
    if (times > 1)
        weft_ctx_log(ctx, WEFT_LOG_INFO,
                     "method=auto decides for ranks that compute %.3g s, as "
                     "mesh.compute_time says: %.2g times as long as this machine does",
                     run->mesh.compute_time, times);
    WEFT_TRY(wefti_file_path(ctx, folder, "cluster.yaml", path));
    WEFT_TRY(weft_cluster_write(ctx, found, path));
    const wefti_budget budget = {.busy = p->choice.busy};
    const wefti_start start = {
        .saved = p->saved.step >= 0 ? &p->saved : NULL,
        .most_Bps = wefti_budget_Bps(&budget, 0, wefti_day_now_s())};
    weft_status status = wefti_decide_on(ctx, run, found, &start, out, &reasons);
    weft_status kept = WEFT_OK;
    if (reasons) kept = wefti_decision_write(ctx, folder, out, reasons);
    wefti_free(ctx, reasons);
    return status == WEFT_OK ? kept : status;
}

/* What the leader tells the others. */
typedef struct verdict {
    int64_t measure, failed; /* a status */
    wefti_decision d;
} verdict;

static weft_status tell(weft_ctx *ctx, wefti_prepared *p, verdict *v,
                        weft_status status) {
    v->failed = status;
    if (status != WEFT_OK)
        snprintf(v->d.sentence, sizeof v->d.sentence, "%s", weft_ctx_message(ctx));
    WEFT_TRY(wefti_bootstrap_tell(&p->bootstrap, v, sizeof *v));
    if (status != WEFT_OK) return status;
    v->d.settings[sizeof v->d.settings - 1] = '\0'; /* whatever has come */
    v->d.sentence[sizeof v->d.sentence - 1] = '\0';
    if (v->failed == WEFT_OK) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s", wefti_text_plain(v->d.sentence));
}

static weft_status measure(weft_ctx *ctx, const weft_config *config, wefti_prepared *p,
                           verdict *v) {
    weft_config *run, *probed = NULL;
    weft_probe_result found = {.struct_size = sizeof found};
    const weft_probe_options options = {.struct_size = sizeof options,
                                        .seconds = config->decide.time};
    weft_ctx_log(ctx, WEFT_LOG_INFO,
                 "method=auto measures the machines and the wires, about %.3g s",
                 config->decide.time);
    WEFT_TRY(without_text(ctx, config, p, &run));
    weft_status status = weft_config_copy(ctx, run, &probed);
    if (status == WEFT_OK)
        status = weft_probe(ctx, p->bootstrap.mesh, probed, &options, &found);
    weft_config_destroy(ctx, probed);
    bool leads = wefti_bootstrap_leads(&p->bootstrap);
    if (status == WEFT_OK) {
        if (leads) status = decide_on_probe(ctx, run, p, found.cluster, &v->d);
        status = tell(ctx, p, v, status);
    }
    weft_probe_clear(ctx, &found);
    weft_config_destroy(ctx, run);
    return status;
}

/* What the leader's folder says of the run that goes on. */
static weft_status look_back(weft_ctx *ctx, const weft_config *config,
                             const wefti_prepared *p, verdict *v) {
    bool found = false;
    const weft_config *c = config;
    if (p->saved.step >= 0)
        WEFT_TRY(wefti_decision_read(ctx, c->run.folder, &v->d, &found));
    bool same = found && v->d.nodes == c->mesh.nodes &&
                v->d.ranks_per_node == c->mesh.ranks_per_node &&
                wefti_is(v->d.keep, c->decide.keep);
    v->measure = !same && c->mesh.nodes > 1;
    if (found && !same)
        weft_ctx_log(ctx, WEFT_LOG_INFO,
                     "method=auto was decided for %lld nodes x %lld and decide.keep=%s; "
                     "now there are %lld x %lld and %s: %s",
                     (long long)v->d.nodes, (long long)v->d.ranks_per_node, v->d.keep,
                     (long long)c->mesh.nodes, (long long)c->mesh.ranks_per_node,
                     c->decide.keep,
                     v->measure ? "it is decided again" : "the method stays");
    if (found || v->measure) return WEFT_OK;
    snprintf(v->d.settings, sizeof v->d.settings, "method=hsdp");
    snprintf(v->d.sentence, sizeof v->d.sentence,
             "method=auto: one node, where nothing crosses a wire: %s by itself",
             c->optimizer.kind);
    return WEFT_OK;
}

/* A process that joins is no member with other keys than the run's: it asks before it is one.
 * Whether the method may change, and at what loss, is the run's choice, too. */
static weft_status take_from_members(weft_ctx *ctx, weft_config *config,
                                     wefti_prepared *p) {
    int64_t n;
    int follows, keys = 0;
    wefti_elastic_ask_notice(p->bootstrap.mesh);
    const void *notice = wefti_elastic_await_notice(p->bootstrap.mesh, &n);
    wefti_alike_decided(notice, n, p->choice.text, sizeof p->choice.text);
    if (!notice)
        return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                             "method is auto, and no member of the run says what was "
                             "decided");
    if (sscanf(p->choice.text, "%d %lf %lf %" SCNd64 " %" SCNd64 " %lf %n", &follows,
               &p->choice.loss, &p->choice.bytes_per_day, &p->choice.busy.from_s,
               &p->choice.busy.to_s, &p->choice.busy.Bps, &keys) < 6 ||
        !keys)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "method is auto here, and the run was begun with the name of "
            "its method; expected that name");
    p->choice.follows = follows != 0;
    return apply(ctx, config, p->choice.text + keys);
}

/* ---- afterwards (train/following.h) ---- */

/* The form in which the checkpoint was written; "": that of the decision. */
static weft_status read_last(weft_ctx *ctx, const wefti_prepared *p,
                             char out[WEFTI_FORM_TEXT]) {
    char path[PATH_MAX];
    wefti_views views;
    WEFT_TRY(wefti_file_path(ctx, p->config->run.folder, "views.jsonl", path));
    WEFT_TRY(wefti_views_read(ctx, path, &views));
    for (int64_t i = 0; i < views.n_views; i++)
        if (views.views[i].step <= p->saved.step)
            snprintf(out, WEFTI_FORM_TEXT, "%s", views.views[i].form);
    wefti_views_fini(ctx, &views);
    return WEFT_OK;
}

/* A run that is resumed goes on in the form that it had changed to. `again`: decided anew. */
static weft_status resume_form(weft_ctx *ctx, const weft_config *config,
                               wefti_prepared *p, bool again) {
    char text[WEFTI_FORM_TEXT] = "";
    wefti_form form;
    if (p->saved.step < 0 || again) return WEFT_OK;
    if (wefti_bootstrap_leads(&p->bootstrap)) WEFT_TRY(read_last(ctx, p, text));
    WEFT_TRY(wefti_bootstrap_tell(&p->bootstrap, text, sizeof text));
    text[sizeof text - 1] = '\0';
    if (!text[0] || !wefti_form_read(text, &form)) return WEFT_OK;
    WEFT_TRY(weft_config_copy(ctx, config, &p->own_config));
    return wefti_form_set(ctx, p->own_config, &form);
}

/* Whether what is decided may change while the run goes on, and says if not. */
static weft_status follow(weft_ctx *ctx, const weft_config *config, wefti_prepared *p,
                          bool again) {
    wefti_form form;
    const char *why = wefti_form_of(config, &form);
    if (!p->choice.follows) return WEFT_OK;
    if (!why && !p->bootstrap.mesh && config->mesh.nodes > 1)
        why = "all ranks are in this process, and nothing crosses a wire";
    p->choice.follows = !why && config->mesh.nodes > 1;
    if (why && wefti_bootstrap_leads(&p->bootstrap))
        weft_ctx_log(ctx, WEFT_LOG_INFO, "method=auto keeps this choice: %s", why);
    return p->choice.follows ? resume_form(ctx, config, p, again) : WEFT_OK;
}

weft_status wefti_decide(weft_ctx *ctx, weft_config *config, wefti_prepared *p) {
    verdict v = {0};
    bool leads = wefti_bootstrap_leads(&p->bootstrap);
    weft_status status = WEFT_OK;
    if (!wefti_is(config->method, "auto")) return WEFT_OK;
    if (p->joins) return take_from_members(ctx, config, p);
    p->choice.follows = wefti_is(config->decide.keep, "optimizer");
    p->choice.loss = config->decide.loss;
    p->choice.bytes_per_day = (double)config->decide.bytes_per_day;
    (void)wefti_busy_parse(config->decide.busy, &p->choice.busy); /* checked before */
    if (leads) status = look_back(ctx, config, p, &v);
    WEFT_TRY(tell(ctx, p, &v, status));
    if (v.measure) WEFT_TRY(measure(ctx, config, p, &v));
    if (leads) weft_ctx_log(ctx, WEFT_LOG_INFO, "%s", v.d.sentence);
    WEFT_TRY(apply(ctx, config, v.d.settings));
    WEFT_TRY(follow(ctx, config, p, v.measure != 0));
    snprintf(p->choice.text, sizeof p->choice.text,
             "%d %.17g %.17g %" PRId64 " %" PRId64 " %.17g %s", p->choice.follows,
             p->choice.loss, p->choice.bytes_per_day, p->choice.busy.from_s,
             p->choice.busy.to_s, p->choice.busy.Bps, v.d.settings);
    return WEFT_OK;
}
