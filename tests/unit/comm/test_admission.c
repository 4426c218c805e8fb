/* SPDX-License-Identifier: MIT */
/* What a run that trains answers to who wants to come in: a place while it trains, and one sentence
 * from its last step on, in which nobody could take part any more. And which way a pair takes of
 * which one side can be called. */
#include <stdatomic.h>

#include "mesh/elastic.h"
#include "members.h"

static atomic_int ready, closed, closing, over, standing;

static void sleep_a_little(void) { wefti_sleep_until_s(wefti_now_s() + 1e-3); }

/* Its progress thread can not go on for longer than a newcomer waits for its call at first. */
static void stand_still(member *m) {
    pthread_mutex_lock(&m->mesh->lock);
    atomic_store(&standing, 2);
    wefti_sleep_until_s(wefti_now_s() + 2);
    pthread_mutex_unlock(&m->mesh->lock);
}

/* A member between two steps; it is told when the last one is done, and when to leave. */
static weft_status train(member *m) {
    const wefti_elastic_setup setup = {
        .shards = 1, .units = 1, .run = 7, .policy = {.silence_s = 60, .pause_s = 60}};
    bool told = false;
    WEFT_TRY(wefti_elastic_start(m->ctx, m->mesh, &setup));
    WEFT_TRY(wefti_comm_barrier(m->comm, 1));
    atomic_fetch_add(&ready, 1);
    for (; !atomic_load(&over); sleep_a_little()) {
        if (m->place.rank == 1 && atomic_load(&standing) == 1) stand_still(m);
        if (told || !atomic_load(&closing)) continue;
        wefti_elastic_note(m->mesh, WEFTI_FACT_OVER);
        atomic_fetch_add(&closed, 1);
        told = true;
    }
    return WEFT_OK;
}

/* Calls at an endpoint that nobody is behind, and then at the run's. */
static weft_status call(weft_ctx *ctx, int port, weft_transport **out) {
    char text[64];
    wefti_tcp_endpoint *endpoints;
    wefti_tcp_place place = {.patience_s = 60};
    snprintf(text, sizeof text, "127.0.0.1:%d,127.0.0.1:%d", free_port(), port);
    WEFT_TRY(wefti_tcp_endpoints(ctx, text, 1, 1, &endpoints, &place.n_endpoints));
    place.endpoints = endpoints;
    weft_status status = wefti_tcp_enter(ctx, &place, NULL, out);
    wefti_free(ctx, endpoints);
    return status;
}

TEST(who_comes_after_the_last_step_is_told_so) {
    weft_ctx *ctx;
    weft_transport *transport = NULL;
    int port = free_port();
    member members[2] = {member_at(0, 2, port), member_at(1, 2, port)};
    assert_int_equal(ctx_begin(&ctx), 0);
    for (int r = 0; r < 2; r++) {
        members[r].body = train;
        members[r].place.spare = 2;
        start(&members[r]);
    }
    while (atomic_load(&ready) < 2) sleep_a_little();
    weft_status early = call(ctx, port, &transport);
    if (transport) transport->ops->finish(transport, true);
    atomic_store(&closing, 1);
    while (atomic_load(&closed) < 2) sleep_a_little();
    double begin_s = wefti_now_s();
    weft_status late = call(ctx, port, &transport);
    double took_s = wefti_now_s() - begin_s;
    atomic_store(&over, 1);
    for (int r = 0; r < 2; r++) join(&members[r]);
    for (int r = 0; r < 2; r++) expect(&members[r], WEFT_OK, "");
    assert_int_equal(early, WEFT_OK);
    assert_int_equal(late, WEFT_ERR_PEER);
    assert_non_null(strstr(weft_ctx_message(ctx), "it has done its last step"));
    assert_null(transport);
    if (took_s > 30) fail_msg("told after %.0f s", took_s); /* of 60 that it would wait */
    weft_ctx_clear(ctx);
    assert_int_equal(ctx_end(ctx), 0);
}

static void note_way(void *user, weft_log_level level, const char *line) {
    (void)level;
    if (strstr(line, "reach each other") || strstr(line, "which calls it"))
        strncat(user, strncat((char[200]){0}, line, 190), 190);
}

/* Rank 1 is called by nobody, and stands still while it is asked to call: it hears of that and
 * of the relay at once. */
TEST(who_hears_late_of_a_newcomer_calls_it_all_the_same) {
    weft_ctx *ctx;
    weft_transport *transport = NULL;
    int port = free_port();
    char way[1024] = "";
    member members[2] = {member_at(0, 2, port), member_at(1, 2, port)};
    assert_int_equal(ctx_begin(&ctx), 0);
    weft_ctx_set_sink(ctx, note_way, way);
    atomic_store(&ready, 0);
    atomic_store(&closing, 0);
    atomic_store(&over, 0);
    members[1].place.listener = listen_apart();
    for (int r = 0; r < 2; r++) {
        members[r].body = train;
        members[r].place.spare = 2;
        start(&members[r]);
    }
    while (atomic_load(&ready) < 2) sleep_a_little();
    atomic_store(&standing, 1);
    while (atomic_load(&standing) == 1) sleep_a_little();
    weft_status status = call(ctx, port, &transport);
    if (transport) transport->ops->finish(transport, true);
    atomic_store(&over, 1);
    for (int r = 0; r < 2; r++) join(&members[r]);
    for (int r = 0; r < 2; r++) expect(&members[r], WEFT_OK, "");
    assert_ok(ctx, status);
    assert_string_equal(way, "rank 2 can not call rank 1, which calls it");
    assert_int_equal(ctx_end(ctx), 0);
}

/* Ranks 1 and 2 are called by none. By the time that 1 and 2 have a way, 3 asks the relay. */
TEST(who_begins_late_with_the_others_calls_all_the_same) {
    enum { N = 4 };
    static char ways[N][1024];
    member members[N];
    int port = free_port();
    for (int r = 0; r < N; r++) {
        members[r] = member_at(r, N, port);
        if (r == 1 || r == 2) members[r].place.listener = listen_apart();
        assert_int_equal(ctx_begin(&members[r].ctx), 0);
        weft_ctx_set_sink(members[r].ctx, note_way, ways[r]);
        assert_int_equal(
            pthread_create(&members[r].thread, NULL, member_main, &members[r]), 0);
    }
    for (int r = 0; r < N; r++) join(&members[r]);
    for (int r = 0; r < N; r++) expect(&members[r], WEFT_OK, "");
    assert_string_equal(ways[2],
                        "rank 2 and rank 1 can not reach each other: rank 0 relays");
    assert_string_equal(ways[3], "rank 3 can not call rank 1, which calls it"
                                 "rank 3 can not call rank 2, which calls it");
}

static weft_transport_place_code answered;
static int n_hung_up;

static bool note_seat(weft_transport *t, int caller, const weft_transport_place *place) {
    (void)t, (void)caller;
    answered = place->code;
    return false;
}

static void note_hang_up(weft_transport *t, int peer) {
    (void)t;
    assert_int_equal(peer, 1);
    n_hung_up++;
}

enum { PLACES = 3 };

/* Rank 0 of a run, alone, to whom 1 is connected and 2 was. */
static void be_asked(void (*ask)(weft_mesh *mesh, wefti_elastic *e)) {
    static const weft_transport_ops ops = {.give_place = note_seat,
                                           .hang_up = note_hang_up};
    weft_transport transport = {.ops = &ops};
    int same[PLACES] = {0, 1, 2};
    wefti_elastic_place at[PLACES] = {{.departed = true, .cut_of = -1},
                                      {.departed = true, .cut_of = -1},
                                      {.departed = true, .cut_of = -1}};
    wefti_elastic e = {.size = PLACES, .setup = {.shards = 1}, .at = at};
    wefti_peer *peers;
    weft_mesh *mesh;
    weft_ctx *ctx;
    assert_int_equal(ctx_begin(&ctx), 0);
    assert_ok(ctx, wefti_alloc(ctx, sizeof *mesh, "a mesh", &mesh));
    assert_ok(ctx, wefti_alloc_n(ctx, PLACES, sizeof *peers, "peers", &peers));
    pthread_mutex_init(&mesh->lock, NULL);
    pthread_cond_init(&mesh->changed, NULL);
    mesh->ctx = ctx;
    mesh->elastic = &e;
    mesh->transport = &transport;
    mesh->peers = peers;
    mesh->places.rank_of = mesh->places.peer_of = same;
    peers[2].lost = true;
    ask(mesh, &e);
    pthread_cond_destroy(&mesh->changed);
    pthread_mutex_destroy(&mesh->lock);
    wefti_free(ctx, peers);
    wefti_free(ctx, mesh);
    assert_int_equal(ctx_end(ctx), 0);
}

static void expect_answer(weft_mesh *mesh, int place, weft_transport_place_code code) {
    const weft_transport_found found = {.asks = true, .place = place};
    wefti_admission_answer(mesh, &found);
    assert_int_equal(answered, code);
}

/* A member that the others have left out takes its leave of a joiner. */
static void take_leave(weft_mesh *mesh, wefti_elastic *e) {
    mesh->peers[1].left = true;
    wefti_elastic_lose(mesh, 1);
    expect_answer(mesh, -1, WEFT_PLACE_LATER);
    e->view.number = 1;
    expect_answer(mesh, -1, WEFT_PLACE_WELCOME);
}

TEST(that_one_takes_its_leave_of_a_joiner_is_not_the_end_of_the_run) {
    be_asked(take_leave);
}

/* The run ends in order before this process, on its way in, has begun to look after its members. */
static void see_the_end(weft_mesh *mesh, wefti_elastic *e) {
    const weft_transport_entry entry = {.run = 7};
    mesh->elastic = NULL;
    mesh->transport->entry = &entry;
    mesh->peers[1].left = true;
    wefti_liveness_lose(mesh, 1);
    assert_true(mesh->peers[1].lost);
    mesh->transport->entry = NULL;
    mesh->elastic = e;
}

TEST(a_run_that_ends_is_not_waited_for_on_the_way_in) { be_asked(see_the_end); }

/* The former process at a place has no power: its connection does not end by itself. */
static void give_place(weft_mesh *mesh, wefti_elastic *e) {
    e->view.number = 1;
    e->at[1].fresh = true; /* somebody else has just come there */
    expect_answer(mesh, 1, WEFT_PLACE_LATER);
    e->at[1].fresh = e->at[1].departed = false; /* a member */
    expect_answer(mesh, 1, WEFT_PLACE_LATER);
    assert_int_equal(n_hung_up, 0);
    e->at[1].departed = true;
    expect_answer(mesh, 1, WEFT_PLACE_LATER);
    assert_int_equal(n_hung_up, 1);
    mesh->peers[1].lost = true;
    expect_answer(mesh, 1, WEFT_PLACE_WELCOME);
    assert_int_equal(n_hung_up, 1);
}

TEST(who_gets_a_place_is_not_kept_out_by_who_was_there) { be_asked(give_place); }

static void expect_answer_to(weft_mesh *mesh, uint64_t whom, int place,
                             weft_transport_place_code code) {
    const weft_transport_found found = {
        .asks = true, .place = place, .incarnation = whom};
    wefti_admission_answer(mesh, &found);
    assert_int_equal(answered, code);
}

/* The first one takes so long to reach all that its place goes to a second one, which it does not
 * know, as a member would find out that is not connected to it. */
static void come_late(weft_mesh *mesh, wefti_elastic *e) {
    e->view.number = 1;
    mesh->peers[1].lost = true;
    expect_answer_to(mesh, 5, -1, WEFT_PLACE_WELCOME);
    expect_answer_to(mesh, 6, -1, WEFT_PLACE_LATER);
    e->at[1].given_s = 0; /* it is kept no longer */
    expect_answer_to(mesh, 6, -1, WEFT_PLACE_WELCOME);
    expect_answer_to(mesh, 5, 1, WEFT_PLACE_LATER);
    expect_answer_to(mesh, 5, 2, WEFT_PLACE_LATER);
    expect_answer_to(mesh, 6, 1, WEFT_PLACE_WELCOME);
}

TEST(who_comes_after_another_has_got_a_place_asks_again) { be_asked(come_late); }

/* --- who gets which place, and who has to wait --- */

typedef struct asked {
    const char *what;
    const char
        *places;       /* s self, m member, l its connection has ended, f free, u its last
                           steps are unfinished, c connected, w waits for its copy */
    int shards, place; /* place: the caller's; -1: any */
    bool frozen, joins, second;
    weft_transport_place_code code;
    int rank; /* of the place in the answer */
} asked;

static const asked answers[] = {
    {"the lowest free one", "sffm", 1, -1, .code = WEFT_PLACE_WELCOME, .rank = 1},
    {"none is free", "smmm", 1, -1, .code = WEFT_PLACE_FULL},
    {"one will be free", "summ", 1, -1, .code = WEFT_PLACE_LATER},
    {"a later one is free already", "sumf", 1, -1, .code = WEFT_PLACE_WELCOME, .rank = 3},
    {"a member may be lost", "slff", 1, -1, .code = WEFT_PLACE_LATER},
    {"another one comes", "swff", 1, -1, .code = WEFT_PLACE_LATER},
    {"another one has just called", "scff", 1, -1, .code = WEFT_PLACE_LATER},
    {"the view changes", "sfff", 1, -1, .frozen = true, .code = WEFT_PLACE_LATER},
    {"another member is first", "smff", 1, -1, .second = true,
     .code = WEFT_PLACE_ELSEWHERE, .rank = 1},
    {"a copy that waits, before", "smfw", 2, -1, .code = WEFT_PLACE_WELCOME, .rank = 2},
    {"a copy that waits, behind", "smwf", 2, -1, .code = WEFT_PLACE_WELCOME, .rank = 3},
    {"half a copy is free", "smmf", 2, -1, .code = WEFT_PLACE_LATER},
    {"a process on its way in", "sfff", 1, 2, .joins = true, .code = WEFT_PLACE_LATER},
    {"one of its copy is asked", "sfff", 2, 1, .joins = true, .code = WEFT_PLACE_WELCOME,
     .rank = 1},
    {"and has no place to give", "sfff", 2, -1, .joins = true, .code = WEFT_PLACE_LATER},
};

enum { MOST_PLACES = 4 };
static int answered_rank;

static bool note_answer(weft_transport *t, int caller,
                        const weft_transport_place *place) {
    answered_rank = place->place;
    return note_seat(t, caller, place);
}

static void set_place(weft_mesh *mesh, int r, char what) {
    wefti_elastic *e = mesh->elastic;
    mesh->peers[r].lost = strchr("lfu", what);
    e->at[r] = (wefti_elastic_place){.departed = !strchr("sml", what),
                                     .fresh = strchr("cw", what),
                                     .spoke = what == 'w',
                                     .cut_of = what == 'u' ? 0 : -1};
}

TEST(every_caller_gets_the_place_or_the_answer_that_is_right) {
    static const weft_transport_ops ops = {.give_place = note_answer,
                                           .hang_up = note_hang_up};
    static const char *const hosts[] = {"a", "b", "c", "c"};
    const char *names[MOST_PLACES];
    int same[] = {0, 1, 2, 3}, other[] = {1, 0, 2, 3};
    weft_transport transport = {.ops = &ops, .host = names};
    (void)state;
    for (int r = 0; r < MOST_PLACES; r++) names[r] = hosts[r];
    for (size_t k = 0; k < sizeof answers / sizeof answers[0]; k++) {
        const asked *c = &answers[k];
        wefti_elastic_place at[MOST_PLACES];
        wefti_peer *peers;
        weft_mesh *mesh;
        weft_ctx *ctx;
        wefti_elastic e = {.size = MOST_PLACES,
                           .setup = {.shards = c->shards},
                           .at = at,
                           .view.number = !c->joins,
                           .view.frozen = c->frozen,
                           .view.first_step = 9,
                           .pieces.stable = 7,
                           .view.n_order = 2,
                           .view.order = c->second ? other : same};
        assert_int_equal(ctx_begin(&ctx), 0);
        assert_ok(ctx, wefti_alloc(ctx, sizeof *mesh, "a mesh", &mesh));
        assert_ok(ctx, wefti_alloc_n(ctx, MOST_PLACES, sizeof *peers, "peers", &peers));
        pthread_mutex_init(&mesh->lock, NULL);
        mesh->ctx = ctx;
        mesh->elastic = &e;
        mesh->transport = &transport;
        mesh->peers = peers;
        mesh->places.rank_of = mesh->places.peer_of = same;
        for (int r = 0; r < MOST_PLACES; r++) set_place(mesh, r, c->places[r]);
        weft_transport_found found = {.asks = true, .place = c->place, .host = "c"};
        wefti_admission_answer(mesh, &found);
        if (answered != c->code || answered_rank != c->rank)
            fail_msg("%s: answer %d, place %d; expected %d, %d", c->what, answered,
                     answered_rank, c->code, c->rank);
        pthread_mutex_destroy(&mesh->lock);
        wefti_free(ctx, peers);
        wefti_free(ctx, mesh);
        assert_int_equal(ctx_end(ctx), 0);
    }
}

/* Machines that computed wrongly: from the third time on, by the larger of two counts; of more
 * than there is room for the one with the smallest count is forgotten. */
TEST(who_is_wrong_three_times_is_not_taken_in_again) {
    weft_mesh *mesh;
    weft_ctx *ctx;
    (void)state;
    assert_int_equal(ctx_begin(&ctx), 0);
    assert_ok(ctx, wefti_alloc(ctx, sizeof *mesh, "a mesh", &mesh));
    pthread_mutex_init(&mesh->lock, NULL);
    wefti_elastic e = {.setup = {.policy = {.faults = 3}}};
    mesh->elastic = &e;
    static const int64_t said[] = {2, 1, 3, 2, 4}, holds[] = {2, 2, 3, 3, 4};
    const weft_transport_found found = {.machine = 77};
    for (int k = 0; k < 5; k++) {
        wefti_fault theirs[WEFTI_FAULTY_MACHINES] = {{.machine = 77, .n = said[k]}};
        wefti_elastic_learn_faults(mesh, theirs);
        assert_int_equal(e.faults[0].n, holds[k]);
        assert_int_equal(wefti_elastic_shuns(&e, &found), holds[k] >= 3);
    }
    static const weft_transport_ops ops = {0};
    static const char *const hosts[] = {"a", "b"};
    weft_transport transport = {.ops = &ops, .host = hosts};
    int same[] = {0, 1};
    wefti_elastic_place at[2] = {{.was_wrong = false}};
    mesh->transport = &transport;
    mesh->places.peer_of = same;
    e.at = at;
    e.setup.shards = 2; /* which count once */
    pthread_mutex_lock(&mesh->lock);
    for (int k = 0; k < 4; k++) {
        at[1].was_wrong = k == 0;
        assert_int_equal(wefti_elastic_count_fault(mesh, 0), k == 3);
    }
    pthread_mutex_unlock(&mesh->lock);
    e.setup.policy.faults = 0; /* nobody counts */
    assert_false(wefti_elastic_shuns(&e, &found));
    wefti_fault all[WEFTI_FAULTY_MACHINES] = {{0}};
    for (int i = 0; i < WEFTI_FAULTY_MACHINES; i++)
        all[i] = (wefti_fault){.machine = 100 + (uint64_t)i, .n = i == 5 ? 1 : 9};
    memcpy(e.faults, all, sizeof all);
    memset(all, 0, sizeof all);
    all[0] = (wefti_fault){.machine = 77, .n = 2};
    wefti_elastic_learn_faults(mesh, all);
    for (int i = 0; i < WEFTI_FAULTY_MACHINES; i++)
        assert_int_equal(e.faults[i].machine, i == 5 ? 77 : 100 + i);
    pthread_mutex_destroy(&mesh->lock);
    wefti_free(ctx, mesh);
    assert_int_equal(ctx_end(ctx), 0);
}
