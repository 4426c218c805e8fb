/* SPDX-License-Identifier: MIT */
/* `weft watch --text`: prints a run in seven or eight lines, and one line for each node.
 *
 *     runs/a  flexdemo                      step 1200/5000 24%   12 min, 38 min left
 *       loss 3.2140, mean of the last 50 steps   validation 3.3010, best 3.2980
 *       6.21 ▇▆▅▄▃▃▂▂▂▁▁▁ 3.21   of all steps
 *       12.3k tokens/s   step 236 ms: computing 150 ms, waiting 60 ms, the rest 26 ms
 *       gradient norm 1.52   FLOP use 41%   memory 171 MB of a rank, 640 MB of the process
 *       wire 3.10 MB/step out of a node, 85% of the exchange hidden, 3.7 GB so far
 *       node 0, host: 1.9 of 2 cores, 640 MB, network out 12 MB/s, in 12 MB/s
 *       predicted 230 ms/step (205 to 260)                     with a prediction
 *       3 ranks since step 800: lost 1, 41 ms; 2 changes in all, 98.2% of the rows */
#define _GNU_SOURCE
#include "watch.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "figures.h"
#include "progress.h"

enum { CURVE = 48 };

/* A number of a JSON object, NAN if it is absent. */
static double number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Reads the value of " steps: 5000" or "method: x" in a configuration written by weft. */
static bool setting(const char *config, const char *line_start, char *out, size_t size) {
    size_t n = strlen(line_start);
    for (const char *line = config; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, line_start, n) != 0) continue;
        size_t length = strcspn(line + n, "\n #");
        if (length == 0 || length >= size) return false;
        memcpy(out, line + n, length);
        out[length] = '\0';
        return true;
    }
    return false;
}

/* The last `steps:` in the section run. */
static double steps_of(const char *config) {
    char word[32];
    const char *section = config ? strstr(config, "\nrun:\n") : NULL;
    if (!section || !setting(section + 1, "  steps: ", word, sizeof word)) return NAN;
    return strtod(word, NULL);
}

/* Computes the mean of the finite numbers in each of CURVE equal parts. Returns how many
 * parts have one. */
static int parts_of(const json_t *column, double mean[CURVE]) {
    size_t n = json_array_size(column);
    int used = 0, parts = n < CURVE ? (int)n : CURVE;
    for (int p = 0; p < parts; p++) {
        double sum = 0;
        int count = 0;
        for (size_t i = n * (size_t)p / (size_t)parts;
             i < n * (size_t)(p + 1) / (size_t)parts; i++) {
            const json_t *value = json_array_get(column, i);
            if (json_is_number(value)) sum += json_number_value(value), count++;
        }
        if (count > 0) mean[used++] = sum / count;
    }
    return used;
}

/* Whether the locale is one of another encoding than UTF-8; where none is set, it is not. */
static bool draws_ascii(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *locale = getenv(names[i]);
        if (locale && locale[0])
            return !strcasestr(locale, "utf-8") && !strcasestr(locale, "utf8");
    }
    return false;
}

static void print_curve(const json_t *steps) {
    static const char *const sets[][8] = {{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
                                          {"_", ".", ",", "-", "~", "+", "*", "#"}};
    const char *const *bars = sets[draws_ascii()];
    double mean[CURVE], low = INFINITY, high = -INFINITY;
    int n = parts_of(json_object_get(steps, "loss"), mean);
    if (n < 2) return;
    for (int i = 0; i < n; i++) low = fmin(low, mean[i]), high = fmax(high, mean[i]);
    printf("  %.4g ", mean[0]);
    for (int i = 0; i < n; i++)
        fputs(bars[high > low ? (int)(7.999 * (mean[i] - low) / (high - low)) : 0],
              stdout);
    printf(" %.4g\n", mean[n - 1]);
}

static void print_head(const json_t *run, const json_t *summary, const json_t *steps) {
    const char *name = json_string_value(json_object_get(run, "name"));
    const char *config = json_string_value(json_object_get(run, "config"));
    const json_t *step = json_object_get(steps, "step");
    double at = json_number_value(json_array_get(step, json_array_size(step) - 1));
    double total = steps_of(config), elapsed = number(summary, "elapsed_s");
    char method[40], word[40];
    char shown[64];
    fputs(plain_text(name ? name : "", shown, sizeof shown), stdout);
    if (config && setting(config, "method: ", method, sizeof method))
        printf("  %s", plain_text(method, word, sizeof word));
    if (json_array_size(step) == 0) at = 0;
    printf("   step %.0f", at);
    if (total > 0) printf("/%.0f %.0f%%", total, floor(100 * at / total));
    if (isfinite(elapsed)) printf("   %s", time_text(elapsed, word, sizeof word));
    double each = number(summary, "pace_s");
    if (!isfinite(each)) each = number(summary, "median_step_s");
    if (total > at && each > 0)
        printf(", %s left", time_text((total - at) * each, word, sizeof word));
    printf("\n");
}

static void print_loss(const json_t *summary) {
    double loss = number(summary, "loss"),
           validation = number(summary, "validation_loss");
    double lost = number(summary, "steps_without_loss");
    bool tells = isfinite(
        number(summary, "tokens_per_s")); /* a program's folder does not */
    if (!tells && !isfinite(loss) && !isfinite(validation)) return;
    if (isfinite(loss))
        printf("  loss %.4f, mean of the last %.0f steps", loss,
               fmin(50, number(summary, "steps")));
    if (isfinite(validation))
        printf("   validation %.4f, best %.4f", validation,
               number(summary, "best_validation_loss"));
    if (lost > 0) printf("   %.0f steps without a finite loss", lost);
    printf("\n");
}

/* The sentence in a view that changes nothing, in the form of the one before; or NULL. */
static const char *sentence_of(const json_t *view, const json_t *before) {
    const char *name = json_string_value(json_object_get(view, "name"));
    const char *was = json_string_value(json_object_get(before, "name"));
    bool same = name && was && strcmp(name, was) == 0;
    return same ? json_string_value(json_object_get(view, "why")) : NULL;
}

/* Of the form that crosses the wire now. */
static void print_prediction(const json_t *prediction, const json_t *views) {
    double predicted = number(prediction, "median_step_s"), since = 0;
    char a[32], b[32], c[32];
    for (size_t i = 1; i < json_array_size(views); i++) {
        const json_t *view = json_array_get(views, i);
        bool changes_nothing = sentence_of(view, json_array_get(views, i - 1)) != NULL;
        if (changes_nothing || !json_object_get(view, "name") ||
            !json_object_get(view, "why"))
            continue;
        const json_t *expected = json_object_get(view, "expected");
        predicted = expected ? json_number_value(json_array_get(expected, 1))
                             : (double)NAN;
        since = number(view, "step");
    }
    if (!(predicted > 0)) return;
    printf("  predicted %s/step", time_text(predicted, a, sizeof a));
    if (since > 0)
        printf(" since step %.0f\n", since);
    else
        printf(" (%s to %s)\n", time_text(number(prediction, "low_step_s"), b, sizeof b),
               time_text(number(prediction, "high_step_s"), c, sizeof c));
}

static void print_speed(const json_t *summary) {
    double step = number(summary, "step_s"), compute = number(summary, "compute_s");
    double wait = number(summary, "wait_s"), wire = number(summary, "wire_bytes_out");
    double hidden = number(summary, "hidden_share");
    char a[32], b[32], c[32];
    if (!isfinite(step)) return;
    double tokens = number(summary, "tokens_per_s");
    if (isfinite(tokens)) printf("  %s tokens/s ", count_text(tokens, a, sizeof a));
    printf("  step %s", time_text(step, b, sizeof b));
    if (isfinite(compute) && isfinite(wait))
        printf(": computing %s, waiting %s", time_text(compute, a, sizeof a),
               time_text(wait, b, sizeof b));
    if (step - compute - wait >= 1e-6)
        printf(", the rest %s", time_text(step - compute - wait, c, sizeof c));
    printf("\n");
    double norm = number(summary, "grad_norm"), use = number(summary, "mfu");
    double rank = number(summary, "memory_rank_bytes");
    double process = number(summary, "memory_bytes");
    if (isfinite(norm)) printf("  gradient norm %.4g", norm);
    if (isfinite(use))
        printf("%sFLOP use %.0f%%", isfinite(norm) ? "   " : "  ", 100 * use);
    if (isfinite(rank))
        printf("   memory %s of a rank, %s of the process", size_text(rank, a, sizeof a),
               size_text(process, b, sizeof b));
    if (isfinite(norm) || isfinite(use) || isfinite(rank)) printf("\n");
    if (wire > 0) {
        printf("  wire %s/step out of a node", size_text(wire, a, sizeof a));
        if (isfinite(hidden)) printf(", %.0f%% of the exchange hidden", 100 * hidden);
        printf(", %s so far\n", size_text(number(summary, "wire_total"), b, sizeof b));
    }
}

/* Prints the last sentence; the last change of membership or of what crosses the wire, and the
 * number of changes. */
static void print_views(const json_t *views, double participation) {
    const json_t *view, *last = NULL;
    const char *sentence = NULL;
    char stall[32], shown[400];
    size_t i;
    int changes = 0;
    json_array_foreach(views, i, view) {
        const char *reason = i ? sentence_of(view, json_array_get(views, i - 1)) : NULL;
        if (reason) sentence = reason;
        if (i == 0 || reason) continue;
        last = view;
        changes++;
    }
    if (sentence) printf("  %s\n", plain_text(sentence, shown, sizeof shown));
    if (!last) return;
    size_t lost = json_array_size(json_object_get(last, "lost"));
    size_t joined = json_array_size(json_object_get(last, "joined"));
    double stall_s = number(last, "stall_s");
    printf("  %.0f ranks since step %.0f", number(last, "ranks"), number(last, "step"));
    if (json_is_true(json_object_get(last, "begins"))) printf(": resumed");
    if (lost > 0) printf(": lost %zu", lost);
    if (joined > 0) printf("%s %zu came", lost > 0 ? "," : ":", joined);
    const char *name = json_string_value(json_object_get(last, "name"));
    double gain = json_number_value(json_array_get(json_object_get(last, "expected"), 2));
    if (name && json_object_get(last, "why"))
        printf(": %s", plain_text(name, shown, sizeof shown));
    if (gain > 0) printf(", %.2g times as fast expected", gain);
    if (isfinite(stall_s)) printf(", %s", time_text(stall_s, stall, sizeof stall));
    printf("; %d change%s in all", changes, changes > 1 ? "s" : "");
    if (isfinite(participation)) printf(", %.4g%% of the rows", 100 * participation);
    printf("\n");
}

/* The newest number of a node's column. */
static double newest(const json_t *node, const char *name) {
    const json_t *column = json_object_get(node, name);
    size_t n = json_array_size(column);
    const json_t *value = n ? json_array_get(column, n - 1) : NULL;
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* "  node 0, host: 1.9 of 2 cores, 640 MB, network out 12 MB/s, in 12 MB/s" */
static void print_nodes(const json_t *nodes) {
    enum { MOST = 16 };
    const json_t *node;
    size_t i;
    char a[32], b[32], c[32], host[80];
    json_array_foreach(nodes, i, node) {
        const char *name = json_string_value(json_object_get(node, "host"));
        if (i == MOST) {
            printf("  and %zu other nodes\n", json_array_size(nodes) - i);
            return;
        }
        double out = newest(node, "net_out"), in = newest(node, "net_in");
        printf("  node %.0f, %s: %.3g of %.0f cores, %s", number(node, "node"),
               plain_text(name ? name : "", host, sizeof host), newest(node, "cpu_cores"),
               number(node, "cores"),
               size_text(newest(node, "memory_bytes"), a, sizeof a));
        if (isfinite(out) && isfinite(in))
            printf(", network out %s/s, in %s/s", size_text(out, b, sizeof b),
                   size_text(in, c, sizeof c));
        printf("\n");
    }
}

static void print_run(const json_t *run) {
    const json_t *summary = json_object_get(run, "summary");
    const json_t *steps = json_object_get(run, "steps");
    print_head(run, summary, steps);
    print_loss(summary);
    print_curve(steps);
    print_speed(summary);
    print_prediction(json_object_get(run, "prediction"), json_object_get(run, "views"));
    print_nodes(json_object_get(run, "nodes"));
    double suspect = number(summary, "suspect_node");
    if (isfinite(suspect))
        printf("  node %.0f sends too much again and again; mesh.robust limits what that "
               "does\n",
               suspect);
    print_views(json_object_get(run, "views"), number(summary, "participation"));
}

static weft_status show(const watched *w, bool once) {
    char *text;
    int64_t n;
    WEFT_TRY(weft_report_data(w->ctx, w->report, &text, &n));
    json_t *data = json_loadb(text, (size_t)n, 0, NULL);
    weft_free(w->ctx, text);
    if (!data)
        return weft_ctx_fail(w->ctx, WEFT_ERR_MEMORY, "no memory for the runs' numbers");
    size_t i;
    json_t *run;
    if (!once && progress_redraws(STDOUT_FILENO)) fputs("\033[H\033[2J", stdout);
    json_array_foreach(json_object_get(data, "runs"), i, run) print_run(run);
    json_decref(data);
    return fflush(stdout) == 0
               ? WEFT_OK
               : weft_ctx_fail(w->ctx, WEFT_ERR_FILE, "could not write to the terminal");
}

/* A run that has begun and has not written a number yet: it reads its text. */
static bool begins(const watched *w) {
    struct stat info;
    char path[4096];
    for (int i = 0; i < w->n; i++) {
        snprintf(path, sizeof path, "%s/metrics.jsonl", w->folders[i]);
        if (stat(path, &info) == 0 || errno != ENOENT) continue;
        snprintf(path, sizeof path, "%s/lease", w->folders[i]);
        if (stat(path, &info) == 0) return true;
    }
    return false;
}

/* What can not be shown is reported once for each change of the files; what was shown before stays
 * above it. Only what was there at no time ends the command, unless a run is about to begin. */
int watch_text(const watched *w, bool once) {
    unsigned long long seen = 0;
    bool shown = false;
    do {
        unsigned long long stamp = watch_stamp(w);
        if (stamp == seen) continue;
        weft_status status = show(w, once);
        if (status != WEFT_OK && (once || (!shown && !begins(w))))
            return program_code(w->ctx, status);
        if (status != WEFT_OK) (void)program_code(w->ctx, status);
        shown = shown || status == WEFT_OK;
        seen = stamp;
        weft_ctx_set_sink(w->ctx, NULL, NULL); /* one warning about damage is enough */
    } while (!once && watch_sleep(w->every_s));
    return CODE_OK;
}
