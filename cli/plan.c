/* SPDX-License-Identifier: MIT */
/* `weft plan`: which method makes the run faster on more machines, as a table and in words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/plan.h>
#include <weft/train.h>

#include "common.h"
#include "facts.h"
#include "figures.h"
#include "shape.h"

static const flag flags[] = {
    CLUSTER_FLAGS,
    SHAPE_FLAGS,
    {"--tokens", "N", "the goal, such as 1G; otherwise run.steps x batch.tokens_per_step",
     NULL},
    {"--same", NULL, "only methods that learn as one machine does", NULL},
    {"--top", "N", "rows of the table (default 12; 0 = all)", NULL},
    {"--json", NULL, "one JSON object instead of text", NULL},
    {"--svg", "FILE", "draw speed-up over the wire's rate", NULL},
    {"--write", "FILE", "write the choice as a run file that weft train takes", NULL},
    {"--pick", "N", "what --write writes: row N of the table instead of the choice",
     NULL},
    {NULL, NULL, NULL, NULL}};

extern const command command_plan;

typedef struct request {
    const args *a;
    weft_config *run;
    weft_cluster *cluster;
    weft_advise_options options;
    shape model;
    long long top, pick; /* pick 0: the choice */
} request;

/* ---- the command line ---- */

static int read_tokens(const args *a, double *out) {
    const char *text = args_value(a, "--tokens");
    double value;
    if (!text) return CODE_OK;
    if (!parse_count(text, &value) || !(value >= 1 && value <= 1e18))
        return usage_error("--tokens is '%s', expected a number of tokens such as 1G",
                           text);
    *out = value;
    return CODE_OK;
}

static int read_flags(const args *a, request *r) {
    r->top = 12;
    r->options.same_only = args_has(a, "--same");
    int code = read_tokens(a, &r->options.tokens);
    if (code == CODE_OK) code = args_int(a, "--top", 0, 1000000, &r->top);
    if (code == CODE_OK) code = args_int(a, "--pick", 1, 1000000, &r->pick);
    if (code == CODE_OK && r->pick > 0 && !args_has(a, "--write"))
        code = usage_error("--pick says what --write writes, but there is no --write");
    return code;
}

/* ---- text ---- */

enum { COLUMN = 16 };

static void put_head(const request *r, const weft_advice *a) {
    char tokens[COLUMN], goal[COLUMN], parameters[COLUMN], rate[32], latency[COLUMN];
    const weft_cluster *c = r->cluster;
    printf("run      %s parameters, %s tokens per step, goal %s tokens\n",
           count_text((double)a->parameters, parameters, sizeof parameters),
           count_text((double)a->tokens_per_step, tokens, sizeof tokens),
           count_text(a->tokens, goal, sizeof goal));
    printf("cluster  %lld node%s x %lld rank%s", (long long)c->nodes,
           c->nodes == 1 ? "" : "s", (long long)c->ranks_per_node,
           c->ranks_per_node == 1 ? "" : "s");
    if (a->wire.bandwidth_Bps > 0)
        printf(", wire %s, %s", rate_text(a->wire.bandwidth_Bps, rate, sizeof rate),
               time_text(a->wire.latency_s, latency, sizeof latency));
    printf("; facts: %s\n", c->source[0] ? c->source : "by hand");
    if (r->model.note[0]) printf("model    %s\n", r->model.note);
    printf("\n");
}

static const char *learning_text(const weft_learning *l, char *out, size_t size) {
    if (!l->changes[0])
        snprintf(out, size, "same");
    else if (l->measured)
        snprintf(out, size, "+%.2f..%.2f", l->low, l->high);
    else
        snprintf(out, size, "not measured");
    return out;
}

static void put_names(void) {
    printf("%4s %-20s %5s %6s %7s %16s %8s %7s %6s %8s %9s %7s %8s %7s  %s\n", "",
           "method", "nodes", "shards", "step", "5 to 95 %", "speed-up", "bound",
           "hidden", "tokens/s", "sent/step", "memory", "time", "sent", "learning");
}

static void put_row(const weft_advice *a, int64_t i) {
    static const char *const bounds[] = {"compute", "wire", "waiting", "codec"};
    const weft_candidate *c = &a->candidates[i];
    const weft_prediction *p = &c->prediction;
    char step[COLUMN], low[COLUMN], high[COLUMN], range[40], speed[COLUMN], sent[COLUMN];
    char memory[COLUMN], time[COLUMN], all[COLUMN], learning[32], hidden[COLUMN];
    const char *mark = i == a->choice ? "*" : i == a->baseline ? "=" : "";
    snprintf(range, sizeof range, "%s..%s", time_text(p->step_s.low, low, sizeof low),
             time_text(p->step_s.high, high, sizeof high));
    snprintf(hidden, sizeof hidden, "%.0f %%", 100 * p->hidden_share);
    printf("%3lld%1s %-20s %5lld %6lld %7s %16s %7.2fx %7s %6s %8s %9s %7s %8s %7s  "
           "%s%s%s\n",
           (long long)i + 1, mark, c->name, (long long)c->nodes,
           (long long)(c->shards ? c->shards : c->ranks_per_node),
           time_text(p->step_s.median, step, sizeof step), range, c->speedup,
           bounds[p->bound], c->nodes > 1 ? hidden : "-",
           count_text(p->tokens_per_s, speed, sizeof speed),
           c->nodes > 1 ? size_text(p->wire_bytes, sent, sizeof sent) : "-",
           size_text((double)p->memory_bytes, memory, sizeof memory),
           time_text(3600 * c->hours, time, sizeof time),
           c->nodes > 1 ? size_text(1e9 * c->gigabytes, all, sizeof all) : "-",
           learning_text(&c->learning, learning, sizeof learning),
           c->usable ? "" : "; unusable: ", c->problem);
}

static void put_table(const request *r, const weft_advice *a) {
    long long hidden = 0;
    put_names();
    for (int64_t i = 0; i < a->n_candidates; i++) {
        bool named = i == a->choice || i == a->baseline || i == a->full ||
                     a->candidates[i].own;
        bool shown = r->top == 0 || i < r->top || named;
        if (shown) put_row(a, i);
        hidden += !shown;
    }
    if (hidden > 0) printf("      %lld more, see --top\n", hidden);
    printf("\n  *  the choice     =  one node alone     learning: nats per token behind "
           "full sync at equal steps\n\n");
}

/* The advice wrapped, paragraph by paragraph. */
static void put_words(const char *text) {
    enum { WIDTH = 90 };
    char paragraph[4096];
    for (const char *end; *text; text = end + strspn(end, "\n")) {
        end = strstr(text, "\n\n");
        if (!end) end = text + strlen(text);
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)(end - text), text);
        print_wrapped(stdout, 0, WIDTH, paragraph);
        if (*end) putchar('\n');
    }
}

static void put_left_out(const weft_advice *a) {
    if (a->n_left_out > 0) printf("\nleft out:\n");
    for (int64_t i = 0; i < a->n_left_out; i++) {
        const weft_left_out *l = &a->left_out[i];
        printf("  %s", l->what);
        if (l->n > 1) printf(" and %lld more", (long long)l->n - 1);
        printf(": %s\n", l->why);
    }
}

static void put_text(const request *r, const weft_advice *a) {
    put_head(r, a);
    put_table(r, a);
    put_words(a->text);
    put_left_out(a);
}

/* ---- the command ---- */

static weft_status write_choice(weft_ctx *ctx, const request *r, const weft_advice *a,
                                const char *path) {
    int64_t i = r->pick > 0 ? r->pick - 1 : a->choice;
    weft_config *chosen;
    if (r->pick > a->n_candidates)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--pick is %lld, expected at most %lld, the rows of the "
                             "whole table",
                             r->pick, (long long)a->n_candidates);
    if (i < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "nothing was written to %s: no candidate fits into the "
                             "memory",
                             path);
    WEFT_TRY(weft_advice_config(ctx, r->run, a, i, &chosen));
    weft_status status = weft_config_write(ctx, chosen, path);
    weft_config_destroy(ctx, chosen);
    return status;
}

static weft_status put_json(weft_ctx *ctx, const weft_advice *a) {
    char *text;
    WEFT_TRY(weft_advice_json(ctx, a, &text));
    printf("%s\n", text);
    weft_free(ctx, text);
    return WEFT_OK;
}

static weft_status show(weft_ctx *ctx, const request *r, const weft_advice *a) {
    const char *svg = args_value(r->a, "--svg"), *path = args_value(r->a, "--write");
    if (svg) WEFT_TRY(weft_advice_draw(ctx, a, svg));
    if (path) WEFT_TRY(write_choice(ctx, r, a, path));
    if (args_has(r->a, "--json")) return put_json(ctx, a);
    put_text(r, a);
    return WEFT_OK;
}

static weft_status plan(weft_ctx *ctx, request *r) {
    weft_advice *advice = NULL;
    WEFT_TRY(config_of_args(ctx, r->a, &r->run));
    WEFT_TRY(shape_of_args(ctx, r->a, r->run, &r->model));
    WEFT_TRY(cluster_of_args(ctx, r->a, r->run, 2, &r->cluster));
    r->cluster->rank_flops /= r->model.flop_share;
    WEFT_TRY(weft_advise(ctx, r->run, r->cluster, &r->options, &advice));
    weft_status status = show(ctx, r, advice);
    weft_advice_destroy(ctx, advice);
    return status;
}

static int run(int argc, char **argv) {
    args a;
    request r = {.a = &a};
    int code = args_parse(&command_plan, argc, argv, &a);
    if (code == CODE_OK) code = read_flags(&a, &r);
    if (code != CODE_OK) return code;
    weft_ctx *ctx = program_context();
    if (!ctx) return CODE_USAGE;
    weft_status status = plan(ctx, &r);
    code = status == WEFT_OK ? CODE_OK : program_fail(ctx, status);
    weft_cluster_destroy(ctx, r.cluster);
    weft_config_destroy(ctx, r.run);
    weft_ctx_destroy(ctx);
    return code;
}

const command command_plan = {
    .name = "plan",
    .summary = "predict which method makes a run faster on several machines, if any does",
    .usage = "[run.yaml] [key=value ...] [--cluster FILE | facts] [flags]",
    .help =
        "Predicts the run with each method on one node and on several, and says in a "
        "table and in words what a second machine is good for, with which method, and "
        "at which rate of the wire the answer would be another. Nothing is trained.\n\n"
        "Facts about the machines come from --cluster, a file that weft probe measures "
        "or that is written by hand, from the flags, which go over it, or from the run "
        "file (mesh.nodes, mesh.ranks_per_node, mesh.link). Two nodes are assumed if "
        "nothing says how many. --node-flops here measures this machine with some "
        "training steps.\n\n"
        "Keys of the run hold for every method, but for those of the sections "
        "replicator, site_replicator and mixer, which hold for the run as it is ('own "
        "keys'), and of optimizer, which hold for its method. All nodes share "
        "batch.tokens_per_step.\n\n"
        "The choice is what learns as one machine does, unless something else whose "
        "learning was measured is 1.25 times faster; docs/planning.md says more.",
    .flags = flags,
    .configures = true,
    .run = run,
};
