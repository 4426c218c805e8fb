/* SPDX-License-Identifier: MIT */
/* The table of cluster.yaml: each fact with its name, place in weft_cluster, unit and
 * bounds. Reading, writing, setting and the error messages use the same row.
 *
 *     section   one value        rank_flops: 20GFLOP/s
 *               a mapping        wire: {bandwidth: 100Mbit, latency: 1ms}
 *               a list           pairs: [{from: 0, to: 1, bandwidth: 10Mbit}, ...]
 *
 * Quantities are written with their unit and read with any suitable unit. The bounds are
 * values that no real machine exceeds: a fact beyond them has a wrong unit, and would
 * silently make every prediction wrong. A fact that is 0 or missing is unknown, unless it
 * is NEEDED: without such a fact an entry of a list has no meaning. A fact that is SAID is
 * left out where it is 0, and a 0 in its place is refused: a machine that computes nothing
 * does not equal the others. */
#include "cluster/facts.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "text/utf8.h"
#include "config/value.h"

#define LONG 3.2e7 /* seconds: a year */
enum { MOST_MACHINES = 4096 };
#define FACT(type, name, member, kind, unit, room, low, high, needed)                    \
    {                                                                                    \
        name, WEFTI_FACT_##kind, WEFT_UNIT_##unit, offsetof(type, member), room, low,    \
            high, needed                                                                 \
    }
#define ROOM(type, member) sizeof(((type *)0)->member)
#define TEXT(type, name, member)                                                         \
    FACT(type, name, member, TEXT, COUNT, ROOM(type, member), 0, 0, false)
#define INT(type, name, member, low, high)                                               \
    FACT(type, name, member, INT, COUNT, 0, low, high, false)
#define SAID(type, name, member, unit, low, high)                                        \
    FACT(type, name, member, QUANTITY, unit, 0, low, high, false)
#define QUANTITY(type, name, member, unit, high) SAID(type, name, member, unit, 0, high)
#define NEEDED(type, name, member, unit, low, high)                                      \
    FACT(type, name, member, QUANTITY, unit, 0, low, high, true)
#define NEEDED_INT(type, name, member, low, high)                                        \
    FACT(type, name, member, INT, COUNT, 0, low, high, true)
#define NEEDED_TEXT(type, name, member)                                                  \
    FACT(type, name, member, TEXT, COUNT, ROOM(type, member), 0, 0, true)

static const wefti_fact link_facts[] = {
    QUANTITY(weft_link_facts, "bandwidth", bandwidth_Bps, LINK, 1e18),
    QUANTITY(weft_link_facts, "latency", latency_s, TIME, 3600),
    QUANTITY(weft_link_facts, "message", message_s, TIME, 3600),
    QUANTITY(weft_link_facts, "bytes_per_message", bytes_per_message, BYTES, 1e9),
    QUANTITY(weft_link_facts, "overhead", overhead, SHARE, 100),
    QUANTITY(weft_link_facts, "up", up_Bps, LINK, 1e18),
    QUANTITY(weft_link_facts, "loss", loss, SHARE, 0.9),
    QUANTITY(weft_link_facts, "jitter", jitter_s, TIME, 3600),
    QUANTITY(weft_link_facts, "residual", residual, SHARE, 1e6),
    QUANTITY(weft_link_facts, "incast", incast, NUMBER, 1000)};
static const wefti_fact pairs[] = {
    NEEDED_INT(weft_link_pair, "from", from, 0, 1e6),
    NEEDED_INT(weft_link_pair, "to", to, 0, 1e6),
    NEEDED(weft_link_pair, "latency", latency_s, TIME, 0, 3600),
    NEEDED(weft_link_pair, "bandwidth", bandwidth_Bps, LINK, 1e-3, 1e18)};
static const wefti_fact machines[] = {
    NEEDED_INT(weft_machine, "node", node, 0, 1e6),
    SAID(weft_machine, "rank_flops", rank_flops, WORK, 1e-3, 1e21),
    SAID(weft_machine, "memory", memory_bytes, BYTES, 1, 1e18),
    SAID(weft_machine, "bandwidth", bandwidth_Bps, LINK, 1e-3, 1e18),
    SAID(weft_machine, "up", up_Bps, LINK, 1e-3, 1e18)};
static const wefti_fact jitter[] = {
    QUANTITY(weft_jitter, "spread", spread, SHARE, 10),
    QUANTITY(weft_jitter, "drift", drift, SHARE, 10),
    QUANTITY(weft_jitter, "stall_share", stall_share, SHARE, 1),
    QUANTITY(weft_jitter, "stall", stall_s, TIME, LONG)};
static const wefti_fact units[] = {
    NEEDED_TEXT(weft_unit_seconds, "name", name),
    NEEDED(weft_unit_seconds, "forward", forward_s, TIME, 0, LONG),
    NEEDED(weft_unit_seconds, "backward", backward_s, TIME, 0, LONG)};
static const wefti_fact codecs[] = {
    NEEDED_TEXT(weft_codec_seconds, "name", name),
    QUANTITY(weft_codec_seconds, "begin", begin_s, TIME, 1),
    QUANTITY(weft_codec_seconds, "combine", combine_s, TIME, 1),
    QUANTITY(weft_codec_seconds, "combine_peer", combine_peer_s, TIME, 1),
    QUANTITY(weft_codec_seconds, "end", end_s, TIME, 1)};
static const wefti_fact optimizers[] = {
    NEEDED_TEXT(weft_optimizer_seconds, "name", name),
    NEEDED(weft_optimizer_seconds, "step", step_s, TIME, 0, 1)};
static const wefti_fact collectives[] = {
    NEEDED_TEXT(weft_collective_seconds, "name", name),
    NEEDED_INT(weft_collective_seconds, "nodes", nodes, 1, 1e6),
    NEEDED_INT(weft_collective_seconds, "bytes", bytes, 0, 1e15),
    NEEDED(weft_collective_seconds, "median", median_s, TIME, 0, LONG),
    QUANTITY(weft_collective_seconds, "low", low_s, TIME, LONG),
    QUANTITY(weft_collective_seconds, "high", high_s, TIME, LONG)};
static const wefti_fact steps[] = {
    {"steps", WEFTI_FACT_QUANTITY, WEFT_UNIT_TIME, 0, 0, 0, LONG, true}};

#define COUNT(table) table, (int)(sizeof table / sizeof table[0])
#define VALUE(name, doc, kind, ...)                                                      \
    {                                                                                    \
        name, WEFTI_SHAPE_VALUE, doc,                                                    \
            (const wefti_fact[]){kind(weft_cluster, name, __VA_ARGS__)}, 1, 0,           \
            WEFT_CLUSTER_LISTS                                                           \
    }
#define MAPPING(name, table, member, doc)                                                \
    {                                                                                    \
        name, WEFTI_SHAPE_MAPPING, doc, COUNT(table), offsetof(weft_cluster, member),    \
            WEFT_CLUSTER_LISTS                                                           \
    }
#define LIST(name, table, list, doc)                                                     \
    { name, WEFTI_SHAPE_LIST, doc, COUNT(table), 0, WEFT_CLUSTER_##list }

const wefti_fact_section wefti_fact_sections[WEFTI_FACT_SECTIONS] = {
    VALUE("source", "where the figures come from: probe, by hand", TEXT, source),
    VALUE("date", NULL, TEXT, date),
    VALUE("host", NULL, TEXT, host),
    VALUE("backend", NULL, TEXT, backend),
    VALUE("nodes", "what there is; threads are those of a rank", INT, nodes, 1, 1e6),
    VALUE("ranks_per_node", NULL, INT, ranks_per_node, 1, 4096),
    VALUE("sites", NULL, INT, sites, 1, 1e6),
    VALUE("threads", NULL, INT, threads, 1, 4096),
    VALUE("memory",
          "one rank while all work: its share of the memory, its matrix products, and\n"
          "# copying (bytes read and written)",
          QUANTITY, memory_bytes, BYTES, 1e18),
    VALUE("rank_flops", NULL, QUANTITY, rank_flops, WORK, 1e21),
    VALUE("rank_flops_bf16", "with model.precision bf16", QUANTITY, rank_flops_bf16, WORK,
          1e21),
    VALUE("collective_cpu",
          "processor time of a byte that another framework's collective sends", QUANTITY,
          collective_cpu_s, TIME, 1e-3),
    VALUE("launch", "of a layer's forward pass besides its tokens; backward: twice",
          QUANTITY, launch_s, TIME, 3600),
    VALUE("memory_bandwidth", NULL, QUANTITY, memory_Bps, RATE, 1e18),
    MAPPING("local", link_facts, local,
            "links, one way: inside a node, between nodes, between sites. message: what "
            "one\n# costs the processor of either end; bytes_per_message and overhead (a "
            "share): what the\n# protocol adds; residual: of the fit, as a share; "
            "incast: times that messages take while\n# three or more send to each other; "
            "up: rate out of an interface, where that is another;\n# loss: share of "
            "packets lost; jitter: mean delay beyond the latency. B/s = 8 bit/s"),
    MAPPING("wire", link_facts, wire, NULL),
    MAPPING("site", link_facts, site, NULL),
    VALUE("flows", "streams at once at which the wire was measured", INT, flows, 1, 4096),
    VALUE("stream", "what one socket carries, where several carry more", QUANTITY,
          stream_Bps, RATE, 1e18),
    LIST("links", pairs, PAIRS, "pairs of nodes that differ from the rest, one way"),
    LIST("machines", machines, MACHINES,
         "machines that differ from the rest; what is left out is as of all: of a "
         "rank\n# rank_flops and memory, of the interface bandwidth (in) and up (out)"),
    MAPPING("jitter", jitter, jitter,
            "how computing varies: spread of a step and drift of a rank (of the "
            "logarithm),\n# and how often and how long a rank stalls"),
    VALUE("model", "what computing was measured with: the next ones hold for it", TEXT,
          model),
    LIST("units", units, UNITS, "one micro-batch through one unit"),
    VALUE("rest", "of a step, what is in nothing else", QUANTITY, rest_s, TIME, LONG),
    VALUE("wake",
          "how late a thread is that sleeps until a given time (emulated wires, "
          "mesh.compute_time)",
          QUANTITY, wake_s, TIME, LONG),
    LIST("codecs", codecs, CODECS,
         "replicators and mixers on one thread, per parameter, without the exchange"),
    LIST("optimizers", optimizers, OPTIMIZERS, "on one thread, per parameter"),
    LIST("collectives", collectives, COLLECTIVES,
         "measured, to compare with: median, and 5 and 95 %"),
    {"steps", WEFTI_SHAPE_NUMBERS, "a rank's computing in step after step", COUNT(steps),
     0, WEFT_CLUSTER_STEPS},
    {NULL, WEFTI_SHAPE_VALUE, NULL, NULL, 0, 0, WEFT_CLUSTER_LISTS},
};

wefti_fact_items wefti_facts_of(weft_cluster *c, weft_cluster_list list) {
    void *pairs_at = &c->pairs, *units_at = &c->units, *codecs_at = &c->codecs,
         *optimizers_at = &c->optimizers, *collectives_at = &c->collectives,
         *steps_at = &c->step_s, *machines_at = &c->machines;
    const wefti_fact_items all[WEFT_CLUSTER_LISTS] = {
        [WEFT_CLUSTER_PAIRS] = {pairs_at, &c->n_pairs, sizeof *c->pairs},
        [WEFT_CLUSTER_UNITS] = {units_at, &c->n_units, sizeof *c->units},
        [WEFT_CLUSTER_CODECS] = {codecs_at, &c->n_codecs, sizeof *c->codecs},
        [WEFT_CLUSTER_OPTIMIZERS] = {optimizers_at, &c->n_optimizers,
                                     sizeof *c->optimizers},
        [WEFT_CLUSTER_COLLECTIVES] = {collectives_at, &c->n_collectives,
                                      sizeof *c->collectives},
        [WEFT_CLUSTER_STEPS] = {steps_at, &c->n_steps, sizeof *c->step_s},
        [WEFT_CLUSTER_MACHINES] = {machines_at, &c->n_machines, sizeof *c->machines}};
    return all[list];
}

/* Texts are printed later, so they may contain only printable characters. */
static bool parse_text(const wefti_fact *fact, const char *text, char *out) {
    char shown[512];
    size_t n = strlen(text);
    if (n >= fact->room || !wefti_is_utf8(text)) return false;
    if (!wefti_is(wefti_shown(text, shown, sizeof shown), text)) return false;
    memcpy(out, text, n + 1);
    return true;
}

bool wefti_fact_parse(const wefti_fact *fact, const char *text, void *item) {
    char *at = (char *)item + fact->offset;
    if (fact->type == WEFTI_FACT_TEXT) return parse_text(fact, text, at);
    if (fact->type == WEFTI_FACT_INT) {
        int64_t value;
        if (!weft_quantity_parse_int(text, fact->unit, &value) ||
            (double)value < fact->low || (double)value > fact->high)
            return false;
        memcpy(at, &value, sizeof value);
        return true;
    }
    double value;
    if (!weft_quantity_parse(text, fact->unit, &value) || !(value >= fact->low) ||
        !(value <= fact->high))
        return false;
    memcpy(at, &value, sizeof value);
    return true;
}

void wefti_fact_text(const wefti_fact *fact, const void *item, char *out,
                     size_t out_size) {
    const char *at = (const char *)item + fact->offset;
    char number[40];
    if (fact->type == WEFTI_FACT_INT) {
        int64_t value;
        memcpy(&value, at, sizeof value);
        snprintf(out, out_size, "%lld", (long long)value);
        return;
    }
    double value;
    memcpy(&value, at, sizeof value);
    wefti_number_text(value, number, sizeof number);
    snprintf(out, out_size, "%s%s", number, wefti_quantity_base(fact->unit));
}

void wefti_fact_expected(const wefti_fact *fact, char *out, size_t out_size) {
    if (fact->type != WEFTI_FACT_TEXT)
        weft_quantity_expected(fact->unit, fact->low, fact->high, out, out_size);
    else
        snprintf(out, out_size, "text of at most %zu bytes without control characters",
                 fact->room - 1);
}

/* The facts of single machines are relative to those of all machines, so the latter must
 * be known. */
static bool machine_fault(const weft_cluster *c, char *sentence, size_t size) {
    for (int64_t i = 0; i < c->n_machines; i++) {
        const weft_machine *m = &c->machines[i];
        bool twice = false;
        for (int64_t k = 0; k < i && i < MOST_MACHINES; k++)
            twice |= c->machines[k].node == m->node;
        if (i >= MOST_MACHINES)
            snprintf(sentence, size, "%lld machines, expected at most %d",
                     (long long)c->n_machines, (int)MOST_MACHINES);
        else if (m->node >= c->nodes || twice)
            snprintf(sentence, size,
                     "machine of node %lld%s, expected each of the %lld nodes, numbered "
                     "from 0, once at most",
                     (long long)m->node, twice ? " for the second time" : "",
                     (long long)c->nodes);
        else if (m->rank_flops > 0 && c->rank_flops <= 0)
            snprintf(sentence, size,
                     "machine of node %lld has a rank_flops, expected rank_flops of the "
                     "other machines beside the list",
                     (long long)m->node);
        else
            continue;
        return true;
    }
    return false;
}

const char *wefti_cluster_fault(const weft_cluster *c, char *sentence, size_t size) {
    if (c->nodes % c->sites != 0) {
        snprintf(sentence, size, "%lld nodes in %lld sites, expected as many in each",
                 (long long)c->nodes, (long long)c->sites);
        return "sites";
    }
    for (int64_t i = 0; i < c->n_pairs; i++) {
        const weft_link_pair *p = &c->pairs[i];
        if (p->from < c->nodes && p->to < c->nodes && p->from != p->to) continue;
        snprintf(sentence, size,
                 "a link from node %lld to node %lld, expected two of the %lld nodes, "
                 "numbered from 0",
                 (long long)p->from, (long long)p->to, (long long)c->nodes);
        return "links";
    }
    return machine_fault(c, sentence, size) ? "machines" : NULL;
}
