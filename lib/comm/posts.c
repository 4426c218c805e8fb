/* SPDX-License-Identifier: MIT */
/* One lock guards the lists of rounds and all counts but `unread`, which every receiver lowers
 * without it; who lowers it to 0 takes the lock and wakes the sender. What is posted is written
 * before the last member publishes, and read after that.
 *
 *     n_posted  members that have published; at n_ranks `full` wakes all that receive
 *     unread    a member's pieces that are not released; at 0 `read` wakes it
 *     n_done    members that have published and have none unread; at n_ranks the round is free
 *     unheard   pieces for a member that it has not released; -1 until it receives */
#define _GNU_SOURCE
#include "comm/posts.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "comm/longwait.h"

enum { LISTS = 64 };

typedef struct row {
    wefti_post all;
    wefti_post *each; /* [n_ranks] owned; NULL until a piece was put */
    bool opened, posted, has_each;
    int unheard;
    atomic_int unread;
    double posted_s;
    pthread_cond_t read;
} row;

typedef struct wefti_posting {
    struct wefti_posting
        *next; /* in its list, the oldest first, or among the free ones */
    int64_t tag;
    int channel, first; /* the group */
    int n_ranks, n_posted, n_done;
    pthread_cond_t full;
    row *rows; /* [n_ranks] owned */
} posting;

struct wefti_posts {
    weft_ctx *ctx; /* borrowed */
    wefti_world *world;
    pthread_mutex_t lock;
    posting *open[LISTS], *spare;
};

weft_status wefti_posts_create(weft_ctx *ctx, wefti_world *world, wefti_posts **out) {
    WEFT_TRY(wefti_alloc(ctx, sizeof **out, "posts", out));
    (*out)->ctx = ctx;
    (*out)->world = world;
    pthread_mutex_init(&(*out)->lock, NULL);
    return WEFT_OK;
}

static void free_rounds(weft_ctx *ctx, posting *p) {
    while (p) {
        posting *next = p->next;
        for (int r = 0; r < p->n_ranks; r++) {
            pthread_cond_destroy(&p->rows[r].read);
            wefti_free(ctx, p->rows[r].each);
        }
        pthread_cond_destroy(&p->full);
        WEFTI_FREE(ctx, p->rows, p);
        p = next;
    }
}

void wefti_posts_destroy(wefti_posts *posts) {
    if (!posts) return;
    for (int i = 0; i < LISTS; i++) free_rounds(posts->ctx, posts->open[i]);
    free_rounds(posts->ctx, posts->spare);
    pthread_mutex_destroy(&posts->lock);
    wefti_free(posts->ctx, posts);
}

void wefti_posts_wake(wefti_posts *posts) {
    pthread_mutex_lock(&posts->lock);
    for (int i = 0; i < LISTS; i++)
        for (posting *p = posts->open[i]; p; p = p->next) {
            pthread_cond_broadcast(&p->full);
            for (int r = 0; r < p->n_ranks; r++) pthread_cond_broadcast(&p->rows[r].read);
        }
    pthread_mutex_unlock(&posts->lock);
}

/* --- rounds; lock held --- */

static posting **list_of(wefti_posts *posts, int64_t tag, int first) {
    WEFTI_ASSERT_HELD(&posts->lock);
    return &posts->open[((uint64_t)tag ^ (uint64_t)first) % LISTS];
}

/* The next round of the tag, from *link on. */
static posting **find(const wefti_poster *me, int64_t tag, posting **link) {
    while (*link && ((*link)->tag != tag || (*link)->channel != me->channel ||
                     (*link)->first != me->members.first))
        link = &(*link)->next;
    return link;
}

static posting **find_first(const wefti_poster *me, int64_t tag) {
    return find(me, tag, list_of(me->posts, tag, me->members.first));
}

static weft_status create_round(weft_ctx *ctx, int n_ranks, posting **out) {
    posting *p;
    WEFT_TRY(wefti_alloc(ctx, sizeof *p, "posts", &p));
    WEFTI_TRY_OR(wefti_alloc_n(ctx, n_ranks, sizeof *p->rows, "posts", &p->rows),
                 wefti_free(ctx, p));
    p->n_ranks = n_ranks;
    wefti_cond_init(&p->full);
    for (int r = 0; r < n_ranks; r++) wefti_cond_init(&p->rows[r].read);
    *out = p;
    return WEFT_OK;
}

/* A spare round, or a new one. */
static weft_status take_round(const wefti_poster *me, int64_t tag, posting **out) {
    posting *p, **link = &me->posts->spare;
    while (*link && (*link)->n_ranks != me->members.size) link = &(*link)->next;
    p = *link;
    if (p)
        *link = p->next;
    else
        WEFT_TRY(create_round(me->posts->ctx, me->members.size, &p));
    p->next = NULL;
    p->tag = tag;
    p->channel = me->channel;
    p->first = me->members.first;
    p->n_posted = p->n_done = 0;
    for (int r = 0; r < p->n_ranks; r++) p->rows[r].opened = p->rows[r].posted = false;
    *out = p;
    return WEFT_OK;
}

/* All pieces of one member are released; after the last member's the round is free. */
static void one_done(wefti_posts *posts, posting *p) {
    if (++p->n_done < p->n_ranks) return;
    posting **link = list_of(posts, p->tag, p->first);
    while (*link != p) link = &(*link)->next;
    *link = p->next;
    p->next = posts->spare;
    posts->spare = p;
}

/* --- what members do --- */

/* The oldest round of the tag to which this member has not posted. */
static weft_status open_round(wefti_poster *me, int64_t tag) {
    wefti_posts *posts = me->posts;
    weft_status status = WEFT_OK;
    int rank = me->members.rank;
    if (me->writing && me->writing_tag == tag) return WEFT_OK;
    WEFTI_ASSERT(!me->writing);
    pthread_mutex_lock(&posts->lock);
    posting **link = find_first(me, tag);
    while (*link && (*link)->rows[rank].opened) link = find(me, tag, &(*link)->next);
    if (!*link) status = take_round(me, tag, link);
    if (status == WEFT_OK) {
        row *mine = &(*link)->rows[rank];
        mine->opened = true;
        mine->has_each = mine->posted = false;
        mine->unheard = -1;
        atomic_store(&mine->unread, 0);
        me->writing = *link;
        me->writing_tag = tag;
    }
    pthread_mutex_unlock(&posts->lock);
    return status;
}

weft_status wefti_posts_put(wefti_comm *comm, int64_t tag, int to, wefti_post piece) {
    wefti_poster *me = comm->poster;
    WEFT_TRY(open_round(me, tag));
    row *mine = &me->writing->rows[comm->rank];
    if (!mine->each)
        WEFT_TRY(wefti_alloc_n(me->posts->ctx, comm->size, sizeof piece, "posts",
                               &mine->each));
    for (int r = 0; r < comm->size && !mine->has_each; r++) mine->each[r].n_bytes = -1;
    mine->has_each = true;
    mine->each[to] = piece;
    return WEFT_OK;
}

static wefti_post piece_of(const posting *p, int from, int to) {
    const row *r = &p->rows[from];
    return from == to ? (wefti_post){NULL, -1} : r->has_each ? r->each[to] : r->all;
}

static wefti_link_class link_to(const wefti_poster *me, int peer) {
    return wefti_world_link(&me->posts->world->shape, me->world_rank,
                            wefti_members_at(&me->members, peer));
}

static void count(const wefti_poster *me, int64_t *total, const int64_t *bytes) {
    pthread_mutex_lock(me->lock);
    for (int k = 0; k < WEFTI_LINK_CLASSES; k++) total[k] += bytes[k];
    pthread_mutex_unlock(me->lock);
}

weft_status wefti_posts_publish(wefti_comm *comm, int64_t tag, wefti_post all) {
    wefti_poster *me = comm->poster;
    int64_t bytes[WEFTI_LINK_CLASSES] = {0};
    int n = 0;
    WEFT_TRY(open_round(me, tag));
    posting *p = me->writing;
    p->rows[comm->rank].all = all;
    p->rows[comm->rank].posted_s = wefti_now_s();
    for (int r = 0; r < comm->size; r++) {
        wefti_post piece = piece_of(p, comm->rank, r);
        if (piece.n_bytes < 0) continue;
        bytes[link_to(me, r)] += piece.n_bytes;
        n++;
    }
    count(me, me->traffic->bytes_out, bytes);
    atomic_store(&p->rows[comm->rank].unread, n);
    me->writing = NULL;
    pthread_mutex_lock(&me->posts->lock);
    p->rows[comm->rank].posted = true;
    if (++p->n_posted == p->n_ranks) pthread_cond_broadcast(&p->full);
    if (n == 0) one_done(me->posts, p);
    pthread_mutex_unlock(&me->posts->lock);
    return WEFT_OK;
}

/* Lock held. Waits until all have posted. False: the world is poisoned. */
static bool await_all(const wefti_comm *comm, posting *p) {
    wefti_posts *posts = comm->poster->posts;
    WEFTI_ASSERT_HELD(&posts->lock);
    wefti_longwait wait = {0};
    while (!atomic_load(&posts->world->poisoned) && p->n_posted < p->n_ranks) {
        int missing = 0;
        while (p->rows[missing].posted) missing++;
        int whom = wefti_members_at(&comm->poster->members, missing);
        if (!wefti_longwait_say(comm->ctx, posts->world, &posts->lock,
                                comm->poster->world_rank, whom, &wait))
            wefti_cond_wait(&p->full, &posts->lock, wait.due_s);
    }
    wefti_longwait_end(posts->world, &wait);
    return p->n_posted == p->n_ranks;
}

/* The oldest round of the tag of which this member has something to release, once all have
 * posted. NULL: the world is poisoned. */
static posting *hear(const wefti_comm *comm, int64_t tag) {
    wefti_poster *me = comm->poster;
    wefti_posts *posts = me->posts;
    int rank = me->members.rank;
    if (me->reading && me->reading_tag == tag) return me->reading;
    pthread_mutex_lock(&posts->lock);
    posting *p = *find_first(me, tag);
    while (p && (!p->rows[rank].opened || p->rows[rank].unheard == 0))
        p = *find(me, tag, &p->next);
    WEFTI_ASSERT(p); /* this member has posted */
    bool full = await_all(comm, p);
    pthread_mutex_unlock(&posts->lock);
    if (!full) return NULL;
    row *mine = &p->rows[rank];
    if (mine->unheard < 0) {
        mine->unheard = 0;
        for (int r = 0; r < p->n_ranks; r++)
            mine->unheard += piece_of(p, r, rank).n_bytes >= 0;
    }
    me->reading_tag = tag;
    return me->reading = p;
}

weft_status wefti_posts_receive(wefti_comm *comm, int64_t tag, int from, int64_t n_bytes,
                                const void **view) {
    wefti_poster *me = comm->poster;
    posting *p = hear(comm, tag);
    *view = NULL;
    if (!p) return wefti_world_poisoned_error(comm->ctx, me->posts->world);
    wefti_post piece = piece_of(p, from, comm->rank);
    if (piece.n_bytes != n_bytes)
        return weft_ctx_fail(comm->ctx, WEFT_ERR_WIRE,
                             "a message of %lld bytes from rank %d, expected %lld",
                             (long long)piece.n_bytes,
                             wefti_members_at(&me->members, from), (long long)n_bytes);
    *view = piece.data;
    comm->arrival_s = p->rows[from].posted_s;
    me->bytes_in[link_to(me, from)] += n_bytes;
    return WEFT_OK;
}

void wefti_posts_release(wefti_comm *comm, int64_t tag, int from) {
    wefti_poster *me = comm->poster;
    posting *p = hear(comm, tag);
    if (!p) return;
    if (--p->rows[comm->rank].unheard == 0) {
        me->reading = NULL;
        count(me, me->traffic->bytes_in, me->bytes_in);
        memset(me->bytes_in, 0, sizeof me->bytes_in);
    }
    if (atomic_fetch_sub(&p->rows[from].unread, 1) > 1) return;
    pthread_mutex_lock(&me->posts->lock);
    pthread_cond_broadcast(&p->rows[from].read);
    one_done(me->posts, p);
    pthread_mutex_unlock(&me->posts->lock);
}

weft_status wefti_posts_await(const wefti_comm *comm, int64_t tag) {
    const wefti_poster *me = comm->poster;
    wefti_posts *posts = me->posts;
    posting *p;
    wefti_longwait wait = {0};
    pthread_mutex_lock(&posts->lock);
    for (;;) {
        p = *find_first(me, tag);
        while (p && (!p->rows[comm->rank].opened ||
                     atomic_load(&p->rows[comm->rank].unread) == 0))
            p = *find(me, tag, &p->next);
        if (!p || atomic_load(&posts->world->poisoned)) break;
        if (!wefti_longwait_say(comm->ctx, posts->world, &posts->lock, me->world_rank, -1,
                                &wait))
            wefti_cond_wait(&p->rows[comm->rank].read, &posts->lock, wait.due_s);
    }
    wefti_longwait_end(posts->world, &wait);
    pthread_mutex_unlock(&posts->lock);
    return p ? wefti_world_poisoned_error(comm->ctx, posts->world) : WEFT_OK;
}
