/* SPDX-License-Identifier: MIT */
/* Plain top-k: its definition in double, and that nothing is lost. */
#include <math.h>
#include <stdlib.h>

#include "replicas.h"
#include "reference/reference.h"

enum { C = 64, R = 3 };

static trial trials[MAX_R];

/* Where the chunk of an element begins, and how many elements it has: chunks are cut from
 * the first element of each piece. */
static int chunk_of(int i, int *length) {
    static const int begins[] = {0, VECTOR, VECTOR + ROWS * COLS, N};
    int piece = 0;
    while (i >= begins[piece + 1]) piece++;
    int first = begins[piece] + (i - begins[piece]) / C * C, end = begins[piece + 1];
    *length = end - first < C ? end - first : C;
    return first;
}

/* Whether element i is among the k largest of its chunk, ties to the lower index. */
static bool is_chosen(const double *m, int i, int k) {
    int length, first = chunk_of(i, &length), larger = 0;
    for (int j = first; j < first + length; j++)
        larger += fabs(m[j]) > fabs(m[i]) || (j < i && fabs(m[j]) == fabs(m[i]));
    return larger < k;
}

/* f32 values: the definition, with alpha. */
TEST(it_is_its_definition) {
    static double m[R][N];
    for (int k = 1; k <= 8; k += 3) {
        wefti_replicator_config config = knobs("topk", 1, k, false);
        config.alpha = 0.75;
        memset(m, 0, sizeof m);
        run_knobs(trials, R, &config);
        for (int step = 0; step < STEPS; step++) {
            static double d[N];
            memset(d, 0, sizeof d);
            for (int r = 0; r < R; r++) {
                static double before[N];
                for (int i = 0; i < N; i++)
                    m[r][i] = 0.9 * m[r][i] + 0.5 * (double)trials[r].gradient[step][i];
                memcpy(before, m[r], sizeof before);
                for (int i = 0; i < N; i++) {
                    if (!is_chosen(before, i, k)) continue;
                    d[i] += before[i] / R;
                    m[r][i] -= 0.75 * before[i];
                }
            }
            for (int i = 0; i < N; i++) {
                assert_true(fabs(d[i] - (double)trials[0].direction[step][i]) < 1e-5);
                assert_true(fabs(m[1][i] - (double)trials[1].kept[step][i]) < 1e-5);
            }
        }
    }
}

/* Without decay, over all steps: sum of what went in = R times all directions + what is
 * kept, whatever coding loses. */
TEST(what_is_sent_and_what_is_kept_are_all_there_is) {
    for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++) {
        wefti_replicator_config config = knobs("topk", 1, 4, false);
        config.values = (wefti_value_codec)codec;
        config.compression_decay = 1;
        run_knobs(trials, R, &config);
        for (int i = 0; i < N; i++) {
            double in = 0, out = 0, kept = 0;
            for (int r = 0; r < R; r++) kept += (double)trials[r].kept[STEPS - 1][i];
            for (int step = 0; step < STEPS; step++) {
                out += R * (double)trials[0].direction[step][i];
                for (int r = 0; r < R; r++)
                    in += 0.5 * (double)trials[r].gradient[step][i];
            }
            assert_true(fabs(in - out - kept) < 1e-4);
        }
    }
}

TEST(all_of_a_chunk_is_the_mean_of_momenta) {
    wefti_replicator_config config = knobs("topk", 1, C, false);
    run_knobs(trials, R, &config);
    for (int i = 0; i < N; i++) {
        double mean = 0;
        for (int r = 0; r < R; r++) mean += 0.5 * (double)trials[r].gradient[0][i] / R;
        assert_true(fabs((double)trials[0].direction[0][i] - mean) < 1e-6);
        assert_true(trials[0].kept[0][i] == 0);
    }
}

TEST(signs_are_minus_one_or_one_and_zero_where_nobody_sent) {
    wefti_replicator_config config = knobs("topk", 1, 4, true);
    int moved = 0;
    run_knobs(trials, R, &config);
    for (int i = 0; i < N; i++) {
        float d = trials[0].direction[0][i];
        assert_true(d == 0 || d == 1 || d == -1);
        moved += d != 0;
    }
    assert_in_range(moved, N * 4 / C, R * (N / C + 3) * 4);
}

TEST(more_numbers_than_a_chunk_has_are_refused) {
    weft_ctx *ctx;
    wefti_replicator *r;
    wefti_comm lonely = {.size = 1};
    wefti_replicator_config config = knobs("topk", 1, C + 1, true);
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_int_equal(wefti_replicator_create(ctx, &config, &wefti_kernels_reference,
                                             &lonely, test_buckets, N_BUCKETS, &r),
                     WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_ctx_message(ctx), "expected 1 to 64"));
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

/* The same numbers begin two pieces, on both ranks and in every step. */
static void begin_alike(int rank, int step, float *g) {
    (void)rank, (void)step;
    fill_normal(1, C, g);
    fill_normal(1, C, g + VECTOR);
}

/* Chance is another one in each of them, or what it loses would not average out. */
TEST(chance_differs_by_rank_piece_and_step) {
    static trial like;
    like = (trial){.config = knobs("topk", 1, C, false),
                   .kernels = test_kernels_find(NULL),
                   .edit = begin_alike};
    like.config.values = WEFTI_VALUES_INT4;
    like.config.stochastic = true;
    like.config.compression_decay = 0; /* what was lost is forgotten */
    run_alike(trials, 2, &like);
    const float *one = trials[0].kept[0];
    assert_memory_not_equal(one, one + VECTOR, C * sizeof *one);
    assert_memory_not_equal(one, trials[1].kept[0], C * sizeof *one);
    assert_memory_not_equal(one, trials[0].kept[1], C * sizeof *one);
}
