/* SPDX-License-Identifier: MIT */
/* The threads of a process while its ranks run: /proc/self/task has an entry for each. */
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/local.h"
#include "kernels/kernels.h"
#include "rank/rank_threads.h"

static int count_threads(void) {
    DIR *folder = opendir("/proc/self/task");
    int n = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

/* A thread that was joined may be in the list for a moment. */
static int count_threads_to(int expected) {
    int n = count_threads();
    for (int i = 0; i < 1000 && n > expected; i++, n = count_threads())
        wefti_sleep_until_s(wefti_now_s() + 0.001);
    return n;
}

static void multiply(int threads) {
    enum { N = 256 };
    float *x = calloc(3 * N * N, sizeof *x);
    assert_non_null(x);
    wefti_kernels_set_threads(threads);
    wefti_kernels_find(NULL)->bf16->gemm(false, false, N, N, N, 1, x, N, x + N * N, N, 0,
                                         x + 2 * N * N, N);
    free(x);
}

static weft_status see(wefti_slot *slot) {
    int *n = slot->user;
    *n = count_threads_to(*n);
    return WEFT_OK;
}

static void *do_nothing(void *user) { return user; }

/* A sanitizer starts a thread of its own beside the first one. */
static void start_sanitizer(void) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, do_nothing, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Otherwise libgomp would count them among those that run, and none of a rank's would spin. */
TEST(no_thread_waits_for_kernels_of_the_caller) {
    const wefti_world_shape shape = {
        .replicas = 1, .shards = 1, .replicas_per_node = 1, .sites = 1};
    weft_ctx *ctx;
    wefti_world *world;
    assert_int_equal(ctx_begin(&ctx), 0);
    start_sanitizer();
    int before = count_threads_to(1), n = before + 1;
    multiply(3);
    if (wefti_kernels_threads() == 3) assert_int_equal(count_threads(), before + 2);
    assert_ok(ctx, wefti_local_create(ctx, &shape, &world));
    assert_ok(ctx, wefti_rank_threads_run(ctx, world, 1, see, &n));
    wefti_world_destroy(ctx, world);
    assert_int_equal(n, before + 1); /* the rank */
    multiply(3);                     /* they are started again */
    assert_int_equal(ctx_end(ctx), 0);
}

static weft_status say_both(wefti_slot *slot) {
    weft_ctx_log(slot->ctx, WEFT_LOG_WARN, "warned");
    weft_ctx_log(slot->ctx, WEFT_LOG_WAIT, "waited");
    return WEFT_OK;
}

static void count(void *user, weft_log_level level, const char *line) {
    atomic_int *lines = user;
    (void)line;
    atomic_fetch_add(&lines[level], 1);
}

TEST(the_first_rank_speaks_for_all_and_each_says_for_whom_it_waits) {
    const wefti_world_shape shape = {
        .replicas = 3, .shards = 1, .replicas_per_node = 1, .sites = 1};
    static atomic_int lines[3];
    weft_ctx *ctx;
    wefti_world *world;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    weft_ctx_set_sink(ctx, count, lines);
    assert_ok(ctx, wefti_local_create(ctx, &shape, &world));
    assert_ok(ctx, wefti_rank_threads_run(ctx, world, 1, say_both, NULL));
    assert_int_equal(lines[WEFT_LOG_WARN], 1);
    assert_int_equal(lines[WEFT_LOG_WAIT], 3);
    wefti_world_destroy(ctx, world);
    weft_ctx_destroy(ctx);
}
