/* SPDX-License-Identifier: MIT */
/* `weft simulate`: a long run on many machines, with jitter, slow nodes and failures. */
#include <math.h>
#include <stdio.h>

#include <weft/simulate.h>

#include "common.h"
#include "facts.h"
#include "shape.h"

static const flag flags[] = {
    {"--cluster", "FILE", "cluster.yaml, as weft probe writes it", NULL},
    {"--link", "RATE,LATENCY",
     "rate and latency of a node's interface, such as 25Gbit,20us", NULL},
    {"--node-link", "RATE,LATENCY", "rate and latency between the ranks of a node", NULL},
    {"--node-flops", "RATE", "FLOP/s of a node while it trains, such as 80T", NULL},
    {"--memory-bandwidth", "RATE", "memory rate of a rank, such as 100GB/s", NULL},
    {"--jitter", "SHARE", "spread of a step's computing time, such as 5%", NULL},
    {"--drift", "SHARE", "spread of the nodes' own speeds", NULL},
    {"--stall", "SHARE,TIME", "how often and how long a rank stalls: 1%,2s", NULL},
    {"--up", "RATE", "rate out of a node, if --link is only the rate in: 20Mbit", NULL},
    {"--loss", "SHARE", "share of packets lost on the wire, such as 0.1%", NULL},
    {"--wire-jitter", "TIME", "mean delay beyond the latency, such as 5ms", NULL},
    SHAPE_FLAGS,
    {"--nodes", "N",
     "number of nodes (default mesh.nodes, or those of --cluster); tokens grow with it",
     NULL},
    {"--steps", "N", "number of steps (default run.steps)", NULL},
    {"--seed", "S", "seed of all random events (default 0)", NULL},
    {"--slow-nodes", "SHARE,FACTOR", "nodes that compute slower: 1%,2", NULL},
    {"--slow-links", "SHARE,FACTOR", "nodes whose interface is slower: 1%,4", NULL},
    {"--failures", "TIME", "mean time between failures of one node: 4000h", NULL},
    {"--restart", "TIME", "time from a failure until all nodes continue: 5min", NULL},
    {"--roll-back", NULL,
     "a failure sets all nodes back, even if the others could continue", NULL},
    {"--busy", "TIME,SHARE",
     "busy time of each day, and what the wire carries then: 8h,30%", NULL},
    {"--save-every", "N", "steps between checkpoints (default run.save_every)", NULL},
    {"--save", "TIME", "time that all nodes wait for a checkpoint: 30s", NULL},
    {"--json", NULL, "one JSON object instead of text", NULL},
    {NULL, NULL, NULL, NULL}};

enum { MOST_NODES = 65536, MOST_STEPS = 10000000 };

/* ---- the command line ---- */

/* Parses "1%,2": a share and a factor. */
static int parse_slow(const char *name, const char *text, double *share, double *factor) {
    static const weft_quantity units[] = {WEFT_UNIT_SHARE, WEFT_UNIT_NUMBER};
    double slow[2];
    if (!text) return CODE_OK;
    if (weft_quantity_parse_pair(text, units, slow) && slow[0] >= 0 && slow[0] <= 1 &&
        slow[1] >= 1 && slow[1] <= 1e6) {
        *share = slow[0];
        *factor = slow[1];
        return CODE_OK;
    }
    return usage_error("%s is '%s', expected a share and a factor such as 1%%,2", name,
                       text);
}

static int read_flags(const args *a, weft_simulate_options *o) {
    long long nodes = 0, steps = 0, seed = 0, every = 0;
    int code = args_int(a, "--nodes", 1, MOST_NODES, &nodes);
    if (code == CODE_OK) code = args_int(a, "--steps", 1, MOST_STEPS, &steps);
    if (code == CODE_OK) code = args_int(a, "--seed", 0, 1ll << 62, &seed);
    if (code == CODE_OK) code = args_int(a, "--save-every", 1, MOST_STEPS, &every);
    if (code == CODE_OK)
        code = parse_slow("--slow-nodes", args_value(a, "--slow-nodes"), &o->slow_nodes,
                          &o->slow_factor);
    if (code == CODE_OK)
        code = parse_slow("--slow-links", args_value(a, "--slow-links"), &o->slow_links,
                          &o->slow_link_factor);
    if (code == CODE_OK)
        code = read_failures(a, false, &o->failure_s, &o->restart_s, &o->save_s);
    if (code == CODE_OK) code = read_busy(a, &o->busy_s, &o->busy_share);
    o->roll_back = args_has(a, "--roll-back");
    o->nodes = nodes;
    o->steps = steps;
    o->seed = (uint64_t)seed;
    o->save_every = every;
    return code;
}

/* ---- text ---- */

static const char *time_text(double s, char *out, size_t size) {
    if (s >= 86400)
        snprintf(out, size, "%.4g d", s / 86400);
    else if (s >= 3600)
        snprintf(out, size, "%.4g h", s / 3600);
    else if (s >= 1)
        snprintf(out, size, "%.4g s", s);
    else
        snprintf(out, size, "%.4g ms", s * 1e3);
    return out;
}

static void print_row(const char *name, double seconds, const weft_simulation *x,
                      const char *what) {
    char text[32];
    double share = x->elapsed_s > 0 ? 100 * seconds / x->elapsed_s : 0;
    printf("  %-10s %12s %6.2f %%   %s\n", name, time_text(seconds, text, sizeof text),
           share, what);
}

static void print_text(const weft_simulation *x) {
    char a[32], b[32], c[32];
    const weft_lost_time *l = &x->lost;
    printf("run        %lld step%s on %lld node%s in %s, %.6g tokens/s\n",
           (long long)x->steps, x->steps == 1 ? "" : "s", (long long)x->nodes,
           x->nodes == 1 ? "" : "s", time_text(x->elapsed_s, a, sizeof a),
           x->tokens_per_s);
    printf("step       %s in the median, 5 to 95 %%: %s to %s; ",
           time_text(x->step_s.median, a, sizeof a),
           time_text(x->step_s.low, b, sizeof b), time_text(x->step_s.high, c, sizeof c));
    printf("%s on calm machines\n", time_text(x->calm_step_s, a, sizeof a));
    printf("bytes      %.6g per step out of a node\n", x->wire_bytes_step);
    printf("apart      %s between the first node and the last at the end\n",
           time_text(x->ahead_s, a, sizeof a));
    if (x->failures > 0) printf("failures   %lld\n", (long long)x->failures);
    printf("time\n");
    print_row("compute", x->compute_s, x, "on equal machines, without any exchange");
    print_row("codec", l->codec_s, x, "coding and optimizing that nothing hides");
    print_row("wire", l->wire_s, x, "links that nothing hides, slow links");
    print_row("slow", l->slow_s, x, "jitter, stalls and slow nodes, the mean node's");
    print_row("waiting", l->waiting_s, x, "for nodes that are later than the mean");
    print_row("saving", l->saving_s, x, "checkpoints");
    print_row("repeated", l->repeated_s, x, "steps since the checkpoint, at failures");
    print_row("restart", l->restart_s, x, "from failures until all go on");
}

/* Prints a number; JSON has no representation of numbers that are not finite. */
static void print_number(const char *name, double value) {
    if (isfinite(value))
        printf(", \"%s\": %.9g", name, value);
    else
        printf(", \"%s\": null", name);
}

static void print_json(const weft_simulation *x) {
    const weft_lost_time *l = &x->lost;
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"elapsed_s", x->elapsed_s},     {"tokens_per_s", x->tokens_per_s},
                   {"step_s", x->step_s.median},    {"step_low_s", x->step_s.low},
                   {"step_high_s", x->step_s.high}, {"step_mean_s", x->mean_step_s},
                   {"step_calm_s", x->calm_step_s}, {"wire_bytes", x->wire_bytes_step},
                   {"ahead_s", x->ahead_s},         {"compute_s", x->compute_s},
                   {"codec_s", l->codec_s},         {"wire_s", l->wire_s},
                   {"slow_s", l->slow_s},           {"waiting_s", l->waiting_s},
                   {"saving_s", l->saving_s},       {"repeated_s", l->repeated_s},
                   {"restart_s", l->restart_s}};
    printf("{\"nodes\": %lld, \"steps\": %lld, \"failures\": %lld", (long long)x->nodes,
           (long long)x->steps, (long long)x->failures);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        print_number(numbers[i].name, numbers[i].value);
    printf("}\n");
}

/* ---- the command ---- */

static weft_status read_cluster(weft_ctx *ctx, const args *a, weft_cluster **out) {
    static const char *const facts[] = {
        "--link",   "--node-link",  "--node-flops", "--memory-bandwidth",
        "--jitter", "--drift",      "--stall",      "--up",
        "--loss",   "--wire-jitter"};
    const char *path = args_value(a, "--cluster");
    WEFT_TRY(path ? weft_cluster_load(ctx, path, out) : weft_cluster_create(ctx, out));
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        const char *value = args_value(a, facts[i]);
        if (value) WEFT_TRY(weft_cluster_set(ctx, *out, facts[i] + 2, value));
    }
    return WEFT_OK;
}

/* Sets the cluster's ranks per node to those of the run, which share the node's
 * resources.
 */
static weft_status fit(weft_ctx *ctx, const args *a, const weft_config *config,
                       weft_cluster *cluster) {
    char text[32];
    if (!args_has(a, "--node-flops")) return WEFT_OK;
    snprintf(text, sizeof text, "%lld", (long long)config->mesh.ranks_per_node);
    return weft_cluster_set(ctx, cluster, "ranks-per-node", text);
}

/* The number of nodes to simulate: without --nodes and mesh.nodes that of cluster.yaml. */
static int64_t nodes_of(const args *a, const weft_config *config,
                        const weft_cluster *cluster, int64_t asked) {
    bool given = asked > 0 || config->mesh.nodes > 1 || !args_has(a, "--cluster");
    return given || cluster->nodes > MOST_NODES ? asked : cluster->nodes;
}

static weft_status simulate(weft_ctx *ctx, const args *a,
                            weft_simulate_options *options) {
    weft_config *config = NULL;
    weft_cluster *cluster = NULL;
    weft_simulation result = {.struct_size = sizeof result};
    shape model;
    weft_status status = config_of_args(ctx, a, &config);
    if (status == WEFT_OK) status = shape_of_args(ctx, a, config, &model);
    if (status == WEFT_OK) status = read_cluster(ctx, a, &cluster);
    if (status == WEFT_OK) status = fit(ctx, a, config, cluster);
    if (status == WEFT_OK)
        cluster->rank_flops /= model.flop_share; /* after fit(), which sets
                                                                       rank_flops */
    if (status == WEFT_OK) options->nodes = nodes_of(a, config, cluster, options->nodes);
    if (status == WEFT_OK) status = weft_simulate(ctx, config, cluster, options, &result);
    if (status == WEFT_OK) (args_has(a, "--json") ? print_json : print_text)(&result);
    weft_cluster_destroy(ctx, cluster);
    weft_config_destroy(ctx, config);
    return status;
}

static int run(weft_ctx *ctx, args *a) {
    weft_simulate_options options = {.struct_size = sizeof options, .nodes = 0};
    int code = read_flags(a, &options);
    if (code != CODE_OK) return code;
    return program_code(ctx, simulate(ctx, a, &options));
}

const command command_simulate = {
    .name = "simulate",
    .summary = "simulate a long run on many nodes: jitter, slow machines, failures",
    .usage = "[run.yaml] [key=value ...] [flags]",
    .help = "Simulates a configured run on up to 65536 nodes without training: every "
            "step of every node, with machines whose speed varies, slow machines, slow "
            "links, and failures. After a failure, replicas that are equal continue "
            "without the lost node; others go back to the last checkpoint (--roll-back: "
            "all do). Prints how long steps take, and what the time is spent on.\n\n"
            "Facts about the machines come from --cluster or from the flags, which "
            "override it. docs/prediction.md says what is modelled, and how well.",
    .examples = "simulate run.yaml --nodes 64 --link 1Gbit,10ms --node-flops 80T",
    .flags = flags,
    .facts = CLUSTER_FLAGS_LAST,
    .configures = true,
    .run = run,
};
