/* SPDX-License-Identifier: MIT */
/* Decentralized training runs. */
#include "training.h"

static outcome one, two;

#define DADAM "method=dadam", "mesh.nodes=4", "optimizer.lr=3e-3"
#define LAST "/checkpoints/step-00000012/"

static void remove_tree(const char *path) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, wefti_file_remove_tree(ctx, path));
    weft_ctx_destroy(ctx);
}

static void assert_close(const outcome *a, const outcome *b, double tolerance) {
    assert_int_equal(a->n_steps, b->n_steps);
    for (int i = 0; i < a->n_steps; i++)
        if (!(fabs(a->loss[i] - b->loss[i]) <= tolerance * b->loss[i]))
            fail_msg("step %d: %.7f and %.7f", i + 1, a->loss[i], b->loss[i]);
}

/* x - eta g_i, averaged over all, is x - eta mean g: only the rounding differs. */
static void sgd_mixed_with_all_at_once_is_data_parallel(void **state) {
    (void)state;
    static const char *const sizes[] = {"mesh.nodes=2", "mesh.nodes=4"};
    for (int i = 0; i < 2; i++) {
        train(&one, "mixed", false,
              KEYS("replicator.kind=none", "optimizer.kind=sgd", "optimizer.clip=0",
                   "optimizer.lr=0.1", "mixer.kind=gossip", "mixer.topology=complete",
                   "mixer.order=atc", sizes[i]));
        train(&two, "full", false,
              KEYS("replicator.kind=full", "optimizer.kind=sgd", "optimizer.clip=0",
                   "optimizer.lr=0.1", sizes[i]));
        assert_trained(&one);
        assert_trained(&two);
        assert_true(two.loss[11] < two.loss[0] - 0.05);
        assert_close(&one, &two, 1e-5);
    }
}

/* All topologies learn what full synchronization learns, nearly: within 3 % of its loss
 * after these few steps (it moved by 30 %). */
static void every_topology_learns(void **state) {
    (void)state;
    static const char *const kinds[] = {"mixer.topology=aer",
                                        "mixer.topology=ring",
                                        "mixer.topology=complete",
                                        "mixer.topology=exponential",
                                        "mixer.topology=static_exponential",
                                        "mixer.topology=torus",
                                        "mixer.topology=matching"};
    train(&two, "full", false, KEYS("method=hsdp", "mesh.nodes=4", "optimizer.lr=3e-3"));
    assert_trained(&two);
    for (int i = 0; i < 7; i++) {
        train(&one, "gossip", false, KEYS(DADAM, kinds[i]));
        assert_trained(&one);
        assert_true(one.result.validation_loss < 1.03 * two.result.validation_loss);
    }
}

static void overlap_changes_no_bit(void **state) {
    (void)state;
    static const char *const more[][2] = {{"optimizer.clip=0", "mixer.order=awc"},
                                          {"optimizer.clip=1", "mixer.order=awc"},
                                          {"optimizer.clip=0", "mixer.order=atc"}};
    for (int i = 0; i < 3; i++) {
        train(&one, "with", false, KEYS(DADAM, more[i][0], more[i][1]));
        train(&two, "without", false,
              KEYS(DADAM, more[i][0], more[i][1], "mesh.overlap=false"));
        assert_trained(&one);
        assert_trained(&two);
        assert_memory_equal(one.loss, two.loss, sizeof one.loss);
        assert_same_file("with" LAST "replica-00002.safetensors",
                         "without" LAST "replica-00002.safetensors");
    }
}

static void a_stopped_run_goes_on_to_the_same_bits(void **state) {
    (void)state;
    static const char *const optimizers[] = {"optimizer.kind=adamw",
                                             "optimizer.kind=accum_adamw"};
    for (int i = 0; i < 2; i++) {
        train(&one, "whole", false, KEYS(DADAM, optimizers[i], "mesh.link=1Gbit,1ms"));
        train(&two, "part", false, KEYS(DADAM, optimizers[i], "run.save_every=5"));
        assert_trained(&one);
        remove_tree("part/checkpoints/step-00000012");
        train(&two, "part", true, KEYS(DADAM, optimizers[i]));
        assert_trained(&two);
        assert_int_equal(two.first_step, 10);
        assert_same_file("whole" LAST "replica-00003.safetensors",
                         "part" LAST "replica-00003.safetensors");
        assert_same_file("whole" LAST "model.safetensors",
                         "part" LAST "model.safetensors");
    }
}

static void a_request_to_stop_is_heard_by_all(void **state) {
    (void)state;
    one.stop_after = 2;
    train(&one, "stopped", false, KEYS(DADAM, "run.steps=40"));
    assert_trained(&one);
    assert_true(one.result.stopped);
    assert_true(one.n_steps < 40);
    one.stop_after = 0;
    train(&one, "stopped", true, KEYS(DADAM, "run.steps=40"));
    assert_trained(&one);
    assert_int_equal(one.result.steps, 40);
}

static void shards_of_a_replica_mix_with_their_like(void **state) {
    (void)state;
    train(&one, "sharded", false,
          KEYS("method=dadam", "mesh.nodes=2", "mesh.ranks_per_node=2",
               "optimizer.lr=3e-3"));
    train(&two, "whole", false,
          KEYS("method=dadam", "mesh.nodes=2", "optimizer.lr=3e-3"));
    assert_trained(&one);
    assert_trained(&two);
    assert_close(&one, &two, 1e-4);
}

static void bytes_on_the_wire_are_the_bytes_predicted(void **state) {
    (void)state;
    train(&one, "bytes", false, KEYS(DADAM, "mixer.average_every=5"));
    assert_trained(&one);
    int64_t sum = 0;
    for (int i = 0; i < one.n_steps; i++) sum += one.wire[i];
    assert_int_equal(sum / one.n_steps, one.wire_predicted);
    assert_true(sum > 0);
}

/* Sites: full inside, gossip between them; the replicas of a site stay equal. */
static void sites_gossip_while_their_nodes_agree(void **state) {
    (void)state;
    train(&one, "sites", false,
          KEYS("mesh.nodes=4", "mesh.sites=2", "replicator.kind=full",
               "mixer.kind=gossip", "mixer.topology=ring", "optimizer.lr=3e-3",
               "run.compare_every=1"));
    assert_trained(&one);
    assert_true(one.loss[11] < one.loss[0] - 0.2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_mixed_with_all_at_once_is_data_parallel),
        cmocka_unit_test(every_topology_learns),
        cmocka_unit_test(overlap_changes_no_bit),
        cmocka_unit_test(a_stopped_run_goes_on_to_the_same_bits),
        cmocka_unit_test(a_request_to_stop_is_heard_by_all),
        cmocka_unit_test(shards_of_a_replica_mix_with_their_like),
        cmocka_unit_test(bytes_on_the_wire_are_the_bytes_predicted),
        cmocka_unit_test(sites_gossip_while_their_nodes_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
