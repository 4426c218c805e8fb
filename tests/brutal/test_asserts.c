/* SPDX-License-Identifier: MIT */
/* Assertions fire: each case breaks one promise inside the library, in a child, and the child ends
 * there with the sentence that names the file. Builds without WEFT_ASSERT skip this. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/lock.h"
#include "check.h"
#include "collectives/driver.h"
#include "comm/worker.h"
#include "member/quorum.h"
#include "member/view.h"
#include "mesh/elastic.h"
#include "mix/mixer.h"
#include "rank/carried.h"
#include "replicate/replicator.h"

/* Runs a case in a child: it has to end by the assertion of that file. */
static void expect_end(void (*broken)(void), const char *file) {
#ifndef WEFT_ASSERT
    (void)broken, (void)file;
    skip();
#else
    int ends[2], state;
    char said[512] = "";
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        broken();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t at = 0, n = 1; n > 0 && at < (ssize_t)sizeof said - 1; at += n)
        n = read(ends[0], said + at, sizeof said - 1 - (size_t)at);
    close(ends[0]);
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true(WIFSIGNALED(state) && WTERMSIG(state) == SIGABRT);
    assert_non_null(strstr(said, file));
#endif
}

static void wait_unlocked(void) {
    weft_mesh mesh = {0};
    wefti_mesh_wait(&mesh, 0);
}

static void wake_unlocked(void) {
    weft_mesh mesh = {0};
    wefti_outbox_wake(&mesh);
}

static void *at_once(void *user) { return user; }

static void watch_waits_elsewhere(void) {
    weft_mesh mesh = {0};
    mesh.thread.works = pthread_create(&mesh.thread.self, NULL, at_once, NULL) == 0;
    wefti_waits_watch(&mesh, 0);
}

static void pop_nothing(void) {
    wefti_parcels queue = {NULL, NULL};
    wefti_parcels_pop(&queue);
}

static void push_twice(void) {
    wefti_parcel parcel = {.next = NULL};
    wefti_parcels queue = {NULL, NULL};
    wefti_parcels_push(&queue, &parcel);
    wefti_parcels_push(&queue, &parcel);
}

static void finish_in_flight(void) {
    weft_mesh mesh = {0};
    wefti_parcel parcel = {.n_flying = 1};
    wefti_outbox_finish(&mesh, &parcel);
}

static void steps_out_of_order(void) {
    wefti_elastic e = {.own.steps = {-1, -1, -1}};
    wefti_elastic_reach(&e, (wefti_member_steps){3, 4, 2});
}

static weft_status nothing(void *user, int phase, int64_t item) {
    (void)user, (void)phase, (void)item;
    return WEFT_OK;
}

static void wait_for_no_job(void) {
    weft_ctx *ctx;
    wefti_worker *worker;
    double waited_s = 0;
    wefti_worker_config config = {.capacity = 1, .n_phases = 1, .run = nothing};
    if (weft_ctx_create(&ctx) != WEFT_OK) return;
    if (wefti_worker_create(ctx, &config, &worker) != WEFT_OK) return;
    if (wefti_worker_wait(worker, 1, &waited_s) != WEFT_OK) return;
}

static void no_voters(void) {
    wefti_view view = {.n_nodes = 0};
    wefti_member_policy policy = {.unit = 1};
    wefti_quorum_question q = {.policy = &policy, .view = &view};
    wefti_quorum_is(&q);
}

static void holder_outside(void) {
    uint16_t holders[4];
    wefti_view view = {.holders = holders};
    wefti_member_limits limits = {.max_nodes = 2, .window = 2, .rounds = 1, .parts = 1};
    wefti_view_holder(&limits, &view, 0, 2, 0, 0);
}

static void no_such_state(void) {
    wefti_replicator r = {.n_states = 1, .n_buckets = 1};
    wefti_replicator_state(&r, 1, 0);
}

static void no_such_bucket(void) {
    wefti_mixer m = {.n_states = 1, .n_buckets = 1};
    wefti_mixer_state(&m, 0, 1);
}

static void answer_to_all(void) {
    wefti_round round = {.shape = WEFTI_SHAPE_ALL};
    if (wefti_driver_answer(NULL, &round) != WEFT_OK) return;
}

static void wait_for_members_unlocked(void) {
    weft_mesh mesh = {0};
    double until_s = 0;
    wefti_elastic_may_wait(&mesh, &until_s);
}

static void miss_unlocked(void) {
    weft_mesh mesh = {0};
    wefti_elastic_miss(&mesh, &(wefti_missed){0});
}

static void count_fault_unlocked(void) {
    weft_mesh mesh = {0};
    wefti_elastic_count_fault(&mesh, 0);
}

static void step_before_its_begin(void) {
    wefti_elastic e = {.own.n_steps = 0};
    wefti_elastic_learn_step(&e, -1);
}

static void more_members_than_places(void) {
    wefti_elastic e = {.size = 1, .view.n_order = 2, .view.number = 1};
    weft_mesh mesh = {.elastic = &e};
    wefti_elastic_world world;
    wefti_elastic_enter(&mesh, &world);
}

static void row_of_no_departed(void) {
    wefti_elastic_place at = {.cut_of = 2};
    wefti_elastic e = {.at = &at,
                       .view.cut_steps = 1,
                       .limits = {.max_nodes = 1, .window = 1, .rounds = 1, .parts = 1}};
    wefti_elastic_holder(&e, 0, WEFTI_GROUP_WORLD * 8, 1);
}

static void more_arrays_than_a_rank_has(void) {
    wefti_rank r = {.rank = 0};
    if (wefti_rank_adopt(&r, NULL, NULL, WEFTI_RANK_ARRAYS + 1) != WEFT_OK) return;
}

TEST(each_broken_promise_ends_the_process) {
    static const struct {
        void (*broken)(void);
        const char *file;
    } cases[] = {
        {wait_unlocked, "waits.c"},
        {wake_unlocked, "outbox.c"},
        {watch_waits_elsewhere, "waits.c"},
        {pop_nothing, "outbox.c"},
        {push_twice, "outbox.c"},
        {finish_in_flight, "outbox.c"},
        {steps_out_of_order, "elastic_steps.c"},
        {wait_for_no_job, "worker.c"},
        {no_voters, "quorum.c"},
        {holder_outside, "view.c"},
        {no_such_state, "replicator.c"},
        {no_such_bucket, "mixer.c"},
        {answer_to_all, "driver.c"},
        {wait_for_members_unlocked, "elastic_policy.c"},
        {miss_unlocked, "elastic_missed.c"},
        {count_fault_unlocked, "elastic_faults.c"},
        {step_before_its_begin, "elastic_policy.c"},
        {more_members_than_places, "elastic_worlds.c"},
        {row_of_no_departed, "elastic_pieces.c"},
        {more_arrays_than_a_rank_has, "carried.c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_end(cases[i].broken, cases[i].file);
}
