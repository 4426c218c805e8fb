/* SPDX-License-Identifier: MIT */
/* For callers that keep parameters and the mixer's states where their tensors are (mix/held.c):
 *
 *     begin -> outgoing, hand -> open
 *     agree -> incoming -> the caller's optimizer -> outgoing, hand -> mix -> incoming
 *
 * When processes come or go the caller writes all that into libweft's arrays (setup.settle), whose
 * way into the next world is that of any states; there the mixer may be held again. */
#include "base/memory.h"
#include "base/sized.h"
#include "loop/sync.h"

/* Why it can not be held now, NULL: it can. In a new world nothing has been sent yet. */
static const char *refusal(const weft_sync *s) {
    const wefti_mixer_config *c = &s->job->mixer_config;
    if (!s->setup.outside) return "is called with weft's optimizer";
    if (s->setup.skips) return "is called with setup.skips";
    if (s->elastic && !s->setup.settle)
        return "is called where the run goes on without lost processes, and setup.settle "
               "is NULL";
    if (s->elastic && (c->delay > 0 || c->topology))
        return "is called where the run goes on without lost processes, and messages are "
               "in "
               "flight between steps";
    return s->begun && (!s->view.anew || s->now.handed_over || s->now.agreed)
               ? "comes after weft_sync_begin"
               : NULL;
}

weft_status weft_sync_hold_mixer(weft_sync *s, int *partners) {
    *partners = s->job->mixer_config.partners;
    const char *why = refusal(s);
    if (why)
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_ARGUMENT,
            "weft_sync_hold_mixer %s; expected it before weft_sync_begin, or "
            "when processes have come or gone, with an optimizer of the "
            "program's, without skips",
            why);
    wefti_rank *r = s->rank;
    const wefti_arrangement *a = r->arrangement;
    wefti_mixer_destroy(r->mixer);
    r->mixer = NULL;
    s->job->mixer_config.held = true;
    s->view.anew = false;
    return wefti_mixer_create(s->ctx, &s->job->mixer_config, s->job->kernels,
                              r->comms.sites, a->buckets, a->n_buckets, &r->mixer);
}

weft_status wefti_sync_settle(weft_sync *s) {
    wefti_mixer *m = s->rank->mixer;
    if (!s->setup.settle) return WEFT_OK;
    if (m->config.held && m->n_states == 0) WEFT_TRY(wefti_mixer_make_states(m));
    if (s->setup.settle(s->setup.user)) return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_ARGUMENT,
        "the program could not write what it keeps of parameters and states "
        "for processes that have come");
}

static weft_status check_held(weft_sync *s) {
    if (s->rank && s->rank->mixer && s->rank->mixer->outgoing) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "a parcel is asked for without weft_sync_hold_mixer");
}

static weft_sync_parcel tell(const wefti_held_parcel *p) {
    return (weft_sync_parcel){.struct_size = sizeof(weft_sync_parcel),
                              .kind = (weft_parcel_kind)p->kind,
                              .bucket = p->bucket,
                              .partner = p->partner,
                              .again = p->again,
                              .first = p->first,
                              .n = p->n,
                              .exchange = p->exchange,
                              .seed = p->seed,
                              .place = p->place,
                              .share = p->share,
                              .n_bytes = p->n_bytes,
                              .n_places = p->n_places,
                              .bytes = p->bytes};
}

/* Writes the first parcels of a list to the program's. */
static weft_status tell_all(weft_sync *s, const wefti_held_parcel *found, int n,
                            weft_sync_parcel *parcels) {
    const wefti_sized *kind = &wefti_sized_weft_sync_parcel;
    weft_sync_parcel *own;
    WEFT_TRY(wefti_sized_list_in(s->ctx, kind, parcels, n, &own));
    for (int k = 0; k < n; k++) own[k] = tell(&found[k]);
    (void)!wefti_sized_list_out(kind, own, parcels, n, WEFT_OK);
    wefti_free(s->ctx, own);
    return WEFT_OK;
}

weft_status weft_sync_outgoing(weft_sync *s, weft_sync_parcel *parcels, int most,
                               int *n) {
    *n = 0;
    WEFT_TRY(check_held(s));
    if (!s->begun || (s->primed && !s->now.agreed))
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_ARGUMENT,
            "what is sent is asked for %s; expected between weft_sync_agree "
            "and weft_sync_mix, or between weft_sync_begin and the first step",
            s->begun ? "outside of a step" : "before weft_sync_begin");
    wefti_mixer *m = s->rank->mixer;
    wefti_mixer_list_outgoing(m, s->step, !s->primed);
    *n = m->n_outgoing;
    return tell_all(s, m->outgoing, *n < most ? *n : most, parcels);
}

weft_status weft_sync_supply(weft_sync *s, int k, const void *bytes,
                             const int32_t *places) {
    WEFT_TRY(check_held(s));
    wefti_mixer *m = s->rank->mixer;
    if (k < 0 || k >= m->n_outgoing || (!bytes && m->outgoing[k].n_bytes > 0) ||
        (!places && m->outgoing[k].n_places > 0))
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "parcel %d of %d is handed over%s; expected one that "
                             "weft_sync_outgoing lists, with its bytes and places",
                             k, m->n_outgoing, bytes ? "" : " without bytes");
    m->outgoing[k].bytes = bytes;
    m->outgoing[k].places = places;
    return WEFT_OK;
}

weft_status weft_sync_incoming(weft_sync *s, weft_sync_parcel *parcels, int most,
                               int *n) {
    *n = 0;
    WEFT_TRY(check_held(s));
    if (!s->begun || s->average.held || (s->now.opened && !s->now.agreed))
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_ARGUMENT,
            "what has arrived is asked for %s; expected between weft_sync_agree and "
            "weft_sync_mix, or from weft_sync_mix until the next step opens",
            !s->begun         ? "before weft_sync_begin"
            : s->average.held ? "while parameters are averaged"
                              : "after the step was opened");
    const wefti_mixer *m = s->rank->mixer;
    *n = m->n_incoming;
    return tell_all(s, m->incoming, *n < most ? *n : most, parcels);
}
