/* SPDX-License-Identifier: MIT */
/* Messages in flight, with the arithmetic of comm/interface.h, for the emulated wire
 * (comm/local.c) and for a real one. A message of n bytes takes
 *
 *     cpu          sender and receiver each message_s, on their own clocks
 *     interface    busy = (n stretch + bytes_per_message) / bandwidth, at the sender when it is
 *                  free, at the receiver when the head is there and it is free
 *     way          latency between the two
 *
 *     sender    |cpu|--- busy ---|
 *     way           `-- latency --.
 *     receiver                    |--- busy ---|cpu|
 *
 * The receiver's interface is booked when the message's head gets there, so that messages are
 * served in order of arrival, and those of several senders queue. Inside a node there is no
 * interface: a message takes latency and busy. A measured pair of nodes has its own rate and
 * latency between interfaces of the usual rate; the slower of the two determines the time.
 *
 *     post (sent, not there) -> land (head is there: the arrival is known) -> take (received)
 *
 * A post is found by a key of channel, round, sender, receiver, bucket and exchange. */
#include "mix/mixer.h"
#include "simulate/player.h"

#include <math.h>

#include "base/memory.h"

/* The group whose messages a channel carries. */
static const wefti_group group_of[] = {[WEFTI_CHANNEL_NEAR] = WEFTI_GROUP_REPLICA,
                                       [WEFTI_CHANNEL_FAR] = WEFTI_GROUP_SITES,
                                       [WEFTI_CHANNEL_MIXER] = WEFTI_GROUP_SITES,
                                       [WEFTI_CHANNEL_STATUS] = WEFTI_GROUP_WORLD};

/* The group that a channel's messages go to, from the rank's point of view. */
static wefti_members members_of(const wefti_player *player, const wefti_sim_rank *rank,
                                wefti_channel channel) {
    return wefti_world_members(&player->shape, rank->replica * player->S + rank->shard,
                               group_of[channel]);
}

wefti_mixer_question wefti_wires_question(const wefti_player *player,
                                          const wefti_sim_rank *rank, int bucket,
                                          int64_t step) {
    const wefti_arrangement *a = player->timed->shards[rank->shard].arrangement;
    wefti_members group = members_of(player, rank, WEFTI_CHANNEL_MIXER);
    return (wefti_mixer_question){.bucket = &a->buckets[bucket],
                                  .number = bucket,
                                  .n_buckets = a->n_buckets,
                                  .R = group.size,
                                  .from = group.rank,
                                  .step = step,
                                  .room = player->job->gossip.room};
}

static int rank_of(const wefti_members *group, int member) {
    return wefti_members_at(group, member);
}

/* A key that is unique among the messages that can be in flight at the same time. */
static uint64_t key_of(const wefti_action *op, int from, int to) {
    uint64_t name = (uint64_t)op->channel * 2 + (uint64_t)op->round;
    return ((((name << 14 | (uint64_t)from) << 14 | (uint64_t)to) << 13 |
             (uint64_t)op->bucket)
            << 14) |
           ((uint64_t)op->exchange & 0x3fff);
}

/* A message's arrival is known: wakes the thread of rank `to` that waits for it, if one does. */
static weft_status arrive(wefti_player *player, int to, uint64_t key) {
    for (int i = 0; i < WEFTI_THREADS; i++) {
        wefti_thread *t = &player->threads[to + i * player->W];
        if (t->state == WEFTI_WAITS_MESSAGE && t->key == key)
            return wefti_wires_wake(player, t);
    }
    return WEFT_OK;
}

/* Adds a message in flight to a table with a list of free slots; numbers stay valid while
 * it grows. */
static weft_status add_flight(wefti_player *player, wefti_sim_flight flight,
                              int64_t *out) {
    if (player->free_flight < 0) {
        int64_t n = player->flight_room, room = 2 * n + 256;
        WEFT_TRY(wefti_grow(player->ctx, &player->flights, n, room, sizeof flight,
                            "messages"));
        for (int64_t i = room - 1; i >= n; i--) {
            player->flights[i].next_free = player->free_flight;
            player->free_flight = i;
        }
        player->flight_room = room;
    }
    *out = player->free_flight;
    player->free_flight = player->flights[*out].next_free;
    player->flights[*out] = flight;
    return WEFT_OK;
}

/* The path of one message. */
typedef struct way {
    wefti_link_class link;
    wefti_interface *from, *to;
    int to_index, pair; /* pair: -1 if it was not measured */
    double busy_s;      /* of the interfaces */
    double transit_s;   /* of the link between them, if slower */
    double latency_s;
} way;

/* The interfaces that a message passes, and its time in each. */
static way find_way(const wefti_player *player, const wefti_sim_rank *a,
                    const wefti_sim_rank *b, int64_t n_bytes) {
    const wefti_timed *timed = player->timed;
    way w = {.link = a->node == b->node   ? WEFTI_LINK_LOCAL
                     : a->site == b->site ? WEFTI_LINK_WIRE
                                          : WEFTI_LINK_SITE,
             .pair = -1};
    const wefti_link_time *link = &timed->links[w.link];
    bool far = w.link == WEFTI_LINK_SITE;
    double all = wefti_link_bytes(link, (double)n_bytes);
    w.latency_s = link->latency_s;
    if (link->bandwidth_Bps > 0) w.busy_s = w.transit_s = all / link->bandwidth_Bps;
    if (link->pair_Bps > 0) w.transit_s = fmax(w.transit_s, all / link->pair_Bps);
    if (w.link == WEFTI_LINK_LOCAL) return w;
    w.from = far ? &player->sites[a->site] : &player->nodes[a->node];
    w.to = far ? &player->sites[b->site] : &player->nodes[b->node];
    w.to_index = far ? b->site : b->node;
    int n = player->R / player->job->copies, pair = a->node * n + b->node;
    if (!timed->pair_bandwidth_Bps || timed->pair_bandwidth_Bps[pair] <= 0) return w;
    w.pair = pair;
    w.latency_s = timed->pair_latency_s[pair];
    w.transit_s = all / timed->pair_bandwidth_Bps[pair];
    if (w.transit_s < w.busy_s || link->bandwidth_Bps <= 0) w.busy_s = w.transit_s;
    return w;
}

/* Books the sender's interface; returns the time when the message's last byte would have
 * passed the link, if the receiver's interface were free, minus its time in that interface. */
static double leave(wefti_player *player, const way *w, double now_s) {
    double start_s = wefti_interface_leave(w->from, now_s, w->busy_s);
    if (w->pair >= 0) {
        double *free_s = &player->pair_free_s[w->pair];
        start_s = fmax(start_s, *free_s);
        *free_s = start_s + w->transit_s;
    }
    return start_s + w->latency_s + w->transit_s - w->busy_s;
}

/* Counts the payload only, as a run does. */
static void count(wefti_player *player, const wefti_sim_rank *a, const way *w,
                  int64_t n_bytes) {
    player->n_messages++;
    if (w->link != WEFTI_LINK_LOCAL && a->step >= player->play->warmup)
        player->play->wire_bytes += (double)n_bytes;
}

/* Sends one message: advances the sender's clock and interface now; the receiver's
 * interface is booked when the head of the message arrives. Without an interface to book,
 * the message is posted as arrived. */
static weft_status send_one(wefti_player *player, wefti_thread *t, int to, uint64_t key,
                            int64_t n_bytes) {
    const wefti_sim_rank *a = &player->ranks[t->rank], *b = &player->ranks[to];
    way w = find_way(player, a, b, n_bytes);
    t->now_s += player->timed->links[w.link].message_s;
    count(player, a, &w, n_bytes);
    double sent_s = t->now_s;
    bool booked = w.link == WEFTI_LINK_LOCAL || w.busy_s <= 0;
    double head_s = w.link == WEFTI_LINK_LOCAL ? sent_s + w.latency_s
                                               : leave(player, &w, sent_s);
    if (w.link != WEFTI_LINK_LOCAL && t->rank / player->S == 0 && player->shows)
        wefti_play_show(player, 2, (int)((key >> 14) & 0x1fff), "message",
                        w.from->out_free_s - w.busy_s, w.from->out_free_s);
    if (!booked) {
        int64_t flight;
        WEFT_TRY(wefti_event_queue_post(&player->posts, key, sent_s, (double)INFINITY));
        WEFT_TRY(add_flight(player,
                            (wefti_sim_flight){key, w.busy_s, to, w.to_index,
                                               w.link == WEFTI_LINK_SITE, 0},
                            &flight));
        return wefti_agenda_add(
            &player->agenda,
            (wefti_event){head_s, 0, (int32_t)(WEFTI_THREADS * player->W), flight});
    }
    WEFT_TRY(wefti_event_queue_post(&player->posts, key, sent_s, head_s + w.busy_s));
    return arrive(player, to, key);
}

/* The head of a message is at the receiver's interface; the message has arrived when its
 * last byte has passed. */
weft_status wefti_wires_land(wefti_player *player, int64_t number, double now_s) {
    wefti_sim_flight flight = player->flights[number];
    wefti_interface *to = flight.far ? &player->sites[flight.to_interface]
                                     : &player->nodes[flight.to_interface];
    player->flights[number].next_free = player->free_flight;
    player->free_flight = number;
    double arrival_s = wefti_interface_arrive(to, now_s, flight.busy_s);
    wefti_posted *posted = wefti_event_queue_find(&player->posts, flight.key);
    if (posted) posted->arrival_s = arrival_s;
    return arrive(player, flight.to_rank, flight.key);
}

/* --- rounds --- */

typedef struct sending {
    wefti_player *player;
    wefti_thread *thread;
    const wefti_action *op;
    wefti_members group;
    weft_status status;
    int n;
} sending;

static void send_mixed(void *user, int peer, int64_t n_bytes) {
    sending *s = user;
    int to = rank_of(&s->group, peer);
    if (s->status != WEFT_OK) return;
    s->n++;
    s->status = send_one(s->player, s->thread, to, key_of(s->op, s->thread->rank, to),
                         n_bytes);
}

/* Where the mixer's buffer of this exchange is. */
static int buffer_of(const wefti_action *op) {
    return 2 * op->bucket + (int)(op->exchange & 1);
}

static weft_status send_mixer(wefti_player *player, wefti_thread *t,
                              const wefti_action *op) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    sending s = {player, t, op, members_of(player, rank, op->channel), WEFT_OK, 0};
    wefti_mixer_question q = wefti_wires_question(player, rank, op->bucket, rank->step);
    const wefti_mixer_config *config = &player->job->mixer_config;
    rank->sent_s[buffer_of(op)] = t->now_s;
    /* a receiver may read at once: unread is below zero until all are sent */
    wefti_mixer_find(config->kind)->messages(config, &q, &op->act, send_mixed, &s);
    rank->unread[buffer_of(op)] += s.n;
    return s.status;
}

/* Bytes of a message between two members, or of a status. */
static int64_t bytes_of(const wefti_player *player, const wefti_sim_rank *rank,
                        const wefti_action *op, int from, int to) {
    const wefti_timed_bucket *b = &player->timed->shards[rank->shard].buckets[op->bucket];
    const wefti_job *job = player->job;
    int owner = op->round ? from : to;
    if (op->channel == WEFTI_CHANNEL_STATUS) return wefti_job_status_bytes(job);
    if (op->channel == WEFTI_CHANNEL_FAR) return b->far.bytes[op->round][owner];
    int row = wefti_values_row(&job->replicator_config, from);
    return b->near.bytes[op->round][row * job->site.replicas + owner];
}

weft_status wefti_wires_send(wefti_player *player, wefti_thread *t,
                             const wefti_action *op) {
    const wefti_sim_rank *rank = &player->ranks[t->rank];
    if (op->channel == WEFTI_CHANNEL_MIXER) return send_mixer(player, t, op);
    wefti_members group = members_of(player, rank, op->channel);
    for (int k = 1; k < group.size; k++) {
        int peer = (group.rank + k) % group.size, to = rank_of(&group, peer);
        int64_t n_bytes = bytes_of(player, rank, op, group.rank, peer);
        if (n_bytes > 0)
            WEFT_TRY(send_one(player, t, to, key_of(op, t->rank, to), n_bytes));
    }
    return WEFT_OK;
}

static void note_peer(void *user, int peer, int64_t n_bytes) {
    sending *s = user;
    (void)n_bytes;
    s->thread->peers[s->thread->n_peers++] = peer;
}

/* Lists the senders of this receive, in the order in which their messages are taken. */
static void list_peers(wefti_player *player, wefti_thread *t, const wefti_action *op) {
    const wefti_sim_rank *rank = &player->ranks[t->rank];
    wefti_members group = members_of(player, rank, op->channel);
    t->n_peers = t->at_peer = 0;
    if (op->channel == WEFTI_CHANNEL_MIXER) {
        sending s = {player, t, op, group, WEFT_OK, 0};
        wefti_mixer_question q = wefti_wires_question(player, rank, op->bucket,
                                                      rank->step);
        const wefti_mixer_config *config = &player->job->mixer_config;
        wefti_mixer_find(config->kind)->messages(config, &q, &op->act, note_peer, &s);
        return;
    }
    for (int peer = 0; peer < group.size; peer++)
        if (peer != group.rank && bytes_of(player, rank, op, peer, group.rank) > 0)
            t->peers[t->n_peers++] = peer;
}

/* A mixer's message was read: its buffer may be free again, and the time in flight counts
 * as exchange (wefti_exchange_note). */
static weft_status note_read(wefti_player *player, wefti_thread *t,
                             const wefti_action *op, int from, double arrival_s) {
    wefti_sim_rank *me = &player->ranks[t->rank], *sender = &player->ranks[from];
    int buffer = buffer_of(op);
    double start_s = fmax(me->sent_s[buffer], me->covered_s);
    if (arrival_s > start_s) me->exchange_s += arrival_s - start_s;
    me->covered_s = fmax(me->covered_s, arrival_s);
    sender->read_s[buffer] = fmax(sender->read_s[buffer], t->now_s);
    if (--sender->unread[buffer] > 0) return WEFT_OK;
    for (int i = 0; i < WEFTI_THREADS; i++) {
        wefti_thread *other = &player->threads[from + i * player->W];
        if (other->state == WEFTI_WAITS_ROOM && other->key == (uint64_t)buffer)
            WEFT_TRY(wefti_wires_wake(player, other));
    }
    return WEFT_OK;
}

/* Splits a wait: before the message was sent its sender was late; after that the message
 * was on the wire. */
static void wait_until(wefti_player *player, wefti_thread *t, double sent_s,
                       double arrival_s) {
    double late_s = fmin(fmax(sent_s, t->now_s), arrival_s);
    wefti_play_note(player, t, WEFTI_CLASS_LATE, t->now_s, late_s);
    wefti_play_note(player, t, WEFTI_CLASS_WIRE, late_s, arrival_s);
    t->now_s = arrival_s;
}

/* Takes a message that has arrived, or gives up after the deadline. */
static weft_status take(wefti_player *player, wefti_thread *t, const wefti_action *op,
                        wefti_posted *posted, int from) {
    double sent_s = posted->sent_s, arrival_s = posted->arrival_s;
    const wefti_sim_rank *a = &player->ranks[from], *b = &player->ranks[t->rank];
    wefti_link_class link = a->node == b->node ? WEFTI_LINK_LOCAL : WEFTI_LINK_WIRE;
    wefti_event_queue_take(&player->posts, posted);
    if (arrival_s > t->until_s) {
        wait_until(player, t, t->until_s, fmax(t->now_s, t->until_s));
    } else {
        double wake_s = player->timed->emulated ? player->timed->cluster->wake_s : 0;
        if (arrival_s > t->now_s) wait_until(player, t, sent_s, arrival_s + wake_s);
        double end_s = t->now_s + player->timed->links[link].message_s + op->seconds;
        wefti_play_note(player, t, WEFTI_CLASS_CODEC, t->now_s, end_s);
        t->now_s = end_s;
    }
    return op->channel == WEFTI_CHANNEL_MIXER ? note_read(player, t, op, from, arrival_s)
                                              : WEFT_OK;
}

weft_status wefti_wires_receive(wefti_player *player, wefti_thread *t,
                                const wefti_action *op, bool *done) {
    const wefti_sim_rank *rank = &player->ranks[t->rank];
    wefti_members group = members_of(player, rank, op->channel);
    *done = false;
    if (t->at_peer < 0) {
        double deadline_s = player->job->mixer_config.deadline_s;
        bool waits = op->channel != WEFTI_CHANNEL_MIXER || deadline_s <= 0;
        t->until_s = waits ? (double)INFINITY : t->now_s + deadline_s;
        list_peers(player, t, op);
    }
    for (; t->at_peer < t->n_peers; t->at_peer++) {
        int from = rank_of(&group, t->peers[t->at_peer]);
        uint64_t key = key_of(op, from, t->rank);
        wefti_posted *posted = wefti_event_queue_find(&player->posts, key);
        if (!posted || isinf(posted->arrival_s)) {
            t->state = WEFTI_WAITS_MESSAGE;
            t->key = key;
            return wefti_play_alarm(player, t);
        }
        WEFT_TRY(take(player, t, op, posted, from));
    }
    t->at_peer = -1;
    *done = true;
    return WEFT_OK;
}

/* A mixer sends from one of two buffers; the message that was sent from it before must
 * have been read. */
bool wefti_wires_have_room(wefti_player *player, wefti_thread *t,
                           const wefti_action *op) {
    wefti_sim_rank *rank = &player->ranks[t->rank];
    int buffer = 2 * op->bucket + (int)(op->exchange & 1);
    bool shared = op->channel == WEFTI_CHANNEL_MIXER && op->round == 0 &&
                  player->job->mixer_config.deadline_s == 0;
    if (!shared) return true;
    if (rank->unread[buffer] > 0) {
        t->state = WEFTI_WAITS_ROOM;
        t->key = (uint64_t)buffer;
        return false;
    }
    if (rank->read_s[buffer] > t->now_s) {
        wefti_play_note(player, t, WEFTI_CLASS_LATE, t->now_s, rank->read_s[buffer]);
        t->now_s = rank->read_s[buffer];
    }
    return true;
}

weft_status wefti_wires_wake(wefti_player *player, wefti_thread *t) {
    bool done;
    bool receives = t->state == WEFTI_WAITS_MESSAGE;
    t->state = WEFTI_RUNS;
    t->mark++;
    if (!receives) {
        const wefti_sim_rank *rank = &player->ranks[t->rank];
        double read_s = rank->read_s[t->key];
        if (read_s > t->now_s) {
            wefti_play_note(player, t, WEFTI_CLASS_LATE, t->now_s, read_s);
            t->now_s = read_s;
        }
        return wefti_play_at(player, t, t->now_s);
    }
    WEFT_TRY(wefti_wires_receive(player, t, &t->actions[t->at_action], &done));
    if (!done) return WEFT_OK;
    t->at_action++;
    t->piece++;
    return wefti_play_at(player, t, t->now_s);
}
