/* SPDX-License-Identifier: MIT */
/* A program that compresses (weft_sync_submit) hears what all ranks chose, or has the direction, or
 * its signs: those of a transform back in double of the mean over the ranks that sent a
 * coefficient. */
#include <weft/sync.h>

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "hub.h"

enum { TENSORS = 3, RANKS = 3, STEPS = 3, CHUNK = 8, TOPK = 3, MOST = 72, SMALL = 2 };

#define TENSOR sizeof(weft_sync_tensor)
static const weft_sync_tensor tensors[TENSORS] = {
    {TENSOR, "matrix", 10, 7, true}, /* 8 3/4 chunks */
    {TENSOR, "vector", 33, 1, false},
    {TENSOR, "small", 3, 2, true}}; /* sent whole */

typedef enum fault { NONE, LATE_ROOM, SHORT_ROOM, DISORDER, NOT_FINITE, TOO_EARLY } fault;

typedef struct member {
    bool sharded, sign;
    const char *values;
    fault fault;
    hub *hub;
    int number;
    weft_ctx *ctx;
    weft_config *config;
    weft_mesh *mesh;
    weft_sync *s;
    pthread_t thread;
    weft_status status;
    char text[1024];
    int32_t places[TENSORS][MOST], heard_places[TENSORS][RANKS * MOST];
    float values_of[TENSORS][MOST], heard_values[TENSORS][RANKS * MOST];
} member;

static int64_t elements_of(int i) { return tensors[i].rows * tensors[i].cols; }
static int64_t chunks_of(int i) { return (elements_of(i) + CHUNK - 1) / CHUNK; }
static int64_t sent_of(int i) {
    return i == SMALL ? elements_of(i) : chunks_of(i) * TOPK;
}

/* What a rank chooses in a step; some values are 0, which do not count as sent. */
static void choose(int rank, int64_t t, int i, int32_t *places, float *values) {
    for (int64_t j = 0; j < sent_of(i); j++) {
        places[j] = (int32_t)(j % TOPK * 2 + (rank + t + j / TOPK) % 3);
        values[j] = (j + rank) % 5 == 0 ? 0
                                        : sinf((float)(13 * j + 7 * rank + 3 * t + i));
    }
}

/* [elements] the direction of a step, before its sign. */
static void oracle(int64_t t, int i, double *d) {
    int32_t places[MOST];
    float values[MOST];
    double sum[CHUNK * MOST] = {0}, senders[CHUNK * MOST] = {0};
    for (int r = 0; r < RANKS; r++) {
        choose(r, t, i, places, values);
        for (int64_t j = 0; j < sent_of(i); j++) {
            int64_t at = i == SMALL ? j : j / TOPK * CHUNK + places[j];
            sum[at] += values[j];
            senders[at] += i == SMALL || values[j] != 0;
        }
    }
    for (int64_t e = 0; e < elements_of(i); e++) {
        double point = (double)(e % CHUNK) + 0.5, found = 0;
        int64_t first = e / CHUNK * CHUNK;
        for (int k = 0; k < CHUNK && i != SMALL; k++)
            found += sum[first + k] / fmax(1, senders[first + k]) *
                     cos(acos(-1.0) * point * k / CHUNK) * sqrt((k ? 2.0 : 1.0) / CHUNK);
        d[e] = i == SMALL ? sum[e] / RANKS : found;
    }
}

static weft_status offer_all(member *m, int64_t t) {
    for (int i = TENSORS - 1; i >= 0; i--) {
        weft_sync_chunk_shape shape = {.struct_size = sizeof shape};
        WEFT_TRY(weft_sync_chunk_shape_of(m->s, i, &shape));
        assert_int_equal(shape.n_chunks * shape.k, sent_of(i));
        assert_true(shape.whole == (i == SMALL));
        choose(m->number, t, i, m->places[i], m->values_of[i]);
        if (m->fault == DISORDER && i == 0) m->places[i][1] = m->places[i][0];
        if (m->fault == NOT_FINITE && i == 0) m->values_of[i][4] = NAN;
        if (m->fault == LATE_ROOM)
            WEFT_TRY(weft_sync_submit(m->s, i, m->places[i], m->values_of[i]));
        int64_t stride = m->fault == SHORT_ROOM ? sent_of(i) - 1 : MOST;
        WEFT_TRY(
            weft_sync_collect(m->s, i, m->heard_places[i], m->heard_values[i], stride));
        WEFT_TRY(
            weft_sync_submit(m->s, i, i == SMALL ? NULL : m->places[i], m->values_of[i]));
    }
    return WEFT_OK;
}

static void check_heard(const member *m, int64_t t, int i, double slack) {
    int32_t places[MOST];
    float values[MOST];
    for (int r = 0; r < RANKS; r++) {
        const float *came = m->heard_values[i] + r * MOST;
        choose(r, t, i, places, values);
        assert_memory_equal(m->heard_places[i] + r * MOST, places,
                            (size_t)sent_of(i) * sizeof *places);
        for (int64_t j = 0; j < sent_of(i); j++)
            assert_true(fabs((double)came[j] - (double)values[j]) <= slack);
        if (r == m->number) /* what the others decode */
            assert_memory_equal(came, m->values_of[i], (size_t)sent_of(i) * sizeof *came);
    }
}

static weft_status check_direction(member *m, int64_t t, int i, double slack) {
    unsigned char below[MOST / 8 + 1], moves[MOST / 8 + 1];
    const float *d = weft_sync_gradients(m->s, i);
    double wanted[MOST];
    bool sound;
    oracle(t, i, wanted);
    WEFT_TRY(weft_sync_signs(m->s, i, below, moves, &sound));
    assert_true(sound);
    for (int64_t e = 0; e < elements_of(i); e++) {
        bool minus = below[e / 8] >> e % 8 & 1, moved = moves[e / 8] >> e % 8 & 1;
        assert_int_equal(minus, d[e] < 0);
        assert_int_equal(moved, d[e] != 0);
        if (!m->sign)
            assert_true(fabs((double)d[e] - wanted[e]) <= slack);
        else if (fabs(wanted[e]) > slack)
            assert_true((double)d[e] == (wanted[e] < 0 ? -1 : 1));
    }
    return WEFT_OK;
}

/* Values are at most 1: int8 is off by at most half of a 127th of that, whose scale has 8 bits. A
 * transform adds eight numbers, the weights' squares sum to 1. */
static weft_status one_step(member *m, int64_t t) {
    weft_sync_report report = {.struct_size = sizeof report};
    double slack = strcmp(m->values, "f32") == 0 ? 0 : 0.5 / 127 * (1 + 1.0 / 128);
    bool moves;
    int n;
    WEFT_TRY(offer_all(m, t));
    if (m->fault == TOO_EARLY) WEFT_TRY(weft_sync_collected(m->s, 0, &n));
    WEFT_TRY(weft_sync_agree(m->s, 1, &moves));
    assert_true(moves);
    for (int i = 0; i < TENSORS; i++) {
        WEFT_TRY(weft_sync_collected(m->s, i, &n));
        assert_int_equal(n, i == SMALL || m->sharded ? 0 : RANKS);
        if (n > 0)
            check_heard(m, t, i, slack);
        else /* an owner codes the mean once more */
            WEFT_TRY(check_direction(m, t, i, 1e-6 + 2 * slack * sqrt(CHUNK)));
    }
    return weft_sync_mix(m->s, &report);
}

static weft_status make(member *m) {
    char exchange[64], sign[64], values[64];
    snprintf(exchange, sizeof exchange, "replicator.exchange=%s",
             m->sharded ? "sharded" : "all_gather");
    snprintf(sign, sizeof sign, "replicator.sign=%s", m->sign ? "true" : "false");
    snprintf(values, sizeof values, "replicator.values=%s", m->values);
    const char *const keys[] = {"method=flexdemo",
                                "mesh.shards=1",
                                "mesh.on_loss=end",
                                "replicator.compression_dims=1",
                                "replicator.compression_chunk=8",
                                "replicator.compression_topk=3",
                                "replicator.dense_below=8",
                                exchange,
                                sign,
                                values};
    weft_sync_setup setup = {.struct_size = sizeof setup,
                             .mesh = m->mesh,
                             .tensors = tensors,
                             .n_tensors = TENSORS,
                             .endless = true,
                             .outside = true,
                             .writes = true,
                             .compressed = true};
    WEFT_TRY(weft_config_create(m->ctx, &m->config));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        WEFT_TRY(weft_config_set(m->ctx, m->config, keys[i]));
    WEFT_TRY(weft_mesh_fit(m->ctx, m->mesh, m->config));
    WEFT_TRY(weft_config_finish(m->ctx, m->config));
    setup.config = m->config;
    WEFT_TRY(weft_sync_create_from(m->ctx, &setup, &m->s));
    return weft_sync_begin(m->s);
}

static void *train(void *argument) {
    member *m = argument;
    m->status = weft_mesh_create(m->ctx, hub_member(m->hub, m->number), &m->mesh);
    if (m->status == WEFT_OK) m->status = make(m);
    for (int64_t t = 0; t < STEPS && m->status == WEFT_OK; t++)
        m->status = one_step(m, t);
    if (m->status != WEFT_OK && m->mesh) weft_mesh_fail(m->ctx, m->mesh, m->status);
    snprintf(m->text, sizeof m->text, "%s", weft_ctx_message(m->ctx));
    weft_sync_destroy(m->s);
    weft_config_destroy(m->ctx, m->config);
    (void)weft_mesh_close(m->mesh);
    return NULL;
}

/* All ranks, each on a host of its own; a fault is rank 1's. */
static member *run(const member *wanted) {
    static const char *const hosts[] = {"a", "b", "c"};
    member *m = calloc(RANKS, sizeof *m);
    hub h;
    hub_begin(&h, RANKS, hosts);
    for (int r = 0; r < RANKS; r++) {
        m[r] = *wanted;
        m[r].fault = r == 1 ? wanted->fault : NONE;
        m[r].hub = &h;
        m[r].number = r;
        assert_int_equal(weft_ctx_create(&m[r].ctx), WEFT_OK);
        assert_int_equal(pthread_create(&m[r].thread, NULL, train, &m[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) pthread_join(m[r].thread, NULL);
    for (int r = 0; r < RANKS; r++) assert_int_equal(ctx_end(m[r].ctx), 0);
    hub_end(&h);
    return m;
}

TEST(test_what_all_chose_comes_back) {
    static const char *const values[] = {"f32", "int8"};
    (void)state;
    for (int c = 0; c < 8; c++) {
        member wanted = {.sharded = c & 1, .sign = c & 2, .values = values[c / 4]};
        member *m = run(&wanted);
        for (int r = 0; r < RANKS; r++)
            if (m[r].status != WEFT_OK) fail_msg("case %d, rank %d: %s", c, r, m[r].text);
        free(m);
    }
}

TEST(test_faults_are_said) {
    static const struct {
        fault fault;
        weft_status status;
        const char *text;
    } cases[] = {
        {LATE_ROOM, WEFT_ERR_ARGUMENT, "tensor 2, which was offered, gets room"},
        {SHORT_ROOM, WEFT_ERR_ARGUMENT,
         "room for 5 numbers of each rank; expected it before"},
        {DISORDER, WEFT_ERR_ARGUMENT,
         "tensor 0, chunk 0: place 1 is offered; expected one above 1"},
        {NOT_FINITE, WEFT_ERR_NUMERIC, "gradient is not finite at step 1 (learning rate"},
        {TOO_EARLY, WEFT_ERR_ARGUMENT,
         "what was agreed on is there between weft_sync_agree"},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        member wanted = {.values = "f32", .fault = cases[c].fault};
        member *m = run(&wanted);
        assert_int_equal(m[1].status, cases[c].status);
        if (!strstr(m[1].text, cases[c].text)) fail_msg("%s", m[1].text);
        assert_int_not_equal(m[0].status, WEFT_OK);
        free(m);
    }
}
