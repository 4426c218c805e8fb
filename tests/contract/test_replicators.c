/* SPDX-License-Identifier: MIT */
/* The laws of docs/methods.md that hold for every replicator in the registry. */
#include <math.h>

#include "replicas.h"
#include "reference/reference.h"

static trial trials[MAX_R], others[MAX_R];

typedef void (*law)(const wefti_replicator_config *config);

static const char *only; /* of all kinds; NULL: all */

/* Every kind but none with every value codec, with sign and without; what demo alone
 * looks at changes from case to case. */
static void for_each_case(law claim) {
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        const char *kind = wefti_replicator_registry[i]->name;
        if (strcmp(kind, "none") == 0 || (only && strcmp(kind, only) != 0)) continue;
        for (int values = 0; values < WEFTI_VALUE_CODECS; values += 1 + UNDER_SANITIZER) {
            for (int form = 0; form < 4; form++) {
                int dims = 1 + form / 2;
                wefti_replicator_config config = knobs(kind, dims, 4 * dims, form % 2);
                config.values = (wefti_value_codec)values;
                config.route = form == 0   ? WEFTI_ROUTE_AUTO
                               : form == 3 ? WEFTI_ROUTE_GATHER
                                           : WEFTI_ROUTE_OWNER;
                config.stochastic = values == WEFTI_VALUES_INT4;
                if (strcmp(kind, "full") != 0) config.every = 1 + form % 3;
                claim(&config);
                if (!wefti_replicator_registry[i]->robust) continue;
                config.robust = form % 2 ? WEFTI_ROBUST_TRIM : WEFTI_ROBUST_CLIP;
                claim(&config);
            }
        }
    }
}

static void get_the_same_bits(int R) {
    for (int step = 0; step < STEPS; step++)
        for (int r = 1; r < R && trials[0].due[step]; r++)
            assert_memory_equal(trials[r].direction[step], trials[0].direction[step],
                                sizeof trials[0].direction[step]);
}

static void count_bytes(int R) {
    for (int r = 0; r < R; r++)
        assert_int_equal(trials[r].bytes_out, trials[r].bytes_predicted);
    assert_true(R == 1 ? trials[0].bytes_out == 0 : trials[0].bytes_out > 0);
}

static void run_as_predicted(const wefti_replicator_config *config) {
    for (int R = 1; R <= MAX_R; R++) {
        run_knobs(trials, R, config);
        get_the_same_bits(R);
        count_bytes(R);
        for (int r = 0; r < R; r++) assert_int_equal(trials[r].allocated, 0);
    }
}

/* Each case runs once for the three laws that any run can show. */
TEST(all_replicas_get_the_same_bits_for_the_bytes_predicted) {
    for_each_case(run_as_predicted);
}

/* -- a step later -- */

static trial late[MAX_R];

static const char *const delayed_kinds[] = {"demo", "topk"};

/* The same gradients without a delay are in `trials`. */
static void compare_late(const wefti_replicator_config *config, int R) {
    static const float nothing[N];
    size_t n_bytes = sizeof trials[0].direction[0];
    for (int r = 0; r < R; r++) {
        assert_int_equal(late[r].bytes_out, trials[r].bytes_out);
        assert_int_equal(late[r].bytes_out, late[r].bytes_predicted);
        assert_int_equal(late[r].allocated, 0);
        for (int step = 0; step < STEPS; step++) {
            bool applied = step > 0 && trials[r].due[step - 1];
            const float *d = applied ? trials[r].direction[step - 1] : nothing;
            assert_memory_equal(late[r].direction[step], d, n_bytes);
            assert_memory_equal(late[r].kept[step], trials[r].kept[step], n_bytes);
        }
    }
    assert_true(config->every > 1 || R == 1 || late[0].bytes_out > 0);
}

/* Directions of the step before, bit for bit, whether or not what is under way is taken in
 * between steps, as before a checkpoint. */
TEST(a_delayed_direction_is_that_of_the_step_before) {
    static trial like;
    for (int form = 0; form < 24; form++) {
        wefti_replicator_config config = knobs(delayed_kinds[form % 2], 1 + form / 2 % 2,
                                               5, form / 4 % 2);
        config.route = WEFTI_ROUTE_GATHER;
        config.every = 1 + form / 8;
        config.values = form % 3 ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32;
        for (int R = 1; R <= MAX_R; R++) {
            run_knobs(trials, R, &config);
            like = (trial){.config = config, .kernels = test_kernels_find(NULL)};
            like.config.delay = 1;
            like.settles = (form + R) % 2;
            run_alike(late, R, &like);
            compare_late(&config, R);
        }
    }
}

static weft_status create_delayed(rank_env *env) {
    const wefti_replicator_config *config = env->user;
    wefti_replicator *r;
    weft_status status = wefti_replicator_create(env->ctx, config,
                                                 test_kernels_find(NULL), env->replica,
                                                 test_buckets, N_BUCKETS, &r);
    if (status != WEFT_ERR_CONFIG ||
        !strstr(weft_ctx_message(env->ctx), "replicator.delay is"))
        return WEFT_ERR_INTERNAL;
    weft_ctx_clear(env->ctx);
    return WEFT_OK;
}

/* Two rounds, rows that are chosen anew, a collective: none of them can wait. */
TEST(what_cannot_be_delayed_is_refused) {
    static const char *const kinds[] = {"full",    "random",  "striding",
                                        "slicing", "signsgd", "demo"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        wefti_replicator_config config = knobs(kinds[i], 1, 4, true);
        void *users[] = {&config, &config, &config};
        config.delay = 1;
        config.route = WEFTI_ROUTE_OWNER;
        run_ranks(3, 1, (wefti_wire_model){0, 0}, create_delayed, users, NULL);
    }
}

/* -- buffers -- */

/* A communicator that insists on await before the same memory is sent under another tag.
 */
enum { UNDER_WAY = 64 };

typedef struct strict {
    wefti_comm head;
    wefti_comm *inner;
    const void *data[UNDER_WAY]; /* NULL: free */
    int64_t tag[UNDER_WAY];
} strict;

static weft_status strict_send(wefti_comm *comm, int peer, int64_t tag, const void *data,
                               int64_t n_bytes) {
    strict *self = (strict *)comm;
    int free_place = -1;
    for (int i = 0; i < UNDER_WAY; i++) {
        if (!self->data[i]) free_place = i;
        if (self->data[i] == data && self->tag[i] != tag)
            return weft_ctx_fail(comm->ctx, WEFT_ERR_INTERNAL,
                                 "memory is sent again under tag %lld without await",
                                 (long long)tag);
    }
    if (free_place < 0) return WEFT_ERR_INTERNAL;
    self->data[free_place] = data;
    self->tag[free_place] = tag;
    return wefti_comm_send(self->inner, peer, tag, data, n_bytes);
}

static weft_status strict_receive(wefti_comm *comm, int peer, int64_t tag,
                                  int64_t n_bytes, const void **view) {
    return wefti_comm_receive(((strict *)comm)->inner, peer, tag, n_bytes, view);
}

static void strict_release(wefti_comm *comm, int peer, int64_t tag) {
    wefti_comm_release(((strict *)comm)->inner, peer, tag);
}

static weft_status strict_await(wefti_comm *comm, int64_t tag) {
    strict *self = (strict *)comm;
    for (int i = 0; i < UNDER_WAY; i++)
        if (self->tag[i] == tag) self->data[i] = NULL;
    return wefti_comm_await(self->inner, tag);
}

static const wefti_comm_ops strict_ops = {.name = "strict",
                                          .send = strict_send,
                                          .receive = strict_receive,
                                          .release = strict_release,
                                          .await = strict_await};

static weft_status run_strictly(rank_env *env) {
    strict watch = {.head = *env->replica, .inner = env->replica};
    rank_env watched = *env;
    watch.head.ops = &strict_ops;
    watched.replica = &watch.head;
    return run_trial(&watched);
}

static void watch_buffers(const wefti_replicator_config *config) {
    void *users[MAX_R];
    for (int r = 0; r < 3; r++) {
        trials[r] = (trial){.config = *config, .kernels = test_kernels_find(NULL)};
        users[r] = &trials[r];
    }
    run_ranks(3, 1, (wefti_wire_model){0, 0}, run_strictly, users, NULL);
}

TEST(buffers_are_awaited_before_they_are_sent_again) { for_each_case(watch_buffers); }

/* -- equal ranks -- */

/* Whether the mean is coded too: what that loses stays with the one rank that adds, so
 * that ranks do not remain alike. */
static bool codes_the_mean(const wefti_replicator_config *config) {
    if (config->values == WEFTI_VALUES_F32 || strcmp(config->kind, "demo") == 0)
        return false;
    return !config->sign || strcmp(config->kind, "full") == 0;
}

/* Adding v to v and halving is exact. Three times v, and so what is found of four, may be
 * rounded, so a value may differ by an ulp, and a sign where that passes through zero. */
static void equal_one_rank(const wefti_replicator_config *config) {
    static trial like;
    if (codes_the_mean(config)) return;
    wefti_replicator_config nearest = *config;
    nearest.stochastic = false; /* or every rank would round in its own way */
    like = (trial){
        .config = nearest, .kernels = test_kernels_find(NULL), .same_gradients = true};
    run_alike(others, 1, &like);
    run_alike(trials, 2, &like);
    assert_memory_equal(trials[0].direction, others[0].direction,
                        sizeof trials[0].direction);
    assert_memory_equal(trials[1].kept, others[0].kept, sizeof trials[1].kept);
    if (config->sign || config->values != WEFTI_VALUES_F32) return;
    for (int R = 3; R <= MAX_R; R++) {
        run_alike(trials, R, &like);
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < N; i++) {
                float a = trials[0].direction[step][i], b = others[0].direction[step][i];
                assert_true(fabsf(a - b) <= 1e-6f * (1 + fabsf(b)));
            }
        }
    }
}

TEST(identical_ranks_are_one_rank) { for_each_case(equal_one_rank); }

static void work_with_threads(const wefti_replicator_config *config) {
    wefti_replicator_config threaded = *config;
    threaded.threads = 3;
    run_knobs(others, 2, &threaded);
    run_knobs(trials, 2, config);
    assert_memory_equal(trials[0].direction, others[0].direction,
                        sizeof trials[0].direction);
    assert_memory_equal(trials[1].kept, others[1].kept, sizeof trials[1].kept);
}

TEST(threads_change_no_bit) { for_each_case(work_with_threads); }

TEST(a_step_that_is_not_due_covers_nothing_and_sends_nothing) {
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        const char *kind = wefti_replicator_registry[i]->name;
        if (strcmp(kind, "none") == 0 || strcmp(kind, "full") == 0) continue;
        wefti_replicator_config config = knobs(kind, 1, 4, false);
        config.every = 3;
        run_knobs(trials, 2, &config);
        int moved[STEPS] = {0};
        for (int step = 0; step < STEPS; step++)
            for (int j = 0; j < N; j++) moved[step] += trials[0].direction[step][j] != 0;
        assert_true(moved[0] > 0 && moved[3] > 0);
        assert_int_equal(moved[1] + moved[2] + moved[4], 0);
        for (int j = 0; j < N; j++) {
            float before = trials[0].kept[0][j], g = trials[0].gradient[1][j];
            float all = 0.9f * before + 0.5f * g;
            assert_true(fabsf(trials[0].kept[1][j] - all) < 1e-6f * (1 + fabsf(all)));
        }
    }
}

TEST(full_is_the_mean_of_gradients) {
    wefti_replicator_config config = knobs("full", 1, 4, false);
    run_knobs(trials, 4, &config);
    for (int i = 0; i < N; i++) {
        double mean = 0;
        for (int r = 0; r < 4; r++) mean += (double)trials[r].gradient[1][i] / 4;
        assert_true(fabs((double)trials[0].direction[1][i] - mean) < 1e-6);
    }
}

TEST(bad_knobs_are_refused_in_a_sentence) {
    weft_ctx *ctx;
    wefti_replicator *r;
    wefti_comm lonely = {.size = 1};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    wefti_replicator_config bad[] = {
        knobs("demo", 1, 65, true), knobs("demo", 1, 0, true), knobs("demo", 3, 4, true),
        knobs("fast", 1, 4, true),  knobs("full", 1, 4, true), knobs("demo", 1, 4, true),
        knobs("demo", 1, 4, true),  knobs("demo", 1, 4, true)};
    bad[4].every = 2;
    bad[5].alpha = 0;
    bad[6].values = WEFTI_VALUE_CODECS;
    bad[7].compression_chunk = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(wefti_replicator_create(ctx, &bad[i], &wefti_kernels_reference,
                                                 &lonely, test_buckets, N_BUCKETS, &r),
                         WEFT_ERR_CONFIG);
        assert_null(r);
        assert_true(weft_ctx_message(ctx)[0]);
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
        weft_ctx_clear(ctx);
    }
    weft_ctx_destroy(ctx);
}

typedef struct creation {
    weft_ctx *ctx;
    wefti_replicator_config config;
} creation;

static weft_status create_and_destroy(void *user) {
    creation *c = user;
    wefti_comm pair = {.size = 2};
    wefti_replicator *r;
    weft_status status = wefti_replicator_create(
        c->ctx, &c->config, &wefti_kernels_reference, &pair, test_buckets, N_BUCKETS, &r);
    wefti_replicator_destroy(r);
    return status;
}

TEST(every_failed_allocation_is_a_clean_error) {
    creation c;
    assert_int_equal(weft_ctx_create(&c.ctx), WEFT_OK);
    for (int i = 0; wefti_replicator_registry[i]; i++) {
        for (int values = 0; values < 2; values++) {
            c.config = knobs(wefti_replicator_registry[i]->name, 2, 4, true);
            c.config.route = WEFTI_ROUTE_OWNER;
            c.config.values = values ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32;
            assert_true(fail_each_allocation(c.ctx, NULL, create_and_destroy, &c) > 0);
        }
    }
    weft_ctx_destroy(c.ctx);
}

/* NAME: what goes through all cases is that kind alone. */
int main(int argc, char **argv) {
    only = argc > 1 ? argv[1] : NULL;
    return check_run(NULL, NULL);
}
