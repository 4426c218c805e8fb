/* SPDX-License-Identifier: MIT */
/* The ranks' side of a mesh that continues after losses (elastic.h): where a step begins
 * and ends, and how a rank gets from one world into the next.
 *
 *     begin(step) ... finish(step)   begin(step) ... finish(step)   begin -> changed -> enter
 *
 * The progress thread may install a view at any time. The view's world begins with the
 * view's first step, which is after every step that any member has begun. The ranks of a
 * world are the members of the view in its order: those that have been members longest come
 * first, so the rank that writes the run folder has never just joined. With sites, ranks
 * are listed in this order site by site, and sites in the order of their first members. */
#define _GNU_SOURCE
#include "mesh/elastic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"

/* How long a joiner waits for the next one of the processes that share its copy of the
 * model. */
static const double unit_patience_s = 60;

/* How long a process waits for what it has asked the members, which answer at once. */
static const double notice_s = 10;

/* Within this time after a failure the machine knows what has become of this process. */
static const double verdict_s = 2;

/* How long it then waits for the other ranks of its copy, one of which may stand still. */
static const double mates_s = 10;

weft_status wefti_elastic_begin(weft_ctx *ctx, weft_mesh *mesh, int64_t step,
                                bool *changed) {
    wefti_elastic *e = mesh ? mesh->elastic : NULL;
    *changed = false;
    if (!e) return WEFT_OK;
    pthread_mutex_lock(&mesh->lock);
    wefti_wait wait = {0};
    while ((e->view.frozen || e->lender >= 0) && !atomic_load(&mesh->world.poisoned))
        wefti_mesh_await(ctx, mesh, &wait, -1, (double)INFINITY);
    wefti_mesh_awaited(mesh, &wait);
    *changed = e->view.number > e->world.entered && e->view.first_step <= step;
    if (!*changed) wefti_elastic_reach_begin(e, step);
    e->own.in_step = !*changed;
    e->world.begun_s = wefti_now_s();
    pthread_mutex_unlock(&mesh->lock);
    if (!atomic_load(&mesh->world.poisoned)) return WEFT_OK;
    return wefti_world_poisoned_error(ctx, &mesh->world);
}

/* Lock held. Parts of finished exchanges, all answers to which are here. */
static void forget_parts(weft_mesh *mesh, int64_t step) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    for (wefti_sent_part **link = &e->pieces.parts; *link;) {
        wefti_sent_part *part = *link;
        wefti_piece_place place;
        if (wefti_piece_of(e, part->channel, part->tag, &place) && place.step > step) {
            link = &part->next;
            continue;
        }
        *link = part->next;
        part->next = e->pieces.spare_parts;
        e->pieces.spare_parts = part;
    }
}

/* Lock held. How many ranks of this rank's copy of the model are here, itself included. */
static int count_unit(const weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    int S = e->setup.shards, first = mesh->rank / S * S, n = 1;
    for (int r = first; r < first + S && r < e->size; r++)
        n += r != mesh->rank && e->at[r].fresh;
    return n;
}

/* Lock held. Whether any rank outside its own copy is still connected to this joiner. */
static bool hears_anybody(const weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    for (int r = 0; r < e->size; r++)
        if (e->at[r].fresh && r / e->setup.shards != mesh->rank / e->setup.shards)
            return true;
    return false;
}

static weft_status refuse_nobody(weft_ctx *ctx, const weft_mesh *mesh, const char *why) {
    return weft_ctx_fail(ctx, WEFT_ERR_PEER, "rank %d (host %s) was not taken in: %s",
                         mesh->rank, weft_mesh_host_of(mesh, mesh->rank), why);
}

const void *wefti_elastic_await_notice(weft_mesh *mesh, int64_t *n) {
    double until_s = wefti_now_s() + notice_s;
    *n = 0;
    if (!mesh) return NULL;
    pthread_mutex_lock(&mesh->lock);
    while (mesh->notice.asks && !mesh->notice.data &&
           !atomic_load(&mesh->world.poisoned) && wefti_now_s() < until_s)
        wefti_mesh_wait(mesh, until_s);
    *n = mesh->notice.n_bytes;
    const void *notice = mesh->notice.data;
    pthread_mutex_unlock(&mesh->lock);
    return notice;
}

static weft_status refuse_other(weft_ctx *ctx, const weft_mesh *mesh) {
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "rank %d (host %s) was refused, for its configuration, or its "
                         "text or tensors, are not "
                         "the run's",
                         mesh->rank, weft_mesh_host_of(mesh, mesh->rank));
}

/* Waits for the view that contains this rank. If a copy of the model is spread over several
 * ranks, they all enter together, so this also waits for the other ranks of the copy. A member that
 * has lost this one gives the others places elsewhere: then it calls again. */
weft_status wefti_elastic_await_entry(weft_ctx *ctx, weft_mesh *mesh, int64_t *step) {
    wefti_elastic *e = mesh->elastic;
    double until_s = wefti_now_s() + unit_patience_s;
    bool apart = false;
    wefti_wait wait = {0};
    int n = 0;
    pthread_mutex_lock(&mesh->lock);
    while (e->view.number == 0 && !e->fate.refused && hears_anybody(mesh) &&
           !atomic_load(&mesh->world.poisoned)) {
        int before = n;
        n = count_unit(mesh);
        if (n > before) until_s = wefti_now_s() + unit_patience_s;
        bool all = n == e->setup.shards;
        apart = !all && e->fate.lost_member;
        if (apart || (!all && wefti_now_s() >= until_s)) break;
        wefti_mesh_await(ctx, mesh, &wait, -1, all ? (double)INFINITY : until_s);
    }
    wefti_mesh_awaited(mesh, &wait);
    bool entered = e->view.number > 0, alone = !entered && !hears_anybody(mesh);
    bool refused = e->fate.refused;
    apart = apart && !entered;
    e->fate.replaced = e->fate.replaced || apart ||
                       (alone && !e->fate.may_be_over); /* all died: it calls again */
    *step = e->view.first_step;
    pthread_mutex_unlock(&mesh->lock);
    if (atomic_load(&mesh->world.poisoned))
        return wefti_world_poisoned_error(ctx, &mesh->world);
    if (entered) return WEFT_OK;
    if (refused) return refuse_other(ctx, mesh);
    if (alone)
        return refuse_nobody(ctx, mesh,
                             "the run has ended, or nobody in it hears it any more");
    if (apart)
        return refuse_nobody(ctx, mesh,
                             "a member has lost it before the other processes of its "
                             "copy of the model had come; it may join again");
    return weft_ctx_fail(
        ctx, WEFT_ERR_PEER,
        "%d process%s of host %s came into the run, expected %d, which share "
        "one copy of the model: start that many on this machine",
        n, n > 1 ? "es" : "", weft_mesh_host_of(mesh, mesh->rank), e->setup.shards);
}

void wefti_elastic_finish(weft_mesh *mesh, int64_t step, int64_t counted) {
    wefti_elastic *e = mesh ? mesh->elastic : NULL;
    if (!e) return;
    pthread_mutex_lock(&mesh->lock);
    wefti_elastic_reach(e, (wefti_member_steps){-1, step, counted});
    if (e->own.in_step) wefti_elastic_learn_step(e, wefti_now_s() - e->world.begun_s);
    e->own.in_step = false;
    forget_parts(mesh, step);
    pthread_mutex_unlock(&mesh->lock);
}

/* Returns when the progress thread has dropped the old messages: messages of the next world
 * for the same steps must not be confused with them. */
void wefti_elastic_drop_ahead(weft_mesh *mesh, int64_t step) {
    pthread_mutex_lock(&mesh->lock);
    mesh->orders.moot_from = step;
    wefti_outbox_wake(mesh);
    while (mesh->orders.moot_from >= 0) wefti_mesh_wait(mesh, (double)INFINITY);
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_elastic_gather(weft_mesh *mesh, bool gathers) {
    wefti_elastic *e = mesh ? mesh->elastic : NULL;
    if (!e) return;
    pthread_mutex_lock(&mesh->lock);
    e->own.gathers = gathers;
    pthread_mutex_unlock(&mesh->lock);
}

bool wefti_elastic_interrupted(weft_ctx *ctx, weft_mesh *mesh, weft_status status) {
    wefti_elastic *e = mesh ? mesh->elastic : NULL;
    bool waited = status == WEFT_ERR_PEER || status == WEFT_ERR_WIRE;
    if (!e || !waited || atomic_load(&mesh->world.poisoned)) return false;
    pthread_mutex_lock(&mesh->lock);
    bool newer = e->view.number > e->world.entered;
    pthread_mutex_unlock(&mesh->lock);
    if (newer) weft_ctx_clear(ctx);
    return newer;
}

/* Lock held. Recycles messages of communicators that no longer exist. */
static void drop_old(weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    int first = (int)(e->view.number - 1) << WEFTI_VIEW_SHIFT;
    for (wefti_arrival **link = &mesh->incoming.posted; *link;) {
        wefti_arrival *arrival = *link;
        wefti_piece_place place;
        bool old = arrival->channel < first || arrival->channel >= WEFTI_CHANNEL_PART;
        bool asked = wefti_piece_of(e, arrival->channel, arrival->tag, &place) &&
                     place.step > e->pieces.stable; /* another rank may need it */
        if (!old || asked) {
            link = &arrival->next;
            continue;
        }
        *link = arrival->next;
        wefti_incoming_recycle(mesh, arrival);
    }
}

/* Appends "rank 2 (host b)", and what that rank reported, to a list. */
static void add_name(const weft_mesh *mesh, int r, const char *reported, char *text,
                     size_t size) {
    size_t n = strlen(text);
    if (n + 1 >= size) return;
    snprintf(text + n, size - n, "%srank %d (host %s)%s%s", n ? ", " : "", r,
             weft_mesh_host_of(mesh, r), reported[0] ? ": " : "", reported);
}

/* Lists the ranks lost since the last world, and those that joined; a place with a new
 * process is in both lists. */
static void say_change(const weft_mesh *mesh, wefti_elastic_world *out) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    for (int r = 0; r < e->size; r++) {
        uint64_t was = e->at[r].was;
        uint64_t now = e->at[r].departed ? 0 : e->at[r].id.incarnation;
        e->at[r].was = now;
        if (was == now) continue;
        if (was) {
            out->n_lost++;
            add_name(mesh, r, now ? "" : e->at[r].reason, out->text, sizeof out->text);
        }
        if (!now) continue;
        out->n_joined++;
        add_name(mesh, r, "", out->joined, sizeof out->joined);
    }
}

/* Whether the world under construction contains a site already. */
static bool is_listed(const wefti_elastic *e, int site) {
    for (int i = 0; i < e->world.n_ranks; i++)
        if (wefti_elastic_site_of(&e->setup, e->world.ranks[i]) == site) return true;
    return false;
}

/* Adds the whole copies of the site to which the view's member number `first` belongs. */
static void list_site(wefti_elastic *e, int first) {
    int site = wefti_elastic_site_of(&e->setup, e->view.order[first]);
    for (int i = first; i < e->view.n_order; i++) {
        int r = e->view.order[i];
        if (wefti_elastic_site_of(&e->setup, r) == site && wefti_elastic_is_whole(e, r))
            e->world.ranks[e->world.n_ranks++] = r;
    }
}

void wefti_elastic_enter(weft_mesh *mesh, wefti_elastic_world *out) {
    wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    *out = (wefti_elastic_world){.number = e->view.number,
                                 .first_step = e->view.first_step};
    WEFTI_ASSERT(e->view.n_order <= e->size && e->view.number >= e->world.entered);
    e->world.entered = e->view.number;
    e->world.n_ranks = 0;
    for (int i = 0; i < e->view.n_order; i++)
        if (!is_listed(e, wefti_elastic_site_of(&e->setup, e->view.order[i])))
            list_site(e, i);
    for (int i = 0; i < e->world.n_ranks; i++)
        if (e->world.ranks[i] == mesh->rank) e->world.me = i;
    drop_old(mesh);
    say_change(mesh, out);
    pthread_mutex_unlock(&mesh->lock);
    out->rank = e->world.me;
    out->size = e->world.n_ranks;
}

/* --- the way back (elastic_return.c) --- */

void wefti_elastic_note(weft_mesh *mesh, wefti_elastic_fact fact) {
    wefti_elastic *e = mesh ? mesh->elastic : NULL;
    if (!e) return;
    pthread_mutex_lock(&mesh->lock);
    *(fact == WEFTI_FACT_OVER    ? &e->end.over
      : fact == WEFTI_FACT_WRONG ? &e->fate.wrong
                                 : &e->fate.replaced) = true;
    pthread_mutex_unlock(&mesh->lock);
}

/* Lock held. Whether some other copy of the model is whole, and none of its ranks has
 * reported that what it computed is wrong. */
static bool is_any_right(const weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    int S = e->setup.shards;
    for (int c = 0; c < e->size / S; c++) {
        bool right = c != mesh->rank / S;
        for (int r = c * S; r < (c + 1) * S; r++)
            right = right && !e->at[r].departed && !e->at[r].was_wrong;
        if (right) return true;
    }
    return false;
}

/* Lock held. Whether all other ranks of this one's copy come back, as they report; *never: one of
 * them does not. A joiner has no state in common with them, and comes back to those that
 * wait. */
static bool mates_return(const weft_mesh *mesh, bool *never) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    int S = e->setup.shards, first = mesh->rank / S * S;
    bool all = true;
    *never = false;
    if (e->view.number == 0) return true;
    for (int r = first; r < first + S; r++) {
        const wefti_elastic_place *mate = &e->at[r];
        if (r == mesh->rank || mate->returns > 0) continue;
        all = false;
        *never = *never || mate->returns < 0 || mate->ended;
    }
    return all;
}

bool weft_mesh_way_back(weft_mesh *mesh, char *out, size_t size) {
    wefti_elastic *e = mesh ? mesh->elastic : NULL;
    if (size > 0) out[0] = 0;
    if (!e) return false;
    pthread_mutex_lock(&mesh->lock);
    double until_s = wefti_now_s() + verdict_s;
    while (!e->fate.is_out && wefti_now_s() < until_s) wefti_mesh_wait(mesh, until_s);
    bool never = false, known = e->fate.way_back[0] && strlen(e->fate.way_back) < size &&
                                (!e->fate.wrong || is_any_right(mesh));
    until_s = wefti_now_s() + mates_s;
    while (known && !e->fate.stays && !mates_return(mesh, &never) && !never &&
           wefti_now_s() < until_s)
        wefti_mesh_wait(mesh, until_s);
    e->fate.stays = e->fate.stays || (known && !mates_return(mesh, &never));
    known = known && !e->fate.stays;
    if (known) snprintf(out, size, "%s", e->fate.way_back);
    pthread_mutex_unlock(&mesh->lock);
    return known;
}

double wefti_elastic_rate(weft_mesh *mesh) {
    pthread_mutex_lock(&mesh->lock);
    double rate_Bps = mesh->elastic ? mesh->elastic->view.rate_Bps : 0;
    pthread_mutex_unlock(&mesh->lock);
    return rate_Bps;
}

bool wefti_elastic_same_host(const weft_mesh *mesh, int a, int b) {
    const wefti_elastic *e = mesh->elastic;
    return e ? wefti_mesh_same_host(mesh, e->world.ranks[a], e->world.ranks[b])
             : wefti_mesh_same_host(mesh, a, b);
}
