/* SPDX-License-Identifier: MIT */
/* Which waits are told, when, and by which rank of a machine: by a clock that the test sets. */
#include "check.h"
#include "mesh/mesh.h"

enum { SIZE = 4 };

/* Ranks 0 and 1 are on machine a, 2 and 3 on b; this one is rank 3, and all were heard lately. */
typedef struct still {
    weft_mesh mesh;
    weft_transport transport;
    wefti_peer peers[SIZE];
    wefti_wait wait;
    double now_s;
} still;

static void begin(still *s) {
    static const char *hosts[SIZE] = {"a", "a", "b", "b"};
    static int numbers[SIZE] = {0, 1, 2, 3};
    *s = (still){.now_s = 100, .wait = {.since_s = 100}};
    s->mesh.rank = 3;
    s->mesh.world.size = SIZE;
    s->mesh.peers = s->peers;
    s->mesh.places.peer_of = s->mesh.places.rank_of = numbers;
    s->transport = (weft_transport){
        .ops = &s->mesh.ops, .rank = 3, .size = SIZE, .host = hosts};
    s->mesh.transport = &s->transport;
    assert_int_equal(pthread_mutex_init(&s->mesh.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&s->mesh.changed, NULL), 0);
}

/* What is told at that time of a wait for this rank; "": nothing. */
static const char *told(still *s, int rank, double now_s) {
    static char why[sizeof s->mesh.waits.why];
    wefti_waits *w = &s->mesh.waits;
    for (int r = 0; r < SIZE; r++)
        if (s->peers[r].heard_s >= 0) s->peers[r].heard_s = now_s - 1;
    w->first = &s->wait;
    atomic_store(&w->since_s, s->wait.since_s);
    atomic_store(&w->rank, rank);
    w->why[0] = '\0';
    wefti_waits_watch(&s->mesh, now_s);
    snprintf(why, sizeof why, "%s", w->why);
    return why;
}

static void end(still *s) {
    pthread_cond_destroy(&s->mesh.changed);
    pthread_mutex_destroy(&s->mesh.lock);
}

TEST(a_wait_is_told_after_10_s_and_each_time_that_it_has_doubled) {
    static const struct {
        double after_s;
        bool is_told;
    } cases[] = {{9.9, false}, {10.1, true}, {15, false}, {20.1, false}, {20.7, true},
                 {40, false},  {41.5, true}, {80, false}, {83.5, true}};
    still s;
    begin(&s);
    s.peers[2].heard_s = -1; /* it may not speak for this one */
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        assert_int_equal(told(&s, 0, 100 + cases[k].after_s)[0] != '\0',
                         cases[k].is_told);
    end(&s);
}

TEST(a_wait_that_the_run_knows_is_not_told) {
    still s;
    begin(&s);
    s.peers[2].heard_s = -1;
    s.mesh.waits.longest_s = 40;
    assert_string_equal(told(&s, 0, 159), "");
    assert_string_not_equal(told(&s, 0, 161), "");
    end(&s);
}

TEST(one_rank_of_a_machine_speaks_unless_it_is_waited_for) {
    still s;
    begin(&s);
    assert_string_equal(told(&s, 0, 111), ""); /* rank 2 says it */
    assert_string_not_equal(told(&s, 2, 112), "");
    end(&s);
    begin(&s);
    s.peers[2].left = true;
    assert_string_not_equal(told(&s, 0, 111), "");
    end(&s);
    begin(&s);
    s.mesh.rank = 2; /* rank 3 waits for this one's word */
    assert_string_not_equal(told(&s, 0, 111), "");
    end(&s);
}

TEST(who_lives_is_told_from_who_is_silent) {
    still s;
    begin(&s);
    s.mesh.rank = 2;
    s.peers[1].step = 16;
    assert_string_equal(
        told(&s, 1, 112),
        "rank 2 has waited 12 s for rank 1 (host a), which lives and was last at "
        "step 17");
    s.peers[0].heard_s = s.peers[3].heard_s = -1;
    /* A sign of life is due from the two before it, and from no others. */
    s.mesh.waits.told_s = 0;
    s.peers[1].heard_s = -1;
    assert_string_equal(
        told(&s, 1, 119),
        "rank 2 has waited 19 s for rank 1 (host a), which has been silent for "
        "120 s");
    s.mesh.waits.told_s = 0;
    assert_string_equal(told(&s, 3, 129), "rank 2 has waited 29 s for rank 3 (host b)");
    end(&s);
}
