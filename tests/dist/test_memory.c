/* SPDX-License-Identifier: MIT */
/* The memory a run takes is known before it begins. Each case runs in a process of its own,
 * because its peak only grows, and before the others: a child has none of OpenMP's threads. */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "training.h"

static outcome run;

/* Children report through the exit code: per cent of the prediction, 100 = exact. */
static int per_cent_in_child(const char *const *keys) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        train(&run, "memory", false, keys);
        if (run.status != WEFT_OK) _exit(255);
        double ratio = (double)run.result.memory_bytes / (double)run.memory_predicted;
        _exit((int)(100 * ratio + 0.5) < 250 ? (int)(100 * ratio + 0.5) : 250);
    }
    int how;
    waitpid(child, &how, 0);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

#define BIG                                                                              \
    "model.layers=4", "model.width=256", "model.heads=4", "data.length=128",             \
        "batch.tokens_per_step=4096", "run.steps=1", "run.eval_tokens=512"

TEST(peak_memory_is_within_a_tenth_of_the_prediction) {
    if (UNDER_SANITIZER) skip(); /* its own memory is many times the program's */
    static const char *const meshes[][3] = {
        {"mesh.nodes=1", "mesh.ranks_per_node=1", "mesh.keep_whole=false"},
        {"mesh.nodes=2", "mesh.ranks_per_node=1", "mesh.keep_whole=false"},
        {"mesh.nodes=1", "mesh.ranks_per_node=4", "mesh.keep_whole=false"},
        {"mesh.nodes=2", "mesh.ranks_per_node=2", "mesh.keep_whole=false"},
        {"mesh.nodes=2", "mesh.ranks_per_node=2", "mesh.keep_whole=true"}};
    for (int mesh = 0; mesh < 5; mesh++) {
        for (int method = 0; method < 2; method++) {
            const char *name = method ? "method=flexdemo" : "method=hsdp";
            int found = per_cent_in_child(
                KEYS(BIG, name, meshes[mesh][0], meshes[mesh][1], meshes[mesh][2]));
            if (found < 90 || found > 110)
                fail_msg("%s %s %s: %d %% of the prediction", name, meshes[mesh][0],
                         meshes[mesh][1], found);
        }
    }
    int found = per_cent_in_child(KEYS(BIG, "model.recompute=true", "model.kind=llama"));
    assert_true(found >= 90 && found <= 110);
    found = per_cent_in_child(KEYS(BIG, "batch.tokens_per_step=512", "run.steps=4",
                                   "mesh.nodes=2", "method=streaming-diloco",
                                   "mixer.outer_every=3", "mixer.fragments=1",
                                   "mixer.delay=2"));
    if (found < 90 || found > 110) fail_msg("streaming: %d %% of the prediction", found);
}

/* Its ids take as much as twice for a moment while they are read, before anything is predicted. */
TEST(a_large_text_is_in_the_prediction) {
    enum { LINES = 400000 };
    if (UNDER_SANITIZER) skip();
    FILE *file = fopen("large.txt", "w");
    assert_non_null(file);
    for (int i = 0; i < LINES; i++)
        fprintf(file, "the %d. thread over and under a warp\n", i);
    fclose(file);
    int found = per_cent_in_child(
        KEYS("data.path=large.txt", "run.steps=2", "method=fsdp"));
    remove("large.txt");
    if (found < 90 || found > 110) fail_msg("%d %% of the prediction", found);
}

TEST(recomputing_takes_less_memory) {
    train(&run, "memory", false, KEYS(BIG));
    assert_trained(&run);
    int64_t kept = run.memory_rank;
    train(&run, "memory", false, KEYS(BIG, "model.recompute=true"));
    assert_trained(&run);
    /* three of four blocks' saved activations: at least 8 floats per token and channel
     * each */
    assert_true(run.memory_rank < kept - 3 * 8 * 4 * 4096 * 256);
}

TEST(a_run_that_does_not_fit_is_refused_with_the_numbers) {
    train(&run, "memory", false,
          KEYS("model.width=1024", "model.layers=48", "model.heads=16",
               "mesh.memory_limit=1GB"));
    assert_int_equal(run.status, WEFT_ERR_MEMORY);
    assert_non_null(strstr(run.message, "the run needs"));
    assert_non_null(strstr(run.message, "is free"));
}
