/* SPDX-License-Identifier: MIT */
/* A program that keeps the parameters and the mixer's states itself, and codes what is sent
 * (weft_sync_hold_mixer), has the bits of one that leaves them to libweft. */
#include <weft/sync.h>

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "hub.h"
#include "wire/bins.h"
#include "wire/section.h"

enum { TENSORS = 3, ELEMENTS = 20 * 26 + 33 + 7 * 11, RANKS = 3, STEPS = 7, PARCELS = 8 };
enum { CHUNK = 16, TOPK = 3, PARTNERS = RANKS - 1 };

#define TENSOR sizeof(weft_sync_tensor)
static const weft_sync_tensor tensors[TENSORS] = {{TENSOR, "matrix", 20, 26, true},
                                                  {TENSOR, "vector", 33, 1, false},
                                                  {TENSOR, "last", 7, 11, true}};

typedef struct member {
    const char *const *keys; /* NULL-terminated */
    bool holds, forgets, out_of_order, astray;
    hub *hub;
    int number;
    weft_ctx *ctx;
    weft_config *config;
    weft_mesh *mesh;
    weft_sync *s;
    pthread_t thread;
    weft_status status;
    char text[1024];
    int64_t sent;
    float x[ELEMENTS], start[ELEMENTS], velocity[ELEMENTS], error[ELEMENTS];
    float told[PARTNERS][ELEMENTS], heard[PARTNERS][ELEMENTS], said[PARTNERS][ELEMENTS];
    unsigned char bytes[PARCELS][4 * ELEMENTS];
    int32_t places[PARCELS][ELEMENTS];
} member;

static bool is(const member *m, const char *key) { return strcmp(m->keys[0], key) == 0; }

/* A step of plain descent, towards a place of the rank's own. */
static void descend(const member *m, float *x) {
    for (int64_t k = 0; k < ELEMENTS; k++)
        x[k] -= 0.1f * (x[k] - sinf((float)(k + 5 * m->number)));
}

/* change[n] <- what the others decode */
static void code(const weft_sync_parcel *p, float *change, unsigned char *out) {
    wefti_section s = wefti_section_dense(p->n, WEFTI_VALUES_INT8);
    for (int64_t b = 0; b < s.n_blocks; b++)
        wefti_section_encode(&s, b, NULL, change + b * s.block_values, NULL,
                             out + wefti_section_bytes(&s, 0, b));
}

static void give_change(member *m, const weft_sync_parcel *p, unsigned char *out) {
    float change[ELEMENTS];
    for (int64_t i = 0, e = p->first; i < p->n; i++, e++)
        m->error[e] = change[i] = m->start[e] - m->x[e] + m->error[e];
    code(p, change, out);
    for (int64_t i = 0; i < p->n; i++) m->error[p->first + i] -= change[i];
}

static void give_difference(member *m, const weft_sync_parcel *p, unsigned char *out) {
    float *said = m->said[p->partner] + p->first;
    for (int64_t i = 0, e = p->first; i < p->n; i++, e++)
        said[i] = m->x[e] - m->told[p->partner][e];
    code(p, said, out);
}

/* The TOPK first of each run in place of the largest: any places are right. */
static void give_sparse(member *m, const weft_sync_parcel *p, unsigned char *out,
                        int32_t *places) {
    float values[ELEMENTS];
    for (int64_t e = p->first; e < p->first + p->n; e++)
        m->error[e] += m->start[e] - m->x[e];
    for (int64_t i = 0; i < p->n_places; i++) {
        int64_t at = i / TOPK * CHUNK + i % TOPK;
        places[i] = (int32_t)(i % TOPK);
        values[i] = at < p->n ? m->error[p->first + at] : 0;
    }
    wefti_bins_encode(p->n_places, values, out);
    if (m->out_of_order) places[1] = places[0];
    for (int64_t i = 0; i < p->n_places; i++) {
        int64_t at = i / TOPK * CHUNK + i % TOPK;
        if (at < p->n) m->error[p->first + at] -= values[i];
    }
}

static weft_status hand_over(member *m) {
    weft_sync_parcel p[PARCELS];
    int n;
    for (int k = 0; k < PARCELS; k++) p[k].struct_size = sizeof p[k];
    WEFT_TRY(weft_sync_outgoing(m->s, p, PARCELS, &n));
    assert_in_range(n, 0, PARCELS);
    if (m->astray) return weft_sync_not_finite(m->s, 1);
    for (int k = 0; k < n && !m->forgets; k++) {
        if (is(m, "method=dadam"))
            give_difference(m, &p[k], m->bytes[k]);
        else if (p[k].n_places > 0)
            give_sparse(m, &p[k], m->bytes[k], m->places[k]);
        else
            give_change(m, &p[k], m->bytes[k]);
        WEFT_TRY(weft_sync_supply(m->s, k, m->bytes[k], m->places[k]));
    }
    return WEFT_OK;
}

static void take_mean(member *m, const weft_sync_parcel *p) {
    const float *d = p->bytes;
    float mu = is(m, "method=diloco") ? 0.9f : 0, eta = 0.5f;
    for (int64_t i = 0, e = p->first; i < p->n; i++, e++) {
        m->velocity[e] = mu * m->velocity[e] + d[i];
        m->start[e] -= eta * (d[i] + mu * m->velocity[e]);
        m->x[e] = m->start[e];
    }
}

static weft_status take_heard(member *m, const weft_sync_parcel *p) {
    wefti_section s = wefti_section_dense(p->n, WEFTI_VALUES_INT8);
    float came[ELEMENTS], *told = m->told[p->partner], *heard = m->heard[p->partner];
    for (int64_t b = 0; b < s.n_blocks; b++)
        WEFT_TRY(wefti_section_decode(m->ctx, &s, b,
                                      (const unsigned char *)p->bytes +
                                          wefti_section_bytes(&s, 0, b),
                                      NULL, came + b * s.block_values));
    for (int64_t i = 0, e = p->first; i < p->n; i++, e++) {
        heard[e] += came[i];
        told[e] += m->said[p->partner][e];
        m->x[e] += (float)p->share * (heard[e] - told[e]);
    }
    return WEFT_OK;
}

static weft_status take_in(member *m) {
    weft_sync_parcel p[PARCELS];
    int n;
    for (int k = 0; k < PARCELS; k++) p[k].struct_size = sizeof p[k];
    WEFT_TRY(weft_sync_incoming(m->s, p, PARCELS, &n));
    for (int k = 0; k < n; k++) {
        if (p[k].kind == WEFT_PARCEL_MEAN) take_mean(m, &p[k]);
        if (p[k].kind == WEFT_PARCEL_HEARD) WEFT_TRY(take_heard(m, &p[k]));
        for (int64_t i = 0; i < p[k].n && p[k].kind == WEFT_PARCEL_LOST; i++)
            m->error[p[k].first + i] += ((const float *)p[k].bytes)[i];
    }
    return WEFT_OK;
}

static weft_status held_step(member *m, int64_t step, weft_sync_report *report) {
    bool moves;
    if (step == 0) WEFT_TRY(hand_over(m));
    WEFT_TRY(weft_sync_agree(m->s, 1, &moves));
    WEFT_TRY(take_in(m));
    descend(m, m->x);
    WEFT_TRY(hand_over(m));
    WEFT_TRY(weft_sync_mix(m->s, report));
    return take_in(m);
}

static weft_status plain_step(member *m, weft_sync_report *report) {
    bool moves;
    WEFT_TRY(weft_sync_agree(m->s, 1, &moves));
    descend(m, weft_sync_parameters(m->s, TENSORS - 1)); /* which lies first */
    return weft_sync_mix(m->s, report);
}

static weft_status make(member *m) {
    weft_sync_setup setup = {.struct_size = sizeof setup,
                             .mesh = m->mesh,
                             .tensors = tensors,
                             .n_tensors = TENSORS,
                             .endless = true,
                             .outside = true};
    int partners;
    WEFT_TRY(weft_config_create(m->ctx, &m->config));
    WEFT_TRY(weft_config_set(m->ctx, m->config, "mesh.shards=1"));
    for (int i = 0; m->keys[i]; i++)
        WEFT_TRY(weft_config_set(m->ctx, m->config, m->keys[i]));
    WEFT_TRY(weft_mesh_fit(m->ctx, m->mesh, m->config));
    WEFT_TRY(weft_config_finish(m->ctx, m->config));
    setup.config = m->config;
    WEFT_TRY(weft_sync_create_from(m->ctx, &setup, &m->s));
    if (m->holds) WEFT_TRY(weft_sync_hold_mixer(m->s, &partners));
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < tensors[i].rows * tensors[i].cols; k++)
            weft_sync_parameters(m->s, i)[k] = cosf((float)(7 * k + i));
    WEFT_TRY(weft_sync_begin(m->s));
    size_t n_bytes = sizeof m->x;
    memcpy(m->x, weft_sync_parameters(m->s, TENSORS - 1), n_bytes);
    memcpy(m->start, m->x, n_bytes);
    for (int k = 0; k < PARTNERS; k++) memcpy(m->told[k], m->x, n_bytes);
    for (int k = 0; k < PARTNERS; k++) memcpy(m->heard[k], m->x, n_bytes);
    return WEFT_OK;
}

static weft_status all_steps(member *m) {
    WEFT_TRY(make(m));
    for (int64_t t = 0; t < STEPS; t++) {
        weft_sync_report report = {.struct_size = sizeof report};
        WEFT_TRY(m->holds ? held_step(m, t, &report) : plain_step(m, &report));
        m->sent += report.wire_bytes_out;
    }
    if (!m->holds) memcpy(m->x, weft_sync_parameters(m->s, TENSORS - 1), sizeof m->x);
    return WEFT_OK;
}

static void *train(void *argument) {
    member *m = argument;
    m->status = weft_mesh_create(m->ctx, hub_member(m->hub, m->number), &m->mesh);
    if (m->status == WEFT_OK) m->status = all_steps(m);
    if (m->status != WEFT_OK && m->mesh) weft_mesh_fail(m->ctx, m->mesh, m->status);
    snprintf(m->text, sizeof m->text, "%s", weft_ctx_message(m->ctx));
    weft_sync_destroy(m->s);
    weft_config_destroy(m->ctx, m->config);
    (void)weft_mesh_close(m->mesh);
    return NULL;
}

/* All ranks, each on a host of its own; `odd` is rank 1. */
static member *run(const member *wanted, const member *odd) {
    static const char *const hosts[] = {"a", "b", "c"};
    member *m = calloc(RANKS, sizeof *m);
    hub h;
    hub_begin(&h, RANKS, hosts);
    for (int r = 0; r < RANKS; r++) {
        m[r] = r == 1 ? *odd : *wanted;
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

#define NEAR_ALL "mesh.on_loss=end", "mesh.min_message=1", NULL
static const char *const outer[] = {
    "method=diloco",      "mixer.outer_every=2",      "mixer.values=int8",
    "mixer.outer_lr=0.5", "mixer.outer_momentum=0.9", NEAR_ALL};
static const char *const whole[] = {"method=diloco",        "mixer.outer_every=3",
                                    "mixer.values=int8",    "mixer.outer_lr=0.5",
                                    "mesh.min_message=1e6", "mixer.outer_momentum=0.9",
                                    "mesh.on_loss=end",     NULL};
static const char *const choco[] = {"method=dadam", "mixer.kind=choco",
                                    "mixer.values=int8", "mixer.topology=ring", NEAR_ALL};
static const char *const sparse[] = {"method=sparseloco",
                                     "mixer.outer_every=2",
                                     "mixer.compression_chunk=16",
                                     "mixer.compression_topk=3",
                                     "mixer.outer_lr=0.5",
                                     "mixer.feedback=1",
                                     "mixer.merge=0",
                                     NEAR_ALL};

TEST(test_same_bits) {
    const char *const *const cases[] = {outer, whole, choco};
    (void)state;
    for (int c = 0; c < 3; c++) {
        member plain = {.keys = cases[c]}, held = {.keys = cases[c], .holds = true};
        member *a = run(&plain, &plain), *b = run(&held, &held),
               *both = run(&plain, &held);
        for (int r = 0; r < RANKS; r++) {
            if (b[r].status != WEFT_OK) fail_msg("rank %d: %s", r, b[r].text);
            assert_int_equal(a[r].sent, b[r].sent);
            assert_memory_equal(a[r].x, b[r].x, sizeof a[r].x);
            assert_memory_equal(a[r].x, both[r].x, sizeof a[r].x);
        }
        free(a), free(b), free(both);
    }
}

/* Whatever the program chooses, all ranks step alike. */
TEST(test_sparse_changes) {
    member held = {.keys = sparse, .holds = true};
    member *m = run(&held, &held);
    for (int r = 0; r < RANKS; r++) {
        if (m[r].status != WEFT_OK) fail_msg("rank %d: %s", r, m[r].text);
        assert_memory_equal(m[r].start, m[0].start, sizeof m[0].start);
    }
    free(m);
}

TEST(test_faults_are_said) {
    member held = {.keys = outer, .holds = true}, odd = held;
    odd.forgets = true;
    member *m = run(&held, &odd);
    assert_int_equal(m[1].status, WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(m[1].text, "has not handed its change over"));
    assert_int_not_equal(m[0].status, WEFT_OK);
    free(m);
    held.keys = odd.keys = sparse;
    odd.forgets = false;
    odd.out_of_order = true;
    m = run(&held, &odd);
    assert_int_equal(m[1].status, WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(m[1].text, "has place 0; expected one above 0 and below 16"));
    free(m);
    odd.out_of_order = false;
    odd.astray = true;
    m = run(&held, &odd);
    assert_int_equal(m[1].status, WEFT_ERR_NUMERIC);
    assert_non_null(strstr(m[1].text, "the parameters are not finite at step 1 "));
    assert_non_null(strstr(m[1].text, "tensor vector"));
    assert_non_null(strstr(m[0].text, "the parameters are not finite at step 1 "));
    free(m);
    static const char *const gossip[] = {"method=dadam", NEAR_ALL};
    held.keys = odd.keys = gossip;
    m = run(&held, &odd);
    assert_int_equal(m[0].status, WEFT_ERR_CONFIG);
    assert_non_null(strstr(m[0].text, "nothing that a program could hold"));
    free(m);
}
