/* SPDX-License-Identifier: MIT */
/* The last stage of configuring: applies the method's preset below all values that were
 * set explicitly, then checks keys against each other:
 *
 *     rate       the default of the optimizer at the model's width, if no rate is set
 *     method     its requirements on the mesh
 *     data       weights and paths; the tokenizer's name
 *     model      heads divide the width, key and value heads the heads; the context holds a row
 *     mesh       shards divide the ranks of a node, sites the nodes
 *     batch      every rank has the same number of sequences, every pass the same of those
 *     drift      exactly one kind keeps each pair of copies close: replicator or mixer
 *     replicator a chunk holds what is sent of it
 *     mixer      delay and fragments fit between two outer steps; a chunk holds what is sent
 *                of it
 *
 * The range of a single value is in the table of keys (schema.c). Checks that need the kinds'
 * own tables are made above this folder (job/finish.c). An error message names the line of
 * the key that it is about or, if that key was not set, the line of the other key. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/stop.h"
#include "base/text.h"
#include "config/layers.h"
#include "config/value.h"

static const wefti_origin *origin_of(const wefti_config *config, const char *name) {
    return &config->origins[wefti_config_key_index(wefti_config_key_find(name))];
}

/* Refuses a pair of keys. The message has the line of the first of the two keys that was
 * set in a file. */
static weft_status refuse(weft_ctx *ctx, const wefti_config *config, const char *about,
                          const char *other, const char *format, ...) WEFT_PRINTF(5, 6);

static weft_status refuse(weft_ctx *ctx, const wefti_config *config, const char *about,
                          const char *other, const char *format, ...) {
    char prefix[300], sentence[600];
    const wefti_origin *origin = origin_of(config, about);
    if (!origin->path) origin = origin_of(config, other);
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s%s",
                         wefti_origin_prefix(origin, prefix, sizeof prefix), sentence);
}

/* -- the preset -- */

/* Removes the preset of a method that was chosen before. */
static weft_status clear_preset(weft_ctx *ctx, wefti_config *config) {
    for (const weft_config_key *key = wefti_config_keys; key->name; key++)
        if (config->origins[wefti_config_key_index(key)].layer == WEFT_ORIGIN_METHOD)
            WEFT_TRY(wefti_config_reset(ctx, config, key));
    return WEFT_OK;
}

/* Applies the method's row, in the layer above the defaults and below everything that the
 * user sets. */
static weft_status apply_preset(weft_ctx *ctx, wefti_config *config) {
    const char *name, *value;
    wefti_origin origin = {WEFT_ORIGIN_METHOD, 0, NULL};
    for (int j = 0; (name = weft_config_method_key(config->values.method, j, &value));
         j++) {
        wefti_typed typed = {value, 1, false};
        WEFT_TRY(wefti_config_assign(ctx, config, wefti_config_key_find(name), &origin,
                                     &typed));
    }
    return WEFT_OK;
}

/* Sets the default learning rate. Without data.path the model may be that of another
 * program (weft/sync.h), whose width is known here only if it is given. */
static weft_status apply_rate(weft_ctx *ctx, wefti_config *config) {
    char text[32];
    wefti_origin origin = {WEFT_ORIGIN_METHOD, 0, NULL};
    wefti_typed typed = {wefti_method_rate(&config->values, text, sizeof text), 1, false};
    weft_config_origin layer = origin_of(config, "optimizer.lr")->layer;
    bool known = config->values.data.path.n > 0 ||
                 origin_of(config, "model.width")->layer > WEFT_ORIGIN_METHOD;
    if (!typed.packed || !known ||
        (layer != WEFT_ORIGIN_DEFAULT && layer != WEFT_ORIGIN_METHOD))
        return WEFT_OK;
    return wefti_config_assign(ctx, config, wefti_config_key_find("optimizer.lr"),
                               &origin, &typed);
}

/* Sets a key that the method sets, and nobody else, to what a run of this length wants. */
static weft_status apply_length(weft_ctx *ctx, wefti_config *config, const char *name,
                                const char *(*wanted)(const weft_config *, char *,
                                                      size_t)) {
    char text[32];
    wefti_origin origin = {WEFT_ORIGIN_METHOD, 0, NULL};
    wefti_typed typed = {wanted(&config->values, text, sizeof text), 1, false};
    if (!typed.packed || origin_of(config, name)->layer != WEFT_ORIGIN_METHOD)
        return WEFT_OK;
    return wefti_config_assign(ctx, config, wefti_config_key_find(name), &origin, &typed);
}

static weft_status check_method(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    for (const wefti_method_need *need = wefti_method_needs; need->method; need++) {
        int64_t found;
        const weft_config_key *key = wefti_config_key_find(need->key);
        if (!wefti_is(need->method, c->method)) continue;
        memcpy(&found, (const char *)c + key->offset, sizeof found);
        if (found != need->value)
            return refuse(ctx, config, "method", need->key,
                          "method is %s, which needs %s %lld, found %lld (%s)", c->method,
                          need->key, (long long)need->value, (long long)found,
                          need->instead);
    }
    return WEFT_OK;
}

/* -- pairs of keys -- */

enum { BPE_IDS = 257 };

static weft_status check_data(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    for (int i = 1; i < c->data.path.n; i++)
        for (int k = 0; k < i; k++)
            if (wefti_is(c->data.path.items[i], c->data.path.items[k]))
                return refuse(ctx, config, "data.path", "data.path",
                              "data.path names %.400s twice, expected it once; "
                              "data.weights says how often each text is read",
                              c->data.path.items[i]);
    if (c->data.weights.n && c->data.weights.n != c->data.path.n)
        return refuse(
            ctx, config, "data.weights", "data.path",
            "data.weights has %d number%s, expected one for each data.path (%d)",
            c->data.weights.n, c->data.weights.n == 1 ? "" : "s", c->data.path.n);
    for (int i = 0; i < c->data.weights.n; i++)
        if (c->data.weights.items[i] <= 0)
            return refuse(ctx, config, "data.weights", "data.path",
                          "data.weights holds a 0, expected numbers above 0: leave the "
                          "path out instead");
    bool trains = wefti_is(c->data.tokenizer, "bpe");
    if (trains && c->data.vocab < BPE_IDS)
        return refuse(ctx, config, "data.vocab", "data.tokenizer",
                      "data.vocab is %lld with data.tokenizer bpe, expected at least %d: "
                      "256 bytes and the end of a text",
                      (long long)c->data.vocab, (int)BPE_IDS);
    if (trains && wefti_is(c->data.rows, "prompts"))
        return refuse(ctx, config, "data.tokenizer", "data.rows",
                      "data.tokenizer is bpe, which learns from texts, with data.rows "
                      "prompts: name a tokenizer.json");
    return WEFT_OK;
}

/* Without this check a misspelt "bytes" would be opened as a file. */
static weft_status check_tokenizer(weft_ctx *ctx, const wefti_config *config) {
    const char *tokenizer = config->values.data.tokenizer;
    char shown[80];
    const weft_config_key *key = wefti_config_key_find("data.tokenizer");
    if (wefti_choice_find(key->choices, tokenizer) || strpbrk(tokenizer, "./"))
        return WEFT_OK;
    return refuse(ctx, config, "data.tokenizer", "data.tokenizer",
                  "data.tokenizer is '%s', expected bytes, bpe, ids or the path of a "
                  "tokenizer.json",
                  wefti_shown(tokenizer, shown, sizeof shown));
}

/* Requirements of every kind of model. A kind's own conditions are in its file. */
static weft_status check_model(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    if (c->model.init[0] && !wefti_config_given(c, "model.heads"))
        return WEFT_OK; /* what is missing that model says */
    if (c->model.head_dim == 0 && c->model.width % c->model.heads != 0)
        return refuse(ctx, config, "model.width", "model.heads",
                      "model.width is %lld, expected a multiple of model.heads (%lld)",
                      (long long)c->model.width, (long long)c->model.heads);
    if (c->model.kv_heads && c->model.heads % c->model.kv_heads != 0)
        return refuse(ctx, config, "model.kv_heads", "model.heads",
                      "model.kv_heads is %lld, expected a divisor of model.heads (%lld)",
                      (long long)c->model.kv_heads, (long long)c->model.heads);
    if (c->model.context && c->model.context < c->data.length)
        return refuse(ctx, config, "model.context", "data.length",
                      "model.context is %lld, expected at least data.length (%lld)",
                      (long long)c->model.context, (long long)c->data.length);
    return WEFT_OK;
}

/* All groups of a level have the same size: shards in a node, nodes in a site. */
static weft_status check_mesh(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    long long ranks = c->mesh.nodes * c->mesh.ranks_per_node;
    if (ranks > 1024)
        return refuse(
            ctx, config, "mesh.nodes", "mesh.ranks_per_node",
            "mesh.nodes times mesh.ranks_per_node is %lld, expected at most 1024 ranks",
            ranks);
    if (c->mesh.shards && c->mesh.ranks_per_node % c->mesh.shards != 0)
        return refuse(ctx, config, "mesh.shards", "mesh.ranks_per_node",
                      "mesh.shards is %lld, expected a divisor of mesh.ranks_per_node "
                      "(%lld)",
                      (long long)c->mesh.shards, (long long)c->mesh.ranks_per_node);
    if (c->mesh.nodes % c->mesh.sites != 0)
        return refuse(ctx, config, "mesh.sites", "mesh.nodes",
                      "mesh.sites is %lld, expected a divisor of mesh.nodes (%lld)",
                      (long long)c->mesh.sites, (long long)c->mesh.nodes);
    return WEFT_OK;
}

/* With partition=split both parts continue, so there is nothing for a witness to decide. */
static weft_status check_elastic(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    if (!c->elastic.witness[0] || !wefti_is(c->elastic.partition, "split"))
        return WEFT_OK;
    return refuse(ctx, config, "elastic.witness", "elastic.partition",
                  "elastic.witness is %s with elastic.partition split, where each part "
                  "goes on by itself; expected pause, or no witness",
                  c->elastic.witness);
}

/* Every rank has the same number of sequences in a step, and every pass the same number
 * of these, unless batch.shares says how many each node has. */
static weft_status check_batch(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    long long ranks = c->mesh.nodes * c->mesh.ranks_per_node;
    long long rows = c->batch.rows_per_step;
    long long unit = ranks * c->data.length, tokens = c->batch.tokens_per_step;
    if (!wefti_is(c->batch.shares, "equal")) return WEFT_OK; /* job/shares.c */
    if (rows % ranks != 0)
        return refuse(
            ctx, config, "batch.rows_per_step", "mesh.nodes",
            "batch.rows_per_step is %lld, expected a multiple of the %lld ranks", rows,
            ranks);
    if (rows > 0) tokens = rows * c->data.length;
    long long nearest = tokens < unit ? unit : tokens / unit * unit;
    if (tokens % unit != 0)
        return refuse(ctx, config, "batch.tokens_per_step", "data.length",
                      "batch.tokens_per_step is %lld, expected a multiple of %lld (%lld "
                      "rank%s times data.length %lld) such as %lld",
                      tokens, unit, ranks, ranks > 1 ? "s" : "",
                      (long long)c->data.length, nearest);
    if (c->batch.micro && tokens / unit % c->batch.micro != 0)
        return refuse(ctx, config, "batch.micro", "batch.tokens_per_step",
                      "batch.micro is %lld, expected a divisor of %lld, the sequences of "
                      "each rank in a step",
                      (long long)c->batch.micro, tokens / unit);
    return WEFT_OK;
}

static bool is_none(const char *kind) { return wefti_is(kind, "none"); }

/* Number of replicas in a node, and in a site. */
static int64_t copies_per_node(const weft_config *c) {
    return c->mesh.shards ? c->mesh.ranks_per_node / c->mesh.shards : 1;
}

static int64_t copies_per_site(const weft_config *c) {
    return c->mesh.nodes / c->mesh.sites * copies_per_node(c);
}

/* Refuses a run in which nothing keeps the replicas together: they would not be one model. */
static weft_status check_drift(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    bool mixed = !is_none(c->mixer.kind), sites = c->mesh.sites > 1;
    if (is_none(c->replicator.kind) && copies_per_site(c) > 1 && (sites || !mixed))
        return refuse(ctx, config, "replicator.kind", "mesh.nodes",
                      "replicator.kind is none with %lld copies of the model%s: they "
                      "would train unrelated models; choose a replicator%s",
                      (long long)copies_per_site(c), sites ? " in a site" : "",
                      sites ? "" : " or a mixer");
    if (sites && is_none(c->site_replicator.kind) && !mixed)
        return refuse(ctx, config, "site_replicator.kind", "mesh.sites",
                      "mesh.sites is %lld, but neither site_replicator.kind nor "
                      "mixer.kind joins the sites: they would train unrelated models",
                      (long long)c->mesh.sites);
    if (!sites && !is_none(c->site_replicator.kind))
        return refuse(ctx, config, "site_replicator.kind", "mesh.sites",
                      "site_replicator.kind is %s with mesh.sites 1, expected none or "
                      "several sites",
                      c->site_replicator.kind);
    if (mixed && !is_none(sites ? c->site_replicator.kind : c->replicator.kind))
        return refuse(
            ctx, config, "mixer.kind", sites ? "site_replicator.kind" : "replicator.kind",
            "mixer.kind is %s beside %s %s, which already keeps the same copies "
            "equal: set one of them to none",
            c->mixer.kind, sites ? "site_replicator.kind" : "replicator.kind",
            sites ? c->site_replicator.kind : c->replicator.kind);
    return WEFT_OK;
}

/* An exchange that is applied one step later can have only one round of messages, and
 * only one group that agrees. */
static weft_status check_delay(weft_ctx *ctx, const wefti_config *config,
                               const char *name, const weft_replicator_keys *keys) {
    char about[64], other[64];
    snprintf(about, sizeof about, "%s.delay", name);
    snprintf(other, sizeof other, "%s.exchange", name);
    if (keys->delay == 0) return WEFT_OK;
    if (config->values.mesh.sites > 1)
        return refuse(ctx, config, about, "mesh.sites",
                      "%s is %lld with mesh.sites %lld, expected 0, or one site", about,
                      (long long)keys->delay, (long long)config->values.mesh.sites);
    if (strcmp(keys->exchange, "sharded") == 0)
        return refuse(ctx, config, about, other,
                      "%s is %lld with %s sharded, whose two rounds do not fit behind "
                      "the next step; expected auto or all_gather",
                      about, (long long)keys->delay, other);
    return WEFT_OK;
}

/* One replicator section; `name` is "replicator" or "site_replicator". */
static weft_status check_one(weft_ctx *ctx, const wefti_config *config, const char *name,
                             const weft_replicator_keys *keys) {
    char about[64], other[64];
    int64_t chunk = keys->compression_chunk;
    bool square = keys->compression_dims == 2;
    int64_t room = square ? chunk * chunk : chunk;
    snprintf(about, sizeof about, "%s.compression_topk", name);
    snprintf(other, sizeof other, "%s.compression_chunk", name);
    if (keys->compression_topk > room)
        return refuse(ctx, config, about, other,
                      "%s is %lld, expected at most %lld, the size of a chunk (%s%s)",
                      about, (long long)keys->compression_topk, (long long)room, other,
                      square ? " squared" : "");
    return check_delay(ctx, config, name, keys);
}

static weft_status check_mixer(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    if (c->mixer.delay >= c->mixer.outer_every && c->mixer.delay > 0)
        return refuse(ctx, config, "mixer.delay", "mixer.outer_every",
                      "mixer.delay is %lld, expected less than mixer.outer_every (%lld)",
                      (long long)c->mixer.delay, (long long)c->mixer.outer_every);
    if (c->mixer.compression_topk > c->mixer.compression_chunk)
        return refuse(
            ctx, config, "mixer.compression_topk", "mixer.compression_chunk",
            "mixer.compression_topk is %lld, expected at most %lld, the length of "
            "a run (mixer.compression_chunk)",
            (long long)c->mixer.compression_topk, (long long)c->mixer.compression_chunk);
    if (c->mixer.fragments > c->mixer.outer_every)
        return refuse(
            ctx, config, "mixer.fragments", "mixer.outer_every",
            "mixer.fragments is %lld, expected at most mixer.outer_every (%lld)",
            (long long)c->mixer.fragments, (long long)c->mixer.outer_every);
    return WEFT_OK;
}

static weft_status check_busy(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    wefti_busy busy;
    if (!wefti_busy_parse(c->decide.busy, &busy))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "decide.busy is '%.60s', expected hours of a day and a rate "
                             "such as 18:00-23:30,2Mbit",
                             c->decide.busy);
    if (busy.Bps > 0 && !wefti_is(c->decide.keep, "optimizer"))
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "decide.busy is '%s', but with decide.keep=%s nothing changes "
            "during a run: leave one out",
            c->decide.busy, c->decide.keep);
    return WEFT_OK;
}

/* Warns of configurations that are valid, but whose result is rarely wanted. */
static void warn(weft_ctx *ctx, const weft_config *c) {
    if (c->schedule.warmup > c->run.steps)
        wefti_ctx_warn_once(ctx, WEFTI_WARNING_WARMUP,
                            "schedule.warmup (%lld) is longer than run.steps (%lld): the "
                            "learning rate never reaches optimizer.lr",
                            (long long)c->schedule.warmup, (long long)c->run.steps);
}

weft_status wefti_config_settle(weft_ctx *ctx, weft_config *values) {
    wefti_config *config = wefti_config_of(values);
    WEFT_TRY(clear_preset(ctx, config));
    WEFT_TRY(apply_preset(ctx, config));
    WEFT_TRY(apply_rate(ctx, config));
    WEFT_TRY(apply_length(ctx, config, "mixer.outer_every", wefti_method_interval));
    WEFT_TRY(apply_length(ctx, config, "mixer.outer_momentum", wefti_method_momentum));
    (void)wefti_link_parse(values->mesh.link, &values->mesh.bandwidth_Bps,
                           &values->mesh.latency_s); /* checked when the key was set */
    (void)wefti_link_parse(values->mesh.site_link, &values->mesh.site_bandwidth_Bps,
                           &values->mesh.site_latency_s);
    WEFT_TRY(check_method(ctx, config));
    WEFT_TRY(check_data(ctx, config));
    WEFT_TRY(check_tokenizer(ctx, config));
    WEFT_TRY(check_model(ctx, config));
    WEFT_TRY(check_mesh(ctx, config));
    WEFT_TRY(check_elastic(ctx, config));
    /* Without data.path the model and the batch may be those of another program
     * (weft/sync.h). */
    if (values->data.path.n > 0) WEFT_TRY(check_batch(ctx, config));
    WEFT_TRY(check_drift(ctx, config));
    WEFT_TRY(check_busy(ctx, config));
    WEFT_TRY(check_one(ctx, config, "replicator", &values->replicator));
    WEFT_TRY(check_one(ctx, config, "site_replicator", &values->site_replicator));
    WEFT_TRY(check_mixer(ctx, config));
    warn(ctx, values);
    return WEFT_OK;
}
