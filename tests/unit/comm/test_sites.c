/* SPDX-License-Identifier: MIT */
/* Sites that lose nodes (lib/mesh/elastic_sites.c): each rule of its law on a mesh without a thread
 * of its own, so that a view comes exactly where the test lets it come. Six ranks in two sites,
 *
 *     site 0:  0 1 2         site 1:  3 4 5         at its place a rank hears the one below it,
 *                                                   if that is lost the next one of the site
 *
 * What is sent lies in the queue of what the progress thread would take. */
#include <sched.h>
#include <string.h>

#include "base/memory.h"
#include "check.h"
#include "mesh/elastic.h"
#include "hub.h"

enum { RANKS = 6, NEVER = 1 << 20 };

typedef struct still {
    weft_mesh mesh;
    wefti_elastic elastic;
    weft_transport transport;
    weft_transport_ops ops;
    wefti_peer peers[RANKS];
    wefti_elastic_place at[RANKS];
    int ranks[RANKS];
    wefti_comm *site, *between;
    weft_ctx *ctx;
} still;

/* This process is rank `me`. */
static void begin(still *s, int me) {
    const wefti_world_shape shape = {
        .replicas = RANKS, .shards = 1, .replicas_per_node = 1, .sites = 2};
    *s = (still){.transport = {.size = RANKS, .rank = me}};
    s->transport.ops = &s->ops;
    assert_int_equal(weft_ctx_create(&s->ctx), WEFT_OK);
    assert_int_equal(wefti_world_init(s->ctx, &s->mesh.world, &wefti_remote_ops, &shape),
                     WEFT_OK);
    s->mesh.ctx = s->ctx;
    s->mesh.transport = &s->transport;
    s->mesh.world.first_here = s->mesh.rank = me;
    s->mesh.world.n_here = 1;
    s->mesh.places.n_slots = RANKS;
    s->mesh.peers = s->peers;
    assert_int_equal(pthread_mutex_init(&s->mesh.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&s->mesh.changed, NULL), 0);
    assert_int_equal(pthread_cond_init(&s->mesh.thread.wake, NULL), 0);
    for (int r = 0; r < RANKS; r++) s->ranks[r] = r, s->at[r].cut_of = -1;
    s->elastic = (wefti_elastic){
        .setup = {.shards = 1, .sites = 2, .per_site = 3, .units = 4},
        .size = RANKS,
        .at = s->at,
        .world.ranks = s->ranks,
        .world.n_ranks = RANKS,
        .world.me = me,
        .view.number = 1,
        .world.entered = 1};
    s->mesh.elastic = &s->elastic;
    assert_int_equal(
        wefti_world_join(s->ctx, &s->mesh.world, me, WEFTI_GROUP_REPLICA, 0, &s->site),
        WEFT_OK);
    assert_int_equal(
        wefti_world_join(s->ctx, &s->mesh.world, me, WEFTI_GROUP_SITES, 0, &s->between),
        WEFT_OK);
}

/* The world in which the messages so far were sent is over. */
static void leave_world(still *s) {
    wefti_comm_destroy(s->site);
    wefti_comm_destroy(s->between);
    s->site = s->between = NULL;
}

static void end(still *s) {
    leave_world(s);
    while (s->mesh.outgoing.all) {
        wefti_parcel *next = s->mesh.outgoing.all->next_all;
        WEFTI_FREE(s->ctx, s->mesh.outgoing.all->own, s->mesh.outgoing.all);
        s->mesh.outgoing.all = next;
    }
    wefti_elastic_free_sent(s->ctx, &s->elastic);
    WEFTI_FREE(s->ctx, s->elastic.missed.list, s->elastic.missed.news);
    pthread_cond_destroy(&s->mesh.thread.wake);
    pthread_cond_destroy(&s->mesh.changed);
    pthread_mutex_destroy(&s->mesh.lock);
    pthread_mutex_destroy(&s->mesh.world.failure_lock);
    assert_int_equal(weft_ctx_bytes_held(s->ctx), 0);
    weft_ctx_destroy(s->ctx);
}

/* A view without these ranks (up to -1) is installed. */
static void lose(still *s, const int *lost) {
    for (int r = 0; r < RANKS; r++) s->at[r].was_departed = s->at[r].departed;
    for (; *lost >= 0; lost++) s->at[*lost].departed = true;
    s->elastic.view.number++;
    pthread_mutex_lock(&s->mesh.lock);
    wefti_elastic_say_again(&s->mesh);
    pthread_mutex_unlock(&s->mesh.lock);
}
#define LOSE(s, ...) lose(s, (const int[]){__VA_ARGS__, -1})

static const char word[] = "what the site says";
static int64_t tag_at(int64_t step) { return wefti_comm_tag(step, 2, 0); }

static void say(still *s, int64_t step) {
    assert_int_equal(wefti_comm_send(s->between, 0, tag_at(step), word, sizeof word),
                     WEFT_OK);
}

/* The next message that was sent; NULL: there is none. */
static const wefti_parcel *sent(still *s) {
    return s->mesh.outgoing.submitted.first
               ? wefti_parcels_pop(&s->mesh.outgoing.submitted)
               : NULL;
}

/* What the site said in a step of world 1 was the next to be sent, to this rank. */
static void assert_said_to(still *s, int rank, int64_t step) {
    const wefti_parcel *p = sent(s);
    assert_non_null(p);
    assert_int_equal(p->peer, rank);
    assert_int_equal(p->envelope.channel, WEFTI_GROUP_SITES * 8);
    assert_int_equal(p->envelope.tag, tag_at(step));
    assert_int_equal(p->envelope.n_bytes, sizeof word);
    assert_memory_equal(p->bytes + WEFTI_ENVELOPE_BYTES, word, sizeof word);
}

TEST(the_next_of_a_site_says_again_what_a_lost_one_was_to_say) {
    still s;
    begin(&s, 5);
    say(&s, 7);
    assert_said_to(&s, 2, 7); /* at its own place */
    assert_null(sent(&s));
    LOSE(&s, 4);
    assert_said_to(&s, 1, 7);
    assert_null(sent(&s));
    end(&s);
}

TEST(where_two_are_lost_the_one_that_is_left_speaks_for_both) {
    still s;
    begin(&s, 3);
    say(&s, 7);
    assert_said_to(&s, 0, 7);
    LOSE(&s, 4); /* 5 speaks for it */
    assert_null(sent(&s));
    LOSE(&s, 5); /* who was to say it again */
    assert_said_to(&s, 1, 7);
    assert_said_to(&s, 2, 7);
    LOSE(&s, 1); /* of the other site */
    assert_null(sent(&s));
    end(&s);
}

TEST(both_at_once_are_the_same) {
    still s;
    begin(&s, 3);
    say(&s, 7);
    assert_said_to(&s, 0, 7);
    LOSE(&s, 4, 5, 2);
    assert_said_to(&s, 1, 7); /* not to 2, which is lost as well */
    assert_null(sent(&s));
    end(&s);
}

/* A rank of the other site is still in the last step of world 1, this one has left it. */
TEST(what_was_said_in_the_world_before_is_said_again) {
    still s;
    begin(&s, 3);
    say(&s, 7);
    assert_said_to(&s, 0, 7);
    LOSE(&s, 5);
    assert_said_to(&s, 2, 7);
    leave_world(&s);
    s.elastic.world.entered = 2;
    s.ranks[0] = 3, s.ranks[1] = 4, s.ranks[2] = 0; /* and ranks have other numbers */
    LOSE(&s, 4);
    assert_said_to(&s, 1, 7);
    assert_null(sent(&s));
    end(&s);
}

TEST(what_is_said_later_goes_to_all_who_hear) {
    still s;
    begin(&s, 5);
    LOSE(&s, 4);
    say(&s, 8);
    assert_said_to(&s, 1, 8);
    assert_said_to(&s, 2, 8);
    assert_null(sent(&s));
    end(&s);
}

/* All have finished the steps up to 9: those of which nobody can miss anything are forgotten. */
TEST(what_all_have_is_not_said_again) {
    still s;
    begin(&s, 5);
    say(&s, 7);
    say(&s, 9);
    assert_said_to(&s, 2, 7);
    assert_said_to(&s, 2, 9);
    wefti_elastic_forget_sent(&s.mesh, 9);
    LOSE(&s, 4);
    assert_said_to(&s, 1, 9);
    assert_null(sent(&s));
    end(&s);
}

/* The others do not take it for a fault: a message after a farewell would be one. */
TEST(after_its_farewell_a_rank_says_nothing_again) {
    still s;
    begin(&s, 5);
    say(&s, 7);
    assert_said_to(&s, 2, 7);
    s.mesh.end.said_bye = true;
    LOSE(&s, 4);
    assert_null(sent(&s));
    end(&s);
}

/* --- who hears --- */

static wefti_arrival arrival_of(int sender, int64_t step) {
    static char bytes[sizeof word];
    memcpy(bytes, word, sizeof word);
    return (wefti_arrival){.sender = sender,
                           .channel = WEFTI_GROUP_SITES * 8,
                           .tag = tag_at(step),
                           .n_bytes = sizeof word,
                           .data = bytes};
}

TEST(any_of_a_site_is_heard_in_place_of_the_lost_one) {
    still s;
    wefti_received got;
    wefti_arrival arrival = arrival_of(5, 7);
    begin(&s, 1);
    LOSE(&s, 4);
    s.mesh.incoming.posted = &arrival;
    assert_int_equal(wefti_comm_receive_piece(s.between, 1, tag_at(7), sizeof word,
                                              WEFTI_PIECE_SAME, &got),
                     WEFT_OK);
    assert_string_equal(got.view, word);
    assert_int_equal(s.elastic.missed.n, 1); /* a replay hears the next one as well */
    assert_int_equal(s.elastic.missed.list[0].sender, 4);
    end(&s);
}

/* Heard from two of a site, also after it was taken and given back: one counts. */
TEST(what_comes_twice_is_dropped) {
    still s;
    wefti_arrival first = arrival_of(4, 7), again = arrival_of(5, 7);
    wefti_arrival next = arrival_of(5, 8);
    begin(&s, 1);
    s.mesh.incoming.posted = &first;
    assert_true(wefti_elastic_takes(&s.mesh, &again));
    assert_ptr_equal(s.mesh.incoming.posted, &first);
    assert_null(first.next);
    assert_ptr_equal(s.mesh.incoming.spare, &again);
    s.mesh.incoming.posted = NULL;
    s.elastic.pieces.kept = &first;
    assert_true(wefti_elastic_heard(&s.mesh, &again));
    assert_false(wefti_elastic_heard(&s.mesh, &next));
    end(&s);
}

/* --- what a site agrees on --- */

static wefti_arrival answer;

/* Rank 4 has the sum only when it is asked: rank 3 has said that it has it. */
static void *say_it_later(void *argument) {
    still *s = argument;
    pthread_mutex_lock(&s->mesh.lock);
    while (!s->mesh.outgoing.submitted.first) {
        s->mesh.thread.resting = true;
        pthread_cond_wait(&s->mesh.thread.wake, &s->mesh.lock);
    }
    answer.next = s->mesh.incoming.posted;
    s->mesh.incoming.posted = &answer;
    pthread_cond_broadcast(&s->mesh.changed);
    pthread_mutex_unlock(&s->mesh.lock);
    return NULL;
}

/* Of three the third is lost: the second is waited for, and its word is taken. */
TEST(a_site_speaks_when_all_that_are_left_have_its_sum) {
    still s;
    pthread_t mate;
    begin(&s, 3);
    LOSE(&s, 5);
    answer = (wefti_arrival){
        .sender = 4, .channel = WEFTI_GROUP_REPLICA * 8 + 1, .tag = tag_at(7)};
    assert_int_equal(pthread_create(&mate, NULL, say_it_later, &s), 0);
    assert_int_equal(wefti_comm_agree(s.site, tag_at(7)), WEFT_OK);
    pthread_join(mate, NULL);
    assert_null(s.mesh.incoming.posted); /* it has waited for the word */
    assert_ptr_equal(s.mesh.incoming.spare, &answer);
    const wefti_parcel *p = sent(&s);
    assert_int_equal(p->peer, 4); /* which hears that this one has it */
    assert_int_equal(p->envelope.tag, tag_at(7));
    end(&s);
}

TEST(a_word_of_another_bucket_is_not_this_ones) {
    still s;
    begin(&s, 3);
    LOSE(&s, 4, 5);
    answer = (wefti_arrival){
        .sender = 4, .channel = WEFTI_GROUP_REPLICA * 8 + 1, .tag = tag_at(8)};
    s.mesh.incoming.posted = &answer;
    assert_int_equal(wefti_comm_agree(s.site, tag_at(7)), WEFT_OK);
    assert_ptr_equal(s.mesh.incoming.posted, &answer);
    end(&s);
}

/* --- a site that is lost as a whole --- */

TEST(a_site_that_is_lost_whole_ends_no_run_where_one_is_left) {
    still s;
    begin(&s, 1);
    LOSE(&s, 3, 5);
    assert_int_equal(wefti_elastic_lost_whole(&s.elastic), -1);
    LOSE(&s, 4);
    assert_int_equal(wefti_elastic_lost_whole(&s.elastic), -1);
    s.elastic.setup.meets = true; /* what they gossip nobody decides about */
    assert_int_equal(wefti_elastic_lost_whole(&s.elastic), 1);
    end(&s);
}

TEST(where_two_are_left_it_does) {
    still s;
    begin(&s, 1);
    s.elastic.setup.sites = 3;
    s.elastic.setup.per_site = 2;
    LOSE(&s, 2, 3);
    assert_int_equal(wefti_elastic_lost_whole(&s.elastic), 1);
    LOSE(&s, 4, 5);
    assert_int_equal(wefti_elastic_lost_whole(&s.elastic), -1);
    end(&s);
}

static wefti_arrival relay;

/* Rank 0 sends it on when it is asked. */
static void *relay_when_asked(void *argument) {
    still *s = argument;
    pthread_mutex_lock(&s->mesh.lock);
    while (!s->mesh.outgoing.submitted.first) {
        s->mesh.thread.resting = true;
        pthread_cond_wait(&s->mesh.thread.wake, &s->mesh.lock);
    }
    s->mesh.incoming.posted = &relay;
    pthread_cond_broadcast(&s->mesh.changed);
    pthread_mutex_unlock(&s->mesh.lock);
    return NULL;
}

/* What the lost site said to this one as the owner of a range is for this one alone, and yet the
 * same for all of it: 0 had it from 3, this rank had nothing from 4. So it counts for both. */
TEST(what_a_lost_site_said_to_one_of_a_site_counts_for_all_of_it) {
    enum { UNITS = 4, PARTS = 2 * UNITS + 1, ROWS = 2 * 2 };
    int32_t holders[ROWS * PARTS];
    still s;
    pthread_t mate;
    wefti_received got;
    for (int i = 0; i < ROWS * PARTS; i++) holders[i] = -1;
    holders[2 + UNITS] =
        0; /* step 7, first round, bucket 2 between sites: rank 0 has it */
    begin(&s, 1);
    LOSE(&s, 3, 4, 5);
    s.elastic.limits = (wefti_member_limits){RANKS, 2, 2, PARTS};
    s.elastic.view.holders = holders;
    s.elastic.view.cut_low = 6;
    s.elastic.view.cut_steps = 2;
    s.at[3].cut_of = 0;
    relay = arrival_of(3, 7);
    assert_int_equal(pthread_create(&mate, NULL, relay_when_asked, &s), 0);
    assert_int_equal(wefti_comm_receive_piece(s.between, 1, tag_at(7), sizeof word,
                                              WEFTI_PIECE_OWN, &got),
                     WEFT_OK);
    pthread_mutex_lock(&s.mesh.lock);
    const wefti_parcel *asked = sent(&s);
    pthread_mutex_unlock(&s.mesh.lock);
    if (!asked)
        wefti_elastic_post(&s.mesh, 0, WEFTI_CHANNEL_ASK, 0, NULL, 0); /* let it end */
    pthread_join(mate, NULL);
    assert_non_null(asked);
    assert_int_equal(asked->peer, 0);
    assert_int_equal(asked->envelope.channel, WEFTI_CHANNEL_ASK);
    assert_non_null(got.view);
    assert_string_equal(got.view, word);
    wefti_comm_release(s.between, 1, tag_at(7));
    assert_ptr_equal(s.elastic.pieces.kept, &relay); /* for who asks next */
    end(&s);
}

/* --- after a farewell --- */

static void put_envelope(hub *h, wefti_envelope_kind kind, int channel,
                         const char *text) {
    unsigned char bytes[256];
    wefti_envelope envelope = {kind, channel, 1, (int64_t)strlen(text)};
    wefti_envelope_encode(&envelope, bytes);
    memcpy(bytes + WEFTI_ENVELOPE_BYTES, text, strlen(text));
    hub_put(h, 0, 1, 0, bytes, WEFTI_ENVELOPE_BYTES + (int)strlen(text));
}

/* Whether member 1 has answered on that channel; waits for something that it sends. */
static bool hears_answer(hub *h, int channel) {
    wefti_envelope envelope = {0};
    hub_message *m = hub_take(h, 0);
    if (m && m->lane == 0) wefti_envelope_decode(m->data, m->n_bytes, &envelope);
    free(m);
    return envelope.kind == WEFTI_ENVELOPE_SHORT && envelope.channel == channel;
}

/* Who has left may still have a lost one's message, and be asked for it: it answers until all
 * have left, and no answer or question of it is a fault. */
TEST(who_has_left_still_asks_and_answers) {
    static const char notice[] = "width: 32";
    const wefti_elastic_setup setup = {.shards = 1,
                                       .sites = 1,
                                       .per_site = 2,
                                       .units = 1,
                                       .run = 5,
                                       .notice = notice,
                                       .notice_bytes = sizeof notice,
                                       .policy = {.silence_s = NEVER, .pause_s = NEVER}};
    hub h;
    weft_ctx *ctx;
    weft_mesh *mesh;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    hub_begin(&h, 2, NULL);
    put_envelope(&h, WEFTI_ENVELOPE_HELLO, 0, wefti_mesh_greeting());
    assert_ok(ctx, weft_mesh_create(ctx, hub_member(&h, 1), &mesh));
    assert_ok(ctx, wefti_elastic_start(ctx, mesh, &setup));
    put_envelope(&h, WEFTI_ENVELOPE_BYE, 0, "");
    put_envelope(&h, WEFTI_ENVELOPE_SHORT, WEFTI_CHANNEL_RELAY, "a lost one's message");
    put_envelope(&h, WEFTI_ENVELOPE_SHORT, WEFTI_CHANNEL_NOTICE, "");
    while (!hears_answer(&h, WEFTI_CHANNEL_NOTICE) && !atomic_load(&mesh->world.poisoned))
        sched_yield();
    assert_false(atomic_load(&mesh->world.poisoned));
    assert_true(weft_mesh_close(mesh));
    assert_int_equal(ctx_end(ctx), 0);
    hub_end(&h);
}
