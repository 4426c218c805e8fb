/* SPDX-License-Identifier: MIT */
/* The end of a step bucket by bucket (weft_sync_complete, weft_sync_wait_any), and what a
 * fork of a process that trains can do. */
#include <weft/sync.h>

#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "hub.h"

enum { TENSORS = 4, ELEMENTS = 12 * 10 + 7 + 15 + 30, RANKS = 3, STEPS = 6 };

#define TENSOR sizeof(weft_sync_tensor)
static const weft_sync_tensor tensors[TENSORS] = {{TENSOR, "matrix", 12, 10, true},
                                                  {TENSOR, "vector", 7, 1, false},
                                                  {TENSOR, "small", 5, 3, true},
                                                  {TENSOR, "last", 6, 5, true}};

/* A rank: what it is to do, and what came of it. */
typedef struct member {
    const char *const *keys; /* NULL-terminated */
    bool outside, skips, by_parts;
    hub *hub;
    int number;
    weft_ctx *ctx;
    weft_config *config;
    weft_mesh *mesh;
    weft_sync *s;
    pthread_t thread;
    weft_status status;
    char text[1024];
    float params[ELEMENTS];
    int named[STEPS + 1][TENSORS], parts, skipped; /* tensors named in each step */
    sem_t *looked; /* posted by rank 0 when it has seen that nothing is there yet */
} member;

static int64_t elements(int i) { return tensors[i].rows * tensors[i].cols; }

/* Gradients that differ between ranks and steps. */
static void compute(member *m, int64_t step) {
    for (int i = 0; i < TENSORS; i++) {
        const float *p = weft_sync_parameters(m->s, i);
        float *g = weft_sync_gradients(m->s, i);
        for (int64_t k = 0; k < elements(i); k++)
            g[k] += p[k] - sinf((float)(k + 3 * m->number + i)) +
                    0.1f * cosf((float)(k + step));
    }
}

/* Plain descent of some tensors: the caller's optimizer. */
static void descend(member *m, int first, int n) {
    for (int i = first; i < first + n; i++)
        for (int64_t k = 0; k < elements(i); k++)
            weft_sync_parameters(m->s, i)[k] -= 0.05f * weft_sync_gradients(m->s, i)[k];
}

/* Names what comes, and steps it at once where the optimizer is the caller's. */
static weft_status take_parts(member *m, int64_t step) {
    weft_sync_part part = {.struct_size = sizeof part, .all = false};
    WEFT_TRY(weft_sync_complete(m->s, 1));
    while (!part.all) {
        WEFT_TRY(weft_sync_wait_any(m->s, 0.01, &part));
        for (int i = part.first; i < part.first + part.n; i++) m->named[step][i]++;
        m->parts += part.n > 0;
        if (m->outside && part.moves) descend(m, part.first, part.n);
    }
    return WEFT_OK;
}

static weft_status one_step(member *m, int64_t step, weft_sync_report *report) {
    bool moves;
    compute(m, step);
    if (m->skips && m->number == 1 && step == 3 && m->skipped == 0)
        WEFT_TRY(weft_sync_skip(m->s));
    if (m->by_parts) WEFT_TRY(take_parts(m, step));
    if (!m->outside) return weft_sync_step(m->s, 1, report);
    WEFT_TRY(weft_sync_agree(m->s, 1, &moves));
    if (moves && !m->by_parts) descend(m, 0, TENSORS);
    return weft_sync_mix(m->s, report);
}

static weft_status make(member *m) {
    weft_sync_setup setup = {.struct_size = sizeof setup,
                             .mesh = m->mesh,
                             .tensors = tensors,
                             .n_tensors = TENSORS,
                             .endless = true,
                             .outside = m->outside,
                             .skips = m->skips};
    WEFT_TRY(weft_config_create(m->ctx, &m->config));
    WEFT_TRY(weft_config_set(m->ctx, m->config, "mesh.shards=1"));
    WEFT_TRY(weft_config_set(m->ctx, m->config, "optimizer.clip=0"));
    for (int i = 0; m->keys[i]; i++)
        WEFT_TRY(weft_config_set(m->ctx, m->config, m->keys[i]));
    if (m->mesh) WEFT_TRY(weft_mesh_fit(m->ctx, m->mesh, m->config));
    WEFT_TRY(weft_config_finish(m->ctx, m->config));
    setup.config = m->config;
    WEFT_TRY(weft_sync_create_from(m->ctx, &setup, &m->s));
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < elements(i); k++)
            weft_sync_parameters(m->s, i)[k] = cosf((float)(7 * k + i));
    return weft_sync_begin(m->s);
}

static weft_status all_steps(member *m) {
    WEFT_TRY(make(m));
    for (int64_t t = 0; t < STEPS; t++) {
        weft_sync_report report = {.struct_size = sizeof report};
        WEFT_TRY(one_step(m, t, &report));
        if (report.skipped) m->skipped++, t--;
    }
    float *to = m->params;
    for (int i = 0; i < TENSORS; i++)
        for (int64_t k = 0; k < elements(i); k++)
            *to++ = weft_sync_parameters(m->s, i)[k];
    return WEFT_OK;
}

static void end(member *m) {
    if (m->status != WEFT_OK && m->mesh) weft_mesh_fail(m->ctx, m->mesh, m->status);
    snprintf(m->text, sizeof m->text, "%s", weft_ctx_message(m->ctx));
    weft_sync_destroy(m->s);
    weft_config_destroy(m->ctx, m->config);
    (void)weft_mesh_close(m->mesh);
}

static void *train(void *argument) {
    member *m = argument;
    m->status = weft_mesh_create(m->ctx, hub_member(m->hub, m->number), &m->mesh);
    if (m->status == WEFT_OK) m->status = all_steps(m);
    end(m);
    return NULL;
}

/* Runs `work` on all ranks, each on a host of its own. */
static void run(const member *wanted, int size, void *(*work)(void *), member *m) {
    static const char *const hosts[] = {"a", "b", "c"};
    hub h;
    hub_begin(&h, size, hosts);
    for (int r = 0; r < size; r++) {
        m[r] = *wanted;
        m[r].hub = &h;
        m[r].number = r;
        assert_int_equal(weft_ctx_create(&m[r].ctx), WEFT_OK);
        assert_int_equal(pthread_create(&m[r].thread, NULL, work, &m[r]), 0);
    }
    for (int r = 0; r < size; r++) pthread_join(m[r].thread, NULL);
    for (int r = 0; r < size; r++) {
        assert_int_equal(ctx_end(m[r].ctx), 0);
        if (m[r].status != WEFT_OK) fail_msg("rank %d: %s", r, m[r].text);
    }
    hub_end(&h);
}

static const char *const demo[] = {"method=flexdemo", "replicator.compression_chunk=4",
                                   "replicator.compression_topk=2", "mesh.min_message=1",
                                   NULL};
static const char *const ddp[] = {"method=ddp", "mesh.min_message=1", NULL};
static const char *const clipped[] = {"method=ddp", "optimizer.clip=0.5",
                                      "mesh.min_message=1", NULL};
static const char *const one_bucket[] = {"method=ddp", "mesh.min_message=1000000", NULL};
static const char *const diloco[] = {"method=diloco", "mixer.outer_every=3",
                                     "mesh.min_message=1", NULL};
static const char *const ring[] = {"method=dadam", "mixer.topology=ring",
                                   "mesh.min_message=1", NULL};
/* Both ranks are on this machine, and stand for two nodes. */
static const char *const two_nodes[] = {"method=ddp", "mesh.min_message=1",
                                        "mesh.nodes=2", "mesh.ranks_per_node=1", NULL};
static const char *const apart[] = {"method=ddp", "mesh.overlap=false",
                                    "mesh.min_message=1", NULL};

static const struct {
    const char *const *keys;
    bool outside, skips;
} cases[] = {{demo, false, false},  {demo, true, false},        {ddp, false, true},
             {ddp, true, true},     {clipped, false, false},    {diloco, false, false},
             {diloco, true, false}, {ring, false, false},       {ring, true, false},
             {apart, false, false}, {one_bucket, false, false}, {clipped, true, false}};

/* The same bits with and without, and every tensor is named once in every step. */
TEST(test_same_bits) {
    member whole[RANKS], parts[RANKS];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        member wanted = {
            .keys = cases[c].keys, .outside = cases[c].outside, .skips = cases[c].skips};
        run(&wanted, RANKS, train, whole);
        wanted.by_parts = true;
        run(&wanted, RANKS, train, parts);
        for (int r = 0; r < RANKS; r++) {
            assert_memory_equal(whole[r].params, parts[r].params, sizeof whole[r].params);
            assert_int_equal(parts[r].skipped, cases[c].skips);
            for (int t = 0; t < STEPS; t++)
                for (int i = 0; i < TENSORS; i++)
                    assert_int_equal(parts[r].named[t][i], 1);
            bool single = cases[c].keys == one_bucket;
            assert_int_equal(parts[r].parts, single ? STEPS : STEPS * TENSORS);
        }
    }
}

/* Rank 1 has nothing to send before rank 0 has looked in vain. */
static weft_status look_early(member *m) {
    weft_sync_part part = {.struct_size = sizeof part, .n = -1};
    weft_sync_report report = {.struct_size = sizeof report};
    WEFT_TRY(make(m));
    compute(m, 0);
    if (m->number == 1) {
        sem_wait(m->looked);
    } else {
        WEFT_TRY(weft_sync_complete(m->s, 1));
        WEFT_TRY(weft_sync_wait_any(m->s, 0, &part));
        if (part.n != 0 || part.all) m->skipped = -1;
        WEFT_TRY(weft_sync_wait_any(m->s, 1e-3, &part));
        if (part.n != 0 || part.all) m->skipped = -1;
        sem_post(m->looked);
        while (part.n == 0) WEFT_TRY(weft_sync_wait_any(m->s, INFINITY, &part));
        m->parts = part.first;
    }
    return weft_sync_step(m->s, 1, &report);
}

static void *early(void *argument) {
    member *m = argument;
    m->status = weft_mesh_create(m->ctx, hub_member(m->hub, m->number), &m->mesh);
    if (m->status == WEFT_OK) m->status = look_early(m);
    if (m->status != WEFT_OK) sem_post(m->looked);
    end(m);
    return NULL;
}

TEST(test_not_yet) {
    sem_t looked;
    member m[2];
    sem_init(&looked, 0, 0);
    run(&(member){.keys = ddp, .looked = &looked}, 2, early, m);
    assert_int_equal(m[0].skipped, 0);
    assert_int_equal(m[0].parts, TENSORS - 1); /* the last tensor comes first */
    sem_destroy(&looked);
}

/* Calls at the wrong time are errors that say so, and change nothing. */
TEST(test_order) {
    member m = {.keys = ddp};
    weft_sync_part part = {.struct_size = sizeof part};
    weft_sync_report report = {.struct_size = sizeof report};
    assert_int_equal(weft_ctx_create(&m.ctx), WEFT_OK);
    assert_ok(m.ctx, make(&m));
    assert_fails(m.ctx, weft_sync_wait_any(m.s, 1, &part), WEFT_ERR_ARGUMENT,
                 "without weft_sync_complete");
    assert_ok(m.ctx, weft_sync_complete(m.s, 1));
    assert_fails(m.ctx, weft_sync_complete(m.s, 1), WEFT_ERR_ARGUMENT,
                 "for the second time in step 1");
    assert_fails(m.ctx, weft_sync_wait_any(m.s, -1, &part), WEFT_ERR_ARGUMENT,
                 "waited for -1 s");
    assert_fails(m.ctx, weft_sync_wait_any(m.s, NAN, &part), WEFT_ERR_ARGUMENT,
                 "expected 0 or more");
    assert_fails(m.ctx, weft_sync_ready(m.s, 0), WEFT_ERR_ARGUMENT,
                 "after weft_sync_complete");
    assert_fails(m.ctx, weft_sync_set_rate(m.s, 1), WEFT_ERR_ARGUMENT, "are exchanged");
    assert_fails(m.ctx, weft_sync_rest(m.s), WEFT_ERR_ARGUMENT, "between two steps");
    assert_ok(m.ctx, weft_sync_step(m.s, 1, &report));
    assert_int_equal(report.step, 1);
    assert_fails(m.ctx, weft_sync_wait_any(m.s, 0, &part), WEFT_ERR_ARGUMENT,
                 "without weft_sync_complete");
    assert_ok(m.ctx, weft_sync_step(m.s, 1, &report));
    weft_sync_destroy(m.s);
    weft_config_destroy(m.ctx, m.config);
    assert_int_equal(ctx_end(m.ctx), 0);
}

/* --- forks --- */

static weft_status join(member *m, int port, int listener) {
    weft_mesh_place place = {.struct_size = sizeof place,
                             .rank = m->number,
                             .size = 2,
                             .host = "127.0.0.1",
                             .port = port,
                             .listener = listener};
    return weft_mesh_join(m->ctx, &place, &m->mesh);
}

/* In a fork of a process that trains: nothing but letting go is possible. 0: all is well. */
static int worker_fails(const member *m) {
    weft_ctx *own;
    if (weft_ctx_create(&own) != WEFT_OK) return 1;
    if (weft_sync_ready(m->s, 0) != WEFT_ERR_ARGUMENT) return 2;
    if (!strstr(weft_ctx_message(m->ctx), "a fork of it")) return 3;
    weft_sync_destroy(m->s);
    if (weft_mesh_forget(own, m->mesh) != WEFT_OK) return 4;
    if (weft_mesh_forget(own, m->mesh) != WEFT_OK) return 5; /* once more is nothing */
    return weft_mesh_close(m->mesh) ? 0 : 6;
}

/* Rank 1, a process of its own: a step, a fork that lets go, a step; then a fork that outlives
 * it, and its end, when the test has had its last messages. */
static int other_process(int port, const int alive[2], const int done[2]) {
    char byte;
    member m = {.keys = two_nodes, .number = 1};
    weft_sync_report report = {.struct_size = sizeof report};
    int code;
    if (weft_ctx_create(&m.ctx) != WEFT_OK || join(&m, port, 0) != WEFT_OK) return 11;
    if (make(&m) != WEFT_OK || one_step(&m, 0, &report) != WEFT_OK) return 12;
    pid_t worker = fork();
    if (worker == 0) _exit(worker_fails(&m));
    if (waitpid(worker, &code, 0) != worker || code != 0) return 100 + WEXITSTATUS(code);
    if (one_step(&m, 1, &report) != WEFT_OK) return 13;
    if (weft_mesh_forget(m.ctx, m.mesh) != WEFT_ERR_ARGUMENT) return 14;
    if (!strstr(weft_ctx_message(m.ctx), "expected a fork of it")) return 15;
    worker = fork();
    if (worker == 0) { /* lives until the test has heard of its parent's end */
        close(alive[1]);
        if (weft_mesh_close(m.mesh)) _exit(read(alive[0], &byte, 1) == 1);
        _exit(1);
    }
    if (read(done[0], &byte, 1) != 1) return 17;
    return worker > 0 ? 0 : 16;
}

/* A fork leaves the parent's mesh alone, and does not keep its connection open. */
TEST(test_forks) {
    member m = {.keys = two_nodes};
    weft_sync_report report = {.struct_size = sizeof report};
    int listener, port, alive[2], done[2], code;
    assert_int_equal(pipe(alive), 0);
    assert_int_equal(pipe(done), 0);
    assert_int_equal(weft_ctx_create(&m.ctx), WEFT_OK);
    assert_ok(m.ctx, weft_mesh_listen(m.ctx, &listener, &port));
    pid_t other = fork();
    if (other == 0) _exit(other_process(port, alive, done));
    assert_ok(m.ctx, join(&m, port, listener));
    assert_ok(m.ctx, make(&m));
    assert_ok(m.ctx, one_step(&m, 0, &report));
    assert_ok(m.ctx, one_step(&m, 1, &report));
    assert_int_equal(write(done[1], "", 1), 1);
    assert_int_equal(waitpid(other, &code, 0), other);
    if (code != 0) fail_msg("the other process ended with %d", WEXITSTATUS(code));
    m.status = one_step(&m, 2, &report); /* heard at once, not after mesh.timeout */
    assert_fails(m.ctx, m.status, WEFT_ERR_PEER, "has closed its connection");
    weft_sync_destroy(m.s);
    weft_config_destroy(m.ctx, m.config);
    (void)weft_mesh_close(m.mesh);
    for (int i = 0; i < 2; i++) close(alive[i]), close(done[i]);
    assert_int_equal(ctx_end(m.ctx), 0);
}

/* A key or a folder that this loop could not obey is refused. */
static void check_refused(const char *method, const char *key, const char *folder,
                          const char *words) {
    weft_ctx *ctx;
    weft_config *config;
    weft_sync *s = NULL;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_config_create(ctx, &config));
    assert_ok(ctx, weft_config_set(ctx, config, method));
    assert_ok(ctx, weft_config_set(ctx, config, key));
    assert_ok(ctx, weft_config_finish(ctx, config));
    const weft_sync_tensor one = {.struct_size = sizeof one, "a", 4, 4, true};
    const weft_sync_setup setup = {.struct_size = sizeof setup,
                                   .config = config,
                                   .tensors = &one,
                                   .n_tensors = 1,
                                   .folder = folder,
                                   .outside = strcmp(method, "method=dadam") == 0,
                                   .endless = true};
    assert_int_equal(weft_sync_create_from(ctx, &setup, &s),
                     folder ? WEFT_ERR_ARGUMENT : WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_ctx_message(ctx), words));
    weft_config_destroy(ctx, config);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(test_keys_that_it_can_not_obey) {
    static const char flexdemo[] = "method=flexdemo";
    check_refused(flexdemo, "elastic.batch=keep", NULL, "elastic.batch is keep");
    check_refused(flexdemo, "run.upload=s3://b/r", NULL, "run.upload is s3://b/r");
    check_refused(flexdemo, "mesh.join_steps=8", NULL, "mesh.join_steps is 8");
    check_refused(
        flexdemo, "run.audit=true", NULL,
        "run.audit is true, but weft audit cannot compute a program's own model");
    check_refused(flexdemo, "run.seed=1", "/tmp",
                  "setup.folder is /tmp, but without setup.elastic");
    check_refused("method=dadam", "mixer.kind=tracking", NULL,
                  "mixer.kind is tracking, but it directs weft's optimizer");
}
