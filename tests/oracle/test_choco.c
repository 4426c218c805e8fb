/* SPDX-License-Identifier: MIT */
/* Gossip of coded differences: what holds whatever coding loses. All begin with the same
 * parameters, as they do in a run, and are driven apart by the updates of the first
 * steps. */
#include "gossipers.h"
#include "mix/meetings.h"

enum { APART = 3 }; /* steps with updates where nothing but mixing is to be seen after */

static const wefti_value_codec codecs[] = {WEFTI_VALUES_F32, WEFTI_VALUES_BF16,
                                           WEFTI_VALUES_INT8, WEFTI_VALUES_INT4,
                                           WEFTI_VALUES_SIGN};
enum { N_CODECS = sizeof codecs / sizeof codecs[0] };

static const struct {
    const char *kind;
    int R, L;
} schedules[] = {{"complete", 4, 1}, {"aer", 4, 1},         {"aer", 6, 2},
                 {"ring", 5, 1},     {"exponential", 8, 1}, {"torus", 6, 1},
                 {"matching", 5, 1}};
enum { N_SCHEDULES = sizeof schedules / sizeof schedules[0] };

/* Each step: one mixing and one subtraction of f32 numbers below 8: a few 2^-22. */
static const double tolerance = STEPS * 4 * 0x1p-22;

static wefti_mixer_config knobs(wefti_value_codec values, double gamma, bool last) {
    return (wefti_mixer_config){.kind = "choco",
                                .seed = 5,
                                .steps = STEPS,
                                .partners = MAX_R - 1,
                                .combine_last = last,
                                .gamma = gamma,
                                .values = values};
}

static void set_apart(int schedule, wefti_mixer_config c, int64_t moves) {
    int R = schedules[schedule].R;
    set_out(R, schedules[schedule].L, schedules[schedule].kind, c, true);
    for (int r = 0; r < R; r++) trials[r].moves = moves;
}

static double mean_of(int R, int64_t t, int e) {
    double mean = 0;
    for (int r = 0; r < R; r++) mean += (double)trials[r].x[t][e] / R;
    return mean;
}

TEST(the_mean_is_kept_by_every_codec_on_every_schedule) {
    for (int s = 0; s < N_SCHEDULES; s++)
        for (int c = 0; c < N_CODECS; c++) {
            int R = schedules[s].R;
            set_apart(s, knobs(codecs[c], 0.2, c % 2 == 0), APART);
            go(R, 0, STEPS);
            for (int e = 0; e < N; e++) {
                double mean = mean_of(R, APART, e);
                for (int64_t t = APART; t <= STEPS; t++)
                    if (!(fabs(mean_of(R, t, e) - mean) < tolerance))
                        fail_msg("%s, codec %d: the mean moves from %.8g to %.8g",
                                 schedules[s].kind, c, mean, mean_of(R, t, e));
            }
        }
}

/* Uncoded differences tell everything. */
TEST(uncoded_it_is_gossip) {
    static float coded[MAX_R][STEPS + 1][N];
    for (int s = 0; s < N_SCHEDULES; s++)
        for (int last = 0; last < 2; last++) {
            int R = schedules[s].R;
            wefti_mixer_config c = knobs(WEFTI_VALUES_F32, 1, last);
            set_apart(s, c, STEPS);
            go(R, 0, STEPS);
            for (int r = 0; r < R; r++) memcpy(coded[r], trials[r].x, sizeof coded[r]);
            c.kind = "gossip";
            set_apart(s, c, STEPS);
            go(R, 0, STEPS);
            for (int r = 0; r < R; r++)
                for (int t = 0; t <= STEPS; t++)
                    for (int e = 0; e < N; e++) {
                        double off = fabs((double)coded[r][t][e] -
                                          (double)trials[r].x[t][e]);
                        assert_true(off < tolerance);
                    }
        }
}

/* What is left of the distance after the last step, as a share of what it was when the
 * updates ended, and after half of them. */
static double left_after(int R, int64_t t) {
    return sqrt(true_distance(R, t) / true_distance(R, APART));
}

/* Geometrically: the second half goes at least half as far as the first one, up to what
 * f32 resolves. */
TEST(pure_mixing_ends_in_the_mean) {
    static const struct {
        wefti_value_codec values;
        double gamma, left;
    } cases[] = {{WEFTI_VALUES_F32, 1, 1e-5},
                 {WEFTI_VALUES_INT8, 0.8, 1e-5},
                 {WEFTI_VALUES_INT4, 0.5, 1e-3},
                 {WEFTI_VALUES_SIGN, 0.2, 0.2}};
    for (int i = 0; i < 4; i++)
        for (int s = 0; s < 2; s++) {
            int R = schedules[s].R;
            int64_t half = (APART + STEPS) / 2;
            set_apart(s, knobs(cases[i].values, cases[i].gamma, false), APART);
            go(R, 0, STEPS);
            double first = left_after(R, half), whole = left_after(R, STEPS);
            if (!(whole < cases[i].left && whole < fmax(pow(first, 1.5), 1e-5)))
                fail_msg("%s, codec %d: %.3g left after %d steps, %.3g after %d",
                         schedules[s].kind, (int)cases[i].values, first,
                         (int)half - APART, whole, STEPS - APART);
        }
}

/* State arrays 2 k and 2 k + 1 are told to and heard of partner k; here everybody but
 * oneself is a partner. */
TEST(what_one_has_told_is_what_the_other_has_heard) {
    static const int everybody[] = {0, 6};
    for (int s = 0; s < 2; s++)
        for (int c = 0; c < N_CODECS; c++) {
            int R = schedules[everybody[s]].R;
            set_apart(everybody[s], knobs(codecs[c], 0.3, c % 2 == 1), STEPS);
            go(R, 0, STEPS);
            for (int i = 0; i < R; i++)
                for (int j = 0; j < R; j++) {
                    int at_i = j - (j > i), at_j = i - (i > j);
                    if (i == j) continue;
                    assert_memory_equal(trials[i].state[2 * at_i],
                                        trials[j].state[2 * at_j + 1],
                                        sizeof trials[i].state[0]);
                    assert_memory_not_equal(trials[i].state[2 * at_i], trials[i].x[0],
                                            sizeof trials[i].state[0]);
                }
        }
}

TEST(bytes_counted_are_bytes_predicted) {
    for (int s = 0; s < N_SCHEDULES; s++)
        for (int c = 0; c < N_CODECS; c++) {
            set_apart(s, knobs(codecs[c], 0.3, c % 2 == 0), STEPS);
            go(schedules[s].R, 0, STEPS);
            bytes_are_as_predicted(schedules[s].R);
        }
}

TEST(a_run_goes_on_from_its_states_to_the_same_bits) {
    static float whole[MAX_R][N];
    for (int s = 0; s < N_SCHEDULES; s++)
        for (int c = 0; c < N_CODECS; c++) {
            int R = schedules[s].R;
            wefti_mixer_config k = knobs(codecs[c], 0.3, s % 2 == 0);
            k.stochastic = c >= 2;
            for (int run = 0; run < 2; run++) {
                set_apart(s, k, STEPS);
                go(R, 0, run == 0 ? STEPS : 11 + s);
                if (run == 1) go(R, 11 + s, STEPS);
                for (int r = 0; r < R && run == 0; r++)
                    memcpy(whole[r], trials[r].x[STEPS], sizeof whole[r]);
            }
            for (int r = 0; r < R; r++)
                assert_memory_equal(whole[r], trials[r].x[STEPS], sizeof whole[r]);
        }
}

/* In a mean of all, the pairs tell the distance exactly; else on average, if deviations are
 * independent, as updates are: then within 3 sigma of what R N squares of normal numbers give.
 * Gossip round 1 mixes what the updates of step 0 drove apart. */
TEST(the_distance_is_that_of_the_replicas) {
    for (int s = 0; s < N_SCHEDULES; s++) {
        int R = schedules[s].R, met = 0;
        bool exact = strcmp(schedules[s].kind, "complete") == 0;
        set_apart(s, knobs(WEFTI_VALUES_F32, 1, false), STEPS);
        go(R, 0, 2);
        double estimate = 0, expected = true_distance(R, 1);
        for (int r = 0; r < R; r++) {
            if (isnan(trials[r].distance[1])) continue;
            estimate += trials[r].distance[1];
            met++;
        }
        double off = exact ? 1e-5 : 3 * sqrt(4.0 / (met * N));
        assert_true(met > 0 && fabs(estimate / met - expected) < off * expected);
    }
}

/* The first numbers of the first two buckets, of which one is large and the others lie between
 * two levels of int4: what of them is rounded up is by chance. Two of a step and of a bucket
 * begin with the same 47 numbers. */
enum { SAME = 47 };

static weft_status tell_once(rank_env *env, wefti_mixer *m, weft_neighbours *room) {
    trial *t = env->user;
    float x[N] = {0};
    (void)room;
    WEFT_TRY(prime(t, m, x));
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < SAME; i++) x[bucket_at[b] + i] = i ? 0.5f : 7;
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_mixer_after(m, b, t->first, x + bucket_at[b]));
    WEFT_TRY(finish(m, t->first, x));
    keep(t, m);
    return wefti_comm_barrier(env->control, -1);
}

static weft_status meet_once(rank_env *env) { return with_mixer(env, NULL, tell_once); }

/* told[0..]: what each of four told each other one in each of two buckets. */
static int tell(int64_t step, uint64_t seed, float told[][SAME]) {
    void *users[MAX_R];
    int R = schedules[0].R, n = 0;
    wefti_mixer_config c = knobs(WEFTI_VALUES_INT4, 0.5, true);
    c.stochastic = true;
    c.seed = seed;
    set_apart(0, c, 0);
    for (int r = 0; r < R; r++) {
        memset(trials[r].x[0], 0, sizeof trials[r].x[0]);
        trials[r].first = step;
        users[r] = &trials[r];
    }
    run_ranks(R, 1, (wefti_wire_model){0, 0}, meet_once, users, NULL);
    for (int r = 0; r < R; r++)
        for (int k = 0; k < R - 1; k++)
            for (int b = 0; b < 2; b++, n++)
                memcpy(told[n], trials[r].state[2 * k] + bucket_at[b], sizeof told[n]);
    return n;
}

/* The same chance for two of them would add up where losses are to cancel. */
TEST(chance_is_another_for_each_step_member_partner_and_bucket) {
    static float told[128][SAME];
    int n = tell(0, 5, told);
    n += tell(1, 5, told + n);
    n += tell(0, 6, told + n);
    for (int i = 0; i < n; i++) {
        int up = 0;
        for (int e = 1; e < SAME; e++) up += told[i][e] > 0.5f;
        assert_in_range(up, 8, SAME - 9); /* of 46 that are as likely up as down */
        for (int j = 0; j < i; j++)
            if (memcmp(told[i], told[j], sizeof told[i]) == 0)
                fail_msg("sections %d and %d of %d are rounded alike", j, i, n);
    }
}

/* int8 sends a quarter, and heads and scales. */
TEST(coded_differences_are_small) {
    int64_t bytes[N_CODECS];
    for (int c = 0; c < N_CODECS; c++) {
        set_apart(0, knobs(codecs[c], 0.3, false), STEPS);
        go(schedules[0].R, 0, STEPS);
        bytes[c] = trials[0].bytes_out[5] / 3 - N_BUCKETS * 40;
    }
    assert_int_equal(bytes[0], 4 * N);
    assert_int_equal(bytes[1], 2 * N);
    assert_int_equal(bytes[2], N + 2 * 4); /* blocks of 64: 2, 1 and 1 */
}

/* --- pairs that begin to know each other --- */

enum { FIRST = 2, LATER = 16 };

/* All begin apart, by a hundredth, and know nothing of each other. */
static void set_strangers(int schedule, wefti_mixer_config c) {
    float apart[N];
    int R = schedules[schedule].R;
    set_apart(schedule, c, 0);
    for (int r = 0; r < R; r++) {
        trials[r].anew = true;
        fill_normal(700 + (uint64_t)r, N, apart);
        for (int e = 0; e < N; e++)
            trials[r].x[FIRST][e] = trials[r].x[0][e] + 0.01f * apart[e];
    }
}

/* How often two members have met in [first, t]. */
static int meetings(int a, int b, int64_t first, int64_t t) {
    weft_ctx *ctx;
    weft_topology *topology;
    weft_neighbours *room;
    int n = 0;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_int_equal(weft_topology_create(ctx, &trials[0].topology, &topology), WEFT_OK);
    assert_int_equal(weft_neighbours_create(ctx, topology, &room), WEFT_OK);
    for (int64_t s = first; s <= t; s++) {
        weft_topology_neighbours(topology, a, s, room);
        for (int i = 0; i < room->n_sources; i++) n += room->sources[i] == b;
    }
    weft_neighbours_destroy(ctx, room);
    weft_topology_destroy(ctx, topology);
    weft_ctx_destroy(ctx);
    return n;
}

/* Until the two of a pair have told each other enough, neither moves the other. */
TEST(strangers_keep_the_mean_and_do_not_pull_before_they_know_each_other) {
    for (int s = 0; s < N_SCHEDULES; s++)
        for (int c = 0; c < N_CODECS; c++) {
            int R = schedules[s].R, needed = wefti_pairs_needed(codecs[c]);
            bool last = c % 2 == 0;
            set_strangers(s, knobs(codecs[c], 0.2, last));
            go(R, FIRST, STEPS);
            bool began = false;
            for (int64_t t = FIRST; t < STEPS; t++) {
                bool still = true;
                for (int j = 1; j < R; j++) still &= meetings(0, j, FIRST, t) < needed;
                bool moves = memcmp(trials[0].x[t], trials[0].x[t + 1],
                                    sizeof trials[0].x[t]) != 0;
                if (still && moves)
                    fail_msg("%s, codec %d: moves in round %d", schedules[s].kind, c,
                             (int)t);
                began |= moves;
                if (!still && !began)
                    fail_msg("%s, codec %d: does not begin", schedules[s].kind, c);
                for (int e = 0; e < N; e++)
                    assert_true(fabs(mean_of(R, t + 1, e) - mean_of(R, FIRST, e)) <
                                tolerance);
            }
        }
}

/* Of normal numbers; and not a round more than it takes. */
TEST(little_is_untold_after_the_rounds_that_a_pair_needs) {
    static const double most[N_CODECS] = {1e-3, 1e-3, 1e-3, 1e-3, 0.028};
    for (int c = 0; c < N_CODECS; c++) {
        int needed = wefti_pairs_needed(codecs[c]);
        for (int rounds = needed > 1 ? needed - 1 : 1; rounds <= needed; rounds++) {
            double untold = 0, all = 0;
            set_strangers(0, knobs(codecs[c], 0.2, true));
            go(schedules[0].R, FIRST, FIRST + rounds);
            for (int e = 0; e < N; e++) {
                double x = (double)trials[0].x[FIRST][e];
                untold += pow(x - (double)trials[0].state[0][e], 2);
                all += x * x;
            }
            double share = sqrt(untold / all);
            if ((share < most[c]) != (rounds == needed))
                fail_msg("codec %d: %.3g untold after %d rounds", c, share, rounds);
        }
    }
}

/* Resumed while pairs do not pull yet, and later. */
TEST(strangers_go_on_from_their_states_to_the_same_bits) {
    static float whole[MAX_R][N];
    for (int s = 0; s < N_SCHEDULES; s++)
        for (int c = 0; c < N_CODECS; c++)
            for (int at = FIRST + 1; at < FIRST + 7; at += 2) {
                int R = schedules[s].R;
                for (int run = 0; run < 2; run++) {
                    set_strangers(s, knobs(codecs[c], 0.3, s % 2 == 0));
                    go(R, FIRST, run == 0 ? LATER : at);
                    for (int r = 0; r < R; r++) trials[r].anew = false;
                    if (run == 1) go(R, at, LATER);
                    for (int r = 0; r < R && run == 0; r++)
                        memcpy(whole[r], trials[r].x[LATER], sizeof whole[r]);
                }
                for (int r = 0; r < R; r++)
                    assert_memory_equal(whole[r], trials[r].x[LATER], sizeof whole[r]);
            }
}

/* --- learners --- */

enum { GUEST_UNTIL = 20 };

/* The sum over the ranks that take part is kept; a learner comes closer to their mean, and from
 * its first round on the sum over all is kept. */
TEST(a_guest_moves_nobody_and_is_moved) {
    for (int s = 0; s < N_SCHEDULES; s++)
        for (int c = 2; c < 4; c++) {
            int R = schedules[s].R;
            double begin[N];
            set_strangers(s, knobs(codecs[c], 0.3, c % 2 == 0));
            for (int r = 0; r < R; r++)
                trials[r].learners = 1, trials[r].until = GUEST_UNTIL;
            for (int e = 0; e < N; e++) trials[R - 1].x[FIRST][e] += e % 2 ? 1 : -1;
            go(R, FIRST, STEPS);
            for (int64_t t = FIRST; t < GUEST_UNTIL; t++)
                for (int e = 0; e < N; e++)
                    assert_true(fabs(mean_of(R - 1, t + 1, e) -
                                     mean_of(R - 1, FIRST, e)) < tolerance);
            for (int e = 0; e < N; e++) begin[e] = mean_of(R, GUEST_UNTIL + 1, e);
            for (int64_t t = GUEST_UNTIL + 1; t < STEPS; t++)
                for (int e = 0; e < N; e++)
                    assert_true(fabs(mean_of(R, t + 1, e) - begin[e]) < tolerance);
            double far = true_distance(R, FIRST), near = true_distance(R, GUEST_UNTIL);
            for (int64_t t = GUEST_UNTIL; t < STEPS;
                 t++) /* what it has not told yet is small */
                assert_true(true_distance(R, t + 1) < 1.02 * near);
            if (!(near < 0.7 * far && true_distance(R, STEPS) < 0.7 * near))
                fail_msg("%s, codec %d: apart %.3g, then %.3g, at the end %.3g",
                         schedules[s].kind, c, far, near, true_distance(R, STEPS));
        }
}

/* What coding has not told yet is small beside what replicas are apart: they come closer from
 * the first pull on, and go no further apart. */
TEST(strangers_come_closer_from_their_first_pull_on) {
    static const double gammas[N_CODECS] = {1, 1, 0.8, 0.5, 0.2};
    for (int s = 0; s < N_SCHEDULES; s++)
        for (int c = 0; c < N_CODECS; c++) {
            int R = schedules[s].R;
            set_strangers(s, knobs(codecs[c], gammas[c], c % 2 == 0));
            go(R, FIRST, STEPS);
            double began = true_distance(R, FIRST);
            for (int64_t t = FIRST; t < STEPS; t++)
                if (!(true_distance(R, t + 1) < 1.02 * began))
                    fail_msg("%s, codec %d: %.3g times as far apart after step %d",
                             schedules[s].kind, c, true_distance(R, t + 1) / began,
                             (int)t);
            bool enough = codecs[c] != WEFTI_VALUES_SIGN || s == 0;
            if (enough && !(true_distance(R, STEPS) < 0.8 * began))
                fail_msg("%s, codec %d: %.3g of the distance is left", schedules[s].kind,
                         c, true_distance(R, STEPS) / began);
        }
}
