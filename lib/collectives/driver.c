/* SPDX-License-Identifier: MIT */
/* Where messages are stored. A slot holds what one exchange of a bucket sends in one round:
 *
 *     ALL, answers    | head | payload |
 *     EACH, OWNER     | head | about member 0 | head | about member 1 | ...
 *
 * The slots of a bucket are used in turn, so that a slow reader delays nothing for
 * n_buffers - 1 exchanges; a slot is written when all readers of its old contents are done.
 * With a deadline there is no waiting: a slot that is free now is used, or nothing is sent.
 *
 * Tags are (step, bucket, stage + round); with a deadline stage + 2 and the number of the
 * message (stream.h). */
#include "collectives/driver.h"

#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/stream.h"
#include "comm/local.h"
#include "comm/sent.h"

enum { STREAM_STAGE = WEFTI_DRIVER_ROUNDS };

typedef struct slot {
    unsigned char *bytes; /* owned; NULL: messages are in the method's memory */
    int64_t step;         /* step of the messages in it; -1: nothing reads them */
    double sent_s;
} slot;

struct wefti_driver {
    wefti_driver_setup setup;
    slot *slots;           /* [n_buckets][WEFTI_DRIVER_ROUNDS][n_buffers] */
    wefti_streams streams; /* with a deadline */
    bool *here;            /* [comm->size] members whose messages are held until finish */
};

wefti_party wefti_party_all(const wefti_comm *comm) {
    return (wefti_party){.n = comm->size, .me = comm->rank};
}

void wefti_exchange_note(wefti_exchange_times *times, const wefti_comm *comm,
                         double start_s, double wait_begin_s) {
    double end_s = comm->arrival_s;
    if (start_s < times->covered_s) start_s = times->covered_s;
    if (end_s > start_s) times->exchange_s += end_s - start_s;
    if (end_s > times->covered_s) times->covered_s = end_s;
    if (end_s > wait_begin_s) times->waited_s += end_s - wait_begin_s;
}

/* --- memory --- */

static int64_t cost(int64_t n_bytes) {
    return n_bytes > 0 ? (int64_t)wefti_alloc_cost((size_t)n_bytes) : 0;
}

int64_t wefti_driver_bucket_bytes(const int64_t room[WEFTI_DRIVER_ROUNDS],
                                  int n_buffers) {
    return n_buffers * (cost(room[0]) + cost(room[1]));
}

int64_t wefti_driver_bytes(int n_buckets, int n_buffers, bool deadline, int R) {
    int64_t n_slots = (int64_t)n_buckets * WEFTI_DRIVER_ROUNDS * n_buffers;
    return cost((int64_t)sizeof(wefti_driver)) + cost(n_slots * (int64_t)sizeof(slot)) +
           cost(R) + (deadline ? cost(wefti_streams_bytes(n_buckets, R)) : 0);
}

static weft_status make(wefti_driver *d) {
    const wefti_driver_setup *s = &d->setup;
    int64_t n = (int64_t)s->n_buckets * WEFTI_DRIVER_ROUNDS * s->n_buffers;
    WEFT_TRY(wefti_alloc_n(s->ctx, n, sizeof(slot), "messages", &d->slots));
    for (int64_t i = 0; i < n; i++) d->slots[i].step = -1;
    WEFT_TRY(wefti_alloc_n(s->ctx, s->comm->size, sizeof(bool), "messages", &d->here));
    if (s->deadline_s == 0) return WEFT_OK;
    wefti_streams_setup streams = {s->ctx, s->comm, s->stage + STREAM_STAGE, s->n_buckets,
                                   s->steps};
    return wefti_streams_init(&streams, &d->streams);
}

weft_status wefti_driver_create(const wefti_driver_setup *setup, wefti_driver **out) {
    *out = NULL;
    wefti_driver *d;
    WEFT_TRY(wefti_alloc(setup->ctx, sizeof *d, "an exchange", &d));
    d->setup = *setup;
    WEFTI_TRY_OR(make(d), wefti_driver_destroy(d));
    *out = d;
    return WEFT_OK;
}

void wefti_driver_destroy(wefti_driver *d) {
    if (!d) return;
    const wefti_driver_setup *s = &d->setup;
    int64_t n = (int64_t)s->n_buckets * WEFTI_DRIVER_ROUNDS * s->n_buffers;
    for (int64_t i = 0; d->slots && i < n; i++) wefti_free(s->ctx, d->slots[i].bytes);
    wefti_streams_fini(&d->streams);
    WEFTI_FREE(s->ctx, d->slots, d->here, d);
}

static slot *slots_of(const wefti_driver *d, int bucket, int number) {
    WEFTI_ASSERT(bucket >= 0 && bucket < d->setup.n_buckets);
    WEFTI_ASSERT(number >= 0 && number < WEFTI_DRIVER_ROUNDS);
    int rounds = bucket * WEFTI_DRIVER_ROUNDS + number;
    return d->slots + (int64_t)rounds * d->setup.n_buffers;
}

weft_status wefti_driver_open(wefti_driver *d, int bucket,
                              const int64_t room[WEFTI_DRIVER_ROUNDS]) {
    WEFTI_ASSERT(d->setup.n_buffers >= 1);
    for (int number = 0; number < WEFTI_DRIVER_ROUNDS; number++)
        for (int i = 0; i < d->setup.n_buffers && room[number] > 0; i++)
            WEFT_TRY(wefti_alloc_n(d->setup.ctx, room[number], 1, "messages",
                                   &slots_of(d, bucket, number)[i].bytes));
    return WEFT_OK;
}

/* --- positions of messages --- */

static int64_t bytes_from(const wefti_driver *d, const wefti_round *round, int sender,
                          int member) {
    return d->setup.ops->bytes(d->setup.self, round, sender, member);
}

/* Of this rank's message about a member. */
static int64_t bytes_about(const wefti_driver *d, const wefti_round *round, int member) {
    return bytes_from(d, round, round->party.me, member);
}

static int head_bytes(const wefti_round *round) {
    return round->kinds[round->number] ? WEFTI_FRAME_BYTES : 0;
}

static slot *slot_of(const wefti_driver *d, const wefti_round *round) {
    bool inside = round->number == 1 && d->setup.answers_inside;
    return slots_of(d, round->bucket, inside ? 0 : round->number) +
           round->step % d->setup.n_buffers;
}

/* The offset of this rank's message about a member in its slot; me: this rank. */
static int64_t offset_of(const wefti_driver *d, const wefti_round *round, int me,
                         int member) {
    int64_t at = 0;
    WEFTI_ASSERT(member >= 0 && member < round->party.n);
    if (round->shape == WEFTI_SHAPE_ALL) return 0;
    if (round->number == 1 && !d->setup.answers_inside) return 0;
    for (int i = 0; i < member; i++) at += bytes_from(d, round, me, i);
    return at;
}

const unsigned char *wefti_driver_sent(const wefti_driver *d, const wefti_round *round,
                                       int member) {
    return slot_of(d, round)->bytes + offset_of(d, round, round->party.me, member) +
           head_bytes(round);
}

/* --- sending --- */

static int64_t tag_of(const wefti_driver *d, int64_t step, int bucket, int number) {
    return wefti_comm_tag(step, bucket, d->setup.stage + number);
}

/* The same on the wire; all members take part in what has no list of them. */
static int64_t tag_in(const wefti_driver *d, const wefti_round *round) {
    int64_t tag = tag_of(d, round->step, round->bucket, round->number);
    bool whole = !round->party.members && d->setup.deadline_s == 0;
    return whole ? wefti_comm_posted(d->setup.comm, tag) : tag;
}

static weft_status await_slot(wefti_driver *d, slot *s, int bucket, int number) {
    int last = d->setup.answers_inside ? WEFTI_DRIVER_ROUNDS - 1 : number;
    for (int i = number; i <= last && s->step >= 0; i++)
        WEFT_TRY(wefti_comm_await(d->setup.comm, tag_of(d, s->step, bucket, i)));
    s->step = -1;
    return WEFT_OK;
}

weft_status wefti_driver_await(wefti_driver *d, int bucket, int number) {
    for (int i = 0; i < d->setup.n_buffers; i++)
        WEFT_TRY(await_slot(d, slots_of(d, bucket, number) + i, bucket, number));
    return WEFT_OK;
}

/* *bytes: the buffer for the round's messages, once nothing reads its old contents; NULL if
 * the method uses its own memory. *taken is false if, with a deadline, no slot is free now. */
static weft_status take_slot(wefti_driver *d, const wefti_round *round,
                             unsigned char **bytes, bool *taken) {
    slot *mine = slot_of(d, round);
    *taken = true;
    *bytes = mine->bytes;
    if (d->setup.deadline_s > 0) {
        slot *all = slots_of(d, round->bucket, 0);
        for (int i = 0; i < d->setup.n_buffers; i++) {
            *bytes = all[i].bytes;
            if (!wefti_comm_holds(d->setup.comm, *bytes)) return WEFT_OK;
        }
        *taken = false;
        return WEFT_OK;
    }
    if (round->number == 0 || !d->setup.answers_inside)
        WEFT_TRY(await_slot(d, mine, round->bucket, round->number));
    WEFTI_ASSERT(mine->step == -1 || mine->step == round->step);
    mine->step = round->step;
    return WEFT_OK;
}

static wefti_frame frame_of(const wefti_round *round, int sender, int64_t n_bytes) {
    WEFTI_ASSERT(!round->kinds[round->number] || n_bytes == 0 ||
                 n_bytes >= WEFTI_FRAME_BYTES);
    return (wefti_frame){.kind = round->kinds[round->number],
                         .step = round->step,
                         .bucket = round->bucket,
                         .sender = sender,
                         .payload_bytes = n_bytes - WEFTI_FRAME_BYTES};
}

static void seal(const wefti_driver *d, const wefti_round *round, unsigned char *message,
                 int64_t n_bytes) {
    wefti_frame frame = frame_of(round, d->setup.comm->rank, n_bytes);
    if (n_bytes > 0) wefti_frame_encode(&frame, message);
}

static int rank_of(const wefti_party *party, int member) {
    WEFTI_ASSERT(member >= 0 && member < party->n);
    return party->members ? party->members[member] : member;
}

/* Whether a member sends nothing in this round because it is a learner. Messages of mixers in
 * a step may depend on its parameters after the step before, so they begin a step later. */
static bool is_silent(const wefti_driver *d, const wefti_round *round, int member) {
    int64_t later = d->setup.stage >= WEFTI_MIXER_STAGE;
    return (round->number == 0 || d->setup.own_answers) &&
           wefti_comm_is_learner(d->setup.comm, rank_of(&round->party, member),
                                 round->step - later);
}

/* For whoever computes the run again: the digest of what is sent. */
static void digest(const wefti_driver *d, const wefti_round *round, int receiver,
                   const void *message, int64_t n_bytes) {
    if (d->setup.comm->sent)
        wefti_sent_count(d->setup.comm->sent, round->step, round->number,
                         tag_of(d, round->step, round->bucket, round->number), receiver,
                         message, n_bytes);
}

static weft_status send_to(wefti_driver *d, const wefti_round *round, int rank,
                           const void *message, int64_t n_bytes) {
    WEFTI_ASSERT(rank >= 0 && rank < d->setup.comm->size && rank != d->setup.comm->rank);
    int64_t tag = tag_in(d, round);
    if (d->setup.deadline_s > 0)
        return wefti_stream_send(&d->streams, rank, round->bucket, message, n_bytes);
    bool part = round->shape == WEFTI_SHAPE_OWNER && round->number == 0 &&
                !d->setup.own_answers;
    if (part && !d->setup.here_only)
        return wefti_comm_send_part(d->setup.comm, rank, tag, message, n_bytes);
    return wefti_comm_send(d->setup.comm, rank, tag, message, n_bytes);
}

/* Sends to all targets, beginning with the next one after this rank, so that not all ranks
 * send to the same one first. */
static weft_status send_to_all(wefti_driver *d, const wefti_round *round,
                               const void *message, int64_t n_bytes) {
    const wefti_party *p = &round->party;
    int n = p->targets ? p->n_targets : p->n, me = d->setup.comm->rank, first = 0;
    const int *targets = p->targets ? p->targets : p->members;
    int64_t tag = tag_in(d, round);
    if (n_bytes == 0) return wefti_comm_publish(d->setup.comm, tag);
    digest(d, round, -1, message, n_bytes);
    if (wefti_comm_is_posted(tag))
        return wefti_comm_send_all(d->setup.comm, tag, message, n_bytes);
    while (first < n && (targets ? targets[first] : first) < me) first++;
    for (int k = 0; k < n; k++) {
        int i = (first + k) % n, rank = targets ? targets[i] : i;
        if (rank != me) WEFT_TRY(send_to(d, round, rank, message, n_bytes));
    }
    return WEFT_OK;
}

static const void *raw_of(const wefti_driver *d, const wefti_round *round, int member) {
    return d->setup.ops->raw(d->setup.self, round, member);
}

/* Sends the message about a member; the message about this rank itself is only encoded. */
static weft_status send_about(wefti_driver *d, const wefti_round *round, int member,
                              unsigned char *message) {
    int64_t n_bytes = bytes_about(d, round, member);
    const void *data = message;
    bool mine = member == round->party.me;
    if (n_bytes == 0) return WEFT_OK;
    if (!round->kinds[0]) {
        data = raw_of(d, round, member);
    } else {
        WEFT_TRY(d->setup.ops->encode(d->setup.self, round, member,
                                      message + WEFTI_FRAME_BYTES));
        if (!mine) seal(d, round, message, n_bytes);
    }
    int rank = rank_of(&round->party, member);
    if (mine) return WEFT_OK;
    digest(d, round, rank, data, n_bytes);
    return send_to(d, round, rank, data, n_bytes);
}

/* Sends to each member, this rank's own message last: the others wait. */
static weft_status send_each(wefti_driver *d, const wefti_round *round,
                             unsigned char *bytes) {
    int n = round->party.n;
    int64_t at = 0;
    WEFTI_ASSERT(round->party.me >= 0 && round->party.me < n);
    for (int i = 0; i <= round->party.me && round->kinds[0]; i++)
        at += bytes_about(d, round, i);
    for (int k = 1; k <= n; k++) {
        int member = (round->party.me + k) % n;
        if (member == 0) at = 0;
        WEFT_TRY(send_about(d, round, member, bytes ? bytes + at : NULL));
        if (round->kinds[0]) at += bytes_about(d, round, member);
    }
    return wefti_comm_publish(d->setup.comm, tag_in(d, round));
}

weft_status wefti_driver_send(wefti_driver *d, wefti_round *round) {
    unsigned char *bytes;
    bool taken;
    round->number = 0;
    WEFT_TRY(take_slot(d, round, &bytes, &taken));
    if (!taken) return WEFT_OK;
    slot_of(d, round)->sent_s = wefti_now_s();
    if (is_silent(d, round, round->party.me))
        return wefti_comm_publish(d->setup.comm, tag_in(d, round));
    if (round->shape != WEFTI_SHAPE_ALL) return send_each(d, round, bytes);
    int64_t n_bytes = bytes_about(d, round, round->party.me);
    if (n_bytes > 0)
        WEFT_TRY(d->setup.ops->encode(d->setup.self, round, round->party.me,
                                      bytes + WEFTI_FRAME_BYTES));
    seal(d, round, bytes, n_bytes);
    return send_to_all(d, round, bytes, n_bytes);
}

/* --- receiving --- */

/* Counts a message that was added. */
static void count(const wefti_driver *d, wefti_round *round, int member) {
    WEFTI_ASSERT(round->counted < round->party.n); /* each message at most once */
    const double *weights = d->setup.comm->weights;
    round->counted++;
    round->weight += weights ? weights[rank_of(&round->party, member)] : 1;
}

/* The message of member i about a lost member, with its head; *in NULL: member i is lost as
 * well. */
static weft_status part_about(wefti_driver *d, const wefti_round *parts,
                              const wefti_lost *lost, int i, const void **in) {
    wefti_comm *comm = d->setup.comm;
    int gone = parts->party.me, rank = rank_of(&parts->party, i);
    int64_t n_bytes = bytes_from(d, parts, i, gone);
    wefti_frame frame = frame_of(parts, rank, n_bytes);
    if (rank == comm->rank) {
        *in = parts->kinds[0] ? slot_of(d, parts)->bytes + offset_of(d, parts, i, gone)
                              : raw_of(d, parts, gone);
        return WEFT_OK;
    }
    WEFT_TRY(wefti_comm_receive_part(comm, lost, rank, n_bytes, in));
    if (!*in || !frame.kind) return WEFT_OK;
    return wefti_frame_check(d->setup.ctx, &frame, *in, n_bytes);
}

/* Adds what the others sent about a lost member, and writes that member's answer. */
static weft_status add_parts(wefti_driver *d, const wefti_round *round,
                             wefti_round *parts, const wefti_lost *lost,
                             unsigned char *answer) {
    int64_t n_answer = bytes_about(d, round, parts->party.me);
    for (int i = 0; i < parts->party.n; i++) {
        const void *in = NULL;
        if (!is_silent(d, parts, i)) WEFT_TRY(part_about(d, parts, lost, i, &in));
        d->here[i] = in && rank_of(&parts->party, i) != d->setup.comm->rank;
        if (!in) continue;
        WEFT_TRY(d->setup.ops->add(d->setup.self, parts, i,
                                   (const unsigned char *)in + head_bytes(parts)));
        count(d, parts, i);
    }
    if (parts->counted == 0) return WEFT_OK; /* all who had any are lost, too */
    if (parts->weight == 0) parts->weight = 1;
    bool framed = round->kinds[1];
    WEFT_TRY(d->setup.ops->finish(d->setup.self, parts,
                                  framed ? answer + WEFTI_FRAME_BYTES : NULL));
    wefti_frame frame = frame_of(round, lost->peer, n_answer);
    if (framed)
        wefti_frame_encode(&frame, answer);
    else
        memcpy(answer, raw_of(d, round, parts->party.me), (size_t)n_answer);
    for (int i = 0; i < parts->party.n; i++)
        if (d->here[i])
            wefti_comm_release_part(d->setup.comm, lost, rank_of(&parts->party, i));
    return WEFT_OK;
}

/* An owner is lost, and no rank has its answer: all ranks get the parts, add them in the
 * same order, and thus compute the answer. *none: there are no parts, so there is no answer. */
static weft_status answer_for(wefti_driver *d, const wefti_round *round, int gone,
                              int64_t membership, bool *none) {
    wefti_round parts = *round;
    unsigned char *answer;
    int64_t n_answer = bytes_about(d, round, gone);
    wefti_lost lost = {.peer = rank_of(&round->party, gone),
                       .tag = tag_of(d, round->step, round->bucket, 1),
                       .part_tag = tag_of(d, round->step, round->bucket, 0),
                       .view = membership};
    parts.number = parts.counted = 0;
    parts.weight = 0;
    parts.party.me = gone;
    WEFT_TRY(wefti_alloc_n(d->setup.ctx, n_answer, 1, "an answer", &answer));
    weft_status status = add_parts(d, round, &parts, &lost, answer);
    *none = parts.counted == 0;
    if (status == WEFT_OK && !*none)
        status = wefti_comm_replace(d->setup.comm, &lost, answer, n_answer);
    wefti_free(d->setup.ctx, answer);
    return status;
}

/* Waits for a member's message, whose sender may be lost. */
static weft_status receive_piece(wefti_driver *d, const wefti_round *round, int member,
                                 int64_t n_bytes, const void **in) {
    int64_t tag = tag_in(d, round);
    bool owned = round->shape == WEFTI_SHAPE_OWNER && !d->setup.own_answers;
    bool answers = owned && round->number == 1;
    bool own = d->setup.here_only || (owned && !answers);
    bool alone = d->setup.own_answers && !own && round->number == 1;
    wefti_piece_kind kind = own     ? WEFTI_PIECE_OWN
                            : alone ? WEFTI_PIECE_ALONE
                                    : WEFTI_PIECE_SAME;
    wefti_received piece;
    for (bool none = false; !none;) {
        WEFT_TRY(wefti_comm_receive_piece(d->setup.comm, rank_of(&round->party, member),
                                          tag, n_bytes, kind, &piece));
        *in = piece.view;
        if (*in || !answers || own) return WEFT_OK;
        WEFT_TRY(answer_for(d, round, member, piece.membership, &none));
    }
    return WEFT_OK;
}

/* Waits for a member's message. *in NULL: it does not count. Lost peers are handled here,
 * for all methods. */
static weft_status receive_from(wefti_driver *d, const wefti_round *round, int member,
                                int64_t n_bytes, double until_s, const void **in) {
    wefti_comm *comm = d->setup.comm;
    wefti_exchange_times *times = d->setup.times;
    int rank = rank_of(&round->party, member);
    wefti_frame frame = frame_of(round, rank, n_bytes);
    double begin_s = wefti_now_s();
    if (d->setup.deadline_s > 0)
        WEFT_TRY(wefti_stream_receive(&d->streams, &frame, until_s, in));
    else
        WEFT_TRY(receive_piece(d, round, member, n_bytes, in));
    if (times && *in)
        wefti_exchange_note(times, comm, slot_of(d, round)->sent_s, begin_s);
    if (times && !*in) times->waited_s += wefti_now_s() - begin_s, times->late++;
    if (!*in || d->setup.deadline_s > 0 || !frame.kind) return WEFT_OK;
    return wefti_frame_check(d->setup.ctx, &frame, *in, n_bytes);
}

static void release(wefti_driver *d, const wefti_round *round, int member) {
    int rank = rank_of(&round->party, member);
    if (d->setup.deadline_s > 0)
        wefti_stream_release(&d->streams, rank, round->bucket);
    else
        wefti_comm_release(d->setup.comm, rank, tag_in(d, round));
}

/* Adds one member's message, if there is one. *held: it has to be released later. */
static weft_status add_member(wefti_driver *d, wefti_round *round, int member,
                              double until_s, bool *held) {
    bool about_me = round->shape == WEFTI_SHAPE_OWNER && round->number == 0;
    bool mine = member == round->party.me;
    int64_t n_bytes = bytes_from(d, round, member, about_me ? round->party.me : member);
    const void *message = NULL;
    *held = false;
    if (n_bytes == 0 || is_silent(d, round, member)) return WEFT_OK;
    if (!mine) {
        WEFT_TRY(receive_from(d, round, member, n_bytes, until_s, &message));
        if (!message) return WEFT_OK;
    } else if (about_me && wefti_local_skips(d->setup.comm, d->setup.comm->rank,
                                             tag_of(d, round->step, round->bucket, 0))) {
        return WEFT_OK; /* replay: this rank was lost, the others added without it */
    } else if (round->kinds[round->number]) {
        message = slot_of(d, round)->bytes + offset_of(d, round, round->party.me, member);
    } else {
        message = raw_of(d, round, member);
    }
    WEFT_TRY(d->setup.ops->add(d->setup.self, round, member,
                               (const unsigned char *)message + head_bytes(round)));
    count(d, round, member);
    *held = !mine;
    return WEFT_OK;
}

/* Receives all members' messages of a round, then calls finish. */
static weft_status collect(wefti_driver *d, wefti_round *round, unsigned char *answer) {
    bool together = round->together && round->number == 0;
    WEFTI_ASSERT(round->party.n <= d->setup.comm->size);
    double until_s = wefti_now_s() + d->setup.deadline_s;
    round->counted = 0;
    round->weight = 0;
    for (int i = 0; i < round->party.n; i++) {
        WEFT_TRY(add_member(d, round, i, until_s, &d->here[i]));
        if (!together && d->here[i]) release(d, round, i);
    }
    WEFTI_ASSERT(round->counted <= round->party.n);
    if (round->weight == 0) round->weight = 1; /* of nothing */
    if (round->counted > 0) WEFT_TRY(d->setup.ops->finish(d->setup.self, round, answer));
    for (int i = 0; i < round->party.n && together; i++)
        if (d->here[i]) release(d, round, i);
    return WEFT_OK;
}

weft_status wefti_driver_answer(wefti_driver *d, wefti_round *round) {
    unsigned char *bytes;
    bool taken;
    WEFTI_ASSERT(round->shape == WEFTI_SHAPE_OWNER);
    round->number = 1;
    int64_t n_bytes = bytes_about(d, round, round->party.me);
    int64_t at = offset_of(d, round, round->party.me, round->party.me);
    WEFT_TRY(take_slot(d, round, &bytes, &taken));
    if (bytes) bytes += at;
    round->number = 0;
    WEFT_TRY(collect(d, round, bytes ? bytes + WEFTI_FRAME_BYTES : NULL));
    round->number = 1;
    slot_of(d, round)->sent_s = wefti_now_s();
    if (is_silent(d, round, round->party.me))
        return wefti_comm_publish(d->setup.comm, tag_in(d, round));
    if (!bytes) return send_to_all(d, round, raw_of(d, round, round->party.me), n_bytes);
    seal(d, round, bytes, n_bytes);
    return send_to_all(d, round, bytes, n_bytes);
}

weft_status wefti_driver_receive(wefti_driver *d, wefti_round *round) {
    round->number = round->shape == WEFTI_SHAPE_OWNER ? 1 : 0;
    if (d->setup.deadline_s > 0)
        WEFT_TRY(wefti_streams_catch_up(&d->streams, round->bucket, round->step));
    return collect(d, round, NULL);
}
