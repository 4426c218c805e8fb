/* SPDX-License-Identifier: MIT */
/* Line charts and bars as SVG. Pixels below are units of the view box, which is scaled to
 * the width of the card it lies in. */
#include "record/chart.h"

#include <math.h>

#include "base/memory.h"
#include "record/figure.h"

enum {
    WIDTH = WEFTI_FIGURE_WIDTH,
    HEIGHT = 300,
    LEFT = 56, /* of the plot */
    RIGHT = WIDTH - 16,
    TOP = 30,
    BOTTOM = HEIGHT - 46
};

/* ---- where things lie ---- */

typedef struct range {
    double low, high;
} range;

typedef struct frame {
    range x, y; /* x: of log10 x if x_log */
    bool x_log;
    wefti_scale x_scale, y_scale;
} frame;

static void include(range *r, double value) {
    if (!(r->low <= value)) r->low = value; /* also when low is NAN */
    if (!(r->high >= value)) r->high = value;
}

/* A range of no width gets one. */
static void widen(range *r, double share) {
    double pad = share * (r->high - r->low);
    double least = 1e-9 * fmax(fabs(r->low), fabs(r->high));
    if (r->high - r->low <= least) pad = r->low == 0 ? 0.5 : 0.1 * fabs(r->low);
    r->low -= pad;
    r->high += pad;
}

static bool fits(const wefti_chart *chart, double x, double y) {
    return wefti_drawable(x, y) && (x > 0 || !chart->x_log);
}

/* False if there is nothing to draw. */
static bool find_frame(const wefti_chart *chart, frame *f) {
    range x = {NAN, NAN}, y = {NAN, NAN};
    for (int s = 0; s < chart->n_series; s++) {
        const wefti_series *series = &chart->series[s];
        for (int64_t i = 0; i < series->n; i++) {
            if (!fits(chart, series->x[i], series->y[i])) continue;
            include(&x, series->x[i]);
            include(&y, series->y[i]);
        }
    }
    if (isnan(x.low)) return false;
    if (chart->y_from_zero) include(&y, 0);
    if (chart->y_most > y.low && chart->y_most < y.high) y.high = chart->y_most;
    f->x_scale = wefti_scale_for(chart->x_axis, fmax(fabs(x.low), fabs(x.high)));
    f->y_scale = wefti_scale_for(chart->y_axis, fmax(fabs(y.low), fabs(y.high)));
    double bottom = y.low;
    f->x_log = chart->x_log;
    if (f->x_log) x = (range){log10(x.low), log10(x.high)};
    widen(&x, 0);
    widen(&y, 0.06);
    if (chart->y_from_zero && bottom == 0) y.low = 0;
    f->x = x;
    f->y = y;
    return true;
}

static double place_x(const frame *f, double x) {
    if (f->x_log) x = log10(x);
    return LEFT + (x - f->x.low) / (f->x.high - f->x.low) * (RIGHT - LEFT);
}

static double place_y(const frame *f, double y) {
    return BOTTOM - (y - f->y.low) / (f->y.high - f->y.low) * (BOTTOM - TOP);
}

/* ---- small pieces ---- */

/* ---- axes ---- */

static void put_tick(weft_ctx *ctx, wefti_buffer *out, const wefti_ticks *ticks, int i,
                     const wefti_scale *scale) {
    double value = ticks->first + i * ticks->step;
    if (fabs(value) < 1e-9 * ticks->step) value = 0; /* no minus zero */
    wefti_buffer_fixed(ctx, out, value, ticks->decimals);
    if (value != 0) wefti_buffer_text(ctx, out, scale->suffix);
    wefti_buffer_text(ctx, out, "</text>\n");
}

static void put_axis_title(weft_ctx *ctx, wefti_buffer *out, double x, double y,
                           const char *class, const char *title,
                           const wefti_scale *scale) {
    wefti_figure_text(ctx, out, x, y, class);
    wefti_buffer_html(ctx, out, title);
    if (scale->unit[0]) {
        wefti_buffer_text(ctx, out, title[0] ? ", " : "");
        wefti_buffer_html(ctx, out, scale->unit);
    }
    wefti_buffer_text(ctx, out, "</text>\n");
}

/* Draws the little line and begins the number below it. */
static void begin_x_tick(weft_ctx *ctx, wefti_buffer *out, double x) {
    wefti_figure_line(ctx, out, "tick", x, BOTTOM, x, BOTTOM + 4);
    wefti_figure_text(ctx, out, x, BOTTOM + 18, "mid");
}

static void put_x_ticks(weft_ctx *ctx, wefti_buffer *out, const frame *f) {
    const wefti_scale *scale = &f->x_scale;
    wefti_ticks t = wefti_nice_ticks(f->x.low / scale->factor, f->x.high / scale->factor);
    for (int i = 0; i < t.n; i++) {
        begin_x_tick(ctx, out, place_x(f, (t.first + i * t.step) * scale->factor));
        put_tick(ctx, out, &t, i, scale);
    }
}

/* At powers of ten, each with its own unit. */
static void put_log_ticks(weft_ctx *ctx, wefti_buffer *out, const wefti_chart *chart,
                          const frame *f) {
    double stride = ceil((f->x.high - f->x.low) / 8);
    for (double power = ceil(f->x.low); power <= f->x.high; power += stride) {
        begin_x_tick(ctx, out, place_x(f, pow(10, power)));
        wefti_put_short(ctx, out, pow(10, power), chart->x_axis);
        wefti_buffer_text(ctx, out, "</text>\n");
    }
}

static void put_x_axis(weft_ctx *ctx, wefti_buffer *out, const wefti_chart *chart,
                       const frame *f) {
    static const wefti_scale none = {1, "", ""};
    if (f->x_log)
        put_log_ticks(ctx, out, chart, f);
    else
        put_x_ticks(ctx, out, f);
    wefti_figure_line(ctx, out, "axis", LEFT, BOTTOM, RIGHT, BOTTOM);
    put_axis_title(ctx, out, (LEFT + RIGHT) / 2.0, HEIGHT - 8, "mid name", chart->x_title,
                   f->x_log ? &none : &f->x_scale);
}

static void put_y_axis(weft_ctx *ctx, wefti_buffer *out, const wefti_chart *chart,
                       const frame *f) {
    const wefti_scale *scale = &f->y_scale;
    wefti_ticks t = wefti_nice_ticks(f->y.low / scale->factor, f->y.high / scale->factor);
    for (int i = 0; i < t.n; i++) {
        double y = place_y(f, (t.first + i * t.step) * scale->factor);
        wefti_figure_line(ctx, out, "grid", LEFT, y, RIGHT, y);
        wefti_figure_text(ctx, out, LEFT - 8, y + 4, "end");
        put_tick(ctx, out, &t, i, scale);
    }
    put_axis_title(ctx, out, LEFT - 44, 14, "name", chart->y_title, scale);
}

/* ---- series ---- */

static const char *const mark_classes[] = {"line", "thin", "faint", "dash", "dots"};

/* Is there a point between two picked ones that can not be drawn? */
static bool has_gap(const wefti_series *s, int64_t after, int64_t before) {
    for (int64_t i = after + 1; i < before; i++)
        if (!wefti_drawable(s->x[i], s->y[i])) return true;
    return false;
}

static void put_curve(weft_ctx *ctx, wefti_buffer *out, const frame *f,
                      const wefti_series *s, const int64_t *picked, int n) {
    wefti_buffer_text(ctx, out, "<path d=\"");
    int in_piece = 0;
    for (int k = 0; k < n; k++) {
        bool begins = k == 0 || has_gap(s, picked[k - 1], picked[k]);
        if (begins && in_piece == 1)
            wefti_buffer_text(ctx, out, "h.1"); /* a lone point */
        in_piece = begins ? 1 : in_piece + 1;
        wefti_figure_pair(ctx, out, begins ? "M" : "L", place_x(f, s->x[picked[k]]),
                          place_y(f, s->y[picked[k]]));
    }
    wefti_buffer_text(ctx, out, in_piece == 1 ? "h.1\"/>\n" : "\"/>\n");
}

static void put_dots(weft_ctx *ctx, wefti_buffer *out, const frame *f,
                     const wefti_series *s, const int64_t *picked, int n) {
    for (int k = 0; k < n; k++) {
        wefti_buffer_text(ctx, out, "<circle r=\"3\"");
        wefti_figure_attribute(ctx, out, "cx", place_x(f, s->x[picked[k]]));
        wefti_figure_attribute(ctx, out, "cy", place_y(f, s->y[picked[k]]));
        wefti_buffer_text(ctx, out, "><title>");
        wefti_put_short(ctx, out, s->y[picked[k]], WEFTI_AXIS_PLAIN);
        wefti_buffer_text(ctx, out, "</title></circle>\n");
    }
}

static void put_series(weft_ctx *ctx, wefti_buffer *out, const frame *f,
                       const wefti_series *s) {
    int64_t picked[WEFTI_MAX_POINTS];
    int n_thin = wefti_thin(s->x, s->y, s->n, picked), n = 0;
    for (int k = 0; k < n_thin; k++)
        if (!f->x_log || s->x[picked[k]] > 0) picked[n++] = picked[k];
    if (n == 0) return;
    wefti_buffer_print(ctx, out, "<g class=\"%s\" style=\"--c:var(--s%d)\">\n",
                       mark_classes[s->mark], s->colour);
    put_curve(ctx, out, f, s, picked, n);
    if (s->mark == WEFTI_MARK_DOTS) put_dots(ctx, out, f, s, picked, n);
    wefti_buffer_text(ctx, out, "</g>\n");
}

static void put_legend(weft_ctx *ctx, wefti_buffer *out, const wefti_chart *chart) {
    wefti_buffer_text(ctx, out, "<div class=\"legend\">\n");
    for (int s = 0; s < chart->n_series; s++) {
        const wefti_series *series = &chart->series[s];
        if (!series->label) continue;
        wefti_figure_key(ctx, out, mark_classes[series->mark], series->colour,
                         series->label);
        wefti_buffer_text(ctx, out, "</span>\n");
    }
    wefti_buffer_text(ctx, out, "</div>\n");
}

/* What lies outside the plot is cut, but not the half of a dot on its border. */
static void put_plot(weft_ctx *ctx, wefti_buffer *out, const wefti_chart *chart,
                     const frame *f) {
    enum { EDGE = 4, X = LEFT - EDGE, Y = TOP - EDGE };
    enum { W = RIGHT - LEFT + 2 * EDGE, H = BOTTOM - TOP + 2 * EDGE };
    wefti_buffer_print(ctx, out,
                       "<svg x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
                       "viewBox=\"%d %d %d %d\">\n",
                       X, Y, W, H, X, Y, W, H);
    for (int s = 0; s < chart->n_series; s++) put_series(ctx, out, f, &chart->series[s]);
    wefti_buffer_text(ctx, out, "</svg>\n");
}

void wefti_chart_write(weft_ctx *ctx, wefti_buffer *out, const wefti_chart *chart) {
    frame f;
    wefti_figure_begin(ctx, out, chart->title, chart->note);
    put_legend(ctx, out, chart);
    wefti_figure_svg(ctx, out, chart->title, HEIGHT);
    if (find_frame(chart, &f)) {
        put_y_axis(ctx, out, chart, &f);
        put_x_axis(ctx, out, chart, &f);
        put_plot(ctx, out, chart, &f);
    } else {
        wefti_figure_text(ctx, out, WIDTH / 2.0, HEIGHT / 2.0, "mid name");
        wefti_buffer_text(ctx, out, "no data</text>\n");
    }
    wefti_buffer_text(ctx, out, "</svg>\n</figure>\n");
}

/* ---- bars ---- */

enum { BAR_LEFT = 8, BAR_RIGHT = WIDTH - 8, BAR_TOP = 56 };

/* Few bars are fat, so that they fill as much of the page as a chart beside them. */
typedef struct bar_size {
    int height, step;
} bar_size;

static bar_size size_of_bars(int n_bars) {
    return n_bars <= 2 ? (bar_size){44, 104} : (bar_size){26, 62};
}

static bool counts(const wefti_part *part) {
    return part->seconds > 0 && wefti_drawable(part->seconds, 0);
}

static double total_of(const wefti_bar *bar) {
    double total = 0;
    for (int i = 0; i < bar->n_parts; i++)
        if (counts(&bar->parts[i])) total += bar->parts[i].seconds;
    return total;
}

typedef struct box {
    double x, y, width, height;
} box;

static void put_part(weft_ctx *ctx, wefti_buffer *out, const wefti_part *part, box b,
                     double share) {
    wefti_buffer_print(ctx, out, "<rect class=\"part\" style=\"--c:var(--s%d)\"",
                       part->colour);
    wefti_figure_attribute(ctx, out, "x", b.x);
    wefti_figure_attribute(ctx, out, "y", b.y);
    wefti_figure_attribute(ctx, out, "width", b.width);
    wefti_figure_attribute(ctx, out, "height", b.height);
    wefti_buffer_text(ctx, out, "/>\n");
    if (b.width < 44) return;
    wefti_figure_text(ctx, out, b.x + b.width / 2, b.y + b.height / 2 + 4, "mid inside");
    wefti_buffer_fixed(ctx, out, 100 * share, 0);
    wefti_buffer_text(ctx, out, "%</text>\n");
}

/* `place` is where a bar of `longest` seconds would lie. */
static void put_bar(weft_ctx *ctx, wefti_buffer *out, const wefti_bar *bar, box place,
                    double longest) {
    double total = total_of(bar);
    box b = place;
    wefti_figure_text(ctx, out, b.x, b.y - 10, "strong");
    wefti_buffer_html(ctx, out, bar->label);
    wefti_buffer_text(ctx, out, " ");
    wefti_put_short(ctx, out, total, WEFTI_AXIS_TIME);
    wefti_buffer_text(ctx, out, "</text>\n");
    for (int i = 0; i < bar->n_parts; i++) {
        const wefti_part *part = &bar->parts[i];
        if (!counts(part)) continue;
        b.width = part->seconds / longest * place.width;
        put_part(ctx, out, part, b, part->seconds / total);
        b.x += b.width;
    }
}

static void put_bar_legend(weft_ctx *ctx, wefti_buffer *out, const wefti_bar *bar) {
    for (int i = 0; i < bar->n_parts && bar->legend != WEFTI_LEGEND_NONE; i++) {
        const wefti_part *part = &bar->parts[i];
        wefti_figure_key(ctx, out, "block", part->colour, part->label);
        if (bar->legend == WEFTI_LEGEND_VALUES) {
            wefti_buffer_text(ctx, out, " ");
            wefti_put_short(ctx, out, counts(part) ? part->seconds : 0, WEFTI_AXIS_TIME);
        }
        wefti_buffer_text(ctx, out, "</span>\n");
    }
}

void wefti_bars_write(weft_ctx *ctx, wefti_buffer *out, const char *title,
                      const char *note, const wefti_bar *bars, int n_bars) {
    bar_size size = size_of_bars(n_bars);
    box place = {BAR_LEFT, BAR_TOP, BAR_RIGHT - BAR_LEFT, size.height};
    double longest = 0;
    for (int b = 0; b < n_bars; b++) longest = fmax(longest, total_of(&bars[b]));
    wefti_figure_begin(ctx, out, title, note);
    wefti_buffer_text(ctx, out, "<div class=\"legend\">\n");
    for (int b = 0; b < n_bars; b++) put_bar_legend(ctx, out, &bars[b]);
    wefti_buffer_text(ctx, out, "</div>\n");
    wefti_figure_svg(ctx, out, title, BAR_TOP + n_bars * size.step - size.height);
    if (!(longest > 0)) {
        wefti_figure_text(ctx, out, WIDTH / 2.0, BAR_TOP, "mid name");
        wefti_buffer_text(ctx, out, "no data</text>\n");
    }
    for (int b = 0; b < n_bars && longest > 0; b++, place.y += size.step)
        put_bar(ctx, out, &bars[b], place, longest);
    wefti_buffer_text(ctx, out, "</svg>\n</figure>\n");
}
