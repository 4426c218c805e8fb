/* SPDX-License-Identifier: MIT */
/* Facts about a cluster from flags (--link, --flops, ...), and this machine's own rate from a
 * few measured steps. */
#include "facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/train.h>

#include "common.h"

static const char *const names[] = {"nodes",
                                    "ranks-per-node",
                                    "sites",
                                    "link",
                                    "site-link",
                                    "node-link",
                                    "node-memory",
                                    "node-flops-bf16",
                                    "collective-cpu",
                                    "launch",
                                    "memory-bandwidth",
                                    "jitter",
                                    "drift",
                                    "stall",
                                    "overhead",
                                    "up",
                                    "loss",
                                    "wire-jitter"};
enum { N_NAMES = sizeof names / sizeof names[0] };

/* ---- this machine's rate ---- */

/* Size of the measurement: a few steps of the run's model, with enough tokens per step to
 * keep the kernels busy. */
enum { MEASURED_TOKENS = 4096, MEASURED_STEPS = 8, SKIPPED_STEPS = 1 };

typedef struct speed {
    double gemm_flops, best_mfu;
    double mfu[MEASURED_STEPS];
    int n;
} speed;

static void take_start(void *user, const weft_run_summary *summary) {
    ((speed *)user)->gemm_flops = summary->gemm_flops;
}

static void take_step(void *user, const weft_step_record *record) {
    speed *s = user;
    if (record->step > SKIPPED_STEPS && record->mfu > s->best_mfu)
        s->best_mfu = record->mfu;
}

static weft_status set_here(weft_ctx *ctx, weft_config *config) {
    char text[64];
    int64_t T = config->data.length, rows = MEASURED_TOKENS / T;
    int64_t most = config->batch.tokens_per_step / T;
    if (rows > most) rows = most;
    if (rows < 1) rows = 1;
    snprintf(text, sizeof text, "batch.tokens_per_step=%lld", (long long)(rows * T));
    WEFT_TRY(weft_config_set(ctx, config, text));
    snprintf(text, sizeof text, "run.steps=%d", MEASURED_STEPS);
    WEFT_TRY(weft_config_set(ctx, config, text));
    static const char *const plain[] = {
        "method=none",         "mesh.nodes=1",        "mesh.ranks_per_node=1",
        "mesh.shards=0",       "mesh.sites=1",        "mesh.link=none",
        "mesh.site_link=none", "mesh.compute_time=0", "mesh.straggler_time=0",
        "batch.micro=0",       "schedule.warmup=0"};
    static const char *const others[] = {"replicator.", "site_replicator.", "mixer.",
                                         "optimizer."};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        WEFT_TRY(weft_config_reset(ctx, config, others[i]));
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        WEFT_TRY(weft_config_set(ctx, config, plain[i]));
    return weft_config_finish(ctx, config);
}

/* FLOP/s of this machine while it trains the run's model: the best of a few steps. */
static weft_status measure_here(weft_ctx *ctx, const weft_config *run, double *flops) {
    speed s = {0};
    weft_train_hooks hooks = {.struct_size = sizeof hooks,
                              .user = &s,
                              .on_start = take_start,
                              .on_step = take_step};
    weft_train_result result = {.struct_size = sizeof result};
    weft_config *config;
    WEFT_TRY(weft_config_copy(ctx, run, &config));
    weft_status status = set_here(ctx, config);
    if (status == WEFT_OK) status = weft_bench_train(ctx, NULL, config, &hooks, &result);
    weft_config_destroy(ctx, config);
    *flops = s.best_mfu * s.gemm_flops;
    return status;
}

int read_failures(const args *a, bool saves, double *failure_s, double *restart_s,
                  double *save_s) {
    static const char *const flags[] = {"--restart", "--roll-back", "--save"};
    const double least[] = {1, 0, 0};
    const char *const times[] = {"--failures", "--restart", "--save"};
    double *const out[] = {failure_s, restart_s, save_s};
    int code = CODE_OK;
    for (int i = 0; i < 3 && code == CODE_OK; i++)
        code = args_quantity(a, times[i], WEFT_UNIT_TIME, (interval){least[i], 1e15},
                             out[i]);
    for (int i = 0; code == CODE_OK && i < (saves ? 3 : 2); i++)
        if (args_has(a, flags[i]) && !args_has(a, "--failures"))
            code = usage_error("%s says what a failure costs, but there is no --failures",
                               flags[i]);
    return code;
}

int read_busy(const args *a, double *busy_s, double *busy_share) {
    static const weft_quantity units[] = {WEFT_UNIT_TIME, WEFT_UNIT_SHARE};
    const char *text = args_value(a, "--busy");
    double busy[2];
    if (!text) return CODE_OK;
    if (!weft_quantity_parse_pair(text, units, busy) ||
        !(busy[0] >= 0 && busy[0] <= 86400) || !(busy[1] > 0 && busy[1] <= 1))
        return usage_error("--busy is '%s', expected at most 24h of a day and a share "
                           "above 0 and at most 100%% such as 8h,30%%",
                           text);
    *busy_s = busy[0];
    *busy_share = busy[1];
    return CODE_OK;
}

/* ---- the flags ---- */

static weft_status set_number(weft_ctx *ctx, weft_cluster *cluster, const char *name,
                              double value) {
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    return weft_cluster_set(ctx, cluster, name, text);
}

int check_effort(const args *a) {
    const char *text = args_value(a, "--effort");
    static const char *const rates[] = {"--node-flops", "--node-flops-bf16"};
    double share;
    if (!text) return CODE_OK;
    if (!args_has(a, "--accelerator"))
        return usage_error("--effort is a share of an accelerator's rate, but there is "
                           "no --accelerator such as H100");
    for (int i = 0; i < 2; i++)
        if (args_has(a, rates[i]))
            return usage_error(
                "--effort and %s both say how fast a node computes, expected one of them",
                rates[i]);
    if (!weft_quantity_parse(text, WEFT_UNIT_SHARE, &share) || !(share > 0 && share <= 1))
        return usage_error("--effort is '%s', expected a share of the data sheet's rate, "
                           "above 0 and at most 100%%, such as 38%%",
                           text);
    return CODE_OK;
}

/* Describes the ranks by a data sheet, and by what training reaches of it. */
static weft_status set_accelerator(weft_ctx *ctx, const args *a, const char *name,
                                   weft_cluster *cluster) {
    const char *text = args_value(a, "--effort");
    double effort;
    if (text && weft_quantity_parse(text, WEFT_UNIT_SHARE, &effort))
        return weft_cluster_effort(ctx, cluster, name, effort);
    return weft_cluster_accelerate(ctx, cluster, name);
}

/* Copies the next of "M4,T4" and moves *list behind it; false: there is none. */
static bool next_name(const char **list, char name[64]) {
    size_t n = *list ? strcspn(*list, ",") : 0;
    if (!*list) return false;
    snprintf(name, 64, "%.*s", n < 63 ? (int)n : 63, *list);
    *list = (*list)[n] ? *list + n + 1 : NULL;
    return true;
}

const weft_accelerator *next_accelerator(const char **list) {
    char name[64];
    return next_name(list, name) ? weft_accelerator_find(name) : NULL;
}

/* "M4,T4" of --accelerator; NULL: all ranks are alike. */
static const char *accelerators_of_each(const args *a) {
    const char *text = args_value(a, "--accelerator");
    return text && strchr(text, ',') ? text : NULL;
}

/* One machine for each name. The cluster gets the rates of the fastest, and the slowest
 * memory: that of an exchange, which waits for all. */
static weft_status set_accelerators(weft_ctx *ctx, const args *a, const char *list,
                                    weft_cluster *cluster) {
    weft_cluster most = {.memory_Bps = INFINITY};
    char name[64];
    bool room = args_has(a, "--node-memory");
    for (int64_t i = 0; next_name(&list, name); i++) {
        WEFT_TRY(set_accelerator(ctx, a, name, cluster));
        if (!room && cluster->memory_bytes <= 0)
            return weft_ctx_fail(
                ctx, WEFT_ERR_ARGUMENT,
                "--accelerator names %s, of which there are several sizes "
                "of memory, expected --node-memory, or a list of machines "
                "in --cluster",
                name);
        cluster->machines[i] = (weft_machine){
            .node = i,
            .rank_flops = cluster->rank_flops,
            .memory_bytes = room ? 0 : cluster->memory_bytes};
        most.memory_Bps = fmin(most.memory_Bps, cluster->memory_Bps);
        if (cluster->rank_flops <= most.rank_flops) continue;
        most.rank_flops = cluster->rank_flops;
        most.memory_bytes = cluster->memory_bytes;
    }
    cluster->rank_flops = most.rank_flops;
    cluster->memory_bytes = most.memory_bytes;
    cluster->memory_Bps = most.memory_Bps;
    return WEFT_OK;
}

/* Makes room for the machines of a list of accelerators. */
static weft_status list_machines(weft_ctx *ctx, const args *a, const char *list,
                                 weft_cluster *cluster) {
    static const char *const others[] = {"--cluster", "--measured", "--node-flops"};
    const char *each = args_value(a, "--ranks-per-node"), *with = NULL;
    char name[64];
    int64_t n = 0;
    for (const char *at = list; next_name(&at, name);) n++;
    for (int i = 0; i < 3; i++)
        if (args_has(a, others[i])) with = others[i];
    if (each && strchr(each, ',')) with = "--ranks-per-node of each";
    if (with || (args_has(a, "--nodes") && cluster->nodes != n))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--accelerator is '%.60s', one for each of %lld nodes, "
                             "expected none beside %s%s",
                             list, (long long)n, with ? with : "another ",
                             with ? "" : "--nodes");
    WEFT_TRY(set_number(ctx, cluster, "nodes", (double)n));
    return weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_MACHINES, n);
}

static weft_status set_flops(weft_ctx *ctx, const args *a, const weft_config *run,
                             weft_cluster *cluster) {
    const char *text = args_value(a, "--node-flops");
    double flops;
    bool known = cluster->rank_flops > 0 || cluster->n_units > 0;
    const char *name = args_value(a, "--accelerator");
    /* a rate on the command line replaces the units that a file has */
    if (name || text) cluster->n_units = 0;
    if (name) {
        const char *each = accelerators_of_each(a);
        WEFT_TRY(each ? set_accelerators(ctx, a, each, cluster)
                      : set_accelerator(ctx, a, name, cluster));
        if (args_has(a, "--node-memory"))
            WEFT_TRY(weft_cluster_set(ctx, cluster, "node-memory",
                                      args_value(a, "--node-memory")));
        if (args_has(a, "--memory-bandwidth"))
            WEFT_TRY(weft_cluster_set(ctx, cluster, "memory-bandwidth",
                                      args_value(a, "--memory-bandwidth")));
        if (!text) return WEFT_OK;
    }
    if (!text && (known || args_has(a, "--measured"))) return WEFT_OK;
    if (!text)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "what a node computes is not known, expected --accelerator "
                             "such as RTX4090, --measured \"1 node: 0.9 s\", --cluster "
                             "FILE, --node-flops 80T, or --node-flops here, which "
                             "measures this machine");
    if (strcmp(text, "here") != 0)
        return weft_cluster_set(ctx, cluster, "node-flops", text);
    WEFT_TRY(measure_here(ctx, run, &flops));
    return set_number(ctx, cluster, "node-flops", flops);
}

const char *ranks_of_each(const args *a) {
    const char *text = args_value(a, "--ranks-per-node");
    return text && strchr(text, ',') ? text : NULL;
}

int numbers_of_ranks(const char *text, int64_t out[MOST_MACHINES]) {
    char word[8];
    int n = 0;
    for (const char *at = text; at; at = strchr(at, ','), at += at != NULL) {
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        if (n == MOST_MACHINES ||
            !weft_quantity_parse_int(word, WEFT_UNIT_COUNT, &out[n]))
            return 0;
        if (out[n] < 1 || out[n] > 4096) return 0;
        n++;
    }
    return n;
}

/* "4,2": a machine with fewer ranks is one whose ranks are slower, by their number; with shares by
 * speed every rank has as many sequences, and it has as much memory. */
static weft_status set_ranks_of_each(weft_ctx *ctx, const args *a, const weft_config *run,
                                     const char *text, weft_cluster *cluster) {
    int64_t each[MOST_MACHINES];
    int n = numbers_of_ranks(text, each);
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, (double)each[i]);
    const char *with = args_has(a, "--cluster")    ? "--cluster"
                       : args_has(a, "--measured") ? "--measured"
                                                   : NULL;
    if (n < 2)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--ranks-per-node is '%.40s', expected a number, or 2 to %d "
                             "numbers from 1 to 4096, one for each node, such as 4,2",
                             text, (int)MOST_MACHINES);
    if (with)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--ranks-per-node is '%.40s', expected one number beside %s",
                             text, with);
    if (args_has(a, "--nodes") && cluster->nodes != n)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--ranks-per-node is '%.40s', of %d nodes, but --nodes is "
                             "%lld",
                             text, n, (long long)cluster->nodes);
    WEFT_TRY(set_number(ctx, cluster, "nodes", n));
    WEFT_TRY(set_number(ctx, cluster, "ranks-per-node", most));
    WEFT_TRY(set_flops(ctx, a, run, cluster));
    WEFT_TRY(weft_cluster_resize(ctx, cluster, WEFT_CLUSTER_MACHINES, (int64_t)n));
    for (int64_t i = 0; i < cluster->n_machines; i++)
        cluster->machines[i] = (weft_machine){
            .node = i, .rank_flops = cluster->rank_flops * (double)each[i] / most};
    return WEFT_OK;
}

static weft_status set_nodes(weft_ctx *ctx, const weft_config *run, int64_t nodes,
                             weft_cluster *cluster) {
    double ranks = (double)run->mesh.ranks_per_node;
    WEFT_TRY(set_number(ctx, cluster, "nodes", (double)nodes));
    WEFT_TRY(set_number(ctx, cluster, "ranks-per-node", ranks));
    return set_number(ctx, cluster, "sites", (double)run->mesh.sites);
}

static weft_status fill(weft_ctx *ctx, const args *a, const weft_config *run,
                        int64_t nodes, weft_cluster *cluster) {
    char name[40];
    const char *each = ranks_of_each(a);
    if (!args_has(a, "--cluster")) {
        if (run->mesh.nodes > 1) nodes = run->mesh.nodes;
        WEFT_TRY(set_nodes(ctx, run, nodes, cluster));
    }
    for (int i = 0; i < N_NAMES; i++) {
        snprintf(name, sizeof name, "--%s", names[i]);
        const char *value = args_value(a, name);
        bool one = !each || strcmp(names[i], "ranks-per-node") != 0;
        if (value && one) WEFT_TRY(weft_cluster_set(ctx, cluster, names[i], value));
    }
    if (accelerators_of_each(a))
        WEFT_TRY(list_machines(ctx, a, accelerators_of_each(a), cluster));
    if (each) return set_ranks_of_each(ctx, a, run, each, cluster);
    /* the number of nodes was not given: use one that the given number of sites divides */
    bool guessed = !args_has(a, "--cluster") && !args_has(a, "--nodes") &&
                   !accelerators_of_each(a);
    if (guessed && cluster->nodes % cluster->sites != 0)
        WEFT_TRY(set_number(ctx, cluster, "nodes", (double)cluster->sites));
    return set_flops(ctx, a, run, cluster);
}

/* ---- facts without a use ---- */

/* The ranks of "2 nodes x 4" before the colon; 0: none are given. */
static long long ranks_said(const char *text) {
    const char *at = strstr(text, "node");
    long long ranks = 0;
    char x = ' ', colon = ' ';
    if (!at || sscanf(at + 4 + (at[4] == 's'), " %c %lld %c", &x, &ranks, &colon) < 3)
        return 0;
    return x == 'x' ? ranks : 0;
}

/* Refuses ranks of a measurement where the cluster has one of each node, and no flag says more. */
static weft_status check_ranks(weft_ctx *ctx, const args *a, const weft_cluster *c) {
    static const char *const measured[] = {"--measured", "--allreduce"};
    const char *text;
    if (args_has(a, "--ranks-per-node") || args_has(a, "--cluster") ||
        c->ranks_per_node > 1)
        return WEFT_OK;
    for (int k = 0; k < 2; k++)
        for (int i = 0; (text = args_nth(a, measured[k], i)); i++)
            if (ranks_said(text) > 1)
                return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                     "%s is '%.60s', but the plan is of one rank per "
                                     "node, expected --ranks-per-node %lld beside it",
                                     measured[k], text, ranks_said(text));
    return WEFT_OK;
}

weft_status check_facts(weft_ctx *ctx, const args *a, const weft_cluster *c) {
    static const char *const of_wire[] = {"--link",        "--up",       "--loss",
                                          "--wire-jitter", "--overhead", "--wire",
                                          "--busy",        "--allreduce"};
    for (int i = 0; i < 8 && c->nodes == 1; i++)
        if (args_has(a, of_wire[i]))
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                 "%s is of the wire between nodes, but there is one node",
                                 of_wire[i]);
    if (args_has(a, "--node-link") && c->ranks_per_node == 1)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--node-link is the wire between ranks of a node, but there "
                             "is one, expected --ranks-per-node beside it");
    if (args_has(a, "--site-link") && c->sites == 1)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--site-link is the wire between sites, but there is no "
                             "--sites");
    return check_ranks(ctx, a, c);
}

weft_status cluster_of_args(weft_ctx *ctx, const args *a, const weft_config *run,
                            int64_t nodes, weft_cluster **out) {
    const char *path = args_value(a, "--cluster");
    if (path)
        WEFT_TRY(weft_cluster_load(ctx, path, out));
    else
        WEFT_TRY(weft_cluster_create(ctx, out));
    return fill(ctx, a, run, nodes, *out);
}

static weft_status fill_here(weft_ctx *ctx, const weft_config *run,
                             weft_cluster *cluster) {
    double flops;
    WEFT_TRY(set_nodes(ctx, run, run->mesh.nodes, cluster));
    WEFT_TRY(measure_here(ctx, run, &flops));
    return set_number(ctx, cluster, "node-flops", flops / (double)run->mesh.nodes);
}

weft_status cluster_here(weft_ctx *ctx, const weft_config *run, weft_cluster **out) {
    WEFT_TRY(weft_cluster_create(ctx, out));
    return fill_here(ctx, run, *out);
}
