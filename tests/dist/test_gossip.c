/* SPDX-License-Identifier: MIT */
/* Decentralized training runs. */
#include "training.h"

static outcome one, two;

/* The thread sanitizer sees each second form: what messages hold is not its matter. */
enum { NEXT = 1 + UNDER_SANITIZER };

#define DADAM "method=dadam", "mesh.nodes=4", "optimizer.lr=3e-3"
#define LAST "/checkpoints/step-00000012/"

static void remove_tree(const char *path) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, wefti_file_remove_tree(ctx, path));
    weft_ctx_destroy(ctx);
}

/* x - eta g_i, averaged over all, is x - eta mean g: only the rounding differs. */
TEST(sgd_mixed_with_all_at_once_is_data_parallel) {
    static const char *const sizes[] = {"mesh.nodes=2", "mesh.nodes=4"};
    for (int i = UNDER_SANITIZER; i < 2; i++) {
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
TEST(every_topology_learns) {
    static const char *const kinds[] = {"mixer.topology=aer",
                                        "mixer.topology=ring",
                                        "mixer.topology=complete",
                                        "mixer.topology=exponential",
                                        "mixer.topology=static_exponential",
                                        "mixer.topology=torus",
                                        "mixer.topology=matching",
                                        "mixer.topology=push"};
    train(&two, "full", false, KEYS("method=hsdp", "mesh.nodes=4", "optimizer.lr=3e-3"));
    assert_trained(&two);
    for (int i = 0; i < 8; i += NEXT) {
        train(&one, "gossip", false, KEYS(DADAM, kinds[i]));
        assert_trained(&one);
        assert_true(one.result.validation_loss < 1.03 * two.result.validation_loss);
    }
}

TEST(overlap_changes_no_bit) {
    static const char *const more[][3] = {
        {"optimizer.clip=0", "mixer.order=awc", "mixer.topology=aer"},
        {"optimizer.clip=1", "mixer.order=awc", "mixer.topology=aer"},
        {"optimizer.clip=0", "mixer.order=atc", "mixer.topology=push"},
        {"optimizer.clip=0", "mixer.order=awc", "mixer.topology=complete"},
        {"optimizer.clip=1", "mixer.order=awc", "mixer.topology=complete"},
        {"optimizer.clip=0", "mixer.order=atc", "mixer.topology=complete"},
        {"optimizer.clip=1", "mixer.kind=tracking", "mixer.topology=complete"}};
    for (int i = 0; i < 7; i += NEXT) {
        train(&one, "with", false,
              KEYS(DADAM, more[i][0], more[i][1], more[i][2], "mesh.link=1Gbit,1ms"));
        train(&two, "without", false,
              KEYS(DADAM, more[i][0], more[i][1], more[i][2], "mesh.overlap=false"));
        assert_trained(&one);
        assert_trained(&two);
        assert_memory_equal(one.loss, two.loss, sizeof one.loss);
        assert_same_file("with" LAST "replica-00002.safetensors",
                         "without" LAST "replica-00002.safetensors");
    }
}

TEST(a_stopped_run_goes_on_to_the_same_bits) {
    static const char *const more[][2] = {
        {"optimizer.kind=adamw", "mixer.order=awc"},
        {"optimizer.kind=accum_adamw", "mixer.order=awc"},
        {"mixer.topology=push", "mixer.order=awc"},
        {"mixer.topology=push", "mixer.order=atc"},
        {"mixer.topology=complete", "mixer.order=awc"},
        {"mixer.kind=tracking", "optimizer.kind=muon"},
        {"mixer.kind=gossip_outer", "mixer.outer_every=5"},
        {"mixer.kind=choco", "mixer.values=int4"}};
    for (int i = 0; i < 8; i += NEXT) {
        train(&one, "whole", false,
              KEYS(DADAM, more[i][0], more[i][1], "mesh.link=1Gbit,1ms"));
        train(&two, "part", false,
              KEYS(DADAM, more[i][0], more[i][1], "run.save_every=5"));
        assert_trained(&one);
        remove_tree("part/checkpoints/step-00000012");
        train(&two, "part", true, KEYS(DADAM, more[i][0], more[i][1]));
        assert_trained(&two);
        assert_int_equal(two.first_step, 10);
        assert_same_file("whole" LAST "replica-00003.safetensors",
                         "part" LAST "replica-00003.safetensors");
        assert_same_file("whole" LAST "model.safetensors",
                         "part" LAST "model.safetensors");
    }
}

/* A node alone tracks its own gradient, as clipping leaves it. */
TEST(a_direction_is_of_clipped_gradients) {
    static const char *const clips[] = {"optimizer.clip=0", "optimizer.clip=0.1"};
    for (int i = 0; i < 2; i++) {
        train(&one, "gossip", false,
              KEYS("method=dadam", "optimizer.kind=sgd", "optimizer.lr=0.1", clips[i]));
        train(&two, "tracking", false,
              KEYS("method=dadam", "optimizer.kind=sgd", "optimizer.lr=0.1", clips[i],
                   "mixer.kind=tracking"));
        assert_trained(&one);
        assert_trained(&two);
        assert_close(&one, &two, 1e-5);
    }
}

TEST(what_would_track_no_gradients_is_refused) {
    static const char *const bad[][3] = {
        {"mixer.topology=push", "mesh.sites=1", "mixer.topology is push with mixer.kind"},
        {"batch.shares=speed", "mesh.sites=1", "a mixer of directions"},
        {"replicator.kind=demo", "mesh.sites=2",
         "mixer.kind is tracking with replicator.kind demo, expected none or full"}};
    for (int i = 0; i < 3; i++) {
        train(&one, "refused", false,
              KEYS(DADAM, "mixer.kind=tracking", bad[i][0], bad[i][1]));
        assert_int_equal(one.status, WEFT_ERR_CONFIG);
        if (!strstr(one.message, bad[i][2])) fail_msg("%s", one.message);
    }
}

TEST(a_request_to_stop_is_heard_by_all) {
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

TEST(shards_of_a_replica_mix_with_their_like) {
    train(&one, "sharded", false,
          KEYS("method=dadam", "mesh.nodes=2", "mesh.ranks_per_node=2",
               "optimizer.lr=3e-3"));
    train(&two, "whole", false,
          KEYS("method=dadam", "mesh.nodes=2", "optimizer.lr=3e-3"));
    assert_trained(&one);
    assert_trained(&two);
    assert_close(&one, &two, 1e-4);
}

TEST(bytes_on_the_wire_are_the_bytes_predicted) {
    static const char *const more[][2] = {
        {"mixer.average_every=5", "mixer.topology=aer"},
        {"mixer.topology=complete", "mixer.order=atc"},
        {"mixer.topology=push", "mixer.average_every=4"},
        {"mixer.kind=choco", "mixer.values=int8"},
        {"mixer.kind=tracking", "mixer.average_every=5"},
        {"mixer.kind=gossip_outer", "mixer.outer_every=4"},
        {"mesh.ranks_per_node=2", "mesh.shards=1"}}; /* two copies per node */
    for (int i = 0; i < 7; i++) {
        train(&one, "bytes", false, KEYS(DADAM, more[i][0], more[i][1]));
        assert_trained(&one);
        int64_t sum = 0;
        for (int t = 0; t < one.n_steps; t++) sum += one.wire[t];
        assert_int_equal(sum / one.n_steps, one.wire_predicted);
        assert_true(sum > 0);
    }
}

/* Sites: full inside, gossip between them; the replicas of a site stay equal. Three sites
 * that all meet take their mean in two rounds. */
TEST(sites_gossip_while_their_nodes_agree) {
    static const char *const more[][4] = {
        {"mesh.nodes=4", "mesh.sites=2", "mixer.topology=ring", "mixer.order=awc"},
        {"mesh.nodes=6", "mesh.sites=3", "mixer.topology=complete", "mixer.order=awc"},
        {"mesh.nodes=3", "mesh.sites=3", "mixer.topology=push", "mesh.ranks_per_node=2"},
        {"mesh.nodes=6", "mesh.sites=3", "mixer.consensus_bound=0.05",
         "mixer.topology=push"}};
    for (int i = 0; i < 4; i++) {
        train(&one, "sites", false,
              KEYS("replicator.kind=full", "mixer.kind=gossip", "optimizer.lr=3e-3",
                   "run.compare_every=1", "batch.tokens_per_step=768", more[i][0],
                   more[i][1], more[i][2], more[i][3]));
        assert_trained(&one);
        assert_true(one.loss[11] < one.loss[0] - 0.2);
    }
}

/* --- consensus control --- */

#define CONTROL DADAM, "run.steps=30", "mixer.topology=ring", "mixer.consensus_bound=0.1"
#define LAST_OF_30 "/checkpoints/step-00000030/replica-00001.safetensors"

/* The rule: the gossip round of step u is a mean of all if the distance that the status of step
 * u - 10 tells exceeds the bound; record i is of step i, its status tells of step i - 1. */
TEST(control_follows_the_status_of_ten_steps_before) {
    int means = 0;
    train(&one, "control", false, KEYS(CONTROL));
    assert_trained(&one);
    for (int u = 0; u < 30; u++) {
        bool expected = u >= 10 && one.distance[u - 10] > 0.1;
        assert_int_equal(one.mean_of_all[u], expected);
        means += expected;
    }
    assert_true(means > 3 && means < 17);
}

/* Evaluations, comparisons and checkpoints read the status earlier. */
TEST(control_does_not_depend_on_when_the_status_is_read) {
    train(&one, "seldom", false, KEYS(CONTROL));
    train(&two, "often", false,
          KEYS(CONTROL, "run.eval_every=3", "run.save_every=4", "run.compare_every=7"));
    assert_trained(&one);
    assert_trained(&two);
    assert_memory_equal(one.mean_of_all, two.mean_of_all, sizeof one.mean_of_all);
    assert_same_file("seldom" LAST_OF_30, "often" LAST_OF_30);
}

TEST(a_controlled_run_goes_on_to_the_same_bits) {
    static const char *const kinds[] = {"mixer.order=awc", "mixer.topology=push",
                                        "mixer.order=atc"};
    static const char *const later[] = {"part/checkpoints/step-00000030",
                                        "part/checkpoints/step-00000026",
                                        "part/checkpoints/step-00000013"};
    for (int k = 0; k < 3; k += NEXT) {
        train(&one, "whole", false, KEYS(CONTROL, kinds[k]));
        assert_trained(&one);
        train(&two, "part", false, KEYS(CONTROL, kinds[k], "run.save_every=13"));
        assert_trained(&two);
        for (int i = 0; i < 2; i++) {
            for (int j = 0; j <= i; j++) remove_tree(later[j]);
            train(&two, "part", true, KEYS(CONTROL, kinds[k], "run.save_every=13"));
            assert_trained(&two);
            assert_int_equal(two.first_step, i == 0 ? 26 : 13);
            for (int u = two.first_step; u < 30; u++)
                assert_int_equal(two.mean_of_all[u], one.mean_of_all[u]);
            assert_same_file("whole" LAST_OF_30, "part" LAST_OF_30);
        }
    }
}

/* A bound that is always exceeded, and one that never is. */
TEST(control_pulls_replicas_together) {
    train(&one, "loose", false, KEYS(CONTROL, "mixer.consensus_bound=1000"));
    train(&two, "tight", false, KEYS(CONTROL, "mixer.consensus_bound=1e-9"));
    assert_trained(&one);
    assert_trained(&two);
    for (int u = 0; u < 30; u++) {
        assert_int_equal(one.mean_of_all[u], 0);
        assert_true(u < 12 || two.mean_of_all[u] == 1); /* at first all are equal */
    }
    assert_true(two.distance[29] < 0.7 * one.distance[29]);
}

static bool contains(const char *path, const char *words) {
    int64_t n;
    char *text = slurp(path, &n);
    text[n] = '\0';
    bool found = strstr(text, words) != NULL;
    free(text);
    return found;
}

TEST(what_a_mixer_does_without_is_not_told) {
    train(&one, "plain", false, KEYS(DADAM));
    train(&two, "both", false,
          KEYS(DADAM, "mixer.consensus_bound=1", "mixer.deadline=3600"));
    assert_trained(&one);
    assert_trained(&two);
    assert_int_equal(one.mean_of_all[5], -1);
    assert_int_equal(one.late[5], -1);
    assert_int_equal(two.late[5], 0);
    assert_false(contains("plain/metrics.jsonl", "mean_of_all"));
    assert_false(contains("plain/metrics.jsonl", "late"));
    assert_true(contains("both/metrics.jsonl", "\"mean_of_all\":0"));
    assert_true(contains("both/metrics.jsonl", "\"late\":0"));
}

/* --- deadline --- */

TEST(a_deadline_that_nobody_misses_changes_no_bit) {
    static const char *const orders[] = {"mixer.order=awc", "mixer.order=atc"};
    for (int i = 0; i < 2; i++) {
        train(&one, "patient", false, KEYS(DADAM, orders[i], "mixer.deadline=3600"));
        train(&two, "forever", false, KEYS(DADAM, orders[i]));
        assert_trained(&one);
        assert_trained(&two);
        assert_memory_equal(one.loss, two.loss, sizeof one.loss);
        for (int t = 0; t < one.n_steps; t++) assert_int_equal(one.late[t], 0);
        assert_same_file("patient" LAST "replica-00002.safetensors",
                         "forever" LAST "replica-00002.safetensors");
    }
}

/* One rank stands still in each step, and messages travel for much longer than a step,
 * also on a busy machine: there is always somebody late, and the run comes to its end,
 * here and resumed. */
TEST(a_run_goes_on_without_those_who_are_late) {
    static const char *const more[][2] = {
        {"mixer.order=awc", "mixer.topology=exponential"},
        {"mixer.order=atc", "mixer.topology=complete"},
        {"mixer.order=awc", "optimizer.clip=0"}};
    for (int i = 0; i < 3; i++) {
        int64_t late = 0;
        train(&one, "late", false,
              KEYS(DADAM, more[i][0], more[i][1], "mesh.link=1Gbit,500ms",
                   "mesh.compute_time=0.01", "mesh.straggler_time=0.01",
                   "mixer.deadline=0.001", "run.steps=20", "run.save_every=10",
                   "mixer.average_every=6"));
        assert_trained(&one);
        for (int t = 0; t < 20; t++) late += one.late[t];
        assert_true(late > 10);
        assert_true(one.loss[19] < one.loss[0] - 0.1);
        remove_tree("late/checkpoints/step-00000020");
        train(
            &one, "late", true,
            KEYS(DADAM, more[i][0], more[i][1], "mixer.deadline=0.001", "run.steps=20"));
        assert_trained(&one);
        assert_int_equal(one.first_step, 10);
    }
}
