/* SPDX-License-Identifier: MIT */
/* Messages that did not count: each rank notes the messages that it did without because
 * their senders were lost. In a run with failures only this list is left to chance; with it
 * and the list of views a run can be replayed to the same bits (train/replay.c).
 *
 *     message for all, or for me        not here and with nobody   ->  noted by each receiver
 *     an owner's answer                 made again from parts      ->  of these parts, those
 *                                                                     that nobody has sent
 *
 * Before its next message that may count, each reports to the others what it did without: it may
 * be lost itself, and that has become a part of what they count. Who passes on a message of a lost
 * rank passes on what that rank had reported.
 *
 * An answer that was begun under one view and discarded for the next one leaves no entries:
 * they become final only when the answer is put in place. */
#define _GNU_SOURCE
#include "mesh/elastic.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/memory.h"

enum { BASE_CHANNELS = (1 << WEFTI_VIEW_SHIFT) - 1, STAGES = 15 };

static bool is_status(int base) { return base == WEFTI_GROUP_WORLD * 8; }

bool wefti_elastic_is_answer(int channel, int64_t tag) {
    return !is_status(channel & BASE_CHANNELS) && (tag & STAGES) % 2 == 1;
}

/* Lock held. Room for one more item of a list; false: there is none. */
static bool has_room(weft_mesh *mesh, void *list, int64_t *room, int64_t n, size_t item) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    e->missed.forgot |= n >= WEFTI_MOST_NEWS ||
                        wefti_reserve(mesh->ctx, list, room, n, 1, item,
                                      "messages that do not count") != WEFT_OK;
    return !e->missed.forgot;
}

static void pass(weft_mesh *mesh, const wefti_news *news) {
    wefti_elastic *e = mesh->elastic;
    if (has_room(mesh, &e->missed.news, &e->missed.news_room, e->missed.n_news,
                 sizeof *news))
        e->missed.news[e->missed.n_news++] = *news;
}

static void add_news(weft_mesh *mesh, const wefti_missed *missed) {
    wefti_elastic *e = mesh->elastic;
    const wefti_news news = {*missed, e->missed.logged, mesh->rank,
                             e->at[mesh->rank].id.incarnation};
    pass(mesh, &news);
}

int64_t wefti_elastic_news(const wefti_elastic *e, int channel) {
    bool counts = channel < WEFTI_CHANNEL_MISSED || channel == WEFTI_CHANNEL_RELAY;
    return e && counts ? e->missed.first + e->missed.n_news : 0;
}

void wefti_elastic_pass_news(weft_mesh *mesh, int sender) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    for (int64_t i = 0; i < e->missed.n_heard; i++)
        if (e->missed.heard[i].rank == sender &&
            e->missed.heard[i].name == e->at[sender].id.incarnation)
            pass(mesh, &e->missed.heard[i]);
}

int64_t wefti_elastic_copy_news(weft_mesh *mesh, int64_t from, int64_t until, void *out,
                                int64_t *n_bytes) {
    enum { MOST = WEFTI_SHORT_BYTES / sizeof(wefti_news) };
    const wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    if (from < e->missed.first)
        from = e->missed.first; /* the others know what was forgotten */
    int64_t n = until - from;
    if (n > MOST) n = MOST;
    if (n < 0) n = 0;
    WEFTI_ASSERT(from + n <= e->missed.first + e->missed.n_news);
    *n_bytes = n * (int64_t)sizeof *e->missed.news;
    if (n > 0) memcpy(out, e->missed.news + (from - e->missed.first), (size_t)*n_bytes);
    pthread_mutex_unlock(&mesh->lock);
    return from + n;
}

/* What belongs to a line of views that is written is not needed any more; who is ahead has begun
 * the first step of a world in which this rank has not begun one yet. */
void wefti_elastic_hear_missed(weft_mesh *mesh, const wefti_arrival *arrival) {
    wefti_elastic *e = mesh->elastic;
    wefti_news news;
    pthread_mutex_lock(&mesh->lock);
    for (int64_t at = 0; at + (int64_t)sizeof news <= arrival->n_bytes;
         at += (int64_t)sizeof news) {
        memcpy(&news, (const char *)arrival->data + at, sizeof news);
        bool fits = news.rank >= 0 && news.rank < e->size && news.rank != mesh->rank &&
                    news.missed.settled == 1 && news.missed.tag >= 0;
        if (fits && news.logged >= e->missed.logged &&
            has_room(mesh, &e->missed.heard, &e->missed.heard_room, e->missed.n_heard,
                     sizeof news))
            e->missed.heard[e->missed.n_heard++] = news;
    }
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_elastic_miss(weft_mesh *mesh, const wefti_missed *missed) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    if (e->setup.policy.own_loop) return; /* it is not played again */
    if (!has_room(mesh, &e->missed.list, &e->missed.room, e->missed.n, sizeof *missed))
        return;
    wefti_missed *last = &e->missed.list[e->missed.n++];
    *last = *missed;
    last->channel &= BASE_CHANNELS;
    if (last->settled) add_news(mesh, last);
}

void wefti_elastic_settle(weft_mesh *mesh, const wefti_missed *answer, bool stands) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    int channel = answer->channel & BASE_CHANNELS, n = 0;
    for (int i = 0; i < e->missed.n; i++) {
        wefti_missed *m = &e->missed.list[i];
        bool about = !m->settled && m->tag == answer->tag && m->channel == channel &&
                     m->receiver == answer->receiver;
        if (about && !stands) continue;
        if (about) {
            m->settled = 1;
            add_news(mesh, m);
        }
        e->missed.list[n++] = *m;
    }
    e->missed.n = n;
}

/* Lock held. Whether this was reported by a rank that is gone, and belongs to the line of
 * the world that begins. Those that are there bring it along themselves. */
static bool is_of_gone(const wefti_elastic *e, const wefti_news *news) {
    const wefti_elastic_place *at = &e->at[news->rank];
    bool there = !at->departed && at->id.incarnation == news->name;
    return news->logged == e->missed.logged && !there;
}

weft_status wefti_elastic_missed(weft_ctx *ctx, weft_mesh *mesh, wefti_missed **out,
                                 int *n) {
    const wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    *n = (int)e->missed.n;
    weft_status status = wefti_alloc_n(ctx, e->missed.n + e->missed.n_heard, sizeof **out,
                                       "messages that do not count", out);
    if (status == WEFT_OK && *n > 0)
        memcpy(*out, e->missed.list, (size_t)*n * sizeof **out);
    for (int64_t i = 0; i < e->missed.n_heard && status == WEFT_OK; i++)
        if (is_of_gone(e, &e->missed.heard[i]))
            (*out)[(*n)++] = e->missed.heard[i].missed;
    if (e->missed.forgot) *n = -1;
    pthread_mutex_unlock(&mesh->lock);
    return status;
}

void wefti_elastic_forget_missed(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    int64_t n = 0;
    pthread_mutex_lock(&mesh->lock);
    WEFTI_ASSERT(e->world.entered >= e->missed.logged);
    e->missed.n = 0;
    e->missed.forgot = false;
    e->missed.logged = e->world.entered;
    e->missed.first += e->missed.n_news;
    e->missed.n_news = 0;
    for (int64_t i = 0; i < e->missed.n_heard; i++)
        if (e->missed.heard[i].logged >= e->missed.logged)
            e->missed.heard[n++] = e->missed.heard[i];
    e->missed.n_heard = n;
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_elastic_who(const weft_mesh *mesh, int rank, int *place, uint64_t *name) {
    const wefti_elastic *e = mesh->elastic;
    WEFTI_ASSERT(!e || (rank >= 0 && rank < e->world.n_ranks));
    *place = e ? e->world.ranks[rank] : rank;
    *name = e ? e->at[*place].was : 0;
}

void wefti_elastic_why(weft_mesh *mesh, int place, char *out, size_t size) {
    const wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    const char *reason = e->at[place].reason;
    snprintf(out, size, "%s",
             reason[0]            ? reason
             : e->at[place].ended ? "its connection ended"
                                  : "it was not heard any more");
    pthread_mutex_unlock(&mesh->lock);
}
