/* SPDX-License-Identifier: MIT */
/* Which processes have died, and who can know it. That a connection ended and that a call
 * is refused prove nothing: a firewall does both, and so does a run that has ended while
 * this process slept. Evidence against a member whose connection has ended:
 *
 *     its host says so (guard.h), with what it had promised     RECORD: proof, and a vote less
 *     its own farewell came, and nothing that is waited for     DEAD
 *     another process has its port, on its machine, and it      DEAD
 *     does not answer there
 *     none of these within closed_patience_s                    CLOSED: a suspicion
 *
 * A process that hears too few others (PAUSED) goes on inquiring. If one of them lives that
 * can not be heard because the connection has ended, one of the two has to come back as a
 * new process: the one whose view is older, and of equal views the higher-numbered, which leaves
 * its vote to the other one: where a third one is gone unseen, the two would be a majority. Of two
 * copies of the model only this one is left if the other one dies then, so it stays until the other
 * one has the next view; and that one begins no step there before a rank of this one has gone
 * (heir), without which nobody can go on with it.
 * Where nobody is left that it knows, others may have come: it calls the other ports of their
 * machines, too, and comes back if who answers is in a later view. */
#include <math.h>

#include "base/clock.h"
#include "mesh/elastic.h"
#include "start/vitals.h"

static const double closed_patience_s = 1.0, left_patience_s = 1.0,
                    entrance_patience_s = 5, inquire_every_s = 2e-3, tell_every_s = 0.05,
                    call_every_s = 0.25, look_patience_s = 1.0;

static bool is_member(const wefti_elastic *e, int r) {
    return !e->at[r].departed && !e->at[r].fresh;
}

/* --- how this process stands --- */

void wefti_elastic_tell_vitals(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    weft_transport *t = mesh->transport;
    unsigned char now[WEFTI_VITALS_BYTES], after[WEFTI_VITALS_BYTES];
    if (!t->ops->keep || mesh->end.said_bye) return;
    wefti_member_state state = wefti_member_get_state(e->machine.member);
    const wefti_view *view = wefti_member_view(e->machine.member);
    wefti_vitals v = {.state = WEFTI_VITAL_ENDED,
                      .id = e->at[mesh->rank].id,
                      .view = view->number,
                      .record = wefti_member_own_record(e->machine.member)};
    wefti_vitals_write(&v, e->setup.run, after);
    if (state == WEFTI_MEMBER_PAUSED)
        v.state = WEFTI_VITAL_PAUSED;
    else if (state != WEFTI_MEMBER_OUT)
        v.state = WEFTI_VITAL_LIVES;
    wefti_vitals_write(&v, e->setup.run, now);
    t->ops->keep(t, now, after, WEFTI_VITALS_BYTES, view->n_nodes - 1);
    e->machine.told_state = state;
}

static bool all_left(const weft_mesh *mesh) {
    const wefti_elastic *e = mesh->elastic;
    for (int r = 0; r < e->size; r++)
        if (r != mesh->rank && is_member(e, r) && !mesh->peers[r].left) return false;
    return true;
}

void wefti_elastic_tell_over(weft_mesh *mesh) {
    const wefti_elastic *e = mesh->elastic;
    weft_transport *t = mesh->transport;
    unsigned char over[WEFTI_VITALS_BYTES];
    bool any = false;
    int64_t view = wefti_member_view(e->machine.member)->number;
    for (int r = 0; r < e->size; r++) any = any || e->at[r].left_out;
    bool notes = all_left(mesh) && e->setup.folder && !e->setup.has_ended;
    if (notes &&
        wefti_ended_write(mesh->ctx, e->setup.folder, e->setup.run, view) != WEFT_OK)
        weft_ctx_clear(mesh->ctx); /* then who slept waits */
    if (!any || !t->ops->keep) return;
    const wefti_vitals v = {
        .state = WEFTI_VITAL_OVER, .id = e->at[mesh->rank].id, .view = view};
    wefti_vitals_write(&v, e->setup.run, over);
    t->ops->keep(t, over, over, WEFTI_VITALS_BYTES, -1);
}

/* --- what others say --- */

static void feed_closed(weft_mesh *mesh, int rank, wefti_evidence evidence) {
    wefti_elastic *e = mesh->elastic;
    wefti_member_event event = {
        .kind = WEFTI_EVENT_CLOSED, .peer = e->at[rank].id, .evidence = evidence};
    e->at[rank].closed_s = -1;
    if (evidence == WEFTI_EVIDENCE_DEAD) e->at[rank].left_out = false;
    e->machine.feed(mesh, &event);
}

static void feed_record(weft_mesh *mesh, int rank, const wefti_member_record *record) {
    wefti_elastic *e = mesh->elastic;
    wefti_member_event event = {
        .kind = WEFTI_EVENT_RECORD, .peer = e->at[rank].id, .record = *record};
    e->at[rank].closed_s = -1;
    e->at[rank].left_out = false;
    e->machine.feed(mesh, &event);
}

/* Calls another port of a rank's machine from now on; 0: its own. */
static void turn_to(weft_mesh *mesh, int rank, int k) {
    weft_transport *t = mesh->transport;
    if (t->ops->turn)
        mesh->elastic->at[rank].turn = t->ops->turn(t, mesh->places.peer_of[rank], k);
}

/* Inquires at the place of a rank. [out] v->state NONE: nothing was reported by the process
 * that this rank is; v->view: of who spoke. Returns false while there is no answer. */
static bool inquire(weft_mesh *mesh, int rank, wefti_vitals *v) {
    wefti_elastic *e = mesh->elastic;
    weft_transport *t = mesh->transport;
    unsigned char bytes[WEFTI_VITALS_BYTES];
    *v = (wefti_vitals){.state = WEFTI_VITAL_NONE};
    if (!t->ops->inquire) return false;
    int n = t->ops->inquire(t, mesh->places.peer_of[rank], bytes, (int)sizeof bytes);
    if (n == -1) return false;
    if (!wefti_vitals_read(bytes, n, e->setup.run, v)) return true;
    e->machine.is_over = e->machine.is_over || v->state == WEFTI_VITAL_OVER;
    if (!wefti_node_is(v->id, e->at[rank].id)) v->state = WEFTI_VITAL_NONE;
    return true;
}

/* A connection has ended, at closed_s. Only a member asks: the guard of a dead process ends when
 * as many have asked as there are others. */
static void inquire_after(weft_mesh *mesh, int rank, double now_s) {
    wefti_elastic *e = mesh->elastic;
    wefti_vitals v;
    if (e->at[rank].turn > 0) turn_to(mesh, rank, 0);
    bool answered = inquire(mesh, rank, &v);
    bool late = now_s - e->at[rank].closed_s > closed_patience_s;
    if (v.state == WEFTI_VITAL_ENDED)
        feed_record(mesh, rank, &v.record);
    else if (e->at[rank].replaced_at && v.state == WEFTI_VITAL_NONE && (answered || late))
        feed_closed(mesh, rank, WEFTI_EVIDENCE_DEAD);
    else if (late)
        feed_closed(mesh, rank, WEFTI_EVIDENCE_CLOSED);
}

/* A process that is about to join has found this member's port free on its machine. It is
 * not believed against a member that is heard. */
void wefti_elastic_hear_replaced(weft_mesh *mesh, int rank) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    bool silent = mesh->peers[rank].lost ||
                  wefti_member_suspects(e->machine.member, e->at[rank].id);
    bool counts = rank != mesh->rank && is_member(e, rank) && silent;
    e->at[rank].replaced_at = counts || rank == e->lender;
    if (!counts) return;
    if (e->at[rank].closed_s <= 0) e->at[rank].closed_s = wefti_now_s();
}

/* --- ranks that end --- */

/* A connection has ended. Of a rank given up earlier (misses), only now the place becomes
 * free. */
void wefti_elastic_lose(weft_mesh *mesh, int rank) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    bool known = e->at[rank].closed_s != 0;
    if (mesh->peers[rank].lost) return;
    mesh->peers[rank].lost = true;
    if (!known) e->at[rank].closed_s = wefti_now_s();
    pthread_mutex_lock(&mesh->lock);
    e->at[rank].fresh = false;
    e->at[rank].ended = true;
    e->fate.may_be_over = e->fate.may_be_over ||
                          (e->view.number == 0 && mesh->peers[rank].left);
    e->at[rank].given_s = 0; /* the process that was promised this place had come */
    pthread_mutex_unlock(&mesh->lock);
    wefti_outbox_forget(mesh, rank);
    wefti_elastic_check_copy(mesh, rank);
    pthread_cond_broadcast(&mesh->changed); /* a joiner may be alone now */
    if (!known && e->view.number > 0) inquire_after(mesh, rank, e->at[rank].closed_s);
}

/* Whether this rank waits for something that a rank which has left will never send: its
 * farewell came after all its messages to this rank. left_patience_s covers its messages to
 * others. */
static bool misses(weft_mesh *mesh, int rank, double now_s) {
    wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    bool in_step = !e->view.frozen && e->own.in_step &&
                   e->own.steps.begun > e->at[rank].begun;
    bool between = e->own.gathers && now_s - e->at[rank].left_s > left_patience_s;
    bool may_be_missed = is_member(e, rank);
    pthread_mutex_unlock(&mesh->lock);
    return may_be_missed && (in_step || between);
}

/* Whether all have ended their loops; where this process has no state, all but those that came
 * with it, which have none either. */
static bool run_has_ended(weft_mesh *mesh) {
    const wefti_elastic *e = mesh->elastic;
    const wefti_view *view = wefti_member_view(e->machine.member);
    pthread_mutex_lock(&mesh->lock);
    bool came = e->own.has_nothing;
    pthread_mutex_unlock(&mesh->lock);
    if (!came) return all_left(mesh);
    for (int r = 0; r < e->size; r++) {
        int i = is_member(e, r) ? wefti_view_find(view, e->at[r].id) : -1;
        if (i >= 0 && !mesh->peers[r].left &&
            view->nodes[i].first_step < view->first_step)
            return false;
    }
    return true;
}

/* Ranks that ended before the others: the remaining ranks continue without them. */
static bool part_with_who_left(weft_mesh *mesh, double now_s) {
    wefti_elastic *e = mesh->elastic;
    bool any = false;
    for (int r = 0; r < e->size; r++) {
        if (!mesh->peers[r].left || mesh->end.said_bye || e->at[r].closed_s != 0)
            continue;
        if (e->at[r].left_s <= 0) e->at[r].left_s = now_s;
        any = true;
        if (!misses(mesh, r, now_s)) continue;
        if (run_has_ended(mesh)) {
            pthread_mutex_lock(&mesh->lock);
            e->end.others_ended = true;
            pthread_mutex_unlock(&mesh->lock);
        }
        feed_closed(mesh, r, WEFTI_EVIDENCE_DEAD);
    }
    return any;
}

/* Also where another one that came has noticed, and this view is without them. */
bool wefti_elastic_others_ended(weft_mesh *mesh) {
    const wefti_elastic *e = mesh->elastic;
    bool any = false, all = true;
    pthread_mutex_lock(&mesh->lock);
    for (int r = 0; r < e->size && e->own.has_nothing; r++) {
        bool lost = e->at[r].departed && !e->at[r].was_departed;
        any = any || lost;
        all = all && (!lost || mesh->peers[r].gone);
    }
    bool ended = e->end.others_ended || (any && all);
    pthread_mutex_unlock(&mesh->lock);
    return ended;
}

/* Whether this process has to come back as a new one: the run has gone on without it, as one
 * says that has come since, or was two views ahead when it ended (nobody is in a view and misses
 * the one before); or the other one lives and neither can hear the other any more. */
static bool yields_to(const weft_mesh *mesh, int rank, const wefti_vitals *v) {
    const wefti_elastic *e = mesh->elastic;
    const wefti_view *view = wefti_member_view(e->machine.member);
    bool lives = v->state == WEFTI_VITAL_LIVES || v->state == WEFTI_VITAL_PAUSED;
    if (!lives) return v->view > view->number + (v->state == WEFTI_VITAL_ENDED);
    if (!mesh->peers[rank].lost || v->view < view->number) return false;
    return v->view > view->number ||
           wefti_view_find(view, e->at[rank].id) < wefti_member_number(e->machine.member);
}

/* Another process has this one's vote, of two, and may have decided by it. */
static void lend_to(weft_mesh *mesh, int rank) {
    wefti_elastic *e = mesh->elastic;
    const wefti_member_event lend = {.kind = WEFTI_EVENT_LEND, .peer = e->at[rank].id};
    const wefti_node_id heir = wefti_member_own_record(e->machine.member).heir;
    if (!wefti_node_is(heir, e->at[rank].id)) e->machine.feed(mesh, &lend);
}

void wefti_elastic_set_lender(weft_mesh *mesh, int rank) {
    WEFTI_ASSERT_PROGRESS(mesh);
    pthread_mutex_lock(&mesh->lock);
    mesh->elastic->lender = rank;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

/* This process goes on by the vote of another one, which keeps its state until it knows that, and
 * then leaves. If this one died before, the other one would go on. */
static bool await_lender(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    wefti_vitals v;
    int r = e->lender;
    if (r < 0) return false;
    bool answered = inquire(mesh, r, &v);
    bool another = v.state == WEFTI_VITAL_NONE && (v.id.key != 0 || e->at[r].replaced_at);
    if (answered && (another || v.state == WEFTI_VITAL_ENDED))
        wefti_elastic_set_lender(mesh, -1);
    return true;
}

/* While too few are heard a thread of the rank looks whether the run has ended: the guards of the
 * others are gone a minute after that. */
static bool is_paused(weft_mesh *mesh, double now_s) {
    wefti_elastic *e = mesh->elastic;
    bool paused = wefti_member_get_state(e->machine.member) == WEFTI_MEMBER_PAUSED;
    if (!paused && !e->machine.was_paused) return false;
    pthread_mutex_lock(&mesh->lock);
    if (paused != e->machine.was_paused) {
        e->end.ask_s = paused && e->end.asks ? now_s + call_every_s : 0;
        pthread_cond_broadcast(&mesh->changed);
    }
    e->machine.is_over = e->machine.is_over || e->end.has_ended;
    e->machine.was_paused = paused;
    pthread_mutex_unlock(&mesh->lock);
    return paused;
}

/* A guard has reported that the run is over. Before this process leaves, a thread of the rank
 * looks whether the folder says so, too, and is named. */
static bool has_looked(weft_mesh *mesh, double now_s) {
    wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    bool looked = !e->end.asks || e->end.has_ended || e->end.asked_since ||
                  (e->end.over_s > 0 && now_s - e->end.over_s > look_patience_s);
    if (!looked && e->end.over_s <= 0) {
        e->end.over_s = e->end.ask_s = now_s;
        pthread_cond_broadcast(&mesh->changed);
    }
    pthread_mutex_unlock(&mesh->lock);
    return looked;
}

/* Paused: whoever is not heard is inquired after, again and again. If all have ended their loops,
 * they live, and wait for this process to leave, which has come too late or would go on. */
static bool call_the_silent(weft_mesh *mesh, double now_s) {
    wefti_elastic *e = mesh->elastic;
    if (!is_paused(mesh, now_s)) return false;
    e->machine.is_over = e->machine.is_over || wefti_elastic_others_ended(mesh);
    for (int r = 0; r < e->size && !e->machine.is_over; r++) {
        wefti_vitals v;
        if (r == mesh->rank || !is_member(e, r) || e->at[r].closed_s > 0 ||
            !wefti_member_suspects(e->machine.member, e->at[r].id) ||
            !inquire(mesh, r, &v) || e->machine.is_over)
            continue;
        const wefti_view *view = wefti_member_view(e->machine.member);
        bool lives = v.state == WEFTI_VITAL_LIVES || v.state == WEFTI_VITAL_PAUSED;
        bool lent = lives && wefti_node_is(v.record.heir, e->at[mesh->rank].id);
        if (yields_to(mesh, r, &v)) {
            wefti_member_event yield = {.kind = WEFTI_EVENT_YIELD};
            bool stays = v.view == view->number;
            bool two = wefti_view_is_of_two(view, e->setup.shards);
            if (stays) yield.peer = e->at[r].id;
            (stays && two) ? lend_to(mesh, r) : e->machine.feed(mesh, &yield);
            return true;
        }
        if (lent) wefti_elastic_set_lender(mesh, r);
        if (lent || v.state == WEFTI_VITAL_ENDED) feed_record(mesh, r, &v.record);
        if (wefti_member_get_state(e->machine.member) != WEFTI_MEMBER_PAUSED) return true;
        if (!lives) turn_to(mesh, r, e->at[r].turn + 1);
    }
    const wefti_member_event leave = {.kind = WEFTI_EVENT_LEAVE};
    if (e->machine.is_over && has_looked(mesh, now_s)) e->machine.feed(mesh, &leave);
    return true;
}

/* A process on its way in that has fallen silent keeps its place, and all others, out. While this
 * process slept it has heard nobody. */
static void drop_silent_joiners(weft_mesh *mesh, double now_s) {
    wefti_elastic *e = mesh->elastic;
    const weft_transport *t = mesh->transport;
    bool slept = now_s - e->machine.looked_s > entrance_patience_s / 5;
    e->machine.looked_s = now_s;
    for (int r = 0; r < e->size && e->view.number > 0 && t->ops->hang_up; r++) {
        if (slept && e->at[r].fresh) mesh->peers[r].heard_s = now_s;
        bool silent = now_s - mesh->peers[r].heard_s > entrance_patience_s;
        if (e->at[r].fresh && silent && !mesh->peers[r].lost)
            t->ops->hang_up(mesh->transport, mesh->places.peer_of[r]);
    }
}

/* Whether a connection of this joiner has ended, to one that is a member as it has heard. */
static void note_lost_members(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    bool lost = false;
    for (int r = 0; r < e->size && e->view.number == 0; r++)
        lost = lost ||
               (e->at[r].ended && wefti_member_trains(e->machine.member, e->at[r].id));
    if (!lost || e->fate.lost_member) return;
    pthread_mutex_lock(&mesh->lock);
    e->fate.lost_member = true;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

double wefti_elastic_watch_deaths(weft_mesh *mesh, double now_s) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    double next_s = (double)INFINITY;
    drop_silent_joiners(mesh, now_s);
    note_lost_members(mesh);
    if (part_with_who_left(mesh, now_s)) next_s = tell_every_s;
    if (call_the_silent(mesh, now_s)) next_s = call_every_s;
    if (await_lender(mesh)) next_s = tell_every_s;
    for (int r = 0; r < e->size; r++) {
        if (e->at[r].closed_s <= 0 || e->view.number == 0) continue;
        inquire_after(mesh, r, now_s);
        next_s = inquire_every_s;
    }
    if (wefti_member_get_state(e->machine.member) != e->machine.told_state)
        wefti_elastic_tell_vitals(mesh);
    return next_s;
}
