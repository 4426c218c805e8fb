/* SPDX-License-Identifier: MIT */
/* The configuration of a candidate: the run's keys without those of its method, then the
 * candidate's settings. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "config/layers.h"
#include "config/schema.h"
#include "job/job.h"
#include "planner/advise.h"

/* Finds the method in the settings; "" if they keep the run's own. */
static void method_of(const char *settings, char out[32]) {
    const char *at = strstr(settings, "method=");
    out[0] = '\0';
    if (at) sscanf(at, "method=%31s", out);
}

/* Whether a method has the same optimizer as the run's own method. */
static bool shares_optimizer(const weft_config *run, const char *settings,
                             const char *method) {
    char kind[32] = "";
    const char *at = strstr(settings, "optimizer.kind=");
    if (at && sscanf(at, "optimizer.kind=%31s", kind) == 1 &&
        !wefti_is(kind, run->optimizer.kind))
        return false;
    return wefti_is(method, run->method) ||
           (wefti_job_averages_all(run) && wefti_method_is_plain(run->method) &&
            wefti_method_is_plain(method));
}

/* Resets the keys that were set for the run's own method if the candidate has another method. */
static weft_status reset_method(weft_ctx *ctx, const weft_config *run,
                                const char *settings, weft_config *config) {
    char method[32];
    method_of(settings, method);
    WEFT_TRY(weft_config_reset(ctx, config, "replicator."));
    WEFT_TRY(weft_config_reset(ctx, config, "site_replicator."));
    WEFT_TRY(weft_config_reset(ctx, config, "mixer."));
    if (shares_optimizer(run, settings, method)) return WEFT_OK;
    return weft_config_reset(ctx, config, "optimizer.");
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
        WEFT_TRY(reset_method(ctx, run, settings, config));
    else if (strstr(settings, "mesh.sites=1 "))
        WEFT_TRY(weft_config_reset(ctx, config, "site_replicator."));
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

int64_t wefti_advise_length(const wefti_adviser *a) {
    return wefti_job_positions(a->run);
}

int64_t wefti_advise_tokens(const wefti_adviser *a, int64_t nodes) {
    return a->run->batch.tokens_per_step * (a->options.batch_per_rank ? nodes : 1);
}

int64_t wefti_advise_micro(const wefti_adviser *a, int64_t rows) {
    int64_t micro = a->run->batch.micro;
    if (micro > rows && rows > 0) micro = rows;
    while (micro > 1 && rows % micro != 0) micro--;
    return micro;
}

/* The most nodes that can share the batch: all variants are tried there. */
int64_t wefti_advise_most_nodes(const wefti_adviser *a) {
    int64_t all = a->cluster.nodes,
            site = all / (a->cluster.sites > 1 ? a->cluster.sites : 1);
    int64_t unit = a->cluster.ranks_per_node * wefti_advise_length(a);
    for (int64_t n = all; n > 1; n--)
        if ((n == all || n <= site) && wefti_advise_tokens(a, n) % (n * unit) == 0)
            return n;
    return all;
}

bool wefti_advise_given(const wefti_adviser *a, const char *key) {
    return wefti_config_given(a->run, key);
}
