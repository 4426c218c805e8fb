/* SPDX-License-Identifier: MIT */
/* The measurements of a rank, their order, and the share of the time that each part gets.
 * Steps get a large share, because rare slow steps determine the jitter. The model is
 * that of the run, without exchange and emulated slowness: the times of the wire and the
 * codecs are measured separately. */
#include "probe/prober.h"

weft_status wefti_probe_calm_config(weft_ctx *ctx, const weft_config *config,
                                    weft_config **out) {
    WEFT_TRY(weft_config_copy(ctx, config, out));
    weft_config *calm = *out;
    calm->replicator.kind = calm->site_replicator.kind = "none";
    calm->replicator.every = calm->site_replicator.every = 1;
    calm->mixer.kind = "none";
    calm->optimizer.clip = 0;
    calm->mesh.compute_time = calm->mesh.straggler_time = 0;
    calm->run.steps = INT32_MAX;
    return WEFT_OK;
}

typedef struct part {
    const char *name;
    double share; /* share of the total time */
    weft_status (*measure)(wefti_prober *p, double seconds);
} part;

static const part parts[] = {
    {"rates", 0.05, wefti_probe_rates},  {"steps", 0.25, wefti_probe_steps},
    {"links", 0.2, wefti_probe_links},   {"collectives", 0.25, wefti_probe_collectives},
    {"codecs", 0.2, wefti_probe_codecs}, {"optimizers", 0.05, wefti_probe_optimizers}};

weft_status wefti_probe_rank(wefti_rank *r, const wefti_probe_setup *setup,
                             const weft_probe_options *hooks, weft_probe_result *result) {
    wefti_prober p = {.rank = r,
                      .setup = setup,
                      .hooks = hooks,
                      .result = result,
                      .ctx = r->ctx,
                      .comm = r->comms.control};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (result && hooks && hooks->on_part) hooks->on_part(hooks->user, parts[i].name);
        WEFT_TRY(wefti_prober_meet(&p));
        WEFT_TRY(parts[i].measure(&p, parts[i].share * setup->seconds));
    }
    return WEFT_OK;
}
