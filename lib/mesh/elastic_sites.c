/* SPDX-License-Identifier: MIT */
/* Sites that lose nodes. Nodes of a site exchange first, sites after them, so what a site
 * sends to another site is known to each of its ranks (of one shard). The law:
 *
 *     1  a site sends a bucket when all its remaining ranks hold the bucket's exchange inside the
 *        site (wefti_comm_agree). So all of them send the same, to the last bit, whichever of
 *        them is lost later, and whichever of the lost one's messages count.
 *     2  each rank keeps what it has sent (wefti_site_message) until all have finished the step,
 *        and the ranks of both sites then: the next world may have begun here while a rank of
 *        another site still waits in the last step of the world before.
 *     3  a rank receives from one rank of each other site. If that rank is lost, the next one of
 *        its site sends the same again, and so a message that comes twice is dropped. After its
 *        farewell a rank sends nothing more: it left when all had done the last step.
 *     4  a site whose ranks are all lost is treated like a lost rank of a run without sites: its
 *        message counts if any rank has it, and that rank forwards it. What the site sent to the
 *        owner of a range is the same for all ranks of the owner's site, so it can be asked for,
 *        too (is_alike).
 *     5  rule 4 holds if each site is one copy of the model, or if one site is left. With more
 *        sites, a rank that dies may have sent to another site a result of a message that no
 *        other rank of its own site has; and no view decides about messages of gossip
 *        (elastic_pieces.c). There, losing a whole site of several copies ends the run.
 *
 * In steps without losses the law costs, by rule 1, an empty message per bucket between the
 * ranks of a site, and, by rule 2, memory for what a rank sends to other sites in
 * unfinished steps. */
#define _GNU_SOURCE
#include "mesh/elastic.h"

#include <string.h>

#include "base/lock.h"
#include "base/memory.h"

enum {
    BASE_CHANNELS = (1 << WEFTI_VIEW_SHIFT) - 1,
    MORE_STEPS = 2 /* a mixer's message may be needed in the step after it */
};

bool wefti_elastic_is_whole(const wefti_elastic *e, int rank) {
    int first = rank / e->setup.shards * e->setup.shards;
    if (first + e->setup.shards > e->size) return false; /* places that are never given */
    for (int r = first; r < first + e->setup.shards; r++)
        if (e->at[r].departed) return false;
    return true;
}

int wefti_elastic_speaker(const wefti_elastic *e, const wefti_members *m, int peer,
                          int k) {
    if (k >= wefti_members_replicas(m, peer)) return -1;
    return e->world.ranks[wefti_members_speaker(m, peer, m->place, k)];
}

bool wefti_elastic_lost_site(const wefti_elastic *e, const wefti_members *m, int peer) {
    for (int k = 0, r; (r = wefti_elastic_speaker(e, m, peer, k)) >= 0; k++)
        if (!e->at[r].departed) return false;
    return true;
}

/* Whether the rank at `place` of another site receives from this rank. */
static bool hears_me(const wefti_elastic *e, const wefti_members *m, int place) {
    int n = wefti_members_replicas(m, m->rank);
    int me = wefti_members_speaker(m, m->rank, m->place, 0);
    for (int k = 0; k < n; k++) {
        int r = wefti_members_speaker(m, m->rank, place, k);
        if (r == me) return true;
        if (!e->at[e->world.ranks[r]].departed) return false;
    }
    return false;
}

int wefti_elastic_hearer(const wefti_elastic *e, const wefti_members *m, int peer,
                         int k) {
    for (int place = 0; place < wefti_members_replicas(m, peer); place++)
        if (hears_me(e, m, place) && k-- == 0)
            return e->world.ranks[wefti_members_speaker(m, peer, place, 0)];
    return -1;
}

/* --- kept messages --- */

static weft_status make_room(weft_ctx *ctx, wefti_site_message *sent, int64_t n_bytes) {
    if (sent->capacity >= n_bytes) return WEFT_OK;
    wefti_free(ctx, sent->data);
    sent->data = NULL;
    sent->capacity = 0;
    WEFT_TRY(wefti_alloc(ctx, (size_t)n_bytes, "a site's message", &sent->data));
    sent->capacity = n_bytes;
    return WEFT_OK;
}

/* Lists the mesh ranks of the two sites, this rank's site first. */
static weft_status list_ranks(weft_ctx *ctx, const wefti_elastic *e,
                              const wefti_members *m, wefti_site_message *sent) {
    int mine = wefti_members_replicas(m, m->rank);
    int theirs = wefti_members_replicas(m, sent->peer);
    if (sent->max_ranks < mine + theirs) {
        wefti_free(ctx, sent->ranks);
        sent->ranks = NULL;
        sent->max_ranks = 0;
        WEFT_TRY(wefti_alloc_n(ctx, mine + theirs, sizeof *sent->ranks,
                               "a site's message", &sent->ranks));
        sent->max_ranks = mine + theirs;
    }
    for (int i = 0; i < mine + theirs; i++) {
        int site = i < mine ? m->rank : sent->peer;
        int place = i < mine ? i : i - mine;
        sent->ranks[i] = e->world.ranks[wefti_members_speaker(m, site, place, 0)];
    }
    sent->n_mine = mine;
    sent->n_theirs = theirs;
    return WEFT_OK;
}

/* An unused entry, if possible one with enough capacity. NULL: no memory. */
static wefti_site_message *take_spare(weft_ctx *ctx, wefti_elastic *e, int64_t n_bytes) {
    wefti_site_message **link = &e->pieces.spare_sent_between, *sent;
    while (*link && (*link)->capacity < n_bytes) link = &(*link)->next;
    sent = *link;
    if (sent)
        *link = sent->next;
    else if (wefti_alloc(ctx, sizeof *sent, "a site's message", &sent) != WEFT_OK)
        return NULL;
    return sent;
}

weft_status wefti_elastic_keep_sent(weft_mesh *mesh, const wefti_members *m,
                                    const wefti_site_message *what, const void *data) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    wefti_site_message *sent = take_spare(mesh->ctx, e, what->n_bytes);
    if (!sent)
        return weft_ctx_fail(mesh->ctx, WEFT_ERR_MEMORY,
                             "no memory for a site's message");
    sent->channel = what->channel;
    sent->peer = what->peer;
    sent->tag = what->tag;
    sent->step = what->tag >> 24;
    sent->n_bytes = what->n_bytes;
    weft_status status = make_room(mesh->ctx, sent, what->n_bytes);
    if (status == WEFT_OK) status = list_ranks(mesh->ctx, e, m, sent);
    wefti_site_message **list = status == WEFT_OK ? &e->pieces.sent_between
                                                  : &e->pieces.spare_sent_between;
    if (status == WEFT_OK && what->n_bytes > 0)
        memcpy(sent->data, data, (size_t)what->n_bytes);
    sent->next = *list;
    *list = sent;
    return status;
}

void wefti_elastic_forget_sent(weft_mesh *mesh, int64_t stable) {
    wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    for (wefti_site_message **link = &e->pieces.sent_between; *link;) {
        wefti_site_message *sent = *link;
        if (sent->step + e->setup.delay + MORE_STEPS > stable) {
            link = &sent->next;
            continue;
        }
        *link = sent->next;
        sent->next = e->pieces.spare_sent_between;
        e->pieces.spare_sent_between = sent;
    }
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_elastic_free_sent(weft_ctx *ctx, wefti_elastic *e) {
    wefti_site_message *lists[] = {e->pieces.sent_between, e->pieces.spare_sent_between};
    for (int i = 0; i < 2; i++)
        while (lists[i]) {
            wefti_site_message *next = lists[i]->next;
            WEFTI_FREE(ctx, lists[i]->data, lists[i]->ranks, lists[i]);
            lists[i] = next;
        }
}

/* The rank of this site from which `place` of the other site receives, or received `before` the
 * last view; -1: all of them are gone. */
static int heard_at(const wefti_elastic *e, const wefti_site_message *sent, int place,
                    bool before) {
    for (int k = 0; k < sent->n_mine; k++) {
        int r = sent->ranks[(place + k) % sent->n_mine];
        if (!(before ? e->at[r].was_departed : e->at[r].departed)) return r;
    }
    return -1;
}

/* Sends to those ranks of the other site that received from another rank before the view,
 * and receive from this one now. */
static void say_to_new(weft_mesh *mesh, const wefti_site_message *sent) {
    const wefti_elastic *e = mesh->elastic;
    for (int place = 0; place < sent->n_theirs; place++) {
        int r = sent->ranks[sent->n_mine + place];
        bool mine = heard_at(e, sent, place, false) == mesh->rank;
        bool was_mine = heard_at(e, sent, place, true) == mesh->rank;
        if (mine && !was_mine && !e->at[r].departed)
            wefti_elastic_submit(mesh, r, sent->channel, sent->tag, sent->data,
                                 sent->n_bytes);
    }
}

/* Whether the last view has removed a rank of this rank's site. */
static bool lost_mate(const weft_mesh *mesh) {
    const wefti_elastic *e = mesh->elastic;
    int mine = wefti_elastic_site_of(&e->setup, mesh->rank);
    for (int r = 0; r < e->size; r++)
        if (e->at[r].departed && !e->at[r].was_departed &&
            wefti_elastic_site_of(&e->setup, r) == mine)
            return true;
    return false;
}

void wefti_elastic_say_again(weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    if (e->setup.sites < 2 || mesh->end.said_bye || !lost_mate(mesh)) return;
    for (const wefti_site_message *sent = e->pieces.sent_between; sent; sent = sent->next)
        say_to_new(mesh, sent);
}

bool wefti_elastic_has_mates(const wefti_elastic *e, int channel) {
    bool between = (channel & BASE_CHANNELS) == WEFTI_GROUP_SITES * 8;
    return between && e->setup.sites > 1 && e->setup.per_site > e->setup.shards;
}

static bool holds(const weft_mesh *mesh, const wefti_arrival *list,
                  const wefti_arrival *arrival) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic_setup *s = &mesh->elastic->setup;
    int site = wefti_elastic_site_of(s, arrival->sender);
    for (const wefti_arrival *a = list; a; a = a->next)
        if (a->tag == arrival->tag && a->channel == arrival->channel &&
            wefti_elastic_site_of(s, a->sender) == site)
            return true;
    return false;
}

bool wefti_elastic_heard(weft_mesh *mesh, const wefti_arrival *arrival) {
    const wefti_elastic *e = mesh->elastic;
    if (!wefti_elastic_has_mates(e, arrival->channel) || arrival->tag < 0) return false;
    pthread_mutex_lock(&mesh->lock);
    bool heard = holds(mesh, mesh->incoming.posted, arrival) ||
                 holds(mesh, e->pieces.kept, arrival);
    pthread_mutex_unlock(&mesh->lock);
    return heard;
}

bool wefti_elastic_is_alike(const wefti_elastic *e, int channel, int64_t tag) {
    wefti_piece_place place;
    return wefti_elastic_has_mates(e, channel) && wefti_piece_of(e, channel, tag, &place);
}

int wefti_elastic_lost_whole(const wefti_elastic *e) {
    int lost = -1, n_left = 0;
    if (e->setup.sites < 2 || e->setup.per_site <= e->setup.shards) return -1;
    for (int site = 0; site < e->setup.sites; site++) {
        int n = 0, left = 0;
        for (int i = 0; i < e->world.n_ranks; i++) {
            int r = e->world.ranks[i];
            if (wefti_elastic_site_of(&e->setup, r) != site) continue;
            n++;
            left += wefti_elastic_is_whole(e, r);
        }
        if (n > 0 && left == 0 && lost < 0) lost = site;
        n_left += left > 0;
    }
    return e->setup.meets || n_left > 1 ? lost : -1;
}
