/* SPDX-License-Identifier: MIT */
/* Reduce-scatter and all-gather of uneven blocks: the bits of the sum in rank order, and the
 * order in which peers are sent to. */
#include "collectives/collectives.h"
#include "fakecomm.h"
#include "ranks.h"
#include "reference/reference.h"

enum { MAX_R = 4, N = 103, TAG = 5 };

/* Ranks have 20 numbers each, but rank 1 of more than two has none, and the last one has what
 * is left. */
static int64_t floats(const void *self, int rank) {
    int R = *(const int *)self, full = R > 2 ? R - 2 : R - 1;
    if (rank == R - 1) return N - 20 * full;
    return rank == 1 ? 0 : 20;
}

typedef struct trial {
    int R;
    float x[N], mine[N], all[N];
} trial;

static trial trials[MAX_R];

static wefti_split split_of(const trial *t) {
    return (wefti_split){.floats = floats, .self = &t->R};
}

/* Numbers of all sizes, so that another order has other bits. */
static void draw(int rank, float *x) {
    fill_normal((uint64_t)rank + 3, N, x);
    for (int i = 0; i < N; i++) x[i] *= rank % 2 ? 1e-4f : 1e3f;
}

static weft_status there_and_back(rank_env *env) {
    trial *t = env->user;
    wefti_split split = split_of(t);
    draw(env->rank, t->x);
    for (int i = 0; i < N; i++) t->mine[i] = 0.5f; /* it is added to */
    WEFT_TRY(wefti_reduce_scatter(env->replica, TAG, &wefti_kernels_reference, &split,
                                  t->x, t->mine));
    return wefti_all_gather(env->replica, TAG + 1, &split, t->mine, t->all);
}

TEST(every_rank_gets_the_sum_in_rank_order) {
    void *users[MAX_R];
    for (int R = 1; R <= MAX_R; R++) {
        float sum[N], x[N];
        for (int i = 0; i < N; i++) sum[i] = 0.5f;
        for (int r = 0; r < R; r++) {
            trials[r] = (trial){.R = R};
            users[r] = &trials[r];
            draw(r, x);
            for (int i = 0; i < N; i++) sum[i] += x[i];
        }
        run_ranks(R, 1, (wefti_wire_model){0, 0}, there_and_back, users, NULL);
        for (int r = 0; r < R; r++) assert_memory_equal(trials[r].all, sum, sizeof sum);
    }
}

TEST(blocks_lie_one_after_another) {
    trial t = {.R = 4};
    wefti_split split = split_of(&t);
    static const int64_t begins[] = {0, 20, 20, 40, N};
    for (int r = 0; r <= 4; r++) assert_int_equal(wefti_split_at(&split, r), begins[r]);
}

/* All ranks begin with the one behind them, so that not all send to the same one first; what
 * is received is given back before the next is waited for. */
TEST(the_next_rank_is_first) {
    weft_ctx *ctx;
    static fake_comm fake;
    trial t = {.R = 4};
    wefti_split split = split_of(&t);
    static const float zero[N];
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    fake_begin(&fake, ctx, 2, 4);
    for (int r = 0; r < 4; r++) fake_deliver(&fake, r, TAG, zero, 20 * sizeof(float));
    assert_ok(ctx, wefti_reduce_scatter(&fake.comm, TAG, &wefti_kernels_reference, &split,
                                        t.x, t.mine));
    assert_log(&fake, "S3 S0 S1 R0 L0 R1 L1 R3 L3 W");
    assert_ptr_equal(fake.sent[0].data, t.x + 40);
    assert_int_equal(fake.sent[0].n_bytes, (N - 40) * 4);
    assert_ptr_equal(fake.sent[1].data, t.x);
    fake_begin(&fake, ctx, 2, 4);
    for (int r = 0; r < 4; r++)
        fake_deliver(&fake, r, TAG, zero, floats(&t.R, r) * (int64_t)sizeof(float));
    assert_ok(ctx, wefti_all_gather(&fake.comm, TAG, &split, t.mine, t.all));
    assert_log(&fake, "S3 S0 S1 R3 L3 R0 L0 R1 L1 W");
    weft_ctx_destroy(ctx);
}
