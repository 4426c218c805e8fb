/* SPDX-License-Identifier: MIT */
/* A process that joins a caller's loop while it trains (weft_mesh_enter). It has created
 * its tensors alone, in a world of one. In weft_sync_begin it becomes a member, and all
 * processes make the world of the first step that it takes part in:
 *
 *     joins:   create (alone) -> begin: member, of step F -> new world -> takes all -> step F
 *     others:  step F - 1 -> open(F): changed             -> new world -> give      -> step F
 *
 * sync_meet.c describes what is given and taken there. */
#include "mesh/elastic.h"
#include "loop/sync.h"

static weft_status refuse_entry(weft_sync *s) {
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_CONFIG,
        "this exchange can not come into a run that trains: expected setup.elastic, "
        "mesh.on_loss=go_on, one copy of the model per node, no skips and no "
        "mixer.deadline");
}

weft_status wefti_sync_join(weft_sync *s) {
    bool changed = true;
    if (!s->elastic) return refuse_entry(s);
    WEFT_TRY(wefti_sync_start_membership(s));
    weft_status status = wefti_elastic_await_entry(s->ctx, s->mesh, &s->step);
    if (status != WEFT_OK) return wefti_sync_explain(s, status);
    s->counted = s->step;
    wefti_elastic_gather(s->mesh, true);
    status = wefti_sync_regroup(s);
    while (s->bare && changed && status == WEFT_OK) {
        status = wefti_elastic_begin(s->ctx, s->mesh, s->step, &changed);
        if (changed && status == WEFT_OK) status = wefti_sync_regroup(s);
    }
    wefti_elastic_gather(s->mesh, false);
    if (status != WEFT_OK || !s->bare) return status;
    wefti_elastic_note(s->mesh, WEFTI_FACT_REPLACED); /* the others go on without it */
    return weft_ctx_fail(s->ctx, WEFT_ERR_PEER,
                         "step %lld begins, and this process has lost a process that was "
                         "giving it parameters and state; it may join again",
                         (long long)s->step + 1);
}
