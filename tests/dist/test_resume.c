/* SPDX-License-Identifier: MIT */
/* Stopping, resuming, and what a checkpoint holds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/lease.h"
#include "base/clock.h"
#include "training.h"

static outcome whole, part, rest;

/* ---- what reaches the disk first ---- */

static atomic_llong synced_bytes;   /* of the metrics.jsonl that was synced last */
static atomic_int published, early; /* checkpoints; those that came before their lines */

/* In the place of the C library's: which file it is, then the system's own. */
int fsync(int fd) {
    char link[64], path[4096] = "";
    struct stat info;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    (void)!readlink(link, path, sizeof path - 1);
    if (strstr(path, "/metrics.jsonl") && fstat(fd, &info) == 0)
        atomic_store(&synced_bytes, info.st_size);
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    char lines[4200];
    struct stat info;
    const char *at = strstr(from, "/checkpoints/step-");
    if (at && strcmp(from + strlen(from) - 8, ".partial") == 0) {
        snprintf(lines, sizeof lines, "%.*s/metrics.jsonl", (int)(at - from), from);
        atomic_fetch_add(&published, 1);
        if (stat(lines, &info) != 0 || info.st_size != atomic_load(&synced_bytes))
            atomic_fetch_add(&early, 1);
    }
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

#define LAST "checkpoints/step-00000012"

static int stop_after = 5; /* where the status is read at pauses alone: 2 */

static void check_resume(const char *const *keys, bool has_momentum, bool has_moments) {
    train(&whole, "whole", false, keys);
    assert_trained(&whole);
    part.stop_after = stop_after;
    train(&part, "part", false, keys);
    assert_trained(&part);
    assert_true(part.result.stopped);
    int done = (int)part.result.steps;
    assert_true(done >= stop_after && done < 12);
    rest.stop_after = 0;
    train(&rest, "part", true, keys);
    assert_trained(&rest);
    assert_int_equal(rest.first_step, done);
    for (int i = 0; i < 12; i++)
        assert_true((i < done ? part : rest).loss[i] == whole.loss[i]);
    assert_same_file("whole/" LAST "/model.safetensors",
                     "part/" LAST "/model.safetensors");
    if (has_momentum)
        assert_same_file("whole/" LAST "/replica-00001.safetensors",
                         "part/" LAST "/replica-00001.safetensors");
    if (has_moments)
        assert_same_file("whole/" LAST "/optimizer.safetensors",
                         "part/" LAST "/optimizer.safetensors");
}

TEST(a_stopped_run_resumes_to_the_same_bits) {
    check_resume(KEYS("method=hsdp", "mesh.nodes=2", "mesh.ranks_per_node=2"), false,
                 true);
    check_resume(KEYS("method=flexdemo", "mesh.nodes=2", "mesh.ranks_per_node=2"), true,
                 false);
    check_resume(KEYS("method=signsgd", "mesh.nodes=2"), true, false);
    check_resume(KEYS("method=powersgd", "mesh.nodes=2", "mesh.ranks_per_node=2"), true,
                 true);
    check_resume(KEYS("method=flexdemo", "mesh.nodes=2", "optimizer.kind=adamw",
                      "model.dropout=0.1", "optimizer.clip=1"),
                 true, true);
    check_resume(KEYS("method=hsdp", "mesh.nodes=2", "mesh.ranks_per_node=2",
                      "optimizer.kind=muon", "optimizer.whole_every=3",
                      "optimizer.rows=0.5"),
                 false, true);
}

/* What is under way at a checkpoint is in it. */
TEST(a_delayed_run_resumes_to_the_same_bits) {
    stop_after = 2;
    check_resume(KEYS("method=async-demo", "mesh.nodes=2", "mesh.ranks_per_node=2",
                      "run.save_every=2"),
                 true, false);
    check_resume(KEYS("method=async-demo", "mesh.nodes=2", "optimizer.kind=adamw",
                      "replicator.every=2", "optimizer.clip=1", "run.save_every=3"),
                 true, true);
    stop_after = 5;
}

static int n_evaluated;

static void expect_saved(int64_t step) {
    char file[128];
    snprintf(file, sizeof file, "part/checkpoints/step-%08d/index.json", (int)step);
    assert_int_equal(access(file, F_OK), 0);
    n_evaluated++;
}

/* Held-out text may take longer than many steps: nothing that a kill would lose waits for it. */
TEST(a_checkpoint_is_there_before_its_step_is_evaluated) {
    part.stop_after = 0;
    n_evaluated = 0;
    part.at_evaluation = expect_saved;
    train(&part, "part", false,
          KEYS("mesh.nodes=2", "method=dadam", "run.eval_every=6", "run.save_every=6"));
    part.at_evaluation = NULL;
    assert_trained(&part);
    assert_int_equal(n_evaluated, 2);
}

/* All ranks leave it between the same two passes, and nothing but its loss is missing. */
TEST(an_evaluation_ends_when_a_rank_is_asked_to_stop) {
    static const char *const methods[] = {"method=hsdp", "method=dadam"};
    for (int i = 0; i < 2; i++) {
        part.stop_after = 13; /* after the last step */
        train(&part, "part", false,
              KEYS("mesh.nodes=2", "mesh.ranks_per_node=2", methods[i], "batch.micro=1"));
        assert_trained(&part);
        assert_int_equal(part.result.steps, 12);
        assert_true(isnan(part.result.validation_loss));
        assert_int_equal(access("part/" LAST "/index.json", F_OK), 0);
        part.stop_after = 14;
        train(&part, "part", false,
              KEYS("mesh.nodes=2", "mesh.ranks_per_node=2", methods[i], "batch.micro=1"));
        assert_trained(&part);
        assert_true(!isnan(part.result.validation_loss));
    }
}

/* The clock decides when, and no number depends on it; steps in which the status comes late. */
TEST(a_run_is_saved_by_time) {
    static const char *const methods[][3] = {
        {"method=hsdp", "mesh.ranks_per_node=2", "1"},
        {"method=async-demo", "mesh.nodes=2", "9"},
        {"method=dadam", "mixer.consensus_bound=1e-3", "9"}};
    part.stop_after = rest.stop_after = 0;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        char file[128];
        const char *const *m = methods[i];
        train(&whole, "whole", false,
              KEYS("mesh.nodes=2", m[0], m[1], "run.save_time=0"));
        assert_trained(&whole);
        train(&part, "part", false,
              KEYS("mesh.nodes=2", m[0], m[1], "run.save_time=1e-9", "run.keep=0"));
        assert_trained(&part);
        assert_memory_equal(part.loss, whole.loss, sizeof part.loss[0] * 12);
        assert_same_file("whole/" LAST "/model.safetensors",
                         "part/" LAST "/model.safetensors");
        snprintf(file, sizeof file, "part/checkpoints/step-%08d/index.json", atoi(m[2]));
        assert_int_equal(access(file, F_OK), 0);
        assert_ok(NULL, wefti_file_remove_tree(NULL, "part/" LAST));
        train(&rest, "part", true, KEYS("mesh.nodes=2", m[0], m[1], "run.save_time=0"));
        assert_trained(&rest);
        assert_in_range(rest.first_step, atoi(m[2]), 11);
        assert_same_file("whole/" LAST "/model.safetensors",
                         "part/" LAST "/model.safetensors");
    }
}

/* Same numbers in another order of summation, as in test_meshes.c. */
TEST(full_resumes_on_another_mesh_to_within_rounding) {
    train(&whole, "whole", false, KEYS("method=hsdp"));
    assert_trained(&whole);
    static const char *const meshes[][2] = {{"mesh.nodes=2", "mesh.ranks_per_node=2"},
                                            {"mesh.nodes=1", "mesh.ranks_per_node=4"},
                                            {"mesh.nodes=4", "mesh.ranks_per_node=1"}};
    for (int i = 0; i < 3; i++) {
        part.stop_after = 6;
        train(&part, "part", false, KEYS("method=hsdp", "mesh.nodes=2"));
        assert_trained(&part);
        rest.stop_after = 0;
        train(&rest, "part", true, KEYS("method=hsdp", meshes[i][0], meshes[i][1]));
        assert_trained(&rest);
        for (int s = rest.first_step; s < 12; s++)
            assert_true(fabs(rest.loss[s] - whole.loss[s]) < 1e-5 * whole.loss[s]);
    }
}

/* Each node starts with the mean momentum of the nodes that were saved, so the next step
 * is the same kind of step; the loss goes on falling. */
TEST(demo_resumes_on_another_number_of_nodes) {
    part.stop_after = 6;
    train(&part, "part", false,
          KEYS("method=flexdemo", "mesh.nodes=4", "optimizer.lr=1e-2"));
    assert_trained(&part);
    rest.stop_after = 0;
    train(&rest, "part", true,
          KEYS("method=flexdemo", "mesh.nodes=2", "mesh.ranks_per_node=2",
               "optimizer.lr=1e-2"));
    assert_trained(&rest);
    assert_true(rest.loss[11] < part.loss[part.n_steps - 1]);
}

/* The parameters that the saved replicas have in the mean are those with which another number of
 * replicas begins: with a rate of nothing they are saved again. */
TEST(gossip_resumes_on_another_number_of_nodes_with_the_mean) {
    static const char *const meshes[][2] = {{"mesh.nodes=4", "mesh.nodes=2"},
                                            {"mesh.nodes=2", "mesh.nodes=4"}};
    for (int i = 0; i < 2; i++) {
        int64_t n, n_after;
        part.stop_after = 0;
        train(&part, "part", false,
              KEYS("method=dadam", meshes[i][0], "run.steps=6", "optimizer.lr=1e-2"));
        assert_trained(&part);
        rest.stop_after = 0;
        train(&rest, "part", true,
              KEYS("method=dadam", meshes[i][1], "run.keep=9", "optimizer.lr=1e-30"));
        assert_trained(&rest);
        char *before = slurp("part/checkpoints/step-00000006/model.safetensors", &n);
        char *after = slurp("part/" LAST "/model.safetensors", &n_after);
        assert_int_equal(n, n_after);
        for (int64_t at = 8 + *(uint32_t *)(void *)before; at < n; at += 4) {
            float x, y;
            memcpy(&x, before + at, sizeof x);
            memcpy(&y, after + at, sizeof y);
            assert_true(fabsf(x - y) <= 1e-6f * (1 + fabsf(x)));
        }
        free(before), free(after);
    }
}

TEST(a_folder_with_a_run_is_not_overwritten) {
    train(&whole, "whole", false, KEYS("run.steps=2"));
    assert_trained(&whole);
    weft_ctx *ctx;
    weft_config *config;
    weft_train_result result = {.struct_size = sizeof result};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_config_create(ctx, &config));
    assert_ok(ctx, weft_config_set(ctx, config, "data.path=text.txt"));
    assert_ok(ctx, weft_config_set(ctx, config, "run.folder=whole"));
    assert_ok(ctx, weft_config_finish(ctx, config));
    assert_int_equal(weft_train(ctx, NULL, config, false, NULL, &result),
                     WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_ctx_message(ctx), "--resume"));
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

TEST(another_method_does_not_resume) {
    train(&part, "part", false, KEYS("method=flexdemo", "mesh.nodes=2", "run.steps=3"));
    assert_trained(&part);
    train(&rest, "part", true, KEYS("method=hsdp", "mesh.nodes=2"));
    assert_int_equal(rest.status, WEFT_ERR_CONFIG);
    assert_non_null(
        strstr(rest.message, "was trained with replicator demo, this run has full"));
}

TEST(another_model_or_seed_does_not_resume) {
    train(&part, "part", false, KEYS("run.steps=3"));
    assert_trained(&part);
    train(&rest, "part", true, KEYS("model.layers=1"));
    assert_int_equal(rest.status, WEFT_ERR_CONFIG);
    train(&rest, "part", true, KEYS("run.seed=2"));
    assert_int_equal(rest.status, WEFT_ERR_CONFIG);
    assert_non_null(strstr(rest.message, "seed 1, this run"));
}

static void flip(const char *path, long from_end) {
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, -from_end, SEEK_END), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    fputc(byte ^ 4, file);
    fclose(file);
}

TEST(a_flipped_byte_in_the_only_checkpoint_is_refused) {
    train(&part, "part", false, KEYS("run.steps=3"));
    assert_trained(&part);
    flip("part/checkpoints/step-00000003/optimizer.safetensors", 100);
    train(&rest, "part", true, KEYS("run.steps=6"));
    assert_int_equal(rest.status, WEFT_ERR_FORMAT);
    assert_non_null(strstr(rest.message, "optimizer.safetensors"));
}

/* The newest two are damaged, and so is a line of the metrics: the run goes on from the
 * third, to the bits of one that was never stopped. */
TEST(a_run_goes_on_from_the_newest_whole_checkpoint) {
    const char *const *keys = KEYS("method=flexdemo", "mesh.nodes=2", "run.save_every=2",
                                   "run.keep=8", "data.path=text.txt");
    train(&whole, "whole", false, keys);
    assert_trained(&whole);
    part.stop_after = 8;
    train(&part, "part", false, keys);
    assert_trained(&part);
    assert_in_range(part.result.steps, 8, 10);
    assert_int_equal(system("cd part/checkpoints && rm -rf step-00000009 step-00000010"),
                     0);
    assert_int_equal(truncate("part/checkpoints/step-00000008/model.safetensors", 999),
                     0);
    flip("part/checkpoints/step-00000006/replica-00001.safetensors", 5);
    assert_int_equal(system("sed -i '3s/^{/[/' part/metrics.jsonl"), 0);
    rest.stop_after = 0;
    train(&rest, "part", true, keys);
    assert_trained(&rest);
    assert_int_equal(rest.first_step, 4);
    for (int i = 4; i < 12; i++) assert_true(rest.loss[i] == whole.loss[i]);
    assert_same_file("whole/" LAST "/model.safetensors",
                     "part/" LAST "/model.safetensors");
    assert_same_file("whole/" LAST "/replica-00001.safetensors",
                     "part/" LAST "/replica-00001.safetensors");
}

TEST(lines_are_on_the_disk_before_their_checkpoint) {
    atomic_store(&published, 0);
    atomic_store(&early, 0);
    train(&whole, "whole", false, KEYS("mesh.nodes=2", "run.save_every=3"));
    assert_trained(&whole);
    assert_int_equal(atomic_load(&published), 4);
    assert_int_equal(atomic_load(&early), 0);
}

/* While another process holds its lease a folder is left alone. */
TEST(two_runs_in_one_folder_are_refused) {
    int ends[2];
    char byte;
    wefti_lease *lease;
    weft_ctx *ctx;
    assert_int_equal(system("rm -rf part; mkdir part"), 0);
    assert_int_equal(pipe(ends), 0);
    pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        const wefti_lease_claim claim = {.folder = "part"};
        if (weft_ctx_create(&ctx) != WEFT_OK ||
            wefti_lease_take(ctx, &claim, &lease) != WEFT_OK ||
            write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    for (int resume = 0; resume < 2; resume++) {
        train(&rest, "part", true, KEYS("run.steps=3"));
        assert_int_equal(rest.status, WEFT_ERR_CONFIG);
        assert_non_null(strstr(rest.message, "writes here since"));
    }
    assert_int_not_equal(access("part/metrics.jsonl", F_OK), 0);
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
    train(&rest, "part", true, KEYS("run.steps=3"));
    assert_trained(&rest);
    assert_int_not_equal(access("part/lease", F_OK), 0);
}

static void take_lease_away(void *user, const weft_step_record *r) {
    (void)user;
    if (r->step == 3)
        assert_int_equal(system("sed -i 's/^token .*/token 1/' part/lease"), 0);
}

TEST(a_run_that_lost_its_folder_writes_no_checkpoint) {
    weft_ctx *ctx;
    weft_config *config;
    weft_train_result result = {.struct_size = sizeof result};
    const weft_train_hooks hooks = {.struct_size = sizeof hooks,
                                    .on_step = take_lease_away};
    const char *const keys[] = {"run.folder=part", "run.save_every=2", "mesh.nodes=2"};
    assert_int_equal(system("rm -rf part"), 0);
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_config_create(ctx, &config));
    for (int i = 0; small_run[i]; i++)
        assert_ok(ctx, weft_config_set(ctx, config, small_run[i]));
    for (int i = 0; i < 3; i++) assert_ok(ctx, weft_config_set(ctx, config, keys[i]));
    assert_ok(ctx, weft_config_finish(ctx, config));
    assert_int_equal(weft_train(ctx, NULL, config, false, &hooks, &result),
                     WEFT_ERR_FILE);
    assert_non_null(strstr(weft_ctx_message(ctx), "took part/lease over"));
    assert_int_equal(access("part/checkpoints/step-00000002", F_OK), 0);
    assert_int_not_equal(access("part/checkpoints/step-00000004", F_OK), 0);
    assert_int_not_equal(access("part/checkpoints/step-00000004.partial", F_OK), 0);
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
}

/* The time left is that of the steps since the run began, or was resumed: never less than what
 * those behind the first took, nor more than all that has passed. */
TEST(the_time_left_is_that_of_the_steps_so_far) {
    outcome o = {.stop_after = 6};
    double begun_s = wefti_now_s();
    for (int resumed = 0; resumed < 2; resumed++) {
        train(&o, "left", resumed, KEYS("mesh.compute_time=0.01", "run.save_every=6"));
        assert_trained(&o);
        double took_s = 0, passed_s = wefti_now_s() - begun_s;
        int first = resumed ? 6 : 0, last = resumed ? 12 : 6;
        assert_int_equal(o.n_steps, last - first);
        for (int t = first; t < last; t++) {
            int n = t + 1 - first, left = 12 - t - 1;
            if (t > first) took_s += o.step_s[t]; /* the first one began before its ops */
            assert_true(o.left_s[t] * n >= took_s * left * (1 - 1e-9));
            assert_true(o.left_s[t] * n <= passed_s * left);
        }
        o.stop_after = 0;
        begun_s = wefti_now_s();
    }
}

/* A run that was killed before its first checkpoint is refused: it begins anew. */
static void forget_unsaved(void) {
    const char *command =
        "ls part/checkpoints 2>ls.err | grep -v partial | grep -q step- "
        "|| rm -rf part";
    assert_int_equal(system(command), 0);
}

/* Whatever the instant of a kill -9, the run resumes from a complete checkpoint and ends
 * with the bits of a run that was never killed. */
TEST(a_killed_run_resumes_to_the_same_bits) {
    const char *const *keys = KEYS("method=flexdemo", "mesh.nodes=2", "run.save_every=2");
    train(&whole, "whole", false, keys);
    assert_trained(&whole);
    assert_int_equal(system("rm -rf part"), 0);
    for (int round = 0; round < 8; round++) {
        forget_unsaved();
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            rest.stop_after = 0;
            train(&rest, "part", true, keys);
            _exit(rest.status == WEFT_OK ? 0 : 1);
        }
        int delay_us = (int)(wefti_rng_u64(3, WEFTI_STREAM_TEST, 0, (uint64_t)round) %
                             120000);
        usleep((useconds_t)delay_us + 20000);
        kill(child, SIGKILL);
        int how;
        waitpid(child, &how, 0);
        assert_true(WIFSIGNALED(how) || WEXITSTATUS(how) == 0);
    }
    forget_unsaved();
    train(&rest, "part", true, keys);
    assert_trained(&rest);
    assert_same_file("whole/" LAST "/model.safetensors",
                     "part/" LAST "/model.safetensors");
    assert_same_file("whole/" LAST "/replica-00001.safetensors",
                     "part/" LAST "/replica-00001.safetensors");
}
