/* SPDX-License-Identifier: MIT */
/* The laws of docs/methods.md for every replicator in the registry. */
#include <math.h>
#include <stdlib.h>

#include "ranks.h"
#include "replicate/replicator.h"

enum { N = 64 * 9 + 5 + 70 * 33 + 48, STEPS = 5, MAX_R = 4 };

static const wefti_piece pieces[] = {{64 * 9 + 5, 1, 0, false},
                                     {70, 33, 64 * 9 + 5, true},
                                     {48, 1, 64 * 9 + 5 + 70 * 33, false}};
static const wefti_bucket buckets[] = {{2, pieces, 64 * 9 + 5 + 70 * 33},
                                       {1, (wefti_piece[]){{48, 1, 0, false}}, 48}};
static const int64_t bucket_at[] = {0, 64 * 9 + 5 + 70 * 33};

typedef struct trial {
    wefti_replicator_config config;
    bool same_gradients; /* every rank has rank 0's */
    float direction[STEPS][N], kept[STEPS][N], gradient[STEPS][N];
    int64_t bytes_out, bytes_predicted;
    int R;
} trial;

static weft_status replicate(rank_env *env) {
    trial *t = env->user;
    wefti_replicator *r;
    int rank = env->replica->rank;
    WEFT_TRY(wefti_replicator_create(env->ctx, &t->config, &wefti_kernels_reference,
                                     env->replica, buckets, 2, &r));
    weft_status status = WEFT_OK;
    for (int step = 0; step < STEPS && status == WEFT_OK; step++) {
        float *d = t->direction[step];
        fill_normal(17 * (uint64_t)step + (t->same_gradients ? 0 : (uint64_t)rank * 1000),
                    N, d);
        memcpy(t->gradient[step], d, sizeof t->gradient[step]);
        for (int b = 0; b < 2 && status == WEFT_OK; b++)
            status = wefti_replicator_begin(r, b, step, 0.5f, d + bucket_at[b]);
        for (int b = 0; b < 2 && status == WEFT_OK; b++)
            status = wefti_replicator_end(r, b, step, d + bucket_at[b]);
        for (int b = 0; b < 2; b++)
            if (r->state[b])
                memcpy(t->kept[step] + bucket_at[b], r->state[b],
                       (size_t)buckets[b].n_elements * sizeof(float));
        if (wefti_replicator_is_due(&t->config, step))
            for (int b = 0; b < 2; b++)
                t->bytes_predicted += r->ops->wire_bytes(&t->config, &buckets[b],
                                                         env->replica->size, rank);
    }
    if (status == WEFT_OK) status = wefti_comm_barrier(env->control, -1);
    wefti_traffic traffic;
    wefti_comm_traffic(env->control, &traffic);
    t->bytes_out = traffic.bytes_out[WEFTI_LINK_WIRE];
    wefti_replicator_destroy(r);
    return status;
}

static void run(trial *trials, int R, wefti_replicator_config config,
                bool same_gradients) {
    void *users[MAX_R];
    for (int r = 0; r < R; r++) {
        memset(&trials[r], 0, sizeof trials[r]);
        trials[r].config = config;
        trials[r].same_gradients = same_gradients;
        users[r] = &trials[r];
    }
    run_ranks(R, 1, (wefti_wire_model){0, 0}, replicate, users, NULL);
}

static wefti_replicator_config knobs(const char *kind, int dims, int64_t k, bool sign) {
    return (wefti_replicator_config){.kind = kind,
                                     .compression_topk = k,
                                     .compression_chunk = dims == 2 ? 16 : 64,
                                     .compression_decay = 0.9,
                                     .compression_dims = dims,
                                     .sign = sign,
                                     .every = 1};
}

static trial trials[MAX_R], lone[1];

/* Every kind with the knobs worth trying; replicators that ignore knobs run more than
 * once. */
static void for_each_kind(void (*claim)(wefti_replicator_config config)) {
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        const char *kind = wefti_replicator_registry[i]->name;
        if (strcmp(kind, "none") == 0) continue;
        claim(knobs(kind, 1, 4, true));
        claim(knobs(kind, 1, 4, false));
        claim(knobs(kind, 1, 64, false));
        claim(knobs(kind, 2, 8, true));
        claim(knobs(kind, 2, 256, false));
        wefti_replicator_config rarely = knobs(kind, 1, 4, true);
        rarely.every = 2;
        if (strcmp(kind, "full") != 0) claim(rarely);
    }
}

static void claim_bit_equal(wefti_replicator_config config) {
    for (int R = 1; R <= MAX_R; R++) {
        run(trials, R, config, false);
        for (int step = 0; step < STEPS; step++)
            for (int r = 1; r < R && wefti_replicator_is_due(&config, step); r++)
                assert_memory_equal(trials[r].direction[step], trials[0].direction[step],
                                    sizeof trials[0].direction[step]);
    }
}

static void all_replicas_get_the_same_bits(void **state) {
    (void)state;
    for_each_kind(claim_bit_equal);
}

static void claim_bytes(wefti_replicator_config config) {
    for (int R = 1; R <= MAX_R; R++) {
        run(trials, R, config, false);
        for (int r = 0; r < R; r++)
            assert_int_equal(trials[r].bytes_out, trials[r].bytes_predicted);
        if (R > 1) assert_true(trials[0].bytes_out > 0);
    }
}

static void bytes_counted_are_bytes_predicted(void **state) {
    (void)state;
    for_each_kind(claim_bytes);
}

/* The mean of R equal values has at most one rounding per addition and one per division.
 */
static void claim_identical(wefti_replicator_config config) {
    run(lone, 1, config, true);
    for (int R = 2; R <= MAX_R; R++) {
        run(trials, R, config, true);
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < N; i++) {
                float a = trials[0].direction[step][i], b = lone->direction[step][i];
                assert_true(fabsf(a - b) <= 1e-5f * (1 + fabsf(b)));
            }
        }
    }
}

static void identical_ranks_are_one_rank(void **state) {
    (void)state;
    for_each_kind(claim_identical);
}

static void demo_sends_and_keeps_all_there_is(void **state) {
    (void)state;
    for (int dims = 1; dims <= 2; dims++) {
        run(lone, 1, knobs("demo", dims, 4, false), true);
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < N; i++) {
                float before = step ? lone->kept[step - 1][i] : 0;
                float all = 0.9f * before + 0.5f * lone->gradient[step][i];
                float sum = lone->direction[step][i] + lone->kept[step][i];
                assert_true(fabsf(all - sum) < 1e-5f * (1 + fabsf(all)));
            }
        }
    }
}

static void demo_that_sends_everything_is_the_mean_gradient(void **state) {
    (void)state;
    for (int dims = 1; dims <= 2; dims++) {
        run(trials, 3, knobs("demo", dims, dims == 2 ? 256 : 64, false), false);
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < N - 48; i++) {
                float mean = 0;
                for (int r = 0; r < 3; r++)
                    mean += 0.5f * trials[r].gradient[step][i] / 3;
                assert_true(fabsf(trials[0].direction[step][i] - mean) < 2e-5f);
                assert_true(fabsf(trials[0].kept[step][i]) < 2e-5f);
            }
        }
    }
}

/* One rank's k largest of the first step's spectrum of a chunk, in double: added to sum.
 */
static void add_selection(const float *gradient, int n, double *sum, int *senders) {
    double spectrum[64];
    bool taken[64] = {false};
    for (int f = 0; f < 64; f++) {
        spectrum[f] = 0;
        for (int i = 0; i < n; i++)
            spectrum[f] += sqrt((f ? 2.0 : 1.0) / 64) * 0.5 * (double)gradient[i] *
                           cos(acos(-1.0) * (2 * i + 1) * f / 128);
    }
    for (int k = 0; k < 4; k++) {
        int best = -1;
        for (int f = 0; f < 64; f++)
            if (!taken[f] && (best < 0 || fabs(spectrum[f]) > fabs(spectrum[best])))
                best = f;
        taken[best] = true;
        sum[best] += spectrum[best];
        senders[best]++;
    }
}

static void demo_averages_over_those_that_sent(void **state) {
    (void)state;
    int shared = 0;
    run(trials, 3, knobs("demo", 1, 4, false), false);
    for (int first = 0; first < 64 * 9 + 5; first += 64) {
        int n = 64 * 9 + 5 - first < 64 ? 64 * 9 + 5 - first : 64, senders[64] = {0};
        double sum[64] = {0};
        for (int r = 0; r < 3; r++)
            add_selection(trials[r].gradient[0] + first, n, sum, senders);
        for (int f = 0; f < 64; f++) shared += senders[f] == 2;
        for (int i = 0; i < n; i++) {
            double d = 0;
            for (int f = 0; f < 64; f++)
                if (senders[f])
                    d += sqrt((f ? 2.0 : 1.0) / 64) * sum[f] / senders[f] *
                         cos(acos(-1.0) * (2 * i + 1) * f / 128);
            assert_true(fabs(d - (double)trials[0].direction[0][first + i]) < 1e-5);
        }
    }
    assert_true(shared > 0); /* or the claim was not tried */
}

static void demo_with_sign_moves_by_minus_one_zero_or_one(void **state) {
    (void)state;
    run(trials, 2, knobs("demo", 1, 4, true), false);
    int moved = 0;
    for (int i = 0; i < N; i++) {
        float d = trials[0].direction[2][i];
        assert_true(d == 0 || d == 1 || d == -1);
        moved += d != 0;
    }
    assert_true(moved > N / 2);
}

static void a_step_that_is_not_due_moves_nothing_and_loses_nothing(void **state) {
    (void)state;
    wefti_replicator_config config = knobs("demo", 1, 4, false);
    config.every = 3;
    run(lone, 1, config, true);
    for (int i = 0; i < N; i++) {
        assert_true(lone->direction[1][i] == 0);
        float all = 0.9f * lone->kept[0][i] + 0.5f * lone->gradient[1][i];
        assert_true(fabsf(lone->kept[1][i] - all) < 1e-6f * (1 + fabsf(all)));
    }
}

static void full_is_the_mean_of_gradients(void **state) {
    (void)state;
    run(trials, 4, knobs("full", 1, 4, true), false);
    for (int i = 0; i < N; i++) {
        double mean = 0;
        for (int r = 0; r < 4; r++) mean += (double)trials[r].gradient[1][i] / 4;
        assert_true(fabs((double)trials[0].direction[1][i] - mean) < 1e-6);
    }
}

static void bad_knobs_are_refused_in_a_sentence(void **state) {
    (void)state;
    weft_ctx *ctx;
    wefti_replicator *r;
    wefti_comm lonely = {.size = 1};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    wefti_replicator_config bad[] = {
        knobs("demo", 1, 65, true), knobs("demo", 1, 0, true), knobs("demo", 3, 4, true),
        knobs("fast", 1, 4, true), knobs("full", 1, 4, true)};
    bad[4].every = 2;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(wefti_replicator_create(ctx, &bad[i], &wefti_kernels_reference,
                                                 &lonely, buckets, 2, &r),
                         WEFT_ERR_CONFIG);
        assert_null(r);
        assert_true(weft_ctx_message(ctx)[0]);
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
        weft_ctx_clear(ctx);
    }
    weft_ctx_destroy(ctx);
}

static void every_failed_allocation_is_a_clean_error(void **state) {
    (void)state;
    weft_ctx *ctx;
    wefti_replicator *r;
    wefti_comm pair = {.size = 2};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        wefti_replicator_config config = knobs(wefti_replicator_registry[i]->name, 1, 4,
                                               true);
        weft_status status = WEFT_ERR_MEMORY;
        for (int64_t k = 0; status != WEFT_OK; k++) {
            weft_ctx_fail_allocation(ctx, k);
            status = wefti_replicator_create(ctx, &config, &wefti_kernels_reference,
                                             &pair, buckets, 2, &r);
            if (status != WEFT_OK) assert_int_equal(status, WEFT_ERR_MEMORY);
            wefti_replicator_destroy(r);
            assert_int_equal(weft_ctx_bytes_held(ctx), 0);
            weft_ctx_clear(ctx);
        }
        weft_ctx_fail_allocation(ctx, -1);
    }
    weft_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_replicas_get_the_same_bits),
        cmocka_unit_test(bytes_counted_are_bytes_predicted),
        cmocka_unit_test(identical_ranks_are_one_rank),
        cmocka_unit_test(demo_sends_and_keeps_all_there_is),
        cmocka_unit_test(demo_that_sends_everything_is_the_mean_gradient),
        cmocka_unit_test(demo_averages_over_those_that_sent),
        cmocka_unit_test(demo_with_sign_moves_by_minus_one_zero_or_one),
        cmocka_unit_test(a_step_that_is_not_due_moves_nothing_and_loses_nothing),
        cmocka_unit_test(full_is_the_mean_of_gradients),
        cmocka_unit_test(bad_knobs_are_refused_in_a_sentence),
        cmocka_unit_test(every_failed_allocation_is_a_clean_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
