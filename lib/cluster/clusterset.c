/* SPDX-License-Identifier: MIT */
/* Facts as typed on a command line: --link 1Gbit,1ms, --node-flops 20T, --memory 64GB,
 * ... Each fact has a setter with its bounds; an invalid text is refused, with the
 * expected values in the message. */
#include <stddef.h>
#include <string.h>

#include "base/text.h"
#include "config/value.h"
#include "cluster/facts.h"

typedef struct setter setter;
struct setter {
    const char *name;
    bool (*set)(const setter *s, wefti_cluster *c, const char *text);
    const char *expected;
    size_t offset;          /* in the cluster */
    weft_quantity unit;     /* of a number */
    double low, high, most; /* bounds of a number; of a whole number `most` */
};

static bool set_int(const setter *s, wefti_cluster *c, const char *text) {
    int64_t value;
    if (!weft_quantity_parse_int(text, s->unit, &value) || value < 1 ||
        (double)value > s->most)
        return false;
    memcpy((char *)c + s->offset, &value, sizeof value);
    return true;
}

static bool set_number(const setter *s, wefti_cluster *c, const char *text) {
    double value;
    if (!weft_quantity_parse(text, s->unit, &value) || value < s->low || value > s->high)
        return false;
    bool rate = s->unit == WEFT_UNIT_RATE || s->unit == WEFT_UNIT_LINK ||
                s->unit == WEFT_UNIT_WORK;
    if (rate && !(value >= 1)) return false; /* in memory 0 means "not known" */
    memcpy((char *)c + s->offset, &value, sizeof value);
    return true;
}

/* Parses "25Gbit" or "25Gbit,20us". */
static bool set_link(const setter *s, wefti_cluster *c, const char *text) {
    double rate_Bps, latency_s = 0;
    weft_link_facts *link = (void *)((char *)c + s->offset);
    bool both = strchr(text, ',') != NULL;
    if (both && !wefti_link_parse(text, &rate_Bps, &latency_s)) return false;
    if (!both && !weft_quantity_parse(text, s->unit, &rate_Bps)) return false;
    if (!(rate_Bps >= 1) || rate_Bps > 1e18 || latency_s > 3600) return false;
    link->bandwidth_Bps = rate_Bps;
    if (both) link->latency_s = latency_s;
    return true;
}

/* Parses "1%,2s": how often, and for how long. */
static bool set_stall(const setter *s, wefti_cluster *c, const char *text) {
    static const weft_quantity units[] = {WEFT_UNIT_SHARE, WEFT_UNIT_TIME};
    double stall[2]; /* how often, how long */
    (void)s;
    if (!weft_quantity_parse_pair(text, units, stall) || stall[0] < 0 || stall[0] > 1 ||
        stall[1] < 0 || stall[1] > 3.2e7)
        return false;
    c->facts.jitter.stall_share = stall[0];
    c->facts.jitter.stall_s = stall[1];
    return true;
}

#define AT(member) offsetof(weft_cluster, member)
#define LINK(name, member)                                                               \
    {                                                                                    \
        name, set_link,                                                                  \
            "a rate above 0, and a latency if it is not 0, such as 25Gbit,20us",         \
            AT(member), WEFT_UNIT_LINK, 0, 0, 0                                          \
    }
#define INT(name, member, most)                                                          \
    {                                                                                    \
        name, set_int, "a whole number from 1 to " #most, AT(member), WEFT_UNIT_COUNT,   \
            0, 0, most                                                                   \
    }
#define SHARE(name, member)                                                              \
    { name, set_number, "a share such as 5%", AT(member), WEFT_UNIT_SHARE, 0, 2, 0 }
#define NUMBER(name, member, unit, high, expected)                                       \
    { name, set_number, expected, member, WEFT_UNIT_##unit, 0, high, 0 }

/* In a cluster 0 bytes mean "not known", so nobody can say them; "24" is no 24 GB. */
#define MEMORY(name, member)                                                             \
    { name, set_number, memory, member, WEFT_UNIT_BYTES, 1e3, 1e18, 0 }

static const char work[] = "FLOP per second such as 80T", memory[] = "a size such as "
                                                                     "16GB";
static const setter setters[] = {
    INT("nodes", nodes, 1000000),
    INT("ranks-per-node", ranks_per_node, 4096),
    INT("sites", sites, 1000000),
    INT("threads", threads, 4096),
    LINK("link", wire),
    LINK("node-link", local),
    LINK("site-link", site),
    NUMBER("message", AT(wire.message_s), TIME, 3600, "a time such as 5us"),
    NUMBER("message-bytes", AT(wire.bytes_per_message), BYTES, 1e9, "a size such as 80B"),
    SHARE("overhead", wire.overhead),
    NUMBER("up", AT(wire.up_Bps), LINK, 1e18, "a rate such as 20Mbit"),
    NUMBER("loss", AT(wire.loss), SHARE, 0.9, "a share such as 0.1%, at most 90%"),
    NUMBER("wire-jitter", AT(wire.jitter_s), TIME, 3600, "a time such as 5ms"),
    NUMBER("node-flops", offsetof(wefti_cluster, node_flops), WORK, 1e21, work),
    NUMBER("node-flops-bf16", offsetof(wefti_cluster, node_flops_bf16), WORK, 1e21, work),
    NUMBER("rank-flops", AT(rank_flops), WORK, 1e21, work),
    NUMBER("rank-flops-bf16", AT(rank_flops_bf16), WORK, 1e21, work),
    NUMBER("collective-cpu", AT(collective_cpu_s), TIME, 1e-3,
           "the time of a byte such as 0.002us"),
    NUMBER("launch", AT(launch_s), TIME, 3600, "a time such as 30us"),
    MEMORY("node-memory", offsetof(wefti_cluster, node_memory)),
    MEMORY("rank-memory", AT(memory_bytes)),
    NUMBER("memory-bandwidth", AT(memory_Bps), RATE, 1e18, "a rate such as 100GBps"),
    SHARE("jitter", jitter.spread),
    SHARE("drift", jitter.drift),
    {"stall", set_stall, "how often and how long, such as 1%,2s", 0, WEFT_UNIT_COUNT, 0,
     0, 0},
    NUMBER("rest", AT(rest_s), TIME, 3.2e7, "a time such as 2ms"),
};
enum { N_SETTERS = sizeof setters / sizeof setters[0] };

/* The value that was set last is kept: that of a whole node, or that of one rank. */
static void share_out(wefti_cluster *c, const char *name) {
    double ranks = (double)c->facts.ranks_per_node;
    if (wefti_is(name, "rank-flops")) c->node_flops = 0;
    if (wefti_is(name, "rank-flops-bf16")) c->node_flops_bf16 = 0;
    if (wefti_is(name, "rank-memory")) c->node_memory = 0;
    if (c->node_flops > 0) c->facts.rank_flops = c->node_flops / ranks;
    if (c->node_flops_bf16 > 0) c->facts.rank_flops_bf16 = c->node_flops_bf16 / ranks;
    if (c->node_memory > 0) c->facts.memory_bytes = c->node_memory / ranks;
}

weft_status weft_cluster_set(weft_ctx *ctx, weft_cluster *cluster, const char *name,
                             const char *value) {
    const char *names[N_SETTERS];
    char shown[80];
    wefti_cluster *c = (wefti_cluster *)cluster;
    for (int i = 0; i < N_SETTERS; i++) {
        names[i] = setters[i].name;
        if (!wefti_is(names[i], name)) continue;
        if (!setters[i].set(&setters[i], c, value))
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s is '%s', expected %s", name,
                                 wefti_shown(value, shown, sizeof shown),
                                 setters[i].expected);
        share_out(c, name);
        return WEFT_OK;
    }
    const char *guess = wefti_nearest(name, names, N_SETTERS);
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG, "a cluster has no '%s'%s%s%s, see docs/planning.md",
        wefti_shown(name, shown, sizeof shown), guess ? " (did you mean '" : "",
        guess ? guess : "", guess ? "'?)" : "");
}
