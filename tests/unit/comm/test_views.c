/* SPDX-License-Identifier: MIT */
/* A run whose membership changes all the time (lib/mesh/elastic_worlds.c): in each of very many
 * views a rank gets the messages of its own world and none of the world before. A mesh of three
 * ranks without a thread; what is sent goes through its envelope and comes back as if the rank
 * that it was sent to had sent it. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "check.h"
#include "mesh/elastic.h"
#include "hub.h"
#include "member/memberstate.h"

enum { RANKS = 3, PER_HOUR = 250 /* a fault every 29 s, and the return */ };

typedef struct still {
    weft_ctx *ctx;
    weft_mesh mesh;
    weft_transport transport;
    wefti_peer peers[RANKS];
    int numbers[RANKS];
    wefti_comm *comm;
} still;

static void begin(still *s) {
    static const weft_transport_ops ops = {.struct_size = sizeof ops, .name = "none"};
    static const char *const hosts[RANKS] = {"a", "b", "c"};
    const wefti_world_shape shape = {
        .replicas = RANKS, .shards = 1, .replicas_per_node = 1, .sites = 1};
    const wefti_elastic_setup setup = {.shards = 1,
                                       .sites = 1,
                                       .per_site = RANKS,
                                       .units = 2,
                                       .run = 5,
                                       .policy = {.silence_s = 1e6, .pause_s = 1e6}};
    *s = (still){.transport = {.ops = &ops, .size = RANKS, .host = hosts}};
    for (int r = 0; r < RANKS; r++) s->numbers[r] = r;
    assert_int_equal(weft_ctx_create(&s->ctx), WEFT_OK);
    assert_int_equal(wefti_world_init(s->ctx, &s->mesh.world, &wefti_remote_ops, &shape),
                     WEFT_OK);
    s->mesh.ctx = s->ctx;
    s->mesh.transport = &s->transport;
    s->mesh.peers = s->peers;
    s->mesh.places.n_slots = RANKS;
    s->mesh.world.n_here = 1;
    s->mesh.places.peer_of = s->mesh.places.rank_of = s->numbers;
    assert_int_equal(pthread_mutex_init(&s->mesh.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&s->mesh.changed, NULL), 0);
    assert_int_equal(pthread_cond_init(&s->mesh.thread.wake, NULL), 0);
    assert_int_equal(wefti_elastic_start(s->ctx, &s->mesh, &setup), WEFT_OK);
}

static void end(still *s) {
    wefti_comm_destroy(s->comm);
    wefti_elastic_destroy(&s->mesh);
    while (s->mesh.outgoing.all) {
        wefti_parcel *next = s->mesh.outgoing.all->next_all;
        WEFTI_FREE(s->ctx, s->mesh.outgoing.all->own, s->mesh.outgoing.all);
        s->mesh.outgoing.all = next;
    }
    while (s->mesh.incoming.all) {
        wefti_arrival *next = s->mesh.incoming.all->next_all;
        WEFTI_FREE(s->ctx, s->mesh.incoming.all->data, s->mesh.incoming.all);
        s->mesh.incoming.all = next;
    }
    pthread_cond_destroy(&s->mesh.thread.wake);
    pthread_cond_destroy(&s->mesh.changed);
    pthread_mutex_destroy(&s->mesh.lock);
    pthread_mutex_destroy(&s->mesh.world.failure_lock);
    assert_int_equal(weft_ctx_bytes_held(s->ctx), 0);
    weft_ctx_destroy(s->ctx);
}

static void enter(still *s, int64_t view) {
    wefti_elastic_world world;
    s->mesh.elastic->view.number = view;
    wefti_comm_destroy(s->comm);
    wefti_elastic_enter(&s->mesh, &world);
    assert_int_equal(
        wefti_world_join(s->ctx, &s->mesh.world, 0, WEFTI_GROUP_REPLICA, 0, &s->comm),
        WEFT_OK);
}

/* The cut of the view says that the lost rank's messages of step 3 are with `holder`. */
static void name_holder(wefti_elastic *e, int lost, int holder) {
    e->at[lost].cut_of = 0;
    e->view.cut_low = 2;
    e->view.cut_steps = 1;
    for (int i = 0; i < e->limits.rounds * e->limits.parts; i++)
        e->view.holders[i] = holder;
}

/* The envelope of what was sent is read: the message as if it came from that rank, *peer; relayed:
 * from another one, for the rank is lost. */
static wefti_arrival *arrival_of(still *s, bool relayed, int *peer) {
    wefti_parcel *parcel = wefti_parcels_pop(&s->mesh.outgoing.submitted);
    wefti_envelope envelope;
    while (parcel->envelope.channel == WEFTI_CHANNEL_MEMBER) /* signs of life */
        parcel = wefti_parcels_pop(&s->mesh.outgoing.submitted);
    assert_true(wefti_envelope_decode(
        parcel->bytes, WEFTI_ENVELOPE_BYTES + parcel->envelope.n_bytes, &envelope));
    uint32_t about[2] = {(uint32_t)parcel->peer, (uint32_t)envelope.channel};
    size_t n = (size_t)envelope.n_bytes;
    wefti_arrival *arrival = wefti_incoming_room(&s->mesh, (int64_t)(n + sizeof about));
    assert_non_null(arrival);
    memcpy(arrival->data, parcel->bytes + WEFTI_ENVELOPE_BYTES, n);
    memcpy((char *)arrival->data + n, about, sizeof about);
    arrival->sender = relayed ? RANKS - parcel->peer : parcel->peer;
    arrival->channel = relayed ? WEFTI_CHANNEL_RELAY : envelope.channel;
    arrival->tag = envelope.tag;
    arrival->n_bytes = envelope.n_bytes + (relayed ? (int64_t)sizeof about : 0);
    arrival->taken = arrival->mine = false;
    *peer = parcel->peer;
    return arrival;
}

static void take(still *s, wefti_arrival *arrival, int peer, bool is_lost) {
    wefti_elastic *e = s->mesh.elastic;
    e->at[peer].departed = is_lost;
    if (!wefti_elastic_takes(&s->mesh, arrival)) fail_msg("not taken");
    e->at[peer].departed = false;
    e->at[peer].cut_of = -1;
}

static void bring_back(still *s, bool relayed) {
    int peer;
    wefti_arrival *arrival = arrival_of(s, relayed, &peer);
    if (relayed) name_holder(s->mesh.elastic, peer, arrival->sender);
    take(s, arrival, peer, relayed);
}

/* A message of this world that is not received is gone in the next one. */
static void live_through(still *s, int64_t view) {
    const int64_t tag = wefti_comm_tag(3, 1, 0);
    wefti_received got = {0};
    enter(s, view);
    assert_null(s->mesh.incoming.posted);
    for (int peer = 1; peer < RANKS; peer++) {
        int64_t said = 2 * view + peer;
        assert_int_equal(wefti_comm_send(s->comm, peer, tag, &said, sizeof said),
                         WEFT_OK);
        bring_back(s, peer == 2);
    }
    for (int peer = 1; peer < RANKS; peer++) {
        assert_int_equal(wefti_comm_receive_piece(s->comm, peer, tag, sizeof view,
                                                  WEFTI_PIECE_OWN, &got),
                         WEFT_OK);
        if (!got.view) fail_msg("view %lld: no message of %d", (long long)view, peer);
        assert_int_equal(*(const int64_t *)got.view, 2 * view + peer);
    }
    s->mesh.elastic->pieces.stable = 3;
}

TEST(messages_of_every_view_are_its_own) {
    const int64_t year = (int64_t)PER_HOUR * 24 * 365;
    still s;
    assert_true(year < WEFTI_MAX_VIEWS);
    begin(&s);
    for (int64_t view = 1; view <= 3000; view++) live_through(&s, view);
    for (int64_t view = year - 3; view < year; view++) live_through(&s, view);
    for (int64_t view = WEFTI_MAX_VIEWS - 2; view < WEFTI_MAX_VIEWS; view++)
        live_through(&s, view);
    end(&s);
}

/* Whether a lost rank's message that another one relays is handed to the ranks. */
static bool relay_counts(still *s, bool frozen, bool has_holder) {
    int peer;
    int64_t said = 7;
    s->mesh.elastic->pieces.stable = 3; /* so that the one before is gone */
    enter(s, s->mesh.elastic->view.number + 1);
    assert_null(s->mesh.incoming.posted);
    assert_int_equal(
        wefti_comm_send(s->comm, 2, wefti_comm_tag(3, 1, 0), &said, sizeof said),
        WEFT_OK);
    wefti_arrival *arrival = arrival_of(s, true, &peer);
    name_holder(s->mesh.elastic, peer, has_holder ? arrival->sender : -1);
    s->mesh.elastic->view.frozen = frozen;
    take(s, arrival, peer, true);
    s->mesh.elastic->view.frozen = false;
    return s->mesh.incoming.posted != NULL;
}

/* It may arrive late, for it was asked for under the cut before. While frozen this rank has said
 * already what it has; and a message that nobody is named for counts nowhere. */
TEST(a_relayed_message_counts_under_the_cut_that_names_its_holder) {
    still s;
    begin(&s);
    assert_true(relay_counts(&s, false, true));
    assert_false(relay_counts(&s, true, true));
    assert_false(relay_counts(&s, false, false));
    assert_true(relay_counts(&s, false, true));
    end(&s);
}

/* Whether a member's own message is handed to the ranks, though the ballot keeps this member. */
static bool piece_counts(still *s, bool frozen) {
    int peer;
    int64_t said = 7;
    wefti_elastic *e = s->mesh.elastic;
    e->pieces.stable = 3;
    enter(s, e->view.number + 1);
    assert_null(s->mesh.incoming.posted);
    assert_int_equal(
        wefti_comm_send(s->comm, 1, wefti_comm_tag(3, 1, 0), &said, sizeof said),
        WEFT_OK);
    wefti_arrival *arrival = arrival_of(s, false, &peer);
    for (int r = 0; r < RANKS; r++) e->machine.member->voter.stays[r] = true;
    assert_false(wefti_member_departs(e->machine.member, e->at[peer].id));
    e->view.frozen = frozen;
    take(s, arrival, peer, false);
    e->view.frozen = false;
    assert_int_equal(e->pieces.parked != NULL, frozen);
    return s->mesh.incoming.posted != NULL;
}

/* It has said what it has. A view that one of them accepted before may be the one that is decided,
 * in which this message counts nowhere. */
TEST(who_has_promised_a_ballot_takes_no_message_of_a_step) {
    still s;
    begin(&s);
    assert_true(piece_counts(&s, false));
    assert_false(piece_counts(&s, true));
    end(&s);
}

typedef struct asked {
    still s;
    int n, under_lock;
} asked;

static bool has_ended(void *user, uint64_t run, int64_t view) {
    asked *a = user;
    bool is_free = pthread_mutex_trylock(&a->s.mesh.lock) == 0;
    if (is_free) pthread_mutex_unlock(&a->s.mesh.lock);
    a->n++;
    a->under_lock += !is_free;
    return run == 5 && view == 1;
}

/* A guard has said that the run is over; `looks`: the rank's thread waits, and is to look, too.
 * Whether the sentence names the folder. */
static bool names_folder(asked *a, bool looks) {
    char text[1024];
    weft_status status;
    double until_s = INFINITY;
    begin(&a->s);
    weft_mesh *mesh = &a->s.mesh;
    wefti_elastic *e = mesh->elastic;
    e->setup.has_ended = has_ended;
    e->setup.user = a;
    e->setup.folder = "run";
    e->end.asks = e->machine.is_over = true;
    e->end.ask_s = looks ? 1e-9 : 0;
    pthread_mutex_lock(&mesh->lock);
    assert_int_equal(wefti_elastic_may_wait(mesh, &until_s), !looks);
    pthread_mutex_unlock(&mesh->lock);
    wefti_elastic_note_out(mesh, WEFTI_OUT_LEFT);
    wefti_world_failure(&mesh->world, &status, text);
    assert_non_null(strstr(text, WEFTI_ENDED_WITHOUT_IT));
    bool names = strstr(text, "; its results are in run");
    end(&a->s);
    return names;
}

/* The disk may be slow. Messages and signs of life need the lock, and the progress thread. */
TEST(the_folder_is_asked_without_the_lock_by_a_thread_that_waits) {
    asked a = {.n = 0};
    assert_false(names_folder(&a, false));
    assert_int_equal(a.n, 0); /* the progress thread has not */
    assert_true(names_folder(&a, true));
    assert_int_equal(a.n, 1);
    assert_int_equal(a.under_lock, 0);
}

/* Whether this process, which ends when nobody else is there any more, says in a folder that the
 * run has ended. Rank 1 has left, and `lost` says how rank 2 went. */
static bool notes_end(bool lost, int64_t view) {
    char folder[] = "/tmp/weft-ended-XXXXXX", path[64];
    still s;
    assert_non_null(mkdtemp(folder));
    begin(&s);
    s.mesh.elastic->setup.folder = folder;
    s.peers[1].left = true;
    s.peers[2].left = !lost;
    s.peers[2].lost = lost;
    wefti_elastic_tell_over(&s.mesh);
    end(&s);
    bool notes = wefti_ended_after(folder, 5, view);
    assert_false(wefti_ended_after(folder, 6, view)); /* another run */
    snprintf(path, sizeof path, "%s/ended-0000000000000005", folder);
    assert_int_equal(remove(path) == 0, notes || (!lost && view > 0));
    assert_int_equal(rmdir(folder), 0);
    return notes;
}

/* One who was lost may be going on with others, as far as this process knows. */
TEST(the_last_to_end_say_so_if_nobody_was_lost) {
    assert_true(notes_end(false, 0));
    assert_false(notes_end(true, 0));
    assert_false(notes_end(false, 1)); /* of one's own view nobody is behind */
}

static bool listens_at(const weft_transport *t, int peer, char *out, int size) {
    (void)t;
    snprintf(out, (size_t)size, "r%d", peer);
    return true;
}

static double rate_of(const weft_transport *t, int peer) {
    static const double rates_Bps[RANKS] = {1, 7e6, 3e6};
    (void)t;
    return rates_Bps[peer];
}

static int called_port; /* 0: its own */

static int turn_to(weft_transport *t, int peer, int k) {
    (void)t, (void)peer;
    return called_port = k;
}

static bool is_called_at(const weft_transport *t, int peer, char *out, int size) {
    (void)t;
    snprintf(out, (size_t)size, "r%d:%d", peer, called_port);
    return true;
}

/* The members were looked for at other ports of their machines, too. */
TEST(the_way_back_names_the_members_own_ports) {
    static const weft_transport_ops ops = {
        .name = "none", .where = is_called_at, .turn = turn_to};
    still s;
    begin(&s);
    s.transport.ops = &ops;
    s.mesh.elastic->at[2].turn = called_port = 3;
    wefti_elastic_note_way_back(&s.mesh, WEFTI_OUT_EVICTED);
    assert_string_equal(s.mesh.elastic->fate.way_back, "r1:3,r2:3,r2:0");
    end(&s);
}

/* Who lives knows where those of other copies listen; who has left does not need to. */
TEST(who_was_left_behind_knows_the_way_back) {
    static const weft_transport_ops ops = {.name = "none", .where = listens_at};
    static const struct {
        wefti_member_out out;
        bool replaced, wrong;
        int shards;
        const char *way;
    } cases[] = {{WEFTI_OUT_EVICTED, false, false, 1, "r1,r2"},
                 {WEFTI_OUT_NO_QUORUM, false, false, 2, "r2"},
                 {WEFTI_OUT_LEFT, false, false, 1, ""},
                 {WEFTI_OUT_LEFT, true, false, 1, "r1,r2"},
                 {WEFTI_OUT_LEFT, false, true, 1, "r1,r2"},
                 {WEFTI_OUT_REFUSED, false, false, 1, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        still s;
        begin(&s);
        s.transport.ops = &ops;
        s.mesh.elastic->fate.replaced = cases[i].replaced;
        s.mesh.elastic->fate.wrong = cases[i].wrong;
        s.mesh.elastic->setup.shards = cases[i].shards;
        wefti_elastic_note_way_back(&s.mesh, cases[i].out);
        assert_string_equal(s.mesh.elastic->fate.way_back, cases[i].way);
        end(&s);
    }
}

/* Of two that share a copy neither comes back if the other one does not, and says so. */
TEST(a_copy_comes_back_whole_or_not_at_all) {
    static const weft_transport_ops ops = {.name = "none", .where = listens_at};
    static const struct {
        int said;
        bool ended, comes;
        int64_t view; /* 0: it is on its way in, and they have nothing in common */
    } cases[] = {{1, false, true, 1}, {1, true, true, 1}, {-1, false, false, 1},
                 {0, true, false, 1}, {0, true, true, 0}, {-1, false, true, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char way[64];
        still s;
        begin(&s);
        s.transport.ops = &ops;
        s.mesh.elastic->setup.shards = 2;
        s.mesh.elastic->at[1].returns = cases[i].said;
        s.mesh.elastic->at[1].ended = cases[i].ended;
        s.mesh.elastic->view.number = cases[i].view;
        wefti_elastic_note_way_back(&s.mesh, WEFTI_OUT_EVICTED);
        assert_true(wefti_elastic_returns(&s.mesh));
        assert_int_equal(weft_mesh_way_back(&s.mesh, way, sizeof way), cases[i].comes);
        assert_int_equal(wefti_elastic_returns(&s.mesh), cases[i].comes);
        assert_int_equal(wefti_elastic_stays(&s.mesh), !cases[i].comes);
        end(&s);
    }
}

/* Of those on other machines that are there; what is not known is none. */
TEST(the_slowest_connection_tells_the_rate) {
    static const weft_transport_ops ops = {.name = "none", .rate = rate_of};
    static const struct {
        bool lost, here;
        double Bps;
    } cases[] = {{false, false, 3e6}, {true, false, 7e6}, {false, true, 7e6}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_elastic_rates rates = {.looked_s = -1};
        still s;
        begin(&s);
        s.transport.ops = &ops;
        s.peers[2].lost = cases[i].lost;
        s.peers[2].here = cases[i].here;
        wefti_elastic_watch_rate(&rates, &s.mesh, 1);
        assert_float_equal(wefti_elastic_usual_rate(&rates), cases[i].Bps, 0);
        end(&s);
    }
}

/* What an answer did without stays noted if the answer stands, and only its own is concerned. */
TEST(what_a_discarded_answer_missed_is_forgotten) {
    const wefti_missed of_it = {.tag = 17, .channel = 8, .receiver = 1, .sender = 2},
                       other = {.tag = 33, .channel = 8, .receiver = 1, .sender = 2};
    for (int stands = 0; stands <= 1; stands++) {
        still s;
        begin(&s);
        const wefti_elastic *e = s.mesh.elastic;
        pthread_mutex_lock(&s.mesh.lock);
        wefti_elastic_miss(&s.mesh, &of_it);
        wefti_elastic_miss(&s.mesh, &other);
        wefti_elastic_settle(&s.mesh, &of_it, stands);
        pthread_mutex_unlock(&s.mesh.lock);
        assert_int_equal(e->missed.n, 1 + stands);
        assert_int_equal(e->missed.list[0].tag, stands ? 17 : 33);
        assert_int_equal(e->missed.list[0].settled, stands);
        assert_int_equal(e->missed.list[e->missed.n - 1].settled, 0);
        end(&s);
    }
}

/* What rank 1 says that it did without: a message of that tag. */
static void hear(still *s, int64_t tag, int64_t rank, int64_t logged) {
    wefti_news news = {{.tag = tag, .receiver = 1, .sender = 2, .settled = 1},
                       logged,
                       rank,
                       s->mesh.elastic->at[1].id.incarnation};
    wefti_arrival arrival = {.sender = 1,
                             .channel = WEFTI_CHANNEL_MISSED,
                             .data = &news,
                             .n_bytes = sizeof news + 5};
    wefti_elastic_hear_missed(&s->mesh, &arrival);
}

/* Tags, of messages that the line of the next view says were done without. */
static void expect_missed(still *s, const char *tags) {
    char text[64] = "";
    wefti_missed *list;
    int n;
    assert_int_equal(wefti_elastic_missed(s->ctx, &s->mesh, &list, &n), WEFT_OK);
    for (int i = 0; i < n; i++) snprintf(text + strlen(text), 8, "%d ", (int)list[i].tag);
    wefti_free(s->ctx, list);
    assert_string_equal(text, tags);
}

/* Who is there brings along by itself what it did without. */
TEST(what_a_lost_rank_did_without_is_known_from_what_it_told) {
    still s;
    begin(&s);
    wefti_elastic *e = s.mesh.elastic;
    hear(&s, 17, 1, 0);
    hear(&s, 18, 3, 0); /* there is no such rank */
    hear(&s, 19, -1, 0);
    hear(&s, 20, 0, 0); /* this one knows that itself */
    hear(&s, 21, 1, 5); /* it is ahead, in a world that this rank enters now */
    expect_missed(&s, "");
    e->at[1].departed = true;
    expect_missed(&s, "17 ");
    e->at[1].departed = false;
    e->at[1].id.incarnation++; /* another process has its place */
    expect_missed(&s, "17 ");
    e->world.entered = 5;
    wefti_elastic_forget_missed(&s.mesh);
    expect_missed(&s, "21 ");
    hear(&s, 22, 1, 4); /* of a world whose line is written */
    expect_missed(&s, "21 ");
    end(&s);
}

/* Sends to a rank, and expects that it has to know n of the news before. */
static void expect_news(still *s, int channel, int64_t n) {
    wefti_elastic_post(&s->mesh, 2, channel, 0, NULL, 0);
    assert_int_equal(s->mesh.outgoing.submitted.last->n_news, n);
}

TEST(who_gets_a_message_that_may_count_is_told_what_its_sender_did_without) {
    const wefti_missed missed = {.tag = 9, .channel = 8, .settled = 1},
                       of_answer = {.tag = 10, .channel = 8};
    enum { MANY = 150, FIT = WEFTI_SHORT_BYTES / sizeof(wefti_news) };
    wefti_news out[FIT];
    int64_t n_bytes;
    still s;
    begin(&s);
    wefti_elastic *e = s.mesh.elastic;
    pthread_mutex_lock(&s.mesh.lock);
    for (int i = 0; i < MANY; i++) wefti_elastic_miss(&s.mesh, &missed);
    wefti_elastic_miss(&s.mesh, &of_answer); /* the answer may still be discarded */
    pthread_mutex_unlock(&s.mesh.lock);
    expect_news(&s, 8, MANY);
    expect_news(&s, WEFTI_CHANNEL_PART, MANY);
    expect_news(&s, WEFTI_CHANNEL_RELAY, MANY);
    expect_news(&s, WEFTI_CHANNEL_MEMBER, 0);
    pthread_mutex_lock(&s.mesh.lock);
    wefti_elastic_settle(&s.mesh, &of_answer, true);
    pthread_mutex_unlock(&s.mesh.lock);
    expect_news(&s, 8, MANY + 1);
    assert_int_equal(
        wefti_elastic_copy_news(&s.mesh, 0, MANY + 1, (unsigned char *)out, &n_bytes),
        FIT);
    assert_int_equal(n_bytes, sizeof out);
    assert_int_equal(out[0].missed.tag, 9);
    assert_int_equal(out[0].rank, 0);
    assert_int_equal(
        wefti_elastic_copy_news(&s.mesh, MANY, MANY + 1, (unsigned char *)out, &n_bytes),
        MANY + 1);
    assert_int_equal(out[0].missed.tag, 10);
    hear(&s, 17, 1, 0);
    hear(&s, 18, 2, 0);
    pthread_mutex_lock(&s.mesh.lock);
    wefti_elastic_pass_news(&s.mesh, 1);
    pthread_mutex_unlock(&s.mesh.lock);
    expect_news(&s, WEFTI_CHANNEL_RELAY, MANY + 2);
    assert_int_equal(e->missed.news[MANY + 1].missed.tag, 17);
    wefti_elastic_forget_missed(&s.mesh);
    expect_news(&s, 8, MANY + 2);
    assert_int_equal(/* all know it: the line is written */
                     wefti_elastic_copy_news(&s.mesh, 0, MANY + 2, (unsigned char *)out,
                                             &n_bytes),
                     MANY + 2);
    assert_int_equal(n_bytes, 0);
    end(&s);
}

/* A loop of one's own is not played again: nothing is noted that nobody would ever forget. */
TEST(a_loop_of_ones_own_notes_nothing) {
    const wefti_missed missed = {.tag = 9, .channel = 8, .settled = 1};
    still s;
    begin(&s);
    s.mesh.elastic->setup.policy.own_loop = true;
    pthread_mutex_lock(&s.mesh.lock);
    wefti_elastic_miss(&s.mesh, &missed);
    pthread_mutex_unlock(&s.mesh.lock);
    expect_missed(&s, "");
    assert_int_equal(wefti_elastic_news(s.mesh.elastic, 8), 0);
    end(&s);
}

/* A mixer's message is a piece of the step that mixes it; of gossip it is its receiver's alone. */
TEST(a_piece_is_of_the_step_that_applies_it) {
    static const struct {
        int stage;
        bool meets, is_piece;
        int64_t step;
    } cases[] = {{0, false, true, 3},
                 {1, true, true, 3},
                 {8, false, true, 5},
                 {8, true, false, 0}};
    still s;
    begin(&s);
    s.mesh.elastic->setup.delay = 2;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_piece_place place;
        s.mesh.elastic->setup.meets = cases[i].meets;
        bool is_piece = wefti_piece_of(s.mesh.elastic, WEFTI_GROUP_REPLICA * 8,
                                       wefti_comm_tag(3, 1, cases[i].stage), &place);
        assert_int_equal(is_piece, cases[i].is_piece);
        if (is_piece) assert_int_equal(place.step, cases[i].step);
    }
    end(&s);
}
