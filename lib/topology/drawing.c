/* SPDX-License-Identifier: MIT */
/* Draws the first steps as SVG, one panel each: members on a circle, nodes distinguished by
 * colour, a pair as a chord, a larger group as a filled polygon, a one-way link as an arrow.
 * Lines inside a node are thin. All coordinates are whole numbers of tenths of a pixel. */
#include <math.h>

#include "base/buffer.h"
#include "base/file.h"
#include "topology/topology.h"

enum {
    MAX_PANELS = 12,
    COLUMNS = 4,
    PANEL = 2000,
    HEAD = 500, /* title of the page */
    RADIUS = 700,
    LABEL_RADIUS = 850,
    MAX_LABELS = 64
};

typedef struct drawing {
    const weft_topology *t;
    weft_neighbours *near;
    int panels, dot; /* radius of a member */
    int x0, y0;      /* centre of the current panel */
} drawing;

typedef struct point {
    int x, y;
} point;

static point place(const drawing *d, int member, int radius) {
    double turn = 2 * acos(-1) * member / (double)d->t->facts.members;
    return (point){d->x0 + (int)lround(radius * sin(turn)),
                   d->y0 - (int)lround(radius * cos(turn))};
}

static bool spans_nodes(const drawing *d, int a, int b) {
    return wefti_topology_node(d->t, a) != wefti_topology_node(d->t, b);
}

static void draw_group(weft_ctx *ctx, wefti_buffer *out, const drawing *d) {
    const weft_neighbours *g = d->near;
    bool wire = spans_nodes(d, g->sources[0], g->sources[g->n_sources - 1]);
    if (g->n_sources < 2) return;
    wefti_buffer_print(ctx, out, "<polygon class=\"%s\" points=\"", wire ? "wire" : "in");
    for (int k = 0; k < g->n_sources; k++) {
        point p = place(d, g->sources[k], RADIUS);
        wefti_buffer_print(ctx, out, "%s%d,%d", k > 0 ? " " : "", p.x, p.y);
    }
    wefti_buffer_print(ctx, out, "\"/>\n");
}

static bool hears(const weft_neighbours *g, int member) {
    for (int k = 0; k < g->n_sources; k++)
        if (g->sources[k] == member) return true;
    return false;
}

/* Draws the links to targets; a link in both directions is drawn once and without an arrow. */
static void draw_links(weft_ctx *ctx, wefti_buffer *out, const drawing *d, int member) {
    point a = place(d, member, RADIUS);
    for (int k = 0; k < d->near->n_targets; k++) {
        int target = d->near->targets[k];
        bool both = hears(d->near, target);
        if (both && target < member) continue;
        point b = place(d, target, RADIUS);
        double length = fmax(hypot(b.x - a.x, b.y - a.y), 1), cut = d->dot / length;
        wefti_buffer_print(
            ctx, out, "<line class=\"%s\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"%s/>\n",
            spans_nodes(d, member, target) ? "wire" : "in", a.x, a.y,
            b.x - (int)lround(cut * (b.x - a.x)), b.y - (int)lround(cut * (b.y - a.y)),
            both ? "" : " marker-end=\"url(#tip)\"");
    }
}

static void draw_members(weft_ctx *ctx, wefti_buffer *out, const drawing *d) {
    int n = wefti_topology_members(d->t), N = (int)d->t->facts.nodes;
    for (int i = 0; i < n; i++) {
        point p = place(d, i, RADIUS), q = place(d, i, LABEL_RADIUS);
        wefti_buffer_print(ctx, out,
                           "<circle cx=\"%d\" cy=\"%d\" r=\"%d\" "
                           "fill=\"hsl(%d,65%%,45%%)\"/>\n",
                           p.x, p.y, d->dot, 360 * wefti_topology_node(d->t, i) / N);
        if (n <= MAX_LABELS)
            wefti_buffer_print(ctx, out, "<text x=\"%d\" y=\"%d\">%d</text>\n", q.x,
                               q.y + 35, i);
    }
}

static void draw_panel(weft_ctx *ctx, wefti_buffer *out, drawing *d, int step) {
    int n = wefti_topology_members(d->t);
    d->x0 = step % COLUMNS * PANEL + PANEL / 2;
    d->y0 = HEAD + step / COLUMNS * (PANEL + 200) + PANEL / 2 + 150;
    wefti_buffer_print(ctx, out,
                       "<text class=\"step\" x=\"%d\" y=\"%d\">step %d</text>\n", d->x0,
                       d->y0 - PANEL / 2 - 20, step);
    for (int i = 0; i < n; i++) {
        weft_topology_neighbours(d->t, i, step, d->near);
        if (d->near->group && d->near->self == 0) draw_group(ctx, out, d);
        if (!d->near->group) draw_links(ctx, out, d, i);
    }
    draw_members(ctx, out, d);
}

static const char *const style =
    "text{font:100px sans-serif;text-anchor:middle;fill:#222}"
    ".title{font-size:140px;text-anchor:start}.step{font-size:120px}"
    "line,polygon{stroke:#345;stroke-linejoin:round;fill:#345;fill-opacity:.12}"
    ".wire{stroke-width:24}.in{stroke-width:10;stroke:#999;fill:#999}.tip{fill:#345}"
    "@media(prefers-color-scheme:dark){svg{background:#181a1d}text{fill:#ddd}"
    "line,polygon{stroke:#9bd;fill:#9bd}.in{stroke:#777;fill:#777}.tip{fill:#9bd}}";

static void write_title(weft_ctx *ctx, wefti_buffer *out, const weft_topology_facts *f) {
    wefti_buffer_print(ctx, out,
                       "<text class=\"title\" x=\"100\" y=\"220\">%s, %lld node%s",
                       f->kind, (long long)f->nodes, f->nodes == 1 ? "" : "s");
    if (f->ranks > 1) wefti_buffer_print(ctx, out, " x %lld ranks", (long long)f->ranks);
    if (f->period)
        wefti_buffer_print(ctx, out, ", period %lld", (long long)f->period);
    else
        wefti_buffer_print(ctx, out, ", never repeats");
    wefti_buffer_print(ctx, out, "</text>\n");
}

static void write_svg(weft_ctx *ctx, wefti_buffer *out, drawing *d) {
    int rows = (d->panels + COLUMNS - 1) / COLUMNS;
    int columns = d->panels < 2 ? 2 : d->panels < COLUMNS ? d->panels : COLUMNS;
    int width = columns * PANEL, height = HEAD + rows * (PANEL + 200);
    wefti_buffer_print(ctx, out,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                       "width=\"%d\" height=\"%d\">\n<style>%s</style>\n",
                       width, height, width / 10, height / 10, style);
    wefti_buffer_print(ctx, out,
                       "<defs><marker id=\"tip\" viewBox=\"0 0 10 10\" refX=\"10\" "
                       "refY=\"5\" markerWidth=\"5\" markerHeight=\"5\" orient=\"auto\">"
                       "<path class=\"tip\" d=\"M0 0L10 5L0 10z\"/></marker></defs>\n");
    write_title(ctx, out, &d->t->facts);
    for (int step = 0; step < d->panels; step++) draw_panel(ctx, out, d, step);
    wefti_buffer_print(ctx, out, "</svg>\n");
}

weft_status weft_topology_draw(weft_ctx *ctx, const weft_topology *t, const char *path) {
    const weft_topology_facts *f = &t->facts;
    drawing d = {.t = t, .panels = MAX_PANELS};
    wefti_buffer out = {.n = 0};
    if (f->members > WEFT_TOPOLOGY_ANALYSED)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "found %lld members, expected at most %d to draw",
                             (long long)f->members, WEFT_TOPOLOGY_ANALYSED);
    if (f->period > 0 && f->period < d.panels) d.panels = (int)f->period;
    d.dot = (int)(1600 / (f->members + 12)) + 8;
    WEFT_TRY(weft_neighbours_create(ctx, t, &d.near));
    write_svg(ctx, &out, &d);
    weft_neighbours_destroy(ctx, d.near);
    weft_status status = out.status;
    if (status == WEFT_OK) status = wefti_file_write(ctx, path, out.bytes, out.n);
    wefti_buffer_fini(ctx, &out);
    return status;
}
