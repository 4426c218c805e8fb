/* SPDX-License-Identifier: MIT */
/* Compares a run with its prediction. The middle of a window of steps is compared with the
 * predicted step; the part that differs most, computing or waiting, is the likely cause.
 * The middle is the median, or the mean if steps differ by design: gossip with an exchange
 * in every second step has two kinds of steps, and the median would be one of the two.
 * With another form of what crosses the wire the mean since then is compared with what was
 * expected of it. */
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/stats.h"
#include "job/form.h"
#include "planner/advise.h"
#include "advice/advicejson.h"

enum { WINDOW = 20, SKIPPED = 2, ENOUGH = 5, MOST_STEPS = 1 << 20 };

/* A difference between prediction and measurement that is reported. */
static const double bound = 0.2;

/* A step that is longer than the median by this factor, with a calm prediction, was delayed. */
static const double held_up = 1.5;

typedef enum cause {
    CAUSE_NONE,
    CAUSE_SLOW_COMPUTE,
    CAUSE_FAST_COMPUTE,
    CAUSE_STRAGGLERS,
    CAUSE_SLOW_RANK,
    CAUSE_SLOW_CODEC,
    CAUSE_SLOW_WIRE,
    CAUSE_FAST_WIRE,
    N_CAUSES
} cause;

typedef struct sample {
    double step_s, compute_s, wait_s, behind_s; /* as in weft_step_record */
    int64_t slowest_rank;
} sample;

struct weft_watch {
    weft_prediction prediction; /* with spans, owned */
    char source[128];
    int64_t nodes, ranks_per_node;
    weft_link_facts wire;
    sample window[WINDOW]; /* step i of those counted is at i % WINDOW */
    int64_t n, seen;       /* counted steps; all steps, including those skipped at the
                              beginning */
    double *steps;         /* owned, [room] the first steps that were counted */
    int64_t room;
    wefti_form form; /* of what crosses the wire; */
    bool changed;    /* it is not that of the prediction, and */
    double step_s;   /* this was expected; NAN: nothing was */
    cause shown;
    int64_t again[N_CAUSES];    /* before so many steps a cause is not shown again */
    weft_watch_outcome outcome; /* that weft_watch_look returned last */
};

/* ---- made and ended ---- */

static weft_status predict(weft_ctx *ctx, const weft_config *config,
                           const weft_cluster *cluster, weft_watch *w) {
    weft_predict_options options = {
        .struct_size = sizeof options, .seed = 1, .timeline = true};
    snprintf(w->source, sizeof w->source, "%s", cluster->source);
    w->nodes = config->mesh.nodes;
    w->ranks_per_node = config->mesh.ranks_per_node;
    w->wire = cluster->wire;
    (void)wefti_form_of(config, &w->form);
    if (config->mesh.bandwidth_Bps > 0) {
        w->wire.bandwidth_Bps = config->mesh.bandwidth_Bps;
        w->wire.latency_s = config->mesh.latency_s;
    }
    w->room = config->run.steps < MOST_STEPS ? config->run.steps : MOST_STEPS;
    WEFT_TRY(wefti_alloc_n(ctx, w->room, sizeof *w->steps, "times of steps", &w->steps));
    weft_cluster facts;
    weft_status status = wefti_advise_facts(ctx, config, cluster, &facts);
    if (status == WEFT_OK)
        status = weft_predict(ctx, config, &facts, &options, &w->prediction);
    wefti_advise_drop_facts(ctx, cluster, &facts);
    return status;
}

weft_status weft_watch_create(weft_ctx *ctx, const weft_config *config,
                              const weft_cluster *cluster, weft_watch **out) {
    weft_watch *watch;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *watch, "the comparison with the plan", &watch));
    watch->prediction.struct_size = sizeof watch->prediction;
    weft_status status = predict(ctx, config, cluster, watch);
    if (status != WEFT_OK) {
        weft_watch_destroy(ctx, watch);
        return status;
    }
    *out = watch;
    return WEFT_OK;
}

void weft_watch_destroy(weft_ctx *ctx, weft_watch *watch) {
    if (!watch) return;
    weft_prediction_clear(ctx, &watch->prediction);
    WEFTI_FREE(ctx, watch->steps, watch);
}

const weft_prediction *weft_watch_prediction(const weft_watch *watch) {
    return &watch->prediction;
}

/* ---- compared ---- */

static double mean(const double *values, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += values[i];
    return n ? sum / (double)n : (double)NAN;
}

static bool is_uneven(const weft_watch *w) {
    return w->changed || w->prediction.step_s.high > held_up * w->prediction.step_s.low;
}

static double middle(const weft_watch *w, double *values, int64_t n) {
    return is_uneven(w) ? mean(values, n) : wefti_median(values, n);
}

static double planned_s(const weft_watch *w) {
    if (w->changed) return w->step_s;
    return is_uneven(w) ? w->prediction.mean_step_s : w->prediction.step_s.median;
}

static int64_t in_window(const weft_watch *w) { return w->n < WINDOW ? w->n : WINDOW; }

/* The middle of the window. */
static sample middle_of(const weft_watch *w) {
    double step[WINDOW], compute[WINDOW], wait[WINDOW];
    int64_t n = in_window(w);
    for (int64_t i = 0; i < n; i++) {
        step[i] = w->window[i].step_s;
        compute[i] = w->window[i].compute_s;
        wait[i] = w->window[i].wait_s;
    }
    return (sample){.step_s = middle(w, step, n),
                    .compute_s = middle(w, compute, n),
                    .wait_s = middle(w, wait, n)};
}

/* Share of the window's steps that were delayed. */
static double share_held_up(const weft_watch *w, double middle_s) {
    int64_t n = in_window(w), late = 0;
    for (int64_t i = 0; i < n; i++) late += w->window[i].step_s > held_up * middle_s;
    return n ? (double)late / (double)n : 0;
}

/* Whether most of the time that steps wait beyond the plan is another rank's computing. */
static bool waits_for_rank(const weft_watch *w) {
    const weft_prediction *p = &w->prediction;
    double wait_s = 0, behind_s = 0;
    int64_t n = in_window(w);
    for (int64_t i = 0; i < n; i++) {
        wait_s += w->window[i].wait_s - p->wait_s;
        behind_s += w->window[i].behind_s - p->late_s;
    }
    return 2 * behind_s > wait_s;
}

/* The rank that was furthest behind. */
static int64_t slowest_of(const weft_watch *w) {
    const sample *most = &w->window[0];
    for (int64_t i = 1; i < in_window(w); i++)
        if (w->window[i].behind_s > most->behind_s) most = &w->window[i];
    return most->slowest_rank;
}

static cause find_cause(const weft_watch *w, const sample *now) {
    const weft_prediction *p = &w->prediction;
    double compute = now->compute_s - p->compute_s, wait = now->wait_s - p->wait_s;
    double plan_s = planned_s(w);
    if (now->step_s < (1 - bound) * plan_s)
        return compute < wait ? CAUSE_FAST_COMPUTE : CAUSE_FAST_WIRE;
    bool late = !is_uneven(w) && share_held_up(w, now->step_s) > 0.1;
    if (now->step_s <= (1 + bound) * plan_s) return late ? CAUSE_STRAGGLERS : CAUSE_NONE;
    if (compute >= wait) return CAUSE_SLOW_COMPUTE;
    if (waits_for_rank(w)) return CAUSE_SLOW_RANK;
    if (late) return CAUSE_STRAGGLERS;
    return p->codec_s > p->wire_s ? CAUSE_SLOW_CODEC : CAUSE_SLOW_WIRE;
}

static const struct {
    const char *what, *hint;
} causes[] = {
    [CAUSE_NONE] = {"nothing", ""},
    [CAUSE_SLOW_COMPUTE] = {"computing is slower",
                            "another program, fewer cores, or facts that promise more"},
    [CAUSE_FAST_COMPUTE] = {"computing is faster", "the facts promise less"},
    [CAUSE_STRAGGLERS] = {"some steps are held up",
                          "a rank or the wire stalls now and then"},
    [CAUSE_SLOW_RANK] = {"computing is slower",
                         "its machine stalls, has fewer cores or another program"},
    [CAUSE_SLOW_CODEC] = {"waiting is longer, for coding and optimizing",
                          "the exchange threads lack processor time"},
    [CAUSE_SLOW_WIRE] = {"waiting is longer, for the wire",
                         "it is slower than the facts say, or somebody else uses it"},
    [CAUSE_FAST_WIRE] = {"waiting is shorter", "the facts promise less"}};

static void say(const weft_watch *w, cause found, const sample *now, char *out,
                size_t size) {
    const weft_prediction *p = &w->prediction;
    char step[32], planned[32], a[32], b[32], where[32] = "";
    bool compute = found == CAUSE_SLOW_COMPUTE || found == CAUSE_FAST_COMPUTE;
    if (found == CAUSE_SLOW_RANK)
        snprintf(where, sizeof where, " on rank %" PRId64, slowest_of(w));
    snprintf(out, size,
             "a step takes %s, the plan says %s: %s%s (%s %s instead of %s): %s",
             wefti_seconds_text(now->step_s, step, sizeof step),
             wefti_seconds_text(planned_s(w), planned, sizeof planned),
             causes[found].what, where, compute ? "computing" : "waiting",
             wefti_seconds_text(compute ? now->compute_s : now->wait_s, a, sizeof a),
             wefti_seconds_text(compute ? p->compute_s : p->wait_s, b, sizeof b),
             causes[found].hint);
}

static void follow(weft_watch *w, const weft_step_record *r) {
    wefti_form now;
    if (!r->form || !wefti_form_read(r->form, &now) || wefti_form_same(&now, &w->form))
        return;
    w->form = now;
    w->changed = true;
    w->step_s = r->planned_s > 0 ? r->planned_s : (double)NAN;
    w->n = w->seen = 0;
}

bool weft_watch_step(weft_watch *watch, const weft_step_record *r, char *sentence,
                     size_t sentence_size) {
    follow(watch, r);
    if (watch->seen++ < SKIPPED) return false;
    watch->window[watch->n % WINDOW] = (sample){r->step_s, r->compute_s, r->wait_s,
                                                r->behind_s, r->slowest_rank};
    if (watch->n < watch->room) watch->steps[watch->n] = r->step_s;
    watch->n++;
    if (watch->n % WINDOW != 0 || watch->changed) return false;
    sample now = middle_of(watch);
    cause found = find_cause(watch, &now);
    if (found == CAUSE_NONE || found == watch->shown) return false;
    if (watch->n < watch->again[found]) return false; /* it comes and goes */
    watch->shown = found;
    watch->again[found] = 2 * watch->n;
    say(watch, found, &now, sentence, sentence_size);
    return true;
}

static double measured_s(const weft_watch *w) {
    return middle(w, w->steps, w->n < w->room ? w->n : w->room);
}

double weft_watch_ratio(const weft_watch *watch) {
    if (watch->n < ENOUGH) return NAN;
    if (watch->changed) return measured_s(watch) / planned_s(watch);
    return middle_of(watch).step_s / planned_s(watch);
}

const weft_watch_outcome *weft_watch_look(weft_watch *watch) {
    watch->outcome = (weft_watch_outcome){is_uneven(watch), planned_s(watch),
                                          measured_s(watch)};
    return &watch->outcome;
}

/* ---- plan.json ---- */

static json_t *span_json(const weft_span *span, bool *ok) {
    static const char *const lanes[] = {"compute", "exchange", "wire"};
    json_t *object = json_object();
    wefti_json_put(object, "lane", json_string(lanes[span->lane]), ok);
    wefti_json_put(object, "index", json_integer(span->index), ok);
    wefti_json_put(object, "what", wefti_json_words(span->what), ok);
    wefti_json_put(object, "begin_s", wefti_json_real(span->begin_s), ok);
    wefti_json_put(object, "end_s", wefti_json_real(span->end_s), ok);
    return object;
}

static json_t *watch_json(const weft_watch *w, bool *ok) {
    json_t *object = json_object(), *spans = json_array();
    wefti_json_put(object, "version", json_integer(1), ok);
    wefti_json_put(object, "source", wefti_json_words(w->source), ok);
    wefti_json_put(object, "nodes", json_integer(w->nodes), ok);
    wefti_json_put(object, "ranks_per_node", json_integer(w->ranks_per_node), ok);
    wefti_json_put(object, "bandwidth_Bps", wefti_json_real(w->wire.bandwidth_Bps), ok);
    wefti_json_put(object, "latency_s", wefti_json_real(w->wire.latency_s), ok);
    wefti_json_put(object, "prediction", wefti_json_prediction(&w->prediction, ok), ok);
    for (int64_t i = 0; i < w->prediction.n_spans; i++)
        if (json_array_append_new(spans, span_json(&w->prediction.spans[i], ok)) != 0)
            *ok = false;
    wefti_json_put(object, "timeline", spans, ok);
    return object;
}

weft_status weft_watch_write(weft_ctx *ctx, const weft_watch *watch, const char *folder) {
    char path[PATH_MAX], *text;
    bool ok = true;
    WEFT_TRY(wefti_file_path(ctx, folder, "plan.json", path));
    json_t *value = watch_json(watch, &ok);
    WEFT_TRY(wefti_json_dumped(ctx, value, ok, JSON_INDENT(1), &text));
    weft_status status = wefti_file_write(ctx, path, text, (int64_t)strlen(text));
    wefti_free(ctx, text);
    return status;
}
