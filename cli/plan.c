/* SPDX-License-Identifier: MIT */
/* `weft plan`: which method makes the run faster on more machines, as a table and in words. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <weft/plan.h>
#include <weft/train.h>

#include "common.h"
#include "facts.h"
#include "figures.h"
#include "shape.h"

static const flag flags[] = {
    CLUSTER_FLAGS,
    SHAPE_FLAGS,
    {"--measured", "TEXT", "a measured step, several times: \"2 nodes, ddp: 4.1 s\"",
     NULL},
    {"--allreduce", "TEXT",
     "a measured all-reduce: \"2 nodes: 0.6 GB/s\", \"2 nodes: busbw 0.6 GB/s\"; or "
     "a stream: \"iperf3 x 4: 9.4 Gbit/s\"",
     NULL},
    {"--wire", "tcp|rdma", "what the wire is; below 10 us of latency it is taken as RDMA",
     NULL},
    {"--framework", "NAMES",
     "also try ddp, ddp-after, zero1, zero2, fsdp, hsdp: \"ddp,fsdp\"", NULL},
    {"--collective", "auto|ring|tree|hierarchical|gloo", "collective of these frameworks",
     NULL},
    {"--precision", "f32|mixed|bf16|bf16-8bit", "precision of weights and gradients",
     NULL},
    {"--trainable", "SHARE", "of the parameters that learn: 0.2%", NULL},
    {"--lora", "RANK", "the same, as adapters of that rank on all matrices: 16", NULL},
    {"--weights", "8bit|4bit", "weights that do not learn", NULL},
    {"--batch", "total|per-rank", "all nodes share a batch, or each adds one", NULL},
    {"--tokens", "N", "the goal, such as 1G; otherwise those of run.steps", NULL},
    {"--same", NULL, "only methods that compute the same steps as one machine", NULL},
    {"--failures", "TIME", "mean time between failures of one node: 4000h", NULL},
    {"--restart", "TIME", "time from a failure until all nodes continue: 5min", NULL},
    {"--save", "TIME", "time that all nodes wait for a checkpoint: 30s", NULL},
    {"--roll-back", NULL, "a failure sets all nodes back to the last checkpoint", NULL},
    {"--price", "MONEY", "of a node for an hour: $2.10/h, 2.10 EUR/h", NULL},
    {"--busy", "TIME,SHARE",
     "busy time of each day, and what the wire carries then: 8h,30%", NULL},
    {"--shares", NULL, "divide sequences by the speed of --cluster's machines", NULL},
    {"--critical-batch", "N", "batch size in tokens beyond which a token helps less",
     NULL},
    {"--wide", NULL, "all columns, and the reasons in words", NULL},
    {"--top", "N", "the first N rows instead of the best of each method (0 = all)", NULL},
    {"--json", NULL, "one JSON object instead of text", NULL},
    {"--html", "FILE", "a page of speed-up and cost, with sliders", NULL},
    {"--svg", "FILE", "draw speed-up over the wire's rate", NULL},
    {"--write", "FILE", "write the choice as a run file that weft train takes", NULL},
    {"--pick", "N", "with --write: row N of the table instead of the choice", NULL},
    {NULL, NULL, NULL, NULL}};

enum { MOST_MEASURED = 16 };

typedef struct request {
    const args *a;
    weft_config *run;
    weft_cluster *cluster;
    weft_advise_options options;
    char frameworks[128];
    weft_measurement measured[MOST_MEASURED];
    int n_measured;
    weft_inference_of_facts inferred;
    int64_t ranks[MOST_MACHINES];
    shape model;
    long long top, pick;    /* pick 0: write the choice */
    long long lora, behind; /* rank of adapters; nodes that nobody can call; 0: none */
    char money[8];
} request;

/* ---- the command line ---- */

static int read_tokens(const args *a, const char *name, double *out) {
    long long tokens = 0;
    int code = args_int(a, name, 1, 1000000000000000000ll, &tokens);
    if (tokens > 0) *out = (double)tokens;
    return code;
}

/* Reads the value of a flag that is one of `words`. [out] *out is the index of the word;
 * the words are the alternatives in the table of flags. */
static int read_word(const args *a, const char *name, const char *words, int *out) {
    const char *text = args_value(a, name);
    size_t n = text ? strlen(text) : 0;
    if (!text) return CODE_OK;
    *out = 0;
    for (const char *at = words; *at && n > 0; at += strcspn(at, "|") + 1, ++*out) {
        size_t length = strcspn(at, "|");
        if (length == n && strncasecmp(at, text, n) == 0) return CODE_OK;
        if (!at[length]) break;
    }
    return usage_error("%s is '%s', expected %s", name, text, words);
}

/* Adds a framework to the list: "ddp,fsdp" becomes "ddp fsdp". A repeated name counts once. */
static int add_framework(request *r, const char *name) {
    char padded[40], all[132];
    const char *known = weft_framework_find(name);
    if (strcasecmp(name, "weft") == 0) return CODE_OK;
    if (!known)
        return usage_error("--framework names '%.40s', expected weft, ddp, ddp-after, "
                           "zero1, zero2, fsdp or hsdp",
                           name);
    snprintf(padded, sizeof padded, " %s ", known);
    snprintf(all, sizeof all, " %s ", r->frameworks);
    if (strstr(all, padded)) return CODE_OK;
    size_t used = strlen(r->frameworks);
    snprintf(r->frameworks + used, sizeof r->frameworks - used, "%s%s", used ? " " : "",
             known);
    return CODE_OK;
}

static int read_frameworks(const args *a, request *r) {
    char name[64];
    int code = CODE_OK;
    const char *text = args_value(a, "--framework");
    while (text && code == CODE_OK) {
        size_t n = strcspn(text, ", ");
        snprintf(name, sizeof name, "%.*s", (int)n, text);
        code = add_framework(r, name);
        text = text[n] ? text + n + 1 : NULL;
    }
    r->options.frameworks = r->frameworks;
    return code;
}

static int read_choices(const args *a, request *r) {
    static const double of_label[] = {0, WEFT_TCP_LOW, WEFT_RDMA_LOW};
    int collective = 0, precision = 0, batch = 0, wire = -1;
    int code = read_word(a, "--collective", "auto|ring|tree|hierarchical|gloo",
                         &collective);
    if (code == CODE_OK)
        code = read_word(a, "--precision", "f32|mixed|bf16|bf16-8bit", &precision);
    if (code == CODE_OK) code = read_word(a, "--batch", "total|per-rank", &batch);
    if (code == CODE_OK) code = read_word(a, "--wire", "tcp|rdma", &wire);
    if (code == CODE_OK) code = read_frameworks(a, r);
    r->options.wire_low = of_label[wire + 1];
    r->options.collective = (weft_collective)collective;
    r->options.precision = (weft_precision)precision;
    r->options.batch_per_rank = batch == 1;
    return code;
}

/* What learns, and how the rest is kept. The share of adapters is known with the model. */
static int read_trainable(const args *a, request *r) {
    static const double bytes[] = {1.03, 0.53}; /* with their scales */
    const char *text = args_value(a, "--trainable");
    int width = -1;
    double share = 0;
    int code = read_word(a, "--weights", "8bit|4bit", &width);
    if (code == CODE_OK) code = args_int(a, "--lora", 1, 100000, &r->lora);
    if (code != CODE_OK) return code;
    if (text && args_has(a, "--lora"))
        return usage_error("--lora and --trainable both say what learns, expected one");
    if (width >= 0 && !text && !args_has(a, "--lora"))
        return usage_error("--weights is %s, and all weights learn, expected --lora or "
                           "--trainable",
                           args_value(a, "--weights"));
    if (width >= 0) r->options.weight_bytes = bytes[width];
    if (text && (!weft_quantity_parse(text, WEFT_UNIT_SHARE, &share) ||
                 !(share > 0 && share <= 1)))
        return usage_error("--trainable is '%s', expected a share above 0 and at most "
                           "100%% such as 0.2%%",
                           text);
    r->options.trainable = share;
    return CODE_OK;
}

/* Refuses a flag that nothing would read, instead of ignoring it. */
static int check_readers(const args *a, const request *r) {
    bool others = r->frameworks[0] || args_has(a, "--measured");
    if (!others && args_has(a, "--collective"))
        return usage_error(
            "--collective holds for other frameworks, but there is no --framework");
    if (args_has(a, "--critical-batch") && !r->options.batch_per_rank)
        return usage_error("--critical-batch holds where each node adds a batch, but "
                           "there is no --batch per-rank");
    return CODE_OK;
}

/* Rows beside the choice and those that are shown anyway. */
enum { ALTERNATIVES = 3 };

/* Shows a counter on one line, only on a terminal. */
static void show_progress(void *user, int64_t done, int64_t all) {
    (void)user;
    fprintf(stderr, "\rpredicting %lld of %lld%s", (long long)done, (long long)all,
            done == all ? "\r                              \r" : "");
}

static int read_flags(const args *a, request *r) {
    enum { RESTART_S = 180 }; /* a spot machine is there again after 2 to 5 minutes */
    r->top = 12;
    r->options.rows = ALTERNATIVES;
    static const char *const all[] = {"--json", "--html", "--svg", "--wide", "--top"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (args_has(a, all[i])) r->options.rows = 0;
    if (isatty(STDERR_FILENO)) r->options.on_progress = show_progress;
    r->options.same_only = args_has(a, "--same");
    r->options.find_fit = true;
    r->options.shares = args_has(a, "--shares");
    r->options.roll_back = args_has(a, "--roll-back");
    int code = read_tokens(a, "--tokens", &r->options.tokens);
    if (code == CODE_OK)
        code = read_tokens(a, "--critical-batch", &r->options.critical_batch);
    if (code == CODE_OK) code = read_busy(a, &r->options.busy_s, &r->options.busy_share);
    if (code == CODE_OK) code = read_choices(a, r);
    if (args_has(a, "--failures")) r->options.restart_s = RESTART_S;
    if (code == CODE_OK)
        code = read_failures(a, true, &r->options.failure_s, &r->options.restart_s,
                             &r->options.save_s);
    if (code == CODE_OK)
        code = args_quantity(a, "--price", WEFT_UNIT_PRICE, (interval){1e-4, 1e9},
                             &r->options.price_h);
    if (args_has(a, "--price"))
        weft_quantity_money(args_value(a, "--price"), r->money, sizeof r->money);
    r->options.money = r->money;
    if (code == CODE_OK) code = read_trainable(a, r);
    if (code == CODE_OK) code = check_effort(a);
    if (code == CODE_OK) code = args_int(a, "--behind", 2, 1000000, &r->behind);
    if (code == CODE_OK) code = args_int(a, "--top", 0, 1000000, &r->top);
    if (code == CODE_OK) code = args_plain(a, "--pick", 1, 1000000, &r->pick);
    if (code == CODE_OK && r->pick > 0 && !args_has(a, "--write"))
        code = usage_error("--pick says what --write writes, but there is no --write");
    return code == CODE_OK ? check_readers(a, r) : code;
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
    const char *each = ranks_of_each(r->a);
    printf("cluster  %lld node%s x ", (long long)c->nodes, c->nodes == 1 ? "" : "s");
    if (each)
        printf("%s ranks", each);
    else
        printf("%lld rank%s", (long long)c->ranks_per_node,
               c->ranks_per_node == 1 ? "" : "s");
    if (c->sites > 1) printf(", %lld sites", (long long)c->sites);
    if (a->wire.bandwidth_Bps > 0)
        printf("%s %s, %s%s", c->sites > 1 ? "" : ", wire",
               rate_text(a->wire.bandwidth_Bps, rate, sizeof rate),
               time_text(a->wire.latency_s, latency, sizeof latency),
               c->sites > 1 ? " apart" : "");
    printf("; facts: %s\n", c->source[0] ? c->source : "by hand");
    if (r->options.failure_s > 0)
        printf("failures a node every %s, %s until all go on%s\n",
               time_text(r->options.failure_s, rate, sizeof rate),
               time_text(r->options.restart_s, latency, sizeof latency),
               args_has(r->a, "--restart") ? "" : " (assumed)");
    if (r->model.note[0]) printf("model    %s\n", r->model.note);
    for (int i = 0; i < r->n_measured; i++) {
        const weft_measurement *m = &r->measured[i];
        printf("%s %s: predicted %s (%+.0f %%)", i ? "        " : "measured", m->text,
               time_text(m->predicted_s, rate, sizeof rate),
               round(100 * (m->predicted_s / m->seconds - 1)) + 0.0); /* no -0 */
        if (m->effort > 0) printf(", effort %.3g %%", 100 * m->effort);
        putchar('\n');
    }
    if (r->inferred.text[0]) {
        printf("so       ");
        print_wrapped(stdout, 9, 80, r->inferred.text);
    }
    printf("\n");
}

/* Formats the number of steps to a loss, relative to one node. */
static const char *steps_text(const weft_candidate *c, char *out, size_t size) {
    if (!c->learning.changes[0])
        snprintf(out, size, "same");
    else if (c->learning.measured)
        snprintf(out, size, "x%.2f", c->steps);
    else
        snprintf(out, size, "?");
    return out;
}

static const char *speedup_text(double x, char *out, size_t size) {
    snprintf(out, size, x < 0.1 ? "%.2fx" : x < 999.5 ? "%.3gx" : "%.0fx", x);
    return out;
}

/* "0.36", "14"; two digits behind the point beside 1, because that decides, and below 0.1. */
static const char *end_text(double x, char *out, size_t size) {
    bool fine = x < 0.0995 || (x > 0.95 && x < 1.05);
    snprintf(out, size, fine ? "%.2f" : x < 99.5 ? "%.2g" : "%.0f", x);
    return out;
}

/* "0.36..1.9"; "-" for what is compared with itself. */
static const char *range_text(const weft_outlook *o, char *out, size_t size) {
    char low[COLUMN], high[COLUMN];
    snprintf(out, size, "%s..%s", end_text(o->low, low, sizeof low),
             end_text(o->high, high, sizeof high));
    if (!(o->high > o->low)) snprintf(out, size, "-");
    return out;
}

static void put_wide_names(void) {
    printf("%4s %-20s %5s %6s %7s %16s %8s %12s %7s %6s %8s %9s %7s %8s %7s  %s\n", "",
           "method", "nodes", "shards", "step", "5 to 95 %", "speed-up", "range", "bound",
           "hidden", "tokens/s", "sent/step", "memory", "time", "sent", "steps");
}

static const char *const bounds[] = {"compute", "wire", "waiting", "codec"};

/* Ranks that share a copy; "2..4" where the last of the fastest machines has fewer. */
static const char *shards_text(const weft_advice *a, const weft_candidate *c, char *out,
                               size_t size) {
    int64_t most = c->shards ? c->shards : c->ranks_per_node, least = most;
    if (c->shards == 0 && a->n_ranks >= c->nodes) least = a->ranks[c->nodes - 1];
    snprintf(out, size, least < most ? "%lld..%lld" : "%lld", (long long)least,
             (long long)most);
    return out;
}

static void put_wide_row(const weft_advice *a, int64_t i) {
    const weft_candidate *c = &a->candidates[i];
    const weft_prediction *p = &c->prediction;
    char step[COLUMN], low[COLUMN], high[COLUMN], range[40], speed[COLUMN], sent[COLUMN];
    char memory[COLUMN], time[COLUMN], all[COLUMN], steps[COLUMN], hidden[COLUMN];
    char ends[40], shards[24];
    const char *mark = i == a->choice ? "*" : i == a->baseline ? "=" : "";
    snprintf(range, sizeof range, "%s..%s", time_text(p->step_s.low, low, sizeof low),
             time_text(p->step_s.high, high, sizeof high));
    snprintf(hidden, sizeof hidden, "%.0f %%", 100 * p->hidden_share);
    printf("%3lld%1s %-20s %5lld %6s %7s %16s %7.2fx %12s %7s %6s %8s %9s %7s %8s %7s  "
           "%s%s%s\n",
           (long long)i + 1, mark, c->name, (long long)c->nodes,
           shards_text(a, c, shards, sizeof shards),
           time_text(p->step_s.median, step, sizeof step), range, c->speedup,
           range_text(&a->outlooks[i], ends, sizeof ends), bounds[p->bound],
           c->nodes > 1 ? hidden : "-", count_text(p->tokens_per_s, speed, sizeof speed),
           c->nodes > 1 ? size_text(p->wire_bytes, sent, sizeof sent) : "-",
           size_text((double)p->memory_bytes, memory, sizeof memory),
           time_text(3600 * c->hours, time, sizeof time),
           c->nodes > 1 ? size_text(1e9 * c->gigabytes, all, sizeof all) : "-",
           steps_text(c, steps, sizeof steps),
           c->usable ? "" : "; unusable: ", c->problem);
}

/* Prints the header of the table, which has 80 columns. */
static void put_names(void) {
    printf("%4s %-18s %5s %8s %5s %6s %10s %7s %9s\n", "", "method", "nodes", "step",
           "steps", "faster", "range", "bound", "sent/step");
}

static void put_row(const weft_advice *a, int64_t i) {
    const weft_candidate *c = &a->candidates[i];
    const weft_prediction *p = &c->prediction;
    char step[COLUMN], sent[COLUMN], steps[COLUMN], range[40], speedup[16];
    const char *mark = i == a->choice ? "*" : i == a->baseline ? "=" : "";
    int name = (int)strlen(c->name), nodes = name <= 18 ? 5 : name <= 22 ? 23 - name : 1;
    printf("%3lld%1s %-18.22s %*lld %8s %5s %6s %10s %7s %9s\n", (long long)i + 1, mark,
           c->name, nodes, (long long)c->nodes,
           time_text(p->mean_step_s, step, sizeof step),
           steps_text(c, steps, sizeof steps),
           speedup_text(c->speedup, speedup, sizeof speedup),
           range_text(&a->outlooks[i], range, sizeof range), bounds[p->bound],
           !c->usable     ? "no room"
           : c->nodes > 1 ? size_text(p->wire_bytes, sent, sizeof sent)
                          : "-");
}

/* Explains why rows do not fit into memory, by the row that needs the least. */
static void put_problem(const weft_advice *a) {
    const weft_candidate *least = NULL;
    char line[256];
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *c = &a->candidates[i];
        if (!c->usable &&
            (!least || c->prediction.memory_bytes < least->prediction.memory_bytes))
            least = c;
    }
    if (!least) return;
    snprintf(line, sizeof line, "no room: the least of these, %s on %lld node%s, %s",
             least->name, (long long)least->nodes, least->nodes == 1 ? "" : "s",
             least->problem);
    printf("  ");
    print_wrapped(stdout, 4, 80, line);
}

/* Whether a row is the best of its framework on several nodes, or the only framework's. */
static bool is_asked(const request *r, const weft_advice *a, int64_t i) {
    const weft_candidate *all = a->candidates;
    if (!all[i].framework[0] || !r->frameworks[0]) return false;
    if (!strchr(r->frameworks, ' ')) return true;
    for (int64_t k = 0; k < i; k++)
        if (all[k].nodes > 1 && strcmp(all[k].framework, all[i].framework) == 0)
            return false;
    return all[i].nodes > 1;
}

/* Whether a row is shown: with --top the first ones, else one node and three others, those
 * that were asked for or that the answer names first. */
static bool is_shown(const request *r, const weft_advice *a, int64_t i, int pass) {
    const weft_candidate *c = &a->candidates[i];
    bool named = i == a->headline || i == a->rival || c->own;
    if (args_has(r->a, "--top") || args_has(r->a, "--wide"))
        return named || r->top == 0 || i < r->top || i == a->full || i == a->baseline;
    return pass == 0   ? i == a->baseline || is_asked(r, a, i)
           : pass == 1 ? named
                       : c->curve >= 0;
}

/* The rows that are shown, but the choice, which is in the first one: [out] shown[i]. */
static void choose_rows(const request *r, const weft_advice *a, bool *shown) {
    bool all = args_has(r->a, "--top") || args_has(r->a, "--wide");
    int others = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int64_t i = 0; i < a->n_candidates; i++) {
            bool room = all || pass == 0 || others < ALTERNATIVES;
            if (shown[i] || i == a->choice || !room || !is_shown(r, a, i, pass)) continue;
            shown[i] = true;
            others += i != a->baseline;
        }
}

static void put_table(const request *r, const weft_advice *a) {
    bool wide = args_has(r->a, "--wide");
    void (*put)(const weft_advice *, int64_t) = wide ? put_wide_row : put_row;
    bool *shown = calloc((size_t)a->n_candidates + 1, sizeof *shown);
    long long hidden = a->n_candidates - (a->choice >= 0);
    if (shown) choose_rows(r, a, shown);
    (wide ? put_wide_names : put_names)();
    if (a->choice >= 0) put(a, a->choice);
    for (int64_t i = 0; i < a->n_candidates && shown; i++)
        if (shown[i]) put(a, i), hidden--;
    free(shown);
    if (wide || a->choice < 0) put_problem(a);
    printf("  * choice  steps, faster: to the same loss, than row =%s\n",
           hidden > 0 ? "  more: --top 0, --wide" : "");
}

/* Prints the advice, wrapped paragraph by paragraph, with `between` in between. */
static void put_words(const char *text, const char *between) {
    enum { WIDTH = 80 };
    char paragraph[4096];
    for (const char *end; *text; text = end + strspn(end, "\n")) {
        end = strstr(text, "\n\n");
        if (!end) end = text + strlen(text);
        snprintf(paragraph, sizeof paragraph, "%.*s", (int)(end - text), text);
        if (*text == ' ') /* a command line, printed as it is */
            printf("%s\n", paragraph);
        else
            print_wrapped(stdout, 0, WIDTH, paragraph);
        if (*end) printf("%s", between);
    }
}

static void put_left_out(const weft_advice *a) {
    char line[512], more[40];
    if (a->n_left_out > 0) printf("\nleft out:\n");
    for (int64_t i = 0; i < a->n_left_out; i++) {
        const weft_left_out *l = &a->left_out[i];
        snprintf(more, sizeof more, " and %lld more", (long long)l->n - 1);
        snprintf(line, sizeof line, "%s%s: %s", l->what, l->n > 1 ? more : "", l->why);
        printf("  ");
        print_wrapped(stdout, 4, 80, line);
    }
}

/* Each pair of nodes that nobody can call exchanges its bytes through one that can be. */
static void put_relay(const request *r, const weft_advice *a) {
    char line[400], sent[COLUMN];
    double n = (double)r->behind, share = n * (n - 1) / (double)(r->cluster->nodes - 1);
    int64_t i = 0;
    while (i < a->n_candidates && a->candidates[i].nodes < r->cluster->nodes) i++;
    if (n < 2 || i == a->n_candidates) return;
    const weft_candidate *c = &a->candidates[i];
    snprintf(line, sizeof line,
             "A relay between %lld nodes that nobody can call passes on %s per step "
             "with %s; the times hold if its line is %.2g times as fast as theirs.",
             r->behind, size_text(share * c->prediction.wire_bytes, sent, sizeof sent),
             c->name, 1 + share);
    print_wrapped(stdout, 0, 80, line);
}

static void put_text(const request *r, const weft_advice *a) {
    put_head(r, a);
    put_words(a->answer, "");
    put_relay(r, a);
    put_table(r, a);
    put_words(a->next, "");
    if (!args_has(r->a, "--wide")) return;
    putchar('\n');
    put_words(a->text, "\n");
    put_left_out(a);
}

/* ---- the command ---- */

static weft_status write_choice(weft_ctx *ctx, const request *r, const weft_advice *a,
                                const char *path) {
    int64_t i = r->pick > 0 ? r->pick - 1 : a->choice;
    weft_config *chosen;
    if (r->pick > a->n_candidates)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "--pick is %lld, expected at most %lld, the rows of the whole table", r->pick,
            (long long)a->n_candidates);
    if (i < 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "nothing was written to %s: no candidate fits into the memory", path);
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
    const char *html = args_value(r->a, "--html");
    if (svg) WEFT_TRY(weft_advice_draw(ctx, a, svg));
    if (html) WEFT_TRY(weft_advice_page(ctx, r->run, r->cluster, &r->options, a, html));
    if (path) WEFT_TRY(write_choice(ctx, r, a, path));
    if (args_has(r->a, "--json")) return put_json(ctx, a);
    put_text(r, a);
    return WEFT_OK;
}

/* Sets the quality and the upper limit of the compute rate from the data sheets of named
 * accelerators. */
static void take_sheets(request *r, const char *names) {
    weft_advise_options *o = &r->options;
    double spread = 0;
    bool one = names && !strchr(names, ',');
    for (const weft_accelerator *a; (a = next_accelerator(&names));) {
        spread = fmax(spread, sqrt(a->high / a->low));
        o->peak_flops = fmax(o->peak_flops, a->peak_flops);
        if (one) o->node_watts = a->watts * (double)r->cluster->ranks_per_node;
    }
    if (spread <= 0 || args_has(r->a, "--node-flops")) return;
    if (!args_has(r->a, "--effort") && r->n_measured == 0)
        o->computing_low = 1 / spread, o->computing_high = spread;
    /* a given effort stays, whatever steps on several nodes show */
    bool given = args_has(r->a, "--effort");
    o->computing = given ? WEFT_KNOWN_TYPED : WEFT_KNOWN_SHEET;
}

/* Divides the rates of computing by the FLOP of a token of the user's model, relative to the
 * one that is planned in its place. */
static void weigh_rates(request *r) {
    double share = r->options.flop_share = r->model.flop_share;
    r->cluster->rank_flops /= share;
    r->cluster->rank_flops_bf16 /= share;
    r->options.peak_flops /= share;
    for (int64_t i = 0; i < r->cluster->n_machines; i++)
        r->cluster->machines[i].rank_flops /= share;
}

/* Reads the measured steps of --measured and fits the facts to them. */
static weft_status take_measured(weft_ctx *ctx, request *r) {
    const char *text;
    for (; (text = args_nth(r->a, "--measured", r->n_measured)); r->n_measured++) {
        if (r->n_measured == MOST_MEASURED)
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT, "more than %d times --measured",
                                 (int)MOST_MEASURED);
        weft_measurement *m = &r->measured[r->n_measured];
        m->struct_size = sizeof *m;
        WEFT_TRY(weft_measurement_parse(ctx, text, m));
        if (m->nodes == 1 && args_has(r->a, "--effort"))
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                 "--effort and --measured '%s' both say how fast a node "
                                 "computes, expected one of them",
                                 m->text);
        if (weft_framework_find(m->method)) (void)add_framework(r, m->method);
    }
    if (r->n_measured == 0) return WEFT_OK;
    WEFT_TRY(weft_cluster_anchor(ctx, r->run, &r->options, r->measured, r->n_measured,
                                 r->cluster, &r->inferred));
    r->options.measured = r->measured;
    r->options.n_measured = r->n_measured;
    r->options.inferred = &r->inferred;
    r->options.computing = r->inferred.computing;
    r->options.wire = r->inferred.wire;
    return WEFT_OK;
}

/* The wire by what crossed it. A label beside it gives the latency alone. */
static weft_status take_exchange(weft_ctx *ctx, request *r) {
    const char *text = args_nth(r->a, "--allreduce", 0);
    const char *other = args_nth(r->a, "--allreduce", 1);
    if (!text) return WEFT_OK;
    if (args_nth(r->a, "--allreduce", 2))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--allreduce is given three times, expected it once, or "
                             "for one stream and for several");
    if (args_has(r->a, "--wire"))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--wire and --allreduce both say what the wire carries, "
                             "expected one of them");
    double *low = &r->options.wire_low, *high = &r->options.wire_high;
    WEFT_TRY(other ? weft_cluster_streams(ctx, text, other, r->cluster, low, high)
                   : weft_cluster_exchange(ctx, text, r->cluster, low, high));
    r->options.wire = WEFT_KNOWN_MEASURED;
    return WEFT_OK;
}

static weft_status plan(weft_ctx *ctx, request *r) {
    weft_advice *advice = NULL;
    WEFT_TRY(config_of_args(ctx, r->a, &r->run));
    WEFT_TRY(shape_of_args(ctx, r->a, r->run, &r->model));
    WEFT_TRY(cluster_of_args(ctx, r->a, r->run, 2, &r->cluster));
    WEFT_TRY(check_facts(ctx, r->a, r->cluster));
    assume_batch(&r->model, r->run, r->cluster, r->options.batch_per_rank);
    if (r->behind >= r->cluster->nodes)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--behind is %lld of %lld nodes, expected one that relays",
                             r->behind, (long long)r->cluster->nodes);
    const char *flops = args_value(r->a, "--node-flops");
    if (flops && strcmp(flops, "here") == 0) r->options.computing = WEFT_KNOWN_MEASURED;
    WEFT_TRY(take_exchange(ctx, r));
    take_sheets(r, args_value(r->a, "--accelerator"));
    weigh_rates(r);
    if (r->lora > 0)
        WEFT_TRY(lora_share(ctx, r->run, (double)r->lora, &r->options.trainable));
    if (numbers_of_ranks(ranks_of_each(r->a), r->ranks) > 0)
        r->options.ranks = r->ranks, r->options.shares = true;
    if (r->options.shares && r->cluster->n_machines == 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--shares is given, but all machines are alike, expected a "
                             "list of machines in --cluster");
    WEFT_TRY(take_measured(ctx, r));
    /* as sure as a data sheet's: it was reached somewhere */
    if (args_has(r->a, "--effort")) r->options.computing = WEFT_KNOWN_SHEET;
    WEFT_TRY(weft_advise(ctx, r->run, r->cluster, &r->options, &advice));
    weft_status status = show(ctx, r, advice);
    weft_advice_destroy(ctx, advice);
    return status;
}

/* A folder alone, where a run with method=auto has decided. [out] *shown: it was shown. */
static weft_status show_decision(weft_ctx *ctx, const args *a, bool *shown) {
    char *text;
    *shown = false;
    if (a->n_operands != 1 || a->n_given > 0) return WEFT_OK;
    WEFT_TRY(weft_decision_text(ctx, a->operands[0], &text));
    *shown = text != NULL;
    if (text) printf("%s", text);
    weft_free(ctx, text);
    return WEFT_OK;
}

static int run(weft_ctx *ctx, args *a) {
    bool shown;
    request r = {.a = a,
                 .options.struct_size = sizeof r.options,
                 .inferred.struct_size = sizeof r.inferred};
    int code = read_flags(a, &r);
    if (code != CODE_OK) return code;
    weft_status status = show_decision(ctx, a, &shown);
    if (status == WEFT_OK && !shown) status = plan(ctx, &r);
    code = program_code(ctx, status);
    weft_cluster_destroy(ctx, r.cluster);
    weft_config_destroy(ctx, r.run);
    return code;
}

const command command_plan = {
    .name = "plan",
    .summary = "predict which method makes a run faster on several machines, if any does",
    .usage = "[run.yaml | RUN] [key=value ...] [--cluster FILE | facts] [flags]",
    .help = "Predicts the run with each method on one node and on several, and says how "
            "much a second machine helps, with which method. Nothing is trained. Facts "
            "on the command line override those of --cluster.\n\n"
            "Methods are compared by the time to a loss. Keys of replicator and mixer "
            "hold only for the run as it is ('own keys'), those of optimizer for its "
            "method. RUN: what auto decided.",
    .examples =
        "plan --parameters 124M --nodes 2 --link 1Gbit,1ms --measured \"1 node: 0.9 s\"\n"
        "plan --hf MODEL --nodes 4 --accelerator A100 --link 10Gbit,50us --lora 16",
    .flags = flags,
    .facts = CLUSTER_FLAGS_LAST,
    .configures = true,
    .run = run,
};
