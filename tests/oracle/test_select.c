/* SPDX-License-Identifier: MIT */
/* A second opinion in double on random, striding and slicing: 100 steps of 2 ranks, from
 * the text of docs/methods.md, with selections and sums of its own. */
#include <math.h>
#include <stdlib.h>

#include "ranks.h"
#include "replicate/replicator.h"

enum { ROWS = 37, COLS = 5, LENGTH = 90, N = ROWS * COLS + LENGTH, STEPS = 100, R = 2 };

static const wefti_piece pieces[] = {{ROWS, COLS, 0, true, 6},
                                     {LENGTH, 1, ROWS *COLS, false, 9}};
static const wefti_bucket bucket = {2, pieces, N};
static const double rate = 0.11, lr = 0.25, beta = 0.95;

typedef struct trial {
    wefti_replicator_config config;
    float gradient[STEPS][N], direction[STEPS][N], momentum[STEPS][N];
} trial;

static trial trials[R];

static weft_status replicate(rank_env *env) {
    trial *t = env->user;
    wefti_replicator *r;
    WEFT_TRY(wefti_replicator_create(env->ctx, &t->config, wefti_kernels_find(NULL),
                                     env->replica, &bucket, 1, &r));
    weft_status status = WEFT_OK;
    for (int step = 0; step < STEPS && status == WEFT_OK; step++) {
        float *d = t->direction[step];
        fill_normal((uint64_t)(step * 8 + env->rank), N, d);
        memcpy(t->gradient[step], d, sizeof t->gradient[step]);
        status = wefti_replicator_begin(r, 0, step, (float)lr, d);
        if (status == WEFT_OK) status = wefti_replicator_combine(r, 0, step, d);
        if (status == WEFT_OK) status = wefti_replicator_end(r, 0, step, d);
        memcpy(t->momentum[step], r->state[0], sizeof t->momentum[step]);
    }
    if (status == WEFT_OK) status = wefti_comm_barrier(env->control, -1);
    wefti_replicator_destroy(r);
    return status;
}

/* --- who is chosen, row by row --- */

/* floor(a b / 2^64) by long multiplication in base 2^16. */
static uint64_t scale_down(uint64_t a, uint64_t b) {
    uint64_t sum[9] = {0};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            uint64_t product = (a >> (16 * i) & 0xffff) * (b >> (16 * j) & 0xffff);
            sum[i + j] += product & 0xffff;
            sum[i + j + 1] += product >> 16;
        }
    for (int i = 0; i < 8; i++) sum[i + 1] += sum[i] >> 16;
    uint64_t high = 0;
    for (int i = 7; i >= 4; i--) high = high << 16 | (sum[i] & 0xffff);
    return high;
}

static void draw(uint64_t seed, int tensor, int64_t turn, int64_t rows, bool *chosen) {
    int64_t k = (int64_t)floor(rate * (double)rows + 0.5);
    uint64_t key = wefti_rng_u64(seed, WEFTI_STREAM_SELECT, (uint64_t)turn,
                                 (uint64_t)tensor);
    for (int64_t i = 0; i < k; i++) {
        int64_t j = rows - k + i;
        uint64_t pair[2];
        wefti_rng_pair(key, WEFTI_STREAM_SELECT, (uint64_t)rows, (uint64_t)(i / 2), pair);
        int64_t t = (int64_t)scale_down(pair[i % 2], (uint64_t)j + 1);
        chosen[chosen[t] ? j : t] = true;
    }
}

static bool is_chosen(const wefti_replicator_config *c, const bool *drawn, int64_t turn,
                      int64_t rows, int64_t row) {
    if (strcmp(c->kind, "random") == 0) return drawn[row];
    if (strcmp(c->kind, "striding") == 0) return row % 9 == turn % 9; /* 1/0.11 */
    int64_t window = rows == ROWS ? 4 : 10;                           /* 4.07, 9.9 */
    return row / window == turn % ((rows + window - 1) / window);
}

/* --- a step --- */

/* A step of one element, of which every rank has a momentum. */
static double step_element(const wefti_replicator_config *c, int step, int i, bool sent,
                           double *m) {
    double mean = 0;
    for (int r = 0; r < R; r++) {
        double gain = c->ema ? 1 - beta : lr;
        m[r] = beta * m[r] + gain * (double)trials[r].gradient[step][i];
        if (!sent) continue;
        mean += m[r] / R;
        m[r] -= c->alpha * m[r];
    }
    return mean;
}

static void check(const wefti_replicator_config *c, int step, int i, bool sent,
                  double (*m)[R]) {
    double mean = step_element(c, step, i, sent, m[i]);
    for (int r = 0; r < R; r++) {
        double d = (double)trials[r].direction[step][i];
        assert_true(fabs((double)trials[r].momentum[step][i] - m[i][r]) < 3e-6);
        if (!c->sign)
            assert_true(fabs(d - mean) < 3e-6);
        else if (fabs(mean) > 3e-6 || !sent)
            assert_true(d == (mean > 0) - (mean < 0));
    }
}

static void check_piece(const wefti_replicator_config *c, int step, int p,
                        double (*m)[R]) {
    bool drawn[LENGTH] = {false};
    const wefti_piece *piece = &pieces[p];
    int64_t turn = step / c->every;
    draw(c->seed, piece->tensor, turn, piece->rows, drawn);
    for (int64_t row = 0; row < piece->rows; row++) {
        bool sent = step % c->every == 0 && is_chosen(c, drawn, turn, piece->rows, row);
        for (int64_t col = 0; col < piece->cols; col++)
            check(c, step, (int)(piece->offset + row * piece->cols + col), sent, m);
    }
}

static void follow(wefti_replicator_config config) {
    static double m[N][R];
    void *users[R];
    memset(m, 0, sizeof m);
    for (int r = 0; r < R; r++) {
        trials[r].config = config;
        users[r] = &trials[r];
    }
    run_ranks(R, 1, (wefti_wire_model){0, 0}, replicate, users, NULL);
    for (int step = 0; step < STEPS; step++)
        for (int p = 0; p < 2; p++) check_piece(&config, step, p, m);
}

static void follow_all(const char *kind) {
    for (int i = 0; i < 8; i++)
        follow((wefti_replicator_config){.kind = kind,
                                         .compression_rate = rate,
                                         .compression_decay = beta,
                                         .sign = i & 1,
                                         .ema = i & 2,
                                         .alpha = i & 4 ? 0.2 : 1,
                                         .every = i & 4 ? 2 : 1,
                                         .seed = 1234567890123,
                                         .threads = 1});
}

TEST(random_is_the_method_for_a_hundred_steps) { follow_all("random"); }

TEST(striding_is_the_method_for_a_hundred_steps) { follow_all("striding"); }

TEST(slicing_is_the_method_for_a_hundred_steps) { follow_all("slicing"); }
