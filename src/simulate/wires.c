/* SPDX-License-Identifier: MIT */
/* Messages on their way, on the emulated wire (comm/local.c) as on a real one:
 *
 *     start   = max(now, out_free)           out_free = start + busy
 *     arrival = max(start + latency, in_free) + busy      in_free = arrival
 *
 * The receiver's interface is booked when the message's head gets there, so whoever comes
 * first goes first. */
#include <math.h>

#include "base/memory.h"
#include "simulate/stage.h"

wefti_sim_members wefti_stage_members(const wefti_stage *stage,
                                      const wefti_sim_rank *rank, wefti_channel channel) {
    const wefti_job *job = stage->job;
    int S = stage->S, n = job->site_replicas, replica = rank->replica;
    if (channel == WEFTI_CHANNEL_VOTE)
        return (wefti_sim_members){0, 1, stage->W, replica * S + rank->shard};
    if (channel == WEFTI_CHANNEL_NEAR)
        return (wefti_sim_members){replica / n * n * S + rank->shard, S, n, replica % n};
    if (job->sites == 1) return (wefti_sim_members){rank->shard, S, job->R, replica};
    return (wefti_sim_members){replica % n * S + rank->shard, n * S, job->sites,
                               replica / n};
}

static int rank_of(const wefti_sim_members *group, int member) {
    return group->first + member * group->stride;
}

/* Unique among messages that may be on their way at once. */
static uint64_t key_of(const wefti_op *op, int from, int to) {
    uint64_t name = (uint64_t)op->channel * 2 + (uint64_t)op->round;
    return ((((name << 14 | (uint64_t)from) << 14 | (uint64_t)to) << 13 |
             (uint64_t)op->bucket)
            << 14) |
           ((uint64_t)op->exchange & 0x3fff);
}

static weft_status arrive(wefti_stage *stage, int to, uint64_t key) {
    for (int i = 0; i < WEFTI_THREADS; i++) {
        wefti_thread *t = &stage->threads[to + i * stage->W];
        if (t->state == WEFTI_WAITS_MESSAGE && t->key == key)
            return wefti_stage_wake(stage, t);
    }
    return WEFT_OK;
}

static weft_status add_flight(wefti_stage *stage, wefti_sim_flight flight, int64_t *out) {
    if (stage->free_flight < 0) {
        int64_t n = stage->flight_room, room = 2 * n + 256;
        WEFT_TRY(
            wefti_grow(stage->ctx, &stage->flights, n, room, sizeof flight, "messages"));
        for (int64_t i = room - 1; i >= n; i--) {
            stage->flights[i].next_free = stage->free_flight;
            stage->free_flight = i;
        }
        stage->flight_room = room;
    }
    *out = stage->free_flight;
    stage->free_flight = stage->flights[*out].next_free;
    stage->flights[*out] = flight;
    return WEFT_OK;
}

/* The way of one message. */
typedef struct way {
    wefti_link_class link;
    wefti_interface *from, *to;
    int to_index, pair; /* pair: -1 if it is like all */
    double busy_s;      /* of the interfaces */
    double transit_s;   /* of the way between them, if slower */
    double latency_s;
} way;

static way find_way(const wefti_stage *stage, const wefti_sim_rank *a,
                    const wefti_sim_rank *b, int64_t n_bytes) {
    const wefti_scene *scene = stage->scene;
    way w = {.link = a->node == b->node   ? WEFTI_LINK_LOCAL
                     : a->site == b->site ? WEFTI_LINK_WIRE
                                          : WEFTI_LINK_SITE,
             .pair = -1};
    const wefti_scene_link *link = &scene->links[w.link];
    bool far = w.link == WEFTI_LINK_SITE;
    double all = (double)n_bytes * link->stretch + link->bytes_per_message;
    w.latency_s = link->latency_s;
    if (link->bandwidth_Bps > 0) w.busy_s = w.transit_s = all / link->bandwidth_Bps;
    if (w.link == WEFTI_LINK_LOCAL) return w;
    w.from = far ? &stage->sites[a->site] : &stage->nodes[a->node];
    w.to = far ? &stage->sites[b->site] : &stage->nodes[b->node];
    w.to_index = far ? b->site : b->node;
    int n = stage->R / stage->job->copies, pair = a->node * n + b->node;
    if (!scene->pair_bandwidth_Bps || scene->pair_bandwidth_Bps[pair] <= 0) return w;
    w.pair = pair;
    w.latency_s = scene->pair_latency_s[pair];
    w.transit_s = all / scene->pair_bandwidth_Bps[pair];
    if (w.transit_s < w.busy_s || link->bandwidth_Bps <= 0) w.busy_s = w.transit_s;
    return w;
}

/* Books the sender's interface; returns when the message's last byte would be through
 * the way, were the receiver's interface free, less its time in it. */
static double leave(wefti_stage *stage, const way *w, double now_s) {
    double start_s = fmax(now_s, w->from->out_free_s);
    w->from->out_free_s = start_s + w->busy_s;
    if (w->pair >= 0) {
        double *free_s = &stage->pair_free_s[w->pair];
        start_s = fmax(start_s, *free_s);
        *free_s = start_s + w->transit_s;
    }
    return start_s + w->latency_s + w->transit_s - w->busy_s;
}

static void count(wefti_stage *stage, const wefti_sim_rank *a, const way *w,
                  int64_t n_bytes) {
    stage->n_messages++;
    if (w->link != WEFTI_LINK_LOCAL && a->step >= stage->play->warmup)
        stage->play->wire_bytes += (double)n_bytes;
}

static weft_status send_one(wefti_stage *stage, wefti_thread *t, int to, uint64_t key,
                            int64_t n_bytes) {
    const wefti_sim_rank *a = &stage->ranks[t->rank], *b = &stage->ranks[to];
    way w = find_way(stage, a, b, n_bytes);
    t->now_s += stage->scene->links[w.link].message_s;
    count(stage, a, &w, n_bytes);
    double sent_s = t->now_s;
    bool booked = w.link == WEFTI_LINK_LOCAL || w.busy_s <= 0;
    double head_s = w.link == WEFTI_LINK_LOCAL ? sent_s + w.latency_s
                                               : leave(stage, &w, sent_s);
    if (w.link != WEFTI_LINK_LOCAL && t->rank / stage->S == 0 && stage->shows)
        wefti_stage_show(stage, 2, (int)((key >> 14) & 0x1fff), "message",
                         w.from->out_free_s - w.busy_s, w.from->out_free_s);
    if (!booked) {
        int64_t flight;
        WEFT_TRY(wefti_event_queue_post(&stage->board, key, sent_s, (double)INFINITY));
        WEFT_TRY(add_flight(stage,
                            (wefti_sim_flight){key, w.busy_s, to, w.to_index,
                                               w.link == WEFTI_LINK_SITE, 0},
                            &flight));
        return wefti_agenda_add(
            &stage->agenda,
            (wefti_event){head_s, 0, (int32_t)(WEFTI_THREADS * stage->W), flight});
    }
    WEFT_TRY(wefti_event_queue_post(&stage->board, key, sent_s, head_s + w.busy_s));
    return arrive(stage, to, key);
}

weft_status wefti_wires_land(wefti_stage *stage, int64_t number, double now_s) {
    wefti_sim_flight flight = stage->flights[number];
    wefti_interface *to = flight.far ? &stage->sites[flight.to_interface]
                                     : &stage->nodes[flight.to_interface];
    stage->flights[number].next_free = stage->free_flight;
    stage->free_flight = number;
    to->in_free_s = fmax(now_s, to->in_free_s) + flight.busy_s;
    wefti_posted *posted = wefti_event_queue_find(&stage->board, flight.key);
    if (posted) posted->arrival_s = to->in_free_s;
    return arrive(stage, flight.to_rank, flight.key);
}

/* --- rounds --- */

typedef struct sending {
    wefti_stage *stage;
    wefti_thread *thread;
    const wefti_op *op;
    wefti_sim_members group;
    weft_status status;
    int n;
} sending;

static void send_mixed(void *user, int peer, int64_t n_bytes) {
    sending *s = user;
    int to = rank_of(&s->group, peer);
    if (s->status != WEFT_OK) return;
    s->n++;
    s->status = send_one(s->stage, s->thread, to, key_of(s->op, s->thread->rank, to),
                         n_bytes);
}

/* Where the mixer's buffer of this exchange is. */
static int buffer_of(const wefti_op *op) {
    return 2 * op->bucket + (int)(op->exchange & 1);
}

static weft_status send_mixer(wefti_stage *stage, wefti_thread *t, const wefti_op *op) {
    wefti_sim_rank *rank = &stage->ranks[t->rank];
    sending s = {stage, t, op, wefti_stage_members(stage, rank, op->channel), WEFT_OK, 0};
    wefti_mixer_question q = wefti_phase_question(stage, rank, op->bucket, rank->step);
    const wefti_mixer_config *config = &stage->job->mixer_config;
    rank->sent_s[buffer_of(op)] = t->now_s;
    /* a receiver may read at once: unread is below zero until all are sent */
    wefti_mixer_find(config->kind)->messages(config, &q, &op->act, send_mixed, &s);
    rank->unread[buffer_of(op)] += s.n;
    return s.status;
}

static int64_t bytes_of(const wefti_stage *stage, const wefti_sim_rank *rank,
                        const wefti_op *op, int owner) {
    const wefti_scene_bucket *b = &stage->scene->shards[rank->shard].buckets[op->bucket];
    if (op->channel == WEFTI_CHANNEL_VOTE) return WEFTI_VOTE_BYTES;
    return (op->channel == WEFTI_CHANNEL_FAR ? &b->far : &b->near)
        ->bytes[op->round][owner];
}

weft_status wefti_wires_send(wefti_stage *stage, wefti_thread *t, const wefti_op *op) {
    const wefti_sim_rank *rank = &stage->ranks[t->rank];
    if (op->channel == WEFTI_CHANNEL_MIXER) return send_mixer(stage, t, op);
    wefti_sim_members group = wefti_stage_members(stage, rank, op->channel);
    for (int k = 1; k < group.n; k++) {
        int peer = (group.me + k) % group.n, to = rank_of(&group, peer);
        int64_t n_bytes = bytes_of(stage, rank, op, op->round ? group.me : peer);
        if (n_bytes > 0)
            WEFT_TRY(send_one(stage, t, to, key_of(op, t->rank, to), n_bytes));
    }
    return WEFT_OK;
}

static void note_peer(void *user, int peer, int64_t n_bytes) {
    sending *s = user;
    (void)n_bytes;
    s->thread->peers[s->thread->n_peers++] = peer;
}

static void list_peers(wefti_stage *stage, wefti_thread *t, const wefti_op *op) {
    const wefti_sim_rank *rank = &stage->ranks[t->rank];
    wefti_sim_members group = wefti_stage_members(stage, rank, op->channel);
    t->n_peers = t->at_peer = 0;
    if (op->channel == WEFTI_CHANNEL_MIXER) {
        sending s = {stage, t, op, group, WEFT_OK, 0};
        wefti_mixer_question q = wefti_phase_question(stage, rank, op->bucket,
                                                      rank->step);
        const wefti_mixer_config *config = &stage->job->mixer_config;
        wefti_mixer_find(config->kind)->messages(config, &q, &op->act, note_peer, &s);
        return;
    }
    for (int peer = 0; peer < group.n; peer++)
        if (peer != group.me &&
            bytes_of(stage, rank, op, op->round ? peer : group.me) > 0)
            t->peers[t->n_peers++] = peer;
}

/* A mixer's message was read: its buffer may be free again, and what was under way counts
 * as exchange (wefti_exchange_note). */
static weft_status note_read(wefti_stage *stage, wefti_thread *t, const wefti_op *op,
                             int from, double arrival_s) {
    wefti_sim_rank *me = &stage->ranks[t->rank], *sender = &stage->ranks[from];
    int buffer = buffer_of(op);
    double start_s = fmax(me->sent_s[buffer], me->covered_s);
    if (arrival_s > start_s) me->exchange_s += arrival_s - start_s;
    me->covered_s = fmax(me->covered_s, arrival_s);
    sender->read_s[buffer] = fmax(sender->read_s[buffer], t->now_s);
    if (--sender->unread[buffer] > 0) return WEFT_OK;
    for (int i = 0; i < WEFTI_THREADS; i++) {
        wefti_thread *other = &stage->threads[from + i * stage->W];
        if (other->state == WEFTI_WAITS_ROOM && other->key == (uint64_t)buffer)
            WEFT_TRY(wefti_stage_wake(stage, other));
    }
    return WEFT_OK;
}

static void wait_until(wefti_stage *stage, wefti_thread *t, double sent_s,
                       double arrival_s) {
    double late_s = fmin(fmax(sent_s, t->now_s), arrival_s);
    wefti_stage_note(stage, t, WEFTI_CLASS_LATE, t->now_s, late_s);
    wefti_stage_note(stage, t, WEFTI_CLASS_WIRE, late_s, arrival_s);
    t->now_s = arrival_s;
}

/* A message is there, or it is too late for it. */
static weft_status take(wefti_stage *stage, wefti_thread *t, const wefti_op *op,
                        wefti_posted *posted, int from) {
    double sent_s = posted->sent_s, arrival_s = posted->arrival_s;
    const wefti_sim_rank *a = &stage->ranks[from], *b = &stage->ranks[t->rank];
    wefti_link_class link = a->node == b->node ? WEFTI_LINK_LOCAL : WEFTI_LINK_WIRE;
    wefti_event_queue_take(&stage->board, posted);
    if (arrival_s > t->moment_s) {
        wait_until(stage, t, t->moment_s, fmax(t->now_s, t->moment_s));
    } else {
        double wake_s = stage->scene->emulated ? stage->scene->cluster->wake_s : 0;
        if (arrival_s > t->now_s) wait_until(stage, t, sent_s, arrival_s + wake_s);
        double end_s = t->now_s + stage->scene->links[link].message_s + op->seconds;
        wefti_stage_note(stage, t, WEFTI_CLASS_CODEC, t->now_s, end_s);
        t->now_s = end_s;
    }
    return op->channel == WEFTI_CHANNEL_MIXER ? note_read(stage, t, op, from, arrival_s)
                                              : WEFT_OK;
}

weft_status wefti_wires_receive(wefti_stage *stage, wefti_thread *t, const wefti_op *op,
                                bool *done) {
    const wefti_sim_rank *rank = &stage->ranks[t->rank];
    wefti_sim_members group = wefti_stage_members(stage, rank, op->channel);
    *done = false;
    if (t->at_peer < 0) {
        double deadline_s = stage->job->mixer_config.deadline_s;
        bool waits = op->channel != WEFTI_CHANNEL_MIXER || deadline_s <= 0;
        t->moment_s = waits ? (double)INFINITY : t->now_s + deadline_s;
        list_peers(stage, t, op);
    }
    for (; t->at_peer < t->n_peers; t->at_peer++) {
        int from = rank_of(&group, t->peers[t->at_peer]);
        uint64_t key = key_of(op, from, t->rank);
        wefti_posted *posted = wefti_event_queue_find(&stage->board, key);
        if (!posted || isinf(posted->arrival_s)) {
            t->state = WEFTI_WAITS_MESSAGE;
            t->key = key;
            return wefti_stage_alarm(stage, t);
        }
        WEFT_TRY(take(stage, t, op, posted, from));
    }
    t->at_peer = -1;
    *done = true;
    return WEFT_OK;
}
