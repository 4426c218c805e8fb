/* SPDX-License-Identifier: MIT */
/* Codecs of nodes. Machines whose way out is at most twice the narrowest, beside others, may send
 * in a codec of their own (replicator.node_values): each candidate that reads the key is predicted
 * with int4 and with signs there, and the best of a method stays if that pays. A run numbers its
 * nodes in the order of the cluster's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "planner/advise.h"
#include "replicate/replicator.h"

#define NODE_VALUES " replicator.node_values="

/* What they cost in steps to a loss where one of two nodes has them (bench/LOG.md, "A codec of its
 * own: steps"). */
static const struct {
    const char *values;
    double steps;
} codes[] = {{"int4", 1.15}, {"sign", 1.88}};

enum { CODES = sizeof codes / sizeof *codes };

static double out_of(const weft_cluster *c, int64_t node) {
    weft_machine usual = {.node = node};
    const weft_machine *m = &usual;
    for (int64_t i = 0; i < c->n_machines; i++)
        if (c->machines[i].node == node) m = &c->machines[i];
    return wefti_machines_way_out(&c->wire, m);
}

double weft_plan_node_values(const weft_cluster *c, int64_t nodes, const char *values,
                             char *out, size_t size) {
    size_t used = 0;
    int64_t narrow = 0;
    double least = INFINITY, steps = 0;
    for (int k = 0; k < CODES; k++)
        if (wefti_is(values, codes[k].values)) steps = codes[k].steps;
    for (int64_t i = 0; i < nodes; i++) least = fmin(least, out_of(c, i));
    for (int64_t i = 0; i < nodes && used < size; i++) {
        if (out_of(c, i) > 2 * least) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%lld=%s", used ? "," : "",
                                 (long long)i, values);
        narrow++;
    }
    if (steps > 0 && narrow < nodes && used < size) return steps;
    if (size > 0) out[0] = '\0';
    return 0;
}

/* Puts the key behind a candidate's settings; *steps 0: no way out is narrow. */
static weft_status code(weft_ctx *ctx, const wefti_adviser *a, weft_candidate *c,
                        const char *values, double *steps) {
    weft_cluster own = a->cluster;
    char key[100];
    size_t used = strlen(c->settings);
    *steps = 0;
    if (!a->machines || c->nodes < 2 || c->sites > 1) return WEFT_OK;
    WEFT_TRY(
        wefti_alloc_n(ctx, c->nodes, sizeof *own.machines, "machines", &own.machines));
    own.n_machines = c->nodes;
    wefti_machines_number(a, c, true, own.machines);
    *steps = weft_plan_node_values(&own, c->nodes, values, key, sizeof key);
    wefti_free(ctx, own.machines);
    if (used + sizeof NODE_VALUES + strlen(key) > sizeof c->settings) *steps = 0;
    if (*steps > 0)
        snprintf(c->settings + used, sizeof c->settings - used, NODE_VALUES "%s", key);
    return WEFT_OK;
}

weft_status wefti_advise_recode(weft_ctx *ctx, const wefti_adviser *a,
                                weft_candidate *c) {
    double steps;
    char values[8], *at = strstr(c->settings, NODE_VALUES);
    if (!at || sscanf(at, NODE_VALUES "%*d=%7[a-z0-9]", values) != 1) return WEFT_OK;
    size_t n = 1 + strcspn(at + 1, " ");
    memmove(at, at + n, strlen(at + n) + 1);
    return code(ctx, a, c, values, &steps);
}

typedef struct coding {
    wefti_adviser *a;
    weft_candidate *best; /* [candidates] of each with such codecs; cost_s 0: none */
} coding;

/* "1=int4 flexdemo", "3x=int4 flexdemo": what the table shows comes first. */
static void name_coded(const weft_candidate *plain, const char *values,
                       weft_candidate *c) {
    const char *nodes = strstr(c->settings, NODE_VALUES) + sizeof NODE_VALUES - 1;
    int n = 1;
    for (const char *at = nodes; (at = strchr(at, ',')); at++) n++;
    snprintf(c->name, sizeof c->name, n > 1 ? "%dx=%s %.32s" : "%d=%s %.32s",
             n > 1 ? n : atoi(nodes), values, plain->name);
}

/* The candidate with one codec: [out] *out, as it was where it is worth nothing. */
static weft_status code_as(weft_ctx *ctx, wefti_adviser *a, const weft_candidate *plain,
                           const char *values, weft_candidate *out) {
    weft_candidate c = *plain, planned;
    double steps;
    WEFT_TRY(code(ctx, a, &c, values, &steps));
    if (steps <= 0) return WEFT_OK;
    name_coded(plain, values, &c);
    c.learning.low *= steps;
    c.learning.high *= steps;
    planned = c;
    weft_status status = wefti_advise_predict(ctx, a, &planned, 0, &c.prediction);
    if (status != WEFT_OK) return status == WEFT_ERR_CONFIG ? WEFT_OK : status;
    wefti_advise_judge(a, &c);
    if (c.usable && (out->cost_s <= 0 || c.cost_s < out->cost_s)) *out = c;
    return WEFT_OK;
}

static weft_status code_one(weft_ctx *ctx, void *user, int64_t i) {
    const coding *t = user;
    const weft_candidate *plain = &t->a->advice->candidates[i];
    weft_config *config;
    if (plain->framework[0] || plain->nodes < 2 || !plain->usable) return WEFT_OK;
    WEFT_TRY(wefti_advise_config(ctx, t->a->run, plain->settings, false, &config));
    bool reads = wefti_named(wefti_replicator_find(config->replicator.kind)->keys,
                             "node_values") &&
                 config->replicator.sign && !config->node_values[0]; /* as measured */
    int usual = wefti_value_codec_find(config->replicator.values);
    weft_config_destroy(ctx, config);
    for (int k = 0; k < CODES && reads; k++)
        if (usual < wefti_value_codec_find(codes[k].values))
            WEFT_TRY(code_as(ctx, t->a, plain, codes[k].values, &t->best[i]));
    return WEFT_OK;
}

/* Whether it is the least of its method on so many nodes, and costs clearly less than those
 * without. */
static bool pays(const coding *t, int64_t n, int64_t i) {
    const weft_candidate *c = &t->best[i], *all = t->a->advice->candidates;
    for (int64_t k = 0; k < n; k++) {
        bool rivals = all[k].usable && all[k].nodes == c->nodes &&
                      wefti_is(all[k].method, c->method);
        double coded_s = t->best[k].cost_s;
        if (rivals && all[k].cost_s < 1.02 * c->cost_s) return false;
        if (rivals && coded_s > 0 && (k < i ? coded_s <= c->cost_s : coded_s < c->cost_s))
            return false;
    }
    return c->cost_s > 0;
}

weft_status wefti_advise_code_all(wefti_adviser *a) {
    coding t = {.a = a};
    int64_t n = a->advice->n_candidates;
    if (!a->machines || wefti_advise_is_large(a)) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(a->ctx, n, sizeof *t.best, "codecs", &t.best));
    weft_status status = wefti_advise_each(a, n, code_one, &t);
    for (int64_t i = 0; i < n && status == WEFT_OK; i++)
        if (pays(&t, n, i)) status = wefti_advise_add(a, &t.best[i]);
    wefti_free(a->ctx, t.best);
    return status;
}
