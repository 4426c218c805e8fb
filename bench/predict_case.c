/* SPDX-License-Identifier: MIT */
/* What the runtime model says of a run beforehand, or what the run takes, for
 * bench/predict, bench/netlab/methods and bench/runtime/run.sh:
 *
 *     weft_predict_case CLUSTER key=value ...
 *     weft_predict_case WARMUP key=value ...
 *
 * CLUSTER is a file of weft probe; the run's first WARMUP steps do not count. JSON to
 * stdout. */
#include <stdio.h>
#include <stdlib.h>

#include <weft/predict.h>
#include <weft/train.h>

enum { MOST_STEPS = 10000 };

typedef struct run {
    long long warmup, n;
    double step_s[MOST_STEPS], exchange_s, wait_s;
    double wire_bytes;        /* of rank 0's node, all steps that count */
    long long bytes_per_step; /* as train says them beforehand */
} run;

static void on_start(void *user, const weft_run_summary *summary) {
    run *r = user;
    r->bytes_per_step = summary->wire_bytes_per_step;
}

static void on_step(void *user, const weft_step_record *record) {
    run *r = user;
    r->wire_bytes += (double)record->wire_bytes_out;
    if (record->step <= r->warmup || r->n == MOST_STEPS) return;
    r->step_s[r->n++] = record->step_s;
    r->exchange_s += record->exchange_s;
    r->wait_s += record->wait_s;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const run *r, double share) {
    return r->n > 0 ? r->step_s[(long long)(share * (double)(r->n - 1) + 0.5)] : 0;
}

static double mean(const run *r) {
    double sum = 0;
    for (long long i = 0; i < r->n; i++) sum += r->step_s[i];
    return r->n > 0 ? sum / (double)r->n : 0;
}

static weft_status predict(weft_ctx *ctx, const char *path, const weft_config *config) {
    weft_cluster *cluster;
    weft_prediction p = {.struct_size = sizeof p};
    weft_predict_options options = {.struct_size = sizeof options, .seed = 1};
    WEFT_TRY(weft_cluster_load(ctx, path, &cluster));
    weft_status status = weft_predict(ctx, config, cluster, &options, &p);
    weft_cluster_destroy(ctx, cluster);
    WEFT_TRY(status);
    printf("{\"median\": %.6g, \"low\": %.6g, \"high\": %.6g, \"mean\": %.6g, "
           "\"exchange\": %.6g, \"wait\": %.6g, \"bytes\": %.10g, \"said\": %lld}\n",
           p.step_s.median, p.step_s.low, p.step_s.high, p.mean_step_s, p.exchange_s,
           p.wait_s, p.wire_bytes, (long long)p.wire_bytes_step);
    weft_prediction_clear(ctx, &p);
    return WEFT_OK;
}

static weft_status measure(weft_ctx *ctx, long long warmup, weft_config *config, run *r) {
    weft_train_result result = {.struct_size = sizeof result};
    weft_train_hooks hooks = {
        .struct_size = sizeof hooks, .user = r, .on_start = on_start, .on_step = on_step};
    r->warmup = warmup;
    WEFT_TRY(weft_bench_train(ctx, NULL, config, &hooks, &result));
    double n = r->n > 0 ? (double)r->n : 1;
    printf("{\"steps\": [");
    for (long long i = 0; i < r->n; i++) printf("%s%.6g", i ? ", " : "", r->step_s[i]);
    qsort(r->step_s, (size_t)r->n, sizeof *r->step_s, ascending);
    printf("], \"median\": %.6g, \"low\": %.6g, \"high\": %.6g, \"mean\": %.6g, "
           "\"exchange\": %.6g, \"wait\": %.6g, \"bytes\": %.10g, \"said\": %lld}\n",
           at(r, 0.5), at(r, 0.05), at(r, 0.95), mean(r), r->exchange_s / n,
           r->wait_s / n, r->wire_bytes / (double)config->run.steps, r->bytes_per_step);
    return WEFT_OK;
}

static weft_status act(weft_ctx *ctx, const char *what, weft_config *config, run *r) {
    char *end;
    long long warmup = strtoll(what, &end, 10);
    WEFT_TRY(weft_config_finish(ctx, config));
    return *end ? predict(ctx, what, config) : measure(ctx, warmup, config, r);
}

int main(int argc, char **argv) {
    static run r;
    weft_ctx *ctx;
    weft_config *config;
    if (argc < 3) {
        fprintf(stderr, "usage: %s CLUSTER|WARMUP key=value ...\n", argv[0]);
        return 2;
    }
    if (weft_ctx_create(&ctx) != WEFT_OK) return 1;
    weft_status status = weft_config_create(ctx, &config);
    for (int i = 2; i < argc && status == WEFT_OK; i++)
        status = weft_config_set(ctx, config, argv[i]);
    if (status == WEFT_OK) status = act(ctx, argv[1], config, &r);
    if (status != WEFT_OK) fprintf(stderr, "%s: %s\n", argv[0], weft_ctx_message(ctx));
    weft_config_destroy(ctx, config);
    weft_ctx_destroy(ctx);
    return status == WEFT_OK ? 0 : 1;
}
