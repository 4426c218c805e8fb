/* SPDX-License-Identifier: MIT */
/* A process that writes checkpoints is killed at random moments. */

#include "check.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"
#include "checkpoint/folder.h"
#include "checkpoint/safetensors.h"

enum { KILLS = 30, ROWS = 64, COLS = 256, KEEP = 2 };

static const char checkpoints[] = "kill/checkpoints";
static const wefti_tensor_spec spec = {"weights", 2, ROWS, COLS, {0}};

/* Every number of the checkpoint of a step is the step. */
static weft_status write_tensors(weft_ctx *ctx, const char *folder, const char *name,
                                 int64_t step) {
    char path[PATH_MAX + 64];
    float data[COLS];
    wefti_safetensors *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    WEFT_TRY(wefti_safetensors_create(ctx, path, &spec, 1, NULL, &file));
    for (int i = 0; i < COLS; i++) data[i] = (float)step;
    for (int64_t row = 0; row < ROWS; row++)
        WEFT_TRY(wefti_safetensors_write_rows(ctx, file, 0, row, 1, data));
    return wefti_safetensors_close(ctx, file);
}

static weft_status write_checkpoint(weft_ctx *ctx, int64_t step, int signal_to) {
    char path[PATH_MAX], text[64];
    WEFT_TRY(wefti_checkpoint_begin(ctx, checkpoints, step, path));
    if (signal_to >= 0 && write(signal_to, "x", 1) != 1) return WEFT_ERR_FILE;
    WEFT_TRY(write_tensors(ctx, path, "model.safetensors", step));
    WEFT_TRY(write_tensors(ctx, path, "optimizer.safetensors", step));
    snprintf(text, sizeof text, "{\"step\":%lld}", (long long)step);
    return wefti_checkpoint_commit(ctx, checkpoints, step, text, KEEP);
}

/* Writes until it is killed; each step twice, so that replacing is interrupted too. */
static void write_forever(weft_ctx *ctx, int64_t step, int signal_to) {
    for (;; step++) {
        for (int again = 0; again < 2; again++) {
            if (write_checkpoint(ctx, step, signal_to) != WEFT_OK) {
                fprintf(stderr, "writer: %s\n", weft_ctx_message(ctx));
                _exit(1);
            }
            signal_to = -1;
        }
    }
}

static void start_then_kill(weft_ctx *ctx, int64_t step, uint64_t trial) {
    int pipe_ends[2], how;
    char byte;
    assert_int_equal(pipe(pipe_ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) write_forever(ctx, step, pipe_ends[1]);
    close(pipe_ends[1]);
    assert_int_equal(read(pipe_ends[0], &byte, 1),
                     1); /* its first checkpoint has begun */
    close(pipe_ends[0]);
    long wait_ns = (long)(6e7 * wefti_rng_uniform(1, WEFTI_STREAM_TEST, 0, trial));
    nanosleep(&(struct timespec){0, wait_ns}, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
}

static void assert_numbers_are(weft_ctx *ctx, const char *folder, const char *name,
                               int64_t step) {
    char path[PATH_MAX + 64];
    float data[COLS];
    wefti_safetensors *file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(wefti_safetensors_open(ctx, path, false, &file), WEFT_OK);
    for (int64_t row = 0; row < ROWS; row++) {
        assert_int_equal(wefti_safetensors_read_rows(ctx, file, 0, row, 1, data),
                         WEFT_OK);
        for (int i = 0; i < COLS; i++) assert_true(data[i] == (float)step);
    }
    assert_int_equal(wefti_safetensors_close(ctx, file), WEFT_OK);
}

/* Returns the newest step, after looking at every number of it. */
static int64_t check_newest(weft_ctx *ctx) {
    char path[PATH_MAX], expected[64], *layout;
    int64_t step;
    assert_int_equal(wefti_checkpoint_latest(ctx, checkpoints, &step, path), WEFT_OK);
    assert_true(step >= 0);
    if (wefti_checkpoint_verify(ctx, path, &layout) != WEFT_OK)
        fail_msg("%s", weft_ctx_message(ctx));
    snprintf(expected, sizeof expected, "{\"step\":%lld}", (long long)step);
    assert_string_equal(layout, expected);
    wefti_free(ctx, layout);
    assert_numbers_are(ctx, path, "model.safetensors", step);
    assert_numbers_are(ctx, path, "optimizer.safetensors", step);
    return step;
}

TEST(a_kill_at_any_moment_leaves_a_complete_newest_checkpoint) {
    weft_ctx *ctx;
    int interrupted = 0;
    int64_t newest = 1;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_int_equal(wefti_file_remove_tree(ctx, "kill"), WEFT_OK);
    assert_int_equal(write_checkpoint(ctx, newest, -1), WEFT_OK);
    for (uint64_t trial = 0; trial < KILLS; trial++) {
        char partial[64];
        start_then_kill(ctx, newest, trial);
        int64_t found = check_newest(ctx);
        assert_true(found >= newest);
        snprintf(partial, sizeof partial, "%s/step-%08lld.partial", checkpoints,
                 (long long)found);
        interrupted += access(partial, F_OK) == 0;
        snprintf(partial, sizeof partial, "%s/step-%08lld.partial", checkpoints,
                 (long long)found + 1);
        interrupted += access(partial, F_OK) == 0;
        newest = found;
    }
    assert_true(interrupted > 0); /* the kills fell into the writing */
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}
