/* SPDX-License-Identifier: MIT */
/* `weft bench train|kernels|optimizers|replicators`: speed on this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/bench.h>
#include <weft/train.h>

#include "bench.h"
#include "common.h"

static const flag flags[] = {
    {"--steps", "N", "steps that are measured (default 10)", NULL},
    {"--warmup", "N", "steps before them that are not measured (default 2)", NULL},
    {"--parameters", "N",
     "number of parameters (default for optimizers 16777216, for replicators 10844160)",
     NULL},
    {"--nodes", "N", "replicators: number of nodes (default 2)", NULL},
    {"--only", "TEXT", "replicators: only those with this text in their name", NULL},
    {"--hidden", NULL, "replicators: also train with each, to measure its hidden share",
     NULL},
    {"--svg", "FILE", "kernels: write a roofline to this file", NULL},
    {"--json", NULL, "one JSON object instead of text", NULL},
    {NULL, NULL, NULL, NULL}};

static const char *const words[] = {"train", "kernels", "optimizers", "replicators",
                                    NULL};

enum { MAX_STEPS = 10000 };

typedef struct results {
    long long warmup;
    int n;
    double tokens_per_s[MAX_STEPS], mfu[MAX_STEPS], step_s[MAX_STEPS], wait_s[MAX_STEPS];
    int64_t wire_bytes;
    char model[512], mesh[512], batch[512], method[512], kernels[64];
    double gemm_flops;
    int64_t memory_predicted;
} results;

static void note_start(void *user, const weft_run_summary *s) {
    results *sheet = user;
    snprintf(sheet->model, sizeof sheet->model, "%s", s->model);
    snprintf(sheet->mesh, sizeof sheet->mesh, "%s", s->mesh);
    snprintf(sheet->batch, sizeof sheet->batch, "%s", s->batch);
    snprintf(sheet->method, sizeof sheet->method, "%s", s->method);
    snprintf(sheet->kernels, sizeof sheet->kernels, "%s", s->kernels);
    sheet->gemm_flops = s->gemm_flops;
    sheet->memory_predicted = s->memory_bytes;
}

static void note_step(void *user, const weft_step_record *r) {
    results *sheet = user;
    if (r->step <= sheet->warmup || sheet->n == MAX_STEPS) return;
    sheet->tokens_per_s[sheet->n] = r->tokens_per_s;
    sheet->mfu[sheet->n] = r->mfu;
    sheet->wait_s[sheet->n] = r->wait_s;
    sheet->step_s[sheet->n++] = r->step_s;
    sheet->wire_bytes = r->wire_bytes_out;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void print_text(results *s, const weft_train_result *r) {
    double speed = median(s->tokens_per_s, s->n), step = median(s->step_s, s->n);
    printf("model     %s\nmethod    %s\nmesh      %s, %s kernels\nbatch     %s\n",
           s->model, s->method, s->mesh, s->kernels, s->batch);
    printf("speed     %.0f tokens/s (median of %d steps; %.0f to %.0f)\n", speed, s->n,
           s->tokens_per_s[0], s->tokens_per_s[s->n - 1]);
    printf("step      %.4f s (%.4f to %.4f), of which %.4f s waiting for the exchange\n",
           step, s->step_s[0], s->step_s[s->n - 1], median(s->wait_s, s->n));
    printf("MFU       %.1f %% of %.0f GFLOP/s, measured on a matrix product of this "
           "machine\n",
           100 * median(s->mfu, s->n), s->gemm_flops / 1e9);
    printf("memory    %.2f GB at its peak, %.2f GB predicted\n",
           (double)r->memory_bytes / 1e9, (double)s->memory_predicted / 1e9);
    printf("wire      %lld bytes per step out of each node\n", (long long)s->wire_bytes);
}

static void print_json(results *s, const weft_train_result *r) {
    printf("{\"tokens_per_s\": %.6g, \"step_s\": %.6g, ", median(s->tokens_per_s, s->n),
           median(s->step_s, s->n));
    printf("\"tokens_per_s_min\": %.6g, \"tokens_per_s_max\": %.6g, ", s->tokens_per_s[0],
           s->tokens_per_s[s->n - 1]);
    printf("\"wait_s\": %.6g, \"mfu\": %.6g, \"gemm_flops\": %.6g, ",
           median(s->wait_s, s->n), median(s->mfu, s->n), s->gemm_flops);
    printf("\"memory_bytes\": %lld, \"memory_predicted_bytes\": %lld, \"wire_bytes\": "
           "%lld}\n",
           (long long)r->memory_bytes, (long long)s->memory_predicted,
           (long long)s->wire_bytes);
}

/* Sets the run's length to `steps` steps. The warm-up of the learning rate must not be
 * longer. */
static weft_status shorten(weft_ctx *ctx, weft_config *config, long long steps) {
    char assignment[64];
    snprintf(assignment, sizeof assignment, "run.steps=%lld", steps);
    WEFT_TRY(weft_config_set(ctx, config, assignment));
    snprintf(assignment, sizeof assignment, "schedule.warmup=%lld", steps);
    if (config->schedule.warmup > steps)
        WEFT_TRY(weft_config_set(ctx, config, assignment));
    return weft_config_finish(ctx, config);
}

static weft_status bench(weft_ctx *ctx, const args *a, long long steps, results *sheet) {
    weft_config *config = NULL;
    weft_train_result result = {.struct_size = sizeof result};
    weft_status status = config_of_args(ctx, a, &config);
    if (status == WEFT_OK) status = shorten(ctx, config, steps + sheet->warmup);
    weft_train_hooks hooks = {
        .struct_size = sizeof hooks, sheet, note_start, note_step, NULL, NULL, NULL};
    if (status == WEFT_OK) status = weft_bench_train(ctx, NULL, config, &hooks, &result);
    if (status == WEFT_OK)
        (args_has(a, "--json") ? print_json : print_text)(sheet, &result);
    weft_config_destroy(ctx, config);
    return status;
}

static int run_train(weft_ctx *ctx, const args *a, long long steps, long long warmup) {
    results *sheet = calloc(1, sizeof *sheet);
    if (!sheet) return usage_error("no memory left to start");
    sheet->warmup = warmup;
    weft_status status = bench(ctx, a, steps, sheet);
    free(sheet);
    return program_code(ctx, status);
}

static void print_speeds_text(const weft_optimizer_speeds *s) {
    printf("machine    %d thread%s, %s kernels, %lld parameters\n", s->threads,
           s->threads == 1 ? "" : "s", s->kernels, (long long)s->n);
    printf("stream     %.1f GB/s: x <- s x %.1f, y <- y + x %.1f\n", s->stream_Bps / 1e9,
           s->scale_Bps / 1e9, s->update_Bps / 1e9);
    for (int i = 0; i < s->n_optimizers; i++) {
        const weft_optimizer_speed *o = &s->of[i];
        printf("%-12s %5.1f bytes per parameter, %6.1f GB/s, %5.1f %% of the stream, "
               "%6.0f million parameters/s\n",
               o->name, o->bytes, o->bandwidth_Bps / 1e9, 100 * o->share_of_stream,
               o->bandwidth_Bps / o->bytes / 1e6);
    }
    const weft_matrix_speed *m = &s->matrices;
    printf("%-12s hidden matrices of a layer of width %lld, %lld parameters: %.3g ms, "
           "%.1f GFLOP/s of %.1f in registers, %.1f %% of its floor's speed\n",
           m->name, (long long)m->width, (long long)m->n, 1e3 * m->step_s,
           m->flop / m->step_s / 1e9, m->peak_flops / 1e9, 100 * m->share_of_floor);
}

static void print_speeds_json(const weft_optimizer_speeds *s) {
    printf("{\"threads\": %d, \"kernels\": \"%s\", \"parameters\": %lld, "
           "\"accumulate\": %lld, ",
           s->threads, s->kernels, (long long)s->n, (long long)s->accumulate);
    printf("\"scale_Bps\": %.6g, \"update_Bps\": %.6g, \"stream_Bps\": %.6g, "
           "\"optimizers\": [",
           s->scale_Bps, s->update_Bps, s->stream_Bps);
    for (int i = 0; i < s->n_optimizers; i++) {
        const weft_optimizer_speed *o = &s->of[i];
        printf("%s{\"name\": \"%s\", \"bytes\": %.6g, \"bandwidth_Bps\": %.6g, "
               "\"share_of_stream\": %.4g}",
               i ? ", " : "", o->name, o->bytes, o->bandwidth_Bps, o->share_of_stream);
    }
    const weft_matrix_speed *m = &s->matrices;
    printf("], \"matrices\": {\"name\": \"%s\", \"width\": %lld, \"parameters\": %lld, "
           "\"flop\": %.6g, "
           "\"step_s\": %.6g, \"peak_flops\": %.6g, \"share_of_floor\": %.4g}}\n",
           m->name, (long long)m->width, (long long)m->n, m->flop, m->step_s,
           m->peak_flops, m->share_of_floor);
}

static int run_optimizers(weft_ctx *ctx, const args *a, long long steps,
                          long long warmup) {
    long long n = 0;
    weft_config *config = NULL;
    weft_optimizer_speeds speeds = {.struct_size = sizeof speeds};
    int code = args_int(a, "--parameters", 1, 1ll << 40, &n);
    if (code != CODE_OK) return code;
    weft_status status = config_of_args(ctx, a, &config);
    if (status == WEFT_OK) {
        weft_bench_optimizers_options o = {.struct_size = sizeof o,
                                           .kernels = config->mesh.kernels,
                                           .threads = (int)config->mesh.threads,
                                           .n = n,
                                           .accumulate = config->optimizer.accumulate,
                                           .steps = steps,
                                           .warmup = warmup,
                                           .width = config->model.width};
        status = weft_bench_optimizers(ctx, &o, &speeds);
    }
    if (status == WEFT_OK)
        (args_has(a, "--json") ? print_speeds_json : print_speeds_text)(&speeds);
    weft_config_destroy(ctx, config);
    return program_code(ctx, status);
}

/* Refuses a flag that the given kind of benchmark does not read, instead of ignoring it. */
static int check_flags(const args *a, const char *word) {
    static const struct {
        const char *flag, *words;
    } read_by[] = {{"--parameters", "optimizers or replicators"},
                   {"--nodes", "replicators"},
                   {"--only", "replicators"},
                   {"--hidden", "replicators"},
                   {"--svg", "kernels"}};
    for (size_t i = 0; i < sizeof read_by / sizeof read_by[0]; i++)
        if (args_has(a, read_by[i].flag) && !strstr(read_by[i].words, word))
            return usage_error("%s belongs to bench %s, found bench %s", read_by[i].flag,
                               read_by[i].words, word);
    return CODE_OK;
}

/* In the order of the words. */
static int (*const runs[])(weft_ctx *, const args *, long long, long long) = {
    run_train, bench_kernels, run_optimizers, bench_replicators};

static int run(weft_ctx *ctx, args *a) {
    long long steps = 10, warmup = 2;
    int code = args_expect(a, 1, 1000);
    if (code == CODE_OK) code = args_int(a, "--steps", 1, MAX_STEPS, &steps);
    if (code == CODE_OK) code = args_int(a, "--warmup", 0, MAX_STEPS, &warmup);
    if (code != CODE_OK) return code;
    int which = 0;
    while (words[which] && strcmp(a->operands[0], words[which]) != 0) which++;
    if (!words[which])
        return usage_error("unknown benchmark '%s', expected train, kernels, optimizers "
                           "or replicators",
                           a->operands[0]);
    code = check_flags(a, words[which]);
    if (code != CODE_OK) return code;
    a->operands++;
    a->n_operands--;
    return runs[which](ctx, a, steps, warmup);
}

const command command_bench = {
    .name = "bench",
    .summary = "measure how fast this machine trains a model",
    .usage = "train|kernels|optimizers|replicators [run.yaml] [key=value ...]",
    .help =
        "train: takes training steps on generated tokens, writes no file, and prints the "
        "median and the range of tokens per second, the rate of the model's own FLOP as "
        "a share of the machine's measured matrix product rate, and the peak memory.\n\n"
        "kernels: takes steps of one rank of the model (forward, backward, norm, AdamW). "
        "Prints for each kernel (products of each shape separately) the time of a call, "
        "FLOP and bytes per second, the share of the step, and the share of the rate "
        "that the measured peak and the memory's stream allow (more than 100 if its "
        "numbers are in the cache). --svg draws that as a roofline.\n\n"
        "optimizers: takes steps of every optimizer on --parameters numbers, with "
        "mesh.threads, mesh.kernels and optimizer.accumulate (here 0 = 4). Prints the "
        "median of the bytes that it reads and writes per second, also as a share of the "
        "rate at which this machine changes memory in place. Muon's step is that of the "
        "hidden matrices of one gpt2 layer of model.width, compared with its floor: "
        "bytes at the memory's rate plus FLOP at the processor's.\n\n"
        "replicators: takes steps of every replicator with several codecs, on --nodes "
        "nodes, one of which is timed, with mesh.threads and mesh.kernels. Prints the "
        "median time per parameter, the bytes that must be read and written per second, "
        "also as a share of the rate at which this machine copies memory, and the bits "
        "on the wire next to their entropy bound. With --hidden each also trains for "
        "--steps steps (without a run file on mesh.link=1Gbit,0.1ms and 512 tokens per "
        "node and step), and the share of its exchange that computing hides is printed. "
        "docs/prediction.md explains every column.",
    .examples = "bench train run.yaml\n"
                "bench optimizers mesh.threads=2\n"
                "bench replicators mesh.threads=2",
    .flags = flags,
    .words = words,
    .configures = true,
    .run = run,
};
