/* SPDX-License-Identifier: MIT */
/* Nodes that send in other codecs than the rest (replicator.node_values): a node behind a slow link
 * sends fewer bits.
 *
 *     3=int4,5=sign     node 3 sends int4, node 5 signs, all others replicator.values
 *
 * A node keeps its number, and who comes to the place of one that was lost has its codec; one
 * beyond those that a run began with sends replicator.values. All know this of all in every world,
 * so a message is decoded by the codec of its sender, and lengths are known beforehand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "config/value.h"
#include "job/job.h"

enum { MOST_NODES = 1024, NONE = -1 };

static weft_status refuse(weft_ctx *ctx, const char *text) {
    char shown[80];
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "replicator.node_values is '%s', expected as in 3=int4,5=int8: "
        "numbers of nodes below %d, each once, and f32, bf16, int8, int4 "
        "or sign",
        wefti_shown(text, shown, sizeof shown), (int)MOST_NODES);
}

/* codecs[MOST_NODES] <- those that are named, else NONE. */
static weft_status read_codecs(weft_ctx *ctx, const char *text, signed char *codecs) {
    char name[8];
    memset(codecs, NONE, MOST_NODES);
    for (const char *at = text; *at;) {
        char *end;
        long node = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : NONE;
        if (node < 0 || node >= MOST_NODES || *end != '=') return refuse(ctx, text);
        size_t n = strcspn(++end, ",");
        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, end);
        if (codecs[node] != NONE || wefti_value_codec_find(name) < 0)
            return refuse(ctx, text);
        codecs[node] = (signed char)wefti_value_codec_find(name);
        at = end + n;
        if (*at == ',' && !*++at) return refuse(ctx, text);
    }
    return WEFT_OK;
}

/* Copies of the model on one node are lost one by one, and their nodes are not known then. */
static weft_status read_checked(weft_ctx *ctx, const weft_config *c,
                                signed char *codecs) {
    bool parted = c->mesh.shards > 0 && c->mesh.shards < c->mesh.ranks_per_node;
    WEFT_TRY(read_codecs(ctx, c->node_values, codecs));
    if (c->mesh.sites > 1)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "replicator.node_values is %s with mesh.sites %lld, expected "
            "one site",
            c->node_values, (long long)c->mesh.sites);
    if (!parted || !wefti_is(c->mesh.on_loss, "go_on")) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "replicator.node_values is %s with mesh.shards %lld of %lld ranks "
        "on a node, expected all of them, or mesh.on_loss=end",
        c->node_values, (long long)c->mesh.shards, (long long)c->mesh.ranks_per_node);
}

weft_status wefti_codecs_check(weft_ctx *ctx, const weft_config *c) {
    signed char codecs[MOST_NODES];
    return c->node_values[0] ? read_checked(ctx, c, codecs) : WEFT_OK;
}

/* A process that comes into a run does not know yet how many nodes it has, and says one. */
static weft_status check_nodes(weft_ctx *ctx, const wefti_job *job,
                               const signed char *codecs) {
    long long nodes = job->config->mesh.nodes;
    for (int i = (int)nodes; i < MOST_NODES && nodes > 1 && !job->each.nodes; i++)
        if (codecs[i] != NONE)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "replicator.node_values names node %d, expected nodes 0 "
                                 "to %lld",
                                 i, nodes - 1);
    return WEFT_OK;
}

weft_status wefti_job_codecs(weft_ctx *ctx, wefti_job *job) {
    signed char named[MOST_NODES];
    wefti_value_codec usual = job->replicator_config.values;
    bool differ = false;
    if (!job->config->node_values[0]) return WEFT_OK;
    WEFT_TRY(read_checked(ctx, job->config, named));
    WEFT_TRY(check_nodes(ctx, job, named));
    WEFT_TRY(wefti_alloc_n(ctx, job->R, sizeof *job->each.codecs, "codecs",
                           &job->each.codecs));
    for (int i = 0; i < job->R; i++) {
        int node = job->each.nodes ? job->each.nodes[i] : i / job->copies;
        int own = node >= 0 && node < MOST_NODES ? named[node] : NONE;
        job->each.codecs[i] = own == NONE ? usual : (wefti_value_codec)own;
        differ = differ || job->each.codecs[i] != usual;
    }
    if (differ && job->R > 1) job->replicator_config.values_of = job->each.codecs;
    return WEFT_OK;
}
