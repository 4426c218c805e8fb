/* SPDX-License-Identifier: MIT */
/* What the ranks of a new world show each other, where membership changes again at that moment. */
#include "loop/loop.h"

#include "ranks.h"

enum { RANKS = 3 };

typedef struct card {
    int64_t has;
    wefti_fault faults[WEFTI_FAULTY_MACHINES];
} card;

typedef struct member {
    bool has, leaves; /* it has parameters and state; it ends before it shows anything */
    int shards;
    weft_status status;
    bool heard;
    int first;
} member;

/* Of this mesh nothing is asked but whether there is a newer world: there is. */
static void show_in(weft_ctx *ctx, weft_mesh *mesh, wefti_comm *all, member *m) {
    card own = {.has = m->has};
    wefti_bootstrap members = {.comm = all, .mesh = mesh};
    wefti_loop_cards cards = {.own = &own, .n_bytes = sizeof own, .shards = m->shards};
    m->status = wefti_loop_show(ctx, &members, &cards);
    m->heard = cards.heard;
    m->first = cards.first;
    wefti_loop_put_away(ctx, &cards);
}

static weft_status show(rank_env *env) {
    member *m = env->user;
    weft_mesh *mesh;
    wefti_elastic elastic = {.view.number = 2, .world.entered = 1};
    if (m->leaves) return weft_ctx_fail(env->ctx, WEFT_ERR_NUMERIC, "it leaves");
    WEFT_TRY(wefti_alloc(env->ctx, sizeof *mesh, "a mesh", &mesh));
    pthread_mutex_init(&mesh->lock, NULL);
    mesh->elastic = &elastic;
    show_in(env->ctx, mesh, env->control, m);
    pthread_mutex_destroy(&mesh->lock);
    wefti_free(env->ctx, mesh);
    return WEFT_OK; /* a failure would end what the others wait for */
}

static void try(int shards, member members[RANKS], weft_status expected) {
    weft_status statuses[RANKS];
    void *users[RANKS];
    for (int r = 0; r < RANKS; r++) members[r].shards = shards;
    for (int r = 0; r < RANKS; r++) users[r] = &members[r];
    run_ranks(RANKS / shards, shards, (wefti_wire_model){0}, show, users, statuses);
    for (int r = 0; r < RANKS; r++)
        if (!members[r].leaves) assert_int_equal(members[r].status, expected);
}

/* Three who came in while others trained, and got nothing before these were lost: that one of the
 * three leaves in this moment, too, is no reason to go on. */
TEST(that_nobody_has_the_state_is_final) {
    member members[RANKS] = {{.has = false}};
    try(1, members, WEFT_ERR_PEER);
}

/* A model that is cut into three parts, one of which is lost. */
TEST(a_part_that_nobody_has_is_final) {
    member members[RANKS] = {{.has = true}, {.has = true}, {.has = false}};
    try(3, members, WEFT_ERR_PEER);
}

TEST(the_first_who_has_the_state_is_known) {
    member members[RANKS] = {{.has = false}, {.has = true}, {.has = false}};
    try(1, members, WEFT_OK);
    for (int r = 0; r < RANKS; r++) assert_true(members[r].heard);
    for (int r = 0; r < RANKS; r++) assert_int_equal(members[r].first, 1);
}

/* Who has not heard all knows nothing, and has no reason to end: the next world asks again. */
TEST(who_is_interrupted_goes_on) {
    member members[RANKS] = {{.has = false}, {.has = false}, {.leaves = true}};
    try(1, members, WEFT_OK);
    assert_false(members[0].heard);
    assert_false(members[1].heard);
}

/* Who does not come to the beginning, or is left out before, is missed by the first step. */
static weft_status gather(rank_env *env) {
    const member *m = env->user;
    weft_mesh *mesh;
    wefti_elastic elastic = {.view.number = m->first, .world.entered = 1};
    if (m->leaves) return weft_ctx_fail(env->ctx, WEFT_ERR_NUMERIC, "it leaves");
    WEFT_TRY(wefti_alloc(env->ctx, sizeof *mesh, "a mesh", &mesh));
    pthread_mutex_init(&mesh->lock, NULL);
    mesh->elastic = &elastic;
    ((member *)env->user)->status = wefti_loop_gather(env->ctx, mesh, env->control, 0);
    pthread_mutex_destroy(&mesh->lock);
    wefti_free(env->ctx, mesh);
    return WEFT_OK;
}

TEST(who_is_left_out_at_the_beginning_ends_nobody) {
    for (int view = 1; view <= 2; view++) {
        member members[RANKS] = {{.first = view}, {.first = view}, {.leaves = true}};
        void *users[RANKS] = {&members[0], &members[1], &members[2]};
        weft_status statuses[RANKS];
        run_ranks(RANKS, 1, (wefti_wire_model){0}, gather, users, statuses);
        assert_int_equal(members[0].status, view == 2 ? WEFT_OK : WEFT_ERR_PEER);
        assert_int_equal(members[1].status, view == 2 ? WEFT_OK : WEFT_ERR_PEER);
    }
}

typedef struct looker {
    bool heard, ended;
} looker;

/* Rank 2 has not heard all cards; what it does next is to leave for the next world. */
static weft_status look(rank_env *env) {
    looker *own = env->user;
    weft_mesh *mesh;
    wefti_elastic elastic = {.view.number = 2, .world.entered = 1};
    WEFT_TRY(wefti_alloc(env->ctx, sizeof *mesh, "a mesh", &mesh));
    pthread_mutex_init(&mesh->lock, NULL);
    mesh->elastic = &elastic;
    mesh->transport = NULL;
    wefti_bootstrap members = {.comm = env->control, .mesh = mesh};
    wefti_loop l = {.ctx = env->ctx,
                    .rank_ctx = env->ctx,
                    .mesh = mesh,
                    .members = &members,
                    .cards = {.heard = own->heard},
                    .whole = true};
    weft_status status = wefti_loop_look(&l, "room");
    own->ended = status == WEFT_OK && l.whole;
    wefti_free(env->ctx, members.sees);
    pthread_mutex_destroy(&mesh->lock);
    wefti_free(env->ctx, mesh);
    return own->heard ? status : weft_ctx_fail(env->ctx, WEFT_ERR_PEER, "it leaves");
}

TEST(who_has_not_heard_all_keeps_the_others_from_the_step) {
    looker lookers[RANKS] = {{.heard = true}, {.heard = true}, {.heard = false}};
    void *users[RANKS] = {&lookers[0], &lookers[1], &lookers[2]};
    weft_status statuses[RANKS];
    run_ranks(RANKS, 1, (wefti_wire_model){0}, look, users, statuses);
    assert_false(lookers[0].ended || lookers[1].ended);
    assert_int_equal(statuses[0], WEFT_OK);
    assert_int_equal(statuses[1], WEFT_OK);
}

/* What failed while membership changed is done again if it failed for that, and only then. */
TEST(what_is_wrong_is_not_forgiven) {
    static const weft_status wrong[] = {WEFT_ERR_NUMERIC, WEFT_ERR_FORMAT,
                                        WEFT_ERR_MEMORY};
    weft_ctx *ctx;
    weft_mesh *mesh;
    wefti_elastic elastic = {.view.number = 2, .world.entered = 1};
    assert_int_equal(ctx_begin(&ctx), 0);
    assert_ok(ctx, wefti_alloc(ctx, sizeof *mesh, "a mesh", &mesh));
    pthread_mutex_init(&mesh->lock, NULL);
    mesh->elastic = &elastic;
    wefti_loop l = {.ctx = ctx, .rank_ctx = ctx, .mesh = mesh, .whole = true};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(wefti_loop_forgive(&l, wrong[i]), wrong[i]);
    assert_true(l.whole);
    assert_int_equal(wefti_loop_forgive(&l, WEFT_ERR_PEER), WEFT_OK);
    assert_false(l.whole);
    elastic.world.entered = 2;
    assert_int_equal(wefti_loop_forgive(&l, WEFT_ERR_PEER), WEFT_ERR_PEER);
    pthread_mutex_destroy(&mesh->lock);
    wefti_free(ctx, mesh);
    assert_int_equal(ctx_end(ctx), 0);
}
