/* SPDX-License-Identifier: MIT */
/* Runs a configuration on the emulated wire and predicts it, one line of both:
 *
 *     agree CLUSTER.yaml STEPS WARMUP key=value ...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/predict.h>
#include <weft/train.h>

enum { MOST = 10000 };

typedef struct sheet {
    long warmup;
    int n;
    double step_s[MOST], wait_s, exchange_s, sum_s, bytes;
} sheet;

static void note(void *user, const weft_step_record *r) {
    sheet *s = user;
    if (r->step <= s->warmup || s->n == MOST) return;
    s->step_s[s->n++] = r->step_s;
    s->sum_s += r->step_s;
    s->wait_s += r->wait_s;
    s->exchange_s += r->exchange_s;
    s->bytes += (double)r->wire_bytes_out;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static weft_status configure(weft_ctx *ctx, int n, char **keys, long steps,
                             weft_config **out) {
    char text[64];
    WEFT_TRY(weft_config_create(ctx, out));
    snprintf(text, sizeof text, "run.steps=%ld", steps);
    for (int i = 0; i < n; i++) WEFT_TRY(weft_config_set(ctx, *out, keys[i]));
    WEFT_TRY(weft_config_set(ctx, *out, text));
    WEFT_TRY(weft_config_set(ctx, *out, "schedule.warmup=0"));
    return weft_config_finish(ctx, *out);
}

static void print(sheet *s, const weft_prediction *p) {
    double n = s->n, mean_s = s->sum_s / n;
    qsort(s->step_s, (size_t)s->n, sizeof *s->step_s, ascending);
    printf("%.5f %.5f %+6.1f%%  median %.5f %.5f %+6.1f%%  wait %.5f %.5f  exchange "
           "%.5f %.5f  bytes %.0f %.0f\n",
           mean_s, p->mean_step_s, 100 * (p->mean_step_s / mean_s - 1),
           s->step_s[s->n / 2], p->step_s.median,
           100 * (p->step_s.median / s->step_s[s->n / 2] - 1), s->wait_s / n, p->wait_s,
           s->exchange_s / n, p->exchange_s, s->bytes / n, p->wire_bytes);
}

static weft_status compare(weft_ctx *ctx, int argc, char **argv, sheet *s) {
    long steps = atol(argv[2]);
    weft_cluster *cluster;
    weft_config *config;
    weft_train_result result;
    weft_prediction p;
    weft_train_hooks hooks = {s, NULL, note, NULL, NULL};
    s->warmup = atol(argv[3]);
    WEFT_TRY(weft_cluster_load(ctx, argv[1], &cluster));
    WEFT_TRY(configure(ctx, argc - 4, argv + 4, steps + s->warmup, &config));
    WEFT_TRY(weft_predict(ctx, config, cluster, NULL, &p));
    WEFT_TRY(weft_bench_train(ctx, NULL, config, &hooks, &result));
    print(s, &p);
    weft_prediction_clear(ctx, &p);
    weft_config_destroy(ctx, config);
    weft_cluster_destroy(ctx, cluster);
    return WEFT_OK;
}

int main(int argc, char **argv) {
    static sheet s;
    weft_ctx *ctx;
    if (argc < 5 || weft_ctx_create(&ctx) != WEFT_OK) {
        fprintf(stderr, "usage: agree CLUSTER.yaml STEPS WARMUP key=value ...\n");
        return 2;
    }
    weft_status status = compare(ctx, argc, argv, &s);
    if (status != WEFT_OK) fprintf(stderr, "agree: %s\n", weft_ctx_message(ctx));
    weft_ctx_destroy(ctx);
    return status == WEFT_OK ? 0 : 1;
}
