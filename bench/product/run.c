/* SPDX-License-Identifier: MIT */
/* A process of `weft train`, with a model of a few numbers: weft_train as it ships, with its
 * folder, its lease, its views and checkpoints. The linker sends here what says how far a rank is,
 * and what it has saved. */
#include <weft/train.h>

#include <stdio.h>
#include <stdlib.h>

#include <xxhash.h>

#include "mesh/elastic.h"
#include "rank/rank.h"
#include "runfiles/state.h"
#include "world.h"

static const char *const keys[] = {
    "data.path=text",        "data.length=4",       "model.layers=1",
    "model.width=4",         "model.heads=1",       "batch.micro=1",
    "run.steps=60000",       "run.eval_tokens=64",  "run.folder=disk/run",
    "run.tensorboard=false", "run.save_time=0",     "elastic.stop=all",
    "schedule.warmup=4",     "mesh.min_message=64", "data.tokenizer=bytes"};

/* Every second seed has a line of each step. */
int run_log_every(void) { return w.seed % 2 ? 1 : 3; }

void run_keys(char (*out)[48], int *n) {
    int tokens = 4 * the_plan.n * the_plan.shards;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        snprintf(out[(*n)++], sizeof *out, "%s", keys[i]);
    snprintf(out[(*n)++], sizeof *out, "batch.tokens_per_step=%d", tokens);
    snprintf(out[(*n)++], sizeof *out, "run.save_every=%d", the_plan.save_every);
    snprintf(out[(*n)++], sizeof *out, "run.keep=%d", the_plan.keep);
    snprintf(out[(*n)++], sizeof *out, "run.log_every=%d", run_log_every());
    if (w.seed * 0xc2b2ae3d27d4eb4fu >> 62 == 0)
        snprintf(out[(*n)++], sizeof *out, "run.audit=true");
}

/* Text that all processes read. */
void run_write_text(void) {
    FILE *out = fopen("text", "w");
    for (int i = 0; out && i < 3000; i++) fputc("etaoin shrdlu"[i * i % 97 % 13], out);
    if (!out || fclose(out) != 0) fail_world("could not write a text");
}

/* --- what the linker sends here --- */

weft_status __real_wefti_rank_step(wefti_rank *, int64_t);
weft_status __wrap_wefti_rank_step(wefti_rank *, int64_t);
weft_status __wrap_wefti_rank_step(wefti_rank *r, int64_t step) {
    const life *l = w.current && the_plan.train ? w.current->owner->life : NULL;
    if (l)
        fiber_sleep((int64_t)((double)the_plan.compute_ns * l->pace *
                              (0.8 + 0.4 * draw_share())));
    return __real_wefti_rank_step(r, step);
}

static void note_step(life *l, const wefti_rank *r) {
    const wefti_elastic *e = l->mesh->elastic;
    int64_t t = r->step + 1;
    if (!l->training) {
        l->training = true;
        l->n_pending = 0;
        l->first_step = r->step;
    }
    l->beside = t * (t + 1) / 2;
    l->steps = t;
    l->stepped_ns = w.now_ns;
    l->view = e->world.entered;
    l->size = r->job->W;
    l->shard = r->local;
    uint64_t sum = XXH3_64bits_withSeed(
        r->params, (size_t)r->arrangement->n_elements * sizeof(float),
        (uint64_t)wefti_rank_first_row(r, t));
    const step_record done = {
        t, l->view, l->size, l->shard, sum, 0, the_plan.method->equal, l->process->name};
    l->sum = sum;
    check_step(l, &done, e->limits.window);
}

weft_status __real_wefti_rank_settle(wefti_rank *, wefti_tally *);
weft_status __wrap_wefti_rank_settle(wefti_rank *, wefti_tally *);
weft_status __wrap_wefti_rank_settle(wefti_rank *r, wefti_tally *tally) {
    weft_status status = __real_wefti_rank_settle(r, tally);
    life *l = w.current ? w.current->owner->life : NULL;
    bool counts = l && the_plan.train && status == WEFT_OK && !wefti_rank_is_learner(r);
    if (counts && l->mesh->elastic) note_step(l, r);
    return status;
}

weft_status __real_wefti_state_save(wefti_rank *, wefti_bootstrap *, const wefti_saving *,
                                    bool *);
weft_status __wrap_wefti_state_save(wefti_rank *, wefti_bootstrap *, const wefti_saving *,
                                    bool *);
weft_status __wrap_wefti_state_save(wefti_rank *r, wefti_bootstrap *b,
                                    const wefti_saving *what, bool *saved) {
    weft_status status = __real_wefti_state_save(r, b, what, saved);
    if (!w.current || status != WEFT_OK || r->rank != 0) return status;
    trace(*saved ? "has saved step %lld" : "has not saved step %lld",
          (long long)what->step);
    if (*saved) kept_saved(w.current->owner->host, what->step);
    return status;
}

weft_status __real_wefti_measure_gemm(weft_ctx *, const wefti_kernels *, int, double *);
weft_status __wrap_wefti_measure_gemm(weft_ctx *, const wefti_kernels *, int, double *);
weft_status __wrap_wefti_measure_gemm(weft_ctx *ctx, const wefti_kernels *kernels,
                                      int threads, double *flops) {
    if (!w.current) return __real_wefti_measure_gemm(ctx, kernels, threads, flops);
    *flops = 1e9;
    return WEFT_OK;
}

/* --- the run --- */

static bool should_stop(void *user) {
    (void)user;
    return goal_step > 0;
}

static void tell_change(void *user, const char *sentence) {
    (void)user;
    trace("says: %s", sentence);
}

weft_status run_train(life *l, weft_ctx *ctx, weft_config *config) {
    const weft_train_hooks hooks = {.struct_size = sizeof hooks,
                                    .should_stop = should_stop,
                                    .on_change = tell_change};
    weft_train_result result = {.struct_size = sizeof result};
    trace("weft train begins");
    weft_status status = weft_train(ctx, l->mesh, config, false, &hooks, &result);
    if (status != WEFT_OK) return status;
    trace("weft train ends after step %lld", (long long)result.steps);
    if (result.leads) kept_ended(l->host, result.steps);
    if (goal_step != result.steps && !end_is_known()) goal_step = result.steps;
    l->steps = result.steps;
    check_end(l, the_plan.method->equal ? l->sum : 0, false);
    return WEFT_OK;
}
