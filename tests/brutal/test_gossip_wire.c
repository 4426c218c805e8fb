/* SPDX-License-Identifier: MIT */
/* Gossip among three ranks, the first of which lies: bytes of its messages are changed,
 * under the old checksum and under a right one, and messages are cut short. */
#include <xxhash.h>

#include "gossipers.h"
#include "wrapped.h"
#include "wire/bits.h"

enum { R = 3, HEAD = 40, MOST_BYTES = HEAD * R + 4 * N };

/* What is said in which form. */
typedef struct speech {
    wefti_mixer_config config;
    int stage; /* of the messages that are changed */
} speech;

static const speech speeches[] = {
    {{.kind = "gossip", .deadline_s = 0}, 9},    /* group: the mean */
    {{.kind = "gossip", .deadline_s = 0}, 8},    /* group: what is added */
    {{.kind = "gossip", .deadline_s = 100}, 10}, /* whole, in a stream */
    {{.kind = "gossip", .average_every = 100, .combine_last = true}, 8},
    {{.kind = "sparse_outer",
      .outer_every = 1,
      .fragments = 1,
      .outer_lr = 1,
      .topk = 3,
      .chunk = 32},
     8},
    {{.kind = "choco", .values = WEFTI_VALUES_INT4}, 8},
    {{.kind = "choco", .values = WEFTI_VALUES_SIGN, .combine_last = true}, 8},
};
enum { N_SPEECHES = sizeof speeches / sizeof speeches[0], PAIRS = 3, STREAM = 2 };

typedef struct liar {
    wrapped on;
    int stage, at; /* which byte is changed; -1: none */
    bool seal;     /* with a right checksum */
    int cut;       /* bytes left away */
    int64_t most;  /* length of the longest message of that stage */
    unsigned char messages[R][2 * STEPS][MOST_BYTES];
    int n[R];
} liar;

static liar mouth;

/* docs/wire-format.md: the hash of the hashes of the head and of the payload. */
static void seal(unsigned char *message, int64_t n_bytes) {
    unsigned char both[16];
    wefti_put_u64(both, XXH3_64bits(message, 32));
    wefti_put_u64(both + 8, XXH3_64bits(message + HEAD, (size_t)(n_bytes - HEAD)));
    wefti_put_u64(message + 32, XXH3_64bits(both, sizeof both));
}

static weft_status lie_send(wefti_comm *comm, int peer, int64_t tag, const void *data,
                            int64_t n_bytes) {
    liar *self = (liar *)comm;
    if ((tag & 15) != self->stage)
        return wefti_comm_send(self->on.inner, peer, tag, data, n_bytes);
    unsigned char *message = self->messages[peer][self->n[peer]++];
    assert_true(n_bytes <= MOST_BYTES && self->n[peer] < 2 * STEPS);
    memcpy(message, data, (size_t)n_bytes);
    if (n_bytes > self->most) self->most = n_bytes;
    if (self->at >= 0 && self->at < n_bytes) {
        message[self->at] ^= 5;
        if (self->seal) seal(message, n_bytes);
    }
    return wefti_comm_send(self->on.inner, peer, tag, message, n_bytes - self->cut);
}

static weft_status lie_receive_by(wefti_comm *comm, int peer, int64_t tag,
                                  int64_t n_bytes, double deadline_s, const void **view) {
    return wefti_comm_receive_by(inner_of(comm), peer, tag, n_bytes, deadline_s, view);
}

static bool lie_holds(wefti_comm *comm, const void *data) {
    (void)comm, (void)data;
    return false;
}

static const wefti_comm_ops lying = {.name = "lying",
                                     .send = lie_send,
                                     PASSED_ON,
                                     .receive_by = lie_receive_by,
                                     .holds = lie_holds};

/* Two steps. */
static weft_status converse(rank_env *env, wefti_mixer *m) {
    trial *t = env->user;
    float x[N];
    memcpy(x, t->x[0], sizeof x);
    WEFT_TRY(prime(t, m, x));
    for (int64_t step = 0; step < 2; step++) {
        WEFT_TRY(adapt(t, m, step, x));
        WEFT_TRY(finish(m, step, x));
    }
    return wefti_comm_barrier(env->control, -1);
}

static pthread_barrier_t end;

/* Messages lie in their senders' memory: nobody leaves while somebody may read. */
static weft_status stay(rank_env *env, wefti_mixer *m, weft_neighbours *room) {
    (void)room;
    weft_status status = converse(env, m);
    if (status != WEFT_OK)
        wefti_world_poison(env->world, env->rank, status, weft_ctx_message(env->ctx));
    pthread_barrier_wait(&end);
    return status;
}

static weft_status talk(rank_env *env) {
    if (env->rank > 0) return with_mixer(env, NULL, stay);
    mouth.on.head = (wefti_comm){
        .ops = &lying, .ctx = env->ctx, .rank = env->replica->rank, .size = R};
    mouth.on.inner = env->replica;
    return with_mixer(env, &mouth.on.head, stay);
}

/* The listeners' first failure, or WEFT_OK. */
static weft_status hear(int form, int at, bool sealed, int cut) {
    weft_status statuses[R];
    void *users[R];
    wefti_mixer_config c = speeches[form].config;
    c.gamma = 0.5;
    c.seed = 5;
    c.steps = STEPS;
    c.partners = R - 1;
    bool pairs = form >= PAIRS;
    set_out(R, 1, pairs ? "exponential" : "complete", c, true);
    if (strcmp(c.kind, "choco") == 0) set_out(R, 1, "torus", c, true);
    mouth.stage = speeches[form].stage;
    mouth.at = at;
    mouth.seal = sealed;
    mouth.cut = cut;
    memset(mouth.n, 0, sizeof mouth.n);
    for (int r = 0; r < R; r++) users[r] = &trials[r];
    assert_int_equal(pthread_barrier_init(&end, NULL, R), 0);
    run_ranks(R, 1, (wefti_wire_model){0, 0}, talk, users, statuses);
    pthread_barrier_destroy(&end);
    weft_status worst = WEFT_OK;
    for (int r = 1; r < R; r++)
        if (statuses[r] != WEFT_OK && (worst == WEFT_OK || worst == WEFT_ERR_PEER))
            worst = statuses[r];
    return worst;
}

/* Of the longest message that can be changed. */
static int length_of(int form) {
    mouth.most = 0;
    assert_int_equal(hear(form, -1, false, 0), WEFT_OK);
    return (int)mouth.most;
}

/* Bytes of the head, and some of what follows. */
static int next_byte(int at) { return at < HEAD + 8 ? at + 1 : at + 29; }

TEST(the_truth_is_heard) {
    for (int form = 0; form < N_SPEECHES; form++) {
        assert_true(length_of(form) > HEAD + 8);
        assert_int_equal(hear(form, 10 * MOST_BYTES, true, 0), WEFT_OK);
    }
}

TEST(a_changed_byte_is_found_out) {
    for (int form = 0; form < N_SPEECHES; form++)
        for (int at = 0, most = length_of(form); at < most; at = next_byte(at))
            if (hear(form, at, false, 0) != WEFT_ERR_WIRE)
                fail_msg("form %d: byte %d", form, at);
}

TEST(a_message_cut_short_is_refused) {
    for (int form = 0; form < N_SPEECHES; form++)
        for (int cut = 1; cut <= HEAD; cut += 13)
            assert_int_equal(hear(form, -1, false, cut), WEFT_ERR_WIRE);
}

/* No field of a head may be another one. In a stream another step is a message for
 * another gossip round, as long as it is one to come: then it is late. */
TEST(a_head_with_a_right_checksum_is_refused_all_the_same) {
    for (int form = 0; form < N_SPEECHES; form++)
        for (int at = 0; at < 32; at++) {
            bool step = form == STREAM && at == 8;
            weft_status status = hear(form, at, true, 0);
            if (status != WEFT_ERR_WIRE && !(step && status == WEFT_OK))
                fail_msg("form %d: byte %d", form, at);
        }
}

/* Other numbers are numbers; what no sender writes is refused. Nothing else happens. */
TEST(a_payload_with_a_right_checksum_is_harmless) {
    int heard = 0;
    for (int form = 0; form < N_SPEECHES; form++)
        for (int at = HEAD, most = length_of(form); at < most; at += 7) {
            weft_status status = hear(form, at, true, 0);
            assert_true(status == WEFT_OK || status == WEFT_ERR_WIRE);
            heard += status == WEFT_OK;
        }
    assert_true(heard > 50);
}
