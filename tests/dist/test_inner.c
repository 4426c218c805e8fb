/* SPDX-License-Identifier: MIT */
/* A node that makes several optimizer steps in a step, or one in several steps
 * (batch.shares=steps): its parameters are those of a run by itself over the same rows, and the
 * outer step is the mean over all rows. */
#include "jobs.h"

enum { MOST = 1 << 17 };

typedef struct trainee {
    const wefti_job *job;
    bool begins; /* with initial parameters, else with x */
    int steps;
    int64_t n, ops,
        moved; /* of the first step: ops between passes, numbers that have changed */
    double loss;
    float x[MOST];
} trainee;

static trainee nodes[2], lone;

static weft_status take_step(trainee *t, wefti_rank *r, int64_t step) {
    wefti_tally tally;
    wefti_step_status agreed;
    WEFT_TRY(wefti_rank_step(r, step));
    WEFT_TRY(wefti_rank_settle(r, &tally));
    WEFT_TRY(wefti_rank_read_status(r, step, &agreed));
    t->loss = agreed.loss_sum;
    for (int64_t i = 0; i < t->n && step == 0; i++) t->moved += r->params[i] != t->x[i];
    return WEFT_OK;
}

static weft_status all_steps(rank_env *env) {
    trainee *t = env->user;
    wefti_comms comms;
    wefti_rank *r;
    WEFT_TRY(take_comms(env, &comms));
    WEFT_TRY(wefti_rank_create(env->ctx, t->job, env->rank, &comms, &r));
    t->n = r->arrangement->n_elements;
    assert_true(t->n <= MOST);
    if (t->begins)
        wefti_rank_init_params(r);
    else
        memcpy(r->params, t->x, (size_t)t->n * sizeof(float));
    memcpy(t->x, r->params, (size_t)t->n * sizeof(float));
    t->ops = t->moved = 0;
    for (int i = 0; i < r->schedule->n_ops; i++)
        t->ops += r->schedule->ops[i].kind == WEFTI_OP_INNER;
    weft_status status = wefti_rank_prime(r);
    for (int k = 0; k < t->steps && status == WEFT_OK; k++) status = take_step(t, r, k);
    memcpy(t->x, r->params, (size_t)t->n * sizeof(float));
    if (status == WEFT_OK) /* others may still read what this one has sent */
        status = wefti_comm_barrier(r->comms.control, wefti_rank_control_tag(r));
    wefti_rank_destroy(r);
    return status;
}

#define SGD                                                                              \
    "optimizer.kind=sgd", "optimizer.lr=0.5", "schedule.warmup=0",                       \
        "schedule.kind=constant"

static const char *clip = "optimizer.clip=1";

/* By itself over n rows from `first` on, after what `lone` has learned already; in passes of those
 * of the others, because what is in a row depends on its pass. */
static double by_itself(const char *n, const char *micro, int64_t first, bool begins) {
    weft_ctx *ctx;
    weft_config *config;
    weft_status status;
    void *users[1] = {&lone};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    wefti_job *job = small_job(
        ctx, KEYS("method=hsdp", "mesh.nodes=1", SGD, clip, n, micro), &config);
    job->from.row = first;
    lone.job = job;
    lone.begins = begins;
    lone.steps = 1;
    run_ranks(1, 1, (wefti_wire_model){0, 0}, all_steps, users, &status);
    assert_int_equal(status, WEFT_OK);
    wefti_job_destroy(ctx, job);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
    return lone.loss;
}

static void together(const int64_t *rows, const char *every, int steps) {
    weft_ctx *ctx;
    weft_config *config;
    weft_status statuses[2];
    void *users[2] = {&nodes[0], &nodes[1]};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    wefti_job *job = small_job(ctx,
                               KEYS("method=diloco", "mesh.nodes=2", SGD, clip, every,
                                    "mixer.outer_lr=1", "mixer.outer_momentum=0",
                                    "batch.shares=steps", "batch.micro=3"),
                               &config);
    assert_int_equal(job->run.inner_rows, 8);
    assert_int_equal(wefti_job_inner_steps(job, 0), 1);
    wefti_job_share(job, 0, rows);
    for (int i = 0; i < 2; i++)
        nodes[i] = (trainee){.job = job, .begins = true, .steps = steps};
    run_ranks(2, 1, (wefti_wire_model){0, 0}, all_steps, users, statuses);
    for (int i = 0; i < 2; i++) assert_int_equal(statuses[i], WEFT_OK);
    assert_memory_equal(nodes[0].x, nodes[1].x, sizeof nodes[0].x);
    wefti_job_destroy(ctx, job);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

static double wanted[MOST];

/* Numbers of about 1, rounded a few times. */
static void expect_x(void) {
    for (int64_t i = 0; i < lone.n; i++)
        if (!(fabs((double)nodes[0].x[i] - wanted[i]) < 0x1p-21))
            fail_msg("number %lld is %.9g, expected %.9g", (long long)i,
                     (double)nodes[0].x[i], wanted[i]);
}

TEST(inner_steps_are_steps_and_weigh_their_rows) {
    double loss = by_itself("batch.rows_per_step=6", "batch.micro=3", 0, true);
    loss += by_itself("batch.rows_per_step=6", "batch.micro=3", 6, false);
    for (int64_t i = 0; i < lone.n; i++) wanted[i] = 12.0 / 16 * (double)lone.x[i];
    loss += by_itself("batch.rows_per_step=4", "batch.micro=2", 12, true);
    for (int64_t i = 0; i < lone.n; i++) wanted[i] += 4.0 / 16 * (double)lone.x[i];
    together((const int64_t[]){12, 4}, "mixer.outer_every=1", 1);
    assert_int_equal(nodes[0].ops, 1); /* between the two */
    assert_int_equal(nodes[1].ops, 0);
    if (!(fabs(nodes[0].loss - loss) < 1e-6 * loss))
        fail_msg("the loss is %.9g, expected %.9g", nodes[0].loss, loss);
    expect_x();
}

/* Of 4 and 4 rows in two steps, one step along the mean. The other makes four of 6. */
TEST(a_node_with_few_rows_makes_fewer_steps) {
    clip = "optimizer.clip=0";
    const int64_t first[] = {0, 6, 16, 22};
    for (int k = 0; k < 4; k++)
        by_itself("batch.rows_per_step=6", "batch.micro=3", first[k], k == 0);
    for (int64_t i = 0; i < lone.n; i++) wanted[i] = 12.0 / 16 * (double)lone.x[i];
    for (int k = 0; k < 2; k++) {
        by_itself("batch.rows_per_step=4", "batch.micro=2", 12 + 16 * k, true);
        for (int64_t i = 0; i < lone.n; i++)
            wanted[i] += 4.0 / 16 / 2 * (double)lone.x[i];
    }
    together((const int64_t[]){12, 4}, "mixer.outer_every=2", 2);
    assert_true(nodes[0].moved > 0);
    assert_int_equal(nodes[1].moved, 0);
    expect_x();
}

static void expect_refused(const char *key, const char *more, const char *said) {
    weft_ctx *ctx;
    weft_config *config;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_config_create(ctx, &config));
    const char *const *keys = KEYS("mesh.nodes=2", "batch.shares=steps", key, more,
                                   "data.path=x");
    for (int i = 0; keys[i]; i++) assert_ok(ctx, weft_config_set(ctx, config, keys[i]));
    assert_int_equal(weft_config_finish(ctx, config), WEFT_ERR_CONFIG);
    if (!strstr(weft_ctx_message(ctx), said)) fail_msg("%s", weft_ctx_message(ctx));
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

TEST(what_it_can_not_hold_for_is_refused) {
    expect_refused("method=flexdemo", "run.steps=9", "nodes that exchange in each step");
    expect_refused("method=diloco", "mesh.ranks_per_node=2", "several ranks on a node");
    expect_refused("method=diloco", "optimizer.kind=accum_adam", "counts its steps");
    expect_refused("method=streaming-diloco", "mesh.robust=clip",
                   "steps with mixer.delay and mesh.robust");
}
