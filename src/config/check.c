/* SPDX-License-Identifier: MIT */
/* The end of configuring: the method's preset goes under what was set explicitly, then
 * keys are checked against each other. A sentence names the line of the key that it is
 * about. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config/layers.h"
#include "config/value.h"

static const wefti_origin *origin_of(const wefti_config *config, const char *name) {
    return &config->origins[wefti_config_key_index(wefti_config_key_find(name))];
}

/* Refuses a pair of keys; the line is that of the first of them that stands in a file. */
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

static weft_status clear_preset(weft_ctx *ctx, wefti_config *config) {
    for (const weft_config_key *key = wefti_config_keys; key->name; key++)
        if (config->origins[wefti_config_key_index(key)].layer == WEFTI_LAYER_METHOD)
            WEFT_TRY(wefti_config_reset(ctx, config, key));
    return WEFT_OK;
}

static weft_status apply_preset(weft_ctx *ctx, wefti_config *config) {
    const char *name, *value;
    wefti_origin origin = {WEFTI_LAYER_METHOD, 0, NULL};
    for (int j = 0; (name = weft_config_method_key(config->values.method, j, &value));
         j++) {
        wefti_typed typed = {value, 1, false};
        WEFT_TRY(wefti_config_assign(ctx, config, wefti_config_key_find(name), &origin,
                                     &typed));
    }
    return WEFT_OK;
}

static weft_status check_method(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    for (const wefti_method_need *need = wefti_method_needs; need->method; need++) {
        int64_t found;
        const weft_config_key *key = wefti_config_key_find(need->key);
        if (strcmp(need->method, c->method) != 0) continue;
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

static weft_status check_data(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    if (c->data.weights.n && c->data.weights.n != c->data.path.n)
        return refuse(ctx, config, "data.weights", "data.path",
                      "data.weights has %d numbers, expected one for each data.path (%d)",
                      c->data.weights.n, c->data.path.n);
    for (int i = 0; i < c->data.weights.n; i++)
        if (c->data.weights.items[i] <= 0)
            return refuse(ctx, config, "data.weights", "data.path",
                          "data.weights holds a 0, expected numbers above 0: leave the "
                          "path out instead");
    return WEFT_OK;
}

/* A misspelt "bytes" would otherwise be looked for as a file. */
static weft_status check_tokenizer(weft_ctx *ctx, const wefti_config *config) {
    const char *tokenizer = config->values.data.tokenizer;
    char shown[80];
    const weft_config_key *key = wefti_config_key_find("data.tokenizer");
    if (wefti_choice_find(key->choices, tokenizer) || strpbrk(tokenizer, "./"))
        return WEFT_OK;
    return refuse(
        ctx, config, "data.tokenizer", "data.tokenizer",
        "data.tokenizer is '%s', expected bytes, bpe or the path of a tokenizer.json",
        wefti_shown(tokenizer, shown, sizeof shown));
}

static weft_status check_model(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    if (c->model.width % c->model.heads != 0)
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

static weft_status check_mesh(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    long long ranks = c->mesh.nodes * c->mesh.ranks_per_node;
    if (ranks > 1024)
        return refuse(
            ctx, config, "mesh.nodes", "mesh.ranks_per_node",
            "mesh.nodes times mesh.ranks_per_node is %lld, expected at most 1024 ranks",
            ranks);
    return WEFT_OK;
}

/* Every rank has the same number of sequences in a step, and every pass the same of
 * those. */
static weft_status check_batch(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    long long ranks = c->mesh.nodes * c->mesh.ranks_per_node;
    long long unit = ranks * c->data.length, tokens = c->batch.tokens_per_step;
    long long nearest = tokens < unit ? unit : tokens / unit * unit;
    if (tokens % unit != 0)
        return refuse(
            ctx, config, "batch.tokens_per_step", "data.length",
            "batch.tokens_per_step is %lld, expected a multiple of %lld (%lld rank%s "
            "times data.length %lld) such as %lld",
            tokens, unit, ranks, ranks > 1 ? "s" : "", (long long)c->data.length,
            nearest);
    if (c->batch.micro && tokens / unit % c->batch.micro != 0)
        return refuse(
            ctx, config, "batch.micro", "batch.tokens_per_step",
            "batch.micro is %lld, expected a divisor of %lld, the sequences of each "
            "rank in a step",
            (long long)c->batch.micro, tokens / unit);
    return WEFT_OK;
}

/* Replicas that nothing pulls together are not one model. */
static weft_status check_drift(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    const char *kind = c->replicator.kind;
    if (strcmp(kind, "none") == 0 && c->mesh.nodes > 1)
        return refuse(
            ctx, config, "replicator.kind", "mesh.nodes",
            "replicator.kind is none with mesh.nodes %lld: the nodes would train "
            "unrelated models; choose full or demo",
            (long long)c->mesh.nodes);
    if (strcmp(kind, "full") == 0 && c->replicator.every > 1)
        return refuse(
            ctx, config, "replicator.every", "replicator.kind",
            "replicator.every is %lld with replicator.kind full, expected 1: the "
            "nodes' models would drift apart between exchanges",
            (long long)c->replicator.every);
    return WEFT_OK;
}

static weft_status check_replicator(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    int64_t chunk = c->replicator.compression_chunk;
    bool square = c->replicator.compression_dims == 2;
    int64_t room = square ? chunk * chunk : chunk;
    if (c->replicator.compression_topk > room)
        return refuse(
            ctx, config, "replicator.compression_topk", "replicator.compression_chunk",
            "replicator.compression_topk is %lld, expected at most %lld, the size of "
            "a chunk (replicator.compression_chunk%s)",
            (long long)c->replicator.compression_topk, (long long)room,
            square ? " squared" : "");
    return WEFT_OK;
}

/* What runs, and of which few people want the result. */
static void warn(weft_ctx *ctx, const weft_config *c) {
    if (c->schedule.warmup > c->run.steps)
        weft_ctx_log(
            ctx, WEFT_LOG_WARN,
            "schedule.warmup (%lld) is longer than run.steps (%lld): the learning rate "
            "never reaches optimizer.lr",
            (long long)c->schedule.warmup, (long long)c->run.steps);
}

weft_status weft_config_finish(weft_ctx *ctx, weft_config *values) {
    wefti_config *config = wefti_config_of(values);
    WEFT_TRY(clear_preset(ctx, config));
    WEFT_TRY(apply_preset(ctx, config));
    (void)wefti_link_parse(values->mesh.link, &values->mesh.bandwidth_Bps,
                           &values->mesh.latency_s); /* checked when it was set */
    WEFT_TRY(check_method(ctx, config));
    WEFT_TRY(check_data(ctx, config));
    WEFT_TRY(check_tokenizer(ctx, config));
    WEFT_TRY(check_model(ctx, config));
    WEFT_TRY(check_mesh(ctx, config));
    WEFT_TRY(check_batch(ctx, config));
    WEFT_TRY(check_drift(ctx, config));
    WEFT_TRY(check_replicator(ctx, config));
    warn(ctx, values);
    return WEFT_OK;
}
