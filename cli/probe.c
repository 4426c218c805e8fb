/* SPDX-License-Identifier: MIT */
/* weft probe: measures the configured mesh and writes cluster.yaml. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/probe.h>

#include "common.h"
#include "progress.h"

static const flag flags[] = {
    {"-o", "FILE", "file for the results, for weft plan", NULL},
    {"--seconds", "N", "approximate time that it takes (default 60)", NULL},
    {"--nodes", "N", "number of nodes", "mesh.nodes"},
    {"--ranks-per-node", "S", "ranks that shard one copy of the model in a node",
     "mesh.ranks_per_node"},
    {"--link", "LINK", "emulated wire between nodes, such as 100Mbit,10ms", "mesh.link"},
    {"--json", NULL, "one JSON object instead of text", NULL},
    {"--quiet", NULL, "no progress; errors and results only", NULL},
    {NULL, NULL, NULL, NULL}};

enum { LEAST_SECONDS = 1, MOST_SECONDS = 7200 };

/* --- text --- */

typedef struct scale {
    const char *unit, *shown;
    double factor;
} scale;

/* Scales in ascending order; the last one that is not larger than the value is used. */
static const scale scales[] = {{"s", "ns", 1e-9},
                               {"s", "us", 1e-6},
                               {"s", "ms", 1e-3},
                               {"s", "s", 1},
                               {"s/parameter", "ns/parameter", 1e-9},
                               {"s/B", "ns/B", 1e-9},
                               {"B/s", "kbit/s", 125},
                               {"B/s", "Mbit/s", 125e3},
                               {"B/s", "Gbit/s", 125e6},
                               {"FLOP/s", "MFLOP/s", 1e6},
                               {"FLOP/s", "GFLOP/s", 1e9},
                               {"FLOP/s", "TFLOP/s", 1e12},
                               {"", "%", 0.01}};

static const char *value_text(const weft_probe_figure *f, char *out, size_t size) {
    const scale *best = NULL;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        if (strcmp(scales[i].unit, f->unit) != 0) continue;
        if (!best || f->value >= scales[i].factor) best = &scales[i];
    }
    bool rate = strcmp(f->unit, "B/s") == 0;
    if (rate && f->value == 0)
        snprintf(out, size, "memory speed");
    else if (best)
        snprintf(out, size, "%.4g %s", f->value / best->factor, best->shown);
    else
        snprintf(out, size, "%.4g %s", f->value, f->unit);
    return out;
}

/* Formats the difference between the two halves: of a share the difference itself, of any
 * other figure the difference relative to its value. */
static const char *deviation_text(const weft_probe_figure *f, char *out, size_t size) {
    double apart = fabs(f->second - f->first);
    bool share = f->unit[0] == '\0';
    if (share)
        snprintf(out, size, "%.2g points", 100 * apart);
    else if (f->value > 0)
        snprintf(out, size, "%.1f %%", 100 * apart / f->value);
    else
        snprintf(out, size, "-");
    return out;
}

static void print_text(const weft_probe_result *r) {
    const weft_cluster *c = r->cluster;
    char value[64], deviation[64];
    printf("mesh       %lld node%s x %lld rank%s x %lld thread%s, %s backend, %s, %s\n",
           (long long)c->nodes, c->nodes == 1 ? "" : "s", (long long)c->ranks_per_node,
           c->ranks_per_node == 1 ? "" : "s", (long long)c->threads,
           c->threads == 1 ? "" : "s", c->backend, c->host, c->date);
    printf("model      %s\n\n", c->model);
    printf("%-34s %20s %16s\n", "measured", "median", "halves differ");
    for (int64_t i = 0; i < r->n_figures; i++) {
        const weft_probe_figure *f = &r->figures[i];
        printf("%-34s %20s %16s\n", f->name, value_text(f, value, sizeof value),
               deviation_text(f, deviation, sizeof deviation));
    }
    for (int64_t i = 0; i < c->n_pairs; i++)
        printf("%s link %lld>%lld: %.4g ms, %.4g Mbit/s\n", i ? "    " : "\nodd",
               (long long)c->pairs[i].from, (long long)c->pairs[i].to,
               c->pairs[i].latency_s * 1e3, c->pairs[i].bandwidth_Bps / 125e3);
    printf("\ntime       %.1f s\n", r->elapsed_s);
}

static void put_number(const char *key, double value) {
    if (isfinite(value))
        printf(", \"%s\": %.9g", key, value);
    else
        printf(", \"%s\": null", key);
}

static void print_json(const weft_probe_result *r) {
    const weft_cluster *c = r->cluster;
    printf("{\"nodes\": %lld, \"ranks_per_node\": %lld, \"threads\": %lld, \"backend\": "
           "\"%s\", \"date\": \"%s\", \"elapsed_s\": %.3f, \"figures\": [",
           (long long)c->nodes, (long long)c->ranks_per_node, (long long)c->threads,
           c->backend, c->date, r->elapsed_s);
    for (int64_t i = 0; i < r->n_figures; i++) {
        const weft_probe_figure *f = &r->figures[i];
        printf("%s{\"name\": \"%s\", \"unit\": \"%s\"", i ? ", " : "", f->name, f->unit);
        put_number("value", f->value);
        put_number("first", f->first);
        put_number("second", f->second);
        printf("}");
    }
    printf("]}\n");
}

/* --- the command --- */

static void say_part(void *user, const char *what) {
    char line[96];
    (void)user;
    snprintf(line, sizeof line, "measuring %s", what);
    progress_note("", line);
}

/* Checks the output folder before a minute of measuring. */
static weft_status check_folder(weft_ctx *ctx, const char *path) {
    char folder[4096];
    struct stat about;
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash || slash == path) return WEFT_OK;
    int n = snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    bool found = n < (int)sizeof folder && stat(folder, &about) == 0 &&
                 S_ISDIR(about.st_mode);
    if (found) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "there is no folder %s for %s", folder,
                         slash + 1);
}

static weft_status probe(weft_ctx *ctx, const args *a, weft_mesh *mesh, double seconds,
                         weft_config *config) {
    const char *path = args_value(a, "-o");
    bool leads = !mesh || weft_mesh_look(mesh)->rank == 0;
    weft_probe_result result = {.struct_size = sizeof result};
    weft_probe_options options = {.struct_size = sizeof options, .seconds = seconds};
    if (leads && !args_has(a, "--quiet")) options.on_part = say_part;
    if (leads) WEFT_TRY(check_folder(ctx, path));
    WEFT_TRY(weft_probe(ctx, mesh, config, &options, &result));
    weft_status status = WEFT_OK;
    if (leads && path) status = weft_cluster_write(ctx, result.cluster, path);
    if (leads && status == WEFT_OK)
        (args_has(a, "--json") ? print_json : print_text)(&result);
    weft_probe_clear(ctx, &result);
    return status;
}

static int run(weft_ctx *ctx, args *a) {
    double seconds = 60;
    int code = args_quantity(a, "--seconds", WEFT_UNIT_SECONDS,
                             (interval){LEAST_SECONDS, MOST_SECONDS}, &seconds);
    if (code != CODE_OK) return code;
    weft_config *config = NULL;
    weft_mesh *mesh = NULL;
    weft_status status = mesh_of_args(ctx, a, &mesh);
    if (status == WEFT_OK) status = config_on_mesh(ctx, a, mesh, &config);
    if (status == WEFT_OK) status = probe(ctx, a, mesh, seconds, config);
    code = leave_mesh(ctx, mesh, status, CODE_OK);
    weft_config_destroy(ctx, config);
    return code;
}

const command command_probe = {
    .name = "probe",
    .summary = "measure machines and links for weft plan",
    .usage = "[run.yaml] [key=value ...] [-o cluster.yaml]",
    .help = "Measures the configured mesh while all its ranks work: matrix products and "
            "copying, each unit of the configured model with the configured micro-batch, "
            "how much a step's computing time varies, latency and bandwidth of each "
            "class of links, collectives, and the time of codecs and optimizers. Trains "
            "nothing; tokens are generated.\n\n"
            "Prints a table, which also shows how far the first and the second half of "
            "the samples differ, and writes cluster.yaml, from which weft plan predicts. "
            "Slow links get smaller messages, so that they are measured in the same "
            "time. docs/prediction.md explains each figure.",
    .examples = "probe run.yaml -o cluster.yaml\n"
                "probe run.yaml -o cluster.yaml --seconds 20\n"
                "probe run.yaml --nodes 8 --link 100Mbit,10ms",
    .flags = flags,
    .configures = true,
    .run = run,
};
