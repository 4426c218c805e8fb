/* SPDX-License-Identifier: MIT */
/* nodes.jsonl, read for the report. The file is anybody's: numbers have bounds, texts are cut,
 * and of a file that has grown large only the end is read, behind the first line break there. */
#define _GNU_SOURCE
#include "record/nodes.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "text/json.h"
#include "base/file.h"
#include "base/memory.h"

enum { MOST_BYTES = 8 << 20, MOST_NODES = 4096 };

const char *const wefti_node_names[WEFTI_NODE_FIGURES] = {
    "cpu_cores", "busy_share", "memory_bytes", "rank_bytes", "net_out",
    "net_in",    "wire_out",   "wire_in",      "relayed"};

double *wefti_node_figure(wefti_node *node, int i) {
    double *const all[WEFTI_NODE_FIGURES] = {
        &node->cpu_cores,  &node->busy_share, &node->memory_bytes,
        &node->rank_bytes, &node->net_out,    &node->net_in,
        &node->wire_out,   &node->wire_in,    &node->relayed};
    return all[i];
}

/* ---- read ---- */

static double number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    double x = json_is_number(value) ? json_number_value(value) : (double)NAN;
    return x >= 0 && x < 1e18 ? x : (double)NAN;
}

static bool read_node(const json_t *object, wefti_node *out) {
    const char *host = json_string_value(json_object_get(object, "host"));
    double step = number(object, "step"), node = number(object, "node");
    if (!(step <= 1e15) || !(node < MOST_NODES)) return false;
    *out = (wefti_node){.step = (int64_t)step, .node = (int)node};
    out->elapsed_s = number(object, "elapsed_s");
    out->ranks = (int)fmin(fmax(number(object, "ranks"), 0), 1 << 20);
    out->cores = (int)fmin(fmax(number(object, "cores"), 0), 1 << 20);
    out->pass_rows = (int)fmin(fmax(number(object, "pass_rows"), 0), 1 << 30);
    out->recomputes = number(object, "recomputes") > 0;
    snprintf(out->host, sizeof out->host, "%s", host ? host : "");
    for (int i = 0; i < WEFTI_NODE_FIGURES; i++)
        *wefti_node_figure(out, i) = number(object, wefti_node_names[i]);
    return true;
}

static weft_status add_line(weft_ctx *ctx, const char *line, size_t n, wefti_nodes *out,
                            int64_t *n_damaged) {
    json_error_t error;
    json_t *object = wefti_json_load(line, (int64_t)n, 0, &error);
    if (!object && wefti_json_blame(&error, WEFT_ERR_FORMAT) == WEFT_ERR_MEMORY)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for reading nodes");
    wefti_node node;
    bool good = object && json_is_object(object) && read_node(object, &node);
    json_decref(object);
    if (!good) {
        ++*n_damaged;
        return WEFT_OK;
    }
    WEFT_TRY(wefti_reserve(ctx, &out->lines, &out->room, out->n, 1, sizeof *out->lines,
                           "the nodes' lines"));
    out->lines[out->n++] = node;
    return WEFT_OK;
}

/* Whole lines only: the last one may be under way. */
static weft_status add_lines(weft_ctx *ctx, const char *path, const char *text, size_t n,
                             wefti_nodes *out) {
    int64_t n_damaged = 0;
    while (n > 0) {
        const char *end = memchr(text, '\n', n);
        if (!end) break;
        size_t length = (size_t)(end - text);
        WEFT_TRY(add_line(ctx, text, length, out, &n_damaged));
        text += length + 1;
        n -= length + 1;
    }
    if (n_damaged > 0)
        weft_ctx_log(ctx, WEFT_LOG_WARN, "%s: %lld lines are not about a node", path,
                     (long long)n_damaged);
    return WEFT_OK;
}

weft_status wefti_nodes_read(weft_ctx *ctx, const char *path, wefti_nodes *out) {
    char *text;
    int64_t n, from;
    *out = (wefti_nodes){0};
    WEFT_TRY(wefti_file_tail(ctx, path, MOST_BYTES, &text, &n, &from));
    const char *cut = from > 0 ? memchr(text, '\n', (size_t)n) : NULL; /* a line's end */
    int64_t begin = cut ? cut - text + 1 : 0;
    weft_status status =
        n == 0 ? WEFT_OK : add_lines(ctx, path, text + begin, (size_t)(n - begin), out);
    wefti_free(ctx, text);
    if (status != WEFT_OK) wefti_nodes_fini(ctx, out);
    return status;
}

void wefti_nodes_fini(weft_ctx *ctx, wefti_nodes *nodes) {
    wefti_free(ctx, nodes->lines);
    *nodes = (wefti_nodes){0};
}

/* ---- for the page ---- */

/* The next line of a node behind line `at`; n: there is none. */
static int64_t next_of(const wefti_nodes *nodes, int node, int64_t at) {
    while (++at < nodes->n && nodes->lines[at].node != node) continue;
    return at;
}

static double value_of(const wefti_node *line, int i) {
    wefti_node copy = *line;
    return i < 0 ? (double)line->step : *wefti_node_figure(&copy, i);
}

/* One column: i = -1 is the step. Every k-th line counted from the newest, so that it is kept. */
static void put_column(weft_ctx *ctx, wefti_buffer *out, const wefti_nodes *nodes,
                       int node, int i, int64_t every) {
    int64_t n = 0, k = 0;
    bool first = true;
    for (int64_t at = next_of(nodes, node, -1); at < nodes->n;
         at = next_of(nodes, node, at))
        n++;
    wefti_buffer_print(ctx, out, ",\"%s\":[", i < 0 ? "step" : wefti_node_names[i]);
    for (int64_t at = next_of(nodes, node, -1); at < nodes->n;
         at = next_of(nodes, node, at), k++) {
        if ((n - 1 - k) % every != 0) continue;
        if (!first) wefti_buffer_text(ctx, out, ",");
        wefti_buffer_short(ctx, out, value_of(&nodes->lines[at], i));
        first = false;
    }
    wefti_buffer_text(ctx, out, "]");
}

static void put_node(weft_ctx *ctx, wefti_buffer *out, const wefti_nodes *nodes,
                     const wefti_node *last, int64_t most) {
    int64_t n = 0;
    for (int64_t i = 0; i < nodes->n; i++) n += nodes->lines[i].node == last->node;
    int64_t every = n / most + 1;
    wefti_buffer_print(ctx, out,
                       "{\"node\":%d,\"ranks\":%d,\"cores\":%d,\"pass_rows\":%d,"
                       "\"recomputes\":%d,\"host\":",
                       last->node, last->ranks, last->cores, last->pass_rows,
                       last->recomputes);
    wefti_buffer_json(ctx, out, last->host);
    for (int i = -1; i < WEFTI_NODE_FIGURES; i++)
        put_column(ctx, out, nodes, last->node, i, every);
    wefti_buffer_text(ctx, out, "}");
}

/* The newest line of each node that takes part at the end: those behind the last one of node 0. */
void wefti_nodes_put(weft_ctx *ctx, wefti_buffer *out, const wefti_nodes *nodes,
                     int64_t most) {
    int64_t from = nodes->n;
    while (from > 0 && nodes->lines[from - 1].node != 0) from--;
    if (from > 0) from--;
    wefti_buffer_text(ctx, out, "[");
    for (int64_t i = from; i < nodes->n; i++) {
        if (i > from) wefti_buffer_text(ctx, out, ",");
        put_node(ctx, out, nodes, &nodes->lines[i], most);
    }
    wefti_buffer_text(ctx, out, "]");
}
