/* SPDX-License-Identifier: MIT */
/* Small training runs inside a test: text made here, a run per folder, losses by step. */
#pragma once

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <weft/train.h>

#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "kernels/rate.h"

enum { MAX_STEPS = 128 };

/* How fast products are here changes no result, and takes longer to find out than such a run. The
 * linker sends the call here, but for the tests of memory, of which the library's is a part. */
weft_status __wrap_wefti_measure_gemm(weft_ctx *, const wefti_kernels *, int, double *);
weft_status __wrap_wefti_measure_gemm(weft_ctx *ctx, const wefti_kernels *kernels,
                                      int threads, double *flops) {
    (void)ctx, (void)kernels, (void)threads;
    *flops = 1e9;
    return WEFT_OK;
}

typedef struct outcome {
    weft_status status;
    char message[1024];
    weft_train_result result;
    int n_steps, first_step;
    double loss[MAX_STEPS], grad_norm[MAX_STEPS], update_norm[MAX_STEPS];
    int64_t wire[MAX_STEPS], allocations[MAX_STEPS], late[MAX_STEPS];
    int mean_of_all[MAX_STEPS];
    double distance[MAX_STEPS], step_s[MAX_STEPS], left_s[MAX_STEPS];
    int64_t parameters, wire_predicted, memory_predicted, memory_rank;
    int stop_after;                      /* steps; 0: never */
    void (*after_step)(int64_t step);    /* or NULL */
    void (*at_evaluation)(int64_t step); /* or NULL */
} outcome;

static inline void note_step(void *user, const weft_step_record *r) {
    outcome *o = user;
    assert_true(o->n_steps < MAX_STEPS);
    o->loss[r->step - 1] = r->loss;
    o->grad_norm[r->step - 1] = r->grad_norm;
    o->update_norm[r->step - 1] = r->update_norm;
    o->wire[r->step - 1] = r->wire_bytes_out;
    o->allocations[r->step - 1] = r->allocations;
    o->late[r->step - 1] = r->late;
    o->mean_of_all[r->step - 1] = r->mean_of_all;
    o->distance[r->step - 1] = r->consensus_distance;
    o->step_s[r->step - 1] = r->step_s;
    o->left_s[r->step - 1] = r->left_s;
    o->n_steps++;
    if (o->after_step) o->after_step(r->step);
}

static inline void note_evaluation(void *user, const weft_eval_record *r) {
    const outcome *o = user;
    if (o->at_evaluation) o->at_evaluation(r->step);
}

static inline bool stop_in_time(void *user) {
    const outcome *o = user;
    return o->stop_after > 0 && o->n_steps + 1 >= o->stop_after;
}

static inline void note_start(void *user, const weft_run_summary *s) {
    outcome *o = user;
    o->parameters = s->parameters;
    o->wire_predicted = s->wire_bytes_per_step;
    o->memory_predicted = s->memory_bytes;
    o->memory_rank = s->memory_rank_bytes;
    o->first_step = (int)s->first_step;
}

/* Words of a small made-up language, so that there is something to learn. */
static inline void write_text(const char *path, int n_words) {
    static const char *const words[] = {"warp",    "weft",  "loom", "thread",
                                        "shuttle", "cloth", "the",  "a",
                                        "over",    "under", "and",  "goes"};
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    uint64_t last = 0;
    for (int i = 0; i < n_words; i++) {
        uint64_t draw = wefti_rng_u64(9, WEFTI_STREAM_TEST, 0, (uint64_t)i);
        last = draw % 4 ? (last * 5 + 3) % 12 : draw / 4 % 12;
        fprintf(file, "%s%s", words[last], i % 11 == 10 ? ".\n" : " ");
    }
    fclose(file);
}

static const char *const small_run[] = {"data.path=text.txt",
                                        "data.length=32",
                                        "model.layers=2",
                                        "model.width=32",
                                        "model.heads=4",
                                        "batch.tokens_per_step=512",
                                        "run.steps=12",
                                        "schedule.warmup=4",
                                        "run.eval_tokens=2048",
                                        "run.tensorboard=false",
                                        "mesh.threads=1",
                                        "mesh.min_message=4kB",
                                        NULL};

/* Runs small_run with more keys over it ("" ends the list). The folder is emptied first
 * unless resuming. */
static inline void train(outcome *o, const char *folder, bool resume,
                         const char *const *keys) {
    weft_ctx *ctx;
    weft_config *config;
    char assignment[256];
    outcome before = *o;
    memset(o, 0, sizeof *o);
    o->stop_after = before.stop_after;
    o->after_step = before.after_step;
    o->at_evaluation = before.at_evaluation;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    struct stat info;
    if (stat("text.txt", &info) != 0) write_text("text.txt", 20000);
    if (!resume) assert_ok(ctx, wefti_file_remove_tree(ctx, folder));
    assert_ok(ctx, weft_config_create(ctx, &config));
    o->status = WEFT_OK;
    for (int i = 0; small_run[i]; i++)
        assert_ok(ctx, weft_config_set(ctx, config, small_run[i]));
    for (int i = 0; keys[i] && o->status == WEFT_OK; i++)
        o->status = weft_config_set(ctx, config, keys[i]);
    snprintf(assignment, sizeof assignment, "run.folder=%s", folder);
    assert_ok(ctx, weft_config_set(ctx, config, assignment));
    if (o->status == WEFT_OK) o->status = weft_config_finish(ctx, config);
    o->result.struct_size = sizeof o->result;
    weft_train_hooks hooks = {.struct_size = sizeof hooks,
                              .user = o,
                              .on_start = note_start,
                              .on_step = note_step,
                              .on_evaluation = note_evaluation,
                              .should_stop = stop_in_time};
    if (o->status == WEFT_OK)
        o->status = weft_train(ctx, NULL, config, resume, &hooks, &o->result);
    snprintf(o->message, sizeof o->message, "%s", weft_ctx_message(ctx));
    weft_config_destroy(ctx, config);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

#define assert_trained(o)                                                                \
    do {                                                                                 \
        if ((o)->status != WEFT_OK) fail_msg("%s", (o)->message);                        \
    } while (0)

/* The same losses but for the rounding. */
static inline void assert_close(const outcome *a, const outcome *b, double tolerance) {
    assert_int_equal(a->n_steps, b->n_steps);
    for (int i = 0; i < a->n_steps; i++)
        if (!(fabs(a->loss[i] - b->loss[i]) <= tolerance * b->loss[i]))
            fail_msg("step %d: %.7f and %.7f", i + 1, a->loss[i], b->loss[i]);
}

/* The bytes of a file, for bit comparisons. */
static inline char *slurp(const char *path, int64_t *n) {
    weft_ctx *ctx;
    char *data;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, wefti_file_read(ctx, path, INT64_MAX, &data, n));
    char *copy = malloc((size_t)*n + 1);
    assert_non_null(copy);
    memcpy(copy, data, (size_t)*n);
    copy[*n] = '\0';
    wefti_free(ctx, data);
    weft_ctx_destroy(ctx);
    return copy;
}

static inline void assert_same_file(const char *a, const char *b) {
    int64_t n_a, n_b;
    char *x = slurp(a, &n_a), *y = slurp(b, &n_b);
    assert_int_equal(n_a, n_b);
    if (memcmp(x, y, (size_t)n_a) != 0) fail_msg("%s and %s differ", a, b);
    free(x);
    free(y);
}
