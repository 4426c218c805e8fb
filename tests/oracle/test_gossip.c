/* SPDX-License-Identifier: MIT */
/* The order, the staleness and the weights of mixing, against docs/methods.md in double.
 * Members have a mass m and a weight w, x = m / w; P = (1 - gamma) I + gamma W:
 *
 *     m <- P m,  w <- P w
 *     awc   x_i(t+1) = m_i / w_i - u_i(t), of m_j = w_j x_j(t)
 *     atc   x_i(t+1) = m_i / w_i,          of m_j = w_j (x_j(t) - u_j(t))
 *
 * Where the rows of W add up to one, w stays 1. u is drawn; W is taken from the
 * topology's double weights. Where ranks weigh v_i (docs/methods.md section 1), of a mean W_ij is
 * v_j / sum v, else min(1, v_j / v_i) times what it was, for j other than i. Of tracking the
 * drawn u are gradients g, and u is y:
 *
 *     awc   y_i(t) = sum_j P(t)_ij y_j(t-1) + g_i(t) - g_i(t-1)     atc   the same with P(t-1)
 *
 * gossip_outer mixes every H steps, after step t with (t + 1) mod H = 0 or, awc, before the
 * subtraction of step t + 1. After step t of these:
 *
 *     d_i = x_i - s_i     v_i <- mu v_i + d_i     x_i <- s_i + eta (d_i + mu v_i)
 *
 * and s_i is x_i as it was mixed last. */
#include "gossipers.h"

typedef struct schedule {
    double W[STEPS][MAX_R][MAX_R];
} schedule;

static schedule plan;

static bool averages(const wefti_mixer_config *c, uint64_t decided, int64_t step) {
    bool due = c->average_every > 0 && (step + 1) % c->average_every == 0;
    return due || (decided >> step & 1);
}

/* Row i of plan.W among ranks that weigh v. */
static void weigh(double *W, const double *v, bool mean, int i, int R) {
    double all = 0, rest = 1;
    for (int j = 0; j < R; j++) all += W[j] > 0 ? v[j] : 0;
    for (int j = 0; j < R; j++) {
        if (W[j] == 0) continue;
        if (mean && all > 0)
            W[j] = v[j] / all;
        else if (j != i && v[j] < v[i])
            W[j] *= v[j] / v[i];
        rest -= j == i ? 0 : W[j];
    }
    W[i] = rest;
}

/* The topology's number of the gossip round of a step; rounds are H steps apart. */
static int64_t round_of(const wefti_mixer_config *c, int64_t step) {
    int64_t H = c->outer_every > 0 ? c->outer_every : 1;
    return c->combine_last ? (step + 1) / H - 1 : step / H;
}

/* plan.W, and the mean of all where it is due. */
static void fill_plan(int R) {
    weft_ctx *ctx;
    weft_topology *topology;
    weft_neighbours *n;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_topology_create(ctx, &trials[0].topology, &topology));
    assert_ok(ctx, weft_neighbours_create(ctx, topology, &n));
    memset(&plan, 0, sizeof plan);
    for (int64_t step = 0; step < STEPS; step++)
        for (int i = 0; i < R; i++) {
            bool all = averages(&trials[0].config, trials[0].averages, step);
            int64_t round = round_of(&trials[0].config, step);
            weft_topology_neighbours(topology, i, round < 0 ? 0 : round, n);
            for (int j = 0; j < R && all; j++) plan.W[step][i][j] = 1.0 / R;
            for (int k = 0; k < n->n_sources && !all; k++)
                plan.W[step][i][n->sources[k]] = n->weights[k];
            if (trials[0].weights)
                weigh(plan.W[step][i], trials[0].weights, all || n->mean, i, R);
        }
    weft_neighbours_destroy(ctx, n);
    weft_topology_destroy(ctx, topology);
    weft_ctx_destroy(ctx);
}

/* A rate that falls in a line to a tenth, and rises once. */
static double falling(const void *steps, int64_t step) {
    double n = *(const double *)steps;
    return step == 3 * STEPS / 4 ? 2 : 1 - 0.9 * (double)step / n;
}

static double gamma_of(const wefti_mixer_config *c, int64_t step) {
    if (c->gamma_power == 0 || (double)step <= c->gamma_start * STEPS) return c->gamma;
    double from = 1 - 0.9 * floor(c->gamma_start * STEPS) / STEPS;
    double to = falling(c->rate_user, step);
    return to > from ? c->gamma : c->gamma * pow(to / from, c->gamma_power);
}

/* to <- P from. */
static void push(int R, int64_t step, const double *from, double *to) {
    double gamma = gamma_of(&trials[0].config, step);
    for (int i = 0; i < R; i++) {
        to[i] = (1 - gamma) * from[i];
        for (int j = 0; j < R; j++) to[i] += gamma * plan.W[step][i][j] * from[j];
    }
}

static double tracked[N][MAX_R];  /* y, with atc mixed already */
static float gradients[MAX_R][N]; /* of the step before */

/* y <- P(t) y */
static void mix_tracked(int R, int64_t t) {
    double moved[MAX_R];
    for (int e = 0; e < N; e++) {
        push(R, t, tracked[e], moved);
        memcpy(tracked[e], moved, sizeof moved);
    }
}

/* u[r] <- y_r of step t, from the gradients u[r]. */
static void track(int R, int64_t t, bool last, double u[MAX_R][N], float g[MAX_R][N]) {
    if (!last) mix_tracked(R, t);
    for (int e = 0; e < N; e++)
        for (int r = 0; r < R; r++) {
            tracked[e][r] += (double)g[r][e] - (double)gradients[r][e];
            gradients[r][e] = g[r][e];
            u[r][e] = tracked[e][r];
        }
    if (last) mix_tracked(R, t);
}

/* Each step: one mixing and one subtraction of f32 numbers below 8: a few 2^-22. Mixing
 * does not enlarge what is there, so STEPS of them add up. */
static const double tolerance = STEPS * 4 * 0x1p-22;

/* x[e] and w before and after a step, in double. */
static void one_step_in_double(int R, int64_t t, double x[N][MAX_R], double *w) {
    static float g[MAX_R][N];
    static double u[MAX_R][N];
    double mass[MAX_R] = {0}, moved[MAX_R] = {0}, next[MAX_R] = {0};
    bool last = trials[0].config.combine_last;
    for (int r = 0; r < R; r++) draw(&trials[r], r, t, g[r]);
    for (int r = 0; r < R; r++)
        for (int e = 0; e < N; e++) u[r][e] = (double)g[r][e];
    if (strcmp(trials[0].config.kind, "tracking") == 0) track(R, t, last, u, g);
    push(R, t, w, next);
    for (int e = 0; e < N; e++) {
        for (int r = 0; r < R; r++) mass[r] = w[r] * (x[e][r] - (last ? u[r][e] : 0));
        push(R, t, mass, moved);
        for (int r = 0; r < R; r++) x[e][r] = moved[r] / next[r] - (last ? 0 : u[r][e]);
    }
    memcpy(w, next, (size_t)R * sizeof *w);
}

static double start[N][MAX_R], velocity[N][MAX_R]; /* of gossip_outer */

/* s <- x <- the mean */
static void mix_outer(int R, int64_t t, double x[N][MAX_R], double *w) {
    double mass[MAX_R] = {0}, moved[MAX_R] = {0}, next[MAX_R] = {0};
    push(R, t, w, next);
    for (int e = 0; e < N; e++) {
        for (int r = 0; r < R; r++) mass[r] = w[r] * x[e][r];
        push(R, t, mass, moved);
        for (int r = 0; r < R; r++) start[e][r] = x[e][r] = moved[r] / next[r];
    }
    memcpy(w, next, (size_t)R * sizeof *w);
}

static void one_inner_step(int R, int64_t t, double x[N][MAX_R], double *w) {
    const wefti_mixer_config *c = &trials[0].config;
    bool last = c->combine_last, ends = (t + 1) % c->outer_every == 0;
    double mu = c->outer_momentum;
    float u[N];
    if (!last && t % c->outer_every == 0) mix_outer(R, t, x, w);
    for (int r = 0; r < R; r++) {
        draw(&trials[r], r, t, u);
        for (int e = 0; e < N; e++) {
            x[e][r] -= (double)u[e];
            if (!ends || (!last && t + 1 == STEPS)) continue;
            double d = x[e][r] - start[e][r];
            velocity[e][r] = mu * velocity[e][r] + d;
            x[e][r] = start[e][r] + c->outer_lr * (d + mu * velocity[e][r]);
        }
    }
    if (last && ends) mix_outer(R, t, x, w);
}

/* trials[0..R-1] have run. */
static void compare(int R) {
    static double x[N][MAX_R];
    double w[MAX_R];
    const char *kind = trials[0].topology.kind;
    fill_plan(R);
    double most = tolerance / (1 - trials[0].config.outer_momentum); /* what v adds up */
    memset(velocity, 0, sizeof velocity);
    memset(tracked, 0, sizeof tracked);
    memset(gradients, 0, sizeof gradients);
    for (int r = 0; r < R; r++) w[r] = 1;
    for (int e = 0; e < N; e++)
        for (int r = 0; r < R; r++) start[e][r] = x[e][r] = (double)trials[r].x[0][e];
    for (int64_t t = 0; t < STEPS; t++) {
        if (trials[0].config.outer_every > 0)
            one_inner_step(R, t, x, w);
        else
            one_step_in_double(R, t, x, w);
        for (int r = 0; r < R; r++) {
            if (!(fabs(trials[r].weight[t + 1] - w[r]) < 1e-12))
                fail_msg("%s of %d, step %d, rank %d: weight %.15g, expected %.15g", kind,
                         R, (int)t, r, trials[r].weight[t + 1], w[r]);
            for (int e = 0; e < N; e++)
                if (!(fabs(x[e][r] - (double)trials[r].x[t + 1][e]) < most))
                    fail_msg("%s of %d, step %d, rank %d: %.7g, expected %.7g", kind, R,
                             (int)t, r, (double)trials[r].x[t + 1][e], x[e][r]);
        }
    }
}

static wefti_mixer_config knobs(bool combine_last, double gamma, int64_t average_every) {
    return (wefti_mixer_config){.kind = "gossip",
                                .seed = 5,
                                .steps = STEPS,
                                .combine_last = combine_last,
                                .gamma = gamma,
                                .average_every = average_every};
}

/* --- learners --- */

enum { GUEST_UNTIL = 24 };

/* sum w z and sum w of the first n ranks before step t. */
static double mass_of(int n, int64_t t, int e, double *weight) {
    double mass = 0;
    *weight = 0;
    for (int r = 0; r < n; r++) {
        mass += trials[r].weight[t] * (double)trials[r].x[t][e];
        *weight += trials[r].weight[t];
    }
    return mass;
}

/* What a learner is told costs nobody weight. It is told until it takes part, and brings a
 * weight of one then; all have the same weights in mind. */
TEST(a_guest_of_push_sum_takes_no_weight_and_brings_one) {
    for (int last = 0; last < 2; last++)
        for (int learners = 1; learners < 3; learners++) {
            int R = 6, n = R - learners;
            set_out(R, 1, "push", knobs(last, 0.8, 0), false);
            for (int r = 0; r < R; r++) {
                trials[r].moves = 0;
                trials[r].learners = learners;
                trials[r].until = GUEST_UNTIL;
            }
            for (int e = 0; e < N; e++) trials[R - 1].x[0][e] += 100;
            go(R, 0, STEPS);
            for (int e = 0; e < N; e++) {
                double weight, first = mass_of(n, 0, e, &weight), later;
                for (int64_t t = 1; t <= GUEST_UNTIL + 1; t++) {
                    assert_true(fabs(mass_of(n, t, e, &weight) - first) < n * tolerance);
                    assert_true(fabs(weight - n) < 1e-12);
                }
                later = mass_of(R, GUEST_UNTIL + 1, e, &weight);
                for (int64_t t = GUEST_UNTIL + 1; t <= STEPS; t++) {
                    assert_true(fabs(mass_of(R, t, e, &weight) - later) < R * tolerance);
                    assert_true(fabs(weight - R) < 1e-12);
                }
                double off = (double)trials[R - 1].x[GUEST_UNTIL][e] - first / n;
                assert_true(fabs(off) < 0.1); /* it began a hundred away */
            }
            for (int r = 1; r < R; r++)
                assert_memory_equal(trials[r].known, trials[0].known,
                                    sizeof trials[0].known);
        }
}

static void follow(int R, int L, const char *kind, wefti_mixer_config c) {
    set_out(R, L, kind, c, false);
    go(R, 0, STEPS);
    compare(R);
}

TEST(mixing_is_that_of_the_formula_on_every_topology) {
    static const int sizes[] = {2, 4, 8};
    const char *kind, *summary;
    for (int i = 0; (kind = weft_topology_kind(i, &summary)); i++) {
        if (strcmp(kind, "measured") == 0) continue; /* needs links */
        for (int s = 0; s < 3; s++)
            for (int last = 0; last < 2; last++)
                follow(sizes[s], 1, kind, knobs(last, 1, 0));
    }
}

/* DSGD-AC: the pull weakens with the learning rate in the last part of a run. */
TEST(gamma_falls_with_a_power_of_the_rate) {
    static const double steps = STEPS;
    static const char *const kinds[] = {"ring", "complete", "push", "aer"};
    for (int i = 0; i < 4; i++) {
        for (int last = 0; last < 2; last++) {
            wefti_mixer_config c = knobs(last, 1, 0);
            c.gamma_power = 1 + last;
            c.gamma_start = 0.25;
            c.rate = falling;
            c.rate_user = &steps;
            follow(4, 1, kinds[i], c);
        }
    }
}

/* Groups of four: two nodes with two copies each. */
TEST(copies_of_a_node_are_members_too) {
    for (int last = 0; last < 2; last++) {
        follow(8, 2, "aer", knobs(last, 1, 0));
        follow(6, 2, "aer", knobs(last, 0.7, 0));
        follow(6, 3, "ring", knobs(last, 1, 5));
    }
}

TEST(strength_and_means_of_all_too) {
    for (int last = 0; last < 2; last++) {
        follow(4, 1, "ring", knobs(last, 0.3, 0));
        follow(4, 1, "aer", knobs(last, 1, 7));
        follow(3, 1, "exponential", knobs(last, 0.5, 5));
        follow(5, 1, "complete", knobs(last, 0.4, 0));
    }
}

TEST(push_sum_too_with_strength_and_means_of_all) {
    for (int last = 0; last < 2; last++) {
        follow(5, 1, "push", knobs(last, 1, 0));
        follow(5, 1, "push", knobs(last, 0.4, 0));
        follow(4, 1, "push", knobs(last, 1, 9));
        follow(8, 2, "push", knobs(last, 0.8, 9));
    }
}

/* Push-sum without updates: sum_i w_i x_i stays, and every x_i becomes the mean of what
 * all began with. Rows of f32 weights are rounded to 2^-24, for each of a few sources. */
TEST(push_sum_keeps_the_weighted_mean_and_ends_in_the_mean) {
    static const int sizes[] = {3, 5, 8};
    for (int s = 0; s < 3; s++) {
        int R = sizes[s];
        set_out(R, 1, "push", knobs(false, 1, 0), false);
        for (int r = 0; r < R; r++) trials[r].moves = 0;
        go(R, 0, STEPS);
        double least = 1;
        for (int e = 0; e < N; e++) {
            double mean = 0;
            for (int r = 0; r < R; r++) mean += (double)trials[r].x[0][e] / R;
            for (int64_t t = 0; t <= STEPS; t++) {
                double weighted = 0;
                for (int r = 0; r < R; r++) {
                    double weight = trials[r].weight[t];
                    weighted += weight * (double)trials[r].x[t][e] / R;
                    least = fmin(least, weight);
                }
                assert_true(fabs(weighted - mean) < tolerance);
            }
            for (int r = 0; r < R; r++)
                assert_true(fabs((double)trials[r].x[STEPS][e] - mean) < tolerance);
        }
        assert_true(least < 0.7); /* without weights the mean would have moved */
    }
}

/* Decided by control; what is decided must not depend on when its answer() is called. */
TEST(decided_means_of_all_take_the_place_of_gossip_rounds) {
    static const struct {
        const char *kind;
        int R;
    } cases[] = {{"ring", 4}, {"aer", 5}, {"push", 5}, {"matching", 3}};
    for (int i = 0; i < 4; i++)
        for (int last = 0; last < 2; last++) {
            wefti_mixer_config c = knobs(last, 1, 0);
            c.consensus_bound = 1;
            set_out(cases[i].R, 1, cases[i].kind, c, false);
            for (int r = 0; r < cases[i].R; r++) trials[r].averages = 0x3800c7001032b;
            go(cases[i].R, 0, STEPS);
            compare(cases[i].R);
        }
}

/* The mean of a group in f32: added in the order of the members, times one over k. */
TEST(a_mean_of_all_has_the_same_bits_everywhere) {
    static const int sizes[] = {2, 3, 5, 8};
    for (int s = 0; s < 4; s++)
        for (int answers = 0; answers < 2; answers++) {
            int R = sizes[s];
            set_out(R, 1, "complete", knobs(false, 1, 0), false);
            for (int r = 0; r < R; r++) {
                trials[r].answers = answers > 0;
                trials[r].moves = 0;
            }
            go(R, 0, STEPS);
            for (int e = 0; e < N; e++) {
                float sum = 0, share = 1.0f / (float)R;
                for (int r = 0; r < R; r++) sum += trials[r].x[0][e];
                for (int r = 0; r < R; r++) assert_true(trials[r].x[1][e] == sum * share);
            }
        }
}

/* Also where weights are not those of a plain mean, as with push-sum. */
TEST(who_promises_equal_replicas_has_them) {
    static const char *const kinds[] = {"push", "ring", "complete"};
    for (int k = 0; k < 3; k++) {
        wefti_mixer_config c = knobs(true, 1, 4);
        set_out(5, 1, kinds[k], c, false);
        go(5, 0, STEPS);
        for (int t = 3; t < STEPS; t += 4) {
            assert_true(wefti_mixer_find("gossip")->agrees(&c, t));
            for (int r = 1; r < 5; r++)
                assert_memory_equal(trials[r].x[t + 1], trials[0].x[t + 1],
                                    sizeof trials[0].x[0]);
        }
        c.deadline_s = 1;
        assert_false(wefti_mixer_find("gossip")->agrees(&c, 3));
    }
}

TEST(bytes_counted_are_bytes_predicted) {
    static const struct {
        const char *kind;
        int R, L;
        int64_t average_every;
    } cases[] = {{"aer", 5, 1, 9},
                 {"aer", 8, 2, 0},
                 {"complete", 7, 1, 0},
                 {"push", 5, 1, 9},
                 {"torus", 8, 1, 4}};
    for (int i = 0; i < 5; i++)
        for (int last = 0; last < 2; last++) {
            set_out(cases[i].R, cases[i].L, cases[i].kind,
                    knobs(last, 1, cases[i].average_every), false);
            go(cases[i].R, 0, STEPS);
            bytes_are_as_predicted(cases[i].R);
            int64_t sum = 0;
            for (int t = 0; t < STEPS; t++) sum += trials[0].bytes_out[t];
            assert_true(sum > 0);
        }
}

/* Two rounds: 2 (k - 1)/k copies and a head each, not k - 1 copies. */
TEST(a_mean_of_many_costs_less_than_two_copies) {
    for (int R = 3; R <= MAX_R; R++) {
        int64_t all = 0, heads = 2 * N_BUCKETS * 40 * (R - 1) * R;
        set_out(R, 1, "complete", knobs(true, 1, 0), false);
        go(R, 0, STEPS);
        for (int r = 0; r < R; r++) all += trials[r].bytes_out[7];
        assert_int_equal(all - heads, 2 * (R - 1) * N * (int)sizeof(float));
    }
}

/* Begun anew at any step from parameters and what all know, it goes on to the same
 * bits. */
TEST(parameters_and_what_all_know_are_all_the_state_there_is) {
    static float whole[MAX_R][N];
    static const struct {
        const char *kind;
        int R, L;
        double bound;
    } cases[] = {
        {"aer", 4, 1, 0}, {"push", 5, 1, 0}, {"aer", 4, 2, 0}, {"push", 4, 1, 1}};
    for (int i = 0; i < 4; i++)
        for (int last = 0; last < 2; last++) {
            int R = cases[i].R;
            wefti_mixer_config c = knobs(last, 1, 0);
            c.consensus_bound = cases[i].bound;
            for (int run = 0; run < 2; run++) {
                set_out(R, cases[i].L, cases[i].kind, c, false);
                for (int r = 0; r < R; r++) trials[r].averages = 0xc30e;
                go(R, 0, run == 0 ? STEPS : 17);
                if (run == 1) go(R, 17, STEPS);
                for (int r = 0; r < R && run == 0; r++)
                    memcpy(whole[r], trials[r].x[STEPS], sizeof whole[r]);
            }
            for (int r = 0; r < R; r++)
                assert_memory_equal(whole[r], trials[r].x[STEPS], sizeof whole[r]);
        }
}

/* Complete mixing sees all deviations. Pairs see differences of two: right on average if
 * deviations are independent, as they are at the start; then within 3 sigma of what R N
 * squares of normal numbers give, sqrt(2 / (R N / 2)). */
TEST(the_distance_is_estimated) {
    static const char *const kinds[] = {"complete", "matching", "push"};
    for (int kind = 0; kind < 3; kind++) {
        set_out(8, 1, kinds[kind], knobs(false, 1, 0), false);
        go(8, 0, STEPS);
        double estimate = 0, expected = true_distance(8, 0);
        int met = 0;
        for (int r = 0; r < 8; r++) {
            if (isnan(trials[r].distance[0])) continue;
            estimate += trials[r].distance[0];
            met++;
        }
        double off = kind ? 3 * sqrt(4.0 / (met * N)) : 1e-5;
        assert_true(fabs(estimate / met - expected) < off * expected);
    }
}

TEST(who_meets_nobody_has_no_estimate) {
    set_out(3, 1, "ring", knobs(false, 1, 0), false);
    go(3, 0, STEPS);
    for (int t = 0; t < STEPS; t++) {
        int alone = 0;
        for (int r = 0; r < 3; r++) alone += isnan(trials[r].distance[t]);
        assert_int_equal(alone, 1);
    }
}

/* Weights 1, 3, 10 and 0, in turn or all 0: the formula, its weighted mean, bytes as ever, and
 * the bits of ranks that do not weigh where all weigh alike. */
static const double uneven[MAX_R] = {1, 3, 10, 0, 3, 1, 0, 10}, nothing[MAX_R] = {0},
                    alike[MAX_R] = {7, 7, 7, 7, 7, 7, 7, 7};

typedef struct meeting {
    const char *kind;
    int R, L;
    double gamma;
    int64_t average_every;
} meeting;

static const meeting meetings[] = {{"ring", 4, 1, 1, 0},     {"aer", 4, 1, 1, 7},
                                   {"aer", 6, 2, 0.7, 0},    {"aer", 8, 2, 1, 0},
                                   {"complete", 4, 1, 1, 0}, {"complete", 5, 1, 0.4, 0},
                                   {"torus", 8, 1, 1, 5},    {"matching", 5, 1, 1, 0},
                                   {"complete", 2, 1, 1, 0}, {"exponential", 4, 1, 1, 0}};

static void meet_weighing(const meeting *m, bool last, const double *weights) {
    set_out(m->R, m->L, m->kind, knobs(last, m->gamma, m->average_every), false);
    for (int r = 0; r < m->R; r++) trials[r].weights = weights;
    go(m->R, 0, STEPS);
}

TEST(weights_are_those_of_the_formula) {
    for (size_t i = 0; i < sizeof meetings / sizeof meetings[0]; i++)
        for (int form = 0; form < 4; form++) {
            meet_weighing(&meetings[i], form % 2, form / 2 ? nothing : uneven);
            compare(meetings[i].R);
            bytes_are_as_predicted(meetings[i].R);
        }
}

/* Without updates. A row of f32 weights is rounded to 2^-24 for each of its sources, and weighs
 * v_i of 14 or more. */
/* Who takes part from GUEST_UNTIL on has heard directions and sent none: from then on all track
 * the mean gradient only if its own direction begins anew. */
TEST(learners_bring_their_own_directions) {
    static const char *const kinds[] = {"complete", "ring", "exponential", "aer"};
    enum { R = 4 };
    for (int form = 0; form < 8; form++) {
        wefti_mixer_config c = knobs(form % 2, 1, 0);
        c.kind = "tracking";
        set_out(R, 1, kinds[form / 2], c, false);
        for (int r = 0; r < R; r++) trials[r].learners = 1, trials[r].until = GUEST_UNTIL;
        go(R, 0, STEPS);
        float g[R][N];
        for (int r = 0; r < R; r++) draw(&trials[r], r, STEPS - 1, g[r]);
        for (int e = 0; e < N; e++) {
            double sum = 0;
            for (int r = 0; r < R; r++)
                sum += (double)trials[r].state[0][e] - (double)g[r][e];
            if (fabs(sum) > R * tolerance)
                fail_msg("%s, order %d: directions and gradients differ by %g",
                         kinds[form / 2], form % 2, sum);
        }
    }
}

static const char *const kinds_tracked[] = {"complete", "ring", "exponential", "aer"};

TEST(directions_are_those_of_the_formula) {
    for (int form = 0; form < 32; form++) {
        int R = form / 16 ? 8 : 5;
        wefti_mixer_config c = knobs(form % 2, form / 2 % 2 ? 0.5 : 1, R == 5 ? 7 : 0);
        c.kind = "tracking";
        set_out(R, 1, kinds_tracked[form / 4 % 4], c, false);
        for (int r = 0; r < R && form / 2 % 2; r++) trials[r].weights = uneven;
        go(R, 0, STEPS);
        compare(R);
        bytes_are_as_predicted(R);
    }
}

TEST(outer_steps_among_neighbours_are_those_of_the_formula) {
    static const meeting cases[] = {
        {"exponential", 4, 1, 1, 0}, {"exponential", 5, 1, 1, 0},
        {"complete", 5, 1, 1, 0},    {"ring", 5, 1, 0.5, 0},
        {"push", 5, 1, 1, 0},        {"aer", 8, 2, 1, 0},
        {"matching", 5, 1, 1, 0}};
    for (int form = 0; form < 4 * 7; form++) {
        const meeting *m = &cases[form / 4];
        wefti_mixer_config c = knobs(form % 2, m->gamma, 0);
        c.kind = "gossip_outer";
        c.outer_every = form / 2 % 2 ? 5 : 3 - form % 2 * 2; /* 3 in awc, 1 in atc */
        c.outer_lr = 0.7;
        c.outer_momentum = 0.5;
        set_out(m->R, m->L, m->kind, c, false);
        bool weighs = form / 2 % 2 && strcmp(m->kind, "push") != 0 && m->R != 5;
        for (int r = 0; r < m->R && weighs; r++) trials[r].weights = uneven;
        go(m->R, 0, STEPS);
        compare(m->R);
        bytes_are_as_predicted(m->R);
    }
}

/* Who begins anew knows of no gradient: directions add up to those of the ranks that are there. */
TEST(directions_begin_anew_with_a_world) {
    enum { R = 4 };
    wefti_mixer_config c = knobs(false, 1, 0);
    c.kind = "tracking";
    set_out(R, 1, "exponential", c, false);
    for (int r = 0; r < R; r++) {
        trials[r].anew = true;
        fill_normal(90 + (uint64_t)r, N, trials[r].state[0]);
    }
    go(R, 0, STEPS);
    compare(R);
}

TEST(the_weighted_mean_is_kept) {
    for (size_t i = 0; i < sizeof meetings / sizeof meetings[0]; i++)
        for (int last = 0; last < 2; last++) {
            const meeting *m = &meetings[i];
            set_out(m->R, m->L, m->kind, knobs(last, m->gamma, m->average_every), false);
            for (int r = 0; r < m->R; r++)
                trials[r].weights = uneven, trials[r].moves = 0;
            go(m->R, 0, STEPS);
            for (int e = 0; e < N; e++) {
                double first = 0, now = 0, all = 0;
                for (int r = 0; r < m->R; r++) {
                    first += uneven[r] * (double)trials[r].x[0][e];
                    now += uneven[r] * (double)trials[r].x[STEPS][e];
                    all += uneven[r];
                }
                assert_true(fabs(now - first) < all * tolerance);
            }
        }
}

TEST(equal_weights_have_the_bits_of_none) {
    static float plain[MAX_R][N];
    for (size_t i = 0; i < sizeof meetings / sizeof meetings[0]; i++) {
        meet_weighing(&meetings[i], i % 2, NULL);
        for (int r = 0; r < meetings[i].R; r++)
            memcpy(plain[r], trials[r].x[STEPS], sizeof plain[r]);
        meet_weighing(&meetings[i], i % 2, alike);
        for (int r = 0; r < meetings[i].R; r++)
            assert_memory_equal(plain[r], trials[r].x[STEPS], sizeof plain[r]);
    }
}
