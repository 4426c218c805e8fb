/* SPDX-License-Identifier: MIT */
/* Machines that differ, in the answer (answer.c):
 *
 *     node 3 has 4 GB per rank ...       the machine that makes room for itself
 *     node 3 makes it ... times as fast  whether the slowest is worth it
 *     sequences of a step by speed       what each does, and what that brings */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "advice/words.h"
#include "job/job.h"
#include "mix/mixer.h"
#include "replicate/replicator.h"

#define PUT(...) wefti_buffer_print(a->ctx, s, __VA_ARGS__)

static const double nothing = 1.02; /* a gain that no machine is worth */

/* "batch.shares=15,1", of the nodes with rows; or, with `every`, optimizer steps of `each` rows in
 * so many steps. */
static void put_each(const wefti_adviser *a, wefti_buffer *s, const int64_t *rows,
                     int64_t each, int64_t every) {
    const char *between =
        every ? "; with batch.shares=steps optimizer steps between two exchanges, "
              : "batch.shares=";
    for (int64_t i = 0; i < a->cluster.nodes; i++) {
        if (rows[i] == 0) continue;
        int64_t n = every ? wefti_shares_steps(rows[i], each, every) : rows[i];
        PUT("%s%lld", between, (long long)n);
        between = ",";
    }
}

/* What a machine without room for what the others take does; gain: of the run by it, NAN: not
 * known. */
static void put_room(const wefti_adviser *a, wefti_buffer *s, const wefti_tight *t,
                     double gain) {
    char needs[32], has[32];
    PUT("\n\nNode %lld has %s per rank, of %s that others take: weft train ",
        (long long)t->node, wefti_format_bytes(t->has, has, sizeof has),
        wefti_format_bytes(t->needs, needs, sizeof needs));
    if (t->twice)
        PUT("computes activations twice there, which takes %.3g times as "
            "long",
            t->slower);
    if (t->twice && t->less)
        PUT(" (a smaller batch.micro there costs less, and rounds "
            "differently)");
    if (t->smaller) PUT("%smakes smaller passes there", t->twice ? ", and " : "");
    if (t->smaller && !t->twice && t->slower > 1.005)
        PUT(", which takes %.3g times as long", t->slower);
    if (isfinite(gain))
        PUT(". It makes the run %.3g times as fast%s", gain,
            gain > nothing ? "" : ": leave it at home");
    PUT(".");
}

/* A candidate's cost on so many nodes, with equal sequences or shares by speed; NAN: not known. */
static double cost_on(const wefti_adviser *adviser, wefti_buffer *s,
                      const weft_candidate *c, int64_t nodes, bool shares) {
    wefti_adviser a = *adviser;
    weft_candidate other = *c;
    int64_t T = wefti_advise_length(&a), ranks = nodes * c->ranks_per_node;
    int64_t all = wefti_advise_tokens(&a, nodes) / T, rows = (all + ranks / 2) / ranks;
    const char *rest = strchr(c->settings, ' '); /* behind mesh.nodes */
    if (s->status != WEFT_OK || rows < 1 || c->framework[0] || !rest) return NAN;
    a.options.shares = shares;
    other.nodes = nodes;
    int n = snprintf(other.settings, sizeof other.settings,
                     "mesh.nodes=%lld%s batch.tokens_per_step=%lld batch.micro=%lld",
                     (long long)nodes, rest, (long long)(rows * ranks * T),
                     (long long)wefti_advise_micro(&a, rows));
    if ((size_t)n >= sizeof other.settings) return NAN;
    weft_prediction found = {.struct_size = sizeof found};
    weft_status status = wefti_advise_recode(a.ctx, &a, &other);
    if (status == WEFT_OK) status = wefti_advise_predict(a.ctx, &a, &other, 0, &found);
    if (status == WEFT_ERR_CONFIG)
        weft_ctx_clear(a.ctx);
    else
        s->status = status;
    if (status != WEFT_OK) return NAN;
    other.prediction = found;
    wefti_advise_steps(&a, &other);
    return wefti_advise_cost(&a, &other, other.prediction.mean_step_s) * (double)all /
           (double)(rows * ranks);
}

/* Whether the choice is better off without the fastest machine that it leaves out, or the
 * slowest that it has; and by how much. */
static bool put_slowest(const wefti_adviser *a, wefti_buffer *s,
                        const weft_candidate *c) {
    const weft_outlook *o = &a->advice->outlooks[c - a->advice->candidates];
    bool takes = a->advice->choice >= 0 && c == &a->advice->candidates[a->advice->choice];
    bool more = takes && c->nodes < a->cluster.nodes;
    int64_t last = c->nodes + more; /* machines with the one in question */
    double gain = o->alone, low = o->alone_low, high = o->alone_high;
    char span[40];
    if (last > 2) {
        double with_s = cost_on(a, s, c, last, a->options.shares),
               without_s = cost_on(a, s, c, last - 1, a->options.shares);
        double apart = exp(wefti_advise_apart(a, c, with_s, c, without_s));
        gain = without_s / with_s;
        low = gain / apart, high = gain * apart;
    }
    double room = wefti_machines_memory(a, c, 0); /* of the fastest */
    bool moved = room > 0 && (double)c->prediction.memory_bytes > room;
    if ((last > 2 && !takes) || !(low <= 1) || moved) return false;
    bool open = a->advice->worth == WEFT_WORTH_MEASURE && high > nothing;
    PUT("\n\nNode %lld%s makes it %.3g times as fast (%s)%s.",
        (long long)a->machines[last - 1].node, more ? "" : ", the slowest,", gain,
        wefti_span_text(low, high, span, sizeof span),
        gain > nothing      ? ", which is within the error of the facts"
        : open              ? ": leave it at home unless a measurement shows more"
        : a->options.shares ? ": leave it at home"
                            : " with as many sequences as the others: leave it at home");
    return !more && gain <= nothing && !open;
}

/* What each machine does in a step by its speed, and what that brings. */
static void put_parts(const wefti_adviser *a, wefti_buffer *s, const weft_candidate *c,
                      const int64_t *rows) {
    weft_config *config;
    double by_speed_s = cost_on(a, s, c, c->nodes, true),
           equal_s = cost_on(a, s, c, c->nodes, false);
    int64_t all = 0;
    bool differ = false;
    for (int64_t i = 0; i < a->cluster.nodes; i++) {
        differ = differ || (rows[i] > 0 && rows[i] != rows[a->machines[0].node]);
        all += rows[i];
    }
    if (s->status == WEFT_OK)
        s->status = wefti_advise_config(a->ctx, a->run, c->settings, false, &config);
    if (s->status != WEFT_OK) return;
    const wefti_mixer_ops *mixer = wefti_mixer_find(config->mixer.kind);
    bool can = !wefti_replicator_find(config->replicator.kind)->votes;
    bool outer = can && mixer->period && config->mesh.ranks_per_node == 1 &&
                 wefti_is(config->replicator.kind, "none");
    int64_t every = config->mixer.outer_every;
    weft_config_destroy(a->ctx, config);
    bool gains = equal_s > nothing * by_speed_s;
    if (!differ || (!a->options.shares && !(gains && can))) return;
    PUT("\n\nSequences of a step by speed, in the order of the nodes: ");
    put_each(a, s, rows, 1, 0);
    if (gains) PUT(", %.3g times as fast as equal ones", equal_s / by_speed_s);
    if (outer) put_each(a, s, rows, (all + c->nodes - 1) / c->nodes, every);
    PUT("%s.", can ? "" : ", but with this method weft train divides them equally");
}

/* The machine that makes room for itself, and what the run would be without it. */
static void put_tight(const wefti_adviser *a, wefti_buffer *s, const weft_candidate *c,
                      const wefti_tight *t) {
    weft_candidate others = *c;
    bool shares = a->options.shares;
    if (t->node < 0) return;
    others.prediction.memory_bytes = (int64_t)t->needs;
    double with_s = cost_on(a, s, c, c->nodes, shares),
           without_s = cost_on(a, s, &others, c->nodes - 1, shares);
    put_room(a, s, t, without_s / with_s);
}

void wefti_put_machines(const wefti_adviser *a, wefti_buffer *s) {
    const weft_advice *found = a->advice;
    int64_t named = found->headline >= 0 ? found->headline : found->choice;
    const weft_candidate *c = named < 0 ? NULL : &found->candidates[named];
    weft_predict_options options;
    weft_config *config;
    wefti_tight tight;
    int64_t *rows = NULL;
    if (!c || c->nodes < 2 || !a->machines || s->status != WEFT_OK) return;
    s->status = wefti_advise_configure(a->ctx, a, c, &options, &config);
    if (s->status != WEFT_OK) return;
    if (config->node_values[0])
        PUT("\n\nNarrow ways out: replicator.node_values=%s.", config->node_values);
    s->status = wefti_machines_tight(a->ctx, a, c, config, &tight);
    if (s->status == WEFT_OK) put_tight(a, s, c, &tight);
    bool stays = put_slowest(a, s, c);
    bool decided = stays || found->worth == WEFT_WORTH_NO; /* with shares by speed */
    if (!(decided && a->options.shares) && s->status == WEFT_OK)
        s->status = wefti_machines_shares(a->ctx, a, c, config, &rows);
    weft_config_destroy(a->ctx, config);
    if (rows) put_parts(a, s, c, rows);
    wefti_free(a->ctx, rows);
}
