/* SPDX-License-Identifier: MIT */
/* The advice as JSON (docs/planning.md). A number that is not known or infinite is null, since
 * JSON has no infinity and no NaN. Every put can fail for lack of memory; `ok` records that,
 * and the caller checks it once, at the end, so that an incomplete object is never printed. */
#include <jansson.h>
#include <math.h>

#include "text/json.h"
#include "planner/advise.h"
#include "advice/advicejson.h"

void wefti_json_put(json_t *object, const char *name, json_t *value, bool *ok) {
    if (json_object_set_new(object, name, value) != 0) *ok = false;
}

json_t *wefti_json_real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static void real(json_t *object, const char *name, double value, bool *ok) {
    wefti_json_put(object, name, wefti_json_real(value), ok);
}

static void integer(json_t *object, const char *name, int64_t value, bool *ok) {
    wefti_json_put(object, name, json_integer((json_int_t)value), ok);
}

json_t *wefti_json_words(const char *words) {
    char plain[1024];
    json_t *value = json_string(words);
    if (value) return value;
    size_t n = 0; /* not UTF-8: a message that was truncated inside a character */
    for (; words[n] && n + 1 < sizeof plain; n++)
        plain[n] = (unsigned char)words[n] < 0x80 ? words[n] : '?';
    plain[n] = '\0';
    return json_string(plain);
}

static void text(json_t *object, const char *name, const char *value, bool *ok) {
    wefti_json_put(object, name, wefti_json_words(value), ok);
}

static void flag(json_t *object, const char *name, bool value, bool *ok) {
    wefti_json_put(object, name, json_boolean(value), ok);
}

static json_t *quantiles(const weft_quantiles *q, bool *ok) {
    json_t *object = json_object();
    real(object, "low", q->low, ok);
    real(object, "median", q->median, ok);
    real(object, "high", q->high, ok);
    return object;
}

/* "compute", "wire", "waiting", "codec". */
static const char *bound_name(weft_bound bound) {
    static const char *const names[] = {"compute", "wire", "waiting", "codec"};
    return names[bound];
}

json_t *wefti_json_prediction(const weft_prediction *p, bool *ok) {
    json_t *object = json_object();
    wefti_json_put(object, "step_s", quantiles(&p->step_s, ok), ok);
    real(object, "mean_step_s", p->mean_step_s, ok);
    real(object, "compute_s", p->compute_s, ok);
    real(object, "exchange_s", p->exchange_s, ok);
    real(object, "wait_s", p->wait_s, ok);
    real(object, "wait_wire_s", p->wire_s, ok);
    real(object, "wait_codec_s", p->codec_s, ok);
    real(object, "wait_late_s", p->late_s, ok);
    real(object, "hidden_share", p->hidden_share, ok);
    text(object, "bound", bound_name(p->bound), ok);
    real(object, "tokens_per_s", p->tokens_per_s, ok);
    real(object, "wire_bytes", p->wire_bytes, ok);
    integer(object, "memory_bytes", p->memory_bytes, ok);
    integer(object, "parameters", p->parameters, ok);
    return object;
}

static json_t *learning(const weft_learning *l, bool *ok) {
    json_t *object = json_object();
    flag(object, "same", !l->changes[0], ok);
    text(object, "changes", l->changes, ok);
    flag(object, "measured", l->measured, ok);
    real(object, "steps_low", l->measured ? l->low : (double)NAN, ok);
    real(object, "steps_high", l->measured ? l->high : (double)NAN, ok);
    real(object, "per_doubling", l->measured ? l->per_doubling : (double)NAN, ok);
    real(object, "per_doubling_error",
         l->measured ? (double)l->per_doubling_error : (double)NAN, ok);
    text(object, "source", l->source, ok);
    return object;
}

static const char *worth_name(weft_worth worth) {
    static const char *const names[] = {"no", "yes", "measure"};
    return names[worth];
}

static json_t *span(double low, double high, bool *ok) {
    json_t *object = json_object();
    real(object, "low", low, ok);
    real(object, "high", high, ok);
    return object;
}

/* A candidate at both ends of the facts. */
static void outlook(json_t *object, const weft_outlook *o, bool *ok) {
    static const char *const doubts[] = {"wire", "computing", "learning", "model"};
    wefti_json_put(object, "speedup_range", span(o->low, o->high, ok), ok);
    real(object, "alone", o->alone, ok);
    wefti_json_put(object, "alone_range", span(o->alone_low, o->alone_high, ok), ok);
    real(object, "optimizer", o->optimizer, ok);
    wefti_json_put(object, "optimizer_range",
                   span(o->optimizer_low, o->optimizer_high, ok), ok);
    integer(object, "peer", o->peer, ok);
    text(object, "worth", worth_name(o->worth), ok);
    text(object, "doubt", doubts[o->doubt], ok);
}

/* A quantity that is 0 if it is not known, as a number of the file: NAN becomes null. */
static double known(double value) { return value > 0 ? value : (double)NAN; }

static json_t *candidate(const weft_advice *a, int64_t i, bool *ok) {
    const weft_candidate *c = &a->candidates[i];
    const weft_outlook *o = &a->outlooks[i];
    double node_hours = c->hours * (double)c->nodes;
    json_t *object = json_object();
    text(object, "name", c->name, ok);
    text(object, "method", c->method, ok);
    text(object, "framework", c->framework[0] ? c->framework : "weft", ok);
    text(object, "settings", c->settings, ok);
    integer(object, "nodes", c->nodes, ok);
    integer(object, "ranks_per_node", c->ranks_per_node, ok);
    integer(object, "shards", c->shards ? c->shards : c->ranks_per_node, ok);
    integer(object, "sites", c->sites, ok);
    flag(object, "own", c->own, ok);
    flag(object, "usable", c->usable, ok);
    text(object, "problem", c->problem, ok);
    real(object, "speedup", c->speedup, ok);
    outlook(object, o, ok);
    real(object, "efficiency", c->efficiency, ok);
    flag(object, "goes_on", c->goes_on, ok);
    real(object, "steps", c->learning.measured ? c->steps : (double)NAN, ok);
    real(object, "steps_error", c->steps_error, ok);
    real(object, "error", c->error, ok);
    real(object, "hours", c->hours, ok);
    real(object, "gigabytes", c->gigabytes, ok);
    real(object, "price", known(a->price_h * node_hours), ok);
    real(object, "kilowatt_hours", known(wefti_advice_watt_hours(a, c) / 1000), ok);
    real(object, "break_even_Bps", c->break_even_Bps, ok);
    flag(object, "never_breaks_even", isinf(c->break_even_Bps), ok);
    real(object, "overtaken_Bps", c->overtaken_Bps, ok);
    wefti_json_put(object, "prediction", wefti_json_prediction(&c->prediction, ok), ok);
    wefti_json_put(object, "learning", learning(&c->learning, ok), ok);
    return object;
}

static json_t *row_of(const double *values, int64_t n, bool *ok) {
    json_t *row = json_array();
    for (int64_t i = 0; i < n; i++)
        if (json_array_append_new(row, wefti_json_real(values[i])) != 0) *ok = false;
    return row;
}

static void append(json_t *array, json_t *value, bool *ok) {
    if (json_array_append_new(array, value) != 0) *ok = false;
}

static json_t *curves(const weft_advice *a, bool *ok) {
    json_t *object = json_object(), *rows = json_array();
    wefti_json_put(object, "bandwidth_Bps", row_of(a->bandwidths, a->n_bandwidths, ok),
                   ok);
    for (int64_t i = 0; i < a->n_candidates; i++) {
        if (a->candidates[i].curve < 0) continue;
        json_t *row = json_object();
        integer(row, "candidate", i, ok);
        wefti_json_put(row, "speedup",
                       row_of(a->speedups + a->candidates[i].curve * a->n_bandwidths,
                              a->n_bandwidths, ok),
                       ok);
        append(rows, row, ok);
    }
    wefti_json_put(object, "methods", rows, ok);
    return object;
}

static void put_index(json_t *object, const char *name, int64_t index, bool *ok) {
    wefti_json_put(object, name, index < 0 ? json_null() : json_integer(index), ok);
}

static json_t *ranges(const weft_advice *a, bool *ok) {
    json_t *rows = json_array();
    for (int64_t i = 0; i < a->n_ranges; i++) {
        json_t *row = json_object();
        real(row, "from_Bps", a->ranges[i].from_Bps, ok);
        real(row, "to_Bps", a->ranges[i].to_Bps, ok);
        put_index(row, "candidate", a->ranges[i].candidate, ok);
        append(rows, row, ok);
    }
    return rows;
}

static json_t *left_out(const weft_advice *a, bool *ok) {
    json_t *rows = json_array();
    for (int64_t i = 0; i < a->n_left_out; i++) {
        json_t *row = json_object();
        text(row, "what", a->left_out[i].what, ok);
        integer(row, "n", a->left_out[i].n, ok);
        text(row, "why", a->left_out[i].why, ok);
        append(rows, row, ok);
    }
    return rows;
}

/* The measured steps, with their predictions from the facts that were derived from them. */
static json_t *measured(const weft_advice *a, bool *ok) {
    json_t *rows = json_array();
    for (int i = 0; i < a->n_measured; i++) {
        json_t *row = json_object();
        text(row, "text", a->measured[i].text, ok);
        integer(row, "nodes", a->measured[i].nodes, ok);
        real(row, "seconds", a->measured[i].seconds, ok);
        real(row, "predicted_s", a->measured[i].predicted_s, ok);
        real(row, "effort", known(a->measured[i].effort), ok);
        append(rows, row, ok);
    }
    return rows;
}

static json_t *inferred(const weft_inference_of_facts *found, bool *ok) {
    json_t *object = json_object();
    real(object, "rank_flops", found->rank_flops, ok);
    real(object, "launch_s", found->launch_s, ok);
    real(object, "wire_Bps", known(found->wire_Bps), ok);
    real(object, "effort", known(found->effort), ok);
    real(object, "constant_s", found->constant_s, ok);
    text(object, "text", found->text, ok);
    return object;
}

static json_t *wire(const weft_link_facts *link, bool *ok) {
    json_t *object = json_object();
    real(object, "bandwidth_Bps", link->bandwidth_Bps, ok);
    real(object, "latency_s", link->latency_s, ok);
    return object;
}

static json_t *whole(const weft_advice *a, bool *ok) {
    json_t *object = json_object(), *rows = json_array();
    integer(object, "version", 3, ok);
    real(object, "tokens", a->tokens, ok);
    integer(object, "tokens_per_step", a->tokens_per_step, ok);
    real(object, "run_steps", a->tokens / (double)a->tokens_per_step, ok);
    integer(object, "parameters", a->parameters, ok);
    wefti_json_put(object, "wire", wire(&a->wire, ok), ok);
    put_index(object, "baseline", a->baseline, ok);
    put_index(object, "choice", a->choice, ok);
    put_index(object, "fastest", a->fastest, ok);
    put_index(object, "full", a->full, ok);
    put_index(object, "rival", a->rival, ok);
    put_index(object, "headline", a->headline, ok);
    text(object, "worth", worth_name(a->worth), ok);
    for (int64_t i = 0; i < a->n_candidates; i++) append(rows, candidate(a, i, ok), ok);
    wefti_json_put(object, "candidates", rows, ok);
    wefti_json_put(object, "curves", curves(a, ok), ok);
    wefti_json_put(object, "ranges", ranges(a, ok), ok);
    wefti_json_put(object, "left_out", left_out(a, ok), ok);
    wefti_json_put(object, "measured", measured(a, ok), ok);
    wefti_json_put(object, "inferred",
                   a->inferred ? inferred(a->inferred, ok) : json_null(), ok);
    text(object, "money", a->money, ok);
    json_t *ranks = a->n_ranks > 0 ? json_array() : json_null();
    for (int64_t i = 0; i < a->n_ranks; i++) append(ranks, json_integer(a->ranks[i]), ok);
    wefti_json_put(object, "ranks", ranks, ok);
    text(object, "precision", wefti_precision_name(a->precision), ok);
    flag(object, "recompute", a->recompute, ok);
    flag(object, "found_fit", a->found_fit, ok);
    real(object, "ranks_needed", known(isfinite(a->ranks_needed) ? a->ranks_needed : 0),
         ok);
    text(object, "answer", a->answer ? a->answer : "", ok);
    text(object, "next", a->next ? a->next : "", ok);
    text(object, "advice", a->text ? a->text : "", ok);
    return object;
}

weft_status wefti_json_dumped(weft_ctx *ctx, json_t *value, bool ok, size_t flags,
                              char **out) {
    int64_t n_bytes;
    weft_status status = wefti_json_text(ctx, ok ? value : NULL,
                                         flags | JSON_REAL_PRECISION(9), out, &n_bytes);
    json_decref(value);
    return status;
}

weft_status weft_advice_json(weft_ctx *ctx, const weft_advice *advice, char **out) {
    bool ok = true;
    json_t *value = whole(advice, &ok);
    return wefti_json_dumped(ctx, value, ok, 0, out);
}
