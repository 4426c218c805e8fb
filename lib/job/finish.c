/* SPDX-License-Identifier: MIT */
/* The end of configuring: preset and pairs of keys (config/check.c), then keys that the
 * chosen kinds do not read. A key belongs to the kinds that list it; a key that no kind
 * lists is always read.
 *
 *     set on the command line or by a program   refused
 *     set in a file                             refused if it is not the default: the file of
 *                                               a run has all keys
 *     set by a method's preset                  left at the default: another kind was chosen
 *
 * An optimizer that is named in optimizer.groups reads its keys, too. Adapters have no
 * kinds, so what their keys need of each other is checked separately. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/layers.h"
#include "config/named.h"
#include "config/schema.h"
#include "config/value.h"
#include "job/job.h"
#include "job/learning_rate.h"
#include "mix/mixer.h"
#include "optim/optimizer.h"
#include "replicate/replicator.h"
#include "topology/topology.h"
#include "wire/values.h"

/* --- which keys a chosen kind reads, as the tables of the kinds say ---
 *
 *     replicator.kind demo -> wefti_replicator_demo.keys -> compression_topk, ... */

static const char *const *replicator_keys(const char *kind) {
    const wefti_replicator_ops *ops = wefti_replicator_find(kind);
    return ops ? ops->keys : NULL;
}

static const char *const *mixer_keys(const char *kind) {
    const wefti_mixer_ops *ops = wefti_mixer_find(kind);
    return ops ? ops->keys : NULL;
}

static const char *const *optimizer_keys(const char *kind) {
    const wefti_optimizer_ops *ops = wefti_optimizer_find(kind);
    return ops ? ops->keys : NULL;
}

static const char *const *topology_keys(const char *kind) {
    for (int i = 0; wefti_topology_registry[i]; i++)
        if (wefti_is(wefti_topology_registry[i]->name, kind))
            return wefti_topology_registry[i]->keys;
    return NULL;
}

/* Codes that have several levels around a scale read how to round. */
static const char *const *codec_keys(const char *name) {
    static const char *const rounds[] = {"rounding", NULL};
    int codec = wefti_value_codec_find(name);
    if (codec < 0) return NULL;
    const wefti_value_ops *ops = wefti_value_ops_of((wefti_value_codec)codec);
    return ops->scaled && ops->bits > 1 ? rounds : NULL;
}

/* For rows of texts: where a text is found, or how messages become a text. */
static const char *const *row_keys(const char *rows) {
    static const char *const windows[] = {"field", "column", NULL};
    static const char *const prompts[] = {"chat_template", NULL};
    return wefti_is(rows, "prompts") ? prompts : windows;
}

static const struct {
    const char *chooser;
    const char *const *(*keys)(const char *kind);
} choosers[] = {
    {"replicator.kind", replicator_keys},
    {"site_replicator.kind", replicator_keys},
    {"replicator.values", codec_keys},
    {"site_replicator.values", codec_keys},
    {"mixer.kind", mixer_keys},
    {"mixer.topology", topology_keys},
    {"mixer.values", codec_keys},
    {"optimizer.kind", optimizer_keys},
    {"data.tokenizer", wefti_tokenizer_keys},
    {"data.rows", row_keys},
    {"schedule.kind", wefti_learning_rate_keys},
};
enum { N_CHOOSERS = sizeof choosers / sizeof choosers[0] };

/* The keys that a choice of `chooser` ("mixer.kind") reads and not every other choice does:
 * their last parts, NULL-terminated; NULL: none. */
static const char *const *kind_keys(const char *chooser, const char *kind) {
    for (int i = 0; i < N_CHOOSERS; i++)
        if (wefti_is(choosers[i].chooser, chooser)) return choosers[i].keys(kind);
    return NULL;
}

/* --- keys that nobody reads --- */

static const char *last_part(const char *name) { return strrchr(name, '.') + 1; }

static bool is_listed(const weft_config_key *chooser, const char *kind,
                      const weft_config_key *key) {
    return wefti_named(kind_keys(chooser->name, kind), last_part(key->name));
}

static const char *chosen(const weft_config *values, const weft_config_key *chooser) {
    const char *kind;
    memcpy(&kind, (const char *)values + chooser->offset, sizeof kind);
    return kind;
}

/* Whether a group of tensors uses that optimizer. */
static bool in_groups(const weft_config *values, const char *kind) {
    for (int i = 0; i < values->optimizer.groups.n; i++) {
        const char *at = strstr(values->optimizer.groups.items[i], "optimizer=");
        if (at) at += strlen("optimizer=");
        if (at && strncmp(at, kind, strlen(kind)) == 0 && strchr(" \t", at[strlen(kind)]))
            return true;
    }
    return false;
}

/* Whether a node sends in that codec (replicator.node_values). */
static bool in_nodes(const weft_config *values, const char *codec) {
    size_t n = strlen(codec);
    for (const char *at = values->node_values; (at = strchr(at, '='));)
        if (strncmp(++at, codec, n) == 0 && strcspn(at, ",") == n) return true;
    return false;
}

static bool is_chosen(const weft_config *values, const weft_config_key *chooser,
                      const char *kind) {
    return wefti_is(chosen(values, chooser), kind) ||
           (wefti_is(chooser->name, "optimizer.kind") && in_groups(values, kind)) ||
           (wefti_is(chooser->name, "replicator.values") && in_nodes(values, kind));
}

static bool is_in_section_of(const weft_config_key *chooser, const weft_config_key *key) {
    size_t n = strcspn(key->name, ".") + 1;
    return chooser != key && strncmp(chooser->name, key->name, n) == 0;
}

/* The key whose choice is the reason that this key is not read; NULL: it is read. */
static const weft_config_key *unread_by(const weft_config *values,
                                        const weft_config_key *key) {
    if (!strchr(key->name, '.')) return NULL;
    for (const weft_config_key *c = wefti_config_keys; c->name; c++) {
        if (!c->choices || !is_in_section_of(c, key)) continue;
        if (!wefti_choice_find(c->choices, chosen(values, c))) continue;
        bool somebody = false, read = false;
        for (const weft_choice *kind = c->choices; kind->name && !read; kind++) {
            if (!is_listed(c, kind->name, key)) continue;
            somebody = true;
            read = is_chosen(values, c, kind->name);
        }
        if (somebody && !read) return c;
    }
    return NULL;
}

static bool is_default(const weft_config *values, const weft_config_key *key) {
    wefti_value fallback = {0}, v = wefti_value_at(key, values);
    weft_texts texts;
    (void)wefti_value_parse(key, key->fallback, &fallback);
    if (v.text) return wefti_is(v.text, fallback.text);
    if (!wefti_key_is_list(key))
        return v.integer == fallback.integer && v.number == fallback.number;
    memcpy(&texts, (const char *)values + key->offset, sizeof texts);
    return texts.n == 0;
}

/* Writes the kinds that read the key into out: "demo, topk". */
static void name_readers(const weft_config_key *chooser, const weft_config_key *key,
                         char *out, size_t size) {
    size_t n = 0;
    out[0] = '\0';
    for (const weft_choice *kind = chooser->choices; kind->name; kind++)
        if (is_listed(chooser, kind->name, key) && n < size)
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", kind->name);
}

static weft_status refuse(weft_ctx *ctx, const wefti_config *config,
                          const weft_config_key *key, const weft_config_key *chooser) {
    char prefix[300], readers[160];
    wefti_origin_prefix(&config->origins[wefti_config_key_index(key)], prefix,
                        sizeof prefix);
    name_readers(chooser, key, readers, sizeof readers);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s%s is set, but %s %s does not read it, expected one of %s",
                         prefix, key->name, chooser->name,
                         chosen(&config->values, chooser), readers);
}

static weft_status check_read(weft_ctx *ctx, wefti_config *config) {
    for (const weft_config_key *key = wefti_config_keys; key->name; key++) {
        weft_config_origin layer = config->origins[wefti_config_key_index(key)].layer;
        if (layer == WEFT_ORIGIN_DEFAULT || layer == WEFT_ORIGIN_MODEL) continue;
        const weft_config_key *chooser = unread_by(&config->values, key);
        if (!chooser) continue;
        if (layer == WEFT_ORIGIN_METHOD)
            WEFT_TRY(wefti_config_reset(ctx, config, key));
        else if (layer == WEFT_ORIGIN_COMMAND || !is_default(&config->values, key))
            return refuse(ctx, config, key, chooser);
    }
    return WEFT_OK;
}

/* Whether the user has set the key, to more than what the file of a run has anyway. */
static bool is_said(const wefti_config *config, const weft_config_key *key) {
    weft_config_origin layer = config->origins[wefti_config_key_index(key)].layer;
    return layer == WEFT_ORIGIN_COMMAND ||
           (layer == WEFT_ORIGIN_FILE && !is_default(&config->values, key));
}

/* Why a key has no place beside method=auto; NULL: it has one. */
static const char *against_auto(const weft_config *c, const char *name) {
    static const char decides[] = "decides it: leave it out, or name a method";
    static const struct {
        const char *prefix, *why;
    } rows[] = {{"replicator.", decides},
                {"site_replicator.", decides},
                {"mixer.", decides},
                {"mesh.shards", decides},
                {"mesh.keep_whole", decides},
                {"mesh.robust", decides},
                {"batch.shares", "plans equal parts, expected equal"},
                {"mesh.straggler_time", "measures computing as it is, expected 0"},
                {"optimizer.", "decides it with decide.keep any: leave it out"}};
    enum { N = sizeof rows / sizeof rows[0] };
    int n = wefti_is(c->decide.keep, "any") ? N : N - 1;
    for (int i = 0; i < n; i++)
        if (strncmp(name, rows[i].prefix, strlen(rows[i].prefix)) == 0)
            return rows[i].why;
    return NULL;
}

/* What method=auto decides is not set beside it, and nothing else reads decide.*. */
static weft_status check_auto(weft_ctx *ctx, const wefti_config *config) {
    const weft_config *c = &config->values;
    bool decides = wefti_is(c->method, "auto");
    char prefix[300];
    for (const weft_config_key *key = wefti_config_keys; key->name; key++) {
        const char *why = decides ? against_auto(c, key->name)
                          : strncmp(key->name, "decide.", 7) == 0
                              ? "does not read it, expected auto"
                              : NULL;
        if (!why || !is_said(config, key)) continue;
        wefti_origin_prefix(&config->origins[wefti_config_key_index(key)], prefix,
                            sizeof prefix);
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s%s is set, but method %s %s",
                             prefix, key->name, c->method, why);
    }
    return WEFT_OK;
}

/* Keys of adapters have an effect only where there are adapters: new ones, or those of
 * adapter.init, which has a rank of its own. A key's value is tested, not whether the key
 * was set, because a run's file has all keys. */
static weft_status check_adapter(weft_ctx *ctx, const weft_config *c) {
    const char *key = c->adapter.alpha != 0      ? "adapter.alpha"
                      : c->adapter.dropout != 0  ? "adapter.dropout"
                      : c->adapter.targets.n > 0 ? "adapter.targets"
                      : c->adapter.save.n > 0    ? "adapter.save"
                                                 : NULL;
    if (c->adapter.rank == 0 && !c->adapter.init[0] && key)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "%s is set, but adapter.rank is 0: there are no adapters",
                             key);
    if ((c->adapter.rank > 0 || c->adapter.init[0]) && c->model.frozen.n > 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "model.frozen is set, but with adapters all of the model is "
                             "frozen, and they alone are trained");
    return WEFT_OK;
}

/* A robust mean compares what nodes say about the same numbers. */
static weft_status check_robust(weft_ctx *ctx, const weft_config *c) {
    const wefti_replicator_ops *r = wefti_replicator_find(c->replicator.kind);
    const wefti_mixer_ops *m = wefti_mixer_find(c->mixer.kind);
    bool sends = r->encode || r->begin, mixes = m->messages;
    bool by_sender = (sends && !r->robust) || (mixes && !m->robust) || (!sends && !mixes);
    if (wefti_robust_named(c->mesh.robust) == WEFTI_ROBUST_OFF) return WEFT_OK;
    if (c->mesh.sites > 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mesh.robust is %s with mesh.sites %lld, expected one site",
                             c->mesh.robust, (long long)c->mesh.sites);
    if (!by_sender) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "mesh.robust is %s, but with replicator.kind %s and mixer.kind %s the nodes do "
        "not all send the same numbers to one mean; expected replicator.kind full, "
        "random, striding or slicing, or mixer.kind outer",
        c->mesh.robust, c->replicator.kind, c->mixer.kind);
}

static void warn(weft_ctx *ctx, const weft_config *c) {
    int64_t H = wefti_job_period(c), parts = c->mixer.fragments;
    if (H == 1 || (parts > 1 ? H / parts : H) + c->mixer.delay <= c->run.steps) return;
    weft_ctx_log(ctx, WEFT_LOG_WARN,
                 "mixer.outer_every (%lld) is longer than run.steps (%lld): the nodes "
                 "exchange nothing and train apart",
                 (long long)H, (long long)c->run.steps);
}

weft_status weft_config_finish(weft_ctx *ctx, weft_config *values) {
    WEFT_TRY(check_auto(ctx, wefti_config_of(values)));
    WEFT_TRY(wefti_config_settle(ctx, values));
    WEFT_TRY(check_read(ctx, wefti_config_of(values)));
    WEFT_TRY(check_adapter(ctx, values));
    WEFT_TRY(check_robust(ctx, values));
    WEFT_TRY(wefti_codecs_check(ctx, values));
    if (values->data.path.n > 0)
        WEFT_TRY(wefti_shares_check(ctx, values, wefti_job_positions(values)));
    warn(ctx, values);
    return WEFT_OK;
}

/* Rates that fit differ by a factor of ten among methods, so a rate that is carried over
 * from another one is the usual mistake. */
void wefti_job_doubt(weft_ctx *ctx, const weft_config *c) {
    const double far = 4; /* times the usual rate, or a part of it */
    char text[32], times[48];
    const char *own = wefti_method_rate(c, text, sizeof text);
    double lr = c->optimizer.lr, usual = own ? wefti_strtod(own, NULL) : lr;
    if (lr <= 0 || (lr >= usual / far && lr <= usual * far)) return;
    if (lr > usual)
        snprintf(times, sizeof times, "%.3g times", lr / usual);
    else
        snprintf(times, sizeof times, "1/%.3g of", usual / lr);
    weft_ctx_log(ctx, WEFT_LOG_WARN,
                 "optimizer.lr is %g, %s the rate of method %s with %s for a model of "
                 "this width: %s, which is taken where optimizer.lr is left out",
                 lr, times, c->method, c->optimizer.kind, own);
}
