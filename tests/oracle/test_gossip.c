/* SPDX-License-Identifier: MIT */
/* The order and the staleness of mixing, against docs/methods.md in double:
 *
 *     awc   x_i(t+1) = sum_j W_ij(t) x_j(t) - u_i(t)
 *     atc   x_i(t+1) = sum_j W_ij(t) (x_j(t) - u_j(t))
 *
 * u is drawn; W is taken from the topology's double weights. */
#include <math.h>
#include <stdlib.h>

#include "mix/mixer.h"
#include "ranks.h"

enum { N = 150, FIRST = 100, STEPS = 50, MAX_R = 8 };

static const wefti_bucket buckets[] = {{.n_elements = FIRST}, {.n_elements = N - FIRST}};
static const int64_t bucket_at[] = {0, FIRST};

typedef struct trial {
    wefti_mixer_config config; /* without topologies */
    weft_topology_config topology;
    int64_t first_step;
    float x[STEPS + 1][N]; /* x[t]: before step t */
    double distance[STEPS];
    int64_t bytes_out[STEPS + 1], bytes_predicted[STEPS + 1];
} trial;

static trial trials[MAX_R];

static void draw(int rank, int64_t step, float *u) {
    fill_normal(1000 * (uint64_t)(step + 1) + (uint64_t)rank, N, u);
    for (int i = 0; i < N; i++) u[i] *= 0.1f;
}

static int64_t sent(const rank_env *env) {
    wefti_traffic traffic;
    wefti_comm_traffic(env->control, &traffic);
    return traffic.bytes_out[WEFTI_LINK_WIRE];
}

static int64_t predict(const trial *t, const rank_env *env, weft_neighbours *room,
                       int64_t step) {
    int64_t n_bytes = 0;
    wefti_mixer_question q = {.n_buckets = 2,
                              .R = env->replica->size,
                              .from = env->replica->rank,
                              .step = step,
                              .room = room};
    for (q.number = 0; q.number < 2; q.number++) {
        q.bucket = &buckets[q.number];
        for (q.to = 0; q.to < q.R; q.to++)
            if (q.to != q.from)
                n_bytes += wefti_mixer_find("gossip")->wire_bytes(&t->config, &q);
    }
    return n_bytes;
}

static weft_status one_step(wefti_mixer *m, int64_t step, float *x) {
    float u[N];
    draw(m->comm->rank, step, u);
    for (int b = 0; b < 2; b++) {
        WEFT_TRY(wefti_mixer_before(m, b, step, x + bucket_at[b]));
        for (int64_t i = 0; i < buckets[b].n_elements; i++)
            x[bucket_at[b] + i] -= u[bucket_at[b] + i];
        WEFT_TRY(wefti_mixer_after(m, b, step, x + bucket_at[b]));
    }
    for (int b = 0; b < 2; b++)
        WEFT_TRY(wefti_mixer_finish(m, b, step, x + bucket_at[b]));
    return WEFT_OK;
}

static weft_status walk(rank_env *env, wefti_mixer *m, weft_neighbours *room) {
    trial *t = env->user;
    float x[N];
    memcpy(x, t->x[t->first_step], sizeof x);
    for (int b = 0; b < 2; b++)
        WEFT_TRY(wefti_mixer_prime(m, b, t->first_step, x + bucket_at[b]));
    for (int64_t step = t->first_step; step < STEPS; step++) {
        int64_t before = sent(env);
        WEFT_TRY(one_step(m, step, x));
        t->bytes_out[step] = sent(env) - before;
        t->bytes_predicted[step] = predict(t, env, room, step);
        t->distance[step] = m->ops->distance(m);
        memcpy(t->x[step + 1], x, sizeof x);
    }
    return wefti_comm_barrier(env->control, -1);
}

static weft_status gossip(rank_env *env) {
    trial *t = env->user;
    weft_topology *topology, *everybody;
    weft_topology_config complete = {
        .kind = "complete", .nodes = t->topology.nodes, .ranks = 1};
    weft_neighbours *room;
    wefti_mixer *m;
    WEFT_TRY(weft_topology_create(env->ctx, &t->topology, &topology));
    WEFT_TRY(weft_topology_create(env->ctx, &complete, &everybody));
    WEFT_TRY(weft_neighbours_create(env->ctx, everybody, &room));
    t->config.topology = topology;
    t->config.everybody = everybody;
    WEFT_TRY(wefti_mixer_create(env->ctx, &t->config, &wefti_kernels_reference,
                                env->replica, buckets, 2, &m));
    weft_status status = walk(env, m, room);
    wefti_mixer_destroy(m);
    weft_neighbours_destroy(env->ctx, room);
    weft_topology_destroy(env->ctx, topology);
    weft_topology_destroy(env->ctx, everybody);
    return status;
}

/* Fills trials[0..R-1].x from first_step on, where x[first_step] is there already. */
static void run(int R, const char *kind, wefti_mixer_config config, int64_t first_step) {
    void *users[MAX_R];
    for (int r = 0; r < R; r++) {
        trials[r].config = config;
        trials[r].topology = (weft_topology_config){
            .kind = kind, .nodes = R, .ranks = 1, .seed = config.seed};
        trials[r].first_step = first_step;
        if (first_step == 0) fill_normal(7 + (uint64_t)r, N, trials[r].x[0]);
        users[r] = &trials[r];
    }
    run_ranks(R, 1, (wefti_wire_model){0, 0}, gossip, users, NULL);
}

static wefti_mixer_config knobs(bool combine_last, double gamma, int64_t average_every) {
    return (wefti_mixer_config){.kind = "gossip",
                                .seed = 5,
                                .steps = STEPS,
                                .combine_last = combine_last,
                                .gamma = gamma,
                                .average_every = average_every};
}

/* W(step), and the mean of all where it is due. */
static void fill_matrix(int R, const char *kind, const wefti_mixer_config *c,
                        int64_t step, double W[MAX_R][MAX_R]) {
    weft_ctx *ctx;
    weft_topology *topology;
    weft_neighbours *n;
    weft_topology_config wanted = {.kind = kind, .nodes = R, .ranks = 1, .seed = c->seed};
    bool all = c->average_every > 0 && (step + 1) % c->average_every == 0;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_topology_create(ctx, &wanted, &topology));
    assert_ok(ctx, weft_neighbours_create(ctx, topology, &n));
    for (int i = 0; i < R; i++) {
        weft_topology_neighbours(topology, i, step, n);
        for (int j = 0; j < R; j++) W[i][j] = all ? 1.0 / R : 0;
        for (int k = 0; k < n->n_sources && !all; k++)
            W[i][n->sources[k]] = n->weights[k];
    }
    weft_neighbours_destroy(ctx, n);
    weft_topology_destroy(ctx, topology);
    weft_ctx_destroy(ctx);
}

/* out_i <- x_i + gamma (sum_j W_ij x_j - x_i), for element e of all members. */
static void mix(int R, double W[MAX_R][MAX_R], double gamma, const double *x,
                double *out) {
    for (int i = 0; i < R; i++) {
        double mixed = 0;
        for (int j = 0; j < R; j++) mixed += W[i][j] * x[j];
        out[i] = x[i] + gamma * (mixed - x[i]);
    }
}

/* Each step: one mixing and one subtraction of f32 numbers below 8: a few 2^-22. Mixing
 * does not enlarge what is there, so STEPS of them add up. */
static const double tolerance = STEPS * 4 * 0x1p-22;

static void follow(int R, const char *kind, wefti_mixer_config c) {
    static double x[N][MAX_R];
    double W[MAX_R][MAX_R], y[MAX_R];
    float u[MAX_R][N];
    run(R, kind, c, 0);
    for (int e = 0; e < N; e++)
        for (int r = 0; r < R; r++) x[e][r] = (double)trials[r].x[0][e];
    for (int64_t t = 0; t < STEPS; t++) {
        fill_matrix(R, kind, &c, t, W);
        for (int r = 0; r < R; r++) draw(r, t, u[r]);
        for (int e = 0; e < N; e++) {
            for (int r = 0; r < R && c.combine_last; r++) x[e][r] -= (double)u[r][e];
            mix(R, W, c.gamma, x[e], y);
            for (int r = 0; r < R; r++)
                x[e][r] = c.combine_last ? y[r] : y[r] - (double)u[r][e];
        }
        for (int r = 0; r < R; r++)
            for (int e = 0; e < N; e++)
                if (!(fabs(x[e][r] - (double)trials[r].x[t + 1][e]) < tolerance))
                    fail_msg("%s of %d, step %d, rank %d: %.7g, expected %.7g", kind, R,
                             (int)t, r, (double)trials[r].x[t + 1][e], x[e][r]);
    }
}

static void mixing_is_that_of_the_formula_on_every_topology(void **state) {
    (void)state;
    static const int sizes[] = {2, 4, 8};
    const char *kind, *summary;
    for (int i = 0; (kind = weft_topology_kind(i, &summary)); i++) {
        if (strcmp(kind, "measured") == 0) continue; /* needs links */
        for (int s = 0; s < 3; s++)
            for (int last = 0; last < 2; last++)
                follow(sizes[s], kind, knobs(last, 1, 0));
    }
}

static void strength_and_means_of_all_too(void **state) {
    (void)state;
    for (int last = 0; last < 2; last++) {
        follow(4, "ring", knobs(last, 0.3, 0));
        follow(4, "aer", knobs(last, 1, 7));
        follow(3, "exponential", knobs(last, 0.5, 5));
    }
}

static void bytes_counted_are_bytes_predicted(void **state) {
    (void)state;
    for (int last = 0; last < 2; last++) {
        run(5, "aer", knobs(last, 1, 9), 0);
        int64_t sum = 0;
        for (int r = 0; r < 5; r++)
            for (int t = 0; t < STEPS; t++) {
                assert_int_equal(trials[r].bytes_out[t], trials[r].bytes_predicted[t]);
                sum += trials[r].bytes_out[t];
            }
        assert_true(sum > 0);
        if (!last) assert_int_equal(trials[0].bytes_out[STEPS - 1], 0);
    }
}

/* Begun anew at any step from the parameters alone, it goes on to the same bits. */
static void parameters_are_all_the_state_there_is(void **state) {
    (void)state;
    static float whole[MAX_R][N];
    for (int last = 0; last < 2; last++) {
        run(4, "aer", knobs(last, 1, 0), 0);
        for (int r = 0; r < 4; r++) memcpy(whole[r], trials[r].x[STEPS], sizeof whole[r]);
        run(4, "aer", knobs(last, 1, 0), 17);
        for (int r = 0; r < 4; r++)
            assert_memory_equal(whole[r], trials[r].x[STEPS], sizeof whole[r]);
    }
}

static double true_distance(int R, int64_t t) {
    double sum = 0;
    for (int e = 0; e < N; e++) {
        double mean = 0;
        for (int r = 0; r < R; r++) mean += (double)trials[r].x[t][e] / R;
        for (int r = 0; r < R; r++) {
            double off = (double)trials[r].x[t][e] - mean;
            sum += off * off / R;
        }
    }
    return sum;
}

/* Complete mixing sees all deviations. Pairs see differences of two: right on average if
 * deviations are independent, as they are at the start; then within 3 sigma of what R N
 * squares of normal numbers give, sqrt(2 / (R N / 2)). */
static void the_distance_is_estimated(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        run(8, kind ? "matching" : "complete", knobs(false, 1, 0), 0);
        double estimate = 0, expected = true_distance(8, 0);
        for (int r = 0; r < 8; r++) estimate += trials[r].distance[0] / 8;
        double off = kind ? 3 * sqrt(4.0 / (8 * N)) : 1e-5;
        assert_true(fabs(estimate - expected) < off * expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixing_is_that_of_the_formula_on_every_topology),
        cmocka_unit_test(strength_and_means_of_all_too),
        cmocka_unit_test(bytes_counted_are_bytes_predicted),
        cmocka_unit_test(parameters_are_all_the_state_there_is),
        cmocka_unit_test(the_distance_is_estimated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
