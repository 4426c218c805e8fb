/* SPDX-License-Identifier: MIT */
/* The laws of ranks that send in codecs of their own (replicator.node_values), for every
 * replicator that has the key. Everything is applied by hand, too: what rank r sends is what one
 * rank alone with its codec and its gradients moves along, and keeps; and all move along the mean
 * of that. */
#include <math.h>

#include "base/text.h"
#include "replicas.h"

static const wefti_value_codec codecs[][MAX_R] = {
    {WEFTI_VALUES_INT8, WEFTI_VALUES_INT4, WEFTI_VALUES_F32, WEFTI_VALUES_SIGN},
    {WEFTI_VALUES_SIGN, WEFTI_VALUES_F32, WEFTI_VALUES_BF16, WEFTI_VALUES_INT4},
    {WEFTI_VALUES_INT4, WEFTI_VALUES_INT4, WEFTI_VALUES_INT4, WEFTI_VALUES_INT4}};
enum { MIXES = sizeof codecs / sizeof codecs[0] };

static trial trials[MAX_R], others[MAX_R], alone[MAX_R];
static int as_rank;

static wefti_replicator_config mixed(const char *kind, int form, int mix) {
    wefti_replicator_config c = knobs(kind, 1 + form / 2 % 2, 4 + 4 * (form / 2 % 2),
                                      form % 2);
    c.values = WEFTI_VALUES_INT8;
    c.values_of = codecs[mix];
    c.stochastic = form == 2;
    return c;
}

static void run_all(trial *all, int R, const wefti_replicator_config *config) {
    run_knobs(all, R, config);
    for (int r = 0; r < R; r++) {
        assert_int_equal(all[r].bytes_out, all[r].bytes_predicted);
        assert_int_equal(all[r].allocated, 0);
        for (int step = 0; step < STEPS; step++)
            assert_memory_equal(all[r].direction[step], all[0].direction[step],
                                sizeof all[0].direction[step]);
    }
}

static void be_rank(int rank, int step, float *g) {
    (void)rank;
    fill_normal(17 * (uint64_t)step + 1000 * (uint64_t)as_rank, N, g);
}

/* Every rank by itself, with its own codec for all. */
static void run_alone(int R, const wefti_replicator_config *config) {
    static trial like;
    for (as_rank = 0; as_rank < R; as_rank++) {
        like = (trial){
            .config = *config, .kernels = wefti_kernels_find(NULL), .edit = be_rank};
        like.config.values = config->values_of[as_rank];
        like.config.values_of = NULL;
        run_alike(&alone[as_rank], 1, &like);
    }
}

/* What is left in the momenta is what a rank's own codec leaves, whatever the others have. */
static void keep_the_same(int R) {
    for (int r = 0; r < R; r++)
        assert_memory_equal(trials[r].kept, alone[r].kept, sizeof alone[r].kept);
}

/* The mean, in double precision, of what is sent: with R f32 terms off by their rounding. */
static void move_along_the_mean(int R) {
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < N; i++) {
            double sum = 0, size = 0;
            for (int r = 0; r < R; r++) {
                sum += (double)alone[r].direction[step][i];
                size += fabs((double)alone[r].direction[step][i]);
            }
            double d = (double)trials[0].direction[step][i];
            assert_true(fabs(d - sum / R) <= R * 0x1p-23 * size);
        }
}

static bool has_key(const wefti_replicator_ops *ops) {
    return wefti_named(ops->keys, "node_values");
}

/* All numbers sent whole, so that each has a mean over all; by both routes. */
TEST(a_message_is_decoded_by_the_codec_of_its_sender) {
    int kinds = 0;
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        if (!has_key(wefti_replicator_registry[i])) continue;
        kinds++;
        for (int form = 0; form < 8; form++)
            for (int R = 2; R <= MAX_R; R++) {
                wefti_replicator_config c = mixed(wefti_replicator_registry[i]->name, 0,
                                                  form % MIXES);
                c.dense_below = form < 4 ? N : 0;
                c.route = form % 2 ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_GATHER;
                run_all(trials, R, &c);
                run_alone(R, &c);
                keep_the_same(R);
                if (form < 4 || strcmp(c.kind, "topk") == 0) move_along_the_mean(R);
            }
    }
    assert_int_equal(kinds, 2);
}

/* Of coefficients, signs, square chunks: both routes give the same bits of the direction. */
TEST(routes_are_alike_with_mixed_codecs) {
    for (int form = 0; form < 4; form++)
        for (int mix = 0; mix < MIXES; mix++)
            for (int R = 2; R <= MAX_R; R++) {
                wefti_replicator_config c = mixed("demo", form, mix);
                c.route = WEFTI_ROUTE_GATHER;
                run_all(trials, R, &c);
                if (!c.stochastic) {
                    run_alone(R, &c);
                    keep_the_same(R);
                }
                c.route = WEFTI_ROUTE_OWNER;
                run_all(others, R, &c);
                for (int r = 0; r < R; r++)
                    assert_memory_equal(others[r].direction, trials[r].direction,
                                        sizeof trials[r].direction);
            }
}

/* Where all have one, bytes and bits are those of that one. */
TEST(one_codec_of_all_is_that_codec) {
    for (int form = 0; form < 4; form++) {
        wefti_replicator_config c = mixed("demo", form, 2);
        c.route = WEFTI_ROUTE_GATHER;
        run_all(trials, 3, &c);
        c.values = WEFTI_VALUES_INT4;
        c.values_of = NULL;
        run_all(others, 3, &c);
        assert_int_equal(others[0].bytes_out, trials[0].bytes_out);
        assert_memory_equal(others[0].direction, trials[0].direction,
                            sizeof trials[0].direction);
    }
}

/* Of two, f32 goes to owners and int4 to all, if all have it. */
TEST(the_usual_codec_chooses_the_route) {
    static const wefti_value_codec usual[] = {WEFTI_VALUES_F32, WEFTI_VALUES_INT4};
    const wefti_replicator_ops *ops = wefti_replicator_find("demo");
    for (int i = 0; i < 2; i++) {
        wefti_replicator_config c = mixed("demo", 1, 0);
        c.values = usual[i];
        c.values_of = (const wefti_value_codec[]){usual[!i], usual[i]};
        for (int member = 0; member < 2; member++) {
            wefti_replicator_config sent = wefti_replicator_sending(&c, member);
            assert_int_equal(ops->rounds(&sent, &test_buckets[0], 2), 2 - i);
        }
        run_all(trials, 2, &c);
    }
}

TEST(fewer_bits_are_fewer_bytes_of_that_rank_alone) {
    static const wefti_value_codec one[] = {WEFTI_VALUES_INT8, WEFTI_VALUES_INT4,
                                            WEFTI_VALUES_INT8};
    for (int route = WEFTI_ROUTE_GATHER; route <= WEFTI_ROUTE_OWNER; route++) {
        wefti_replicator_config c = mixed("demo", 1, 0);
        c.route = (wefti_route)route;
        c.values_of = NULL;
        run_all(others, 3, &c);
        c.values_of = one;
        run_all(trials, 3, &c);
        for (int r = 0; r < 3; r++)
            if (r == 1)
                assert_true(trials[r].bytes_out < others[r].bytes_out);
            else
                assert_int_equal(trials[r].bytes_out, others[r].bytes_out);
    }
}
