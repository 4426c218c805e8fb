/* SPDX-License-Identifier: MIT */
/* Facts from a user's own measurements. Measured steps on one node determine the compute
 * rate, those on several nodes the rate of the wire:
 *
 *     one node        find f with  T(f) = t           T falls with the rate of computing f
 *     two batches     t = a + b tokens:  a spread over the layers as launch, f from the rest
 *     several nodes   find b with  T(b) = t           T falls with the wire's rate b
 *                     T(label) + E = t:  half of E is the wire's, half a constant
 *     only these      find f with  T(f) = t, with the given rate of the wire
 *
 * The last is one equation for two unknowns, so the text says what would separate them: a step
 * on one node. If there is a data sheet, and f is not between a twentieth and the whole of its
 * peak, the given rate of the wire is wrong: then f is that of the data sheet, and b is found.
 *
 * T is the model that predicts the candidates, so f and b also include what the model
 * leaves out. Both are found by bisection in logarithms; several measurements give the
 * geometric mean, and the result of each is listed beside it. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/sized.h"
#include "base/text.h"
#include "config/value.h"
#include "job/job.h"
#include "planner/advise.h"
#include "cluster/facts.h"
#include "planner/framework.h"

/* ---- "2 nodes x 4, ddp, 64k tokens: 4.1 s" ---- */

static weft_status refuse(weft_ctx *ctx, const char *text, const char *why) {
    char shown[120];
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "--measured '%s': %s, expected such as \"2 nodes, ddp: 4.1 s\" "
                         "or \"1 node x 4, 64k tokens: 12k tokens/s\"",
                         wefti_shown(text, shown, sizeof shown), why);
}

/* Parses a value at the beginning of a text, such as 1.2k of "1.2k tok/s". */
static bool parse_amount(const char *text, const char **rest, double *out) {
    char number[48];
    size_t n = strspn(text, "0123456789.eE+");
    if (n > 0 && text[n] && strchr("kKmMgG", text[n]) &&
        !isalpha((unsigned char)text[n + 1]))
        n++;
    if (n == 0 || n >= sizeof number) return false;
    snprintf(number, sizeof number, "%.*s", (int)n, text);
    *rest = text + n + strspn(text + n, " ");
    return weft_quantity_parse(number, WEFT_UNIT_COUNT, out) && *out > 0;
}

static bool starts(const char *text, const char *word) {
    return strncmp(text, word, strlen(word)) == 0;
}

/* What a text has given so far; each item may be given once. */
typedef struct seen {
    bool method, nodes;
} seen;

/* One part before the colon, without blanks at its ends. */
static bool parse_part(const char *part, seen *once, weft_measurement *m) {
    const char *rest;
    double value;
    if (!parse_amount(part, &rest, &value)) {
        if (once->method) return false;
        once->method = true;
        const wefti_framework *known = wefti_framework_find(part);
        bool own = strcmp(part, "weft") == 0 || strcmp(part, "full sync") == 0 ||
                   wefti_recipe_find(part) != NULL;
        snprintf(m->method, sizeof m->method, "%.31s",
                 strcmp(part, "weft") == 0 ? ""
                 : known                   ? known->name
                                           : part);
        return known || own;
    }
    if (starts(rest, "token")) {
        if (m->tokens > 0) return false;
        m->tokens = value;
        return value <= 1e15;
    }
    if (!starts(rest, "node") || value > 1e6 || value != floor(value) || once->nodes)
        return false;
    once->nodes = true;
    m->nodes = (int64_t)value;
    rest += strlen("node") + (rest[4] == 's');
    rest += strspn(rest, " ");
    if (!*rest) return true;
    if (*rest != 'x' || !parse_amount(rest + 1 + strspn(rest + 1, " "), &rest, &value))
        return false;
    m->ranks_per_node = (int64_t)value;
    return value <= 4096 && value == floor(value);
}

static bool parse_result(const char *text, weft_measurement *m) {
    const char *rest;
    double value;
    if (weft_quantity_parse(text, WEFT_UNIT_TIME, &m->seconds)) return m->seconds > 0;
    if (!parse_amount(text, &rest, &value)) return false;
    if (strcmp(rest, "tokens/s") == 0 || strcmp(rest, "tok/s") == 0)
        m->tokens_per_s = value;
    else if (strcmp(rest, "it/s") == 0 || strcmp(rest, "steps/s") == 0)
        m->seconds = 1 / value;
    else if (strcmp(rest, "s/it") == 0)
        m->seconds = value;
    else
        return false;
    return true;
}

static weft_status parse(weft_ctx *ctx, const char *text, weft_measurement *out) {
    char part[64];
    const char *colon = strrchr(text, ':'), *at = text;
    seen once = {false, false};
    *out = (weft_measurement){.struct_size = sizeof(weft_measurement), .nodes = 1};
    snprintf(out->text, sizeof out->text, "%.127s", text);
    if (!colon || strlen(text) >= sizeof out->text)
        return refuse(ctx, text, "there is no colon before a time");
    if (colon == text) return refuse(ctx, text, "there is nothing before the colon");
    while (at < colon) {
        at += strspn(at, " ");
        size_t n = strcspn(at, ",:"), used = n;
        while (used > 0 && at[used - 1] == ' ') used--;
        if (used >= sizeof part) return refuse(ctx, text, "a word is too long");
        memcpy(part, at, used);
        part[used] = '\0';
        if (!parse_part(part, &once, out)) {
            char why[160];
            snprintf(why, sizeof why,
                     "'%.60s' is no number of nodes, tokens or method, or another one",
                     part);
            return refuse(ctx, text, why);
        }
        at += n + 1;
    }
    if (!parse_result(colon + 1 + strspn(colon + 1, " "), out))
        return refuse(ctx, text, "what is behind the colon is no time, it/s or tokens/s");
    return WEFT_OK;
}

weft_status weft_measurement_parse(weft_ctx *ctx, const char *text,
                                   weft_measurement *out) {
    WEFTI_SIZED_OUT(ctx, weft_measurement, out);
    return WEFTI_SIZED_GIVE(weft_measurement, out, parse(ctx, text, out));
}

/* ---- solving ---- */

typedef struct solver {
    wefti_adviser a; /* with the cluster whose facts are determined */
    weft_measurement *all;
    int n;
    double memory; /* largest predicted memory of a rank in the measured runs */
} solver;

/* "64k tokens" may mean 65536: the nearest number that all ranks can share in whole
 * sequences, if it differs by at most a twentieth. */
static int64_t whole_sequences(const wefti_adviser *a, const weft_measurement *m,
                               int64_t ranks_per_node) {
    double unit = (double)(m->nodes * ranks_per_node * wefti_advise_length(a));
    double nearest = unit * round(m->tokens / unit);
    return (int64_t)(fabs(nearest - m->tokens) <= 0.05 * m->tokens ? nearest : m->tokens);
}

/* Predicts the step of a measured run, and its memory. */
static weft_status predict(weft_ctx *ctx, solver *s, const weft_measurement *m,
                           double *step_s) {
    weft_candidate c = {.nodes = m->nodes, .sites = 1};
    weft_prediction p = {.struct_size = sizeof p};
    weft_config *run;
    wefti_adviser a = s->a;
    char tokens[64] = "";
    c.ranks_per_node = m->ranks_per_node > 0 ? m->ranks_per_node
                                             : a.cluster.ranks_per_node;
    c.sites = a.cluster.sites > 1 && m->nodes > a.cluster.nodes / a.cluster.sites
                  ? a.cluster.sites
                  : 1;
    if (m->tokens > 0)
        snprintf(tokens, sizeof tokens, "batch.tokens_per_step=%lld",
                 (long long)whole_sequences(&a, m, c.ranks_per_node) /
                     (s->a.options.batch_per_rank ? m->nodes : 1));
    WEFT_TRY(wefti_advise_config(ctx, s->a.run, tokens, false, &run));
    a.run = run;
    const wefti_framework *framework = wefti_framework_find(m->method);
    const wefti_recipe *recipe = wefti_recipe_find(m->method[0] ? m->method
                                                                : "full sync");
    if (framework) snprintf(c.framework, sizeof c.framework, "%s", framework->name);
    snprintf(c.settings, sizeof c.settings,
             "mesh.nodes=%lld mesh.ranks_per_node=%lld mesh.shards=0 mesh.sites=%lld "
             "batch.tokens_per_step=%lld batch.micro=%lld %s",
             (long long)c.nodes, (long long)c.ranks_per_node, (long long)c.sites,
             (long long)wefti_advise_tokens(&a, c.nodes),
             (long long)wefti_advise_micro(&a, wefti_advise_tokens(&a, c.nodes) /
                                                   (c.nodes * c.ranks_per_node) /
                                                   wefti_advise_length(&a)),
             recipe && m->nodes > 1 ? recipe->settings : "method=hsdp");
    weft_status status = wefti_advise_predict(ctx, &a, &c, 0, &p);
    weft_config_destroy(ctx, run);
    if (status != WEFT_OK) return status;
    *step_s = p.mean_step_s;
    s->memory = fmax(s->memory, (double)p.memory_bytes);
    weft_prediction_clear(ctx, &p);
    return WEFT_OK;
}

static double seconds_of(const solver *s, const weft_measurement *m) {
    double tokens = m->tokens > 0 ? m->tokens
                                  : (double)wefti_advise_tokens(&s->a, m->nodes);
    return m->seconds > 0 ? m->seconds : tokens / m->tokens_per_s;
}

/* Finds the value in [low, high] with which the model takes the measured time; T decreases
 * with the value. The result is an end of the range if T is larger, or smaller, everywhere. */
static weft_status halve(weft_ctx *ctx, solver *s, const weft_measurement *m,
                         double *value, double low, double high) {
    enum { HALVINGS = 44 };
    double wanted_s = seconds_of(s, m), step_s = 0;
    for (int i = 0; i < HALVINGS; i++) {
        *value = sqrt(low * high);
        WEFT_TRY(predict(ctx, s, m, &step_s));
        *(step_s > wanted_s ? &low : &high) = *value;
    }
    if (fabs(step_s / wanted_s - 1) < 0.05) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_ARGUMENT,
        "--measured '%s': no machine and wire take %.4g s for such a step (the nearest "
        "is %.4g s), expected the model and the tokens of the step that was measured",
        m->text, wanted_s, step_s);
}

/* Two batches on one node: the part that does not grow with the tokens is the launch time
 * of the layers. */
static weft_status split_computing(weft_ctx *ctx, solver *s, const weft_measurement *one,
                                   const weft_measurement *two) {
    double x = one->tokens > 0 ? one->tokens : (double)wefti_advise_tokens(&s->a, 1);
    double y = two->tokens > 0 ? two->tokens : (double)wefti_advise_tokens(&s->a, 1);
    double b = (seconds_of(s, two) - seconds_of(s, one)) / (y - x);
    double a = seconds_of(s, one) - b * x, short_s = fmin(x, y) * b;
    if (!(b > 0))
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--measured: %.6g tokens take %.4g s and %.6g tokens %.4g "
                             "s, expected the larger batch to take longer",
                             x, seconds_of(s, one), y, seconds_of(s, two));
    if (a <= 0)
        return halve(ctx, s, x > y ? one : two, &s->a.cluster.rank_flops, 1e3, 1e21);
    /* launch and rate are determined alternately, each with the present value of the other */
    double *launch = &s->a.cluster.launch_s, *rate = &s->a.cluster.rank_flops;
    *launch = 0;
    weft_measurement slope = x < y ? *one : *two;
    slope.seconds = short_s;
    WEFT_TRY(halve(ctx, s, &slope, rate, 1e3, 1e21));
    weft_measurement mirror = x < y ? *one : *two;
    double low = a * 1e-7, high = a, step_s;
    for (int i = 0; i < 44; i++) {
        *launch = sqrt(low * high);
        WEFT_TRY(predict(ctx, s, &mirror, &step_s));
        *(step_s > seconds_of(s, &mirror) ? &high : &low) = *launch;
    }
    return WEFT_OK;
}

static weft_status solve_computing(weft_ctx *ctx, solver *s, int *n_used) {
    const weft_measurement *one = NULL, *two = NULL;
    double sum = 0;
    *n_used = 0;
    for (int i = 0; i < s->n; i++) {
        const weft_measurement *m = &s->all[i];
        if (m->nodes != 1) continue;
        if (one && m->tokens != one->tokens) two = m;
        if (!one) one = m;
        WEFT_TRY(halve(ctx, s, m, &s->a.cluster.rank_flops, 1e3, 1e21));
        sum += log(s->a.cluster.rank_flops);
        ++*n_used;
    }
    if (two) return split_computing(ctx, s, one, two);
    if (*n_used > 0) s->a.cluster.rank_flops = exp(sum / *n_used);
    return WEFT_OK;
}

static weft_link_facts *wire_of(solver *s) {
    return s->a.cluster.sites > 1 ? &s->a.cluster.site : &s->a.cluster.wire;
}

/* Of the closed forms (advise_error.c). */
static const double noise = 1.15;

/* A step within 1 % of one on an infinitely fast wire gives no information about the
 * wire; nor does one whose difference is within `noise`. Then the rate is not changed. */
static weft_status solve_wire(weft_ctx *ctx, solver *s, int *n_used) {
    const double shows = 1.01;
    double sum = 0, *rate = &wire_of(s)->bandwidth_Bps, step_s, given_Bps = *rate;
    *n_used = 0;
    for (int i = 0; i < s->n; i++) {
        const weft_measurement *m = &s->all[i];
        if (m->nodes < 2) continue;
        *rate = 1e15;
        WEFT_TRY(predict(ctx, s, m, &step_s));
        if (step_s > noise * seconds_of(s, m))
            return weft_ctx_fail(
                ctx, WEFT_ERR_ARGUMENT,
                "--measured '%s': a step of %.4g s is less than computing and latency "
                "alone (%.4g s), expected the tokens of that step beside it, or a "
                "measurement on 1 node of the same batch",
                m->text, seconds_of(s, m), step_s);
        if (seconds_of(s, m) < shows * step_s) continue;
        WEFT_TRY(halve(ctx, s, m, rate, 1e2, 1e15));
        sum += log(*rate);
        ++*n_used;
    }
    *rate = *n_used > 0 ? exp(sum / *n_used) : given_Bps;
    return WEFT_OK;
}

/* ---- a wire and a constant ---- */

/* What the measured steps on several nodes take beyond the prediction, mean. */
static weft_status find_excess(weft_ctx *ctx, solver *s, double *excess_s) {
    double step_s, sum = 0;
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->all[i].nodes < 2) continue;
        WEFT_TRY(predict(ctx, s, &s->all[i], &step_s));
        sum += seconds_of(s, &s->all[i]) - step_s;
        n++;
    }
    *excess_s = n > 0 ? fmax(0, sum / n) : 0;
    return WEFT_OK;
}

/* A constant of more than this share of one node's step is no plausible one. */
static const double most_constant = 0.5;

/* What a step takes longer than with the wire's label may be a slower wire, or a constant of
 * every step. Half of each is taken, as the prior between both; the ends are all of one.
 * `given_Bps` is the label, `wire` the rate with which all is the wire's. */
static weft_status split_excess(weft_ctx *ctx, solver *s, double given_Bps, int *n_wire,
                                weft_inference_of_facts *out) {
    double *rate = &wire_of(s)->bandwidth_Bps, all_Bps = *rate, excess_s, one_s;
    weft_measurement one = s->all[0];
    one.nodes = 1, one.method[0] = '\0';
    if (*n_wire == 0 || given_Bps <= 0 || all_Bps >= given_Bps) return WEFT_OK;
    WEFT_TRY(predict(ctx, s, &one, &one_s));
    *rate = given_Bps;
    WEFT_TRY(find_excess(ctx, s, &excess_s));
    *rate = all_Bps;
    if (excess_s <= 0 || excess_s > most_constant * one_s) return WEFT_OK;
    s->a.constant_s = excess_s / 2;
    WEFT_TRY(solve_wire(ctx, s, n_wire));
    if (*n_wire == 0) { /* half of it is all that shows */
        s->a.constant_s = excess_s, *rate = given_Bps;
        out->all_wire = all_Bps / given_Bps, out->no_wire = out->all_constant = 1;
        return WEFT_OK;
    }
    out->all_wire = all_Bps / *rate;
    out->no_wire = given_Bps / *rate;
    out->all_constant = 2;
    return WEFT_OK;
}

/* ---- steps on several nodes, and none on one ---- */

/* A rate of the cluster in TFLOP/s of the model that the user has. */
static double teraflops(const solver *s, double flops) {
    double share = s->a.options.flop_share;
    return flops * (share > 0 ? share : 1) / 1e12;
}

/* Lower limit of the share of a peak that training reaches, including small batches and
 * f32; and a rate beyond that of any rank, for use without a known peak. */
static const double slowest_share = 0.05, beyond_flops = 1e16;

/* Finds the compute rate from one step on several nodes, between `low` and `high`; the
 * result is 0 or INFINITY if it is outside of these. */
static weft_status solve_behind(weft_ctx *ctx, solver *s, const weft_measurement *m,
                                double low, double high) {
    double *rate = &s->a.cluster.rank_flops, step_s, wanted_s = seconds_of(s, m);
    *rate = high;
    WEFT_TRY(predict(ctx, s, m, &step_s));
    if (step_s > wanted_s) {
        *rate = INFINITY;
        return WEFT_OK;
    }
    *rate = low;
    WEFT_TRY(predict(ctx, s, m, &step_s));
    if (step_s < wanted_s) {
        *rate = 0;
        return WEFT_OK;
    }
    return halve(ctx, s, m, rate, low, high);
}

/* Uses the rate of the data sheet, and explains that the rate from the measurement is
 * impossible. */
static void take_sheet(solver *s, double flops, double sheet, char *out, size_t size) {
    snprintf(out, size,
             "with the wire as given a rank would compute %s of its peak of %.3g "
             "TFLOP/s, so computing is taken from its data sheet, %.3g TFLOP/s",
             flops > 0 ? "more than the whole" : "less than a twentieth",
             teraflops(s, s->a.options.peak_flops), teraflops(s, sheet));
    s->a.cluster.rank_flops = sheet;
}

/* Sets the compute rate; `out` becomes the reason for using the data sheet's rate, or empty. */
static weft_status solve_several(weft_ctx *ctx, solver *s, double sheet, char *out,
                                 size_t size) {
    double peak = sheet > 0 ? s->a.options.peak_flops : 0, sum = 0;
    for (int i = 0; i < s->n; i++) {
        const weft_measurement *m = &s->all[i];
        WEFT_TRY(solve_behind(ctx, s, m, peak > 0 ? slowest_share * peak : 1e3,
                              peak > 0 ? peak : beyond_flops));
        double found = s->a.cluster.rank_flops;
        bool there = found > 0 && isfinite(found);
        if (!there && peak > 0) {
            take_sheet(s, found, sheet, out, size);
            return WEFT_OK;
        }
        if (!there)
            return weft_ctx_fail(
                ctx, WEFT_ERR_ARGUMENT,
                "--measured '%s': %s, expected the rate that the wire really "
                "carries (--link), --accelerator, or a step on 1 node beside it",
                m->text,
                found > 0 ? "exchanging alone takes longer with the wire as given"
                          : "no machine takes so long for the tokens of a step");
        sum += log(found);
    }
    s->a.cluster.rank_flops = exp(sum / s->n);
    return WEFT_OK;
}

/* The slow end of such a step: a wire of less than its label, and ranks so much faster that
 * the step takes as long. Ranks are at most four times as fast, or as the peak. */
static weft_status find_slow_end(weft_ctx *ctx, solver *s, weft_inference_of_facts *out) {
    double *rate = &wire_of(s)->bandwidth_Bps, *flops = &s->a.cluster.rank_flops;
    double given_Bps = *rate, found = *flops, peak = s->a.options.peak_flops;
    double most = peak > found ? peak : 4 * found;
    weft_status status = WEFT_OK;
    for (double w = WEFT_TCP_LOW; w < 0.99 && out->fast_wire <= 0; w *= 1.3) {
        *rate = w * given_Bps;
        status = solve_behind(ctx, s, &s->all[0], found / 4, most);
        if (status != WEFT_OK) break;
        if (*flops > 0 && isfinite(*flops))
            out->fast_wire = w, out->fast_flops = *flops / found;
    }
    *rate = given_Bps;
    *flops = found;
    return status;
}

/* ---- what was inferred, in words ---- */

/* Adds the rate of computing to the text: "a rank computes 97 TFLOP/s, 31 % of its peak". */
static size_t say_rate(const solver *s, char *out, size_t size) {
    double flops = s->a.cluster.rank_flops, peak = s->a.options.peak_flops;
    size_t used = strlen(out);
    used += (size_t)snprintf(out + used, size - used, "a rank computes %.3g TFLOP/s",
                             teraflops(s, flops));
    if (peak > 0)
        used += (size_t)snprintf(out + used, size - used,
                                 ", %.3g %% of the %.4g of its data sheet%s",
                                 100 * flops / peak, teraflops(s, peak),
                                 flops > peak ? ", which cannot be: are the accelerator, "
                                                "the model and the tokens of a step right"
                                              : "");
    return used;
}

static void say(const solver *s, double given_Bps, int n_one, int n_wire,
                weft_inference_of_facts *out) {
    char carried[32], given[32], launch[32];
    const weft_cluster *c = &s->a.cluster;
    double rate = s->a.cluster.sites > 1 ? c->site.bandwidth_Bps : c->wire.bandwidth_Bps;
    size_t used = strlen(out->text);
    if (n_one > 0) used = say_rate(s, out->text, sizeof out->text);
    if (n_one > 0 && c->launch_s > 0)
        used += (size_t)snprintf(out->text + used, sizeof out->text - used,
                                 ", and each layer's pass takes %s",
                                 wefti_seconds_text(c->launch_s, launch, sizeof launch));
    for (int i = 0; i < s->n && n_wire == 0 && out->constant_s <= 0; i++)
        if (s->all[i].nodes > 1) {
            snprintf(
                out->text + used, sizeof out->text - used,
                "%sthe wire does not show in these steps, %s", used ? "; " : "",
                s->all[i].predicted_s > noise * s->all[i].seconds
                    ? "which are shorter than it would allow as given: are the label, "
                      "the precision and the tokens of a step right"
                    : "and stays as given");
            return;
        }
    if (out->constant_s > 0)
        used += (size_t)snprintf(
            out->text + used, sizeof out->text - used,
            "%sa step on several nodes takes %s more than its computing and its wire",
            used ? "; " : "", wefti_seconds_text(out->constant_s, launch, sizeof launch));
    if (n_wire == 0) return;
    wefti_rate_text(rate, carried, sizeof carried);
    wefti_rate_text(given_Bps, given, sizeof given);
    if (given_Bps > 0)
        used += (size_t)snprintf(out->text + used, sizeof out->text - used,
                                 "%syour wire carries %s of %s", used ? "; " : "",
                                 carried, given);
    else
        used += (size_t)snprintf(out->text + used, sizeof out->text - used,
                                 "%sthe wire carries %s", used ? "; " : "", carried);
    if (given_Bps > 0 && rate > 1.05 * given_Bps && used < sizeof out->text)
        snprintf(out->text + used, sizeof out->text - used,
                 ", more than it can: more is hidden behind computing than is predicted, "
                 "or one node was slower for another reason");
    if (given_Bps > 0 && rate < 0.5 * given_Bps && out->constant_s <= 0 &&
        used < sizeof out->text)
        snprintf(out->text + used, sizeof out->text - used,
                 ": look at the number of streams, at the interface that is used, at the "
                 "link's own rate and at others on it (weft doctor, weft probe)");
}

/* If the compute rate comes from steps on several nodes: says what a step on one node
 * would show. */
static weft_status say_alone(weft_ctx *ctx, solver *s, weft_inference_of_facts *out) {
    weft_measurement one = s->all[0];
    char alone[32];
    double step_s;
    size_t used;
    if (s->a.options.batch_per_rank) one.tokens /= (double)one.nodes;
    one.nodes = 1;
    one.method[0] = '\0';
    WEFT_TRY(predict(ctx, s, &one, &step_s));
    snprintf(out->text, sizeof out->text, "with the wire as given ");
    used = say_rate(s, out->text, sizeof out->text);
    snprintf(
        out->text + used, sizeof out->text - used,
        ", and one node alone takes %s for such a step%s: measure that, too, for if it "
        "takes less, the wire carries less than given, and more nodes gain less",
        wefti_seconds_text(step_s, alone, sizeof alone),
        s->a.options.batch_per_rank ? "'s share" : "");
    return WEFT_OK;
}

/* The measured runs fitted into memory. If the estimate (for f32, as weft trains) says that
 * they do not, it is wrong for the precision of that loop, and memory is not checked. */
static void judge_memory(const solver *s, weft_cluster *cluster,
                         weft_inference_of_facts *out) {
    char memory[32];
    size_t used = strlen(out->text);
    if (cluster->memory_bytes <= 0 || s->memory <= cluster->memory_bytes) return;
    cluster->memory_bytes = 0;
    snprintf(out->text + used, sizeof out->text - used,
             "%sit had room where f32 would need %s, so memory is not judged",
             used ? "; " : "", wefti_format_bytes(s->memory, memory, sizeof memory));
}

/* The FLOP of a token, forward and backward, without what is computed again. */
static weft_status flop_of_token(weft_ctx *ctx, const solver *s, double *out) {
    weft_config *one;
    wefti_job *job;
    WEFT_TRY(wefti_advise_config(ctx, s->a.run,
                                 "mesh.nodes=1 mesh.ranks_per_node=1 mesh.shards=0 "
                                 "mesh.sites=1 batch.micro=0 method=hsdp",
                                 false, &one));
    weft_status status = wefti_job_create(ctx, one, NULL, wefti_job_vocab(one), &job);
    weft_config_destroy(ctx, one);
    if (status != WEFT_OK) return status;
    *out = weft_model_flop_per_token(job->model, job->T);
    wefti_job_destroy(ctx, job);
    return WEFT_OK;
}

/* Sets what each measured step reached of the peak: the FLOP of the whole step over its
 * time, as reports of throughput state it. */
static weft_status find_efforts(weft_ctx *ctx, solver *s) {
    double peak = s->a.options.peak_flops, flop;
    if (peak <= 0) return WEFT_OK;
    WEFT_TRY(flop_of_token(ctx, s, &flop));
    for (int i = 0; i < s->n; i++) {
        weft_measurement *m = &s->all[i];
        int64_t ranks = m->ranks_per_node > 0 ? m->ranks_per_node
                                              : s->a.cluster.ranks_per_node;
        double tokens = m->tokens > 0 ? m->tokens
                                      : (double)wefti_advise_tokens(&s->a, m->nodes);
        m->effort = flop * tokens / (m->seconds * (double)(m->nodes * ranks) * peak);
    }
    return WEFT_OK;
}

/* s.a has the run, the options and the facts that were given. */
static weft_status anchor(weft_ctx *ctx, solver *solved, weft_cluster *cluster,
                          weft_inference_of_facts *out) {
    solver s = *solved;
    weft_measurement *measured = s.all;
    int n_one, n_wire = 0, n = s.n;
    WEFT_TRY(wefti_cluster_check_sites(ctx, cluster));
    s.a.options.steps = 16;
    s.a.options.busy_s = 0;  /* measurements are assumed to be from quiet hours */
    s.a.cluster.n_units = 0; /* measured units are from another computer */
    double given_Bps = wire_of(&s)->bandwidth_Bps;
    if (given_Bps <= 0) wire_of(&s)->bandwidth_Bps = 1e9;
    if (s.a.cluster.rank_flops <= 0) s.a.cluster.rank_flops = 1e12;
    WEFT_TRY(solve_computing(ctx, &s, &n_one));
    bool several = n_one == 0 && (cluster->rank_flops <= 0 ||
                                  s.a.options.computing == WEFT_KNOWN_SHEET);
    if (several && given_Bps <= 0 && cluster->rank_flops <= 0)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "--measured says nothing of one node, expected such as \"1 "
                             "node: 0.52 s\" beside it, or --link or --node-flops");
    if (several && given_Bps > 0) {
        WEFT_TRY(
            solve_several(ctx, &s, cluster->rank_flops, out->text, sizeof out->text));
        several = !out->text[0];
    }
    bool carried = s.a.options.wire == WEFT_KNOWN_MEASURED; /* by an exchange */
    if (several) WEFT_TRY(find_slow_end(ctx, &s, out));
    if (carried && n_one > 0) WEFT_TRY(find_excess(ctx, &s, &s.a.constant_s));
    if (!several && !carried) WEFT_TRY(solve_wire(ctx, &s, &n_wire));
    if (n_one > 0) WEFT_TRY(split_excess(ctx, &s, given_Bps, &n_wire, out));
    out->constant_s = s.a.constant_s;
    for (int i = 0; i < n; i++) {
        WEFT_TRY(predict(ctx, &s, &measured[i], &measured[i].predicted_s));
        measured[i].seconds = seconds_of(&s, &measured[i]);
    }
    WEFT_TRY(find_efforts(ctx, &s));
    if (several)
        WEFT_TRY(say_alone(ctx, &s, out));
    else
        say(&s, given_Bps, n_one, n_wire, out);
    out->computing = n_one > 0 ? WEFT_KNOWN_MEASURED
                     : several ? WEFT_KNOWN_TYPED
                               : s.a.options.computing;
    out->wire = n_wire == 0                          ? s.a.options.wire
                : out->computing == WEFT_KNOWN_SHEET ? WEFT_KNOWN_SHEET
                                                     : WEFT_KNOWN_MEASURED;
    judge_memory(&s, cluster, out);
    out->rank_flops = 1e12 * teraflops(&s, s.a.cluster.rank_flops);
    if (s.a.options.peak_flops > 0)
        out->effort = s.a.cluster.rank_flops / s.a.options.peak_flops;
    out->launch_s = s.a.cluster.launch_s;
    out->wire_Bps = n_wire > 0 ? wire_of(&s)->bandwidth_Bps : 0;
    cluster->rank_flops = s.a.cluster.rank_flops;
    cluster->launch_s = s.a.cluster.launch_s;
    cluster->n_units = 0;
    if (n_wire > 0)
        *(cluster->sites > 1 ? &cluster->site : &cluster->wire) = *wire_of(&s);
    return WEFT_OK;
}

weft_status weft_cluster_anchor(weft_ctx *ctx, const weft_config *run,
                                const weft_advise_options *options,
                                weft_measurement *measured, int n, weft_cluster *cluster,
                                weft_inference_of_facts *out) {
    const wefti_sized *kind = &wefti_sized_weft_measurement;
    solver s = {.n = n};
    weft_config *own;
    WEFTI_SIZED_IN(ctx, weft_advise_options, options);
    WEFTI_SIZED_OUT(ctx, weft_inference_of_facts, out);
    WEFT_TRY(wefti_sized_list_in(ctx, kind, measured, n, &s.all));
    WEFTI_TRY_OR(wefti_advise_run(ctx, run, &own), wefti_free(ctx, s.all));
    *out = (weft_inference_of_facts){.struct_size = sizeof(weft_inference_of_facts),
                                     .text = ""};
    s.a = (wefti_adviser){
        .ctx = ctx, .run = own, .cluster = *cluster, .options = *options};
    weft_status status = anchor(ctx, &s, cluster, out);
    wefti_sized_list_out(kind, s.all, measured, n, status);
    wefti_free(ctx, s.all);
    weft_config_destroy(ctx, own);
    return WEFTI_SIZED_GIVE(weft_inference_of_facts, out, status);
}
