/* SPDX-License-Identifier: MIT */
/* The advice in words, behind the answer (answer.c): the speed of one node, the
 * speed-up of each method with more nodes, the effect of the choice on learning, and the
 * rates of the wire at which the answer would change.
 *
 *     One node alone takes 900 ms for a step of 65.5k tokens ...       put_baseline
 *     Against one node alone, with a wire of 1 Gbit/s ...              put_methods, to a loss
 *     Speed is not quality: ...                                        cost of the choice
 *
 * Numbers have three digits, because a prediction has no more; times and rates take the
 * unit that gives them one to three digits before the point. A method that is as fast as
 * the one before it, within one per cent, is mentioned together with it. */
#include <math.h>
#include <stdio.h>

#include "advice/words.h"
#include "base/text.h"

/* Formats a rate in bits per second, as usual for links. */
const char *wefti_rate_text(double bandwidth_Bps, char *out, size_t out_size) {
    static const char *const units[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
    double bits = 8 * bandwidth_Bps;
    int k = 0;
    while (k < 4 && bits >= 999.5) bits /= 1000, k++;
    snprintf(out, out_size, "%.3g %s", bits, units[k]);
    return out;
}

const char *wefti_amount_text(double x, char *out, size_t out_size) {
    snprintf(out, out_size, x < 999.5 ? "%.3g" : "%.0f", x);
    return out;
}

/* "0.36", "14"; beside 1 two digits behind the point, because that decides: "1.04". */
static const char *end_text(double x, char *out, size_t size) {
    snprintf(out, size, x > 0.95 && x < 1.05 ? "%.2f" : x < 99.5 ? "%.2g" : "%.0f", x);
    return out;
}

const char *wefti_span_text(double low, double high, char *out, size_t size) {
    char one[16], other[16];
    snprintf(out, size, "%s to %s", end_text(low, one, sizeof one),
             end_text(high, other, sizeof other));
    return out;
}

const char *wefti_seconds_text(double seconds, char *out, size_t out_size) {
    char years[24];
    if (seconds >= 999 * 86400.0)
        snprintf(out, out_size, "%s years",
                 wefti_amount_text(seconds / (365.25 * 86400), years, sizeof years));
    else if (seconds >= 172800)
        snprintf(out, out_size, "%.3g days", seconds / 86400);
    else if (seconds >= 7200)
        snprintf(out, out_size, "%.3g h", seconds / 3600);
    else if (seconds >= 180)
        snprintf(out, out_size, "%.3g min", seconds / 60);
    else if (seconds >= 0.9995)
        snprintf(out, out_size, "%.3g s", seconds);
    else if (seconds >= 0.9995e-3)
        snprintf(out, out_size, "%.3g ms", 1e3 * seconds);
    else
        snprintf(out, out_size, "%.3g us", 1e6 * seconds);
    return out;
}

static const char *tokens_text(double n, char *out, size_t out_size) {
    static const char *const suffixes[] = {"", "k", "M", "G", "T"};
    int k = 0;
    while (k < 4 && n >= 999.5) n /= 1000, k++;
    snprintf(out, out_size, "%.3g%s", n, suffixes[k]);
    return out;
}

static const weft_candidate *at(const weft_advice *a, int64_t i) {
    return i < 0 ? NULL : &a->candidates[i];
}

void wefti_put_mesh(const wefti_adviser *a, wefti_buffer *s, const weft_candidate *c) {
    int64_t ranks = wefti_advice_ranks(a->advice, c);
    bool alike = ranks == c->nodes * c->ranks_per_node;
    wefti_buffer_print(a->ctx, s, " on %lld nodes", (long long)c->nodes);
    if (c->ranks_per_node > 1)
        wefti_buffer_print(a->ctx, s, " %s %lld %s", alike ? "x" : "with",
                           (long long)(alike ? c->ranks_per_node : ranks),
                           c->shards == 1 ? "whole copies" : "ranks");
}

/* "1.9 times faster", "6.1 times slower". */
const char *wefti_factor_text(double speedup, char *out, size_t size) {
    char x[32];
    if (speedup >= 0.995 && speedup < 1.005)
        snprintf(out, size, "as fast as one node alone");
    else
        snprintf(out, size, "%s times %s than one node alone",
                 wefti_amount_text(speedup >= 1 ? speedup : 1 / speedup, x, sizeof x),
                 speedup >= 1 ? "faster" : "slower");
    return out;
}

void wefti_put_list(weft_ctx *ctx, wefti_buffer *s, const char *before,
                    const char *const words[10], int n) {
    for (int i = 0; i < n; i++)
        wefti_buffer_print(ctx, s, "%s%s%s",
                           i == 0      ? before
                           : i + 1 < n ? ", "
                                       : " and ",
                           words[i], i + 1 < n ? "" : ".");
}

/* ---- paragraphs ---- */

static void put_baseline(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
    const weft_candidate *one = at(a, a->baseline);
    char step[32], rate[32], goal[32], time[32], batch[32];
    wefti_buffer_print(ctx, s,
                       "One node alone takes %s for a step of %s tokens (%s tokens/s) "
                       "and %s for %s tokens.",
                       wefti_seconds_text(one->prediction.mean_step_s, step, sizeof step),
                       tokens_text((double)a->tokens_per_step, batch, sizeof batch),
                       tokens_text(one->prediction.tokens_per_s, rate, sizeof rate),
                       wefti_seconds_text(3600 * one->hours, time, sizeof time),
                       tokens_text(a->tokens, goal, sizeof goal));
    if (!one->usable)
        wefti_buffer_print(ctx, s,
                           " It could not be done: it %s. If it runs in your precision, "
                           "say so: --measured \"1 node: ... s\".",
                           one->problem);
}

/* "2 times faster", "6.1 times slower". */
static const char *short_factor(double speedup, char *out, size_t size) {
    if (speedup >= 0.995 && speedup < 1.005)
        snprintf(out, size, "just as fast");
    else
        snprintf(out, size, "%.3g times %s", speedup >= 1 ? speedup : 1 / speedup,
                 speedup >= 1 ? "faster" : "slower");
    return out;
}

bool wefti_advice_has_sites(const weft_advice *a) {
    for (int64_t i = 0; i < a->n_candidates; i++)
        if (a->candidates[i].sites > 1) return true;
    return false;
}

/* Writes one method, with the rate of the wire from which it is worthwhile. */
static void put_method(weft_ctx *ctx, wefti_buffer *s, const weft_candidate *c) {
    char rate[32];
    wefti_buffer_print(ctx, s, " %s", c->name);
    if (isfinite(c->break_even_Bps) && c->break_even_Bps > 0)
        wefti_buffer_print(ctx, s, " (break-even at %s)",
                           wefti_rate_text(c->break_even_Bps, rate, sizeof rate));
    else if (c->speedup < 1)
        wefti_buffer_print(ctx, s, " (on any wire)");
}

/* Within one per cent, on the same machines. */
static bool as_fast(const weft_candidate *a, const weft_candidate *b) {
    return a->nodes == b->nodes && a->shards == b->shards &&
           fabs(log(a->speedup / b->speedup)) < 0.01;
}

/* Writes the best of each method, the fastest first; equally fast ones together. */
static void put_methods(const wefti_adviser *adviser, wefti_buffer *s) {
    weft_ctx *ctx = adviser->ctx;
    const weft_advice *a = adviser->advice;
    char rate[32], latency[32], factor[64];
    const weft_candidate *before = NULL;
    if (a->n_curves == 0) return;
    wefti_buffer_print(ctx, s,
                       "\n\nAgainst one node alone, with a wire of %s and %s latency%s,",
                       wefti_rate_text(a->wire.bandwidth_Bps, rate, sizeof rate),
                       wefti_seconds_text(a->wire.latency_s, latency, sizeof latency),
                       wefti_advice_has_sites(a) ? " between sites" : "");
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *c = &a->candidates[i];
        if (c->curve < 0) continue;
        bool known = c->learning.measured;
        bool first = !before || before->learning.measured != known;
        bool same = !first && as_fast(before, c);
        if (before) wefti_buffer_print(ctx, s, same ? "," : ";");
        if (!same) {
            if (first)
                wefti_buffer_print(ctx, s,
                                   known ? " the same loss comes"
                                         : " by the step alone, as it is not known how "
                                           "they learn,");
            wefti_buffer_print(ctx, s, " %s",
                               short_factor(c->speedup, factor, sizeof factor));
            if (first || before->nodes != c->nodes || before->shards != c->shards)
                wefti_put_mesh(adviser, s, c);
            wefti_buffer_print(ctx, s, " with");
        }
        put_method(ctx, s, c);
        before = c;
    }
    wefti_buffer_print(ctx, s, ".");
}

/* Writes what was measured about a method, and what is expected here. */
static void put_steps(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a,
                      const weft_candidate *c) {
    const weft_learning *l = &c->learning;
    char many[32];
    double steps = a->tokens / (double)a->tokens_per_step;
    double size = wefti_learning_weight(a->parameters),
           length = wefti_length_weight(wefti_advise_recipe(c), steps);
    double times = (double)a->parameters / WEFTI_LEARNING_PARAMETERS;
    wefti_buffer_print(ctx, s,
                       " To the same loss it took %.2f to %.2f times the steps of full "
                       "sync in 200 steps of a small model (%s); here, after %s steps, "
                       "%.2f times are expected, give or take %.0f %%",
                       l->low, l->high, l->source, tokens_text(steps, many, sizeof many),
                       c->steps, 100 * c->steps_error);
    if (size < 1 && size <= length)
        wefti_buffer_print(ctx, s, ", because this model has %s times as many parameters",
                           tokens_text(times, many, sizeof many));
    else if (length < 1)
        wefti_buffer_print(ctx, s, ", because leads and lags shrink%s in longer runs",
                           length < 0 ? ", and may change sides," : "");
    if (fmin(size, length) < 1)
        wefti_buffer_print(
            ctx, s, ": compare the losses of a short run of both before the long one");
    wefti_buffer_print(ctx, s, ".");
}

static void put_learning(const wefti_adviser *adviser, wefti_buffer *s) {
    weft_ctx *ctx = adviser->ctx;
    const weft_advice *a = adviser->advice;
    const weft_candidate *c = at(a, a->choice);
    if (!c || (c->nodes == 1 && !c->learning.changes[0])) return;
    if (!c->learning.changes[0]) {
        wefti_buffer_print(ctx, s, "\n\nIt learns as one machine does: %s.",
                           c->learning.source);
        return;
    }
    wefti_buffer_print(ctx, s, "\n\nSpeed is not quality: here %s.", c->learning.changes);
    if (c->learning.measured) put_steps(ctx, s, a, c);
    const weft_candidate *full = at(a, a->full);
    char factor[64];
    if (!full) return;
    wefti_buffer_print(ctx, s, " What learns as one machine does, full sync");
    wefti_put_mesh(adviser, s, full);
    wefti_buffer_print(ctx, s, ", is %s.",
                       wefti_factor_text(full->speedup, factor, sizeof factor));
}

static void put_range(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a,
                      const weft_range *r) {
    char from[32], to[32];
    wefti_rate_text(r->from_Bps, from, sizeof from);
    wefti_rate_text(r->to_Bps, to, sizeof to);
    if (r->from_Bps <= 0)
        wefti_buffer_print(ctx, s, " below %s", to);
    else if (isinf(r->to_Bps))
        wefti_buffer_print(ctx, s, ", from %s on", from);
    else
        wefti_buffer_print(ctx, s, ", from %s to %s", from, to);
    const weft_candidate *c = at(a, r->candidate);
    wefti_buffer_print(ctx, s, " %s", c ? c->name : "nothing");
    if (c && c->nodes > 1 && c->ranks_per_node > 1)
        wefti_buffer_print(ctx, s, c->shards == 1 ? " (whole copies)" : " (sharded)");
}

static void put_ranges(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
    if (a->n_ranges == 1 && a->ranges[0].candidate >= 0)
        wefti_buffer_print(ctx, s,
                           "\n\nThe answer is the same from 1 Mbit/s to 100 Gbit/s: %s.",
                           a->candidates[a->ranges[0].candidate].name);
    if (a->n_ranges < 2) return;
    wefti_buffer_print(ctx, s, "\n\nThe answer by the wire's rate:");
    for (int64_t i = 0; i < a->n_ranges; i++) put_range(ctx, s, a, &a->ranges[i]);
    wefti_buffer_print(ctx, s, ".");
}

static void put_batch(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
    char batch[32];
    if (a->n_curves == 0) return;
    wefti_buffer_print(ctx, s,
                       "\n\nAll nodes share the %s tokens of a step: more nodes do not "
                       "make the batch larger, and each has less to compute.",
                       tokens_text((double)a->tokens_per_step, batch, sizeof batch));
}

/* Moves the answer by a few per cent. */
static int list_small(const wefti_adviser *adviser, const char *words[10]) {
    const weft_cluster *c = &adviser->cluster;
    int n = 0;
    bool floor = c->nodes > 1 && wefti_advise_has_floor(adviser),
         calm = c->jitter.spread <= 0 && c->jitter.drift <= 0;
    if (c->memory_Bps <= 0 && c->n_codecs == 0)
        words[n++] = "no time for coding and optimizing";
    if (floor && c->launch_s <= 0)
        words[n++] = "3 % of one node's step that never divides";
    if (floor && calm && c->jitter.stall_share <= 0)
        words[n++] = "steps that vary by 2 % from node to node";
    if (adviser->options.failure_s <= 0) words[n++] = "no failures";
    return n;
}

static void put_assumed(weft_ctx *ctx, wefti_buffer *s, const wefti_adviser *a) {
    const char *words[10];
    wefti_put_list(ctx, s, "\n\nAssumed, too: ", words, list_small(a, words));
}

static void write_words(weft_ctx *ctx, wefti_buffer *s, const wefti_adviser *adviser) {
    const weft_advice *a = adviser->advice;
    put_baseline(ctx, s, a);
    put_methods(adviser, s);
    put_learning(adviser, s);
    put_ranges(ctx, s, a);
    if (!adviser->options.batch_per_rank) put_batch(ctx, s, a);
    put_assumed(ctx, s, adviser);
}

weft_status wefti_advise_words(wefti_adviser *a) {
    wefti_buffer words = {.n = 0};
    write_words(a->ctx, &words, a);
    if (words.status == WEFT_OK)
        a->advice->text = words.bytes; /* owned by the advice from here on */
    else
        wefti_buffer_fini(a->ctx, &words);
    return words.status;
}
