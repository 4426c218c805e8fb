/* SPDX-License-Identifier: MIT */
/* A step as text: [01][23][4567], [02]@0.667[1], 0-1 0-2 ..., 0>1 1>2 ... Groups and
 * links are listed by their lowest member; members left alone are groups of one. */
#include "topology/sheet.h"
#include "topology/topology.h"

#include <math.h>

#include "base/memory.h"

typedef struct note {
    const weft_topology *t;
    int64_t step;
    weft_neighbours *near;
    bool symmetric; /* the step: who is heard also hears */
    bool any;       /* something was written */
} note;

static bool hears_its_targets(const weft_neighbours *g) {
    int k = 0;
    if (g->n_sources != g->n_targets + 1) return false;
    for (int j = 0; j < g->n_sources; j++)
        if (j != g->self && g->sources[j] != g->targets[k++]) return false;
    return true;
}

static void write_group(wefti_sheet *sheet, note *n) {
    const weft_neighbours *g = n->near;
    bool wide = n->t->facts.members > 10;
    wefti_sheet_print(sheet, "[");
    for (int j = 0; j < g->n_sources; j++)
        wefti_sheet_print(sheet, "%s%d", wide && j > 0 ? " " : "", g->sources[j]);
    wefti_sheet_print(sheet, "]");
    if (g->mean) return;
    double others = 0; /* weight of the other node */
    int node = wefti_topology_node(n->t, g->sources[g->self]);
    for (int j = 0; j < g->n_sources; j++)
        if (wefti_topology_node(n->t, g->sources[j]) != node) others += g->weights[j];
    wefti_sheet_print(sheet, "@0.%03d", (int)lround(1000 * others));
}

static void write_links(wefti_sheet *sheet, note *n, int64_t member) {
    for (int k = 0; k < n->near->n_targets; k++) {
        int target = n->near->targets[k];
        if (n->symmetric && target < member) continue;
        wefti_sheet_print(sheet, "%s%d%c%d", n->any ? " " : "", (int)member,
                          n->symmetric ? '-' : '>', target);
        n->any = true;
    }
}

static void write_step(wefti_sheet *sheet, void *user) {
    note *n = user;
    int64_t members = n->t->facts.members;
    n->symmetric = true;
    n->any = false;
    for (int64_t i = 0; i < members; i++) {
        weft_topology_neighbours(n->t, i, n->step, n->near);
        n->symmetric = n->symmetric && hears_its_targets(n->near);
    }
    for (int64_t i = 0; i < members; i++) {
        weft_topology_neighbours(n->t, i, n->step, n->near);
        if (n->near->group && n->near->self == 0) write_group(sheet, n);
        if (!n->near->group) write_links(sheet, n, i);
    }
}

weft_status weft_topology_notation(weft_ctx *ctx, const weft_topology *t, int64_t step,
                                   char **text) {
    note n = {.t = t, .step = step};
    *text = NULL;
    WEFT_TRY(weft_neighbours_create(ctx, t, &n.near));
    weft_status status = wefti_sheet_write(ctx, write_step, &n, text, NULL);
    weft_neighbours_destroy(ctx, n.near);
    return status;
}
