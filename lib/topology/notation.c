/* SPDX-License-Identifier: MIT */
/* A step as text: [01][23][4567], [02]@0.667[1], 0-1 0-2 ..., 0>1 1>2 ... Groups and
 * links are listed by their lowest member; members left alone are groups of one. */
#include "topology/topology.h"

#include <math.h>

#include "base/buffer.h"

typedef struct note {
    const weft_topology *t;
    int64_t step;
    weft_neighbours *near;
    bool symmetric; /* whether in this step every member that is heard also hears */
    bool any;       /* something was written */
} note;

static bool hears_its_targets(const weft_neighbours *g) {
    int k = 0;
    if (g->n_sources != g->n_targets + 1) return false;
    for (int j = 0; j < g->n_sources; j++)
        if (j != g->self && g->sources[j] != g->targets[k++]) return false;
    return true;
}

static void write_group(weft_ctx *ctx, wefti_buffer *out, note *n) {
    const weft_neighbours *g = n->near;
    bool wide = n->t->facts.members > 10;
    wefti_buffer_print(ctx, out, "[");
    for (int j = 0; j < g->n_sources; j++)
        wefti_buffer_print(ctx, out, "%s%d", wide && j > 0 ? " " : "", g->sources[j]);
    wefti_buffer_print(ctx, out, "]");
    if (g->mean) return;
    double others = 0; /* weight of the other node */
    int node = wefti_topology_node(n->t, g->sources[g->self]);
    for (int j = 0; j < g->n_sources; j++)
        if (wefti_topology_node(n->t, g->sources[j]) != node) others += g->weights[j];
    wefti_buffer_print(ctx, out, "@0.%03d", (int)lround(1000 * others));
}

static void write_links(weft_ctx *ctx, wefti_buffer *out, note *n, int64_t member) {
    for (int k = 0; k < n->near->n_targets; k++) {
        int target = n->near->targets[k];
        if (n->symmetric && target < member) continue;
        wefti_buffer_print(ctx, out, "%s%d%c%d", n->any ? " " : "", (int)member,
                           n->symmetric ? '-' : '>', target);
        n->any = true;
    }
}

static void write_step(weft_ctx *ctx, wefti_buffer *out, note *n) {
    int64_t members = n->t->facts.members;
    n->symmetric = true;
    n->any = false;
    for (int64_t i = 0; i < members; i++) {
        weft_topology_neighbours(n->t, i, n->step, n->near);
        n->symmetric = n->symmetric && hears_its_targets(n->near);
    }
    for (int64_t i = 0; i < members; i++) {
        weft_topology_neighbours(n->t, i, n->step, n->near);
        if (n->near->group && n->near->self == 0) write_group(ctx, out, n);
        if (!n->near->group) write_links(ctx, out, n, i);
    }
}

weft_status weft_topology_notation(weft_ctx *ctx, const weft_topology *t, int64_t step,
                                   char **text) {
    note n = {.t = t, .step = step};
    *text = NULL;
    WEFT_TRY(weft_neighbours_create(ctx, t, &n.near));
    wefti_buffer out = {.n = 0};
    wefti_buffer_text(ctx, &out, ""); /* also if no member hears another */
    write_step(ctx, &out, &n);
    weft_neighbours_destroy(ctx, n.near);
    if (out.status == WEFT_OK)
        *text = out.bytes; /* owned by the caller from here on */
    else
        wefti_buffer_fini(ctx, &out);
    return out.status;
}
