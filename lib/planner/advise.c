/* SPDX-License-Identifier: MIT */
/* Which method makes a run faster on a cluster:
 *
 *     recipes x nodes x shards -> configuration -> prediction -> ranking -> curves, words
 *
 *     recipe       a method with settings, and what is known of its learning (advise_recipes.c)
 *     candidate    a recipe on a number of nodes; the run's own keys are one of them
 *     prediction   one thread for each core, each with a context of its own (advise_each.c)
 *     ranking      by the time to a loss: that of a step, times the steps that the method needs
 *                  (advise_steps.c), and a choice among those that are level (advise_rank.c)
 *
 * The numbers of nodes are 2, 4, 8, ... and all; on large clusters fewer numbers and
 * fewer variants are tried, so that the answer takes only seconds. Candidates that the
 * configuration layer refuses are left out with the error message, and the messages are
 * counted, so that a plan can tell why candidates are missing. */
#include "base/sized.h"
#include "planner/advise.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "cluster/facts.h"
#include "config/layers.h"
#include "planner/framework.h"
#include "replicate/replicator.h"

/* ---- what is left out ---- */

static weft_status leave_out(wefti_adviser *a, const weft_candidate *c, const char *why) {
    weft_advice *advice = a->advice;
    for (int64_t i = 0; i < advice->n_left_out; i++)
        if (strncmp(advice->left_out[i].why, why, sizeof advice->left_out[i].why - 1) ==
            0) {
            advice->left_out[i].n++;
            return WEFT_OK;
        }
    WEFT_TRY(wefti_reserve(a->ctx, &advice->left_out, &a->left_out_room,
                           advice->n_left_out, 1, sizeof *advice->left_out,
                           "the advice"));
    weft_left_out *row = &advice->left_out[advice->n_left_out++];
    *row = (weft_left_out){.n = 1};
    int64_t ranks = wefti_advice_ranks(advice, c), each = c->ranks_per_node;
    bool alike = ranks == c->nodes * each;
    snprintf(row->what, sizeof row->what, "%s on %lld node%s %s %lld%s", c->name,
             (long long)c->nodes, c->nodes == 1 ? "" : "s", alike ? "x" : "with",
             (long long)(alike ? each : ranks), alike ? "" : " ranks");
    snprintf(row->why, sizeof row->why, "%s", why);
    return WEFT_OK;
}

/* ---- candidates ---- */

/* Adds a candidate to the list of those to predict. */
static weft_status try_candidate(wefti_adviser *a, const weft_candidate *c) {
    if (a->options.same_only && c->learning.changes[0])
        return leave_out(a, c, "it learns otherwise than one machine");
    return wefti_advise_add(a, c);
}

/* Nodes of one site; up to this number needs no wire between sites. */
static int64_t site_nodes(const wefti_adviser *a) {
    return a->cluster.nodes / (a->cluster.sites > 1 ? a->cluster.sites : 1);
}

static int64_t sites_of(const wefti_adviser *a, int64_t nodes) {
    return nodes > site_nodes(a) ? a->cluster.sites : 1;
}

/* shards 1: each rank keeps a whole copy during a step, and a node exchanges as one. The run's own
 * row has the run's. */
static void begin_settings(const wefti_adviser *a, int64_t nodes, int64_t shards,
                           weft_candidate *c) {
    c->nodes = nodes;
    c->ranks_per_node = a->cluster.ranks_per_node;
    c->shards = shards;
    if (c->sites == 0) c->sites = sites_of(a, nodes);
    int64_t tokens = wefti_advise_tokens(a, nodes), ranks = nodes * c->ranks_per_node;
    int64_t micro = wefti_advise_micro(a, tokens / ranks / wefti_advise_length(a));
    bool whole = c->own ? a->run->mesh.keep_whole : shards == 1 && c->ranks_per_node > 1;
    size_t used = (size_t)snprintf(
        c->settings, sizeof c->settings,
        "mesh.nodes=%lld mesh.ranks_per_node=%lld mesh.shards=%lld mesh.sites=%lld "
        "mesh.keep_whole=%s ",
        (long long)nodes, (long long)c->ranks_per_node, (long long)(c->own ? shards : 0),
        (long long)c->sites, whole ? "true" : "false");
    if (micro != a->run->batch.micro)
        used += (size_t)snprintf(c->settings + used, sizeof c->settings - used,
                                 "batch.micro=%lld ", (long long)micro);
    if (tokens != a->run->batch.tokens_per_step)
        snprintf(c->settings + used, sizeof c->settings - used,
                 "batch.tokens_per_step=%lld ", (long long)tokens);
}

/* ---- recipes beside the run ---- */

typedef struct comparison {
    const wefti_adviser *a;
    const wefti_recipe *recipe;
    bool same; /* the recipe's keys are those of the run itself */
    char other
        [64]; /* the optimizer that it would use instead of the run's; "": the same */
} comparison;

/* Whether the optimizer is the user's choice: it is where it receives gradients. In
 * methods that determine the step length themselves it is a part of the method. */
static bool is_free(const weft_config *config) {
    return wefti_replicator_find(config->replicator.kind)->keeps_norm;
}

/* The run with the recipe's keys. */
static weft_status recipe_config(weft_ctx *ctx, const comparison *c, weft_config **out) {
    char settings[320], keys[240];
    int64_t sites = c->a->run->mesh.sites;
    if (sites > 1) wefti_recipe_between(c->recipe, keys, sizeof keys);
    snprintf(settings, sizeof settings, "mesh.sites=%lld %s", (long long)sites,
             sites > 1 ? keys : c->recipe->settings);
    return wefti_advise_config(ctx, c->a->run, settings, true, out);
}

/* Whether a method's row sets more of the optimizer than its kind. */
static bool tunes_optimizer(const char *method) {
    const char *key, *value;
    for (int j = 0; (key = weft_config_method_key(method, j, &value)); j++)
        if (strncmp(key, "optimizer.", strlen("optimizer.")) == 0 &&
            !wefti_is(key, "optimizer.kind"))
            return true;
    return false;
}

static weft_status optimizer_task(weft_ctx *ctx, void *user, int64_t i) {
    comparison *c = user;
    const weft_config *run = c->a->run;
    weft_config *other;
    (void)i;
    weft_status status = recipe_config(ctx, c, &other);
    if (status != WEFT_OK) return status == WEFT_ERR_CONFIG ? WEFT_OK : status;
    bool another = !wefti_is(other->optimizer.kind, run->optimizer.kind);
    if (c->a->options.keep_optimizer ? another || tunes_optimizer(other->method)
                                     : is_free(run) && is_free(other) && another)
        snprintf(c->other, sizeof c->other, "%s%s", other->optimizer.kind,
                 another ? "" : " with its own settings");
    weft_config_destroy(ctx, other);
    return WEFT_OK;
}

static weft_status same_task(weft_ctx *ctx, void *user, int64_t i) {
    comparison *c = user;
    const char *text, *own_text;
    weft_config *own = NULL, *other = NULL;
    (void)i;
    weft_status status = recipe_config(ctx, c, &other);
    if (status == WEFT_OK) status = weft_config_copy(ctx, c->a->run, &own);
    if (status == WEFT_OK)
        status = weft_config_text(ctx, own, WEFT_CONFIG_BARE, &own_text);
    if (status == WEFT_OK) status = weft_config_text(ctx, other, WEFT_CONFIG_BARE, &text);
    /* skips the first line: the method's name, which stands only for a set of keys */
    if (status == WEFT_OK) c->same = wefti_is(strchr(text, '\n'), strchr(own_text, '\n'));
    weft_config_destroy(ctx, own);
    weft_config_destroy(ctx, other);
    return status == WEFT_ERR_CONFIG ? WEFT_OK : status;
}

static weft_status is_own(wefti_adviser *a, const wefti_recipe *recipe, bool *same) {
    comparison c = {.a = a, .recipe = recipe};
    WEFT_TRY(wefti_advise_each(a, 1, same_task, &c));
    *same = c.same;
    return WEFT_OK;
}

/* Whether a single node may use the recipe: coding a sum that is sent to no one has no
 * benefit. */
static bool is_alone(const wefti_recipe *recipe) {
    return recipe->main && recipe->learning.measured &&
           recipe->learning.per_doubling_error <= 0;
}

weft_status wefti_advise_own(wefti_adviser *a) {
    bool same = false;
    a->own = NULL;
    if (!wefti_job_averages_all(a->run)) return WEFT_OK;
    for (const wefti_recipe *r = wefti_recipes + 1; r->name && !same; r++) {
        if (is_alone(r)) WEFT_TRY(is_own(a, r, &same));
        if (same) a->own = r;
    }
    return WEFT_OK;
}

/* why <- a message that the user chose another optimizer, or "". */
static weft_status compare_optimizers(wefti_adviser *a, const wefti_recipe *recipe,
                                      char why[160]) {
    comparison c = {.a = a, .recipe = recipe};
    why[0] = '\0';
    bool keeps = a->options.keep_optimizer;
    if (!keeps && !wefti_config_given(a->run, "optimizer.kind")) return WEFT_OK;
    WEFT_TRY(wefti_advise_each(a, 1, optimizer_task, &c));
    if (c.other[0])
        snprintf(why, 160, "its optimizer is %s, and the run %s=%s", c.other,
                 keeps ? "keeps optimizer.kind" : "says optimizer.kind",
                 a->run->optimizer.kind);
    return WEFT_OK;
}

static void name_candidate(const wefti_recipe *recipe, weft_candidate *c) {
    bool between = c->sites > 1 && recipe->learning.changes[0];
    snprintf(c->name, sizeof c->name, "%s%s", between ? WEFTI_BETWEEN : "", recipe->name);
}

/* sites 1: each node is a member, whichever site it is in; 0: a site is one. */
typedef struct mesh {
    int64_t nodes, shards, sites;
} mesh;

static weft_status try_recipe(wefti_adviser *a, const wefti_recipe *recipe, mesh m) {
    weft_candidate c = {.learning = recipe->learning, .sites = m.sites};
    char why[160];
    const char *with = strchr(recipe->name, ','); /* ", muon" */
    begin_settings(a, m.nodes, m.shards, &c);
    size_t used = strlen(c.settings);
    if (c.sites > 1)
        wefti_recipe_between(recipe, c.settings + used, sizeof c.settings - used);
    else
        snprintf(c.settings + used, sizeof c.settings - used, "%s", recipe->settings);
    name_candidate(recipe, &c);
    snprintf(c.method, sizeof c.method, "%s", m.nodes > 1 ? recipe->method : "one node");
    if (m.nodes == 1) snprintf(c.name, sizeof c.name, "one node%s", with ? with : "");
    WEFT_TRY(compare_optimizers(a, recipe, why));
    bool measure = !recipe->learning.changes[0]; /* the method that all others are
                                                    compared with */
    if (why[0] && !measure) return leave_out(a, &c, why);
    if (2 * recipe->period > a->run->run.steps) {
        snprintf(why, sizeof why,
                 "its nodes come together every %lld steps, too rarely for %lld steps",
                 (long long)recipe->period, (long long)a->run->run.steps);
        return leave_out(a, &c, why);
    }
    return try_candidate(a, &c);
}

/* ---- the run as it is ---- */

/* What is known of the learning of a run with its own keys: everything if it is one of
 * the recipes. */
static weft_status learning_of_run(wefti_adviser *a, weft_candidate *c) {
    const wefti_recipe *recipe = wefti_recipes;
    if (wefti_job_averages_all(a->run)) {
        c->learning = recipe->learning;
        snprintf(c->method, sizeof c->method, "hsdp");
        return WEFT_OK;
    }
    snprintf(c->method, sizeof c->method, "%s", a->run->method);
    c->learning = (weft_learning){"with the run's own keys", false, 0, 1, 1, 0, ""};
    for (; recipe->name; recipe++)
        if (wefti_is(recipe->method, a->run->method)) {
            c->learning.changes = recipe->learning.changes;
            return WEFT_OK;
        }
    return WEFT_OK;
}

static weft_status try_own(wefti_adviser *a, int64_t nodes) {
    weft_candidate c = {.own = true};
    const char *name = wefti_is(a->run->method, "none") ? "as it is" : a->run->method;
    begin_settings(a, nodes, a->run->mesh.shards, &c);
    WEFT_TRY(learning_of_run(a, &c));
    snprintf(c.name, sizeof c.name, "%s (own keys)", name);
    return try_candidate(a, &c);
}

/* The run is this recipe: its row gets the recipe's name, and no second row is made. */
static void adopt(wefti_adviser *a, const wefti_recipe *recipe) {
    for (int64_t i = 0; i < a->advice->n_candidates; i++) {
        weft_candidate *c = &a->advice->candidates[i];
        if (!c->own) continue;
        c->learning = recipe->learning;
        name_candidate(recipe, c);
        snprintf(c->method, sizeof c->method, "%s", recipe->method);
    }
}

/* ---- all candidates ---- */

/* Whether the next machine computes or sends slower than the first n: those may be better off
 * without it. */
static bool gets_slower(const wefti_adviser *a, int64_t n) {
    enum { FEW = 16 };
    const weft_link_facts *wire = &a->cluster.wire;
    double least = a->cluster.nodes <= FEW ? 0.99 : 0.9;
    if (!a->machines || wefti_advise_is_large(a) || n >= a->cluster.nodes) return false;
    const weft_machine *next = &a->machines[n], *last = &a->machines[n - 1];
    return next->rank_flops < least * last->rank_flops ||
           wefti_machines_wire(wire, next) < least * wefti_machines_wire(wire, last);
}

/* 2, 4, 8, ... (on large clusters 2, 16, 128, ...), where machines get slower, and all nodes of a
 * site, then all nodes. */
static int64_t next_count(const wefti_adviser *a, int64_t nodes) {
    int64_t all = a->cluster.nodes, site = site_nodes(a), next = 2;
    if (nodes >= site) return nodes < all ? all : all + 1;
    while (next <= nodes) next *= wefti_advise_is_large(a) ? 8 : 2;
    for (int64_t n = nodes + 1; n < next; n++)
        if (gets_slower(a, n)) return n < site ? n : site;
    return next > site ? site : next;
}

/* Whether a recipe is tried on large clusters: main variants, and gossip that sends little. */
static bool is_tried_on_many(const wefti_recipe *recipe) {
    return recipe->main || wefti_is(recipe->name, "choco aer int4");
}

/* Whether a recipe repeats full synchronization with the run's own optimizer. */
static bool repeats_own(const wefti_adviser *a, const wefti_recipe *recipe) {
    return a->own && wefti_is(a->own->name, recipe->name);
}

static weft_status try_at(wefti_adviser *a, const wefti_recipe *recipe, int64_t nodes,
                          bool most) {
    bool own = false;
    int64_t members = sites_of(a, nodes) > 1 ? a->cluster.sites : nodes;
    if (members < recipe->least_nodes || (!most && !recipe->main)) return WEFT_OK;
    if (wefti_advise_is_large(a) && !is_tried_on_many(recipe)) return WEFT_OK;
    if (repeats_own(a, recipe)) return WEFT_OK;
    if (most && a->run->mesh.sites == sites_of(a, nodes))
        WEFT_TRY(is_own(a, recipe, &own));
    if (own) adopt(a, recipe);
    bool repeats = own && a->run->mesh.shards == 0 && !a->run->mesh.keep_whole;
    if (!repeats) WEFT_TRY(try_recipe(a, recipe, (mesh){nodes, 0, 0}));
    if (a->cluster.ranks_per_node == 1 || !recipe->main) return WEFT_OK;
    return try_recipe(a, recipe, (mesh){nodes, 1, 0});
}

/* Whether a method is also tried with all nodes of all sites alike: on all of them each that is
 * tried in one site, else the main ones whose nodes learn by themselves. */
static bool is_flat(const wefti_adviser *a, const wefti_recipe *r, int64_t nodes,
                    bool most) {
    if (nodes < r->least_nodes || !r->learning.measured || repeats_own(a, r))
        return false;
    if (most && !wefti_advise_is_large(a)) return true;
    return r->learning.per_doubling_error > 0 && (r->main || r->period > 0);
}

static weft_status try_nodes(wefti_adviser *a, int64_t nodes, bool most) {
    if (most) WEFT_TRY(try_own(a, nodes));
    for (const wefti_recipe *r = wefti_recipes; r->name; r++)
        WEFT_TRY(try_at(a, r, nodes, most));
    int64_t copies = a->cluster.ranks_per_node > 1 ? 2 : 1; /* shards, whole copies */
    if (a->options.all_nodes) return WEFT_OK;
    for (const wefti_recipe *r = wefti_recipes; r->name && sites_of(a, nodes) > 1; r++)
        for (int64_t k = 0; k < copies && is_flat(a, r, nodes, most); k++)
            WEFT_TRY(try_recipe(a, r, (mesh){nodes, k, 1}));
    return WEFT_OK;
}

/* Other frameworks, on as many nodes as weft's own methods. */
static weft_status try_frameworks(wefti_adviser *a, int64_t nodes) {
    const char *names = a->others;
    char name[16], known[120];
    for (int n = 0; sscanf(names, " %15s%n", name, &n) == 1; names += n) {
        const wefti_framework *f = wefti_framework_find(name);
        weft_candidate c = {.learning = wefti_recipes[0].learning};
        if (!f)
            return weft_ctx_fail(a->ctx, WEFT_ERR_ARGUMENT,
                                 "there is no framework '%s', expected %s", name,
                                 wefti_framework_names(known, sizeof known));
        begin_settings(a, nodes, f->in_node ? 0 : f->shards_parameters ? 0 : 1, &c);
        size_t used = strlen(c.settings);
        snprintf(c.settings + used, sizeof c.settings - used, "method=hsdp");
        snprintf(c.framework, sizeof c.framework, "%s", f->name);
        snprintf(c.name, sizeof c.name, "%s%s", f->name, nodes > 1 ? "" : ", one node");
        snprintf(c.method, sizeof c.method, "%s", f->name);
        WEFT_TRY(try_candidate(a, &c));
    }
    return WEFT_OK;
}

static weft_status list_all(wefti_adviser *a) {
    int64_t all = a->cluster.nodes, most = wefti_advise_most_nodes(a);
    WEFT_TRY(wefti_advise_own(a));
    for (const wefti_recipe *r = wefti_recipes; r->name; r++) {
        if (!is_alone(r) || repeats_own(a, r)) continue;
        WEFT_TRY(try_recipe(a, r, (mesh){1, 0, 0}));
        if (a->cluster.ranks_per_node > 1) WEFT_TRY(try_recipe(a, r, (mesh){1, 1, 0}));
    }
    if (a->cluster.ranks_per_node > 1) WEFT_TRY(try_frameworks(a, 1));
    if (most > 1) WEFT_TRY(try_frameworks(a, most));
    if (most > 1) WEFT_TRY(try_nodes(a, most, true));
    int64_t first = site_nodes(a) > 1 && !a->options.all_nodes ? 2 : all;
    for (int64_t nodes = first; nodes <= all && all > 1; nodes = next_count(a, nodes))
        if (nodes != most) {
            WEFT_TRY(try_nodes(a, nodes, false));
            WEFT_TRY(try_frameworks(a, nodes));
        }
    return WEFT_OK;
}

/* ---- predictions ---- */

typedef struct trial {
    wefti_adviser *a;
    char (*refusals)[320]; /* [candidates]; "" = predicted */
    int64_t done, all;
} trial;

/* Predicts a candidate again on machines that have room for it, where the first ones have not. */
static weft_status move(weft_ctx *ctx, const wefti_adviser *a, weft_candidate *c) {
    double bytes = (double)c->prediction.memory_bytes;
    weft_candidate first = *c;
    double room = wefti_machines_memory(a, c, 0);
    if (room <= 0 || bytes <= room || !wefti_machines_have_room(a, c)) return WEFT_OK;
    return wefti_advise_predict(ctx, a, &first, 0, &c->prediction);
}

/* Leaves it to the machines without room to make some. */
static weft_status squeeze(weft_ctx *ctx, const wefti_adviser *a, weft_candidate *c) {
    double plain = (double)c->prediction.memory_bytes, bytes = plain;
    if (wefti_machines_have_room(a, c) || !a->machines || c->framework[0]) return WEFT_OK;
    WEFT_TRY(wefti_advise_squeeze(ctx, a, c, &bytes));
    if (bytes >= plain) return WEFT_OK;
    weft_candidate first = *c;
    first.prediction.memory_bytes = (int64_t)bytes;
    WEFT_TRY(wefti_advise_predict(ctx, a, &first, 0, &c->prediction));
    c->prediction.memory_bytes = (int64_t)bytes;
    return WEFT_OK;
}

/* Recomputes the activations of a candidate that has no room otherwise, if the plan may. */
static weft_status recompute(weft_ctx *ctx, const wefti_adviser *a, weft_candidate *c) {
    weft_candidate again = *c;
    size_t used = strlen(c->settings);
    bool may = a->options.find_fit && !wefti_config_given(a->run, "model.recompute");
    if (!may || wefti_machines_have_room(a, c)) return WEFT_OK;
    if (used + sizeof WEFTI_RECOMPUTE > sizeof c->settings) return WEFT_OK;
    strcpy(again.settings + used, WEFTI_RECOMPUTE);
    WEFT_TRY(wefti_advise_predict(ctx, a, &again, 0, &again.prediction));
    if (wefti_machines_have_room(a, &again)) {
        *c = again;
        return move(ctx, a, c);
    }
    /* what it needs at least */
    c->prediction.memory_bytes = again.prediction.memory_bytes;
    return WEFT_OK;
}

/* Predicts a candidate. One with an invalid configuration is left out; any other error is
 * a failure. */
static weft_status predict_one(weft_ctx *ctx, void *user, int64_t i) {
    trial *t = user;
    weft_candidate *c = &t->a->advice->candidates[i];
    weft_status status = wefti_advise_predict(ctx, t->a, c, 0, &c->prediction);
    if (status == WEFT_OK) status = move(ctx, t->a, c);
    if (status == WEFT_OK) status = squeeze(ctx, t->a, c);
    if (status == WEFT_OK) status = recompute(ctx, t->a, c);
#pragma omp critical(weft_advise_progress)
    if (t->a->options.on_progress)
        t->a->options.on_progress(t->a->options.user, ++t->done, t->all);
    if (status != WEFT_ERR_CONFIG) return status;
    snprintf(t->refusals[i], sizeof t->refusals[i], "%s", weft_ctx_message(ctx));
    return WEFT_OK;
}

/* Keeps the candidates that could be predicted, in order. */
static weft_status keep(trial *t) {
    weft_advice *advice = t->a->advice;
    int64_t kept = 0, n = advice->n_candidates;
    for (int64_t i = 0; i < n; i++) {
        weft_candidate *c = &advice->candidates[i];
        if (t->refusals[i][0]) {
            WEFT_TRY(leave_out(t->a, c, t->refusals[i]));
            continue;
        }
        wefti_advise_judge(t->a, c);
        advice->candidates[kept++] = *c;
    }
    advice->n_candidates = kept;
    return WEFT_OK;
}

static weft_status try_all(wefti_adviser *a) {
    trial t = {.a = a};
    WEFT_TRY(list_all(a));
    t.all = a->advice->n_candidates;
    WEFT_TRY(wefti_alloc_n(a->ctx, a->advice->n_candidates, sizeof *t.refusals,
                           "refusals", &t.refusals));
    weft_status status = wefti_advise_each(a, a->advice->n_candidates, predict_one, &t);
    if (status == WEFT_OK) status = keep(&t);
    if (status == WEFT_OK) status = wefti_advise_code_all(a);
    wefti_free(a->ctx, t.refusals);
    return status;
}

/* ---- another precision ---- */

/* What the candidates have come to: the least time to a loss of those that may be chosen (of other
 * frameworks only those that nobody asked for, whose precision is the plan's); whether all have
 * room as they are, and one node any. */
typedef struct found {
    double least_s;
    bool roomy, alone;
} found;

static found found_by(const wefti_adviser *a) {
    const weft_advice *advice = a->advice;
    found f = {INFINITY, true, false};
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        const weft_candidate *c = &advice->candidates[i];
        bool asked = c->framework[0] && a->options.frameworks &&
                     strstr(a->options.frameworks, c->framework);
        f.roomy = f.roomy && c->usable && !wefti_advise_recomputes(c);
        f.alone = f.alone || (c->usable && c->nodes == 1);
        if (!asked && c->usable && c->learning.measured && wefti_advise_reaches(c))
            f.least_s = fmin(f.least_s, c->cost_s);
    }
    return f;
}

/* Where the first precision that has room leaves none for some, all are tried in the next one, and
 * what is faster then stays: with less memory it would have been found first. */
static weft_status try_narrower(wefti_adviser *a, weft_precision next) {
    wefti_adviser was = *a;
    weft_advice *advice = a->advice, kept = *advice;
    found before = found_by(a);
    size_t used = strlen(a->others);
    if (before.roomy || a->options.precision >= next) return WEFT_OK;
    if (next > WEFT_PRECISION_BF16 && before.alone) return WEFT_OK;
    advice->candidates = NULL, advice->n_candidates = a->room = 0;
    advice->left_out = NULL, advice->n_left_out = a->left_out_room = 0;
    a->options.precision = next;
    if (!strstr(a->others, "fsdp"))
        snprintf(a->others + used, sizeof a->others - used, "%sfsdp", used ? " " : "");
    weft_status status = try_all(a);
    bool faster = status == WEFT_OK && found_by(a).least_s < before.least_s;
    weft_advice *worse = faster ? &kept : advice;
    WEFTI_FREE(a->ctx, worse->candidates, worse->left_out);
    if (faster) advice->found_fit = true;
    if (!faster) *advice = kept, *a = was;
    return status;
}

/* ---- the whole ---- */

/* Copies what was measured into the advice, which tells it. */
static weft_status keep_measured(const wefti_adviser *a, weft_advice *advice) {
    const weft_advise_options *o = &a->options;
    WEFT_TRY(wefti_sized_list_in(a->ctx, &wefti_sized_weft_measurement, o->measured,
                                 o->n_measured, &advice->measured));
    advice->n_measured = o->n_measured;
    if (!o->inferred) return WEFT_OK;
    WEFT_TRY(wefti_alloc(a->ctx, sizeof *advice->inferred, "what was inferred",
                         &advice->inferred));
    return wefti_sized_in(a->ctx, &wefti_sized_weft_inference_of_facts, o->inferred,
                          advice->inferred);
}

/* Adds the facts that only the run has. */
static weft_status take_facts(wefti_adviser *a, const weft_cluster *cluster) {
    const weft_config *run = a->run;
    a->cluster = *cluster;
    weft_link_facts *wire = &a->cluster.wire, *site = &a->cluster.site;
    if (wire->bandwidth_Bps <= 0 && run->mesh.bandwidth_Bps > 0)
        wire->bandwidth_Bps = run->mesh.bandwidth_Bps,
        wire->latency_s = run->mesh.latency_s;
    if (site->bandwidth_Bps <= 0 && run->mesh.site_bandwidth_Bps > 0)
        site->bandwidth_Bps = run->mesh.site_bandwidth_Bps,
        site->latency_s = run->mesh.site_latency_s;
    if (cluster->rank_flops <= 0 && cluster->n_units == 0)
        return weft_ctx_fail(a->ctx, WEFT_ERR_ARGUMENT,
                             "what a rank computes is not known, expected its FLOP/s or "
                             "measured units");
    WEFT_TRY(wefti_cluster_check_sites(a->ctx, cluster));
    WEFT_TRY(wefti_cluster_check_wires(a->ctx, &a->cluster, cluster->nodes));
    weft_advice *advice = a->advice;
    advice->tokens_per_step = run->batch.tokens_per_step;
    advice->tokens = a->options.tokens;
    if (advice->tokens <= 0)
        advice->tokens = (double)run->run.steps * (double)advice->tokens_per_step;
    advice->wire = cluster->sites > 1 ? *site : *wire;
    a->length = advice->tokens / (double)wefti_advise_tokens(a, 1);
    advice->price_h = a->options.price_h;
    if (a->options.money)
        snprintf(advice->money, sizeof advice->money, "%s", a->options.money);
    advice->node_watts = a->options.node_watts;
    WEFT_TRY(keep_measured(a, advice));
    if (!advice->inferred) return WEFT_OK;
    a->constant_s = advice->inferred->constant_s;
    for (int i = 0; i < advice->n_measured; i++)
        if (advice->measured[i].nodes > 1 &&
            advice->measured[i].nodes > a->measured_nodes)
            a->measured_nodes = advice->measured[i].nodes;
    return WEFT_OK;
}

weft_status wefti_advise_candidates(wefti_adviser *a, const weft_cluster *cluster) {
    enum { TABLE_WORK = 800 };
    WEFT_TRY(take_facts(a, cluster));
    WEFT_TRY(wefti_machines_sort(a));
    WEFT_TRY(wefti_advise_ranks(a));
    a->work = TABLE_WORK;
    snprintf(a->others, sizeof a->others, "%s",
             a->options.frameworks ? a->options.frameworks : "");
    bool free = a->options.find_fit && a->options.precision == WEFT_PRECISION_F32 &&
                wefti_machines_memory(a, &(weft_candidate){.nodes = 1}, 0) > 0;
    if (a->options.find_fit) WEFT_TRY(wefti_advise_fit(a));
    WEFT_TRY(try_all(a));
    if (free) WEFT_TRY(try_narrower(a, WEFT_PRECISION_BF16));
    if (free) WEFT_TRY(try_narrower(a, WEFT_PRECISION_BF16_8BIT));
    a->advice->precision = a->options.precision;
    return wefti_advise_rank(a);
}

/* Whether what the answer is about recomputes its activations, and was made to. */
static void note_recompute(wefti_adviser *a) {
    weft_advice *advice = a->advice;
    int64_t i = advice->headline >= 0 ? advice->headline : advice->choice;
    bool made = i >= 0 && wefti_advise_recomputes(&advice->candidates[i]);
    advice->recompute = made || a->run->model.recompute;
    advice->found_fit = advice->found_fit || made;
}

static weft_status advise(wefti_adviser *a, const weft_cluster *cluster) {
    enum { CURVE_WORK = 320 };
    WEFT_TRY(wefti_advise_candidates(a, cluster));
    a->advice->parameters = a->advice->candidates[0].prediction.parameters;
    a->work = CURVE_WORK;
    WEFT_TRY(wefti_advise_curves(a));
    WEFT_TRY(wefti_advise_outlook(a));
    WEFT_TRY(wefti_advise_break_even(a));
    note_recompute(a);
    WEFT_TRY(wefti_advise_answer(a));
    return a->options.rows > 0 ? WEFT_OK : wefti_advise_words(a);
}

weft_status weft_advise(weft_ctx *ctx, const weft_config *run,
                        const weft_cluster *cluster, const weft_advise_options *options,
                        weft_advice **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_advise_options, options);
    wefti_adviser a = {.ctx = ctx, .options = *options};
    weft_config *own;
    WEFT_TRY(wefti_advise_run(ctx, run, &own));
    a.run = own;
    if (wefti_is(run->method, "auto")) {
        a.options.same_only |= wefti_is(run->decide.keep, "exact");
        a.options.keep_optimizer |= !wefti_is(run->decide.keep, "any");
    }
    weft_status status = wefti_alloc(ctx, sizeof *a.advice, "the advice", &a.advice);
    if (status == WEFT_OK) status = advise(&a, cluster);
    wefti_machines_drop(&a);
    weft_config_destroy(ctx, own);
    if (status != WEFT_OK) {
        weft_advice_destroy(ctx, a.advice);
        return status;
    }
    *out = a.advice;
    return WEFT_OK;
}

void weft_advice_destroy(weft_ctx *ctx, weft_advice *advice) {
    if (!advice) return;
    WEFTI_FREE(ctx, advice->measured, advice->inferred);
    WEFTI_FREE(ctx, advice->candidates, advice->left_out, advice->bandwidths,
               advice->speedups, advice->ranges);
    WEFTI_FREE(ctx, advice->outlooks, advice->answer, advice->next, advice->ranks);
    WEFTI_FREE(ctx, advice->text, advice);
}

weft_status weft_advice_config(weft_ctx *ctx, const weft_config *run,
                               const weft_advice *advice, int64_t i, weft_config **out) {
    *out = NULL;
    if (i < 0 || i >= advice->n_candidates)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "there is no candidate %lld, expected 0 to %lld",
                             (long long)i, (long long)advice->n_candidates - 1);
    weft_config *own;
    WEFT_TRY(wefti_advise_run(ctx, run, &own));
    weft_status status = wefti_advise_config(ctx, own, advice->candidates[i].settings,
                                             true, out);
    weft_config_destroy(ctx, own);
    return status;
}
