/* SPDX-License-Identifier: MIT */
/* Replicators among ranks whose messages have weights 1, 3, 10 and 0: a gradient that was
 * multiplied by its weight, and means that are divided by the sum of the weights. */
#include <math.h>

#include "replicas.h"

static trial trials[MAX_R], others[MAX_R];
static trial like;

static const double shares[MAX_R] = {1, 3, 10, 0};

static void run_weighted(trial *all, int R, const wefti_replicator_config *config,
                         const double *weights) {
    like = (trial){
        .config = *config, .kernels = wefti_kernels_find(NULL), .weights = weights};
    run_alike(all, R, &like);
}

/* A sum of four numbers below 50, and a quotient: at most 2^-18. */
TEST(full_is_the_weighted_mean) {
    wefti_replicator_config config = knobs("full", 1, 4, false);
    run_weighted(trials, MAX_R, &config, shares);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < N; i++) {
            double sum = 0; /* gradients have their weight already */
            for (int r = 0; r < MAX_R; r++) sum += (double)trials[r].gradient[step][i];
            assert_true(fabs(sum / 14 - (double)trials[0].direction[step][i]) < 0x1p-18);
        }
}

/* Clipped by size and by range, where a range of rank j begins at floor(n j / 4): what is
 * divided by 14 has been multiplied by its weight, and its size is divided by it. */
TEST(full_is_clipped_by_what_is_sent_per_weight) {
    wefti_replicator_config config = knobs("full", 1, 4, false);
    config.robust = WEFTI_ROBUST_CLIP;
    run_weighted(trials, MAX_R, &config, shares);
    for (int owner = 0; owner < MAX_R; owner++) {
        int begin = SMALL * owner / MAX_R, end = SMALL * (owner + 1) / MAX_R;
        double sizes[3] = {0}, low, high, median;
        for (int r = 0; r < 3; r++) { /* the last bucket alone; rank 3 has no weight */
            const float *g = trials[r].gradient[1] + bucket_at[1];
            for (int i = begin; i < end; i++) sizes[r] += (double)g[i] * (double)g[i];
            sizes[r] = sqrt(sizes[r]) / shares[r];
        }
        low = fmin(sizes[0], fmin(sizes[1], sizes[2]));
        high = fmax(sizes[0], fmax(sizes[1], sizes[2]));
        median = sizes[0] + sizes[1] + sizes[2] - low - high;
        for (int i = begin; i < end; i++) {
            double sum = 0;
            for (int r = 0; r < 3; r++)
                sum += (double)trials[r].gradient[1][bucket_at[1] + i] *
                       fmin(1, median / sizes[r]);
            double found = (double)trials[2].direction[1][bucket_at[1] + i];
            assert_true(fabs(sum / 14 - found) < 0x1p-18);
        }
    }
}

typedef void (*law)(const wefti_replicator_config *config);

static void for_each_kind(law claim) {
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        const wefti_replicator_ops *ops = wefti_replicator_registry[i];
        if (strcmp(ops->name, "none") == 0 || ops->votes) continue;
        for (int form = 0; form < 4; form++) {
            wefti_replicator_config config = knobs(ops->name, 1, 4, form % 2);
            config.values = form / 2 ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32;
            claim(&config);
            if (!ops->robust) continue;
            config.robust = form % 2 ? WEFTI_ROBUST_TRIM : WEFTI_ROBUST_CLIP;
            claim(&config);
        }
    }
}

static void agree(const wefti_replicator_config *config) {
    run_weighted(trials, MAX_R, config, shares);
    for (int r = 0; r < MAX_R; r++) {
        assert_int_equal(trials[r].bytes_out, trials[r].bytes_predicted);
        assert_memory_equal(trials[r].direction, trials[0].direction,
                            sizeof trials[0].direction);
    }
}

TEST(all_get_the_same_bits_for_the_bytes_predicted) { for_each_kind(agree); }

/* As a learner, who sends nothing in any of the steps. A learner of powersgd has other factors, and
 * what coding a mean has lost stays with it. */
static void count_for_nothing(const wefti_replicator_config *config) {
    static const double three[MAX_R] = {1, 1, 1, 0};
    if (wefti_replicator_find(config->kind)->own_answers ||
        config->values != WEFTI_VALUES_F32)
        return;
    run_weighted(trials, MAX_R, config, three);
    like = (trial){.config = *config,
                   .kernels = wefti_kernels_find(NULL),
                   .learners = 1,
                   .until = STEPS};
    run_alike(others, MAX_R, &like);
    if (memcmp(trials[0].direction, others[0].direction, sizeof trials[0].direction))
        fail_msg("%s, sign %d", config->kind, config->sign);
}

TEST(a_weight_of_0_counts_for_nothing) { for_each_kind(count_for_nothing); }

/* Those who had any are lost: what is left is a mean of nothing. */
static void nobody_counts(const wefti_replicator_config *config) {
    static const double none[MAX_R] = {0};
    run_weighted(trials, MAX_R, config, none);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < N; i++) assert_true(isfinite(trials[0].direction[step][i]));
}

TEST(weights_of_0_alone_are_no_division) { for_each_kind(nobody_counts); }

static void copy_the_second(int rank, int step, float *g) {
    if (rank > 1) fill_normal(17 * (uint64_t)step + 1000, N, g);
}

/* A rank whose weight is three times that of the other is three ranks. Demo divides a
 * coefficient by how many have sent it, so there it is not. Roundings: of sums of four numbers
 * below 8, in the momentum ten times; powersgd's factors are orthonormal columns of them. */
TEST(one_rank_can_be_three) {
    static const char *const kinds[] = {"full",     "topk",    "random",
                                        "striding", "slicing", "powersgd"};
    static const double two[] = {0.5, 1.5};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        wefti_replicator_config config = knobs(kinds[i], 1, 4, false);
        run_weighted(trials, 2, &config, two);
        like = (trial){.config = config,
                       .kernels = wefti_kernels_find(NULL),
                       .edit = copy_the_second};
        run_alike(others, 4, &like);
        double most = strcmp(kinds[i], "powersgd") == 0 ? 1e-3 : 0x1p-16;
        for (int step = 0; step < STEPS; step++)
            for (int j = 0; j < N; j++)
                if (!(fabs((double)trials[0].direction[step][j] -
                           (double)others[0].direction[step][j]) < most))
                    fail_msg("%s, step %d, element %d: %g, of three %g", kinds[i], step,
                             j, (double)trials[0].direction[step][j],
                             (double)others[0].direction[step][j]);
    }
}
