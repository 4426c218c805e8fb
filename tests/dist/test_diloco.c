/* SPDX-License-Identifier: MIT */
/* DiLoCo and Streaming DiLoCo in training runs. */
#include "training.h"

static outcome one, two, part;

#define LAST "/checkpoints/step-00000012/"
#define DILOCO "method=diloco", "mixer.outer_every=4", "optimizer.lr=3e-3"
#define STREAMING                                                                        \
    "method=streaming-diloco", "mixer.outer_every=6", "mixer.fragments=3",               \
        "mixer.delay=4", "optimizer.lr=3e-3"

/* s - (s - (theta - lr g_i)), averaged, is theta - lr mean g: only the rounding differs.
 * A change is a difference of numbers up to 1 and keeps 2^-24 of them, 1e-5 of a step. */
TEST(one_inner_step_and_a_plain_outer_one_are_data_parallel) {
    static const char *const sizes[] = {"mesh.nodes=2", "mesh.nodes=4"};
    for (int i = 0; i < 2; i++) {
        train(&one, "outer", false,
              KEYS("replicator.kind=none", "optimizer.kind=sgd", "optimizer.clip=0",
                   "optimizer.lr=0.3", "mixer.kind=outer", "mixer.outer_every=1",
                   "mixer.outer_lr=1", "mixer.outer_momentum=0", "run.compare_every=1",
                   "run.steps=24", sizes[i]));
        train(&two, "full", false,
              KEYS("replicator.kind=full", "optimizer.kind=sgd", "optimizer.clip=0",
                   "optimizer.lr=0.3", "run.steps=24", sizes[i]));
        assert_trained(&one);
        assert_trained(&two);
        assert_true(two.loss[23] < two.loss[0] - 0.3);
        assert_close(&one, &two, 1e-5);
        assert_true(fabs(one.result.validation_loss - two.result.validation_loss) <
                    1e-5 * two.result.validation_loss);
    }
}

/* Plain SGD keeps no state of its own, so that whole replica files can be compared:
 * parameters, start and velocity. */
TEST(replicas_are_equal_after_an_outer_step_and_only_then) {
    static const char *const every[] = {"mixer.outer_every=4", "mixer.outer_every=5"};
    for (int i = 0; i < 2; i++) {
        train(&one, "outer", false,
              KEYS("method=diloco", "optimizer.kind=sgd", "optimizer.lr=0.1",
                   "mesh.nodes=3", "batch.tokens_per_step=480", "run.compare_every=1",
                   every[i]));
        assert_trained(&one);
        int64_t n_a, n_b;
        char *a = slurp("outer" LAST "replica-00000.safetensors", &n_a);
        char *b = slurp("outer" LAST "replica-00002.safetensors", &n_b);
        assert_int_equal(n_a, n_b);
        assert_int_equal(memcmp(a, b, (size_t)n_a) == 0, i == 0);
        free(a);
        free(b);
    }
}

static int64_t sum_of_wire(const outcome *o) {
    int64_t sum = 0;
    for (int i = 0; i < o->n_steps; i++) sum += o->wire[i];
    return sum;
}

/* Two nodes: an exchange of n numbers sends n, half of them asked and half answered; the
 * status is there in every step. */
TEST(bytes_are_those_predicted_and_few) {
    train(&one, "outer", false, KEYS(DILOCO, "mesh.nodes=2", "run.steps=24"));
    assert_trained(&one);
    assert_int_equal(sum_of_wire(&one) / 24, one.wire_predicted);
    for (int i = 1; i < 24; i++)
        assert_true(i % 4 == 3 ? one.wire[i] > 100 * one.wire[0]
                               : one.wire[i] == one.wire[0]);
    train(&two, "full", false, KEYS("method=hsdp", "mesh.nodes=2", "run.steps=24"));
    assert_trained(&two);
    assert_int_equal(one.wire[3], two.wire[3]);
    train(&two, "coded", false,
          KEYS(STREAMING, "mesh.nodes=2", "mesh.ranks_per_node=2", "run.steps=24",
               "mesh.min_message=0"));
    assert_trained(&two);
    assert_int_equal(sum_of_wire(&two) / 24, two.wire_predicted);
}

/* A rank that is through with its first step waits for nobody: others may still be about
 * to begin, and allocate. Behind the status of that step all are there. */
TEST(nothing_is_allocated_after_the_first_step) {
    train(&one, "outer", false, KEYS(DILOCO, "mesh.nodes=2", "mesh.ranks_per_node=2"));
    train(&two, "streaming", false,
          KEYS(STREAMING, "mesh.nodes=4", "mesh.min_message=0"));
    assert_trained(&one);
    assert_trained(&two);
    for (int i = 2; i < 12; i++) {
        assert_int_equal(one.allocations[i], one.allocations[1]);
        assert_int_equal(two.allocations[i], two.allocations[1]);
    }
}

TEST(overlap_changes_no_bit) {
    static const char *const clips[] = {"optimizer.clip=0", "optimizer.clip=1"};
    for (int i = 0; i < 2; i++) {
        for (int streaming = 0; streaming < 2; streaming++) {
            const char *const *keys =
                streaming
                    ? KEYS(STREAMING, "mesh.nodes=4", clips[i], "mesh.min_message=0")
                    : KEYS(DILOCO, "mesh.nodes=2", clips[i], "mesh.ranks_per_node=2");
            const char *without[16];
            int n = 0;
            for (; keys[n]; n++) without[n] = keys[n];
            without[n] = "mesh.overlap=false";
            without[n + 1] = NULL;
            train(&one, "with", false, keys);
            train(&two, "without", false, without);
            assert_trained(&one);
            assert_trained(&two);
            assert_memory_equal(one.loss, two.loss, sizeof one.loss);
            assert_same_file("with" LAST "replica-00001.safetensors",
                             "without" LAST "replica-00001.safetensors");
        }
    }
}

/* With exchanges of three fragments under way; contract/mixers stops after each step. */
TEST(a_run_stopped_on_its_way_goes_on_to_the_same_bits) {
    const char *const *keys = KEYS(STREAMING, "mesh.nodes=2", "mesh.min_message=0",
                                   "mixer.rounding=stochastic");
    train(&one, "whole", false, keys);
    assert_trained(&one);
    for (int stop = 2; stop < 12; stop += 3) {
        part.stop_after = stop;
        train(&part, "part", false, keys);
        assert_trained(&part);
        assert_true(part.result.stopped);
        two.stop_after = 0;
        train(&two, "part", true, keys);
        assert_trained(&two);
        assert_int_equal(two.first_step, part.result.steps);
        for (int r = 0; r < 2; r++) {
            char a[80], b[80];
            snprintf(a, sizeof a, "whole" LAST "replica-%05d.safetensors", r);
            snprintf(b, sizeof b, "part" LAST "replica-%05d.safetensors", r);
            assert_same_file(a, b);
        }
    }
}

TEST(a_finished_run_goes_on_when_it_gets_more_steps) {
    train(&one, "longer", false,
          KEYS(STREAMING, "mesh.nodes=2", "mesh.min_message=0", "run.steps=12"));
    train(&two, "longer", true,
          KEYS(STREAMING, "mesh.nodes=2", "mesh.min_message=0", "run.steps=30"));
    assert_trained(&one);
    assert_trained(&two);
    assert_int_equal(two.first_step, 12);
    for (int i = 12; i < 30; i++) assert_true(two.loss[i] < one.loss[10]);
}

/* Each replica goes on from the mean of those that were saved. */
TEST(another_number_of_nodes_goes_on) {
    static const char *const methods[][4] = {{DILOCO, "mesh.min_message=0"},
                                             {"method=streaming-diloco",
                                              "mixer.outer_every=6", "optimizer.lr=3e-3",
                                              "mixer.delay=4"}};
    for (int i = 0; i < 2; i++) {
        const char *const *m = methods[i];
        part.stop_after = 7;
        train(&part, "part", false,
              KEYS(m[0], m[1], m[2], m[3], "mixer.outer_momentum=0.9", "mesh.nodes=4"));
        assert_trained(&part);
        two.stop_after = 0;
        train(&two, "part", true,
              KEYS(m[0], m[1], m[2], m[3], "mixer.outer_momentum=0.9", "mesh.nodes=2",
                   "mesh.ranks_per_node=2", "run.compare_every=1"));
        assert_trained(&two);
        for (int s = two.first_step; s < 12; s++)
            assert_true(two.loss[s] < part.loss[two.first_step - 2]);
    }
}

/* The same numbers with the shards' gradients added in another order. */
TEST(shards_change_no_more_than_the_rounding) {
    train(&one, "shards", false,
          KEYS(DILOCO, "mesh.nodes=2", "mesh.ranks_per_node=2", "run.steps=24"));
    train(&two, "whole", false, KEYS(DILOCO, "mesh.nodes=2", "run.steps=24"));
    assert_trained(&one);
    assert_trained(&two);
    assert_close(&one, &two, 2e-4);
}

/* Two sites of two nodes: whole files of demo's momentum differ, so the checksums of all
 * parameters, taken in every step that they ought to be equal in, have to do. */
TEST(sites_take_outer_steps_too) {
    train(&one, "sites", false,
          KEYS("replicator.kind=demo", "optimizer.kind=sgd", "optimizer.lr=1e-2",
               "optimizer.clip=0", "mixer.kind=outer", "mixer.outer_every=3",
               "mesh.nodes=4", "mesh.sites=2", "mesh.min_message=0",
               "run.compare_every=1"));
    assert_trained(&one);
    assert_int_equal(sum_of_wire(&one) / 12, one.wire_predicted);
    assert_true(one.loss[11] < one.loss[0] - 0.3);
}

/* If the outer start were not that of the loaded model, the first outer step would go
 * back to a fresh one. */
TEST(it_starts_from_the_model_it_is_given) {
    train(&one, "given", false, KEYS("method=hsdp", "optimizer.lr=3e-3", "run.steps=40"));
    train(&two, "outer", false,
          KEYS("method=diloco", "mixer.outer_every=1", "optimizer.lr=1e-4",
               "mesh.nodes=2", "model.init=given"));
    assert_trained(&one);
    assert_trained(&two);
    for (int i = 0; i < 12; i++) assert_true(two.loss[i] < one.loss[25]);
}

/* After so few steps the outer momentum is still settling: within a quarter of the loss
 * of full synchronization, which is a third of the first step's. */
TEST(both_presets_learn) {
    if (UNDER_SANITIZER) skip(); /* nothing new to find in more steps */
    static const char *const methods[][2] = {
        {"method=diloco", "mixer.delay=0"}, {"method=streaming-diloco", "mixer.delay=3"}};
    train(&two, "full", false,
          KEYS("method=hsdp", "mesh.nodes=2", "run.steps=120", "optimizer.lr=3e-3"));
    assert_trained(&two);
    assert_true(two.result.validation_loss < two.loss[0] / 3);
    for (int i = 0; i < 2; i++) {
        train(&one, "learns", false,
              KEYS(methods[i][0], methods[i][1], "mixer.outer_every=10", "mesh.nodes=2",
                   "mesh.min_message=0", "run.steps=120", "optimizer.lr=3e-3"));
        assert_trained(&one);
        if (one.result.validation_loss > 1.25 * two.result.validation_loss)
            fail_msg("%s: validation loss %f, full synchronization %f", methods[i][0],
                     one.result.validation_loss, two.result.validation_loss);
    }
}

/* In each step one of four ranks, drawn anew, stands still, and between two exchanges the others
 * wait for nothing of it but its status: two of these are that far apart at least, and the steps
 * of the first rank add up to all of it. */
TEST(waiting_for_the_status_is_in_the_steps) {
    double sum_s = 0;
    train(&one, "status", false,
          KEYS("method=diloco", "mixer.outer_every=12", "run.steps=24", "mesh.nodes=4",
               "mesh.compute_time=0.002", "mesh.straggler_time=0.02"));
    assert_trained(&one);
    for (int i = 1; i < 24; i++) sum_s += one.step_s[i];
    if (sum_s < 22 * 0.02) fail_msg("23 steps took %.3f s", sum_s);
}
