/* SPDX-License-Identifier: MIT */
#include "record/lanes.h"

#include <math.h>
#include <string.h>

#include "record/figure.h"
#include "record/scale.h"

enum {
    LEFT = 8,
    RIGHT = WEFTI_FIGURE_WIDTH - 8,
    TOP = 14,
    HEAD = 20,
    LANE = 20,
    GAP = 10
};
enum { FOOT = 34, MAX_KINDS = 8, MAX_RECTANGLES = 2000 };

/* What is drawn in a colour of its own; whatever else has the last one. */
static const char *const kinds[MAX_KINDS] = {"forward", "wire",  "apply", "backward",
                                             "combine", "begin", "end",   "other"};

static int kind_of(const char *what) {
    for (int k = 0; k < MAX_KINDS - 1; k++)
        if (strcmp(kinds[k], what) == 0) return k;
    return MAX_KINDS - 1;
}

typedef struct lanes {
    weft_ctx *ctx;
    wefti_buffer *out;
    double end_s; /* of the scale */
    int y;
} lanes;

static bool has_lane(const wefti_timeline *t, wefti_lane lane) {
    for (int64_t i = 0; i < t->n; i++)
        if (t->items[i].lane == lane) return true;
    return false;
}

static int height_of(const wefti_timeline *t) {
    int n = 0;
    for (int lane = 0; lane < WEFTI_LANES; lane++) n += has_lane(t, (wefti_lane)lane);
    return n * (HEAD + LANE + GAP);
}

static void find_end(const wefti_timeline *t, double *end_s) {
    for (int64_t i = 0; i < t->n; i++) *end_s = fmax(*end_s, t->items[i].end_s);
}

static double place(const lanes *l, double seconds) {
    return LEFT + fmax(seconds, 0) / l->end_s * (RIGHT - LEFT);
}

static void put_stretch(const lanes *l, const wefti_stretch *s) {
    double x = place(l, s->begin_s), width = place(l, s->end_s) - x;
    if (width < 0.05) return;
    wefti_buffer_print(l->ctx, l->out, "<rect class=\"part\" style=\"--c:var(--s%d)\"",
                       kind_of(s->what) + 1);
    wefti_figure_attribute(l->ctx, l->out, "x", x);
    wefti_figure_attribute(l->ctx, l->out, "y", l->y);
    wefti_figure_attribute(l->ctx, l->out, "width", width);
    wefti_figure_attribute(l->ctx, l->out, "height", LANE);
    wefti_buffer_text(l->ctx, l->out, "><title>");
    wefti_buffer_html(l->ctx, l->out, s->what);
    wefti_buffer_print(l->ctx, l->out, " %d: ", s->index);
    wefti_put_short(l->ctx, l->out, s->end_s - s->begin_s, WEFTI_AXIS_TIME);
    wefti_buffer_text(l->ctx, l->out, "</title></rect>\n");
}

static void put_lane(lanes *l, const wefti_timeline *t, wefti_lane lane,
                     const char *whose) {
    static const char *const names[WEFTI_LANES] = {"computing", "exchange thread",
                                                   "wire"};
    int n = 0;
    wefti_figure_text(l->ctx, l->out, LEFT, l->y + HEAD - 6, "strong");
    wefti_buffer_print(l->ctx, l->out, "%s, %s</text>\n", names[lane], whose);
    l->y += HEAD;
    for (int64_t i = 0; i < t->n && n < MAX_RECTANGLES; i++) {
        if (t->items[i].lane != lane) continue;
        put_stretch(l, &t->items[i]);
        n++;
    }
    l->y += LANE + GAP;
}

static void put_axis(const lanes *l) {
    wefti_scale scale = wefti_scale_for(WEFTI_AXIS_TIME, l->end_s);
    wefti_ticks ticks = wefti_nice_ticks(0, l->end_s / scale.factor);
    wefti_figure_line(l->ctx, l->out, "axis", LEFT, l->y, RIGHT, l->y);
    for (int i = 0; i < ticks.n; i++) {
        double value = ticks.first + i * ticks.step, x = place(l, value * scale.factor);
        bool edge = x < LEFT + 20 || x > RIGHT - 20;
        wefti_figure_line(l->ctx, l->out, "tick", x, l->y, x, l->y + 4);
        if (edge) continue;
        wefti_figure_text(l->ctx, l->out, x, l->y + 18, "mid");
        wefti_buffer_fixed(l->ctx, l->out, value, ticks.decimals);
        wefti_buffer_print(l->ctx, l->out, " %s</text>\n", scale.unit);
    }
}

static void put_legend(const lanes *l, const wefti_timeline *a, const wefti_timeline *b) {
    bool used[MAX_KINDS] = {false};
    for (int64_t i = 0; i < a->n; i++) used[kind_of(a->items[i].what)] = true;
    for (int64_t i = 0; i < b->n; i++) used[kind_of(b->items[i].what)] = true;
    wefti_buffer_text(l->ctx, l->out, "<div class=\"legend\">\n");
    for (int k = 0; k < MAX_KINDS; k++) {
        if (!used[k]) continue;
        wefti_figure_key(l->ctx, l->out, "block", k + 1, kinds[k]);
        wefti_buffer_text(l->ctx, l->out, "</span>\n");
    }
    wefti_buffer_text(l->ctx, l->out, "</div>\n");
}

void wefti_lanes_write(weft_ctx *ctx, wefti_buffer *out, const wefti_timeline *predicted,
                       const wefti_timeline *measured) {
    static const char title[] = "One step in time";
    lanes l = {.ctx = ctx, .out = out, .y = TOP - HEAD + 6};
    find_end(predicted, &l.end_s);
    find_end(measured, &l.end_s);
    if (!(l.end_s > 0)) return;
    wefti_figure_begin(ctx, out, title, "unit by unit, bucket by bucket; the first rank");
    put_legend(&l, predicted, measured);
    wefti_figure_svg(ctx, out, title,
                     l.y + height_of(predicted) + height_of(measured) + FOOT);
    for (int lane = 0; lane < WEFTI_LANES; lane++) {
        if (has_lane(measured, (wefti_lane)lane))
            put_lane(&l, measured, (wefti_lane)lane, "measured");
        if (has_lane(predicted, (wefti_lane)lane))
            put_lane(&l, predicted, (wefti_lane)lane, "predicted");
    }
    put_axis(&l);
    wefti_buffer_text(ctx, out, "</svg>\n</figure>\n");
}
