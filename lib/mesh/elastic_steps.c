/* SPDX-License-Identifier: MIT */
/* The steps that this rank reports to the others. None goes back, and the others can read a report
 * only with
 *
 *     begun >= sent >= finished
 *
 * A joiner reports none before it begins its first step: until then it does not have what the
 * steps before have made, and must not count as one that has (quorum.c). */
#include "base/assert.h"
#include "base/lock.h"
#include "mesh/elastic.h"

static void raise_to(int64_t *at, int64_t step) {
    if (step > *at) *at = step;
}

void wefti_elastic_reach(wefti_elastic *e, wefti_member_steps to) {
    if (e->own.has_nothing) return;
    raise_to(&e->own.steps.begun, to.begun);
    raise_to(&e->own.steps.sent, to.sent);
    raise_to(&e->own.steps.finished, to.finished);
    WEFTI_ASSERT(e->own.steps.begun >= e->own.steps.sent &&
                 e->own.steps.sent >= e->own.steps.finished);
}

void wefti_elastic_reach_begin(wefti_elastic *e, int64_t step) {
    wefti_member_steps to = {step, -1, -1};
    if (e->own.has_nothing)
        to.sent = to.finished = step - 1; /* it has come with the state */
    e->own.has_nothing = false;
    wefti_elastic_reach(e, to);
}

enum { BASE_CHANNELS = (1 << WEFTI_VIEW_SHIFT) - 1 };

/* The ranks' status is sent after all passes of the step. */
void wefti_elastic_note_sent(weft_mesh *mesh, int channel, int64_t tag) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    bool is_status = e && (channel & BASE_CHANNELS) == WEFTI_GROUP_WORLD * 8;
    if (is_status && tag <= e->own.steps.begun)
        wefti_elastic_reach(e, (wefti_member_steps){-1, tag, -1});
}
