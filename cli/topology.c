/* SPDX-License-Identifier: MIT */
/* `weft topology`: which nodes mix with which, how fast a mean spreads, and what is sent. */
#include <math.h>
#include <stdio.h>

#include <weft/topology.h>

#include "common.h"

static const flag flags[] = {
    {"--nodes", "N", "number of nodes", NULL},
    {"--ranks", "L", "ranks per node that each hold a whole copy (default 1)", NULL},
    {"--bytes", "SIZE", "bytes of one copy, such as 100MB (default 100MB)", NULL},
    {"--links", "FILE", "YAML file with a list of links; required for measured", NULL},
    {"--seed", "S", "seed of matching and push (default 1)", NULL},
    {"--steps", "K", "steps to print; otherwise one period, at most 16", NULL},
    {"--svg", "FILE", "draw the first steps of the schedule, at most 12", NULL},
    {"--json", NULL, "one JSON object instead of text", NULL},
    {NULL, NULL, NULL, NULL}};

enum { MOST_STEPS = 16, SAMPLE = 8, MAX_PRINTED = 100000 };

typedef struct request {
    weft_topology_config config;
    weft_links links; /* items owned by the context */
    long long steps;  /* 0: one period, at most 16 */
} request;

/* ---- the command line ---- */

static int read_flags(const args *a, request *r) {
    long long nodes = 0, ranks = 1, seed = 1;
    double bytes = 100e6;
    r->config.struct_size = sizeof r->config;
    r->links.struct_size = sizeof r->links;
    int code = CODE_OK;
    if (!args_has(a, "--nodes"))
        code = usage_error("the number of nodes is missing, expected: weft topology %s "
                           "--nodes N",
                           a->operands[0]);
    if (code == CODE_OK) code = args_int(a, "--nodes", 1, WEFT_TOPOLOGY_MEMBERS, &nodes);
    if (code == CODE_OK) code = args_int(a, "--ranks", 1, WEFT_TOPOLOGY_MEMBERS, &ranks);
    if (code == CODE_OK) code = args_int(a, "--seed", 0, 1ll << 62, &seed);
    if (code == CODE_OK) code = args_int(a, "--steps", 1, MAX_PRINTED, &r->steps);
    if (code == CODE_OK)
        code = args_quantity(a, "--bytes", WEFT_UNIT_BYTES, (interval){0, 1e15}, &bytes);
    if (code != CODE_OK) return code;
    r->config.kind = a->operands[0];
    r->config.copy_bytes = (int64_t)bytes;
    r->config.nodes = nodes;
    r->config.ranks = ranks;
    r->config.seed = (uint64_t)seed;
    return CODE_OK;
}

static long long steps_to_print(const request *r, const weft_topology_facts *f) {
    if (r->steps > 0) return r->steps;
    if (f->period == 0) return SAMPLE;
    return f->period < MOST_STEPS ? f->period : MOST_STEPS;
}

/* ---- text ---- */

static const char *bytes_text(double n, char *out, size_t size) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int k = 0;
    while (k < 4 && n >= 999.95) n /= 1000, k++;
    snprintf(out, size, "%.4g %s", n, units[k]);
    return out;
}

static const char *time_text(double s, char *out, size_t size) {
    const char *unit = s >= 1 ? "s" : s >= 1e-3 ? "ms" : "us";
    snprintf(out, size, "%.4g %s", s >= 1 ? s : s >= 1e-3 ? s * 1e3 : s * 1e6, unit);
    return out;
}

static void print_head(const weft_topology_facts *f) {
    printf("%s: %lld node%s", f->kind, (long long)f->nodes, f->nodes == 1 ? "" : "s");
    if (f->ranks > 1)
        printf(" x %lld ranks = %lld members", (long long)f->ranks,
               (long long)f->members);
    if (f->period == 0)
        printf(", never repeats");
    else
        printf(", period of %lld step%s", (long long)f->period,
               f->period == 1 ? "" : "s");
    printf("%s", f->directed ? ", directed" : "");
    printf("%s\n\n", f->push_sum ? ", needs push-sum weights" : "");
}

static weft_status print_schedule(weft_ctx *ctx, const weft_topology *t,
                                  const request *r) {
    weft_topology_facts f = *weft_topology_describe(t);
    long long n = steps_to_print(r, &f);
    for (long long step = 0; step < n; step++) {
        char *text;
        WEFT_TRY(weft_topology_notation(ctx, t, step, &text));
        printf("step %-8lld %s\n", step, text);
        weft_free(ctx, text);
    }
    if (f.period > n) printf("...           %lld more\n", (long long)f.period - n);
    putchar('\n');
    return WEFT_OK;
}

static void print_consensus(const weft_topology_facts *f,
                            const weft_topology_analysis *x) {
    if (x->exact_steps >= 0)
        printf("consensus     exact mean after %lld step%s\n", (long long)x->exact_steps,
               x->exact_steps == 1 ? "" : "s");
    else if (x->steps_1e6 < 0)
        printf("consensus     no exact mean\n");
    else
        printf("consensus     no exact mean; 1e-6 of the disagreement left after %s%lld "
               "steps\n",
               x->estimated ? "about " : "", (long long)x->steps_1e6);
    if (x->exact_steps < 0 && f->period > 1)
        printf("one period    leaves %.3g of the disagreement\n", x->left);
}

static void print_gaps(const weft_topology_facts *f, const weft_topology_analysis *x) {
    if (isnan(x->gap_mean)) return;
    printf("spectral gap  ");
    if (f->period > 1)
        printf("%.6g of the product over a period, %.6g of the mean matrix\n",
               x->gap_period, x->gap_mean);
    else if (f->period == 1)
        printf("%.6g\n", x->gap_period);
    else
        printf("%.6g of the mean matrix over %lld steps\n", x->gap_mean,
               (long long)x->steps);
}

static void print_traffic(const request *r, const weft_topology_analysis *x) {
    char most[32], mean[32], copy[32];
    bytes_text((double)r->config.copy_bytes, copy, sizeof copy);
    printf(
        "bytes out     %s of a node in a step at most, %s on average, for a copy of %s\n",
        bytes_text(x->out_max, most, sizeof most),
        bytes_text(x->out_mean, mean, sizeof mean), copy);
    printf("bytes in      %s of a node in a step at most, %s on average\n",
           bytes_text(x->in_max, most, sizeof most),
           bytes_text(x->in_mean, mean, sizeof mean));
    if (isnan(x->link_max_s)) return;
    printf("slowest link  %s for a copy in a step at most, %s on average\n",
           time_text(x->link_max_s, most, sizeof most),
           time_text(x->link_mean_s, mean, sizeof mean));
    if (x->unlisted > 0)
        printf("no link       for %lld pairs of nodes that it uses\n",
               (long long)x->unlisted);
}

static weft_status print_text(weft_ctx *ctx, const weft_topology *t, const request *r) {
    weft_topology_facts f = *weft_topology_describe(t);
    weft_topology_analysis x = {.struct_size = sizeof x};
    print_head(&f);
    WEFT_TRY(print_schedule(ctx, t, r));
    if (f.members > WEFT_TOPOLOGY_ANALYSED) {
        printf("no figures for more than %d members\n", WEFT_TOPOLOGY_ANALYSED);
        return WEFT_OK;
    }
    WEFT_TRY(weft_topology_analyse(ctx, t, &x));
    print_consensus(&f, &x);
    print_gaps(&f, &x);
    print_traffic(r, &x);
    return WEFT_OK;
}

/* ---- JSON ---- */

static void put_number(const char *name, double value) {
    if (isnan(value))
        printf(", \"%s\": null", name);
    else
        printf(", \"%s\": %.12g", name, value);
}

static void put_steps(const char *name, int64_t steps) {
    put_number(name, steps < 0 ? (double)NAN : (double)steps);
}

static void put_figures(const weft_topology_analysis *x) {
    put_number("gap_period", x->gap_period);
    put_number("gap_mean", x->gap_mean);
    put_number("left", x->left);
    put_steps("exact_steps", x->exact_steps);
    put_steps("steps_1e6", x->steps_1e6);
    printf(", \"steps_1e6_estimated\": %s", x->estimated ? "true" : "false");
    put_number("bytes_out_max", x->out_max);
    put_number("bytes_out_mean", x->out_mean);
    put_number("bytes_in_max", x->in_max);
    put_number("bytes_in_mean", x->in_mean);
    put_number("link_max_s", x->link_max_s);
    put_number("link_mean_s", x->link_mean_s);
    put_number("unlisted_links", (double)x->unlisted);
}

static weft_status print_json(weft_ctx *ctx, const weft_topology *t, const request *r) {
    weft_topology_facts f = *weft_topology_describe(t);
    weft_topology_analysis x = {.struct_size = sizeof x};
    bool analysed = f.members <= WEFT_TOPOLOGY_ANALYSED;
    if (analysed) WEFT_TRY(weft_topology_analyse(ctx, t, &x));
    printf("{\"kind\": \"%s\", \"nodes\": %lld, \"ranks\": %lld, \"period\": %lld, "
           "\"directed\": %s, \"push_sum\": %s, \"copy_bytes\": %lld, \"schedule\": [",
           f.kind, (long long)f.nodes, (long long)f.ranks, (long long)f.period,
           f.directed ? "true" : "false", f.push_sum ? "true" : "false",
           (long long)r->config.copy_bytes);
    for (long long step = 0; step < steps_to_print(r, &f); step++) {
        char *text;
        WEFT_TRY(weft_topology_notation(ctx, t, step, &text));
        printf("%s\"%s\"", step > 0 ? ", " : "", text);
        weft_free(ctx, text);
    }
    putchar(']');
    if (analysed) put_figures(&x);
    printf("}\n");
    return WEFT_OK;
}

/* ---- the command ---- */

static weft_status show(weft_ctx *ctx, const args *a, request *r) {
    const char *links = args_value(a, "--links"), *svg = args_value(a, "--svg");
    weft_topology *t = NULL;
    if (links) WEFT_TRY(weft_links_load(ctx, links, &r->links));
    r->config.links = r->links.items;
    r->config.n_links = r->links.n;
    weft_status status = weft_topology_create(ctx, &r->config, &t);
    if (status == WEFT_OK && svg) status = weft_topology_draw(ctx, t, svg);
    if (status == WEFT_OK)
        status = (args_has(a, "--json") ? print_json : print_text)(ctx, t, r);
    weft_topology_destroy(ctx, t);
    weft_free(ctx, r->links.items);
    return status;
}

static int run(weft_ctx *ctx, args *a) {
    request r = {.steps = 0};
    int code = read_flags(a, &r);
    if (code != CODE_OK) return code;
    return program_code(ctx, show(ctx, a, &r));
}

const command command_topology = {
    .name = "topology",
    .summary = "print which nodes mix, how fast they agree, and what it costs",
    .usage = "NAME --nodes N [--ranks L] [flags]",
    .help =
        "Prints the schedule of a topology, the steps until all copies agree, the "
        "spectral gap of its matrices, and the bytes that cross a node's interface. [01] "
        "is a group that takes its mean, 0-1 a link that is used both ways, 0>1 one way; "
        "after @ comes the weight of the other node if it is not a plain mean.\n\n"
        "weft list topologies prints the names. With --links every topology shows which "
        "link delays a step; the file has lines such as\n\n"
        "links: [{from: 0, to: 1, latency: 10ms, bandwidth: 100Mbit}]",
    .flags = flags,
    .words_key = "mixer.topology",
    .least = 1,
    .most = 1,
    .run = run,
};
