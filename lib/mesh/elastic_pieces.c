/* SPDX-License-Identifier: MIT */
/* Messages of steps whose senders may be lost. Received messages of a step are kept until
 * all members have finished the step; a part that was sent stays in its memory until this
 * rank has finished the step. So for a lost rank
 *
 *     a message that some member has          is forwarded by it to ranks that ask
 *     an answer that nobody has               is made again by all, from parts that all get
 *     anything else                           counts nowhere */
#define _GNU_SOURCE
#include "mesh/elastic.h"

#include <string.h>

#include "base/lock.h"
#include "base/memory.h"

enum {
    BASE_CHANNELS = (1 << WEFTI_VIEW_SHIFT) - 1,
    BUCKETS = (1 << 20) - 1,
    STAGES = 15,
    MIXER_STAGES = 8 /* stages from here on are the mixer's */
};

static int base_of(int channel) { return channel & BASE_CHANNELS; }

bool wefti_piece_of(const wefti_elastic *e, int channel, int64_t tag,
                    wefti_piece_place *out) {
    int units = e->setup.units, base = base_of(channel);
    if (channel >= WEFTI_CHANNEL_PART || tag < 0) return false;
    *out = (wefti_piece_place){.step = tag, .sent = tag, .part = 2 * units};
    if (base == WEFTI_GROUP_WORLD * 8) return true; /* the ranks' status */
    if (base != WEFTI_GROUP_REPLICA * 8 && base != WEFTI_GROUP_SITES * 8) return false;
    int bucket = (int)(tag >> 4 & BUCKETS), stage = (int)(tag & STAGES);
    bool mixes = stage >= MIXER_STAGES;
    if (mixes && e->setup.meets) return false; /* for its receiver alone */
    out->sent = tag >> 24;
    out->step = out->sent + (mixes ? e->setup.delay : 0);
    out->round = stage % 2;
    out->part = bucket + (base == WEFTI_GROUP_SITES * 8 ? units : 0);
    return bucket < units;
}

/* Whether a message belongs to a mixer's exchange that ends with `step` or later. The tag
 * contains the step that mixes the message with gossip, and the step that began the
 * exchange with other mixers. For a stream with a deadline it contains the message's
 * number instead, which is never above its step. */
static bool is_moot(const wefti_elastic *e, const wefti_envelope *envelope,
                    int64_t step) {
    int base = base_of(envelope->channel);
    bool replicas = base == WEFTI_GROUP_REPLICA * 8 || base == WEFTI_GROUP_SITES * 8;
    if (envelope->channel >= WEFTI_CHANNEL_PART || envelope->tag < 0 || !replicas ||
        (envelope->tag & STAGES) < MIXER_STAGES)
        return false;
    return (envelope->tag >> 24) + (e->setup.meets ? 0 : e->setup.delay) >= step;
}

void wefti_elastic_drop_moot(weft_mesh *mesh, int64_t step) {
    WEFTI_ASSERT_PROGRESS(mesh);
    for (int r = 0; r < mesh->places.n_slots; r++) {
        wefti_parcels old = mesh->peers[r].bulk;
        mesh->peers[r].bulk = (wefti_parcels){NULL, NULL};
        while (old.first) {
            wefti_parcel *parcel = wefti_parcels_pop(&old);
            bool moot = is_moot(mesh->elastic, &parcel->envelope, step);
            if (moot && !parcel->opened) /* otherwise its receiver expects the rest */
                wefti_outbox_drop(mesh, parcel);
            else
                wefti_parcels_push(&mesh->peers[r].bulk, parcel);
        }
    }
}

static wefti_arrival *find_in(wefti_arrival *list, int sender, int base, int64_t tag) {
    for (wefti_arrival *a = list; a; a = a->next)
        if (a->tag == tag && a->sender == sender && a->channel < WEFTI_CHANNEL_PART &&
            base_of(a->channel) == base)
            return a;
    return NULL;
}

wefti_arrival *wefti_elastic_find(weft_mesh *mesh, int sender, int channel, int64_t tag) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_arrival *a = find_in(mesh->incoming.posted, sender, base_of(channel), tag);
    return a ? a : find_in(mesh->elastic->pieces.kept, sender, base_of(channel), tag);
}

int wefti_elastic_holder(const wefti_elastic *e, int sender, int channel, int64_t tag) {
    wefti_piece_place p;
    int d = e->at[sender].cut_of;
    if (d < 0 || !wefti_piece_of(e, channel, tag, &p)) return -1;
    int64_t s = p.step - e->view.cut_low - 1;
    if (s < 0 || s >= e->view.cut_steps) return -1;
    WEFTI_ASSERT(d < wefti_view_max_departed(&e->limits) && p.part < e->limits.parts);
    int64_t row = ((int64_t)d * e->limits.window + s) * e->limits.rounds + p.round;
    return e->view.holders[row * e->limits.parts + p.part];
}

bool wefti_elastic_keep(weft_mesh *mesh, wefti_arrival *arrival) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    wefti_piece_place p;
    if (!e || arrival->mine || !wefti_piece_of(e, arrival->channel, arrival->tag, &p) ||
        p.step <= e->pieces.stable)
        return false;
    arrival->next = e->pieces.kept;
    e->pieces.kept = arrival;
    return true;
}

void wefti_elastic_forget(weft_mesh *mesh, int64_t stable) {
    wefti_elastic *e = mesh->elastic;
    wefti_piece_place p;
    pthread_mutex_lock(&mesh->lock);
    e->pieces.stable = stable;
    for (wefti_arrival **link = &e->pieces.kept; *link;) {
        wefti_arrival *arrival = *link;
        if (wefti_piece_of(e, arrival->channel, arrival->tag, &p) && p.step > stable) {
            link = &arrival->next;
            continue;
        }
        *link = arrival->next;
        wefti_incoming_recycle(mesh, arrival);
    }
    pthread_mutex_unlock(&mesh->lock);
}

/* --- messages outside of communicators --- */

/* Lock held. The bytes are copied. */
static void submit(weft_mesh *mesh, int peer, const wefti_envelope *envelope,
                   const void *data) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_parcel *parcel = mesh->outgoing.spare;
    void *own = NULL;
    if (envelope->kind == WEFTI_ENVELOPE_LONG) {
        if (wefti_alloc(mesh->ctx, (size_t)envelope->n_bytes, "a message", &own) !=
            WEFT_OK)
            return;
        memcpy(own, data, (size_t)envelope->n_bytes);
    }
    if (parcel) {
        mesh->outgoing.spare = parcel->next;
    } else {
        if (wefti_alloc(mesh->ctx, sizeof *parcel, "a message", &parcel) != WEFT_OK) {
            wefti_free(mesh->ctx, own);
            return;
        }
        parcel->next_all = mesh->outgoing.all;
        mesh->outgoing.all = parcel;
    }
    wefti_outbox_fill(parcel, peer, envelope, own ? own : data);
    parcel->own = own;
    wefti_outbox_push(mesh, parcel);
}

static wefti_envelope envelope_of(int channel, int64_t tag, int64_t n_bytes) {
    bool is_long = n_bytes > WEFTI_SHORT_BYTES;
    return (wefti_envelope){is_long ? WEFTI_ENVELOPE_LONG : WEFTI_ENVELOPE_SHORT, channel,
                            tag, n_bytes};
}

void wefti_elastic_submit(weft_mesh *mesh, int peer, int channel, int64_t tag,
                          const void *data, int64_t n_bytes) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_envelope envelope = envelope_of(channel, tag, n_bytes);
    submit(mesh, peer, &envelope, data);
}

void wefti_elastic_post(weft_mesh *mesh, int peer, int channel, int64_t tag,
                        const void *data, int64_t n_bytes) {
    pthread_mutex_lock(&mesh->lock);
    wefti_elastic_submit(mesh, peer, channel, tag, data, n_bytes);
    pthread_mutex_unlock(&mesh->lock);
}

/* Whether a rank is in the group of a channel. A group inside a site has ranks of this site
 * only. */
static bool is_of_group(const weft_mesh *mesh, int channel, int r) {
    const wefti_elastic_setup *s = &mesh->elastic->setup;
    if (r % s->shards != mesh->rank % s->shards) return false;
    if (base_of(channel) != WEFTI_GROUP_REPLICA * 8) return true;
    return wefti_elastic_site_of(s, r) == wefti_elastic_site_of(s, mesh->rank);
}

void wefti_elastic_pass_on(weft_mesh *mesh, wefti_sent_part *part) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    wefti_envelope envelope = envelope_of(WEFTI_CHANNEL_PART + part->peer, part->tag,
                                          part->n_bytes);
    int64_t answer = part->tag + 1; /* the next stage */
    if (part->passed_on ||
        wefti_elastic_holder(e, part->peer, part->channel, answer) >= 0)
        return;
    part->passed_on = true;
    for (int i = 0; i < e->world.n_ranks; i++) {
        int r = e->world.ranks[i];
        if (r != mesh->rank && is_of_group(mesh, part->channel, r) && !e->at[r].departed)
            submit(mesh, r, &envelope, part->data);
    }
}
