/* SPDX-License-Identifier: MIT */
/* Programs' own loops (weft/sync.h) over a mesh of threads, and in one process. */
#pragma once

#include <weft/sync.h>

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "hub.h"

enum { TENSORS = 3, MOST = 12 * 10 + 7 + 15, RANKS = 4 };

#define TENSOR sizeof(weft_sync_tensor)
static const weft_sync_tensor whole[TENSORS] = {{TENSOR, "matrix", 12, 10, true},
                                                {TENSOR, "vector", 1, 7, false},
                                                {TENSOR, "last", 5, 3, true}};

/* What a rank is to do, and what came of it. */
typedef struct loop {
    /* the same for all ranks of a run */
    const char *const *keys; /* NULL-terminated */
    int steps, stop_after;   /* 0: do not stop and resume */
    int before;              /* steps of another exchange on the same mesh */
    bool outside, skips, endless, early, average;
    int mixed;   /* steps in which the mixer did something */
    int skip_at; /* step that rank 1 skips; -1: none */
    double rates[2];
    bool own_memory, unlike;
    bool flat; /* gradients do not depend on parameters */
    struct loop_hooks {
        weft_status (*prepare)(struct loop *l, weft_sync *s);
        weft_status (*between)(struct loop *l, weft_sync *s, int rank, int64_t t);
    } hooks;    /* before begin; before each step */
    int uneven; /* 1: all have 4 rows in each step; 2: they differ; 3: they are not said */
    bool meets; /* its optimizer outside has states that have a mean */
    float moments[RANKS];
    int n_moments;
    bool wrong;     /* rank 2's gradient is multiplied by -100 */
    char said[512]; /* the last warning that names a node */
    int n_said;
    const weft_sync_tensor *tensors;
    /* of a rank */
    hub *hub;
    int number, size;
    weft_ctx *ctx;
    pthread_t thread;
    weft_status status;
    char text[1024];
    float params[MOST];
    int skipped, blocks;
    weft_sync_report last;
    unsigned char *saved;
    size_t n_saved, n_read;
} loop;

static float *give_moments(void *user, int64_t *n) {
    loop *l = user;
    *n = l->n_moments;
    return l->moments;
}

static int64_t elements(const weft_sync_tensor *t) { return t->rows * t->cols; }

static bool write_bytes(void *user, const void *data, size_t n) {
    loop *l = user;
    unsigned char *more = realloc(l->saved, l->n_saved + n);
    if (!more) return false;
    memcpy(more + l->n_saved, data, n);
    l->saved = more;
    l->n_saved += n;
    return true;
}

static bool read_bytes(void *user, void *data, size_t n) {
    loop *l = user;
    if (n > l->n_saved - l->n_read) return false;
    memcpy(data, l->saved + l->n_read, n);
    l->n_read += n;
    return true;
}

static void *take_block(void *user, size_t n_bytes) {
    ((loop *)user)->blocks++;
    return malloc(n_bytes + 1);
}

static void give_block(void *user, void *block) {
    ((loop *)user)->blocks--;
    free(block);
}

/* Of a wavy bowl with another bottom for every rank. */
static void add_gradients(loop *l, weft_sync *s, int rank, int64_t step) {
    for (int i = 0; i < TENSORS; i++) {
        const float *p = weft_sync_parameters(s, i);
        float *g = weft_sync_gradients(s, i);
        for (int64_t k = 0; k < elements(&l->tensors[i]); k++)
            g[k] += (l->flat ? 0 : p[k]) - sinf((float)(k + 3 * rank + i)) +
                    0.1f * cosf((float)(k + step));
    }
}

static void fill(loop *l, weft_sync *s, int rank) {
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < elements(&l->tensors[i]); k++)
            weft_sync_parameters(s, i)[k] = sinf((float)(7 * k + i)) + (float)rank;
}

/* Plain descent, as wefti_optimizer_sgd does it. */
static void descend(loop *l, weft_sync *s, double lr) {
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < elements(&l->tensors[i]); k++)
            weft_sync_parameters(s, i)[k] -= (float)lr * weft_sync_gradients(s, i)[k];
}

static double sum_of(loop *l, weft_sync *s) {
    double sum = 0;
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < elements(&l->tensors[i]); k++)
            sum += weft_sync_parameters(s, i)[k] * (double)(k + 1);
    return sum;
}

static void hear(void *user, weft_log_level level, const char *line) {
    loop *l = user;
    if (level != WEFT_LOG_WARN || !strstr(line, "again and again")) return;
    l->n_said++;
    snprintf(l->said, sizeof l->said, "%s", line);
}

static void go_wrong(loop *l, weft_sync *s) {
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < elements(&l->tensors[i]); k++)
            weft_sync_gradients(s, i)[k] *= -100;
}

/* Who is told that the mixer does nothing may leave the parameters where they are. */
static weft_status half_steps(loop *l, weft_sync *s, double lr) {
    bool moves, mixes;
    WEFT_TRY(weft_sync_agree(s, 1, &moves));
    if (moves) descend(l, s, lr);
    double before = sum_of(l, s);
    l->mixed += mixes = weft_sync_mixes(s);
    WEFT_TRY(weft_sync_mix(s, &l->last));
    assert_true(mixes || sum_of(l, s) == before);
    return WEFT_OK;
}

static weft_status one_step(loop *l, weft_sync *s, int rank, int64_t t) {
    double lr = l->rates[t % 2];
    bool wants = rank == 1 && t == l->skip_at && !l->skipped;
    WEFT_TRY(weft_sync_set_rate(s, lr));
    add_gradients(l, s, rank, t);
    double weight, rows = l->uneven < 2 ? 4 : (double)((3 * rank + 2 * t) % 5);
    if (l->uneven % 3) WEFT_TRY(weft_sync_weigh(s, (double)rank, rows, &weight));
    if (l->wrong && rank == 2) go_wrong(l, s);
    for (int i = TENSORS - 1; i >= 0 && l->early; i--) WEFT_TRY(weft_sync_ready(s, i));
    if (wants) WEFT_TRY(weft_sync_skip(s));
    if (l->outside) return half_steps(l, s, lr);
    return weft_sync_step(s, (double)rank, &l->last);
}

static weft_status steps(loop *l, weft_sync *s, int rank, int64_t first, int64_t end) {
    for (int64_t t = first; t < end; t++) {
        if (l->hooks.between) WEFT_TRY(l->hooks.between(l, s, rank, t));
        WEFT_TRY(one_step(l, s, rank, t));
        if (l->last.skipped) l->skipped++, t--;
        if (!l->average) continue;
        WEFT_TRY(weft_sync_average(s));
        WEFT_TRY(weft_sync_restore(s));
    }
    return WEFT_OK;
}

static weft_status make(loop *l, weft_mesh *mesh, weft_config *config, weft_sync **out) {
    weft_sync_setup setup = {.struct_size = sizeof setup,
                             .mesh = mesh,
                             .config = config,
                             .tensors = l->tensors,
                             .n_tensors = TENSORS,
                             .endless = l->endless,
                             .outside = l->outside,
                             .skips = l->skips,
                             .uneven = l->uneven > 0};
    setup.alike = l->unlike && l->number == 1 ? "what: 5\n" : "what: 4\n";
    setup.user = l;
    if (l->meets) setup.moments = give_moments;
    if (l->own_memory) setup.take = take_block, setup.give = give_block;
    WEFT_TRY(weft_sync_create_from(l->ctx, &setup, out));
    fill(l, *out, weft_mesh_look(mesh)->rank);
    if (l->hooks.prepare) WEFT_TRY(l->hooks.prepare(l, *out));
    return weft_sync_begin(*out);
}

static weft_status go(loop *l, weft_mesh *mesh, weft_config *config, weft_sync **s) {
    int rank = weft_mesh_look(mesh)->rank;
    WEFT_TRY(make(l, mesh, config, s));
    int64_t begun = 0;
    if (l->before > 0) {
        weft_sync_parameters(*s, 0)[3] += 100;
        WEFT_TRY(steps(l, *s, rank, 0, l->before));
        weft_sync_destroy(*s);
        *s = NULL;
        WEFT_TRY(make(l, mesh, config, s));
    }
    if (l->stop_after > 0) {
        WEFT_TRY(steps(l, *s, rank, 0, begun = l->stop_after));
        WEFT_TRY(weft_sync_save(*s, write_bytes, l));
        weft_sync_destroy(*s);
        *s = NULL;
        WEFT_TRY(make(l, mesh, config, s));
        WEFT_TRY(weft_sync_load(*s, read_bytes, l));
    }
    WEFT_TRY(steps(l, *s, rank, begun, l->steps));
    float *to = l->params;
    for (int i = 0; i < TENSORS; i++) {
        size_t n = (size_t)elements(&l->tensors[i]);
        memcpy(to, weft_sync_parameters(*s, i), n * sizeof *to);
        to += n;
    }
    return WEFT_OK;
}

static weft_status configure(loop *l, weft_mesh *mesh, weft_config *config) {
    WEFT_TRY(weft_config_set(l->ctx, config, "mesh.shards=1"));
    WEFT_TRY(weft_config_set(l->ctx, config, "run.steps=20"));
    WEFT_TRY(weft_config_set(l->ctx, config, "optimizer.clip=0"));
    for (int i = 0; l->keys[i]; i++)
        WEFT_TRY(weft_config_set(l->ctx, config, l->keys[i]));
    WEFT_TRY(weft_mesh_fit(l->ctx, mesh, config));
    return weft_config_finish(l->ctx, config);
}

static void *member(void *argument) {
    loop *l = argument;
    weft_mesh *mesh = NULL;
    weft_config *config = NULL;
    weft_sync *s = NULL;
    weft_ctx_set_sink(l->ctx, hear, l);
    l->status = weft_mesh_create(l->ctx, hub_member(l->hub, l->number), &mesh);
    if (l->status == WEFT_OK) l->status = weft_config_create(l->ctx, &config);
    if (l->status == WEFT_OK) l->status = configure(l, mesh, config);
    if (l->status == WEFT_OK) l->status = go(l, mesh, config, &s);
    if (l->status != WEFT_OK && mesh) weft_mesh_fail(l->ctx, mesh, l->status);
    snprintf(l->text, sizeof l->text, "%s", weft_ctx_message(l->ctx));
    weft_sync_destroy(s);
    weft_config_destroy(l->ctx, config);
    (void)weft_mesh_close(mesh);
    free(l->saved);
    return NULL;
}

/* Runs `wanted` in threads, each on a host of its own; ranks[] tell how it was. */
static inline void run_loop(int size, const loop *wanted, loop *ranks) {
    static const char *const hosts[] = {"a", "b", "c", "d"};
    hub h;
    hub_begin(&h, size, hosts);
    for (int r = 0; r < size; r++) {
        ranks[r] = *wanted;
        ranks[r].hub = &h;
        ranks[r].number = r;
        ranks[r].last.struct_size = sizeof ranks[r].last;
        if (!ranks[r].tensors) ranks[r].tensors = whole;
        assert_int_equal(weft_ctx_create(&ranks[r].ctx), WEFT_OK);
        assert_int_equal(pthread_create(&ranks[r].thread, NULL, member, &ranks[r]), 0);
    }
    for (int r = 0; r < size; r++) {
        pthread_join(ranks[r].thread, NULL);
        assert_int_equal(ctx_end(ranks[r].ctx), 0);
        assert_int_equal(ranks[r].blocks, 0);
    }
    hub_end(&h);
}

static void assert_fine(int size, const loop *ranks) {
    for (int r = 0; r < size; r++)
        if (ranks[r].status != WEFT_OK) fail_msg("rank %d: %s", r, ranks[r].text);
}

static inline void assert_same(int size, const loop *a, const loop *b) {
    assert_fine(size, a);
    assert_fine(size, b);
    for (int r = 0; r < size; r++)
        assert_memory_equal(a[r].params, b[r].params, sizeof a[r].params);
}

static const char *const demo[] = {"method=flexdemo", "optimizer.weight_decay=0",
                                   "replicator.compression_chunk=4",
                                   "replicator.compression_topk=2", NULL};
static const char *const ring[] = {"method=dadam", "mixer.topology=ring", NULL};
static const char *const choco[] = {"method=dadam", "mixer.kind=choco",
                                    "mixer.values=sign", "mixer.gamma=0.3", NULL};
static const char *const diloco[] = {"method=diloco", "mixer.outer_every=3", NULL};
static const char *const ddp[] = {"method=ddp", NULL};
static const char *const plain[] = {"method=ddp", "optimizer.kind=sgd",
                                    "optimizer.weight_decay=0", NULL};
static const char *const clipped[] = {"method=ddp", "optimizer.kind=sgd",
                                      "optimizer.weight_decay=0", "optimizer.clip=0.05",
                                      NULL};
static const char *const drawn[] = {"method=random", NULL};
static const char *const *const methods[] = {demo, ring, choco, diloco, ddp, drawn};

/* --- one process alone --- */

typedef struct alone {
    weft_ctx *ctx;
    weft_config *config;
    weft_sync *s;
} alone;

static inline alone begin_alone(const char *method, const weft_sync_setup *extra) {
    alone a = {NULL, NULL, NULL};
    weft_sync_setup setup = *extra;
    assert_int_equal(weft_ctx_create(&a.ctx), WEFT_OK);
    assert_ok(a.ctx, weft_config_create(a.ctx, &a.config));
    assert_ok(a.ctx, weft_config_set(a.ctx, a.config, method));
    assert_ok(a.ctx, weft_config_set(a.ctx, a.config, "optimizer.kind=sgd"));
    assert_ok(a.ctx, weft_config_set(a.ctx, a.config, "optimizer.clip=0"));
    assert_ok(a.ctx, weft_config_set(a.ctx, a.config, "optimizer.weight_decay=0.5"));
    assert_ok(a.ctx, weft_config_set(a.ctx, a.config, "schedule.warmup=0"));
    assert_ok(a.ctx, weft_config_finish(a.ctx, a.config));
    setup.config = a.config;
    setup.tensors = whole;
    setup.n_tensors = TENSORS;
    setup.endless = true;
    assert_ok(a.ctx, weft_sync_create_from(a.ctx, &setup, &a.s));
    return a;
}

static inline void end_alone(alone *a) {
    weft_sync_destroy(a->s);
    weft_config_destroy(a->ctx, a->config);
    assert_int_equal(ctx_end(a->ctx), 0);
}

/* Expects the call to fail with words of this. */
static inline void expect(alone *a, weft_status status, const char *words) {
    assert_int_equal(status, WEFT_ERR_ARGUMENT);
    if (!strstr(weft_ctx_message(a->ctx), words))
        fail_msg("'%s' is not in: %s", words, weft_ctx_message(a->ctx));
    weft_ctx_clear(a->ctx);
}
