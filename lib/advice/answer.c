/* SPDX-License-Identifier: MIT */
/* The answer: whether a second machine is worth it and with which method, in a few lines.
 *
 *     Take / Stay / Measure first   the choice, its speed-up with both ends, the reason
 *     Assumed                       the facts that nobody gave, and what would turn the answer
 *     next                          what to type: the command that decides, or that does it
 *
 * The speed-up is relative to one node with the same optimizer, whose own gain stands beside. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/text.h"
#include "advice/words.h"

typedef struct answer {
    weft_ctx *ctx;
    wefti_buffer text;
    const wefti_adviser *adviser;
    const weft_advice *a;
} answer;

#define PUT(w, ...) wefti_buffer_print((w)->ctx, &(w)->text, __VA_ARGS__)

static const weft_candidate *at(const weft_advice *a, int64_t i) {
    return i < 0 ? NULL : &a->candidates[i];
}

static const weft_outlook *outlook(const weft_advice *a, const weft_candidate *c) {
    return &a->outlooks[c - a->candidates];
}

/* The most frequent reason for which candidates were left out. */
static const char *main_reason(const weft_advice *a) {
    int64_t most = 0;
    for (int64_t i = 1; i < a->n_left_out; i++)
        if (a->left_out[i].n > a->left_out[most].n) most = i;
    return a->left_out[most].why;
}

static const char *const bounds[] = {"computing", "the wire", "waiting for late ranks",
                                     "coding and optimizing"};

/* ---- the choice ---- */

/* What needs no second machine. */
static void put_optimizer(answer *w, const weft_candidate *c) {
    const weft_outlook *o = outlook(w->a, c);
    const weft_candidate *peer = at(w->a, o->peer);
    char span[40];
    if (!peer->learning.changes[0]) return;
    PUT(w, " By itself, one node where %s is %.3g times faster (%s).",
        peer->learning.changes, o->optimizer,
        wefti_span_text(o->optimizer_low, o->optimizer_high, span, sizeof span));
}

/* The fastest method that may not be chosen, because nobody has measured how it learns. */
static void put_faster_unknown(answer *w) {
    const weft_candidate *fastest = at(w->a, w->a->fastest),
                         *choice = at(w->a, w->a->choice);
    if (!fastest || !choice || fastest == choice) return;
    bool far = fastest->learning.measured && !wefti_advise_reaches(fastest);
    bool would_pay = w->a->worth != WEFT_WORTH_YES &&
                     outlook(w->a, fastest)->worth == WEFT_WORTH_YES;
    if (fastest->learning.measured && !far) return;
    if (fastest->speedup < 1.25 * choice->speedup && !would_pay)
        return; /* it may need more steps */
    PUT(w, " %s would be faster%s (%.3g times), but nobody has measured how it learns%s.",
        fastest->name, choice->nodes > 1 ? " still" : "", fastest->speedup,
        far ? " with a hundredth of these parameters" : "");
}

/* A method that would pay and has no room on an accelerator, where its states and the optimizer's
 * could lie on the host: then a rank needs no more than one node alone. */
static void put_host_states(answer *w) {
    const weft_advise_options *o = &w->adviser->options;
    const weft_candidate *best = NULL;
    if (w->a->worth == WEFT_WORTH_YES || o->peak_flops <= 0) return;
    if (!at(w->a, w->a->baseline)->usable) return;
    for (int64_t i = 0; i < w->a->n_candidates; i++) {
        const weft_candidate *c = &w->a->candidates[i];
        bool pays = !c->usable && !c->framework[0] && c->learning.measured &&
                    wefti_advise_reaches(c) && w->a->outlooks[i].worth == WEFT_WORTH_YES;
        if (pays && (!best || c->cost_s < best->cost_s)) best = c;
    }
    if (!best) return;
    PUT(w, " %s would be %.3g times faster than one node, but has no room", best->name,
        best->speedup);
    PUT(w, "; state_device=\"cpu\" in PyTorch keeps states on the host.");
}

/* A candidate that is expected to be faster, and may not pay. */
static void put_rival(answer *w) {
    const weft_candidate *choice = at(w->a, w->a->choice), *rival = at(w->a, w->a->rival);
    if (!choice || !rival || rival == choice) return;
    if (rival->nodes == 1 || rival->speedup < 1.05 * choice->speedup) return;
    if (strcmp(rival->name, choice->name) == 0) return; /* put_more tells */
    if (w->a->worth == WEFT_WORTH_MEASURE && w->a->headline == w->a->rival) return;
    char span[40];
    PUT(w, " %s", rival->name);
    if (rival->nodes != choice->nodes) wefti_put_mesh(w->adviser, &w->text, rival);
    PUT(w,
        " is expected to be %.3g times faster than %s; %s times as fast as one node is "
        "plausible.",
        rival->speedup / choice->speedup, choice->name,
        wefti_span_text(outlook(w->a, rival)->alone_low, outlook(w->a, rival)->alone_high,
                        span, sizeof span));
}

/* What the nodes would achieve that the choice does not use. */
static void put_more(answer *w, const weft_candidate *c) {
    const weft_candidate *more = NULL;
    char factor[64];
    for (int64_t i = 0; i < w->a->n_candidates; i++) {
        const weft_candidate *other = &w->a->candidates[i];
        bool alike = other->usable && other->nodes > c->nodes &&
                     other->sites == c->sites && strcmp(other->name, c->name) == 0;
        if (alike && (!more || other->nodes > more->nodes)) more = other;
    }
    if (!more || c->nodes < 2) return;
    PUT(w, " On %lld nodes it would be %s.", (long long)more->nodes,
        wefti_factor_text(outlook(w->a, more)->alone, factor, sizeof factor));
}

static void put_name(answer *w, const weft_candidate *c) {
    PUT(w, "%s", c->name);
    wefti_put_mesh(w->adviser, &w->text, c);
    if (wefti_advise_is_flat(w->adviser, c))
        PUT(w, " of all sites");
    else if (wefti_advice_has_sites(w->a) && c->sites <= 1)
        PUT(w, " of one site");
}

/* "1.93 times faster (1.5 to 1.9) than one node alone, 86 min instead of 2.5 h". */
static void put_gain(answer *w, const weft_candidate *c) {
    const weft_outlook *o = outlook(w->a, c);
    const weft_candidate *peer = at(w->a, o->peer);
    char span[40], times[32], mine[32], its[32];
    if (!peer->usable) {
        PUT(w, ", because one node alone %s: %s to the goal", peer->problem,
            wefti_seconds_text(3600 * c->hours, mine, sizeof mine));
        return;
    }
    PUT(w, ": %s times faster (%s) than one node %s, %s instead of %s",
        wefti_amount_text(o->alone, times, sizeof times),
        wefti_span_text(o->alone_low, o->alone_high, span, sizeof span),
        peer->learning.changes[0] ? "with the same optimizer" : "alone",
        wefti_seconds_text(3600 * c->hours, mine, sizeof mine),
        wefti_seconds_text(3600 * peer->hours, its, sizeof its));
}

/* "$34.2", "34.2 EUR". */
static const char *price_text(const weft_advice *a, double price, char *out,
                              size_t size) {
    char amount[32];
    bool code = a->money[0] >= 'A' && a->money[0] <= 'Z';
    wefti_amount_text(price, amount, sizeof amount);
    snprintf(out, size, "%s%s%s%s", code ? "" : a->money, amount, code ? " " : "",
             code ? a->money : "");
    return out;
}

/* "a price of $34.2 instead of $28.5": of all nodes, and of one alone if it could. A price has the
 * energy in it. */
static void put_bill(answer *w, const weft_candidate *c, const char *before,
                     bool energy) {
    const weft_candidate *peer = at(w->a, outlook(w->a, c)->peer);
    double mine_h = c->hours * (double)c->nodes, its_h = peer->usable ? peer->hours : 0;
    double price_h = w->a->price_h, kWh = wefti_advice_watt_hours(w->a, c) / 1e3;
    char mine[48], its[48];
    if (price_h > 0) {
        PUT(w, "%sa price of %s", before,
            price_text(w->a, price_h * mine_h, mine, sizeof mine));
        if (its_h > 0)
            PUT(w, " instead of %s", price_text(w->a, price_h * its_h, its, sizeof its));
        if (!w->a->money[0])
            PUT(w, " (at %s an hour for each node)",
                wefti_amount_text(price_h, its, sizeof its));
    } else if (energy && kWh > 0) {
        PUT(w, "%sat most %s kWh", before, wefti_amount_text(kWh, mine, sizeof mine));
        if (its_h > 0)
            PUT(w, " instead of %s",
                wefti_amount_text(wefti_advice_watt_hours(w->a, peer) / 1e3, its,
                                  sizeof its));
    }
}

static void put_failures(answer *w, const weft_candidate *c) {
    double times = wefti_advise_failures(w->adviser, c, c->prediction.mean_step_s);
    if (times > 1.005) PUT(w, " Failures take %.2g %% of that.", 100 * (1 - 1 / times));
}

/* The nearest batch that all nodes can share, if they cannot share this one. */
static void put_batch(answer *w) {
    const wefti_adviser *a = w->adviser;
    int64_t all = a->cluster.nodes, tokens = wefti_advise_tokens(a, all);
    int64_t unit = all * a->cluster.ranks_per_node * wefti_advise_length(a);
    if (all < 2 || tokens % unit == 0 || a->options.batch_per_rank) return;
    int64_t less = tokens / unit * unit, more = less + unit;
    PUT(w, " All %lld nodes can share batch.tokens_per_step=%lld", (long long)all,
        (long long)(less > 0 && tokens - less <= more - tokens ? less : more));
    PUT(w, ", not %lld.", (long long)tokens);
}

/* What weft does not do, where one node has no room, or none. */
static void put_divided(answer *w, const char *gain) {
    PUT(w,
        " Dividing layers or matrices (pipeline or tensor parallelism) %s: weft does not "
        "do it, Megatron-LM, DeepSpeed and torchtitan do.",
        gain);
}

static void put_take(answer *w, const weft_candidate *c) {
    PUT(w, "Take ");
    put_name(w, c);
    put_gain(w, c);
    put_bill(w, c, ", ", true);
    PUT(w, "; what bounds a step is %s.", bounds[c->prediction.bound]);
    if (!at(w->a, outlook(w->a, c)->peer)->usable) put_divided(w, "may be faster");
    put_failures(w, c);
    put_optimizer(w, c);
    put_more(w, c);
}

/* The reason of a range that has 1 in it. */
static const char *const doubts[] = {
    [WEFT_DOUBT_WIRE] = "by what the wire really carries",
    [WEFT_DOUBT_COMPUTING] = "by how fast a rank really computes",
    [WEFT_DOUBT_LEARNING] = "by how many steps it takes to the same loss",
    [WEFT_DOUBT_MODEL] = "which is as near as a prediction comes"};

static void put_measure(answer *w, const weft_candidate *c) {
    const weft_outlook *o = outlook(w->a, c);
    const weft_candidate *peer = at(w->a, o->peer);
    char span[40], rate[32];
    PUT(w, "Measure first: ");
    put_name(w, c);
    PUT(w,
        " is expected %.3g times as fast as one node %s, and %s times is plausible, %s",
        o->alone, peer->learning.changes[0] ? "with the same optimizer" : "alone",
        wefti_span_text(o->alone_low, o->alone_high, span, sizeof span),
        doubts[o->doubt]);
    put_bill(w, c, "; ", false);
    PUT(w, ".");
    if (o->doubt == WEFT_DOUBT_WIRE && isfinite(c->break_even_Bps) &&
        c->break_even_Bps > 0)
        PUT(w, " It is faster from %s on.",
            wefti_rate_text(c->break_even_Bps, rate, sizeof rate));
    put_failures(w, c);
    put_optimizer(w, c);
}

/* Explains why the choice is one node: the best of several nodes, and the rate of the wire
 * from which the answer changes. */
static void put_stay(answer *w, const weft_candidate *one) {
    const weft_advice *a = w->a;
    const weft_candidate *best = at(a, a->headline);
    char span[40], rate[32];
    PUT(w, "Stay on one node");
    if (one->learning.changes[0])
        PUT(w, ", where %s: %.3g times faster (%s) to the same loss",
            one->learning.changes, one->speedup,
            wefti_span_text(outlook(a, one)->low, outlook(a, one)->high, span,
                            sizeof span));
    if (best) {
        const weft_outlook *o = outlook(a, best);
        PUT(w, "%s the best on several, ", one->learning.changes[0] ? ";" : ":");
        put_name(w, best);
        PUT(w, ", is %s times as fast%s",
            wefti_span_text(o->alone_low, o->alone_high, span, sizeof span),
            one->learning.changes[0] && wefti_advise_has_muon(w->adviser, best)
                ? " as that"
                : "");
        put_bill(w, best, ", ", false);
    }
    PUT(w, ".");
    for (int64_t i = 1; i < a->n_ranges; i++)
        if (a->ranges[i - 1].candidate == a->choice && a->ranges[i].candidate >= 0 &&
            a->ranges[i].from_Bps > a->wire.bandwidth_Bps) {
            PUT(w, " It would be otherwise with a wire of %s.",
                wefti_rate_text(a->ranges[i].from_Bps, rate, sizeof rate));
            return;
        }
}

static void put_alone(answer *w, const weft_candidate *c) {
    char span[40];
    if (w->adviser->cluster.nodes == 1)
        PUT(w, "There is one node: say --nodes and --link to compare it with more.");
    else if (at(w->a, w->a->choice)->usable && w->a->n_candidates > 2 &&
             w->a->candidates[0].nodes > 1)
        PUT(w, "Stay on one node: no method on several has room and has been measured "
               "near this size.");
    else if (w->a->n_left_out > 0)
        PUT(w, "Nothing could be tried on several nodes: %s.", main_reason(w->a));
    if (c->learning.changes[0])
        PUT(w, " One node where %s is %.3g times faster (%s) to the same loss.",
            c->learning.changes, c->speedup,
            wefti_span_text(outlook(w->a, c)->low, outlook(w->a, c)->high, span,
                            sizeof span));
}

/* Nothing has room: how many ranks would have, or who divides layers. */
static void put_none(answer *w) {
    double ranks = w->a->ranks_needed;
    const weft_candidate *least = NULL;
    for (int64_t i = 0; i < w->a->n_candidates; i++)
        if (!least ||
            w->a->candidates[i].prediction.memory_bytes < least->prediction.memory_bytes)
            least = &w->a->candidates[i];
    PUT(w, "No rank has room for its part: the least, %s", least->name);
    wefti_put_mesh(w->adviser, &w->text, least);
    PUT(w, ", %s.", least->problem);
    if (isfinite(ranks) && ranks > 0)
        PUT(w, " Sharded over all of them (fsdp), about %.0f such ranks would have it.",
            ranks);
    put_divided(w, "takes fewer");
}

/* Where one socket was measured to carry less than half of the wire, and the run has one. */
static void put_sockets(answer *w) {
    const wefti_adviser *a = w->adviser;
    enum { MOST = 16 };
    double share = a->cluster.stream_Bps / w->a->wire.bandwidth_Bps;
    if (!(share > 0 && share < 0.5) || a->run->mesh.streams != 0) return;
    double all = 1 + ceil(1 / share - 1e-9); /* one for the heads */
    PUT(w, " One socket carries %.2g %% of the wire: mesh.streams=%.0f %s.", 100 * share,
        fmin(MOST, all), all <= MOST ? "fills it" : "carries most");
}

static void put_choice(answer *w) {
    const weft_advice *a = w->a;
    const weft_candidate *c = at(a, a->choice);
    if (!c)
        put_none(w);
    else if (a->headline < 0)
        put_alone(w, c);
    else if (a->worth == WEFT_WORTH_MEASURE)
        put_measure(w, at(a, a->headline));
    else if (c->nodes == 1)
        put_stay(w, c);
    else
        put_take(w, c);
    put_batch(w);
    if (!c) return;
    put_rival(w);
    put_faster_unknown(w);
    put_host_states(w);
    put_sockets(w);
}

/* ---- what was assumed ---- */

/* Facts of the wire, as one phrase; "" if it was measured. */
static const char *wire_assumed(const wefti_adviser *a) {
    if (a->options.wire != WEFT_KNOWN_TYPED || a->cluster.wire.residual > 0) return NULL;
    return wefti_advise_is_rdma(a) ? "two thirds of the wire's label or more (RDMA)"
                                   : "a fifth of the wire's label or more (TCP)";
}

/* How fast ranks compute, if that was not measured; NULL: it was. */
static const char *ranks_assumed(const wefti_adviser *a, char out[80]) {
    double peak = a->options.peak_flops, now = 100 * a->cluster.rank_flops;
    wefti_point ends[2];
    if (a->options.computing == WEFT_KNOWN_TYPED)
        return "ranks within 30 % of their rate";
    if (a->options.computing != WEFT_KNOWN_SHEET || peak <= 0) return NULL;
    wefti_advise_ends(a, ends);
    snprintf(out, 80, "ranks that reach %.0f to %.0f %% of their data sheet's rate",
             now * ends[1].computing / peak, now * ends[0].computing / peak);
    return out;
}

/* What nobody said of the run. */
static int list_defaults(const wefti_adviser *a, char out[2][48], const char **words) {
    const weft_config *run = a->run;
    int n = 0;
    if (!wefti_advise_given(a, "batch.tokens_per_step") &&
        !wefti_advise_given(a, "batch.rows_per_step")) {
        snprintf(out[0], sizeof out[0], "batch.tokens_per_step=%lld",
                 (long long)run->batch.tokens_per_step);
        words[n++] = out[0];
    }
    if (a->options.tokens <= 0 && !wefti_advise_given(a, "run.steps")) {
        snprintf(out[1], sizeof out[1], "run.steps=%lld", (long long)run->run.steps);
        words[n++] = out[1];
    }
    return n;
}

/* What could turn the answer; words.c has the rest. */
static int list_assumed(const wefti_adviser *adviser, char rate[80], char run[2][48],
                        const char *words[10]) {
    const weft_candidate *about = at(adviser->advice, adviser->advice->headline);
    const weft_cluster *c = &adviser->cluster;
    const weft_advise_options *o = &adviser->options;
    int n = 0;
    bool several = c->nodes > 1;
    if (several && wire_assumed(adviser)) words[n++] = wire_assumed(adviser);
    if (c->n_units == 0 && c->n_steps == 0) words[n] = ranks_assumed(adviser, rate);
    n += words[n] != NULL;
    if (several && adviser->advice->wire.latency_s <= 0) words[n++] = "a latency of 0";
    if (c->memory_bytes <= 0) words[n++] = "enough memory";
    n += list_defaults(adviser, run, words + n);
    if (o->trainable > 0 && o->trainable < 1 && about && about->learning.changes[0])
        words[n++] = "steps to a loss as where all weights learn";
    if (adviser->advice->found_fit && adviser->advice->choice >= 0) {
        static const char *const found[][2] = {
            {"f32", "f32 with recomputed activations"},
            {"f32 and bf16", "f32 and bf16 with recomputed activations"},
            {"bf16", "bf16 with recomputed activations"},
            {"bf16 with moments in 8 bits",
             "bf16 with moments in 8 bits and recomputed activations"}};
        words[n++] = found[adviser->advice->precision][adviser->advice->recompute];
    }
    return n;
}

/* The choice at the slow end of the wire, if it is another. */
static void put_turn(answer *w) {
    const weft_advice *a = w->a;
    wefti_point ends[2];
    char rate[32];
    if (a->choice < 0 || a->worth == WEFT_WORTH_MEASURE) return;
    wefti_advise_ends(w->adviser, ends);
    for (int64_t i = 0; i + 1 < a->n_ranges; i++) {
        const weft_range *r = &a->ranges[i];
        const weft_candidate *c = at(a, r->candidate);
        bool turns = r->candidate != a->choice && r->to_Bps < a->wire.bandwidth_Bps &&
                     r->to_Bps > ends[0].wire * a->wire.bandwidth_Bps && c &&
                     a->ranges[i + 1].candidate == a->choice;
        if (!turns) continue;
        PUT(w, " If the wire carries less than %s, take %s.",
            wefti_rate_text(r->to_Bps, rate, sizeof rate), c->name);
        return;
    }
}

static void put_assumed(answer *w) {
    const char *words[10] = {NULL};
    char rate[80], run[2][48];
    int n = list_assumed(w->adviser, rate, run, words);
    wefti_put_list(w->ctx, &w->text, "\n\nAssumed: ", words, n);
    if (n > 0) put_turn(w);
}

/* ---- what to type next ---- */

/* The call in PyTorch, for the rows of other frameworks. */
static const char *in_torch(const char *framework) {
    static const char *const calls[][2] = {
        {"ddp", "torch.nn.parallel.DistributedDataParallel(model)"},
        {"ddp-after",
         "torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=10**6)"},
        {"zero1", "torch.distributed.optim.ZeroRedundancyOptimizer(parameters, AdamW)"},
        {"zero2",
         "torch.distributed.fsdp.fully_shard(model, reshard_after_forward=False)"},
        {"fsdp", "torch.distributed.fsdp.fully_shard(model)"},
        {"hsdp", "torch.distributed.fsdp.fully_shard(model, mesh=of_nodes_and_ranks)"}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(framework, calls[i][0]) == 0) return calls[i][1];
    return framework;
}

/* `section.key=value` of a method as an argument of weft_sync's: section_key="value". */
static bool argument_text(const char *word, size_t n, char *out, size_t size) {
    size_t name = strcspn(word, "=");
    char key[64], value[64], *end;
    if (name >= n || name >= sizeof key || n - name - 1 >= sizeof value) return false;
    snprintf(key, sizeof key, "%.*s", (int)name, word);
    snprintf(value, sizeof value, "%.*s", (int)(n - name - 1), word + name + 1);
    for (char *dot = key; *dot; dot++)
        if (*dot == '.') *dot = '_';
    (void)wefti_strtod(value, &end);
    snprintf(out, size, *end == '\0' ? "%s=%s" : "%s=\"%s\"", key, value);
    return true;
}

/* Writes those settings that belong to a candidate's method, as many in a line of 80 as fit behind
 * `used` characters, and the run's steps, if the interval of outer steps follows from them. */
static void put_arguments(answer *w, const char *settings, size_t used, int64_t steps) {
    static const char *const of_run[] = {"mesh.", "batch.", "model."};
    enum { WIDTH = 80, INDENT = 8 };
    char text[140], all[360];
    snprintf(all, sizeof all, steps > 0 ? "%s run.steps=%lld" : "%s", settings,
             (long long)steps);
    for (const char *word = all; *word; word += strspn(word, " ")) {
        size_t n = strcspn(word, " ");
        bool mine = true;
        for (int i = 0; i < 3; i++)
            mine &= strncmp(word, of_run[i], strlen(of_run[i])) != 0;
        if (mine && argument_text(word, n, text, sizeof text)) {
            bool fits = used + strlen(text) + 4 <= WIDTH; /* ", " in front, ")" behind */
            PUT(w, fits ? ", %s" : ",\n        %s", text);
            used = (fits ? used + 2 : INDENT) + strlen(text);
        }
        word += n;
    }
}

/* Whether only steps on several nodes were measured, so that one on one node tells most. */
static bool lacks_one(const weft_advise_options *o) {
    for (int i = 0; i < o->n_measured; i++)
        if (o->measured[i].nodes == 1) return false;
    return o->n_measured > 0;
}

/* The one command that decides. */
static void put_decider(answer *w) {
    const weft_candidate *c = at(w->a, w->a->headline);
    long long nodes = (long long)c->nodes;
    weft_doubt doubt = outlook(w->a, c)->doubt;
    if (doubt == WEFT_DOUBT_WIRE && lacks_one(&w->adviser->options))
        doubt = WEFT_DOUBT_COMPUTING;
    switch (doubt) {
    case WEFT_DOUBT_COMPUTING:
        PUT(w, "A step on one node decides it:\n\n"
               "    weft plan ... --measured \"1 node: SECONDS s\"");
        return;
    case WEFT_DOUBT_LEARNING:
        PUT(w,
            "The losses of a short run decide it:\n\n"
            "    weft plan ... --write run.yaml --pick %lld\n"
            "    weft train run.yaml run.steps=1000   and with method=none mesh.nodes=1",
            (long long)w->a->headline + 1);
        return;
    case WEFT_DOUBT_WIRE:
        PUT(w,
            "An all-reduce decides it (nccl-tests, python -m weft_sync.probe, "
            "iperf3):\n\n"
            "    weft plan ... --allreduce \"%lld nodes: RATE GB/s\"",
            nodes);
        return;
    case WEFT_DOUBT_MODEL: break;
    }
    PUT(w,
        "A step on %lld nodes decides it:\n\n"
        "    weft plan ... --measured \"%lld nodes, %s: SECONDS s\"",
        nodes, nodes, c->framework[0] ? c->framework : "ddp");
}

static void put_run(answer *w, const weft_candidate *c) {
    static const char call[] = "    weft_sync.torch.Optimizer(model";
    if (c->sites > 1) {
        PUT(w, "To do it (docs/launching.md):\n\n    weft plan ... --write run.yaml");
        return;
    }
    PUT(w,
        "To do it, weft plan ... --write run.yaml (docs/launching.md), or in PyTorch:"
        "\n\n%s",
        call);
    const wefti_recipe *recipe = wefti_advise_recipe(c);
    int64_t steps = recipe && recipe->period > 0 ? w->adviser->run->run.steps : 0;
    put_arguments(w, c->settings, sizeof call - 1, steps);
    PUT(w, ")");
}

/* Paragraphs that begin with blanks are lines to type, and are not wrapped. */
static void put_next(answer *w) {
    const weft_candidate *c = at(w->a, w->a->choice);
    if (w->a->worth == WEFT_WORTH_MEASURE && w->a->headline >= 0) {
        put_decider(w);
    } else if (!c || (c->nodes == 1 && !c->learning.changes[0])) {
        return;
    } else if (c->nodes == 1) {
        PUT(w, "To do it:\n\n    weft plan ... --write run.yaml\n"
               "    weft train run.yaml");
    } else if (c->framework[0]) {
        PUT(w, "To do it, in a loop that torchrun starts on all machines:\n\n    %s",
            in_torch(c->framework));
    } else {
        put_run(w, c);
    }
}

/* ---- the whole ---- */

/* What `put` writes; [out] owned by the advice. */
static weft_status write(wefti_adviser *a, void (*put)(answer *w), char **out) {
    answer w = {.ctx = a->ctx, .adviser = a, .a = a->advice};
    wefti_buffer_text(w.ctx, &w.text, "");
    put(&w);
    if (w.text.status != WEFT_OK) {
        weft_status status = w.text.status;
        wefti_buffer_fini(w.ctx, &w.text);
        return status;
    }
    *out = w.text.bytes;
    return WEFT_OK;
}

static void put_answer(answer *w) {
    put_choice(w);
    wefti_put_machines(w->adviser, &w->text);
    put_assumed(w);
}

weft_status wefti_advise_answer(wefti_adviser *a) {
    WEFT_TRY(write(a, put_answer, &a->advice->answer));
    return write(a, put_next, &a->advice->next);
}
