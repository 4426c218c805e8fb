/* SPDX-License-Identifier: MIT */
/* The plan as an interactive page: one JSON object between the two parts of the page
 * (planpage.h), drawn by page/plan.js.
 *
 *     program, answer, tokens, tokens_per_step, batch_per_rank, parameters, model "gpt2 2 x 64",
 *     wire {bandwidth_Bps, latency_s}, alone {name, speedup}: the choice, where that is one node
 *     failures {between_s, restart_s, save_s, save_every, silence_s}, critical_batch; 0: none
 *     batches  list of m: times the batch that was planned with
 *     one      planes of one node alone
 *     methods  list of {name, learning, choice, at: list of {nodes, bytes, steps, goes_on, planes}}
 *     steps    to a loss, over those of one node
 *     planes   for each of the batches, for each order of phases, a list of
 *              [per_Bps, latencies, rest] (planes.h); none if the batch can not be shared
 *
 * This is done for each method with a curve, on 2, 4, 8, ... and all nodes; combinations
 * that are impossible are left out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/version.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/sized.h"
#include "advice/advicejson.h"
#include "advice/planes.h"
#include "job/job.h"
#include "advice/planpage.h"

/* With more nodes, candidates are predicted from a smaller run (advise_predict.c). */
enum { RUN_NODES = 200 };
enum { PAGE_METHODS = 12, PAGE_NODES = 8, PAGE_WORK = 96, PAGE_BATCHES = 9 };
static const double batches[PAGE_BATCHES] = {1.0 / 16, 1.0 / 8, 0.25, 0.5, 1,
                                             2,        4,       8,    16};

/* A method on a number of nodes. */
typedef struct cell {
    weft_candidate candidate; /* with the batch that was planned with */
    wefti_planes planes[PAGE_BATCHES];
    bool there;
} cell;

typedef struct page {
    wefti_adviser a;
    weft_config *runs[PAGE_BATCHES]; /* owned; NULL: there is no such batch */
    const weft_advice *advice;
    int64_t of[PAGE_METHODS], nodes[PAGE_NODES]; /* candidates; ascending */
    int n_methods, n_nodes;
    cell one, *cells; /* [n_methods, n_nodes] owned */
} page;

/* ---- contents ---- */

/* Priority of a candidate with a curve for a place on the page: lower comes first. */
static int urgency(const weft_advice *v, int64_t i) {
    if (i == v->choice || i == v->full) return 0;
    return v->candidates[i].learning.measured ? 1 : 2;
}

static int by_index(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The candidates with curves, in their order: the choice and full synchronization, then those
 * whose learning is known, as far as there is room. */
static void pick_methods(page *p) {
    const weft_advice *v = p->advice;
    for (int wanted = 0; wanted <= 2; wanted++)
        for (int64_t i = 0; i < v->n_candidates && p->n_methods < PAGE_METHODS; i++)
            if (v->candidates[i].curve >= 0 && urgency(v, i) == wanted)
                p->of[p->n_methods++] = i;
    qsort(p->of, (size_t)p->n_methods, sizeof *p->of, by_index);
}

static void pick_nodes(page *p) {
    int64_t all = p->a.cluster.nodes;
    int64_t n = p->a.cluster.sites > 1 ? all : 2;
    double factor = fmax(2, pow((double)all / 2, 1.0 / (PAGE_NODES - 1)));
    for (; n < all && p->n_nodes < PAGE_NODES - 1; n = (int64_t)ceil((double)n * factor))
        p->nodes[p->n_nodes++] = n;
    p->nodes[p->n_nodes++] = all;
}

/* The candidate on another number of nodes: the same settings, except those that depend
 * on the number. */
static weft_status put_nodes(weft_ctx *ctx, const wefti_adviser *a,
                             const weft_candidate *from, int64_t nodes,
                             weft_candidate *out) {
    int64_t tokens = wefti_advise_tokens(a, nodes);
    int64_t rows = tokens / (nodes * from->ranks_per_node) / wefti_advise_length(a);
    static const char *const decided[] = {
        "mesh.nodes=", "batch.micro=", "batch.tokens_per_step="};
    *out = *from;
    out->nodes = nodes;
    size_t used = (size_t)snprintf(
        out->settings, sizeof out->settings,
        "mesh.nodes=%lld batch.micro=%lld batch.tokens_per_step=%lld", (long long)nodes,
        (long long)wefti_advise_micro(a, rows), (long long)tokens);
    for (const char *at = from->settings; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        bool own = false;
        for (size_t k = 0; k < sizeof decided / sizeof decided[0]; k++)
            own |= strncmp(at, decided[k], strlen(decided[k])) == 0;
        if (!own && used + n + 2 < sizeof out->settings)
            used += (size_t)snprintf(out->settings + used, sizeof out->settings - used,
                                     " %.*s", (int)n, at);
        at += n;
    }
    return wefti_advise_recode(ctx, a, out);
}

/* ---- the model ---- */

/* Whether a candidate synchronizes so rarely that a prediction plays hundreds of steps;
 * it is left out, since a page needs a hundred predictions per cell. */
static weft_status is_rare(weft_ctx *ctx, const page *p, const weft_candidate *c,
                           bool *rare) {
    enum { MOST_PERIOD = 64 };
    weft_config *config;
    *rare = false;
    if (c->framework[0] || c->nodes > RUN_NODES) return WEFT_OK;
    WEFT_TRY(wefti_advise_config(ctx, p->a.run, c->settings, false, &config));
    *rare = wefti_job_period(config) > MOST_PERIOD;
    weft_config_destroy(ctx, config);
    return WEFT_OK;
}

/* The planes of a candidate with each of the batches; the configuration may refuse some. */
static weft_status find_batches(weft_ctx *ctx, const page *p, const weft_candidate *from,
                                int64_t nodes, wefti_planes *out) {
    weft_candidate c;
    wefti_adviser a = p->a;
    for (int i = 0; i < PAGE_BATCHES; i++) {
        a.run = p->runs[i];
        if (!a.run) continue;
        weft_status status = put_nodes(ctx, &a, from, nodes, &c);
        if (status == WEFT_OK) status = wefti_planes_find(ctx, &a, &c, &out[i]);
        if (status == WEFT_ERR_CONFIG) out[i].n = 0;
        if (status != WEFT_OK && status != WEFT_ERR_CONFIG) return status;
    }
    return WEFT_OK;
}

/* Computes a cell; a cell that the configuration refuses is left out. */
static weft_status find_cell(weft_ctx *ctx, void *user, int64_t i) {
    page *p = user;
    cell *c = &p->cells[i];
    const weft_candidate *from = &p->advice->candidates[p->of[i / p->n_nodes]];
    int64_t nodes = p->nodes[i % p->n_nodes];
    bool rare;
    WEFT_TRY(put_nodes(ctx, &p->a, from, nodes, &c->candidate));
    weft_status status = is_rare(ctx, p, &c->candidate, &rare);
    if (status == WEFT_OK && rare) return WEFT_OK;
    if (status == WEFT_OK)
        status = wefti_advise_predict(ctx, &p->a, &c->candidate, 0,
                                      &c->candidate.prediction);
    wefti_advise_steps(&p->a, &c->candidate);
    if (status == WEFT_OK) status = find_batches(ctx, p, from, nodes, c->planes);
    c->there = status == WEFT_OK;
    return status == WEFT_ERR_CONFIG ? WEFT_OK : status;
}

/* Makes the run with each of the possible batches. */
static weft_status make_runs(page *p) {
    weft_ctx *ctx = p->a.ctx;
    char text[64];
    for (int i = 0; i < PAGE_BATCHES; i++) {
        double tokens = (double)p->a.run->batch.tokens_per_step * batches[i];
        bool whole = tokens >= 1 && tokens <= 9e15 && !(floor(tokens) < tokens);
        if (!whole) continue;
        snprintf(text, sizeof text, "batch.tokens_per_step=%.0f", tokens);
        weft_status status = wefti_advise_config(ctx, p->a.run, text, false, &p->runs[i]);
        if (status == WEFT_ERR_CONFIG) p->runs[i] = NULL;
        if (status != WEFT_OK && status != WEFT_ERR_CONFIG) return status;
    }
    return WEFT_OK;
}

static weft_status find_all(page *p) {
    weft_ctx *ctx = p->a.ctx;
    const weft_advice *v = p->advice;
    p->one.candidate = v->candidates[v->baseline];
    WEFT_TRY(make_runs(p));
    WEFT_TRY(find_batches(ctx, p, &p->one.candidate, 1, p->one.planes));
    int64_t n = (int64_t)p->n_methods * p->n_nodes;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *p->cells, "the page", &p->cells));
    return wefti_advise_each(&p->a, n, find_cell, p);
}

/* ---- as JSON ---- */

static void put(json_t *object, const char *name, double value, bool *ok) {
    wefti_json_put(object, name, wefti_json_real(value), ok);
}

static void append(json_t *array, json_t *value, bool *ok) {
    if (json_array_append_new(array, value) != 0) *ok = false;
}

static json_t *row(const double *values, int n, bool *ok) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) append(list, wefti_json_real(values[i]), ok);
    return list;
}

static json_t *order_of(const wefti_order_planes *order, bool *ok) {
    json_t *list = json_array();
    for (int i = 0; i < order->n; i++) {
        const wefti_plane *p = &order->plane[i];
        append(list, row((double[]){p->per_Bps, p->latencies, p->rest}, 3, ok), ok);
    }
    return list;
}

static json_t *planes_of(const wefti_planes *planes, bool *ok) {
    json_t *list = json_array();
    for (int i = 0; i < planes->n; i++) append(list, order_of(&planes->order[i], ok), ok);
    return list;
}

static json_t *cell_of(const cell *c, bool *ok) {
    json_t *list = json_array();
    for (int i = 0; i < PAGE_BATCHES; i++) append(list, planes_of(&c->planes[i], ok), ok);
    return list;
}

static const char *learning_of(const weft_learning *l, char *out, size_t size) {
    if (!l->changes[0]) return "same";
    if (!l->measured) return "not measured";
    snprintf(out, size, "%.2f to %.2f", l->low, l->high);
    return out;
}

static json_t *method_of(const page *p, int k, bool *ok) {
    const weft_candidate *c = &p->advice->candidates[p->of[k]];
    json_t *object = json_object(), *list = json_array();
    char learning[40];
    wefti_json_put(object, "name", wefti_json_words(c->name), ok);
    wefti_json_put(object, "learning",
                   json_string(learning_of(&c->learning, learning, sizeof learning)), ok);
    wefti_json_put(object, "choice", json_boolean(p->of[k] == p->advice->choice), ok);
    const weft_outlook *o = &p->advice->outlooks[p->of[k]];
    const double ends[] = {o->low / c->speedup, o->high / c->speedup};
    wefti_json_put(object, "range", row(ends, 2, ok), ok);
    for (int i = 0; i < p->n_nodes; i++) {
        const cell *at = &p->cells[k * p->n_nodes + i];
        if (!at->there) continue;
        json_t *one = json_object();
        put(one, "nodes", (double)p->nodes[i], ok);
        put(one, "bytes", at->candidate.prediction.wire_bytes, ok);
        put(one, "steps", at->candidate.steps, ok);
        bool goes_on = wefti_advise_goes_on(&p->a, &at->candidate);
        wefti_json_put(one, "goes_on", json_boolean(goes_on), ok);
        wefti_json_put(one, "planes", cell_of(at, ok), ok);
        append(list, one, ok);
    }
    wefti_json_put(object, "at", list, ok);
    return object;
}

static bool is_there(const page *p, int k) {
    bool any = false;
    for (int i = 0; i < p->n_nodes; i++) any |= p->cells[k * p->n_nodes + i].there;
    return any;
}

/* The cost of a failure, as in advise_error.c. */
static json_t *failures_of(const wefti_adviser *a, bool *ok) {
    json_t *object = json_object();
    put(object, "between_s", a->options.failure_s, ok);
    put(object, "restart_s", a->options.restart_s, ok);
    put(object, "save_s", a->options.save_s, ok);
    put(object, "save_every", (double)a->run->run.save_every, ok);
    put(object, "silence_s", a->run->elastic.silence, ok);
    return object;
}

static json_t *model_of(const weft_config *run) {
    char text[120];
    snprintf(text, sizeof text, "%.80s %lld x %lld", run->model.kind,
             (long long)run->model.layers, (long long)run->model.width);
    return wefti_json_words(text);
}

static json_t *whole(const page *p, bool *ok) {
    json_t *object = json_object(), *methods = json_array(), *wire = json_object();
    const weft_advice *v = p->advice;
    double nodes[PAGE_NODES];
    for (int i = 0; i < p->n_nodes; i++) nodes[i] = (double)p->nodes[i];
    for (int k = 0; k < p->n_methods; k++)
        if (is_there(p, k)) append(methods, method_of(p, k, ok), ok);
    put(wire, "bandwidth_Bps", v->wire.bandwidth_Bps, ok);
    put(wire, "latency_s", v->wire.latency_s, ok);
    wefti_json_put(object, "program", json_string("weft " WEFT_VERSION), ok);
    wefti_json_put(object, "answer", wefti_json_words(v->answer ? v->answer : ""), ok);
    if (v->choice >= 0 && v->candidates[v->choice].nodes == 1) {
        json_t *alone = json_object();
        wefti_json_put(alone, "name", wefti_json_words(v->candidates[v->choice].name),
                       ok);
        put(alone, "speedup", v->candidates[v->choice].speedup, ok);
        wefti_json_put(object, "alone", alone, ok);
    }
    put(object, "tokens", v->tokens, ok);
    put(object, "tokens_per_step", (double)v->tokens_per_step, ok);
    put(object, "parameters", (double)v->parameters, ok);
    wefti_json_put(object, "model", model_of(p->a.run), ok);
    wefti_json_put(object, "batch_per_rank", json_boolean(p->a.options.batch_per_rank),
                   ok);
    wefti_json_put(object, "wire", wire, ok);
    wefti_json_put(object, "failures", failures_of(&p->a, ok), ok);
    put(object, "critical_batch", p->a.options.critical_batch, ok);
    wefti_json_put(object, "batches", row(batches, PAGE_BATCHES, ok), ok);
    wefti_json_put(object, "nodes", row(nodes, p->n_nodes, ok), ok);
    wefti_json_put(object, "one", cell_of(&p->one, ok), ok);
    wefti_json_put(object, "methods", methods, ok);
    return object;
}

/* Inside a script element "<" would be read as HTML. */
static void put_escaped(weft_ctx *ctx, wefti_buffer *out, const char *text) {
    while (*text) {
        size_t n = strcspn(text, "<");
        wefti_buffer_put(ctx, out, text, (int64_t)n);
        text += n;
        if (*text == '<') wefti_buffer_text(ctx, out, "\\u003c"), text++;
    }
}

static weft_status write_page(weft_ctx *ctx, const page *p, const char *path) {
    bool ok = true;
    char *text;
    wefti_buffer out = {.n = 0};
    json_t *value = whole(p, &ok);
    WEFT_TRY(wefti_json_dumped(ctx, value, ok, JSON_COMPACT, &text));
    wefti_buffer_put(ctx, &out, wefti_plan_page_head,
                     (int64_t)wefti_plan_page_head_bytes);
    put_escaped(ctx, &out, text);
    wefti_buffer_put(ctx, &out, wefti_plan_page_tail,
                     (int64_t)wefti_plan_page_tail_bytes);
    weft_status status = out.status;
    if (status == WEFT_OK) status = wefti_file_write(ctx, path, out.bytes, out.n);
    wefti_buffer_fini(ctx, &out);
    wefti_free(ctx, text);
    return status;
}

weft_status weft_advice_page(weft_ctx *ctx, const weft_config *run,
                             const weft_cluster *cluster,
                             const weft_advise_options *options,
                             const weft_advice *advice, const char *path) {
    WEFTI_SIZED_IN(ctx, weft_advise_options, options);
    if (advice->n_curves == 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "there is nothing to draw in %s: no method was tried on several nodes", path);
    page *p;
    weft_config *own;
    WEFT_TRY(wefti_alloc(ctx, sizeof *p, "the page", &p));
    weft_status status = wefti_advise_run(ctx, run, &own);
    if (status != WEFT_OK) wefti_free(ctx, p);
    if (status != WEFT_OK) return status;
    p->advice = advice;
    p->a = (wefti_adviser){
        .ctx = ctx, .run = own, .cluster = *cluster, .work = PAGE_WORK};
    p->a.options = *options;
    p->a.options.on_progress = NULL;
    p->a.length = advice->tokens / (double)wefti_advise_tokens(&p->a, 1);
    if (advice->inferred) p->a.constant_s = advice->inferred->constant_s;
    *(cluster->sites > 1 ? &p->a.cluster.site : &p->a.cluster.wire) = advice->wire;
    pick_methods(p);
    pick_nodes(p);
    status = wefti_machines_sort(&p->a);
    if (status == WEFT_OK) status = wefti_advise_own(&p->a);
    if (status == WEFT_OK) status = find_all(p);
    if (status == WEFT_OK) status = write_page(ctx, p, path);
    wefti_machines_drop(&p->a);
    for (int i = 0; i < PAGE_BATCHES; i++) weft_config_destroy(ctx, p->runs[i]);
    weft_config_destroy(ctx, own);
    WEFTI_FREE(ctx, p->cells, p);
    return status;
}
