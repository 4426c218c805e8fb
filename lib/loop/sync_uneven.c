/* SPDX-License-Identifier: MIT */
/* What the calls of a step ask about rows that differ (sync_weigh.c, whose rule it is):
 *
 *     create     whether what is configured can weigh
 *     ready      whether the rows are known; a bucket that is complete is weighed */
#include <limits.h>

#include "base/memory.h"
#include "base/text.h"
#include "loop/sync.h"

enum { GOSSIP_STEPS = 8 };

weft_status wefti_sync_check_uneven(weft_sync *s) {
    const weft_config *c = s->config;
    if (!s->setup.uneven) return WEFT_OK;
    WEFT_TRY(wefti_weights_check(s->ctx, c, "rows differ (setup.uneven)"));
    WEFT_TRY(wefti_weights_check_topology(s->ctx, s->job, "rows differ (setup.uneven)"));
    const wefti_mixer_ops *mixer = wefti_mixer_find(c->mixer.kind);
    const char *found = s->setup.skips                     ? "setup.skips"
                        : !wefti_is(c->mesh.robust, "off") ? "mesh.robust"
                        : mixer->keeps_partners ? "a mixer that keeps its partners"
                        : mixer->direct         ? "a mixer of directions"
                        : mixer->meets && mixer->period ? "outer steps among neighbours"
                        : c->mixer.consensus_bound > 0  ? "mixer.consensus_bound"
                                                        : NULL;
    if (!found) return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_CONFIG,
        "rows differ (setup.uneven) with %s, expected it off: each step's "
        "exchanges are weighed, and end with it",
        found);
}

weft_status wefti_sync_open_window(weft_sync *s) {
    const wefti_mixer_config *c = &s->job->mixer_config;
    bool mixes = wefti_is(s->job->replicator_config.kind, "none");
    int64_t n = !mixes ? 1 : c->topology ? GOSSIP_STEPS : wefti_mixer_period(c);
    if (!s->setup.uneven || n == s->rows.n_window) return WEFT_OK;
    wefti_free(s->ctx, s->rows.window);
    s->rows.window = NULL;
    s->rows.n_window = 0;
    WEFT_TRY(wefti_alloc_n(s->ctx, n, sizeof *s->rows.window, "rows", &s->rows.window));
    s->rows.n_window = (int)n;
    return WEFT_OK;
}

weft_status wefti_sync_check_weighed(weft_sync *s) {
    if (!s->setup.uneven || s->rank->says.is_sent) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "gradients are ready in step %lld before weft_sync_weigh, which "
                         "says how many rows stand behind them",
                         (long long)s->step + 1);
}

weft_status wefti_sync_unsay(weft_sync *s, int copies, const int64_t *was) {
    if (copies != s->rows.n_reports) {
        wefti_free(s->ctx, s->rows.reports);
        s->rows.reports = NULL;
        s->rows.n_reports = 0;
        WEFT_TRY(wefti_alloc_n(s->ctx, copies, sizeof *s->rows.reports, "rows",
                               &s->rows.reports));
        s->rows.n_reports = copies;
    }
    for (int i = 0; i < copies; i++) {
        bool known = !was || (was[i] >= 0 && was[i] <= INT_MAX);
        int before = !known ? -1 : was ? (int)was[i] : i;
        s->rows.reports[i] = (wefti_sync_report){-1, 0, before};
    }
    return WEFT_OK;
}

void wefti_sync_weigh_bucket(weft_sync *s, int b) {
    const wefti_arrangement *a = s->rank->arrangement;
    float *g = s->rank->grads + a->bucket_offset[b];
    int64_t n = a->buckets[b].n_elements;
    if (!s->setup.uneven || s->setup.compressed || s->rank->shares.weight == 1) return;
    if (s->rank->shares.weight > 0)
        s->job->kernels->scale(n, (float)s->rank->shares.weight, g);
    else
        for (int64_t i = 0; i < n; i++) g[i] = 0; /* whatever was there */
}
