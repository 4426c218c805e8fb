/* SPDX-License-Identifier: MIT */
/* The membership machine in a run: the progress thread reports events to it and carries out
 * its actions.
 *
 *     message, time, a connection that ended, steps  -->  machine  -->  send, freeze, install
 *
 * What is known of a process whose connection has ended is the matter of elastic_deaths.c. */
#define _GNU_SOURCE
#include "mesh/elastic.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"

static const double tell_every_s = 0.05;

/* A node's key is its place; a later process at the same place has another incarnation. */
static wefti_node_id id_at(int rank, uint64_t incarnation) {
    return (wefti_node_id){(uint64_t)rank + 1, incarnation};
}

static int rank_of_id(const wefti_elastic *e, wefti_node_id id) {
    bool known = id.key >= 1 && id.key <= (uint64_t)e->size &&
                 wefti_node_is(e->at[id.key - 1].id, id);
    return known ? (int)id.key - 1 : -1;
}

static void feed(weft_mesh *mesh, const wefti_member_event *event);

static int64_t now_us(void) { return (int64_t)(wefti_now_s() * 1e6); }

static int max_entries(const wefti_elastic *e) {
    return wefti_view_max_departed(&e->limits) * e->limits.window;
}

static size_t row_bytes(const wefti_elastic *e) {
    return ((size_t)e->limits.parts + 7) / 8;
}

static weft_status allocate(weft_ctx *ctx, wefti_elastic *e) {
    int n = e->size;
    int64_t rows = (int64_t)wefti_view_max_departed(&e->limits) * e->limits.window *
                   e->limits.rounds;
    const char *what = "membership";
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *e->at, what, &e->at));
    WEFT_TRY(wefti_alloc_n(ctx, n, 1, what, &e->inventory.work));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int), what, &e->world.ranks));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int), what, &e->view.order));
    WEFT_TRY(wefti_alloc_n(ctx, max_entries(e), sizeof *e->inventory.entries, what,
                           &e->inventory.entries));
    WEFT_TRY(wefti_alloc_n(ctx, max_entries(e), (size_t)e->limits.rounds * row_bytes(e),
                           what, &e->inventory.held));
    return wefti_alloc_n(ctx, rows * e->limits.parts, sizeof *e->view.holders, what,
                         &e->view.holders);
}

static weft_status create_member(weft_ctx *ctx, const weft_mesh *mesh, wefti_elastic *e) {
    wefti_view_node *founders;
    WEFT_TRY(wefti_alloc_n(ctx, e->size, sizeof *founders, "membership", &founders));
    for (int r = 0; r < e->world.n_ranks; r++)
        founders[r] = (wefti_view_node){e->at[r].id, e->setup.first_step};
    wefti_member_config config = {.limits = e->limits,
                                  .policy = wefti_elastic_member_policy(&e->setup),
                                  .run = e->setup.run,
                                  .config_hash = e->setup.config_hash,
                                  .data_hash = e->setup.data_hash,
                                  .self = e->at[mesh->rank].id,
                                  .n_founders = e->world.n_ranks,
                                  .founders = founders,
                                  .now_us = now_us()};
    weft_status status = wefti_member_create(ctx, &config, &e->machine.member);
    wefti_free(ctx, founders);
    return status;
}

static void free_elastic(weft_ctx *ctx, wefti_elastic *e) {
    wefti_sent_part *lists[] = {e->pieces.parts, e->pieces.spare_parts};
    for (int i = 0; i < 2; i++)
        while (lists[i]) {
            wefti_sent_part *next = lists[i]->next;
            wefti_free(ctx, lists[i]);
            lists[i] = next;
        }
    wefti_elastic_free_sent(ctx, e);
    wefti_member_destroy(e->machine.member);
    WEFTI_FREE(ctx, e->at, e->inventory.work, e->world.ranks, e->view.order,
               e->inventory.held, e->inventory.entries, e->view.holders, e->missed.list,
               e->missed.news, e->missed.heard, e->notice, e->end.folder, e);
}

/* Who has which place at the start. A joiner knows which ranks are connected to it; its
 * first view tells which of them are members. */
static void fill_places(const weft_mesh *mesh, wefti_elastic *e) {
    for (int r = 0; r < e->size; r++) {
        bool founds = r < e->world.n_ranks;
        e->at[r].begun = e->at[r].taken = e->setup.first_step - 1;
        e->at[r].cut_of = -1;
        e->world.ranks[r] = e->view.order[r] = r;
        e->at[r].departed = !founds;
        e->at[r].id = id_at(r, founds ? 1 : 0);
        e->at[r].was = e->at[r].id.incarnation;
    }
    e->view.n_order = e->world.n_ranks;
    e->machine.must_meet = e->setup.joins;
    const weft_transport_entry *entry = e->setup.joins ? mesh->transport->entry : NULL;
    for (int r = 0; r < e->size && entry; r++) {
        uint64_t name = entry->names[mesh->places.peer_of[r]];
        e->at[r].id = id_at(r, r == mesh->rank ? entry->incarnation : name);
        e->at[r].fresh = r != mesh->rank && name != 0;
    }
}

static wefti_member_limits limits_of(const weft_mesh *mesh,
                                     const wefti_elastic_setup *setup) {
    return wefti_member_limits_of(mesh->places.n_slots, setup->lag, setup->units);
}

bool wefti_elastic_fits(const weft_mesh *mesh, const wefti_elastic_setup *setup) {
    wefti_member_limits limits = limits_of(mesh, setup);
    return wefti_member_fits(&limits);
}

weft_status wefti_elastic_start(weft_ctx *ctx, weft_mesh *mesh,
                                const wefti_elastic_setup *setup) {
    wefti_elastic *e;
    WEFT_TRY(wefti_alloc(mesh->ctx, sizeof *e, "membership", &e));
    e->setup = *setup;
    e->machine.feed = feed;
    e->size = mesh->places.n_slots;
    e->world.n_ranks = setup->joins ? 0 : mesh->world.size;
    e->world.me = mesh->rank;
    e->lender = -1;
    e->limits = limits_of(mesh, setup);
    e->pieces.stable = setup->first_step - 1;
    e->own.steps = (wefti_member_steps){e->pieces.stable, e->pieces.stable,
                                        e->pieces.stable};
    e->view.number = e->world.entered = setup->joins ? 0 : 1;
    e->own.has_nothing = setup->joins;
    e->end.asks = setup->folder;
    weft_status status = allocate(mesh->ctx, e);
    if (status == WEFT_OK && setup->folder)
        status = wefti_strdup(mesh->ctx, setup->folder, &e->end.folder);
    e->setup.folder = e->end.folder;
    if (status == WEFT_OK) status = wefti_elastic_keep_notice(mesh->ctx, e);
    if (status == WEFT_OK) fill_places(mesh, e);
    if (status == WEFT_OK) status = create_member(mesh->ctx, mesh, e);
    if (status == WEFT_OK) status = wefti_elastic_know_witness(ctx, mesh, e);
    if (status != WEFT_OK) {
        free_elastic(mesh->ctx, e);
        return weft_ctx_fail(ctx, status, "%s", weft_ctx_message(mesh->ctx));
    }
    pthread_mutex_lock(&mesh->lock);
    atomic_store(&mesh->elastic, e);
    wefti_outbox_wake(mesh);
    pthread_mutex_unlock(&mesh->lock);
    return WEFT_OK;
}

void wefti_elastic_destroy(weft_mesh *mesh) {
    if (mesh->elastic) free_elastic(mesh->ctx, mesh->elastic);
}

/* --- actions of the machine --- */

/* Lock held. Another process has this place from now on. */
static void begin_place(weft_mesh *mesh, int rank, wefti_node_id id) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    e->at[rank].id = id;
    e->at[rank].spoke = e->at[rank].was_wrong = e->at[rank].ended = e->at[rank].left_out =
        false;
    e->at[rank].returns = 0;
    e->at[rank].taken = e->pieces.stable;
    e->at[rank].cut_of = -1;
    e->at[rank].reason[0] = 0;
}

/* Lock held. The place of a member of a view; -1: none. It may be one to which this process is
 * not connected, if others took it in: it is a member all the same, or the ranks of a world
 * would be others here than there. It is missed like one whose connection has ended. */
static int place_of(weft_mesh *mesh, wefti_node_id id) {
    wefti_elastic *e = mesh->elastic;
    const weft_transport *t = mesh->transport;
    int r = rank_of_id(e, id);
    if (r >= 0 || id.key < 1 || id.key > (uint64_t)e->size) return r;
    r = (int)id.key - 1;
    if (r == mesh->rank) return -1;
    if (!mesh->peers[r].lost && t->ops->hang_up)
        t->ops->hang_up(mesh->transport, mesh->places.peer_of[r]);
    begin_place(mesh, r, id);
    e->at[r].closed_s = mesh->peers[r].lost ? wefti_now_s() : 0;
    e->at[r].ended = mesh->peers[r].lost;
    return r;
}

/* Lock held. Copies the cut of the machine's view, in ranks. */
static void copy_cut(weft_mesh *mesh, const wefti_view *view) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    int per_step = e->limits.rounds * e->limits.parts;
    e->view.n_order = 0;
    for (int i = 0; i < view->n_nodes; i++) {
        int r = place_of(mesh, view->nodes[i].id);
        if (r < 0) continue;
        e->at[r].fresh = false;
        e->view.order[e->view.n_order++] = r;
    }
    for (int r = 0; r < e->size; r++) {
        e->at[r].cut_of = wefti_view_find_departed(view, e->at[r].id);
        e->at[r].departed = wefti_view_find(view, e->at[r].id) < 0;
    }
    e->view.cut_low = view->cut_low;
    e->view.cut_steps = view->cut_steps;
    for (int d = 0; d < view->n_departed; d++)
        for (int s = 0; s < view->cut_steps; s++) {
            const uint16_t *from = wefti_view_holder(&e->limits, view, d, s, 0, 0);
            int32_t *to = e->view.holders +
                          ((int64_t)d * e->limits.window + s) * per_step;
            for (int i = 0; i < per_step; i++)
                to[i] = from[i] == WEFTI_MEMBER_NOBODY
                            ? -1
                            : rank_of_id(e, view->nodes[from[i]].id);
        }
}

/* A message whose fate is decided later. Lock held. */
static void park(weft_mesh *mesh, wefti_arrival *arrival) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    arrival->next = mesh->elastic->pieces.parked;
    mesh->elastic->pieces.parked = arrival;
}

/* A message for the ranks' threads. Lock held. */
static void post(weft_mesh *mesh, wefti_arrival *arrival) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    arrival->next = mesh->incoming.posted;
    mesh->incoming.posted = arrival;
}

/* Lock held. Messages of ranks that are not members yet stay parked. */
static void unpark(weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    wefti_arrival *list = e->pieces.parked;
    e->pieces.parked = NULL;
    while (list) {
        wefti_arrival *arrival = list;
        list = arrival->next;
        if (e->at[arrival->sender].fresh)
            park(mesh, arrival);
        else
            (e->at[arrival->sender].departed ? wefti_incoming_recycle : post)(mesh,
                                                                              arrival);
    }
}

/* The others go on without a rank of this one's copy. If that one lives, both come back: this one
 * hears of it first, and says so to the other, which stood still with it or alone. */
static void lose_copy(weft_mesh *mesh) {
    const wefti_elastic *e = mesh->elastic;
    int S = e->setup.shards, first = mesh->rank / S * S;
    bool lives = true;
    for (int r = first; r < first + S; r++)
        lives = lives && (!e->at[r].departed || e->at[r].left_out);
    if (lives) wefti_elastic_note_way_back(mesh, WEFTI_OUT_EVICTED);
    wefti_mesh_blame(mesh, mesh->rank,
                     "rank %d (host %s) has lost a rank that holds a part of the same "
                     "copy of the model; %s",
                     mesh->rank, weft_mesh_host_of(mesh, mesh->rank),
                     lives ? WEFTI_LEFT_BEHIND : "the others go on without this copy");
}

static void install(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    const wefti_view *view = wefti_member_view(e->machine.member);
    double rate_Bps = wefti_elastic_usual_rate(&e->rates);
    pthread_mutex_lock(&mesh->lock);
    e->view.rate_Bps = rate_Bps;
    e->view.number = view->number;
    e->view.first_step = view->first_step;
    for (int r = 0; r < e->size; r++) e->at[r].was_departed = e->at[r].departed;
    copy_cut(mesh, view);
    e->view.frozen = false;
    unpark(mesh);
    for (wefti_sent_part *part = e->pieces.parts; part && !mesh->end.said_bye;
         part = part->next)
        if (e->at[part->peer].departed && !wefti_elastic_has_mates(e, part->channel))
            wefti_elastic_pass_on(mesh, part);
    wefti_elastic_say_again(mesh);
    bool whole = wefti_elastic_is_whole(e, mesh->rank);
    int site = wefti_elastic_lost_whole(e);
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
    for (int r = 0; r < e->size; r++) {
        if (e->at[r].departed && !e->at[r].was_departed)
            e->at[r].left_out = !wefti_member_is_dead(e->machine.member, e->at[r].id);
        if (e->at[r].departed && !e->at[r].fresh && !mesh->peers[r].lost)
            wefti_outbox_let_go(mesh, r);
    }
    if (site >= 0)
        wefti_mesh_blame(
            mesh, mesh->rank,
            "site %d of %d has lost all its nodes, and the run goes on without a "
            "site of several only where one site is left and sites do not gossip; "
            "resume it from its checkpoint",
            site + 1, e->setup.sites);
    if (!whole) lose_copy(mesh);
    if (view->number >= WEFTI_MAX_VIEWS)
        wefti_mesh_blame(mesh, mesh->rank, "membership has changed %d times; start anew",
                         (int)WEFTI_MAX_VIEWS);
}

static void send_member(weft_mesh *mesh, const wefti_member_action *a) {
    int rank = rank_of_id(mesh->elastic, a->peer);
    if (rank < 0 || rank == mesh->rank) return;
    wefti_elastic_post(mesh, rank, WEFTI_CHANNEL_MEMBER, 0, a->bytes,
                       (int64_t)a->n_bytes);
}

static void feed_once(weft_mesh *mesh, const wefti_member_event *event) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    e->machine.random += 0x9E3779B97F4A7C15u;
    int64_t now = now_us();
    const wefti_member_actions *todo = wefti_member_step(
        e->machine.member, event, now, e->machine.random ^ (uint64_t)now);
    e->machine.wake_us = todo->wake_us;
    for (int k = 0; k < todo->n; k++) {
        const wefti_member_action *a = &todo->list[k];
        if (a->kind == WEFTI_DO_SEND) send_member(mesh, a);
        if (a->kind == WEFTI_DO_INSTALL) {
            install(mesh);
            wefti_elastic_tell_vitals(mesh);
        }
        if (a->kind == WEFTI_DO_OUT) wefti_elastic_note_out(mesh, a->out);
        if (a->kind == WEFTI_DO_RECORD) wefti_elastic_tell_vitals(mesh);
        if (a->kind == WEFTI_DO_ASK) wefti_elastic_ask_witness(mesh, &a->vote);
        if (a->kind != WEFTI_DO_FREEZE) continue;
        pthread_mutex_lock(&mesh->lock);
        e->view.frozen = true;
        pthread_mutex_unlock(&mesh->lock);
        e->machine.has_frozen = true;
        e->machine.ballot = a->ballot;
    }
}

/* --- messages of departing ranks that are here --- */

static wefti_inventory_entry *entry_of(wefti_elastic *e, int *n, int sender,
                                       int64_t step) {
    wefti_node_id id = e->at[sender].id;
    for (int i = 0; i < *n; i++)
        if (e->inventory.entries[i].step == step &&
            wefti_node_is(e->inventory.entries[i].sender, id))
            return &e->inventory.entries[i];
    if (*n == max_entries(e)) return NULL;
    unsigned char *held = e->inventory.held +
                          (size_t)*n * (size_t)e->limits.rounds * row_bytes(e);
    memset(held, 0, (size_t)e->limits.rounds * row_bytes(e));
    e->inventory.entries[*n] = (wefti_inventory_entry){
        .sender = id, .step = step, .held = held};
    return &e->inventory.entries[(*n)++];
}

/* Lock held. */
static void count_arrivals(weft_mesh *mesh, const wefti_arrival *list, int *n) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    for (const wefti_arrival *a = list; a; a = a->next) {
        wefti_piece_place place;
        if (!e->inventory.work[a->sender] ||
            !wefti_piece_of(e, a->channel, a->tag, &place) ||
            !wefti_member_is_open(e->machine.member, place.step))
            continue;
        wefti_inventory_entry *entry = entry_of(e, n, a->sender, place.step);
        if (!entry) continue;
        size_t at = (size_t)(entry - e->inventory.entries) * (size_t)e->limits.rounds *
                    row_bytes(e);
        unsigned char *bits = e->inventory.held + at + (size_t)place.round * row_bytes(e);
        bits[place.part / 8] |= (unsigned char)(1 << place.part % 8);
        entry->counted = true;
    }
}

static void count_taken(wefti_elastic *e, int *n) {
    for (int r = 0; r < e->size; r++) {
        if (!e->inventory.work[r] ||
            !wefti_member_is_open(e->machine.member, e->at[r].taken))
            continue;
        wefti_inventory_entry *entry = entry_of(e, n, r, e->at[r].taken);
        if (entry) entry->counted = true;
    }
}

static void sync_steps(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    wefti_member_event event = {.kind = WEFTI_EVENT_STEPS};
    pthread_mutex_lock(&mesh->lock);
    event.steps = e->own.steps;
    double patience_s = wefti_elastic_patience(e);
    pthread_mutex_unlock(&mesh->lock);
    if (patience_s != e->machine.patience_s)
        wefti_member_set_patience(e->machine.member, (int64_t)(patience_s * 1e6));
    e->machine.patience_s = patience_s;
    feed_once(mesh, &event);
}

/* No member needs messages of steps that all members have finished. */
static void note_stable(weft_mesh *mesh) {
    int64_t stable = wefti_member_stable(mesh->elastic->machine.member);
    if (stable <= mesh->elastic->pieces.stable) return;
    wefti_elastic_forget(mesh, stable);
    wefti_elastic_forget_sent(mesh, stable);
}

static void answer_freeze(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    e->machine.has_frozen = false;
    sync_steps(mesh); /* frozen: the steps do not change now */
    if (e->machine.has_frozen) return;
    note_stable(mesh); /* the window begins after what all have finished by now */
    int n = 0;
    for (int r = 0; r < e->size; r++)
        e->inventory.work[r] = wefti_member_departs(e->machine.member, e->at[r].id);
    pthread_mutex_lock(&mesh->lock);
    count_arrivals(mesh, mesh->incoming.posted, &n);
    count_arrivals(mesh, e->pieces.kept, &n);
    count_taken(e, &n);
    pthread_mutex_unlock(&mesh->lock);
    wefti_member_event event = {.kind = WEFTI_EVENT_INVENTORY,
                                .ballot = e->machine.ballot,
                                .n_entries = n,
                                .entries = e->inventory.entries};
    feed_once(mesh, &event);
}

static void feed(weft_mesh *mesh, const wefti_member_event *event) {
    wefti_elastic *e = mesh->elastic;
    feed_once(mesh, event);
    while (e->machine.has_frozen) answer_freeze(mesh);
}

/* --- events for the machine --- */

void wefti_elastic_leave(weft_mesh *mesh) {
    const wefti_member_event leave = {.kind = WEFTI_EVENT_LEAVE};
    feed(mesh, &leave);
}

static void feed_connected(weft_mesh *mesh, int rank) {
    const wefti_member_event event = {.kind = WEFTI_EVENT_CONNECTED,
                                      .peer = mesh->elastic->at[rank].id};
    feed(mesh, &event);
}

void wefti_elastic_greet(weft_mesh *mesh, int rank, uint64_t incarnation) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    e->at[rank].closed_s = e->at[rank].left_s = 0;
    e->at[rank].replaced_at = false;
    e->at[rank].turn = 0;
    e->at[rank].begun = -1;
    pthread_mutex_lock(&mesh->lock);
    begin_place(mesh, rank, id_at(rank, incarnation));
    e->at[rank].fresh = e->at[rank].departed = true;
    pthread_mutex_unlock(&mesh->lock);
    if (rank == e->lender) wefti_elastic_set_lender(mesh, -1);
    feed_connected(mesh, rank);
}

/* A joiner reports all its connections to the machine, but those that have ended since. */
static void meet_all(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    e->machine.must_meet = false;
    pthread_mutex_lock(&mesh->lock);
    for (int r = 0; r < e->size; r++) {
        e->at[r].ended = e->at[r].ended || (e->at[r].fresh && mesh->peers[r].lost);
        e->fate.may_be_over = e->fate.may_be_over ||
                              (e->at[r].fresh && mesh->peers[r].lost &&
                               mesh->peers[r].left);
        e->at[r].fresh = e->at[r].fresh && !mesh->peers[r].lost;
    }
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
    for (int r = 0; r < e->size; r++)
        if (e->at[r].fresh) feed_connected(mesh, r);
}

double wefti_elastic_pump(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    double now_s = wefti_now_s(), next_s = 1;
    wefti_elastic_watch_rate(&e->rates, mesh, now_s);
    if (e->machine.must_meet) meet_all(mesh);
    next_s = fmin(next_s, wefti_elastic_watch_deaths(mesh, now_s));
    wefti_elastic_hear_witness(mesh, feed);
    if (now_us() >= e->machine.wake_us) {
        const wefti_member_event tick = {.kind = WEFTI_EVENT_TICK};
        sync_steps(mesh);
        feed(mesh, &tick);
    }
    note_stable(mesh);
    double due_s = (double)(e->machine.wake_us - now_us()) * 1e-6;
    return due_s < 0 ? 0 : fmin(due_s, next_s);
}

static void hear_piece(weft_mesh *mesh, int r, int64_t step) {
    wefti_elastic *e = mesh->elastic;
    double now_s = wefti_now_s();
    if (step <= e->at[r].begun && now_s - e->at[r].told_s < tell_every_s) return;
    if (step > e->at[r].begun) e->at[r].begun = step;
    e->at[r].told_s = now_s;
    wefti_member_event event = {.kind = WEFTI_EVENT_DATA, .peer = e->at[r].id};
    event.steps.begun = e->at[r].begun;
    feed(mesh, &event);
}

/* --- incoming messages --- */

typedef struct trailer {
    uint32_t sender, channel;
} trailer;

/* A rank asks for a lost rank's message. */
static void answer_ask(weft_mesh *mesh, const wefti_arrival *ask) {
    trailer about;
    void *copy = NULL;
    if (ask->n_bytes != sizeof about) return;
    memcpy(&about, ask->data, sizeof about);
    pthread_mutex_lock(&mesh->lock);
    const wefti_arrival *a = wefti_elastic_find(mesh, (int)about.sender,
                                                (int)about.channel, ask->tag);
    int64_t n = a ? a->n_bytes : 0;
    if (a &&
        wefti_alloc(mesh->ctx, (size_t)n + sizeof about, "a message", &copy) == WEFT_OK) {
        memcpy(copy, a->data, (size_t)n);
        memcpy((char *)copy + n, &about, sizeof about);
        wefti_elastic_pass_news(mesh, (int)about.sender);
    }
    pthread_mutex_unlock(&mesh->lock);
    if (copy)
        wefti_elastic_post(mesh, ask->sender, WEFTI_CHANNEL_RELAY, ask->tag, copy,
                           n + (int64_t)sizeof about);
    wefti_free(mesh->ctx, copy);
}

/* A lost rank's message from a rank that has it: handled as if the lost rank had sent it. It
 * counts only under the cut that names who has it: while frozen this rank has reported what it
 * has, and asks again under the next cut. */
static bool open_relay(weft_mesh *mesh, wefti_arrival *arrival) {
    trailer about;
    const wefti_elastic *e = mesh->elastic;
    int64_t n = arrival->n_bytes - (int64_t)sizeof about;
    if (n < 0) return false;
    memcpy(&about, (char *)arrival->data + n, sizeof about);
    if (about.sender >= (uint32_t)e->size || !e->at[about.sender].departed ||
        about.channel >= WEFTI_CHANNEL_PART || e->view.frozen ||
        wefti_elastic_holder(e, (int)about.sender, (int)about.channel, arrival->tag) < 0)
        return false;
    arrival->sender = (int)about.sender;
    arrival->channel = (int)about.channel;
    arrival->n_bytes = n;
    return true;
}

static void take_member(weft_mesh *mesh, const wefti_arrival *arrival) {
    mesh->elastic->at[arrival->sender].spoke = true;
    wefti_member_event event = {.kind = WEFTI_EVENT_MESSAGE,
                                .peer = mesh->elastic->at[arrival->sender].id,
                                .bytes = arrival->data,
                                .n_bytes = (size_t)arrival->n_bytes};
    sync_steps(mesh);
    feed(mesh, &event);
}

static void put(weft_mesh *mesh, wefti_arrival *arrival,
                void (*where)(weft_mesh *mesh, wefti_arrival *arrival)) {
    pthread_mutex_lock(&mesh->lock);
    arrival->arrival_s = wefti_now_s();
    where(mesh, arrival);
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

bool wefti_elastic_takes(weft_mesh *mesh, wefti_arrival *arrival) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    wefti_piece_place place;
    int channel = arrival->channel;
    if (channel == WEFTI_CHANNEL_NOTICE) wefti_elastic_take_notice(mesh, arrival);
    if (!e) { /* the others are ahead, and will repeat these messages */
        if (channel < WEFTI_CHANNEL_PART) return false;
        put(mesh, arrival, wefti_incoming_recycle);
        return true;
    }
    if (channel == WEFTI_CHANNEL_MEMBER) take_member(mesh, arrival);
    if (channel == WEFTI_CHANNEL_ASK) answer_ask(mesh, arrival);
    if (channel == WEFTI_CHANNEL_MISSED) wefti_elastic_hear_missed(mesh, arrival);
    bool relayed = channel == WEFTI_CHANNEL_RELAY && open_relay(mesh, arrival);
    if (channel >= WEFTI_CHANNEL_MISSED) {
        put(mesh, arrival, relayed ? post : wefti_incoming_recycle);
        return true;
    }
    int sender = arrival->sender;
    if (e->at[sender].fresh) {
        put(mesh, arrival, park);
        return true;
    }
    if (e->at[sender].departed) {
        put(mesh, arrival, wefti_incoming_recycle);
        return true;
    }
    /* While frozen this rank has reported what it has. Of those that this ballot keeps, too: it
     * may find that one before it has decided to part with them, and with what was missing. */
    bool is_piece = wefti_piece_of(e, channel, arrival->tag, &place);
    if (e->view.frozen &&
        (is_piece || wefti_member_departs(e->machine.member, e->at[sender].id))) {
        put(mesh, arrival, park);
        return true;
    }
    if (wefti_elastic_heard(mesh, arrival)) {
        put(mesh, arrival, wefti_incoming_recycle);
        return true;
    }
    put(mesh, arrival, post);
    if (is_piece) hear_piece(mesh, sender, place.sent);
    return true;
}
