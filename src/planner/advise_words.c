/* SPDX-License-Identifier: MIT */
/* The advice in words: the speed of one node, the speed-up of each method with more nodes, the
 * choice, its effect on learning, and the rates of the wire at which the answer would change.
 *
 *     One node alone takes 900 ms for a step of 65.5k tokens ...       put_baseline
 *     Against one node alone, with a wire of 1 Gbit/s ...              put_methods, to a loss
 *     Speed is not quality: ...                                        cost of the choice
 *     To do it in a PyTorch loop of your own ...                       commands
 *
 * Numbers have three digits, because a prediction has no more; times and rates take the
 * unit that gives them one to three digits before the point. A method that is as fast as
 * the one before it, within one per cent, is mentioned together with it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/text.h"
#include "planner/advise.h"

/* Formats a rate in bits per second, as usual for links. */
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

static void put_mesh(weft_ctx *ctx, wefti_buffer *s, const weft_candidate *c) {
    wefti_buffer_print(ctx, s, " on %lld nodes", (long long)c->nodes);
    if (c->ranks_per_node > 1)
        wefti_buffer_print(ctx, s,
                           c->shards == 1 ? " x %lld whole copies" : " x %lld ranks",
                           (long long)c->ranks_per_node);
}

/* "1.9 times faster", "6.1 times slower". */
static const char *factor_text(double speedup, char *out, size_t size) {
    if (speedup >= 0.995 && speedup < 1.005)
        snprintf(out, size, "as fast as one node alone");
    else if (speedup >= 1)
        snprintf(out, size,
                 speedup < 999.5 ? "%.3g times faster than one node alone"
                                 : "%.0f times faster than one node alone",
                 speedup);
    else
        snprintf(out, size, "%.3g times slower than one node alone", 1 / speedup);
    return out;
}

/* ---- paragraphs ---- */

static void put_baseline(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
    const weft_candidate *one = at(a, a->baseline);
    char step[32], rate[32], goal[32], time[32], batch[32];
    wefti_buffer_print(
        ctx, s,
        "One node alone takes %s for a step of %s tokens (%s tokens/s) and %s for %s "
        "tokens.",
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

static bool has_sites(const weft_advice *a) {
    for (int64_t i = 0; i < a->n_candidates; i++)
        if (a->candidates[i].sites > 1) return true;
    return false;
}

/* The most frequent reason for which candidates were left out. */
static const char *main_reason(const weft_advice *a) {
    int64_t most = 0;
    for (int64_t i = 1; i < a->n_left_out; i++)
        if (a->left_out[i].n > a->left_out[most].n) most = i;
    return a->left_out[most].why;
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
static void put_methods(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
    char rate[32], latency[32], factor[64];
    const weft_candidate *before = NULL;
    if (a->n_curves == 0) return;
    wefti_buffer_print(ctx, s,
                       "\n\nAgainst one node alone, with a wire of %s and %s latency%s,",
                       wefti_rate_text(a->wire.bandwidth_Bps, rate, sizeof rate),
                       wefti_seconds_text(a->wire.latency_s, latency, sizeof latency),
                       has_sites(a) ? " between sites" : "");
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
                put_mesh(ctx, s, c);
            wefti_buffer_print(ctx, s, " with");
        }
        put_method(ctx, s, c);
        before = c;
    }
    wefti_buffer_print(ctx, s, ".");
}

static const char *const bounds[] = {"computing", "the wire", "waiting for late ranks",
                                     "coding and optimizing"};

static void put_faster_unknown(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
    const weft_candidate *fastest = at(a, a->fastest), *choice = at(a, a->choice);
    if (!fastest || !choice || fastest == choice || fastest->learning.measured) return;
    if (fastest->speedup < 1.25 * choice->speedup) return; /* it may need more steps */
    wefti_buffer_print(ctx, s,
                       " %s would be faster%s (%.3g times), but how it learns has "
                       "not been measured.",
                       fastest->name, choice->nodes > 1 ? " still" : "",
                       fastest->speedup);
}

/* Writes about a candidate that is expected to be faster, but by less than the error of
 * the comparison. */
static void put_rival(weft_ctx *ctx, wefti_buffer *s, const wefti_adviser *adviser) {
    const weft_advice *a = adviser->advice;
    const weft_candidate *choice = at(a, a->choice), *rival = at(a, a->rival);
    if (!choice || !rival || rival == choice) return;
    if (rival->speedup < 1.05 * choice->speedup) return;
    double apart = wefti_advise_apart(adviser, choice, choice->cost_s, rival,
                                      rival->cost_s);
    const char *with = strchr(rival->name, ',');
    if (rival->nodes == 1)
        wefti_buffer_print(ctx, s, " One node with%s", with ? with + 1 : " AdamW");
    else
        wefti_buffer_print(ctx, s, " %s", rival->name);
    if (rival->nodes > 1 && rival->nodes != choice->nodes) put_mesh(ctx, s, rival);
    wefti_buffer_print(
        ctx, s,
        " is expected %.3g times faster than that, which is level: by what "
        "is known they may be %.3g times apart.",
        rival->speedup / choice->speedup, exp(apart));
}

/* Writes which part of the speed-up needs no second node. */
static void put_alone(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
    const weft_candidate *choice = at(a, a->choice);
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *c = &a->candidates[i];
        const char *with = strchr(c->name, ',');
        bool fits = c->nodes == 1 && c->usable && c->learning.changes[0] && with;
        if (!fits || c->speedup < 1.05) continue;
        if ((choice->nodes > 1 || a->n_curves == 0) && choice->learning.changes[0])
            wefti_buffer_print(ctx, s, " One node by itself is %.3g times faster with%s.",
                               c->speedup, with + 1);
        return;
    }
}

/* Explains why the choice is one node: the best of several nodes, if that is slower, and
 * the rate of the wire from which the answer changes. A faster candidate that learns
 * differently is described by put_rival. */
static void put_stay(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
    const weft_candidate *best = NULL;
    char factor[64], rate[32];
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *c = &a->candidates[i];
        bool known = c->usable && c->nodes > 1 && c->learning.measured && c->curve >= 0;
        if (known && (!best || c->speedup > best->speedup)) best = c;
    }
    const weft_candidate *one = at(a, a->choice);
    wefti_buffer_print(ctx, s, "Stay on one node");
    if (one->learning.changes[0])
        wefti_buffer_print(ctx, s, ", where %s: %.3g times faster to the same loss",
                           one->learning.changes, one->speedup);
    if (best && best->speedup < 1) {
        wefti_buffer_print(ctx, s,
                           "%s of what is known to learn, the fastest with more, %s",
                           one->learning.changes[0] ? ";" : ":", best->name);
        put_mesh(ctx, s, best);
        wefti_buffer_print(ctx, s, ", is %s",
                           factor_text(best->speedup, factor, sizeof factor));
    }
    wefti_buffer_print(ctx, s, ".");
    for (int64_t i = 1; i < a->n_ranges; i++)
        if (a->ranges[i - 1].candidate == a->choice && a->ranges[i].candidate >= 0 &&
            a->ranges[i].from_Bps > a->wire.bandwidth_Bps) {
            wefti_buffer_print(ctx, s, " It would be otherwise with a wire of %s.",
                               wefti_rate_text(a->ranges[i].from_Bps, rate, sizeof rate));
            return;
        }
}

/* Writes what the nodes would achieve that the choice does not use. */
static void put_more(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a,
                     const weft_candidate *c) {
    const weft_candidate *more = NULL;
    char factor[64];
    for (int64_t i = 0; i < a->n_candidates; i++) {
        const weft_candidate *other = &a->candidates[i];
        bool alike = other->usable && other->nodes > c->nodes &&
                     other->sites == c->sites && strcmp(other->name, c->name) == 0;
        if (alike && (!more || other->nodes > more->nodes)) more = other;
    }
    if (!more || c->nodes < 2) return;
    wefti_buffer_print(ctx, s, " On %lld nodes it would be %s.", (long long)more->nodes,
                       factor_text(more->speedup, factor, sizeof factor));
}

static void put_choice(weft_ctx *ctx, wefti_buffer *s, const wefti_adviser *adviser) {
    const weft_advice *a = adviser->advice;
    const weft_candidate *c = at(a, a->choice), *one = at(a, a->baseline);
    char factor[64], time[32], one_time[32], bytes[32];
    if (!c) {
        wefti_buffer_print(ctx, s, "Nothing that was tried fits into the memory.\n\n");
        return;
    }
    if (c->nodes == 1 && a->n_curves > 0) {
        put_stay(ctx, s, a);
    } else if (adviser->cluster.nodes == 1) {
        wefti_buffer_print(ctx, s,
                           "There is one node: say --nodes and --link to compare it with "
                           "more.");
    } else if (c->nodes == 1 && a->n_left_out > 0) {
        wefti_buffer_print(ctx, s, "Nothing could be tried on several nodes: %s.",
                           main_reason(a));
    } else if (c->nodes > 1) {
        wefti_buffer_print(ctx, s, "Take %s", c->name);
        put_mesh(ctx, s, c);
        if (has_sites(a) && c->sites <= 1) wefti_buffer_print(ctx, s, " of one site");
        if (one->usable)
            wefti_buffer_print(
                ctx, s, ": %s, %s instead of %s",
                factor_text(c->speedup, factor, sizeof factor),
                wefti_seconds_text(3600 * c->hours, time, sizeof time),
                wefti_seconds_text(3600 * one->hours, one_time, sizeof one_time));
        else
            wefti_buffer_print(ctx, s, ", because one node alone %s: %s to the goal",
                               one->problem,
                               wefti_seconds_text(3600 * c->hours, time, sizeof time));
        wefti_buffer_print(ctx, s, ", %s out of each node; what bounds a step is %s.",
                           wefti_format_bytes(1e9 * c->gigabytes, bytes, sizeof bytes),
                           bounds[c->prediction.bound]);
    }
    put_more(ctx, s, a, c);
    put_alone(ctx, s, a);
    put_rival(ctx, s, adviser);
    put_faster_unknown(ctx, s, a);
    bool silent = c->nodes == 1 && adviser->cluster.nodes > 1 && a->n_curves == 0 &&
                  a->n_left_out == 0 && !c->learning.changes[0];
    if (!silent) wefti_buffer_print(ctx, s, "\n\n");
}

/* Writes what was measured about a method, and what is expected here. */
static void put_steps(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a,
                      const weft_candidate *c) {
    const weft_learning *l = &c->learning;
    char many[32];
    double times = (double)a->parameters / WEFTI_LEARNING_PARAMETERS;
    wefti_buffer_print(
        ctx, s,
        " To the same loss it took %.2f to %.2f times the steps of full sync "
        "on a small model (%s); here %.2f times are expected, give or take "
        "%.0f %%",
        l->low, l->high, l->source, c->steps, 100 * c->steps_error);
    if (wefti_learning_weight(a->parameters) < 1)
        wefti_buffer_print(
            ctx, s,
            ", because this model has %s times as many parameters: compare "
            "the losses of a short run of both before the long one",
            tokens_text(times, many, sizeof many));
    wefti_buffer_print(ctx, s, ".");
}

static void put_learning(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
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
    put_mesh(ctx, s, full);
    wefti_buffer_print(ctx, s, ", is %s.",
                       factor_text(full->speedup, factor, sizeof factor));
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

/* ---- commands ---- */

/* The call in PyTorch, for the rows of other frameworks. */
static const char *in_torch(const char *framework) {
    static const char *const calls[][2] = {
        {"ddp", "torch.nn.parallel.DistributedDataParallel(model)"},
        {"ddp-after",
         "torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=10**6)"},
        {"zero1", "torch.distributed.optim.ZeroRedundancyOptimizer(parameters, "
                  "AdamW)"},
        {"zero2",
         "torch.distributed.fsdp.fully_shard(model, reshard_after_forward=False)"},
        {"fsdp", "torch.distributed.fsdp.fully_shard(model)"},
        {"hsdp", "torch.distributed.fsdp.fully_shard(model, mesh=of_nodes_and_ranks)"}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(framework, calls[i][0]) == 0) return calls[i][1];
    return framework;
}

/* `section.key=value` of a method as an argument of weft_sync's: section_key="value". */
static void put_argument(weft_ctx *ctx, wefti_buffer *s, const char *before,
                         const char *word, size_t n) {
    size_t name = strcspn(word, "=");
    char key[64], value[64], *end;
    if (name >= n || name >= sizeof key || n - name - 1 >= sizeof value) return;
    snprintf(key, sizeof key, "%.*s", (int)name, word);
    snprintf(value, sizeof value, "%.*s", (int)(n - name - 1), word + name + 1);
    for (char *at = key; *at; at++)
        if (*at == '.') *at = '_';
    (void)wefti_strtod(value, &end);
    bool is_number = *end == '\0';
    wefti_buffer_print(ctx, s, is_number ? "%s%s=%s" : "%s%s=\"%s\"", before, key, value);
}

/* Writes those settings of a candidate that belong to its method, two keys per line; the
 * mesh and the batch are set by whoever starts the run. */
static void put_arguments(weft_ctx *ctx, wefti_buffer *s, const char *settings) {
    int n_put = 0;
    for (const char *at = settings; *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        bool of_run = strncmp(at, "mesh.", 5) == 0 || strncmp(at, "batch.", 6) == 0;
        if (!of_run) put_argument(ctx, s, n_put++ % 2 ? ",\n        " : ", ", at, n);
        at += n;
    }
}

/* Paragraphs that begin with blanks are lines to type, and are not wrapped. */
static void put_commands(weft_ctx *ctx, wefti_buffer *s, const weft_advice *a) {
    const weft_candidate *c = at(a, a->choice);
    if (!c || (c->nodes == 1 && !c->learning.changes[0])) return;
    if (c->nodes == 1) {
        wefti_buffer_print(ctx, s,
                           "\n\nTo do it:\n\n    weft plan ... --write run.yaml\n"
                           "    weft train run.yaml");
        return;
    }
    if (c->framework[0]) {
        wefti_buffer_print(ctx, s,
                           "\n\nTo do it, in a loop that torchrun starts on all machines:"
                           "\n\n    %s",
                           in_torch(c->framework));
        return;
    }
    if (c->sites <= 1) {
        wefti_buffer_print(
            ctx, s,
            "\n\nTo do it in a PyTorch loop of your own, which torchrun starts "
            "on all machines (docs/pytorch.md):\n\n"
            "    optimizer = weft_sync.torch.Optimizer(model");
        put_arguments(ctx, s, c->settings);
        wefti_buffer_print(ctx, s, ")");
    }
    long long ranks = (long long)c->nodes * c->ranks_per_node;
    wefti_buffer_print(
        ctx, s,
        "\n\nWith weft alone, which computes on processors "
        "(docs/launching.md; HOST is the first machine, RANK up to %lld):\n\n"
        "    weft plan ... --write run.yaml\n"
        "    RANK=0 WORLD_SIZE=%lld MASTER_ADDR=HOST weft train run.yaml",
        ranks - 1, ranks);
}

/* Writes the assumptions: facts that were not given. */
static void put_assumed(weft_ctx *ctx, wefti_buffer *s, const wefti_adviser *adviser) {
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
    wefti_buffer_print(ctx, s, "\n\nAssumed, because nothing says otherwise: ");
    for (int i = 0; i < n; i++)
        wefti_buffer_print(ctx, s, "%s%s",
                           i == 0      ? ""
                           : i + 1 < n ? ", "
                                       : " and ",
                           words[i]);
    wefti_buffer_print(ctx, s, ".");
}

static void write_words(weft_ctx *ctx, wefti_buffer *s, const wefti_adviser *adviser) {
    const weft_advice *a = adviser->advice;
    put_choice(ctx, s, adviser);
    put_baseline(ctx, s, a);
    put_methods(ctx, s, a);
    put_learning(ctx, s, a);
    put_ranges(ctx, s, a);
    if (!adviser->options.batch_per_rank) put_batch(ctx, s, a);
    put_assumed(ctx, s, adviser);
    put_commands(ctx, s, a);
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
