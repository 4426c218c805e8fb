/* SPDX-License-Identifier: MIT */
/* The configuration of a candidate: the run's own keys, less those of its method, with the
 * candidate's settings over them. */
#include <stdio.h>
#include <string.h>

#include "config/layers.h"
#include "planner/advise.h"

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static bool begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_plain(const char *method) {
    return is(method, "none") || is(method, "ddp") || is(method, "fsdp") ||
           is(method, "hsdp");
}

/* The method that the settings name; "" if they keep the run's own. */
static void method_of(const char *settings, char out[32]) {
    const char *at = strstr(settings, "method=");
    out[0] = '\0';
    if (at) sscanf(at, "method=%31s", out);
}

/* Whether a method has the optimizer of the run's own. */
static bool shares_optimizer(const weft_config *run, const char *method) {
    bool plain = is(run->replicator.kind, "full") && is(run->mixer.kind, "none");
    return is(method, run->method) ||
           (plain && is_plain(run->method) && is_plain(method));
}

static weft_status reset_section(weft_ctx *ctx, weft_config *config, const char *prefix) {
    const weft_config_key *key;
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        if (begins(key->name, prefix))
            WEFT_TRY(wefti_config_reset(ctx, wefti_config_of(config), key));
    return WEFT_OK;
}

/* What was typed for the run's own method is not right for another. */
static weft_status reset_method(weft_ctx *ctx, const weft_config *run, const char *method,
                                weft_config *config) {
    WEFT_TRY(reset_section(ctx, config, "replicator."));
    WEFT_TRY(reset_section(ctx, config, "site_replicator."));
    WEFT_TRY(reset_section(ctx, config, "mixer."));
    if (shares_optimizer(run, method)) return WEFT_OK;
    return reset_section(ctx, config, "optimizer.");
}

static weft_status apply(weft_ctx *ctx, weft_config *config, const char *settings) {
    char word[128];
    for (int n = 0; sscanf(settings, " %127s%n", word, &n) == 1; settings += n)
        WEFT_TRY(weft_config_set(ctx, config, word));
    return WEFT_OK;
}

static weft_status adapt(weft_ctx *ctx, const weft_config *run, const char *settings,
                         bool emulated, weft_config *config) {
    char method[32];
    method_of(settings, method);
    if (method[0])
        WEFT_TRY(reset_method(ctx, run, method, config));
    else if (strstr(settings, "mesh.sites=1 "))
        WEFT_TRY(reset_section(ctx, config, "site_replicator."));
    if (!emulated)
        WEFT_TRY(apply(ctx, config,
                       "mesh.link=none mesh.site_link=none mesh.compute_time=0 "
                       "mesh.straggler_time=0"));
    WEFT_TRY(apply(ctx, config, settings));
    return weft_config_finish(ctx, config);
}

weft_status wefti_advise_config(weft_ctx *ctx, const weft_config *run,
                                const char *settings, bool emulated, weft_config **out) {
    weft_config *config;
    *out = NULL;
    WEFT_TRY(weft_config_copy(ctx, run, &config));
    weft_status status = adapt(ctx, run, settings, emulated, config);
    if (status != WEFT_OK) {
        weft_config_destroy(ctx, config);
        return status;
    }
    *out = config;
    return WEFT_OK;
}
