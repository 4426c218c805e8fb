/* SPDX-License-Identifier: MIT */
/* The messages of the example in docs/wire-format.md section 8. */
#include "ranks.h"
#include "wrapped.h"
#include "replicate/replicator.h"
#include "reference/reference.h"

enum { N = 17, MOST_BYTES = 128 };

static const wefti_piece pieces[] = {{3, 4, 0, true, 0}, {5, 1, 12, false, 1}};
static const wefti_bucket bucket = {2, pieces, N};
static const float gradients[2][N] = {
    {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {-2, -1, 2, 0, 0, 2, -1, -2, -1, 2, 0, 0, 2, -1, -2, -1, 2}};

/* A communicator that keeps what it sends, by stage. */
typedef struct spy {
    wrapped on;
    wefti_replicator_config config;
    unsigned char sent[2][MOST_BYTES];
    int64_t n_bytes[2];
    float direction[N];
} spy;

static weft_status spy_send(wefti_comm *comm, int peer, int64_t tag, const void *data,
                            int64_t n_bytes) {
    spy *self = (spy *)comm;
    if (n_bytes > MOST_BYTES) return WEFT_ERR_INTERNAL;
    memcpy(self->sent[tag & 1], data, (size_t)n_bytes);
    self->n_bytes[tag & 1] = n_bytes;
    return wefti_comm_send(self->on.inner, peer, tag, data, n_bytes);
}

static const wefti_comm_ops spying = {.name = "spying", .send = spy_send, PASSED_ON};

static weft_status exchange(wefti_replicator *r, float *x) {
    WEFT_TRY(wefti_replicator_begin(r, 0, 258, 1, x));
    WEFT_TRY(wefti_replicator_combine(r, 0, 258, x));
    return wefti_replicator_end(r, 0, 258, x);
}

static weft_status run_rank(rank_env *env) {
    spy *self = env->user;
    wefti_replicator *r;
    self->on.head = *env->replica;
    self->on.head.ops = &spying;
    self->on.inner = env->replica;
    memcpy(self->direction, gradients[env->rank], sizeof self->direction);
    WEFT_TRY(wefti_replicator_create(env->ctx, &self->config, &wefti_kernels_reference,
                                     &self->on.head, &bucket, 1, &r));
    weft_status status = exchange(r, self->direction);
    if (status == WEFT_OK) status = wefti_comm_barrier(env->control, -1);
    wefti_replicator_destroy(r);
    return status;
}

static void run_example(wefti_route route, spy ranks[2]) {
    void *users[] = {&ranks[0], &ranks[1]};
    for (int i = 0; i < 2; i++)
        ranks[i] = (spy){.config = {.kind = "demo",
                                    .compression_topk = 2,
                                    .compression_chunk = 8,
                                    .compression_decay = 0.9,
                                    .compression_dims = 1,
                                    .sign = true,
                                    .alpha = 1,
                                    .route = route,
                                    .indices = WEFTI_INDICES_FIXED,
                                    .dense_below = 6,
                                    .every = 1,
                                    .threads = 1}};
    run_ranks(2, 1, (wefti_wire_model){0, 0}, run_rank, users, NULL);
}

/* Bytes of a head that no arithmetic changes: all but the checksum. */
static void assert_head(const unsigned char *message, int kind, int sender, int payload) {
    unsigned char head[32] = {'W', 'E', 'F', 'T', 1, (unsigned char)kind, 0, 0, 2, 1};
    head[20] = (unsigned char)sender;
    head[24] = (unsigned char)payload;
    assert_memory_equal(message, head, sizeof head);
}

static void assert_direction(const spy ranks[2]) {
    static const float expected[N] = {-1, 1,  1,  1, 1,  1,  1,  -1, -1,
                                      1,  -1, -1, 1, -1, -1, -1, 1};
    for (int rank = 0; rank < 2; rank++)
        assert_memory_equal(ranks[rank].direction, expected, sizeof expected);
}

TEST(gather_sends_the_message_of_the_page) {
    static spy ranks[2];
    static const unsigned char indices[] = {0x62, 0x0d};
    static const float values[] = {-2.9958093f, -2.1213202f, -1.2585704f, -1.1152213f};
    static const unsigned char vector[] = {
        0, 0, 0, 0x40, 0, 0, 0x80, 0xbf, 0, 0, 0, 0xc0, 0, 0, 0x80, 0xbf, 0, 0, 0, 0x40};
    run_example(WEFTI_ROUTE_GATHER, ranks);
    const unsigned char *message = ranks[1].sent[0];
    assert_int_equal(ranks[1].n_bytes[0], 78);
    assert_int_equal(ranks[1].n_bytes[1], 0);
    assert_head(message, 1, 1, 38);
    assert_memory_equal(message + 40, indices, sizeof indices);
    for (int i = 0; i < 4; i++) {
        float value;
        memcpy(&value, message + 42 + 4 * i, sizeof value);
        assert_true(value > values[i] - 1e-6f && value < values[i] + 1e-6f);
    }
    assert_memory_equal(message + 58, vector, sizeof vector);
    assert_direction(ranks);
}

TEST(owners_send_the_answers_of_the_page) {
    static spy ranks[2];
    static const unsigned char first[] = {0x05, 0x81, 0x6d}, second[] = {0xa9, 0x01};
    run_example(WEFTI_ROUTE_OWNER, ranks);
    assert_int_equal(ranks[0].n_bytes[0], 40 + 20);
    assert_int_equal(ranks[1].n_bytes[0], 40 + 18);
    assert_head(ranks[0].sent[0], 1, 0, 20);
    assert_int_equal(ranks[0].n_bytes[1], 43);
    assert_head(ranks[0].sent[1], 2, 0, 3);
    assert_memory_equal(ranks[0].sent[1] + 40, first, sizeof first);
    assert_int_equal(ranks[1].n_bytes[1], 42);
    assert_head(ranks[1].sent[1], 2, 1, 2);
    assert_memory_equal(ranks[1].sent[1] + 40, second, sizeof second);
    assert_direction(ranks);
}
