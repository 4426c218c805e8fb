/* SPDX-License-Identifier: MIT */
/* Ranks as threads. Every rank has a mailbox: a lock, a condition, and posted messages in a
 * hash of sender and tag. What all ranks tell all others is on a board (comm/board.h), what many
 * send each other without a wire is posted (comm/posts.h). A message wakes threads only if one
 * of them waits for its bucket. It is a pointer into the sender's memory and its arrival time,
 * by the arithmetic of comm/interface.h. The receiver's interface is booked when the head gets
 * there, by a thread that waits for a message then. The receiver sleeps until the arrival.
 * Inside a node a message arrives at once. */
#define _GNU_SOURCE
#include "comm/localstate.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "comm/longwait.h"

static int world_rank_of(const local_comm *comm, int rank) {
    return wefti_members_at(&comm->members, rank);
}

/* --- which rank receives from which, if members are sites --- */

static bool is_between(const local_comm *comm) { return comm->members.per_site > 0; }

/* Whether a message did not count when the run was trained. */
static bool is_skipped(const local_comm *comm, int sender, int receiver, int64_t tag) {
    const local_world *world = comm->world;
    for (int i = 0; i < world->n_skipped; i++) {
        const wefti_missed *m = &world->skipped[i];
        if (m->tag == tag && m->channel == comm->channel && m->sender == sender &&
            m->receiver == receiver)
            return true;
    }
    return false;
}

/* The rank of site `of` from which a rank at `place` of another site receives; in a replay,
 * the first one whose message counted then. -1: none. */
static int heard(const local_comm *comm, int of, int receiver, int place, int64_t tag) {
    for (int k = 0; k < wefti_members_replicas(&comm->members, of); k++) {
        int r = wefti_members_speaker(&comm->members, of, place, k);
        if (!is_skipped(comm, r, receiver, tag)) return r;
    }
    return -1;
}

/* The first speaker of a site always sends to its receiver, which takes the message. */
static bool hears_me(const local_comm *comm, int peer, int place, int64_t tag) {
    const wefti_members *m = &comm->members;
    int receiver = wefti_members_speaker(m, peer, place, 0);
    return wefti_members_speaker(m, m->rank, place, 0) == comm->world_rank ||
           heard(comm, m->rank, receiver, place, tag) == comm->world_rank;
}

static wefti_link_class link_between(const local_world *world, int a, int b) {
    return wefti_world_link(&world->head.shape, a, b);
}

/* Lock held. Books the messages whose head has come. */
static void book_heads(local_world *world, interface *to, double now_s) {
    WEFTI_ASSERT_HELD(&world->wire_lock);
    while (to->coming && to->coming->arrival_s <= now_s) {
        message *first = to->coming;
        to->coming = first->next_head;
        first->arrival_s = wefti_interface_arrive(&to->wire, first->arrival_s,
                                                  first->busy_s);
        first->booked = true;
    }
}

/* Puts a message on the wire. */
static void send_off(local_world *world, int receiver, message *m) {
    const wefti_world_shape *shape = &world->head.shape;
    double now = wefti_now_s();
    wefti_link_class link = link_between(world, m->sender, receiver);
    bool far = link == WEFTI_LINK_SITE;
    const wefti_wire_model *wire = far ? &shape->site_wire : &shape->wire;
    m->booked = link == WEFTI_LINK_LOCAL || wire->bandwidth_Bps <= 0;
    m->arrival_s = link == WEFTI_LINK_LOCAL ? now : now + wire->latency_s;
    if (m->booked) return;
    m->busy_s = (double)m->n_bytes / wire->bandwidth_Bps;
    pthread_mutex_lock(&world->wire_lock);
    interface *from = far ? &world->uplinks[wefti_world_site_of(shape, m->sender)]
                          : &world->interfaces[wefti_world_node_of(shape, m->sender)];
    m->to = far ? &world->uplinks[wefti_world_site_of(shape, receiver)]
                : &world->interfaces[wefti_world_node_of(shape, receiver)];
    m->arrival_s = wefti_interface_leave(&from->wire, now, m->busy_s) + wire->latency_s;
    message **link_at = &m->to->coming;
    while (*link_at && (*link_at)->arrival_s <= m->arrival_s)
        link_at = &(*link_at)->next_head;
    m->next_head = *link_at;
    *link_at = m;
    book_heads(world, m->to, now);
    pthread_mutex_unlock(&world->wire_lock);
}

/* When a message arrives, if that is known; otherwise when its head arrives, which is the
 * time to ask again. */
static double expect(local_world *world, const message *m, double now_s, bool *known) {
    *known = true;
    if (!m->to) return m->arrival_s;
    pthread_mutex_lock(&world->wire_lock);
    book_heads(world, m->to, now_s);
    double arrival_s = m->arrival_s;
    *known = m->booked;
    pthread_mutex_unlock(&world->wire_lock);
    return arrival_s;
}

static int bucket_of(int sender, int64_t tag) {
    uint64_t x = ((uint64_t)tag ^ (uint64_t)sender << 40) * 0x9E3779B97F4A7C15u;
    return (int)(x >> 56);
}

static weft_status poisoned_error(local_comm *comm) {
    return wefti_world_poisoned_error(comm->head.ctx, &comm->world->head);
}

/* A message node: a spare one, or a new one. */
static weft_status take_node(local_comm *comm, message **out) {
    mailbox *mine = &comm->world->boxes[comm->world_rank];
    pthread_mutex_lock(&mine->lock);
    *out = mine->spare;
    if (mine->spare) mine->spare = mine->spare->next;
    pthread_mutex_unlock(&mine->lock);
    if (*out) return WEFT_OK;
    return wefti_alloc(comm->world->ctx, sizeof **out, "a message", out);
}

static weft_status send_to(local_comm *comm, int to, int64_t tag, const void *data,
                           int64_t n_bytes) {
    local_world *world = comm->world;
    int from = comm->world_rank;
    message *post;
    WEFT_TRY(take_node(comm, &post));
    *post = (message){.tag = tag,
                      .n_bytes = n_bytes,
                      .data = data,
                      .sender = from,
                      .channel = comm->channel,
                      .origin = comm};
    send_off(world, to, post);
    wefti_link_class link = link_between(world, from, to);
    mailbox *mine = &world->boxes[from], *theirs = &world->boxes[to];
    pthread_mutex_lock(&mine->lock);
    post->next_sent = comm->sent;
    if (comm->sent) comm->sent->prev_sent = post;
    comm->sent = post;
    world->traffic[from].bytes_out[link] += n_bytes;
    pthread_mutex_unlock(&mine->lock);
    int bucket = bucket_of(from, tag);
    pthread_mutex_lock(&theirs->lock);
    post->next = theirs->posted[bucket];
    theirs->posted[bucket] = post;
    if (theirs->waits[bucket]) pthread_cond_broadcast(&theirs->changed);
    pthread_mutex_unlock(&theirs->lock);
    return WEFT_OK;
}

static weft_status local_send(wefti_comm *head, int peer, int64_t tag, const void *data,
                              int64_t n_bytes) {
    local_comm *comm = (local_comm *)head;
    const wefti_members *m = &comm->members;
    if (!is_between(comm))
        return send_to(comm, world_rank_of(comm, peer), tag, data, n_bytes);
    for (int place = 0; place < wefti_members_replicas(m, peer); place++)
        if (hears_me(comm, peer, place, tag))
            WEFT_TRY(send_to(comm, wefti_members_speaker(m, peer, place, 0), tag, data,
                             n_bytes));
    return WEFT_OK;
}

/* The oldest one: messages of one sender with one tag are received in the order in which
 * they were sent (the exchanges of two models may begin one after the other). */
static message *find_post(mailbox *box, int sender, int channel, int64_t tag,
                          bool taken) {
    message *oldest = NULL;
    for (message *m = box->posted[bucket_of(sender, tag)]; m; m = m->next)
        if (m->tag == tag && m->sender == sender && m->channel == channel &&
            m->taken == taken)
            oldest = m;
    return oldest;
}

static bool say_wait(const local_comm *comm, mailbox *box, int whom,
                     wefti_longwait *wait) {
    return wefti_longwait_say(comm->head.ctx, &comm->world->head, box ? &box->lock : NULL,
                              comm->world_rank, whom, wait);
}

/* Lock held. */
static void wait_changed(mailbox *box, double until_s) {
    WEFTI_ASSERT_HELD(&box->lock);
    wefti_cond_wait(&box->changed, &box->lock, until_s);
}

/* Waits until a message has arrived, at most until `deadline_s`. NULL: it has not, or the
 * world is poisoned. Lock held. */
static message *wait_for_post(const local_comm *comm, mailbox *box, int sender,
                              int64_t tag, double deadline_s) {
    WEFTI_ASSERT_HELD(&box->lock);
    wefti_longwait wait = {0};
    message *found = NULL;
    while (!atomic_load(&comm->world->head.poisoned)) {
        message *post = find_post(box, sender, comm->channel, tag, false);
        double now_s = wefti_now_s(), until_s = deadline_s;
        bool known = false;
        double next_s = post ? expect(comm->world, post, now_s, &known) : deadline_s;
        if (known && next_s <= now_s) found = post;
        if (found || now_s >= deadline_s) break;
        if (next_s < until_s) until_s = next_s;
        if (!post && say_wait(comm, box, sender, &wait)) continue;
        box->waits[bucket_of(sender, tag)]++;
        wait_changed(box, post ? until_s : fmin(until_s, wait.due_s));
        box->waits[bucket_of(sender, tag)]--;
    }
    wefti_longwait_end(&comm->world->head, &wait);
    return found;
}

/* The receiver takes a message: the view stays valid until it is released. Lock held. */
static void take_post(local_comm *comm, message *post, const void **view) {
    WEFTI_ASSERT_HELD(&comm->world->boxes[comm->world_rank].lock);
    wefti_link_class link = link_between(comm->world, post->sender, comm->world_rank);
    post->taken = true;
    *view = post->data;
    comm->head.arrival_s = post->arrival_s;
    comm->world->traffic[comm->world_rank].bytes_in[link] += post->n_bytes;
}

static void release_from(local_comm *comm, int sender, int64_t tag);

static weft_status receive_from(local_comm *comm, int sender, int64_t tag,
                                int64_t n_bytes, double deadline_s, const void **view) {
    mailbox *box = &comm->world->boxes[comm->world_rank];
    *view = NULL;
    pthread_mutex_lock(&box->lock);
    message *post = wait_for_post(comm, box, sender, tag, deadline_s);
    int64_t got = post ? post->n_bytes : n_bytes;
    if (post) take_post(comm, post, view);
    pthread_mutex_unlock(&box->lock);
    if (!post && atomic_load(&comm->world->head.poisoned)) return poisoned_error(comm);
    if (got == n_bytes) return WEFT_OK;
    release_from(comm, sender, tag);
    return weft_ctx_fail(comm->head.ctx, WEFT_ERR_WIRE,
                         "a message of %lld bytes from rank %d, expected %lld",
                         (long long)got, sender, (long long)n_bytes);
}

static weft_status local_receive_by(wefti_comm *head, int peer, int64_t tag,
                                    int64_t n_bytes, double deadline_s,
                                    const void **view) {
    local_comm *comm = (local_comm *)head;
    return receive_from(comm, world_rank_of(comm, peer), tag, n_bytes, deadline_s, view);
}

static weft_status local_receive(wefti_comm *head, int peer, int64_t tag, int64_t n_bytes,
                                 const void **view) {
    return local_receive_by(head, peer, tag, n_bytes, (double)INFINITY, view);
}

static void unlink_sent(local_comm *origin, message *post) {
    if (post->next_sent) post->next_sent->prev_sent = post->prev_sent;
    *(post->prev_sent ? &post->prev_sent->next_sent : &origin->sent) = post->next_sent;
}

static void release_from(local_comm *comm, int sender, int64_t tag) {
    mailbox *box = &comm->world->boxes[comm->world_rank];
    pthread_mutex_lock(&box->lock);
    message *post = find_post(box, sender, comm->channel, tag, true);
    if (post) {
        message **link = &box->posted[bucket_of(post->sender, tag)];
        while (*link != post) link = &(*link)->next;
        *link = post->next;
    }
    pthread_mutex_unlock(&box->lock);
    if (!post) return;
    mailbox *origin = &comm->world->boxes[post->sender];
    pthread_mutex_lock(&origin->lock);
    unlink_sent(post->origin, post);
    post->next = origin->spare;
    origin->spare = post;
    if (origin->awaits) pthread_cond_broadcast(&origin->changed);
    pthread_mutex_unlock(&origin->lock);
}

/* If the member is a site, releases the message of the rank that was received from. */
static void local_release(wefti_comm *head, int peer, int64_t tag) {
    local_comm *comm = (local_comm *)head;
    int sender = world_rank_of(comm, peer);
    if (is_between(comm) && comm->world->n_skipped > 0)
        sender = heard(comm, peer, comm->world_rank, comm->members.place, tag);
    if (sender >= 0) release_from(comm, sender, tag);
}

/* A piece of a step. A piece that did not count when the run was trained is received, so
 * that its sender may continue, and released at once; in its place another rank of the site
 * may be received from. */
static weft_status local_receive_piece(wefti_comm *head, int peer, int64_t tag,
                                       int64_t n_bytes, wefti_piece_kind kind,
                                       wefti_received *out) {
    local_comm *comm = (local_comm *)head;
    int sender = world_rank_of(comm, peer), instead = -1;
    (void)kind;
    WEFT_TRY(local_receive(head, peer, tag, n_bytes, &out->view));
    if (!is_skipped(comm, sender, comm->world_rank, tag)) return WEFT_OK;
    release_from(comm, sender, tag);
    out->view = NULL;
    if (is_between(comm))
        instead = heard(comm, peer, comm->world_rank, comm->members.place, tag);
    if (instead < 0) return WEFT_OK;
    return receive_from(comm, instead, tag, n_bytes, (double)INFINITY, &out->view);
}

static bool is_unreleased(const local_comm *comm, int64_t tag) {
    for (const message *m = comm->sent; m; m = m->next_sent)
        if (m->tag == tag) return true;
    return false;
}

static weft_status local_await(wefti_comm *head, int64_t tag) {
    local_comm *comm = (local_comm *)head;
    mailbox *box = &comm->world->boxes[comm->world_rank];
    wefti_longwait wait = {0};
    pthread_mutex_lock(&box->lock);
    box->awaits++;
    while (is_unreleased(comm, tag) && !atomic_load(&comm->world->head.poisoned))
        if (!say_wait(comm, box, -1, &wait)) wait_changed(box, wait.due_s);
    box->awaits--;
    bool done = !is_unreleased(comm, tag);
    pthread_mutex_unlock(&box->lock);
    wefti_longwait_end(&comm->world->head, &wait);
    return done ? WEFT_OK : poisoned_error(comm);
}

static bool local_holds(wefti_comm *head, const void *data) {
    local_comm *comm = (local_comm *)head;
    mailbox *box = &comm->world->boxes[comm->world_rank];
    bool holds = false;
    pthread_mutex_lock(&box->lock);
    for (const message *m = comm->sent; m && !holds; m = m->next_sent)
        holds = m->data == data;
    pthread_mutex_unlock(&box->lock);
    return holds;
}

/* --- what all tell all --- */

static weft_status local_open_board(wefti_comm *head, int n_rounds, int n_bytes) {
    local_comm *comm = (local_comm *)head;
    local_world *world = comm->world;
    int n = comm->members.size;
    if (!comm->links) WEFT_TRY(wefti_alloc_n(head->ctx, n, 1, "a board", &comm->links));
    for (int r = 0; r < n; r++)
        comm->links[r] = (unsigned char)link_between(world, world_rank_of(comm, r),
                                                     comm->world_rank);
    pthread_mutex_lock(&world->wire_lock);
    weft_status status = WEFT_OK;
    if (!world->board)
        status = wefti_board_create(world->ctx, n, n_rounds, n_bytes,
                                    &world->head.poisoned, &world->board);
    pthread_mutex_unlock(&world->wire_lock);
    if (status == WEFT_OK) return WEFT_OK;
    return weft_ctx_fail(head->ctx, status, "no memory for what %d ranks tell each other",
                         n);
}

/* When what this rank tells n others of a class arrives: one after another leaves, and they are
 * too short to wait for the receiver's interface. */
static double leave(const local_comm *comm, wefti_link_class link, int64_t n_bytes) {
    local_world *world = comm->world;
    const wefti_world_shape *shape = &world->head.shape;
    bool far = link == WEFTI_LINK_SITE;
    const wefti_wire_model *wire = far ? &shape->site_wire : &shape->wire;
    double now_s = wefti_now_s();
    if (link == WEFTI_LINK_LOCAL) return now_s;
    if (wire->bandwidth_Bps <= 0 || n_bytes == 0) return now_s + wire->latency_s;
    double busy_s = (double)n_bytes / wire->bandwidth_Bps;
    pthread_mutex_lock(&world->wire_lock);
    interface *from =
        far ? &world->uplinks[wefti_world_site_of(shape, comm->world_rank)]
            : &world->interfaces[wefti_world_node_of(shape, comm->world_rank)];
    now_s = wefti_interface_leave(&from->wire, now_s, busy_s);
    pthread_mutex_unlock(&world->wire_lock);
    return now_s + busy_s + wire->latency_s;
}

static weft_status local_tell(wefti_comm *head, int64_t tag, const void *data,
                              int64_t n_bytes) {
    local_comm *comm = (local_comm *)head;
    mailbox *mine = &comm->world->boxes[comm->world_rank];
    wefti_traffic *traffic = &comm->world->traffic[comm->world_rank];
    double arrival_s[WEFTI_LINK_CLASSES];
    int64_t n[WEFTI_LINK_CLASSES] = {0};
    for (int r = 0; r < comm->members.size; r++) n[comm->links[r]] += r != head->rank;
    pthread_mutex_lock(&mine->lock);
    for (int k = 0; k < WEFTI_LINK_CLASSES; k++) traffic->bytes_out[k] += n[k] * n_bytes;
    pthread_mutex_unlock(&mine->lock);
    for (int k = 0; k < WEFTI_LINK_CLASSES; k++)
        arrival_s[k] = leave(comm, (wefti_link_class)k, n[k] * n_bytes);
    const wefti_board_key key = {comm->channel, tag};
    if (wefti_board_tell(comm->world->board, key, comm->head.rank, data, arrival_s))
        return WEFT_OK;
    return weft_ctx_fail(head->ctx, WEFT_ERR_INTERNAL,
                         "rank %d is too many steps ahead of the others",
                         comm->world_rank);
}

static weft_status local_hear(wefti_comm *head, int64_t tag,
                              const wefti_allgather *gather) {
    local_comm *comm = (local_comm *)head;
    mailbox *mine = &comm->world->boxes[comm->world_rank];
    wefti_traffic *traffic = &comm->world->traffic[comm->world_rank];
    const wefti_board_key key = {comm->channel, tag};
    const unsigned char *bytes;
    wefti_longwait wait = {0};
    do {
        if (atomic_load(&comm->world->head.poisoned)) return poisoned_error(comm);
        say_wait(comm, NULL, -1, &wait);
    } while (!wefti_board_hear(comm->world->board, key, comm->links, wait.due_s, &bytes));
    wefti_longwait_end(&comm->world->head, &wait);
    for (int r = 0; r < comm->members.size; r++, bytes += gather->n_bytes)
        if (r == head->rank ||
            !is_skipped(comm, world_rank_of(comm, r), comm->world_rank, tag))
            gather->take(gather->user, r, bytes);
    wefti_board_leave(comm->world->board, key);
    pthread_mutex_lock(&mine->lock);
    for (int r = 0; r < comm->members.size; r++)
        if (r != head->rank) traffic->bytes_in[comm->links[r]] += gather->n_bytes;
    pthread_mutex_unlock(&mine->lock);
    return WEFT_OK;
}

static weft_status local_reserve(wefti_comm *head, int n_messages) {
    local_comm *comm = (local_comm *)head;
    mailbox *mine = &comm->world->boxes[comm->world_rank];
    if (head->poster) return WEFT_OK;
    for (int i = 0; i < n_messages; i++) {
        message *node;
        WEFT_TRY(wefti_alloc(comm->world->ctx, sizeof *node, "a message", &node));
        pthread_mutex_lock(&mine->lock);
        node->next = mine->spare;
        mine->spare = node;
        pthread_mutex_unlock(&mine->lock);
    }
    return WEFT_OK;
}

static void local_traffic(const wefti_comm *head, wefti_traffic *out) {
    const local_comm *comm = (const local_comm *)head;
    mailbox *box = &comm->world->boxes[comm->world_rank];
    pthread_mutex_lock(&box->lock);
    *out = comm->world->traffic[comm->world_rank];
    pthread_mutex_unlock(&box->lock);
}

static void local_destroy(wefti_comm *head) {
    WEFTI_FREE(head->ctx, ((local_comm *)head)->links, head);
}

static const wefti_comm_ops local_ops = {
    .name = "local",
    .send = local_send,
    .receive = local_receive,
    .receive_by = local_receive_by,
    .receive_piece = local_receive_piece,
    .release = local_release,
    .await = local_await,
    .holds = local_holds,
    .reserve = local_reserve,
    .traffic = local_traffic,
    .open_board = local_open_board,
    .tell = local_tell,
    .hear = local_hear,
    .destroy = local_destroy,
};

void wefti_local_skip(wefti_world *world, const wefti_missed *list, int n) {
    local_world *local = (local_world *)world;
    local->skipped = list;
    local->n_skipped = n;
}

bool wefti_local_skips(const wefti_comm *comm, int peer, int64_t tag) {
    const local_comm *c = (const local_comm *)comm;
    if (comm->ops != &local_ops || c->world->n_skipped == 0) return false;
    return is_skipped(c, world_rank_of(c, peer), c->world_rank, tag);
}

static weft_status init_boxes(weft_ctx *ctx, local_world *world) {
    for (; world->n_boxes < world->head.size; world->n_boxes++) {
        mailbox *box = &world->boxes[world->n_boxes];
        if (pthread_mutex_init(&box->lock, NULL) || wefti_cond_init(&box->changed))
            return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "could not create a mailbox");
    }
    return WEFT_OK;
}

static weft_status fill_world(weft_ctx *ctx, local_world *world) {
    int size = world->head.size;
    WEFT_TRY(wefti_alloc_n(ctx, size, sizeof(mailbox), "mailboxes", &world->boxes));
    const wefti_world_shape *shape = &world->head.shape;
    int nodes = shape->replicas / shape->replicas_per_node;
    WEFT_TRY(
        wefti_alloc_n(ctx, nodes, sizeof(interface), "interfaces", &world->interfaces));
    WEFT_TRY(wefti_alloc_n(ctx, shape->sites, sizeof(interface), "interfaces",
                           &world->uplinks));
    WEFT_TRY(wefti_alloc_n(ctx, size, sizeof(wefti_traffic), "byte counters",
                           &world->traffic));
    WEFT_TRY(wefti_posts_create(ctx, &world->head, &world->posts));
    return init_boxes(ctx, world);
}

static void free_messages(weft_ctx *ctx, message *list) {
    while (list) {
        message *next = list->next;
        wefti_free(ctx, list);
        list = next;
    }
}

static void local_world_destroy(weft_ctx *ctx, wefti_world *head) {
    local_world *world = (local_world *)head;
    for (int r = 0; r < world->n_boxes; r++) {
        mailbox *box = &world->boxes[r];
        for (int b = 0; b < BUCKETS; b++) free_messages(ctx, box->posted[b]);
        free_messages(ctx, box->spare);
        pthread_mutex_destroy(&box->lock);
        pthread_cond_destroy(&box->changed);
    }
    wefti_board_destroy(ctx, world->board);
    wefti_posts_destroy(world->posts);
    pthread_mutex_destroy(&world->wire_lock);
    pthread_mutex_destroy(&head->failure_lock);
    WEFTI_FREE(ctx, world->boxes, world->interfaces, world->uplinks, world->traffic,
               world);
}

static bool is_wire(const wefti_wire_model *wire) {
    return wire->bandwidth_Bps > 0 || wire->latency_s > 0;
}

static bool posts(const local_comm *comm) {
    const wefti_world_shape *shape = &comm->world->head.shape;
    return comm->members.size >= POSTERS && !is_between(comm) &&
           comm->world->n_skipped == 0 && !is_wire(&shape->wire) &&
           !is_wire(&shape->site_wire);
}

static weft_status local_join(weft_ctx *ctx, wefti_world *head, int rank,
                              wefti_group group, int channel, wefti_comm **out) {
    *out = NULL;
    local_comm *comm;
    WEFT_TRY(wefti_alloc(ctx, sizeof *comm, "a communicator", &comm));
    comm->members = wefti_world_members(&head->shape, rank, group);
    comm->head = (wefti_comm){.ops = &local_ops,
                              .ctx = ctx,
                              .rank = comm->members.rank,
                              .size = comm->members.size};
    comm->world = (local_world *)head;
    comm->world_rank = rank;
    comm->channel = (int)group * 8 + channel;
    comm->poster = (wefti_poster){.posts = comm->world->posts,
                                  .members = comm->members,
                                  .channel = comm->channel,
                                  .world_rank = rank,
                                  .lock = &comm->world->boxes[rank].lock,
                                  .traffic = &comm->world->traffic[rank]};
    if (posts(comm)) comm->head.poster = &comm->poster;
    *out = &comm->head;
    return WEFT_OK;
}

static void local_wake(wefti_world *head) {
    local_world *world = (local_world *)head;
    pthread_mutex_lock(&world->wire_lock);
    wefti_board *board = world->board;
    pthread_mutex_unlock(&world->wire_lock);
    if (board) wefti_board_wake(board);
    wefti_posts_wake(world->posts);
    for (int r = 0; r < world->n_boxes; r++) {
        pthread_mutex_lock(&world->boxes[r].lock);
        pthread_cond_broadcast(&world->boxes[r].changed);
        pthread_mutex_unlock(&world->boxes[r].lock);
    }
}

weft_status wefti_local_create(weft_ctx *ctx, const wefti_world_shape *shape,
                               wefti_world **out) {
    static const wefti_world_ops ops = {
        .name = "local",
        .join = local_join,
        .wake = local_wake,
        .destroy = local_world_destroy,
    };
    *out = NULL;
    local_world *world;
    WEFT_TRY(wefti_alloc(ctx, sizeof *world, "the mesh", &world));
    world->ctx = ctx;
    weft_status status = wefti_world_init(ctx, &world->head, &ops, shape);
    if (status != WEFT_OK) {
        wefti_free(ctx, world);
        return status;
    }
    pthread_mutex_init(&world->wire_lock, NULL);
    status = fill_world(ctx, world);
    if (status != WEFT_OK) {
        wefti_world_destroy(ctx, &world->head);
        return status;
    }
    *out = &world->head;
    return WEFT_OK;
}
