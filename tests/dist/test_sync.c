/* SPDX-License-Identifier: MIT */
/* A program's own loop (weft/sync.h) over a mesh of threads: what its calls promise. */
#include <unistd.h>

#include "loops.h"

/* One node of four goes up the hill, a hundred times as fast. The first rank names it, once;
 * the model stays where the others have their bottoms, and without the key it does not. */
TEST(test_wrong) {
    static const char *const rules[] = {"mesh.robust=clip", "mesh.robust=trim",
                                        "mesh.robust=off"};
    for (int i = 0; i < 3; i++) {
        const char *const keys[] = {"method=ddp", "optimizer.kind=sgd",
                                    "optimizer.weight_decay=0", rules[i], NULL};
        loop wanted = {
            .keys = keys, .steps = 15, .skip_at = -1, .rates = {0.3, 0.3}, .wrong = true};
        loop ranks[RANKS];
        float most = 0;
        run_loop(RANKS, &wanted, ranks);
        assert_fine(RANKS, ranks);
        for (int k = 0; k < MOST; k++) most = fmaxf(most, fabsf(ranks[0].params[k]));
        assert_true(i == 2 ? !(most < 1000) : most < 10);
        assert_int_equal(ranks[0].n_said, i < 2);
        assert_int_equal(ranks[1].n_said, 0);
        if (i < 2) assert_non_null(strstr(ranks[0].said, "node 2 sends too much"));
        assert_memory_equal(ranks[3].params, ranks[0].params, sizeof ranks[0].params);
    }
}

/* A run that is stopped, saved and resumed ends with the bits of one that is not. */
TEST(test_resume) {
    loop a[RANKS], b[RANKS];
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        loop l = {.keys = methods[m], .steps = 8, .skip_at = -1, .rates = {0.05, 0.02}};
        run_loop(3, &l, a);
        for (l.stop_after = 4; l.stop_after < 6; l.stop_after++) {
            run_loop(3, &l, b);
            assert_same(3, a, b);
        }
    }
}

/* What must be equal and is not is named by every rank, with both values. */
TEST(test_unlike) {
    loop a[RANKS];
    loop l = {
        .keys = ddp, .steps = 1, .skip_at = -1, .rates = {0.05, 0.02}, .unlike = true};
    run_loop(3, &l, a);
    for (int r = 0; r < 3; r++) {
        assert_int_not_equal(a[r].status, WEFT_OK);
        if (!strstr(a[r].text, "what is 4 on rank 0 and 5 on rank 1"))
            fail_msg("rank %d: %s", r, a[r].text);
    }
}

/* What an exchange has sent for a step that it did not do is not taken for the next one's. */
TEST(test_one_after_another) {
    static const char *const delayed[] = {"method=diloco", "mixer.outer_every=3",
                                          "mixer.delay=1", NULL};
    static const char *const streaming[] = {"method=streaming-diloco",
                                            "mixer.outer_every=4", "mixer.fragments=2",
                                            "mixer.delay=1", NULL};
    const char *const *const all[] = {demo, ring, choco, diloco, delayed, streaming};
    loop a[RANKS], b[RANKS];
    for (size_t m = 0; m < sizeof all / sizeof all[0]; m++) {
        loop l = {.keys = all[m], .steps = 10, .skip_at = -1, .rates = {0.05, 0.02}};
        run_loop(3, &l, a);
        for (l.before = 3; l.before < 6; l.before++) {
            run_loop(3, &l, b);
            assert_same(3, a, b);
        }
    }
}

/* Early hand-over, caller's memory, and averages between steps change no bit. */
TEST(test_same_bits) {
    loop a[RANKS], b[RANKS];
    for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++) {
        loop l = {.keys = methods[m], .steps = 5, .skip_at = -1, .rates = {0.05, 0.02}};
        run_loop(3, &l, a);
        l.early = l.own_memory = l.average = true;
        run_loop(3, &l, b);
        assert_same(3, a, b);
        l.skips = true;
        l.skip_at = 2;
        run_loop(3, &l, b);
        assert_same(3, a, b);
        for (int r = 0; r < 3; r++) assert_int_equal(b[r].skipped, 1);
    }
}

/* The caller's descent is that of weft's. */
TEST(test_outside) {
    static const char *const *const all[] = {demo, plain, clipped};
    loop a[RANKS], b[RANKS];
    float unclipped = 0;
    for (int m = 0; m < 3; m++) {
        loop l = {.keys = all[m], .steps = 6, .skip_at = -1, .rates = {0.05, 0.02}};
        run_loop(2, &l, a);
        l.outside = true;
        run_loop(2, &l, b);
        assert_fine(2, a);
        assert_fine(2, b);
        for (int k = 0; k < MOST; k++)
            assert_true(fabsf(a[0].params[k] - b[0].params[k]) < 1e-6f);
        assert_memory_equal(b[0].params, b[1].params, sizeof b[0].params);
        if (m == 2) assert_true(b[0].params[0] != unclipped);
        unclipped = b[0].params[0];
        l.skips = true;
        l.skip_at = 1;
        run_loop(2, &l, a);
        assert_same(2, a, b);
    }
    static const char *const *const mixers[] = {ring, choco, diloco};
    for (int m = 0; m < 3; m++) {
        loop l = {.keys = mixers[m], .steps = 6, .skip_at = -1, .rates = {0.05, 0.02}};
        l.outside = true;
        run_loop(3, &l, a);
        assert_fine(3, a);
        assert_int_equal(a[0].mixed, m < 2 ? 6 : 2);
    }
}

/* With an endless run, steps after run.steps are no error; without one they are. */
TEST(test_endless) {
    loop a[RANKS];
    loop l = {.keys = diloco, .steps = 21, .skip_at = -1, .rates = {0.1, 0.1}};
    run_loop(2, &l, a);
    assert_int_equal(a[0].status, WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(a[0].text, "a step after the last one: run.steps is 20"));
    l.endless = true;
    run_loop(2, &l, a);
    assert_fine(2, a);
    assert_int_equal(a[0].last.step, 21);
    assert_true(a[0].last.loss == 0.5 && a[0].last.lr == (double)0.1f);
}

/* 1 x n and n x 1 are the same vector. */
TEST(test_vectors) {
    static const weft_sync_tensor upright[TENSORS] = {{TENSOR, "matrix", 12, 10, true},
                                                      {TENSOR, "vector", 7, 1, false},
                                                      {TENSOR, "last", 5, 3, true}};
    static const char *const squares[] = {"method=flexdemo",
                                          "optimizer.weight_decay=0",
                                          "replicator.compression_dims=2",
                                          "replicator.compression_chunk=4",
                                          "replicator.compression_topk=2",
                                          NULL};
    loop a[RANKS], b[RANKS];
    loop l = {.keys = squares, .steps = 4, .skip_at = -1, .rates = {0.05, 0.02}};
    run_loop(2, &l, a);
    l.tensors = upright;
    run_loop(2, &l, b);
    assert_same(2, a, b);
}

/* Rates and decays of a tensor, exactly. */
TEST(test_rates) {
    weft_sync_report report = {.struct_size = sizeof report};
    alone a = begin_alone("method=ddp",
                          &(weft_sync_setup){.struct_size = sizeof(weft_sync_setup)});
    for (int i = 0; i < TENSORS; i++) weft_sync_parameters(a.s, i)[0] = 2;
    assert_ok(a.ctx, weft_sync_begin(a.s));
    assert_ok(a.ctx, weft_sync_set_rate(a.s, 0.25));
    assert_ok(a.ctx, weft_sync_set_tensor(a.s, 2, 2, 0.25));
    for (int i = 0; i < TENSORS; i++) weft_sync_gradients(a.s, i)[0] = 1;
    assert_ok(a.ctx, weft_sync_ready(a.s, 2));
    assert_ok(a.ctx, weft_sync_step(a.s, 3, &report));
    assert_true(report.loss == 3 && report.lr == 0.25 && report.step == 1);
    assert_true(weft_sync_parameters(a.s, 0)[0] == 2 * (1 - 0.25f * 0.5f) - 0.25f);
    assert_true(weft_sync_parameters(a.s, 1)[0] == 2 - 0.25f); /* does not decay */
    assert_true(weft_sync_parameters(a.s, 2)[0] == 2 * (1 - 0.5f * 0.25f) - 0.5f);
    assert_true(weft_sync_gradients(a.s, 0)[0] == 0);
    assert_int_equal(weft_sync_set_tensor(a.s, TENSORS, 1, 0), WEFT_ERR_ARGUMENT);
    weft_ctx_clear(a.ctx);
    assert_int_equal(weft_sync_set_rate(a.s, NAN), WEFT_ERR_ARGUMENT);
    end_alone(&a);
}

/* Calls at the wrong time are errors that say so. */
TEST(test_order) {
    weft_sync_report report = {.struct_size = sizeof report};
    bool moves;
    alone a = begin_alone("method=dadam",
                          &(weft_sync_setup){.struct_size = sizeof(weft_sync_setup)});
    expect(&a, weft_sync_step(a.s, 0, &report), "without weft_sync_begin");
    expect(&a, weft_sync_rest(a.s), "weft_sync_begin has not been called");
    assert_ok(a.ctx, weft_sync_begin(a.s));
    expect(&a, weft_sync_begin(a.s), "begun already");
    expect(&a, weft_sync_agree(a.s, 0, &moves),
           "optimizer is weft's: call weft_sync_step");
    expect(&a, weft_sync_mix(a.s, &report), "without weft_sync_agree");
    expect(&a, weft_sync_skip(a.s), "weft_sync_setup.skips");
    assert_ok(a.ctx, weft_sync_average(a.s));
    expect(&a, weft_sync_ready(a.s, 0), "weft_sync_restore first");
    assert_ok(a.ctx, weft_sync_restore(a.s));
    for (int i = 0; i < TENSORS; i++) assert_ok(a.ctx, weft_sync_ready(a.s, i));
    expect(&a, weft_sync_ready(a.s, 0), "tensor 0 is ready");
    expect(&a, weft_sync_set_rate(a.s, 1), "the learning rate is set while");
    expect(&a, weft_sync_set_tensor(a.s, 0, 1, 1), "a tensor's rate is set while");
    expect(&a, weft_sync_average(a.s), "gradients of the next step are there");
    expect(&a, weft_sync_rest(a.s), "gradients of the next step are there");
    float more[120] = {0};
    expect(&a, weft_sync_give(a.s, 0, more, WEFT_F32, 1), "which is ready");
    assert_ok(a.ctx, weft_sync_step(a.s, 0, &report));
    expect(&a, weft_sync_resume(a.s, 4), "before the first step");
    end_alone(&a);
    a = begin_alone(
        "method=ddp",
        &(weft_sync_setup){.struct_size = sizeof(weft_sync_setup), .outside = true});
    assert_ok(a.ctx, weft_sync_begin(a.s));
    expect(&a, weft_sync_step(a.s, 0, &report), "call weft_sync_agree and weft_sync_mix");
    assert_ok(a.ctx, weft_sync_agree(a.s, 0, &moves));
    expect(&a, weft_sync_agree(a.s, 0, &moves), "without weft_sync_mix");
    assert_ok(a.ctx, weft_sync_mix(a.s, &report));
    end_alone(&a);
}

/* What is no state is refused in one sentence, wherever it ends or differs. */
TEST(test_broken_state) {
    loop file = {0};
    alone a = begin_alone("method=flexdemo",
                          &(weft_sync_setup){.struct_size = sizeof(weft_sync_setup)});
    assert_ok(a.ctx, weft_sync_begin(a.s));
    assert_ok(a.ctx, weft_sync_save(a.s, write_bytes, &file));
    size_t whole_file = file.n_saved;
    for (size_t n = 0; n < whole_file; n += n < 200 ? 1 : 97) {
        file.n_saved = n;
        file.n_read = 0;
        assert_int_equal(weft_sync_load(a.s, read_bytes, &file), WEFT_ERR_FORMAT);
        weft_ctx_clear(a.ctx);
    }
    file.n_saved = whole_file;
    for (size_t at = 0; at < 18 + 5 * 8 + 64; at++) {
        if (at >= 18 + 4 * 8 && at < 18 + 5 * 8) continue; /* any step will do */
        if (at > 18 + 5 * 8 + 10) continue;                /* behind the name's end */
        file.saved[at] ^= 0x81;
        file.n_read = 0;
        assert_int_equal(weft_sync_load(a.s, read_bytes, &file), WEFT_ERR_FORMAT);
        weft_ctx_clear(a.ctx);
        file.saved[at] ^= 0x81;
    }
    file.n_read = 0;
    assert_ok(a.ctx, weft_sync_load(a.s, read_bytes, &file));
    free(file.saved);
    end_alone(&a);
}

static float next_up(float x, bool up) {
    return nextafterf(x, up ? INFINITY : -INFINITY);
}

/* Every 16-bit number survives, and floats between two of them go to the nearer one. */
static void check_type(alone *a, weft_type type) {
    uint16_t half = 0, back[120];
    float *p = weft_sync_parameters(a->s, 0), *g = weft_sync_gradients(a->s, 0);
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t from[120] = {(uint16_t)bits};
        g[0] = 0;
        assert_ok(a->ctx, weft_sync_give(a->s, 0, from, type, 1));
        p[0] = g[0];
        assert_ok(a->ctx, weft_sync_take(a->s, 0, back, type));
        if (isnan(g[0])) {
            p[0] = NAN;
            assert_ok(a->ctx, weft_sync_take(a->s, 0, back, type));
            half = back[0];
            assert_true(type == WEFT_BF16 ? (half & 0x7fff) > 0x7f80
                                          : (half & 0x7fff) > 0x7c00);
            continue;
        }
        if (g[0] != 0) assert_int_equal(back[0], bits);
        if (!isfinite(g[0]) || (bits & 0x7fff) == 0) continue;
        for (int up = 0; up < 2; up++) { /* next to it: itself */
            p[0] = next_up(g[0], up);
            assert_ok(a->ctx, weft_sync_take(a->s, 0, back, type));
            assert_int_equal(back[0], bits);
        }
    }
}

TEST(test_types) {
    alone a = begin_alone("method=ddp",
                          &(weft_sync_setup){.struct_size = sizeof(weft_sync_setup)});
    assert_ok(a.ctx, weft_sync_begin(a.s));
    check_type(&a, WEFT_BF16);
    check_type(&a, WEFT_F16);
    float ones[120];
    for (int i = 0; i < 120; i++) ones[i] = 1;
    weft_sync_gradients(a.s, 0)[0] = 1;
    assert_ok(a.ctx, weft_sync_give(a.s, 0, ones, WEFT_F32, 0.5));
    assert_true(weft_sync_gradients(a.s, 0)[0] == 1.5f);
    weft_sync_parameters(a.s, 0)[0] = 1 + 0x1p-8f; /* half way: the even one */
    uint16_t half[120];
    assert_ok(a.ctx, weft_sync_take(a.s, 0, half, WEFT_BF16));
    assert_int_equal(half[0], 0x3f80);
    weft_sync_parameters(a.s, 0)[0] = 65520;
    assert_ok(a.ctx, weft_sync_take(a.s, 0, half, WEFT_F16));
    assert_int_equal(half[0], 0x7c00);
    assert_int_equal(weft_sync_take(a.s, 3, half, WEFT_F16), WEFT_ERR_ARGUMENT);
    end_alone(&a);
}

/* --- joining by addresses --- */

typedef struct joiner {
    weft_mesh_place place;
    weft_status status;
    int size;
    bool clean;
    pthread_t thread;
} joiner;

static void *join_main(void *argument) {
    joiner *j = argument;
    weft_ctx *ctx;
    weft_mesh *mesh;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    j->status = weft_mesh_join(ctx, &j->place, &mesh);
    if (j->status == WEFT_OK) j->size = weft_mesh_look(mesh)->size;
    j->clean = weft_mesh_close(mesh);
    assert_int_equal(ctx_end(ctx), 0);
    return NULL;
}

/* Twice in one process, at ports that the system chose. */
TEST(test_join) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int again = 0; again < 2; again++) {
        joiner j[3];
        int listener, port;
        assert_ok(ctx, weft_mesh_listen(ctx, &listener, &port));
        for (int r = 0; r < 3; r++) {
            j[r] = (joiner){.place = {.struct_size = sizeof(weft_mesh_place),
                                      .rank = r,
                                      .size = 3,
                                      .host = "127.0.0.1",
                                      .port = port,
                                      .listener = r ? 0 : listener}};
            assert_int_equal(pthread_create(&j[r].thread, NULL, join_main, &j[r]), 0);
        }
        for (int r = 0; r < 3; r++) pthread_join(j[r].thread, NULL);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(j[r].status, WEFT_OK);
            assert_int_equal(j[r].size, 3);
            assert_true(j[r].clean);
        }
    }
    int listener, port; /* nobody comes, and the port is free again */
    weft_mesh *mesh;
    assert_ok(ctx, weft_mesh_listen(ctx, &listener, &port));
    weft_mesh_place place = {.struct_size = sizeof place,
                             .rank = 0,
                             .size = 2,
                             .host = "127.0.0.1",
                             .port = port,
                             .listener = listener,
                             .patience = 0.05};
    assert_int_equal(weft_mesh_join(ctx, &place, &mesh), WEFT_ERR_PEER);
    assert_null(mesh);
    assert_int_equal(close(listener), -1);
    weft_ctx_clear(ctx);
    assert_ok(ctx, weft_mesh_listen(ctx, &listener, &port));
    place = (weft_mesh_place){.struct_size = sizeof(weft_mesh_place),
                              .rank = 0,
                              .size = 1,
                              .port = port,
                              .listener = listener};
    assert_ok(ctx, weft_mesh_join(ctx, &place, &mesh));
    assert_null(mesh);
    assert_int_equal(ctx_end(ctx), 0);
}
