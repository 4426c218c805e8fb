/* SPDX-License-Identifier: MIT */
/* The mixer `outer` against docs/methods.md in double, over 60 inner steps that are
 * drawn: walks that nothing but the mixer ties together. */
#include <math.h>
#include <stdlib.h>

#include "mix/mixer.h"
#include "ranks.h"
#include "reference/reference.h"

enum { N_BUCKETS = 4, N = 200 + 64 + 70 + 3, STEPS = 60, R = 3, MOST_STATES = 4 };

static const wefti_bucket buckets[N_BUCKETS] = {
    {.n_elements = 200}, {.n_elements = 64}, {.n_elements = 70}, {.n_elements = 3}};
static const int64_t bucket_at[N_BUCKETS] = {0, 200, 264, 334};

typedef struct trial {
    wefti_mixer_config config;
    bool
        uneven; /* one number of 64 moves far, the others a little, always the same way */
    float x[STEPS + 1][N];                  /* x[t]: before step t */
    float state[STEPS + 1][MOST_STATES][N]; /* in the mixer's order */
} trial;

static trial trials[R], exact[R];
static const double *weights; /* [R]; NULL: 1 */

static void draw(const trial *t, int rank, int64_t step, float *u) {
    fill_normal(1000 * (uint64_t)(step + 1) + (uint64_t)rank, N, u);
    for (int i = 0; i < N; i++) u[i] *= 0.1f;
    for (int i = 0; i < N && t->uneven; i++)
        u[i] = i % 64 ? 0.003f + 0.001f * u[i] : u[i];
}

static weft_status one_step(const trial *t, wefti_mixer *m, int64_t step, float *x) {
    float u[N];
    draw(t, m->comm->rank, step, u);
    for (int b = 0; b < N_BUCKETS; b++) {
        WEFT_TRY(wefti_mixer_before(m, b, step, x + bucket_at[b]));
        for (int64_t i = 0; i < buckets[b].n_elements; i++)
            x[bucket_at[b] + i] -= u[bucket_at[b] + i];
        WEFT_TRY(wefti_mixer_after(m, b, step, x + bucket_at[b]));
    }
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_mixer_finish(m, b, step, x + bucket_at[b]));
    return WEFT_OK;
}

static weft_status walk(rank_env *env, wefti_mixer *m) {
    trial *t = env->user;
    float x[N];
    memcpy(x, t->x[0], sizeof x);
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_mixer_prime(m, b, 0, x + bucket_at[b]));
    for (int64_t step = 0; step < STEPS; step++) {
        WEFT_TRY(one_step(t, m, step, x));
        memcpy(t->x[step + 1], x, sizeof x);
        for (int i = 0; i < m->n_states; i++)
            memcpy(t->state[step + 1][i], m->state[i], sizeof x);
    }
    return wefti_comm_barrier(env->control, -1);
}

static weft_status train(rank_env *env) {
    trial *t = env->user;
    wefti_mixer *m;
    env->replica->weights = weights;
    WEFT_TRY(wefti_mixer_create(env->ctx, &t->config, &wefti_kernels_reference,
                                env->replica, buckets, N_BUCKETS, &m));
    weft_status status = walk(env, m);
    wefti_mixer_destroy(m);
    return status;
}

static void run(trial *all, wefti_mixer_config config, bool uneven) {
    void *users[R];
    for (int r = 0; r < R; r++) {
        memset(&all[r], 0, sizeof all[r]);
        all[r].config = config;
        all[r].uneven = uneven;
        fill_normal(7, N, all[r].x[0]);
        users[r] = &all[r];
    }
    run_ranks(R, 1, (wefti_wire_model){0, 0}, train, users, NULL);
}

static wefti_mixer_config knobs(int64_t H, int64_t P, int64_t delay, double merge) {
    return (wefti_mixer_config){.kind = "outer",
                                .steps = STEPS,
                                .seed = 3,
                                .outer_every = H,
                                .outer_lr = 0.7,
                                .outer_momentum = 0.9,
                                .fragments = P,
                                .delay = delay,
                                .merge = merge};
}

/* --- f32: the formula --- */

/* All that is known of one element. */
typedef struct element {
    double theta[R], start, velocity, mean;
    int64_t began; /* the exchange under way, or -1 */
} element;

static bool is_due(const wefti_mixer_config *c, int bucket, int64_t step) {
    int64_t fragment = bucket * c->fragments / N_BUCKETS;
    return (step + 1) % c->outer_every ==
               fragment * c->outer_every / c->fragments % c->outer_every &&
           step + c->delay < c->steps;
}

/* After the inner step. */
static void follow_element(const wefti_mixer_config *c, int bucket, int64_t step,
                           element *e) {
    double mu = c->outer_momentum;
    if (is_due(c, bucket, step)) {
        e->began = step;
        double sum = 0;
        e->mean = 0;
        for (int r = 0; r < R; r++) sum += weights ? weights[r] : 1;
        for (int r = 0; r < R; r++)
            e->mean += (weights ? weights[r] : 1) * (e->start - e->theta[r]) / sum;
    }
    if (e->began < 0 || step != e->began + c->delay) return;
    e->velocity = mu * e->velocity + e->mean;
    e->start -= c->outer_lr * (e->mean + mu * e->velocity);
    for (int r = 0; r < R; r++)
        e->theta[r] = c->merge * e->theta[r] + (1 - c->merge) * e->start;
    e->began = -1;
}

/* Numbers are below 8, so an operation rounds by at most 2^-22. An exchange adds one such
 * rounding to v, which counts 1/(1 - mu) = 10 times in s. Sixty of them. */
static const double tolerance = 60 * 10 * 0x1p-22;

static void follow(wefti_mixer_config c) {
    static element all[N];
    float u[R][N];
    run(trials, c, false);
    for (int i = 0; i < N; i++) {
        all[i] = (element){.start = (double)trials[0].x[0][i], .began = -1};
        for (int r = 0; r < R; r++) all[i].theta[r] = all[i].start;
    }
    for (int64_t t = 0; t < STEPS; t++) {
        for (int r = 0; r < R; r++) draw(&trials[r], r, t, u[r]);
        for (int i = 0, b = 0; i < N; i++) {
            while (b < N_BUCKETS - 1 && i >= bucket_at[b + 1]) b++;
            for (int r = 0; r < R; r++) all[i].theta[r] -= (double)u[r][i];
            follow_element(&c, b, t, &all[i]);
            for (int r = 0; r < R; r++)
                if (!(fabs(all[i].theta[r] - (double)trials[r].x[t + 1][i]) < tolerance))
                    fail_msg("H %d, P %d, delay %d, merge %g, step %d, element %d: %.7g, "
                             "expected %.7g",
                             (int)c.outer_every, (int)c.fragments, (int)c.delay, c.merge,
                             (int)t, i, (double)trials[r].x[t + 1][i], all[i].theta[r]);
        }
    }
}

TEST(it_is_the_formula_for_all_knobs) {
    static const int64_t every[] = {1, 5, 10};
    for (int h = 0; h < 3; h++)
        for (int64_t P = 1; P <= 4 && P <= every[h]; P++)
            for (int64_t delay = 0; delay <= 3 && (delay == 0 || delay < every[h]);
                 delay++)
                for (int half = 0; half < 2; half++)
                    follow(knobs(every[h], P, delay, 0.5 * half));
}

TEST(changes_are_weighted) {
    static const double shares[][R] = {{1, 3, 10}, {10, 0, 3}};
    for (int i = 0; i < 2; i++) {
        weights = shares[i];
        follow(knobs(5, 2, 0, 0));
        follow(knobs(10, 1, 3, 0.5));
    }
    weights = NULL;
}

/* Nesterov's momentum of the outer step, by hand: one number, one replica's worth of
 * change c in each of two exchanges. s1 = s0 - eta (1 + mu) c, and then v = (1 + mu) c.
 */
TEST(the_outer_step_is_nesterovs) {
    wefti_mixer_config c = knobs(10, 1, 0, 0);
    run(trials, c, false);
    static double change[2][N];
    float u[N];
    for (int64_t t = 0; t < 20; t++)
        for (int r = 0; r < R; r++) {
            draw(&trials[r], r, t, u);
            for (int i = 0; i < N; i++) change[t / 10][i] += (double)u[i] / R;
        }
    for (int i = 0; i < N; i++) {
        double s1 = (double)trials[0].x[0][i] - 0.7 * 1.9 * change[0][i];
        double s2 = s1 - 0.7 * (change[1][i] + 0.9 * (0.9 * change[0][i] + change[1][i]));
        assert_true(fabs((double)trials[1].x[10][i] - s1) < 1e-5);
        assert_true(fabs((double)trials[2].x[20][i] - s2) < 1e-5);
    }
}

/* --- coded values --- */

static const wefti_value_codec codecs[] = {WEFTI_VALUES_BF16, WEFTI_VALUES_INT8,
                                           WEFTI_VALUES_INT4, WEFTI_VALUES_SIGN};

enum { VELOCITY = 1, ERROR, PENDING };

static double mean_state(int64_t step, int which, int i) {
    double mean = 0;
    for (int r = 0; r < R; r++) mean += (double)trials[r].state[step][which][i] / R;
    return mean;
}

/* What was to be sent, mean_i x_i, is the d that all applied and what e keeps: for every
 * codec, with delay, merge and momentum. d = v_new - mu v_old; a few roundings of numbers
 * below 16, the largest of which v holds. */
TEST(sent_and_kept_is_all) {
    for (int k = 0; k < 4; k++) {
        for (int stochastic = 0; stochastic < 2; stochastic++) {
            wefti_mixer_config c = knobs(5, 2, 2, 0.5);
            c.values = codecs[k];
            c.stochastic = stochastic;
            c.forget = stochastic ? 0.25 : 0;
            run(trials, c, false);
            int exchanges = 0;
            for (int64_t t = 1; t + c.delay < STEPS; t++) {
                for (int i = 0; i < N; i++) {
                    int b = i < 200 ? 0 : i < 264 ? 1 : i < 334 ? 2 : 3;
                    if (!is_due(&c, b, t)) continue;
                    int64_t done = t + c.delay + 1;
                    double d = (double)trials[0].state[done][VELOCITY][i] -
                               0.9 * (double)trials[0].state[done - 1][VELOCITY][i];
                    double sent = mean_state(t + 1, PENDING, i);
                    assert_true(fabs(sent - d - mean_state(done, ERROR, i)) < 1e-5);
                    exchanges += i == 0;
                    for (int r = 0; r < R; r++) {
                        const trial *one = &trials[r];
                        float kept = (float)(1 - c.forget) * one->state[t][ERROR][i];
                        float change = one->state[t + 1][0][i] - one->x[t + 1][i];
                        float all = one->state[t + 1][PENDING][i];
                        assert_true(fabsf(all - change - kept) < 1e-5f);
                    }
                }
            }
            assert_int_equal(exchanges, 11);
        }
    }
}

/* With mu = 0, eta = 1 and nothing merged, s = s_0 - sum of d, and all d and what is kept
 * add up to the changes, which are the same drawn numbers in both runs: so s differs from
 * the run with f32 by the mean of e, and not by more after many exchanges than after one.
 *
 * How large is e? Let |change| <= D, and c = (1 + 2^-7) / (2 * limit) the largest part of
 * a block's largest number that rounding to nearest loses. A rank that does not add: E
 * <= c (D + E). The one that adds, also R times what coding the mean loses: F <= c (D +
 * F) + R c a, R a <= (1 + c) ((R - 1)(D + E) + D + F). The mean is ((R - 1) E + F) / R.
 */
static double most_kept(double limit, double D) {
    double c = (1 + 0x1p-7) / (2 * limit);
    double E = c * D / (1 - c);
    double F = (c * D + c * (1 + c) * ((R - 1) * (D + E) + D)) / (1 - c - c * (1 + c));
    return ((R - 1) * E + F) / R;
}

static double largest_draw(void) {
    double most = 0;
    float u[N];
    for (int r = 0; r < R; r++)
        for (int64_t t = 0; t < STEPS; t++) {
            draw(&exact[r], r, t, u);
            for (int i = 0; i < N; i++) most = fmax(most, fabs((double)u[i]));
        }
    return most;
}

TEST(coded_changes_stay_near_uncoded_ones_forever) {
    const struct {
        wefti_value_codec values;
        double limit;
    } integers[] = {{WEFTI_VALUES_INT8, 127}, {WEFTI_VALUES_INT4, 7}};
    wefti_mixer_config c = knobs(1, 1, 0, 0);
    c.outer_lr = 1;
    c.outer_momentum = 0;
    run(exact, c, true);
    double D = largest_draw(), moved = 0;
    for (int i = 0; i < N; i++)
        moved = fmax(moved, fabs((double)(exact[0].x[STEPS][i] - exact[0].x[0][i])));
    for (int k = 0; k < 2; k++) {
        c.values = integers[k].values;
        run(trials, c, true);
        double bound = most_kept(integers[k].limit, D) + 60 * 0x1p-22, farthest = 0;
        for (int64_t t = 1; t <= STEPS; t++)
            for (int i = 0; i < N; i++) {
                double off = (double)trials[0].x[t][i] - (double)exact[0].x[t][i];
                farthest = fmax(farthest, fabs(off));
                assert_true(fabs(off - mean_state(t, ERROR, i)) < 60 * 0x1p-22);
            }
        if (farthest > bound) fail_msg("%g away, expected at most %g", farthest, bound);
        assert_true(moved > 3 * bound); /* or the bound says nothing */
    }
}
