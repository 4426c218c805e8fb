/* SPDX-License-Identifier: MIT */
/* weft bench replicators: the figures that the library measures, and the share of its
 * exchange that each replicator hides in a short training run. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

#include <weft/bench.h>
#include <weft/train.h>

#include "common.h"

enum { MAX_OPERANDS = 64, NOTHING_HIDDEN = -1 }; /* -1: nothing is exchanged */

/* --- the hidden share --- */

/* The operands of a training run: first those that the user may override, then the
 * user's, then the rest. */
typedef struct operands {
    char *items[MAX_OPERANDS];
    int n;
    char text[1024]; /* the texts of the operands that the user did not give */
    size_t used;
} operands;

static weft_status take(weft_ctx *ctx, operands *o, char *operand) {
    if (o->n == MAX_OPERANDS)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "more than %d keys to train with",
                             (int)MAX_OPERANDS);
    o->items[o->n++] = operand;
    return WEFT_OK;
}

static weft_status add(weft_ctx *ctx, operands *o, const char *operand) {
    size_t size = strlen(operand) + 1;
    if (size > sizeof o->text - o->used)
        return weft_ctx_fail(ctx, WEFT_ERR_INTERNAL, "no room for the key %s", operand);
    char *own = memcpy(o->text + o->used, operand, size);
    o->used += size;
    return take(ctx, o, own);
}

static weft_status add_number(weft_ctx *ctx, operands *o, const char *key, long long n) {
    char operand[64];
    snprintf(operand, sizeof operand, "%s=%lld", key, n);
    return add(ctx, o, operand);
}

/* Adds words that are separated by spaces. */
static weft_status add_words(weft_ctx *ctx, operands *o, const char *words) {
    char word[128];
    for (; *words; words += strspn(words, " ")) {
        size_t n = strcspn(words, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, words);
        WEFT_TRY(add(ctx, o, word));
        words += n;
    }
    return WEFT_OK;
}

static bool has_file(const args *a) {
    for (int i = 0; i < a->n_operands; i++)
        if (!strchr(a->operands[i], '=')) return true;
    return false;
}

typedef struct training {
    long long steps, warmup, nodes;
    double exchange_s, wait_s; /* of the measured steps */
} training;

/* A run file sets the size of a step; without one a step is two sequences per node. */
static weft_status collect(weft_ctx *ctx, const args *a, const training *t,
                           const char *keys, operands *o) {
    *o = (operands){.n = 0};
    if (!has_file(a)) {
        WEFT_TRY(add(ctx, o, "mesh.link=1Gbit,0.1ms"));
        WEFT_TRY(add_number(ctx, o, "batch.tokens_per_step", 512 * t->nodes));
    }
    for (int i = 0; i < a->n_operands; i++) WEFT_TRY(take(ctx, o, a->operands[i]));
    WEFT_TRY(add_words(ctx, o, keys));
    WEFT_TRY(add_number(ctx, o, "mesh.nodes", t->nodes));
    WEFT_TRY(add_number(ctx, o, "schedule.warmup", 1));
    return add_number(ctx, o, "run.steps", t->steps + t->warmup);
}

static void note_step(void *user, const weft_step_record *r) {
    training *t = user;
    if (r->step <= t->warmup) return;
    t->exchange_s += r->exchange_s;
    t->wait_s += r->wait_s;
}

static weft_status train(weft_ctx *ctx, const args *a, training *t, const char *keys) {
    operands o;
    args short_run = *a;
    weft_config *config;
    weft_train_result result = {.struct_size = sizeof result};
    WEFT_TRY(collect(ctx, a, t, keys, &o));
    short_run.operands = o.items;
    short_run.n_operands = o.n;
    WEFT_TRY(config_of_args(ctx, &short_run, &config));
    weft_train_hooks hooks = {
        .struct_size = sizeof hooks, .user = t, .on_step = note_step};
    weft_status status = weft_bench_train(ctx, NULL, config, &hooks, &result);
    weft_config_destroy(ctx, config);
    return status;
}

/* All that the program prints. */
typedef struct sheet {
    weft_replicator_speeds speeds;
    bool has_hidden;
    double hidden[WEFT_BENCH_REPLICATORS]; /* a share, or NOTHING_HIDDEN */
} sheet;

static weft_status train_each(weft_ctx *ctx, const args *a, const training *like,
                              sheet *s) {
    for (int i = 0; i < s->speeds.n_replicators; i++) {
        training t = *like;
        s->hidden[i] = NOTHING_HIDDEN;
        if (!s->speeds.of[i].keys[0]) continue;
        WEFT_TRY(train(ctx, a, &t, s->speeds.of[i].keys));
        double share = t.exchange_s > 0 ? 1 - t.wait_s / t.exchange_s : 1;
        s->hidden[i] = share > 0 ? share : 0;
    }
    return WEFT_OK;
}

/* --- printing --- */

/* Bits on the wire beyond the entropy bound, in per cent; 0 if nothing is sent. */
static double excess(const weft_replicator_speed *r) {
    return r->bound_bits > 0 ? 100 * (r->wire_bits / r->bound_bits - 1) : 0;
}

static void print_row(const sheet *s, int i) {
    const weft_replicator_speed *r = &s->speeds.of[i];
    char range[32], hidden[16] = "";
    snprintf(range, sizeof range, "(%.3f to %.3f)", r->step_ns.min, r->step_ns.max);
    bool has_hidden = s->has_hidden && s->hidden[i] >= 0;
    if (has_hidden) snprintf(hidden, sizeof hidden, "%7.0f", 100 * s->hidden[i]);
    printf("%-26s %7.3f %-18s %6.3f %6.3f %6.2f %6.1f %6.1f %9.4f %7.2f %9.4f %6.2f%s\n",
           r->name, r->step_ns.median, range, r->begin_ns.median, r->rest_ns.median,
           r->bytes, r->bandwidth_Bps.median / 1e9, 100 * r->share_of_copy.median,
           r->wire_bits, r->sent > 0 ? r->wire_bits / r->sent : 0, r->bound_bits,
           excess(r), hidden);
}

static void print_text(const sheet *s) {
    const weft_replicator_speeds *v = &s->speeds;
    printf("machine    %d thread%s, %s kernels, %lld parameters, %d node%s\n", v->threads,
           v->threads == 1 ? "" : "s", v->kernels, (long long)v->n, v->nodes,
           v->nodes == 1 ? "" : "s");
    printf("copy       %.1f GB/s (%.1f to %.1f): y <- x, bytes read and written\n\n",
           v->copy_Bps.median / 1e9, v->copy_Bps.min / 1e9, v->copy_Bps.max / 1e9);
    printf("%-26s %-40s %-20s %s\n", "", "ns per parameter and step", "memory",
           "bits on the wire");
    printf("%-26s %7s %-18s %6s %6s %6s %6s %6s %9s %7s %9s %6s%s\n", "replicator", "all",
           "(min to max)", "begin", "rest", "bytes", "GB/s", "% copy", "parameter",
           "number", "bound", "+ %", s->has_hidden ? "  hid. %" : "");
    for (int i = 0; i < v->n_replicators; i++) print_row(s, i);
}

static void print_spread(const char *key, const weft_spread *x) {
    printf("\"%s\": {\"median\": %.6g, \"min\": %.6g, \"max\": %.6g}, ", key, x->median,
           x->min, x->max);
}

static void print_json_row(const sheet *s, int i) {
    const weft_replicator_speed *r = &s->speeds.of[i];
    printf("%s{\"name\": \"%s\", \"keys\": \"%s\", ", i ? ", " : "", r->name, r->keys);
    print_spread("step_ns", &r->step_ns);
    print_spread("begin_ns", &r->begin_ns);
    print_spread("rest_ns", &r->rest_ns);
    print_spread("bandwidth_Bps", &r->bandwidth_Bps);
    print_spread("share_of_copy", &r->share_of_copy);
    printf("\"bytes\": %.6g, \"sent\": %.6g, \"wire_bits\": %.8g, \"bound_bits\": %.8g, ",
           r->bytes, r->sent, r->wire_bits, r->bound_bits);
    if (s->has_hidden && s->hidden[i] >= 0)
        printf("\"hidden_share\": %.4g}", s->hidden[i]);
    else
        printf("\"hidden_share\": null}");
}

static void print_json(const sheet *s) {
    const weft_replicator_speeds *v = &s->speeds;
    printf("{\"threads\": %d, \"kernels\": \"%s\", \"parameters\": %lld, \"nodes\": %d, ",
           v->threads, v->kernels, (long long)v->n, v->nodes);
    print_spread("copy_Bps", &v->copy_Bps);
    printf("\"replicators\": [");
    for (int i = 0; i < v->n_replicators; i++) print_json_row(s, i);
    printf("]}\n");
}

/* --- the command --- */

static weft_status measure(weft_ctx *ctx, const args *a,
                           weft_bench_replicators_options *o, sheet *s) {
    weft_config *config;
    WEFT_TRY(config_of_args(ctx, a, &config));
    o->kernels = config->mesh.kernels;
    o->threads = (int)config->mesh.threads;
    weft_status status = weft_bench_replicators(ctx, o, &s->speeds);
    weft_config_destroy(ctx, config);
    return status;
}

int bench_replicators(weft_ctx *ctx, const args *a, long long steps, long long warmup) {
    sheet s = {.speeds.struct_size = sizeof s.speeds};
    training like = {.steps = steps, .warmup = warmup, .nodes = 2};
    long long n = 0;
    int code = args_int(a, "--parameters", 1, 1ll << 40, &n);
    if (code == CODE_OK) code = args_int(a, "--nodes", 1, WEFT_BENCH_NODES, &like.nodes);
    if (code != CODE_OK) return code;
    weft_bench_replicators_options o = {.struct_size = sizeof o,
                                        .nodes = (int)like.nodes,
                                        .n = n,
                                        .steps = steps,
                                        .warmup = warmup,
                                        .only = args_value(a, "--only")};
    s.has_hidden = args_has(a, "--hidden");
    weft_status status = measure(ctx, a, &o, &s);
    if (status == WEFT_OK && s.has_hidden) status = train_each(ctx, a, &like, &s);
    if (status != WEFT_OK) return program_code(ctx, status);
    (args_has(a, "--json") ? print_json : print_text)(&s);
    return CODE_OK;
}
