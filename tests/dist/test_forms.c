/* SPDX-License-Identifier: MIT */
/* Every change of what crosses the wire, between every two forms (job/form.h): two ranks with
 * gradients drawn here go on with the same parameters, nothing of a gradient is lost, and the
 * optimizer's moments stay. */
#include "job/form.h"
#include "jobs.h"
#include "rank/carried.h"

enum { RANKS = 2, BEFORE = 8, STEPS = 16 };

static const wefti_form forms[] = {
    {false, WEFTI_VALUES_F32, 0, 0},  {false, WEFTI_VALUES_BF16, 0, 0},
    {false, WEFTI_VALUES_INT8, 0, 0}, {false, WEFTI_VALUES_INT4, 0, 0},
    {true, WEFTI_VALUES_F32, 4, 0},   {true, WEFTI_VALUES_INT8, 4, 0},
    {true, WEFTI_VALUES_INT4, 4, 0},  {true, WEFTI_VALUES_F32, 8, 0},
    {true, WEFTI_VALUES_INT8, 8, 0}};
enum { FORMS = sizeof forms / sizeof forms[0] };

/* One rank of a run that changes. */
typedef struct actor {
    const wefti_form *from, *to;
    const char *optimizer;
    double *sum, *left; /* [elements] of rate times gradient; what is still to be sent */
    float *start, *end, *moment[2]; /* before the change, and behind it */
    int64_t n;
} actor;

static wefti_job *job_of(weft_ctx *ctx, const actor *a, const wefti_form *form,
                         weft_config **config) {
    char optimizer[64];
    weft_config *base;
    wefti_job *job;
    snprintf(optimizer, sizeof optimizer, "optimizer.kind=%s", a->optimizer);
    wefti_job_destroy(
        ctx,
        small_job(ctx,
                  KEYS(optimizer, "replicator.kind=none", "mixer.kind=outer",
                       "mixer.outer_lr=1", "optimizer.lr=0.01", "optimizer.clip=0",
                       "optimizer.weight_decay=0", "mesh.nodes=2",
                       "schedule.kind=constant", "schedule.warmup=0", "run.steps=100"),
                  &base));
    assert_ok(ctx, weft_config_copy(ctx, base, config));
    assert_ok(ctx, wefti_form_set(ctx, *config, form));
    assert_ok(ctx, wefti_job_create(ctx, *config, NULL, 256, &job));
    weft_config_destroy(ctx, base);
    return job;
}

static weft_status step(wefti_rank *r, int64_t t, double *sum) {
    wefti_tally tally;
    wefti_step_status agreed;
    WEFT_TRY(wefti_rank_open(r, t));
    for (int64_t i = 0; i < r->arrangement->n_elements; i++) {
        uint64_t draw = wefti_rng_u64(7, WEFTI_STREAM_TEST,
                                      (uint64_t)(t * RANKS + r->rank), (uint64_t)i);
        r->grads[i] = (float)((double)(draw >> 40) / (1 << 24) - 0.5);
        sum[i] += (double)r->now.lr * (double)r->grads[i];
    }
    for (int b = 0; b < r->schedule->n_buckets; b++) WEFT_TRY(wefti_rank_submit(r, b));
    WEFT_TRY(wefti_rank_close(r));
    WEFT_TRY(wefti_rank_settle(r, &tally));
    return wefti_rank_read_status(r, t, &agreed);
}

/* What coding has left out, in units of the parameters. */
static void look_left(wefti_rank *r, double *left) {
    wefti_array_role roles[WEFTI_RANK_ARRAYS];
    float **arrays[WEFTI_RANK_ARRAYS];
    int n = wefti_rank_arrays(r, arrays);
    wefti_rank_roles(r, roles);
    for (int k = 0; k < n; k++) {
        if (!roles[k].name || strcmp(roles[k].name, "error") != 0) continue;
        double unit = roles[k].owner == WEFTI_OF_REPLICATOR ? (double)r->now.lr : 1;
        for (int64_t i = 0; i < r->arrangement->n_elements; i++)
            left[i] += unit * (double)(*arrays[k])[i];
    }
}

static void keep_moment(actor *a, const wefti_rank *r, int i) {
    if (!r->optimizer.state[0]) return;
    a->moment[i] = malloc((size_t)a->n * sizeof(float));
    memcpy(a->moment[i], r->optimizer.state[0], (size_t)a->n * sizeof(float));
}

/* They are the same, or the mean of all where each node had its own. */
static void moments_are_kept(const actor *a, const char *name) {
    bool meets = a->from->outer && !a->to->outer;
    for (int64_t i = 0; i < a->n && a->moment[0]; i++) {
        float mean = (a[0].moment[0][i] + a[1].moment[0][i]) / 2;
        for (int k = 0; k < RANKS; k++)
            if (a[k].moment[1][i] != (meets ? mean : a[k].moment[0][i]))
                fail_msg("%s: a moment is %g", name, (double)a[k].moment[1][i]);
    }
}

static weft_status meet(wefti_rank *r) {
    return wefti_comm_barrier(r->comms.control, wefti_rank_control_tag(r));
}

static weft_status train_and_change(rank_env *env) {
    actor *a = env->user;
    weft_config *configs[2];
    wefti_job *before = job_of(env->ctx, a, a->from, &configs[0]),
              *after = job_of(env->ctx, a, a->to, &configs[1]);
    wefti_comms comms;
    wefti_rank *r;
    wefti_passage passage;
    after->from.step = BEFORE;
    WEFT_TRY(take_comms(env, &comms));
    WEFT_TRY(wefti_rank_create(env->ctx, before, env->rank, &comms, &r));
    wefti_rank_init_params(r);
    WEFT_TRY(wefti_rank_prime(r));
    a->n = r->arrangement->n_elements;
    size_t n_bytes = (size_t)a->n * sizeof(float);
    a->sum = calloc((size_t)a->n, sizeof *a->sum);
    a->left = calloc((size_t)a->n, sizeof *a->left);
    a->start = malloc(n_bytes);
    a->end = malloc(n_bytes);
    memcpy(a->start, r->params, n_bytes);
    for (int64_t t = 0; t < BEFORE; t++) WEFT_TRY(step(r, t, a->sum));
    keep_moment(a, r, 0);
    WEFT_TRY(meet(r)); /* threads read what the others send where it lies */
    wefti_rank_depart(&r, &passage);
    wefti_job_destroy(env->ctx, before);
    WEFT_TRY(wefti_rank_arrive(&passage, after, &r, NULL));
    keep_moment(a, r, 1);
    for (int64_t t = BEFORE; t < STEPS; t++) WEFT_TRY(step(r, t, a->sum));
    look_left(r, a->left);
    memcpy(a->end, r->params, n_bytes);
    WEFT_TRY(meet(r));
    wefti_rank_destroy(r);
    wefti_job_destroy(env->ctx, after);
    for (int i = 0; i < 2; i++) weft_config_destroy(env->ctx, configs[i]);
    return WEFT_OK;
}

/* What all steps have moved the parameters by is the mean of what the ranks' gradients ask for,
 * but for what is still to be sent. */
static void nothing_is_lost(const actor *a, const char *name) {
    for (int64_t i = 0; i < a->n; i++) {
        double asked = 0;
        for (int k = 0; k < RANKS; k++) asked += (a[k].sum[i] - a[k].left[i]) / RANKS;
        double error = fabs((double)a->start[i] - asked - (double)a->end[i]);
        if (error > 1e-5)
            fail_msg("%s: element %lld is off by %g", name, (long long)i, error);
    }
}

static void change(const wefti_form *from, const wefti_form *to, const char *optimizer) {
    actor actors[RANKS];
    void *users[RANKS];
    char name[3 * WEFTI_FORM_TEXT], x[WEFTI_FORM_TEXT], y[WEFTI_FORM_TEXT];
    snprintf(name, sizeof name, "%s to %s", wefti_form_write(from, x),
             wefti_form_write(to, y));
    for (int k = 0; k < RANKS; k++) {
        actors[k] = (actor){.from = from, .to = to, .optimizer = optimizer};
        users[k] = &actors[k];
    }
    run_ranks(RANKS, 1, (wefti_wire_model){0}, train_and_change, users, NULL);
    if (memcmp(actors[0].end, actors[1].end, (size_t)actors[0].n * sizeof(float)) != 0)
        fail_msg("%s: the ranks differ", name);
    moments_are_kept(actors, name);
    if (strcmp(optimizer, "sgd") == 0) nothing_is_lost(actors, name);
    for (int k = 0; k < RANKS; k++) {
        free(actors[k].sum);
        free(actors[k].left);
        free(actors[k].start);
        free(actors[k].end);
        free(actors[k].moment[0]);
        free(actors[k].moment[1]);
    }
}

TEST(each_form_goes_on_as_each_other) {
    for (int i = 0; i < FORMS; i++)
        for (int k = 0; k < FORMS; k++)
            if (!wefti_form_refusal(&forms[i], &forms[k], BEFORE))
                change(&forms[i], &forms[k], "sgd");
}

TEST(moments_of_the_optimizer_stay) {
    change(&forms[0], &forms[4], "adamw");
    change(&forms[4], &forms[2], "adamw");
}

/* What can not be carried is refused, and has a way around. */
TEST(what_is_refused) {
    int refused = 0;
    for (int i = 0; i < FORMS; i++)
        for (int k = 0; k < FORMS; k++) {
            const wefti_form *a = &forms[i], *b = &forms[k];
            bool coded = a->outer && !b->outer && a->values != WEFTI_VALUES_F32;
            bool no = wefti_form_refusal(a, b, BEFORE) != NULL;
            assert_int_equal(no, coded || i == k);
            assert_true(!a->outer || i == k || wefti_form_refusal(a, b, BEFORE + 1));
            refused += no;
            wefti_form next = wefti_form_next(a, b);
            if (i == k) continue;
            assert_null(wefti_form_refusal(a, &next, BEFORE));
            assert_true(wefti_form_same(&next, b) ||
                        !wefti_form_refusal(&next, b, BEFORE));
        }
    assert_int_equal(refused, FORMS + 3 * 4);
}

/* What is written is read, and nothing else; codes of a status likewise. */
TEST(texts_and_codes) {
    static const char *const wrong[] = {"",
                                        "full",
                                        "full f32 ",
                                        "full sign",
                                        "full f32 4 0",
                                        "outer f32",
                                        "outer f32 0 0",
                                        "outer f32 4 1",
                                        "outer f32 04 0.4",
                                        "half f32",
                                        "outer f32 4 nan",
                                        "outer f32 99999999 0",
                                        "outer f32 -4 0",
                                        "full F32"};
    char text[WEFTI_FORM_TEXT];
    wefti_form read;
    for (int i = 0; i < FORMS; i++) {
        wefti_form form = forms[i];
        form.momentum = form.outer ? 0.45 : 0;
        assert_true(wefti_form_read(wefti_form_write(&form, text), &read));
        assert_memory_equal(&read, &form, sizeof form);
        assert_true(wefti_form_decode(wefti_form_code(&form), &read));
        assert_true(wefti_form_same(&read, &form) && read.momentum == form.momentum);
        assert_true(wefti_form_code(&form) <= WEFTI_FORM_CODES);
        wefti_form_fit(&read, 1000);
        assert_true(read.outer == (read.momentum > 0) && read.momentum < 0.9);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (wefti_form_read(wrong[i], &read)) fail_msg("'%s' is read", wrong[i]);
    static const int64_t codes[] = {
        0,      -1,           2, 9, INT64_MAX, WEFTI_FORM_CODES, WEFTI_FORM_CODES + 1,
        1 << 4, 1 + (1 << 24)};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        assert_false(wefti_form_decode(codes[i], &read));
}

/* What is on its way in every step has no rule. */
TEST(what_stays_as_it_is) {
    weft_ctx *ctx;
    weft_config *config;
    wefti_form form;
    assert_int_equal(ctx_begin(&ctx), 0);
    const char *const *runs[] = {KEYS("method=dadam"),
                                 KEYS("method=flexdemo"),
                                 KEYS("method=streaming-diloco"),
                                 KEYS("method=sparseloco"),
                                 KEYS("method=diloco", "mixer.feedback=0.9"),
                                 KEYS("method=hsdp", "replicator.values=sign")};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        wefti_job_destroy(ctx, small_job(ctx, runs[i], &config));
        assert_non_null(wefti_form_of(config, &form));
        weft_config_destroy(ctx, config);
    }
    wefti_job_destroy(ctx, small_job(ctx, KEYS("method=hsdp"), &config));
    assert_null(wefti_form_of(config, &form));
    assert_true(wefti_form_same(&form, &forms[0]));
    weft_config_destroy(ctx, config);
    assert_int_equal(ctx_end(ctx), 0);
}
