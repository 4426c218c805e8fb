/* SPDX-License-Identifier: MIT */
/* demo among two ranks, the first of which lies: every byte of its messages is changed,
 * with the old checksum and with a right one, and cut short. */
#include "ranks.h"
#include "wrapped.h"
#include "replicate/replicator.h"
#include "wire/bits.h"
#include "wire/frame.h"

enum { ROWS = 25, COLS = 11, SMALL = 5, N = ROWS * COLS + SMALL, MOST_BYTES = 1024 };

static const wefti_piece pieces[] = {{ROWS, COLS, 0, true, 0},
                                     {SMALL, 1, ROWS *COLS, false, 1}};
static const wefti_bucket bucket = {2, pieces, N};

/* -- a communicator that lies -- */

typedef struct lie {
    int stage; /* of the messages that it changes */
    bool seal; /* makes the checksum right again */
    int cut;   /* bytes that it leaves away */
    /* changes the message; at: which byte, from the head's first one */
    void (*change)(unsigned char *message, int at, int n_bytes);
    int at;
} lie;

typedef struct liar {
    wrapped on;
    const lie *told;
    int64_t n_bytes; /* of the last message that was changed */
    unsigned char message[MOST_BYTES];
} liar;

static void seal(unsigned char *message, int64_t n_bytes) {
    wefti_frame frame = {.kind = (wefti_frame_kind)message[5],
                         .step = (int64_t)wefti_get_u64(message + 8),
                         .bucket = (int)wefti_get_u32(message + 16),
                         .sender = (int)wefti_get_u32(message + 20),
                         .payload_bytes = n_bytes - WEFTI_FRAME_BYTES};
    wefti_frame_encode(&frame, message);
}

static weft_status lie_send(wefti_comm *comm, int peer, int64_t tag, const void *data,
                            int64_t n_bytes) {
    liar *self = (liar *)comm;
    const lie *told = self->told;
    if ((tag & 15) != told->stage)
        return wefti_comm_send(self->on.inner, peer, tag, data, n_bytes);
    assert_true(n_bytes <= MOST_BYTES);
    memcpy(self->message, data, (size_t)n_bytes);
    self->n_bytes = n_bytes;
    if (told->change) told->change(self->message, told->at, (int)n_bytes);
    if (told->seal) seal(self->message, n_bytes);
    return wefti_comm_send(self->on.inner, peer, tag, self->message, n_bytes - told->cut);
}

static const wefti_comm_ops lying = {.name = "lying", .send = lie_send, PASSED_ON};

/* -- what the other one makes of it -- */

typedef struct hearers {
    wefti_replicator_config config;
    const lie *lies;
    int n_lies;
    weft_status *heard; /* [n_lies] of rank 1 */
    int64_t n_bytes;    /* of the messages, as they should be */
} hearers;

/* Rank 0 says all that it has to say and leaves; rank 1 goes to the end. */
static weft_status tell(wefti_replicator *r, int64_t step, float *x) {
    WEFT_TRY(wefti_replicator_begin(r, 0, step, 1, x));
    return wefti_replicator_combine(r, 0, step, x);
}

static weft_status hear(wefti_replicator *r, int64_t step, float *x) {
    WEFT_TRY(wefti_replicator_begin(r, 0, step, 1, x));
    WEFT_TRY(wefti_replicator_combine(r, 0, step, x));
    return wefti_replicator_end(r, 0, step, x);
}

/* Every lie is told in a step of its own by a replicator of its own. */
static weft_status one_lie(rank_env *env, hearers *h, int i, liar *mouth) {
    wefti_replicator *r;
    float x[N];
    wefti_comm *comm = env->rank == 0 ? &mouth->on.head : env->replica;
    WEFT_TRY(wefti_replicator_create(env->ctx, &h->config, wefti_kernels_find(NULL), comm,
                                     &bucket, 1, &r));
    fill_normal((uint64_t)env->rank, N, x);
    weft_status status = WEFT_OK;
    if (env->rank == 0) {
        status = tell(r, i, x);
        h->n_bytes = mouth->n_bytes;
    } else {
        h->heard[i] = hear(r, i, x);
        bool named = weft_ctx_message(env->ctx)[0] != '\0';
        if (named != (h->heard[i] != WEFT_OK)) status = WEFT_ERR_INTERNAL;
        weft_ctx_clear(env->ctx);
    }
    if (status == WEFT_OK) status = wefti_comm_barrier(env->control, i);
    wefti_replicator_destroy(r);
    return status;
}

static weft_status all_lies(rank_env *env) {
    hearers *h = env->user;
    liar mouth = {.on = {*env->replica, env->replica}};
    mouth.on.head.ops = &lying;
    for (int i = 0; i < h->n_lies; i++) {
        mouth.told = &h->lies[i];
        WEFT_TRY(one_lie(env, h, i, &mouth));
    }
    return WEFT_OK;
}

static int64_t run_lies(const wefti_replicator_config *config, const lie *lies, int n,
                        weft_status *heard) {
    hearers h = {.config = *config, .lies = lies, .n_lies = n, .heard = heard};
    void *users[] = {&h, &h};
    run_ranks(2, 1, (wefti_wire_model){0, 0}, all_lies, users, NULL);
    return h.n_bytes;
}

static wefti_replicator_config knobs(int form) {
    return (wefti_replicator_config){
        .kind = "demo",
        .compression_topk = 3,
        .compression_chunk = 9, /* bits and numbers that do not fill a byte */
        .compression_decay = 0.9,
        .compression_dims = 1,
        .sign = form % 2,
        .alpha = 1,
        .route = form / 2 % 2 ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_GATHER,
        .values = form / 4 ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32,
        .indices = (wefti_index_codec)(1 + form % 3),
        .dense_below = 8,
        .every = 1,
        .threads = 1};
}

enum { FORMS = 8 };

static void change_nothing(unsigned char *message, int at, int n_bytes) {
    (void)message;
    (void)at;
    (void)n_bytes;
}

static void flip(unsigned char *message, int at, int n_bytes) {
    if (at < n_bytes) message[at] ^= (unsigned char)(1 << (at + at / 8) % 8);
}

static int stages_of(const wefti_replicator_config *config) {
    return config->route == WEFTI_ROUTE_OWNER ? 2 : 1;
}

static lie lies[MOST_BYTES];
static weft_status heard[MOST_BYTES];

/* As many lies as the message has bytes, each about a bit of one. */
static int flip_every_byte(const wefti_replicator_config *config, int stage, bool right,
                           int first_byte) {
    lie honest = {.stage = stage, .change = change_nothing};
    int64_t n_bytes = run_lies(config, &honest, 1, heard);
    assert_int_equal(heard[0], WEFT_OK);
    int n = 0;
    for (int at = first_byte; at < n_bytes; at++)
        lies[n++] = (lie){.stage = stage, .seal = right, .change = flip, .at = at};
    run_lies(config, lies, n, heard);
    return n;
}

TEST(a_flipped_bit_in_any_byte_is_found) {
    for (int form = 0; form < FORMS; form++) {
        wefti_replicator_config config = knobs(form);
        for (int stage = 0; stage < stages_of(&config); stage++) {
            int n = flip_every_byte(&config, stage, false, 0);
            for (int i = 0; i < n; i++) assert_int_equal(heard[i], WEFT_ERR_WIRE);
        }
    }
}

/* Under a right checksum a flipped bit may be another value, or nonsense, and never more
 * than that. */
TEST(a_liar_who_knows_the_checksum_does_no_harm) {
    for (int form = 0; form < FORMS; form++) {
        wefti_replicator_config config = knobs(form);
        for (int stage = 0; stage < stages_of(&config); stage++) {
            int n = flip_every_byte(&config, stage, true, WEFTI_FRAME_BYTES), refused = 0;
            for (int i = 0; i < n; i++) {
                assert_true(heard[i] == WEFT_OK || heard[i] == WEFT_ERR_WIRE);
                refused += heard[i] != WEFT_OK;
            }
            bool means_something = stage == 1 && !config.sign; /* every number does */
            bool is_dense = stage == 0 && config.indices == WEFTI_INDICES_ENUMERATIVE;
            if (means_something) assert_int_equal(refused, 0);
            if (!means_something && !is_dense) assert_true(refused > 0);
            assert_true(refused < n);
        }
    }
}

TEST(a_message_of_another_length_is_refused) {
    for (int form = 0; form < FORMS; form++) {
        wefti_replicator_config config = knobs(form);
        for (int stage = 0; stage < stages_of(&config); stage++) {
            lie few[] = {{.stage = stage, .cut = 1}, {.stage = stage, .cut = 41}};
            run_lies(&config, few, 2, heard);
            for (int i = 0; i < 2; i++) assert_int_equal(heard[i], WEFT_ERR_WIRE);
        }
    }
}

/* -- answers: 22 states of 2 bits in 6 bytes, then 9 bits of each chunk in 2 -- */

enum { STATES = WEFTI_FRAME_BYTES, BITS = STATES + 6 };

static void say_state(unsigned char *message, int at, int n_bytes) {
    assert_true(n_bytes == BITS + 22 * 2);
    message[STATES] = (unsigned char)((message[STATES] & ~3) | at);
}

static void say_state_without_bits(unsigned char *message, int at, int n_bytes) {
    say_state(message, at, n_bytes);
    message[BITS] = message[BITS + 1] = 0;
}

static void say_more(unsigned char *message, int at, int n_bytes) {
    (void)n_bytes;
    message[at] |= 0x80;
}

TEST(answers_with_bad_states_or_stray_bits_are_refused) {
    wefti_replicator_config config = knobs(3);
    static const struct {
        lie told;
        weft_status status;
    } rows[] = {
        {{.change = say_state, .at = 0}, WEFT_ERR_WIRE}, /* zero, but there are bits */
        {{.change = say_state, .at = 1}, WEFT_OK},
        {{.change = say_state, .at = 2}, WEFT_ERR_WIRE}, /* not finite, but bits */
        {{.change = say_state_without_bits, .at = 0}, WEFT_OK},
        {{.change = say_state_without_bits, .at = 2}, WEFT_OK},
        {{.change = say_state_without_bits, .at = 3}, WEFT_ERR_WIRE}, /* no state */
        {{.change = say_more, .at = BITS - 1}, WEFT_ERR_WIRE},        /* a 24th state */
        {{.change = say_more, .at = BITS + 1}, WEFT_ERR_WIRE},        /* a 16th element */
    };
    enum { ROWS_OF_TABLE = sizeof rows / sizeof rows[0] };
    for (int i = 0; i < ROWS_OF_TABLE; i++) {
        lies[i] = rows[i].told;
        lies[i].stage = 1;
        lies[i].seal = true;
    }
    run_lies(&config, lies, ROWS_OF_TABLE, heard);
    for (int i = 0; i < ROWS_OF_TABLE; i++) assert_int_equal(heard[i], rows[i].status);
}
