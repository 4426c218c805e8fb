/* SPDX-License-Identifier: MIT */
/* The advice in plain words: what one node does, what each method makes of more, which to
 * take, what it does to the learning, and at which wire the answer would be another.
 *
 *     One node alone takes 900 ms for a step of 65.5k tokens ...       put_baseline
 *     Against one node alone, with a wire of 1 Gbit/s ...              put_methods
 *     Speed is not quality: ...                                        what the choice costs
 *
 * Numbers have three digits, because a prediction has no more; times and rates take the unit
 * that gives them one to three digits before the point. A method that is as fast as the one
 * before it, to one per cent, is said together with it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "planner/advise.h"
#include "topology/sheet.h"

/* Bits per second, as links are sold. */
const char *wefti_rate_text(double bandwidth_Bps, char *out, size_t out_size) {
    static const char *const units[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
    double bits = 8 * bandwidth_Bps;
    int k = 0;
    while (k < 4 && bits >= 999.5) bits /= 1000, k++;
    snprintf(out, out_size, "%.3g %s", bits, units[k]);
    return out;
}

const char *wefti_seconds_text(double seconds, char *out, size_t out_size) {
    if (seconds >= 172800)
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

static void put_mesh(wefti_sheet *s, const weft_candidate *c) {
    wefti_sheet_print(s, " on %lld nodes", (long long)c->nodes);
    if (c->ranks_per_node > 1)
        wefti_sheet_print(s, c->shards == 1 ? " x %lld whole copies" : " x %lld ranks",
                          (long long)c->ranks_per_node);
}

/* "1.9 times faster", "6.1 times slower". */
static const char *factor_text(double speedup, char *out, size_t size) {
    if (speedup >= 0.995 && speedup < 1.005)
        snprintf(out, size, "as fast as one node alone");
    else if (speedup >= 1)
        snprintf(out, size, "%.3g times faster than one node alone", speedup);
    else
        snprintf(out, size, "%.3g times slower than one node alone", 1 / speedup);
    return out;
}

/* ---- paragraphs ---- */

static void put_baseline(wefti_sheet *s, const weft_advice *a) {
    const weft_candidate *one = at(a, a->baseline);
    char step[32], rate[32], goal[32], time[32], batch[32];
    wefti_sheet_print(
        s,
        "One node alone takes %s for a step of %s tokens (%s tokens/s) and %s for %s "
        "tokens.",
        wefti_seconds_text(one->prediction.mean_step_s, step, sizeof step),
        tokens_text((double)a->tokens_per_step, batch, sizeof batch),
        tokens_text(one->prediction.tokens_per_s, rate, sizeof rate),
        wefti_seconds_text(3600 * one->hours, time, sizeof time),
        tokens_text(a->tokens, goal, sizeof goal));
    if (!one->usable) wefti_sheet_print(s, " It could not be done: it %s.", one->problem);
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

static bool has_sites(const weft_advice *a) {
    for (int64_t i = 0; i < a->n_candidates; i++)
        if (a->candidates[i].sites > 1) return true;
    return false;
}

/* Why most candidates were left out. */
static const char *main_reason(const weft_advice *a) {
    int64_t most = 0;
    for (int64_t i = 1; i < a->n_left_out; i++)
        if (a->left_out[i].n > a->left_out[most].n) most = i;
    return a->left_out[most].why;
}

/* One method, with the rate of the wire from which on it is worth it. */
static void put_method(wefti_sheet *s, const weft_candidate *c) {
    char rate[32];
    wefti_sheet_print(s, " %s", c->name);
    if (isfinite(c->break_even_Bps) && c->break_even_Bps > 0)
        wefti_sheet_print(s, " (break-even at %s)",
                          wefti_rate_text(c->break_even_Bps, rate, sizeof rate));
    else if (c->speedup < 1)
        wefti_sheet_print(s, " (on any wire)");
}

/* Within one per cent, on the same machines. */
static bool as_fast(const weft_candidate *a, const weft_candidate *b) {
    return a->nodes == b->nodes && a->shards == b->shards &&
           fabs(log(a->speedup / b->speedup)) < 0.01;
}

/* The best of each method, the fastest first; those that are as fast together. */
static void put_methods(wefti_sheet *s, const weft_advice *a) {
    char rate[32], latency[32], factor[64];
    const weft_candidate *before = NULL;
    if (a->n_curves == 0) return;
    wefti_sheet_print(s,
                      "\n\nAgainst one node alone, with a wire of %s and %s latency%s,",
                      wefti_rate_text(a->wire.bandwidth_Bps, rate, sizeof rate),
                      wefti_seconds_text(a->wire.latency_s, latency, sizeof latency),
                      has_sites(a) ? " between sites" : "");
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *c = &a->candidates[i];
        if (c->curve < 0) continue;
        bool same = before && as_fast(before, c);
        if (before) wefti_sheet_print(s, same ? "," : ";");
        if (!same) {
            wefti_sheet_print(s, "%s", before ? "" : " a step is");
            wefti_sheet_print(s, " %s", short_factor(c->speedup, factor, sizeof factor));
            if (!before || before->nodes != c->nodes || before->shards != c->shards)
                put_mesh(s, c);
            wefti_sheet_print(s, " with");
        }
        put_method(s, c);
        before = c;
    }
    wefti_sheet_print(s, ".");
}

static const char *const bounds[] = {"computing", "the wire", "waiting for late ranks",
                                     "coding and optimizing"};

static void put_faster_unknown(wefti_sheet *s, const weft_advice *a) {
    const weft_candidate *fastest = at(a, a->fastest), *choice = at(a, a->choice);
    if (!fastest || !choice || fastest == choice || fastest->learning.measured) return;
    if (fastest->speedup < 1.05 * choice->speedup) return;
    wefti_sheet_print(s,
                      " %s would be faster still (%.3g times), but how it learns has "
                      "not been measured.",
                      fastest->name, fastest->speedup);
}

/* What is faster, but by too little for learning otherwise. */
static void put_rival(wefti_sheet *s, const weft_advice *a) {
    const weft_candidate *choice = at(a, a->choice), *rival = at(a, a->rival);
    if (!choice || !rival || rival == choice) return;
    if (rival->speedup < 1.01 * choice->speedup) return;
    wefti_sheet_print(
        s,
        " %s is %.3f times faster than that by the step, but what learns otherwise is "
        "taken only from %.3g times on: about a quarter more steps went to the same "
        "loss (docs/results.md, Time on a slow wire)",
        rival->name, rival->speedup / choice->speedup,
        wefti_learning_worth(a->parameters));
    if (wefti_learning_decades(a->parameters) > 0)
        wefti_sheet_print(s, ", on a model of 0.26 M parameters");
    wefti_sheet_print(s, ".");
}

static void put_choice(wefti_sheet *s, const weft_advice *a) {
    const weft_candidate *c = at(a, a->choice), *one = at(a, a->baseline);
    char factor[64], time[32], one_time[32], bytes[32];
    if (!c) {
        wefti_sheet_print(s, "Nothing that was tried fits into the memory.\n\n");
        return;
    }
    if (c->nodes == 1 && a->n_curves > 0) {
        wefti_sheet_print(s, "Stay on one node.");
    } else if (c->nodes == 1 && a->n_left_out > 0) {
        wefti_sheet_print(s, "Nothing could be tried on several nodes: %s.",
                          main_reason(a));
    } else if (c->nodes > 1) {
        wefti_sheet_print(s, "Take %s", c->name);
        put_mesh(s, c);
        wefti_sheet_print(
            s, ": %s, %s instead of %s, %s out of each node; what bounds a step is %s.",
            factor_text(c->speedup, factor, sizeof factor),
            wefti_seconds_text(3600 * c->hours, time, sizeof time),
            wefti_seconds_text(3600 * one->hours, one_time, sizeof one_time),
            wefti_format_bytes(1e9 * c->gigabytes, bytes, sizeof bytes),
            bounds[c->prediction.bound]);
    }
    put_rival(s, a);
    put_faster_unknown(s, a);
    bool silent = c->nodes == 1 && a->n_curves == 0 && a->n_left_out == 0;
    if (!silent) wefti_sheet_print(s, "\n\n");
}

/* "0.07 to 0.20 nats per token behind full sync", or ahead of it. */
static void put_distance(wefti_sheet *s, const weft_learning *l) {
    bool ahead = l->high < 0, both = !ahead && l->low < 0;
    double first = ahead ? -l->high : both ? -l->low : l->low;
    double second = ahead ? -l->low : l->high;
    wefti_sheet_print(s, " At equal steps it was %.2f", first);
    if (second > first || both) wefti_sheet_print(s, both ? " ahead of to %.2f" : " to %.2f", second);
    wefti_sheet_print(s, " nats per token %s full sync on a small model (%s).",
                      ahead ? "ahead of" : "behind", l->source);
}

static void put_learning(wefti_sheet *s, const weft_advice *a) {
    const weft_candidate *c = at(a, a->choice);
    if (!c || c->nodes == 1) return;
    if (!c->learning.changes[0]) {
        wefti_sheet_print(s, "\n\nIt learns as one machine does: %s.",
                          c->learning.source);
        return;
    }
    wefti_sheet_print(s, "\n\nSpeed is not quality: here %s.", c->learning.changes);
    if (c->learning.measured) put_distance(s, &c->learning);
    if (c->learning.measured && wefti_learning_decades(a->parameters) > 0)
        wefti_sheet_print(s,
                          " That model has 0.26 M parameters, this one %.3g times as "
                          "many: compare the losses of a short run of both before the "
                          "long one. More speed was asked for (%.3g times).",
                          (double)a->parameters / WEFTI_LEARNING_PARAMETERS,
                          wefti_learning_worth(a->parameters));
    const weft_candidate *full = at(a, a->full);
    char factor[64];
    if (!full) return;
    wefti_sheet_print(s, " What learns as one machine does, full sync");
    put_mesh(s, full);
    wefti_sheet_print(s, ", is %s.", factor_text(full->speedup, factor, sizeof factor));
}

static void put_range(wefti_sheet *s, const weft_advice *a, const weft_range *r) {
    char from[32], to[32];
    wefti_rate_text(r->from_Bps, from, sizeof from);
    wefti_rate_text(r->to_Bps, to, sizeof to);
    if (r->from_Bps <= 0)
        wefti_sheet_print(s, " below %s", to);
    else if (isinf(r->to_Bps))
        wefti_sheet_print(s, ", from %s on", from);
    else
        wefti_sheet_print(s, ", from %s to %s", from, to);
    const weft_candidate *c = at(a, r->candidate);
    wefti_sheet_print(s, " %s", c ? c->name : "nothing");
    if (c && c->nodes > 1 && c->ranks_per_node > 1)
        wefti_sheet_print(s, c->shards == 1 ? " (whole copies)" : " (sharded)");
}

static void put_ranges(wefti_sheet *s, const weft_advice *a) {
    if (a->n_ranges == 1 && a->ranges[0].candidate >= 0)
        wefti_sheet_print(s,
                          "\n\nThe answer is the same from 1 Mbit/s to 100 Gbit/s: %s.",
                          a->candidates[a->ranges[0].candidate].name);
    if (a->n_ranges < 2) return;
    wefti_sheet_print(s, "\n\nThe answer by the wire's rate:");
    for (int64_t i = 0; i < a->n_ranges; i++) put_range(s, a, &a->ranges[i]);
    wefti_sheet_print(s, ".");
}

static void put_batch(wefti_sheet *s, const weft_advice *a) {
    char batch[32];
    if (a->n_curves == 0) return;
    wefti_sheet_print(s,
                      "\n\nAll nodes share the %s tokens of a step: more nodes do not "
                      "make the batch larger, and each has less to compute.",
                      tokens_text((double)a->tokens_per_step, batch, sizeof batch));
}

/* What nobody said. */
static void put_assumed(wefti_sheet *s, const wefti_adviser *adviser) {
    const weft_cluster *c = &adviser->cluster;
    const char *words[8];
    int n = 0;
    bool several = c->nodes > 1;
    if (several && adviser->advice->wire.latency_s <= 0) words[n++] = "a latency of 0";
    if (c->memory_bytes <= 0) words[n++] = "enough memory";
    if (c->memory_Bps <= 0 && c->n_codecs == 0)
        words[n++] = "no time for coding and optimizing";
    if (c->jitter.spread <= 0 && c->jitter.drift <= 0 && c->jitter.stall_share <= 0 &&
        c->n_steps == 0)
        words[n++] = "machines that are always equally fast";
    if (several && adviser->options.wire == WEFT_KNOWN_TYPED && c->wire.residual == 0)
        words[n++] = "a wire that carries its whole rate";
    if (adviser->options.failure_s <= 0) words[n++] = "no failures";
    if (n == 0) return;
    wefti_sheet_print(s, "\n\nAssumed, because nothing says otherwise: ");
    for (int i = 0; i < n; i++)
        wefti_sheet_print(s, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", words[i]);
    wefti_sheet_print(s, ".");
}

static void write_words(wefti_sheet *s, void *user) {
    const wefti_adviser *adviser = user;
    const weft_advice *a = adviser->advice;
    put_choice(s, a);
    put_baseline(s, a);
    put_methods(s, a);
    put_learning(s, a);
    put_ranges(s, a);
    if (!adviser->options.batch_per_rank) put_batch(s, a);
    put_assumed(s, adviser);
}

weft_status wefti_advise_words(wefti_adviser *a) {
    return wefti_sheet_write(a->ctx, write_words, a, &a->advice->text, NULL);
}
