/* SPDX-License-Identifier: MIT */
/* Copies of the model inside a node, sites of nodes, and the check that copies are equal.
 */
#include "jobs.h"

static outcome one, two;

/* The same ranks, with and without a wire between the copies. */
TEST(copies_in_a_node_are_nodes_without_a_wire) {
    static const char *const methods[] = {"method=hsdp", "method=flexdemo"};
    for (int i = 0; i < 2; i++) {
        train(&one, "near", false,
              KEYS(methods[i], "mesh.ranks_per_node=4", "mesh.shards=2"));
        train(&two, "far", false,
              KEYS(methods[i], "mesh.nodes=2", "mesh.ranks_per_node=2"));
        assert_trained(&one);
        assert_trained(&two);
        assert_memory_equal(one.loss, two.loss, sizeof one.loss);
        assert_same_file("near/checkpoints/step-00000012/model.safetensors",
                         "far/checkpoints/step-00000012/model.safetensors");
        assert_int_equal(one.wire[3], 0);
        assert_true(two.wire[3] > 0);
        assert_int_equal(one.wire_predicted, 0);
    }
}

/* A node that keeps whole copies reduces inside, sends once and gathers once: with N nodes and
 * a model of P parameters in f32 full synchronization puts 2 (N-1)/N 4 P on a node's interface,
 * gossip 4 P for a neighbour, however many ranks there are; whole copies that know nothing of
 * each other put several times that. Numbers are those of shards that come and go. */
TEST(a_node_of_whole_copies_sends_once) {
    static const char *const nodes[] = {"mesh.nodes=2", "mesh.nodes=4"};
    for (int i = 0; i < 4; i++) {
        const char *method = i % 2 ? "method=dadam" : "method=hsdp", *mesh = nodes[i / 2];
        int64_t N = i < 2 ? 2 : 4, status = (4 * N - 4) * 4 * WEFTI_STATUS_BYTES,
                most = 0;
        train(&one, "kept", false,
              KEYS(method, mesh, "mesh.ranks_per_node=4", "mesh.keep_whole=true"));
        train(&two, "shards", false, KEYS(method, mesh, "mesh.ranks_per_node=4"));
        assert_trained(&one);
        assert_trained(&two);
        double P = (double)one.parameters,
               sent = i % 2 ? 4 * P : 8 * P * (double)(N - 1) / (double)N;
        for (int t = 0; t < one.n_steps; t++) /* pairs do not meet in every step */
            if (one.wire[t] > most) most = one.wire[t];
        assert_memory_equal(one.loss, two.loss, sizeof one.loss);
        assert_memory_equal(one.wire, two.wire, sizeof one.wire);
        if (!(fabs((double)(most - status) / sent - 1) < 0.02))
            fail_msg("%s, %lld nodes: %lld bytes, expected %.0f", method, (long long)N,
                     (long long)most, sent);
        assert_true(one.memory_rank > two.memory_rank);
    }
}

/* Whole copies that know nothing of each other put as many times that on a node's interface as
 * there are of them, and a run tells the bytes of them all. */
TEST(a_node_of_flat_copies_tells_what_all_of_them_send) {
    static const char *const meshes[][2] = {{"mesh.nodes=2", "mesh.ranks_per_node=2"},
                                            {"mesh.nodes=2", "mesh.ranks_per_node=4"},
                                            {"mesh.nodes=4", "mesh.ranks_per_node=2"}};
    for (int i = 0; i < 3; i++) {
        int64_t N = i == 2 ? 4 : 2, S = i == 1 ? 4 : 2, sum = 0;
        train(&one, "flat", false,
              KEYS("method=hsdp", meshes[i][0], meshes[i][1], "mesh.shards=1"));
        assert_trained(&one);
        double P = (double)one.parameters, copies = (double)S;
        double sent = 8 * P * copies * (double)(N - 1) / (double)N;
        int64_t status = S * (N * S - S) * WEFTI_STATUS_BYTES;
        for (int t = 0; t < one.n_steps; t++) sum += one.wire[t];
        assert_int_equal(sum / one.n_steps, one.wire_predicted);
        if (!(fabs((double)(one.wire[3] - status) / sent - 1) < 0.02))
            fail_msg("%lld x %lld: %lld bytes, expected %.0f", (long long)N, (long long)S,
                     (long long)one.wire[3], sent);
    }
}

/* A mean of means of equal groups is the mean; only the order of additions differs. */
TEST(full_in_sites_and_between_them_is_full) {
    train(&one, "levels", false,
          KEYS("method=hsdp", "mesh.nodes=4", "mesh.sites=2", "site_replicator.kind=full",
               "run.compare_every=1"));
    train(&two, "flat", false, KEYS("method=hsdp", "mesh.nodes=4"));
    assert_trained(&one);
    assert_trained(&two);
    assert_close(&one, &two, 1e-4);
}

TEST(each_level_has_its_replicator) {
    static const char *const pairs[][4] = {
        {"replicator.kind=full", "site_replicator.kind=demo", "optimizer.kind=sgd",
         "optimizer.lr=1e-3"},
        {"replicator.kind=demo", "site_replicator.kind=full", "optimizer.kind=sgd",
         "optimizer.lr=1e-3"},
        {"replicator.kind=full", "site_replicator.kind=demo", "site_replicator.every=3",
         "site_replicator.sign=false"}};
    for (int i = 0; i < 3; i++) {
        train(&one, "levels", false,
              KEYS(pairs[i][0], pairs[i][1], pairs[i][2], pairs[i][3], "mesh.nodes=4",
                   "mesh.sites=2", "mesh.ranks_per_node=2", "run.compare_every=1"));
        assert_trained(&one);
        int64_t sum = 0;
        for (int step = 0; step < one.n_steps; step++) sum += one.wire[step];
        assert_int_equal(sum / one.n_steps, one.wire_predicted);
        assert_true(one.loss[11] < one.loss[0]);
    }
}

TEST(levels_resume_to_the_same_bits) {
    static const char *const keys[] = {"replicator.kind=demo",
                                       "replicator.sign=false",
                                       "site_replicator.kind=demo",
                                       "optimizer.kind=sgd",
                                       "optimizer.lr=1e-2",
                                       "mesh.nodes=4",
                                       "mesh.sites=2",
                                       NULL};
    train(&one, "whole", false, keys);
    two.stop_after = 5;
    train(&two, "part", false, keys);
    assert_true(two.result.stopped);
    two.stop_after = 0;
    train(&two, "part", true, keys);
    assert_trained(&one);
    assert_trained(&two);
    assert_same_file("whole/checkpoints/step-00000012/replica-00003.safetensors",
                     "part/checkpoints/step-00000012/replica-00003.safetensors");
    assert_same_file("whole/checkpoints/step-00000012/model.safetensors",
                     "part/checkpoints/step-00000012/model.safetensors");
}

/* -- the check -- */

typedef struct spoiler {
    const wefti_job *job;
    int replica, unit; /* whose parameters change, or -1 */
    char message[512];
} spoiler;

static weft_status compare(rank_env *env) {
    spoiler *s = env->user;
    wefti_comms comms;
    wefti_rank *r;
    WEFT_TRY(take_comms(env, &comms));
    WEFT_TRY(wefti_rank_create(env->ctx, s->job, env->rank, &comms, &r));
    wefti_rank_init_params(r);
    if (r->replica == s->replica)
        r->params[r->arrangement->unit_offset[s->unit]] += 1e-6f;
    weft_status status = wefti_rank_compare(r, 6);
    snprintf(s->message, sizeof s->message, "%s", weft_ctx_message(env->ctx));
    wefti_rank_destroy(r);
    return status;
}

static void spoil(spoiler *spoilers, int replica, int unit, weft_status *statuses) {
    weft_ctx *ctx;
    weft_config *config;
    void *users[3];
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    wefti_job *job = small_job(ctx, KEYS("mesh.nodes=3", "batch.tokens_per_step=480"),
                               &config);
    for (int r = 0; r < 3; r++) {
        spoilers[r] = (spoiler){.job = job, .replica = replica, .unit = unit};
        users[r] = &spoilers[r];
    }
    run_ranks(3, 1, (wefti_wire_model){0, 0}, compare, users, statuses);
    wefti_job_destroy(ctx, job);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

TEST(equal_replicas_pass_and_one_that_differs_is_named) {
    spoiler spoilers[3];
    weft_status statuses[3];
    spoil(spoilers, -1, 0, statuses);
    for (int r = 0; r < 3; r++) assert_int_equal(statuses[r], WEFT_OK);
    spoil(spoilers, 2, 1, statuses);
    assert_int_equal(statuses[2], WEFT_ERR_NUMERIC);
    assert_non_null(strstr(spoilers[2].message, "after step 7"));
    assert_non_null(strstr(spoilers[2].message, "block.0"));
    assert_non_null(strstr(spoilers[2].message, "replica 2"));
}

/* -- what a site says -- */

/* Of each rank: its communicators, and the buckets on which its site has agreed. */
typedef struct speaker {
    const wefti_job *job;
    wefti_comm *site, *between;
    bool agreed[64];
    int n_said;
} speaker;

static speaker speakers[4];
static wefti_comm_ops recorded; /* the backend's, but for two */
static const wefti_comm_ops *backend;

static speaker *speaker_of(const wefti_comm *comm) {
    int r = 0;
    while (speakers[r].site != comm && speakers[r].between != comm) r++;
    return &speakers[r];
}

static int bucket_of(int64_t tag) { return (int)(tag >> 4 & ((1 << 20) - 1)); }

static weft_status note_agreement(wefti_comm *comm, int64_t tag) {
    speaker_of(comm)->agreed[bucket_of(tag)] = true;
    return WEFT_OK;
}

static weft_status send_agreed(wefti_comm *comm, int peer, int64_t tag, const void *data,
                               int64_t n_bytes) {
    speaker *s = speaker_of(comm);
    if (comm == s->between && !s->agreed[bucket_of(tag)])
        return weft_ctx_fail(comm->ctx, WEFT_ERR_INTERNAL, "bucket %d is not agreed on",
                             bucket_of(tag));
    s->n_said += comm == s->between;
    return backend->send(comm, peer, tag, data, n_bytes);
}

/* The exchange of one step. */
static weft_status exchange(rank_env *env) {
    speaker *s = env->user;
    wefti_comms comms;
    wefti_rank *r;
    WEFT_TRY(take_comms(env, &comms));
    s->site = comms.replica;
    s->between = comms.sites;
    comms.replica->ops = comms.sites->ops = &recorded;
    WEFT_TRY(wefti_comm_barrier(comms.control, 1)); /* all speakers are known */
    WEFT_TRY(wefti_rank_create(env->ctx, s->job, env->rank, &comms, &r));
    weft_status status = exchange_once(r);
    if (status == WEFT_OK) status = wefti_comm_barrier(r->comms.control, 2);
    wefti_rank_destroy(r);
    return status;
}

static weft_status find_backend(rank_env *env) {
    if (env->rank == 0) backend = env->replica->ops;
    return WEFT_OK;
}

/* A rank that is lost right after its site has spoken may be the only one that counted its own
 * part; so nobody speaks of a bucket before all of the site have it. */
TEST(a_site_tells_others_only_what_it_has_agreed_on) {
    static const char *const methods[][2] = {
        {"method=hsdp", "site_replicator.kind=full"},
        {"method=hsdp", "site_replicator.kind=demo"},
        {"method=flexdemo", "site_replicator.kind=full"}};
    run_ranks(4, 1, (wefti_wire_model){0, 0}, find_backend, NULL, NULL);
    recorded = *backend;
    recorded.agree = note_agreement;
    recorded.send = send_agreed;
    recorded.send_part = NULL;
    for (int i = 0; i < 3; i++) {
        weft_ctx *ctx;
        weft_config *config;
        void *users[4];
        assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
        wefti_job *job = small_job(
            ctx, KEYS(methods[i][0], methods[i][1], "mesh.nodes=4", "mesh.sites=2"),
            &config);
        for (int r = 0; r < 4; r++) {
            speakers[r] = (speaker){.job = job};
            users[r] = &speakers[r];
        }
        run_ranks_in(
            &(wefti_world_shape){
                .replicas = 4, .shards = 1, .replicas_per_node = 1, .sites = 2},
            exchange, users, NULL);
        for (int r = 0; r < 4; r++) assert_true(speakers[r].n_said > 0);
        wefti_job_destroy(ctx, job);
        weft_config_destroy(ctx, config);
        weft_ctx_destroy(ctx);
    }
}
